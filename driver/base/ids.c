/* Random names from the kernel's generator. */
#include "base/ids.h"
#include "base/str.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <sys/random.h>

void
cf_random(void *bytes, size_t len)
{
    char *to = bytes;

    while (len > 0) {
        ssize_t n = getrandom(to, len, 0);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            abort(); /* a kernel without randomness: nothing we name would be ours */
        to += n;
        len -= (size_t)n;
    }
}

void
cf_id_hex(char out[33])
{
    unsigned char bytes[16];

    cf_random(bytes, sizeof bytes);
    cf_hex(bytes, sizeof bytes, out);
}

void
cf_id_make(const char *prefix, char *out, size_t size)
{
    char hex[33];
    int n;

    cf_id_hex(hex);
    n = snprintf(out, size, "%s%s", prefix, hex);
    assert(n > 0 && (size_t)n < size);
    (void)n;
}
