/*
 * The doctor's story. Reading down: who we are, the engine and what it says, an image of nothing
 * built, one imported and a sandbox made of it. Reading up: all of it taken away again. A question
 * that fails is an answer and not the end: its row settles well, and later rows that need it have
 * nothing to do.
 */
#include "diagnose/doctor.h"

#include "base/clock.h"
#include "base/ids.h"
#include "base/str.h"
#include "engine/engine.h"
#include "json/json.h"
#include "loop/steps.h"
#include "sandbox/sandbox.h"

#include <stdio.h>
#include <string.h>
#include <sys/time.h>

extern const char cf_init_start[] __asm__("_binary_cf_init_start");
extern const char cf_init_end[] __asm__("_binary_cf_init_end");

#define CONNECT_MS 15000u
#define ASK_MS 20000u
#define MAKE_MS 40000u
#define START_MS 60000u
#define SWEEP_MS 30000u
#define LABEL_S 900 /* what a doctor that was killed leaves is dead after that for everybody */
#define PROGRAM "trial"

struct cf_doctor {
    uv_loop_t *loop;
    char *endpoint, *state_dir;
    bool only_looks, is_interrupted, is_over;
    cf_doctor_done_fn *done;
    void *user;

    struct cf_steps steps;
    uint64_t began_ms, row_began_ms;
    int64_t row_began_wall_ms;
    json_t *facts;
    struct cf_owner *owner;
    bool has_begun_run, may_have_made, has_left;
    char run_id[48];
    struct cf_engine *engine;
    bool is_connecting, is_connected;
    struct cf_engine_call *call; /* in flight, of the row that stands */
    struct cf_tar *tar;
    char image_id[80];
    struct cf_sandbox *sandbox;
    bool sandbox_waits; /* its row is not settled yet */
};

static struct cf_doctor *
doctor_of(struct cf_steps *steps)
{
    return cf_container_of(steps, struct cf_doctor, steps);
}

static int64_t
wall_ms(void)
{
    struct timeval now;

    (void)gettimeofday(&now, NULL);
    return (int64_t)now.tv_sec * 1000 + now.tv_usec / 1000;
}

static void
begin_row(struct cf_doctor *d)
{
    d->row_began_ms = cf_clock_ms();
    d->row_began_wall_ms = wall_ms();
}

static void
keep(struct cf_doctor *d, const char *name, json_t *fact)
{
    (void)json_object_set_new(d->facts, name, fact != NULL ? fact : json_null());
}

/* The question's row ends, whatever the answer was. */
static void
answered(struct cf_doctor *d, const char *name, json_t *fact)
{
    keep(d, name, fact);
    cf_steps_settle(&d->steps, 0);
}

static int
not_asked(struct cf_doctor *d)
{
    cf_steps_settle(&d->steps, 0);
    return 0;
}

static void
call_abort(struct cf_steps *steps)
{
    cf_engine_call_cancel(doctor_of(steps)->call);
}

static json_t *
took(const struct cf_doctor *d)
{
    return json_pack("{s:I}", "took_ms", (json_int_t)(cf_clock_ms() - d->row_began_ms));
}

static bool
may_try(const struct cf_doctor *d)
{
    return d->is_connected && d->owner != NULL && d->has_begun_run;
}

/* ---- who we are ---------------------------------------------------------------------------- */

static int
owner_start(struct cf_steps *steps, struct cf_error *err)
{
    struct cf_doctor *d = doctor_of(steps);
    struct cf_error why = {0};

    keep(d, "self", cf_doctor_self());
    if (cf_owner_open(d->state_dir, &d->owner, &why) < 0) {
        answered(d, "state", cf_doctor_error(&why));
        return 0;
    }
    if (!d->only_looks && cf_owner_run_begin(d->owner, d->run_id, &why) < 0) {
        answered(d, "state", cf_doctor_error(&why));
        return 0;
    }
    d->has_begun_run = !d->only_looks;
    answered(d, "state", json_pack("{s:s}", "directory", cf_owner_state_dir(d->owner)));
    return 0;
}

static int
owner_undo(struct cf_steps *steps, struct cf_error *err)
{
    struct cf_doctor *d = doctor_of(steps);

    if (d->has_begun_run && !d->has_left)
        cf_owner_run_end(d->owner, d->run_id);
    cf_owner_close(d->owner); /* NULL is fine; a lock file that stays is what reap looks for */
    d->owner = NULL;
    cf_steps_settle(steps, 0);
    return 0;
}

/* ---- the engine ------------------------------------------------------------------------------ */

static void
on_connected(void *user, int status, const struct cf_error *err)
{
    struct cf_doctor *d = user;

    if (!d->is_connecting)
        return; /* not waited for any more; the engine is being closed */
    d->is_connecting = false;
    d->is_connected = status == 0;
    answered(d, "engine",
             status < 0 ? cf_doctor_error(err)
                        : cf_doctor_engine_facts(cf_engine_facts(d->engine), cf_clock_ms() - d->row_began_ms));
}

static int
engine_start(struct cf_steps *steps, struct cf_error *err)
{
    struct cf_doctor *d = doctor_of(steps);
    const struct cf_engine_options options = {.endpoint = d->endpoint};
    struct cf_error why = {0};

    begin_row(d);
    d->is_connecting = true;
    if (cf_engine_open(d->loop, &options, &d->engine, &why) < 0 ||
        cf_engine_connect(d->engine, CONNECT_MS, on_connected, d, &why) < 0) {
        d->is_connecting = false;
        answered(d, "engine", cf_doctor_error(&why));
    }
    return 0;
}

static void
engine_abort(struct cf_steps *steps)
{
    struct cf_doctor *d = doctor_of(steps);
    struct cf_error why = {0};

    if (!d->is_connecting)
        return;
    d->is_connecting = false;
    (void)cf_error_set(&why, CF_ERROR_CANCELED, 0, "interrupted before the engine had answered");
    answered(d, "engine", cf_doctor_error(&why));
}

static void
on_engine_closed(void *user)
{
    struct cf_doctor *d = user;

    d->engine = NULL;
    cf_steps_settle(&d->steps, 0);
}

static int
engine_undo(struct cf_steps *steps, struct cf_error *err)
{
    struct cf_doctor *d = doctor_of(steps);

    d->is_connected = false;
    if (d->engine == NULL)
        return not_asked(d);
    cf_engine_close(d->engine, on_engine_closed, d);
    return 0;
}

static void
on_info(void *user, int status, const struct cf_engine_reply *reply, const struct cf_error *err)
{
    struct cf_doctor *d = user;
    const struct cf_engine_facts *facts = cf_engine_facts(d->engine);

    d->call = NULL;
    if (status == 0 && json_is_object(reply->json)) {
        keep(d, "clock", cf_doctor_clock(cf_json_str(reply->json, "SystemTime"), d->row_began_wall_ms, wall_ms()));
        if (facts->is_local) {
            keep(d, "disk", cf_doctor_disk(cf_json_str(reply->json, "DockerRootDir")));
            keep(d, "emulated", cf_doctor_emulated());
        }
        answered(d, "info", json_incref(reply->json));
        return;
    }
    answered(d, "info", NULL); /* connecting had asked the same, and had an answer: its lines are left out */
}

static int
info_start(struct cf_steps *steps, struct cf_error *err)
{
    struct cf_doctor *d = doctor_of(steps);
    const struct cf_engine_request request = {.method = "GET", .path = "/info", .deadline_ms = ASK_MS};

    if (!d->is_connected)
        return not_asked(d);
    begin_row(d);
    return cf_engine_call(d->engine, &request, on_info, d, &d->call, err);
}

static void
on_reaped(void *user, int status, json_t *report, const struct cf_error *err)
{
    struct cf_doctor *d = user;

    answered(d, "leftovers", status < 0 ? cf_doctor_error(err) : cf_doctor_leftovers(report, cf_owner_id(d->owner)));
}

/* Of everybody, and only to look: what is ours is told from the rest by its owner. */
static int
leftovers_start(struct cf_steps *steps, struct cf_error *err)
{
    struct cf_doctor *d = doctor_of(steps);

    if (!d->is_connected || d->owner == NULL)
        return not_asked(d);
    return cf_reap_open(d->loop, d->engine, d->owner, true, true, ASK_MS, on_reaped, d, err);
}

/* ---- the builder: an image of nothing, by the way that --build-context goes ------------------- */

static json_t *
labels_of(const struct cf_doctor *d)
{
    return cf_owner_labels(d->owner, d->run_id, NULL, cf_clock_unix() + LABEL_S);
}

static void
on_built(void *user, int status, const struct cf_engine_reply *reply, const struct cf_error *err)
{
    struct cf_doctor *d = user;

    cf_tar_free(d->tar);
    d->tar = NULL;
    answered(d, "builder", status < 0 ? cf_doctor_error(err) : took(d));
}

static void
ignore_object(void *user, json_t *object)
{
    /* only its end counts: an error inside the stream makes the call fail */
}

/* It is never cut off, not even by an interrupt: the engine would go on and make what nobody
 * looks for any more. */
static int
send_tar(struct cf_doctor *d, struct cf_buf *path, cf_engine_progress_fn *on_object, cf_engine_done_fn *done,
         struct cf_error *err)
{
    struct cf_engine_request request = {.method = "POST", .on_object = on_object, .deadline_ms = MAKE_MS};

    if (cf_buf_add(path, "", 1) < 0 || cf_tar_finish(d->tar, &request.body, &request.body_len, err) < 0)
        return path->failed ? cf_error_memory(err) : -1;
    request.path = path->data;
    d->may_have_made = true;
    return cf_engine_call(d->engine, &request, done, d, NULL, err);
}

/* All labels in one instruction: the engine's own `labels` make an image each on the way, and those
 * of a build that is cut off would bear too few for anybody to know whose they are. */
static void
add_labels(struct cf_buf *to, const struct cf_doctor *d)
{
    json_t *labels = labels_of(d), *value;
    const char *name;

    (void)cf_buf_adds(to, "LABEL");
    json_object_foreach(labels, name, value)
        (void)cf_buf_addf(to, " %s=\"%s\"", name, json_string_value(value));
    json_decref(labels);
}

static int
builder_start(struct cf_steps *steps, struct cf_error *err)
{
    struct cf_doctor *d = doctor_of(steps);
    struct cf_buf path = {0}, dockerfile = {0};
    int status;

    if (!may_try(d))
        return not_asked(d);
    begin_row(d);
    (void)cf_buf_adds(&path, "/build?version=1&forcerm=1&nocache=1");
    (void)cf_buf_adds(&dockerfile, "FROM scratch\n");
    add_labels(&dockerfile, d);
    d->tar = cf_tar_new();
    status = d->tar == NULL || dockerfile.failed
                 ? cf_error_memory(err)
                 : cf_tar_file(d->tar, "Dockerfile", 0644, 0, 0, dockerfile.data, dockerfile.len, err);
    if (status == 0)
        status = send_tar(d, &path, ignore_object, on_built, err);
    cf_buf_release(&dockerfile);
    cf_buf_release(&path);
    return status;
}

/* ---- the trial: one file in an image, one sandbox of it ------------------------------------------ */

/* {"status":"sha256:..."}; Podman leaves the prefix out. */
static void
on_import_object(void *user, json_t *object)
{
    struct cf_doctor *d = user;
    const char *id = cf_json_str(object, "status");

    if (id != NULL && cf_str_starts(id, "sha256:"))
        id += strlen("sha256:");
    if (id != NULL && strlen(id) == 64 && cf_is_hex(id, 64))
        (void)snprintf(d->image_id, sizeof d->image_id, "sha256:%s", id);
}

static void
on_imported(void *user, int status, const struct cf_engine_reply *reply, const struct cf_error *err)
{
    struct cf_doctor *d = user;
    struct cf_error own = {0};

    cf_tar_free(d->tar);
    d->tar = NULL;
    if (status == 0 && d->image_id[0] == '\0') {
        status = cf_error_set(&own, CF_ERROR_ENGINE, 0, "the engine imported an image and did not say its id");
        err = &own;
    }
    if (status < 0)
        answered(d, "sandbox", cf_doctor_error(err));
    else
        cf_steps_settle(&d->steps, 0);
}

/* One instruction each: Podman takes all that stands behind the first for that one's value, and then
 * nobody knows whose image it is. An import makes none on the way. */
static int
add_changes(struct cf_buf *path, const struct cf_doctor *d)
{
    json_t *labels = labels_of(d), *value;
    const char *name;
    char change[256];

    json_object_foreach(labels, name, value) {
        (void)snprintf(change, sizeof change, "LABEL %s=%s", name, json_string_value(value));
        (void)cf_engine_query(path, "changes", change);
    }
    json_decref(labels);
    return path->failed ? -1 : 0;
}

static int
image_start(struct cf_steps *steps, struct cf_error *err)
{
    struct cf_doctor *d = doctor_of(steps);
    struct cf_buf path = {0};
    int status;

    if (!may_try(d))
        return not_asked(d);
    begin_row(d);
    d->tar = cf_tar_new();
    (void)cf_buf_adds(&path, "/images/create?fromSrc=-");
    status = d->tar == NULL || add_changes(&path, d) < 0
                 ? cf_error_memory(err)
                 : cf_tar_file(d->tar, PROGRAM, 0755, 0, 0, cf_init_start, (size_t)(cf_init_end - cf_init_start), err);
    if (status == 0)
        status = send_tar(d, &path, on_import_object, on_imported, err);
    cf_buf_release(&path);
    return status;
}

static void
sandbox_answered(struct cf_doctor *d, json_t *fact)
{
    if (!d->sandbox_waits) {
        json_decref(fact);
        return;
    }
    d->sandbox_waits = false;
    answered(d, "sandbox", fact);
}

static void
on_ready(void *user)
{
    struct cf_doctor *d = user;

    sandbox_answered(d, took(d));
}

static void
on_failed(void *user, const struct cf_error *err)
{
    sandbox_answered(user, cf_doctor_error(err));
}

static int
sandbox_start(struct cf_steps *steps, struct cf_error *err)
{
    static const struct cf_sandbox_events events = {.on_ready = on_ready, .on_failed = on_failed};
    struct cf_doctor *d = doctor_of(steps);
    const struct cf_sandbox_options options = {.engine = d->engine,
                                               .owner = d->owner,
                                               .run_id = d->run_id,
                                               .image_id = d->image_id,
                                               .entrypoint = "/" PROGRAM,
                                               .whole_timeout_ms = LABEL_S * 1000,
                                               .start_timeout_ms = START_MS,
                                               .init_program = cf_init_start,
                                               .init_program_len = (size_t)(cf_init_end - cf_init_start)};

    if (d->image_id[0] == '\0')
        return not_asked(d);
    begin_row(d);
    d->sandbox_waits = true;
    return cf_sandbox_open(d->loop, &options, &events, d, &d->sandbox, err);
}

/* A cancel: the row must settle, and the sandbox goes on the way back. */
static void
sandbox_abort(struct cf_steps *steps)
{
    struct cf_error why = {0};

    (void)cf_error_set(&why, CF_ERROR_CANCELED, 0, "interrupted");
    sandbox_answered(doctor_of(steps), cf_doctor_error(&why));
}

/* ---- taking away ----------------------------------------------------------------------------------- */

static void
note_left(struct cf_doctor *d, const struct cf_teardown *teardown)
{
    if (teardown->proven)
        return;
    d->has_left = true;
    keep(d, "left", json_deep_copy(teardown->left));
}

static void
on_sandbox_closed(void *user, const struct cf_teardown *teardown)
{
    struct cf_doctor *d = user;

    d->sandbox = NULL;
    note_left(d, teardown);
    cf_steps_settle(&d->steps, 0);
}

static int
sandbox_undo(struct cf_steps *steps, struct cf_error *err)
{
    struct cf_doctor *d = doctor_of(steps);

    if (d->sandbox == NULL)
        return not_asked(d);
    cf_sandbox_close(d->sandbox, 0, on_sandbox_closed, d);
    return 0;
}

static void
on_swept(void *user, const struct cf_teardown *teardown)
{
    struct cf_doctor *d = user;

    d->has_left = false; /* it looked at everything of ours, whatever came before */
    (void)json_object_del(d->facts, "left");
    note_left(d, teardown);
    cf_steps_settle(&d->steps, 0);
}

static int
images_undo(struct cf_steps *steps, struct cf_error *err)
{
    struct cf_doctor *d = doctor_of(steps);
    char label[100];

    if (!d->may_have_made)
        return not_asked(d);
    (void)snprintf(label, sizeof label, "com.checkfu.runner.run=%s", d->run_id);
    return cf_sweep_open(d->loop, d->engine, label, SWEEP_MS, on_swept, d, NULL, err);
}

/* ---- the table, and its end ---------------------------------------------------------------------------- */

static const struct cf_step story[] = {
    {"owner", owner_start, owner_undo, NULL, 0},
    {"engine", engine_start, engine_undo, engine_abort, 0},
    {"info", info_start, NULL, call_abort, 0},
    {"leftovers", leftovers_start, NULL, NULL, 0},
    {"builder", builder_start, images_undo, NULL, 0},
    {"image", image_start, NULL, NULL, 0},
    {"sandbox", sandbox_start, sandbox_undo, sandbox_abort, 0},
};

static json_t *
report_of(const struct cf_doctor *d, int *ret_exit)
{
    json_t *lines = cf_doctor_lines(d->facts), *line, *engine = json_object_get(d->facts, "engine");
    int ok = 0, warnings = 0, blocking = 0;
    size_t i;

    json_array_foreach(lines, i, line)
    {
        const char *status = cf_json_str(line, "status");
        ok += cf_str_same(status, "ok");
        warnings += cf_str_same(status, "warning");
        blocking += cf_str_same(status, "blocking");
    }
    *ret_exit = d->has_left ? 4 : d->is_interrupted ? 130 : blocking > 0 ? 3 : 0;
    /* clang-format off */
    return json_pack("{s:i, s:b, s:i, s:i, s:i, s:i, s:b, s:O?, s:o, s:I}",
                     "schema_version", 1,
                     "fit", blocking == 0 && !d->is_interrupted && !d->has_left,
                     "exit_code", *ret_exit,
                     "ok", ok, "warnings", warnings, "blocking", blocking,
                     "tried", (int)!d->only_looks,
                     "engine", json_object_get(engine, "error") == NULL ? engine : NULL,
                     "lines", lines,
                     "took_ms", (json_int_t)(cf_clock_ms() - d->began_ms));
    /* clang-format on */
}

static void
doctor_free(struct cf_doctor *d)
{
    json_decref(d->facts);
    cf_tar_free(d->tar);
    free(d->endpoint);
    free(d->state_dir);
    free(d);
}

static void
on_timer_closed(uv_handle_t *timer)
{
    struct cf_doctor *d = doctor_of(timer->data);
    int exit_code;
    json_t *report = report_of(d, &exit_code);
    cf_doctor_done_fn *done = d->done;
    void *user = d->user;

    doctor_free(d);
    done(user, report, exit_code);
    json_decref(report);
}

/* Down: everything was asked. Up: all is taken away. A row that could not even be begun (no memory)
 * ends here, too, undone. */
static void
on_steps_done(struct cf_steps *steps)
{
    struct cf_doctor *d = doctor_of(steps);

    if (steps->dir == CF_STEPS_DOWN && steps->outcome == 0) {
        cf_steps_back(steps);
        return;
    }
    if (steps->err.kind != CF_ERROR_NONE && !d->is_interrupted && json_object_get(d->facts, "sandbox") == NULL)
        keep(d, "sandbox", cf_doctor_error(&steps->err));
    cf_steps_close(steps, on_timer_closed);
}

int
cf_doctor_open(struct uv_loop_s *loop, const struct cf_doctor_options *options, cf_doctor_done_fn *done, void *user,
               struct cf_doctor **ret_doctor, struct cf_error *err)
{
    struct cf_doctor *d = calloc(1, sizeof *d);

    if (d == NULL)
        return cf_error_memory(err);
    d->loop = loop;
    d->only_looks = options->only_looks;
    d->done = done;
    d->user = user;
    d->began_ms = cf_clock_ms();
    d->facts = json_object();
    cf_id_make("run_", d->run_id, sizeof d->run_id);
    if (d->facts == NULL || cf_str_copy(&d->endpoint, options->engine, err) < 0 ||
        cf_str_copy(&d->state_dir, options->state_dir, err) < 0 ||
        cf_steps_init(&d->steps, loop, story, (int)CF_COUNT(story), NULL, err) < 0) {
        doctor_free(d);
        return -1;
    }
    d->steps.on_done = on_steps_done;
    *ret_doctor = d;
    cf_steps_run(&d->steps);
    return 0;
}

void
cf_doctor_interrupt(struct cf_doctor *doctor)
{
    doctor->is_interrupted = true;
    cf_steps_cancel(&doctor->steps, NULL);
}
