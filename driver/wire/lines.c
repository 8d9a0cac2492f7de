/*
 * wire/lines.c: bytes -> lines.
 *
 * The one place on the road where bytes wait for their end. A line that arrives whole is
 * handed out where it lies; only an unfinished one is copied, and each byte is searched for LF
 * once, so a frame that comes a byte at a time costs no more than one that comes at once.
 */
#include "wire/wire.h"

#include <stdlib.h>
#include <string.h>

#define SMALL_BYTES 4096u
#define KEEP_BYTES (1u << 20) /* a larger buffer goes back once its line was read */

void
cf_lines_init(struct cf_lines *lines, size_t limit_bytes)
{
    memset(lines, 0, sizeof *lines);
    lines->limit_bytes = limit_bytes;
}

void
cf_lines_release(struct cf_lines *lines)
{
    free(lines->held);
    memset(lines, 0, sizeof *lines);
}

static int
hold(struct cf_lines *lines, const char *bytes, size_t len)
{
    size_t need = lines->held_len + len;

    if (need > lines->held_cap) {
        size_t cap = lines->held_cap == 0 ? SMALL_BYTES : lines->held_cap;
        while (cap < need)
            cap *= 2;
        char *grown = realloc(lines->held, cap);
        if (grown == NULL)
            return -1;
        lines->held = grown;
        lines->held_cap = cap;
    }
    memcpy(lines->held + lines->held_len, bytes, len);
    lines->held_len = need;
    return 0;
}

static void
let_go(struct cf_lines *lines)
{
    lines->held_len = 0;
    if (lines->held_cap > KEEP_BYTES) {
        free(lines->held);
        lines->held = NULL;
        lines->held_cap = 0;
    }
}

/* A line without its LF. */
static void
hand_out(struct cf_lines *lines, const char *line, size_t len, cf_line_fn *on_line, void *user)
{
    bool is_first = !lines->started;

    lines->started = true;
    lines->number++;
    if (len > 0 && line[len - 1] == '\r')
        len--;
    if (len >
        lines->limit_bytes) { /* a BOM counts: it may have been held before it was known */
        on_line(user, line, lines->limit_bytes, lines->number, true);
        return;
    }
    if (is_first && len >= 3 && memcmp(line, "\xef\xbb\xbf", 3) == 0) {
        line += 3;
        len -= 3;
    }
    on_line(user, line, len, lines->number, false);
}

/* Adds to the unfinished line; one longer than the limit is handed out now and dropped from
 * here on. A CR may still turn out to belong to the line's end, hence the one byte more. */
static int
hold_bounded(struct cf_lines *lines, const char *bytes, size_t len, cf_line_fn *on_line,
             void *user)
{
    size_t room = lines->limit_bytes + 1 - lines->held_len;
    bool is_over = len > room;

    if (hold(lines, bytes, is_over ? room : len) < 0)
        return -1;
    if (!is_over && lines->held_len == lines->limit_bytes + 1)
        is_over = lines->held[lines->held_len - 1] != '\r';
    if (is_over) {
        lines->started = true;
        lines->number++;
        lines->skipping = true;
        on_line(user, lines->held, lines->limit_bytes, lines->number, true);
        let_go(lines);
    }
    return 0;
}

int
cf_lines_feed(struct cf_lines *lines, const char *bytes, size_t len, cf_line_fn *on_line,
              void *user)
{
    while (len > 0) {
        const char *end = memchr(bytes, '\n', len);
        size_t part = end == NULL ? len : (size_t)(end - bytes);

        if (!lines->skipping && end != NULL && lines->held_len == 0) {
            hand_out(lines, bytes, part, on_line, user);
        } else {
            if (!lines->skipping && part > 0 &&
                hold_bounded(lines, bytes, part, on_line, user) < 0)
                return -1;
            if (end != NULL && !lines->skipping) {
                hand_out(lines, lines->held, lines->held_len, on_line, user);
                let_go(lines);
            }
            if (end != NULL)
                lines->skipping = false;
        }
        if (end == NULL)
            break;
        bytes += part + 1;
        len -= part + 1;
    }
    return 0;
}

int
cf_lines_end(struct cf_lines *lines, cf_line_fn *on_line, void *user)
{
    if (lines->held_len > 0 && !lines->skipping)
        hand_out(lines, lines->held, lines->held_len, on_line, user);
    let_go(lines);
    lines->skipping = false;
    return 0;
}
