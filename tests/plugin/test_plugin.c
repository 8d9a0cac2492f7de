/*
 * The border of the driver, as hosts of other ages and habits cross it. No Engine is needed:
 * the runs below fail at their first row, which is a whole life all the same, result and end
 * included.
 */
#include <cfrunner/driver.h>

#include "tests/support/unit.h"

#include <signal.h>
#include <stdbool.h>
#include <string.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>
#include <uv.h>

#define RELEASE                                                                        \
    "{\"protocol\":\"oneshot-v1\",\"image\":\"example.test/harness@sha256:"            \
    "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef\",\"platform\":" \
    "{\"os\":\"linux\",\"architecture\":\"amd64\"},\"entrypoint\":\"/opt/"             \
    "h\",\"argv\":[],\"prompt_transport\":\"stdin\","                                  \
    "\"output_mode\":\"text\"}"
#define OPTIONS                                                                              \
    "{\"engine\":\"unix:///nonexistent/docker.sock\",\"state_dir\":\"/tmp/cf-plugin-test\"," \
    "\"pull\":\"never\"}"

static const struct cf_driver *const driver = &cf_driver_docker_v1;

struct host {
    struct cf_run *run;
    int phases, observations, results, closed;
    const char *where; /* close at this callback */
    bool is_closing;
};

static void
reached(struct host *host, const char *where)
{
    ck_assert_int_eq(host->closed, 0);
    if (host->where == NULL || strcmp(host->where, where) != 0 || host->is_closing)
        return;
    host->is_closing = true;
    driver->run_close(host->run, 0, NULL);
}

static void
on_phase(void *user, const char *name, const char *step, uint64_t took_ms)
{
    struct host *host = user;

    host->phases++;
    reached(host, "phase");
}

static int
on_observation(void *user, const struct cf_observation *o)
{
    struct host *host = user;

    ck_assert_uint_ge(o->size, sizeof *o);
    ck_assert_uint_eq(o->seq, ++host->observations);
    reached(host, "observation");
    return CF_RUN_CONTINUE;
}

static void
on_result(void *user, const char *json, size_t len)
{
    struct host *host = user;

    host->results++;
    if (!host->is_closing)
        ck_assert_ptr_nonnull(memmem(json, len, "runtime.runner_unavailable", 26));
    reached(host, "result");
    if (!host->is_closing)
        driver->run_close(host->run, 0, NULL);
}

static void
on_closed(void *user)
{
    ((struct host *)user)->closed++;
}

static struct cf_run_host
host_table(struct host *host)
{
    return (struct cf_run_host){.size = sizeof(struct cf_run_host),
                                .abi_major = CF_ABI_MAJOR,
                                .abi_minor = CF_ABI_MINOR,
                                .user = host,
                                .on_phase = on_phase,
                                .on_observation = on_observation,
                                .on_result = on_result,
                                .on_closed = on_closed};
}

static int
open_run(struct host *host, uv_loop_t *loop, const struct cf_run_host *table,
         struct cf_error *err)
{
    return driver->run_open(loop, RELEASE, strlen(RELEASE), OPTIONS, strlen(OPTIONS), table,
                            &host->run, err);
}

static void
set_up(void)
{
    const struct cf_driver_setup setup = {sizeof setup, CF_ABI_MAJOR, CF_ABI_MINOR, NULL};
    struct cf_error err = {0};

    (void)signal(SIGPIPE, SIG_IGN);
    ck_assert_msg(driver->setup(&setup, &err) == 0, "%s", err.text);
}

/* A whole life with this table: opened, failed for want of an Engine, told, closed. */
static void
live(struct host *host, const struct cf_run_host *table)
{
    struct cf_error err = {0};
    uv_loop_t loop;

    ck_assert_int_eq(uv_loop_init(&loop), 0);
    ck_assert_msg(open_run(host, &loop, table, &err) == 0, "%s", err.text);
    ck_assert_int_eq(host->phases + host->observations + host->results,
                     0); /* nothing from inside */
    (void)uv_run(&loop, UV_RUN_DEFAULT);
    ck_assert_int_eq(uv_loop_close(&loop), 0); /* every handle is closed */
}

/* A copy of `len` bytes whose last byte is the last that may be read. */
static void *
at_the_edge(const void *bytes, size_t len)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    char *pages =
        mmap(NULL, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    ck_assert(pages != MAP_FAILED);
    ck_assert_int_eq(mprotect(pages + page, page, PROT_NONE), 0);
    return memcpy(pages + page - len, bytes, len);
}

static int
open_pool(uv_loop_t *loop, const struct cf_pool_host *host, struct cf_pool **ret_pool, struct cf_error *err)
{
    return driver->pool_open(loop, RELEASE, strlen(RELEASE), OPTIONS, strlen(OPTIONS), host, ret_pool, err);
}

START_TEST(the_table_says_what_it_is_before_anything_else)
{
    ck_assert_uint_eq(offsetof(struct cf_driver, size), 0);
    ck_assert_uint_eq(offsetof(struct cf_driver, abi_major), 4);
    ck_assert_uint_eq(offsetof(struct cf_driver, abi_minor), 6);
    ck_assert_uint_eq(offsetof(struct cf_run_host, size), 0);
    ck_assert_uint_eq(offsetof(struct cf_run_host, abi_major), 4);
    ck_assert_uint_eq(driver->size, sizeof(struct cf_driver));
    ck_assert_uint_eq(driver->abi_major, CF_ABI_MAJOR);
    ck_assert_uint_eq(driver->abi_minor, CF_ABI_MINOR);
    ck_assert_str_eq(driver->name, "docker");
    ck_assert_str_eq(driver->version, cf_version());
}
END_TEST

START_TEST(no_entry_of_the_table_is_empty)
{
    void *const *entry = (void *const *)(const void *)&driver->name;
    void *const *end = (void *const *)(const void *)((const char *)driver + driver->size);

    for (; entry < end; entry++)
        ck_assert_ptr_nonnull(*entry);
}
END_TEST

START_TEST(a_driver_that_is_too_old_for_a_verb_is_seen)
{
    struct cf_driver old = *driver;

    ck_assert(CF_DRIVER_HAS(driver, release_check));
    old.size = offsetof(struct cf_driver, release_check);
    ck_assert(!CF_DRIVER_HAS(&old, release_check));
    ck_assert(CF_DRIVER_HAS(&old, run_close));
    old.run_close = NULL;
    ck_assert(!CF_DRIVER_HAS(&old, run_close));
}
END_TEST

START_TEST(a_host_of_another_major_is_refused)
{
    struct host host = {0};
    struct cf_run_host table = host_table(&host);
    struct cf_error err = {0};
    uv_loop_t loop;

    set_up();
    ck_assert_int_eq(uv_loop_init(&loop), 0);
    for (unsigned major = 0; major < 4; major++) {
        table.abi_major = (uint16_t)(major == 1 ? 65535 : major);
        ck_assert_int_eq(open_run(&host, &loop, &table, &err), -1);
        ck_assert_int_eq(err.kind, CF_ERROR_CONFIG);
        ck_assert_ptr_nonnull(strstr(err.text, "ABI"));
        ck_assert_str_ne(err.fix, "");
    }
    (void)uv_run(&loop, UV_RUN_DEFAULT);
    ck_assert_int_eq(uv_loop_close(&loop), 0);
    ck_assert_int_eq(host.phases + host.results + host.closed, 0);
}
END_TEST

START_TEST(a_setup_of_another_major_is_refused)
{
    struct cf_driver_setup setup = {sizeof setup, CF_ABI_MAJOR + 1, 0, NULL};
    struct cf_error err = {0};

    ck_assert_int_eq(driver->setup(&setup, &err), -1);
    ck_assert_ptr_nonnull(strstr(err.text, "2.0"));
    setup.abi_major = CF_ABI_MAJOR;
    setup.size = 4;
    ck_assert_int_eq(driver->setup(&setup, &err), -1);
}
END_TEST

START_TEST(a_run_before_setup_is_refused)
{
    struct host host = {0};
    struct cf_run_host table = host_table(&host);
    struct cf_error err = {0};
    uv_loop_t loop;

    (void)signal(SIGPIPE, SIG_IGN);
    ck_assert_int_eq(uv_loop_init(&loop), 0);
    ck_assert_int_eq(open_run(&host, &loop, &table, &err), -1);
    ck_assert_ptr_nonnull(strstr(err.text, "set up"));
    ck_assert_int_eq(uv_loop_close(&loop), 0);
}
END_TEST

START_TEST(an_older_and_so_shorter_host_is_served_as_far_as_it_goes)
{
    static const size_t lengths[] = {
        offsetof(struct cf_run_host, on_log), offsetof(struct cf_run_host, on_result),
        offsetof(struct cf_run_host, on_closed), sizeof(struct cf_run_host)};

    set_up();
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        struct host host = {.where = lengths[i] <= offsetof(struct cf_run_host, on_result)
                                         ? "observation"
                                         : NULL};
        struct cf_run_host table = host_table(&host);
        table.size = (uint32_t)lengths[i];
        live(&host, at_the_edge(&table, lengths[i]));
        ck_assert_int_eq(host.observations, 1);
        ck_assert_int_eq(host.results, lengths[i] > offsetof(struct cf_run_host, on_result));
        ck_assert_int_eq(host.closed, lengths[i] > offsetof(struct cf_run_host, on_closed));
    }
}
END_TEST

/* As the first hosts were built: what came later lies past their end and is never read. */
START_TEST(a_host_of_1_0_is_served_by_this_driver)
{
    struct host host = {0};
    struct cf_run_host table = host_table(&host);

    set_up();
    ck_assert_uint_eq(offsetof(struct cf_run_host, on_collected),
                      offsetof(struct cf_run_host, on_checkpoint) + sizeof(void *));
    table.size = offsetof(struct cf_run_host, on_collected);
    table.abi_minor = 0;
    live(&host, at_the_edge(&table, table.size));
    ck_assert_int_eq(host.results, 1);
    ck_assert_int_eq(host.closed, 1);
}
END_TEST

START_TEST(a_driver_of_1_0_lacks_the_verbs_of_1_1)
{
    struct cf_driver old = *driver;

    ck_assert_uint_eq(offsetof(struct cf_driver, run_collect),
                      offsetof(struct cf_driver, release_report_free) + sizeof(void *));
    ck_assert(CF_DRIVER_HAS(driver, run_collect) && CF_DRIVER_HAS(driver, run_checkpoint));
    old.size = offsetof(struct cf_driver, run_collect);
    ck_assert(CF_DRIVER_HAS(&old, release_report_free));
    ck_assert(!CF_DRIVER_HAS(&old, run_collect) && !CF_DRIVER_HAS(&old, run_checkpoint));
}
END_TEST

/* No session is open: whatever the document, and also from inside the last callbacks. */
START_TEST(nothing_is_taken_out_of_a_run_that_is_not_open)
{
    static const char document[] = "{\"directory\":\"/nonexistent/x\"}";
    struct host host = {.is_closing = true};
    struct cf_run_host table = host_table(&host);
    struct cf_error err = {0};
    uv_loop_t loop;

    set_up();
    ck_assert_int_eq(uv_loop_init(&loop), 0);
    ck_assert_int_eq(open_run(&host, &loop, &table, &err), 0);
    ck_assert_int_eq(driver->run_collect(host.run, document, sizeof document - 1, &err), -1);
    ck_assert_int_eq(err.kind, CF_ERROR_CONFIG);
    ck_assert_ptr_nonnull(strstr(err.text, "not open yet"));
    ck_assert_int_eq(driver->run_checkpoint(host.run, document, sizeof document - 1, &err), -1);
    ck_assert_ptr_nonnull(strstr(err.text, "not open yet"));
    driver->run_close(host.run, 0, NULL);
    ck_assert_int_eq(driver->run_collect(host.run, document, sizeof document - 1, &err), -1);
    ck_assert_ptr_nonnull(strstr(err.text, "the run is over"));
    (void)uv_run(&loop, UV_RUN_DEFAULT);
    ck_assert_int_eq(uv_loop_close(&loop), 0);
    ck_assert_int_eq(host.closed, 1);
}
END_TEST

START_TEST(a_host_too_short_to_be_one_is_refused)
{
    struct host host = {0};
    struct cf_run_host table = host_table(&host);
    struct cf_error err = {0};
    uv_loop_t loop;

    set_up();
    ck_assert_int_eq(uv_loop_init(&loop), 0);
    for (uint32_t size = 8; size <= offsetof(struct cf_run_host, on_phase); size += 8) {
        table.size = size;
        ck_assert_int_eq(open_run(&host, &loop, at_the_edge(&table, size), &err), -1);
    }
    ck_assert_int_eq(uv_loop_close(&loop), 0);
}
END_TEST

START_TEST(a_newer_and_so_longer_host_is_served_as_far_as_it_is_known)
{
    struct host host = {0};
    struct {
        struct cf_run_host known;
        unsigned char later[256];
    } table = {.known = host_table(&host)};

    set_up();
    memset(table.later, 0xaa, sizeof table.later); /* a callback of tomorrow: never called */
    table.known.size = sizeof table;
    table.known.abi_minor = CF_ABI_MINOR + 7;
    live(&host, &table.known);
    ck_assert_int_eq(host.results, 1);
    ck_assert_int_eq(host.closed, 1);
}
END_TEST

START_TEST(older_and_newer_setups_are_taken)
{
    struct cf_driver_setup setup = {offsetof(struct cf_driver_setup, memory), CF_ABI_MAJOR,
                                    CF_ABI_MINOR, NULL};
    struct {
        struct cf_driver_setup known;
        unsigned char later[64];
    } newer = {.known = {sizeof newer, CF_ABI_MAJOR, CF_ABI_MINOR + 1, NULL}};
    struct cf_error err = {0};

    memset(newer.later, 0xaa, sizeof newer.later);
    ck_assert_int_eq(driver->setup(at_the_edge(&setup, setup.size), &err), 0);
    ck_assert_int_eq(driver->setup(&newer.known, &err), 0);
    ck_assert_int_eq(driver->setup(&newer.known, &err), 0);
}
END_TEST

START_TEST(a_pools_host_of_another_age_is_met_like_a_runs)
{
    struct {
        struct cf_pool_host known;
        unsigned char later[256];
    } table = {.known = {.abi_major = CF_ABI_MAJOR, .abi_minor = CF_ABI_MINOR}};
    const size_t lengths[] = {offsetof(struct cf_pool_host, on_log), offsetof(struct cf_pool_host, on_closed),
                              sizeof(struct cf_pool_host), sizeof table};
    struct cf_error err = {0};
    struct cf_pool *pool;
    uv_loop_t loop;

    set_up();
    memset(table.later, 0xaa, sizeof table.later);
    ck_assert_int_eq(uv_loop_init(&loop), 0);
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        table.known.size = (uint32_t)lengths[i];
        ck_assert_msg(open_pool(&loop, at_the_edge(&table, lengths[i]), &pool, &err) == 0, "%s", err.text);
        driver->pool_close(pool, 0);
        (void)uv_run(&loop, UV_RUN_DEFAULT);
    }
    table.known.abi_major = CF_ABI_MAJOR + 1;
    ck_assert_int_eq(open_pool(&loop, &table.known, &pool, &err), -1);
    ck_assert_ptr_nonnull(strstr(err.text, "ABI 2."));
    table.known = (struct cf_pool_host){.size = 8, .abi_major = CF_ABI_MAJOR};
    ck_assert_int_eq(open_pool(&loop, at_the_edge(&table, 8), &pool, &err), -1);
    ck_assert_int_eq(uv_loop_close(&loop), 0);
}
END_TEST

START_TEST(documents_are_bytes_with_a_length_and_no_end_of_their_own)
{
    struct host host = {0};
    struct cf_run_host table = host_table(&host);
    struct cf_error err = {0};
    uv_loop_t loop;

    set_up();
    ck_assert_int_eq(uv_loop_init(&loop), 0);
    ck_assert_msg(driver->run_open(&loop, at_the_edge(RELEASE, strlen(RELEASE)), strlen(RELEASE),
                                   at_the_edge(OPTIONS, strlen(OPTIONS)), strlen(OPTIONS), &table,
                                   &host.run, &err) == 0,
                  "%s", err.text);
    (void)uv_run(&loop, UV_RUN_DEFAULT);
    ck_assert_int_eq(driver->run_open(&loop, RELEASE, strlen(RELEASE), OPTIONS "x",
                                      strlen(OPTIONS) + 1, &table, &host.run, &err),
                     -1); /* and all of the length counts */
    ck_assert_int_eq(uv_loop_close(&loop), 0);
    ck_assert_int_eq(host.closed, 1);
}
END_TEST

START_TEST(each_verb_of_the_table_is_the_librarys_of_that_name)
{
#define IS_SAME(verb) ck_assert_msg(driver->verb == cf_##verb, "%s is another", #verb)
    IS_SAME(run_prompt);
    IS_SAME(run_cancel);
    IS_SAME(run_interrupt);
    IS_SAME(run_steer);
    IS_SAME(run_permission_answer);
    IS_SAME(run_question_answer);
    IS_SAME(run_resume);
    IS_SAME(run_close);
    IS_SAME(run_collect);
    IS_SAME(run_checkpoint);
    IS_SAME(pool_state);
    IS_SAME(pool_close);
}
END_TEST

START_TEST(a_host_may_close_from_inside_any_callback)
{
    static const char *const places[] = {"phase", "observation", "result"};

    set_up();
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        struct host host = {.where = places[i]};
        struct cf_run_host table = host_table(&host);
        live(&host, &table);
        ck_assert(host.is_closing);
        ck_assert_int_eq(host.closed, 1);
        ck_assert_int_le(host.results, 1);
    }
}
END_TEST

START_TEST(a_host_may_close_before_the_loop_ever_ran)
{
    struct host host = {.is_closing = true};
    struct cf_run_host table = host_table(&host);
    struct cf_error err = {0};
    uv_loop_t loop;

    set_up();
    ck_assert_int_eq(uv_loop_init(&loop), 0);
    ck_assert_int_eq(open_run(&host, &loop, &table, &err), 0);
    driver->run_close(host.run, 0, NULL);
    driver->run_close(host.run, 0, NULL);
    driver->run_cancel(host.run);
    driver->run_resume(host.run);
    ck_assert_int_eq(host.closed, 0);
    table.on_result = NULL; /* the table was copied */
    (void)uv_run(&loop, UV_RUN_DEFAULT);
    ck_assert_int_eq(uv_loop_close(&loop), 0);
    ck_assert_int_eq(host.closed, 1);
}
END_TEST

START_TEST(no_call_waits_for_an_engine_that_takes_a_connection_and_says_nothing)
{
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    struct host host = {.is_closing = true};
    struct cf_run_host table = host_table(&host);
    int deaf = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct cf_error err = {0};
    uint64_t began, in_calls;
    char options[300];
    uv_loop_t loop;

    set_up();
    snprintf(at.sun_path, sizeof at.sun_path, "/tmp/cf-plugin-%d", (int)getpid());
    ck_assert_int_eq(bind(deaf, (struct sockaddr *)&at, sizeof at), 0);
    ck_assert_int_eq(listen(deaf, 8), 0);
    snprintf(options, sizeof options, "{\"engine\":\"unix://%s\",\"state_dir\":\"/tmp/cf-plugin-test\"}", at.sun_path);
    ck_assert_int_eq(uv_loop_init(&loop), 0);
    began = uv_hrtime();
    ck_assert_msg(driver->run_open(&loop, RELEASE, strlen(RELEASE), options, strlen(options), &table, &host.run,
                                   &err) == 0,
                  "%s", err.text);
    in_calls = uv_hrtime() - began;
    for (int i = 0; i < 50; i++) {
        (void)uv_run(&loop, UV_RUN_NOWAIT);
        usleep(2000);
    }
    began = uv_hrtime();
    ck_assert_int_eq(driver->run_prompt(host.run, "{}", 2, &err), -1);
    ck_assert_int_eq(driver->run_steer(host.run, "{}", 2, NULL, &err), -1);
    driver->run_interrupt(host.run);
    driver->run_cancel(host.run);
    driver->run_resume(host.run);
    driver->run_close(host.run, 0, NULL);
    in_calls += uv_hrtime() - began;
    ck_assert_uint_lt(in_calls, 2000000000u); /* an engine has ten seconds and more to answer in */
    (void)uv_run(&loop, UV_RUN_DEFAULT);
    ck_assert_int_eq(uv_loop_close(&loop), 0);
    ck_assert_int_eq(host.closed, 1);
    close(deaf);
    unlink(at.sun_path);
}
END_TEST

START_TEST(sigpipe_at_its_default_is_refused)
{
    struct host host = {0};
    struct cf_run_host table = host_table(&host);
    struct cf_error err = {0};
    uv_loop_t loop;

    set_up();
    (void)signal(SIGPIPE, SIG_DFL);
    ck_assert_int_eq(uv_loop_init(&loop), 0);
    ck_assert_int_eq(open_run(&host, &loop, &table, &err), -1);
    ck_assert_int_eq(err.kind, CF_ERROR_CONFIG);
    ck_assert_ptr_nonnull(strstr(err.text, "SIGPIPE"));
    ck_assert_ptr_nonnull(strstr(err.fix, "SIG_IGN"));
    ck_assert_int_eq(open_pool(&loop, &(struct cf_pool_host){.size = sizeof(struct cf_pool_host), .abi_major = CF_ABI_MAJOR},
                               NULL, &err),
                     -1);
    ck_assert_ptr_nonnull(strstr(err.text, "SIGPIPE"));
    ck_assert_int_eq(uv_loop_close(&loop), 0);
}
END_TEST

static void
handle_nothing(int signum)
{
}

START_TEST(sigpipe_ignored_handled_or_blocked_is_fine)
{
    sigset_t pipe_only;

    set_up();
    sigemptyset(&pipe_only);
    sigaddset(&pipe_only, SIGPIPE);
    for (int way = 0; way < 3; way++) {
        struct host host = {0};
        struct cf_run_host table = host_table(&host);
        (void)signal(SIGPIPE, way == 0 ? SIG_IGN : way == 1 ? handle_nothing : SIG_DFL);
        (void)sigprocmask(way == 2 ? SIG_BLOCK : SIG_UNBLOCK, &pipe_only, NULL);
        live(&host, &table);
        ck_assert_int_eq(host.closed, 1);
    }
}
END_TEST

START_TEST(signals_are_left_as_the_host_set_them)
{
    struct host host = {0};
    struct cf_run_host table = host_table(&host);
    struct sigaction before[NSIG], after;

    set_up();
    for (int s = 1; s < NSIG; s++)
        if (sigaction(s, NULL, &before[s]) < 0)
            before[s].sa_handler = SIG_ERR;
    live(&host, &table);
    for (int s = 1; s < NSIG; s++)
        if (before[s].sa_handler != SIG_ERR && sigaction(s, NULL, &after) == 0)
            ck_assert_msg(before[s].sa_handler == after.sa_handler,
                          "signal %d has another handler", s);
}
END_TEST

UNIT_MAIN("plugin/plugin", tcase_add_test(tc, the_table_says_what_it_is_before_anything_else);
          tcase_add_test(tc, no_entry_of_the_table_is_empty);
          tcase_add_test(tc, a_driver_that_is_too_old_for_a_verb_is_seen);
          tcase_add_test(tc, a_host_of_another_major_is_refused);
          tcase_add_test(tc, a_setup_of_another_major_is_refused);
          tcase_add_test(tc, a_run_before_setup_is_refused);
          tcase_add_test(tc, an_older_and_so_shorter_host_is_served_as_far_as_it_goes);
          tcase_add_test(tc, a_host_of_1_0_is_served_by_this_driver);
          tcase_add_test(tc, a_driver_of_1_0_lacks_the_verbs_of_1_1);
          tcase_add_test(tc, nothing_is_taken_out_of_a_run_that_is_not_open);
          tcase_add_test(tc, a_host_too_short_to_be_one_is_refused);
          tcase_add_test(tc, a_newer_and_so_longer_host_is_served_as_far_as_it_is_known);
          tcase_add_test(tc, older_and_newer_setups_are_taken);
          tcase_add_test(tc, a_pools_host_of_another_age_is_met_like_a_runs);
          tcase_add_test(tc, documents_are_bytes_with_a_length_and_no_end_of_their_own);
          tcase_add_test(tc, each_verb_of_the_table_is_the_librarys_of_that_name);
          tcase_add_test(tc, a_host_may_close_from_inside_any_callback);
          tcase_add_test(tc, a_host_may_close_before_the_loop_ever_ran);
          tcase_add_test(tc, no_call_waits_for_an_engine_that_takes_a_connection_and_says_nothing);
          tcase_add_test(tc, sigpipe_at_its_default_is_refused);
          tcase_add_test(tc, sigpipe_ignored_handled_or_blocked_is_fine);
          tcase_add_test(tc, signals_are_left_as_the_host_set_them);)
