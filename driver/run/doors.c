/*
 * The relay's connections: a door channel of the sandbox on one side, an HTTP connection of the
 * relay on the other. Neither knows the other; here they are introduced.
 *
 * HTTP code may ask for a reset while it is being fed, so an end is only marked, and the pair is
 * taken apart once the call into HTTP has returned.
 */
#include "run/hall.h"

#include <stdlib.h>

struct cf_hall_door {
    struct cf_run *run;
    struct cf_door *door;
    struct cf_http_conn *conn;
    bool is_egress; /* at the forward proxy's port, not at the relay's */
    struct cf_hall_door *next, **here;
    bool busy, is_over;
};

static void
part(struct cf_hall_door *d)
{
    if (d->busy) {
        d->is_over = true;
        return;
    }
    *d->here = d->next;
    if (d->next != NULL)
        d->next->here = d->here;
    d->run->door_count--;
    if (d->is_egress)
        cf_egress_forget(d->run->egress, d->conn);
    else
        cf_relay_forget(d->run->relay, d->conn);
    cf_door_close(d->door);
    free(d);
}

static void
leave(struct cf_hall_door *d)
{
    d->busy = false;
    if (d->is_over)
        part(d);
}

static int
door_data(void *user, struct cf_door *door, const char *bytes, size_t len)
{
    struct cf_hall_door *d = user;

    d->busy = true;
    cf_http_conn_feed(d->conn, bytes, len);
    leave(d);
    return 0;
}

static void
door_end(void *user, struct cf_door *door)
{
    struct cf_hall_door *d = user;

    d->busy = true;
    cf_http_conn_eof(d->conn);
    leave(d);
}

static void
door_reset(void *user, struct cf_door *door)
{
    struct cf_hall_door *d = user;

    d->busy = true;
    cf_http_conn_gone(d->conn);
    d->is_over = true;
    leave(d);
}

static void
door_room(void *user, struct cf_door *door)
{
    struct cf_hall_door *d = user;

    d->busy = true;
    cf_http_conn_writable(d->conn);
    leave(d);
}

static size_t
io_write(void *user, const char *bytes, size_t len)
{
    struct cf_hall_door *d = user;

    return d->is_over ? len : cf_door_write(d->door, bytes, len);
}

static void
io_shutdown(void *user)
{
    struct cf_hall_door *d = user;

    cf_door_shutdown(d->door);
    part(d); /* a closed door lingers by itself until what was written is out and the peer ends */
}

static void
io_end_write(void *user)
{
    struct cf_hall_door *d = user;

    if (!d->is_over)
        cf_door_shutdown(d->door);
}

static void
io_reset(void *user)
{
    struct cf_hall_door *d = user;

    part(d);
}

static void
io_consumed(void *user, size_t len)
{
    struct cf_hall_door *d = user;

    if (!d->is_over)
        cf_door_consumed(d->door, len);
}

/* The room whose port it is takes the connection; NULL: it cannot. */
static struct cf_http_conn *
take_connection(struct cf_run *run, struct cf_hall_door *d, unsigned port)
{
    static const struct cf_http_io io = {.write = io_write, .shutdown = io_shutdown, .reset = io_reset,
                                         .consumed = io_consumed, .end_write = io_end_write};

    d->is_egress = run->egress != NULL && port == cf_gateway_egress_port(&run->options);
    if (d->is_egress)
        return cf_egress_accept(run->egress, &io, d);
    return run->relay != NULL ? cf_relay_accept(run->relay, &io, d) : NULL;
}

void
cf_doors_on_door(void *user, struct cf_door *door, unsigned port)
{
    static const struct cf_door_events events = {.on_data = door_data, .on_end = door_end, .on_reset = door_reset, .on_room = door_room};
    struct cf_run *run = user;
    struct cf_hall_door *d = calloc(1, sizeof *d);

    if (d == NULL || (d->conn = take_connection(run, d, port)) == NULL) {
        free(d);
        cf_door_close(door); /* nobody serves it: the caller sees a reset at once */
        return;
    }
    d->run = run;
    d->door = door;
    d->next = run->doors;
    d->here = &run->doors;
    if (d->next != NULL)
        d->next->here = &d->next;
    run->doors = d;
    run->door_count++;
    cf_turn_activity(run);
    cf_door_open(door, &events, d);
    cf_perturb_moment(run, CF_MOMENT_MODEL);
}

void
cf_doors_close_all(struct cf_run *run)
{
    while (run->doors != NULL) {
        run->doors->busy = false;
        part(run->doors);
    }
}
