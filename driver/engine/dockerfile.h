/* engine/dockerfile.h: what we read from an author's Dockerfile, and the one change we make to
 * it on its way to the engine. This room's own header; pure. */
#ifndef CF_ENGINE_DOCKERFILE_H
#define CF_ENGINE_DOCKERFILE_H

#include "base/buf.h"

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

/*
 * Copies a Dockerfile into `out` with one LABEL instruction behind each FROM, so that every
 * image a build makes, also the nameless ones of a build that was cut, carries `labels` (an
 * object of strings) and can be found by them. Returns true when at least one was put in;
 * false (and `out` is not to be used) when there is no FROM, or a label has characters that
 * would need quoting.
 */
bool cf_dockerfile_label(const char *text, size_t len, const json_t *labels,
                         struct cf_buf *out);

/* The author's number of line `number` of such a copy: the lines put in before it do not
 * count. `labels` as they were given then. */
unsigned cf_dockerfile_author_line(const char *copy, size_t len, const json_t *labels,
                                   unsigned number);

/* Calls `on_base` for each image a FROM names (borrowed until it returns), as far as it can be
 * told without running the build: not "scratch", no name with a variable in it. The name of an
 * earlier stage looks like an image's and is given too. */
void cf_dockerfile_bases(const char *text, size_t len,
                         void (*on_base)(void *user, const char *name), void *user);

#endif
