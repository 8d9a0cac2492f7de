/*
 * A store as one relocatable block: its arrays one behind the other, under a head that says
 * where. Nothing in it is a pointer, so a journal writes it to disk and later uses it where it
 * lies.
 */
#include "correspond/store.h"

#include <stdlib.h>
#include <string.h>

#define STORE_TABLES 7

#define BLOCK_MAGIC 0x31786469722d6663u /* also tells byte orders apart */

size_t
cf_store_list_arrays(struct cf_corr_store *s, struct cf_vec *list[CF_STORE_ARRAYS])
{
    struct cf_vec *const arrays[] = {
        &s->events,
        &s->sessions,
        &s->forks,
        &s->foci,
        &s->texts,
        &s->bytes,
        &s->groups,
        &s->claims,
        &s->waits,
        &s->by_id.buckets,
        &s->by_id.links,
        &s->by_slot.buckets,
        &s->by_slot.links,
        &s->by_session.buckets,
        &s->by_session.links,
        &s->by_focus.buckets,
        &s->by_focus.links,
        &s->by_text.buckets,
        &s->by_text.links,
        &s->by_group.buckets,
        &s->by_group.links,
        &s->by_wait.buckets,
        &s->by_wait.links,
    };

    memcpy(list, arrays, sizeof arrays);
    return sizeof arrays / sizeof arrays[0];
}

void
cf_store_init_arrays(struct cf_corr_store *s)
{
    struct cf_table *const tables[] = {&s->by_id,   &s->by_slot,  &s->by_session, &s->by_focus,
                                       &s->by_text, &s->by_group, &s->by_wait};

    cf_vec_init(&s->events, sizeof(struct cf_stored));
    cf_vec_init(&s->sessions, sizeof(struct cf_session));
    cf_vec_init(&s->forks, sizeof(struct cf_fork));
    cf_vec_init(&s->foci, sizeof(struct cf_focus));
    cf_vec_init(&s->texts, sizeof(struct cf_text));
    cf_vec_init(&s->bytes, 1);
    cf_vec_init(&s->groups, sizeof(struct cf_group));
    cf_vec_init(&s->claims, sizeof(struct cf_claim));
    cf_vec_init(&s->waits, sizeof(struct cf_wait));
    cf_vec_init(&s->kept, 1);
    for (size_t i = 0; i < sizeof tables / sizeof tables[0]; i++)
        cf_table_init(tables[i]);
}

struct block_array {
    uint64_t at;
    uint32_t count, cap, item;
};

struct block_head {
    uint64_t magic, size;
    uint32_t head_size, arrays;
    struct cf_store_head head;
    uint32_t used[STORE_TABLES];
    struct block_array array[CF_STORE_ARRAYS];
};

/* Some empty room stays behind each array, so that a few appends after a load move nothing. */
static uint32_t
saved_cap(const struct cf_vec *vec)
{
    uint64_t cap = (uint64_t)vec->count + vec->count / 16 + 4096 / vec->item + 16;

    return cap >= CF_NONE ? vec->count : (uint32_t)cap;
}

static uint64_t
align_up(uint64_t at)
{
    return (at + 63) & ~(uint64_t)63;
}

static uint64_t
lay_out(const struct cf_corr_store *store, struct block_head *head)
{
    struct cf_vec *list[CF_STORE_ARRAYS];
    uint64_t at = align_up(sizeof *head);

    head->arrays = (uint32_t)cf_store_list_arrays((struct cf_corr_store *)store, list);
    for (uint32_t i = 0; i < head->arrays; i++) {
        head->array[i] =
            (struct block_array){at, list[i]->count, saved_cap(list[i]), list[i]->item};
        at = align_up(at + (uint64_t)head->array[i].cap * list[i]->item);
    }
    head->size = at;
    return at;
}

size_t
cf_corr_store_save_size(const struct cf_corr_store *store)
{
    struct block_head head;

    return lay_out(store, &head);
}

static void
list_tables(struct cf_corr_store *s, struct cf_table *list[STORE_TABLES])
{
    struct cf_table *const tables[] = {&s->by_id,   &s->by_slot,  &s->by_session, &s->by_focus,
                                       &s->by_text, &s->by_group, &s->by_wait};

    memcpy(list, tables, sizeof tables);
}

void
cf_corr_store_save(const struct cf_corr_store *store, void *block)
{
    struct cf_vec *list[CF_STORE_ARRAYS];
    struct cf_table *tables[STORE_TABLES];
    struct block_head *head = block;

    memset(head, 0, sizeof *head);
    (void)lay_out(store, head);
    head->magic = BLOCK_MAGIC;
    head->head_size = sizeof *head;
    head->head = store->head;
    list_tables((struct cf_corr_store *)store, tables);
    for (int i = 0; i < STORE_TABLES; i++)
        head->used[i] = tables[i]->used;
    (void)cf_store_list_arrays((struct cf_corr_store *)store, list);
    for (uint32_t i = 0; i < head->arrays; i++) {
        char *to = (char *)block + head->array[i].at;
        size_t len = (size_t)list[i]->count * list[i]->item,
               size = (size_t)head->array[i].cap * list[i]->item;
        if (len > 0)
            memcpy(to, list[i]->data, len);
        memset(to + len, 0, size - len);
    }
}

/* Whether every array has the shape this build gives it and lies inside the block. */
static bool
is_our_layout(struct cf_vec *const list[CF_STORE_ARRAYS], size_t count,
              const struct block_head *head, size_t size)
{
    if (size < sizeof *head || head->magic != BLOCK_MAGIC || head->head_size != sizeof *head ||
        head->size != size || head->arrays != count)
        return false;
    for (size_t i = 0; i < count; i++) {
        const struct block_array *a = &head->array[i];
        if (a->item != list[i]->item || a->count > a->cap || a->at > size ||
            (uint64_t)a->cap * a->item > size - a->at)
            return false;
    }
    return memchr(head->head.project_id, '\0', sizeof head->head.project_id) != NULL;
}

struct cf_corr_store *
cf_corr_store_load(void *block, size_t size, cf_corr_fetch_fn *fetch, void *user)
{
    struct cf_corr_store *store = calloc(1, sizeof *store);
    const struct block_head *head = block;
    struct cf_vec *list[CF_STORE_ARRAYS];
    struct cf_table *tables[STORE_TABLES];
    size_t count;

    if (store == NULL)
        return NULL;
    cf_store_init_arrays(store);
    count = cf_store_list_arrays(store, list);
    if (!is_our_layout(list, count, head, size)) {
        free(store);
        return NULL;
    }
    store->head = head->head;
    list_tables(store, tables);
    for (int i = 0; i < STORE_TABLES; i++)
        tables[i]->used = head->used[i];
    for (size_t i = 0; i < count; i++) {
        list[i]->data = (char *)block + head->array[i].at;
        list[i]->count = head->array[i].count;
        list[i]->cap = head->array[i].cap;
        list[i]->is_borrowed = true;
    }
    store->fetch = fetch;
    store->user = user;
    return store;
}
