/*
 * cfrunner/journal.h: signed correspondence events on disk, append-only, with receipts.
 *
 * A journal is a directory. `journal.ndjson` is the truth: one JSON line a record, each with a
 * digest over itself and the one before. `index` is derived from it and may be deleted at any
 * time; `lock` is held (flock) only while something is written, so several processes may share
 * one journal: each reads what the others appended before it writes. The directory must be on
 * a file system with working flock.
 *
 * A receipt is given after fdatasync. What a crash left half-written is put aside
 * (`torn-<offset>`) and cut off by the next writer, and reported.
 *
 * The functions here read and write files when they are called; call them where that may
 * block. Inside a loop use the queue at the end of this file: it appends without blocking.
 * Times are milliseconds since 1970.
 */
#ifndef CFRUNNER_JOURNAL_H
#define CFRUNNER_JOURNAL_H

#include <cfrunner/correspondence.h>

#ifdef __cplusplus
extern "C" {
#endif

struct uv_loop_s;
struct cf_journal;

/* Makes `dir` (0700; its parent must exist) into an empty journal of one project that knows
 * the keys of `keyring` (may be NULL). Refuses a directory that already holds a journal. */
CF_CHECKED CF_API int cf_journal_create(const char *dir, const char *project_id,
                                        const struct cf_corr_keyring *keyring, int64_t now_ms,
                                        struct cf_error *err);

/* Opens a journal; returned: yours (cf_journal_close). A damaged record is an error that names
 * it. */
CF_CHECKED CF_API int cf_journal_open(const char *dir, struct cf_journal **ret_journal,
                                      struct cf_error *err);

/* Writes a new index when much was appended since the last (best effort), and frees. NULL is
 * fine. */
CF_API void cf_journal_close(struct cf_journal *journal);

/* What the journal holds, as of the last call that read or wrote it. Borrowed until close. */
CF_API const struct cf_corr_store *cf_journal_store(const struct cf_journal *journal);
CF_API const struct cf_corr_keyring *cf_journal_keyring(const struct cf_journal *journal);
CF_API const char *cf_journal_project(const struct cf_journal *journal);

/* How long a writer waits for another one before it gives up; 10 s unless set. */
CF_API void cf_journal_set_lock_wait(struct cf_journal *journal, unsigned wait_ms);

/* Reads what others appended. Takes no lock. */
CF_CHECKED CF_API int cf_journal_refresh(struct cf_journal *journal, struct cf_error *err);

/* What a crash left behind and the last writing call of this handle put aside. */
struct cf_journal_recovery {
    uint64_t bytes;     /* 0: nothing */
    uint64_t after_seq; /* the last whole event before it */
    char kept_as[64];   /* file in the journal's directory; "" when the record was whole after
                           all */
};
CF_API const struct cf_journal_recovery *cf_journal_recovery(const struct cf_journal *journal);

/*
 * Stages 6 to 12: judges the event, writes it, syncs, assigns the receipt. A retry gives the
 * original receipt. Returns 0; 1 with `refusal` filled when the event was not admitted; -1
 * with `err` filled when the journal could not do it. The event stays yours.
 */
CF_CHECKED CF_API int cf_journal_append(struct cf_journal *journal,
                                        const struct cf_corr_event *event, int64_t now_ms,
                                        struct cf_corr_receipt *ret_receipt,
                                        struct cf_corr_refusal *refusal, struct cf_error *err);

/* Adds keys, or replaces those with the same signing_key_id (so a key can be made inactive).
 */
CF_CHECKED CF_API int cf_journal_trust(struct cf_journal *journal,
                                       const struct cf_corr_keyring *keys, int64_t now_ms,
                                       struct cf_error *err);

/*
 * JSON documents as in correspondence.h, after reading what others appended. While claims wait
 * for reconciliation, claims and voice first run one batch and record it. Returned: yours
 * (free).
 */
CF_CHECKED CF_API char *cf_journal_claims(struct cf_journal *journal,
                                          const struct cf_corr_query *query, int64_t now_ms,
                                          size_t *ret_len, struct cf_error *err);
CF_CHECKED CF_API char *cf_journal_voice(struct cf_journal *journal,
                                         const struct cf_corr_query *query, int64_t now_ms,
                                         size_t *ret_len, struct cf_error *err);
CF_CHECKED CF_API char *cf_journal_page(struct cf_journal *journal, const uint64_t *after,
                                        unsigned limit, size_t *ret_len, struct cf_error *err);

/*
 * Reads everything again: digests, chain, receipts, every event and its signature under the
 * keys known when it arrived, and the index. Returns a JSON document {"valid", "events",
 * "damaged":
 * [{"received_seq", "line", "offset", "reason"}], ...} (yours), *ret_valid telling its
 * verdict; or NULL with `err` filled when the files cannot be read. Changes nothing.
 */
CF_CHECKED CF_API char *cf_journal_verify(const char *dir, bool *ret_valid, size_t *ret_len,
                                          struct cf_error *err);

/* ---- appending from a loop ---- */

struct cf_journal_queue;

/*
 * A queue of appends to `journal` on `loop`. While it is open, use the journal's other
 * functions only when cf_journal_queue_is_idle. Waits for another writer on a timer, reads,
 * writes and syncs through uv_fs; what was queued meanwhile is written and synced together.
 * One thing is done at once: cutting off what a crash left (at most one record).
 */
CF_CHECKED CF_API int cf_journal_queue_open(struct cf_journal *journal, struct uv_loop_s *loop,
                                            struct cf_journal_queue **ret_queue,
                                            struct cf_error *err);
CF_API bool cf_journal_queue_is_idle(const struct cf_journal_queue *queue);

/* status 0: stored (or a retry) and synced; 1: refused; -1: failed, or canceled by close. The
 * pointers are borrowed until the callback returns; it may append again or close. */
typedef void cf_journal_done_fn(void *user, int status, const struct cf_corr_receipt *receipt,
                                const struct cf_corr_refusal *refusal,
                                const struct cf_error *err);

/* Appends `event` (taken, whatever the outcome). `done` (may be NULL) is called once, from the
 * loop, never from inside this call. -1: out of memory or closing; then `done` is never
 * called. */
CF_CHECKED CF_API int cf_journal_queue_append(struct cf_journal_queue *queue,
                                              struct cf_corr_event *event, int64_t now_ms,
                                              cf_journal_done_fn *done, void *user,
                                              struct cf_error *err);

/* Called once. Appends not yet being written are canceled; the rest is finished. After
 * `on_closed` nothing is called any more and the journal may be closed. */
CF_API void cf_journal_queue_close(struct cf_journal_queue *queue,
                                   void (*on_closed)(void *user), void *user);

#ifdef __cplusplus
}
#endif
#endif
