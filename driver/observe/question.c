/*
 * observe/question.c: a form elicitation as the `question` action of the contract: one item a
 * property, its choices as options.
 */
#include "observe/normalizer.h"

#include "base/str.h"
#include "json/json.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#define ITEMS_MAX 4u
#define OPTIONS_MAX 32u
#define ITEM_ID_MAX 64u

/* Letters, digits, "_" and "-" of the property's name; its position makes it unique. */
static void
item_id(const char *property, size_t at, char out[ITEM_ID_MAX + 1])
{
    size_t len = (size_t)snprintf(out, ITEM_ID_MAX + 1, "%zu-", at + 1);

    for (; *property != '\0' && len < ITEM_ID_MAX; property++)
        out[len++] = isalnum((unsigned char)*property) || *property == '-' ? *property : '_';
    out[len] = '\0';
}

static json_t *
bounded_text(struct cf_normalizer *n, const char *text, const char *what)
{
    cf_auto_free char *cut = obs_shorten(n, text, strlen(text), QUESTION_UNITS_MAX, 0, what);

    return cut == NULL ? NULL : json_string(cut);
}

static bool
add_option(struct cf_normalizer *n, json_t *options, const char *label,
           const char *description)
{
    json_t *option = label == NULL || *label == '\0' ? NULL : json_object();

    if (option == NULL || json_array_size(options) >= OPTIONS_MAX ||
        strlen(label) > QUESTION_UNITS_MAX) { /* a cut label would be another value */
        json_decref(option);
        return false;
    }
    (void)json_object_set_new(option, "label", json_string(label));
    if (description != NULL && *description != '\0')
        (void)json_object_set_new(option, "description",
                                  bounded_text(n, description, "an option's description"));
    return json_array_append_new(options, option) == 0;
}

/* The choices of a property: enum, or titled constants; a boolean has two, free text none. */
static bool
add_options(struct cf_normalizer *n, json_t *options, json_t *property)
{
    json_t *titled = cf_json_arr(property, "oneOf"), *item;
    size_t i;

    if (titled == NULL)
        titled = cf_json_arr(property, "anyOf");
    json_array_foreach(cf_json_arr(property, "enum"), i, item)
        if (!add_option(n, options, json_string_value(item), NULL))
            return false;
    json_array_foreach(titled, i, item)
        if (!add_option(n, options, cf_json_str(item, "const"), cf_json_str(item, "title")))
            return false;
    if (cf_str_same(cf_json_str(property, "type"), "boolean"))
        return add_option(n, options, "true", NULL) && add_option(n, options, "false", NULL);
    return true;
}

static json_t *
item_of(struct cf_normalizer *n, const char *name, size_t at, json_t *property,
        const char *message)
{
    bool is_multiple = cf_str_same(cf_json_str(property, "type"), "array");
    const char *prompt = cf_json_str(property, "description");
    json_t *options = json_array();
    char id[ITEM_ID_MAX + 1];

    item_id(name, at, id);
    if (prompt == NULL || *prompt == '\0')
        prompt = cf_json_str(property, "title");
    if (prompt == NULL || *prompt == '\0')
        prompt = *message != '\0' ? message : name;
    if (!add_options(n, options, is_multiple ? cf_json_obj(property, "items") : property)) {
        json_decref(options);
        return NULL;
    }
    json_t *item = json_pack("{s:s,s:o,s:o,s:b}", "id", id, "prompt",
                             bounded_text(n, *prompt != '\0' ? prompt : "?", "a question"),
                             "options", options, "allow_multiple", is_multiple);
    if (item != NULL && *message != '\0' && prompt != message)
        (void)json_object_set_new(item, "header",
                                  bounded_text(n, message, "a question's header"));
    return item;
}

json_t *
cf_normalizer_question(struct cf_normalizer *n, json_t *params)
{
    json_t *properties = cf_json_obj(cf_json_obj(params, "requestedSchema"), "properties"),
           *property;
    const char *message = cf_json_str(params, "message"), *name;
    size_t count = json_object_size(properties), at = 0;
    char id[MINTED_SIZE];

    if (!cf_str_same(cf_json_str(params, "mode"), "form") || count < 1 || count > ITEMS_MAX)
        return NULL;
    json_t *items = json_array();
    json_object_foreach(properties, name, property) {
        json_t *item = item_of(n, name, at++, property, message ? message : "");
        if (item == NULL || json_array_append_new(items, item) < 0) {
            json_decref(items);
            return NULL;
        }
    }
    obs_mint(n, "qst_", id);
    return json_pack("{s:s,s:s,s:o}", "kind", "question", "question", id, "items", items);
}
