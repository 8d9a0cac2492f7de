/* base/clock.h: monotonic time for order and deadlines, wall time for labels only. */
#ifndef CF_BASE_CLOCK_H
#define CF_BASE_CLOCK_H

#include <stdint.h>

uint64_t cf_clock_us(void); /* CLOCK_MONOTONIC, microseconds */
uint64_t cf_clock_ms(void);
int64_t cf_clock_unix(void); /* seconds since 1970, wall clock */

/* "2026-01-02T03:04:05Z" */
void cf_clock_rfc3339(int64_t unix_s, char out[21]);

#endif
