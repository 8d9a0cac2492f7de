/* A queue of bytes in one contiguous piece. */
#include "mux/bytes.h"

#include <assert.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define SMALLEST 4096u
#define KEPT_EMPTY (256u * 1024u) /* an empty queue keeps this much, not more */

static void *
resize(struct cf_mux_bytes *bytes, size_t new_size)
{
    if (bytes->resize != NULL)
        return bytes->resize(bytes->data, bytes->cap, new_size);
    if (new_size == 0) {
        free(bytes->data);
        return NULL;
    }
    return realloc(bytes->data, new_size);
}

void
cf_mux_bytes_release(struct cf_mux_bytes *bytes)
{
    if (bytes->data != NULL)
        (void)resize(bytes, 0); /* frees; there is nothing to return */
    bytes->data = NULL;
    bytes->cap = bytes->head = bytes->len = 0;
}

char *
cf_mux_bytes_reserve(struct cf_mux_bytes *bytes, size_t len)
{
    size_t cap = bytes->cap < SMALLEST ? SMALLEST : bytes->cap;
    char *data;

    if (len > SIZE_MAX / 4 - bytes->len)
        return NULL;
    if (bytes->head > 0 && bytes->head + bytes->len + len > bytes->cap) {
        memmove(bytes->data, bytes->data + bytes->head, bytes->len);
        bytes->head = 0;
    }
    if (bytes->len + len > bytes->cap) {
        while (cap < bytes->len + len)
            cap *= 2;
        data = resize(bytes, cap);
        if (data == NULL)
            return NULL;
        bytes->data = data;
        bytes->cap = cap;
    }
    return bytes->data + bytes->head + bytes->len;
}

void
cf_mux_bytes_wrote(struct cf_mux_bytes *bytes, size_t len)
{
    assert(bytes->head + bytes->len + len <= bytes->cap);
    bytes->len += len;
}

int
cf_mux_bytes_add(struct cf_mux_bytes *bytes, const void *from, size_t len)
{
    char *to = cf_mux_bytes_reserve(bytes, len);

    if (to == NULL)
        return -1;
    memcpy(to, from, len);
    bytes->len += len;
    return 0;
}

void
cf_mux_bytes_drop(struct cf_mux_bytes *bytes, size_t len)
{
    assert(len <= bytes->len);
    bytes->head += len;
    bytes->len -= len;
    if (bytes->len > 0)
        return;
    bytes->head = 0;
    if (bytes->cap > KEPT_EMPTY)
        cf_mux_bytes_release(bytes);
}
