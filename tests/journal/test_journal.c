/* The journal on disk: receipts, sharing, crashes, damage, the index, and appending from a
 * loop. */
#include "tests/correspond/support.h"
#include "journal/room.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <uv.h>

static char dir[64];

static void
remove_dir(const char *path)
{
    DIR *open = opendir(path);
    struct dirent *entry;
    char name[600];

    while (open != NULL && (entry = readdir(open)) != NULL) {
        snprintf(name, sizeof name, "%s/%s", path, entry->d_name);
        (void)unlink(name);
    }
    if (open != NULL)
        closedir(open);
    (void)rmdir(path);
}

static void
put_key(struct cf_corr_keyring *keyring, bool is_active)
{
    struct cf_corr_author author = make_author(1);
    struct cf_corr_key key = {.is_active = is_active};

    strcpy(key.identity_id, author.identity_id);
    strcpy(key.signing_key_id, author.signing_key_id);
    cf_corr_public_key(author.seed, key.public_key);
    ck_assert_int_eq(cf_corr_keyring_put(keyring, &key), 0);
}

static void
setup(void)
{
    struct cf_corr_keyring *keyring = cf_corr_keyring_new();
    struct cf_error err = {0};

    strcpy(dir, "/tmp/cf-journal-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(dir));
    put_key(keyring, true);
    ck_assert_msg(cf_journal_create(dir, PROJECT, keyring, NOW, &err) == 0, "%s", err.text);
    cf_corr_keyring_free(keyring);
}

static void
teardown(void)
{
    remove_dir(dir);
}

static struct cf_journal *
open_ok(void)
{
    struct cf_journal *journal = NULL;
    struct cf_error err = {0};
    int status = cf_journal_open(dir, &journal, &err);

    ck_assert_msg(status == 0, "%s", err.text);
    return journal;
}

static struct cf_corr_receipt
append_ok(struct cf_journal *journal, const struct cf_corr_event *event)
{
    struct cf_corr_receipt receipt = {0};
    struct cf_corr_refusal refusal = {.reason = ""};
    struct cf_error err = {0};
    int status = cf_journal_append(journal, event, NOW, &receipt, &refusal, &err);

    ck_assert_msg(status == 0, "%d %s %s", status, refusal.reason, err.text);
    return receipt;
}

static struct cf_corr_author author;

static void
append_new(struct cf_journal *journal, unsigned count)
{
    while (count-- > 0) {
        struct cf_corr_event *event =
            sign_ok(&author, "progress", "{\"summary\":\"p\"}", NULL);
        ck_assert(append_ok(journal, event).created);
        cf_corr_event_free(event);
    }
}

static bool
verify(json_t **ret_report)
{
    struct cf_error err = {0};
    bool is_valid;
    size_t len;
    char *text = cf_journal_verify(dir, &is_valid, &len, &err);
    json_t *report;

    ck_assert_msg(text != NULL, "%s", err.text);
    report = json_loadb(text, len, JSON_REJECT_DUPLICATES, NULL);
    ck_assert_msg(report != NULL, "%s", text);
    ck_assert(json_is_true(json_object_get(report, "valid")) == is_valid);
    free(text);
    if (ret_report != NULL)
        *ret_report = report;
    else
        json_decref(report);
    return is_valid;
}

static char *
log_path(void)
{
    static char path[128];

    snprintf(path, sizeof path, "%s/journal.ndjson", dir);
    return path;
}

START_TEST(receipts_survive_a_new_open)
{
    struct cf_journal *journal = open_ok();
    struct cf_corr_event *event;

    author = make_author(1);
    append_new(journal, 3);
    event = sign_ok(&author, "intent", "{\"summary\":\"x\"}", NULL);
    ck_assert_uint_eq(append_ok(journal, event).received_seq, 4);
    cf_journal_close(journal);
    journal = open_ok();
    ck_assert_uint_eq(cf_corr_store_last_seq(cf_journal_store(journal)), 4);
    struct cf_corr_receipt again = append_ok(journal, event);
    ck_assert(!again.created && again.received_seq == 4);
    ck_assert(verify(NULL));
    cf_journal_close(journal);
    cf_corr_event_free(event);
}
END_TEST

START_TEST(a_journal_is_never_overwritten)
{
    struct cf_error err = {0};

    ck_assert_int_eq(cf_journal_create(dir, PROJECT, NULL, NOW, &err), -1);
    ck_assert_ptr_nonnull(strstr(err.text, "already holds a journal"));
    ck_assert_int_eq(cf_journal_create("/tmp/cf-no/such/parent", PROJECT, NULL, NOW, &err),
                     -1);
    ck_assert_int_eq(cf_journal_create("/tmp/cf-journal-x", "not-a-uuid", NULL, NOW, &err),
                     -1);
}
END_TEST

START_TEST(unknown_and_retired_keys_are_refused_but_retries_are_not)
{
    struct cf_journal *journal = open_ok();
    struct cf_corr_keyring *retired = cf_corr_keyring_new();
    struct cf_corr_author stranger = make_author(2);
    struct cf_corr_event *event, *foreign = sign_ok(&stranger, "close", "{}", NULL), *late;
    struct cf_corr_receipt receipt;
    struct cf_corr_refusal refusal;
    struct cf_error err = {0};

    author = make_author(1);
    event = sign_ok(&author, "close", "{}", NULL);
    late = sign_ok(&author, "close", "{}", NULL);
    append_ok(journal, event);
    ck_assert_int_eq(cf_journal_append(journal, foreign, NOW, &receipt, &refusal, &err), 1);
    ck_assert_str_eq(refusal.reason, "sender_or_signing_key_not_active");
    put_key(retired, false);
    ck_assert_int_eq(cf_journal_trust(journal, retired, NOW, &err), 0);
    ck_assert_int_eq(cf_journal_append(journal, late, NOW, &receipt, &refusal, &err), 1);
    ck_assert_str_eq(refusal.reason, "sender_or_signing_key_not_active");
    ck_assert(!append_ok(journal, event).created); /* an exact retry comes before the key */
    cf_journal_close(journal);
    journal = open_ok();
    ck_assert(!cf_corr_keyring_at(cf_journal_keyring(journal), 0)->is_active);
    ck_assert(verify(NULL)); /* judged by the keys of its time */
    cf_journal_close(journal);
    cf_corr_event_free(event);
    cf_corr_event_free(late);
    cf_corr_event_free(foreign);
    cf_corr_keyring_free(retired);
}
END_TEST

START_TEST(two_handles_see_each_others_events)
{
    struct cf_journal *one = open_ok(), *two = open_ok();
    struct cf_error err = {0};

    author = make_author(1);
    append_new(one, 2);
    append_new(two, 2);
    append_new(one, 1);
    ck_assert_uint_eq(cf_corr_store_last_seq(cf_journal_store(one)), 5);
    ck_assert_uint_eq(cf_corr_store_last_seq(cf_journal_store(two)), 4);
    ck_assert_int_eq(cf_journal_refresh(two, &err), 0);
    ck_assert_uint_eq(cf_corr_store_last_seq(cf_journal_store(two)), 5);
    cf_journal_close(one);
    cf_journal_close(two);
    ck_assert(verify(NULL));
}
END_TEST

START_TEST(a_held_lock_is_waited_for_and_named)
{
    struct cf_journal *one = open_ok(), *two = open_ok();
    struct cf_corr_event *event;
    struct cf_corr_receipt receipt;
    struct cf_corr_refusal refusal;
    struct cf_error err = {0};
    bool is_held;

    author = make_author(1);
    event = sign_ok(&author, "close", "{}", NULL);
    ck_assert_int_eq(cf_journal_try_lock(one, &is_held, &err), 0);
    cf_journal_set_lock_wait(two, 30);
    ck_assert_int_eq(cf_journal_append(two, event, NOW, &receipt, &refusal, &err), -1);
    ck_assert_int_eq(err.kind, CF_ERROR_LEASE);
    ck_assert_ptr_nonnull(strstr(err.fix, "lock"));
    cf_journal_unlock(one);
    ck_assert(append_ok(two, event).created);
    cf_corr_event_free(event);
    cf_journal_close(one);
    cf_journal_close(two);
}
END_TEST

/* The log cut at every byte of its last record: the rest is put aside, the next append goes
 * on. */
START_TEST(a_record_torn_at_any_byte_is_put_aside)
{
    struct cf_journal *journal = open_ok();
    struct stat before, after;
    size_t len;
    char *whole;

    author = make_author(1);
    append_new(journal, 2);
    ck_assert_int_eq(stat(log_path(), &before), 0);
    append_new(journal, 1);
    ck_assert_int_eq(stat(log_path(), &after), 0);
    cf_journal_close(journal);
    whole = slurp(log_path(), &len);
    for (off_t cut = before.st_size + 1; cut < after.st_size;
         cut += cut < after.st_size - 40 ? 37 : 1) {
        struct cf_corr_author next = author;
        struct cf_corr_event *event;
        const struct cf_journal_recovery *recovery;
        FILE *file = fopen(log_path(), "wb");
        uint64_t seq;
        fwrite(whole, 1, (size_t)cut, file);
        fclose(file);
        ck_assert(!verify(NULL));
        journal = open_ok(); /* reading is fine meanwhile */
        ck_assert_uint_eq(cf_corr_store_last_seq(cf_journal_store(journal)), 2);
        event = sign_ok(&next, "close", "{}", NULL);
        seq = append_ok(journal, event).received_seq;
        recovery = cf_journal_recovery(journal);
        ck_assert_uint_eq(recovery->bytes, (uint64_t)(cut - before.st_size));
        /* Only the newline was missing: the record is whole and kept. */
        ck_assert_uint_eq(seq, cut == after.st_size - 1 ? 4 : 3);
        ck_assert_int_eq(recovery->kept_as[0] == '\0', cut == after.st_size - 1);
        cf_corr_event_free(event);
        cf_journal_close(journal);
        ck_assert(verify(NULL));
    }
    free(whole);
}
END_TEST

/* Every byte of a small journal flipped, one at a time: always found, and named. */
START_TEST(any_flipped_byte_is_found_and_named)
{
    struct cf_journal *journal = open_ok();
    size_t len, start[8] = {0}, lines = 0;
    char *whole;
    int fd;

    author = make_author(1);
    append_new(journal, 4);
    cf_journal_close(journal);
    whole = slurp(log_path(), &len);
    for (size_t i = 0; i < len; i++)
        if (whole[i] == '\n')
            start[++lines] = i + 1;
    ck_assert_uint_eq(lines, 6); /* journal, keys, four events */
    fd = open(log_path(), O_WRONLY);
    for (size_t at = 0; at < len; at += at % 3 == 0 ? 1 : 2) {
        unsigned bit = at % 8, line = 0;
        char flipped = (char)(whole[at] ^ (1 << bit));
        json_t *report, *first;
        const char *seq;
        while (at >= start[line + 1])
            line++;
        ck_assert_int_eq(pwrite(fd, &flipped, 1, (off_t)at), 1);
        ck_assert_msg(!verify(&report), "byte %zu", at);
        first = json_array_get(json_object_get(report, "damaged"), 0);
        seq = json_string_value(json_object_get(first, "received_seq"));
        if (line >= 2) /* event 1 stands in line 2 */
            ck_assert_msg(strtoul(seq, NULL, 10) == line - 1,
                          "byte %zu of event %u named as %s", at, line - 1, seq);
        ck_assert_int_eq(json_integer_value(json_object_get(first, "offset")),
                         (json_int_t)start[line]);
        ck_assert_msg(json_integer_value(json_object_get(report, "damaged_count")) <=
                              (whole[at] == '\n' ? 2 : 1) ||
                          line < 2,
                      "byte %zu: one flip, several findings", at);
        json_decref(report);
        ck_assert_int_eq(pwrite(fd, &whole[at], 1, (off_t)at), 1);
    }
    ck_assert(verify(NULL));
    close(fd);
    free(whole);
}
END_TEST

START_TEST(a_damaged_journal_is_not_written_to)
{
    struct cf_journal *journal = open_ok();
    struct cf_error err = {0};
    int fd;

    author = make_author(1);
    append_new(journal, 3);
    cf_journal_close(journal);
    fd = open(log_path(), O_WRONLY);
    ck_assert_int_eq(pwrite(fd, "X", 1, 600), 1);
    close(fd);
    journal = NULL;
    ck_assert_int_eq(cf_journal_open(dir, &journal, &err), -1);
    ck_assert_ptr_nonnull(strstr(err.text, "damaged"));
    ck_assert_ptr_nonnull(strstr(err.fix, "journal verify"));
}
END_TEST

static unsigned
claims_in(struct cf_journal *journal, char *ret_status)
{
    const struct cf_corr_query query = {"repo", NULL, NULL};
    struct cf_error err = {0};
    size_t len;
    char *text = cf_journal_claims(journal, &query, NOW, &len, &err);
    json_t *json;
    unsigned n;

    ck_assert_msg(text != NULL, "%s", err.text);
    json = json_loadb(text, len, 0, NULL);
    strcpy(ret_status, json_string_value(json_object_get(json, "projection_status")));
    n = (unsigned)json_array_size(json_object_get(json, "claims"));
    json_decref(json);
    free(text);
    return n;
}

/* A hundred renewals before their root: each read is one batch, also when each is a new
 * process. */
START_TEST(reconciliation_goes_on_across_opens)
{
    struct cf_corr_event *events[101];
    struct cf_corr_claim claim;
    struct cf_corr_refusal refusal;
    struct cf_journal *journal = open_ok();
    char status[20];

    author = make_author(1);
    cf_corr_claim_init(&claim, &author);
    ck_assert_int_eq(cf_corr_claim_open(&claim, NOW, NOW + HOUR, &events[0], &refusal), 0);
    for (int i = 1; i <= 100; i++)
        ck_assert_int_eq(cf_corr_claim_renew(&claim, NOW, NOW + HOUR, &events[i], &refusal),
                         0);
    for (int i = 100; i >= 0; i--)
        append_ok(journal, events[i]);
    cf_journal_close(journal);
    for (int read = 0; read < 5; read++) {
        struct cf_corr_state state = {0};
        journal = open_ok();
        ck_assert_uint_eq(claims_in(journal, status), 1);
        ck_assert_str_eq(status, read < 2 ? "truncated" : "complete");
        ck_assert(cf_corr_store_state(cf_journal_store(journal), 1, NOW,
                                      &state)); /* generation 101 came first */
        ck_assert_int_eq(state.lineage, read < 2 ? CF_CORR_PENDING : CF_CORR_VALID);
        cf_journal_close(journal);
    }
    ck_assert(verify(NULL));
    for (int i = 0; i <= 100; i++)
        cf_corr_event_free(events[i]);
}
END_TEST

START_TEST(the_index_is_used_and_never_needed)
{
    struct cf_journal *journal = open_ok();
    char path[128], status[20];
    struct stat st;
    char byte;
    int fd;

    author = make_author(1);
    append_new(journal, CF_INDEX_TAIL_MAX + 20);
    cf_journal_close(journal);
    snprintf(path, sizeof path, "%s/index", dir);
    ck_assert_int_eq(stat(path, &st), 0);
    journal = open_ok();
    ck_assert_ptr_nonnull(journal->map);
    ck_assert_uint_eq(cf_corr_store_last_seq(cf_journal_store(journal)),
                      CF_INDEX_TAIL_MAX + 20);
    append_new(journal, 3);
    cf_journal_close(journal);
    ck_assert(verify(NULL));
    journal = open_ok(); /* index and a tail */
    ck_assert_ptr_nonnull(journal->map);
    ck_assert_uint_eq(cf_corr_store_last_seq(cf_journal_store(journal)),
                      CF_INDEX_TAIL_MAX + 23);
    ck_assert_uint_eq(claims_in(journal, status), 0);
    cf_journal_close(journal);
    for (off_t at = 0; at < st.st_size; at += st.st_size / 23) {
        json_t *report;
        fd = open(path, O_RDWR);
        ck_assert_int_eq(pread(fd, &byte, 1, at), 1);
        byte ^= 4;
        ck_assert_int_eq(pwrite(fd, &byte, 1, at), 1);
        ck_assert_msg(!verify(&report), "byte %ld of the index", (long)at);
        ck_assert_str_eq(json_string_value(json_object_get(report, "index")), "damaged");
        json_decref(report);
        journal = open_ok();
        ck_assert_ptr_null(journal->map);            /* read from the log */
        journal->indexed_records = journal->records; /* keep the damaged file */
        cf_journal_close(journal);
        byte ^= 4;
        ck_assert_int_eq(pwrite(fd, &byte, 1, at), 1);
        close(fd);
    }
    ck_assert(verify(NULL));
}
END_TEST

/* Another log of the same shape: an index must not be taken for one of it. */
START_TEST(an_index_of_another_log_is_not_used)
{
    struct cf_journal *journal = open_ok();
    struct cf_error err = {0};

    author = make_author(1);
    append_new(journal, CF_INDEX_TAIL_MAX + 1);
    cf_journal_close(journal);
    ck_assert_int_eq(unlink(log_path()), 0);
    ck_assert_int_eq(cf_journal_create(dir, PROJECT, NULL, NOW, &err), 0);
    journal = open_ok();
    ck_assert_ptr_null(journal->map);
    ck_assert_uint_eq(cf_corr_store_last_seq(cf_journal_store(journal)), 0);
    cf_journal_close(journal);
}
END_TEST

/* Writers killed at any moment leave a journal that opens, verifies, and lost no receipt. */
START_TEST(writers_killed_at_any_moment_lose_no_receipt)
{
    for (unsigned round = 0; round < 25; round++) {
        int pipes[2], status;
        uint64_t acknowledged = 0, seq;
        struct cf_journal *journal;
        pid_t child;
        ck_assert_int_eq(pipe(pipes), 0);
        child = fork();
        if (child == 0) {
            author = make_author(1);
            author.session_seq = round * 100000;
            journal = open_ok();
            for (;;) {
                struct cf_corr_event *event =
                    sign_ok(&author, "progress", "{\"summary\":\"p\"}", NULL);
                seq = append_ok(journal, event).received_seq;
                cf_corr_event_free(event);
                (void)!write(pipes[1], &seq, sizeof seq);
            }
        }
        close(pipes[1]);
        usleep(3000 + round * 700);
        kill(child, SIGKILL);
        waitpid(child, &status, 0);
        while (read(pipes[0], &seq, sizeof seq) == sizeof seq)
            acknowledged = seq;
        close(pipes[0]);
        journal = open_ok();
        ck_assert_uint_ge(cf_corr_store_last_seq(cf_journal_store(journal)), acknowledged);
        author = make_author(1);
        author.session_seq = round * 100000 + 90000;
        append_new(journal, 1);
        cf_journal_close(journal);
        ck_assert(verify(NULL));
    }
}
END_TEST

/* ---- from a loop ---- */

struct told {
    unsigned done, stored, refused, failed, closed;
    uint64_t last_seq;
    struct cf_journal_queue *queue;
};

static void
on_done(void *user, int status, const struct cf_corr_receipt *receipt,
        const struct cf_corr_refusal *refusal, const struct cf_error *err)
{
    struct told *told = user;

    told->done++;
    told->stored += status == 0 && receipt->created;
    told->refused += status == 1 && refusal->reason != NULL;
    told->failed += status == -1 && err->text[0] != '\0';
    if (status == 0)
        told->last_seq = receipt->received_seq;
}

static void
on_closed(void *user)
{
    ((struct told *)user)->closed++;
}

static void
queue_progress(struct told *told, unsigned count)
{
    struct cf_error err = {0};

    while (count-- > 0)
        ck_assert_int_eq(
            cf_journal_queue_append(told->queue,
                                    sign_ok(&author, "progress", "{\"summary\":\"q\"}", NULL),
                                    NOW, on_done, told, &err),
            0);
}

START_TEST(a_loop_appends_in_order_and_answers_each_once)
{
    struct cf_journal *journal = open_ok(), *other = open_ok();
    struct cf_corr_author stranger = make_author(9);
    struct told told = {0};
    struct cf_error err = {0};
    uv_loop_t loop;

    uv_loop_init(&loop);
    author = make_author(1);
    ck_assert_int_eq(cf_journal_queue_open(journal, &loop, &told.queue, &err), 0);
    append_new(other, 2); /* somebody else, before us */
    queue_progress(&told, 40);
    ck_assert_int_eq(cf_journal_queue_append(told.queue,
                                             sign_ok(&stranger, "close", "{}", NULL), NOW,
                                             on_done, &told, &err),
                     0);
    ck_assert(!cf_journal_queue_is_idle(told.queue));
    ck_assert_uint_eq(told.done, 0); /* never from inside the call */
    uv_run(&loop, UV_RUN_DEFAULT);
    ck_assert_uint_eq(told.done, 41);
    ck_assert_uint_eq(told.stored, 40);
    ck_assert_uint_eq(told.refused, 1);
    ck_assert_uint_eq(told.last_seq, 42);
    append_new(other, 1);
    queue_progress(&told, 1);
    uv_run(&loop, UV_RUN_DEFAULT);
    ck_assert_uint_eq(told.last_seq, 44);
    ck_assert(cf_journal_queue_is_idle(told.queue));
    cf_journal_queue_close(told.queue, on_closed, &told);
    uv_run(&loop, UV_RUN_DEFAULT);
    ck_assert_uint_eq(told.closed, 1);
    ck_assert_int_eq(uv_loop_close(&loop), 0);
    cf_journal_close(journal);
    cf_journal_close(other);
    ck_assert(verify(NULL));
}
END_TEST

START_TEST(a_loop_waits_for_the_lock_and_gives_up_in_time)
{
    struct cf_journal *journal = open_ok(), *other = open_ok();
    struct told told = {0};
    struct cf_error err = {0};
    bool is_held;
    uv_loop_t loop;

    uv_loop_init(&loop);
    author = make_author(1);
    cf_journal_set_lock_wait(journal, 60);
    ck_assert_int_eq(cf_journal_queue_open(journal, &loop, &told.queue, &err), 0);
    ck_assert_int_eq(cf_journal_try_lock(other, &is_held, &err), 0);
    queue_progress(&told, 2);
    uv_run(&loop, UV_RUN_DEFAULT);
    ck_assert_uint_eq(told.failed, 2);
    queue_progress(&told, 1);
    uv_run(&loop, UV_RUN_NOWAIT);
    cf_journal_unlock(other);
    uv_run(&loop, UV_RUN_DEFAULT);
    ck_assert_uint_eq(told.stored, 1);
    cf_journal_queue_close(told.queue, on_closed, &told);
    uv_run(&loop, UV_RUN_DEFAULT);
    ck_assert_int_eq(uv_loop_close(&loop), 0);
    cf_journal_close(journal);
    cf_journal_close(other);
}
END_TEST

START_TEST(closing_cancels_what_waits_and_finishes_what_runs)
{
    for (unsigned turns = 0; turns < 6; turns++) {
        struct cf_journal *journal = open_ok(), *other = open_ok();
        struct told told = {0};
        struct cf_error err = {0};
        bool is_held;
        uv_loop_t loop;
        uv_loop_init(&loop);
        author = make_author(1);
        author.session_seq = turns * 10;
        ck_assert_int_eq(cf_journal_queue_open(journal, &loop, &told.queue, &err), 0);
        if (turns % 2 == 0)
            ck_assert_int_eq(cf_journal_try_lock(other, &is_held, &err), 0);
        queue_progress(&told, 3);
        for (unsigned i = 0; i < turns / 2; i++)
            uv_run(&loop, UV_RUN_NOWAIT);
        queue_progress(&told, 1);
        cf_journal_queue_close(told.queue, on_closed, &told);
        ck_assert_int_eq(cf_journal_queue_append(told.queue,
                                                 sign_ok(&author, "close", "{}", NULL), NOW,
                                                 on_done, &told, &err),
                         -1);
        uv_run(&loop, UV_RUN_DEFAULT);
        ck_assert_uint_eq(told.done, 4);
        ck_assert_uint_eq(told.stored + told.failed, 4);
        ck_assert_uint_eq(told.closed, 1);
        ck_assert_int_eq(uv_loop_close(&loop), 0);
        cf_journal_close(journal);
        cf_journal_close(other);
        ck_assert(verify(NULL));
    }
}
END_TEST

static void
close_from_inside(void *user, int status, const struct cf_corr_receipt *receipt,
                  const struct cf_corr_refusal *refusal, const struct cf_error *err)
{
    struct told *told = user;

    on_done(user, status, receipt, refusal, err);
    if (told->done == 1)
        cf_journal_queue_close(told->queue, on_closed, told);
}

START_TEST(closing_from_inside_a_callback_is_fine)
{
    struct cf_journal *journal = open_ok();
    struct told told = {0};
    struct cf_error err = {0};
    uv_loop_t loop;

    uv_loop_init(&loop);
    author = make_author(1);
    ck_assert_int_eq(cf_journal_queue_open(journal, &loop, &told.queue, &err), 0);
    for (int i = 0; i < 3; i++)
        ck_assert_int_eq(cf_journal_queue_append(told.queue,
                                                 sign_ok(&author, "rest", "{}", NULL), NOW,
                                                 close_from_inside, &told, &err),
                         0);
    uv_run(&loop, UV_RUN_DEFAULT);
    ck_assert_uint_eq(told.done, 3);
    ck_assert_uint_eq(told.closed, 1);
    ck_assert_int_eq(uv_loop_close(&loop), 0);
    cf_journal_close(journal);
}
END_TEST

START_TEST(a_full_disk_acknowledges_nothing)
{
    struct cf_journal *journal = open_ok();
    struct cf_corr_receipt receipt;
    struct cf_corr_refusal refusal;
    struct cf_error err = {0};
    struct cf_corr_event *event;
    struct stat before, after;
    int full = open("/dev/full", O_RDWR), kept = dup(journal->log_fd);

    author = make_author(1);
    append_new(journal, 1);
    event = sign_ok(&author, "close", "{}", NULL);
    ck_assert_int_eq(stat(log_path(), &before), 0);
    /* Reads come from the file, the write goes to a full device: begin() has nothing new to
     * read. */
    ck_assert_int_ge(dup2(full, journal->log_fd), 0);
    journal->end = 0;
    ck_assert_int_eq(cf_journal_append(journal, event, NOW, &receipt, &refusal, &err), -1);
    ck_assert_int_ge(dup2(kept, journal->log_fd), 0);
    ck_assert_int_eq(cf_journal_append(journal, event, NOW, &receipt, &refusal, &err),
                     -1); /* open it again */
    ck_assert_int_eq(stat(log_path(), &after), 0);
    ck_assert_int_eq(before.st_size, after.st_size);
    cf_journal_close(journal);
    ck_assert(verify(NULL));
    cf_corr_event_free(event);
    close(full);
    close(kept);
}
END_TEST

UNIT_MAIN("journal", if (cf_corr_init() < 0) return 1;
          tcase_add_checked_fixture(tc, setup, teardown);
          tcase_add_test(tc, receipts_survive_a_new_open);
          tcase_add_test(tc, a_journal_is_never_overwritten);
          tcase_add_test(tc, unknown_and_retired_keys_are_refused_but_retries_are_not);
          tcase_add_test(tc, two_handles_see_each_others_events);
          tcase_add_test(tc, a_held_lock_is_waited_for_and_named);
          tcase_add_test(tc, a_record_torn_at_any_byte_is_put_aside);
          tcase_add_test(tc, any_flipped_byte_is_found_and_named);
          tcase_add_test(tc, a_damaged_journal_is_not_written_to);
          tcase_add_test(tc, reconciliation_goes_on_across_opens);
          tcase_add_test(tc, the_index_is_used_and_never_needed);
          tcase_add_test(tc, an_index_of_another_log_is_not_used);
          tcase_add_test(tc, writers_killed_at_any_moment_lose_no_receipt);
          tcase_add_test(tc, a_loop_appends_in_order_and_answers_each_once);
          tcase_add_test(tc, a_loop_waits_for_the_lock_and_gives_up_in_time);
          tcase_add_test(tc, closing_cancels_what_waits_and_finishes_what_runs);
          tcase_add_test(tc, closing_from_inside_a_callback_is_fine);
          tcase_add_test(tc, a_full_disk_acknowledges_nothing);)
