/*
 * cfrunner run: observations as NDJSON on stdout, as they happen; one prompt a turn; last line the
 * result. A reader that is slow slows the harness, and nothing else.
 */
#include "cli/attach.h"
#include "cli/checkpoint.h"
#include "cli/commands.h"
#include "cli/eyes.h"
#include "cli/launch.h"
#include "cli/out.h"
#include "cli/reports.h"

#include "base/str.h"
#include "base/utf8.h"
#include "diagnose/diagnose.h"
#include "json/json.h"
#include "schema/schema.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct runner {
    const struct cf_launch_flags *flags;
    json_t *prompts, *schema;
    size_t next_prompt;
    struct cf_run_host watch; /* the eyes' own */
    struct cf_eyes eyes;
    struct cf_run *run;
    struct cf_out out;
    struct cf_signals signals;
    struct cf_reports reports;
    uint64_t last_seq, opened_ms;
    uv_loop_t *loop;
    int exit_code;
    bool interrupted, paused;

    /* acp */
    struct steer { /* --steer-after: said to the first turn that it meets */
        struct runner *r;
        uv_timer_t timer;
        const char *text;
        uint64_t after_ms;
        char id[40];
        bool is_said;
    } *steers;
    size_t steer_count;
    uv_timer_t stops[2]; /* --cancel-after, --interrupt-after */
    json_t *leftover;    /* texts of steers that the harness did not take, in order */
    json_t *attached;    /* blocks of the first prompt */
    json_t *approvals;   /* what the next prompt allows: it was held for it */
};

static void
on_phase(void *user, const char *name, const char *step, uint64_t took_ms)
{
    struct runner *r = user;

    if (r->watch.on_phase != NULL)
        r->watch.on_phase(r->watch.user, name, step, took_ms);
}

static void
on_progress(void *user, const char *what, const char *json, size_t len)
{
    struct runner *r = user;

    r->watch.on_progress(r->watch.user, what, json, len);
}

static void
on_log(void *user, int level, const char *room, const char *line)
{
    struct runner *r = user;

    if (r->watch.on_log != NULL)
        r->watch.on_log(r->watch.user, level, room, line);
}

static void
on_frame(void *user, int from_harness, uint64_t number, uint64_t at_ms, const char *line, size_t len)
{
    struct runner *r = user;

    r->watch.on_frame(r->watch.user, from_harness, number, at_ms, line, len);
}

static void
on_stderr(void *user, const char *bytes, size_t len)
{
    struct runner *r = user;

    if (r->watch.on_stderr != NULL)
        r->watch.on_stderr(r->watch.user, bytes, len);
}

static void
on_call(void *user, const char *json, size_t len)
{
    struct runner *r = user;

    if (r->watch.on_call != NULL)
        r->watch.on_call(r->watch.user, json, len);
}

/* Someone else's claim is for eyes at any verbosity but --quiet. */
static void
on_finding(void *user, const char *json, size_t len)
{
    struct runner *r = user;
    json_t *finding = r->eyes.verbose == 0 ? cf_json_parse(json, len, NULL, NULL) : NULL;
    const char *id = cf_json_str(finding, "id");

    if (r->watch.on_finding != NULL)
        r->watch.on_finding(r->watch.user, json, len);
    if (cf_str_same(id, "claim_overlap") || cf_str_same(id, "journal") || cf_str_same(id, "identity_exposed"))
        cf_eyes_say(&r->eyes, "cfrunner: %s: %s", id, cf_json_str(finding, "text"));
    json_decref(finding);
}

static int
on_observation(void *user, const struct cf_observation *o)
{
    struct runner *r = user;
    struct cf_buf line;

    if (r->watch.on_observation != NULL)
        (void)r->watch.on_observation(r->watch.user, o); /* it only looks */
    cf_buf_init(&line, 0);
    (void)cf_buf_addf(&line, "{\"seq\":%llu,\"at_ms\":%llu,\"turn\":%u,\"observation\":", (unsigned long long)o->seq,
                      (unsigned long long)o->at_ms, o->turn);
    (void)cf_buf_add(&line, o->json, o->json_len);
    (void)cf_buf_adds(&line, "}");
    r->last_seq = o->seq;
    if (o->type == CF_OBSERVATION_REQUIRES_ACTION && cf_str_same(o->detail, "custom_tool")) {
        if (r->approvals == NULL)
            r->approvals = json_array();
        (void)json_array_append_new(r->approvals,
                                    json_pack("{s:s, s:s}", "tool_use_id", o->tool_use_id, "decision", "allow"));
    }
    if (!line.failed)
        r->paused |= cf_out_line(&r->out, line.data, line.len);
    cf_buf_release(&line);
    return r->paused ? CF_RUN_PAUSE : CF_RUN_CONTINUE;
}

static void
on_drain(void *user)
{
    struct runner *r = user;
    struct cf_error why;

    if (r->out.failed && r->run != NULL) {
        (void)cf_error_set(&why, CF_ERROR_CANCELED, r->out.error, "nobody reads the observations any more");
        r->exit_code = cf_diagnose_worse(r->exit_code, 4);
        cf_run_close(r->run, 1000, &why);
    } else if (r->paused && r->run != NULL) {
        r->paused = false;
        cf_run_resume(r->run);
    }
}

/* The texts of refused steers, in order, as one prompt; else the next of --prompt. New reference or NULL. */
static json_t *
next_text(struct runner *r)
{
    struct cf_buf text;
    json_t *part, *made;
    size_t i;

    if (json_array_size(r->leftover) == 0)
        return json_incref(json_array_get(r->prompts, r->next_prompt++));
    cf_buf_init(&text, 0);
    json_array_foreach(r->leftover, i, part) {
        (void)cf_buf_adds(&text, i > 0 ? "\n\n" : "");
        (void)cf_buf_add(&text, json_string_value(part), json_string_length(part));
    }
    (void)json_array_clear(r->leftover);
    made = json_stringn(text.data != NULL ? text.data : "", text.len);
    cf_buf_release(&text);
    return made;
}

static void
fail_checkpoint(struct runner *r, const struct cf_error *err)
{
    cf_eyes_say(&r->eyes, "cfrunner: no checkpoint was made: %s", err->text);
    if (*err->fix != '\0')
        cf_eyes_say(&r->eyes, "  fix: %s", err->fix);
    if (!r->interrupted) /* that is the reason then */
        r->exit_code = cf_diagnose_worse(r->exit_code, 4);
}

/* All turns are over. */
static void
leave(struct runner *r)
{
    struct cf_error err = {0};

    if (r->flags->checkpoint != NULL && !r->interrupted) {
        if (cf_checkpoint_ask(r->flags->checkpoint, r->run, &err) == 0)
            return;
        fail_checkpoint(r, &err);
    }
    cf_run_close(r->run, UINT64_MAX, NULL);
}

static void
on_checkpoint_made(void *user, const char *json, size_t len)
{
    struct runner *r = user;
    struct cf_error err = {0};
    int64_t missing = cf_checkpoint_write(r->flags->checkpoint, json, len, &err);

    if (missing < 0)
        fail_checkpoint(r, &err);
    else if (missing > 0)
        cf_eyes_say(&r->eyes, "cfrunner: %lld entries are not in the checkpoint; its checkpoint.json says why",
                    (long long)missing);
    cf_run_close(r->run, UINT64_MAX, NULL);
}

static void
prompt_next(struct runner *r)
{
    struct cf_error err;
    json_t *text = r->interrupted ? NULL : next_text(r), *prompt;
    size_t len = 0;
    char *bytes;

    if (text == NULL) {
        leave(r);
        return;
    }
    prompt = json_pack("{s:o}", "text", text);
    if (r->schema != NULL)
        (void)json_object_set(prompt, "output_schema", r->schema);
    if (json_array_size(r->approvals) > 0)
        (void)json_object_set(prompt, "approvals", r->approvals);
    json_decref(r->approvals);
    r->approvals = NULL;
    if (json_array_size(r->attached) > 0)
        (void)json_object_set(prompt, "blocks", r->attached);
    json_decref(r->attached);
    r->attached = NULL;
    bytes = cf_json_dump(prompt, &len);
    json_decref(prompt);
    if (bytes == NULL)
        (void)cf_error_memory(&err);
    if (bytes == NULL || cf_run_prompt(r->run, bytes, len, &err) < 0)
        cf_run_close(r->run, UINT64_MAX, &err);
    free(bytes);
}

/* ---- steering, ending a turn ---------------------------------------------------------------- */

static void
keep_for_later(struct runner *r, const char *text)
{
    (void)json_array_append_new(r->leftover, json_string(text));
}

static void
on_steer_time(uv_timer_t *timer)
{
    struct steer *steer = timer->data;
    struct runner *r = steer->r;
    json_t *document = json_pack("{s:s}", "content", steer->text);
    size_t len = 0;
    cf_auto_free char *bytes = cf_json_dump(document, &len);
    struct cf_error err;

    json_decref(document);
    if (r->run == NULL || bytes == NULL)
        return;
    steer->is_said = true;
    if (cf_run_steer(r->run, bytes, len, steer->id, &err) == 0)
        return;
    if (err.kind == CF_ERROR_INCOMPATIBLE)
        cf_run_close(r->run, UINT64_MAX, &err);
    else
        keep_for_later(r, steer->text); /* between two turns: it goes into the next one */
}

static void
on_steering(void *user, const char *event_id, const char *disposition)
{
    struct runner *r = user;

    if (strcmp(disposition, "refused") != 0 && strcmp(disposition, "unsent") != 0)
        return;
    for (size_t i = 0; i < r->steer_count; i++)
        if (strcmp(r->steers[i].id, event_id) == 0)
            keep_for_later(r, r->steers[i].text);
}

static void
on_cancel_time(uv_timer_t *timer)
{
    struct runner *r = timer->data;

    if (r->run != NULL)
        cf_run_cancel(r->run);
}

static void
on_interrupt_time(uv_timer_t *timer)
{
    struct runner *r = timer->data;

    if (r->run != NULL)
        cf_run_interrupt(r->run);
}

/* All of them count from the first turn on. */
static void
start_timers(struct runner *r)
{
    for (size_t i = 0; i < r->steer_count; i++)
        uv_timer_start(&r->steers[i].timer, on_steer_time, r->steers[i].after_ms, 0);
    if (r->flags->cancel_ms != 0)
        uv_timer_start(&r->stops[0], on_cancel_time, r->flags->cancel_ms, 0);
    if (r->flags->interrupt_ms != 0)
        uv_timer_start(&r->stops[1], on_interrupt_time, r->flags->interrupt_ms, 0);
}

static void
open_timers(struct runner *r)
{
    for (size_t i = 0; i < r->steer_count; i++) {
        (void)uv_timer_init(r->loop, &r->steers[i].timer); /* cannot fail */
        r->steers[i].timer.data = &r->steers[i];
    }
    for (size_t i = 0; i < 2; i++) {
        (void)uv_timer_init(r->loop, &r->stops[i]);
        r->stops[i].data = r;
    }
}

static void
close_timers(struct runner *r)
{
    for (size_t i = 0; i < r->steer_count; i++)
        uv_close((uv_handle_t *)&r->steers[i].timer, NULL);
    for (size_t i = 0; i < 2; i++)
        uv_close((uv_handle_t *)&r->stops[i], NULL);
}

/* MS:TEXT */
static int
read_steers(struct runner *r, const struct cf_flag_list *list, struct cf_error *err)
{
    r->steers = calloc(list->count + 1, sizeof *r->steers);
    if (r->steers == NULL)
        return cf_error_memory(err);
    for (size_t i = 0; i < list->count; i++) {
        const char *item = list->items[i], *colon = strchr(item, ':');
        char ms[24];
        if (colon == NULL || (size_t)(colon - item) >= sizeof ms || colon[1] == '\0' ||
            !cf_utf8_is_valid(colon + 1, strlen(colon + 1)))
            colon = NULL;
        else
            (void)snprintf(ms, sizeof ms, "%.*s", (int)(colon - item), item);
        if (colon == NULL || !cf_parse_u64(ms, 0, 604800000, &r->steers[i].after_ms)) {
            (void)cf_error_set(err, CF_ERROR_CONFIG, 0, "--steer-after: %.100s is not MS:TEXT", item);
            return cf_error_fix(err, "milliseconds after the first prompt, and what to say: --steer-after '500:shorter, please'");
        }
        r->steers[i].text = colon + 1;
        r->steers[i].r = r;
        r->steer_count++;
    }
    return 0;
}

/* ---- checkpoints ----------------------------------------------------------------------------- */

/* The latest one, whole or not at all; a state that became too large is void, and so is the file. */
static void
on_checkpoint(void *user, const char *json, size_t len)
{
    struct runner *r = user;
    const char *path = r->flags->checkpoint_out;
    cf_auto_free char *fresh = NULL;
    FILE *file;
    bool is_good;

    if (path == NULL)
        return;
    if (json == NULL) {
        if (remove(path) < 0 && errno != ENOENT)
            fprintf(stderr, "cfrunner: %s is void, and cannot be removed: %s\n", path, strerror(errno));
        return;
    }
    if (asprintf(&fresh, "%s.new", path) < 0 || (file = fopen(fresh, "we")) == NULL) {
        fprintf(stderr, "cfrunner: %s: %s\n", path, strerror(errno));
        r->exit_code = cf_diagnose_worse(r->exit_code, 4);
        return;
    }
    is_good = fwrite(json, 1, len, file) == len && fputc('\n', file) != EOF;
    is_good = fclose(file) == 0 && is_good && rename(fresh, path) == 0;
    if (!is_good) {
        fprintf(stderr, "cfrunner: %s: %s\n", path, strerror(errno));
        r->exit_code = cf_diagnose_worse(r->exit_code, 4);
    }
}

static void
on_ready(void *user)
{
    start_timers(user);
    prompt_next(user);
}

static void
on_turn(void *user, uint32_t turn, const char *json, size_t len)
{
    struct runner *r = user;
    json_t *outcome = cf_json_parse(json, len, NULL, NULL);
    bool may_go_on = cf_str_same(cf_json_str(outcome, "outcome"), "finished") ||
                     cf_str_same(cf_json_str(outcome, "outcome"), "requires_action");

    json_decref(outcome);
    if (r->watch.on_turn != NULL)
        r->watch.on_turn(r->watch.user, turn, json, len);
    if (may_go_on) {
        prompt_next(r);
    } else {
        r->exit_code = cf_diagnose_worse(r->exit_code, 1);
        if (r->flags->checkpoint != NULL)
            cf_eyes_say(&r->eyes, "cfrunner: no checkpoint was made: the last turn failed");
        cf_run_close(r->run, UINT64_MAX, NULL);
    }
}

static void
on_result(void *user, const char *json, size_t len)
{
    struct runner *r = user;
    json_t *result = cf_json_parse(json, len, NULL, NULL), *error = cf_json_obj(result, "error");
    struct cf_buf line;

    if (error != NULL)
        r->exit_code = cf_diagnose_worse(r->exit_code,
                                         cf_diagnose_exit_code((enum cf_error_kind)cf_json_int(error, "kind", 1)));
    if (!cf_json_bool(cf_json_obj(result, "teardown"), "proven", false))
        r->exit_code = 4;
    if (r->interrupted)
        r->exit_code = cf_diagnose_worse(r->exit_code, 130);
    if (error != NULL && r->eyes.verbose >= 0) {
        const char *fix = cf_json_str(error, "fix");
        cf_eyes_say(&r->eyes, "cfrunner: %s", cf_json_str(error, "message"));
        if (fix != NULL && *fix != '\0')
            cf_eyes_say(&r->eyes, "  fix: %s", fix);
    }
    if (cf_reports_write(&r->reports, "run", result, r->exit_code, r->flags->name) < 0)
        r->exit_code = cf_diagnose_worse(r->exit_code, 4);
    cf_buf_init(&line, 0);
    (void)cf_buf_addf(&line, "{\"seq\":%llu,\"at_ms\":%llu,\"result\":", (unsigned long long)r->last_seq + 1,
                      (unsigned long long)(uv_now(r->loop) - r->opened_ms));
    (void)cf_buf_add(&line, json, len);
    (void)cf_buf_adds(&line, "}");
    (void)cf_out_line(&r->out, line.data, line.len);
    cf_buf_release(&line);
    json_decref(result);
    cf_run_close(r->run, 0, NULL);
}

static void
on_closed(void *user)
{
    struct runner *r = user;

    r->run = NULL;
    close_timers(r);
    cf_eyes_close(&r->eyes);
    cf_signals_close(&r->signals);
}

static void
on_stop(void *user, int count)
{
    struct runner *r = user;
    struct cf_error why;

    r->interrupted = true;
    (void)cf_error_set(&why, CF_ERROR_CANCELED, 0, "interrupted");
    if (r->run != NULL)
        cf_run_close(r->run, count > 1 ? 500 : 5000, &why);
}

static int
read_prompts(struct runner *r, const struct cf_flag_list *list, struct cf_error *err)
{
    r->prompts = json_array();
    if (list->count == 0) {
        (void)cf_error_set(err, CF_ERROR_CONFIG, 0, "--prompt is missing");
        return cf_error_fix(err, "give --prompt TEXT or --prompt @FILE, once a turn");
    }
    for (size_t i = 0; i < list->count; i++) {
        const char *item = list->items[i];
        size_t len = strlen(item);
        cf_auto_free char *file = NULL;
        json_t *text;
        if (*item == '@') {
            file = cf_read_file(item + 1, 32u << 20, &len, err);
            if (file == NULL)
                return -1;
            item = file;
        }
        text = json_stringn(item, len);
        if (text == NULL)
            return cf_error_set(err, CF_ERROR_CONFIG, 0, "--prompt: %.60s is not UTF-8", list->items[i]);
        (void)json_array_append_new(r->prompts, text);
    }
    return 0;
}

static int
read_schema(struct runner *r, const char *path, struct cf_error *err)
{
    struct cf_schema *admitted = NULL;
    size_t len = 0;
    cf_auto_free char *bytes = NULL;

    if (path == NULL)
        return 0;
    bytes = cf_read_file(path, 1u << 20, &len, err);
    r->schema = bytes != NULL ? cf_json_parse(bytes, len, NULL, err) : NULL;
    if (r->schema == NULL)
        return -1;
    if (cf_schema_admit_value(r->schema, &admitted, NULL, err) < 0)
        return cf_error_wrap(err, "--output-schema %.200s", path);
    cf_schema_free(admitted);
    return 0;
}

/* Over ACP it is the session's, and options hold it. */
static void
leave_schema_to_session(struct runner *r, const struct cf_launch *launch)
{
    if (!cf_str_same(cf_json_str(launch->release, "protocol"), "acp-v1"))
        return;
    json_decref(r->schema);
    r->schema = NULL;
}

static int
start(struct runner *r, const struct cf_launch *launch, uv_loop_t *loop, struct cf_error *err)
{
    struct cf_run_host host = {.size = sizeof host,
                               .user = r,
                               .on_phase = on_phase,
                               .on_observation = on_observation,
                               .on_log = on_log,
                               .on_frame = r->watch.on_frame != NULL ? on_frame : NULL,
                               .on_progress = r->watch.on_progress != NULL ? on_progress : NULL,
                               .on_stderr = on_stderr,
                               .on_call = on_call,
                               .on_finding = on_finding,
                               .on_ready = on_ready,
                               .on_turn = on_turn,
                               .on_result = on_result,
                               .on_closed = on_closed,
                               .on_steering = on_steering,
                               .on_checkpoint = on_checkpoint,
                               .on_checkpoint_made = on_checkpoint_made};
    size_t release_len = 0, options_len = 0;
    cf_auto_free char *release = cf_json_dump(launch->release, &release_len);
    cf_auto_free char *options = cf_json_dump(launch->options, &options_len);

    if (release == NULL || options == NULL)
        return cf_error_memory(err);
    return cf_run_open(loop, release, release_len, options, options_len, &host, &r->run, err);
}

static int
run_all(struct runner *r, const struct cf_launch *launch, struct cf_error *err)
{
    uv_loop_t loop;
    int status;

    if (uv_loop_init(&loop) < 0)
        return cf_error_memory(err);
    r->loop = &loop;
    r->opened_ms = uv_now(&loop);
    r->watch.user = &r->eyes;
    cf_eyes_watch(&r->watch, &r->eyes);
    if (cf_reports_open(&r->reports, r->flags, launch, err) < 0) {
        (void)uv_loop_close(&loop);
        return -1;
    }
    cf_reports_listen(&r->reports, &r->watch);
    cf_out_init(&r->out, &loop, on_drain, r);
    status = start(r, launch, &loop, err);
    if (status == 0) {
        open_timers(r);
        cf_eyes_open(&r->eyes, &loop);
        cf_signals_open(&r->signals, &loop, on_stop, r);
        (void)uv_run(&loop, UV_RUN_DEFAULT);
    }
    cf_reports_abandon(&r->reports); /* of a run that never began */
    cf_out_release(&r->out);
    cf_eyes_release(&r->eyes);
    (void)uv_loop_close(&loop);
    return status;
}

static const struct cf_flag extra[] = {
    {"a turn", CF_FLAG_TITLE, 0, NULL, NULL},
    {"--prompt", CF_FLAG_LIST, offsetof(struct cf_launch_flags, prompts), "TEXT|@FILE", "one a turn (repeat)"},
    {"--attach", CF_FLAG_LIST, offsetof(struct cf_launch_flags, attached), "FILE",
     "acp: beside the first prompt (repeat)"},
    {"--output-schema", CF_FLAG_TEXT, offsetof(struct cf_launch_flags, output_schema), "FILE",
     "what the last message must satisfy"},
    {"--steer-after", CF_FLAG_LIST, offsetof(struct cf_launch_flags, steers), "MS:TEXT",
     "acp: said into the turn (repeat)"},
    {"--cancel-after", CF_FLAG_TIME, offsetof(struct cf_launch_flags, cancel_ms), "T", "cancel the turn then in flight"},
    {"--interrupt-after", CF_FLAG_TIME, offsetof(struct cf_launch_flags, interrupt_ms), "T",
     "drain it where declared, else end it"},
    {"--checkpoint-out", CF_FLAG_TEXT, offsetof(struct cf_launch_flags, checkpoint_out), "FILE",
     "acp: checkpoint for --resume-state"},
    {"--checkpoint", CF_FLAG_TEXT, offsetof(struct cf_launch_flags, checkpoint), "DIR",
     "all that --restore needs, into a new DIR"},
    {"--restore", CF_FLAG_TEXT, offsetof(struct cf_launch_flags, restore), "DIR", "go on from where that run was"},
    {"its journal", CF_FLAG_TITLE, 0, NULL, NULL},
    {"--journal", CF_FLAG_TEXT, offsetof(struct cf_launch_flags, journal), "DIR",
     "says what is done; with the next four"},
    {"--identity", CF_FLAG_TEXT, offsetof(struct cf_launch_flags, identity), "FILE", "who signs it (correspond keygen)"},
    {"--repository-id", CF_FLAG_TEXT, offsetof(struct cf_launch_flags, repository_id), "ID", "what is worked on"},
    {"--thread-id", CF_FLAG_TEXT, offsetof(struct cf_launch_flags, thread_id), "ID", "the conversation it belongs to"},
    {"--claim-path", CF_FLAG_LIST, offsetof(struct cf_launch_flags, claim_paths), "PATH",
     "advisory claim of a path (repeat)"},
    {"--claim-ttl", CF_FLAG_TIME, offsetof(struct cf_launch_flags, claim_ms), "T",
     "the claim's life without renewal (120s)"},
};

int
cf_cli_run(int argc, char **argv)
{
    struct cf_flag table[256]; /* extra and the launch flags */
    size_t count = CF_COUNT(extra);
    struct cf_launch_flags flags = {0};
    struct cf_launch launch = {0};
    struct cf_error err = {0};
    struct runner r = {.flags = &flags, .leftover = json_array()};
    int status;

    memcpy(table, extra, sizeof extra);
    memcpy(table + count, cf_launch_table, cf_launch_count * sizeof *table);
    count += cf_launch_count;
    status = cf_flags_read(table, count, argc, argv, &flags, NULL, &err);
    if (flags.help || flags.help_all) {
        puts("usage: cfrunner run --prompt TEXT|@FILE ... [launch flags as in test oci]\n"
             "Observations as NDJSON on stdout, last line the result. Exit as in test oci.");
        cf_flags_help(table, flags.help_all ? count : CF_COUNT(extra), stdout);
        if (!flags.help_all)
            puts("launch flags: see cfrunner test oci --help; --help-all has each with its words");
        return 0;
    }
    /* A block would be drawn over the observations where both go to the same terminal. */
    r.eyes = (struct cf_eyes){.verbose = flags.quiet ? -1 : flags.verbose,
                              .plain = flags.plain,
                              .title = isatty(1) ? NULL : "cfrunner run"};
    if (status == 0 && flags.torture != NULL)
        status = cf_error_set(&err, CF_ERROR_CONFIG, 0, "--torture belongs to test oci: a run has no verdict to change");
    if (status == 0 && read_prompts(&r, &flags.prompts, &err) == 0 && read_schema(&r, flags.output_schema, &err) == 0 &&
        cf_attach_read(&flags.attached, &r.attached, &err) == 0 && read_steers(&r, &flags.steers, &err) == 0 && cf_launch_make(&flags, &launch, &err) == 0 &&
        cf_launch_journal(&flags, launch.options, &err) == 0 && cf_checkpoint_prepare(&flags, &launch, &err) == 0) {
        leave_schema_to_session(&r, &launch);
        status = run_all(&r, &launch, &err);
    } else {
        status = -1;
    }
    if (status < 0)
        r.exit_code = cf_cli_refuse(&err, 2, true);
    json_decref(r.prompts);
    json_decref(r.leftover);
    json_decref(r.approvals);
    json_decref(r.attached);
    free(r.steers);
    json_decref(r.schema);
    cf_launch_done(&launch);
    return r.exit_code;
}
