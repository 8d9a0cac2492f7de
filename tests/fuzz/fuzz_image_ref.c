/* Image references: whatever is accepted is put together again and read the same. */
#include "engine/engine.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct cf_image_ref ref, again;
    struct cf_error err;
    char *text = strndup((const char *)data, size), joined[1024];

    if (cf_image_ref_parse(text, &ref, &err) == 0) {
        snprintf(joined, sizeof joined, "%s%s%s%s%s", ref.repo, ref.tag[0] ? ":" : "", ref.tag,
                 ref.digest[0] ? "@" : "", ref.digest);
        if (strcmp(joined, text) != 0 || cf_image_ref_parse(joined, &again, &err) != 0 ||
            memcmp(&ref, &again, sizeof ref) != 0)
            abort();
    }
    free(text);
    return 0;
}
