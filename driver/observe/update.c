/*
 * observe/update.c: one session/update, by its kind.
 */
#include "observe/normalizer.h"

#include "base/str.h"
#include "json/json.h"

#include <string.h>

static void
on_chunk(struct cf_normalizer *n, enum text_kind kind, json_t *update, const char *subagent,
         uint64_t frame)
{
    json_t *content = cf_json_obj(update, "content");
    json_t *text = json_object_get(content, "text");
    const char *type = cf_json_str(content, "type");

    if (type == NULL || (strcmp(type, "text") == 0 && !json_is_string(text)))
        obs_finding(n, "undecodable_update", frame,
                    "a chunk without a content block was ignored");
    else if (strcmp(type, "text") != 0)
        obs_finding(n, "non_text_block", frame,
                    "a chunk of type \"%.40s\" has no place in a message and was left out",
                    type);
    else
        text_chunk(n, kind, cf_json_str(update, "messageId"), subagent,
                   json_string_value(text), json_string_length(text), frame);
}

/* The cost is cumulative over the session; a turn's cost is the difference to its beginning.
 */
static void
on_usage(struct cf_normalizer *n, json_t *update, uint64_t frame)
{
    json_t *cost = cf_json_obj(update, "cost");
    json_t *amount = json_object_get(cost, "amount");

    if (cost == NULL)
        return;
    if (!json_is_number(amount) || !cf_str_same(cf_json_str(cost, "currency"), "USD") ||
        json_number_value(amount) < 0) {
        obs_finding(n, "cost_ignored", frame,
                    "a cost that is not an amount of USD was ignored");
        return;
    }
    n->has_cost = true;
    n->cost_now = json_number_value(amount);
}

static void
by_kind(struct cf_normalizer *n, const char *kind, json_t *update, const char *subagent,
        uint64_t frame)
{
    if (strcmp(kind, "agent_message_chunk") == 0)
        on_chunk(n, TEXT_MESSAGE, update, subagent, frame);
    else if (strcmp(kind, "agent_thought_chunk") == 0)
        on_chunk(n, TEXT_THINKING, update, subagent, frame);
    else if (strcmp(kind, "tool_call") == 0)
        tool_update(n, update, true, subagent, frame);
    else if (strcmp(kind, "tool_call_update") == 0)
        tool_update(n, update, false, subagent, frame);
    else if (strcmp(kind, "plan") == 0 || strcmp(kind, "user_message_chunk") == 0)
        text_boundary(n); /* another kind of update: a message without id ends here */
}

static bool
is_output(const char *kind, const struct update_meta *meta)
{
    static const char *const kinds[] = {"agent_message_chunk", "agent_thought_chunk",
                                        "tool_call", "tool_call_update"};

    for (size_t i = 0; i < CF_COUNT(kinds); i++)
        if (strcmp(kinds[i], kind) == 0)
            return true;
    return meta->started != NULL || meta->completed != NULL;
}

void
cf_normalizer_update(struct cf_normalizer *n, json_t *params, json_t *update, uint64_t frame)
{
    const char *kind = cf_json_str(update, "sessionUpdate");
    struct update_meta meta;

    if (kind == NULL)
        return;
    meta_read(n, params, update, &meta, frame);
    if (strcmp(kind, "usage_update") == 0)
        on_usage(n, update, frame);
    if (n->is_closed) {
        if (is_output(kind, &meta))
            obs_finding(n, "late_update", frame, "%.60s after the end of the turn was dropped",
                        kind);
        return;
    }
    if (meta.started != NULL)
        meta_started(n, meta.started, frame);
    by_kind(n, kind, update, meta.subagent, frame);
    if (meta.completed != NULL)
        meta_completed(n, meta.completed, frame);
}

void
cf_normalizer_permission(struct cf_normalizer *n, json_t *tool_call, uint64_t frame)
{
    struct update_meta meta;

    if (n->is_closed) {
        obs_finding(n, "late_update", frame,
                    "a permission asked after the end of the turn is not reported");
        return;
    }
    meta_read(n, NULL, tool_call, &meta, frame);
    tool_permission(n, tool_call, meta.subagent, frame);
}
