/* schema/values.c: rules for numbers, strings and arrays, and the contract's size budget. */
#include "schema/evaluate.h"

#include "base/str.h"
#include "json/json.h"

#include <inttypes.h>
#include <string.h>

/* ---- numbers -------------------------------------------------------------------------- */

bool
cf_check_number(struct cf_evaluation *e, cf_node_id node, const struct cf_spot *spot,
                const json_t *value)
{
    const struct cf_number_rules *r = e->schema->nodes[node].number;
    bool ok = true;

    if (r->minimum != NULL && cf_number_order(value, r->minimum) < 0)
        ok = cf_fail(e, node, "minimum", spot, "minimum", "below %.17g",
                     json_number_value(r->minimum));
    if (r->maximum != NULL && cf_number_order(value, r->maximum) > 0)
        ok = cf_fail(e, node, "maximum", spot, "maximum", "above %.17g",
                     json_number_value(r->maximum));
    if (r->exclusive_minimum != NULL && cf_number_order(value, r->exclusive_minimum) <= 0)
        ok = cf_fail(e, node, "exclusiveMinimum", spot, "exclusive_minimum", "not above %.17g",
                     json_number_value(r->exclusive_minimum));
    if (r->exclusive_maximum != NULL && cf_number_order(value, r->exclusive_maximum) >= 0)
        ok = cf_fail(e, node, "exclusiveMaximum", spot, "exclusive_maximum", "not below %.17g",
                     json_number_value(r->exclusive_maximum));
    if (r->multiple_of != NULL && !cf_number_is_multiple(value, r->multiple_of))
        ok = cf_fail(e, node, "multipleOf", spot, "multiple_of", "not a multiple of %.17g",
                     json_number_value(r->multiple_of));
    return ok;
}

/* ---- strings -------------------------------------------------------------------------- */

/* Code points of valid UTF-8: bytes that do not continue one. Eight at a time, for a schema may
 * ask thousands of times about the same long text. */
static size_t
count_codes(const char *text, size_t len)
{
    size_t continuations = 0, i = 0;

    for (; i + 8 <= len; i += 8) {
        uint64_t word;
        memcpy(&word, text + i, 8);
        /* In each byte: top bit set and the next one clear. */
        word = (word >> 7) & ~(word >> 6) & UINT64_C(0x0101010101010101);
        continuations += (size_t)((word * UINT64_C(0x0101010101010101)) >> 56);
    }
    for (; i < len; i++)
        continuations += ((unsigned char)text[i] & 0xc0) == 0x80;
    return len - continuations;
}

bool
cf_check_string(struct cf_evaluation *e, cf_node_id node, const struct cf_spot *spot,
                const json_t *value)
{
    const struct cf_string_rules *r = e->schema->nodes[node].string;
    const char *text = json_string_value(value);
    size_t len = json_string_length(value);
    bool ok = true;

    if (r->min_length.is_given || r->max_length.is_given) {
        int64_t codes = (int64_t)count_codes(text, len);
        if (r->min_length.is_given && codes < r->min_length.n)
            ok = cf_fail(e, node, "minLength", spot, "min_length",
                         "%" PRId64 " characters; at least %" PRId64, codes, r->min_length.n);
        if (r->max_length.is_given && codes > r->max_length.n)
            ok = cf_fail(e, node, "maxLength", spot, "max_length",
                         "%" PRId64 " characters; at most %" PRId64, codes, r->max_length.n);
    }
    if (!ok && cf_is_settled(e))
        return false;
    if ((r->pattern.pattern != NULL || r->pattern.trusted != NULL) &&
        !cf_text_passes(e, node, spot, &r->pattern, text, len))
        ok = cf_fail(e, node, "pattern", spot, "pattern",
                     "the text does not match the pattern");
    return ok;
}

/* ---- arrays --------------------------------------------------------------------------- */

static bool
check_count(struct cf_evaluation *e, cf_node_id node, const struct cf_spot *spot,
            const json_t *value)
{
    const struct cf_array_rules *r = e->schema->nodes[node].array;
    int64_t count = (int64_t)json_array_size(value);
    bool ok = true;

    if (r->min_items.is_given && count < r->min_items.n)
        ok = cf_fail(e, node, "minItems", spot, "min_items",
                     "%" PRId64 " elements; at least %" PRId64, count, r->min_items.n);
    if (r->max_items.is_given && count > r->max_items.n)
        ok = cf_fail(e, node, "maxItems", spot, "max_items",
                     "%" PRId64 " elements; at most %" PRId64, count, r->max_items.n);
    return ok;
}

static bool
check_items(struct cf_evaluation *e, cf_node_id node, const struct cf_spot *spot,
            const json_t *value)
{
    const struct cf_array_rules *r = e->schema->nodes[node].array;
    size_t count = json_array_size(value);
    bool ok = true;

    if (r->items == 0 && count > r->prefix.count)
        count = r->prefix.count;
    for (size_t i = 0; i < count; i++) {
        struct cf_spot element = {.up = spot, .index = i};
        cf_node_id schema = i < r->prefix.count ? r->prefix.nodes[i] : r->items;
        if (cf_spend(e, node, spot, 1) &&
            cf_evaluate(e, schema, &element, json_array_get(value, i)))
            continue;
        ok = false;
        if (cf_is_settled(e))
            break;
    }
    return ok;
}

static bool
check_contains(struct cf_evaluation *e, cf_node_id node, const struct cf_spot *spot,
               const json_t *value)
{
    const struct cf_array_rules *r = e->schema->nodes[node].array;
    int64_t least = r->min_contains.is_given ? r->min_contains.n : 1, found = 0;
    size_t count = json_array_size(value);

    if (r->contains == 0)
        return true;
    for (size_t i = 0; i < count; i++) {
        struct cf_spot element = {.up = spot, .index = i};
        if (!cf_spend(e, node, spot, 1))
            return false;
        found += cf_evaluate_quietly(e, r->contains, &element, json_array_get(value, i));
        if (e->is_exhausted)
            return false;
        if (r->max_contains.is_given && found > r->max_contains.n)
            return cf_fail(e, node, "maxContains", spot, "max_contains",
                           "more than %" PRId64 " matching elements", r->max_contains.n);
        if (!r->max_contains.is_given && found >= least)
            return true;
    }
    if (found >= least)
        return true;
    if (!r->min_contains.is_given)
        return cf_fail(e, node, "contains", spot, "contains", "no element matches");
    return cf_fail(e, node, "minContains", spot, "min_contains",
                   "%" PRId64 " matching elements; at least %" PRId64, found, least);
}

/* Pairwise: only the contract's schemas get here, for lists of four. */
static bool
check_unique(struct cf_evaluation *e, cf_node_id node, const struct cf_spot *spot,
             const json_t *value)
{
    size_t count = json_array_size(value);

    if (!e->schema->nodes[node].array->is_unique)
        return true;
    for (size_t i = 1; i < count; i++)
        for (size_t j = 0; j < i && !e->is_exhausted; j++)
            if (cf_same(e, node, spot, json_array_get(value, i), json_array_get(value, j)))
                return cf_fail(e, node, "uniqueItems", spot, "unique_items",
                               "elements %zu and %zu are the same", j, i);
    return !e->is_exhausted;
}

bool
cf_check_array(struct cf_evaluation *e, cf_node_id node, const struct cf_spot *spot,
               const json_t *value)
{
    static cf_check_fn *const checks[] = {check_count, check_items, check_contains,
                                          check_unique};
    return cf_check_series(e, checks, CF_COUNT(checks), node, spot, value);
}

/* ---- the budget annotation of the contract --------------------------------------------- */

/* Depth, values and inspection work; stops at the first that is exceeded. */
static bool
inspect(const json_t *value, int64_t depth, const struct cf_json_budget *budget,
        int64_t *visited)
{
    const char *name;
    json_t *member;
    size_t i;

    if (++*visited > budget->nodes || *visited > budget->work)
        return false;
    if (!json_is_object(value) && !json_is_array(value))
        return true;
    if (depth > budget->depth)
        return false;
    json_array_foreach (value, i, member)
        if (!inspect(member, depth + 1, budget, visited))
            return false;
    json_object_foreach ((json_t *)value, name, member) /* the macro takes no const */
        if (!inspect(member, depth + 1, budget, visited))
            return false;
    return true;
}

bool
cf_check_budget(struct cf_evaluation *e, cf_node_id node, const struct cf_spot *spot,
                const json_t *value)
{
    const struct cf_json_budget *budget = e->schema->nodes[node].budget;
    struct cf_buf text;
    int64_t visited = 0;

    if (budget == NULL)
        return true;
    bool ok = inspect(value, 1, budget, &visited);
    if (!cf_spend(e, node, spot, (uint64_t)visited))
        return false;
    cf_buf_init(&text, (size_t)budget->bytes);
    ok = ok && cf_json_append(&text, value) == 0;
    cf_buf_release(&text);
    return ok ||
           cf_fail(e, node, "x-checkfu-json-budget", spot, "x_checkfu_json_budget",
                   "larger than %" PRId64 " bytes, depth %" PRId64 " or %" PRId64 " values",
                   budget->bytes, budget->depth, budget->nodes);
}
