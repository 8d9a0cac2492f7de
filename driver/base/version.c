#include <cfrunner/version.h>

const char *
cf_version(void)
{
    return CFRUNNER_VERSION;
}
