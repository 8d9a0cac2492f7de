/* schema/charset.c: sets of code points for the pattern matcher. */
#include "schema/charset.h"

#include <stdlib.h>

#define LAST_CODE 0x10ffffu

/* ECMAScript: WhiteSpace and LineTerminator together. */
static const struct cf_range space_ranges[] = {
    {0x09, 0x0d},     {0x20, 0x20},     {0xa0, 0xa0},     {0x1680, 0x1680}, {0x2000, 0x200a},
    {0x2028, 0x2029}, {0x202f, 0x202f}, {0x205f, 0x205f}, {0x3000, 0x3000}, {0xfeff, 0xfeff},
};
static const struct cf_range digit_ranges[] = {{'0', '9'}};
static const struct cf_range word_ranges[] = {{'0', '9'}, {'A', 'Z'}, {'_', '_'}, {'a', 'z'}};
static const struct cf_range line_end_ranges[] = {
    {0x0a, 0x0a}, {0x0d, 0x0d}, {0x2028, 0x2029}};

#define RANGES(array) array, sizeof(array) / sizeof((array)[0])

void
cf_charset_release(struct cf_charset *set)
{
    free(set->ranges);
    *set = (struct cf_charset){0};
}

void
cf_charset_add(struct cf_charset *set, uint32_t lo, uint32_t hi)
{
    if (set->failed)
        return;
    if (set->count == set->cap) {
        size_t cap = set->cap == 0 ? 8 : 2 * set->cap;
        struct cf_range *grown = realloc(set->ranges, cap * sizeof *grown);
        if (grown == NULL) {
            set->failed = true;
            return;
        }
        set->ranges = grown;
        set->cap = cap;
    }
    set->ranges[set->count++] = (struct cf_range){lo, hi};
}

static void
add_all(struct cf_charset *set, const struct cf_range *ranges, size_t count)
{
    for (size_t i = 0; i < count; i++)
        cf_charset_add(set, ranges[i].lo, ranges[i].hi);
}

/* `ranges` are sorted and apart. */
static void
add_complement(struct cf_charset *set, const struct cf_range *ranges, size_t count)
{
    uint32_t from = 0;

    for (size_t i = 0; i < count; i++) {
        if (ranges[i].lo > from)
            cf_charset_add(set, from, ranges[i].lo - 1);
        from = ranges[i].hi + 1;
    }
    if (from <= LAST_CODE)
        cf_charset_add(set, from, LAST_CODE);
}

void
cf_charset_add_named(struct cf_charset *set, char name)
{
    switch (name) {
    case 'd': add_all(set, RANGES(digit_ranges)); break;
    case 'w': add_all(set, RANGES(word_ranges)); break;
    case 's': add_all(set, RANGES(space_ranges)); break;
    case 'D': add_complement(set, RANGES(digit_ranges)); break;
    case 'W': add_complement(set, RANGES(word_ranges)); break;
    case 'S': add_complement(set, RANGES(space_ranges)); break;
    default: add_complement(set, RANGES(line_end_ranges)); break;
    }
}

static int
by_start(const void *left, const void *right)
{
    const struct cf_range *a = left, *b = right;
    return a->lo < b->lo ? -1 : a->lo > b->lo;
}

void
cf_charset_normalize(struct cf_charset *set)
{
    size_t kept = 0;

    if (set->count < 2)
        return;
    qsort(set->ranges, set->count, sizeof *set->ranges, by_start);
    for (size_t i = 1; i < set->count; i++) {
        struct cf_range *last = &set->ranges[kept], *next = &set->ranges[i];
        if (next->lo <= last->hi + 1) {
            if (next->hi > last->hi)
                last->hi = next->hi;
        } else {
            set->ranges[++kept] = *next;
        }
    }
    set->count = kept + 1;
}

void
cf_charset_complement(struct cf_charset *set)
{
    struct cf_charset other = {.failed = set->failed};

    add_complement(&other, set->ranges, set->count);
    cf_charset_release(set);
    *set = other;
}

bool
cf_ranges_have(const struct cf_range *ranges, size_t count, uint32_t code)
{
    size_t lo = 0, hi = count;

    while (lo < hi) {
        size_t mid = (lo + hi) / 2;
        if (code < ranges[mid].lo)
            hi = mid;
        else if (code > ranges[mid].hi)
            lo = mid + 1;
        else
            return true;
    }
    return false;
}

bool
cf_ranges_meet(const struct cf_range *a, size_t a_count, const struct cf_range *b,
               size_t b_count)
{
    size_t i = 0, j = 0;

    while (i < a_count && j < b_count) {
        if (a[i].hi < b[j].lo)
            i++;
        else if (b[j].hi < a[i].lo)
            j++;
        else
            return true;
    }
    return false;
}

bool
cf_charset_is_space(uint32_t code)
{
    return cf_ranges_have(RANGES(space_ranges), code);
}
