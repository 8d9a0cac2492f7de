#include "base/clock.h"

#include <string.h>
#include <time.h>

uint64_t
cf_clock_us(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (uint64_t)ts.tv_sec * 1000000u + (uint64_t)ts.tv_nsec / 1000u;
}

uint64_t
cf_clock_ms(void)
{
    return cf_clock_us() / 1000u;
}

int64_t
cf_clock_unix(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_REALTIME, &ts);
    return ts.tv_sec;
}

void
cf_clock_rfc3339(int64_t unix_s, char out[21])
{
    time_t when = (time_t)unix_s;
    struct tm tm;

    if (gmtime_r(&when, &tm) == NULL || strftime(out, 21, "%Y-%m-%dT%H:%M:%SZ", &tm) == 0)
        strcpy(out, "1970-01-01T00:00:00Z");
}
