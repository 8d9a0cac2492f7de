/*
 * schema/keywords.c: what each member of a schema object means: its shape is checked and its
 * value put into the node's rules.
 *
 * One table row per keyword. A row that fills a field says in which group of rules the field
 * lies and at which offset, so that the eight length keywords, say, share one function.
 */
#include "schema/keywords.h"

#include "base/str.h"

#include <math.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

static struct cf_node *
node_of(struct cf_reading *r)
{
    return &r->a->schema->nodes[r->node];
}

static void
fault(struct cf_reading *r, const char *code, const char *text)
{
    cf_admission_fault(r->a, r->node, r->row->keyword, NULL, code, "%s", text);
}

void
cf_reading_malformed(struct cf_reading *r, const char *expected)
{
    cf_admission_fault(r->a, r->node, r->row->keyword, NULL, "schema_keyword_invalid",
                       "\"%s\" takes %s", r->row->keyword, expected);
}

void *
cf_reading_room(struct cf_reading *r, size_t count, size_t size)
{
    void *memory = calloc(count > 0 ? count : 1, size);

    if (memory == NULL)
        r->a->out_of_memory = true;
    return memory;
}

/* The group itself, made on first use. */
static void *
group_of(struct cf_reading *r)
{
    struct cf_node *node = node_of(r);

    switch (r->row->home) {
    case HOME_NUMBER:
        return node->number != NULL
                   ? node->number
                   : (node->number = cf_reading_room(r, 1, sizeof *node->number));
    case HOME_STRING:
        return node->string != NULL
                   ? node->string
                   : (node->string = cf_reading_room(r, 1, sizeof *node->string));
    case HOME_ARRAY:
        return node->array != NULL
                   ? node->array
                   : (node->array = cf_reading_room(r, 1, sizeof *node->array));
    case HOME_OBJECT:
        return node->object != NULL
                   ? node->object
                   : (node->object = cf_reading_room(r, 1, sizeof *node->object));
    case HOME_COMBINE:
        return node->combine != NULL
                   ? node->combine
                   : (node->combine = cf_reading_room(r, 1, sizeof *node->combine));
    case HOME_NONE: break;
    }
    return NULL;
}

void *
cf_reading_field(struct cf_reading *r)
{
    char *base = group_of(r);
    return base == NULL ? NULL : base + r->row->offset;
}

/* ---- values --------------------------------------------------------------------------- */

static void
on_dialect(struct cf_reading *r)
{
    static const char dialect[] = "https://json-schema.org/draft/2020-12/schema";
    const char *text = json_string_value(r->value);
    size_t len = json_string_length(r->value);

    if (r->node != 0) {
        fault(r, "schema_keyword_unsupported", "$schema belongs at the root only");
        return;
    }
    if (len == sizeof dialect && text[len - 1] == '#')
        len--;
    if (len != sizeof dialect - 1 || memcmp(text, dialect, len) != 0)
        fault(r, "schema_dialect_unsupported",
              "the dialect is https://json-schema.org/draft/2020-12/schema");
}

static void
on_id(struct cf_reading *r)
{
    const char *text = json_string_value(r->value);

    if (r->node != 0)
        fault(r, "schema_keyword_unsupported", "$id belongs at the root only");
    else if (text == NULL || memchr(text, '#', json_string_length(r->value)) != NULL)
        cf_reading_malformed(r, "a string without #");
}

static void
on_ref(struct cf_reading *r)
{
    struct cf_admission *a = r->a;

    if (++a->schema->size.refs > CF_SCHEMA_MAX_REFS) {
        if (a->schema->size.refs == CF_SCHEMA_MAX_REFS + 1)
            cf_admission_fault(a, r->node, r->row->keyword, NULL, "schema_too_many_refs",
                               "more than %u references in the document", CF_SCHEMA_MAX_REFS);
    } else if (!json_is_string(r->value)) {
        cf_reading_malformed(r, "a string");
    } else {
        cf_walk_ref(a, r->node, r->value);
    }
}

static unsigned
type_bit(const json_t *word)
{
    static const struct {
        const char *word;
        unsigned bit;
    } types[] = {{"null", CF_TYPE_NULL},     {"boolean", CF_TYPE_BOOLEAN},
                 {"object", CF_TYPE_OBJECT}, {"array", CF_TYPE_ARRAY},
                 {"number", CF_TYPE_NUMBER}, {"integer", CF_TYPE_INTEGER},
                 {"string", CF_TYPE_STRING}};
    const char *text = json_string_value(word);

    for (size_t i = 0; text != NULL && i < CF_COUNT(types); i++)
        if (strlen(types[i].word) == json_string_length(word) &&
            strcmp(text, types[i].word) == 0)
            return types[i].bit;
    return 0;
}

static void
on_type(struct cf_reading *r)
{
    static const char expected[] =
        "one of null, boolean, object, array, number, integer, string, "
        "or a non-empty list of different ones";
    unsigned types = type_bit(r->value);
    size_t i;
    json_t *word;

    json_array_foreach (r->value, i, word) {
        unsigned bit = type_bit(word);
        if (bit == 0 || (types & bit) != 0) {
            cf_reading_malformed(r, expected);
            return;
        }
        types |= bit;
    }
    if (types == 0)
        cf_reading_malformed(r, expected);
    node_of(r)->types = types;
}

static void
on_enum(struct cf_reading *r)
{
    if (json_is_array(r->value))
        node_of(r)->choices = r->value;
    else
        cf_reading_malformed(r, "a list of values");
}

static void
on_const(struct cf_reading *r)
{
    node_of(r)->constant = r->value;
}

static void
on_length(struct cf_reading *r)
{
    struct cf_bound *bound = cf_reading_field(r);
    double real = json_number_value(r->value);

    if (bound == NULL)
        return;
    if (!json_is_number(r->value) || real < 0 || real != floor(real)) {
        cf_reading_malformed(r, "a whole number that is not negative");
        return;
    }
    bound->is_given = true;
    if (json_is_integer(r->value))
        bound->n = json_integer_value(r->value);
    else
        bound->n = real >= 0x1p63 ? INT64_MAX : (int64_t)real;
}

static void
on_number(struct cf_reading *r)
{
    const json_t **field = cf_reading_field(r);

    if (!json_is_number(r->value))
        cf_reading_malformed(r, "a number");
    else if (field != NULL)
        *field = r->value;
}

static void
on_multiple_of(struct cf_reading *r)
{
    const json_t **field = cf_reading_field(r);

    if (!json_is_number(r->value) || !(json_number_value(r->value) > 0))
        cf_reading_malformed(r, "a number above 0");
    else if (field != NULL)
        *field = r->value;
}

/* A list of strings, each once. Sorted copies make the check cheap for 4,000 names. */
static bool
are_unique_strings(struct cf_reading *r, const json_t *list)
{
    size_t count = json_array_size(list), i;
    struct cf_named_node *names;
    bool ok = json_is_array(list);

    for (i = 0; ok && i < count; i++)
        ok = json_is_string(json_array_get(list, i));
    if (!ok || count < 2)
        return ok;
    names = cf_reading_room(r, count, sizeof *names);
    if (names == NULL)
        return true; /* told as out of memory */
    for (i = 0; i < count; i++)
        names[i] = (struct cf_named_node){.name = json_string_value(json_array_get(list, i)),
                                          .len = json_string_length(json_array_get(list, i))};
    qsort(names, count, sizeof *names, cf_named_compare);
    for (i = 1; ok && i < count; i++)
        ok = cf_named_compare(&names[i - 1], &names[i]) != 0;
    free(names);
    return ok;
}

static void
on_required(struct cf_reading *r)
{
    const json_t **field = cf_reading_field(r);

    if (!are_unique_strings(r, r->value))
        cf_reading_malformed(r, "a list of different strings");
    else if (field != NULL)
        *field = r->value;
}

static void
on_dependent_required(struct cf_reading *r)
{
    const json_t **field = cf_reading_field(r);
    const char *name;
    json_t *list;

    if (!json_is_object(r->value)) {
        cf_reading_malformed(r, "an object of lists of different strings");
        return;
    }
    json_object_foreach (r->value, name, list) {
        if (!are_unique_strings(r, list)) {
            cf_reading_malformed(r, "an object of lists of different strings");
            return;
        }
    }
    if (field != NULL)
        *field = r->value;
}

static void
on_unique(struct cf_reading *r)
{
    bool *field = cf_reading_field(r);

    if (!json_is_boolean(r->value))
        cf_reading_malformed(r, "true or false");
    else if (json_is_true(r->value) && !r->a->schema->is_trusted)
        fault(
            r, "schema_unique_items_unsupported",
            "uniqueItems: true is not supported; its cost grows with the square of the list");
    else if (field != NULL)
        *field = json_is_true(r->value);
}

static void
on_dynamic(struct cf_reading *r)
{
    fault(r, "schema_dynamic_unsupported",
          "dynamic and recursive references are not supported");
}

static void
on_unsupported(struct cf_reading *r)
{
    fault(r, "schema_keyword_unsupported",
          "this keyword is not supported; ignoring it would validate less than it says");
}

/* The contract's own annotation: asserted in its schemas, unknown in an author's. */
static void
on_budget(struct cf_reading *r)
{
    struct cf_json_budget *budget;
    const json_t *v = r->value;

    if (!r->a->schema->is_trusted) {
        cf_admission_warn(r->a, r->node, r->row->keyword);
        return;
    }
    budget = node_of(r)->budget = cf_reading_room(r, 1, sizeof *budget);
    if (budget == NULL)
        return;
    budget->bytes = json_integer_value(json_object_get(v, "maximumBytes"));
    budget->depth = json_integer_value(json_object_get(v, "maximumDepth"));
    budget->nodes = json_integer_value(json_object_get(v, "maximumNodes"));
    budget->work = json_integer_value(json_object_get(v, "maximumInspectionWork"));
    if (json_object_size(v) != 4 || budget->bytes <= 0 || budget->depth <= 0 ||
        budget->nodes <= 0 || budget->work <= 0)
        cf_reading_malformed(
            r, "maximumBytes, maximumDepth, maximumNodes and maximumInspectionWork");
}

/* ---- the table ------------------------------------------------------------------------ */

#define NUMBER(field) HOME_NUMBER, offsetof(struct cf_number_rules, field)
#define STRING(field) HOME_STRING, offsetof(struct cf_string_rules, field)
#define ARRAY(field) HOME_ARRAY, offsetof(struct cf_array_rules, field)
#define OBJECT(field) HOME_OBJECT, offsetof(struct cf_object_rules, field)
#define COMBINE(field) HOME_COMBINE, offsetof(struct cf_combinator_rules, field)
#define NOWHERE HOME_NONE, 0

/* Sorted by strcmp: looked up by halving. */
static const struct cf_keyword_row rows[] = {
    {"$anchor", on_unsupported, NOWHERE},
    {"$comment", NULL, NOWHERE},
    {"$defs", cf_read_definitions, NOWHERE},
    {"$dynamicAnchor", on_dynamic, NOWHERE},
    {"$dynamicRef", on_dynamic, NOWHERE},
    {"$id", on_id, NOWHERE},
    {"$recursiveAnchor", on_dynamic, NOWHERE},
    {"$recursiveRef", on_dynamic, NOWHERE},
    {"$ref", on_ref, NOWHERE},
    {"$schema", on_dialect, NOWHERE},
    {"$vocabulary", on_unsupported, NOWHERE},
    {"additionalItems", on_unsupported, NOWHERE},
    {"additionalProperties", cf_read_subschema, OBJECT(additional)},
    {"allOf", cf_read_branches, COMBINE(all)},
    {"anyOf", cf_read_branches, COMBINE(any)},
    {"const", on_const, NOWHERE},
    {"contains", cf_read_subschema, ARRAY(contains)},
    {"contentEncoding", NULL, NOWHERE},
    {"contentMediaType", NULL, NOWHERE},
    {"contentSchema", NULL, NOWHERE},
    {"default", NULL, NOWHERE},
    {"definitions", on_unsupported, NOWHERE},
    {"dependencies", on_unsupported, NOWHERE},
    {"dependentRequired", on_dependent_required, OBJECT(dependent_required)},
    {"dependentSchemas", cf_read_dependent_schemas, OBJECT(dependent)},
    {"deprecated", NULL, NOWHERE},
    {"description", NULL, NOWHERE},
    {"else", cf_read_branch, COMBINE(otherwise)},
    {"enum", on_enum, NOWHERE},
    {"examples", NULL, NOWHERE},
    {"exclusiveMaximum", on_number, NUMBER(exclusive_maximum)},
    {"exclusiveMinimum", on_number, NUMBER(exclusive_minimum)},
    {"format", NULL, NOWHERE},
    {"if", cf_read_branch, COMBINE(condition)},
    {"items", cf_read_subschema, ARRAY(items)},
    {"maxContains", on_length, ARRAY(max_contains)},
    {"maxItems", on_length, ARRAY(max_items)},
    {"maxLength", on_length, STRING(max_length)},
    {"maxProperties", on_length, OBJECT(max_properties)},
    {"maximum", on_number, NUMBER(maximum)},
    {"minContains", on_length, ARRAY(min_contains)},
    {"minItems", on_length, ARRAY(min_items)},
    {"minLength", on_length, STRING(min_length)},
    {"minProperties", on_length, OBJECT(min_properties)},
    {"minimum", on_number, NUMBER(minimum)},
    {"multipleOf", on_multiple_of, NUMBER(multiple_of)},
    {"not", cf_read_branch, COMBINE(not_this)},
    {"oneOf", cf_read_branches, COMBINE(one)},
    {"pattern", cf_read_pattern, STRING(pattern)},
    {"patternProperties", cf_read_pattern_properties, HOME_OBJECT, 0},
    {"prefixItems", cf_read_prefix, ARRAY(prefix)},
    {"properties", cf_read_properties, OBJECT(properties)},
    {"propertyNames", cf_read_subschema, OBJECT(names)},
    {"readOnly", NULL, NOWHERE},
    {"required", on_required, OBJECT(required)},
    {"then", cf_read_branch, COMBINE(then)},
    {"title", NULL, NOWHERE},
    {"type", on_type, NOWHERE},
    {"unevaluatedItems", on_unsupported, NOWHERE},
    {"unevaluatedProperties", on_unsupported, NOWHERE},
    {"uniqueItems", on_unique, ARRAY(is_unique)},
    {"writeOnly", NULL, NOWHERE},
    {"x-checkfu-json-budget", on_budget, NOWHERE},
};

static int
by_keyword(const void *key, const void *element)
{
    return strcmp(key, ((const struct cf_keyword_row *)element)->keyword);
}

void
cf_walk_keyword(struct cf_admission *a, cf_node_id node, const json_t *object,
                const char *keyword, json_t *value)
{
    const struct cf_keyword_row *row =
        bsearch(keyword, rows, CF_COUNT(rows), sizeof rows[0], by_keyword);
    struct cf_reading r = {.a = a, .node = node, .row = row, .object = object, .value = value};

    if (row == NULL)
        cf_admission_warn(a, node, keyword);
    else if (row->fn != NULL)
        row->fn(&r);
}
