/*
 * schema/pattern.h: the linear-work subset of ECMAScript patterns.
 *
 * No groups, no backreferences, no unbounded repetition, and no variable item that could hand a
 * character to what follows it. For such a pattern, eating greedily from left to right without
 * ever going back finds exactly what ECMAScript finds; so matching needs neither recursion nor
 * memory, and costs at most the pattern's width for each place where it may start.
 */
#ifndef CF_SCHEMA_PATTERN_H
#define CF_SCHEMA_PATTERN_H

#include "schema/charset.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define CF_PATTERN_MAX_CODES 512 /* code points in a pattern */
#define CF_PATTERN_MAX_ITEMS 128
#define CF_PATTERN_MAX_BRANCHES 8
#define CF_PATTERN_MAX_REPEAT 1000
#define CF_PATTERN_MAX_WIDTH 4096 /* sum of all items' maxima */

/* One atom with its repetition: code points from ranges[first..first+count). */
struct cf_pattern_item {
    uint32_t first, count;
    uint16_t min, max;
};

struct cf_pattern_branch {
    uint32_t first, count; /* items */
    bool at_start, at_end; /* ^ and $ */
};

struct cf_pattern {
    struct cf_pattern_branch branches[CF_PATTERN_MAX_BRANCHES];
    unsigned branch_count;
    unsigned item_count, width;
    struct cf_pattern_item *items;
    struct cf_range *ranges;
};

/* Why a pattern was refused. `code` is static storage, NULL when memory ran out. */
struct cf_pattern_refusal {
    const char *code; /* "schema_pattern_group" ... */
    const char *what; /* static words */
    size_t at;        /* code points in front of the trouble */
};

/* Compiles `len` bytes of valid UTF-8. Returns 0 and *ret_pattern (yours: cf_pattern_free), or
 * -1 with `why` filled. */
int cf_pattern_compile(const char *text, size_t len, struct cf_pattern **ret_pattern,
                       struct cf_pattern_refusal *why);
void cf_pattern_free(struct cf_pattern *pattern);

/* Searches valid UTF-8. Returns 1 or 0; -1 when *work ran out. Each code point looked at takes 1
 * from *work. */
int cf_pattern_search(const struct cf_pattern *pattern, const char *text, size_t len,
                      uint64_t *work);

#endif
