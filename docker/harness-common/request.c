/* The request body of each dialect, out of one plain conversation. */
#include "dialect.h"

#include "base/str.h"

#include <string.h>

static const struct {
    const char *name, *path;
} dialects[] = {
    [HN_OPENAI_CHAT] = { "openai_chat", "/v1/chat/completions" },
    [HN_ANTHROPIC_MESSAGES] = { "anthropic_messages", "/v1/messages" },
    [HN_OPENAI_RESPONSES] = { "openai_responses", "/v1/responses" },
};

int
hn_dialect_named(const char *name)
{
    for (size_t i = 0; i < CF_COUNT(dialects); i++)
        if (strcmp(dialects[i].name, name) == 0)
            return (int)i;
    return -1;
}

const char *
hn_dialect_path(enum hn_dialect dialect)
{
    return dialects[dialect].path;
}

static json_t *
member(json_t *object, const char *name)
{
    return json_object_get(object, name);
}

static bool
role_is(json_t *message, const char *role)
{
    const char *have = json_string_value(member(message, "role"));

    return have != NULL && strcmp(have, role) == 0;
}

/* A tool's input, which two dialects carry as a string of JSON. */
static json_t *
input_text(json_t *call)
{
    cf_auto_free char *text = json_dumps(member(call, "input"), JSON_COMPACT);

    return json_string(text != NULL ? text : "{}");
}

/* ---- openai_chat ------------------------------------------------------------------------ */

static json_t *
chat_calls(json_t *calls)
{
    json_t *list = json_array(), *call;
    size_t i;

    json_array_foreach (calls, i, call)
        json_array_append_new(list, json_pack("{s:O, s:s, s:{s:O, s:o}}", "id", member(call, "id"),
                                              "type", "function", "function", "name",
                                              member(call, "name"), "arguments",
                                              input_text(call)));
    return list;
}

static json_t *
chat_message(json_t *message)
{
    json_t *calls = member(message, "calls");

    if (role_is(message, "tool"))
        return json_pack("{s:s, s:O, s:O}", "role", "tool", "tool_call_id", member(message, "call"),
                         "content", member(message, "text"));
    if (json_array_size(calls) > 0)
        return json_pack("{s:s, s:O, s:o}", "role", "assistant", "content", member(message, "text"),
                         "tool_calls", chat_calls(calls));
    return json_pack("{s:O, s:O}", "role", member(message, "role"), "content",
                     member(message, "text"));
}

static json_t *
chat_tools(json_t *tools)
{
    json_t *list = json_array(), *tool;
    size_t i;

    json_array_foreach (tools, i, tool)
        json_array_append_new(list, json_pack("{s:s, s:O}", "type", "function", "function", tool));
    return list;
}

static json_t *
build_chat(const struct hn_ask *ask)
{
    json_t *list = json_array(), *message, *body;
    size_t i;

    if (ask->system != NULL)
        json_array_append_new(list,
                              json_pack("{s:s, s:s}", "role", "system", "content", ask->system));
    json_array_foreach (ask->messages, i, message)
        json_array_append_new(list, chat_message(message));
    body = json_pack("{s:s, s:o, s:b}", "model", ask->model, "messages", list, "stream",
                     ask->stream);
    if (json_array_size(ask->tools) > 0)
        json_object_set_new(body, "tools", chat_tools(ask->tools));
    if (ask->schema != NULL)
        json_object_set_new(body, "response_format",
                            json_pack("{s:s, s:{s:s, s:b, s:O}}", "type", "json_schema",
                                      "json_schema", "name", "answer", "strict", 1, "schema",
                                      ask->schema));
    if (ask->stream)
        json_object_set_new(body, "stream_options", json_pack("{s:b}", "include_usage", 1));
    return body;
}

/* ---- anthropic_messages ----------------------------------------------------------------- */

static json_t *
anthropic_assistant(json_t *message)
{
    json_t *blocks = json_array(), *call;
    size_t i;

    if (json_string_length(member(message, "text")) > 0)
        json_array_append_new(blocks,
                              json_pack("{s:s, s:O}", "type", "text", "text", member(message, "text")));
    json_array_foreach (member(message, "calls"), i, call)
        json_array_append_new(blocks, json_pack("{s:s, s:O, s:O, s:O}", "type", "tool_use", "id",
                                                member(call, "id"), "name", member(call, "name"),
                                                "input", member(call, "input")));
    return json_pack("{s:s, s:o}", "role", "assistant", "content", blocks);
}

/* Results of one round of calls must share one user message. */
static void
anthropic_result(json_t *list, json_t *message)
{
    json_t *last = json_array_get(list, json_array_size(list) - 1);
    json_t *blocks = member(last, "content");

    if (!role_is(last, "user") || !json_is_array(blocks)) {
        last = json_pack("{s:s, s:[]}", "role", "user", "content");
        json_array_append_new(list, last);
        blocks = member(last, "content");
    }
    json_array_append_new(blocks, json_pack("{s:s, s:O, s:O, s:b}", "type", "tool_result",
                                            "tool_use_id", member(message, "call"), "content",
                                            member(message, "text"), "is_error",
                                            json_is_true(member(message, "failed"))));
}

/* This dialect has no member for an answer's schema, so the schema is put into words. */
static json_t *
anthropic_system(const struct hn_ask *ask)
{
    struct cf_buf text = { 0 };
    json_t *made;

    cf_buf_adds(&text, ask->system != NULL ? ask->system : "");
    if (ask->schema != NULL) {
        cf_auto_free char *schema = json_dumps(ask->schema, JSON_COMPACT | JSON_ENCODE_ANY);
        cf_buf_addf(&text, "%sAnswer with one JSON value and nothing else. Its JSON Schema: %s",
                    text.len > 0 ? "\n" : "", schema);
    }
    made = text.len > 0 ? json_stringn(text.data, text.len) : NULL;
    cf_buf_release(&text);
    return made;
}

static json_t *
build_anthropic(const struct hn_ask *ask)
{
    json_t *list = json_array(), *message, *tool, *body, *system = anthropic_system(ask);
    size_t i;

    json_array_foreach (ask->messages, i, message) {
        if (role_is(message, "tool"))
            anthropic_result(list, message);
        else if (role_is(message, "assistant"))
            json_array_append_new(list, anthropic_assistant(message));
        else
            json_array_append_new(list, json_pack("{s:s, s:O}", "role", "user", "content",
                                                  member(message, "text")));
    }
    body = json_pack("{s:s, s:i, s:o, s:b}", "model", ask->model, "max_tokens", 4096, "messages",
                     list, "stream", ask->stream);
    if (system != NULL)
        json_object_set_new(body, "system", system);
    if (json_array_size(ask->tools) > 0) {
        json_object_set_new(body, "tools", json_array());
        json_array_foreach (ask->tools, i, tool)
            json_array_append_new(member(body, "tools"),
                                  json_pack("{s:O, s:O, s:O}", "name", member(tool, "name"),
                                            "description", member(tool, "description"),
                                            "input_schema", member(tool, "parameters")));
    }
    return body;
}

/* ---- openai_responses ------------------------------------------------------------------- */

static void
responses_message(json_t *input, json_t *message)
{
    bool by_assistant = role_is(message, "assistant");
    json_t *call;
    size_t i;

    if (role_is(message, "tool")) {
        json_array_append_new(input, json_pack("{s:s, s:O, s:O}", "type", "function_call_output",
                                               "call_id", member(message, "call"), "output",
                                               member(message, "text")));
        return;
    }
    if (json_string_length(member(message, "text")) > 0)
        json_array_append_new(
            input, json_pack("{s:s, s:O, s:[{s:s, s:O}]}", "type", "message", "role",
                             member(message, "role"), "content", "type",
                             by_assistant ? "output_text" : "input_text", "text",
                             member(message, "text")));
    json_array_foreach (member(message, "calls"), i, call)
        json_array_append_new(input, json_pack("{s:s, s:O, s:O, s:o}", "type", "function_call",
                                               "call_id", member(call, "id"), "name",
                                               member(call, "name"), "arguments",
                                               input_text(call)));
}

static json_t *
build_responses(const struct hn_ask *ask)
{
    json_t *input = json_array(), *message, *tool, *body;
    size_t i;

    json_array_foreach (ask->messages, i, message)
        responses_message(input, message);
    body = json_pack("{s:s, s:o, s:b, s:b}", "model", ask->model, "input", input, "stream",
                     ask->stream, "store", 0);
    if (ask->system != NULL)
        json_object_set_new(body, "instructions", json_string(ask->system));
    if (ask->schema != NULL)
        json_object_set_new(body, "text",
                            json_pack("{s:{s:s, s:s, s:b, s:O}}", "format", "type", "json_schema",
                                      "name", "answer", "strict", 1, "schema", ask->schema));
    if (json_array_size(ask->tools) > 0) {
        json_object_set_new(body, "tools", json_array());
        json_array_foreach (ask->tools, i, tool)
            json_array_append_new(member(body, "tools"),
                                  json_pack("{s:s, s:O, s:O, s:O}", "type", "function", "name",
                                            member(tool, "name"), "description",
                                            member(tool, "description"), "parameters",
                                            member(tool, "parameters")));
    }
    return body;
}

json_t *
hn_request_build(enum hn_dialect dialect, const struct hn_ask *ask)
{
    switch (dialect) {
    case HN_ANTHROPIC_MESSAGES:
        return build_anthropic(ask);
    case HN_OPENAI_RESPONSES:
        return build_responses(ask);
    case HN_OPENAI_CHAT:
        break;
    }
    return build_chat(ask);
}
