/*
 * wire/acp_replay.c: a recorded connection: what the client once sent is told to the core,
 * which then reads the agent's recorded frames as it did live.
 */
#include "wire/acp_core.h"

#include "json/json.h"

#include <stdlib.h>
#include <string.h>

static int
replay_call(struct cf_acp *acp, json_t *id, const char *method, json_t *params)
{
    enum call_kind kind = CALL_INITIALIZE;

    while (kind < CALL_OTHER && strcmp(acp_call_name(kind), method) != 0)
        kind++;
    struct acp_call *call =
        acp->call_count < ACP_CALLS_MAX ? acp_call_new(acp, kind, id) : NULL;
    if (call == NULL)
        return -1;
    if (kind == CALL_INITIALIZE && acp->client == NULL)
        acp->client = json_incref(cf_json_obj(params, "clientCapabilities"));
    if (kind == CALL_SESSION_LOAD || kind == CALL_SESSION_RESUME) {
        const char *session_id = cf_json_str(params, "sessionId");
        call->session_id = session_id != NULL ? strdup(session_id) : NULL;
        acp->is_loading = kind == CALL_SESSION_LOAD;
    }
    if (kind == CALL_PROMPT)
        acp_begin_turn(acp);
    return 0;
}

int
cf_acp_replay_sent(struct cf_acp *acp, const char *line, size_t len)
{
    json_t *root = cf_json_parse(line, len, NULL, NULL);
    const char *method = cf_json_str(root, "method");
    json_t *id = json_object_get(root, "id");
    int status = 0;

    if (!json_is_object(root)) {
        json_decref(root);
        return -1;
    }
    acp->frames++;
    if (acp->on.on_frame != NULL)
        acp->on.on_frame(acp->user, false, acp->frames, line, len);
    if (method == NULL && id != NULL) {
        acp_settle_pending(acp, id);
    } else if (method != NULL && id != NULL) {
        status = replay_call(acp, id, method, json_object_get(root, "params"));
    } else if (method != NULL && strcmp(method, "session/cancel") == 0 && acp->is_prompting) {
        acp->is_canceled = true;
    }
    json_decref(root);
    return status;
}
