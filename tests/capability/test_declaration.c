#include "base/str.h"
#include "capability/capability.h"
#include "json/json.h"
#include "tests/support/unit.h"

#include <stdio.h>
#include <string.h>

static json_t *
js(const char *text)
{
    struct cf_error err = {0};
    json_t *value = cf_json_parse(text, strlen(text), NULL, &err);

    ck_assert_msg(value != NULL, "%s: %s", text, err.text);
    return value;
}

static int
declare(const char *capabilities, struct cf_declaration *ret, struct cf_error *err)
{
    char text[4096];

    snprintf(text, sizeof text, "{\"protocolVersion\":1,\"_meta\":{\"checkfu.capabilities\":%s}}", capabilities);
    json_t *result = js(text);
    int status = cf_declaration_read(result, ret, err);
    json_decref(result);
    return status;
}

static void
expect_envelope(json_t *set, const char *expected)
{
    cf_auto_free char *text = cf_json_dump(set, NULL);

    ck_assert_str_eq(text, expected);
    json_decref(set);
}

#define ACP_BEGIN "{\"event_fidelity\":\"structured\",\"continuation\":\"rebuild_only\",\"checkpoint\":"
#define ACP_END ",\"model_control\":\"platform_enforced\",\"usage_authority\":\"platform_observed\",\"multiagent_shared_environment\":true"

START_TEST(the_envelopes_are_the_pages)
{
    expect_envelope(cf_envelope_acp(false), ACP_BEGIN "\"disk_only\",\"approval_delivery\":\"end_reinject\",\"interrupt\":\"kill_only\",\"mid_run_input\":\"unsupported\"" ACP_END "}");
    expect_envelope(cf_envelope_acp(true), ACP_BEGIN "\"none\",\"approval_delivery\":\"end_reinject\",\"interrupt\":\"kill_only\",\"mid_run_input\":\"unsupported\"" ACP_END "}");
    expect_envelope(cf_envelope_oneshot(false, true, true),
                    "{\"event_fidelity\":\"structured\",\"continuation\":\"next_turn\",\"checkpoint\":\"disk_only\",\"approval_delivery\":\"unsupported\","
                    "\"interrupt\":\"kill_only\",\"mid_run_input\":\"turn_boundary_only\",\"model_control\":\"platform_enforced\",\"usage_authority\":\"platform_observed\",\"multiagent_shared_environment\":false}");
    expect_envelope(cf_envelope_oneshot(false, false, false),
                    "{\"event_fidelity\":\"text_only\",\"continuation\":\"rebuild_only\",\"checkpoint\":\"none\",\"approval_delivery\":\"unsupported\","
                    "\"interrupt\":\"kill_only\",\"mid_run_input\":\"unsupported\",\"model_control\":\"platform_enforced\",\"usage_authority\":\"platform_observed\",\"multiagent_shared_environment\":false}");
}
END_TEST

START_TEST(a_non_declarer_keeps_the_envelope_byte_for_byte)
{
    static const char *const silent[] = {"{\"protocolVersion\":1}", "{\"_meta\":null}", "{\"_meta\":{}}", "{\"_meta\":\"odd\"}", "{\"_meta\":{\"vendor\":1}}"};
    struct cf_declaration declaration;
    struct cf_error err;

    for (size_t i = 0; i < CF_COUNT(silent); i++) {
        json_t *result = js(silent[i]), *envelope = cf_envelope_acp(false);
        cf_auto_free char *before = cf_json_dump(envelope, NULL);
        memset(&declaration, 0xff, sizeof declaration);
        ck_assert_int_eq(cf_declaration_read(result, &declaration, &err), 0);
        expect_envelope(cf_declaration_admit(envelope, &declaration), before);
        json_decref(envelope);
        json_decref(result);
    }
}
END_TEST

START_TEST(exactly_three_axes_rise)
{
    struct cf_declaration declaration;
    struct cf_error err = {0};
    json_t *envelope = cf_envelope_acp(false);
    cf_auto_free char *before = cf_json_dump(envelope, NULL);

    ck_assert_msg(declare("{\"subagents\":\"observed\",\"steer\":\"native\",\"interrupt\":\"cooperative\",\"builtin_tool_scoping\":\"enforced\","
                          "\"structured_output\":\"submit_tool\",\"staged_files\":\"resource_links\",\"native_checkpoint\":\"external_custody\"}",
                          &declaration, &err) == 0, "%s", err.text);
    ck_assert(declaration.builtin_tool_scoping && declaration.staged_files && declaration.native_checkpoint);
    ck_assert_int_eq(declaration.structured_output, 2);
    expect_envelope(cf_declaration_admit(envelope, &declaration),
                    ACP_BEGIN "\"disk_only\",\"approval_delivery\":\"end_reinject\",\"interrupt\":\"cooperative\",\"mid_run_input\":\"native\"" ACP_END ",\"subagents\":\"observed\"}");
    cf_auto_free char *after = cf_json_dump(envelope, NULL);
    ck_assert_str_eq(before, after);
    json_decref(envelope);
    ck_assert_int_eq(declare("{\"structured_output\":\"response_format\"}", &declaration, &err), 0);
    ck_assert_int_eq(declaration.structured_output, 1);
    ck_assert(!declaration.steer && !declaration.subagents && !declaration.interrupt);
    ck_assert_int_eq(declare("{}", &declaration, &err), 0);
}
END_TEST

START_TEST(anything_else_in_a_declaration_is_refused)
{
    static const char *const bad[][2] = {
        {"null", "must be an object"}, {"[]", "must be an object"}, {"\"observed\"", "must be an object"},
        {"{\"subagents\":\"flatten\"}", "/subagents"}, {"{\"subagents\":null}", "/subagents"},
        {"{\"subagents\":true}", "/subagents"}, {"{\"steer\":\"turn_boundary_only\"}", "/steer"},
        {"{\"steer\":\"unsupported\"}", "/steer"}, {"{\"interrupt\":\"kill_only\"}", "/interrupt"},
        {"{\"checkpoint\":\"process_and_disk\"}", "/checkpoint"}, {"{\"event_fidelity\":\"native\"}", "/event_fidelity"},
        {"{\"structured_output\":\"native\"}", "/structured_output"}, {"{\"steer\":\"native\\u0000\"}", "/steer"},
    };

    for (size_t i = 0; i < CF_COUNT(bad); i++) {
        struct cf_declaration declaration = {.steer = true};
        struct cf_error err = {0};
        ck_assert_msg(declare(bad[i][0], &declaration, &err) < 0, "%s", bad[i][0]);
        ck_assert_int_eq(err.kind, CF_ERROR_INCOMPATIBLE);
        ck_assert_msg(strstr(err.text, bad[i][1]) != NULL, "%s", err.text);
        ck_assert(declaration.steer); /* left alone on failure */
    }
}
END_TEST

static void
expect_meta(const char *meta, const struct cf_declaration *declaration, const char *refusal)
{
    struct cf_error err = {0};
    json_t *value = js(meta);
    int status = cf_session_meta_check(value, declaration, &err);

    if (refusal == NULL) {
        ck_assert_msg(status == 0, "%s: %s", meta, err.text);
    } else {
        ck_assert_msg(status < 0 && strstr(err.text, refusal) != NULL, "%s: %s", meta, err.text);
        ck_assert_int_eq(err.kind, CF_ERROR_INCOMPATIBLE);
    }
    json_decref(value);
}

START_TEST(requested_authority_is_fail_closed)
{
    const struct cf_declaration none = {0}, all = {true, true, true, true, true, true, 1};
    struct cf_error err;

    ck_assert_int_eq(cf_session_meta_check(NULL, &none, &err), 0);
    expect_meta("{}", &none, NULL);
    expect_meta("{\"vendor\":1}", &none, NULL);
    expect_meta("{\"checkfu.builtin_tools\":[\"bash\",\"web_fetch\"]}", &all, NULL);
    expect_meta("{\"checkfu.builtin_tools\":[]}", &all, NULL);
    expect_meta("{\"checkfu.builtin_tools\":[\"bash\"]}", &none, "builtin_tool_scoping");
    expect_meta("{\"checkfu.builtin_tools\":[\"rm\"]}", &all, "checkfu.builtin_tools/0");
    expect_meta("{\"checkfu.builtin_tools\":[\"bash\",\"bash\"]}", &all, "twice");
    expect_meta("{\"checkfu.builtin_tools\":\"bash\"}", &all, "must be an array");
    expect_meta("{\"checkfu.continuity\":\"fresh\"}", &none, NULL);
    expect_meta("{\"checkfu.continuity\":\"event_log_rebuild\"}", &none, NULL);
    expect_meta("{\"checkfu.continuity\":\"stale\"}", &none, "checkfu.continuity");
    expect_meta("{\"checkfu.continuity\":null}", &none, "checkfu.continuity");
    expect_meta("{\"checkfu.runtime_config\":{\"context_window_tokens\":1}}", &none, NULL);
    expect_meta("{\"checkfu.runtime_config\":{\"context_window_tokens\":100000000,\"compaction\":{\"strategy\":\"native\",\"trigger_tokens\":5}}}", &none, NULL);
    expect_meta("{\"checkfu.runtime_config\":{\"context_window_tokens\":100000001}}", &none, "/context_window_tokens");
    expect_meta("{\"checkfu.runtime_config\":{\"context_window_tokens\":0}}", &none, "/context_window_tokens");
    expect_meta("{\"checkfu.runtime_config\":{\"context_window_tokens\":1.5}}", &none, "/context_window_tokens");
    expect_meta("{\"checkfu.runtime_config\":{}}", &none, "is missing");
    expect_meta("{\"checkfu.runtime_config\":{\"context_window_tokens\":9,\"x\":1}}", &none, "/x is not a member");
    expect_meta("{\"checkfu.output_schema\":{}}", &all, NULL);
    expect_meta("{\"checkfu.output_schema\":true}", &all, NULL);
    expect_meta("{\"checkfu.output_schema\":null}", &all, "checkfu.output_schema");
    expect_meta("{\"checkfu.output_schema\":{}}", &none, "structured_output");
    expect_meta("{\"checkfu.continuity\":\"same_run_resume\",\"checkfu.resume\":{\"version\":1,\"state\":\"abc\"}}", &all, NULL);
    expect_meta("{\"checkfu.continuity\":\"fresh\",\"checkfu.resume\":{\"version\":1,\"state\":\"abc\"}}", &all, "same_run_resume");
    expect_meta("{\"checkfu.resume\":{\"version\":1,\"state\":\"abc\"}}", &all, "same_run_resume");
    expect_meta("{\"checkfu.continuity\":\"same_run_resume\",\"checkfu.resume\":{\"version\":2,\"state\":\"abc\"}}", &all, "/version");
    expect_meta("{\"checkfu.continuity\":\"same_run_resume\",\"checkfu.resume\":{\"version\":1,\"state\":\"abc\"}}", &none, "native_checkpoint");
    expect_meta("{\"checkfu.turn\":{}}", &all, "does not belong");
}
END_TEST

START_TEST(the_members_are_named_for_an_agents_refusal)
{
    char names[200];
    json_t *meta = js("{\"checkfu.output_schema\":{},\"vendor\":1,\"checkfu.builtin_tools\":[]}");

    cf_session_meta_names(meta, names, sizeof names);
    ck_assert_str_eq(names, "checkfu.builtin_tools, checkfu.output_schema");
    cf_session_meta_names(NULL, names, sizeof names);
    ck_assert_str_eq(names, "");
    json_decref(meta);
}
END_TEST

static int
check(enum cf_slot slot, const char *text)
{
    struct cf_error err;
    json_t *value = js(text);
    int status = cf_slot_check(slot, value, &err);

    json_decref(value);
    return status;
}

START_TEST(slot_payloads_are_closed)
{
    ck_assert_int_eq(check(CF_SLOT_SUBAGENT, "{\"phase\":\"started\",\"subagent\":\"a\",\"name\":\"n\"}"), 0);
    ck_assert_int_eq(check(CF_SLOT_SUBAGENT, "{\"phase\":\"started\",\"subagent\":\"a\"}"), -1);
    ck_assert_int_eq(check(CF_SLOT_SUBAGENT, "{\"phase\":\"activity\",\"subagent\":\"a\",\"name\":\"n\"}"), -1);
    ck_assert_int_eq(check(CF_SLOT_SUBAGENT, "{\"phase\":\"completed\",\"subagent\":\"a\",\"disposition\":\"cancelled\"}"), -1);
    ck_assert_int_eq(check(CF_SLOT_SUBAGENT, "{\"phase\":\"paused\",\"subagent\":\"a\"}"), -1);
    ck_assert_int_eq(check(CF_SLOT_COMPACTION, "{\"strategy\":\"native\",\"tokens_before\":9,\"tokens_after\":1}"), 0);
    ck_assert_int_eq(check(CF_SLOT_COMPACTION, "{\"strategy\":\"native\",\"tokens_before\":-9,\"tokens_after\":1}"), -1);
    ck_assert_int_eq(check(CF_SLOT_JOURNAL_CHECKPOINT, "{\"version\":1,\"state\":\"x\"}"), 0);
    ck_assert_int_eq(check(CF_SLOT_JOURNAL_CHECKPOINT, "{\"version\":1,\"too_large\":true}"), 0);
    ck_assert_int_eq(check(CF_SLOT_JOURNAL_CHECKPOINT, "{\"version\":1,\"too_large\":false}"), -1);
    ck_assert_int_eq(check(CF_SLOT_JOURNAL_CHECKPOINT, "{\"version\":1,\"state\":\"x\",\"too_large\":true}"), -1);
    ck_assert_int_eq(check(CF_SLOT_STEER, "{\"disposition\":\"queued\"}"), 0);
    ck_assert_int_eq(check(CF_SLOT_STEER, "{\"disposition\":\"draining\"}"), -1);
    ck_assert_int_eq(check(CF_SLOT_TURN, "{\"execution\":\"shell\",\"shell_commands\":1000000,\"filesystem_commands\":0,\"mcp_calls\":0,\"model_calls\":0,\"wall_time_ms\":604800000,\"model_transient_retries\":null}"), 0);
    ck_assert_int_eq(check(CF_SLOT_TURN, "{\"execution\":\"shell\",\"shell_commands\":1000001,\"filesystem_commands\":0,\"mcp_calls\":0,\"model_calls\":0,\"wall_time_ms\":0}"), -1);
}
END_TEST

UNIT_MAIN("capability/declaration", tcase_add_test(tc, the_envelopes_are_the_pages);
          tcase_add_test(tc, a_non_declarer_keeps_the_envelope_byte_for_byte);
          tcase_add_test(tc, exactly_three_axes_rise);
          tcase_add_test(tc, anything_else_in_a_declaration_is_refused);
          tcase_add_test(tc, requested_authority_is_fail_closed);
          tcase_add_test(tc, the_members_are_named_for_an_agents_refusal);
          tcase_add_test(tc, slot_payloads_are_closed);)
