/* A ring of bytes that remembers the end of a stream. */
#include "base/tail.h"
#include "base/utf8.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#define FIRST_BYTES 512u

int
cf_tail_init(struct cf_tail *tail, size_t size)
{
    memset(tail, 0, sizeof *tail);
    tail->most = size;
    tail->size = size < FIRST_BYTES ? size : FIRST_BYTES;
    tail->data = malloc(tail->size);
    return tail->data == NULL ? -1 : 0;
}

/* Most streams say little or nothing: the ring is as large as it may be only when it has to
 * be, and runs round only then. Without memory it stays as it is. */
static void
grow(struct cf_tail *tail, size_t len)
{
    size_t size = tail->size;
    char *data;

    while (size < tail->most && tail->len + len > size)
        size = size * 2 < tail->most ? size * 2 : tail->most;
    if (size == tail->size)
        return;
    data = realloc(tail->data, size);
    if (data == NULL) {
        tail->most = tail->size;
        return;
    }
    tail->data = data;
    tail->size = size;
    tail->at = tail->len;
}

void
cf_tail_release(struct cf_tail *tail)
{
    free(tail->data);
    memset(tail, 0, sizeof *tail);
}

void
cf_tail_add(struct cf_tail *tail, const void *bytes, size_t len)
{
    const char *from = bytes;

    tail->total += len;
    if (tail->data == NULL)
        return;
    grow(tail, len);
    if (len > tail->size) {
        from += len - tail->size;
        len = tail->size;
    }
    while (len > 0) {
        size_t n = tail->size - tail->at;
        if (n > len)
            n = len;
        memcpy(tail->data + tail->at, from, n);
        tail->at = (tail->at + n) % tail->size;
        tail->len = tail->len + n > tail->size ? tail->size : tail->len + n;
        from += n;
        len -= n;
    }
}

static size_t
start_of_lines(const char *text, size_t len, size_t max_lines)
{
    size_t at = len, lines = 0;

    if (at > 0 && text[at - 1] == '\n')
        at--;
    while (at > 0) {
        if (text[at - 1] == '\n' && ++lines == max_lines)
            break;
        at--;
    }
    return at;
}

char *
cf_tail_text(const struct cf_tail *tail, size_t max_lines, size_t max_bytes)
{
    size_t first = tail->size == 0 ? 0 : (tail->at + tail->size - tail->len) % tail->size;
    size_t start = 0, repairs, n;
    char *flat = malloc(tail->len + 1), *out;

    assert(tail->size > 0 || tail->len == 0);
    if (flat == NULL)
        return NULL;
    for (size_t i = 0; i < tail->len; i++)
        flat[i] = tail->data[(first + i) % tail->size];
    flat[tail->len] = '\0';
    if (max_lines > 0)
        start = start_of_lines(flat, tail->len, max_lines);
    if (max_bytes > 0 && tail->len - start > max_bytes)
        start = tail->len - max_bytes;
    if (start > 0 || tail->total > tail->len) /* do not begin inside a character */
        while (start < tail->len && ((unsigned char)flat[start] & 0xc0) == 0x80)
            start++;
    n = tail->len - start;
    out = malloc(3 * n + 1);
    if (out != NULL)
        out[cf_utf8_repair(flat + start, n, out, &repairs)] = '\0';
    free(flat);
    return out;
}
