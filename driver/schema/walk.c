/*
 * schema/walk.c: from the document to nodes, depth first, members in document order.
 *
 * Recursion follows the document, whose depth the parser has already bounded.
 */
#include "schema/compiled.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Room for one more element. Grows by doubling; the parser's node limit bounds the total. */
static bool
grow(void **array, uint32_t count, uint32_t *cap, size_t size)
{
    if (count < *cap)
        return true;
    uint32_t wanted = *cap == 0 ? 16 : 2 * *cap;
    void *grown = realloc(*array, wanted * size);
    if (grown == NULL)
        return false;
    *array = grown;
    *cap = wanted;
    return true;
}

uint32_t
cf_walk_edge(struct cf_admission *a, cf_node_id from, cf_node_id to, const char *keyword)
{
    struct cf_schema *s = a->schema;

    if (!grow((void **)&s->edges, s->edge_count, &s->edge_cap, sizeof *s->edges)) {
        a->out_of_memory = true;
        return 0;
    }
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
    if (!grow((void **)&s->refs, s->ref_count, &s->ref_cap, sizeof *s->refs)) {
        a->out_of_memory = true;
        return;
    }
    s->refs[s->ref_count++] = (struct cf_ref){.from = from, .edge = edge, .text = text};
}

int
cf_named_order(const char *a, size_t a_len, const char *b, size_t b_len)
{
    if (a_len != b_len)
        return a_len < b_len ? -1 : 1; /* shorter first: cheap, and U+0000 is no end */
    return memcmp(a, b, a_len);
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

    if (!grow((void **)&s->nodes, s->node_count, &s->node_cap, sizeof *s->nodes)) {
        a->out_of_memory = true;
        return 0;
    }
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
    json_t *object = (json_t *)value; /* jansson's iterators take no const; nothing is changed */
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
    json_object_foreach(object, keyword, member) {
        if (a->out_of_memory || cf_report_is_full(a->report))
            break;
        cf_walk_keyword(a, node, value, keyword, member);
    }
    return node;
}
