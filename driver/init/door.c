/*
 * Doors: the relay's ports on the sandbox's own loopback. Each connection becomes a channel to
 * the driver, both ways, with half-closes and resets carried over as what they are.
 */
#include "init/init.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#define ACCEPTS_A_TURN 32

static ssize_t
fill_from_socket(struct cf_stream *stream, char *to, size_t len)
{
    return recv(stream->watch.fd, to, len, 0);
}

static ssize_t
drain_to_socket(struct cf_stream *stream, const char *bytes, size_t len)
{
    return send(stream->watch.fd, bytes, len, MSG_NOSIGNAL);
}

static void
on_driver_end(struct cf_stream *stream)
{
    (void)shutdown(stream->watch.fd, SHUT_WR); /* a peer already gone is no news */
}

static void
on_broken(struct cf_stream *stream, int error)
{
    struct linger at_once = {1, 0};

    /* the client shall see a reset and not a short answer that looks whole */
    (void)setsockopt(stream->watch.fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
}

static void
on_free(struct cf_stream *stream)
{
    stream->init->door_count--;
}

static const struct cf_stream_ops door_ops = {
    .fill = fill_from_socket,
    .drain = drain_to_socket,
    .on_sink_end = on_driver_end,
    .on_broken = on_broken,
    .on_free = on_free,
};

static void
open_door(struct cf_init *init, int fd, unsigned port)
{
    struct cf_stream *stream = cf_stream_new(init);
    struct cf_error err;
    int on = 1;

    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    if (stream == NULL ||
        cf_mux_open(&init->mux, &stream->channel, CF_MUX_WINDOW_DOOR, port, &err) < 0) {
        close(fd);
        free(stream);
        return;
    }
    init->door_count++;
    if (cf_stream_bind(stream, &door_ops, NULL, fd) < 0)
        cf_stream_end(stream);
}

static void
accept_some(struct cf_init *init, struct cf_listener *listener)
{
    int fd;

    for (int i = 0; i < ACCEPTS_A_TURN && init->door_count < CF_INIT_DOORS_MAX; i++) {
        fd = accept4(listener->watch.fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (fd >= 0) {
            open_door(init, fd, listener->port);
            continue;
        }
        if (errno == ECONNABORTED || errno == EINTR)
            continue;
        if (errno == EAGAIN)
            listener->is_readable = false;
        return; /* out of descriptors or memory: the backlog waits for a door to close */
    }
    init->is_accept_due = init->door_count < CF_INIT_DOORS_MAX;
}

void
cf_door_accept(struct cf_init *init)
{
    init->is_accept_due = false;
    for (unsigned i = 0; i < init->listener_count; i++)
        if (init->listeners[i].is_readable)
            accept_some(init, &init->listeners[i]);
}

static void
on_listener(struct cf_init *init, struct cf_watch *watch, uint32_t events)
{
    struct cf_listener *listener = cf_container_of(watch, struct cf_listener, watch);

    listener->is_readable = true;
}

int
cf_door_listen(struct cf_init *init, unsigned port)
{
    struct cf_listener *listener = &init->listeners[init->listener_count];
    struct sockaddr_in address = {
        .sin_family = AF_INET,
        .sin_port = htons((uint16_t)port),
        .sin_addr.s_addr = htonl(INADDR_LOOPBACK),
    };
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

    /* no SO_REUSE*: then nobody else can bind it, with any option */
    if (fd < 0 || bind(fd, (struct sockaddr *)&address, sizeof address) < 0 ||
        listen(fd, 512) < 0)
        return -1;
    listener->port = port;
    listener->watch = (struct cf_watch){fd, on_listener};
    if (cf_watch_add(init, &listener->watch, EPOLLIN) < 0)
        return -1;
    init->listener_count++;
    return 0;
}
