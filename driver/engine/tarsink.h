/* engine/tarsink.h: a libarchive tar writer into a buffer; this room's own header. */
#ifndef CF_ENGINE_TARSINK_H
#define CF_ENGINE_TARSINK_H

#include "base/buf.h"
#include "base/error.h"

struct archive;

/* `to` is borrowed until archive_write_free; the reader may take bytes out of it meanwhile. */
struct archive *cf_tarsink_new(struct cf_buf *to);
int cf_tarsink_error(struct archive *archive, const char *path, struct cf_error *err);

#endif
