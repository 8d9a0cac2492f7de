/* The door of both kinds of stream: chooses one, and keeps the rules they share. */
#include "loop/stream.h"
#include "loop/stream_impl.h"

#include <netdb.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>

int
cf_stream_open(uv_loop_t *loop, const struct cf_stream_target *target, uint64_t connect_ms,
               const struct cf_stream_events *events, void *user,
               struct cf_stream **ret_stream, struct cf_error *err)
{
    size_t most = sizeof((struct sockaddr_un *)NULL)->sun_path - 1;

    if (connect_ms == 0)
        connect_ms = 5000;
    if (target->unix_path != NULL && strlen(target->unix_path) > most)
        return cf_error_set(err, CF_ERROR_CONFIG, 0, "socket path %s is longer than %zu bytes",
                            target->unix_path, most);
    if (target->unix_path == NULL && target->is_tls)
        return cf_stream_tls_open(loop, target, connect_ms, events, user, ret_stream, err);
    return cf_stream_uv_open(loop, target, connect_ms, events, user, ret_stream, err);
}

int
cf_stream_write(struct cf_stream *stream, const char *bytes, size_t len, struct cf_error *err)
{
    if (!stream->is_open || stream->is_closing)
        return cf_error_set(err, CF_ERROR_INTERNAL, 0, "write on a stream that is not open");
    if (stream->is_writing || stream->wants_shutdown)
        return cf_error_set(err, CF_ERROR_INTERNAL, 0, "write on a stream that is %s",
                            stream->is_writing ? "busy writing" : "shut down");
    stream->is_writing = true;
    if (stream->kind->write(stream, bytes, len, err) < 0) {
        stream->is_writing = false;
        return -1;
    }
    return 0;
}

void
cf_stream_shutdown(struct cf_stream *stream)
{
    if (stream->wants_shutdown || stream->is_closing)
        return;
    stream->wants_shutdown = true;
    if (stream->is_open && !stream->is_writing)
        stream->kind->shutdown(stream);
}

void
cf_stream_local_address(const struct cf_stream *stream, char out[64])
{
    out[0] = '\0';
    if (stream->is_open)
        stream->kind->local_address(stream, out);
}

void
cf_stream_close(struct cf_stream *stream, void (*on_closed)(void *user), void *user)
{
    stream->is_closing = true;
    stream->on_closed = on_closed;
    stream->closed_user = user;
    stream->kind->close(stream);
}

void
cf_stream_end(struct cf_stream *stream, const struct cf_error *err)
{
    if (stream->has_ended || stream->is_closing)
        return;
    stream->has_ended = true;
    if (stream->events.on_end != NULL)
        stream->events.on_end(stream->user, err);
}

void
cf_stream_wrote(struct cf_stream *stream)
{
    stream->is_writing = false;
    if (stream->is_closing)
        return;
    if (stream->wants_shutdown)
        stream->kind->shutdown(stream);
    if (stream->events.on_written != NULL)
        stream->events.on_written(stream->user);
}

void
cf_stream_name_of(int fd, char out[64])
{
    struct sockaddr_storage name = {0};
    socklen_t len = sizeof name;

    out[0] = '\0';
    if (getsockname(fd, (struct sockaddr *)&name, &len) == 0 &&
        (name.ss_family == AF_INET || name.ss_family == AF_INET6) &&
        getnameinfo((struct sockaddr *)&name, len, out, 64, NULL, 0, NI_NUMERICHOST) != 0)
        out[0] = '\0';
}
