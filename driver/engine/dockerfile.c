/*
 * Dockerfile text as the legacy builder reads it: instructions are lines, a line goes on when
 * it ends in the escape character (which a parser directive at the top may change), comments
 * and blank lines do not end an instruction.
 */
#include "engine/dockerfile.h"

#include <ctype.h>
#include <string.h>
#include <strings.h>

static bool
is_plain(const char *text)
{
    for (; *text != '\0'; text++)
        if (!isalnum((unsigned char)*text) && strchr("._:/-", *text) == NULL)
            return false;
    return true;
}

static bool
put_label(const json_t *labels, struct cf_buf *out)
{
    const char *name;
    json_t *value;

    (void)cf_buf_adds(out, "LABEL");
    json_object_foreach((json_t *)labels, name, value) {
        const char *text = json_string_value(value);
        if (text == NULL || !is_plain(name) || !is_plain(text))
            return false;
        (void)cf_buf_addf(out, " \"%s\"=\"%s\"", name, text);
    }
    (void)cf_buf_adds(out, "\n");
    return true;
}

static size_t
skip_blanks(const char *line, size_t len)
{
    size_t at = 0;

    while (at < len && (line[at] == ' ' || line[at] == '\t'))
        at++;
    return at;
}

/* "# escape=X" counts only among the directives at the very top. */
static bool
read_directive(const char *line, size_t len, char *escape)
{
    size_t at = skip_blanks(line, len), name;

    if (at == len || line[at] != '#')
        return false;
    at++;
    at += skip_blanks(line + at, len - at);
    for (name = at; at < len && isalpha((unsigned char)line[at]);)
        at++;
    if (at == name)
        return false;
    size_t name_len = at - name;
    at += skip_blanks(line + at, len - at);
    if (at == len || line[at] != '=')
        return false;
    at++;
    at += skip_blanks(line + at, len - at);
    if (name_len == 6 && strncasecmp(line + name, "escape", 6) == 0 && at < len &&
        (line[at] == '`' || line[at] == '\\'))
        *escape = line[at];
    return true;
}

static bool
goes_on(const char *line, size_t len, char escape)
{
    while (len > 0 && (line[len - 1] == ' ' || line[len - 1] == '\t' || line[len - 1] == '\r'))
        len--;
    return len > 0 && line[len - 1] == escape;
}

static bool
is_from(const char *line, size_t len)
{
    size_t at = skip_blanks(line, len);

    return len - at > 4 && strncasecmp(line + at, "FROM", 4) == 0 &&
           (line[at + 4] == ' ' || line[at + 4] == '\t');
}

/* Neither blank nor a comment. */
static bool
has_words(const char *line, size_t len)
{
    size_t at = skip_blanks(line, len);

    return at < len && line[at] != '#' && line[at] != '\r';
}

bool
cf_dockerfile_label(const char *text, size_t len, const json_t *labels, struct cf_buf *out)
{
    bool at_top = true, inside = false, in_from = false, put = false;
    char escape = '\\';

    while (len > 0) {
        const char *end = memchr(text, '\n', len);
        size_t line = end != NULL ? (size_t)(end - text) : len,
               whole = end != NULL ? line + 1 : line;
        (void)cf_buf_add(out, text, whole);
        at_top = at_top && read_directive(text, line, &escape);
        if (has_words(text, line)) {
            if (!inside)
                in_from = is_from(text, line);
            inside = goes_on(text, line, escape);
            if (in_from && !inside) {
                if (end == NULL)
                    (void)cf_buf_adds(out, "\n");
                if (!put_label(labels, out))
                    return false;
                put = true;
                in_from = false;
            }
        }
        text += whole;
        len -= whole;
    }
    return put && !out->failed;
}

unsigned
cf_dockerfile_author_line(const char *copy, size_t len, const json_t *labels, unsigned number)
{
    struct cf_buf ours = {0};
    unsigned put_in = 0;
    bool has_ours = put_label(labels, &ours) && !ours.failed;

    for (unsigned at = 1; has_ours && at < number && len > 0; at++) {
        const char *end = memchr(copy, '\n', len);
        size_t whole = end != NULL ? (size_t)(end - copy) + 1 : len;
        if (whole == ours.len && memcmp(copy, ours.data, whole) == 0)
            put_in++;
        copy += whole;
        len -= whole;
    }
    cf_buf_release(&ours);
    return number - put_in;
}

/* The next word of an instruction, which may go on over several lines with remarks between
 * them; empty at its end. */
static const char *
next_word(const char **at, const char *end, char escape, size_t *ret_len)
{
    const char *c = *at, *word;

    for (bool line_begins = false; c < end; c++) {
        if (line_begins && *c == '#')
            while (c < end && *c != '\n')
                c++;
        if (c == end || (strchr(" \t\r\n", *c) == NULL && *c != escape))
            break;
        line_begins = *c == '\n' || (line_begins && (*c == ' ' || *c == '\t'));
    }
    for (word = c; c < end && strchr(" \t\r\n", *c) == NULL;)
        c++;
    *ret_len = (size_t)(c - word);
    *at = c;
    return word;
}

/* `line` begins with FROM and ends where the instruction ends. */
static void
take_base(const char *line, const char *end, char escape,
          void (*on_base)(void *, const char *), void *user)
{
    char name[600];
    size_t len;
    const char *word;

    (void)next_word(&line, end, escape, &len); /* FROM itself */
    do
        word = next_word(&line, end, escape, &len);
    while (len > 2 && strncmp(word, "--", 2) == 0); /* --platform=... */
    if (len == 0 || len >= sizeof name || memchr(word, '$', len) != NULL)
        return;
    memcpy(name, word, len);
    name[len] = '\0';
    if (strcasecmp(name, "scratch") != 0)
        on_base(user, name);
}

void
cf_dockerfile_bases(const char *text, size_t len, void (*on_base)(void *, const char *),
                    void *user)
{
    const char *limit = text + len, *begin = NULL;
    bool at_top = true, inside = false, in_from = false;
    char escape = '\\';

    while (text < limit) {
        const char *end = memchr(text, '\n', (size_t)(limit - text));
        size_t line = (size_t)((end != NULL ? end : limit) - text);
        at_top = at_top && read_directive(text, line, &escape);
        if (has_words(text, line)) {
            if (!inside) {
                begin = text;
                in_from = is_from(text, line);
            }
            inside = goes_on(text, line, escape);
            if (in_from && !inside)
                take_base(begin, text + line, escape, on_base, user);
        }
        text += line + (end != NULL ? 1 : 0);
    }
}
