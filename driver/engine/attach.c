/*
 * The hijacked stream: connect, ask for the upgrade, read the head of the answer, then peel
 * the Engine's frames and hand payload on where it lies. Any answer but 101 or 200 is read to
 * its end, within a bound and a short time, since the Engine's reason is in it. The stream is
 * the loop's; this file never knows whether TLS is beneath.
 */
#include "base/str.h"
#include "engine/frames.h"
#include "engine/head.h"
#include "engine/internal.h"
#include "engine/path.h"

#include <stdio.h>
#include <string.h>

#define REFUSAL_LIMIT_BYTES 16384u
#define REFUSAL_MS 2000u

enum attach_state { CONNECTING, ASKING, REFUSED, ATTACHED, ENDED };

struct cf_attach {
    struct cf_engine *engine; /* used while opening only; it may go before us */
    struct cf_attach_events events;
    void *user;
    struct cf_stream *stream;
    uv_timer_t timer;
    uint64_t deadline_ms;
    enum attach_state state;
    struct cf_buf request;
    char *path;
    struct cf_head head;
    struct cf_buf refusal;
    struct cf_frames frames;
    bool is_closing, timer_open, stream_open, request_out;
    void (*on_closed)(void *user);
    void *closed_user;
};

static void
free_if_closed(struct cf_attach *attach)
{
    if (!attach->is_closing || attach->timer_open || attach->stream_open)
        return;
    void (*on_closed)(void *) = attach->on_closed;
    void *user = attach->closed_user;
    cf_buf_release(&attach->request);
    cf_buf_release(&attach->refusal);
    free(attach->path);
    free(attach);
    if (on_closed != NULL)
        on_closed(user);
}

static void
end(struct cf_attach *attach, const struct cf_error *err)
{
    if (attach->state == ENDED || attach->is_closing)
        return;
    attach->state = ENDED;
    uv_timer_stop(&attach->timer);
    attach->events.on_end(attach->user, err);
}

static void
end_refused(struct cf_attach *attach)
{
    struct cf_error err = {0};
    const char *text = attach->refusal.data;
    size_t len = attach->refusal.len;

    if (attach->head.is_chunked &&
        len > 0) { /* one short chunk: its size line is not the message */
        const char *line = memchr(text, '\n', len);
        len -= line != NULL ? (size_t)(line + 1 - text) : 0;
        text = line != NULL ? line + 1 : text;
        const char *last = memrchr(text, '}', len);
        len = last != NULL ? (size_t)(last + 1 - text) : len;
    }
    cf_engine_refusal("POST", attach->path, attach->head.status, text, len, &err);
    end(attach, &err);
}

static void
on_timeout(uv_timer_t *timer)
{
    struct cf_attach *attach = timer->data;
    struct cf_error err = {0};

    if (attach->state == REFUSED) {
        end_refused(attach);
        return;
    }
    cf_error_set(&err, CF_ERROR_ENGINE_TIMEOUT, 0,
                 "engine did not answer POST %.*s within %llu ms",
                 (int)strcspn(attach->path, "?"), attach->path,
                 (unsigned long long)attach->deadline_ms);
    end(attach, &err);
}

/* ---- what comes in ---------------------------------------------------------------------- */

static int
on_payload(void *user, unsigned type, const char *bytes, size_t len)
{
    struct cf_attach *attach = user;

    if (type == 1 || type == 2)
        attach->events.on_data(attach->user, type == 1 ? CF_ATTACH_STDOUT : CF_ATTACH_STDERR,
                               bytes, len);
    else
        cf_log(NULL, CF_LOG_DEBUG, "engine", "attach: %zu bytes of stream %u dropped", len,
               type);
    return attach->is_closing || attach->state == ENDED ? -2 : 0;
}

static void
feed_frames(struct cf_attach *attach, const char *bytes, size_t len)
{
    struct cf_error err = {0};

    if (cf_frames_feed(&attach->frames, bytes, len, on_payload, attach, &err) == -1)
        end(attach, &err);
}

static void
feed_refusal(struct cf_attach *attach, const char *bytes, size_t len)
{
    size_t room = REFUSAL_LIMIT_BYTES - attach->refusal.len;

    (void)cf_buf_add(&attach->refusal, bytes,
                     len < room ? len : room); /* what fits is enough */
    if (attach->refusal.len >= REFUSAL_LIMIT_BYTES ||
        attach->refusal.len >= attach->head.content_length ||
        (attach->head.is_chunked &&
         memchr(attach->refusal.data, '}', attach->refusal.len) != NULL))
        end_refused(attach);
}

/* The head is whole: switched, or refused. */
static void
take_head(struct cf_attach *attach)
{
    if (attach->head.status == 101 || attach->head.status == 200) {
        uv_timer_stop(&attach->timer);
        attach->state = ATTACHED;
        attach->events.on_head(attach->user);
        return;
    }
    attach->state = REFUSED;
    uv_timer_start(&attach->timer, on_timeout, REFUSAL_MS, 0);
    if (attach->head.content_length == 0)
        end_refused(attach);
}

static void
on_data(void *user, const char *bytes, size_t len)
{
    struct cf_attach *attach = user;
    struct cf_error err = {0};

    if (attach->state == ASKING) {
        long took = cf_head_feed(&attach->head, bytes, len, &err);
        if (took < 0) {
            end(attach, &err);
            return;
        }
        if (attach->head.is_whole)
            take_head(attach); /* may close us; the stream's memory outlives this call */
        bytes += took;
        len -= (size_t)took;
    }
    if (len == 0 || attach->is_closing)
        return;
    if (attach->state == ATTACHED)
        feed_frames(attach, bytes, len);
    else if (attach->state == REFUSED)
        feed_refusal(attach, bytes, len);
}

static void
on_stream_end(void *user, const struct cf_error *why)
{
    struct cf_attach *attach = user;
    struct cf_error err = {0};

    if (attach->state == REFUSED) {
        end_refused(attach);
    } else if (attach->state == CONNECTING) {
        if (attach->engine->endpoint.unix_path != NULL && why->kind == CF_ERROR_ENGINE)
            cf_endpoint_explain(&attach->engine->endpoint, why->code, why->text, &err);
        else
            err = *why;
        end(attach, &err);
    } else if (attach->state == ASKING) {
        cf_error_set(&err, CF_ERROR_ENGINE, 0,
                     "engine closed the connection during POST %.*s%s%s",
                     (int)strcspn(attach->path, "?"), attach->path, why != NULL ? ": " : "",
                     why != NULL ? why->text : "");
        end(attach, &err);
    } else if (why == NULL && (attach->frames.left > 0 || attach->frames.head_len > 0)) {
        cf_error_set(&err, CF_ERROR_ENGINE, 0,
                     "the attach stream ended in the middle of a frame");
        end(attach, &err);
    } else {
        end(attach, why);
    }
}

/* ---- what goes out ---------------------------------------------------------------------- */

static void
on_open(void *user)
{
    struct cf_attach *attach = user;
    struct cf_error err = {0};

    attach->state = ASKING;
    if (cf_stream_write(attach->stream, attach->request.data, attach->request.len, &err) < 0)
        end(attach, &err);
}

static void
on_written(void *user)
{
    struct cf_attach *attach = user;

    if (!attach->request_out) { /* that was the request itself */
        attach->request_out = true;
        return;
    }
    if (attach->state != ENDED)
        attach->events.on_written(attach->user);
}

int
cf_attach_write(struct cf_attach *attach, const char *bytes, size_t len, struct cf_error *err)
{
    if (attach->state != ATTACHED || !attach->request_out)
        return cf_error_set(err, CF_ERROR_ENGINE, 0, "the attach stream is %s",
                            attach->state == ENDED ? "over" : "not open yet");
    return cf_stream_write(attach->stream, bytes, len, err);
}

void
cf_attach_shutdown(struct cf_attach *attach)
{
    if (attach->state == ATTACHED)
        cf_stream_shutdown(attach->stream);
}

/* ---- open and close --------------------------------------------------------------------- */

static int
make_request(struct cf_attach *attach, const char *id, struct cf_error *err)
{
    const struct cf_engine *engine = attach->engine;
    struct cf_buf path = {0};

    (void)cf_buf_addf(&path, "/containers/");
    cf_path_segment(&path, id);
    (void)cf_buf_adds(&path, "/attach?stream=1&stdin=1&stdout=1&stderr=1");
    attach->path = cf_buf_take(&path, NULL);
    if (attach->path == NULL || path.failed)
        return cf_error_memory(err);
    (void)cf_buf_addf(
        &attach->request,
        "POST %s%s%s HTTP/1.1\r\nHost: docker\r\nConnection: Upgrade\r\nUpgrade: tcp\r\n"
        "Content-Length: 0\r\n\r\n",
        engine->facts.api_version[0] != '\0' ? "/v" : "", engine->facts.api_version,
        attach->path);
    return attach->request.failed ? cf_error_memory(err) : 0;
}

static int
begin(struct cf_attach *attach, const char *id, struct cf_error *err)
{
    static const struct cf_stream_events events = {on_open, on_data, on_written,
                                                   on_stream_end};
    struct cf_stream_target target = cf_engine_target(attach->engine);

    if (make_request(attach, id, err) < 0)
        return -1;
    return cf_stream_open(attach->engine->loop, &target,
                          attach->deadline_ms < 5000 ? attach->deadline_ms : 5000, &events,
                          attach, &attach->stream, err);
}

int
cf_attach_open(struct cf_engine *engine, const char *container_id, uint64_t deadline_ms,
               const struct cf_attach_events *events, void *user,
               struct cf_attach **ret_attach, struct cf_error *err)
{
    struct cf_attach *attach = calloc(1, sizeof *attach);

    if (attach == NULL)
        return cf_error_memory(err);
    if (engine->is_closing) {
        free(attach);
        return cf_error_set(err, CF_ERROR_CANCELED, 0,
                            "the engine's connections are being closed");
    }
    attach->engine = engine;
    attach->events = *events;
    attach->user = user;
    attach->deadline_ms = deadline_ms > 0 ? deadline_ms : 15000;
    if (begin(attach, container_id, err) < 0) {
        cf_buf_release(&attach->request);
        free(attach->path);
        free(attach);
        return -1;
    }
    attach->stream_open = true;
    (void)uv_timer_init(engine->loop,
                        &attach->timer); /* only links it into the loop: cannot fail */
    attach->timer.data = attach;
    attach->timer_open = true;
    uv_timer_start(&attach->timer, on_timeout, attach->deadline_ms, 0);
    *ret_attach = attach;
    return 0;
}

static void
on_timer_closed(uv_handle_t *handle)
{
    struct cf_attach *attach = handle->data;
    attach->timer_open = false;
    free_if_closed(attach);
}

static void
on_stream_closed(void *user)
{
    struct cf_attach *attach = user;
    attach->stream_open = false;
    free_if_closed(attach);
}

void
cf_attach_close(struct cf_attach *attach, void (*on_closed)(void *user), void *user)
{
    attach->is_closing = true;
    attach->on_closed = on_closed;
    attach->closed_user = user;
    uv_close((uv_handle_t *)&attach->timer, on_timer_closed);
    cf_stream_close(attach->stream, on_stream_closed, attach);
}
