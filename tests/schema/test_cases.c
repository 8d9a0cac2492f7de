/* The public suite's groups with their expectations, and the profile's own cases. */
#include "base/str.h"
#include "json/json.h"
#include "schema/schema.h"
#include "tests/support/unit.h"

#include <stdio.h>
#include <string.h>

#define DATA "../shared/data/json-schema/"

static json_t *
load(const char *path)
{
    json_error_t why;
    json_t *value = json_load_file(path, JSON_ALLOW_NUL | JSON_DECODE_ANY, &why);

    if (value == NULL)
        printf("SKIPPED %s: %s\n", path, why.text);
    return value;
}

/* Checks one admission against `expected`; returns the schema when it was to be admitted. */
static struct cf_schema *
admit_as_expected(const json_t *document, const json_t *expected, const char *code, const char *pointer,
                  const char *label)
{
    struct cf_schema_report report = {0};
    struct cf_schema *schema = NULL;
    struct cf_error err = {0};
    size_t len;
    char *text = cf_json_dump(document, &len);
    int status = cf_schema_admit(text, len, &schema, &report, &err);

    free(text);
    if (json_is_true(json_object_get(expected, "admitted"))) {
        ck_assert_msg(status == 0, "%s: %s", label, err.text);
    } else {
        ck_assert_msg(status < 0 && report.count > 0, "%s: was admitted", label);
        ck_assert_msg(strcmp(report.findings[0].code, code) == 0, "%s: %s", label, err.text);
        if (pointer != NULL)
            ck_assert_msg(strcmp(report.findings[0].pointer, pointer) == 0, "%s: %s", label, err.text);
    }
    cf_schema_report_release(&report);
    return schema;
}

static void
check_instance(const struct cf_schema *schema, const json_t *data, bool is_valid, const char *label)
{
    struct cf_schema_report report = {0};
    struct cf_error err = {0};
    size_t len;
    char *text = cf_json_dump(data, &len);
    int as_value = cf_schema_validate(schema, data, NULL, &err);
    int as_text = cf_schema_validate_text(schema, text, len, &report, &err);

    ck_assert_msg((as_value == 0) == is_valid, "%s with %s: %s", label, text, err.text);
    ck_assert_msg(as_text == as_value, "%s with %s: text and value differ", label, text);
    ck_assert((report.count == 0) == is_valid);
    for (unsigned i = 0; i < report.count; i++) {
        ck_assert_ptr_nonnull(report.findings[i].pointer);
        ck_assert_ptr_nonnull(report.findings[i].schema_pointer);
        ck_assert(report.findings[i].text[0] != '\0');
    }
    cf_schema_report_release(&report);
    free(text);
}

static unsigned
run_tests(const struct cf_schema *schema, const json_t *tests, const char *label)
{
    size_t i;
    json_t *test;

    json_array_foreach(tests, i, test)
        check_instance(schema, json_object_get(test, "data"), cf_json_bool(test, "valid", false), label);
    return (unsigned)json_array_size(tests);
}

static void
run_suite_file(const char *name, const json_t *expectations, unsigned *groups, unsigned *tests)
{
    char path[200];
    size_t i;
    json_t *group;

    snprintf(path, sizeof path, DATA "draft2020-12/%s", name);
    json_t *suite = load(path);
    ck_assert_ptr_nonnull(suite);
    ck_assert_uint_eq(json_array_size(suite), json_array_size(expectations));
    json_array_foreach(suite, i, group) {
        const json_t *expected = json_array_get(expectations, i);
        const char *label = cf_json_str(group, "description");
        ck_assert_str_eq(label, cf_json_str(expected, "group"));
        struct cf_schema *schema =
            admit_as_expected(json_object_get(group, "schema"), expected, cf_json_str(expected, "code"),
                              cf_json_str(expected, "pointer"), label);
        if (schema != NULL)
            *tests += run_tests(schema, json_object_get(group, "tests"), label);
        ++*groups;
        cf_schema_free(schema);
    }
    json_decref(suite);
}

START_TEST(every_group_of_the_public_suite_is_as_expected)
{
    json_t *expectations = load(DATA "expectations.json");
    unsigned groups = 0, tests = 0;
    const char *name;
    json_t *list;

    if (expectations == NULL)
        return;
    json_object_foreach(cf_json_obj(expectations, "files"), name, list)
        run_suite_file(name, list, &groups, &tests);
    printf("public suite: %u groups, %u instances\n", groups, tests);
    ck_assert_uint_gt(groups, 100);
    json_decref(expectations);
}
END_TEST

START_TEST(every_schema_case_of_the_profile_is_as_expected)
{
    json_t *cases = load(DATA "profile-cases.json"), *one;
    size_t i;

    if (cases == NULL)
        return;
    json_array_foreach(cf_json_arr(cases, "schemas"), i, one) {
        const char *label = cf_json_str(one, "name");
        struct cf_schema *schema = admit_as_expected(json_object_get(one, "schema"), one,
                                                     cf_json_str(one, "code"),
                                                     cf_json_str(one, "pointer"), label);
        if (schema != NULL)
            (void)run_tests(schema, json_object_get(one, "tests"), label);
        cf_schema_free(schema);
    }
    json_decref(cases);
}
END_TEST

START_TEST(every_pattern_case_of_the_profile_is_as_expected)
{
    json_t *cases = load(DATA "profile-cases.json"), *one, *text;
    size_t i, j;

    if (cases == NULL)
        return;
    json_array_foreach(cf_json_arr(cases, "patterns"), i, one) {
        const char *pattern = cf_json_str(one, "pattern");
        json_t *document = json_pack("{s:O}", "pattern", json_object_get(one, "pattern"));
        struct cf_schema *schema =
            admit_as_expected(document, one, cf_json_str(one, "code"), "/pattern", pattern);
        json_array_foreach(cf_json_arr(one, "matches"), j, text)
            check_instance(schema, text, true, pattern);
        json_array_foreach(cf_json_arr(one, "not_matches"), j, text)
            check_instance(schema, text, false, pattern);
        cf_schema_free(schema);
        json_decref(document);
    }
    json_decref(cases);
}
END_TEST

UNIT_MAIN("schema/cases", tcase_add_test(tc, every_group_of_the_public_suite_is_as_expected);
          tcase_add_test(tc, every_schema_case_of_the_profile_is_as_expected);
          tcase_add_test(tc, every_pattern_case_of_the_profile_is_as_expected);)
