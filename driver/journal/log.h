/*
 * journal/log.h: the record format of journal.ndjson. A record is one line of JSON whose first
 * two members stand where they stand:
 *
 *   {"record":"journal","digest":"...","format":1,"journal_id":"...","project_id":"...","at":"..."}
 *   {"record":"keys","digest":"...","at":"...","keys":[...]}
 *   {"record":"event","digest":"...","received_seq":"1","received_at":"...","event":{...}}
 *   {"record":"batch","digest":"...","at":"..."}
 *
 * `digest` is BLAKE2b (16 bytes, hex) over the digest of the line before (zeros for the
 * first), the record's word, and all of the line that follows the digest. `batch` notes a
 * reconciliation batch that a read or a retry ran, so that a replay of the file gives the same
 * state again.
 */
#ifndef CF_JOURNAL_LOG_H
#define CF_JOURNAL_LOG_H

#include "base/buf.h"
#include "journal/journal.h"

#define CF_LOG_NAME "journal.ndjson"
#define CF_LOG_LINE_MAX \
    (2u << 20) /* of a whole line; events are far below, key lists the rest */

struct cf_digest {
    unsigned char bytes[16];
};

enum cf_record_kind {
    CF_RECORD_JOURNAL,
    CF_RECORD_KEYS,
    CF_RECORD_EVENT,
    CF_RECORD_BATCH,
};

/* One line, taken apart; everything borrowed from the line. */
struct cf_record {
    enum cf_record_kind kind;
    struct cf_digest digest; /* as written */
    uint64_t received_seq;   /* event */
    int64_t at_ms;
    const char *project_id; /* journal: 36 characters, not terminated */
    const char *json;       /* event: the event; keys: the array */
    size_t json_len;
};

/* `line` without its newline. NULL: it is a record, *ret_record is filled and the digest fits
 * `before`; else what is wrong with it in one word ("record_malformed",
 * "record_digest_mismatch"); when at least the digest could be read, ret_record->digest has
 * it, and *ret_computed what it should be. */
const char *cf_record_read(const char *line, size_t len, const struct cf_digest *before,
                           struct cf_record *ret_record, struct cf_digest *ret_computed);

/* What the digest of a damaged line may be, for whichever kind it was: as written, and as
 * computed on `before`. One changed byte spoils at most one of the two. Returns how many. */
#define CF_GUESSES_MAX 8
size_t cf_record_guess(const char *line, size_t len, const struct cf_digest *before,
                       struct cf_digest out[CF_GUESSES_MAX]);

/* Append a whole line to `to`; *digest is that of the line before, then of this one. Check
 * to->failed at the end. */
void cf_record_put_journal(struct cf_buf *to, struct cf_digest *digest, const char *project_id,
                           int64_t at_ms);
void cf_record_put_keys(struct cf_buf *to, struct cf_digest *digest,
                        const struct cf_corr_keyring *keys, int64_t at_ms);
void cf_record_put_event(struct cf_buf *to, struct cf_digest *digest,
                         const struct cf_corr_event *event, uint64_t received_seq,
                         int64_t at_ms);
void cf_record_put_batch(struct cf_buf *to, struct cf_digest *digest, int64_t at_ms);

#endif
