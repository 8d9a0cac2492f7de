/*
 * The result for eyes: one line a check with a measured fact, the verdict last and once. Grows
 * only on failure. Colour repeats what a mark and a word already say; every text that came from
 * outside is made one printable line before it is drawn.
 */
#include "diagnose/diagnose.h"

#include "base/buf.h"
#include "base/str.h"
#include "base/utf8.h"
#include "json/json.h"

#include <stdio.h>
#include <string.h>

#define INDENT 39 /* where a check's fact begins: group 13, mark 2, id 23 and a space */
#define DETAIL 15 /* where a failure's own lines begin */

struct page {
    struct cf_buf *to;
    const struct cf_report_style *style;
    int columns;
};

enum tone { PLAIN, GOOD, BAD, WARN, FAINT, BOLD };

static const char *
tone_code(const struct page *p, enum tone tone)
{
    static const char *const codes[] = {"", "\033[32m", "\033[31m", "\033[33m", "\033[2m", "\033[1m"};

    return p->style->color ? codes[tone] : "";
}

static const char *
tone_end(const struct page *p, enum tone tone)
{
    return p->style->color && tone != PLAIN ? "\033[0m" : "";
}

/* Code points, which is columns for all that we draw ourselves. */
static size_t
width_of(const char *text)
{
    size_t n = 0;

    for (; *text != '\0'; text++)
        n += ((unsigned char)*text & 0xc0) != 0x80;
    return n;
}

static void
clean_copy(char *to, size_t size, const char *text)
{
    (void)snprintf(to, size, "%s", text != NULL ? text : "");
    cf_utf8_make_line(to);
}

static const char *
glyph(const struct page *p, const char *fine, const char *plain)
{
    return p->style->unicode ? fine : plain;
}

/* Without UTF-8 every character outside ASCII becomes the nearest plain one, or '?'. */
static void
put_text(const struct page *p, const char *text)
{
    uint32_t code;
    size_t len = strlen(text);

    while (len > 0) {
        int n = cf_utf8_next(text, len, &code);
        if (n <= 0)
            n = 1;
        if (p->style->unicode || code < 0x80)
            (void)cf_buf_add(p->to, text, (size_t)n);
        else
            (void)cf_buf_adds(p->to, code == 0x2026 ? "..." : code == 0x2192 ? "->" : code == 0xb7 ? "|" : "?");
        text += n;
        len -= (size_t)n;
    }
}

static void
put_toned(const struct page *p, enum tone tone, const char *text)
{
    (void)cf_buf_adds(p->to, tone_code(p, tone));
    put_text(p, text);
    (void)cf_buf_adds(p->to, tone_end(p, tone));
}

/* How much of `text` fits into `room` columns: up to a space where there is one. */
static size_t
fitting(const char *text, size_t room)
{
    size_t at = 0, columns = 0, space = 0;

    while (text[at] != '\0' && columns < room) {
        uint32_t code;
        int n = cf_utf8_next(text + at, strlen(text + at), &code);
        if (text[at] == ' ')
            space = at;
        at += n > 0 ? (size_t)n : 1;
        columns++;
    }
    if (text[at] == '\0' || text[at] == ' ' || space == 0)
        return at;
    return space;
}

/* Text wrapped at spaces: its first line goes on at column `at`, the others begin at `indent`. */
static void
put_wrapped(const struct page *p, int at, int indent, enum tone tone, const char *text)
{
    for (;;) {
        size_t n = fitting(text, p->columns > at + 10 ? (size_t)(p->columns - at) : 40);
        char line[1024];
        (void)snprintf(line, sizeof line, "%.*s", (int)n, text);
        put_toned(p, tone, line);
        (void)cf_buf_adds(p->to, "\n");
        text += n;
        while (*text == ' ')
            text++;
        if (*text == '\0')
            return;
        (void)cf_buf_addf(p->to, "%*s", indent, "");
        at = indent;
    }
}

/* ---- head ------------------------------------------------------------------------------- */

static void
put_head(const struct page *p, json_t *result)
{
    char left[160], name[64];
    static const char label[] = "UNSIGNED LOCAL ONLY";
    int gap;

    clean_copy(name, sizeof name, cf_json_str(result, "name"));
    (void)snprintf(left, sizeof left, "cfrunner test oci  %s  %s", name, cf_json_str(result, "protocol"));
    gap = p->columns - (int)width_of(left) - (int)sizeof label + 1;
    put_toned(p, BOLD, left);
    (void)cf_buf_addf(p->to, "%*s", gap > 1 ? gap : 2, "");
    put_toned(p, FAINT, label);
    (void)cf_buf_adds(p->to, "\n");
}

static void
put_timeline(const struct page *p, json_t *result)
{
    static const char *const phases[][2] = {{"engine", "engine"},   {"image", "image"}, {"sandbox", "sandbox"},
                                            {"session", "session"}, {"turn", "turn"},   {"teardown", "down"}};
    json_t *timings = cf_json_obj(result, "timings_ms");
    char line[200] = "";

    for (size_t i = 0; i < CF_COUNT(phases); i++) {
        json_t *ms = json_object_get(timings, phases[i][0]);
        if (json_integer_value(ms) == 0)
            continue; /* not reached, or too short to see */
        (void)snprintf(line + strlen(line), sizeof line - strlen(line), "%s%s %lld", *line ? " \xc2\xb7 " : "",
                       phases[i][1], (long long)json_integer_value(ms));
    }
    (void)snprintf(line + strlen(line), sizeof line - strlen(line), " ms");
    (void)cf_buf_adds(p->to, " timeline    ");
    put_wrapped(p, 13, 13, PLAIN, line);
}

static void
put_proof(const struct page *p, json_t *result)
{
    json_t *totals = cf_json_obj(result, "model_totals"), *engine = cf_json_obj(result, "engine");
    size_t left = json_array_size(json_object_get(cf_json_obj(result, "teardown"), "left"));
    char line[240], version[64];

    if (engine != NULL) {
        clean_copy(version, sizeof version, cf_json_str(engine, "version"));
        (void)snprintf(line, sizeof line, "%s %s, API %s, %s", cf_json_bool(engine, "podman", false) ? "Podman" : "Docker",
                       version, cf_json_str(engine, "api_version"), cf_json_str(engine, "endpoint"));
        cf_utf8_make_line(line);
        (void)cf_buf_adds(p->to, " engine      ");
        put_wrapped(p, 13, 13, PLAIN, line);
    }
    (void)snprintf(line, sizeof line, "relay %lld served, %lld refused \xc2\xb7 %lld\xe2\x86\x92%lld tok \xc2\xb7 %zu left \xc2\xb7 %.2f s",
                   (long long)cf_json_int(totals, "served", 0), (long long)cf_json_int(totals, "refused", 0),
                   (long long)cf_json_int(totals, "input_tokens", 0), (long long)cf_json_int(totals, "output_tokens", 0),
                   left, (double)cf_json_int(cf_json_obj(result, "timings_ms"), "total", 0) / 1000.0);
    (void)cf_buf_adds(p->to, " proof       ");
    put_wrapped(p, 13, 13, PLAIN, line);
}

/* What the harness says of itself beyond the envelope, and what of it was seen. */
static void
put_axes(const struct page *p, json_t *result)
{
    json_t *declared = cf_json_obj(result, "declared"), *axis;
    char line[200] = "";
    size_t i;

    json_array_foreach(json_object_get(declared, "axes"), i, axis)
    {
        if (!cf_json_bool(axis, "declared", false))
            continue;
        (void)snprintf(line + strlen(line), sizeof line - strlen(line), "%s%s %s", *line ? " \xc2\xb7 " : "",
                       cf_json_str(axis, "axis"),
                       cf_json_bool(axis, "proven", false)      ? "proven"
                       : cf_json_bool(axis, "exercised", false) ? "exercised, not proven"
                                                                : "not exercised");
    }
    if (*line == '\0')
        return;
    (void)cf_buf_adds(p->to, " declared    ");
    put_wrapped(p, 13, 13, PLAIN, line);
}

/* ---- checks ----------------------------------------------------------------------------- */

static const struct {
    const char *id, *group;
} groups[] = {
    {"image_resolved", "SETUP"},         {"sandbox_provisioned", "SETUP"},
    {"initialize_handshake", "HANDSHAKE"}, {"session_start", "HANDSHAKE"},
    {"ready_handshake", "HANDSHAKE"},    {"prompt_exchange", "TURN"},
    {"process_exchange", "TURN"},        {"prompt_transport", "TURN"},
    {"output_mode", "TURN"},             {"model_plane_reached", "TURN"},
    {"observations_normalized", "TURN"}, {"tool_correlation", "TURN"},
    {"terminal_observation", "TURN"},    {"resume", "CAPABILITY"},
    {"output_schema", "CAPABILITY"},     {"steering_correlation", "CAPABILITY"},
    {"steering_delivered", "CAPABILITY"}, {"cooperative_interrupt_drained", "CAPABILITY"},
    {"subagent_correlation", "CAPABILITY"}, {"execution_locus", "CAPABILITY"}, {"torture", "TORTURE"},
    {"teardown_drained", "TEARDOWN"},
};

static void
put_check(const struct page *p, json_t *check, const char *group)
{
    const char *id = cf_json_str(check, "id"), *status = cf_json_str(check, "status"),
               *fix = cf_json_str(check, "fix");
    bool is_good = cf_str_same(status, "passed"), is_bad = cf_str_same(status, "failed"), is_long;
    char summary[520], head[64];
    int at;

    clean_copy(summary, sizeof summary, cf_json_str(check, "summary"));
    (void)snprintf(head, sizeof head, " %-11s ", group);
    (void)cf_buf_adds(p->to, head);
    put_toned(p, is_good ? GOOD : is_bad ? BAD : WARN,
              is_good  ? glyph(p, "\xe2\x9c\x93", "+")
              : is_bad ? glyph(p, "\xe2\x9c\x97", "x")
                       : glyph(p, "\xe2\x80\x93", "-"));
    at = strlen(id) > 23 ? (int)strlen(id) + 16 : INDENT;
    is_long = is_bad && at + (int)width_of(summary) > p->columns;
    (void)cf_buf_addf(p->to, is_long ? " %s" : " %-23s ", id);
    if (!is_good && !is_bad) {
        char skipped[560];
        (void)snprintf(skipped, sizeof skipped, "skipped: %s", summary);
        put_wrapped(p, at, INDENT, FAINT, skipped);
    } else if (is_long) { /* grows on failure, and only then */
        (void)cf_buf_addf(p->to, "\n%*s", DETAIL, "");
        put_wrapped(p, DETAIL, DETAIL, BAD, summary);
    } else {
        put_wrapped(p, at, INDENT, is_bad ? BAD : PLAIN, summary);
    }
    if (is_bad && fix != NULL && *fix != '\0') {
        char line[400];
        (void)snprintf(line, sizeof line, "fix: %s", fix);
        cf_utf8_make_line(line);
        (void)cf_buf_addf(p->to, "%*s", DETAIL, "");
        put_wrapped(p, DETAIL, DETAIL, BOLD, line);
    }
}

static void
put_checks(const struct page *p, json_t *result)
{
    const char *shown = "";

    (void)cf_buf_adds(p->to, "\n");
    for (size_t g = 0; g < CF_COUNT(groups); g++) {
        json_t *check;
        size_t i;
        json_array_foreach(json_object_get(result, "checks"), i, check)
        {
            if (!cf_str_same(cf_json_str(check, "id"), groups[g].id))
                continue;
            put_check(p, check, strcmp(shown, groups[g].group) == 0 ? "" : groups[g].group);
            shown = groups[g].group;
        }
    }
}

/* One kind by its name, several by their number. */
static void
put_kind(char *line, size_t size, json_t *removed, const char *kind)
{
    const char *name = NULL, *id;
    json_t *item;
    size_t i, count = 0;
    char shown[28];

    json_array_foreach(removed, i, item)
    {
        if (!cf_str_same(cf_json_str(item, "kind"), kind))
            continue;
        id = cf_json_str(item, "name");
        name = id != NULL && *id != '\0' ? id : cf_json_str(item, "id");
        count++;
    }
    if (count == 0)
        return;
    clean_copy(shown, sizeof shown, name);
    if (count == 1)
        (void)snprintf(line + strlen(line), size - strlen(line), "%s%s %s", *line ? ", " : "", kind, shown);
    else
        (void)snprintf(line + strlen(line), size - strlen(line), "%s%zu %ss", *line ? ", " : "", count, kind);
}

static void
put_removed(const struct page *p, json_t *result)
{
    static const char *const kinds[] = {"container", "volume", "network", "image", "registry"};
    json_t *teardown = cf_json_obj(result, "teardown"), *item;
    char line[300] = "";
    size_t i;

    for (i = 0; i < CF_COUNT(kinds); i++)
        put_kind(line, sizeof line, json_object_get(teardown, "removed"), kinds[i]);
    if (*line != '\0') {
        (void)cf_buf_addf(p->to, "%*s", INDENT, "");
        put_wrapped(p, INDENT, INDENT, FAINT, line);
    }
    json_array_foreach(json_object_get(teardown, "left"), i, item)
    {
        char left[400];
        (void)snprintf(left, sizeof left, "left: %s %s; remove it with: %s", cf_json_str(item, "kind"),
                       cf_json_str(item, "id"), cf_json_str(item, "remove") ? cf_json_str(item, "remove") : "cfrunner reap");
        cf_utf8_make_line(left);
        (void)cf_buf_addf(p->to, "%*s", INDENT, "");
        put_wrapped(p, INDENT, INDENT, BAD, left);
    }
}

/* ---- what helps to understand a failure --------------------------------------------------- */

static void
put_findings(const struct page *p, json_t *result, size_t most)
{
    json_t *finding;
    size_t i, count = json_array_size(json_object_get(result, "findings"));

    json_array_foreach(json_object_get(result, "findings"), i, finding)
    {
        char line[600], text[400];
        if (i >= most)
            break;
        clean_copy(text, sizeof text, cf_json_str(finding, "text"));
        (void)snprintf(line, sizeof line, "%s (%lld): %s", cf_json_str(finding, "id"),
                       (long long)cf_json_int(finding, "frame", 0), text);
        (void)cf_buf_addf(p->to, " %-11s ", i == 0 ? "FINDINGS" : "");
        put_toned(p, WARN, "! ");
        put_wrapped(p, 15, 15, PLAIN, line);
    }
    if (count > most)
        (void)cf_buf_addf(p->to, "%13s  and %zu more in the JSON result\n", "", count - most);
}

static void
put_tail(const struct page *p, const char *title, const char *text)
{
    if (text == NULL || *text == '\0')
        return;
    (void)cf_buf_addf(p->to, " %s\n", title);
    while (*text != '\0') {
        size_t n = strcspn(text, "\n");
        char line[400];
        (void)snprintf(line, sizeof line, "%.*s", (int)(n < 390 ? n : 390), text);
        cf_utf8_make_line(line);
        (void)cf_buf_adds(p->to, "   ");
        put_toned(p, FAINT, line);
        (void)cf_buf_adds(p->to, "\n");
        text += n;
        if (*text == '\n')
            text++;
    }
}

static void
put_next(const struct page *p, json_t *result)
{
    static const char *const names[][2] = {{"retest", "publish, then"}, {"add", "next"}, {"verify", "then"},
                                           {"verify_template", "then (fill in)"}};
    json_t *steps = cf_json_obj(result, "next_steps");

    if (json_object_size(steps) == 0)
        return;
    (void)cf_buf_adds(p->to, "\n");
    for (size_t i = 0; i < CF_COUNT(names); i++) {
        const char *shell = cf_json_str(cf_json_obj(steps, names[i][0]), "shell");
        if (shell == NULL)
            continue;
        (void)cf_buf_addf(p->to, " %s: ", names[i][1]);
        if (p->style->verbose > 0 || strlen(shell) < (size_t)p->columns - 20)
            put_wrapped(p, 17, 3, PLAIN, shell);
        else
            put_wrapped(p, 17, 3, PLAIN, "the exact command is in the result (--json, next_steps)");
    }
}

static void
put_verdict(const struct page *p, json_t *result)
{
    const char *status = cf_json_str(result, "status");
    json_t *check;
    size_t i, n[3] = {0}, total = json_array_size(json_object_get(result, "checks"));
    char line[200];
    bool is_green = cf_str_same(status, "passed");

    json_array_foreach(json_object_get(result, "checks"), i, check)
    {
        const char *s = cf_json_str(check, "status");
        n[cf_str_same(s, "passed") ? 0 : cf_str_same(s, "failed") ? 1 : 2]++;
    }
    put_toned(p, is_green ? GOOD : BAD, is_green ? " PASS " : cf_str_same(status, "failed") ? " FAIL " : " ERROR ");
    (void)snprintf(line, sizeof line, " %zu of %zu proven \xc2\xb7 %zu failed \xc2\xb7 %zu skipped \xc2\xb7 blame: %s \xc2\xb7 exit %lld",
                   n[0], total, n[1], n[2], cf_json_str(result, "blame"), (long long)cf_json_int(result, "exit_code", 4));
    put_text(p, line);
    (void)cf_buf_adds(p->to, "\n");
}

void
cf_report_write(struct cf_buf *to, json_t *result, const struct cf_report_style *style)
{
    struct page page = {to, style, style->columns > 40 ? style->columns : 80};
    bool is_green = cf_str_same(cf_json_str(result, "status"), "passed");

    if (style->verbose >= 0) {
        put_head(&page, result);
        put_proof(&page, result);
        put_timeline(&page, result);
        put_axes(&page, result);
        put_checks(&page, result);
        put_removed(&page, result);
        put_findings(&page, result, style->verbose > 0 ? 100 : is_green ? 2 : 8);
        if (!is_green || style->verbose > 0) {
            put_tail(&page, "last words (stderr)", cf_json_str(cf_json_obj(result, "harness"), "stderr_tail"));
            put_tail(&page, "last lines of the build", cf_json_str(result, "failure_tail"));
        }
        put_next(&page, result);
        (void)cf_buf_adds(to, "\n");
    }
    put_verdict(&page, result);
}
