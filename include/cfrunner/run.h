/*
 * cfrunner/run.h: one run of one harness, from an image to nothing left.
 *
 * A run is opened with two JSON documents, the release (what the harness's author wrote;
 * cfrunner/release.h) and the options (what this run allows; proto/run-options.schema.json), and a
 * table of callbacks. Everything happens on the caller's libuv loop and thread; no call blocks;
 * every callback is called from the loop, never from inside cf_run_open or a verb. Bytes handed
 * to a callback are borrowed until it returns. Any verb, cf_run_close included, may be called
 * from inside any callback.
 *
 * Order of callbacks: on_phase ... on_ready; then for each prompt on_observation ... on_turn; at
 * the end on_result once, then on_closed once, and nothing after it. What was asked for by
 * cf_run_collect or cf_run_checkpoint is answered whenever it is done, before on_result.
 *
 * The host ignores or blocks SIGPIPE: cf_run_open refuses a process in which it is at its default.
 */
#ifndef CFRUNNER_RUN_H
#define CFRUNNER_RUN_H

#include <cfrunner/error.h>
#include <cfrunner/observation.h>
#include <cfrunner/version.h>

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

struct uv_loop_s;
struct cf_run;

/* on_observation's answers. CF_RUN_PAUSE: no more of the harness's output is read until
 * cf_run_resume; what was already read still arrives. */
#define CF_RUN_CONTINUE 0
#define CF_RUN_PAUSE 1

/* Once per process, before the first run: curl's and sodium's own initialization. Returns 0 or
 * a negative number with `err` filled. Idempotent; not thread-safe against itself. */
CF_API CF_CHECKED int cf_library_init(struct cf_error *err);

struct cf_run_host {
    uint32_t size; /* sizeof(struct cf_run_host) where the host was built */
    uint16_t abi_major, abi_minor; /* CF_ABI_MAJOR, CF_ABI_MINOR there; a loaded driver refuses
                                      another major, a linked library takes 0 as its own */
    void *user;    /* handed back as the first argument of every callback */

    /* A phase began (took_ms UINT64_MAX) or ended. `name`: "journal", "engine", "image", "sandbox", "relay",
     * "files", "hooks", "session", "turn", "teardown"; `step` names a part of it ("create", "push", ...) or is "". */
    void (*on_phase)(void *user, const char *name, const char *step, uint64_t took_ms);
    /* {"status":...,"id":...,"progressDetail":{...}}: one progress object of pull, build or push. */
    void (*on_progress)(void *user, const char *what, const char *json, size_t len);
    int (*on_observation)(void *user, const struct cf_observation *observation);
    /* level 0 error ... 4 trace */
    void (*on_log)(void *user, int level, const char *room, const char *line);
    /* A wire frame (acp) or output line (oneshot), LF not included. from_harness 0: ours. oneshot: the
     * turn's prompt comes first, whole, as number 0 of ours. */
    void (*on_frame)(void *user, int from_harness, uint64_t number, uint64_t at_ms, const char *line, size_t len);
    void (*on_stderr)(void *user, const char *bytes, size_t len);
    /* One call in the relay's ledger, as JSON, when it has ended. */
    void (*on_call)(void *user, const char *json, size_t len);
    /* {"id":"stdout_pollution","frame":N,"text":"..."}: something worth knowing that is no failure. */
    void (*on_finding)(void *user, const char *json, size_t len);
    /* The session stands: cf_run_prompt may be called. Once, unless the run fails first. */
    void (*on_ready)(void *user);
    /* The turn is settled, its last observation is out: {"turn":K,"outcome":"finished|failed|
     * retryable_failure|requires_action","stop_reason":...,"error":{...}|null,"took_ms":N}. The
     * next prompt may follow, unless "run_over" is true: then the run is being torn down. */
    void (*on_turn)(void *user, uint32_t turn, const char *json, size_t len);
    /* After teardown, once: proto/run-result.schema.json. */
    void (*on_result)(void *user, const char *json, size_t len);
    void (*on_closed)(void *user);

    /* acp, options.permission "ask": {"request":N,"tool_use_id","tool_call":{...},"options":[
     * {"optionId","name","kind"}]}. Answer with cf_run_permission_answer; the turn waits for it,
     * within its deadline. */
    void (*on_permission)(void *user, uint64_t request, const char *json, size_t len);
    /* acp, options.elicitation "ask": {"request":N,"question":{the action of kind question},
     * "params":{...}}. Answer with cf_run_question_answer. */
    void (*on_question)(void *user, uint64_t request, const char *json, size_t len);
    /* A permission or question is over without an answer of the host's. */
    void (*on_request_gone)(void *user, uint64_t request);
    /* acp, once per cf_run_steer: "delivered", "queued" or "refused", the harness's own word, after
     * its observation; or "unsent": the turn was over before it could be sent. A steer refused or
     * unsent is still the caller's: it goes into a later prompt. */
    void (*on_steering)(void *user, const char *event_id, const char *disposition);
    /* acp: {"version":1,"state":"..."}, the state to keep for checkfu.resume; json NULL: the state
     * became too large, and what is held is void. */
    void (*on_checkpoint)(void *user, const char *json, size_t len);

    /* since 1.1 */
    /* Once for each cf_run_collect that returned 0, before on_result at the latest: an item as of the
     * result's "collected". "error" is null, or why the copying ended early (the run's end is such
     * a reason); "complete" false: "refused" names what was not taken. */
    void (*on_collected)(void *user, const char *json, size_t len);
    /* Once for each cf_run_checkpoint that returned 0, before on_result at the latest:
     * proto/checkpoint.schema.json. "error" is null, or why there is none. */
    void (*on_checkpoint_made)(void *user, const char *json, size_t len);
};

/*
 * Opens a run. Both documents are copied. Returns 0 with *ret_run set, or <0 with `err` filled
 * (CF_ERROR_CONFIG, CF_ERROR_TOO_LARGE, CF_ERROR_MEMORY, ...) and no callback ever. A run that
 * fails later tears itself down; cf_run_close is still to be called, once, at any time.
 * Options with a journal: its directory and the identity file are read inside this call, which may
 * wait for a disk; a wrong key, id or path is refused here.
 */
CF_API CF_CHECKED int cf_run_open(struct uv_loop_s *loop, const char *release_json, size_t release_len,
                                  const char *options_json, size_t options_len,
                                  const struct cf_run_host *host, struct cf_run **ret_run,
                                  struct cf_error *err);

/*
 * Starts the next turn: {"text":"..."} and optionally
 *   "output_schema": {...}     oneshot (acp: options.session_meta);
 *   "blocks": [...]            acp: further content blocks, as the agent's promptCapabilities allow;
 *   "approvals": [{"tool_use_id","decision":"allow"|"deny"}], "answers": [{"question","items":{id:
 *                              value}}]: what earlier turns ended with as requires_action; said to
 *                              the agent before the text, and given when it asks the same again;
 *   "replay": {"prompt_nonce","answer_nonce","prior_nonce","answer_json","hold_ms"}: what the replay
 *                              model looks for and says; with hold_ms it says nothing before a
 *                              steer or an interrupt of this turn was answered, or so long.
 * Copied. <0 when a turn is in flight or a checkpoint is being made, before on_ready, or when the
 * run is over.
 */
CF_API CF_CHECKED int cf_run_prompt(struct cf_run *run, const char *prompt_json, size_t len, struct cf_error *err);

/* Ends the turn in flight: session/cancel where the wire has it, else the process is ended. The
 * turn settles with stop reason "interrupted". Idempotent; without a turn it does nothing. */
CF_API void cf_run_cancel(struct cf_run *run);

/*
 * acp: text for the turn in flight: {"content":"...","id":"evt_" + 32 hex digits}; without an id one
 * is made. Copied. ret_event_id (may be NULL) gets it. An id that was steered before is not a second
 * delivery: 0, and nothing is sent. The acknowledgement comes by on_steering; one that never comes
 * fails the run. <0 with nothing sent: the harness did not declare steer (CF_ERROR_INCOMPATIBLE),
 * no turn is in flight, or the document is wrong.
 */
CF_API CF_CHECKED int cf_run_steer(struct cf_run *run, const char *steer_json, size_t len,
                                   char ret_event_id[40], struct cf_error *err);

/* Ends the turn in flight as gently as the harness allows. Declared cooperative: it is asked to
 * drain and settles its own terminal within deadlines_ms.drain, else it is ended. Otherwise its
 * process is ended: over ACP the run with it, the turn interrupted. Idempotent. */
CF_API void cf_run_interrupt(struct cf_run *run);

/* Answers on_permission with one of the offered options; option_id NULL: denied, by the offered
 * way to refuse where there is one. Copied. <0 when the request is not pending (any more) or the
 * option was not offered. */
CF_API CF_CHECKED int cf_run_permission_answer(struct cf_run *run, uint64_t request, const char *option_id,
                                               struct cf_error *err);

/* Answers on_question: {"action":"accept","content":{...}}, {"action":"decline"} or
 * {"action":"cancel"}. Copied. <0 when the request is not pending or the answer is none of these. */
CF_API CF_CHECKED int cf_run_question_answer(struct cf_run *run, uint64_t request, const char *answer_json,
                                             size_t len, struct cf_error *err);

/*
 * Copies the working directory as it stands into a folder of this machine, between two turns or in
 * the middle of one: {"directory":"/absolute"}, absent or empty and writable to nobody else, and
 * optionally "path", a file or a folder of the working directory, in place of all of it. Copied.
 * Only folders and regular files are made, no symlink is followed, options.limits bound it
 * (collect_entries counts the whole working directory). What a program writes meanwhile comes as it
 * was found, and a file that is gone again is refused. At any time from on_ready until cf_run_close,
 * one collection or checkpoint at a time: else <0, as with a document that is wrong. The end comes
 * by on_collected, also when the run ends before: what was taken until then stays in the folder.
 */
CF_API CF_CHECKED int cf_run_collect(struct cf_run *run, const char *collect_json, size_t len, struct cf_error *err);

/*
 * Keeps what a later run needs to go on from here: {"directory":"/absolute"} gets the working
 * directory, as by cf_run_collect; on_checkpoint_made gets the document, which is to be given to
 * that run as options.restore. Copied. Between two turns only, and no prompt is taken until it is
 * made. <0 otherwise, with retention ephemeral_zdr, and for a harness whose capability set says
 * checkpoint none (CF_ERROR_INCOMPATIBLE): a oneshot-v1 release without a resume flag.
 */
CF_API CF_CHECKED int cf_run_checkpoint(struct cf_run *run, const char *checkpoint_json, size_t len,
                                        struct cf_error *err);

/* Takes back CF_RUN_PAUSE. */
CF_API void cf_run_resume(struct cf_run *run);

/*
 * Tears down whatever stands, in any phase: on_result (unless it came already), then on_closed,
 * after which `run` is gone. grace_ms bounds the orderly end; a second call with a smaller one
 * shortens it. `why` (may be NULL) is kept as the run's error when it has none yet.
 */
CF_API void cf_run_close(struct cf_run *run, uint64_t grace_ms, const struct cf_error *why);

#ifdef __cplusplus
}
#endif
#endif
