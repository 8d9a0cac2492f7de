/*
 * tcp with TLS: libcurl connects and shakes hands (CONNECT_ONLY), then the socket is watched
 * by uv_poll and the bytes go through curl_easy_recv and curl_easy_send. Half-close is
 * shutdown(SHUT_WR) on the socket after the last byte. The easy handle stays in its multi
 * until the end: the connection belongs to the multi's cache.
 */
#include "base/str.h"
#include "base/utf8.h"
#include "loop/curl_uv.h"
#include "loop/stream_impl.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>

#define READS_AT_ONCE 32 /* then other handles have their turn */

struct tls_side {
    struct cf_stream base;
    struct cf_curl_uv curl;
    bool curl_open;
    CURL *easy;
    bool easy_added, poll_open, again_open;
    curl_socket_t fd;
    uv_poll_t poll;
    uv_idle_t again; /* bytes may be left inside the TLS layer, which poll cannot see */
    const char *out;
    size_t out_len;
    bool out_finished; /* report on_written from the loop, not from inside write */
    char *where;
    char detail[CURL_ERROR_SIZE];
    char buffer[CF_STREAM_BUFFER_BYTES];
};

static void on_again(uv_idle_t *idle);

static void
free_if_closed(struct tls_side *side)
{
    if (!side->base.is_closing || side->curl_open || side->poll_open || side->again_open)
        return;
    void (*on_closed)(void *) = side->base.on_closed;
    void *user = side->base.closed_user;
    free(side->where);
    free(side);
    if (on_closed != NULL)
        on_closed(user);
}

static void
on_curl_closed(struct cf_curl_uv *curl)
{
    struct tls_side *side = cf_container_of(curl, struct tls_side, curl);
    side->curl_open = false;
    free_if_closed(side);
}

static void
on_again_closed(uv_handle_t *handle)
{
    struct tls_side *side = handle->data;
    side->again_open = false;
    free_if_closed(side);
}

/* The connection goes only after the poll handle has let go of its descriptor. */
static void
close_curl(struct tls_side *side)
{
    if (side->easy_added)
        cf_curl_uv_remove(&side->curl, side->easy);
    curl_easy_cleanup(side->easy);
    side->easy = NULL;
    cf_curl_uv_close(&side->curl, on_curl_closed);
}

static void
on_poll_closed(uv_handle_t *handle)
{
    struct tls_side *side = handle->data;

    side->poll_open = false;
    close_curl(side);
}

static void
fail(struct tls_side *side, CURLcode code)
{
    struct cf_error err = {0};

    cf_utf8_make_line(side->detail);
    cf_error_set(&err,
                 code == CURLE_OPERATION_TIMEDOUT ? CF_ERROR_ENGINE_TIMEOUT : CF_ERROR_ENGINE,
                 0, "tls connection to %s: %s", side->where,
                 side->detail[0] != '\0' ? side->detail : curl_easy_strerror(code));
    cf_stream_end(&side->base, &err);
}

/* ---- moving bytes ----------------------------------------------------------------------- */

static void on_poll(uv_poll_t *poll, int status, int events);

static void
watch(struct tls_side *side)
{
    int events = 0;

    if (side->base.is_closing)
        return;
    if (!side->base.has_ended)
        events |= UV_READABLE;
    if (side->out_len > 0)
        events |= UV_WRITABLE;
    if (events == 0)
        uv_poll_stop(&side->poll);
    else
        uv_poll_start(&side->poll, events, on_poll);
}

static void
read_some(struct tls_side *side)
{
    for (int i = 0; i < READS_AT_ONCE; i++) {
        size_t got = 0;
        if (side->base.is_closing || side->base.has_ended)
            return;
        CURLcode code =
            curl_easy_recv(side->easy, side->buffer, sizeof side->buffer, &got);
        if (code == CURLE_AGAIN)
            return;
        if (code != CURLE_OK) {
            fail(side, code);
            return;
        }
        if (got == 0) {
            cf_stream_end(&side->base, NULL);
            return;
        }
        side->base.events.on_data(side->base.user, side->buffer, got);
    }
    if (!side->base.is_closing)
        uv_idle_start(&side->again, on_again);
}

/* What the socket takes now. A peer that is gone swallows the rest: its read side tells. */
static void
write_some(struct tls_side *side)
{
    while (side->out_len > 0) {
        size_t sent = 0;
        CURLcode code = curl_easy_send(side->easy, side->out, side->out_len, &sent);
        if (code == CURLE_AGAIN)
            return;
        if (code != CURLE_OK)
            sent = side->out_len;
        side->out += sent;
        side->out_len -= sent;
    }
    side->out_finished = true;
}

static void
report_written(struct tls_side *side)
{
    if (!side->out_finished)
        return;
    side->out_finished = false;
    cf_stream_wrote(&side->base);
}

static void
on_poll(uv_poll_t *poll, int status, int events)
{
    struct tls_side *side = poll->data;

    if (side->out_len > 0)
        write_some(side);
    report_written(side);
    read_some(side);
    watch(side);
}

static void
on_again(uv_idle_t *idle)
{
    struct tls_side *side = idle->data;

    uv_idle_stop(idle);
    report_written(side);
    read_some(side);
    watch(side);
}

static int
side_write(struct cf_stream *base, const char *bytes, size_t len, struct cf_error *err)
{
    struct tls_side *side = cf_container_of(base, struct tls_side, base);

    side->out = bytes;
    side->out_len = len;
    write_some(side);
    if (side->out_finished)
        uv_idle_start(&side->again, on_again);
    else
        watch(side);
    return 0;
}

static void
side_shutdown(struct cf_stream *base)
{
    struct tls_side *side = cf_container_of(base, struct tls_side, base);
    (void)shutdown(side->fd, SHUT_WR); /* a peer already gone is as shut as can be */
}

static void
side_local_address(const struct cf_stream *base, char out[64])
{
    cf_stream_name_of(cf_container_of(base, const struct tls_side, base)->fd, out);
}

static void
side_close(struct cf_stream *base)
{
    struct tls_side *side = cf_container_of(base, struct tls_side, base);

    uv_idle_stop(&side->again);
    uv_close((uv_handle_t *)&side->again, on_again_closed);
    if (side->poll_open) {
        uv_poll_stop(&side->poll);
        uv_close((uv_handle_t *)&side->poll, on_poll_closed);
    } else {
        close_curl(side);
    }
}

static const struct cf_stream_kind tls_kind = {side_write, side_shutdown, side_local_address,
                                               side_close};

/* ---- connecting ------------------------------------------------------------------------- */

static void
on_connected(struct cf_curl_uv *curl, CURL *easy, CURLcode code)
{
    struct tls_side *side = cf_container_of(curl, struct tls_side, curl);
    curl_socket_t fd = CURL_SOCKET_BAD;

    if (side->base.is_closing)
        return;
    if (code == CURLE_OK)
        code = curl_easy_getinfo(easy, CURLINFO_ACTIVESOCKET, &fd);
    if (code != CURLE_OK || fd == CURL_SOCKET_BAD) {
        fail(side, code);
        return;
    }
    side->fd = fd;
    if (uv_poll_init_socket(side->base.loop, &side->poll, fd) < 0) {
        fail(side, CURLE_FAILED_INIT);
        return;
    }
    side->poll.data = side;
    side->poll_open = true;
    side->base.is_open = true;
    watch(side);
    if (side->base.wants_shutdown)
        side_shutdown(&side->base);
    side->base.events.on_open(side->base.user);
    if (!side->base.is_closing) /* the peer may have spoken along with its handshake */
        uv_idle_start(&side->again, on_again);
}

static int
prepare(struct tls_side *side, const struct cf_stream_target *target, uint64_t connect_ms)
{
    bool is_v6 = strchr(target->host, ':') != NULL;
    cf_auto_free char *url = NULL;

    if (asprintf(&url, "https://%s%s%s:%u/", is_v6 ? "[" : "", target->host, is_v6 ? "]" : "",
                 target->port) < 0)
        return -1;
    if (cf_curl_common(side->easy, target->tls, NULL, connect_ms) < 0 ||
        curl_easy_setopt(side->easy, CURLOPT_URL, url) != CURLE_OK ||
        curl_easy_setopt(side->easy, CURLOPT_ERRORBUFFER, side->detail) != CURLE_OK ||
        curl_easy_setopt(side->easy, CURLOPT_CONNECT_ONLY, 1L) != CURLE_OK ||
        cf_curl_uv_add(&side->curl, side->easy) != CURLM_OK)
        return -1;
    side->easy_added = true;
    return 0;
}

static void
on_nobody_closed(void *user)
{
}

int
cf_stream_tls_open(uv_loop_t *loop, const struct cf_stream_target *target, uint64_t connect_ms,
                   const struct cf_stream_events *events, void *user,
                   struct cf_stream **ret_stream, struct cf_error *err)
{
    struct tls_side *side = calloc(1, sizeof *side);

    if (side == NULL)
        return cf_error_memory(err);
    side->base.kind = &tls_kind;
    side->base.loop = loop;
    side->base.events = *events;
    side->base.user = user;
    side->easy = curl_easy_init();
    if (side->easy == NULL ||
        asprintf(&side->where, "%s:%u", target->host, target->port) < 0 ||
        cf_curl_uv_init(&side->curl, loop, on_connected, err) < 0) {
        curl_easy_cleanup(side->easy);
        free(side->where);
        free(side);
        return cf_error_memory(err);
    }
    side->curl_open = true;
    (void)uv_idle_init(loop, &side->again); /* only links it into the loop: cannot fail */
    side->again.data = side;
    side->again_open = true;
    if (prepare(side, target, connect_ms) < 0) {
        cf_stream_close(&side->base, on_nobody_closed, NULL);
        return cf_error_set(err, CF_ERROR_INTERNAL, 0,
                            "libcurl refused to prepare a connection");
    }
    *ret_stream = &side->base;
    return 0;
}
