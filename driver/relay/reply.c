/* Answers of our own on their way out: refusals, JSON, and what a model says, at its pace. */
#include "relay/call.h"

#include "base/clock.h"
#include "base/utf8.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { PIECE = 32 * 1024 }; /* the largest piece given to a connection at once */

void
cf_call_note_head(struct cf_call *call, int status)
{
    call->row.status = status;
    call->heard_ms = cf_clock_ms();
    call->row.first_byte_ms = call->heard_ms - call->begun_ms;
}

static void
reply(struct cf_call *call, int status, const char *type, const char *const *headers,
      struct cf_buf *body)
{
    char ignored[CF_GOVERN_HINT];

    cf_call_note_head(call, status);
    call->row.response_bytes = body->len;
    if (call->is_counted)
        (void)cf_govern_take_response(&call->relay->govern, body->len, ignored);
    (void)cf_http_reply(call->http, status, type, headers, body->data ? body->data : "",
                        body->len);
    cf_buf_release(body); /* when it failed, on_abort has taken the call */
}

static void
reply_error(struct cf_call *call, int status, const char *const *headers, const char *message)
{
    struct cf_refusal refusal = {.status = status, .id = call->id, .message = message};
    struct cf_buf body = {0};

    (void)call->route.codec->refusal(&refusal, &body);
    reply(call, status, "application/json", headers, &body);
}

void
cf_call_refuse(struct cf_call *call, int status, const char *why, const char *fmt, ...)
{
    const char *headers[9] = {"request-id", call->request_id, "x-should-retry", "false"};
    char message[512];
    va_list args;

    va_start(args, fmt);
    (void)vsnprintf(message, sizeof message, fmt, args);
    va_end(args);
    cf_utf8_make_line(message);
    cf_utf8_make_line(call->hint);
    call->row.refused = why;
    call->row.is_probe = false;
    if (status == 405) {
        headers[4] = "Allow";
        headers[5] = call->route.method;
    } else if (status == 426) {
        headers[4] = "Upgrade";
        headers[5] = "HTTP/1.1";
    } else if (status == 429) {
        headers[2] = "retry-after";
        headers[3] = "1";
    } else if (status == 408) {
        headers[4] = "Connection";
        headers[5] = "close";
    }
    reply_error(call, status, headers, message);
}

void
cf_call_fail(struct cf_call *call, int status, const char *const *headers, const char *message)
{
    const char *all[24] = {"request-id", call->request_id};
    char line[512];
    size_t n = 2;

    for (size_t i = 0; headers != NULL && headers[i] != NULL && n + 3 < 24; i += 2) {
        all[n++] = headers[i];
        all[n++] = headers[i + 1];
    }
    (void)snprintf(line, sizeof line, "%s", message);
    cf_utf8_make_line(line);
    reply_error(call, status, all, line);
}

void
cf_call_reply_json(struct cf_call *call, int status, json_t *value)
{
    const char *const headers[] = {"request-id", call->request_id, NULL};
    struct cf_buf body = {0};

    if (cf_dialect_json(&body, value) < 0)
        status = 500;
    reply(call, status, "application/json", headers, &body);
}

void
cf_call_reply_empty(struct cf_call *call, int status)
{
    struct cf_buf empty = {0};

    reply(call, status, "text/plain", NULL, &empty);
}

/* ---- at its pace ------------------------------------------------------------------------ */

/* The next piece of the answer: an event is flushed by itself. *ret_is_event: its end is one.
 */
static size_t
next_piece(const struct cf_call *call, bool *ret_is_event)
{
    const char *from = call->body.data + call->body_at;
    size_t left = call->body.len - call->body_at;
    size_t most = call->pace.write_bytes > 0 ? call->pace.write_bytes : PIECE, event = left;

    if (call->row.is_streamed && left >= 2) {
        const char *end = memmem(from, left, "\n\n", 2);
        if (end != NULL)
            event = (size_t)(end - from) + 2;
    }
    *ret_is_event = event <= most;
    return event <= most ? event : most;
}

/* How many of `len` bytes may still go before the answer is broken off. */
static size_t
before_break(const struct cf_call *call, size_t len)
{
    const struct cf_pace *pace = &call->pace;

    if (pace->how == CF_BREAK_NONE)
        return len;
    if (pace->counts_events)
        return call->events_sent >= pace->after ? 0 : len;
    return call->body_at + len <= pace->after ? len
           : pace->after > call->body_at      ? (size_t)pace->after - call->body_at
                                              : 0;
}

static void
end_with_error(struct cf_call *call)
{
    struct cf_refusal refusal = {.status = 500, .id = call->id, .message = call->pace.message};
    struct cf_buf frame = {0};

    call->is_sending = false;
    if (!call->row.is_streamed || call->route.codec->stream_error == NULL ||
        call->route.codec->stream_error(&refusal, call->events_sent, &frame) < 0 ||
        cf_http_reply_body(call->http, frame.data, frame.len) < 0) {
        cf_buf_release(&frame);
        cf_http_reply_abort(call->http);
        return;
    }
    cf_buf_release(&frame);
    (void)cf_http_reply_end(call->http);
}

/* As its rule wants it; the call may be gone. */
static void
break_off(struct cf_call *call)
{
    call->row.fault = "script";
    call->row.usage = "partial";
    switch (call->pace.how) {
    case CF_BREAK_ERROR:
        end_with_error(call);
        break;
    case CF_BREAK_END:
        call->is_sending = false;
        (void)cf_http_reply_end(call->http);
        break;
    case CF_BREAK_STALL:
        call->is_sending = false; /* the client's patience, or the turn's, ends it */
        break;
    default:
        cf_http_reply_abort(call->http);
        break;
    }
}

void
cf_call_pump(struct cf_call *call)
{
    while (call->body_at < call->body.len || call->pace.how != CF_BREAK_NONE) {
        bool is_event = false;
        size_t wanted = next_piece(call, &is_event), len = before_break(call, wanted);

        if (call->due_ms != 0)
            return; /* the clock comes */
        if (cf_http_reply_queued(call->http) > CF_RELAY_QUEUE_HIGH)
            return; /* on_drain comes */
        if (len == 0) {
            break_off(call);
            return;
        }
        if (cf_http_reply_body(call->http, call->body.data + call->body_at, len) < 0) {
            cf_http_reply_abort(call->http);
            return;
        }
        call->body_at += len;
        call->row.response_bytes += len;
        call->heard_ms = cf_clock_ms();
        call->events_sent += is_event && len == wanted;
        if (call->pace.gap_ms > 0 && call->body_at < call->body.len) {
            call->due_ms = cf_clock_ms() + call->pace.gap_ms;
            cf_relay_wake(call->relay, call->due_ms);
        }
    }
    call->is_sending = false;
    (void)cf_http_reply_end(call->http);
}

/* An answer that will be cut has no length that it could keep. */
static uint64_t
length_of(const struct cf_call *call)
{
    return call->row.is_streamed || call->pace.how == CF_BREAK_END ? UINT64_MAX
                                                                   : call->body.len;
}

void
cf_call_send(struct cf_call *call)
{
    bool is_events = call->row.is_streamed;
    const char *const headers[] = {"Content-Type",
                                   is_events ? "text/event-stream; charset=utf-8"
                                             : "application/json",
                                   "Cache-Control",
                                   "no-cache",
                                   "request-id",
                                   call->request_id,
                                   NULL};
    char ignored[CF_GOVERN_HINT];

    cf_call_note_head(call, 200);
    if (call->is_counted)
        (void)cf_govern_take_response(&call->relay->govern, call->body.len, ignored);
    call->is_sending = true;
    if (cf_http_reply_head(call->http, 200, headers, length_of(call)) < 0)
        cf_http_reply_abort(call->http);
    else
        cf_call_pump(call);
}
