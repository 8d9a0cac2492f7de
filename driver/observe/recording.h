/*
 * observe/recording.h: the file of one run (.cfr): frames, what the run told the normalizer and
 * the grammar, relay calls, phases, the result; each with its time. Pure: bytes in, records out.
 *
 * Header, 16 bytes: 8 of magic, u16 major, u16 minor, u32 CRC-32 of the 12 before it. Then records:
 * u32 length of the payload, u32 CRC-32 of all of the record but this member, u8 kind, u8 flags,
 * u16 zero, u64 milliseconds since the run was opened, payload (at most 1 MiB; flag 1: the next
 * record of the same kind carries on). All numbers little-endian.
 *
 * 1.0  first release
 * 1.1  farewell
 * A reader refuses another major; of a later minor it passes over kinds and calls it does not know.
 */
#ifndef CF_OBSERVE_RECORDING_H
#define CF_OBSERVE_RECORDING_H

#include "base/buf.h"
#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define CF_RECORDING_MAJOR 1u
#define CF_RECORDING_MINOR 1u
#define CF_RECORDING_HEADER_BYTES 16u
#define CF_RECORDING_FRAME_BYTES 20u
#define CF_RECORDING_PIECE_BYTES (1u << 20)
#define CF_RECORDING_JOINED_BYTES (128u << 20) /* of one record, its pieces together */

enum cf_record_kind {
    CF_RECORD_START = 1,   /* {"run","cfrunner","protocol","output_mode","seed","retention"} */
    CF_RECORD_OUTPUT = 2,  /* bytes of the harness's stdout, as they were fed to the wire */
    CF_RECORD_INPUT = 3,   /* acp: one line of ours, LF included; oneshot: the turn's prompt */
    CF_RECORD_CALL = 4,    /* what the normalizer or the grammar was told: struct cf_record_call */
    CF_RECORD_PHASE = 5,   /* {"name","step","took_ms":N|null} */
    CF_RECORD_MODEL = 6,   /* a row of the relay's ledger */
    CF_RECORD_FINDING = 7, /* {"id","frame","text"} */
    CF_RECORD_SPAWN = 8,   /* {"turn","argv"}: a process begins; oneshot: the wire begins anew */
    CF_RECORD_END = 9,     /* stdout was told to be over to the wire; no payload */
    CF_RECORD_EXIT = 10,   /* exit facts of the process */
    CF_RECORD_TURN = 11,   /* what a turn came to, as on_turn has it */
    CF_RECORD_RESULT = 12, /* the run's result; a recording without one is of a run cut short */
    CF_RECORD_VERDICT = 13, /* of a diagnostic, beside the run's: {"status","exit_code"} */
    CF_RECORD_MASKED = 14, /* {"count"}: how often a secret that was echoed was overwritten with '*' */
    CF_RECORD_FAREWELL = 15 /* 1.1: stdout while the session was left: for eyes, nothing follows from it */
};

/* Payload of CF_RECORD_CALL: u8 which, u8 reserved, u64 frame, then `bytes`. */
enum cf_recorded_call {
    CF_CALL_READY = 1,          /* bytes: the capability set */
    CF_CALL_DECLARE = 2,        /* what the last answer to initialize declared */
    CF_CALL_TURN_BEGIN = 3,
    CF_CALL_UPDATE = 4,         /* the wire's, by its frame; so are the next three */
    CF_CALL_PERMISSION = 5,
    CF_CALL_TEXT = 6,
    CF_CALL_OBJECT = 7,
    CF_CALL_FILE_CHANGED = 8,   /* event, NUL, path */
    CF_CALL_HOOK = 9,           /* the payload */
    CF_CALL_STEERING = 10,      /* event id, NUL, disposition */
    CF_CALL_REQUIRES_ACTION = 11, /* the action */
    CF_CALL_FLUSH = 12,
    CF_CALL_FINISHED = 13,      /* stop reason, NUL, checkfu.turn as it came or nothing */
    CF_CALL_FAILED = 14,        /* u8 kind, u8 is_retryable, text */
    CF_CALL_STEER_SENT = 15,    /* event id */
    CF_CALL_DRAIN_SENT = 16,
    CF_CALL_DRAIN_ANSWERED = 17, /* disposition */
    CF_CALL_TURN_END = 18
};
#define CF_RECORD_CALL_BYTES 10u

struct cf_record {
    unsigned kind;
    uint64_t at_ms;
    const char *bytes; /* borrowed until the callback returns */
    size_t len;
};
/* Decodes CF_RECORD_CALL; -1 when it is too short. `bytes` borrowed from the record. */
struct cf_record_call {
    unsigned which;
    uint64_t frame;
    const char *bytes;
    size_t len;
};
int cf_record_call_read(const struct cf_record *record, struct cf_record_call *ret);
void cf_record_call_head(char out[CF_RECORD_CALL_BYTES], enum cf_recorded_call which, uint64_t frame);

const char *cf_record_kind_name(unsigned kind); /* "output"; NULL: not known here; static */
const char *cf_recorded_call_name(unsigned which);

/* Both append; buf->failed says when memory ran out. */
void cf_recording_head(struct cf_buf *buf);
void cf_recording_put(struct cf_buf *buf, unsigned kind, uint64_t at_ms, const void *bytes, size_t len);

/* The CRC-32 of zip and PNG; `crc` 0 to begin with. */
uint32_t cf_crc32(uint32_t crc, const void *bytes, size_t len);

/* Zeroed is ready. */
struct cf_recording_reader {
    struct cf_buf held, joined;
    unsigned joined_kind, major, minor;
    bool has_header, is_broken;
    uint64_t offset;      /* of `held` in the file */
    uint64_t whole_bytes; /* up to the end of the last whole record */
    uint64_t records;
};
/* Return <0 to stop the feeding. The callback must not release the reader. */
typedef int cf_record_fn(void *user, const struct cf_record *record, struct cf_error *err);
void cf_recording_reader_release(struct cf_recording_reader *reader);
/* Hands out each whole record. -1 with `err`: no recording, another major, a record that was
 * changed (its offset is named), memory, or the callback's own; nothing is read after that. */
CF_CHECKED int cf_recording_feed(struct cf_recording_reader *reader, const char *bytes, size_t len,
                                 cf_record_fn *on_record, void *user, struct cf_error *err);
/* Bytes after the last whole record: what a crash left of the next one. */
uint64_t cf_recording_torn_bytes(const struct cf_recording_reader *reader);

#endif
