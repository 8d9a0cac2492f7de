/* schema/evaluate.h: one validation in progress, shared by the files that evaluate rules. */
#ifndef CF_SCHEMA_EVALUATE_H
#define CF_SCHEMA_EVALUATE_H

#include "schema/compiled.h"

/* Where in the instance we are: a chain on the C stack, as deep as the instance. */
struct cf_spot {
    const struct cf_spot *up; /* NULL at the root */
    const char *name;         /* member name, or NULL and `index` */
    size_t index;
};

struct cf_evaluation {
    const struct cf_schema *schema;
    struct cf_schema_report *report;
    unsigned most;         /* findings wanted */
    unsigned quiet;        /* > 0 inside a branch whose findings do not count */
    uint64_t work;         /* units left */
    uint64_t explain_work; /* units left for wording a failed choice; 0: do not explain */
    bool is_exhausted;     /* the work ran out: told, and everything ends */
};

/* Applies schema `node` to `value`. True when it passes. Findings go to the report unless quiet. */
bool cf_evaluate(struct cf_evaluation *e, cf_node_id node, const struct cf_spot *spot,
                 const json_t *value);

/* The same without findings. */
bool cf_evaluate_quietly(struct cf_evaluation *e, cf_node_id node, const struct cf_spot *spot,
                         const json_t *value);

/* After a failure: nothing more can change the outcome or be told. */
bool cf_is_settled(const struct cf_evaluation *e);

/* Notes a finding at `spot`, its place in the schema `node`/`keyword`; returns false, so that
 * `return cf_fail(...)` reads as one thought. */
bool cf_fail(struct cf_evaluation *e, cf_node_id node, const char *keyword,
             const struct cf_spot *spot, const char *code, const char *fmt, ...)
    __attribute__((format(printf, 6, 7)));

/* Takes work units; false when there were not enough (told once). */
bool cf_spend(struct cf_evaluation *e, cf_node_id node, const struct cf_spot *spot,
              uint64_t units);

/* Equality that pays for itself; false also when the work ran out. */
bool cf_same(struct cf_evaluation *e, cf_node_id node, const struct cf_spot *spot,
             const json_t *a, const json_t *b);

/* Does the text pass? False also when the work ran out. */
bool cf_text_passes(struct cf_evaluation *e, cf_node_id node, const struct cf_spot *spot,
                    const struct cf_text_test *test, const char *text, size_t len);

/* The rules of one kind: each applies to values of its own type only, the caller sees to that. */
typedef bool cf_check_fn(struct cf_evaluation *e, cf_node_id node, const struct cf_spot *spot,
                         const json_t *value);
bool cf_check_series(struct cf_evaluation *e, cf_check_fn *const *checks, size_t count,
                     cf_node_id node, const struct cf_spot *spot, const json_t *value);
cf_check_fn cf_check_number, cf_check_string, cf_check_array, cf_check_object; /* by type */
cf_check_fn cf_check_combinators;
cf_check_fn cf_check_budget;

#endif
