/* The contract's schemas inside the program: sizes, targets, and the rules only they may use. */
#include "base/buf.h"
#include "base/str.h"
#include "json/json.h"
#include "schema/schema.h"
#include "tests/support/unit.h"

#include <stdio.h>
#include <string.h>

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

START_TEST(the_contract_schemas_are_admitted_with_their_known_sizes)
{
    static const struct {
        const char *name;
        struct cf_schema_size size;
    } known[] = {
        {"acp-vectors", {.depth = 20, .nodes = 800, .branches = 49, .combinator_depth = 3, .refs = 17,
                         .ref_depth = 2, .expansion = 394}},
        {"oneshot-vectors", {.depth = 20, .nodes = 1518, .branches = 198, .combinator_depth = 4,
                             .refs = 55, .ref_depth = 4, .expansion = 547}},
    };

    for (size_t i = 0; i < CF_COUNT(known); i++) {
        struct cf_schema *schema = NULL;
        struct cf_schema_size size, want = known[i].size;
        struct cf_error err = {0};
        ck_assert_msg(cf_schema_builtin(known[i].name, &schema, &err) == 0, "%s", err.text);
        cf_schema_measure(schema, &size);
        ck_assert_uint_eq(size.depth, want.depth);
        ck_assert_uint_eq(size.nodes, want.nodes);
        ck_assert_uint_eq(size.branches, want.branches);
        ck_assert_uint_eq(size.combinator_depth, want.combinator_depth);
        ck_assert_uint_eq(size.refs, want.refs);
        ck_assert_uint_eq(size.ref_depth, want.ref_depth);
        ck_assert_uint_eq(size.expansion, want.expansion);
        cf_schema_free(schema);
    }
}
END_TEST

START_TEST(an_unknown_builtin_is_an_error)
{
    struct cf_schema *schema = NULL;
    struct cf_error err = {0};

    ck_assert_int_lt(cf_schema_builtin("observations", &schema, &err), 0);
    ck_assert_ptr_null(schema);
}
END_TEST

static char *
read_file(const char *path, size_t *ret_len)
{
    FILE *file = fopen(path, "rb");
    struct cf_buf text = {0};
    size_t got;

    if (file == NULL)
        return NULL;
    do {
        char *room = cf_buf_reserve(&text, 65536);
        got = fread(room, 1, 65536, file);
        cf_buf_wrote(&text, got);
    } while (got > 0);
    fclose(file);
    return cf_buf_take(&text, ret_len);
}

START_TEST(the_same_document_from_outside_is_not_trusted)
{
    size_t len;
    char *text = read_file("proto/harness-oneshot-v1-author-kit.schema.json", &len);
    struct cf_schema_report report = {0};
    struct cf_schema *schema = NULL;
    struct cf_error err = {0};
    bool unique = false, group = false;

    ck_assert_ptr_nonnull(text);
    ck_assert_str_eq(refusal(text, len), "schema_too_large ");
    json_t *document = cf_json_parse(text, len, NULL, &err);
    ck_assert_int_lt(cf_schema_admit_value(document, &schema, &report, &err), 0);
    ck_assert_uint_gt(report.count, 5);
    for (unsigned i = 0; i < report.count; i++) {
        unique |= strcmp(report.findings[i].code, "schema_unique_items_unsupported") == 0;
        group |= strcmp(report.findings[i].code, "schema_pattern_group") == 0;
    }
    ck_assert(unique || group);
    ck_assert_uint_gt(report.warning_count, 0);
    ck_assert_str_eq(report.warnings[0].code, "schema_keyword_unknown");
    cf_schema_report_release(&report);
    json_decref(document);
    free(text);
}
END_TEST

START_TEST(the_embedded_documents_are_the_contract_unchanged)
{
    static const char *const names[] = {"harness-acp-v1-extension.schema.json",
                                        "harness-oneshot-v1-author-kit.schema.json"};
    char ours_path[200], theirs_path[200];
    size_t ours_len, theirs_len;

    for (size_t i = 0; i < CF_COUNT(names); i++) {
        snprintf(ours_path, sizeof ours_path, "proto/%s", names[i]);
        snprintf(theirs_path, sizeof theirs_path, "../shared/contracts/%s", names[i]);
        char *ours = read_file(ours_path, &ours_len), *theirs = read_file(theirs_path, &theirs_len);
        if (theirs == NULL) {
            printf("SKIPPED comparison of %s: the contract is not here\n", names[i]);
        } else {
            json_t *a = cf_json_parse(ours, ours_len, NULL, NULL);
            json_t *b = cf_json_parse(theirs, theirs_len, NULL, NULL);
            ck_assert(cf_json_same(a, b));
            json_decref(a);
            json_decref(b);
        }
        free(ours);
        free(theirs);
    }
}
END_TEST

START_TEST(observations_are_told_apart_by_the_builtin)
{
    static const struct {
        const char *text;
        bool is_valid;
    } cases[] = {
        {"{\"type\":\"observation.agent_message\",\"payload\":{\"content\":\"hi\"}}", true},
        {"{\"type\":\"observation.agent_message\",\"payload\":{\"content\":\"hi\",\"subagent\":null}}", true},
        {"{\"type\":\"observation.agent_message\",\"payload\":{}}", false},
        {"{\"type\":\"observation.agent_message\",\"payload\":{\"content\":\"hi\",\"more\":1}}", false},
        {"{\"type\":\"observation.agent_massage\",\"payload\":{\"content\":\"hi\"}}", false},
        {"{\"type\":\"observation.finished\",\"payload\":{\"stop_reason\":\"end_turn\"}}", true},
        {"{\"type\":\"observation.finished\",\"payload\":{\"stop_reason\":\"done\"}}", false},
        {"{\"type\":\"observation.tool_use\",\"payload\":{\"tool_use_id\":\"t\",\"tool\":\"harness:bash\","
         "\"args\":{\"a\":[1,null]}}}", true},
        {"{\"type\":\"observation.tool_use\",\"payload\":{\"tool_use_id\":\"t\",\"tool\":\"harness:ba sh\","
         "\"args\":{}}}", false},
        {"{\"type\":\"observation.tool_use\",\"payload\":{\"tool_use_id\":\"t\",\"tool\":\"bash\",\"args\":{}}}",
         false},
        {"{\"type\":\"observation.failed\",\"payload\":{\"error\":{\"type\":\"runtime.harness_failed\"}}}",
         false},
        {"[]", false},
    };
    struct cf_schema *schema = NULL;
    struct cf_error err = {0};

    ck_assert_int_eq(cf_schema_builtin("observation", &schema, &err), 0);
    for (size_t i = 0; i < CF_COUNT(cases); i++) {
        int status = cf_schema_validate_text(schema, cases[i].text, strlen(cases[i].text), NULL, &err);
        ck_assert_msg((status == 0) == cases[i].is_valid, "%s: %s", cases[i].text, err.text);
    }
    /* The alternative that was meant is named. */
    ck_assert_int_lt(cf_schema_validate_text(schema, cases[3].text, strlen(cases[3].text), NULL, &err), 0);
    ck_assert_msg(strstr(err.text, "additional_properties at \"/payload/more\"") != NULL, "%s", err.text);
    cf_schema_free(schema);
}
END_TEST

START_TEST(an_observation_may_carry_the_longest_content_of_the_contract)
{
    struct cf_schema *schema = NULL;
    struct cf_error err = {0};

    ck_assert_int_eq(cf_schema_builtin("observation", &schema, &err), 0);
    for (size_t extra = 0; extra < 2; extra++) {
        struct cf_buf text = {0};
        cf_buf_adds(&text, "{\"type\":\"observation.agent_message\",\"payload\":{\"content\":\"");
        for (size_t i = 0; i < 262144 + extra; i++)
            cf_buf_adds(&text, "\xe2\x82\xac");
        cf_buf_adds(&text, "\"}}");
        int status = cf_schema_validate_text(schema, text.data, text.len, NULL, &err);
        ck_assert_msg((status == 0) == (extra == 0), "%s", err.text);
        cf_buf_release(&text);
    }
    cf_schema_free(schema);
}
END_TEST

/* ---- an authoring object: the table of trusted patterns, the budget, uniqueItems ------- */

static const char *
with_member(const char *name, const char *value)
{
    static char text[600];

    snprintf(text, sizeof text,
             "{\"image\":\"registry.example/app:1\",\"protocol\":\"oneshot-v1\",\"argv\":[\"--x\",\"\"],"
             "\"prompt_transport\":\"stdin\",\"output_mode\":\"text\",%s\"%s\":%s}",
             strcmp(name, "entrypoint") == 0 ? "" : "\"entrypoint\":\"/usr/bin/agent\",", name, value);
    return text;
}

START_TEST(an_authoring_object_meets_the_trusted_rules)
{
    static const struct {
        const char *name, *value;
        bool is_valid;
    } cases[] = {
        {"entrypoint", "\"/usr/bin/agent\"", true},
        {"entrypoint", "\"/.config/a..b\"", true},
        {"entrypoint", "\"/usr/../bin\"", false},
        {"entrypoint", "\"/usr/\"", false},
        {"entrypoint", "\"usr\"", false},
        {"working_directory", "null", true},
        {"working_directory", "\"/\"", false},
        {"resume_flag", "\"--resume\"", true},
        {"resume_flag", "\"a\\u0000b\"", false},
        {"resume_flag", "\"\"", false},
        {"arguments", "null", true},
        {"arguments", "[]", false},
        {"model_wire_dialects", "[\"openai_chat\",\"fal_queue\"]", true},
        {"model_wire_dialects", "[\"openai_chat\",\"openai_chat\"]", false},
        {"model_wire_dialects", "[]", false},
        {"configuration_schema", "true", true},
        {"configuration_schema", "{\"type\":\"object\"}", true},
        {"configuration_schema", "[]", false},
        {"more", "1", false},
    };
    struct cf_schema *schema = NULL;
    struct cf_error err = {0};

    ck_assert_int_eq(cf_schema_builtin("oneshot-authoring", &schema, &err), 0);
    for (size_t i = 0; i < CF_COUNT(cases); i++) {
        const char *text = with_member(cases[i].name, cases[i].value);
        int status = cf_schema_validate_text(schema, text, strlen(text), NULL, &err);
        ck_assert_msg((status == 0) == cases[i].is_valid, "%s %s: %s", cases[i].name, cases[i].value,
                      err.text);
    }
    cf_schema_free(schema);
}
END_TEST

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

/* An authoring object whose configuration_schema is `configuration` (freed here). */
static bool
is_within_budget(const struct cf_schema *schema, char *configuration)
{
    char *text = repeat("{\"image\":\"i\",\"protocol\":\"oneshot-v1\",\"argv\":[],\"entrypoint\":\"/a\","
                        "\"prompt_transport\":\"stdin\",\"output_mode\":\"text\",\"configuration_schema\":",
                        configuration, 1, "}");
    struct cf_error err = {0};
    int status = cf_schema_validate_text(schema, text, strlen(text), NULL, &err);

    free(text);
    free(configuration);
    return status == 0;
}

START_TEST(the_size_budget_holds_at_the_limit_and_one_past_it)
{
    struct cf_schema *schema = NULL;
    struct cf_error err = {0};
    unsigned fixed = (unsigned)strlen("{\"title\":\"\"}");

    ck_assert_int_eq(cf_schema_builtin("oneshot-authoring", &schema, &err), 0);
    ck_assert(is_within_budget(schema, repeat("{\"title\":\"", "x", 65536 - fixed, "\"}")));
    ck_assert(!is_within_budget(schema, repeat("{\"title\":\"", "x", 65537 - fixed, "\"}")));
    ck_assert(is_within_budget(schema, repeat("{\"enum\":[0", ",0", 3997, "]}")));
    ck_assert(!is_within_budget(schema, repeat("{\"enum\":[0", ",0", 3998, "]}")));
    ck_assert(is_within_budget(schema, repeat("{\"const\":", "[", 31, "0]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]}")));
    ck_assert(!is_within_budget(schema, repeat("{\"const\":", "[", 32, "0]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]}")));
    cf_schema_free(schema);
}
END_TEST

UNIT_MAIN("schema/builtin", tcase_add_test(tc, the_contract_schemas_are_admitted_with_their_known_sizes);
          tcase_add_test(tc, an_unknown_builtin_is_an_error);
          tcase_add_test(tc, the_same_document_from_outside_is_not_trusted);
          tcase_add_test(tc, the_embedded_documents_are_the_contract_unchanged);
          tcase_add_test(tc, observations_are_told_apart_by_the_builtin);
          tcase_add_test(tc, an_observation_may_carry_the_longest_content_of_the_contract);
          tcase_add_test(tc, an_authoring_object_meets_the_trusted_rules);
          tcase_add_test(tc, the_size_budget_holds_at_the_limit_and_one_past_it);)
