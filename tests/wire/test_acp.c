#include "tests/wire/acp_rig.h"

START_TEST(a_turn_from_initialize_to_end_turn)
{
    struct rig rig;
    struct cf_error err = {0};

    rig_open(&rig, (struct cf_acp_options){.client_name = "t", .client_version = "9"});
    ok(cf_acp_initialize(rig.acp, NULL, &err), &err);
    expect_sent(&rig, "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"initialize\",\"params\":{\"protocolVersion\":1,"
                      "\"clientCapabilities\":{\"fs\":{\"readTextFile\":false,\"writeTextFile\":false},\"terminal\":false},"
                      "\"clientInfo\":{\"name\":\"t\",\"version\":\"9\"}}}\n");
    rig_feed(&rig, INIT_ANSWER);
    rig_session_new(&rig);
    expect_sent(&rig, "{\"jsonrpc\":\"2.0\",\"id\":2,\"method\":\"session/new\",\"params\":{\"cwd\":\"/w\",\"mcpServers\":[]}}\n");
    rig_feed(&rig, SESSION_ANSWER);
    ck_assert_str_eq(cf_acp_session_id(rig.acp), "s1");
    rig_prompt(&rig);
    expect_sent(&rig, "{\"jsonrpc\":\"2.0\",\"id\":3,\"method\":\"session/prompt\",\"params\":{\"sessionId\":\"s1\","
                      "\"prompt\":[{\"type\":\"text\",\"text\":\"hi\"}]}}\n");
    rig_feed(&rig, CHUNK CHUNK "{\"jsonrpc\":\"2.0\",\"id\":3,\"result\":{\"stopReason\":\"end_turn\"}}\n");
    expect_log(&rig, "initialized@2\nsession s1@4\nagent_message_chunk@6\nagent_message_chunk@7\ndone end_turn@8\n");
    rig_close(&rig);
}
END_TEST

START_TEST(a_conversation_survives_any_cut)
{
    static const char text[] = "\xef\xbb\xbf" INIT_ANSWER "\r\n\n" CHUNK "Welcome back\n" CHUNK "{\"jsonrpc\":\"2.0\",\"id\":9,\"method\":\"_x/y\"}";
    struct cf_error err = {0};

    for (size_t cut = 0; cut < sizeof text; cut++) {
        struct rig rig;
        rig_open(&rig, (struct cf_acp_options){0});
        ok(cf_acp_initialize(rig.acp, NULL, &err), &err);
        cf_buf_reset(&rig.sent);
        cf_acp_feed(rig.acp, text, cut);
        cf_acp_feed(rig.acp, text + cut, strlen(text) - cut);
        cf_acp_end(rig.acp);
        expect_log(&rig, "initialized@2\n! stdout_pollution@5\n! refused_request@5\n");
        expect_sent(&rig, "{\"jsonrpc\":\"2.0\",\"id\":9,\"error\":{\"code\":-32601,\"message\":\"Method not found\"}}\n");
        rig_close(&rig);
    }
}
END_TEST

START_TEST(the_wrong_version_ends_it)
{
    static const char *const answers[] = {"2", "0", "\"1\"", "null"};

    for (size_t i = 0; i < 4; i++) {
        struct rig rig;
        struct cf_error err = {0};
        char line[200];
        rig_open(&rig, (struct cf_acp_options){0});
        ok(cf_acp_initialize(rig.acp, NULL, &err), &err);
        snprintf(line, sizeof line, "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{\"protocolVersion\":%s}}\n", answers[i]);
        rig_feed(&rig, line);
        ck_assert_int_eq(rig.broken.kind, CF_ERROR_INCOMPATIBLE);
        rig_feed(&rig, CHUNK);
        ck_assert_uint_eq(rig.broken_count, 1);
        rig_close(&rig);
    }
}
END_TEST

START_TEST(updates_before_the_session_answer_are_held_and_foreign_ones_dropped)
{
    struct rig rig;
    struct cf_error err = {0};

    rig_open(&rig, (struct cf_acp_options){0});
    ok(cf_acp_initialize(rig.acp, NULL, &err), &err);
    rig_feed(&rig, INIT_ANSWER);
    rig_session_new(&rig);
    rig_feed(&rig, UPDATE("s1", "\"sessionUpdate\":\"available_commands_update\",\"availableCommands\":[]")
                   UPDATE("other", "\"sessionUpdate\":\"plan\",\"entries\":[]") CHUNK);
    expect_log(&rig, "initialized@2\n");
    rig_feed(&rig, SESSION_ANSWER CHUNK UPDATE("child", "\"sessionUpdate\":\"plan\",\"entries\":[]"));
    expect_log(&rig, "session s1@7\navailable_commands_update@4\n! foreign_session@5\nagent_message_chunk@6\n"
                     "agent_message_chunk@8\n! foreign_session@9\n");
    rig_close(&rig);
}
END_TEST

START_TEST(the_held_updates_are_bounded)
{
    struct rig rig;
    struct cf_error err = {0};

    rig_open(&rig, (struct cf_acp_options){0});
    ok(cf_acp_initialize(rig.acp, NULL, &err), &err);
    rig_feed(&rig, INIT_ANSWER);
    rig_session_new(&rig);
    cf_buf_reset(&rig.log);
    for (int i = 0; i < 1024; i++)
        rig_feed(&rig, CHUNK);
    expect_log(&rig, "");
    rig_feed(&rig, CHUNK);
    expect_log(&rig, "! ignored@1028\n");
    rig_close(&rig);
}
END_TEST

START_TEST(unstable_kinds_are_ignored_and_unknown_ones_end_it)
{
    struct rig rig;

    rig_open(&rig, (struct cf_acp_options){0});
    rig_to_session(&rig, NULL);
    rig_feed(&rig, UPDATE("s1", "\"sessionUpdate\":\"notice\"") UPDATE("s1", "\"sessionUpdate\":\"plan_update\""));
    expect_log(&rig, "! ignored@5\n! ignored@6\n");
    rig_feed(&rig, UPDATE("s1", "\"sessionUpdate\":\"telepathy\"") CHUNK);
    expect_log(&rig, "broken\n");
    ck_assert(strstr(rig.broken.text, "\"telepathy\"") != NULL && strstr(rig.broken.text, "frame 7") != NULL);
    rig_close(&rig);

    rig_open(&rig, (struct cf_acp_options){.is_lenient = true});
    rig_to_session(&rig, NULL);
    rig_feed(&rig, UPDATE("s1", "\"sessionUpdate\":\"telepathy\"") CHUNK);
    expect_log(&rig, "! ignored@5\nagent_message_chunk@6\n");
    rig_close(&rig);
}
END_TEST

START_TEST(an_unknown_stop_reason_ends_it)
{
    struct rig rig;

    rig_open(&rig, (struct cf_acp_options){0});
    rig_to_session(&rig, NULL);
    rig_prompt(&rig);
    rig_feed(&rig, "{\"jsonrpc\":\"2.0\",\"id\":3,\"result\":{\"stopReason\":\"bored\"}}\n");
    expect_log(&rig, "broken\n");
    ck_assert(strstr(rig.broken.text, "\"bored\"") != NULL);
    rig_close(&rig);
}
END_TEST

START_TEST(ids_are_matched_with_two_counted_leniencies)
{
    struct rig rig;

    rig_open(&rig, (struct cf_acp_options){0});
    rig_to_session(&rig, NULL);
    rig_prompt(&rig);
    rig_feed(&rig, "{\"jsonrpc\":\"2.0\",\"id\":\"03\",\"result\":{\"stopReason\":\"end_turn\"}}\n"
                   "{\"jsonrpc\":\"2.0\",\"id\":77,\"result\":{}}\n"
                   "{\"jsonrpc\":\"2.0\",\"id\":null,\"error\":{\"code\":-32700,\"message\":\"bad\"}}\n"
                   "{\"jsonrpc\":\"2.0\",\"id\":\"3\",\"result\":{\"stopReason\":\"end_turn\"}}\n"
                   "{\"jsonrpc\":\"2.0\",\"id\":3,\"result\":{\"stopReason\":\"end_turn\"}}\n");
    expect_log(&rig, "! ignored@6\n! ignored@7\n! ignored@8\n! leniency@9\ndone end_turn@9\n! ignored@10\n");
    rig_prompt(&rig);
    rig_feed(&rig, "{\"jsonrpc\":\"2.0\",\"id\":4.0,\"result\":{\"stopReason\":\"refusal\"}}\n");
    expect_log(&rig, "! leniency@12\ndone refusal@12\n");
    rig_close(&rig);
}
END_TEST

START_TEST(an_answer_with_both_or_neither_fails_its_call)
{
    struct rig rig;

    rig_open(&rig, (struct cf_acp_options){0});
    rig_to_session(&rig, NULL);
    rig_prompt(&rig);
    rig_feed(&rig, "{\"jsonrpc\":\"2.0\",\"id\":3}\n");
    rig_prompt(&rig);
    rig_feed(&rig, "{\"jsonrpc\":\"2.0\",\"id\":4,\"result\":{},\"error\":{\"code\":1,\"message\":\"x\"}}\n");
    rig_prompt(&rig);
    rig_feed(&rig, "{\"jsonrpc\":\"2.0\",\"id\":5,\"result\":null}\n");
    rig_prompt(&rig);
    rig_feed(&rig, "{\"jsonrpc\":\"2.0\",\"id\":6,\"error\":{\"code\":-32603,\"message\":\"rate\"}}\n");
    expect_log(&rig, "failed session/prompt -32603 the answer must have exactly one of result and error@6\n"
                     "failed session/prompt -32603 the answer must have exactly one of result and error@8\n"
                     "failed session/prompt -32603 the result has no stopReason@10\n"
                     "failed session/prompt -32603 rate@12\n");
    rig_close(&rig);
}
END_TEST

START_TEST(session_new_without_an_id_is_a_failed_call)
{
    static const char *const results[] = {"null", "{}", "{\"sessionId\":\"\"}", "{\"sessionId\":7}", "{\"sessionId\":\"a\\u0000b\"}"};

    for (size_t i = 0; i < 5; i++) {
        struct rig rig;
        struct cf_error err = {0};
        char line[200];
        rig_open(&rig, (struct cf_acp_options){0});
        ok(cf_acp_initialize(rig.acp, NULL, &err), &err);
        rig_feed(&rig, INIT_ANSWER);
        rig_session_new(&rig);
        snprintf(line, sizeof line, "{\"jsonrpc\":\"2.0\",\"id\":2,\"result\":%s}\n", results[i]);
        rig_feed(&rig, line);
        expect_log(&rig, "initialized@2\nfailed session/new -32603 the result has no usable sessionId@4\n");
        rig_close(&rig);
    }
}
END_TEST

START_TEST(every_agent_request_is_answered_and_ids_come_back_verbatim)
{
    struct rig rig;

    rig_open(&rig, (struct cf_acp_options){0});
    rig_to_session(&rig, NULL);
    rig_feed(&rig, "{\"jsonrpc\":\"2.0\",\"id\":\"7\",\"method\":\"_vendor/drain\",\"params\":{}}\n"
                   "{\"jsonrpc\":\"2.0\",\"id\":7,\"method\":\"_vendor/drain\"}\n"
                   "{\"jsonrpc\":\"2.0\",\"id\":null,\"method\":\"fs/read_text_file\",\"params\":{\"sessionId\":\"s1\",\"path\":\"/x\"}}\n"
                   "{\"jsonrpc\":\"2.0\",\"method\":\"_vendor/note\"}\n"
                   "{\"jsonrpc\":\"2.0\",\"method\":\"$/whatever\"}\n"
                   "{\"jsonrpc\":\"2.0\",\"method\":\"strange/note\"}\n");
    expect_sent(&rig, "{\"jsonrpc\":\"2.0\",\"id\":\"7\",\"error\":{\"code\":-32601,\"message\":\"Method not found\"}}\n"
                      "{\"jsonrpc\":\"2.0\",\"id\":7,\"error\":{\"code\":-32601,\"message\":\"Method not found\"}}\n"
                      "{\"jsonrpc\":\"2.0\",\"id\":null,\"error\":{\"code\":-32601,\"message\":\"Method not found\"}}\n");
    expect_log(&rig, "! refused_request@5\n! refused_request@9\n! ignored@13\n");
    rig_close(&rig);
}
END_TEST

START_TEST(the_agents_id_may_equal_ours)
{
    struct rig rig;

    rig_open(&rig, (struct cf_acp_options){0});
    rig_to_session(&rig, NULL);
    rig.answers_at_once = true;
    rig_prompt(&rig);
    cf_buf_reset(&rig.sent);
    rig_feed(&rig, PERMISSION("3", YES_NO) "{\"jsonrpc\":\"2.0\",\"id\":3,\"result\":{\"stopReason\":\"end_turn\"}}\n");
    expect_sent(&rig, "{\"jsonrpc\":\"2.0\",\"id\":3,\"result\":{\"outcome\":{\"outcome\":\"selected\",\"optionId\":\"y\"}}}\n");
    expect_log(&rig, "permission c1@6\ndone end_turn@8\n");
    rig_close(&rig);
}
END_TEST

START_TEST(options_are_picked_by_kind_and_never_by_position)
{
    static const struct {
        const char *options, *tool, *allow, *deny;
    } cases[] = {
        {YES_NO, "{}", "y", "n"},
        {"[{\"optionId\":\"a\",\"kind\":\"allow_always\"},{\"optionId\":\"r\",\"kind\":\"reject_always\"}]", "{}", "a", "r"},
        {"[{\"optionId\":\"%%\",\"kind\":\"reject_once\"},{\"optionId\":\"q\",\"kind\":\"reject_always\"}]", "{}", "%%", "%%"},
        {"[{\"optionId\":\"red\",\"kind\":\"allow_once\"},{\"optionId\":\"blue\",\"kind\":\"allow_once\"}]", "{}", NULL, NULL},
        {YES_NO, "{\"kind\":\"switch_mode\"}", "n", "n"},
        {"[{\"optionId\":\"x\",\"kind\":\"odd\"},7,{\"kind\":\"allow_once\"}]", "{}", NULL, NULL},
        {"[]", "{}", NULL, NULL},
    };

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct cf_acp_permission permission = {.tool_call = js(cases[i].tool), .options = js(cases[i].options)};
        const char *allow = cf_acp_permission_pick(&permission, true), *deny = cf_acp_permission_pick(&permission, false);
        ck_assert_msg((allow == NULL) == (cases[i].allow == NULL) && (allow == NULL || strcmp(allow, cases[i].allow) == 0), "%zu", i);
        ck_assert_msg((deny == NULL) == (cases[i].deny == NULL) && (deny == NULL || strcmp(deny, cases[i].deny) == 0), "%zu", i);
        json_decref(permission.tool_call);
        json_decref(permission.options);
    }
}
END_TEST

START_TEST(cancel_answers_pending_and_later_permissions_and_any_end_is_cancelled)
{
    struct rig rig;

    rig_open(&rig, (struct cf_acp_options){0});
    rig_to_session(&rig, NULL);
    ck_assert_int_eq(cf_acp_cancel(rig.acp), 0);
    expect_sent(&rig, "");
    rig_prompt(&rig);
    rig_feed(&rig, PERMISSION("\"p1\"", YES_NO));
    const void *old = rig.handle;
    cf_buf_reset(&rig.sent);
    ck_assert_int_eq(cf_acp_cancel(rig.acp), 0);
    ck_assert_int_eq(cf_acp_cancel(rig.acp), 0);
    expect_sent(&rig, "{\"jsonrpc\":\"2.0\",\"method\":\"session/cancel\",\"params\":{\"sessionId\":\"s1\"}}\n"
                      "{\"jsonrpc\":\"2.0\",\"id\":\"p1\",\"result\":{\"outcome\":{\"outcome\":\"cancelled\"}}}\n");
    ck_assert_int_eq(cf_acp_permission_answer(rig.acp, old, "y"), -1);
    rig_feed(&rig, PERMISSION("\"p2\"", YES_NO) "{\"jsonrpc\":\"2.0\",\"method\":\"$/cancel_request\",\"params\":{\"requestId\":\"p1\"}}\n"
                   CHUNK "{\"jsonrpc\":\"2.0\",\"id\":3,\"error\":{\"code\":-32603,\"message\":\"aborted\"}}\n");
    expect_sent(&rig, "{\"jsonrpc\":\"2.0\",\"id\":\"p2\",\"result\":{\"outcome\":{\"outcome\":\"cancelled\"}}}\n");
    expect_log(&rig, "permission c1@6\ngone\npermission c1 answered@9\nagent_message_chunk@12\n! leniency@13\ndone cancelled error@13\n");
    rig_prompt(&rig);
    ck_assert(!cf_acp_is_canceled(rig.acp));
    rig_feed(&rig, "{\"jsonrpc\":\"2.0\",\"id\":4,\"result\":{\"stopReason\":\"end_turn\"}}\n");
    expect_log(&rig, "done end_turn@15\n");
    rig_close(&rig);
}
END_TEST

START_TEST(cancel_answers_every_pending_permission_and_leaves_file_requests)
{
    struct rig rig;

    rig_open(&rig, (struct cf_acp_options){0});
    rig_to_session(&rig, "{\"fs\":{\"readTextFile\":true}}");
    rig.takes_requests = true;
    rig_prompt(&rig);
    rig_feed(&rig, PERMISSION("1", YES_NO) PERMISSION("2", YES_NO)
                   "{\"jsonrpc\":\"2.0\",\"id\":3,\"method\":\"fs/read_text_file\",\"params\":{\"sessionId\":\"s1\",\"path\":\"/x\"}}\n"
                   PERMISSION("4", YES_NO));
    rig_feed(&rig, "{\"jsonrpc\":\"2.0\",\"id\":9,\"method\":\"fs/read_text_file\",\"params\":{\"sessionId\":\"s1\",\"path\":\"/y\"}}\n");
    const void *file = rig.handle;
    cf_buf_reset(&rig.sent);
    ck_assert_int_eq(cf_acp_cancel(rig.acp), 0);
    expect_sent(&rig, "{\"jsonrpc\":\"2.0\",\"method\":\"session/cancel\",\"params\":{\"sessionId\":\"s1\"}}\n"
                      "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{\"outcome\":{\"outcome\":\"cancelled\"}}}\n"
                      "{\"jsonrpc\":\"2.0\",\"id\":2,\"result\":{\"outcome\":{\"outcome\":\"cancelled\"}}}\n"
                      "{\"jsonrpc\":\"2.0\",\"id\":4,\"result\":{\"outcome\":{\"outcome\":\"cancelled\"}}}\n");
    ck_assert_int_eq(cf_acp_refuse(rig.acp, file, -32800, "Request cancelled"), 0);
    rig_close(&rig);
}
END_TEST

START_TEST(a_withdrawn_permission_is_answered_once)
{
    struct rig rig;

    rig_open(&rig, (struct cf_acp_options){0});
    rig_to_session(&rig, NULL);
    rig_prompt(&rig);
    cf_buf_reset(&rig.sent);
    rig_feed(&rig, PERMISSION("5", YES_NO) "{\"jsonrpc\":\"2.0\",\"method\":\"$/cancel_request\",\"params\":{\"requestId\":5}}\n");
    expect_sent(&rig, "{\"jsonrpc\":\"2.0\",\"id\":5,\"result\":{\"outcome\":{\"outcome\":\"cancelled\"}}}\n");
    expect_log(&rig, "permission c1@6\ngone\n");
    ck_assert_int_eq(cf_acp_permission_answer(rig.acp, rig.handle, NULL), -1);
    rig_close(&rig);
}
END_TEST

START_TEST(advertised_requests_reach_the_owner)
{
    struct rig rig;

    rig_open(&rig, (struct cf_acp_options){0});
    rig_to_session(&rig, "{\"fs\":{\"readTextFile\":true},\"elicitation\":{\"form\":{}}}");
    rig.takes_requests = true;
    rig_feed(&rig, "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"fs/read_text_file\",\"params\":{\"sessionId\":\"s1\",\"path\":\"/x\"}}\n");
    json_t *result = js("{\"content\":\"abc\"}");
    ck_assert_int_eq(cf_acp_answer(rig.acp, rig.handle, result), 0);
    ck_assert_int_eq(cf_acp_answer(rig.acp, rig.handle, result), -1);
    json_decref(result);
    rig_feed(&rig, "{\"jsonrpc\":\"2.0\",\"id\":2,\"method\":\"fs/write_text_file\",\"params\":{\"sessionId\":\"s1\",\"path\":\"/x\"}}\n"
                   "{\"jsonrpc\":\"2.0\",\"id\":3,\"method\":\"elicitation/create\",\"params\":{\"sessionId\":\"s1\",\"mode\":\"url\"}}\n"
                   "{\"jsonrpc\":\"2.0\",\"id\":4,\"method\":\"elicitation/create\",\"params\":{\"sessionId\":\"s1\",\"mode\":\"form\"}}\n"
                   "{\"jsonrpc\":\"2.0\",\"id\":5,\"method\":\"fs/read_text_file\",\"params\":{\"sessionId\":\"zz\",\"path\":\"/x\"}}\n");
    ck_assert_int_eq(cf_acp_refuse(rig.acp, rig.handle, -32002, "gone"), 0);
    expect_sent(&rig, "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{\"content\":\"abc\"}}\n"
                      "{\"jsonrpc\":\"2.0\",\"id\":2,\"error\":{\"code\":-32601,\"message\":\"Method not found\"}}\n"
                      "{\"jsonrpc\":\"2.0\",\"id\":3,\"error\":{\"code\":-32602,\"message\":\"this elicitation mode was not advertised\"}}\n"
                      "{\"jsonrpc\":\"2.0\",\"id\":5,\"error\":{\"code\":-32602,\"message\":\"unknown session\"}}\n"
                      "{\"jsonrpc\":\"2.0\",\"id\":4,\"error\":{\"code\":-32002,\"message\":\"gone\"}}\n");
    rig_close(&rig);
}
END_TEST

START_TEST(extension_requests_are_answered_once_also_at_the_end)
{
    struct rig rig;
    struct cf_error err = {0};
    json_t *params = js("{\"id\":\"evt_1\",\"content\":\"go\"}");

    rig_open(&rig, (struct cf_acp_options){0});
    rig_to_session(&rig, NULL);
    rig_prompt(&rig);
    cf_buf_reset(&rig.sent);
    ok(cf_acp_request(rig.acp, "_checkfu/session/steer", params, rig_reply, &rig, &err), &err);
    expect_sent(&rig, "{\"jsonrpc\":\"2.0\",\"id\":4,\"method\":\"_checkfu/session/steer\",\"params\":{\"sessionId\":\"s1\",\"id\":\"evt_1\",\"content\":\"go\"}}\n");
    rig_feed(&rig, "{\"jsonrpc\":\"2.0\",\"id\":4,\"result\":{\"disposition\":\"queued\"}}\n");
    ok(cf_acp_request(rig.acp, "_checkfu/session/interrupt", NULL, rig_reply, &rig, &err), &err);
    ck_assert_int_eq(cf_acp_withdraw(rig.acp, rig_reply, &rig), 0);
    expect_sent(&rig, "{\"jsonrpc\":\"2.0\",\"id\":5,\"method\":\"_checkfu/session/interrupt\",\"params\":{\"sessionId\":\"s1\"}}\n"
                      "{\"jsonrpc\":\"2.0\",\"method\":\"$/cancel_request\",\"params\":{\"requestId\":5}}\n");
    cf_acp_end(rig.acp);
    expect_log(&rig, "reply result@7\nreply none@9\n");
    json_decref(params);
    rig_close(&rig);
}
END_TEST

START_TEST(what_the_agent_does_not_advertise_is_not_asked)
{
    struct rig rig;
    struct cf_error err = {0};
    json_t *audio = js("[{\"type\":\"audio\",\"data\":\"\",\"mimeType\":\"x\"}]"), *image = js("[{\"type\":\"image\",\"data\":\"\",\"mimeType\":\"x\"}]");
    json_t *mcp = js("{\"cwd\":\"/w\",\"mcpServers\":[{\"type\":\"http\",\"name\":\"t\",\"url\":\"u\",\"headers\":[]}]}");

    rig_open(&rig, (struct cf_acp_options){0});
    ck_assert_int_eq(cf_acp_session_new(rig.acp, mcp, &err), -1);
    rig_to_session(&rig, NULL);
    ck_assert_int_eq(cf_acp_prompt(rig.acp, audio, &err), -1);
    ck_assert_int_eq(err.kind, CF_ERROR_INCOMPATIBLE);
    ck_assert_int_eq(cf_acp_session_new(rig.acp, mcp, &err), -1);
    ck_assert_int_eq(err.kind, CF_ERROR_INCOMPATIBLE);
    ck_assert_int_eq(cf_acp_request(rig.acp, "session/list", NULL, NULL, NULL, &err), -1);
    ck_assert_int_eq(cf_acp_session_resume(rig.acp, "s9", NULL, &err), -1);
    expect_sent(&rig, "");
    ok(cf_acp_prompt(rig.acp, image, &err), &err);
    ck_assert_int_eq(cf_acp_prompt(rig.acp, image, &err), -1);
    cf_buf_reset(&rig.sent);
    ck_assert_int_eq(cf_acp_session_close(rig.acp), 0);
    expect_sent(&rig, "{\"jsonrpc\":\"2.0\",\"id\":4,\"method\":\"session/close\",\"params\":{\"sessionId\":\"s1\"}}\n");
    json_decref(audio);
    json_decref(image);
    json_decref(mcp);
    rig_close(&rig);
}
END_TEST

START_TEST(the_rest_of_the_method_map_is_spoken)
{
    struct rig rig;
    struct cf_error err = {0};
    json_t *mode = js("{\"modeId\":\"code\"}"), *option = js("{\"configId\":\"model\",\"value\":\"m\"}");
    json_t *gone = js("{\"sessionId\":\"old\"}"), *params = js("{\"cwd\":\"/w\",\"mcpServers\":[]}");

    rig_open(&rig, (struct cf_acp_options){0});
    ok(cf_acp_initialize(rig.acp, NULL, &err), &err);
    rig_feed(&rig, "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{\"protocolVersion\":1,\"agentCapabilities\":{\"auth\":{\"logout\":{}},"
                   "\"sessionCapabilities\":{\"resume\":{},\"list\":{},\"delete\":{},\"close\":null}}}}\n");
    cf_buf_reset(&rig.sent);
    ok(cf_acp_session_resume(rig.acp, "s1", params, &err), &err);
    rig_feed(&rig, "{\"jsonrpc\":\"2.0\",\"id\":2,\"result\":{}}\n");
    ok(cf_acp_request(rig.acp, "session/set_mode", mode, NULL, NULL, &err), &err);
    ok(cf_acp_request(rig.acp, "session/set_config_option", option, NULL, NULL, &err), &err);
    ok(cf_acp_request(rig.acp, "session/list", NULL, rig_reply, &rig, &err), &err);
    ok(cf_acp_request(rig.acp, "session/delete", gone, NULL, NULL, &err), &err);
    ok(cf_acp_request(rig.acp, "logout", NULL, NULL, NULL, &err), &err);
    ck_assert_int_eq(cf_acp_session_close(rig.acp), 0); /* null is not advertised */
    rig_feed(&rig, "{\"jsonrpc\":\"2.0\",\"id\":3,\"result\":null}\n{\"jsonrpc\":\"2.0\",\"id\":5,\"error\":{\"code\":1,\"message\":\"\"}}\n");
    expect_sent(&rig, "{\"jsonrpc\":\"2.0\",\"id\":2,\"method\":\"session/resume\",\"params\":{\"sessionId\":\"s1\",\"cwd\":\"/w\",\"mcpServers\":[]}}\n"
                      "{\"jsonrpc\":\"2.0\",\"id\":3,\"method\":\"session/set_mode\",\"params\":{\"sessionId\":\"s1\",\"modeId\":\"code\"}}\n"
                      "{\"jsonrpc\":\"2.0\",\"id\":4,\"method\":\"session/set_config_option\",\"params\":{\"sessionId\":\"s1\",\"configId\":\"model\",\"value\":\"m\"}}\n"
                      "{\"jsonrpc\":\"2.0\",\"id\":5,\"method\":\"session/list\",\"params\":{}}\n"
                      "{\"jsonrpc\":\"2.0\",\"id\":6,\"method\":\"session/delete\",\"params\":{\"sessionId\":\"old\"}}\n"
                      "{\"jsonrpc\":\"2.0\",\"id\":7,\"method\":\"logout\",\"params\":{}}\n");
    expect_log(&rig, "initialized@2\nsession s1@4\nreply error@11\n");
    json_decref(mode);
    json_decref(option);
    json_decref(gone);
    json_decref(params);
    rig_close(&rig);
}
END_TEST

START_TEST(a_loaded_session_is_history_until_its_answer)
{
    struct rig rig;
    struct cf_error err = {0};
    json_t *params = js("{\"cwd\":\"/w\",\"mcpServers\":[]}");

    rig_open(&rig, (struct cf_acp_options){0});
    ok(cf_acp_initialize(rig.acp, NULL, &err), &err);
    rig_feed(&rig, INIT_ANSWER);
    cf_buf_reset(&rig.sent);
    ok(cf_acp_session_load(rig.acp, "s1", params, &err), &err);
    expect_sent(&rig, "{\"jsonrpc\":\"2.0\",\"id\":2,\"method\":\"session/load\",\"params\":{\"sessionId\":\"s1\",\"cwd\":\"/w\",\"mcpServers\":[]}}\n");
    rig_feed(&rig, CHUNK CHUNK "{\"jsonrpc\":\"2.0\",\"id\":2,\"result\":null}\n" CHUNK);
    expect_log(&rig, "initialized@2\nsession s1@6\nagent_message_chunk@7\n");
    json_decref(params);
    rig_close(&rig);
}
END_TEST

START_TEST(login_is_found_and_tried)
{
    struct rig rig;
    struct cf_error err = {0};

    rig_open(&rig, (struct cf_acp_options){0});
    ok(cf_acp_initialize(rig.acp, NULL, &err), &err);
    rig_feed(&rig, "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{\"protocolVersion\":1,\"authMethods\":[{\"id\":\"tty\",\"name\":\"T\",\"type\":\"terminal\"},{\"id\":\"key\",\"name\":\"K\"}]}}\n");
    rig_session_new(&rig);
    rig_feed(&rig, "{\"jsonrpc\":\"2.0\",\"id\":2,\"error\":{\"code\":-32000,\"message\":\"Authentication required\"}}\n");
    ck_assert_str_eq(cf_acp_auth_method(rig.acp), "key");
    cf_buf_reset(&rig.sent);
    ok(cf_acp_authenticate(rig.acp, "key", &err), &err);
    expect_sent(&rig, "{\"jsonrpc\":\"2.0\",\"id\":3,\"method\":\"authenticate\",\"params\":{\"methodId\":\"key\"}}\n");
    rig_feed(&rig, "{\"jsonrpc\":\"2.0\",\"id\":3,\"result\":null}\n");
    expect_log(&rig, "initialized@2\nfailed session/new -32000 Authentication required@4\nauthenticated@6\n");
    rig_close(&rig);
}
END_TEST

START_TEST(late_output_is_a_finding_that_names_both_frames)
{
    struct rig rig;

    rig_open(&rig, (struct cf_acp_options){0});
    rig_to_session(&rig, NULL);
    rig_prompt(&rig);
    rig_feed(&rig, "{\"jsonrpc\":\"2.0\",\"id\":3,\"result\":{\"stopReason\":\"end_turn\"}}\n" CHUNK
                   UPDATE("s1", "\"sessionUpdate\":\"usage_update\",\"used\":1,\"size\":2"));
    expect_log(&rig, "done end_turn@6\n! update_after_terminal@7\nagent_message_chunk@7\nusage_update@8\n");
    rig_close(&rig);
}
END_TEST

START_TEST(noise_is_bounded_and_ends_it_when_nothing_else_comes)
{
    struct rig rig;

    rig_open(&rig, (struct cf_acp_options){0});
    rig_to_session(&rig, NULL);
    for (int i = 0; i < 1000; i++)
        rig_feed(&rig, i % 2 ? "[1]\n" : "{\"level\":\"info\"}\n");
    rig_feed(&rig, CHUNK);
    ck_assert_uint_eq(rig.broken_count, 0);
    ck_assert_uint_eq(cf_acp_finding_count(rig.acp, CF_ACP_STDOUT_POLLUTION), 1000);
    ck_assert_uint_lt(rig.log.len, 101 * 40);
    for (int i = 0; i < 1001; i++)
        rig_feed(&rig, "junk\n");
    ck_assert_uint_eq(rig.broken_count, 1);
    ck_assert_uint_eq(cf_acp_bad_lines(rig.acp), 2001);
    rig_close(&rig);
}
END_TEST

START_TEST(a_line_past_the_limit_fails_the_call_in_flight)
{
    struct rig rig;
    static char line[4100];

    memset(line, 'x', sizeof line - 2);
    line[sizeof line - 2] = '\n';
    rig_open(&rig, (struct cf_acp_options){.line_limit_bytes = 4096});
    rig_to_session(&rig, NULL);
    rig_feed(&rig, line);
    rig_feed(&rig, CHUNK);
    expect_log(&rig, "! stdout_pollution@3\nagent_message_chunk@5\n");
    rig_prompt(&rig);
    rig_feed(&rig, line);
    ck_assert_uint_eq(rig.broken_count, 1);
    ck_assert(strstr(rig.broken.text, "longer than 4096 bytes") != NULL);
    rig_close(&rig);
}
END_TEST

START_TEST(broken_json_is_repaired_by_the_written_rule)
{
    struct rig rig;
    static const char chunks[] =
        UPDATE("s1", "\"sessionUpdate\":\"agent_message_chunk\",\"content\":{\"type\":\"text\",\"text\":\"a\\ud83d\"}")
        UPDATE("s1", "\"sessionUpdate\":\"agent_message_chunk\",\"content\":{\"type\":\"text\",\"text\":\"\\udc00 \xff \xe2\x82\"}")
        UPDATE("s1", "\"sessionUpdate\":\"usage_update\",\"used\":18446744073709551615,\"size\":9223372036854775808")
        UPDATE("s1", "\"sessionUpdate\":\"usage_update\",\"used\":1e999,\"size\":-99999999999999999999")
        UPDATE("s1", "\"sessionUpdate\":\"plan\",\"a\\u0000b\":1,\"entries\":[]")
        UPDATE("s1", "\"sessionUpdate\":\"agent_message_chunk\",\"content\":{\"type\":\"text\",\"text\":\"tab\there\"}");

    rig_open(&rig, (struct cf_acp_options){0});
    rig_to_session(&rig, NULL);
    rig_feed(&rig, chunks);
    expect_log(&rig, "! repaired_frame@5\nagent_message_chunk@5\n! repaired_frame@6\nagent_message_chunk@6\n"
                     "! repaired_frame@7\nusage_update@7\n! repaired_frame@8\nusage_update@8\n"
                     "! repaired_frame@9\nplan@9\n! repaired_frame@10\nagent_message_chunk@10\n");
    rig_feed(&rig, UPDATE("s1", "\"sessionUpdate\":\"agent_message_chunk\",\"content\":{\"type\":\"text\",\"text\":\"nul \\u0000 is \\ud83d\\ude00\"}"));
    expect_log(&rig, "agent_message_chunk@11\n");
    rig_feed(&rig, "{\"jsonrpc\":\"2.0\",\"method\":\"session/update\",\"params\":{\n");
    expect_log(&rig, "! stdout_pollution@10\n");
    rig_close(&rig);
}
END_TEST

START_TEST(a_frame_nested_too_deep_is_said_and_not_followed)
{
    struct rig rig;
    struct cf_buf line = {0};

    cf_buf_adds(&line, "{\"jsonrpc\":\"2.0\",\"method\":\"_x\",\"params\":");
    for (int i = 0; i < 5000; i++)
        cf_buf_adds(&line, "[");
    for (int i = 0; i < 5000; i++)
        cf_buf_adds(&line, "]");
    cf_buf_adds(&line, "}\n");
    rig_open(&rig, (struct cf_acp_options){0});
    rig_to_session(&rig, NULL);
    rig_feed(&rig, line.data);
    expect_log(&rig, "! stdout_pollution@3\n");
    cf_buf_release(&line);
    rig_close(&rig);
}
END_TEST

START_TEST(a_frame_of_four_mebibytes_comes_a_byte_at_a_time)
{
    struct rig rig;
    struct cf_buf line = {0};
    static char filler[4 << 20];

    memset(filler, 'y', sizeof filler - 1);
    cf_buf_adds(&line, "{\"jsonrpc\":\"2.0\",\"method\":\"session/update\",\"params\":{\"sessionId\":\"s1\",\"update\":{\"sessionUpdate\":\"agent_message_chunk\",\"content\":{\"type\":\"text\",\"text\":\"");
    cf_buf_adds(&line, filler);
    cf_buf_adds(&line, "\"}}}}\n");
    rig_open(&rig, (struct cf_acp_options){0});
    rig_to_session(&rig, NULL);
    for (size_t i = 0; i < line.len; i++)
        ck_assert(cf_acp_feed(rig.acp, line.data + i, 1) == 0);
    expect_log(&rig, "agent_message_chunk@5\n");
    cf_buf_release(&line);
    rig_close(&rig);
}
END_TEST

START_TEST(the_end_reads_a_last_frame_without_lf)
{
    struct rig rig;

    rig_open(&rig, (struct cf_acp_options){0});
    rig_to_session(&rig, NULL);
    rig_prompt(&rig);
    rig_feed(&rig, "{\"jsonrpc\":\"2.0\",\"id\":3,\"result\":{\"stopReason\":\"end_turn\"}}");
    expect_log(&rig, "");
    cf_acp_end(rig.acp);
    expect_log(&rig, "done end_turn@6\n");
    cf_acp_end(rig.acp);
    rig_close(&rig);
}
END_TEST

START_TEST(first_bytes_are_one_printable_line)
{
    struct rig rig;

    rig_open(&rig, (struct cf_acp_options){0});
    ck_assert_str_eq(cf_acp_first_bytes(rig.acp), "");
    rig_feed(&rig, "Welcome\n\x1b[31m back");
    ck_assert_str_eq(cf_acp_first_bytes(rig.acp), "Welcome  [31m back");
    ck_assert_uint_eq(cf_acp_bytes_seen(rig.acp), 18);
    ck_assert_uint_eq(cf_acp_frames_seen(rig.acp), 0);
    rig_close(&rig);
}
END_TEST

UNIT_MAIN("wire/acp", tcase_add_test(tc, a_turn_from_initialize_to_end_turn);
          tcase_add_test(tc, a_conversation_survives_any_cut);
          tcase_add_test(tc, the_wrong_version_ends_it);
          tcase_add_test(tc, updates_before_the_session_answer_are_held_and_foreign_ones_dropped);
          tcase_add_test(tc, the_held_updates_are_bounded);
          tcase_add_test(tc, unstable_kinds_are_ignored_and_unknown_ones_end_it);
          tcase_add_test(tc, an_unknown_stop_reason_ends_it);
          tcase_add_test(tc, ids_are_matched_with_two_counted_leniencies);
          tcase_add_test(tc, an_answer_with_both_or_neither_fails_its_call);
          tcase_add_test(tc, session_new_without_an_id_is_a_failed_call);
          tcase_add_test(tc, every_agent_request_is_answered_and_ids_come_back_verbatim);
          tcase_add_test(tc, the_agents_id_may_equal_ours);
          tcase_add_test(tc, options_are_picked_by_kind_and_never_by_position);
          tcase_add_test(tc, cancel_answers_pending_and_later_permissions_and_any_end_is_cancelled);
          tcase_add_test(tc, cancel_answers_every_pending_permission_and_leaves_file_requests);
          tcase_add_test(tc, a_withdrawn_permission_is_answered_once);
          tcase_add_test(tc, advertised_requests_reach_the_owner);
          tcase_add_test(tc, extension_requests_are_answered_once_also_at_the_end);
          tcase_add_test(tc, what_the_agent_does_not_advertise_is_not_asked);
          tcase_add_test(tc, the_rest_of_the_method_map_is_spoken);
          tcase_add_test(tc, a_loaded_session_is_history_until_its_answer);
          tcase_add_test(tc, login_is_found_and_tried);
          tcase_add_test(tc, late_output_is_a_finding_that_names_both_frames);
          tcase_add_test(tc, noise_is_bounded_and_ends_it_when_nothing_else_comes);
          tcase_add_test(tc, a_line_past_the_limit_fails_the_call_in_flight);
          tcase_add_test(tc, broken_json_is_repaired_by_the_written_rule);
          tcase_add_test(tc, a_frame_nested_too_deep_is_said_and_not_followed);
          tcase_add_test(tc, a_frame_of_four_mebibytes_comes_a_byte_at_a_time);
          tcase_add_test(tc, the_end_reads_a_last_frame_without_lf);
          tcase_add_test(tc, first_bytes_are_one_printable_line);)
