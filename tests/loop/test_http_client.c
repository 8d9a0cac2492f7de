/* The HTTP client by itself: streamed bodies that wait, readers that pause, calls that end
 * early. */
#include "base/clock.h"
#include "base/str.h"
#include "loop/http_client.h"
#include "tests/support/fake_engine.h"
#include "tests/support/unit.h"

#include <cfrunner/memory.h>

#include <curl/curl.h>
#include <signal.h>

struct ask {
    uv_loop_t loop;
    uv_timer_t tick;
    struct fake_engine fake;
    struct cf_http_client *client;
    struct cf_http_call *call;
    int dones, oks, heads, status;
    enum cf_http_fault fault;
    struct cf_buf body;
    bool client_closed;
    /* what the callbacks do */
    int pauses_left, source_parts, waits_left;
    bool abort_body, cancel_in_head, close_in_done;
    char header[64];
};

static void
on_tick(uv_timer_t *tick)
{
}
static void
on_client_closed(void *user)
{
    ((struct ask *)user)->client_closed = true;
}

static void
on_head(void *user, int http_status)
{
    struct ask *ask = user;

    ask->heads++;
    ask->status = http_status;
    if (ask->cancel_in_head)
        cf_http_call_cancel(ask->call);
}

static void
on_header(void *user, const char *name, const char *value)
{
    struct ask *ask = user;
    if (strcasecmp(name, "X-Test") == 0)
        snprintf(ask->header, sizeof ask->header, "%s", value);
}

static int
on_body(void *user, const char *bytes, size_t len)
{
    struct ask *ask = user;

    if (ask->abort_body)
        return -1;
    if (ask->pauses_left > 0) {
        ask->pauses_left--;
        return CF_HTTP_PAUSE;
    }
    return cf_buf_add(&ask->body, bytes, len);
}

static long
on_source(void *user, char *to, size_t size)
{
    struct ask *ask = user;

    if (ask->waits_left > 0) {
        ask->waits_left--;
        return CF_HTTP_WAIT;
    }
    if (ask->source_parts < 0)
        return -1;
    if (ask->source_parts == 0)
        return 0;
    ask->source_parts--;
    memcpy(to, "part", 4);
    return 4;
}

static void
on_done(void *user, const struct cf_http_result *result)
{
    struct ask *ask = user;

    ask->dones++;
    ask->oks += result->fault == CF_HTTP_OK;
    ask->fault = result->fault;
    ask->call = NULL;
    if (ask->close_in_done) {
        cf_http_client_close(ask->client, on_client_closed, ask);
        ask->client = NULL;
    }
}

static const struct cf_http_events events = {on_head, on_header, on_body, on_source, on_done};

static void
begin(struct ask *ask, const struct fake_answer *answers, size_t count)
{
    memset(ask, 0, sizeof *ask);
    signal(SIGPIPE, SIG_IGN);
    curl_global_init(CURL_GLOBAL_DEFAULT);
    uv_loop_init(&ask->loop);
    uv_timer_init(&ask->loop, &ask->tick);
    uv_timer_start(&ask->tick, on_tick, 5, 5);
    uv_unref((uv_handle_t *)&ask->tick);
    fake_open(&ask->fake, &ask->loop, answers, count);
    ck_assert_int_eq(cf_http_client_open(&ask->loop, &ask->client, NULL), 0);
}

static void
start(struct ask *ask, const char *method, bool is_streamed)
{
    struct cf_http_request_options options = {.method = method,
                                              .url = "http://x/y",
                                              .unix_path = ask->fake.path,
                                              .is_streamed = is_streamed,
                                              .deadline_ms = 3000};
    ck_assert_int_eq(cf_http_call_start(ask->client, &options, &events, ask, &ask->call, NULL),
                     0);
    ck_assert_int_eq(ask->dones, 0);
}

static void
wait_done(struct ask *ask)
{
    while (ask->dones == 0 && uv_run(&ask->loop, UV_RUN_ONCE) != 0)
        ;
    ck_assert_int_eq(ask->dones, 1);
}

static void
end(struct ask *ask)
{
    if (ask->client != NULL)
        cf_http_client_close(ask->client, on_client_closed, ask);
    fake_close(&ask->fake);
    uv_close((uv_handle_t *)&ask->tick, NULL);
    uv_run(&ask->loop, UV_RUN_DEFAULT);
    ck_assert(ask->client_closed);
    ck_assert_int_eq(uv_loop_close(&ask->loop), 0);
    cf_buf_release(&ask->body);
    curl_global_cleanup();
}

#define HELLO "HTTP/1.1 200 OK\r\nx-test:  some value \r\nContent-Length: 5\r\n\r\nhello"
static const struct fake_answer hello[] = {{"GET /y", HELLO, 0, false, 0},
                                           {"POST /y", HELLO, 0, false, 0},
                                           {"DELETE /y", HELLO, 0, false, 0},
                                           {"PUT /y", NULL, 0, false, 0}};

START_TEST(an_answer_comes_with_head_header_and_body)
{
    struct ask ask;

    begin(&ask, hello, CF_COUNT(hello));
    start(&ask, "GET", false);
    wait_done(&ask);
    ck_assert_int_eq(ask.fault, CF_HTTP_OK);
    ck_assert_int_eq(ask.heads, 1);
    ck_assert_str_eq(ask.header, "some value");
    ck_assert_str_eq(ask.body.data, "hello");
    ck_assert_ptr_null(strcasestr(ask.fake.last_request, "\r\nExpect:"));
    ck_assert_ptr_null(strcasestr(ask.fake.last_request, "\r\nAccept:"));
    end(&ask);
}
END_TEST

START_TEST(a_request_without_a_body_says_so)
{
    struct ask ask;

    begin(&ask, hello, CF_COUNT(hello));
    start(&ask, "POST", false);
    wait_done(&ask);
    ck_assert_ptr_nonnull(strstr(ask.fake.last_request, "\r\nContent-Length: 0\r\n"));
    ck_assert_ptr_null(strcasestr(ask.fake.last_request, "\r\nContent-Type:"));
    end(&ask);
}
END_TEST

START_TEST(no_proxy_is_taken_from_the_environment)
{
    struct ask ask;

    setenv("http_proxy", "http://127.0.0.1:1", 1);
    setenv("ALL_PROXY", "http://127.0.0.1:1", 1);
    begin(&ask, hello, CF_COUNT(hello));
    start(&ask, "GET", false);
    wait_done(&ask);
    ck_assert_int_eq(ask.fault, CF_HTTP_OK);
    end(&ask);
}
END_TEST

START_TEST(a_streamed_body_may_have_to_wait)
{
    struct ask ask;

    begin(&ask, hello, CF_COUNT(hello));
    ask.waits_left = 3;
    ask.source_parts = 2;
    start(&ask, "POST", true);
    while (ask.dones == 0 && uv_run(&ask.loop, UV_RUN_ONCE) != 0)
        cf_http_call_resume(ask.call); /* more often than needed: that is fine */
    ck_assert_int_eq(ask.fault, CF_HTTP_OK);
    ck_assert_ptr_nonnull(
        strstr(ask.fake.last_request, "4\r\npart\r\n4\r\npart\r\n0\r\n\r\n"));
    end(&ask);
}
END_TEST

START_TEST(a_source_that_fails_ends_the_call)
{
    struct ask ask;

    begin(&ask, hello, CF_COUNT(hello));
    ask.source_parts = -1;
    start(&ask, "POST", true);
    wait_done(&ask);
    ck_assert_int_eq(ask.fault, CF_HTTP_ABORTED);
    end(&ask);
}
END_TEST

START_TEST(a_reader_may_pause_and_loses_nothing)
{
    struct ask ask;

    begin(&ask, hello, CF_COUNT(hello));
    ask.pauses_left = 4;
    start(&ask, "GET", false);
    while (ask.dones == 0 && uv_run(&ask.loop, UV_RUN_ONCE) != 0)
        cf_http_call_resume(ask.call);
    ck_assert_int_eq(ask.fault, CF_HTTP_OK);
    ck_assert_str_eq(ask.body.data, "hello");
    end(&ask);
}
END_TEST

START_TEST(a_reader_may_end_the_call)
{
    struct ask ask;

    begin(&ask, hello, CF_COUNT(hello));
    ask.abort_body = true;
    start(&ask, "GET", false);
    wait_done(&ask);
    ck_assert_int_eq(ask.fault, CF_HTTP_ABORTED);
    end(&ask);
}
END_TEST

START_TEST(a_call_may_be_canceled_from_its_own_callbacks)
{
    struct ask ask;

    begin(&ask, hello, CF_COUNT(hello));
    ask.cancel_in_head = true;
    start(&ask, "GET", false);
    wait_done(&ask);
    ck_assert(ask.fault == CF_HTTP_CANCELED ||
              ask.fault == CF_HTTP_OK); /* whichever is first */
    ck_assert_uint_eq(ask.body.len, 0);
    end(&ask);
}
END_TEST

START_TEST(a_canceled_call_ends_later_and_once)
{
    struct ask ask;

    begin(&ask, hello, CF_COUNT(hello));
    start(&ask, "PUT", false);
    cf_http_call_cancel(ask.call);
    cf_http_call_cancel(ask.call);
    ck_assert_int_eq(ask.dones, 0);
    wait_done(&ask);
    ck_assert_int_eq(ask.fault, CF_HTTP_CANCELED);
    end(&ask);
}
END_TEST

START_TEST(closing_the_client_ends_its_calls_first)
{
    struct ask ask;

    begin(&ask, hello, CF_COUNT(hello));
    start(&ask, "PUT", false);
    for (int i = 0; i < 4; i++)
        uv_run(&ask.loop, UV_RUN_ONCE);
    end(&ask);
    ck_assert_int_eq(ask.dones, 1);
    ck_assert_int_eq(ask.fault, CF_HTTP_CANCELED);
}
END_TEST

START_TEST(the_client_may_be_closed_from_inside_done)
{
    struct ask ask;

    begin(&ask, hello, CF_COUNT(hello));
    ask.close_in_done = true;
    start(&ask, "GET", false);
    wait_done(&ask);
    end(&ask);
}
END_TEST

START_TEST(a_question_that_a_dying_connection_swallowed_is_asked_again)
{
    struct ask ask;

    begin(&ask, hello, CF_COUNT(hello));
    ask.fake.deaf_ms = 40;
    start(&ask, "GET", false);
    wait_done(&ask);
    ask.dones = 0;
    start(&ask, "GET", false); /* goes out on the kept connection, which then resets */
    wait_done(&ask);
    ck_assert_int_eq(ask.fault, CF_HTTP_OK);
    ck_assert_int_eq(ask.fake.connections, 2);
    ask.dones = 0;
    start(&ask, "POST", false); /* might have been heard: not asked again */
    wait_done(&ask);
    ck_assert_int_eq(ask.fault, CF_HTTP_LOST);
    end(&ask);
}
END_TEST

START_TEST(many_calls_run_side_by_side)
{
    struct ask ask;
    struct cf_http_call *calls[40];

    begin(&ask, hello, CF_COUNT(hello));
    for (size_t i = 0; i < CF_COUNT(calls); i++)
        start(&ask, i % 2 != 0 ? "GET" : "PUT", false);
    while (ask.dones < 20 && uv_run(&ask.loop, UV_RUN_ONCE) != 0)
        ;
    end(&ask);
    ck_assert_int_eq(ask.dones, 40);
}
END_TEST

/* Refuses the nth block that could hold a poll handle. */
static int polls_until_refused;

static void *
refuse_poll(void *user, void *block, size_t size)
{
    if (size == 0) {
        free(block);
        return NULL;
    }
    if (block == NULL && size >= sizeof(uv_poll_t) && size < sizeof(uv_poll_t) + 64 &&
        --polls_until_refused == 0)
        return NULL;
    return realloc(block, size);
}

START_TEST(what_cannot_be_watched_is_not_begun_and_harms_no_other)
{
    const struct cf_memory memory = {.size = sizeof memory, .resize = refuse_poll};
    struct ask ask;
    struct cf_error err = {0};

    ck_assert_int_eq(cf_library_set_memory(&memory, &err), 0);
    for (int nth = 1; nth <= 6; nth++) {
        int begun = 0;
        begin(&ask, hello, CF_COUNT(hello));
        struct cf_http_request_options options = {
            .method = "GET", .url = "http://x/y", .unix_path = ask.fake.path, .deadline_ms = 3000};
        polls_until_refused = nth;
        for (int i = 0; i < 4; i++)
            if (cf_http_call_start(ask.client, &options, &events, &ask, &ask.call, &err) == 0)
                begun++;
        ck_assert_int_ge(begun, 3);
        while (ask.dones < begun && uv_run(&ask.loop, UV_RUN_ONCE) != 0)
            ;
        ck_assert_int_eq(ask.oks, begun);
        polls_until_refused = 0;
        end(&ask);
    }
}
END_TEST

UNIT_MAIN("loop/http_client", tcase_add_test(tc, an_answer_comes_with_head_header_and_body);
          tcase_add_test(tc, a_request_without_a_body_says_so);
          tcase_add_test(tc, no_proxy_is_taken_from_the_environment);
          tcase_add_test(tc, a_streamed_body_may_have_to_wait);
          tcase_add_test(tc, a_source_that_fails_ends_the_call);
          tcase_add_test(tc, a_reader_may_pause_and_loses_nothing);
          tcase_add_test(tc, a_reader_may_end_the_call);
          tcase_add_test(tc, a_call_may_be_canceled_from_its_own_callbacks);
          tcase_add_test(tc, a_canceled_call_ends_later_and_once);
          tcase_add_test(tc, closing_the_client_ends_its_calls_first);
          tcase_add_test(tc, the_client_may_be_closed_from_inside_done);
          tcase_add_test(tc, a_question_that_a_dying_connection_swallowed_is_asked_again);
          tcase_add_test(tc, many_calls_run_side_by_side);
          tcase_add_test(tc, what_cannot_be_watched_is_not_begun_and_harms_no_other);)
