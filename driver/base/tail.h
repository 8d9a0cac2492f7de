/* base/tail.h: the last N bytes of an endless stream, in constant memory (stderr, build output). */
#ifndef CF_BASE_TAIL_H
#define CF_BASE_TAIL_H

#include <stddef.h>
#include <stdint.h>

struct cf_tail {
    char *data;
    size_t most;          /* what it may grow to */
    size_t size, len, at; /* ring: `at` is where the next byte goes */
    uint64_t total;       /* bytes ever seen */
};

int cf_tail_init(struct cf_tail *tail, size_t size); /* -1: out of memory */
void cf_tail_release(struct cf_tail *tail);
void cf_tail_add(struct cf_tail *tail, const void *bytes, size_t len);

/* What is kept, oldest first, as a string that is valid UTF-8 (repaired); returned: yours.
 * At most the last `max_lines` lines (0: all) and `max_bytes` bytes (0: all). */
char *cf_tail_text(const struct cf_tail *tail, size_t max_lines, size_t max_bytes);

#endif
