#include "diagnose/draw.h"

#include "base/buf.h"
#include "diagnose/diagnose.h"
#include "json/json.h"
#include "tests/support/unit.h"

#include <stdio.h>
#include <string.h>

static char drawn[4096];

static struct cf_page
page_of(struct cf_buf *bytes, bool color, bool unicode)
{
    return (struct cf_page){bytes, color, unicode, 30};
}

static const char *
finish(struct cf_buf *bytes)
{
    (void)snprintf(drawn, sizeof drawn, "%s", bytes->data != NULL ? bytes->data : "");
    cf_buf_release(bytes);
    return drawn;
}

START_TEST(columns_are_those_of_a_terminal)
{
    ck_assert_uint_eq(cf_draw_width("abc"), 3);
    ck_assert_uint_eq(cf_draw_width("\xe6\x97\xa5\xe6\x9c\xac"), 4);     /* two wide ones */
    ck_assert_uint_eq(cf_draw_width("e\xcc\x81"), 1);                    /* an accent of its own */
    ck_assert_uint_eq(cf_draw_width("\xf0\x9f\x98\x80"), 2);
    ck_assert_uint_eq(cf_draw_width("\xe2\x9c\x93 \xe2\x80\xa6"), 3);
}
END_TEST

START_TEST(what_is_cut_says_so_and_keeps_its_columns)
{
    struct cf_buf bytes = {0};
    struct cf_page page = page_of(&bytes, false, true);

    ck_assert_uint_eq(cf_draw_cut(&page, CF_PLAIN, "abcdefgh", 5), 5);
    ck_assert_uint_eq(cf_draw_cut(&page, CF_PLAIN, "\xe6\x97\xa5\xe6\x97\xa5\xe6\x97\xa5", 4), 3);
    ck_assert_str_eq(finish(&bytes), "abcd\xe2\x80\xa6\xe6\x97\xa5\xe2\x80\xa6");
    page = page_of(&bytes, false, false);
    ck_assert_uint_eq(cf_draw_cut(&page, CF_PLAIN, "abcdefgh", 5), 5);
    ck_assert_str_eq(finish(&bytes), "ab...");
}
END_TEST

START_TEST(without_utf8_all_is_ascii_and_without_colour_no_escape_is_drawn)
{
    struct cf_buf bytes = {0};
    struct cf_page page = page_of(&bytes, false, false);

    (void)cf_draw(&page, CF_BAD, "1\xe2\x86\x92" "2 \xc2\xb7 caf\xc3\xa9 \033[31m\xe2\x80\xaex\xe2\x80\xa6");
    (void)cf_draw_mark(&page, CF_MARK_BAD);
    (void)cf_draw_bar(&page, CF_FAINT, 12);
    ck_assert_str_eq(finish(&bytes), "1->2 | caf?  [31m x...x#");
    page = page_of(&bytes, true, true);
    (void)cf_draw(&page, CF_BAD, "x");
    ck_assert_str_eq(finish(&bytes), "\033[31mx\033[0m");
}
END_TEST

START_TEST(words_are_wrapped_and_what_has_none_is_broken)
{
    struct cf_buf bytes = {0};
    struct cf_page page = page_of(&bytes, false, true);

    cf_draw_wrapped(&page, 10, 2, CF_PLAIN, "one two three four five six seven eight nine");
    ck_assert_str_eq(finish(&bytes), "one two three four\n  five six seven eight nine\n");
    page = page_of(&bytes, false, true);
    cf_draw_rows(&page, 20, CF_PLAIN, "0123456789abcdefghij0123456789", 2);
    ck_assert_str_eq(finish(&bytes), "0123456789\n                    abcdefghi\xe2\x80\xa6\n");
}
END_TEST

static json_t *
check_of(const char *id, const char *group, const char *status, const char *summary, json_t *evidence)
{
    return json_pack("{s:s, s:s, s:s, s:s, s:s, s:o}", "id", id, "group", group, "status", status, "summary", summary, "rule",
                     "it must be so", "evidence", evidence);
}

static const char *
report_of(json_t *result, int verbose)
{
    struct cf_buf bytes = {0};
    const struct cf_report_style style = {.columns = 80, .unicode = false, .verbose = verbose};

    cf_report_write(&bytes, result, &style);
    return finish(&bytes);
}

static json_t *
result_of(json_t *checks)
{
    return json_pack("{s:s, s:s, s:s, s:s, s:i, s:o, s:{s:i}, s:{s:[], s:[]}, s:{s:{s:s}, s:{}, s:[{s:s, s:b, s:b, s:b}]}}",
                     "name", "n", "protocol", "acp-v1", "status", "failed", "blame", "harness", "exit_code", 1, "checks",
                     checks, "timings_ms", "total", 1234, "teardown", "removed", "left", "declared", "capabilities",
                     "interrupt", "cooperative", "release", "axes", "axis", "interrupt", "declared", 1, "exercised", 1,
                     "proven", 0);
}

START_TEST(a_failure_shows_its_frames_its_rule_and_one_fix)
{
    json_t *evidence = json_pack("[{s:i, s:i, s:i, s:s, s:s, s:s}, {s:i, s:i, s:i, s:s}]", "frame", 17, "turn", 1, "at_ms", 1204,
                                 "from", "harness", "what", "session/update tool_call_update", "text", "\"toolCallId\":\"c9\"",
                                 "call", 1, "turn", 1, "at_ms", 900, "text", "POST /v1/messages, served");
    json_t *check = check_of("tool_correlation", "TURN", "failed", "a use never seen", evidence), *result;
    const char *page;

    json_object_set_new(check, "fix", json_string("announce it"));
    result = result_of(json_pack("[o]", check));
    page = report_of(result, 0);
    ck_assert_ptr_nonnull(strstr(page, " TURN        x tool_correlation        a use never seen"));
    ck_assert_ptr_nonnull(strstr(page, "f17 r1\n               f17      1.204 s < session/update tool_call_update\n"
                                       "                      \"toolCallId\":\"c9\"\n"));
    ck_assert_ptr_nonnull(strstr(page, "r1       0.900 s = POST /v1/messages, served\n"));
    ck_assert_ptr_nonnull(strstr(page, "rule:  it must be so\n               fix:   announce it\n"));
    ck_assert_ptr_nonnull(strstr(page, " FAIL  0 of 1 proven | 1 failed | 0 skipped | blame: harness | exit 1 | 1.2 s\n"));
    ck_assert_str_eq(strstr(page, " FAIL "), page + strlen(page) - strlen(strstr(page, " FAIL ")));
    json_decref(result);
}
END_TEST

START_TEST(a_capability_is_declared_exercised_and_proven_or_not)
{
    json_t *result = result_of(json_pack(
        "[o, o, o]", check_of("steering_correlation", "CAPABILITY", "passed", "none owed", json_array()),
        check_of("steering_delivered", "CAPABILITY", "passed", "not declared, members absent", json_array()),
        check_of("cooperative_interrupt_drained", "CAPABILITY", "failed", "it never drained", json_array())));
    const char *page = report_of(result, 0);

    ck_assert_ptr_nonnull(strstr(page, " CAPABILITY                   declared        exercised proven\n"));
    ck_assert_ptr_nonnull(strstr(page, "+ mid_run_input  no              -         members absent\n"));
    ck_assert_ptr_nonnull(strstr(page, "x interrupt      cooperative     yes       it never drained\n"));
    ck_assert_ptr_null(strstr(page, "steer acks"));
    json_decref(result);
}
END_TEST

START_TEST(what_was_not_reached_is_named_on_one_line)
{
    json_t *result = result_of(json_pack(
        "[o, o]", check_of("tool_correlation", "TURN", "skipped", "not reached", json_pack("[{s:s}]", "check", "image_resolved")),
        check_of("prompt_exchange", "TURN", "skipped", "not reached", json_pack("[{s:s}]", "check", "image_resolved"))));
    const char *page = report_of(result, 0);

    ck_assert_ptr_nonnull(
        strstr(page, " TURN        - skipped, not reached: tool_correlation, prompt_exchange\n               (image_resolved)\n"));
    ck_assert_ptr_nonnull(strstr(page, "0 of 2 proven | 0 failed | 2 skipped"));
    ck_assert_str_eq(report_of(result, -1), " FAIL  0 of 2 proven | 0 failed | 2 skipped | blame: harness | exit 1 | 1.2 s\n");
    json_decref(result);
}
END_TEST

UNIT_MAIN("diagnose/draw", tcase_add_test(tc, columns_are_those_of_a_terminal);
          tcase_add_test(tc, what_is_cut_says_so_and_keeps_its_columns);
          tcase_add_test(tc, without_utf8_all_is_ascii_and_without_colour_no_escape_is_drawn);
          tcase_add_test(tc, words_are_wrapped_and_what_has_none_is_broken);
          tcase_add_test(tc, a_failure_shows_its_frames_its_rule_and_one_fix);
          tcase_add_test(tc, a_capability_is_declared_exercised_and_proven_or_not);
          tcase_add_test(tc, what_was_not_reached_is_named_on_one_line);)
