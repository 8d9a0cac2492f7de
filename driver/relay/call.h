/*
 * relay/call.h: the inside of the relay. A cf_relay owns connections; a connection has at most
 * one open call; a call lives from its head to its ledger row.
 *
 * A call is judged (judge.c), its body read in passing and, when it goes upstream, kept
 * (forward.c); then it is answered by the replay model or a script (replay.c, fal_queue.c) or
 * by the provider (forward.c). Answers of our own go out at their pace (reply.c).
 */
#ifndef CF_RELAY_CALL_H
#define CF_RELAY_CALL_H

#include "base/buf.h"
#include "loop/http_client.h"
#include "relay/digest.h"
#include "relay/govern.h"
#include "relay/ledger.h"
#include "relay/relay.h"
#include "relay/route.h"
#include "relay/script.h"
#include "relay/upstream.h"

#include <sys/queue.h>

#define CF_RELAY_CONNS 1024u
#define CF_RELAY_JOBS 64u /* jobs of fal_queue that are remembered; the oldest goes first */
#define CF_RELAY_QUEUE_HIGH                                          \
    (64u * 1024) /* answer bytes in a connection above which we wait \
                  */

struct cf_job {
    char id[40], base[200]; /* "/owner/alias" */
    bool is_main, is_stalled;
    unsigned polls;
    uint64_t ready_ms; /* on the clock, not before */
    char *text;        /* a script's, or NULL */
};

struct cf_mcp {
    char *name;
    struct cf_upstream upstream;
    char *headers[CF_RELAY_MCP_HEADERS + 1];
    bool ends_in_slash;
};

struct cf_relay {
    uv_loop_t *loop;
    const struct cf_relay_dialect *dialect_table;
    unsigned dialect_count, dialects;
    char *token, *model, *private_dir;
    uint64_t max_body_bytes;
    struct cf_relay_times times;
    void (*on_call)(void *user, const struct cf_relay_call *call);
    void *user;
    const struct cf_log *log;

    struct cf_govern govern;
    struct cf_script script;
    struct cf_upstream upstreams[CF_RELAY_UPSTREAMS];
    unsigned upstream_count;
    struct cf_mcp mcp[CF_RELAY_MCP];
    unsigned mcp_count;
    struct cf_http_client *client; /* NULL without upstreams and MCP servers */

    unsigned turn;
    struct cf_needle prompt, prior;
    char *answer_nonce, *answer_json;
    bool is_revoked, is_held, is_closing;
    uv_timer_t timer; /* ends a hold */
    uv_timer_t
        clock; /* the nearest due time of an answer; once a second, connections that wait */
    uint64_t clock_at_ms, looked_ms;

    TAILQ_HEAD(, cf_relay_conn) conns;
    unsigned conn_count;
    TAILQ_HEAD(, cf_call) calls;
    unsigned call_count;
    uint64_t opened_ms, epoch_ms, last_id;
    char id_stem[33]; /* of the calls' ids */
    struct cf_ledger ledger;
    struct cf_job jobs[CF_RELAY_JOBS];
    unsigned job_count; /* ever made; the slot is its remainder */

    unsigned parts_open; /* handles that have still to close */
    void (*on_closed)(void *user);
    void *closed_user;
};

struct cf_relay_conn {
    TAILQ_ENTRY(cf_relay_conn) link;
    struct cf_relay *relay;
    struct cf_http_conn *http;
    uint64_t moved, moved_ms; /* bytes when last looked, and when they last changed */
};

struct cf_call {
    TAILQ_ENTRY(cf_call) link;
    struct cf_relay *relay;
    struct cf_http_conn *http;
    struct cf_relay_call row; /* its texts point below */
    uint64_t begun_ms, heard_ms; /* heard_ms: the request became whole, or the model spoke */
    char id[33], request_id[40];
    char path[201], method[16], model[CF_DIGEST_MODEL + 1], hint[CF_ROUTE_HINT];
    char served[CF_DIGEST_MODEL + 1];
    const char *target, *query; /* the path whole, as it came; borrowed from the connection */
    struct cf_route route;
    const struct cf_mcp *mcp; /* at CF_AT_MCP: the server */
    struct cf_digest digest;
    struct cf_error body_error;
    bool is_body_broken, is_main, is_held, is_counted; /* is_counted: by governance */
    struct cf_job *job;                                /* fal_queue's status stream */
    struct cf_rule *rule;                              /* that answers, or NULL */

    /* an answer of ours on its way out */
    bool is_sending;
    struct cf_buf body;
    size_t body_at;
    uint64_t events_sent, due_ms; /* due_ms 0: not waiting for the clock */
    struct cf_pace pace;

    struct cf_forward *forward; /* the provider's part, or NULL */
};

extern const struct cf_http_handler cf_call_handler; /* user: struct cf_relay_conn */

/* The call's row is written and the call is gone. */
void cf_call_finish(struct cf_call *call);
/* Begins the answer of a model call; what was held comes here later. The call may be gone
 * afterwards, as after every function below. */
void cf_call_answer(struct cf_call *call);

/* ---- judge.c: governance, from above to below ---------------------------------------------
 */
void cf_judge_head(struct cf_call *call, const struct cf_http_request *request);
/* The body is whole; false: refused. */
bool cf_judge_body(struct cf_call *call);

/* ---- reply.c -------------------------------------------------------------------------------
 */
/* Answers with the dialect's error body and, for clients that honour it, `x-should-retry:
 * false` (but with 429, which gets retry-after). `why` is static, one of the words in relay.h.
 */
void cf_call_refuse(struct cf_call *call, int status, const char *why, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));
/* The same body, but the call counts as served: the model or its provider failed. `headers` as
 * in cf_http_reply, or NULL. */
void cf_call_fail(struct cf_call *call, int status, const char *const *headers,
                  const char *message);
/* A JSON body; `value` is taken. */
void cf_call_reply_json(struct cf_call *call, int status, json_t *value);
void cf_call_reply_empty(struct cf_call *call, int status);
/* Sends call->body with 200, as fast as the peer reads and no faster than call->pace: JSON, or
 * with row.is_streamed an event stream, event by event. */
void cf_call_send(struct cf_call *call);
void cf_call_pump(struct cf_call *call);
void cf_call_note_head(struct cf_call *call,
                       int status); /* status and time of the first byte */

/* ---- replay.c ------------------------------------------------------------------------------
 */
void cf_replay_answer(struct cf_call *call);
/* The rule of the script that fits, put into call->rule; false when what no rule fits is
 * refused, and has been. */
bool cf_replay_find_rule(struct cf_call *call);
/* A script's text with {answer} in it replaced. Yours; NULL out of memory. */
char *cf_replay_expand(const struct cf_relay *relay, const char *text);
/* Sends the HTTP error of call->rule. */
void cf_replay_fail(struct cf_call *call);

/* ---- fal_queue.c ---------------------------------------------------------------------------
 */
void cf_queue_submit(struct cf_call *call);
void cf_queue_request(struct cf_call *call);
bool cf_queue_knows(const struct cf_call *call); /* whether the job is one of ours */
void cf_queue_stream(struct cf_call *call); /* the part of a status stream that may be held */

/* ---- forward.c
 * ------------------------------------------------------------------------------ */
/* The upstream of a call's dialect, or NULL. */
const struct cf_upstream *cf_forward_upstream(const struct cf_call *call);
/* The call will go upstream: keep its body. False: refused. */
bool cf_forward_open(struct cf_call *call);
/* Body bytes: as cf_http_handler's on_body. */
int cf_forward_body(struct cf_call *call, const char *bytes, size_t len);
void cf_forward_start(struct cf_call *call);
void cf_forward_drain(struct cf_call *call); /* the client reads again */
/* The row gets what the provider's answer told; the rest of it is given up. */
void cf_forward_close(struct cf_call *call);

/* ---- mcp.c
 * -----------------------------------------------------------------------------------
 */
CF_CHECKED int cf_mcp_init(struct cf_mcp *mcp, const struct cf_relay_mcp *from,
                           struct cf_error *err);
void cf_mcp_release(struct cf_mcp *mcp);
/* The server whose path this is, and the end of its URL's path; NULL: none. */
const struct cf_mcp *cf_mcp_find(const struct cf_relay *relay, const char *path,
                                 const char **ret_target);

/* ---- relay.c
 * -------------------------------------------------------------------------------- */
/* The clock comes at `at_ms` at the latest, and pumps what is due. */
void cf_relay_wake(struct cf_relay *relay, uint64_t at_ms);

#endif
