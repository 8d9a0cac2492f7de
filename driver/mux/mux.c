/*
 * Channels: their table, their opening and closing, and the credit each direction has. A
 * number is never used twice, so a frame for a channel that is gone can be told from one for a
 * channel that never was.
 */
#include "mux/mux.h"
#include "mux/mux_internal.h"

#include <assert.h>
#include <string.h>

void
cf_mux_init(struct cf_mux *mux, const struct cf_mux_options *options,
            const struct cf_mux_events *events, void *user)
{
    memset(mux, 0, sizeof *mux);
    mux->options = *options;
    mux->events = events;
    mux->user = user;
    mux->next_id = options->side == CF_MUX_DRIVER ? 1 : 2;
    mux->growth_left = options->growth_bytes;
    mux->control_in.resize = mux->urgent.resize = mux->data.resize = options->resize;
    for (size_t i = 0; i < CF_MUX_BUCKETS; i++)
        LIST_INIT(&mux->buckets[i]);
    TAILQ_INIT(&mux->owing);
    TAILQ_INIT(&mux->waiting);
}

void
cf_mux_release(struct cf_mux *mux)
{
    mux->is_stopped = true;
    cf_mux_bytes_release(&mux->control_in);
    cf_mux_bytes_release(&mux->urgent);
    cf_mux_bytes_release(&mux->data);
}

void
cf_mux_stop(struct cf_mux *mux)
{
    mux->is_stopped = true;
}

struct cf_mux_channel *
cf_mux_find(struct cf_mux *mux, uint32_t id)
{
    struct cf_mux_channel *channel;

    /* numbers of one side all have the same parity: without the shift half the table is idle
     */
    LIST_FOREACH(channel, &mux->buckets[(id >> 1) % CF_MUX_BUCKETS], in_bucket)
    if (channel->id == id)
        return channel;
    return NULL;
}

bool
cf_mux_is_own(const struct cf_mux *mux, uint32_t id)
{
    return (id & 1) == (mux->options.side == CF_MUX_DRIVER ? 1u : 0u);
}

static uint32_t *
count_of(struct cf_mux *mux, uint32_t id)
{
    return cf_mux_is_own(mux, id) ? &mux->own_channels : &mux->peer_channels;
}

void
cf_mux_attach(struct cf_mux *mux, struct cf_mux_channel *channel, uint32_t id, uint32_t window,
              uint32_t tag)
{
    channel->id = id;
    channel->tag = tag;
    channel->window = channel->send_credit = channel->recv_credit = window;
    channel->is_attached = true;
    LIST_INSERT_HEAD(&mux->buckets[(id >> 1) % CF_MUX_BUCKETS], channel, in_bucket);
    *count_of(mux, id) += 1;
}

void
cf_mux_detach(struct cf_mux *mux, struct cf_mux_channel *channel)
{
    LIST_REMOVE(channel, in_bucket);
    if (channel->is_owing)
        TAILQ_REMOVE(&mux->owing, channel, in_owing);
    if (channel->is_waiting)
        TAILQ_REMOVE(&mux->waiting, channel, in_waiting);
    if (mux->frame_channel == channel)
        mux->frame_channel = NULL; /* the rest of its frame is thrown away */
    mux->growth_left += channel->grown;
    *count_of(mux, channel->id) -= 1;
    channel->is_attached = channel->is_owing = channel->is_waiting = false;
}

int
cf_mux_open(struct cf_mux *mux, struct cf_mux_channel *channel, uint32_t window, uint32_t tag,
            struct cf_error *err)
{
    char payload[8];

    assert(window > 0 && window <= CF_MUX_WINDOW_MAX);
    if (mux->own_channels >= mux->options.own_channels_max || mux->next_id > UINT32_MAX - 2)
        return cf_error_set(
            err, CF_ERROR_BUDGET, 0,
            "%u channels are open to the sandbox, which is as many as there may be",
            mux->own_channels);
    cf_mux_put_u32(payload, window);
    cf_mux_put_u32(payload + 4, tag);
    if (cf_mux_queue(mux, CF_MUX_OPEN, mux->next_id, payload, sizeof payload) < 0)
        return cf_error_memory(err);
    cf_mux_attach(mux, channel, mux->next_id, window, tag);
    mux->next_id += 2;
    return 0;
}

void
cf_mux_one_way(struct cf_mux_channel *channel, bool is_sender)
{
    if (is_sender)
        channel->recv_closed = true;
    else
        channel->send_closed = true;
}

void
cf_mux_close(struct cf_mux *mux, struct cf_mux_channel *channel)
{
    if (!channel->is_attached)
        return;
    if (!channel->send_closed || !channel->recv_closed) {
        /* without memory for eight bytes the stream cannot be trusted any more */
        if (cf_mux_queue(mux, CF_MUX_RESET, channel->id, NULL, 0) < 0)
            mux->has_failed = true;
    }
    cf_mux_detach(mux, channel);
}

/* A channel that moved a whole window streams: it gets a second one, while the mux has growth.
 */
static void
grow_window(struct cf_mux *mux, struct cf_mux_channel *channel)
{
    uint32_t more = channel->window;

    if (channel->streamed < channel->window)
        return;
    channel->streamed = 0;
    if (more > CF_MUX_WINDOW_MAX - channel->window)
        more = CF_MUX_WINDOW_MAX - channel->window;
    if (more == 0 || more > mux->growth_left)
        return;
    mux->growth_left -= more;
    channel->window += more;
    channel->grown += more;
    channel->owed += more;
}

void
cf_mux_consumed(struct cf_mux *mux, struct cf_mux_channel *channel, size_t len)
{
    if (!channel->is_attached || channel->recv_closed)
        return;
    /* what came and is not yet dealt with, what is owed and what is granted make the window */
    assert(len <= channel->window - channel->owed - channel->recv_credit);
    channel->owed += (uint32_t)len;
    channel->streamed += (uint32_t)len;
    grow_window(mux, channel);
    if (channel->owed >= channel->window / 4 && !channel->is_owing) {
        channel->is_owing = true;
        TAILQ_INSERT_TAIL(&mux->owing, channel, in_owing);
    }
}
