/*
 * json/stream.h: JSON read as it passes, without a tree. Bytes are fed in any cut; what the
 * text says comes out as events, strings decoded and in pieces. Memory is constant: nothing of
 * the text is kept but an unfinished escape, a number and a member name.
 *
 * Strict RFC 8259 grammar with two allowances: UTF-8 inside strings is passed on unchecked,
 * and a lone surrogate escape becomes U+FFFD (clients truncate text in the middle of a pair).
 */
#ifndef CF_JSON_STREAM_H
#define CF_JSON_STREAM_H

#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define CF_JSON_STREAM_DEPTH 512u /* open objects and arrays; one more is CF_ERROR_TOO_LARGE \
                                   */
#define CF_JSON_STREAM_NAME \
    256u /* bytes of a member name that are told; the rest is dropped */

enum cf_json_event {
    CF_JSON_OBJECT_OPEN,
    CF_JSON_OBJECT_CLOSE,
    CF_JSON_ARRAY_OPEN,
    CF_JSON_ARRAY_CLOSE,
    CF_JSON_NAME, /* bytes: the whole decoded name; what comes next is its value */
    CF_JSON_STRING_OPEN,
    CF_JSON_STRING_PIECE, /* bytes: decoded text, at least one byte; a character is not cut by
                             us, but may be by the input's cuts */
    CF_JSON_STRING_CLOSE,
    CF_JSON_NUMBER, /* bytes: its text; cut at 63 bytes */
    CF_JSON_TRUE,
    CF_JSON_FALSE,
    CF_JSON_NULL
};

/* `bytes` borrowed until return, NUL-terminated for names and numbers only. */
typedef void cf_json_event_fn(void *user, enum cf_json_event event, const char *bytes,
                              size_t len);

struct cf_json_stream {
    cf_json_event_fn *on_event;
    void *user;
    /* private */
    uint64_t at; /* bytes read so far */
    unsigned state, depth;
    bool is_name, is_broken;
    uint32_t unit, high; /* a \u escape in the making; the high half that waits for its low */
    unsigned digits;
    const char *word; /* the rest of true, false, null */
    enum cf_json_event word_event;
    char text[CF_JSON_STREAM_NAME + 1]; /* a name or a number */
    size_t len;
    uint8_t is_object[CF_JSON_STREAM_DEPTH / 8];
};

void cf_json_stream_init(struct cf_json_stream *stream, cf_json_event_fn *on_event,
                         void *user);

/* 0, or -1 with `err` (CF_ERROR_WIRE or CF_ERROR_TOO_LARGE, naming the byte offset); after a
 * failure every further call fails too. */
CF_CHECKED int cf_json_stream_feed(struct cf_json_stream *stream, const char *bytes,
                                   size_t len, struct cf_error *err);
/* The text is over: -1 when no value, or only part of one, has come. */
CF_CHECKED int cf_json_stream_end(struct cf_json_stream *stream, struct cf_error *err);

#endif
