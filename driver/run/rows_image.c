/* The row of the image: resolved, pulled or built; what it made is taken away again. */
#include "run/rows.h"

#include "base/clock.h"
#include "base/str.h"
#include "json/json.h"

static void
image_step(void *user, const char *name, uint64_t took_ms)
{
    cf_hall_phase(user, "image", name, took_ms);
}

static void
image_progress(void *user, const char *what, json_t *object)
{
    struct cf_run *run = user;
    cf_auto_free char *text = NULL;
    size_t len = 0;

    if (run->host.on_progress != NULL && (text = cf_json_dump(object, &len)) != NULL)
        run->host.on_progress(run->host.user, what, text, len);
}

static void
image_warning(void *user, const char *text)
{
    cf_emit_finding(user, "exposure", 0, text);
}

static void
image_done(void *user, int status, const struct cf_image_facts *facts, const char *tail, const struct cf_error *err)
{
    struct cf_run *run = user;

    if (run->image_given_up)
        return;
    run->image_pending = false;
    run->image_facts = status == 0 ? facts : NULL;
    if (status < 0) {
        run->steps.err = *err;
        if (cf_str_copy(&run->failure_tail, tail, NULL) < 0)
            run->failure_tail = NULL; /* the error itself still stands */
    }
    cf_steps_settle(&run->steps, status);
}

static int64_t
deadline_unix(const struct cf_run_options *options)
{
    return cf_clock_unix() + (int64_t)((options->whole_ms + options->pool_ttl_ms * options->has_pool + options->grace_ms) / 1000) + 600;
}

void
cf_rows_image_options(const struct cf_release *release, const struct cf_run_options *options,
                      struct cf_image_options *ret_options)
{
    *ret_options = (struct cf_image_options){
        .reference = options->build_context == NULL ? release->image : NULL,
        .build_context = options->build_context,
        .dockerfile = options->dockerfile,
        .architecture = release->architecture,
        .pull = (enum cf_pull_policy)options->pull,
        .registry_all_interfaces = options->registry_all_interfaces,
        .registry_host = options->registry_host,
        .deadline_unix = deadline_unix(options),
    };
}

int
cf_rows_image_start(struct cf_steps *steps, struct cf_error *err)
{
    static const struct cf_image_events events = {.on_step = image_step,
                                                  .on_progress = image_progress,
                                                  .on_warning = image_warning,
                                                  .on_done = image_done};
    struct cf_run *run = cf_run_of(steps);
    struct cf_image_options options;

    if (run->pool != NULL) {
        run->image_facts = run->pool->image_facts;
        cf_steps_settle(steps, 0);
        return 0;
    }
    cf_rows_image_options(&run->release, &run->options, &options);
    options.engine = run->engine;
    options.owner = run->owner;
    options.run_id = run->id;
    options.deadline_ms = cf_hall_left_ms(run);
    options.log = &run->log;
    run->image_pending = true;
    return cf_image_open(run->loop, &options, &events, run, &run->image, err);
}

void
cf_rows_image_abort(struct cf_steps *steps)
{
    struct cf_run *run = cf_run_of(steps);

    if (!run->image_pending || run->image_given_up)
        return;
    run->image_given_up = true;
    cf_steps_settle(steps, -1);
}

void
cf_rows_take_teardown(struct cf_run *run, const struct cf_teardown *teardown)
{
    if (!teardown->proven)
        run->teardown_proven = false;
    (void)json_array_extend(run->removed, teardown->removed);
    (void)json_array_extend(run->left, teardown->left);
    if (teardown->host != NULL)
        run->teardown_host = teardown->host;
}

static void
on_image_closed(void *user, const struct cf_teardown *teardown)
{
    struct cf_run *run = user;

    run->image = NULL;
    cf_rows_take_teardown(run, teardown);
    cf_steps_settle(&run->steps, 0);
}

static void
keep_image_facts(struct cf_run *run)
{
    const struct cf_image_facts *f = run->image_facts;

    if (f != NULL)
        run->image_json = json_pack("{s:s?, s:s?, s:s?, s:s, s:s?, s:b}", "reference", f->reference, "digest", f->digest,
                                    "id", f->id, "source", f->was_built ? "build_context" : "image", "architecture",
                                    f->architecture, "pulled", f->was_pulled);
    run->image_facts = NULL;
}

int
cf_rows_image_undo(struct cf_steps *steps, struct cf_error *err)
{
    struct cf_run *run = cf_run_of(steps);

    keep_image_facts(run);
    if (run->image == NULL)
        cf_steps_settle(steps, 0);
    else
        cf_image_close(run->image, run->options.grace_ms + 20000, on_image_closed, run);
    return 0;
}
