/* acp-harness/turn.h: one session/prompt from its arrival to its response. */
#ifndef HN_TURN_H
#define HN_TURN_H

#include "agent.h"

struct hn_turn {
    struct hn_agent *agent;
    struct hn_session *session;
    json_t *request_id;
    struct hn_call call;    /* the model call in flight, when is_open */
    bool is_cancelled;
    bool is_withdrawn;      /* by $/cancel_request: answered -32800 */
    bool is_draining;
    bool is_settling;       /* no further model call will be made: a steer comes too late */
    char message_id[16];    /* of the message being streamed */
    size_t chunks;
    json_t *steers;         /* contents that wait for the next model call */
    json_t *dispositions;   /* steer id -> what was answered; a repeat gets the same */
    struct {
        json_int_t shell, files, mcp, model;
        uint64_t start_ms;
    } count;
    const char *stop;       /* stop reason; static */
};

/* Runs the whole turn and answers the request. */
void hn_turn_run(struct hn_agent *agent, struct hn_session *session, json_t *id, json_t *prompt);

/* What the client may do to a running turn (`turn` NULL: none runs). */
void hn_turn_cancel(struct hn_turn *turn);
const char *hn_turn_steer(struct hn_turn *turn, const char *id, json_t *content);
const char *hn_turn_drain(struct hn_turn *turn);

/* For the parts of a turn (stages.c, converse.c). True: the turn should end now. */
bool hn_turn_is_over(const struct hn_turn *turn);

/* Sends a request to the client and waits. The result, yours; NULL when the client answered an
 * error, went away, or the turn is over. */
json_t *hn_turn_ask_client(struct hn_turn *turn, const char *method, json_t *params);

/* An update attributed to `subagent` (NULL: the main loop). Takes `update`. */
void hn_turn_update(struct hn_turn *turn, const char *subagent, json_t *update);
void hn_turn_thought(struct hn_turn *turn, const char *subagent, const char *text);

/* One tool call on the wire. `call_id` has room for 24. Takes `input`, `content`, `output`. */
void hn_tool_begin(struct hn_turn *turn, char *call_id, const char *subagent, const char *title,
                   const char *kind, json_t *input);
void hn_tool_step(struct hn_turn *turn, const char *call_id, const char *subagent,
                  const char *status);
void hn_tool_end(struct hn_turn *turn, const char *call_id, const char *subagent, bool failed,
                 json_t *content, json_t *output);
json_t *hn_text_content(const char *text); /* [{"type":"content","content":{text}}] */

/* Whether a built-in tool may run in this session. */
bool hn_turn_may(const struct hn_turn *turn, unsigned tool);

/* stages.c: what a turn shows before it asks its model. */
void hn_stage_opening(struct hn_turn *turn);
void hn_stage_look_around(struct hn_turn *turn);
void hn_stage_question(struct hn_turn *turn);
void hn_stage_client_files(struct hn_turn *turn);
void hn_stage_client_terminal(struct hn_turn *turn);
void hn_stage_subagents(struct hn_turn *turn);
void hn_stage_closing(struct hn_turn *turn);

/* prompt.c: the prompt's blocks as one user message; -1 with `err` when a block is not taken. */
int hn_prompt_read(struct hn_agent *agent, json_t *blocks, json_t **ret_message,
                   struct cf_error *err);

/* converse.c: model calls and tool calls until the model has said its last word. */
int hn_converse(struct hn_turn *turn, struct cf_error *err);

/* tools.c: the built-in tools offered to the model; and one of its calls carried out. The text
 * for the model is yours. */
json_t *hn_tools_offered(const struct hn_turn *turn);
json_t *hn_tool_carry_out(struct hn_turn *turn, json_t *call);

#endif
