/* fuzz_http_server.c: any bytes in any cut: exchanges end exactly once, every fed byte is
 * either consumed or the connection is cut, and cutting the input differently changes no
 * answer. */
#include "base/buf.h"
#include "loop/http_server.h"

#include <stdlib.h>
#include <string.h>

struct peer {
    struct cf_buf out;
    size_t consumed;
    unsigned begun, ended;
    bool is_cut, pauses;
};

static size_t
io_write(void *user, const char *bytes, size_t len)
{
    struct peer *peer = user;

    cf_buf_add(&peer->out, bytes, len);
    return len;
}

static void
io_shutdown(void *user)
{
}

static void
io_reset(void *user)
{
    ((struct peer *)user)->is_cut = true;
}

static void
io_consumed(void *user, size_t len)
{
    ((struct peer *)user)->consumed += len;
}

static const struct cf_http_io io = {io_write, io_shutdown, io_reset, io_consumed, NULL};

static void
on_request(void *user, struct cf_http_conn *conn, const struct cf_http_request *request)
{
    struct peer *peer = user;

    peer->begun++;
    (void)cf_http_header(conn, "x-api-key");
    if (request->path[0] == '/' && request->path[1] == 'e')
        (void)cf_http_reply(conn, 401, "text/plain", NULL, "early", 5);
}

static int
on_body(void *user, struct cf_http_conn *conn, const char *bytes, size_t len)
{
    return ((struct peer *)user)->pauses ? CF_HTTP_PAUSE : 0;
}

static void
on_complete(void *user, struct cf_http_conn *conn)
{
    (void)cf_http_reply_head(conn, 200, NULL, UINT64_MAX);
    (void)cf_http_reply_body(conn, "ok", 2);
    (void)cf_http_reply_end(conn);
}

static void
on_drain(void *user, struct cf_http_conn *conn)
{
}

static void
on_ended(void *user, struct cf_http_conn *conn)
{
    ((struct peer *)user)->ended++;
}

static const struct cf_http_handler handler = {
    .on_request = on_request,
    .on_body = on_body,
    .on_complete = on_complete,
    .on_drain = on_drain,
    .on_done = on_ended,
    .on_abort = on_ended,
};

static void
run(struct peer *peer, const char *bytes, size_t len, size_t step, bool pauses)
{
    struct cf_http_conn *conn;

    memset(peer, 0, sizeof *peer);
    peer->pauses = pauses;
    conn = cf_http_conn_new(&io, peer, &handler, peer, 4096);
    for (size_t at = 0; at < len; at += step) {
        cf_http_conn_feed(conn, bytes + at, len - at < step ? len - at : step);
        if (pauses)
            cf_http_conn_resume(conn);
    }
    for (size_t i = 0; pauses && i < len; i++)
        cf_http_conn_resume(conn);
    if (!peer->is_cut && peer->consumed != len)
        abort();
    cf_http_conn_eof(conn);
    if (peer->begun != peer->ended)
        abort();
    cf_http_conn_free(conn);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct peer whole, cut;
    size_t step = size > 0 ? data[0] % 7 + 1 : 1;

    run(&whole, (const char *)data, size, size + 1, false);
    run(&cut, (const char *)data, size, step, size % 2 == 1);
    if (whole.out.len != cut.out.len ||
        (cut.out.len > 0 && memcmp(whole.out.data, cut.out.data, cut.out.len) != 0))
        abort();
    cf_buf_release(&whole.out);
    cf_buf_release(&cut.out);
    return 0;
}
