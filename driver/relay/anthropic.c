/* anthropic_messages: one text block; every frame carries its event line, without which the
 * vendor's SDK passes over it in silence. */
#include "relay/dialect.h"

static json_t *
usage(const struct cf_answer *answer, uint64_t output_tokens)
{
    return json_pack("{s:I, s:I, s:I, s:I}", "input_tokens", (json_int_t)answer->input_tokens,
                     "output_tokens", (json_int_t)output_tokens, "cache_creation_input_tokens",
                     (json_int_t)0, "cache_read_input_tokens", (json_int_t)0);
}

/* `content` is taken. */
static json_t *
message(const struct cf_answer *answer, json_t *content, const char *stop_reason,
        uint64_t output_tokens)
{
    return json_pack("{s:s+, s:s, s:s, s:s, s:o, s:s?, s:n, s:o}", "id", "msg_", answer->id,
                     "type", "message", "role", "assistant", "model", answer->model, "content",
                     content, "stop_reason", stop_reason, "stop_sequence", "usage",
                     usage(answer, output_tokens));
}

static int
whole(const struct cf_answer *answer, struct cf_buf *to)
{
    json_t *content =
        json_pack("[{s:s, s:s%}]", "type", "text", "text", answer->text, answer->len);

    return cf_dialect_json(to, message(answer, content, "end_turn", answer->output_tokens));
}

static void
text_block(const struct cf_answer *answer, struct cf_buf *to)
{
    const char *bytes;
    size_t at = 0, len;

    cf_sse_frame(to, "content_block_start",
                 json_pack("{s:s, s:i, s:{s:s, s:s}}", "type", "content_block_start", "index",
                           0, "content_block", "type", "text", "text", ""));
    cf_sse_frame(to, "ping", json_pack("{s:s}", "type", "ping"));
    while (cf_answer_piece(answer, &at, &bytes, &len))
        cf_sse_frame(to, "content_block_delta",
                     json_pack("{s:s, s:i, s:{s:s, s:s%}}", "type", "content_block_delta",
                               "index", 0, "delta", "type", "text_delta", "text", bytes, len));
    cf_sse_frame(to, "content_block_stop",
                 json_pack("{s:s, s:i}", "type", "content_block_stop", "index", 0));
}

static int
stream(const struct cf_answer *answer, struct cf_buf *to)
{
    cf_sse_frame(to, "message_start",
                 json_pack("{s:s, s:o}", "type", "message_start", "message",
                           message(answer, json_array(), NULL, 1)));
    text_block(answer, to);
    cf_sse_frame(to, "message_delta",
                 json_pack("{s:s, s:{s:s, s:n}, s:{s:I}}", "type", "message_delta", "delta",
                           "stop_reason", "end_turn", "stop_sequence", "usage",
                           "output_tokens", (json_int_t)answer->output_tokens));
    cf_sse_frame(to, "message_stop", json_pack("{s:s}", "type", "message_stop"));
    return to->failed ? -1 : 0;
}

static const char *
error_type(int status)
{
    switch (status) {
    case 401:
        return "authentication_error";
    case 403:
        return "permission_error";
    case 404:
        return "not_found_error";
    case 413:
        return "request_too_large";
    case 429:
        return "rate_limit_error";
    case 529:
        return "overloaded_error";
    default:
        return status >= 500 ? "api_error" : "invalid_request_error";
    }
}

static int
refusal(const struct cf_refusal *refusal, struct cf_buf *to)
{
    return cf_dialect_json(to, json_pack("{s:s, s:{s:s, s:s}, s:s+}", "type", "error", "error",
                                         "type", error_type(refusal->status), "message",
                                         refusal->message, "request_id", "req_", refusal->id));
}

const struct cf_codec cf_codec_anthropic_messages = {"anthropic_messages", whole, stream,
                                                     refusal};
