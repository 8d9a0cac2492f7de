/*
 * The writing half: two queues of whole frames. Control, credit, open and reset go first at
 * every boundary between frames; data and half-close keep their own order behind them.
 */
#include "mux/mux.h"
#include "mux/mux_internal.h"

#include <assert.h>
#include <string.h>

#define GRANTS_AT_ONCE 256
#define WORTH_A_FRAME 4096u /* below this much room a write waits, lest frames become crumbs \
                             */

static int
put_frame(struct cf_mux_bytes *to, enum cf_mux_kind kind, uint8_t flags, uint32_t id,
          const void *payload, size_t len)
{
    struct cf_mux_frame frame = {(uint8_t)kind, flags, (uint16_t)len, id};
    char *at = cf_mux_bytes_reserve(to, CF_MUX_HEADER + len);

    if (at == NULL)
        return -1;
    cf_mux_frame_write(at, &frame);
    if (len > 0)
        memcpy(at + CF_MUX_HEADER, payload, len);
    cf_mux_bytes_wrote(to, CF_MUX_HEADER + len);
    return 0;
}

int
cf_mux_queue(struct cf_mux *mux, enum cf_mux_kind kind, uint32_t id, const void *payload,
             size_t len)
{
    if (mux->urgent.len + CF_MUX_HEADER + len > mux->options.control_queue_bytes ||
        put_frame(&mux->urgent, kind, 0, id, payload, len) < 0)
        return -1;
    mux->urgent_queued += CF_MUX_HEADER + len;
    return 0;
}

int
cf_mux_control(struct cf_mux *mux, const char *bytes, size_t len, struct cf_error *err)
{
    size_t whole = len + (len / CF_MUX_PAYLOAD + 1) * CF_MUX_HEADER, part;

    if (len == 0 || len > CF_MUX_CONTROL_MAX)
        return cf_error_set(
            err, CF_ERROR_TOO_LARGE, 0,
            "a control message to the sandbox holds at most %u bytes, this one has %zu",
            CF_MUX_CONTROL_MAX, len);
    if (mux->urgent.len + whole > mux->options.control_queue_bytes)
        return cf_error_set(err, CF_ERROR_BUDGET, 0,
                            "%zu bytes of control messages wait for the sandbox to read them",
                            mux->urgent.len);
    if (cf_mux_bytes_reserve(&mux->urgent, whole) == NULL)
        return cf_error_memory(err);
    for (; len > 0; bytes += part, len -= part) {
        part = len < CF_MUX_PAYLOAD ? len : CF_MUX_PAYLOAD;
        (void)put_frame(&mux->urgent, CF_MUX_CONTROL, part < len ? CF_MUX_MORE : 0, 0, bytes,
                        part); /* memory is reserved */
        mux->urgent_queued += CF_MUX_HEADER + part;
    }
    return 0;
}

void
cf_mux_half_close(struct cf_mux *mux, struct cf_mux_channel *channel)
{
    if (!channel->is_attached || channel->send_closed)
        return;
    channel->send_closed = true;
    /* behind its data, and beyond the queue's bound: eight bytes, once a channel */
    if (put_frame(&mux->data, CF_MUX_HALF_CLOSE, 0, channel->id, NULL, 0) < 0)
        mux->has_failed = true;
}

char *
cf_mux_reserve(struct cf_mux *mux, struct cf_mux_channel *channel, size_t want,
               size_t *ret_len)
{
    size_t limit = mux->options.data_queue_bytes;
    size_t room =
        mux->data.len + CF_MUX_HEADER < limit ? limit - mux->data.len - CF_MUX_HEADER : 0;
    size_t len = want < CF_MUX_PAYLOAD ? want : CF_MUX_PAYLOAD;
    char *at;

    if (!channel->is_attached || channel->send_closed || (room < len && room < WORTH_A_FRAME))
        return NULL;
    len = len < room ? len : room;
    len = len < channel->send_credit ? len : channel->send_credit;
    if (len == 0)
        return NULL;
    at = cf_mux_bytes_reserve(&mux->data, CF_MUX_HEADER + len);
    if (at == NULL)
        return NULL;
    *ret_len = len;
    return at + CF_MUX_HEADER;
}

void
cf_mux_commit(struct cf_mux *mux, struct cf_mux_channel *channel, size_t len)
{
    struct cf_mux_frame frame = {CF_MUX_DATA, 0, (uint16_t)len, channel->id};

    if (len == 0)
        return;
    assert(len <= CF_MUX_PAYLOAD && len <= channel->send_credit);
    cf_mux_frame_write(mux->data.data + mux->data.head + mux->data.len, &frame);
    cf_mux_bytes_wrote(&mux->data, CF_MUX_HEADER + len);
    channel->send_credit -= (uint32_t)len;
}

size_t
cf_mux_write(struct cf_mux *mux, struct cf_mux_channel *channel, const char *bytes, size_t len)
{
    size_t done = 0, part;
    char *at;

    while (done < len && (at = cf_mux_reserve(mux, channel, len - done, &part)) != NULL) {
        memcpy(at, bytes + done, part);
        cf_mux_commit(mux, channel, part);
        done += part;
    }
    /* without credit it is the credit frame that calls back; without room, cf_mux_serve */
    if (done < len && channel->is_attached && !channel->send_closed &&
        channel->send_credit > 0 && !channel->is_waiting) {
        channel->is_waiting = true;
        TAILQ_INSERT_TAIL(&mux->waiting, channel, in_waiting);
    }
    return done;
}

/* Turns counters into credit frames, now that there is room for them. */
static void
queue_grants(struct cf_mux *mux)
{
    struct cf_mux_channel *channel;
    char payload[4];

    for (int i = 0; i < GRANTS_AT_ONCE; i++) {
        channel = TAILQ_FIRST(&mux->owing);
        if (channel == NULL)
            return;
        cf_mux_put_u32(payload, channel->owed);
        if (cf_mux_queue(mux, CF_MUX_CREDIT, channel->id, payload, sizeof payload) < 0)
            return; /* stays owed */
        TAILQ_REMOVE(&mux->owing, channel, in_owing);
        channel->is_owing = false;
        channel->recv_credit += channel->owed;
        channel->owed = 0;
    }
}

size_t
cf_mux_peek(struct cf_mux *mux, const char **ret_bytes)
{
    bool is_urgent_waiting;

    if (mux->data_frame_left == 0 && mux->urgent.len == 0)
        queue_grants(mux);
    mux->peeked_urgent = mux->data_frame_left == 0 && mux->urgent.len > 0;
    if (mux->peeked_urgent) {
        *ret_bytes = cf_mux_bytes_front(&mux->urgent);
        return mux->urgent.len;
    }
    if (mux->data.len == 0)
        return 0;
    *ret_bytes = cf_mux_bytes_front(&mux->data);
    is_urgent_waiting = mux->urgent.len > 0 || !TAILQ_EMPTY(&mux->owing);
    return is_urgent_waiting && mux->data_frame_left > 0 ? mux->data_frame_left
                                                         : mux->data.len;
}

/* How far into which frame the data queue was taken. */
static void
follow_data_frames(struct cf_mux *mux, size_t len)
{
    const char *at = cf_mux_bytes_front(&mux->data);
    struct cf_mux_frame frame;
    size_t part;

    while (len > 0) {
        if (mux->data_frame_left == 0) {
            (void)cf_mux_frame_read(at, &frame); /* we wrote it */
            mux->data_frame_left = CF_MUX_HEADER + frame.length;
        }
        part = mux->data_frame_left < len ? mux->data_frame_left : len;
        mux->data_frame_left -= (uint32_t)part;
        at += part;
        len -= part;
    }
}

void
cf_mux_taken(struct cf_mux *mux, size_t len)
{
    if (len == 0)
        return;
    if (mux->peeked_urgent) {
        mux->urgent_taken += len;
        cf_mux_bytes_drop(&mux->urgent, len);
        return;
    }
    follow_data_frames(mux, len);
    cf_mux_bytes_drop(&mux->data, len);
}

bool
cf_mux_has_output(const struct cf_mux *mux)
{
    return mux->urgent.len > 0 || mux->data.len > 0 || !TAILQ_EMPTY(&mux->owing);
}

void
cf_mux_serve(struct cf_mux *mux)
{
    struct cf_mux_channel *last = TAILQ_LAST(&mux->waiting, cf_mux_list), *channel;
    uint32_t turns =
        mux->own_channels +
        mux->peer_channels; /* a callback may detach `last`: then this bounds it */

    while (last != NULL && turns-- > 0 && !mux->is_stopped &&
           mux->data.len + WORTH_A_FRAME + CF_MUX_HEADER <= mux->options.data_queue_bytes) {
        channel = TAILQ_FIRST(&mux->waiting);
        if (channel == NULL)
            return;
        TAILQ_REMOVE(&mux->waiting, channel, in_waiting);
        channel->is_waiting = false;
        last = channel == last ? NULL : last;
        mux->events->on_writable(mux->user, channel);
    }
}
