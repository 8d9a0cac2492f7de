#include "diagnose/diagnose.h"

#include "base/buf.h"
#include "base/str.h"
#include "base/utf8.h"
#include "diagnose/seen.h"
#include "json/json.h"
#include "tests/support/unit.h"

#include <stdio.h>
#include <string.h>

/* What a good ACP run's result holds, as far as the checks look at it. */
static const char good[] =
    "{\"error\":null,\"image\":{\"digest\":\"sha256:00112233445566778899\",\"architecture\":\"amd64\",\"source\":\"image\"},"
    "\"isolation\":{\"network\":\"none\"},\"timings_ms\":{\"sandbox\":10,\"session\":5},\"capability_set\":{\"interrupt\":\"kill_only\"},"
    "\"harness\":{\"agent_info\":{\"name\":\"a\",\"version\":\"1\"}},"
    "\"turns\":[{\"turn\":1,\"outcome\":\"finished\",\"error\":null,\"took_ms\":7}],"
    "\"model_calls\":[{\"id\":1,\"turn\":1,\"method\":\"POST\",\"path\":\"/v1/messages\",\"nonce_seen\":true,\"answered_nonce\":true}],"
    "\"model_totals\":{\"served\":1},\"observations\":{\"count\":3},"
    "\"grammar\":[{\"id\":\"ready_handshake\",\"status\":\"passed\",\"summary\":\"s\",\"seq\":1,\"frame\":4},"
    "{\"id\":\"steering_delivered\",\"status\":\"skipped\",\"summary\":\"not exercised\",\"seq\":0,\"frame\":0}],"
    "\"teardown\":{\"proven\":true,\"removed\":[{}],\"left\":[],\"took_ms\":3}}";

struct scene {
    json_t *run;
    struct cf_diagnose_facts facts;
    json_t *checks;
};

static void
open_scene(struct scene *s, bool is_acp, const char *said)
{
    memset(s, 0, sizeof *s);
    s->run = cf_json_parse(good, strlen(good), NULL, NULL);
    s->facts.run = s->run;
    s->facts.is_acp = is_acp;
    s->facts.prompt_nonce[0] = "prompt-1";
    s->facts.answer_nonce[0] = "answer-1";
    s->facts.messages[0] = json_pack("[s]", said);
    s->facts.release = json_pack("{s:s, s:s}", "prompt_transport", "stdin", "output_mode", "text");
}

static void
judge(struct scene *s)
{
    json_decref(s->checks);
    s->checks = cf_diagnose_checks(&s->facts);
}

static void
close_scene(struct scene *s)
{
    json_decref(s->checks);
    json_decref(s->facts.messages[0]);
    json_decref(s->facts.release);
    json_decref(s->run);
}

static const char *
status(const struct scene *s, const char *id)
{
    json_t *check;
    size_t i;

    json_array_foreach(s->checks, i, check)
    {
        if (strcmp(cf_json_str(check, "id"), id) == 0)
            return cf_json_str(check, "status");
    }
    return "absent";
}

static json_t *
call_of(const struct scene *s)
{
    return json_array_get(json_object_get(s->run, "model_calls"), 0);
}

START_TEST(both_nonces_are_needed_and_enough)
{
    struct scene s;

    open_scene(&s, true, "it is answer-1.");
    judge(&s);
    ck_assert_str_eq(status(&s, "prompt_exchange"), "passed");
    ck_assert_str_eq(status(&s, "model_plane_reached"), "passed");
    ck_assert_str_eq(status(&s, "teardown_drained"), "passed");
    ck_assert_str_eq(status(&s, "steering_delivered"), "skipped");
    ck_assert_str_eq(status(&s, "resume"), "absent");
    ck_assert_str_eq(status(&s, "process_exchange"), "absent");
    close_scene(&s);
}
END_TEST

START_TEST(an_answer_in_two_messages_is_one_answer)
{
    struct scene s;

    open_scene(&s, true, "it is ans");
    json_array_append_new(s.facts.messages[0], json_string("wer-1"));
    judge(&s);
    ck_assert_str_eq(status(&s, "prompt_exchange"), "passed");
    close_scene(&s);
}
END_TEST

START_TEST(a_dropped_answer_fails_though_the_model_was_reached)
{
    struct scene s;

    open_scene(&s, true, "all fine!");
    judge(&s);
    ck_assert_str_eq(status(&s, "prompt_exchange"), "failed");
    ck_assert_str_eq(status(&s, "model_plane_reached"), "passed");
    close_scene(&s);
}
END_TEST

START_TEST(an_answer_without_a_call_fails)
{
    struct scene s;

    open_scene(&s, true, "it is answer-1.");
    json_array_clear(json_object_get(s.run, "model_calls"));
    judge(&s);
    ck_assert_str_eq(status(&s, "prompt_exchange"), "failed");
    ck_assert_str_eq(status(&s, "model_plane_reached"), "skipped"); /* one cause, one failure */
    close_scene(&s);
}
END_TEST

/* The one call became this; returns what prompt_exchange says of it. */
static const char *
after(struct scene *s, const char *changes)
{
    json_t *with = cf_json_parse(changes, strlen(changes), NULL, NULL);
    json_t *check;
    size_t i;

    ck_assert(json_object_update(call_of(s), with) == 0);
    json_decref(with);
    judge(s);
    ck_assert_str_eq(status(s, "model_plane_reached"), "passed");
    json_array_foreach(s->checks, i, check)
        if (strcmp(cf_json_str(check, "id"), "prompt_exchange") == 0)
            return cf_json_str(check, "summary");
    return "";
}

START_TEST(a_model_that_fails_is_not_blamed_on_the_harness)
{
    struct scene s;

    open_scene(&s, true, "sorry");
    ck_assert_ptr_null(cf_seen_model_failure(s.run));
    ck_assert_ptr_nonnull(strstr(after(&s, "{\"status\":400,\"rule\":\"no\",\"answered_nonce\":false}"),
                                 "rule no of the model script said 400"));
    ck_assert_ptr_nonnull(cf_seen_model_failure(s.run));
    ck_assert_ptr_nonnull(strstr(after(&s, "{\"status\":200,\"fault\":\"script\",\"answered_nonce\":true}"), "broke it off"));
    ck_assert_ptr_nonnull(cf_seen_model_failure(s.run));
    ck_assert_ptr_nonnull(strstr(after(&s, "{\"rule\":null,\"provider\":\"acme\",\"fault\":\"stalled\"}"), "acme broke it off (stalled)"));
    /* a title, asked of another model, carries the nonce, too: it changes nothing */
    json_array_append_new(json_object_get(s.run, "model_calls"),
                          json_pack("{s:i, s:i, s:s, s:b, s:b, s:i}", "id", 2, "turn", 1, "model_asked", "small",
                                    "nonce_seen", 1, "answered_nonce", 1, "status", 200));
    ck_assert_ptr_nonnull(strstr(after(&s, "{\"model_asked\":\"large\"}"), "acme broke it off (stalled)"));
    (void)after(&s, "{\"model_asked\":\"small\"}");
    ck_assert_ptr_null(cf_seen_model_failure(s.run));
    close_scene(&s);
}
END_TEST

START_TEST(a_refusal_after_the_call_with_the_nonce_is_the_reason)
{
    struct scene s;
    json_t *calls;

    open_scene(&s, true, "sorry");
    calls = json_object_get(s.run, "model_calls");
    json_array_append_new(calls, json_pack("{s:i, s:i, s:s, s:s, s:s, s:s}", "id", 2, "turn", 1, "method", "POST", "path",
                                           "/v1/messages", "refused", "cap", "hint", "no more"));
    ck_assert_str_eq(after(&s, "{\"answered_nonce\":false}"), "the relay refused POST /v1/messages (cap)");
    json_object_set_new(json_array_get(calls, 1), "refused", json_string("lease")); /* it came when all was over */
    ck_assert_ptr_nonnull(strstr(after(&s, "{}"), "held no answer nonce"));
    json_object_set_new(json_array_get(calls, 1), "refused", json_string("cap"));
    json_object_set_new(call_of(&s), "id", json_integer(3)); /* one before it is not */
    ck_assert_ptr_nonnull(strstr(after(&s, "{}"), "held no answer nonce"));
    close_scene(&s);
}
END_TEST

START_TEST(a_harness_that_leaves_in_the_middle_is)
{
    struct scene s;

    open_scene(&s, true, "sorry");
    ck_assert_ptr_nonnull(strstr(after(&s, "{\"status\":200,\"aborted\":true,\"answered_nonce\":false}"), "closed the connection"));
    ck_assert_ptr_null(cf_seen_model_failure(s.run));
    close_scene(&s);
}
END_TEST

START_TEST(refused_calls_and_probes_prove_nothing)
{
    struct scene s;

    open_scene(&s, true, "it is answer-1.");
    json_object_set_new(call_of(&s), "refused", json_string("path"));
    judge(&s);
    ck_assert_str_eq(status(&s, "prompt_exchange"), "failed");
    json_object_del(call_of(&s), "refused");
    json_object_set_new(call_of(&s), "probe", json_true());
    judge(&s);
    ck_assert_str_eq(status(&s, "prompt_exchange"), "failed");
    close_scene(&s);
}
END_TEST

START_TEST(an_unproven_teardown_fails_what_it_had_seen)
{
    static const char *const ids[] = {"initialize_handshake", "session_start", "prompt_exchange", "teardown_drained"};
    struct scene s;

    open_scene(&s, true, "it is answer-1.");
    json_object_set_new(json_object_get(s.run, "teardown"), "proven", json_false());
    judge(&s);
    for (size_t i = 0; i < CF_COUNT(ids); i++)
        ck_assert_msg(strcmp(status(&s, ids[i]), "failed") == 0, "%s", ids[i]);
    close_scene(&s);
    open_scene(&s, false, "it is answer-1.");
    json_object_set_new(json_object_get(s.run, "teardown"), "proven", json_false());
    judge(&s);
    ck_assert_str_eq(status(&s, "process_exchange"), "failed");
    close_scene(&s);
}
END_TEST

START_TEST(what_was_not_reached_is_skipped_never_passed)
{
    struct scene s;
    json_t *check;
    size_t i, passed = 0;

    open_scene(&s, false, "");
    json_object_del(s.run, "image");
    json_object_del(s.run, "isolation");
    json_array_clear(json_object_get(s.run, "turns"));
    json_array_clear(json_object_get(s.run, "model_calls"));
    judge(&s);
    json_array_foreach(s.checks, i, check)
    {
        passed += strcmp(cf_json_str(check, "status"), "passed") == 0;
    }
    ck_assert_uint_eq(passed, 1); /* the teardown alone */
    ck_assert_str_eq(status(&s, "image_resolved"), "failed");
    ck_assert_str_eq(status(&s, "process_exchange"), "skipped");
    ck_assert_str_eq(status(&s, "ready_handshake"), "skipped");
    close_scene(&s);
}
END_TEST

START_TEST(a_resume_that_knows_nothing_fails)
{
    struct scene s;
    json_t *second;

    open_scene(&s, false, "it is answer-1.");
    s.facts.has_resume = true;
    s.facts.answer_nonce[1] = "answer-2";
    s.facts.messages[1] = json_pack("[s]", "answer-2");
    json_array_append_new(json_object_get(s.run, "turns"), json_pack("{s:i, s:s}", "turn", 2, "outcome", "finished"));
    judge(&s);
    ck_assert_str_eq(status(&s, "resume"), "failed");
    second = json_pack("{s:i, s:i, s:b}", "id", 2, "turn", 2, "prior_nonce_seen", 1);
    json_array_append_new(json_object_get(s.run, "model_calls"), second);
    judge(&s);
    ck_assert_str_eq(status(&s, "resume"), "passed");
    json_decref(s.facts.messages[1]);
    close_scene(&s);
}
END_TEST

/* What image, sandbox and teardown show is true of any run. */
START_TEST(a_run_in_which_nothing_was_exercised_is_never_green)
{
    static const struct {
        const char *checks;
        bool is_green;
    } runs[] = {
        {"[]", false},
        {"[{\"id\":\"teardown_drained\",\"status\":\"passed\"}]", false},
        {"[{\"id\":\"image_resolved\",\"status\":\"passed\"},{\"id\":\"sandbox_provisioned\",\"status\":\"passed\"},"
         "{\"id\":\"prompt_exchange\",\"status\":\"skipped\"},{\"id\":\"teardown_drained\",\"status\":\"passed\"}]", false},
        {"[{\"id\":\"prompt_exchange\",\"status\":\"skipped\"}]", false},
        {"[{\"id\":\"prompt_exchange\",\"status\":\"passed\"},{\"id\":\"x\",\"status\":\"failed\"}]", false},
        {"[{\"id\":\"prompt_exchange\",\"status\":\"passed\"},{\"id\":\"x\",\"status\":\"skipped\"}]", true},
    };

    for (size_t i = 0; i < CF_COUNT(runs); i++) {
        json_t *checks = json_loads(runs[i].checks, 0, NULL);

        ck_assert_ptr_nonnull(checks);
        ck_assert_msg(cf_diagnose_is_shown(checks) == runs[i].is_green, "%s", runs[i].checks);
        json_decref(checks);
    }
}
END_TEST

START_TEST(exit_codes_have_their_order)
{
    ck_assert_int_eq(cf_diagnose_worse(1, 4), 4);
    ck_assert_int_eq(cf_diagnose_worse(130, 3), 130);
    ck_assert_int_eq(cf_diagnose_worse(5, 2), 2);
    ck_assert_int_eq(cf_diagnose_worse(0, 1), 1);
    ck_assert_int_eq(cf_diagnose_worse(0, 0), 0);
    ck_assert_int_eq(cf_diagnose_exit_code(CF_ERROR_NOT_FOUND), 3);
    ck_assert_int_eq(cf_diagnose_exit_code(CF_ERROR_IMAGE), 1);
    ck_assert_int_eq(cf_diagnose_exit_code(CF_ERROR_DEADLINE), 5);
}
END_TEST

START_TEST(next_steps_keep_every_flag_and_never_register_a_build)
{
    static const char *const retest[] = {"test", "oci", "--name", "n", "--build-context", "./x", "--sandbox", "s", NULL};
    struct cf_diagnose_options o = {.name = "n", .sandbox = "s", .retest_argv = retest};
    json_t *release = json_pack("{s:s, s:s, s:s, s:[s,s], s:s, s:s, s:s}", "image", "a/b@sha256:0", "entrypoint", "/x", "protocol",
                                "oneshot-v1", "argv", "--a b", "{resume_flag}", "prompt_transport", "stdin", "output_mode",
                                "text", "resume_flag", "--resume");
    json_t *steps = cf_diagnose_next_steps(&o, release, true, true);

    ck_assert(json_object_get(steps, "add") == NULL);
    ck_assert_str_eq(cf_json_str(json_object_get(steps, "retest"), "shell"),
                     "cfrunner test oci --name n --image 'n@sha256:<64-hex-digest>' --sandbox s");
    json_decref(steps);
    steps = cf_diagnose_next_steps(&o, release, false, true);
    ck_assert_str_eq(cf_json_str(json_object_get(steps, "add"), "shell"),
                     "checkfu harness add oci --name n --image a/b@sha256:0 --entrypoint /x --protocol oneshot-v1 "
                     "'--argv=--a b' '--argv={resume_flag}' --prompt-transport stdin --output-mode text "
                     "--resume-flag=--resume");
    ck_assert_str_eq(json_string_value(json_array_get(json_object_get(steps, "required_flags"), 0)), "--model");
    ck_assert(json_object_get(steps, "verify") == NULL);
    ck_assert(json_is_true(json_object_get(json_object_get(steps, "verify_template"), "template")));
    json_decref(steps);
    o.model = "m";
    o.connection_file = "c.json";
    steps = cf_diagnose_next_steps(&o, release, false, true);
    ck_assert_str_eq(cf_json_str(json_object_get(steps, "verify"), "shell"),
                     "checkfu harness verify n --sandbox s --model m --wait --connection-file c.json");
    json_decref(steps);
    steps = cf_diagnose_next_steps(&o, release, false, false);
    ck_assert_uint_eq(json_object_size(steps), 0);
    json_decref(steps);
    json_decref(release);
}
END_TEST

START_TEST(a_report_stays_in_its_columns_and_harmless)
{
    struct cf_report_style style = {.unicode = true, .columns = 80};
    struct cf_buf page;
    json_t *result = json_pack(
        "{s:s, s:s, s:s, s:s, s:i, s:[{s:s, s:s, s:s, s:s}], s:{s:[], s:[{s:s, s:s}]}, s:[{s:s, s:i, s:s}]}", "status",
        "failed", "name", "evil\033[2J\xe2\x80\xae name", "protocol", "acp-v1", "blame", "harness", "exit_code", 1, "checks",
        "id", "prompt_exchange", "status", "failed", "summary",
        "a word that is very longaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa \033]0;x\007",
        "fix", "do\nthis", "teardown", "removed", "left", "kind", "container", "id", "c\001", "findings", "id",
        "stdout_pollution", "frame", 1, "text", "Welcome\033[31m");

    cf_buf_init(&page, 0);
    cf_report_write(&page, result, &style);
    ck_assert(cf_utf8_is_valid(page.data, page.len));
    for (char *line = strtok(page.data, "\n"); line != NULL; line = strtok(NULL, "\n")) {
        ck_assert_msg(cf_utf16_units(line, strlen(line)) <= 80, "%s", line);
        for (char *c = line; *c; c++)
            ck_assert_msg((unsigned char)*c >= 0x20 && *c != 0x7f, "control in: %s", line);
    }
    cf_buf_release(&page);
    json_decref(result);
}
END_TEST

UNIT_MAIN("diagnose/checks", tcase_add_test(tc, both_nonces_are_needed_and_enough);
          tcase_add_test(tc, an_answer_in_two_messages_is_one_answer);
          tcase_add_test(tc, a_dropped_answer_fails_though_the_model_was_reached);
          tcase_add_test(tc, an_answer_without_a_call_fails);
          tcase_add_test(tc, a_model_that_fails_is_not_blamed_on_the_harness);
          tcase_add_test(tc, a_refusal_after_the_call_with_the_nonce_is_the_reason);
          tcase_add_test(tc, a_harness_that_leaves_in_the_middle_is); tcase_add_test(tc, refused_calls_and_probes_prove_nothing);
          tcase_add_test(tc, an_unproven_teardown_fails_what_it_had_seen);
          tcase_add_test(tc, what_was_not_reached_is_skipped_never_passed);
          tcase_add_test(tc, a_resume_that_knows_nothing_fails); tcase_add_test(tc, a_run_in_which_nothing_was_exercised_is_never_green);
          tcase_add_test(tc, exit_codes_have_their_order);
          tcase_add_test(tc, next_steps_keep_every_flag_and_never_register_a_build);
          tcase_add_test(tc, a_report_stays_in_its_columns_and_harmless);)
