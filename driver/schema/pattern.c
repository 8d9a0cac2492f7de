/*
 * schema/pattern.c: reading a pattern, or saying why it is refused.
 *
 * The scan runs left to right and the first finding decides; that two neighbours may want the
 * same character is judged when a branch is complete, total sizes at the very end.
 */
#include "schema/pattern.h"

#include "base/utf8.h"

#include <stdlib.h>
#include <string.h>

#define END UINT32_MAX /* behind the last code point */

struct reader {
    uint32_t codes[CF_PATTERN_MAX_CODES];
    size_t len, at;
    struct cf_pattern *pattern;
    struct cf_charset ranges; /* of all items, one after another */
    unsigned branches;        /* also those past the limit */
    struct cf_pattern_refusal *why;
};

static bool
refuse(struct reader *r, const char *code, const char *what)
{
    r->why->code = code;
    r->why->what = what;
    r->why->at = r->at;
    return false;
}

static bool
invalid(struct reader *r, const char *what)
{
    return refuse(r, "schema_pattern_invalid", what);
}

static bool
no_memory(struct reader *r)
{
    return refuse(r, NULL, "out of memory");
}

static uint32_t
peek(const struct reader *r)
{
    return r->at < r->len ? r->codes[r->at] : END;
}

static bool
eat(struct reader *r, uint32_t code)
{
    if (peek(r) != code)
        return false;
    r->at++;
    return true;
}

static int
hex_digit(uint32_t code)
{
    if (code >= '0' && code <= '9')
        return (int)(code - '0');
    if (code >= 'a' && code <= 'f')
        return (int)(code - 'a' + 10);
    if (code >= 'A' && code <= 'F')
        return (int)(code - 'A' + 10);
    return -1;
}

static bool
read_hex(struct reader *r, unsigned digits, uint32_t *ret_code)
{
    uint32_t code = 0;

    for (unsigned i = 0; i < digits; i++) {
        int digit = hex_digit(peek(r));
        if (digit < 0)
            return invalid(r, "a hexadecimal digit is missing in an escape");
        code = code * 16 + (uint32_t)digit;
        r->at++;
    }
    *ret_code = code;
    return true;
}

/* Behind "\u{". */
static bool
read_braced_hex(struct reader *r, uint32_t *ret_code)
{
    uint32_t code = 0;
    size_t start = r->at;

    for (; hex_digit(peek(r)) >= 0; r->at++) {
        code = code * 16 + (uint32_t)hex_digit(peek(r));
        if (code > 0x10ffff)
            return invalid(r, "an escape above U+10FFFF");
    }
    if (r->at == start || !eat(r, '}'))
        return invalid(r, "\\u{...} needs hexadecimal digits and a closing brace");
    if (code >= 0xd800 && code <= 0xdfff)
        return invalid(r, "a lone surrogate escape");
    *ret_code = code;
    return true;
}

/* Behind "\u". */
static bool
read_unicode(struct reader *r, uint32_t *ret_code)
{
    uint32_t high, low;

    if (eat(r, '{'))
        return read_braced_hex(r, ret_code);
    if (!read_hex(r, 4, &high))
        return false;
    if (high < 0xd800 || high > 0xdfff) {
        *ret_code = high;
        return true;
    }
    if (high > 0xdbff || !eat(r, '\\') || !eat(r, 'u') || peek(r) == '{')
        return invalid(r, "a lone surrogate escape");
    if (!read_hex(r, 4, &low))
        return false;
    if (low < 0xdc00 || low > 0xdfff)
        return invalid(r, "a lone surrogate escape");
    *ret_code = 0x10000 + ((high - 0xd800) << 10) + (low - 0xdc00);
    return true;
}

static bool
read_control(struct reader *r, uint32_t *ret_code)
{
    uint32_t letter = peek(r) | 0x20;

    if (peek(r) == END || letter < 'a' || letter > 'z')
        return invalid(r, "\\c needs a letter");
    r->at++;
    *ret_code = letter - 'a' + 1;
    return true;
}

/* Behind the backslash. Writes either *ret_set (one of d D w W s S) or *ret_code. */
static bool
read_escape(struct reader *r, bool in_class, char *ret_set, uint32_t *ret_code)
{
    uint32_t code = peek(r);
    static const char plain[] = "^$\\.*+?()[]{}|/", letters[] = "tnvfr",
                      values[] = "\t\n\v\f\r";
    const char *known;

    *ret_set = '\0';
    if (code == END)
        return invalid(r, "a backslash at the end");
    if (code == 0 || code > 127)
        return invalid(r, "an unknown escape");
    if (code == 'k' || (code >= '1' && code <= '9'))
        return refuse(r, "schema_pattern_backreference", "a backreference");
    if (code == 'b' || code == 'B' || code == 'p' || code == 'P')
        return refuse(r, "schema_pattern_unsupported", "a word boundary or property escape");
    r->at++;
    if (strchr("dDwWsS", (int)code) != NULL) {
        *ret_set = (char)code;
    } else if ((known = strchr(letters, (int)code)) != NULL) {
        *ret_code = (uint32_t)values[known - letters];
    } else if (strchr(plain, (int)code) != NULL || (code == '-' && in_class)) {
        *ret_code = code;
    } else if (code == 'c') {
        return read_control(r, ret_code);
    } else if (code == 'x') {
        return read_hex(r, 2, ret_code);
    } else if (code == 'u') {
        return read_unicode(r, ret_code);
    } else if (code == '0' && (peek(r) < '0' || peek(r) > '9')) {
        *ret_code = 0;
    } else {
        r->at--;
        return invalid(r, "an unknown escape");
    }
    return true;
}

/* One member of a class: a code point, or a set such as \d. */
static bool
read_member(struct reader *r, char *ret_set, uint32_t *ret_code)
{
    *ret_set = '\0';
    if (peek(r) == END)
        return invalid(r, "a class that is not closed");
    if (eat(r, '\\'))
        return read_escape(r, true, ret_set, ret_code);
    *ret_code = r->codes[r->at++];
    return true;
}

/* A member, or a range of two. */
static bool
read_class_part(struct reader *r, struct cf_charset *set)
{
    uint32_t low, high;
    char name;

    if (!read_member(r, &name, &low))
        return false;
    bool is_range = peek(r) == '-' && r->at + 1 < r->len && r->codes[r->at + 1] != ']';
    if (!is_range) {
        if (name != '\0')
            cf_charset_add_named(set, name);
        else
            cf_charset_add(set, low, low);
        return true;
    }
    if (name != '\0')
        return invalid(r, "a range needs a single character on both sides");
    r->at++;
    if (!read_member(r, &name, &high))
        return false;
    if (name != '\0')
        return invalid(r, "a range needs a single character on both sides");
    if (high < low)
        return invalid(r, "a range that runs backwards");
    cf_charset_add(set, low, high);
    return true;
}

/* Behind "[". */
static bool
read_class(struct reader *r, struct cf_charset *set)
{
    bool negated = eat(r, '^');

    if (peek(r) == ']')
        return invalid(r, "an empty class");
    while (!eat(r, ']'))
        if (!read_class_part(r, set))
            return false;
    cf_charset_normalize(set);
    if (negated)
        cf_charset_complement(set);
    return true;
}

static bool
read_atom(struct reader *r, struct cf_charset *set)
{
    uint32_t code = peek(r);
    char name = '\0';

    switch (code) {
    case '(':
    case ')': return refuse(r, "schema_pattern_group", "a group or a look-around");
    case '*':
    case '+': return refuse(r, "schema_pattern_unbounded", "unbounded repetition");
    case '^':
    case '$': return refuse(r, "schema_pattern_unsupported", "^ or $ inside a branch");
    case '?':
    case '{': return invalid(r, "a repetition with nothing before it");
    case '}':
    case ']': return invalid(r, "a closing bracket without its opening one");
    default: break;
    }
    r->at++;
    if (code == '[')
        return read_class(r, set);
    if (code == '.')
        name = '.';
    else if (code == '\\' && !read_escape(r, false, &name, &code))
        return false;
    if (name != '\0')
        cf_charset_add_named(set, name);
    else
        cf_charset_add(set, code, code);
    cf_charset_normalize(set);
    return true;
}

/* Digits, saturating well above any limit. False when there is none. */
static bool
read_number(struct reader *r, unsigned *ret_number)
{
    unsigned number = 0;
    size_t start = r->at;

    for (; peek(r) >= '0' && peek(r) <= '9'; r->at++)
        if (number < 100000)
            number = number * 10 + (peek(r) - '0');
    *ret_number = number;
    return r->at > start;
}

/* Behind "{". */
static bool
read_braces(struct reader *r, unsigned *ret_min, unsigned *ret_max)
{
    static const char broken[] = "a repetition is {n} or {n,m}; a literal brace is \\{";

    if (!read_number(r, ret_min))
        return invalid(r, broken);
    *ret_max = *ret_min;
    if (eat(r, ',')) {
        if (peek(r) == '}')
            return refuse(r, "schema_pattern_unbounded", "unbounded repetition");
        if (!read_number(r, ret_max))
            return invalid(r, broken);
    }
    if (!eat(r, '}'))
        return invalid(r, broken);
    if (*ret_max < *ret_min)
        return invalid(r, "a repetition that runs backwards");
    if (*ret_max > CF_PATTERN_MAX_REPEAT)
        return refuse(r, "schema_pattern_too_large", "a repetition above 1000");
    return true;
}

static bool
read_repetition(struct reader *r, unsigned *ret_min, unsigned *ret_max)
{
    *ret_min = *ret_max = 1;
    if (peek(r) == '*' || peek(r) == '+')
        return refuse(r, "schema_pattern_unbounded", "unbounded repetition");
    if (eat(r, '?'))
        *ret_min = 0;
    else if (!eat(r, '{'))
        return true;
    else if (!read_braces(r, ret_min, ret_max))
        return false;
    if (peek(r) == '?')
        return refuse(r, "schema_pattern_unsupported", "lazy repetition");
    return true;
}

static bool
read_item(struct reader *r)
{
    struct cf_charset set = {0};
    unsigned min, max;
    bool ok = read_atom(r, &set) && read_repetition(r, &min, &max);

    if (ok) {
        struct cf_pattern_item *item = &r->pattern->items[r->pattern->item_count++];
        item->first = (uint32_t)r->ranges.count;
        item->count = (uint32_t)set.count;
        item->min = (uint16_t)min;
        item->max = (uint16_t)max;
        r->pattern->width += max;
        for (size_t i = 0; i < set.count; i++)
            cf_charset_add(&r->ranges, set.ranges[i].lo, set.ranges[i].hi);
        if (set.failed || r->ranges.failed)
            ok = no_memory(r);
    }
    cf_charset_release(&set);
    return ok;
}

static bool
items_meet(const struct reader *r, const struct cf_pattern_item *a,
           const struct cf_pattern_item *b)
{
    const struct cf_range *ranges = r->ranges.ranges;

    if (a->count == 0 || b->count == 0)
        return false; /* an empty class; there may be no array at all */
    return cf_ranges_meet(ranges + a->first, a->count, ranges + b->first, b->count);
}

/* A variable item must not want a character that what follows it may want too. */
static bool
check_ambiguity(struct reader *r, const struct cf_pattern_branch *branch)
{
    const struct cf_pattern_item *items = r->pattern->items + branch->first;

    for (uint32_t i = 0; i < branch->count; i++) {
        if (items[i].min == items[i].max)
            continue;
        for (uint32_t j = i + 1; j < branch->count; j++) {
            if (items_meet(r, &items[i], &items[j]))
                return refuse(r, "schema_pattern_ambiguous",
                              "a repetition of variable width that may take what follows it");
            if (items[j].min >= 1)
                break;
        }
    }
    return true;
}

static bool
read_branch(struct reader *r)
{
    struct cf_pattern_branch branch = {.first = r->pattern->item_count};

    branch.at_start = eat(r, '^');
    while (peek(r) != END && peek(r) != '|') {
        if (peek(r) == '$' && (r->at + 1 == r->len || r->codes[r->at + 1] == '|')) {
            branch.at_end = true;
            r->at++;
        } else if (!read_item(r)) {
            return false;
        }
    }
    branch.count = r->pattern->item_count - branch.first;
    if (r->branches < CF_PATTERN_MAX_BRANCHES)
        r->pattern->branches[r->branches] = branch;
    r->branches++;
    return check_ambiguity(r, &branch);
}

static bool
read_pattern(struct reader *r)
{
    do {
        if (!read_branch(r))
            return false;
    } while (eat(r, '|'));
    if (r->branches > CF_PATTERN_MAX_BRANCHES)
        return refuse(r, "schema_pattern_too_large", "more than 8 branches");
    if (r->pattern->item_count > CF_PATTERN_MAX_ITEMS)
        return refuse(r, "schema_pattern_too_large", "more than 128 items");
    if (r->pattern->width > CF_PATTERN_MAX_WIDTH)
        return refuse(r, "schema_pattern_too_large",
                      "repetitions that add up to more than 4096");
    r->pattern->branch_count = r->branches;
    return true;
}

static bool
decode(struct reader *r, const char *text, size_t len)
{
    for (size_t at = 0; at < len;) {
        uint32_t code;
        int took = cf_utf8_next(text + at, len - at, &code);
        if (took <= 0)
            return invalid(r, "bytes that are not UTF-8");
        if (r->len == CF_PATTERN_MAX_CODES)
            return refuse(r, "schema_pattern_too_large", "more than 512 characters");
        r->codes[r->len++] = code;
        at += (size_t)took;
    }
    return true;
}

/* An item takes at least one code point of the pattern, so that many suffice. */
static bool
make_room(struct reader *r)
{
    r->pattern = calloc(1, sizeof *r->pattern);
    if (r->pattern != NULL)
        r->pattern->items = calloc(r->len + 1, sizeof *r->pattern->items);
    return (r->pattern != NULL && r->pattern->items != NULL) || no_memory(r);
}

int
cf_pattern_compile(const char *text, size_t len, struct cf_pattern **ret_pattern,
                   struct cf_pattern_refusal *why)
{
    struct reader r = {.why = why};

    if (!decode(&r, text, len) || !make_room(&r) || !read_pattern(&r)) {
        cf_charset_release(&r.ranges);
        cf_pattern_free(r.pattern);
        return -1;
    }
    r.pattern->ranges = r.ranges.ranges;
    *ret_pattern = r.pattern;
    return 0;
}

void
cf_pattern_free(struct cf_pattern *pattern)
{
    if (pattern == NULL)
        return;
    free(pattern->items);
    free(pattern->ranges);
    free(pattern);
}
