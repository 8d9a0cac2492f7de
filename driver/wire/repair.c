/*
 * wire/repair.c: reading a line as JSON, with one repair pass when strict reading fails.
 *
 * Agents cut strings between surrogates, print 2^64-1 token counts and pass tool output
 * through unchecked. Such a frame may be the answer a turn waits for, so it is mended by rules
 * that are written down (repair.h) and counted, never guessed.
 */
#include "wire/repair.h"

#include "base/buf.h"
#include "base/utf8.h"
#include "json/json.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FRAME_DEPTH 512u

struct repair {
    const char *in;
    size_t len, at;
    struct cf_buf out;
    size_t repairs;
};

static int
hex4(const char *at)
{
    int value = 0;

    for (int i = 0; i < 4; i++) {
        char c = at[i];
        int digit = c >= '0' && c <= '9'   ? c - '0'
                    : c >= 'a' && c <= 'f' ? c - 'a' + 10
                    : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                           : -1;
        if (digit < 0)
            return -1;
        value = value << 4 | digit;
    }
    return value;
}

/* The code unit of a \uXXXX at `at`, or -1. */
static int
unit_at(const struct repair *r, size_t at)
{
    if (at + 6 > r->len || r->in[at] != '\\' || r->in[at + 1] != 'u')
        return -1;
    return hex4(r->in + at + 2);
}

static void
replace(struct repair *r, size_t skip, const char *with)
{
    (void)cf_buf_adds(&r->out, with); /* a failure is sticky and seen at the end */
    r->at += skip;
    r->repairs++;
}

static void
copy(struct repair *r, size_t len)
{
    (void)cf_buf_add(&r->out, r->in + r->at, len);
    r->at += len;
}

static void
repair_escape(struct repair *r, bool is_name)
{
    int unit = unit_at(r, r->at);

    if (unit < 0) {
        copy(r, r->at + 2 <= r->len ? 2 : 1);
    } else if (unit >= 0xd800 && unit < 0xdc00) {
        int low = unit_at(r, r->at + 6);
        if (low >= 0xdc00 && low < 0xe000)
            copy(r, 12);
        else
            replace(r, 6, "\\ufffd");
    } else if ((unit >= 0xdc00 && unit < 0xe000) || (unit == 0 && is_name)) {
        replace(r, 6, "\\ufffd");
    } else {
        copy(r, 6);
    }
}

static void
repair_character(struct repair *r)
{
    uint32_t code;
    int n = cf_utf8_next(r->in + r->at, r->len - r->at, &code);

    if (n > 0 && code >= 0x20) {
        copy(r, (size_t)n);
    } else if (n > 0) {
        char escape[8];
        snprintf(escape, sizeof escape, "\\u%04x", (unsigned)code);
        replace(r, 1, escape);
    } else {
        size_t skip = 1; /* a broken sequence is one replacement, not one a byte */
        while (r->at + skip < r->len && skip < 3 && (r->in[r->at + skip] & 0xc0) == 0x80)
            skip++;
        replace(r, skip, "\xef\xbf\xbd");
    }
}

/* Whether the string that begins at r->at is a member's name: a colon follows its end. */
static bool
is_member_name(const struct repair *r)
{
    size_t at = r->at + 1;

    while (at < r->len && r->in[at] != '"')
        at += r->in[at] == '\\' ? 2 : 1;
    for (at++; at < r->len && strchr(" \t\r", r->in[at]) != NULL && r->in[at] != '\0'; at++)
        ;
    return at < r->len && r->in[at] == ':';
}

static void
repair_string(struct repair *r)
{
    bool is_name = is_member_name(r);

    copy(r, 1);
    while (r->at < r->len && r->in[r->at] != '"') {
        if (r->in[r->at] == '\\')
            repair_escape(r, is_name);
        else
            repair_character(r);
    }
    if (r->at < r->len)
        copy(r, 1);
}

static void
repair_number(struct repair *r)
{
    size_t end = r->at, digits = 0;
    bool is_whole = true;
    char text[400], *rest;

    while (end < r->len && r->in[end] != '\0' &&
           strchr("+-.0123456789eE", r->in[end]) != NULL) {
        is_whole = is_whole && strchr(".eE", r->in[end]) == NULL;
        digits += r->in[end] >= '0' && r->in[end] <= '9';
        end++;
    }
    size_t len = end - r->at;
    bool is_huge = len >= sizeof text;
    if (!is_huge) {
        memcpy(text, r->in + r->at, len);
        text[len] = '\0';
        double value = strtod(text, &rest);
        is_huge = value > 1.7976931348623157e308 || value < -1.7976931348623157e308;
    }
    if (is_huge) {
        replace(r, len,
                r->in[r->at] == '-' ? "-1.7976931348623157e308" : "1.7976931348623157e308");
    } else if (is_whole && digits >= 19) {
        copy(r, len); /* may still fit: then it is a real number of the same value */
        replace(r, 0, ".0");
    } else {
        copy(r, len);
    }
}

static size_t
repair_line(struct repair *r)
{
    while (r->at < r->len) {
        char c = r->in[r->at];
        if (c == '"')
            repair_string(r);
        else if (c == '-' || (c >= '0' && c <= '9'))
            repair_number(r);
        else
            copy(r, 1);
    }
    return r->out.failed ? 0 : r->repairs;
}

static enum cf_frame_fault
read_strict(const char *line, size_t len, json_t **ret_value, char *why, size_t size)
{
    struct cf_json_limits limits = {
        .bytes = len + 1, .depth = FRAME_DEPTH, .containers_only = true};
    struct cf_error err = {0};

    switch (cf_json_read(line, len, &limits, ret_value, &err)) {
    case CF_JSON_FAULT_NONE:
        return CF_FRAME_OK;
    case CF_JSON_FAULT_MEMORY:
        return CF_FRAME_MEMORY;
    case CF_JSON_FAULT_BYTES:
    case CF_JSON_FAULT_DEPTH:
    case CF_JSON_FAULT_NODES:
        snprintf(why, size, "%s", err.text);
        return CF_FRAME_TOO_LARGE;
    default:
        snprintf(why, size, "%s", err.text);
        return CF_FRAME_NOT_JSON;
    }
}

enum cf_frame_fault
cf_frame_read(const char *line, size_t len, json_t **ret_value, size_t *ret_repairs, char *why,
              size_t size)
{
    struct repair r = {.in = line, .len = len};
    enum cf_frame_fault fault = read_strict(line, len, ret_value, why, size);
    size_t start = 0;

    *ret_repairs = 0;
    if (fault != CF_FRAME_NOT_JSON)
        return fault;
    while (start < len && (line[start] == ' ' || line[start] == '\t'))
        start++;
    if (start == len || line[start] != '{')
        return CF_FRAME_NOT_JSON; /* prose, a banner: nothing a repair could make a frame of */
    if (repair_line(&r) > 0) {
        fault = read_strict(r.out.data, r.out.len, ret_value, why, size);
        if (fault == CF_FRAME_OK)
            *ret_repairs = r.repairs;
    }
    cf_buf_release(&r.out);
    return fault;
}
