/*
 * engine/frames.h: the Engine's framing of an attached container's output without a TTY:
 * {type, 0, 0, 0, size_be32} and `size` bytes. This room's own header; pure. Payload is handed
 * on where it lies, by moving a pointer; only a split header is kept.
 */
#ifndef CF_ENGINE_FRAMES_H
#define CF_ENGINE_FRAMES_H

#include "base/error.h"

#include <stddef.h>
#include <stdint.h>

struct cf_frames { /* zeroed is ready */
    unsigned char head[8];
    unsigned head_len;
    uint8_t type;
    uint32_t left; /* payload bytes still to come */
};

/* Types 0 (stdin) to 3 (the engine's own error text). A larger one, or padding that is not
 * zero, is -1 with CF_ERROR_ENGINE. `on_payload` may answer <0 to end the feed with that
 * number. A payload may come in several calls, never with length 0. */
int cf_frames_feed(struct cf_frames *frames, const char *bytes, size_t len,
                   int (*on_payload)(void *user, unsigned type, const char *bytes, size_t len),
                   void *user, struct cf_error *err);

#endif
