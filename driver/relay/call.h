/*
 * relay/call.h: the inside of the relay. A cf_relay owns connections; a connection has at most
 * one open call; a call lives from its head to its ledger row.
 */
#ifndef CF_RELAY_CALL_H
#define CF_RELAY_CALL_H

#include "base/buf.h"
#include "relay/digest.h"
#include "relay/ledger.h"
#include "relay/relay.h"
#include "relay/route.h"

#include <sys/queue.h>

#define CF_RELAY_CONNS 1024u
#define CF_RELAY_JOBS 64u /* jobs of fal_queue that are remembered; the oldest goes first */

struct cf_job {
    char id[40], base[200]; /* "/owner/alias" */
    bool is_main;
    unsigned polls;
};

struct cf_relay {
    uv_loop_t *loop;
    const struct cf_relay_dialect *dialect_table;
    unsigned dialect_count, dialects;
    char *token, *model;
    uint64_t max_body_bytes;
    unsigned max_calls_per_turn;
    void (*on_call)(void *user, const struct cf_relay_call *call);
    void *user;
    const struct cf_log *log;

    unsigned turn, turn_calls;
    struct cf_needle prompt, prior;
    char *answer_nonce, *answer_json;
    bool is_revoked, is_held, is_closing;
    uv_timer_t timer; /* ends a hold */

    TAILQ_HEAD(, cf_relay_conn) conns;
    unsigned conn_count;
    TAILQ_HEAD(, cf_call) calls;
    unsigned call_count;
    uint64_t opened_ms, last_id;
    struct cf_ledger ledger;
    struct cf_job jobs[CF_RELAY_JOBS];
    unsigned job_count; /* ever made; the slot is its remainder */

    void (*on_closed)(void *user);
    void *closed_user;
};

struct cf_relay_conn {
    TAILQ_ENTRY(cf_relay_conn) link;
    struct cf_relay *relay;
    struct cf_http_conn *http;
};

struct cf_call {
    TAILQ_ENTRY(cf_call) link;
    struct cf_relay *relay;
    struct cf_http_conn *http;
    struct cf_relay_call row; /* its texts point below */
    uint64_t begun_ms;
    char id[33], request_id[40];
    char path[201], method[16], model[CF_DIGEST_MODEL + 1], hint[CF_ROUTE_HINT];
    const char *query;
    struct cf_route route;
    struct cf_digest digest;
    struct cf_error body_error;
    bool is_body_broken, is_main, is_held, is_sending;
    struct cf_job *job; /* fal_queue's status stream */
    struct cf_buf body; /* an answer on its way out */
    size_t body_at;
};

extern const struct cf_http_handler cf_call_handler; /* user: struct cf_relay_conn */

/* The call's row is written and the call is gone. */
void cf_call_finish(struct cf_call *call);
/* Begins the answer of a model call; what was held comes here later. The call may be gone
 * afterwards, as after every function below. */
void cf_call_answer(struct cf_call *call);
/* Answers with the dialect's error body and, for clients that honour it, `x-should-retry:
 * false`. `why` is static, one of the words in relay.h. */
void cf_call_refuse(struct cf_call *call, int status, const char *why, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));
/* A JSON body; `value` is taken. */
void cf_call_reply_json(struct cf_call *call, int status, json_t *value);
/* Sends call->body with 200, as fast as the peer reads: JSON, or with row.is_streamed an event
 * stream, frame by frame. */
void cf_call_send(struct cf_call *call);

/* fal_queue.c */
void cf_queue_submit(struct cf_call *call);
void cf_queue_request(struct cf_call *call);
void cf_queue_stream(struct cf_call *call); /* the part of a status stream that may be held */

/* What the replay model says in this call. */
void cf_call_fill_answer(const struct cf_call *call, struct cf_answer *ret_answer);

#endif
