/*
 * engine/ignore.h: .dockerignore by Docker's pattern rules; this room's own header; pure. One
 * pattern a line, # comments, ! brings back, * ? [..] within a path part, ** across parts; the
 * last pattern that fits decides; a pattern that fits a folder holds for all beneath it.
 */
#ifndef CF_ENGINE_IGNORE_H
#define CF_ENGINE_IGNORE_H

#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>

struct cf_ignore;

/* Errors (CF_ERROR_CONFIG) name the line. At most 10,000 patterns of at most 4,096 bytes. */
CF_CHECKED int cf_ignore_parse(const char *bytes, size_t len, struct cf_ignore **ret_ignore,
                               struct cf_error *err);
void cf_ignore_free(struct cf_ignore *ignore);

/* Adds "!path", so that it is sent whatever the file says. */
CF_CHECKED int cf_ignore_keep(struct cf_ignore *ignore, const char *path,
                              struct cf_error *err);

/* `path` is relative, with slashes, without "./". */
bool cf_ignore_matches(const struct cf_ignore *ignore, const char *path);
/* For an ignored folder: may a ! pattern bring something beneath it back? */
bool cf_ignore_may_return_beneath(const struct cf_ignore *ignore, const char *dir);

#endif
