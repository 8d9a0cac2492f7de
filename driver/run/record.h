/*
 * run/record.h: a run's recording (observe/recording.h), written while it happens: one write in
 * flight, a bounded queue before it, and a harness that pauses while the queue is long. All of it
 * does nothing when the options name no recording (run->record is NULL then). Private to this room.
 *
 * The way to the model (the lease's token) and the values of variables and headers that the options
 * give never enter it: where the harness echoes one of at least 8 bytes, '*' stands for each byte.
 */
#ifndef CF_RUN_RECORD_H
#define CF_RUN_RECORD_H

#include "base/error.h"
#include "observe/recording.h"

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct cf_run;
struct cf_recorder;

/* Opens the file (created, or emptied; mode 0600) and writes its first bytes while it is called. */
CF_CHECKED int cf_record_prepare(struct cf_run *run, struct cf_error *err);
/* Only before anything was written, or after `done` of cf_record_seal. */
void cf_record_free(struct cf_recorder *recorder);

void cf_record_put(struct cf_run *run, enum cf_record_kind kind, const void *bytes, size_t len);
void cf_record_json(struct cf_run *run, enum cf_record_kind kind, const json_t *value); /* borrowed */
void cf_record_spawn(struct cf_run *run, char **argv);

/* What the normalizer or the grammar is about to be told. */
void cf_record_call(struct cf_run *run, enum cf_recorded_call which, uint64_t frame, const void *bytes, size_t len);
void cf_record_call_json(struct cf_run *run, enum cf_recorded_call which, uint64_t frame, const json_t *value);
void cf_record_call_texts(struct cf_run *run, enum cf_recorded_call which, uint64_t frame, const char *first,
                          const char *second);
void cf_record_finished(struct cf_run *run, const char *stop_reason, const json_t *turn_meta, uint64_t frame);
void cf_record_failed(struct cf_run *run, const struct cf_error *err, bool is_retryable, uint64_t frame);

/* acp: output for the wire, recorded and fed line by line, so that what a line caused stands behind
 * it. -1: out of memory. */
int cf_record_feed_acp(struct cf_run *run, const char *bytes, size_t len);

/* More is waiting than should be: the harness is not read until it is written. */
bool cf_record_is_full(const struct cf_run *run);

/* The result as it stands, the rest of the queue, and the file is closed; nothing is recorded any
 * more. `done` comes once, perhaps from inside this call; at once when it was sealed before. */
typedef void cf_record_done_fn(struct cf_run *run);
void cf_record_seal(struct cf_run *run, cf_record_done_fn *done);

/* After sealing: the digest of the whole file and its length; false: there is none, or it is lost. */
bool cf_record_digest(const struct cf_run *run, unsigned char ret_sha256[32], uint64_t *ret_bytes);
/* For the result; null without a recording. New reference. */
json_t *cf_record_result(const struct cf_run *run);

#endif
