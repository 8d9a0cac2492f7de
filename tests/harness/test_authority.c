#include "docker/acp-harness/authority.h"
#include "docker/acp-harness/shape.h"
#include "tests/support/unit.h"

#include <string.h>

/* What is asked for, and a word of the refusal; NULL: taken. All capabilities are declared. */
static const struct {
    const char *meta, *why;
} cases[] = {
    { "null", NULL },
    { "{}", NULL },
    { "{\"vendor\":1,\"checkfu.unheard_of\":{}}", NULL },
    { "[]", "_meta" },
    { "{\"checkfu.builtin_tools\":[\"read\",\"bash\"]}", NULL },
    { "{\"checkfu.builtin_tools\":[]}", NULL },
    { "{\"checkfu.builtin_tools\":\"read\"}", "not an array" },
    { "{\"checkfu.builtin_tools\":null}", "not an array" },
    { "{\"checkfu.builtin_tools\":[\"teleport\"]}", "does not list" },
    { "{\"checkfu.builtin_tools\":[7]}", "does not list" },
    { "{\"checkfu.builtin_tools\":[\"read\",\"read\"]}", "twice" },
    { "{\"checkfu.continuity\":\"fresh\"}", NULL },
    { "{\"checkfu.continuity\":\"event_log_rebuild\"}", NULL },
    { "{\"checkfu.continuity\":\"stale\"}", "checkfu.continuity" },
    { "{\"checkfu.continuity\":true}", "checkfu.continuity" },
    { "{\"checkfu.continuity\":\"same_run_resume\"}", "without checkfu.resume" },
    { "{\"checkfu.runtime_config\":{\"context_window_tokens\":1000}}", NULL },
    { "{\"checkfu.runtime_config\":{\"context_window_tokens\":100000001}}", "runtime_config" },
    { "{\"checkfu.runtime_config\":{\"context_window_tokens\":0}}", "runtime_config" },
    { "{\"checkfu.runtime_config\":{\"context_window_tokens\":1000,\"x\":1}}", "runtime_config" },
    { "{\"checkfu.runtime_config\":{\"context_window_tokens\":1000,\"compaction\":{\"strategy\":"
      "\"native\",\"trigger_tokens\":9}}}", NULL },
    { "{\"checkfu.runtime_config\":{\"context_window_tokens\":1000,\"compaction\":{\"strategy\":"
      "\"magic\",\"trigger_tokens\":9}}}", "compaction" },
    { "{\"checkfu.runtime_config\":{\"context_window_tokens\":1000,\"compaction\":null}}", "compaction" },
    { "{\"checkfu.runtime_config\":\"big\"}", "runtime_config" },
    { "{\"checkfu.output_schema\":true}", NULL },
    { "{\"checkfu.output_schema\":{\"type\":\"string\"}}", NULL },
    { "{\"checkfu.output_schema\":null}", "output_schema" },
    { "{\"checkfu.output_schema\":\"{}\"}", "output_schema" },
    { "{\"checkfu.resume\":{\"version\":1,\"state\":\"{}\"}}", "same_run_resume" },
    { "{\"checkfu.resume\":{\"version\":1,\"state\":\"{}\"},\"checkfu.continuity\":\"fresh\"}",
      "same_run_resume" },
    { "{\"checkfu.resume\":{\"version\":2,\"state\":\"{}\"},\"checkfu.continuity\":\"same_run_resume\"}",
      "version" },
    { "{\"checkfu.resume\":{\"version\":1},\"checkfu.continuity\":\"same_run_resume\"}", "checkfu.resume" },
    { "{\"checkfu.resume\":{\"version\":1,\"state\":\"{}\"},\"checkfu.continuity\":\"same_run_resume\"}",
      "not written by this agent" },
    { "{\"checkfu.resume\":{\"version\":1,\"state\":\"{\\\"format\\\":1,\\\"messages\\\":[]}\"},"
      "\"checkfu.continuity\":\"same_run_resume\"}", NULL },
};

static int
ask(const char *meta, const char *declared_list, struct cf_error *err)
{
    json_t *value = json_loads(meta, JSON_DECODE_ANY, NULL);
    struct hn_declared declared = { 0 };
    struct hn_authority authority = { 0 };
    int status;

    ck_assert_msg(value != NULL, "%s", meta);
    if (declared_list != NULL)
        ck_assert_int_eq(hn_declare(&declared, declared_list, err), 0);
    status = hn_authority_read(&authority, value, &declared, err);
    hn_authority_release(&authority);
    json_decref(value);
    return status;
}

START_TEST(what_is_malformed_is_refused_and_named)
{
    struct cf_error err = { 0 };
    int status = ask(cases[_i].meta, "all", &err);

    ck_assert_msg(status == (cases[_i].why != NULL ? -1 : 0), "%s: %s", cases[_i].meta, err.text);
    if (cases[_i].why != NULL)
        ck_assert_msg(strstr(err.text, cases[_i].why) != NULL, "%s: %s", cases[_i].meta, err.text);
}
END_TEST

START_TEST(what_was_not_declared_is_refused)
{
    struct cf_error err;

    ck_assert_int_lt(ask("{\"checkfu.builtin_tools\":[\"read\"]}", "steer,interrupt", &err), 0);
    ck_assert_int_lt(ask("{\"checkfu.output_schema\":true}", "native_checkpoint", &err), 0);
    ck_assert_int_lt(ask("{\"checkfu.resume\":{\"version\":1,\"state\":\"{\\\"format\\\":1,"
                         "\\\"messages\\\":[]}\"},\"checkfu.continuity\":\"same_run_resume\"}",
                         "steer", &err), 0);
    ck_assert_int_eq(ask("{\"checkfu.continuity\":\"fresh\"}", NULL, &err), 0);
}
END_TEST

START_TEST(a_checkpoint_comes_back_as_the_same_conversation)
{
    json_t *messages = json_loads("[{\"role\":\"user\",\"text\":\"a\\u0000b\"},"
                                  "{\"role\":\"assistant\",\"text\":\"c\"}]", JSON_ALLOW_NUL, NULL);
    char *state = hn_checkpoint_text(messages);
    json_t *meta = json_pack("{s:s, s:{s:i, s:s}}", "checkfu.continuity", "same_run_resume",
                             "checkfu.resume", "version", 1, "state", state);
    struct hn_declared declared = { .native_checkpoint = true };
    struct hn_authority authority = { 0 };
    struct cf_error err;

    ck_assert_int_eq(hn_authority_read(&authority, meta, &declared, &err), 0);
    ck_assert(json_equal(authority.resumed, messages));
    hn_authority_release(&authority);
    json_decref(meta);
    json_decref(messages);
    free(state);
}
END_TEST

START_TEST(an_agent_without_extensions_declares_nothing)
{
    struct hn_declared declared = { 0 };
    struct cf_error err;
    json_t *all;

    ck_assert_ptr_null(hn_declaration(&declared));
    ck_assert_int_lt(hn_declare(&declared, "steer,telepathy", &err), 0);
    ck_assert_ptr_nonnull(strstr(err.text, "telepathy"));
    ck_assert_int_eq(hn_declare(&declared, "all", &err), 0);
    all = hn_declaration(&declared);
    ck_assert_int_eq(json_object_size(all), 7);
    json_decref(all);
}
END_TEST

static const struct {
    const char *schema, *value, *why;
} shapes[] = {
    { "{\"type\":\"object\",\"properties\":{\"answer\":{\"type\":\"string\"}},\"required\":"
      "[\"answer\"],\"additionalProperties\":false}", "{\"answer\":\"x\"}", NULL },
    { "{\"type\":\"object\",\"required\":[\"answer\"]}", "{}", "required" },
    { "{\"properties\":{\"a\":{}},\"additionalProperties\":false}", "{\"b\":1}", "additionalProperties" },
    { "{\"properties\":{\"a\":{\"items\":{\"type\":\"integer\"}}}}", "{\"a\":[1,2.0,\"x\"]}",
      "\"/a/2\": type" },
    { "{\"type\":[\"null\",\"boolean\"]}", "true", NULL },
    { "{\"enum\":[1,\"a\"]}", "\"b\"", "enum" },
    { "{\"maxLength\":2}", "\"\\ud83d\\ude00\\ud83d\\ude00\"", NULL },
    { "{\"maxLength\":2}", "\"abc\"", "maxLength" },
    { "{\"minimum\":3}", "2", "minimum" },
    { "false", "1", "false" },
    { "true", "1", NULL },
};

START_TEST(an_answer_is_judged_by_its_schema)
{
    json_t *schema = json_loads(shapes[_i].schema, JSON_DECODE_ANY, NULL);
    json_t *value = json_loads(shapes[_i].value, JSON_DECODE_ANY, NULL);
    struct cf_error err = { 0 };
    int status = hn_shape_check(schema, value, &err);

    ck_assert_msg(status == (shapes[_i].why != NULL ? -1 : 0), "%s: %s", shapes[_i].schema, err.text);
    if (shapes[_i].why != NULL)
        ck_assert_msg(strstr(err.text, shapes[_i].why) != NULL, "%s", err.text);
    json_decref(schema);
    json_decref(value);
}
END_TEST

UNIT_MAIN("harness/authority",
          tcase_add_loop_test(tc, what_is_malformed_is_refused_and_named, 0,
                              (int)(sizeof cases / sizeof cases[0]));
          tcase_add_test(tc, what_was_not_declared_is_refused);
          tcase_add_test(tc, a_checkpoint_comes_back_as_the_same_conversation);
          tcase_add_test(tc, an_agent_without_extensions_declares_nothing);
          tcase_add_loop_test(tc, an_answer_is_judged_by_its_schema, 0,
                              (int)(sizeof shapes / sizeof shapes[0]));)
