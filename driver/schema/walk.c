/*
 * schema/walk.c: from the document to nodes, depth first, members in document order.
 *
 * Recursion follows the document, whose depth the parser has already bounded.
 */
#include "schema/compiled.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* `array` with room for one more element, moved if need be; NULL when memory ran out, `array` is
 * then as it was. Grows by doubling; the parser's limit on values bounds the total. */
static void *
grown(void *array, uint32_t count, uint32_t *cap, size_t size)
{
    if (count < *cap)
        return array;
    uint32_t wanted = *cap == 0 ? 16 : 2 * *cap;
    void *moved = realloc(array, wanted * size);
    if (moved != NULL)
        *cap = wanted;
    return moved;
}

uint32_t
cf_walk_edge(struct cf_admission *a, cf_node_id from, cf_node_id to, const char *keyword)
{
    struct cf_schema *s = a->schema;

    void *edges = grown(s->edges, s->edge_count, &s->edge_cap, sizeof *s->edges);
    if (edges == NULL) {
        a->out_of_memory = true;
        return 0;
    }
    s->edges = edges;
    uint32_t at = s->edge_count++;
    struct cf_node *node = &s->nodes[from];
    s->edges[at] = (struct cf_edge){.to = to, .keyword = keyword};
    if (node->last_edge != 0)
        s->edges[node->last_edge - 1].next = at + 1;
    else
        node->first_edge = at + 1;
    node->last_edge = at + 1;
    return at;
}

void
cf_walk_ref(struct cf_admission *a, cf_node_id from, const json_t *text)
{
    struct cf_schema *s = a->schema;
    uint32_t edge = cf_walk_edge(a, from, 0, "$ref");

    if (a->out_of_memory)
        return;
    s->edges[edge].is_ref = true;
    void *refs = grown(s->refs, s->ref_count, &s->ref_cap, sizeof *s->refs);
    if (refs == NULL) {
        a->out_of_memory = true;
        return;
    }
    s->refs = refs;
    s->refs[s->ref_count++] = (struct cf_ref){.from = from, .edge = edge, .text = text};
}

int
cf_named_order(const char *a, size_t a_len, const char *b, size_t b_len)
{
    if (a_len != b_len)
        return a_len < b_len ? -1 : 1; /* shorter first: cheap, and U+0000 is no end */
    return memcmp(a, b, a_len);
}

int
cf_named_compare(const void *left, const void *right)
{
    const struct cf_named_node *a = left, *b = right;
    return cf_named_order(a->name, a->len, b->name, b->len);
}

static void
refuse_place(struct cf_admission *a, const struct cf_node_place *place)
{
    char index[16];
    const char *token = place->name;

    if (place->has_index) {
        snprintf(index, sizeof index, "%u", place->index);
        token = index;
    }
    cf_admission_fault(a, place->parent, place->keyword, token, "schema_not_boolean_or_object",
                       "a schema is true, false or an object");
}

static cf_node_id
add_node(struct cf_admission *a, const struct cf_node_place *place)
{
    struct cf_schema *s = a->schema;

    void *nodes = grown(s->nodes, s->node_count, &s->node_cap, sizeof *s->nodes);
    if (nodes == NULL) {
        a->out_of_memory = true;
        return 0;
    }
    s->nodes = nodes;
    s->nodes[s->node_count] = (struct cf_node){.parent = place->parent,
                                               .keyword = place->keyword,
                                               .name = place->name,
                                               .index = place->index,
                                               .has_index = place->has_index,
                                               .holder = place->holder};
    return s->node_count++;
}

cf_node_id
cf_walk_schema(struct cf_admission *a, const struct cf_node_place *place, const json_t *value)
{
    json_t *object =
        (json_t *)value; /* jansson's iterators take no const; nothing is changed */
    const char *keyword;
    json_t *member;

    if (!json_is_object(value) && !json_is_boolean(value)) {
        refuse_place(a, place);
        return 0;
    }
    cf_node_id node = add_node(a, place);
    if (a->out_of_memory)
        return 0;
    if (json_is_boolean(value)) {
        a->schema->nodes[node].kind = json_is_true(value) ? CF_NODE_TRUE : CF_NODE_FALSE;
        return node;
    }
    json_object_foreach (object, keyword, member) {
        if (a->out_of_memory || cf_report_is_full(a->report))
            break;
        cf_walk_keyword(a, node, value, keyword, member);
    }
    return node;
}
