/*
 * wire/acp_call.c: what we ask of the agent, and what becomes of its answers.
 *
 * Ids are small integers from 1 upward and never used again, so that a late answer can only be
 * recognised as stale and never settle a newer call.
 */
#include "wire/acp_core.h"

#include "base/str.h"
#include "json/json.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const call_names[] = {
    [CALL_INITIALIZE] = "initialize",
    [CALL_AUTHENTICATE] = "authenticate",
    [CALL_SESSION_NEW] = "session/new",
    [CALL_SESSION_LOAD] = "session/load",
    [CALL_SESSION_RESUME] = "session/resume",
    [CALL_PROMPT] = "session/prompt",
    [CALL_OTHER] = "request",
};

const char *
acp_call_name(enum call_kind kind)
{
    return call_names[kind];
}

/* ---- calls in flight ---- */

/* Takes a reference of its own to `id`; NULL: the next of ours. */
struct acp_call *
acp_call_new(struct cf_acp *acp, enum call_kind kind, json_t *id)
{
    struct acp_call *call = calloc(1, sizeof *call);
    struct acp_call **end = &acp->calls;

    if (call == NULL)
        return NULL;
    call->kind = kind;
    call->id = id != NULL ? json_incref(id) : json_integer(++acp->next_id);
    if (call->id == NULL) {
        free(call);
        return NULL;
    }
    while (*end != NULL)
        end = &(*end)->next;
    *end = call;
    acp->call_count++;
    return call;
}

void
acp_call_forget(struct acp_call *call)
{
    json_decref(call->id);
    free(call->session_id);
    free(call);
}

/* Equal, or equal by the two leniencies that agents need: an integral real, a string of
 * digits. */
bool
acp_is_same_id(const json_t *ours, const json_t *theirs, bool *ret_is_lenient)
{
    char digits[24];

    *ret_is_lenient = false;
    if (json_typeof(ours) == json_typeof(theirs))
        return json_equal((json_t *)ours, (json_t *)theirs) == 1;
    if (!json_is_integer(ours))
        return false;
    *ret_is_lenient = true;
    if (json_is_real(theirs))
        return json_real_value(theirs) == (double)json_integer_value(ours);
    snprintf(digits, sizeof digits, "%lld", (long long)json_integer_value(ours));
    return json_is_string(theirs) && strcmp(json_string_value(theirs), digits) == 0;
}

static struct acp_call *
take_call(struct cf_acp *acp, const json_t *id, bool *ret_is_lenient)
{
    for (struct acp_call **at = &acp->calls; *at != NULL; at = &(*at)->next) {
        if (acp_is_same_id((*at)->id, id, ret_is_lenient)) {
            struct acp_call *call = *at;
            *at = call->next;
            acp->call_count--;
            return call;
        }
    }
    return NULL;
}

/* The connection is over: extension requests hear of it, the rest is the owner's to explain.
 */
void
acp_fail_calls(struct cf_acp *acp)
{
    while (acp->calls != NULL) {
        struct acp_call *call = acp->calls;
        acp->calls = call->next;
        acp->call_count--;
        if (call->kind == CALL_OTHER && call->done != NULL)
            call->done(call->user, NULL, NULL, acp->frames);
        acp_call_forget(call);
    }
}

/* ---- answers ---- */

static void
tell_failed(struct cf_acp *acp, enum call_kind kind, json_t *error, uint64_t number)
{
    if (acp->on.on_call_failed != NULL)
        acp->on.on_call_failed(acp->user, acp_call_name(kind), error, number);
}

static void
tell_unusable(struct cf_acp *acp, enum call_kind kind, const char *what, uint64_t number)
{
    json_t *error = json_pack("{s:i,s:s}", "code", RPC_INTERNAL, "message", what);

    if (error == NULL)
        acp->has_no_memory = true;
    else
        tell_failed(acp, kind, error, number);
    json_decref(error);
}

static void
on_initialized(struct cf_acp *acp, json_t *result, uint64_t number)
{
    json_t *version = json_object_get(result, "protocolVersion");

    if (json_is_real(version) && json_real_value(version) == 1.0) {
        acp_finding(acp, CF_ACP_LENIENCY, number, "protocolVersion came as 1.0");
    } else if (!json_is_integer(version)) {
        acp_break(
            acp, CF_ERROR_INCOMPATIBLE,
            "the agent answered initialize (frame %llu) without an integer protocolVersion",
            (unsigned long long)number);
        return;
    } else if (json_integer_value(version) != 1) {
        acp_break(
            acp, CF_ERROR_INCOMPATIBLE,
            "the agent speaks ACP version %lld (frame %llu); this driver speaks version 1",
            (long long)json_integer_value(version), (unsigned long long)number);
        return;
    }
    json_decref(acp->agent);
    acp->agent = json_incref(result);
    if (acp->on.on_initialized != NULL)
        acp->on.on_initialized(acp->user, result, number);
}

static bool
is_session_id(const json_t *value)
{
    const char *text = json_string_value(value);

    return text != NULL && *text != '\0' && strlen(text) == json_string_length(value) &&
           json_string_length(value) <= ACP_SESSION_ID_MAX;
}

static void
on_session(struct cf_acp *acp, struct acp_call *call, json_t *result, uint64_t number)
{
    json_t *given = json_object_get(result, "sessionId");
    const char *id = call->session_id; /* load and resume name it in the request */

    acp->is_loading = false;
    if (call->kind == CALL_SESSION_NEW)
        id = is_session_id(given) ? json_string_value(given) : NULL;
    if (id == NULL) {
        tell_unusable(acp, call->kind, "the result has no usable sessionId", number);
        return;
    }
    char *copy = strdup(id);
    if (copy == NULL) {
        acp->has_no_memory = true;
        return;
    }
    free(acp->session_id);
    acp->session_id = copy;
    if (acp->on.on_session != NULL)
        acp->on.on_session(acp->user, acp->session_id, result, number);
    acp_release_held(acp);
}

static void
end_prompt(struct cf_acp *acp, uint64_t number)
{
    acp->is_prompting = false;
    acp->prompt_done_frame = number;
}

static void
tell_prompt_done(struct cf_acp *acp, const char *reason, json_t *result, uint64_t number)
{
    if (acp->on.on_prompt_done != NULL)
        acp->on.on_prompt_done(acp->user, reason, result, number);
}

static void
on_prompt_result(struct cf_acp *acp, json_t *result, uint64_t number)
{
    const char *reason = cf_json_str(result, "stopReason");

    end_prompt(acp, number);
    if (acp->is_canceled) {
        if (reason == NULL || strcmp(reason, "cancelled") != 0)
            acp_finding(acp, CF_ACP_LENIENCY, number, "the canceled prompt ended with %s",
                        reason ? reason : "no stop reason");
        tell_prompt_done(acp, "cancelled", result, number);
    } else if (reason == NULL) {
        tell_unusable(acp, CALL_PROMPT, "the result has no stopReason", number);
    } else if (!acp_is_stop_reason(reason)) {
        acp_break(acp, CF_ERROR_WIRE,
                  "frame %llu ends the prompt with the unknown stop reason \"%.80s\"",
                  (unsigned long long)number, reason);
    } else {
        tell_prompt_done(acp, reason, result, number);
    }
}

static void
on_call_error(struct cf_acp *acp, struct acp_call *call, json_t *error, uint64_t number)
{
    if (call->kind == CALL_SESSION_LOAD)
        acp->is_loading = false;
    if (call->kind == CALL_PROMPT) {
        end_prompt(acp, number);
        if (acp->is_canceled) {
            acp_finding(acp, CF_ACP_LENIENCY, number,
                        "the canceled prompt ended with an error");
            tell_prompt_done(acp, "cancelled", NULL, number);
            return;
        }
    }
    if (call->kind == CALL_OTHER) {
        if (call->done != NULL)
            call->done(call->user, NULL, error, number);
    } else {
        tell_failed(acp, call->kind, error, number);
    }
}

static void
on_call_result(struct cf_acp *acp, struct acp_call *call, json_t *result, uint64_t number)
{
    switch (call->kind) {
    case CALL_INITIALIZE:
        on_initialized(acp, result, number);
        break;
    case CALL_AUTHENTICATE:
        if (acp->on.on_authenticated != NULL)
            acp->on.on_authenticated(acp->user, number);
        break;
    case CALL_SESSION_NEW:
    case CALL_SESSION_LOAD:
    case CALL_SESSION_RESUME:
        on_session(acp, call, result, number);
        break;
    case CALL_PROMPT:
        on_prompt_result(acp, result, number);
        break;
    case CALL_OTHER:
        if (call->done != NULL)
            call->done(call->user, result, NULL, number);
        break;
    }
}

void
acp_on_response(struct cf_acp *acp, json_t *frame, uint64_t number)
{
    json_t *id = json_object_get(frame, "id");
    json_t *result = json_object_get(frame, "result");
    json_t *error = json_object_get(frame, "error");
    bool is_lenient;

    if (json_is_null(error) && result != NULL)
        error = NULL; /* absent and null mean the same, where a result is */
    if (json_is_null(id)) {
        acp_finding(
            acp, CF_ACP_IGNORED, number, "the agent could not read one of our messages: %s",
            cf_json_str(error, "message") ? cf_json_str(error, "message") : "no reason given");
        return;
    }
    struct acp_call *call = take_call(acp, id, &is_lenient);
    if (call == NULL) {
        acp_finding(acp, CF_ACP_IGNORED, number,
                    "frame %llu answers a call that is not in flight",
                    (unsigned long long)number);
        return;
    }
    if (is_lenient)
        acp_finding(acp, CF_ACP_LENIENCY, number,
                    "frame %llu gives our id back in another type",
                    (unsigned long long)number);
    if ((result == NULL) == (error == NULL) || (error != NULL && !json_is_object(error))) {
        json_t *made = json_pack("{s:i,s:s}", "code", RPC_INTERNAL, "message",
                                 "the answer must have exactly one of result and error");
        if (made == NULL)
            acp->has_no_memory = true;
        else
            on_call_error(acp, call, made, number);
        json_decref(made);
    } else if (error != NULL) {
        on_call_error(acp, call, error, number);
    } else {
        on_call_result(acp, call, result, number);
    }
    acp_call_forget(call);
}
