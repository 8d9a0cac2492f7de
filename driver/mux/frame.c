/* The eight bytes in front of every frame. */
#include "mux/frame.h"

void
cf_mux_put_u32(char *to, uint32_t value)
{
    to[0] = (char)(value >> 24);
    to[1] = (char)(value >> 16);
    to[2] = (char)(value >> 8);
    to[3] = (char)value;
}

uint32_t
cf_mux_get_u32(const char *from)
{
    const unsigned char *at = (const unsigned char *)from;

    return (uint32_t)at[0] << 24 | (uint32_t)at[1] << 16 | (uint32_t)at[2] << 8 | at[3];
}

void
cf_mux_frame_write(char to[CF_MUX_HEADER], const struct cf_mux_frame *frame)
{
    to[0] = (char)frame->kind;
    to[1] = (char)frame->flags;
    to[2] = (char)(frame->length >> 8);
    to[3] = (char)frame->length;
    cf_mux_put_u32(to + 4, frame->channel);
}

const char *
cf_mux_frame_read(const char from[CF_MUX_HEADER], struct cf_mux_frame *ret_frame)
{
    static const struct {
        uint16_t least, most;
        uint8_t flags;
    } rule[] = {
        [CF_MUX_OPEN] = {8, 8, 0},   [CF_MUX_DATA] = {1, CF_MUX_PAYLOAD, 0},
        [CF_MUX_CREDIT] = {4, 4, 0}, [CF_MUX_HALF_CLOSE] = {0, 0, 0},
        [CF_MUX_RESET] = {0, 0, 0},  [CF_MUX_CONTROL] = {1, CF_MUX_PAYLOAD, CF_MUX_MORE},
    };
    const unsigned char *at = (const unsigned char *)from;
    struct cf_mux_frame frame = {at[0], at[1], (uint16_t)(at[2] << 8 | at[3]),
                                 cf_mux_get_u32(from + 4)};

    if (frame.kind < CF_MUX_OPEN || frame.kind > CF_MUX_CONTROL)
        return "unknown frame kind";
    if ((frame.flags & ~rule[frame.kind].flags) != 0)
        return "unknown frame flag";
    if (frame.length < rule[frame.kind].least || frame.length > rule[frame.kind].most)
        return "frame length out of range";
    if ((frame.channel == 0) != (frame.kind == CF_MUX_CONTROL))
        return "frame on a channel its kind does not allow";
    *ret_frame = frame;
    return NULL;
}
