/*
 * An open journal: the log read and applied to a store, and kept up with what others append.
 */
#include "journal/room.h"

#include "base/error.h"
#include "base/str.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define READ_CHUNK (1u << 20)
#define FETCH_FIRST 4096u

static int
file_error(const char *dir, const char *name, const char *doing, struct cf_error *err)
{
    int number = errno;
    enum cf_error_kind kind = number == EIO || number == ENOSPC || number == EDQUOT ||
                                      number == EMFILE || number == ENFILE || number == ENOMEM
                                  ? CF_ERROR_INTERNAL
                                  : CF_ERROR_CONFIG;

    return cf_error_set(err, kind, number, "%s %s/%s: %s", doing, dir, name, strerror(number));
}

static int
damage_error(const struct cf_journal *journal, uint64_t at, const char *reason,
             struct cf_error *err)
{
    cf_error_set(err, CF_ERROR_CONFIG, 0,
                 "journal %s is damaged behind event %" PRIu64 ", at byte %" PRIu64 ": %s",
                 journal->dir,
                 journal->store == NULL ? 0 : cf_corr_store_last_seq(journal->store), at,
                 reason);
    return cf_error_fix(
        err, "name every damaged record with: cfrunner correspond journal verify %s",
        journal->dir);
}

/* ---- applying records ---- */

static int
apply_journal(struct cf_journal *journal, const struct cf_record *record, uint64_t at,
              struct cf_error *err)
{
    if (journal->store != NULL)
        return damage_error(journal, at, "record_repeated", err);
    memcpy(journal->project_id, record->project_id, CF_CORR_UUID_SIZE - 1);
    journal->store = cf_corr_store_new(journal->project_id, cf_journal_fetch, journal);
    return journal->store == NULL ? cf_error_memory(err) : 0;
}

static int
apply_event(struct cf_journal *journal, const struct cf_record *record, uint64_t where,
            uint64_t at, struct cf_error *err)
{
    struct cf_corr_event *event = NULL;
    struct cf_corr_receipt receipt = {0};
    struct cf_corr_refusal refusal;
    int status;

    if (record->received_seq != cf_corr_store_last_seq(journal->store) + 1)
        return damage_error(journal, at, "received_seq_out_of_order", err);
    if (cf_corr_event_parse(record->json, record->json_len, CF_CORR_FULL, &event, &refusal) <
        0)
        return damage_error(journal, at, refusal.reason, err);
    status =
        cf_corr_store_append(journal->store, event, record->at_ms, where, &receipt, &refusal);
    cf_corr_event_free(event);
    if (status < 0)
        return damage_error(journal, at, refusal.reason, err);
    return receipt.created ? 0 : damage_error(journal, at, "event_repeated", err);
}

static int
apply_record(struct cf_journal *journal, const struct cf_record *record, const char *line,
             uint64_t at, struct cf_error *err)
{
    struct cf_corr_refusal refusal;

    if (record->kind == CF_RECORD_JOURNAL)
        return apply_journal(journal, record, at, err);
    if (journal->store == NULL)
        return damage_error(journal, at, "journal_record_missing", err);
    if (record->kind == CF_RECORD_EVENT)
        return apply_event(journal, record, at + (uint64_t)(record->json - line), at, err);
    if (record->kind == CF_RECORD_BATCH)
        (void)cf_corr_store_reconcile(journal->store,
                                      record->at_ms); /* it may have had nothing left to do */
    else if (cf_corr_keyring_read(journal->keyring, record->json, record->json_len, &refusal) <
             0)
        return damage_error(journal, at, refusal.reason, err);
    return 0;
}

int
cf_journal_apply(struct cf_journal *journal, const char *bytes, size_t len, size_t *ret_used,
                 struct cf_error *err)
{
    const char *line = bytes, *stop;

    while ((stop = memchr(line, '\n', len - (size_t)(line - bytes))) != NULL) {
        uint64_t at = journal->end;
        struct cf_digest computed;
        struct cf_record record;
        const char *reason =
            cf_record_read(line, (size_t)(stop - line), &journal->digest, &record, &computed);
        if (reason != NULL)
            return damage_error(journal, at, reason, err);
        if (apply_record(journal, &record, line, at, err) < 0)
            return -1;
        journal->digest = record.digest;
        journal->last_at = at;
        journal->end = at + (uint64_t)(stop - line) + 1;
        journal->records++;
        line = stop + 1;
    }
    *ret_used = (size_t)(line - bytes);
    return 0;
}

int
cf_journal_catch_up(struct cf_journal *journal, uint64_t *ret_rest, struct cf_error *err)
{
    struct cf_buf *chunk = &journal->chunk;
    ssize_t got;
    size_t used;

    cf_buf_reset(chunk);
    for (;;) {
        char *room = cf_buf_reserve(chunk, READ_CHUNK);
        if (room == NULL)
            return chunk->len > CF_LOG_LINE_MAX
                       ? damage_error(journal, journal->end, "record_too_long", err)
                       : cf_error_memory(err);
        got = pread(journal->log_fd, room, READ_CHUNK, (off_t)(journal->end + chunk->len));
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return file_error(journal->dir, CF_LOG_NAME, "reading", err);
        if (got == 0)
            break;
        cf_buf_wrote(chunk, (size_t)got);
        if (cf_journal_apply(journal, chunk->data, chunk->len, &used, err) < 0)
            return -1;
        cf_buf_drop(chunk, used);
    }
    *ret_rest = chunk->len;
    return 0;
}

const char *
cf_journal_fetch(void *user, uint64_t where, size_t *ret_len)
{
    struct cf_journal *journal = user;
    struct cf_buf *text = &journal->fetched;
    size_t want = FETCH_FIRST;

    cf_buf_reset(text);
    while (text->len < CF_CORR_EVENT_BYTES_MAX + 2) {
        char *room = cf_buf_reserve(text, want), *stop;
        ssize_t got =
            room == NULL ? 0 : pread(journal->log_fd, room, want, (off_t)(where + text->len));
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            return NULL;
        cf_buf_wrote(text, (size_t)got);
        stop = memchr(text->data, '\n', text->len);
        if (stop != NULL) {
            *ret_len = (size_t)(stop - text->data) - 1; /* the record's own brace */
            return stop == text->data ? NULL : text->data;
        }
        want = CF_CORR_EVENT_BYTES_MAX;
    }
    return NULL;
}

/* ---- opening and closing ---- */

static int
open_files(struct cf_journal *journal, struct cf_error *err)
{
    journal->dir_fd = open(journal->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (journal->dir_fd < 0)
        return file_error(journal->dir, "", "opening", err);
    journal->log_fd =
        openat(journal->dir_fd, CF_LOG_NAME, O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NOCTTY);
    if (journal->log_fd < 0 &&
        (errno == EACCES || errno == EROFS)) /* to be read only: writes will say so */
        journal->log_fd =
            openat(journal->dir_fd, CF_LOG_NAME, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NOCTTY);
    if (journal->log_fd < 0) {
        (void)file_error(journal->dir, CF_LOG_NAME, "opening", err);
        return cf_error_fix(
            err, "make a journal with: cfrunner correspond journal init %s --project UUID",
            journal->dir);
    }
    return 0;
}

static struct cf_journal *
new_journal(const char *dir, struct cf_error *err)
{
    struct cf_journal *journal = calloc(1, sizeof *journal);

    if (journal == NULL) {
        (void)cf_error_memory(err);
        return NULL;
    }
    journal->dir_fd = journal->log_fd = journal->lock_fd = -1;
    journal->lock_wait_ms = 10000;
    cf_buf_init(&journal->chunk, CF_LOG_LINE_MAX + READ_CHUNK);
    journal->keyring = cf_corr_keyring_new();
    if (journal->keyring == NULL || cf_str_copy(&journal->dir, dir, err) < 0) {
        (void)cf_error_memory(err);
        cf_journal_close(journal);
        return NULL;
    }
    return journal;
}

int
cf_journal_open(const char *dir, struct cf_journal **ret_journal, struct cf_error *err)
{
    struct cf_journal *journal = new_journal(dir, err);
    uint64_t rest;

    if (journal == NULL)
        return -1;
    if (open_files(journal, err) < 0)
        goto fail;
    cf_index_load(journal);
    if (cf_journal_catch_up(journal, &rest, err) < 0)
        goto fail;
    if (journal->store == NULL) {
        (void)damage_error(journal, 0, "journal_record_missing", err);
        goto fail;
    }
    *ret_journal = journal;
    return 0;

fail:
    journal->indexed_records = journal->records; /* no index of what could not be read */
    cf_journal_close(journal);
    return -1;
}

static void
close_fd(int fd)
{
    if (fd >= 0)
        (void)close(fd); /* everything that matters was synced */
}

void
cf_journal_close(struct cf_journal *journal)
{
    if (journal == NULL)
        return;
    if (!journal->is_failed &&
        journal->records - journal->indexed_records >= CF_INDEX_TAIL_MAX)
        (void)cf_index_save(journal,
                            NULL); /* the next open is slower without it, nothing else */
    cf_corr_store_free(journal->store);
    cf_corr_keyring_free(journal->keyring);
    if (journal->map != NULL)
        (void)munmap(journal->map, journal->map_size);
    cf_buf_release(&journal->fetched);
    cf_buf_release(&journal->chunk);
    close_fd(journal->lock_fd);
    close_fd(journal->log_fd);
    close_fd(journal->dir_fd);
    free(journal->dir);
    free(journal);
}

const struct cf_corr_store *
cf_journal_store(const struct cf_journal *journal)
{
    return journal->store;
}

const struct cf_corr_keyring *
cf_journal_keyring(const struct cf_journal *journal)
{
    return journal->keyring;
}

const char *
cf_journal_project(const struct cf_journal *journal)
{
    return journal->project_id;
}

void
cf_journal_set_lock_wait(struct cf_journal *journal, unsigned wait_ms)
{
    journal->lock_wait_ms = wait_ms;
}

const struct cf_journal_recovery *
cf_journal_recovery(const struct cf_journal *journal)
{
    return &journal->recovery;
}

int
cf_journal_refresh(struct cf_journal *journal, struct cf_error *err)
{
    uint64_t rest;

    return cf_journal_catch_up(journal, &rest,
                               err); /* an unfinished line is somebody writing, or a crash */
}

/* ---- creating ---- */

static int
write_first_lines(int dir_fd, const char *dir, const struct cf_buf *lines,
                  struct cf_error *err)
{
    int fd = openat(dir_fd, CF_LOG_NAME, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW,
                    0600),
        status = 0;

    if (fd < 0 && errno == EEXIST) {
        (void)cf_error_set(err, CF_ERROR_CONFIG, EEXIST, "%s already holds a journal", dir);
        return cf_error_fix(err, "choose another directory; a journal is never overwritten");
    }
    if (fd < 0)
        return file_error(dir, CF_LOG_NAME, "creating", err);
    if (write(fd, lines->data, lines->len) != (ssize_t)lines->len || fsync(fd) < 0 ||
        fsync(dir_fd) < 0) {
        status = file_error(dir, CF_LOG_NAME, "writing", err);
        (void)unlinkat(dir_fd, CF_LOG_NAME, 0); /* half a journal helps nobody */
    }
    close_fd(fd);
    return status;
}

int
cf_journal_create(const char *dir, const char *project_id,
                  const struct cf_corr_keyring *keyring, int64_t now_ms, struct cf_error *err)
{
    struct cf_digest digest = {{0}};
    struct cf_buf lines;
    int dir_fd, status;

    if (cf_corr_check_uuid(project_id, strlen(project_id)) != NULL)
        return cf_error_set(err, CF_ERROR_CONFIG, 0,
                            "\"%.60s\" is not a project id: a UUID in lower case", project_id);
    if (mkdir(dir, 0700) < 0 && errno != EEXIST)
        return file_error(dir, "", "creating", err);
    dir_fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (dir_fd < 0)
        return file_error(dir, "", "opening", err);
    cf_buf_init(&lines, 0);
    cf_record_put_journal(&lines, &digest, project_id, now_ms);
    if (keyring != NULL && cf_corr_keyring_count(keyring) > 0)
        cf_record_put_keys(&lines, &digest, keyring, now_ms);
    status = lines.failed ? cf_error_memory(err) : write_first_lines(dir_fd, dir, &lines, err);
    cf_buf_release(&lines);
    close_fd(dir_fd);
    return status;
}
