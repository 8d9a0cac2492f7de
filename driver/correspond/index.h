/*
 * correspond/index.h: the few structures a store stands on. Everything refers to everything
 * else by position, never by pointer, so that a store is a handful of arrays that can be
 * written to disk and used again as they are.
 */
#ifndef CF_CORRESPOND_INDEX_H
#define CF_CORRESPOND_INDEX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define CF_NONE UINT32_MAX

/* A growing array of equal items. */
struct cf_vec {
    void *data;
    uint32_t count, cap, item;
    bool is_borrowed; /* `data` lies in somebody's block */
};

void cf_vec_init(struct cf_vec *vec, size_t item);
void cf_vec_release(struct cf_vec *vec);

/* Room for `more` items beyond count, so that as many cf_vec_push calls cannot fail. */
int cf_vec_room(struct cf_vec *vec, uint32_t more);
uint32_t cf_vec_push(struct cf_vec *vec, const void *item); /* position */

#define CF_AT(type, vec, i) (&((type *)(vec)->data)[i])

/*
 * Which records have a given hash. Linear hashing: each insert splits at most one bucket, so
 * no insert pays for the ones before it. Records are numbered by the caller.
 */
struct cf_table {
    struct cf_vec buckets; /* uint32_t, first record */
    struct cf_vec links;   /* struct cf_link, by record */
    uint32_t used;
};
struct cf_link {
    uint32_t hash, next;
};

void cf_table_init(struct cf_table *table);
void cf_table_release(struct cf_table *table);
int cf_table_room(struct cf_table *table, uint32_t record); /* for one insert of `record` */
void cf_table_insert(struct cf_table *table, uint32_t record, uint32_t hash);
void cf_table_remove(struct cf_table *table, uint32_t record);

/* Records of a hash: for (r = cf_table_first(t, h); r != CF_NONE; r = cf_table_next(t, r)). */
uint32_t cf_table_first(const struct cf_table *table, uint32_t hash);
uint32_t cf_table_next(const struct cf_table *table, uint32_t record);

/*
 * An ordered set of records: a treap whose priorities the caller draws (unpredictably, so that
 * nobody can choose ids that make it deep). The links live in the caller's records.
 */
struct cf_treap_node {
    uint32_t left, right, priority;
};
struct cf_treap {
    uint32_t root;
};
struct cf_treap_order {
    struct cf_treap_node *(*node)(const void *user, uint32_t record);
    int (*compare)(const void *user, uint32_t record,
                   const void *key); /* record against key */
    const void *user;
};

void cf_treap_insert(struct cf_treap *treap, const struct cf_treap_order *order,
                     uint32_t record, const void *key);
void cf_treap_remove(struct cf_treap *treap, const struct cf_treap_order *order,
                     uint32_t record, const void *key);
/* The first record not below / above `key`, the last one below it; CF_NONE when there is none.
 */
uint32_t cf_treap_at_or_after(const struct cf_treap *treap, const struct cf_treap_order *order,
                              const void *key);
uint32_t cf_treap_after(const struct cf_treap *treap, const struct cf_treap_order *order,
                        const void *key);
uint32_t cf_treap_before(const struct cf_treap *treap, const struct cf_treap_order *order,
                         const void *key);

#endif
