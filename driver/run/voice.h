/*
 * run/voice.h: what a run says of itself in a journal of agent-correspondence/v0.1. An advisory
 * claim of paths is opened before anything is provisioned, renewed while the run lives, released
 * and closed when nothing is left of it; between, progress at phase changes and digests of what was
 * collected. Every event is a report: nothing here stops or delays a run, but a claim that cannot
 * be opened at all.
 *
 * No event holds a word that a harness, a prompt or an environment could have chosen: texts are
 * made of fixed words, numbers, ids and digests alone. Names of collected files stand in the run's
 * result.
 *
 * All of it does nothing when the options name no journal (run->voice is NULL then). Private to
 * this room.
 */
#ifndef CF_RUN_VOICE_H
#define CF_RUN_VOICE_H

#include "base/error.h"

#include <jansson.h>
#include <stddef.h>
#include <stdint.h>

struct cf_run;
struct cf_voice;

/* Once, from the loop or from inside the call that leads to it. */
typedef void cf_voice_done_fn(struct cf_run *run, int status, const struct cf_error *err);

/* Reads identity and journal and tries both: everything that can be wrong with them and with the
 * claim is said here, before a loop turns. Reads files while it is called. */
CF_CHECKED int cf_voice_prepare(struct cf_run *run, struct cf_error *err);
/* Only when its row does not stand: before it was begun, or after `done` of cf_voice_close. */
void cf_voice_free(struct cf_voice *voice);

/* Opens the claim; then warns, as findings, of live claims of others that overlap. */
CF_CHECKED int cf_voice_open(struct cf_run *run, cf_voice_done_fn *done, struct cf_error *err);
void cf_voice_give_up(struct cf_run *run); /* `done` comes at once, with -1 */

/* A phase began, or (took_ms not UINT64_MAX) ended. A turn ended with `outcome`. */
void cf_voice_phase(struct cf_run *run, const char *name, const char *step, uint64_t took_ms);
void cf_voice_turn(struct cf_run *run, const char *outcome);

/* Files on their way out of the sandbox; `purpose` is collect.c's. */
void cf_voice_file_begin(struct cf_run *run, const char *purpose);
void cf_voice_file_bytes(struct cf_run *run, const char *bytes, size_t len);
void cf_voice_file_taken(struct cf_run *run, const char *path);

/* Offers, releases, closes; waits for the disk some seconds at most, and only half of one after
 * cf_voice_hurry. */
void cf_voice_close(struct cf_run *run, cf_voice_done_fn *done);
void cf_voice_hurry(struct cf_run *run);

/* For the result; null without a journal. */
json_t *cf_voice_json(const struct cf_run *run);

#endif
