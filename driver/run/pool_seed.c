/*
 * A pool's seed: after the first few sandboxes one more container is made, with cf-init in it, and
 * committed to an image (sandbox/seed.c); the later ones are made from that. A pool of few runs
 * never pays for it, one of many does so once, beside its runs. It is a convenience: when it
 * fails, sandboxes go on being made without.
 *
 * Like a warm sandbox it has a run's id and lock file, so that reap sees no difference.
 */
#include "run/pool.h"

#include "base/clock.h"
#include "base/ids.h"

#include <string.h>

static void
on_closed(void *user, const struct cf_teardown *teardown)
{
    struct cf_pool *pool = user;

    pool->seed.sandbox = NULL;
    pool->seed.state = CF_SEED_NONE;
    cf_pool_take_teardown(pool, teardown);
    cf_owner_run_end(pool->owner, pool->seed.run_id);
    cf_pool_kick(pool);
}

static void
on_ready(void *user)
{
    struct cf_pool *pool = user;

    if (pool->seed.state != CF_SEED_MAKING)
        return;
    pool->seed.state = CF_SEED_READY;
    pool->seed.made_ms = cf_clock_ms();
    cf_log(&pool->log, CF_LOG_DEBUG, "pool", "sandboxes are made from %s now",
           cf_sandbox_seed_image(pool->seed.sandbox));
}

static void
give_up(struct cf_pool *pool, const struct cf_error *err)
{
    pool->seed.has_failed = true;
    pool->seed.state = pool->seed.sandbox != NULL ? CF_SEED_RETIRED : CF_SEED_NONE;
    cf_log(&pool->log, CF_LOG_WARN, "pool", "no image of the pool's own: %s", err->text);
    cf_pool_kick(pool); /* tended from the loop: we may be deep in the sandbox's own code */
}

static void
on_failed(void *user, const struct cf_error *err)
{
    give_up(user, err);
}

static void
make(struct cf_pool *pool)
{
    static const struct cf_sandbox_events events = {.on_ready = on_ready,
                                                    .on_failed = on_failed};
    struct cf_pool_seed *seed = &pool->seed;
    struct cf_sandbox_options options;
    struct cf_error why;

    cf_pool_sandbox_options(pool, seed->run_id, &options);
    options.is_seed = true;
    /* The last warm sandbox is made at the end of its time, and the last run begins at the end of
     * that one's. */
    options.whole_timeout_ms += 2 * pool->options.pool_ttl_ms;
    cf_id_make("run_", seed->run_id, sizeof seed->run_id);
    seed->state = CF_SEED_MAKING;
    if (cf_owner_run_begin(pool->owner, seed->run_id, &why) < 0) {
        give_up(pool, &why);
    } else if (cf_sandbox_open(pool->loop, &options, &events, pool, &seed->sandbox, &why) < 0) {
        cf_owner_run_end(pool->owner, seed->run_id);
        give_up(pool, &why);
    }
}

static bool
is_wanted(const struct cf_pool *pool)
{
    uint64_t after = pool->options.pool_seed_after;

    return !pool->is_closing && !pool->seed.has_failed && after > 0 &&
           pool->seed.asked > after && !cf_engine_facts(pool->engine)->is_podman;
}

void
cf_pool_seed_tend(struct cf_pool *pool)
{
    struct cf_pool_seed *seed = &pool->seed;

    if (seed->state == CF_SEED_NONE) {
        if (is_wanted(pool))
            make(pool);
        return;
    }
    if (seed->state == CF_SEED_CLOSING || seed->users > 0 ||
        (seed->state != CF_SEED_RETIRED && !pool->is_closing))
        return;
    seed->state = CF_SEED_CLOSING;
    cf_sandbox_close(seed->sandbox, pool->grace_ms, on_closed, pool);
}

bool
cf_pool_seed_use(struct cf_pool *pool, struct cf_sandbox_options *options)
{
    struct cf_pool_seed *seed = &pool->seed;

    seed->asked++;
    if (seed->state == CF_SEED_READY &&
        cf_clock_ms() - seed->made_ms >= pool->options.pool_ttl_ms)
        seed->state = CF_SEED_RETIRED;
    if (seed->state != CF_SEED_READY) {
        cf_pool_kick(pool);
        return false;
    }
    options->seed_image = cf_sandbox_seed_image(seed->sandbox);
    options->working_directory = cf_sandbox_seed_workdir(seed->sandbox);
    seed->users++;
    return true;
}

/* An image that only behaves as long as nothing was put into it costs those that are under way, and
 * no more. */
void
cf_pool_seed_judge(struct cf_pool *pool, const struct cf_sandbox *sandbox)
{
    struct cf_pool_seed *seed = &pool->seed;

    if (seed->state != CF_SEED_READY || (sandbox != NULL && cf_sandbox_is_seeded(sandbox)))
        return;
    seed->state = CF_SEED_RETIRED;
    seed->has_failed = sandbox == NULL;
    cf_log(&pool->log, CF_LOG_INFO, "pool", "no more sandboxes are made from %s: %s",
           cf_sandbox_seed_image(seed->sandbox),
           sandbox == NULL ? "one failed" : "it was removed by somebody");
    cf_pool_kick(pool);
}

void
cf_pool_seed_leave(struct cf_pool *pool)
{
    pool->seed.users--;
    cf_pool_kick(pool);
}
