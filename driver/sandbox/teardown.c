/*
 * The way up. First an orderly end: cf-init kills everything, reaps, says bye and exits, which
 * is no slower than force; whatever does not come about within the grace is forced. Then what
 * is known to be ours is removed by name, and at last the engine lists again what carries our
 * label, and this host is looked at for what lives on: that is the proof. Every undo accepts "never happened" and "already
 * gone".
 */
#include "sandbox/inside.h"
#include "sandbox/sweep.h"

#include "base/clock.h"
#include "base/str.h"
#include "json/json.h"

#include <stdio.h>
#include <string.h>

enum {
    ENGINE_TIME_MS = 10000, /* beside the grace, for the engine's own work */
    KILL_PATIENCE_MS = 3000,
    WAIT_AFTER_END_MS = 2000,  /* the stream has ended: the wait's answer follows */
    REMOVE_PATIENCE_MS = 4000, /* for the first try; the sweep tries again */
    LATE_CREATE_MS = 2000,     /* how long a create without an answer is looked for */
    HOST_PATIENCE_MS = 2000,   /* for a control group to go after its container */
    HOST_AGAIN_MS = 20,
};

uint64_t
cf_teardown_remaining_ms(const struct cf_sandbox *sb)
{
    uint64_t now = cf_clock_ms();

    return sb->up_deadline_ms > now ? sb->up_deadline_ms - now : 1;
}

/* ---- stop: the undo of "start container" --------------------------------------------- */

static void
stop_over(struct cf_sandbox *sb)
{
    if (!sb->stop_awaited || sb->loose_calls > 0)
        return;
    sb->stop_awaited = false;
    uv_timer_stop(&sb->work_timer);
    cf_steps_settle(&sb->steps, 0); /* what still runs is removed by force */
}

static void
on_gave_up(uv_timer_t *timer)
{
    struct cf_sandbox *sb = timer->data;

    sb->exit_seen = true; /* not seen, but no longer waited for */
    cf_engine_call_cancel(sb->kill_call);
    stop_over(sb);
}

static void
wait_at_most(struct cf_sandbox *sb, uint64_t ms, uv_timer_cb on_over)
{
    uint64_t most = cf_teardown_remaining_ms(sb);

    uv_timer_start(&sb->work_timer, on_over, ms < most ? ms : most, 0);
}

static void
on_killed(void *user, int status, const struct cf_engine_reply *reply,
          const struct cf_error *err)
{
    struct cf_sandbox *sb = user;

    sb->kill_call = NULL;
    sb->loose_calls--;
    if (status < 0) {
        cf_log(sb->log, CF_LOG_DEBUG, "sandbox", "kill: %s", err->text);
        sb->exit_seen = true; /* it does not run, or the engine cannot say: removal goes on */
    }
    if (sb->exit_seen)
        stop_over(sb);
}

static void
force_stop(struct cf_sandbox *sb)
{
    struct cf_error err = {0};

    if (sb->kill_call != NULL)
        return;
    wait_at_most(sb, KILL_PATIENCE_MS, on_gave_up);
    if (cf_engine_container_kill(sb->engine, sb->container_id, on_killed, sb, &sb->kill_call,
                                 &err) == 0) {
        sb->loose_calls++;
        return;
    }
    sb->kill_call = NULL;
    sb->exit_seen = true;
    stop_over(sb);
}

static void
on_grace_over(uv_timer_t *timer)
{
    force_stop(timer->data);
}

static bool
can_ask_for_the_end(const struct cf_sandbox *sb)
{
    return sb->hello_seen && !sb->stream_over && !sb->link_over && sb->grace_ms > 0;
}

int
cf_undo_start(struct cf_steps *steps, struct cf_error *err)
{
    struct cf_sandbox *sb = cf_sandbox_of(steps);

    uv_timer_stop(&sb->work_timer);
    uv_timer_stop(&sb->hark_timer);
    cf_engine_call_cancel(sb->demise_call);
    cf_engine_call_cancel(sb->hark_call);
    sb->stop_awaited = true;
    if (!sb->start_sent || sb->start_refused || sb->exit_seen) {
        sb->exit_seen = true;
        stop_over(sb);
        return 0;
    }
    if (can_ask_for_the_end(sb) && cf_link_shutdown(sb->link, err) == 0) {
        wait_at_most(sb, sb->grace_ms, on_grace_over);
        cf_stream_pump(sb);
    } else {
        force_stop(sb);
    }
    return 0;
}

void
cf_teardown_on_exit(struct cf_sandbox *sb)
{
    if (sb->wait_undone_awaited && !sb->wait_pending) {
        sb->wait_undone_awaited = false;
        cf_steps_settle(&sb->steps, 0);
        return;
    }
    if (!sb->stop_awaited)
        return;
    if (sb->exit_seen) {
        stop_over(sb);
    } else if (sb->stream_over && sb->kill_call == NULL) {
        if (sb->wait_pending)
            wait_at_most(sb, WAIT_AFTER_END_MS, on_grace_over);
        else
            force_stop(
                sb); /* stream and wait are both lost: the engine was restarted, or is gone */
    }
}

/* ---- wait and attach ----------------------------------------------------------------- */

int
cf_undo_wait(struct cf_steps *steps, struct cf_error *err)
{
    struct cf_sandbox *sb = cf_sandbox_of(steps);

    if (!sb->wait_pending) {
        cf_steps_settle(steps, 0);
        return 0;
    }
    sb->wait_undone_awaited = true;
    cf_engine_call_cancel(sb->wait_call);
    return 0;
}

static void
on_attach_closed(void *user)
{
    struct cf_sandbox *sb = user;

    cf_steps_settle(&sb->steps, 0);
}

int
cf_undo_attach(struct cf_steps *steps, struct cf_error *err)
{
    struct cf_sandbox *sb = cf_sandbox_of(steps);
    struct cf_error over = {0};
    struct cf_attach *attach = sb->attach;

    uv_timer_stop(&sb->ping_timer);
    cf_error_set(&over, CF_ERROR_CANCELED, 0, "the sandbox was closed");
    cf_link_end(sb->link, &over);
    sb->attach = NULL;
    sb->stream_over = true;
    if (attach == NULL)
        cf_steps_settle(steps, 0);
    else
        cf_attach_close(attach, on_attach_closed, sb);
    return 0;
}

/* ---- removal ------------------------------------------------------------------------- */

void
cf_teardown_tell_removed(struct cf_sandbox *sb, const char *kind, const char *id, const char *name)
{
    (void)json_array_append_new(sb->removed, cf_resource_json(kind, id, name));
}

static void
on_removal_overdue(uv_timer_t *timer)
{
    struct cf_sandbox *sb = timer->data;

    cf_engine_call_cancel(sb->call);
    for (size_t i = 0; i < sb->plan.volume_count; i++)
        cf_engine_call_cancel(sb->volumes[i].call);
}

void
cf_teardown_bound_calls(struct cf_sandbox *sb, uint64_t ms)
{
    wait_at_most(sb, ms, on_removal_overdue);
}

/* A failure is left to the sweep, which tries again and says why in the end. */
static void
on_container_removed(void *user, int status, const struct cf_engine_reply *reply,
                     const struct cf_error *err)
{
    struct cf_sandbox *sb = user;
    const char *id = sb->container_id != NULL ? sb->container_id : sb->name;

    sb->call = NULL;
    uv_timer_stop(&sb->work_timer);
    if (status == 0 && reply->http_status != 404)
        cf_teardown_tell_removed(sb, "container", id, sb->name);
    if (status == 0 && (reply->http_status != 404 || !sb->create_uncertain))
        sb->container_removed = true;
    if (status < 0)
        cf_log(sb->log, CF_LOG_DEBUG, "sandbox", "remove: %s", err->text);
    cf_steps_settle(&sb->steps, 0);
}

int
cf_undo_create(struct cf_steps *steps, struct cf_error *err)
{
    struct cf_sandbox *sb = cf_sandbox_of(steps);
    const char *id = sb->container_id != NULL ? sb->container_id : sb->name;

    if (!sb->create_sent) {
        sb->container_removed = true;
        cf_steps_settle(steps, 0);
        return 0;
    }
    wait_at_most(sb, REMOVE_PATIENCE_MS, on_removal_overdue);
    return cf_engine_container_remove(sb->engine, id, on_container_removed, sb, &sb->call,
                                      err);
}

static void
on_volume_removed(void *user, int status, const struct cf_engine_reply *reply,
                  const struct cf_error *err)
{
    struct cf_volume_slot *slot = user;
    struct cf_sandbox *sb = slot->sandbox;
    const char *name = sb->plan.volumes[slot - sb->volumes].name;

    slot->call = NULL;
    if (status == 0 && reply->http_status != 404)
        cf_teardown_tell_removed(sb, "volume", name, name);
    if (status == 0 || err->kind == CF_ERROR_NOT_FOUND)
        slot->is_removed = true;
    cf_row_part(sb, 0, NULL);
}

int
cf_undo_volumes(struct cf_steps *steps, struct cf_error *err)
{
    struct cf_sandbox *sb = cf_sandbox_of(steps);

    cf_row_begin(sb);
    if (sb->plan.volume_count > 0)
        wait_at_most(sb, REMOVE_PATIENCE_MS, on_removal_overdue);
    for (size_t i = 0; i < sb->plan.volume_count; i++) {
        if (!sb->volumes[i].is_sent)
            continue;
        cf_row_add(sb);
        if (cf_engine_volume_remove(sb->engine, sb->plan.volumes[i].name, on_volume_removed,
                                    &sb->volumes[i], &sb->volumes[i].call, err) < 0)
            cf_row_part(sb, 0, NULL);
    }
    cf_row_part(sb, 0, NULL);
    return 0;
}

/* ---- list again ---------------------------------------------------------------------- */

static bool
is_listed(const json_t *list, const char *id)
{
    json_t *item;
    size_t i;

    for (i = 0; i < json_array_size(list); i++) {
        item = json_array_get(list, i);
        if (cf_str_same(cf_json_str(item, "id"), id) ||
            cf_str_same(cf_json_str(item, "name"), id))
            return true;
    }
    return false;
}

static void
tell_left(struct cf_sandbox *sb, const char *kind, const char *id, const char *name,
          const char *why)
{
    sb->is_proven = false;
    if (!is_listed(sb->left, id) && !is_listed(sb->removed, id))
        (void)json_array_append_new(sb->left,
                                    cf_resource_left_json(sb->engine, kind, id, name, why));
}

static bool
is_kind_listed(const json_t *list, const char *kind)
{
    for (size_t i = 0; i < json_array_size(list); i++)
        if (cf_str_same(cf_json_str(json_array_get(list, i), "kind"), kind))
            return true;
    return false;
}

/* It has no name, and nobody was told its id: its label is all that is known of it. */
static void
tell_image_left(struct cf_sandbox *sb)
{
    struct cf_buf line;

    cf_buf_init(&line, 4096);
    cf_resource_client(sb->engine, &line);
    cf_buf_addf(&line, " images -aq --filter label=%s.sandbox=%s | xargs -r ", CF_LABEL, sb->name);
    cf_resource_client(sb->engine, &line);
    cf_buf_adds(&line, " rmi -f");
    cf_auto_free char *remove = cf_buf_take(&line, NULL);
    sb->is_proven = false;
    (void)json_array_append_new(
        sb->left, json_pack("{s:s, s:s, s:s, s:s, s:s}", "kind", "image", "id", "", "name", "", "why",
                            "the engine never said whether it made it; it may still appear", "remove",
                            remove != NULL ? remove : ""));
}

/* What we know of, and no listing could deny: the engine could not be asked, or never said how
 * a create ended. */
static void
add_what_is_known(struct cf_sandbox *sb, bool was_listed)
{
    const char *id = sb->container_id != NULL ? sb->container_id : sb->name;
    bool is_uncertain =
        sb->create_uncertain && sb->container_id == NULL && !is_listed(sb->removed, sb->name);

    if (is_uncertain)
        tell_left(sb, "container", id, sb->name,
                  "the engine never said whether it made it; it may still appear");
    else if (!was_listed && sb->create_sent && !sb->container_removed)
        tell_left(sb, "container", id, sb->name, "the engine did not say that it is gone");
    if (sb->commit_uncertain && !is_kind_listed(sb->removed, "image"))
        tell_image_left(sb);
    for (size_t i = 0; i < sb->plan.volume_count; i++) {
        const struct cf_volume_slot *slot = &sb->volumes[i];
        const char *name = sb->plan.volumes[i].name;
        if (slot->is_sent && !slot->is_removed && (slot->is_uncertain || !was_listed))
            tell_left(sb, "volume", name, name,
                      slot->is_uncertain ? "the engine never said whether it made it"
                                         : "the engine did not say that it is gone");
    }
}

/* ---- the host's own view --------------------------------------------------------------- */

static void
tell_host_left(struct cf_sandbox *sb, unsigned alive)
{
    char why[80], remove[2 * CF_HOSTVIEW_PATH + 80];
    const char *kind = alive > 0 ? "process" : "cgroup";

    sb->host = "left";
    sb->is_proven = false;
    if (alive > 0) {
        (void)snprintf(why, sizeof why, "%u of the sandbox's processes are alive on this host", alive);
        (void)snprintf(remove, sizeof remove, "kill -KILL $(cat %s/cgroup.procs)", sb->cgroup);
    } else {
        (void)snprintf(why, sizeof why, "the sandbox's control group is still there");
        (void)snprintf(remove, sizeof remove, "rmdir %s", sb->cgroup);
    }
    (void)json_array_append_new(sb->left, json_pack("{s:s, s:s, s:s, s:s, s:s}", "kind", kind, "id", sb->cgroup,
                                                    "name", "", "why", why, "remove", remove));
}

/* The engine says it is gone; the kernel may need a moment more. */
static void
look_at_host(uv_timer_t *timer)
{
    struct cf_sandbox *sb = timer->data;
    unsigned alive = 0;

    sb->host = "unseen";
    if (sb->cgroup[0] != '\0') {
        if (cf_hostview_look(sb->cgroup, &alive) == CF_HOSTVIEW_GONE) {
            sb->host = "gone";
        } else if (cf_clock_ms() < sb->host_until_ms) {
            uv_timer_start(timer, look_at_host, HOST_AGAIN_MS, 0);
            return;
        } else {
            tell_host_left(sb, alive);
        }
    }
    cf_steps_settle(&sb->steps, 0);
}

static void
look_at_host_first(struct cf_sandbox *sb)
{
    uint64_t patience = cf_teardown_remaining_ms(sb);

    sb->host_until_ms = cf_clock_ms() + (patience < HOST_PATIENCE_MS ? patience : HOST_PATIENCE_MS);
    look_at_host(&sb->work_timer);
}

static void
on_swept(void *user, const struct cf_teardown *result)
{
    struct cf_sandbox *sb = user;

    sb->sweep = NULL;
    sb->is_proven = result->proven;
    (void)json_array_extend(sb->removed, result->removed);
    (void)json_array_extend(sb->left, result->left);
    add_what_is_known(sb, result->proven);
    look_at_host_first(sb);
}

static bool
is_anything_uncertain(const struct cf_sandbox *sb)
{
    bool is_uncertain = sb->create_uncertain || sb->commit_uncertain;

    for (size_t i = 0; i < sb->plan.volume_count; i++)
        is_uncertain = is_uncertain || sb->volumes[i].is_uncertain;
    return is_uncertain;
}

int
cf_undo_verify(struct cf_steps *steps, struct cf_error *err)
{
    struct cf_sandbox *sb = cf_sandbox_of(steps);
    char label[256];
    struct cf_sweep_rule rule = {.label = label};

    uv_timer_stop(&sb->work_timer);
    if (!sb->is_planned) { /* nothing was ever asked for */
        sb->is_proven = true;
        cf_steps_settle(steps, 0);
        return 0;
    }
    (void)snprintf(label, sizeof label, CF_LABEL ".sandbox=%s", sb->name);
    rule.quiet_ms = is_anything_uncertain(sb) ? LATE_CREATE_MS : 0;
    return cf_sweep_open_rule(sb->loop, sb->engine, &rule, cf_teardown_remaining_ms(sb),
                              on_swept, sb, &sb->sweep, err);
}

/* ---- a shorter grace ----------------------------------------------------------------- */

void
cf_teardown_hurry(struct cf_sandbox *sb)
{
    uint64_t most = sb->up_began_ms + sb->grace_ms + ENGINE_TIME_MS;

    if (sb->up_deadline_ms == 0 || most < sb->up_deadline_ms)
        sb->up_deadline_ms = most;
    if (sb->host_until_ms != 0) {
        if (sb->host_until_ms > sb->up_deadline_ms)
            sb->host_until_ms = sb->up_deadline_ms;
    } else if (sb->stop_awaited && sb->kill_call != NULL) {
        /* killed already: that has a short bound of its own */
    } else if (sb->stop_awaited && uv_is_active((uv_handle_t *)&sb->work_timer)) {
        uint64_t spent = cf_clock_ms() - sb->up_began_ms;
        uint64_t rest = sb->grace_ms > spent ? sb->grace_ms - spent : 0;
        if (rest < uv_timer_get_due_in(&sb->work_timer))
            uv_timer_start(&sb->work_timer, on_grace_over, rest, 0);
    } else if (uv_is_active((uv_handle_t *)&sb->work_timer) &&
               cf_teardown_remaining_ms(sb) < uv_timer_get_due_in(&sb->work_timer)) {
        uv_timer_start(&sb->work_timer, on_removal_overdue, cf_teardown_remaining_ms(sb), 0);
    }
    if (sb->sweep != NULL)
        cf_sweep_hurry(sb->sweep, cf_teardown_remaining_ms(sb));
}
