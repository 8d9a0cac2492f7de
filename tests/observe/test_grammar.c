#include "tests/observe/watch.h"

static const struct cf_declaration nothing, all = {.subagents = true, .steer = true, .interrupt = true};

#define META(body) "{\"sessionUpdate\":\"session_info_update\",\"_meta\":{" body "}}"
#define SUB(body) META("\"checkfu.subagent\":{" body "}")
#define START(id) SUB("\"phase\":\"started\",\"subagent\":\"" id "\",\"name\":\"N" id "\"")
#define DONE(id, how) SUB("\"phase\":\"completed\",\"subagent\":\"" id "\",\"disposition\":\"" how "\"")
#define BY(id) "\"_meta\":{\"checkfu.subagent\":{\"phase\":\"activity\",\"subagent\":\"" id "\"}}"
#define SAY_BY(id, text) "{\"sessionUpdate\":\"agent_message_chunk\",\"content\":{\"type\":\"text\",\"text\":\"" text "\"}," BY(id) "}"
#define EVT "evt_0123456789abcdef0123456789abcdef"

START_TEST(two_nested_subagents_interleave)
{
    struct watch w;
    size_t len;

    watch_open_in_turn(&w, &all);
    update(&w, START("a"));
    update(&w, "{\"sessionUpdate\":\"session_info_update\",\"_meta\":{\"checkfu.subagent\":{\"phase\":\"started\",\"subagent\":\"b\",\"name\":\"NB\",\"description\":\"helps\"}}}");
    update(&w, SAY_BY("a", "from a "));
    update(&w, SAY_BY("b", "from b"));
    update(&w, SAY_BY("a", "again a"));
    update(&w, SAY("main"));
    update(&w, CALL("t", "\"title\":\"T\",\"status\":\"in_progress\"," BY("b")));
    update(&w, DONE("b", "failed"));
    update(&w, MORE("t", "\"status\":\"completed\""));
    update(&w, DONE("a", "completed"));
    ck_assert_str_eq(cf_normalizer_last_message(w.n, &len), "main");
    finish(&w, "end_turn");
    expect_said(&w, "subagent_started@2 {\"subagent\":\"SUB1\",\"name\":\"Na\"}\n"
                    "subagent_started@3 {\"subagent\":\"SUB2\",\"name\":\"NB\",\"description\":\"helps\"}\n"
                    "agent_message@4 {\"content\":\"from a \",\"subagent\":\"SUB1\"}\n"
                    "agent_message@5 {\"content\":\"from b\",\"subagent\":\"SUB2\"}\n"
                    "agent_message@6 {\"content\":\"again a\",\"subagent\":\"SUB1\"}\n"
                    "agent_message@7 {\"content\":\"main\"}\n"
                    "tool_use@8 {\"tool_use_id\":\"t\",\"tool\":\"harness:other\",\"args\":{},\"provider_tool_name\":\"T\",\"subagent\":\"SUB2\"}\n"
                    "subagent_completed@9 {\"subagent\":\"SUB2\",\"disposition\":\"failed\"}\n"
                    "tool_result@10 {\"tool_use_id\":\"t\",\"result\":null,\"subagent\":\"SUB2\"}\n"
                    "subagent_completed@11 {\"subagent\":\"SUB1\",\"disposition\":\"completed\"}\n"
                    "finished@12 {\"stop_reason\":\"end_turn\"}\n");
    expect_verdict(&w, SUBAGENT_CORRELATION, PASSED, "2 started, all settled");
    watch_close(&w);
}
END_TEST

static void
expect_subagent_failure(const struct cf_declaration *declared, const char *const *updates, const char *words, uint64_t frame)
{
    struct watch w;
    struct cf_grammar_result result;

    watch_open_in_turn(&w, declared);
    for (; *updates != NULL; updates++)
        update(&w, *updates);
    finish(&w, "end_turn");
    cf_grammar_result(w.g, CF_GRAMMAR_SUBAGENT_CORRELATION, &result);
    ck_assert_msg(result.verdict == CF_VERDICT_FAILED && strstr(result.summary, words) != NULL, "%s", result.summary);
    ck_assert_uint_eq(result.frame, frame);
    watch_close(&w);
}

START_TEST(subagents_that_break_the_rules_are_named)
{
    expect_subagent_failure(&nothing, (const char *const[]){START("a"), DONE("a", "completed"), NULL}, "not declared", 2);
    expect_subagent_failure(&nothing, (const char *const[]){DONE("a", "completed"), NULL}, "not declared", 2);
    expect_subagent_failure(&nothing, (const char *const[]){SAY_BY("a", "x"), NULL}, "never started", 2);
    expect_subagent_failure(&all, (const char *const[]){START("a"), START("a"), DONE("a", "completed"), NULL}, "started twice", 3);
    expect_subagent_failure(&all, (const char *const[]){START("a"), DONE("a", "completed"), DONE("a", "failed"), NULL}, "settled twice", 4);
    expect_subagent_failure(&all, (const char *const[]){START("a"), NULL}, "1 subagents had not settled", 3);
    expect_subagent_failure(&all, (const char *const[]){SAY_BY("a", "x"), START("a"), DONE("a", "completed"), NULL}, "never started", 2);
    expect_subagent_failure(&all, (const char *const[]){DONE("a", "completed"), NULL}, "without a start", 2);
    expect_subagent_failure(&all, (const char *const[]){START("a"), DONE("a", "completed"), SAY_BY("a", "x"), NULL}, "had settled", 4);
}
END_TEST

START_TEST(a_call_first_met_in_a_permission_keeps_its_author)
{
    struct watch w;
    json_t *call = js("{\"toolCallId\":\"p\",\"_meta\":{\"checkfu.subagent\":{\"phase\":\"activity\",\"subagent\":\"a\"}}}");

    watch_open_in_turn(&w, &all);
    update(&w, START("a"));
    cf_normalizer_permission(w.n, call, 9);
    update(&w, DONE("a", "completed"));
    update(&w, MORE("p", "\"status\":\"completed\""));
    expect_said(&w, "subagent_started@2 {\"subagent\":\"SUB1\",\"name\":\"Na\"}\n"
                    "tool_use@9 {\"tool_use_id\":\"p\",\"tool\":\"harness:other\",\"args\":{},\"subagent\":\"SUB1\"}\n"
                    "subagent_completed@3 {\"subagent\":\"SUB1\",\"disposition\":\"completed\"}\n"
                    "tool_result@4 {\"tool_use_id\":\"p\",\"result\":null,\"subagent\":\"SUB1\"}\n");
    finish(&w, "end_turn");
    expect_verdict(&w, SUBAGENT_CORRELATION, PASSED, "1 started");
    json_decref(call);
    watch_close(&w);
}
END_TEST

START_TEST(an_interrupted_turn_settles_its_subagents)
{
    struct watch w;

    watch_open_in_turn(&w, &all);
    update(&w, START("a"));
    update(&w, SAY_BY("a", "x"));
    finish(&w, "interrupted");
    expect_said(&w, "subagent_started@2 {\"subagent\":\"SUB1\",\"name\":\"Na\"}\nagent_message@3 {\"content\":\"x\",\"subagent\":\"SUB1\"}\n"
                    "subagent_completed@4 {\"subagent\":\"SUB1\",\"disposition\":\"canceled\"}\nfinished@4 {\"stop_reason\":\"interrupted\"}\n");
    expect_verdict(&w, SUBAGENT_CORRELATION, PASSED, "1 started");
    expect_verdict(&w, TERMINAL_OBSERVATION, PASSED, "interrupted");
    watch_close(&w);
}
END_TEST

START_TEST(undecodable_and_unknown_members_are_ignored_and_counted)
{
    struct watch w;

    watch_open_in_turn(&w, &all);
    update(&w, SUB("\"phase\":\"started\",\"subagent\":\"\",\"name\":\"n\""));
    update(&w, META("\"checkfu.subagent\":\"odd\",\"checkfu.telepathy\":1,\"vendor.x\":2"));
    update(&w, META("\"checkfu.compaction\":{\"strategy\":\"wild\",\"tokens_before\":1,\"tokens_after\":0}"));
    update(&w, META("\"checkfu.compaction\":{\"strategy\":\"native\",\"tokens_before\":900,\"tokens_after\":90,\"compacted_messages\":7}"));
    update(&w, META("\"checkfu.journal_checkpoint\":{\"version\":1,\"state\":\"S1\"}"));
    update(&w, META("\"checkfu.journal_checkpoint\":{\"version\":2,\"state\":\"S2\"}"));
    json_t *params = js("{\"sessionId\":\"s\",\"_meta\":{\"checkfu.subagent\":{\"phase\":\"activity\",\"subagent\":\"a\"}},\"update\":" SAY("plain") "}");
    cf_normalizer_update(w.n, params, json_object_get(params, "update"), 20);
    json_decref(params);
    finish(&w, "end_turn");
    update(&w, META("\"checkfu.journal_checkpoint\":{\"version\":1,\"too_large\":true}"));
    expect_said(&w, "context_compacted@5 {\"strategy\":\"native\",\"tokens_before\":900,\"tokens_after\":90,\"compacted_messages\":7}\n"
                    "agent_message@20 {\"content\":\"plain\"}\nfinished@8 {\"stop_reason\":\"end_turn\"}\n");
    expect_found(&w, "undecodable_meta@2\nunknown_meta@3\nundecodable_meta@3\nundecodable_meta@4\ncheckpoint S1@6\nundecodable_meta@7\n"
                     "misplaced_meta@20\ncheckpoint dropped@9\n");
    ck_assert_ptr_null(w.checkpoint);
    expect_verdict(&w, SUBAGENT_CORRELATION, SKIPPED, "no subagent was seen");
    watch_close(&w);
}
END_TEST

START_TEST(steering_is_acknowledged_exactly_once)
{
    struct watch w;

    watch_open_in_turn(&w, &all);
    expect_verdict(&w, STEERING_CORRELATION, PASSED, "none owed");
    expect_verdict(&w, STEERING_DELIVERED, SKIPPED, "no steer was sent");
    cf_grammar_steer_sent(w.g, EVT);
    cf_grammar_steer_sent(w.g, EVT);
    expect_verdict(&w, STEERING_CORRELATION, FAILED, "never acknowledged");
    expect_verdict(&w, STEERING_DELIVERED, FAILED, "never acknowledged");
    cf_normalizer_steering(w.n, EVT, "queued", 4);
    expect_verdict(&w, STEERING_CORRELATION, PASSED, "1 acknowledged");
    expect_verdict(&w, STEERING_DELIVERED, PASSED, "1 delivered or queued");
    cf_normalizer_steering(w.n, EVT, "delivered", 5);
    expect_verdict(&w, STEERING_CORRELATION, FAILED, "twice");
    watch_close(&w);

    watch_open_in_turn(&w, &all);
    cf_grammar_steer_sent(w.g, EVT);
    cf_normalizer_steering(w.n, EVT, "refused", 4);
    expect_verdict(&w, STEERING_CORRELATION, PASSED, "");
    expect_verdict(&w, STEERING_DELIVERED, FAILED, "refused");
    cf_normalizer_steering(w.n, "evt_ffffffffffffffffffffffffffffffff", "queued", 5);
    expect_verdict(&w, STEERING_CORRELATION, FAILED, "was never steered");
    watch_close(&w);

    watch_open_in_turn(&w, &nothing);
    expect_verdict(&w, STEERING_DELIVERED, PASSED, "members absent");
    cf_normalizer_steering(w.n, EVT, "queued", 4);
    expect_verdict(&w, STEERING_CORRELATION, FAILED, "without declared");
    expect_verdict(&w, STEERING_DELIVERED, FAILED, "not declared");
    watch_close(&w);
}
END_TEST

START_TEST(a_drain_has_three_ends_and_two_skips)
{
    struct watch w;

    watch_open_in_turn(&w, &nothing);
    expect_verdict(&w, COOPERATIVE_INTERRUPT_DRAINED, SKIPPED, "not declared");
    watch_close(&w);
    watch_open_in_turn(&w, &all);
    expect_verdict(&w, COOPERATIVE_INTERRUPT_DRAINED, SKIPPED, "no drain was asked");
    cf_grammar_drain_sent(w.g);
    expect_verdict(&w, COOPERATIVE_INTERRUPT_DRAINED, FAILED, "never answered");
    cf_grammar_drain_answered(w.g, "draining");
    expect_verdict(&w, COOPERATIVE_INTERRUPT_DRAINED, FAILED, "did not settle");
    finish(&w, "interrupted");
    expect_verdict(&w, COOPERATIVE_INTERRUPT_DRAINED, PASSED, "finished as interrupted");
    watch_close(&w);
    watch_open_in_turn(&w, &all);
    cf_grammar_drain_sent(w.g);
    cf_grammar_drain_answered(w.g, "refused");
    expect_verdict(&w, COOPERATIVE_INTERRUPT_DRAINED, FAILED, "refused");
    watch_close(&w);
    watch_open_in_turn(&w, &all);
    cf_grammar_drain_sent(w.g);
    finish(&w, "end_turn");
    cf_grammar_drain_answered(w.g, "draining"); /* overtaken by the turn's end */
    expect_verdict(&w, COOPERATIVE_INTERRUPT_DRAINED, PASSED, "end_turn");
    watch_close(&w);
}
END_TEST

/* Observations that no normalizer of ours would write, straight into the grammar. */
static int
feed(struct cf_grammar *g, uint32_t type, const char *id, uint64_t seq)
{
    struct cf_observation o = {.type = type, .tool_use_id = id, .seq = seq, .frame = seq * 10, .detail = "end_turn"};

    return cf_grammar_feed(g, &o);
}

static void
expect_result(struct cf_grammar *g, enum cf_grammar_check check, enum cf_verdict verdict, const char *words, uint64_t seq)
{
    struct cf_grammar_result result;

    cf_grammar_result(g, check, &result);
    ck_assert_msg(result.verdict == verdict && strstr(result.summary, words) != NULL && (seq == 0 || result.seq == seq),
                  "%s: %d %s (%d)", result.id, result.verdict, result.summary, (int)result.seq);
}

START_TEST(ready_comes_once_and_first)
{
    struct cf_grammar *g = cf_grammar_new(true);

    ck_assert_int_eq(feed(g, CF_OBSERVATION_LIFECYCLE_HOOK, NULL, 1), 0);
    ck_assert_int_eq(feed(g, CF_OBSERVATION_READY, NULL, 2), 0);
    expect_result(g, CF_GRAMMAR_READY_HANDSHAKE, CF_VERDICT_PASSED, "", 2);
    ck_assert_int_eq(feed(g, CF_OBSERVATION_READY, NULL, 3), -1);
    ck_assert_int_eq(feed(g, CF_OBSERVATION_READY, NULL, 4), 0);
    expect_result(g, CF_GRAMMAR_READY_HANDSHAKE, CF_VERDICT_FAILED, "second ready", 3);
    cf_grammar_free(g);
    g = cf_grammar_new(true);
    ck_assert_int_eq(feed(g, CF_OBSERVATION_AGENT_THINKING, NULL, 1), -1);
    ck_assert_int_eq(feed(g, CF_OBSERVATION_READY, NULL, 2), 0);
    expect_result(g, CF_GRAMMAR_READY_HANDSHAKE, CF_VERDICT_FAILED, "agent_thinking came before ready", 1);
    cf_grammar_free(g);
    g = cf_grammar_new(false);
    expect_result(g, CF_GRAMMAR_READY_HANDSHAKE, CF_VERDICT_FAILED, "no ready", 0);
    cf_grammar_free(g);
}
END_TEST

START_TEST(each_turn_has_one_terminal_and_nothing_after_it)
{
    struct cf_grammar *g = cf_grammar_new(true);

    (void)feed(g, CF_OBSERVATION_READY, NULL, 1);
    expect_result(g, CF_GRAMMAR_TERMINAL_OBSERVATION, CF_VERDICT_SKIPPED, "no turn", 0);
    cf_grammar_turn_begin(g);
    ck_assert_int_eq(feed(g, CF_OBSERVATION_FINISHED, NULL, 2), 0);
    ck_assert_int_eq(feed(g, CF_OBSERVATION_LIFECYCLE_HOOK, NULL, 3), 0);
    cf_grammar_turn_end(g);
    cf_grammar_turn_begin(g);
    ck_assert_int_eq(feed(g, CF_OBSERVATION_FINISHED, NULL, 4), 0);
    cf_grammar_turn_end(g);
    expect_result(g, CF_GRAMMAR_TERMINAL_OBSERVATION, CF_VERDICT_PASSED, "end_turn, 2 turns", 0);
    ck_assert_int_eq(feed(g, CF_OBSERVATION_AGENT_MESSAGE, NULL, 5), -1);
    expect_result(g, CF_GRAMMAR_TERMINAL_OBSERVATION, CF_VERDICT_FAILED, "agent_message came after", 5);
    cf_grammar_free(g);
    g = cf_grammar_new(true);
    cf_grammar_turn_begin(g);
    (void)feed(g, CF_OBSERVATION_REQUIRES_ACTION, NULL, 1);
    cf_grammar_turn_end(g);
    expect_result(g, CF_GRAMMAR_TERMINAL_OBSERVATION, CF_VERDICT_FAILED, "ended with requires_action", 1);
    cf_grammar_free(g);
}
END_TEST

START_TEST(tool_ids_are_unique_in_the_run)
{
    struct cf_grammar *g = cf_grammar_new(false);

    (void)feed(g, CF_OBSERVATION_READY, NULL, 1);
    cf_grammar_turn_begin(g);
    ck_assert_int_eq(feed(g, CF_OBSERVATION_TOOL_USE, "a", 2), 0);
    ck_assert_int_eq(feed(g, CF_OBSERVATION_TOOL_RESULT, "a", 3), 0);
    cf_grammar_turn_begin(g);
    ck_assert_int_eq(feed(g, CF_OBSERVATION_TOOL_USE, "a", 4), -1);
    expect_result(g, CF_GRAMMAR_TOOL_CORRELATION, CF_VERDICT_FAILED, "\"a\" was used before", 4);
    ck_assert_int_eq(feed(g, CF_OBSERVATION_TOOL_RESULT, "b", 5), 0);
    cf_grammar_free(g);
}
END_TEST

START_TEST(a_summary_is_a_line_of_valid_text)
{
    struct cf_grammar *g = cf_grammar_new(true);
    struct cf_grammar_result result;
    char id[200] = "x\n";

    while (strlen(id) < 150)
        strcat(id, "\xe2\x82\xac");
    (void)feed(g, CF_OBSERVATION_READY, NULL, 1);
    (void)feed(g, CF_OBSERVATION_TOOL_RESULT, id, 2);
    cf_grammar_result(g, CF_GRAMMAR_TOOL_CORRELATION, &result);
    json_t *text = json_string(result.summary);
    ck_assert_msg(text != NULL && strchr(result.summary, '\n') == NULL, "%s", result.summary);
    json_decref(text);
    cf_grammar_free(g);
}
END_TEST

START_TEST(a_one_shot_process_has_no_steering_to_judge)
{
    struct cf_grammar *g = cf_grammar_new(false);

    expect_result(g, CF_GRAMMAR_STEERING_DELIVERED, CF_VERDICT_SKIPPED, "no such channel", 0);
    expect_result(g, CF_GRAMMAR_SUBAGENT_CORRELATION, CF_VERDICT_SKIPPED, "no such channel", 0);
    expect_result(g, CF_GRAMMAR_TOOL_CORRELATION, CF_VERDICT_PASSED, "0 uses", 0);
    cf_grammar_free(g);
}
END_TEST

UNIT_MAIN("observe/grammar", tcase_add_test(tc, two_nested_subagents_interleave);
          tcase_add_test(tc, subagents_that_break_the_rules_are_named);
          tcase_add_test(tc, a_call_first_met_in_a_permission_keeps_its_author);
          tcase_add_test(tc, an_interrupted_turn_settles_its_subagents);
          tcase_add_test(tc, undecodable_and_unknown_members_are_ignored_and_counted);
          tcase_add_test(tc, steering_is_acknowledged_exactly_once);
          tcase_add_test(tc, a_drain_has_three_ends_and_two_skips);
          tcase_add_test(tc, ready_comes_once_and_first);
          tcase_add_test(tc, each_turn_has_one_terminal_and_nothing_after_it);
          tcase_add_test(tc, a_summary_is_a_line_of_valid_text);
          tcase_add_test(tc, a_one_shot_process_has_no_steering_to_judge);
          tcase_add_test(tc, tool_ids_are_unique_in_the_run);)
