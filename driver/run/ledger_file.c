/* One write at a time; rows that come meanwhile are gathered for the next. */
#include "run/gateway.h"

#include "base/buf.h"
#include "json/json.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define WAITING_BYTES (16u << 20)

struct cf_ledger_file {
    uv_loop_t *loop;
    uv_file fd;
    uv_fs_t op;
    struct cf_buf waiting, writing;
    size_t written;
    int error;
    bool is_busy, is_closing;
    void (*done)(void *user, int error);
    void *user;
};

int
cf_ledger_file_open(uv_loop_t *loop, const char *path, struct cf_ledger_file **ret_file,
                    struct cf_error *err)
{
    struct cf_ledger_file *file = calloc(1, sizeof *file);

    if (file == NULL)
        return cf_error_memory(err);
    /* without O_NONBLOCK a pipe that nobody reads would hold the loop here */
    file->fd =
        open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOCTTY | O_NONBLOCK, 0600);
    if (file->fd < 0) {
        int error = errno;
        free(file);
        (void)cf_error_set(err, CF_ERROR_CONFIG, error, "ledger %.400s: %s", path,
                           strerror(error));
        return cf_error_fix(err, "name a file that can be written");
    }
    file->loop = loop;
    file->op.data = file;
    cf_buf_init(&file->waiting, WAITING_BYTES);
    cf_buf_init(&file->writing, WAITING_BYTES);
    *ret_file = file;
    return 0;
}

static void go_on(struct cf_ledger_file *file);

static void
on_written(uv_fs_t *op)
{
    struct cf_ledger_file *file = op->data;
    ssize_t n = op->result;

    uv_fs_req_cleanup(op);
    file->is_busy = false;
    if (n < 0)
        file->error = (int)-n;
    else
        file->written += (size_t)n;
    go_on(file);
}

static void
on_closed(uv_fs_t *op)
{
    struct cf_ledger_file *file = op->data;
    void (*done)(void *user, int error) = file->done;
    void *user = file->user;
    int error = file->error != 0 ? file->error : op->result < 0 ? (int)-op->result : 0;

    uv_fs_req_cleanup(op);
    cf_buf_release(&file->waiting);
    cf_buf_release(&file->writing);
    free(file);
    done(user, error);
}

static void
write_some(struct cf_ledger_file *file)
{
    uv_buf_t buf = uv_buf_init(file->writing.data + file->written,
                               (unsigned)(file->writing.len - file->written));

    file->is_busy = uv_fs_write(file->loop, &file->op, file->fd, &buf, 1, -1, on_written) == 0;
    if (!file->is_busy)
        file->error = ENOMEM;
}

static void
go_on(struct cf_ledger_file *file)
{
    struct cf_buf empty;

    if (file->is_busy)
        return;
    if (file->error == 0 && file->written == file->writing.len && file->waiting.len > 0) {
        empty = file->writing;
        cf_buf_reset(&empty);
        file->writing = file->waiting;
        file->waiting = empty;
        file->written = 0;
    }
    if (file->error == 0 && file->written < file->writing.len)
        write_some(file);
    if (file->is_busy || !file->is_closing)
        return;
    if (uv_fs_close(file->loop, &file->op, file->fd, on_closed) < 0) {
        file->op.result = 0; /* only without memory: the file stays open until we end */
        on_closed(&file->op);
    }
}

void
cf_ledger_file_add(struct cf_ledger_file *file, const char *kind, const json_t *row)
{
    json_t *line = json_pack("{s:s}", "kind", kind);
    size_t before = file->waiting.len;

    if (line == NULL || json_object_update(line, (json_t *)row) < 0 ||
        cf_json_append(&file->waiting, line) < 0 || cf_buf_adds(&file->waiting, "\n") < 0) {
        file->waiting.len = before; /* half a row is none */
        file->waiting.failed = false;
        file->error = file->error != 0 ? file->error : ENOBUFS;
    }
    json_decref(line);
    go_on(file);
}

void
cf_ledger_file_close(struct cf_ledger_file *file, void (*done)(void *user, int error),
                     void *user)
{
    file->is_closing = true;
    file->done = done;
    file->user = user;
    go_on(file);
}
