/*
 * The one-shot lane: each turn is one process. Its files are staged beneath the working directory
 * by cf-init, its prompt goes to a file or to stdin, its stdout is read while it runs, and the
 * turn is over when the process has ended and its stdout is at end of file.
 */
#include "run/hall.h"

#include "base/clock.h"
#include "base/str.h"
#include "json/json.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>

#define FOLDER ".checkfu"
#define PROMPT_FILE FOLDER "/prompt.txt"
#define SCHEMA_FILE FOLDER "/output-schema.json"
#define HELD_OPEN_MS 1000u /* the process is gone, somebody holds its stdout: then all are killed */
#define LAST_WORDS_MS 2000u /* and then its end of file must come */

static void spawn_turn(struct cf_run *run);
static void clear_files(struct cf_run *run);

static const char *
root_of(const struct cf_run *run)
{
    return cf_sandbox_working_directory(run->sandbox);
}

/* Everything but pid 1; a link that cannot carry it is broken and ends the run by itself. */
static void
kill_all(struct cf_run *run)
{
    struct cf_error why;

    if (cf_link_signal_all(cf_sandbox_link(run->sandbox), SIGKILL, NULL, NULL, &why) < 0)
        cf_log(&run->log, CF_LOG_WARN, "run", "%s", why.text);
}

/* ---- staging ---------------------------------------------------------------------------- */

static void
staging_failed(struct cf_run *run, const char *what, const struct cf_error *err)
{
    struct cf_error why = *err;

    (void)cf_error_wrap(&why, "staging %s into %s", what, root_of(run));
    cf_hall_fail(run, &why);
}

static void
on_schema_written(void *user, int status, json_t *answer, const struct cf_error *err)
{
    struct cf_run *run = user;

    if (run->turn_state != CF_TURN_STAGING)
        return;
    if (status < 0)
        staging_failed(run, SCHEMA_FILE, err);
    else
        spawn_turn(run);
}

static void
stage_schema(struct cf_run *run)
{
    struct cf_error why;

    if (run->prompt.output_schema == NULL || !run->release.output_schema_is_path) {
        spawn_turn(run);
        return;
    }
    if (run->schema_text == NULL ||
        cf_link_write_file(cf_sandbox_link(run->sandbox), root_of(run), SCHEMA_FILE, 0444, run->schema_text,
                           strlen(run->schema_text), on_schema_written, run, &why) < 0)
        staging_failed(run, SCHEMA_FILE, &why);
}

static void
on_prompt_written(void *user, int status, json_t *answer, const struct cf_error *err)
{
    struct cf_run *run = user;

    if (run->turn_state != CF_TURN_STAGING)
        return;
    if (status < 0)
        staging_failed(run, PROMPT_FILE, err);
    else
        stage_schema(run);
}

static void
stage_prompt(struct cf_run *run)
{
    struct cf_error why;

    if (!run->release.prompt_is_path) {
        stage_schema(run);
        return;
    }
    if (cf_link_write_file(cf_sandbox_link(run->sandbox), root_of(run), PROMPT_FILE, 0444, run->prompt.text,
                           run->prompt.text_len, on_prompt_written, run, &why) < 0)
        staging_failed(run, PROMPT_FILE, &why);
}

static void
on_folder(void *user, int status, json_t *answer, const struct cf_error *err)
{
    struct cf_run *run = user;

    if (run->turn_state != CF_TURN_STAGING)
        return;
    if (status < 0)
        staging_failed(run, FOLDER, err);
    else
        stage_prompt(run);
}

/* ---- reading the process ---------------------------------------------------------------- */

static void
oneshot_text(void *user, const char *text, size_t len, uint64_t line)
{
    struct cf_run *run = user;

    cf_record_call(run, CF_CALL_TEXT, line, NULL, 0);
    cf_normalizer_text(run->normalizer, text, len, line);
}

static void
oneshot_object(void *user, json_t *object, uint64_t line)
{
    struct cf_run *run = user;
    struct cf_error why;

    if (run->turn_failed)
        return;
    cf_record_call(run, CF_CALL_OBJECT, line, NULL, 0);
    if (cf_normalizer_object(run->normalizer, object, line, &why) < 0) {
        run->terminal_frame = line;
        run->turn_failed = true;
        (void)cf_error_wrap(&why, "line %llu", (unsigned long long)line);
        why.kind = CF_ERROR_HARNESS;
        run->turn_error = why;
        kill_all(run);
    }
}

static void
oneshot_finding(void *user, uint64_t line, const char *text)
{
    cf_emit_finding(user, "output", line, text);
}

static void
oneshot_broken(void *user, const struct cf_error *err)
{
    struct cf_run *run = user;

    if (run->turn_failed)
        return;
    run->turn_failed = true;
    run->turn_error = *err;
    kill_all(run);
}

static void
show_lines(void *user, const char *line, size_t len, uint64_t number, bool overflow)
{
    cf_emit_frame(user, true, number, line, len);
}

/* ---- the end of a turn ------------------------------------------------------------------ */

/* The last message must be JSON that the schema accepts; otherwise the turn has failed. */
static int
check_output_schema(struct cf_run *run, struct cf_error *err)
{
    size_t len;
    const char *text = cf_normalizer_last_message(run->normalizer, &len);
    struct cf_error why;

    if (run->output_schema == NULL || cf_schema_validate_text(run->output_schema, text, len, NULL, &why) == 0)
        return 0;
    (void)cf_error_set(err, CF_ERROR_HARNESS, 0, "the last message does not satisfy the output schema: %s", why.text);
    return cf_error_fix(err, "print exactly one JSON value that the schema accepts as the last message");
}

static void
judge(struct cf_run *run)
{
    struct cf_error why = {0};
    size_t len;

    cf_record_put(run, CF_RECORD_END, NULL, 0);
    cf_oneshot_end(run->oneshot);
    if (run->host.on_frame != NULL)
        (void)cf_lines_end(&run->shown, show_lines, run);
    cf_record_call(run, CF_CALL_FLUSH, 0, NULL, 0);
    cf_normalizer_flush(run->normalizer, 0);
    (void)cf_normalizer_last_message(run->normalizer, &len);
    if (run->turn_failed)
        return;
    if (run->is_canceled) {
        (void)snprintf(run->stop_reason, sizeof run->stop_reason, "interrupted");
        return;
    }
    if (run->harness.exit.lost || run->harness.exit.code != 0) {
        cf_harness_exit_error(run, "at the end of its turn", &why);
    } else if (!run->release.is_stream_json && len == 0) {
        (void)cf_error_set(&why, CF_ERROR_HARNESS, 0, "the harness exited with code 0 and printed nothing");
        (void)cf_error_fix(&why, "print the answer on stdout before the end; what goes to stderr is not read as one");
    } else {
        (void)check_output_schema(run, &why);
    }
    if (why.kind != CF_ERROR_NONE) {
        run->turn_failed = true;
        run->turn_error = why;
    }
    (void)snprintf(run->stop_reason, sizeof run->stop_reason, "end_turn");
}

static void
on_cleared(void *user, int status, json_t *answer, const struct cf_error *err)
{
    struct cf_run *run = user;

    if (run->turn_state != CF_TURN_CLEARING || --run->clearing > 0)
        return; /* a name that could not be unlinked is the harness's own doing */
    cf_turn_conclude(run);
}

static void
clear_files(struct cf_run *run)
{
    static const char *const names[] = {PROMPT_FILE, SCHEMA_FILE};
    struct cf_error why;

    run->turn_state = CF_TURN_CLEARING;
    run->clearing = 1;
    for (size_t i = 0; i < CF_COUNT(names); i++)
        if (cf_link_unlink(cf_sandbox_link(run->sandbox), root_of(run), names[i], on_cleared, run, &why) == 0)
            run->clearing++;
    on_cleared(run, 0, NULL, NULL);
}

static void
turn_over(struct cf_run *run)
{
    if (run->turn_state != CF_TURN_RUNNING)
        return;
    uv_timer_stop(&run->settle);
    judge(run);
    clear_files(run);
}

static void
on_last_words(uv_timer_t *timer)
{
    struct cf_run *run = timer->data;

    cf_emit_finding(run, "stdout_held_open", 0, "stdout had no end of file even after everything was killed");
    turn_over(run);
}

static void
on_held_open(uv_timer_t *timer)
{
    struct cf_run *run = timer->data;

    cf_emit_finding(run, "stdout_held_open", 0,
                    "a process that outlived the harness held its stdout open; it was killed");
    kill_all(run);
    uv_timer_start(&run->settle, on_last_words, LAST_WORDS_MS, 0);
}

static void
maybe_over(struct cf_run *run)
{
    if (run->harness.has_exited && run->harness.stdout_ended)
        turn_over(run);
    else if (run->harness.has_exited)
        uv_timer_start(&run->settle, on_held_open, HELD_OPEN_MS, 0);
}

/* ---- what the process does -------------------------------------------------------------- */

static void
proc_started(void *user, struct cf_process *process, int pid)
{
    struct cf_run *run = user;

    run->harness.has_started = true;
    if (!run->release.prompt_is_path) {
        if (cf_harness_say(run, run->prompt.text, run->prompt.text_len) < 0)
            cf_emit_finding(run, "stdin", 0, "the prompt did not fit into the queue for stdin");
        cf_harness_end_input(run);
    }
    cf_perturb_moment(run, CF_MOMENT_START);
}

static void
proc_start_failed(void *user, struct cf_process *process, const struct cf_start_failure *failure)
{
    struct cf_run *run = user;
    struct cf_error why;

    cf_harness_start_error(run, failure, &why);
    cf_hall_fail(run, &why);
}

static int
take_stdout(struct cf_run *run, const char *bytes, size_t len)
{
    struct cf_error why;

    if (cf_harness_count_output(run, len) < 0)
        return 0;
    cf_turn_activity(run);
    if (run->host.on_frame != NULL)
        (void)cf_lines_feed(&run->shown, bytes, len, show_lines, run);
    cf_record_put(run, CF_RECORD_OUTPUT, bytes, len);
    if (cf_oneshot_feed(run->oneshot, bytes, len) < 0) {
        (void)cf_error_memory(&why);
        cf_hall_fail(run, &why);
    }
    return run->is_paused || cf_record_is_full(run) ? CF_PAUSE : 0;
}

static int
proc_stdout(void *user, struct cf_process *process, const char *bytes, size_t len)
{
    return cf_perturb_stdout(user, bytes, len, take_stdout);
}

static int
proc_stderr(void *user, struct cf_process *process, const char *bytes, size_t len)
{
    cf_harness_stderr(user, bytes, len);
    cf_turn_activity(user);
    return 0;
}

static void
stdout_over(struct cf_run *run)
{
    run->harness.stdout_ended = true;
    maybe_over(run);
}

static void
proc_stdout_end(void *user, struct cf_process *process)
{
    if (!cf_perturb_holds_end(user, stdout_over))
        stdout_over(user);
}

static void
proc_stderr_end(void *user, struct cf_process *process)
{
    ((struct cf_run *)user)->harness.stderr_ended = true;
}

static void
proc_stdin_room(void *user, struct cf_process *process)
{
    cf_harness_pump(user);
}

static void
proc_stdin_closed(void *user, struct cf_process *process)
{
    struct cf_run *run = user;

    cf_buf_reset(&run->harness.input); /* it chose not to read all of its prompt: its right */
    run->harness.input_at = 0;
}

static void
exit_over(struct cf_run *run, const struct cf_exit *exit)
{
    cf_harness_exited(run, exit);
    maybe_over(run);
}

static void
proc_exit(void *user, struct cf_process *process, const struct cf_exit *exit)
{
    if (!cf_perturb_holds_exit(user, exit, exit_over))
        exit_over(user, exit);
}

/* ---- the lane --------------------------------------------------------------------------- */

static void
spawn_turn(struct cf_run *run)
{
    static const struct cf_oneshot_events events = {
        .on_text = oneshot_text,
        .on_object = oneshot_object,
        .on_finding = oneshot_finding,
        .on_broken = oneshot_broken,
    };
    static const struct cf_process_events process = {
        .on_started = proc_started,
        .on_start_failed = proc_start_failed,
        .on_stdout = proc_stdout,
        .on_stderr = proc_stderr,
        .on_stdout_end = proc_stdout_end,
        .on_stderr_end = proc_stderr_end,
        .on_stdin_room = proc_stdin_room,
        .on_stdin_closed = proc_stdin_closed,
        .on_exit = proc_exit,
    };
    char prompt_path[4200], schema_path[4200];
    struct cf_oneshot_turn turn = {.argv = (const char *const *)run->release.argv,
                                   .resume_flag = run->release.resume_flag,
                                   .continues = run->turn > 1 || run->options.continues};
    struct cf_error why;
    char **argv;

    if (run->is_canceled) { /* while its files were staged */
        (void)snprintf(run->stop_reason, sizeof run->stop_reason, "interrupted");
        clear_files(run);
        return;
    }
    (void)snprintf(prompt_path, sizeof prompt_path, "%s/%s", root_of(run), PROMPT_FILE);
    (void)snprintf(schema_path, sizeof schema_path, "%s/%s", root_of(run), SCHEMA_FILE);
    if (run->release.prompt_is_path)
        turn.prompt_path = prompt_path;
    if (run->prompt.output_schema != NULL) {
        turn.output_schema_flag = run->release.output_schema_flag;
        turn.output_schema_value = run->release.output_schema_is_path ? schema_path : run->schema_text;
    }
    cf_oneshot_free(run->oneshot);
    run->oneshot = cf_oneshot_new(run->release.is_stream_json ? CF_ONESHOT_STREAM_JSON : CF_ONESHOT_TEXT, &events, run);
    cf_lines_release(&run->shown);
    cf_lines_init(&run->shown, 1u << 20);
    argv = cf_oneshot_argv(&turn, &why);
    if (argv != NULL) {
        cf_record_spawn(run, argv);
        cf_record_put(run, CF_RECORD_INPUT, run->prompt.text, run->prompt.text_len);
        cf_emit_frame(run, false, 0, run->prompt.text, run->prompt.text_len);
    }
    if (run->oneshot == NULL || argv == NULL ||
        cf_harness_spawn(run, argv, !run->release.prompt_is_path, &process, &why) < 0) {
        if (run->oneshot == NULL)
            (void)cf_error_memory(&why);
        cf_hall_fail(run, &why);
    } else {
        run->turn_state = CF_TURN_RUNNING;
    }
    cf_argv_free(argv);
}

static int
take_schema(struct cf_run *run, struct cf_error *err)
{
    cf_schema_free(run->output_schema);
    run->output_schema = NULL;
    free(run->schema_text);
    run->schema_text = NULL;
    if (run->prompt.output_schema == NULL)
        return 0;
    if (run->release.output_schema_flag == NULL) {
        (void)cf_error_set(err, CF_ERROR_CONFIG, 0, "this release declares no output schema flag");
        return cf_error_fix(err, "give output_schema_flag and output_schema_transport in the release");
    }
    run->schema_text = cf_json_dump(run->prompt.output_schema, NULL);
    if (run->schema_text == NULL)
        return cf_error_memory(err);
    return cf_schema_admit_value(run->prompt.output_schema, &run->output_schema, NULL, err);
}

static int
lane_open(struct cf_run *run, struct cf_error *err)
{
    run->declared = json_object();
    run->capability_set =
        cf_envelope_oneshot(run->options.is_ephemeral, run->release.is_stream_json, run->release.resume_flag != NULL);
    if (run->capability_set == NULL)
        return cf_error_memory(err);
    cf_record_call_json(run, CF_CALL_READY, 0, run->capability_set);
    cf_normalizer_ready(run->normalizer, run->capability_set, 0);
    cf_hall_session_ready(run);
    return 0;
}

static int
lane_begin(struct cf_run *run, struct cf_error *err)
{
    if (take_schema(run, err) < 0)
        return -1;
    if (!run->release.prompt_is_path && run->prompt.output_schema == NULL) {
        spawn_turn(run);
        return 0;
    }
    return cf_link_mkdir(cf_sandbox_link(run->sandbox), root_of(run), FOLDER, 0755, on_folder, run, err);
}

static void
lane_cancel(struct cf_run *run)
{
    if (run->turn_state == CF_TURN_NONE || run->is_canceled)
        return;
    run->is_canceled = true;
    if (run->turn_state == CF_TURN_RUNNING)
        kill_all(run);
}

static void
lane_resume(struct cf_run *run)
{
    if (run->harness.process != NULL)
        cf_process_resume(run->harness.process);
}

static void
lane_stop(struct cf_run *run)
{
}

static void
lane_release(struct cf_run *run)
{
    cf_oneshot_free(run->oneshot);
    run->oneshot = NULL;
    cf_lines_release(&run->shown);
    cf_schema_free(run->output_schema);
    run->output_schema = NULL;
    free(run->schema_text);
    run->schema_text = NULL;
}

const struct cf_lane cf_oneshot_lane = {.open = lane_open,
                                        .begin = lane_begin,
                                        .cancel = lane_cancel,
                                        .resume = lane_resume,
                                        .stop = lane_stop,
                                        .release = lane_release};
