/*
 * One operation at a time: make the file, take its name away, write, read. What is added while
 * one is under way waits in memory; its size is bounded, since whoever adds is told to wait.
 */
#include "relay/spool.h"

#include "base/buf.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { READ_BYTES = 64 * 1024 };

struct cf_spool {
    uv_loop_t *loop;
    char *dir;
    void (*on_ready)(void *user);
    void *user;
    struct cf_buf memory; /* the body, or what is to be written next */
    struct cf_buf out;    /* being written */
    size_t out_at;
    uint64_t len, written, read_at;
    uv_file fd;
    uv_fs_t op;
    char *in; /* read ahead */
    size_t in_len, in_at;
    int error;
    bool is_busy, is_freed, has_file, is_waited_for, is_stale;
};

struct cf_spool *
cf_spool_new(uv_loop_t *loop, const char *dir, void (*on_ready)(void *user), void *user)
{
    struct cf_spool *spool = calloc(1, sizeof *spool);

    if (spool == NULL)
        return NULL;
    if (dir != NULL && (spool->dir = strdup(dir)) == NULL) {
        free(spool);
        return NULL;
    }
    spool->loop = loop;
    spool->on_ready = on_ready;
    spool->user = user;
    spool->fd = -1;
    spool->op.data = spool;
    return spool;
}

static void
on_file_closed(uv_fs_t *op)
{
    uv_fs_req_cleanup(op);
    free(op);
}

/* Its blocks are given back here, which takes time for a large file. */
static void
close_file(uv_loop_t *loop, uv_file fd)
{
    uv_fs_t *op = fd >= 0 ? calloc(1, sizeof *op) : NULL;

    if (op == NULL || uv_fs_close(loop, op, fd, on_file_closed) < 0) {
        free(op);
        if (fd >= 0)
            (void)close(fd); /* nobody can be told */
    }
}

static void
destroy(struct cf_spool *spool)
{
    close_file(spool->loop, spool->fd);
    cf_buf_release(&spool->memory);
    cf_buf_release(&spool->out);
    free(spool->in);
    free(spool->dir);
    free(spool);
}

void
cf_spool_free(struct cf_spool *spool)
{
    if (spool == NULL || spool->is_freed)
        return;
    spool->is_freed = true;
    if (!spool->is_busy)
        destroy(spool);
}

/* ---- the one operation ----------------------------------------------------------------- */

static void go_on(struct cf_spool *spool);

/* True when the operation's result is of use to somebody. */
static bool
op_over(struct cf_spool *spool, ssize_t result)
{
    uv_fs_req_cleanup(&spool->op);
    spool->is_busy = false;
    if (spool->is_freed) {
        destroy(spool);
        return false;
    }
    if (result < 0 && spool->error == 0)
        spool->error = (int)-result;
    return true;
}

static void
tell(struct cf_spool *spool)
{
    if (!spool->is_waited_for || (spool->is_busy && spool->error == 0))
        return;
    spool->is_waited_for = false;
    spool->on_ready(spool->user);
}

static void
on_written(uv_fs_t *op)
{
    struct cf_spool *spool = op->data;
    ssize_t n = op->result;

    if (!op_over(spool, n))
        return;
    if (n >= 0) {
        spool->written += (uint64_t)n;
        spool->out_at += (size_t)n;
        go_on(spool);
    }
    tell(spool);
}

static void
on_unlinked(uv_fs_t *op)
{
    struct cf_spool *spool = op->data;
    ssize_t result = op->result;

    if (!op_over(spool, result))
        return;
    spool->has_file = result == 0;
    if (result == 0)
        go_on(spool);
    tell(spool);
}

static void
on_made(uv_fs_t *op)
{
    struct cf_spool *spool = op->data;
    ssize_t result = op->result;
    char path[4200];

    if (result >= 0) {
        spool->fd = (uv_file)result;
        (void)snprintf(path, sizeof path, "%s", op->path);
        (void)fcntl(spool->fd, F_SETFD, FD_CLOEXEC); /* no system call that waits */
        if (spool->is_freed)
            (void)unlink(path);
    }
    if (!op_over(spool, result))
        return;
    if (result >= 0 && uv_fs_unlink(spool->loop, &spool->op, path, on_unlinked) == 0)
        spool->is_busy = true;
    else if (result >= 0)
        spool->error = ENOMEM;
    tell(spool);
}

static void
make_file(struct cf_spool *spool)
{
    char path[4200];

    (void)snprintf(path, sizeof path, "%s/spool-XXXXXX", spool->dir);
    if (uv_fs_mkstemp(spool->loop, &spool->op, path, on_made) == 0)
        spool->is_busy = true;
    else
        spool->error = ENOMEM;
}

static void
write_some(struct cf_spool *spool)
{
    uv_buf_t buf = uv_buf_init(spool->out.data + spool->out_at,
                               (unsigned)(spool->out.len - spool->out_at));

    if (uv_fs_write(spool->loop, &spool->op, spool->fd, &buf, 1, (int64_t)spool->written,
                    on_written) == 0)
        spool->is_busy = true;
    else
        spool->error = ENOMEM;
}

static void
go_on(struct cf_spool *spool)
{
    if (spool->is_busy || spool->error != 0 || spool->dir == NULL)
        return;
    if (spool->out_at < spool->out.len) {
        write_some(spool);
    } else if (spool->memory.len > 0) {
        struct cf_buf empty = spool->out;

        if (!spool->has_file) {
            make_file(spool);
            return;
        }
        cf_buf_reset(&empty);
        spool->out = spool->memory;
        spool->memory = empty;
        spool->out_at = 0;
        write_some(spool);
    }
}

/* ---- in ----------------------------------------------------------------------------------
 */

static long
wait_or_fail(struct cf_spool *spool)
{
    if (spool->error != 0)
        return -1;
    spool->is_waited_for = true;
    return CF_SPOOL_WAIT;
}

long
cf_spool_add(struct cf_spool *spool, const char *bytes, size_t len)
{
    if (spool->error != 0)
        return -1;
    if (spool->dir == NULL && spool->len + len > CF_SPOOL_MEMORY) {
        spool->error = EFBIG;
        return -1;
    }
    if (cf_buf_add(&spool->memory, bytes, len) < 0) {
        spool->error = ENOMEM;
        return -1;
    }
    spool->len += len;
    if (spool->len <= CF_SPOOL_MEMORY)
        return 0;
    go_on(spool);
    return spool->error != 0                     ? -1
           : spool->memory.len > CF_SPOOL_MEMORY ? wait_or_fail(spool)
                                                 : 0;
}

long
cf_spool_end(struct cf_spool *spool)
{
    if (spool->error != 0)
        return -1;
    if (spool->len <= CF_SPOOL_MEMORY)
        return 0;
    go_on(spool);
    return spool->is_busy || spool->error != 0 ? wait_or_fail(spool) : 0;
}

uint64_t
cf_spool_len(const struct cf_spool *spool)
{
    return spool->len;
}

const char *
cf_spool_memory(const struct cf_spool *spool)
{
    if (spool->len > CF_SPOOL_MEMORY)
        return NULL;
    return spool->memory.data != NULL ? spool->memory.data : "";
}

int
cf_spool_error(const struct cf_spool *spool)
{
    return spool->error;
}

/* ---- out ---------------------------------------------------------------------------------
 */

static void
on_read(uv_fs_t *op)
{
    struct cf_spool *spool = op->data;
    ssize_t n = op->result;

    if (!op_over(spool, n))
        return;
    if (n == 0)
        spool->error = EIO; /* shorter than what was written */
    spool->in_len = n > 0 && !spool->is_stale ? (size_t)n : 0;
    spool->in_at = 0;
    spool->is_stale = false;
    tell(spool);
}

static void
read_ahead(struct cf_spool *spool)
{
    uv_buf_t buf;

    if (spool->in == NULL && (spool->in = malloc(READ_BYTES)) == NULL) {
        spool->error = ENOMEM;
        return;
    }
    buf = uv_buf_init(spool->in, READ_BYTES);
    if (uv_fs_read(spool->loop, &spool->op, spool->fd, &buf, 1, (int64_t)spool->read_at,
                   on_read) == 0)
        spool->is_busy = true;
    else
        spool->error = ENOMEM;
}

static long
read_memory(struct cf_spool *spool, char *to, size_t size)
{
    size_t left = spool->memory.len - (size_t)spool->read_at;

    size = size < left ? size : left;
    memcpy(to, spool->memory.data + spool->read_at, size);
    spool->read_at += size;
    return (long)size;
}

long
cf_spool_read(struct cf_spool *spool, char *to, size_t size)
{
    size_t left = spool->in_len - spool->in_at;

    if (spool->error != 0)
        return -1;
    if (spool->read_at == spool->len)
        return 0;
    if (spool->len <= CF_SPOOL_MEMORY)
        return read_memory(spool, to, size);
    if (spool->is_busy)
        return wait_or_fail(spool);
    if (left == 0) {
        read_ahead(spool);
        return wait_or_fail(spool);
    }
    size = size < left ? size : left;
    memcpy(to, spool->in + spool->in_at, size);
    spool->in_at += size;
    spool->read_at += size;
    return (long)size;
}

void
cf_spool_rewind(struct cf_spool *spool)
{
    spool->read_at = 0;
    spool->in_len = spool->in_at = 0;
    spool->is_stale = spool->is_busy; /* what a read under way brings is of the old place */
}
