/*
 * cfrunner/memory.h: where cfrunner's own memory comes from.
 *
 * A host may bring its own allocator, for a budget, for accounting, or for tests. It serves
 * what cfrunner allocates itself; jansson, libuv, libcurl, libsodium and libarchive have
 * process-wide hooks of their own, which are the host's to set.
 */
#ifndef CFRUNNER_MEMORY_H
#define CFRUNNER_MEMORY_H

#include <cfrunner/error.h>
#include <cfrunner/version.h>

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

struct cf_memory {
    uint32_t size; /* sizeof(struct cf_memory) where the host was built */
    uint32_t reserved;
    void *user;
    /*
     * realloc's contract in one function: block NULL allocates, size 0 frees (and returns
     * NULL), else the block is moved. NULL for "no memory": the run that asked ends with an
     * error, the process does not. Aligned as malloc does. Called on the host's thread only.
     */
    void *(*resize)(void *user, void *block, size_t size);
};

/*
 * Sets the allocator, for this copy of the library (a plugin is one of its own). Copied.
 * Returns -1 when anything was allocated already: a block must go back where it came from. So
 * it is the first call of all, before cf_library_init.
 */
CF_API CF_CHECKED int cf_library_set_memory(const struct cf_memory *memory,
                                            struct cf_error *err);

/* Frees what a function of these headers returned as "yours (free)". Without a host's
 * allocator that is free() and nothing else. NULL is fine. */
CF_API void cf_free(void *block);

#ifdef __cplusplus
}
#endif
#endif
