#include "tests/observe/watch.h"

static const struct cf_declaration nothing;

START_TEST(chunks_of_a_run_are_one_message)
{
    struct watch w;

    watch_open(&w, true);
    watch_ready(&w, &nothing);
    watch_turn(&w);
    update(&w, SAY("Hel"));
    update(&w, SAY("lo "));
    update(&w, SAY(""));
    update(&w, "{\"sessionUpdate\":\"usage_update\",\"used\":1,\"size\":2}");
    update(&w, SAY("there"));
    update(&w, THINK("hm"));
    update(&w, SAY("again"));
    finish(&w, "end_turn");
    expect_said(&w, "ready@1 {\"capability_set\":{\"event_fidelity\":\"structured\",\"continuation\":\"rebuild_only\",\"checkpoint\":\"disk_only\","
                    "\"approval_delivery\":\"end_reinject\",\"interrupt\":\"kill_only\",\"mid_run_input\":\"unsupported\",\"model_control\":\"platform_enforced\","
                    "\"usage_authority\":\"platform_observed\",\"multiagent_shared_environment\":true}}\n"
                    "agent_message@2 {\"content\":\"Hello there\"}\n"
                    "agent_thinking@7 {\"content\":\"hm\"}\n"
                    "agent_message@8 {\"content\":\"again\"}\n"
                    "finished@9 {\"stop_reason\":\"end_turn\"}\n");
    expect_found(&w, "");
    for (int check = 0; check < CF_GRAMMAR_CHECKS; check++) {
        struct cf_grammar_result result;
        cf_grammar_result(w.g, (enum cf_grammar_check)check, &result);
        ck_assert_msg(result.verdict != CF_VERDICT_FAILED, "%s: %s", result.id, result.summary);
    }
    watch_close(&w);
}
END_TEST

START_TEST(a_changed_message_id_is_a_new_message)
{
    struct watch w;
    size_t len;

    watch_open_in_turn(&w, &nothing);
    update(&w, SAY_ID("a", "one"));
    update(&w, SAY_ID("a", " more"));
    update(&w, SAY_ID("b", "two"));
    update(&w, CALL("t", "\"title\":\"T\",\"status\":\"in_progress\""));
    update(&w, SAY_ID("b", " goes on"));
    update(&w, SAY("none"));
    finish(&w, "end_turn");
    expect_said(&w, "agent_message@2 {\"content\":\"one more\"}\nagent_message@4 {\"content\":\"two\"}\n"
                    "tool_use@5 {\"tool_use_id\":\"t\",\"tool\":\"harness:other\",\"args\":{},\"provider_tool_name\":\"T\"}\n"
                    "agent_message@6 {\"content\":\" goes on\"}\nagent_message@7 {\"content\":\"none\"}\n"
                    "finished@8 {\"stop_reason\":\"end_turn\"}\n");
    ck_assert_str_eq(cf_normalizer_last_message(w.n, &len), "none");
    watch_close(&w);
}
END_TEST

START_TEST(the_last_message_is_joined_over_its_observations)
{
    struct watch w;
    size_t len;

    watch_open_in_turn(&w, &nothing);
    update(&w, SAY_ID("b", "two"));
    update(&w, CALL("t", "\"title\":\"T\",\"status\":\"in_progress\""));
    update(&w, SAY_ID("b", " goes on"));
    finish(&w, "end_turn");
    ck_assert_str_eq(cf_normalizer_last_message(w.n, &len), "two goes on");
    watch_turn(&w);
    ck_assert_str_eq(cf_normalizer_last_message(w.n, &len), "");
    update(&w, SAY_ID("b", "new turn"));
    ck_assert_str_eq(cf_normalizer_last_message(w.n, &len), "new turn");
    ck_assert_uint_eq(len, 8);
    watch_close(&w);
}
END_TEST

/* `units` UTF-16 units of text as one chunk of `step` units each, of one-unit or of pair characters. */
static void
say_units(struct watch *w, size_t units, size_t step, const char *character, size_t wide)
{
    for (size_t done = 0; done < units;) {
        struct cf_buf text = {0};
        size_t part = units - done < step ? units - done : step;
        cf_buf_adds(&text, "{\"sessionUpdate\":\"agent_message_chunk\",\"content\":{\"type\":\"text\",\"text\":\"");
        for (size_t i = 0; i < part; i += wide)
            cf_buf_adds(&text, character);
        cf_buf_adds(&text, "\"}}");
        update(w, text.data);
        cf_buf_release(&text);
        done += part;
    }
}

START_TEST(text_is_split_at_the_bound_and_never_in_a_pair)
{
    static const size_t steps[] = {1u << 20, 262144, 262143, 100000, 4096};

    for (size_t i = 0; i < CF_COUNT(steps); i++) {
        struct watch w;
        watch_open_in_turn(&w, &nothing);
        w.is_quiet = true;
        say_units(&w, 262144, steps[i], "x", 1);
        cf_normalizer_flush(w.n, 0);
        ck_assert_uint_eq(w.seq, 2);
        say_units(&w, 262145, steps[i], "\xc3\xa9", 1);
        cf_normalizer_flush(w.n, 0);
        ck_assert_uint_eq(w.seq, 4);
        ck_assert_uint_eq(w.longest, 524288);
        update(&w, SAY("a")); /* one unit: the pairs do not end at the bound */
        say_units(&w, 262144, steps[i] & ~(size_t)1, "\xf0\x9f\x98\x80", 2);
        cf_normalizer_flush(w.n, 0);
        ck_assert_uint_eq(w.seq, 6);
        ck_assert_uint_eq(cf_normalizer_shortened(w.n), 0);
        watch_close(&w);
    }
}
END_TEST

START_TEST(a_message_sent_whole_after_streaming_is_told_once)
{
    struct watch w;

    watch_open_in_turn(&w, &nothing);
    update(&w, SAY_ID("m", "The answer "));
    update(&w, SAY_ID("m", "is 42."));
    update(&w, SAY("The answer is 42."));
    update(&w, SAY("The answer is 42."));
    expect_found(&w, "repeated_text@4\n");
    finish(&w, "end_turn");
    expect_said(&w, "agent_message@2 {\"content\":\"The answer is 42.\"}\nagent_message@5 {\"content\":\"The answer is 42.\"}\n"
                    "finished@6 {\"stop_reason\":\"end_turn\"}\n");
    watch_close(&w);
}
END_TEST

START_TEST(text_that_only_looks_repeated_is_kept)
{
    struct watch w;

    watch_open_in_turn(&w, &nothing);
    update(&w, SAY("ha"));
    update(&w, SAY("ha"));
    update(&w, SAY("haha"));
    update(&w, SAY_ID("m", "12345678"));
    update(&w, SAY_ID("m", "12345678"));
    update(&w, SAY_ID("n", "ok"));
    update(&w, SAY_ID("o", "ok"));
    finish(&w, "end_turn");
    expect_said(&w, "agent_message@2 {\"content\":\"hahahaha\"}\nagent_message@5 {\"content\":\"1234567812345678\"}\n"
                    "agent_message@7 {\"content\":\"ok\"}\nagent_message@8 {\"content\":\"ok\"}\nfinished@9 {\"stop_reason\":\"end_turn\"}\n");
    expect_found(&w, "");
    watch_close(&w);
}
END_TEST

START_TEST(text_of_a_pipe_is_never_taken_for_repeated)
{
    struct watch w;

    watch_open(&w, false);
    watch_turn(&w);
    cf_normalizer_text(w.n, "12345678", 8, 1);
    cf_normalizer_text(w.n, "abcdefgh", 8, 1);
    cf_normalizer_text(w.n, "12345678abcdefgh", 16, 1);
    cf_normalizer_finished(w.n, NULL, NULL, 1);
    expect_said(&w, "agent_message@1 {\"content\":\"12345678abcdefgh12345678abcdefgh\"}\nfinished@1 {\"stop_reason\":\"end_turn\"}\n");
    watch_close(&w);
}
END_TEST

START_TEST(blocks_that_are_no_text_are_left_out_and_counted)
{
    struct watch w;

    watch_open_in_turn(&w, &nothing);
    update(&w, "{\"sessionUpdate\":\"agent_message_chunk\",\"content\":{\"type\":\"image\",\"data\":\"\",\"mimeType\":\"x\"}}");
    update(&w, "{\"sessionUpdate\":\"agent_message_chunk\",\"content\":[1]}");
    update(&w, "{\"sessionUpdate\":\"agent_message_chunk\"}");
    update(&w, "{\"sessionUpdate\":\"agent_message_chunk\",\"content\":{\"type\":\"text\"}}");
    update(&w, "{\"sessionUpdate\":\"user_message_chunk\",\"content\":{\"type\":\"text\",\"text\":\"echo\"}}");
    update(&w, "{\"sessionUpdate\":\"plan\",\"entries\":\"odd\"}");
    finish(&w, "end_turn");
    expect_said(&w, "finished@8 {\"stop_reason\":\"end_turn\"}\n");
    expect_found(&w, "non_text_block@2\nundecodable_update@3\nundecodable_update@4\nundecodable_update@5\nempty_turn@8\n");
    watch_close(&w);
}
END_TEST

START_TEST(nothing_comes_after_the_terminal)
{
    struct watch w;

    watch_open_in_turn(&w, &nothing);
    update(&w, SAY("a"));
    finish(&w, "max_tokens");
    update(&w, SAY("late"));
    update(&w, CALL("t", "\"title\":\"T\",\"status\":\"completed\""));
    finish(&w, "end_turn");
    cf_normalizer_file_changed(w.n, "create", "/x");
    expect_said(&w, "agent_message@2 {\"content\":\"a\"}\nfinished@3 {\"stop_reason\":\"max_tokens\"}\n");
    expect_found(&w, "late_update@4\nlate_update@5\nsecond_terminal@6\n");
    watch_turn(&w);
    update(&w, SAY("next"));
    finish(&w, "end_turn");
    expect_said(&w, "agent_message@7 {\"content\":\"next\"}\nfinished@8 {\"stop_reason\":\"end_turn\"}\n");
    watch_close(&w);
}
END_TEST

START_TEST(cost_is_the_difference_over_the_turn)
{
    struct watch w;

    watch_open_in_turn(&w, &nothing);
    update(&w, SAY("a"));
    update(&w, "{\"sessionUpdate\":\"usage_update\",\"used\":1,\"size\":2,\"cost\":{\"amount\":0.0312,\"currency\":\"USD\"}}");
    finish(&w, "end_turn");
    watch_turn(&w);
    update(&w, SAY("b"));
    update(&w, "{\"sessionUpdate\":\"usage_update\",\"used\":1,\"size\":2,\"cost\":{\"amount\":0.05,\"currency\":\"USD\"}}");
    update(&w, "{\"sessionUpdate\":\"usage_update\",\"used\":1,\"size\":2,\"cost\":{\"amount\":9,\"currency\":\"EUR\"}}");
    finish(&w, "end_turn");
    watch_turn(&w);
    update(&w, SAY("c"));
    update(&w, "{\"sessionUpdate\":\"usage_update\",\"used\":1,\"size\":2,\"cost\":{\"amount\":0.01,\"currency\":\"USD\"}}");
    finish(&w, "end_turn");
    expect_said(&w, "agent_message@2 {\"content\":\"a\"}\nfinished@4 {\"stop_reason\":\"end_turn\",\"vendor_reported_cost_microusd\":31200}\n"
                    "agent_message@5 {\"content\":\"b\"}\nfinished@8 {\"stop_reason\":\"end_turn\",\"vendor_reported_cost_microusd\":18800}\n"
                    "agent_message@9 {\"content\":\"c\"}\nfinished@11 {\"stop_reason\":\"end_turn\"}\n");
    expect_found(&w, "cost_ignored@7\ncost_ignored@11\n");
    watch_close(&w);
}
END_TEST

START_TEST(turn_telemetry_is_carried_or_ignored)
{
    struct watch w;
    json_t *good = js("{\"execution\":\"shell\",\"shell_commands\":1,\"filesystem_commands\":2,\"mcp_calls\":3,\"model_calls\":4,\"wall_time_ms\":5,\"model_transient_retries\":null}");
    json_t *bad = js("{\"execution\":\"shell\",\"shell_commands\":-1}");

    watch_open_in_turn(&w, &nothing);
    update(&w, SAY("a"));
    cf_normalizer_finished(w.n, "end_turn", good, 9);
    watch_turn(&w);
    update(&w, SAY("b"));
    cf_normalizer_finished(w.n, "end_turn", bad, 10);
    expect_said(&w, "agent_message@2 {\"content\":\"a\"}\nfinished@9 {\"stop_reason\":\"end_turn\",\"turn\":{\"execution\":\"shell\",\"shell_commands\":1,"
                    "\"filesystem_commands\":2,\"mcp_calls\":3,\"model_calls\":4,\"wall_time_ms\":5,\"model_transient_retries\":null}}\n"
                    "agent_message@3 {\"content\":\"b\"}\nfinished@10 {\"stop_reason\":\"end_turn\"}\n");
    expect_found(&w, "undecodable_meta@10\n");
    json_decref(good);
    json_decref(bad);
    watch_close(&w);
}
END_TEST

START_TEST(a_failure_flushes_and_says_its_type)
{
    struct watch w;
    struct cf_error err = {0};

    watch_open_in_turn(&w, &nothing);
    update(&w, SAY("half"));
    (void)cf_error_set(&err, CF_ERROR_TURN_DEADLINE, 0, "the turn took longer than 300 s");
    cf_normalizer_failed(w.n, &err, false, 7);
    expect_said(&w, "agent_message@2 {\"content\":\"half\"}\nfailed@7 {\"error\":{\"type\":\"runtime.turn_deadline_exceeded\",\"message\":\"the turn took longer than 300 s\"}}\n");
    expect_verdict(&w, TERMINAL_OBSERVATION, FAILED, "ended as failed: the turn took");
    watch_close(&w);

    watch_open(&w, true);
    (void)cf_error_set(&err, CF_ERROR_START_TIMEOUT, 0, "nothing came");
    cf_normalizer_failed(w.n, &err, true, 0);
    expect_said(&w, "retryable_failure@0 {\"error\":{\"type\":\"runtime.start_timeout\",\"message\":\"nothing came\"}}\n");
    expect_verdict(&w, READY_HANDSHAKE, FAILED, "no ready");
    watch_close(&w);
}
END_TEST

START_TEST(what_the_runner_says_is_carried)
{
    struct watch w;
    struct cf_buf long_output = {0};
    json_t *hook, *action = js("{\"kind\":\"custom_tool\",\"tool_use_id\":\"t\"}");

    for (int i = 0; i < 9000; i++)
        cf_buf_adds(&long_output, "o");
    hook = json_pack("{s:s,s:i,s:s,s:s,s:n,s:i,s:s,s:b}", "phase", "post_materialize", "ordinal", 0, "outcome", "passed",
                     "on_failure", "abort", "exit_code", "duration_ms", 5, "output", "fine", "output_truncated", 0);
    watch_open(&w, true);
    cf_normalizer_hook(w.n, hook);
    expect_said(&w, "lifecycle_hook@0 {\"phase\":\"post_materialize\",\"ordinal\":0,\"outcome\":\"passed\",\"on_failure\":\"abort\",\"exit_code\":null,\"duration_ms\":5,\"output\":\"fine\",\"output_truncated\":false}\n");
    json_object_set_new(hook, "output", json_string(long_output.data));
    cf_normalizer_hook(w.n, hook);
    ck_assert(strstr(w.log.data, "\"output_truncated\":true") != NULL && w.log.len < 8192 + 300);
    ck_assert_uint_eq(cf_normalizer_shortened(w.n), 1);
    watch_ready(&w, &nothing);
    watch_turn(&w);
    cf_buf_reset(&w.log);
    cf_normalizer_file_changed(w.n, "create", "/w/a");
    cf_normalizer_file_changed(w.n, "create", "/w/a");
    cf_normalizer_file_changed(w.n, "modify", "/w/a");
    cf_normalizer_file_changed(w.n, "modify", "");
    cf_normalizer_steering(w.n, "evt_0123456789abcdef0123456789abcdef", "queued", 4);
    cf_normalizer_requires_action(w.n, action, 5);
    update(&w, SAY("late"));
    expect_said(&w, "file_changed@0 {\"event\":\"create\",\"path\":\"/w/a\"}\nfile_changed@0 {\"event\":\"modify\",\"path\":\"/w/a\"}\n"
                    "steering@4 {\"event_id\":\"evt_0123456789abcdef0123456789abcdef\",\"disposition\":\"queued\"}\n"
                    "requires_action@5 {\"action\":{\"kind\":\"custom_tool\",\"tool_use_id\":\"t\"}}\n");
    json_t *counts = cf_normalizer_counts(w.n);
    cf_auto_free char *text = cf_json_dump(counts, NULL);
    ck_assert_str_eq(text, "{\"ready\":1,\"lifecycle_hook\":2,\"file_changed\":2,\"steering\":1,\"requires_action\":1}");
    json_decref(counts);
    json_decref(hook);
    json_decref(action);
    cf_buf_release(&long_output);
    watch_close(&w);
}
END_TEST

START_TEST(a_long_path_is_cut_counted_and_marked)
{
    struct watch w;
    char path[5000];

    memset(path, 'p', sizeof path);
    path[4096] = '\0';
    watch_open_in_turn(&w, &nothing);
    cf_normalizer_file_changed(w.n, "create", path);
    ck_assert_uint_eq(cf_normalizer_shortened(w.n), 0);
    path[4096] = 'p';
    path[4097] = '\0';
    cf_buf_reset(&w.log);
    cf_normalizer_file_changed(w.n, "create", path);
    ck_assert_uint_eq(cf_normalizer_shortened(w.n), 1);
    ck_assert(strstr(w.log.data, "p\xe2\x80\xa6\"}") != NULL);
    expect_found(&w, "shortened@0\n");
    watch_close(&w);
}
END_TEST

START_TEST(a_seed_makes_the_same_ids_again)
{
    char first[40] = "";

    for (int i = 0; i < 2; i++) {
        struct watch w;
        struct cf_normalizer_options options = {.is_acp = true, .on_observation = watch_observation, .user = &w, .seed = {1, 2, 3}};
        watch_open(&w, true);
        cf_normalizer_free(w.n);
        w.n = cf_normalizer_new(&options);
        watch_turn(&w);
        update(&w, "{\"sessionUpdate\":\"session_info_update\",\"_meta\":{\"checkfu.subagent\":{\"phase\":\"started\",\"subagent\":\"x\",\"name\":\"n\"}}}");
        ck_assert_uint_eq(w.minted_count, 1);
        if (i == 0)
            memcpy(first, w.minted[0], 37);
        ck_assert(strncmp(first, w.minted[0], 37) == 0);
        watch_close(&w);
    }
}
END_TEST

UNIT_MAIN("observe/normalizer", tcase_add_test(tc, chunks_of_a_run_are_one_message);
          tcase_add_test(tc, a_changed_message_id_is_a_new_message);
          tcase_add_test(tc, the_last_message_is_joined_over_its_observations);
          tcase_add_test(tc, text_is_split_at_the_bound_and_never_in_a_pair);
          tcase_add_test(tc, a_message_sent_whole_after_streaming_is_told_once);
          tcase_add_test(tc, text_that_only_looks_repeated_is_kept);
          tcase_add_test(tc, text_of_a_pipe_is_never_taken_for_repeated);
          tcase_add_test(tc, blocks_that_are_no_text_are_left_out_and_counted);
          tcase_add_test(tc, nothing_comes_after_the_terminal);
          tcase_add_test(tc, cost_is_the_difference_over_the_turn);
          tcase_add_test(tc, turn_telemetry_is_carried_or_ignored);
          tcase_add_test(tc, a_failure_flushes_and_says_its_type);
          tcase_add_test(tc, what_the_runner_says_is_carried);
          tcase_add_test(tc, a_long_path_is_cut_counted_and_marked);
          tcase_add_test(tc, a_seed_makes_the_same_ids_again);)
