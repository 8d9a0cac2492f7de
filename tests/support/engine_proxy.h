/*
 * engine_proxy.h: stands between a driver and a real Engine, on the test's own loop, passes
 * everything on, and spoils the requests that it is told to spoil. So an Engine that lies,
 * stalls and breaks can be had in the middle of a true story.
 */
#ifndef CF_TESTS_ENGINE_PROXY_H
#define CF_TESTS_ENGINE_PROXY_H

#include "base/buf.h"
#include "base/ids.h"

#ifndef ck_assert_int_eq /* a program that is no test brings its own */
#include <check.h>
#endif
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>
#include <uv.h>

enum proxy_fault {
    PROXY_NONE,
    PROXY_STATUS,     /* answers `status` itself; the engine never hears of it */
    PROXY_HANG,       /* never answers; the engine never hears of it */
    PROXY_RESET,      /* closes the connection; the engine never hears of it */
    PROXY_GARBAGE,    /* answers what is no HTTP */
    PROXY_LOST_HANG,  /* the engine does it, its answer is swallowed */
    PROXY_LOST_RESET, /* the engine does it, the connection is closed instead of its answer */
    PROXY_CUT,        /* the answer is cut in its middle */
    PROXY_SLOW,       /* the answer comes byte by byte, after some hundreds in small bites */
    PROXY_FAULTS
};

struct engine_proxy {
    uv_loop_t *loop;
    uv_pipe_t server;
    char path[96], url[112], upstream[108];
    /* what to spoil: the `skip`th and the next `times` requests of this method whose path has
     * this text in it */
    const char *method, *text;
    enum proxy_fault fault;
    int status, skip, times, hits;
    struct proxy_pair *pairs;
};

struct proxy_end {
    uv_pipe_t pipe;
    char chunk[65536];
    bool is_closed;
};

struct proxy_pair {
    struct engine_proxy *proxy;
    struct proxy_pair *next;
    struct proxy_end down, up; /* towards the driver, towards the engine */
    uv_timer_t timer;
    uv_connect_t connect;
    int handles;
    bool is_up, is_closing, is_raw;
    struct cf_buf head;    /* of a request, until it is whole */
    struct cf_buf waiting; /* for the engine, until connected */
    struct cf_buf slow;    /* for the driver, bite by bite */
    uint64_t body_left;
    bool is_chunked, is_swallowing;
    enum proxy_fault fault; /* of the request under way */
    size_t answered, bitten;
};

static inline void
proxy_handle_closed(uv_handle_t *handle)
{
    struct proxy_pair *pair = handle->data;

    if (--pair->handles > 0)
        return;
    for (struct proxy_pair **at = &pair->proxy->pairs; *at != NULL; at = &(*at)->next) {
        if (*at == pair) {
            *at = pair->next;
            break;
        }
    }
    cf_buf_release(&pair->head);
    cf_buf_release(&pair->waiting);
    cf_buf_release(&pair->slow);
    free(pair);
}

static inline void
proxy_pair_close(struct proxy_pair *pair)
{
    if (pair->is_closing)
        return;
    pair->is_closing = true;
    uv_close((uv_handle_t *)&pair->down.pipe, proxy_handle_closed);
    uv_close((uv_handle_t *)&pair->up.pipe, proxy_handle_closed);
    uv_close((uv_handle_t *)&pair->timer, proxy_handle_closed);
}

static inline void
proxy_wrote(uv_write_t *request, int status)
{
    (void)status;
    free(request->data);
    free(request);
}

static inline void
proxy_write(uv_pipe_t *pipe, const char *bytes, size_t len)
{
    uv_write_t *request = malloc(sizeof *request);
    uv_buf_t buf;

    if (uv_is_closing((uv_handle_t *)pipe) || len == 0) {
        free(request);
        return;
    }
    request->data = malloc(len);
    memcpy(request->data, bytes, len);
    buf = uv_buf_init(request->data, (unsigned)len);
    if (uv_write(request, (uv_stream_t *)pipe, &buf, 1, proxy_wrote) < 0)
        proxy_wrote(request, -1);
}

static inline void
proxy_to_engine(struct proxy_pair *pair, const char *bytes, size_t len)
{
    if (pair->is_swallowing)
        return;
    if (pair->is_up)
        proxy_write(&pair->up.pipe, bytes, len);
    else
        cf_buf_add(&pair->waiting, bytes, len);
}

/* ---- a request's head ---------------------------------------------------------------- */

static inline enum proxy_fault
proxy_choose(struct engine_proxy *proxy, const char *head)
{
    const char *line_end = strstr(head, "\r\n");
    size_t method = strcspn(head, " ");

    if (proxy->fault == PROXY_NONE || strlen(proxy->method) != method ||
        strncmp(head, proxy->method, method) != 0 ||
        memmem(head, (size_t)(line_end - head), proxy->text, strlen(proxy->text)) == NULL)
        return PROXY_NONE;
    if (proxy->skip-- > 0 || proxy->times <= 0)
        return PROXY_NONE;
    proxy->times--;
    proxy->hits++;
    return proxy->fault;
}

static inline void
proxy_answer_status(struct proxy_pair *pair)
{
    char answer[256];
    int len =
        snprintf(answer, sizeof answer,
                 "HTTP/1.1 %d Spoiled\r\nContent-Type: application/json\r\nContent-Length: "
                 "25\r\n\r\n{\"message\":\"spoiled it\"}\n",
                 pair->proxy->status);

    proxy_write(&pair->down.pipe, answer, (size_t)len);
}

static inline void
proxy_take_head(struct proxy_pair *pair)
{
    const char *head = pair->head.data, *length = strcasestr(head, "\r\nContent-Length:");

    pair->fault = proxy_choose(pair->proxy, head);
    pair->answered = pair->bitten = 0;
    pair->is_chunked = strcasestr(head, "\r\nTransfer-Encoding: chunked") != NULL;
    pair->body_left =
        !pair->is_chunked && length != NULL ? strtoull(length + 17, NULL, 10) : 0;
    pair->is_raw = strcasestr(head, "\r\nUpgrade: tcp") != NULL && pair->fault == PROXY_NONE;
    pair->is_swallowing = pair->fault >= PROXY_STATUS && pair->fault <= PROXY_GARBAGE;
    proxy_to_engine(pair, pair->head.data, pair->head.len);
    cf_buf_reset(&pair->head);
}

static inline void
proxy_on_close_time(uv_timer_t *timer)
{
    proxy_pair_close(timer->data);
}

/* The request is whole. */
static inline void
proxy_request_over(struct proxy_pair *pair)
{
    if (pair->fault == PROXY_STATUS)
        proxy_answer_status(pair);
    if (pair->fault == PROXY_GARBAGE)
        proxy_write(&pair->down.pipe, "\x01\x02 not HTTP at all\r\n\r\n", 22);
    if (pair->fault == PROXY_RESET || pair->fault == PROXY_GARBAGE)
        uv_timer_start(&pair->timer, proxy_on_close_time, 1, 0);
}

static inline void
proxy_from_driver(struct proxy_pair *pair, const char *bytes, size_t len)
{
    while (len > 0) {
        if (pair->is_raw) {
            proxy_to_engine(pair, bytes, len);
            return;
        }
        if (pair->body_left > 0 || pair->is_chunked) {
            size_t take =
                pair->is_chunked || len < pair->body_left ? len : (size_t)pair->body_left;
            proxy_to_engine(pair, bytes, take);
            if (!pair->is_chunked)
                pair->body_left -= take;
            else if (take >= 5 && memcmp(bytes + take - 5, "0\r\n\r\n", 5) == 0)
                pair->is_chunked = false;
            bytes += take, len -= take;
        } else {
            cf_buf_add(&pair->head, bytes, 1);
            bytes++, len--;
            if (pair->head.len < 4 ||
                memcmp(pair->head.data + pair->head.len - 4, "\r\n\r\n", 4) != 0)
                continue;
            proxy_take_head(pair);
        }
        if (pair->body_left == 0 && !pair->is_chunked && !pair->is_raw)
            proxy_request_over(pair);
    }
}

/* ---- the engine's answer ------------------------------------------------------------- */

static inline void
proxy_on_bite(uv_timer_t *timer)
{
    struct proxy_pair *pair = timer->data;
    size_t bite = pair->bitten < 400 ? 1 : 40, take = pair->slow.len < bite ? pair->slow.len : bite;

    pair->bitten += take;

    proxy_write(&pair->down.pipe, pair->slow.data, take);
    cf_buf_drop(&pair->slow, take);
    if (pair->slow.len == 0)
        uv_timer_stop(timer);
}

static inline void
proxy_from_engine(struct proxy_pair *pair, const char *bytes, size_t len)
{
    pair->answered += len;
    switch (pair->fault) {
    case PROXY_LOST_HANG:
        return;
    case PROXY_LOST_RESET:
        proxy_pair_close(pair);
        return;
    case PROXY_CUT:
        proxy_write(&pair->down.pipe, bytes, len > 60 ? 60 : len / 2);
        uv_timer_start(&pair->timer, proxy_on_close_time, 2, 0);
        return;
    case PROXY_SLOW:
        cf_buf_add(&pair->slow, bytes, len);
        uv_timer_start(&pair->timer, proxy_on_bite, 1, 1);
        return;
    default:
        proxy_write(&pair->down.pipe, bytes, len);
    }
}

/* ---- connections --------------------------------------------------------------------- */

static inline void
proxy_alloc(uv_handle_t *handle, size_t wish, uv_buf_t *buf)
{
    struct proxy_pair *pair = handle->data;
    struct proxy_end *end =
        handle == (uv_handle_t *)&pair->down.pipe ? &pair->down : &pair->up;

    (void)wish;
    *buf = uv_buf_init(end->chunk, sizeof end->chunk);
}

static inline void
proxy_shut(uv_shutdown_t *request, int status)
{
    (void)status;
    free(request);
}

static inline void
proxy_half_close(uv_pipe_t *pipe)
{
    uv_shutdown_t *request = malloc(sizeof *request);

    if (uv_is_closing((uv_handle_t *)pipe) ||
        uv_shutdown(request, (uv_stream_t *)pipe, proxy_shut) < 0)
        free(request);
}

static inline void
proxy_read(uv_stream_t *stream, ssize_t got, const uv_buf_t *buf)
{
    struct proxy_pair *pair = stream->data;
    bool is_down = stream == (uv_stream_t *)&pair->down.pipe;

    if (got < 0) {
        if (!pair->is_raw || got != UV_EOF) {
            if (is_down || (pair->fault != PROXY_LOST_HANG && pair->slow.len == 0))
                proxy_pair_close(pair);
            return;
        }
        (is_down ? &pair->down : &pair->up)->is_closed = true;
        if (pair->down.is_closed && pair->up.is_closed)
            proxy_pair_close(pair);
        else
            proxy_half_close(is_down ? &pair->up.pipe : &pair->down.pipe);
        return;
    }
    if (is_down)
        proxy_from_driver(pair, buf->base, (size_t)got);
    else
        proxy_from_engine(pair, buf->base, (size_t)got);
}

static inline void
proxy_upstream_connected(uv_connect_t *request, int status)
{
    struct proxy_pair *pair = request->data;

    if (status < 0 || pair->is_closing) {
        proxy_pair_close(pair);
        return;
    }
    pair->is_up = true;
    uv_read_start((uv_stream_t *)&pair->up.pipe, proxy_alloc, proxy_read);
    proxy_write(&pair->up.pipe, pair->waiting.data, pair->waiting.len);
    cf_buf_reset(&pair->waiting);
}

static inline void
proxy_connected(uv_stream_t *server, int status)
{
    struct engine_proxy *proxy = server->data;
    struct proxy_pair *pair = calloc(1, sizeof *pair);

    (void)status;
    pair->proxy = proxy;
    pair->next = proxy->pairs;
    proxy->pairs = pair;
    pair->handles = 3;
    uv_pipe_init(proxy->loop, &pair->down.pipe, 0);
    uv_pipe_init(proxy->loop, &pair->up.pipe, 0);
    uv_timer_init(proxy->loop, &pair->timer);
    pair->down.pipe.data = pair->up.pipe.data = pair->timer.data = pair->connect.data = pair;
    ck_assert_int_eq(uv_accept(server, (uv_stream_t *)&pair->down.pipe), 0);
    uv_pipe_connect(&pair->connect, &pair->up.pipe, proxy->upstream, proxy_upstream_connected);
    uv_read_start((uv_stream_t *)&pair->down.pipe, proxy_alloc, proxy_read);
}

/* `endpoint` is the real engine's, unix://PATH. */
static inline void
proxy_open(struct engine_proxy *proxy, uv_loop_t *loop, const char *endpoint)
{
    char random[33];

    memset(proxy, 0, sizeof *proxy);
    cf_id_hex(random);
    proxy->loop = loop;
    snprintf(proxy->path, sizeof proxy->path, "/tmp/cf-proxy-%s.sock", random);
    snprintf(proxy->url, sizeof proxy->url, "unix://%s", proxy->path);
    snprintf(proxy->upstream, sizeof proxy->upstream, "%s", endpoint + strlen("unix://"));
    uv_pipe_init(loop, &proxy->server, 0);
    proxy->server.data = proxy;
    ck_assert_int_eq(uv_pipe_bind(&proxy->server, proxy->path), 0);
    ck_assert_int_eq(uv_listen((uv_stream_t *)&proxy->server, 64, proxy_connected), 0);
}

/* The engine is gone: every connection is cut, and none is taken any more. Once. */
static inline void
proxy_die(struct engine_proxy *proxy)
{
    if (uv_is_closing((uv_handle_t *)&proxy->server))
        return;
    uv_close((uv_handle_t *)&proxy->server, NULL);
    for (struct proxy_pair *pair = proxy->pairs; pair != NULL; pair = pair->next)
        proxy_pair_close(pair);
    unlink(proxy->path);
}

/* Then run the loop to its end. */
static inline void
proxy_close(struct engine_proxy *proxy)
{
    proxy_die(proxy);
}

#endif
