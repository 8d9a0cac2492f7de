/* relay/needle.h: finds one word in text that passes by in pieces (Knuth-Morris-Pratt). */
#ifndef CF_RELAY_NEEDLE_H
#define CF_RELAY_NEEDLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define CF_NEEDLE_LIMIT 256u

struct cf_needle { /* zeroed is empty: never found */
    char bytes[CF_NEEDLE_LIMIT];
    uint16_t fallback[CF_NEEDLE_LIMIT]; /* longest proper prefix that is a suffix of [0..i] */
    size_t len;
};

/* Copies; NULL, "" and anything longer than the limit make it empty. */
void cf_needle_set(struct cf_needle *needle, const char *word);

/* `matched` is the caller's place between two pieces; 0 where a text begins. True when the
 * word ends in this piece. */
bool cf_needle_feed(const struct cf_needle *needle, size_t *matched, const char *bytes,
                    size_t len);

#endif
