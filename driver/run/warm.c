/*
 * Sandboxes made ahead. One stands in the line, is made, is ready; a run lays its hand on it
 * when it is opened (kept), and uses it when it comes to its sandbox row, or gives it back.
 * Each is used at most once: what a harness has lived in is never handed on.
 *
 * A warm sandbox has a run's id and lock file from its first day, so that reap sees no
 * difference.
 */
#include "run/pool.h"

#include "base/clock.h"
#include "base/ids.h"
#include "base/str.h"

#include <string.h>

#define REFILL_AFTER_MS 25u
#define RETRY_FIRST_MS 500u
#define RETRY_MOST_MS 30000u

static void
forget(struct cf_warm *warm)
{
    struct cf_pool *pool = warm->pool;

    TAILQ_REMOVE(&pool->warms, warm, entry);
    cf_pace_leave(&pool->pace, &warm->ticket);
    free(warm);
    cf_pool_changed(pool);
}

/* ---- away with it -------------------------------------------------------------------------
 */

static void
on_sandbox_closed(void *user, const struct cf_teardown *teardown)
{
    struct cf_warm *warm = user;
    struct cf_pool *pool = warm->pool;

    warm->sandbox = NULL;
    cf_pool_take_teardown(pool, teardown);
    cf_owner_run_end(pool->owner, warm->run_id);
    if (warm->is_seeded)
        cf_pool_seed_leave(pool);
    forget(warm);
}

static void
on_turn_to_close(struct cf_pace_ticket *ticket)
{
    struct cf_warm *warm = cf_container_of(ticket, struct cf_warm, ticket);

    cf_sandbox_close(warm->sandbox, warm->pool->grace_ms, on_sandbox_closed, warm);
}

static void
discard(struct cf_warm *warm)
{
    if (warm->state == CF_WARM_CLOSING || warm->state == CF_WARM_KEPT)
        return;
    warm->state = CF_WARM_CLOSING;
    if (warm->sandbox == NULL) {
        forget(warm);
    } else if (warm->ticket.is_inside) {
        on_turn_to_close(&warm->ticket);
    } else {
        warm->ticket.on_turn = on_turn_to_close;
        cf_pace_enter(&warm->pool->pace, &warm->ticket);
    }
}

/* ---- making one ---------------------------------------------------------------------------
 */

static void
on_ready(void *user)
{
    struct cf_warm *warm = user;
    struct cf_pool *pool = warm->pool;

    if (warm->state != CF_WARM_MAKING)
        return;
    warm->state = CF_WARM_READY;
    warm->made_ms = cf_clock_ms();
    pool->warm_failures = 0;
    if (warm->is_seeded)
        cf_pool_seed_judge(pool, warm->sandbox);
    cf_pool_changed(pool);
    cf_pace_leave(&pool->pace,
                  &warm->ticket); /* whoever is let in may take it at once: it is gone then */
}

static void
on_renew(uv_timer_t *timer)
{
    cf_pool_kick(timer->data);
}

static void
count_failure(struct cf_pool *pool, const struct cf_error *err)
{
    uint64_t delay = RETRY_FIRST_MS << (pool->warm_failures < 6 ? pool->warm_failures : 6);

    pool->warm_failures++;
    cf_log(&pool->log, CF_LOG_WARN, "pool", "a warm sandbox failed: %s", err->text);
    uv_timer_start(&pool->renew, on_renew, delay < RETRY_MOST_MS ? delay : RETRY_MOST_MS, 0);
}

static void
on_failed(void *user, const struct cf_error *err)
{
    struct cf_warm *warm = user;

    warm->has_failed = true;
    if (warm->is_seeded && warm->state == CF_WARM_MAKING)
        cf_pool_seed_judge(warm->pool, NULL);
    count_failure(warm->pool, err);
    cf_pool_changed(
        warm->pool); /* tended from the loop: we may be deep in the sandbox's own code */
}

static void
on_turn_to_make(struct cf_pace_ticket *ticket)
{
    static const struct cf_sandbox_events events = {.on_ready = on_ready,
                                                    .on_failed = on_failed};
    struct cf_warm *warm = cf_container_of(ticket, struct cf_warm, ticket);
    struct cf_pool *pool = warm->pool;
    struct cf_sandbox_options options;
    struct cf_error why;

    cf_pool_sandbox_options(pool, warm->run_id, &options);
    options.whole_timeout_ms += pool->options.pool_ttl_ms; /* it waits before it is used */
    warm->state = CF_WARM_MAKING;
    warm->is_seeded = cf_pool_seed_use(pool, &options);
    if (cf_owner_run_begin(pool->owner, warm->run_id, &why) < 0) {
        warm->has_failed = true;
    } else if (cf_sandbox_open(pool->loop, &options, &events, warm, &warm->sandbox, &why) <
               0) {
        cf_owner_run_end(pool->owner, warm->run_id);
        warm->has_failed = true;
    }
    if (warm->has_failed && warm->is_seeded)
        cf_pool_seed_leave(pool);
    if (warm->has_failed)
        on_failed(warm, &why);
}

static bool
add(struct cf_pool *pool)
{
    struct cf_warm *warm = calloc(1, sizeof *warm);

    if (warm == NULL)
        return false;
    warm->pool = pool;
    warm->state = CF_WARM_LINE;
    warm->ticket.can_wait = true;
    warm->ticket.on_turn = on_turn_to_make;
    cf_id_make("run_", warm->run_id, sizeof warm->run_id);
    TAILQ_INSERT_TAIL(&pool->warms, warm, entry);
    cf_pace_enter(&pool->pace, &warm->ticket);
    return true;
}

/* ---- the door ------------------------------------------------------------------------------
 */

void
cf_warm_tend(struct cf_pool *pool)
{
    uint64_t now = cf_clock_ms(), ttl = pool->options.pool_ttl_ms, next = UINT64_MAX;
    struct cf_warm *warm = TAILQ_FIRST(&pool->warms), *after;
    unsigned there = 0;

    for (; warm != NULL; warm = after) {
        after = TAILQ_NEXT(warm, entry);
        bool is_old = warm->state == CF_WARM_READY && now - warm->made_ms >= ttl;
        if (warm->state == CF_WARM_KEPT || warm->state == CF_WARM_CLOSING)
            continue;
        if (pool->is_closing || warm->has_failed || is_old) {
            discard(warm);
            continue;
        }
        there++;
        if (warm->state == CF_WARM_READY && warm->made_ms + ttl - now < next)
            next = warm->made_ms + ttl - now;
    }
    if (pool->is_closing ||
        (pool->warm_failures > 0 && uv_is_active((uv_handle_t *)&pool->renew)))
        return;
    if (there < pool->options.pool_warm && now < pool->refill_ms) {
        uv_timer_start(&pool->renew, on_renew, pool->refill_ms - now, 0);
        return;
    }
    while (there < pool->options.pool_warm && add(pool))
        there++;
    if (next != UINT64_MAX)
        uv_timer_start(&pool->renew, on_renew, next, 0);
}

/* Who takes a warm one goes before the next is made: in front of the engine, too. */
static void
hold_refill(struct cf_pool *pool)
{
    uint64_t now = cf_clock_ms();

    if (pool->refill_ms < now)
        pool->refill_ms = now + REFILL_AFTER_MS;
}

struct cf_warm *
cf_warm_keep(struct cf_pool *pool, struct cf_run *run)
{
    struct cf_warm *warm;

    TAILQ_FOREACH(warm, &pool->warms, entry)
    {
        if (warm->state != CF_WARM_READY || warm->has_failed)
            continue;
        warm->state = CF_WARM_KEPT;
        warm->run = run;
        hold_refill(pool);
        cf_pool_changed(pool);
        return warm;
    }
    return NULL;
}

struct cf_sandbox *
cf_warm_use(struct cf_warm *warm, const struct cf_sandbox_events *events, void *user,
            const struct cf_log *log)
{
    struct cf_sandbox *sandbox = warm->sandbox;
    struct cf_pool *pool = warm->pool;

    if (warm->has_failed)
        return NULL;
    hold_refill(pool);
    cf_sandbox_hand_over(sandbox, events, user, log);
    forget(warm);
    return sandbox;
}

void
cf_warm_return(struct cf_warm *warm)
{
    warm->state = CF_WARM_READY;
    warm->run = NULL;
    cf_pool_changed(warm->pool);
}
