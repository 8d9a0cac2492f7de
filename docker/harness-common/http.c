/* One HTTP/1.1 POST: URL, non-blocking socket, and the answer through http_parser. */
#include "http.h"

#include "base/str.h"

#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <unistd.h>

enum { REFUSAL_LIMIT = 64 * 1024, HEADER_LIMIT = 8 * 1024 };

static int
split_authority(const char *authority, char *host, size_t size, uint64_t *ret_port)
{
    const char *colon = strchr(authority, ':');
    size_t len = colon != NULL ? (size_t)(colon - authority) : strlen(authority);

    *ret_port = 80;
    if (len == 0 || len >= size)
        return -1;
    memcpy(host, authority, len);
    host[len] = '\0';
    if (colon != NULL && !cf_parse_u64(colon + 1, 1, 65535, ret_port))
        return -1;
    return 0;
}

int
hn_url_parse(struct hn_url *url, const char *text, struct cf_error *err)
{
    const char *rest, *slash;
    char name[64];
    uint64_t port;
    size_t len;

    memset(url, 0, sizeof *url);
    if (!cf_str_starts(text, "http://") || strlen(text) >= sizeof url->text)
        return cf_error_set(err, CF_ERROR_CONFIG, 0,
                            "model base URL \"%s\" is not a plain http:// URL", text);
    strcpy(url->text, text);
    rest = text + strlen("http://");
    slash = strchr(rest, '/');
    len = slash != NULL ? (size_t)(slash - rest) : strlen(rest);
    if (len == 0 || len >= sizeof url->host)
        return cf_error_set(err, CF_ERROR_CONFIG, 0, "model base URL \"%s\" names no host", text);
    memcpy(url->host, rest, len);
    if (slash != NULL)
        snprintf(url->path, sizeof url->path, "%s", slash);
    for (len = strlen(url->path); len > 0 && url->path[len - 1] == '/'; len--)
        url->path[len - 1] = '\0';
    url->address.sin_family = AF_INET;
    if (split_authority(url->host, name, sizeof name, &port) < 0 ||
        inet_pton(AF_INET, strcmp(name, "localhost") == 0 ? "127.0.0.1" : name,
                  &url->address.sin_addr) != 1)
        return cf_error_set(err, CF_ERROR_CONFIG, 0,
                            "model base URL \"%s\": this image has no resolver, so the host "
                            "must be a numeric IPv4 address or localhost",
                            text);
    url->address.sin_port = htons((uint16_t)port);
    return 0;
}

/* ---- the answer ------------------------------------------------------------------------- */

static int
on_header_field(http_parser *parser, const char *at, size_t len)
{
    struct hn_http *http = parser->data;

    if (http->in_value) {
        cf_buf_reset(&http->field);
        cf_buf_reset(&http->value);
        http->in_value = false;
    }
    return cf_buf_add(&http->field, at, len);
}

/* A value may come in pieces: the last look at it is the whole. */
static void
take_retry_header(struct hn_http *http)
{
    uint64_t seconds;

    if (http->field.data == NULL)
        return;
    if (strcasecmp(http->field.data, "retry-after") == 0 &&
        cf_parse_u64(http->value.data, 0, 3600, &seconds))
        http->retry_after_s = (int)seconds;
    if (strcasecmp(http->field.data, "x-should-retry") == 0)
        http->is_final = strcasecmp(http->value.data, "false") == 0;
}

static int
on_header_value(http_parser *parser, const char *at, size_t len)
{
    struct hn_http *http = parser->data;

    http->in_value = true;
    if (cf_buf_add(&http->value, at, len) < 0)
        return -1;
    if (http->field.data != NULL && strcasecmp(http->field.data, "content-type") == 0)
        http->is_event_stream = strncasecmp(http->value.data, "text/event-stream", 17) == 0;
    if (http->field.data != NULL && strcasecmp(http->field.data, "mcp-session-id") == 0)
        snprintf(http->mcp_session, sizeof http->mcp_session, "%s", http->value.data);
    take_retry_header(http);
    return 0;
}

static int
on_headers_complete(http_parser *parser)
{
    struct hn_http *http = parser->data;

    http->status = parser->status_code;
    http->has_head = true;
    return 0;
}

static int
on_body(http_parser *parser, const char *at, size_t len)
{
    struct hn_http *http = parser->data;

    if (http->status / 100 != 2) {
        size_t room = REFUSAL_LIMIT - http->refusal.len;
        return cf_buf_add(&http->refusal, at, len < room ? len : room);
    }
    if (http->on_body(http->user, at, len, &http->failure) < 0) {
        http->callback_failed = true;
        return -1;
    }
    return 0;
}

static int
on_message_complete(http_parser *parser)
{
    struct hn_http *http = parser->data;

    http->is_complete = true;
    return 0;
}

static const http_parser_settings settings = {
    .on_header_field = on_header_field,
    .on_header_value = on_header_value,
    .on_headers_complete = on_headers_complete,
    .on_body = on_body,
    .on_message_complete = on_message_complete,
};

void
hn_http_expect_answer(struct hn_http *http, hn_http_body_fn *body, void *user)
{
    memset(http, 0, sizeof *http);
    http->fd = -1;
    http->retry_after_s = -1;
    http->on_body = body;
    http->user = user;
    cf_buf_init(&http->field, HEADER_LIMIT);
    cf_buf_init(&http->value, HEADER_LIMIT);
    http_parser_init(&http->parser, HTTP_RESPONSE);
    http->parser.data = http;
}

int
hn_http_feed(struct hn_http *http, const char *bytes, size_t len, struct cf_error *err)
{
    (void)http_parser_execute(&http->parser, &settings, bytes, len);
    if (http->is_complete)
        return 1; /* a pipelined second answer would be noise: nobody asked for it */
    if (http->callback_failed) {
        *err = http->failure;
        return -1;
    }
    if (len > 0 && HTTP_PARSER_ERRNO(&http->parser) != HPE_OK)
        return cf_error_set(err, CF_ERROR_WIRE, 0, "the model's answer is not HTTP: %s",
                            http_errno_description(HTTP_PARSER_ERRNO(&http->parser)));
    if (len == 0)
        return cf_error_set(err, CF_ERROR_WIRE, 0,
                            "the model closed the connection before its answer was whole");
    return 0;
}

/* ---- the socket ------------------------------------------------------------------------- */

int
hn_http_post(struct hn_http *http, const struct hn_url *url, const char *path, const char *headers,
             const char *body, size_t len, hn_http_body_fn *body_fn, void *user,
             struct cf_error *err)
{
    hn_http_expect_answer(http, body_fn, user);
    cf_buf_addf(&http->request,
                "POST %s%s HTTP/1.1\r\nHost: %s\r\nContent-Type: application/json\r\n"
                "Content-Length: %zu\r\nConnection: close\r\n%s\r\n",
                url->path, path, url->host, len, headers);
    if (cf_buf_add(&http->request, body, len) < 0 || http->request.failed)
        return cf_error_memory(err);
    http->fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (http->fd < 0)
        return cf_error_set(err, CF_ERROR_INTERNAL, errno, "socket: %s", strerror(errno));
    if (connect(http->fd, (const struct sockaddr *)&url->address, sizeof url->address) < 0 &&
        errno != EINPROGRESS)
        return cf_error_set(err, CF_ERROR_HARNESS, errno, "%s", strerror(errno));
    return 0;
}

short
hn_http_events(const struct hn_http *http)
{
    return (short)(POLLIN | (http->sent < http->request.len ? POLLOUT : 0));
}

/* A refusal may come, and the connection close, before a big request is sent: then what was
 * answered counts, so a failed write only ends the writing. */
static void
send_some(struct hn_http *http)
{
    while (http->sent < http->request.len) {
        ssize_t n = send(http->fd, http->request.data + http->sent, http->request.len - http->sent,
                         MSG_NOSIGNAL);
        if (n < 0 && (errno == EAGAIN || errno == EINTR))
            return;
        if (n < 0)
            http->sent = http->request.len;
        else
            http->sent += (size_t)n;
    }
}

static int
connect_outcome(struct hn_http *http, struct cf_error *err)
{
    int why = 0;
    socklen_t len = sizeof why;

    if (getsockopt(http->fd, SOL_SOCKET, SO_ERROR, &why, &len) == 0 && why != 0)
        return cf_error_set(err, CF_ERROR_HARNESS, why, "%s", strerror(why));
    return 0;
}

int
hn_http_ready(struct hn_http *http, struct cf_error *err)
{
    char bytes[16 * 1024];

    if (http->sent == 0 && connect_outcome(http, err) < 0)
        return -1;
    send_some(http);
    for (;;) {
        ssize_t n = recv(http->fd, bytes, sizeof bytes, 0);
        int got;

        if (n < 0 && (errno == EAGAIN || errno == EINTR || errno == ENOTCONN))
            return 0;
        if (n < 0)
            return cf_error_set(err, CF_ERROR_HARNESS, errno, "%s", strerror(errno));
        got = hn_http_feed(http, bytes, (size_t)n, err);
        if (got != 0)
            return got;
    }
}

void
hn_http_release(struct hn_http *http)
{
    if (http->parser.data != NULL && http->fd >= 0) /* a zeroed one owns no descriptor */
        close(http->fd);
    http->fd = -1;
    cf_buf_release(&http->request);
    cf_buf_release(&http->field);
    cf_buf_release(&http->value);
    cf_buf_release(&http->refusal);
}
