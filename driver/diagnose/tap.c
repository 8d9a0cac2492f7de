#include "diagnose/formats.h"

#include "base/str.h"
#include "base/utf8.h"
#include "json/json.h"

#include <stdio.h>
#include <string.h>

/* One line without '#', which would begin a directive, and without what a terminal would obey. */
static void
put_words(struct cf_buf *to, const char *text)
{
    char line[600];

    (void)snprintf(line, sizeof line, "%s", text != NULL ? text : "");
    cf_utf8_make_line(line);
    for (const char *at = line; *at != '\0'; at++)
        (void)cf_buf_addf(to, *at == '#' || *at == '\\' ? "\\%c" : "%c", *at);
}

/* A JSON string is a YAML string. */
static void
put_yaml(struct cf_buf *to, const char *name, const char *value)
{
    char line[900];

    if (value == NULL || *value == '\0')
        return;
    (void)snprintf(line, sizeof line, "%s", value);
    cf_utf8_make_line(line);
    (void)cf_buf_addf(to, "  %s: ", name);
    (void)cf_json_append_string(to, line, strlen(line));
    (void)cf_buf_adds(to, "\n");
}

static void
put_problem(struct cf_buf *to, const struct cf_outcome *o, json_t *check)
{
    json_t *error = cf_json_obj(check, "error"), *evidence = json_object_get(check, "evidence");
    const char *blame = cf_json_str(error, "blame");

    (void)cf_buf_adds(to, "  ---\n");
    put_yaml(to, "message", cf_json_str(check, "summary"));
    put_yaml(to, "severity", "fail");
    put_yaml(to, "fix", cf_json_str(check, "fix"));
    put_yaml(to, "type", cf_json_str(error, "type"));
    put_yaml(to, "blame", blame != NULL ? blame : o->blame);
    if (json_array_size(evidence) > 0) {
        (void)cf_buf_adds(to, "  evidence: ");
        (void)cf_json_append(to, evidence);
        (void)cf_buf_adds(to, "\n");
    }
    (void)cf_buf_adds(to, "  ...\n");
}

void
cf_format_tap(struct cf_buf *to, const struct cf_outcome *o)
{
    json_t *check;
    size_t i;

    (void)cf_buf_addf(to, "TAP version 13\n1..%zu\n# cfrunner %s ", json_array_size(o->checks), o->command);
    put_words(to, o->name);
    (void)cf_buf_addf(to, " %s UNSIGNED LOCAL ONLY\n", o->digest);
    json_array_foreach(o->checks, i, check)
    {
        const char *status = cf_json_str(check, "status");
        bool is_skipped = cf_str_same(status, "skipped"), is_good = is_skipped || cf_str_same(status, "passed");
        (void)cf_buf_addf(to, "%s %zu - ", is_good ? "ok" : "not ok", i + 1);
        put_words(to, cf_json_str(check, "id"));
        (void)cf_buf_adds(to, is_skipped ? " # SKIP " : ": ");
        put_words(to, cf_json_str(check, "summary"));
        (void)cf_buf_adds(to, "\n");
        if (!is_good)
            put_problem(to, o, check);
    }
    (void)cf_buf_addf(to, "# %s: %zu of %zu proven, %zu failed, %zu skipped, blame %s, exit %d\n", o->status, o->passed,
                      json_array_size(o->checks), o->failed, o->skipped, o->blame, o->exit_code);
}
