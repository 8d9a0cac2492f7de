/*
 * json/parse.c: text to tree: limits and grammar by our scanner, the tree by build.c.
 *
 * jansson's own reader still refuses what only it can see: numbers outside int64 or double, and a member name
 * given twice. Every refusal is told with line, column and byte offset.
 */
#include "json/json.h"

#include "json/build.h"
#include "json/scan.h"

#include <stdio.h>

#define DEFAULT_BYTES (64u << 20)
#define DEFAULT_DEPTH 128u
#define DEFAULT_NODES 4000000u

static void
locate(const char *bytes, size_t at, unsigned long *ret_line, unsigned long *ret_column)
{
    unsigned long line = 1, column = 1;

    for (size_t i = 0; i < at; i++) {
        if (bytes[i] == '\n') {
            line++;
            column = 1;
        } else if (((unsigned char)bytes[i] & 0xc0) != 0x80) {
            column++; /* columns count characters, not their continuation bytes */
        }
    }
    *ret_line = line;
    *ret_column = column;
}

static void
tell(const char *bytes, size_t at, enum cf_error_kind kind, const char *what,
     struct cf_error *err)
{
    unsigned long line, column;

    locate(bytes, at, &line, &column);
    (void)cf_error_set(err, kind, 0, "line %lu, column %lu (byte %zu): %s", line, column, at,
                       what);
}

static struct cf_json_limits
with_defaults(const struct cf_json_limits *given)
{
    struct cf_json_limits limits = {0};

    if (given != NULL)
        limits = *given;
    if (limits.bytes == 0)
        limits.bytes = DEFAULT_BYTES;
    if (limits.depth == 0)
        limits.depth = DEFAULT_DEPTH;
    if (limits.depth > CF_JSON_TREE_DEPTH)
        limits.depth = CF_JSON_TREE_DEPTH; /* jansson and our dumper recurse on the tree */
    if (limits.nodes == 0)
        limits.nodes = DEFAULT_NODES;
    return limits;
}

/* The pass before the tree. Returns a fault or CF_JSON_FAULT_NONE. */
static enum cf_json_fault
scan_text(const char *bytes, size_t len, const struct cf_json_limits *limits,
          struct cf_error *err)
{
    struct cf_json_scan scan = {
        .bytes = bytes, .len = len, .depth_limit = limits->depth, .node_limit = limits->nodes};
    char what[64];

    switch (cf_json_scan(&scan)) {
    case CF_JSON_SCAN_BROKEN:
        tell(bytes, scan.at, CF_ERROR_CONFIG, scan.what, err);
        return CF_JSON_FAULT_TEXT;
    case CF_JSON_SCAN_TOO_DEEP:
        snprintf(what, sizeof what, "nested deeper than %u levels", limits->depth);
        tell(bytes, scan.at, CF_ERROR_TOO_LARGE, what, err);
        return CF_JSON_FAULT_DEPTH;
    case CF_JSON_SCAN_TOO_MANY:
        snprintf(what, sizeof what, "more than %u values", limits->nodes);
        tell(bytes, scan.at, CF_ERROR_TOO_LARGE, what, err);
        return CF_JSON_FAULT_NODES;
    case CF_JSON_SCAN_OK: break;
    }
    return CF_JSON_FAULT_NONE;
}

static enum cf_json_fault
tell_jansson(const char *bytes, size_t len, const json_error_t *why, struct cf_error *err)
{
    size_t at = why->position > 0 && (size_t)why->position <= len ? (size_t)why->position : 0;

    switch (json_error_code(why)) {
    case json_error_out_of_memory: (void)cf_error_memory(err); return CF_JSON_FAULT_MEMORY;
    case json_error_duplicate_key:
        tell(bytes, at, CF_ERROR_CONFIG,
             "this member name was given before in the same object", err);
        return CF_JSON_FAULT_DUPLICATE;
    case json_error_numeric_overflow:
        tell(bytes, at, CF_ERROR_CONFIG, "a number outside the signed 64-bit or double range",
             err);
        return CF_JSON_FAULT_TEXT;
    default: tell(bytes, at, CF_ERROR_CONFIG, why->text, err); return CF_JSON_FAULT_TEXT;
    }
}

enum cf_json_fault
cf_json_read(const char *bytes, size_t len, const struct cf_json_limits *given,
             json_t **ret_value, struct cf_error *err)
{
    struct cf_json_limits limits = with_defaults(given);
    size_t flags = JSON_DECODE_ANY | JSON_ALLOW_NUL;
    enum cf_json_fault fault;
    json_error_t why;

    if (len > limits.bytes) {
        (void)cf_error_set(err, CF_ERROR_TOO_LARGE, 0, "%zu bytes of JSON, the limit is %zu",
                           len, limits.bytes);
        return CF_JSON_FAULT_BYTES;
    }
    fault = scan_text(bytes, len, &limits, err);
    if (fault != CF_JSON_FAULT_NONE)
        return fault;
    if (limits.reject_duplicates)
        flags |= JSON_REJECT_DUPLICATES;
    json_t *value = cf_json_build(bytes, len, limits.reject_duplicates);
    if (value == NULL) /* there is something to say about it */
        value = json_loadb(bytes, len, flags, &why);
    if (value == NULL)
        return tell_jansson(bytes, len, &why, err);
    if (limits.containers_only && !json_is_object(value) && !json_is_array(value)) {
        json_decref(value);
        tell(bytes, 0, CF_ERROR_CONFIG, "an object or an array belongs here", err);
        return CF_JSON_FAULT_TEXT;
    }
    *ret_value = value;
    return CF_JSON_FAULT_NONE;
}

json_t *
cf_json_parse(const char *bytes, size_t len, const struct cf_json_limits *limits,
              struct cf_error *err)
{
    json_t *value = NULL;

    return cf_json_read(bytes, len, limits, &value, err) == CF_JSON_FAULT_NONE ? value : NULL;
}
