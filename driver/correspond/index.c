/* Arrays, a hash table that grows one bucket at a time, and an ordered set. */
#include "correspond/index.h"

#include <stdlib.h>
#include <string.h>

void
cf_vec_init(struct cf_vec *vec, size_t item)
{
    *vec = (struct cf_vec){.item = (uint32_t)item};
}

void
cf_vec_release(struct cf_vec *vec)
{
    if (!vec->is_borrowed)
        free(vec->data);
    vec->data = NULL;
    vec->count = vec->cap = 0;
}

int
cf_vec_room(struct cf_vec *vec, uint32_t more)
{
    uint64_t need = (uint64_t)vec->count + more, cap = vec->cap;
    void *grown;

    if (need <= cap)
        return 0;
    cap += cap / 2;
    if (cap < need)
        cap = need < 16 ? 16 : need;
    if (cap >= CF_NONE)
        return -1;
    grown = vec->is_borrowed ? malloc(cap * vec->item) : realloc(vec->data, cap * vec->item);
    if (grown == NULL)
        return -1;
    if (vec->is_borrowed)
        memcpy(grown, vec->data, (size_t)vec->count * vec->item);
    vec->data = grown;
    vec->cap = (uint32_t)cap;
    vec->is_borrowed = false;
    return 0;
}

uint32_t
cf_vec_push(struct cf_vec *vec, const void *item)
{
    memcpy((char *)vec->data + (size_t)vec->count * vec->item, item, vec->item);
    return vec->count++;
}

void
cf_table_init(struct cf_table *table)
{
    cf_vec_init(&table->buckets, sizeof(uint32_t));
    cf_vec_init(&table->links, sizeof(struct cf_link));
    table->used = 0;
}

void
cf_table_release(struct cf_table *table)
{
    cf_vec_release(&table->buckets);
    cf_vec_release(&table->links);
}

/* The largest power of two that is not above `n` (n > 0). */
static uint32_t
floor_power(uint32_t n)
{
    return 1u << (31 - __builtin_clz(n));
}

/* Buckets already split in this round are found by one more bit than the others. */
static uint32_t *
bucket_of(const struct cf_table *table, uint32_t hash)
{
    uint32_t count = table->buckets.count, size = floor_power(count),
             at = hash & (2 * size - 1);

    if (at >= count)
        at = hash & (size - 1);
    return CF_AT(uint32_t, &table->buckets, at);
}

int
cf_table_room(struct cf_table *table, uint32_t record)
{
    uint32_t more = record >= table->links.count ? record - table->links.count + 1 : 0;

    return cf_vec_room(&table->buckets, 2) < 0 || cf_vec_room(&table->links, more) < 0 ? -1
                                                                                       : 0;
}

/* Adds one bucket and moves into it what belongs there out of the one it splits. */
static void
split_bucket(struct cf_table *table)
{
    uint32_t none = CF_NONE, added = table->buckets.count, from, *tail_old, *tail_new, record;

    cf_vec_push(&table->buckets, &none);
    if (added == 0)
        return;
    from = added - floor_power(added);
    tail_old = CF_AT(uint32_t, &table->buckets, from);
    tail_new = CF_AT(uint32_t, &table->buckets, added);
    record = *tail_old;
    while (record != CF_NONE) {
        struct cf_link *link = CF_AT(struct cf_link, &table->links, record);
        uint32_t **tail =
            bucket_of(table, link->hash) == CF_AT(uint32_t, &table->buckets, added)
                ? &tail_new
                : &tail_old;
        **tail = record;
        *tail = &link->next;
        record = link->next;
    }
    *tail_old = CF_NONE;
    *tail_new = CF_NONE;
}

void
cf_table_insert(struct cf_table *table, uint32_t record, uint32_t hash)
{
    static const struct cf_link unused = {0, CF_NONE};
    struct cf_link *link;
    uint32_t *bucket;

    while (table->links.count <= record)
        cf_vec_push(&table->links, &unused);
    if (table->used >= table->buckets.count)
        split_bucket(table);
    bucket = bucket_of(table, hash);
    link = CF_AT(struct cf_link, &table->links, record);
    *link = (struct cf_link){hash, *bucket};
    *bucket = record;
    table->used++;
}

void
cf_table_remove(struct cf_table *table, uint32_t record)
{
    struct cf_link *link = CF_AT(struct cf_link, &table->links, record);
    uint32_t *at = bucket_of(table, link->hash);

    while (*at != record)
        at = &CF_AT(struct cf_link, &table->links, *at)->next;
    *at = link->next;
    table->used--;
}

static uint32_t
skip_others(const struct cf_table *table, uint32_t record, uint32_t hash)
{
    while (record != CF_NONE && CF_AT(struct cf_link, &table->links, record)->hash != hash)
        record = CF_AT(struct cf_link, &table->links, record)->next;
    return record;
}

uint32_t
cf_table_first(const struct cf_table *table, uint32_t hash)
{
    return table->buckets.count == 0 ? CF_NONE
                                     : skip_others(table, *bucket_of(table, hash), hash);
}

uint32_t
cf_table_next(const struct cf_table *table, uint32_t record)
{
    const struct cf_link *link = CF_AT(struct cf_link, &table->links, record);

    return skip_others(table, link->next, link->hash);
}

/* Everything of `root` below `key` into *ret_low, the rest into *ret_high. */
static void
split(const struct cf_treap_order *order, uint32_t root, const void *key, uint32_t *ret_low,
      uint32_t *ret_high)
{
    while (root != CF_NONE) {
        struct cf_treap_node *node = order->node(order->user, root);
        if (order->compare(order->user, root, key) < 0) {
            *ret_low = root;
            ret_low = &node->right;
            root = node->right;
        } else {
            *ret_high = root;
            ret_high = &node->left;
            root = node->left;
        }
    }
    *ret_low = CF_NONE;
    *ret_high = CF_NONE;
}

/* Everything in `low` is below everything in `high`. */
static void
join(const struct cf_treap_order *order, uint32_t low, uint32_t high, uint32_t *ret_root)
{
    while (low != CF_NONE && high != CF_NONE) {
        struct cf_treap_node *a = order->node(order->user, low),
                             *b = order->node(order->user, high);
        if (a->priority > b->priority) {
            *ret_root = low;
            ret_root = &a->right;
            low = a->right;
        } else {
            *ret_root = high;
            ret_root = &b->left;
            high = b->left;
        }
    }
    *ret_root = low != CF_NONE ? low : high;
}

void
cf_treap_insert(struct cf_treap *treap, const struct cf_treap_order *order, uint32_t record,
                const void *key)
{
    struct cf_treap_node *added = order->node(order->user, record);
    uint32_t *at = &treap->root;

    while (*at != CF_NONE) {
        struct cf_treap_node *node = order->node(order->user, *at);
        if (node->priority < added->priority)
            break;
        at = order->compare(order->user, *at, key) < 0 ? &node->right : &node->left;
    }
    split(order, *at, key, &added->left, &added->right);
    *at = record;
}

void
cf_treap_remove(struct cf_treap *treap, const struct cf_treap_order *order, uint32_t record,
                const void *key)
{
    uint32_t *at = &treap->root;

    while (*at != CF_NONE && *at != record) {
        struct cf_treap_node *node = order->node(order->user, *at);
        at = order->compare(order->user, *at, key) < 0 ? &node->right : &node->left;
    }
    if (*at == CF_NONE)
        return;
    struct cf_treap_node *gone = order->node(order->user, record);
    join(order, gone->left, gone->right, at);
}

uint32_t
cf_treap_at_or_after(const struct cf_treap *treap, const struct cf_treap_order *order,
                     const void *key)
{
    uint32_t at = treap->root, best = CF_NONE;

    while (at != CF_NONE) {
        const struct cf_treap_node *node = order->node(order->user, at);
        if (order->compare(order->user, at, key) < 0) {
            at = node->right;
        } else {
            best = at;
            at = node->left;
        }
    }
    return best;
}

uint32_t
cf_treap_after(const struct cf_treap *treap, const struct cf_treap_order *order,
               const void *key)
{
    uint32_t at = treap->root, best = CF_NONE;

    while (at != CF_NONE) {
        const struct cf_treap_node *node = order->node(order->user, at);
        if (order->compare(order->user, at, key) <= 0) {
            at = node->right;
        } else {
            best = at;
            at = node->left;
        }
    }
    return best;
}

uint32_t
cf_treap_before(const struct cf_treap *treap, const struct cf_treap_order *order,
                const void *key)
{
    uint32_t at = treap->root, best = CF_NONE;

    while (at != CF_NONE) {
        const struct cf_treap_node *node = order->node(order->user, at);
        if (order->compare(order->user, at, key) < 0) {
            best = at;
            at = node->right;
        } else {
            at = node->left;
        }
    }
    return best;
}
