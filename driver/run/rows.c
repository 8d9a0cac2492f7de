/*
 * The rows of a run: reading down is provisioning, reading up is teardown. Each row keeps its
 * start, its callback and its undo side by side. A row whose wait is given up (cancel) settles at
 * once and its undo closes what it had opened; closing means that nothing of it fires any more.
 * The longer ones stand in files of their own: rows_image.c, rows_sandbox.c, rows_after.c.
 */
#include "run/rows.h"

#include "base/str.h"

#include <stddef.h>

#define CONNECT_MS 15000u
#define REAP_MS 8000u
#define LINGER_MS 2000u /* a harness whose stdin was closed may take so long to end by itself */

/* ---- recording: before and after anything else -------------------------------------------------------- */

static int
record_start(struct cf_steps *steps, struct cf_error *err)
{
    cf_steps_settle(steps, 0); /* the file is open since the run is */
    return 0;
}

static void
on_sealed(struct cf_run *run)
{
    cf_steps_settle(&run->steps, 0);
}

static int
record_undo(struct cf_steps *steps, struct cf_error *err)
{
    cf_record_seal(cf_run_of(steps), on_sealed);
    return 0;
}

/* ---- voice: the claim, before anything else and until all else is gone ------------------------------ */

static void
on_voice(struct cf_run *run, int status, const struct cf_error *err)
{
    if (status < 0)
        run->steps.err = *err;
    cf_steps_settle(&run->steps, status);
}

static int
voice_start(struct cf_steps *steps, struct cf_error *err)
{
    struct cf_run *run = cf_run_of(steps);

    if (run->voice != NULL)
        return cf_voice_open(run, on_voice, err);
    cf_steps_settle(steps, 0);
    return 0;
}

static void
voice_abort(struct cf_steps *steps)
{
    cf_voice_give_up(cf_run_of(steps));
}

/* The last words name the recording's digest: nothing may be added to it any more. */
static void
say_last_words(struct cf_run *run)
{
    cf_voice_close(run, on_voice);
}

static int
voice_undo(struct cf_steps *steps, struct cf_error *err)
{
    struct cf_run *run = cf_run_of(steps);

    if (run->voice != NULL)
        cf_record_seal(run, say_last_words);
    else
        say_last_words(run);
    return 0;
}

/* ---- engine ----------------------------------------------------------------------------- */

static void
on_connected(void *user, int status, const struct cf_error *err)
{
    struct cf_run *run = user;

    if (!run->connect_pending)
        return; /* the row was given up */
    run->connect_pending = false;
    if (status < 0)
        run->steps.err = *err;
    cf_steps_settle(&run->steps, status);
}

static void
on_pool_ready(struct cf_pool_wait *wait, const struct cf_error *err)
{
    struct cf_run *run = cf_container_of(wait, struct cf_run, pool_wait);

    if (err != NULL)
        run->steps.err = *err;
    else
        run->engine = run->pool->engine;
    cf_steps_settle(&run->steps, err != NULL ? -1 : 0);
}

static int
engine_start(struct cf_steps *steps, struct cf_error *err)
{
    struct cf_run *run = cf_run_of(steps);
    const struct cf_engine_options options = {.endpoint = run->options.engine,
                                              .docker_config_dir = run->options.docker_config_dir,
                                              .log = &run->log};

    if (run->pool != NULL) {
        run->pool_wait.on_ready = on_pool_ready;
        cf_pool_await(run->pool, &run->pool_wait);
        return 0;
    }
    if (cf_engine_open(run->loop, &options, &run->engine, err) < 0)
        return -1;
    run->connect_pending = true;
    if (cf_engine_connect(run->engine, CONNECT_MS, on_connected, run, err) == 0)
        return 0;
    run->connect_pending = false;
    return -1;
}

static void
engine_abort(struct cf_steps *steps)
{
    struct cf_run *run = cf_run_of(steps);

    if (!run->connect_pending && !run->pool_wait.is_waiting)
        return;
    if (run->pool != NULL)
        cf_pool_forget(run->pool, &run->pool_wait);
    run->connect_pending = false;
    cf_steps_settle(steps, -1);
}

static void
on_engine_closed(void *user)
{
    struct cf_run *run = user;

    run->engine = NULL;
    cf_steps_settle(&run->steps, 0);
}

static int
engine_undo(struct cf_steps *steps, struct cf_error *err)
{
    struct cf_run *run = cf_run_of(steps);

    if (run->pool != NULL)
        run->engine = NULL; /* the pool's */
    if (run->engine == NULL)
        cf_steps_settle(steps, 0);
    else
        cf_engine_close(run->engine, on_engine_closed, run);
    return 0;
}

/* ---- owner, and what dead runs of ours left ----------------------------------------------- */

static int
owner_start(struct cf_steps *steps, struct cf_error *err)
{
    struct cf_run *run = cf_run_of(steps);

    if (run->pool != NULL)
        run->owner = run->pool->owner;
    else if (cf_owner_open(run->options.state_dir, &run->owner, err) < 0)
        return -1;
    if (run->warm == NULL) { /* a warm sandbox has its lock file */
        if (cf_owner_run_begin(run->owner, run->id, err) < 0)
            return -1;
        run->owner_begun = true;
    }
    cf_steps_settle(steps, 0);
    return 0;
}

static int
owner_undo(struct cf_steps *steps, struct cf_error *err)
{
    struct cf_run *run = cf_run_of(steps);

    if (run->owner_begun)
        cf_owner_run_end(run->owner, run->id);
    run->owner_begun = false;
    if (run->pool == NULL)
        cf_owner_close(run->owner);
    run->owner = NULL;
    cf_steps_settle(steps, 0);
    return 0;
}

static void
on_reaped(void *user, int status, json_t *report, const struct cf_error *err)
{
    struct cf_run *run = user;
    size_t dead = json_array_size(json_object_get(report, "dead"));

    run->reap_pending = false;
    if (dead > 0)
        cf_log(&run->log, CF_LOG_WARN, "reap", "removed what %zu dead run(s) of this installation had left", dead);
    if (status < 0)
        cf_log(&run->log, CF_LOG_WARN, "reap", "%s", err->text);
    if (run->reap_awaited) {
        run->reap_awaited = false;
        cf_steps_settle(&run->steps, 0);
    }
}

/* Runs beside the provisioning: nobody waits for it but the way back. */
static int
reap_start(struct cf_steps *steps, struct cf_error *err)
{
    struct cf_run *run = cf_run_of(steps);
    struct cf_error why;

    if (!run->options.skip_reap && run->pool == NULL) {
        if (cf_reap_open(run->loop, run->engine, run->owner, false, false, REAP_MS, on_reaped, run, &why) == 0)
            run->reap_pending = true;
        else
            cf_log(&run->log, CF_LOG_WARN, "reap", "%s", why.text);
    }
    cf_steps_settle(steps, 0);
    return 0;
}

static int
reap_undo(struct cf_steps *steps, struct cf_error *err)
{
    struct cf_run *run = cf_run_of(steps);

    if (run->reap_pending)
        run->reap_awaited = true;
    else
        cf_steps_settle(steps, 0);
    return 0;
}

/* ---- relay ------------------------------------------------------------------------------ */

static int
relay_start(struct cf_steps *steps, struct cf_error *err)
{
    if (cf_gateway_open(cf_run_of(steps), err) < 0)
        return -1;
    cf_steps_settle(steps, 0);
    return 0;
}

static void
on_gateway_closed(struct cf_run *run)
{
    cf_steps_settle(&run->steps, 0);
}

static int
relay_undo(struct cf_steps *steps, struct cf_error *err)
{
    cf_gateway_close(cf_run_of(steps), on_gateway_closed);
    return 0;
}

/* ---- session ---------------------------------------------------------------------------- */

static int
session_start(struct cf_steps *steps, struct cf_error *err)
{
    struct cf_run *run = cf_run_of(steps);

    run->session_pending = true;
    if (run->lane->open(run, err) == 0)
        return 0;
    run->session_pending = false;
    return -1;
}

void
cf_hall_session_ready(struct cf_run *run)
{
    if (!run->session_pending)
        return;
    run->session_pending = false;
    cf_steps_settle(&run->steps, 0);
}

static void
session_abort(struct cf_steps *steps)
{
    struct cf_run *run = cf_run_of(steps);

    if (!run->session_pending)
        return;
    run->session_pending = false;
    cf_steps_settle(steps, -1);
}

void
cf_rows_lane_gone(struct cf_run *run)
{
    if (!run->lane_closing)
        return;
    run->lane_closing = false;
    uv_timer_stop(&run->settle);
    cf_harness_reset(run);
    cf_steps_settle(&run->steps, 0);
}

static void
on_linger(uv_timer_t *timer)
{
    cf_rows_lane_gone(timer->data);
}

/* The lease ends first; then a living harness gets its end of input and a moment to go. */
static int
session_undo(struct cf_steps *steps, struct cf_error *err)
{
    struct cf_run *run = cf_run_of(steps);
    uint64_t linger = run->close_grace_ms < LINGER_MS ? run->close_grace_ms : LINGER_MS;

    uv_timer_stop(&run->phase);
    uv_timer_stop(&run->idle);
    uv_timer_stop(&run->settle);
    if (run->relay != NULL)
        cf_relay_revoke(run->relay);
    run->lane_closing = true;
    run->lane->stop(run);
    if (!run->harness.has_started || run->harness.has_exited || run->harness.process == NULL || linger == 0 ||
        run->error.kind != CF_ERROR_NONE)
        cf_rows_lane_gone(run);
    else
        uv_timer_start(&run->settle, on_linger, linger, 0);
    return 0;
}

const struct cf_step cf_rows[CF_ROW_COUNT] = {
    {"recording", record_start, record_undo, NULL, 0},
    {"journal", voice_start, voice_undo, voice_abort, 0},
    {"engine", engine_start, engine_undo, engine_abort, 0},
    {"owner", owner_start, owner_undo, NULL, 0},
    {"reap", reap_start, reap_undo, NULL, 0},
    {"image", cf_rows_image_start, cf_rows_image_undo, cf_rows_image_abort, 0},
    {"relay", relay_start, relay_undo, NULL, 0},
    {"sandbox", cf_rows_sandbox_start, cf_rows_sandbox_undo, cf_rows_sandbox_abort, 0},
    {"files", cf_rows_files_start, cf_rows_files_undo, cf_rows_files_abort, 0},
    {"hooks", cf_rows_hooks_start, cf_rows_hooks_undo, cf_rows_hooks_abort, 0},
    {"session", session_start, session_undo, session_abort, 0},
};

/* The grace became shorter while the way back is under way. */
void
cf_rows_hurry(struct cf_run *run)
{
    if (run->sandbox != NULL && run->steps.running && &cf_rows[run->steps.at] == &cf_rows[CF_ROW_SANDBOX])
        cf_rows_close_sandbox(run);
    if (run->lane_closing && run->close_grace_ms < LINGER_MS)
        cf_rows_lane_gone(run);
    if (run->end_wanted) {
        cf_rows_after_hurry(run);
        cf_voice_hurry(run);
    }
}

bool
cf_rows_are_after(const struct cf_run *run)
{
    return run->steps.at > CF_ROW_SANDBOX && (cf_rows_wants_collecting(run) || cf_rows_has_hooks(run, CF_HOOK_PRE_WRITEBACK));
}

bool
cf_rows_is_silent(const struct cf_run *run, const struct cf_step *row)
{
    ptrdiff_t at = row - cf_rows;

    return at == CF_ROW_RECORD || at == CF_ROW_OWNER || at == CF_ROW_REAP || (at == CF_ROW_VOICE && run->voice == NULL) ||
           (at == CF_ROW_FILES && !cf_rows_wants_staging(run)) ||
           (at == CF_ROW_HOOKS && !cf_rows_has_hooks(run, CF_HOOK_POST_MATERIALIZE));
}
