/* The port, its connections, and one slow clock that runs while there are any.
 */
#include "loop/http_listener.h"

#include "base/clock.h"

#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>

enum { WRITE_PIECE = 64 * 1024, READ_PIECE = 64 * 1024, LINGER_MS = 5000, TICK_MS = 250, MAKE_ROOM_MS = 1000 };

struct peer {
    TAILQ_ENTRY(peer) link;
    struct cf_http_listener *listener;
    uv_tcp_t tcp;
    uv_write_t write;
    uv_shutdown_t shutdown;
    struct cf_http_conn *http; /* NULL: it was never served */
    char *pending;             /* of the write in flight */
    uint64_t moved, moved_ms;
    size_t unconsumed;
    bool is_reading, is_writing, is_shut, is_eof, is_closing;
};

struct cf_http_listener {
    uv_tcp_t tcp;
    uv_timer_t timer;
    struct cf_http_listener_options options;
    TAILQ_HEAD(, peer) peers;
    unsigned peer_count, handles_open;
    uint16_t port;
    bool is_closing;
    void (*on_closed)(void *user);
    void *closed_user;
    char in[READ_PIECE]; /* for all: what is read is fed before the next is */
};

/* ---- ends ---------------------------------------------------------------------------- */

static void
go_on_closing(struct cf_http_listener *listener)
{
    void (*on_closed)(void *user) = listener->on_closed;
    void *user = listener->closed_user;

    if (!listener->is_closing || listener->peer_count > 0 || listener->handles_open > 0)
        return;
    free(listener);
    if (on_closed != NULL)
        on_closed(user);
}

static void
on_handle_closed(uv_handle_t *handle)
{
    struct cf_http_listener *listener = handle->data;

    listener->handles_open--;
    go_on_closing(listener);
}

/* Here and not when the close began: then somebody's reply call may still stand on the stack. */
static void
forget(struct cf_http_listener *listener, struct cf_http_conn *http)
{
    if (listener->options.forget != NULL) {
        listener->options.forget(listener->options.user, http);
        return;
    }
    cf_http_conn_gone(http);
    cf_http_conn_free(http);
}

static void
on_peer_closed(uv_handle_t *handle)
{
    struct peer *peer = handle->data;
    struct cf_http_listener *listener = peer->listener;

    if (peer->http != NULL)
        forget(listener, peer->http);
    TAILQ_REMOVE(&listener->peers, peer, link);
    free(peer->pending);
    free(peer);
    if (--listener->peer_count == 0)
        (void)uv_timer_stop(&listener->timer); /* cannot fail */
    go_on_closing(listener);
}

static void
peer_close(struct peer *peer)
{
    if (peer->is_closing)
        return;
    peer->is_closing = true;
    uv_close((uv_handle_t *)&peer->tcp, on_peer_closed);
}

/* Both sides are done; else the peer's end, or the linger limit, closes it. */
static void
on_shutdown(uv_shutdown_t *req, int status)
{
    struct peer *peer = req->data;

    if (peer->is_eof)
        peer_close(peer);
}

static void
shutdown_now(struct peer *peer)
{
    peer->shutdown.data = peer;
    if (uv_shutdown(&peer->shutdown, (uv_stream_t *)&peer->tcp, on_shutdown) != 0)
        peer_close(peer);
}

/* ---- bytes out ----------------------------------------------------------------------- */

static void
on_write(uv_write_t *req, int status)
{
    struct peer *peer = req->data;

    peer->is_writing = false;
    free(peer->pending);
    peer->pending = NULL;
    if (peer->is_closing)
        return;
    if (status < 0)
        peer_close(peer);
    else if (peer->is_shut)
        shutdown_now(peer);
    else
        cf_http_conn_writable(peer->http);
}

/* What the socket does not take at once is copied, and given to libuv to finish. */
static size_t
write_later(struct peer *peer, const char *bytes, size_t len)
{
    uv_buf_t buf;

    len = len < WRITE_PIECE ? len : WRITE_PIECE;
    peer->pending = malloc(len);
    if (peer->pending == NULL) {
        peer_close(peer);
        return 0;
    }
    memcpy(peer->pending, bytes, len);
    buf = uv_buf_init(peer->pending, (unsigned)len);
    peer->write.data = peer;
    if (uv_write(&peer->write, (uv_stream_t *)&peer->tcp, &buf, 1, on_write) != 0) {
        peer_close(peer);
        return 0;
    }
    peer->is_writing = true;
    return len;
}

static size_t
io_write(void *user, const char *bytes, size_t len)
{
    struct peer *peer = user;
    uv_buf_t buf = uv_buf_init((char *)bytes, (unsigned)len);
    size_t took;
    int n;

    if (peer->is_writing || peer->is_closing)
        return 0;
    n = uv_try_write((uv_stream_t *)&peer->tcp, &buf, 1);
    if (n < 0 && n != UV_EAGAIN) {
        peer_close(peer);
        return 0;
    }
    took = n < 0 ? 0 : (size_t)n;
    return took + (took < len ? write_later(peer, bytes + took, len - took) : 0);
}

static void
io_shutdown(void *user)
{
    struct peer *peer = user;

    if (peer->is_closing || peer->is_shut)
        return;
    peer->is_shut = true;
    peer->moved_ms = cf_clock_ms();
    if (!peer->is_writing)
        shutdown_now(peer);
}

static void
io_reset(void *user)
{
    peer_close(user);
}

/* ---- bytes in ------------------------------------------------------------------------ */

static void
on_alloc(uv_handle_t *handle, size_t suggested, uv_buf_t *buf)
{
    struct peer *peer = handle->data;

    *buf = uv_buf_init(peer->listener->in, sizeof peer->listener->in);
}

static void
stop_reading(struct peer *peer)
{
    peer->is_reading = false;
    (void)uv_read_stop((uv_stream_t *)&peer->tcp); /* cannot fail */
}

static void
on_read(uv_stream_t *stream, ssize_t n, const uv_buf_t *buf)
{
    struct peer *peer = stream->data;

    if (n == 0 || peer->is_closing)
        return;
    if (n == UV_EOF && !peer->is_shut) {
        peer->is_eof = true;
        stop_reading(peer);
        cf_http_conn_eof(peer->http);
        return;
    }
    if (n < 0) {
        peer_close(peer);
        return;
    }
    peer->unconsumed += (size_t)n;
    cf_http_conn_feed(peer->http, buf->base, (size_t)n);
    if (peer->unconsumed > 0 && !peer->is_closing)
        stop_reading(peer); /* somebody is slower than the socket: it waits */
}

static void
read_on(struct peer *peer)
{
    if (peer->is_reading || peer->is_closing || peer->is_eof)
        return;
    peer->is_reading = true;
    if (uv_read_start((uv_stream_t *)&peer->tcp, on_alloc, on_read) != 0)
        peer_close(peer);
}

static void
io_consumed(void *user, size_t len)
{
    struct peer *peer = user;

    peer->unconsumed -= len;
    if (peer->unconsumed == 0)
        read_on(peer);
}

static const struct cf_http_io io = {io_write, io_shutdown, io_reset, io_consumed, NULL};

/* ---- the port ------------------------------------------------------------------------ */

static void
mind_clock(struct peer *peer, uint64_t now)
{
    uint64_t moved = cf_http_conn_moved(peer->http);
    unsigned idle_ms = peer->listener->options.idle_ms;
    unsigned linger_ms = idle_ms != 0 && idle_ms < LINGER_MS ? idle_ms : LINGER_MS;

    if (moved != peer->moved)
        peer->moved_ms = now;
    peer->moved = moved;
    if (peer->is_shut && now - peer->moved_ms >= linger_ms)
        peer_close(peer);
    else if (!peer->is_shut && idle_ms != 0 && now - peer->moved_ms >= idle_ms)
        cf_http_conn_expire(peer->http);
}

/* No peer leaves the list in here: they do when their handle is closed. */
static void
on_tick(uv_timer_t *timer)
{
    struct cf_http_listener *listener = timer->data;
    uint64_t now = cf_clock_ms();
    struct peer *peer;

    TAILQ_FOREACH(peer, &listener->peers, link)
    if (!peer->is_closing)
        mind_clock(peer, now);
}

/* All places are taken: the peer that has been silent longest without a request open, for a second or
 * more, loses its place, so that peers who bring no head cannot keep everybody else out. */
static bool
make_room(struct cf_http_listener *listener)
{
    uint64_t now = cf_clock_ms();
    struct peer *peer, *oldest = NULL;

    TAILQ_FOREACH(peer, &listener->peers, link)
    if (!peer->is_closing && peer->http != NULL && !peer->is_writing && cf_http_conn_is_idle(peer->http) &&
        (oldest == NULL || peer->moved_ms < oldest->moved_ms))
        oldest = peer;
    if (oldest == NULL || now - oldest->moved_ms < MAKE_ROOM_MS)
        return false;
    peer_close(oldest);
    return true;
}

static void
on_connection(uv_stream_t *stream, int status)
{
    struct cf_http_listener *listener = stream->data;
    struct peer *peer;

    if (status < 0 || listener->is_closing)
        return;
    peer = calloc(1, sizeof *peer);
    if (peer == NULL)
        return;
    peer->listener = listener;
    peer->tcp.data = peer;
    peer->moved_ms = cf_clock_ms();
    (void)uv_tcp_init(stream->loop, &peer->tcp); /* cannot fail: it makes no socket yet */
    TAILQ_INSERT_TAIL(&listener->peers, peer, link);
    if (listener->peer_count++ == 0) /* fails only when closing */
        (void)uv_timer_start(&listener->timer, on_tick, TICK_MS, TICK_MS);
    if (uv_accept(stream, (uv_stream_t *)&peer->tcp) == 0 &&
        (listener->peer_count <= listener->options.most_conns || make_room(listener)))
        peer->http = listener->options.accept(listener->options.user, &io, peer);
    if (peer->http == NULL) {
        peer_close(peer);
        return;
    }
    (void)uv_tcp_nodelay(&peer->tcp, 1); /* slower without, not wrong */
    read_on(peer);
}

static int
listen_now(struct cf_http_listener *listener)
{
    const struct cf_http_listener_options *options = &listener->options;
    struct sockaddr_storage at;
    int size = sizeof at, status = uv_ip4_addr(options->address, options->port, (void *)&at);

    if (status != 0)
        status = uv_ip6_addr(options->address, options->port, (void *)&at);
    if (status == 0)
        status = uv_tcp_bind(&listener->tcp, (struct sockaddr *)&at, 0);
    if (status == 0)
        status = uv_listen((uv_stream_t *)&listener->tcp, 128, on_connection);
    if (status == 0)
        status = uv_tcp_getsockname(&listener->tcp, (struct sockaddr *)&at, &size);
    if (status == 0) /* the port stands at the same place in both families */
        listener->port = ntohs(((struct sockaddr_in *)&at)->sin_port);
    return status;
}

int
cf_http_listener_open(uv_loop_t *loop, const struct cf_http_listener_options *options,
                      struct cf_http_listener **ret_listener, struct cf_error *err)
{
    struct cf_http_listener *listener = calloc(1, sizeof *listener);
    int status;

    if (listener == NULL)
        return cf_error_memory(err);
    TAILQ_INIT(&listener->peers);
    listener->options = *options;
    (void)uv_timer_init(loop, &listener->timer); /* neither of these */
    (void)uv_tcp_init(loop, &listener->tcp);     /* can fail */
    listener->tcp.data = listener->timer.data = listener;
    listener->handles_open = 2;
    status = listen_now(listener);
    if (status != 0) {
        cf_http_listener_close(listener, NULL, NULL);
        return cf_error_set(err, CF_ERROR_INTERNAL, -status, "cannot listen on %s port %u: %s",
                            options->address, options->port, uv_strerror(status));
    }
    listener->options.address = NULL; /* borrowed until here */
    *ret_listener = listener;
    return 0;
}

uint16_t
cf_http_listener_port(const struct cf_http_listener *listener)
{
    return listener->port;
}

void
cf_http_listener_close(struct cf_http_listener *listener, void (*on_closed)(void *user),
                       void *user)
{
    struct peer *peer;

    if (listener->is_closing)
        return;
    listener->is_closing = true;
    listener->on_closed = on_closed;
    listener->closed_user = user;
    TAILQ_FOREACH(peer, &listener->peers, link)
    peer_close(peer);
    uv_close((uv_handle_t *)&listener->tcp, on_handle_closed);
    uv_close((uv_handle_t *)&listener->timer, on_handle_closed);
}
