/* run/rows.h: what the files behind the table of rows share. Private to the room. */
#ifndef CF_RUN_ROWS_H
#define CF_RUN_ROWS_H

#include "run/hall.h"

/* Verbs of struct cf_step (loop/steps.h), each of one row of cf_rows. */
int cf_rows_image_start(struct cf_steps *steps, struct cf_error *err);
int cf_rows_image_undo(struct cf_steps *steps, struct cf_error *err);
void cf_rows_image_abort(struct cf_steps *steps);
int cf_rows_sandbox_start(struct cf_steps *steps, struct cf_error *err);
int cf_rows_sandbox_undo(struct cf_steps *steps, struct cf_error *err);
void cf_rows_sandbox_abort(struct cf_steps *steps);
int cf_rows_files_start(struct cf_steps *steps, struct cf_error *err);
int cf_rows_files_undo(struct cf_steps *steps, struct cf_error *err);
void cf_rows_files_abort(struct cf_steps *steps);
int cf_rows_hooks_start(struct cf_steps *steps, struct cf_error *err);
int cf_rows_hooks_undo(struct cf_steps *steps, struct cf_error *err);
void cf_rows_hooks_abort(struct cf_steps *steps);

bool cf_rows_wants_staging(const struct cf_run *run);
bool cf_rows_wants_collecting(const struct cf_run *run);
bool cf_rows_has_hooks(const struct cf_run *run, enum cf_hook_phase phase);

/* What a teardown removed and left, into the run's own lists; borrowed. */
void cf_rows_take_teardown(struct cf_run *run, const struct cf_teardown *teardown);
/* The sandbox's teardown within run->close_grace_ms; again with a shorter one. */
void cf_rows_close_sandbox(struct cf_run *run);
/* The run's error from the way back, unless it has one: nothing of ours is lost by it, but what was
 * asked for did not come about. `err` is copied. */
void cf_rows_keep_late_error(struct cf_run *run, const struct cf_error *err);
/* The end is wanted: hooks and collection are given up where they are. */
void cf_rows_after_hurry(struct cf_run *run);

#endif
