/* A matrix for eyes: a row a cell, beneath it what failed and what is excused; then what is stale, what
 * is different, and the verdict, last and once. */
#include "diagnose/matrix.h"

#include "base/buf.h"
#include "base/str.h"
#include "base/utf8.h"
#include "json/json.h"

#include <stdio.h>
#include <string.h>

#define COLUMNS 80

struct table {
    struct cf_buf *to;
    const struct cf_report_style *style;
    int widths[3];
};

static const char *const axes[] = {"image", "protocol", "options"};

static const char *
text_of(const json_t *object, const char *name)
{
    const char *text = cf_json_str(object, name);

    return text != NULL ? text : "";
}

/* One printable line of at most `columns`; longer ones end in an ellipsis. */
static void
put_text(const struct table *t, const char *text, int columns)
{
    char line[400];
    size_t len, cut;

    (void)snprintf(line, sizeof line, "%s", text);
    cf_utf8_make_line(line);
    len = strlen(line);
    if (columns < 4 || cf_utf16_units(line, len) <= (size_t)columns) {
        (void)cf_buf_adds(t->to, line);
        return;
    }
    cut = cf_utf16_prefix(line, len, (size_t)columns - (t->style->unicode ? 1 : 3));
    (void)cf_buf_add(t->to, line, cut);
    (void)cf_buf_adds(t->to, t->style->unicode ? "\xe2\x80\xa6" : "...");
}

static void
put_cell(const struct table *t, const char *text, int width)
{
    int shown = (int)cf_utf16_units(text, strlen(text));

    put_text(t, text, width);
    for (int i = shown < width ? shown : width; i < width + 2; i++)
        (void)cf_buf_adds(t->to, " ");
}

static const char *
mark(const struct table *t, const char *status)
{
    if (cf_str_same(status, "passed"))
        return t->style->unicode ? "\xe2\x9c\x93" : "+";
    if (cf_str_same(status, "failed"))
        return t->style->unicode ? "\xe2\x9c\x97" : "x";
    return cf_str_same(status, "excused") ? "~" : "!";
}

static void
put_toned(const struct table *t, const char *status, const char *text)
{
    const char *tone = cf_str_same(status, "passed") ? "\033[32m" : cf_str_same(status, "excused") ? "\033[33m" : "\033[31m";

    (void)cf_buf_addf(t->to, "%s%s%s", t->style->color ? tone : "", text, t->style->color ? "\033[0m" : "");
}

/* ---- cells ----------------------------------------------------------------------------------- */

static void
put_checks(const struct table *t, const json_t *row)
{
    const json_t *checks = json_object_get(row, "checks"), *error = cf_json_obj(row, "error");
    bool has_told = false;

    for (size_t i = 0; i < json_array_size(checks); i++) {
        const json_t *check = json_array_get(checks, i);
        const char *reason = cf_json_str(check, "excused"), *id = text_of(check, "id"), *word = reason != NULL ? "excused" : "failed";
        if (!cf_str_same(cf_json_str(check, "status"), "failed"))
            continue;
        has_told = true;
        (void)cf_buf_adds(t->to, "     ");
        put_toned(t, word, mark(t, word));
        (void)cf_buf_addf(t->to, " %s  ", id);
        put_text(t, reason != NULL ? reason : text_of(check, "summary"), COLUMNS - 9 - (int)strlen(id));
        (void)cf_buf_adds(t->to, "\n");
    }
    if (has_told || error == NULL)
        return;
    (void)cf_buf_adds(t->to, "     ! ");
    put_text(t, text_of(error, "message"), COLUMNS - 7);
    (void)cf_buf_adds(t->to, "\n");
}

static void
put_row(const struct table *t, const json_t *row)
{
    const json_t *checks = json_object_get(row, "checks");
    const char *status = text_of(row, "status");
    size_t passed = 0;
    char word[24];

    for (size_t i = 0; i < json_array_size(checks); i++)
        passed += cf_str_same(cf_json_str(json_array_get(checks, i), "status"), "passed");
    (void)cf_buf_adds(t->to, " ");
    put_toned(t, status, mark(t, status));
    (void)cf_buf_adds(t->to, " ");
    for (int i = 0; i < 3; i++)
        put_cell(t, text_of(row, axes[i]), t->widths[i]);
    (void)snprintf(word, sizeof word, "%-8s", status);
    put_toned(t, status, word);
    (void)cf_buf_addf(t->to, "%3zu of %-3zu %6.1f s\n", passed, json_array_size(checks), (double)cf_json_int(row, "took_ms", 0) / 1000);
    put_checks(t, row);
}

/* As wide as the longest name, within what the verdict's columns leave. */
static void
measure(struct table *t, const json_t *rows)
{
    for (int i = 0; i < 3; i++) {
        t->widths[i] = (int)strlen(axes[i]);
        for (size_t k = 0; k < json_array_size(rows); k++) {
            int len = (int)strlen(text_of(json_array_get(rows, k), axes[i]));
            t->widths[i] = len > t->widths[i] ? len : t->widths[i];
        }
    }
    for (;;) { /* 44: the mark, three gaps, and the rest of the row in 80 */
        int widest = 0;
        for (int i = 1; i < 3; i++)
            widest = t->widths[i] > t->widths[widest] ? i : widest;
        if (t->widths[0] + t->widths[1] + t->widths[2] <= 44)
            return;
        t->widths[widest]--;
    }
}

/* ---- beneath the cells --------------------------------------------------------------------------- */

static void
put_stale(const struct table *t, const json_t *stale)
{
    for (size_t i = 0; i < json_array_size(stale); i++) {
        const json_t *item = json_array_get(stale, i);
        char line[400];
        (void)snprintf(line, sizeof line, "%.120s %.60s: %s", text_of(item, "cell"), text_of(item, "check"),
                       text_of(item, "why"));
        (void)cf_buf_adds(t->to, i == 0 ? "\n STALE   " : "         ");
        put_text(t, line, COLUMNS - 9);
        (void)cf_buf_adds(t->to, "\n");
    }
    if (json_array_size(stale) > 0)
        (void)cf_buf_adds(t->to, "         fix: take what is stale out of the baseline\n");
}

static const char *
or_dash(const json_t *change, const char *name)
{
    return cf_json_str(change, name) != NULL ? cf_json_str(change, name) : "-";
}

static void
put_change(const struct table *t, const json_t *change)
{
    const json_t *checks = json_object_get(change, "checks");
    char line[400];

    (void)snprintf(line, sizeof line, "%-7s %.150s: %s -> %s", text_of(change, "change"), text_of(change, "cell"),
                   or_dash(change, "before"), or_dash(change, "after"));
    put_text(t, line, COLUMNS - 9);
    (void)cf_buf_adds(t->to, "\n");
    for (size_t k = 0; k < json_array_size(checks); k++) {
        const json_t *check = json_array_get(checks, k);
        (void)snprintf(line, sizeof line, "%.100s: %s -> %s", text_of(check, "check"), or_dash(check, "before"), or_dash(check, "after"));
        (void)cf_buf_adds(t->to, "                 ");
        put_text(t, line, COLUMNS - 17);
        (void)cf_buf_adds(t->to, "\n");
    }
}

static void
put_diff(const struct table *t, const json_t *diff)
{
    const json_t *changes = json_object_get(diff, "changes");

    if (!json_is_object(diff))
        return;
    if (json_array_size(changes) == 0)
        (void)cf_buf_addf(t->to, "\n SINCE   %lld cells, nothing is different\n", (long long)cf_json_int(diff, "compared", 0));
    for (size_t i = 0; i < json_array_size(changes); i++) {
        (void)cf_buf_adds(t->to, i == 0 ? "\n SINCE   " : "         ");
        put_change(t, json_array_get(changes, i));
    }
}

static void
put_verdict(const struct table *t, const json_t *result)
{
    const json_t *counts = json_object_get(result, "counts");
    const char *status = text_of(result, "status");

    (void)cf_buf_adds(t->to, "\n ");
    put_toned(t, status, cf_str_same(status, "passed") ? "PASS" : cf_str_same(status, "failed") ? "FAIL" : "ERROR");
    (void)cf_buf_addf(t->to, "  %lld cells: %lld passed, %lld excused, %lld failed, %lld error; %lld stale   exit %lld\n",
                      (long long)cf_json_int(counts, "cells", 0), (long long)cf_json_int(counts, "passed", 0),
                      (long long)cf_json_int(counts, "excused", 0), (long long)cf_json_int(counts, "failed", 0),
                      (long long)cf_json_int(counts, "error", 0), (long long)cf_json_int(counts, "stale", 0),
                      (long long)cf_json_int(result, "exit_code", 0));
}

void
cf_matrix_table(struct cf_buf *to, const json_t *result, const struct cf_report_style *style)
{
    struct table t = {.to = to, .style = style};
    const json_t *rows = json_object_get(result, "cells");

    if (style->verbose < 0) {
        put_verdict(&t, result);
        return;
    }
    measure(&t, rows);
    (void)cf_buf_adds(to, "cfrunner test matrix  ");
    put_text(&t, text_of(result, "name"), 36);
    (void)cf_buf_adds(to, "   UNSIGNED LOCAL ONLY\n\n   ");
    for (int i = 0; i < 3; i++)
        put_cell(&t, axes[i], t.widths[i]);
    (void)cf_buf_adds(to, "verdict  checks      time\n");
    for (size_t i = 0; i < json_array_size(rows); i++)
        put_row(&t, json_array_get(rows, i));
    put_stale(&t, json_object_get(result, "stale"));
    put_diff(&t, json_object_get(result, "diff"));
    put_verdict(&t, result);
}
