/* Two states: in a header, or in a payload of `left` bytes. */
#include "engine/frames.h"

#include <string.h>

static int
open_frame(struct cf_frames *frames, struct cf_error *err)
{
    const unsigned char *h = frames->head;

    if (h[0] > 3 || h[1] != 0 || h[2] != 0 || h[3] != 0)
        return cf_error_set(err, CF_ERROR_ENGINE, 0,
                            "attach stream: %02x %02x %02x %02x is not a frame header", h[0],
                            h[1], h[2], h[3]);
    frames->type = h[0];
    frames->left = (uint32_t)h[4] << 24 | (uint32_t)h[5] << 16 | (uint32_t)h[6] << 8 | h[7];
    frames->head_len = 0;
    return 0;
}

int
cf_frames_feed(struct cf_frames *frames, const char *bytes, size_t len,
               int (*on_payload)(void *user, unsigned type, const char *bytes, size_t len),
               void *user, struct cf_error *err)
{
    while (len > 0) {
        size_t take;
        if (frames->left > 0) {
            take = len < frames->left ? len : frames->left;
            frames->left -= (uint32_t)take;
            int rc = on_payload(user, frames->type, bytes, take);
            if (rc < 0)
                return rc;
        } else {
            size_t want = sizeof frames->head - frames->head_len;
            take = len < want ? len : want;
            memcpy(frames->head + frames->head_len, bytes, take);
            frames->head_len += (unsigned)take;
            if (frames->head_len == sizeof frames->head && open_frame(frames, err) < 0)
                return -1;
        }
        bytes += take;
        len -= take;
    }
    return 0;
}
