/*
 * fuzz_jcs.c: any bytes through the strict parser. What is admitted: jansson admits it too,
 * its canonical form is no longer than it was, and canonical form is a fixed point. What is
 * refused has a reason and an offset inside the text.
 */
#include "correspond/correspond.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void
must(bool is_so)
{
    if (!is_so)
        abort();
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct cf_corr_refusal refusal = {0};
    char *once = NULL, *twice = NULL;
    size_t once_len, twice_len;
    json_t *other, *again;

    must(cf_corr_init() == 0);
    if (cf_corr_canonicalize((const char *)data, size, 0, &once, &once_len, &refusal) < 0) {
        must(refusal.reason != NULL && refusal.offset >= 0 && (size_t)refusal.offset <= size);
        return 0;
    }
    must(once_len <= size && strlen(once) == once_len);
    must(cf_corr_canonicalize(once, once_len, 0, &twice, &twice_len, &refusal) == 0);
    must(once_len == twice_len && memcmp(once, twice, once_len) == 0);
    other =
        json_loadb((const char *)data, size, JSON_DECODE_ANY | JSON_REJECT_DUPLICATES, NULL);
    again = json_loadb(once, once_len, JSON_DECODE_ANY | JSON_REJECT_DUPLICATES, NULL);
    must(other != NULL && again != NULL && json_equal(other, again));
    json_decref(other);
    json_decref(again);
    free(once);
    free(twice);
    return 0;
}
