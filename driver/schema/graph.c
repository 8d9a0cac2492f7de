/*
 * schema/graph.c: cycles, reference depth and expansion, over the graph of what evaluates what.
 *
 * One depth-first walk with a stack of its own: the path may run through many references, so it
 * must not be the C stack's.
 */
#include "schema/compiled.h"

#include <stdlib.h>

enum mark { NEW, OPEN, DONE };

struct frame {
    cf_node_id node;
    uint32_t edge; /* index + 1 of the next edge to take; 0: none left */
};

struct walk {
    struct cf_admission *a;
    struct frame *stack;
    uint32_t depth;
    unsigned char *marks;
};

static void
enter(struct walk *w, cf_node_id node)
{
    w->marks[node] = OPEN;
    w->stack[w->depth++] = (struct frame){node, w->a->schema->nodes[node].first_edge};
}

/* All that `id` evaluates is done: its own numbers follow. */
static void
finish(struct walk *w, cf_node_id id)
{
    struct cf_schema *s = w->a->schema;
    struct cf_node *node = &s->nodes[id];
    uint64_t expansion = 1;

    for (uint32_t e = node->first_edge; e != 0; e = s->edges[e - 1].next) {
        const struct cf_edge *edge = &s->edges[e - 1];
        const struct cf_node *to = &s->nodes[edge->to];
        unsigned depth = to->ref_depth + (edge->is_ref ? 1u : 0u);
        expansion += to->expansion;
        if (depth > node->ref_depth)
            node->ref_depth = (uint16_t)depth;
    }
    node->expansion = expansion > UINT32_MAX ? UINT32_MAX : (uint32_t)expansion;
    w->marks[id] = DONE;
    w->depth--;
}

static void
walk_from(struct walk *w, cf_node_id start)
{
    struct cf_schema *s = w->a->schema;

    enter(w, start);
    while (w->depth > 0) {
        struct frame *top = &w->stack[w->depth - 1];
        if (top->edge == 0) {
            finish(w, top->node);
            continue;
        }
        const struct cf_edge *edge = &s->edges[top->edge - 1];
        top->edge = edge->next;
        if (w->marks[edge->to] == NEW)
            enter(w, edge->to);
        else if (w->marks[edge->to] == OPEN)
            cf_admission_fault(w->a, top->node, edge->keyword, NULL, "schema_ref_cycle",
                               "this leads back to a schema that contains it");
    }
}

static void
check_sizes(struct cf_admission *a)
{
    struct cf_schema *s = a->schema;
    uint32_t expansion = 0;

    for (cf_node_id id = 0; id < s->node_count; id++) {
        if (s->nodes[id].ref_depth > s->size.ref_depth)
            s->size.ref_depth = s->nodes[id].ref_depth;
        if (s->nodes[id].expansion > expansion)
            expansion = s->nodes[id].expansion;
    }
    if (s->size.ref_depth > CF_SCHEMA_MAX_REF_DEPTH)
        cf_admission_fault(a, 0, NULL, NULL, "schema_ref_depth",
                           "a chain of %u references; the limit is %u", s->size.ref_depth,
                           CF_SCHEMA_MAX_REF_DEPTH);
    if (expansion > CF_SCHEMA_MAX_EXPANSION)
        cf_admission_fault(
            a, 0, NULL, NULL, "schema_ref_expansion",
            "written out without references a schema here has %u parts; the limit is %u",
            expansion, CF_SCHEMA_MAX_EXPANSION);
}

void
cf_check_graph(struct cf_admission *a)
{
    uint32_t count = a->schema->node_count;
    struct walk w = {
        .a = a, .stack = calloc(count, sizeof *w.stack), .marks = calloc(count, 1)};

    if (w.stack == NULL || w.marks == NULL) {
        a->out_of_memory = true;
    } else {
        for (cf_node_id id = 0; id < count; id++)
            if (w.marks[id] == NEW)
                walk_from(&w, id);
        if (a->report->count == 0)
            check_sizes(a);
    }
    free(w.stack);
    free(w.marks);
}
