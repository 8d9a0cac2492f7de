/* Warm sandboxes without an Engine: a full turnstile, behind which what shall be made stands in line. */
#include "run/pool.h"

#include "base/clock.h"

#include "tests/support/unit.h"

#include <stdlib.h>

static uv_loop_t loop;
static struct cf_pool pool;

static unsigned
count_all(void)
{
    struct cf_warm *warm;
    unsigned count = 0;

    TAILQ_FOREACH(warm, &pool.warms, entry)
    {
        count++;
    }
    return count;
}

static struct cf_warm *
add_ready(void)
{
    struct cf_warm *warm = calloc(1, sizeof *warm);

    warm->pool = &pool;
    warm->state = CF_WARM_READY;
    warm->made_ms = cf_clock_ms();
    TAILQ_INSERT_TAIL(&pool.warms, warm, entry);
    return warm;
}

static void
open_pool(void)
{
    pool = (struct cf_pool){.loop = &loop, .is_ready = true};
    pool.options.pool_warm = 1;
    pool.options.pool_ttl_ms = 3600000;
    TAILQ_INIT(&pool.warms);
    cf_pace_init(&pool.pace, 1);
    pool.pace.inside = 1;
    ck_assert_int_eq(uv_loop_init(&loop), 0);
    ck_assert_int_eq(uv_timer_init(&loop, &pool.kick), 0);
    ck_assert_int_eq(uv_timer_init(&loop, &pool.renew), 0);
}

static void
close_pool(void)
{
    struct cf_warm *warm;

    while ((warm = TAILQ_FIRST(&pool.warms)) != NULL) {
        TAILQ_REMOVE(&pool.warms, warm, entry);
        free(warm);
    }
    uv_close((uv_handle_t *)&pool.kick, NULL);
    uv_close((uv_handle_t *)&pool.renew, NULL);
    (void)uv_run(&loop, UV_RUN_DEFAULT);
    ck_assert_int_eq(uv_loop_close(&loop), 0);
}

START_TEST(who_takes_a_warm_one_goes_before_the_next_is_made)
{
    uint64_t now = cf_clock_ms();
    struct cf_warm *warm;

    open_pool();
    warm = add_ready();
    cf_warm_tend(&pool);
    ck_assert_uint_eq(count_all(), 1);
    ck_assert_ptr_eq(cf_warm_keep(&pool, NULL), warm);
    ck_assert_uint_gt(pool.refill_ms, now);
    pool.refill_ms += 3600000; /* however slow this machine is */
    cf_warm_tend(&pool);
    ck_assert_uint_eq(count_all(), 1);
    ck_assert(uv_is_active((uv_handle_t *)&pool.renew));
    pool.refill_ms = 0;
    cf_warm_tend(&pool);
    ck_assert_uint_eq(count_all(), 2);
    close_pool();
}
END_TEST

START_TEST(a_stream_of_runs_puts_the_next_off_but_once)
{
    uint64_t until;

    open_pool();
    (void)add_ready();
    (void)add_ready();
    ck_assert_ptr_nonnull(cf_warm_keep(&pool, NULL));
    pool.refill_ms += 3600000;
    until = pool.refill_ms;
    ck_assert_ptr_nonnull(cf_warm_keep(&pool, NULL));
    ck_assert_uint_eq(pool.refill_ms, until);
    ck_assert_ptr_null(cf_warm_keep(&pool, NULL));
    close_pool();
}
END_TEST

UNIT_MAIN("run/warm", tcase_add_test(tc, who_takes_a_warm_one_goes_before_the_next_is_made);
          tcase_add_test(tc, a_stream_of_runs_puts_the_next_off_but_once);)
