/* openai_responses: one message item; events numbered from 0; no [DONE], the end is
 * response.completed with its id and usage. */
#include "relay/dialect.h"

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
part(const struct cf_answer *answer, size_t len)
{
    return json_pack("{s:s, s:s%, s:[]}", "type", "output_text", "text", answer->text, len,
                     "annotations");
}

/* `content` is taken. */
static json_t *
item(const struct cf_answer *answer, const char *status, json_t *content)
{
    return json_pack("{s:s+, s:s, s:s, s:s, s:o}", "id", "msg_", answer->id, "type", "message",
                     "status", status, "role", "assistant", "content", content);
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

static json_t *
response(const struct cf_answer *answer, bool is_completed)
{
    json_t *output = is_completed
                         ? json_pack("[o]", item(answer, "completed",
                                                 json_pack("[o]", part(answer, answer->len))))
                         : json_array();

    return json_pack("{s:s+, s:s, s:I, s:s, s:n, s:n, s:n, s:n, s:s, s:o, s:b, s:n, s:b, s:n, "
                     "s:{s:{s:s}}, s:s, s:[], "
                     "s:n, s:s, s:o, s:{}}",
                     "id", "resp_", answer->id, "object", "response", "created_at",
                     (json_int_t)answer->created, "status",
                     is_completed ? "completed" : "in_progress", "error", "incomplete_details",
                     "instructions", "max_output_tokens", "model", answer->model, "output",
                     output, "parallel_tool_calls", 1, "previous_response_id", "store", 0,
                     "temperature", "text", "format", "type", "text", "tool_choice", "auto",
                     "tools", "top_p", "truncation", "disabled", "usage",
                     is_completed ? usage(answer) : json_null(), "metadata");
}

static int
whole(const struct cf_answer *answer, struct cf_buf *to)
{
    return cf_dialect_json(to, response(answer, true));
}

/* `more` is taken: what this event says beside its place. */
static void
tell_content(struct events *events, const char *name, json_t *more)
{
    json_t *data = json_pack("{s:s+, s:i, s:i}", "item_id", "msg_", events->answer->id,
                             "output_index", 0, "content_index", 0);

    if (json_object_update(data, more) < 0)
        events->to->failed = true;
    json_decref(more);
    tell(events, name, data);
}

static void
tell_message(struct events *events)
{
    const struct cf_answer *answer = events->answer;
    const char *bytes;
    size_t at = 0, len;

    tell(events, "response.output_item.added",
         json_pack("{s:i, s:o}", "output_index", 0, "item",
                   item(answer, "in_progress", json_array())));
    tell_content(events, "response.content_part.added",
                 json_pack("{s:o}", "part", part(answer, 0)));
    while (cf_answer_piece(answer, &at, &bytes, &len))
        tell_content(events, "response.output_text.delta",
                     json_pack("{s:s%}", "delta", bytes, len));
    tell_content(events, "response.output_text.done",
                 json_pack("{s:s%}", "text", answer->text, answer->len));
    tell_content(events, "response.content_part.done",
                 json_pack("{s:o}", "part", part(answer, answer->len)));
    tell(events, "response.output_item.done",
         json_pack("{s:i, s:o}", "output_index", 0, "item",
                   item(answer, "completed", json_pack("[o]", part(answer, answer->len)))));
}

static int
stream(const struct cf_answer *answer, struct cf_buf *to)
{
    struct events events = {.answer = answer, .to = to};

    tell(&events, "response.created", json_pack("{s:o}", "response", response(answer, false)));
    tell(&events, "response.in_progress",
         json_pack("{s:o}", "response", response(answer, false)));
    tell_message(&events);
    tell(&events, "response.completed",
         json_pack("{s:o}", "response", response(answer, true)));
    return to->failed ? -1 : 0;
}

static int
refusal(const struct cf_refusal *refusal, struct cf_buf *to)
{
    return cf_codec_openai_chat.refusal(refusal, to); /* the two share their errors */
}

const struct cf_codec cf_codec_openai_responses = {"openai_responses", whole, stream, refusal};
