/*
 * Doors: connections that programs in the sandbox made to the relay's ports. cf-init opens the
 * channel; whoever serves the port accepts it at once or it is reset.
 */
#include "sandbox/link.h"
#include "sandbox/link_internal.h"

#include <stdlib.h>

struct cf_door {
    struct cf_link_junk junk;
    struct cf_link *link;
    LIST_ENTRY(cf_door) in_list;
    struct cf_link_channel channel;
    const struct cf_door_events *events; /* NULL: not accepted, or closed by its owner */
    void *user;
    bool is_lost, wants_room;
};

/* Closed by its owner, but what was written is still on its way. */
static bool
is_lingering(const struct cf_door *door)
{
    return door->events == NULL;
}

static void
drop(struct cf_door *door)
{
    if (door->junk.is_junk)
        return;
    LIST_REMOVE(door, in_list);
    cf_mux_close(&door->link->mux, &door->channel.mux);
    cf_link_discard(door->link, &door->junk);
}

static void
on_data(struct cf_link_channel *channel, const char *bytes, size_t len)
{
    struct cf_door *door = channel->object;

    if (is_lingering(door))
        cf_mux_consumed(&door->link->mux, &channel->mux, len);
    else
        (void)door->events->on_data(door->user, door, bytes,
                                    len); /* credit comes by _consumed */
}

static void
on_half_close(struct cf_link_channel *channel)
{
    struct cf_door *door = channel->object;

    if (is_lingering(door))
        drop(door);
    else
        door->events->on_end(door->user, door);
}

static void
on_reset(struct cf_link_channel *channel)
{
    struct cf_door *door = channel->object;

    if (is_lingering(door)) {
        drop(door);
        return;
    }
    door->is_lost = true;
    door->events->on_reset(door->user, door);
}

static void
on_writable(struct cf_link_channel *channel)
{
    struct cf_door *door = channel->object;

    if (is_lingering(door) || !door->wants_room)
        return;
    door->wants_room = false;
    door->events->on_room(door->user, door);
}

static const struct cf_link_channel_ops door_ops = {on_data, on_half_close, on_reset,
                                                    on_writable};

struct cf_mux_channel *
cf_door_offer(struct cf_link *link, unsigned port)
{
    struct cf_door *door = calloc(1, sizeof *door);

    if (door == NULL)
        return NULL;
    door->link = link;
    door->channel.ops = &door_ops;
    door->channel.object = door;
    LIST_INSERT_HEAD(&link->doors, door, in_list);
    return &door->channel.mux;
}

void
cf_door_announce(struct cf_link *link, struct cf_mux_channel *channel)
{
    struct cf_door *door = ((struct cf_link_channel *)channel)->object;

    if (link->events->on_door != NULL)
        link->events->on_door(link->user, door, channel->tag);
    if (!link->is_freed && door->events == NULL && channel->is_attached &&
        !channel->send_closed)
        drop(door); /* nobody serves that port */
}

void
cf_door_open(struct cf_door *door, const struct cf_door_events *events, void *user)
{
    door->events = events;
    door->user = user;
}

size_t
cf_door_write(struct cf_door *door, const char *bytes, size_t len)
{
    size_t done;

    cf_link_enter(door->link);
    done = cf_mux_write(&door->link->mux, &door->channel.mux, bytes, len);
    if (done < len)
        door->wants_room = true;
    cf_link_leave(door->link);
    return done;
}

void
cf_door_consumed(struct cf_door *door, size_t len)
{
    cf_link_enter(door->link);
    cf_mux_consumed(&door->link->mux, &door->channel.mux, len);
    cf_link_leave(door->link);
}

void
cf_door_shutdown(struct cf_door *door)
{
    cf_link_enter(door->link);
    cf_mux_half_close(&door->link->mux, &door->channel.mux);
    cf_link_leave(door->link);
}

void
cf_door_close(struct cf_door *door)
{
    struct cf_mux_channel *channel;
    struct cf_link *link;

    if (door == NULL)
        return;
    link = door->link;
    channel = &door->channel.mux;
    cf_link_enter(link);
    door->events = NULL;
    if (!channel->is_attached || !channel->send_closed || channel->recv_closed ||
        link->is_over) {
        drop(door);
    } else if (channel->window > channel->owed + channel->recv_credit) {
        /* what its owner never dealt with goes back, or the peer could wait for it for ever */
        cf_mux_consumed(&link->mux, channel,
                        channel->window - channel->owed - channel->recv_credit);
    }
    cf_link_leave(link);
}

void
cf_door_lose_all(struct cf_link *link)
{
    struct cf_door *door;

    for (;;) {
        LIST_FOREACH(door, &link->doors, in_list)
        if (door->events != NULL && !door->is_lost)
            break;
        if (door == NULL || link->is_freed)
            return;
        door->is_lost = true;
        door->events->on_reset(door->user, door);
    }
}

void
cf_door_drop_all(struct cf_link *link)
{
    while (!LIST_EMPTY(&link->doors))
        drop(LIST_FIRST(&link->doors));
}
