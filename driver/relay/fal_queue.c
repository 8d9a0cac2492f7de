/*
 * fal_queue: a job is submitted, asked after, fetched. The replay model's job is done when it
 * was looked at once (while the relay is held: not before the release; by a script: not before
 * its delay, or never). All URLs that go out lead back to this relay.
 */
#include "relay/call.h"

#include "base/clock.h"
#include "base/ids.h"
#include "base/str.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The first two segments of a model id, three behind the names of a namespace. */
static void
base_of(const char *path, char *to, size_t size)
{
    unsigned want =
        cf_str_starts(path, "/workflows/") || cf_str_starts(path, "/comfy/") ? 3 : 2;
    size_t len = 0;

    while (want > 0 && path[len] == '/') {
        len += 1 + strcspn(path + len + 1, "/");
        want--;
    }
    (void)snprintf(to, size, "%.*s", (int)len, path); /* path is at most 200 */
}

static void
make_uuid(char id[40])
{
    char hex[33];

    cf_id_hex(hex);
    (void)snprintf(id, 40, "%.8s-%.4s-4%.3s-8%.3s-%.12s", hex, hex + 8, hex + 13, hex + 17,
                   hex + 20);
}

/* `status` is taken and gets the job's names and URLs. */
static json_t *
with_urls(const struct cf_call *call, const struct cf_job *job, json_t *status)
{
    const char *host = cf_http_header(call->http, "Host");
    char url[600];

    (void)snprintf(url, sizeof url, "http://%.250s%s/requests/%s",
                   host != NULL ? host : "127.0.0.1", job->base, job->id);
    json_t *urls = json_pack("{s:s, s:s, s:s+, s:s+}", "request_id", job->id, "response_url",
                             url, "status_url", url, "/status", "cancel_url", url, "/cancel");
    (void)json_object_update(status, urls); /* a Host that is not UTF-8 leaves them out */
    json_decref(urls);
    return status;
}

/* All the texts of a rule in one. Yours; NULL out of memory. */
static char *
text_of(struct cf_call *call)
{
    struct cf_buf all = {0};

    for (size_t i = 0; i < call->rule->part_count; i++)
        if (call->rule->parts[i].kind == CF_PART_TEXT)
            cf_buf_adds(&all, call->rule->parts[i].text);
    call->row.answered_nonce = all.data != NULL && strstr(all.data, "{answer}") != NULL;
    char *text = cf_replay_expand(call->relay, all.data != NULL ? all.data : "");
    cf_buf_release(&all);
    return text;
}

static void
script_job(struct cf_call *call, struct cf_job *job)
{
    job->text = text_of(call);
    job->ready_ms = cf_clock_ms() + call->rule->pace.delay_ms;
    job->is_stalled = call->rule->pace.how == CF_BREAK_STALL;
}

void
cf_queue_submit(struct cf_call *call)
{
    struct cf_relay *relay = call->relay;
    struct cf_job *job;

    if (call->rule != NULL && call->rule->error_status != 0) {
        cf_replay_fail(call);
        return;
    }
    job = &relay->jobs[relay->job_count++ % CF_RELAY_JOBS];
    free(job->text);
    memset(job, 0, sizeof *job);
    make_uuid(job->id);
    base_of(call->path, job->base, sizeof job->base);
    job->is_main = call->is_main;
    call->row.answered_nonce = call->is_main && (relay->answer_nonce || relay->answer_json);
    if (call->rule != NULL)
        script_job(call, job);
    cf_call_reply_json(
        call, 200,
        with_urls(call, job,
                  json_pack("{s:s, s:i}", "status", "IN_QUEUE", "queue_position", 0)));
}

static bool
is_waiting(const struct cf_call *call, const struct cf_job *job)
{
    return job->polls == 0 || job->is_stalled || (job->is_main && call->relay->is_held) ||
           job->ready_ms > cf_clock_ms();
}

static json_t *
status_of(const struct cf_call *call, const struct cf_job *job, bool is_waiting_now)
{
    json_t *status = is_waiting_now ? json_pack("{s:s, s:n}", "status", "IN_PROGRESS", "logs")
                                    : json_pack("{s:s, s:[], s:{s:f}}", "status", "COMPLETED",
                                                "logs", "metrics", "inference_time", 0.01);
    return with_urls(call, job, status);
}

void
cf_queue_stream(struct cf_call *call)
{
    uint64_t now = cf_clock_ms();

    call->row.is_streamed = true;
    call->job->polls++;
    cf_sse_frame(&call->body, NULL, status_of(call, call->job, true));
    if (call->job->is_stalled)
        call->pace =
            (struct cf_pace){.how = CF_BREAK_STALL, .counts_events = true, .after = 1};
    else if (call->job->ready_ms > now)
        call->pace.gap_ms = call->job->ready_ms - now;
    cf_sse_frame(&call->body, NULL, status_of(call, call->job, false));
    cf_call_send(call);
}

static void
reply_result(struct cf_call *call, struct cf_job *job)
{
    struct cf_relay *relay = call->relay;
    char text[400] = "OK";
    const char *said = text;
    json_t *output;

    if (is_waiting(call, job)) {
        job->polls++; /* a client that asks for nothing else gets on, too */
        cf_call_reply_json(call, 400,
                           json_pack("{s:s}", "detail", "Request is still in progress"));
        return;
    }
    if (job->is_main && relay->answer_nonce != NULL)
        (void)snprintf(text, sizeof text, "The answer is %s.", relay->answer_nonce);
    if (job->is_main && relay->answer_json != NULL)
        said = relay->answer_json;
    if (job->text != NULL)
        said = job->text;
    output = json_pack("{s:s, s:[], s:i}", "output", said, "images", "seed", 0);
    cf_call_reply_json(call, 200, output);
}

static struct cf_job *
job_find(struct cf_relay *relay, const char *id, size_t len)
{
    for (unsigned i = 0; i < CF_RELAY_JOBS; i++)
        if (strlen(relay->jobs[i].id) == len && len > 0 &&
            memcmp(relay->jobs[i].id, id, len) == 0)
            return &relay->jobs[i];
    return NULL;
}

bool
cf_queue_knows(const struct cf_call *call)
{
    const char *id, *action;
    size_t len;

    return cf_route_queue(call->path, &id, &len, &action) &&
           job_find(call->relay, id, len) != NULL;
}

static void
cancel(struct cf_call *call, struct cf_job *job)
{
    if (is_waiting(call, job))
        cf_call_reply_json(call, 202, json_pack("{s:s}", "status", "CANCELLATION_REQUESTED"));
    else
        cf_call_reply_json(call, 400, json_pack("{s:s}", "status", "ALREADY_COMPLETED"));
}

static void
reply_status(struct cf_call *call, struct cf_job *job)
{
    bool waits = is_waiting(call, job);

    job->polls++;
    cf_call_reply_json(call, 200, status_of(call, job, waits));
}

void
cf_queue_request(struct cf_call *call)
{
    const char *id, *action;
    struct cf_job *job = NULL;
    size_t len;
    bool is_get = strcmp(call->method, "GET") == 0;

    if (cf_route_queue(call->path, &id, &len, &action))
        job = job_find(call->relay, id, len);
    if (job == NULL) {
        cf_call_refuse(call, 404, "path", "no job of that id");
    } else if (strcmp(action, "/cancel") == 0 && strcmp(call->method, "PUT") == 0) {
        cancel(call, job);
    } else if (is_get && action[0] == '\0') {
        reply_result(call, job);
    } else if (is_get && strcmp(action, "/status") == 0) {
        reply_status(call, job);
    } else if (is_get && strcmp(action, "/status/stream") == 0) {
        call->job = job;
        call->is_held = job->is_main && call->relay->is_held;
        if (!call->is_held)
            cf_queue_stream(call);
    } else {
        call->route.method = strcmp(action, "/cancel") == 0 ? "PUT" : "GET";
        cf_call_refuse(call, 405, "method", "%s takes %s", call->path, call->route.method);
    }
}

static int
refusal(const struct cf_refusal *refusal, struct cf_buf *to)
{
    return cf_dialect_json(to, json_pack("{s:s}", "detail", refusal->message));
}

/* Answers are jobs here: only refusals have a body of their own. */
const struct cf_codec cf_codec_fal_queue = {.name = "fal_queue", .refusal = refusal};
