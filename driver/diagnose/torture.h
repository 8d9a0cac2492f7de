/*
 * diagnose/torture.h: `test oci --torture`. After a diagnostic that passed, the exchange is done
 * again and again in sandboxes of a pool, each time with one trouble more: in the driver's own
 * transport, in the model's answers, by a stopped process, by an end in the middle. The first one
 * that changes the verdict is named.
 *
 *     torture.c        the story: a diagnostic, the pool, trial after trial, one result
 *     torture_table.c  what is tried, and what each may change; pure
 */
#ifndef CF_DIAGNOSE_TORTURE_H
#define CF_DIAGNOSE_TORTURE_H

#include "diagnose/diagnose.h"

struct cf_torture;

/* What a trial's verdict must be. */
enum cf_torture_rule {
    CF_TORTURE_SAME, /* every check that passed passes */
    CF_TORTURE_TOLD, /* the same, or the turn fails in good order: never a cut answer for a whole one */
    CF_TORTURE_ENDS, /* the turn ends as interrupted, or had ended well before */
    CF_TORTURE_GONE  /* the run is ended from outside: nothing may be left */
};

struct cf_torture_trial {
    const char *id, *what;  /* "model_429", "the model is busy once: 429, retry-after 1 s" */
    enum cf_torture_rule rule;
    bool needs_stdin;       /* a harness that reads no stdin has nothing to show here */
    bool needs_turns;       /* a wire in which a turn can be canceled and the session lives on */
    const char *end_in;     /* GONE: the phase in which the run is ended; else NULL */
    const char *perturb;    /* the run options' perturb, as JSON; or NULL */
    const char *rules;      /* rules of a model script, as JSON, put before the author's; or NULL */
};
extern const struct cf_torture_trial cf_torture_quick[];
extern const size_t cf_torture_quick_count;

/* Why this release has nothing to show in a trial, or NULL: it is tried. Static. */
const char *cf_torture_skip(const struct cf_torture_trial *trial, const json_t *release);
/* The run options of a trial, from those of the whole, its turn no longer than turn_ms; without a
 * trial (NULL), the pool's. New reference, NULL out of memory. What would be written twice
 * (recording, ledger, collected files, journal) is not in it. */
json_t *cf_torture_options(const struct cf_torture_trial *trial, const json_t *options, uint64_t turn_ms);

/* What was seen of a trial. */
struct cf_torture_seen {
    const json_t *base, *result; /* the diagnostic's results: without trouble, and with it */
    const char *outcome;         /* of the turn: "finished", "failed", ...; NULL: it never settled */
    const char *stop_reason;
};
/* {"status":"same"|"told"|"ended"|"changed"|"skipped","summary","changed":[{"check","before","after","summary"}]};
 * new reference. */
json_t *cf_torture_judge(const struct cf_torture_trial *trial, const struct cf_torture_seen *seen);

/*
 * As cf_diagnose_open, whose place it takes: the events are those of the diagnostic; each trial is
 * said by `on_trial` (may be NULL) with its row of the result's "torture" as JSON. on_done comes
 * once, with the result that has "torture" and a check of that name.
 */
struct cf_torture_events {
    struct cf_diagnose_events diagnose;
    void (*on_trial)(void *user, const char *id, const char *status, const char *summary, uint64_t took_ms);
};
CF_CHECKED int cf_torture_open(struct uv_loop_s *loop, const struct cf_diagnose_options *options,
                               const struct cf_torture_events *events, struct cf_torture **ret_torture,
                               struct cf_error *err);
/* Interrupt: what runs is torn down, on_done still comes. */
void cf_torture_interrupt(struct cf_torture *torture, uint64_t grace_ms);

#endif
