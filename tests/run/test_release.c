#include "run/release.h"

#include "base/str.h"
#include "json/json.h"
#include "tests/support/unit.h"

#include <stdio.h>
#include <string.h>

#define BASE "\"image\":\"a.b/c@sha256:0\",\"entrypoint\":\"/opt/x\",\"protocol\":"
#define ONESHOT "{" BASE "\"oneshot-v1\",\"argv\":%s,\"prompt_transport\":\"%s\",\"output_mode\":\"text\"%s}"

/* The first error's code and pointer, or "" when the release is valid. */
static const char *
verdict(const char *json)
{
    static char text[300];
    struct cf_error err = {0};
    char *report = NULL;
    int status = cf_release_check(json, strlen(json), &report, &err);
    json_t *value = cf_json_parse(report, strlen(report), NULL, NULL);
    json_t *first = json_array_get(json_object_get(value, "errors"), 0);

    ck_assert_int_eq(status == 0, json_is_true(json_object_get(value, "valid")));
    if (first == NULL)
        text[0] = '\0';
    else
        (void)snprintf(text, sizeof text, "%s %s", cf_json_str(first, "code"), cf_json_str(first, "pointer"));
    if (first != NULL) {
        ck_assert_msg(*cf_json_str(first, "message") && *cf_json_str(first, "remedy"), "%s has no words", text);
        ck_assert_int_eq(status, -1);
        ck_assert(err.text[0] != '\0' && err.fix[0] != '\0');
    }
    json_decref(value);
    cf_release_report_free(report);
    return text;
}

static const char *
oneshot(const char *argv, const char *transport, const char *more)
{
    static char json[4096];

    (void)snprintf(json, sizeof json, ONESHOT, argv, transport, more);
    return verdict(json);
}

START_TEST(the_smallest_releases_are_valid)
{
    ck_assert_str_eq(oneshot("[]", "stdin", ""), "");
    ck_assert_str_eq(verdict("{" BASE "\"acp-v1\"}"), "");
    ck_assert_str_eq(verdict("{" BASE "\"acp-v1\",\"arguments\":[\"--stdio\",\"\",\" \"],\"argv\":null}"), "");
}
END_TEST

START_TEST(placeholders_and_flags_go_together)
{
    ck_assert_str_eq(oneshot("[\"{prompt_path}\"]", "argv_path", ""), "");
    ck_assert_str_eq(oneshot("[]", "argv_path", ""), "prompt_path_placeholder /argv");
    ck_assert_str_eq(oneshot("[\"{prompt_path}\",\"{prompt_path}\"]", "argv_path", ""), "prompt_path_placeholder /argv");
    ck_assert_str_eq(oneshot("[\"{prompt_path}\"]", "stdin", ""), "prompt_path_placeholder /argv");
    ck_assert_str_eq(oneshot("[\"{resume_flag}\"]", "stdin", ""), "resume_flag_missing /resume_flag");
    ck_assert_str_eq(oneshot("[]", "stdin", ",\"resume_flag\":\"-r\""), "resume_flag_placeholder /argv");
    ck_assert_str_eq(oneshot("[\"{resume_flag}\"]", "stdin", ",\"resume_flag\":\"-r\""), "");
    ck_assert_str_eq(oneshot("[]", "stdin", ",\"output_schema_flag\":\"-s\""), "together /output_schema_transport");
    ck_assert_str_eq(oneshot("[]", "stdin", ",\"output_schema_transport\":\"argv_json\""), "together /output_schema_flag");
    ck_assert_str_eq(oneshot("[\"{output_schema}\"]", "stdin", ""), "output_schema_placeholder /argv");
    ck_assert_str_eq(oneshot("[\"x{prompt_path}\"]", "stdin", ""), ""); /* not a whole argument: a literal */
}
END_TEST

START_TEST(paths_are_absolute_and_plain)
{
    static const char *const bad[] = {"opt/x", "/", "//x", "/x/", "/a/../b", "/a/./b", "/a b", "/a\xc3\xa9", ""};
    static const char *const good[] = {"/x", "/.config/a..b/...", "/A-z_0.9"};

    for (size_t i = 0; i < CF_COUNT(bad); i++)
        ck_assert_msg(!cf_path_is_plain_absolute(bad[i]), "%s", bad[i]);
    for (size_t i = 0; i < CF_COUNT(good); i++)
        ck_assert_msg(cf_path_is_plain_absolute(good[i]), "%s", good[i]);
    ck_assert_str_eq(verdict("{\"image\":\"i\",\"entrypoint\":\"x\",\"protocol\":\"acp-v1\"}"), "path /entrypoint");
}
END_TEST

START_TEST(bounds_hold_at_their_edge)
{
    char *json = malloc(300000), *arg = malloc(70000);

    memset(arg, 'a', 65537);
    arg[65536] = '\0';
    (void)snprintf(json, 300000, ONESHOT, "[\"%s\"]", "stdin", "");
    (void)sprintf(json, "{" BASE "\"acp-v1\",\"arguments\":[\"%s\"]}", arg);
    ck_assert_str_eq(verdict(json), "");
    (void)sprintf(json, "{" BASE "\"acp-v1\",\"arguments\":[\"%sb\"]}", arg);
    ck_assert_str_eq(verdict(json), "max_length /arguments/0");
    arg[65535] = '\0'; /* two of these and their terminators are exactly 131,072 */
    (void)sprintf(json, "{" BASE "\"acp-v1\",\"arguments\":[\"%s\",\"%s\"]}", arg, arg);
    ck_assert_str_eq(verdict(json), "");
    (void)sprintf(json, "{" BASE "\"acp-v1\",\"arguments\":[\"%s\",\"%s\",\"\"]}", arg, arg);
    ck_assert_str_eq(verdict(json), "max_bytes /arguments");
    strcpy(json, "{" BASE "\"acp-v1\",\"arguments\":[\"a\"");
    for (int i = 1; i < 256; i++)
        strcat(json, ",\"a\"");
    strcat(json, "]}");
    ck_assert_str_eq(verdict(json), "");
    strcpy(json + strlen(json) - 2, ",\"a\"]}");
    ck_assert_str_eq(verdict(json), "max_items /arguments");
    free(arg);
    free(json);
}
END_TEST

START_TEST(what_belongs_elsewhere_is_refused)
{
    ck_assert_str_eq(verdict("{" BASE "\"acp-v1\",\"argv\":[]}"), "other_protocol /argv");
    ck_assert_str_eq(oneshot("[]", "stdin", ",\"arguments\":[]"), "other_protocol /arguments");
    ck_assert_str_eq(oneshot("[]", "stdin", ",\"ar~gu/ments\":[]"), "additional_properties /ar~0gu~1ments");
    ck_assert_str_eq(oneshot("[]", "pipe", ""), "enum /prompt_transport");
    ck_assert_str_eq(verdict("[]"), "type ");
    ck_assert_str_eq(verdict("{"), "json ");
    ck_assert_str_eq(oneshot("[\"a\\u0000b\"]", "stdin", ""), "pattern /argv/0");
    ck_assert_str_eq(oneshot("[]", "stdin", ",\"model_wire_dialects\":[]"), "items /model_wire_dialects");
    ck_assert_str_eq(oneshot("[]", "stdin", ",\"model_wire_dialects\":[\"fal_queue\",\"fal_queue\"]"),
                     "unique_items /model_wire_dialects/1");
    ck_assert_str_eq(oneshot("[]", "stdin", ",\"platform\":{\"os\":\"linux\",\"architecture\":\"mips\"}"),
                     "platform /platform");
    ck_assert_str_eq(oneshot("[]", "stdin", ",\"configuration_schema\":{\"uniqueItems\":true}"),
                     "schema_unique_items_unsupported /configuration_schema/uniqueItems");
}
END_TEST

START_TEST(all_mistakes_are_told_at_once)
{
    static const char json[] = "{\"image\":1,\"entrypoint\":\"x\",\"protocol\":\"oneshot-v1\",\"extra\":1}";
    struct cf_error err;
    char *report = NULL;
    json_t *value;

    ck_assert_int_eq(cf_release_check(json, strlen(json), &report, &err), -1);
    value = cf_json_parse(report, strlen(report), NULL, NULL);
    ck_assert_uint_ge(json_array_size(json_object_get(value, "errors")), 6);
    json_decref(value);
    cf_release_report_free(report);
}
END_TEST

START_TEST(a_near_miss_of_a_placeholder_is_a_warning)
{
    char *report = NULL;
    char json[500];

    (void)snprintf(json, sizeof json, ONESHOT, "[\"{PROMPT-PATH}\"]", "stdin", "");
    ck_assert_int_eq(cf_release_check(json, strlen(json), &report, NULL), 0);
    ck_assert(strstr(report, "placeholder_spelling") != NULL);
    cf_release_report_free(report);
}
END_TEST

UNIT_MAIN("run/release", tcase_add_test(tc, the_smallest_releases_are_valid);
          tcase_add_test(tc, placeholders_and_flags_go_together); tcase_add_test(tc, paths_are_absolute_and_plain);
          tcase_add_test(tc, bounds_hold_at_their_edge); tcase_add_test(tc, what_belongs_elsewhere_is_refused);
          tcase_add_test(tc, all_mistakes_are_told_at_once);
          tcase_add_test(tc, a_near_miss_of_a_placeholder_is_a_warning);)
