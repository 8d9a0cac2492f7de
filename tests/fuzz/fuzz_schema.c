/* fuzz_schema.c: a schema, a NUL byte, an instance: admission and validation stay bounded. */
#include "schema/schema.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void
require(bool holds)
{
    if (!holds)
        abort();
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const uint8_t *nul = memchr(data, 0, size);
    size_t schema_len = nul == NULL ? size : (size_t)(nul - data);
    const char *instance = nul == NULL ? "{}" : (const char *)nul + 1;
    size_t instance_len = nul == NULL ? 2 : size - schema_len - 1;
    struct cf_schema_report report = {0};
    struct cf_schema *schema = NULL;
    struct cf_schema_size got;
    struct cf_error err;

    int status = cf_schema_admit((const char *)data, schema_len, &schema, &report, &err);
    require((status == 0) == (report.count == 0) && (status == 0) == (schema != NULL));
    if (status == 0) {
        cf_schema_measure(schema, &got);
        require(got.expansion <= CF_SCHEMA_MAX_EXPANSION && got.ref_depth <= CF_SCHEMA_MAX_REF_DEPTH &&
                got.trusted_patterns == 0);
        status = cf_schema_validate_text(schema, instance, instance_len, &report, &err);
        require((status == 0) == (report.count == 0) && report.work <= CF_SCHEMA_WORK);
    }
    cf_schema_report_release(&report);
    cf_schema_free(schema);
    return 0;
}
