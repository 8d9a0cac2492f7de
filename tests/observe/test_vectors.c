/* The thirteen golden vectors of the ACP extension, each through the real decoder or encoder. */
#include "tests/observe/watch.h"

#include "wire/wire.h"

struct road {
    struct cf_acp *acp;
    struct watch watch;
    struct cf_buf sent; /* the last line */
    struct cf_declaration declaration;
    const char *disposition;
    enum cf_slot asked;
    bool is_initialized, has_session, is_done;
};

static json_t *document;

static json_t *
wire_of(const char *name)
{
    json_t *vector;
    size_t i;

    json_array_foreach(cf_json_arr(document, "vectors"), i, vector)
        if (strcmp(cf_json_str(vector, "name"), name) == 0)
            return json_object_get(vector, "wire");
    ck_abort_msg("no vector %s", name);
    return NULL;
}

static void
on_send(void *user, const char *line, size_t len)
{
    struct road *road = user;

    cf_buf_reset(&road->sent);
    cf_buf_add(&road->sent, line, len);
}

static void
on_initialized(void *user, json_t *result, uint64_t frame)
{
    struct road *road = user;
    struct cf_error err = {0};

    ck_assert_msg(cf_declaration_read(result, &road->declaration, &err) == 0, "%s", err.text);
    road->is_initialized = true;
}

static void
on_session(void *user, const char *session_id, json_t *result, uint64_t frame)
{
    struct road *road = user;

    watch_ready(&road->watch, &road->declaration);
    road->has_session = true;
}

static void
on_update(void *user, json_t *params, json_t *said, uint64_t frame)
{
    cf_normalizer_update(((struct road *)user)->watch.n, params, said, frame);
}

static void
on_done(void *user, const char *stop_reason, json_t *result, uint64_t frame)
{
    struct road *road = user;
    json_t *turn = cf_slot_find(CF_SLOT_TURN, cf_json_obj(result, "_meta"));

    cf_normalizer_finished(road->watch.n, stop_reason, turn, frame);
    road->is_done = true;
}

static void
on_broken(void *user, const struct cf_error *err)
{
    ck_abort_msg("%s", err->text);
}

static void
on_reply(void *user, json_t *result, json_t *error, uint64_t frame)
{
    struct road *road = user;

    road->disposition = cf_slot_disposition(road->asked, result);
}

static void
feed(struct road *road, json_t *frame)
{
    size_t len;
    cf_auto_free char *line = cf_json_dump(frame, &len);

    ck_assert(cf_acp_feed(road->acp, line, len) == 0 && cf_acp_feed(road->acp, "\n", 1) == 0);
}

static void
road_open(struct road *road, const char *declaration)
{
    static const struct cf_acp_events events = {.send = on_send, .on_initialized = on_initialized, .on_session = on_session,
                                                .on_update = on_update, .on_prompt_done = on_done, .on_broken = on_broken};
    struct cf_acp_options options = {0};
    struct cf_error err = {0};

    memset(road, 0, sizeof *road);
    watch_open(&road->watch, true);
    road->acp = cf_acp_new(&options, &events, road);
    ck_assert(cf_acp_initialize(road->acp, NULL, &err) == 0);
    feed(road, wire_of(declaration));
    ck_assert(road->is_initialized);
}

static void
road_close(struct road *road)
{
    cf_acp_free(road->acp);
    watch_close(&road->watch);
    cf_buf_release(&road->sent);
}

/* The line just sent is the vector, member for member. */
static void
expect_wire(struct road *road, const char *name)
{
    json_t *sent = js(road->sent.data);

    ck_assert_msg(cf_json_same(sent, wire_of(name)), "%s: %s", name, road->sent.data);
    json_decref(sent);
}

/* session/new as a run builds it: our own parameters around the _meta that was asked for. */
static void
ask_session(struct road *road, json_t *meta)
{
    struct cf_error err = {0};
    json_t *params = json_pack("{s:s,s:[]}", "cwd", "/workspace", "mcpServers");

    ck_assert_msg(cf_session_meta_check(meta, &road->declaration, &err) == 0, "%s", err.text);
    if (meta != NULL)
        json_object_set(params, "_meta", meta);
    ck_assert_msg(cf_acp_session_new(road->acp, params, &err) == 0, "%s", err.text);
    json_decref(params);
}

static void
to_turn(struct road *road)
{
    struct cf_error err = {0};
    json_t *answer = js("{\"jsonrpc\":\"2.0\",\"id\":2,\"result\":{\"sessionId\":\"session-1\"}}");
    json_t *blocks = js("[{\"type\":\"text\",\"text\":\"go\"}]");

    ask_session(road, NULL);
    feed(road, answer);
    ck_assert(road->has_session);
    ck_assert(cf_acp_prompt(road->acp, blocks, &err) == 0);
    watch_turn(&road->watch);
    cf_buf_reset(&road->watch.log);
    json_decref(answer);
    json_decref(blocks);
}

START_TEST(the_file_is_what_the_contract_closes)
{
    struct cf_schema *schema = NULL;
    struct cf_error err = {0};

    ck_assert_msg(cf_schema_builtin("acp-vectors", &schema, &err) == 0, "%s", err.text);
    ck_assert_msg(cf_schema_validate(schema, document, NULL, &err) == 0, "%s", err.text);
    ck_assert_uint_eq(json_array_size(cf_json_arr(document, "vectors")), 13);
    cf_schema_free(schema);
}
END_TEST

START_TEST(declarations_are_decoded_and_admitted)
{
    static const struct {
        const char *name;
        bool subagents, steer, interrupt, rest;
    } cases[] = {
        {"initialize.full-declaration", true, true, true, true},
        {"initialize.subagents-declaration", true, false, false, false},
        {"initialize.controls-declaration", false, true, true, false},
    };

    for (size_t i = 0; i < CF_COUNT(cases); i++) {
        struct road road;
        road_open(&road, cases[i].name);
        ck_assert_int_eq(road.declaration.subagents, cases[i].subagents);
        ck_assert_int_eq(road.declaration.steer, cases[i].steer);
        ck_assert_int_eq(road.declaration.interrupt, cases[i].interrupt);
        ck_assert_int_eq(road.declaration.builtin_tool_scoping, cases[i].rest);
        ck_assert_int_eq(road.declaration.structured_output, cases[i].rest);
        ck_assert_int_eq(road.declaration.staged_files, cases[i].rest);
        ck_assert_int_eq(road.declaration.native_checkpoint, cases[i].rest);
        json_t *envelope = cf_envelope_acp(false), *set = cf_declaration_admit(envelope, &road.declaration);
        ck_assert_str_eq(cf_json_str(set, "mid_run_input"), cases[i].steer ? "native" : "unsupported");
        ck_assert_str_eq(cf_json_str(set, "interrupt"), cases[i].interrupt ? "cooperative" : "kill_only");
        ck_assert((json_object_get(set, "subagents") != NULL) == cases[i].subagents);
        json_decref(set);
        json_decref(envelope);
        road_close(&road);
    }
}
END_TEST

START_TEST(session_new_is_written_as_the_vectors_say)
{
    static const char *const names[] = {"session.new.builtin-tools", "session.new.output-schema"};

    for (size_t i = 0; i < CF_COUNT(names); i++) {
        struct road road;
        road_open(&road, "initialize.full-declaration");
        ask_session(&road, json_object_get(cf_json_obj(wire_of(names[i]), "params"), "_meta"));
        expect_wire(&road, names[i]);
        road_close(&road);
    }
}
END_TEST

START_TEST(subagent_updates_become_observations)
{
    struct road road;
    json_t *text = js("{\"jsonrpc\":\"2.0\",\"method\":\"session/update\",\"params\":{\"sessionId\":\"session-1\",\"update\":"
                      "{\"sessionUpdate\":\"agent_message_chunk\",\"content\":{\"type\":\"text\",\"text\":\"found it\"}}}}");
    json_t *activity = json_object_get(cf_json_obj(cf_json_obj(wire_of("session.update.subagent-activity"), "params"), "update"), "_meta");

    road_open(&road, "initialize.full-declaration");
    to_turn(&road);
    feed(&road, wire_of("session.update.subagent-started"));
    feed(&road, wire_of("session.update.subagent-activity"));
    json_object_set(cf_json_obj(cf_json_obj(text, "params"), "update"), "_meta", activity);
    feed(&road, text);
    feed(&road, wire_of("session.update.subagent-completed"));
    expect_said(&road.watch, "subagent_started@6 {\"subagent\":\"SUB1\",\"name\":\"reviewer\",\"description\":\"Reads the change and reports what is wrong\"}\n"
                             "agent_message@8 {\"content\":\"found it\",\"subagent\":\"SUB1\"}\n"
                             "subagent_completed@9 {\"subagent\":\"SUB1\",\"disposition\":\"completed\"}\n");
    expect_found(&road.watch, "");
    json_decref(text);
    road_close(&road);
}
END_TEST

START_TEST(turn_telemetry_comes_out_equal)
{
    struct road road;
    json_t *wire = wire_of("session.prompt.turn-telemetry");
    json_t *meta = cf_json_obj(cf_json_obj(wire, "result"), "_meta");

    road_open(&road, "initialize.full-declaration");
    to_turn(&road);
    feed(&road, wire);
    ck_assert(road.is_done);
    json_t *payload = js(strchr(strstr(road.watch.log.data, "finished@"), ' ') + 1);
    ck_assert(cf_json_same(json_object_get(payload, "turn"), json_object_get(meta, "checkfu.turn")));
    json_decref(payload);
    road_close(&road);
}
END_TEST

static void
ask(struct road *road, enum cf_slot slot, json_t *params)
{
    struct cf_error err = {0};

    road->asked = slot;
    ck_assert_msg(cf_acp_request(road->acp, cf_slot_name(slot), params, on_reply, road, &err) == 0, "%s", err.text);
}

START_TEST(steer_and_interrupt_are_written_and_read)
{
    struct road road;
    json_t *params = json_copy(cf_json_obj(wire_of("extension.steer.request"), "params"));

    json_object_del(params, "sessionId"); /* the connection knows its session */
    road_open(&road, "initialize.full-declaration");
    to_turn(&road);
    ask(&road, CF_SLOT_STEER, params);
    expect_wire(&road, "extension.steer.request");
    feed(&road, wire_of("extension.steer.response"));
    ck_assert_str_eq(road.disposition, "delivered");
    ask(&road, CF_SLOT_INTERRUPT, NULL);
    expect_wire(&road, "extension.interrupt.request");
    feed(&road, wire_of("extension.interrupt.response"));
    ck_assert_str_eq(road.disposition, "draining");
    json_decref(params);
    road_close(&road);
}
END_TEST

static void
load(void)
{
    json_error_t why;

    document = json_load_file("fixtures/acp-v1-extension-vectors.json", JSON_REJECT_DUPLICATES, &why);
    ck_assert_msg(document != NULL, "%s", why.text);
}

static void
unload(void)
{
    json_decref(document);
}

UNIT_MAIN("observe/vectors", tcase_add_checked_fixture(tc, load, unload);
          tcase_add_test(tc, the_file_is_what_the_contract_closes);
          tcase_add_test(tc, declarations_are_decoded_and_admitted);
          tcase_add_test(tc, session_new_is_written_as_the_vectors_say);
          tcase_add_test(tc, subagent_updates_become_observations);
          tcase_add_test(tc, turn_telemetry_comes_out_equal);
          tcase_add_test(tc, steer_and_interrupt_are_written_and_read);)
