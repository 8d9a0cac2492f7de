/* correspond/correspond.h: the room's front door. All of it is public, plus the little that
 * the journal needs to keep a store's index on disk. */
#ifndef CF_CORRESPOND_CORRESPOND_H
#define CF_CORRESPOND_CORRESPOND_H

#include <cfrunner/correspondence.h>

#include "base/buf.h"

/* Appends `text` as a canonical JSON string with its quotes. */
int cf_corr_put_string(struct cf_buf *to, const char *text);

/* Fills a refusal; returns -1. `pointer` NULL is "". */
int cf_corr_refuse(struct cf_corr_refusal *refusal, const char *reason, const char *pointer,
                   int64_t offset);

/*
 * The index as one relocatable block, so that a large journal opens without being read. The
 * block belongs to this build (layout and byte order); a foreign one is refused. `where` of
 * the last event and the like are the journal's to remember.
 */
size_t cf_corr_store_save_size(const struct cf_corr_store *store);
void cf_corr_store_save(const struct cf_corr_store *store, void *block);

/* Uses `block` (8-aligned, writable, borrowed until cf_corr_store_free) as the store's memory.
 * The bytes must be ones that cf_corr_store_save wrote: the caller holds a checksum over them.
 * NULL: another layout, or out of memory. */
struct cf_corr_store *cf_corr_store_load(void *block, size_t size, cf_corr_fetch_fn *fetch,
                                         void *user);

/* Where the event with this received_seq is kept, and its project. */
uint64_t cf_corr_store_where(const struct cf_corr_store *store, uint64_t received_seq);
const char *cf_corr_store_project(const struct cf_corr_store *store);

#endif
