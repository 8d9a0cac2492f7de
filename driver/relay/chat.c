/* openai_chat: data-only frames, one id for all of them, [DONE] last. Thinking goes into
 * reasoning_content, an extension that clients in the field read. */
#include "relay/dialect.h"

#include <stdio.h>

static json_t *
usage(const struct cf_answer *answer)
{
    return json_pack("{s:I, s:I, s:I}", "prompt_tokens", (json_int_t)answer->input_tokens,
                     "completion_tokens", (json_int_t)answer->output_tokens, "total_tokens",
                     (json_int_t)(answer->input_tokens + answer->output_tokens));
}

static const char *
finish_reason(const struct cf_answer *answer)
{
    static const char *const reasons[] = {"stop", "tool_calls", "length", "content_filter"};

    return reasons[answer->stop];
}

/* A call as the whole answer tells it, or, with an index, as the first delta of a stream does.
 */
static json_t *
tool_call(const struct cf_answer *answer, size_t i, const char *arguments, size_t len,
          int index)
{
    char id[80];
    json_t *call;

    (void)snprintf(id, sizeof id, "call_%s_%zu", answer->id, i);
    call = json_pack("{s:s, s:s, s:{s:s, s:s%}}", "id", id, "type", "function", "function",
                     "name", answer->parts[i].name, "arguments", arguments, len);
    if (index >= 0)
        (void)json_object_set_new(call, "index", json_integer(index));
    return call;
}

/* All parts of a kind, joined; NULL when there is none. */
static json_t *
joined(const struct cf_answer *answer, enum cf_part_kind kind)
{
    struct cf_buf text = {0};
    bool has_any = false;
    json_t *value;

    for (size_t i = 0; i < answer->part_count; i++) {
        if (answer->parts[i].kind != kind)
            continue;
        has_any = true;
        cf_buf_add(&text, answer->parts[i].text, answer->parts[i].len);
    }
    value = has_any ? json_stringn(text.data != NULL ? text.data : "", text.len) : NULL;
    cf_buf_release(&text);
    return value;
}

static json_t *
message(const struct cf_answer *answer)
{
    json_t *content = joined(answer, CF_PART_TEXT),
           *thinking = joined(answer, CF_PART_THINKING), *calls = json_array();
    json_t *all = json_pack("{s:s, s:o}", "role", "assistant", "content",
                            content != NULL ? content : json_null());

    if (thinking != NULL)
        (void)json_object_set_new(all, "reasoning_content", thinking);
    for (size_t i = 0; i < answer->part_count; i++)
        if (answer->parts[i].kind == CF_PART_TOOL)
            (void)json_array_append_new(
                calls, tool_call(answer, i, answer->parts[i].text, answer->parts[i].len, -1));
    if (json_array_size(calls) > 0)
        (void)json_object_set(all, "tool_calls", calls);
    json_decref(calls);
    return all;
}

static int
whole(const struct cf_answer *answer, struct cf_buf *to)
{
    json_t *choice = json_pack("{s:i, s:o, s:s}", "index", 0, "message", message(answer),
                               "finish_reason", finish_reason(answer));

    return cf_dialect_json(
        to, json_pack("{s:s+, s:s, s:I, s:s, s:[o], s:o}", "id", "chatcmpl-", answer->id,
                      "object", "chat.completion", "created", (json_int_t)answer->created,
                      "model", answer->model, "choices", choice, "usage", usage(answer)));
}

/* `choices` and `use` are taken; `use` NULL: no such member. */
static void
chunk(const struct cf_answer *answer, struct cf_buf *to, json_t *choices, json_t *use)
{
    json_t *data =
        json_pack("{s:s+, s:s, s:I, s:s, s:o}", "id", "chatcmpl-", answer->id, "object",
                  "chat.completion.chunk", "created", (json_int_t)answer->created, "model",
                  answer->model, "choices", choices);

    if (use != NULL && json_object_set_new(data, "usage", use) < 0)
        to->failed = true;
    cf_sse_frame(to, NULL, data);
}

/* `delta` is taken. */
static void
tell(const struct cf_answer *answer, struct cf_buf *to, json_t *delta, const char *reason)
{
    chunk(answer, to,
          json_pack("[{s:i, s:o, s:s?}]", "index", 0, "delta", delta, "finish_reason", reason),
          NULL);
}

static json_t *
delta_of(const struct cf_part *part, int index, const char *bytes, size_t len)
{
    switch (part->kind) {
    case CF_PART_THINKING:
        return json_pack("{s:s%}", "reasoning_content", bytes, len);
    case CF_PART_TOOL:
        return json_pack("{s:[{s:i, s:{s:s%}}]}", "tool_calls", "index", index, "function",
                         "arguments", bytes, len);
    default:
        return json_pack("{s:s%}", "content", bytes, len);
    }
}

static int
stream(const struct cf_answer *answer, struct cf_buf *to)
{
    int index = -1; /* of parallel calls */

    tell(answer, to, json_pack("{s:s, s:s}", "role", "assistant", "content", ""), NULL);
    for (size_t i = 0; i < answer->part_count; i++) {
        const struct cf_part *part = &answer->parts[i];
        const char *bytes;
        size_t at = 0, len;

        if (part->kind == CF_PART_TOOL) {
            index++;
            tell(answer, to,
                 json_pack("{s:[o]}", "tool_calls", tool_call(answer, i, "", 0, index)), NULL);
        }
        while (cf_part_piece(answer, part, &at, &bytes, &len))
            tell(answer, to, delta_of(part, index, bytes, len), NULL);
    }
    tell(answer, to, json_object(), finish_reason(answer));
    if (answer->wants_usage)
        chunk(answer, to, json_array(), usage(answer));
    cf_buf_adds(to, "data: [DONE]\n\n");
    return to->failed ? -1 : 0;
}

static json_t *
error_object(const struct cf_refusal *refusal)
{
    /* a 4xx of type server_error makes one client repeat the call without end */
    const char *type = refusal->status >= 500   ? "server_error"
                       : refusal->status == 429 ? "rate_limit_exceeded"
                                                : "invalid_request_error";
    const char *code = refusal->status == 401   ? "invalid_api_key"
                       : refusal->status == 404 ? "unknown_url"
                       : refusal->status == 429 ? "rate_limit_exceeded"
                                                : NULL;

    return json_pack("{s:{s:s, s:s, s:n, s:s?}}", "error", "message", refusal->message, "type",
                     type, "param", "code", code);
}

static int
refusal(const struct cf_refusal *refusal, struct cf_buf *to)
{
    return cf_dialect_json(to, error_object(refusal));
}

static int
stream_error(const struct cf_refusal *refusal, uint64_t number, struct cf_buf *to)
{
    cf_sse_frame(to, NULL, error_object(refusal));
    return to->failed ? -1 : 0;
}

const struct cf_codec cf_codec_openai_chat = {"openai_chat", whole, stream, refusal,
                                              stream_error};
