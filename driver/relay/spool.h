/*
 * relay/spool.h: a request body that waits for its decision: in memory to 256 KiB, beyond that
 * in a file of a private folder that has no name any more when its first byte is written.
 * Reading and writing the file is the loop's work (uv_fs), never a wait.
 */
#ifndef CF_RELAY_SPOOL_H
#define CF_RELAY_SPOOL_H

#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <uv.h>

#define CF_SPOOL_MEMORY (256u * 1024)
#define CF_SPOOL_WAIT (-1000000L)

struct cf_spool;

/* `dir` NULL: memory only. `on_ready` comes from the loop, never from inside a call, when what
 * answered "wait" can be tried again. NULL: out of memory. */
struct cf_spool *cf_spool_new(uv_loop_t *loop, const char *dir, void (*on_ready)(void *user),
                              void *user);
/* From anywhere; on_ready never comes afterwards, memory and file go when the system is done
 * with them. NULL is fine. */
void cf_spool_free(struct cf_spool *spool);

/* The bytes are taken. 0; CF_SPOOL_WAIT: no more before on_ready; -1: they cannot be kept. */
long cf_spool_add(struct cf_spool *spool, const char *bytes, size_t len);
/* All bytes are in. 0: reading may begin; CF_SPOOL_WAIT: ask again at on_ready; -1 as above.
 */
long cf_spool_end(struct cf_spool *spool);
uint64_t cf_spool_len(const struct cf_spool *spool);
/* The whole body when it is in memory, else NULL. Borrowed while the spool lives. */
const char *cf_spool_memory(const struct cf_spool *spool);

/* The next bytes, after cf_spool_end: how many, 0 at the end, CF_SPOOL_WAIT or -1. */
long cf_spool_read(struct cf_spool *spool, char *to, size_t size);
void cf_spool_rewind(struct cf_spool *spool);
/* Why it failed: an errno. */
int cf_spool_error(const struct cf_spool *spool);

#endif
