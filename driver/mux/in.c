/*
 * The reading half: headers may be cut anywhere, data goes on as it comes, and a control
 * message is put together first. Everything the peer says is checked against what it may say
 * now.
 */
#include "mux/mux.h"
#include "mux/mux_internal.h"

#include <string.h>

static int
broken(struct cf_mux *mux, struct cf_error *err, const char *what)
{
    return cf_error_set(err, CF_ERROR_WIRE, 0,
                        "sandbox stream: %s (kind %u, channel %u, length %u)", what,
                        mux->frame.kind, mux->frame.channel, mux->frame.length);
}

/* Was this number ever given to a channel? Then a frame for it is merely late. */
static bool
is_late(const struct cf_mux *mux, uint32_t id)
{
    return cf_mux_is_own(mux, id) ? id < mux->next_id : id <= mux->last_peer_id;
}

static int
check_open(struct cf_mux *mux, struct cf_error *err)
{
    uint32_t id = mux->frame.channel;

    if (cf_mux_is_own(mux, id))
        return broken(mux, err, "open with a number of the other side");
    if (id <= mux->last_peer_id)
        return broken(mux, err, "open with a number used before");
    if (mux->peer_channels >= mux->options.peer_channels_max)
        return broken(mux, err, "more channels than there may be");
    return 0;
}

static int
check_data(struct cf_mux *mux, struct cf_error *err)
{
    struct cf_mux_channel *channel = mux->frame_channel;

    if (channel == NULL)
        return 0;
    if (channel->recv_closed)
        return broken(mux, err, "data after half-close");
    if (mux->frame.length > channel->recv_credit)
        return broken(mux, err, "data past its credit");
    return 0;
}

/* The header is whole: may this frame come now? */
static int
begin_frame(struct cf_mux *mux, struct cf_error *err)
{
    const char *wrong = cf_mux_frame_read(mux->head, &mux->frame);
    size_t control = mux->control_in.len + mux->frame.length;

    if (wrong != NULL)
        return cf_error_set(
            err, CF_ERROR_WIRE, 0,
            "sandbox stream: %s (header %02x %02x %02x %02x %02x %02x %02x %02x)", wrong,
            mux->head[0] & 0xff, mux->head[1] & 0xff, mux->head[2] & 0xff, mux->head[3] & 0xff,
            mux->head[4] & 0xff, mux->head[5] & 0xff, mux->head[6] & 0xff,
            mux->head[7] & 0xff);
    mux->head_len = 0;
    mux->in_frame = true;
    mux->frame_left = mux->frame.length;
    mux->frame_channel = NULL;
    if (mux->frame.kind == CF_MUX_OPEN)
        return check_open(mux, err);
    if (mux->frame.kind == CF_MUX_CONTROL)
        return control > CF_MUX_CONTROL_MAX ? broken(mux, err, "control message over 2.5 MiB")
                                            : 0;
    mux->frame_channel = cf_mux_find(mux, mux->frame.channel);
    if (mux->frame_channel == NULL && !is_late(mux, mux->frame.channel))
        return broken(mux, err, "frame for a channel that was never opened");
    return mux->frame.kind == CF_MUX_DATA ? check_data(mux, err) : 0;
}

static int
end_open(struct cf_mux *mux, struct cf_error *err)
{
    uint32_t id = mux->frame.channel, window = cf_mux_get_u32(mux->small);
    uint32_t tag = cf_mux_get_u32(mux->small + 4);
    struct cf_mux_channel *channel;

    if (window == 0 || window > CF_MUX_WINDOW_MAX)
        return broken(mux, err, "open with a window out of range");
    mux->last_peer_id = id;
    channel = mux->events->on_open(mux->user, tag);
    if (mux->is_stopped)
        return 0;
    if (channel != NULL) {
        cf_mux_attach(mux, channel, id, window, tag);
        mux->events->on_opened(mux->user, channel);
    } else if (cf_mux_queue(mux, CF_MUX_RESET, id, NULL, 0) < 0) {
        return broken(mux, err, "channels opened faster than refusals are read");
    }
    return 0;
}

static int
end_credit(struct cf_mux *mux, struct cf_error *err)
{
    struct cf_mux_channel *channel = mux->frame_channel;
    uint32_t more = cf_mux_get_u32(mux->small);

    if (more == 0 || more > CF_MUX_WINDOW_MAX)
        return broken(mux, err, "credit out of range");
    if (channel == NULL || channel->send_closed)
        return 0;
    if (more > CF_MUX_WINDOW_MAX - channel->send_credit)
        return broken(mux, err, "more credit than a window holds");
    channel->send_credit += more;
    mux->events->on_writable(mux->user, channel);
    return 0;
}

static int
end_control(struct cf_mux *mux, struct cf_error *err)
{
    int status;

    if (mux->frame.flags & CF_MUX_MORE)
        return 0;
    status = mux->events->on_control(mux->user, cf_mux_bytes_front(&mux->control_in),
                                     mux->control_in.len, err);
    cf_mux_bytes_drop(&mux->control_in, mux->control_in.len);
    return status;
}

static int
end_frame(struct cf_mux *mux, struct cf_error *err)
{
    struct cf_mux_channel *channel = mux->frame_channel;

    mux->in_frame = false;
    switch (mux->frame.kind) {
    case CF_MUX_OPEN:
        return end_open(mux, err);
    case CF_MUX_CREDIT:
        return end_credit(mux, err);
    case CF_MUX_CONTROL:
        return end_control(mux, err);
    case CF_MUX_HALF_CLOSE:
        if (channel == NULL)
            return 0;
        if (channel->recv_closed)
            return broken(mux, err, "half-close twice");
        channel->recv_closed = true;
        mux->events->on_half_close(mux->user, channel);
        return 0;
    case CF_MUX_RESET:
        if (channel == NULL)
            return 0;
        cf_mux_detach(mux, channel);
        mux->events->on_reset(mux->user, channel);
        return 0;
    }
    return 0; /* data went on as it came */
}

/* A piece of the payload of the frame being read. */
static int
take_payload(struct cf_mux *mux, const char *bytes, size_t len, struct cf_error *err)
{
    size_t at = mux->frame.length - mux->frame_left;

    mux->frame_left -= (uint32_t)len;
    if (mux->frame.kind == CF_MUX_DATA) {
        if (mux->frame_channel != NULL) {
            /* spent as it is handed over: a closing owner gives back what it holds, and only
             * that */
            mux->frame_channel->recv_credit -= (uint32_t)len;
            mux->events->on_data(mux->user, mux->frame_channel, bytes, len);
        }
        return 0;
    }
    if (mux->frame.kind == CF_MUX_CONTROL)
        return cf_mux_bytes_add(&mux->control_in, bytes, len) < 0 ? cf_error_memory(err) : 0;
    memcpy(mux->small + at, bytes, len); /* open and credit: the header's length was checked */
    return 0;
}

static size_t
take_header(struct cf_mux *mux, const char *bytes, size_t len)
{
    size_t part = CF_MUX_HEADER - mux->head_len;

    part = part < len ? part : len;
    memcpy(mux->head + mux->head_len, bytes, part);
    mux->head_len += part;
    return part;
}

int
cf_mux_feed(struct cf_mux *mux, const char *bytes, size_t len, struct cf_error *err)
{
    size_t part;
    int status;

    if (mux->has_failed && !mux->is_stopped) {
        mux->is_stopped = true;
        return cf_error_set(err, CF_ERROR_MEMORY, 0,
                            "sandbox stream: no room for a closing frame");
    }
    while (len > 0 && !mux->is_stopped) {
        status = 0;
        if (!mux->in_frame) {
            part = take_header(mux, bytes, len);
            if (mux->head_len == CF_MUX_HEADER)
                status = begin_frame(mux, err);
        } else {
            part = mux->frame_left < len ? mux->frame_left : len;
            status = take_payload(mux, bytes, part, err);
        }
        if (status == 0 && !mux->is_stopped && mux->in_frame && mux->frame_left == 0)
            status = end_frame(mux, err);
        if (status < 0) {
            mux->is_stopped = true;
            return -1;
        }
        bytes += part;
        len -= part;
    }
    return 0;
}
