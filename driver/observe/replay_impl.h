/* observe/replay_impl.h: what replay.c and replay_plain.c share. */
#ifndef CF_OBSERVE_REPLAY_IMPL_H
#define CF_OBSERVE_REPLAY_IMPL_H

#include "observe/replay.h"

#include "wire/wire.h"

/* Something the wire said; the call that passes it on follows as a record of its own. */
struct cf_heard {
    struct cf_heard *next;
    enum cf_recorded_call which;
    uint64_t frame;
    json_t *params, *value; /* update: both; permission, object: value */
    char *text;
    size_t len;
};

struct cf_replay {
    struct cf_replay_events on;
    struct cf_normalizer *normalizer;
    struct cf_grammar *grammar;
    struct cf_acp *acp;
    struct cf_oneshot *oneshot;
    bool is_acp, is_stream_json, is_plain, has_no_memory;
    struct cf_declaration declaration;
    bool has_declaration;
    struct cf_heard *heard, **heard_end;
    uint64_t seq, at_ms, masked, records;
    uint32_t turn;
    json_t *start, *result, *verdict;

    /* plain */
    bool is_in_turn, has_failed;
    json_t *capability_set;
};

/* `seed` NULL: ids of this replay's own. */
int cf_replay_begin(struct cf_replay *replay, const uint8_t *seed, struct cf_error *err);
int cf_replay_spawn(struct cf_replay *replay, struct cf_error *err); /* oneshot: the wire begins anew */

/* replay_plain.c: what the wire says, at once */
void cf_plain_initialized(struct cf_replay *replay);
void cf_plain_session(struct cf_replay *replay, uint64_t frame);
void cf_plain_sent(struct cf_replay *replay, const char *line, size_t len);
void cf_plain_done(struct cf_replay *replay, const char *stop_reason, json_t *result, uint64_t frame);
void cf_plain_failed(struct cf_replay *replay, const struct cf_error *err, uint64_t frame);

#endif
