/*
 * schema/compiled.h: a schema after admission, and the parts of this room that build it.
 *
 * Every place of the document that is a schema is a node. A node's rules are grouped by the
 * instance type they speak about; a group that the schema does not use is NULL. Literals (const,
 * enum, bounds, required names) are borrowed from the parsed document, which lives as long.
 */
#ifndef CF_SCHEMA_COMPILED_H
#define CF_SCHEMA_COMPILED_H

#include "base/buf.h"
#include "schema/pattern.h"
#include "schema/schema.h"

#include <jansson.h>

/* Index into cf_schema.nodes. 0 is the root, which is nobody's child, so 0 in a rule says
 * "not given". */
typedef uint32_t cf_node_id;

enum cf_json_type {
    CF_TYPE_NULL = 1,
    CF_TYPE_BOOLEAN = 2,
    CF_TYPE_OBJECT = 4,
    CF_TYPE_ARRAY = 8,
    CF_TYPE_NUMBER = 16,
    CF_TYPE_INTEGER = 32,
    CF_TYPE_STRING = 64
};

struct cf_bound {
    bool is_given;
    int64_t n; /* >= 0, saturating */
};

struct cf_node_list {
    cf_node_id *nodes;
    uint32_t count;
};

/* A member name and the schema that belongs to it. */
struct cf_named_node {
    const char *name; /* borrowed from the document */
    size_t len;
    cf_node_id node;
};

struct cf_named_nodes {
    struct cf_named_node *list;
    uint32_t count;
};

/* A pattern of the subset, or one of the contract's own outside it; one of the two is set. */
struct cf_text_test {
    struct cf_pattern *pattern;
    bool (*trusted)(const char *text, size_t len);
};

struct cf_pattern_node {
    const char *name; /* the pattern's text */
    struct cf_text_test test;
    cf_node_id node;
};

struct cf_number_rules {
    const json_t *minimum, *maximum, *exclusive_minimum, *exclusive_maximum, *multiple_of;
};

struct cf_string_rules {
    struct cf_bound min_length, max_length; /* code points */
    struct cf_text_test pattern;
};

struct cf_array_rules {
    struct cf_node_list prefix;
    cf_node_id items, contains;
    struct cf_bound min_items, max_items, min_contains, max_contains;
    bool is_unique;
};

struct cf_object_rules {
    struct cf_named_nodes properties; /* sorted by name */
    struct cf_pattern_node *patterns;
    uint32_t pattern_count;
    cf_node_id additional, names;
    struct cf_bound min_properties, max_properties;
    const json_t *required, *dependent_required;
    struct cf_named_nodes dependent;
};

struct cf_combinator_rules {
    struct cf_node_list all, any, one;
    cf_node_id not_this, condition, then, otherwise;
};

/* x-checkfu-json-budget. */
struct cf_json_budget {
    int64_t bytes, depth, nodes, work;
};

struct cf_node {
    /* where it is written: parent's pointer, then /keyword, then /name or /index if it has one */
    cf_node_id parent;
    const char *keyword; /* NULL for the root */
    const char *name;    /* NULL: `index` counts when has_index */
    uint32_t index;
    bool has_index;
    const json_t *holder; /* the object or array that holds it */

    enum { CF_NODE_RULES, CF_NODE_TRUE, CF_NODE_FALSE } kind;
    unsigned types; /* enum cf_json_type bits; 0: any */
    cf_node_id ref;
    const json_t *constant, *choices; /* NULL: not given */
    struct cf_number_rules *number;
    struct cf_string_rules *string;
    struct cf_array_rules *array;
    struct cf_object_rules *object;
    struct cf_combinator_rules *combine;
    struct cf_json_budget *budget;

    /* edges to what is evaluated with it, in document order: a list in cf_schema.edges */
    uint32_t first_edge, last_edge; /* index + 1; 0: none */
    uint32_t expansion;
    uint16_t ref_depth;
};

struct cf_edge {
    cf_node_id to; /* 0: a reference not resolved yet */
    const char *keyword;
    uint32_t next; /* index + 1; 0: last */
    bool is_ref;
};

/* A "$ref" as written. */
struct cf_ref {
    cf_node_id from;
    uint32_t edge;
    const json_t *text;
};

struct cf_instance_limits {
    size_t bytes;
    unsigned depth, nodes;
    uint64_t work;
};

struct cf_schema {
    json_t *document;
    struct cf_node *nodes;
    uint32_t node_count, node_cap;
    struct cf_edge *edges;
    uint32_t edge_count, edge_cap;
    struct cf_ref *refs;
    uint32_t ref_count, ref_cap;
    cf_node_id entry; /* where validation begins */
    bool is_trusted;
    struct cf_instance_limits instance;
    struct cf_schema_size size;
};

/* Admission in progress: the schema being built and what was found wrong with it. */
struct cf_admission {
    struct cf_schema *schema;
    struct cf_schema_report *report;
    unsigned combinator_depth;      /* of the schema being walked */
    bool told_branches, told_depth; /* each told once */
    bool out_of_memory;
};

/* report.c. `token` (may be NULL) is one more pointer token behind `keyword` (may be NULL). Both
 * count past a full list without keeping. */
void cf_admission_fault(struct cf_admission *a, cf_node_id at, const char *keyword,
                        const char *token, const char *code, const char *fmt, ...)
    __attribute__((format(printf, 6, 7)));
void cf_admission_warn(struct cf_admission *a, cf_node_id at, const char *keyword);
bool cf_report_is_full(const struct cf_schema_report *report);
int cf_node_pointer(const struct cf_schema *schema, cf_node_id node, struct cf_buf *to);
struct cf_schema_finding *cf_report_next(struct cf_schema_report *report);
void cf_finding_set(struct cf_schema_finding *finding, const char *code,
                    struct cf_buf *pointer, struct cf_buf *schema_pointer, const char *text);
int cf_report_tell(const struct cf_schema_report *report, enum cf_error_kind kind,
                   struct cf_error *err);

/* walk.c: makes a node for `value` and walks it. Returns its id, 0 when it is no schema. */
struct cf_node_place {
    cf_node_id parent;
    const char *keyword, *name;
    uint32_t index;
    bool has_index;
    const json_t *holder;
};
cf_node_id cf_walk_schema(struct cf_admission *a, const struct cf_node_place *place,
                          const json_t *value);
void cf_walk_ref(struct cf_admission *a, cf_node_id from, const json_t *text);
uint32_t cf_walk_edge(struct cf_admission *a, cf_node_id from, cf_node_id to,
                      const char *keyword);

/* Order of named nodes, for search and sort. */
int cf_named_order(const char *a, size_t a_len, const char *b, size_t b_len);
int cf_named_compare(const void *left,
                     const void *right); /* two struct cf_named_node, for qsort */

/* keywords.c: what one member of a schema object means. */
void cf_walk_keyword(struct cf_admission *a, cf_node_id node, const json_t *object,
                     const char *keyword, json_t *value);

/* refs.c, graph.c: the phases behind the walk. */
void cf_resolve_refs(struct cf_admission *a);
cf_node_id cf_find_node(const struct cf_schema *schema, const char *pointer); /* 0: none */
void cf_check_graph(struct cf_admission *a);

/* trusted.c: the predicate for a pattern text of the contract, NULL for any other; and, for the
 * refusal, a pattern of the subset an author can use instead (NULL: none). */
typedef bool cf_trusted_test_fn(const char *text, size_t len);
cf_trusted_test_fn *cf_trusted_pattern(const char *text, size_t len);
const char *cf_trusted_pattern_hint(const char *text, size_t len);

/* admit.c: the common path of both modes; the mode is set by who calls, never by the document. */
int cf_admit_document(struct cf_schema *schema, const char *bytes, size_t len,
                      struct cf_schema_report *report, struct cf_error *err);

/* number.c: exact order of two JSON numbers (-1, 0, 1); remainder test. */
int cf_number_order(const json_t *a, const json_t *b);
bool cf_number_is_integer(const json_t *number);
bool cf_number_is_multiple(const json_t *number, const json_t *of);

#endif
