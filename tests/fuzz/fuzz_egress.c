/*
 * fuzz_egress.c: what a client may send to the forward proxy, and what a server outside may
 * answer. "@@@@@" in the client's bytes becomes the port of a listener that lives as long as
 * the input: nothing else is open, and only by the name "open.test".
 *
 * Input: steps of the client's bytes, where the name leads, the length of the client's bytes
 * (two bytes, big end first), the client's bytes, the server's.
 */
#include "base/buf.h"
#include "relay/egress.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum leads { INSIDE, NOWHERE, OUTSIDE };
enum { ROUNDS = 60 };

struct far {
    uv_loop_t loop;
    uv_tcp_t listener, peer;
    unsigned port, accepted;
    enum leads leads;
    const char *bytes;
    size_t len;
    unsigned rows, denied;
    struct cf_buf out;
    bool is_gone, is_egress_closed;
};

/* ---- the server ------------------------------------------------------------------------- */

static void
on_room(uv_handle_t *handle, size_t wanted, uv_buf_t *buf)
{
    static char room[65536];

    *buf = uv_buf_init(room, sizeof room);
}

static void
on_read(uv_stream_t *stream, ssize_t n, const uv_buf_t *buf)
{
    if (n < 0 && !uv_is_closing((uv_handle_t *)stream))
        uv_close((uv_handle_t *)stream, NULL);
}

static void
on_connection(uv_stream_t *listener, int status)
{
    struct far *far = listener->data;
    uv_buf_t buf = uv_buf_init((char *)far->bytes, (unsigned)far->len);

    if (status < 0 || far->accepted > 0 || uv_tcp_init(&far->loop, &far->peer) != 0)
        return;
    if (uv_accept(listener, (uv_stream_t *)&far->peer) != 0)
        abort();
    far->accepted++;
    (void)uv_try_write((uv_stream_t *)&far->peer, &buf, 1); /* short ones are fine, too */
    (void)uv_read_start((uv_stream_t *)&far->peer, on_room, on_read);
}

static void
listen_far(struct far *far)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    int len = sizeof at;

    if (uv_loop_init(&far->loop) != 0 || uv_tcp_init(&far->loop, &far->listener) != 0 ||
        uv_tcp_bind(&far->listener, (struct sockaddr *)&at, 0) != 0 ||
        uv_listen((uv_stream_t *)&far->listener, 8, on_connection) != 0 ||
        uv_tcp_getsockname(&far->listener, (struct sockaddr *)&at, &len) != 0)
        abort();
    far->listener.data = far;
    far->port = ntohs(at.sin_port);
}

/* ---- the proxy's seams ------------------------------------------------------------------ */

static size_t
resolve(void *user, const char *name, struct sockaddr_storage *to, size_t most)
{
    struct far *far = user;
    struct sockaddr_in *v4 = (struct sockaddr_in *)to;

    if (strcmp(name, "open.test") != 0)
        abort(); /* nobody may look up what is not open */
    memset(v4, 0, sizeof *v4);
    v4->sin_family = AF_INET;
    v4->sin_addr.s_addr = htonl(far->leads == INSIDE ? INADDR_LOOPBACK + 1 : INADDR_LOOPBACK);
    return far->leads != NOWHERE;
}

static const char *
refused(const struct sockaddr *address)
{
    const struct sockaddr_in *v4 = (const struct sockaddr_in *)address;

    return v4->sin_addr.s_addr == htonl(INADDR_LOOPBACK) ? NULL : "private";
}

static void
on_row(void *user, const struct cf_egress_row *row)
{
    struct far *far = user;

    far->rows++;
    far->denied += !row->is_allowed;
    if (row->is_allowed && strcmp(row->host, "open.test") != 0)
        abort();
    if (!row->is_allowed && (row->up_bytes > 0 || row->down_bytes > 0))
        abort();
}

static size_t
io_write(void *user, const char *bytes, size_t len)
{
    (void)cf_buf_add(&((struct far *)user)->out, bytes, len);
    return len;
}

static void
io_gone(void *user)
{
    ((struct far *)user)->is_gone = true;
}

static void
io_nothing(void *user)
{
}

static void
io_consumed(void *user, size_t len)
{
}

static const struct cf_http_io io = {io_write, io_gone, io_gone, io_consumed, io_nothing};

static void
on_egress_closed(void *user)
{
    ((struct far *)user)->is_egress_closed = true;
}

/* ---- one input -------------------------------------------------------------------------- */

/* A few rounds, so that what can happen at once has happened; there is no clock to wait for. */
static void
settle(struct far *far, struct cf_egress *egress)
{
    for (unsigned i = 0; i < ROUNDS && !far->is_gone; i++) {
        (void)uv_run(&far->loop, UV_RUN_NOWAIT);
        if (i > 3 && cf_egress_open_count(egress) == 0)
            return;
    }
}

static char *
with_port(const struct far *far, const uint8_t *bytes, size_t len)
{
    char *copy = malloc(len + 1), *at, digits[8];

    if (copy == NULL)
        abort();
    memcpy(copy, bytes, len);
    copy[len] = '\0';
    (void)snprintf(digits, sizeof digits, "%05u", far->port);
    while ((at = memmem(copy, len, "@@@@@", 5)) != NULL)
        memcpy(at, digits, 5);
    return copy;
}

static void
serve(struct far *far, const uint8_t *bytes, size_t len, size_t step)
{
    char host[40];
    struct cf_egress_options options = {.relay_port = 4180,
                                        .on_row = on_row,
                                        .user = far,
                                        .resolve = resolve,
                                        .resolve_user = far,
                                        .refused = refused};
    struct cf_egress *egress;
    struct cf_http_conn *conn;
    struct cf_error err;
    char *copy = with_port(far, bytes, len);

    (void)snprintf(host, sizeof host, "open.test:%u", far->port);
    options.hosts = json_pack("[s]", host);
    if (cf_egress_open(&far->loop, &options, &egress, &err) < 0 ||
        (conn = cf_egress_accept(egress, &io, far)) == NULL)
        abort();
    for (size_t at = 0; at < len && !far->is_gone; at += step) {
        cf_http_conn_feed(conn, copy + at, len - at < step ? len - at : step);
        settle(far, egress);
    }
    if (!far->is_gone)
        cf_http_conn_eof(conn);
    settle(far, egress);
    cf_egress_forget(egress, conn);
    cf_egress_close(egress, on_egress_closed, far);
    json_decref(options.hosts);
    free(copy);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct far far = {0};
    size_t len, step;

    if (size < 4)
        return 0;
    len = (size_t)(data[2] << 8 | data[3]);
    len = len < size - 4 ? len : size - 4;
    step = len / 8 + data[0] % 16 + 1; /* at most nine: each costs a few rounds of the loop */
    far.leads = (enum leads)(data[1] % 3);
    far.bytes = (const char *)data + 4 + len;
    far.len = size - 4 - len;
    listen_far(&far);
    serve(&far, data + 4, len, step);
    if (far.leads != OUTSIDE && far.accepted > 0)
        abort(); /* an address that is refused was connected to */
    uv_close((uv_handle_t *)&far.listener, NULL);
    if (far.accepted > 0 && !uv_is_closing((uv_handle_t *)&far.peer))
        uv_close((uv_handle_t *)&far.peer, NULL);
    (void)uv_run(&far.loop, UV_RUN_DEFAULT);
    if (!far.is_egress_closed || uv_loop_close(&far.loop) != 0)
        abort();
    cf_buf_release(&far.out);
    return 0;
}
