/*
 * Streams: a mux channel and what stands at its inner end. Bytes for the driver are read
 * straight into a frame of the queue, in turn among all sources that may have some; bytes from
 * the driver are written at once and held, within credit, only while the sink takes none.
 */
#include "init/init.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

struct cf_stream *
cf_stream_new(struct cf_init *init)
{
    struct cf_stream *stream = calloc(1, sizeof *stream);

    if (stream == NULL)
        return NULL;
    stream->init = init;
    stream->watch.fd = -1;
    stream->held.resize = cf_private_resize;
    return stream;
}

static void
set_ready(struct cf_stream *stream, bool is_ready)
{
    if (stream->is_ready == is_ready)
        return;
    stream->is_ready = is_ready;
    if (is_ready)
        TAILQ_INSERT_TAIL(&stream->init->ready, stream, in_ready);
    else
        TAILQ_REMOVE(&stream->init->ready, stream, in_ready);
}

void
cf_stream_end(struct cf_stream *stream)
{
    if (stream->is_dead)
        return;
    stream->is_dead = true;
    set_ready(stream, false);
    cf_mux_close(&stream->init->mux, &stream->channel);
    cf_watch_close(stream->init, &stream->watch);
    cf_mux_bytes_release(&stream->held);
    SLIST_INSERT_HEAD(&stream->init->dead, stream, in_dead);
}

void
cf_stream_bury(struct cf_init *init)
{
    struct cf_stream *stream;

    while ((stream = SLIST_FIRST(&init->dead)) != NULL) {
        SLIST_REMOVE_HEAD(&init->dead, in_dead);
        if (stream->ops != NULL && stream->ops->on_free != NULL)
            stream->ops->on_free(stream);
        free(stream);
    }
}

static void
break_stream(struct cf_stream *stream, int error)
{
    if (stream->ops != NULL && stream->ops->on_broken != NULL)
        stream->ops->on_broken(stream, error);
    cf_stream_end(stream);
}

static void
end_when_done(struct cf_stream *stream)
{
    if (stream->is_source_over && stream->is_sink_over)
        cf_stream_end(stream);
}

/* ---- towards the sandbox ------------------------------------------------------------ */

/* Returns how many bytes the sink took; <0 when the stream broke on it. */
static ssize_t
drain(struct cf_stream *stream, const char *bytes, size_t len)
{
    size_t done = 0;
    ssize_t n;

    while (done < len && stream->is_writable) {
        n = stream->ops->drain(stream, bytes + done, len - done);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && errno != EAGAIN) {
            break_stream(stream, errno);
            return -1;
        }
        if (n < 0)
            stream->is_writable = false;
        else
            done += (size_t)n;
    }
    if (done > 0)
        cf_mux_consumed(&stream->init->mux, &stream->channel, done);
    return (ssize_t)done;
}

static void
end_sink(struct cf_stream *stream)
{
    if (!stream->channel.recv_closed || stream->held.len > 0 || stream->is_sink_over)
        return;
    stream->is_sink_over = true;
    stream->ops->on_sink_end(stream);
    if (!stream->is_dead)
        end_when_done(stream);
}

static void
drain_held(struct cf_stream *stream)
{
    ssize_t n;

    if (stream->held.len > 0) {
        n = drain(stream, cf_mux_bytes_front(&stream->held), stream->held.len);
        if (n < 0)
            return;
        cf_mux_bytes_drop(&stream->held, (size_t)n);
    }
    if (stream->held.len == 0)
        cf_mux_bytes_release(&stream->held);
    end_sink(stream);
}

static void
on_data(void *user, struct cf_mux_channel *channel, const char *bytes, size_t len)
{
    struct cf_stream *stream = (struct cf_stream *)channel;
    ssize_t n = 0;

    if (stream->ops == NULL || stream->ops->drain == NULL) {
        cf_stream_end(stream); /* nobody here takes data */
        return;
    }
    if (stream->held.len == 0)
        n = drain(stream, bytes, len);
    if (n < 0 || (size_t)n == len)
        return;
    if (cf_mux_bytes_add(&stream->held, bytes + n, len - (size_t)n) < 0)
        break_stream(stream, ENOMEM);
}

static void
on_half_close(void *user, struct cf_mux_channel *channel)
{
    struct cf_stream *stream = (struct cf_stream *)channel;

    if (stream->ops == NULL || stream->ops->drain == NULL)
        return;
    end_sink(stream);
}

static void
on_reset(void *user, struct cf_mux_channel *channel)
{
    struct cf_stream *stream = (struct cf_stream *)channel;

    if (stream->ops != NULL && stream->ops->is_reset_discarding && !stream->is_source_over) {
        stream->is_discarding = true; /* nobody looks any more; its writer must not notice */
        cf_stream_mark_readable(stream);
        return;
    }
    break_stream(stream, 0);
}

/* ---- towards the driver ------------------------------------------------------------- */

void
cf_stream_mark_readable(struct cf_stream *stream)
{
    if (stream->is_dead || stream->ops == NULL || stream->ops->fill == NULL ||
        stream->is_source_over)
        return;
    stream->is_readable = true;
    set_ready(stream, true);
}

static void
on_writable(void *user, struct cf_mux_channel *channel)
{
    struct cf_stream *stream = (struct cf_stream *)channel;

    if (stream->is_readable)
        set_ready(stream, true);
}

static void
end_source(struct cf_stream *stream)
{
    stream->is_source_over = true;
    stream->is_readable = false;
    set_ready(stream, false);
    cf_mux_half_close(&stream->init->mux, &stream->channel);
    end_when_done(stream);
}

/* A pipe that gave less than was asked for is empty, and its next byte or its end is an event
 * of its own; unless the end was in the event that brought us here. */
static bool
is_emptied(const struct cf_stream *stream, ssize_t n, size_t len)
{
    return n > 0 && (size_t)n < len && stream->ops->is_pipe && !stream->is_hung_up;
}

static void
note_fill(struct cf_stream *stream, ssize_t n, size_t len)
{
    if (is_emptied(stream, n, len)) {
        stream->is_readable = false;
        set_ready(stream, false);
    } else if (n > 0 || (n < 0 && errno == EINTR)) {
        set_ready(stream, false);
        set_ready(stream, true); /* to the end of the row */
    } else if (n == 0) {
        end_source(stream);
    } else if (errno == EAGAIN) {
        stream->is_readable = false;
        set_ready(stream, false);
    } else {
        break_stream(stream, errno);
    }
}

static void
discard(struct cf_stream *stream)
{
    char nowhere[16384];
    ssize_t n = stream->ops->fill(stream, nowhere, sizeof nowhere);

    if (n == 0)
        cf_stream_end(stream);
    else
        note_fill(stream, n, sizeof nowhere);
}

bool
cf_stream_pump(struct cf_init *init)
{
    struct cf_stream *stream = TAILQ_FIRST(&init->ready);
    size_t len;
    ssize_t n;
    char *at;

    if (stream == NULL)
        return false;
    if (stream->is_discarding) {
        discard(stream);
        return true;
    }
    if (stream->channel.send_credit == 0) {
        set_ready(stream, false); /* credit brings it back */
        return true;
    }
    at = cf_mux_reserve(&init->mux, &stream->channel, CF_MUX_PAYLOAD, &len);
    if (at == NULL)
        return false;
    n = stream->ops->fill(stream, at, len);
    cf_mux_commit(&init->mux, &stream->channel, n > 0 ? (size_t)n : 0);
    note_fill(stream, n, len);
    return true;
}

/* ---- opening and binding ------------------------------------------------------------ */

static void
on_event(struct cf_init *init, struct cf_watch *watch, uint32_t events)
{
    struct cf_stream *stream = cf_container_of(watch, struct cf_stream, watch);

    if (events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR))
        stream->is_hung_up = true;
    if (events & (EPOLLIN | EPOLLRDHUP | EPOLLHUP | EPOLLERR))
        cf_stream_mark_readable(stream);
    if ((events & (EPOLLOUT | EPOLLERR | EPOLLHUP)) && stream->ops->drain != NULL) {
        stream->is_writable = true;
        if (stream->held.len == 0 && (events & EPOLLERR) && stream->ops->fill == NULL)
            break_stream(stream, EPIPE); /* nobody reads this pipe any more */
        else
            drain_held(stream);
    }
}

int
cf_stream_bind(struct cf_stream *stream, const struct cf_stream_ops *ops, void *user, int fd)
{
    uint32_t events = EPOLLET;

    stream->ops = ops;
    stream->user = user;
    stream->is_source_over = ops->fill == NULL;
    stream->is_sink_over = ops->drain == NULL;
    if (ops->fill == NULL || ops->drain == NULL)
        cf_mux_one_way(&stream->channel, ops->fill != NULL);
    stream->watch.on_event = on_event;
    stream->is_writable = ops->drain != NULL;
    stream->watch.fd = fd;
    if (fd < 0)
        return 0;
    events |= ops->fill != NULL ? EPOLLIN | EPOLLRDHUP : 0;
    events |= ops->drain != NULL ? EPOLLOUT : 0;
    return cf_watch_add(stream->init, &stream->watch, events);
}

struct cf_stream *
cf_stream_unbound(struct cf_init *init, json_int_t id)
{
    struct cf_mux_channel *channel;
    struct cf_stream *stream;

    if (id <= 0 || id > UINT32_MAX)
        return NULL;
    channel = cf_mux_find(&init->mux, (uint32_t)id);
    stream = (struct cf_stream *)channel;
    return stream != NULL && stream->ops == NULL ? stream : NULL;
}

static struct cf_mux_channel *
on_open(void *user, uint32_t tag)
{
    struct cf_stream *stream = cf_stream_new(user);

    return stream == NULL ? NULL : &stream->channel;
}

static void
on_opened(void *user, struct cf_mux_channel *channel)
{
    /* a request that names it follows */
}

static int
on_control(void *user, const char *bytes, size_t len, struct cf_error *err)
{
    return cf_control_take(user, bytes, len, err);
}

const struct cf_mux_events cf_stream_mux_events = {
    .on_open = on_open,
    .on_opened = on_opened,
    .on_data = on_data,
    .on_half_close = on_half_close,
    .on_reset = on_reset,
    .on_writable = on_writable,
    .on_control = on_control,
};
