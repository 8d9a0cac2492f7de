/*
 * The way to a session: initialize, what it declares, a login where it is wanted, session/new with
 * the authority it asks for or the way back to a session that the agent keeps, mode and options.
 * Each answer has its budget.
 */
#include "run/lane_acp.h"
#include "run/mcp.h"
#include "run/record.h"
#include "run/restore.h"

#include "base/str.h"
#include "json/json.h"

#include <stdio.h>
#include <string.h>

/* As of a turn's deadline: it may be the sandbox that is silent. */
static void
on_heard(void *user, const struct cf_error *why)
{
    struct cf_run *run = user;

    if (run->state == CF_HALL_OPENING && run->session_step == (int)run->heard_turn)
        cf_hall_fail(run, why != NULL ? why : &run->suspicion);
}

static void
on_handshake_deadline(uv_timer_t *timer)
{
    struct cf_run *run = timer->data;
    struct cf_error why;
    uint64_t seen = cf_acp_bytes_seen(run->acp);
    const char *method = run->session_step == CF_ACP_SESSION ? "session/new" : "initialize";
    uint64_t budget = run->session_step == CF_ACP_SESSION ? run->options.session_ms : run->options.initialize_ms;

    if (seen == 0)
        (void)cf_error_set(&why, CF_ERROR_START_TIMEOUT, 0,
                           "no answer to %s within %llu ms; no bytes were seen on the harness's stdout", method,
                           (unsigned long long)budget);
    else
        (void)cf_error_set(&why, CF_ERROR_START_TIMEOUT, 0,
                           "no answer to %s within %llu ms; stdout had %llu bytes, beginning: %s", method,
                           (unsigned long long)budget, (unsigned long long)seen, cf_acp_first_bytes(run->acp));
    (void)cf_error_fix(&why, "answer each JSON-RPC request on stdout with one line of JSON; --start-timeout raises the budget");
    run->suspicion = why;
    run->heard_turn = (uint32_t)run->session_step;
    cf_sandbox_hark(run->sandbox, on_heard, run);
}

void
cf_acp_clock(struct cf_run *run, int step, uint64_t budget_ms)
{
    run->session_step = step;
    uv_timer_start(&run->phase, on_handshake_deadline, budget_ms, 0);
}

/* What is advertised is served; NULL: nothing is. */
static json_t *
client_capabilities(const struct cf_run_options *o)
{
    json_t *can = json_pack("{s:{s:b, s:b}, s:b}", "fs", "readTextFile", o->fs, "writeTextFile", o->fs, "terminal",
                            o->terminal);

    if (can != NULL && o->elicitation != CF_ELICITATION_OFF)
        (void)json_object_set_new(can, "elicitation", json_pack("{s:{}}", "form"));
    return can;
}

static json_t *
session_params(const struct cf_run *run)
{
    json_t *params = json_pack("{s:s, s:o}", "cwd", cf_sandbox_working_directory(run->sandbox), "mcpServers",
                               cf_run_mcp_descriptors(run));

    if (params != NULL && run->options.session_meta != NULL)
        (void)json_object_set(params, "_meta", run->options.session_meta);
    return params;
}

/* Which way leads back to a session that the agent keeps; NULL, and why: none that it has. */
static const char *
way_back(const struct cf_run *run, struct cf_error *err)
{
    enum cf_session_method wanted = run->options.session_method;

    if (wanted != CF_SESSION_LOAD && cf_acp_can(run->acp, "session/resume"))
        return "session/resume";
    if (wanted != CF_SESSION_RESUME && cf_acp_can(run->acp, "session/load"))
        return "session/load";
    (void)cf_error_set(err, CF_ERROR_INCOMPATIBLE, 0, "the agent has no %s: session %.80s cannot be continued",
                       wanted == CF_SESSION_LOAD     ? "session/load"
                       : wanted == CF_SESSION_RESUME ? "session/resume"
                                                     : "session/resume and no session/load",
                       run->options.session);
    (void)cf_error_fix(err, "leave the session out to begin a new one, or choose the other method");
    return NULL;
}

/* session/new, or the way back to `id`. */
static void
enter_session(struct cf_run *run, const char *id)
{
    json_t *params = session_params(run);
    struct cf_error why;
    int status = params != NULL ? 0 : cf_error_memory(&why);

    run->side->entered_by = id == NULL ? "session/new" : way_back(run, &why);
    if (run->side->entered_by == NULL)
        status = -1;
    else if (status == 0 && id == NULL)
        status = cf_acp_session_new(run->acp, params, &why);
    else if (status == 0 && strcmp(run->side->entered_by, "session/load") == 0)
        status = cf_acp_session_load(run->acp, id, params, &why);
    else if (status == 0)
        status = cf_acp_session_resume(run->acp, id, params, &why);
    if (status < 0)
        cf_hall_fail(run, &why);
    json_decref(params);
}

static void ask_for_list(struct cf_run *run, const char *cursor);

static void
keep_latest(struct cf_run *run, json_t *sessions)
{
    const char *cwd = cf_sandbox_working_directory(run->sandbox), *id, *at, *best;
    json_t *session;
    size_t i;

    json_array_foreach(sessions, i, session) {
        id = cf_json_str(session, "sessionId");
        at = cf_json_str(session, "updatedAt");
        best = cf_json_str(run->side->latest, "updatedAt");
        if (id == NULL || (cf_json_str(session, "cwd") != NULL && strcmp(cf_json_str(session, "cwd"), cwd) != 0))
            continue;
        if (run->side->latest == NULL || (at != NULL && (best == NULL || strcmp(at, best) > 0))) {
            json_decref(run->side->latest);
            run->side->latest = json_incref(session);
        }
    }
}

static void
on_listed(void *user, json_t *result, json_t *error, uint64_t frame)
{
    struct cf_run *run = user;
    const char *cursor = cf_json_str(result, "nextCursor"), *message = cf_json_str(error, "message");
    struct cf_error why;

    if (result == NULL && error == NULL)
        return; /* the connection ended: that has its own story */
    keep_latest(run, cf_json_arr(result, "sessions"));
    if (error == NULL && cursor != NULL && ++run->side->pages < CF_ACP_LIST_PAGES) {
        ask_for_list(run, cursor);
        return;
    }
    if (error == NULL && cursor == NULL && run->side->latest != NULL) {
        enter_session(run, cf_json_str(run->side->latest, "sessionId"));
        return;
    }
    if (error != NULL)
        (void)cf_error_set(&why, CF_ERROR_INCOMPATIBLE, 0, "the agent refused session/list: %.300s",
                           message != NULL ? message : "(no message)");
    else if (cursor != NULL)
        (void)cf_error_set(&why, CF_ERROR_INCOMPATIBLE, 0, "the agent's session/list has more than %u pages: which session "
                                                           "is the latest is not known", CF_ACP_LIST_PAGES);
    else
        (void)cf_error_set(&why, CF_ERROR_INCOMPATIBLE, 0, "the agent lists no session for %.200s: there is no latest one",
                           cf_sandbox_working_directory(run->sandbox));
    (void)cf_error_fix(&why, "name the session by its id, or leave it out to begin a new one");
    cf_hall_fail(run, &why);
}

static void
ask_for_list(struct cf_run *run, const char *cursor)
{
    json_t *params = json_pack("{s:s, s:s*}", "cwd", cf_sandbox_working_directory(run->sandbox), "cursor", cursor);
    struct cf_error why;
    int status = params != NULL ? 0 : cf_error_memory(&why);

    if (status == 0 && !cf_acp_can(run->acp, "session/list")) {
        status = cf_error_set(&why, CF_ERROR_INCOMPATIBLE, 0, "the agent does not advertise session/list: which session is "
                                                              "the latest cannot be known");
        (void)cf_error_fix(&why, "name the session by its id");
    }
    if (status == 0)
        status = cf_acp_request(run->acp, "session/list", params, on_listed, run, &why);
    if (status < 0)
        cf_hall_fail(run, &why);
    json_decref(params);
}

static void
start_session(struct cf_run *run)
{
    cf_acp_clock(run, CF_ACP_SESSION, run->options.session_ms);
    if (run->options.session != NULL && strcmp(run->options.session, "latest") == 0)
        ask_for_list(run, NULL);
    else
        enter_session(run, run->options.session);
}

void
cf_acp_initialized(void *user, json_t *result, uint64_t frame)
{
    struct cf_run *run = user;
    struct cf_error why;
    json_t *envelope = cf_envelope_acp(run->options.is_ephemeral);
    json_t *declared = json_object_get(json_object_get(result, "_meta"), "checkfu.capabilities");
    int status;

    json_decref(run->agent_info);
    run->agent_info = json_incref(json_object_get(result, "agentInfo"));
    run->declared = declared != NULL ? json_deep_copy(declared) : json_object();
    status = cf_declaration_read(result, &run->declaration, &why);
    if (status == 0) {
        cf_restore_resume(run);
        status = cf_session_meta_check(run->options.session_meta, &run->declaration, &why);
    }
    if (status < 0) {
        json_decref(envelope);
        cf_hall_fail(run, &why);
        return;
    }
    run->capability_set = cf_declaration_admit(envelope, &run->declaration);
    json_decref(envelope);
    cf_record_call(run, CF_CALL_DECLARE, frame, NULL, 0);
    cf_normalizer_declare(run->normalizer, &run->declaration);
    cf_grammar_declare(run->grammar, &run->declaration);
    start_session(run);
}

/* The session, asked for anew after a login. */
void
cf_acp_authenticated(void *user, uint64_t frame)
{
    start_session(user);
}

static void set_next(struct cf_run *run);

static void
on_set(void *user, json_t *result, json_t *error, uint64_t frame)
{
    struct cf_run *run = user;
    const char *message = cf_json_str(error, "message");
    struct cf_error why;

    if (result == NULL && error == NULL)
        return; /* the connection ended: that has its own story */
    if (error == NULL) {
        set_next(run);
        return;
    }
    (void)cf_error_set(&why, CF_ERROR_INCOMPATIBLE, 0, "the agent refused a mode or config option: %.300s",
                       message != NULL ? message : "(no message)");
    (void)cf_error_fix(&why, "its answer to session/new lists what it knows (-vv shows it)");
    cf_hall_fail(run, &why);
}

/* Mode and options, one after the other; then the first turn may come. */
static void
set_next(struct cf_run *run)
{
    json_t *call = json_incref(json_array_get(run->side->settings, 0));
    struct cf_error why;

    if (call == NULL) {
        uv_timer_stop(&run->phase);
        run->session_step = CF_ACP_OPEN;
        cf_hall_session_ready(run);
        return;
    }
    (void)json_array_remove(run->side->settings, 0);
    if (cf_acp_request(run->acp, json_string_value(json_array_get(call, 0)), json_array_get(call, 1), on_set, run, &why) < 0)
        cf_hall_fail(run, &why);
    json_decref(call);
}

void
cf_acp_session_open(void *user, const char *session_id, json_t *result, uint64_t frame)
{
    struct cf_run *run = user;
    const char *name;
    json_t *value, *params;

    json_decref(run->session);
    run->session = json_pack("{s:s, s:s, s:[], s:n}", "id", session_id, "entered_by", run->side->entered_by, "left_by",
                             "refused");
    cf_restore_hold(run);
    /* before what the agent has said of its session meanwhile */
    cf_record_call_json(run, CF_CALL_READY, frame, run->capability_set);
    cf_normalizer_ready(run->normalizer, run->capability_set, frame);
    if (run->options.mode != NULL)
        (void)json_array_append_new(run->side->settings, json_pack("[s, {s:s}]", "session/set_mode", "modeId",
                                                                   run->options.mode));
    json_object_foreach(run->options.config, name, value) {
        params = json_pack("{s:s, s:O}", "configId", name, "value", value);
        if (json_is_boolean(value))
            (void)json_object_set_new(params, "type", json_string("boolean"));
        (void)json_array_append_new(run->side->settings, json_pack("[s, o]", "session/set_config_option", params));
    }
    set_next(run);
}

void
cf_acp_handshake(struct cf_run *run)
{
    json_t *can = client_capabilities(&run->options);
    struct cf_error why;

    cf_acp_clock(run, CF_ACP_INITIALIZE, run->options.initialize_ms);
    if (cf_acp_initialize(run->acp, can, &why) < 0)
        cf_hall_fail(run, &why);
    json_decref(can);
}
