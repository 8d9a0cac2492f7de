/*
 * loop/http_client.h: HTTP requests through libcurl's multi interface on the caller's
 * loop. Connections are reused. No proxy from the environment, no redirect followed, no Expect
 * header, no signal. What the bytes mean is the caller's business.
 *
 * curl_global_init is the process's (cf_library_init); it must have happened.
 */
#ifndef CF_LOOP_HTTP_CLIENT_H
#define CF_LOOP_HTTP_CLIENT_H

#include "base/error.h"
#include "loop/tls.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <uv.h>

struct cf_http_client;
struct cf_http_call;

#define CF_HTTP_PAUSE 1 /* on_body's answer: bytes not taken; they come again after resume */
#define CF_HTTP_WAIT \
    (-1000000L) /* a source's answer: nothing yet; call cf_http_call_resume later */

CF_CHECKED int cf_http_client_open(uv_loop_t *loop, struct cf_http_client **ret_client,
                                   struct cf_error *err);
/* Calls in flight end first, with CF_ERROR_CANCELED; then on_closed, then nothing. From
 * anywhere. */
void cf_http_client_close(struct cf_http_client *client, void (*on_closed)(void *user),
                          void *user);

enum cf_http_fault {
    CF_HTTP_OK = 0,   /* a whole answer came, whatever its status */
    CF_HTTP_RESOLVE,  /* the name has no address */
    CF_HTTP_CONNECT,  /* no connection: see os_errno */
    CF_HTTP_TLS,      /* handshake or certificate: see detail */
    CF_HTTP_DEADLINE, /* the whole call's deadline */
    CF_HTTP_IDLE,     /* no byte either way for too long */
    CF_HTTP_LOST,     /* the peer closed or reset before the answer's end */
    CF_HTTP_PROTOCOL, /* not an HTTP/1.1 answer, or a head over 256 KiB */
    CF_HTTP_ABORTED,  /* one of the caller's own callbacks said so */
    CF_HTTP_CANCELED,
    CF_HTTP_INTERNAL, /* memory, or libcurl refused to work */
    CF_HTTP_SILENT    /* first_byte_ms went by without a head */
};

struct cf_http_result { /* borrowed until done returns */
    enum cf_http_fault fault;
    int http_status;        /* 0 when no head came */
    int os_errno;           /* for CONNECT, where the system gave one */
    const char *detail;     /* one line from below, may be empty, never NULL */
    char local_address[64]; /* our end of a tcp connection, "" on a unix socket */
};

struct cf_http_events {                           /* every one may be NULL but done */
    void (*on_head)(void *user, int http_status); /* final head seen (no 1xx) */
    /* One header line of the final head, name and value NUL-terminated; before on_head. */
    void (*on_header)(void *user, const char *name, const char *value);
    /* Body bytes as they come: 0 to go on, CF_HTTP_PAUSE, or <0 to end the call (ABORTED). */
    int (*on_body)(void *user, const char *bytes, size_t len);
    /* Next bytes of a streamed request body: how many were put, 0 at the end, CF_HTTP_WAIT, or
     * any other negative number to end the call (ABORTED). */
    long (*on_source)(void *user, char *to, size_t size);
    /* Once, from the loop, last; the call is freed when it returns. */
    void (*done)(void *user, const struct cf_http_result *result);
};

struct cf_http_request_options {
    const char *method;         /* "GET", "HEAD", "POST", "PUT", "DELETE"; copied */
    const char *url;            /* copied */
    const char *unix_path;      /* or NULL; copied */
    const struct cf_tls *tls;   /* for https; NULL: system authorities; copied */
    const char *const *headers; /* "Name: value" lines, NULL-terminated, or NULL; copied */
    const char *body;           /* borrowed until done, or NULL */
    size_t body_len;
    bool copy_body;   /* `body` is copied instead */
    bool is_streamed; /* body comes from on_source, chunked, on a connection of its own */
    bool is_sized;    /* body comes from on_source, body_len bytes of it; with a
                         NULL place to put them it shall begin again (a reused connection
                         was dead): 0, or <0 when it cannot */
    bool may_http2;   /* HTTP/2 where TLS agrees on it; one call at a time on a connection, so
                         that a slow reader stalls no other */
    size_t buffer_bytes;    /* of what is read at once; 0: 64 KiB */
    uint64_t connect_ms;    /* 0: 5 s */
    uint64_t first_byte_ms; /* from the start to the answer's head; 0: off */
    uint64_t deadline_ms;   /* whole call; 0: 60 s */
    uint64_t idle_ms;       /* no byte either way, while nobody on our side pauses; 0: off */
};

/* Returns 0 and later calls events->done once, never from inside; or <0 and never calls it. */
CF_CHECKED int cf_http_call_start(struct cf_http_client *client,
                                  const struct cf_http_request_options *options,
                                  const struct cf_http_events *events, void *user,
                                  struct cf_http_call **ret_call, struct cf_error *err);
/* done comes later, with CANCELED. From anywhere, twice is fine, until done has come. */
void cf_http_call_cancel(struct cf_http_call *call);
/* After CF_HTTP_PAUSE or CF_HTTP_WAIT. on_body or on_source may be called from inside. */
void cf_http_call_resume(struct cf_http_call *call);

#endif
