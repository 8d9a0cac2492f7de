/* Each operation is a short chain of uv_fs calls that share one request; the last link calls
 * `settle`. */
#include "registry/file.h"

#include <assert.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

struct cf_file {
    uv_loop_t *loop;
    uv_fs_t req;
    char *path, *new_path;
    uv_file fd; /* -1: not open */
    bool is_new, is_busy, is_closing, removes;
    void (*begin)(struct cf_file *file); /* the operation that waits for the open */
    char *bytes;
    size_t len, at;
    uint64_t offset;
    cf_file_done_fn *done;
    void *done_user;
    void (*on_gone)(void *user);
    void *gone_user;
};

struct cf_file *
cf_file_new(uv_loop_t *loop, const char *path, bool is_new, void (*on_gone)(void *user),
            void *user)
{
    struct cf_file *file = calloc(1, sizeof *file);

    if (file == NULL)
        return NULL;
    file->path = strdup(path);
    if (file->path == NULL) {
        free(file);
        return NULL;
    }
    file->loop = loop;
    file->fd = -1;
    file->is_new = is_new;
    file->on_gone = on_gone;
    file->gone_user = user;
    return file;
}

/* ---- ending -------------------------------------------------------------------------- */

static void
vanish(struct cf_file *file)
{
    void (*on_gone)(void *user) = file->on_gone;
    void *user = file->gone_user;

    free(file->bytes);
    free(file->path);
    free(file->new_path);
    free(file);
    on_gone(user);
}

static void
on_removed(uv_fs_t *req)
{
    uv_fs_req_cleanup(req);
    vanish(
        req->data); /* a file that was never made cannot be removed: nothing is wrong then */
}

static void
remove_or_vanish(struct cf_file *file)
{
    if (!file->removes || uv_fs_unlink(file->loop, &file->req, file->path, on_removed) != 0)
        vanish(file);
}

static void
on_closed_for_good(uv_fs_t *req)
{
    uv_fs_req_cleanup(req);
    remove_or_vanish(req->data);
}

static void
end(struct cf_file *file)
{
    file->req.data = file;
    if (file->fd < 0 || uv_fs_close(file->loop, &file->req, file->fd, on_closed_for_good) != 0)
        remove_or_vanish(file);
}

void
cf_file_close(struct cf_file *file, bool removes)
{
    if (file == NULL || file->is_closing)
        return;
    file->is_closing = true;
    file->removes = removes;
    if (!file->is_busy)
        end(file);
}

/* ---- operations ---------------------------------------------------------------------- */

static void
settle(struct cf_file *file, int64_t result, bool has_bytes)
{
    cf_file_done_fn *done = file->done;
    char *bytes = has_bytes ? file->bytes : NULL;

    file->is_busy = false;
    if (file->is_closing) {
        end(file);
        return;
    }
    if (!has_bytes) {
        done(file->done_user, result, NULL);
        return;
    }
    file->bytes =
        NULL; /* ours for the call: the file may be closed, or read again, inside it */
    done(file->done_user, result, bytes);
    free(bytes);
}

/* A call that libuv refuses at once settles at once, which callers do not expect: they hear of
 * it from a request that libuv does take. */
static void
on_late_failure(uv_fs_t *req)
{
    struct cf_file *file = req->data;

    uv_fs_req_cleanup(req);
    settle(file, UV_EIO, false);
}

static void
fail_later(struct cf_file *file)
{
    if (uv_fs_stat(file->loop, &file->req, "/", on_late_failure) != 0)
        abort(); /* out of memory for 300 bytes: nothing can be promised any more */
}

static void
on_open(uv_fs_t *req)
{
    struct cf_file *file = req->data;
    ssize_t result = req->result;

    uv_fs_req_cleanup(req);
    if (result >= 0)
        file->fd = (uv_file)result;
    if (result < 0 || file->is_closing)
        settle(file, result, false);
    else
        file->begin(file);
}

static void
start(struct cf_file *file, void (*begin)(struct cf_file *file), cf_file_done_fn *done,
      void *user)
{
    int flags = file->is_new ? O_WRONLY | O_CREAT | O_EXCL : O_RDONLY;

    assert(!file->is_busy && !file->is_closing);
    file->is_busy = true;
    file->begin = begin;
    file->done = done;
    file->done_user = user;
    file->req.data = file;
    if (file->fd >= 0)
        begin(file);
    else if (uv_fs_open(file->loop, &file->req, file->path, flags | O_CLOEXEC | O_NOFOLLOW,
                        0600, on_open) != 0)
        fail_later(file);
}

static void write_some(struct cf_file *file);

static void
on_write(uv_fs_t *req)
{
    struct cf_file *file = req->data;
    ssize_t result = req->result;

    uv_fs_req_cleanup(req);
    if (result > 0)
        file->at += (size_t)result;
    if (result > 0 && file->at < file->len && !file->is_closing)
        write_some(file);
    else
        settle(file,
               result <= 0 && file->len > 0 ? (result < 0 ? result : UV_EIO)
                                            : (int64_t)file->at,
               false);
}

static void
write_some(struct cf_file *file)
{
    uv_buf_t buf = uv_buf_init(file->bytes + file->at, (unsigned)(file->len - file->at));

    if (uv_fs_write(file->loop, &file->req, file->fd, &buf, 1, -1, on_write) != 0)
        fail_later(file);
}

void
cf_file_write(struct cf_file *file, const char *bytes, size_t len, cf_file_done_fn *done,
              void *user)
{
    char *copy = realloc(file->bytes, len + 1);

    file->len = copy == NULL ? 0 : len;
    file->at = 0;
    if (copy == NULL) {
        start(file, fail_later, done, user);
        return;
    }
    file->bytes = copy;
    memcpy(copy, bytes, len);
    start(file, write_some, done, user);
}

static void
on_read(uv_fs_t *req)
{
    struct cf_file *file = req->data;
    ssize_t result = req->result;

    uv_fs_req_cleanup(req);
    settle(file, result, result > 0);
}

static void
read_some(struct cf_file *file)
{
    uv_buf_t buf = uv_buf_init(file->bytes, CF_FILE_PIECE);

    if (uv_fs_read(file->loop, &file->req, file->fd, &buf, 1, (int64_t)file->offset,
                   on_read) != 0)
        fail_later(file);
}

void
cf_file_fetch(struct cf_file *file, uint64_t offset, cf_file_done_fn *done, void *user)
{
    if (file->bytes == NULL)
        file->bytes = malloc(CF_FILE_PIECE);
    file->offset = offset;
    start(file, file->bytes == NULL ? fail_later : read_some, done, user);
}

static void
on_renamed(uv_fs_t *req)
{
    struct cf_file *file = req->data;
    ssize_t result = req->result;

    uv_fs_req_cleanup(req);
    if (result == 0) {
        free(file->path);
        file->path = file->new_path;
        file->new_path = NULL;
    }
    settle(file, result, false);
}

static void
on_closed_for_rename(uv_fs_t *req)
{
    struct cf_file *file = req->data;
    ssize_t result = req->result;

    uv_fs_req_cleanup(req);
    file->fd = -1;
    file->is_new = false;
    if (result < 0 || file->is_closing)
        settle(file, result, false);
    else if (uv_fs_rename(file->loop, &file->req, file->path, file->new_path, on_renamed) != 0)
        fail_later(file);
}

static void
rename_now(struct cf_file *file)
{
    if (uv_fs_close(file->loop, &file->req, file->fd, on_closed_for_rename) != 0)
        fail_later(file);
}

void
cf_file_rename(struct cf_file *file, const char *path, cf_file_done_fn *done, void *user)
{
    free(file->new_path);
    file->new_path = strdup(path);
    start(file, file->new_path == NULL ? fail_later : rename_now, done, user);
}
