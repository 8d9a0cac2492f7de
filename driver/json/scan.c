/*
 * json/scan.c: one linear pass over a stranger's JSON text.
 *
 * jansson builds as it reads, so a hostile text costs memory before any limit of ours could
 * speak. This pass answers first: is it JSON, how deep, how many values. What is open is kept as
 * one bit a level (object or array), so nothing is allocated and nothing recurses.
 */
#include "json/scan.h"

#include "base/utf8.h"
#include "json/plain.h"

#include <stdbool.h>
#include <stdint.h>

struct cursor {
    struct cf_json_scan *scan;
    size_t at;
    unsigned depth;
    bool too_deep, too_many;
    size_t too_deep_at, too_many_at;
    uint8_t is_object[CF_JSON_SCAN_DEPTH / 8]; /* bit per open level */
};

static bool
broken(struct cursor *c, size_t at, const char *what)
{
    c->scan->at = at;
    c->scan->what = what;
    return false;
}

static int
peek(const struct cursor *c)
{
    return c->at < c->scan->len ? (unsigned char)c->scan->bytes[c->at] : -1;
}

static void
skip_space(struct cursor *c)
{
    for (;;) {
        int ch = peek(c);
        if (ch != ' ' && ch != '\t' && ch != '\n' && ch != '\r')
            return;
        c->at++;
    }
}

static bool
read_hex4(struct cursor *c, uint32_t *ret_unit)
{
    uint32_t unit = 0;

    for (int i = 0; i < 4; i++) {
        int ch = peek(c);
        if (ch >= '0' && ch <= '9')
            unit = unit * 16 + (uint32_t)(ch - '0');
        else if (ch >= 'a' && ch <= 'f')
            unit = unit * 16 + (uint32_t)(ch - 'a' + 10);
        else if (ch >= 'A' && ch <= 'F')
            unit = unit * 16 + (uint32_t)(ch - 'A' + 10);
        else
            return broken(c, c->at, "a \\u escape needs four hexadecimal digits");
        c->at++;
    }
    *ret_unit = unit;
    return true;
}

static bool
read_unicode_escape(struct cursor *c, bool is_name)
{
    size_t start = c->at;
    uint32_t unit, low;

    if (!read_hex4(c, &unit))
        return false;
    if (unit == 0 && is_name)
        return broken(c, start, "U+0000 in a member name");
    if (unit >= 0xdc00 && unit <= 0xdfff)
        return broken(c, start, "a low surrogate without its high half");
    if (unit < 0xd800 || unit > 0xdbff)
        return true;
    if (peek(c) != '\\')
        return broken(c, start, "a high surrogate without its low half");
    c->at++;
    if (peek(c) != 'u')
        return broken(c, start, "a high surrogate without its low half");
    c->at++;
    if (!read_hex4(c, &low))
        return false;
    if (low < 0xdc00 || low > 0xdfff)
        return broken(c, start, "a high surrogate without its low half");
    return true;
}

static bool
read_escape(struct cursor *c, bool is_name)
{
    int ch = peek(c);

    c->at++;
    switch (ch) {
    case '"':
    case '\\':
    case '/':
    case 'b':
    case 'f':
    case 'n':
    case 'r':
    case 't': return true;
    case 'u': return read_unicode_escape(c, is_name);
    default: return broken(c, c->at - 1, "an unknown escape in a string");
    }
}

/* Stands on the opening quote. */
static bool
read_string(struct cursor *c, bool is_name)
{
    size_t start = c->at++;

    for (;;) {
        uint32_t code;
        int ch;

        c->at += cf_plain_prefix(c->scan->bytes + c->at, c->scan->len - c->at, true);
        ch = peek(c);
        if (ch < 0)
            return broken(c, start, "a string that is not closed");
        if (ch == '"') {
            c->at++;
            return true;
        }
        if (ch < 0x20)
            return broken(c, c->at, "a control character inside a string; escape it");
        if (ch == '\\') {
            c->at++;
            if (!read_escape(c, is_name))
                return false;
        } else {
            int took = cf_utf8_next(c->scan->bytes + c->at, c->scan->len - c->at, &code);
            if (took <= 0)
                return broken(c, c->at, "bytes that are not UTF-8");
            c->at += (size_t)took;
        }
    }
}

static bool
read_digits(struct cursor *c)
{
    size_t start = c->at;

    while (peek(c) >= '0' && peek(c) <= '9')
        c->at++;
    return c->at > start || broken(c, c->at, "a number lacks a digit here");
}

static bool
read_number(struct cursor *c)
{
    if (peek(c) == '-')
        c->at++;
    if (peek(c) == '0') {
        c->at++;
        if (peek(c) >= '0' && peek(c) <= '9')
            return broken(c, c->at, "a number with a leading zero");
    } else if (!read_digits(c)) {
        return false;
    }
    if (peek(c) == '.') {
        c->at++;
        if (!read_digits(c))
            return false;
    }
    if (peek(c) == 'e' || peek(c) == 'E') {
        c->at++;
        if (peek(c) == '+' || peek(c) == '-')
            c->at++;
        if (!read_digits(c))
            return false;
    }
    return true;
}

static bool
read_word(struct cursor *c, const char *word)
{
    size_t start = c->at;

    for (const char *w = word; *w != '\0'; w++, c->at++)
        if (peek(c) != *w)
            return broken(c, start, "not a JSON value");
    return true;
}

static bool
open_level(struct cursor *c, bool is_object)
{
    uint8_t bit = (uint8_t)(1u << (c->depth % 8)), *bits;

    if (c->depth == CF_JSON_SCAN_DEPTH)
        return broken(c, c->at, "nesting deeper than any JSON reader takes");
    bits = &c->is_object[c->depth / 8];
    if (bit == 1)
        *bits = 0; /* the first level of its byte, which may be of any value */
    *bits = (uint8_t)(is_object ? *bits | bit : *bits & ~bit);
    c->depth++;
    if (c->depth > c->scan->deepest)
        c->scan->deepest = c->depth;
    if (c->depth > c->scan->depth_limit && !c->too_deep) {
        c->too_deep = true;
        c->too_deep_at = c->at;
    }
    c->at++;
    return true;
}

static bool
in_object(const struct cursor *c)
{
    unsigned top = c->depth - 1;
    return (c->is_object[top / 8] >> (top % 8)) & 1;
}

static void
count_node(struct cursor *c)
{
    if (c->too_many)
        return;
    if (++c->scan->nodes > c->scan->node_limit) {
        c->too_many = true;
        c->too_many_at = c->at;
    }
}

/* `"name" :` and the white space behind it. */
static bool
read_name(struct cursor *c)
{
    if (peek(c) != '"')
        return broken(c, c->at, "a member name in double quotes belongs here");
    if (!read_string(c, true))
        return false;
    skip_space(c);
    if (peek(c) != ':')
        return broken(c, c->at, "a colon belongs between a member's name and its value");
    c->at++;
    skip_space(c);
    return true;
}

/* Reads a scalar whole, or opens containers until one is empty or a scalar was read. */
static bool
read_value(struct cursor *c)
{
    for (;;) {
        int ch = peek(c);

        count_node(c);
        if (ch == '{' || ch == '[') {
            if (!open_level(c, ch == '{'))
                return false;
            skip_space(c);
            if (peek(c) == (ch == '{' ? '}' : ']'))
                return true; /* the closing bracket is read by close_levels */
            if (ch == '{' && !read_name(c))
                return false;
            continue;
        }
        if (ch == '"')
            return read_string(c, false);
        if (ch == '-' || (ch >= '0' && ch <= '9'))
            return read_number(c);
        if (ch == 't')
            return read_word(c, "true");
        if (ch == 'f')
            return read_word(c, "false");
        if (ch == 'n')
            return read_word(c, "null");
        return broken(c, c->at,
                      ch < 0 ? "the text ends where a value belongs" : "not a JSON value");
    }
}

/* After a value: closes what closes here. True with *ret_more when a next value begins. */
static bool
close_levels(struct cursor *c, bool *ret_more)
{
    for (;;) {
        skip_space(c);
        if (c->depth == 0) {
            *ret_more = false;
            return c->at == c->scan->len ||
                   broken(c, c->at, "more text behind the JSON value");
        }
        int ch = peek(c);
        if (ch == (in_object(c) ? '}' : ']')) {
            c->at++;
            c->depth--;
            continue;
        }
        if (ch != ',')
            return broken(c, c->at,
                          ch < 0 ? "the text ends inside an object or array"
                                 : "a comma or a closing bracket belongs here");
        c->at++;
        skip_space(c);
        *ret_more = true;
        return !in_object(c) || read_name(c);
    }
}

enum cf_json_scan_end
cf_json_scan(struct cf_json_scan *scan)
{
    struct cursor c;
    bool more = true;

    c.scan = scan;
    c.at = 0;
    c.depth = 0;
    c.too_deep = c.too_many = false;
    scan->nodes = scan->deepest = 0;
    skip_space(&c);
    while (more)
        if (!read_value(&c) || !close_levels(&c, &more))
            return CF_JSON_SCAN_BROKEN;
    if (c.too_deep) {
        scan->at = c.too_deep_at;
        return CF_JSON_SCAN_TOO_DEEP;
    }
    if (c.too_many) {
        scan->at = c.too_many_at;
        return CF_JSON_SCAN_TOO_MANY;
    }
    return CF_JSON_SCAN_OK;
}
