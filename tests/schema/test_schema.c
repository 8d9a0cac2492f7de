/* Limits at the limit and one past it, findings and their places, work. */
#include "base/buf.h"
#include "base/str.h"
#include "json/json.h"
#include "schema/schema.h"
#include "tests/support/unit.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

static struct cf_schema *
admit_ok(const char *text)
{
    struct cf_schema *schema = NULL;
    struct cf_error err = {0};

    ck_assert_msg(cf_schema_admit(text, strlen(text), &schema, NULL, &err) == 0, "%.200s: %s", text,
                  err.text);
    return schema;
}

/* "code pointer" of the first finding of a refusal. */
static const char *
refusal(const char *text, size_t len)
{
    static char answer[400];
    struct cf_schema_report report = {0};
    struct cf_schema *schema = NULL;
    struct cf_error err = {0};

    if (cf_schema_admit(text, len, &schema, &report, &err) == 0) {
        cf_schema_free(schema);
        cf_schema_report_release(&report);
        return "admitted";
    }
    ck_assert_uint_gt(report.count, 0);
    snprintf(answer, sizeof answer, "%s %s", report.findings[0].code, report.findings[0].pointer);
    cf_schema_report_release(&report);
    return answer;
}

static const char *
refusal_of(const char *text)
{
    return refusal(text, strlen(text));
}

/* All findings as "code instance schema;" */
static const char *
findings(const struct cf_schema *schema, const char *instance)
{
    static char answer[4000];
    struct cf_schema_report report = {0};
    struct cf_error err = {0};
    size_t len = 0;

    int status = cf_schema_validate_text(schema, instance, strlen(instance), &report, &err);
    ck_assert((status == 0) == (report.count == 0));
    answer[0] = '\0';
    for (unsigned i = 0; i < report.count; i++)
        len += (size_t)snprintf(answer + len, sizeof answer - len, "%s %s %s;", report.findings[i].code,
                                report.findings[i].pointer, report.findings[i].schema_pointer);
    cf_schema_report_release(&report);
    return answer;
}

/* ---- limits --------------------------------------------------------------------------- */

static char *
repeat(const char *before, const char *one, unsigned count, const char *after)
{
    struct cf_buf text = {0};

    cf_buf_adds(&text, before);
    for (unsigned i = 0; i < count; i++)
        cf_buf_adds(&text, one);
    cf_buf_adds(&text, after);
    return cf_buf_take(&text, NULL);
}

static void
expect_refusal(char *text, const char *expected)
{
    ck_assert_str_eq(refusal_of(text), expected);
    free(text);
}

START_TEST(document_limits_hold_at_the_limit_and_one_past_it)
{
    size_t fixed = strlen("{\"title\":\"\"}");

    expect_refusal(repeat("{\"title\":\"", "x", 32768 - (unsigned)fixed, "\"}"), "admitted");
    expect_refusal(repeat("{\"title\":\"", "x", 32769 - (unsigned)fixed, "\"}"), "schema_too_large ");
    expect_refusal(repeat("{\"const\":", "[", 31, "0]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]}"), "admitted");
    expect_refusal(repeat("{\"const\":", "[", 32, "0]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]}"), "schema_too_deep ");
    expect_refusal(repeat("{\"enum\":[0", ",0", 3997, "]}"), "admitted");
    expect_refusal(repeat("{\"enum\":[0", ",0", 3998, "]}"), "schema_too_many_nodes ");
}
END_TEST

START_TEST(text_errors_have_their_codes)
{
    ck_assert_str_eq(refusal_of(""), "schema_invalid_json ");
    ck_assert_str_eq(refusal_of("{\"a\":1,\"a\":1}"), "schema_duplicate_name ");
    ck_assert_str_eq(refusal_of("{\"const\":\"\\ud800\"}"), "schema_invalid_json ");
    ck_assert_str_eq(refusal_of("{\"a\\u0000\":1}"), "schema_invalid_json ");
    ck_assert_str_eq(refusal_of("{\"const\":\"\xff\"}"), "schema_invalid_json ");
    ck_assert_str_eq(refusal_of("{\"const\":9223372036854775808}"), "schema_invalid_json ");
    ck_assert_str_eq(refusal_of("{\"const\":1e999}"), "schema_invalid_json ");
    ck_assert_str_eq(refusal_of("null"), "schema_not_boolean_or_object ");
    ck_assert_str_eq(refusal_of("{\"const\":\"a\\u0000b\"}"), "admitted");
}
END_TEST

START_TEST(branches_are_counted_over_the_whole_document)
{
    /* 4 combinators of 64 are 256. */
    static const char four[] = "{\"$defs\":{\"a\":%s,\"b\":%s,\"c\":%s,\"d\":%s}%s}";
    char *any = repeat("{\"anyOf\":[true", ",true", 63, "]}");
    char text[4000];

    snprintf(text, sizeof text, four, any, any, any, any, "");
    ck_assert_str_eq(refusal_of(text), "admitted");
    snprintf(text, sizeof text, four, any, any, any, any, ",\"then\":true");
    ck_assert_str_eq(refusal_of(text), "schema_too_many_combinators /then");
    snprintf(text, sizeof text, four, any, any, any, any, ",\"dependentSchemas\":{\"x/y\":true}");
    ck_assert_str_eq(refusal_of(text), "schema_too_many_combinators /dependentSchemas/x~1y");
    free(any);
}
END_TEST

START_TEST(references_are_counted_and_the_first_too_many_is_named)
{
    char *at = repeat("{\"$defs\":{\"a\":{}},\"anyOf\":[true],\"prefixItems\":[true", ",{\"$ref\":\"#/$defs/a\"}", 128, "]}");
    ck_assert_str_eq(refusal_of(at), "admitted");
    free(at);
    at = repeat("{\"$defs\":{\"a\":{}},\"prefixItems\":[true", ",{\"$ref\":\"#/$defs/a\"}", 129, "]}");
    ck_assert_str_eq(refusal_of(at), "schema_too_many_refs /prefixItems/129/$ref");
    free(at);
}
END_TEST

START_TEST(reference_texts_are_read_as_pointers)
{
    static const struct {
        const char *ref, *expected;
    } cases[] = {
        {"", "schema_ref_remote /$ref"},
        {"#", "schema_ref_cycle /$ref"},
        {"#/", "schema_ref_unresolved /$ref"},
        {"#a", "schema_ref_not_pointer /$ref"},
        {"urn:x", "schema_ref_remote /$ref"},
        {"#/$defs/a", "admitted"},
        {"#/%24defs/a", "admitted"},
        {"#%2F$defs/a", "admitted"},
        {"#/$defs/%61", "admitted"},
        {"#/$defs/%2561", "schema_ref_unresolved /$ref"},
        {"#/$defs/a%", "schema_ref_unresolved /$ref"},
        {"#/$defs/a%2", "schema_ref_unresolved /$ref"},
        {"#/$defs/%ff", "schema_ref_unresolved /$ref"},
        {"#/$defs/a%00", "schema_ref_unresolved /$ref"},
        {"#/$defs/~2", "schema_ref_unresolved /$ref"},
        {"#/$defs/~", "schema_ref_unresolved /$ref"},
        {"#/$defs/a/", "schema_ref_unresolved /$ref"},
        {"#/$defs", "schema_ref_target_not_schema /$ref"},
        {"#/$defs/l/prefixItems/1", "admitted"},
        {"#/$defs/l/prefixItems/01", "schema_ref_unresolved /$ref"},
        {"#/$defs/l/prefixItems/2", "schema_ref_unresolved /$ref"},
        {"#/$defs/l/prefixItems/-", "schema_ref_unresolved /$ref"},
        {"#/$defs/l/prefixItems", "schema_ref_target_not_schema /$ref"},
        {"#/$defs/l/default", "schema_ref_target_not_schema /$ref"},
        {"#/$defs/l/x-y/z", "schema_ref_target_not_schema /$ref"},
        {"#/title", "schema_ref_target_not_schema /$ref"},
    };
    char text[400];

    for (size_t i = 0; i < CF_COUNT(cases); i++) {
        snprintf(text, sizeof text,
                 "{\"title\":\"t\",\"$ref\":\"%s\",\"$defs\":{\"a\":{},\"l\":{\"prefixItems\":[true,{}],"
                 "\"default\":{},\"x-y\":{\"z\":{}}}}}",
                 cases[i].ref);
        ck_assert_msg(strcmp(refusal_of(text), cases[i].expected) == 0, "%s: %s", cases[i].ref,
                      refusal_of(text));
    }
}
END_TEST

START_TEST(wrong_shapes_are_named_at_their_keyword)
{
    static const char *const wrong[][2] = {
        {"\"type\":[]", "type"}, {"\"type\":[\"null\",\"null\"]", "type"}, {"\"type\":1", "type"},
        {"\"type\":[\"null\",1]", "type"}, {"\"enum\":1", "enum"}, {"\"allOf\":[]", "allOf"},
        {"\"anyOf\":{}", "anyOf"}, {"\"oneOf\":true", "oneOf"}, {"\"prefixItems\":[]", "prefixItems"},
        {"\"properties\":[]", "properties"}, {"\"patternProperties\":1", "patternProperties"},
        {"\"$defs\":[]", "$defs"}, {"\"dependentSchemas\":1", "dependentSchemas"},
        {"\"required\":[1]", "required"}, {"\"required\":{}", "required"},
        {"\"dependentRequired\":{\"a\":[\"b\",\"b\"]}", "dependentRequired"},
        {"\"minLength\":1.5", "minLength"}, {"\"maxItems\":\"1\"", "maxItems"},
        {"\"minimum\":\"1\"", "minimum"}, {"\"multipleOf\":0", "multipleOf"},
        {"\"multipleOf\":-1", "multipleOf"}, {"\"pattern\":1", "pattern"},
        {"\"uniqueItems\":1", "uniqueItems"}, {"\"$ref\":1", "$ref"}, {"\"$id\":\"a#b\"", "$id"},
    };
    char text[200], expected[100];

    for (size_t i = 0; i < CF_COUNT(wrong); i++) {
        snprintf(text, sizeof text, "{%s}", wrong[i][0]);
        snprintf(expected, sizeof expected, "schema_keyword_invalid /%s", wrong[i][1]);
        ck_assert_msg(strcmp(refusal_of(text), expected) == 0, "%s: %s", text, refusal_of(text));
    }
    ck_assert_str_eq(refusal_of("{\"minLength\":2.0,\"maxItems\":1e300,\"enum\":[]}"), "admitted");
    ck_assert_str_eq(refusal_of("{\"patternProperties\":{\"a/(\":true}}"),
                     "schema_pattern_group /patternProperties/a~1(");
}
END_TEST

START_TEST(an_author_sees_several_findings_in_document_order)
{
    static const char text[] = "{\"type\":\"int\",\"properties\":{\"a\":{\"pattern\":\"a*\"},\"b\":1},"
                               "\"x-more\":1,\"$ref\":\"http://example.test/\"}";
    struct cf_schema_report report = {0};
    struct cf_schema *schema = NULL;
    struct cf_error err = {0};

    ck_assert_int_lt(cf_schema_admit(text, sizeof text - 1, &schema, &report, &err), 0);
    ck_assert_uint_eq(report.count, 4);
    ck_assert_str_eq(report.findings[0].pointer, "/type");
    ck_assert_str_eq(report.findings[1].pointer, "/properties/a/pattern");
    ck_assert_str_eq(report.findings[2].pointer, "/properties/b");
    ck_assert_str_eq(report.findings[3].code, "schema_ref_remote");
    ck_assert_uint_eq(report.warning_count, 1);
    ck_assert_str_eq(report.warnings[0].pointer, "/x-more");
    cf_schema_report_release(&report);
}
END_TEST

START_TEST(no_more_than_sixteen_findings_are_kept)
{
    char *text = repeat("{\"prefixItems\":[1", ",1", 99, "]}");
    struct cf_schema_report report = {0};
    struct cf_schema *schema = NULL;
    struct cf_error err = {0};

    ck_assert_int_lt(cf_schema_admit(text, strlen(text), &schema, &report, &err), 0);
    ck_assert_uint_eq(report.count, 16);
    cf_schema_report_release(&report);
    free(text);
}
END_TEST

/* ---- validation ----------------------------------------------------------------------- */

START_TEST(findings_name_instance_and_schema_places)
{
    struct cf_schema *schema = admit_ok(
        "{\"$defs\":{\"s\":{\"type\":\"string\",\"maxLength\":2}},\"type\":\"object\",\"required\":[\"a\",\"z\"],"
        "\"properties\":{\"a\":{\"$ref\":\"#/$defs/s\"},\"l/m\":{\"items\":{\"minimum\":3}},\"n\":false},"
        "\"propertyNames\":{\"maxLength\":4},\"additionalProperties\":false,\"anyOf\":[{\"minProperties\":9}]}");

    ck_assert_str_eq(findings(schema, "{\"a\":\"ab\",\"z\":1}"),
                     "additional_properties /z /additionalProperties;any_of  /anyOf;");
    ck_assert_str_eq(findings(schema, "{\"l/m\":[3,2,\"x\",1.5],\"a\":\"abc\",\"n\":1}"),
                     "required  /required;"
                     "minimum /l~1m/1 /properties/l~1m/items/minimum;"
                     "minimum /l~1m/3 /properties/l~1m/items/minimum;"
                     "max_length /a /$defs/s/maxLength;"
                     "false_schema /n /properties/n;"
                     "any_of  /anyOf;");
    ck_assert_str_eq(findings(schema, "1"), "type  /type;");
    ck_assert_str_eq(findings(schema, "{\"abcde\":1,\"a\":\"\",\"z\":1}"),
                     "additional_properties /abcde /additionalProperties;"
                     "additional_properties /z /additionalProperties;"
                     "property_names  /propertyNames;any_of  /anyOf;");
    ck_assert_str_eq(findings(schema, "{"), "instance_invalid_json  ;");
    ck_assert_str_eq(findings(schema, "{\"a\":1,\"a\":1}"), "instance_duplicate_name  ;");
    cf_schema_free(schema);
}
END_TEST

START_TEST(evaluation_order_is_reference_type_const_enum_then_the_rest)
{
    struct cf_schema *schema = admit_ok("{\"not\":{},\"minimum\":9,\"enum\":[2],\"const\":2,\"type\":\"string\","
                                        "\"$ref\":\"#/$defs/a\",\"$defs\":{\"a\":false}}");

    ck_assert_str_eq(findings(schema, "1"), "false_schema  /$defs/a;type  /type;const  /const;enum  /enum;"
                                            "minimum  /minimum;not  /not;");
    cf_schema_free(schema);
}
END_TEST

START_TEST(instance_limits_hold_at_the_limit_and_one_past_it)
{
    struct cf_schema *schema = admit_ok("true");
    char *text;

    text = repeat("\"", "x", 65534, "\"");
    ck_assert_str_eq(findings(schema, text), "");
    free(text);
    text = repeat("\"", "x", 65535, "\"");
    ck_assert_str_eq(findings(schema, text), "instance_too_large  ;");
    free(text);
    text = repeat("[0", ",0", 3998, "]");
    ck_assert_str_eq(findings(schema, text), "");
    free(text);
    text = repeat("[0", ",0", 3999, "]");
    ck_assert_str_eq(findings(schema, text), "instance_too_many_nodes  ;");
    free(text);
    ck_assert_str_eq(findings(schema, "[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[0]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]"), "");
    ck_assert_str_eq(findings(schema, "[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[0]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]"),
                     "instance_too_deep  ;");
    cf_schema_free(schema);
}
END_TEST

START_TEST(a_tree_meets_the_same_instance_limits_as_a_text)
{
    struct cf_schema *schema = admit_ok("true");
    struct cf_error err = {0};
    json_t *deep = json_integer(1), *wide = json_array();
    char *big = repeat("", "x", 65535, "");
    json_t *text = json_string(big);

    for (int i = 0; i < 33; i++)
        deep = json_pack("[o]", deep);
    for (int i = 0; i < 4000; i++)
        json_array_append_new(wide, json_null());
    ck_assert_int_lt(cf_schema_validate(schema, deep, NULL, &err), 0);
    ck_assert_int_eq(err.kind, CF_ERROR_TOO_LARGE);
    ck_assert_int_eq(cf_schema_validate(schema, json_array_get(deep, 0), NULL, &err), 0);
    ck_assert_int_lt(cf_schema_validate(schema, wide, NULL, &err), 0);
    json_array_remove(wide, 0);
    ck_assert_int_eq(cf_schema_validate(schema, wide, NULL, &err), 0);
    ck_assert_int_lt(cf_schema_validate(schema, text, NULL, &err), 0);
    json_decref(deep);
    json_decref(wide);
    json_decref(text);
    free(big);
    cf_schema_free(schema);
}
END_TEST

static double
seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

/* Validates, expects the work bound to speak or the instance to be judged, and quickly so. */
static void
expect_bounded(const char *schema_text, const char *instance, bool exceeds)
{
    struct cf_schema *schema = admit_ok(schema_text);
    struct cf_schema_report report = {0};
    struct cf_error err = {0};
    double start = seconds();

    int status = cf_schema_validate_text(schema, instance, strlen(instance), &report, &err);
    double took = seconds() - start;
    ck_assert((status == 0) == (report.count == 0));
    ck_assert_msg(took < 5.0, "%f s", took);
    ck_assert_uint_le(report.work, CF_SCHEMA_WORK);
    bool exceeded = report.count > 0 &&
                    strcmp(report.findings[report.count - 1].code, "validation_work_exceeded") == 0;
    ck_assert_msg(exceeded == exceeds, "%.100s", schema_text);
    cf_schema_report_release(&report);
    cf_schema_free(schema);
}

START_TEST(nasty_patterns_end_at_the_work_bound)
{
    char *text = repeat("\"", "a", 60000, "\"");
    expect_bounded("{\"pattern\":\"a{1000}a{1000}a{1000}b\"}", text, true);
    expect_bounded("{\"not\":{\"pattern\":\"a{1000}b\"}}", text, true);
    expect_bounded("{\"anyOf\":[{\"pattern\":\"a{1000}b\"},true]}", text, true);
    expect_bounded("{\"if\":{\"pattern\":\"a{1000}b\"},\"else\":true}", text, true);
    expect_bounded("{\"pattern\":\"^a{1000}b\"}", text, false);
    expect_bounded("{\"pattern\":\"b\"}", text, false);
    free(text);
}
END_TEST

START_TEST(nasty_expansions_end_at_the_work_bound)
{
    struct cf_buf schema = {0};
    char *list = repeat("[0", ",0", 3900, "]"), *text = repeat("\"", "\xc3\xa9", 32000, "\"");

    cf_buf_adds(&schema, "{\"$defs\":{\"d0\":{\"maxLength\":1,\"not\":false}");
    for (int i = 1; i <= 9; i++)
        cf_buf_addf(&schema, ",\"d%d\":{\"allOf\":[{\"$ref\":\"#/$defs/d%d\"},{\"$ref\":\"#/$defs/d%d\"}]}", i,
                    i - 1, i - 1);
    cf_buf_adds(&schema, "},\"items\":{\"$ref\":\"#/$defs/d9\"},\"not\":{\"not\":{\"anyOf\":[{\"$ref\":\"#/$defs/d9\"},true]}}}");
    expect_bounded(schema.data, list, true);
    expect_bounded(schema.data, text, false);
    cf_buf_release(&schema);
    free(list);
    free(text);
}
END_TEST

START_TEST(nasty_enumerations_end_at_the_work_bound)
{
    char *schema = repeat("{\"contains\":{\"enum\":[0", ",0", 3900, "]}}");
    char *list = repeat("[1", ",1", 3900, "]");

    expect_bounded(schema, list, true);
    free(schema);
    free(list);
}
END_TEST

START_TEST(numbers_beyond_double_precision_are_compared_exactly)
{
    struct cf_schema *schema =
        admit_ok("{\"maximum\":9007199254740992,\"exclusiveMinimum\":-1.5,\"multipleOf\":0.5}");

    ck_assert_str_eq(findings(schema, "9007199254740992"), "");
    ck_assert_str_eq(findings(schema, "9007199254740993"), "maximum  /maximum;");
    ck_assert_str_eq(findings(schema, "-1"), "");
    ck_assert_str_eq(findings(schema, "-1.5"), "exclusive_minimum  /exclusiveMinimum;");
    ck_assert_str_eq(findings(schema, "0.25"), "multiple_of  /multipleOf;");
    cf_schema_free(schema);
    schema = admit_ok("{\"minimum\":-9223372036854775808,\"maximum\":9.3e18,\"multipleOf\":3}");
    ck_assert_str_eq(findings(schema, "-9223372036854775808"), "multiple_of  /multipleOf;");
    ck_assert_str_eq(findings(schema, "4.0"), "multiple_of  /multipleOf;");
    ck_assert_str_eq(findings(schema, "1e19"), "maximum  /maximum;");
    cf_schema_free(schema);
}
END_TEST

START_TEST(contains_counts_and_stops)
{
    struct cf_schema *schema = admit_ok("{\"contains\":{\"const\":1},\"minContains\":2,\"maxContains\":3}");

    ck_assert_str_eq(findings(schema, "[1]"), "min_contains  /minContains;");
    ck_assert_str_eq(findings(schema, "[1,1]"), "");
    ck_assert_str_eq(findings(schema, "[1,1,1,1]"), "max_contains  /maxContains;");
    cf_schema_free(schema);
    schema = admit_ok("{\"contains\":{\"const\":1}}");
    ck_assert_str_eq(findings(schema, "[2]"), "contains  /contains;");
    cf_schema_free(schema);
    schema = admit_ok("{\"contains\":false,\"minContains\":0}");
    ck_assert_str_eq(findings(schema, "[2]"), "");
    cf_schema_free(schema);
}
END_TEST

UNIT_MAIN("schema/schema", tcase_add_test(tc, document_limits_hold_at_the_limit_and_one_past_it);
          tcase_add_test(tc, text_errors_have_their_codes);
          tcase_add_test(tc, branches_are_counted_over_the_whole_document);
          tcase_add_test(tc, references_are_counted_and_the_first_too_many_is_named);
          tcase_add_test(tc, reference_texts_are_read_as_pointers);
          tcase_add_test(tc, wrong_shapes_are_named_at_their_keyword);
          tcase_add_test(tc, an_author_sees_several_findings_in_document_order);
          tcase_add_test(tc, no_more_than_sixteen_findings_are_kept);
          tcase_add_test(tc, findings_name_instance_and_schema_places);
          tcase_add_test(tc, evaluation_order_is_reference_type_const_enum_then_the_rest);
          tcase_add_test(tc, instance_limits_hold_at_the_limit_and_one_past_it);
          tcase_add_test(tc, a_tree_meets_the_same_instance_limits_as_a_text);
          tcase_add_test(tc, nasty_patterns_end_at_the_work_bound);
          tcase_add_test(tc, nasty_expansions_end_at_the_work_bound);
          tcase_add_test(tc, nasty_enumerations_end_at_the_work_bound);
          tcase_add_test(tc, numbers_beyond_double_precision_are_compared_exactly);
          tcase_add_test(tc, contains_counts_and_stops);)
