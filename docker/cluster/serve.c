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
#include "json/json.h"
#include "loop/http_server.h"

#include <signal.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <uv.h>

enum { CONNS_MOST = 256, TICK_MS = 250, SILENCE_MS = 60000, LINGER_MS = 3000 };

struct coordinator {
    uv_loop_t loop;
    uv_tcp_t listener;
    uv_timer_t timer;
    uv_signal_t signals[2];
    struct ledger ledger;
    const char *token;
    uint64_t began_ms, over_ms, deadline_ms;
    struct conn *conns;
    unsigned conn_count;
    bool is_ending, is_late, is_stopped;
};

typedef void verb_fn(struct coordinator *boss, struct cf_http_conn *http, const json_t *body);

struct conn {
    struct coordinator *boss;
    verb_fn *verb; /* what the body that is coming is for */
    struct conn *next;
    uv_tcp_t tcp;
    uv_write_t write;
    struct cf_http_conn *http;
    struct cf_buf body;
    bool is_writing, is_closing, wants_close;
    uint64_t moved, moved_ms;
    char in[16 * 1024], out[64 * 1024];
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
    struct conn *conn = user;

    cf_buf_reset(&conn->body);
    if (!is_authorized(conn->boss, cf_http_header(http, "authorization")))
        reply(http, 401, "", 0);
    else if (strcmp(request->method, "GET") == 0 && strcmp(request->path, "/state") == 0)
        tell_state(conn->boss, http);
    else if (strcmp(request->method, "POST") != 0)
        reply(http, 405, "", 0);
    else if (strcmp(request->path, "/lease") == 0)
        conn->verb = lease;
    else if (strcmp(request->path, "/renew") == 0)
        conn->verb = renew;
    else if (strcmp(request->path, "/result") == 0)
        conn->verb = take_result;
    else
        reply(http, 404, "", 0);
}

static int
on_body(void *user, struct cf_http_conn *http, const char *bytes, size_t len)
{
    struct conn *conn = user;

    if (cf_buf_add(&conn->body, bytes, len) == 0)
        return 0;
    reply(http, 500, "", 0);
    return -1;
}

static void
on_complete(void *user, struct cf_http_conn *http)
{
    static const struct cf_json_limits limits = {.bytes = CLUSTER_BODY_MOST, .depth = 64};
    struct conn *conn = user;
    struct cf_error err = {0};
    json_t *body = cf_json_parse(conn->body.data != NULL ? conn->body.data : "", conn->body.len,
                                 &limits, &err);

    if (body == NULL)
        reply(http, 400, err.text, strlen(err.text));
    else
        conn->verb(conn->boss, http, body);
    json_decref(body);
    cf_buf_release(&conn->body);
}

static void
on_nothing(void *user, struct cf_http_conn *http)
{
    /* an exchange has ended, or its peer is gone: nothing is held for it */
}

static const struct cf_http_handler handler = {.on_request = on_request,
                                               .on_body = on_body,
                                               .on_complete = on_complete,
                                               .on_drain = on_nothing,
                                               .on_abort = on_nothing};

/* ---- a connection ---------------------------------------------------------------------- */

static void
on_tcp_closed(uv_handle_t *handle)
{
    struct conn *conn = handle->data, **at = &conn->boss->conns;

    while (*at != conn)
        at = &(*at)->next;
    *at = conn->next;
    conn->boss->conn_count--;
    cf_http_conn_free(conn->http);
    cf_buf_release(&conn->body);
    free(conn);
}

static void
conn_close(struct conn *conn)
{
    if (conn->is_closing)
        return;
    conn->is_closing = true;
    uv_close((uv_handle_t *)&conn->tcp, on_tcp_closed);
}

static void
on_write(uv_write_t *request, int status)
{
    struct conn *conn = request->data;

    conn->is_writing = false;
    if (conn->is_closing)
        return;
    if (status < 0 || conn->wants_close)
        conn_close(conn);
    else
        cf_http_conn_writable(conn->http);
}

static size_t
io_write(void *user, const char *bytes, size_t len)
{
    struct conn *conn = user;
    uv_buf_t buf;

    if (conn->is_writing || conn->is_closing)
        return 0;
    len = len < sizeof conn->out ? len : sizeof conn->out;
    memcpy(conn->out, bytes, len);
    buf = uv_buf_init(conn->out, (unsigned)len);
    conn->write.data = conn;
    if (uv_write(&conn->write, (uv_stream_t *)&conn->tcp, &buf, 1, on_write) != 0)
        return 0; /* the read side says why */
    conn->is_writing = true;
    return len;
}

static void
io_shutdown(void *user)
{
    struct conn *conn = user;

    if (conn->is_writing)
        conn->wants_close = true;
    else
        conn_close(conn);
}

static void
io_reset(void *user)
{
    conn_close(user);
}

static void
io_consumed(void *user, size_t len)
{
    /* every read is dealt with at once */
}

static const struct cf_http_io io = {io_write, io_shutdown, io_reset, io_consumed, NULL};

static void
on_alloc(uv_handle_t *handle, size_t suggested, uv_buf_t *buf)
{
    struct conn *conn = handle->data;

    *buf = uv_buf_init(conn->in, sizeof conn->in);
}

static void
on_read(uv_stream_t *stream, ssize_t n, const uv_buf_t *buf)
{
    struct conn *conn = stream->data;

    if (n > 0)
        cf_http_conn_feed(conn->http, buf->base, (size_t)n);
    else if (n == UV_EOF)
        cf_http_conn_eof(conn->http);
    else if (n < 0)
        cf_http_conn_gone(conn->http);
    if (n < 0)
        conn_close(conn);
}

static void
on_connection(uv_stream_t *listener, int status)
{
    struct coordinator *boss = listener->data;
    struct conn *conn = status == 0 ? calloc(1, sizeof *conn) : NULL;

    if (conn == NULL)
        return;
    conn->boss = boss;
    conn->next = boss->conns;
    boss->conns = conn;
    boss->conn_count++;
    conn->moved_ms = cf_clock_ms();
    (void)uv_tcp_init(&boss->loop, &conn->tcp);
    conn->tcp.data = conn;
    conn->http = cf_http_conn_new(&io, conn, &handler, conn, CLUSTER_BODY_MOST);
    if (uv_accept(listener, (uv_stream_t *)&conn->tcp) != 0 || conn->http == NULL ||
        boss->conn_count > CONNS_MOST ||
        uv_read_start((uv_stream_t *)&conn->tcp, on_alloc, on_read) != 0)
        conn_close(conn);
}

/* ---- the course of it ------------------------------------------------------------------ */

static void
end(struct coordinator *boss)
{
    uv_close((uv_handle_t *)&boss->listener, NULL);
    uv_close((uv_handle_t *)&boss->timer, NULL);
    for (int i = 0; i < 2; i++)
        uv_close((uv_handle_t *)&boss->signals[i], NULL);
    for (struct conn *conn = boss->conns; conn != NULL; conn = conn->next)
        conn_close(conn);
}

static void
expire(struct coordinator *boss, uint64_t now)
{
    struct conn *conn = boss->conns, *next;

    for (; conn != NULL; conn = next) {
        uint64_t moved = cf_http_conn_moved(conn->http);
        next = conn->next;
        if (moved != conn->moved)
            conn->moved_ms = now;
        conn->moved = moved;
        if (now - conn->moved_ms >= SILENCE_MS && !conn->is_closing)
            cf_http_conn_expire(conn->http);
    }
}

/* When it is over, workers that still ask are told so, for a moment. */
static void
on_tick(uv_timer_t *timer)
{
    struct coordinator *boss = timer->data;
    uint64_t now = cf_clock_ms();

    ledger_tick(&boss->ledger, now);
    expire(boss, now);
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
listen_at(struct coordinator *boss, const char *address)
{
    const char *colon = strrchr(address, ':');
    struct sockaddr_storage bound;
    struct sockaddr_in at;
    int size = sizeof bound;
    char host[64];

    if (colon == NULL || (size_t)(colon - address) >= sizeof host)
        return -1;
    snprintf(host, sizeof host, "%.*s", (int)(colon - address), address);
    if (uv_ip4_addr(host, atoi(colon + 1), &at) != 0 ||
        uv_tcp_init(&boss->loop, &boss->listener) != 0 ||
        uv_tcp_bind(&boss->listener, (const struct sockaddr *)&at, 0) != 0 ||
        uv_listen((uv_stream_t *)&boss->listener, 128, on_connection) != 0 ||
        uv_tcp_getsockname(&boss->listener, (struct sockaddr *)&bound, &size) != 0)
        return -1;
    boss->listener.data = boss;
    fprintf(stderr, "cfrunner-pool: %zu items at %s:%u\n", boss->ledger.count, host,
            ntohs(((struct sockaddr_in *)&bound)->sin_port));
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
    int code = 2;

    boss.ledger.lease_ms = options->lease_ms;
    boss.ledger.retries_lost = options->retries_lost;
    boss.token = options->token;
    boss.deadline_ms = options->deadline_ms;
    boss.began_ms = cf_clock_ms();
    if (sodium_init() < 0 || uv_loop_init(&boss.loop) < 0)
        return 2;
    if (read_items(&boss.ledger, options->items) == 0) {
        if (listen_at(&boss, options->address) < 0) {
            fprintf(stderr, "cfrunner-pool: cannot listen at %s\n", options->address);
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
