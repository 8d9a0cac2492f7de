/* .dockerignore, rule by rule. */
#include "base/str.h"
#include "engine/ignore.h"
#include "tests/support/unit.h"

#include <stdio.h>
#include <string.h>

static struct cf_ignore *
parse(const char *text)
{
    struct cf_ignore *ignore;
    struct cf_error err = {0};

    if (cf_ignore_parse(text, strlen(text), &ignore, &err) < 0)
        ck_abort_msg("%s: %s", text, err.text);
    return ignore;
}

static void
expect(const char *text, const char *path, bool ignored)
{
    struct cf_ignore *ignore = parse(text);
    ck_assert_msg(cf_ignore_matches(ignore, path) == ignored, "%s %s %s", text,
                  ignored ? "should match" : "should not match", path);
    cf_ignore_free(ignore);
}

START_TEST(each_sign_means_what_docker_says)
{
    static const struct {
        const char *pattern, *path;
        bool ignored;
    } cases[] = {
        {"a", "a", true},
        {"a", "b", false},
        {"a", "ab", false},
        {"a", "x/a", false},
        {"a", "a/b/c", true},
        {"/a", "a", true},
        {"./a/", "a", true},
        {"a//b/../c", "a/c", true},
        {"  a  ", "a", true},
        {"a\r", "a", true},
        {"*.md", "x.md", true},
        {"*.md", "d/x.md", false},
        {"*/x", "d/x", true},
        {"*/x", "x", false},
        {"*/temp*", "somedir/temporary.txt", true},
        {"*/temp*", "a/b/temp", false},
        {"*/*/temp*", "a/b/temp", true},
        {"temp?", "tempa", true},
        {"temp?", "temp", false},
        {"temp?", "temp/", false},
        {"a?b", "a/b", false},
        {"**", "anything/at/all", true},
        {"**/x", "x", true},
        {"**/x", "a/b/x", true},
        {"**/x", "a/bx", false},
        {"**/*.go", "main.go", true},
        {"**/*.go", "a/b/main.go", true},
        {"a/**", "a/b", true},
        {"a/**", "a", false},
        {"a/**/b", "a/b", true},
        {"a/**/b", "a/x/y/b", true},
        {"a/**/b", "ab", false},
        {"**/a/**/b", "z/a/b", true},
        {"a**", "abc/d", true},
        {"a**b", "ab", true},
        {"**/", "x/y", true},
        {"[ab]c", "ac", true},
        {"[ab]c", "cc", false},
        {"[a-c]x", "bx", true},
        {"[^a]x", "bx", true},
        {"[^a]x", "ax", false},
        {"[a\\]]x", "]x", true},
        {"\\*x", "*x", true},
        {"\\*x", "yx", false},
        {"a.b", "axb", false},
        {"a+b(c)|{d}$^", "a+b(c)|{d}$^", true},
        {"#a", "#a", false},
        {"\\#a", "#a", true},
        {"\xef\xbb\xbf"
         "a",
         "a", true},
        {"\xc3\xa9*", "\xc3\xa9t\xc3\xa9", true},
        {"", "a", false},
        {"/", "a", false},
        {".", "a", false},
        {"..", "a", false},
    };

    for (size_t i = 0; i < CF_COUNT(cases); i++)
        expect(cases[i].pattern, cases[i].path, cases[i].ignored);
}
END_TEST

START_TEST(the_last_pattern_that_fits_decides)
{
    expect("*.md\n!README.md\n", "x.md", true);
    expect("*.md\n!README.md\n", "README.md", false);
    expect("*.md\n!README*.md\nREADME-secret.md", "README-secret.md", true);
    expect("*.md\nREADME-secret.md\n!README*.md", "README-secret.md", false);
    expect("*\n! src\n", "src/a.c", false);
    expect("*\n!src\n", "other", true);
    expect("a\n!a/b", "a/b/c", false);
    expect("a\n!a/b", "a/x", true);
    expect("!a\n", "a", false);
}
END_TEST

START_TEST(ignored_folders_are_looked_into_only_when_something_may_return)
{
    static const struct {
        const char *text, *dir;
        bool may;
    } cases[] = {{"a", "a", false},
                 {"a\n!a/b", "a", true},
                 {"a\n!a/b", "ab", false},
                 {"*\n!**/x", "deep/down", true},
                 {"*\n!src/*.c", "src", true},
                 {"*\n!src/*.c", "lib", false},
                 {"*\n!src", "src", true},
                 {"*\n!src", "src/x", false},
                 {"*\n!s", "src", false},
                 {"*\n!src/a/b", "src/a", true},
                 {"*\n!src/a/b", "src/b", false}};

    for (size_t i = 0; i < CF_COUNT(cases); i++) {
        struct cf_ignore *ignore = parse(cases[i].text);
        ck_assert_msg(cf_ignore_may_return_beneath(ignore, cases[i].dir) == cases[i].may,
                      "%s / %s", cases[i].text, cases[i].dir);
        cf_ignore_free(ignore);
    }
}
END_TEST

START_TEST(a_kept_path_is_taken_literally)
{
    struct cf_ignore *ignore = parse("*");

    ck_assert_int_eq(cf_ignore_keep(ignore, "Docker[file]*", NULL), 0);
    ck_assert(!cf_ignore_matches(ignore, "Docker[file]*"));
    ck_assert(cf_ignore_matches(ignore, "Dockerf"));
    cf_ignore_free(ignore);
}
END_TEST

START_TEST(bad_patterns_are_named_with_their_line)
{
    static const char *const bad[] = {"ok\n[a\n", "ok\na\\\n", "ok\n!\n", "ok\n[]\n",
                                      "ok\n[a\\"};
    char longest[4200];
    struct cf_ignore *ignore;
    struct cf_error err = {0};

    for (size_t i = 0; i < CF_COUNT(bad); i++) {
        ck_assert_int_eq(cf_ignore_parse(bad[i], strlen(bad[i]), &ignore, &err), -1);
        ck_assert_ptr_nonnull(strstr(err.text, "line 2"));
    }
    for (size_t len = 4096; len <= 4097; len++) {
        memset(longest, 'a', len);
        int rc = cf_ignore_parse(longest, len, &ignore, &err);
        ck_assert_int_eq(rc, len == 4096 ? 0 : -1);
        if (rc == 0)
            cf_ignore_free(ignore);
    }
    ck_assert_int_eq(cf_ignore_parse("a\0b", 3, &ignore, &err), -1);
}
END_TEST

START_TEST(no_pattern_is_slow)
{
    char path[4001];

    memset(path, 'a', 4000);
    path[4000] = '\0';
    expect("*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*b", path, false);
    expect("**/**/**/**/**/**/**/**/**/**/b", path, false);
}
END_TEST

UNIT_MAIN("engine/ignore", tcase_add_test(tc, each_sign_means_what_docker_says);
          tcase_add_test(tc, the_last_pattern_that_fits_decides);
          tcase_add_test(tc, ignored_folders_are_looked_into_only_when_something_may_return);
          tcase_add_test(tc, a_kept_path_is_taken_literally);
          tcase_add_test(tc, bad_patterns_are_named_with_their_line);
          tcase_add_test(tc, no_pattern_is_slow);)
