/*
 * run/pool.h: the inside of a pool (cfrunner/pool.h), as a run and the warm sandboxes see it.
 *
 *     pool.c    engine, owner, image: opened once, closed when the last run is gone
 *     warm.c    sandboxes made ahead
 *     pool_seed.c  the image of the pool's own, with cf-init in it
 *     pace.c    the turnstile before the engine
 *     rows.c    what of a run's rows the pool has done already
 */
#ifndef CF_RUN_POOL_H
#define CF_RUN_POOL_H

#include <cfrunner/pool.h>

#include "base/log.h"
#include "engine/engine.h"
#include "loop/steps.h"
#include "run/image.h"
#include "run/options.h"
#include "run/pace.h"
#include "run/release.h"
#include "sandbox/sandbox.h"

struct cf_run;

enum cf_warm_state {
    CF_WARM_LINE,
    CF_WARM_MAKING,
    CF_WARM_READY,
    CF_WARM_KEPT,
    CF_WARM_CLOSING
};

/* A sandbox made ahead. Kept: a run has laid its hand on it, and it is still unused. */
struct cf_warm {
    TAILQ_ENTRY(cf_warm) entry;
    struct cf_pool *pool;
    struct cf_sandbox *sandbox;
    struct cf_run *run; /* that keeps it, or NULL */
    struct cf_pace_ticket ticket;
    enum cf_warm_state state;
    char run_id[48];
    uint64_t made_ms;
    bool has_failed, is_seeded;
};

enum cf_pool_seed_state {
    CF_SEED_NONE,
    CF_SEED_MAKING,
    CF_SEED_READY,
    CF_SEED_RETIRED, /* too old to be made from, or failed: it goes when the last user has gone */
    CF_SEED_CLOSING
};

struct cf_pool_seed {
    struct cf_sandbox *sandbox;
    enum cf_pool_seed_state state;
    char run_id[48];
    uint64_t made_ms;
    uint64_t asked; /* sandboxes that were made with it or without */
    unsigned users; /* sandboxes that stand on it */
    bool has_failed;
};

/* A run that waits for the pool to be ready. */
struct cf_pool_wait {
    TAILQ_ENTRY(cf_pool_wait) entry;
    void (*on_ready)(struct cf_pool_wait *wait,
                     const struct cf_error *err); /* err NULL: it is */
    bool is_waiting;
};

struct cf_pool {
    uv_loop_t *loop;
    struct cf_pool_host host;
    struct cf_log log;
    char *release_json, *options_json;
    size_t release_len, options_len;
    struct cf_release release;
    struct cf_run_options options;
    char id[48];

    struct cf_steps steps;
    uv_timer_t kick, renew; /* wishes; warm sandboxes: retry, age */
    int handles_open;
    bool is_begun, is_ready, is_failed, is_closing, is_over, state_changed;
    struct cf_error error;
    uint64_t grace_ms;

    struct cf_engine *engine;
    struct cf_owner *owner;
    bool connect_pending, owner_begun, reap_pending, reap_awaited, image_pending,
        image_given_up;
    struct cf_image *image;
    const struct cf_image_facts *image_facts;

    TAILQ_HEAD(, cf_pool_wait) waits;
    unsigned runs;
    struct cf_pace pace;
    TAILQ_HEAD(, cf_warm) warms;
    unsigned warm_failures; /* in a row */
    uint64_t refill_ms;     /* not before: who was just handed a warm one goes first */
    struct cf_pool_seed seed;
    bool teardown_proven;
    json_t *removed, *left;
};

/* ---- pool.c
 * --------------------------------------------------------------------------------- */

/* Calls wait->on_ready when the pool is ready or has failed: at once, or later. */
void cf_pool_await(struct cf_pool *pool, struct cf_pool_wait *wait);
void cf_pool_forget(struct cf_pool *pool, struct cf_pool_wait *wait);
void cf_pool_leave(struct cf_pool *pool); /* a run is gone */
void cf_pool_kick(struct cf_pool *pool);  /* look, from the loop, at what is to be done next */
void cf_pool_changed(struct cf_pool *pool); /* on_state is due */
/* What every sandbox of the pool's own begins with; strings are borrowed. */
void cf_pool_sandbox_options(const struct cf_pool *pool, const char *run_id,
                             struct cf_sandbox_options *ret_options);
void cf_pool_take_teardown(struct cf_pool *pool, const struct cf_teardown *teardown);

/* ---- warm.c
 * --------------------------------------------------------------------------------- */

/* As many as wanted are ready or being made; too old ones go; when closing, all go. */
void cf_warm_tend(struct cf_pool *pool);
/* Keeps a ready one for a run, or NULL: its run_id becomes the run's, its lock file too. */
struct cf_warm *cf_warm_keep(struct cf_pool *pool, struct cf_run *run);
/* It is the run's now, and the keeper is gone; NULL when it failed in the meantime. */
struct cf_sandbox *cf_warm_use(struct cf_warm *warm, const struct cf_sandbox_events *events,
                               void *user, const struct cf_log *log);
/* Unused. When it is as good as new it waits for another run, with its lock file; else that is
 * ended when it is gone. */
void cf_warm_return(struct cf_warm *warm);

/* ---- pool_seed.c
 * --------------------------------------------------------------------------------- */

/* A sandbox is about to be made: from the seed when there is one (true: cf_pool_seed_leave when
 * the sandbox has closed, or was not opened). */
bool cf_pool_seed_use(struct cf_pool *pool, struct cf_sandbox_options *options);
void cf_pool_seed_leave(struct cf_pool *pool);
/* How one that was to be made from it came up: NULL, it did not; or without it after all. Then the
 * seed goes, for good or for a new one. */
void cf_pool_seed_judge(struct cf_pool *pool, const struct cf_sandbox *sandbox);
void cf_pool_seed_tend(struct cf_pool *pool); /* makes it, ends it */

/* ---- rows.c
 * ----------------------------------------------------------------------------------- */

/* The image and the sandbox that these documents ask for; strings are borrowed from them.
 * Engine, owner, run id, image id and log are left to the caller. */
void cf_rows_image_options(const struct cf_release *release,
                           const struct cf_run_options *options,
                           struct cf_image_options *ret_options);
void cf_rows_sandbox_options(const struct cf_release *release,
                             const struct cf_run_options *options,
                             struct cf_sandbox_options *ret_options);
#endif
