/*
 * What the runs of one release share. Opening is a table like a run's own, only shorter;
 * closing waits until nobody uses it any more. All decisions fall in on_kick, a turn of the
 * loop after whatever gave rise to them.
 */
#include "run/pool.h"

#include "base/clock.h"
#include "base/ids.h"
#include "base/str.h"
#include "json/json.h"
#include "run/hall.h"

#include <string.h>

#define CONNECT_MS 15000u
#define REAP_MS 8000u
#define IMAGE_GRACE_MS 20000u

enum { ROW_ENGINE, ROW_OWNER, ROW_REAP, ROW_IMAGE, ROW_COUNT };

static struct cf_pool *
pool_of(struct cf_steps *steps)
{
    return cf_container_of(steps, struct cf_pool, steps);
}

static int
row_is_nothing(struct cf_steps *steps)
{
    cf_steps_settle(steps, 0);
    return 0;
}

/* ---- engine ----------------------------------------------------------------------------- */

static void
on_connected(void *user, int status, const struct cf_error *err)
{
    struct cf_pool *pool = user;

    if (!pool->connect_pending)
        return; /* the row was given up */
    pool->connect_pending = false;
    if (status < 0)
        pool->steps.err = *err;
    cf_steps_settle(&pool->steps, status);
}

static int
engine_start(struct cf_steps *steps, struct cf_error *err)
{
    struct cf_pool *pool = pool_of(steps);
    const struct cf_engine_options options = {.endpoint = pool->options.engine,
                                              .docker_config_dir =
                                                  pool->options.docker_config_dir,
                                              .log = &pool->log};

    if (cf_engine_open(pool->loop, &options, &pool->engine, err) < 0)
        return -1;
    pool->connect_pending = true;
    if (cf_engine_connect(pool->engine, CONNECT_MS, on_connected, pool, err) == 0)
        return 0;
    pool->connect_pending = false;
    return -1;
}

static void
engine_abort(struct cf_steps *steps)
{
    struct cf_pool *pool = pool_of(steps);

    if (!pool->connect_pending)
        return;
    pool->connect_pending = false;
    cf_steps_settle(steps, -1);
}

static void
on_engine_closed(void *user)
{
    struct cf_pool *pool = user;

    pool->engine = NULL;
    cf_steps_settle(&pool->steps, 0);
}

static int
engine_undo(struct cf_steps *steps, struct cf_error *err)
{
    struct cf_pool *pool = pool_of(steps);

    if (pool->engine == NULL)
        return row_is_nothing(steps);
    cf_engine_close(pool->engine, on_engine_closed, pool);
    return 0;
}

/* ---- owner, and what dead runs left
 * --------------------------------------------------------- */

static int
owner_start(struct cf_steps *steps, struct cf_error *err)
{
    struct cf_pool *pool = pool_of(steps);

    if (cf_owner_open(pool->options.state_dir, &pool->owner, err) < 0 ||
        cf_owner_run_begin(pool->owner, pool->id, err) < 0)
        return -1;
    pool->owner_begun = true;
    return row_is_nothing(steps);
}

static int
owner_undo(struct cf_steps *steps, struct cf_error *err)
{
    struct cf_pool *pool = pool_of(steps);

    if (pool->owner_begun)
        cf_owner_run_end(pool->owner, pool->id);
    pool->owner_begun = false;
    cf_owner_close(pool->owner);
    pool->owner = NULL;
    return row_is_nothing(steps);
}

static void
on_reaped(void *user, int status, json_t *report, const struct cf_error *err)
{
    struct cf_pool *pool = user;
    size_t dead = json_array_size(json_object_get(report, "dead"));

    pool->reap_pending = false;
    if (dead > 0)
        cf_log(&pool->log, CF_LOG_WARN, "reap",
               "removed what %zu dead run(s) of this installation had left", dead);
    if (status < 0)
        cf_log(&pool->log, CF_LOG_WARN, "reap", "%s", err->text);
    if (pool->reap_awaited) {
        pool->reap_awaited = false;
        cf_steps_settle(&pool->steps, 0);
    }
}

static int
reap_start(struct cf_steps *steps, struct cf_error *err)
{
    struct cf_pool *pool = pool_of(steps);
    struct cf_error why;

    if (!pool->options.skip_reap) {
        if (cf_reap_open(pool->loop, pool->engine, pool->owner, false, false, REAP_MS,
                         on_reaped, pool, &why) == 0)
            pool->reap_pending = true;
        else
            cf_log(&pool->log, CF_LOG_WARN, "reap", "%s", why.text);
    }
    return row_is_nothing(steps);
}

static int
reap_undo(struct cf_steps *steps, struct cf_error *err)
{
    struct cf_pool *pool = pool_of(steps);

    if (!pool->reap_pending)
        return row_is_nothing(steps);
    pool->reap_awaited = true;
    return 0;
}

/* ---- image ------------------------------------------------------------------------------ */

static void
image_step(void *user, const char *name, uint64_t took_ms)
{
    struct cf_pool *pool = user;

    if (took_ms != UINT64_MAX)
        cf_log(&pool->log, CF_LOG_DEBUG, "image", "%s: %llu ms", name,
               (unsigned long long)took_ms);
}

static void
image_progress(void *user, const char *what, json_t *object)
{
}

static void
image_warning(void *user, const char *text)
{
    struct cf_pool *pool = user;

    cf_log(&pool->log, CF_LOG_WARN, "image", "%s", text);
}

static void
image_done(void *user, int status, const struct cf_image_facts *facts, const char *tail,
           const struct cf_error *err)
{
    struct cf_pool *pool = user;

    if (pool->image_given_up)
        return;
    pool->image_pending = false;
    pool->image_facts = status == 0 ? facts : NULL;
    if (status < 0)
        pool->steps.err = *err;
    cf_steps_settle(&pool->steps, status);
}

static int
image_start(struct cf_steps *steps, struct cf_error *err)
{
    static const struct cf_image_events events = {.on_step = image_step,
                                                  .on_progress = image_progress,
                                                  .on_warning = image_warning,
                                                  .on_done = image_done};
    struct cf_pool *pool = pool_of(steps);
    struct cf_image_options options;

    cf_rows_image_options(&pool->release, &pool->options, &options);
    options.engine = pool->engine;
    options.owner = pool->owner;
    options.run_id = pool->id;
    options.log = &pool->log;
    options.deadline_ms = pool->options.whole_ms;
    pool->image_pending = true;
    return cf_image_open(pool->loop, &options, &events, pool, &pool->image, err);
}

static void
image_abort(struct cf_steps *steps)
{
    struct cf_pool *pool = pool_of(steps);

    if (!pool->image_pending || pool->image_given_up)
        return;
    pool->image_given_up = true;
    cf_steps_settle(steps, -1);
}

void
cf_pool_sandbox_options(const struct cf_pool *pool, const char *run_id,
                        struct cf_sandbox_options *ret_options)
{
    cf_rows_sandbox_options(&pool->release, &pool->options, ret_options);
    ret_options->engine = pool->engine;
    ret_options->owner = pool->owner;
    ret_options->run_id = run_id;
    ret_options->image_id = pool->image_facts->id;
    ret_options->log = &pool->log;
}

void
cf_pool_take_teardown(struct cf_pool *pool, const struct cf_teardown *teardown)
{
    if (!teardown->proven)
        pool->teardown_proven = false;
    (void)json_array_extend(pool->removed, teardown->removed);
    (void)json_array_extend(pool->left, teardown->left);
}

static void
on_image_closed(void *user, const struct cf_teardown *teardown)
{
    struct cf_pool *pool = user;

    pool->image = NULL;
    cf_pool_take_teardown(pool, teardown);
    cf_steps_settle(&pool->steps, 0);
}

static int
image_undo(struct cf_steps *steps, struct cf_error *err)
{
    struct cf_pool *pool = pool_of(steps);

    pool->image_facts = NULL;
    if (pool->image == NULL)
        return row_is_nothing(steps);
    cf_image_close(pool->image, pool->grace_ms + IMAGE_GRACE_MS, on_image_closed, pool);
    return 0;
}

static const struct cf_step rows[ROW_COUNT] = {
    {"engine", engine_start, engine_undo, engine_abort, 0},
    {"owner", owner_start, owner_undo, NULL, 0},
    {"reap", reap_start, reap_undo, NULL, 0},
    {"image", image_start, image_undo, image_abort, 0},
};

/* ---- those who wait
 * ------------------------------------------------------------------------- */

void
cf_pool_await(struct cf_pool *pool, struct cf_pool_wait *wait)
{
    if (pool->is_ready || pool->is_failed) {
        wait->on_ready(wait, pool->is_failed ? &pool->error : NULL);
        return;
    }
    wait->is_waiting = true;
    TAILQ_INSERT_TAIL(&pool->waits, wait, entry);
}

void
cf_pool_forget(struct cf_pool *pool, struct cf_pool_wait *wait)
{
    if (wait->is_waiting)
        TAILQ_REMOVE(&pool->waits, wait, entry);
    wait->is_waiting = false;
}

static void
tell_waits(struct cf_pool *pool)
{
    struct cf_pool_wait *wait;

    while ((wait = TAILQ_FIRST(&pool->waits)) != NULL) {
        cf_pool_forget(pool, wait);
        wait->on_ready(wait, pool->is_failed ? &pool->error : NULL);
    }
}

void
cf_pool_leave(struct cf_pool *pool)
{
    pool->runs--;
    cf_pool_kick(pool);
}

/* ---- opened, or failed
 * ---------------------------------------------------------------------- */

static void
fail(struct cf_pool *pool, const struct cf_error *err)
{
    if (pool->is_failed)
        return;
    pool->is_failed = true;
    pool->error = *err;
    tell_waits(pool);
    if (pool->host.on_failed != NULL && !pool->is_closing)
        pool->host.on_failed(pool->host.user, &pool->error);
}

static void
on_row(struct cf_steps *steps, const struct cf_step *row, bool entered)
{
    struct cf_pool *pool = pool_of(steps);

    if (entered && steps->dir == CF_STEPS_UP && !pool->is_ready)
        fail(pool, &steps->err);
}

static void
on_steps_done(struct cf_steps *steps)
{
    struct cf_pool *pool = pool_of(steps);

    if (steps->dir == CF_STEPS_UP) {
        pool->is_over = true;
        cf_pool_kick(pool);
        return;
    }
    pool->is_ready = true;
    cf_pace_init(&pool->pace, pool->options.pool_creates > 0
                                  ? (unsigned)pool->options.pool_creates
                                  : 2 * (unsigned)cf_engine_facts(pool->engine)->ncpu);
    cf_pool_kick(pool);
    tell_waits(pool);
    if (pool->host.on_ready != NULL)
        pool->host.on_ready(pool->host.user);
}

/* ---- the end
 * -------------------------------------------------------------------------------- */

static void
free_pool(struct cf_pool *pool)
{
    cf_release_done(&pool->release);
    cf_run_options_done(&pool->options);
    json_decref(pool->removed);
    json_decref(pool->left);
    free(pool->release_json);
    free(pool->options_json);
    free(pool);
}

static void
handle_closed(struct cf_pool *pool)
{
    void (*on_closed)(void *) = pool->host.on_closed;
    void *user = pool->host.user;

    if (--pool->handles_open > 0)
        return;
    free_pool(pool);
    if (on_closed != NULL)
        on_closed(user);
}

static void
on_handle_closed(uv_handle_t *handle)
{
    handle_closed(handle->data);
}

static void
on_steps_timer_closed(uv_handle_t *handle)
{
    handle_closed(pool_of(handle->data));
}

static void
tell_teardown(struct cf_pool *pool)
{
    bool clean = pool->teardown_proven && json_array_size(pool->left) == 0;
    json_t *document = json_pack("{s:b, s:O, s:O}", "proven", clean, "removed", pool->removed,
                                 "left", pool->left);
    size_t len = 0;
    cf_auto_free char *text = document != NULL ? cf_json_dump(document, &len) : NULL;

    json_decref(document);
    if (text != NULL && pool->host.on_teardown != NULL)
        pool->host.on_teardown(pool->host.user, text, len);
}

static void
finish(struct cf_pool *pool)
{
    tell_teardown(pool);
    pool->handles_open = 3;
    uv_close((uv_handle_t *)&pool->kick, on_handle_closed);
    uv_close((uv_handle_t *)&pool->renew, on_handle_closed);
    cf_steps_close(&pool->steps, on_steps_timer_closed);
}

static void
go_on_closing(struct cf_pool *pool)
{
    struct cf_error why;

    (void)cf_error_set(&why, CF_ERROR_CANCELED, 0, "the pool was closed");
    if (pool->is_over || !pool->is_begun) {
        fail(pool, &why);
        if (pool->runs == 0)
            finish(pool);
    } else if (!pool->is_ready) {
        cf_steps_cancel(&pool->steps, &why);
    } else if (pool->runs == 0 && TAILQ_EMPTY(&pool->warms) && pool->seed.state == CF_SEED_NONE &&
               !pool->steps.running) {
        cf_steps_back(&pool->steps);
    }
}

static void
on_kick(uv_timer_t *timer)
{
    struct cf_pool *pool = timer->data;
    struct cf_pool_state state = {.size = sizeof state};

    if (!pool->is_begun && !pool->is_closing) {
        pool->is_begun = true;
        cf_steps_run(&pool->steps);
        return;
    }
    if (pool->is_ready) {
        cf_warm_tend(pool);
        cf_pool_seed_tend(pool);
    }
    if (pool->state_changed && pool->host.on_state != NULL) {
        pool->state_changed = false;
        cf_pool_state(pool, &state);
        pool->host.on_state(pool->host.user, &state);
    }
    if (pool->is_closing)
        go_on_closing(pool);
}

void
cf_pool_kick(struct cf_pool *pool)
{
    if (pool->handles_open == 0)
        uv_timer_start(&pool->kick, on_kick, 0, 0);
}

void
cf_pool_changed(struct cf_pool *pool)
{
    pool->state_changed = true;
    cf_pool_kick(pool);
}

/* ---- the public door -------------------------------------------------------------------- */

static void
host_log(void *user, enum cf_log_level level, const char *room, const char *line)
{
    struct cf_pool *pool = user;

    if (pool->host.on_log != NULL)
        pool->host.on_log(pool->host.user, (int)level, room, line);
}

static char *
copy_bytes(const char *bytes, size_t len)
{
    char *copy = malloc(len + 1);

    if (copy == NULL)
        return NULL;
    memcpy(copy, bytes, len);
    copy[len] = '\0';
    return copy;
}

static int
fill(struct cf_pool *pool, const char *release_json, size_t release_len,
     const char *options_json, size_t options_len, struct cf_error *err)
{
    pool->release_json = copy_bytes(release_json, release_len);
    pool->options_json = copy_bytes(options_json, options_len);
    pool->release_len = release_len;
    pool->options_len = options_len;
    pool->removed = json_array();
    pool->left = json_array();
    if (pool->release_json == NULL || pool->options_json == NULL || pool->removed == NULL ||
        pool->left == NULL)
        return cf_error_memory(err);
    if (cf_run_options_decode(options_json, options_len, &pool->options, err) < 0 ||
        cf_release_decode(release_json, release_len, &pool->release, NULL, NULL, err) < 0 ||
        cf_hall_check_image(&pool->release, &pool->options, err) < 0)
        return -1;
    return cf_steps_init(&pool->steps, pool->loop, rows, ROW_COUNT, &pool->log, err);
}

int
cf_pool_open(struct uv_loop_s *loop, const char *release_json, size_t release_len,
             const char *options_json, size_t options_len, const struct cf_pool_host *host,
             struct cf_pool **ret_pool, struct cf_error *err)
{
    struct cf_pool *pool;

    if (cf_hall_check_sigpipe(err) < 0)
        return -1;
    pool = calloc(1, sizeof *pool);
    if (pool == NULL)
        return cf_error_memory(err);
    pool->loop = loop;
    memcpy(&pool->host, host, host->size < sizeof pool->host ? host->size : sizeof pool->host);
    pool->log = (struct cf_log){host_log, pool, CF_LOG_TRACE};
    pool->teardown_proven = true;
    TAILQ_INIT(&pool->waits);
    TAILQ_INIT(&pool->warms);
    cf_id_make("run_", pool->id, sizeof pool->id);
    if (fill(pool, release_json, release_len, options_json, options_len, err) < 0) {
        free_pool(pool);
        return -1;
    }
    pool->grace_ms = pool->options.grace_ms;
    pool->steps.on_done = on_steps_done;
    pool->steps.on_row = on_row;
    (void)uv_timer_init(loop, &pool->kick); /* cannot fail */
    (void)uv_timer_init(loop, &pool->renew);
    pool->kick.data = pool->renew.data = pool;
    cf_pool_kick(pool);
    *ret_pool = pool;
    return 0;
}

/* A run that wants another sandbox than the pool's would get one that is not what it asked
 * for. */
static int
check_same_sandbox(const struct cf_pool *pool, const struct cf_run_options *options,
                   struct cf_error *err)
{
    static const char *const shaping[] = {"engine",        "docker_config_dir",
                                          "state_dir",     "build_context",
                                          "dockerfile",    "pull",
                                          "registry_host", "registry_all_interfaces",
                                          "relay_port",    "limits",
                                          "allow_hosts"};

    for (size_t i = 0; i < CF_COUNT(shaping); i++) {
        const json_t *wanted = json_object_get(options->json, shaping[i]);
        const json_t *there = json_object_get(pool->options.json, shaping[i]);
        if (wanted == there || (wanted != NULL && there != NULL && json_equal(wanted, there)))
            continue;
        (void)cf_error_set(err, CF_ERROR_CONFIG, 0, "options: %s is not the pool's",
                           shaping[i]);
        return cf_error_fix(err, "give the pool's, or open another pool");
    }
    if (options->whole_ms > pool->options.whole_ms)
        return cf_error_set(err, CF_ERROR_CONFIG, 0,
                            "options: deadlines_ms.whole is longer than the pool's, which is "
                            "what its sandboxes are labelled with");
    return 0;
}

int
cf_pool_run_open(struct cf_pool *pool, const char *options_json, size_t options_len,
                 const struct cf_run_host *host, struct cf_run **ret_run, struct cf_error *err)
{
    struct cf_run_options options;
    int status;

    if (pool->is_closing || pool->is_failed) {
        if (pool->is_failed)
            *err = pool->error;
        else
            (void)cf_error_set(err, CF_ERROR_CANCELED, 0, "the pool is being closed");
        return -1;
    }
    if (options_json == NULL) {
        options_json = pool->options_json;
        options_len = pool->options_len;
    } else {
        status = cf_run_options_decode(options_json, options_len, &options, err);
        if (status == 0)
            status = check_same_sandbox(pool, &options, err);
        cf_run_options_done(&options);
        if (status < 0)
            return -1;
    }
    return cf_hall_open(pool->loop, pool, pool->release_json, pool->release_len, options_json,
                        options_len, host, ret_run, err);
}

void
cf_pool_state(const struct cf_pool *pool, struct cf_pool_state *state)
{
    struct cf_pool_state now = {
        .size = sizeof now, .runs = pool->runs, .waiting = pool->pace.waiting};
    const struct cf_warm *warm;

    TAILQ_FOREACH(warm, &pool->warms, entry)
    {
        now.warm += warm->state == CF_WARM_READY;
        now.making += warm->state == CF_WARM_LINE || warm->state == CF_WARM_MAKING;
        now.waiting -= warm->ticket.is_waiting; /* a sandbox's, not a run's */
    }
    memcpy(state, &now, state->size < sizeof now ? state->size : sizeof now);
}

void
cf_pool_close(struct cf_pool *pool, uint64_t grace_ms)
{
    if (grace_ms < pool->grace_ms)
        pool->grace_ms = grace_ms;
    pool->is_closing = true;
    cf_pool_kick(pool);
}
