/*
 * observe/replay.h: a run again, from what was recorded of it: the wire reads the harness's bytes
 * anew, the normalizer and the grammar are told what they were told live, in the same order, and
 * say the same bytes. Pure: no engine, no clock, no file.
 */
#ifndef CF_OBSERVE_REPLAY_H
#define CF_OBSERVE_REPLAY_H

#include "observe/observe.h"
#include "observe/recording.h"

struct cf_replay;

struct cf_replay_events {
    cf_observation_fn *on_observation; /* with seq, at_ms and turn; borrowed until return */
    /* acp: a frame, by the wire's own number, before what it causes; may be NULL. */
    void (*on_frame)(void *user, bool from_agent, uint64_t number, const char *line, size_t len);
    void *user;
};
/* NULL only out of memory. */
struct cf_replay *cf_replay_new(const struct cf_replay_events *events);
void cf_replay_free(struct cf_replay *replay);

/* One record of a recording (a cf_record_fn: user is the replay). -1: the record is not of its
 * form, or the wire does not say now what it said live (CF_ERROR_INTERNAL). */
CF_CHECKED int cf_replay_record(void *replay, const struct cf_record *record, struct cf_error *err);

/* The result, the diagnostic's verdict and the START document as recorded; NULL: none. Borrowed. */
json_t *cf_replay_recorded_result(const struct cf_replay *replay);
json_t *cf_replay_recorded_verdict(const struct cf_replay *replay);
json_t *cf_replay_start(const struct cf_replay *replay);
uint64_t cf_replay_masked(const struct cf_replay *replay); /* secrets overwritten in it */
/* {"grammar":[...],"observations":{...}} as of now, in the forms of a run's result; new reference. */
json_t *cf_replay_verdict(const struct cf_replay *replay);
/* Whether `verdict` says what the recorded result says. */
bool cf_replay_is_same(const struct cf_replay *replay, json_t *verdict);

/* ---- plain recordings of a wire alone, {"t":ms,"dir":"c2a"|"a2c"|"note","line":"..."} ------------- */

/* Turns begin with a session/prompt (acp) or a c2a line (oneshot) and end with its answer, or where
 * the next begins. Failures of the wire end a turn as they would live. */
CF_CHECKED int cf_replay_plain_open(struct cf_replay *replay, bool is_acp, bool is_stream_json, struct cf_error *err);
CF_CHECKED int cf_replay_plain_line(struct cf_replay *replay, const char *line, size_t len, struct cf_error *err);
void cf_replay_plain_end(struct cf_replay *replay);

#endif
