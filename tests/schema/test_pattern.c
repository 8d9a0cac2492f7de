/* The pattern subset: sizes, codes, work, and ECMAScript itself (node) as the oracle. */
#include "base/str.h"
#include "schema/compiled.h"
#include "tests/support/unit.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

static const char *
code_of(const char *text)
{
    struct cf_pattern *pattern = NULL;
    struct cf_pattern_refusal why = {0};

    if (cf_pattern_compile(text, strlen(text), &pattern, &why) < 0)
        return why.code;
    cf_pattern_free(pattern);
    return "admitted";
}

static void
expect_code(char *text, const char *code)
{
    ck_assert_msg(strcmp(code_of(text), code) == 0, "%.100s: %s", text, code_of(text));
    free(text);
}

static char *
repeat(const char *one, unsigned count, const char *after)
{
    struct cf_buf text = {0};

    for (unsigned i = 0; i < count; i++)
        cf_buf_adds(&text, one);
    cf_buf_adds(&text, after);
    return cf_buf_take(&text, NULL);
}

START_TEST(sizes_hold_at_the_limit_and_one_past_it)
{
    static const char large[] = "schema_pattern_too_large";

    expect_code(repeat("aaaa", 32, ""), "admitted");           /* 128 items */
    expect_code(repeat("aaaa", 32, "a"), large);
    expect_code(repeat("a|", 7, "a"), "admitted");             /* 8 branches */
    expect_code(repeat("a|", 8, "a"), large);
    expect_code(repeat("a{1000}", 4, "a{96}"), "admitted");    /* width 4096 */
    expect_code(repeat("a{1000}", 4, "a{97}"), large);
    expect_code(repeat("a", 0, "a{1000}"), "admitted");
    expect_code(repeat("a", 0, "a{1001}"), large);
    expect_code(repeat("a", 0, "a{0,99999999999999999999}"), large);
    expect_code(repeat("\\u{1f600}", 51, "aa"), "admitted");   /* 461 code points */
    expect_code(repeat("a", 511, "("), "schema_pattern_group");
    expect_code(repeat("a", 512, "("), large);                 /* the length speaks first */
    expect_code(repeat("[\xf0\x9f\x98\x80", 1, "]"), "admitted");
    expect_code(repeat("[ab", 1, ""), "schema_pattern_invalid");
    expect_code(repeat("", 0, "[\\S\\s\\W\\w\\D\\d]"), "admitted");
}
END_TEST

START_TEST(refusals_have_the_codes_of_the_profile)
{
    static const char *const cases[][2] = {
        {"(", "group"}, {")", "group"}, {"a(?<n>b)", "group"}, {"(?=a)", "group"}, {"(?<!a)", "group"},
        {"\\1", "backreference"}, {"\\9", "backreference"}, {"\\k<a>", "backreference"},
        {"a*", "unbounded"}, {"[a]+", "unbounded"}, {"a{0,}", "unbounded"}, {"a?*", "unbounded"},
        {"a?a", "ambiguous"}, {"a{0,2}b{0,2}[ac]", "ambiguous"}, {"x|a?a", "ambiguous"},
        {".?x", "ambiguous"}, {"[^a]?b", "ambiguous"}, {"\\s?\\ufeff", "ambiguous"},
        {"a{1,2}?", "unsupported"}, {"a{2}?", "unsupported"}, {"a\\b", "unsupported"},
        {"\\B", "unsupported"}, {"\\P{L}", "unsupported"}, {"a^", "unsupported"}, {"$a", "unsupported"},
        {"^^", "unsupported"}, {"$$", "unsupported"}, {"a|b^|c", "unsupported"}, {"$?", "unsupported"},
        {"[a", "invalid"}, {"[^]", "invalid"}, {"[b-a]", "invalid"}, {"[\\d-x]", "invalid"},
        {"[x-\\d]", "invalid"}, {"a{,3}", "invalid"}, {"a{", "invalid"}, {"a{2", "invalid"},
        {"a{2,", "invalid"}, {"a{x}", "invalid"}, {"{2}", "invalid"}, {"a{2}{3}", "invalid"},
        {"^?", "invalid"}, {"]", "invalid"}, {"}", "invalid"}, {"\\", "invalid"}, {"\\-", "invalid"},
        {"\\00", "invalid"}, {"\\c1", "invalid"}, {"\\c", "invalid"}, {"\\x4", "invalid"},
        {"\\u12", "invalid"}, {"\\ud800", "invalid"}, {"\\udc00", "invalid"}, {"\\ud800\\u0041", "invalid"},
        {"\\ud83d\\u{de00}", "invalid"}, {"\\u{}", "invalid"}, {"\\u{110000}", "invalid"},
        {"\\u{d800}", "invalid"}, {"\\u{41", "invalid"}, {"\\\xc3\xa9", "invalid"}, {"\\a", "invalid"},
    };
    char expected[60];

    for (size_t i = 0; i < CF_COUNT(cases); i++) {
        snprintf(expected, sizeof expected, "schema_pattern_%s", cases[i][1]);
        ck_assert_msg(strcmp(code_of(cases[i][0]), expected) == 0, "%s: %s", cases[i][0], code_of(cases[i][0]));
    }
}
END_TEST

START_TEST(a_pattern_cut_anywhere_is_read_or_refused)
{
    static const char text[] = "^[a-\\x7a\\u{1F600}]{1,3}:\\ud83d\\ude00\\cA[^\\]\\-x-]{2}|\\.\\/\\{$";

    for (size_t cut = 0; cut < sizeof text; cut++) {
        struct cf_pattern *pattern = NULL;
        struct cf_pattern_refusal why = {0};
        char *exact = malloc(cut > 0 ? cut : 1);
        memcpy(exact, text, cut);
        if (cf_pattern_compile(exact, cut, &pattern, &why) == 0)
            cf_pattern_free(pattern);
        else
            ck_assert_ptr_nonnull(why.code);
        free(exact);
    }
    ck_assert_str_eq(code_of(text), "admitted");
}
END_TEST

START_TEST(work_is_counted_and_runs_out)
{
    struct cf_pattern *pattern = NULL;
    struct cf_pattern_refusal why;
    uint64_t work = 1000;

    ck_assert_int_eq(cf_pattern_compile("^a{10}$", 7, &pattern, &why), 0);
    ck_assert_int_eq(cf_pattern_search(pattern, "aaaaaaaaaa", 10, &work), 1);
    ck_assert_uint_eq(1000 - work, 11); /* one start, ten code points */
    work = 10;
    ck_assert_int_eq(cf_pattern_search(pattern, "aaaaaaaaaa", 10, &work), -1);
    cf_pattern_free(pattern);
}
END_TEST

/* ---- ECMAScript as the oracle --------------------------------------------------------- */

static uint32_t dice_state = 20201212;

static uint32_t
dice(uint32_t sides)
{
    dice_state ^= dice_state << 13;
    dice_state ^= dice_state >> 17;
    dice_state ^= dice_state << 5;
    return dice_state % sides;
}

static const char *const atoms[] = {
    "a", "b", "c", "-", "_", "0", "7", " ", "/", "A", "\xc3\xa9", "\xf0\x9f\x98\x80", ".", "\\d", "\\D", "\\w",
    "\\W", "\\s", "\\S", "\\.", "\\n", "\\r", "\\t", "\\u2028", "\\ud83d\\ude00", "\\u{1F600}", "\\x61", "\\cJ",
    "\\0", "[a-c]", "[^a-c]", "[\\d_]", "[^\\s]", "[\\S]", "[^\\W]", "[-a]", "[a-]", "[^-a]", "[a-c-e]", "[--/]",
    "[\\-a]", "[.]", "[$^]", "[(]", "[\\u{1F600}-\\u{1F64F}]", "[\\ud83d\\ude00]", "[^\\ud83d\\ude00]", "[\\n\\r]",
    "[ \\t]", "\\/", "\\[", "[[]", "[\\]]",
    "[^\\w\\W]", "[^\\u{0}-\\u{10ffff}]",
};
static const char *const repeats[] = {"", "", "", "", "?", "{2}", "{0}", "{1,3}", "{0,2}", "{0,1}", "{3}"};
static const char *const pieces[] = {
    "a", "b", "c", "-", "_", "0", "7", " ", "/", "A", "e", "\xc3\xa9", "\xf0\x9f\x98\x80", ".", "\n", "\r", "\t",
    "\xe2\x80\xa8", "\xe2\x80\xa9", "\xc2\xa0", "\xef\xbb\xbf", "\x01", "$", "(", "[", "]", "\xc2\x85", "\xf0\x9f\x99\x80",
    "\xe1\xa0\x8e", "\xd9\xa1",
};

static void
random_pattern(char *text)
{
    uint32_t branches = dice(4) == 0 ? 2 + dice(2) : 1;

    text[0] = '\0';
    for (uint32_t b = 0; b < branches; b++) {
        uint32_t items = dice(5);
        if (b > 0)
            strcat(text, "|");
        if (dice(2) == 0)
            strcat(text, "^");
        for (uint32_t i = 0; i < items; i++) {
            strcat(text, atoms[dice(CF_COUNT(atoms))]);
            strcat(text, repeats[dice(CF_COUNT(repeats))]);
        }
        if (dice(2) == 0)
            strcat(text, "$");
    }
}

static void
random_text(char *text)
{
    text[0] = '\0';
    for (uint32_t count = dice(7); count > 0; count--)
        strcat(text, pieces[dice(CF_COUNT(pieces))]);
}

/* Adds one verdict of ours to the oracle's case file. */
static void
add_verdict(json_t *texts, const char *text, size_t len, bool found)
{
    json_array_append_new(texts, json_pack("{s:o,s:b}", "text", json_stringn(text, len), "found", found));
}

static void
ask_the_oracle(json_t *cases)
{
    char path[] = "/tmp/cf-oracle-XXXXXX", command[200];
    int fd = mkstemp(path);

    ck_assert_int_ge(fd, 0);
    close(fd);
    ck_assert_int_eq(json_dump_file(cases, path, 0), 0);
    snprintf(command, sizeof command, "node tests/schema/oracle.js %s", path);
    int status = system(command);
    unlink(path);
    ck_assert_int_eq(status, 0);
}

static bool
has_oracle(void)
{
    if (system("node --version >/dev/null 2>&1") == 0)
        return true;
    printf("SKIPPED comparison with ECMAScript: node is not installed\n");
    return false;
}

START_TEST(random_patterns_find_what_ecmascript_finds)
{
    json_t *cases = json_array();
    unsigned admitted = 0;
    char text[400];

    if (!has_oracle())
        return;
    for (int i = 0; i < 6000; i++) {
        struct cf_pattern *pattern = NULL;
        struct cf_pattern_refusal why;
        random_pattern(text);
        if (cf_pattern_compile(text, strlen(text), &pattern, &why) < 0)
            continue;
        json_t *texts = json_array();
        json_array_append_new(cases, json_pack("{s:s,s:o}", "pattern", text, "texts", texts));
        admitted++;
        for (int j = 0; j < 25; j++) {
            uint64_t work = 1000000;
            random_text(text);
            int found = cf_pattern_search(pattern, text, strlen(text), &work);
            ck_assert_int_ge(found, 0);
            add_verdict(texts, text, strlen(text), found);
        }
        cf_pattern_free(pattern);
    }
    ck_assert_uint_gt(admitted, 1000);
    ask_the_oracle(cases);
    json_decref(cases);
}
END_TEST

static const char *const trusted[] = {
    "^[^\\u0000]*$",
    "^[^\\r\\n]*$",
    "^[A-Za-z0-9_-]+$",
    "^[!#$%&'*+.^_`|~0-9A-Za-z-]+$",
    "^[a-z0-9](?:[a-z0-9.-]*[a-z0-9])?$",
    "^[a-z0-9](?:[a-z0-9._-]{0,93})$",
    "^conn_[0-9a-f]{32}:\\S+$",
    "^harness:\\S+$",
    "^\\/(?!\\.{1,2}(?:\\/|$))[A-Za-z0-9._-]+(?:\\/(?!\\.{1,2}(?:\\/|$))[A-Za-z0-9._-]+)*$",
};

static const char *const bits[] = {
    "a", "Z", "0", "f", ".", "..", "/", "-", "_", "!", "#", "~", "`", "|", "\"", ",", "@", " ", "\n", "\r",
    "\xc2\xa0", "\xe2\x80\xa8", "\xef\xbb\xbf", "\xc3\xa9", "\xf0\x9f\x98\x80", ":", "harness:", "conn_",
    "0123456789abcdef0123456789abcdef", "conn_0123456789abcdef0123456789abcdef:", "/a", "/.", "/..", "",
};

START_TEST(the_nine_trusted_tests_say_what_their_patterns_say)
{
    json_t *cases = json_array();
    char text[1200];

    for (size_t i = 0; i < CF_COUNT(trusted); i++) {
        cf_trusted_test_fn *test = cf_trusted_pattern(trusted[i], strlen(trusted[i]));
        ck_assert_ptr_nonnull(test);
        ck_assert_msg(strcmp(code_of(trusted[i]), "admitted") != 0, "%s", trusted[i]);
        json_t *texts = json_array();
        json_array_append_new(cases, json_pack("{s:s,s:o}", "pattern", trusted[i], "texts", texts));
        for (int j = 0; j < 3000; j++) {
            text[0] = '\0';
            for (uint32_t count = dice(6); count > 0; count--)
                strcat(text, bits[dice(dice(2) == 0 ? 4 : CF_COUNT(bits))]);
            add_verdict(texts, text, strlen(text), test(text, strlen(text)));
        }
        for (size_t len = 90; len < 100; len++) {
            memset(text, 'a', len);
            add_verdict(texts, text, len, test(text, len));
        }
        add_verdict(texts, "a\0b", 3, test("a\0b", 3));
    }
    ck_assert_ptr_null(cf_trusted_pattern("^[^\\u0000]*", 11));
    if (has_oracle())
        ask_the_oracle(cases);
    json_decref(cases);
}
END_TEST

START_TEST(every_bounded_form_offered_to_an_author_is_admitted)
{
    unsigned offered = 0;

    for (size_t i = 0; i < CF_COUNT(trusted); i++) {
        const char *hint = cf_trusted_pattern_hint(trusted[i], strlen(trusted[i]));
        if (hint == NULL)
            continue;
        const char *form = strstr(hint, " ^");
        ck_assert_ptr_nonnull(form);
        ck_assert_msg(strcmp(code_of(form + 1), "admitted") == 0, "%s", form + 1);
        offered++;
    }
    ck_assert_uint_eq(offered, 7);
}
END_TEST

UNIT_MAIN("schema/pattern", tcase_add_test(tc, sizes_hold_at_the_limit_and_one_past_it);
          tcase_add_test(tc, refusals_have_the_codes_of_the_profile);
          tcase_add_test(tc, a_pattern_cut_anywhere_is_read_or_refused);
          tcase_add_test(tc, work_is_counted_and_runs_out);
          tcase_add_test(tc, random_patterns_find_what_ecmascript_finds);
          tcase_add_test(tc, the_nine_trusted_tests_say_what_their_patterns_say);
          tcase_add_test(tc, every_bounded_form_offered_to_an_author_is_admitted);)
