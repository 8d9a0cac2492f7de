/* json/access.c: reading members without surprises, pointers, and equality. */
#include "json/json.h"

#include <math.h>
#include <string.h>

#define SAME_DEPTH 128

const char *
cf_json_str(const json_t *object, const char *name)
{
    return json_string_value(json_object_get(object, name));
}

json_t *
cf_json_obj(const json_t *object, const char *name)
{
    json_t *value = json_object_get(object, name);
    return json_is_object(value) ? value : NULL;
}

json_t *
cf_json_arr(const json_t *object, const char *name)
{
    json_t *value = json_object_get(object, name);
    return json_is_array(value) ? value : NULL;
}

int64_t
cf_json_int(const json_t *object, const char *name, int64_t fallback)
{
    const json_t *value = json_object_get(object, name);
    return json_is_integer(value) ? json_integer_value(value) : fallback;
}

bool
cf_json_bool(const json_t *object, const char *name, bool fallback)
{
    const json_t *value = json_object_get(object, name);
    return json_is_boolean(value) ? json_is_true(value) : fallback;
}

int
cf_json_pointer_push(struct cf_buf *pointer, const char *token)
{
    if (cf_buf_add(pointer, "/", 1) < 0)
        return -1;
    for (const char *c = token; *c != '\0';) {
        size_t plain = strcspn(c, "~/");
        if (cf_buf_add(pointer, c, plain) < 0)
            return -1;
        c += plain;
        if (*c != '\0' && cf_buf_adds(pointer, *c++ == '~' ? "~0" : "~1") < 0)
            return -1;
    }
    return 0;
}

static bool
same_number(const json_t *a, const json_t *b)
{
    if (json_is_integer(a) && json_is_integer(b))
        return json_integer_value(a) == json_integer_value(b);
    if (json_is_real(a) && json_is_real(b))
        return json_real_value(a) == json_real_value(b);
    double real = json_real_value(json_is_real(a) ? a : b);
    json_int_t whole = json_integer_value(json_is_real(a) ? b : a);
    /* Compared as an integer: a large int64 would be rounded on its way to double. */
    return real >= -0x1p63 && real < 0x1p63 && real == floor(real) &&
           (json_int_t)real == whole;
}

static int same_value(const json_t *a, const json_t *b, unsigned depth, uint64_t *work);

static int
same_object(const json_t *a, const json_t *b, unsigned depth, uint64_t *work)
{
    json_t *object = (json_t *)a; /* jansson's iterators take no const; nothing is changed */

    if (json_object_size(a) != json_object_size(b))
        return 0;
    for (void *it = json_object_iter(object); it != NULL;
         it = json_object_iter_next(object, it)) {
        const json_t *other =
            json_object_getn(b, json_object_iter_key(it), json_object_iter_key_len(it));
        int same = same_value(json_object_iter_value(it), other, depth + 1, work);
        if (same != 1)
            return same;
    }
    return 1;
}

static int
same_array(const json_t *a, const json_t *b, unsigned depth, uint64_t *work)
{
    size_t count = json_array_size(a);

    if (count != json_array_size(b))
        return 0;
    for (size_t i = 0; i < count; i++) {
        int same = same_value(json_array_get(a, i), json_array_get(b, i), depth + 1, work);
        if (same != 1)
            return same;
    }
    return 1;
}

static int
same_value(const json_t *a, const json_t *b, unsigned depth, uint64_t *work)
{
    if (*work == 0)
        return -1;
    --*work;
    if (depth > SAME_DEPTH || a == NULL || b == NULL)
        return 0;
    if (json_is_number(a) && json_is_number(b))
        return same_number(a, b);
    if (json_typeof(a) != json_typeof(b))
        return 0;
    switch (json_typeof(a)) {
    case JSON_OBJECT: return same_object(a, b, depth, work);
    case JSON_ARRAY: return same_array(a, b, depth, work);
    case JSON_STRING:
        return json_string_length(a) == json_string_length(b) &&
               memcmp(json_string_value(a), json_string_value(b), json_string_length(a)) == 0;
    default: return 1; /* true, false and null are equal to themselves */
    }
}

int
cf_json_same_within(const json_t *a, const json_t *b, uint64_t *work)
{
    return same_value(a, b, 1, work);
}

bool
cf_json_same(const json_t *a, const json_t *b)
{
    uint64_t unbounded = UINT64_MAX;

    return same_value(a, b, 1, &unbounded) == 1;
}
