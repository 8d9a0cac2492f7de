/* cli/out.h: bytes to stdout or stderr without blocking the loop: one write in flight, a bounded queue. */
#ifndef CF_CLI_OUT_H
#define CF_CLI_OUT_H

#include "base/buf.h"

#include <stdbool.h>
#include <stddef.h>
#include <uv.h>

struct cf_out {
    uv_loop_t *loop;
    int fd; /* 1 after init; may be set before the first byte */
    uv_fs_t write;
    struct cf_buf waiting, going;
    size_t gone;
    bool busy, failed;
    int error; /* errno of the failed write */
    void (*on_drain)(void *user); /* the queue is empty again, or the reader is gone; may be NULL */
    void *user;
};

void cf_out_init(struct cf_out *out, uv_loop_t *loop, void (*on_drain)(void *), void *user);
/* As they are. Bytes that come while one write is in flight go together in the next. */
bool cf_out_bytes(struct cf_out *out, const char *bytes, size_t len);
/* With a line end. Returns true when the producer should pause until on_drain. After a failure bytes are dropped. */
bool cf_out_line(struct cf_out *out, const char *bytes, size_t len);
void cf_out_release(struct cf_out *out);

#endif
