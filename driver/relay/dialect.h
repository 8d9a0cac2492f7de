/*
 * relay/dialect.h: how each model dialect says an answer or a refusal. One codec a dialect;
 * all are pure: values in, bytes out.
 */
#ifndef CF_RELAY_DIALECT_H
#define CF_RELAY_DIALECT_H

#include "base/buf.h"

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum cf_part_kind { CF_PART_TEXT, CF_PART_THINKING, CF_PART_TOOL };
enum cf_stop { CF_STOP_END, CF_STOP_TOOL, CF_STOP_LENGTH, CF_STOP_REFUSAL };

struct cf_part {
    enum cf_part_kind kind;
    const char *text; /* UTF-8; of a tool call its arguments as JSON */
    size_t len;
    const char *name; /* of the tool */
};

struct cf_answer {  /* borrowed by every call below */
    const char *id; /* bare; each dialect puts its own prefix before it */
    const char *model;
    const struct cf_part *parts;
    size_t part_count;
    enum cf_stop stop;
    size_t piece_bytes; /* of one delta, about; 0: an eighth of its part */
    int64_t created;    /* unix seconds */
    uint64_t input_tokens, output_tokens;
    bool wants_usage; /* openai_chat: usage in a stream only when asked for */
};

struct cf_refusal {
    int status;
    const char *id, *message;
};

struct cf_codec {
    const char *name;
    /* Appends the whole JSON answer; the whole SSE stream, each frame ended by an empty line;
     * the error body. 0, or -1 when memory ran out or the buffer is full. */
    int (*whole)(const struct cf_answer *answer, struct cf_buf *to);  /* NULL: fal_queue */
    int (*stream)(const struct cf_answer *answer, struct cf_buf *to); /* NULL: fal_queue */
    int (*refusal)(const struct cf_refusal *refusal, struct cf_buf *to);
    /* One SSE frame that ends a stream as an error; `number` events went before it. NULL: the
     * dialect knows none. */
    int (*stream_error)(const struct cf_refusal *refusal, uint64_t number, struct cf_buf *to);
};

extern const struct cf_codec cf_codec_anthropic_messages, cf_codec_openai_chat,
    cf_codec_openai_responses, cf_codec_fal_queue;
/* For paths that no dialect claims: an error body that both families read. */
extern const struct cf_codec cf_codec_unknown;

const struct cf_codec *cf_codec_find(const char *name); /* NULL: none of that name */

/* A part's text in pieces of a few characters, so that a client has to join deltas: false at
 * the end. *at begins at 0. */
bool cf_part_piece(const struct cf_answer *answer, const struct cf_part *part, size_t *at,
                   const char **ret_bytes, size_t *ret_len);

/* Appends one SSE frame; `event` NULL: data only. `data` is taken. */
void cf_sse_frame(struct cf_buf *to, const char *event, json_t *data);
/* Appends compact JSON; `value` is taken. 0 or -1. */
int cf_dialect_json(struct cf_buf *to, json_t *value);

#endif
