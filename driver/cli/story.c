/* A recording as a list of what happened. */
#include "cli/story.h"

#include "base/str.h"
#include "diagnose/rules.h"
#include "json/json.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EVENTS_MOST 200000u
#define TEXT_MOST (256u << 10)  /* of one event */
#define BYTES_MOST (128u << 20) /* of all; from then on each keeps TEXT_LEAST */
#define TEXT_LEAST 512u
#define LINE_LIMIT (1u << 20)

static struct cf_event *
add(struct cf_story *s, enum cf_event_kind kind, const char *text, size_t len)
{
    size_t most = s->bytes < BYTES_MOST ? TEXT_MOST : TEXT_LEAST, n = len < most ? len : most;
    struct cf_event *event;

    if (s->count == EVENTS_MOST) {
        s->dropped++;
        return NULL;
    }
    if (s->count == s->cap) {
        size_t cap = s->cap > 0 ? s->cap * 2 : 256;
        struct cf_event *grown = realloc(s->events, cap * sizeof *grown);
        if (grown == NULL) {
            s->has_no_memory = true;
            return NULL;
        }
        s->events = grown;
        s->cap = cap;
    }
    event = &s->events[s->count];
    *event = (struct cf_event){.kind = kind, .turn = s->turn, .at_ms = s->at_ms, .total = len, .len = n};
    event->text = malloc(n + 1);
    if (event->text == NULL) {
        s->has_no_memory = true;
        return NULL;
    }
    memcpy(event->text, text, n);
    event->text[n] = '\0';
    s->bytes += n;
    s->count++;
    return event;
}

static void
on_frame(void *user, bool from_harness, uint64_t number, const char *line, size_t len)
{
    struct cf_event *event = add(user, CF_EVENT_FRAME, line, len);

    if (event == NULL)
        return;
    event->from_harness = from_harness;
    event->number = number;
}

static void
on_line(void *user, const char *line, size_t len, uint64_t number, bool overflow)
{
    on_frame(user, true, number, line, len);
}

static void
on_observation(void *user, const struct cf_observation *o)
{
    struct cf_event *event = add(user, CF_EVENT_OBSERVATION, o->json, o->json_len);

    if (event == NULL)
        return;
    event->number = o->seq;
    event->from_frame = o->frame;
    event->turn = o->turn;
}

static void
add_json(struct cf_story *s, enum cf_event_kind kind, const struct cf_record *record, const char *number)
{
    json_t *row = cf_json_parse(record->bytes, record->len, NULL, &(struct cf_error){0});
    struct cf_event *event = row != NULL ? add(s, kind, record->bytes, record->len) : NULL;

    if (event != NULL && number != NULL)
        event->number = (uint64_t)cf_json_int(row, number, 0);
    json_decref(row);
}

/* A one-shot's lines are split as they were live; its turns begin with a process each. */
static int
take_lines(struct cf_story *s, const struct cf_record *record)
{
    if (record->kind == CF_RECORD_SPAWN) {
        cf_lines_release(&s->lines);
        cf_lines_init(&s->lines, LINE_LIMIT);
        s->turn++;
    } else if (record->kind == CF_RECORD_OUTPUT) {
        return cf_lines_feed(&s->lines, record->bytes, record->len, on_line, s);
    } else if (record->kind == CF_RECORD_END) {
        return cf_lines_end(&s->lines, on_line, s);
    }
    return 0;
}

static int
on_record(void *user, const struct cf_record *record, struct cf_error *err)
{
    struct cf_story *s = user;
    struct cf_record_call call;

    s->at_ms = record->at_ms;
    if (s->is_oneshot && take_lines(s, record) < 0)
        return cf_error_memory(err);
    if (!s->is_oneshot && record->kind == CF_RECORD_CALL && cf_record_call_read(record, &call) == 0 &&
        call.which == CF_CALL_TURN_BEGIN)
        s->turn++;
    if (record->kind == CF_RECORD_MODEL)
        add_json(s, CF_EVENT_CALL, record, "id");
    else if (record->kind == CF_RECORD_FINDING)
        add_json(s, CF_EVENT_FINDING, record, "frame");
    else if (record->kind == CF_RECORD_PHASE)
        add_json(s, CF_EVENT_PHASE, record, NULL);
    if (cf_replay_record(s->replay, record, err) < 0)
        return -1;
    if (record->kind == CF_RECORD_START)
        s->is_oneshot = cf_str_same(cf_json_str(cf_replay_start(s->replay), "protocol"), "oneshot-v1");
    return s->has_no_memory ? cf_error_memory(err) : 0;
}

int
cf_story_read(struct cf_story *s, const char *path, char *ret_note, size_t note_size, struct cf_error *err)
{
    const struct cf_replay_events events = {.on_observation = on_observation, .on_frame = on_frame, .user = s};
    FILE *file = fopen(path, "rbe");
    char bytes[65536];
    struct cf_error why = {0};
    size_t len;
    int status = 0;

    memset(s, 0, sizeof *s);
    ret_note[0] = '\0';
    cf_lines_init(&s->lines, LINE_LIMIT);
    if (file == NULL)
        return cf_error_set(err, CF_ERROR_CONFIG, errno, "%.300s: %s", path, strerror(errno));
    s->replay = cf_replay_new(&events);
    if (s->replay == NULL)
        status = cf_error_memory(&why);
    while (status == 0 && (len = fread(bytes, 1, sizeof bytes, file)) > 0)
        status = cf_recording_feed(&s->reader, bytes, len, on_record, s, &why);
    (void)fclose(file);
    if (s->replay == NULL || cf_replay_start(s->replay) == NULL) {
        (void)cf_error_set(err, CF_ERROR_CONFIG, 0, "%.200s is no recording%s%.200s", path, status < 0 ? ": " : "",
                           status < 0 ? why.text : "");
        return cf_error_fix(err, "give a file that test oci or run wrote with --record");
    }
    if (status < 0)
        (void)snprintf(ret_note, note_size, "told up to where the recording is damaged: %.200s", why.text);
    else if (cf_replay_recorded_result(s->replay) == NULL)
        (void)snprintf(ret_note, note_size, "the recording has no result: the run was cut short");
    return 0;
}

void
cf_story_release(struct cf_story *s)
{
    for (size_t i = 0; i < s->count; i++)
        free(s->events[i].text);
    free(s->events);
    cf_lines_release(&s->lines);
    cf_recording_reader_release(&s->reader);
    cf_replay_free(s->replay);
    memset(s, 0, sizeof *s);
}

/* A row of the grammar in a check's form. */
static json_t *
check_of(const json_t *row)
{
    const struct cf_rule *rule = cf_rule_of(cf_json_str(row, "id"));
    json_int_t seq = cf_json_int(row, "seq", 0), frame = cf_json_int(row, "frame", 0);
    json_t *check = json_pack("{s:s, s:s, s:s, s:[]}", "id", cf_json_str(row, "id"), "status", cf_json_str(row, "status"),
                              "summary", cf_json_str(row, "summary"), "evidence");

    if (check == NULL)
        return NULL;
    if (seq > 0)
        (void)json_array_append_new(json_object_get(check, "evidence"), json_pack("{s:I}", "seq", seq));
    if (frame > 0)
        (void)json_array_append_new(json_object_get(check, "evidence"), json_pack("{s:I}", "frame", frame));
    if (rule != NULL) {
        (void)json_object_set_new(check, "group", json_string(rule->group));
        (void)json_object_set_new(check, "rule", json_string(rule->says));
        if (rule->fix != NULL && cf_str_same(cf_json_str(row, "status"), "failed"))
            (void)json_object_set_new(check, "fix", json_string(rule->fix));
    }
    return check;
}

json_t *
cf_story_checks(const struct cf_story *s)
{
    json_t *recorded = cf_json_arr(cf_replay_recorded_verdict(s->replay), "checks"), *verdict, *row, *checks;
    size_t i;

    if (recorded != NULL)
        return json_incref(recorded);
    checks = json_array();
    verdict = cf_replay_verdict(s->replay);
    json_array_foreach(json_object_get(verdict, "grammar"), i, row)
        (void)json_array_append_new(checks, check_of(row));
    json_decref(verdict);
    return checks;
}

size_t
cf_story_find(const struct cf_story *s, enum cf_event_kind kind, uint32_t turn, uint64_t number)
{
    for (size_t i = 0; i < s->count; i++)
        if (s->events[i].kind == kind && s->events[i].number == number &&
            (turn == 0 || !s->is_oneshot || s->events[i].turn == turn))
            return i;
    return s->count;
}
