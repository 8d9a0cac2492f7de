/*
 * observe/toolwire.c: one tool call's observations: its use, its result, the files it changed.
 */
#include "observe/normalizer.h"

#include "base/str.h"
#include "base/utf8.h"
#include "json/json.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ID_UNITS_MAX 256u
#define ID_KEPT_UNITS 200u

/* FNV-1a: names an over-long id by all of its bytes. */
static uint64_t
digest(const char *bytes, size_t len)
{
    uint64_t hash = 0xcbf29ce484222325u;

    for (size_t i = 0; i < len; i++)
        hash = (hash ^ (unsigned char)bytes[i]) * 0x100000001b3u;
    return hash;
}

/*
 * The agent's id as we use it: as it is from 1 to 256 UTF-16 units; an empty one is "empty";
 * an over-long one, or one with U+0000, is its first 200 units, "~" and 16 hex digits of its
 * digest.
 */
char *
tool_id_canonical(const char *id, size_t len)
{
    size_t plain = strlen(id) < len ? strlen(id) : len;

    if (len == 0)
        return strdup("empty");
    if (plain == len && cf_utf16_prefix(id, len, ID_UNITS_MAX) == len)
        return strdup(id);
    size_t keep = cf_utf16_prefix(id, plain, ID_KEPT_UNITS);
    char *made = malloc(keep + 18);
    if (made != NULL) {
        memcpy(made, id, keep);
        snprintf(made + keep, 18, "~%016" PRIx64, digest(id, len));
    }
    return made;
}

void
tool_emit_use(struct cf_normalizer *n, struct tool *tool, uint64_t frame)
{
    struct cf_observation view = {
        .type = CF_OBSERVATION_TOOL_USE, .frame = frame, .tool_use_id = tool->use_id};
    char name[TOOL_NAME_SIZE];

    text_boundary(n);
    tool_name(tool->name, NULL, tool->kind, name);
    obs_begin(n, CF_OBSERVATION_TOOL_USE);
    obs_string(n, "tool_use_id", tool->use_id, strlen(tool->use_id));
    obs_string(n, "tool", name, strlen(name));
    if (tool->raw_input != NULL) {
        obs_tree(n, "args", tool->raw_input);
    } else {
        obs_member(n, "args");
        (void)cf_buf_adds(&n->out, "{}");
    }
    if (tool->title != NULL && *tool->title != '\0')
        obs_bounded(n, "provider_tool_name", tool->title, strlen(tool->title), NAME_UNITS_MAX,
                    frame);
    if (tool->subagent[0] != '\0') {
        obs_string(n, "subagent", tool->subagent, strlen(tool->subagent));
        view.subagent = tool->subagent;
    }
    tool->is_used = n->has_tool = true;
    obs_end(n, &view);
}

/* ---- what came out ---- */

/* The text blocks of a call's content, joined. Blocks that lie bare, without the "content"
 * around them, are read too: agents send both. */
static void
content_text(const json_t *content, struct cf_buf *out)
{
    json_t *item;
    size_t i;

    json_array_foreach((json_t *)content, i, item) {
        json_t *block = cf_json_obj(item, "content");
        json_t *text = json_object_get(block != NULL ? block : item, "text");
        if (json_is_string(text) && out->len + json_string_length(text) <= RESULT_TEXT_MAX)
            (void)cf_buf_add(out, json_string_value(text), json_string_length(text));
    }
}

/* Why a failed call failed, in words: its text, or the message its raw output carries. */
static void
failure_text(const struct tool *tool, struct cf_buf *out)
{
    static const char *const places[] = {"message", "error", "details", "stderr"};

    content_text(tool->content, out);
    if (out->len == 0 && tool->terminal.len > 0)
        (void)cf_buf_add(out, tool->terminal.data, tool->terminal.len);
    if (out->len == 0 && json_is_string(tool->raw_output))
        (void)cf_buf_add(out, json_string_value(tool->raw_output),
                         json_string_length(tool->raw_output));
    for (size_t i = 0; i < CF_COUNT(places) && out->len == 0; i++) {
        json_t *text = json_object_get(tool->raw_output, places[i]);
        if (json_is_object(text))
            text = json_object_get(text, "message");
        if (json_is_string(text))
            (void)cf_buf_add(out, json_string_value(text), json_string_length(text));
    }
    if (out->len == 0)
        (void)cf_buf_adds(out, "the tool call failed and said nothing");
}

static void
add_result(struct cf_normalizer *n, const struct tool *tool)
{
    struct cf_buf text = {0};

    if (tool->raw_output != NULL) {
        obs_tree(n, "result", tool->raw_output);
        return;
    }
    content_text(tool->content, &text);
    if (text.len > 0) {
        obs_string(n, "result", text.data, text.len);
    } else if (tool->terminal.len > 0) {
        obs_string(n, "result", tool->terminal.data, tool->terminal.len);
    } else if (json_array_size(tool->content) > 0) {
        obs_tree(n, "result", tool->content);
    } else {
        obs_member(n, "result");
        (void)cf_buf_adds(&n->out, "null");
    }
    cf_buf_release(&text);
}

/* Each diff is one change; a delete or a move has none and is told by its locations. */
static void
tell_files(struct cf_normalizer *n, const struct tool *tool, uint64_t frame)
{
    json_t *item;
    size_t i, places = json_array_size(tool->locations);
    const char *first = cf_json_str(json_array_get(tool->locations, 0), "path");
    const char *second = cf_json_str(json_array_get(tool->locations, 1), "path");

    json_array_foreach(tool->content, i, item) {
        const char *type = cf_json_str(item, "type"), *path = cf_json_str(item, "path");
        json_t *old = json_object_get(item, "oldText");
        if (type != NULL && strcmp(type, "diff") == 0 && path != NULL)
            obs_file_changed(n, old == NULL || json_is_null(old) ? "create" : "modify", path,
                             frame);
    }
    if (strcmp(tool->kind, "delete") == 0)
        for (i = 0; i < places; i++) {
            const char *path = cf_json_str(json_array_get(tool->locations, i), "path");
            if (path != NULL)
                obs_file_changed(n, "delete", path, frame);
        }
    if (strcmp(tool->kind, "move") == 0 && places == 2 && first != NULL && second != NULL) {
        obs_file_changed(n, "delete", first, frame);
        obs_file_changed(n, "create", second, frame);
    }
}

void
tool_emit_result(struct cf_normalizer *n, struct tool *tool, const char *subagent,
                 uint64_t frame)
{
    struct cf_observation view = {
        .type = CF_OBSERVATION_TOOL_RESULT, .frame = frame, .tool_use_id = tool->use_id};
    const char *who = *subagent != '\0' ? subagent : tool->subagent;

    text_boundary(n);
    obs_begin(n, CF_OBSERVATION_TOOL_RESULT);
    obs_string(n, "tool_use_id", tool->use_id, strlen(tool->use_id));
    add_result(n, tool);
    if (tool->status == TOOL_FAILED) {
        struct cf_buf why = {0};
        failure_text(tool, &why);
        obs_error(n, "runtime.harness_failed", why.data, why.len, frame);
        view.detail = "runtime.harness_failed";
        cf_buf_release(&why);
    }
    if (*who != '\0') {
        obs_string(n, "subagent", who, strlen(who));
        view.subagent = who;
    }
    tool->is_settled = true;
    obs_end(n, &view);
    if (tool->status == TOOL_COMPLETED)
        tell_files(n, tool, frame);
}
