#include "base/buf.h"
#include "base/error.h"
#include "base/ids.h"
#include "base/str.h"
#include "base/tail.h"
#include "base/utf8.h"
#include "tests/support/unit.h"

#include <string.h>

START_TEST(errors_are_one_printable_line)
{
    struct cf_error err = {0};

    ck_assert_int_eq(cf_error_set(&err, CF_ERROR_ENGINE, 500, "bad\n\x1b[31mred\xff %s", "x"), -1);
    ck_assert_str_eq(err.text, "bad  [31mred? x");
    cf_error_wrap(&err, "create %s", "abc");
    ck_assert_str_eq(err.text, "create abc: bad  [31mred? x");
    ck_assert_str_eq(cf_error_type(err.kind), "runtime.runner_unavailable");
    ck_assert_int_eq(cf_error_blame(err.kind), CF_BLAME_ENGINE);
}
END_TEST

START_TEST(a_long_error_is_cut_at_a_character)
{
    struct cf_error err = {0};
    char text[4000];

    for (size_t i = 0; i + 2 < sizeof text; i += 2)
        memcpy(text + i, "\xc3\xa9", 2);
    text[sizeof text - 2] = '\0';
    cf_error_set(&err, CF_ERROR_CONFIG, 0, "%s", text);
    ck_assert(cf_utf8_is_valid(err.text, strlen(err.text)));
    cf_error_wrap(&err, "%s", "a");
    ck_assert(cf_utf8_is_valid(err.text, strlen(err.text)));
}
END_TEST

START_TEST(every_kind_has_a_type)
{
    for (int k = 1; k < CF_ERROR_KIND_COUNT; k++)
        ck_assert_msg(strchr(cf_error_type(k), '.') != NULL, "kind %d", k);
}
END_TEST

START_TEST(utf8_refuses_what_is_not_utf8)
{
    static const char *const bad[] = {"\x80",     "\xc0\xaf",         "\xe0\x80\x80", "\xed\xa0\x80",
                                      "\xf4\x90\x80\x80", "\xf8\x88\x80\x80\x80", "\xc3(",  "\xff"};
    static const char *const good[] = {"", "a", "\xc3\xa9", "\xe2\x82\xac", "\xf0\x9f\x98\x80",
                                       "\xed\x9f\xbf", "\xee\x80\x80", "\xf4\x8f\xbf\xbf"};

    for (size_t i = 0; i < CF_COUNT(bad); i++)
        ck_assert_msg(!cf_utf8_is_valid(bad[i], strlen(bad[i])), "bad %zu", i);
    for (size_t i = 0; i < CF_COUNT(good); i++)
        ck_assert_msg(cf_utf8_is_valid(good[i], strlen(good[i])), "good %zu", i);
}
END_TEST

START_TEST(utf16_counting_never_splits_a_pair)
{
    static const char text[] = "a\xf0\x9f\x98\x80\xc3\xa9";

    ck_assert_uint_eq(cf_utf16_units(text, strlen(text)), 4);
    ck_assert_uint_eq(cf_utf16_prefix(text, strlen(text), 2), 1);
    ck_assert_uint_eq(cf_utf16_prefix(text, strlen(text), 3), 5);
    ck_assert_uint_eq(cf_utf16_prefix(text, strlen(text), 9), 7);
    ck_assert_uint_eq(cf_utf8_cut(text, strlen(text), 3), 1);
}
END_TEST

START_TEST(repair_replaces_each_broken_sequence_once)
{
    char out[64];
    size_t repairs, n = cf_utf8_repair("a\xe2\x82z\xff", 5, out, &repairs);

    ck_assert_uint_eq(repairs, 2);
    ck_assert_uint_eq(n, 8);
    ck_assert(memcmp(out, "a\xef\xbf\xbdz\xef\xbf\xbd", 8) == 0);
}
END_TEST

START_TEST(a_buffer_keeps_to_its_ceiling)
{
    struct cf_buf buf;

    cf_buf_init(&buf, 8);
    ck_assert_int_eq(cf_buf_adds(&buf, "12345678"), 0);
    ck_assert_int_eq(cf_buf_adds(&buf, "9"), -1);
    ck_assert(buf.failed);
    ck_assert_str_eq(buf.data, "12345678");
    cf_buf_drop(&buf, 3);
    ck_assert_str_eq(buf.data, "45678");
    cf_buf_release(&buf);
}
END_TEST

START_TEST(shell_quoting_survives_quotes)
{
    struct cf_buf buf;

    cf_buf_init(&buf, 0);
    cf_shell_quote(&buf, "a'b c");
    cf_buf_adds(&buf, " ");
    cf_shell_quote(&buf, "");
    cf_buf_adds(&buf, " ");
    cf_shell_quote(&buf, "--flag={x}");
    ck_assert_str_eq(buf.data, "'a'\\''b c' '' '--flag={x}'");
    cf_buf_release(&buf);
}
END_TEST

START_TEST(sizes_and_durations_are_read_whole_or_not_at_all)
{
    uint64_t v;

    ck_assert(cf_parse_bytes("2g", &v) && v == 2ull << 30);
    ck_assert(cf_parse_bytes("1.5KiB", &v) && v == 1536);
    ck_assert(cf_parse_bytes("77", &v) && v == 77);
    ck_assert(!cf_parse_bytes("2x", &v) && !cf_parse_bytes("", &v) && !cf_parse_bytes("-1", &v));
    ck_assert(!cf_parse_bytes("0x10", &v) && !cf_parse_bytes("1e3", &v));
    ck_assert(cf_parse_duration_ms("30", &v) && v == 30000);
    ck_assert(cf_parse_duration_ms("1500ms", &v) && v == 1500);
    ck_assert(cf_parse_duration_ms("2m", &v) && v == 120000);
    ck_assert(!cf_parse_duration_ms("5 m", &v) && !cf_parse_duration_ms("m", &v));
}
END_TEST

START_TEST(a_tail_keeps_the_end_and_counts_all)
{
    struct cf_tail tail;
    char *text;

    ck_assert_int_eq(cf_tail_init(&tail, 16), 0);
    for (int i = 0; i < 100; i++)
        cf_tail_add(&tail, "line\n", 5);
    text = cf_tail_text(&tail, 2, 0);
    ck_assert_str_eq(text, "line\nline\n");
    free(text);
    text = cf_tail_text(&tail, 0, 3);
    ck_assert_str_eq(text, "ne\n");
    free(text);
    ck_assert_uint_eq(tail.total, 500);
    cf_tail_release(&tail);
}
END_TEST

START_TEST(a_tail_that_grows_is_the_tail_of_what_was_added)
{
    char all[6000], *text;

    for (size_t i = 0; i < sizeof all; i++)
        all[i] = (char)('a' + i % 26);
    for (size_t most = 1; most < 3000; most = most * 2 + 1) {
        for (size_t step = 1; step < 5000; step = step * 3 + 1) {
            struct cf_tail tail;
            size_t len = 0, kept;
            ck_assert_int_eq(cf_tail_init(&tail, most), 0);
            for (; len + step <= sizeof all; len += step) {
                cf_tail_add(&tail, all + len, step);
                kept = len + step < most ? len + step : most;
                ck_assert_uint_eq(tail.len, kept);
            }
            kept = len < most ? len : most;
            text = cf_tail_text(&tail, 0, 0);
            ck_assert_uint_eq(strlen(text), kept);
            ck_assert(memcmp(text, all + len - kept, kept) == 0);
            ck_assert_uint_le(tail.size, most);
            free(text);
            cf_tail_release(&tail);
        }
    }
}
END_TEST

START_TEST(ids_have_their_form)
{
    char id[40];

    cf_id_make("evt_", id, sizeof id);
    ck_assert_uint_eq(strlen(id), 36);
    ck_assert(cf_is_hex(id + 4, 32));
}
END_TEST

UNIT_MAIN("base", tcase_add_test(tc, errors_are_one_printable_line);
          tcase_add_test(tc, a_long_error_is_cut_at_a_character);
          tcase_add_test(tc, every_kind_has_a_type);
          tcase_add_test(tc, utf8_refuses_what_is_not_utf8);
          tcase_add_test(tc, utf16_counting_never_splits_a_pair);
          tcase_add_test(tc, repair_replaces_each_broken_sequence_once);
          tcase_add_test(tc, a_buffer_keeps_to_its_ceiling);
          tcase_add_test(tc, shell_quoting_survives_quotes);
          tcase_add_test(tc, sizes_and_durations_are_read_whole_or_not_at_all);
          tcase_add_test(tc, a_tail_keeps_the_end_and_counts_all);
          tcase_add_test(tc, a_tail_that_grows_is_the_tail_of_what_was_added);
          tcase_add_test(tc, ids_have_their_form);)
