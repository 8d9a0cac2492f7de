#include "wire/wire.h"
#include "tests/support/unit.h"

#include <stdio.h>
#include <string.h>

struct got {
    char text[4096];
    size_t len;
    unsigned lines, overflows;
};

static void
on_line(void *user, const char *line, size_t len, uint64_t number, bool overflow)
{
    struct got *got = user;

    got->lines++;
    got->overflows += overflow;
    ck_assert_uint_eq(number, got->lines);
    got->len += (size_t)snprintf(got->text + got->len, sizeof got->text - got->len, "<%.*s>%s",
                                 (int)len, line, overflow ? "!" : "");
}

static void
feed_in_two(const char *text, size_t len, size_t cut, size_t limit, struct got *got)
{
    struct cf_lines lines;

    memset(got, 0, sizeof *got);
    cf_lines_init(&lines, limit);
    ck_assert_int_eq(cf_lines_feed(&lines, text, cut, on_line, got), 0);
    ck_assert_int_eq(cf_lines_feed(&lines, text + cut, len - cut, on_line, got), 0);
    ck_assert_int_eq(cf_lines_end(&lines, on_line, got), 0);
    cf_lines_release(&lines);
}

static void
expect_at_any_cut(const char *text, size_t limit, const char *expected)
{
    struct got got;

    for (size_t cut = 0; cut <= strlen(text); cut++) {
        feed_in_two(text, strlen(text), cut, limit, &got);
        ck_assert_msg(strcmp(got.text, expected) == 0, "cut %zu: %s", cut, got.text);
    }
}

START_TEST(lines_survive_any_cut)
{
    expect_at_any_cut("{\"a\":1}\n{\"b\":2}\n", 64, "<{\"a\":1}><{\"b\":2}>");
    expect_at_any_cut("a\r\n\r\n\nb\r\r\nlast", 64, "<a><><><b\r><last>");
    expect_at_any_cut("\xef\xbb\xbfx\n\xef\xbb\xbfy\n", 64, "<x><\xef\xbb\xbfy>");
    expect_at_any_cut("", 64, "");
    expect_at_any_cut("\n", 64, "<>");
}
END_TEST

START_TEST(a_line_at_the_limit_is_whole_and_one_past_it_is_dropped)
{
    expect_at_any_cut("12345678\nx\n", 8, "<12345678><x>");
    expect_at_any_cut("12345678\r\nx\n", 8, "<12345678><x>");
    expect_at_any_cut("123456789\nx\n", 8, "<12345678>!<x>");
    expect_at_any_cut("123456789\r\nx", 8, "<12345678>!<x>");
    expect_at_any_cut("12345678\r9abc\nx\n", 8, "<12345678>!<x>");
    expect_at_any_cut("123456789 and much more\n123456789 again", 8, "<12345678>!<12345678>!");
}
END_TEST

START_TEST(a_large_line_byte_by_byte_is_linear)
{
    struct cf_lines lines;
    struct got got = {0};
    size_t size = 4u << 20;

    cf_lines_init(&lines, size);
    for (size_t i = 0; i < size; i++)
        ck_assert(cf_lines_feed(&lines, "a", 1, on_line, &got) == 0);
    ck_assert_uint_eq(got.lines, 0);
    ck_assert_uint_eq(lines.held_len, size);
    cf_lines_release(&lines);
}
END_TEST

UNIT_MAIN("wire/lines", tcase_add_test(tc, lines_survive_any_cut);
          tcase_add_test(tc, a_line_at_the_limit_is_whole_and_one_past_it_is_dropped);
          tcase_add_test(tc, a_large_line_byte_by_byte_is_linear);)
