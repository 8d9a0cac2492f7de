/* harness-common/file.h: whole files in, whole files out. */
#ifndef HN_FILE_H
#define HN_FILE_H

#include "base/buf.h"
#include "base/error.h"

/* Appends what is left in `fd` to `to`, up to its limit. `name` is for messages. */
int hn_read_all(int fd, const char *name, struct cf_buf *to, struct cf_error *err);
int hn_file_read(const char *path, struct cf_buf *to, struct cf_error *err);

/* The new content stands whole at `path`, or the old one does. */
int hn_file_replace(const char *path, const char *bytes, size_t len, struct cf_error *err);

/* All of it, or -1 with errno: for stdout, whose reader may be slow. */
int hn_write_all(int fd, const char *bytes, size_t len);

#endif
