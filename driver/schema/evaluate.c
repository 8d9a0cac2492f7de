/*
 * schema/evaluate.c: one schema against one value: reference, type, const, enum, the rules for
 * the value's own type, then combinators.
 *
 * Recursion follows schema nesting and references; admission has bounded both (depth 32, 16
 * references on a path), so the C stack stays small. Work units bound the time.
 */
#include "schema/evaluate.h"

#include "base/str.h"
#include "base/utf8.h"
#include "json/json.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

bool
cf_is_settled(const struct cf_evaluation *e)
{
    return e->quiet > 0 || e->is_exhausted || e->report->count >= e->most;
}

/* The chain is written from the root down; an instance is at most 64 deep. */
static void
spot_pointer(const struct cf_spot *spot, struct cf_buf *to)
{
    const struct cf_spot *chain[80];
    unsigned depth = 0;

    for (; spot->up != NULL && depth < CF_COUNT(chain); spot = spot->up)
        chain[depth++] = spot;
    while (depth-- > 0) {
        /* A failed add marks the buffer; the pointer is lost then, not the finding. */
        if (chain[depth]->name != NULL)
            (void)cf_json_pointer_push(to, chain[depth]->name);
        else
            (void)cf_buf_addf(to, "/%zu", chain[depth]->index);
    }
}

static void
add_finding(struct cf_evaluation *e, cf_node_id node, const char *keyword,
            const struct cf_spot *spot, const char *code, const char *text)
{
    struct cf_buf pointer = {0}, schema_pointer = {0};
    struct cf_schema_finding *finding = cf_report_next(e->report);

    if (finding == NULL)
        return;
    spot_pointer(spot, &pointer);
    (void)cf_node_pointer(e->schema, node, &schema_pointer);
    if (keyword != NULL)
        (void)cf_json_pointer_push(&schema_pointer, keyword);
    cf_finding_set(finding, code, &pointer, &schema_pointer, text);
}

bool
cf_fail(struct cf_evaluation *e, cf_node_id node, const char *keyword,
        const struct cf_spot *spot, const char *code, const char *fmt, ...)
{
    char text[256];
    va_list args;

    if (cf_is_settled(e))
        return false;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    add_finding(e, node, keyword, spot, code, text);
    return false;
}

/* Told even inside a quiet branch: the outcome is unknown then, whatever the branch means. */
static void
exhaust(struct cf_evaluation *e, cf_node_id node, const struct cf_spot *spot)
{
    if (e->is_exhausted)
        return;
    e->is_exhausted = true;
    e->work = 0;
    add_finding(e, node, NULL, spot, "validation_work_exceeded",
                "this schema and this instance together take more work than a validation may");
}

bool
cf_spend(struct cf_evaluation *e, cf_node_id node, const struct cf_spot *spot, uint64_t units)
{
    if (e->work < units)
        exhaust(e, node, spot);
    else
        e->work -= units;
    return !e->is_exhausted;
}

bool
cf_same(struct cf_evaluation *e, cf_node_id node, const struct cf_spot *spot, const json_t *a,
        const json_t *b)
{
    int same = cf_json_same_within(a, b, &e->work);

    if (same < 0)
        exhaust(e, node, spot);
    return same == 1;
}

bool
cf_text_passes(struct cf_evaluation *e, cf_node_id node, const struct cf_spot *spot,
               const struct cf_text_test *test, const char *text, size_t len)
{
    if (test->pattern == NULL)
        return cf_spend(e, node, spot, len) && test->trusted(text, len);
    int found = cf_pattern_search(test->pattern, text, len, &e->work);
    if (found < 0)
        exhaust(e, node, spot);
    return found == 1;
}

bool
cf_check_series(struct cf_evaluation *e, cf_check_fn *const *checks, size_t count,
                cf_node_id node, const struct cf_spot *spot, const json_t *value)
{
    bool ok = true;

    for (size_t i = 0; i < count; i++) {
        if (checks[i](e, node, spot, value))
            continue;
        ok = false;
        if (cf_is_settled(e))
            break;
    }
    return ok;
}

static bool
check_ref(struct cf_evaluation *e, cf_node_id node, const struct cf_spot *spot,
          const json_t *value)
{
    cf_node_id ref = e->schema->nodes[node].ref;
    return ref == 0 || cf_evaluate(e, ref, spot, value);
}

static unsigned
type_of(const json_t *value)
{
    switch (json_typeof(value)) {
    case JSON_OBJECT: return CF_TYPE_OBJECT;
    case JSON_ARRAY: return CF_TYPE_ARRAY;
    case JSON_STRING: return CF_TYPE_STRING;
    case JSON_NULL: return CF_TYPE_NULL;
    case JSON_TRUE:
    case JSON_FALSE: return CF_TYPE_BOOLEAN;
    default: break;
    }
    return CF_TYPE_NUMBER | (cf_number_is_integer(value) ? CF_TYPE_INTEGER : 0);
}

static void
name_types(unsigned types, char *out, size_t size)
{
    static const char *const names[] = {"null",   "boolean", "object", "array",
                                        "number", "integer", "string"};
    size_t len = 0;

    out[0] = '\0';
    for (size_t i = 0; i < CF_COUNT(names); i++)
        if ((types & (1u << i)) != 0 && len < size)
            len += (size_t)snprintf(out + len, size - len, "%s%s", len > 0 ? " or " : "",
                                    names[i]);
}

static bool
check_type(struct cf_evaluation *e, cf_node_id node, const struct cf_spot *spot,
           const json_t *value)
{
    unsigned wanted = e->schema->nodes[node].types, found = type_of(value);
    char expected[96], given[96];

    if (wanted == 0 || (wanted & found) != 0)
        return true;
    if (cf_is_settled(e))
        return false;
    name_types(wanted, expected, sizeof expected);
    name_types((found & CF_TYPE_INTEGER) != 0 ? CF_TYPE_INTEGER : found, given, sizeof given);
    return cf_fail(e, node, "type", spot, "type", "%s expected, %s found", expected, given);
}

static bool
check_const(struct cf_evaluation *e, cf_node_id node, const struct cf_spot *spot,
            const json_t *value)
{
    const json_t *constant = e->schema->nodes[node].constant;

    return constant == NULL || cf_same(e, node, spot, constant, value) ||
           cf_fail(e, node, "const", spot, "const", "not the one value allowed here");
}

/* "a", "b", 3 more */
static void
name_choices(const json_t *choices, char *out, size_t size)
{
    size_t count = json_array_size(choices), len = 0, i;

    for (i = 0; i < count; i++) {
        cf_auto_free char *text = cf_json_dump(json_array_get(choices, i), NULL);
        size_t need = text == NULL ? size : strlen(text) + 2;
        if (len + need + 16 >= size)
            break;
        len += (size_t)snprintf(out + len, size - len, "%s%s", i > 0 ? ", " : "", text);
    }
    if (i < count)
        snprintf(out + len, size - len, "%s%zu more", i > 0 ? ", " : "", count - i);
    else if (count == 0)
        snprintf(out, size, "nothing");
}

static bool
check_enum(struct cf_evaluation *e, cf_node_id node, const struct cf_spot *spot,
           const json_t *value)
{
    const json_t *choices = e->schema->nodes[node].choices;
    size_t count = json_array_size(choices);
    char allowed[200];

    if (choices == NULL)
        return true;
    for (size_t i = 0; i < count && !e->is_exhausted; i++)
        if (cf_same(e, node, spot, json_array_get(choices, i), value))
            return true;
    if (cf_is_settled(e))
        return false;
    name_choices(choices, allowed, sizeof allowed);
    return cf_fail(e, node, "enum", spot, "enum", "allowed here: %s", allowed);
}

static bool
check_value(struct cf_evaluation *e, cf_node_id node, const struct cf_spot *spot,
            const json_t *value)
{
    const struct cf_node *rules = &e->schema->nodes[node];

    switch (json_typeof(value)) {
    case JSON_OBJECT: return rules->object == NULL || cf_check_object(e, node, spot, value);
    case JSON_ARRAY: return rules->array == NULL || cf_check_array(e, node, spot, value);
    case JSON_STRING: return rules->string == NULL || cf_check_string(e, node, spot, value);
    case JSON_INTEGER:
    case JSON_REAL: return rules->number == NULL || cf_check_number(e, node, spot, value);
    default: return true;
    }
}

bool
cf_evaluate(struct cf_evaluation *e, cf_node_id node, const struct cf_spot *spot,
            const json_t *value)
{
    static cf_check_fn *const checks[] = {check_ref,           check_type,      check_const,
                                          check_enum,          cf_check_budget, check_value,
                                          cf_check_combinators};

    if (!cf_spend(e, node, spot, 1))
        return false;
    switch (e->schema->nodes[node].kind) {
    case CF_NODE_TRUE: return true;
    case CF_NODE_FALSE:
        return cf_fail(e, node, NULL, spot, "false_schema", "nothing is allowed here");
    default: return cf_check_series(e, checks, CF_COUNT(checks), node, spot, value);
    }
}

bool
cf_evaluate_quietly(struct cf_evaluation *e, cf_node_id node, const struct cf_spot *spot,
                    const json_t *value)
{
    e->quiet++;
    bool ok = cf_evaluate(e, node, spot, value);
    e->quiet--;
    return ok;
}
