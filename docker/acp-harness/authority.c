/* The five members of session/new's `_meta` that ask for authority. */
#include "authority.h"

#include "base/str.h"

#include <string.h>

enum { STATE_LIMIT = 1024 * 1024, WINDOW_LIMIT = 100 * 1000 * 1000, FORMAT = 1 };

unsigned
hn_tool_named(const char *name)
{
    static const char *const names[] = { "bash", "read", "write", "edit", "web_search",
                                         "web_fetch" };

    for (size_t i = 0; name != NULL && i < CF_COUNT(names); i++)
        if (strcmp(names[i], name) == 0)
            return 1u << i;
    return 0;
}

static int
refuse(struct cf_error *err, const char *member, const char *why)
{
    return cf_error_set(err, CF_ERROR_INCOMPATIBLE, 0, "%s: %s", member, why);
}

/* True when `object` has no member but the `count` names. */
static bool
is_closed(json_t *object, const char *const *names, size_t count)
{
    size_t known = 0;

    for (size_t i = 0; i < count; i++)
        known += json_object_get(object, names[i]) != NULL;
    return known == json_object_size(object);
}

static bool
is_count(json_t *value, json_int_t most)
{
    return json_is_integer(value) && json_integer_value(value) >= 1 &&
           json_integer_value(value) <= most;
}

static int
read_tools(struct hn_authority *authority, json_t *value, const struct hn_declared *declared,
           struct cf_error *err)
{
    static const char member[] = "checkfu.builtin_tools";
    json_t *item;
    size_t i;

    if (!declared->tool_scoping)
        return refuse(err, member, "this agent did not declare builtin_tool_scoping");
    if (!json_is_array(value))
        return refuse(err, member, "is not an array");
    json_array_foreach (value, i, item) {
        unsigned tool = hn_tool_named(json_string_value(item));

        if (tool == 0)
            return refuse(err, member, "names a tool that the contract does not list");
        if (authority->tools & tool)
            return refuse(err, member, "names a tool twice");
        authority->tools |= tool;
    }
    authority->has_ceiling = true;
    return 0;
}

static int
read_runtime_config(struct hn_authority *authority, json_t *value, struct cf_error *err)
{
    static const char member[] = "checkfu.runtime_config";
    static const char *const outer[] = { "context_window_tokens", "compaction" };
    static const char *const inner[] = { "strategy", "trigger_tokens" };
    json_t *window = json_object_get(value, outer[0]), *compaction = json_object_get(value, outer[1]);
    const char *strategy = json_string_value(json_object_get(compaction, "strategy"));
    json_t *trigger = json_object_get(compaction, "trigger_tokens");

    if (!json_is_object(value) || !is_closed(value, outer, 2) || !is_count(window, WINDOW_LIMIT))
        return refuse(err, member, "is not {context_window_tokens, compaction?}");
    authority->context_window = json_integer_value(window);
    if (compaction == NULL)
        return 0;
    if (!json_is_object(compaction) || !is_closed(compaction, inner, 2) || strategy == NULL ||
        strcmp(strategy, "native") != 0 || !is_count(trigger, WINDOW_LIMIT))
        return refuse(err, member, "has a compaction that is not {strategy:\"native\", trigger_tokens}");
    authority->compaction_trigger = json_integer_value(trigger);
    return 0;
}

static int
read_schema(struct hn_authority *authority, json_t *value, const struct hn_declared *declared,
            struct cf_error *err)
{
    static const char member[] = "checkfu.output_schema";

    if (declared->structured == HN_STRUCTURED_NONE)
        return refuse(err, member, "this agent did not declare structured_output");
    if (!json_is_object(value) && !json_is_boolean(value))
        return refuse(err, member, "is neither an object nor a boolean");
    authority->output_schema = json_incref(value);
    return 0;
}

static bool
is_conversation(json_t *messages)
{
    json_t *message;
    size_t i;

    json_array_foreach (messages, i, message)
        if (!json_is_string(json_object_get(message, "role")) ||
            !json_is_string(json_object_get(message, "text")))
            return false;
    return json_is_array(messages);
}

static int
import_state(struct hn_authority *authority, json_t *state, struct cf_error *err)
{
    json_t *inner = json_loadb(json_string_value(state), json_string_length(state), JSON_ALLOW_NUL,
                               NULL);
    json_t *messages = json_object_get(inner, "messages");
    bool is_ours = json_integer_value(json_object_get(inner, "format")) == FORMAT &&
                   is_conversation(messages);

    if (is_ours)
        authority->resumed = json_incref(messages);
    json_decref(inner);
    return is_ours ? 0 : refuse(err, "checkfu.resume", "its state was not written by this agent");
}

static int
read_resume(struct hn_authority *authority, json_t *value, const char *continuity,
            const struct hn_declared *declared, struct cf_error *err)
{
    static const char member[] = "checkfu.resume";
    static const char *const names[] = { "version", "state" };
    json_t *state = json_object_get(value, "state");

    if (!declared->native_checkpoint)
        return refuse(err, member, "this agent did not declare native_checkpoint");
    if (!json_is_object(value) || !is_closed(value, names, 2) || !json_is_string(state) ||
        !json_is_integer(json_object_get(value, "version")))
        return refuse(err, member, "is not {version, state}");
    if (json_integer_value(json_object_get(value, "version")) != 1)
        return refuse(err, member, "has a version other than 1");
    if (json_string_length(state) > STATE_LIMIT)
        return refuse(err, member, "has a state of more than 1 MiB");
    if (continuity == NULL || strcmp(continuity, "same_run_resume") != 0)
        return refuse(err, member, "is legal only with checkfu.continuity same_run_resume");
    return import_state(authority, state, err);
}

static int
read_continuity(json_t *value, json_t *resume, struct cf_error *err)
{
    static const char member[] = "checkfu.continuity";
    const char *word = json_string_value(value);

    if (word == NULL || (strcmp(word, "fresh") != 0 && strcmp(word, "same_run_resume") != 0 &&
                         strcmp(word, "event_log_rebuild") != 0))
        return refuse(err, member, "is not fresh, same_run_resume or event_log_rebuild");
    if (strcmp(word, "same_run_resume") == 0 && resume == NULL)
        return refuse(err, member, "same_run_resume without checkfu.resume: this agent keeps no "
                                   "conversation of its own");
    return 0;
}

int
hn_authority_read(struct hn_authority *authority, json_t *meta, const struct hn_declared *declared,
                  struct cf_error *err)
{
    json_t *tools = json_object_get(meta, "checkfu.builtin_tools");
    json_t *continuity = json_object_get(meta, "checkfu.continuity");
    json_t *config = json_object_get(meta, "checkfu.runtime_config");
    json_t *schema = json_object_get(meta, "checkfu.output_schema");
    json_t *resume = json_object_get(meta, "checkfu.resume");

    if (meta != NULL && !json_is_null(meta) && !json_is_object(meta))
        return refuse(err, "_meta", "is not an object");
    if (continuity != NULL && read_continuity(continuity, resume, err) < 0)
        return -1;
    if (tools != NULL && read_tools(authority, tools, declared, err) < 0)
        return -1;
    if (config != NULL && read_runtime_config(authority, config, err) < 0)
        return -1;
    if (schema != NULL && read_schema(authority, schema, declared, err) < 0)
        return -1;
    if (resume != NULL &&
        read_resume(authority, resume, json_string_value(continuity), declared, err) < 0)
        return -1;
    return 0;
}

void
hn_authority_release(struct hn_authority *authority)
{
    json_decref(authority->output_schema);
    json_decref(authority->resumed);
    memset(authority, 0, sizeof *authority);
}

char *
hn_checkpoint_text(json_t *messages)
{
    json_t *state = json_pack("{s:i, s:O}", "format", FORMAT, "messages", messages);
    char *text = json_dumps(state, JSON_COMPACT);

    json_decref(state);
    return text;
}
