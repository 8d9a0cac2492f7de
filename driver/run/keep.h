/*
 * run/keep.h: what a host asks to take out of a run while it lives: the working directory as it
 * stands (cf_run_collect), or all that a later run needs to go on from here (cf_run_checkpoint).
 * One at a time. Private to this room.
 */
#ifndef CF_RUN_KEEP_H
#define CF_RUN_KEEP_H

#include <jansson.h>
#include <stdbool.h>

struct cf_run;
struct cf_keep;

/* Begins what was asked for, if anything was. */
void cf_keep_begin(struct cf_run *run);
/* The run is over: what is under way ends with an error, as soon as the host's disk answers. */
void cf_keep_give_up(struct cf_run *run);
/* `then` comes when nothing is under way any more: at once, or later from the loop. */
void cf_keep_await(struct cf_run *run, void (*then)(struct cf_run *run));
bool cf_keep_is_checkpoint(const struct cf_run *run); /* one is wanted or being made */
/* The agent's state to hold from now on (a new reference is taken); NULL: it is void. */
void cf_keep_state(struct cf_run *run, json_t *state);

#endif
