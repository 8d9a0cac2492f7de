/* One call from its head to its row: whoever judges, keeps and answers it is called from here.
 */
#include "relay/call.h"

#include "base/clock.h"
#include "base/ids.h"
#include "base/str.h"
#include "base/utf8.h"
#include "json/json.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- from head to row ---------------------------------------------------------------- */

static void
copy_line(char *to, size_t size, const char *from)
{
    size_t len = strlen(from);

    len = len < size ? len : size - 1; /* cut is wanted */
    memcpy(to, from, len);
    to[len] = '\0';
    cf_utf8_make_line(to);
}

static struct cf_call *
call_new(struct cf_relay *relay, struct cf_http_conn *http)
{
    struct cf_call *call = calloc(1, sizeof *call);
    uint32_t number;

    if (call == NULL)
        return NULL;
    call->relay = relay;
    call->http = http;
    call->begun_ms = cf_clock_ms();
    call->row.id = ++relay->last_id;
    call->row.at_ms = call->begun_ms - relay->epoch_ms;
    call->row.turn = relay->turn;
    call->row.method = call->method;
    call->row.path = call->path;
    call->row.model_asked = call->row.model_served = "";
    call->row.hint = call->hint;
    call->row.usage = "none";
    number = (uint32_t)call->row.id; /* unlike any other of this run */
    memcpy(call->id, relay->id_stem, 16);
    cf_hex(&number, sizeof number, call->id + 16);
    memcpy(call->request_id, "req_", 4);
    memcpy(call->request_id + 4, call->id, sizeof call->id);
    TAILQ_INSERT_TAIL(&relay->calls, call, link);
    relay->call_count++;
    return call;
}

/* A step of a script that did not reach its client, through no wish of the script, stays: the
 * client will ask again. */
static void
settle_rule(struct cf_call *call)
{
    bool is_cut = call->row.is_aborted || call->row.refused != NULL;

    if (call->rule != NULL && is_cut && call->rule->pace.how == CF_BREAK_NONE)
        cf_script_unuse(call->rule);
}

void
cf_call_finish(struct cf_call *call)
{
    struct cf_relay *relay = call->relay;
    const struct cf_relay_dialect *dialect = call->route.dialect;

    cf_http_conn_set_user(call->http, NULL);
    TAILQ_REMOVE(&relay->calls, call, link);
    relay->call_count--;
    settle_rule(call);
    if (call->row.is_aborted && call->is_sending)
        call->row.usage = "partial"; /* its last count was not sent */
    if (call->forward != NULL)
        cf_forward_close(call);
    if (call->is_counted)
        cf_govern_end(&relay->govern, &call->row,
                      call->route.codec == &cf_codec_anthropic_messages);
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
    free(call->digest.hits);
    free(call);
}

static void
on_request(void *user, struct cf_http_conn *http, const struct cf_http_request *request)
{
    struct cf_relay *relay = ((struct cf_relay_conn *)user)->relay;
    struct cf_call *call = call_new(relay, http);
    const struct cf_digest_needles needles = {
        &relay->prompt, &relay->prior, relay->script.needles, relay->script.needle_count};
    struct cf_digest_hit *hits =
        call != NULL ? calloc(relay->script.needle_count + 1, sizeof *hits) : NULL;

    if (hits == NULL) {
        if (call != NULL)
            cf_call_finish(call);
        (void)cf_http_reply(http, 500, "text/plain", NULL, "out of memory\n", 14);
        return;
    }
    cf_http_conn_set_user(http, call);
    copy_line(call->method, sizeof call->method, request->method);
    copy_line(call->path, sizeof call->path, request->path);
    call->target = request->path;
    call->query = request->query;
    call->mcp = cf_mcp_find(relay, request->path, &call->target);
    if (call->mcp != NULL)
        call->route = (struct cf_route){.endpoint = CF_AT_MCP, .codec = &cf_codec_unknown};
    else
        cf_route_find(relay->dialect_table, relay->dialect_count, relay->dialects,
                      request->path, &call->route, call->hint);
    call->row.dialect = call->route.dialect != NULL ? call->route.dialect->id : 0;
    cf_digest_init(&call->digest, &needles);
    call->digest.hits = hits;
    cf_judge_head(call, request);
}

static int
on_body(void *user, struct cf_http_conn *http, const char *bytes, size_t len)
{
    struct cf_call *call = cf_http_conn_get_user(http);
    char hint[CF_GOVERN_HINT] = "";

    if (call == NULL)
        return -1;
    call->row.request_bytes += len;
    if (call->row.request_bytes > call->relay->max_body_bytes) {
        cf_call_refuse(call, 413, "too large",
                       "the request body is over the limit of %" PRIu64 " bytes",
                       call->relay->max_body_bytes);
        return -1;
    }
    if (call->is_counted && !cf_govern_take_request(&call->relay->govern, len, hint)) {
        copy_line(call->hint, sizeof call->hint, hint);
        cf_call_refuse(call, 400, "cap", "%s", call->hint);
        return -1;
    }
    if (!call->is_body_broken && call->mcp == NULL &&
        cf_digest_feed(&call->digest, bytes, len, &call->body_error) < 0)
        call->is_body_broken = true;
    return call->forward != NULL ? cf_forward_body(call, bytes, len) : 0;
}

/* ---- answering ----------------------------------------------------------------------------
 */

/* The script first, then the provider, or without one the replay model. */
void
cf_call_answer(struct cf_call *call)
{
    if (call->route.endpoint == CF_AT_QUEUE && call->forward == NULL)
        cf_queue_stream(call);
    else if (call->forward != NULL && call->rule == NULL)
        cf_forward_start(call);
    else if (call->route.codec == &cf_codec_fal_queue)
        cf_queue_submit(call);
    else
        cf_replay_answer(call);
}

/* The script answers, or its job is asked for: this one does not go upstream. */
static void
spare_provider(struct cf_call *call)
{
    cf_forward_close(call);
    call->row.provider = NULL;
}

static void
answer_model_call(struct cf_call *call)
{
    if (!cf_judge_body(call) || !cf_replay_find_rule(call))
        return;
    if (call->rule != NULL && call->forward != NULL)
        spare_provider(call);
    if (call->is_main && call->relay->is_held && call->route.codec != &cf_codec_fal_queue) {
        call->is_held = true;
    } else if (call->rule != NULL && call->rule->pace.delay_ms > 0 &&
               call->route.codec != &cf_codec_fal_queue) {
        call->due_ms = cf_clock_ms() + call->rule->pace.delay_ms;
        cf_relay_wake(call->relay, call->due_ms);
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
answer_count(struct cf_call *call)
{
    if (!cf_judge_body(call))
        return;
    if (call->forward != NULL)
        cf_forward_start(call);
    else
        cf_call_reply_json(
            call, 200,
            json_pack("{s:I}", "input_tokens", (json_int_t)(call->row.request_bytes / 4 + 1)));
}

static void
answer_queue(struct cf_call *call)
{
    if (call->forward != NULL && cf_queue_knows(call))
        spare_provider(call);
    if (call->forward != NULL)
        cf_forward_start(call);
    else
        cf_queue_request(call);
}

static void
on_complete(void *user, struct cf_http_conn *http)
{
    struct cf_call *call = cf_http_conn_get_user(http);

    if (call == NULL)
        return;
    call->heard_ms = cf_clock_ms();
    switch (call->route.endpoint) {
    case CF_AT_ROOT:
        cf_call_reply_empty(call, 200);
        break;
    case CF_AT_NOTHING:
        cf_call_reply_empty(call, 404);
        break;
    case CF_AT_MODELS:
        answer_models(call);
        break;
    case CF_AT_COUNT_TOKENS:
        answer_count(call);
        break;
    case CF_AT_QUEUE:
        answer_queue(call);
        break;
    case CF_AT_MODEL:
        answer_model_call(call);
        break;
    case CF_AT_MCP:
        cf_forward_start(call);
        break;
    }
}

static void
on_drain(void *user, struct cf_http_conn *http)
{
    struct cf_call *call = cf_http_conn_get_user(http);

    if (call == NULL)
        return;
    if (call->forward != NULL)
        cf_forward_drain(call);
    else if (call->is_sending)
        cf_call_pump(call);
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
