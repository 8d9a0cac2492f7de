#include "rig.h"
#include "tests/support/unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- words of these tests --------------------------------------------------------------- */

struct bench {
    struct rig_model model;
    struct rig_agent agent;
    const char *folder;
    char session[64];
};

static json_t *
get(json_t *value, const char *a, const char *b)
{
    value = json_object_get(value, a);
    return b != NULL ? json_object_get(value, b) : value;
}

static const char *
text(json_t *object, const char *name)
{
    const char *value = json_string_value(json_object_get(object, name));

    return value != NULL ? value : "";
}

/* Starts model and agent; `flags` is one argument or NULL, `more` another. */
static json_t *
begin(struct bench *bench, char *flags, char *more, json_t *client)
{
    char *argv[] = { strdup(rig_program("acp-agent")), "--stdio", flags, more, NULL };
    json_t *answer;

    bench->folder = rig_enter_folder();
    rig_model_start(&bench->model);
    rig_agent_start(&bench->agent, argv);
    free(argv[0]);
    answer = rig_agent_call(&bench->agent, "initialize",
                            json_pack("{s:i, s:o}", "protocolVersion", 1, "clientCapabilities",
                                      client != NULL ? client : json_object()));
    ck_assert_int_eq(json_integer_value(get(answer, "result", "protocolVersion")), 1);
    return answer;
}

static json_t *
new_session(struct bench *bench, json_t *meta)
{
    json_t *params = json_pack("{s:s, s:[]}", "cwd", bench->folder, "mcpServers"), *answer;

    if (meta != NULL)
        json_object_set_new(params, "_meta", meta);
    answer = rig_agent_call(&bench->agent, "session/new", params);
    snprintf(bench->session, sizeof bench->session, "%s", text(get(answer, "result", NULL), "sessionId"));
    return answer;
}

static void
begin_session(struct bench *bench, char *flags, char *more, json_t *client, json_t *meta)
{
    json_decref(begin(bench, flags, more, client));
    json_decref(new_session(bench, meta));
    ck_assert_str_ne(bench->session, "");
}

static json_int_t
send_prompt(struct bench *bench, const char *prompt)
{
    return rig_agent_send(&bench->agent, "session/prompt",
                          json_pack("{s:s, s:[{s:s, s:s}]}", "sessionId", bench->session, "prompt",
                                    "type", "text", "text", prompt));
}

static json_t *
turn(struct bench *bench, const char *prompt)
{
    return rig_agent_wait(&bench->agent, send_prompt(bench, prompt));
}

static void
finish(struct bench *bench)
{
    ck_assert_int_eq(rig_agent_end(&bench->agent), 0);
    rig_model_stop(&bench->model);
}

/* All text of one kind of chunk so far. Static. */
static const char *
said(struct bench *bench, const char *kind)
{
    static char all[65536];
    json_t *update;
    size_t i;

    all[0] = '\0';
    json_array_foreach (bench->agent.updates, i, update) {
        json_t *inner = get(get(update, "params", NULL), "update", NULL);

        if (strcmp(text(inner, "sessionUpdate"), kind) == 0)
            strcat(all, text(get(inner, "content", NULL), "text"));
    }
    return all;
}

/* How many updates are of this kind and hold this text anywhere. */
static int
count_updates(struct bench *bench, const char *kind, const char *part)
{
    json_t *update;
    int count = 0;
    size_t i;

    json_array_foreach (bench->agent.updates, i, update) {
        char *dump = json_dumps(update, JSON_COMPACT);

        count += strcmp(text(get(get(update, "params", NULL), "update", NULL), "sessionUpdate"),
                        kind) == 0 &&
                 strstr(dump, part) != NULL;
        free(dump);
    }
    return count;
}

static size_t
calls_made(struct bench *bench)
{
    json_t *asked = rig_model_asked(&bench->model);
    size_t count = json_array_size(asked);

    json_decref(asked);
    return count;
}

static bool
model_heard(struct bench *bench, size_t call, const char *part)
{
    json_t *asked = rig_model_asked(&bench->model);
    char *dump = json_dumps(json_array_get(asked, call), JSON_COMPACT);
    bool heard = dump != NULL && strstr(dump, part) != NULL;

    free(dump);
    json_decref(asked);
    return heard;
}

static void
wait_for_calls(struct bench *bench, size_t count)
{
    for (int i = 0; i < 1000 && calls_made(bench) < count; i++)
        usleep(5000);
    ck_assert_int_ge(calls_made(bench), count);
}

static void
expect_stop(json_t *answer, const char *reason)
{
    char *dump = json_dumps(answer, 0);

    ck_assert_msg(strcmp(text(get(answer, "result", NULL), "stopReason"), reason) == 0, "%s", dump);
    free(dump);
    json_decref(answer);
}

static void
expect_error(json_t *answer, int code, const char *part)
{
    char *dump = json_dumps(answer, 0);

    ck_assert_msg(json_integer_value(get(answer, "error", "code")) == code, "%s", dump);
    ck_assert_msg(strstr(text(get(answer, "error", NULL), "message"), part) != NULL, "%s", dump);
    free(dump);
    json_decref(answer);
}

/* ---- the plain agent -------------------------------------------------------------------- */

START_TEST(a_plain_turn_shows_the_models_answer_and_no_extension)
{
    struct bench bench = { 0 };
    json_t *answer = begin(&bench, _i ? "--stream" : NULL, NULL, NULL);

    ck_assert_ptr_null(get(answer, "result", "_meta"));
    json_decref(answer);
    json_decref(new_session(&bench, NULL));
    answer = turn(&bench, "NONCE-1");
    ck_assert_ptr_null(get(answer, "result", "_meta"));
    expect_stop(answer, "end_turn");
    ck_assert_str_eq(said(&bench, "agent_message_chunk"), "echo: NONCE-1");
    ck_assert_int_eq(count_updates(&bench, "tool_call", "\"pending\""), 1);
    ck_assert_int_eq(count_updates(&bench, "tool_call_update", "\"completed\""), 1);
    ck_assert_int_eq(count_updates(&bench, "plan", "entries"), 2);
    ck_assert_int_eq(count_updates(&bench, "usage_update", "\"used\":13"), 1);
    ck_assert_int_eq(count_updates(&bench, "session_info_update", "checkfu."), 0);
    expect_stop(turn(&bench, "second"), "end_turn");
    ck_assert(model_heard(&bench, 1, "NONCE-1"));
    finish(&bench);
}
END_TEST

START_TEST(a_model_that_cannot_be_reached_fails_the_prompt)
{
    struct bench bench = { 0 };

    begin_session(&bench, NULL, NULL, NULL, NULL);
    rig_model_stop(&bench.model);
    expect_error(turn(&bench, "hello"), -32603, "cannot reach the model at http://127.0.0.1:");
    ck_assert_str_eq(said(&bench, "agent_message_chunk"), "");
    ck_assert_int_eq(rig_agent_end(&bench.agent), 0);
}
END_TEST

START_TEST(a_refused_key_is_authentication_required)
{
    struct bench bench = { .model.status = 401 };

    begin_session(&bench, NULL, NULL, NULL, NULL);
    expect_error(turn(&bench, "hello"), -32000, "refused with HTTP 401: not today");
    finish(&bench);
}
END_TEST

START_TEST(a_cancelled_turn_ends_so_and_another_follows)
{
    struct bench bench = { .model.gated = true };
    json_int_t id;

    begin_session(&bench, NULL, NULL, NULL, NULL);
    id = send_prompt(&bench, "first");
    wait_for_calls(&bench, 1);
    rig_agent_notify(&bench.agent, "session/cancel", json_pack("{s:s}", "sessionId", bench.session));
    expect_stop(rig_agent_wait(&bench.agent, id), "cancelled");
    rig_model_open(&bench.model);
    expect_stop(turn(&bench, "second"), "end_turn");
    ck_assert_str_eq(said(&bench, "agent_message_chunk"), "echo: second");
    finish(&bench);
}
END_TEST

START_TEST(a_withdrawn_prompt_is_answered_once_with_its_own_error)
{
    struct bench bench = { .model.gated = true };
    json_int_t id;

    begin_session(&bench, NULL, NULL, NULL, NULL);
    id = send_prompt(&bench, "first");
    wait_for_calls(&bench, 1);
    rig_agent_notify(&bench.agent, "$/cancel_request", json_pack("{s:I}", "requestId", id));
    expect_error(rig_agent_wait(&bench.agent, id), -32800, "cancelled");
    finish(&bench);
}
END_TEST

START_TEST(one_turn_at_a_time_in_a_session_and_others_wait)
{
    struct bench bench = { .model.gated = true };
    char first[64];
    json_int_t one, two, three;

    begin_session(&bench, NULL, NULL, NULL, NULL);
    strcpy(first, bench.session);
    json_decref(new_session(&bench, NULL));
    one = send_prompt(&bench, "in the second");
    wait_for_calls(&bench, 1);
    two = send_prompt(&bench, "too early");
    strcpy(bench.session, first);
    three = send_prompt(&bench, "in the first");
    expect_error(rig_agent_wait(&bench.agent, two), -32600, "running");
    rig_model_open(&bench.model);
    expect_stop(rig_agent_wait(&bench.agent, one), "end_turn");
    expect_stop(rig_agent_wait(&bench.agent, three), "end_turn");
    finish(&bench);
}
END_TEST

static const struct {
    const char *permission, *stop, *status;
} permissions[] = {
    { "yes-always", "end_turn", "\"completed\"" },
    { "no-once", "end_turn", "\"failed\"" },
    { NULL, "cancelled", "\"failed\"" },
};

START_TEST(permission_is_asked_and_the_answer_obeyed)
{
    struct bench bench = { 0 };

    begin_session(&bench, "--ask-permission", NULL, NULL, NULL);
    bench.agent.permission = permissions[_i].permission;
    expect_stop(turn(&bench, "hello"), permissions[_i].stop);
    ck_assert_int_eq(json_array_size(bench.agent.requests), 1);
    ck_assert_int_eq(count_updates(&bench, "tool_call_update", permissions[_i].status), 1);
    ck_assert_int_eq(calls_made(&bench), permissions[_i].permission != NULL);
    finish(&bench);
}
END_TEST

START_TEST(what_the_client_offers_is_used_when_asked_for_and_only_then)
{
    struct bench bench = { 0 };
    json_t *client = _i ? json_pack("{s:{s:b, s:b}, s:b}", "fs", "readTextFile", 1, "writeTextFile",
                                    1, "terminal", 1)
                        : NULL;

    begin_session(&bench, "--use-fs", "--use-terminal", client, NULL);
    expect_stop(turn(&bench, "hello"), "end_turn");
    ck_assert_int_eq(json_array_size(bench.agent.requests), _i ? 6 : 0);
    ck_assert_int_eq(count_updates(&bench, "tool_call_update", "read_back_equal\":true"), _i);
    ck_assert_int_eq(count_updates(&bench, "tool_call_update", "\"terminalId\":\"t1\""), _i);
    finish(&bench);
}
END_TEST

START_TEST(the_models_tool_calls_are_carried_out_below_the_working_directory)
{
    static const struct {
        const char *tool, *input, *status;
    } cases[] = {
        { "write", "{\"path\":\"note.txt\",\"content\":\"hi\"}", "\"completed\"" },
        { "write", "{\"path\":\"../note.txt\",\"content\":\"hi\"}", "\"failed\"" },
        { "read", "{\"path\":\"/etc/hostname\"}", "\"failed\"" },
        { "teleport", "{}", "\"failed\"" },
    };
    struct bench bench = { .model.tool = cases[_i].tool, .model.tool_input = cases[_i].input };

    begin_session(&bench, NULL, NULL, NULL, NULL);
    expect_stop(turn(&bench, "do it"), "end_turn");
    ck_assert_int_eq(calls_made(&bench), 2);
    ck_assert_int_eq(access("note.txt", F_OK) == 0, _i == 0);
    ck_assert_int_eq(count_updates(&bench, "tool_call_update", "\"diff\""), _i == 0);
    ck_assert(model_heard(&bench, 1, "tool_call_id"));
    ck_assert_int_ge(count_updates(&bench, "tool_call_update", cases[_i].status), 1);
    finish(&bench);
}
END_TEST

START_TEST(sessions_are_listed_loaded_with_their_history_closed_and_deleted)
{
    struct bench bench = { 0 };
    json_t *where, *answer;

    begin_session(&bench, NULL, NULL, NULL, NULL);
    expect_stop(turn(&bench, "remember this"), "end_turn");
    where = json_pack("{s:s, s:s, s:[]}", "sessionId", bench.session, "cwd", bench.folder, "mcpServers");
    json_decref(rig_agent_call(&bench.agent, "session/close", json_incref(where)));
    expect_error(turn(&bench, "closed"), -32602, "no such session");
    json_decref(rig_agent_call(&bench.agent, "session/load", json_incref(where)));
    ck_assert_str_eq(said(&bench, "user_message_chunk"), "remember this");
    json_decref(rig_agent_call(&bench.agent, "session/resume", json_incref(where)));
    ck_assert_str_eq(said(&bench, "user_message_chunk"), "remember this");
    answer = rig_agent_call(&bench.agent, "session/list", json_object());
    ck_assert_int_eq(json_array_size(get(answer, "result", "sessions")), 1);
    json_decref(answer);
    json_decref(rig_agent_call(&bench.agent, "session/delete", json_incref(where)));
    expect_error(rig_agent_call(&bench.agent, "session/load", where), -32602, "no such session");
    finish(&bench);
}
END_TEST

START_TEST(modes_options_authentication_and_the_unknown_are_answered)
{
    struct bench bench = { 0 };
    struct rig_agent *agent = &bench.agent;

    json_decref(begin(&bench, "--require-auth", NULL, NULL));
    expect_error(new_session(&bench, NULL), -32000, "Authentication required");
    expect_error(rig_agent_call(agent, "authenticate", json_pack("{s:s}", "methodId", "face")), -32602, "");
    json_decref(rig_agent_call(agent, "authenticate", json_pack("{s:s}", "methodId", "token")));
    json_decref(new_session(&bench, NULL));
    expect_error(rig_agent_call(agent, "session/set_mode", json_pack("{s:s, s:s}", "sessionId",
                                bench.session, "modeId", "wild")), -32602, "no such mode");
    json_decref(rig_agent_call(agent, "session/set_mode", json_pack("{s:s, s:s}", "sessionId",
                               bench.session, "modeId", "code")));
    expect_error(rig_agent_call(agent, "_vendor/ping", json_object()), -32601, "");
    expect_error(rig_agent_call(agent, "_checkfu/session/steer", json_object()), -32601, "");
    ck_assert_int_eq(count_updates(&bench, "current_mode_update", "\"code\""), 1);
    finish(&bench);
}
END_TEST

/* ---- extensions ------------------------------------------------------------------------- */

START_TEST(malformed_authority_is_refused_before_any_model_call)
{
    static const char *const metas[] = {
        "{\"checkfu.builtin_tools\":\"read\"}",
        "{\"checkfu.continuity\":\"stale\"}",
        "{\"checkfu.runtime_config\":{}}",
        "{\"checkfu.output_schema\":null}",
        "{\"checkfu.resume\":7}",
    };
    struct bench bench = { 0 };

    json_decref(begin(&bench, "--declare=all", NULL, NULL));
    for (size_t i = 0; i < 5; i++) {
        char name[32];

        snprintf(name, sizeof name, "%.*s", (int)strcspn(metas[i] + 2, "\""), metas[i] + 2);
        expect_error(new_session(&bench, json_loads(metas[i], 0, NULL)), -32602, name);
    }
    ck_assert_int_eq(calls_made(&bench), 0);
    finish(&bench);
}
END_TEST

START_TEST(a_steer_is_taken_once_and_reaches_the_model_in_the_same_turn)
{
    struct bench bench = { .model.gated = true };
    json_int_t id;
    json_t *answer, *steer;

    begin_session(&bench, "--declare=steer", NULL, NULL, NULL);
    steer = json_pack("{s:s, s:s, s:s}", "sessionId", bench.session, "id", "evt_1", "content", "LEFT");
    answer = rig_agent_call(&bench.agent, "_checkfu/session/steer", json_incref(steer));
    ck_assert_str_eq(text(get(answer, "result", NULL), "disposition"), "refused");
    json_decref(answer);
    id = send_prompt(&bench, "go");
    wait_for_calls(&bench, 1);
    for (int i = 0; i < 2; i++) {
        answer = rig_agent_call(&bench.agent, "_checkfu/session/steer", json_incref(steer));
        ck_assert_str_eq(text(get(answer, "result", NULL), "disposition"), "queued");
        json_decref(answer);
    }
    rig_model_open(&bench.model);
    expect_stop(rig_agent_wait(&bench.agent, id), "end_turn");
    ck_assert_int_eq(calls_made(&bench), 2);
    ck_assert_str_eq(said(&bench, "agent_message_chunk"), "echo: goecho: LEFT");
    json_decref(steer);
    finish(&bench);
}
END_TEST

START_TEST(a_drained_turn_keeps_the_answer_in_flight_and_starts_nothing_new)
{
    struct bench bench = { .model.gated = true };
    json_int_t id;
    json_t *answer;

    begin_session(&bench, "--declare=interrupt", NULL, NULL, NULL);
    id = send_prompt(&bench, "go");
    wait_for_calls(&bench, 1);
    answer = rig_agent_call(&bench.agent, "_checkfu/session/interrupt",
                            json_pack("{s:s}", "sessionId", bench.session));
    ck_assert_str_eq(text(get(answer, "result", NULL), "disposition"), "draining");
    json_decref(answer);
    if (_i == 0)
        rig_model_open(&bench.model);
    expect_stop(rig_agent_wait(&bench.agent, id), _i == 0 ? "end_turn" : "cancelled");
    ck_assert_str_eq(said(&bench, "agent_message_chunk"), _i == 0 ? "echo: go" : "");
    finish(&bench);
}
END_TEST

START_TEST(subagents_are_started_attributed_and_settled)
{
    struct bench bench = { 0 };

    begin_session(&bench, "--declare=subagents", NULL, NULL, NULL);
    expect_stop(turn(&bench, "go"), "end_turn");
    ck_assert_int_eq(count_updates(&bench, "session_info_update", "\"started\""), 2);
    ck_assert_int_eq(count_updates(&bench, "session_info_update", "\"disposition\":\"completed\""), 2);
    ck_assert_int_eq(count_updates(&bench, "tool_call", "\"activity\""), 1);
    finish(&bench);
}
END_TEST

START_TEST(the_ceiling_holds_for_the_offer_and_for_the_call)
{
    struct bench bench = { .model.tool = "write",
                           .model.tool_input = "{\"path\":\"n\",\"content\":\"hi\"}" };

    begin_session(&bench, "--declare=builtin_tool_scoping", NULL, NULL,
                  json_pack("{s:[s]}", "checkfu.builtin_tools", "read"));
    expect_stop(turn(&bench, "go"), "end_turn");
    ck_assert(model_heard(&bench, 0, "\"name\":\"read\""));
    ck_assert(!model_heard(&bench, 0, "\"name\":\"write\""));
    ck_assert_int_ne(access("n", F_OK), 0);
    ck_assert_int_eq(count_updates(&bench, "tool_call_update", "outside the session's ceiling"), 1);
    finish(&bench);
}
END_TEST

static const struct {
    char *declare;
    const char *answer, *error, *request;
} structured[] = {
    { "--declare=structured_output", "{\"answer\":\"42\"}", NULL, "response_format" },
    { "--declare=structured_output:submit_tool", "{\"answer\":\"42\"}", NULL, "submit_result" },
    { "--declare=structured_output", "forty-two", "is not JSON", "" },
    { "--declare=structured_output:submit_tool", "{\"answer\":42}", "at \"/answer\": type", "" },
};

START_TEST(a_structured_answer_is_shown_only_when_it_fits)
{
    struct bench bench = { .model.answer = structured[_i].answer };
    json_t *answer;

    begin_session(&bench, structured[_i].declare, _i % 2 ? "--stream" : NULL, NULL,
                  json_pack("{s:{s:s, s:{s:{s:s}}, s:[s], s:b}}", "checkfu.output_schema", "type",
                            "object", "properties", "answer", "type", "string", "required",
                            "answer", "additionalProperties", 0));
    answer = turn(&bench, "go");
    if (structured[_i].error != NULL)
        expect_error(answer, -32603, structured[_i].error);
    else
        expect_stop(answer, "end_turn");
    ck_assert_str_eq(said(&bench, "agent_message_chunk"),
                     structured[_i].error == NULL ? structured[_i].answer : "");
    ck_assert(model_heard(&bench, 0, structured[_i].request));
    finish(&bench);
}
END_TEST

START_TEST(a_submission_by_tool_is_the_answer)
{
    struct bench bench = { .model.tool = "submit_result", .model.tool_input = "{\"answer\":\"42\"}" };

    begin_session(&bench, "--declare=structured_output:submit_tool", NULL, NULL,
                  json_pack("{s:{s:s}}", "checkfu.output_schema", "type", "object"));
    expect_stop(turn(&bench, "go"), "end_turn");
    ck_assert_str_eq(said(&bench, "agent_message_chunk"), "{\"answer\":\"42\"}");
    ck_assert_int_eq(calls_made(&bench), 1);
    ck_assert_int_eq(count_updates(&bench, "tool_call", "Submit the result"), 1);
    finish(&bench);
}
END_TEST

START_TEST(a_staged_file_reaches_the_model_by_its_link)
{
    struct bench bench = { 0 };
    FILE *file;
    char uri[256];

    begin_session(&bench, "--declare=staged_files", NULL, NULL, NULL);
    file = fopen("a b.txt", "w");
    fputs("STAGED-CONTENT", file);
    fclose(file);
    snprintf(uri, sizeof uri, "file://%s/a%%20b.txt", bench.folder);
    expect_stop(rig_agent_call(&bench.agent, "session/prompt",
                               json_pack("{s:s, s:[{s:s, s:s}, {s:s, s:s, s:s}]}", "sessionId",
                                         bench.session, "prompt", "type", "text", "text", "read",
                                         "type", "resource_link", "name", "a b.txt", "uri", uri)),
                "end_turn");
    ck_assert(model_heard(&bench, 0, "STAGED-CONTENT"));
    finish(&bench);
}
END_TEST

static json_t *
mcp_session(struct bench *bench, const char *type, const char *url)
{
    json_t *answer = rig_agent_call(
        &bench->agent, "session/new",
        json_pack("{s:s, s:[{s:s, s:s, s:s, s:[{s:s, s:s}]}]}", "cwd", bench->folder, "mcpServers",
                  "type", type, "name", "box", "url", url, "headers", "name", "Authorization",
                  "value", "Bearer box-key"));

    snprintf(bench->session, sizeof bench->session, "%s",
             text(get(answer, "result", NULL), "sessionId"));
    return answer;
}

START_TEST(tools_of_an_mcp_server_are_offered_and_called)
{
    struct bench bench = { .model.tool = "mcp__box__echo",
                           .model.tool_input = "{\"text\":\"FROM-THE-BOX\"}" };
    char url[64];
    json_t *answer;

    json_decref(begin(&bench, "--declare=steer", NULL, NULL));
    snprintf(url, sizeof url, "http://127.0.0.1:%d/mcp", bench.model.port);
    json_decref(mcp_session(&bench, "http", url));
    answer = turn(&bench, "go");
    ck_assert_int_eq(json_integer_value(get(get(get(answer, "result", NULL), "_meta", NULL),
                                            "checkfu.turn", "mcp_calls")), 1);
    expect_stop(answer, "end_turn");
    ck_assert_int_eq(count_updates(&bench, "tool_call_update", "FROM-THE-BOX"), 1);
    ck_assert(model_heard(&bench, 0, "box-key"));
    ck_assert(model_heard(&bench, 5, "FROM-THE-BOX")); /* behind three greetings and the call */
    finish(&bench);
}
END_TEST

START_TEST(an_mcp_server_that_cannot_be_used_fails_the_session)
{
    struct bench bench = { 0 };

    json_decref(begin(&bench, NULL, NULL, NULL));
    expect_error(mcp_session(&bench, "sse", "http://127.0.0.1:1/"), -32602, "type http only");
    expect_error(mcp_session(&bench, "http", "http://127.0.0.1:1/"), -32602,
                 "MCP server box: initialize: Connection refused");
    finish(&bench);
}
END_TEST

static char *
checkpoint(struct bench *bench)
{
    json_t *update, *state = NULL;
    size_t i;

    json_array_foreach (bench->agent.updates, i, update) {
        json_t *meta = get(get(get(update, "params", NULL), "update", NULL), "_meta", NULL);
        json_t *found = get(meta, "checkfu.journal_checkpoint", "state");

        if (found != NULL)
            state = found;
    }
    ck_assert_ptr_nonnull(state);
    return strdup(json_string_value(state));
}

START_TEST(a_checkpoint_kept_outside_resumes_the_conversation)
{
    struct bench first = { 0 }, second = { 0 };
    char *state;

    begin_session(&first, "--declare=native_checkpoint", NULL, NULL, NULL);
    expect_stop(turn(&first, "SECRET-WORD"), "end_turn");
    state = checkpoint(&first);
    finish(&first);
    begin_session(&second, "--declare=native_checkpoint", NULL, NULL,
                  json_pack("{s:s, s:{s:i, s:s}}", "checkfu.continuity", "same_run_resume",
                            "checkfu.resume", "version", 1, "state", state));
    expect_stop(turn(&second, "what was it?"), "end_turn");
    ck_assert(model_heard(&second, 0, "SECRET-WORD"));
    free(state);
    finish(&second);
}
END_TEST

START_TEST(past_the_admitted_trigger_the_conversation_is_compacted)
{
    struct bench bench = { 0 };

    begin_session(&bench, "--declare=all", NULL, NULL,
                  json_pack("{s:{s:i, s:{s:s, s:i}}}", "checkfu.runtime_config",
                            "context_window_tokens", 1000, "compaction", "strategy", "native",
                            "trigger_tokens", 10));
    expect_stop(turn(&bench, "FIRST, a prompt of some length"), "end_turn");
    expect_stop(turn(&bench, "second"), "end_turn");
    ck_assert_int_eq(count_updates(&bench, "session_info_update", "\"compacted_messages\":2"), 1);
    ck_assert(!model_heard(&bench, 1, "FIRST"));
    ck_assert_int_eq(count_updates(&bench, "usage_update", "\"size\":1000"), 2);
    finish(&bench);
}
END_TEST

UNIT_MAIN("harness/acp",
          tcase_add_loop_test(tc, a_plain_turn_shows_the_models_answer_and_no_extension, 0, 2);
          tcase_add_test(tc, a_model_that_cannot_be_reached_fails_the_prompt);
          tcase_add_test(tc, a_refused_key_is_authentication_required);
          tcase_add_test(tc, a_cancelled_turn_ends_so_and_another_follows);
          tcase_add_test(tc, a_withdrawn_prompt_is_answered_once_with_its_own_error);
          tcase_add_test(tc, one_turn_at_a_time_in_a_session_and_others_wait);
          tcase_add_loop_test(tc, permission_is_asked_and_the_answer_obeyed, 0, 3);
          tcase_add_loop_test(tc, what_the_client_offers_is_used_when_asked_for_and_only_then, 0, 2);
          tcase_add_loop_test(tc, the_models_tool_calls_are_carried_out_below_the_working_directory, 0, 4);
          tcase_add_test(tc, sessions_are_listed_loaded_with_their_history_closed_and_deleted);
          tcase_add_test(tc, modes_options_authentication_and_the_unknown_are_answered);
          tcase_add_test(tc, malformed_authority_is_refused_before_any_model_call);
          tcase_add_test(tc, a_steer_is_taken_once_and_reaches_the_model_in_the_same_turn);
          tcase_add_loop_test(tc, a_drained_turn_keeps_the_answer_in_flight_and_starts_nothing_new, 0, 2);
          tcase_add_test(tc, subagents_are_started_attributed_and_settled);
          tcase_add_test(tc, the_ceiling_holds_for_the_offer_and_for_the_call);
          tcase_add_loop_test(tc, a_structured_answer_is_shown_only_when_it_fits, 0, 4);
          tcase_add_test(tc, a_submission_by_tool_is_the_answer);
          tcase_add_test(tc, a_staged_file_reaches_the_model_by_its_link);
          tcase_add_test(tc, tools_of_an_mcp_server_are_offered_and_called);
          tcase_add_test(tc, an_mcp_server_that_cannot_be_used_fails_the_session);
          tcase_add_test(tc, a_checkpoint_kept_outside_resumes_the_conversation);
          tcase_add_test(tc, past_the_admitted_trigger_the_conversation_is_compacted);)
