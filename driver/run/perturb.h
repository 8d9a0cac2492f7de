/*
 * run/perturb.h: the options' "perturb": trouble that this driver makes on purpose, in its own
 * transport and at moments of a turn, to see whether the verdict stands. Nothing of it is there
 * without that member: run->perturb is NULL, and each function then does nothing.
 */
#ifndef CF_RUN_PERTURB_H
#define CF_RUN_PERTURB_H

#include "base/error.h"
#include "sandbox/link.h"

#include <stdbool.h>
#include <stddef.h>
#include <uv.h>

struct cf_run;
struct cf_run_options;
struct cf_perturb;

/* Moments of a run, in the order of the options' words. */
enum cf_moment { CF_MOMENT_NEVER, CF_MOMENT_START, CF_MOMENT_PROMPT, CF_MOMENT_MODEL, CF_MOMENT_OUTPUT };

bool cf_perturb_is_wanted(const struct cf_run_options *options);
CF_CHECKED int cf_perturb_open(struct cf_run *run, struct cf_error *err);
/* Its timers come into the loop: from now on it has to be closed before it is freed. */
void cf_perturb_begin(struct cf_run *run);
/* Closes its timers; returns how many on_closed will hear of, with handle->data the run. */
int cf_perturb_close(struct cf_run *run, uv_close_cb on_closed);
void cf_perturb_free(struct cf_run *run);
/* The process is another one now, or none: what was held of the old one is gone. */
void cf_perturb_reset(struct cf_run *run);

/* Something happened: the process is stopped or the turn canceled, when that is its moment. */
void cf_perturb_moment(struct cf_run *run, enum cf_moment moment);

/* How many of `len` bytes may go to stdin now; 0: cf_harness_pump is called again later. */
size_t cf_perturb_stdin(struct cf_run *run, size_t len);

/* Output goes to `take` as it came, in small pieces, or held and in one; the answer is take's, or
 * CF_PAUSE. */
typedef int cf_perturb_take_fn(struct cf_run *run, const char *bytes, size_t len);
int cf_perturb_stdout(struct cf_run *run, const char *bytes, size_t len, cf_perturb_take_fn *take);
/* True: output is held, and `then` is called behind it; for its end, and for the process's exit. */
bool cf_perturb_holds_end(struct cf_run *run, void (*then)(struct cf_run *run));
bool cf_perturb_holds_exit(struct cf_run *run, const struct cf_exit *exit,
                           void (*then)(struct cf_run *run, const struct cf_exit *exit));

#endif
