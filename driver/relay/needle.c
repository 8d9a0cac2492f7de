/* One word in passing text. */
#include "relay/needle.h"

#include <string.h>

void
cf_needle_set(struct cf_needle *needle, const char *word)
{
    size_t len = word == NULL ? 0 : strlen(word), prefix = 0;

    memset(needle, 0, sizeof *needle);
    if (len == 0 || len > CF_NEEDLE_LIMIT)
        return;
    memcpy(needle->bytes, word, len);
    needle->len = len;
    for (size_t i = 1; i < len; i++) {
        while (prefix > 0 && word[i] != word[prefix])
            prefix = needle->fallback[prefix - 1];
        if (word[i] == word[prefix])
            prefix++;
        needle->fallback[i] = (uint16_t)prefix;
    }
}

bool
cf_needle_feed(const struct cf_needle *needle, size_t *matched, const char *bytes, size_t len)
{
    size_t at =
        *matched < needle->len ? *matched : 0; /* the word may have been changed meanwhile */
    bool is_found = false;

    for (size_t i = 0; i < len && needle->len > 0; i++) {
        if (at == 0) { /* most text holds not even the first character */
            const char *first = memchr(bytes + i, needle->bytes[0], len - i);
            if (first == NULL)
                break;
            i = (size_t)(first - bytes);
        }
        while (at > 0 && bytes[i] != needle->bytes[at])
            at = needle->fallback[at - 1];
        if (bytes[i] == needle->bytes[at])
            at++;
        if (at == needle->len) {
            is_found = true;
            at = needle->fallback[at - 1];
        }
    }
    *matched = at;
    return is_found;
}
