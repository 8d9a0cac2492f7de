/*
 * A host's allocator: everything of ours comes from it and goes back to it, and a run whose
 * memory ends says so. The runs fail at their first row (there is no Engine); whole ones,
 * against an Engine, are counted the same way by tests/integration/embed.sh.
 */
#include <cfrunner/driver.h>

#include "tests/support/tagged.h"
#include "tests/support/unit.h"

#include <signal.h>
#include <stdbool.h>
#include <uv.h>

#define RELEASE                                                                        \
    "{\"protocol\":\"acp-v1\",\"image\":\"example.test/harness@sha256:"                \
    "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef\",\"platform\":" \
    "{\"os\":\"linux\",\"architecture\":\"amd64\"},\"entrypoint\":\"/opt/"             \
    "h\",\"arguments\":[]}"
#define OPTIONS                                                                              \
    "{\"engine\":\"unix:///nonexistent/docker.sock\",\"state_dir\":\"/tmp/cf-plugin-test\"," \
    "\"pull\":\"never\",\"env\":{\"A\":\"B\"}}"

static const struct cf_driver *const driver = &cf_driver_docker_v1;

struct host {
    struct cf_run *run;
    int results, closed;
};

static void
on_result(void *user, const char *json, size_t len)
{
    struct host *host = user;

    host->results++;
    driver->run_close(host->run, 0, NULL);
}

static void
on_closed(void *user)
{
    ((struct host *)user)->closed++;
}

static int
set_up(struct tagged *tagged, struct cf_error *err)
{
    struct cf_memory memory = {.size = sizeof memory, .user = tagged, .resize = tagged_resize};
    struct cf_driver_setup setup = {sizeof setup, CF_ABI_MAJOR, CF_ABI_MINOR, &memory};

    (void)signal(SIGPIPE, SIG_IGN);
    return driver->setup(&setup, err);
}

/* Returns false when the run could not even be opened. */
static bool
live(struct host *host, struct cf_error *err)
{
    struct cf_run_host table = {.size = sizeof table,
                                .abi_major = CF_ABI_MAJOR,
                                .user = host,
                                .on_result = on_result,
                                .on_closed = on_closed};
    uv_loop_t loop;
    int status;

    ck_assert_int_eq(uv_loop_init(&loop), 0);
    status = driver->run_open(&loop, RELEASE, strlen(RELEASE), OPTIONS, strlen(OPTIONS),
                              &table, &host->run, err);
    (void)uv_run(&loop, UV_RUN_DEFAULT);
    ck_assert_int_eq(uv_loop_close(&loop), 0);
    return status == 0;
}

START_TEST(all_of_a_run_comes_from_the_host_and_goes_back)
{
    struct tagged tagged = {0};
    struct cf_error err = {0};
    struct host host = {0};

    ck_assert_msg(set_up(&tagged, &err) == 0, "%s", err.text);
    ck_assert_msg(live(&host, &err), "%s", err.text);
    ck_assert_int_eq(host.results, 1);
    ck_assert_int_eq(host.closed, 1);
    ck_assert_uint_gt(tagged.made, 10);
    ck_assert_uint_eq(tagged.alive, 0);
    ck_assert_uint_eq(tagged.bytes, 0);
}
END_TEST

START_TEST(what_is_yours_is_freed_by_the_librarys_own_free)
{
    struct tagged tagged = {0};
    struct cf_error err = {0};
    char *report = NULL;

    ck_assert_int_eq(set_up(&tagged, &err), 0);
    ck_assert_int_eq(driver->release_check("{}", 2, &report, &err), -1);
    ck_assert_uint_gt(tagged.alive, 0);
    driver->release_report_free(report);
    ck_assert_uint_eq(tagged.alive, 0);
    cf_free(NULL);
}
END_TEST

START_TEST(an_allocator_after_the_first_allocation_is_refused)
{
    struct tagged tagged = {0};
    struct cf_error err = {0};
    char *report = NULL;

    (void)driver->release_check("{}", 2, &report, &err);
    driver->release_report_free(report);
    ck_assert_int_eq(set_up(&tagged, &err), -1);
    ck_assert_int_eq(err.kind, CF_ERROR_CONFIG);
    ck_assert_ptr_nonnull(strstr(err.text, "too late"));
}
END_TEST

START_TEST(an_allocator_that_is_not_whole_is_refused)
{
    struct cf_memory memory = {.size = sizeof memory};
    struct cf_error err = {0};

    ck_assert_int_eq(cf_library_set_memory(&memory, &err), -1);
    memory.resize = tagged_resize;
    memory.size = 8;
    ck_assert_int_eq(cf_library_set_memory(&memory, &err), -1);
}
END_TEST

/* One failure at the n-th allocation, then another n, until a run got through without meeting
 * it. Whatever it hits, the process lives, the run ends, and everything goes back. */
START_TEST(no_memory_at_any_one_allocation_ends_a_run_and_leaks_nothing)
{
    struct tagged tagged = {0};
    struct cf_error err = {0};
    unsigned refused = 0, ended = 0;

    ck_assert_int_eq(set_up(&tagged, &err), 0);
    for (unsigned n = 1;; n++) {
        struct host host = {0};
        tagged.made = tagged.failed = 0;
        tagged.fail_from = n;
        tagged.fail_count = 1;
        if (!live(&host, &err))
            refused++;
        else
            ended += host.closed == 1;
        ck_assert_msg(tagged.alive == 0, "allocation %u failed: %llu blocks are left", n,
                      tagged.alive);
        ck_assert_int_le(host.closed, 1);
        if (tagged.failed == 0)
            break;
        ck_assert_uint_eq(refused + ended, n);
    }
    ck_assert_uint_gt(refused, 3);
    ck_assert_uint_gt(ended, 1);
}
END_TEST

UNIT_MAIN("plugin/memory", tcase_add_test(tc, all_of_a_run_comes_from_the_host_and_goes_back);
          tcase_add_test(tc, what_is_yours_is_freed_by_the_librarys_own_free);
          tcase_add_test(tc, an_allocator_after_the_first_allocation_is_refused);
          tcase_add_test(tc, an_allocator_that_is_not_whole_is_refused);
          tcase_add_test(tc, no_memory_at_any_one_allocation_ends_a_run_and_leaks_nothing);)
