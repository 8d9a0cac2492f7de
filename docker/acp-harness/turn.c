/* One session/prompt from its arrival to its response. */
#include "turn.h"

#include "base/clock.h"
#include "base/str.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { DRAIN_MS = 5000, STATE_LIMIT = 1024 * 1024 };

/* ---- what the client may do to a running turn ------------------------------------------- */

void
hn_turn_cancel(struct hn_turn *turn)
{
    if (turn != NULL)
        turn->is_cancelled = true;
}

/*
 * Text for the running turn. With no model call in flight it is part of the very next one, so it
 * is delivered; with one in flight it waits for the next of the same turn, so it is queued.
 */
const char *
hn_turn_steer(struct hn_turn *turn, const char *id, json_t *content)
{
    const char *answered, *disposition;

    if (turn == NULL || turn->is_cancelled || turn->is_draining || turn->is_settling)
        return "refused";
    answered = json_string_value(json_object_get(turn->dispositions, id));
    if (answered != NULL)
        return answered;
    disposition = turn->call.is_open ? "queued" : "delivered";
    json_object_set_new(turn->dispositions, id, json_string(disposition));
    json_array_append(turn->steers, content);
    return disposition;
}

/* A drained turn starts nothing new. The model call in flight may still end, within bounds. */
const char *
hn_turn_drain(struct hn_turn *turn)
{
    uint64_t soon = cf_clock_ms() + DRAIN_MS;

    if (turn == NULL)
        return "refused";
    turn->is_draining = true;
    if (turn->call.is_open && turn->call.deadline_ms > soon)
        turn->call.deadline_ms = soon;
    return "draining";
}

bool
hn_turn_is_over(const struct hn_turn *turn)
{
    return turn->is_cancelled || turn->agent->wire.at_eof;
}

/* ---- words of a turn -------------------------------------------------------------------- */

json_t *
hn_turn_ask_client(struct hn_turn *turn, const char *method, json_t *params)
{
    struct hn_agent *agent = turn->agent;
    json_int_t id;
    json_t *result;

    json_object_set_new(params, "sessionId", json_string(turn->session->id));
    id = agent->awaited = hn_wire_request(&agent->wire, method, params);
    while (agent->answer == NULL && !hn_turn_is_over(turn))
        hn_agent_pump(agent, NULL, cf_clock_ms() + 60000);
    agent->awaited = 0;
    if (agent->answer == NULL) {
        hn_wire_notify(&agent->wire, "$/cancel_request", json_pack("{s:I}", "requestId", id));
        return NULL;
    }
    result = json_incref(json_object_get(agent->answer, "result"));
    if (result == NULL) {
        const char *why = json_string_value(
            json_object_get(json_object_get(agent->answer, "error"), "message"));
        fprintf(stderr, "acp-agent: %s: the client answered: %s\n", method, why ? why : "an error");
    }
    json_decref(agent->answer);
    agent->answer = NULL;
    return result;
}

void
hn_turn_update(struct hn_turn *turn, const char *subagent, json_t *update)
{
    if (subagent != NULL)
        json_object_set_new(update, "_meta",
                            json_pack("{s:{s:s, s:s}}", "checkfu.subagent", "phase", "activity",
                                      "subagent", subagent));
    hn_session_update(turn->agent, turn->session, update);
}

void
hn_turn_thought(struct hn_turn *turn, const char *subagent, const char *text)
{
    hn_turn_update(turn, subagent,
                   json_pack("{s:s, s:{s:s, s:s}}", "sessionUpdate", "agent_thought_chunk",
                             "content", "type", "text", "text", text));
}

json_t *
hn_text_content(const char *text)
{
    return json_pack("[{s:s, s:{s:s, s:s}}]", "type", "content", "content", "type", "text", "text",
                     text);
}

void
hn_tool_begin(struct hn_turn *turn, char *call_id, const char *subagent, const char *title,
              const char *kind, json_t *input)
{
    snprintf(call_id, 24, "call-%u", ++turn->session->tools_made);
    hn_turn_update(turn, subagent,
                   json_pack("{s:s, s:s, s:s, s:s, s:s, s:o}", "sessionUpdate", "tool_call",
                             "toolCallId", call_id, "title", title, "kind", kind, "status",
                             "pending", "rawInput", input));
}

void
hn_tool_step(struct hn_turn *turn, const char *call_id, const char *subagent, const char *status)
{
    hn_turn_update(turn, subagent,
                   json_pack("{s:s, s:s, s:s}", "sessionUpdate", "tool_call_update", "toolCallId",
                             call_id, "status", status));
}

void
hn_tool_end(struct hn_turn *turn, const char *call_id, const char *subagent, bool failed,
            json_t *content, json_t *output)
{
    json_t *update = json_pack("{s:s, s:s, s:s}", "sessionUpdate", "tool_call_update", "toolCallId",
                               call_id, "status", failed ? "failed" : "completed");

    if (content != NULL)
        json_object_set_new(update, "content", content);
    if (output != NULL)
        json_object_set_new(update, "rawOutput", output);
    hn_turn_update(turn, subagent, update);
}

bool
hn_turn_may(const struct hn_turn *turn, unsigned tool)
{
    return !turn->session->authority.has_ceiling || (turn->session->authority.tools & tool) != 0;
}

/* ---- the end of a turn ------------------------------------------------------------------ */

/* The conversation for the runner to keep, since nothing here outlives this process. */
static void
send_checkpoint(struct hn_turn *turn)
{
    cf_auto_free char *state = hn_checkpoint_text(turn->session->messages);
    json_t *checkpoint = state == NULL || strlen(state) > STATE_LIMIT
                             ? json_pack("{s:i, s:b}", "version", 1, "too_large", 1)
                             : json_pack("{s:i, s:s}", "version", 1, "state", state);
    char now[21];

    cf_clock_rfc3339(cf_clock_unix(), now);
    hn_session_update(turn->agent, turn->session,
                      json_pack("{s:s, s:s, s:{s:o}}", "sessionUpdate", "session_info_update",
                                "updatedAt", now, "_meta", "checkfu.journal_checkpoint",
                                checkpoint));
}

static json_t *
telemetry(const struct hn_turn *turn)
{
    return json_pack("{s:{s:s, s:I, s:I, s:I, s:I, s:I}}", "checkfu.turn", "execution",
                     turn->count.shell > 0 ? "shell" : "model_only", "shell_commands",
                     turn->count.shell, "filesystem_commands", turn->count.files, "mcp_calls",
                     turn->count.mcp, "model_calls", turn->count.model, "wall_time_ms",
                     (json_int_t)(cf_clock_ms() - turn->count.start_ms));
}

/* 401 and 403 are the model's way of asking for another key; -32000 is how ACP says that. */
static int
code_of(const struct cf_error *err)
{
    return err->code == 401 || err->code == 403 ? HN_AUTH_REQUIRED : HN_INTERNAL;
}

static void
answer(struct hn_turn *turn, int status, const struct cf_error *err)
{
    struct hn_wire *wire = &turn->agent->wire;
    json_t *result;

    if (turn->is_withdrawn) {
        hn_wire_error(wire, turn->request_id, HN_REQUEST_CANCELLED, "Request cancelled");
        return;
    }
    if (status < 0 && !turn->is_cancelled) {
        hn_wire_error(wire, turn->request_id, code_of(err), err->text);
        return;
    }
    result = json_pack("{s:s}", "stopReason", turn->is_cancelled ? "cancelled" : turn->stop);
    if (hn_declares_any(&turn->agent->options->declared))
        json_object_set_new(result, "_meta", telemetry(turn));
    hn_wire_result(wire, turn->request_id, result);
}

static int
run_stages(struct hn_turn *turn, struct cf_error *err)
{
    hn_stage_opening(turn);
    hn_stage_look_around(turn);
    hn_stage_question(turn);
    hn_stage_client_files(turn);
    hn_stage_client_terminal(turn);
    hn_stage_subagents(turn);
    if (hn_converse(turn, err) < 0)
        return -1;
    turn->is_settling = true;
    hn_stage_closing(turn);
    return 0;
}

void
hn_turn_run(struct hn_agent *agent, struct hn_session *session, json_t *id, json_t *blocks)
{
    struct hn_turn turn = { .agent = agent,
                            .session = session,
                            .request_id = id,
                            .steers = json_array(),
                            .dispositions = json_object(),
                            .count.start_ms = cf_clock_ms(),
                            .stop = "end_turn" };
    struct cf_error err;
    json_t *message;
    int status;

    if (hn_prompt_read(agent, blocks, &message, &err) < 0) {
        hn_wire_error(&agent->wire, id, HN_INVALID_PARAMS, err.text);
    } else {
        agent->turn = &turn;
        json_array_append_new(session->messages, message);
        status = run_stages(&turn, &err);
        turn.is_settling = true;
        if (agent->options->declared.native_checkpoint && !agent->wire.at_eof)
            send_checkpoint(&turn);
        answer(&turn, status, &err);
        agent->turn = NULL;
    }
    hn_call_release(&turn.call);
    json_decref(turn.steers);
    json_decref(turn.dispositions);
}
