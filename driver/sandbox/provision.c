/*
 * One sandbox as a table: reading down it is made, reading up it is taken away. The order down
 * is what keeps it free of races: the stream is attached and the wait registered before
 * anything runs, and the last thing that is put into the container is put between cf-init's
 * hello and the first spawn, while no foreign process exists.
 *
 * Calls that change something are not given up at once when the run is canceled: given up,
 * they may still happen, unseen. They get a moment to answer; one that does not is looked for
 * by name on the way up.
 */
#include "sandbox/inside.h"

#include "base/clock.h"
#include "base/str.h"
#include "json/json.h"

#include <string.h>

enum { ABORT_PATIENCE_MS = 5000 };

/* ---- rows of several operations ------------------------------------------------------ */

void
cf_row_begin(struct cf_sandbox *sb)
{
    sb->row_pending = 1;
    sb->row_status = 0;
}

void
cf_row_add(struct cf_sandbox *sb)
{
    sb->row_pending++;
}

void
cf_row_part(struct cf_sandbox *sb, int status, const struct cf_error *err)
{
    if (status < 0 && sb->row_status == 0) {
        sb->row_status = status;
        if (sb->steps.dir == CF_STEPS_DOWN && err != NULL)
            sb->steps.err = *err;
    }
    if (--sb->row_pending > 0)
        return;
    uv_timer_stop(&sb->work_timer);
    cf_steps_settle(&sb->steps, sb->row_status);
}

/* A row with one call: the reply is recorded, `call` forgotten, the row settled. */
void
cf_row_settle_call(struct cf_sandbox *sb, int status, const struct cf_error *err)
{
    sb->call = NULL;
    uv_timer_stop(&sb->work_timer);
    if (status < 0 && err != NULL && err != &sb->steps.err)
        sb->steps.err = *err;
    cf_steps_settle(&sb->steps, status);
}

static void
abort_call(struct cf_steps *steps)
{
    cf_engine_call_cancel(cf_sandbox_of(steps)->call);
}

/* What changes something gets a moment to say how it ended. */
static void
on_patience_over(uv_timer_t *timer)
{
    struct cf_sandbox *sb = timer->data;

    cf_engine_call_cancel(sb->call);
    for (size_t i = 0; i < sb->plan.volume_count; i++)
        cf_engine_call_cancel(sb->volumes[i].call);
}

void
cf_row_abort_patiently(struct cf_steps *steps)
{
    struct cf_sandbox *sb = cf_sandbox_of(steps);

    uv_timer_start(&sb->work_timer, on_patience_over, ABORT_PATIENCE_MS, 0);
}

/* Did the engine answer at all? If not, what was asked may have been done. */
static bool
is_unanswered(int status, const struct cf_engine_reply *reply)
{
    return status < 0 && reply == NULL;
}

/* ---- the image, and the plan that follows from it ------------------------------------ */

static json_t *
make_labels(const struct cf_sandbox *sb)
{
    const struct cf_sandbox_options *o = &sb->options;
    int64_t most_s = (int64_t)((o->whole_timeout_ms + o->grace_ms) / 1000) + 600;

    return cf_owner_labels(o->owner, o->run_id, sb->name, cf_clock_unix() + most_s);
}

static int create_start(struct cf_steps *steps, struct cf_error *err);
static void on_image(void *user, int status, const struct cf_engine_reply *reply,
                     const struct cf_error *err);

static int
ask_image(struct cf_sandbox *sb, struct cf_error *err)
{
    const struct cf_sandbox_options *o = &sb->options;

    return cf_engine_image_inspect(sb->engine, o->seed_image != NULL ? o->seed_image : o->image_id,
                                   on_image, sb, &sb->call, err);
}

/* A nameless image that no container uses is what `docker image prune` takes. */
static bool
do_without_seed(struct cf_sandbox *sb)
{
    struct cf_error unused = {0};

    if (sb->options.seed_image == NULL)
        return false;
    cf_log(sb->log, CF_LOG_WARN, "sandbox", "image %s was removed by somebody; made without it",
           sb->options.seed_image);
    free((char *)sb->options.seed_image);
    sb->options.seed_image = NULL;
    return !sb->steps.canceled && ask_image(sb, &unused) == 0;
}

/* A second plan, of the image instead of the seed's, keeps the volumes that were made for the
 * first. */
static int
take_plan(struct cf_sandbox *sb, json_t *image, struct cf_error *err)
{
    json_t *labels = make_labels(sb);
    struct cf_plan plan;
    int status = labels == NULL ? cf_error_memory(err)
                                : cf_plan_make(&sb->options, cf_engine_facts(sb->engine), image,
                                               sb->name, labels, &plan, err);

    json_decref(labels);
    if (status < 0)
        return -1;
    if (sb->is_planned && plan.volume_count != sb->plan.volume_count) {
        cf_plan_release(&plan);
        return cf_error_set(err, CF_ERROR_ENGINE, 0,
                            "the engine tells of other volumes in an image than in its child");
    }
    cf_plan_release(&sb->plan);
    sb->plan = plan;
    sb->is_planned = true;
    return 0;
}

static void
on_image(void *user, int status, const struct cf_engine_reply *reply,
         const struct cf_error *err)
{
    struct cf_sandbox *sb = user;
    struct cf_error own = {0};

    if (status < 0 && err->kind == CF_ERROR_NOT_FOUND && do_without_seed(sb))
        return;
    if (status < 0 && err->kind == CF_ERROR_NOT_FOUND) {
        cf_error_set(&own, CF_ERROR_NOT_FOUND, err->code, "image %s is not in the engine",
                     sb->options.image_id);
        cf_error_fix(&own, "pull or build it first");
        err = &own;
    }
    if (status == 0) {
        status = take_plan(sb, reply->json, &own);
        err = &own;
    }
    if (status == 0 && sb->steps.at == CF_ROW_CREATE && !sb->steps.canceled) {
        status = create_start(&sb->steps, &own); /* the seed's image went before the create */
        if (status == 0)
            return;
    }
    cf_row_settle_call(sb, status, err);
}

static int
image_start(struct cf_steps *steps, struct cf_error *err)
{
    return ask_image(cf_sandbox_of(steps), err);
}

/* ---- volumes ------------------------------------------------------------------------- */

/* An existing volume of that name answers like a new one, with its old labels. */
static void
on_volume(void *user, int status, const struct cf_engine_reply *reply,
          const struct cf_error *err)
{
    struct cf_volume_slot *slot = user;
    struct cf_sandbox *sb = slot->sandbox;
    struct cf_error own = {0};
    struct cf_labels labels;

    slot->call = NULL;
    slot->is_uncertain = is_unanswered(status, reply);
    if (status == 0 && (!cf_labels_read(cf_json_obj(reply->json, "Labels"), &labels) ||
                        strcmp(labels.sandbox, sb->name) != 0)) {
        slot->is_sent = false; /* not ours: not ours to remove */
        status = cf_error_set(&own, CF_ERROR_ENGINE, 0,
                              "the engine gave back a volume without our labels");
        err = &own;
    }
    cf_row_part(sb, status, err);
}

static int
volumes_start(struct cf_steps *steps, struct cf_error *err)
{
    struct cf_sandbox *sb = cf_sandbox_of(steps);
    struct cf_error own = {0};

    cf_row_begin(sb);
    for (size_t i = 0; i < sb->plan.volume_count; i++) {
        struct cf_volume_slot *slot = &sb->volumes[i];
        slot->sandbox = sb;
        cf_row_add(sb);
        slot->is_sent = true;
        if (cf_engine_volume_create(sb->engine, sb->plan.volumes[i].name, sb->plan.labels,
                                    on_volume, slot, &slot->call, &own) < 0) {
            slot->is_sent = false;
            cf_row_part(sb, -1, &own);
        }
    }
    cf_row_part(sb, 0, NULL);
    return 0;
}

/* ---- the container ------------------------------------------------------------------- */

static void
log_warnings(struct cf_sandbox *sb, const json_t *reply)
{
    json_t *warnings = cf_json_arr(reply, "Warnings"), *text;
    size_t i;

    json_array_foreach(warnings, i, text) {
        if (json_is_string(text))
            cf_log(sb->log, CF_LOG_WARN, "sandbox", "the engine says: %.400s",
                   json_string_value(text));
    }
}

static int
take_container(struct cf_sandbox *sb, const json_t *reply, struct cf_error *err)
{
    const char *id = cf_json_str(reply, "Id");

    if (id == NULL || strlen(id) < 12 || strlen(id) > 128 || !cf_is_hex(id, strlen(id)))
        return cf_error_set(err, CF_ERROR_ENGINE, 0,
                            "the engine created a container, but its answer has no id");
    return cf_str_copy(&sb->container_id, id, err);
}

/* The name is random and ours: what bears it, and our label, is what we asked for. */
static void
on_looked_up(void *user, int status, const struct cf_engine_reply *reply,
             const struct cf_error *err)
{
    struct cf_sandbox *sb = user;
    struct cf_error own = sb->create_error;
    struct cf_labels labels;

    if (status == 0 &&
        cf_labels_read(cf_json_obj(cf_json_obj(reply->json, "Config"), "Labels"), &labels) &&
        strcmp(labels.sandbox, sb->name) == 0) {
        sb->create_uncertain = false;
        status = take_container(sb, reply->json, &own);
    } else {
        status = -1;
    }
    cf_row_settle_call(sb, status, &own);
}

/* Its answer was lost, or the name is taken (409; Podman: 500): the first try may have been
 * more than a try, for libcurl repeats a request whose connection died. So it is looked up. */
static bool
look_up(struct cf_sandbox *sb, const struct cf_error *err)
{
    struct cf_error unused = {0};

    if (sb->steps.canceled || !(sb->create_uncertain || err->code == 409 || err->code >= 500))
        return false;
    sb->create_error = *err;
    return cf_engine_container_inspect(sb->engine, sb->name, on_looked_up, sb, &sb->call,
                                       &unused) == 0;
}

static void on_created(void *user, int status, const struct cf_engine_reply *reply, const struct cf_error *err);

/* Whether an engine can limit a layer is known when it has tried: xfs may be mounted without
 * quotas. Every such refusal is taken for this one; any other cause refuses once more. */
static bool
create_plainly(struct cf_sandbox *sb, const struct cf_error *err)
{
    struct cf_error unused = {0};

    if (sb->steps.canceled || sb->create_uncertain || sb->plan.layer_bytes == 0 || err->code < 400 || err->code == 409)
        return false;
    cf_log(sb->log, CF_LOG_DEBUG, "sandbox", "without a limit of the engine's on the layer: %s", err->text);
    cf_plan_drop_layer_limit(&sb->plan);
    return cf_engine_container_create(sb->engine, sb->name, NULL, sb->plan.spec, on_created, sb, &sb->call,
                                      &unused) == 0;
}

static void
on_created(void *user, int status, const struct cf_engine_reply *reply,
           const struct cf_error *err)
{
    struct cf_sandbox *sb = user;
    struct cf_error own = {0};

    sb->create_uncertain = is_unanswered(status, reply);
    if (status < 0 && err->kind == CF_ERROR_NOT_FOUND && do_without_seed(sb))
        return;
    if (status < 0 && (create_plainly(sb, err) || look_up(sb, err)))
        return;
    if (status == 0) {
        status = take_container(sb, reply->json, &own);
        log_warnings(sb, reply->json);
        err = &own;
    }
    cf_row_settle_call(sb, status, err);
}

static int
create_start(struct cf_steps *steps, struct cf_error *err)
{
    struct cf_sandbox *sb = cf_sandbox_of(steps);

    sb->create_sent = true;
    if (cf_engine_container_create(sb->engine, sb->name, NULL, sb->plan.spec, on_created, sb,
                                   &sb->call, err) == 0)
        return 0;
    sb->create_sent = false;
    return -1;
}

/* ---- what is in force, and what the image holds -------------------------------------- */

static void
on_inspected(void *user, int status, const struct cf_engine_reply *reply,
             const struct cf_error *err)
{
    struct cf_sandbox *sb = user;
    struct cf_error own = {0};

    sb->call = NULL;
    if (status == 0) {
        sb->inspect = json_incref(reply->json);
        status = cf_inforce_check(&sb->plan, cf_engine_facts(sb->engine), sb->inspect, &own);
        err = &own;
    }
    cf_row_part(sb, status, err);
}

static int
inspect_start(struct cf_steps *steps, struct cf_error *err)
{
    struct cf_sandbox *sb = cf_sandbox_of(steps);
    struct cf_error own = {0};

    cf_row_begin(sb);
    cf_row_add(sb);
    if (cf_engine_container_inspect(sb->engine, sb->container_id, on_inspected, sb, &sb->call,
                                    &own) < 0)
        cf_row_part(sb, -1, &own);
    if (sb->options.seed_image == NULL && cf_probe_begin(sb, &own) < 0)
        sb->row_status = -1, sb->steps.err = own;
    cf_row_part(sb, 0, NULL);
    return 0;
}

static void
inspect_abort(struct cf_steps *steps)
{
    struct cf_sandbox *sb = cf_sandbox_of(steps);

    cf_engine_call_cancel(sb->call);
    cf_probe_abort(sb);
}

/* ---- cf-init goes in ----------------------------------------------------------------- */

/* A numeric user is known before anything runs; one by name only from cf-init's hello. */
static bool
numeric_user(const char *user, unsigned *ret_uid, unsigned *ret_gid)
{
    char copy[64];
    uint64_t uid = 0, gid = 0;
    size_t len = strlen(user);

    *ret_uid = *ret_gid = 0;
    if (len == 0 || strcmp(user, "root") == 0)
        return true;
    if (len >= sizeof copy)
        return false;
    memcpy(copy, user, len + 1);
    char *colon = strchr(copy, ':');
    if (colon == NULL) /* its group stands in the image's passwd, if at all */
        return false;
    *colon = '\0';
    if (!cf_parse_u64(copy, 0, INT32_MAX, &uid) ||
        !cf_parse_u64(colon + 1, 0, INT32_MAX, &gid))
        return false;
    *ret_uid = (unsigned)uid;
    *ret_gid = (unsigned)gid;
    return true;
}

/*
 * The folder is listed before the file, or one that a hostile image brought, with a mode of
 * its own, would stay. A working directory that is not there at all comes along when its owner
 * is known already: that saves the engine a second unpacking, most of what one costs.
 */
static int
make_tar(struct cf_sandbox *sb, const char **ret_bytes, size_t *ret_len, struct cf_error *err)
{
    unsigned uid = 0, gid = 0;

    sb->tar = cf_tar_new();
    if (sb->tar == NULL)
        return cf_error_memory(err);
    if (cf_tar_dir(sb->tar, ".cf/", 0755, 0, 0, err) < 0 ||
        cf_tar_file(sb->tar, ".cf/cf-init", 0555, 0, 0, sb->options.init_program,
                    sb->options.init_program_len, err) < 0)
        return -1;
    if (numeric_user(sb->plan.user, &uid, &gid) && cf_probe_workdir_is_free(sb)) {
        if (cf_tar_dir(sb->tar, sb->plan.working_directory + 1, 0755, uid, gid, err) < 0)
            return -1;
        sb->workdir_in_tar = true;
    }
    return cf_tar_finish(sb->tar, ret_bytes, ret_len, err);
}

static void
on_put(void *user, int status, const struct cf_engine_reply *reply, const struct cf_error *err)
{
    struct cf_sandbox *sb = user;

    cf_tar_free(sb->tar);
    sb->tar = NULL;
    cf_row_settle_call(sb, status, err);
}

static int
put_start(struct cf_steps *steps, struct cf_error *err)
{
    struct cf_sandbox *sb = cf_sandbox_of(steps);
    const char *bytes;
    size_t len;

    if (sb->options.seed_image != NULL) {
        cf_steps_settle(steps, 0);
        return 0;
    }
    cf_probe_release(sb);
    if (make_tar(sb, &bytes, &len, err) == 0 &&
        cf_engine_archive_put(sb->engine, sb->container_id, "/", false, bytes, len, on_put, sb,
                              &sb->call, err) == 0)
        return 0;
    cf_tar_free(sb->tar);
    sb->tar = NULL;
    return -1;
}

/* Names are looked up in the image's own passwd at start (Podman: at attach), and engines
 * differ in how they say that one is not there. */
void
cf_explain_user(const struct cf_sandbox *sb, struct cf_error *err)
{
    unsigned uid = 0, gid = 0;

    if (numeric_user(sb->plan.user, &uid, &gid) || strcasestr(err->text, "user") == NULL)
        return;
    err->kind = CF_ERROR_IMAGE;
    cf_error_wrap(err, "the image's USER %s could not be used", sb->plan.user);
    cf_error_fix(err,
                 "add that user to the image's /etc/passwd, or use a number: USER 1000:1000");
}

/* ---- the stream and the wait, before anything runs ----------------------------------- */

static int
attach_start(struct cf_steps *steps, struct cf_error *err)
{
    return cf_stream_attach(cf_sandbox_of(steps), err);
}

static void
attach_abort(struct cf_steps *steps)
{
    cf_steps_settle(steps,
                    -1); /* its undo closes the stream, and nothing comes from it then */
}

static void
on_wait_head(void *user, int http_status)
{
    struct cf_sandbox *sb = user;

    if (sb->wait_head || http_status >= 300)
        return; /* a refusal: its body tells why, and ends the call */
    sb->wait_head = true;
    cf_steps_settle(&sb->steps, 0);
}

/*
 * The wait's answer is a hint that the container has ended. Before its head came it is the
 * row's failure; later it moves the way up, or begins a demise.
 */
static void
on_wait_done(void *user, int status, const struct cf_engine_reply *reply,
             const struct cf_error *err)
{
    struct cf_sandbox *sb = user;

    sb->wait_call = NULL;
    sb->wait_pending = false;
    if (!sb->wait_head) {
        sb->wait_head = true;
        if (status == 0)
            cf_error_set(&sb->steps.err, CF_ERROR_ENGINE, 0,
                         "the engine answered a wait before anything ran");
        else
            sb->steps.err = *err;
        cf_steps_settle(&sb->steps, -1);
        return;
    }
    if (status == 0)
        sb->exit_seen = true;
    if (sb->steps.dir == CF_STEPS_UP) {
        cf_teardown_on_exit(sb);
        return;
    }
    if (status == 0 && sb->hello_seen)
        cf_demise_begin(sb);
}

static int
wait_start(struct cf_steps *steps, struct cf_error *err)
{
    struct cf_sandbox *sb = cf_sandbox_of(steps);
    uint64_t most_ms = sb->options.whole_timeout_ms + sb->options.grace_ms + 600000;

    sb->wait_pending = true;
    if (cf_engine_container_wait(sb->engine, sb->container_id, most_ms, on_wait_head,
                                 on_wait_done, sb, &sb->wait_call, err) == 0)
        return 0;
    sb->wait_pending = false;
    return -1;
}

static void
wait_abort(struct cf_steps *steps)
{
    cf_engine_call_cancel(cf_sandbox_of(steps)->wait_call);
}

/* ---- start and hello ----------------------------------------------------------------- */

static void
on_started(void *user, int status, const struct cf_engine_reply *reply,
           const struct cf_error *err)
{
    struct cf_sandbox *sb = user;
    struct cf_error own;

    if (status < 0) {
        own = *err;
        sb->start_refused = !is_unanswered(status, reply);
        cf_explain_user(sb, &own);
        err = &own;
    }
    cf_row_settle_call(sb, status, err);
}

static int
start_start(struct cf_steps *steps, struct cf_error *err)
{
    struct cf_sandbox *sb = cf_sandbox_of(steps);

    sb->start_sent = true;
    if (cf_engine_container_start(sb->engine, sb->container_id, on_started, sb, &sb->call,
                                  err) == 0)
        return 0;
    sb->start_sent = false;
    return -1;
}

/* It comes a tenth of a millisecond after start's answer, or even before it. */
static int
hello_start(struct cf_steps *steps, struct cf_error *err)
{
    struct cf_sandbox *sb = cf_sandbox_of(steps);

    if (sb->hello_seen) {
        cf_steps_settle(steps, 0);
        return 0;
    }
    sb->hello_awaited = true;
    if (sb->stream_over)
        cf_demise_begin(sb);
    return 0;
}

static void
hello_abort(struct cf_steps *steps)
{
    struct cf_sandbox *sb = cf_sandbox_of(steps);

    if (!sb->hello_awaited)
        return;
    sb->hello_awaited = false;
    cf_steps_settle(steps, -1);
}

/* clang-format off */
#define UP_TO_PUT                                                                                     \
    [CF_ROW_VERIFY] = {"list again", NULL, cf_undo_verify, NULL, 0},                                  \
    [CF_ROW_IMAGE] = {"inspect image", image_start, NULL, abort_call, 0},                             \
    [CF_ROW_VOLUMES] = {"create volumes", volumes_start, cf_undo_volumes, cf_row_abort_patiently, 0}, \
    [CF_ROW_CREATE] = {"create container", create_start, cf_undo_create, cf_row_abort_patiently, 0},  \
    [CF_ROW_INSPECT] = {"inspect container", inspect_start, NULL, inspect_abort, 0},                  \
    [CF_ROW_PUT] = {"put cf-init", put_start, NULL, abort_call, 0}

const struct cf_step cf_provision[CF_ROWS] = {
    UP_TO_PUT,
    [CF_ROW_ATTACH] = {"attach", attach_start, cf_undo_attach, attach_abort, 0},
    [CF_ROW_WAIT] = {"wait", wait_start, cf_undo_wait, wait_abort, 0},
    [CF_ROW_START] = {"start container", start_start, cf_undo_start, cf_row_abort_patiently, 0},
    [CF_ROW_HELLO] = {"hello", hello_start, NULL, hello_abort, 0},
    [CF_ROW_PROGRAM] = {"check program", cf_content_start, NULL, cf_content_abort, 0},
    [CF_ROW_WORKDIR] = {"working directory", cf_workdir_start, NULL, cf_workdir_abort, 0},
};

const struct cf_step cf_provision_seed[CF_SEED_ROWS] = {
    UP_TO_PUT,
    [CF_ROW_PUT + 1] = {"commit", cf_seed_commit, cf_undo_commit, cf_row_abort_patiently, 0},
};
