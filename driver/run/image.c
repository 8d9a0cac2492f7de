/*
 * The image resolver's door. Two tables, read downwards: how an image comes about; and
 * upwards: how nothing of it stays. A failure goes up by itself and is told afterwards; a
 * close goes up from wherever the story is.
 */
#include "run/image.h"
#include "base/clock.h"
#include "base/str.h"
#include "run/image_impl.h"

#include <string.h>

#define DEFAULT_DEADLINE_MS 600000u
#define UNDO_MS 30000u

/* clang-format off */
static const struct cf_step by_reference[] = {
    { "inspect image",    cf_image_inspect_start, NULL, cf_image_abort_call, 0 },
    { "find credentials", cf_image_login_start,   NULL, cf_image_login_abort, 0 },
    { "pull image",       cf_image_pull_start,    NULL, cf_image_abort_call, 0 },
    { "check image",      cf_image_check_start,   NULL, cf_image_abort_call, 0 },
};

static const struct cf_step by_build[] = {
    { "open registry",    cf_image_registry_start, cf_image_registry_end, NULL, 0 },
    { "list images",      cf_image_list_start,     NULL, cf_image_abort_call, 0 },
    { "find credentials", cf_image_bases_login_start, NULL, cf_image_login_abort, 0 },
    { "build image",      cf_image_build_start,    cf_image_build_undo, cf_image_build_abort, 0 },
    { "name base images", cf_image_bases_start,    NULL, cf_image_abort_call, 0 },
    { "credentials",      cf_image_own_auth_start, NULL, NULL, 0 },
    { "push image",       cf_image_push_start,     NULL, cf_image_abort_call, 0 },
    { "remove tag",       cf_image_untag_start,    NULL, cf_image_abort_call, 0 },
    { "pull image",       cf_image_pull_start,     NULL, cf_image_abort_call, 0 },
    { "check image",      cf_image_check_start,    NULL, cf_image_abort_call, 0 },
    { "close registry",   cf_image_registry_end,   NULL, NULL, 0 },
};
/* clang-format on */

uint64_t
cf_image_left_ms(uint64_t until_ms)
{
    uint64_t now = cf_clock_ms();
    return until_ms > now ? until_ms - now : 1;
}

void
cf_image_settle(struct cf_image *image, int status, const struct cf_error *err)
{
    image->call = NULL;
    if (status < 0 && err != NULL && image->steps.dir == CF_STEPS_DOWN)
        image->steps.err = *err;
    cf_steps_settle(&image->steps, status);
}

void
cf_image_abort_call(struct cf_steps *steps)
{
    cf_engine_call_cancel(cf_container_of(steps, struct cf_image, steps)->call);
}

/* ---- the end ---------------------------------------------------------------------------- */

static void
image_free(struct cf_image *image)
{
    if (image->auth != NULL)
        memset(image->auth, 0, strlen(image->auth));
    if (image->registry_password != NULL)
        memset(image->registry_password, 0, strlen(image->registry_password));
    if (image->bases_auth != NULL)
        memset(image->bases_auth, 0, strlen(image->bases_auth));
    free(image->auth);
    free(image->bases_auth);
    free(image->registry_user);
    free(image->registry_password);
    free(image->registry_dir);
    free(image->run_id);
    free(image->reference);
    free(image->build_context);
    free(image->dockerfile);
    free(image->architecture);
    free(image->registry_host);
    free(image->tail);
    json_decref(image->before);
    json_decref(image->made);
    json_decref(image->removed);
    json_decref(image->left);
    free(image);
}

static void
on_handle_closed(uv_handle_t *handle)
{
    struct cf_image *image = handle->data;

    if (--image->handles_open > 0)
        return;
    struct cf_teardown teardown = {.proven =
                                       image->proven && json_array_size(image->left) == 0,
                                   .removed = image->removed,
                                   .left = image->left,
                                   .took_ms = cf_clock_ms() - image->closing_since_ms};
    if (image->on_closed != NULL)
        image->on_closed(image->closed_user, &teardown);
    image_free(image);
}

static void
on_steps_timer_closed(uv_handle_t *timer)
{
    struct cf_steps *steps = timer->data;
    struct cf_image *image = cf_container_of(steps, struct cf_image, steps);

    timer->data = image;
    on_handle_closed(timer);
}

static void
close_handles(struct cf_image *image)
{
    cf_steps_close(&image->steps, on_steps_timer_closed);
    uv_close((uv_handle_t *)&image->deadline, on_handle_closed);
}

/* ---- the story -------------------------------------------------------------------------- */

static void
on_steps_done(struct cf_steps *steps)
{
    struct cf_image *image = cf_container_of(steps, struct cf_image, steps);

    uv_timer_stop(&image->deadline);
    if (image->is_closing) {
        if (steps->outcome == 0 && steps->dir == CF_STEPS_DOWN)
            cf_steps_back(steps); /* it became ready while the close was on its way */
        else
            close_handles(image);
        return;
    }
    image->told = true;
    if (steps->outcome == 0)
        image->events.on_done(image->user, 0, &image->facts, NULL, NULL);
    else
        image->events.on_done(image->user, -1, NULL, image->tail, &steps->err);
}

static void
on_row(struct cf_steps *steps, const struct cf_step *row, bool entered)
{
    struct cf_image *image = cf_container_of(steps, struct cf_image, steps);

    if (steps->dir == CF_STEPS_DOWN && image->events.on_step != NULL && !image->is_closing)
        image->events.on_step(image->user, row->name,
                              entered ? UINT64_MAX : uv_now(image->loop) - steps->entered_ms);
    if (steps->dir == CF_STEPS_UP &&
        image->close_until_ms == 0) /* undone by itself, before any close */
        image->close_until_ms = cf_clock_ms() + UNDO_MS;
}

static void
on_deadline(uv_timer_t *timer)
{
    struct cf_image *image = timer->data;
    struct cf_error err = {0};

    cf_error_set(&err, CF_ERROR_ENGINE_TIMEOUT, 0,
                 "the image was not there within %llu s (at: %s)",
                 (unsigned long long)image->deadline_ms / 1000,
                 image->steps.table[image->steps.at].name);
    cf_steps_cancel(&image->steps, &err);
}

static void
on_begin(uv_timer_t *timer)
{
    struct cf_image *image = timer->data;

    uv_timer_start(&image->deadline, on_deadline, image->deadline_ms, 0);
    cf_steps_run(&image->steps);
}

/* ---- opening ---------------------------------------------------------------------------- */

static int
check_reference(struct cf_image *image, struct cf_error *err)
{
    if (cf_image_ref_parse(image->reference, &image->ref, err) < 0)
        return -1;
    if (image->ref.digest[0] != '\0')
        return 0;
    cf_error_set(
        err, CF_ERROR_CONFIG, 0,
        "image %s is a name that can change; it has to be NAME@sha256:<64 hex digits>",
        image->reference);
    return cf_error_fix(
        err,
        "resolve it: docker buildx imagetools inspect %s:%s --format '{{.Manifest.Digest}}'  "
        "or, "
        "once pulled: docker inspect --format '{{index .RepoDigests 0}}' %s:%s",
        image->ref.repo, image->ref.tag[0] != '\0' ? image->ref.tag : "latest",
        image->ref.repo, image->ref.tag[0] != '\0' ? image->ref.tag : "latest");
}

static int
copy_options(struct cf_image *image, const struct cf_image_options *options,
             struct cf_error *err)
{
    if (cf_str_copy(&image->run_id, options->run_id, err) < 0 ||
        cf_str_copy(&image->reference, options->reference, err) < 0 ||
        cf_str_copy(&image->build_context, options->build_context, err) < 0 ||
        cf_str_copy(&image->dockerfile, options->dockerfile, err) < 0 ||
        cf_str_copy(&image->architecture, options->architecture, err) < 0 ||
        cf_str_copy(&image->registry_host, options->registry_host, err) < 0)
        return -1;
    image->pull = options->pull;
    image->all_interfaces = options->registry_all_interfaces;
    image->label_deadline_unix = options->deadline_unix;
    image->deadline_ms = options->deadline_ms > 0 ? options->deadline_ms : DEFAULT_DEADLINE_MS;
    image->until_ms = cf_clock_ms() + image->deadline_ms;
    image->made = json_object();
    image->removed = json_array();
    image->left = json_array();
    if (image->made == NULL || image->removed == NULL || image->left == NULL)
        return cf_error_memory(err);
    if ((image->reference == NULL) == (image->build_context == NULL))
        return cf_error_set(err, CF_ERROR_CONFIG, 0,
                            "an image reference or a build context is needed, and not both");
    return image->reference != NULL ? check_reference(image, err) : 0;
}

int
cf_image_open(uv_loop_t *loop, const struct cf_image_options *options,
              const struct cf_image_events *events, void *user, struct cf_image **ret_image,
              struct cf_error *err)
{
    struct cf_image *image = calloc(1, sizeof *image);

    if (image == NULL)
        return cf_error_memory(err);
    image->loop = loop;
    image->engine = options->engine;
    image->owner = options->owner;
    image->log = options->log;
    image->events = *events;
    image->user = user;
    image->proven = true; /* nothing was made yet */
    bool builds = options->build_context != NULL;
    const struct cf_step *table = builds ? by_build : by_reference;
    int count = builds ? (int)CF_COUNT(by_build) : (int)CF_COUNT(by_reference);
    if (copy_options(image, options, err) < 0 ||
        cf_steps_init(&image->steps, loop, table, count, image->log, err) < 0) {
        image_free(image);
        return -1;
    }
    image->steps.on_done = on_steps_done;
    image->steps.on_row = on_row;
    (void)uv_timer_init(loop, &image->deadline); /* only links it into the loop: cannot fail */
    image->deadline.data = image;
    image->handles_open = 2;
    uv_timer_start(&image->deadline, on_begin, 0, 0); /* nothing is called from inside open */
    *ret_image = image;
    return 0;
}

void
cf_image_close(struct cf_image *image, uint64_t deadline_ms,
               void (*on_closed)(void *user, const struct cf_teardown *teardown), void *user)
{
    bool begun = image->steps.running || image->told;

    image->is_closing = true;
    image->on_closed = on_closed;
    image->closed_user = user;
    image->closing_since_ms = cf_clock_ms();
    image->close_until_ms =
        image->closing_since_ms + (deadline_ms > 0 ? deadline_ms : UNDO_MS);
    uv_timer_stop(&image->deadline);
    if (!begun || (image->told && image->steps.outcome < 0))
        close_handles(image); /* nothing was begun, or all of it is undone already */
    else
        cf_steps_back(&image->steps); /* from the top, or a cancel where it is */
}
