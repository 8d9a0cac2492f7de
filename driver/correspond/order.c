/* The canonical order of member names, and putting an object's members into it. */
#include "correspond/value.h"

/*
 * UTF-8 sorts like UTF-16 except where a supplementary character (lead byte F0-F4) meets
 * U+E000-U+FFFF (lead byte EE or EF): its first unit is a surrogate, so it comes first. Two
 * valid strings first differ either in two lead bytes or in two continuation bytes, so moving
 * EE and EF above F4 is all it takes.
 */
static unsigned
utf16_rank(unsigned char byte)
{
    return byte == 0xee || byte == 0xef ? byte + 0x10u : byte;
}

int
cf_utf16_order(const char *a, size_t a_len, const char *b, size_t b_len)
{
    size_t least = a_len < b_len ? a_len : b_len;

    for (size_t i = 0; i < least; i++) {
        if (a[i] != b[i])
            return utf16_rank((unsigned char)a[i]) < utf16_rank((unsigned char)b[i]) ? -1 : 1;
    }
    return a_len == b_len ? 0 : a_len < b_len ? -1 : 1;
}

static uint32_t
merge_members(struct cf_node *nodes, uint32_t a, uint32_t b)
{
    uint32_t head = CF_NO_NODE, *tail = &head;

    while (a != CF_NO_NODE && b != CF_NO_NODE) {
        uint32_t *least = cf_utf16_order(nodes[a].name, nodes[a].name_len, nodes[b].name,
                                         nodes[b].name_len) <= 0
                              ? &a
                              : &b;
        *tail = *least;
        tail = &nodes[*least].next;
        *least = nodes[*least].next;
    }
    *tail = a != CF_NO_NODE ? a : b;
    return head;
}

static bool
is_sorted(const struct cf_node *nodes, uint32_t first)
{
    for (uint32_t i = first; i != CF_NO_NODE && nodes[i].next != CF_NO_NODE;
         i = nodes[i].next) {
        const struct cf_node *a = &nodes[i], *b = &nodes[a->next];
        if (cf_utf16_order(a->name, a->name_len, b->name, b->name_len) > 0)
            return false;
    }
    return true;
}

/* Merge sort of a linked list, bottom up: pile i holds a sorted run of 2^i members. */
uint32_t
cf_sort_members(struct cf_node *nodes, uint32_t first)
{
    uint32_t piles[32], list = CF_NO_NODE;
    unsigned used = 0;

    if (is_sorted(nodes, first))
        return first; /* as our own texts are */
    while (first != CF_NO_NODE) {
        uint32_t run = first;
        unsigned i = 0;
        first = nodes[run].next;
        nodes[run].next = CF_NO_NODE;
        for (; i < used && piles[i] != CF_NO_NODE; i++) {
            run = merge_members(nodes, piles[i], run);
            piles[i] = CF_NO_NODE;
        }
        if (i == used)
            used++;
        piles[i] = run;
    }
    for (unsigned i = 0; i < used; i++)
        list = merge_members(nodes, piles[i], list);
    return list;
}
