/*
 * loop/http_server.h: the server side of HTTP/1.1 on any pair of byte directions (a door
 * channel of the mux, a TCP socket). Sans I/O: bytes are fed in, bytes are taken out, and the
 * owner moves them. libhttp-parser does the parsing and stays behind http_server.c alone.
 *
 * One exchange at a time: pipelined requests wait and are answered in order. Each exchange
 * that on_request began ends with exactly one of on_done and on_abort.
 *
 * Answered here, without an exchange, with 400 (431 for a head over 64 KiB) and a close: a
 * bare LF or another control character in the head (a TLS hello is told apart by that), a
 * space before a header's colon, a folded header, Content-Length together with
 * Transfer-Encoding, two Content-Lengths, anything else that is not HTTP/1.x.
 *
 * A body that nobody wants (answered early, over the limit) is read and dropped, so that the
 * peer, which may write everything before it reads, still gets to see its answer.
 */
#ifndef CF_LOOP_HTTP_SERVER_H
#define CF_LOOP_HTTP_SERVER_H

#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define CF_HTTP_PAUSE 1 /* on_body's answer: the bytes were taken, no more until resume */

#define CF_HTTP_HEAD_LIMIT (64u * 1024)        /* request line and headers */
#define CF_HTTP_QUEUE_LIMIT (1024u * 1024)     /* answer bytes that wait for io.write */
#define CF_HTTP_STASH_LIMIT (2u * 1024 * 1024) /* fed bytes not yet dealt with */

struct cf_http_conn;

/* How the connection reaches its peer. Given by the owner; `user` is the owner's. None of
 * these may call feed, eof, gone, writable or resume of the same connection; `reset` and
 * `shutdown` may free it. */
struct cf_http_io {
    /* Takes up to len bytes now; returns how many (0: full, cf_http_conn_writable comes
     * later). */
    size_t (*write)(void *user, const char *bytes, size_t len);
    void (*shutdown)(void *user); /* no more bytes will be written; close gracefully */
    void (*reset)(void *user);    /* abort the connection now */
    void (*consumed)(void *user, size_t len); /* fed bytes are dealt with: credit may return */
    /* Half-close: no more bytes will be written, but the peer's are still read; `shutdown`
     * comes later. Used by tunnels only. NULL: a tunnel ends both ways at once. */
    void (*end_write)(void *user);
};

struct cf_http_request {                        /* all borrowed until the exchange ends */
    const char *method, *target, *path, *query; /* path without query; query may be NULL */
    uint64_t content_length; /* UINT64_MAX when chunked, 0 when there is no body */
};
/* Value of a header (case-insensitive name, the first of several), or NULL. Borrowed until the
 * exchange ends. */
const char *cf_http_header(const struct cf_http_conn *conn, const char *name);
/* The i-th header line, from 0; false behind the last. Borrowed in the same way. */
bool cf_http_header_at(const struct cf_http_conn *conn, size_t i, const char **ret_name,
                       const char **ret_value);

struct cf_http_handler {
    /* Head is complete. The handler may answer at once (then the body is read and dropped). */
    void (*on_request)(void *user, struct cf_http_conn *conn,
                       const struct cf_http_request *request);
    /* Body bytes, borrowed until return. Returns 0; or CF_HTTP_PAUSE: no more comes (nor
     * on_complete) before cf_http_conn_resume; or <0: no more is wanted, an answer must have
     * been begun, and the connection closes behind it. Never called with an answer ended. */
    int (*on_body)(void *user, struct cf_http_conn *conn, const char *bytes, size_t len);
    /* Request wholly received. Not called when the answer had ended before. */
    void (*on_complete)(void *user, struct cf_http_conn *conn);
    void (*on_drain)(void *user, struct cf_http_conn *conn); /* queued answer bytes are out */
    /* The answer is out to its last byte and the request is over. May be NULL. */
    void (*on_done)(void *user, struct cf_http_conn *conn);
    /* The peer is gone while an exchange is open (its end of file, a reset, broken framing):
     * stop working on it; no answer is possible. */
    void (*on_abort)(void *user, struct cf_http_conn *conn);
    /* The peer's bytes were refused with `status` before there was an exchange. May be NULL.
     */
    void (*on_malformed)(void *user, struct cf_http_conn *conn, int status, const char *why);
};

/* `io` and `handler` are borrowed for the connection's life. A body longer than max_body_bytes
 * (0: no limit) gets 413, unless the handler answered before; it hears on_abort or, once the
 * answer is out, on_done. NULL: out of memory. */
struct cf_http_conn *cf_http_conn_new(const struct cf_http_io *io, void *io_user,
                                      const struct cf_http_handler *handler, void *user,
                                      uint64_t max_body_bytes);
/* No callback from here on, also when called from inside one; NULL is fine. */
void cf_http_conn_free(struct cf_http_conn *conn);
void cf_http_conn_set_user(struct cf_http_conn *conn,
                           void *exchange_user); /* per exchange, free for the handler */
void *cf_http_conn_get_user(const struct cf_http_conn *conn);

/* From the owner. None of these may be called from inside a handler callback of the same conn.
 */
void cf_http_conn_feed(struct cf_http_conn *conn, const char *bytes, size_t len);
/* The peer will write no more. An answer that has ended is still written out; any other
 * exchange is aborted: clients cancel by closing, and this is how that looks. */
void cf_http_conn_eof(struct cf_http_conn *conn);
void cf_http_conn_gone(struct cf_http_conn *conn);     /* reset or error on the transport */
void cf_http_conn_writable(struct cf_http_conn *conn); /* io.write may take bytes again */
void
cf_http_conn_resume(struct cf_http_conn *conn); /* after CF_HTTP_PAUSE; harmless otherwise */

/* Answering. One head, then body, then end; from inside a handler callback or later. Bytes are
 * copied into a queue of at most 1 MiB; over it -1 and nothing was taken. `headers` are NAME,
 * VALUE pairs ending with NULL (or NULL: none). body_len UINT64_MAX: chunked. Keep-alive is
 * decided by the request; `Connection: close` in headers closes after. -1 as well when the
 * exchange is over or the calls come in a wrong order. cf_http_reply_end may call on_done (and
 * begin the next exchange) before it returns when it is called outside a handler callback. */
int cf_http_reply_head(struct cf_http_conn *conn, int status, const char *const *headers,
                       uint64_t body_len);
int cf_http_reply_body(struct cf_http_conn *conn, const char *bytes,
                       size_t len); /* len 0: the
                  head goes out ahead of its body */
int cf_http_reply_end(struct cf_http_conn *conn);
/* The three in one, with Content-Type. HEAD requests get the head only. */
int cf_http_reply(struct cf_http_conn *conn, int status, const char *content_type,
                  const char *const *headers, const char *body, size_t len);
/* Cuts the connection in the middle of an answer, so that the peer cannot take what it has for
 * the whole. on_abort comes from inside this call, then io.reset. A reply call that fails for
 * want of memory, or because a sized answer was short, does the same. */
void cf_http_reply_abort(struct cf_http_conn *conn);
/* Begins an answer of which every byte, its head included, is the handler's own, given to
 * cf_http_reply_body; the connection closes behind it. */
int cf_http_reply_raw(struct cf_http_conn *conn);
/* Answers a CONNECT with 200: from here on on_body gets the peer's bytes as they come (its
 * answers mean the same), on_complete its end of file, and cf_http_reply_body writes bytes as
 * they are. cf_http_reply_end closes our direction; on_done comes when both are over. */
int cf_http_reply_tunnel(struct cf_http_conn *conn);
size_t cf_http_reply_queued(const struct cf_http_conn *conn);
bool cf_http_reply_is_begun(const struct cf_http_conn *conn);
bool cf_http_conn_is_idle(const struct cf_http_conn *conn); /* no exchange is open */

/* For the owner's clock, since there is none in here: what the connection waits for, and how
 * many bytes have moved over it either way. A wait in which nothing moved for too long ends
 * with cf_http_conn_expire. */
enum cf_http_wait {
    CF_HTTP_WAITS_FOR_US,      /* an answer of the handler, or nothing any more */
    CF_HTTP_WAITS_FOR_REQUEST, /* idle between two requests, or before the first */
    CF_HTTP_WAITS_FOR_HEAD,    /* a head is half here */
    CF_HTTP_WAITS_FOR_BODY,    /* a body is half here */
    CF_HTTP_WAITS_FOR_READER   /* answer bytes wait for io.write */
};
enum cf_http_wait cf_http_conn_waits(const struct cf_http_conn *conn);
uint64_t cf_http_conn_moved(const struct cf_http_conn *conn);
/* Closes an idle connection; answers half a head with 408; cuts any other. The rules for calls
 * from the owner hold. */
void cf_http_conn_expire(struct cf_http_conn *conn);

#endif
