/*
 * run/hall.h: the one hall where sandbox, wire, relay and observe meet. Private to this room.
 *
 * Verbs of the public door only store what is wanted and kick the loop (hall.c), so that no
 * callback is ever called from inside a verb and nothing is freed under a caller's feet.
 */
#ifndef CF_RUN_HALL_H
#define CF_RUN_HALL_H

#include <cfrunner/run.h>

#include "base/buf.h"
#include "base/log.h"
#include "base/tail.h"
#include "capability/capability.h"
#include "engine/engine.h"
#include "loop/steps.h"
#include "observe/observe.h"
#include "relay/relay.h"
#include "run/files.h"
#include "run/gateway.h"
#include "run/hooks.h"
#include "run/image.h"
#include "run/keep.h"
#include "run/options.h"
#include "run/perturb.h"
#include "run/record.h"
#include "run/pool.h"
#include "run/release.h"
#include "run/voice.h"
#include "sandbox/sandbox.h"
#include "schema/schema.h"
#include "wire/wire.h"

#define CF_HALL_STDERR_BYTES (64u * 1024u)
#define CF_HALL_FINDINGS_MOST 200u

enum cf_hall_state { CF_HALL_OPENING, CF_HALL_OPEN, CF_HALL_DOWN, CF_HALL_OVER };
enum cf_turn_state { CF_TURN_NONE, CF_TURN_LISTING, CF_TURN_STAGING, CF_TURN_RUNNING, CF_TURN_DRAINING, CF_TURN_CLEARING };

struct cf_prompt { /* the turn's wishes, decoded from cf_run_prompt's document */
    json_t *json;  /* owns what is borrowed below */
    const char *text;
    size_t text_len;
    json_t *output_schema; /* or NULL */
    const char *prompt_nonce, *answer_nonce, *prior_nonce, *answer_json;
    uint64_t hold_ms; /* the replay model's answer waits for a steer's or a drain's */
    json_t *blocks, *approvals, *answers; /* acp; or NULL */
};

enum {
    CF_ROW_RECORD, CF_ROW_VOICE, CF_ROW_ENGINE, CF_ROW_OWNER, CF_ROW_REAP, CF_ROW_IMAGE, CF_ROW_RELAY, CF_ROW_SANDBOX, CF_ROW_FILES,
    CF_ROW_HOOKS, CF_ROW_SESSION, CF_ROW_COUNT
};

/* What the two wires do differently. */
struct cf_lane {
    int (*open)(struct cf_run *run, struct cf_error *err);   /* ends with cf_hall_session_ready/failed */
    int (*begin)(struct cf_run *run, struct cf_error *err);  /* the turn's work; state is STAGING */
    void (*cancel)(struct cf_run *run);                      /* the turn in flight shall end */
    void (*resume)(struct cf_run *run);                      /* reading may go on */
    void (*stop)(struct cf_run *run);                        /* no more callbacks of ours; process may live */
    void (*release)(struct cf_run *run);
    /* each may be NULL */
    void (*interrupt)(struct cf_run *run); /* the turn ends as gently as the harness allows; NULL: cancel */
    void (*wishes)(struct cf_run *run);    /* what verbs of its own left */
    void (*turn_over)(struct cf_run *run); /* its terminal is out, on_turn follows */
};
extern const struct cf_lane cf_acp_lane, cf_oneshot_lane;

/* The process of a lane: one for acp, one a turn for oneshot. */
struct cf_harness {
    struct cf_process *process;
    struct cf_buf input;     /* waiting for the process's stdin */
    size_t input_at;
    bool input_ends;         /* close stdin when input is out */
    bool has_started, has_exited, stdout_ended, stderr_ended;
    struct cf_exit exit;
    struct cf_tail stderr_tail;
    uint64_t stdout_bytes, stderr_bytes, started_ms;
};

struct cf_run {
    uv_loop_t *loop;
    struct cf_run_host host;
    struct cf_release release;
    struct cf_run_options options;
    char id[48];
    struct cf_log log;
    enum cf_hall_state state;
    uint64_t opened_ms;

    struct cf_steps steps;
    uv_timer_t kick, whole, phase, settle; /* wishes; whole command; handshake/turn/idle; drains */
    uv_timer_t idle, ack, linger; /* ack: steers and drains not yet answered; linger: terminals' output */
    int handles_open;

    /* wishes stored by verbs */
    bool close_wanted, cancel_wanted, interrupt_wanted, resume_wanted, back_wanted;
    struct cf_prompt next_prompt;
    bool prompt_wanted;
    uint64_t close_grace_ms;
    bool end_wanted; /* closed for a reason: nothing but teardown any more */

    struct cf_pool *pool;   /* or NULL: the engine, the owner and the image are our own */
    struct cf_pool_wait pool_wait;
    struct cf_warm *warm;   /* kept for us, not used yet */
    bool is_seeded;         /* its sandbox stands on the pool's seed */
    struct cf_pace_ticket ticket;
    bool pace_wanted;       /* the sandbox's row waits for its turn */

    struct cf_voice *voice; /* or NULL: no journal */
    struct cf_recorder *record; /* or NULL: no recording */
    struct cf_perturb *perturb; /* or NULL: no trouble is made */
    struct cf_engine *engine;
    bool connect_pending, image_pending, image_given_up, sandbox_pending, begun;
    struct cf_owner *owner;
    bool owner_begun, reap_pending, reap_awaited;
    struct cf_image *image;
    const struct cf_image_facts *image_facts;
    struct cf_gateway *gateway; /* opens and closes the next two */
    struct cf_relay *relay;
    struct cf_egress *egress;   /* NULL: no name is open */
    struct cf_relay_dialect dialects[4]; /* what the catalog knows, for the relay */
    struct cf_sandbox *sandbox;
    struct cf_hall_door *doors; /* list of open relay connections */
    unsigned door_count;

    const struct cf_lane *lane;
    struct cf_harness harness;
    struct cf_acp *acp;
    struct cf_acp_side *side; /* acp: what is asked, steered and served beside the turn; lane_acp.h */
    struct cf_oneshot *oneshot;
    struct cf_lines shown;   /* oneshot: stdout as lines, for the host's eyes */
    struct cf_schema *output_schema;
    char *schema_text;
    int clearing;            /* files of the turn still to be unlinked */
    int session_step;        /* acp: where the handshake stands */
    struct cf_declaration declaration;
    json_t *capability_set, *declared, *agent_info;
    bool session_pending;    /* the session row waits for the lane */
    bool login_tried;
    bool lane_closing;

    struct cf_stage *stage;     /* while files go in */
    struct cf_collect_slot collects[CF_COLLECT_KINDS]; /* from its preparation until all came out */
    struct cf_keep *keep;       /* what the host asked to take out, until it has heard of it */
    void (*keep_then)(struct cf_run *run); /* the way back waits for it */
    json_t *held_state;         /* acp: checkfu.journal_checkpoint as the agent last gave it, or NULL */
    uint64_t held_turns;        /* how many turns it knows of */
    uint64_t turns_before;      /* of the conversation, in the runs before this one */
    struct cf_changes *changes;
    struct cf_hooks *hooks;     /* while hooks run */
    bool sandbox_lost, hook_aborted, after_pending;
    uint64_t after_began_ms;    /* of what comes between the last turn and teardown */

    struct cf_normalizer *normalizer;
    struct cf_grammar *grammar;
    uint64_t seq;
    bool is_paused;

    /* the turn in flight */
    enum cf_turn_state turn_state;
    uint32_t turn;
    uint64_t turn_began_ms;
    struct cf_prompt prompt;
    bool is_canceled, terminal_sent;
    char stop_reason[32];
    json_t *session;                 /* {"id","entered_by","left_by":[...],"refused"} */
    json_t *turn_meta, *held_action; /* requires_action, told when the turn settles */
    uint64_t terminal_frame;
    struct cf_error turn_error;
    bool turn_failed;
    unsigned acks_owed;      /* the terminal waits for these answers */
    bool conclude_wanted;

    /* for the result */
    struct cf_error error;   /* first failure of the run; kind NONE: none */
    char at[64];             /* the phase, and its step, entered last */
    bool engine_was_slow;    /* the whole deadline passed before there was a harness */
    bool model_was_silent;   /* a turn's deadline passed while a call waited for the model */
    bool failure_told;       /* its observation is out */
    json_t *findings, *turns, *timings, *removed, *left, *isolation, *limits;
    json_t *image_json, *engine_json, *ledger, *relay_totals, *egress_json;
    json_t *staged, *collected; /* or NULL */
    json_t *staged_files;    /* one item a file of options.files, in order: resource links; or NULL */
    uint64_t teardown_began_ms, took_ms[CF_ROW_COUNT];
    unsigned findings_dropped;
    bool teardown_proven;
    uint64_t pids_refused, pids_limit; /* processes that the sandbox was refused so far, as far as told */
    struct cf_error suspicion; /* what a deadline would be called, while the sandbox is harked for */
    uint32_t heard_turn; /* which turn's; of a handshake, which step's */
    const char *teardown_host; /* of the sandbox; NULL: there was none */
    char *failure_tail;      /* last lines of a failed build, or of cf-init's own words */
    json_t *exit_facts;
};

/* hall.c */
int cf_hall_open(uv_loop_t *loop, struct cf_pool *pool, const char *release_json, size_t release_len,
                 const char *options_json, size_t options_len, const struct cf_run_host *host, struct cf_run **ret_run,
                 struct cf_error *err);
int cf_hall_check_sigpipe(struct cf_error *err);
int cf_hall_check_image(const struct cf_release *release, const struct cf_run_options *options, struct cf_error *err);
void cf_hall_kick(struct cf_run *run);
void cf_hall_fail(struct cf_run *run, const struct cf_error *err); /* the run cannot go on */
void cf_hall_session_ready(struct cf_run *run);
void cf_hall_phase(struct cf_run *run, const char *name, const char *step, uint64_t took_ms);
uint64_t cf_hall_left_ms(const struct cf_run *run); /* of the whole command */

/* rows.c */
extern const struct cf_step cf_rows[CF_ROW_COUNT];
static inline struct cf_run *
cf_run_of(struct cf_steps *steps)
{
    return (struct cf_run *)((char *)steps - offsetof(struct cf_run, steps));
}
void cf_rows_lane_gone(struct cf_run *run); /* the harness has ended, or was waited for long enough */
void cf_rows_hurry(struct cf_run *run);
bool cf_rows_are_after(const struct cf_run *run); /* on the way back, but teardown has not begun yet */
bool cf_rows_is_silent(const struct cf_run *run, const struct cf_step *row); /* no phase of its own */

/* turn.c */
void cf_turn_begin(struct cf_run *run);
/* The wire's own end: what the turn came to. Settles after `drain_ms` of quiet. */
void cf_turn_finish(struct cf_run *run, const char *stop_reason, json_t *turn_meta, uint64_t frame, uint64_t drain_ms);
void cf_turn_fail(struct cf_run *run, const struct cf_error *err); /* settles at once */
void cf_turn_conclude(struct cf_run *run);    /* the turn's output is over: its file changes, then settle */
void cf_turn_settle(struct cf_run *run);      /* terminal observation, on_turn */
void cf_turn_activity(struct cf_run *run);    /* bytes came: restarts quiet and idle clocks */
/* One of acks_owed came. The last one lets a turn that waits for it conclude. */
void cf_turn_acknowledged(struct cf_run *run);
int cf_prompt_decode(const char *json, size_t len, struct cf_prompt *prompt, struct cf_error *err);
void cf_prompt_done(struct cf_prompt *prompt);

/* emit.c: observations, findings, frames on their way to the host */
int cf_emit_open(struct cf_run *run, struct cf_error *err);
void cf_emit_finding(struct cf_run *run, const char *id, uint64_t frame, const char *text);
/* The lease's token goes to the agent where it is given MCP servers; nobody else sees it. A copy of
 * the same length with stars in its place, yours; NULL: it is not in there. */
char *cf_emit_without_token(const struct cf_run *run, const char *line, size_t len);
void cf_emit_frame(struct cf_run *run, bool from_harness, uint64_t number, const char *line, size_t len);
void cf_emit_failure(struct cf_run *run, const struct cf_error *err, uint64_t frame);

/* process.c: spawning the harness and feeding it */
int cf_harness_spawn(struct cf_run *run, char **argv, bool with_stdin, const struct cf_process_events *events, struct cf_error *err);
int cf_harness_say(struct cf_run *run, const char *bytes, size_t len); /* queues for stdin */
void cf_harness_pump(struct cf_run *run);
void cf_harness_end_input(struct cf_run *run);
int cf_harness_count_output(struct cf_run *run, size_t len); /* -1: over the budget, the run has failed */
void cf_harness_stderr(struct cf_run *run, const char *bytes, size_t len);
void cf_harness_refused(struct cf_run *run, uint64_t refused, uint64_t limit);
void cf_harness_exited(struct cf_run *run, const struct cf_exit *exit);
/* The environment of a hook: the author's variables, without the way to the model. Yours, with each
 * item (cf_argv_free); NULL: it does not fit. */
char **cf_harness_env_for_hook(const struct cf_run *run);
void cf_harness_reset(struct cf_run *run); /* forgets the process; keeps tail and facts for the result */
void cf_harness_start_error(const struct cf_run *run, const struct cf_start_failure *why, struct cf_error *err);
/* "exit code 3", "signal 9 (SIGKILL), out of memory (limit 512 MiB)"; adds the last stderr line. */
void cf_harness_exit_error(const struct cf_run *run, const char *when, struct cf_error *err);

/* doors.c */
void cf_doors_on_door(void *user, struct cf_door *door, unsigned port);
void cf_doors_close_all(struct cf_run *run);

/* result.c */
json_t *cf_result_make(struct cf_run *run);
void cf_result_turn(struct cf_run *run, const char *outcome);

#endif
