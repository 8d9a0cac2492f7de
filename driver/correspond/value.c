/* Walking a parsed value, and writing it in its one canonical form (RFC 8785). */
#include "correspond/value.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void
cf_corr_value_free(struct cf_corr_value *value)
{
    if (value == NULL)
        return;
    free(value->nodes);
    free(value->text);
    free(value);
}

const struct cf_node *
cf_value_member(const struct cf_corr_value *value, const struct cf_node *object,
                const char *name)
{
    size_t len = strlen(name);

    for (const struct cf_node *m = cf_value_child(value, object); m != NULL;
         m = cf_value_next(value, m)) {
        if (m->name_len == len && memcmp(m->name, name, len) == 0)
            return m;
    }
    return NULL;
}

/* How a byte is written inside a string: 0 as it is, 'u' as \u00xx, else behind a backslash.
 */
static const char escape_of[256] = {
    [0 ... 7] = 'u', ['\b'] = 'b', ['\t'] = 't',      ['\n'] = 'n', [11] = 'u',
    ['\f'] = 'f',    ['\r'] = 'r', [14 ... 31] = 'u', ['"'] = '"',  ['\\'] = '\\',
};

char *
cf_value_write_string(const char *text, size_t len, char *out)
{
    static const char hex[] = "0123456789abcdef";
    size_t at = 0;

    *out++ = '"';
    while (at < len) {
        size_t run = at;
        while (at < len && escape_of[(unsigned char)text[at]] == 0)
            at++;
        memcpy(out, text + run, at - run);
        out += at - run;
        if (at == len)
            break;
        unsigned char byte = (unsigned char)text[at++];
        *out++ = '\\';
        *out++ = escape_of[byte];
        if (escape_of[byte] == 'u') {
            memcpy(out, "00", 2);
            out[2] = hex[byte >> 4];
            out[3] = hex[byte & 15];
            out += 4;
        }
    }
    *out++ = '"';
    return out;
}

static char *
write_integer(int64_t integer, char *out)
{
    char digits[24];
    uint64_t rest = integer < 0 ? 0 - (uint64_t)integer : (uint64_t)integer;
    size_t n = sizeof digits;

    do {
        digits[--n] = (char)('0' + rest % 10);
        rest /= 10;
    } while (rest > 0);
    if (integer < 0)
        digits[--n] = '-';
    memcpy(out, digits + n, sizeof digits - n);
    return out + (sizeof digits - n);
}

static char *
write_container(const struct cf_corr_value *value, const struct cf_node *node, char *out)
{
    bool is_object = node->type == CF_VALUE_OBJECT;

    *out++ = is_object ? '{' : '[';
    for (const struct cf_node *child = cf_value_child(value, node); child != NULL;
         child = cf_value_next(value, child)) {
        if (is_object) {
            out = cf_value_write_string(child->name, child->name_len, out);
            *out++ = ':';
        }
        out = cf_value_write(value, child, out);
        *out++ = ',';
    }
    if (node->len > 0)
        out--; /* the last comma */
    *out++ = is_object ? '}' : ']';
    return out;
}

static char *
write_word(const char *word, char *out)
{
    size_t len = strlen(word);

    memcpy(out, word, len);
    return out + len;
}

char *
cf_value_write(const struct cf_corr_value *value, const struct cf_node *node, char *out)
{
    switch (node->type) {
    case CF_VALUE_NULL:
        return write_word("null", out);
    case CF_VALUE_FALSE:
        return write_word("false", out);
    case CF_VALUE_TRUE:
        return write_word("true", out);
    case CF_VALUE_INTEGER:
        return write_integer(node->integer, out);
    case CF_VALUE_STRING:
        return cf_value_write_string(node->text, node->len, out);
    case CF_VALUE_ARRAY:
    case CF_VALUE_OBJECT:
        return write_container(value, node, out); /* at most 64 deep */
    }
    return out;
}

/* No spelling is shorter than the canonical one: every raw byte stands for itself and every
 * escape is at least as long as what replaces it. One comma too many is written and taken
 * back. */
size_t
cf_corr_value_room(const struct cf_corr_value *value)
{
    return value->len + 2;
}

size_t
cf_corr_value_canonical(const struct cf_corr_value *value, char *out)
{
    char *end = cf_value_write(value, &value->nodes[0], out);

    *end = '\0';
    return (size_t)(end - out);
}

int
cf_corr_canonicalize(const char *bytes, size_t len, size_t limit, char **ret_bytes,
                     size_t *ret_len, struct cf_corr_refusal *refusal)
{
    struct cf_corr_value *value;
    char *out;

    if (cf_corr_value_parse(bytes, len, limit, &value, refusal) < 0)
        return -1;
    out = malloc(cf_corr_value_room(value));
    if (out == NULL) {
        cf_corr_value_free(value);
        return cf_corr_refuse(refusal, "out_of_memory", "", -1);
    }
    *ret_len = cf_corr_value_canonical(value, out);
    *ret_bytes = out;
    cf_corr_value_free(value);
    return 0;
}

int
cf_corr_put_string(struct cf_buf *to, const char *text)
{
    size_t len = strlen(text);
    char *room = cf_buf_reserve(to, 6 * len + 2);

    if (room == NULL)
        return -1;
    cf_buf_wrote(to, (size_t)(cf_value_write_string(text, len, room) - room));
    return 0;
}
