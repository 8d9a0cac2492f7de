/*
 * Before silence is called the harness's fault: is the sandbox itself alive? cf-init is pinged;
 * when it does not answer, the engine is asked in which state the container is. One who paused
 * it, or an engine that stands still, then has the blame.
 */
#include "sandbox/inside.h"

#include "base/clock.h"
#include "base/str.h"
#include "json/json.h"

enum {
    LOOK_EVERY_MS = 5,
    ANSWER_MS = 1500, /* a busy machine answers in this; a paused container does not */
    STATE_MS = 3000,
};

static void
heard(struct cf_sandbox *sb, const struct cf_error *why)
{
    cf_sandbox_heard_fn *on_heard = sb->on_heard;

    uv_timer_stop(&sb->hark_timer);
    sb->on_heard = NULL;
    if (on_heard != NULL && !sb->is_closing && !sb->is_failed)
        on_heard(sb->heard_user, why);
}

static void
on_state(void *user, int status, const struct cf_engine_reply *reply, const struct cf_error *err)
{
    struct cf_sandbox *sb = user;
    struct cf_error why = {0};

    sb->hark_call = NULL;
    sb->loose_calls--;
    if (sb->steps.dir == CF_STEPS_UP) { /* which waits for this call to end */
        cf_teardown_on_exit(sb);
        return;
    }
    if (status < 0 && (err->kind == CF_ERROR_ENGINE_TIMEOUT || err->kind == CF_ERROR_CANCELED)) {
        (void)cf_error_set(&why, CF_ERROR_ENGINE_TIMEOUT, 0,
                           "neither the sandbox nor the engine answers any more");
        (void)cf_error_fix(&why, "look whether the engine is stopped or overloaded; then run again");
    } else if (status == 0 && cf_str_same(cf_json_str(cf_json_obj(reply->json, "State"), "Status"), "paused")) {
        (void)cf_error_set(&why, CF_ERROR_ENGINE, 0, "the container was paused by somebody else");
        (void)cf_error_fix(&why, "leave it alone while the run lasts");
    }
    heard(sb, why.kind != CF_ERROR_NONE ? &why : NULL);
}

static void
on_state_overdue(uv_timer_t *timer)
{
    struct cf_sandbox *sb = timer->data;

    uv_timer_stop(timer);
    cf_engine_call_cancel(sb->hark_call); /* its own callback goes on */
}

static void
on_look(uv_timer_t *timer)
{
    struct cf_sandbox *sb = timer->data;
    struct cf_error err = {0};

    if (sb->stream_over || sb->demise_begun || cf_link_pongs(sb->link) != sb->hark_pongs) {
        heard(sb, NULL); /* alive; or its end is being looked into, and has its own words */
        return;
    }
    if (cf_clock_ms() < sb->hark_until_ms)
        return;
    uv_timer_stop(timer);
    if (cf_engine_container_inspect(sb->engine, sb->container_id, on_state, sb, &sb->hark_call, &err) < 0) {
        sb->hark_call = NULL;
        heard(sb, NULL);
        return;
    }
    sb->loose_calls++;
    uv_timer_start(timer, on_state_overdue, STATE_MS, 0);
}

void
cf_sandbox_hark(struct cf_sandbox *sb, cf_sandbox_heard_fn *on_heard, void *user)
{
    sb->heard_user = user;
    if (sb->on_heard != NULL || sb->hark_call != NULL) { /* being asked already */
        sb->on_heard = on_heard;
        return;
    }
    sb->on_heard = on_heard;
    sb->hark_pongs = cf_link_pongs(sb->link);
    sb->hark_until_ms = cf_clock_ms() + ANSWER_MS;
    if (sb->is_ready && !sb->stream_over) {
        cf_link_ping(sb->link);
        cf_stream_pump(sb);
    }
    uv_timer_start(&sb->hark_timer, on_look, 1, LOOK_EVERY_MS);
}
