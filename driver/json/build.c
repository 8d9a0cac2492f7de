/*
 * A tree from text that is known to be JSON. Where a wire brings two hundred thousand lines
 * this is most of the time that is spent on them, and most of that went into reading strings
 * by the letter.
 */
#include "json/build.h"

#include "base/buf.h"
#include "base/str.h"
#include "base/utf8.h"
#include "json/plain.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define SAFE_DIGITS 18 /* so many always fit in 64 bits */

struct build {
    const char *at, *end;
    struct cf_buf text; /* a string with escapes, while it is put together */
    bool no_duplicates;
};

static json_t *value_of(struct build *b);

static void
skip_space(struct build *b)
{
    while (b->at < b->end &&
           (*b->at == ' ' || *b->at == '\t' || *b->at == '\n' || *b->at == '\r'))
        b->at++;
}

/* ---- strings --------------------------------------------------------------------------- */

static uint32_t
hex4(const char *at)
{
    uint32_t value = 0;

    for (int i = 0; i < 4; i++) {
        char c = at[i];
        value = value << 4 | (uint32_t)(c <= '9' ? c - '0' : (c | 0x20) - 'a' + 10);
    }
    return value;
}

/* At the backslash. A surrogate is one of a pair: the scanner saw to it. */
static int
unescape(struct build *b)
{
    static const char from[] = "\"\\/bfnrt", to[] = "\"\\/\b\f\n\r\t";
    char c = b->at[1], bytes[4];
    uint32_t code;

    if (c != 'u') {
        b->at += 2;
        return cf_buf_add(&b->text, &to[strchr(from, c) - from], 1);
    }
    code = hex4(b->at + 2);
    b->at += 6;
    if (code >= 0xd800 && code <= 0xdbff) {
        code = 0x10000 + ((code - 0xd800) << 10) + (hex4(b->at + 2) - 0xdc00);
        b->at += 6;
    }
    return cf_buf_add(&b->text, bytes, cf_utf8_put(code, bytes));
}

/* Behind the opening quote. The string is a part of the text when it has no escapes, else it
 * is put together in b->text; either way it is good until the next string. */
static int
read_string(struct build *b, const char **ret_text, size_t *ret_len)
{
    const char *quote = b->at + cf_plain_prefix(b->at, (size_t)(b->end - b->at), false), *escape;

    *ret_text = b->at;
    if (*quote == '"') {
        *ret_len = (size_t)(quote - b->at);
        b->at = quote + 1;
        return 0;
    }
    quote = memchr(quote, '"', (size_t)(b->end - quote));
    cf_buf_reset(&b->text);
    for (;;) {
        escape = memchr(b->at, '\\', (size_t)(quote - b->at));
        if (cf_buf_add(&b->text, b->at, (size_t)((escape != NULL ? escape : quote) - b->at)) <
            0)
            return -1;
        if (escape == NULL)
            break;
        b->at = escape;
        if (unescape(b) < 0)
            return -1;
        if (b->at > quote) /* it was an escaped one */
            quote = memchr(b->at, '"', (size_t)(b->end - b->at));
    }
    b->at = quote + 1;
    *ret_text = b->text.data != NULL ? b->text.data : "";
    *ret_len = b->text.len;
    return 0;
}

static json_t *
string_of(struct build *b)
{
    const char *text;
    size_t len;

    b->at++;
    return read_string(b, &text, &len) == 0 ? json_stringn_nocheck(text, len) : NULL;
}

/* ---- numbers --------------------------------------------------------------------------- */

static bool
is_part_of_number(char c)
{
    return (c >= '0' && c <= '9') || c == '-' || c == '+' || c == '.' || c == 'e' || c == 'E';
}

static json_t *
number_of(struct build *b)
{
    const char *first = b->at, *digits = first + (*first == '-'), *at = digits;
    json_int_t value = 0;

    while (at < b->end && *at >= '0' && *at <= '9' && at - digits < SAFE_DIGITS)
        value = value * 10 + (*at++ - '0');
    if (at == b->end || !is_part_of_number(*at)) {
        b->at = at;
        return json_integer(*first == '-' ? -value : value);
    }
    while (at < b->end && is_part_of_number(*at))
        at++;
    b->at = at;
    return json_loadb(first, (size_t)(at - first), JSON_DECODE_ANY, NULL);
}

/* ---- containers ------------------------------------------------------------------------ */

/* Behind a member or an item: true when another one follows. */
static bool
has_next(struct build *b, char close)
{
    skip_space(b);
    return *b->at++ != close;
}

static int
add_member(struct build *b, json_t *object)
{
    const char *name;
    char kept[128];
    cf_auto_free char *long_name = NULL;
    json_t *value;
    size_t len;

    skip_space(b);
    b->at++;
    if (read_string(b, &name, &len) < 0)
        return -1;
    if (name == b->text.data) { /* the value's strings would write over it */
        if (len >= sizeof kept && (long_name = malloc(len + 1)) == NULL)
            return -1;
        name = memcpy(long_name != NULL ? long_name : kept, name, len);
    }
    if (b->no_duplicates && json_object_getn(object, name, len) != NULL)
        return -1;
    skip_space(b);
    b->at++; /* the colon */
    value = value_of(b);
    return value != NULL ? json_object_setn_new_nocheck(object, name, len, value) : -1;
}

static json_t *
object_of(struct build *b)
{
    json_t *object = json_object();

    b->at++;
    skip_space(b);
    if (*b->at == '}') {
        b->at++;
        return object;
    }
    do {
        if (object == NULL || add_member(b, object) < 0) {
            json_decref(object);
            return NULL;
        }
    } while (has_next(b, '}'));
    return object;
}

static json_t *
array_of(struct build *b)
{
    json_t *array = json_array();

    b->at++;
    skip_space(b);
    if (*b->at == ']') {
        b->at++;
        return array;
    }
    do {
        json_t *value = array != NULL ? value_of(b) : NULL;
        if (value == NULL || json_array_append_new(array, value) < 0) {
            json_decref(array);
            return NULL;
        }
    } while (has_next(b, ']'));
    return array;
}

static json_t *
word(struct build *b, size_t len, json_t *value)
{
    b->at += len;
    return value;
}

static json_t *
value_of(struct build *b)
{
    skip_space(b);
    switch (*b->at) {
    case '{':
        return object_of(b);
    case '[':
        return array_of(b);
    case '"':
        return string_of(b);
    case 't':
        return word(b, 4, json_true());
    case 'f':
        return word(b, 5, json_false());
    case 'n':
        return word(b, 4, json_null());
    default:
        return number_of(b);
    }
}

json_t *
cf_json_build(const char *bytes, size_t len, bool no_duplicates)
{
    struct build b = {.at = bytes, .end = bytes + len, .no_duplicates = no_duplicates};
    json_t *value;

    value = value_of(&b);
    cf_buf_release(&b.text);
    return value;
}
