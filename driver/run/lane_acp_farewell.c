/*
 * Leaving a session: session/close where the agent has it, and session/delete or logout when the
 * host asked for one of them. Each waits for the answer to the one before; session_undo bounds it.
 */
#include "run/lane_acp.h"
#include "run/record.h"
#include "run/rows.h"

#include "base/str.h"
#include "json/json.h"

#include <string.h>

static void farewell_next(struct cf_run *run, const char *said);

static bool
was_asked_for(const char *method)
{
    return strcmp(method, "session/close") != 0;
}

/* The agent did not do what the host asked for by name: no quiet success. */
static void
not_granted(struct cf_run *run, const char *method, const char *why)
{
    struct cf_error err;

    (void)json_object_set_new(run->session, "refused", json_pack("{s:s, s:s}", "method", method, "message", why));
    if (!was_asked_for(method))
        return;
    (void)cf_error_set(&err, CF_ERROR_INCOMPATIBLE, 0, "%s was asked for and not done: %.300s", method, why);
    (void)cf_error_fix(&err, "the session may still be kept by the agent; the default end is session/close only");
    cf_rows_keep_late_error(run, &err);
}

static void
on_farewell(void *user, json_t *result, json_t *error, uint64_t frame)
{
    struct cf_run *run = user;
    const char *said = run->side != NULL ? run->side->farewell : NULL, *message = cf_json_str(error, "message");

    if (said == NULL)
        return;
    run->side->farewell = NULL;
    if (error != NULL)
        not_granted(run, said, message != NULL ? message : "(no message)");
    else if (result == NULL)
        not_granted(run, said, "the connection ended before its answer");
    else
        (void)json_array_append_new(json_object_get(run->session, "left_by"), json_string(said));
    if (result == NULL && error == NULL)
        cf_harness_end_input(run);
    else
        farewell_next(run, said);
}

static int
say(struct cf_run *run, const char *method, json_t *params)
{
    struct cf_error why;
    int status = -1;

    if (cf_acp_can(run->acp, method)) {
        run->side->farewell = method;
        status = cf_acp_request(run->acp, method, params, on_farewell, run, &why);
        if (status < 0) {
            run->side->farewell = NULL;
            not_granted(run, method, why.text);
        }
    } else if (was_asked_for(method)) {
        not_granted(run, method, "the agent does not advertise it");
    }
    json_decref(params);
    return status;
}

/* What comes after `said` (NULL: nothing was said yet). */
static void
farewell_next(struct cf_run *run, const char *said)
{
    enum cf_session_end end = run->options.session_end;
    json_t *id = json_object_get(run->session, "id");

    if (said == NULL && end != CF_SESSION_KEEP && say(run, "session/close", NULL) == 0)
        return;
    if ((said == NULL || strcmp(said, "session/close") == 0) && end == CF_SESSION_DELETE &&
        say(run, "session/delete", json_pack("{s:O}", "sessionId", id)) == 0)
        return;
    if ((said == NULL || strcmp(said, "session/close") == 0) && end == CF_SESSION_LOGOUT && say(run, "logout", NULL) == 0)
        return;
    cf_harness_end_input(run);
}

void
cf_acp_farewell(struct cf_run *run)
{
    if (run->acp != NULL && run->side != NULL && run->session != NULL && run->error.kind == CF_ERROR_NONE &&
        !run->harness.has_exited)
        farewell_next(run, NULL);
    else
        cf_harness_end_input(run);
}

void
cf_acp_farewell_heard(struct cf_run *run, const char *bytes, size_t len)
{
    if (run->side == NULL || run->side->farewell == NULL)
        return;
    cf_record_put(run, CF_RECORD_FAREWELL, bytes, len);
    if (cf_acp_feed(run->acp, bytes, len) < 0)
        cf_acp_farewell_over(run);
}

void
cf_acp_farewell_over(struct cf_run *run)
{
    if (run->side == NULL || run->side->farewell == NULL)
        return;
    const char *said = run->side->farewell;
    run->side->farewell = NULL;
    not_granted(run, said, "no answer within the time for an orderly end");
}
