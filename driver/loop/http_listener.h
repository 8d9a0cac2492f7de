/*
 * loop/http_listener.h: a TCP port whose connections speak HTTP (loop/http_server.h): bytes in, bytes
 * out, back-pressure both ways, deadlines, and an end.
 *
 * A connection is read only as far as its bytes are dealt with, so a handler that pauses a body
 * holds its peer back; what a socket does not take waits here, 64 KiB of it, and then in the
 * connection's own queue. When our side of one is shut, what still comes is read and dropped until
 * the peer ends it too, or for five seconds (idle_ms, if that is less): an answer is not lost to a
 * reset.
 */
#ifndef CF_LOOP_HTTP_LISTENER_H
#define CF_LOOP_HTTP_LISTENER_H

#include "loop/http_server.h"

#include <uv.h>

struct cf_http_listener;

struct cf_http_listener_options {
    const char *address; /* IPv4 or IPv6; "::" is both, where the host has both */
    uint16_t port;       /* 0: any that is free */
    unsigned most_conns; /* one more takes the place of one that was silent for a second or more, with no
                            request open; where there is none, it is closed as it comes */
    unsigned idle_ms;    /* one over which nothing moved for so long is expired; 0: never */
    /* A connection begins: returns what serves it, made with this `io` and `io_user` (as by
     * cf_http_conn_new), or NULL: it is closed. */
    struct cf_http_conn *(*accept)(void *user, const struct cf_http_io *io, void *io_user);
    /* It is over; called once for each that accept returned, from the loop alone. NULL:
     * cf_http_conn_gone and cf_http_conn_free, so an exchange that was open hears on_abort. */
    void (*forget)(void *user, struct cf_http_conn *http);
    void *user;
};

/* `options` are copied. -1 when it cannot listen there (CF_ERROR_INTERNAL, its errno in `code`);
 * the loop must turn once more before it can be closed. */
CF_CHECKED int cf_http_listener_open(uv_loop_t *loop,
                                     const struct cf_http_listener_options *options,
                                     struct cf_http_listener **ret_listener, struct cf_error *err);
uint16_t cf_http_listener_port(const struct cf_http_listener *listener);
/* Stops listening and cuts every connection; once, from anywhere. Each that is open is forgotten
 * first; nothing is called after on_closed (may be NULL). */
void cf_http_listener_close(struct cf_http_listener *listener, void (*on_closed)(void *user),
                            void *user);

#endif
