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
enum { LOOK_MS = 1000 }; /* how often connections that wait are looked at */

static void on_clock(uv_timer_t *timer);

static void
relay_free(struct cf_relay *relay)
{
    if (relay == NULL)
        return;
    cf_ledger_release(&relay->ledger);
    cf_govern_release(&relay->govern);
    cf_script_release(&relay->script);
    for (unsigned i = 0; i < relay->upstream_count; i++)
        cf_upstream_release(&relay->upstreams[i]);
    for (unsigned i = 0; i < relay->mcp_count; i++)
        cf_mcp_release(&relay->mcp[i]);
    for (unsigned i = 0; i < CF_RELAY_JOBS; i++)
        free(relay->jobs[i].text);
    free(relay->private_dir);
    free(relay->token);
    free(relay->model);
    free(relay->answer_nonce);
    free(relay->answer_json);
    free(relay);
}

static void
copy_times(struct cf_relay *relay, const struct cf_relay_times *from)
{
    static const struct cf_relay_times usual = {.connect = 10000,
                                                .first_byte = 180000,
                                                .stall = 120000,
                                                .head = 30000,
                                                .body = 60000,
                                                .reader = 600000,
                                                .idle = 600000};
    struct cf_relay_times *to = &relay->times;

    *to = *from;
    to->connect = to->connect != 0 ? to->connect : usual.connect;
    to->first_byte = to->first_byte != 0 ? to->first_byte : usual.first_byte;
    to->stall = to->stall != 0 ? to->stall : usual.stall;
    to->head = to->head != 0 ? to->head : usual.head;
    to->body = to->body != 0 ? to->body : usual.body;
    to->reader = to->reader != 0 ? to->reader : usual.reader;
    to->idle = to->idle != 0 ? to->idle : usual.idle;
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
    relay->on_call = options->on_call;
    relay->user = options->user;
    relay->log = options->log;
    copy_times(relay, &options->times);
    cf_id_make("cfr_", fresh, sizeof fresh);
    cf_id_hex(relay->id_stem);
    if (cf_str_copy(&relay->token, options->token != NULL ? options->token : fresh, err) < 0 ||
        cf_str_copy(&relay->private_dir, options->private_dir, err) < 0)
        return -1;
    return cf_str_copy(&relay->model,
                       options->model != NULL ? options->model : "local-replay-model", err);
}

static int
copy_upstreams(struct cf_relay *relay, const struct cf_relay_options *options,
               struct cf_error *err)
{
    if (options->upstream_count > CF_RELAY_UPSTREAMS)
        return cf_error_set(err, CF_ERROR_CONFIG, 0, "more than %u upstreams",
                            CF_RELAY_UPSTREAMS);
    for (unsigned i = 0; i < options->upstream_count; i++) {
        if (cf_upstream_init(&relay->upstreams[i], &options->upstreams[i], err) < 0)
            return -1;
        relay->upstream_count++;
    }
    return 0;
}

static int
copy_mcp(struct cf_relay *relay, const struct cf_relay_options *options, struct cf_error *err)
{
    if (options->mcp_count > CF_RELAY_MCP)
        return cf_error_set(err, CF_ERROR_CONFIG, 0, "more than %u MCP servers", CF_RELAY_MCP);
    for (unsigned i = 0; i < options->mcp_count; i++) {
        relay->mcp_count++; /* what is half made is released, too */
        if (cf_mcp_init(&relay->mcp[i], &options->mcp[i], err) < 0)
            return -1;
        for (unsigned k = 0; k < i; k++)
            if (strcmp(relay->mcp[k].name, relay->mcp[i].name) == 0)
                return cf_error_set(err, CF_ERROR_CONFIG, 0, "two MCP servers are named %s",
                                    relay->mcp[i].name);
    }
    return 0;
}

static int
make_parts(struct cf_relay *relay, const struct cf_relay_options *options,
           struct cf_error *err)
{
    if (copy_options(relay, options, err) < 0 || copy_upstreams(relay, options, err) < 0 ||
        copy_mcp(relay, options, err) < 0 ||
        cf_govern_init(&relay->govern, options, err) < 0 ||
        cf_script_init(&relay->script, options->script, err) < 0)
        return -1;
    if (cf_ledger_init(&relay->ledger) < 0)
        return cf_error_memory(err);
    return 0;
}

int
cf_relay_check(const struct cf_relay_options *options, struct cf_error *err)
{
    struct cf_relay *relay = calloc(1, sizeof *relay);
    int status;

    if (relay == NULL)
        return cf_error_memory(err);
    status = make_parts(relay, options, err);
    relay_free(relay);
    return status;
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
    relay->epoch_ms = options->epoch_ms != 0 ? options->epoch_ms : relay->opened_ms;
    relay->clock_at_ms = UINT64_MAX;
    if (make_parts(relay, options, err) < 0 ||
        (relay->upstream_count + relay->mcp_count > 0 &&
         cf_http_client_open(loop, &relay->client, err) < 0)) {
        relay_free(relay);
        return -1;
    }
    (void)uv_timer_init(loop, &relay->timer); /* these only link them into the loop */
    (void)uv_timer_init(loop, &relay->clock);
    relay->timer.data = relay->clock.data = relay;
    uv_unref((uv_handle_t *)&relay->timer); /* a hold alone keeps no loop running */
    uv_unref((uv_handle_t *)&relay->clock);
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
    relay->govern.turn_calls = 0;
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

/* ---- the clock ----------------------------------------------------------------------- */

void
cf_relay_wake(struct cf_relay *relay, uint64_t at_ms)
{
    uint64_t now = cf_clock_ms();

    if (at_ms >= relay->clock_at_ms || relay->is_closing)
        return;
    relay->clock_at_ms = at_ms;
    uv_update_time(relay->loop);
    (void)uv_timer_start(&relay->clock, on_clock, at_ms > now ? at_ms - now : 0, 0);
}

/* Answers that were due may end other calls: the list is walked afresh after each. Returns
 * when the next one is due. */
static uint64_t
pump_due(struct cf_relay *relay, uint64_t now)
{
    struct cf_call *call;
    uint64_t next;

    do {
        next = UINT64_MAX;
        TAILQ_FOREACH(call, &relay->calls, link)
        {
            if (call->due_ms != 0 && call->due_ms <= now)
                break;
            if (call->due_ms != 0 && call->due_ms < next)
                next = call->due_ms;
        }
        if (call == NULL)
            return next;
        call->due_ms = 0;
        if (call->is_sending)
            cf_call_pump(call);
        else
            cf_call_answer(call);
    } while (!relay->is_closing);
    return UINT64_MAX;
}

static uint64_t
patience_of(const struct cf_relay *relay, const struct cf_http_conn *http)
{
    switch (cf_http_conn_waits(http)) {
    case CF_HTTP_WAITS_FOR_REQUEST:
        return relay->times.idle;
    case CF_HTTP_WAITS_FOR_HEAD:
        return relay->times.head;
    case CF_HTTP_WAITS_FOR_BODY:
        return relay->times.body;
    case CF_HTTP_WAITS_FOR_READER:
        return relay->times.reader;
    default:
        return UINT64_MAX;
    }
}

static void
expire(struct cf_http_conn *http)
{
    struct cf_call *call = cf_http_conn_get_user(http);

    if (call != NULL && cf_http_conn_waits(http) == CF_HTTP_WAITS_FOR_BODY &&
        !cf_http_reply_is_begun(http))
        cf_call_refuse(call, 408, "timeout",
                       "the rest of the request's body did not come in time");
    else
        cf_http_conn_expire(http);
}

/* Connections on which nothing moved for too long. One that expires may take others with it.
 */
static void
look_at_conns(struct cf_relay *relay, uint64_t now)
{
    struct cf_relay_conn *conn;

    do {
        TAILQ_FOREACH(conn, &relay->conns, link)
        {
            uint64_t moved = cf_http_conn_moved(conn->http);

            if (moved != conn->moved || patience_of(relay, conn->http) == UINT64_MAX) {
                conn->moved = moved;
                conn->moved_ms = now;
            } else if (now - conn->moved_ms >= patience_of(relay, conn->http)) {
                break;
            }
        }
        if (conn != NULL) {
            conn->moved_ms = now; /* once, whatever comes of it */
            expire(conn->http);
        }
    } while (conn != NULL && !relay->is_closing);
}

static void
on_clock(uv_timer_t *timer)
{
    struct cf_relay *relay = timer->data;
    uint64_t now = cf_clock_ms(), next;

    relay->clock_at_ms = UINT64_MAX;
    next = pump_due(relay, now);
    if (now - relay->looked_ms >= LOOK_MS && !relay->is_closing) {
        relay->looked_ms = now;
        look_at_conns(relay, now);
    }
    if (next != UINT64_MAX)
        cf_relay_wake(relay, next);
    if (relay->conn_count > 0)
        cf_relay_wake(relay, relay->looked_ms + LOOK_MS);
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
    conn->moved_ms = cf_clock_ms();
    TAILQ_INSERT_TAIL(&relay->conns, conn, link);
    relay->conn_count++;
    cf_relay_wake(relay, conn->moved_ms + LOOK_MS);
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
    unsigned count = relay->call_count;
    const struct cf_call *call;

    TAILQ_FOREACH(call, &relay->calls, link)
    count -= call->mcp != NULL && strcmp(call->method, "GET") == 0;
    return count;
}

uint64_t
cf_relay_silence(const struct cf_relay *relay, uint64_t *ret_call)
{
    uint64_t now = cf_clock_ms(), longest = 0;
    const struct cf_call *call;

    TAILQ_FOREACH(call, &relay->calls, link)
    {
        bool waits = call->route.endpoint == CF_AT_MODEL && call->heard_ms != 0 &&
                     !call->is_held &&
                     cf_http_conn_waits(call->http) == CF_HTTP_WAITS_FOR_US;
        if (!waits || now - call->heard_ms <= longest)
            continue;
        longest = now - call->heard_ms;
        *ret_call = call->row.id;
    }
    return longest;
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
part_closed(struct cf_relay *relay)
{
    void (*on_closed)(void *user) = relay->on_closed;
    void *user = relay->closed_user;

    if (--relay->parts_open > 0)
        return;
    relay_free(relay);
    if (on_closed != NULL)
        on_closed(user);
}

static void
on_timer_closed(uv_handle_t *handle)
{
    part_closed(handle->data);
}

static void
on_client_closed(void *user)
{
    part_closed(user);
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
    relay->parts_open = relay->client != NULL ? 3 : 2;
    uv_close((uv_handle_t *)&relay->timer, on_timer_closed);
    uv_close((uv_handle_t *)&relay->clock, on_timer_closed);
    if (relay->client != NULL)
        cf_http_client_close(relay->client, on_client_closed, relay);
}
