/*
 * provider.h: a model provider on a loopback port, for tests: the far end of the relay's
 * upstream. What it does is said by the model's name in the request; what it saw is kept.
 *
 *   (any)       an answer with usage; a stream when the request asks for one
 *   sum         tells how many body bytes came, and their sum
 *   mute        never answers           pause       a stream that stops in its middle
 *   cut         a stream that is cut    short       a sized answer that ends early
 *   deny        401, with a piece of the key in its words
 *   busy        429 with retry-after    coded       an answer that calls itself compressed
 *   long        16 MiB of stream, as fast as it is read
 *   slow        a stream of eight events, 20 ms apart
 *
 * fal_queue's paths are served as well, with URLs of a host of its own.
 */
#ifndef CF_TESTS_PROVIDER_H
#define CF_TESTS_PROVIDER_H

#include "base/buf.h"
#include "loop/http_server.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <uv.h>

#ifndef PROVIDER_LONG
#define PROVIDER_LONG (16u * 1024 * 1024)
#endif

struct provider {
    uv_loop_t *loop;
    uv_tcp_t listener;
    unsigned port, requests, aborts, conns;
    uint64_t sent;      /* bytes of long streams handed over */
    struct cf_buf head; /* of the last request: "METHOD target\nname: value\n..." */
};

struct provider_conn {
    struct provider *provider;
    uv_tcp_t tcp;
    uv_write_t write;
    uv_timer_t timer;
    struct cf_http_conn *http;
    struct cf_buf body;
    uint64_t body_len, sum;
    uint64_t sent;
    unsigned events, handles;
    char path[256], method[16], mode[16];
    bool is_writing, is_closing, is_ending, streams;
    char in[64 * 1024], out[64 * 1024];
};

static void
provider_on_closed(uv_handle_t *handle)
{
    struct provider_conn *conn = handle->data;

    if (--conn->handles > 0)
        return;
    conn->provider->conns--;
    cf_buf_release(&conn->body);
    free(conn);
}

static void
provider_close_conn(struct provider_conn *conn)
{
    if (conn->is_closing)
        return;
    conn->is_closing = true;
    cf_http_conn_free(conn->http);
    conn->handles = 2;
    uv_close((uv_handle_t *)&conn->tcp, provider_on_closed);
    uv_close((uv_handle_t *)&conn->timer, provider_on_closed);
}

static void
provider_on_write(uv_write_t *req, int status)
{
    struct provider_conn *conn = req->data;

    conn->is_writing = false;
    if (conn->is_closing)
        return;
    if (status < 0) {
        cf_http_conn_gone(conn->http);
        provider_close_conn(conn);
    } else if (conn->is_ending)
        provider_close_conn(conn);
    else
        cf_http_conn_writable(conn->http);
}

static size_t
provider_io_write(void *user, const char *bytes, size_t len)
{
    struct provider_conn *conn = user;
    uv_buf_t buf;

    if (conn->is_writing || conn->is_closing)
        return 0;
    len = len < sizeof conn->out ? len : sizeof conn->out;
    memcpy(conn->out, bytes, len);
    buf = uv_buf_init(conn->out, (unsigned)len);
    conn->write.data = conn;
    if (uv_write(&conn->write, (uv_stream_t *)&conn->tcp, &buf, 1, provider_on_write) != 0)
        return 0;
    conn->is_writing = true;
    return len;
}

static void
provider_io_shutdown(void *user)
{
    struct provider_conn *conn = user;

    if (conn->is_writing)
        conn->is_ending = true;
    else
        provider_close_conn(conn);
}

static void
provider_io_reset(void *user)
{
    struct provider_conn *conn = user;

    (void)uv_tcp_close_reset; /* a plain close is what most servers do */
    provider_close_conn(conn);
}

static void
provider_io_consumed(void *user, size_t len)
{
    (void)user;
    (void)len;
}

static const struct cf_http_io provider_io = {provider_io_write, provider_io_shutdown,
                                              provider_io_reset, provider_io_consumed, NULL};

/* ---- what it answers -------------------------------------------------------------------- */

static void
provider_on_request(void *user, struct cf_http_conn *http,
                    const struct cf_http_request *request)
{
    struct provider_conn *conn = user;
    struct provider *provider = conn->provider;
    const char *name, *value;

    provider->requests++;
    cf_buf_reset(&provider->head);
    cf_buf_addf(&provider->head, "%s %s\n", request->method, request->target);
    for (size_t i = 0; cf_http_header_at(http, i, &name, &value); i++)
        cf_buf_addf(&provider->head, "%s: %s\n", name, value);
    cf_buf_reset(&conn->body);
    conn->body_len = conn->sum = 0;
    conn->events = 0;
    conn->sent = 0;
    snprintf(conn->path, sizeof conn->path, "%s", request->path);
    snprintf(conn->method, sizeof conn->method, "%s", request->method);
}

static int
provider_on_body(void *user, struct cf_http_conn *http, const char *bytes, size_t len)
{
    struct provider_conn *conn = user;

    (void)http;
    if (conn->body.len < 4096)
        cf_buf_add(&conn->body, bytes, len < 4096 ? len : 4096);
    for (size_t i = 0; i < len; i++)
        conn->sum = conn->sum * 31 + (unsigned char)bytes[i];
    conn->body_len += len;
    return 0;
}

static void
provider_json(struct provider_conn *conn, int status, const char *const *headers,
              const char *json)
{
    (void)cf_http_reply(conn->http, status, "application/json", headers, json, strlen(json));
}

/* Event `n` of a stream in the dialect of the path; NULL behind the last. */
static const char *
provider_event(const struct provider_conn *conn, unsigned n, char *to, size_t size)
{
    if (strstr(conn->path, "/messages") != NULL) {
        if (n == 0)
            return "event: message_start\ndata: "
                   "{\"type\":\"message_start\",\"message\":{\"id\":\"m\",\"model\":"
                   "\"served-model\",\"usage\":{\"input_tokens\":11,\"output_tokens\":1,"
                   "\"cache_read_input_tokens\":5}}}\n\n";
        if (n < 7) {
            snprintf(to, size,
                     "event: content_block_delta\ndata: "
                     "{\"type\":\"content_block_delta\",\"index\":0,"
                     "\"delta\":{\"type\":\"text_delta\",\"text\":\"piece %u \"}}\n\n",
                     n);
            return to;
        }
        return n == 7 ? "event: message_delta\ndata: "
                        "{\"type\":\"message_delta\",\"delta\":{\"stop_reason\":"
                        "\"end_turn\"},\"usage\":{\"output_tokens\":42}}\n\nevent: "
                        "message_stop\ndata: "
                        "{\"type\":\"message_stop\"}\n\n"
                      : NULL;
    }
    if (n < 7) {
        snprintf(
            to, size,
            "data: "
            "{\"id\":\"c\",\"model\":\"served-model\",\"choices\":[{\"index\":0,\"delta\":"
            "{\"content\":\"piece %u \"},\"finish_reason\":null}]}\n\n",
            n);
        return to;
    }
    return n == 7 ? "data: "
                    "{\"id\":\"c\",\"choices\":[],\"usage\":{\"prompt_tokens\":11,"
                    "\"completion_tokens\":42,"
                    "\"prompt_tokens_details\":{\"cached_tokens\":5}}}\n\ndata: [DONE]\n\n"
                  : NULL;
}

static void
provider_pump_long(struct provider_conn *conn)
{
    static const char line[] = ": padding that nobody reads, again and again and again\n\n";
    struct cf_buf piece = {0};

    while (conn->sent < PROVIDER_LONG && cf_http_reply_queued(conn->http) < 64 * 1024) {
        cf_buf_reset(&piece);
        while (piece.len < 16 * 1024)
            cf_buf_adds(&piece, line);
        if (cf_http_reply_body(conn->http, piece.data, piece.len) < 0)
            break;
        conn->sent += piece.len;
        conn->provider->sent += piece.len;
    }
    cf_buf_release(&piece);
    if (conn->sent >= PROVIDER_LONG)
        (void)cf_http_reply_end(conn->http);
}

static void provider_pump(struct provider_conn *conn);

static void
provider_on_timer(uv_timer_t *timer)
{
    provider_pump(timer->data);
}

static void
provider_pump(struct provider_conn *conn)
{
    bool is_slow = strcmp(conn->mode, "slow") == 0;
    char text[400];
    const char *event;

    while ((event = provider_event(conn, conn->events, text, sizeof text)) != NULL) {
        if (strcmp(conn->mode, "pause") == 0 && conn->events == 3)
            return;
        if (strcmp(conn->mode, "cut") == 0 && conn->events == 3) {
            cf_http_reply_abort(conn->http);
            return;
        }
        if (cf_http_reply_body(conn->http, event, strlen(event)) < 0)
            return;
        conn->events++;
        if (is_slow) {
            uv_timer_start(&conn->timer, provider_on_timer, 20, 0);
            return;
        }
    }
    (void)cf_http_reply_end(conn->http);
}

static void
provider_stream(struct provider_conn *conn)
{
    static const char *const headers[] = {"Content-Type", "text/event-stream", "Set-Cookie",
                                          "own=1",        "X-Request-Id",      "up-1",
                                          "Connection",   "keep-alive",        NULL};

    if (cf_http_reply_head(conn->http, 200, headers, UINT64_MAX) < 0)
        return;
    if (strcmp(conn->mode, "long") == 0)
        provider_pump_long(conn);
    else
        provider_pump(conn);
}

static void
provider_fal(struct provider_conn *conn)
{
    static const char urls[] =
        "\"request_id\":\"r-1\",\"response_url\":\"https://queue.provider.test/a/b/requests/"
        "r-1\","
        "\"status_url\":\"https://queue.provider.test/a/b/requests/r-1/status\","
        "\"cancel_url\":\"https://queue.provider.test/a/b/requests/r-1/cancel\"";
    static const char *const events[] = {"Content-Type", "text/event-stream", NULL};
    char text[1024];

    if (strcmp(conn->method, "POST") == 0)
        snprintf(text, sizeof text, "{\"status\":\"IN_QUEUE\",%s}", urls);
    else if (strstr(conn->path, "/status/stream") != NULL)
        snprintf(
            text, sizeof text,
            "data: {\"status\":\"IN_PROGRESS\",%s}\n\ndata: {\"status\":\"COMPLETED\",%s}\n\n",
            urls, urls);
    else if (strstr(conn->path, "/status") != NULL)
        snprintf(text, sizeof text,
                 "{\"status\":\"COMPLETED\",\"metrics\":{\"inference_time\":1.5},%s}", urls);
    else
        snprintf(text, sizeof text,
                 "{\"images\":[{\"url\":\"https://media.provider.test/1.png\"}]}");
    if (strstr(conn->path, "/status/stream") == NULL) {
        provider_json(conn, 200, NULL, text);
        return;
    }
    if (cf_http_reply_head(conn->http, 200, events, UINT64_MAX) == 0 &&
        cf_http_reply_body(conn->http, text, strlen(text)) == 0)
        (void)cf_http_reply_end(conn->http);
}

static void
provider_read_mode(struct provider_conn *conn)
{
    const char *model =
        conn->body.data != NULL ? strstr(conn->body.data, "\"model\":\"") : NULL;

    snprintf(conn->mode, sizeof conn->mode, "%.*s",
             model != NULL ? (int)strcspn(model + 9, "\"") : 0,
             model != NULL ? model + 9 : "");
    conn->streams =
        conn->body.data != NULL && strstr(conn->body.data, "\"stream\":true") != NULL;
}

static void
provider_on_complete(void *user, struct cf_http_conn *http)
{
    static const char *const again[] = {"retry-after", "7", NULL};
    static const char *const coded[] = {"Content-Encoding", "br", NULL};
    struct provider_conn *conn = user;
    char text[200];

    (void)http;
    provider_read_mode(conn);
    if (strncmp(conn->path, "/a/", 3) == 0)
        provider_fal(conn);
    else if (strcmp(conn->mode, "mute") == 0)
        return;
    else if (strcmp(conn->mode, "sum") == 0) {
        snprintf(text, sizeof text, "{\"bytes\":%" PRIu64 ",\"sum\":%" PRIu64 "}",
                 conn->body_len, conn->sum);
        provider_json(conn, 200, NULL, text);
    } else if (strcmp(conn->mode, "deny") == 0)
        provider_json(conn, 401, NULL, "{\"error\":{\"message\":\"bad key sk-real-***\"}}");
    else if (strcmp(conn->mode, "busy") == 0)
        provider_json(conn, 429, again,
                      "{\"error\":{\"message\":\"later\",\"type\":\"rate_limit_error\"}}");
    else if (strcmp(conn->mode, "coded") == 0)
        provider_json(conn, 200, coded, "\x0b\x02not really brotli\x03");
    else if (strcmp(conn->mode, "short") == 0) {
        if (cf_http_reply_head(conn->http, 200, NULL, 100) == 0 &&
            cf_http_reply_body(conn->http, "{\"x\":", 5) == 0)
            cf_http_reply_abort(conn->http);
    } else if (conn->streams)
        provider_stream(conn);
    else
        provider_json(conn, 200, NULL,
                      strstr(conn->path, "count_tokens") != NULL
                          ? "{\"input_tokens\":77}"
                          : "{\"id\":\"x\",\"model\":\"served-model\",\"content\":[],"
                            "\"choices\":[],\"usage\":{"
                            "\"input_tokens\":11,\"output_tokens\":42,\"prompt_tokens\":11,"
                            "\"completion_tokens\":42}}");
}

static void
provider_on_drain(void *user, struct cf_http_conn *http)
{
    struct provider_conn *conn = user;

    (void)http;
    if (strcmp(conn->mode, "long") == 0)
        provider_pump_long(conn);
}

static void
provider_on_abort(void *user, struct cf_http_conn *http)
{
    struct provider_conn *conn = user;

    (void)http;
    conn->provider->aborts++;
    uv_timer_stop(&conn->timer);
}

static const struct cf_http_handler provider_handler = {provider_on_request,
                                                        provider_on_body,
                                                        provider_on_complete,
                                                        provider_on_drain,
                                                        NULL,
                                                        provider_on_abort,
                                                        NULL};

/* ---- its port ------------------------------------------------------------------------------
 */

static void
provider_on_alloc(uv_handle_t *handle, size_t suggested, uv_buf_t *buf)
{
    struct provider_conn *conn = handle->data;

    (void)suggested;
    *buf = uv_buf_init(conn->in, sizeof conn->in);
}

static void
provider_on_read(uv_stream_t *stream, ssize_t n, const uv_buf_t *buf)
{
    struct provider_conn *conn = stream->data;

    if (n > 0) {
        cf_http_conn_feed(conn->http, buf->base, (size_t)n);
    } else if (n == UV_EOF) {
        (void)uv_read_stop(stream);
        cf_http_conn_eof(conn->http);
    } else if (n < 0) {
        cf_http_conn_gone(conn->http);
        provider_close_conn(conn);
    }
}

static void
provider_on_connection(uv_stream_t *listener, int status)
{
    struct provider *provider = listener->data;
    struct provider_conn *conn = calloc(1, sizeof *conn);

    if (conn == NULL || status < 0)
        abort();
    conn->provider = provider;
    provider->conns++;
    conn->tcp.data = conn->timer.data = conn;
    uv_tcp_init(provider->loop, &conn->tcp);
    uv_timer_init(provider->loop, &conn->timer);
    conn->http = cf_http_conn_new(&provider_io, conn, &provider_handler, conn, 0);
    if (conn->http == NULL || uv_accept(listener, (uv_stream_t *)&conn->tcp) != 0)
        abort();
    uv_read_start((uv_stream_t *)&conn->tcp, provider_on_alloc, provider_on_read);
}

/* `port` 0: any; provider->port has it afterwards. False: it cannot listen. */
static bool
provider_open(struct provider *provider, uv_loop_t *loop, const char *ip, unsigned port)
{
    struct sockaddr_in address;
    int size = sizeof address;

    memset(provider, 0, sizeof *provider);
    provider->loop = loop;
    uv_ip4_addr(ip, (int)port, &address);
    uv_tcp_init(loop, &provider->listener);
    provider->listener.data = provider;
    if (uv_tcp_bind(&provider->listener, (const struct sockaddr *)&address, 0) != 0 ||
        uv_listen((uv_stream_t *)&provider->listener, 128, provider_on_connection) != 0 ||
        uv_tcp_getsockname(&provider->listener, (struct sockaddr *)&address, &size) != 0)
        return false;
    provider->port = ntohs(address.sin_port);
    return true;
}

/* Its connections end when their peers do. */
static inline void
provider_close(struct provider *provider)
{
    uv_close((uv_handle_t *)&provider->listener, NULL);
    cf_buf_release(&provider->head);
}

#endif
