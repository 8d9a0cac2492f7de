/*
 * Appending from a loop. One round at a time: lock, read what others wrote, judge all that is
 * queued, write it, sync, apply, answer. Each wait is a timer or a uv_fs request; flock is
 * only ever asked, never waited for.
 */
#include "journal/room.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/str.h"
#include "correspond/correspond.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <uv.h>

#define ROUND_BYTES_MAX (4u << 20)
#define READ_CHUNK (256u << 10)
#define ASK_AGAIN_MS 10

struct append {
    struct append *next;
    struct cf_corr_event *event;
    int64_t now_ms;
    cf_journal_done_fn *done;
    void *user;
    enum cf_verdict verdict;
    struct cf_corr_refusal refusal;
};

struct list {
    struct append *first, **tail;
};

struct cf_journal_queue {
    struct cf_journal *journal;
    uv_loop_t *loop;
    uv_timer_t timer;
    uv_fs_t fs;
    bool is_busy;    /* a round is under way */
    bool is_waiting; /* ... and waits for the lock: it may be called off */
    bool is_closing, is_answering;
    uint64_t deadline_ms;
    struct list queued, round;
    struct cf_buf text; /* what is read, then what is written */
    size_t written;
    void (*on_closed)(void *user);
    void *user;
};

static void begin_round(struct cf_journal_queue *q);

static void
list_init(struct list *list)
{
    list->first = NULL;
    list->tail = &list->first;
}

static void
list_push(struct list *list, struct append *append)
{
    append->next = NULL;
    *list->tail = append;
    list->tail = &append->next;
}

static struct append *
list_pop(struct list *list)
{
    struct append *append = list->first;

    if (append != NULL && (list->first = append->next) == NULL)
        list->tail = &list->first;
    return append;
}

static void
answer(struct append *append, int status, const struct cf_corr_receipt *receipt,
       const struct cf_error *err)
{
    if (append->done != NULL)
        append->done(append->user, status, receipt, status == 1 ? &append->refusal : NULL,
                     err);
    cf_corr_event_free(append->event);
    free(append);
}

static void
on_timer_closed(uv_handle_t *handle)
{
    struct cf_journal_queue *q = handle->data;
    void (*on_closed)(void *user) = q->on_closed;
    void *user = q->user;

    cf_buf_release(&q->text);
    free(q);
    on_closed(user);
}

static void
finish_close(struct cf_journal_queue *q)
{
    struct cf_error err = {0};
    struct append *append;

    cf_error_set(&err, CF_ERROR_CANCELED, 0,
                 "the journal's queue was closed before the event was written");
    while ((append = list_pop(&q->queued)) != NULL)
        answer(append, -1, NULL, &err);
    uv_close((uv_handle_t *)&q->timer, on_timer_closed);
}

/* The round is over: the lock goes, and the next one begins when something came meanwhile. */
static void
end_round(struct cf_journal_queue *q)
{
    cf_journal_unlock(q->journal);
    q->is_busy = false;
    if (q->is_closing)
        finish_close(q);
    else if (q->queued.first != NULL)
        begin_round(q);
}

static void
fail_round(struct cf_journal_queue *q, const struct cf_error *err)
{
    struct append *append;

    q->is_answering = true;
    while ((append = list_pop(&q->round)) != NULL)
        answer(append, -1, NULL, err);
    q->is_answering = false;
    end_round(q);
}

/* ---- after the sync ---- */

static void
answer_round(struct cf_journal_queue *q)
{
    struct append *append;

    q->is_answering = true;
    while ((append = list_pop(&q->round)) != NULL) {
        struct cf_corr_receipt receipt;
        struct cf_corr_event_view view;
        struct cf_error err = {0};
        cf_corr_event_view(append->event, &view);
        if (append->verdict == CF_VERDICT_REFUSED) {
            answer(append, 1, NULL, NULL);
        } else if (cf_corr_store_find(q->journal->store, view.id, &receipt)) {
            receipt.created = append->verdict == CF_VERDICT_NEW;
            answer(append, 0, &receipt, NULL);
        } else {
            cf_error_set(&err, CF_ERROR_INTERNAL, 0, "an event was written but is not stored");
            answer(append, -1, NULL, &err);
        }
    }
    q->is_answering = false;
    end_round(q);
}

static void
on_synced(uv_fs_t *fs)
{
    struct cf_journal_queue *q = fs->data;
    ssize_t result = fs->result;
    struct cf_error err = {0};
    size_t used;

    uv_fs_req_cleanup(fs);
    if (result < 0)
        (void)cf_journal_write_error(q->journal, -(int)result, "syncing", &err);
    else if (cf_journal_apply(q->journal, q->text.data, q->text.len, &used, &err) < 0)
        q->journal->is_failed = true; /* the log is ahead of what we hold */
    if (err.kind != CF_ERROR_NONE)
        fail_round(q, &err);
    else
        answer_round(q);
}

static void on_written(uv_fs_t *fs);

static int
write_more(struct cf_journal_queue *q)
{
    uv_buf_t buf =
        uv_buf_init(q->text.data + q->written, (unsigned)(q->text.len - q->written));

    return uv_fs_write(q->loop, &q->fs, q->journal->log_fd, &buf, 1,
                       (int64_t)(q->journal->end + q->written), on_written);
}

static void
on_written(uv_fs_t *fs)
{
    struct cf_journal_queue *q = fs->data;
    ssize_t result = fs->result;
    struct cf_error err = {0};
    int status;

    uv_fs_req_cleanup(fs);
    if (result > 0)
        q->written += (size_t)result;
    if (result <= 0)
        status = result == 0 ? UV_EIO : (int)result;
    else if (q->written < q->text.len)
        status = write_more(q);
    else
        status = uv_fs_fdatasync(q->loop, &q->fs, q->journal->log_fd, on_synced);
    if (status < 0) {
        (void)cf_journal_write_error(q->journal, -status, "writing", &err);
        fail_round(q, &err);
    }
}

/* ---- judging ---- */

/* Whether an earlier event of this round is the same one. */
static bool
is_repeated(const struct cf_journal_queue *q, const struct append *append)
{
    struct cf_corr_event_view mine, other;

    cf_corr_event_view(append->event, &mine);
    for (const struct append *a = q->round.first; a != append; a = a->next) {
        cf_corr_event_view(a->event, &other);
        if (a->verdict == CF_VERDICT_NEW && strcmp(mine.id, other.id) == 0)
            return true;
    }
    return false;
}

static void
judge_round(struct cf_journal_queue *q)
{
    struct cf_digest digest = q->journal->digest;
    uint64_t seq = cf_corr_store_last_seq(q->journal->store);

    cf_buf_reset(&q->text);
    for (struct append *a = q->round.first; a != NULL; a = a->next) {
        a->verdict = cf_journal_judge(q->journal, a->event, &a->refusal);
        if (a->verdict == CF_VERDICT_NEW && is_repeated(q, a))
            a->verdict = CF_VERDICT_RETRY;
        else if (a->verdict == CF_VERDICT_NEW)
            cf_record_put_event(&q->text, &digest, a->event, ++seq, a->now_ms);
        else if (a->verdict == CF_VERDICT_RETRY &&
                 cf_corr_store_is_incomplete(q->journal->store))
            cf_record_put_batch(&q->text, &digest, a->now_ms);
    }
}

static void
write_round(struct cf_journal_queue *q)
{
    struct cf_error err = {0};
    int status;

    judge_round(q);
    q->written = 0;
    if (q->text.failed) {
        (void)cf_error_memory(&err);
        fail_round(q, &err);
        return;
    }
    status = q->text.len > 0 ? write_more(q)
                             : uv_fs_fdatasync(q->loop, &q->fs, q->journal->log_fd, on_synced);
    if (status < 0) {
        cf_error_set(&err, CF_ERROR_INTERNAL, -status, "writing the journal: %s",
                     uv_strerror(status));
        fail_round(q, &err);
    }
}

/* ---- reading what others wrote ---- */

static void on_read(uv_fs_t *fs);

static int
read_more(struct cf_journal_queue *q)
{
    char *room = cf_buf_reserve(&q->text, READ_CHUNK);
    uv_buf_t buf;

    if (room == NULL)
        return UV_ENOMEM;
    buf = uv_buf_init(room, READ_CHUNK);
    return uv_fs_read(q->loop, &q->fs, q->journal->log_fd, &buf, 1,
                      (int64_t)(q->journal->end + q->text.len), on_read);
}

static void
on_read(uv_fs_t *fs)
{
    struct cf_journal_queue *q = fs->data;
    ssize_t result = fs->result;
    struct cf_error err = {0};
    size_t used;
    int status = 0;

    uv_fs_req_cleanup(fs);
    if (result == 0 && q->text.len > 0)
        status = cf_journal_recover(q->journal, q->text.len, &err);
    if (result == 0 && status == 0) {
        write_round(q);
        return;
    }
    if (result > 0) {
        cf_buf_wrote(&q->text, (size_t)result);
        status = cf_journal_apply(q->journal, q->text.data, q->text.len, &used, &err);
        if (status == 0) {
            cf_buf_drop(&q->text, used);
            status = read_more(q);
            result = status;
        }
    }
    if (result < 0)
        cf_error_set(&err, CF_ERROR_INTERNAL, -(int)result, "reading the journal: %s",
                     uv_strerror((int)result));
    if (err.kind != CF_ERROR_NONE)
        fail_round(q, &err);
}

/* ---- the lock ---- */

static void
on_timer(uv_timer_t *timer)
{
    struct cf_journal_queue *q = timer->data;
    struct cf_error err = {0};
    bool is_held;
    int status;

    q->is_waiting = false;
    if (q->is_closing) {
        cf_error_set(&err, CF_ERROR_CANCELED, 0,
                     "the journal's queue was closed before the event was written");
        fail_round(q, &err);
        return;
    }
    status = cf_journal_try_lock(q->journal, &is_held, &err);
    if (status < 0 && is_held && cf_clock_ms() < q->deadline_ms) {
        q->is_waiting = true;
        status = uv_timer_start(&q->timer, on_timer, ASK_AGAIN_MS, 0);
        assert(status == 0); /* only a closing handle refuses */
        return;
    }
    if (status < 0) {
        if (is_held)
            (void)cf_journal_locked_error(q->journal, &err);
        fail_round(q, &err);
        return;
    }
    cf_buf_reset(&q->text);
    status = read_more(q);
    if (status < 0) {
        cf_error_set(&err, CF_ERROR_INTERNAL, -status, "reading the journal: %s",
                     uv_strerror(status));
        fail_round(q, &err);
    }
}

/* Takes what is queued, and starts from the loop, so that nobody is called back from inside a
 * call. */
static void
begin_round(struct cf_journal_queue *q)
{
    struct append *append;
    size_t bytes = 0, len;
    int status;

    q->is_busy = true;
    q->is_waiting = true;
    q->deadline_ms = cf_clock_ms() + q->journal->lock_wait_ms;
    while (q->queued.first != NULL && bytes < ROUND_BYTES_MAX) {
        append = list_pop(&q->queued);
        (void)cf_corr_event_canonical(append->event, &len);
        bytes += len;
        list_push(&q->round, append);
    }
    status = uv_timer_start(&q->timer, on_timer, 0, 0);
    assert(status == 0); /* only a closing handle refuses */
}

/* ---- the door ---- */

int
cf_journal_queue_open(struct cf_journal *journal, struct uv_loop_s *loop,
                      struct cf_journal_queue **ret_queue, struct cf_error *err)
{
    struct cf_journal_queue *q = calloc(1, sizeof *q);
    int status;

    if (q == NULL)
        return cf_error_memory(err);
    status = uv_timer_init(loop, &q->timer);
    if (status < 0) {
        free(q);
        return cf_error_set(err, CF_ERROR_INTERNAL, -status, "a timer for the journal: %s",
                            uv_strerror(status));
    }
    q->journal = journal;
    q->loop = loop;
    q->timer.data = q;
    q->fs.data = q;
    cf_buf_init(&q->text, CF_LOG_LINE_MAX + 2 * ROUND_BYTES_MAX);
    list_init(&q->queued);
    list_init(&q->round);
    *ret_queue = q;
    return 0;
}

bool
cf_journal_queue_is_idle(const struct cf_journal_queue *queue)
{
    return !queue->is_busy && queue->queued.first == NULL;
}

int
cf_journal_queue_append(struct cf_journal_queue *q, struct cf_corr_event *event,
                        int64_t now_ms, cf_journal_done_fn *done, void *user,
                        struct cf_error *err)
{
    struct append *append = q->is_closing ? NULL : calloc(1, sizeof *append);

    if (append == NULL) {
        cf_corr_event_free(event);
        return q->is_closing
                   ? cf_error_set(err, CF_ERROR_CANCELED, 0, "the journal's queue is closing")
                   : cf_error_memory(err);
    }
    append->event = event;
    append->now_ms = now_ms;
    append->done = done;
    append->user = user;
    list_push(&q->queued, append);
    if (!q->is_busy)
        begin_round(q);
    return 0;
}

void
cf_journal_queue_close(struct cf_journal_queue *q, void (*on_closed)(void *user), void *user)
{
    q->is_closing = true;
    q->on_closed = on_closed;
    q->user = user;
    if (!q->is_busy)
        finish_close(q);
    /* Otherwise the round ends first: at once when it only waits for the lock, else when the
     * disk has answered. */
    else if (q->is_waiting && !q->is_answering)
        (void)uv_timer_start(&q->timer, on_timer, 0, 0);
}
