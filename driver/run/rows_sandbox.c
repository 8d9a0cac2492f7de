/*
 * The row of the sandbox: one that is made, one of a pool that is ready, or the pool's turn to make
 * one; and the way back from it.
 */
#include "run/rows.h"

#include "base/ids.h"
#include "base/str.h"
#include "json/json.h"

#include <string.h>

extern const char cf_init_start[] __asm__("_binary_cf_init_start");
extern const char cf_init_end[] __asm__("_binary_cf_init_end");

static void
leave_pace(struct cf_run *run)
{
    run->pace_wanted = false;
    if (run->pool != NULL)
        cf_pace_leave(&run->pool->pace, &run->ticket);
}

static void
leave_seed(struct cf_run *run)
{
    if (run->is_seeded)
        cf_pool_seed_leave(run->pool);
    run->is_seeded = false;
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
    if (run->is_seeded)
        cf_pool_seed_judge(run->pool, run->sandbox);
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
    if (run->is_seeded)
        cf_pool_seed_judge(run->pool, NULL);
    run->steps.err = *err;
    cf_steps_settle(&run->steps, -1);
}

static void
sandbox_event(void *user, const char *name, json_t *event)
{
    struct cf_run *run = user;
    struct cf_error why;

    if (strcmp(name, "pids") == 0)
        cf_harness_refused(run, (uint64_t)cf_json_int(event, "refused", 0), (uint64_t)cf_json_int(event, "limit", 0));
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
    run->is_seeded = run->pool != NULL && cf_pool_seed_use(run->pool, &options);
    run->sandbox_pending = true;
    if (cf_sandbox_open(run->loop, &options, &sandbox_events, run, &run->sandbox, err) == 0)
        return 0;
    leave_seed(run);
    return -1;
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
    run->is_seeded = warm->is_seeded && !warm->has_failed;
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

int
cf_rows_sandbox_start(struct cf_steps *steps, struct cf_error *err)
{
    struct cf_run *run = cf_run_of(steps);

    if (run->pool == NULL)
        return open_sandbox(run, err);
    run->ticket.on_turn = on_turn_to_open;
    return find_sandbox(run, err);
}

void
cf_rows_sandbox_abort(struct cf_steps *steps)
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
    leave_seed(run);
    leave_pace(run);
    cf_rows_take_teardown(run, teardown);
    cf_steps_settle(&run->steps, 0);
}

void
cf_rows_close_sandbox(struct cf_run *run)
{
    cf_sandbox_close(run->sandbox, run->close_grace_ms, on_sandbox_closed, run);
}

static void
on_turn_to_close(struct cf_pace_ticket *ticket)
{
    cf_rows_close_sandbox(cf_container_of(ticket, struct cf_run, ticket));
}

int
cf_rows_sandbox_undo(struct cf_steps *steps, struct cf_error *err)
{
    struct cf_run *run = cf_run_of(steps);

    run->lane->release(run);
    if (run->sandbox == NULL) {
        leave_pace(run);
        cf_steps_settle(steps, 0);
    } else if (run->pool == NULL || run->ticket.is_inside) {
        cf_rows_close_sandbox(run);
    } else {
        run->ticket.on_turn = on_turn_to_close;
        cf_pace_enter(&run->pool->pace, &run->ticket);
    }
    return 0;
}
