/* openai_chat: data-only frames, one id for all of them, [DONE] last. */
#include "relay/dialect.h"

static json_t *
usage(const struct cf_answer *answer)
{
    return json_pack("{s:I, s:I, s:I}", "prompt_tokens", (json_int_t)answer->input_tokens,
                     "completion_tokens", (json_int_t)answer->output_tokens, "total_tokens",
                     (json_int_t)(answer->input_tokens + answer->output_tokens));
}

static int
whole(const struct cf_answer *answer, struct cf_buf *to)
{
    json_t *choice =
        json_pack("{s:i, s:{s:s, s:s%}, s:s}", "index", 0, "message", "role", "assistant",
                  "content", answer->text, answer->len, "finish_reason", "stop");

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
static json_t *
choice_of(json_t *delta, const char *finish_reason)
{
    return json_pack("[{s:i, s:o, s:s?}]", "index", 0, "delta", delta, "finish_reason",
                     finish_reason);
}

static int
stream(const struct cf_answer *answer, struct cf_buf *to)
{
    const char *bytes;
    size_t at = 0, len;

    chunk(answer, to,
          choice_of(json_pack("{s:s, s:s}", "role", "assistant", "content", ""), NULL), NULL);
    while (cf_answer_piece(answer, &at, &bytes, &len))
        chunk(answer, to, choice_of(json_pack("{s:s%}", "content", bytes, len), NULL), NULL);
    chunk(answer, to, choice_of(json_object(), "stop"), NULL);
    if (answer->wants_usage)
        chunk(answer, to, json_array(), usage(answer));
    cf_buf_adds(to, "data: [DONE]\n\n");
    return to->failed ? -1 : 0;
}

static int
refusal(const struct cf_refusal *refusal, struct cf_buf *to)
{
    /* a 4xx of type server_error makes one client repeat the call without end */
    const char *type = refusal->status >= 500 ? "server_error" : "invalid_request_error";
    const char *code = refusal->status == 401   ? "invalid_api_key"
                       : refusal->status == 404 ? "unknown_url"
                                                : NULL;

    return cf_dialect_json(to,
                           json_pack("{s:{s:s, s:s, s:n, s:s?}}", "error", "message",
                                     refusal->message, "type", type, "param", "code", code));
}

const struct cf_codec cf_codec_openai_chat = {"openai_chat", whole, stream, refusal};
