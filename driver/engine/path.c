/* Percent-encoding (RFC 3986). Failures stay in the buffer's own flag until the caller looks.
 */
#include "engine/path.h"
#include "engine/engine.h"

#include <string.h>

static bool
is_unreserved(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           c == '-' || c == '.' || c == '_' || c == '~';
}

static void
encode(struct cf_buf *path, const char *text, const char *also)
{
    for (; *text != '\0'; text++) {
        if (is_unreserved(*text) || strchr(also, *text) != NULL)
            (void)cf_buf_add(path, text, 1);
        else
            (void)cf_buf_addf(path, "%%%02X", (unsigned)(unsigned char)*text);
    }
}

void
cf_path_segment(struct cf_buf *path, const char *text)
{
    encode(path, text, "");
}

void
cf_path_image(struct cf_buf *path, const char *ref)
{
    encode(path, ref, "/:@");
}

int
cf_engine_query(struct cf_buf *path, const char *name, const char *value)
{
    bool has_query = path->data != NULL && strchr(path->data, '?') != NULL;

    (void)cf_buf_adds(path, has_query ? "&" : "?");
    encode(path, name, "");
    (void)cf_buf_adds(path, "=");
    encode(path, value, "");
    return path->failed ? -1 : 0;
}
