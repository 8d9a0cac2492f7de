/* openai_responses: one output item a part; events numbered from 0; no [DONE], the end is
 * response.completed (or .incomplete) with its id and usage. */
#include "relay/dialect.h"

#include <stdio.h>
#include <string.h>

struct events {
    const struct cf_answer *answer;
    struct cf_buf *to;
    json_int_t number;
};

/* `data` is taken; type and sequence_number are put before its members. */
static void
tell(struct events *events, const char *name, json_t *data)
{
    json_t *all = json_pack("{s:s, s:I}", "type", name, "sequence_number", events->number++);

    if (json_object_update(all, data) < 0)
        events->to->failed = true;
    json_decref(data);
    cf_sse_frame(events->to, name, all);
}

static json_t *
usage(const struct cf_answer *answer)
{
    return json_pack("{s:I, s:{s:i}, s:I, s:{s:i}, s:I}", "input_tokens",
                     (json_int_t)answer->input_tokens, "input_tokens_details", "cached_tokens",
                     0, "output_tokens", (json_int_t)answer->output_tokens,
                     "output_tokens_details", "reasoning_tokens", 0, "total_tokens",
                     (json_int_t)(answer->input_tokens + answer->output_tokens));
}

/* ---- items --------------------------------------------------------------------------- */

struct item_id {
    char text[80];
};

static struct item_id
id_of(const struct cf_answer *answer, size_t i, const char *prefix)
{
    struct item_id id;

    if (i == 0)
        (void)snprintf(id.text, sizeof id.text, "%s_%s", prefix, answer->id);
    else
        (void)snprintf(id.text, sizeof id.text, "%s_%s_%zu", prefix, answer->id, i);
    return id;
}

static struct item_id
item_id(const struct cf_answer *answer, size_t i)
{
    static const char *const prefixes[] = {"msg", "rs", "fc"};

    return id_of(answer, i, prefixes[answer->parts[i].kind]);
}

static json_t *
text_part(const char *type, const char *text, size_t len)
{
    json_t *part = json_pack("{s:s, s:s%}", "type", type, "text", text, len);

    if (strcmp(type, "output_text") == 0)
        (void)json_object_set_new(part, "annotations", json_array());
    return part;
}

/* Item `i`, whole or as it is announced. */
static json_t *
item(const struct cf_answer *answer, size_t i, bool is_whole)
{
    const struct cf_part *part = &answer->parts[i];
    const char *status = is_whole ? "completed" : "in_progress";
    struct item_id id = item_id(answer, i), call;
    json_t *inside = json_array();

    switch (part->kind) {
    case CF_PART_THINKING:
        if (is_whole)
            (void)json_array_append_new(inside,
                                        text_part("summary_text", part->text, part->len));
        return json_pack("{s:s, s:s, s:o}", "id", id.text, "type", "reasoning", "summary",
                         inside);
    case CF_PART_TOOL:
        json_decref(inside);
        call = id_of(answer, i, "call");
        return json_pack("{s:s, s:s, s:s, s:s, s:s, s:s%}", "id", id.text, "type",
                         "function_call", "status", status, "call_id", call.text, "name",
                         part->name, "arguments", part->text, is_whole ? part->len : 0);
    default:
        if (is_whole)
            (void)json_array_append_new(inside,
                                        text_part("output_text", part->text, part->len));
        return json_pack("{s:s, s:s, s:s, s:s, s:o}", "id", id.text, "type", "message",
                         "status", status, "role", "assistant", "content", inside);
    }
}

/* ---- the response object --------------------------------------------------------------- */

static bool
is_incomplete(const struct cf_answer *answer)
{
    return answer->stop == CF_STOP_LENGTH || answer->stop == CF_STOP_REFUSAL;
}

static json_t *
incomplete_details(const struct cf_answer *answer)
{
    if (!is_incomplete(answer))
        return json_null();
    return json_pack("{s:s}", "reason",
                     answer->stop == CF_STOP_LENGTH ? "max_output_tokens" : "content_filter");
}

static json_t *
response(const struct cf_answer *answer, bool is_over)
{
    json_t *output = json_array();
    const char *status = !is_over                ? "in_progress"
                         : is_incomplete(answer) ? "incomplete"
                                                 : "completed";

    for (size_t i = 0; is_over && i < answer->part_count; i++)
        (void)json_array_append_new(output, item(answer, i, true));
    return json_pack("{s:s+, s:s, s:I, s:s, s:n, s:o, s:n, s:n, s:s, s:o, s:b, s:n, s:b, s:n, "
                     "s:{s:{s:s}}, s:s, s:[], "
                     "s:n, s:s, s:o, s:{}}",
                     "id", "resp_", answer->id, "object", "response", "created_at",
                     (json_int_t)answer->created, "status", status, "error",
                     "incomplete_details", is_over ? incomplete_details(answer) : json_null(),
                     "instructions", "max_output_tokens", "model", answer->model, "output",
                     output, "parallel_tool_calls", 1, "previous_response_id", "store", 0,
                     "temperature", "text", "format", "type", "text", "tool_choice", "auto",
                     "tools", "top_p", "truncation", "disabled", "usage",
                     is_over ? usage(answer) : json_null(), "metadata");
}

static int
whole(const struct cf_answer *answer, struct cf_buf *to)
{
    return cf_dialect_json(to, response(answer, true));
}

/* ---- the stream ------------------------------------------------------------------------ */

/* What is told inside item `i`: `more` is taken, `index` names its content or summary part. */
static void
tell_inside(struct events *events, size_t i, const char *name, const char *index, json_t *more)
{
    struct item_id id = item_id(events->answer, i);
    json_t *data = json_pack("{s:s, s:I}", "item_id", id.text, "output_index", (json_int_t)i);

    if (index != NULL)
        (void)json_object_set_new(data, index, json_integer(0));
    if (json_object_update(data, more) < 0)
        events->to->failed = true;
    json_decref(more);
    tell(events, name, data);
}

/* The names under which the three kinds of item tell of themselves. */
static const struct {
    const char *index, *part_type, *added, *delta, *done, *whole, *part_done;
} words[] = {
    [CF_PART_TEXT] = {"content_index", "output_text", "response.content_part.added",
                      "response.output_text.delta", "response.output_text.done", "text",
                      "response.content_part.done"},
    [CF_PART_THINKING] = {"summary_index", "summary_text",
                          "response.reasoning_summary_part.added",
                          "response.reasoning_summary_text.delta",
                          "response.reasoning_summary_text.done", "text",
                          "response.reasoning_summary_part.done"},
    [CF_PART_TOOL] = {NULL, NULL, NULL, "response.function_call_arguments.delta",
                      "response.function_call_arguments.done", "arguments", NULL},
};

static void
tell_item(struct events *events, size_t i)
{
    const struct cf_answer *answer = events->answer;
    const struct cf_part *part = &answer->parts[i];
    const char *index = words[part->kind].index, *bytes;
    size_t at = 0, len;

    tell(events, "response.output_item.added",
         json_pack("{s:I, s:o}", "output_index", (json_int_t)i, "item",
                   item(answer, i, false)));
    if (words[part->kind].added != NULL)
        tell_inside(events, i, words[part->kind].added, index,
                    json_pack("{s:o}", "part", text_part(words[part->kind].part_type, "", 0)));
    while (cf_part_piece(answer, part, &at, &bytes, &len))
        tell_inside(events, i, words[part->kind].delta, index,
                    json_pack("{s:s%}", "delta", bytes, len));
    tell_inside(events, i, words[part->kind].done, index,
                json_pack("{s:s%}", words[part->kind].whole, part->text, part->len));
    if (words[part->kind].part_done != NULL)
        tell_inside(events, i, words[part->kind].part_done, index,
                    json_pack("{s:o}", "part",
                              text_part(words[part->kind].part_type, part->text, part->len)));
    tell(
        events, "response.output_item.done",
        json_pack("{s:I, s:o}", "output_index", (json_int_t)i, "item", item(answer, i, true)));
}

static int
stream(const struct cf_answer *answer, struct cf_buf *to)
{
    struct events events = {.answer = answer, .to = to};

    tell(&events, "response.created", json_pack("{s:o}", "response", response(answer, false)));
    tell(&events, "response.in_progress",
         json_pack("{s:o}", "response", response(answer, false)));
    for (size_t i = 0; i < answer->part_count; i++)
        tell_item(&events, i);
    tell(&events, is_incomplete(answer) ? "response.incomplete" : "response.completed",
         json_pack("{s:o}", "response", response(answer, true)));
    return to->failed ? -1 : 0;
}

static int
refusal(const struct cf_refusal *refusal, struct cf_buf *to)
{
    return cf_codec_openai_chat.refusal(refusal, to); /* the two share their errors */
}

static int
stream_error(const struct cf_refusal *refusal, uint64_t number, struct cf_buf *to)
{
    cf_sse_frame(to, "error",
                 json_pack("{s:s, s:I, s:s, s:s, s:n}", "type", "error", "sequence_number",
                           (json_int_t)number, "code",
                           refusal->status == 429 ? "rate_limit_exceeded" : "server_error",
                           "message", refusal->message, "param"));
    return to->failed ? -1 : 0;
}

const struct cf_codec cf_codec_openai_responses = {"openai_responses", whole, stream, refusal,
                                                   stream_error};
