#include "base/buf.h"
#include "base/str.h"
#include "wire/wire.h"
#include "tests/support/unit.h"

#include <string.h>

struct got {
    struct cf_buf text; /* text, or "[type@line]" */
    unsigned findings;
    struct cf_error err;
};

static void
on_text(void *user, const char *text, size_t len, uint64_t line)
{
    struct got *got = user;

    ck_assert_uint_ge(line, 1);
    cf_buf_add(&got->text, text, len);
}

static void
on_object(void *user, json_t *object, uint64_t line)
{
    struct got *got = user;

    cf_buf_addf(&got->text, "[%s@%llu]", json_string_value(json_object_get(object, "type")) + 12,
                (unsigned long long)line);
}

static void
on_finding(void *user, uint64_t line, const char *text)
{
    ((struct got *)user)->findings++;
}

static void
on_broken(void *user, const struct cf_error *err)
{
    struct got *got = user;

    ck_assert_msg(got->err.text[0] == '\0', "told twice");
    got->err = *err;
}

static void
run(enum cf_oneshot_mode mode, const char *bytes, size_t len, size_t cut, struct got *got)
{
    struct cf_oneshot_events events = {on_text, on_object, on_finding, on_broken};
    struct cf_oneshot *oneshot = cf_oneshot_new(mode, &events, got);

    ck_assert(cf_oneshot_feed(oneshot, bytes, cut) == 0);
    ck_assert(cf_oneshot_feed(oneshot, bytes + cut, len - cut) == 0);
    cf_oneshot_end(oneshot);
    cf_oneshot_free(oneshot);
    cf_buf_adds(&got->text, "");
}

static void
expect_text(const char *bytes, const char *expected, unsigned findings)
{
    for (size_t cut = 0; cut <= strlen(bytes); cut++) {
        struct got got = {0};
        run(CF_ONESHOT_TEXT, bytes, strlen(bytes), cut, &got);
        ck_assert_msg(strcmp(got.text.data ? got.text.data : "", expected) == 0, "cut %zu: %s", cut, got.text.data);
        ck_assert_uint_eq(got.findings, findings);
        cf_buf_release(&got.text);
    }
}

START_TEST(text_is_valid_at_any_cut)
{
    expect_text("", "", 0);
    expect_text("plain\ntext\n", "plain\ntext\n", 0);
    expect_text("h\xc3\xa9 \xe2\x82\xac \xf0\x9f\x98\x80!", "h\xc3\xa9 \xe2\x82\xac \xf0\x9f\x98\x80!", 0);
    expect_text("a\xff" "b", "a\xef\xbf\xbd" "b", 1);
    expect_text("a\xe2\x82", "a\xef\xbf\xbd", 1);
    expect_text("a\xe2\x82z", "a\xef\xbf\xbdz", 1);
    expect_text("\xf0\x80\x80\x80z", "\xef\xbf\xbd\xef\xbf\xbdz", 1);
    expect_text("\xed\xa0\x80z\xc3", "\xef\xbf\xbdz\xef\xbf\xbd", 1);
    expect_text("\x80\x80\x80\x80", "\xef\xbf\xbd\xef\xbf\xbd", 1);
}
END_TEST

static void
expect_json(const char *bytes, const char *expected, const char *error)
{
    for (size_t cut = 0; cut <= strlen(bytes); cut++) {
        struct got got = {0};
        run(CF_ONESHOT_STREAM_JSON, bytes, strlen(bytes), cut, &got);
        ck_assert_msg(strcmp(got.text.data ? got.text.data : "", expected) == 0, "cut %zu: %s", cut, got.text.data);
        if (error == NULL)
            ck_assert_msg(got.err.text[0] == '\0', "%s", got.err.text);
        else
            ck_assert_msg(strstr(got.err.text, error) != NULL, "%s", got.err.text);
        cf_buf_release(&got.text);
    }
}

#define MESSAGE "{\"type\":\"observation.agent_message\",\"payload\":{\"content\":\"x\"}}"
#define FINISHED "{\"type\":\"observation.finished\",\"payload\":{\"stop_reason\":\"end_turn\"}}"

START_TEST(stream_json_is_one_object_a_line)
{
    expect_json("", "", NULL);
    expect_json(MESSAGE "\n\n  \r\n" MESSAGE, "[agent_message@1][agent_message@4]", NULL);
    expect_json(MESSAGE "\n" FINISHED "\n\n", "[agent_message@1][finished@2]", NULL);
}
END_TEST

START_TEST(stream_json_breaks_on_what_a_harness_may_not_say)
{
    expect_json(FINISHED "\n" MESSAGE "\n", "[finished@1]", "line 2 of stdout (observation.agent_message) comes after");
    expect_json(MESSAGE "\nhello there\n" MESSAGE, "[agent_message@1]", "line 2 of stdout is not JSON: hello there");
    expect_json("{\"type\":\"observation.ready\"}\n", "", "\"observation.ready\", which a harness may not author");
    expect_json("{\"type\":\"observation.failed\"}\n", "", "may not author");
    expect_json("{\"type\":\"observation.steering\"}\n", "", "may not author");
    expect_json("{\"type\":1}\n", "", "line 1 of stdout is not an object with a \"type\"");
    expect_json("[1]\n", "", "line 1 of stdout is not an object");
    expect_json("{\"type\":\"observation.agent_message\"\n", "", "line 1 of stdout is not JSON");
}
END_TEST

static void
expect_argv(struct cf_oneshot_turn turn, const char *expected)
{
    struct cf_error err = {0};
    struct cf_buf joined = {0};
    char **argv = cf_oneshot_argv(&turn, &err);

    if (argv == NULL)
        cf_buf_adds(&joined, err.text);
    for (char **arg = argv; argv != NULL && *arg != NULL; arg++)
        cf_buf_addf(&joined, "%s|", *arg);
    const char *got = joined.len > 0 ? joined.data : "";
    ck_assert_msg(argv != NULL ? strcmp(got, expected) == 0 : strstr(got, expected) != NULL, "%s", got);
    cf_buf_release(&joined);
    cf_argv_free(argv);
}

START_TEST(argv_expands_whole_arguments_only)
{
    static const char *const argv[] = {"--p", "{prompt_path}", "{resume_flag}", "", " {prompt_path}", "{Prompt_Path}", "{x}", NULL};
    struct cf_oneshot_turn turn = {.argv = argv, .prompt_path = "/w/.checkfu/prompt.txt", .resume_flag = "--resume"};

    expect_argv(turn, "--p|/w/.checkfu/prompt.txt|| {prompt_path}|{Prompt_Path}|{x}|");
    turn.continues = true;
    expect_argv(turn, "--p|/w/.checkfu/prompt.txt|--resume|| {prompt_path}|{Prompt_Path}|{x}|");
    turn.output_schema_flag = "--schema";
    turn.output_schema_value = "{\"type\":\"object\"}";
    expect_argv(turn, "--p|/w/.checkfu/prompt.txt|--resume|| {prompt_path}|{Prompt_Path}|{x}|--schema|{\"type\":\"object\"}|");
}
END_TEST

START_TEST(a_placed_schema_is_not_appended_again)
{
    static const char *const argv[] = {"a", "{output_schema}", "b", NULL};
    struct cf_oneshot_turn turn = {.argv = argv, .output_schema_flag = "-s", .output_schema_value = "/s.json"};

    expect_argv(turn, "a|-s|/s.json|b|");
    turn.output_schema_flag = NULL;
    expect_argv(turn, "a|b|");
}
END_TEST

START_TEST(the_bounds_hold_for_the_expanded_argv)
{
    static char long_arg[65538];
    const char *argv[258] = {0};
    struct cf_oneshot_turn turn = {.argv = argv};

    memset(long_arg, 'x', sizeof long_arg - 1);
    argv[0] = long_arg;
    expect_argv(turn, "argument 1 of the expanded argv has 65537 bytes");
    argv[0] = argv[1] = long_arg + 2; /* 65,535 and its terminator: twice is exactly the bound */
    struct cf_error err = {0};
    char **got = cf_oneshot_argv(&turn, &err);
    ck_assert(got != NULL);
    cf_argv_free(got);
    argv[2] = "";
    expect_argv(turn, "needs more than 131072 bytes at argument 3");
    for (int i = 0; i < 256; i++)
        argv[i] = "y";
    got = cf_oneshot_argv(&turn, &err);
    ck_assert(got != NULL);
    cf_argv_free(got);
    turn.output_schema_flag = "-s";
    turn.output_schema_value = "v";
    expect_argv(turn, "more than 256 arguments");
}
END_TEST

UNIT_MAIN("wire/oneshot", tcase_add_test(tc, text_is_valid_at_any_cut);
          tcase_add_test(tc, stream_json_is_one_object_a_line);
          tcase_add_test(tc, stream_json_breaks_on_what_a_harness_may_not_say);
          tcase_add_test(tc, argv_expands_whole_arguments_only);
          tcase_add_test(tc, a_placed_schema_is_not_appended_again);
          tcase_add_test(tc, the_bounds_hold_for_the_expanded_argv);)
