/* wire/repair.h: the one written repair of a frame that strict JSON refuses. */
#ifndef CF_WIRE_REPAIR_H
#define CF_WIRE_REPAIR_H

#include <jansson.h>
#include <stddef.h>

enum cf_frame_fault {
    CF_FRAME_OK,
    CF_FRAME_NOT_JSON,  /* noise, however it is read */
    CF_FRAME_TOO_LARGE, /* JSON, but over the depth, node or size limit */
    CF_FRAME_MEMORY
};

/*
 * Reads one line. When strict JSON refuses it, the repair is tried once, and *ret_repairs counts
 * what it changed:
 *   - an invalid UTF-8 sequence becomes U+FFFD;
 *   - the escape of a lone surrogate becomes \ufffd;
 *   - \u0000 in a member name becomes \ufffd (in values it is allowed as it is);
 *   - a whole number outside int64 becomes a real number, one beyond double the largest double;
 *   - a raw control character inside a string becomes its escape.
 * *ret_value is yours, written on CF_FRAME_OK only. `why` (of `size` bytes) says what is wrong.
 */
enum cf_frame_fault cf_frame_read(const char *line, size_t len, json_t **ret_value,
                                  size_t *ret_repairs, char *why, size_t size);

#endif
