/*
 * A pool's life where there is no Engine: it fails, its runs fail with it, and whatever is
 * closed in whatever order, each closed callback comes once and nothing after it. With an
 * Engine: tests/integration/pool.sh.
 */
#include <cfrunner/pool.h>

#include "tests/support/unit.h"

#include <signal.h>
#include <stdbool.h>
#include <string.h>
#include <uv.h>

#define RELEASE                                                                          \
    "{\"protocol\":\"oneshot-v1\",\"image\":\"example.test/harness@sha256:"              \
    "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef\",\"entrypoint\":" \
    "\"/opt/h\",\"argv\":[],\"prompt_transport\":\"stdin\",\"output_mode\":\"text\"}"
#define ENGINE \
    "\"engine\":\"unix:///nonexistent/docker.sock\",\"state_dir\":\"/tmp/cf-plugin-test\""
#define OPTIONS "{" ENGINE ",\"pool\":{\"warm\":2,\"creates\":3}}"

#define RUNS 5

struct life {
    uv_loop_t loop;
    struct cf_pool *pool;
    struct cf_run *runs[RUNS];
    int opened, results, runs_closed, failed, ready, teardowns, pool_closed;
    bool close_pool_on_failure, close_runs_on_result;
    struct cf_error err;
};

static void
on_result(void *user, const char *json, size_t len)
{
    struct life *life = user;

    life->results++;
    ck_assert_int_eq(life->pool_closed, 0);
    if (life->close_runs_on_result)
        for (int i = 0; i < life->opened; i++)
            cf_run_close(life->runs[i], 0, NULL);
}

static void
on_run_closed(void *user)
{
    struct life *life = user;

    life->runs_closed++;
    ck_assert_int_eq(life->pool_closed, 0);
}

static void
on_ready(void *user)
{
    ((struct life *)user)->ready++;
}

static void
on_failed(void *user, const struct cf_error *err)
{
    struct life *life = user;

    life->failed++;
    life->err = *err;
    if (life->close_pool_on_failure)
        cf_pool_close(life->pool, 0);
}

static void
on_teardown(void *user, const char *json, size_t len)
{
    struct life *life = user;

    life->teardowns++;
    ck_assert_ptr_nonnull(strstr(json, "\"proven\":true"));
    ck_assert_int_eq(life->pool_closed, 0);
}

static void
on_pool_closed(void *user)
{
    ((struct life *)user)->pool_closed++;
}

static void
begin(struct life *life)
{
    const struct cf_pool_host host = {.size = sizeof host,
                                      .abi_major = CF_ABI_MAJOR,
                                      .user = life,
                                      .on_ready = on_ready,
                                      .on_failed = on_failed,
                                      .on_teardown = on_teardown,
                                      .on_closed = on_pool_closed};

    memset(life, 0, sizeof *life);
    (void)signal(SIGPIPE, SIG_IGN);
    ck_assert_int_eq(cf_library_init(&life->err), 0);
    ck_assert_int_eq(uv_loop_init(&life->loop), 0);
    ck_assert_msg(cf_pool_open(&life->loop, RELEASE, strlen(RELEASE), OPTIONS, strlen(OPTIONS),
                               &host, &life->pool, &life->err) == 0,
                  "%s", life->err.text);
}

static int
open_run(struct life *life, const char *options)
{
    const struct cf_run_host host = {
        .size = sizeof host, .user = life, .on_result = on_result, .on_closed = on_run_closed};
    int status = cf_pool_run_open(life->pool, options, options != NULL ? strlen(options) : 0,
                                  &host, &life->runs[life->opened], &life->err);

    life->opened += status == 0;
    return status;
}

static void
end(struct life *life)
{
    (void)uv_run(&life->loop, UV_RUN_DEFAULT);
    ck_assert_int_eq(uv_loop_close(&life->loop), 0);
    ck_assert_int_eq(life->runs_closed, life->opened);
    ck_assert_int_eq(life->teardowns, 1);
    ck_assert_int_eq(life->pool_closed, 1);
    ck_assert_int_eq(life->ready, 0);
}

START_TEST(a_pool_without_an_engine_fails_and_its_runs_with_it)
{
    struct life life;

    begin(&life);
    life.close_pool_on_failure = life.close_runs_on_result = true;
    for (int i = 0; i < RUNS; i++)
        ck_assert_int_eq(open_run(&life, NULL), 0);
    end(&life);
    ck_assert_int_eq(life.failed, 1);
    ck_assert_int_eq(life.err.kind, CF_ERROR_ENGINE);
    ck_assert_int_eq(life.results, RUNS);
}
END_TEST

START_TEST(a_failed_pool_refuses_runs_with_its_reason)
{
    struct life life;

    begin(&life);
    (void)uv_run(&life.loop, UV_RUN_DEFAULT);
    ck_assert_int_eq(life.failed, 1);
    life.err.text[0] = '\0';
    ck_assert_int_eq(open_run(&life, NULL), -1);
    ck_assert_ptr_nonnull(strstr(life.err.text, "nonexistent"));
    cf_pool_close(life.pool, 0);
    end(&life);
}
END_TEST

START_TEST(a_pool_may_be_closed_before_the_loop_ever_ran)
{
    struct life life;

    begin(&life);
    cf_pool_close(life.pool, 1000);
    cf_pool_close(life.pool, 0);
    ck_assert_int_eq(open_run(&life, NULL), -1);
    ck_assert_int_eq(life.err.kind, CF_ERROR_CANCELED);
    end(&life);
    ck_assert_int_eq(life.failed, 0);
}
END_TEST

START_TEST(a_pool_waits_for_its_last_run)
{
    struct life life;

    begin(&life);
    for (int i = 0; i < RUNS; i++)
        ck_assert_int_eq(open_run(&life, NULL), 0);
    cf_pool_close(life.pool, 0);
    (void)uv_run(&life.loop, UV_RUN_DEFAULT);
    ck_assert_int_eq(life.pool_closed, 0);
    for (int i = 0; i < RUNS; i++)
        cf_run_close(life.runs[i], 0, NULL);
    end(&life);
}
END_TEST

START_TEST(runs_closed_while_the_pool_opens_are_no_longer_waited_for)
{
    struct life life;

    begin(&life);
    for (int i = 0; i < RUNS; i++)
        ck_assert_int_eq(open_run(&life, NULL), 0);
    (void)uv_run(&life.loop, UV_RUN_NOWAIT);
    for (int i = 0; i < RUNS; i++)
        cf_run_close(life.runs[i], 0, NULL);
    cf_pool_close(life.pool, 0);
    end(&life);
}
END_TEST

START_TEST(a_run_that_wants_another_sandbox_than_the_pools_is_refused)
{
    static const struct {
        const char *options, *named;
    } others[] = {
        {"{" ENGINE ",\"limits\":{\"memory_bytes\":67108864}}", "limits"},
        {"{" ENGINE ",\"relay_port\":4200}", "relay_port"},
        {"{\"state_dir\":\"/tmp/cf-plugin-test\"}", "engine"},
        {"{" ENGINE ",\"deadlines_ms\":{\"whole\":86400000}}", "whole"},
        {"{" ENGINE ",\"nonsense\":1}", "nonsense"},
    };
    struct life life;

    begin(&life);
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        ck_assert_int_eq(open_run(&life, others[i].options), -1);
        ck_assert_msg(strstr(life.err.text, others[i].named) != NULL, "%s", life.err.text);
    }
    ck_assert_int_eq(open_run(&life,
                              "{" ENGINE
                              ",\"env\":{\"A\":\"B\"},\"deadlines_ms\":{\"whole\":5000}}"),
                     0);
    cf_run_close(life.runs[0], 0, NULL);
    cf_pool_close(life.pool, 0);
    end(&life);
}
END_TEST

START_TEST(the_pool_option_is_no_option_of_a_run_of_its_own)
{
    struct life life;
    const struct cf_run_host host = {.size = sizeof host};

    begin(&life);
    ck_assert_int_eq(cf_run_open(&life.loop, RELEASE, strlen(RELEASE), OPTIONS,
                                 strlen(OPTIONS), &host, &life.runs[0], &life.err),
                     -1);
    ck_assert_ptr_nonnull(strstr(life.err.text, "pool"));
    cf_pool_close(life.pool, 0);
    end(&life);
}
END_TEST

START_TEST(the_state_is_filled_as_far_as_the_host_knows_it)
{
    struct life life;
    struct cf_pool_state state = {.size = offsetof(struct cf_pool_state, waiting),
                                  .waiting = 77};

    begin(&life);
    ck_assert_int_eq(open_run(&life, NULL), 0);
    cf_pool_state(life.pool, &state);
    ck_assert_uint_eq(state.runs, 1);
    ck_assert_uint_eq(state.waiting, 77);
    cf_run_close(life.runs[0], 0, NULL);
    cf_pool_close(life.pool, 0);
    end(&life);
}
END_TEST

UNIT_MAIN("plugin/pool",
          tcase_add_test(tc, a_pool_without_an_engine_fails_and_its_runs_with_it);
          tcase_add_test(tc, a_failed_pool_refuses_runs_with_its_reason);
          tcase_add_test(tc, a_pool_may_be_closed_before_the_loop_ever_ran);
          tcase_add_test(tc, a_pool_waits_for_its_last_run);
          tcase_add_test(tc, runs_closed_while_the_pool_opens_are_no_longer_waited_for);
          tcase_add_test(tc, a_run_that_wants_another_sandbox_than_the_pools_is_refused);
          tcase_add_test(tc, the_pool_option_is_no_option_of_a_run_of_its_own);
          tcase_add_test(tc, the_state_is_filled_as_far_as_the_host_knows_it);)
