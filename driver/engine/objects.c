/* Finds where each object ends by counting brackets outside strings; jansson then reads it. */
#include "engine/objects.h"
#include "json/json.h"

#include <string.h>

static const struct cf_json_limits object_limits = {
    .bytes = CF_OBJECT_LIMIT_BYTES, .depth = 64, .nodes = 100000};

void
cf_objects_init(struct cf_objects *objects)
{
    *objects = (struct cf_objects){0};
    cf_buf_init(&objects->text, CF_OBJECT_LIMIT_BYTES);
}

void
cf_objects_release(struct cf_objects *objects)
{
    cf_buf_release(&objects->text);
}

/* Moves over one byte inside an object; true when it was the object's last. */
static bool
step(struct cf_objects *objects, char c)
{
    if (objects->in_string) {
        if (objects->escaped)
            objects->escaped = false;
        else if (c == '\\')
            objects->escaped = true;
        else if (c == '"')
            objects->in_string = false;
        return false;
    }
    if (c == '"')
        objects->in_string = true;
    else if (c == '{' || c == '[')
        objects->depth++;
    else if (c == '}' || c == ']')
        objects->depth--;
    return objects->depth == 0;
}

static int
emit(struct cf_objects *objects, int (*on_object)(void *, json_t *), void *user,
     struct cf_error *err)
{
    json_t *object = cf_json_parse(objects->text.data, objects->text.len, &object_limits, err);

    cf_buf_reset(&objects->text);
    if (object == NULL) {
        if (err != NULL)
            err->kind = CF_ERROR_ENGINE;
        return cf_error_wrap(err, "engine's progress stream");
    }
    int rc = on_object(user, object);
    json_decref(object);
    return rc;
}

static int
collect(struct cf_objects *objects, const char *bytes, size_t len, struct cf_error *err)
{
    if (cf_buf_add(&objects->text, bytes, len) == 0)
        return 0;
    return cf_error_set(err, CF_ERROR_ENGINE, 0,
                        "engine's progress stream: an object is larger than %u bytes",
                        CF_OBJECT_LIMIT_BYTES);
}

static bool
is_space(char c)
{
    return c == ' ' || c == '\t' || c == '\r' || c == '\n' || c == 0x1e;
}

int
cf_objects_feed(struct cf_objects *objects, const char *bytes, size_t len,
                int (*on_object)(void *, json_t *), void *user, struct cf_error *err)
{
    size_t at = 0;

    while (at < len) {
        if (objects->depth == 0) {
            if (is_space(bytes[at])) {
                at++;
                continue;
            }
            if (bytes[at] != '{')
                return cf_error_set(err, CF_ERROR_ENGINE, 0,
                                    "engine's progress stream: unexpected \"%.*s\"",
                                    (int)(len - at < 40 ? len - at : 40), bytes + at);
        }
        size_t begin = at;
        bool whole = false;
        while (at < len && !whole)
            whole = step(objects, bytes[at++]);
        if (collect(objects, bytes + begin, at - begin, err) < 0)
            return -1;
        if (whole) {
            int rc = emit(objects, on_object, user, err);
            if (rc < 0)
                return rc;
        }
    }
    return 0;
}

bool
cf_objects_is_between(const struct cf_objects *objects)
{
    return objects->depth == 0;
}

const char *
cf_objects_error(const json_t *object)
{
    const char *text = cf_json_str(cf_json_obj(object, "errorDetail"), "message");

    if (text == NULL || text[0] == '\0')
        text = cf_json_str(object, "error");
    if (text == NULL && cf_json_obj(object, "errorDetail") != NULL)
        text = "an error without a message";
    return text;
}
