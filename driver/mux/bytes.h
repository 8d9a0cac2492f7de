/*
 * mux/bytes.h: a queue of bytes in one contiguous piece: added at its end, dropped from its
 * front. Its memory comes from a function the owner names, because pid 1 keeps its queues out
 * of what fork copies. Zeroed with `resize` set (or NULL: realloc) it is empty and safe to
 * release.
 */
#ifndef CF_MUX_BYTES_H
#define CF_MUX_BYTES_H

#include <stddef.h>

/* Like realloc with the old size told: `old` NULL makes, new_size 0 frees (and returns NULL).
 */
typedef void *cf_mux_resize_fn(void *old, size_t old_size, size_t new_size);

struct cf_mux_bytes {
    char *data;
    size_t cap, head, len; /* what is queued is data[head .. head + len) */
    cf_mux_resize_fn *resize;
};

void cf_mux_bytes_release(struct cf_mux_bytes *bytes);

/* Room for `len` more bytes behind the last one, or NULL (memory). Moves what is queued. */
char *cf_mux_bytes_reserve(struct cf_mux_bytes *bytes, size_t len);
void cf_mux_bytes_wrote(struct cf_mux_bytes *bytes, size_t len);
int cf_mux_bytes_add(struct cf_mux_bytes *bytes, const void *from,
                     size_t len); /* -1: memory */

/* Drops from the front; an emptied queue that had grown large gives its memory back. */
void cf_mux_bytes_drop(struct cf_mux_bytes *bytes, size_t len);

static inline const char *
cf_mux_bytes_front(const struct cf_mux_bytes *bytes)
{
    return bytes->data == NULL ? NULL : bytes->data + bytes->head;
}

#endif
