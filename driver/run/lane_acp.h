/*
 * run/lane_acp.h: what goes on beside an ACP turn: permissions and questions that wait for an
 * answer, steers and drains, files and terminals that the agent asks for. Private to the lane.
 *
 * Verbs of the public door only mark what they want here and kick the loop; cf_acp_wishes carries
 * it out with nothing of ours on the stack.
 */
#ifndef CF_RUN_LANE_ACP_H
#define CF_RUN_LANE_ACP_H

#include "run/hall.h"

#include <sys/queue.h>

#define CF_ACP_ACK_MS 15000u /* a steer or a drain is answered by then, or the run fails */
#define CF_ACP_LIST_PAGES 64u /* of session/list that are read */
#define CF_ACP_HELD_MOST 64u /* actions that ended a turn and may be answered in a later one */

/* A permission or a question of the agent's that waits for the host. */
struct cf_ask {
    TAILQ_ENTRY(cf_ask) in_list;
    uint64_t number;
    const void *handle; /* of the wire */
    bool is_question, is_decided;
    json_t *params;     /* as they came */
    char *option;       /* decided: NULL denies */
    json_t *answer;     /* decided, of a question */
};

struct cf_steer {
    TAILQ_ENTRY(cf_steer) in_list;
    struct cf_run *run;
    char id[40];
    json_t *content;
    bool was_sent, is_sent; /* is: its answer is owed */
    uint64_t sent_ms;
};

struct cf_fs_job;
struct cf_terminal;

struct cf_acp_side {
    TAILQ_HEAD(, cf_ask) asks;
    uint64_t last_ask;

    TAILQ_HEAD(, cf_steer) steers;
    json_t *steered;  /* ids ever taken, so that none is delivered twice */
    bool drain_is_pending, drain_is_accepted, drain_is_refused, drain_was_asked;
    uint64_t drain_ms; /* when it was asked for */

    json_t *held;     /* [{"kind","id","params"}]: what ended turns, oldest first */
    json_t *given;    /* the same with "allow" or "content": what this turn's prompt answers */

    TAILQ_HEAD(, cf_fs_job) jobs; /* the first one is being served */
    unsigned job_count;
    TAILQ_HEAD(, cf_terminal) terminals;
    unsigned terminal_count;
    uint64_t last_terminal;

    const char *entered_by; /* session/new, session/load or session/resume; static */
    json_t *latest;         /* of what session/list has told so far */
    unsigned pages;
    const char *farewell;   /* the request of the farewell whose answer is owed; static */

    json_t *settings; /* [[method, params], ...] still to be sent before the session is ready */
};

/* lane_acp_session.c: where the handshake stands (run->session_step), and its events */
enum { CF_ACP_SPAWN, CF_ACP_INITIALIZE, CF_ACP_SESSION, CF_ACP_OPEN };
void cf_acp_clock(struct cf_run *run, int step, uint64_t budget_ms);
void cf_acp_handshake(struct cf_run *run);

/* The end of the session as the options want it (session/close, session/delete, logout), each after
 * the answer to the one before; then the harness's input ends. What was asked for by name and not
 * granted is the run's error, unless it has one. */
void cf_acp_farewell(struct cf_run *run);
/* What the harness says meanwhile: answers count, anything else is past its time. */
void cf_acp_farewell_heard(struct cf_run *run, const char *bytes, size_t len);
void cf_acp_farewell_over(struct cf_run *run); /* an answer that is still owed will not be waited for */
void cf_acp_initialized(void *user, json_t *result, uint64_t frame);
void cf_acp_authenticated(void *user, uint64_t frame);
void cf_acp_session_open(void *user, const char *session_id, json_t *result, uint64_t frame);

/* lane_acp_prompt.c */
CF_CHECKED int cf_acp_begin(struct cf_run *run, struct cf_error *err);
/* "file:///a%20b"; yours, NULL out of memory. */
char *cf_acp_file_uri(const char *path);

/* lane_acp_ask.c */
void cf_acp_on_permission(struct cf_run *run, const struct cf_acp_permission *permission);
bool cf_acp_on_elicitation(struct cf_run *run, const struct cf_acp_request *request);
void cf_acp_asks_wishes(struct cf_run *run);
bool cf_acp_asks_gone(struct cf_run *run, const void *handle); /* true: it was one of these */
/* What the prompt answers of earlier turns, as a text block for the agent; *ret_text yours, NULL when
 * there is nothing to say. */
CF_CHECKED int cf_acp_reinject(struct cf_run *run, char **ret_text, struct cf_error *err);
void cf_acp_asks_free(struct cf_acp_side *side);

/* lane_acp_steer.c */
void cf_acp_steers_wishes(struct cf_run *run);
void cf_acp_interrupt(struct cf_run *run);
void cf_acp_steers_turn_over(struct cf_run *run); /* what was not sent stays unsent */
void cf_acp_steers_free(struct cf_acp_side *side);

/* lane_acp_fs.c: true when the request is one of these; it is answered now or later */
bool cf_acp_on_fs(struct cf_run *run, const struct cf_acp_request *request);
void cf_acp_fs_continue(struct cf_run *run); /* stdin has taken something */
bool cf_acp_fs_gone(struct cf_run *run, const void *handle);
void cf_acp_fs_free(struct cf_acp_side *side);
/* The part of an absolute path beneath the working directory; NULL when it is not beneath it. */
const char *cf_acp_beneath(const char *root, const char *path);

/* lane_acp_terminal.c */
bool cf_acp_on_terminal(struct cf_run *run, const struct cf_acp_request *request);
bool cf_acp_terminal_gone(struct cf_run *run, const void *handle);
void cf_acp_terminals_free(struct cf_acp_side *side);

#endif
