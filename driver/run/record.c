/*
 * run/record.c: the writer of a recording. Records are made at once, so that their order and times
 * are the run's own; the file follows, one write after the other, as fast as the disk takes them.
 */
#include "run/record.h"

#include "run/hall.h"

#include "base/clock.h"
#include "base/ids.h"
#include "base/str.h"
#include "json/json.h"

#include <errno.h>
#include <fcntl.h>
#include <sodium.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define WAITING_HIGH (4u << 20) /* from here on the harness waits */
#define WAITING_LOW (1u << 20)
#define WAITING_MOST (256u << 20) /* what the harness cannot slow down: then the recording ends */
#define SECRET_LEAST 8u           /* shorter ones would strike words that are none */

enum state { OPEN, SEALING, SYNCING, CLOSING, SEALED };

struct secret {
    char *bytes;
    size_t len;
};

struct cf_recorder {
    struct cf_run *run;
    int fd; /* -1: closed */
    enum state state;
    bool is_busy, is_sealed, has_failed, was_full;
    uv_fs_t op;
    struct cf_buf waiting, going, scratch;
    size_t gone; /* of going */
    struct secret *secrets;
    size_t secret_count, secret_cap;
    bool has_token;
    uint64_t bytes, records, masked;
    crypto_hash_sha256_state hash;
    unsigned char sha256[32];
    char error[200];
    cf_record_done_fn *done;
};

static void go_on(struct cf_recorder *w);

/* ---- what must not be in it -------------------------------------------------------------------- */

static void
add_secret(struct cf_recorder *w, const char *bytes)
{
    size_t len = bytes != NULL ? strlen(bytes) : 0;
    struct secret *grown;

    if (len < SECRET_LEAST)
        return;
    if (w->secret_count == w->secret_cap) {
        grown = realloc(w->secrets, (w->secret_cap + 16) * sizeof *grown);
        if (grown == NULL) {
            w->has_failed = true; /* rather no recording than one with secrets */
            return;
        }
        w->secrets = grown;
        w->secret_cap += 16;
    }
    w->secrets[w->secret_count] = (struct secret){strdup(bytes), len};
    if (w->secrets[w->secret_count].bytes == NULL)
        w->has_failed = true;
    else
        w->secret_count++;
}

/* [{"name","value"}], as a server of the options has headers and variables. */
static void
add_values(struct cf_recorder *w, json_t *list)
{
    json_t *item;
    size_t i;

    json_array_foreach(list, i, item)
        add_secret(w, cf_json_str(item, "value"));
}

static void
gather_secrets(struct cf_recorder *w)
{
    const char *name;
    json_t *value;
    size_t i;

    json_object_foreach(w->run->options.env, name, value)
        add_secret(w, json_string_value(value));
    json_array_foreach(w->run->options.mcp, i, value) {
        add_values(w, json_object_get(value, "headers"));
        add_values(w, json_object_get(value, "env"));
    }
}

static void
mask(struct cf_recorder *w, char *bytes, size_t len)
{
    for (size_t i = 0; i < w->secret_count; i++) {
        const struct secret *secret = &w->secrets[i];
        char *at = bytes, *end = bytes + len;
        while ((at = memmem(at, (size_t)(end - at), secret->bytes, secret->len)) != NULL) {
            memset(at, '*', secret->len);
            at += secret->len;
            w->masked++;
        }
    }
}

/* ---- the file ----------------------------------------------------------------------------------- */

static void
lose(struct cf_recorder *w, int code)
{
    char text[300];

    if (w->has_failed && w->error[0] != '\0')
        return;
    w->has_failed = true;
    (void)snprintf(w->error, sizeof w->error, "%s", code != 0 ? strerror(code) : "out of memory");
    (void)snprintf(text, sizeof text, "the recording ends here, %llu bytes were written: %s",
                   (unsigned long long)w->bytes, w->error);
    cf_buf_reset(&w->waiting);
    cf_emit_finding(w->run, "recording", 0, text);
}

static void
let_go_on(struct cf_recorder *w)
{
    struct cf_run *run = w->run;

    if (!w->was_full || (!w->has_failed && w->waiting.len > WAITING_LOW))
        return;
    w->was_full = false;
    if (!run->is_paused && run->harness.process != NULL && run->state <= CF_HALL_OPEN)
        run->lane->resume(run);
}

static void
on_written(uv_fs_t *op)
{
    struct cf_recorder *w = op->data;
    ssize_t count = op->result;

    uv_fs_req_cleanup(op);
    w->is_busy = false;
    if (count < 0) {
        lose(w, (int)-count);
    } else {
        (void)crypto_hash_sha256_update(&w->hash, (const unsigned char *)w->going.data + w->gone, (size_t)count);
        w->bytes += (uint64_t)count;
        w->gone += (size_t)count;
    }
    go_on(w);
}

static void
on_synced(uv_fs_t *op)
{
    struct cf_recorder *w = op->data;
    ssize_t status = op->result;

    uv_fs_req_cleanup(op);
    w->is_busy = false;
    if (status < 0)
        lose(w, (int)-status);
    w->state = CLOSING;
    go_on(w);
}

static void
on_file_closed(uv_fs_t *op)
{
    struct cf_recorder *w = op->data;
    struct cf_run *run = w->run;
    cf_record_done_fn *done = w->done;

    uv_fs_req_cleanup(op);
    w->is_busy = false;
    w->fd = -1;
    w->state = SEALED;
    w->done = NULL;
    (void)crypto_hash_sha256_final(&w->hash, w->sha256);
    if (done != NULL)
        done(run);
}

static void
write_next(struct cf_recorder *w)
{
    uv_buf_t piece;
    struct cf_buf empty;

    if (w->gone == w->going.len) {
        empty = w->going;
        w->going = w->waiting;
        w->waiting = empty;
        cf_buf_reset(&w->waiting);
        w->going.limit_bytes = w->waiting.limit_bytes = WAITING_MOST;
        w->gone = 0;
    }
    piece = uv_buf_init(w->going.data + w->gone, (unsigned)(w->going.len - w->gone));
    w->is_busy = uv_fs_write(w->run->loop, &w->op, w->fd, &piece, 1, -1, on_written) == 0;
    if (!w->is_busy)
        lose(w, ENOMEM);
}

/* The next operation, when none is in flight. */
static void
go_on(struct cf_recorder *w)
{
    bool has_more = w->waiting.len > 0 || w->gone < w->going.len;

    let_go_on(w);
    if (w->is_busy)
        return;
    if (has_more && !w->has_failed) {
        write_next(w);
        return;
    }
    if (w->state == SEALING) {
        w->state = SYNCING;
        w->is_busy = uv_fs_fsync(w->run->loop, &w->op, w->fd, on_synced) == 0;
        if (!w->is_busy)
            w->state = CLOSING;
    }
    if (w->state == CLOSING && !w->is_busy)
        w->is_busy = uv_fs_close(w->run->loop, &w->op, w->fd, on_file_closed) == 0;
}

/* ---- records ------------------------------------------------------------------------------------ */

/* The token is there as soon as the relay is. */
static void
learn_token(struct cf_recorder *w)
{
    if (w->has_token || w->run->relay == NULL)
        return;
    w->has_token = true;
    add_secret(w, cf_relay_token(w->run->relay));
}

static void
put_parts(struct cf_run *run, enum cf_record_kind kind, const void *first, size_t first_len, const void *second,
          size_t second_len)
{
    struct cf_recorder *w = run->record;

    if (w == NULL || w->is_sealed || w->has_failed || !run->begun)
        return;
    learn_token(w);
    cf_buf_reset(&w->scratch);
    if (first_len > 0)
        (void)cf_buf_add(&w->scratch, first, first_len);
    if (second_len > 0)
        (void)cf_buf_add(&w->scratch, second, second_len);
    if (w->scratch.len > 0)
        mask(w, w->scratch.data, w->scratch.len);
    cf_recording_put(&w->waiting, kind, cf_clock_ms() - run->opened_ms, w->scratch.data, w->scratch.len);
    if (w->scratch.failed || w->waiting.failed || w->has_failed) {
        lose(w, 0);
        return;
    }
    w->records++;
    if (w->scratch.cap > CF_RECORDING_PIECE_BYTES)
        cf_buf_release(&w->scratch);
    w->was_full |= w->waiting.len > WAITING_HIGH;
    go_on(w);
}

void
cf_record_put(struct cf_run *run, enum cf_record_kind kind, const void *bytes, size_t len)
{
    put_parts(run, kind, bytes, len, NULL, 0);
}

void
cf_record_json(struct cf_run *run, enum cf_record_kind kind, const json_t *value)
{
    size_t len = 0;
    cf_auto_free char *text = run->record != NULL && value != NULL ? cf_json_dump(value, &len) : NULL;

    if (text != NULL)
        put_parts(run, kind, text, len, NULL, 0);
}

void
cf_record_spawn(struct cf_run *run, char **argv)
{
    json_t *list = run->record != NULL ? json_array() : NULL, *spawn;

    if (list == NULL)
        return;
    for (size_t i = 0; argv[i] != NULL; i++)
        (void)json_array_append_new(list, json_string(argv[i]));
    spawn = json_pack("{s:i, s:o}", "turn", (int)run->turn, "argv", list);
    cf_record_json(run, CF_RECORD_SPAWN, spawn);
    json_decref(spawn);
}

void
cf_record_call(struct cf_run *run, enum cf_recorded_call which, uint64_t frame, const void *bytes, size_t len)
{
    char head[CF_RECORD_CALL_BYTES];

    if (run->record == NULL)
        return;
    cf_record_call_head(head, which, frame);
    put_parts(run, CF_RECORD_CALL, head, sizeof head, bytes, len);
}

void
cf_record_call_json(struct cf_run *run, enum cf_recorded_call which, uint64_t frame, const json_t *value)
{
    size_t len = 0;
    cf_auto_free char *text = run->record != NULL && value != NULL ? cf_json_dump(value, &len) : NULL;

    if (text != NULL)
        cf_record_call(run, which, frame, text, len);
}

void
cf_record_call_texts(struct cf_run *run, enum cf_recorded_call which, uint64_t frame, const char *first,
                     const char *second)
{
    struct cf_buf texts = {0};

    if (run->record == NULL)
        return;
    (void)cf_buf_add(&texts, first, strlen(first) + 1);
    (void)cf_buf_adds(&texts, second);
    cf_record_call(run, which, frame, texts.data, texts.len);
    cf_buf_release(&texts);
}

void
cf_record_finished(struct cf_run *run, const char *stop_reason, const json_t *turn_meta, uint64_t frame)
{
    cf_auto_free char *text = run->record != NULL && turn_meta != NULL ? cf_json_dump(turn_meta, NULL) : NULL;

    cf_record_call_texts(run, CF_CALL_FINISHED, frame, stop_reason, text != NULL ? text : "");
}

void
cf_record_failed(struct cf_run *run, const struct cf_error *err, bool is_retryable, uint64_t frame)
{
    char bytes[2 + sizeof err->text];

    bytes[0] = (char)err->kind;
    bytes[1] = (char)is_retryable;
    memcpy(bytes + 2, err->text, strlen(err->text));
    cf_record_call(run, CF_CALL_FAILED, frame, bytes, 2 + strlen(err->text));
}

int
cf_record_feed_acp(struct cf_run *run, const char *bytes, size_t len)
{
    int status = 0;

    if (run->record == NULL)
        return cf_acp_feed(run->acp, bytes, len);
    while (len > 0 && status == 0) {
        const char *lf = memchr(bytes, '\n', len);
        size_t part = lf != NULL ? (size_t)(lf - bytes) + 1 : len;
        cf_record_put(run, CF_RECORD_OUTPUT, bytes, part);
        status = cf_acp_feed(run->acp, bytes, part);
        bytes += part;
        len -= part;
    }
    return status;
}

bool
cf_record_is_full(const struct cf_run *run)
{
    return run->record != NULL && run->record->was_full;
}

/* ---- from the first byte to the last --------------------------------------------------------------- */

static int
open_file(struct cf_recorder *w, const char *path, struct cf_error *err)
{
    struct stat facts;

    w->fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC | O_NONBLOCK, 0600);
    if (w->fd < 0)
        return cf_error_set(err, CF_ERROR_CONFIG, errno, "the recording %.300s: %s", path, strerror(errno));
    if (fstat(w->fd, &facts) < 0 || !S_ISREG(facts.st_mode))
        return cf_error_set(err, CF_ERROR_CONFIG, 0, "the recording %.300s: not a regular file", path);
    if (ftruncate(w->fd, 0) < 0)
        return cf_error_set(err, CF_ERROR_CONFIG, errno, "the recording %.300s: %s", path, strerror(errno));
    return 0;
}

static json_t *
start_json(const struct cf_run *run)
{
    char seed[33];

    cf_hex(cf_normalizer_seed(run->normalizer), 16, seed);
    return json_pack("{s:s, s:s, s:s, s:s?, s:s, s:s}", "run", run->id, "cfrunner", CFRUNNER_VERSION, "protocol",
                     run->release.is_acp ? "acp-v1" : "oneshot-v1", "output_mode",
                     run->release.is_acp           ? NULL
                     : run->release.is_stream_json ? "stream_json"
                                                   : "text",
                     "seed", seed, "retention", "durable");
}

/* The first bytes go out while we are called: what is opened and not writable is said now. */
static int
write_start(struct cf_recorder *w, struct cf_error *err)
{
    struct cf_buf first = {0};
    json_t *start = start_json(w->run);
    size_t len = 0;
    cf_auto_free char *text = start != NULL ? cf_json_dump(start, &len) : NULL;
    ssize_t count;

    json_decref(start);
    cf_recording_head(&first);
    if (text != NULL)
        cf_recording_put(&first, CF_RECORD_START, 0, text, len);
    if (text == NULL || first.failed) {
        cf_buf_release(&first);
        return cf_error_memory(err);
    }
    count = write(w->fd, first.data, first.len);
    if (count == (ssize_t)first.len) {
        w->bytes = first.len;
        w->records = 1;
        (void)crypto_hash_sha256_update(&w->hash, (const unsigned char *)first.data, first.len);
    } else {
        (void)cf_error_set(err, CF_ERROR_CONFIG, errno, "the recording %.300s: %s", w->run->options.record,
                           count < 0 ? strerror(errno) : "no room");
    }
    cf_buf_release(&first);
    return count > 0 && w->bytes > 0 ? 0 : -1;
}

int
cf_record_prepare(struct cf_run *run, struct cf_error *err)
{
    struct cf_recorder *w;

    if (run->options.record == NULL)
        return 0;
    w = calloc(1, sizeof *w);
    if (w == NULL)
        return cf_error_memory(err);
    run->record = w;
    w->run = run;
    w->fd = -1;
    w->op.data = w;
    cf_buf_init(&w->waiting, WAITING_MOST);
    cf_buf_init(&w->going, WAITING_MOST);
    (void)crypto_hash_sha256_init(&w->hash);
    gather_secrets(w);
    if (w->has_failed)
        return cf_error_memory(err);
    return open_file(w, run->options.record, err) < 0 ? -1 : write_start(w, err);
}

void
cf_record_free(struct cf_recorder *w)
{
    if (w == NULL)
        return;
    if (w->fd >= 0)
        (void)close(w->fd); /* a run that never began */
    for (size_t i = 0; i < w->secret_count; i++) {
        sodium_memzero(w->secrets[i].bytes, w->secrets[i].len);
        free(w->secrets[i].bytes);
    }
    free(w->secrets);
    cf_buf_release(&w->waiting);
    cf_buf_release(&w->going);
    cf_buf_release(&w->scratch);
    free(w);
}

static void
put_last_words(struct cf_run *run)
{
    json_t *result = cf_result_make(run);
    json_t *masked = json_pack("{s:I}", "count", (json_int_t)run->record->masked);

    if (run->record->masked > 0)
        cf_record_json(run, CF_RECORD_MASKED, masked);
    cf_record_json(run, CF_RECORD_RESULT, result);
    json_decref(masked);
    json_decref(result);
}

void
cf_record_seal(struct cf_run *run, cf_record_done_fn *done)
{
    struct cf_recorder *w = run->record;

    if (w == NULL || w->state == SEALED) {
        done(run);
        return;
    }
    w->done = done;
    if (w->is_sealed)
        return; /* on its way */
    put_last_words(run);
    w->is_sealed = true;
    w->state = SEALING;
    go_on(w);
}

bool
cf_record_digest(const struct cf_run *run, unsigned char ret_sha256[32], uint64_t *ret_bytes)
{
    const struct cf_recorder *w = run->record;

    if (w == NULL || w->state != SEALED || w->has_failed)
        return false;
    memcpy(ret_sha256, w->sha256, sizeof w->sha256);
    *ret_bytes = w->bytes;
    return true;
}

json_t *
cf_record_result(const struct cf_run *run)
{
    const struct cf_recorder *w = run->record;
    char digest[72] = "sha256:";

    if (w == NULL)
        return json_null();
    if (w->state != SEALED || w->has_failed)
        return json_pack("{s:s, s:b, s:I, s:I, s:n, s:I, s:s?}", "path", run->options.record, "complete", 0, "records",
                         (json_int_t)w->records, "bytes", (json_int_t)w->bytes, "digest", "masked", (json_int_t)w->masked,
                         "error", w->error[0] != '\0' ? w->error : NULL);
    cf_hex(w->sha256, sizeof w->sha256, digest + 7);
    return json_pack("{s:s, s:b, s:I, s:I, s:s, s:I, s:n}", "path", run->options.record, "complete", 1, "records",
                     (json_int_t)w->records, "bytes", (json_int_t)w->bytes, "digest", digest, "masked",
                     (json_int_t)w->masked, "error");
}
