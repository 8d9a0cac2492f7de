/*
 * relay/usage.h: what a provider's answer says of its cost, read as it passes: a JSON answer,
 * or an event stream of whatever dialect. Nothing of the answer is kept. Pure.
 */
#ifndef CF_RELAY_USAGE_H
#define CF_RELAY_USAGE_H

#include "json/stream.h"

#define CF_USAGE_MODEL 200u

struct cf_usage {
    bool has_input, has_output;
    bool is_final; /* the counts are the answer's last, not those its beginning told */
    uint64_t input, output;
    uint64_t cache_read, cache_write;
    char model[CF_USAGE_MODEL + 1]; /* the model that answered, "" unknown */
};

struct cf_usage_reader {
    struct cf_usage usage; /* out; whole as far as the bytes went */
    uint64_t events;       /* frames of an event stream that have ended */

    /* private */
    struct cf_json_stream stream;
    bool is_events;
    unsigned line; /* of an event stream: where in the line we are */
    size_t line_at;
    bool has_data;
    unsigned depth;
    uint8_t where[5], key[5];
    bool in_model, is_message;
    size_t model_len;
};

/* `is_events`: text/event-stream, else one JSON value. */
void cf_usage_init(struct cf_usage_reader *reader, bool is_events);
/* Bytes in any cut. What is not JSON is passed over. */
void cf_usage_feed(struct cf_usage_reader *reader, const char *bytes, size_t len);

#endif
