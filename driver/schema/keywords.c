/*
 * schema/keywords.c: what each member of a schema object means: its shape is checked and its
 * value put into the node's rules.
 *
 * One table row per keyword. A row that fills a field says in which group of rules the field
 * lies and at which offset, so that the eight length keywords, say, share one function.
 */
#include "schema/compiled.h"

#include "base/str.h"

#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum home { HOME_NONE, HOME_NUMBER, HOME_STRING, HOME_ARRAY, HOME_OBJECT, HOME_COMBINE };

/* One keyword of one schema being read. */
struct reading {
    struct cf_admission *a;
    cf_node_id node;
    const struct row *row;
    const json_t *object; /* the schema that has the keyword */
    json_t *value;
};

typedef void row_fn(struct reading *r);

struct row {
    const char *keyword;
    row_fn *fn; /* NULL: an annotation, any value */
    enum home home;
    size_t offset;
};

static struct cf_node *
node_of(struct reading *r)
{
    return &r->a->schema->nodes[r->node];
}

static void
fault(struct reading *r, const char *code, const char *text)
{
    cf_admission_fault(r->a, r->node, r->row->keyword, NULL, code, "%s", text);
}

static void
malformed(struct reading *r, const char *expected)
{
    cf_admission_fault(r->a, r->node, r->row->keyword, NULL, "schema_keyword_invalid",
                       "\"%s\" takes %s", r->row->keyword, expected);
}

/* Zeroed memory that lives as long as the schema; NULL notes that memory ran out. */
static void *
room_for(struct reading *r, size_t count, size_t size)
{
    void *memory = calloc(count > 0 ? count : 1, size);

    if (memory == NULL)
        r->a->out_of_memory = true;
    return memory;
}

static void *
group(struct reading *r, void **slot, size_t size)
{
    if (*slot == NULL)
        *slot = room_for(r, 1, size);
    return *slot;
}

/* The field that the row names, its group made on first use. NULL when out of memory. */
static void *
field_of(struct reading *r)
{
    struct cf_node *node = node_of(r);
    void *base = NULL;

    switch (r->row->home) {
    case HOME_NUMBER: base = group(r, (void **)&node->number, sizeof *node->number); break;
    case HOME_STRING: base = group(r, (void **)&node->string, sizeof *node->string); break;
    case HOME_ARRAY: base = group(r, (void **)&node->array, sizeof *node->array); break;
    case HOME_OBJECT: base = group(r, (void **)&node->object, sizeof *node->object); break;
    case HOME_COMBINE: base = group(r, (void **)&node->combine, sizeof *node->combine); break;
    case HOME_NONE: break;
    }
    return base == NULL ? NULL : (char *)base + r->row->offset;
}

/* ---- subschemas ----------------------------------------------------------------------- */

static struct cf_node_place
place_of(struct reading *r, const json_t *holder)
{
    return (struct cf_node_place){.parent = r->node, .keyword = r->row->keyword, .holder = holder};
}

/* Walks a subschema and ties it to its holder. */
static cf_node_id
walk_child(struct reading *r, const struct cf_node_place *place, const json_t *value)
{
    cf_node_id child = cf_walk_schema(r->a, place, value);

    if (child != 0)
        (void)cf_walk_edge(r->a, r->node, child, r->row->keyword);
    return child;
}

static void
too_many_branches(struct reading *r, const struct cf_node_place *place, const char *what, unsigned limit)
{
    char index[16];
    const char *token = place->name;

    if (place->has_index) {
        snprintf(index, sizeof index, "%u", place->index);
        token = index;
    }
    cf_admission_fault(r->a, place->parent, place->keyword, token, "schema_too_many_combinators",
                       "%s %u", what, limit);
}

/* A subschema that counts as a combinator's branch. */
static cf_node_id
walk_branch(struct reading *r, const struct cf_node_place *place, const json_t *value)
{
    struct cf_admission *a = r->a;
    struct cf_schema_size *size = &a->schema->size;
    cf_node_id child = 0;

    if (++size->branches > CF_SCHEMA_MAX_BRANCHES && !a->told_branches) {
        a->told_branches = true;
        too_many_branches(r, place, "combinator branches in the document; the limit is",
                          CF_SCHEMA_MAX_BRANCHES);
    }
    if (++a->combinator_depth > size->combinator_depth)
        size->combinator_depth = a->combinator_depth;
    if (a->combinator_depth <= CF_SCHEMA_MAX_COMBINATOR_DEPTH) {
        child = walk_child(r, place, value);
    } else if (!a->told_depth) {
        a->told_depth = true;
        too_many_branches(r, place, "combinators inside combinators; the limit is",
                          CF_SCHEMA_MAX_COMBINATOR_DEPTH);
    }
    a->combinator_depth--;
    return child;
}

static void
on_subschema(struct reading *r)
{
    struct cf_node_place place = place_of(r, r->object);
    cf_node_id *field = field_of(r);

    if (field != NULL)
        *field = walk_child(r, &place, r->value);
}

static void
on_branch(struct reading *r)
{
    struct cf_node_place place = place_of(r, r->object);
    cf_node_id *field = field_of(r);

    if (field != NULL)
        *field = walk_branch(r, &place, r->value);
}

static void
walk_list(struct reading *r, cf_node_id (*walk_one)(struct reading *, const struct cf_node_place *,
                                                    const json_t *))
{
    struct cf_node_list *list = field_of(r);
    size_t count = json_array_size(r->value);

    if (list == NULL || (list->nodes = room_for(r, count, sizeof *list->nodes)) == NULL)
        return;
    for (size_t i = 0; i < count && !cf_report_is_full(r->a->report) && !r->a->out_of_memory; i++) {
        struct cf_node_place place = place_of(r, r->value);
        place.has_index = true;
        place.index = (uint32_t)i;
        list->nodes[i] = walk_one(r, &place, json_array_get(r->value, i));
        list->count++;
    }
}

static void
on_prefix(struct reading *r)
{
    if (json_array_size(r->value) == 0)
        malformed(r, "a non-empty list of schemas");
    else
        walk_list(r, walk_child);
}

static void
on_branches(struct reading *r)
{
    size_t count = json_array_size(r->value);

    if (count == 0) {
        malformed(r, "a non-empty list of schemas");
        return;
    }
    if (count > CF_SCHEMA_MAX_BRANCHES_IN_ONE)
        cf_admission_fault(r->a, r->node, r->row->keyword, NULL, "schema_too_many_combinators",
                           "%zu branches in one combinator; the limit is %u", count,
                           CF_SCHEMA_MAX_BRANCHES_IN_ONE);
    walk_list(r, walk_branch);
}

static int
by_name(const void *left, const void *right)
{
    const struct cf_named_node *a = left, *b = right;
    return cf_named_order(a->name, a->len, b->name, b->len);
}

static void
walk_map(struct reading *r, struct cf_named_nodes *map,
         cf_node_id (*walk_one)(struct reading *, const struct cf_node_place *, const json_t *))
{
    const char *name;
    json_t *member;

    map->list = room_for(r, json_object_size(r->value), sizeof *map->list);
    if (map->list == NULL)
        return;
    json_object_foreach(r->value, name, member) {
        struct cf_node_place place = place_of(r, r->value);
        if (cf_report_is_full(r->a->report) || r->a->out_of_memory)
            return;
        place.name = name;
        map->list[map->count++] =
            (struct cf_named_node){name, strlen(name), walk_one(r, &place, member)};
    }
    qsort(map->list, map->count, sizeof *map->list, by_name);
}

static bool
is_map(struct reading *r)
{
    if (json_is_object(r->value))
        return true;
    malformed(r, "an object of schemas");
    return false;
}

static void
on_properties(struct reading *r)
{
    struct cf_named_nodes *map = field_of(r);

    if (map != NULL && is_map(r))
        walk_map(r, map, walk_child);
}

static void
on_dependent_schemas(struct reading *r)
{
    struct cf_named_nodes *map = field_of(r);

    if (map != NULL && is_map(r))
        walk_map(r, map, walk_branch);
}

/* Definitions are walked like any schema, but nothing evaluates them except through $ref. */
static cf_node_id
walk_definition(struct reading *r, const struct cf_node_place *place, const json_t *value)
{
    return cf_walk_schema(r->a, place, value);
}

static void
on_definitions(struct reading *r)
{
    struct cf_named_nodes unused = {0};

    if (is_map(r))
        walk_map(r, &unused, walk_definition);
    free(unused.list);
}

/* ---- patterns ------------------------------------------------------------------------- */

static const char *
pattern_advice(const struct cf_pattern_refusal *why, const char *text, size_t len)
{
    const char *hint = cf_trusted_pattern_hint(text, len);

    if (hint != NULL)
        return hint;
    if (strcmp(why->code, "schema_pattern_unbounded") == 0)
        return "give an upper bound, such as {1,64}";
    if (strcmp(why->code, "schema_pattern_group") == 0)
        return "write alternatives as whole branches a|b, or split the value";
    if (strcmp(why->code, "schema_pattern_ambiguous") == 0)
        return "separate the two by a character that neither takes, or fix a width";
    return "see the admitted pattern subset";
}

/* Compiles `text`; false when it was refused (told at keyword and token). */
static bool
compile_test(struct reading *r, const char *text, size_t len, const char *token,
             struct cf_text_test *ret_test)
{
    struct cf_admission *a = r->a;
    struct cf_pattern_refusal why;

    if (cf_pattern_compile(text, len, &ret_test->pattern, &why) == 0) {
        a->schema->size.patterns++;
        return true;
    }
    if (why.code == NULL) {
        a->out_of_memory = true;
        return false;
    }
    if (a->schema->is_trusted && (ret_test->trusted = cf_trusted_pattern(text, len)) != NULL) {
        a->schema->size.trusted_patterns++;
        return true;
    }
    cf_admission_fault(a, r->node, r->row->keyword, token, why.code, "%s, at character %zu; %s",
                       why.what, why.at, pattern_advice(&why, text, len));
    return false;
}

static void
on_pattern(struct reading *r)
{
    struct cf_text_test *test = field_of(r);

    if (!json_is_string(r->value))
        malformed(r, "a string");
    else if (test != NULL)
        (void)compile_test(r, json_string_value(r->value), json_string_length(r->value), NULL, test);
}

static void
on_pattern_properties(struct reading *r)
{
    struct cf_object_rules *rules = field_of(r);
    const char *name;
    json_t *member;

    if (!is_map(r) || rules == NULL)
        return;
    rules->patterns = room_for(r, json_object_size(r->value), sizeof *rules->patterns);
    if (rules->patterns == NULL)
        return;
    json_object_foreach(r->value, name, member) {
        struct cf_node_place place = place_of(r, r->value);
        struct cf_pattern_node *pattern = &rules->patterns[rules->pattern_count];
        if (cf_report_is_full(r->a->report) || r->a->out_of_memory)
            return;
        if (!compile_test(r, name, strlen(name), name, &pattern->test))
            continue;
        rules->pattern_count++;
        pattern->name = place.name = name;
        pattern->node = walk_child(r, &place, member);
    }
}

/* ---- values --------------------------------------------------------------------------- */

static void
on_dialect(struct reading *r)
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
        fault(r, "schema_dialect_unsupported", "the dialect is https://json-schema.org/draft/2020-12/schema");
}

static void
on_id(struct reading *r)
{
    const char *text = json_string_value(r->value);

    if (r->node != 0)
        fault(r, "schema_keyword_unsupported", "$id belongs at the root only");
    else if (text == NULL || memchr(text, '#', json_string_length(r->value)) != NULL)
        malformed(r, "a string without #");
}

static void
on_ref(struct reading *r)
{
    struct cf_admission *a = r->a;

    if (++a->schema->size.refs > CF_SCHEMA_MAX_REFS) {
        if (a->schema->size.refs == CF_SCHEMA_MAX_REFS + 1)
            cf_admission_fault(a, r->node, r->row->keyword, NULL, "schema_too_many_refs",
                               "more than %u references in the document", CF_SCHEMA_MAX_REFS);
    } else if (!json_is_string(r->value)) {
        malformed(r, "a string");
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
    } types[] = {{"null", CF_TYPE_NULL},       {"boolean", CF_TYPE_BOOLEAN}, {"object", CF_TYPE_OBJECT},
                 {"array", CF_TYPE_ARRAY},     {"number", CF_TYPE_NUMBER},   {"integer", CF_TYPE_INTEGER},
                 {"string", CF_TYPE_STRING}};
    const char *text = json_string_value(word);

    for (size_t i = 0; text != NULL && i < CF_COUNT(types); i++)
        if (strlen(types[i].word) == json_string_length(word) && strcmp(text, types[i].word) == 0)
            return types[i].bit;
    return 0;
}

static void
on_type(struct reading *r)
{
    static const char expected[] = "one of null, boolean, object, array, number, integer, string, "
                                   "or a non-empty list of different ones";
    unsigned types = type_bit(r->value);
    size_t i;
    json_t *word;

    json_array_foreach(r->value, i, word) {
        unsigned bit = type_bit(word);
        if (bit == 0 || (types & bit) != 0) {
            malformed(r, expected);
            return;
        }
        types |= bit;
    }
    if (types == 0)
        malformed(r, expected);
    node_of(r)->types = types;
}

static void
on_enum(struct reading *r)
{
    if (json_is_array(r->value))
        node_of(r)->choices = r->value;
    else
        malformed(r, "a list of values");
}

static void
on_const(struct reading *r)
{
    node_of(r)->constant = r->value;
}

static void
on_length(struct reading *r)
{
    struct cf_bound *bound = field_of(r);
    double real = json_number_value(r->value);

    if (bound == NULL)
        return;
    if (!json_is_number(r->value) || real < 0 || real != floor(real)) {
        malformed(r, "a whole number that is not negative");
        return;
    }
    bound->is_given = true;
    if (json_is_integer(r->value))
        bound->n = json_integer_value(r->value);
    else
        bound->n = real >= 0x1p63 ? INT64_MAX : (int64_t)real;
}

static void
on_number(struct reading *r)
{
    const json_t **field = field_of(r);

    if (!json_is_number(r->value))
        malformed(r, "a number");
    else if (field != NULL)
        *field = r->value;
}

static void
on_multiple_of(struct reading *r)
{
    const json_t **field = field_of(r);

    if (!json_is_number(r->value) || !(json_number_value(r->value) > 0))
        malformed(r, "a number above 0");
    else if (field != NULL)
        *field = r->value;
}

/* A list of strings, each once. Sorted copies make the check cheap for 4,000 names. */
static bool
are_unique_strings(struct reading *r, const json_t *list)
{
    size_t count = json_array_size(list), i;
    struct cf_named_node *names;
    bool ok = json_is_array(list);

    for (i = 0; ok && i < count; i++)
        ok = json_is_string(json_array_get(list, i));
    if (!ok || count < 2)
        return ok;
    names = room_for(r, count, sizeof *names);
    if (names == NULL)
        return true; /* told as out of memory */
    for (i = 0; i < count; i++)
        names[i] = (struct cf_named_node){.name = json_string_value(json_array_get(list, i)),
                                          .len = json_string_length(json_array_get(list, i))};
    qsort(names, count, sizeof *names, by_name);
    for (i = 1; ok && i < count; i++)
        ok = by_name(&names[i - 1], &names[i]) != 0;
    free(names);
    return ok;
}

static void
on_required(struct reading *r)
{
    const json_t **field = field_of(r);

    if (!are_unique_strings(r, r->value))
        malformed(r, "a list of different strings");
    else if (field != NULL)
        *field = r->value;
}

static void
on_dependent_required(struct reading *r)
{
    const json_t **field = field_of(r);
    const char *name;
    json_t *list;

    if (!json_is_object(r->value)) {
        malformed(r, "an object of lists of different strings");
        return;
    }
    json_object_foreach(r->value, name, list) {
        if (!are_unique_strings(r, list)) {
            malformed(r, "an object of lists of different strings");
            return;
        }
    }
    if (field != NULL)
        *field = r->value;
}

static void
on_unique(struct reading *r)
{
    bool *field = field_of(r);

    if (!json_is_boolean(r->value))
        malformed(r, "true or false");
    else if (json_is_true(r->value) && !r->a->schema->is_trusted)
        fault(r, "schema_unique_items_unsupported",
              "uniqueItems: true is not supported; its cost grows with the square of the list");
    else if (field != NULL)
        *field = json_is_true(r->value);
}

static void
on_dynamic(struct reading *r)
{
    fault(r, "schema_dynamic_unsupported", "dynamic and recursive references are not supported");
}

static void
on_unsupported(struct reading *r)
{
    fault(r, "schema_keyword_unsupported",
          "this keyword is not supported; ignoring it would validate less than it says");
}

/* The contract's own annotation: asserted in its schemas, unknown in an author's. */
static void
on_budget(struct reading *r)
{
    struct cf_json_budget *budget;
    const json_t *v = r->value;

    if (!r->a->schema->is_trusted) {
        cf_admission_warn(r->a, r->node, r->row->keyword);
        return;
    }
    budget = group(r, (void **)&node_of(r)->budget, sizeof *budget);
    if (budget == NULL)
        return;
    budget->bytes = json_integer_value(json_object_get(v, "maximumBytes"));
    budget->depth = json_integer_value(json_object_get(v, "maximumDepth"));
    budget->nodes = json_integer_value(json_object_get(v, "maximumNodes"));
    budget->work = json_integer_value(json_object_get(v, "maximumInspectionWork"));
    if (json_object_size(v) != 4 || budget->bytes <= 0 || budget->depth <= 0 || budget->nodes <= 0 ||
        budget->work <= 0)
        malformed(r, "maximumBytes, maximumDepth, maximumNodes and maximumInspectionWork");
}

/* ---- the table ------------------------------------------------------------------------ */

#define NUMBER(field) HOME_NUMBER, offsetof(struct cf_number_rules, field)
#define STRING(field) HOME_STRING, offsetof(struct cf_string_rules, field)
#define ARRAY(field) HOME_ARRAY, offsetof(struct cf_array_rules, field)
#define OBJECT(field) HOME_OBJECT, offsetof(struct cf_object_rules, field)
#define COMBINE(field) HOME_COMBINE, offsetof(struct cf_combinator_rules, field)
#define NOWHERE HOME_NONE, 0

/* Sorted by strcmp: looked up by halving. */
static const struct row rows[] = {
    {"$anchor", on_unsupported, NOWHERE},
    {"$comment", NULL, NOWHERE},
    {"$defs", on_definitions, NOWHERE},
    {"$dynamicAnchor", on_dynamic, NOWHERE},
    {"$dynamicRef", on_dynamic, NOWHERE},
    {"$id", on_id, NOWHERE},
    {"$recursiveAnchor", on_dynamic, NOWHERE},
    {"$recursiveRef", on_dynamic, NOWHERE},
    {"$ref", on_ref, NOWHERE},
    {"$schema", on_dialect, NOWHERE},
    {"$vocabulary", on_unsupported, NOWHERE},
    {"additionalItems", on_unsupported, NOWHERE},
    {"additionalProperties", on_subschema, OBJECT(additional)},
    {"allOf", on_branches, COMBINE(all)},
    {"anyOf", on_branches, COMBINE(any)},
    {"const", on_const, NOWHERE},
    {"contains", on_subschema, ARRAY(contains)},
    {"contentEncoding", NULL, NOWHERE},
    {"contentMediaType", NULL, NOWHERE},
    {"contentSchema", NULL, NOWHERE},
    {"default", NULL, NOWHERE},
    {"definitions", on_unsupported, NOWHERE},
    {"dependencies", on_unsupported, NOWHERE},
    {"dependentRequired", on_dependent_required, OBJECT(dependent_required)},
    {"dependentSchemas", on_dependent_schemas, OBJECT(dependent)},
    {"deprecated", NULL, NOWHERE},
    {"description", NULL, NOWHERE},
    {"else", on_branch, COMBINE(otherwise)},
    {"enum", on_enum, NOWHERE},
    {"examples", NULL, NOWHERE},
    {"exclusiveMaximum", on_number, NUMBER(exclusive_maximum)},
    {"exclusiveMinimum", on_number, NUMBER(exclusive_minimum)},
    {"format", NULL, NOWHERE},
    {"if", on_branch, COMBINE(condition)},
    {"items", on_subschema, ARRAY(items)},
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
    {"not", on_branch, COMBINE(not_this)},
    {"oneOf", on_branches, COMBINE(one)},
    {"pattern", on_pattern, STRING(pattern)},
    {"patternProperties", on_pattern_properties, HOME_OBJECT, 0},
    {"prefixItems", on_prefix, ARRAY(prefix)},
    {"properties", on_properties, OBJECT(properties)},
    {"propertyNames", on_subschema, OBJECT(names)},
    {"readOnly", NULL, NOWHERE},
    {"required", on_required, OBJECT(required)},
    {"then", on_branch, COMBINE(then)},
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
    return strcmp(key, ((const struct row *)element)->keyword);
}

void
cf_walk_keyword(struct cf_admission *a, cf_node_id node, const json_t *object, const char *keyword,
                json_t *value)
{
    const struct row *row = bsearch(keyword, rows, CF_COUNT(rows), sizeof rows[0], by_keyword);
    struct reading r = {.a = a, .node = node, .row = row, .object = object, .value = value};

    if (row == NULL)
        cf_admission_warn(a, node, keyword);
    else if (row->fn != NULL)
        row->fn(&r);
}
