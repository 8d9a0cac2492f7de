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
 * the end on_result once, then on_closed once, and nothing after it.
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
    uint32_t reserved;
    void *user;    /* handed back as the first argument of every callback */

    /* A phase began (took_ms UINT64_MAX) or ended. `name`: "engine", "image", "sandbox", "relay",
     * "session", "turn", "teardown"; `step` names a part of it ("create", "push", ...) or is "". */
    void (*on_phase)(void *user, const char *name, const char *step, uint64_t took_ms);
    /* {"status":...,"id":...,"progressDetail":{...}}: one progress object of pull, build or push. */
    void (*on_progress)(void *user, const char *what, const char *json, size_t len);
    int (*on_observation)(void *user, const struct cf_observation *observation);
    /* level 0 error ... 4 trace */
    void (*on_log)(void *user, int level, const char *room, const char *line);
    /* A wire frame (acp) or output line (oneshot), LF not included. from_harness 0: ours. */
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
};

/*
 * Opens a run. Both documents are copied. Returns 0 with *ret_run set, or <0 with `err` filled
 * (CF_ERROR_CONFIG, CF_ERROR_TOO_LARGE, CF_ERROR_MEMORY, ...) and no callback ever. A run that
 * fails later tears itself down; cf_run_close is still to be called, once, at any time.
 */
CF_API CF_CHECKED int cf_run_open(struct uv_loop_s *loop, const char *release_json, size_t release_len,
                                  const char *options_json, size_t options_len,
                                  const struct cf_run_host *host, struct cf_run **ret_run,
                                  struct cf_error *err);

/*
 * Starts the next turn: {"text":"..."} and optionally "output_schema": {...} (oneshot), "replay":
 * {"prompt_nonce","answer_nonce","prior_nonce","answer_json"} (what the replay model looks for and
 * says). Copied. <0 when a turn is in flight, before on_ready, or when the run is over.
 */
CF_API CF_CHECKED int cf_run_prompt(struct cf_run *run, const char *prompt_json, size_t len, struct cf_error *err);

/* Ends the turn in flight: session/cancel where the wire has it, else the process is ended. The
 * turn settles with stop reason "interrupted". Idempotent; without a turn it does nothing. */
CF_API void cf_run_cancel(struct cf_run *run);

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
