/* anthropic_messages: one content block a part, never interleaved; every frame carries its
 * event line, without which the vendor's SDK passes over it in silence. */
#include "relay/dialect.h"

#include "json/json.h"

#include <stdio.h>

static json_t *
usage(const struct cf_answer *answer, uint64_t output_tokens)
{
    return json_pack("{s:I, s:I, s:I, s:I}", "input_tokens", (json_int_t)answer->input_tokens,
                     "output_tokens", (json_int_t)output_tokens, "cache_creation_input_tokens",
                     (json_int_t)0, "cache_read_input_tokens", (json_int_t)0);
}

static const char *
stop_reason(const struct cf_answer *answer)
{
    static const char *const reasons[] = {"end_turn", "tool_use", "max_tokens", "refusal"};

    return reasons[answer->stop];
}

/* `content` is taken. */
static json_t *
message(const struct cf_answer *answer, json_t *content, const char *reason,
        uint64_t output_tokens)
{
    return json_pack("{s:s+, s:s, s:s, s:s, s:o, s:s?, s:n, s:o}", "id", "msg_", answer->id,
                     "type", "message", "role", "assistant", "model", answer->model, "content",
                     content, "stop_reason", reason, "stop_sequence", "usage",
                     usage(answer, output_tokens));
}

/* The block of part `i`, whole, or with is_start as a stream announces it. */
static json_t *
block(const struct cf_answer *answer, size_t i, bool is_start)
{
    const struct cf_part *part = &answer->parts[i];
    size_t len = is_start ? 0 : part->len;
    char id[80];

    switch (part->kind) {
    case CF_PART_THINKING:
        return json_pack("{s:s, s:s%, s:s}", "type", "thinking", "thinking", part->text, len,
                         "signature", is_start ? "" : "cmVwbGF5");
    case CF_PART_TOOL:
        (void)snprintf(id, sizeof id, "toolu_%s_%zu", answer->id, i);
        return json_pack(
            "{s:s, s:s, s:s, s:o}", "type", "tool_use", "id", id, "name", part->name, "input",
            is_start ? json_object() : cf_json_parse(part->text, part->len, NULL, NULL));
    default:
        return json_pack("{s:s, s:s%}", "type", "text", "text", part->text, len);
    }
}

static int
whole(const struct cf_answer *answer, struct cf_buf *to)
{
    json_t *content = json_array();

    for (size_t i = 0; i < answer->part_count; i++)
        (void)json_array_append_new(content, block(answer, i, false));
    return cf_dialect_json(
        to, message(answer, content, stop_reason(answer), answer->output_tokens));
}

/* `delta` is taken. */
static void
tell_delta(struct cf_buf *to, size_t i, json_t *delta)
{
    cf_sse_frame(to, "content_block_delta",
                 json_pack("{s:s, s:I, s:o}", "type", "content_block_delta", "index",
                           (json_int_t)i, "delta", delta));
}

static json_t *
delta_of(const struct cf_part *part, const char *bytes, size_t len)
{
    switch (part->kind) {
    case CF_PART_THINKING:
        return json_pack("{s:s, s:s%}", "type", "thinking_delta", "thinking", bytes, len);
    case CF_PART_TOOL:
        return json_pack("{s:s, s:s%}", "type", "input_json_delta", "partial_json", bytes,
                         len);
    default:
        return json_pack("{s:s, s:s%}", "type", "text_delta", "text", bytes, len);
    }
}

static void
tell_block(const struct cf_answer *answer, size_t i, struct cf_buf *to)
{
    const struct cf_part *part = &answer->parts[i];
    const char *bytes;
    size_t at = 0, len;

    cf_sse_frame(to, "content_block_start",
                 json_pack("{s:s, s:I, s:o}", "type", "content_block_start", "index",
                           (json_int_t)i, "content_block", block(answer, i, true)));
    if (i == 0)
        cf_sse_frame(to, "ping", json_pack("{s:s}", "type", "ping"));
    if (part->kind == CF_PART_TOOL)
        tell_delta(to, i, delta_of(part, "", 0)); /* the vendor's own streams begin so */
    while (cf_part_piece(answer, part, &at, &bytes, &len))
        tell_delta(to, i, delta_of(part, bytes, len));
    if (part->kind == CF_PART_THINKING)
        tell_delta(
            to, i,
            json_pack("{s:s, s:s}", "type", "signature_delta", "signature", "cmVwbGF5"));
    cf_sse_frame(
        to, "content_block_stop",
        json_pack("{s:s, s:I}", "type", "content_block_stop", "index", (json_int_t)i));
}

static int
stream(const struct cf_answer *answer, struct cf_buf *to)
{
    cf_sse_frame(to, "message_start",
                 json_pack("{s:s, s:o}", "type", "message_start", "message",
                           message(answer, json_array(), NULL, 1)));
    for (size_t i = 0; i < answer->part_count; i++)
        tell_block(answer, i, to);
    cf_sse_frame(to, "message_delta",
                 json_pack("{s:s, s:{s:s, s:n}, s:{s:I}}", "type", "message_delta", "delta",
                           "stop_reason", stop_reason(answer), "stop_sequence", "usage",
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

static json_t *
error_object(const struct cf_refusal *refusal)
{
    return json_pack("{s:s, s:{s:s, s:s}, s:s+}", "type", "error", "error", "type",
                     error_type(refusal->status), "message", refusal->message, "request_id",
                     "req_", refusal->id);
}

static int
refusal(const struct cf_refusal *refusal, struct cf_buf *to)
{
    return cf_dialect_json(to, error_object(refusal));
}

static int
stream_error(const struct cf_refusal *refusal, uint64_t number, struct cf_buf *to)
{
    cf_sse_frame(to, "error", error_object(refusal));
    return to->failed ? -1 : 0;
}

const struct cf_codec cf_codec_anthropic_messages = {"anthropic_messages", whole, stream,
                                                     refusal, stream_error};
