/*
 * registry/file.h: one file written or read in order through libuv's worker pool, so that no
 * disk is ever waited for on the loop. One operation at a time.
 */
#ifndef CF_REGISTRY_FILE_H
#define CF_REGISTRY_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <uv.h>

#define CF_FILE_PIECE (128u * 1024) /* most bytes of one read */

struct cf_file;

/* `result` is a byte count or 0, or a negative libuv error. `bytes` is what a read got,
 * borrowed until return, else NULL. The next operation may be begun from inside. */
typedef void cf_file_done_fn(void *user, int64_t result, const char *bytes);

/* The file is opened (0600; created when `is_new`) with the first operation. `path` is copied.
 * `on_gone` comes when the file is closed and its memory free, from the loop. NULL: memory. */
struct cf_file *cf_file_new(uv_loop_t *loop, const char *path, bool is_new,
                            void (*on_gone)(void *user), void *user);

/* Appends; `bytes` are copied. `done` comes later, once, unless cf_file_close comes first. */
void cf_file_write(struct cf_file *file, const char *bytes, size_t len, cf_file_done_fn *done,
                   void *user);
/* Reads up to CF_FILE_PIECE bytes at `offset`; result 0 at the file's end. */
void cf_file_fetch(struct cf_file *file, uint64_t offset, cf_file_done_fn *done, void *user);
/* Ends writing and gives the file its name; `path` is copied. */
void cf_file_rename(struct cf_file *file, const char *path, cf_file_done_fn *done, void *user);

/* Ends it, also in the middle of an operation, whose `done` then does not come. NULL is fine.
 */
void cf_file_close(struct cf_file *file, bool removes);

#endif
