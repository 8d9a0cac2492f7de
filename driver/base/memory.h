/*
 * base/memory.h: every allocation of ours goes through one door (cfrunner/memory.h).
 *
 * The Makefile includes this header ahead of each file of the library (-include), so that no
 * room can forget it, and code reads as C always does: malloc, strdup, free. Two rules follow.
 * What a library allocated goes back to that library (json_decref, uv_..., archive_..._free),
 * never to free(); and what libc allocates inside (getline, realpath, open_memstream) is not
 * used in rooms. The command line, cf-init, the harnesses and the tests are built without it.
 */
#ifndef CF_BASE_MEMORY_H
#define CF_BASE_MEMORY_H

#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void *cf_mem_alloc(size_t size) __attribute__((malloc, alloc_size(1)));
void *cf_mem_zeroed(size_t count, size_t size) __attribute__((malloc, alloc_size(1, 2)));
void *cf_mem_resize(void *block, size_t size) __attribute__((alloc_size(2)));
char *cf_mem_copy(const char *text) __attribute__((malloc));
char *cf_mem_copy_part(const char *text, size_t most) __attribute__((malloc));
int cf_mem_print(char **ret_text, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
int cf_mem_vprint(char **ret_text, const char *fmt, va_list args)
    __attribute__((format(printf, 2, 0)));
void cf_mem_free(void *block);

#undef malloc
#undef calloc
#undef realloc
#undef reallocarray
#undef strdup
#undef strndup
#undef asprintf
#undef vasprintf
#undef free
#define malloc cf_mem_alloc
#define calloc cf_mem_zeroed
#define realloc cf_mem_resize
#define strdup cf_mem_copy
#define strndup cf_mem_copy_part
#define asprintf cf_mem_print
#define vasprintf cf_mem_vprint
#define free cf_mem_free
#define reallocarray cf_reallocarray_is_not_used_here
#define getline cf_getline_is_not_used_here
#define realpath cf_realpath_is_not_used_here
#define open_memstream cf_open_memstream_is_not_used_here
#endif
