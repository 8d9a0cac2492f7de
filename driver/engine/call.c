/*
 * One request and its answer. What the Engine says is collected (JSON, error texts), handed on
 * as raw bytes, or cut into the objects of a progress stream; which of them is decided at the
 * head: an error status is always collected, so that its message is not lost.
 */
#include "base/str.h"
#include "engine/internal.h"
#include "engine/objects.h"
#include "json/json.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

#define REPLY_LIMIT_BYTES (16u * 1024 * 1024)
#define ERROR_LIMIT_BYTES (64u * 1024)
#define DEFAULT_DEADLINE_MS 60000u

static const struct cf_json_limits reply_limits = {
    .bytes = REPLY_LIMIT_BYTES, .depth = 128, .nodes = 2000000};

struct cf_engine_call {
    struct cf_engine *engine;
    struct cf_http_call *http;
    struct cf_engine_request
        request; /* its pointers: only the callbacks, users and method/path below */
    cf_engine_header_fn *on_header;
    cf_engine_done_fn *done;
    void *user;
    char *method, *path, *json_text;
    int status;
    struct cf_buf body;
    struct cf_objects objects;
    struct cf_error stream_err; /* why we ended the stream, or what it said inside a 200 */
    char *path_stat;
};

static void
call_free(struct cf_engine_call *call)
{
    free(call->method);
    free(call->path);
    free(call->json_text);
    free(call->path_stat);
    cf_buf_release(&call->body);
    cf_objects_release(&call->objects);
    free(call);
}

/* The path as shown to people: without the query, which may be long and holds nothing to act
 * on. */
static int
shown_len(const char *path)
{
    return (int)strcspn(path, "?");
}

static bool
is_success(const struct cf_engine_call *call, int status)
{
    return (status >= 200 && status < 300) || status == 304 ||
           (call->request.also_ok != 0 && status == call->request.also_ok);
}

/* ---- what went wrong -------------------------------------------------------------------- */

static void
take_message(const char *body, size_t len, char *out, size_t size)
{
    const struct cf_json_limits limits = {
        .bytes = ERROR_LIMIT_BYTES, .depth = 16, .nodes = 10000};
    json_t *json = len > 0 ? cf_json_parse(body, len, &limits, NULL) : NULL;
    const char *message = cf_json_str(json, "message");

    if (message != NULL) {
        snprintf(out, size, "%s", message);
    } else {
        size_t line = 0; /* bare text, as an old engine or a proxy says it */
        while (line < len && body[line] != '\n' && body[line] != '\0')
            line++;
        snprintf(out, size, "%.*s", (int)(line < size ? line : size - 1), len > 0 ? body : "");
    }
    size_t end = strlen(out);
    while (end > 0 && (out[end - 1] == '\n' || out[end - 1] == ' '))
        out[--end] = '\0';
    json_decref(json);
}

int
cf_engine_refusal(const char *method, const char *path, int http_status, const char *body,
                  size_t len, struct cf_error *err)
{
    char message[600];

    if (http_status == 0) /* the connection's end came before the head's */
        return cf_error_set(err, CF_ERROR_ENGINE, 0,
                            "engine closed the connection in the head of its answer to %s %.*s",
                            method, shown_len(path), path);
    take_message(body, len, message, sizeof message);
    return cf_error_set(err, http_status == 404 ? CF_ERROR_NOT_FOUND : CF_ERROR_ENGINE,
                        http_status, "engine answered %d to %s %.*s%s%s", http_status, method,
                        shown_len(path), path, message[0] != '\0' ? ": " : "", message);
}

static int
explain_fault(const struct cf_engine_call *call, const struct cf_http_result *result,
              struct cf_error *err)
{
    const struct cf_engine *engine = call->engine;
    const char *method = call->method, *path = call->path;
    int n = shown_len(path);

    switch (result->fault) {
    case CF_HTTP_DEADLINE:
        cf_error_set(err, CF_ERROR_ENGINE_TIMEOUT, 0,
                     "engine did not end its answer to %s %.*s within %llu ms", method, n,
                     path, (unsigned long long)call->request.deadline_ms);
        return cf_error_fix(err, "look at the engine: `docker info` should answer at once");
    case CF_HTTP_IDLE:
        return cf_error_set(err, CF_ERROR_ENGINE_TIMEOUT, 0,
                            "engine was silent for %llu ms during %s %.*s",
                            (unsigned long long)call->request.idle_ms, method, n, path);
    case CF_HTTP_CANCELED:
        return cf_error_set(err, CF_ERROR_CANCELED, 0, "%s %.*s was canceled", method, n,
                            path);
    case CF_HTTP_RESOLVE:
        return cf_endpoint_explain(&engine->endpoint, 0, result->detail, err);
    case CF_HTTP_CONNECT:
        return cf_endpoint_explain(&engine->endpoint, result->os_errno, result->detail, err);
    case CF_HTTP_TLS:
        return cf_endpoint_explain_tls(&engine->endpoint, result->detail, err);
    case CF_HTTP_LOST:
        return cf_error_set(err, CF_ERROR_ENGINE, 0,
                            "engine closed the connection during %s %.*s (%s)", method, n,
                            path, result->detail);
    case CF_HTTP_ABORTED:
        if (call->stream_err.kind != CF_ERROR_NONE) {
            *err = call->stream_err;
            return cf_error_wrap(err, "%s %.*s", method, n, path);
        }
        return cf_error_set(err, CF_ERROR_CANCELED, 0,
                            "%s %.*s was ended by its own reader or source", method, n, path);
    case CF_HTTP_PROTOCOL:
        return cf_error_set(err, CF_ERROR_ENGINE, 0,
                            "%s does not answer %s %.*s in HTTP/1.1 (%s)",
                            engine->endpoint.url, method, n, path, result->detail);
    default:
        return cf_error_set(err, CF_ERROR_INTERNAL, 0, "%s %.*s: %s", method, n, path,
                            result->detail);
    }
}

/* After a whole answer with a good status: did the stream inside say otherwise? */
static int
check_stream(const struct cf_engine_call *call, struct cf_error *err)
{
    if (call->request.on_object == NULL)
        return 0;
    if (call->stream_err.kind != CF_ERROR_NONE) {
        *err = call->stream_err;
        return -1;
    }
    if (!cf_objects_is_between(&call->objects))
        return cf_error_set(err, CF_ERROR_ENGINE, call->status,
                            "engine's answer to %s %.*s ended in the middle of an object",
                            call->method, shown_len(call->path), call->path);
    return 0;
}

/* ---- what the HTTP client tells --------------------------------------------------------- */

static void
on_http_header(void *user, const char *name, const char *value)
{
    struct cf_engine_call *call = user;

    if (strcasecmp(name, "X-Docker-Container-Path-Stat") == 0)
        if (cf_str_copy(&call->path_stat, value, NULL) < 0)
            call->path_stat = NULL; /* the caller says what is missing */
    if (call->on_header != NULL)
        call->on_header(call->user, name, value);
}

static void
on_http_head(void *user, int http_status)
{
    struct cf_engine_call *call = user;

    call->status = http_status;
    if (!is_success(call, http_status))
        call->body.limit_bytes = ERROR_LIMIT_BYTES;
    if (call->request.on_head != NULL)
        call->request.on_head(call->user, http_status);
}

static int
on_object(void *user, json_t *object)
{
    struct cf_engine_call *call = user;
    const char *text = cf_objects_error(object);

    if (text != NULL && call->stream_err.kind == CF_ERROR_NONE)
        cf_error_set(&call->stream_err, CF_ERROR_ENGINE, call->status,
                     "engine reported an error during %s %.*s: %s", call->method,
                     shown_len(call->path), call->path, text);
    call->request.on_object(call->user, object);
    return 0;
}

static int
on_http_body(void *user, const char *bytes, size_t len)
{
    struct cf_engine_call *call = user;
    bool good = is_success(call, call->status);

    if (good && call->request.on_bytes != NULL)
        return call->request.on_bytes(call->user, bytes, len);
    if (good && call->request.on_object != NULL)
        return cf_objects_feed(&call->objects, bytes, len, on_object, call, &call->stream_err);
    if (cf_buf_add(&call->body, bytes, len) == 0)
        return 0;
    if (!good)
        return 0; /* an endless error text: what is kept suffices */
    return cf_error_set(&call->stream_err, CF_ERROR_ENGINE, call->status,
                        "the answer is larger than %u MiB", REPLY_LIMIT_BYTES >> 20);
}

static long
on_http_source(void *user, char *to, size_t size)
{
    struct cf_engine_call *call = user;
    long put = call->request.source(call->request.source_user, to, size);

    return put == CF_ENGINE_SOURCE_WAIT ? CF_HTTP_WAIT : put;
}

static json_t *
parse_reply(const struct cf_engine_call *call)
{
    const char *text = call->body.data;

    if (text == NULL || strchr("{[\"n", text[0]) == NULL)
        return NULL;
    return cf_json_parse(text, call->body.len, &reply_limits, NULL);
}

static void
on_http_done(void *user, const struct cf_http_result *result)
{
    struct cf_engine_call *call = user;
    struct cf_error err = {0};
    int status = 0;

    if (result->local_address[0] != '\0')
        snprintf(call->engine->facts.local_address, sizeof call->engine->facts.local_address,
                 "%s", result->local_address);
    if (result->fault != CF_HTTP_OK)
        status = explain_fault(call, result, &err);
    else if (!is_success(call, result->http_status))
        status = cf_engine_refusal(call->method, call->path, result->http_status,
                                   call->body.data, call->body.len, &err);
    else
        status = check_stream(call, &err);
    struct cf_engine_reply reply = {.http_status = result->http_status,
                                    .body = call->body.data,
                                    .body_len = call->body.len,
                                    .header_path_stat = call->path_stat};
    if (result->http_status != 0)
        reply.json = parse_reply(call);
    cf_log(call->engine->log, CF_LOG_DEBUG, "engine", "%s %.*s: %d%s%s", call->method,
           shown_len(call->path), call->path, result->http_status, status < 0 ? " " : "",
           status < 0 ? err.text : "");
    call->done(call->user, status, result->http_status != 0 ? &reply : NULL,
               status < 0 ? &err : NULL);
    json_decref(reply.json);
    call_free(call);
}

/* ---- starting --------------------------------------------------------------------------- */

static int
check_request(const struct cf_engine_request *request, struct cf_error *err)
{
    if (request->path == NULL || request->path[0] != '/')
        return cf_error_set(err, CF_ERROR_INTERNAL, 0, "an engine request needs a path");
    for (const unsigned char *c = (const unsigned char *)request->path; *c != '\0'; c++)
        if (*c <= ' ' || *c >= 0x7f || *c == '#')
            return cf_error_set(err, CF_ERROR_CONFIG, 0,
                                "\"%.100s\" cannot be part of an engine request",
                                request->path);
    return 0;
}

static int
make_url(const struct cf_engine *engine, const char *path, char **ret_url,
         struct cf_error *err)
{
    const char *version = engine->facts.api_version;
    int rc = version[0] != '\0'
                 ? asprintf(ret_url, "%s/v%s%s", engine->endpoint.base_url, version, path)
                 : asprintf(ret_url, "%s%s", engine->endpoint.base_url, path);

    return rc < 0 ? cf_error_memory(err) : 0;
}

struct header_lines {
    const char *lines[4];
    char *type, *auth, *config;
};

static void
header_lines_release(struct header_lines *headers)
{
    free(headers->type);
    free(headers->auth);
    free(headers->config);
}

static int
make_headers(const struct cf_engine_request *request, struct header_lines *headers,
             struct cf_error *err)
{
    const char *type = NULL;
    int n = 0;

    if (request->json != NULL)
        type = "application/json";
    else if (request->body != NULL || request->source != NULL)
        type = request->content_type != NULL ? request->content_type : "application/x-tar";
    if (type != NULL && asprintf(&headers->type, "Content-Type: %s", type) < 0)
        return cf_error_memory(err);
    if (request->registry_auth != NULL &&
        asprintf(&headers->auth, "X-Registry-Auth: %s", request->registry_auth) < 0)
        return cf_error_memory(err);
    if (request->registry_config != NULL &&
        asprintf(&headers->config, "X-Registry-Config: %s", request->registry_config) < 0)
        return cf_error_memory(err);
    if (headers->type != NULL)
        headers->lines[n++] = headers->type;
    if (headers->auth != NULL)
        headers->lines[n++] = headers->auth;
    if (headers->config != NULL)
        headers->lines[n++] = headers->config;
    return 0;
}

static int
start(struct cf_engine_call *call, const struct cf_engine_request *request,
      struct cf_error *err)
{
    static const struct cf_http_events events = {on_http_head, on_http_header, on_http_body,
                                                 on_http_source, on_http_done};
    struct header_lines headers = {0};
    cf_auto_free char *url = NULL;
    size_t json_len = 0;

    if (request->json != NULL) {
        call->json_text = cf_json_dump(request->json, &json_len);
        if (call->json_text == NULL)
            return cf_error_memory(err);
    }
    if (make_url(call->engine, call->path, &url, err) < 0)
        return -1;
    int rc = make_headers(request, &headers, err);
    if (rc == 0) {
        struct cf_http_request_options options = {
            .method = call->method,
            .url = url,
            .unix_path = call->engine->endpoint.unix_path,
            .tls = call->engine->endpoint.is_tls ? &call->engine->endpoint.tls : NULL,
            .headers = headers.lines,
            .body = call->json_text != NULL ? call->json_text : request->body,
            .body_len = call->json_text != NULL ? json_len : request->body_len,
            .is_streamed = request->source != NULL,
            .deadline_ms = call->request.deadline_ms,
            .idle_ms = request->idle_ms,
            .buffer_bytes = request->buffer_bytes,
        };
        rc = cf_http_call_start(call->engine->http, &options, &events, call, &call->http, err);
    }
    header_lines_release(&headers);
    return rc;
}

int
cf_engine_call_with_headers(struct cf_engine *engine, const struct cf_engine_request *request,
                            cf_engine_header_fn *on_header, cf_engine_done_fn *done,
                            void *user, struct cf_engine_call **ret_call, struct cf_error *err)
{
    if (engine->is_closing)
        return cf_error_set(err, CF_ERROR_CANCELED, 0,
                            "the engine's connections are being closed");
    if (check_request(request, err) < 0)
        return -1;
    struct cf_engine_call *call = calloc(1, sizeof *call);
    if (call == NULL)
        return cf_error_memory(err);
    call->engine = engine;
    call->request = *request;
    if (call->request.deadline_ms == 0)
        call->request.deadline_ms = DEFAULT_DEADLINE_MS;
    call->on_header = on_header;
    call->done = done;
    call->user = user;
    cf_buf_init(&call->body, REPLY_LIMIT_BYTES);
    cf_objects_init(&call->objects);
    if (cf_str_copy(&call->method, request->method, err) < 0 ||
        cf_str_copy(&call->path, request->path, err) < 0 || start(call, request, err) < 0) {
        call_free(call);
        return -1;
    }
    if (ret_call != NULL)
        *ret_call = call;
    return 0;
}

int
cf_engine_call(struct cf_engine *engine, const struct cf_engine_request *request,
               cf_engine_done_fn *done, void *user, struct cf_engine_call **ret_call,
               struct cf_error *err)
{
    return cf_engine_call_with_headers(engine, request, NULL, done, user, ret_call, err);
}

int
cf_engine_send(struct cf_engine *engine, struct cf_buf *path, struct cf_engine_request request,
               cf_engine_done_fn *done, void *user, struct cf_engine_call **ret_call,
               struct cf_error *err)
{
    int rc = path->failed ? cf_error_memory(err) : 0;

    request.path = path->data;
    if (rc == 0)
        rc = cf_engine_call(engine, &request, done, user, ret_call, err);
    cf_buf_release(path);
    return rc;
}

void
cf_engine_call_cancel(struct cf_engine_call *call)
{
    if (call != NULL)
        cf_http_call_cancel(call->http);
}

void
cf_engine_call_resume(struct cf_engine_call *call)
{
    if (call != NULL)
        cf_http_call_resume(call->http);
}
