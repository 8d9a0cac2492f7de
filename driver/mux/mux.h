/*
 * mux/mux.h: many channels and one control conversation on a single stream of bytes. The same
 * code serves the driver and cf-init; frame.h tells what travels.
 *
 * Pure: bytes that came are fed in, bytes to send are taken out, and the owner moves them. Two
 * rules keep the two directions from blocking each other: both ends always read, and data is
 * sent only within the credit its receiver granted. So nothing here ever waits, and everything
 * queued is bounded: data by `data_queue_bytes`, control by `control_queue_bytes`; credit is a
 * counter that becomes a frame when there is room for one.
 *
 * Whatever breaks a rule of the protocol ends the stream: cf_mux_feed fails once, says why,
 * and takes nothing any more.
 */
#ifndef CF_MUX_MUX_H
#define CF_MUX_MUX_H

#include "base/error.h"
#include "mux/bytes.h"
#include "mux/frame.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>

#define CF_MUX_PROTOCOL 1        /* the number in cf-init's hello */
#define CF_MUX_UNANSWERED_MAX 64 /* requests the driver may have open at once */
#define CF_MUX_WINDOW_PROCESS (512u * 1024u)
#define CF_MUX_WINDOW_DOOR (64u * 1024u)

enum cf_mux_side { CF_MUX_DRIVER, CF_MUX_INIT };

/* One channel; it lives inside yours. Read what stands here, change nothing. */
struct cf_mux_channel {
    uint32_t id;
    uint32_t tag;         /* what the opener said with it: the door's port */
    uint32_t window;      /* what we let the peer have under way at most */
    uint32_t send_credit; /* bytes we may still send */
    uint32_t recv_credit; /* bytes the peer may still send */
    uint32_t owed;        /* consumed here, not yet granted again */
    uint32_t streamed;    /* consumed since the window last grew */
    uint32_t grown;       /* how much of the mux's growth this window took */
    bool send_closed, recv_closed;
    bool is_attached; /* in the mux's table */
    bool is_owing, is_waiting;
    LIST_ENTRY(cf_mux_channel) in_bucket;
    TAILQ_ENTRY(cf_mux_channel) in_owing, in_waiting;
};

struct cf_mux_events {
    /* The peer opens a channel: return yours (zeroed), or NULL to refuse it with a reset. */
    struct cf_mux_channel *(*on_open)(void *user, uint32_t tag);
    /* It is attached now and may be used. */
    void (*on_opened)(void *user, struct cf_mux_channel *channel);
    /* Bytes of a data frame, perhaps a part of it; borrowed until return. Later or at once say
     * cf_mux_consumed: until then their credit stays withheld. */
    void (*on_data)(void *user, struct cf_mux_channel *channel, const char *bytes, size_t len);
    void (*on_half_close)(void *user, struct cf_mux_channel *channel);
    /* Both directions are over; the channel is detached already. */
    void (*on_reset)(void *user, struct cf_mux_channel *channel);
    /* Credit came, or room for a channel whose write fell short (cf_mux_serve). */
    void (*on_writable)(void *user, struct cf_mux_channel *channel);
    /* One whole control message, borrowed until return. <0 with err filled ends the stream. */
    int (*on_control)(void *user, const char *bytes, size_t len, struct cf_error *err);
};

struct cf_mux_options {
    enum cf_mux_side side;
    size_t data_queue_bytes;    /* data waiting to be taken, headers included */
    size_t control_queue_bytes; /* control waiting to be taken */
    uint32_t own_channels_max;  /* opened by us and attached at once */
    uint32_t peer_channels_max; /* by the peer, who breaks the protocol with one more: leave it
                                   room for those whose end is still under way */
    uint32_t growth_bytes;      /* by how much all windows together may grow */
    cf_mux_resize_fn *resize;   /* memory for the queues; NULL: realloc */
};

#define CF_MUX_BUCKETS 256u
LIST_HEAD(cf_mux_bucket, cf_mux_channel);
TAILQ_HEAD(cf_mux_list, cf_mux_channel);

/* Lives inside yours; what stands in it is the mux's own. */
struct cf_mux {
    struct cf_mux_options options;
    const struct cf_mux_events *events; /* static storage */
    void *user;

    struct cf_mux_bucket buckets[CF_MUX_BUCKETS];
    struct cf_mux_list owing, waiting;
    uint32_t own_channels, peer_channels, next_id, last_peer_id, growth_left;

    char head[CF_MUX_HEADER]; /* a split header */
    size_t head_len;
    bool in_frame, is_stopped, has_failed;
    struct cf_mux_frame frame; /* the one being read */
    struct cf_mux_channel *frame_channel;
    uint32_t frame_left;
    char small[8];                  /* payload of open and credit */
    struct cf_mux_bytes control_in; /* a control message so far */

    struct cf_mux_bytes urgent, data; /* whole frames to send */
    uint32_t data_frame_left;         /* of the data frame taken in part */
    bool peeked_urgent;
    uint64_t urgent_queued, urgent_taken; /* bytes ever: tells when an answer has gone out */
};

void cf_mux_init(struct cf_mux *mux, const struct cf_mux_options *options,
                 const struct cf_mux_events *events, void *user);
/* Channels still attached are simply forgotten. */
void cf_mux_release(struct cf_mux *mux);

/* ---- in ----------------------------------------------------------------------------- */

/* Bytes that came. -1: the peer broke the protocol (CF_ERROR_WIRE) or memory ran out; from
 * then on nothing is read. Callbacks may do anything but release the mux; to end it from
 * inside one, call cf_mux_stop and release after cf_mux_feed returned. */
CF_CHECKED int cf_mux_feed(struct cf_mux *mux, const char *bytes, size_t len,
                           struct cf_error *err);
void cf_mux_stop(struct cf_mux *mux);

/* ---- channels ----------------------------------------------------------------------- */

/* Opens one towards the peer. `channel` (zeroed) stays yours and must live until it is
 * detached: by cf_mux_close, or before on_reset. -1: too many channels, numbers used up,
 * memory. */
CF_CHECKED int cf_mux_open(struct cf_mux *mux, struct cf_mux_channel *channel, uint32_t window,
                           uint32_t tag, struct cf_error *err);
/* The open channel of that number, or NULL. */
struct cf_mux_channel *cf_mux_find(struct cf_mux *mux, uint32_t id);
/* For a channel that carries data one way only: both ends call it right after opening, and the
 * idle direction is over without a frame. */
void cf_mux_one_way(struct cf_mux_channel *channel, bool is_sender);
/* Detaches; where a direction is still open, the peer hears a reset. Twice is fine. */
void cf_mux_close(struct cf_mux *mux, struct cf_mux_channel *channel);
/* No more data from us, after what is queued. Twice is fine. */
void cf_mux_half_close(struct cf_mux *mux, struct cf_mux_channel *channel);
/* `len` bytes that came are dealt with: their credit goes back, and more of it to a channel
 * that streams (its window doubles, up to CF_MUX_WINDOW_MAX). */
void cf_mux_consumed(struct cf_mux *mux, struct cf_mux_channel *channel, size_t len);

/* ---- out ---------------------------------------------------------------------------- */

/* Queues one control message. -1: longer than CF_MUX_CONTROL_MAX (CF_ERROR_TOO_LARGE), the
 * queue is full (CF_ERROR_BUDGET), memory; nothing was queued then. */
CF_CHECKED int cf_mux_control(struct cf_mux *mux, const char *bytes, size_t len,
                              struct cf_error *err);

/* Queues data, as much as credit and queue allow; returns how many bytes. When that is fewer
 * than `len`, on_writable comes when it is worth another try. */
size_t cf_mux_write(struct cf_mux *mux, struct cf_mux_channel *channel, const char *bytes,
                    size_t len);
/* The same without a copy: where up to *ret_len (<= want) bytes may be put, or NULL when there
 * is no credit or room now. Then say how many they were (0 is fine); nothing between the two.
 */
char *cf_mux_reserve(struct cf_mux *mux, struct cf_mux_channel *channel, size_t want,
                     size_t *ret_len);
void cf_mux_commit(struct cf_mux *mux, struct cf_mux_channel *channel, size_t len);

/* What goes out next, borrowed until the next call: control and credit first, at every
 * boundary between frames. 0: nothing. Then say how much of it was sent. */
size_t cf_mux_peek(struct cf_mux *mux, const char **ret_bytes);
void cf_mux_taken(struct cf_mux *mux, size_t len);
bool cf_mux_has_output(const struct cf_mux *mux);
/* Gives room to channels whose write fell short, in the order they fell short. */
void cf_mux_serve(struct cf_mux *mux);

#endif
