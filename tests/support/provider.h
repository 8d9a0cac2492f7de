/*
 * provider.h: a model provider on a loopback port, for tests: the far end of the relay's
 * upstream. What it does is said by the model's name in the request; what it saw is kept.
 *
 *   (any)       an answer with usage; a stream when the request asks for one
 *   sum         tells how many body bytes came, and their sum
 *   mute        never answers           pause       a stream that stops in its middle
 *   cut         a stream that is cut    short       a sized answer that ends early
 *   deny        401, with a piece of the key in its words
 *   busy        429 with retry-after    coded       an answer that calls itself compressed
 *   long        16 MiB of stream, as fast as it is read
 *   slow        a stream of eight events, 20 ms apart
 *   echo        the key that it was asked with, in a header and byte by byte in its text
 *   almost      the same without the key's last character
 *
 * fal_queue's paths are served as well, with URLs of a host of its own.
 */
#ifndef CF_TESTS_PROVIDER_H
#define CF_TESTS_PROVIDER_H

#include "base/buf.h"
#include "loop/http_listener.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#ifndef PROVIDER_LONG
#define PROVIDER_LONG (16u * 1024 * 1024)
#endif

struct provider {
    uv_loop_t *loop;
    struct cf_http_listener *listener;
    unsigned port;
    unsigned requests, aborts, conns; /* so far */
    uint64_t sent;                    /* bytes of long streams handed over */
    struct cf_buf head;               /* of the last request: "METHOD target\nname: value\n..." */
};

struct provider_call {
    struct provider *provider;
    uv_timer_t timer;
    struct cf_http_conn *http;
    struct cf_buf body;
    uint64_t body_len, sum;
    uint64_t sent;
    unsigned events;
    char path[256], method[16], mode[16];
    bool streams;
};

/* ---- what it answers -------------------------------------------------------------------- */

static void
provider_on_request(void *user, struct cf_http_conn *http,
                    const struct cf_http_request *request)
{
    struct provider_call *call = calloc(1, sizeof *call);
    struct provider *provider = user;
    const char *name, *value;

    provider->requests++;
    cf_buf_reset(&provider->head);
    cf_buf_addf(&provider->head, "%s %s\n", request->method, request->target);
    for (size_t i = 0; cf_http_header_at(http, i, &name, &value); i++)
        cf_buf_addf(&provider->head, "%s: %s\n", name, value);
    if (call == NULL)
        abort();
    call->provider = provider;
    call->http = http;
    call->timer.data = call;
    uv_timer_init(provider->loop, &call->timer);
    cf_http_conn_set_user(http, call);
    snprintf(call->path, sizeof call->path, "%s", request->path);
    snprintf(call->method, sizeof call->method, "%s", request->method);
}

static int
provider_on_body(void *user, struct cf_http_conn *http, const char *bytes, size_t len)
{
    struct provider_call *call = cf_http_conn_get_user(http);

    if (call->body.len < 4096)
        cf_buf_add(&call->body, bytes, len < 4096 ? len : 4096);
    for (size_t i = 0; i < len; i++)
        call->sum = call->sum * 31 + (unsigned char)bytes[i];
    call->body_len += len;
    return 0;
}

static void
provider_json(struct provider_call *call, int status, const char *const *headers,
              const char *json)
{
    (void)cf_http_reply(call->http, status, "application/json", headers, json, strlen(json));
}

/* Event `n` of a stream in the dialect of the path; NULL behind the last. */
static const char *
provider_event(const struct provider_call *call, unsigned n, char *to, size_t size)
{
    if (strstr(call->path, "/messages") != NULL) {
        if (n == 0)
            return "event: message_start\ndata: "
                   "{\"type\":\"message_start\",\"message\":{\"id\":\"m\",\"model\":"
                   "\"served-model\",\"usage\":{\"input_tokens\":11,\"output_tokens\":1,"
                   "\"cache_read_input_tokens\":5}}}\n\n";
        if (n < 7) {
            snprintf(to, size,
                     "event: content_block_delta\ndata: "
                     "{\"type\":\"content_block_delta\",\"index\":0,"
                     "\"delta\":{\"type\":\"text_delta\",\"text\":\"piece %u \"}}\n\n",
                     n);
            return to;
        }
        return n == 7 ? "event: message_delta\ndata: "
                        "{\"type\":\"message_delta\",\"delta\":{\"stop_reason\":"
                        "\"end_turn\"},\"usage\":{\"output_tokens\":42}}\n\nevent: "
                        "message_stop\ndata: "
                        "{\"type\":\"message_stop\"}\n\n"
                      : NULL;
    }
    if (n < 7) {
        snprintf(
            to, size,
            "data: "
            "{\"id\":\"c\",\"model\":\"served-model\",\"choices\":[{\"index\":0,\"delta\":"
            "{\"content\":\"piece %u \"},\"finish_reason\":null}]}\n\n",
            n);
        return to;
    }
    return n == 7 ? "data: "
                    "{\"id\":\"c\",\"choices\":[],\"usage\":{\"prompt_tokens\":11,"
                    "\"completion_tokens\":42,"
                    "\"prompt_tokens_details\":{\"cached_tokens\":5}}}\n\ndata: [DONE]\n\n"
                  : NULL;
}

static void
provider_pump_long(struct provider_call *call)
{
    static const char line[] = ": padding that nobody reads, again and again and again\n\n";
    struct cf_buf piece = {0};

    while (call->sent < PROVIDER_LONG && cf_http_reply_queued(call->http) < 64 * 1024) {
        cf_buf_reset(&piece);
        while (piece.len < 16 * 1024)
            cf_buf_adds(&piece, line);
        if (cf_http_reply_body(call->http, piece.data, piece.len) < 0)
            break;
        call->sent += piece.len;
        call->provider->sent += piece.len;
    }
    cf_buf_release(&piece);
    if (call->sent >= PROVIDER_LONG)
        (void)cf_http_reply_end(call->http);
}

static void provider_pump(struct provider_call *call);

static void
provider_on_timer(uv_timer_t *timer)
{
    provider_pump(timer->data);
}

static void
provider_pump(struct provider_call *call)
{
    bool is_slow = strcmp(call->mode, "slow") == 0;
    char text[400];
    const char *event;

    while ((event = provider_event(call, call->events, text, sizeof text)) != NULL) {
        if (strcmp(call->mode, "pause") == 0 && call->events == 3)
            return;
        if (strcmp(call->mode, "cut") == 0 && call->events == 3) {
            cf_http_reply_abort(call->http);
            return;
        }
        if (cf_http_reply_body(call->http, event, strlen(event)) < 0)
            return;
        call->events++;
        if (is_slow) {
            uv_timer_start(&call->timer, provider_on_timer, 20, 0);
            return;
        }
    }
    (void)cf_http_reply_end(call->http);
}

static void
provider_stream(struct provider_call *call)
{
    static const char *const headers[] = {"Content-Type", "text/event-stream", "Set-Cookie",
                                          "own=1",        "X-Request-Id",      "up-1",
                                          "Connection",   "keep-alive",        NULL};

    if (cf_http_reply_head(call->http, 200, headers, UINT64_MAX) < 0)
        return;
    if (strcmp(call->mode, "long") == 0)
        provider_pump_long(call);
    else
        provider_pump(call);
}

static void
provider_fal(struct provider_call *call)
{
    static const char urls[] =
        "\"request_id\":\"r-1\",\"response_url\":\"https://queue.provider.test/a/b/requests/"
        "r-1\","
        "\"status_url\":\"https://queue.provider.test/a/b/requests/r-1/status\","
        "\"cancel_url\":\"https://queue.provider.test/a/b/requests/r-1/cancel\"";
    static const char *const events[] = {"Content-Type", "text/event-stream", NULL};
    char text[1024];

    if (strcmp(call->method, "POST") == 0)
        snprintf(text, sizeof text, "{\"status\":\"IN_QUEUE\",%s}", urls);
    else if (strstr(call->path, "/status/stream") != NULL)
        snprintf(
            text, sizeof text,
            "data: {\"status\":\"IN_PROGRESS\",%s}\n\ndata: {\"status\":\"COMPLETED\",%s}\n\n",
            urls, urls);
    else if (strstr(call->path, "/status") != NULL)
        snprintf(text, sizeof text,
                 "{\"status\":\"COMPLETED\",\"metrics\":{\"inference_time\":1.5},%s}", urls);
    else
        snprintf(text, sizeof text,
                 "{\"images\":[{\"url\":\"https://media.provider.test/1.png\"}]}");
    if (strstr(call->path, "/status/stream") == NULL) {
        provider_json(call, 200, NULL, text);
        return;
    }
    if (cf_http_reply_head(call->http, 200, events, UINT64_MAX) == 0 &&
        cf_http_reply_body(call->http, text, strlen(text)) == 0)
        (void)cf_http_reply_end(call->http);
}

static void
provider_read_mode(struct provider_call *call)
{
    const char *model =
        call->body.data != NULL ? strstr(call->body.data, "\"model\":\"") : NULL;

    snprintf(call->mode, sizeof call->mode, "%.*s",
             model != NULL ? (int)strcspn(model + 9, "\"") : 0,
             model != NULL ? model + 9 : "");
    call->streams =
        call->body.data != NULL && strstr(call->body.data, "\"stream\":true") != NULL;
}

static void
provider_echo(struct provider_call *call)
{
    const char *key = cf_http_header(call->http, "x-api-key");
    size_t len = strlen(key) - (strcmp(call->mode, "almost") == 0);
    const char *const headers[] = {"X-Asked-With", key, NULL};

    if (cf_http_reply_head(call->http, 403, headers, UINT64_MAX) < 0)
        return;
    (void)cf_http_reply_body(call->http, "sk-sk-", 6);
    for (size_t i = 0; i < len; i++)
        (void)cf_http_reply_body(call->http, key + i, 1);
    (void)cf_http_reply_end(call->http);
}

static void
provider_on_complete(void *user, struct cf_http_conn *http)
{
    static const char *const again[] = {"retry-after", "7", NULL};
    static const char *const coded[] = {"Content-Encoding", "br", NULL};
    struct provider_call *call = cf_http_conn_get_user(http);
    char text[200];

    provider_read_mode(call);
    if (strncmp(call->path, "/a/", 3) == 0)
        provider_fal(call);
    else if (strcmp(call->mode, "mute") == 0)
        return;
    else if (strcmp(call->mode, "sum") == 0) {
        snprintf(text, sizeof text, "{\"bytes\":%" PRIu64 ",\"sum\":%" PRIu64 "}",
                 call->body_len, call->sum);
        provider_json(call, 200, NULL, text);
    } else if (strcmp(call->mode, "deny") == 0)
        provider_json(call, 401, NULL, "{\"error\":{\"message\":\"bad key sk-real-***\"}}");
    else if (strcmp(call->mode, "echo") == 0 || strcmp(call->mode, "almost") == 0)
        provider_echo(call);
    else if (strcmp(call->mode, "busy") == 0)
        provider_json(call, 429, again,
                      "{\"error\":{\"message\":\"later\",\"type\":\"rate_limit_error\"}}");
    else if (strcmp(call->mode, "coded") == 0)
        provider_json(call, 200, coded, "\x0b\x02not really brotli\x03");
    else if (strcmp(call->mode, "short") == 0) {
        if (cf_http_reply_head(call->http, 200, NULL, 100) == 0 &&
            cf_http_reply_body(call->http, "{\"x\":", 5) == 0)
            cf_http_reply_abort(call->http);
    } else if (call->streams)
        provider_stream(call);
    else
        provider_json(call, 200, NULL,
                      strstr(call->path, "count_tokens") != NULL
                          ? "{\"input_tokens\":77}"
                          : "{\"id\":\"x\",\"model\":\"served-model\",\"content\":[],"
                            "\"choices\":[],\"usage\":{"
                            "\"input_tokens\":11,\"output_tokens\":42,\"prompt_tokens\":11,"
                            "\"completion_tokens\":42}}");
}

static void
provider_on_drain(void *user, struct cf_http_conn *http)
{
    struct provider_call *call = cf_http_conn_get_user(http);

    if (strcmp(call->mode, "long") == 0)
        provider_pump_long(call);
}

static void
provider_on_closed(uv_handle_t *handle)
{
    struct provider_call *call = handle->data;

    cf_buf_release(&call->body);
    free(call);
}

static void
provider_on_done(void *user, struct cf_http_conn *http)
{
    struct provider_call *call = cf_http_conn_get_user(http);

    uv_close((uv_handle_t *)&call->timer, provider_on_closed);
}

static void
provider_on_abort(void *user, struct cf_http_conn *http)
{
    ((struct provider *)user)->aborts++;
    provider_on_done(user, http);
}

static const struct cf_http_handler provider_handler = {.on_request = provider_on_request,
                                                        .on_body = provider_on_body,
                                                        .on_complete = provider_on_complete,
                                                        .on_drain = provider_on_drain,
                                                        .on_done = provider_on_done,
                                                        .on_abort = provider_on_abort};

/* ---- its port ------------------------------------------------------------------------------
 */

static struct cf_http_conn *
provider_accept(void *user, const struct cf_http_io *way, void *way_user)
{
    ((struct provider *)user)->conns++;
    return cf_http_conn_new(way, way_user, &provider_handler, user, 0);
}

/* `port` 0: any; provider->port has it afterwards. False: it cannot listen. */
static bool
provider_open(struct provider *provider, uv_loop_t *loop, const char *ip, unsigned port)
{
    struct cf_http_listener_options options = {.address = ip,
                                               .port = (uint16_t)port,
                                               .most_conns = 1024,
                                               .accept = provider_accept,
                                               .user = provider};
    struct cf_error err;

    memset(provider, 0, sizeof *provider);
    provider->loop = loop;
    if (cf_http_listener_open(loop, &options, &provider->listener, &err) < 0)
        return false;
    provider->port = cf_http_listener_port(provider->listener);
    return true;
}

/* The loop must run on until its connections are closed. */
static inline void
provider_close(struct provider *provider)
{
    cf_http_listener_close(provider->listener, NULL, NULL);
    cf_buf_release(&provider->head);
}

#endif
