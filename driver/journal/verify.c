/*
 * Reading a journal as if nothing were known about it, to name every record that is not what
 * was written. Goes on behind damage: the digest chain is taken up again from whichever digest
 * the damaged line still shows, so that one flipped byte is one finding.
 */
#include "journal/room.h"

#include "base/error.h"
#include "correspond/correspond.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define FINDINGS_MAX 200u
#define CHUNK (1u << 20)

struct verifier {
    int dir_fd, log_fd;
    const char *dir;
    uint64_t at, line; /* offset and number (from 1) of the line being read */
    uint64_t events, next_seq;
    uint64_t size; /* of the log when reading began */
    bool has_head;
    bool is_presumed; /* next_seq counts a damaged line that may not have been an event */
    char project_id[CF_CORR_UUID_SIZE];
    struct cf_corr_keyring *keyring;
    struct cf_corr_store *store; /* keeps no texts; only what is stored and in which order */
    struct cf_digest
        before[32]; /* what the next line's digest may stand on; one, unless after damage */
    size_t before_count;
    struct cf_buf findings, first;
    unsigned finding_count;
    uint64_t torn_bytes;
};

static void
find(struct verifier *v, uint64_t seq, const char *reason)
{
    struct cf_buf *to = &v->findings;

    if (v->finding_count == 0)
        cf_buf_addf(&v->first,
                    "\"reason\":\"%s\",\"pointer\":null,\"offset\":%" PRIu64
                    ",\"received_seq\":\"%" PRIu64 "\",",
                    reason, v->at, seq);
    if (v->finding_count++ < FINDINGS_MAX)
        cf_buf_addf(to,
                    "%s{\"received_seq\":\"%" PRIu64 "\",\"line\":%" PRIu64
                    ",\"offset\":%" PRIu64 ",\"reason\":\"%s\"}",
                    v->finding_count == 1 ? "" : ",", seq, v->line, v->at, reason);
}

static void
stand_on(struct verifier *v, const struct cf_digest *digest)
{
    v->before[0] = *digest;
    v->before_count = 1;
}

/* The digest written in the last record that begins inside a line: two records whose newline
 * was lost are one line. */
static bool
last_digest_in(const char *line, size_t len, struct cf_digest *ret_digest)
{
    static const char mark[] = "{\"record\":\"";
    static const struct cf_digest none;
    struct cf_record record = {0};
    struct cf_digest computed;

    for (size_t at = len; at-- > 0;) {
        if (len - at < sizeof mark - 1 || memcmp(line + at, mark, sizeof mark - 1) != 0)
            continue;
        (void)cf_record_read(line + at, len - at, &none, &record,
                             &computed); /* for the digest as written */
        *ret_digest = record.digest;
        return memcmp(&record.digest, &none, sizeof none) != 0;
    }
    return false;
}

/* Behind damage, the next line stands on one of these. */
static void
guess_digests(struct verifier *v, const char *line, size_t len)
{
    struct cf_digest guesses[CF_GUESSES_MAX + 1];
    size_t n = cf_record_guess(line, len, &v->before[0], guesses);

    if (last_digest_in(line, len, &guesses[n]))
        n++;
    if (v->before_count + n > sizeof v->before / sizeof v->before[0])
        v->before_count = 1;
    memcpy(&v->before[v->before_count], guesses, n * sizeof guesses[0]);
    v->before_count += n;
}

/* Reads a line against every digest it may stand on. */
static const char *
read_line(struct verifier *v, const char *line, size_t len, struct cf_record *ret_record)
{
    const char *reason = NULL, *first = NULL;

    for (size_t i = 0; i < v->before_count; i++) {
        struct cf_digest computed;
        reason = cf_record_read(line, len, &v->before[i], ret_record, &computed);
        if (reason == NULL) {
            stand_on(v, &ret_record->digest);
            return NULL;
        }
        if (i == 0)
            first = reason;
    }
    guess_digests(v, line, len);
    return first;
}

/* Stages 1 to 8, 10 and 11 again, with the keys known at that time. */
static const char *
check_event(struct verifier *v, const struct cf_record *record)
{
    struct cf_corr_event *event = NULL;
    struct cf_corr_receipt receipt = {0};
    struct cf_corr_refusal refusal = {0};
    int status =
        cf_corr_event_parse(record->json, record->json_len, CF_CORR_FULL, &event, &refusal);

    if (status == 0)
        status = cf_corr_event_verify(event, v->project_id, v->keyring, &refusal);
    if (status == 0)
        status = cf_corr_store_append(v->store, event, record->at_ms, 0, &receipt, &refusal);
    cf_corr_event_free(event);
    if (status < 0)
        return refusal.reason;
    return receipt.created ? NULL : "event_repeated";
}

static void
check_event_record(struct verifier *v, const struct cf_record *record)
{
    const char *reason;

    if (v->is_presumed && record->received_seq + 1 == v->next_seq)
        v->next_seq--;
    v->is_presumed = false;
    if (record->received_seq < v->next_seq) {
        find(v, record->received_seq, "received_seq_out_of_order");
        return;
    }
    for (; v->next_seq < record->received_seq && v->finding_count < FINDINGS_MAX;
         v->next_seq++)
        find(v, v->next_seq, "record_missing");
    v->next_seq = record->received_seq + 1;
    v->events++;
    reason = check_event(v, record);
    if (reason != NULL)
        find(v, record->received_seq, reason);
}

static const char no_text[] = "";

static const char *
fetch_nothing(void *user, uint64_t where, size_t *ret_len)
{
    (void)user;
    (void)where;
    *ret_len = 0;
    return no_text;
}

static void
check_other_record(struct verifier *v, const struct cf_record *record)
{
    struct cf_corr_refusal refusal;

    if (record->kind == CF_RECORD_KEYS) {
        if (cf_corr_keyring_read(v->keyring, record->json, record->json_len, &refusal) < 0)
            find(v, v->next_seq - 1, refusal.reason);
        return;
    }
    if (record->kind != CF_RECORD_JOURNAL)
        return;
    if (v->has_head) {
        find(v, v->next_seq - 1, "record_repeated");
        return;
    }
    v->has_head = true;
    assert(record->project_id != NULL); /* the reader of a journal's head refuses one without */
    memcpy(v->project_id, record->project_id, CF_CORR_UUID_SIZE - 1);
    v->store = cf_corr_store_new(v->project_id, fetch_nothing, v);
}

/* A damaged line counts as the event that should have come here, unless it says it is another
 * kind. */
static void
note_damage(struct verifier *v, const char *line, size_t len, const char *reason)
{
    static const char *const others[] = {"{\"record\":\"keys\"", "{\"record\":\"batch\"",
                                         "{\"record\":\"journal\""};

    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
        if (len >= strlen(others[i]) && memcmp(line, others[i], strlen(others[i])) == 0) {
            find(v, v->next_seq - 1, reason);
            return;
        }
    }
    if (v->line == 1) {
        find(v, 0, reason);
        return;
    }
    find(v, v->next_seq, reason);
    v->next_seq++;
    v->is_presumed = true;
}

static void
take_line(struct verifier *v, const char *line, size_t len)
{
    struct cf_record record = {0};
    const char *reason;

    v->line++;
    reason = read_line(v, line, len, &record);
    if (reason != NULL)
        note_damage(v, line, len, reason);
    else if (record.kind != CF_RECORD_EVENT)
        check_other_record(v, &record);
    else if (v->store != NULL)
        check_event_record(v, &record);
    else
        find(v, record.received_seq, "journal_record_missing");
    v->at += len + 1;
}

/* Bytes behind the last newline: torn by a crash, or a whole record whose newline was changed.
 */
static void
take_rest(struct verifier *v, const char *bytes, size_t len)
{
    struct cf_record record;
    struct cf_digest computed;

    if (len == 0)
        return;
    v->line++;
    v->torn_bytes = len;
    for (size_t i = 0; i < v->before_count; i++) {
        if (len > 1 &&
            cf_record_read(bytes, len - 1, &v->before[i], &record, &computed) == NULL) {
            v->torn_bytes = 0;
            find(v, v->next_seq, "record_end_changed");
            return;
        }
    }
    find(v, v->next_seq, "record_torn");
}

static int
read_log(struct verifier *v, struct cf_error *err)
{
    struct cf_buf chunk;
    uint64_t offset = 0;
    ssize_t got = 1;

    cf_buf_init(&chunk, CF_LOG_LINE_MAX + CHUNK);
    while (got > 0 && offset < v->size) {
        const char *line, *stop;
        char *room = cf_buf_reserve(&chunk, CHUNK);
        if (room == NULL)
            break;
        got = pread(v->log_fd, room, v->size - offset < CHUNK ? v->size - offset : CHUNK,
                    (off_t)offset);
        if (got < 0 && errno == EINTR) {
            got = 1;
            continue;
        }
        if (got <= 0)
            break;
        offset += (uint64_t)got;
        cf_buf_wrote(&chunk, (size_t)got);
        line = chunk.data;
        while ((stop = memchr(line, '\n', chunk.len - (size_t)(line - chunk.data))) != NULL) {
            take_line(v, line, (size_t)(stop - line));
            line = stop + 1;
        }
        cf_buf_drop(&chunk, (size_t)(line - chunk.data));
    }
    if (got < 0)
        cf_error_set(err, CF_ERROR_INTERNAL, errno, "reading %s/" CF_LOG_NAME ": %s", v->dir,
                     strerror(errno));
    else if (chunk.failed)
        cf_error_set(err, CF_ERROR_CONFIG, 0,
                     "%s/" CF_LOG_NAME " has a line of more than 2 MiB at byte %" PRIu64,
                     v->dir, v->at);
    else
        take_rest(v, chunk.data, chunk.len);
    got = got < 0 || chunk.failed ? -1 : 0;
    cf_buf_release(&chunk);
    return (int)got;
}

static void
check_index(struct verifier *v, const char **ret_word)
{
    bool is_absent;
    const char *reason = cf_index_check(v->dir_fd, &is_absent);

    *ret_word = is_absent ? "absent" : reason == NULL ? "sound" : "damaged";
    if (reason != NULL) {
        v->line = 0; /* another file */
        v->at = 0;
        find(v, v->next_seq - 1, reason);
    }
}

static char *
report(struct verifier *v, bool *ret_valid, size_t *ret_len, struct cf_error *err)
{
    struct cf_buf out;
    const char *index;

    check_index(v, &index);
    *ret_valid = v->finding_count == 0;
    cf_buf_init(&out, 0);
    cf_buf_addf(&out, "{\"valid\":%s,", *ret_valid ? "true" : "false");
    cf_buf_add(&out, v->first.data, v->first.len);
    cf_buf_addf(&out,
                "\"project_id\":\"%s\",\"events\":%" PRIu64 ",\"last_seq\":\"%" PRIu64
                "\",\"bytes\":%" PRIu64 ",\"torn_bytes\":%" PRIu64
                ",\"index\":\"%s\",\"damaged_count\":%u,\"damaged\":[",
                v->project_id, v->events, v->next_seq - 1, v->at + v->torn_bytes,
                v->torn_bytes, index, v->finding_count);
    cf_buf_add(&out, v->findings.data, v->findings.len);
    cf_buf_adds(&out, "]}");
    if (out.failed || v->findings.failed || v->first.failed) {
        cf_buf_release(&out);
        (void)cf_error_memory(err);
        return NULL;
    }
    return cf_buf_take(&out, ret_len);
}

/* Where the log ends while nobody is writing: what comes later is not judged. Without a lock
 * file nobody ever wrote; a lock that stays busy is not waited for longer than a moment. */
static void
measure(struct verifier *v)
{
    static const struct timespec pause = {0, 5000000};
    int fd = openat(v->dir_fd, "lock", O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NOCTTY);
    struct stat st;

    for (int i = 0; i < 400 && fd >= 0 && flock(fd, LOCK_SH | LOCK_NB) < 0; i++)
        (void)nanosleep(&pause, NULL);
    v->size = fstat(v->log_fd, &st) < 0 ? 0 : (uint64_t)st.st_size;
    if (fd >= 0)
        (void)close(fd); /* and with it the lock */
}

static int
open_log(struct verifier *v, struct cf_error *err)
{
    v->dir_fd = open(v->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (v->dir_fd >= 0)
        v->log_fd =
            openat(v->dir_fd, CF_LOG_NAME, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NOCTTY);
    if (v->log_fd < 0)
        return cf_error_set(err, CF_ERROR_CONFIG, errno, "opening %s/" CF_LOG_NAME ": %s",
                            v->dir, strerror(errno));
    measure(v);
    return 0;
}

char *
cf_journal_verify(const char *dir, bool *ret_valid, size_t *ret_len, struct cf_error *err)
{
    struct verifier v = {
        .dir_fd = -1, .log_fd = -1, .dir = dir, .next_seq = 1, .before_count = 1};
    char *document = NULL;

    v.keyring = cf_corr_keyring_new();
    if (v.keyring == NULL)
        (void)cf_error_memory(err);
    else if (open_log(&v, err) == 0 && read_log(&v, err) == 0) {
        if (!v.has_head && v.finding_count == 0)
            find(&v, 0, "journal_record_missing");
        document = report(&v, ret_valid, ret_len, err);
    }
    cf_corr_keyring_free(v.keyring);
    cf_corr_store_free(v.store);
    cf_buf_release(&v.findings);
    cf_buf_release(&v.first);
    if (v.log_fd >= 0)
        (void)close(v.log_fd);
    if (v.dir_fd >= 0)
        (void)close(v.dir_fd);
    return document;
}
