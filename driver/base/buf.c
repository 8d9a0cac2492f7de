/* A growable run of bytes with a ceiling. */
#include "base/buf.h"

#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void
cf_buf_init(struct cf_buf *buf, size_t limit_bytes)
{
    memset(buf, 0, sizeof *buf);
    buf->limit_bytes = limit_bytes;
}

void
cf_buf_release(struct cf_buf *buf)
{
    free(buf->data);
    buf->data = NULL;
    buf->len = buf->cap = 0;
}

void
cf_buf_reset(struct cf_buf *buf)
{
    buf->len = 0;
    buf->failed = false;
    if (buf->data != NULL)
        buf->data[0] = '\0';
}

char *
cf_buf_reserve(struct cf_buf *buf, size_t len)
{
    size_t need, cap;
    char *data;

    if (len > SIZE_MAX / 2 - buf->len - 1 ||
        (buf->limit_bytes != 0 && (len > buf->limit_bytes || buf->len > buf->limit_bytes - len))) {
        buf->failed = true;
        return NULL;
    }
    need = buf->len + len + 1;
    if (need > buf->cap) {
        cap = buf->cap < 64 ? 64 : buf->cap + buf->cap / 2 + 1;
        if (cap < need) /* what is asked for at once is had at once, and no more */
            cap = need;
        data = realloc(buf->data, cap);
        if (data == NULL) {
            buf->failed = true;
            return NULL;
        }
        buf->data = data;
        buf->cap = cap;
    }
    return buf->data + buf->len;
}

void
cf_buf_wrote(struct cf_buf *buf, size_t len)
{
    buf->len += len;
    buf->data[buf->len] = '\0';
}

int
cf_buf_add(struct cf_buf *buf, const void *bytes, size_t len)
{
    char *to = cf_buf_reserve(buf, len);

    if (to == NULL)
        return -1;
    if (len > 0)
        memcpy(to, bytes, len);
    cf_buf_wrote(buf, len);
    return 0;
}

int
cf_buf_adds(struct cf_buf *buf, const char *text)
{
    return cf_buf_add(buf, text, strlen(text));
}

int
cf_buf_addf(struct cf_buf *buf, const char *fmt, ...)
{
    va_list args, again;
    char *to;
    int need;

    va_start(args, fmt);
    va_copy(again, args);
    need = vsnprintf(NULL, 0, fmt, args);
    va_end(args);
    to = need < 0 ? NULL : cf_buf_reserve(buf, (size_t)need);
    if (to != NULL) {
        (void)vsnprintf(to, (size_t)need + 1, fmt, again);
        cf_buf_wrote(buf, (size_t)need);
    }
    va_end(again);
    return to == NULL ? -1 : 0;
}

void
cf_buf_drop(struct cf_buf *buf, size_t len)
{
    if (len >= buf->len) {
        cf_buf_reset(buf);
        return;
    }
    memmove(buf->data, buf->data + len, buf->len - len + 1);
    buf->len -= len;
}

char *
cf_buf_take(struct cf_buf *buf, size_t *ret_len)
{
    char *data = buf->data;

    if (ret_len != NULL)
        *ret_len = buf->len;
    buf->data = NULL;
    buf->len = buf->cap = 0;
    return data != NULL ? data : calloc(1, 1);
}
