/*
 * loop/stream.h: one connection that carries bytes both ways: a unix socket, tcp, or tcp with
 * TLS. Behind it a libuv stream, or with TLS a libcurl connection read and written under
 * uv_poll; who uses it cannot tell. It is always read; there is no way to pause it.
 */
#ifndef CF_LOOP_STREAM_H
#define CF_LOOP_STREAM_H

#include "base/error.h"
#include "loop/tls.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <uv.h>

struct cf_stream;

struct cf_stream_target {  /* all copied */
    const char *unix_path; /* a unix socket (at most 107 bytes), else host and port */
    const char *host;      /* name or address, no brackets */
    unsigned port;
    bool is_tls;
    const struct cf_tls *tls; /* with is_tls; NULL: system authorities */
};

struct cf_stream_events {
    void (*on_open)(void *user); /* connected (with TLS: shaken hands): write now */
    void (*on_data)(void *user, const char *bytes, size_t len); /* borrowed until return */
    void (*on_written)(void *user); /* the write handed over last is wholly out, or the peer is
                                       gone and the read side will say so */
    /* No connection, or the read side is over: err NULL is the peer's end of file. At most
     * once; bytes may still be written after an end of file. The stream still has to be
     * closed. */
    void (*on_end)(void *user, const struct cf_error *err);
};

/*
 * Connects within `connect_ms` (0: 5 s). Returns 0 and later calls on_open or on_end, never
 * from inside; or <0 with `err` filled (path too long, memory). Errors of connecting are
 * CF_ERROR_ENGINE with errno as code where there is one; too slow is CF_ERROR_ENGINE_TIMEOUT.
 */
CF_CHECKED int cf_stream_open(uv_loop_t *loop, const struct cf_stream_target *target,
                              uint64_t connect_ms, const struct cf_stream_events *events,
                              void *user, struct cf_stream **ret_stream, struct cf_error *err);
/* Borrowed until on_written, which comes later, never from inside. One write at a time: a
 * second one, or one after shutdown, is refused. */
CF_CHECKED int cf_stream_write(struct cf_stream *stream, const char *bytes, size_t len,
                               struct cf_error *err);
/* SHUT_WR after the write in flight. With TLS no close_notify is sent: the peer reads the same
 * end of file, and the other direction goes on. */
void cf_stream_shutdown(struct cf_stream *stream);
/* Our address on a tcp connection, "" on a unix socket or before on_open. */
void cf_stream_local_address(const struct cf_stream *stream, char out[64]);
/* From anywhere, once, also inside an event; nothing fires afterwards but on_closed. */
void cf_stream_close(struct cf_stream *stream, void (*on_closed)(void *user), void *user);

#endif
