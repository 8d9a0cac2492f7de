/*
 * run/hooks.h: lifecycle hooks, commands of the author's own that run in the sandbox before the
 * first turn (post_materialize) and before the working directory is collected (pre_writeback).
 * Private to this room.
 */
#ifndef CF_RUN_HOOKS_H
#define CF_RUN_HOOKS_H

#include "base/error.h"
#include "run/options.h"

struct cf_run;
struct cf_hooks;
typedef void cf_hooks_done_fn(struct cf_run *run, int status, const struct cf_error *err);

/*
 * Runs the phase's hooks one after the other, each told as an observation.lifecycle_hook. `done`
 * comes once, also from inside this call: 0, or -1 with the reason when one failed and options say abort; then
 * the phase's others were told as skipped and run->hook_aborted is set. Returns <0 when nothing was
 * begun.
 */
CF_CHECKED int cf_hooks_open(struct cf_run *run, enum cf_hook_phase phase, cf_hooks_done_fn *done,
                             struct cf_error *err);
/* Ends the one that runs, tells it and the rest as skipped; `done` comes from inside, with -1. */
void cf_hooks_give_up(struct cf_run *run);
/* Tells the whole phase as skipped. */
void cf_hooks_skip(struct cf_run *run, enum cf_hook_phase phase);

#endif
