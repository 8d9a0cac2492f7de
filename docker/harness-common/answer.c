/* The answers of three dialects, whole or one streamed event at a time. */
#include "dialect.h"

#include "base/str.h"
#include "base/utf8.h"

#include <stdio.h>
#include <string.h>

enum { TEXT_LIMIT = 32 * 1024 * 1024, CALL_LIMIT = 128 };

static const char *
text_of(json_t *object, const char *name)
{
    return json_string_value(json_object_get(object, name));
}

static bool
is(const char *have, const char *want)
{
    return have != NULL && strcmp(have, want) == 0;
}

/* The bytes of a string, zero bytes in it included; nothing for any other value. */
static void
add_text(struct cf_buf *to, json_t *value)
{
    to->limit_bytes = TEXT_LIMIT;
    if (json_is_string(value))
        cf_buf_add(to, json_string_value(value), json_string_length(value));
}

static void
take_usage(struct hn_answer *answer, json_t *usage)
{
    static const char *const in[] = { "input_tokens", "prompt_tokens" };
    static const char *const out[] = { "output_tokens", "completion_tokens" };

    for (size_t i = 0; i < CF_COUNT(in); i++) {
        json_t *value = json_object_get(usage, in[i]);
        if (json_is_integer(value))
            answer->input_tokens = json_integer_value(value);
        value = json_object_get(usage, out[i]);
        if (json_is_integer(value))
            answer->output_tokens = json_integer_value(value);
        answer->has_usage |= value != NULL;
    }
}

static void
take_stop(struct hn_answer *answer, const char *reason)
{
    if (reason == NULL)
        return;
    answer->has_ended = true;
    answer->is_cut = is(reason, "max_tokens") || is(reason, "length") ||
                     is(reason, "max_output_tokens");
    answer->is_refusal = is(reason, "refusal") || is(reason, "content_filter");
}

/* The call at `index`, made when it is new. NULL when there are too many. */
static json_t *
call_at(struct hn_answer *answer, json_t *index)
{
    size_t at = json_is_integer(index) ? (size_t)json_integer_value(index) : 0;

    if (answer->partial == NULL)
        answer->partial = json_array();
    if (at >= CALL_LIMIT)
        return NULL;
    while (json_array_size(answer->partial) <= at)
        json_array_append_new(answer->partial, json_object());
    return json_array_get(answer->partial, at);
}

static void
call_grow(json_t *call, const char *arguments)
{
    const char *have = text_of(call, "arguments");
    struct cf_buf all = { .limit_bytes = TEXT_LIMIT };

    if (call == NULL || arguments == NULL)
        return;
    cf_buf_adds(&all, have != NULL ? have : "");
    cf_buf_adds(&all, arguments);
    json_object_set_new(call, "arguments", json_string(all.data));
    cf_buf_release(&all);
}

static void
call_set(json_t *call, const char *id, const char *name)
{
    if (call != NULL && id != NULL)
        json_object_set_new(call, "id", json_string(id));
    if (call != NULL && name != NULL)
        json_object_set_new(call, "name", json_string(name));
}

static void
call_append(struct hn_answer *answer, const char *id, const char *name, const char *arguments)
{
    json_t *at = json_integer((json_int_t)json_array_size(answer->partial));
    json_t *call = call_at(answer, at);

    json_decref(at);
    call_set(call, id, name);
    call_grow(call, arguments);
}

static int
model_error(json_t *error, struct cf_error *err)
{
    const char *message = text_of(error, "message");

    return cf_error_set(err, CF_ERROR_HARNESS, 0, "the model reports: %s",
                        message != NULL ? message : "an error without a message");
}

/* ---- openai_chat ------------------------------------------------------------------------ */

static void
chat_calls(struct hn_answer *answer, json_t *calls)
{
    json_t *item, *function;
    size_t i;

    json_array_foreach (calls, i, item) {
        json_t *index = json_object_get(item, "index"), *at = json_integer((json_int_t)i);
        json_t *call = call_at(answer, index != NULL ? index : at);

        json_decref(at);
        function = json_object_get(item, "function");
        call_set(call, text_of(item, "id"), text_of(function, "name"));
        call_grow(call, text_of(function, "arguments"));
    }
}

/* A whole message and a streamed delta differ in the member that holds them, and no more. */
static void
chat_choice(struct hn_answer *answer, json_t *root, const char *member)
{
    json_t *choice = json_array_get(json_object_get(root, "choices"), 0);
    json_t *part = json_object_get(choice, member);

    add_text(&answer->text, json_object_get(part, "content"));
    add_text(&answer->thinking, json_object_get(part, "reasoning_content"));
    chat_calls(answer, json_object_get(part, "tool_calls"));
    take_stop(answer, text_of(choice, "finish_reason"));
    take_usage(answer, json_object_get(root, "usage"));
}

/* ---- anthropic_messages ----------------------------------------------------------------- */

static void
anthropic_block(struct hn_answer *answer, json_t *block, json_t *index)
{
    const char *type = text_of(block, "type");

    add_text(&answer->text, json_object_get(block, "text"));
    add_text(&answer->thinking, json_object_get(block, "thinking"));
    if (is(type, "tool_use")) {
        json_t *input = json_object_get(block, "input");
        json_t *call = call_at(answer, index);

        call_set(call, text_of(block, "id"), text_of(block, "name"));
        if (json_object_size(input) > 0) { /* a stream opens with {} and sends fragments */
            cf_auto_free char *text = json_dumps(input, JSON_COMPACT);
            call_grow(call, text);
        }
    }
}

static void
anthropic_whole(struct hn_answer *answer, json_t *root)
{
    json_t *block;
    size_t i;

    json_array_foreach (json_object_get(root, "content"), i, block) {
        json_t *at = json_integer((json_int_t)i);
        anthropic_block(answer, block, at);
        json_decref(at);
    }
    take_usage(answer, json_object_get(root, "usage"));
    take_stop(answer, text_of(root, "stop_reason"));
}

static void
anthropic_event(struct hn_answer *answer, json_t *event)
{
    const char *type = text_of(event, "type");
    json_t *delta = json_object_get(event, "delta");
    json_t *index = json_object_get(event, "index");

    if (is(type, "message_start"))
        take_usage(answer, json_object_get(json_object_get(event, "message"), "usage"));
    else if (is(type, "content_block_start"))
        anthropic_block(answer, json_object_get(event, "content_block"), index);
    else if (is(type, "content_block_delta") && json_object_get(delta, "partial_json") != NULL)
        call_grow(call_at(answer, index), text_of(delta, "partial_json"));
    else if (is(type, "content_block_delta"))
        anthropic_block(answer, delta, index);
    else if (is(type, "message_delta")) {
        take_usage(answer, json_object_get(event, "usage"));
        take_stop(answer, text_of(delta, "stop_reason"));
        answer->has_ended = false; /* message_stop is what closes this dialect's stream */
    } else if (is(type, "message_stop"))
        answer->has_ended = true;
}

/* ---- openai_responses ------------------------------------------------------------------- */

static void
responses_item(struct hn_answer *answer, json_t *item, bool with_text)
{
    json_t *part;
    size_t i;

    if (is(text_of(item, "type"), "function_call"))
        call_append(answer, text_of(item, "call_id"), text_of(item, "name"),
                    text_of(item, "arguments"));
    if (with_text)
        json_array_foreach (json_object_get(item, "content"), i, part)
            add_text(&answer->text, json_object_get(part, "text"));
}

static int
responses_closing(struct hn_answer *answer, json_t *response, struct cf_error *err)
{
    const char *status = text_of(response, "status");
    json_t *details = json_object_get(response, "incomplete_details");

    if (is(status, "failed"))
        return model_error(json_object_get(response, "error"), err);
    take_usage(answer, json_object_get(response, "usage"));
    take_stop(answer, is(status, "incomplete") ? text_of(details, "reason") : status);
    return 0;
}

static int
responses_whole(struct hn_answer *answer, json_t *root, struct cf_error *err)
{
    json_t *item;
    size_t i;

    json_array_foreach (json_object_get(root, "output"), i, item)
        responses_item(answer, item, true);
    return responses_closing(answer, root, err);
}

static int
responses_event(struct hn_answer *answer, json_t *event, struct cf_error *err)
{
    const char *type = text_of(event, "type");

    if (is(type, "response.output_text.delta"))
        add_text(&answer->text, json_object_get(event, "delta"));
    else if (is(type, "response.reasoning_summary_text.delta"))
        add_text(&answer->thinking, json_object_get(event, "delta"));
    else if (is(type, "response.output_item.done")) /* the text came in deltas already */
        responses_item(answer, json_object_get(event, "item"), false);
    else if (is(type, "response.completed") || is(type, "response.incomplete") ||
             is(type, "response.failed"))
        return responses_closing(answer, json_object_get(event, "response"), err);
    else if (is(type, "error"))
        return model_error(event, err);
    return 0;
}

/* ---- all -------------------------------------------------------------------------------- */

static json_t *
parse(const char *bytes, size_t len, const char *what, struct cf_error *err)
{
    json_error_t why;
    json_t *root = json_loadb(bytes, len, JSON_ALLOW_NUL, &why);

    if (root == NULL)
        (void)cf_error_set(err, CF_ERROR_WIRE, 0, "the model's %s is not JSON: %s", what, why.text);
    return root;
}

static int
check_size(const struct hn_answer *answer, struct cf_error *err)
{
    if (answer->text.failed || answer->thinking.failed)
        return cf_error_set(err, CF_ERROR_WIRE, 0, "the model's answer is larger than 32 MiB");
    return 0;
}

int
hn_answer_whole(struct hn_answer *answer, enum hn_dialect dialect, const char *bytes, size_t len,
                struct cf_error *err)
{
    json_t *root = parse(bytes, len, "answer", err);
    int status = 0;

    if (root == NULL)
        return -1;
    if (json_is_object(json_object_get(root, "error")))
        status = model_error(json_object_get(root, "error"), err);
    else if (dialect == HN_OPENAI_CHAT)
        chat_choice(answer, root, "message");
    else if (dialect == HN_ANTHROPIC_MESSAGES)
        anthropic_whole(answer, root);
    else
        status = responses_whole(answer, root, err);
    json_decref(root);
    return status < 0 ? status : check_size(answer, err);
}

int
hn_answer_event(struct hn_answer *answer, enum hn_dialect dialect, const char *data, size_t len,
                struct cf_error *err)
{
    json_t *event;
    int status = 0;

    if (strcmp(data, "[DONE]") == 0) {
        answer->has_ended = true;
        return 0;
    }
    event = parse(data, len, "stream", err);
    if (event == NULL)
        return -1;
    if (json_is_object(json_object_get(event, "error")))
        status = model_error(json_object_get(event, "error"), err);
    else if (dialect == HN_OPENAI_CHAT)
        chat_choice(answer, event, "delta");
    else if (dialect == HN_ANTHROPIC_MESSAGES)
        anthropic_event(answer, event);
    else
        status = responses_event(answer, event, err);
    json_decref(event);
    return status < 0 ? status : check_size(answer, err);
}

static int
finish_call(struct hn_answer *answer, json_t *call, struct cf_error *err)
{
    const char *text = text_of(call, "arguments");
    json_error_t why;
    json_t *input;

    if (text_of(call, "name") == NULL)
        return 0; /* another block's index in a dialect that numbers all blocks alike */
    input = text == NULL || text[0] == '\0' ? json_object() : json_loads(text, 0, &why);
    if (input == NULL)
        return cf_error_set(err, CF_ERROR_WIRE, 0, "the model's arguments for tool %s: %s",
                            text_of(call, "name"), why.text);
    if (answer->calls == NULL)
        answer->calls = json_array();
    json_array_append_new(answer->calls,
                          json_pack("{s:s, s:s, s:o}", "id",
                                    text_of(call, "id") != NULL ? text_of(call, "id") : "call",
                                    "name", text_of(call, "name"), "input", input));
    return 0;
}

int
hn_answer_end(struct hn_answer *answer, struct cf_error *err)
{
    json_t *call;
    size_t i;

    if (!answer->has_ended)
        return cf_error_set(err, CF_ERROR_WIRE, 0,
                            "the model's answer ended without saying why it stopped");
    json_array_foreach (answer->partial, i, call)
        if (finish_call(answer, call, err) < 0)
            return -1;
    return 0;
}

void
hn_answer_release(struct hn_answer *answer)
{
    cf_buf_release(&answer->text);
    cf_buf_release(&answer->thinking);
    json_decref(answer->calls);
    json_decref(answer->partial);
    answer->calls = answer->partial = NULL;
}

void
hn_refusal_text(const struct cf_buf *body, char *out, size_t size)
{
    json_t *root = body->len > 0 ? json_loadb(body->data, body->len, 0, NULL) : NULL;
    json_t *error = json_object_get(root, "error");
    const char *message = json_is_string(error) ? json_string_value(error)
                                                : text_of(error, "message");

    if (message == NULL)
        message = text_of(root, "detail");
    if (message == NULL)
        message = body->len > 0 ? body->data : "no explanation";
    snprintf(out, size, "%s", message);
    cf_utf8_make_line(out);
    json_decref(root);
}
