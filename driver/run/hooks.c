/*
 * Lifecycle hooks. A text is a command for /bin/sh, where the image has one; a list is an exact
 * argv. Each is a process of cf-init like any other, with a time of its own; what it prints is
 * kept to the contract's bound and never read as anything else.
 */
#include "run/hooks.h"
#include "run/hall.h"

#include "base/clock.h"
#include "base/str.h"
#include "base/utf8.h"
#include "json/json.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>

#define SHELL "/bin/sh"
#define OUTPUT_UNITS 8192u          /* of the contract */
#define OUTPUT_BYTES (64u * 1024u)  /* kept: enough for so many units, repaired or not */
#define HELD_OPEN_MS 500u           /* it has ended, a child of its holds its output open */
#define KILL_MS 2000u               /* from SIGKILL to an exit, or it is let go of */
#define DURATION_MOST_MS 3600000u

enum outcome { PASSED, FAILED, TIMED_OUT, SLOT_UNAVAILABLE, SKIPPED };

struct cf_hooks {
    struct cf_run *run;
    enum cf_hook_phase phase;
    cf_hooks_done_fn *done;
    size_t at, count;
    bool has_looked, has_shell;
    char **env;

    struct cf_process *process;
    struct cf_buf output;
    bool is_cut, has_started, has_exited, stdout_ended, stderr_ended, is_late;
    struct cf_exit exit;
    uint64_t began_ms;
    struct cf_error err;
};

static void next(struct cf_hooks *hooks);

static const char *
phase_name(enum cf_hook_phase phase)
{
    return phase == CF_HOOK_POST_MATERIALIZE ? "post_materialize" : "pre_writeback";
}

static json_t *
command_at(const struct cf_hooks *hooks, size_t i)
{
    return json_array_get(hooks->run->options.hooks[hooks->phase], i);
}

/* ---- telling ------------------------------------------------------------------------------- */

static void
tell(struct cf_run *run, enum cf_hook_phase phase, size_t ordinal, enum outcome outcome, int exit_code,
     uint64_t took_ms, const char *output, size_t len, bool is_cut)
{
    static const char *const words[] = {"passed", "failed", "timed_out", "slot_unavailable", "skipped"};
    cf_auto_free char *text = malloc(3 * len + 1);
    size_t repairs, n = text != NULL ? cf_utf8_repair(output, len, text, &repairs) : 0;
    size_t keep = text != NULL ? cf_utf16_prefix(text, n, OUTPUT_UNITS) : 0;
    json_t *payload =
        json_pack("{s:s, s:I, s:s, s:s, s:o, s:I, s:o, s:b}", "phase", phase_name(phase), "ordinal",
                  (json_int_t)ordinal, "outcome", words[outcome], "on_failure",
                  run->options.hooks_go_on ? "continue" : "abort", "exit_code",
                  exit_code >= 0 && exit_code <= 255 ? json_integer(exit_code) : json_null(), "duration_ms",
                  (json_int_t)(took_ms < DURATION_MOST_MS ? took_ms : DURATION_MOST_MS), "output",
                  text != NULL ? json_stringn(text, keep) : json_string(""), "output_truncated", is_cut || keep < n);

    if (payload != NULL) {
        cf_record_call_json(run, CF_CALL_HOOK, 0, payload);
        cf_normalizer_hook(run->normalizer, payload);
    }
    json_decref(payload);
}

static void
skip_from(struct cf_run *run, enum cf_hook_phase phase, size_t first)
{
    for (size_t i = first; i < json_array_size(run->options.hooks[phase]); i++)
        tell(run, phase, i, SKIPPED, -1, 0, "", 0, false);
}

void
cf_hooks_skip(struct cf_run *run, enum cf_hook_phase phase)
{
    skip_from(run, phase, 0);
}

/* ---- the end ----------------------------------------------------------------------------------- */

static void
forget_process(struct cf_hooks *hooks)
{
    uv_timer_stop(&hooks->run->phase);
    cf_process_free(hooks->process);
    hooks->process = NULL;
    cf_buf_reset(&hooks->output);
    hooks->is_cut = hooks->has_started = hooks->has_exited = hooks->stdout_ended = hooks->stderr_ended = false;
    hooks->is_late = false;
}

static void
finish(struct cf_hooks *hooks, int status)
{
    struct cf_run *run = hooks->run;
    cf_hooks_done_fn *done = hooks->done;
    struct cf_error err = hooks->err;

    forget_process(hooks);
    cf_buf_release(&hooks->output);
    cf_argv_free(hooks->env);
    free(hooks);
    run->hooks = NULL;
    done(run, status, &err);
}

/* As an author reads it: its text, or its argv as one would type it; shortened. */
static void
command_line(const struct cf_hooks *hooks, char *to, size_t size)
{
    json_t *command = command_at(hooks, hooks->at), *word;
    struct cf_buf line;
    size_t i;

    cf_buf_init(&line, 0);
    if (json_is_string(command))
        (void)cf_buf_adds(&line, json_string_value(command));
    json_array_foreach(command, i, word)
    {
        if (i > 0)
            (void)cf_buf_adds(&line, " ");
        cf_shell_quote(&line, json_string_value(word));
    }
    (void)snprintf(to, size, "%.*s", (int)cf_utf8_cut(line.data != NULL ? line.data : "", line.len, size - 1),
                   line.data != NULL ? line.data : "");
    cf_utf8_make_line(to);
    cf_buf_release(&line);
}

/* This hook did not pass: the end of all, or only a finding. `why` says what happened to it. */
static void
did_not_pass(struct cf_hooks *hooks, const char *why, const char *fix)
{
    struct cf_run *run = hooks->run;
    char command[120], text[600];

    command_line(hooks, command, sizeof command);
    (void)snprintf(text, sizeof text, "hook %zu of %s (%s) %s", hooks->at, phase_name(hooks->phase), command, why);
    if (run->options.hooks_go_on) {
        cf_emit_finding(run, "hook_failed", 0, text);
        forget_process(hooks);
        hooks->at++;
        next(hooks);
        return;
    }
    (void)cf_error_set(&hooks->err, CF_ERROR_HARNESS, hooks->has_exited ? hooks->exit.code : 0, "%s", text);
    (void)cf_error_fix(&hooks->err, "%s", fix);
    run->hook_aborted = true;
    skip_from(run, hooks->phase, hooks->at + 1);
    finish(hooks, -1);
}

/* ---- what became of the one that runs ---------------------------------------------------------------- */

static void
tell_this(struct cf_hooks *hooks, enum outcome outcome, int exit_code)
{
    tell(hooks->run, hooks->phase, hooks->at, outcome, exit_code, cf_clock_ms() - hooks->began_ms,
         hooks->output.data != NULL ? hooks->output.data : "", hooks->output.len, hooks->is_cut);
}

static void
settle(struct cf_hooks *hooks)
{
    const struct cf_exit *e = &hooks->exit;
    char why[200];

    if (hooks->is_late) {
        tell_this(hooks, TIMED_OUT, -1);
        (void)snprintf(why, sizeof why, "did not end within %llu ms and was killed",
                       (unsigned long long)(cf_clock_ms() - hooks->began_ms));
        did_not_pass(hooks, why, "raise --hook-timeout, or make it do less");
        return;
    }
    if (!e->lost && e->signal == 0 && e->code == 0) {
        tell_this(hooks, PASSED, 0);
        forget_process(hooks);
        hooks->at++;
        next(hooks);
        return;
    }
    tell_this(hooks, FAILED, e->lost || e->signal != 0 ? -1 : e->code);
    if (e->lost)
        (void)snprintf(why, sizeof why, "was lost with its sandbox");
    else if (e->signal != 0)
        (void)snprintf(why, sizeof why, "was ended by signal %d (%s)%s", e->signal, strsignal(e->signal),
                       e->oom_kills > 0 ? ", out of memory" : "");
    else
        (void)snprintf(why, sizeof why, "exited with code %d", e->code);
    did_not_pass(hooks, why, "its output is in its observation; --hook-on-failure continue goes on without it");
}

static void
on_held_open(uv_timer_t *timer)
{
    settle(((struct cf_run *)timer->data)->hooks);
}

static void
maybe_over(struct cf_hooks *hooks)
{
    if (!hooks->has_exited)
        return;
    if (hooks->exit.lost || (hooks->stdout_ended && hooks->stderr_ended))
        settle(hooks);
    else
        uv_timer_start(&hooks->run->phase, on_held_open, HELD_OPEN_MS, 0);
}

static void
on_undead(uv_timer_t *timer)
{
    settle(((struct cf_run *)timer->data)->hooks);
}

static void
on_late(uv_timer_t *timer)
{
    struct cf_hooks *hooks = ((struct cf_run *)timer->data)->hooks;

    hooks->is_late = true;
    cf_process_signal(hooks->process, SIGKILL);
    uv_timer_start(timer, on_undead, KILL_MS, 0);
}

static int
keep_output(struct cf_hooks *hooks, const char *bytes, size_t len)
{
    size_t room = OUTPUT_BYTES - hooks->output.len, n = len < room ? len : room;

    hooks->is_cut = hooks->is_cut || n < len;
    if (cf_buf_add(&hooks->output, bytes, n) < 0)
        hooks->is_cut = true;
    return 0;
}

static void
proc_started(void *user, struct cf_process *process, int pid)
{
    ((struct cf_hooks *)user)->has_started = true;
}

static void
proc_start_failed(void *user, struct cf_process *process, const struct cf_start_failure *failure)
{
    struct cf_hooks *hooks = user;
    char why[400];

    (void)snprintf(why, sizeof why, "could not be started: %s: %s%s%s", failure->phase, strerror(failure->error),
                   failure->detail[0] != '\0' ? "; " : "", failure->detail);
    (void)keep_output(hooks, why, strlen(why));
    tell_this(hooks, SLOT_UNAVAILABLE, -1);
    did_not_pass(hooks, why, "the image must hold the program, executable by its user");
}

static int
proc_output(void *user, struct cf_process *process, const char *bytes, size_t len)
{
    return keep_output(user, bytes, len);
}

static void
proc_stdout_end(void *user, struct cf_process *process)
{
    struct cf_hooks *hooks = user;

    hooks->stdout_ended = true;
    maybe_over(hooks);
}

static void
proc_stderr_end(void *user, struct cf_process *process)
{
    struct cf_hooks *hooks = user;

    hooks->stderr_ended = true;
    maybe_over(hooks);
}

static void
proc_exit(void *user, struct cf_process *process, const struct cf_exit *exit)
{
    struct cf_hooks *hooks = user;

    hooks->has_exited = true;
    hooks->exit = *exit;
    maybe_over(hooks);
}

/* ---- starting one ---------------------------------------------------------------------------------------- */

/* Returns what was counted into argv (of 257 and a NULL). */
static void
fill_argv(json_t *command, const char **argv)
{
    size_t n = 0, i;
    json_t *word;

    if (json_is_string(command)) {
        argv[n++] = SHELL;
        argv[n++] = "-c";
        argv[n++] = json_string_value(command);
    }
    json_array_foreach(command, i, word) argv[n++] = json_string_value(word);
    argv[n] = NULL;
}

static uint64_t
budget_ms(const struct cf_run *run)
{
    uint64_t left = cf_hall_left_ms(run);

    return run->options.hook_ms < left ? run->options.hook_ms : left;
}

static void
spawn(struct cf_hooks *hooks)
{
    static const struct cf_process_events events = {
        .on_started = proc_started,
        .on_start_failed = proc_start_failed,
        .on_stdout = proc_output,
        .on_stderr = proc_output,
        .on_stdout_end = proc_stdout_end,
        .on_stderr_end = proc_stderr_end,
        .on_exit = proc_exit,
    };
    struct cf_run *run = hooks->run;
    const char *argv[258];
    const struct cf_spawn spawn = {.argv = argv,
                                   .env = (const char *const *)hooks->env,
                                   .cwd = cf_sandbox_working_directory(run->sandbox),
                                   .nofile = run->options.nofile};
    struct cf_error why;

    fill_argv(command_at(hooks, hooks->at), argv);
    if (cf_process_spawn(cf_sandbox_link(run->sandbox), &spawn, &events, hooks, &hooks->process, &why) < 0) {
        (void)keep_output(hooks, why.text, strlen(why.text));
        tell_this(hooks, SLOT_UNAVAILABLE, -1);
        did_not_pass(hooks, why.text, why.fix);
        return;
    }
    uv_timer_start(&run->phase, on_late, budget_ms(run), 0);
}

static void
no_shell(struct cf_hooks *hooks)
{
    static const char why[] = "cannot be started: the image has no " SHELL " to run a plain command";

    (void)keep_output(hooks, why, strlen(why));
    tell_this(hooks, SLOT_UNAVAILABLE, -1);
    did_not_pass(hooks, why, "give it as a JSON array, an exact argv: '[\"/path/to/program\",\"argument\"]'");
}

static void
on_shell_looked_for(void *user, int status, json_t *answer, const struct cf_error *err)
{
    struct cf_hooks *hooks = ((struct cf_run *)user)->hooks;

    if (hooks == NULL || hooks->has_looked)
        return;
    hooks->has_looked = true;
    hooks->has_shell = status == 0 && cf_json_bool(answer, "exists", false) &&
                       cf_str_same(cf_json_str(answer, "type"), "file");
    next(hooks);
}

static void
next(struct cf_hooks *hooks)
{
    struct cf_run *run = hooks->run;
    struct cf_error why;

    if (hooks->at == hooks->count) {
        finish(hooks, 0);
        return;
    }
    hooks->began_ms = cf_clock_ms();
    if (json_is_array(command_at(hooks, hooks->at))) {
        spawn(hooks);
    } else if (!hooks->has_looked) {
        if (cf_link_stat(cf_sandbox_link(run->sandbox), SHELL, on_shell_looked_for, run, &why) < 0) {
            hooks->has_looked = true;
            no_shell(hooks);
        }
    } else if (hooks->has_shell) {
        spawn(hooks);
    } else {
        no_shell(hooks);
    }
}

int
cf_hooks_open(struct cf_run *run, enum cf_hook_phase phase, cf_hooks_done_fn *done, struct cf_error *err)
{
    struct cf_hooks *hooks = calloc(1, sizeof *hooks);

    if (hooks == NULL)
        return cf_error_memory(err);
    hooks->run = run;
    hooks->phase = phase;
    hooks->done = done;
    hooks->count = json_array_size(run->options.hooks[phase]);
    hooks->env = cf_harness_env_for_hook(run);
    if (hooks->env == NULL) {
        free(hooks);
        return cf_error_set(err, CF_ERROR_CONFIG, 0, "the environment does not fit (at most 590 variables)");
    }
    run->hooks = hooks;
    next(hooks);
    return 0;
}

void
cf_hooks_give_up(struct cf_run *run)
{
    struct cf_hooks *hooks = run->hooks;

    if (hooks == NULL)
        return;
    if (hooks->process != NULL)
        cf_process_signal(hooks->process, SIGKILL);
    skip_from(run, hooks->phase, hooks->at);
    (void)cf_error_set(&hooks->err, CF_ERROR_CANCELED, 0, "the hooks were given up");
    finish(hooks, -1);
}
