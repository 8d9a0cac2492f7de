/*
 * wire/acp_serve.c: what the agent asks and tells, and who hears of it.
 *
 * Every request gets exactly one answer, whatever it asks: an agent blocks on an unanswered
 * one and the whole turn hangs. Notifications are never answered.
 */
#include "wire/acp_core.h"

#include "base/str.h"
#include "json/json.h"

#include <stdlib.h>
#include <string.h>

#define TOLD_METHODS_MAX 64u

/* ---- requests ---- */

static void
tell_once(struct cf_acp *acp, enum cf_acp_finding_kind kind, const char *method,
          uint64_t number, const char *what)
{
    if (json_object_get(acp->told_methods, method) != NULL ||
        json_object_size(acp->told_methods) >= TOLD_METHODS_MAX)
        return;
    (void)json_object_set_new(acp->told_methods, method, json_true());
    acp_finding(acp, kind, number, "%s %.120s in frame %llu", what, method,
                (unsigned long long)number);
}

static void
refuse(struct cf_acp *acp, json_t *id, int code, const char *message, const char *method,
       uint64_t number)
{
    (void)acp_send_error(acp, id, code, message, NULL);
    if (code == RPC_METHOD_NOT_FOUND)
        tell_once(acp, CF_ACP_REFUSED, method, number, "answered -32601 to");
    else
        acp_finding(acp, CF_ACP_REFUSED, number, "answered %d to %.80s: %s", code, method,
                    message);
}

static bool
is_ours(const struct cf_acp *acp, const json_t *params)
{
    const char *id = cf_json_str(params, "sessionId");

    return id != NULL && acp->session_id != NULL && strcmp(id, acp->session_id) == 0;
}

static void
on_permission(struct cf_acp *acp, json_t *id, json_t *params, uint64_t number)
{
    static const char method[] = "session/request_permission";
    struct cf_acp_permission permission = {.tool_call = cf_json_obj(params, "toolCall"),
                                           .options = cf_json_arr(params, "options"),
                                           .frame = number};

    if (!is_ours(acp, params)) {
        acp_finding(acp, CF_ACP_FOREIGN_SESSION, number,
                    "a permission was asked for another session");
        refuse(acp, id, RPC_INVALID_PARAMS, "unknown session", method, number);
    } else if (cf_json_str(permission.tool_call, "toolCallId") == NULL ||
               permission.options == NULL) {
        refuse(acp, id, RPC_INVALID_PARAMS, "toolCall.toolCallId and options are required",
               method, number);
    } else if (acp->is_canceled && acp->is_prompting) {
        (void)acp_send_outcome(acp, id, NULL);
        if (acp->on.on_permission != NULL)
            acp->on.on_permission(acp->user, &permission);
    } else if (acp->on.on_permission == NULL) {
        (void)acp_send_outcome(acp, id, cf_acp_permission_pick(&permission, false));
    } else if (acp->pending_count >= ACP_REQUESTS_MAX) {
        refuse(acp, id, RPC_INTERNAL, "too many requests are pending", method, number);
    } else {
        struct acp_pending *pending = acp_add_pending(acp, id, params);
        if (pending == NULL)
            return;
        pending->is_permission = true;
        permission.handle = (const void *)pending->serial;
        acp->on.on_permission(acp->user, &permission);
    }
}

static bool
has_mode(const struct cf_acp *acp, const json_t *params)
{
    const char *mode = cf_json_str(params, "mode");

    return mode != NULL &&
           json_is_object(json_object_get(cf_json_obj(acp->client, "elicitation"), mode));
}

/* fs, terminal and elicitation: what we advertised and somebody takes. */
static void
on_served(struct cf_acp *acp, json_t *id, const char *method, json_t *params, uint64_t number)
{
    bool is_elicitation = strcmp(method, "elicitation/create") == 0;

    if (is_elicitation && !has_mode(acp, params)) {
        refuse(acp, id, RPC_INVALID_PARAMS, "this elicitation mode was not advertised", method,
               number);
        return;
    }
    if (!is_ours(acp, params) &&
        !(is_elicitation && json_object_get(params, "requestId") != NULL)) {
        acp_finding(acp, CF_ACP_FOREIGN_SESSION, number, "%s came for another session",
                    method);
        refuse(acp, id, RPC_INVALID_PARAMS, "unknown session", method, number);
        return;
    }
    if (acp->pending_count >= ACP_REQUESTS_MAX) {
        refuse(acp, id, RPC_INTERNAL, "too many requests are pending", method, number);
        return;
    }
    struct acp_pending *pending = acp_add_pending(acp, id, params);
    if (pending == NULL)
        return;
    pending->is_elicitation = is_elicitation;
    struct cf_acp_request request = {.handle = (const void *)pending->serial,
                                     .method = method,
                                     .params = params,
                                     .frame = number};
    if (!acp->on.on_request(acp->user, &request)) {
        acp_forget_pending(acp, request.handle);
        refuse(acp, id, RPC_METHOD_NOT_FOUND, "Method not found", method, number);
    }
}

static void on_update(struct cf_acp *acp, json_t *params, uint64_t number);

void
acp_on_request(struct cf_acp *acp, json_t *id, const char *method, json_t *params,
               uint64_t number)
{
    const char *needs = acp_client_method_needs(method);

    if (strcmp(method, "session/request_permission") == 0) {
        on_permission(acp, id, params, number);
    } else if (strcmp(method, "session/update") == 0) {
        acp_finding(acp, CF_ACP_LENIENCY, number, "session/update came as a request");
        on_update(acp, params, number);
        (void)acp_send_result(acp, id, NULL);
    } else if (needs != NULL && acp->on.on_request != NULL &&
               acp_is_advertised(acp->client, needs)) {
        on_served(acp, id, method, params, number);
    } else {
        refuse(acp, id, RPC_METHOD_NOT_FOUND, "Method not found", method, number);
    }
}

/* ---- notifications ---- */

static void
hold_update(struct cf_acp *acp, json_t *params, uint64_t number)
{
    if (acp->held_count >= ACP_HELD_MAX || acp->held_bytes + acp->line_len > ACP_HELD_BYTES) {
        acp_finding(acp, CF_ACP_IGNORED, number,
                    "frame %llu came before the session was known and there is no more room "
                    "to hold it",
                    (unsigned long long)number);
        return;
    }
    if (acp->held == NULL)
        acp->held = calloc(ACP_HELD_MAX, sizeof *acp->held);
    if (acp->held == NULL) {
        acp->has_no_memory = true;
        return;
    }
    acp->held[acp->held_count++] =
        (struct acp_held){.params = json_incref(params), .frame = number};
    acp->held_bytes += acp->line_len;
}

void
acp_drop_held(struct cf_acp *acp)
{
    for (size_t i = 0; i < acp->held_count; i++)
        json_decref(acp->held[i].params);
    acp->held_count = acp->held_bytes = 0;
}

/* An update whose kind is known and whose session is settled. */
static void
hand_on_update(struct cf_acp *acp, json_t *params, uint64_t number)
{
    json_t *update = cf_json_obj(params, "update");
    const char *kind = cf_json_str(update, "sessionUpdate");

    if (!is_ours(acp, params)) {
        const char *id = cf_json_str(params, "sessionId");
        acp_finding(acp, CF_ACP_FOREIGN_SESSION, number,
                    "frame %llu speaks of session \"%.80s\", which was never opened here",
                    (unsigned long long)number, id ? id : "");
        return;
    }
    if (acp->prompt_done_frame != 0 && acp_update_class(kind) == ACP_UPDATE_OUTPUT)
        acp_finding(acp, CF_ACP_UPDATE_AFTER_TERMINAL, number,
                    "%s in frame %llu came after the prompt was answered in frame %llu", kind,
                    (unsigned long long)number, (unsigned long long)acp->prompt_done_frame);
    if (acp->on.on_update != NULL)
        acp->on.on_update(acp->user, params, update, number);
}

void
acp_release_held(struct cf_acp *acp)
{
    struct acp_held *held = acp->held;
    size_t count = acp->held_count;

    acp->held = NULL; /* ours now: whatever a callback does to the connection */
    acp->held_count = acp->held_bytes = 0;
    for (size_t i = 0; i < count; i++) {
        if (!acp->is_broken)
            hand_on_update(acp, held[i].params, held[i].frame);
        json_decref(held[i].params);
    }
    free(held);
}

static void
on_update(struct cf_acp *acp, json_t *params, uint64_t number)
{
    const char *kind = cf_json_str(cf_json_obj(params, "update"), "sessionUpdate");

    if (kind == NULL) {
        acp_break(acp, CF_ERROR_WIRE,
                  "frame %llu is a session/update without update.sessionUpdate",
                  (unsigned long long)number);
        return;
    }
    switch (acp_update_class(kind)) {
    case ACP_UPDATE_UNKNOWN:
        if (!acp->is_lenient) {
            acp_break(acp, CF_ERROR_WIRE,
                      "frame %llu is a session/update of the unknown kind \"%.80s\"",
                      (unsigned long long)number, kind);
            return;
        }
        /* fall through */
    case ACP_UPDATE_UNSTABLE:
        acp_finding(acp, CF_ACP_IGNORED, number,
                    "frame %llu is an update of kind \"%.80s\", which is not in ACP v1",
                    (unsigned long long)number, kind);
        return;
    case ACP_UPDATE_OUTPUT:
    case ACP_UPDATE_STATE:
        break;
    }
    if (acp->is_loading)
        return; /* history, not new output */
    if (acp->session_id == NULL)
        hold_update(acp, params, number);
    else
        hand_on_update(acp, params, number);
}

void
acp_on_notification(struct cf_acp *acp, const char *method, json_t *params, uint64_t number)
{
    if (strcmp(method, "session/update") == 0)
        on_update(acp, params, number);
    else if (strcmp(method, "$/cancel_request") == 0)
        acp_withdraw_pending(acp, json_object_get(params, "requestId"));
    else if (*method != '_' && *method != '$' && strcmp(method, "elicitation/complete") != 0)
        tell_once(acp, CF_ACP_IGNORED, method, number, "ignored notification");
}
