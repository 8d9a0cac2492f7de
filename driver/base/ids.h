/* base/ids.h: random names, known before the call that makes the thing. */
#ifndef CF_BASE_IDS_H
#define CF_BASE_IDS_H

#include <stddef.h>

/* `len` random bytes from the kernel; never fails (aborts when the kernel has none). */
void cf_random(void *bytes, size_t len);

/* 32 lower-case hex digits and NUL. */
void cf_id_hex(char out[33]);

/* "<prefix>" + 32 lower-case hex digits ("evt_", "subg_", "run_"); out holds strlen(prefix)+33. */
void cf_id_make(const char *prefix, char *out, size_t size);

#endif
