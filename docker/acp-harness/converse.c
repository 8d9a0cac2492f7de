/* Model calls and tool calls until the model has said its last word. */
#include "turn.h"

#include "base/clock.h"
#include "base/str.h"
#include "base/utf8.h"
#include "shape.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

enum { ROUNDS_LIMIT = 8, PIECES = 3 };

static const char submit_tool[] = "submit_result";

/* ---- the message as it comes ------------------------------------------------------------ */

static void
send_chunk(struct hn_turn *turn, const char *bytes, size_t len)
{
    json_t *text = json_stringn(bytes, len);

    if (text == NULL)
        return; /* cut inside a character: cannot come out of parsed JSON */
    turn->chunks++;
    hn_turn_update(turn, NULL,
                   json_pack("{s:s, s:s, s:{s:s, s:o}}", "sessionUpdate", "agent_message_chunk",
                             "messageId", turn->message_id, "content", "type", "text", "text",
                             text));
}

static void
on_text(void *user, const char *bytes, size_t len)
{
    struct hn_turn *turn = user;

    if (turn->agent->options->stream)
        send_chunk(turn, bytes, len);
}

/* An answer that came whole is handed on in a few pieces, as a client must be able to take it. */
static void
send_whole(struct hn_turn *turn, const char *text, size_t len)
{
    size_t piece = len / PIECES + 1;

    while (len > 0) {
        size_t n = cf_utf8_cut(text, len, piece < len ? piece : len);

        if (n == 0)
            n = len;
        send_chunk(turn, text, n);
        text += n;
        len -= n;
    }
}

/* ---- one call --------------------------------------------------------------------------- */

static json_t *
offered_tools(const struct hn_turn *turn)
{
    const struct hn_authority *authority = &turn->session->authority;
    json_t *tools = hn_tools_offered(turn);

    if (authority->output_schema != NULL &&
        turn->agent->options->declared.structured == HN_SUBMIT_TOOL)
        json_array_append_new(tools, json_pack("{s:s, s:s, s:O}", "name", submit_tool,
                                               "description", "Submit the final answer.",
                                               "parameters", authority->output_schema));
    return tools;
}

/* Text that streams to the client before it was validated could not be taken back. */
static bool
is_structured(const struct hn_turn *turn)
{
    return turn->session->authority.output_schema != NULL;
}

static int
start_call(struct hn_turn *turn, const struct hn_model *model, json_t *tools, struct cf_error *err)
{
    bool submits = turn->agent->options->declared.structured == HN_SUBMIT_TOOL;
    struct hn_ask ask = { .messages = turn->session->messages, .tools = tools };

    if (is_structured(turn) && submits)
        ask.system = "When you know the final answer, call submit_result with it.";
    else if (is_structured(turn))
        ask.schema = turn->session->authority.output_schema;
    snprintf(turn->message_id, sizeof turn->message_id, "m%u", ++turn->session->messages_made);
    turn->chunks = 0;
    turn->count.model++;
    return hn_call_start(&turn->call, model, &ask, is_structured(turn) ? NULL : on_text, turn, err);
}

/* 1: the answer is whole. 0: the turn is over (cancelled, drained, or the client is gone). */
static int
call_model(struct hn_turn *turn, const struct hn_model *model, struct cf_error *err)
{
    json_t *tools = offered_tools(turn);
    int status;

    hn_call_release(&turn->call);
    status = start_call(turn, model, tools, err);
    json_decref(tools);
    while (status == 0 && !hn_turn_is_over(turn)) {
        status = hn_call_ready(&turn->call, err);
        if (status == 0)
            hn_agent_pump(turn->agent, &turn->call, hn_call_wake_ms(&turn->call));
    }
    if (status < 0 && turn->is_draining && err->code == ETIMEDOUT) {
        turn->stop = "cancelled";
        return 0;
    }
    return status;
}

/* ---- what an answer means --------------------------------------------------------------- */

static void
remember_answer(struct hn_turn *turn)
{
    const struct hn_answer *answer = &turn->call.answer;
    json_t *text = json_stringn(answer->text.data != NULL ? answer->text.data : "",
                                answer->text.len);
    json_t *message = json_pack("{s:s, s:o}", "role", "assistant", "text", text);

    if (answer->calls != NULL)
        json_object_set(message, "calls", answer->calls);
    json_array_append_new(turn->session->messages, message);
}

static bool
take_steers(struct hn_turn *turn)
{
    json_t *content;
    size_t i;
    bool any = json_array_size(turn->steers) > 0;

    json_array_foreach (turn->steers, i, content)
        json_array_append_new(turn->session->messages,
                              json_pack("{s:s, s:O}", "role", "user", "text", content));
    json_array_clear(turn->steers);
    return any;
}

/* The final value under an output schema: a submission, or else the text. It is shown to no one
 * before it is known to fit. */
static int
settle_structured(struct hn_turn *turn, json_t *submitted, struct cf_error *err)
{
    const struct cf_buf *text = &turn->call.answer.text;
    cf_auto_free char *dump = submitted ? json_dumps(submitted, JSON_COMPACT | JSON_ENCODE_ANY) : NULL;
    json_t *value = submitted != NULL ? json_incref(submitted)
                                      : json_loadb(text->data != NULL ? text->data : "", text->len,
                                                   JSON_DECODE_ANY | JSON_ALLOW_NUL, NULL);
    int status = 0;

    if (value == NULL)
        status = cf_error_set(err, CF_ERROR_HARNESS, 0, "is not JSON");
    else
        status = hn_shape_check(turn->session->authority.output_schema, value, err);
    json_decref(value);
    if (status < 0)
        return cf_error_wrap(err, "the model's final answer does not fit the output schema");
    if (dump != NULL)
        send_whole(turn, dump, strlen(dump));
    else
        send_whole(turn, text->data, text->len);
    return 0;
}

static json_t *
submission(const struct hn_answer *answer)
{
    json_t *call;
    size_t i;

    json_array_foreach (answer->calls, i, call)
        if (strcmp(json_string_value(json_object_get(call, "name")), submit_tool) == 0)
            return json_object_get(call, "input");
    return NULL;
}

/* A submission is a tool call like any other to whoever watches. */
static void
show_submission(struct hn_turn *turn, json_t *input)
{
    char id[24];

    hn_tool_begin(turn, id, NULL, "Submit the result", "other", json_incref(input));
    hn_tool_end(turn, id, NULL, false, NULL, json_pack("{s:b}", "accepted", 1));
}

static int
run_calls(struct hn_turn *turn)
{
    json_t *calls = json_incref(turn->call.answer.calls), *call;
    size_t i;

    json_array_foreach (calls, i, call) {
        json_t *result = hn_tool_carry_out(turn, call);

        json_object_set_new(result, "role", json_string("tool"));
        json_object_set(result, "call", json_object_get(call, "id"));
        json_array_append_new(turn->session->messages, result);
    }
    json_decref(calls);
    return 0;
}

/* 1: go on with another call. 0: that was the last word. */
static int
take_answer(struct hn_turn *turn, struct cf_error *err)
{
    struct hn_answer *answer = &turn->call.answer;
    json_t *submitted = is_structured(turn) ? submission(answer) : NULL;
    struct cf_buf *thinking = &answer->thinking;

    if (thinking->len > 0)
        hn_turn_thought(turn, NULL, thinking->data);
    if (!is_structured(turn) && turn->chunks == 0)
        send_whole(turn, answer->text.data, answer->text.len);
    if (answer->is_refusal || answer->is_cut)
        turn->stop = answer->is_refusal ? "refusal" : "max_tokens";
    if (submitted != NULL)
        show_submission(turn, submitted);
    else if (answer->calls != NULL && !turn->is_draining) {
        remember_answer(turn);
        run_calls(turn);
        return 1;
    }
    if (is_structured(turn) && json_array_size(turn->steers) == 0 &&
        settle_structured(turn, submitted, err) < 0)
        return -1;
    if (submitted != NULL) /* its result is not wanted: a later turn starts from the text */
        json_decref(cf_steal(answer->calls));
    remember_answer(turn);
    return take_steers(turn) && !turn->is_draining;
}

/* ---- compaction ------------------------------------------------------------------------- */

static json_int_t
estimate(json_t *messages)
{
    json_int_t bytes = 0;
    json_t *message;
    size_t i;

    json_array_foreach (messages, i, message)
        bytes += (json_int_t)json_string_length(json_object_get(message, "text")) + 16;
    return bytes / 4;
}

/* Past the admitted trigger all but the newest prompt is dropped, and said to have been. */
static void
compact(struct hn_turn *turn)
{
    json_t *messages = turn->session->messages;
    json_int_t trigger = turn->session->authority.compaction_trigger, before = estimate(messages);
    size_t dropped = json_array_size(messages) - 1;
    char now[21];

    if (trigger == 0 || before <= trigger || dropped == 0)
        return;
    while (json_array_size(messages) > 1)
        json_array_remove(messages, 0);
    cf_clock_rfc3339(cf_clock_unix(), now);
    hn_session_update(turn->agent, turn->session,
                      json_pack("{s:s, s:s, s:{s:{s:s, s:I, s:I, s:I}}}", "sessionUpdate",
                                "session_info_update", "updatedAt", now, "_meta",
                                "checkfu.compaction", "strategy", "native", "tokens_before", before,
                                "tokens_after", estimate(messages), "compacted_messages",
                                (json_int_t)dropped));
}

int
hn_converse(struct hn_turn *turn, struct cf_error *err)
{
    struct hn_model model;
    int more = 1;

    if (hn_model_from_env(&model, turn->agent->options->dialect, turn->agent->options->stream,
                          err) < 0)
        return -1;
    compact(turn);
    take_steers(turn);
    for (int round = 0; more == 1; round++) {
        int status;

        if (round == ROUNDS_LIMIT) {
            turn->stop = "max_turn_requests";
            return 0;
        }
        if (hn_turn_is_over(turn) || turn->is_draining) {
            turn->stop = "cancelled";
            return 0;
        }
        status = call_model(turn, &model, err);
        if (status <= 0)
            return status;
        more = take_answer(turn, err);
    }
    return more;
}
