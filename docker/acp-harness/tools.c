/* The built-in tools: offered to the model within the session's ceiling, and carried out. */
#include "turn.h"

#include "base/str.h"
#include "base/utf8.h"
#include "file.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FILE_LIMIT = 1024 * 1024 };

/* What this agent can really do. There is no shell in its image and no network but the model,
 * so bash needs a client's terminal, and the web tools are never offered. */
static const struct {
    const char *name, *kind, *description, *parameters;
    unsigned tool;
} tools[] = {
    { "read", "read", "Read a text file below the working directory.",
      "{\"type\":\"object\",\"properties\":{\"path\":{\"type\":\"string\"}},"
      "\"required\":[\"path\"]}",
      HN_TOOL_READ },
    { "write", "edit", "Write a text file below the working directory.",
      "{\"type\":\"object\",\"properties\":{\"path\":{\"type\":\"string\"},"
      "\"content\":{\"type\":\"string\"}},\"required\":[\"path\",\"content\"]}",
      HN_TOOL_WRITE },
    { "edit", "edit", "Replace the first occurrence of a text in a file.",
      "{\"type\":\"object\",\"properties\":{\"path\":{\"type\":\"string\"},"
      "\"old\":{\"type\":\"string\"},\"new\":{\"type\":\"string\"}},"
      "\"required\":[\"path\",\"old\",\"new\"]}",
      HN_TOOL_EDIT },
};

json_t *
hn_tools_offered(const struct hn_turn *turn)
{
    json_t *list = json_array();

    for (size_t i = 0; i < CF_COUNT(tools); i++)
        if (hn_turn_may(turn, tools[i].tool))
            json_array_append_new(list, json_pack("{s:s, s:s, s:o}", "name", tools[i].name,
                                                  "description", tools[i].description, "parameters",
                                                  json_loads(tools[i].parameters, 0, NULL)));
    hn_mcp_offer(turn->session->servers, list);
    return list;
}

/* What a tool came to: a text for the model, and a diff for whoever watches. */
struct outcome {
    struct cf_buf text;
    json_t *diff;
    bool failed;
};

static void
fail(struct outcome *outcome, const char *why)
{
    cf_buf_reset(&outcome->text);
    cf_buf_adds(&outcome->text, why);
    outcome->failed = true;
}

static const char *
text_of(json_t *object, const char *name)
{
    return json_string_value(json_object_get(object, name));
}

/* A path of the model as an absolute one below the working directory; false when it leads out. */
static bool
resolve(const struct hn_turn *turn, json_t *input, char *path, size_t size)
{
    const char *given = text_of(input, "path"), *cwd = turn->session->cwd;
    size_t len = strlen(cwd);
    int n;

    if (given == NULL || given[0] == '\0' || strstr(given, "..") != NULL)
        return false;
    if (given[0] == '/')
        n = strncmp(given, cwd, len) == 0 && given[len] == '/' ? snprintf(path, size, "%s", given) : -1;
    else
        n = snprintf(path, size, "%s/%s", cwd, given);
    return n > 0 && (size_t)n < size;
}

static bool
load(const char *path, struct cf_buf *to, struct outcome *outcome)
{
    struct cf_error err;

    if (hn_file_read(path, to, &err) < 0)
        fail(outcome, err.text);
    else if (!cf_utf8_is_valid(to->data, to->len))
        fail(outcome, "not a text file");
    return !outcome->failed;
}

static void
store(const char *path, const char *old, const char *text, struct outcome *outcome)
{
    struct cf_error err;

    if (hn_file_replace(path, text, strlen(text), &err) < 0) {
        fail(outcome, err.text);
        return;
    }
    cf_buf_addf(&outcome->text, "wrote %zu bytes", strlen(text));
    outcome->diff = json_pack("{s:s, s:s, s:s}", "type", "diff", "path", path, "newText", text);
    if (old != NULL)
        json_object_set_new(outcome->diff, "oldText", json_string(old));
}

static void
write_file(const char *path, json_t *input, struct outcome *outcome)
{
    const char *content = text_of(input, "content");
    struct cf_buf old = { .limit_bytes = FILE_LIMIT };
    struct cf_error ignored; /* no old file is no fault: then this one is new */
    bool had = hn_file_read(path, &old, &ignored) == 0 && cf_utf8_is_valid(old.data, old.len);

    if (content == NULL)
        fail(outcome, "no content given");
    else
        store(path, had ? old.data : NULL, content, outcome);
    cf_buf_release(&old);
}

static void
edit_file(const char *path, json_t *input, struct outcome *outcome)
{
    const char *before = text_of(input, "old"), *after = text_of(input, "new"), *at = NULL;
    struct cf_buf old = { .limit_bytes = FILE_LIMIT }, new = { 0 };

    if (before == NULL || after == NULL || before[0] == '\0')
        fail(outcome, "old and new texts are needed");
    else if (load(path, &old, outcome)) {
        at = strstr(old.data, before);
        if (at == NULL)
            fail(outcome, "the old text does not occur in the file");
    }
    if (at != NULL) {
        cf_buf_add(&new, old.data, (size_t)(at - old.data));
        cf_buf_adds(&new, after);
        cf_buf_adds(&new, at + strlen(before));
        store(path, old.data, new.data, outcome);
    }
    cf_buf_release(&old);
    cf_buf_release(&new);
}

static void
carry_out(struct hn_turn *turn, unsigned tool, json_t *input, struct outcome *outcome)
{
    char path[4200];

    outcome->text.limit_bytes = FILE_LIMIT;
    turn->count.files++;
    if (!resolve(turn, input, path, sizeof path))
        fail(outcome, "the path is missing or leads out of the working directory");
    else if (tool == HN_TOOL_READ)
        (void)load(path, &outcome->text, outcome); /* the failure is in the outcome */
    else if (tool == HN_TOOL_WRITE)
        write_file(path, input, outcome);
    else
        edit_file(path, input, outcome);
}

json_t *
hn_tool_carry_out(struct hn_turn *turn, json_t *call)
{
    const char *name = text_of(call, "name"), *kind = "other";
    json_t *input = json_object_get(call, "input"), *content, *result;
    struct outcome outcome = { 0 };
    unsigned tool = 0;
    char id[24];

    for (size_t i = 0; i < CF_COUNT(tools); i++)
        if (strcmp(tools[i].name, name) == 0) {
            tool = tools[i].tool;
            kind = tools[i].kind;
        }
    hn_tool_begin(turn, id, NULL, name, kind, json_incref(input));
    if (tool == 0 && hn_mcp_call(turn->session->servers, name, input, &outcome.text, &outcome.failed))
        turn->count.mcp++;
    else if (tool == 0)
        fail(&outcome, "there is no such tool");
    else if (!hn_turn_may(turn, tool))
        fail(&outcome, "this tool is outside the session's ceiling");
    else
        carry_out(turn, tool, input, &outcome);
    cf_buf_adds(&outcome.text, "");
    content = hn_text_content(outcome.text.data);
    if (outcome.diff != NULL)
        json_array_append_new(content, outcome.diff);
    hn_tool_end(turn, id, NULL, outcome.failed, content, NULL);
    result = json_pack("{s:s, s:b}", "text", outcome.text.data, "failed", outcome.failed);
    cf_buf_release(&outcome.text);
    return result;
}
