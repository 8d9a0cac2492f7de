/* schema/validate.c: the front of validation: the instance's own limits, then the evaluation. */
#include "schema/evaluate.h"

#include "base/str.h"
#include "json/json.h"

#include <string.h>

#define EXPLAIN_WORK 100000u

static void
fault(struct cf_schema_report *report, const char *code, const char *text)
{
    struct cf_buf pointer = {0}, schema_pointer = {0};
    struct cf_schema_finding *finding = cf_report_next(report);

    if (finding != NULL)
        cf_finding_set(finding, code, &pointer, &schema_pointer, text);
}

static const char *
code_of(enum cf_json_fault fault)
{
    switch (fault) {
    case CF_JSON_FAULT_BYTES: return "instance_too_large";
    case CF_JSON_FAULT_DEPTH: return "instance_too_deep";
    case CF_JSON_FAULT_NODES: return "instance_too_many_nodes";
    case CF_JSON_FAULT_DUPLICATE: return "instance_duplicate_name";
    default: return "instance_invalid_json";
    }
}

/* Depth and number of values of a tree. Stops at the first limit, so it never goes deeper. */
static enum cf_json_fault
inspect(const json_t *value, unsigned depth, const struct cf_instance_limits *limits,
        unsigned *nodes)
{
    enum cf_json_fault found = CF_JSON_FAULT_NONE;
    const char *name;
    json_t *member;
    size_t i;

    if (++*nodes > limits->nodes)
        return CF_JSON_FAULT_NODES;
    if (!json_is_object(value) && !json_is_array(value))
        return CF_JSON_FAULT_NONE;
    if (depth > limits->depth)
        return CF_JSON_FAULT_DEPTH;
    json_array_foreach (value, i, member) {
        found = inspect(member, depth + 1, limits, nodes);
        if (found != CF_JSON_FAULT_NONE)
            return found;
    }
    json_object_foreach ((json_t *)value, name, member) { /* the macro takes no const */
        found = inspect(member, depth + 1, limits, nodes);
        if (found != CF_JSON_FAULT_NONE)
            return found;
    }
    return CF_JSON_FAULT_NONE;
}

static enum cf_json_fault
inspect_tree(const json_t *value, const struct cf_instance_limits *limits)
{
    struct cf_buf text;
    unsigned nodes = 0;
    enum cf_json_fault found = inspect(value, 1, limits, &nodes);

    if (found != CF_JSON_FAULT_NONE)
        return found;
    cf_buf_init(&text, limits->bytes);
    if (cf_json_append(&text, value) < 0)
        found = CF_JSON_FAULT_BYTES;
    cf_buf_release(&text);
    return found;
}

/* The kind of error follows from the first finding. */
static int
tell(const struct cf_schema_report *report, struct cf_error *err)
{
    static const char *const sizes[] = {"instance_too_large", "instance_too_deep",
                                        "instance_too_many_nodes", "validation_work_exceeded"};
    enum cf_error_kind kind = CF_ERROR_CONFIG;

    for (size_t i = 0; i < CF_COUNT(sizes); i++)
        if (report->count > 0 && strcmp(report->findings[0].code, sizes[i]) == 0)
            kind = CF_ERROR_TOO_LARGE;
    return cf_report_tell(report, kind, err);
}

static int
evaluate(const struct cf_schema *schema, const json_t *instance,
         struct cf_schema_report *report, unsigned most, struct cf_error *err)
{
    struct cf_spot root = {0};
    struct cf_evaluation e = {.schema = schema,
                              .report = report,
                              .most = most,
                              .work = schema->instance.work,
                              .explain_work = EXPLAIN_WORK};
    bool ok = cf_evaluate(&e, schema->entry, &root, instance);

    report->work = schema->instance.work - e.work;
    return ok ? 0 : tell(report, err);
}

int
cf_schema_validate(const struct cf_schema *schema, const json_t *instance,
                   struct cf_schema_report *report, struct cf_error *err)
{
    struct cf_schema_report own = {0};
    struct cf_schema_report *to = report == NULL ? &own : report;
    int status;

    cf_schema_report_release(to);
    enum cf_json_fault found = inspect_tree(instance, &schema->instance);
    if (found != CF_JSON_FAULT_NONE) {
        fault(to, code_of(found), "the instance is larger than a validation takes");
        status = tell(to, err);
    } else {
        status = evaluate(schema, instance, to, report == NULL ? 1 : CF_SCHEMA_FINDINGS, err);
    }
    cf_schema_report_release(&own);
    return status;
}

int
cf_schema_validate_text(const struct cf_schema *schema, const char *bytes, size_t len,
                        struct cf_schema_report *report, struct cf_error *err)
{
    struct cf_json_limits limits = {.bytes = schema->instance.bytes,
                                    .depth = schema->instance.depth,
                                    .nodes = schema->instance.nodes,
                                    .reject_duplicates = true};
    struct cf_schema_report own = {0};
    struct cf_schema_report *to = report == NULL ? &own : report;
    json_t *instance = NULL;
    struct cf_error why;
    int status;

    cf_schema_report_release(to);
    enum cf_json_fault found = cf_json_read(bytes, len, &limits, &instance, &why);
    if (found == CF_JSON_FAULT_MEMORY)
        return cf_error_memory(err);
    if (found != CF_JSON_FAULT_NONE) {
        fault(to, code_of(found), why.text);
        status = tell(to, err);
    } else {
        status = evaluate(schema, instance, to, report == NULL ? 1 : CF_SCHEMA_FINDINGS, err);
    }
    json_decref(instance);
    cf_schema_report_release(&own);
    return status;
}
