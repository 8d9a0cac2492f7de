/* The table of `--torture quick`, its options, and what counts as a change of the verdict. */
#include "diagnose/torture.h"

#include "base/str.h"
#include "json/json.h"
#include "relay/script.h"
#include "run/options.h"
#include "tests/support/unit.h"

#include <string.h>

static json_t *
parse(const char *text)
{
    json_t *value = cf_json_parse(text, strlen(text), NULL, NULL);

    ck_assert_msg(value != NULL, "%s", text);
    return value;
}

static const struct cf_torture_trial *
trial(const char *id)
{
    for (size_t i = 0; i < cf_torture_quick_count; i++)
        if (strcmp(cf_torture_quick[i].id, id) == 0)
            return &cf_torture_quick[i];
    ck_abort_msg("no trial %s", id);
    return NULL;
}

START_TEST(every_trial_s_options_are_options_and_its_rules_are_a_script)
{
    json_t *base = parse("{\"name\":\"x\",\"relay\":{\"calls\":9}}");

    for (size_t i = 0; i < cf_torture_quick_count; i++) {
        json_t *options = cf_torture_options(&cf_torture_quick[i], base, 20000), *script;
        struct cf_run_options decoded;
        struct cf_script rules;
        struct cf_error err = {0};
        cf_auto_free char *text = cf_json_dump(options, NULL);

        ck_assert_msg(cf_run_options_decode(text, strlen(text), &decoded, &err) == 0, "%s: %s", cf_torture_quick[i].id, err.text);
        script = json_object_get(json_object_get(options, "relay"), "model_script");
        ck_assert_msg(cf_script_init(&rules, script, &err) == 0, "%s: %s", cf_torture_quick[i].id, err.text);
        ck_assert_int_eq(rules.rule_count > 0, cf_torture_quick[i].rules != NULL);
        ck_assert_uint_eq(decoded.turn_ms, 20000);
        ck_assert_uint_eq(decoded.calls, 9);
        ck_assert_msg(cf_torture_quick[i].perturb != NULL || cf_torture_quick[i].rules != NULL || cf_torture_quick[i].end_in != NULL,
                      "%s makes no trouble", cf_torture_quick[i].id);
        cf_script_release(&rules);
        cf_run_options_done(&decoded);
        json_decref(options);
    }
    json_decref(base);
}
END_TEST

START_TEST(what_would_be_written_twice_is_left_out_and_the_author_s_rules_stay_behind_ours)
{
    json_t *base = parse("{\"record\":\"r\",\"collect\":\"c\",\"state_out\":\"s\",\"journal\":{},\"deadlines_ms\":{\"turn\":500},"
                         "\"relay\":{\"ledger\":\"l\",\"model_script\":{\"rules\":[{\"name\":\"mine\",\"say\":[]}],\"otherwise\":\"refuse\"}}}");
    json_t *options = cf_torture_options(trial("model_429"), base, 20000), *script, *rules;

    script = json_object_get(json_object_get(options, "relay"), "model_script");
    rules = json_object_get(script, "rules");
    ck_assert_uint_eq(json_object_size(options), 2); /* relay, deadlines_ms */
    ck_assert_ptr_null(json_object_get(json_object_get(options, "relay"), "ledger"));
    ck_assert_uint_eq(json_array_size(rules), 2);
    ck_assert_str_eq(cf_json_str(json_array_get(rules, 0), "name"), "torture");
    ck_assert_str_eq(cf_json_str(json_array_get(rules, 1), "name"), "mine");
    ck_assert_str_eq(cf_json_str(script, "otherwise"), "refuse");
    ck_assert_int_eq(cf_json_int(json_object_get(options, "deadlines_ms"), "turn", 0), 500);
    json_decref(options);
    json_decref(base);
}
END_TEST

START_TEST(a_trial_that_cannot_show_anything_is_skipped_by_name)
{
    json_t *acp = parse("{\"protocol\":\"acp-v1\"}"), *path = parse("{\"protocol\":\"oneshot-v1\",\"prompt_transport\":\"argv_path\"}"),
           *stdin_ = parse("{\"protocol\":\"oneshot-v1\",\"prompt_transport\":\"stdin\"}");

    ck_assert_ptr_null(cf_torture_skip(trial("stdin_bytes"), acp));
    ck_assert_ptr_null(cf_torture_skip(trial("stdin_bytes"), stdin_));
    ck_assert_ptr_nonnull(cf_torture_skip(trial("stdin_bytes"), path));
    ck_assert_ptr_null(cf_torture_skip(trial("ended_in_session"), acp));
    ck_assert_ptr_nonnull(cf_torture_skip(trial("ended_in_session"), stdin_));
    json_decref(acp);
    json_decref(path);
    json_decref(stdin_);
}
END_TEST

/* ---- judging --------------------------------------------------------------------------------- */

static const char good[] = "{\"exit_code\":0,\"error\":null,\"teardown\":{\"proven\":true},\"checks\":["
                           "{\"id\":\"prompt_exchange\",\"status\":\"passed\",\"summary\":\"s\"},"
                           "{\"id\":\"terminal_observation\",\"status\":\"passed\",\"summary\":\"s\"},"
                           "{\"id\":\"tool_correlation\",\"status\":\"passed\",\"summary\":\"s\"},"
                           "{\"id\":\"resume\",\"status\":\"passed\",\"summary\":\"s\"}]}";

/* The status, for a result that is the good one with `change` merged into it. */
static const char *
judged(const char *id, const char *change, const char *outcome, const char *stop, size_t changed)
{
    static char status[16];
    json_t *base = parse(good), *result = parse(good), *merge = parse(change), *verdict;
    struct cf_torture_seen seen = {base, result, outcome, stop};

    (void)json_object_update(result, merge);
    verdict = cf_torture_judge(trial(id), &seen);
    ck_assert_ptr_nonnull(verdict);
    ck_assert(*cf_json_str(verdict, "summary") != '\0');
    ck_assert_uint_eq(json_array_size(json_object_get(verdict, "changed")), changed);
    (void)snprintf(status, sizeof status, "%s", cf_json_str(verdict, "status"));
    json_decref(verdict);
    json_decref(merge);
    json_decref(result);
    json_decref(base);
    return status;
}

#define CHECK(id, status, summary) "{\"id\":\"" id "\",\"status\":\"" status "\",\"summary\":\"" summary "\"}"
#define FAILED(...) "{\"exit_code\":1,\"checks\":[" __VA_ARGS__ "]}"
#define NO_ANSWER CHECK("prompt_exchange", "failed", "no answer")
#define ENDED CHECK("terminal_observation", "failed", "the turn ended as failed: x")

START_TEST(a_pass_is_the_same_verdict_and_a_failed_check_another)
{
    ck_assert_str_eq(judged("stdin_bytes", "{}", "finished", "end_turn", 0), "same");
    ck_assert_str_eq(judged("stdin_bytes", "{\"checks\":[" CHECK("resume", "skipped", "not asked") "]}", "finished", "end_turn", 0),
                     "same");
    ck_assert_str_eq(judged("stdin_bytes", FAILED(NO_ANSWER), "finished", "end_turn", 1), "changed");
    ck_assert_str_eq(judged("model_429", FAILED(NO_ANSWER "," ENDED), "failed", NULL, 2), "changed");
    ck_assert_str_eq(judged("stdin_bytes", "{\"exit_code\":5}", NULL, NULL, 0), "changed");
}
END_TEST

START_TEST(a_cut_answer_may_fail_the_turn_and_never_pass_for_a_whole_one)
{
    ck_assert_str_eq(judged("model_cut", FAILED(NO_ANSWER "," ENDED), "failed", NULL, 0), "told");
    ck_assert_str_eq(judged("model_cut", "{}", "finished", "end_turn", 0), "same");
    ck_assert_str_eq(judged("model_cut", FAILED(NO_ANSWER), "finished", "end_turn", 1), "changed");
    ck_assert_str_eq(judged("model_cut", FAILED(NO_ANSWER "," CHECK("terminal_observation", "failed", "two terminals")), "failed", NULL, 1),
                     "changed");
    ck_assert_str_eq(judged("model_cut",
                            "{\"exit_code\":1,\"error\":{\"type\":\"runtime.turn_deadline_exceeded\"},\"checks\":[" NO_ANSWER "]}",
                            "failed", NULL, 1),
                     "changed");
    ck_assert_str_eq(judged("model_cut", "{\"exit_code\":1,\"harness\":{\"exit\":{\"signal\":11}},\"checks\":[" NO_ANSWER "]}",
                            "failed", NULL, 1),
                     "changed");
}
END_TEST

START_TEST(a_canceled_turn_ends_as_interrupted_and_the_grammar_holds)
{
    ck_assert_str_eq(judged("canceled_at_model", FAILED(NO_ANSWER), "finished", "interrupted", 0), "ended");
    ck_assert_str_eq(judged("canceled_at_model", "{}", "finished", "end_turn", 0), "same");
    ck_assert_str_eq(judged("canceled_at_model", FAILED(NO_ANSWER "," CHECK("tool_correlation", "failed", "open use")), "finished",
                            "interrupted", 1),
                     "changed");
    ck_assert_str_eq(judged("canceled_at_model", FAILED(NO_ANSWER), NULL, NULL, 1), "changed");
    ck_assert_str_eq(judged("canceled_at_model", "{\"exit_code\":1,\"error\":{\"message\":\"not obeyed\"}}", "finished", "interrupted", 0),
                     "changed");
}
END_TEST

START_TEST(whatever_the_trial_a_teardown_that_is_not_proven_is_a_change)
{
    static const char *const ids[] = {"stdin_bytes", "model_cut", "canceled_at_prompt", "ended_in_turn"};

    for (size_t i = 0; i < CF_COUNT(ids); i++)
        ck_assert_str_eq(judged(ids[i], "{\"exit_code\":4,\"teardown\":{\"proven\":false}}", "finished", "end_turn", 0), "changed");
    ck_assert_str_eq(judged("ended_in_turn", "{\"exit_code\":130}", NULL, NULL, 0), "ended");
    ck_assert_str_eq(judged("ended_in_turn", "{}", "finished", "end_turn", 0), "skipped");
}
END_TEST

UNIT_MAIN("diagnose/torture", tcase_add_test(tc, every_trial_s_options_are_options_and_its_rules_are_a_script);
          tcase_add_test(tc, what_would_be_written_twice_is_left_out_and_the_author_s_rules_stay_behind_ours);
          tcase_add_test(tc, a_trial_that_cannot_show_anything_is_skipped_by_name);
          tcase_add_test(tc, a_pass_is_the_same_verdict_and_a_failed_check_another);
          tcase_add_test(tc, a_cut_answer_may_fail_the_turn_and_never_pass_for_a_whole_one);
          tcase_add_test(tc, a_canceled_turn_ends_as_interrupted_and_the_grammar_holds);
          tcase_add_test(tc, whatever_the_trial_a_teardown_that_is_not_proven_is_a_change);)
