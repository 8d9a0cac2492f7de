/*
 * tagged.h: a host's allocator that knows its own blocks. Each has a tag in front; a block
 * without it (libc's, a library's) or with a used-up one ends the process, and at a chosen
 * allocation there is no memory any more.
 */
#ifndef CF_TESTS_TAGGED_H
#define CF_TESTS_TAGGED_H

#include <cfrunner/memory.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TAGGED_ALIVE 0x5afeb10c5afeb10cull
#define TAGGED_FREED 0xdeadb10cdeadb10cull

struct tagged {
    unsigned long long made, alive, bytes, most_bytes;
    unsigned long long fail_from,
        fail_count; /* the fail_from-th allocation (1 is the first) and so many */
    unsigned long long failed;
};

struct tagged_block {
    unsigned long long tag, size;
};

static inline struct tagged_block *
tagged_open(void *bytes)
{
    struct tagged_block *block = (struct tagged_block *)bytes - 1;

    if (block->tag == TAGGED_ALIVE)
        return block;
    fprintf(stderr, "tagged: %p is %s\n", bytes,
            block->tag == TAGGED_FREED ? "freed already" : "no block of ours");
    abort();
}

static inline void *
tagged_resize(void *user, void *bytes, size_t size)
{
    struct tagged *t = user;
    struct tagged_block *old = bytes != NULL ? tagged_open(bytes) : NULL, *block = NULL;

    if (size > 0) {
        t->made++;
        if (t->fail_from > 0 && t->made >= t->fail_from &&
            t->made < t->fail_from + t->fail_count) {
            t->failed++;
            return NULL;
        }
        block = malloc(sizeof *block + size);
        if (block == NULL)
            return NULL;
        *block = (struct tagged_block){TAGGED_ALIVE, size};
        if (old != NULL)
            memcpy(block + 1, bytes, old->size < size ? old->size : size);
        t->alive++;
        t->bytes += size;
    }
    if (t->bytes > t->most_bytes)
        t->most_bytes = t->bytes;
    if (old != NULL) {
        t->alive--;
        t->bytes -= old->size;
        old->tag = TAGGED_FREED;
        free(old);
    }
    return block != NULL ? block + 1 : NULL;
}
#endif
