/*
 * observe/tools.c: the table of tool calls: merging what an agent says about a call, and
 * deciding when its use and its result are told.
 *
 * Merge rule: a member that is present, not null and of its type replaces what was known;
 * arrays are replaced, not appended; a settled call stays settled. A use is told once: when
 * the input is known, the call leaves pending, a permission is asked, or the call or the turn
 * ends. A result is told once, at completed or failed. A result for a call that nothing
 * announced is told without a use, so that the grammar can name it.
 */
#include "observe/normalizer.h"

#include "base/str.h"
#include "base/utf8.h"
#include "json/json.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const kinds[] = {"read",    "edit",  "delete", "move",        "search",
                                    "execute", "think", "fetch",  "switch_mode", "other"};
static const char *const statuses[] = {"pending", "in_progress", "completed", "failed"};

/* ---- the table ---- */

static void
drop_bodies(struct tool *tool)
{
    json_t **bodies[] = {&tool->raw_input, &tool->raw_output, &tool->content,
                         &tool->locations};

    for (size_t i = 0; i < CF_COUNT(bodies); i++) {
        json_decref(*bodies[i]);
        *bodies[i] = NULL;
    }
    cf_buf_release(&tool->terminal);
}

static void
tool_free(struct tool *tool)
{
    if (tool == NULL)
        return;
    drop_bodies(tool);
    free(tool->use_id);
    free(tool->title);
    free(tool->name);
    free(tool);
}

void
tools_release(struct cf_normalizer *n)
{
    for (size_t i = 0; i < n->tool_count; i++)
        tool_free(n->tools[i]);
    free(n->tools);
}

static struct tool *
find(const struct cf_normalizer *n, const char *canonical)
{
    json_t *at = json_object_get(n->tool_index, canonical);

    return at == NULL ? NULL : n->tools[json_integer_value(at)];
}

/* An id that comes again gets a minted suffix: tool-use ids are unique in the run. */
static char *
unique_use_id(struct cf_normalizer *n, const char *canonical)
{
    size_t len = strlen(canonical);
    char suffix[24] = "";

    for (unsigned again = 2;; again++) {
        size_t keep = cf_utf16_prefix(canonical, len, NAME_UNITS_MAX - strlen(suffix));
        char *id = malloc(keep + sizeof suffix);
        if (id == NULL)
            return NULL;
        memcpy(id, canonical, keep);
        strcpy(id + keep, suffix);
        if (json_object_get(n->use_ids, id) == NULL) {
            (void)json_object_set_new(n->use_ids, id, json_true());
            return id;
        }
        free(id);
        snprintf(suffix, sizeof suffix, "#%u", again);
    }
}

static int
reserve_tool(struct cf_normalizer *n)
{
    if (n->tool_count < n->tool_cap)
        return 0;
    size_t cap = n->tool_cap == 0 ? 16 : n->tool_cap * 2;
    struct tool **grown = realloc(n->tools, cap * sizeof(struct tool *));
    if (grown == NULL)
        return -1;
    n->tools = grown;
    n->tool_cap = cap;
    return 0;
}

static struct tool *
add(struct cf_normalizer *n, const char *canonical, uint64_t frame)
{
    struct tool *tool;

    if (n->tool_count >= TOOLS_MAX) {
        obs_finding(n, "table_full", frame,
                    "more than %u tool calls: the call is not reported", TOOLS_MAX);
        return NULL;
    }
    tool = reserve_tool(n) < 0 ? NULL : calloc(1, sizeof *tool);
    if (tool == NULL || (tool->use_id = unique_use_id(n, canonical)) == NULL ||
        json_object_set_new(n->tool_index, canonical,
                            json_integer((json_int_t)n->tool_count)) < 0) {
        tool_free(tool);
        n->is_lost = true;
        return NULL;
    }
    tool->kind = "other";
    tool->turn = n->turn;
    tool->frame = frame;
    n->tools[n->tool_count++] = tool;
    return tool;
}

/* ---- merging ---- */

static void
replace_text(struct cf_normalizer *n, char **slot, const json_t *object, const char *member)
{
    const char *text = cf_json_str(object, member);

    if (text != NULL && cf_str_copy(slot, text, NULL) < 0)
        n->is_lost = true;
}

static void
replace_value(json_t **slot, json_t *value)
{
    if (value == NULL || json_is_null(value))
        return;
    json_decref(*slot);
    *slot = json_incref(value);
}

static void
merge_status(struct tool *tool, const char *word)
{
    for (size_t i = 0; word != NULL && i < CF_COUNT(statuses); i++)
        if (strcmp(statuses[i], word) == 0 &&
            (i >= TOOL_COMPLETED || tool->status < TOOL_COMPLETED) && !tool->is_settled)
            tool->status = (enum tool_status)i;
}

static void
merge_kind(struct tool *tool, const char *word)
{
    if (word == NULL)
        return;
    tool->kind = "other";
    for (size_t i = 0; i < CF_COUNT(kinds); i++)
        if (strcmp(kinds[i], word) == 0)
            tool->kind = kinds[i];
}

/* Agents that run commands of their own name a terminal that nobody created, and send what it
 * prints piece by piece in _meta; codex and pi do. */
static void
add_terminal(struct cf_normalizer *n, struct tool *tool, json_t *meta)
{
    static const char *const places[] = {"terminal_output", "terminal_output_delta"};

    for (size_t i = 0; i < CF_COUNT(places); i++) {
        json_t *data = json_object_get(cf_json_obj(meta, places[i]), "data");
        size_t room = RESULT_TEXT_MAX - tool->terminal.len;
        const char *text = json_string_value(data);

        if (text == NULL)
            continue;
        if (cf_buf_add(&tool->terminal, text,
                       cf_utf8_cut(text, json_string_length(data), room)) < 0)
            n->is_lost = true;
    }
}

static void
merge(struct cf_normalizer *n, struct tool *tool, json_t *call, const char *subagent)
{
    json_t *meta = cf_json_obj(call, "_meta");
    const char *vendor = tool_vendor_name(meta);

    replace_text(n, &tool->title, call, "title");
    if (cf_json_str(call, "name") != NULL)
        replace_text(n, &tool->name, call, "name");
    else if (tool->name == NULL && vendor != NULL &&
             cf_str_copy(&tool->name, vendor, NULL) < 0)
        n->is_lost = true;
    merge_kind(tool, cf_json_str(call, "kind"));
    merge_status(tool, cf_json_str(call, "status"));
    if (tool->subagent[0] == '\0' && !tool->is_used)
        memcpy(tool->subagent, subagent, strlen(subagent) + 1);
    if (tool->is_settled)
        return; /* nothing of it will be told any more */
    if (!tool->is_used)
        replace_value(&tool->raw_input, json_object_get(call, "rawInput"));
    replace_value(&tool->raw_output, json_object_get(call, "rawOutput"));
    replace_value(&tool->content, cf_json_arr(call, "content"));
    add_terminal(n, tool, meta);
    replace_value(&tool->locations, cf_json_arr(call, "locations"));
}

/* ---- telling ---- */

static bool
has_input(const struct tool *tool)
{
    const json_t *input = tool->raw_input;

    if (json_is_object(input))
        return json_object_size(input) > 0;
    if (json_is_array(input))
        return json_array_size(input) > 0;
    return input != NULL && !(json_is_string(input) && json_string_length(input) == 0);
}

static void
use_now(struct cf_normalizer *n, struct tool *tool, uint64_t frame)
{
    if (tool->is_used || !tool->is_announced)
        return;
    tool_emit_use(n, tool, frame);
    json_decref(tool->raw_input);
    tool->raw_input = NULL;
}

static void
tell(struct cf_normalizer *n, struct tool *tool, const char *subagent, uint64_t frame)
{
    if (has_input(tool) || tool->status != TOOL_PENDING)
        use_now(n, tool, frame);
    if (tool->status >= TOOL_COMPLETED && !tool->is_settled) {
        tool_emit_result(n, tool, subagent, frame);
        drop_bodies(tool);
    }
}

/* The call that an update speaks of; a new one when it starts here. NULL: nothing to do. */
static struct tool *
look_up(struct cf_normalizer *n, const char *canonical, bool is_start, uint64_t frame)
{
    struct tool *tool = find(n, canonical);

    if (tool != NULL && tool->turn == n->turn) {
        if (is_start)
            obs_finding(n, "duplicate_tool_call", frame,
                        "tool_call for the known id \"%.80s\" is read as an update",
                        canonical);
        return tool;
    }
    if (tool != NULL && !is_start) {
        obs_finding(n, "late_update", frame,
                    "an update of tool call \"%.80s\" of an earlier turn was dropped",
                    canonical);
        return NULL;
    }
    return add(n, canonical, frame);
}

static char *
id_of(struct cf_normalizer *n, json_t *call, uint64_t frame)
{
    json_t *id = json_object_get(call, "toolCallId");

    if (!json_is_string(id)) {
        obs_finding(n, "undecodable_update", frame,
                    "a tool call without a toolCallId was ignored");
        return NULL;
    }
    char *canonical = tool_id_canonical(json_string_value(id), json_string_length(id));
    if (canonical == NULL)
        n->is_lost = true;
    return canonical;
}

void
tool_update(struct cf_normalizer *n, json_t *call, bool is_start, const char *subagent,
            uint64_t frame)
{
    cf_auto_free char *canonical = id_of(n, call, frame);
    struct tool *tool = canonical == NULL ? NULL : look_up(n, canonical, is_start, frame);

    if (tool == NULL)
        return;
    merge(n, tool, call, subagent);
    if (is_start || tool->status < TOOL_COMPLETED)
        tool->is_announced = true;
    tell(n, tool, subagent, frame);
}

void
tool_permission(struct cf_normalizer *n, json_t *call, const char *subagent, uint64_t frame)
{
    cf_auto_free char *canonical = id_of(n, call, frame);
    struct tool *known = canonical == NULL ? NULL : find(n, canonical);
    bool is_start = known == NULL || known->turn != n->turn;
    struct tool *tool = canonical == NULL ? NULL : look_up(n, canonical, is_start, frame);

    if (tool == NULL)
        return;
    merge(n, tool, call, subagent);
    tool->is_announced = true;
    use_now(n, tool, frame);
    tell(n, tool, subagent, frame);
}

/* Calls that were announced and never got far enough to be told are told now. */
void
tools_tell_held(struct cf_normalizer *n, uint64_t frame)
{
    for (size_t i = n->first_of_turn; i < n->tool_count; i++)
        use_now(n, n->tools[i], frame);
}

void
tools_end_turn(struct cf_normalizer *n, uint64_t frame)
{
    for (size_t i = n->first_of_turn; i < n->tool_count; i++) {
        struct tool *tool = n->tools[i];
        if (!tool->is_settled)
            obs_finding(n, "tool_without_result", frame,
                        "tool call \"%.80s\" had no result when the turn ended", tool->use_id);
        drop_bodies(tool);
    }
}

const char *
cf_normalizer_tool_use_id(struct cf_normalizer *n, const char *tool_call_id)
{
    cf_auto_free char *canonical = tool_id_canonical(tool_call_id, strlen(tool_call_id));
    struct tool *tool = canonical == NULL ? NULL : find(n, canonical);

    return tool == NULL ? NULL : tool->use_id;
}
