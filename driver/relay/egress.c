/*
 * One attempt is one exchange of a server connection on the inside and one outward connection.
 * Of plain HTTP the answer is passed on byte by byte, head and all, and both connections end
 * with it; a CONNECT becomes a tunnel. Back-pressure is handed through both ways.
 */
#include "relay/egress_impl.h"

#include "base/buf.h"
#include "base/clock.h"
#include "base/str.h"
#include "base/utf8.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define EGRESS_CONNS 256u
#define EGRESS_ROWS 1000u
enum {
    LOOK_MS = 1000,
    CONNECT_MS = 10000,
    IDLE_MS = 600000,
    REQUEST_MS = 60000 /* half a head or half a body */
};

/* ---- an attempt's end ----------------------------------------------------------------------
 */

static void
egress_free(struct cf_egress *egress)
{
    void (*on_closed)(void *user) = egress->on_closed;
    void *user = egress->closed_user;

    json_decref(egress->options.hosts);
    json_decref(egress->rows);
    free(egress->hosts);
    free(egress);
    if (on_closed != NULL)
        on_closed(user);
}

static void
part_over(struct cf_egress *egress)
{
    if (egress->is_closing && egress->is_clock_closed && egress->outwards == 0)
        egress_free(egress);
}

static void
on_outward_closed(void *user)
{
    struct cf_egress *egress = user;

    egress->outwards--;
    part_over(egress);
}

static void
count_row(struct cf_egress *egress, const struct cf_egress_row *row)
{
    if (!row->is_allowed)
        egress->denied++;
    else if (row->why != NULL)
        egress->failed++;
    else
        egress->allowed++;
    egress->up_bytes += row->up_bytes;
    egress->down_bytes += row->down_bytes;
    if (json_array_size(egress->rows) >= EGRESS_ROWS ||
        json_array_append_new(egress->rows, cf_egress_row_json(row)) < 0)
        egress->dropped++;
}

static void
attempt_finish(struct cf_attempt *a)
{
    struct cf_egress *egress = a->egress;

    cf_http_conn_set_user(a->http, NULL);
    if (a->outward != NULL)
        cf_outward_close(a->outward, on_outward_closed, egress);
    a->row.total_ms = cf_clock_ms() - a->begun_ms;
    egress->attempts--;
    count_row(egress, &a->row);
    cf_log(egress->options.log, CF_LOG_DEBUG, "egress", "%s %s:%u: %s%s%s", a->method, a->host,
           a->row.port, a->row.is_allowed ? "allowed" : "denied",
           a->row.why != NULL ? ", " : "", a->row.why != NULL ? a->row.why : "");
    if (egress->options.on_row != NULL)
        egress->options.on_row(egress->options.user, &a->row);
    free(a);
}

void
cf_egress_say_no(struct cf_attempt *a, int status, const char *why, const char *fmt, ...)
{
    static const char *const headers[] = {"Connection", "close", "X-Cfrunner", "egress", NULL};
    char text[700];
    va_list args;
    int len;

    va_start(args, fmt);
    (void)vsnprintf(text, sizeof text - 1, fmt, args);
    va_end(args);
    cf_utf8_make_line(text);
    len = (int)strlen(text);
    text[len++] = '\n';
    a->row.why = why;
    a->row.status = status;
    if (!a->is_open)
        a->row.up_bytes = 0; /* what had come waited here */
    (void)cf_http_reply(a->http, status, "text/plain; charset=utf-8", headers, text,
                        (size_t)len);
}

static void
deny(struct cf_attempt *a, const char *why)
{
    unsigned port = a->row.port;
    char host[sizeof a->host + 2];

    (void)snprintf(host, sizeof host, strchr(a->host, ':') != NULL ? "[%s]" : "%s", a->host);

    if (strcmp(why, "relay") == 0)
        cf_egress_say_no(a, 403, why,
               "cfrunner: the model relay is reached directly, not through the proxy: honour "
               "NO_PROXY=127.0.0.1,localhost");
    else if (strcmp(why, "port") == 0)
        cf_egress_say_no(a, 403, why,
               "cfrunner: %s is open to this run, but not its port %u; --allow-host %s:%u "
               "opens it",
               host, port, host, port);
    else
        cf_egress_say_no(a, 403, why,
               "cfrunner: %s:%u is not open to this run; --allow-host %s%s opens it", host,
               port, host, port == 443 ? "" : ":PORT");
}

/* ---- the inside half
 * ------------------------------------------------------------------------ */

/* Of the hop, or meant for us alone. */
static bool
is_for_us(const char *name, const char *connection)
{
    static const char *const names[] = {
        "Connection", "Keep-Alive",        "Proxy-Connection", "Proxy-Authorization", "TE",
        "Trailer",    "Transfer-Encoding", "Upgrade",          "Content-Length",      "Host",
        "Expect"};

    for (size_t i = 0; i < CF_COUNT(names); i++)
        if (strcasecmp(names[i], name) == 0)
            return true;
    return connection != NULL && strcasestr(connection, name) != NULL;
}

/* The head of a plain request as its server wants it. */
static void
write_head(struct cf_attempt *a, const struct cf_http_request *request)
{
    const char *connection = cf_http_header(a->http, "Connection"), *name, *value;
    bool is_v6 = strchr(a->host, ':') != NULL;
    struct cf_buf head = {0};

    cf_buf_addf(&head, "%s %s%s%s HTTP/1.1\r\nHost: %s%s%s", request->method, request->path,
                request->query != NULL ? "?" : "",
                request->query != NULL ? request->query : "", is_v6 ? "[" : "", a->host, is_v6 ? "]" : "");
    if (a->row.port != 80)
        cf_buf_addf(&head, ":%u", a->row.port);
    cf_buf_adds(&head, "\r\nConnection: close\r\n");
    for (size_t i = 0; cf_http_header_at(a->http, i, &name, &value); i++)
        if (!is_for_us(name, connection))
            cf_buf_addf(&head, "%s: %s\r\n", name, value);
    a->is_chunked = request->content_length == UINT64_MAX;
    if (a->is_chunked)
        cf_buf_adds(&head, "Transfer-Encoding: chunked\r\n");
    else if (request->content_length > 0 || strcmp(request->method, "POST") == 0 ||
             strcmp(request->method, "PUT") == 0)
        cf_buf_addf(&head, "Content-Length: %" PRIu64 "\r\n", request->content_length);
    cf_buf_adds(&head, "\r\n");
    (void)cf_outward_write(a->outward, head.data, head.len); /* far below its limit */
    cf_buf_release(&head);
}

/* The host that a target names; false: not a proxy's target, and why. */
static bool
read_target(struct cf_attempt *a, const struct cf_http_request *request, const char **ret_why)
{
    const char *target = request->target;
    char authority[300];
    struct cf_egress_host host;
    size_t len;

    a->is_connect = strcmp(request->method, "CONNECT") == 0;
    if (!a->is_connect && strncasecmp(target, "http://", 7) != 0) {
        *ret_why = target[0] == '/'
                       ? "this is a forward proxy: set it in HTTP_PROXY and HTTPS_PROXY, not "
                         "as a base URL"
                       : "only http:// is fetched here; for https:// ask by CONNECT";
        return false;
    }
    target += a->is_connect ? 0 : 7;
    len = strcspn(target, "/?#");
    *ret_why = "the target names no host and port";
    if (len >= sizeof authority)
        return false;
    memcpy(authority, target, len);
    authority[len] = '\0';
    if (strchr(authority, '@') != NULL ||
        !cf_egress_read_authority(authority, a->is_connect ? 443 : 80, &host))
        return false;
    if (a->is_connect && strchr(target, ':') == NULL)
        return false;
    (void)snprintf(a->host, sizeof a->host, "%s", host.name);
    a->row.port = host.port;
    return true;
}

static struct cf_attempt *
attempt_new(struct cf_egress *egress, struct cf_http_conn *http, const char *method)
{
    struct cf_attempt *a = calloc(1, sizeof *a);

    if (a == NULL)
        return NULL;
    a->egress = egress;
    a->http = http;
    a->begun_ms = cf_clock_ms();
    (void)snprintf(a->method, sizeof a->method, "%s", method);
    a->row.id = ++egress->last_id;
    a->row.at_ms = a->begun_ms - egress->epoch_ms;
    a->row.turn = egress->turn;
    a->row.method = a->method;
    a->row.host = a->host;
    a->row.address = a->address;
    a->row.detail = a->detail;
    egress->attempts++;
    return a;
}

static void
on_request(void *user, struct cf_http_conn *http, const struct cf_http_request *request)
{
    struct cf_egress *egress = ((struct egress_conn *)user)->egress;
    struct cf_attempt *a = attempt_new(egress, http, request->method);
    const char *why = NULL;
    struct cf_egress_host host;

    if (a == NULL) {
        (void)cf_http_reply(http, 500, "text/plain", NULL, "out of memory\n", 14);
        return;
    }
    cf_http_conn_set_user(http, a);
    if (!read_target(a, request, &why)) {
        cf_egress_say_no(a, 400, "form", "cfrunner: %s", why);
        return;
    }
    (void)snprintf(host.name, sizeof host.name, "%s", a->host);
    host.port = a->row.port;
    why = cf_egress_closed_why(egress, &host);
    if (why != NULL) {
        deny(a, why);
        return;
    }
    a->row.is_allowed = true;
    cf_egress_go_outward(a);
    if (cf_http_conn_get_user(http) == a && a->outward != NULL && !a->is_connect)
        write_head(a, request);
}

static int
on_body(void *user, struct cf_http_conn *http, const char *bytes, size_t len)
{
    struct cf_attempt *a = cf_http_conn_get_user(http);
    struct cf_buf chunk = {0};
    bool has_room;

    if (a == NULL || a->outward == NULL)
        return 0; /* answered already: the rest is dropped */
    a->row.up_bytes += len;
    if (a->is_chunked) {
        cf_buf_addf(&chunk, "%zx\r\n", len);
        cf_buf_add(&chunk, bytes, len);
        cf_buf_adds(&chunk, "\r\n");
        has_room = cf_outward_write(a->outward, chunk.data, chunk.len);
        cf_buf_release(&chunk);
    } else {
        has_room = cf_outward_write(a->outward, bytes, len);
    }
    a->waits_for_room = !has_room;
    return has_room ? 0 : CF_HTTP_PAUSE;
}

/* Comes for the request, and once more for the end of a tunnel's inner half. */
static void
on_complete(void *user, struct cf_http_conn *http)
{
    struct cf_attempt *a = cf_http_conn_get_user(http);

    if (a == NULL || a->outward == NULL)
        return;
    if (a->is_connect && a->is_open)
        cf_outward_shutdown(a->outward);
    else if (a->is_chunked)
        (void)cf_outward_write(a->outward, "0\r\n\r\n", 5);
}

static void
on_drain(void *user, struct cf_http_conn *http)
{
    struct cf_attempt *a = cf_http_conn_get_user(http);

    if (a == NULL || !a->is_paused || cf_http_reply_queued(http) > EGRESS_QUEUE_HIGH)
        return;
    a->is_paused = false;
    cf_outward_resume(a->outward);
}

static void
on_done(void *user, struct cf_http_conn *http)
{
    struct cf_attempt *a = cf_http_conn_get_user(http);

    if (a != NULL)
        attempt_finish(a);
}

static void
on_abort(void *user, struct cf_http_conn *http)
{
    struct cf_attempt *a = cf_http_conn_get_user(http);

    if (a == NULL)
        return;
    a->row.is_aborted = true;
    attempt_finish(a);
}

static void
on_malformed(void *user, struct cf_http_conn *http, int status, const char *why)
{
    struct cf_egress *egress = ((struct egress_conn *)user)->egress;
    struct cf_attempt *a = attempt_new(egress, http, "");

    if (a == NULL)
        return;
    a->row.status = status;
    a->row.why = "form";
    (void)snprintf(a->detail, sizeof a->detail, "%s", why);
    attempt_finish(a);
}

static const struct cf_http_handler handler = {on_request, on_body,  on_complete, on_drain,
                                               on_done,    on_abort, on_malformed};

/* ---- connections
 * ------------------------------------------------------------------------------ */

static struct egress_conn *
find_conn(struct cf_egress *egress, const struct cf_http_conn *http)
{
    struct egress_conn *conn;

    TAILQ_FOREACH(conn, &egress->conns, link)
    if (conn->http == http)
        return conn;
    return NULL;
}

struct cf_http_conn *
cf_egress_accept(struct cf_egress *egress, const struct cf_http_io *io, void *io_user)
{
    struct egress_conn *conn;

    if (egress->is_closing || egress->conn_count >= EGRESS_CONNS)
        return NULL;
    conn = calloc(1, sizeof *conn);
    if (conn == NULL)
        return NULL;
    conn->egress = egress;
    conn->http = cf_http_conn_new(io, io_user, &handler, conn, 0);
    if (conn->http == NULL) {
        free(conn);
        return NULL;
    }
    conn->moved_ms = cf_clock_ms();
    TAILQ_INSERT_TAIL(&egress->conns, conn, link);
    egress->conn_count++;
    return conn->http;
}

void
cf_egress_forget(struct cf_egress *egress, struct cf_http_conn *http)
{
    struct egress_conn *conn = find_conn(egress, http);
    struct cf_attempt *a;

    if (conn == NULL)
        return;
    a = cf_http_conn_get_user(http);
    if (a != NULL) {
        a->row.is_aborted = true;
        attempt_finish(a);
    }
    TAILQ_REMOVE(&egress->conns, conn, link);
    egress->conn_count--;
    cf_http_conn_free(http);
    free(conn);
}

static uint64_t
patience_of(const struct cf_egress *egress, const struct cf_http_conn *http)
{
    enum cf_http_wait waits = cf_http_conn_waits(http);
    bool is_half = waits == CF_HTTP_WAITS_FOR_HEAD || waits == CF_HTTP_WAITS_FOR_BODY;

    return is_half && egress->options.idle_ms > REQUEST_MS ? REQUEST_MS
                                                           : egress->options.idle_ms;
}

/* A tunnel, too, may not lie still for ever. */
static void
on_clock(uv_timer_t *timer)
{
    struct cf_egress *egress = timer->data;
    struct egress_conn *conn;
    uint64_t now = cf_clock_ms();

    do {
        TAILQ_FOREACH(conn, &egress->conns, link)
        {
            uint64_t moved = cf_http_conn_moved(conn->http);

            if (moved != conn->moved) {
                conn->moved = moved;
                conn->moved_ms = now;
            } else if (now - conn->moved_ms >= patience_of(egress, conn->http)) {
                break;
            }
        }
        if (conn != NULL) {
            struct cf_attempt *a = cf_http_conn_get_user(conn->http);

            conn->moved_ms = now; /* once, whatever comes of it */
            if (a != NULL)
                a->row.why = "stalled";
            cf_http_conn_expire(conn->http);
        }
    } while (conn != NULL && !egress->is_closing);
}

/* ---- opening and closing
 * ----------------------------------------------------------------------- */

int
cf_egress_check(json_t *hosts, struct cf_error *err)
{
    struct cf_egress *egress = calloc(1, sizeof *egress);
    int status;

    if (egress == NULL)
        return cf_error_memory(err);
    egress->options.hosts = json_incref(hosts);
    status = cf_egress_read_hosts(egress, err);
    egress_free(egress);
    return status;
}

int
cf_egress_open(uv_loop_t *loop, const struct cf_egress_options *options,
               struct cf_egress **ret_egress, struct cf_error *err)
{
    struct cf_egress *egress = calloc(1, sizeof *egress);

    if (egress == NULL)
        return cf_error_memory(err);
    TAILQ_INIT(&egress->conns);
    egress->loop = loop;
    egress->options = *options;
    egress->epoch_ms = options->epoch_ms != 0 ? options->epoch_ms : cf_clock_ms();
    egress->rows = json_array();
    (void)json_incref(egress->options.hosts);
    if (egress->options.connect_ms == 0)
        egress->options.connect_ms = CONNECT_MS;
    if (egress->options.idle_ms == 0)
        egress->options.idle_ms = IDLE_MS;
    if (cf_egress_read_hosts(egress, err) < 0) {
        egress_free(egress);
        return -1;
    }
    (void)uv_timer_init(loop, &egress->clock); /* only links it into the loop */
    egress->clock.data = egress;
    (void)uv_timer_start(&egress->clock, on_clock, LOOK_MS, LOOK_MS);
    uv_unref((uv_handle_t *)&egress->clock);
    *ret_egress = egress;
    return 0;
}

void
cf_egress_turn_begin(struct cf_egress *egress, unsigned turn)
{
    egress->turn = turn;
}

unsigned
cf_egress_open_count(const struct cf_egress *egress)
{
    return egress->attempts;
}

json_t *
cf_egress_row_json(const struct cf_egress_row *row)
{
    return json_pack(
        "{s:I, s:I, s:i, s:s, s:s, s:i, s:s, s:s?, s:s, s:s, s:i, s:b, s:I, s:I, s:I, s:I}",
        "id", (json_int_t)row->id, "at_ms", (json_int_t)row->at_ms, "turn", (int)row->turn,
        "method", row->method, "host", row->host, "port", (int)row->port, "verdict",
        row->is_allowed ? "allowed" : "denied", "why", row->why, "address", row->address,
        "detail", row->detail, "status", row->status, "aborted", row->is_aborted, "up_bytes",
        (json_int_t)row->up_bytes, "down_bytes", (json_int_t)row->down_bytes, "open_ms",
        (json_int_t)row->open_ms, "total_ms", (json_int_t)row->total_ms);
}

json_t *
cf_egress_ledger(const struct cf_egress *egress)
{
    return json_pack(
        "{s:I, s:I, s:I, s:I, s:I, s:I, s:o}", "allowed", (json_int_t)egress->allowed,
        "denied", (json_int_t)egress->denied, "failed", (json_int_t)egress->failed, "up_bytes",
        (json_int_t)egress->up_bytes, "down_bytes", (json_int_t)egress->down_bytes,
        "rows_dropped", (json_int_t)egress->dropped, "rows", json_copy(egress->rows));
}

static void
on_clock_closed(uv_handle_t *handle)
{
    struct cf_egress *egress = handle->data;

    egress->is_clock_closed = true;
    part_over(egress);
}

void
cf_egress_close(struct cf_egress *egress, void (*on_closed)(void *user), void *user)
{
    struct egress_conn *conn;

    if (egress->is_closing)
        return;
    egress->is_closing = true;
    egress->on_closed = on_closed;
    egress->closed_user = user;
    while ((conn = TAILQ_FIRST(&egress->conns)) != NULL) {
        struct cf_http_conn *http = conn->http;
        cf_http_reply_abort(http);      /* tells the owner, who may forget it from inside */
        cf_egress_forget(egress, http); /* else we do */
    }
    uv_close((uv_handle_t *)&egress->clock, on_clock_closed);
}
