/*
 * wire/acp_pending.c: requests of the agent's that wait for an answer of ours.
 *
 * Each leaves the table with exactly one answer: the owner's, or our own when its turn was
 * canceled or the agent withdrew it. Handles are serial numbers, never used again.
 */
#include "wire/acp_core.h"

#include "base/str.h"
#include "json/json.h"

#include <stdlib.h>
#include <string.h>

static void
forget_pending(struct acp_pending *pending)
{
    json_decref(pending->id);
    json_decref(pending->params);
    free(pending);
}

static struct acp_pending *
take_pending(struct cf_acp *acp, const void *handle)
{
    for (struct acp_pending **at = &acp->pending; *at != NULL; at = &(*at)->next) {
        if ((*at)->serial == (uintptr_t)handle) {
            struct acp_pending *pending = *at;
            *at = pending->next;
            acp->pending_count--;
            return pending;
        }
    }
    return NULL;
}

static struct acp_pending *
find_pending(struct cf_acp *acp, const json_t *id)
{
    for (struct acp_pending *at = acp->pending; at != NULL; at = at->next)
        if (json_typeof(at->id) == json_typeof(id) && json_equal(at->id, (json_t *)id) == 1)
            return at;
    return NULL;
}

struct acp_pending *
acp_add_pending(struct cf_acp *acp, json_t *id, json_t *params)
{
    struct acp_pending **end = &acp->pending;
    struct acp_pending *pending = calloc(1, sizeof *pending);

    if (pending == NULL) {
        acp->has_no_memory = true;
        return NULL;
    }
    pending->serial = ++acp->next_serial;
    pending->id = json_incref(id);
    pending->params = json_incref(params);
    while (*end != NULL)
        end = &(*end)->next;
    *end = pending;
    acp->pending_count++;
    return pending;
}

void
acp_drop_pending(struct cf_acp *acp)
{
    while (acp->pending != NULL) {
        struct acp_pending *pending = acp->pending;
        acp->pending = pending->next;
        acp->pending_count--;
        forget_pending(pending);
    }
}

/* The right last word to a request whose turn or reason is gone. */
static void
answer_gone(struct cf_acp *acp, struct acp_pending *pending)
{
    json_t *cancel;

    if (pending->is_permission) {
        (void)acp_send_outcome(acp, pending->id, NULL);
    } else if (pending->is_elicitation) {
        cancel = json_pack("{s:s}", "action", "cancel");
        (void)acp_send_result(acp, pending->id, cancel);
        json_decref(cancel);
    } else {
        (void)acp_send_error(acp, pending->id, RPC_CANCELLED, "Request cancelled", NULL);
    }
    if (acp->on.on_request_gone != NULL)
        acp->on.on_request_gone(acp->user, (const void *)pending->serial);
}

/* Permissions and questions of a canceled turn. File and terminal requests are answered by the
 * owner as they end. */
void
acp_cancel_pending(struct cf_acp *acp)
{
    struct acp_pending **at = &acp->pending;

    while (*at != NULL) {
        struct acp_pending *pending = *at;
        if (!pending->is_permission && !pending->is_elicitation) {
            at = &pending->next;
            continue;
        }
        *at = pending->next;
        acp->pending_count--;
        answer_gone(acp, pending);
        forget_pending(pending);
        at = &acp->pending; /* the callback may have answered others */
    }
}

/* Replay: the recording holds our answer to this id. */
void
acp_settle_pending(struct cf_acp *acp, const json_t *id)
{
    struct acp_pending *pending = find_pending(acp, id);

    if (pending != NULL)
        forget_pending(take_pending(acp, (const void *)pending->serial));
}

/* The agent gave up this request of its own; one that was answered already is no longer here.
 */
void
acp_withdraw_pending(struct cf_acp *acp, const json_t *id)
{
    struct acp_pending *pending = id == NULL ? NULL : find_pending(acp, id);

    if (pending == NULL || acp->is_replay)
        return;
    pending = take_pending(acp, (const void *)pending->serial);
    answer_gone(acp, pending);
    forget_pending(pending);
}

/* Nobody took it: the caller answers. */
void
acp_forget_pending(struct cf_acp *acp, const void *handle)
{
    struct acp_pending *pending = take_pending(acp, handle);

    if (pending != NULL)
        forget_pending(pending);
}

/* ---- answers ---- */

int
cf_acp_permission_answer(struct cf_acp *acp, const void *handle, const char *option_id)
{
    struct acp_pending *pending = handle == NULL ? NULL : take_pending(acp, handle);
    json_t *option;
    size_t i;
    int status = -1;

    if (pending == NULL)
        return -1;
    bool is_offered = option_id == NULL;
    json_array_foreach(cf_json_arr(pending->params, "options"), i, option) {
        if (option_id != NULL && cf_str_same(cf_json_str(option, "optionId"), option_id))
            is_offered = true;
    }
    status = acp_send_outcome(acp, pending->id, is_offered ? option_id : NULL);
    forget_pending(pending);
    return is_offered ? status : -1;
}

int
cf_acp_answer(struct cf_acp *acp, const void *handle, json_t *result)
{
    struct acp_pending *pending = handle == NULL ? NULL : take_pending(acp, handle);

    if (pending == NULL)
        return -1;
    int status = acp_send_result(acp, pending->id, result);
    forget_pending(pending);
    return status;
}

int
cf_acp_refuse_with(struct cf_acp *acp, const void *handle, int code, const char *message,
                   json_t *data)
{
    struct acp_pending *pending = handle == NULL ? NULL : take_pending(acp, handle);

    if (pending == NULL)
        return -1;
    int status = acp_send_error(acp, pending->id, code, message, data);
    forget_pending(pending);
    return status;
}

int
cf_acp_refuse(struct cf_acp *acp, const void *handle, int code, const char *message)
{
    return cf_acp_refuse_with(acp, handle, code, message, NULL);
}

/* The only option of a kind; *ret_count says how many there are. */
static const char *
option_of(json_t *options, const char *kind, unsigned *ret_count)
{
    const char *found = NULL;
    json_t *option;
    size_t i;

    *ret_count = 0;
    json_array_foreach(options, i, option) {
        const char *id = cf_json_str(option, "optionId");
        if (id == NULL || !cf_str_same(cf_json_str(option, "kind"), kind))
            continue;
        if (found == NULL)
            found = id;
        ++*ret_count;
    }
    return found;
}

const char *
cf_acp_permission_pick(const struct cf_acp_permission *permission, bool is_allowed)
{
    unsigned once_count, always_count, count;
    const char *once = option_of(permission->options, "allow_once", &once_count);
    const char *always = option_of(permission->options, "allow_always", &always_count);
    const char *kind = cf_json_str(permission->tool_call, "kind");
    const char *no = option_of(permission->options, "reject_once", &count);

    if (is_allowed && once_count <= 1 && !(kind != NULL && strcmp(kind, "switch_mode") == 0)) {
        if (once != NULL)
            return once;
        if (always_count == 1)
            return always;
    }
    return no != NULL ? no : option_of(permission->options, "reject_always", &count);
}
