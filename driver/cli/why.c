/*
 * cfrunner why CHECK|FRAME [RECORDING]: the story of one check or one frame: what must be so, what was
 * seen, what it rests on, and what happened around it. Reads a recording; needs no engine.
 */
#include "cli/commands.h"
#include "cli/flags.h"
#include "cli/screen.h"
#include "cli/story.h"

#include "base/buf.h"
#include "base/str.h"
#include "diagnose/draw.h"
#include "diagnose/trail.h"
#include "json/json.h"

#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define AROUND 3    /* events before and after one that is told */
#define ROWS 6u     /* lines of a text that a check rests on */
#define PRETTY 200u /* lines of the one that was asked for */

struct flags {
    bool plain, help, help_all;
};

struct teller {
    struct cf_story story;
    struct cf_page page;
    json_t *checks;
    bool *is_told; /* by event: it is one of those that the question is about */
};

/* ---- one event, one line (or a few) ----------------------------------------------------------- */

static size_t
put_head(const struct teller *t, char letter, const struct cf_event *event, bool is_it)
{
    char head[96], name[64] = "";
    size_t used = cf_draw(&t->page, is_it ? CF_BOLD : CF_PLAIN, is_it ? " > " : "   ");

    if (letter == 'f' && t->story.is_oneshot && event->turn > 1)
        (void)snprintf(name, sizeof name, "t%uf%llu", event->turn, (unsigned long long)event->number);
    else if (letter != ' ')
        (void)snprintf(name, sizeof name, "%c%llu", letter, (unsigned long long)event->number);
    (void)snprintf(head, sizeof head, "%-7s %8.3f s ", name, (double)event->at_ms / 1000.0);
    return used + cf_draw(&t->page, is_it ? CF_BOLD : CF_PLAIN, head);
}

static void
put_rest(const struct teller *t, size_t used, const char *label, const char *text)
{
    bool has_label = label != NULL && *label != '\0';

    if (has_label)
        used += cf_draw_cut(&t->page, CF_PLAIN, label, t->page.columns > (int)used ? (size_t)t->page.columns - used : 0);
    if (has_label && *text != '\0')
        used += cf_draw_pad(&t->page, 2);
    if ((int)used < t->page.columns && *text != '\0')
        (void)cf_draw_cut(&t->page, CF_FAINT, text, (size_t)t->page.columns - used);
    (void)cf_buf_adds(t->page.to, "\n");
}

static void
put_frame(const struct teller *t, const struct cf_event *event, bool is_it)
{
    char what[80], text[600];
    size_t used = put_head(t, 'f', event, is_it);

    used += cf_draw_mark(&t->page, event->from_harness ? CF_MARK_IN : CF_MARK_OUT) + cf_draw_pad(&t->page, 1);
    cf_glance(event->text, event->len, (size_t)event->total, what, sizeof what, text, sizeof text);
    put_rest(t, used, what, text);
}

static void
put_observation(const struct teller *t, const struct cf_event *event, bool is_it)
{
    json_t *root = cf_json_parse(event->text, event->len, NULL, &(struct cf_error){0});
    char *payload = json_dumps(json_object_get(root, "payload"), JSON_COMPACT);
    const char *type = cf_json_str(root, "type");
    size_t used = put_head(t, 'o', event, is_it);

    used += cf_draw_pad(&t->page, 2);
    put_rest(t, used, type != NULL ? type : "observation", payload != NULL ? payload : event->text);
    free(payload);
    json_decref(root);
}

static void
put_call(const struct teller *t, const struct cf_event *event, bool is_it)
{
    json_t *call = cf_json_parse(event->text, event->len, NULL, &(struct cf_error){0});
    const char *refused = cf_json_str(call, "refused");
    char label[240], text[200];
    size_t used = put_head(t, 'r', event, is_it);

    used += cf_draw_mark(&t->page, CF_MARK_CALL) + cf_draw_pad(&t->page, 1);
    (void)snprintf(label, sizeof label, "%.16s %.160s", cf_json_str(call, "method"), cf_json_str(call, "path"));
    (void)snprintf(text, sizeof text, "%s%.60s, %lld\xe2\x86\x92%lld tok, nonce %s",
                   refused != NULL ? "refused: " : "served", refused != NULL ? refused : "",
                   (long long)cf_json_int(call, "input_tokens", 0),
                   (long long)cf_json_int(call, "output_tokens", 0),
                   cf_json_bool(call, "nonce_seen", false) ? "seen" : "not seen");
    put_rest(t, used, label, text);
    json_decref(call);
}

static void
put_other(const struct teller *t, const struct cf_event *event, bool is_it)
{
    json_t *row = cf_json_parse(event->text, event->len, NULL, &(struct cf_error){0});
    const char *step = cf_json_str(row, "step");
    char label[120], text[400] = "";
    size_t used = put_head(t, ' ', event, is_it);

    if (event->kind == CF_EVENT_FINDING) {
        used += cf_draw_mark(&t->page, CF_MARK_NOTE) + cf_draw_pad(&t->page, 1);
        (void)snprintf(label, sizeof label, "%.60s", cf_json_str(row, "id"));
        (void)snprintf(text, sizeof text, "%.390s", cf_json_str(row, "text"));
    } else {
        used += cf_draw_pad(&t->page, 2);
        (void)snprintf(label, sizeof label, "phase %.40s%s%.40s %s", cf_json_str(row, "name"),
                       step != NULL && *step != '\0' ? "." : "", step != NULL ? step : "",
                       json_is_integer(json_object_get(row, "took_ms")) ? "ends" : "begins");
    }
    put_rest(t, used, label, text);
    json_decref(row);
}

static void
put_event(const struct teller *t, size_t i, bool is_it)
{
    const struct cf_event *event = &t->story.events[i];

    switch (event->kind) {
    case CF_EVENT_FRAME:
        put_frame(t, event, is_it);
        break;
    case CF_EVENT_OBSERVATION:
        put_observation(t, event, is_it);
        break;
    case CF_EVENT_CALL:
        put_call(t, event, is_it);
        break;
    default:
        put_other(t, event, is_it);
        break;
    }
}

/* ---- what happened around it ---------------------------------------------------------------------- */

/* A step of a phase is of no interest here; the phases are. */
static bool
is_step(const struct cf_event *event)
{
    return event->kind == CF_EVENT_PHASE && strstr(event->text, "\"step\":\"\"") == NULL;
}

static void
put_around(const struct teller *t)
{
    size_t last = (size_t)-1;

    (void)cf_buf_adds(t->page.to, "\n");
    (void)cf_draw(&t->page, CF_BOLD, " what happened");
    (void)cf_buf_adds(t->page.to, "\n");
    for (size_t i = 0; i < t->story.count; i++) {
        bool is_near = false;
        for (size_t k = i > AROUND ? i - AROUND : 0; k <= i + AROUND && k < t->story.count; k++)
            is_near |= t->is_told[k];
        if (!is_near || (is_step(&t->story.events[i]) && !t->is_told[i]))
            continue;
        if (last != (size_t)-1 && i > last + 1) {
            (void)cf_draw_pad(&t->page, 3);
            (void)cf_draw(&t->page, CF_FAINT, "\xe2\x80\xa6");
            (void)cf_buf_adds(t->page.to, "\n");
        }
        put_event(t, i, t->is_told[i]);
        last = i;
    }
}

static void
put_word(const struct teller *t, const char *word, enum cf_tone tone, const char *text)
{
    if (text == NULL || *text == '\0')
        return;
    (void)cf_draw_pad(&t->page, 3);
    (void)cf_draw(&t->page, CF_FAINT, word);
    (void)cf_draw_pad(&t->page, 9 - (int)strlen(word));
    cf_draw_wrapped(&t->page, 12, 12, tone, text);
}

/* ---- a check --------------------------------------------------------------------------------------- */

static void
tell(struct teller *t, enum cf_event_kind kind, const json_t *item, const char *member)
{
    uint64_t number = (uint64_t)cf_json_int(item, member, 0);
    size_t i = number != 0 ? cf_story_find(&t->story, kind, (uint32_t)cf_json_int(item, "turn", 0), number)
                           : t->story.count;

    if (i < t->story.count)
        t->is_told[i] = true;
}

/* "f6", "r1", "o4", "/image/digest", or the check that this one waited for. */
static void
name_item(const json_t *item, char *out, size_t size)
{
    static const struct {
        const char *member;
        char letter;
    } numbered[] = {{"frame", 'f'}, {"call", 'r'}, {"seq", 'o'}};
    const char *fact = cf_json_str(item, "fact"), *check = cf_json_str(item, "check");

    (void)snprintf(out, size, "%.70s", fact != NULL ? fact : check != NULL ? check : "?");
    for (size_t i = 0; i < CF_COUNT(numbered); i++)
        if (json_object_get(item, numbered[i].member) != NULL)
            (void)snprintf(out, size, "%c%lld", numbered[i].letter, (long long)cf_json_int(item, numbered[i].member, 0));
}

static void
put_item(const struct teller *t, const json_t *item)
{
    const char *note = cf_json_str(item, "note"), *text = cf_json_str(item, "value");
    char name[80];
    int used;

    if (text == NULL)
        text = cf_json_str(item, "text") != NULL ? cf_json_str(item, "text") : cf_json_str(item, "type");
    name_item(item, name, sizeof name);
    used = (int)(cf_draw_pad(&t->page, 3) + cf_draw(&t->page, CF_BOLD, name));
    if (note != NULL) {
        used += (int)(cf_draw_pad(&t->page, used < 11 ? 12 - used : 1) + cf_draw(&t->page, CF_FAINT, note));
    }
    if (text == NULL || note != NULL || used > 11)
        (void)cf_buf_adds(t->page.to, "\n");
    if (text == NULL)
        return;
    (void)cf_draw_pad(&t->page, note != NULL || used > 11 ? 12 : 12 - used);
    cf_draw_rows(&t->page, 12, CF_PLAIN, text, ROWS);
}

static void
put_evidence(struct teller *t, const json_t *check)
{
    json_t *item;
    size_t i;

    (void)cf_buf_adds(t->page.to, "\n");
    (void)cf_draw(&t->page, CF_BOLD, " it rests on");
    (void)cf_buf_adds(t->page.to, "\n");
    json_array_foreach(json_object_get(check, "evidence"), i, item)
    {
        tell(t, CF_EVENT_FRAME, item, "frame");
        tell(t, CF_EVENT_CALL, item, "call");
        tell(t, CF_EVENT_OBSERVATION, item, "seq");
        put_item(t, item);
    }
}

static void
put_check(struct teller *t, const json_t *check)
{
    const char *status = cf_json_str(check, "status");
    char head[200];
    bool is_bad = cf_str_same(status, "failed");

    (void)cf_buf_adds(t->page.to, " ");
    (void)cf_draw_mark(&t->page, is_bad ? CF_MARK_BAD : cf_str_same(status, "passed") ? CF_MARK_GOOD : CF_MARK_SKIP);
    (void)snprintf(head, sizeof head, " %.60s  %.20s  %.20s", cf_json_str(check, "id"), status,
                   cf_json_str(check, "group") != NULL ? cf_json_str(check, "group") : "");
    (void)cf_draw(&t->page, CF_BOLD, head);
    (void)cf_buf_adds(t->page.to, "\n");
    put_word(t, "rule:", CF_PLAIN, cf_json_str(check, "rule"));
    put_word(t, is_bad ? "broken:" : "seen:", is_bad ? CF_BAD : CF_PLAIN, cf_json_str(check, "summary"));
    put_word(t, "fix:", CF_BOLD, cf_json_str(check, "fix"));
    put_evidence(t, check);
    for (size_t k = 0; k < t->story.count; k++)
        if (t->is_told[k]) {
            put_around(t);
            break;
        }
}

/* ---- a frame, a call, an observation ------------------------------------------------------------------ */

static void
put_pretty(const struct teller *t, const struct cf_event *event)
{
    json_t *value = cf_json_parse(event->text, event->len, NULL, &(struct cf_error){0});
    cf_auto_free char *text = value != NULL ? json_dumps(value, JSON_INDENT(2)) : strndup(event->text, event->len);
    char *left = text, *line;
    unsigned rows = 0;

    json_decref(value);
    while (left != NULL && (line = strsep(&left, "\n")) != NULL && rows++ < PRETTY) {
        (void)cf_draw_pad(&t->page, 3);
        cf_draw_rows(&t->page, 3, CF_PLAIN, line, ROWS);
    }
    if (left != NULL || event->total > event->len)
        (void)cf_draw(&t->page, CF_FAINT, "   \xe2\x80\xa6 the rest is in the recording\n");
    if (left != NULL || event->total > event->len)
        (void)cf_buf_adds(t->page.to, "\n");
}

static json_t *
message_of(const struct cf_event *event)
{
    return event->kind == CF_EVENT_FRAME ? cf_json_parse(event->text, event->len, NULL, &(struct cf_error){0}) : NULL;
}

/* The other half of a request and its answer: the nearest frame the other way with the same id. */
static void
put_other_half(struct teller *t, size_t at)
{
    const struct cf_event *event = &t->story.events[at];
    json_t *message = message_of(event), *id = json_object_get(message, "id");
    bool is_request = json_object_get(message, "method") != NULL;
    char text[120];

    for (size_t i = at; id != NULL && (is_request ? ++i < t->story.count : i-- > 0);) {
        const struct cf_event *other = &t->story.events[i];
        json_t *reply = other->from_harness != event->from_harness ? message_of(other) : NULL;
        bool is_it = json_equal(json_object_get(reply, "id"), id) &&
                     (json_object_get(reply, "method") != NULL) != is_request;
        json_decref(reply);
        if (!is_it)
            continue;
        t->is_told[i] = true;
        (void)snprintf(text, sizeof text, "f%llu, %.3f s %s", (unsigned long long)other->number,
                       (double)(is_request ? other->at_ms - event->at_ms : event->at_ms - other->at_ms) / 1000.0,
                       is_request ? "later" : "before");
        put_word(t, is_request ? "answer:" : "asked:", CF_PLAIN, text);
        break;
    }
    json_decref(message);
}

/* What was made of a frame: observations and findings; and the checks that rest on it. */
static void
put_consequences(struct teller *t, size_t at)
{
    const struct cf_event *event = &t->story.events[at];
    json_t *check, *item;
    size_t i, k;

    for (i = 0; event->kind == CF_EVENT_FRAME && i < t->story.count; i++) {
        const struct cf_event *other = &t->story.events[i];
        if (other->turn != event->turn && t->story.is_oneshot)
            continue;
        t->is_told[i] |= other->kind == CF_EVENT_OBSERVATION && other->from_frame == event->number;
        t->is_told[i] |= other->kind == CF_EVENT_FINDING && other->number == event->number;
    }
    json_array_foreach(t->checks, i, check)
    {
        static const char *const members[] = {
            [CF_EVENT_FRAME] = "frame", [CF_EVENT_OBSERVATION] = "seq", [CF_EVENT_CALL] = "call"};
        json_array_foreach(json_object_get(check, "evidence"), k, item)
        {
            char text[700];
            if ((uint64_t)cf_json_int(item, members[event->kind], 0) != event->number ||
                (t->story.is_oneshot && event->kind == CF_EVENT_FRAME && cf_json_int(item, "turn", 0) != event->turn))
                continue;
            (void)snprintf(text, sizeof text, "%s %s: %.500s", cf_json_str(check, "id"), cf_json_str(check, "status"),
                           cf_json_str(check, "summary"));
            put_word(t, "check:", cf_str_same(cf_json_str(check, "status"), "failed") ? CF_BAD : CF_PLAIN, text);
            break;
        }
    }
}

static void
put_one(struct teller *t, size_t at)
{
    put_event(t, at, true);
    put_pretty(t, &t->story.events[at]);
    t->is_told[at] = true;
    if (t->story.events[at].kind == CF_EVENT_FRAME)
        put_other_half(t, at);
    put_consequences(t, at);
    put_around(t);
}

/* ---- the question -------------------------------------------------------------------------------------- */

/* "f17", "17", "r1", "o4", and "t2f1": line 1 of a one-shot's turn 2; false: no such form. */
static bool
read_reference(const char *word, enum cf_event_kind *ret_kind, uint32_t *ret_turn, uint64_t *ret_number)
{
    uint64_t turn = 0;
    char digits[12];
    const char *f = *word == 't' ? strchr(word, 'f') : NULL;

    if (f != NULL && (size_t)(f - word) <= sizeof digits) {
        (void)snprintf(digits, sizeof digits, "%.*s", (int)(f - word - 1), word + 1);
        if (!cf_parse_u64(digits, 1, UINT32_MAX, &turn))
            return false;
        word = f;
    }
    *ret_turn = (uint32_t)turn;
    *ret_kind = *word == 'r' ? CF_EVENT_CALL : *word == 'o' ? CF_EVENT_OBSERVATION : CF_EVENT_FRAME;
    return cf_parse_u64(*word == 'f' || *word == 'r' || *word == 'o' ? word + 1 : word, 1, UINT64_MAX, ret_number);
}

static int
unknown(const struct teller *t, const char *word, struct cf_error *err)
{
    struct cf_buf names = {0};
    json_t *check;
    size_t i;

    json_array_foreach(t->checks, i, check)
        (void)cf_buf_addf(&names, "%s%s", i > 0 ? ", " : "", cf_json_str(check, "id"));
    (void)cf_error_set(err, CF_ERROR_CONFIG, 0, "the recording has no check, frame, call or observation %.60s", word);
    (void)cf_error_fix(err, "f1, r1 and o1 are the first frame, call and observation; checks: %.180s",
                       names.data != NULL ? names.data : "none");
    cf_buf_release(&names);
    return -1;
}

static int
answer(struct teller *t, const char *word, struct cf_error *err)
{
    enum cf_event_kind kind;
    uint32_t turn;
    uint64_t number;
    json_t *check;
    size_t i;

    json_array_foreach(t->checks, i, check)
        if (cf_str_same(cf_json_str(check, "id"), word)) {
            put_check(t, check);
            return 0;
        }
    if (read_reference(word, &kind, &turn, &number) && (i = cf_story_find(&t->story, kind, turn, number)) < t->story.count) {
        put_one(t, i);
        return 0;
    }
    return unknown(t, word, err);
}

/* The newest *.cfr of the current folder; yours. */
static char *
newest_recording(struct cf_error *err)
{
    glob_t found = {0};
    struct stat facts, best = {0};
    char *path = NULL;

    if (glob("*.cfr", 0, NULL, &found) == 0)
        for (size_t i = 0; i < found.gl_pathc; i++)
            if (stat(found.gl_pathv[i], &facts) == 0 && S_ISREG(facts.st_mode) &&
                (path == NULL || facts.st_mtim.tv_sec > best.st_mtim.tv_sec ||
                 (facts.st_mtim.tv_sec == best.st_mtim.tv_sec && facts.st_mtim.tv_nsec > best.st_mtim.tv_nsec))) {
                best = facts;
                path = found.gl_pathv[i];
            }
    path = path != NULL ? strdup(path) : NULL;
    globfree(&found);
    if (path == NULL) {
        (void)cf_error_set(err, CF_ERROR_CONFIG, 0, "there is no recording (*.cfr) in this folder");
        (void)cf_error_fix(err, "name one: cfrunner why CHECK FILE.cfr; test oci and run write one with --record FILE.cfr");
    }
    return path;
}

static int
tell_story(const char *word, const char *path, const struct flags *flags, struct cf_error *err)
{
    struct teller t = {.page = {0}};
    struct cf_screen screen;
    struct cf_buf bytes = {0};
    char note[320], head[800];
    int status = cf_story_read(&t.story, path, note, sizeof note, err);

    cf_screen_read(&screen, 1, flags->plain);
    t.page = (struct cf_page){&bytes, screen.color, screen.unicode, cf_screen_page(&screen)};
    if (status == 0) {
        t.checks = cf_story_checks(&t.story);
        t.is_told = calloc(t.story.count + 1, sizeof *t.is_told);
        status = t.is_told != NULL ? 0 : cf_error_memory(err);
    }
    if (status == 0) {
        (void)snprintf(head, sizeof head, "%.400s  %.20s%s%.300s", path,
                       cf_json_str(cf_replay_start(t.story.replay), "protocol"), *note != '\0' ? "  " : "", note);
        (void)cf_draw(&t.page, CF_FAINT, head);
        (void)cf_buf_adds(&bytes, "\n");
        status = answer(&t, word, err);
    }
    if (status == 0 && (bytes.failed || fwrite(bytes.data, 1, bytes.len, stdout) != bytes.len || fflush(stdout) != 0))
        status = cf_error_set(err, CF_ERROR_CONFIG, 0, "the story could not be written");
    cf_buf_release(&bytes);
    free(t.is_told);
    json_decref(t.checks);
    cf_story_release(&t.story);
    return status;
}

static const struct cf_flag table[] = {
    {"--plain", CF_FLAG_SWITCH, offsetof(struct flags, plain), NULL, "ASCII, no colour"},
    {"--help", CF_FLAG_SWITCH, offsetof(struct flags, help), NULL, "this"},
};

int
cf_cli_why(int argc, char **argv)
{
    struct flags flags = {0};
    struct cf_flag_list *rest = calloc(1, sizeof *rest);
    struct cf_error err = {0};
    cf_auto_free char *newest = NULL;
    int status = cf_error_memory(&err);

    if (rest != NULL)
        status = cf_flags_read(table, CF_COUNT(table), argc, argv, &flags, rest, &err);

    if (flags.help) {
        puts("usage: cfrunner why CHECK|FRAME [RECORDING]\n"
             "The story of a check (prompt_exchange), a frame (f17; a one-shot's line of turn\n"
             "2: t2f1), a relay call (r1) or an observation (o4): the rule, what was seen,\n"
             "what it rests on, what happened around it. RECORDING is a file of --record; else\n"
             "the newest *.cfr of this folder. Exit 0, or 2 when there is no such thing.");
        cf_flags_help(table, CF_COUNT(table), stdout);
        free(rest);
        return 0;
    }
    if (status == 0 && (rest->count < 1 || rest->count > 2)) {
        status = cf_error_set(&err, CF_ERROR_CONFIG, 0, "why takes a check or a frame, and a recording");
        (void)cf_error_fix(&err, "cfrunner why prompt_exchange run.cfr, or cfrunner why f17 run.cfr");
    }
    if (status == 0 && rest->count == 1 && (newest = newest_recording(&err)) == NULL)
        status = -1;
    if (status == 0)
        status = tell_story(rest->items[0], newest != NULL ? newest : rest->items[1], &flags, &err);
    free(rest);
    return status < 0 ? cf_cli_refuse(&err, 2, false) : 0;
}
