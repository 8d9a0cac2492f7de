/*
 * diagnose/trail.h: what a check can point at. Frames and observations are kept as they pass, short
 * and bounded; exchanges (a request of ours and its answer) are found again by their method. From
 * them evidence is made: the links from a check of the result to what it rests on.
 *
 * An item of evidence has exactly one of five members that say what it points at:
 *   frame   number of a wire frame (acp) or output line (oneshot) of `turn`
 *   seq     number of an observation
 *   call    id of a row of model_calls
 *   fact    JSON pointer into the same result; `value` is what stood there, as text
 *   check   id of the check that this one waited for
 * and a `note`: what the thing shows. The room's own, but for cf_glance.
 */
#ifndef CF_DIAGNOSE_TRAIL_H
#define CF_DIAGNOSE_TRAIL_H

#include <cfrunner/observation.h>

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define CF_TRAIL_TEXT_BYTES 1024u /* kept of a frame */
#define CF_TRAIL_HEAD 1024u       /* the first of each sort are kept ... */
#define CF_TRAIL_RING 1024u       /* ... and the last */
#define CF_TRAIL_EXCHANGES 64u

struct cf_trail_frame {
    uint64_t number, at_ms, bytes;
    uint32_t turn;
    bool from_harness;
    char *text; /* its first bytes */
    size_t len;
};

struct cf_trail_seen {
    uint64_t seq, frame, at_ms;
    uint32_t turn, type;
};

struct cf_trail_exchange {
    char method[40];
    json_t *id;
    uint32_t turn;
    uint64_t request, answer; /* frames; 0: none came */
};

/* Zeroed is ready. */
struct cf_trail {
    struct cf_trail_frame *frames; /* CF_TRAIL_HEAD + CF_TRAIL_RING, once there is one */
    struct cf_trail_seen *seen;
    size_t frame_count, seen_count; /* of all, kept or not */
    struct cf_trail_exchange exchanges[CF_TRAIL_EXCHANGES];
    size_t exchange_count, open_count;
    json_t *secrets; /* texts that never appear in evidence; borrowed until release */
};

void cf_trail_release(struct cf_trail *trail);
/* Out of memory a frame or an observation is not kept; nothing fails. */
void cf_trail_frame_passed(struct cf_trail *trail, uint32_t turn, bool from_harness, uint64_t number,
                           uint64_t at_ms, const char *line, size_t len);
void cf_trail_observation_passed(struct cf_trail *trail, const struct cf_observation *observation);

/* NULL: not seen, or not kept. Borrowed until the next frame. */
const struct cf_trail_frame *cf_trail_frame(const struct cf_trail *trail, uint32_t turn, uint64_t number);
/* The last one from that side; turn 0: of all. */
const struct cf_trail_frame *cf_trail_last_frame(const struct cf_trail *trail, bool from_harness);
const struct cf_trail_seen *cf_trail_seen(const struct cf_trail *trail, uint64_t seq);
/* The first (last: is_last) observation of `type` in `turn`. */
const struct cf_trail_seen *cf_trail_seen_type(const struct cf_trail *trail, uint32_t turn, uint32_t type, bool is_last);
/* The last exchange whose method ends in `method`; turn 0 is before the first turn. */
const struct cf_trail_exchange *cf_trail_exchange(const struct cf_trail *trail, uint32_t turn, const char *method);

/* Each adds one item to `evidence`, or nothing when there is nothing to point at (number 0, a NULL
 * row, a pointer that leads nowhere in `document`). `note` is copied; may be NULL. */
void cf_evidence_frame(json_t *evidence, const struct cf_trail *trail, uint32_t turn, uint64_t number, const char *note);
void cf_evidence_seen(json_t *evidence, const struct cf_trail *trail, uint64_t seq, const char *note);
void cf_evidence_call(json_t *evidence, json_t *call, const char *note);
void cf_evidence_fact(json_t *evidence, json_t *document, const char *pointer, const char *note);
void cf_evidence_check(json_t *evidence, const char *id);

/*
 * A frame at a glance, for eyes and evidence: `what` gets its method ("session/update
 * tool_call"), "answer" or "error answer", or "" for what is none of these; `text` the part that
 * is its own, shortened with "…", one printable line. `total` is the frame's whole length
 * when `len` is less. Both are NUL-terminated; sizes at least 8.
 */
void cf_glance(const char *line, size_t len, size_t total, char *what, size_t what_size, char *text, size_t text_size);

#endif
