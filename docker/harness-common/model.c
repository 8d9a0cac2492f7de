/* Where the model is, and one call to it. */
#include "model.h"

#include "base/clock.h"
#include "base/str.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>

enum { ANSWER_LIMIT = 64 * 1024 * 1024, DEFAULT_TIMEOUT_MS = 300 * 1000, TRIES = 3, BACKOFF_MS = 250 };

static const char *
from_env(const char *first, const char *second)
{
    const char *value = getenv(first);

    if (value == NULL || value[0] == '\0')
        value = getenv(second);
    return value != NULL && value[0] != '\0' ? value : NULL;
}

int
hn_model_from_env(struct hn_model *model, enum hn_dialect dialect, bool stream,
                  struct cf_error *err)
{
    bool anthropic = dialect == HN_ANTHROPIC_MESSAGES;
    const char *base_name = anthropic ? "ANTHROPIC_BASE_URL" : "OPENAI_BASE_URL";
    const char *base = from_env(base_name, "CHECKFU_MODEL_BASE_URL");
    const char *deadline = getenv("CHECKFU_DEADLINE_MS");

    memset(model, 0, sizeof *model);
    if (base == NULL)
        return cf_error_set(err, CF_ERROR_CONFIG, 0,
                            "no model: neither %s nor CHECKFU_MODEL_BASE_URL is set", base_name);
    model->dialect = dialect;
    model->stream = stream;
    model->token = from_env(anthropic ? "ANTHROPIC_API_KEY" : "OPENAI_API_KEY",
                            "CHECKFU_MODEL_TOKEN");
    model->name = from_env("CHECKFU_MODEL", "OPENAI_MODEL");
    if (model->name == NULL)
        model->name = "default";
    if (deadline == NULL || !cf_parse_u64(deadline, 1, UINT32_MAX, &model->timeout_ms))
        model->timeout_ms = DEFAULT_TIMEOUT_MS;
    return hn_url_parse(&model->url, base, err);
}

/* A base may or may not end in the version segment that the dialect's path begins with. */
static const char *
path_below(const struct hn_model *model)
{
    const char *path = hn_dialect_path(model->dialect);

    return cf_str_ends(model->url.path, "/v1") ? path + strlen("/v1") : path;
}

/* What the answer's reader said is already about the answer; the rest is about the way there. */
static int
unreachable(const struct hn_call *call, struct cf_error *err)
{
    if (call->http.callback_failed)
        return -1;
    return cf_error_wrap(err, "cannot reach the model at %s (POST %s)", call->model->url.text,
                         path_below(call->model));
}

static void
tell_text(struct hn_call *call)
{
    const struct cf_buf *text = &call->answer.text;

    if (call->on_text != NULL && text->len > call->told)
        call->on_text(call->user, text->data + call->told, text->len - call->told);
    call->told = text->len;
}

static int
on_event(void *user, const char *data, size_t len, struct cf_error *err)
{
    struct hn_call *call = user;
    int status = hn_answer_event(&call->answer, call->model->dialect, data, len, err);

    tell_text(call);
    return status;
}

static int
on_body(void *user, const char *bytes, size_t len, struct cf_error *err)
{
    struct hn_call *call = user;

    if (call->http.is_event_stream)
        return hn_sse_feed(&call->sse, bytes, len, err);
    if (cf_buf_add(&call->whole, bytes, len) < 0)
        return cf_error_set(err, CF_ERROR_WIRE, 0, "the model's answer is larger than 64 MiB");
    return 0;
}

static int
add_headers(struct cf_buf *headers, const struct hn_model *model)
{
    const char *token = model->token;

    if (token != NULL && strpbrk(token, "\r\n") != NULL)
        token = NULL; /* a line break would end the header: ask without a key, and be refused */
    if (model->dialect == HN_ANTHROPIC_MESSAGES)
        cf_buf_adds(headers, "anthropic-version: 2023-06-01\r\n");
    if (token != NULL && model->dialect == HN_ANTHROPIC_MESSAGES)
        cf_buf_addf(headers, "x-api-key: %s\r\n", token);
    else if (token != NULL)
        cf_buf_addf(headers, "Authorization: Bearer %s\r\n", token);
    cf_buf_addf(headers, "Accept: %s\r\n", model->stream ? "text/event-stream" : "application/json");
    return headers->failed ? -1 : 0;
}

static int
send_call(struct hn_call *call, struct cf_error *err)
{
    int status = hn_http_post(&call->http, &call->model->url, path_below(call->model), call->headers,
                              call->body, strlen(call->body), on_body, call, err);

    return status < 0 ? unreachable(call, err) : 0;
}

int
hn_call_start(struct hn_call *call, const struct hn_model *model, const struct hn_ask *ask,
              hn_text_fn *on_text, void *user, struct cf_error *err)
{
    struct hn_ask mine = *ask;
    struct cf_buf headers = { 0 };
    json_t *request;

    memset(call, 0, sizeof *call);
    call->model = model;
    call->on_text = on_text;
    call->user = user;
    call->sse.on_event = on_event;
    call->sse.user = call;
    call->whole.limit_bytes = ANSWER_LIMIT;
    call->deadline_ms = cf_clock_ms() + model->timeout_ms;
    mine.model = model->name;
    mine.stream = model->stream;
    request = hn_request_build(model->dialect, &mine);
    call->is_open = true;
    call->body = json_dumps(request, JSON_COMPACT);
    json_decref(request);
    if (add_headers(&headers, model) < 0 || cf_buf_add(&headers, "", 1) < 0)
        cf_buf_release(&headers);
    call->headers = headers.data;
    if (call->body == NULL || call->headers == NULL)
        return cf_error_memory(err);
    return send_call(call, err);
}

/* What a model that is busy asks for; false: its word is final, or there is no time for another. */
static bool
ask_again_later(struct hn_call *call)
{
    uint64_t now = cf_clock_ms(), wait = (uint64_t)BACKOFF_MS << call->tries;
    int status = call->http.status;

    if ((status != 429 && status < 500) || call->http.is_final || call->model->asks_once ||
        call->tries + 1 >= TRIES)
        return false;
    if (call->http.retry_after_s >= 0)
        wait = (uint64_t)call->http.retry_after_s * 1000;
    if (now + wait >= call->deadline_ms)
        return false;
    call->tries++;
    call->again_ms = now + wait + 1;
    hn_http_release(&call->http);
    return true;
}

static int
take_answer(struct hn_call *call, struct cf_error *err)
{
    char why[256];

    if (call->http.status / 100 != 2) {
        hn_refusal_text(&call->http.refusal, why, sizeof why);
        return cf_error_set(err, CF_ERROR_HARNESS, call->http.status,
                            "the model at %s refused with HTTP %d: %s", call->model->url.text,
                            call->http.status, why);
    }
    if (!call->http.is_event_stream &&
        hn_answer_whole(&call->answer, call->model->dialect, call->whole.data, call->whole.len,
                        err) < 0)
        return -1;
    if (hn_answer_end(&call->answer, err) < 0)
        return -1;
    tell_text(call);
    return 1;
}

int
hn_call_ready(struct hn_call *call, struct cf_error *err)
{
    int status = 0;

    if (call->again_ms != 0 && cf_clock_ms() >= call->again_ms) {
        call->again_ms = 0;
        if (send_call(call, err) < 0)
            return -1;
    }
    if (call->again_ms == 0)
        status = hn_http_ready(&call->http, err);
    if (status < 0)
        return unreachable(call, err);
    if (status == 1 && ask_again_later(call))
        return 0;
    if (status == 0 && cf_clock_ms() >= call->deadline_ms)
        return cf_error_set(err, CF_ERROR_HARNESS, ETIMEDOUT,
                            "the model at %s did not answer within %llu ms", call->model->url.text,
                            (unsigned long long)call->model->timeout_ms);
    return status == 0 ? 0 : take_answer(call, err);
}

uint64_t
hn_call_wake_ms(const struct hn_call *call)
{
    return call->again_ms != 0 ? call->again_ms : call->deadline_ms;
}

int
hn_call_wait(struct hn_call *call, struct cf_error *err)
{
    int status = 0;

    while (status == 0) {
        struct pollfd wait = { .fd = call->http.fd, .events = hn_http_events(&call->http) };
        uint64_t now = cf_clock_ms(), wake = hn_call_wake_ms(call);
        int left = now < wake ? (int)(wake - now) : 0;

        if (poll(&wait, 1, left) < 0 && errno != EINTR)
            return cf_error_set(err, CF_ERROR_INTERNAL, errno, "poll: %s", strerror(errno));
        status = hn_call_ready(call, err);
    }
    return status < 0 ? -1 : 0;
}

void
hn_call_release(struct hn_call *call)
{
    if (!call->is_open)
        return;
    call->is_open = false;
    free(call->headers);
    free(call->body);
    hn_http_release(&call->http);
    hn_sse_release(&call->sse);
    cf_buf_release(&call->whole);
    hn_answer_release(&call->answer);
}
