/*
 * A call's other half, on its way to the provider and back. It outlives the call by a moment
 * when the client leaves: libcurl lets a request go only from its own loop turn, so the call
 * is cut loose first and the rest ends by itself.
 *
 * Nothing of an answer is held: what the client does not read stays with libcurl, which stops
 * reading the provider. Two answers of fal_queue are the exception, because URLs in them
 * change.
 */
#include "relay/call.h"

#include "base/clock.h"
#include "base/str.h"
#include "base/utf8.h"
#include "relay/spool.h"
#include "relay/usage.h"

#include <errno.h>
#include <inttypes.h>
#include <sodium.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

enum { HEADER_PAIRS = 64, REWRITE_LIMIT = 1024 * 1024, HOUR_MS = 3600 * 1000 };
_Static_assert(CF_SPOOL_WAIT == CF_HTTP_WAIT, "one word for both");

enum phase { RECEIVING, ENDING, SENDING };

struct cf_forward {
    struct cf_call *call; /* NULL: the client has gone */
    const struct cf_upstream *upstream;
    struct cf_spool *spool;
    struct cf_http_call *http; /* NULL before SENDING, and after its end */
    enum phase phase;

    char *headers[2 * HEADER_PAIRS + 1]; /* of the answer */
    size_t header_count;
    uint64_t body_len; /* UINT64_MAX: not told */
    char *connection;  /* the answer's Connection header, or NULL */
    bool is_events, is_coded, has_head, is_paused, is_replaced;
    bool rewrites; /* URLs in the answer lead to the provider, and are changed */
    struct cf_buf held;
    size_t secret_at; /* so many bytes at the end of what came may be the key's first: they wait */
    struct cf_usage_reader reader;
};

const struct cf_upstream *
cf_forward_upstream(const struct cf_call *call)
{
    const struct cf_relay_dialect *dialect = call->route.dialect;

    if (call->mcp != NULL)
        return &call->mcp->upstream;
    for (unsigned i = 0; dialect != NULL && i < call->relay->upstream_count; i++)
        if ((call->relay->upstreams[i].dialects & dialect->id) != 0)
            return &call->relay->upstreams[i];
    return NULL;
}

static void
forward_free(struct cf_forward *f)
{
    cf_spool_free(f->spool);
    for (size_t i = 0; i < f->header_count; i++)
        free(f->headers[i]);
    free(f->connection);
    cf_buf_release(&f->held);
    free(f);
}

/* ---- the request's body, as it comes -------------------------------------------------------
 */

static void
no_spool(struct cf_call *call)
{
    int error = call->forward != NULL ? cf_spool_error(call->forward->spool) : ENOMEM;

    call->row.fault = "disk";
    cf_call_refuse(call, 507, "internal", "the relay could not keep the request's body: %s",
                   strerror(error));
}

/* The spool has moved on. What is called here may end the call, and us with it. */
static void
on_spool_ready(void *user)
{
    struct cf_forward *f = user;

    if (f->phase == SENDING)
        cf_http_call_resume(f->http);
    else if (f->call == NULL)
        return;
    else if (f->phase == ENDING)
        cf_forward_start(f->call);
    else if (cf_spool_error(f->spool) != 0)
        no_spool(f->call);
    else
        cf_http_conn_resume(f->call->http);
}

bool
cf_forward_open(struct cf_call *call)
{
    struct cf_forward *f = calloc(1, sizeof *f);

    if (f != NULL)
        f->spool =
            cf_spool_new(call->relay->loop, call->relay->private_dir, on_spool_ready, f);
    if (f == NULL || f->spool == NULL) {
        free(f);
        no_spool(call);
        return false;
    }
    f->call = call;
    f->upstream = cf_forward_upstream(call);
    f->body_len = UINT64_MAX;
    cf_buf_init(&f->held, REWRITE_LIMIT);
    call->forward = f;
    call->row.provider = f->upstream->provider;
    return true;
}

int
cf_forward_body(struct cf_call *call, const char *bytes, size_t len)
{
    long status = cf_spool_add(call->forward->spool, bytes, len);

    if (status == CF_SPOOL_WAIT)
        return CF_HTTP_PAUSE;
    if (status == 0)
        return 0;
    no_spool(call);
    return -1;
}

/* ---- the answer, as it comes
 * ---------------------------------------------------------------- */

static void
keep_header(struct cf_forward *f, const char *name, const char *value)
{
    char *copies[2] = {strdup(name), strdup(value)};

    if (copies[0] == NULL || copies[1] == NULL || f->header_count >= 2 * HEADER_PAIRS) {
        free(copies[0]);
        free(copies[1]);
        return;
    }
    f->headers[f->header_count++] = copies[0];
    f->headers[f->header_count++] = copies[1];
}

static bool
holds_secret(const struct cf_forward *f, const char *text)
{
    size_t at = 0;

    return cf_needle_feed(&f->upstream->secret, &at, text, strlen(text));
}

static void
on_header(void *user, const char *name, const char *value)
{
    struct cf_forward *f = user;
    uint64_t number;

    if (strcasecmp(name, "Content-Length") == 0 && cf_parse_u64(value, 0, INT64_MAX, &number))
        f->body_len = number;
    if (strcasecmp(name, "Content-Type") == 0)
        f->is_events = strncasecmp(value, "text/event-stream", 17) == 0;
    if (strcasecmp(name, "Content-Encoding") == 0)
        f->is_coded = strcasecmp(value, "identity") != 0;
    if (strcasecmp(name, "Connection") == 0 && f->connection == NULL)
        f->connection = strdup(value); /* without memory its names go on: they do no harm */
    if (cf_upstream_gives(name, NULL) && !holds_secret(f, name) && !holds_secret(f, value))
        keep_header(f, name, value);
}

/* Those that the answer's own Connection header named go after all. */
static void
drop_hop_headers(struct cf_forward *f)
{
    size_t kept = 0;

    for (size_t i = 0; i < f->header_count; i += 2) {
        if (cf_upstream_gives(f->headers[i], f->connection)) {
            f->headers[kept++] = f->headers[i];
            f->headers[kept++] = f->headers[i + 1];
        } else {
            free(f->headers[i]);
            free(f->headers[i + 1]);
        }
    }
    f->header_count = kept;
    f->headers[kept] = NULL;
}

/* The provider knows us no more: no client can mend that by waiting, so it is told for good,
 * and without the provider's words, which may hold a part of the key. */
static void
refuse_credential(struct cf_forward *f)
{
    static const char *const headers[] = {"x-should-retry", "false", NULL};
    char message[200];

    f->is_replaced = true;
    f->call->row.fault = "credential";
    (void)snprintf(message, sizeof message, "%s refused the key of this run (401)",
                   f->upstream->provider);
    cf_call_fail(f->call, 400, headers, message);
}

/* Whether this answer holds URLs of the provider's: all of fal_queue's but the result. */
static bool
has_urls(const struct cf_call *call, int status)
{
    const char *id, *action;
    size_t len;

    if (call->route.codec != &cf_codec_fal_queue || status >= 300)
        return false;
    return !cf_route_queue(call->target, &id, &len, &action) || action[0] != '\0';
}

static void
on_head(void *user, int status)
{
    struct cf_forward *f = user;
    struct cf_call *call = f->call;

    f->has_head = true;
    if (call == NULL)
        return;
    if (status == 401 && call->mcp == NULL) {
        refuse_credential(f);
        return;
    }
    drop_hop_headers(f);
    cf_usage_init(&f->reader, f->is_events);
    call->row.is_streamed = f->is_events;
    f->rewrites = has_urls(call, status) && !f->is_coded;
    cf_call_note_head(call, status);
    if (cf_http_reply_head(call->http, status, (const char *const *)f->headers,
                           f->rewrites ? UINT64_MAX : f->body_len) < 0 ||
        (f->is_events && cf_http_reply_body(call->http, NULL, 0) < 0))
        cf_http_reply_abort(call->http); /* the call is gone then */
}

/* The dialect's own error event, or the connection's cut: never an end that looks whole. */
static void
break_answer(struct cf_call *call, const char *message)
{
    struct cf_forward *f = call->forward;
    struct cf_refusal refusal = {.status = 500, .id = call->id, .message = message};
    const struct cf_codec *codec = call->route.codec;
    struct cf_buf frame = {0};

    f->is_replaced = true;
    cf_buf_adds(&frame, "\n\n"); /* behind whatever was cut */
    if (f->is_events && !f->is_coded && codec->stream_error != NULL &&
        f->body_len == UINT64_MAX &&
        codec->stream_error(&refusal, f->reader.events, &frame) == 0 &&
        cf_http_reply_body(call->http, frame.data, frame.len) == 0)
        (void)cf_http_reply_end(call->http);
    else
        cf_http_reply_abort(call->http);
    cf_buf_release(&frame);
}

/* Appends a JSON object with its URLs leading back to the address that the client called. */
static int
add_rewritten(const struct cf_forward *f, const char *json, size_t len, struct cf_buf *to)
{
    const char *host = cf_http_header(f->call->http, "Host");
    char own[300];

    (void)snprintf(own, sizeof own, "http://%.250s", host != NULL ? host : "127.0.0.1");
    return cf_upstream_rewrite(f->upstream, own, json, len, to);
}

/* Sends the first `len` bytes of what is held: a whole JSON value, or one line of an event
 * stream. Data that is no object leads nowhere, and is dropped. */
static int
send_held(struct cf_forward *f, size_t len)
{
    const char *line = f->held.data != NULL ? f->held.data : "";
    struct cf_buf out = {0};
    int status = 0;

    if (!f->is_events) {
        status = add_rewritten(f, line, len, &out);
    } else if (len > 5 && memcmp(line, "data:", 5) == 0) {
        cf_buf_adds(&out, "data: ");
        (void)add_rewritten(f, line + 5, len - 5, &out);
        cf_buf_adds(&out, "\n");
    } else {
        cf_buf_add(&out, line, len);
    }
    if (status == 0)
        status = out.failed ? -1 : cf_http_reply_body(f->call->http, out.data, out.len);
    cf_buf_release(&out);
    return status;
}

static int
hold(struct cf_forward *f, const char *bytes, size_t len)
{
    const char *end;

    if (cf_buf_add(&f->held, bytes, len) < 0)
        return -1;
    while (f->is_events && f->held.len > 0 &&
           (end = memchr(f->held.data, '\n', f->held.len)) != NULL) {
        size_t line = (size_t)(end - f->held.data) + 1;
        if (send_held(f, line) < 0)
            return -1;
        cf_buf_drop(&f->held, line);
    }
    return 0;
}

static int
give(struct cf_forward *f, const char *bytes, size_t len)
{
    if (len == 0)
        return 0;
    return f->rewrites ? hold(f, bytes, len) : cf_http_reply_body(f->call->http, bytes, len);
}

/* An answer that shows the key (an error page that tells the request again) ends before it. What
 * may become the key waits for what follows: these bytes are its own first ones, so none is kept.
 * Returns 1 when the key came. */
static int
give_unless_secret(struct cf_forward *f, const char *bytes, size_t len)
{
    const struct cf_needle *secret = &f->upstream->secret;
    size_t waited = f->secret_at, whole, old;

    if (cf_needle_feed(secret, &f->secret_at, bytes, len))
        return 1;
    whole = waited + len - f->secret_at;
    old = whole < waited ? whole : waited;
    return give(f, secret->bytes, old) < 0 || give(f, bytes, whole - old) < 0 ? -1 : 0;
}

static int
on_body(void *user, const char *bytes, size_t len)
{
    struct cf_forward *f = user;
    struct cf_call *call = f->call;
    char hint[CF_GOVERN_HINT] = "";
    int status;

    if (call == NULL || f->is_replaced)
        return 0; /* being given up */
    if (cf_http_reply_queued(call->http) > CF_RELAY_QUEUE_HIGH) {
        f->is_paused = true;
        return CF_HTTP_PAUSE;
    }
    if (!f->is_coded)
        cf_usage_feed(&f->reader, bytes, len);
    call->row.response_bytes += len;
    call->heard_ms = cf_clock_ms();
    if (call->is_counted && !cf_govern_take_response(&call->relay->govern, len, hint)) {
        (void)snprintf(call->hint, sizeof call->hint, "%s", hint);
        call->row.fault = "cut";
        break_answer(call, hint);
        return -1;
    }
    status = give_unless_secret(f, bytes, len);
    if (status > 0) {
        (void)snprintf(call->hint, sizeof call->hint, "the answer of %.60s shows the key of this run, and was cut",
                       f->upstream->provider);
        call->row.fault = "protocol";
        break_answer(call, call->hint);
        return -1;
    }
    if (status < 0) {
        if (f->call != NULL)
            cf_http_reply_abort(call->http);
        return -1;
    }
    return 0;
}

void
cf_forward_drain(struct cf_call *call)
{
    struct cf_forward *f = call->forward;

    if (!f->is_paused || cf_http_reply_queued(call->http) > CF_RELAY_QUEUE_HIGH)
        return;
    f->is_paused = false;
    cf_http_call_resume(f->http);
}

/* ---- its end
 * ---------------------------------------------------------------------------------- */

static const struct {
    enum cf_http_fault fault;
    const char *word;
    int status;
    const char *text;
} faults[] = {
    {CF_HTTP_RESOLVE, "resolve", 502, "its name has no address"},
    {CF_HTTP_CONNECT, "connect", 502, "no connection could be made"},
    {CF_HTTP_TLS, "tls", 502, "its certificate or the TLS handshake was not good"},
    {CF_HTTP_SILENT, "silent", 504, "it accepted the request and did not begin to answer"},
    {CF_HTTP_IDLE, "stalled", 504, "it went silent"},
    {CF_HTTP_DEADLINE, "deadline", 504, "its answer took more than an hour"},
    {CF_HTTP_LOST, "lost", 502, "it closed the connection before its answer's end"},
    {CF_HTTP_PROTOCOL, "protocol", 502, "what it answered is not HTTP"},
};

static void
fail(struct cf_forward *f, const struct cf_http_result *result)
{
    struct cf_call *call = f->call;
    const char *word = "internal", *text = "the relay's own fault";
    char message[400];
    int status = 502;

    for (size_t i = 0; i < CF_COUNT(faults); i++) {
        if (faults[i].fault != result->fault)
            continue;
        word = faults[i].word;
        text = faults[i].text;
        status = faults[i].status;
    }
    call->row.fault = word;
    (void)snprintf(message, sizeof message, "upstream %s: %s%s%.200s", f->upstream->provider,
                   text, result->detail[0] != '\0' ? ": " : "", result->detail);
    cf_utf8_make_line(message);
    (void)snprintf(call->hint, sizeof call->hint, "%.300s", message);
    cf_utf8_make_line(call->hint);
    if (f->has_head)
        break_answer(call, message);
    else
        cf_call_fail(call, status, NULL, message);
}

static void
finish(struct cf_forward *f)
{
    size_t waited = f->secret_at; /* it was not the key */

    f->secret_at = 0;
    if (give(f, f->upstream->secret.bytes, waited) < 0) {
        if (f->call != NULL)
            cf_http_reply_abort(f->call->http);
        return;
    }
    if (f->rewrites && (f->held.len > 0 || !f->is_events) && send_held(f, f->held.len) < 0) {
        f->call->row.fault = "protocol";
        cf_http_reply_abort(f->call->http);
    } else {
        (void)cf_http_reply_end(f->call->http);
    }
}

/* What is known of the call's cost, put where the ledger finds it. */
static void
tell_usage(struct cf_forward *f)
{
    const struct cf_usage *usage = &f->reader.usage;
    struct cf_relay_call *row = &f->call->row;
    bool is_model =
        f->call->route.endpoint == CF_AT_MODEL && f->call->route.codec != &cf_codec_fal_queue;

    row->usage = "none";
    if (!is_model || !f->has_head || row->status >= 300)
        return;
    row->input_tokens = usage->input;
    row->output_tokens = usage->output;
    row->cache_read_tokens = usage->cache_read;
    row->cache_write_tokens = usage->cache_write;
    row->usage = usage->is_final ? "reported" : "partial";
    if (!usage->has_input)
        row->input_tokens = row->request_bytes / 4 + 1;
    if (!usage->is_final && row->output_tokens < row->response_bytes / 16)
        row->output_tokens = row->response_bytes / 16; /* an event is four fifths wrapping */
    if (!usage->has_input && !usage->has_output)
        row->usage = "estimated";
    if (usage->model[0] != '\0') {
        (void)snprintf(f->call->served, sizeof f->call->served, "%s", usage->model);
        cf_utf8_make_line(f->call->served);
        row->model_served = f->call->served;
    }
}

static void
on_done(void *user, const struct cf_http_result *result)
{
    struct cf_forward *f = user;

    f->http = NULL;
    if (f->call != NULL && !f->is_replaced) {
        if (result->fault == CF_HTTP_OK)
            finish(f);
        else
            fail(f, result);
    }
    if (f->call != NULL) { /* its answer is still on its way out */
        tell_usage(f);
        f->call->forward = NULL;
    }
    forward_free(f);
}

void
cf_forward_close(struct cf_call *call)
{
    struct cf_forward *f = call->forward;

    tell_usage(f);
    call->forward = NULL;
    f->call = NULL;
    if (f->http != NULL)
        cf_http_call_cancel(f->http); /* on_done frees it */
    else if (f->phase != SENDING)
        forward_free(f);
}

/* ---- its beginning
 * ----------------------------------------------------------------------------- */

struct lines {
    char *items[300];
    size_t count;
    bool failed;
};

static void
add_line(struct lines *lines, struct cf_buf *line)
{
    if (line->failed || lines->count + 1 >= CF_COUNT(lines->items)) {
        lines->failed = true;
        cf_buf_release(line);
        return;
    }
    lines->items[lines->count++] = cf_buf_take(line, NULL);
}

static void
make_lines(const struct cf_forward *f, struct lines *lines)
{
    const struct cf_call *call = f->call;
    const char *connection = cf_http_header(call->http, "Connection"), *name, *value;
    struct cf_buf line = {0};

    for (size_t i = 0; cf_http_header_at(call->http, i, &name, &value); i++) {
        if (!cf_upstream_takes(name, connection) || value[0] == '\0')
            continue;
        cf_buf_addf(&line, "%s: %s", name, value);
        add_line(lines, &line);
    }
    if (call->route.codec == &cf_codec_anthropic_messages &&
        cf_http_header(call->http, "anthropic-version") == NULL) {
        cf_buf_adds(&line, "anthropic-version: 2023-06-01");
        add_line(lines, &line);
    }
    for (size_t i = 0; call->mcp != NULL && call->mcp->headers[i] != NULL; i++) {
        cf_buf_adds(&line, call->mcp->headers[i]);
        add_line(lines, &line);
    }
    if (call->mcp == NULL &&
        cf_upstream_credential(f->upstream, call->route.codec->name, &line))
        add_line(lines, &line);
}

static void
free_lines(struct lines *lines)
{
    for (size_t i = 0; i < lines->count; i++) {
        sodium_memzero(lines->items[i], strlen(lines->items[i])); /* one is the key */
        free(lines->items[i]);
    }
}

static long
on_source(void *user, char *to, size_t size)
{
    struct cf_spool *spool = ((struct cf_forward *)user)->spool;

    if (to != NULL)
        return cf_spool_read(spool, to, size);
    cf_spool_rewind(spool);
    return 0;
}

static int
start(struct cf_forward *f, const char *url, const struct lines *lines, struct cf_error *err)
{
    static const struct cf_http_events events = {.on_head = on_head,
                                                 .on_header = on_header,
                                                 .on_body = on_body,
                                                 .on_source = on_source,
                                                 .done = on_done};
    const struct cf_relay_times *times = &f->call->relay->times;
    const char *memory = cf_spool_memory(f->spool);
    const struct cf_http_request_options options = {
        .method = f->call->method,
        .url = url,
        .tls = &f->upstream->tls,
        .headers = (const char *const *)lines->items,
        .body = memory != NULL && cf_spool_len(f->spool) > 0 ? memory : NULL,
        .body_len = cf_spool_len(f->spool),
        .is_sized = memory == NULL,
        .may_http2 = true,
        .buffer_bytes = 16 * 1024,
        .connect_ms = times->connect,
        /* a tool takes its time, and an event stream is silent while nothing happens */
        .first_byte_ms = f->call->mcp != NULL ? 0 : times->first_byte,
        .idle_ms = f->call->mcp != NULL ? 0 : times->stall,
        .deadline_ms = HOUR_MS,
    };

    return cf_http_call_start(f->call->relay->client, &options, &events, f, &f->http, err);
}

void
cf_forward_start(struct cf_call *call)
{
    struct cf_forward *f = call->forward;
    struct lines lines = {.count = 0};
    cf_auto_free char *url = cf_upstream_url(f->upstream, call->target, call->query);
    struct cf_error err = {0};
    long status = cf_spool_end(f->spool);

    f->phase = ENDING;
    if (status == CF_SPOOL_WAIT)
        return; /* on_spool_ready comes */
    make_lines(f, &lines);
    if (status < 0) {
        no_spool(call);
    } else if (url == NULL || lines.failed) {
        cf_call_refuse(call, 431, "too large", "the request's headers are too large to go on");
    } else if (start(f, url, &lines, &err) < 0) {
        call->row.fault = "internal";
        cf_call_fail(call, 502, NULL, err.text);
    } else {
        f->phase = SENDING;
    }
    free_lines(&lines);
}
