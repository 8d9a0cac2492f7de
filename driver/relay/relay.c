/* The relay as its owner sees it: a lease, turns, connections, a ledger. */
#include "relay/relay.h"

#include "base/clock.h"
#include "base/ids.h"
#include "base/str.h"
#include "relay/call.h"

#include <stdlib.h>
#include <string.h>

#define DEFAULT_BODY_BYTES (64ull * 1024 * 1024)
#define ANSWER_JSON_LIMIT (256u * 1024)
enum { DEFAULT_CALLS_PER_TURN = 64 };

static void
relay_free(struct cf_relay *relay)
{
    if (relay == NULL)
        return;
    cf_ledger_release(&relay->ledger);
    free(relay->token);
    free(relay->model);
    free(relay->answer_nonce);
    free(relay->answer_json);
    free(relay);
}

static int
copy_options(struct cf_relay *relay, const struct cf_relay_options *options,
             struct cf_error *err)
{
    char fresh[40];

    relay->dialect_table = options->dialect_table;
    relay->dialect_count = options->dialect_table != NULL ? options->dialect_count : 0;
    relay->dialects = options->dialects;
    relay->max_body_bytes =
        options->max_body_bytes != 0 ? options->max_body_bytes : DEFAULT_BODY_BYTES;
    relay->max_calls_per_turn = options->max_calls_per_turn != 0 ? options->max_calls_per_turn
                                                                 : DEFAULT_CALLS_PER_TURN;
    relay->on_call = options->on_call;
    relay->user = options->user;
    relay->log = options->log;
    cf_id_make("cfr_", fresh, sizeof fresh);
    if (cf_str_copy(&relay->token, options->token != NULL ? options->token : fresh, err) < 0)
        return -1;
    return cf_str_copy(&relay->model,
                       options->model != NULL ? options->model : "local-replay-model", err);
}

int
cf_relay_open(uv_loop_t *loop, const struct cf_relay_options *options,
              struct cf_relay **ret_relay, struct cf_error *err)
{
    struct cf_relay *relay = calloc(1, sizeof *relay);

    if (relay == NULL)
        return cf_error_memory(err);
    TAILQ_INIT(&relay->conns);
    TAILQ_INIT(&relay->calls);
    relay->loop = loop;
    relay->opened_ms = cf_clock_ms();
    if (copy_options(relay, options, err) < 0) {
        relay_free(relay);
        return -1;
    }
    if (cf_ledger_init(&relay->ledger) < 0 || uv_timer_init(loop, &relay->timer) != 0) {
        relay_free(relay);
        return cf_error_memory(err);
    }
    relay->timer.data = relay;
    uv_unref((uv_handle_t *)&relay->timer); /* a hold alone keeps no loop running */
    *ret_relay = relay;
    return 0;
}

const char *
cf_relay_token(const struct cf_relay *relay)
{
    return relay->token;
}

static char *
bounded_copy(const char *text, size_t limit)
{
    return text == NULL || strlen(text) > limit ? NULL : strdup(text);
}

void
cf_relay_turn_begin(struct cf_relay *relay, const struct cf_relay_turn *turn)
{
    relay->turn = turn->turn;
    relay->turn_calls = 0;
    cf_needle_set(&relay->prompt, turn->prompt_nonce);
    cf_needle_set(&relay->prior, turn->prior_nonce);
    free(relay->answer_nonce);
    free(relay->answer_json);
    relay->answer_nonce = bounded_copy(turn->answer_nonce, CF_NEEDLE_LIMIT);
    relay->answer_json = bounded_copy(turn->answer_json, ANSWER_JSON_LIMIT);
}

/* ---- holding ------------------------------------------------------------------------- */

void
cf_relay_release(struct cf_relay *relay)
{
    struct cf_call *call;

    relay->is_held = false;
    (void)uv_timer_stop(&relay->timer); /* cannot fail */
    do { /* an answer may end other calls, too: begin again each time */
        TAILQ_FOREACH(call, &relay->calls, link)
        if (call->is_held)
            break;
        if (call != NULL) {
            call->is_held = false;
            cf_call_answer(call);
        }
    } while (call != NULL && !relay->is_held);
}

static void
on_hold_over(uv_timer_t *timer)
{
    cf_relay_release(timer->data);
}

void
cf_relay_hold(struct cf_relay *relay, uint64_t at_most_ms)
{
    if (relay->is_closing)
        return;
    relay->is_held = true;
    uv_update_time(relay->loop);
    (void)uv_timer_start(&relay->timer, on_hold_over, at_most_ms,
                         0); /* fails only when closing */
}

/* ---- connections --------------------------------------------------------------------- */

struct cf_http_conn *
cf_relay_accept(struct cf_relay *relay, const struct cf_http_io *io, void *io_user)
{
    struct cf_relay_conn *conn;

    if (relay->is_closing || relay->conn_count >= CF_RELAY_CONNS)
        return NULL;
    conn = calloc(1, sizeof *conn);
    if (conn == NULL)
        return NULL;
    conn->relay = relay;
    /* the limit is ours to tell in the dialect's words; the server's own comes a little later
     */
    conn->http =
        cf_http_conn_new(io, io_user, &cf_call_handler, conn, relay->max_body_bytes + 1);
    if (conn->http == NULL) {
        free(conn);
        return NULL;
    }
    TAILQ_INSERT_TAIL(&relay->conns, conn, link);
    relay->conn_count++;
    return conn->http;
}

static void
conn_free(struct cf_relay_conn *conn)
{
    struct cf_relay *relay = conn->relay;

    TAILQ_REMOVE(&relay->conns, conn, link);
    relay->conn_count--;
    cf_http_conn_free(conn->http);
    free(conn);
}

void
cf_relay_forget(struct cf_relay *relay, struct cf_http_conn *http)
{
    struct cf_relay_conn *conn;
    struct cf_call *call;

    TAILQ_FOREACH(conn, &relay->conns, link)
    if (conn->http == http)
        break;
    if (conn == NULL)
        return;
    call = cf_http_conn_get_user(http);
    if (call != NULL) {
        call->row.is_aborted = true;
        cf_call_finish(call);
    }
    conn_free(conn);
}

void
cf_relay_revoke(struct cf_relay *relay)
{
    relay->is_revoked = true;
}

unsigned
cf_relay_calls_in_flight(const struct cf_relay *relay)
{
    return relay->call_count;
}

json_t *
cf_relay_call_json(const struct cf_relay *relay, const struct cf_relay_call *call)
{
    const char *dialect = NULL;

    for (unsigned i = 0; i < relay->dialect_count; i++)
        if (relay->dialect_table[i].id == call->dialect)
            dialect = relay->dialect_table[i].name;
    return cf_ledger_row(call, dialect);
}

json_t *
cf_relay_ledger(const struct cf_relay *relay)
{
    return json_copy(relay->ledger.rows);
}

json_t *
cf_relay_totals(const struct cf_relay *relay)
{
    return cf_ledger_totals(&relay->ledger);
}

static void
on_timer_closed(uv_handle_t *handle)
{
    struct cf_relay *relay = handle->data;
    void (*on_closed)(void *user) = relay->on_closed;
    void *user = relay->closed_user;

    relay_free(relay);
    if (on_closed != NULL)
        on_closed(user);
}

void
cf_relay_close(struct cf_relay *relay, void (*on_closed)(void *user), void *user)
{
    struct cf_relay_conn *conn;

    if (relay->is_closing)
        return;
    relay->is_closing = true;
    relay->is_revoked = true;
    relay->on_closed = on_closed;
    relay->closed_user = user;
    while ((conn = TAILQ_FIRST(&relay->conns)) != NULL) {
        struct cf_http_conn *http = conn->http;
        cf_http_reply_abort(http);    /* tells the owner, who may forget it from inside */
        cf_relay_forget(relay, http); /* else we do */
    }
    uv_close((uv_handle_t *)&relay->timer, on_timer_closed);
}
