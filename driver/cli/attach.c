/* Files beside the first prompt: image, audio, resource. */
#include "cli/attach.h"
#include "cli/launch.h"

#include "base/buf.h"
#include "base/error.h"
#include "base/mime.h"
#include "base/str.h"
#include "base/utf8.h"

#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *
last_part(const char *path)
{
    const char *slash = strrchr(path, '/');

    return slash != NULL ? slash + 1 : path;
}

static json_t *
base64(const char *bytes, size_t len)
{
    size_t size = sodium_base64_ENCODED_LEN(len, sodium_base64_VARIANT_ORIGINAL);
    cf_auto_free char *text = malloc(size);

    if (text == NULL)
        return NULL;
    sodium_bin2base64(text, size, (const unsigned char *)bytes, len, sodium_base64_VARIANT_ORIGINAL);
    return json_string(text);
}

/* attachment:NAME, with everything escaped that a URI cannot hold. */
static char *
uri_of(const char *name)
{
    struct cf_buf uri;

    cf_buf_init(&uri, 0);
    (void)cf_buf_adds(&uri, "attachment:");
    for (; *name != '\0'; name++)
        if (strchr("-._~", *name) != NULL || ((*name | 32) >= 'a' && (*name | 32) <= 'z') || (*name >= '0' && *name <= '9'))
            (void)cf_buf_add(&uri, name, 1);
        else
            (void)cf_buf_addf(&uri, "%%%02X", (unsigned char)*name);
    if (uri.failed) {
        cf_buf_release(&uri);
        return NULL;
    }
    return cf_buf_take(&uri, NULL);
}

static json_t *
resource(const char *name, const char *type, const char *bytes, size_t len)
{
    cf_auto_free char *uri = uri_of(name);
    bool is_text = cf_utf8_is_valid(bytes, len) && memchr(bytes, '\0', len) == NULL;
    json_t *inner = json_pack("{s:s, s:s*}", "uri", uri != NULL ? uri : "attachment:", "mimeType", type);

    (void)json_object_set_new(inner, is_text ? "text" : "blob", is_text ? json_stringn(bytes, len) : base64(bytes, len));
    return json_pack("{s:s, s:o}", "type", "resource", "resource", inner);
}

static json_t *
block_of(const char *path, const char *bytes, size_t len)
{
    const char *name = last_part(path), *type = cf_mime_type(name);

    if (type != NULL && strncmp(type, "image/", 6) == 0 && strcmp(type, "image/svg+xml") != 0)
        return json_pack("{s:s, s:o, s:s}", "type", "image", "data", base64(bytes, len), "mimeType", type);
    if (type != NULL && strncmp(type, "audio/", 6) == 0)
        return json_pack("{s:s, s:o, s:s}", "type", "audio", "data", base64(bytes, len), "mimeType", type);
    return resource(name, type, bytes, len);
}

int
cf_attach_read(const struct cf_flag_list *files, json_t **ret_blocks, struct cf_error *err)
{
    size_t len;

    for (size_t i = 0; i < files->count; i++) {
        cf_auto_free char *bytes = cf_read_file(files->items[i], CF_ATTACH_MOST, &len, err);
        if (bytes == NULL)
            return -1;
        if (*ret_blocks == NULL)
            *ret_blocks = json_array();
        if (json_array_append_new(*ret_blocks, block_of(files->items[i], bytes, len)) < 0)
            return cf_error_memory(err);
    }
    return 0;
}
