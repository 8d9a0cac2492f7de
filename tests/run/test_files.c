/* Paths that come out of a sandbox, and the options that say what goes in. */
#include "run/files.h"
#include "run/options.h"

#include "tests/support/unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

START_TEST(a_path_out_of_the_sandbox_stays_beneath)
{
    static const char *const sound[] = {"a", "a/b", ".hidden", "a/..b", "a/b..", "...", "\xff\xfe", "new\nline", " "};
    static const char *const unsound[] = {"", "/", "/etc/passwd", "..", ".", "a/..", "../a", "a/../b", "a//b", "a/", "a/./b", "./a"};
    char name[5000];

    for (size_t i = 0; i < sizeof sound / sizeof *sound; i++)
        ck_assert_msg(cf_collect_path_is_sound(sound[i]), "%s", sound[i]);
    for (size_t i = 0; i < sizeof unsound / sizeof *unsound; i++)
        ck_assert_msg(!cf_collect_path_is_sound(unsound[i]), "%s", unsound[i]);
    memset(name, 'n', sizeof name);
    name[255] = '\0';
    ck_assert(cf_collect_path_is_sound(name));
    name[255] = 'n';
    name[256] = '\0';
    ck_assert(!cf_collect_path_is_sound(name));
    for (size_t i = 0; i < sizeof name; i++)
        name[i] = i % 2 ? '/' : 'd';
    name[3899] = '\0';
    ck_assert(cf_collect_path_is_sound(name));
    name[3899] = '/';
    name[3901] = '\0';
    ck_assert(!cf_collect_path_is_sound(name));
}
END_TEST

static void
refused(const char *json, const char *word)
{
    struct cf_run_options options;
    struct cf_error err = {0};

    ck_assert_msg(cf_run_options_decode(json, strlen(json), &options, &err) < 0, "%s", json);
    ck_assert_msg(strstr(err.text, word) != NULL, "%s: %s", json, err.text);
    cf_run_options_done(&options);
}

START_TEST(files_and_hooks_are_read)
{
    static const char json[] =
        "{\"files\":[{\"source\":\"a b\",\"target\":\"x/y\"},{\"source\":\"c\",\"target\":\"/home/u/..z\"}],"
        "\"state_in\":\"s\",\"collect\":\"c\",\"limits\":{\"collect_bytes\":0,\"collect_entries\":5},"
        "\"hooks\":{\"post_materialize\":[\"make\",[\"/bin/x\",\"\"]],\"on_failure\":\"continue\",\"timeout_ms\":3600000}}";
    struct cf_run_options o;
    struct cf_error err = {0};

    ck_assert_msg(cf_run_options_decode(json, strlen(json), &o, &err) == 0, "%s", err.text);
    ck_assert_uint_eq(json_array_size(o.files), 2);
    ck_assert(o.continues); /* a state that is put in is continued */
    ck_assert_str_eq(o.collect, "c");
    ck_assert_uint_eq(o.collect_bytes, 0);
    ck_assert_uint_eq(o.collect_entries, 5);
    ck_assert_uint_eq(json_array_size(o.hooks[CF_HOOK_POST_MATERIALIZE]), 2);
    ck_assert_ptr_null(o.hooks[CF_HOOK_PRE_WRITEBACK]);
    ck_assert(o.hooks_go_on);
    ck_assert_uint_eq(o.hook_ms, 3600000);
    cf_run_options_done(&o);
}
END_TEST

#define BEFORE "{\"restore\":{\"schema_version\":1,\"run\":\"run_0\",\"made_at\":\"2026-01-01T00:00:00Z\",\"protocol\":\"acp-v1\","
#define AFTER ",\"session\":null,\"working_directory\":\"/w\",\"collected\":{}}}"

START_TEST(a_checkpoint_is_restored_only_as_it_was_made)
{
    static const char sound[] = BEFORE "\"turns\":2,\"state\":{\"version\":1,\"state\":\"s\"},\"state_turns\":1,"
                                       "\"directory\":\"/d\",\"error\":null" AFTER;
    static const struct {
        const char *middle, *word;
    } cases[] = {
        {"\"turns\":2,\"state\":null,\"state_turns\":null,\"directory\":\"/d\"", "error is missing"},
        {"\"turns\":2,\"state\":null,\"state_turns\":null,\"directory\":\"/d\",\"error\":\"x\"", "was not made"},
        {"\"turns\":2,\"state\":null,\"state_turns\":null,\"directory\":\"d\",\"error\":null", "absolute"},
        {"\"turns\":-1,\"state\":null,\"state_turns\":null,\"directory\":\"/d\",\"error\":null", "turns"},
        {"\"turns\":1,\"state\":null,\"state_turns\":\"1\",\"directory\":\"/d\",\"error\":null", "turns"},
        {"\"turns\":1,\"state\":\"s\",\"state_turns\":1,\"directory\":\"/d\",\"error\":null", "state is neither"},
        {"\"turns\":1,\"state\":{\"version\":2,\"state\":\"s\"},\"state_turns\":1,\"directory\":\"/d\",\"error\":null",
         "state is neither"},
        {"\"turns\":1,\"state\":null,\"state_turns\":null,\"directory\":\"/d\",\"error\":null,\"more\":1", "a member"},
    };
    char json[1000];
    struct cf_run_options o;
    struct cf_error err = {0};

    ck_assert_msg(cf_run_options_decode(sound, strlen(sound), &o, &err) == 0, "%s", err.text);
    ck_assert_ptr_nonnull(o.restore);
    cf_run_options_done(&o);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        (void)snprintf(json, sizeof json, BEFORE "%s" AFTER, cases[i].middle);
        refused(json, cases[i].word);
    }
    refused("{\"restore\":{}}", "schema_version is missing");
    refused("{\"restore\":\"/d\"}", "restore");
}
END_TEST

START_TEST(a_held_state_may_fill_its_mebibyte)
{
    struct cf_run_options o;
    struct cf_error err = {0};

    for (size_t size = 1048576; size <= 1048577; size++) { /* each of its bytes six in the text */
        char *json = malloc(7 * size), *at = json;
        at += sprintf(at, BEFORE "\"turns\":1,\"state\":{\"version\":1,\"state\":\"");
        for (size_t i = 0; i < size; i++, at += 6)
            memcpy(at, "\\u0001", 6);
        strcpy(at, "\"},\"state_turns\":1,\"directory\":\"/d\",\"error\":null" AFTER);
        ck_assert_msg(cf_run_options_decode(json, strlen(json), &o, &err) == (size == 1048576 ? 0 : -1), "%s", err.text);
        cf_run_options_done(&o);
        free(json);
    }
    ck_assert_ptr_nonnull(strstr(err.text, "1 MiB"));
}
END_TEST

START_TEST(one_variable_is_one_string_of_the_kernel)
{
    static char json[131200];
    struct cf_run_options o;
    struct cf_error err = {0};

    for (size_t value = 131069; value <= 131070; value++) { /* with "K=": 131,071 and one more */
        size_t len = (size_t)snprintf(json, sizeof json, "{\"env\":{\"K\":\"");
        memset(json + len, 'v', value);
        strcpy(json + len + value, "\"}}");
        ck_assert_int_eq(cf_run_options_decode(json, strlen(json), &o, &err), value == 131069 ? 0 : -1);
        cf_run_options_done(&o);
        memset(json, 0, sizeof json);
    }
    ck_assert_int_eq(err.kind, CF_ERROR_TOO_LARGE);
    ck_assert_ptr_nonnull(strstr(err.text, "131,071"));
}
END_TEST

START_TEST(what_is_wrong_with_files_and_hooks_is_named)
{
    char many[1000] = "{\"hooks\":{\"pre_writeback\":[";

    refused("{\"files\":[{\"source\":\"a\"}]}", "files[0]");
    refused("{\"files\":[{\"source\":\"a\",\"target\":\"b\",\"mode\":1}]}", "files[0]");
    refused("{\"files\":[{\"source\":\"a\",\"target\":\"\"}]}", "length");
    refused("{\"files\":[{\"source\":\"a\",\"target\":\"b/../c\"}]}", "..");
    refused("{\"files\":[{\"source\":\"a\",\"target\":\"..\"}]}", "..");
    refused("{\"files\":[{\"source\":\"a\",\"target\":\"/proc/x\"}]}", "not a place");
    refused("{\"files\":[{\"source\":\"a\",\"target\":\"/.cf/cf-init\"}]}", "not a place");
    refused("{\"hooks\":{\"post_materialize\":\"make\"}}", "hooks.post_materialize");
    refused("{\"hooks\":{\"post_materialize\":[\"\"]}}", "[0]");
    refused("{\"hooks\":{\"post_materialize\":[[]]}}", "[0]");
    refused("{\"hooks\":{\"post_materialize\":[[\"relative\"]]}}", "[0]");
    refused("{\"hooks\":{\"post_materialize\":[[\"/x\",1]]}}", "[0]");
    refused("{\"hooks\":{\"post_materialize\":[\"a\\u0000b\"]}}", "[0]");
    refused("{\"hooks\":{\"timeout_ms\":3600001}}", "timeout_ms");
    refused("{\"hooks\":{\"on_failure\":\"stop\"}}", "on_failure");
    for (int i = 0; i < 17; i++)
        strcat(many, i > 0 ? ",\"x\"" : "\"x\"");
    strcat(many, "]}}");
    refused(many, "at most 16");
}
END_TEST

UNIT_MAIN("run: files and hooks", tcase_add_test(tc, a_path_out_of_the_sandbox_stays_beneath);
          tcase_add_test(tc, files_and_hooks_are_read);
          tcase_add_test(tc, a_checkpoint_is_restored_only_as_it_was_made);
          tcase_add_test(tc, a_held_state_may_fill_its_mebibyte);
          tcase_add_test(tc, one_variable_is_one_string_of_the_kernel);
          tcase_add_test(tc, what_is_wrong_with_files_and_hooks_is_named);)
