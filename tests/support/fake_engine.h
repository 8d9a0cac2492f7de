/*
 * fake_engine.h: a server on a unix socket, on the test's own loop, that answers as told. For
 * faults that a real Engine will not give; everything else is tried on a real one.
 */
#ifndef CF_TESTS_FAKE_ENGINE_H
#define CF_TESTS_FAKE_ENGINE_H

#include "base/buf.h"
#include "base/ids.h"

#include <check.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <uv.h>

struct fake_answer {
    const char *request; /* beginning of the request line: "GET /v1.41/info" */
    const char *bytes;   /* the whole answer; NULL: silence */
    size_t len;          /* 0: strlen(bytes) */
    bool closes;         /* afterwards */
    size_t slice;        /* write so many bytes at a time, a loop turn apart; 0: at once */
};

struct fake_engine {
    uv_loop_t *loop;
    uv_pipe_t server;
    char path[96], url[112];
    const struct fake_answer *answers;
    size_t count;
    int connections, requests;
    struct fake_conn *conns;
    unsigned deaf_ms; /* after an answer read nothing more, hang up so much later; 0: off */
    char last_request[4096]; /* head and body of the last one */
};

struct fake_conn {
    struct fake_engine *fake;
    struct fake_conn *next;
    uv_pipe_t pipe;
    uv_timer_t timer;
    int handles, pending;
    struct cf_buf in;
    char chunk[65536];
    const struct fake_answer *answer;
    size_t sent;
};

static inline void
fake_handle_closed(uv_handle_t *handle)
{
    struct fake_conn *conn = handle->data;

    if (--conn->handles > 0)
        return;
    for (struct fake_conn **at = &conn->fake->conns; *at != NULL; at = &(*at)->next)
        if (*at == conn) {
            *at = conn->next;
            break;
        }
    cf_buf_release(&conn->in);
    free(conn);
}

static inline void
fake_conn_close(struct fake_conn *conn)
{
    if (uv_is_closing((uv_handle_t *)&conn->pipe))
        return;
    uv_close((uv_handle_t *)&conn->pipe, fake_handle_closed);
    uv_close((uv_handle_t *)&conn->timer, fake_handle_closed);
}

static inline void
fake_wrote(uv_write_t *request, int status)
{
    struct fake_conn *conn = request->data;
    conn->pending--;
    free(request);
}

static inline void fake_send(uv_timer_t *timer);

static inline void
fake_send_some(struct fake_conn *conn)
{
    const struct fake_answer *answer = conn->answer;
    size_t len = answer->len > 0 ? answer->len : strlen(answer->bytes),
           left = len - conn->sent;
    size_t take = answer->slice > 0 && answer->slice < left ? answer->slice : left;
    uv_buf_t buf = uv_buf_init((char *)answer->bytes + conn->sent, (unsigned)take);
    uv_write_t *request = malloc(sizeof *request);

    request->data = conn;
    conn->pending++;
    conn->sent += take;
    uv_write(request, (uv_stream_t *)&conn->pipe, &buf, 1, fake_wrote);
    if (conn->fake->deaf_ms > 0)
        uv_read_stop((uv_stream_t *)&conn->pipe);
    if (conn->sent < len || answer->closes || conn->fake->deaf_ms > 0)
        uv_timer_start(&conn->timer, fake_send,
                       conn->fake->deaf_ms > 0 ? conn->fake->deaf_ms : 1, 0);
}

static inline void
fake_send(uv_timer_t *timer)
{
    struct fake_conn *conn = timer->data;
    size_t len = conn->answer->len > 0 ? conn->answer->len : strlen(conn->answer->bytes);

    if (conn->pending > 0)
        uv_timer_start(timer, fake_send, 1, 0);
    else if (conn->sent < len)
        fake_send_some(conn);
    else
        fake_conn_close(conn);
}

static inline void
fake_answer_to(struct fake_conn *conn)
{
    struct fake_engine *fake = conn->fake;

    fake->requests++;
    snprintf(fake->last_request, sizeof fake->last_request, "%.*s", (int)conn->in.len,
             conn->in.data);
    for (size_t i = 0; i < fake->count; i++)
        if (strncmp(conn->in.data, fake->answers[i].request,
                    strlen(fake->answers[i].request)) == 0) {
            cf_buf_reset(&conn->in);
            conn->answer = &fake->answers[i];
            conn->sent = 0;
            if (conn->answer->bytes != NULL)
                fake_send_some(conn);
            else if (conn->answer->closes)
                fake_conn_close(conn);
            return;
        }
    ck_abort_msg("the fake engine has no answer to %.60s", conn->in.data);
}

static inline void
fake_alloc(uv_handle_t *handle, size_t wish, uv_buf_t *buf)
{
    struct fake_conn *conn = handle->data;
    *buf = uv_buf_init(conn->chunk, sizeof conn->chunk);
}

static inline bool
fake_request_is_whole(const struct fake_conn *conn)
{
    const char *end = memmem(conn->in.data, conn->in.len, "\r\n\r\n", 4);
    const char *length = end != NULL ? strcasestr(conn->in.data, "\r\nContent-Length:") : NULL;

    if (end == NULL)
        return false;
    if (strcasestr(conn->in.data, "\r\nTransfer-Encoding: chunked") != NULL)
        return conn->in.len >= 5 &&
               memcmp(conn->in.data + conn->in.len - 5, "0\r\n\r\n", 5) == 0;
    size_t body = length != NULL ? (size_t)strtoul(length + 17, NULL, 10) : 0;
    return conn->in.len >= (size_t)(end + 4 - conn->in.data) + body;
}

static inline void
fake_read(uv_stream_t *stream, ssize_t got, const uv_buf_t *buf)
{
    struct fake_conn *conn = stream->data;

    if (got < 0) {
        fake_conn_close(conn);
        return;
    }
    if (got > 0 && conn->answer != NULL && conn->answer->bytes != NULL && conn->answer->closes)
        return; /* an upgraded connection */
    cf_buf_add(&conn->in, buf->base, (size_t)got);
    if (conn->in.len > 0 && fake_request_is_whole(conn))
        fake_answer_to(conn);
}

static inline void
fake_connected(uv_stream_t *server, int status)
{
    struct fake_engine *fake = server->data;
    struct fake_conn *conn = calloc(1, sizeof *conn);

    fake->connections++;
    conn->fake = fake;
    conn->next = fake->conns;
    fake->conns = conn;
    conn->handles = 2;
    uv_pipe_init(fake->loop, &conn->pipe, 0);
    uv_timer_init(fake->loop, &conn->timer);
    conn->pipe.data = conn->timer.data = conn;
    ck_assert_int_eq(uv_accept(server, (uv_stream_t *)&conn->pipe), 0);
    uv_read_start((uv_stream_t *)&conn->pipe, fake_alloc, fake_read);
}

static inline void
fake_open(struct fake_engine *fake, uv_loop_t *loop, const struct fake_answer *answers,
          size_t count)
{
    char random[33];

    memset(fake, 0, sizeof *fake);
    cf_id_hex(random);
    fake->loop = loop;
    fake->answers = answers;
    fake->count = count;
    snprintf(fake->path, sizeof fake->path, "/tmp/cf-fake-%s.sock", random);
    snprintf(fake->url, sizeof fake->url, "unix://%s", fake->path);
    uv_pipe_init(loop, &fake->server, 0);
    fake->server.data = fake;
    ck_assert_int_eq(uv_pipe_bind(&fake->server, fake->path), 0);
    ck_assert_int_eq(uv_listen((uv_stream_t *)&fake->server, 16, fake_connected), 0);
}

/* Then run the loop to its end. */
static inline void
fake_close(struct fake_engine *fake)
{
    uv_close((uv_handle_t *)&fake->server, NULL);
    for (struct fake_conn *conn = fake->conns; conn != NULL; conn = conn->next)
        fake_conn_close(conn);
    unlink(fake->path);
}

#endif
