/*
 * schema/subschemas.c: keywords whose values are schemas or patterns: each subschema is walked,
 * counted where it is a combinator's branch, and tied to its holder.
 */
#include "schema/keywords.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct cf_node_place
place_of(struct cf_reading *r, const json_t *holder)
{
    return (struct cf_node_place){
        .parent = r->node, .keyword = r->row->keyword, .holder = holder};
}

/* Walks a subschema and ties it to its holder. */
static cf_node_id
walk_child(struct cf_reading *r, const struct cf_node_place *place, const json_t *value)
{
    cf_node_id child = cf_walk_schema(r->a, place, value);

    if (child != 0)
        (void)cf_walk_edge(r->a, r->node, child, r->row->keyword);
    return child;
}

static void
too_many_branches(struct cf_reading *r, const struct cf_node_place *place, const char *what,
                  unsigned limit)
{
    char index[16];
    const char *token = place->name;

    if (place->has_index) {
        snprintf(index, sizeof index, "%u", place->index);
        token = index;
    }
    cf_admission_fault(r->a, place->parent, place->keyword, token,
                       "schema_too_many_combinators", "%s %u", what, limit);
}

/* A subschema that counts as a combinator's branch. */
static cf_node_id
walk_branch(struct cf_reading *r, const struct cf_node_place *place, const json_t *value)
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

void
cf_read_subschema(struct cf_reading *r)
{
    struct cf_node_place place = place_of(r, r->object);
    cf_node_id *field = cf_reading_field(r);

    if (field != NULL)
        *field = walk_child(r, &place, r->value);
}

void
cf_read_branch(struct cf_reading *r)
{
    struct cf_node_place place = place_of(r, r->object);
    cf_node_id *field = cf_reading_field(r);

    if (field != NULL)
        *field = walk_branch(r, &place, r->value);
}

static void
walk_list(struct cf_reading *r,
          cf_node_id (*walk_one)(struct cf_reading *, const struct cf_node_place *,
                                 const json_t *))
{
    struct cf_node_list *list = cf_reading_field(r);
    size_t count = json_array_size(r->value);

    if (list == NULL || (list->nodes = cf_reading_room(r, count, sizeof *list->nodes)) == NULL)
        return;
    for (size_t i = 0; i < count && !cf_report_is_full(r->a->report) && !r->a->out_of_memory;
         i++) {
        struct cf_node_place place = place_of(r, r->value);
        place.has_index = true;
        place.index = (uint32_t)i;
        list->nodes[i] = walk_one(r, &place, json_array_get(r->value, i));
        list->count++;
    }
}

void
cf_read_prefix(struct cf_reading *r)
{
    if (json_array_size(r->value) == 0)
        cf_reading_malformed(r, "a non-empty list of schemas");
    else
        walk_list(r, walk_child);
}

void
cf_read_branches(struct cf_reading *r)
{
    size_t count = json_array_size(r->value);

    if (count == 0) {
        cf_reading_malformed(r, "a non-empty list of schemas");
        return;
    }
    if (count > CF_SCHEMA_MAX_BRANCHES_IN_ONE)
        cf_admission_fault(r->a, r->node, r->row->keyword, NULL, "schema_too_many_combinators",
                           "%zu branches in one combinator; the limit is %u", count,
                           CF_SCHEMA_MAX_BRANCHES_IN_ONE);
    walk_list(r, walk_branch);
}

static void
walk_map(struct cf_reading *r, struct cf_named_nodes *map,
         cf_node_id (*walk_one)(struct cf_reading *, const struct cf_node_place *,
                                const json_t *))
{
    const char *name;
    json_t *member;

    map->list = cf_reading_room(r, json_object_size(r->value), sizeof *map->list);
    if (map->list == NULL)
        return;
    json_object_foreach (r->value, name, member) {
        struct cf_node_place place = place_of(r, r->value);
        if (cf_report_is_full(r->a->report) || r->a->out_of_memory)
            return;
        place.name = name;
        map->list[map->count++] =
            (struct cf_named_node){name, strlen(name), walk_one(r, &place, member)};
    }
    qsort(map->list, map->count, sizeof *map->list, cf_named_compare);
}

static bool
is_map(struct cf_reading *r)
{
    if (json_is_object(r->value))
        return true;
    cf_reading_malformed(r, "an object of schemas");
    return false;
}

void
cf_read_properties(struct cf_reading *r)
{
    struct cf_named_nodes *map = cf_reading_field(r);

    if (map != NULL && is_map(r))
        walk_map(r, map, walk_child);
}

void
cf_read_dependent_schemas(struct cf_reading *r)
{
    struct cf_named_nodes *map = cf_reading_field(r);

    if (map != NULL && is_map(r))
        walk_map(r, map, walk_branch);
}

/* Definitions are walked like any schema, but nothing evaluates them except through $ref. */
static cf_node_id
walk_definition(struct cf_reading *r, const struct cf_node_place *place, const json_t *value)
{
    return cf_walk_schema(r->a, place, value);
}

void
cf_read_definitions(struct cf_reading *r)
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
compile_test(struct cf_reading *r, const char *text, size_t len, const char *token,
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
    cf_admission_fault(a, r->node, r->row->keyword, token, why.code,
                       "%s, at character %zu; %s", why.what, why.at,
                       pattern_advice(&why, text, len));
    return false;
}

void
cf_read_pattern(struct cf_reading *r)
{
    struct cf_text_test *test = cf_reading_field(r);

    if (!json_is_string(r->value))
        cf_reading_malformed(r, "a string");
    else if (test != NULL)
        (void)compile_test(r, json_string_value(r->value), json_string_length(r->value), NULL,
                           test);
}

void
cf_read_pattern_properties(struct cf_reading *r)
{
    struct cf_object_rules *rules = cf_reading_field(r);
    const char *name;
    json_t *member;

    if (!is_map(r) || rules == NULL)
        return;
    rules->patterns = cf_reading_room(r, json_object_size(r->value), sizeof *rules->patterns);
    if (rules->patterns == NULL)
        return;
    json_object_foreach (r->value, name, member) {
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
