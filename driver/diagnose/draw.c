/* Lines for eyes. */
#include "diagnose/draw.h"

#include "base/str.h"
#include "base/utf8.h"

#include <stdio.h>
#include <string.h>

/* ---- columns ------------------------------------------------------------------------------ */

struct range {
    uint32_t first, last;
};

/* Marks that stand on the character before them, and joiners. */
static const struct range narrow[] = {
    {0x300, 0x36f},     {0x483, 0x489},     {0x591, 0x5bd},     {0x610, 0x61a},     {0x64b, 0x65f},   {0x6d6, 0x6dc},
    {0x900, 0x902},     {0x93c, 0x93c},     {0x941, 0x948},     {0xe31, 0xe31},     {0xe34, 0xe3a},   {0xe47, 0xe4e},
    {0x1ab0, 0x1aff},   {0x1dc0, 0x1dff},   {0x200b, 0x200f},   {0x20d0, 0x20ff},   {0x302a, 0x302d}, {0x3099, 0x309a},
    {0xfe00, 0xfe0f},   {0xfe20, 0xfe2f},   {0x1f3fb, 0x1f3ff}, {0xe0100, 0xe01ef},
};
static const struct range wide[] = {
    {0x1100, 0x115f},   {0x231a, 0x231b},   {0x23e9, 0x23ec},   {0x2e80, 0x303e},   {0x3041, 0xa4cf},
    {0xa960, 0xa97c},   {0xac00, 0xd7a3},   {0xf900, 0xfaff},   {0xfe30, 0xfe6f},   {0xff00, 0xff60},
    {0xffe0, 0xffe6},   {0x1f300, 0x1f64f}, {0x1f680, 0x1f6ff}, {0x1f900, 0x1faff}, {0x20000, 0x3fffd},
};

static bool
is_in(const struct range *table, size_t count, uint32_t code)
{
    for (size_t i = 0; i < count; i++)
        if (code >= table[i].first && code <= table[i].last)
            return true;
    return false;
}

static size_t
columns_of(uint32_t code)
{
    if (code < 0x300)
        return 1;
    return is_in(narrow, CF_COUNT(narrow), code) ? 0 : is_in(wide, CF_COUNT(wide), code) ? 2 : 1;
}

size_t
cf_draw_width(const char *text)
{
    size_t columns = 0, len = strlen(text);
    uint32_t code;

    for (int n; len > 0; text += n, len -= (size_t)n) {
        n = cf_utf8_next(text, len, &code);
        columns += n > 0 ? columns_of(code) : 1;
        if (n <= 0)
            n = 1;
    }
    return columns;
}

/* How many bytes of `text` fit into `room` columns. */
static size_t
fitting(const char *text, size_t room)
{
    /* a column is at most one character of 4 bytes and the marks on it; what is past that can wait */
    size_t at = 0, columns = 0, len = strnlen(text, room * 64 + 64);

    while (at < len) {
        uint32_t code = ' ';
        int n = cf_utf8_next(text + at, len - at, &code);
        columns += n > 0 ? columns_of(code) : 1;
        if (columns > room)
            break;
        at += n > 0 ? (size_t)n : 1;
    }
    return at;
}

/* ---- what the page can show ---------------------------------------------------------------- */

static const char *
plain_form(uint32_t code)
{
    switch (code) {
    case 0x2026:
        return "...";
    case 0x2192:
        return "->";
    case 0x2190:
        return "<-";
    case 0xb7:
        return "|";
    case 0x2013:
    case 0x2014:
        return "-";
    case 0x2018:
    case 0x2019:
        return "'";
    case 0x201c:
    case 0x201d:
        return "\"";
    default:
        return "?";
    }
}

/* In place: no plain form is longer than what it stands for. */
static void
to_ascii(char *text)
{
    size_t len = strlen(text);
    char *from = text, *to = text;

    while (len > 0) {
        uint32_t code = '?';
        int n = cf_utf8_next(from, len, &code);
        const char *form = code >= 0x80 ? plain_form(code) : NULL;
        if (n <= 0)
            n = 1;
        if (form == NULL)
            *to++ = (char)code;
        for (size_t i = 0; form != NULL && columns_of(code) > 0 && form[i] != '\0'; i++)
            *to++ = form[i];
        from += n;
        len -= (size_t)n;
    }
    *to = '\0';
}

void
cf_draw_clean(const struct cf_page *page, const char *text, char *out, size_t size)
{
    size_t len = text != NULL ? strlen(text) : 0, n = len;

    if (len > size - 4)
        n = cf_utf8_cut(text, len, size - 4);
    if (n > 0)
        memcpy(out, text, n);
    out[n] = '\0';
    cf_utf8_make_line(out);
    if (n < len)
        (void)strcat(out, "\xe2\x80\xa6");
    if (!page->unicode)
        to_ascii(out);
}

/* ---- drawing -------------------------------------------------------------------------------- */

static const char *
tone_code(const struct cf_page *page, enum cf_tone tone)
{
    static const char *const codes[] = {"", "\033[32m", "\033[31m", "\033[33m", "\033[2m", "\033[1m"};

    return page->color ? codes[tone] : "";
}

static void
put(const struct cf_page *page, enum cf_tone tone, const char *clean, size_t len)
{
    (void)cf_buf_adds(page->to, tone_code(page, tone));
    (void)cf_buf_add(page->to, clean, len);
    (void)cf_buf_adds(page->to, page->color && tone != CF_PLAIN ? "\033[0m" : "");
}

size_t
cf_draw(const struct cf_page *page, enum cf_tone tone, const char *text)
{
    char clean[1024];

    cf_draw_clean(page, text, clean, sizeof clean);
    put(page, tone, clean, strlen(clean));
    return cf_draw_width(clean);
}

size_t
cf_draw_cut(const struct cf_page *page, enum cf_tone tone, const char *text, size_t columns)
{
    const char *dots = cf_draw_glyph(page, "\xe2\x80\xa6", "...");
    size_t dot_columns = page->unicode ? 1 : 3, n;
    char clean[1024];

    cf_draw_clean(page, text, clean, sizeof clean - 4);
    if (cf_draw_width(clean) > columns) {
        n = fitting(clean, columns > dot_columns ? columns - dot_columns : 0);
        (void)snprintf(clean + n, sizeof clean - n, "%s", columns >= dot_columns ? dots : "");
    }
    put(page, tone, clean, strlen(clean));
    return cf_draw_width(clean);
}

void
cf_draw_wrapped(const struct cf_page *page, int at, int indent, enum cf_tone tone, const char *text)
{
    size_t size = (text != NULL ? strlen(text) : 0) + 8;
    cf_auto_free char *clean = malloc(size);
    const char *left = clean;

    if (clean == NULL)
        return;
    cf_draw_clean(page, text, clean, size);
    for (;;) {
        size_t n = fitting(left, page->columns > at + 10 ? (size_t)(page->columns - at) : 40), space = n;
        if (left[n] != '\0')
            for (space = n; space > 0 && left[space] != ' '; space--) {}
        if (space > 0)
            n = space;
        put(page, tone, left, n);
        (void)cf_buf_adds(page->to, "\n");
        left += n;
        while (*left == ' ')
            left++;
        if (*left == '\0')
            return;
        (void)cf_draw_pad(page, indent);
        at = indent;
    }
}

void
cf_draw_rows(const struct cf_page *page, int at, enum cf_tone tone, const char *text, unsigned rows)
{
    size_t room = page->columns > at + 10 ? (size_t)(page->columns - at) : 10;
    char clean[1024];
    const char *left = clean;

    cf_draw_clean(page, text, clean, sizeof clean);
    for (; rows > 1 && cf_draw_width(left) > room; rows--) {
        size_t n = fitting(left, room);
        put(page, tone, left, n);
        (void)cf_buf_adds(page->to, "\n");
        (void)cf_draw_pad(page, at);
        left += n;
    }
    (void)cf_draw_cut(page, tone, left, room);
    (void)cf_buf_adds(page->to, "\n");
}

size_t
cf_draw_pad(const struct cf_page *page, int columns)
{
    if (columns <= 0)
        return 0;
    (void)cf_buf_addf(page->to, "%*s", columns, "");
    return (size_t)columns;
}

size_t
cf_draw_mark(const struct cf_page *page, enum cf_mark mark)
{
    static const struct {
        const char *fine, *plain;
        enum cf_tone tone;
    } marks[] = {
        [CF_MARK_GOOD] = {"\xe2\x9c\x93", "+", CF_GOOD},  [CF_MARK_BAD] = {"\xe2\x9c\x97", "x", CF_BAD},
        [CF_MARK_SKIP] = {"\xe2\x80\x93", "-", CF_WARN},  [CF_MARK_NOTE] = {"!", "!", CF_WARN},
        [CF_MARK_IN] = {"\xe2\x86\x90", "<", CF_FAINT},   [CF_MARK_OUT] = {"\xe2\x86\x92", ">", CF_FAINT},
        [CF_MARK_CALL] = {"\xe2\x87\x84", "=", CF_FAINT},
    };
    const char *glyph = cf_draw_glyph(page, marks[mark].fine, marks[mark].plain);

    put(page, marks[mark].tone, glyph, strlen(glyph));
    return 1;
}

const char *
cf_draw_glyph(const struct cf_page *page, const char *fine, const char *plain)
{
    return page->unicode ? fine : plain;
}

size_t
cf_draw_bar(const struct cf_page *page, enum cf_tone tone, size_t eighths)
{
    static const char *const parts[] = {"",            "\xe2\x96\x8f", "\xe2\x96\x8e", "\xe2\x96\x8d",
                                        "\xe2\x96\x8c", "\xe2\x96\x8b", "\xe2\x96\x8a", "\xe2\x96\x89"};
    size_t columns = 0;

    if (eighths == 0)
        eighths = 1;
    (void)cf_buf_adds(page->to, tone_code(page, tone));
    for (; eighths >= 8; eighths -= 8, columns++)
        (void)cf_buf_adds(page->to, cf_draw_glyph(page, "\xe2\x96\x88", "#"));
    if (eighths > 0 && (page->unicode || columns == 0)) {
        (void)cf_buf_adds(page->to, page->unicode ? parts[eighths] : "#");
        columns++;
    }
    (void)cf_buf_adds(page->to, page->color && tone != CF_PLAIN ? "\033[0m" : "");
    return columns;
}
