/* journal/room.h: what the files of this room share about an open journal. */
#ifndef CF_JOURNAL_ROOM_H
#define CF_JOURNAL_ROOM_H

#include "journal/log.h"

#include <sys/types.h>

/* How many records may lie behind the index before a new one is worth writing. */
#define CF_INDEX_TAIL_MAX 512u

struct cf_journal {
    char *dir;
    int dir_fd, log_fd, lock_fd;
    char project_id[CF_CORR_UUID_SIZE];
    struct cf_corr_store *store;
    struct cf_corr_keyring *keyring;
    uint64_t end;                      /* bytes of the log that are read and applied */
    uint64_t last_at;                  /* where its last record begins */
    uint64_t records, indexed_records; /* lines applied; lines an index on disk covers */
    struct cf_digest digest;           /* of the last record */
    bool is_failed;                    /* a write went wrong half-way: only a new open helps */
    unsigned lock_wait_ms;
    struct cf_journal_recovery recovery;
    struct cf_buf fetched; /* the event last handed to the store */
    struct cf_buf chunk;   /* bytes of an unfinished line while reading */
    void *map;             /* the index the store lies in, or NULL */
    size_t map_size;
};

/* Where a store's events come from: the log itself. `user` is the journal. */
cf_corr_fetch_fn cf_journal_fetch;

/* Applies the whole lines of `bytes`, which lie at journal->end; the rest is not touched. */
int cf_journal_apply(struct cf_journal *journal, const char *bytes, size_t len,
                     size_t *ret_used, struct cf_error *err);

/* Reads and applies what lies behind journal->end. *ret_rest: bytes of an unfinished line. */
int cf_journal_catch_up(struct cf_journal *journal, uint64_t *ret_rest, struct cf_error *err);

/* -1 when it is held by somebody else (err kind LEASE) or cannot be had. Unlocking is harmless
 * twice. */
int cf_journal_try_lock(struct cf_journal *journal, bool *ret_held, struct cf_error *err);
int cf_journal_lock(struct cf_journal *journal, struct cf_error *err);
void cf_journal_unlock(struct cf_journal *journal);
int cf_journal_locked_error(const struct cf_journal *journal, struct cf_error *err);

/* With the lock held and all whole lines applied: puts `rest` torn bytes aside and cuts them
 * off. */
int cf_journal_recover(struct cf_journal *journal, uint64_t rest, struct cf_error *err);

/* What to do with one event, before anything is written. */
enum cf_verdict { CF_VERDICT_NEW, CF_VERDICT_RETRY, CF_VERDICT_REFUSED };
enum cf_verdict cf_journal_judge(const struct cf_journal *journal,
                                 const struct cf_corr_event *event,
                                 struct cf_corr_refusal *refusal);

/* Error of a write or sync that failed; marks the journal failed and tries to cut the log
 * back. */
int cf_journal_write_error(struct cf_journal *journal, int number, const char *doing,
                           struct cf_error *err);

/* ---- index.c ---- */
void cf_index_load(struct cf_journal *journal);
int cf_index_save(struct cf_journal *journal, struct cf_error *err);
/* NULL: absent or sound; else what is wrong with the file. */
const char *cf_index_check(int dir_fd, bool *ret_is_absent);

#endif
