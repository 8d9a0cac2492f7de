/* What a report shows beside its lines: evidence, capabilities, findings, last words, next steps. */
#include "diagnose/report_parts.h"

#include "base/str.h"
#include "json/json.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>

/* ---- evidence -------------------------------------------------------------------------------- */

/* "f17", or "t2f1" for a line of a later turn where each turn counts anew. */
static void
frame_name(json_t *item, bool by_turn, char *out, size_t size)
{
    long long frame = (long long)cf_json_int(item, "frame", 0), turn = (long long)cf_json_int(item, "turn", 0);

    if (by_turn && turn > 1)
        (void)snprintf(out, size, "t%lldf%lld", turn, frame);
    else
        (void)snprintf(out, size, "f%lld", frame);
}

/* Frames that follow on one another are one reference: f1-2. */
void
cf_report_refs(json_t *check, bool by_turn, char *out, size_t size, int room)
{
    json_t *item;
    json_int_t first = 0, last = 0, turn = 0;
    size_t i, start = 0;

    out[0] = '\0';
    json_array_foreach(json_object_get(check, "evidence"), i, item)
    {
        json_int_t frame = cf_json_int(item, "frame", 0), call = cf_json_int(item, "call", 0);
        bool is_next = frame != 0 && frame == last + 1 && last != 0 && cf_json_int(item, "turn", 0) == turn;
        char name[40], ref[96];
        if ((frame == 0 && call == 0) ||
            (frame != 0 && frame >= first && frame <= last && cf_json_int(item, "turn", 0) == turn))
            continue;
        if (frame == 0) {
            (void)snprintf(ref, sizeof ref, "%sr%lld", *out != '\0' ? " " : "", (long long)call);
            is_next = false;
        } else {
            frame_name(item, by_turn, name, sizeof name);
            (void)snprintf(ref, sizeof ref, "%s%s", *out != '\0' ? " " : "", name);
        }
        if (is_next && start < strlen(out)) { /* the reference that it goes on stands last */
            json_t *begin = json_pack("{s:I, s:I}", "frame", first, "turn", turn);
            frame_name(begin, by_turn, name, sizeof name);
            json_decref(begin);
            (void)snprintf(ref, sizeof ref, "%s%s-%lld", start > 0 ? " " : "", name, (long long)frame);
            if ((int)(start + strlen(ref)) <= room && start + strlen(ref) < size)
                (void)strcpy(out + start, ref);
            last = frame;
            continue;
        }
        if (strlen(out) + strlen(ref) >= size || (int)(strlen(out) + strlen(ref)) > room)
            return;
        start = frame != 0 ? strlen(out) : SIZE_MAX; /* a call ends a row of frames */
        (void)strcat(out, ref);
        if (frame != 0) {
            first = last = frame;
            turn = cf_json_int(item, "turn", 0);
        }
    }
}

static bool
was_shown(struct cf_report_shown *shown, uint64_t frame, unsigned turn)
{
    for (size_t i = 0; i < shown->count; i++)
        if (shown->frames[i] == frame && shown->turns[i] == turn)
            return true;
    if (shown->count < CF_COUNT(shown->frames)) {
        shown->frames[shown->count] = frame;
        shown->turns[shown->count++] = turn;
    }
    return false;
}

/*  f17  1.204 s <- session/update tool_call
 *       {"sessionUpdate":"tool_call",...            */
static void
put_frame(const struct cf_page *p, json_t *item, int indent, struct cf_report_shown *shown)
{
    const char *what = cf_json_str(item, "what"), *text = cf_json_str(item, "text"), *note = cf_json_str(item, "note");
    uint64_t frame = (uint64_t)cf_json_int(item, "frame", 0);
    unsigned turn = (unsigned)cf_json_int(item, "turn", 0);
    char head[80], name[40];
    int used;

    if (text == NULL || was_shown(shown, frame, turn))
        return;
    (void)cf_draw_pad(p, indent);
    frame_name(item, shown->by_turn, name, sizeof name);
    (void)snprintf(head, sizeof head, "%-6s %7.3f s ", name, (double)cf_json_int(item, "at_ms", 0) / 1000.0);
    used = indent + (int)cf_draw(p, CF_BOLD, head);
    used += (int)cf_draw_mark(p, cf_str_same(cf_json_str(item, "from"), "driver") ? CF_MARK_OUT : CF_MARK_IN);
    if (what != NULL && *what != '\0')
        used += (int)cf_draw_pad(p, 1) + (int)cf_draw(p, CF_PLAIN, what);
    if (note != NULL && used + 8 < p->columns) {
        (void)cf_draw_pad(p, what != NULL && *what != '\0' ? 2 : 1);
        (void)cf_draw_cut(p, CF_FAINT, note, (size_t)(p->columns - used - 2));
    }
    (void)cf_buf_adds(p->to, "\n");
    (void)cf_draw_pad(p, indent + 7);
    cf_draw_rows(p, indent + 7, CF_PLAIN, text, 2);
}

static void
put_call(const struct cf_page *p, json_t *item, int indent)
{
    char head[64];
    int used;

    (void)cf_draw_pad(p, indent);
    (void)snprintf(head, sizeof head, "r%-5lld %7.3f s ", (long long)cf_json_int(item, "call", 0),
                   (double)cf_json_int(item, "at_ms", 0) / 1000.0);
    used = indent + (int)cf_draw(p, CF_BOLD, head);
    used += (int)cf_draw_mark(p, CF_MARK_CALL) + (int)cf_draw_pad(p, 1);
    (void)cf_draw_cut(p, CF_PLAIN, cf_json_str(item, "text"), p->columns > used ? (size_t)(p->columns - used) : 0);
    (void)cf_buf_adds(p->to, "\n");
}

static void
put_word(const struct cf_page *p, const char *word, enum cf_tone tone, const char *text, int indent)
{
    (void)cf_draw_pad(p, indent);
    (void)cf_draw(p, CF_FAINT, word);
    (void)cf_draw_pad(p, 7 - (int)strlen(word));
    cf_draw_wrapped(p, indent + 7, indent + 7, tone, text);
}

void
cf_report_failure(const struct cf_page *p, json_t *check, int indent, struct cf_report_shown *shown)
{
    const char *rule = cf_json_str(check, "rule"), *fix = cf_json_str(check, "fix");
    json_t *item;
    size_t i;

    json_array_foreach(json_object_get(check, "evidence"), i, item)
    {
        if (json_object_get(item, "frame") != NULL)
            put_frame(p, item, indent, shown);
        else if (json_object_get(item, "call") != NULL)
            put_call(p, item, indent);
    }
    if (rule != NULL)
        put_word(p, "rule:", CF_PLAIN, rule, indent);
    if (fix == NULL || *fix == '\0')
        return;
    for (i = 0; i < shown->fix_count && !cf_str_same(fix, shown->fixes[i]); i++) {}
    put_word(p, "fix:", CF_BOLD, i < shown->fix_count ? "as above" : fix, indent);
    if (i == shown->fix_count && i < CF_COUNT(shown->fixes))
        shown->fixes[shown->fix_count++] = fix;
}

/* ---- capabilities ------------------------------------------------------------------------------- */

void
cf_report_capability(json_t *result, json_t *check, struct cf_report_capability *ret)
{
    static const struct {
        const char *check, *name, *axis, *member, *flag;
    } rows[] = {
        {"subagent_correlation", "subagents", "subagents", "subagents", NULL},
        {"steering_delivered", "mid_run_input", "mid_run_input", "steer", NULL},
        {"steering_correlation", "steer acks", "mid_run_input", "steer", NULL},
        {"cooperative_interrupt_drained", "interrupt", "interrupt", "interrupt", NULL},
        {"resume", "resume", NULL, NULL, "resume_flag"},
        {"output_schema", "output_schema", NULL, NULL, "output_schema_flag"},
    };
    const char *id = cf_json_str(check, "id"), *value = NULL;
    json_t *declared = cf_json_obj(result, "declared"), *axis;
    size_t i;

    *ret = (struct cf_report_capability){.name = id, .declared = "no", .text = cf_json_str(check, "summary")};
    for (size_t k = 0; k < CF_COUNT(rows); k++) {
        if (!cf_str_same(rows[k].check, id))
            continue;
        ret->name = rows[k].name;
        value = rows[k].member != NULL ? cf_json_str(cf_json_obj(declared, "capabilities"), rows[k].member)
                                       : cf_json_str(cf_json_obj(declared, "release"), rows[k].flag);
        ret->is_exercised = rows[k].flag != NULL && !cf_str_same(cf_json_str(check, "status"), "skipped");
        json_array_foreach(json_object_get(declared, "axes"), i, axis)
            if (rows[k].axis != NULL && cf_str_same(cf_json_str(axis, "axis"), rows[k].axis))
                ret->is_exercised = cf_json_bool(axis, "exercised", false);
    }
    if (value != NULL)
        ret->declared = value;
    if (cf_str_same(ret->text, "not declared, members absent")) /* the first column says the half of it */
        ret->text += strlen("not declared, ");
    ret->is_folded = cf_str_same(id, "steering_correlation") && cf_str_same(cf_json_str(check, "status"), "passed");
}

/* ---- what helps to understand -------------------------------------------------------------------- */

void
cf_report_findings(const struct cf_page *p, json_t *result, size_t most, bool is_short)
{
    json_t *finding;
    size_t i, count = json_array_size(json_object_get(result, "findings"));

    json_array_foreach(json_object_get(result, "findings"), i, finding)
    {
        json_int_t frame = cf_json_int(finding, "frame", 0);
        char line[600], where[32] = "";
        if (i >= most)
            break;
        if (frame != 0)
            (void)snprintf(where, sizeof where, " (f%lld)", (long long)frame);
        (void)snprintf(line, sizeof line, "%s%s: %.400s", cf_json_str(finding, "id"), where, cf_json_str(finding, "text"));
        (void)cf_buf_addf(p->to, " %-11s ", i == 0 ? "FINDINGS" : "");
        (void)cf_draw_mark(p, CF_MARK_NOTE);
        (void)cf_buf_adds(p->to, " ");
        if (is_short)
            cf_draw_rows(p, 15, CF_PLAIN, line, 1);
        else
            cf_draw_wrapped(p, 15, 15, CF_PLAIN, line);
    }
    if (count > most)
        (void)cf_buf_addf(p->to, "%13s  and %zu more in the JSON result\n", "", count - most);
}

static void
put_tail(const struct cf_page *p, const char *title, const char *text)
{
    if (text == NULL || *text == '\0')
        return;
    (void)cf_buf_addf(p->to, " %s\n", title);
    while (*text != '\0') {
        size_t n = strcspn(text, "\n");
        char line[400];
        (void)snprintf(line, sizeof line, "%.*s", (int)(n < 390 ? n : 390), text);
        (void)cf_draw_pad(p, 3);
        (void)cf_draw_cut(p, CF_FAINT, line, (size_t)p->columns - 3);
        (void)cf_buf_adds(p->to, "\n");
        text += n;
        if (*text == '\n')
            text++;
    }
}

void
cf_report_last_words(const struct cf_page *p, json_t *result)
{
    put_tail(p, "last words (stderr)", cf_json_str(cf_json_obj(result, "harness"), "stderr_tail"));
    put_tail(p, "last lines of the build", cf_json_str(result, "failure_tail"));
}

/* How the first check that failed is told in full. */
static void
put_why(const struct cf_page *p, json_t *result, const struct cf_report_style *style)
{
    json_t *check;
    struct cf_buf line = {0};
    size_t i;

    json_array_foreach(json_object_get(result, "checks"), i, check)
    {
        if (!cf_str_same(cf_json_str(check, "status"), "failed"))
            continue;
        (void)cf_buf_addf(&line, "%scfrunner why %s ", style->record != NULL ? "" : "the same with --record run.cfr, then ",
                          cf_json_str(check, "id"));
        cf_shell_quote(&line, style->record != NULL ? style->record : "run.cfr");
        (void)cf_buf_adds(p->to, " why: ");
        cf_draw_wrapped(p, 6, 6, CF_PLAIN, line.data);
        cf_buf_release(&line);
        return;
    }
}

void
cf_report_steps(const struct cf_page *p, json_t *result, const struct cf_report_style *style)
{
    static const char *const names[][2] = {{"retest", "publish, then"}, {"add", "next"}, {"verify", "then"},
                                           {"verify_template", "then (fill in)"}};
    json_t *steps = cf_json_obj(result, "next_steps");

    put_why(p, result, style);
    for (size_t i = 0; i < CF_COUNT(names); i++) {
        const char *shell = cf_json_str(cf_json_obj(steps, names[i][0]), "shell");
        if (shell == NULL)
            continue;
        (void)cf_buf_addf(p->to, " %s: ", names[i][1]);
        if (style->verbose > 0 || strlen(shell) < (size_t)p->columns - 20)
            cf_draw_wrapped(p, 17, 3, CF_PLAIN, shell);
        else
            cf_draw_wrapped(p, 17, 3, CF_PLAIN, "the exact command is in the result (--json, next_steps)");
    }
}
