/* .dockerignore: the patterns before the first NUL byte, a path behind it. What is ignored by
 * the file and kept by name is not ignored. */
#include "engine/ignore.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const uint8_t *nul = size > 0 ? memchr(data, 0, size) : NULL;
    size_t len = nul != NULL ? (size_t)(nul - data) : size;
    struct cf_ignore *ignore;
    struct cf_error err;

    if (size > 4096 || cf_ignore_parse((const char *)data, len, &ignore, &err) < 0)
        return 0;
    char *path =
        nul != NULL ? strndup((const char *)nul + 1, size - len - 1) : strdup("a/b.c");
    (void)cf_ignore_matches(ignore, path);
    (void)cf_ignore_may_return_beneath(ignore, path);
    if (path[0] != '\0' && strlen(path) < 1000 && path[0] != '/' &&
        strstr(path, "//") == NULL && strchr(path, '.') == NULL &&
        path[strlen(path) - 1] != '/' && cf_ignore_keep(ignore, path, &err) == 0 &&
        cf_ignore_matches(ignore, path))
        abort();
    free(path);
    cf_ignore_free(ignore);
    return 0;
}
