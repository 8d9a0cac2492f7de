/*
 * schema/admit.c: from bytes to an admitted schema, phase by phase: bytes, JSON text, depth,
 * values, keywords, references, cycles, sizes. A phase runs only when the ones before it found
 * nothing, except that references are also checked when only keywords were wrong, so that an
 * author sees both kinds at once.
 */
#include "schema/compiled.h"

#include "base/str.h"
#include "json/json.h"

#include <stdlib.h>
#include <string.h>

/* A trusted document is indented and explained; it is bounded all the same. */
#define TRUSTED_BYTES (1u << 20)

static void
measure(const json_t *value, unsigned depth, struct cf_schema_size *size)
{
    const char *name;
    json_t *member;
    size_t i;

    size->nodes++;
    if (!json_is_object(value) && !json_is_array(value))
        return;
    if (depth > size->depth)
        size->depth = depth;
    json_array_foreach (value, i, member)
        measure(member, depth + 1, size);
    json_object_foreach ((json_t *)value, name, member) /* the macro takes no const */
        measure(member, depth + 1, size);
}

static const char *
code_of(enum cf_json_fault fault)
{
    switch (fault) {
    case CF_JSON_FAULT_BYTES: return "schema_too_large";
    case CF_JSON_FAULT_DEPTH: return "schema_too_deep";
    case CF_JSON_FAULT_NODES: return "schema_too_many_nodes";
    case CF_JSON_FAULT_DUPLICATE: return "schema_duplicate_name";
    default: return "schema_invalid_json";
    }
}

static void
read_document(struct cf_admission *a, const char *bytes, size_t len)
{
    struct cf_json_limits limits = {
        .bytes = a->schema->is_trusted ? TRUSTED_BYTES : CF_SCHEMA_MAX_BYTES,
        .depth = CF_SCHEMA_MAX_DEPTH,
        .nodes = CF_SCHEMA_MAX_NODES,
        .reject_duplicates = true,
    };
    struct cf_error why;
    enum cf_json_fault fault = cf_json_read(bytes, len, &limits, &a->schema->document, &why);

    if (fault == CF_JSON_FAULT_MEMORY)
        a->out_of_memory = true;
    else if (fault != CF_JSON_FAULT_NONE)
        cf_admission_fault(a, 0, NULL, NULL, code_of(fault), "%s", why.text);
}

static bool
is_clean(const struct cf_admission *a)
{
    return a->report->count == 0 && !a->out_of_memory;
}

static void
run_phases(struct cf_admission *a, const char *bytes, size_t len)
{
    struct cf_node_place root = {0};

    read_document(a, bytes, len);
    if (!is_clean(a))
        return;
    measure(a->schema->document, 1, &a->schema->size);
    (void)cf_walk_schema(a, &root, a->schema->document); /* 0 is the root's id, too */
    a->schema->size.schemas = a->schema->node_count;
    if (!a->out_of_memory)
        cf_resolve_refs(a);
    if (is_clean(a))
        cf_check_graph(a);
}

int
cf_admit_document(struct cf_schema *schema, const char *bytes, size_t len,
                  struct cf_schema_report *report, struct cf_error *err)
{
    struct cf_schema_report own = {0};
    struct cf_admission a = {.schema = schema, .report = report == NULL ? &own : report};
    int status = 0;

    cf_schema_report_release(a.report);
    run_phases(&a, bytes, len);
    if (a.out_of_memory)
        status = cf_error_memory(err);
    else if (a.report->count > 0)
        status = cf_report_tell(a.report,
                                strcmp(a.report->findings[0].code, "schema_too_large") == 0
                                    ? CF_ERROR_TOO_LARGE
                                    : CF_ERROR_CONFIG,
                                err);
    cf_schema_report_release(&own);
    return status;
}

int
cf_schema_admit(const char *bytes, size_t len, struct cf_schema **ret_schema,
                struct cf_schema_report *report, struct cf_error *err)
{
    struct cf_schema *schema = calloc(1, sizeof *schema);

    if (schema == NULL)
        return cf_error_memory(err);
    schema->instance = (struct cf_instance_limits){
        .bytes = CF_SCHEMA_INSTANCE_BYTES,
        .depth = CF_SCHEMA_INSTANCE_DEPTH,
        .nodes = CF_SCHEMA_INSTANCE_NODES,
        .work = CF_SCHEMA_WORK,
    };
    if (cf_admit_document(schema, bytes, len, report, err) < 0) {
        cf_schema_free(schema);
        return -1;
    }
    *ret_schema = schema;
    return 0;
}

int
cf_schema_admit_value(const json_t *document, struct cf_schema **ret_schema,
                      struct cf_schema_report *report, struct cf_error *err)
{
    size_t len;
    cf_auto_free char *text = cf_json_dump(document, &len);

    if (text == NULL)
        return cf_error_memory(err);
    return cf_schema_admit(text, len, ret_schema, report, err);
}

static void
free_test(struct cf_text_test *test)
{
    cf_pattern_free(test->pattern);
}

static void
free_object_rules(struct cf_object_rules *rules)
{
    if (rules == NULL)
        return;
    for (uint32_t i = 0; i < rules->pattern_count; i++)
        free_test(&rules->patterns[i].test);
    free(rules->patterns);
    free(rules->properties.list);
    free(rules->dependent.list);
    free(rules);
}

static void
free_node(struct cf_node *node)
{
    free(node->number);
    free(node->budget);
    if (node->string != NULL)
        free_test(&node->string->pattern);
    free(node->string);
    if (node->array != NULL)
        free(node->array->prefix.nodes);
    free(node->array);
    free_object_rules(node->object);
    if (node->combine != NULL) {
        free(node->combine->all.nodes);
        free(node->combine->any.nodes);
        free(node->combine->one.nodes);
    }
    free(node->combine);
}

void
cf_schema_free(struct cf_schema *schema)
{
    if (schema == NULL)
        return;
    for (uint32_t i = 0; i < schema->node_count; i++)
        free_node(&schema->nodes[i]);
    free(schema->nodes);
    free(schema->edges);
    free(schema->refs);
    json_decref(schema->document);
    free(schema);
}

void
cf_schema_measure(const struct cf_schema *schema, struct cf_schema_size *ret_size)
{
    *ret_size = schema->size;
    ret_size->expansion = schema->nodes[schema->entry].expansion;
}
