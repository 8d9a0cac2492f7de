/* engine/file.h: small files of the author's, read whole; this room's own header. */
#ifndef CF_ENGINE_FILE_H
#define CF_ENGINE_FILE_H

#include "base/error.h"

#include <stddef.h>

/* Reads a regular file of at most `limit_bytes`. Returns 0 with *ret_bytes yours (free) and
 * NUL-terminated; or -1: CF_ERROR_CONFIG with errno as code (ENOENT when there is none),
 * CF_ERROR_TOO_LARGE over the limit. */
CF_CHECKED int cf_file_read(const char *path, size_t limit_bytes, char **ret_bytes,
                            size_t *ret_len, struct cf_error *err);

#endif
