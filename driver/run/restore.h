/*
 * run/restore.h: the way back from a checkpoint. Its document is options.restore: the files go into
 * the fresh working directory (stage.c), and the agent is given the state that is held for it.
 * Private to this room.
 */
#ifndef CF_RUN_RESTORE_H
#define CF_RUN_RESTORE_H

#include "base/error.h"

#include <jansson.h>

#define CF_RESTORE_STATE_BYTES (1u << 20)

struct cf_run;

/* The document alone: closed, whole, and of a checkpoint that was made. */
CF_CHECKED int cf_restore_check(const json_t *document, struct cf_error *err);
/* What it brings to this run, release and options being known. Without one it does nothing. */
CF_CHECKED int cf_restore_prepare(struct cf_run *run, struct cf_error *err);
/* Where its files lie, or NULL; borrowed. */
const char *cf_restore_directory(const struct cf_run *run);
/* acp, when the agent has said what it can: the held state joins what session/new is given. */
void cf_restore_resume(struct cf_run *run);
/* acp, when the session stands: what it was resumed from is the state that is held, until the agent
 * gives another. */
void cf_restore_hold(struct cf_run *run);

#endif
