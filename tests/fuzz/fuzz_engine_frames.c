/* The Engine's attach framing, cut where the first byte says; payload never exceeds what came.
 */
#include "engine/frames.h"

#include <stdlib.h>

static int
on_payload(void *user, unsigned type, const char *bytes, size_t len)
{
    size_t *total = user;

    if (type > 3 || len == 0)
        abort();
    *total += len;
    return *total > 100000 ? -2 : 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct cf_frames frames = {0};
    struct cf_error err;
    size_t total = 0, piece = size > 0 ? (size_t)data[0] + 1 : 1;

    for (size_t at = 1; at < size; at += piece)
        if (cf_frames_feed(&frames, (const char *)data + at,
                           size - at < piece ? size - at : piece, on_payload, &total,
                           &err) < 0)
            break;
    if (total > size)
        abort();
    return 0;
}
