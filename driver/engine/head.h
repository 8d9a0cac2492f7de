/* engine/head.h: the head of the answer to an upgrade request; this room's own header; pure.
 */
#ifndef CF_ENGINE_HEAD_H
#define CF_ENGINE_HEAD_H

#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define CF_HEAD_LIMIT_BYTES 16384u

struct cf_head { /* zeroed is ready */
    char bytes[CF_HEAD_LIMIT_BYTES];
    size_t len;
    bool is_whole;
    int status;              /* 101, 200, 404, ... */
    uint64_t content_length; /* UINT64_MAX: not said */
    bool is_chunked;
};

/* Takes bytes up to and with the blank line. Returns how many were taken (all, until whole),
 * or -1 with CF_ERROR_ENGINE: not HTTP/1.x, a head over 16 KiB. What follows is the stream's.
 */
long cf_head_feed(struct cf_head *head, const char *bytes, size_t len, struct cf_error *err);

#endif
