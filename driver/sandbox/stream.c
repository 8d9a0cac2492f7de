/*
 * The one stream: what the engine brings goes to the link, what the link has to say goes out.
 * It is read always, whatever the harness's consumers do; back-pressure is the link's credit.
 * Pings go with it: cf-init ends everything when they stay out, and their answers are how we
 * notice that nobody is there any more.
 */
#include "sandbox/inside.h"

#include <string.h>

/* ---- out ----------------------------------------------------------------------------- */

static void
forget_output(struct cf_sandbox *sb)
{
    free(sb->out);
    sb->out = NULL;
    sb->is_writing = false;
}

void
cf_stream_pump(struct cf_sandbox *sb)
{
    const char *bytes;
    struct cf_error err = {0};
    size_t len;

    if (sb->attach == NULL || sb->link == NULL || sb->is_writing || sb->stream_over)
        return;
    len = cf_link_output(sb->link, &bytes);
    if (len == 0)
        return;
    if (len > CF_OUT_BYTES)
        len = CF_OUT_BYTES;
    sb->out = malloc(len);
    sb->is_writing = true;
    if (sb->out == NULL) {
        cf_error_memory(&err);
    } else {
        memcpy(sb->out, bytes, len); /* the link's memory may move before the write is out */
        cf_link_output_taken(sb->link, len);
        if (cf_attach_write(sb->attach, sb->out, len, &err) == 0)
            return;
    }
    forget_output(sb);
    sb->stream_over = true;
    sb->stream_error = err;
    cf_demise_begin(sb);
}

static void
on_written(void *user)
{
    struct cf_sandbox *sb = user;

    forget_output(sb);
    cf_stream_pump(sb);
}

/* ---- in ------------------------------------------------------------------------------ */

static void
on_head(void *user)
{
    struct cf_sandbox *sb = user;

    if (sb->steps.dir == CF_STEPS_DOWN && sb->steps.at == CF_ROW_ATTACH)
        cf_steps_settle(&sb->steps, 0);
}

static void
on_data(void *user, enum cf_attach_stream stream, const char *bytes, size_t len)
{
    struct cf_sandbox *sb = user;

    if (stream == CF_ATTACH_STDERR)
        cf_tail_add(&sb->stderr_tail, bytes, len);
    else
        cf_link_feed(sb->link, bytes, len);
}

static void
on_end(void *user, const struct cf_error *err)
{
    struct cf_sandbox *sb = user;

    sb->stream_over = true;
    if (err != NULL)
        sb->stream_error = *err;
    if (sb->steps.dir == CF_STEPS_UP) {
        cf_teardown_on_exit(sb);
        return;
    }
    if (sb->steps.running &&
        sb->steps.at == CF_ROW_ATTACH) { /* refused: its reason is the row's */
        if (err != NULL) {
            sb->steps.err = *err;
            cf_explain_user(sb, &sb->steps.err);
        } else
            cf_error_set(&sb->steps.err, CF_ERROR_ENGINE, 0,
                         "the engine closed the attach stream before its head");
        cf_steps_settle(&sb->steps, -1);
        return;
    }
    cf_demise_begin(sb); /* while start is under way its answer tells more: looked at later */
}

int
cf_stream_attach(struct cf_sandbox *sb, struct cf_error *err)
{
    static const struct cf_attach_events events = {
        .on_head = on_head, .on_data = on_data, .on_written = on_written, .on_end = on_end};

    return cf_attach_open(sb->engine, sb->container_id, 60000, &events, sb, &sb->attach, err);
}

/* ---- pings --------------------------------------------------------------------------- */

static void
on_ping_time(uv_timer_t *timer)
{
    struct cf_sandbox *sb = timer->data;
    uint64_t pongs = cf_link_pongs(sb->link);

    if (sb->stream_over)
        return;
    if (pongs != sb->pongs)
        sb->unanswered_pings = 0;
    sb->pongs = pongs;
    if (sb->unanswered_pings++ >= CF_SILENCE_PINGS) {
        cf_demise_begin(sb);
        return;
    }
    cf_link_ping(sb->link);
    cf_stream_pump(sb);
}

void
cf_stream_ping_begin(struct cf_sandbox *sb)
{
    uv_timer_start(&sb->ping_timer, on_ping_time, CF_PING_EVERY_MS, CF_PING_EVERY_MS);
}
