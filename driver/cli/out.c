/*
 * stdout (or stderr) as the loop sees it. uv_fs_write runs on libuv's own pool, so a reader that stalls
 * stalls nothing else, and the file description is not switched to non-blocking under the feet
 * of whoever shares it.
 */
#include "cli/out.h"

#include <string.h>

#define HIGH_BYTES (1u << 20)

static void start_write(struct cf_out *out);

static void
drained(struct cf_out *out)
{
    if (out->on_drain != NULL)
        out->on_drain(out->user);
}

static void
on_written(uv_fs_t *req)
{
    struct cf_out *out = req->data;
    ssize_t n = req->result;

    uv_fs_req_cleanup(req);
    out->busy = false;
    if (n < 0) {
        out->failed = true;
        out->error = (int)-n;
        cf_buf_reset(&out->going);
        cf_buf_reset(&out->waiting);
        drained(out);
        return;
    }
    out->gone += (size_t)n;
    if (out->gone >= out->going.len) {
        struct cf_buf spare = out->going;
        cf_buf_reset(&spare);
        out->going = out->waiting;
        out->waiting = spare;
        out->gone = 0;
    }
    if (out->going.len > 0)
        start_write(out);
    else
        drained(out);
}

static void
start_write(struct cf_out *out)
{
    uv_buf_t buf = uv_buf_init(out->going.data + out->gone, (unsigned)(out->going.len - out->gone));

    out->write.data = out;
    out->busy = true;
    if (uv_fs_write(out->loop, &out->write, out->fd, &buf, 1, -1, on_written) < 0) {
        out->busy = false;
        out->failed = true;
    }
}

void
cf_out_init(struct cf_out *out, uv_loop_t *loop, void (*on_drain)(void *), void *user)
{
    memset(out, 0, sizeof *out);
    out->loop = loop;
    out->fd = 1;
    out->on_drain = on_drain;
    out->user = user;
}

static bool
add(struct cf_out *out, const char *bytes, size_t len, const char *end)
{
    struct cf_buf *to = out->busy ? &out->waiting : &out->going;

    if (out->failed)
        return false;
    (void)cf_buf_add(to, bytes, len);
    (void)cf_buf_adds(to, end);
    if (to->failed) {
        out->failed = true;
        return false;
    }
    if (!out->busy && to->len > 0)
        start_write(out);
    return out->waiting.len > HIGH_BYTES;
}

bool
cf_out_bytes(struct cf_out *out, const char *bytes, size_t len)
{
    return add(out, bytes, len, "");
}

bool
cf_out_line(struct cf_out *out, const char *bytes, size_t len)
{
    return add(out, bytes, len, "\n");
}

void
cf_out_release(struct cf_out *out)
{
    cf_buf_release(&out->waiting);
    cf_buf_release(&out->going);
}
