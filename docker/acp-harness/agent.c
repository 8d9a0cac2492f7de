/* The connection: messages in, each to its method. */
#include "turn.h"

#include "base/clock.h"
#include "base/str.h"

#include <string.h>

enum { PROTOCOL_VERSION = 1 };

/* ---- initialize and authentication ------------------------------------------------------ */

static bool
is_on(json_t *object, const char *name)
{
    return json_is_true(json_object_get(object, name));
}

static void
take_client(struct hn_agent *agent, json_t *capabilities)
{
    json_t *fs = json_object_get(capabilities, "fs");
    json_t *forms = json_object_get(json_object_get(capabilities, "elicitation"), "form");

    agent->client_reads = is_on(fs, "readTextFile");
    agent->client_writes = is_on(fs, "writeTextFile");
    agent->client_terminal = is_on(capabilities, "terminal");
    agent->client_forms = json_is_object(forms);
    agent->is_initialized = true;
}

static void
initialize(struct hn_agent *agent, json_t *id, json_t *params)
{
    bool media = agent->options->accept_media;
    json_t *declaration = hn_declaration(&agent->options->declared);
    json_t *methods = json_array(), *result;

    take_client(agent, json_object_get(params, "clientCapabilities"));
    if (agent->options->require_auth)
        json_array_append_new(methods, json_pack("{s:s, s:s}", "id", "token", "name",
                                                 "The token in the environment"));
    result = json_pack("{s:i, s:{s:b, s:{s:b, s:b, s:b}, s:{s:b}, s:{s:{}, s:{}, s:{}, s:{}}, s:{s:{}}}, "
                       "s:{s:s, s:s, s:s}, s:o}",
                       "protocolVersion", PROTOCOL_VERSION, "agentCapabilities", "loadSession", 1,
                       "promptCapabilities", "image", media, "audio", media, "embeddedContext", 1,
                       "mcpCapabilities", "http", 1, "sessionCapabilities", "list", "resume", "close", "delete", "auth", "logout",
                       "agentInfo", "name", "checkfu-reference-acp", "title", "Reference ACP agent",
                       "version", CFRUNNER_VERSION, "authMethods", methods);
    if (declaration != NULL)
        json_object_set_new(result, "_meta",
                            json_pack("{s:o}", "checkfu.capabilities", declaration));
    hn_wire_result(&agent->wire, id, result);
}

static void
authenticate(struct hn_agent *agent, json_t *id, json_t *params)
{
    const char *method = json_string_value(json_object_get(params, "methodId"));

    if (!agent->options->require_auth || method == NULL || strcmp(method, "token") != 0) {
        hn_wire_error(&agent->wire, id, HN_INVALID_PARAMS, "no such authentication method");
        return;
    }
    agent->is_authenticated = true;
    hn_wire_result(&agent->wire, id, json_object());
}

/* ---- what touches a running turn -------------------------------------------------------- */

static struct hn_turn *
turn_of(struct hn_agent *agent, json_t *params)
{
    const char *name = json_string_value(json_object_get(params, "sessionId"));

    return agent->turn != NULL && name != NULL && strcmp(agent->turn->session->id, name) == 0
               ? agent->turn
               : NULL;
}

static void
prompt(struct hn_agent *agent, json_t *message, json_t *id, json_t *params)
{
    struct hn_session *session =
        hn_session_find(agent, json_string_value(json_object_get(params, "sessionId")));

    if (session == NULL || !session->is_open)
        hn_wire_error(&agent->wire, id, HN_INVALID_PARAMS, "no such session");
    else if (agent->turn != NULL && agent->turn->session == session)
        hn_wire_error(&agent->wire, id, HN_INVALID_REQUEST, "a turn of this session is running");
    else if (agent->turn != NULL)
        json_array_append(agent->deferred, message);
    else
        hn_turn_run(agent, session, id, json_object_get(params, "prompt"));
}

static void
steer(struct hn_agent *agent, json_t *id, json_t *params)
{
    const char *event = json_string_value(json_object_get(params, "id"));
    json_t *content = json_object_get(params, "content");

    if (event == NULL || event[0] == '\0' || !json_is_string(content)) {
        hn_wire_error(&agent->wire, id, HN_INVALID_PARAMS, "a steer is {sessionId, id, content}");
        return;
    }
    hn_wire_result(&agent->wire, id,
                   json_pack("{s:s}", "disposition",
                             hn_turn_steer(turn_of(agent, params), event, content)));
}

static void
withdraw(struct hn_agent *agent, json_t *params)
{
    json_t *wanted = json_object_get(params, "requestId");

    if (agent->turn == NULL || wanted == NULL || !json_equal(wanted, agent->turn->request_id))
        return;
    agent->turn->is_withdrawn = true;
    hn_turn_cancel(agent->turn);
}

/* ---- dispatch --------------------------------------------------------------------------- */

static bool
extension_request(struct hn_agent *agent, const char *method, json_t *id, json_t *params)
{
    const struct hn_declared *declared = &agent->options->declared;

    if (declared->steer && strcmp(method, "_checkfu/session/steer") == 0)
        steer(agent, id, params);
    else if (declared->interrupt && strcmp(method, "_checkfu/session/interrupt") == 0)
        hn_wire_result(&agent->wire, id, json_pack("{s:s}", "disposition",
                                                   hn_turn_drain(turn_of(agent, params))));
    else
        return false;
    return true;
}

static bool
session_request(struct hn_agent *agent, const char *method, json_t *id, json_t *params)
{
    if (strcmp(method, "session/new") == 0)
        hn_session_new(agent, id, params);
    else if (strcmp(method, "session/load") == 0)
        hn_session_load(agent, id, params, true);
    else if (strcmp(method, "session/resume") == 0)
        hn_session_load(agent, id, params, false);
    else if (strcmp(method, "session/list") == 0)
        hn_session_list(agent, id);
    else if (strcmp(method, "session/close") == 0)
        hn_session_close(agent, id, params, false);
    else if (strcmp(method, "session/delete") == 0)
        hn_session_close(agent, id, params, true);
    else if (strcmp(method, "session/set_mode") == 0)
        hn_session_set_mode(agent, id, params);
    else if (strcmp(method, "session/set_config_option") == 0)
        hn_session_set_option(agent, id, params);
    else
        return false;
    return true;
}

static void
request(struct hn_agent *agent, json_t *message, const char *method, json_t *id, json_t *params)
{
    if (strcmp(method, "initialize") == 0)
        initialize(agent, id, params);
    else if (!agent->is_initialized)
        hn_wire_error(&agent->wire, id, HN_INVALID_REQUEST, "not initialized");
    else if (strcmp(method, "session/prompt") == 0)
        prompt(agent, message, id, params);
    else if (strcmp(method, "authenticate") == 0)
        authenticate(agent, id, params);
    else if (strcmp(method, "logout") == 0) {
        agent->is_authenticated = false;
        hn_wire_result(&agent->wire, id, json_object());
    } else if (!session_request(agent, method, id, params) &&
               !extension_request(agent, method, id, params))
        hn_wire_error(&agent->wire, id, HN_NO_METHOD, "Method not found");
}

static void
notification(struct hn_agent *agent, const char *method, json_t *params)
{
    if (strcmp(method, "session/cancel") == 0)
        hn_turn_cancel(turn_of(agent, params));
    else if (strcmp(method, "$/cancel_request") == 0)
        withdraw(agent, params);
}

static void
response(struct hn_agent *agent, json_t *message, json_t *id)
{
    if (agent->awaited == 0 || json_integer_value(id) != agent->awaited || agent->answer != NULL)
        return; /* late, or never asked for */
    agent->answer = json_incref(message);
}

static void
handle(struct hn_agent *agent, json_t *message)
{
    const char *method = json_string_value(json_object_get(message, "method"));
    json_t *id = json_object_get(message, "id"), *params = json_object_get(message, "params");

    if (method != NULL && id != NULL)
        request(agent, message, method, id, params);
    else if (method != NULL)
        notification(agent, method, params);
    else if (id != NULL)
        response(agent, message, id);
    else
        hn_wire_error(&agent->wire, NULL, HN_INVALID_REQUEST, "neither a method nor an id");
}

void
hn_agent_pump(struct hn_agent *agent, const struct hn_call *call, uint64_t until_ms)
{
    json_t *message = hn_wire_take(&agent->wire);

    if (message == NULL) {
        hn_wire_wait(&agent->wire, call, until_ms);
        message = hn_wire_take(&agent->wire);
    }
    while (message != NULL) {
        handle(agent, message);
        json_decref(message);
        message = hn_wire_take(&agent->wire);
    }
}

static void
run_deferred(struct hn_agent *agent)
{
    while (json_array_size(agent->deferred) > 0) {
        json_t *message = json_incref(json_array_get(agent->deferred, 0));

        json_array_remove(agent->deferred, 0);
        handle(agent, message);
        json_decref(message);
    }
}

int
hn_agent_run(const struct hn_agent_options *options)
{
    struct hn_agent agent = { .options = options, .deferred = json_array() };
    int status;

    while (!agent.wire.at_eof) {
        hn_agent_pump(&agent, NULL, cf_clock_ms() + 60000);
        run_deferred(&agent);
    }
    status = agent.wire.is_broken ? 1 : 0;
    hn_sessions_release(&agent);
    json_decref(agent.deferred);
    hn_wire_release(&agent.wire);
    return status;
}
