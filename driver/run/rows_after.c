/*
 * The rows of files and hooks: staged and run on the way down, before the first turn; run and
 * collected on the way up, once the harness and its children are gone.
 */
#include "run/rows.h"

#include "base/clock.h"

#include <signal.h>

/* ---- files: staged on the way down, collected on the way up ------------------------------- */

bool
cf_rows_wants_collecting(const struct cf_run *run)
{
    return run->options.collect != NULL || run->options.state_out != NULL;
}

bool
cf_rows_wants_staging(const struct cf_run *run)
{
    return run->options.state_in != NULL || run->options.restore != NULL || json_array_size(run->options.files) > 0;
}

/* Why nothing of the author's may run or be read any more, or NULL: it may. */
static const char *
why_not_after(const struct cf_run *run)
{
    if (run->sandbox_lost || run->sandbox == NULL)
        return "the sandbox is gone";
    if (run->end_wanted || run->error.kind == CF_ERROR_CANCELED)
        return "the run was interrupted";
    if (run->error.kind == CF_ERROR_DEADLINE || cf_hall_left_ms(run) == 0)
        return "the whole command's time was over";
    if (run->hook_aborted)
        return "a hook failed";
    return run->turn == 0 ? "no turn was begun" : NULL;
}

static void
files_row_done(struct cf_run *run, int status, const struct cf_error *err)
{
    if (status < 0)
        run->steps.err = *err;
    cf_steps_settle(&run->steps, status);
}

static void
on_folders_ready(struct cf_run *run, int status, const struct cf_error *err)
{
    struct cf_error why;

    if (status < 0 || !cf_rows_wants_staging(run))
        files_row_done(run, status, err);
    else if (cf_stage_open(run, files_row_done, &why) < 0)
        files_row_done(run, -1, &why);
}

int
cf_rows_files_start(struct cf_steps *steps, struct cf_error *err)
{
    struct cf_run *run = cf_run_of(steps);

    if (cf_rows_wants_collecting(run))
        return cf_collect_prepare(run, on_folders_ready, err);
    on_folders_ready(run, 0, NULL);
    return 0;
}

void
cf_rows_files_abort(struct cf_steps *steps)
{
    struct cf_run *run = cf_run_of(steps);

    cf_stage_give_up(run);
    cf_collect_give_up(run, CF_COLLECT_AFTER);
}

/* Nothing of ours is lost by it; what the author asked for did not come about. */
void
cf_rows_keep_late_error(struct cf_run *run, const struct cf_error *err)
{
    if (run->error.kind == CF_ERROR_NONE && err->kind != CF_ERROR_CANCELED)
        run->error = *err;
}

static void
on_collected(struct cf_run *run, int status, const struct cf_error *err)
{
    if (status < 0)
        cf_rows_keep_late_error(run, err);
    uv_timer_stop(&run->phase);
    cf_hall_phase(run, "files", "collect", cf_clock_ms() - run->after_began_ms);
    cf_steps_settle(&run->steps, 0);
}

static void
on_collect_deadline(uv_timer_t *timer)
{
    struct cf_run *run = timer->data;
    struct cf_error why;

    (void)cf_error_set(&why, CF_ERROR_DEADLINE, 0, "the whole command's time was over while files were collected");
    (void)cf_error_fix(&why, "raise --timeout, or collect less with --collect-limit");
    cf_rows_keep_late_error(run, &why);
    cf_collect_give_up(run, CF_COLLECT_AFTER);
}

static void
collect_after(struct cf_run *run)
{
    const char *why_not = why_not_after(run);

    if (run->collects[CF_COLLECT_AFTER].at == NULL) {
        cf_steps_settle(&run->steps, 0);
        return;
    }
    run->after_began_ms = cf_clock_ms();
    if (why_not != NULL) {
        cf_collect_skip(run, why_not, on_collected);
        return;
    }
    uv_timer_start(&run->phase, on_collect_deadline, cf_hall_left_ms(run), 0);
    cf_collect_begin(run, CF_COLLECT_AFTER, on_collected);
}

/* What the host asked for has been given up by now; its file of this machine may still be open. */
int
cf_rows_files_undo(struct cf_steps *steps, struct cf_error *err)
{
    cf_keep_await(cf_run_of(steps), collect_after);
    return 0;
}

/* ---- hooks --------------------------------------------------------------------------------- */

bool
cf_rows_has_hooks(const struct cf_run *run, enum cf_hook_phase phase)
{
    return json_array_size(run->options.hooks[phase]) > 0;
}

static void
on_hooks_post(struct cf_run *run, int status, const struct cf_error *err)
{
    if (status < 0)
        run->steps.err = *err;
    cf_steps_settle(&run->steps, status);
}

int
cf_rows_hooks_start(struct cf_steps *steps, struct cf_error *err)
{
    struct cf_run *run = cf_run_of(steps);

    if (cf_rows_has_hooks(run, CF_HOOK_POST_MATERIALIZE))
        return cf_hooks_open(run, CF_HOOK_POST_MATERIALIZE, on_hooks_post, err);
    cf_steps_settle(steps, 0);
    return 0;
}

void
cf_rows_hooks_abort(struct cf_steps *steps)
{
    cf_hooks_give_up(cf_run_of(steps));
}

static void
on_hooks_pre(struct cf_run *run, int status, const struct cf_error *err)
{
    if (status < 0)
        cf_rows_keep_late_error(run, err);
    cf_hall_phase(run, "hooks", "pre_writeback", cf_clock_ms() - run->after_began_ms);
    cf_steps_settle(&run->steps, 0);
}

/* The harness is gone, its children too: what is read from now on stands still. */
static void
on_all_killed(void *user, int status, json_t *answer, const struct cf_error *err)
{
    struct cf_run *run = user;
    struct cf_error why;

    if (!run->after_pending)
        return;
    run->after_pending = false;
    if (why_not_after(run) != NULL || !cf_rows_has_hooks(run, CF_HOOK_PRE_WRITEBACK)) {
        cf_hooks_skip(run, CF_HOOK_PRE_WRITEBACK);
        cf_steps_settle(&run->steps, 0);
    } else if (cf_hooks_open(run, CF_HOOK_PRE_WRITEBACK, on_hooks_pre, &why) < 0) {
        on_hooks_pre(run, -1, &why);
    }
}

int
cf_rows_hooks_undo(struct cf_steps *steps, struct cf_error *err)
{
    struct cf_run *run = cf_run_of(steps);
    struct cf_error why;

    run->after_began_ms = cf_clock_ms();
    run->after_pending = cf_rows_has_hooks(run, CF_HOOK_PRE_WRITEBACK) || cf_rows_wants_collecting(run);
    if (!run->after_pending)
        cf_steps_settle(steps, 0);
    else if (why_not_after(run) != NULL ||
             cf_link_signal_all(cf_sandbox_link(run->sandbox), SIGKILL, on_all_killed, run, &why) < 0)
        on_all_killed(run, -1, NULL, NULL);
    return 0;
}

void
cf_rows_after_hurry(struct cf_run *run)
{
    on_all_killed(run, -1, NULL, NULL);
    cf_hooks_give_up(run);
    cf_collect_give_up(run, CF_COLLECT_AFTER);
}
