/*
 * The one door of memory. Without a host's allocator it is libc's, one well-predicted branch
 * later. The hook is the single piece of state that outlives a run, beside curl's and
 * sodium's: a block knows nothing of the run it belongs to, so its origin must be the same for
 * all.
 */
#include "base/memory.h"

#include "base/error.h"

#include <cfrunner/memory.h>

#include <stdbool.h>
#include <stdint.h>

#undef malloc
#undef calloc
#undef realloc
#undef free

static struct cf_memory host; /* resize NULL: libc */
static bool is_used;

void *
cf_mem_alloc(size_t size)
{
    is_used = true;
    if (host.resize == NULL)
        return malloc(size);
    return host.resize(host.user, NULL, size > 0 ? size : 1);
}

void *
cf_mem_zeroed(size_t count, size_t size)
{
    size_t bytes;
    void *block;

    is_used = true;
    if (host.resize == NULL)
        return calloc(count, size);
    if (__builtin_mul_overflow(count, size, &bytes))
        return NULL;
    block = cf_mem_alloc(bytes);
    if (block != NULL)
        memset(block, 0, bytes);
    return block;
}

void *
cf_mem_resize(void *block, size_t size)
{
    is_used = true;
    if (host.resize == NULL)
        return realloc(block, size);
    return host.resize(host.user, block, size > 0 ? size : 1);
}

char *
cf_mem_copy(const char *text)
{
    size_t bytes = strlen(text) + 1;
    char *copy = cf_mem_alloc(bytes);

    return copy != NULL ? memcpy(copy, text, bytes) : NULL;
}

char *
cf_mem_copy_part(const char *text, size_t most)
{
    size_t len = strnlen(text, most);
    char *copy = cf_mem_alloc(len + 1);

    if (copy == NULL)
        return NULL;
    memcpy(copy, text, len);
    copy[len] = '\0';
    return copy;
}

int
cf_mem_vprint(char **ret_text, const char *fmt, va_list args)
{
    va_list again;
    char *text = NULL;
    int len;

    va_copy(again, args);
    len = vsnprintf(NULL, 0, fmt, again);
    va_end(again);
    if (len >= 0)
        text = cf_mem_alloc((size_t)len + 1);
    if (text == NULL)
        return -1;
    (void)vsnprintf(text, (size_t)len + 1, fmt, args);
    *ret_text = text;
    return len;
}

int
cf_mem_print(char **ret_text, const char *fmt, ...)
{
    va_list args;
    int len;

    va_start(args, fmt);
    len = cf_mem_vprint(ret_text, fmt, args);
    va_end(args);
    return len;
}

void
cf_mem_free(void *block)
{
    if (host.resize == NULL)
        free(block);
    else if (block != NULL)
        (void)host.resize(host.user, block, 0);
}

void
cf_free(void *block)
{
    cf_mem_free(block);
}

int
cf_library_set_memory(const struct cf_memory *memory, struct cf_error *err)
{
    if (memory->size < sizeof *memory || memory->resize == NULL)
        return cf_error_set(err, CF_ERROR_CONFIG, 0, "the allocator is not whole: size %u, %s",
                            memory->size,
                            memory->size < sizeof *memory ? "too short" : "no resize");
    if (is_used) {
        (void)cf_error_set(err, CF_ERROR_CONFIG, 0,
                           "memory was allocated already: an allocator comes too late");
        return cf_error_fix(err, "set it before every other call of the library");
    }
    host = *memory;
    return 0;
}
