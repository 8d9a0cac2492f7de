/* Exit codes: of an error that ended a run, and the worse of two. */
#include "diagnose/diagnose.h"

#include "base/str.h"

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
