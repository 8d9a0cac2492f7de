/*
 * json/dump.c: tree to compact text.
 *
 * Written here rather than with jansson's dumper for two reasons: a real number comes out in the
 * fewest digits that read back the same (jansson prints 0.1 as 0.10000000000000001), and the text
 * grows inside a cf_buf, so a ceiling holds while it is written.
 */
#include "json/json.h"

#include "json/plain.h"
#include "json/scan.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int
append_escape(struct cf_buf *to, unsigned char ch)
{
    static const char hex[] = "0123456789abcdef";
    static const char shorts[] = "\"\\\b\f\n\r\t", letters[] = "\"\\bfnrt";
    const char *known = ch == 0 ? NULL : strchr(shorts, ch);
    char escape[6] = {'\\', 'u', '0', '0', hex[ch >> 4], hex[ch & 15]};

    if (known == NULL)
        return cf_buf_add(to, escape, 6);
    escape[1] = letters[known - shorts];
    return cf_buf_add(to, escape, 2);
}

int
cf_json_append_string(struct cf_buf *to, const char *bytes, size_t len)
{
    if (cf_buf_add(to, "\"", 1) < 0)
        return -1;
    for (size_t at = 0; at < len; at++) {
        size_t plain = cf_plain_prefix(bytes + at, len - at, false);

        if (cf_buf_add(to, bytes + at, plain) < 0)
            return -1;
        at += plain;
        if (at < len && append_escape(to, (unsigned char)bytes[at]) < 0)
            return -1;
    }
    return cf_buf_add(to, "\"", 1);
}

static int
append_real(struct cf_buf *to, double number)
{
    char text[40];

    for (int digits = 15; digits <= 17; digits++) {
        snprintf(text, sizeof text, "%.*g", digits, number);
        if (strtod(text, NULL) == number)
            break;
    }
    for (char *c = text; *c != '\0'; c++)
        if (*c == ',')
            *c = '.'; /* a host program may run in a locale with a decimal comma */
    if (strpbrk(text, ".e") == NULL)
        strcat(text, ".0"); /* stays a real number when read back */
    return cf_buf_adds(to, text);
}

static int append_value(struct cf_buf *to, const json_t *value, unsigned depth);

static int
append_object(struct cf_buf *to, const json_t *value, unsigned depth)
{
    json_t *object =
        (json_t *)value; /* jansson's iterators take no const; nothing is changed */
    const char *sep = "{";

    for (void *it = json_object_iter(object); it != NULL;
         it = json_object_iter_next(object, it)) {
        if (cf_buf_adds(to, sep) < 0 ||
            cf_json_append_string(to, json_object_iter_key(it), json_object_iter_key_len(it)) <
                0 ||
            cf_buf_add(to, ":", 1) < 0 ||
            append_value(to, json_object_iter_value(it), depth + 1) < 0)
            return -1;
        sep = ",";
    }
    return cf_buf_adds(to, *sep == '{' ? "{}" : "}");
}

static int
append_array(struct cf_buf *to, const json_t *value, unsigned depth)
{
    size_t count = json_array_size(value);

    if (cf_buf_add(to, "[", 1) < 0)
        return -1;
    for (size_t i = 0; i < count; i++)
        if ((i > 0 && cf_buf_add(to, ",", 1) < 0) ||
            append_value(to, json_array_get(value, i), depth + 1) < 0)
            return -1;
    return cf_buf_add(to, "]", 1);
}

/* By hand: this is the hot path of observations, where printf shows. */
static int
append_integer(struct cf_buf *to, json_int_t value)
{
    char digits[24];
    size_t at = sizeof digits;
    uint64_t rest = value < 0 ? 0 - (uint64_t)value : (uint64_t)value;

    do
        digits[--at] = (char)('0' + rest % 10);
    while ((rest /= 10) > 0);
    if (value < 0)
        digits[--at] = '-';
    return cf_buf_add(to, digits + at, sizeof digits - at);
}

static int
append_value(struct cf_buf *to, const json_t *value, unsigned depth)
{
    if (depth > CF_JSON_TREE_DEPTH) {
        to->failed = true;
        return -1;
    }
    switch (json_typeof(value)) {
    case JSON_OBJECT: return append_object(to, value, depth);
    case JSON_ARRAY: return append_array(to, value, depth);
    case JSON_STRING:
        return cf_json_append_string(to, json_string_value(value), json_string_length(value));
    case JSON_INTEGER: return append_integer(to, json_integer_value(value));
    case JSON_REAL: return append_real(to, json_real_value(value));
    case JSON_TRUE: return cf_buf_adds(to, "true");
    case JSON_FALSE: return cf_buf_adds(to, "false");
    case JSON_NULL: break;
    }
    return cf_buf_adds(to, "null");
}

int
cf_json_append(struct cf_buf *to, const json_t *value)
{
    return append_value(to, value, 0);
}

char *
cf_json_dump(const json_t *value, size_t *ret_len)
{
    struct cf_buf text = {0};

    if (cf_json_append(&text, value) < 0) {
        cf_buf_release(&text);
        return NULL;
    }
    return cf_buf_take(&text, ret_len);
}
