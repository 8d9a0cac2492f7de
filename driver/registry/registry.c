/* The registry's port: connections in, bytes both ways, and an end that leaves no file behind.
 */
#include "registry/registry.h"

#include "base/clock.h"
#include "base/str.h"
#include "registry/impl.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DEFAULT_TOTAL_BYTES (16ull << 30)
enum { WRITE_PIECE = 256 * 1024, TICK_MS = 1000 };

/* ---- the end
 * ------------------------------------------------------------------------------------------
 */

static void
registry_free(struct cf_registry *registry)
{
    if (registry == NULL)
        return;
    cf_store_release(registry);
    free(registry->directory);
    if (registry->authorization != NULL)
        sodium_memzero(registry->authorization, strlen(registry->authorization));
    free(registry->authorization);
    free(registry);
}

/* Connections and handles go first, for they may still hold uploads; then the files. */
static void
go_on_closing(struct cf_registry *registry)
{
    if (!registry->is_closing || registry->conn_count > 0 || registry->handles_open > 0)
        return;
    if (!registry->is_swept) {
        registry->is_swept = true;
        cf_store_remove_files(registry);
    }
    if (registry->files_open > 0)
        return;
    void (*on_closed)(void *user) = registry->on_closed;
    void *user = registry->closed_user;
    registry_free(registry);
    if (on_closed != NULL)
        on_closed(user);
}

void
cf_registry_file_gone(void *user)
{
    struct cf_registry *registry = user;

    registry->files_open--;
    go_on_closing(registry);
}

static void
on_handle_closed(uv_handle_t *handle)
{
    struct cf_registry *registry = handle->data;

    registry->handles_open--;
    go_on_closing(registry);
}

/* ---- a connection -------------------------------------------------------------------- */

static void
on_tcp_closed(uv_handle_t *handle)
{
    struct cf_registry_conn *conn = handle->data;
    struct cf_registry *registry = conn->registry;

    cf_http_conn_gone(conn->http);
    cf_http_conn_free(conn->http);
    free(conn->pending);
    TAILQ_REMOVE(&registry->conns, conn, link);
    registry->conn_count--;
    free(conn);
    go_on_closing(registry);
}

static void
conn_close(struct cf_registry_conn *conn)
{
    if (conn->is_closing)
        return;
    conn->is_closing = true;
    uv_close((uv_handle_t *)&conn->tcp, on_tcp_closed);
}

static void
on_shutdown(uv_shutdown_t *req, int status)
{
    struct cf_registry_conn *conn = req->data;

    if (conn->is_eof)
        conn_close(
            conn); /* both sides are done; else the peer's end, or the linger limit, does it */
}

static void
shutdown_now(struct cf_registry_conn *conn)
{
    conn->shutdown.data = conn;
    if (uv_shutdown(&conn->shutdown, (uv_stream_t *)&conn->tcp, on_shutdown) != 0)
        conn_close(conn);
}

static void
on_write(uv_write_t *req, int status)
{
    struct cf_registry_conn *conn = req->data;

    conn->is_writing = false;
    free(conn->pending);
    conn->pending = NULL;
    if (conn->is_closing)
        return;
    conn->last_ms = cf_clock_ms();
    if (status < 0)
        conn_close(conn);
    else if (conn->wants_shutdown)
        shutdown_now(conn);
    else
        cf_http_conn_writable(conn->http);
}

/* What the socket does not take at once is copied, and given to libuv to finish. */
static size_t
write_later(struct cf_registry_conn *conn, const char *bytes, size_t len)
{
    uv_buf_t buf;

    if (len > WRITE_PIECE)
        len = WRITE_PIECE;
    conn->pending = malloc(len);
    if (conn->pending == NULL) {
        conn_close(conn);
        return 0;
    }
    memcpy(conn->pending, bytes, len);
    buf = uv_buf_init(conn->pending, (unsigned)len);
    conn->write.data = conn;
    if (uv_write(&conn->write, (uv_stream_t *)&conn->tcp, &buf, 1, on_write) != 0) {
        conn_close(conn);
        return 0;
    }
    conn->is_writing = true;
    return len;
}

static size_t
io_write(void *user, const char *bytes, size_t len)
{
    struct cf_registry_conn *conn = user;
    uv_buf_t buf = uv_buf_init((char *)bytes, (unsigned)len);
    int took;

    if (conn->is_writing || conn->is_closing)
        return 0;
    conn->last_ms = cf_clock_ms();
    took = uv_try_write((uv_stream_t *)&conn->tcp, &buf, 1);
    if (took < 0 && took != UV_EAGAIN) {
        conn_close(conn);
        return 0;
    }
    took = took < 0 ? 0 : took;
    return (size_t)took +
           ((size_t)took < len ? write_later(conn, bytes + took, len - (size_t)took) : 0);
}

static void
io_shutdown(void *user)
{
    struct cf_registry_conn *conn = user;

    if (conn->is_closing || conn->is_shut)
        return;
    conn->is_shut = true;
    conn->last_ms = cf_clock_ms();
    conn->wants_shutdown = conn->is_writing;
    if (!conn->is_writing)
        shutdown_now(conn);
}

static void
io_reset(void *user)
{
    conn_close(user);
}

static void on_alloc(uv_handle_t *handle, size_t suggested, uv_buf_t *buf);
static void on_read(uv_stream_t *stream, ssize_t n, const uv_buf_t *buf);

static void
read_on(struct cf_registry_conn *conn)
{
    if (conn->is_reading || conn->is_closing)
        return;
    conn->is_reading = true;
    if (uv_read_start((uv_stream_t *)&conn->tcp, on_alloc, on_read) != 0)
        conn_close(conn);
}

static void
io_consumed(void *user, size_t len)
{
    struct cf_registry_conn *conn = user;

    conn->unconsumed -= len;
    if (conn->unconsumed == 0)
        read_on(conn);
}

static const struct cf_http_io io = {io_write, io_shutdown, io_reset, io_consumed, NULL};

static void
on_alloc(uv_handle_t *handle, size_t suggested, uv_buf_t *buf)
{
    struct cf_registry_conn *conn = handle->data;

    *buf = uv_buf_init(conn->in, sizeof conn->in);
}

static void
on_read(uv_stream_t *stream, ssize_t n, const uv_buf_t *buf)
{
    struct cf_registry_conn *conn = stream->data;

    if (n == 0 || conn->is_closing)
        return;
    conn->last_ms = cf_clock_ms();
    if (n == UV_EOF && !conn->is_shut) {
        conn->is_eof = true;
        conn->is_reading = false;
        (void)uv_read_stop(stream);
        cf_http_conn_eof(conn->http);
        return;
    }
    if (n < 0) {
        conn_close(conn);
        return;
    }
    conn->unconsumed += (size_t)n;
    cf_http_conn_feed(conn->http, buf->base, (size_t)n);
    if (conn->unconsumed > 0 && !conn->is_closing) {
        conn->is_reading = false;   /* a disk is writing: the socket waits */
        (void)uv_read_stop(stream); /* cannot fail */
    }
}

/* ---- the port
 * -----------------------------------------------------------------------------------------------
 */

static void
on_unaccepted_closed(uv_handle_t *handle)
{
    free(handle->data);
}

static struct cf_registry_conn *
conn_accept(struct cf_registry *registry)
{
    struct cf_registry_conn *conn = calloc(1, sizeof *conn);

    if (conn == NULL)
        return NULL;
    conn->registry = registry;
    conn->tcp.data = conn;
    if (uv_tcp_init(registry->loop, &conn->tcp) != 0) {
        free(conn);
        return NULL;
    }
    conn->http = cf_http_conn_new(&io, conn, &cf_exchange_handler, conn, 0);
    if (conn->http == NULL ||
        uv_accept((uv_stream_t *)&registry->listener, (uv_stream_t *)&conn->tcp) != 0) {
        cf_http_conn_free(conn->http);
        uv_close((uv_handle_t *)&conn->tcp, on_unaccepted_closed);
        return NULL;
    }
    return conn;
}

static void
on_connection(uv_stream_t *listener, int status)
{
    struct cf_registry *registry = listener->data;
    struct cf_registry_conn *conn;

    if (status < 0 || registry->is_closing)
        return;
    conn = conn_accept(registry);
    if (conn == NULL)
        return;
    TAILQ_INSERT_TAIL(&registry->conns, conn, link);
    registry->conn_count++;
    conn->last_ms = cf_clock_ms();
    (void)uv_tcp_nodelay(&conn->tcp, 1); /* slower without, not wrong */
    if (registry->conn_count > CF_REGISTRY_CONNS)
        conn_close(conn);
    else
        read_on(conn);
}

static void
on_tick(uv_timer_t *timer)
{
    struct cf_registry *registry = timer->data;
    struct cf_registry_conn *conn;
    uint64_t now = cf_clock_ms();

    TAILQ_FOREACH(conn, &registry->conns, link)
    if (now - conn->last_ms > (conn->is_shut ? CF_REGISTRY_LINGER_MS : CF_REGISTRY_IDLE_MS))
        conn_close(conn);
}

static int
copy_options(struct cf_registry *registry, const struct cf_registry_options *options,
             struct cf_error *err)
{
    struct cf_buf pair = {0};
    size_t size;

    registry->log = options->log;
    registry->max_total_bytes =
        options->max_total_bytes != 0 ? options->max_total_bytes : DEFAULT_TOTAL_BYTES;
    if (options->directory == NULL)
        return cf_error_set(err, CF_ERROR_INTERNAL, 0, "registry: no folder for its blobs");
    if (cf_str_copy(&registry->directory, options->directory, err) < 0)
        return -1;
    if (options->user == NULL || options->password == NULL)
        return 0;
    cf_buf_addf(&pair, "%s:%s", options->user, options->password);
    size = sodium_base64_encoded_len(pair.len, sodium_base64_VARIANT_ORIGINAL);
    registry->authorization = pair.failed ? NULL : malloc(size);
    if (registry->authorization != NULL)
        sodium_bin2base64(registry->authorization, size, (unsigned char *)pair.data, pair.len,
                          sodium_base64_VARIANT_ORIGINAL);
    sodium_memzero(pair.data, pair.len);
    cf_buf_release(&pair);
    return registry->authorization == NULL ? cf_error_memory(err) : 0;
}

static int
bind_listener(struct cf_registry *registry, const struct cf_registry_options *options)
{
    struct sockaddr_in v4;
    struct sockaddr_in6 v6;

    if (options->all_interfaces && uv_ip6_addr("::", options->port, &v6) == 0 &&
        uv_tcp_bind(&registry->listener, (const struct sockaddr *)&v6, 0) == 0)
        return 0; /* both families */
    (void)uv_ip4_addr(options->all_interfaces ? "0.0.0.0" : "127.0.0.1", options->port,
                      &v4); /* a constant */
    return uv_tcp_bind(&registry->listener, (const struct sockaddr *)&v4, 0);
}

static int
listen_now(struct cf_registry *registry, const struct cf_registry_options *options)
{
    struct sockaddr_storage address;
    int size = sizeof address, status = bind_listener(registry, options);

    if (status == 0)
        status = uv_listen((uv_stream_t *)&registry->listener, 128, on_connection);
    if (status == 0)
        status = uv_tcp_getsockname(&registry->listener, (struct sockaddr *)&address, &size);
    if (status == 0) /* the port stands at the same place in both families */
        registry->port = ntohs(((struct sockaddr_in *)&address)->sin_port);
    return status;
}

int
cf_registry_open(uv_loop_t *loop, const struct cf_registry_options *options,
                 struct cf_registry **ret_registry, struct cf_error *err)
{
    struct cf_registry *registry = calloc(1, sizeof *registry);
    int status;

    if (registry == NULL)
        return cf_error_memory(err);
    TAILQ_INIT(&registry->conns);
    TAILQ_INIT(&registry->uploads);
    TAILQ_INIT(&registry->blobs);
    TAILQ_INIT(&registry->manifests);
    TAILQ_INIT(&registry->tags);
    registry->loop = loop;
    if (copy_options(registry, options, err) < 0) {
        registry_free(registry);
        return -1;
    }
    (void)uv_timer_init(loop, &registry->timer);  /* neither of these */
    (void)uv_tcp_init(loop, &registry->listener); /* can fail */
    registry->listener.data = registry->timer.data = registry;
    registry->handles_open = 2;
    status = listen_now(registry, options);
    if (status != 0) {
        cf_registry_close(registry, NULL, NULL);
        return cf_error_set(err, CF_ERROR_INTERNAL, -status,
                            "registry: cannot listen on %s port %u: %s",
                            options->all_interfaces ? "all interfaces" : "127.0.0.1",
                            options->port, uv_strerror(status));
    }
    (void)uv_timer_start(&registry->timer, on_tick, TICK_MS,
                         TICK_MS); /* fails only when closing */
    uv_unref((uv_handle_t *)&registry->timer);
    *ret_registry = registry;
    return 0;
}

uint16_t
cf_registry_port(const struct cf_registry *registry)
{
    return registry->port;
}

uint64_t
cf_registry_requests(const struct cf_registry *registry)
{
    return registry->requests;
}

const char *
cf_registry_digest(const struct cf_registry *registry, const char *name, const char *tag)
{
    const struct cf_manifest *manifest = cf_store_manifest(registry, name, tag);

    return manifest != NULL ? manifest->digest : NULL;
}

void
cf_registry_close(struct cf_registry *registry, void (*on_closed)(void *user), void *user)
{
    struct cf_registry_conn *conn;

    if (registry->is_closing)
        return;
    registry->is_closing = true;
    registry->on_closed = on_closed;
    registry->closed_user = user;
    TAILQ_FOREACH(conn, &registry->conns, link)
    conn_close(conn);
    uv_close((uv_handle_t *)&registry->listener, on_handle_closed);
    uv_close((uv_handle_t *)&registry->timer, on_handle_closed);
}
