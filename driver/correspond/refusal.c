/* One reason, one place. */
#include "correspond/correspond.h"

#include "base/error.h"

#include <stdio.h>
#include <string.h>

int
cf_corr_refuse(struct cf_corr_refusal *refusal, const char *reason, const char *pointer,
               int64_t offset)
{
    refusal->reason = reason;
    refusal->offset = offset;
    (void)snprintf(refusal->pointer, sizeof refusal->pointer, "%s",
                   pointer == NULL ? "" : pointer);
    return -1;
}

int
cf_corr_refusal_error(const struct cf_corr_refusal *refusal, struct cf_error *err)
{
    enum cf_error_kind kind = CF_ERROR_CONFIG;

    if (strcmp(refusal->reason, "out_of_memory") == 0)
        return cf_error_memory(err);
    if (strcmp(refusal->reason, "raw_post_too_large") == 0 ||
        strcmp(refusal->reason, "canonical_envelope_too_large") == 0)
        kind = CF_ERROR_TOO_LARGE;
    if (refusal->offset >= 0)
        return cf_error_set(err, kind, 0, "correspondence event refused: %s at byte %lld",
                            refusal->reason, (long long)refusal->offset);
    return cf_error_set(err, kind, 0, "correspondence event refused: %s at \"%.200s\"",
                        refusal->reason, refusal->pointer);
}
