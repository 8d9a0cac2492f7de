/*
 * wire/acp_ask.c: asking the agent: each call checked against the order of things and against
 * what the agent advertised, before anything is sent.
 */
#include "wire/acp_core.h"

#include "json/json.h"

#include <stdlib.h>
#include <string.h>

static int
refuse_order(struct cf_error *err, const char *method, const char *why)
{
    return cf_error_set(err, CF_ERROR_INTERNAL, 0, "%s cannot be sent: %s", method, why);
}

static int
check_open(const struct cf_acp *acp, const char *method, struct cf_error *err)
{
    const char *needs = acp_method_needs(method);

    if (acp->is_broken || acp->is_ended)
        return refuse_order(err, method, "the connection is over");
    if (acp->call_count >= ACP_CALLS_MAX)
        return refuse_order(err, method, "too many calls are in flight");
    if (acp->agent == NULL && strcmp(method, "initialize") != 0)
        return refuse_order(err, method, "initialize was not answered yet");
    if (needs != NULL && *needs != '\0' && !acp_is_advertised(acp->agent, needs))
        return cf_error_set(err, CF_ERROR_INCOMPATIBLE, 0,
                            "the agent does not advertise %s, which %s needs", needs, method);
    return 0;
}

static int
start_call(struct cf_acp *acp, enum call_kind kind, const char *method, const char *session_id,
           json_t *params, struct cf_error *err)
{
    struct acp_call *call = acp_call_new(acp, kind, NULL);

    if (call == NULL)
        return cf_error_memory(err);
    if (kind == CALL_SESSION_LOAD || kind == CALL_SESSION_RESUME) {
        call->session_id = strdup(session_id);
        if (call->session_id == NULL)
            return cf_error_memory(err);
    }
    json_t *id = json_incref(call->id); /* the answer may come while we are still sending */
    int status = acp_send_call(acp, id, method, session_id, params);
    json_decref(id);
    return status < 0 ? cf_error_memory(err) : 0;
}

int
cf_acp_initialize(struct cf_acp *acp, json_t *client_capabilities, struct cf_error *err)
{
    if (check_open(acp, "initialize", err) < 0)
        return -1;
    if (acp->client != NULL)
        return refuse_order(err, "initialize", "it was sent already");
    acp->client = client_capabilities != NULL
                      ? json_incref(client_capabilities)
                      : json_pack("{s:{s:b,s:b},s:b}", "fs", "readTextFile", 0,
                                  "writeTextFile", 0, "terminal", 0);
    json_t *params = json_pack("{s:i,s:O,s:{s:s,s:s}}", "protocolVersion", 1,
                               "clientCapabilities", acp->client, "clientInfo", "name",
                               acp->client_name, "version", acp->client_version);
    if (params == NULL)
        return cf_error_memory(err);
    int status = start_call(acp, CALL_INITIALIZE, "initialize", NULL, params, err);
    json_decref(params);
    return status;
}

const char *
cf_acp_auth_method(const struct cf_acp *acp)
{
    json_t *methods = cf_json_arr(acp->agent, "authMethods");

    for (size_t i = 0; i < json_array_size(methods); i++) {
        json_t *method = json_array_get(methods, i);
        const char *type = cf_json_str(method, "type");
        if (cf_json_str(method, "id") != NULL && (type == NULL || strcmp(type, "agent") == 0))
            return cf_json_str(method, "id");
    }
    return NULL;
}

int
cf_acp_authenticate(struct cf_acp *acp, const char *method_id, struct cf_error *err)
{
    if (check_open(acp, "authenticate", err) < 0)
        return -1;
    json_t *params = json_pack("{s:s}", "methodId", method_id);
    if (params == NULL)
        return cf_error_memory(err);
    int status = start_call(acp, CALL_AUTHENTICATE, "authenticate", NULL, params, err);
    json_decref(params);
    return status;
}

/* MCP transports and further roots only where they were advertised. */
static int
check_session_params(const struct cf_acp *acp, json_t *params, struct cf_error *err)
{
    json_t *servers = cf_json_arr(params, "mcpServers"), *server;
    size_t i;

    json_array_foreach(servers, i, server) {
        const char *type = cf_json_str(server, "type");
        if (type != NULL && !cf_acp_can(acp, type))
            return cf_error_set(
                err, CF_ERROR_INCOMPATIBLE, 0,
                "MCP server \"%.80s\" needs the %.20s transport, which the agent does not "
                "advertise in mcpCapabilities",
                cf_json_str(server, "name") ? cf_json_str(server, "name") : "", type);
    }
    if (json_object_get(params, "additionalDirectories") != NULL &&
        !cf_acp_can(acp, "additionalDirectories"))
        return cf_error_set(err, CF_ERROR_INCOMPATIBLE, 0,
                            "the agent does not advertise additionalDirectories");
    return 0;
}

static int
start_session(struct cf_acp *acp, enum call_kind kind, const char *session_id, json_t *params,
              struct cf_error *err)
{
    const char *method = acp_call_name(kind);

    if (check_open(acp, method, err) < 0 || check_session_params(acp, params, err) < 0)
        return -1;
    if (acp->is_prompting)
        return refuse_order(err, method, "a prompt is in flight");
    acp->is_loading = kind == CALL_SESSION_LOAD;
    return start_call(acp, kind, method, session_id, params, err);
}

int
cf_acp_session_new(struct cf_acp *acp, json_t *params, struct cf_error *err)
{
    return start_session(acp, CALL_SESSION_NEW, NULL, params, err);
}

int
cf_acp_session_load(struct cf_acp *acp, const char *session_id, json_t *params,
                    struct cf_error *err)
{
    return start_session(acp, CALL_SESSION_LOAD, session_id, params, err);
}

int
cf_acp_session_resume(struct cf_acp *acp, const char *session_id, json_t *params,
                      struct cf_error *err)
{
    return start_session(acp, CALL_SESSION_RESUME, session_id, params, err);
}

void
acp_begin_turn(struct cf_acp *acp)
{
    acp->is_prompting = true;
    acp->is_canceled = false;
    acp->prompt_done_frame = 0;
}

int
cf_acp_prompt(struct cf_acp *acp, json_t *blocks, struct cf_error *err)
{
    json_t *block;
    size_t i;

    if (check_open(acp, "session/prompt", err) < 0)
        return -1;
    if (acp->session_id == NULL)
        return refuse_order(err, "session/prompt", "there is no session");
    if (acp->is_prompting)
        return refuse_order(err, "session/prompt", "a prompt is in flight");
    json_array_foreach(blocks, i, block) {
        const char *type = cf_json_str(block, "type");
        if (type == NULL || !cf_acp_can(acp, type))
            return cf_error_set(
                err, CF_ERROR_INCOMPATIBLE, 0,
                "prompt block %zu is of type \"%.40s\", which the agent does not advertise in "
                "promptCapabilities",
                i, type ? type : "");
    }
    json_t *params = json_pack("{s:O}", "prompt", blocks);
    if (params == NULL)
        return cf_error_memory(err);
    acp_begin_turn(acp);
    int status = start_call(acp, CALL_PROMPT, "session/prompt", acp->session_id, params, err);
    json_decref(params);
    return status;
}

int
cf_acp_cancel(struct cf_acp *acp)
{
    if (!acp->is_prompting || acp->is_canceled || acp->is_broken || acp->is_ended)
        return 0; /* a late cancel could end the next turn */
    acp->is_canceled = true;
    int status = acp_send_call(acp, NULL, "session/cancel", acp->session_id, NULL);
    acp_cancel_pending(acp);
    return status;
}

/* Requests of ours that speak of the session in use. */
static bool
is_about_session(const char *method)
{
    return *method == '_' || strcmp(method, "session/set_mode") == 0 ||
           strcmp(method, "session/set_config_option") == 0 ||
           strcmp(method, "session/close") == 0;
}

int
cf_acp_request(struct cf_acp *acp, const char *method, json_t *params, cf_acp_reply_fn *done,
               void *user, struct cf_error *err)
{
    if (check_open(acp, method, err) < 0)
        return -1;
    if (is_about_session(method) && acp->session_id == NULL)
        return refuse_order(err, method, "there is no session");
    struct acp_call *call = acp_call_new(acp, CALL_OTHER, NULL);
    if (call == NULL)
        return cf_error_memory(err);
    call->done = done;
    call->user = user;
    json_t *id = json_incref(call->id);
    int status = acp_send_call(acp, id, method,
                               is_about_session(method) ? acp->session_id : NULL, params);
    json_decref(id);
    return status < 0 ? cf_error_memory(err) : 0;
}

int
cf_acp_withdraw(struct cf_acp *acp, cf_acp_reply_fn *done, void *user)
{
    for (struct acp_call *call = acp->calls; call != NULL; call = call->next) {
        if (call->kind == CALL_OTHER && call->done == done && call->user == user) {
            json_t *params = json_pack("{s:O}", "requestId", call->id);
            int status = params == NULL
                             ? -1
                             : acp_send_call(acp, NULL, "$/cancel_request", NULL, params);
            json_decref(params);
            return status;
        }
    }
    return -1;
}

int
cf_acp_session_close(struct cf_acp *acp)
{
    struct cf_error err;

    if (acp->session_id == NULL || acp->is_broken || acp->is_ended ||
        !cf_acp_can(acp, "session/close"))
        return 0;
    return cf_acp_request(acp, "session/close", NULL, NULL, NULL, &err);
}
