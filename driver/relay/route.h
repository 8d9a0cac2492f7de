/* relay/route.h: which endpoint of which dialect a path is, and, when it is none, which base
 * URL seems to be one level off. Pure. */
#ifndef CF_RELAY_ROUTE_H
#define CF_RELAY_ROUTE_H

#include "relay/dialect.h"
#include "relay/relay.h"

#define CF_ROUTE_HINT 320u

enum cf_endpoint {
    CF_AT_NOTHING,
    CF_AT_ROOT,         /* / */
    CF_AT_MODELS,       /* /v1/models */
    CF_AT_MODEL,        /* the dialect's own path: a model call */
    CF_AT_COUNT_TOKENS, /* /v1/messages/count_tokens */
    CF_AT_QUEUE,        /* fal_queue: a job's status, stream, result, cancel */
    CF_AT_MCP           /* /mcp/NAME: an MCP server of this run, nobody's dialect */
};

struct cf_route {
    enum cf_endpoint endpoint;
    const struct cf_relay_dialect *dialect; /* NULL: no dialect's path, not even nearly */
    const struct cf_codec *codec;           /* never NULL; says refusals */
    const char *method; /* what the endpoint takes: "POST", "GET"; NULL: several */
};

/* fal_queue's paths are free, so they are its own only when it is among `served`; the others
 * are known whether served or not. A path near a dialect's own (one level off) gets that
 * dialect's codec, CF_AT_NOTHING and a hint; `hint` is "" otherwise. */
void cf_route_find(const struct cf_relay_dialect *table, unsigned count, unsigned served,
                   const char *path, struct cf_route *ret_route, char hint[CF_ROUTE_HINT]);

/* A job's path, cut: /owner/alias/requests/ID[/status|/status/stream|/cancel], or with one
 * more leading segment. `id` and `action` point into the path; action "" for the result. */
bool cf_route_queue(const char *path, const char **ret_id, size_t *ret_id_len,
                    const char **ret_action);

/* Whether a request's headers carry `token`, in Authorization (Bearer or Key) or x-api-key:
 * 1 yes, 0 something else, -1 nothing at all. Takes the same time for every wrong token of the
 * right length. */
int cf_route_token(const struct cf_http_conn *conn, const char *token);

#endif
