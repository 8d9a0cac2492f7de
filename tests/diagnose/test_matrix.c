/* The matrix file, read strictly; excuses, stale ones, differences and the worst exit code. */
#include "diagnose/matrix.h"

#include "base/buf.h"
#include "base/str.h"
#include "base/utf8.h"
#include "json/json.h"
#include "tests/support/unit.h"

#include <stdio.h>
#include <string.h>

static json_t *
parse(const char *text)
{
    json_t *value = cf_json_parse(text, strlen(text), NULL, NULL);

    ck_assert_msg(value != NULL, "%s", text);
    return value;
}

#define DIGEST "@sha256:0000000000000000000000000000000000000000000000000000000000000000"
#define IMAGES "\"images\":[{\"name\":\"a\",\"image\":\"ghcr.io/x/a" DIGEST "\"},{\"name\":\"b\",\"build_context\":\"ctx\",\"protocols\":[\"acp\"]}]"
#define PROTOCOLS                                                                                                    \
    "\"protocols\":[{\"name\":\"acp\",\"release\":{\"protocol\":\"acp-v1\",\"entrypoint\":\"/bin/a\",\"arguments\":[]}}," \
    "{\"name\":\"one\",\"release\":{\"protocol\":\"oneshot-v1\",\"entrypoint\":\"/bin/a\",\"argv\":[],"                \
    "\"prompt_transport\":\"stdin\",\"output_mode\":\"text\"}}]"
#define OPTIONS "\"options\":[{\"name\":\"d\"},{\"name\":\"s\",\"options\":{\"limits\":{\"pids\":64}},\"release\":{\"working_directory\":\"/w\"}}]"
#define FILE_OF(images, protocols, options, more) "{\"schema_version\":1," images "," protocols "," options more "}"

START_TEST(every_combination_that_is_not_left_out_is_a_cell)
{
    json_t *document = parse(FILE_OF(IMAGES, PROTOCOLS, OPTIONS, ",\"exclude\":[{\"protocol\":\"one\",\"options\":\"s\"}],\"name\":\"n\""));
    struct cf_matrix_plan plan;
    struct cf_error err = {0};
    static const char *const names[] = {"a/acp/d", "a/acp/s", "a/one/d", "b/acp/d", "b/acp/s"};

    ck_assert_msg(cf_matrix_read(document, "/here", &plan, &err) == 0, "%s", err.text);
    json_decref(document);
    ck_assert_str_eq(plan.name, "n");
    ck_assert_uint_eq(plan.at_once, 2);
    ck_assert_uint_eq(plan.count, CF_COUNT(names));
    for (size_t i = 0; i < plan.count; i++)
        ck_assert_str_eq(plan.cells[i].name, names[i]);
    ck_assert_str_eq(cf_json_str(plan.cells[0].release, "image"), "ghcr.io/x/a" DIGEST);
    ck_assert_ptr_null(cf_json_str(plan.cells[0].release, "working_directory"));
    ck_assert_str_eq(cf_json_str(plan.cells[1].release, "working_directory"), "/w");
    ck_assert_int_eq(cf_json_int(json_object_get(plan.cells[1].run_options, "limits"), "pids", 0), 64);
    ck_assert_ptr_null(cf_json_str(plan.cells[1].run_options, "build_context"));
    ck_assert_str_eq(cf_json_str(plan.cells[3].run_options, "build_context"), "/here/ctx");
    cf_matrix_plan_release(&plan);
}
END_TEST

START_TEST(what_is_wrong_in_a_file_is_named_before_anything_runs)
{
    static const struct {
        const char *file, *says;
    } cases[] = {
        {"[]", "not an object"},
        {"{\"schema_version\":1,\"speed\":1}", "no member speed"},
        {FILE_OF(IMAGES, PROTOCOLS, "\"options\":[]", ""), "options"},
        {FILE_OF("\"images\":[{\"name\":\"a\"}]", PROTOCOLS, OPTIONS, ""), "exactly one of image and build_context"},
        {FILE_OF("\"images\":[{\"name\":\"a/b\",\"build_context\":\"c\"}]", PROTOCOLS, OPTIONS, ""), "without a name"},
        {FILE_OF("\"images\":[{\"name\":\"..\",\"build_context\":\"c\"}]", PROTOCOLS, OPTIONS, ""), "without a name"},
        {FILE_OF("\"images\":[{\"name\":\"a\",\"build_context\":\"c\"},{\"name\":\"a\",\"build_context\":\"c\"}]", PROTOCOLS, OPTIONS, ""),
         "stands there twice"},
        {FILE_OF("\"images\":[{\"name\":\"a\",\"build_context\":\"c\",\"protocols\":[\"x\"]}]", PROTOCOLS, OPTIONS, ""),
         "not in protocols"},
        {FILE_OF(IMAGES, "\"protocols\":[{\"name\":\"p\",\"release\":{\"protocol\":\"acp-v1\"}}]", OPTIONS, ""), "protocol that is not"},
        {FILE_OF("\"images\":[{\"name\":\"a\",\"build_context\":\"c\"}]",
                 "\"protocols\":[{\"name\":\"p\",\"release\":{\"protocol\":\"acp-v1\"}}]", OPTIONS, ""),
         "a/p/d"},
        {FILE_OF(IMAGES, PROTOCOLS, OPTIONS, ",\"exclude\":[{}]"), "leave out everything"},
        {FILE_OF(IMAGES, PROTOCOLS, OPTIONS, ",\"exclude\":[{\"image\":\"z\"}]"), "what is not there"},
        {FILE_OF(IMAGES, PROTOCOLS, OPTIONS, ",\"exclude\":[{\"options\":\"d\"},{\"options\":\"s\"}]"), "no cell left"},
        {FILE_OF(IMAGES, PROTOCOLS, OPTIONS, ",\"concurrency\":17"), "within 1 and 16"},
        {FILE_OF(IMAGES, PROTOCOLS, OPTIONS, ",\"concurrency\":\"2\""), "within 1 and 16"},
    };

    for (size_t i = 0; i < CF_COUNT(cases); i++) {
        json_t *document = parse(cases[i].file);
        struct cf_matrix_plan plan;
        struct cf_error err = {0};
        ck_assert_msg(cf_matrix_read(document, ".", &plan, &err) < 0, "%s", cases[i].file);
        ck_assert_int_eq(err.kind, CF_ERROR_CONFIG);
        ck_assert_msg(strstr(err.text, cases[i].says) != NULL, "%s: %s", cases[i].says, err.text);
        json_decref(document);
    }
}
END_TEST

START_TEST(a_baseline_is_excuses_with_a_reason_each_and_nothing_else)
{
    static const char *const bad[] = {"[]", "{\"schema_version\":1}", "{\"schema_version\":2,\"excuses\":[]}",
                                      "{\"schema_version\":1,\"excuses\":[{\"cell\":\"c\",\"check\":\"k\"}]}",
                                      "{\"schema_version\":1,\"excuses\":[{\"cell\":\"c\",\"check\":\"k\",\"reason\":\"\"}]}",
                                      "{\"schema_version\":1,\"excuses\":[{\"cell\":\"c\",\"check\":\"k\",\"reason\":\"r\",\"x\":1}]}"};
    struct cf_error err;
    json_t *baseline;

    for (size_t i = 0; i < CF_COUNT(bad); i++) {
        baseline = parse(bad[i]);
        ck_assert_msg(cf_matrix_check_baseline(baseline, &err) < 0, "%s", bad[i]);
        json_decref(baseline);
    }
    baseline = parse("{\"schema_version\":1,\"excuses\":[{\"cell\":\"c\",\"check\":\"k\",\"reason\":\"r\"}]}");
    ck_assert_int_eq(cf_matrix_check_baseline(baseline, &err), 0);
    json_decref(baseline);
}
END_TEST

/* ---- judging -------------------------------------------------------------------------------------- */

#define CHECK(id, status) "{\"id\":\"" id "\",\"status\":\"" status "\",\"summary\":\"s\"}"
#define ROW(cell, status, code, checks)                                                                               \
    "{\"cell\":\"" cell "\",\"image\":\"i\",\"protocol\":\"p\",\"options\":\"o\",\"status\":\"" status "\",\"exit_code\":" code \
    ",\"blame\":\"none\",\"checks\":[" checks "],\"error\":null,\"digest\":null,\"took_ms\":5}"
#define EXCUSE(cell, check) "{\"cell\":\"" cell "\",\"check\":\"" check "\",\"reason\":\"why not\"}"

static json_t *
judge(const char *rows_text, const char *excuses_text, const char *before_text)
{
    json_t *rows = parse(rows_text), *excuses = parse(excuses_text), *before = before_text != NULL ? parse(before_text) : NULL;
    json_t *baseline = json_pack("{s:O}", "excuses", excuses), *earlier = before != NULL ? json_pack("{s:O}", "cells", before) : NULL;
    json_t *result = cf_matrix_result("n", rows, baseline, earlier, 9);

    ck_assert_ptr_nonnull(result);
    json_decref(rows);
    json_decref(excuses);
    json_decref(before);
    json_decref(baseline);
    json_decref(earlier);
    return result;
}

static void
expect(json_t *result, int code, const char *first_status, size_t stale)
{
    json_t *row = json_array_get(json_object_get(result, "cells"), 0);

    ck_assert_int_eq(cf_json_int(result, "exit_code", -1), code);
    ck_assert_str_eq(cf_json_str(row, "status"), first_status);
    ck_assert_uint_eq(json_array_size(json_object_get(result, "stale")), stale);
    json_decref(result);
}

START_TEST(a_failure_whose_every_check_is_excused_is_none)
{
    static const char one[] = "[" ROW("i/p/o", "failed", "1", CHECK("x", "failed") "," CHECK("y", "passed")) "]";
    static const char two[] = "[" ROW("i/p/o", "failed", "1", CHECK("x", "failed") "," CHECK("y", "failed")) "]";

    expect(judge(one, "[]", NULL), 1, "failed", 0);
    expect(judge(one, "[" EXCUSE("i/p/o", "x") "]", NULL), 0, "excused", 0);
    expect(judge(two, "[" EXCUSE("i/p/o", "x") "]", NULL), 1, "failed", 0);
    expect(judge(two, "[" EXCUSE("i/p/o", "x") "," EXCUSE("i/p/o", "y") "]", NULL), 0, "excused", 0);
    expect(judge("[" ROW("i/p/o", "failed", "1", "") "]", "[]", NULL), 1, "failed", 0);
}
END_TEST

START_TEST(an_excuse_that_excuses_nothing_is_a_failure)
{
    static const char good[] = "[" ROW("i/p/o", "passed", "0", CHECK("x", "passed") "," CHECK("z", "skipped")) "]";

    expect(judge(good, "[" EXCUSE("i/p/o", "x") "]", NULL), 1, "passed", 1);
    expect(judge(good, "[" EXCUSE("i/p/o", "z") "]", NULL), 1, "passed", 1);
    expect(judge(good, "[" EXCUSE("i/p/o", "none") "]", NULL), 1, "passed", 1);
    expect(judge(good, "[" EXCUSE("i/p/gone", "x") "]", NULL), 1, "passed", 1);
}
END_TEST

START_TEST(an_engine_that_is_gone_has_no_excuse_and_makes_none_stale)
{
    expect(judge("[" ROW("i/p/o", "error", "3", CHECK("x", "failed")) "]", "[" EXCUSE("i/p/o", "x") "]", NULL), 3, "error", 0);
    expect(judge("[" ROW("i/p/o", "error", "4", CHECK("x", "failed")) "]", "[" EXCUSE("i/p/o", "x") "]", NULL), 4, "error", 0);
    expect(judge("[" ROW("i/p/o", "error", "130", "") "]", "[" EXCUSE("i/p/o", "x") "]", NULL), 130, "error", 0);
}
END_TEST

START_TEST(the_exit_code_is_the_worst)
{
    expect(judge("[" ROW("a/p/o", "passed", "0", "") "," ROW("b/p/o", "failed", "1", "") "," ROW("c/p/o", "error", "3", "") "]", "[]", NULL),
           3, "passed", 0);
    expect(judge("[" ROW("a/p/o", "passed", "0", "") "," ROW("b/p/o", "error", "4", "") "," ROW("c/p/o", "error", "3", "") "]", "[]", NULL),
           4, "passed", 0);
}
END_TEST

START_TEST(what_is_different_since_the_last_result_is_told_by_cell_and_check)
{
    static const char before[] = "[" ROW("a/p/o", "passed", "0", CHECK("x", "passed")) "," ROW("b/p/o", "failed", "1", CHECK("x", "failed"))
        "," ROW("c/p/o", "failed", "1", CHECK("x", "failed") "," CHECK("y", "passed")) "," ROW("gone/p/o", "passed", "0", "") "]";
    static const char now[] = "[" ROW("a/p/o", "failed", "1", CHECK("x", "failed")) "," ROW("b/p/o", "passed", "0", CHECK("x", "passed"))
        "," ROW("c/p/o", "failed", "1", CHECK("x", "failed") "," CHECK("y", "skipped")) "," ROW("new/p/o", "passed", "0", "") "]";
    static const char *const wanted[][2] = {{"a/p/o", "worse"}, {"b/p/o", "better"}, {"c/p/o", "changed"}, {"new/p/o", "new"}, {"gone/p/o", "gone"}};
    json_t *result = judge(now, "[]", before), *changes = json_object_get(json_object_get(result, "diff"), "changes");

    ck_assert_uint_eq(json_array_size(changes), CF_COUNT(wanted));
    for (size_t i = 0; i < CF_COUNT(wanted); i++) {
        ck_assert_str_eq(cf_json_str(json_array_get(changes, i), "cell"), wanted[i][0]);
        ck_assert_str_eq(cf_json_str(json_array_get(changes, i), "change"), wanted[i][1]);
    }
    ck_assert_str_eq(cf_json_str(json_array_get(json_object_get(json_array_get(changes, 0), "checks"), 0), "after"), "failed");
    json_decref(result);
    result = judge(now, "[]", now);
    ck_assert_uint_eq(json_array_size(json_object_get(json_object_get(result, "diff"), "changes")), 0);
    json_decref(result);
    result = judge(now, "[]", "[1, {}, {\"cell\": 7}, {\"cell\": \"a/p/o\"}, {\"cell\": \"b/p/o\", \"checks\": [3, {}]}]");
    ck_assert(json_is_object(json_object_get(result, "diff")));
    json_decref(result);
}
END_TEST

START_TEST(the_table_fits_80_columns_whatever_the_names)
{
    static const char name[] = "a-name-as-long-as-a-name-may-ever-be-here";
    json_t *result = judge("[" ROW("i/p/o", "failed", "1", CHECK("a_check_with_a_name", "failed")) "]", "[" EXCUSE("i/p/gone", "x") "]",
                           "[" ROW("i/p/o", "passed", "0", "") "]");
    json_t *row = json_array_get(json_object_get(result, "cells"), 0);
    const struct cf_report_style plain = {.columns = 80}, signs = {.columns = 80, .unicode = true};
    struct cf_buf page = {0};

    (void)json_object_set_new(row, "image", json_string(name));
    (void)json_object_set_new(row, "protocol", json_string(name));
    (void)json_object_set_new(row, "options", json_string(name));
    (void)json_object_set_new(json_array_get(json_object_get(row, "checks"), 0), "summary",
                              json_string("a summary\nthat is \033[2J longer than what fits behind the name of its check, \xc3\xa4\xc3\xb6\xc3\xbc"));
    cf_matrix_table(&page, result, &plain);
    cf_matrix_table(&page, result, &signs);
    (void)cf_buf_add(&page, "", 1);
    ck_assert(!page.failed);
    ck_assert_ptr_null(strchr(page.data, '\033'));
    for (char *line = strtok(page.data, "\n"); line != NULL; line = strtok(NULL, "\n"))
        ck_assert_msg(cf_utf16_units(line, strlen(line)) <= 80, "%s", line);
    cf_buf_release(&page);
    json_decref(result);
}
END_TEST

UNIT_MAIN("diagnose/matrix", tcase_add_test(tc, every_combination_that_is_not_left_out_is_a_cell);
          tcase_add_test(tc, what_is_wrong_in_a_file_is_named_before_anything_runs);
          tcase_add_test(tc, a_baseline_is_excuses_with_a_reason_each_and_nothing_else);
          tcase_add_test(tc, a_failure_whose_every_check_is_excused_is_none);
          tcase_add_test(tc, an_excuse_that_excuses_nothing_is_a_failure);
          tcase_add_test(tc, an_engine_that_is_gone_has_no_excuse_and_makes_none_stale);
          tcase_add_test(tc, the_exit_code_is_the_worst);
          tcase_add_test(tc, what_is_different_since_the_last_result_is_told_by_cell_and_check);
          tcase_add_test(tc, the_table_fits_80_columns_whatever_the_names);)
