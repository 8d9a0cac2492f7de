#include "tests/relay/rig.h"

#include "relay/usage.h"

#define ASKS(model) \
    "{\"model\":\"" model "\",\"messages\":[{\"role\":\"user\",\"content\":\"x\"}]}"

static json_t *
parsed(const char *text)
{
    json_t *value = cf_json_parse(text, strlen(text), NULL, NULL);

    ck_assert_ptr_nonnull(value);
    return value;
}

static void
expect_status(struct client *client, const char *body, int status, const char *said)
{
    client_send(client, "POST", "/v1/chat/completions", KEY, body);
    ck_assert_msg(client->status == status, "%d: %s", client->status, client->body.data);
    ck_assert_msg(strstr(client->body.data, said) != NULL, "%s lacks %s", client->body.data,
                  said);
}

static void
expect_cap(const struct cf_relay_options *options, unsigned served, const char *said)
{
    struct world world;
    struct client client;

    world_open(&world, options);
    client_open(&client, &world);
    for (unsigned i = 0; i < served; i++)
        expect_status(&client, ASKS("m"), 200, "OK");
    expect_status(&client, ASKS("m"), 400, said);
    ck_assert_str_eq(last_text(&world, "refused"), "cap");
    ck_assert_ptr_nonnull(strstr(client.head.data, "x-should-retry: false"));
    ck_assert_ptr_nonnull(strstr(last_text(&world, "hint"), said));
    client_close(&client);
    world_close(&world);
}

START_TEST(each_cap_ends_the_calls_and_says_which_it_was)
{
    json_t *usage = parsed("{\"rules\":[{\"say\":[{\"text\":\"OK\"}],\"usage\":{"
                           "\"input_tokens\":1000,\"output_tokens\":500}}]}");
    struct cf_relay_options options = {.caps = {.calls = 3}};

    expect_cap(&options, 3, "3 model calls is spent");
    options.caps = (struct cf_relay_caps){.request_bytes = 150};
    expect_cap(&options, 2, "150 request bytes is spent");
    options.caps = (struct cf_relay_caps){.response_bytes = 300};
    expect_cap(&options, 2, "300 answer bytes is spent");
    options.script = usage;
    options.caps = (struct cf_relay_caps){.input_tokens = 2500};
    expect_cap(&options, 3, "2500 input tokens is spent");
    options.caps = (struct cf_relay_caps){.output_tokens = 501};
    expect_cap(&options, 2, "501 output tokens is spent");
    json_decref(usage);
}
END_TEST

START_TEST(the_turns_cap_is_the_turns_alone)
{
    const struct cf_relay_options options = {.caps = {.calls_per_turn = 1}};
    struct cf_relay_turn turn = {.turn = 2};
    struct world world;
    struct client client;

    world_open(&world, &options);
    client_open(&client, &world);
    expect_status(&client, ASKS("m"), 200, "OK");
    expect_status(&client, ASKS("m"), 400, "this turn gets no more");
    cf_relay_turn_begin(world.relay, &turn);
    expect_status(&client, ASKS("m"), 200, "OK");
    client_close(&client);
    world_close(&world);
}
END_TEST

START_TEST(the_leases_time_runs_out)
{
    const struct cf_relay_options options = {.caps = {.wall_ms = 30}};
    struct world world;
    struct client client;

    world_open(&world, &options);
    client_open(&client, &world);
    expect_status(&client, ASKS("m"), 200, "OK");
    uv_sleep(40);
    expect_status(&client, ASKS("m"), 400, "30 milliseconds is spent");
    client_close(&client);
    world_close(&world);
}
END_TEST

START_TEST(too_many_at_once_is_refused_for_now_only)
{
    json_t *script = parsed("{\"rules\":[{\"say\":[{\"text\":\"OK\"}],\"delay_ms\":30}]}");
    const struct cf_relay_options options = {.caps = {.calls_at_once = 1}, .script = script};
    struct world world;
    struct client first, second;

    world_open(&world, &options);
    world_keep(&world);
    client_open(&first, &world);
    client_open(&second, &world);
    client_send(&first, "POST", "/v1/chat/completions", KEY, ASKS("m"));
    expect_status(&second, ASKS("m"), 429, "1 model calls at once");
    ck_assert_ptr_nonnull(strstr(second.head.data, "retry-after: 1"));
    while (world.rows < 2)
        uv_run(&world.loop, UV_RUN_ONCE);
    client_send(&second, "POST", "/v1/chat/completions", KEY, ASKS("m"));
    while (world.rows < 3)
        uv_run(&world.loop, UV_RUN_ONCE);
    client_read(&second);
    ck_assert_int_eq(second.status, 200);
    client_close(&first);
    client_close(&second);
    world_close(&world);
    json_decref(script);
}
END_TEST

START_TEST(only_listed_models_are_served)
{
    json_t *models = json_pack("[s, s]", "small", "big-*");
    const struct cf_relay_options options = {.models = models};
    struct world world;
    struct client client;

    world_open(&world, &options);
    client_open(&client, &world);
    expect_status(&client, ASKS("small"), 200, "OK");
    expect_status(&client, ASKS("big-2"), 200, "OK");
    expect_status(&client, ASKS("smaller"), 400, "not among those this run allows");
    ck_assert_str_eq(last_text(&world, "refused"), "model");
    client_send(&client, "POST", "/a/b", KEY, "{}");
    ck_assert_int_eq(client.status, 400);
    client_close(&client);
    world_close(&world);
    json_decref(models);
}
END_TEST

START_TEST(cost_is_counted_from_the_price_table_and_capped)
{
    json_t *script = json_pack("{s:[{s:[{s:s}], s:{s:i, s:i}}]}", "rules", "say", "text", "OK",
                               "usage", "input_tokens", 1000000, "output_tokens", 100000);
    json_t *prices =
        json_pack("{s:s, s:{s:{s:f, s:i, s:f}, s:{s:i}}}", "currency", "EUR", "models", "m*",
                  "input", 1.5, "output", 20, "call", 0.25, "free", "input", 0);
    struct cf_relay_options options = {
        .caps = {.cost = 7}, .script = script, .prices = prices};
    struct world world;
    struct client client;
    json_t *totals;

    ck_assert(script != NULL && prices != NULL);
    world_open(&world, &options);
    client_open(&client, &world);
    expect_status(&client, ASKS("m1"), 200, "OK");
    ck_assert_double_eq_tol(json_real_value(json_object_get(world.last, "cost")),
                            1.5 + 2 + .25, 1e-9);
    expect_status(&client, ASKS("unknown"), 400, "the price table lacks unknown");
    expect_status(&client, ASKS("free"), 200, "OK");
    expect_status(&client, ASKS("m2"), 200, "OK");
    expect_status(&client, ASKS("m2"), 400, "budget of 7 (EUR) is spent");
    totals = cf_relay_totals(world.relay);
    ck_assert_double_eq_tol(json_real_value(json_object_get(totals, "cost")), 7.5, 1e-9);
    json_decref(totals);
    client_close(&client);
    world_close(&world);
    json_decref(script);
    json_decref(prices);
}
END_TEST

START_TEST(tables_and_lists_of_the_wrong_form_are_refused)
{
    static const struct {
        const char *models, *prices, *why;
        double cost;
    } wrong[] = {
        {"{}", NULL, "not an array", 0},
        {"[1]", NULL, "not a list of names", 0},
        {NULL, "{}", "not {\"currency\"", 0},
        {NULL, "{\"models\":{\"m\":1}}", "m: not an object", 0},
        {NULL, "{\"models\":{\"m\":{\"inputt\":1}}}", "m: an unknown member", 0},
        {NULL, "{\"models\":{\"m\":{\"input\":-1}}}", "not a number from 0", 0},
        {NULL, "{\"models\":{},\"x\":1}", "not {\"currency\"", 0},
        {NULL, NULL, "no price table", 1},
    };

    for (size_t i = 0; i < CF_COUNT(wrong); i++) {
        const char *m = wrong[i].models, *p = wrong[i].prices;
        struct cf_relay_options options = {.models = m != NULL ? parsed(m) : NULL,
                                           .prices = p != NULL ? parsed(p) : NULL,
                                           .caps = {.cost = wrong[i].cost}};
        struct cf_relay *relay;
        struct cf_error err = {0};
        uv_loop_t loop;

        uv_loop_init(&loop);
        ck_assert_int_eq(cf_relay_open(&loop, &options, &relay, &err), -1);
        ck_assert_msg(strstr(err.text, wrong[i].why) != NULL, "%s", err.text);
        uv_loop_close(&loop);
        json_decref(options.models);
        json_decref(options.prices);
    }
}
END_TEST

/* ---- connections that wait ----------------------------------------------------------------
 */

static void
feed(struct client *client, const char *text)
{
    cf_http_conn_feed(client->conn, text, strlen(text));
}

START_TEST(half_a_head_half_a_body_and_silence_end_each_in_its_way)
{
    const struct cf_relay_options options = {.times = {.head = 200, .body = 200, .idle = 200}};
    struct world world;
    struct client head, body, idle;
    uint64_t until = uv_hrtime() + 2600000000ull;

    world_open(&world, &options);
    world_keep(&world);
    client_open(&head, &world);
    client_open(&body, &world);
    client_open(&idle, &world);
    feed(&head, "POST /v1/mess");
    feed(&body, "POST /v1/messages HTTP/1.1\r\n" KEY "Content-Length: 100\r\n\r\n{\"model\":");
    while (uv_hrtime() < until)
        uv_run(&world.loop, UV_RUN_ONCE);
    client_read(&head);
    ck_assert_int_eq(head.status, 408);
    ck_assert(head.is_shut);
    client_read(&body);
    ck_assert_int_eq(body.status, 408);
    ck_assert_ptr_nonnull(strstr(body.body.data, "did not come in time"));
    ck_assert(body.is_shut);
    ck_assert(idle.is_shut);
    ck_assert_ptr_null(idle.raw.data);
    ck_assert_uint_eq(world.rows, 2);
    client_close(&head);
    client_close(&body);
    client_close(&idle);
    world_close(&world);
}
END_TEST

START_TEST(a_reader_that_never_reads_is_cut_and_one_that_reads_slowly_is_not)
{
    const struct cf_relay_options options = {.times = {.reader = 1500}};
    struct world world;
    struct client slow, never;
    uint64_t until = uv_hrtime() + 3500000000ull;

    world_open(&world, &options);
    world_keep(&world);
    client_open(&slow, &world);
    client_open(&never, &world);
    slow.room = never.room = 10;
    client_send(&slow, "POST", "/v1/chat/completions", KEY, ASKS("m"));
    client_send(&never, "POST", "/v1/chat/completions", KEY, ASKS("m"));
    while (uv_hrtime() < until) {
        uv_run(&world.loop, UV_RUN_ONCE);
        slow.room = 1;
        if (world.rows == 0 || !slow.is_whole)
            cf_http_conn_writable(slow.conn);
        uv_sleep(50);
    }
    ck_assert(never.is_reset);
    ck_assert(!slow.is_reset);
    client_close(&slow);
    client_close(&never);
    world_close(&world);
}
END_TEST

START_TEST(a_client_that_takes_the_relay_for_a_proxy_is_told)
{
    struct world world;
    struct client client;

    world_open(&world, &(struct cf_relay_options){0});
    client_open(&client, &world);
    client_send(&client, "POST", "http://api.example.com/v1/messages", KEY, "{}");
    ck_assert_int_eq(client.status, 403);
    ck_assert_str_eq(last_text(&world, "refused"), "proxy");
    client_send(&client, "CONNECT", "api.example.com:443", "", NULL);
    ck_assert_int_eq(client.status, 403);
    ck_assert_ptr_nonnull(strstr(client.body.data, "no proxy"));
    client_send(&client, "POST", "http://127.0.0.1:4180/v1/chat/completions", KEY, ASKS("m"));
    ck_assert_int_eq(client.status, 200);
    client_close(&client);
    world_close(&world);
}
END_TEST

/* ---- what an answer says of its cost
 * -------------------------------------------------------- */

static struct cf_usage
usage_of(const char *text, bool is_events, size_t cut)
{
    struct cf_usage_reader reader;

    cf_usage_init(&reader, is_events);
    cf_usage_feed(&reader, text, cut);
    cf_usage_feed(&reader, text + cut, strlen(text) - cut);
    return reader.usage;
}

START_TEST(usage_is_read_whatever_the_cut_and_the_line_ends)
{
    static const struct {
        const char *text;
        bool is_events, is_final;
        uint64_t in, out, read, write;
        const char *model;
    } answers[] = {
        {"{\"model\":\"a\",\"usage\":{\"input_tokens\":3,\"output_tokens\":4,\"cache_creation_"
         "input_tokens\":5}}",
         false, true, 3, 4, 0, 5, "a"},
        {"{\"choices\":[{\"usage\":{\"prompt_tokens\":9}}],\"usage\":{\"prompt_tokens\":3,"
         "\"completion_tokens\":4,"
         "\"completion_tokens_details\":{\"reasoning_tokens\":8},\"prompt_tokens_details\":{"
         "\"cached_tokens\":2}}}",
         false, true, 3, 4, 2, 0, ""},
        {"event: message_start\r\ndata: "
         "{\"type\":\"message_start\",\"message\":{\"model\":\"b\\u00e9\",\"usage\":"
         "{\"input_tokens\":3,\"output_tokens\":1}}}\r\n\r\n: note\r\n\r\nevent: "
         "message_delta\r\ndata: {\"usage\":"
         "{\"output_tokens\":40}}\r\n\r\n",
         true, true, 3, 40, 0, 0, "b\xc3\xa9"},
        {"data: "
         "{\"type\":\"message_start\",\"message\":{\"usage\":{\"input_tokens\":3,\"output_"
         "tokens\":1}}}\n\n",
         true, false, 3, 1, 0, 0, ""},
        {"data: broken {\n\nid: 1\ndata: {\"response\":{\"model\":\"c\",\"usage\":\ndata: "
         "{\"input_tokens\":7,"
         "\"output_tokens\":8}}}\n\ndata: [DONE]\n\n",
         true, true, 7, 8, 0, 0, "c"},
        {"data: {\"a\":1}\r\rdata: "
         "{\"usage\":{\"prompt_tokens\":1,\"completion_tokens\":2}}\r\r",
         true, true, 1, 2, 0, 0, ""},
        {"<html>", false, false, 0, 0, 0, 0, ""},
        {"{\"usage\":{\"input_tokens\":-1,\"output_tokens\":1e3}}", false, false, 0, 0, 0, 0,
         ""},
    };

    for (size_t i = 0; i < CF_COUNT(answers); i++)
        for (size_t cut = 0; cut <= strlen(answers[i].text); cut++) {
            struct cf_usage usage = usage_of(answers[i].text, answers[i].is_events, cut);
            ck_assert_uint_eq(usage.input, answers[i].in);
            ck_assert_uint_eq(usage.output, answers[i].out);
            ck_assert_uint_eq(usage.cache_read, answers[i].read);
            ck_assert_uint_eq(usage.cache_write, answers[i].write);
            ck_assert(usage.is_final == answers[i].is_final);
            ck_assert_str_eq(usage.model, answers[i].model);
        }
}
END_TEST

UNIT_MAIN("relay/govern", tcase_add_test(tc, each_cap_ends_the_calls_and_says_which_it_was);
          tcase_add_test(tc, the_turns_cap_is_the_turns_alone);
          tcase_add_test(tc, the_leases_time_runs_out);
          tcase_add_test(tc, too_many_at_once_is_refused_for_now_only);
          tcase_add_test(tc, only_listed_models_are_served);
          tcase_add_test(tc, cost_is_counted_from_the_price_table_and_capped);
          tcase_add_test(tc, tables_and_lists_of_the_wrong_form_are_refused);
          tcase_add_test(tc, half_a_head_half_a_body_and_silence_end_each_in_its_way);
          tcase_add_test(tc,
                         a_reader_that_never_reads_is_cut_and_one_that_reads_slowly_is_not);
          tcase_add_test(tc, a_client_that_takes_the_relay_for_a_proxy_is_told);
          tcase_add_test(tc, usage_is_read_whatever_the_cut_and_the_line_ends);)
