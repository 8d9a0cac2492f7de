/*
 * One collected file: from the sandbox into a buffer, from the buffer onto the host's disk, neither
 * waiting for the other but when the buffer is full or empty. A part of a file is no file.
 */
#include "run/collect_impl.h"

#include <errno.h>
#include <fcntl.h>

#define BUFFER_BYTES (512u * 1024u) /* waiting for the host's disk; beyond it the sandbox waits */

static void settle_file(struct cf_collect *c);

static void
on_written(uv_fs_t *fs)
{
    struct cf_collect *c = fs->data;
    ssize_t n = cf_collect_took(fs);

    if (n < 0) {
        cf_collect_fail(c, "%s", uv_strerror((int)n));
        return;
    }
    c->offset += (uint64_t)n;
    cf_buf_drop(&c->going, (size_t)n);
    settle_file(c);
}

static void
on_file_unlinked(uv_fs_t *fs)
{
    struct cf_collect *c = fs->data;

    (void)cf_collect_took(fs);
    if (c->is_given_up)
        cf_collect_stop(c);
    else
        cf_collect_next(c);
}

static void
on_file_closed(uv_fs_t *fs)
{
    struct cf_collect *c = fs->data;
    const struct cf_collect_entry *entry = c->at < c->entry_count ? &c->entries[c->at++] : NULL;
    ssize_t result = cf_collect_took(fs);

    if (c->file_error.kind != CF_ERROR_NONE && entry != NULL)
        cf_collect_refuse(c, entry, "%s", c->file_error.text);
    if (c->is_given_up || c->file_error.kind != CF_ERROR_NONE) { /* a part of a file is no file */
        c->is_fs_busy = uv_fs_unlink(c->run->loop, &c->fs, c->path, on_file_unlinked) == 0;
        if (!c->is_fs_busy)
            cf_collect_stop(c);
    } else if (result < 0) {
        cf_collect_fail(c, "%s", uv_strerror((int)result));
    } else {
        c->files++;
        if (entry != NULL && cf_collect_is_after(c))
            cf_voice_file_taken(c->run, entry->path);
        c->bytes += c->offset;
        cf_collect_next(c);
    }
}

void
cf_collect_close_file(struct cf_collect *c)
{
    int fd = c->file;

    c->file = -1;
    c->is_fs_busy = uv_fs_close(c->run->loop, &c->fs, fd, on_file_closed) == 0;
}

/* Whatever can be done now for the file under way. */
static void
settle_file(struct cf_collect *c)
{
    uv_buf_t bytes;

    if (c->is_fs_busy)
        return;
    if (c->is_given_up) {
        cf_collect_stop(c);
        return;
    }
    if (c->going.len == 0 && c->coming.len > 0) {
        struct cf_buf empty = c->going;
        c->going = c->coming;
        c->coming = empty;
    }
    if (c->is_paused && c->transfer != NULL && c->coming.len < BUFFER_BYTES) {
        c->is_paused = false;
        cf_transfer_resume(c->transfer); /* may bring more at once */
    }
    if (c->going.len > 0 && !c->is_fs_busy && c->file_error.kind == CF_ERROR_NONE) {
        bytes = uv_buf_init(c->going.data, (unsigned)c->going.len);
        cf_collect_begin_fs(c, uv_fs_write(c->run->loop, &c->fs, c->file, &bytes, 1, (int64_t)c->offset, on_written));
    } else if (c->is_file_over && !c->is_fs_busy) {
        cf_collect_close_file(c);
    }
}

static int
on_bytes(void *user, const char *bytes, size_t len)
{
    struct cf_collect *c = ((struct cf_collect_slot *)user)->at;

    if (c == NULL || c->is_given_up)
        return 0;
    if (cf_buf_add(&c->coming, bytes, len) < 0) {
        c->file_error.kind = CF_ERROR_MEMORY;
        return -1;
    }
    if (cf_collect_is_after(c))
        cf_voice_file_bytes(c->run, bytes, len);
    c->is_paused = c->coming.len >= BUFFER_BYTES;
    if (!c->is_fs_busy)
        settle_file(c);
    return c->is_paused ? CF_PAUSE : 0;
}

static void
on_downloaded(void *user, int status, json_t *answer, const struct cf_error *err)
{
    struct cf_collect *c = ((struct cf_collect_slot *)user)->at;

    if (c == NULL || c->is_given_up)
        return;
    c->transfer = NULL;
    c->is_file_over = true;
    if (status < 0)
        c->file_error = *err;
    settle_file(c);
}

static void
on_file_made(uv_fs_t *fs)
{
    struct cf_collect *c = fs->data;
    const struct cf_collect_entry *entry = &c->entries[c->at];
    struct cf_run *run = c->run;
    ssize_t fd = cf_collect_took(fs);

    if (fd >= 0)
        c->file = (int)fd;
    if (c->is_given_up) {
        cf_collect_stop(c);
        return;
    }
    if (fd == UV_ENOSPC || fd == -EDQUOT || fd == UV_EROFS || fd == UV_EIO) {
        cf_collect_fail(c, "%s", uv_strerror((int)fd));
        return;
    }
    if (fd < 0) {
        cf_collect_refuse(c, entry, "this machine: %s", uv_strerror((int)fd));
        c->at++;
        cf_collect_next(c);
        return;
    }
    c->offset = 0;
    c->is_paused = c->is_file_over = false;
    c->file_error.kind = CF_ERROR_NONE;
    cf_buf_reset(&c->coming);
    cf_buf_reset(&c->going);
    if (cf_collect_is_after(c))
        cf_voice_file_begin(run, c->targets[c->at_target].purpose);
    if (cf_link_download(cf_sandbox_link(run->sandbox), cf_sandbox_working_directory(run->sandbox), entry->path,
                         run->options.collect_bytes - c->bytes, on_bytes, on_downloaded, c->slot, &c->transfer,
                         &c->file_error) == 0)
        return;
    c->transfer = NULL;
    c->is_file_over = true;
    settle_file(c);
}

void
cf_collect_take_file(struct cf_collect *c, const struct cf_collect_entry *entry)
{
    uint64_t left = c->run->options.collect_bytes - c->bytes;
    int mode = (int)(entry->mode & 0777 & ~022u);

    if (entry->size > left) {
        cf_collect_refuse(c, entry, "its %llu bytes are over what is left of the limit of %llu",
                          (unsigned long long)entry->size, (unsigned long long)c->run->options.collect_bytes);
        c->at++;
        cf_collect_next(c);
        return;
    }
    cf_collect_begin_fs(c, uv_fs_open(c->run->loop, &c->fs, c->path,
                                      O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, mode, on_file_made));
}
