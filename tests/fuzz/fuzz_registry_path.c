/* fuzz_registry_path.c: what is taken for a path of the registry keeps to its grammar, so that no
 * name, tag or digest can leave the folder or break a header. */
#include "registry/impl.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = malloc(size + 1), value[80];
    struct cf_registry_path path;

    memcpy(text, data, size);
    text[size] = '\0';
    cf_registry_path_read(text, &path);
    if (strstr(path.name, "..") == path.name || strstr(path.name, "/..") || strstr(path.name, "//"))
        abort();
    if (strspn(path.name, "abcdefghijklmnopqrstuvwxyz0123456789._-/") != strlen(path.name))
        abort();
    if (strpbrk(path.last, "/%\r\n \"") != NULL || strcmp(path.last, "..") == 0)
        abort();
    if (cf_registry_query(text, "digest", value, sizeof value) && strlen(value) >= sizeof value)
        abort();
    free(text);
    return 0;
}
