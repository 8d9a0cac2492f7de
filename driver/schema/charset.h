/* schema/charset.h: sets of code points as sorted ranges. */
#ifndef CF_SCHEMA_CHARSET_H
#define CF_SCHEMA_CHARSET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct cf_range {
    uint32_t lo, hi; /* both inside */
};

/* A set under construction; zeroed is empty. `failed` after memory ran out. */
struct cf_charset {
    struct cf_range *ranges;
    size_t count, cap;
    bool failed;
};

void cf_charset_release(struct cf_charset *set);
void cf_charset_add(struct cf_charset *set, uint32_t lo, uint32_t hi);

/* What \d \w \s and, in capitals, their complements mean; '.' means any but a line end. */
void cf_charset_add_named(struct cf_charset *set, char name);

/* Sorts and merges; the functions below want this first. */
void cf_charset_normalize(struct cf_charset *set);
void cf_charset_complement(struct cf_charset *set);

bool cf_ranges_have(const struct cf_range *ranges, size_t count, uint32_t code);
bool cf_ranges_meet(const struct cf_range *a, size_t a_count, const struct cf_range *b,
                    size_t b_count);

/* White space as ECMAScript's \s has it. */
bool cf_charset_is_space(uint32_t code);

#endif
