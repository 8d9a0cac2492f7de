/*
 * mux/frame.h: the eight bytes in front of every frame, and the numbers both ends agree on.
 *
 *     byte 0     kind (enum cf_mux_kind)
 *     byte 1     flags: CF_MUX_MORE on a control frame whose message goes on in the next one
 *     bytes 2-3  payload length, big-endian, at most CF_MUX_PAYLOAD
 *     bytes 4-7  channel, big-endian; 0 for control, never 0 otherwise
 *
 *     open        payload: window (4 bytes), tag (4 bytes). The opener chooses the number: the
 *                 driver odd ones, cf-init even ones, each strictly rising, none used twice.
 *                 Both directions begin with `window` bytes of credit.
 *     data        1..CF_MUX_PAYLOAD bytes, within credit
 *     credit      payload: 4 bytes, how many bytes more may be sent on this channel
 *     half-close  no payload: its sender sends no more data on this channel
 *     reset       no payload: both directions are over; frames that were under way are ignored
 *     control     a JSON object of at most CF_MUX_CONTROL_MAX bytes, in one or more frames
 *                 (between these, frames of other kinds may stand)
 */
#ifndef CF_MUX_FRAME_H
#define CF_MUX_FRAME_H

#include <stddef.h>
#include <stdint.h>

#define CF_MUX_HEADER 8u
#define CF_MUX_PAYLOAD 32760u       /* with its header one copy of the engine's stream */
#define CF_MUX_CONTROL_MAX 2621440u /* 2.5 MiB: argv and environment at the kernel's limit */
#define CF_MUX_WINDOW_MAX (1024u * 1024u)
#define CF_MUX_MORE 1u

enum cf_mux_kind {
    CF_MUX_OPEN = 1,
    CF_MUX_DATA = 2,
    CF_MUX_CREDIT = 3,
    CF_MUX_HALF_CLOSE = 4,
    CF_MUX_RESET = 5,
    CF_MUX_CONTROL = 6
};

struct cf_mux_frame {
    uint8_t kind, flags;
    uint16_t length;
    uint32_t channel;
};

void cf_mux_put_u32(char *to, uint32_t value);
uint32_t cf_mux_get_u32(const char *from);
void cf_mux_frame_write(char to[CF_MUX_HEADER], const struct cf_mux_frame *frame);

/* Reads a header. Returns NULL, or static words for what is wrong with it by itself (unknown
 * kind, flags, length or channel that its kind does not allow). */
const char *cf_mux_frame_read(const char from[CF_MUX_HEADER], struct cf_mux_frame *ret_frame);

#endif
