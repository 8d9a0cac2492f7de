/* fuzz_pattern.c: a pattern, a NUL byte, a text. */
#include "base/utf8.h"
#include "schema/pattern.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const char *text = (const char *)data;
    const char *nul = memchr(text, 0, size);
    size_t len = nul == NULL ? size : (size_t)(nul - text);
    size_t rest = nul == NULL ? 0 : size - len - 1;
    struct cf_pattern *pattern = NULL;
    struct cf_pattern_refusal why = {0};
    uint64_t work = 100000;

    if (cf_pattern_compile(text, len, &pattern, &why) < 0) {
        if (why.code == NULL || why.what == NULL)
            abort();
        return 0;
    }
    if (cf_utf8_is_valid(text + size - rest, rest))
        (void)cf_pattern_search(pattern, text + size - rest, rest, &work); /* any verdict will do */
    cf_pattern_free(pattern);
    return 0;
}
