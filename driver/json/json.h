/*
 * json/json.h: JSON from strangers, over jansson: bounded before a tree is built, and read
 * without surprises afterwards.
 */
#ifndef CF_JSON_JSON_H
#define CF_JSON_JSON_H

#include "base/buf.h"
#include "base/error.h"

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct cf_json_limits {
    size_t bytes;           /* longest text, 0: 64 MiB */
    unsigned depth;         /* open objects and arrays at once, root is 1; 0: 128; at most 1024 */
    unsigned nodes;         /* values, the root included; 0: 4,000,000 */
    bool reject_duplicates; /* a member name twice in one object is an error */
    bool containers_only;   /* the root must be an object or an array */
};

/*
 * Parses exactly one JSON value (white space around it is fine). U+0000 inside string values is
 * allowed, in member names it is not. Numbers beyond int64 or not finite, invalid UTF-8 and
 * lone surrogates are errors. Returns the value (yours: json_decref) or NULL with `err` filled:
 * CF_ERROR_CONFIG or, over a limit, CF_ERROR_TOO_LARGE; the text names line, column and byte
 * offset. `limits` may be NULL. The depth and node limits hold while scanning, before jansson
 * builds anything.
 */
json_t *cf_json_parse(const char *bytes, size_t len, const struct cf_json_limits *limits,
                      struct cf_error *err);

/* Why a text was refused, for callers that answer each reason with a code of their own. */
enum cf_json_fault {
    CF_JSON_FAULT_NONE,
    CF_JSON_FAULT_BYTES,     /* longer than limits.bytes */
    CF_JSON_FAULT_TEXT,      /* not JSON, or not what limits.containers_only asks for */
    CF_JSON_FAULT_DUPLICATE, /* a member name twice, with limits.reject_duplicates */
    CF_JSON_FAULT_DEPTH,
    CF_JSON_FAULT_NODES,
    CF_JSON_FAULT_MEMORY
};

/* cf_json_parse with the reason as a value. *ret_value is written on CF_JSON_FAULT_NONE only. */
enum cf_json_fault cf_json_read(const char *bytes, size_t len, const struct cf_json_limits *limits,
                                json_t **ret_value, struct cf_error *err);

/* Compact text of `value`, member order kept, yours (free), NUL-terminated; *ret_len without
 * the NUL (may be NULL). NULL only when out of memory. Scalars are allowed. */
char *cf_json_dump(const json_t *value, size_t *ret_len);

/* Appends the compact text. Returns 0, or -1 when `to` is full or memory ran out. */
int cf_json_append(struct cf_buf *to, const json_t *value);

/* Appends `len` bytes of valid UTF-8 as a JSON string with its quotes; U+0000 becomes \u0000. */
int cf_json_append_string(struct cf_buf *to, const char *bytes, size_t len);

/* Member `name` when it is a string / object / array / integer / boolean, else NULL (or the
 * fallback). All accept NULL and non-objects. Borrowed from `object`. */
const char *cf_json_str(const json_t *object, const char *name);
json_t *cf_json_obj(const json_t *object, const char *name);
json_t *cf_json_arr(const json_t *object, const char *name);
int64_t cf_json_int(const json_t *object, const char *name, int64_t fallback);
bool cf_json_bool(const json_t *object, const char *name, bool fallback);

/* Appends "/" + the token with ~ and / escaped (RFC 6901). */
int cf_json_pointer_push(struct cf_buf *pointer, const char *token);

/* Values compared as JSON Schema compares them: numbers by value (1 = 1.0), objects without
 * order, no equality across types. Bounded by the trees' sizes; no recursion beyond `depth` 128. */
bool cf_json_same(const json_t *a, const json_t *b);

/* The same with a bound: each pair of values compared takes 1 from *work. Returns 1 or 0, or -1
 * when the work ran out. */
int cf_json_same_within(const json_t *a, const json_t *b, uint64_t *work);

#endif
