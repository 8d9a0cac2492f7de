/* Sessions: made, loaded, listed, closed, deleted, and their mode and options. */
#include "turn.h"

#include "base/str.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

/* ---- modes and options ------------------------------------------------------------------ */

static const char *const modes[] = { "ask", "code" };
static const char *const levels[] = { "brief", "full" };

static const char *
word_of(const char *const *words, size_t count, const char *wanted)
{
    for (size_t i = 0; wanted != NULL && i < count; i++)
        if (strcmp(words[i], wanted) == 0)
            return words[i];
    return NULL;
}

static json_t *
mode_state(const struct hn_session *session)
{
    return json_pack("{s:s, s:[{s:s, s:s}, {s:s, s:s}]}", "currentModeId", session->mode,
                     "availableModes", "id", modes[0], "name", "Ask", "id", modes[1], "name",
                     "Code");
}

static json_t *
config_options(const struct hn_session *session)
{
    return json_pack("[{s:s, s:s, s:s, s:s, s:[{s:s, s:s}, {s:s, s:s}]}]", "id", "verbosity",
                     "name", "Verbosity", "type", "select", "currentValue", session->verbosity,
                     "options", "value", levels[0], "name", "Brief", "value", levels[1], "name",
                     "Full");
}

static json_t *
setup_result(const struct hn_session *session)
{
    return json_pack("{s:o, s:o}", "modes", mode_state(session), "configOptions",
                     config_options(session));
}

/* ---- the table -------------------------------------------------------------------------- */

struct hn_session *
hn_session_find(struct hn_agent *agent, const char *id)
{
    for (struct hn_session *s = agent->sessions; s != NULL && id != NULL; s = s->next)
        if (strcmp(s->id, id) == 0)
            return s;
    return NULL;
}

static struct hn_session *
session_make(struct hn_agent *agent, const char *cwd)
{
    struct hn_session *session = calloc(1, sizeof *session);
    unsigned char random[12];

    if (session == NULL || getrandom(random, sizeof random, 0) != (ssize_t)sizeof random)
        abort();
    strcpy(session->id, "s-");
    cf_hex(random, sizeof random, session->id + 2);
    session->cwd = strdup(cwd);
    session->mode = modes[0];
    session->verbosity = levels[0];
    session->is_open = true;
    session->messages = json_array();
    session->next = agent->sessions;
    agent->sessions = session;
    return session;
}

static void
session_free(struct hn_session *session)
{
    hn_authority_release(&session->authority);
    hn_mcp_free(session->servers);
    json_decref(session->messages);
    free(session->cwd);
    free(session);
}

static void
session_drop(struct hn_agent *agent, struct hn_session *session)
{
    struct hn_session **link = &agent->sessions;

    while (*link != session)
        link = &(*link)->next;
    *link = session->next;
    session_free(session);
}

void
hn_sessions_release(struct hn_agent *agent)
{
    while (agent->sessions != NULL)
        session_drop(agent, agent->sessions);
}

static struct hn_session *
named_session(struct hn_agent *agent, json_t *id, json_t *params)
{
    struct hn_session *session =
        hn_session_find(agent, json_string_value(json_object_get(params, "sessionId")));

    if (session == NULL)
        hn_wire_error(&agent->wire, id, HN_INVALID_PARAMS, "no such session");
    return session;
}

/* ---- updates ---------------------------------------------------------------------------- */

void
hn_session_update(struct hn_agent *agent, struct hn_session *session, json_t *update)
{
    hn_wire_notify(&agent->wire, "session/update",
                   json_pack("{s:s, s:o}", "sessionId", session->id, "update", update));
}

static void
announce_commands(struct hn_agent *agent, struct hn_session *session)
{
    hn_session_update(agent, session,
                      json_pack("{s:s, s:[{s:s, s:s, s:{s:s}}]}", "sessionUpdate",
                                "available_commands_update", "availableCommands", "name", "explain",
                                "description", "Explain a file", "input", "hint", "path"));
}

void
hn_session_replay(struct hn_agent *agent, struct hn_session *session)
{
    json_t *message;
    size_t i;

    json_array_foreach (session->messages, i, message) {
        const char *role = json_string_value(json_object_get(message, "role"));
        json_t *text = json_object_get(message, "text");

        if (role == NULL || strcmp(role, "tool") == 0 || json_string_length(text) == 0)
            continue;
        hn_session_update(agent, session,
                          json_pack("{s:s, s:{s:s, s:O}}", "sessionUpdate",
                                    strcmp(role, "user") == 0 ? "user_message_chunk"
                                                              : "agent_message_chunk",
                                    "content", "type", "text", "text", text));
    }
}

/* ---- the methods ------------------------------------------------------------------------ */

static const char *
setup_fault(json_t *params, bool needs_servers)
{
    json_t *servers = json_object_get(params, "mcpServers");
    const char *cwd = json_string_value(json_object_get(params, "cwd"));

    if (cwd == NULL || cwd[0] != '/')
        return "cwd must be an absolute path";
    if ((needs_servers || servers != NULL) && !json_is_array(servers))
        return "mcpServers must be an array";
    return NULL;
}

void
hn_session_new(struct hn_agent *agent, json_t *id, json_t *params)
{
    const char *fault = setup_fault(params, true);
    struct hn_authority authority = { 0 };
    struct hn_mcp *servers = NULL;
    struct hn_session *session;
    struct cf_error err;
    json_t *result;

    if (agent->options->require_auth && !agent->is_authenticated) {
        hn_wire_error(&agent->wire, id, HN_AUTH_REQUIRED, "Authentication required");
        return;
    }
    if (fault == NULL && hn_authority_read(&authority, json_object_get(params, "_meta"),
                                           &agent->options->declared, &err) < 0)
        fault = err.text;
    if (fault == NULL &&
        hn_mcp_connect(&servers, json_object_get(params, "mcpServers"), &err) < 0)
        fault = err.text;
    if (fault != NULL) {
        hn_wire_error(&agent->wire, id, HN_INVALID_PARAMS, fault);
        hn_authority_release(&authority);
        return;
    }
    session = session_make(agent, json_string_value(json_object_get(params, "cwd")));
    session->authority = authority;
    session->servers = servers;
    if (authority.resumed != NULL)
        json_array_extend(session->messages, authority.resumed);
    result = setup_result(session);
    json_object_set_new(result, "sessionId", json_string(session->id));
    hn_wire_result(&agent->wire, id, result);
    announce_commands(agent, session);
}

void
hn_session_load(struct hn_agent *agent, json_t *id, json_t *params, bool with_replay)
{
    struct hn_session *session = named_session(agent, id, params);
    const char *fault = session != NULL ? setup_fault(params, with_replay) : NULL;

    if (session == NULL)
        return;
    if (fault != NULL) {
        hn_wire_error(&agent->wire, id, HN_INVALID_PARAMS, fault);
        return;
    }
    session->is_open = true; /* its MCP servers are those it was made with */
    if (with_replay)
        hn_session_replay(agent, session);
    hn_wire_result(&agent->wire, id, setup_result(session));
}

void
hn_session_list(struct hn_agent *agent, json_t *id)
{
    json_t *list = json_array();

    for (struct hn_session *s = agent->sessions; s != NULL; s = s->next)
        json_array_append_new(list, json_pack("{s:s, s:s}", "sessionId", s->id, "cwd", s->cwd));
    hn_wire_result(&agent->wire, id, json_pack("{s:o}", "sessions", list));
}

void
hn_session_close(struct hn_agent *agent, json_t *id, json_t *params, bool and_delete)
{
    const char *name = json_string_value(json_object_get(params, "sessionId"));
    struct hn_session *session = and_delete ? hn_session_find(agent, name)
                                            : named_session(agent, id, params);
    bool is_running = agent->turn != NULL && agent->turn->session == session;

    if (session == NULL && !and_delete)
        return;
    if (and_delete && is_running) {
        hn_wire_error(&agent->wire, id, HN_INVALID_REQUEST, "a turn of this session is running");
        return;
    }
    if (is_running)
        hn_turn_cancel(agent->turn);
    if (session != NULL)
        session->is_open = false;
    if (session != NULL && and_delete)
        session_drop(agent, session);
    hn_wire_result(&agent->wire, id, json_object());
}

void
hn_session_set_mode(struct hn_agent *agent, json_t *id, json_t *params)
{
    struct hn_session *session = named_session(agent, id, params);
    const char *mode = word_of(modes, CF_COUNT(modes),
                               json_string_value(json_object_get(params, "modeId")));

    if (session == NULL)
        return;
    if (mode == NULL) {
        hn_wire_error(&agent->wire, id, HN_INVALID_PARAMS, "no such mode");
        return;
    }
    session->mode = mode;
    hn_wire_result(&agent->wire, id, json_object());
    hn_session_update(agent, session, json_pack("{s:s, s:s}", "sessionUpdate",
                                                "current_mode_update", "currentModeId", mode));
}

void
hn_session_set_option(struct hn_agent *agent, json_t *id, json_t *params)
{
    struct hn_session *session = named_session(agent, id, params);
    const char *option = json_string_value(json_object_get(params, "configId"));
    const char *level = word_of(levels, CF_COUNT(levels),
                                json_string_value(json_object_get(params, "value")));

    if (session == NULL)
        return;
    if (option == NULL || strcmp(option, "verbosity") != 0 || level == NULL) {
        hn_wire_error(&agent->wire, id, HN_INVALID_PARAMS, "no such option or value");
        return;
    }
    session->verbosity = level;
    hn_wire_result(&agent->wire, id, json_pack("{s:o}", "configOptions", config_options(session)));
}
