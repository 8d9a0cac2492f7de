/*
 * The rows of a run: reading down is provisioning, reading up is teardown. Each row keeps its
 * start, its callback and its undo side by side. A row whose wait is given up (cancel) settles at
 * once and its undo closes what it had opened; closing means that nothing of it fires any more.
 */
#include "run/hall.h"

#include "base/clock.h"
#include "base/ids.h"
#include "base/str.h"
#include "json/json.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>

#define CONNECT_MS 15000u
#define REAP_MS 8000u
#define LINGER_MS 2000u /* a harness whose stdin was closed may take so long to end by itself */

extern const char cf_init_start[] __asm__("_binary_cf_init_start");
extern const char cf_init_end[] __asm__("_binary_cf_init_end");

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

/* ---- image ------------------------------------------------------------------------------ */

static void
image_step(void *user, const char *name, uint64_t took_ms)
{
    cf_hall_phase(user, "image", name, took_ms);
}

static void
image_progress(void *user, const char *what, json_t *object)
{
    struct cf_run *run = user;
    cf_auto_free char *text = NULL;
    size_t len = 0;

    if (run->host.on_progress != NULL && (text = cf_json_dump(object, &len)) != NULL)
        run->host.on_progress(run->host.user, what, text, len);
}

static void
image_warning(void *user, const char *text)
{
    cf_emit_finding(user, "exposure", 0, text);
}

static void
image_done(void *user, int status, const struct cf_image_facts *facts, const char *tail, const struct cf_error *err)
{
    struct cf_run *run = user;

    if (run->image_given_up)
        return;
    run->image_pending = false;
    run->image_facts = status == 0 ? facts : NULL;
    if (status < 0) {
        run->steps.err = *err;
        if (cf_str_copy(&run->failure_tail, tail, NULL) < 0)
            run->failure_tail = NULL; /* the error itself still stands */
    }
    cf_steps_settle(&run->steps, status);
}

static int64_t
deadline_unix(const struct cf_run_options *options)
{
    return cf_clock_unix() + (int64_t)((options->whole_ms + options->pool_ttl_ms * options->has_pool + options->grace_ms) / 1000) + 600;
}

void
cf_rows_image_options(const struct cf_release *release, const struct cf_run_options *options,
                      struct cf_image_options *ret_options)
{
    *ret_options = (struct cf_image_options){
        .reference = options->build_context == NULL ? release->image : NULL,
        .build_context = options->build_context,
        .dockerfile = options->dockerfile,
        .architecture = release->architecture,
        .pull = (enum cf_pull_policy)options->pull,
        .registry_all_interfaces = options->registry_all_interfaces,
        .registry_host = options->registry_host,
        .deadline_unix = deadline_unix(options),
    };
}

static int
image_start(struct cf_steps *steps, struct cf_error *err)
{
    static const struct cf_image_events events = {.on_step = image_step,
                                                  .on_progress = image_progress,
                                                  .on_warning = image_warning,
                                                  .on_done = image_done};
    struct cf_run *run = cf_run_of(steps);
    struct cf_image_options options;

    if (run->pool != NULL) {
        run->image_facts = run->pool->image_facts;
        cf_steps_settle(steps, 0);
        return 0;
    }
    cf_rows_image_options(&run->release, &run->options, &options);
    options.engine = run->engine;
    options.owner = run->owner;
    options.run_id = run->id;
    options.deadline_ms = cf_hall_left_ms(run);
    options.log = &run->log;
    run->image_pending = true;
    return cf_image_open(run->loop, &options, &events, run, &run->image, err);
}

static void
image_abort(struct cf_steps *steps)
{
    struct cf_run *run = cf_run_of(steps);

    if (!run->image_pending || run->image_given_up)
        return;
    run->image_given_up = true;
    cf_steps_settle(steps, -1);
}

static void
take_teardown(struct cf_run *run, const struct cf_teardown *teardown)
{
    if (!teardown->proven)
        run->teardown_proven = false;
    (void)json_array_extend(run->removed, teardown->removed);
    (void)json_array_extend(run->left, teardown->left);
    if (teardown->host != NULL)
        run->teardown_host = teardown->host;
}

static void
on_image_closed(void *user, const struct cf_teardown *teardown)
{
    struct cf_run *run = user;

    run->image = NULL;
    take_teardown(run, teardown);
    cf_steps_settle(&run->steps, 0);
}

static void
keep_image_facts(struct cf_run *run)
{
    const struct cf_image_facts *f = run->image_facts;

    if (f != NULL)
        run->image_json = json_pack("{s:s?, s:s?, s:s?, s:s, s:s?, s:b}", "reference", f->reference, "digest", f->digest,
                                    "id", f->id, "source", f->was_built ? "build_context" : "image", "architecture",
                                    f->architecture, "pulled", f->was_pulled);
    run->image_facts = NULL;
}

static int
image_undo(struct cf_steps *steps, struct cf_error *err)
{
    struct cf_run *run = cf_run_of(steps);

    keep_image_facts(run);
    if (run->image == NULL)
        cf_steps_settle(steps, 0);
    else
        cf_image_close(run->image, run->options.grace_ms + 20000, on_image_closed, run);
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

/* ---- sandbox ---------------------------------------------------------------------------- */

static void
leave_pace(struct cf_run *run)
{
    run->pace_wanted = false;
    if (run->pool != NULL)
        cf_pace_leave(&run->pool->pace, &run->ticket);
}

static void
sandbox_step(void *user, const char *name, uint64_t took_ms)
{
    cf_hall_phase(user, "sandbox", name, took_ms);
}

static void
sandbox_ready(void *user)
{
    struct cf_run *run = user;

    run->isolation = cf_sandbox_isolation(run->sandbox);
    run->limits = cf_sandbox_limits_json(run->sandbox);
    leave_pace(run);
    if (!run->sandbox_pending)
        return;
    run->sandbox_pending = false;
    cf_steps_settle(&run->steps, 0);
}

static void
sandbox_failed(void *user, const struct cf_error *err)
{
    struct cf_run *run = user;

    run->sandbox_lost = true;
    if (!run->sandbox_pending) {
        cf_hall_fail(run, err);
        return;
    }
    run->sandbox_pending = false;
    run->steps.err = *err;
    cf_steps_settle(&run->steps, -1);
}

static void
sandbox_event(void *user, const char *name, json_t *event)
{
    struct cf_run *run = user;
    struct cf_error why;

    if (strcmp(name, "disk") != 0)
        return;
    (void)cf_error_set(&why, CF_ERROR_BUDGET, 0, "the sandbox uses %lld bytes of disk; its limit is %lld",
                       (long long)cf_json_int(event, "used", 0), (long long)cf_json_int(event, "limit", 0));
    (void)cf_error_fix(&why, "write less, or raise the limit with --disk");
    cf_hall_fail(run, &why);
}

static const struct cf_sandbox_events sandbox_events = {.on_step = sandbox_step,
                                                        .on_ready = sandbox_ready,
                                                        .on_failed = sandbox_failed,
                                                        .on_door = cf_doors_on_door,
                                                        .on_event = sandbox_event};

void
cf_rows_sandbox_options(const struct cf_release *release, const struct cf_run_options *options,
                        struct cf_sandbox_options *ret_options)
{
    *ret_options = (struct cf_sandbox_options){
        .entrypoint = release->entrypoint,
        .working_directory = release->working_directory,
        .platform_arch = release->architecture,
        .limits = {options->memory_bytes, options->cpus, options->pids, options->nofile, options->disk_bytes},
        .relay_port = options->relay_port,
        .egress_port = cf_gateway_egress_port(options),
        .whole_timeout_ms = options->whole_ms,
        .grace_ms = options->grace_ms,
        .start_timeout_ms = options->start_ms,
        .init_program = cf_init_start,
        .init_program_len = (size_t)(cf_init_end - cf_init_start),
    };
}

static int
open_sandbox(struct cf_run *run, struct cf_error *err)
{
    struct cf_sandbox_options options;

    cf_rows_sandbox_options(&run->release, &run->options, &options);
    options.engine = run->engine;
    options.owner = run->owner;
    options.run_id = run->id;
    options.image_id = run->image_facts->id;
    options.log = &run->log;
    run->sandbox_pending = true;
    return cf_sandbox_open(run->loop, &options, &sandbox_events, run, &run->sandbox, err);
}

/* The warm one becomes ours, with its id and its lock file. When it was lost since it was kept, the
 * run goes on under an id of its own. */
static int
use_warm(struct cf_run *run, struct cf_error *err)
{
    struct cf_warm *warm = run->warm;

    if (run->owner_begun)
        cf_owner_run_end(run->owner, run->id);
    memcpy(run->id, warm->run_id, sizeof run->id);
    run->warm = NULL;
    run->sandbox = cf_warm_use(warm, &sandbox_events, run, &run->log);
    run->owner_begun = true;
    if (run->sandbox != NULL) {
        sandbox_ready(run);
        return 0;
    }
    cf_warm_return(warm);
    cf_id_make("run_", run->id, sizeof run->id);
    run->owner_begun = cf_owner_run_begin(run->owner, run->id, err) == 0;
    return run->owner_begun ? 0 : -1;
}

/* One that is ready, or the engine's time to make one. */
static int
find_sandbox(struct cf_run *run, struct cf_error *err)
{
    if (run->warm == NULL)
        run->warm = cf_warm_keep(run->pool, run);
    if (run->warm != NULL && use_warm(run, err) < 0)
        return -1;
    if (run->sandbox != NULL) {
        cf_steps_settle(&run->steps, 0);
        return 0;
    }
    if (run->ticket.is_inside)
        return open_sandbox(run, err);
    run->pace_wanted = true;
    cf_pace_enter(&run->pool->pace, &run->ticket);
    return 0;
}

static void
on_turn_to_open(struct cf_pace_ticket *ticket)
{
    struct cf_run *run = cf_container_of(ticket, struct cf_run, ticket);

    run->pace_wanted = false;
    if (find_sandbox(run, &run->steps.err) < 0)
        cf_steps_settle(&run->steps, -1);
}

static int
sandbox_start(struct cf_steps *steps, struct cf_error *err)
{
    struct cf_run *run = cf_run_of(steps);

    if (run->pool == NULL)
        return open_sandbox(run, err);
    run->ticket.on_turn = on_turn_to_open;
    return find_sandbox(run, err);
}

static void
sandbox_abort(struct cf_steps *steps)
{
    struct cf_run *run = cf_run_of(steps);

    if (!run->sandbox_pending && !run->pace_wanted)
        return;
    if (run->pace_wanted)
        leave_pace(run);
    run->sandbox_pending = false;
    cf_steps_settle(steps, -1);
}

static void
on_sandbox_closed(void *user, const struct cf_teardown *teardown)
{
    struct cf_run *run = user;

    run->sandbox = NULL;
    leave_pace(run);
    take_teardown(run, teardown);
    cf_steps_settle(&run->steps, 0);
}

static void
close_sandbox(struct cf_run *run)
{
    cf_sandbox_close(run->sandbox, run->close_grace_ms, on_sandbox_closed, run);
}

static void
on_turn_to_close(struct cf_pace_ticket *ticket)
{
    close_sandbox(cf_container_of(ticket, struct cf_run, ticket));
}

static int
sandbox_undo(struct cf_steps *steps, struct cf_error *err)
{
    struct cf_run *run = cf_run_of(steps);

    run->lane->release(run);
    if (run->sandbox == NULL) {
        leave_pace(run);
        cf_steps_settle(steps, 0);
    } else if (run->pool == NULL || run->ticket.is_inside) {
        close_sandbox(run);
    } else {
        run->ticket.on_turn = on_turn_to_close;
        cf_pace_enter(&run->pool->pace, &run->ticket);
    }
    return 0;
}

/* ---- files: staged on the way down, collected on the way up ------------------------------- */

static bool
wants_collecting(const struct cf_run *run)
{
    return run->options.collect != NULL || run->options.state_out != NULL;
}

static bool
wants_staging(const struct cf_run *run)
{
    return run->options.state_in != NULL || json_array_size(run->options.files) > 0;
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

    if (status < 0 || !wants_staging(run))
        files_row_done(run, status, err);
    else if (cf_stage_open(run, files_row_done, &why) < 0)
        files_row_done(run, -1, &why);
}

static int
files_start(struct cf_steps *steps, struct cf_error *err)
{
    struct cf_run *run = cf_run_of(steps);

    if (wants_collecting(run))
        return cf_collect_prepare(run, on_folders_ready, err);
    on_folders_ready(run, 0, NULL);
    return 0;
}

static void
files_abort(struct cf_steps *steps)
{
    struct cf_run *run = cf_run_of(steps);

    cf_stage_give_up(run);
    cf_collect_give_up(run);
}

/* Nothing of ours is lost by it; what the author asked for did not come about. */
static void
keep_late_error(struct cf_run *run, const struct cf_error *err)
{
    if (run->error.kind == CF_ERROR_NONE && err->kind != CF_ERROR_CANCELED)
        run->error = *err;
}

static void
on_collected(struct cf_run *run, int status, const struct cf_error *err)
{
    if (status < 0)
        keep_late_error(run, err);
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
    keep_late_error(run, &why);
    cf_collect_give_up(run);
}

static int
files_undo(struct cf_steps *steps, struct cf_error *err)
{
    struct cf_run *run = cf_run_of(steps);
    const char *why_not = why_not_after(run);

    if (run->collect == NULL) {
        cf_steps_settle(steps, 0);
        return 0;
    }
    run->after_began_ms = cf_clock_ms();
    if (why_not != NULL) {
        cf_collect_skip(run, why_not, on_collected);
        return 0;
    }
    uv_timer_start(&run->phase, on_collect_deadline, cf_hall_left_ms(run), 0);
    cf_collect_begin(run, on_collected);
    return 0;
}

/* ---- hooks --------------------------------------------------------------------------------- */

static bool
has_hooks(const struct cf_run *run, enum cf_hook_phase phase)
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

static int
hooks_start(struct cf_steps *steps, struct cf_error *err)
{
    struct cf_run *run = cf_run_of(steps);

    if (has_hooks(run, CF_HOOK_POST_MATERIALIZE))
        return cf_hooks_open(run, CF_HOOK_POST_MATERIALIZE, on_hooks_post, err);
    cf_steps_settle(steps, 0);
    return 0;
}

static void
hooks_abort(struct cf_steps *steps)
{
    cf_hooks_give_up(cf_run_of(steps));
}

static void
on_hooks_pre(struct cf_run *run, int status, const struct cf_error *err)
{
    if (status < 0)
        keep_late_error(run, err);
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
    if (why_not_after(run) != NULL || !has_hooks(run, CF_HOOK_PRE_WRITEBACK)) {
        cf_hooks_skip(run, CF_HOOK_PRE_WRITEBACK);
        cf_steps_settle(&run->steps, 0);
    } else if (cf_hooks_open(run, CF_HOOK_PRE_WRITEBACK, on_hooks_pre, &why) < 0) {
        on_hooks_pre(run, -1, &why);
    }
}

static int
hooks_undo(struct cf_steps *steps, struct cf_error *err)
{
    struct cf_run *run = cf_run_of(steps);
    struct cf_error why;

    run->after_began_ms = cf_clock_ms();
    run->after_pending = has_hooks(run, CF_HOOK_PRE_WRITEBACK) || wants_collecting(run);
    if (!run->after_pending)
        cf_steps_settle(steps, 0);
    else if (why_not_after(run) != NULL ||
             cf_link_signal_all(cf_sandbox_link(run->sandbox), SIGKILL, on_all_killed, run, &why) < 0)
        on_all_killed(run, -1, NULL, NULL);
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
    {"image", image_start, image_undo, image_abort, 0},
    {"relay", relay_start, relay_undo, NULL, 0},
    {"sandbox", sandbox_start, sandbox_undo, sandbox_abort, 0},
    {"files", files_start, files_undo, files_abort, 0},
    {"hooks", hooks_start, hooks_undo, hooks_abort, 0},
    {"session", session_start, session_undo, session_abort, 0},
};

/* The grace became shorter while the way back is under way. */
void
cf_rows_hurry(struct cf_run *run)
{
    if (run->sandbox != NULL && run->steps.running && &cf_rows[run->steps.at] == &cf_rows[CF_ROW_SANDBOX])
        close_sandbox(run);
    if (run->lane_closing && run->close_grace_ms < LINGER_MS)
        cf_rows_lane_gone(run);
    if (run->end_wanted) {
        on_all_killed(run, -1, NULL, NULL);
        cf_hooks_give_up(run);
        cf_collect_give_up(run);
        cf_voice_hurry(run);
    }
}

bool
cf_rows_are_after(const struct cf_run *run)
{
    return run->steps.at > CF_ROW_SANDBOX && (wants_collecting(run) || has_hooks(run, CF_HOOK_PRE_WRITEBACK));
}

bool
cf_rows_is_silent(const struct cf_run *run, const struct cf_step *row)
{
    ptrdiff_t at = row - cf_rows;

    return at == CF_ROW_RECORD || at == CF_ROW_OWNER || at == CF_ROW_REAP || (at == CF_ROW_VOICE && run->voice == NULL) ||
           (at == CF_ROW_FILES && !wants_staging(run)) ||
           (at == CF_ROW_HOOKS && !has_hooks(run, CF_HOOK_POST_MATERIALIZE));
}
