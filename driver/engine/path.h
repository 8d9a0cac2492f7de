/* engine/path.h: request paths put together from strange words; this room's own header. */
#ifndef CF_ENGINE_PATH_H
#define CF_ENGINE_PATH_H

#include "base/buf.h"

/* One segment: everything but unreserved characters is percent-encoded, '/' too. */
void cf_path_segment(struct cf_buf *path, const char *text);
/* An image name: as above, but '/', ':' and '@' stay, as the Engine's routes want them. */
void cf_path_image(struct cf_buf *path, const char *ref);

#endif
