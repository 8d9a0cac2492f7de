/*
 * fuzz_acp.c: an agent's stdout through client, normalizer and grammar. Whatever the agent says:
 * every line we send is one JSON-RPC frame, every observation is JSON inside its bounds, a turn
 * has at most one terminal, and cutting the stream elsewhere changes nothing.
 */
#include "base/buf.h"
#include "base/utf8.h"
#include "json/json.h"
#include "observe/observe.h"
#include "wire/wire.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define TURNS_MAX 4

struct client {
    struct cf_acp *acp;
    struct cf_normalizer *normalizer;
    struct cf_grammar *grammar;
    json_t *blocks, *params, *steer;
    struct cf_buf said;
    unsigned turns, terminals;
};

static json_t *
parse(const char *text, size_t len)
{
    struct cf_json_limits limits = {.depth = 1024};
    struct cf_error err;
    json_t *tree = cf_json_parse(text, len, &limits, &err);

    if (tree == NULL)
        abort();
    return tree;
}

static void
on_observation(void *user, const struct cf_observation *o)
{
    struct client *client = user;

    json_decref(parse(o->json, o->json_len));
    if ((o->type == CF_OBSERVATION_AGENT_MESSAGE || o->type == CF_OBSERVATION_AGENT_THINKING) &&
        cf_utf16_units(o->text, o->text_len) > 262144)
        abort();
    if (o->tool_use_id != NULL && (*o->tool_use_id == '\0' || cf_utf16_units(o->tool_use_id, strlen(o->tool_use_id)) > 256))
        abort();
    client->terminals += o->type == CF_OBSERVATION_FINISHED || o->type == CF_OBSERVATION_FAILED;
    if (client->terminals > client->turns + 1)
        abort();
    (void)cf_grammar_feed(client->grammar, o);
    (void)cf_buf_add(&client->said, o->json, o->json_len);
    (void)cf_buf_adds(&client->said, "\n");
}

static void
send_line(void *user, const char *line, size_t len)
{
    struct client *client = user;

    if (len < 2 || line[len - 1] != '\n' || memchr(line, '\n', len - 1) != NULL)
        abort();
    json_decref(parse(line, len));
    (void)cf_buf_add(&client->said, line, len);
}

static void
next_turn(struct client *client)
{
    struct cf_error err;

    if (client->turns >= TURNS_MAX || cf_acp_prompt(client->acp, client->blocks, &err) < 0)
        return;
    client->turns++;
    cf_normalizer_turn_begin(client->normalizer);
    cf_grammar_turn_begin(client->grammar);
}

static void
on_initialized(void *user, json_t *result, uint64_t frame)
{
    struct client *client = user;
    struct cf_declaration declaration = {0};
    struct cf_error err;

    if (cf_declaration_read(result, &declaration, &err) == 0) {
        cf_normalizer_declare(client->normalizer, &declaration);
        cf_grammar_declare(client->grammar, &declaration);
    }
    (void)cf_acp_session_new(client->acp, client->params, &err);
}

static void
on_session(void *user, const char *session_id, json_t *result, uint64_t frame)
{
    struct client *client = user;
    json_t *set = cf_envelope_acp(false);

    cf_normalizer_ready(client->normalizer, set, frame);
    json_decref(set);
    next_turn(client);
}

static void
on_update(void *user, json_t *params, json_t *update, uint64_t frame)
{
    cf_normalizer_update(((struct client *)user)->normalizer, params, update, frame);
}

static void
on_permission(void *user, const struct cf_acp_permission *permission)
{
    struct client *client = user;
    const char *option = cf_acp_permission_pick(permission, client->turns % 2);

    cf_normalizer_permission(client->normalizer, permission->tool_call, permission->frame);
    if (client->turns == 3)
        (void)cf_acp_cancel(client->acp);
    else
        (void)cf_acp_permission_answer(client->acp, permission->handle, option);
}

static bool
on_request(void *user, const struct cf_acp_request *request)
{
    struct client *client = user;
    json_t *action = cf_normalizer_question(client->normalizer, request->params);
    bool is_taken = action != NULL;

    json_decref(action);
    if (is_taken)
        (void)cf_acp_answer(client->acp, request->handle, client->params);
    return is_taken;
}

static void
on_reply(void *user, json_t *result, json_t *error, uint64_t frame)
{
    struct client *client = user;
    const char *disposition = cf_slot_disposition(CF_SLOT_STEER, result);

    if (disposition != NULL)
        cf_normalizer_steering(client->normalizer, "evt_0123456789abcdef0123456789abcdef", disposition, frame);
}

static void
on_done(void *user, const char *stop_reason, json_t *result, uint64_t frame)
{
    struct client *client = user;
    struct cf_error err;

    cf_normalizer_finished(client->normalizer, stop_reason[0] == 'c' ? "interrupted" : stop_reason,
                           cf_slot_find(CF_SLOT_TURN, cf_json_obj(result, "_meta")), frame);
    cf_grammar_turn_end(client->grammar);
    next_turn(client);
    (void)cf_acp_request(client->acp, "_checkfu/session/steer", client->steer, on_reply, client, &err);
}

static void
on_call_failed(void *user, const char *method, json_t *error, uint64_t frame)
{
    struct client *client = user;
    struct cf_error err = {0};

    (void)cf_error_set(&err, CF_ERROR_HARNESS, 0, "%s", method);
    cf_normalizer_failed(client->normalizer, &err, false, frame);
    next_turn(client);
}

static void
on_broken(void *user, const struct cf_error *err)
{
    struct client *client = user;

    if (err->text[0] == '\0')
        abort();
    cf_normalizer_failed(client->normalizer, err, false, 0);
}

static void
talk(const char *data, size_t size, size_t step, struct client *client)
{
    static const struct cf_acp_events events = {
        .send = send_line, .on_initialized = on_initialized, .on_session = on_session, .on_update = on_update,
        .on_permission = on_permission, .on_request = on_request, .on_prompt_done = on_done,
        .on_call_failed = on_call_failed, .on_broken = on_broken,
    };
    const struct cf_acp_options options = {.line_limit_bytes = 4096, .max_bad_lines = 20};
    const struct cf_normalizer_options said = {.is_acp = true, .on_observation = on_observation, .user = client, .seed = {1}};
    struct cf_grammar_result result;
    struct cf_error err;
    json_t *caps = parse("{\"elicitation\":{\"form\":{}}}", 27);

    client->blocks = parse("[{\"type\":\"text\",\"text\":\"x\"}]", 28);
    client->params = parse("{\"cwd\":\"/\",\"mcpServers\":[]}", 27);
    client->steer = parse("{\"id\":\"e\",\"content\":\"c\"}", 24);
    client->acp = cf_acp_new(&options, &events, client);
    client->normalizer = cf_normalizer_new(&said);
    client->grammar = cf_grammar_new(true);
    (void)cf_acp_initialize(client->acp, caps, &err);
    for (size_t at = 0; at < size; at += step)
        (void)cf_acp_feed(client->acp, data + at, size - at < step ? size - at : step);
    cf_acp_end(client->acp);
    cf_normalizer_finished(client->normalizer, NULL, NULL, 0);
    for (int check = 0; check < CF_GRAMMAR_CHECKS; check++)
        cf_grammar_result(client->grammar, (enum cf_grammar_check)check, &result);
    cf_acp_free(client->acp);
    cf_normalizer_free(client->normalizer);
    cf_grammar_free(client->grammar);
    json_decref(client->blocks);
    json_decref(client->params);
    json_decref(client->steer);
    json_decref(caps);
    (void)cf_buf_adds(&client->said, "");
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct client whole = {0}, cut = {0};

    if (size < 1)
        return 0;
    talk((const char *)data + 1, size - 1, size, &whole);
    talk((const char *)data + 1, size - 1, 1 + data[0] % 16, &cut);
    if (whole.said.len != cut.said.len || memcmp(whole.said.data, cut.said.data, whole.said.len) != 0)
        abort();
    cf_buf_release(&whole.said);
    cf_buf_release(&cut.said);
    return 0;
}
