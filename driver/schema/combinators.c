/* schema/combinators.c: allOf, anyOf, oneOf, not, if/then/else. */
#include "schema/evaluate.h"

#include "base/str.h"

#include <stdio.h>
#include <string.h>

static const struct cf_combinator_rules *
rules_of(const struct cf_evaluation *e, cf_node_id node)
{
    return e->schema->nodes[node].combine;
}

static bool
check_all(struct cf_evaluation *e, cf_node_id node, const struct cf_spot *spot,
          const json_t *value)
{
    const struct cf_node_list *list = &rules_of(e, node)->all;
    bool ok = true;

    for (uint32_t i = 0; i < list->count; i++) {
        if (cf_evaluate(e, list->nodes[i], spot, value))
            continue;
        ok = false;
        if (cf_is_settled(e))
            break;
    }
    return ok;
}

static unsigned
levels_of(const char *pointer)
{
    unsigned levels = 0;

    for (; pointer != NULL && *pointer != '\0'; pointer++)
        levels += *pointer == '/';
    return levels;
}

/* The first finding of one branch, from an evaluation of its own with little work and no
 * explanations inside explanations. */
static void
try_branch(struct cf_evaluation *e, cf_node_id branch, const struct cf_spot *spot,
           const json_t *value, struct cf_schema_report *report)
{
    struct cf_evaluation trial = {.schema = e->schema, .report = report, .most = 1};

    trial.work = e->explain_work;
    (void)cf_evaluate(&trial, branch, spot, value);
    e->explain_work = trial.work;
    if (trial.is_exhausted)
        cf_schema_report_release(report); /* it knows nothing */
}

/*
 * Words for "none fits". Among tagged alternatives the one that was meant usually fails deepest
 * inside the value, so its first finding is quoted. Only words: the finding itself stays at the
 * combinator.
 */
static void
explain(struct cf_evaluation *e, const struct cf_node_list *list, const struct cf_spot *spot,
        const json_t *value, char *text, size_t size)
{
    struct cf_schema_report best = {0};
    uint32_t best_at = 0;
    unsigned best_levels = 0;

    for (uint32_t i = 0; i < list->count && e->explain_work > 0; i++) {
        struct cf_schema_report report = {0};
        try_branch(e, list->nodes[i], spot, value, &report);
        unsigned levels = levels_of(report.findings[0].pointer);
        if (report.count > 0 && (best.count == 0 || levels > best_levels)) {
            struct cf_schema_report swap = best;
            best = report;
            report = swap;
            best_levels = levels;
            best_at = i;
        }
        cf_schema_report_release(&report);
    }
    if (best.count > 0 && best.findings[0].pointer != NULL)
        snprintf(text, size, "; nearest is %u: %s at \"%.80s\": %.80s", best_at,
                 best.findings[0].code, best.findings[0].pointer, best.findings[0].text);
    cf_schema_report_release(&best);
}

static bool
check_any(struct cf_evaluation *e, cf_node_id node, const struct cf_spot *spot,
          const json_t *value)
{
    const struct cf_node_list *list = &rules_of(e, node)->any;
    char nearest[220] = "";

    if (list->count == 0)
        return true;
    for (uint32_t i = 0; i < list->count && !e->is_exhausted; i++)
        if (cf_evaluate_quietly(e, list->nodes[i], spot, value))
            return true;
    if (cf_is_settled(e))
        return false;
    explain(e, list, spot, value, nearest, sizeof nearest);
    return cf_fail(e, node, "anyOf", spot, "any_of", "none of %u alternatives fits%s",
                   list->count, nearest);
}

static bool
check_one(struct cf_evaluation *e, cf_node_id node, const struct cf_spot *spot,
          const json_t *value)
{
    const struct cf_node_list *list = &rules_of(e, node)->one;
    uint32_t first = 0;
    unsigned passed = 0;

    if (list->count == 0)
        return true;
    for (uint32_t i = 0; i < list->count; i++) {
        if (!cf_evaluate_quietly(e, list->nodes[i], spot, value)) {
            if (e->is_exhausted)
                return false;
            continue;
        }
        if (++passed == 2)
            return cf_fail(e, node, "oneOf", spot, "one_of", "alternatives %u and %u both fit",
                           first, i);
        first = i;
    }
    return passed == 1 || cf_fail(e, node, "oneOf", spot, "one_of",
                                  "none of %u alternatives fits", list->count);
}

static bool
check_not(struct cf_evaluation *e, cf_node_id node, const struct cf_spot *spot,
          const json_t *value)
{
    cf_node_id not_this = rules_of(e, node)->not_this;

    if (not_this == 0)
        return true;
    if (cf_evaluate_quietly(e, not_this, spot, value))
        return cf_fail(e, node, "not", spot, "not", "this value is excluded");
    return !e->is_exhausted;
}

static bool
check_condition(struct cf_evaluation *e, cf_node_id node, const struct cf_spot *spot,
                const json_t *value)
{
    const struct cf_combinator_rules *r = rules_of(e, node);

    if (r->condition == 0)
        return true;
    cf_node_id next =
        cf_evaluate_quietly(e, r->condition, spot, value) ? r->then : r->otherwise;
    if (e->is_exhausted)
        return false;
    return next == 0 || cf_evaluate(e, next, spot, value);
}

bool
cf_check_combinators(struct cf_evaluation *e, cf_node_id node, const struct cf_spot *spot,
                     const json_t *value)
{
    static cf_check_fn *const checks[] = {check_all, check_any, check_one, check_not,
                                          check_condition};

    return rules_of(e, node) == NULL ||
           cf_check_series(e, checks, CF_COUNT(checks), node, spot, value);
}
