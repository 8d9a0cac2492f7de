/* schema/match.c: running a compiled pattern: greedy, forward only, no memory. */
#include "schema/pattern.h"

#include "base/utf8.h"

/* Takes one unit of work; false when none is left. */
static bool
spend(uint64_t *work)
{
    if (*work == 0)
        return false;
    --*work;
    return true;
}

/* Bytes of the code point at `at` when the item takes it, 0 when not, -1 when work ran out. */
static int
step(const struct cf_pattern *pattern, const struct cf_pattern_item *item, const char *text,
     size_t len, size_t at, uint64_t *work)
{
    uint32_t code;
    int took = cf_utf8_next(text + at, len - at, &code);

    if (took <= 0)
        return 0;
    if (!spend(work))
        return -1;
    if (item->count == 0)
        return 0; /* [^\s\S]: nothing is in it, and there may be no array at all */
    return cf_ranges_have(pattern->ranges + item->first, item->count, code) ? took : 0;
}

static int
match_here(const struct cf_pattern *pattern, const struct cf_pattern_branch *branch,
           const char *text, size_t len, size_t at, uint64_t *work)
{
    const struct cf_pattern_item *item = pattern->items + branch->first;

    if (!spend(work))
        return -1;
    for (uint32_t i = 0; i < branch->count; i++, item++) {
        unsigned taken = 0;
        while (taken < item->max) {
            int bytes = step(pattern, item, text, len, at, work);
            if (bytes < 0)
                return -1;
            if (bytes == 0)
                break;
            at += (size_t)bytes;
            taken++;
        }
        if (taken < item->min)
            return 0;
    }
    return !branch->at_end || at == len;
}

static int
search_branch(const struct cf_pattern *pattern, const struct cf_pattern_branch *branch,
              const char *text, size_t len, uint64_t *work)
{
    uint32_t code;

    for (size_t at = 0;;) {
        int found = match_here(pattern, branch, text, len, at, work);
        if (found != 0 || branch->at_start || at == len)
            return found;
        int took = cf_utf8_next(text + at, len - at, &code);
        at += took > 0 ? (size_t)took : 1;
    }
}

int
cf_pattern_search(const struct cf_pattern *pattern, const char *text, size_t len,
                  uint64_t *work)
{
    for (unsigned i = 0; i < pattern->branch_count; i++) {
        int found = search_branch(pattern, &pattern->branches[i], text, len, work);
        if (found != 0)
            return found;
    }
    return 0;
}
