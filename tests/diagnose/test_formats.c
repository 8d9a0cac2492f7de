#include "diagnose/formats.h"

#include "base/str.h"
#include "base/utf8.h"
#include "json/json.h"
#include "tests/support/unit.h"

#include <stdio.h>
#include <string.h>

#define DIGEST "sha256:00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff"
#define SECRET "a \\\"quoted\\\" secret"

/* A diagnostic in which everything that may hold foreign words holds the worst of them. */
static const char evil[] =
    "{\"name\":\"n\\u202e<b>\",\"protocol\":\"acp-v1\",\"blame\":\"harness\",\"image\":{\"reference\":\"r|`<\",\"digest\":\"" DIGEST "\"},"
    "\"checks\":[{\"id\":\"image_resolved\",\"status\":\"passed\",\"summary\":\"" SECRET "\",\"evidence\":[]},"
    "{\"id\":\"prompt_exchange\",\"status\":\"failed\",\"summary\":\"]]></failure><script>\\u0001\\u202e # SKIP x\\nok 9\","
    "\"evidence\":[{\"frame\":3}],\"fix\":\"do\\nthis\"},"
    "{\"id\":\"steering_delivered\",\"status\":\"skipped\",\"summary\":\"not declared\",\"evidence\":[]}],"
    "\"findings\":[{\"id\":\"stdout_pollution\",\"frame\":1,\"text\":\"| <img> `x`\"}],"
    "\"harness\":{\"stderr_tail\":\"cfr_00112233445566778899aabbccddeeff\\n```\\n<script>\"},"
    "\"declared\":{\"release\":{\"b\":1,\"a\":\"x\"}},\"timings_ms\":{\"total\":1500,\"image\":20},\"exit_code\":1}";

struct scene {
    struct cf_mask *mask;
    struct cf_outcome outcome;
    struct cf_buf text;
};

static void
open_scene(struct scene *s, const char *result_json, int exit_code)
{
    json_t *options = json_pack("{s:{s:s, s:s}}", "env", "TOKEN", "a \"quoted\" secret", "SHORT", "passed");
    json_t *result = cf_json_parse(result_json, strlen(result_json), NULL, NULL);

    memset(s, 0, sizeof *s);
    ck_assert_ptr_nonnull(result);
    s->mask = cf_mask_new(options);
    ck_assert_ptr_nonnull(s->mask);
    ck_assert_int_eq(cf_outcome_init(&s->outcome, "test oci", result, exit_code, NULL, s->mask), 0);
    cf_buf_init(&s->text, 0);
    json_decref(result);
    json_decref(options);
}

static void
close_scene(struct scene *s)
{
    cf_buf_release(&s->text);
    cf_outcome_release(&s->outcome);
    cf_mask_free(s->mask);
}

static bool
has(const struct scene *s, const char *what)
{
    return memmem(s->text.data, s->text.len, what, strlen(what)) != NULL;
}

START_TEST(secrets_are_struck_as_they_are_and_as_a_frame_quotes_them)
{
    struct scene s;
    char frame[] = "{\"x\":\"a \\\"quoted\\\" secret\"} cfr_00112233445566778899aabbccddeeff cfr_0011 passed";

    open_scene(&s, evil, 1);
    cf_mask_bytes(s.mask, frame, strlen(frame));
    ck_assert_str_eq(frame, "{\"x\":\"*******************\"} ************************************ cfr_0011 passed");
    ck_assert_str_eq(cf_json_str(json_array_get(s.outcome.checks, 0), "summary"), "*****************");
    ck_assert_str_eq(cf_json_str(json_array_get(s.outcome.checks, 0), "status"), "passed");
    close_scene(&s);
}
END_TEST

START_TEST(xml_holds_no_mark_and_no_control_of_strangers)
{
    struct scene s;

    open_scene(&s, evil, 1);
    cf_format_junit(&s.text, &s.outcome);
    ck_assert(cf_utf8_is_valid(s.text.data, s.text.len));
    ck_assert(!has(&s, "<script") && !has(&s, "<b>") && !has(&s, "]]></f") && !has(&s, "\xe2\x80\xae"));
    for (size_t i = 0; i < s.text.len; i++)
        ck_assert((unsigned char)s.text.data[i] >= 0x20 || s.text.data[i] == '\n');
    ck_assert(has(&s, "tests=\"3\" failures=\"1\" errors=\"0\" skipped=\"1\" time=\"1.500\""));
    ck_assert(has(&s, "time=\"0.020\"") && has(&s, "&#60;script&#62;") && has(&s, "***"));
    close_scene(&s);
}
END_TEST

START_TEST(tap_stays_a_line_a_check_and_gets_no_directive_from_outside)
{
    struct scene s;
    int lines = 0, skips = 0;

    open_scene(&s, evil, 1);
    cf_format_tap(&s.text, &s.outcome);
    ck_assert(cf_utf8_is_valid(s.text.data, s.text.len));
    for (char *line = strtok(s.text.data, "\n"); line != NULL; line = strtok(NULL, "\n")) {
        bool is_check = cf_str_starts(line, "ok ") || cf_str_starts(line, "not ok ");
        lines += is_check;
        skips += is_check && strstr(line, " # SKIP ") != NULL;
    }
    ck_assert_int_eq(lines, 3);
    ck_assert_int_eq(skips, 1);
    close_scene(&s);
}
END_TEST

START_TEST(markdown_gets_no_marks_from_outside)
{
    struct scene s;

    open_scene(&s, evil, 1);
    cf_format_summary(&s.text, &s.outcome);
    ck_assert(cf_utf8_is_valid(s.text.data, s.text.len));
    ck_assert(!has(&s, "<img") && !has(&s, "<b>") && !has(&s, "\xe2\x80\xae") && !has(&s, "\n```"));
    ck_assert(has(&s, "**1 of 3 proven** \xc2\xb7 1 failed \xc2\xb7 1 skipped"));
    ck_assert(has(&s, "&#60;script&#62;"));
    close_scene(&s);
}
END_TEST

START_TEST(sarif_has_a_result_for_what_failed_and_a_note_for_what_was_skipped)
{
    struct scene s;
    json_t *log, *run, *rules, *result;
    size_t i;

    open_scene(&s, evil, 1);
    cf_format_sarif(&s.text, &s.outcome);
    log = cf_json_parse(s.text.data, s.text.len, NULL, NULL);
    run = json_array_get(json_object_get(log, "runs"), 0);
    rules = json_object_get(cf_json_obj(cf_json_obj(run, "tool"), "driver"), "rules");
    ck_assert_uint_eq(json_array_size(json_object_get(run, "results")), 2);
    json_array_foreach(json_object_get(run, "results"), i, result)
        ck_assert_str_eq(cf_json_str(result, "ruleId"),
                         cf_json_str(json_array_get(rules, (size_t)cf_json_int(result, "ruleIndex", 99)), "id"));
    result = json_array_get(json_object_get(run, "invocations"), 0);
    ck_assert(cf_json_bool(result, "executionSuccessful", false));
    ck_assert_uint_eq(json_array_size(json_object_get(result, "toolExecutionNotifications")), 1);
    json_decref(log);
    close_scene(&s);
}
END_TEST

START_TEST(a_statement_is_about_a_digest_or_it_is_not)
{
    struct scene s;
    struct cf_error err = {0};

    open_scene(&s, evil, 1);
    ck_assert_int_eq(cf_format_statement(&s.text, &s.outcome, &err), 0);
    ck_assert(has(&s, "\"digest\":{\"sha256\":\"00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff\"}"));
    ck_assert(has(&s, "\"failedTests\":[\"prompt_exchange\"]") && has(&s, "\"result\":\"FAILED\"") && has(&s, "\"signed\":false"));
    ck_assert(has(&s, "{\"_type\":\"https://in-toto.io/Statement/v1\",\"predicate\":{\"cfrunner\":{\"blame\":"));
    close_scene(&s);

    open_scene(&s, "{\"checks\":[],\"image\":{\"digest\":\"sha256:abc\"}}", 3);
    ck_assert_int_eq(cf_format_statement(&s.text, &s.outcome, &err), -1);
    ck_assert_int_eq(err.kind, CF_ERROR_CONFIG);
    ck_assert_uint_eq(s.text.len, 0);
    close_scene(&s);
}
END_TEST

START_TEST(no_file_is_green_when_the_exit_code_is_not)
{
    struct scene s;

    open_scene(&s, "{\"checks\":[{\"id\":\"a\",\"status\":\"passed\",\"summary\":\"s\",\"evidence\":[]}],\"error\":null}", 130);
    ck_assert_uint_eq(s.outcome.failed, 1);
    ck_assert_str_eq(cf_json_str(json_array_get(s.outcome.checks, 1), "id"), "verdict");
    cf_format_tap(&s.text, &s.outcome);
    ck_assert(has(&s, "not ok 2 - verdict: interrupted with exit code 130"));
    cf_buf_reset(&s.text);
    cf_format_junit(&s.text, &s.outcome);
    ck_assert(has(&s, "failures=\"0\" errors=\"1\""));
    close_scene(&s);
}
END_TEST

START_TEST(a_run_is_told_by_its_turns_its_grammar_and_its_teardown)
{
    struct scene s;

    open_scene(&s,
               "{\"turns\":[{\"turn\":1,\"outcome\":\"finished\",\"stop_reason\":\"end_turn\",\"error\":null,\"took_ms\":4},"
               "{\"turn\":2,\"outcome\":\"failed\",\"stop_reason\":null,\"error\":{\"message\":\"why\",\"fix\":\"how\"},\"took_ms\":4}],"
               "\"grammar\":[{\"id\":\"tool_correlation\",\"status\":\"skipped\",\"summary\":\"s\",\"seq\":0,\"frame\":0}],"
               "\"teardown\":{\"proven\":true,\"removed\":[{}],\"left\":[],\"took_ms\":3}}",
               1);
    ck_assert_uint_eq(s.outcome.passed, 2);
    ck_assert_uint_eq(s.outcome.failed, 1);
    ck_assert_uint_eq(s.outcome.skipped, 1);
    ck_assert_str_eq(cf_json_str(json_array_get(s.outcome.checks, 1), "summary"), "why");
    ck_assert_str_eq(cf_json_str(json_array_get(s.outcome.checks, 1), "fix"), "how");
    close_scene(&s);
}
END_TEST

UNIT_MAIN("diagnose/formats", tcase_add_test(tc, secrets_are_struck_as_they_are_and_as_a_frame_quotes_them);
          tcase_add_test(tc, xml_holds_no_mark_and_no_control_of_strangers);
          tcase_add_test(tc, tap_stays_a_line_a_check_and_gets_no_directive_from_outside);
          tcase_add_test(tc, markdown_gets_no_marks_from_outside);
          tcase_add_test(tc, sarif_has_a_result_for_what_failed_and_a_note_for_what_was_skipped);
          tcase_add_test(tc, a_statement_is_about_a_digest_or_it_is_not);
          tcase_add_test(tc, no_file_is_green_when_the_exit_code_is_not);
          tcase_add_test(tc, a_run_is_told_by_its_turns_its_grammar_and_its_teardown);)
