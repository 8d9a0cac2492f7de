#include "diagnose/formats.h"

#include "base/str.h"
#include "base/utf8.h"
#include "json/json.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

/* One line of plain words: every mark that Markdown, its tables or its HTML know is escaped. */
static void
put(struct cf_buf *to, const char *text)
{
    char line[900];

    (void)snprintf(line, sizeof line, "%s", text != NULL ? text : "");
    cf_utf8_make_line(line);
    for (const char *at = line; *at != '\0'; at++) {
        if (*at == '&' || *at == '<' || *at == '>' || *at == '@')
            (void)cf_buf_addf(to, "&#%d;", *at);
        else /* with its colon and its points escaped no address becomes a link */
            (void)cf_buf_addf(to, ispunct((unsigned char)*at) && strchr(",;'\"%/?=", *at) == NULL ? "\\%c" : "%c", *at);
    }
}

/* A code span that neither its own end nor a table's bar can leave. */
static void
put_code(struct cf_buf *to, const char *text)
{
    char line[300];

    (void)snprintf(line, sizeof line, "%s", text != NULL && *text != '\0' ? text : "-");
    cf_utf8_make_line(line);
    for (char *at = line; *at != '\0'; at++)
        if (*at == '`' || *at == '|')
            *at = '\'';
    (void)cf_buf_addf(to, "`%s`", line);
}

static void
put_row(struct cf_buf *to, json_t *check)
{
    const char *id = cf_json_str(check, "id"), *status = cf_json_str(check, "status"), *fix = cf_json_str(check, "fix");
    bool is_good = cf_str_same(status, "passed"), is_skipped = cf_str_same(status, "skipped");

    (void)cf_buf_addf(to, "| %s | ",
                      is_good      ? "\xe2\x9c\x85 passed"
                      : is_skipped ? "\xe2\x9e\x96 skipped"
                                   : "\xe2\x9d\x8c **failed**");
    put_code(to, id);
    (void)cf_buf_addf(to, " | %s | ", cf_outcome_group(check));
    put(to, cf_json_str(check, "summary"));
    if (!is_good && !is_skipped && fix != NULL && *fix != '\0') {
        (void)cf_buf_adds(to, "<br>**fix:** ");
        put(to, fix);
    }
    (void)cf_buf_adds(to, " |\n");
}

static void
put_findings(struct cf_buf *to, json_t *findings)
{
    json_t *finding;
    size_t i, most = 20;

    if (json_array_size(findings) == 0)
        return;
    (void)cf_buf_addf(to, "\n<details><summary>%zu findings</summary>\n\n", json_array_size(findings));
    json_array_foreach(findings, i, finding)
    {
        if (i >= most)
            break;
        (void)cf_buf_adds(to, "- ");
        put_code(to, cf_json_str(finding, "id"));
        (void)cf_buf_addf(to, " frame %lld: ", (long long)cf_json_int(finding, "frame", 0));
        put(to, cf_json_str(finding, "text"));
        (void)cf_buf_adds(to, "\n");
    }
    (void)cf_buf_adds(to, "\n</details>\n");
}

/* Each line on its own, indented: nothing in it can end the block. */
static void
put_tail(struct cf_buf *to, const char *text)
{
    if (text == NULL || *text == '\0')
        return;
    (void)cf_buf_adds(to, "\n**Last words on stderr**\n\n");
    while (*text != '\0') {
        size_t n = strcspn(text, "\n");
        char line[400];
        (void)snprintf(line, sizeof line, "%.*s", (int)(n < 390 ? n : 390), text);
        cf_utf8_make_line(line);
        (void)cf_buf_addf(to, "    %s\n", line);
        text += n;
        text += *text == '\n';
    }
}

void
cf_format_summary(struct cf_buf *to, const struct cf_outcome *o)
{
    json_t *totals = cf_json_obj(o->result, "model_totals"), *check;
    bool is_good = o->exit_code == 0;
    size_t i;

    (void)cf_buf_addf(to, "### %s ",
                      is_good              ? "\xe2\x9c\x85 PASS"
                      : o->exit_code == 1 ? "\xe2\x9d\x8c FAIL"
                                           : "\xe2\x9d\x8c ERROR");
    put(to, o->name);
    (void)cf_buf_addf(to, "\n\n**%zu of %zu proven** \xc2\xb7 %zu failed \xc2\xb7 %zu skipped \xc2\xb7 blame: %s \xc2\xb7 exit %d\n\n",
                      o->passed, json_array_size(o->checks), o->failed, o->skipped, o->blame, o->exit_code);
    (void)cf_buf_addf(to, "cfrunner %s, %s, image ", o->command,
                      cf_json_str(o->result, "protocol") != NULL ? cf_json_str(o->result, "protocol") : "?");
    put_code(to, *o->digest != '\0' ? o->digest : o->reference);
    (void)cf_buf_addf(to, ", relay %lld served, %lld refused, %lld\xe2\x86\x92%lld tokens, %.2f s. Unsigned, local only.\n\n",
                      (long long)cf_json_int(totals, "served", 0), (long long)cf_json_int(totals, "refused", 0),
                      (long long)cf_json_int(totals, "input_tokens", 0), (long long)cf_json_int(totals, "output_tokens", 0),
                      (double)cf_json_int(cf_json_obj(o->result, "timings_ms"), "total", 0) / 1000.0);
    (void)cf_buf_adds(to, "| | check | group | what was seen |\n|---|---|---|---|\n");
    json_array_foreach(o->checks, i, check)
        put_row(to, check);
    put_findings(to, json_object_get(o->result, "findings"));
    if (!is_good)
        put_tail(to, cf_json_str(cf_json_obj(o->result, "harness"), "stderr_tail"));
    (void)cf_buf_adds(to, "\n");
}
