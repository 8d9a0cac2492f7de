/*
 * capability/closed.c: checking a closed object against a table of its members.
 *
 * The contract's payloads are small closed objects; a table says the same as their JSON Schema
 * and costs nothing when each frame of a run is checked.
 */
#include "capability/capability.h"

#include "base/str.h"
#include "base/utf8.h"
#include "json/json.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static int check_object(json_t *object, const char *where, const struct cf_closed *members,
                        enum cf_error_kind kind, struct cf_error *err);

/* JSON Schema's integer: 3.0 is one. */
static bool
is_count(const json_t *value, int64_t min, int64_t max)
{
    if (json_is_real(value)) {
        double real = json_real_value(value);
        return real == floor(real) && real >= (double)min && real <= (double)max &&
               real < 0x1p63;
    }
    return json_is_integer(value) && json_integer_value(value) >= min &&
           json_integer_value(value) <= max;
}

static bool
is_word(const json_t *value, const char *const *words)
{
    const char *text = json_string_value(value);

    for (; text != NULL && *words != NULL; words++)
        if (strcmp(*words, text) == 0 && json_string_length(value) == strlen(text))
            return true;
    return false;
}

static bool
is_id(const json_t *value, const char *prefix)
{
    const char *text = json_string_value(value);
    size_t skip = strlen(prefix);

    return text != NULL && json_string_length(value) == skip + 32 &&
           cf_str_starts(text, prefix) && cf_is_hex(text + skip, 32);
}

static void
list_words(const char *const *words, char *out, size_t size)
{
    size_t len = 0;

    out[0] = '\0';
    for (; *words != NULL && len < size; words++)
        len += (size_t)snprintf(out + len, size - len, "%s%s", len > 0 ? ", " : "", *words);
}

static int
check_text(const json_t *value, const char *at, const struct cf_closed *row,
           enum cf_error_kind kind, struct cf_error *err)
{
    if (!json_is_string(value))
        return cf_error_set(err, kind, 0, "%s must be a string", at);
    size_t units = cf_utf16_units(json_string_value(value), json_string_length(value));
    if (units < (size_t)row->min)
        return cf_error_set(err, kind, 0, "%s must not be empty", at);
    if (units > (size_t)row->max)
        return cf_error_set(err, kind, 0, "%s has %zu UTF-16 units, at most %lld are allowed",
                            at, units, (long long)row->max);
    return 0;
}

static int
check_value(json_t *value, const char *at, const struct cf_closed *row,
            enum cf_error_kind kind, struct cf_error *err)
{
    char words[200];

    if (row->is_nullable && json_is_null(value))
        return 0;
    switch (row->kind) {
    case CF_CLOSED_ANY:
        return 0;
    case CF_CLOSED_TEXT:
        return check_text(value, at, row, kind, err);
    case CF_CLOSED_WORD:
        if (is_word(value, row->words))
            return 0;
        list_words(row->words, words, sizeof words);
        return cf_error_set(err, kind, 0, "%s must be one of: %s", at, words);
    case CF_CLOSED_COUNT:
        if (is_count(value, row->min, row->max))
            return 0;
        return cf_error_set(err, kind, 0, "%s must be a whole number from %lld to %lld", at,
                            (long long)row->min, (long long)row->max);
    case CF_CLOSED_BOOL:
        return json_is_boolean(value)
                   ? 0
                   : cf_error_set(err, kind, 0, "%s must be true or false", at);
    case CF_CLOSED_ID:
        if (is_id(value, row->words[0]))
            return 0;
        return cf_error_set(err, kind, 0, "%s must be %s and 32 lower-case hex digits", at,
                            row->words[0]);
    case CF_CLOSED_OBJECT:
        return check_object(value, at, row->members, kind, err);
    }
    return 0;
}

static const struct cf_closed *
row_named(const struct cf_closed *members, const char *name)
{
    for (; members->name != NULL; members++)
        if (strcmp(members->name, name) == 0)
            return members;
    return NULL;
}

static int
check_object(json_t *object, const char *where, const struct cf_closed *members,
             enum cf_error_kind kind, struct cf_error *err)
{
    const char *name;
    json_t *value;
    char at[300];

    if (!json_is_object(object))
        return cf_error_set(err, kind, 0, "%s must be an object", where);
    json_object_foreach(object, name, value) {
        const struct cf_closed *row = row_named(members, name);
        snprintf(at, sizeof at, "%s/%.200s", where, name);
        if (row == NULL)
            return cf_error_set(err, kind, 0, "%s is not a member of the closed form", at);
        if (check_value(value, at, row, kind, err) < 0)
            return -1;
    }
    for (const struct cf_closed *row = members; row->name != NULL; row++)
        if (row->is_required && json_object_get(object, row->name) == NULL)
            return cf_error_set(err, kind, 0, "%s/%s is missing", where, row->name);
    return 0;
}

int
cf_closed_check(json_t *object, const char *where, const struct cf_closed *members,
                enum cf_error_kind kind, struct cf_error *err)
{
    return check_object(object, where, members, kind, err);
}
