/* base/buf.h: a growable run of bytes with a ceiling. Zeroed is empty and safe to release. */
#ifndef CF_BASE_BUF_H
#define CF_BASE_BUF_H

#include <stdbool.h>
#include <stddef.h>

struct cf_buf {
    char *data;         /* NUL-terminated behind len once anything was added; else NULL */
    size_t len, cap;
    size_t limit_bytes; /* 0: no ceiling of its own */
    bool failed;        /* an add did not fit or memory ran out; sticky until reset */
};

void cf_buf_init(struct cf_buf *buf, size_t limit_bytes);
void cf_buf_release(struct cf_buf *buf);

/* Empties it, keeps the memory, clears `failed`. */
void cf_buf_reset(struct cf_buf *buf);

/* Each returns 0, or -1 when the ceiling or memory does not allow it: then nothing was added
 * and `failed` is set, so that a series of adds may be checked once at its end. */
int cf_buf_add(struct cf_buf *buf, const void *bytes, size_t len);
int cf_buf_adds(struct cf_buf *buf, const char *text);
int cf_buf_addf(struct cf_buf *buf, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* Room for `len` more bytes at the end; returns where they begin or NULL. Say how many were
 * written with cf_buf_wrote. */
char *cf_buf_reserve(struct cf_buf *buf, size_t len);
void cf_buf_wrote(struct cf_buf *buf, size_t len);

/* Drops `len` bytes from the front. */
void cf_buf_drop(struct cf_buf *buf, size_t len);

/* The bytes as a NUL-terminated string, returned: yours (free); the buffer is empty then.
 * Never NULL except out of memory. */
char *cf_buf_take(struct cf_buf *buf, size_t *ret_len);

#endif
