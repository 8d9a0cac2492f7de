#include "tests/relay/rig.h"

/* A world with a script, and one client in it. */
struct stage {
    struct world world;
    struct client client;
    json_t *script;
};

static void
stage_open(struct stage *stage, const char *script)
{
    struct cf_error err = {0};

    stage->script = cf_json_parse(script, strlen(script), NULL, &err);
    ck_assert_msg(stage->script != NULL, "%s", err.text);
    world_open(&stage->world, &(struct cf_relay_options){.script = stage->script});
    world_keep(&stage->world);
    client_open(&stage->client, &stage->world);
}

static void
stage_close(struct stage *stage)
{
    client_close(&stage->client);
    world_close(&stage->world);
    json_decref(stage->script);
}

static void
run_for(struct stage *stage, unsigned ms)
{
    uint64_t until = uv_hrtime() + ms * 1000000ull;

    while (uv_hrtime() < until) {
        uv_run(&stage->world.loop, UV_RUN_NOWAIT);
        uv_sleep(1);
    }
    client_read(&stage->client);
}

#define CHAT_ASKS(text) \
    "{\"model\":\"m\",\"messages\":[{\"role\":\"user\",\"content\":\"" text "\"}]}"
#define SAID(script) "{\"rules\":[" script "]}"

static void
expect_said(struct stage *stage, const char *body, const char *said)
{
    client_send(&stage->client, "POST", "/v1/chat/completions", KEY, body);
    ck_assert_int_eq(stage->client.status, 200);
    ck_assert_msg(strstr(stage->client.body.data, said) != NULL, "%s lacks %s",
                  stage->client.body.data, said);
}

START_TEST(the_first_rule_that_fits_answers_and_its_times_run_out)
{
    struct stage stage;

    stage_open(&stage,
               SAID("{\"name\":\"weather\",\"when\":{\"user\":\"weather\"},\"times\":2,"
                    "\"say\":[{\"text\":\"rain\"}]},"
                    "{\"when\":{\"model\":\"big-*\"},\"say\":[{\"text\":\"big\"}]},"
                    "{\"when\":{\"user\":\"weather\"},\"say\":[{\"text\":\"enough\"}]}"));
    expect_said(&stage, CHAT_ASKS("the weather?"), "\"rain\"");
    ck_assert_str_eq(last_text(&stage.world, "rule"), "weather");
    expect_said(&stage,
                "{\"model\":\"big-one\",\"messages\":[{\"role\":\"user\",\"content\":\"x\"}]}",
                "\"big\"");
    ck_assert_str_eq(last_text(&stage.world, "rule"), "2");
    expect_said(&stage, CHAT_ASKS("the weather, again?"), "\"rain\"");
    expect_said(&stage, CHAT_ASKS("the weather!"), "\"enough\"");
    expect_said(&stage, CHAT_ASKS("something else"), "\"OK\"");
    ck_assert_ptr_null(cf_json_str(stage.world.last, "rule"));
    stage_close(&stage);
}
END_TEST

START_TEST(conditions_tell_users_words_from_results_and_from_what_was_said_before)
{
    struct stage stage;
    static const char tool_round[] =
        "{\"model\":\"m\",\"tools\":[{\"name\":\"t\"}],\"messages\":["
        "{\"role\":\"user\",\"content\":[{\"type\":\"text\",\"text\":\"first word\"}]},"
        "{\"role\":\"assistant\",\"content\":[{\"type\":\"tool_use\",\"id\":\"1\",\"name\":"
        "\"t\","
        "\"input\":{\"a\":\"inside\"}}]},"
        "{\"role\":\"user\",\"content\":[{\"type\":\"tool_result\",\"tool_use_id\":\"1\","
        "\"content\":[{\"type\":\"text\",\"text\":\"result word\"}]}]}],\"max_tokens\":9}";

    stage_open(
        &stage,
        SAID("{\"when\":{\"user\":\"result\"},\"say\":[{\"text\":\"wrong: user\"}]},"
             "{\"when\":{\"tool_result\":\"first\"},\"say\":[{\"text\":\"wrong: old\"}]},"
             "{\"when\":{\"after\":\"user\",\"has_tools\":true},\"say\":[{\"text\":\"wrong: "
             "after\"}]},"
             "{\"when\":{\"has_tools\":false,\"tool_result\":\"result\"},\"say\":[{\"text\":"
             "\"wrong: tools\"}]},"
             "{\"when\":{\"dialect\":\"openai_chat\",\"tool_result\":\"result\"},\"say\":[{"
             "\"text\":\"chat\"}]},"
             "{\"when\":{\"tool_result\":\"result word\",\"after\":\"tool_result\","
             "\"has_tools\":true,\"anywhere\":\"inside\",\"streamed\":false,\"main\":false,"
             "\"turn\":1},\"say\":[{\"text\":\"right\"}]}"));
    client_send(&stage.client, "POST", "/v1/messages", KEY, tool_round);
    ck_assert_ptr_nonnull(strstr(stage.client.body.data, "\"right\""));
    expect_said(
        &stage,
        "{\"model\":\"m\",\"messages\":[{\"role\":\"tool\",\"tool_call_id\":\"1\",\"content\":"
        "\"a result\"}]}",
        "wrong: tools");
    expect_said(
        &stage,
        "{\"model\":\"m\",\"tools\":[{\"a\":1}],\"messages\":[{\"role\":\"tool\",\"content\":"
        "\"a result\"}]}",
        "\"chat\"");
    client_send(
        &stage.client, "POST", "/v1/responses", KEY,
        "{\"model\":\"m\",\"tools\":[{\"type\":\"x\"}],\"input\":[{\"type\":\"function_call\","
        "\"name\":\"inside\"},{\"type\":\"function_call_output\",\"output\":\"result "
        "word\"}]}");
    ck_assert_ptr_nonnull(strstr(stage.client.body.data, "\"right\""));
    stage_close(&stage);
}
END_TEST

#define TOOL_RULE                                                                             \
    SAID(                                                                                     \
        "{\"say\":[{\"thinking\":\"hm\\u00e9\"},{\"text\":\"I look. \"},{\"tool\":{\"name\":" \
        "\"read\",\"input\":{\"path\":\"{answer}\",\"n\":[1]}}}],\"usage\":{\"input_"         \
        "tokens\":7,"                                                                         \
        "\"output_tokens\":8}}")

START_TEST(a_tool_call_is_told_whole_in_each_dialect)
{
    struct stage stage;
    json_t *body;

    stage_open(&stage, TOOL_RULE);
    client_send(&stage.client, "POST", "/v1/messages", KEY,
                "{\"model\":\"m\",\"messages\":[],\"max_tokens\":1}");
    body = client_json(&stage.client);
    ck_assert_str_eq(cf_json_str(body, "stop_reason"), "tool_use");
    ck_assert_uint_eq(json_array_size(json_object_get(body, "content")), 3);
    json_t *tool = json_array_get(json_object_get(body, "content"), 2);
    ck_assert_str_eq(cf_json_str(cf_json_obj(tool, "input"), "path"), ANSWER);
    ck_assert_int_eq(cf_json_int(cf_json_obj(body, "usage"), "input_tokens", 0), 7);
    json_decref(body);

    client_send(&stage.client, "POST", "/v1/chat/completions", KEY, CHAT_ASKS("x"));
    body = client_json(&stage.client);
    json_t *choice = json_array_get(json_object_get(body, "choices"), 0);
    ck_assert_str_eq(cf_json_str(choice, "finish_reason"), "tool_calls");
    json_t *call =
        json_array_get(json_object_get(cf_json_obj(choice, "message"), "tool_calls"), 0);
    ck_assert_str_eq(cf_json_str(cf_json_obj(call, "function"), "arguments"),
                     "{\"path\":\"" ANSWER "\",\"n\":[1]}");
    ck_assert_str_eq(cf_json_str(cf_json_obj(choice, "message"), "reasoning_content"),
                     "hm\xc3\xa9");
    json_decref(body);

    client_send(&stage.client, "POST", "/v1/responses", KEY,
                "{\"model\":\"m\",\"input\":\"x\"}");
    body = client_json(&stage.client);
    json_t *output = json_object_get(body, "output");
    ck_assert_uint_eq(json_array_size(output), 3);
    ck_assert_str_eq(cf_json_str(json_array_get(output, 0), "type"), "reasoning");
    ck_assert_str_eq(cf_json_str(json_array_get(output, 2), "type"), "function_call");
    ck_assert_ptr_nonnull(cf_json_str(json_array_get(output, 2), "call_id"));
    json_decref(body);
    stage_close(&stage);
}
END_TEST

static unsigned
count(const char *text, const char *word)
{
    unsigned n = 0;

    for (; (text = strstr(text, word)) != NULL; text += strlen(word))
        n++;
    return n;
}

START_TEST(a_tool_call_is_streamed_in_fragments_in_each_dialect)
{
    struct stage stage;

    stage_open(&stage, TOOL_RULE);
    client_send(&stage.client, "POST", "/v1/messages", KEY,
                "{\"model\":\"m\",\"messages\":[],\"max_tokens\":1,\"stream\":true}");
    ck_assert_uint_eq(count(stage.client.body.data, "event: content_block_start\n"), 3);
    ck_assert_uint_eq(count(stage.client.body.data, "\"signature_delta\""), 1);
    ck_assert_uint_ge(count(stage.client.body.data, "\"input_json_delta\""), 3);
    ck_assert_uint_eq(count(stage.client.body.data, "\"stop_reason\":\"tool_use\""), 1);

    client_send(&stage.client, "POST", "/v1/chat/completions", KEY,
                "{\"model\":\"m\",\"messages\":[],\"stream\":true}");
    ck_assert_uint_eq(count(stage.client.body.data, "\"id\":\"call_"), 1);
    ck_assert_uint_ge(count(stage.client.body.data, "\"arguments\":"), 3);
    ck_assert_uint_eq(count(stage.client.body.data, "\"finish_reason\":\"tool_calls\""), 1);
    ck_assert_uint_ge(count(stage.client.body.data, "\"reasoning_content\""), 1);

    client_send(&stage.client, "POST", "/v1/responses", KEY,
                "{\"model\":\"m\",\"input\":\"x\",\"stream\":true}");
    ck_assert_uint_eq(count(stage.client.body.data, "event: response.output_item.done\n"), 3);
    ck_assert_uint_ge(
        count(stage.client.body.data, "event: response.function_call_arguments.delta\n"), 2);
    ck_assert_uint_ge(
        count(stage.client.body.data, "event: response.reasoning_summary_text.delta\n"), 1);
    ck_assert_uint_eq(count(stage.client.body.data, "event: response.completed\n"), 1);
    stage_close(&stage);
}
END_TEST

START_TEST(an_answer_that_ends_early_says_why_in_each_dialect)
{
    struct stage stage;

    stage_open(&stage, SAID("{\"when\":{\"user\":\"long\"},\"say\":[{\"text\":\"a\"}],"
                            "\"stop\":\"max_tokens\"},"
                            "{\"say\":[{\"text\":\"b\"}],\"stop\":\"refusal\"}"));
    expect_said(&stage, CHAT_ASKS("long"), "\"finish_reason\":\"length\"");
    expect_said(&stage, CHAT_ASKS("x"), "\"finish_reason\":\"content_filter\"");
    client_send(&stage.client, "POST", "/v1/responses", KEY,
                "{\"model\":\"m\",\"input\":\"long\"}");
    ck_assert_ptr_nonnull(strstr(stage.client.body.data, "\"reason\":\"max_output_tokens\""));
    client_send(&stage.client, "POST", "/v1/responses", KEY,
                "{\"model\":\"m\",\"input\":\"x\",\"stream\":true}");
    ck_assert_uint_eq(count(stage.client.body.data, "event: response.incomplete\n"), 1);
    client_send(&stage.client, "POST", "/v1/messages", KEY,
                "{\"model\":\"m\",\"messages\":[],\"max_tokens\":1}");
    ck_assert_ptr_nonnull(strstr(stage.client.body.data, "\"stop_reason\":\"refusal\""));
    stage_close(&stage);
}
END_TEST

START_TEST(errors_have_their_status_their_headers_and_the_dialects_body)
{
    struct stage stage;

    stage_open(&stage, SAID("{\"times\":1,\"error\":{\"status\":429,\"message\":\"slow down\","
                            "\"retry_after\":3,\"should_retry\":true}},"
                            "{\"error\":{\"status\":529}}"));
    client_send(&stage.client, "POST", "/v1/messages", KEY,
                "{\"model\":\"m\",\"messages\":[],\"max_tokens\":1}");
    ck_assert_int_eq(stage.client.status, 429);
    ck_assert_ptr_nonnull(strstr(stage.client.head.data, "retry-after: 3"));
    ck_assert_ptr_nonnull(strstr(stage.client.head.data, "x-should-retry: true"));
    ck_assert_ptr_nonnull(strstr(stage.client.body.data, "\"rate_limit_error\""));
    ck_assert_ptr_nonnull(strstr(stage.client.body.data, "slow down"));
    ck_assert_ptr_null(
        cf_json_str(stage.world.last, "refused")); /* the model's word, not ours */
    client_send(&stage.client, "POST", "/v1/messages", KEY,
                "{\"model\":\"m\",\"messages\":[],\"max_tokens\":1}");
    ck_assert_int_eq(stage.client.status, 529);
    ck_assert_ptr_nonnull(strstr(stage.client.body.data, "\"overloaded_error\""));
    stage_close(&stage);
}
END_TEST

#define STREAM_ASKS(text)                                                                   \
    "{\"model\":\"m\",\"stream\":true,\"messages\":[{\"role\":\"user\",\"content\":\"" text \
    "\"}]}"

START_TEST(streams_break_in_every_way_a_stream_can)
{
    struct stage stage;

    stage_open(
        &stage,
        SAID("{\"when\":{\"user\":\"event\"},\"say\":[{\"text\":\"abc\"}],\"break\":{\"how\":"
             "\"error\",\"after_events\":2,\"message\":\"broke\"}},"
             "{\"when\":{\"user\":\"end\"},\"say\":[{\"text\":\"abc\"}],\"break\":{\"how\":"
             "\"end\",\"after_events\":1}},"
             "{\"when\":{\"user\":\"stall\"},\"say\":[{\"text\":\"abc\"}],\"break\":{\"how\":"
             "\"stall\",\"after_bytes\":10}},"
             "{\"when\":{\"user\":\"reset\"},\"say\":[{\"text\":\"abc\"}],\"break\":{\"how\":"
             "\"reset\",\"after_bytes\":10}}"));
    client_send(&stage.client, "POST", "/v1/chat/completions", KEY, STREAM_ASKS("event"));
    ck_assert_uint_eq(count(stage.client.body.data, "chat.completion.chunk"), 2);
    ck_assert_ptr_nonnull(
        strstr(stage.client.body.data, "data: {\"error\":{\"message\":\"broke\""));
    client_send(&stage.client, "POST", "/v1/chat/completions", KEY, CHAT_ASKS("event"));
    ck_assert_int_eq(stage.client.status, 500);
    client_send(&stage.client, "POST", "/v1/chat/completions", KEY, STREAM_ASKS("end"));
    ck_assert(stage.client.is_whole);
    ck_assert_uint_eq(count(stage.client.body.data, "data: "), 1);
    ck_assert_ptr_null(strstr(stage.client.body.data, "[DONE]"));
    client_send(
        &stage.client, "POST", "/v1/messages", KEY,
        "{\"model\":\"m\",\"stream\":true,\"max_tokens\":1,\"messages\":[{\"role\":\"user\","
        "\"content\":\"event\"}]}");
    ck_assert_uint_eq(count(stage.client.body.data, "event: error\n"), 1);
    client_send(&stage.client, "POST", "/v1/responses", KEY,
                "{\"model\":\"m\",\"stream\":true,\"input\":\"event\"}");
    ck_assert_ptr_nonnull(strstr(stage.client.body.data, "\"sequence_number\":2,\"code\""));

    client_send(&stage.client, "POST", "/v1/chat/completions", KEY, STREAM_ASKS("stall"));
    ck_assert(!stage.client.is_whole);
    ck_assert_uint_eq(stage.client.body.len, 10);
    ck_assert_uint_eq(cf_relay_calls_in_flight(stage.world.relay), 1);
    uint64_t call = 0, before = cf_relay_silence(stage.world.relay, &call);
    (void)usleep(5000);
    ck_assert_uint_gt(cf_relay_silence(stage.world.relay, &call), before);
    ck_assert_uint_eq(call, stage.world.rows + 1);
    client_close(&stage.client);
    ck_assert_uint_eq(cf_relay_silence(stage.world.relay, &call), 0);
    ck_assert_str_eq(last_text(&stage.world, "fault"), "script");
    ck_assert_str_eq(last_text(&stage.world, "usage"), "partial");
    ck_assert_uint_eq(cf_relay_calls_in_flight(stage.world.relay), 0);
    client_open(&stage.client, &stage.world);
    client_send(&stage.client, "POST", "/v1/chat/completions", KEY, STREAM_ASKS("reset"));
    ck_assert(stage.client.is_reset);
    ck_assert_uint_eq(stage.client.body.len, 10);
    ck_assert_str_eq(last_text(&stage.world, "fault"), "script");
    stage_close(&stage);
}
END_TEST

START_TEST(a_client_that_leaves_has_usage_in_part_and_is_no_fault)
{
    struct stage stage;

    stage_open(&stage, SAID("{\"say\":[{\"text\":\"abcdefgh\"}],\"chunk_bytes\":1,\"gap_ms\":10000}"));
    client_send(&stage.client, "POST", "/v1/chat/completions", KEY, STREAM_ASKS("x"));
    client_close(&stage.client);
    ck_assert_str_eq(last_text(&stage.world, "usage"), "partial");
    ck_assert_ptr_null(cf_json_str(stage.world.last, "fault"));
    stage_close(&stage);
}
END_TEST

START_TEST(delays_gaps_and_small_writes_take_their_time)
{
    struct stage stage;
    uint64_t began;

    stage_open(&stage, SAID("{\"say\":[{\"text\":\"abcdefgh\"}],\"delay_ms\":60,\"gap_ms\":15,"
                            "\"chunk_bytes\":4}"));
    began = uv_hrtime();
    client_send(&stage.client, "POST", "/v1/chat/completions", KEY, STREAM_ASKS("x"));
    ck_assert_int_eq(stage.client.status, 0);
    while (cf_relay_calls_in_flight(stage.world.relay) > 0)
        uv_run(&stage.world.loop, UV_RUN_NOWAIT);
    client_read(&stage.client);
    ck_assert(stage.client.is_whole);
    ck_assert_uint_eq(count(stage.client.body.data, "\"content\":\"abcd\""), 1);
    ck_assert_uint_eq(count(stage.client.body.data, "\"content\":\"efgh\""), 1);
    /* a delay and four gaps; each timer counts whole milliseconds and may come up to one early */
    ck_assert_uint_ge((uv_hrtime() - began) / 1000000, 60 + 4 * 15 - 5);
    stage_close(&stage);

    stage_open(&stage, SAID("{\"say\":[{\"text\":\"\\u00e9\\u00e9\"}],\"write_bytes\":1}"));
    client_send(&stage.client, "POST", "/v1/chat/completions", KEY, STREAM_ASKS("x"));
    ck_assert(stage.client.is_whole);
    ck_assert_ptr_nonnull(strstr(stage.client.body.data, "\xc3\xa9\xc3\xa9"));
    stage_close(&stage);
}
END_TEST

START_TEST(a_step_that_its_client_did_not_get_is_met_again)
{
    struct stage stage;

    stage_open(
        &stage,
        SAID("{\"name\":\"one\",\"times\":1,\"say\":[{\"text\":\"first\"}],\"delay_ms\":50},"
             "{\"name\":\"two\",\"say\":[{\"text\":\"second\"}]}"));
    client_send(&stage.client, "POST", "/v1/chat/completions", KEY, CHAT_ASKS("x"));
    client_close(&stage.client); /* gave up before its answer */
    ck_assert_str_eq(last_text(&stage.world, "rule"), "one");
    client_open(&stage.client, &stage.world);
    client_send(&stage.client, "POST", "/v1/chat/completions", KEY, CHAT_ASKS("x"));
    run_for(&stage, 80);
    ck_assert_ptr_nonnull(strstr(stage.client.body.data, "first"));
    expect_said(&stage, CHAT_ASKS("x"), "second");
    stage_close(&stage);
}
END_TEST

START_TEST(what_no_rule_fits_is_refused_when_the_script_says_so)
{
    struct stage stage;

    stage_open(
        &stage,
        "{\"otherwise\":\"refuse\",\"rules\":[{\"times\":1,\"say\":[{\"text\":\"x\"}]}]}");
    expect_said(&stage, CHAT_ASKS("x"), "\"x\"");
    client_send(&stage.client, "POST", "/v1/chat/completions", KEY, CHAT_ASKS("x"));
    ck_assert_int_eq(stage.client.status, 400);
    ck_assert_ptr_nonnull(strstr(stage.client.head.data, "x-should-retry: false"));
    ck_assert_ptr_nonnull(strstr(stage.client.body.data, "no rule of the model script fits"));
    stage_close(&stage);
}
END_TEST

START_TEST(a_scripted_job_of_fal_takes_its_time_and_says_its_text)
{
    struct stage stage;
    char url[200];

    stage_open(
        &stage,
        SAID("{\"when\":{\"user\":\"never\"},\"say\":[],\"break\":{\"how\":\"stall\"}},"
             "{\"when\":{\"user\":\"fail\"},\"error\":{\"status\":422,\"message\":\"no\"}},"
             "{\"say\":[{\"text\":\"a \"},{\"text\":\"{answer}\"}],\"delay_ms\":40}"));
    client_send(&stage.client, "POST", "/a/b", KEY, "{\"prompt\":\"fail\"}");
    ck_assert_int_eq(stage.client.status, 422);
    ck_assert_str_eq(stage.client.body.data, "{\"detail\":\"no\"}");
    client_send(&stage.client, "POST", "/a/b", KEY, "{\"prompt\":\"x\"}");
    json_t *job = client_json(&stage.client);
    snprintf(url, sizeof url, "/a/b/requests/%s", cf_json_str(job, "request_id"));
    json_decref(job);
    client_send(&stage.client, "GET", url, KEY, NULL);
    ck_assert_int_eq(stage.client.status, 400);
    strcat(url, "/status");
    client_send(&stage.client, "GET", url, KEY, NULL);
    client_send(&stage.client, "GET", url, KEY, NULL);
    ck_assert_ptr_nonnull(strstr(stage.client.body.data, "IN_PROGRESS"));
    run_for(&stage, 50);
    client_send(&stage.client, "GET", url, KEY, NULL);
    ck_assert_ptr_nonnull(strstr(stage.client.body.data, "COMPLETED"));
    *strrchr(url, '/') = '\0';
    client_send(&stage.client, "GET", url, KEY, NULL);
    ck_assert_ptr_nonnull(strstr(stage.client.body.data, "\"output\":\"a " ANSWER "\""));
    stage_close(&stage);
}
END_TEST

START_TEST(scripts_that_say_something_else_are_refused_and_told_where)
{
    static const struct {
        const char *script, *why;
    } wrong[] = {
        {"{}", "rules is not an array"},
        {"{\"rules\":[],\"x\":1}", "no member x"},
        {"{\"rules\":[],\"otherwise\":\"x\"}", "otherwise"},
        {SAID("{\"say\":[]},{\"sayy\":[]}"), "rules[1]: the rule has no member sayy"},
        {SAID("{}"), "either say or error"},
        {SAID("{\"say\":[],\"error\":{\"status\":500}}"), "either say or error"},
        {SAID("{\"say\":[{\"txt\":\"\"}]}"), "a part is one of"},
        {SAID("{\"say\":[{\"tool\":{\"name\":\"x\"}}]}"), "say.tool"},
        {SAID("{\"say\":[],\"when\":{\"user\":\"\"}}"), "when.user"},
        {SAID("{\"say\":[],\"when\":{\"dialect\":\"x\"}}"), "no dialect x"},
        {SAID("{\"say\":[],\"when\":{\"after\":\"x\"}}"), "when.after"},
        {SAID("{\"say\":[],\"when\":{\"turn\":-1}}"), "when.turn"},
        {SAID("{\"error\":{\"status\":200}}"), "error.status"},
        {SAID("{\"say\":[],\"break\":{\"how\":\"x\"}}"), "break.how"},
        {SAID("{\"say\":[],\"break\":{\"how\":\"end\",\"after_bytes\":1,\"after_events\":1}}"),
         "not both"},
        {SAID("{\"say\":[],\"stop\":\"x\"}"), "stop"},
        {SAID("{\"say\":[],\"delay_ms\":1.5}"), "delay_ms"},
        {"[]", "not a JSON object"},
    };

    for (size_t i = 0; i < CF_COUNT(wrong); i++) {
        json_t *script = cf_json_parse(wrong[i].script, strlen(wrong[i].script), NULL, NULL);
        struct cf_relay_options options = {.script = script};
        struct cf_relay *relay;
        struct cf_error err = {0};
        uv_loop_t loop;

        ck_assert_ptr_nonnull(script);
        uv_loop_init(&loop);
        ck_assert_int_eq(cf_relay_open(&loop, &options, &relay, &err), -1);
        ck_assert_int_eq(err.kind, CF_ERROR_CONFIG);
        ck_assert_msg(strstr(err.text, wrong[i].why) != NULL, "%s: %s", wrong[i].script,
                      err.text);
        ck_assert_int_eq(uv_loop_close(&loop), 0);
        json_decref(script);
    }
}
END_TEST

UNIT_MAIN(
    "relay/script", tcase_add_test(tc, the_first_rule_that_fits_answers_and_its_times_run_out);
    tcase_add_test(tc, conditions_tell_users_words_from_results_and_from_what_was_said_before);
    tcase_add_test(tc, a_tool_call_is_told_whole_in_each_dialect);
    tcase_add_test(tc, a_tool_call_is_streamed_in_fragments_in_each_dialect);
    tcase_add_test(tc, an_answer_that_ends_early_says_why_in_each_dialect);
    tcase_add_test(tc, errors_have_their_status_their_headers_and_the_dialects_body);
    tcase_add_test(tc, streams_break_in_every_way_a_stream_can);
    tcase_add_test(tc, a_client_that_leaves_has_usage_in_part_and_is_no_fault);
          tcase_add_test(tc, delays_gaps_and_small_writes_take_their_time);
    tcase_add_test(tc, a_step_that_its_client_did_not_get_is_met_again);
    tcase_add_test(tc, what_no_rule_fits_is_refused_when_the_script_says_so);
    tcase_add_test(tc, a_scripted_job_of_fal_takes_its_time_and_says_its_text);
    tcase_add_test(tc, scripts_that_say_something_else_are_refused_and_told_where);)
