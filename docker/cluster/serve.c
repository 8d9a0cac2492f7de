/*
 * The coordinator: hands out items over HTTP, keeps their results, and says in the end what became
 * of each. What a worker may ask, each with `Authorization: Bearer TOKEN`:
 *
 *   POST /lease   {"worker"}                   200 {"item","prompt","lease","lease_ms"}; 204: none
 *                                              just now; 410: the job is over
 *   POST /renew   {"lease"}                    204; 410: it ran out
 *   POST /result  {"lease","status","result"}  204: kept, or kept before; 410: it ran out
 *   GET  /state                                200: the list as it is now
 *
 * Everything that comes in is bounded: connections, heads and bodies, and how long one may wait.
 */
#include "cluster.h"
#include "ledger.h"

#include "base/clock.h"
#include "base/str.h"
#include "json/json.h"
#include "loop/http_listener.h"

#include <signal.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <uv.h>

enum { CONNS_MOST = 256, TICK_MS = 250, SILENCE_MS = 60000, LINGER_MS = 3000 };

struct coordinator {
    uv_loop_t loop;
    struct cf_http_listener *listener;
    uv_timer_t timer;
    uv_signal_t signals[2];
    struct ledger ledger;
    const char *token;
    uint64_t began_ms, over_ms, deadline_ms;
    bool is_ending, is_late, is_stopped;
};

typedef void verb_fn(struct coordinator *boss, struct cf_http_conn *http, const json_t *body);

struct exchange {
    verb_fn *verb; /* what the body that is coming is for */
    struct cf_buf body;
};

/* ---- what is asked --------------------------------------------------------------------- */

static bool
is_authorized(const struct coordinator *boss, const char *header)
{
    size_t len = strlen(boss->token);

    return header != NULL && strncmp(header, "Bearer ", 7) == 0 && strlen(header + 7) == len &&
           sodium_memcmp(header + 7, boss->token, len) == 0;
}

static void
reply(struct cf_http_conn *http, int status, const char *text, size_t len)
{
    (void)cf_http_reply(http, status, "application/json", NULL, text, len); /* else: it is gone */
}

static void
lease(struct coordinator *boss, struct cf_http_conn *http, const json_t *body)
{
    const char *worker = cf_json_str(body, "worker");
    struct ledger_item *item = NULL;
    struct cf_buf out = {0};

    if (worker == NULL) {
        reply(http, 400, "", 0);
        return;
    }
    if (!boss->is_ending)
        item = ledger_take(&boss->ledger, worker, cf_clock_ms());
    if (item == NULL) {
        reply(http, boss->is_ending || ledger_is_over(&boss->ledger) ? 410 : 204, "", 0);
        return;
    }
    (void)cf_buf_addf(&out, "{\"item\":\"%s\",\"lease\":\"%s\",\"lease_ms\":%llu,\"prompt\":%s}",
                      item->id, item->lease, (unsigned long long)boss->ledger.lease_ms,
                      item->prompt);
    reply(http, out.failed ? 500 : 200, out.failed ? "" : out.data, out.failed ? 0 : out.len);
    cf_buf_release(&out);
}

static void
renew(struct coordinator *boss, struct cf_http_conn *http, const json_t *body)
{
    const char *id = cf_json_str(body, "lease");

    reply(http,
          id == NULL                                              ? 400
          : ledger_renew(&boss->ledger, id, cf_clock_ms()) == 0 ? 204
                                                                  : 410,
          "", 0);
}

static void
take_result(struct coordinator *boss, struct cf_http_conn *http, const json_t *body)
{
    const char *id = cf_json_str(body, "lease"), *status = cf_json_str(body, "status");
    const json_t *result = json_object_get(body, "result");
    char *text = result != NULL ? cf_json_dump(result, NULL) : NULL;
    bool is_done = status != NULL && strcmp(status, "done") == 0;

    if (id == NULL || text == NULL || (!is_done && (status == NULL || strcmp(status, "failed") != 0)))
        reply(http, 400, "", 0);
    else
        reply(http, ledger_settle(&boss->ledger, id, is_done, text, cf_clock_ms()) == 0 ? 204 : 410,
              "", 0);
    free(text);
}

static void
tell_state(struct coordinator *boss, struct cf_http_conn *http)
{
    struct cf_buf out = {.limit_bytes = 1u << 19}; /* what fits of it: a look, not the list */

    (void)ledger_tell(&boss->ledger, &out);
    reply(http, 200, out.data != NULL ? out.data : "", out.len);
    cf_buf_release(&out);
}

static void
on_request(void *user, struct cf_http_conn *http, const struct cf_http_request *request)
{
    struct exchange *exchange = calloc(1, sizeof *exchange);
    struct coordinator *boss = user;

    cf_http_conn_set_user(http, exchange);
    if (exchange == NULL)
        reply(http, 500, "", 0);
    else if (!is_authorized(boss, cf_http_header(http, "authorization")))
        reply(http, 401, "", 0);
    else if (strcmp(request->method, "GET") == 0 && strcmp(request->path, "/state") == 0)
        tell_state(boss, http);
    else if (strcmp(request->method, "POST") != 0)
        reply(http, 405, "", 0);
    else if (strcmp(request->path, "/lease") == 0)
        exchange->verb = lease;
    else if (strcmp(request->path, "/renew") == 0)
        exchange->verb = renew;
    else if (strcmp(request->path, "/result") == 0)
        exchange->verb = take_result;
    else
        reply(http, 404, "", 0);
}

static int
on_body(void *user, struct cf_http_conn *http, const char *bytes, size_t len)
{
    struct exchange *exchange = cf_http_conn_get_user(http);

    if (cf_buf_add(&exchange->body, bytes, len) == 0)
        return 0;
    reply(http, 500, "", 0);
    return -1;
}

static void
on_complete(void *user, struct cf_http_conn *http)
{
    static const struct cf_json_limits limits = {.bytes = CLUSTER_BODY_MOST, .depth = 1024};
    struct exchange *exchange = cf_http_conn_get_user(http);
    struct cf_error err = {0};
    json_t *body = cf_json_parse(exchange->body.data != NULL ? exchange->body.data : "",
                                 exchange->body.len, &limits, &err);

    if (body == NULL)
        reply(http, 400, err.text, strlen(err.text));
    else
        exchange->verb(user, http, body);
    json_decref(body);
}

static void
on_drain(void *user, struct cf_http_conn *http)
{
    /* an answer is given whole */
}

static void
on_over(void *user, struct cf_http_conn *http)
{
    struct exchange *exchange = cf_http_conn_get_user(http);

    if (exchange != NULL)
        cf_buf_release(&exchange->body);
    free(exchange);
}

static const struct cf_http_handler handler = {.on_request = on_request,
                                               .on_body = on_body,
                                               .on_complete = on_complete,
                                               .on_drain = on_drain,
                                               .on_done = on_over,
                                               .on_abort = on_over};

static struct cf_http_conn *
accept_conn(void *user, const struct cf_http_io *io, void *io_user)
{
    return cf_http_conn_new(io, io_user, &handler, user, CLUSTER_BODY_MOST);
}

/* ---- the course of it ------------------------------------------------------------------ */

static void
end(struct coordinator *boss)
{
    cf_http_listener_close(boss->listener, NULL, NULL);
    uv_close((uv_handle_t *)&boss->timer, NULL);
    for (int i = 0; i < 2; i++)
        uv_close((uv_handle_t *)&boss->signals[i], NULL);
}

/* When it is over, workers that still ask are told so, for a moment. */
static void
on_tick(uv_timer_t *timer)
{
    struct coordinator *boss = timer->data;
    uint64_t now = cf_clock_ms();

    ledger_tick(&boss->ledger, now);
    if (boss->deadline_ms > 0 && now - boss->began_ms >= boss->deadline_ms && !boss->is_ending)
        boss->is_late = boss->is_ending = true;
    if (ledger_is_over(&boss->ledger))
        boss->is_ending = true;
    if (boss->is_ending && boss->over_ms == 0)
        boss->over_ms = now;
    if (boss->over_ms > 0 && now - boss->over_ms >= LINGER_MS)
        end(boss);
}

static void
on_stop(uv_signal_t *handle, int signum)
{
    struct coordinator *boss = handle->data;

    if (boss->is_stopped)
        return;
    boss->is_stopped = true;
    end(boss);
}

static int
read_items(struct ledger *ledger, const char *path)
{
    char *text = read_file(path), *end_of_line;
    struct cf_error err = {0};
    unsigned number = 1;
    int status = text != NULL ? 0 : -1;

    for (char *at = text; status == 0 && *at != '\0'; at = end_of_line, number++) {
        size_t len = strcspn(at, "\n");
        end_of_line = at + len + (at[len] == '\n');
        if (len > 0 && ledger_add(ledger, at, len, &err) < 0) {
            fprintf(stderr, "cfrunner-pool: %s, line %u: %s\n", path, number, err.text);
            status = -1;
        }
    }
    free(text);
    return status;
}

static int
listen_at(struct coordinator *boss, const char *address, struct cf_error *err)
{
    const char *colon = strrchr(address, ':');
    struct cf_http_listener_options port = {.most_conns = CONNS_MOST,
                                            .idle_ms = SILENCE_MS,
                                            .accept = accept_conn,
                                            .user = boss};
    uint64_t number;
    char host[64];

    if (colon == NULL || (size_t)(colon - address) >= sizeof host ||
        !cf_parse_u64(colon + 1, 0, 65535, &number))
        return cf_error_set(err, CF_ERROR_CONFIG, 0, "%s is no ADDRESS:PORT", address);
    snprintf(host, sizeof host, "%.*s", (int)(colon - address), address);
    port.address = host;
    port.port = (uint16_t)number;
    if (cf_http_listener_open(&boss->loop, &port, &boss->listener, err) < 0)
        return -1;
    fprintf(stderr, "cfrunner-pool: %zu items at %s:%u\n", boss->ledger.count, host,
            cf_http_listener_port(boss->listener));
    return 0;
}

static int
print_list(struct coordinator *boss)
{
    struct cf_buf out = {0};
    size_t done = ledger_count(&boss->ledger, LEDGER_DONE);
    int code = boss->is_stopped ? 130 : boss->is_late ? 5 : done == boss->ledger.count ? 0 : 1;

    if (ledger_tell(&boss->ledger, &out) < 0 || fwrite(out.data, 1, out.len, stdout) != out.len ||
        fflush(stdout) != 0)
        code = 4;
    cf_buf_release(&out);
    return code;
}

int
serve(const struct serve_options *options)
{
    static struct coordinator boss;
    struct cf_error err = {0};
    int code = 2;

    boss.ledger.lease_ms = options->lease_ms;
    boss.ledger.retries_lost = options->retries_lost;
    boss.token = options->token;
    boss.deadline_ms = options->deadline_ms;
    boss.began_ms = cf_clock_ms();
    if (sodium_init() < 0 || uv_loop_init(&boss.loop) < 0)
        return 2;
    if (read_items(&boss.ledger, options->items) == 0) {
        if (listen_at(&boss, options->address, &err) < 0) {
            fprintf(stderr, "cfrunner-pool: %s\n", err.text);
        } else {
            for (int i = 0; i < 2; i++) {
                (void)uv_signal_init(&boss.loop, &boss.signals[i]);
                boss.signals[i].data = &boss;
                (void)uv_signal_start(&boss.signals[i], on_stop, i == 0 ? SIGINT : SIGTERM);
            }
            (void)uv_timer_init(&boss.loop, &boss.timer);
            boss.timer.data = &boss;
            (void)uv_timer_start(&boss.timer, on_tick, TICK_MS, TICK_MS);
            (void)uv_run(&boss.loop, UV_RUN_DEFAULT);
            code = print_list(&boss);
        }
    }
    ledger_release(&boss.ledger);
    return code;
}
