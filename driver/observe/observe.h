/*
 * observe/observe.h: messages -> observations, with every bound of the contract, and the grammar
 * that says whether one may come now. Pure.
 */
#ifndef CF_OBSERVE_OBSERVE_H
#define CF_OBSERVE_OBSERVE_H

#include <cfrunner/observation.h>

#include "base/error.h"
#include "capability/capability.h"

#include <jansson.h>
#include <stdbool.h>

/* ---- normalizer ------------------------------------------------------------------------- */

struct cf_normalizer;
/* seq, at_ms and turn are not yet set; borrowed until return. */
typedef void cf_observation_fn(void *user, const struct cf_observation *observation);
/* `id` is static: "shortened", "empty_turn", "undecodable_meta", "unknown_meta", "misplaced_meta",
 * "undecodable_update", "non_text_block", "repeated_text", "late_update", "duplicate_tool_call",
 * "tool_without_result", "subagent_settled", "second_terminal", "table_full", "cost_ignored". Of
 * each 100 are told. */
typedef void cf_normalizer_finding_fn(void *user, const char *id, uint64_t frame, const char *text);
/* checkfu.journal_checkpoint: the payload with its state, or NULL for too_large: drop what is held. */
typedef void cf_checkpoint_fn(void *user, json_t *checkpoint, uint64_t frame);

struct cf_normalizer_options {
    bool is_acp;
    cf_observation_fn *on_observation;
    cf_normalizer_finding_fn *on_finding;   /* may be NULL */
    cf_checkpoint_fn *on_checkpoint;        /* may be NULL; borrowed until return */
    void *user;
    uint8_t seed[16]; /* of the ids minted here; all zero: random. A replay gives the live run's. */
};
/* NULL only out of memory. Callbacks may not call back into the normalizer that calls them. */
struct cf_normalizer *cf_normalizer_new(const struct cf_normalizer_options *options);
void cf_normalizer_free(struct cf_normalizer *normalizer);
const uint8_t *cf_normalizer_seed(const struct cf_normalizer *); /* 16 bytes, for the recording */
/* True once memory ran out: an observation may be missing and the run must fail. */
bool cf_normalizer_is_lost(const struct cf_normalizer *);

void cf_normalizer_ready(struct cf_normalizer *, json_t *capability_set, uint64_t frame);
void cf_normalizer_declare(struct cf_normalizer *, const struct cf_declaration *declaration);
void cf_normalizer_turn_begin(struct cf_normalizer *);
/* acp */
void cf_normalizer_update(struct cf_normalizer *, json_t *params, json_t *update, uint64_t frame);
void cf_normalizer_permission(struct cf_normalizer *, json_t *tool_call, uint64_t frame); /* merges, may emit tool_use */
/* The tool_use_id that the observations carry for an ACP toolCallId (minted suffix and all); NULL: never seen. */
const char *cf_normalizer_tool_use_id(struct cf_normalizer *, const char *tool_call_id);
/* oneshot */
void cf_normalizer_text(struct cf_normalizer *, const char *text, size_t len, uint64_t line);
/* A harness-authored observation; returns -1 with `err` when the closed form is broken (pointer named). */
CF_CHECKED int cf_normalizer_object(struct cf_normalizer *, json_t *object, uint64_t line, struct cf_error *err);
/* the runner's own */
void cf_normalizer_file_changed(struct cf_normalizer *, const char *event, const char *path); /* once per path and event a turn */
/* Whether this turn told this event of this path (to the letter). */
bool cf_normalizer_has_file(const struct cf_normalizer *, const char *event, const char *path);
void cf_normalizer_hook(struct cf_normalizer *, json_t *payload);
void cf_normalizer_steering(struct cf_normalizer *, const char *event_id, const char *disposition, uint64_t frame);
/* Ends the turn's output as a terminal does, but is none: what comes later is dropped and counted. */
void cf_normalizer_requires_action(struct cf_normalizer *, json_t *action, uint64_t frame);
/* The `question` action of an elicitation/create in form mode: one item a property (at most 4);
 * NULL when it cannot be asked so (url mode, none or more than 4 properties, more than 32 choices).
 * A choice's label is the value an answer must give back. New reference. */
json_t *cf_normalizer_question(struct cf_normalizer *, json_t *elicitation_params);
/* Text joined so far is flushed; anything that must come before the terminal comes. */
void cf_normalizer_flush(struct cf_normalizer *, uint64_t frame);
/* Terminal: stop_reason as in the contract ("end_turn", "interrupted", ...); `turn_meta` is
 * checkfu.turn as it came or NULL (an undecodable one is ignored and counted). Flushes first. When
 * the harness authored its own finished, that one is told; only "interrupted" overrides its reason.
 * The second terminal of a turn is dropped and counted. */
void cf_normalizer_finished(struct cf_normalizer *, const char *stop_reason, json_t *turn_meta, uint64_t frame);
/* observation.failed or, with is_retryable, observation.retryable_failure. Flushes first. */
void cf_normalizer_failed(struct cf_normalizer *, const struct cf_error *error, bool is_retryable, uint64_t frame);
/* True once the harness itself said finished (oneshot): held back until cf_normalizer_finished(NULL...). */
bool cf_normalizer_has_finished(const struct cf_normalizer *);
/* Text of this turn's last agent message of the main loop, its observations joined again (bounded
 * 4 MiB, then cut); "" when there is none. Borrowed until the next call. */
const char *cf_normalizer_last_message(const struct cf_normalizer *, size_t *ret_len);
/* {"agent_message":3,...} counted since new; new reference. And what was shortened. */
json_t *cf_normalizer_counts(const struct cf_normalizer *);
uint64_t cf_normalizer_shortened(const struct cf_normalizer *);

/* ---- grammar ---------------------------------------------------------------------------- */

enum cf_grammar_check {
    CF_GRAMMAR_READY_HANDSHAKE, CF_GRAMMAR_TERMINAL_OBSERVATION, CF_GRAMMAR_TOOL_CORRELATION,
    CF_GRAMMAR_STEERING_CORRELATION, CF_GRAMMAR_STEERING_DELIVERED,
    CF_GRAMMAR_COOPERATIVE_INTERRUPT_DRAINED, CF_GRAMMAR_SUBAGENT_CORRELATION, CF_GRAMMAR_CHECKS
};
enum cf_verdict { CF_VERDICT_SKIPPED, CF_VERDICT_PASSED, CF_VERDICT_FAILED };

struct cf_grammar_result {
    const char *id;             /* "ready_handshake"; static */
    enum cf_verdict verdict;
    uint64_t seq, frame;        /* of the first violation, or of the proof */
    char summary[200];          /* a measured fact, the violation, or why it was skipped */
};
struct cf_grammar;
struct cf_grammar *cf_grammar_new(bool is_acp);
void cf_grammar_free(struct cf_grammar *);
void cf_grammar_declare(struct cf_grammar *, const struct cf_declaration *);
void cf_grammar_turn_begin(struct cf_grammar *);
/* 0, or -1 when this observation breaks a rule for the first time (the result names it). A failed
 * or retryable_failure fails terminal_observation but returns 0: it is a verdict already. */
int cf_grammar_feed(struct cf_grammar *, const struct cf_observation *observation);
/* A steer was sent / drain was asked: feed what the checks need to know. */
void cf_grammar_steer_sent(struct cf_grammar *, const char *event_id);
void cf_grammar_drain_sent(struct cf_grammar *);
void cf_grammar_drain_answered(struct cf_grammar *, const char *disposition);
void cf_grammar_turn_end(struct cf_grammar *);
/* Judged as of now: for the result at the end of the run. */
void cf_grammar_result(const struct cf_grammar *, enum cf_grammar_check check, struct cf_grammar_result *ret);

#endif
