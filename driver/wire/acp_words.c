/*
 * wire/acp_words.c: the closed sets of ACP v1: update kinds, stop reasons, methods and the
 * capability each one needs.
 *
 * Update kinds, methods and stop reasons are closed: an unknown one ends the connection. Kinds
 * that an ACP draft lists, but v1 does not, may turn up any day and are ignored and counted.
 */
#include "wire/acp_core.h"

#include "base/str.h"
#include "json/json.h"

#include <string.h>

static const struct {
    const char *kind;
    enum acp_update_class class;
} updates[] = {
    {"user_message_chunk", ACP_UPDATE_STATE},
    {"agent_message_chunk", ACP_UPDATE_OUTPUT},
    {"agent_thought_chunk", ACP_UPDATE_OUTPUT},
    {"tool_call", ACP_UPDATE_OUTPUT},
    {"tool_call_update", ACP_UPDATE_OUTPUT},
    {"plan", ACP_UPDATE_STATE},
    {"available_commands_update", ACP_UPDATE_STATE},
    {"current_mode_update", ACP_UPDATE_STATE},
    {"config_option_update", ACP_UPDATE_STATE},
    {"session_info_update", ACP_UPDATE_STATE},
    {"usage_update", ACP_UPDATE_STATE},
    /* v1 drafts */
    {"plan_update", ACP_UPDATE_UNSTABLE},
    {"plan_removed", ACP_UPDATE_UNSTABLE},
    {"compaction_update", ACP_UPDATE_UNSTABLE},
    {"compaction_summary_chunk", ACP_UPDATE_UNSTABLE},
    {"notice", ACP_UPDATE_UNSTABLE},
    /* draft of version 2 */
    {"state_update", ACP_UPDATE_UNSTABLE},
    {"user_message", ACP_UPDATE_UNSTABLE},
    {"agent_message", ACP_UPDATE_UNSTABLE},
    {"agent_thought", ACP_UPDATE_UNSTABLE},
    {"tool_call_content_chunk", ACP_UPDATE_UNSTABLE},
    {"terminal_update", ACP_UPDATE_UNSTABLE},
    {"terminal_output_chunk", ACP_UPDATE_UNSTABLE},
};

/* What each method of the agent's needs from the result of initialize. */
static const struct {
    const char *method, *needs;
} agent_methods[] = {
    {"initialize", ""},
    {"authenticate", ""},
    {"logout", "agentCapabilities.auth.logout"},
    {"session/new", ""},
    {"session/load", "agentCapabilities.loadSession"},
    {"session/resume", "agentCapabilities.sessionCapabilities.resume"},
    {"session/list", "agentCapabilities.sessionCapabilities.list"},
    {"session/close", "agentCapabilities.sessionCapabilities.close"},
    {"session/delete", "agentCapabilities.sessionCapabilities.delete"},
    {"session/prompt", ""},
    {"session/set_mode", ""},
    {"session/set_config_option", ""},
    {"session/cancel", ""},
    /* prompt blocks and MCP transports are asked for by the same door */
    {"text", ""},
    {"resource_link", ""},
    {"image", "agentCapabilities.promptCapabilities.image"},
    {"audio", "agentCapabilities.promptCapabilities.audio"},
    {"resource", "agentCapabilities.promptCapabilities.embeddedContext"},
    {"http", "agentCapabilities.mcpCapabilities.http"},
    {"sse", "agentCapabilities.mcpCapabilities.sse"},
    {"additionalDirectories", "agentCapabilities.sessionCapabilities.additionalDirectories"},
};

/* What each method of ours needs from what we advertised. */
static const struct {
    const char *method, *needs;
} client_methods[] = {
    {"fs/read_text_file", "fs.readTextFile"}, {"fs/write_text_file", "fs.writeTextFile"},
    {"terminal/create", "terminal"},          {"terminal/output", "terminal"},
    {"terminal/wait_for_exit", "terminal"},   {"terminal/kill", "terminal"},
    {"terminal/release", "terminal"},         {"elicitation/create", "elicitation"},
};

static const char *const stop_reasons[] = {"end_turn", "max_tokens", "max_turn_requests",
                                           "refusal", "cancelled"};

static const char *const finding_names[] = {
    [CF_ACP_STDOUT_POLLUTION] = "stdout_pollution",
    [CF_ACP_REPAIRED] = "repaired_frame",
    [CF_ACP_IGNORED] = "ignored",
    [CF_ACP_REFUSED] = "refused_request",
    [CF_ACP_UPDATE_AFTER_TERMINAL] = "update_after_terminal",
    [CF_ACP_FOREIGN_SESSION] = "foreign_session",
    [CF_ACP_LENIENCY] = "leniency",
};

const char *
cf_acp_finding_name(enum cf_acp_finding_kind kind)
{
    return kind > 0 && (size_t)kind < CF_COUNT(finding_names) ? finding_names[kind]
                                                              : "ignored";
}

enum acp_update_class
acp_update_class(const char *kind)
{
    for (size_t i = 0; i < CF_COUNT(updates); i++)
        if (strcmp(updates[i].kind, kind) == 0)
            return updates[i].class;
    return ACP_UPDATE_UNKNOWN;
}

bool
acp_is_stop_reason(const char *word)
{
    for (size_t i = 0; i < CF_COUNT(stop_reasons); i++)
        if (strcmp(stop_reasons[i], word) == 0)
            return true;
    return false;
}

const char *
acp_method_needs(const char *method)
{
    for (size_t i = 0; i < CF_COUNT(agent_methods); i++)
        if (strcmp(agent_methods[i].method, method) == 0)
            return agent_methods[i].needs;
    return NULL;
}

const char *
acp_client_method_needs(const char *method)
{
    for (size_t i = 0; i < CF_COUNT(client_methods); i++)
        if (strcmp(client_methods[i].method, method) == 0)
            return client_methods[i].needs;
    return NULL;
}

/* Follows a dotted path. ACP marks support with true or with any object; absent and null are
 * no. */
bool
acp_is_advertised(const json_t *capabilities, const char *path)
{
    const json_t *at = capabilities;
    char name[64];

    while (*path != '\0') {
        size_t len = strcspn(path, ".");
        if (len >= sizeof name)
            return false;
        memcpy(name, path, len);
        name[len] = '\0';
        at = json_object_get(at, name);
        path += len + (path[len] == '.');
    }
    return json_is_true(at) || json_is_object(at);
}
