/*
 * The door: options are copied, the story is told by the rows of provision.c, and an ending is
 * always the same walk up the table, whoever asked for it.
 */
#include "sandbox/inside.h"

#include "base/clock.h"
#include "base/ids.h"
#include "base/str.h"

#include <stdio.h>
#include <string.h>

enum { STDERR_TAIL_BYTES = 8192, GRACE_MS = 10000, START_MS = 60000, WHOLE_MS = 600000 };

/* ---- memory -------------------------------------------------------------------------- */

static void
free_env(const char *const *env)
{
    for (size_t i = 0; env != NULL && env[i] != NULL; i++)
        free((char *)env[i]);
    free((void *)env);
}

static void
free_options(struct cf_sandbox_options *o)
{
    free((char *)o->run_id);
    free((char *)o->image_id);
    free((char *)o->seed_image);
    free((char *)o->entrypoint);
    free((char *)o->working_directory);
    free((char *)o->platform_arch);
    free_env(o->env);
}

static const char *const *
copy_env(const char *const *env)
{
    size_t count = 0;

    while (env != NULL && env[count] != NULL)
        count++;
    char **copy = calloc(count + 1, sizeof *copy);
    for (size_t i = 0; copy != NULL && i < count; i++) {
        copy[i] = strdup(env[i]);
        if (copy[i] == NULL) {
            free_env((const char *const *)copy);
            return NULL;
        }
    }
    return (const char *const *)copy;
}

/* Every pointer that is not ours is set aside first, so that a half-made copy can be freed. */
static int
copy_options(struct cf_sandbox_options *to, const struct cf_sandbox_options *from,
             struct cf_error *err)
{
    *to = *from;
    to->run_id = to->image_id = to->seed_image = NULL;
    to->entrypoint = to->working_directory = to->platform_arch = NULL;
    to->env = copy_env(from->env);
    if (to->env == NULL)
        return cf_error_memory(err);
    if (to->whole_timeout_ms == 0)
        to->whole_timeout_ms = WHOLE_MS;
    if (to->start_timeout_ms == 0)
        to->start_timeout_ms = START_MS;
    if (to->grace_ms == 0)
        to->grace_ms = GRACE_MS;
    return cf_str_copy((char **)&to->run_id, from->run_id, err) < 0 ||
                   cf_str_copy((char **)&to->image_id, from->image_id, err) < 0 ||
                   cf_str_copy((char **)&to->seed_image, from->seed_image, err) < 0 ||
                   cf_str_copy((char **)&to->entrypoint, from->entrypoint, err) < 0 ||
                   cf_str_copy((char **)&to->working_directory, from->working_directory, err) <
                       0 ||
                   cf_str_copy((char **)&to->platform_arch, from->platform_arch, err) < 0
               ? -1
               : 0;
}

static void
sandbox_free(struct cf_sandbox *sb)
{
    cf_probe_release(sb);
    cf_link_free(sb->link);
    cf_tar_free(sb->tar);
    cf_tail_release(&sb->stderr_tail);
    cf_plan_release(&sb->plan);
    json_decref(sb->inspect);
    json_decref(sb->end_state);
    json_decref(sb->removed);
    json_decref(sb->left);
    free(sb->container_id);
    free(sb->seed_image);
    free(sb->entry_resolved);
    free(sb->out);
    free(sb->workdir_real);
    free(sb->ancestor);
    free(sb->working_directory);
    free_options(&sb->options);
    free(sb);
}

/* ---- the end ------------------------------------------------------------------------- */

static void
on_handle_closed(uv_handle_t *handle)
{
    struct cf_sandbox *sb = handle->data;

    if (--sb->handles_open > 0)
        return;
    struct cf_teardown result = {
        .proven = sb->is_proven,
        .removed = sb->removed,
        .left = sb->left,
        .host = sb->host,
        .took_ms = sb->up_began_ms > 0 ? cf_clock_ms() - sb->up_began_ms : 0};
    sb->on_closed(sb->closed_user, &result);
    sandbox_free(sb);
}

static void
on_steps_timer_closed(uv_handle_t *handle)
{
    struct cf_steps *steps = handle->data;

    handle->data = cf_sandbox_of(steps);
    on_handle_closed(handle);
}

/* Everything is undone, and somebody waits to hear it. */
static void
close_handles(struct cf_sandbox *sb)
{
    if (!sb->is_over || !sb->is_closing || sb->is_ending)
        return;
    sb->is_ending = true;
    cf_steps_close(&sb->steps, on_steps_timer_closed);
    uv_close((uv_handle_t *)&sb->start_timer, on_handle_closed);
    uv_close((uv_handle_t *)&sb->work_timer, on_handle_closed);
    uv_close((uv_handle_t *)&sb->ping_timer, on_handle_closed);
    uv_close((uv_handle_t *)&sb->hark_timer, on_handle_closed);
}

/* ---- the walk ------------------------------------------------------------------------ */

static void
watch_disk(struct cf_sandbox *sb)
{
    const char *folders[CF_PLAN_VOLUMES_MOST + 2] = {"/"};
    struct cf_error err = {0};

    for (size_t i = 0; i < sb->plan.volume_count; i++)
        folders[i + 1] = sb->plan.volumes[i].target;
    if (cf_link_disk_watch(sb->link, sb->plan.limits.disk_bytes, folders, NULL, NULL, &err) <
        0)
        cf_log(sb->log, CF_LOG_WARN, "sandbox", "disk use is not watched: %s", err.text);
}

static void
on_steps_done(struct cf_steps *steps)
{
    struct cf_sandbox *sb = cf_sandbox_of(steps);

    uv_timer_stop(&sb->start_timer);
    if (steps->dir == CF_STEPS_DOWN) {
        sb->is_ready = true;
        if (!sb->options.is_seed)
            watch_disk(sb);
        if (sb->stream_over) { /* between the last answer and this line */
            cf_demise_begin(sb);
        }
        sb->events.on_ready(sb->user);
        return;
    }
    uv_timer_stop(&sb->work_timer);
    uv_timer_stop(&sb->ping_timer);
    uv_timer_stop(&sb->hark_timer);
    sb->is_over = true;
    if (!sb->is_planned) /* nothing was ever asked for: nothing can be there */
        sb->is_proven = true;
    close_handles(sb);
}

/* What a row's undo is called for eyes. */
static const char *
undo_name(const struct cf_step *row)
{
    if (row->undo == cf_undo_start)
        return "stop";
    if (row->undo == cf_undo_wait)
        return "end wait";
    if (row->undo == cf_undo_attach)
        return "close stream";
    if (row->undo == cf_undo_commit)
        return "remove image";
    if (row->undo == cf_undo_create)
        return "remove container";
    return row->undo == cf_undo_volumes ? "remove volumes" : "list again";
}

/* The way up has begun. If nobody asked for it, the cause is told now, not when all is undone.
 */
static void
begin_way_up(struct cf_sandbox *sb)
{
    sb->up_began_ms = cf_clock_ms();
    if (!sb->is_closing)
        sb->grace_ms = sb->options.grace_ms;
    cf_teardown_hurry(sb);
    if (sb->is_told || sb->is_closing || sb->is_ready)
        return;
    sb->is_told = sb->is_failed = true;
    sb->events.on_failed(sb->user,
                         &sb->steps.err); /* may close us: that ends in a later turn */
}

static void
on_row(struct cf_steps *steps, const struct cf_step *row, bool entered)
{
    struct cf_sandbox *sb = cf_sandbox_of(steps);
    bool is_up = steps->dir == CF_STEPS_UP;

    if (is_up && entered && sb->up_began_ms == 0)
        begin_way_up(sb);
    if (entered)
        sb->row_began_us = cf_clock_us();
    if (sb->events.on_step != NULL)
        sb->events.on_step(sb->user, is_up ? undo_name(row) : row->name,
                           entered ? UINT64_MAX
                                   : (cf_clock_us() - sb->row_began_us + 500) / 1000);
}

static void
on_start_timeout(uv_timer_t *timer)
{
    struct cf_sandbox *sb = timer->data;
    struct cf_error why = {0};

    cf_error_set(&why, CF_ERROR_ENGINE_TIMEOUT, 0,
                 "the sandbox was not up within %llu ms; it was at \"%s\"",
                 (unsigned long long)sb->options.start_timeout_ms,
                 sb->steps.table[sb->steps.at].name);
    cf_error_fix(
        &why,
        "look whether the engine is overloaded, or give it more time with --start-timeout");
    cf_sandbox_fail(sb, &why);
}

/* ---- the link's events --------------------------------------------------------------- */

static void
on_output(void *user)
{
    cf_stream_pump(user);
}

static void
on_hello(void *user, const struct cf_hello *hello)
{
    struct cf_sandbox *sb = user;

    cf_log(sb->log, CF_LOG_DEBUG, "sandbox", "cf-init %s, uid %u, gid %u, cgroup %s",
           hello->version, hello->uid, hello->gid, hello->cgroup);
    sb->hello_seen = true;
    cf_hostview_find("/sys/fs/cgroup", sb->container_id, sb->cgroup);
    cf_stream_ping_begin(sb);
    if (!sb->hello_awaited)
        return;
    sb->hello_awaited = false;
    cf_steps_settle(&sb->steps, 0);
}

static void
on_door(void *user, struct cf_door *door, unsigned port)
{
    struct cf_sandbox *sb = user;

    if (sb->is_ready && !sb->is_failed && sb->events.on_door != NULL)
        sb->events.on_door(sb->user, door, port);
}

static void
on_event(void *user, const char *name, json_t *event)
{
    struct cf_sandbox *sb = user;

    if (sb->is_ready && !sb->is_failed && sb->events.on_event != NULL)
        sb->events.on_event(sb->user, name, event);
}

static void
on_broken(void *user, const struct cf_error *err)
{
    cf_sandbox_fail(user, err);
}

/* ---- the door ------------------------------------------------------------------------ */

static int
check_options(const struct cf_sandbox_options *o, struct cf_error *err)
{
    if (o->init_program == NULL || o->init_program_len == 0)
        return cf_error_set(err, CF_ERROR_INTERNAL, 0, "this build carries no cf-init");
    if (o->run_id == NULL || !cf_labels_is_id(o->run_id, "run_"))
        return cf_error_set(err, CF_ERROR_INTERNAL, 0, "run id is not run_ and 32 hex digits");
    if (o->image_id == NULL || o->entrypoint == NULL)
        return cf_error_set(err, CF_ERROR_INTERNAL, 0,
                            "a sandbox needs an image and an entrypoint");
    if (cf_plan_check_path(o->entrypoint, "entrypoint", err) < 0)
        return -1;
    if (o->working_directory != NULL)
        return cf_plan_check_workdir(o->working_directory, "--working-directory",
                                     CF_ERROR_CONFIG, err);
    return 0;
}

static void
open_timer(struct cf_sandbox *sb, uv_timer_t *timer)
{
    (void)uv_timer_init(sb->loop, timer); /* cannot fail */
    timer->data = sb;
    sb->handles_open++;
}

static int
fill(struct cf_sandbox *sb, struct cf_error *err)
{
    static const struct cf_link_events link_events = {.on_output = on_output,
                                                      .on_hello = on_hello,
                                                      .on_door = on_door,
                                                      .on_event = on_event,
                                                      .on_broken = on_broken};
    char hex[33];

    cf_id_hex(hex);
    (void)snprintf(sb->name, sizeof sb->name, "cfrunner-%s", hex);
    sb->link = cf_link_new(&link_events, sb);
    sb->removed = json_array();
    sb->left = json_array();
    if (sb->link == NULL || sb->removed == NULL || sb->left == NULL ||
        cf_tail_init(&sb->stderr_tail, STDERR_TAIL_BYTES) < 0)
        return cf_error_memory(err);
    return sb->options.is_seed
               ? cf_steps_init(&sb->steps, sb->loop, cf_provision_seed, CF_SEED_ROWS, sb->log, err)
               : cf_steps_init(&sb->steps, sb->loop, cf_provision, CF_ROWS, sb->log, err);
}

/* The first row is entered from the loop, so that no callback comes from inside open. */
static void
on_begin(uv_timer_t *timer)
{
    struct cf_sandbox *sb = timer->data;

    uv_timer_start(&sb->start_timer, on_start_timeout, sb->options.start_timeout_ms, 0);
    cf_steps_run(&sb->steps);
}

int
cf_sandbox_open(uv_loop_t *loop, const struct cf_sandbox_options *options,
                const struct cf_sandbox_events *events, void *user,
                struct cf_sandbox **ret_sandbox, struct cf_error *err)
{
    struct cf_sandbox *sb;

    if (check_options(options, err) < 0)
        return -1;
    sb = calloc(1, sizeof *sb);
    if (sb == NULL)
        return cf_error_memory(err);
    sb->loop = loop;
    sb->engine = options->engine;
    sb->events = *events;
    sb->user = user;
    sb->log = options->log;
    if (copy_options(&sb->options, options, err) < 0 || fill(sb, err) < 0) {
        sandbox_free(sb);
        return -1;
    }
    sb->steps.on_done = on_steps_done;
    sb->steps.on_row = on_row;
    sb->handles_open = 1; /* the steps' own timer */
    open_timer(sb, &sb->start_timer);
    open_timer(sb, &sb->work_timer);
    open_timer(sb, &sb->ping_timer);
    open_timer(sb, &sb->hark_timer);
    uv_timer_start(&sb->start_timer, on_begin, 0, 0);
    *ret_sandbox = sb;
    return 0;
}

void
cf_sandbox_hand_over(struct cf_sandbox *sb, const struct cf_sandbox_events *events, void *user,
                     const struct cf_log *log)
{
    sb->events = *events;
    sb->user = user;
    sb->log = sb->options.log = sb->steps.log = log;
}

struct cf_link *
cf_sandbox_link(struct cf_sandbox *sb)
{
    return sb->link;
}

const char *
cf_sandbox_working_directory(const struct cf_sandbox *sb)
{
    return sb->working_directory;
}

const char *
cf_sandbox_search_path(const struct cf_sandbox *sb)
{
    return sb->is_planned ? sb->plan.search_path : NULL;
}

const char *
cf_sandbox_container_id(const struct cf_sandbox *sb)
{
    return sb->container_id;
}

const char *
cf_sandbox_seed_image(const struct cf_sandbox *sb)
{
    return sb->seed_image;
}

const char *
cf_sandbox_seed_workdir(const struct cf_sandbox *sb)
{
    return sb->plan.working_directory;
}

bool
cf_sandbox_is_seeded(const struct cf_sandbox *sb)
{
    return sb->options.seed_image != NULL;
}

json_t *
cf_sandbox_isolation(const struct cf_sandbox *sb)
{
    return sb->inspect != NULL ? cf_inforce_isolation(&sb->plan, sb->inspect) : NULL;
}

json_t *
cf_sandbox_limits_json(const struct cf_sandbox *sb)
{
    return sb->inspect != NULL
               ? cf_inforce_limits(&sb->plan, cf_engine_facts(sb->engine), sb->inspect)
               : NULL;
}

json_t *
cf_sandbox_end_state(const struct cf_sandbox *sb)
{
    return sb->end_state;
}

void
cf_sandbox_close(struct cf_sandbox *sb, uint64_t grace_ms, cf_sandbox_closed_fn *on_closed,
                 void *user)
{
    struct cf_error why = {0};
    bool is_first = !sb->is_closing;

    if (is_first || grace_ms < sb->grace_ms)
        sb->grace_ms = grace_ms;
    if (is_first) {
        sb->is_closing = true;
        sb->on_closed = on_closed;
        sb->closed_user = user;
    }
    if (sb->up_began_ms != 0 || sb->is_over) {
        if (!sb->is_over)
            cf_teardown_hurry(sb);
        close_handles(sb);
        return;
    }
    if (!is_first)
        return;
    uv_timer_stop(&sb->start_timer);
    if (sb->is_ready) {
        cf_steps_back(&sb->steps);
        return;
    }
    cf_error_set(&why, CF_ERROR_CANCELED, 0, "the sandbox was closed before it was up");
    cf_steps_cancel(&sb->steps, &why);
    if (!sb->steps.running) /* not begun: runs into its cancel at once, and ends there */
        cf_steps_run(&sb->steps);
}
