/* fuzz_json.c: what parses is written and read back the same; our scanner and jansson agree. */
#include "json/json.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct cf_json_limits limits = {.depth = 40, .nodes = 1000, .reject_duplicates = true};
    struct cf_error err;
    json_error_t why;
    json_t *value = NULL, *again;
    size_t len;
    char *text;

    enum cf_json_fault fault = cf_json_read((const char *)data, size, &limits, &value, &err);
    if (fault == CF_JSON_FAULT_TEXT) {
        if (memchr(data, 0, size) != NULL)
            return 0; /* jansson reads a NUL byte behind the value as the end of the text */
        again = json_loadb((const char *)data, size,
                           JSON_DECODE_ANY | JSON_ALLOW_NUL | JSON_REJECT_DUPLICATES, &why);
        if (again != NULL)
            abort(); /* jansson took what our scanner calls broken */
        return 0;
    }
    if (fault != CF_JSON_FAULT_NONE)
        return 0;
    again = json_loadb((const char *)data, size, JSON_DECODE_ANY | JSON_ALLOW_NUL | JSON_REJECT_DUPLICATES, &why);
    if (again == NULL || !json_equal(value, again))
        abort(); /* not the tree that jansson makes of it */
    json_decref(again);
    text = cf_json_dump(value, &len);
    again = text == NULL ? NULL : cf_json_parse(text, len, &limits, &err);
    if (again == NULL || !cf_json_same(value, again))
        abort();
    json_decref(again);
    json_decref(value);
    free(text);
    return 0;
}
