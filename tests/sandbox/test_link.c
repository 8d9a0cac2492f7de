/* sandbox/link against a peer made by hand: what it refuses to hear, and who may free what
 * when. */
#include "tests/support/unit.h"

#include "base/buf.h"
#include "mux/frame.h"
#include "sandbox/link.h"

#include <stdio.h>
#include <string.h>

struct world {
    struct cf_link *link;
    struct cf_process *process;
    struct cf_buf log;
    struct cf_error broken;
    unsigned brokens, outputs;
    const char *free_link_at; /* the word of the log at which the link is freed from inside */
};

static void
note(struct world *world, const char *word)
{
    cf_buf_adds(&world->log, word);
    cf_buf_adds(&world->log, ";");
    if (world->free_link_at != NULL && strcmp(word, world->free_link_at) == 0) {
        world->free_link_at = NULL;
        cf_link_free(world->link);
        world->link = NULL;
    }
}

static void
on_output(void *user)
{
    ((struct world *)user)->outputs++;
}

static void
on_hello(void *user, const struct cf_hello *hello)
{
    note(user, "hello");
}

static void
on_event(void *user, const char *name, json_t *event)
{
    note(user, name);
}

static void
on_broken(void *user, const struct cf_error *err)
{
    struct world *world = user;

    world->brokens++;
    world->broken = *err;
    note(world, "broken");
}

static const struct cf_link_events link_events = {on_output, on_hello, NULL, on_event,
                                                  on_broken};

static void
on_started(void *user, struct cf_process *process, int pid)
{
    note(user, "started");
}

static void
on_start_failed(void *user, struct cf_process *process, const struct cf_start_failure *why)
{
    note(user, "failed");
}

static int
on_stdout(void *user, struct cf_process *process, const char *bytes, size_t len)
{
    note(user, "stdout");
    return 0;
}

static void
on_stdout_end(void *user, struct cf_process *process)
{
    note(user, "stdout-end");
}

static void
on_exit_event(void *user, struct cf_process *process, const struct cf_exit *exit)
{
    note(user, exit->lost ? "lost" : "exit");
}

static const struct cf_process_events process_events = {
    .on_started = on_started,
    .on_start_failed = on_start_failed,
    .on_stdout = on_stdout,
    .on_stdout_end = on_stdout_end,
    .on_exit = on_exit_event,
};

static void
on_done(void *user, int status, json_t *answer, const struct cf_error *err)
{
    note(user, status == 0 ? "answered" : "refused");
}

static void
start(struct world *world)
{
    memset(world, 0, sizeof *world);
    world->link = cf_link_new(&link_events, world);
    ck_assert_ptr_nonnull(world->link);
}

static void
stop(struct world *world)
{
    cf_link_free(world->link);
    cf_buf_release(&world->log);
}

static void
put_frame(struct cf_buf *to, unsigned kind, uint32_t channel, const char *payload, size_t len)
{
    struct cf_mux_frame frame = {(uint8_t)kind, 0, (uint16_t)len, channel};
    char head[CF_MUX_HEADER];

    cf_mux_frame_write(head, &frame);
    cf_buf_add(to, head, sizeof head);
    cf_buf_add(to, payload, len);
}

static void
hear(struct world *world, const char *message)
{
    struct cf_buf bytes = {0};

    put_frame(&bytes, CF_MUX_CONTROL, 0, message, strlen(message));
    cf_link_feed(world->link, bytes.data, bytes.len);
    cf_buf_release(&bytes);
}

#define HELLO                                                                            \
    "{\"ev\":\"hello\",\"protocol\":1,\"version\":\"0\",\"uid\":7,\"gid\":8,\"cgroup\":" \
    "\"v2\"}"

static void
spawn(struct world *world)
{
    static const char *const argv[] = {"/x", NULL};
    const struct cf_spawn how = {.argv = argv};
    struct cf_error err;

    ck_assert_int_eq(
        cf_process_spawn(world->link, &how, &process_events, world, &world->process, &err), 0);
}

static void
expect_broken(const char *const *messages, const char *word)
{
    struct world world;

    start(&world);
    for (; *messages != NULL; messages++)
        hear(&world, *messages);
    ck_assert_uint_eq(world.brokens, 1);
    ck_assert_msg(strstr(world.broken.text, word) != NULL, "'%s' does not say '%s'",
                  world.broken.text, word);
    hear(&world, HELLO); /* nothing is heard any more */
    ck_assert_uint_eq(world.brokens, 1);
    stop(&world);
}

START_TEST(what_cf_init_may_not_say)
{
    expect_broken((const char *const[]){"{\"ev\":\"bye\"}", NULL}, "not a hello");
    expect_broken((const char *const[]){"{\"ev\":\"hello\",\"protocol\":2}", NULL},
                  "protocol 2");
    expect_broken((const char *const[]){"{\"ev\":\"hello\"}", NULL}, "protocol 0");
    expect_broken((const char *const[]){HELLO, HELLO, NULL}, "second hello");
    expect_broken((const char *const[]){HELLO, "{\"re\":1}", NULL}, "never made");
    expect_broken((const char *const[]){HELLO, "{}", NULL}, "neither answer nor event");
    expect_broken((const char *const[]){HELLO, "[1]", NULL}, "neither answer nor event");
    expect_broken((const char *const[]){HELLO, "7", NULL}, "control message of the sandbox");
    expect_broken((const char *const[]){HELLO, "{\"ev\":", NULL},
                  "control message of the sandbox");
    expect_broken((const char *const[]){HELLO, "{\"ev\":\"x\",\"ev\":\"y\"}", NULL},
                  "control message of the sandbox");
    expect_broken((const char *const[]){HELLO, "{\"ev\":[[[[[[[[[1]]]]]]]]]}", NULL},
                  "control message of the sandbox");
    expect_broken((const char *const[]){HELLO, "{\"ev\":\"\xff\"}", NULL},
                  "control message of the sandbox");
}
END_TEST

START_TEST(an_answer_comes_once_only)
{
    struct world world;
    struct cf_error err;

    start(&world);
    hear(&world, HELLO);
    ck_assert_int_eq(cf_link_facts(world.link, on_done, &world, &err), 0);
    hear(&world, "{\"re\":1,\"error\":{\"errno\":5,\"text\":\"no\"}}");
    ck_assert_uint_eq(world.brokens, 0);
    hear(&world, "{\"re\":1}");
    ck_assert_uint_eq(world.brokens, 1);
    ck_assert_str_eq(world.log.data, "hello;refused;broken;");
    stop(&world);
}
END_TEST

START_TEST(before_hello_nothing_can_be_asked)
{
    struct world world;
    struct cf_error err;

    start(&world);
    ck_assert_int_eq(cf_link_facts(world.link, on_done, &world, &err), -1);
    cf_link_ping(world.link);
    ck_assert_uint_eq(world.outputs, 0);
    stop(&world);
}
END_TEST

/* All that is said about one process, from started to exit. */
static void
put_life(struct cf_buf *to)
{
    static const char *const messages[] = {HELLO, "{\"re\":1,\"pid\":9}",
                                           "{\"ev\":\"exit\",\"pid\":9,\"code\":0}"};

    for (int i = 0; i < 2; i++)
        put_frame(to, CF_MUX_CONTROL, 0, messages[i], strlen(messages[i]));
    put_frame(to, CF_MUX_DATA, 1, "out", 3);
    put_frame(to, CF_MUX_CONTROL, 0, messages[2], strlen(messages[2]));
    put_frame(to, CF_MUX_HALF_CLOSE, 1, NULL, 0);
    put_frame(to, CF_MUX_HALF_CLOSE, 3, NULL, 0);
}

START_TEST(a_process_s_life_survives_any_cut)
{
    struct cf_buf bytes = {0};
    struct world world;
    size_t hello = CF_MUX_HEADER + strlen(HELLO);

    put_life(&bytes);
    for (size_t cut = hello; cut <= bytes.len; cut++) {
        start(&world);
        cf_link_feed(world.link, bytes.data, hello);
        spawn(&world);
        cf_link_feed(world.link, bytes.data + hello, cut - hello);
        cf_link_feed(world.link, bytes.data + cut, bytes.len - cut);
        if (cut == bytes.len)
            ck_assert_str_eq(world.log.data, "hello;started;stdout;exit;stdout-end;");
        ck_assert_ptr_nonnull(strstr(world.log.data, "stdout;exit;stdout-end;"));
        cf_process_free(world.process);
        stop(&world);
    }
    cf_buf_release(&bytes);
}
END_TEST

START_TEST(an_end_that_overtakes_the_start_is_told_after_it)
{
    struct cf_buf bytes = {0};
    struct world world;

    start(&world);
    hear(&world, HELLO);
    spawn(&world);
    put_frame(&bytes, CF_MUX_HALF_CLOSE, 1, NULL, 0);
    cf_link_feed(world.link, bytes.data, bytes.len);
    ck_assert_str_eq(world.log.data, "hello;");
    hear(&world, "{\"re\":1,\"pid\":9}");
    ck_assert_str_eq(world.log.data, "hello;started;stdout-end;");
    stop(&world);
    cf_buf_release(&bytes);
}
END_TEST

START_TEST(the_link_may_be_freed_from_inside_any_callback)
{
    static const char *const words[] = {"hello", "started", "stdout", "exit", "stdout-end"};
    struct cf_buf bytes = {0};
    struct world world;
    size_t hello = CF_MUX_HEADER + strlen(HELLO);

    put_life(&bytes);
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        start(&world);
        world.free_link_at = words[i];
        cf_link_feed(world.link, bytes.data, hello);
        if (world.link != NULL) {
            spawn(&world);
            cf_link_feed(world.link, bytes.data + hello, bytes.len - hello);
        }
        ck_assert_ptr_null(world.link);
        ck_assert_str_eq(world.log.data + strlen(world.log.data) - strlen(words[i]) - 1,
                         i == 0   ? "hello;"
                         : i == 1 ? "started;"
                         : i == 2 ? "stdout;"
                         : i == 3 ? "exit;"
                                  : "stdout-end;");
        stop(&world);
    }
    cf_buf_release(&bytes);
}
END_TEST

START_TEST(the_link_may_be_freed_while_it_ends_and_while_it_is_broken)
{
    static const char *const words[] = {"lost", "refused", "broken"};
    struct world world;
    struct cf_error err;

    for (size_t i = 0; i < 3; i++) {
        start(&world);
        hear(&world, HELLO);
        spawn(&world);
        ck_assert_int_eq(cf_link_facts(world.link, on_done, &world, &err), 0);
        ck_assert_int_eq(cf_link_facts(world.link, on_done, &world, &err), 0);
        world.free_link_at = words[i];
        if (i == 2)
            hear(&world, "{}");
        else
            cf_link_end(world.link, NULL);
        ck_assert_ptr_null(world.link);
        stop(&world);
    }
}
END_TEST

START_TEST(the_end_is_told_once_and_then_nothing)
{
    struct world world;
    struct cf_error why, err;
    const char *bytes;

    cf_error_set(&why, CF_ERROR_ENGINE, 0, "gone");
    start(&world);
    hear(&world, HELLO);
    spawn(&world);
    ck_assert_int_eq(cf_link_facts(world.link, on_done, &world, &err), 0);
    cf_link_end(world.link, &why);
    cf_link_end(world.link, &why);
    hear(&world, "{}");
    ck_assert_str_eq(world.log.data, "hello;refused;lost;");
    ck_assert_uint_eq(cf_link_output(world.link, &bytes), 0);
    ck_assert_int_eq(cf_link_facts(world.link, on_done, &world, &err), -1);
    ck_assert_int_eq(err.kind, CF_ERROR_CANCELED);
    cf_process_signal(world.process, 9);
    ck_assert_uint_eq(cf_process_write(world.process, "x", 1), 0);
    cf_process_close_stdin(world.process);
    cf_process_resume(world.process);
    cf_process_free(world.process);
    stop(&world);
}
END_TEST

START_TEST(output_is_told_once_until_it_was_all_taken_and_stays_in_place_meanwhile)
{
    struct world world;
    struct cf_error err;
    const char *bytes, *again;
    size_t len;

    start(&world);
    hear(&world, HELLO);
    ck_assert_uint_eq(world.outputs, 0);
    ck_assert_int_eq(cf_link_facts(world.link, on_done, &world, &err), 0);
    ck_assert_int_eq(cf_link_facts(world.link, on_done, &world, &err), 0);
    ck_assert_uint_eq(world.outputs, 1);
    len = cf_link_output(world.link, &bytes);
    ck_assert_uint_gt(len, 0);
    for (int i = 0; i < 1000; i++)
        ck_assert_int_eq(cf_link_stat(world.link, "/some/path", on_done, &world, &err), 0);
    ck_assert_uint_eq(cf_link_output(world.link, &again), len);
    ck_assert_ptr_eq(again, bytes);
    cf_link_output_taken(world.link, len);
    ck_assert_uint_eq(world.outputs, 1);
    while ((len = cf_link_output(world.link, &bytes)) > 0)
        cf_link_output_taken(world.link, len);
    ck_assert_int_eq(cf_link_shutdown(world.link, &err), 0);
    ck_assert_uint_eq(world.outputs, 2);
    stop(&world);
}
END_TEST

START_TEST(requests_beyond_those_that_may_wait_are_refused)
{
    struct world world;
    struct cf_error err;
    int taken = 0;

    start(&world);
    hear(&world, HELLO);
    while (cf_link_facts(world.link, NULL, NULL, &err) == 0)
        ck_assert_int_lt(taken++, 10000);
    ck_assert_int_eq(err.kind, CF_ERROR_BUDGET);
    ck_assert_int_eq(taken, 4096 + 56);
    stop(&world);
}
END_TEST

UNIT_MAIN("sandbox/link", tcase_add_test(tc, what_cf_init_may_not_say);
          tcase_add_test(tc, an_answer_comes_once_only);
          tcase_add_test(tc, before_hello_nothing_can_be_asked);
          tcase_add_test(tc, a_process_s_life_survives_any_cut);
          tcase_add_test(tc, an_end_that_overtakes_the_start_is_told_after_it);
          tcase_add_test(tc, the_link_may_be_freed_from_inside_any_callback);
          tcase_add_test(tc, the_link_may_be_freed_while_it_ends_and_while_it_is_broken);
          tcase_add_test(tc, the_end_is_told_once_and_then_nothing); tcase_add_test(
              tc, output_is_told_once_until_it_was_all_taken_and_stays_in_place_meanwhile);
          tcase_add_test(tc, requests_beyond_those_that_may_wait_are_refused);)
