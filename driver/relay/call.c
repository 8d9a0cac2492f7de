/*
 * One call: judged by its head, read in passing, answered. Governance is a list read from
 * above to below: the first rule that is broken refuses the call.
 */
#include "relay/call.h"

#include "base/clock.h"
#include "base/ids.h"
#include "base/str.h"
#include "base/utf8.h"
#include "json/json.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* Bytes that may wait in the connection before we wait, the largest piece given to it at once,
 * and what the longest answer_json (256 KiB) can become when a dialect says it five times over
 * with every character escaped. */
enum { QUEUE_HIGH = 64 * 1024, PIECE = 32 * 1024, ANSWER_LIMIT = 16 * 1024 * 1024 };

/* ---- answering ----------------------------------------------------------------------- */

static void
note_first_byte(struct cf_call *call, int status, size_t len)
{
    call->row.status = status;
    call->row.response_bytes = len;
    call->row.first_byte_ms = cf_clock_ms() - call->begun_ms;
}

static void
reply(struct cf_call *call, int status, const char *type, const char *const *headers,
      struct cf_buf *body)
{
    note_first_byte(call, status, body->len);
    (void)cf_http_reply(call->http, status, type, headers, body->data ? body->data : "",
                        body->len);
    cf_buf_release(body); /* when it failed, on_abort has taken the call */
}

void
cf_call_refuse(struct cf_call *call, int status, const char *why, const char *fmt, ...)
{
    const char *headers[] = {"x-should-retry",
                             "false",
                             "request-id",
                             call->request_id,
                             NULL,
                             NULL,
                             NULL,
                             NULL,
                             NULL};
    char message[512];
    struct cf_refusal refusal = {.status = status, .id = call->id, .message = message};
    struct cf_buf body = {0};
    va_list args;

    va_start(args, fmt);
    (void)vsnprintf(message, sizeof message, fmt, args);
    va_end(args);
    cf_utf8_make_line(message);
    call->row.refused = why;
    call->row.is_probe = false;
    if (status == 405) {
        headers[4] = "Allow";
        headers[5] = call->route.method;
    } else if (status == 426) {
        headers[4] = "Upgrade";
        headers[5] = "HTTP/1.1";
    }
    (void)call->route.codec->refusal(&refusal, &body);
    reply(call, status, "application/json", headers, &body);
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

/* The next piece of the answer: a frame of an event stream is flushed by itself. */
static size_t
next_piece(const struct cf_call *call)
{
    const char *from = call->body.data + call->body_at;
    size_t left = call->body.len - call->body_at;
    const char *end = call->row.is_streamed ? memmem(from, left, "\n\n", 2) : NULL;
    size_t len = end != NULL ? (size_t)(end - from) + 2 : left;

    return len < PIECE ? len : PIECE;
}

static void
pump(struct cf_call *call)
{
    while (call->body_at < call->body.len) {
        size_t len = next_piece(call);

        if (cf_http_reply_queued(call->http) > QUEUE_HIGH)
            return; /* on_drain comes */
        if (cf_http_reply_body(call->http, call->body.data + call->body_at, len) < 0) {
            cf_http_reply_abort(call->http);
            return;
        }
        call->body_at += len;
    }
    call->is_sending = false;
    (void)cf_http_reply_end(call->http);
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

    note_first_byte(call, 200, call->body.len);
    call->is_sending = true;
    if (cf_http_reply_head(call->http, 200, headers, is_events ? UINT64_MAX : call->body.len) <
        0)
        cf_http_reply_abort(call->http);
    else
        pump(call);
}

void
cf_call_fill_answer(const struct cf_call *call, struct cf_answer *ret_answer)
{
    memset(ret_answer, 0, sizeof *ret_answer);
    ret_answer->id = call->id;
    ret_answer->model = call->model;
    ret_answer->created = cf_clock_unix();
    ret_answer->wants_usage = call->digest.wants_usage;
    ret_answer->input_tokens = call->row.input_tokens;
}

/* Main calls say the nonce; every other call gets words that do no harm as a title, a summary
 * or a verdict. */
static int
answer_text(const struct cf_call *call, struct cf_buf *text)
{
    const struct cf_relay *relay = call->relay;

    if (!call->is_main)
        return cf_buf_adds(text, "OK");
    if (relay->answer_json != NULL)
        return cf_buf_adds(text, relay->answer_json);
    if (relay->answer_nonce != NULL)
        return cf_buf_addf(text, "The answer is %s.", relay->answer_nonce);
    return cf_buf_adds(text, "Done.");
}

void
cf_call_answer(struct cf_call *call)
{
    const struct cf_relay *relay = call->relay;
    const struct cf_codec *codec = call->route.codec;
    struct cf_answer answer;
    struct cf_buf text = {0};
    int status;

    if (call->route.endpoint == CF_AT_QUEUE) {
        cf_queue_stream(call);
        return;
    }
    cf_call_fill_answer(call, &answer);
    status = answer_text(call, &text);
    answer.text = text.data;
    answer.len = text.len;
    answer.output_tokens = call->row.output_tokens = text.len / 4 + 1;
    call->row.answered_nonce = call->is_main && (relay->answer_nonce || relay->answer_json);
    call->body.limit_bytes = ANSWER_LIMIT;
    if (status == 0)
        status = call->row.is_streamed ? codec->stream(&answer, &call->body)
                                       : codec->whole(&answer, &call->body);
    cf_buf_release(&text);
    if (status < 0)
        cf_call_refuse(call, 500, "internal", "the relay could not write its answer");
    else
        cf_call_send(call);
}

/* ---- judging the head ---------------------------------------------------------------- */

static bool
judge_token(struct cf_call *call)
{
    int token = cf_route_token(call->http, call->relay->token);

    if (call->relay->is_revoked) {
        cf_call_refuse(call, 401, "lease",
                       "the lease of this run is over; the relay serves it no more");
        return false;
    }
    if (token > 0)
        return true;
    (void)snprintf(
        call->hint, sizeof call->hint, "%s",
        token < 0
            ? "no credential came: send the token in x-api-key or as Authorization: Bearer"
            : "a credential came, but not this run's token: read it from the environment "
              "of this run, keep none of your own");
    cf_call_refuse(call, 401, "token", "%s", call->hint);
    return false;
}

static bool
judge_path(struct cf_call *call)
{
    const struct cf_route *route = &call->route;

    if (route->endpoint == CF_AT_NOTHING) {
        cf_call_refuse(call, 404, "path", "the relay serves no %s%s%s", call->path,
                       call->hint[0] != '\0' ? ": " : "", call->hint);
        return false;
    }
    if (route->dialect != NULL && (call->relay->dialects & route->dialect->id) == 0) {
        (void)snprintf(call->hint, sizeof call->hint,
                       "%s is not among the model wire dialects of this run",
                       route->dialect->name);
        cf_call_refuse(call, 404, "dialect", "%s", call->hint);
        return false;
    }
    return true;
}

static bool
judge_form(struct cf_call *call, const struct cf_http_request *request)
{
    const char *upgrade = cf_http_header(call->http, "Upgrade");
    const char *coding = cf_http_header(call->http, "Content-Encoding");
    const char *method = call->route.method;

    if (upgrade != NULL && strcasestr(upgrade, "websocket") != NULL) {
        cf_call_refuse(call, 426, "upgrade",
                       "the relay speaks plain HTTP/1.1 only: switch WebSockets off");
        return false;
    }
    if (method != NULL && strcmp(request->method, method) != 0 &&
        !(strcmp(method, "GET") == 0 && strcmp(request->method, "HEAD") == 0)) {
        cf_call_refuse(call, 405, "method", "%s takes %s, not %s", call->path, method,
                       request->method);
        return false;
    }
    if (coding != NULL && strcasecmp(coding, "identity") != 0) {
        cf_call_refuse(call, 415, "encoding", "request bodies must come uncompressed");
        return false;
    }
    if (request->content_length != UINT64_MAX &&
        request->content_length > call->relay->max_body_bytes) {
        cf_call_refuse(call, 413, "too large",
                       "a request body of %" PRIu64 " bytes is over the limit of %" PRIu64,
                       request->content_length, call->relay->max_body_bytes);
        return false;
    }
    return true;
}

/* Refused for good, in the one way that ends the retries of every client that was watched. */
static bool
judge_cap(struct cf_call *call)
{
    struct cf_relay *relay = call->relay;

    if (call->route.endpoint != CF_AT_MODEL)
        return true;
    if (relay->turn_calls >= relay->max_calls_per_turn) {
        (void)snprintf(call->hint, sizeof call->hint, "more than %u model calls in one turn",
                       relay->max_calls_per_turn);
        cf_call_refuse(call, 400, "cap", "%s; this turn gets no more", call->hint);
        return false;
    }
    relay->turn_calls++;
    return true;
}

/* HEAD / and the like: some clients look whether somebody is there, before they have a key. */
static bool
is_bare_probe(const struct cf_call *call, const struct cf_http_request *request)
{
    bool is_head = strcmp(request->method, "HEAD") == 0;

    if (call->route.endpoint == CF_AT_ROOT)
        return is_head || strcmp(request->method, "GET") == 0;
    /* /api/hello could be a model of fal's, but nobody heads for a model like that */
    return is_head &&
           (call->route.endpoint == CF_AT_NOTHING || call->route.codec == &cf_codec_fal_queue);
}

static void
judge_head(struct cf_call *call, const struct cf_http_request *request)
{
    call->row.is_probe = call->route.endpoint != CF_AT_MODEL;
    if (!call->relay->is_revoked && is_bare_probe(call, request)) {
        if (call->route.endpoint != CF_AT_ROOT)
            call->route.endpoint = CF_AT_NOTHING;
        call->row.is_probe = true;
        call->hint[0] = '\0';
        return;
    }
    if (call->route.endpoint == CF_AT_ROOT)
        call->route.endpoint =
            CF_AT_NOTHING; /* POST / : a base URL without anything behind it */
    if (judge_token(call) && judge_path(call) && judge_form(call, request))
        (void)judge_cap(call);
}

/* ---- from head to row ---------------------------------------------------------------- */

static void
copy_line(char *to, size_t size, const char *from)
{
    (void)snprintf(to, size, "%s", from); /* cut is wanted */
    cf_utf8_make_line(to);
}

static struct cf_call *
call_new(struct cf_relay *relay, struct cf_http_conn *http)
{
    struct cf_call *call = calloc(1, sizeof *call);

    if (call == NULL)
        return NULL;
    call->relay = relay;
    call->http = http;
    call->begun_ms = cf_clock_ms();
    call->row.id = ++relay->last_id;
    call->row.at_ms = call->begun_ms - relay->opened_ms;
    call->row.turn = relay->turn;
    call->row.method = call->method;
    call->row.path = call->path;
    call->row.model_asked = call->row.model_served = "";
    call->row.hint = call->hint;
    cf_id_hex(call->id);
    call->id[24] = '\0';
    (void)snprintf(call->request_id, sizeof call->request_id, "req_%s", call->id);
    TAILQ_INSERT_TAIL(&relay->calls, call, link);
    relay->call_count++;
    return call;
}

void
cf_call_finish(struct cf_call *call)
{
    struct cf_relay *relay = call->relay;
    const struct cf_relay_dialect *dialect = call->route.dialect;

    cf_http_conn_set_user(call->http, NULL);
    TAILQ_REMOVE(&relay->calls, call, link);
    relay->call_count--;
    call->row.total_ms = cf_clock_ms() - call->begun_ms;
    cf_ledger_add(&relay->ledger, &call->row, dialect != NULL ? dialect->name : NULL);
    cf_log(relay->log, CF_LOG_DEBUG, "relay",
           "call %" PRIu64 ": %s %s -> %d in %" PRIu64 " ms%s%s%s", call->row.id, call->method,
           call->path, call->row.status, call->row.total_ms,
           call->row.is_aborted ? ", aborted" : "", call->row.refused ? ", refused: " : "",
           call->row.refused ? call->row.refused : "");
    if (relay->on_call != NULL)
        relay->on_call(relay->user, &call->row);
    cf_buf_release(&call->body);
    free(call);
}

static void
on_request(void *user, struct cf_http_conn *http, const struct cf_http_request *request)
{
    struct cf_relay *relay = ((struct cf_relay_conn *)user)->relay;
    struct cf_call *call = call_new(relay, http);
    struct cf_digest_needles needles = {&relay->prompt, &relay->prior};

    if (call == NULL) {
        (void)cf_http_reply(http, 500, "text/plain", NULL, "out of memory\n", 14);
        return;
    }
    cf_http_conn_set_user(http, call);
    copy_line(call->method, sizeof call->method, request->method);
    copy_line(call->path, sizeof call->path, request->path);
    call->query = request->query;
    cf_route_find(relay->dialect_table, relay->dialect_count, relay->dialects, request->path,
                  &call->route, call->hint);
    call->row.dialect = call->route.dialect != NULL ? call->route.dialect->id : 0;
    cf_digest_init(&call->digest, &needles);
    judge_head(call, request);
}

static int
on_body(void *user, struct cf_http_conn *http, const char *bytes, size_t len)
{
    struct cf_call *call = cf_http_conn_get_user(http);

    if (call == NULL)
        return -1;
    call->row.request_bytes += len;
    if (call->row.request_bytes > call->relay->max_body_bytes) {
        cf_call_refuse(call, 413, "too large",
                       "the request body is over the limit of %" PRIu64 " bytes",
                       call->relay->max_body_bytes);
        return -1;
    }
    if (!call->is_body_broken &&
        cf_digest_feed(&call->digest, bytes, len, &call->body_error) < 0)
        call->is_body_broken = true;
    return 0;
}

static void
read_digest(struct cf_call *call)
{
    const struct cf_digest *digest = &call->digest;
    bool is_queue = call->route.codec == &cf_codec_fal_queue;

    copy_line(call->model, sizeof call->model, digest->model);
    call->row.model_asked = call->row.model_served = call->model;
    call->row.is_streamed = digest->is_streamed && call->route.codec->stream != NULL;
    call->row.nonce_seen = digest->prompt_seen;
    call->row.prior_nonce_seen = digest->prior_seen;
    call->row.input_tokens = call->row.request_bytes / 4 + 1;
    call->is_main = is_queue ? digest->prompt_in_root : cf_digest_is_main(digest);
}

static bool
judge_body(struct cf_call *call)
{
    const struct cf_digest *digest = &call->digest;

    if (!call->is_body_broken && cf_digest_end(&call->digest, &call->body_error) < 0)
        call->is_body_broken = true;
    if (call->is_body_broken) {
        cf_call_refuse(call, 400, "body", "%s", call->body_error.text);
        return false;
    }
    read_digest(call);
    if (call->route.codec == &cf_codec_fal_queue)
        return true;
    if (call->model[0] == '\0' || !digest->has_input) {
        cf_call_refuse(call, 400, "body", "the request has no \"%s\"",
                       call->model[0] == '\0'                            ? "model"
                       : call->route.codec == &cf_codec_openai_responses ? "input"
                                                                         : "messages");
        return false;
    }
    return true;
}

static void
answer_model_call(struct cf_call *call)
{
    if (!judge_body(call))
        return;
    if (call->route.codec == &cf_codec_fal_queue) {
        cf_queue_submit(call);
    } else if (call->is_main && call->relay->is_held) {
        call->is_held = true;
    } else {
        cf_call_answer(call);
    }
}

static void
answer_models(struct cf_call *call)
{
    const char *model = call->relay->model;
    json_t *entry = json_pack("{s:s, s:s, s:s, s:s, s:i, s:s, s:s}", "type", "model", "id",
                              model, "object", "model", "display_name", model, "created", 0,
                              "created_at", "1970-01-01T00:00:00Z", "owned_by", "cfrunner");

    if (strcmp(call->path, "/v1/models") != 0)
        cf_call_reply_json(call, 200, entry);
    else
        cf_call_reply_json(call, 200,
                           json_pack("{s:s, s:[o], s:b, s:s, s:s}", "object", "list", "data",
                                     entry, "has_more", 0, "first_id", model, "last_id",
                                     model));
}

static void
on_complete(void *user, struct cf_http_conn *http)
{
    struct cf_call *call = cf_http_conn_get_user(http);
    struct cf_buf empty = {0};

    if (call == NULL)
        return;
    switch (call->route.endpoint) {
    case CF_AT_ROOT:
        reply(call, 200, "text/plain", NULL, &empty);
        break;
    case CF_AT_NOTHING:
        reply(call, 404, "text/plain", NULL, &empty);
        break;
    case CF_AT_MODELS:
        answer_models(call);
        break;
    case CF_AT_COUNT_TOKENS:
        if (judge_body(call))
            cf_call_reply_json(
                call, 200,
                json_pack("{s:I}", "input_tokens", (json_int_t)call->row.input_tokens));
        break;
    case CF_AT_QUEUE:
        cf_queue_request(call);
        break;
    case CF_AT_MODEL:
        answer_model_call(call);
        break;
    }
}

static void
on_drain(void *user, struct cf_http_conn *http)
{
    struct cf_call *call = cf_http_conn_get_user(http);

    if (call != NULL && call->is_sending)
        pump(call);
}

static void
on_done(void *user, struct cf_http_conn *http)
{
    struct cf_call *call = cf_http_conn_get_user(http);

    if (call != NULL)
        cf_call_finish(call);
}

static void
on_abort(void *user, struct cf_http_conn *http)
{
    struct cf_call *call = cf_http_conn_get_user(http);

    if (call == NULL)
        return;
    call->row.is_aborted = true;
    cf_call_finish(call);
}

static void
on_malformed(void *user, struct cf_http_conn *http, int status, const char *why)
{
    struct cf_relay *relay = ((struct cf_relay_conn *)user)->relay;
    struct cf_call *call = call_new(relay, http);

    if (call == NULL)
        return;
    call->route.codec = &cf_codec_unknown;
    call->row.status = status;
    call->row.refused = "malformed";
    copy_line(call->hint, sizeof call->hint, why);
    cf_call_finish(call);
}

const struct cf_http_handler cf_call_handler = {on_request, on_body,  on_complete, on_drain,
                                                on_done,    on_abort, on_malformed};
