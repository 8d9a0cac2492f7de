/*
 * cli/checkpoint.h: run --checkpoint DIR and --restore DIR. DIR holds the working directory as
 * files/ and the library's own document as checkpoint.json, so that it may be moved as a whole.
 */
#ifndef CF_CLI_CHECKPOINT_H
#define CF_CLI_CHECKPOINT_H

#include <cfrunner/run.h>

#include "cli/launch.h"

/* What can be seen before anything runs; and --restore, into launch->options. */
CF_CHECKED int cf_checkpoint_prepare(const struct cf_launch_flags *flags, struct cf_launch *launch, struct cf_error *err);
/* Makes DIR and asks for the checkpoint. */
CF_CHECKED int cf_checkpoint_ask(const char *dir, struct cf_run *run, struct cf_error *err);
/* on_checkpoint_made: DIR/checkpoint.json, whole or not at all. <0: the document's own error, or
 * this machine's. Returns how many entries were not taken. */
CF_CHECKED int64_t cf_checkpoint_write(const char *dir, const char *json, size_t len, struct cf_error *err);

#endif
