/*
 * relay/govern.h: what the lease of a run allows and what of it is spent. Pure; time comes in.
 */
#ifndef CF_RELAY_GOVERN_H
#define CF_RELAY_GOVERN_H

#include "relay/relay.h"

#define CF_GOVERN_PRICES 1000u
#define CF_GOVERN_HINT 200u

struct cf_price {      /* of a million tokens */
    const char *model; /* a name, or its beginning before a *; borrowed from the table */
    double input, output, cache_read, cache_write, call;
};

struct cf_govern {
    struct cf_relay_caps caps;
    json_t *models, *table; /* ours, or NULL */
    struct cf_price *prices;
    size_t price_count;
    uint64_t calls, turn_calls, open;
    uint64_t request_bytes, response_bytes, input_tokens, output_tokens;
    double cost;
};

/* CF_ERROR_CONFIG names what is wrong with models, prices or a cap that cannot be kept. Zeroed
 * is safe to release. */
CF_CHECKED int cf_govern_init(struct cf_govern *govern, const struct cf_relay_options *options,
                              struct cf_error *err);
void cf_govern_release(struct cf_govern *govern);

/* Whether one more model call may begin, `age_ms` after the lease began: NULL, and the call is
 * counted (cf_govern_end takes it from those at once); or the HTTP status of the refusal with
 * its reason in `hint`. 429 means: now, not for good. */
int cf_govern_begin(struct cf_govern *govern, uint64_t age_ms, char hint[CF_GOVERN_HINT]);
/* Bytes as they pass; false when they cross a cap. */
bool cf_govern_take_request(struct cf_govern *govern, uint64_t bytes,
                            char hint[CF_GOVERN_HINT]);
bool cf_govern_take_response(struct cf_govern *govern, uint64_t bytes,
                             char hint[CF_GOVERN_HINT]);
/* Whether the list allows this model, and a cost cap knows its price. */
bool cf_govern_allows(const struct cf_govern *govern, const char *model,
                      char hint[CF_GOVERN_HINT]);
/* A call that begun has ended; its tokens are in the row, its cost is put there.
 * `cached_beside`: cached tokens are not among input_tokens. */
void cf_govern_end(struct cf_govern *govern, struct cf_relay_call *row, bool cached_beside);

#endif
