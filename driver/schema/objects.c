/* schema/objects.c: rules for objects. Members are visited in the instance's own order. */
#include "schema/evaluate.h"

#include "base/str.h"

#include <inttypes.h>
#include <string.h>

static const struct cf_object_rules *
rules_of(const struct cf_evaluation *e, cf_node_id node)
{
    return e->schema->nodes[node].object;
}

static bool
check_count(struct cf_evaluation *e, cf_node_id node, const struct cf_spot *spot,
            const json_t *value)
{
    const struct cf_object_rules *r = rules_of(e, node);
    int64_t count = (int64_t)json_object_size(value);
    bool ok = true;

    if (r->min_properties.is_given && count < r->min_properties.n)
        ok = cf_fail(e, node, "minProperties", spot, "min_properties",
                     "%" PRId64 " members; at least %" PRId64, count, r->min_properties.n);
    if (r->max_properties.is_given && count > r->max_properties.n)
        ok = cf_fail(e, node, "maxProperties", spot, "max_properties",
                     "%" PRId64 " members; at most %" PRId64, count, r->max_properties.n);
    return ok;
}

static bool
has_member(const json_t *object, const json_t *name)
{
    return json_object_getn(object, json_string_value(name), json_string_length(name)) != NULL;
}

/* Every name of `names` must be a member. */
static bool
require_all(struct cf_evaluation *e, cf_node_id node, const char *keyword, const char *code,
            const struct cf_spot *spot, const json_t *names, const json_t *value)
{
    size_t count = json_array_size(names);
    bool ok = true;

    for (size_t i = 0; i < count; i++) {
        const json_t *name = json_array_get(names, i);
        if (!cf_spend(e, node, spot, 1))
            return false;
        if (has_member(value, name))
            continue;
        ok = cf_fail(e, node, keyword, spot, code, "member \"%s\" is missing",
                     json_string_value(name));
        if (cf_is_settled(e))
            break;
    }
    return ok;
}

static bool
check_required(struct cf_evaluation *e, cf_node_id node, const struct cf_spot *spot,
               const json_t *value)
{
    const json_t *names = rules_of(e, node)->required;
    return names == NULL || require_all(e, node, "required", "required", spot, names, value);
}

static bool
check_dependent_required(struct cf_evaluation *e, cf_node_id node, const struct cf_spot *spot,
                         const json_t *value)
{
    json_t *table =
        (json_t *)rules_of(e, node)->dependent_required; /* iterated, not changed */
    const char *name;
    json_t *names;
    bool ok = true;

    if (table == NULL)
        return true;
    json_object_foreach (table, name, names) {
        if (!cf_spend(e, node, spot, 1))
            return false;
        if (json_object_get(value, name) == NULL ||
            require_all(e, node, "dependentRequired", "dependent_required", spot, names,
                        value))
            continue;
        ok = false;
        if (cf_is_settled(e))
            break;
    }
    return ok;
}

static const struct cf_named_node *
find_property(const struct cf_named_nodes *map, const char *name, size_t len)
{
    uint32_t lo = 0, hi = map->count;

    while (lo < hi) {
        uint32_t mid = (lo + hi) / 2;
        int order = cf_named_order(name, len, map->list[mid].name, map->list[mid].len);
        if (order == 0)
            return &map->list[mid];
        if (order < 0)
            hi = mid;
        else
            lo = mid + 1;
    }
    return NULL;
}

/* What pattern properties say about one member; *ret_matched when any pattern took its name. */
static bool
check_patterns(struct cf_evaluation *e, cf_node_id node, const struct cf_spot *member,
               const json_t *value, bool *ret_matched)
{
    const struct cf_object_rules *r = rules_of(e, node);
    bool ok = true;

    for (uint32_t i = 0; i < r->pattern_count && !e->is_exhausted; i++) {
        const struct cf_pattern_node *pattern = &r->patterns[i];
        if (!cf_text_passes(e, node, member, &pattern->test, member->name,
                            strlen(member->name)))
            continue;
        *ret_matched = true;
        if (!cf_evaluate(e, pattern->node, member, value)) {
            ok = false;
            if (cf_is_settled(e))
                break;
        }
    }
    return ok && !e->is_exhausted;
}

/* A member that nothing else knows. */
static bool
check_additional(struct cf_evaluation *e, cf_node_id node, const struct cf_spot *member,
                 const json_t *value)
{
    cf_node_id additional = rules_of(e, node)->additional;

    if (additional == 0)
        return true;
    if (e->schema->nodes[additional].kind != CF_NODE_FALSE)
        return cf_evaluate(e, additional, member, value);
    return cf_spend(e, additional, member, 1) &&
           cf_fail(e, additional, NULL, member, "additional_properties",
                   "this member is not allowed");
}

static bool
check_member(struct cf_evaluation *e, cf_node_id node, const struct cf_spot *member,
             const json_t *value)
{
    const struct cf_object_rules *r = rules_of(e, node);
    const struct cf_named_node *property =
        find_property(&r->properties, member->name, strlen(member->name));
    bool matched = property != NULL, ok = true;

    if (!cf_spend(e, node, member, 1))
        return false;
    if (property != NULL && !cf_evaluate(e, property->node, member, value)) {
        ok = false;
        if (cf_is_settled(e))
            return false;
    }
    if (!check_patterns(e, node, member, value, &matched)) {
        ok = false;
        if (cf_is_settled(e))
            return false;
    }
    return (matched || check_additional(e, node, member, value)) && ok;
}

static bool
check_members(struct cf_evaluation *e, cf_node_id node, const struct cf_spot *spot,
              const json_t *value)
{
    const struct cf_object_rules *r = rules_of(e, node);
    const char *name;
    json_t *member;
    bool ok = true;

    if (r->properties.count == 0 && r->pattern_count == 0 && r->additional == 0)
        return true;
    json_object_foreach ((json_t *)value, name, member) { /* the macro takes no const */
        struct cf_spot at = {.up = spot, .name = name};
        if (check_member(e, node, &at, member))
            continue;
        ok = false;
        if (cf_is_settled(e))
            break;
    }
    return ok;
}

static bool
check_names(struct cf_evaluation *e, cf_node_id node, const struct cf_spot *spot,
            const json_t *value)
{
    cf_node_id names = rules_of(e, node)->names;
    const char *name;
    json_t *member;

    if (names == 0)
        return true;
    json_object_foreach ((json_t *)value, name, member) { /* the macro takes no const */
        if (!cf_spend(e, node, spot, 1))
            return false;
        json_t *text = json_string_nocheck(name);
        bool ok = text != NULL && cf_evaluate_quietly(e, names, spot, text);
        json_decref(text);
        if (!ok)
            return cf_fail(e, node, "propertyNames", spot, "property_names",
                           "member name \"%s\" is not allowed", name);
    }
    return true;
}

static bool
check_dependent_schemas(struct cf_evaluation *e, cf_node_id node, const struct cf_spot *spot,
                        const json_t *value)
{
    const struct cf_named_nodes *map = &rules_of(e, node)->dependent;
    bool ok = true;

    for (uint32_t i = 0; i < map->count; i++) {
        if (!cf_spend(e, node, spot, 1))
            return false;
        if (json_object_get(value, map->list[i].name) == NULL ||
            cf_evaluate(e, map->list[i].node, spot, value))
            continue;
        ok = false;
        if (cf_is_settled(e))
            break;
    }
    return ok;
}

bool
cf_check_object(struct cf_evaluation *e, cf_node_id node, const struct cf_spot *spot,
                const json_t *value)
{
    static cf_check_fn *const checks[] = {
        check_count,   check_required, check_dependent_required,
        check_members, check_names,    check_dependent_schemas};
    return cf_check_series(e, checks, CF_COUNT(checks), node, spot, value);
}
