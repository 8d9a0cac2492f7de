/*
 * The result for eyes: one line a check with a measured fact and what it rests on, the verdict last and
 * once. Grows only on failure: then the frames that it is about, the rule, and one line on what to do.
 * Colour repeats what a mark and a word already say.
 */
#include "diagnose/diagnose.h"

#include "base/buf.h"
#include "base/str.h"
#include "diagnose/draw.h"
#include "diagnose/report_parts.h"
#include "json/json.h"

#include <stdio.h>
#include <string.h>

#define INDENT 39 /* where a check's fact begins: group 13, mark 2, id 23 and a space */
#define DETAIL 15 /* where a failure's own lines begin */
#define LABEL 13  /* where a line of the head begins */
#define DOT " \xc2\xb7 "

/* ---- head ------------------------------------------------------------------------------- */

static void
put_head(const struct cf_page *p, json_t *result)
{
    static const char label[] = "UNSIGNED LOCAL ONLY";
    char left[160];
    size_t used, room = (size_t)p->columns - sizeof label;

    (void)snprintf(left, sizeof left, "cfrunner test oci  %.60s  %s", cf_json_str(result, "name"),
                   cf_json_str(result, "protocol"));
    used = cf_draw_cut(p, CF_BOLD, left, room - 1);
    (void)cf_draw_pad(p, (int)(room + 1 - used));
    (void)cf_draw(p, CF_FAINT, label);
    (void)cf_buf_adds(p->to, "\n");
}

static void
put_engine(const struct cf_page *p, json_t *result)
{
    json_t *engine = cf_json_obj(result, "engine");
    char line[400];

    if (engine == NULL)
        return;
    (void)snprintf(line, sizeof line, "%s %.60s, API %.20s, %.200s",
                   cf_json_bool(engine, "podman", false) ? "Podman" : "Docker", cf_json_str(engine, "version"),
                   cf_json_str(engine, "api_version"), cf_json_str(engine, "endpoint"));
    (void)cf_buf_adds(p->to, " engine      ");
    cf_draw_wrapped(p, LABEL, LABEL, CF_PLAIN, line);
}

static const char *const phases[][2] = {
    {"image", "image"}, {"sandbox", "sandbox"}, {"session", "session"}, {"turn", "turn"}, {"teardown", "down"}};

/* " image 809 " or, in seconds, " image 0.8 ". */
static size_t
phase_words(const char *name, json_int_t ms, bool in_seconds, char *out, size_t size)
{
    int n = in_seconds ? snprintf(out, size, " %s %.1f ", name, (double)ms / 1000.0)
                       : snprintf(out, size, " %s %lld ", name, (long long)ms);

    return (size_t)n;
}

/* What the words and numbers of the timeline take, its bars apart. */
static size_t
timeline_width(json_t *timings, bool in_seconds, json_int_t *ret_sum, size_t *ret_count)
{
    size_t width = 2; /* the unit */
    char words[64];

    *ret_sum = 0;
    *ret_count = 0;
    for (size_t i = 0; i < CF_COUNT(phases); i++) {
        json_int_t ms = json_integer_value(json_object_get(timings, phases[i][0]));
        if (ms == 0)
            continue;
        *ret_sum += ms;
        ++*ret_count;
        width += phase_words(phases[i][1], ms, in_seconds, words, sizeof words);
    }
    return width;
}

/* A bar a phase, as long as the phase took its part of the whole. One line: in seconds where
 * milliseconds would not fit, without bars where nothing else does. */
static void
put_timeline(const struct cf_page *p, json_t *result)
{
    json_t *timings = cf_json_obj(result, "timings_ms");
    json_int_t sum;
    size_t count, room = (size_t)p->columns - LABEL, words = timeline_width(timings, false, &sum, &count), bars;
    bool in_seconds = words + 2 * count > room;

    if (sum == 0)
        return;
    if (in_seconds)
        words = timeline_width(timings, true, &sum, &count);
    bars = room > words + count ? room - words - count : 0; /* each bar is at most one column past its part */
    (void)cf_buf_adds(p->to, " timeline    ");
    for (size_t i = 0; i < CF_COUNT(phases); i++) {
        json_int_t ms = json_integer_value(json_object_get(timings, phases[i][0]));
        char text[64];
        if (ms == 0)
            continue;
        if (room >= words + count)
            (void)cf_draw_bar(p, CF_FAINT, (size_t)(8 * ms) * bars / (size_t)sum);
        (void)phase_words(phases[i][1], ms, in_seconds, text, sizeof text);
        (void)cf_buf_adds(p->to, text);
    }
    (void)cf_buf_adds(p->to, in_seconds ? "s\n" : "ms\n");
}

/* Whether a call held the prompt's nonce, and its answer went out. */
static const char *
nonce_word(json_t *result)
{
    bool is_seen = false, is_answered = false;
    json_t *call;
    size_t i;

    json_array_foreach(json_object_get(result, "model_calls"), i, call)
    {
        is_seen |= cf_json_bool(call, "nonce_seen", false);
        is_answered |= cf_json_bool(call, "answered_nonce", false);
    }
    return is_answered ? "nonce seen" : is_seen ? "nonce seen, unanswered" : "nonce not seen";
}

static void
put_proof(const struct cf_page *p, json_t *result)
{
    json_t *totals = cf_json_obj(result, "model_totals"), *egress = cf_json_obj(result, "egress");
    size_t left = json_array_size(json_object_get(cf_json_obj(result, "teardown"), "left"));
    long long served = (long long)cf_json_int(totals, "served", 0), refused = (long long)cf_json_int(totals, "refused", 0);
    long long attempts = (long long)(cf_json_int(egress, "allowed", 0) + cf_json_int(egress, "denied", 0));
    char line[240], more[40] = "";

    if (refused > 0)
        (void)snprintf(more, sizeof more, ", %lld refused", refused);
    (void)snprintf(line, sizeof line,
                   "relay %lld call%s%s" DOT "%lld\xe2\x86\x92%lld tok" DOT "%s" DOT "%lld egress" DOT "%zu left",
                   served, served == 1 ? "" : "s", more, (long long)cf_json_int(totals, "input_tokens", 0),
                   (long long)cf_json_int(totals, "output_tokens", 0), nonce_word(result), attempts, left);
    (void)cf_buf_adds(p->to, " proof       ");
    cf_draw_wrapped(p, LABEL, LABEL, CF_PLAIN, line);
}

/* ---- checks ----------------------------------------------------------------------------- */

static bool
has_status(json_t *check, const char *status)
{
    return cf_str_same(cf_json_str(check, "status"), status);
}

static bool
is_of(json_t *check, const char *group)
{
    return cf_str_same(cf_json_str(check, "group"), group);
}

/* A check that waited for another says nothing of its own. */
static bool
was_not_reached(json_t *check)
{
    json_t *first = json_array_get(json_object_get(check, "evidence"), 0);

    return has_status(check, "skipped") && cf_json_str(first, "check") != NULL;
}

static void
put_label(const struct cf_page *p, const char *label)
{
    (void)cf_buf_addf(p->to, " %-11s ", label);
}

static void
put_check(const struct cf_page *p, json_t *check, const char *label, struct cf_report_shown *shown)
{
    const char *id = cf_json_str(check, "id"), *summary = cf_json_str(check, "summary");
    bool is_bad = has_status(check, "failed"), is_skip = has_status(check, "skipped"), is_long;
    int at = strlen(id) > 23 ? (int)strlen(id) + 16 : INDENT;
    char text[600], refs[24];

    (void)snprintf(text, sizeof text, "%s%s", is_skip ? "skipped: " : "", summary);
    is_long = is_bad && at + (int)cf_draw_width(text) > p->columns; /* it has more to say: from the left */
    put_label(p, label);
    (void)cf_draw_mark(p, is_bad ? CF_MARK_BAD : is_skip ? CF_MARK_SKIP : CF_MARK_GOOD);
    (void)cf_buf_addf(p->to, is_long ? " %s" : " %-23s ", id);
    cf_report_refs(check, shown->by_turn, refs, sizeof refs, p->columns - at - (int)cf_draw_width(text) - 2);
    if (*refs != '\0') {
        size_t used = cf_draw(p, is_bad ? CF_BAD : is_skip ? CF_FAINT : CF_PLAIN, text);
        (void)cf_draw_pad(p, p->columns - at - (int)used - (int)strlen(refs));
        (void)cf_draw(p, CF_FAINT, refs);
        (void)cf_buf_adds(p->to, "\n");
    } else if (is_long) {
        cf_report_refs(check, shown->by_turn, refs, sizeof refs, 20);
        (void)cf_draw_pad(p, *refs != '\0' ? p->columns - DETAIL - (int)strlen(id) - (int)strlen(refs) : 0);
        (void)cf_draw(p, CF_FAINT, refs);
        (void)cf_buf_adds(p->to, "\n");
        (void)cf_draw_pad(p, DETAIL);
        cf_draw_wrapped(p, DETAIL, DETAIL, CF_BAD, text);
    } else {
        cf_draw_wrapped(p, at, INDENT, is_bad ? CF_BAD : is_skip ? CF_FAINT : CF_PLAIN, text);
    }
    if (is_bad)
        cf_report_failure(p, check, DETAIL, shown);
}

/* All of a group that were not reached, on one line: named, but no more. */
static bool
put_not_reached(const struct cf_page *p, json_t *checks, const char *group, const char *label)
{
    const char *first = NULL;
    char line[900] = "";
    json_t *check;
    size_t i;

    json_array_foreach(checks, i, check)
    {
        if (!is_of(check, group) || !was_not_reached(check))
            continue;
        if (first == NULL)
            first = cf_json_str(json_array_get(json_object_get(check, "evidence"), 0), "check");
        (void)snprintf(line + strlen(line), sizeof line - strlen(line), "%s%s", *line ? ", " : "skipped, not reached: ",
                       cf_json_str(check, "id"));
    }
    if (*line == '\0')
        return false;
    (void)snprintf(line + strlen(line), sizeof line - strlen(line), " (%s)", first);
    put_label(p, label);
    (void)cf_draw_mark(p, CF_MARK_SKIP);
    (void)cf_buf_adds(p->to, " ");
    cf_draw_wrapped(p, DETAIL, DETAIL, CF_FAINT, line);
    return true;
}

static void
put_group(const struct cf_page *p, json_t *checks, const char *group, struct cf_report_shown *shown)
{
    const char *label = group;
    json_t *check;
    size_t i;

    json_array_foreach(checks, i, check)
    {
        if (!is_of(check, group) || was_not_reached(check))
            continue;
        put_check(p, check, label, shown);
        label = "";
    }
    (void)put_not_reached(p, checks, group, label);
}

/* ---- capabilities: declared, exercised, proven ---------------------------------------------- */

#define PROVEN 56 /* where the last column begins */

static void
put_capability(const struct cf_page *p, json_t *result, json_t *check, struct cf_report_shown *shown)
{
    struct cf_report_capability row;
    bool is_bad = has_status(check, "failed"), is_skip = has_status(check, "skipped");
    enum cf_tone tone = is_bad ? CF_BAD : is_skip ? CF_FAINT : CF_PLAIN;
    char text[600], refs[24];
    int used;

    cf_report_capability(result, check, &row);
    (void)snprintf(text, sizeof text, "%s%s", is_skip ? "skipped: " : "", row.text);
    put_label(p, "");
    (void)cf_draw_mark(p, is_bad ? CF_MARK_BAD : is_skip ? CF_MARK_SKIP : CF_MARK_GOOD);
    (void)cf_buf_addf(p->to, " %-14s ", row.name);
    used = (int)cf_draw_cut(p, CF_PLAIN, row.declared, 15);
    (void)cf_draw_pad(p, 16 - used);
    used = (int)cf_draw(p, CF_PLAIN, row.is_exercised ? "yes" : "\xe2\x80\x93");
    (void)cf_draw_pad(p, 10 - used);
    cf_report_refs(check, shown->by_turn, refs, sizeof refs, p->columns - PROVEN - (int)cf_draw_width(text) - 2);
    if (is_bad && PROVEN + (int)cf_draw_width(text) > p->columns) {
        (void)cf_draw(p, CF_BAD, "no");
        (void)cf_buf_adds(p->to, "\n");
        (void)cf_draw_pad(p, DETAIL);
        cf_draw_wrapped(p, DETAIL, DETAIL, tone, text);
    } else if (*refs != '\0') {
        size_t wide = cf_draw(p, tone, text);
        (void)cf_draw_pad(p, p->columns - PROVEN - (int)wide - (int)strlen(refs));
        (void)cf_draw(p, CF_FAINT, refs);
        (void)cf_buf_adds(p->to, "\n");
    } else {
        cf_draw_wrapped(p, PROVEN, PROVEN, tone, text);
    }
    if (is_bad)
        cf_report_failure(p, check, DETAIL, shown);
}

static void
put_capabilities(const struct cf_page *p, json_t *result, struct cf_report_shown *shown)
{
    json_t *checks = json_object_get(result, "checks"), *check;
    const char *label = "CAPABILITY";
    bool has_rows = false;
    size_t i;

    json_array_foreach(checks, i, check)
    {
        struct cf_report_capability row;
        if (!is_of(check, "CAPABILITY") || was_not_reached(check))
            continue;
        cf_report_capability(result, check, &row);
        if (row.is_folded)
            continue;
        if (!has_rows) {
            put_label(p, label);
            (void)cf_draw_pad(p, 17);
            (void)cf_draw(p, CF_FAINT, "declared        exercised proven");
            (void)cf_buf_adds(p->to, "\n");
        }
        has_rows = true;
        put_capability(p, result, check, shown);
    }
    (void)put_not_reached(p, checks, "CAPABILITY", has_rows ? "" : label);
}

/* ---- teardown ------------------------------------------------------------------------------ */

static void
put_kind(char *line, size_t size, json_t *removed, const char *kind)
{
    size_t i, count = 0;
    json_t *item;

    json_array_foreach(removed, i, item)
        count += cf_str_same(cf_json_str(item, "kind"), kind);
    if (count > 0)
        (void)snprintf(line + strlen(line), size - strlen(line), "%s%zu %s%s", *line ? ", " : "gone: ", count,
                       count > 1 && cf_str_same(kind, "registry") ? "registrie" : kind, count == 1 ? "" : "s");
}

/* A teardown that is proven says what went: how many are left, and how long it took, stand above. */
static void
put_teardown(const struct cf_page *p, json_t *result, struct cf_report_shown *shown)
{
    static const char *const kinds[] = {"container", "volume", "network", "image", "registry"};
    json_t *teardown = cf_json_obj(result, "teardown"), *checks = json_array(), *check, *item;
    char line[300] = "";
    size_t i;

    for (i = 0; i < CF_COUNT(kinds); i++)
        put_kind(line, sizeof line, json_object_get(teardown, "removed"), kinds[i]);
    json_array_foreach(json_object_get(result, "checks"), i, check)
    {
        json_t *shown_check = json_copy(check);
        if (is_of(check, "TEARDOWN") && has_status(check, "passed") && *line != '\0')
            (void)json_object_set_new(shown_check, "summary", json_string(line));
        (void)json_array_append_new(checks, shown_check);
    }
    put_group(p, checks, "TEARDOWN", shown);
    json_decref(checks);
    json_array_foreach(json_object_get(teardown, "left"), i, item)
    {
        char left[400];
        const char *remove = cf_json_str(item, "remove");
        (void)snprintf(left, sizeof left, "left: %.40s %.100s; remove it with: %.200s", cf_json_str(item, "kind"),
                       cf_json_str(item, "id"), remove != NULL ? remove : "cfrunner reap");
        (void)cf_draw_pad(p, DETAIL);
        cf_draw_wrapped(p, DETAIL, DETAIL, CF_BAD, left);
    }
}

/* ---- the end ------------------------------------------------------------------------------- */

static void
put_verdict(const struct cf_page *p, json_t *result)
{
    const char *status = cf_json_str(result, "status");
    json_t *check;
    size_t i, n[3] = {0}, total = json_array_size(json_object_get(result, "checks"));
    char line[200];
    bool is_green = cf_str_same(status, "passed");

    json_array_foreach(json_object_get(result, "checks"), i, check)
        n[has_status(check, "passed") ? 0 : has_status(check, "failed") ? 1 : 2]++;
    (void)cf_draw(p, is_green ? CF_GOOD : CF_BAD,
                  is_green                        ? " PASS "
                  : cf_str_same(status, "failed") ? " FAIL "
                                                  : " ERROR ");
    (void)snprintf(line, sizeof line,
                   " %zu of %zu proven" DOT "%zu failed" DOT "%zu skipped" DOT "blame: %s" DOT "exit %lld" DOT "%.1f s",
                   n[0], total, n[1], n[2], cf_json_str(result, "blame"), (long long)cf_json_int(result, "exit_code", 4),
                   (double)cf_json_int(cf_json_obj(result, "timings_ms"), "total", 0) / 1000.0);
    (void)cf_draw(p, CF_PLAIN, line);
    (void)cf_buf_adds(p->to, "\n");
}

void
cf_report_write(struct cf_buf *to, json_t *result, const struct cf_report_style *style)
{
    struct cf_page page = {to, style->color, style->unicode, style->columns > 40 ? style->columns : 80};
    struct cf_report_shown shown = {.by_turn = cf_str_same(cf_json_str(result, "protocol"), "oneshot-v1")};
    bool is_green = cf_str_same(cf_json_str(result, "status"), "passed");
    json_t *checks = json_object_get(result, "checks");

    if (style->verbose >= 0) {
        put_head(&page, result);
        if (!is_green || style->verbose > 0)
            put_engine(&page, result);
        put_timeline(&page, result);
        put_proof(&page, result);
        (void)cf_buf_adds(to, "\n");
        put_group(&page, checks, "SETUP", &shown);
        put_group(&page, checks, "HANDSHAKE", &shown);
        put_group(&page, checks, "TURN", &shown);
        put_capabilities(&page, result, &shown);
        put_group(&page, checks, "TORTURE", &shown);
        put_teardown(&page, result, &shown);
        cf_report_findings(&page, result, style->verbose > 0 ? 100 : is_green ? 2 : 8, is_green && style->verbose == 0);
        if (!is_green || style->verbose > 0)
            cf_report_last_words(&page, result);
        (void)cf_buf_adds(to, "\n");
        cf_report_steps(&page, result, style);
    }
    put_verdict(&page, result);
}
