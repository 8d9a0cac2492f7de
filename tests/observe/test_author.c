#include "tests/observe/watch.h"

#include "wire/wire.h"

static const struct cf_declaration nothing;

static void
say(struct watch *w, const char *text)
{
    struct cf_error err = {0};
    json_t *object = js(text);

    ck_assert_msg(cf_normalizer_object(w->n, object, ++w->frame, &err) == 0, "%s", err.text);
    json_decref(object);
}

static void
expect_refused(const char *text, const char *words)
{
    struct watch w;
    struct cf_error err = {0};
    json_t *object = js(text);

    watch_open(&w, false);
    watch_turn(&w);
    ck_assert_msg(cf_normalizer_object(w.n, object, 1, &err) < 0, "%s", text);
    ck_assert_msg(strstr(err.text, words) != NULL, "%s: %s", text, err.text);
    ck_assert_int_eq(err.kind, CF_ERROR_HARNESS);
    expect_said(&w, "");
    json_decref(object);
    watch_close(&w);
}

#define O(type, payload) "{\"type\":\"observation." type "\",\"payload\":{" payload "}}"

START_TEST(authored_observations_come_out_equal)
{
    struct watch w;
    size_t len;

    watch_open_in_turn(&w, &nothing);
    say(&w, O("agent_message", "\"content\":\"hi\",\"event_id\":\"evt_0123456789abcdef0123456789abcdef\",\"subagent\":null"));
    say(&w, O("agent_thinking", "\"content\":\"\""));
    say(&w, O("tool_use", "\"tool_use_id\":\"t\",\"tool\":\"harness:grep\",\"args\":null,\"provider_tool_name\":\"Grep\""));
    say(&w, O("tool_result", "\"tool_use_id\":\"t\",\"result\":[1,2.5,null],\"error\":{\"type\":\"policy.denied\",\"message\":\"no\"}"));
    say(&w, O("file_changed", "\"event\":\"create\",\"path\":\"/w/a\""));
    cf_normalizer_file_changed(w.n, "create", "/w/a");
    say(&w, O("context_compacted", "\"strategy\":\"native\",\"tokens_before\":5,\"tokens_after\":1"));
    say(&w, O("finished", "\"stop_reason\":\"max_tokens\",\"vendor_reported_cost_microusd\":12,\"turn\":null"));
    ck_assert(cf_normalizer_has_finished(w.n));
    cf_normalizer_file_changed(w.n, "modify", "/w/b");
    cf_normalizer_finished(w.n, "end_turn", NULL, 9);
    expect_said(&w, "agent_message@2 {\"content\":\"hi\",\"event_id\":\"evt_0123456789abcdef0123456789abcdef\"}\n"
                    "agent_thinking@3 {\"content\":\"\"}\n"
                    "tool_use@4 {\"tool_use_id\":\"t\",\"tool\":\"harness:grep\",\"args\":null,\"provider_tool_name\":\"Grep\"}\n"
                    "tool_result@5 {\"tool_use_id\":\"t\",\"result\":[1,2.5,null],\"error\":{\"type\":\"policy.denied\",\"message\":\"no\"}}\n"
                    "file_changed@6 {\"event\":\"create\",\"path\":\"/w/a\"}\n"
                    "context_compacted@7 {\"strategy\":\"native\",\"tokens_before\":5,\"tokens_after\":1}\n"
                    "file_changed@0 {\"event\":\"modify\",\"path\":\"/w/b\"}\n"
                    "finished@9 {\"stop_reason\":\"max_tokens\",\"vendor_reported_cost_microusd\":12,\"turn\":null}\n");
    ck_assert_str_eq(cf_normalizer_last_message(w.n, &len), "hi");
    expect_verdict(&w, TOOL_CORRELATION, PASSED, "1 uses, 1 results");
    watch_close(&w);
}
END_TEST

START_TEST(an_interrupt_overrides_the_authored_reason)
{
    struct watch w;

    watch_open_in_turn(&w, &nothing);
    say(&w, O("finished", "\"stop_reason\":\"refusal\""));
    struct cf_error err;
    json_t *late = js(O("agent_message", "\"content\":\"x\""));
    ck_assert_int_eq(cf_normalizer_object(w.n, late, 3, &err), -1);
    cf_normalizer_finished(w.n, "interrupted", NULL, 4);
    expect_said(&w, "finished@4 {\"stop_reason\":\"interrupted\"}\n");
    json_decref(late);
    watch_close(&w);
}
END_TEST

START_TEST(an_authored_message_over_the_bound_is_split)
{
    struct watch w;
    struct cf_buf text = {0};
    static char many[262144 + 3];
    size_t len;

    memset(many, 'm', sizeof many - 1);
    cf_buf_addf(&text, O("agent_message", "\"content\":\"%s\""), many);
    watch_open_in_turn(&w, &nothing);
    w.is_quiet = true;
    say(&w, text.data);
    ck_assert_uint_eq(w.seq, 3);
    (void)cf_normalizer_last_message(w.n, &len);
    ck_assert_uint_eq(len, 262146);
    cf_buf_release(&text);
    watch_close(&w);
}
END_TEST

START_TEST(what_breaks_the_closed_form_is_refused_with_its_pointer)
{
    expect_refused(O("agent_message", ""), "/payload/content is missing");
    expect_refused(O("agent_message", "\"content\":7"), "/payload/content must be a string");
    expect_refused(O("agent_message", "\"content\":\"x\",\"extra\":1"), "/payload/extra is not a member");
    expect_refused(O("agent_message", "\"content\":\"x\",\"event_id\":\"evt_1\""), "/payload/event_id");
    expect_refused(O("agent_message", "\"content\":\"x\",\"subagent\":\"me\""), "/payload/subagent");
    expect_refused("{\"type\":\"observation.agent_message\"}", "/payload is missing");
    expect_refused("{\"type\":\"observation.agent_message\",\"payload\":[]}", "/payload must be an object");
    expect_refused("{\"type\":\"observation.agent_message\",\"payload\":{\"content\":\"x\"},\"seq\":1}", "/seq is not a member");
    expect_refused("{\"payload\":{}}", "/type is missing");
    expect_refused(O("ready", "\"capability_set\":{}"), "may author");
    expect_refused(O("failed", "\"error\":{\"type\":\"runtime.internal\",\"message\":\"\"}"), "may author");
    expect_refused(O("tool_use", "\"tool_use_id\":\"t\",\"tool\":\"harness:grep\""), "/payload/args is missing");
    expect_refused(O("tool_use", "\"tool_use_id\":\"\",\"tool\":\"harness:grep\",\"args\":1"), "/payload/tool_use_id must not be empty");
    expect_refused(O("tool_use", "\"tool_use_id\":\"t\",\"tool\":\"grep\",\"args\":1"), "/payload/tool must be harness:NAME");
    expect_refused(O("tool_use", "\"tool_use_id\":\"t\",\"tool\":\"harness:\",\"args\":1"), "/payload/tool must be harness:NAME");
    expect_refused(O("tool_use", "\"tool_use_id\":\"t\",\"tool\":\"harness:a b\",\"args\":1"), "/payload/tool must be harness:NAME");
    expect_refused(O("tool_use", "\"tool_use_id\":\"t\",\"tool\":\"harness:a\\u00a0b\",\"args\":1"), "/payload/tool must be harness:NAME");
    expect_refused(O("tool_use", "\"tool_use_id\":\"t\",\"tool\":\"conn_0123456789abcdef0123456789abcdef:x\",\"args\":1"), "/payload/tool");
    expect_refused(O("tool_result", "\"tool_use_id\":\"t\",\"error\":{\"type\":\"odd\",\"message\":\"\"}"), "/payload/error/type must be one of");
    expect_refused(O("file_changed", "\"event\":\"touch\",\"path\":\"/a\""), "/payload/event must be one of: create, delete, modify");
    expect_refused(O("file_changed", "\"event\":\"create\",\"path\":\"\""), "/payload/path must not be empty");
    expect_refused(O("context_compacted", "\"strategy\":\"native\",\"tokens_before\":-1,\"tokens_after\":1"), "/payload/tokens_before");
    expect_refused(O("finished", "\"stop_reason\":\"cancelled\""), "/payload/stop_reason");
    expect_refused(O("finished", "\"stop_reason\":\"end_turn\",\"turn\":{\"execution\":\"gpu\"}"), "/payload/turn/execution");
    expect_refused(O("finished", "\"stop_reason\":\"end_turn\",\"vendor_reported_cost_microusd\":1.5"), "/payload/vendor_reported_cost_microusd");
}
END_TEST

/* ---- the author kit's golden vectors, forward: stdout -> the listed observations ---- */

struct vector_run {
    struct watch *w;
};

static void
on_text(void *user, const char *text, size_t len, uint64_t line)
{
    cf_normalizer_text(((struct vector_run *)user)->w->n, text, len, line);
}

static void
on_object(void *user, json_t *object, uint64_t line)
{
    struct cf_error err = {0};

    ck_assert_msg(cf_normalizer_object(((struct vector_run *)user)->w->n, object, line, &err) == 0, "%s", err.text);
}

static void
on_broken(void *user, const struct cf_error *err)
{
    ck_abort_msg("%s", err->text);
}

struct collected {
    json_t *list;
};

static void
collect(void *user, const struct cf_observation *o)
{
    json_array_append_new(((struct collected *)user)->list, cf_json_parse(o->json, o->json_len, NULL, NULL));
}

static void
check_vector(json_t *vector)
{
    struct collected got = {json_array()};
    struct cf_normalizer_options options = {.on_observation = collect, .user = &got};
    struct watch w = {.n = cf_normalizer_new(&options)};
    struct vector_run run = {&w};
    struct cf_oneshot_events events = {.on_text = on_text, .on_object = on_object, .on_broken = on_broken};
    json_t *authoring = cf_json_obj(vector, "authoring"), *exchange = cf_json_obj(vector, "exchange"), *first;
    bool is_json = strcmp(cf_json_str(authoring, "output_mode"), "stream_json") == 0;
    struct cf_oneshot *oneshot = cf_oneshot_new(is_json ? CF_ONESHOT_STREAM_JSON : CF_ONESHOT_TEXT, &events, &run);
    const char *stdout_text = cf_json_str(exchange, "stdout");
    json_t *listed = cf_json_arr(vector, "normalized_observations");

    /* the list may begin with the runner's own ready */
    first = json_array_get(listed, 0);
    if (strcmp(cf_json_str(first, "type"), "observation.ready") == 0)
        cf_normalizer_ready(w.n, json_object_get(cf_json_obj(first, "payload"), "capability_set"), 0);
    cf_normalizer_turn_begin(w.n);
    for (const char *at = stdout_text; *at != '\0'; at++)
        ck_assert(cf_oneshot_feed(oneshot, at, 1) == 0);
    cf_oneshot_end(oneshot);
    cf_normalizer_finished(w.n, NULL, NULL, 0);
    cf_auto_free char *said = cf_json_dump(got.list, NULL);
    ck_assert_msg(cf_json_same(got.list, listed), "%s: %s", cf_json_str(vector, "name"), said);
    cf_oneshot_free(oneshot);
    cf_normalizer_free(w.n);
    json_decref(got.list);
}

START_TEST(the_one_shot_vectors_normalize_to_their_observations)
{
    json_error_t why;
    json_t *document = json_load_file("fixtures/oneshot-v1-author-kit-vectors.json", 0, &why), *vector;
    size_t i;

    if (document == NULL) {
        printf("SKIPPED one-shot vectors: %s\n", why.text);
        return;
    }
    json_array_foreach(cf_json_arr(document, "vectors"), i, vector)
        check_vector(vector);
    ck_assert_uint_eq(i, 2);
    json_decref(document);
}
END_TEST

UNIT_MAIN("observe/author", tcase_add_test(tc, authored_observations_come_out_equal);
          tcase_add_test(tc, an_interrupt_overrides_the_authored_reason);
          tcase_add_test(tc, an_authored_message_over_the_bound_is_split);
          tcase_add_test(tc, what_breaks_the_closed_form_is_refused_with_its_pointer);
          tcase_add_test(tc, the_one_shot_vectors_normalize_to_their_observations);)
