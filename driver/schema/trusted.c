/*
 * schema/trusted.c: the nine patterns of the contract's own schemas that lie outside the subset.
 *
 * They are found by their exact text and each has a hand-written, linear test with the same
 * meaning. Only schemas compiled into the program come here. An author who writes one of them
 * is refused, and the refusal names a bounded form where there is one.
 */
#include "schema/compiled.h"

#include "base/str.h"
#include "base/utf8.h"

#include <string.h>

static bool
is_lower_or_digit(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
}

static bool
is_alnum(char c)
{
    return is_lower_or_digit(c) || (c >= 'A' && c <= 'Z');
}

/* Every byte is a letter, a digit or one of `more`. */
static bool
only(const char *text, size_t len, bool (*letter)(char), const char *more)
{
    for (size_t i = 0; i < len; i++)
        if (!letter(text[i]) && (text[i] == '\0' || strchr(more, text[i]) == NULL))
            return false;
    return true;
}

static bool
has_no_nul(const char *text, size_t len)
{
    return memchr(text, '\0', len) == NULL;
}

static bool
is_one_line(const char *text, size_t len)
{
    return memchr(text, '\r', len) == NULL && memchr(text, '\n', len) == NULL;
}

static bool
is_plain_id(const char *text, size_t len)
{
    return len > 0 && only(text, len, is_alnum, "_-");
}

static bool
is_http_token(const char *text, size_t len)
{
    return len > 0 && only(text, len, is_alnum, "!#$%&'*+.^_`|~-");
}

static bool
is_host(const char *text, size_t len)
{
    return len > 0 && only(text, len, is_lower_or_digit, ".-") && is_lower_or_digit(text[0]) &&
           is_lower_or_digit(text[len - 1]);
}

static bool
is_slug_of_94(const char *text, size_t len)
{
    return len > 0 && len <= 94 && is_lower_or_digit(text[0]) &&
           only(text, len, is_lower_or_digit, "._-");
}

/* One or more code points, none of them white space. */
static bool
is_solid(const char *text, size_t len)
{
    uint32_t code;
    int took;

    for (size_t at = 0; at < len; at += (size_t)took) {
        took = cf_utf8_next(text + at, len - at, &code);
        if (took <= 0 || cf_charset_is_space(code))
            return false;
    }
    return len > 0;
}

static bool
is_connection_tool(const char *text, size_t len)
{
    return len > 38 && memcmp(text, "conn_", 5) == 0 && cf_is_hex(text + 5, 32) &&
           text[37] == ':' && is_solid(text + 38, len - 38);
}

static bool
is_harness_tool(const char *text, size_t len)
{
    return len > 8 && memcmp(text, "harness:", 8) == 0 && is_solid(text + 8, len - 8);
}

static bool
is_path_segment(const char *segment, size_t len)
{
    bool is_dots =
        (len == 1 && segment[0] == '.') || (len == 2 && memcmp(segment, "..", 2) == 0);

    return len > 0 && !is_dots && only(segment, len, is_alnum, "._-");
}

static bool
is_plain_path(const char *text, size_t len)
{
    const char *end = text + len;

    if (len < 2 || text[0] != '/')
        return false;
    while (text < end) {
        const char *segment = text + 1;
        const char *slash = memchr(segment, '/', (size_t)(end - segment));
        text = slash == NULL ? end : slash;
        if (!is_path_segment(segment, (size_t)(text - segment)))
            return false;
    }
    return true;
}

static const struct {
    const char *text;
    cf_trusted_test_fn *test;
    const char *hint;
} table[] = {
    {"^[^\\u0000]*$", has_no_nul, "a bounded form is ^[^\\u0000]{0,1000}$"},
    {"^[^\\r\\n]*$", is_one_line, "a bounded form is ^[^\\r\\n]{0,1000}$"},
    {"^[A-Za-z0-9_-]+$", is_plain_id, "a bounded form is ^[A-Za-z0-9_-]{1,64}$"},
    {"^[!#$%&'*+.^_`|~0-9A-Za-z-]+$", is_http_token,
     "a bounded form is ^[!#$%&'*+.^_`|~0-9A-Za-z-]{1,128}$"},
    {"^[a-z0-9](?:[a-z0-9.-]*[a-z0-9])?$", is_host, NULL},
    {"^[a-z0-9](?:[a-z0-9._-]{0,93})$", is_slug_of_94,
     "without the group it is ^[a-z0-9][a-z0-9._-]{0,93}$"},
    {"^conn_[0-9a-f]{32}:\\S+$", is_connection_tool,
     "a bounded form is ^conn_[0-9a-f]{32}:\\S{1,200}$"},
    {"^harness:\\S+$", is_harness_tool, "a bounded form is ^harness:\\S{1,200}$"},
    {"^\\/(?!\\.{1,2}(?:\\/|$))[A-Za-z0-9._-]+(?:\\/(?!\\.{1,2}(?:\\/|$))[A-Za-z0-9._-]+)*$",
     is_plain_path, NULL},
};

static int
find(const char *text, size_t len)
{
    for (size_t i = 0; i < CF_COUNT(table); i++)
        if (strlen(table[i].text) == len && memcmp(table[i].text, text, len) == 0)
            return (int)i;
    return -1;
}

cf_trusted_test_fn *
cf_trusted_pattern(const char *text, size_t len)
{
    int at = find(text, len);
    return at < 0 ? NULL : table[at].test;
}

const char *
cf_trusted_pattern_hint(const char *text, size_t len)
{
    int at = find(text, len);
    return at < 0 ? NULL : table[at].hint;
}
