/*
 * fuzz_glance.c: whatever a frame, an engine's progress or a text holds, what is drawn of it is printable,
 * within its columns and its bounds.
 */
#include "base/buf.h"
#include "base/utf8.h"
#include "cli/progress.h"
#include "diagnose/draw.h"
#include "diagnose/trail.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void
expect_printable(const char *text, size_t len, bool is_ascii)
{
    if (!cf_utf8_is_valid(text, len))
        abort();
    for (size_t i = 0; i < len; i++)
        if (((unsigned char)text[i] < 0x20 && text[i] != '\n') || text[i] == 0x7f ||
            (is_ascii && (unsigned char)text[i] >= 0x80))
            abort();
}

static void
draw(const char *text, bool is_unicode, int columns)
{
    struct cf_buf bytes = {0};
    struct cf_page page = {&bytes, false, is_unicode, columns};
    char *line, *left;

    cf_draw_rows(&page, 3, CF_PLAIN, text, 4);
    cf_draw_wrapped(&page, 3, 3, CF_PLAIN, text);
    if (cf_draw_cut(&page, CF_PLAIN, text, 10) > 10)
        abort();
    expect_printable(bytes.data, bytes.len, !is_unicode);
    for (left = bytes.data; (line = strsep(&left, "\n")) != NULL;)
        if (columns >= 20 && cf_draw_width(line) > (size_t)columns)
            abort();
    cf_buf_release(&bytes);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct cf_progress progress = {.what = ""};
    char what[24], text[64];
    char *copy = malloc(size + 1);

    if (copy == NULL)
        return 0;
    memcpy(copy, data, size);
    copy[size] = '\0';
    cf_glance((const char *)data, size, size + size % 2, what, sizeof what, text, sizeof text);
    expect_printable(what, strlen(what), false);
    expect_printable(text, strlen(text), false);
    cf_progress_feed(&progress, "push", (const char *)data, size);
    if (cf_progress_text(&progress, text, sizeof text) > 1000)
        abort();
    draw(copy, true, 20 + (int)(size % 60));
    draw(copy, false, 20 + (int)(size % 60));
    free(copy);
    return 0;
}
