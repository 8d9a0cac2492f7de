/*
 * loop/http_server.h: the server side of HTTP/1.1 on any pair of byte directions (a door
 * channel of the mux, a TCP socket). Sans I/O: bytes are fed in, bytes are taken out, and the
 * owner moves them. libhttp-parser does the parsing and stays behind http_server.c alone.
 *
 * Refused with 400 and a close: bare LF in the head, a space before a header's colon,
 * Content-Length together with Transfer-Encoding, two different Content-Lengths, a head larger
 * than 64 KiB. Pipelined requests are answered in order, one at a time.
 */
#ifndef CF_LOOP_HTTP_SERVER_H
#define CF_LOOP_HTTP_SERVER_H

#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct cf_http_conn;

/* How the connection reaches its peer. Given by the owner; `user` is the owner's. */
struct cf_http_io {
    /* Takes up to len bytes now; returns how many (0: full, cf_http_conn_writable comes later). */
    size_t (*write)(void *user, const char *bytes, size_t len);
    void (*shutdown)(void *user);           /* no more bytes will be written; close gracefully */
    void (*reset)(void *user);              /* abort the connection now */
    void (*consumed)(void *user, size_t len); /* fed bytes are dealt with: credit may return */
};

struct cf_http_request { /* all borrowed until the exchange ends */
    const char *method, *target, *path, *query; /* path without query; query may be NULL */
    uint64_t content_length; /* UINT64_MAX when chunked, 0 when there is no body */
};
/* Value of a header (case-insensitive name), or NULL. Borrowed until the exchange ends. */
const char *cf_http_header(const struct cf_http_conn *conn, const char *name);

struct cf_http_handler {
    /* Head is complete. The handler may answer at once (then the body is read and dropped). */
    void (*on_request)(void *user, struct cf_http_conn *conn, const struct cf_http_request *request);
    /* Body bytes; return 0, or <0 to stop reading for good (an answer must have been begun). */
    int (*on_body)(void *user, struct cf_http_conn *conn, const char *bytes, size_t len);
    void (*on_complete)(void *user, struct cf_http_conn *conn); /* request wholly received */
    void (*on_drain)(void *user, struct cf_http_conn *conn);    /* queued answer bytes are out */
    /* The peer is gone while an exchange is open (its end of file, a reset, or our error): stop
     * working on it; no answer is possible. Comes at most once per exchange. */
    void (*on_abort)(void *user, struct cf_http_conn *conn);
};

struct cf_http_conn *cf_http_conn_new(const struct cf_http_io *io, void *io_user,
                                      const struct cf_http_handler *handler, void *user,
                                      uint64_t max_body_bytes);
void cf_http_conn_free(struct cf_http_conn *conn); /* no callback from here on; NULL is fine */
void cf_http_conn_set_user(struct cf_http_conn *conn, void *exchange_user); /* per exchange, free for the handler */
void *cf_http_conn_get_user(const struct cf_http_conn *conn);

/* From the owner. None of these may be called from inside a handler callback of the same conn. */
void cf_http_conn_feed(struct cf_http_conn *conn, const char *bytes, size_t len);
void cf_http_conn_eof(struct cf_http_conn *conn);
void cf_http_conn_gone(struct cf_http_conn *conn);     /* reset or error on the transport */
void cf_http_conn_writable(struct cf_http_conn *conn); /* io.write may take bytes again */

/* Answering. One head, then body, then end. Bytes are copied into a queue bounded by
 * `1 MiB`; over it -1. `headers` are NAME, VALUE pairs ending with NULL. body_len UINT64_MAX:
 * chunked. Keep-alive is decided by the request; `Connection: close` in headers closes after. */
int cf_http_reply_head(struct cf_http_conn *conn, int status, const char *const *headers, uint64_t body_len);
int cf_http_reply_body(struct cf_http_conn *conn, const char *bytes, size_t len);
int cf_http_reply_end(struct cf_http_conn *conn);
/* The three in one, with Content-Type. HEAD requests get the head only. */
int cf_http_reply(struct cf_http_conn *conn, int status, const char *content_type,
                  const char *const *headers, const char *body, size_t len);
size_t cf_http_reply_queued(const struct cf_http_conn *conn);
bool cf_http_conn_is_idle(const struct cf_http_conn *conn);

#endif
