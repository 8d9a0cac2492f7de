/*
 * engine/context.h: a build context as a stream of tar bytes, made while the Engine takes it:
 * never held whole. The folder is read through libuv's file requests; at most about 200 KiB
 * wait. This room's own header.
 */
#ifndef CF_ENGINE_CONTEXT_H
#define CF_ENGINE_CONTEXT_H

#include "base/error.h"

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <uv.h>

struct cf_context;

/*
 * Looks at the folder, its .dockerignore and its Dockerfile. -1 with CF_ERROR_CONFIG: no
 * folder, empty, no Dockerfile, a Dockerfile outside, a bad .dockerignore. `on_ready` comes
 * from the loop after a read that said CF_ENGINE_SOURCE_WAIT. `labels` (may be NULL, borrowed
 * during the call) are written into the Dockerfile that is sent, behind each FROM.
 */
CF_CHECKED int cf_context_open(uv_loop_t *loop, const char *dir, const char *dockerfile,
                               const json_t *labels, void (*on_ready)(void *user), void *user,
                               struct cf_context **ret_context, struct cf_error *err);
/* Next bytes: how many, 0 at the end, CF_ENGINE_SOURCE_WAIT, or -1 (cf_context_error). */
long cf_context_read(struct cf_context *context, char *to, size_t size);
/* Why reading failed: CF_ERROR_CONFIG naming the file. kind NONE when it did not. */
const struct cf_error *cf_context_error(const struct cf_context *context);
/* Whether the Dockerfile that is sent carries the labels. */
bool cf_context_is_labelled(const struct cf_context *context);
/* A line number of the Dockerfile that is sent, as the author counts. */
unsigned cf_context_author_line(const struct cf_context *context, unsigned number);
/* Entries put so far. */
uint64_t cf_context_entries(const struct cf_context *context);
void cf_context_close(struct cf_context *context, void (*on_closed)(void *user), void *user);

#endif
