/* Exit codes: of an error that ended a run, and the worse of two. */
#include "diagnose/diagnose.h"

#include "base/str.h"
#include "json/json.h"

int
cf_diagnose_exit_code(enum cf_error_kind kind)
{
    switch (kind) {
    case CF_ERROR_NONE:
        return 0;
    case CF_ERROR_ENGINE:
    case CF_ERROR_ENGINE_TIMEOUT:
    case CF_ERROR_NOT_FOUND:
        return 3;
    case CF_ERROR_INTERNAL:
    case CF_ERROR_MEMORY:
    case CF_ERROR_TEARDOWN:
    case CF_ERROR_LEASE:
        return 4;
    case CF_ERROR_DEADLINE:
        return 5;
    case CF_ERROR_CANCELED:
        return 130;
    default:
        return 1; /* what the image, the program or the build file did */
    }
}

int
cf_diagnose_worse(int a, int b)
{
    static const int order[] = {4, 130, 3, 2, 5, 1, 0};

    for (size_t i = 0; i < CF_COUNT(order); i++)
        if (a == order[i] || b == order[i])
            return order[i];
    return 4;
}

bool
cf_diagnose_is_shown(const json_t *checks)
{
    size_t i, shown = 0;
    json_t *check;

    json_array_foreach(checks, i, check) {
        const char *id = cf_json_str(check, "id"), *status = cf_json_str(check, "status");

        if (cf_str_same(status, "failed"))
            return false;
        shown += cf_str_same(status, "passed") && !cf_str_same(id, "image_resolved") &&
                 !cf_str_same(id, "sandbox_provisioned") && !cf_str_same(id, "teardown_drained");
    }
    return shown > 0;
}
