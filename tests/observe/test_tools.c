#include "tests/observe/watch.h"

static const struct cf_declaration nothing;

START_TEST(a_use_is_told_when_its_input_is_known)
{
    struct watch w;

    watch_open_in_turn(&w, &nothing);
    update(&w, SAY("let me "));
    update(&w, CALL("c1", "\"title\":\"Run ls\",\"kind\":\"execute\",\"status\":\"pending\",\"rawInput\":{}"));
    expect_said(&w, "");
    update(&w, MORE("c1", "\"rawInput\":{\"command\":\"ls\"}"));
    update(&w, MORE("c1", "\"status\":\"in_progress\",\"rawInput\":{\"command\":\"other\"}"));
    update(&w, MORE("c1", "\"status\":\"completed\",\"content\":[{\"type\":\"content\",\"content\":{\"type\":\"text\",\"text\":\"a\"}},{\"type\":\"text\",\"text\":\"b\"}]"));
    update(&w, MORE("c1", "\"status\":\"failed\",\"rawOutput\":1"));
    expect_said(&w, "agent_message@2 {\"content\":\"let me \"}\n"
                    "tool_use@4 {\"tool_use_id\":\"c1\",\"tool\":\"harness:execute\",\"args\":{\"command\":\"ls\"},\"provider_tool_name\":\"Run ls\"}\n"
                    "tool_result@6 {\"tool_use_id\":\"c1\",\"result\":\"ab\"}\n");
    finish(&w, "end_turn");
    expect_verdict(&w, TOOL_CORRELATION, PASSED, "1 uses, 1 results");
    watch_close(&w);
}
END_TEST

START_TEST(what_a_command_printed_may_stand_in_meta_alone)
{
    struct watch w;

    watch_open_in_turn(&w, &nothing);
    update(&w, CALL("a", "\"title\":\"ls\",\"status\":\"in_progress\",\"content\":[{\"type\":\"terminal\",\"terminalId\":\"a\"}]"));
    update(&w, MORE("a", "\"_meta\":{\"terminal_output\":{\"data\":\"one\\n\",\"terminal_id\":\"a\"}}"));
    update(&w, MORE("a", "\"status\":\"completed\",\"_meta\":{\"terminal_output_delta\":{\"data\":\"two\\n\"},\"terminal_exit\":{\"exit_code\":0}}"));
    update(&w, CALL("b", "\"title\":\"no\",\"status\":\"failed\",\"content\":[{\"type\":\"terminal\",\"terminalId\":\"b\"}],"
                         "\"_meta\":{\"terminal_output_delta\":{\"data\":\"not found\"},\"terminal_output\":7}"));
    update(&w, CALL("c", "\"title\":\"own\",\"status\":\"completed\",\"rawOutput\":{\"n\":1},\"_meta\":{\"terminal_output\":{\"data\":\"x\"}}"));
    finish(&w, "end_turn");
    expect_said(&w, "tool_use@2 {\"tool_use_id\":\"a\",\"tool\":\"harness:other\",\"args\":{},\"provider_tool_name\":\"ls\"}\n"
                    "tool_result@4 {\"tool_use_id\":\"a\",\"result\":\"one\\ntwo\\n\"}\n"
                    "tool_use@5 {\"tool_use_id\":\"b\",\"tool\":\"harness:other\",\"args\":{},\"provider_tool_name\":\"no\"}\n"
                    "tool_result@5 {\"tool_use_id\":\"b\",\"result\":\"not found\",\"error\":{\"type\":\"runtime.harness_failed\",\"message\":\"not found\"}}\n"
                    "tool_use@6 {\"tool_use_id\":\"c\",\"tool\":\"harness:other\",\"args\":{},\"provider_tool_name\":\"own\"}\n"
                    "tool_result@6 {\"tool_use_id\":\"c\",\"result\":{\"n\":1}}\n"
                    "finished@7 {\"stop_reason\":\"end_turn\"}\n");
    watch_close(&w);
}
END_TEST

START_TEST(a_call_may_come_whole_or_never_get_anywhere)
{
    struct watch w;

    watch_open_in_turn(&w, &nothing);
    update(&w, CALL("a", "\"title\":\"\",\"status\":\"completed\",\"rawOutput\":{\"ok\":true},\"rawInput\":[1]"));
    update(&w, CALL("b", "\"title\":\"B\""));
    update(&w, CALL("c", "\"title\":\"C\",\"status\":\"failed\",\"rawOutput\":{\"error\":{\"message\":\"no such file\"}}"));
    update(&w, CALL("d", "\"title\":\"D\",\"status\":\"completed\",\"content\":[{\"type\":\"terminal\",\"terminalId\":\"t\"}]"));
    update(&w, CALL("e", "\"title\":\"E\",\"status\":\"completed\",\"rawOutput\":null"));
    finish(&w, "end_turn");
    expect_said(&w, "tool_use@2 {\"tool_use_id\":\"a\",\"tool\":\"harness:other\",\"args\":[1]}\n"
                    "tool_result@2 {\"tool_use_id\":\"a\",\"result\":{\"ok\":true}}\n"
                    "tool_use@4 {\"tool_use_id\":\"c\",\"tool\":\"harness:other\",\"args\":{},\"provider_tool_name\":\"C\"}\n"
                    "tool_result@4 {\"tool_use_id\":\"c\",\"result\":{\"error\":{\"message\":\"no such file\"}},\"error\":{\"type\":\"runtime.harness_failed\",\"message\":\"no such file\"}}\n"
                    "tool_use@5 {\"tool_use_id\":\"d\",\"tool\":\"harness:other\",\"args\":{},\"provider_tool_name\":\"D\"}\n"
                    "tool_result@5 {\"tool_use_id\":\"d\",\"result\":[{\"type\":\"terminal\",\"terminalId\":\"t\"}]}\n"
                    "tool_use@6 {\"tool_use_id\":\"e\",\"tool\":\"harness:other\",\"args\":{},\"provider_tool_name\":\"E\"}\n"
                    "tool_result@6 {\"tool_use_id\":\"e\",\"result\":null}\n"
                    "tool_use@7 {\"tool_use_id\":\"b\",\"tool\":\"harness:other\",\"args\":{},\"provider_tool_name\":\"B\"}\n"
                    "finished@7 {\"stop_reason\":\"end_turn\"}\n");
    expect_found(&w, "tool_without_result@7\n");
    watch_close(&w);
}
END_TEST

START_TEST(a_result_for_a_call_never_announced_fails_tool_correlation)
{
    struct watch w;

    watch_open_in_turn(&w, &nothing);
    update(&w, MORE("u", "\"status\":\"in_progress\",\"title\":\"U\"")); /* an unfinished update announces */
    update(&w, MORE("u", "\"status\":\"completed\""));
    expect_verdict(&w, TOOL_CORRELATION, PASSED, "");
    update(&w, MORE("c9", "\"status\":\"completed\",\"rawOutput\":1"));
    update(&w, SAY("on"));
    finish(&w, "end_turn");
    expect_said(&w, "tool_use@2 {\"tool_use_id\":\"u\",\"tool\":\"harness:other\",\"args\":{},\"provider_tool_name\":\"U\"}\n"
                    "tool_result@3 {\"tool_use_id\":\"u\",\"result\":null}\n"
                    "tool_result@4 {\"tool_use_id\":\"c9\",\"result\":1}\n"
                    "agent_message@5 {\"content\":\"on\"}\nfinished@6 {\"stop_reason\":\"end_turn\"}\n");
    struct cf_grammar_result result;
    cf_grammar_result(w.g, CF_GRAMMAR_TOOL_CORRELATION, &result);
    ck_assert_int_eq(result.verdict, CF_VERDICT_FAILED);
    ck_assert_uint_eq(result.frame, 4);
    ck_assert_uint_eq(result.seq, 4);
    expect_verdict(&w, TERMINAL_OBSERVATION, PASSED, "end_turn");
    watch_close(&w);
}
END_TEST

START_TEST(a_permission_announces_a_call)
{
    struct watch w;
    json_t *call = js("{\"toolCallId\":\"p\",\"title\":\"Edit\",\"kind\":\"edit\",\"status\":\"pending\",\"rawInput\":{\"path\":\"x\"}}");

    watch_open_in_turn(&w, &nothing);
    cf_normalizer_permission(w.n, call, 5);
    cf_normalizer_permission(w.n, call, 6);
    ck_assert_str_eq(cf_normalizer_tool_use_id(w.n, "p"), "p");
    ck_assert_ptr_null(cf_normalizer_tool_use_id(w.n, "q"));
    update(&w, MORE("p", "\"status\":\"failed\",\"content\":[{\"type\":\"content\",\"content\":{\"type\":\"text\",\"text\":\"denied\"}}]"));
    expect_said(&w, "tool_use@5 {\"tool_use_id\":\"p\",\"tool\":\"harness:edit\",\"args\":{\"path\":\"x\"},\"provider_tool_name\":\"Edit\"}\n"
                    "tool_result@2 {\"tool_use_id\":\"p\",\"result\":\"denied\",\"error\":{\"type\":\"runtime.harness_failed\",\"message\":\"denied\"}}\n");
    json_decref(call);
    watch_close(&w);
}
END_TEST

START_TEST(a_known_id_in_the_same_turn_is_an_update_and_in_the_next_a_new_call)
{
    struct watch w;

    watch_open_in_turn(&w, &nothing);
    update(&w, CALL("c", "\"title\":\"one\",\"status\":\"in_progress\""));
    update(&w, CALL("c", "\"title\":\"two\",\"status\":\"completed\""));
    update(&w, CALL("c", "\"title\":\"three\",\"status\":\"pending\""));
    finish(&w, "end_turn");
    watch_turn(&w);
    update(&w, MORE("c", "\"status\":\"completed\""));
    update(&w, CALL("c", "\"title\":\"four\",\"status\":\"in_progress\""));
    update(&w, MORE("c", "\"status\":\"completed\""));
    ck_assert_str_eq(cf_normalizer_tool_use_id(w.n, "c"), "c#2");
    finish(&w, "end_turn");
    expect_said(&w, "tool_use@2 {\"tool_use_id\":\"c\",\"tool\":\"harness:other\",\"args\":{},\"provider_tool_name\":\"one\"}\n"
                    "tool_result@3 {\"tool_use_id\":\"c\",\"result\":null}\nfinished@5 {\"stop_reason\":\"end_turn\"}\n"
                    "tool_use@7 {\"tool_use_id\":\"c#2\",\"tool\":\"harness:other\",\"args\":{},\"provider_tool_name\":\"four\"}\n"
                    "tool_result@8 {\"tool_use_id\":\"c#2\",\"result\":null}\nfinished@9 {\"stop_reason\":\"end_turn\"}\n");
    expect_found(&w, "duplicate_tool_call@3\nduplicate_tool_call@4\nlate_update@6\n");
    expect_verdict(&w, TOOL_CORRELATION, PASSED, "2 uses, 2 results");
    watch_close(&w);
}
END_TEST

START_TEST(wrong_typed_members_are_as_absent)
{
    struct watch w;

    watch_open_in_turn(&w, &nothing);
    update(&w, CALL("c", "\"title\":7,\"kind\":[],\"status\":{},\"content\":\"x\",\"locations\":3"));
    update(&w, "{\"sessionUpdate\":\"tool_call\",\"title\":\"no id\"}");
    update(&w, "{\"sessionUpdate\":\"tool_call\",\"toolCallId\":9,\"title\":\"odd id\"}");
    update(&w, MORE("c", "\"status\":\"sleeping\",\"kind\":\"juggle\",\"title\":null"));
    update(&w, MORE("c", "\"status\":\"completed\""));
    expect_said(&w, "tool_use@6 {\"tool_use_id\":\"c\",\"tool\":\"harness:other\",\"args\":{}}\ntool_result@6 {\"tool_use_id\":\"c\",\"result\":null}\n");
    expect_found(&w, "undecodable_update@3\nundecodable_update@4\n");
    watch_close(&w);
}
END_TEST

static void
expect_name(const char *more, const char *expected)
{
    struct watch w;
    char text[4096];

    watch_open_in_turn(&w, &nothing);
    snprintf(text, sizeof text, "{\"sessionUpdate\":\"tool_call\",\"toolCallId\":\"c\",\"status\":\"in_progress\"%s}", more);
    update(&w, text);
    snprintf(text, sizeof text, "tool_use@2 {\"tool_use_id\":\"c\",\"tool\":\"%s\",\"args\":{}}\n", expected);
    expect_said(&w, text);
    watch_close(&w);
}

START_TEST(tools_are_named_by_the_written_rule)
{
    expect_name(",\"name\":\"exec_command\",\"kind\":\"execute\"", "harness:exec_command");
    expect_name(",\"_meta\":{\"claudeCode\":{\"toolName\":\"Bash\"}},\"kind\":\"execute\"", "harness:Bash");
    expect_name(",\"_meta\":{\"tool_name\":\"grep\"}", "harness:grep");
    expect_name(",\"kind\":\"search\"", "harness:search");
    expect_name(",\"kind\":\"dance\"", "harness:other");
    expect_name("", "harness:other");
    expect_name(",\"name\":\"  web \\t\\u00a0 fetch \\u3000\"", "harness:web_fetch");
    expect_name(",\"name\":\" \\n \",\"kind\":\"read\"", "harness:read");
    expect_name(",\"name\":\"caf\xc3\xa9\\u2028x\"", "harness:caf\xc3\xa9_x");
}
END_TEST

START_TEST(ids_of_any_length_become_ids_of_the_contract)
{
    static const size_t lengths[] = {0, 1, 256, 257, 5000};

    for (size_t i = 0; i < CF_COUNT(lengths); i++) {
        struct watch w;
        char id[5001], other[5001], text[6000], use_id[300];
        memset(id, 'i', lengths[i]);
        id[lengths[i]] = '\0';
        memcpy(other, id, lengths[i] + 1);
        if (lengths[i] > 0)
            other[lengths[i] - 1] = 'j';
        watch_open_in_turn(&w, &nothing);
        w.is_quiet = true;
        snprintf(text, sizeof text, CALL("%s", "\"title\":\"T\",\"status\":\"completed\""), id);
        update(&w, text);
        snprintf(use_id, sizeof use_id, "%s", cf_normalizer_tool_use_id(w.n, id));
        if (lengths[i] > 0) {
            snprintf(text, sizeof text, CALL("%s", "\"title\":\"T\",\"status\":\"completed\""), other);
            update(&w, text);
            ck_assert_str_ne(use_id, cf_normalizer_tool_use_id(w.n, other));
        }
        ck_assert(strlen(use_id) >= 1 && strlen(use_id) <= 256);
        finish(&w, "end_turn");
        watch_turn(&w);
        snprintf(text, sizeof text, CALL("%s", "\"title\":\"T\",\"status\":\"completed\""), id);
        update(&w, text); /* again in the next turn: the suffix must fit too */
        finish(&w, "end_turn");
        expect_verdict(&w, TOOL_CORRELATION, PASSED, lengths[i] > 0 ? "3 uses" : "2 uses");
        watch_close(&w);
    }
}
END_TEST

START_TEST(diffs_deletes_and_moves_are_file_changes)
{
    struct watch w;

    watch_open_in_turn(&w, &nothing);
    update(&w, CALL("e", "\"title\":\"E\",\"kind\":\"edit\",\"status\":\"completed\",\"rawInput\":{\"a\":1},\"content\":["
                         "{\"type\":\"diff\",\"path\":\"/w/new\",\"newText\":\"x\"},{\"type\":\"diff\",\"path\":\"/w/old\",\"oldText\":\"a\",\"newText\":\"b\"},"
                         "{\"type\":\"diff\",\"path\":\"/w/new\",\"oldText\":null,\"newText\":\"y\"},{\"type\":\"diff\",\"newText\":\"z\"}]"));
    update(&w, CALL("d", "\"title\":\"D\",\"kind\":\"delete\",\"status\":\"completed\",\"locations\":[{\"path\":\"/w/gone\"}],\"rawOutput\":0"));
    update(&w, CALL("m", "\"title\":\"M\",\"kind\":\"move\",\"status\":\"completed\",\"locations\":[{\"path\":\"/w/a\"},{\"path\":\"/w/b\"}],\"rawOutput\":0"));
    update(&w, CALL("f", "\"title\":\"F\",\"kind\":\"edit\",\"status\":\"failed\",\"content\":[{\"type\":\"diff\",\"path\":\"/w/no\",\"newText\":\"x\"}]"));
    cf_normalizer_file_changed(w.n, "create", "/w/new");
    struct cf_buf files = {0};
    for (char *line = strtok(w.log.data, "\n"); line != NULL; line = strtok(NULL, "\n"))
        if (cf_str_starts(line, "file_changed"))
            cf_buf_addf(&files, "%s\n", line);
    ck_assert_str_eq(files.data, "file_changed@2 {\"event\":\"create\",\"path\":\"/w/new\"}\nfile_changed@2 {\"event\":\"modify\",\"path\":\"/w/old\"}\n"
                                 "file_changed@3 {\"event\":\"delete\",\"path\":\"/w/gone\"}\nfile_changed@4 {\"event\":\"delete\",\"path\":\"/w/a\"}\n"
                                 "file_changed@4 {\"event\":\"create\",\"path\":\"/w/b\"}\n");
    cf_buf_release(&files);
    watch_close(&w);
}
END_TEST

START_TEST(a_long_title_and_a_long_failure_are_shortened_and_counted)
{
    struct watch w;
    struct cf_buf text = {0};
    static char many[6000];

    memset(many, 't', sizeof many - 1);
    cf_buf_addf(&text, CALL("c", "\"title\":\"%.300s\",\"status\":\"failed\",\"content\":[{\"type\":\"content\",\"content\":{\"type\":\"text\",\"text\":\"%s\"}}]"), many, many);
    watch_open_in_turn(&w, &nothing);
    update(&w, text.data);
    ck_assert_uint_eq(cf_normalizer_shortened(w.n), 2);
    expect_found(&w, "shortened@2\nshortened@2\n");
    cf_buf_release(&text);
    watch_close(&w);
}
END_TEST

START_TEST(questions_come_from_forms)
{
    struct watch w;
    json_t *params = js("{\"mode\":\"form\",\"message\":\"Which branch?\",\"requestedSchema\":{\"type\":\"object\",\"properties\":{"
                        "\"the branch\":{\"type\":\"string\",\"enum\":[\"main\",\"dev\"]},"
                        "\"many\":{\"type\":\"array\",\"title\":\"Many\",\"items\":{\"anyOf\":[{\"const\":\"a\",\"title\":\"A!\"}]}},"
                        "\"sure\":{\"type\":\"boolean\",\"description\":\"Sure?\"},\"free\":{\"type\":\"string\"}}}}");
    json_t *url = js("{\"mode\":\"url\",\"message\":\"x\",\"url\":\"https://x\"}"), *none = js("{\"mode\":\"form\",\"requestedSchema\":{\"properties\":{}}}");

    watch_open_in_turn(&w, &nothing);
    ck_assert_ptr_null(cf_normalizer_question(w.n, url));
    ck_assert_ptr_null(cf_normalizer_question(w.n, none));
    json_t *action = cf_normalizer_question(w.n, params);
    cf_normalizer_requires_action(w.n, action, 3);
    ck_assert(strstr(w.log.data, "\"items\":[{\"id\":\"1-the_branch\",\"prompt\":\"Which branch?\",\"options\":[{\"label\":\"main\"},{\"label\":\"dev\"}],\"allow_multiple\":false},"
                                 "{\"id\":\"2-many\",\"prompt\":\"Many\",\"options\":[{\"label\":\"a\",\"description\":\"A!\"}],\"allow_multiple\":true,\"header\":\"Which branch?\"},"
                                 "{\"id\":\"3-sure\",\"prompt\":\"Sure?\",\"options\":[{\"label\":\"true\"},{\"label\":\"false\"}],\"allow_multiple\":false,\"header\":\"Which branch?\"},"
                                 "{\"id\":\"4-free\",\"prompt\":\"Which branch?\",\"options\":[],\"allow_multiple\":false}]") != NULL);
    json_decref(action);
    json_decref(params);
    json_decref(url);
    json_decref(none);
    watch_close(&w);
}
END_TEST

UNIT_MAIN("observe/tools", tcase_add_test(tc, a_use_is_told_when_its_input_is_known);
          tcase_add_test(tc, a_call_may_come_whole_or_never_get_anywhere);
          tcase_add_test(tc, what_a_command_printed_may_stand_in_meta_alone);
          tcase_add_test(tc, a_result_for_a_call_never_announced_fails_tool_correlation);
          tcase_add_test(tc, a_permission_announces_a_call);
          tcase_add_test(tc, a_known_id_in_the_same_turn_is_an_update_and_in_the_next_a_new_call);
          tcase_add_test(tc, wrong_typed_members_are_as_absent);
          tcase_add_test(tc, tools_are_named_by_the_written_rule);
          tcase_add_test(tc, ids_of_any_length_become_ids_of_the_contract);
          tcase_add_test(tc, diffs_deletes_and_moves_are_file_changes);
          tcase_add_test(tc, a_long_title_and_a_long_failure_are_shortened_and_counted);
          tcase_add_test(tc, questions_come_from_forms);)
