/* Resolve, look at every address, connect to one after the other, carry bytes. */
#include "loop/outward.h"

#include "base/buf.h"
#include "base/str.h"

#include <netdb.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>

enum { READ_BYTES = 32 * 1024, DEFAULT_MS = 10000 };

struct cf_outward {
    uv_loop_t *loop;
    struct cf_outward_events events;
    void *user;
    char *host;
    unsigned port;

    struct sockaddr_storage addresses[CF_OUTWARD_ADDRESSES];
    size_t address_count, address_at;
    uv_getaddrinfo_t lookup;
    uv_connect_t connecting;
    uv_tcp_t tcp;
    uv_timer_t timer; /* until it is open: the deadline; at first: the given addresses' turn */
    uv_write_t write;
    uv_shutdown_t ending;
    struct cf_buf out, writing;

    bool is_looking_up, has_tcp, is_open, is_writing, is_shut, wants_shut, is_paused;
    bool wants_room, is_closing, is_given; /* is_given: addresses need no lookup */
    bool is_told, is_broken; /* on_end was called; nothing can be written any more */
    unsigned handles;
    int last_error;
    void (*on_closed)(void *user);
    void *closed_user;
    char in[READ_BYTES];
};

static void
outward_free(struct cf_outward *o)
{
    void (*on_closed)(void *user) = o->on_closed;
    void *user = o->closed_user;

    cf_buf_release(&o->out);
    cf_buf_release(&o->writing);
    free(o->host);
    free(o);
    if (on_closed != NULL)
        on_closed(user);
}

static void
part_over(struct cf_outward *o)
{
    if (o->is_closing && o->handles == 0 && !o->is_looking_up)
        outward_free(o);
}

static void
end(struct cf_outward *o, enum cf_outward_fault fault, int error)
{
    o->is_broken = o->is_broken || fault != CF_OUTWARD_EOF;
    if (o->is_told || o->is_closing)
        return;
    o->is_told = true;
    (void)uv_timer_stop(&o->timer); /* cannot fail */
    o->events.on_end(o->user, fault, error);
}

/* ---- bytes -------------------------------------------------------------------------------
 */

static void write_some(struct cf_outward *o);

static void
on_shut(uv_shutdown_t *req, int status)
{
}

static void
shut_when_written(struct cf_outward *o)
{
    if (!o->wants_shut || o->is_shut || !o->is_open || o->is_writing || o->out.len > 0)
        return;
    o->is_shut = true;
    (void)uv_shutdown(&o->ending, (uv_stream_t *)&o->tcp, on_shut); /* the read side tells */
}

static void
on_written(uv_write_t *req, int status)
{
    struct cf_outward *o = req->data;

    o->is_writing = false;
    if (o->is_closing)
        return;
    if (status < 0) {
        end(o, CF_OUTWARD_LOST, status);
        return;
    }
    write_some(o);
    if (o->wants_room && o->out.len < CF_OUTWARD_QUEUE / 2) {
        o->wants_room = false;
        o->events.on_room(o->user);
    }
}

static void
write_some(struct cf_outward *o)
{
    struct cf_buf empty = o->writing;
    uv_buf_t buf;

    if (!o->is_open || o->is_writing || o->is_broken)
        return;
    if (o->out.len == 0) {
        shut_when_written(o);
        return;
    }
    cf_buf_reset(&empty);
    o->writing = o->out;
    o->out = empty;
    buf = uv_buf_init(o->writing.data, (unsigned)o->writing.len);
    o->write.data = o;
    if (uv_write(&o->write, (uv_stream_t *)&o->tcp, &buf, 1, on_written) == 0)
        o->is_writing = true;
}

static void
on_alloc(uv_handle_t *handle, size_t suggested, uv_buf_t *buf)
{
    struct cf_outward *o = handle->data;

    *buf = uv_buf_init(o->in, sizeof o->in);
}

static void
on_read(uv_stream_t *stream, ssize_t n, const uv_buf_t *buf)
{
    struct cf_outward *o = stream->data;

    if (n == 0 || o->is_closing)
        return;
    if (n < 0) {
        (void)uv_read_stop(stream); /* always succeeds */
        end(o, n == UV_EOF ? CF_OUTWARD_EOF : CF_OUTWARD_LOST, n == UV_EOF ? 0 : (int)n);
        return;
    }
    if (o->events.on_data(o->user, buf->base, (size_t)n) == CF_OUTWARD_PAUSE &&
        !o->is_closing) {
        o->is_paused = true;
        (void)uv_read_stop(stream);
    }
}

/* ---- connecting ----------------------------------------------------------------------------
 */

static void connect_next(struct cf_outward *o);

static void
on_tcp_closed(uv_handle_t *handle)
{
    struct cf_outward *o = handle->data;

    o->handles--;
    o->has_tcp = false;
    if (o->is_closing)
        part_over(o);
    else
        connect_next(o);
}

static void
on_connected(uv_connect_t *req, int status)
{
    struct cf_outward *o = req->data;

    if (o->is_closing)
        return;
    if (status < 0) {
        o->last_error = status;
        uv_close((uv_handle_t *)&o->tcp, on_tcp_closed);
        return;
    }
    (void)uv_timer_stop(&o->timer);
    (void)uv_tcp_nodelay(&o->tcp, 1); /* a courtesy */
    o->is_open = true;
    if (uv_read_start((uv_stream_t *)&o->tcp, on_alloc, on_read) != 0) {
        end(o, CF_OUTWARD_LOST, 0);
        return;
    }
    o->events.on_open(o->user, (const struct sockaddr *)&o->addresses[o->address_at - 1]);
    if (!o->is_closing)
        write_some(o);
}

static void
set_port(struct sockaddr_storage *address, unsigned port)
{
    if (address->ss_family == AF_INET6)
        ((struct sockaddr_in6 *)address)->sin6_port = htons((uint16_t)port);
    else
        ((struct sockaddr_in *)address)->sin_port = htons((uint16_t)port);
}

static void
connect_next(struct cf_outward *o)
{
    struct sockaddr_storage *address;

    if (o->is_told)
        return;
    if (o->address_at == o->address_count) {
        end(o, CF_OUTWARD_CONNECT, o->last_error);
        return;
    }
    address = &o->addresses[o->address_at++];
    set_port(address, o->port);
    (void)uv_tcp_init(o->loop, &o->tcp); /* makes no socket yet */
    o->tcp.data = o;
    o->handles++;
    o->has_tcp = true;
    o->connecting.data = o;
    o->last_error = uv_tcp_connect(&o->connecting, &o->tcp, (const struct sockaddr *)address,
                                   on_connected);
    if (o->last_error != 0)
        uv_close((uv_handle_t *)&o->tcp, on_tcp_closed);
}

static void
look_at_addresses(struct cf_outward *o)
{
    if (o->address_count == 0) {
        end(o, CF_OUTWARD_RESOLVE, o->last_error);
        return;
    }
    for (size_t i = 0; i < o->address_count; i++)
        if (!o->events.on_address(o->user, (const struct sockaddr *)&o->addresses[i])) {
            end(o, CF_OUTWARD_REFUSED, 0);
            return;
        }
    connect_next(o);
}

static void
on_lookup(uv_getaddrinfo_t *req, int status, struct addrinfo *list)
{
    struct cf_outward *o = req->data;

    o->is_looking_up = false;
    for (struct addrinfo *at = list; at != NULL && o->address_count < CF_OUTWARD_ADDRESSES;
         at = at->ai_next)
        if (at->ai_addrlen <= sizeof o->addresses[0])
            memcpy(&o->addresses[o->address_count++], at->ai_addr, at->ai_addrlen);
    uv_freeaddrinfo(list);
    o->last_error = status;
    if (o->is_closing)
        part_over(o);
    else if (!o->is_told)
        look_at_addresses(o);
}

static void
on_timer(uv_timer_t *timer)
{
    struct cf_outward *o = timer->data;

    if (o->is_given) {
        o->is_given = false;
        (void)uv_timer_start(&o->timer, on_timer, DEFAULT_MS, 0);
        look_at_addresses(o);
    } else {
        end(o, CF_OUTWARD_DEADLINE, 0);
    }
}

/* ---- the front door
 * -------------------------------------------------------------------------- */

static int
begin(struct cf_outward *o, const struct cf_outward_target *target, struct cf_error *err)
{
    const struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_ADDRCONFIG};
    int status;

    if (target->resolve != NULL) { /* told from the loop, as the system's answer would be */
        o->address_count =
            target->resolve(target->resolve_user, o->host, o->addresses, CF_OUTWARD_ADDRESSES);
        o->is_given = true;
        (void)uv_timer_start(&o->timer, on_timer, 0, 0);
        return 0;
    }
    status = uv_getaddrinfo(o->loop, &o->lookup, on_lookup, o->host, NULL, &hints);
    if (status != 0)
        return cf_error_set(err, CF_ERROR_INTERNAL, -status, "%.253s cannot be looked up: %s",
                            o->host, uv_strerror(status));
    o->is_looking_up = true;
    (void)uv_timer_start(&o->timer, on_timer,
                         target->connect_ms > 0 ? target->connect_ms : DEFAULT_MS, 0);
    return 0;
}

int
cf_outward_open(uv_loop_t *loop, const struct cf_outward_target *target,
                const struct cf_outward_events *events, void *user,
                struct cf_outward **ret_outward, struct cf_error *err)
{
    struct cf_outward *o = calloc(1, sizeof *o);

    if (o == NULL || cf_str_copy(&o->host, target->host, err) < 0) {
        free(o);
        return cf_error_memory(err);
    }
    o->loop = loop;
    o->events = *events;
    o->user = user;
    o->port = target->port;
    o->lookup.data = o;
    (void)uv_timer_init(loop, &o->timer); /* only links it into the loop */
    o->timer.data = o;
    o->handles = 1;
    uv_update_time(loop);
    if (begin(o, target, err) == 0) {
        *ret_outward = o;
        return 0;
    }
    cf_outward_close(o, NULL, NULL);
    return -1;
}

bool
cf_outward_write(struct cf_outward *o, const char *bytes, size_t len)
{
    if (o->is_broken)
        return true; /* nobody takes it any more, and the end was told */
    if (cf_buf_add(&o->out, bytes, len) < 0) {
        end(o, CF_OUTWARD_LOST, UV_ENOMEM);
        return true;
    }
    write_some(o);
    o->wants_room = o->out.len > CF_OUTWARD_QUEUE;
    return !o->wants_room;
}

void
cf_outward_shutdown(struct cf_outward *o)
{
    o->wants_shut = true;
    shut_when_written(o);
}

void
cf_outward_resume(struct cf_outward *o)
{
    if (!o->is_paused || o->is_closing || o->is_told)
        return;
    o->is_paused = false;
    (void)uv_read_start((uv_stream_t *)&o->tcp, on_alloc, on_read); /* it was reading before */
}

static void
on_timer_closed(uv_handle_t *handle)
{
    struct cf_outward *o = handle->data;

    o->handles--;
    part_over(o);
}

void
cf_outward_close(struct cf_outward *o, void (*on_closed)(void *user), void *user)
{
    if (o->is_closing)
        return;
    o->is_closing = true;
    o->on_closed = on_closed;
    o->closed_user = user;
    if (o->is_looking_up)
        (void)uv_cancel((uv_req_t *)&o->lookup); /* one under way ends by itself */
    uv_close((uv_handle_t *)&o->timer, on_timer_closed);
    if (o->has_tcp && !uv_is_closing((uv_handle_t *)&o->tcp))
        uv_close((uv_handle_t *)&o->tcp, on_tcp_closed);
}
