/*
 * cfrunner replay FILE.cfr: a recorded run again, without an engine. The observations as NDJSON, as
 * `run` printed them; last line what they come to now, beside the result that was recorded.
 */
#include "cli/commands.h"
#include "cli/eyes.h"
#include "cli/flags.h"
#include "cli/launch.h"
#include "cli/reports.h"

#include "base/str.h"
#include "diagnose/diagnose.h"
#include "diagnose/trace.h"
#include "json/json.h"
#include "observe/replay.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct flags {
    const char *wire, *output_mode, *report;
    bool help, help_all;
};

struct player {
    struct cf_replay *replay;
    struct cf_recording_reader reader;
    struct cf_reports reports;
    uint64_t last_seq, last_ms;
    bool has_failed;        /* what was read broke off */
    struct cf_error why;
};

static void
on_observation(void *user, const struct cf_observation *o)
{
    struct player *p = user;

    p->last_seq = o->seq;
    p->last_ms = o->at_ms;
    if (p->reports.trace != NULL)
        cf_trace_observation(p->reports.trace, o);
    printf("{\"seq\":%llu,\"at_ms\":%llu,\"turn\":%u,\"observation\":", (unsigned long long)o->seq,
           (unsigned long long)o->at_ms, o->turn);
    (void)fwrite(o->json, 1, o->json_len, stdout);
    (void)fputs("}\n", stdout);
}

static void
on_frame(void *user, bool from_agent, uint64_t number, const char *line, size_t len)
{
    struct player *p = user;

    if (p->reports.trace != NULL)
        cf_trace_frame(p->reports.trace, from_agent, number, p->last_ms, line, len);
}

static int
on_record(void *user, const struct cf_record *record, struct cf_error *err)
{
    struct player *p = user;

    p->last_ms = record->at_ms;
    if (p->reports.trace != NULL)
        cf_trace_record(p->reports.trace, record);
    return cf_replay_record(p->replay, record, err);
}

static FILE *
open_input(const char *path, struct cf_error *err)
{
    FILE *file = strcmp(path, "-") == 0 ? stdin : fopen(path, "rb");

    if (file == NULL)
        (void)cf_error_set(err, CF_ERROR_CONFIG, errno, "%.300s: %s", path, strerror(errno));
    return file;
}

static int
play_recording(struct player *p, FILE *file)
{
    char bytes[65536];
    size_t len;
    int status = 0;

    while (status == 0 && (len = fread(bytes, 1, sizeof bytes, file)) > 0)
        status = cf_recording_feed(&p->reader, bytes, len, on_record, p, &p->why);
    if (status == 0 && ferror(file))
        status = cf_error_set(&p->why, CF_ERROR_CONFIG, errno, "the recording cannot be read: %s", strerror(errno));
    return status;
}

static int
play_plain(struct player *p, FILE *file, const struct flags *f)
{
    char *line = NULL;
    size_t cap = 0;
    ssize_t len;
    bool is_text = cf_str_same(f->output_mode, "text");
    int status = cf_replay_plain_open(p->replay, strcmp(f->wire, "acp") == 0, !is_text, &p->why);

    while (status == 0 && (len = getline(&line, &cap, file)) > 0)
        if (len > 1 || line[0] != '\n')
            status = cf_replay_plain_line(p->replay, line, (size_t)len, &p->why);
    free(line);
    if (status == 0)
        cf_replay_plain_end(p->replay);
    return status;
}

static json_t *
problem_json(const struct player *p)
{
    if (!p->has_failed)
        return json_null();
    return json_pack("{s:s, s:s, s:s}", "type", cf_error_type(p->why.kind), "message", p->why.text, "fix", p->why.fix);
}

/* {"grammar","observations"} as now, and what there is to compare it with. */
static json_t *
result_json(const struct player *p, bool is_plain, bool *ret_is_same)
{
    json_t *verdict = cf_replay_verdict(p->replay), *recorded = cf_replay_recorded_result(p->replay);
    json_t *diagnostic = cf_replay_recorded_verdict(p->replay);
    char version[24];

    *ret_is_same = cf_replay_is_same(p->replay, verdict);
    (void)json_object_set_new(verdict, "error", problem_json(p));
    if (is_plain)
        return verdict;
    (void)snprintf(version, sizeof version, "%u.%u", p->reader.major, p->reader.minor);
    (void)json_object_set_new(verdict, "version", json_string(version));
    (void)json_object_set_new(verdict, "complete", json_boolean(recorded != NULL && !p->has_failed));
    (void)json_object_set_new(verdict, "torn_bytes", json_integer((json_int_t)cf_recording_torn_bytes(&p->reader)));
    (void)json_object_set_new(verdict, "masked", json_integer((json_int_t)cf_replay_masked(p->replay)));
    (void)json_object_set_new(verdict, "same_as_recorded", recorded != NULL ? json_boolean(*ret_is_same) : json_null());
    (void)json_object_set_new(verdict, "recorded", recorded != NULL ? json_incref(recorded) : json_null());
    (void)json_object_set_new(verdict, "diagnostic", diagnostic != NULL ? json_incref(diagnostic) : json_null());
    return verdict;
}

static bool
has_failed_turn(json_t *result)
{
    json_t *turn;
    size_t i;

    json_array_foreach(json_object_get(result, "turns"), i, turn)
        if (!cf_str_same(cf_json_str(turn, "outcome"), "finished") &&
            !cf_str_same(cf_json_str(turn, "outcome"), "requires_action"))
            return true;
    return false;
}

/* The live run's: a diagnostic said its own; a run's follows from its result. */
static int
recorded_exit_code(const struct player *p)
{
    json_t *result = cf_replay_recorded_result(p->replay), *verdict = cf_replay_recorded_verdict(p->replay);
    json_t *error = cf_json_obj(result, "error");
    int code = error != NULL ? cf_diagnose_exit_code((enum cf_error_kind)cf_json_int(error, "kind", 1)) : 0;

    if (verdict != NULL)
        return (int)cf_json_int(verdict, "exit_code", 4);
    if (result == NULL)
        return 4; /* it was cut short: nobody can say how it ended */
    if (has_failed_turn(result))
        code = cf_diagnose_worse(code, 1);
    return cf_json_bool(cf_json_obj(result, "teardown"), "proven", false) ? code : 4;
}

static int
plain_exit_code(json_t *verdict)
{
    json_t *check;
    size_t i;
    int code = 0;

    json_array_foreach(json_object_get(verdict, "grammar"), i, check)
        if (cf_str_same(cf_json_str(check, "status"), "failed"))
            code = 1;
    return code;
}

/* The page of a diagnostic has its checks, which its verdict holds; that of a run cut short what the
 * replay itself found. */
static int
write_report(struct player *p, const json_t *now, int code, const char *path)
{
    json_t *recorded = cf_replay_recorded_result(p->replay), *verdict = cf_replay_recorded_verdict(p->replay);
    json_t *result = recorded != NULL ? json_copy(recorded) : json_pack("{s:O?, s:O?, s:O?}", "grammar",
                                                                        json_object_get(now, "grammar"), "observations",
                                                                        json_object_get(now, "observations"), "protocol",
                                                                        json_object_get(cf_replay_start(p->replay), "protocol"));
    const char *slash = strrchr(path, '/');
    int status;

    if (json_is_array(json_object_get(verdict, "checks")))
        (void)json_object_set(result, "checks", json_object_get(verdict, "checks"));
    status = cf_reports_write(&p->reports, "replay", result, code, slash != NULL ? slash + 1 : path);
    json_decref(result);
    return status;
}

static int
finish(struct player *p, bool is_plain, const char *path)
{
    bool is_same;
    json_t *result = result_json(p, is_plain, &is_same);
    cf_auto_free char *text = cf_json_dump(result, NULL);
    int code = is_plain ? plain_exit_code(result) : recorded_exit_code(p);

    printf("{\"seq\":%llu,\"at_ms\":%llu,\"result\":%s}\n", (unsigned long long)p->last_seq + 1,
           (unsigned long long)p->last_ms, text != NULL ? text : "{}");
    if (p->has_failed) {
        cf_eyes_error(&p->why);
        code = p->why.kind == CF_ERROR_CONFIG ? 2 : 4;
    } else if (!is_plain && cf_replay_recorded_result(p->replay) == NULL) {
        fputs("cfrunner: the recording has no result: the run was cut short; up to there it was replayed\n", stderr);
    } else if (!is_plain && !is_same && cf_replay_masked(p->replay) == 0) {
        fputs("cfrunner: the verdict of now is not the recorded one: this cfrunner judges otherwise\n", stderr);
        code = 4;
    }
    if (write_report(p, result, code, path) < 0)
        code = 4;
    json_decref(result);
    return cf_cli_printed(code);
}

static int
check_flags(const struct flags *f, const struct cf_flag_list *rest, struct cf_error *err)
{
    if (f->wire != NULL && strcmp(f->wire, "acp") != 0 && strcmp(f->wire, "oneshot") != 0)
        return cf_error_set(err, CF_ERROR_CONFIG, 0, "--wire: acp or oneshot, not %.60s", f->wire);
    if (f->output_mode != NULL && (!cf_str_same(f->wire, "oneshot") || (strcmp(f->output_mode, "text") != 0 &&
                                                                        strcmp(f->output_mode, "stream_json") != 0)))
        return cf_error_set(err, CF_ERROR_CONFIG, 0, "--output-mode: text or stream_json, with --wire oneshot");
    if (f->report != NULL && f->wire != NULL)
        return cf_error_set(err, CF_ERROR_CONFIG, 0, "--report is for a recording, not for --wire");
    if (rest->count != 1) {
        (void)cf_error_set(err, CF_ERROR_CONFIG, 0, "replay takes one file");
        return cf_error_fix(err, "cfrunner replay FILE.cfr, or --wire acp|oneshot FILE.ndjson");
    }
    return 0;
}

static int
play(const struct flags *f, const char *path, struct cf_error *err)
{
    struct player p = {0};
    const struct cf_replay_events events = {.on_observation = on_observation, .on_frame = on_frame, .user = &p};
    const struct cf_launch_flags files = {.report = f->report, .record = path}; /* never over what is read */
    FILE *file = open_input(path, err);
    int code;

    if (file == NULL)
        return -1;
    p.replay = cf_reports_open(&p.reports, &files, NULL, err) == 0 ? cf_replay_new(&events) : NULL;
    if (p.replay == NULL) {
        (void)fclose(file);
        return err->kind != CF_ERROR_NONE ? -1 : cf_error_memory(err);
    }
    p.has_failed = (f->wire != NULL ? play_plain(&p, file, f) : play_recording(&p, file)) < 0;
    if (!p.has_failed && f->wire == NULL && cf_replay_start(p.replay) == NULL) {
        p.has_failed = true;
        (void)cf_error_set(&p.why, CF_ERROR_CONFIG, 0, "no recording: it ends before its first record does");
    }
    code = finish(&p, f->wire != NULL, path);
    cf_recording_reader_release(&p.reader);
    cf_replay_free(p.replay);
    if (file != stdin)
        (void)fclose(file);
    return code;
}

static const struct cf_flag table[] = {
    {"--wire", CF_FLAG_TEXT, offsetof(struct flags, wire), "W",
     "acp or oneshot, of {\"t\",\"dir\",\"line\"}"},
    {"--output-mode", CF_FLAG_TEXT, offsetof(struct flags, output_mode), "M",
     "of --wire oneshot: stream_json or text"},
    {"--report", CF_FLAG_TEXT, offsetof(struct flags, report), "FILE.html", "the recorded run as one page"},
    {"--help", CF_FLAG_SWITCH, offsetof(struct flags, help), NULL, "this"},
};

int
cf_cli_replay(int argc, char **argv)
{
    struct flags flags = {0};
    struct cf_flag_list rest = {0};
    struct cf_error err = {0};
    int code = cf_flags_read(table, CF_COUNT(table), argc, argv, &flags, &rest, &err);

    if (flags.help) {
        puts("usage: cfrunner replay FILE.cfr | --wire acp|oneshot FILE.ndjson\n"
             "A run recorded with --record again, without an engine: its observations as\n"
             "NDJSON, then {\"result\":...}; or a plain wire, lines of which dir is c2a or a2c.\n"
             "Exit as the live run's; 4 for one cut short, 2 for a damaged file.");
        cf_flags_help(table, CF_COUNT(table), stdout);
        return 0;
    }
    if (code == 0)
        code = check_flags(&flags, &rest, &err);
    if (code == 0)
        code = play(&flags, rest.items[0], &err);
    return code < 0 ? cf_cli_refuse(&err, 2, true) : code;
}
