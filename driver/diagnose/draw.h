/*
 * diagnose/draw.h: lines for eyes. Whatever is drawn is made printable first, so no byte of a harness
 * reaches a terminal as it came; without UTF-8 it is ASCII; a width is counted in columns, wide
 * and combining characters included.
 */
#ifndef CF_DIAGNOSE_DRAW_H
#define CF_DIAGNOSE_DRAW_H

#include "base/buf.h"

#include <stdbool.h>
#include <stddef.h>

struct cf_page {
    struct cf_buf *to;
    bool color, unicode;
    int columns;
};

enum cf_tone { CF_PLAIN, CF_GOOD, CF_BAD, CF_WARN, CF_FAINT, CF_BOLD };
enum cf_mark { CF_MARK_GOOD, CF_MARK_BAD, CF_MARK_SKIP, CF_MARK_NOTE, CF_MARK_IN, CF_MARK_OUT, CF_MARK_CALL };

/* `text` as the page can show it, cut to `size` with its ellipsis; NULL is "". Sizes at least 8. */
void cf_draw_clean(const struct cf_page *page, const char *text, char *out, size_t size);
/* Columns of valid UTF-8. */
size_t cf_draw_width(const char *text);

/* Each cleans what it is given. Returns the columns that it took. */
size_t cf_draw(const struct cf_page *page, enum cf_tone tone, const char *text);
/* At most `columns`, with an ellipsis where something was cut. */
size_t cf_draw_cut(const struct cf_page *page, enum cf_tone tone, const char *text, size_t columns);
/* Wrapped at spaces, with a line end: the first line goes on at column `at`, the others begin at `indent`. */
void cf_draw_wrapped(const struct cf_page *page, int at, int indent, enum cf_tone tone, const char *text);
/* Broken anywhere, at column `at` each, into at most `rows` lines, each with a line end; cut after that. */
void cf_draw_rows(const struct cf_page *page, int at, enum cf_tone tone, const char *text, unsigned rows);
size_t cf_draw_pad(const struct cf_page *page, int columns);
/* One column, in its tone. */
size_t cf_draw_mark(const struct cf_page *page, enum cf_mark mark);
const char *cf_draw_glyph(const struct cf_page *page, const char *fine, const char *plain);
/* A bar of `eighths` of a column; nothing is drawn as a thin line. Returns the columns. */
size_t cf_draw_bar(const struct cf_page *page, enum cf_tone tone, size_t eighths);

#endif
