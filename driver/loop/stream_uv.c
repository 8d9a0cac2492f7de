/*
 * Unix sockets and plain tcp: a libuv stream. A name may have several addresses; they are
 * tried in turn, each on a fresh handle, since libuv connects a handle once.
 */
#include "base/str.h"
#include "loop/stream_impl.h"

#include <errno.h>
#include <string.h>

struct uv_side {
    struct cf_stream base;
    union {
        uv_handle_t handle;
        uv_stream_t stream;
        uv_pipe_t pipe;
        uv_tcp_t tcp;
    } io;
    bool io_open;     /* the handle is in the loop */
    uv_timer_t timer; /* connecting */
    bool timer_open;
    uv_getaddrinfo_t lookup;
    bool is_looking_up;
    struct addrinfo *addresses, *next_address;
    uv_connect_t connect;
    uv_write_t write;
    uv_shutdown_t shutdown;
    int last_error;
    char *where; /* "unix:///run/x.sock", "host:2375" for messages */
    uint64_t connect_ms;
};

static void try_next_address(struct uv_side *side);

static void
free_if_closed(struct uv_side *side)
{
    if (!side->base.is_closing || side->io_open || side->timer_open || side->is_looking_up)
        return;
    void (*on_closed)(void *) = side->base.on_closed;
    void *user = side->base.closed_user;
    if (side->addresses != NULL)
        uv_freeaddrinfo(side->addresses);
    free(side->where);
    free(side);
    if (on_closed != NULL)
        on_closed(user);
}

static void
on_timer_closed(uv_handle_t *handle)
{
    struct uv_side *side = handle->data;
    side->timer_open = false;
    free_if_closed(side);
}

static void
on_io_closed(uv_handle_t *handle)
{
    struct uv_side *side = handle->data;

    side->io_open = false;
    if (side->base.is_closing)
        free_if_closed(side);
    else
        try_next_address(side); /* closed only to make room for the next try */
}

static void
fail_connect(struct uv_side *side, int uv_code)
{
    struct cf_error err = {0};

    uv_timer_stop(&side->timer);
    if (uv_code == UV_ETIMEDOUT)
        cf_error_set(&err, CF_ERROR_ENGINE_TIMEOUT, ETIMEDOUT,
                     "%s did not accept a connection within %llu ms", side->where,
                     (unsigned long long)side->connect_ms);
    else
        cf_error_set(&err, CF_ERROR_ENGINE, -uv_code, "connect to %s: %s", side->where,
                     uv_strerror(uv_code));
    cf_stream_end(&side->base, &err);
}

static void
on_connect_timeout(uv_timer_t *timer)
{
    fail_connect(timer->data, UV_ETIMEDOUT);
}

/* ---- reading and writing ---------------------------------------------------------------- */

/* For the one read alone: hundreds of streams are open that have nothing to say. Without memory the
 * read comes back as ENOBUFS. */
static void
on_alloc(uv_handle_t *handle, size_t wish, uv_buf_t *buf)
{
    char *bytes = malloc(CF_STREAM_BUFFER_BYTES);

    *buf = uv_buf_init(bytes, bytes != NULL ? CF_STREAM_BUFFER_BYTES : 0);
}

static void
on_read(uv_stream_t *stream, ssize_t got, const uv_buf_t *buf)
{
    cf_auto_free char *bytes = buf->base;
    struct uv_side *side = stream->data;
    struct cf_error err = {0};

    if (got > 0) {
        side->base.events.on_data(side->base.user, bytes, (size_t)got);
        return;
    }
    if (got == 0)
        return;
    uv_read_stop(stream);
    if (got == UV_EOF) {
        cf_stream_end(&side->base, NULL);
        return;
    }
    cf_error_set(&err, CF_ERROR_ENGINE, (int)-got, "read from %s: %s", side->where,
                 uv_strerror((int)got));
    cf_stream_end(&side->base, &err);
}

static void
on_wrote(uv_write_t *request, int status)
{
    struct uv_side *side = request->data;

    /* A peer that is gone is no failure of the write: what it said before it went is still to
     * be read, and the read side then says end of file or reset. */
    cf_stream_wrote(&side->base);
}

static int
side_write(struct cf_stream *base, const char *bytes, size_t len, struct cf_error *err)
{
    struct uv_side *side = cf_container_of(base, struct uv_side, base);
    uv_buf_t buf = uv_buf_init((char *)bytes, (unsigned)len);

    side->write.data = side;
    int rc = uv_write(&side->write, &side->io.stream, &buf, 1, on_wrote);
    if (rc < 0)
        return cf_error_set(err, CF_ERROR_ENGINE, -rc, "write to %s: %s", side->where,
                            uv_strerror(rc));
    return 0;
}

static void
on_shut(uv_shutdown_t *request, int status)
{
    /* a peer already gone is as shut as can be */
}

static void
side_shutdown(struct cf_stream *base)
{
    struct uv_side *side = cf_container_of(base, struct uv_side, base);

    side->shutdown.data = side;
    (void)uv_shutdown(&side->shutdown, &side->io.stream,
                      on_shut); /* only fails when not connected */
}

static void
side_local_address(const struct cf_stream *base, char out[64])
{
    const struct uv_side *side = cf_container_of(base, const struct uv_side, base);
    uv_os_fd_t fd;

    if (uv_fileno(&side->io.handle, &fd) == 0)
        cf_stream_name_of(fd, out);
}

static void
side_close(struct cf_stream *base)
{
    struct uv_side *side = cf_container_of(base, struct uv_side, base);

    uv_timer_stop(&side->timer);
    uv_close((uv_handle_t *)&side->timer, on_timer_closed);
    if (side->is_looking_up)
        (void)uv_cancel((uv_req_t *)&side->lookup); /* its callback comes either way */
    if (side->io_open && !uv_is_closing(&side->io.handle))
        uv_close(&side->io.handle, on_io_closed);
}

static const struct cf_stream_kind uv_kind = {side_write, side_shutdown, side_local_address,
                                              side_close};

/* ---- connecting ------------------------------------------------------------------------- */

static void
on_connected(uv_connect_t *request, int status)
{
    struct uv_side *side = request->data;

    if (side->base.is_closing || side->base.has_ended)
        return;
    if (status < 0) {
        side->last_error = status;
        if (side->next_address == NULL)
            fail_connect(side, status);
        else
            uv_close(&side->io.handle, on_io_closed);
        return;
    }
    uv_timer_stop(&side->timer);
    side->base.is_open = true;
    int rc = uv_read_start(&side->io.stream, on_alloc, on_read);
    if (rc < 0) {
        fail_connect(side, rc);
        return;
    }
    if (side->base.wants_shutdown)
        side_shutdown(&side->base);
    side->base.events.on_open(side->base.user);
}

static void
try_next_address(struct uv_side *side)
{
    struct addrinfo *address = side->next_address;

    if (side->base.has_ended)
        return;
    if (address == NULL) {
        fail_connect(side, side->last_error);
        return;
    }
    side->next_address = address->ai_next;
    (void)uv_tcp_init(side->base.loop, &side->io.tcp);
    side->io.handle.data = side;
    side->io_open = true;
    side->connect.data = side;
    int rc = uv_tcp_connect(&side->connect, &side->io.tcp, address->ai_addr, on_connected);
    if (rc < 0) {
        side->last_error = rc;
        uv_close(&side->io.handle, on_io_closed);
        return;
    }
    (void)uv_tcp_nodelay(&side->io.tcp,
                         1); /* better without, but it works with the delay too */
    (void)uv_tcp_keepalive(&side->io.tcp, 1, 30);
}

static void
on_looked_up(uv_getaddrinfo_t *request, int status, struct addrinfo *addresses)
{
    struct uv_side *side = request->data;

    side->is_looking_up = false;
    side->addresses = side->next_address = addresses;
    if (side->base.is_closing) {
        free_if_closed(side);
        return;
    }
    if (status < 0)
        fail_connect(side, status);
    else
        try_next_address(side);
}

static int
begin_tcp(struct uv_side *side, const struct cf_stream_target *target)
{
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_family = AF_UNSPEC};
    char service[16];

    snprintf(service, sizeof service, "%u", target->port);
    side->lookup.data = side;
    int rc = uv_getaddrinfo(side->base.loop, &side->lookup, on_looked_up, target->host,
                            service, &hints);
    side->is_looking_up = rc == 0;
    return rc;
}

static void
begin_unix(struct uv_side *side, const char *path)
{
    (void)uv_pipe_init(side->base.loop, &side->io.pipe, 0);
    side->io.handle.data = side;
    side->io_open = true;
    side->connect.data = side;
    uv_pipe_connect(&side->connect, &side->io.pipe, path,
                    on_connected); /* errors come there */
}

static struct uv_side *
side_new(uv_loop_t *loop, const struct cf_stream_target *target)
{
    struct uv_side *side = calloc(1, sizeof *side);

    if (side == NULL)
        return NULL;
    int rc = target->unix_path != NULL
                 ? asprintf(&side->where, "unix://%s", target->unix_path)
                 : asprintf(&side->where, "%s:%u", target->host, target->port);
    if (rc < 0) {
        free(side);
        return NULL;
    }
    side->base.kind = &uv_kind;
    side->base.loop = loop;
    return side;
}

int
cf_stream_uv_open(uv_loop_t *loop, const struct cf_stream_target *target, uint64_t connect_ms,
                  const struct cf_stream_events *events, void *user,
                  struct cf_stream **ret_stream, struct cf_error *err)
{
    struct uv_side *side = side_new(loop, target);

    if (side == NULL)
        return cf_error_memory(err);
    side->base.events = *events;
    side->base.user = user;
    side->connect_ms = connect_ms;
    if (target->unix_path == NULL) {
        int rc = begin_tcp(side, target);
        if (rc < 0) {
            cf_error_set(err, CF_ERROR_ENGINE, -rc, "look up %s: %s", side->where,
                         uv_strerror(rc));
            free(side->where);
            free(side);
            return -1;
        }
    }
    (void)uv_timer_init(loop, &side->timer); /* only links it into the loop: cannot fail */
    side->timer.data = side;
    side->timer_open = true;
    uv_update_time(loop);
    uv_timer_start(&side->timer, on_connect_timeout, connect_ms, 0);
    if (target->unix_path != NULL)
        begin_unix(side, target->unix_path);
    *ret_stream = &side->base;
    return 0;
}
