/* Does a JSON value have the shape that an output schema asks for? */
#include "shape.h"

#include "base/buf.h"
#include "base/utf8.h"

#include <string.h>

enum { DEPTH_LIMIT = 64 };

struct walk {
    struct cf_buf pointer;
    struct cf_error *err;
    int depth;
};

static int check(struct walk *walk, json_t *schema, json_t *value);

static int
fails(struct walk *walk, const char *keyword)
{
    return cf_error_set(walk->err, CF_ERROR_HARNESS, 0, "at \"%s\": %s",
                        walk->pointer.len > 0 ? walk->pointer.data : "", keyword);
}

static bool
is_type(json_t *value, const char *type)
{
    if (type == NULL)
        return false;
    switch (json_typeof(value)) {
    case JSON_OBJECT: return strcmp(type, "object") == 0;
    case JSON_ARRAY: return strcmp(type, "array") == 0;
    case JSON_STRING: return strcmp(type, "string") == 0;
    case JSON_TRUE:
    case JSON_FALSE: return strcmp(type, "boolean") == 0;
    case JSON_NULL: return strcmp(type, "null") == 0;
    case JSON_INTEGER: return strcmp(type, "integer") == 0 || strcmp(type, "number") == 0;
    case JSON_REAL:
        return strcmp(type, "number") == 0 ||
               (strcmp(type, "integer") == 0 &&
                json_real_value(value) == (double)(long long)json_real_value(value));
    }
    return false;
}

static bool
is_any_type(json_t *value, json_t *types)
{
    json_t *type;
    size_t i;

    if (json_is_string(types))
        return is_type(value, json_string_value(types));
    json_array_foreach (types, i, type)
        if (is_type(value, json_string_value(type)))
            return true;
    return !json_is_array(types);
}

static bool
is_listed(json_t *value, json_t *list)
{
    json_t *item;
    size_t i;

    json_array_foreach (list, i, item)
        if (json_equal(item, value))
            return true;
    return !json_is_array(list);
}

/* Whether `have` lies between the two named bounds, where the schema gives them. */
static bool
is_between(json_t *schema, const char *least, const char *most, double have)
{
    json_t *low = json_object_get(schema, least), *high = json_object_get(schema, most);

    return (!json_is_number(low) || have >= json_number_value(low)) &&
           (!json_is_number(high) || have <= json_number_value(high));
}

static int
below(struct walk *walk, json_t *schema, json_t *value, const char *step)
{
    size_t before = walk->pointer.len;
    int status;

    cf_buf_addf(&walk->pointer, "/%s", step);
    status = check(walk, schema, value);
    walk->pointer.len = before;
    if (walk->pointer.data != NULL)
        walk->pointer.data[before] = '\0';
    return status;
}

static int
check_object(struct walk *walk, json_t *schema, json_t *value)
{
    json_t *properties = json_object_get(schema, "properties");
    json_t *more = json_object_get(schema, "additionalProperties");
    json_t *name, *member;
    const char *key;
    size_t i;

    json_array_foreach (json_object_get(schema, "required"), i, name)
        if (json_object_get(value, json_string_value(name)) == NULL)
            return fails(walk, "required");
    json_object_foreach (value, key, member) {
        json_t *rule = json_object_get(properties, key);

        if (rule == NULL && json_is_false(more))
            return fails(walk, "additionalProperties");
        if (rule == NULL)
            rule = more;
        if (rule != NULL && below(walk, rule, member, key) < 0)
            return -1;
    }
    return 0;
}

static int
check_array(struct walk *walk, json_t *schema, json_t *value)
{
    json_t *items = json_object_get(schema, "items"), *item;
    char step[24];
    size_t i;

    if (!is_between(schema, "minItems", "maxItems", (double)json_array_size(value)))
        return fails(walk, "minItems/maxItems");
    json_array_foreach (value, i, item) {
        snprintf(step, sizeof step, "%zu", i);
        if (items != NULL && below(walk, items, item, step) < 0)
            return -1;
    }
    return 0;
}

static size_t
characters(json_t *value)
{
    const char *text = json_string_value(value);
    size_t len = json_string_length(value), count = 0;
    uint32_t code;
    int n;

    while (len > 0 && (n = cf_utf8_next(text, len, &code)) > 0) {
        text += n;
        len -= (size_t)n;
        count++;
    }
    return count;
}

static int
check(struct walk *walk, json_t *schema, json_t *value)
{
    json_t *constant = json_object_get(schema, "const");
    int status = 0;

    if (json_is_false(schema))
        return fails(walk, "false");
    if (!json_is_object(schema))
        return 0;
    if (++walk->depth > DEPTH_LIMIT)
        return fails(walk, "is nested too deep to be judged");
    if (!is_any_type(value, json_object_get(schema, "type")))
        status = fails(walk, "type");
    else if (!is_listed(value, json_object_get(schema, "enum")))
        status = fails(walk, "enum");
    else if (constant != NULL && !json_equal(constant, value))
        status = fails(walk, "const");
    else if (json_is_string(value) &&
             !is_between(schema, "minLength", "maxLength", (double)characters(value)))
        status = fails(walk, "minLength/maxLength");
    else if (json_is_number(value) &&
             !is_between(schema, "minimum", "maximum", json_number_value(value)))
        status = fails(walk, "minimum/maximum");
    else if (json_is_object(value))
        status = check_object(walk, schema, value);
    else if (json_is_array(value))
        status = check_array(walk, schema, value);
    walk->depth--;
    return status;
}

int
hn_shape_check(json_t *schema, json_t *value, struct cf_error *err)
{
    struct walk walk = { .err = err };
    int status = check(&walk, schema, value);

    cf_buf_release(&walk.pointer);
    return status;
}
