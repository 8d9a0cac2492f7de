/* Writing to the journal, one process at a time: lock, read what others wrote, write, sync. */
#include "journal/room.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/str.h"
#include "correspond/correspond.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

/* ---- the lock ---- */

int
cf_journal_locked_error(const struct cf_journal *journal, struct cf_error *err)
{
    cf_error_set(err, CF_ERROR_LEASE, EWOULDBLOCK,
                 "journal %s is being written by another process and did not "
                 "become free in %u ms",
                 journal->dir, journal->lock_wait_ms);
    return cf_error_fix(
        err, "try again; if no process of yours writes it, look who holds %s/lock (fuser)",
        journal->dir);
}

int
cf_journal_try_lock(struct cf_journal *journal, bool *ret_held, struct cf_error *err)
{
    *ret_held = false;
    if (journal->is_failed) {
        cf_error_set(err, CF_ERROR_INTERNAL, 0, "journal %s: an earlier write failed half-way",
                     journal->dir);
        return cf_error_fix(err,
                            "open the journal again; what was half-written is put aside then");
    }
    if (journal->lock_fd < 0)
        journal->lock_fd =
            openat(journal->dir_fd, "lock", O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (journal->lock_fd < 0)
        return cf_error_set(err, CF_ERROR_CONFIG, errno, "opening %s/lock: %s", journal->dir,
                            strerror(errno));
    if (flock(journal->lock_fd, LOCK_EX | LOCK_NB) == 0)
        return 0;
    if (errno == EWOULDBLOCK || errno == EINTR) {
        *ret_held = true;
        return -1;
    }
    return cf_error_set(err, CF_ERROR_CONFIG, errno, "locking %s/lock: %s", journal->dir,
                        strerror(errno));
}

/* Asks again every few milliseconds: flock has no deadline of its own. */
int
cf_journal_lock(struct cf_journal *journal, struct cf_error *err)
{
    static const struct timespec pause = {0, 3000000};
    uint64_t deadline = cf_clock_ms() + journal->lock_wait_ms;
    bool is_held;

    while (cf_journal_try_lock(journal, &is_held, err) < 0) {
        if (!is_held)
            return -1;
        if (cf_clock_ms() >= deadline)
            return cf_journal_locked_error(journal, err);
        (void)nanosleep(&pause, NULL);
    }
    return 0;
}

void
cf_journal_unlock(struct cf_journal *journal)
{
    if (journal->lock_fd >= 0)
        (void)flock(journal->lock_fd, LOCK_UN); /* closing it does the same */
}

/* ---- after a crash ---- */

static int
write_whole(int fd, const char *bytes, size_t len, uint64_t at)
{
    while (len > 0) {
        ssize_t n = pwrite(fd, bytes, len, (off_t)at);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return -1;
        bytes += n;
        at += (uint64_t)n;
        len -= (size_t)n;
    }
    return 0;
}

int
cf_journal_write_error(struct cf_journal *journal, int number, const char *doing,
                       struct cf_error *err)
{
    /* What part of it reached the disk is unknown now. Cut back what we can; the next open
     * sorts out the rest. */
    journal->is_failed = true;
    (void)!ftruncate(journal->log_fd, (off_t)journal->end);
    cf_error_set(
        err, number == EBADF || number == EACCES ? CF_ERROR_CONFIG : CF_ERROR_INTERNAL, number,
        "%s %s/" CF_LOG_NAME ": %s; nothing was acknowledged", doing, journal->dir,
        number == EBADF ? "it is open for reading only" : strerror(number));
    return -1;
}

/* Copies the torn bytes into a new file, so that nothing is destroyed by being cut off. */
static int
put_aside(struct cf_journal *journal, const char *bytes, size_t len)
{
    struct cf_journal_recovery *recovery = &journal->recovery;
    int fd = -1, status;

    for (unsigned i = 0; i < 100 && fd < 0; i++) {
        (void)snprintf(recovery->kept_as, sizeof recovery->kept_as, "torn-%" PRIu64 "-%u",
                       journal->end, i);
        fd = openat(journal->dir_fd, recovery->kept_as,
                    O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
        if (fd < 0 && errno != EEXIST)
            return -1;
    }
    if (fd < 0)
        return -1;
    status = write_whole(fd, bytes, len, 0) < 0 || fsync(fd) < 0 ? -1 : 0;
    (void)close(fd);
    return status;
}

/* A record that lacks its newline alone is whole: it gets one. A wrong byte in the newline's
 * place is no crash but damage. */
static int
finish_line(struct cf_journal *journal, const char *bytes, size_t len, bool *ret_finished,
            struct cf_error *err)
{
    struct cf_digest computed;
    struct cf_record record;

    *ret_finished = false;
    if (len > 1 &&
        cf_record_read(bytes, len - 1, &journal->digest, &record, &computed) == NULL) {
        cf_error_set(err, CF_ERROR_CONFIG, 0,
                     "journal %s is damaged: its last record ends in a wrong byte",
                     journal->dir);
        return cf_error_fix(err, "name it with: cfrunner correspond journal verify %s",
                            journal->dir);
    }
    if (cf_record_read(bytes, len, &journal->digest, &record, &computed) != NULL)
        return 0;
    if (write_whole(journal->log_fd, "\n", 1, journal->end + len) < 0 ||
        fdatasync(journal->log_fd) < 0)
        return cf_journal_write_error(journal, errno, "finishing the last record of", err);
    *ret_finished = true;
    return 0;
}

int
cf_journal_recover(struct cf_journal *journal, uint64_t rest, struct cf_error *err)
{
    char *torn = malloc(rest);
    bool is_finished = false;
    int status = torn == NULL ? cf_error_memory(err) : 0;

    memset(&journal->recovery, 0, sizeof journal->recovery);
    if (status == 0 &&
        pread(journal->log_fd, torn, rest, (off_t)journal->end) != (ssize_t)rest)
        status = cf_error_set(err, CF_ERROR_INTERNAL, EIO,
                              "reading the end of %s/" CF_LOG_NAME, journal->dir);
    if (status == 0)
        status = finish_line(journal, torn, rest, &is_finished, err);
    if (status == 0 && !is_finished && put_aside(journal, torn, rest) < 0)
        status = cf_error_set(err, CF_ERROR_INTERNAL, errno,
                              "putting a torn record of %s aside: %s", journal->dir,
                              strerror(errno));
    if (status == 0 && !is_finished &&
        (ftruncate(journal->log_fd, (off_t)journal->end) < 0 ||
         fdatasync(journal->log_fd) < 0))
        status = cf_journal_write_error(journal, errno, "cutting a torn record off", err);
    free(torn);
    if (status == 0) {
        journal->recovery.bytes = rest;
        journal->recovery.after_seq = cf_corr_store_last_seq(journal->store);
    }
    if (status == 0 && is_finished) {
        uint64_t left;
        journal->recovery.kept_as[0] = '\0';
        return cf_journal_catch_up(journal, &left, err);
    }
    return status;
}

/* ---- writing ---- */

/* Lock held, everything others wrote applied, nothing torn behind it. */
static int
begin(struct cf_journal *journal, struct cf_error *err)
{
    uint64_t rest;

    memset(&journal->recovery, 0, sizeof journal->recovery);
    if (cf_journal_lock(journal, err) < 0)
        return -1;
    if (cf_journal_catch_up(journal, &rest, err) < 0 ||
        (rest > 0 && cf_journal_recover(journal, rest, err) < 0)) {
        cf_journal_unlock(journal);
        return -1;
    }
    return 0;
}

/* Writes whole lines at the end, syncs, and applies them like anybody's. */
static int
commit(struct cf_journal *journal, const struct cf_buf *lines, struct cf_error *err)
{
    size_t used;

    if (lines->failed)
        return cf_error_memory(err);
    if (write_whole(journal->log_fd, lines->data, lines->len, journal->end) < 0)
        return cf_journal_write_error(journal, errno, "writing", err);
    if (fdatasync(journal->log_fd) < 0)
        return cf_journal_write_error(journal, errno, "syncing", err);
    if (cf_journal_apply(journal, lines->data, lines->len, &used, err) < 0) {
        journal->is_failed = true; /* the log is ahead of what we hold */
        return -1;
    }
    return 0;
}

enum cf_verdict
cf_journal_judge(const struct cf_journal *journal, const struct cf_corr_event *event,
                 struct cf_corr_refusal *refusal)
{
    struct cf_corr_event_view view;
    struct cf_corr_receipt receipt;

    cf_corr_event_view(event, &view);
    if (view.claimed_id == NULL) {
        (void)cf_corr_refuse(refusal, "event_id_required", "/event_id", -1);
        return CF_VERDICT_REFUSED;
    }
    if (strcmp(view.project_id, journal->project_id) != 0) {
        (void)cf_corr_refuse(refusal, "project_mismatch", "/project_id", -1);
        return CF_VERDICT_REFUSED;
    }
    if (cf_corr_event_check_id(event, refusal) < 0)
        return CF_VERDICT_REFUSED;
    if (cf_corr_store_find(journal->store, view.id, &receipt))
        return CF_VERDICT_RETRY;
    return cf_corr_event_verify_signature(event, journal->keyring, refusal) < 0
               ? CF_VERDICT_REFUSED
               : CF_VERDICT_NEW;
}

/* A retry stores nothing. It runs a batch while one is due, and syncs: the first writer may
 * have died between its write and its sync. */
static int
answer_retry(struct cf_journal *journal, const struct cf_corr_event *event, int64_t now_ms,
             struct cf_corr_receipt *ret_receipt, struct cf_error *err)
{
    struct cf_digest digest = journal->digest;
    struct cf_corr_event_view view;
    struct cf_buf lines;
    int status = 0;

    cf_buf_init(&lines, 0);
    if (cf_corr_store_is_incomplete(journal->store)) {
        cf_record_put_batch(&lines, &digest, now_ms);
        status = commit(journal, &lines, err);
    } else if (fdatasync(journal->log_fd) < 0) {
        status = cf_error_set(err, CF_ERROR_INTERNAL, errno, "syncing %s: %s", journal->dir,
                              strerror(errno));
    }
    cf_buf_release(&lines);
    cf_corr_event_view(event, &view);
    if (status == 0 && !cf_corr_store_find(journal->store, view.id, ret_receipt))
        status =
            cf_error_set(err, CF_ERROR_INTERNAL, 0, "a stored event is not there any more");
    return status;
}

static int
append_new(struct cf_journal *journal, const struct cf_corr_event *event, int64_t now_ms,
           struct cf_corr_receipt *ret_receipt, struct cf_error *err)
{
    struct cf_digest digest = journal->digest;
    uint64_t seq = cf_corr_store_last_seq(journal->store) + 1;
    struct cf_buf lines;
    int status;

    cf_buf_init(&lines, 0);
    cf_record_put_event(&lines, &digest, event, seq, now_ms);
    status = commit(journal, &lines, err);
    cf_buf_release(&lines);
    if (status == 0)
        *ret_receipt = (struct cf_corr_receipt){seq, now_ms, true};
    return status;
}

int
cf_journal_append(struct cf_journal *journal, const struct cf_corr_event *event,
                  int64_t now_ms, struct cf_corr_receipt *ret_receipt,
                  struct cf_corr_refusal *refusal, struct cf_error *err)
{
    int status = 1;

    if (begin(journal, err) < 0)
        return -1;
    switch (cf_journal_judge(journal, event, refusal)) {
    case CF_VERDICT_NEW:
        status = append_new(journal, event, now_ms, ret_receipt, err);
        break;
    case CF_VERDICT_RETRY:
        status = answer_retry(journal, event, now_ms, ret_receipt, err);
        break;
    case CF_VERDICT_REFUSED:
        break;
    }
    cf_journal_unlock(journal);
    return status;
}

int
cf_journal_trust(struct cf_journal *journal, const struct cf_corr_keyring *keys,
                 int64_t now_ms, struct cf_error *err)
{
    struct cf_digest digest;
    struct cf_buf lines;
    int status;

    if (begin(journal, err) < 0)
        return -1;
    digest = journal->digest;
    cf_buf_init(&lines, 0);
    cf_record_put_keys(&lines, &digest, keys, now_ms);
    if (lines.len > CF_LOG_LINE_MAX / 2)
        status = cf_error_set(err, CF_ERROR_TOO_LARGE, 0,
                              "too many keys for one record of the journal");
    else
        status = commit(journal, &lines, err);
    cf_buf_release(&lines);
    cf_journal_unlock(journal);
    return status;
}

/* ---- reading ---- */

/* Before a read of claims: one batch while one is due, on record, so that the next reader goes
 * on from there. A journal that may only be read is reconciled in memory. */
static int
reconcile_for_read(struct cf_journal *journal, int64_t now_ms, struct cf_error *err)
{
    struct cf_digest digest;
    struct cf_buf lines;
    int status = 0;

    if (cf_journal_refresh(journal, err) < 0)
        return -1;
    if (!cf_corr_store_is_incomplete(journal->store))
        return 0;
    if ((fcntl(journal->log_fd, F_GETFL) & O_ACCMODE) == O_RDONLY) {
        (void)cf_corr_store_reconcile(journal->store, now_ms);
        return 0;
    }
    if (begin(journal, err) < 0)
        return -1;
    if (cf_corr_store_is_incomplete(journal->store)) {
        digest = journal->digest;
        cf_buf_init(&lines, 0);
        cf_record_put_batch(&lines, &digest, now_ms);
        status = commit(journal, &lines, err);
        cf_buf_release(&lines);
    }
    cf_journal_unlock(journal);
    return status;
}

char *
cf_journal_claims(struct cf_journal *journal, const struct cf_corr_query *query,
                  int64_t now_ms, size_t *ret_len, struct cf_error *err)
{
    if (reconcile_for_read(journal, now_ms, err) < 0)
        return NULL;
    return cf_corr_store_claims(journal->store, query, now_ms, ret_len, err);
}

char *
cf_journal_voice(struct cf_journal *journal, const struct cf_corr_query *query, int64_t now_ms,
                 size_t *ret_len, struct cf_error *err)
{
    if (reconcile_for_read(journal, now_ms, err) < 0)
        return NULL;
    return cf_corr_store_voice(journal->store, query, now_ms, ret_len, err);
}

char *
cf_journal_page(struct cf_journal *journal, const uint64_t *after, unsigned limit,
                size_t *ret_len, struct cf_error *err)
{
    if (cf_journal_refresh(journal, err) < 0)
        return NULL;
    return cf_corr_store_page(journal->store, after, limit, ret_len, err);
}
