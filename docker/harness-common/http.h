/*
 * harness-common/http.h: one HTTP/1.1 POST, without threads and without blocking.
 *
 * The reference harnesses run in images made from scratch: no resolver, no TLS, no certificates.
 * A model is reached at a numeric IPv4 address or at "localhost" over plain http, which is what
 * a relay inside the sandbox offers.
 */
#ifndef HN_HTTP_H
#define HN_HTTP_H

#include "base/buf.h"
#include "base/error.h"

#include <http_parser.h>
#include <netinet/in.h>
#include <stdbool.h>

struct hn_url {
    char text[512]; /* as given, for messages */
    char host[128]; /* host[:port] for the Host header */
    char path[512]; /* prefix without its trailing slash; "" for none */
    struct sockaddr_in address;
};

/* "http://127.0.0.1:4180/v1". Anything but http, a numeric IPv4 address (or localhost) and an
 * optional port and path is an error that says so. */
int hn_url_parse(struct hn_url *url, const char *text, struct cf_error *err);

/* Body bytes as they come, borrowed until return. <0 ends the call as failed; `err` is filled. */
typedef int hn_http_body_fn(void *user, const char *bytes, size_t len, struct cf_error *err);

/* Zeroed is safe to release. The body callback sees 2xx bodies only; the body of any other
 * status is kept (at most 64 KiB) in `refusal`. */
struct hn_http {
    int fd; /* -1 when closed */
    http_parser parser;
    struct cf_buf request;
    size_t sent;
    hn_http_body_fn *on_body;
    void *user;
    struct cf_buf field, value, refusal;
    bool in_value, is_event_stream, has_head, is_complete, callback_failed;
    int status;
    char mcp_session[128]; /* the Mcp-Session-Id header, when there was one */
    int retry_after_s;     /* the Retry-After header in seconds; -1: none */
    bool is_final;         /* X-Should-Retry: false */
    struct cf_error failure;
};

/* Begins the call. `headers` are whole lines, each ended by CRLF. Everything is copied except
 * `user`. The socket is non-blocking: poll fd for hn_http_events and call hn_http_ready. */
int hn_http_post(struct hn_http *http, const struct hn_url *url, const char *path,
                 const char *headers, const char *body, size_t len, hn_http_body_fn *on_body,
                 void *user, struct cf_error *err);
short hn_http_events(const struct hn_http *http);

/* Goes on as far as it can: 1 the answer is whole, 0 wait for more, -1 failed. */
int hn_http_ready(struct hn_http *http, struct cf_error *err);
void hn_http_release(struct hn_http *http);

/* The answer's bytes into the parser, `len` 0 for the end of the connection. For hn_http_ready,
 * and for tests that cut an answer at every byte. Returns as hn_http_ready does. */
void hn_http_expect_answer(struct hn_http *http, hn_http_body_fn *on_body, void *user);
int hn_http_feed(struct hn_http *http, const char *bytes, size_t len, struct cf_error *err);

#endif
