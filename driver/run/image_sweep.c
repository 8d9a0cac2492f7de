/*
 * Removing what a build made. One pass lists every image, removes those that are ours, newest
 * first (children before parents), and another pass looks again: until a list shows none, or
 * time is over and what remains is reported with the command that removes it.
 *
 * Ours is what was not there before the build and either carries this run's label or name, or
 * was named by the build stream and has no name of its own (a base image has one), or descends
 * from such an image.
 *
 * An engine whose build was canceled still ends the step it was at, and commits it. Removing
 * its parent before that would hide it for good; so the step is waited for, within a bound:
 * until its container is gone, or, for a step without one (COPY, ADD), until its image is
 * there. Of a build whose answer was lost nothing was read at all: then whatever container bears
 * the run's label is waited for, and for some time that one appears.
 */
#include "base/clock.h"
#include "base/str.h"
#include "json/json.h"
#include "run/image_impl.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

#define PAUSE_MS 100u
#define QUIET_MS 4000u /* at most so long for a canceled build's last step */
#define RUN_LABEL "com.checkfu.runner.run"

struct cf_image_sweep {
    struct cf_image *image;
    void (*done)(struct cf_image *image);
    uint64_t until_ms, began_ms, quiet_until_ms, most_quiet_ms;
    bool is_quiet;
    json_t *containers; /* the build's own, as listed last; NULL: not listed */
    json_t *victims; /* [{"ref","id"}...] of this pass, and how far it is */
    size_t at;
    int passes;
    uv_timer_t pause;
    char why[400]; /* the last refusal */
};

static int look(struct cf_image_sweep *sweep, struct cf_error *err);
static void remove_next(struct cf_image_sweep *sweep);

/* ---- whose image is it ------------------------------------------------------------------ */

bool
cf_image_was_named(const struct cf_image *image, const char *id)
{
    const char *hex = cf_str_starts(id, "sha256:") ? id + 7 : id, *named;
    json_t *unused;

    json_object_foreach(image->made, named, unused) {
        const char *beginning = cf_str_starts(named, "sha256:") ? named + 7 : named;
        if (strncmp(hex, beginning, strlen(beginning)) == 0)
            return true;
    }
    return false;
}

/* A name that somebody gave it: not "<none>", not one of ours. */
static bool
has_strange_name(const struct cf_image *image, const json_t *names)
{
    size_t i;
    json_t *name;

    json_array_foreach((json_t *)names, i, name) {
        const char *text = json_string_value(name);
        if (text != NULL && !cf_str_starts(text, "<none>") &&
            !(image->repo[0] != '\0' && cf_str_starts(text, image->repo)))
            return true;
    }
    return false;
}

static bool
has_our_name(const struct cf_image *image, const json_t *names)
{
    size_t i;
    json_t *name;

    json_array_foreach((json_t *)names, i, name)
        if (json_is_string(name) && image->repo[0] != '\0' &&
            cf_str_starts(json_string_value(name), image->repo))
            return true;
    return false;
}

static const json_t *
find_id(const json_t *list, const char *id)
{
    size_t i;
    json_t *entry;

    json_array_foreach((json_t *)list, i, entry)
        if (cf_str_same(cf_json_str(entry, "Id"), id))
            return entry;
    return NULL;
}

static bool
is_made_here(const struct cf_image *image, const json_t *entry)
{
    const char *id = cf_json_str(entry, "Id");
    const char *run = cf_json_str(cf_json_obj(entry, "Labels"), RUN_LABEL);
    const json_t *tags = cf_json_arr(entry, "RepoTags"),
                 *digests = cf_json_arr(entry, "RepoDigests");

    if (id == NULL || json_object_get(image->before, id) != NULL)
        return false;
    if (has_strange_name(image, tags) || has_strange_name(image, digests))
        return false; /* a base image; or somebody has named our image: it is theirs now */
    return cf_str_same(run, image->run_id) || has_our_name(image, tags) ||
           has_our_name(image, digests) || cf_image_was_named(image, id);
}

bool
cf_image_is_ours(const struct cf_image *image, const json_t *entry, const json_t *list)
{
    const char *id = cf_json_str(entry, "Id");

    if (is_made_here(image, entry))
        return true;
    if (id == NULL || json_object_get(image->before, id) != NULL ||
        has_strange_name(image, cf_json_arr(entry, "RepoTags")) ||
        has_strange_name(image, cf_json_arr(entry, "RepoDigests")))
        return false;
    for (int depth = 0; depth < 128 && entry != NULL;
         depth++) { /* an engine's list is no proof against circles */
        const char *parent = cf_json_str(entry, "ParentId");
        entry = parent != NULL && parent[0] != '\0' ? find_id(list, parent) : NULL;
        if (entry != NULL && is_made_here(image, entry))
            return true;
    }
    return false;
}

/* ---- the end ---------------------------------------------------------------------------- */

static void
on_pause_closed(uv_handle_t *handle)
{
    struct cf_image_sweep *sweep = handle->data;
    struct cf_image *image = sweep->image;
    void (*done)(struct cf_image *) = sweep->done;

    json_decref(sweep->victims);
    json_decref(sweep->containers);
    free(sweep);
    image->sweep = NULL;
    done(image);
}

static void
finish(struct cf_image_sweep *sweep, bool proven)
{
    struct cf_image *image = sweep->image;
    json_t *container;
    size_t i;

    json_array_foreach(sweep->containers, i, container) {
        const char *id = cf_json_str(container, "Id");
        char command[120];
        proven = false;
        snprintf(command, sizeof command, "docker rm -f -v %.80s", id != NULL ? id : "");
        json_array_append_new(image->left,
                              json_pack("{s:s, s:s, s:s, s:s, s:s}", "kind", "container", "id",
                                        id != NULL ? id : "", "name", "", "why",
                                        "a step of the build still has it", "remove", command));
    }
    image->proven = proven;
    if (image->events.on_step != NULL)
        image->events.on_step(image->user, "remove image", cf_clock_ms() - sweep->began_ms);
    uv_close((uv_handle_t *)&sweep->pause, on_pause_closed);
}

static void
report_left(struct cf_image_sweep *sweep)
{
    size_t i;
    json_t *victim;

    json_array_foreach(sweep->victims, i, victim) {
        const char *id = cf_json_str(victim, "id");
        char command[120];
        snprintf(command, sizeof command, "docker rmi -f %s", id);
        json_array_append_new(
            sweep->image->left,
            json_pack("{s:s, s:s, s:s, s:s, s:s}", "kind", "image", "id", id, "name",
                      cf_json_str(victim, "ref"), "why",
                      sweep->why[0] != '\0' ? sweep->why : "there was no time left", "remove",
                      command));
    }
    finish(sweep, false);
}

/* The engine did not even list: nothing is known. */
static void
report_unknown(struct cf_image_sweep *sweep, const struct cf_error *err)
{
    struct cf_image *image = sweep->image;
    char command[120];

    snprintf(command, sizeof command, "docker images -aq --filter label=" RUN_LABEL "=%s",
             image->run_id);
    json_array_append_new(image->left,
                          json_pack("{s:s, s:s, s:s, s:s, s:s}", "kind", "image", "id",
                                    image->built_id[0] != '\0' ? image->built_id : "unknown",
                                    "name", image->repo, "why", err->text, "remove", command));
    finish(sweep, false);
}

/* ---- one pass --------------------------------------------------------------------------- */

static void
on_pause(uv_timer_t *timer)
{
    struct cf_image_sweep *sweep = timer->data;
    struct cf_error err = {0};

    if (look(sweep, &err) < 0)
        report_unknown(sweep, &err);
}

static void
note_removed(struct cf_image_sweep *sweep, const json_t *victim)
{
    const char *id = cf_json_str(victim, "id");
    json_t *removed = sweep->image->removed, *entry;
    size_t i;

    json_array_foreach(removed, i, entry)
        if (cf_str_same(cf_json_str(entry, "id"), id))
            return;
    json_array_append_new(removed, json_pack("{s:s, s:s, s:s}", "kind", "image", "id", id,
                                             "name", cf_json_str(victim, "ref")));
}

static void
on_removed(void *user, int status, const struct cf_engine_reply *reply,
           const struct cf_error *err)
{
    struct cf_image_sweep *sweep = user;

    sweep->image->call = NULL;
    if (status == 0)
        note_removed(sweep, json_array_get(sweep->victims, sweep->at));
    else
        snprintf(sweep->why, sizeof sweep->why, "%.*s", (int)sizeof sweep->why - 1, err->text);
    sweep->at++;
    remove_next(sweep);
}

static void
remove_next(struct cf_image_sweep *sweep)
{
    struct cf_image *image = sweep->image;
    const json_t *victim = json_array_get(sweep->victims, sweep->at);
    struct cf_error err = {0};
    struct cf_buf path = {0};

    if (victim == NULL || cf_clock_ms() >= sweep->until_ms) {
        uv_timer_start(&sweep->pause, on_pause, sweep->passes == 1 ? 0 : PAUSE_MS, 0);
        return;
    }
    (void)cf_buf_addf(&path, "/images/%s", cf_json_str(victim, "id"));
    (void)cf_engine_query(&path, "force",
                          "1"); /* an image may have our tag and our digest name at once */
    (void)cf_engine_query(&path, "noprune", "1"); /* parents that were there before stay */
    struct cf_engine_request request = {.method = "DELETE",
                                        .path = path.data,
                                        .also_ok = 404,
                                        .deadline_ms = cf_image_left_ms(sweep->until_ms)};
    int rc = path.failed ? cf_error_memory(&err)
                         : cf_engine_call(image->engine, &request, on_removed, sweep,
                                          &image->call, &err);
    cf_buf_release(&path);
    if (rc < 0)
        report_unknown(sweep, &err);
}

static bool
is_hex_id(const char *id)
{
    return id != NULL && cf_str_starts(id, "sha256:") && strlen(id) == 71 &&
           cf_is_hex(id + 7, 64);
}

/* The engine lists newest first, which is children before parents. */
static void
choose_victims(struct cf_image_sweep *sweep, const json_t *list)
{
    size_t i;
    json_t *entry;

    json_decref(sweep->victims);
    sweep->victims = json_array();
    sweep->at = 0;
    json_array_foreach((json_t *)list, i, entry) {
        const char *id = cf_json_str(entry, "Id");
        const char *tag = json_string_value(json_array_get(cf_json_arr(entry, "RepoTags"), 0));
        if (is_hex_id(id) && cf_image_is_ours(sweep->image, entry, list))
            json_array_append_new(
                sweep->victims,
                json_pack("{s:s, s:s}", "id", id, "ref",
                          tag != NULL && !cf_str_starts(tag, "<none>") ? tag : id));
    }
}

/* The image of the step that was under way when the build was canceled. */
static bool
has_open_steps_image(const struct cf_image *image, const json_t *list)
{
    size_t i;
    json_t *entry;

    json_array_foreach((json_t *)list, i, entry) {
        const char *parent = cf_json_str(entry, "ParentId");
        if (parent != NULL && cf_str_starts(parent, "sha256:") &&
            image->last_image[0] != '\0' && cf_str_starts(parent + 7, image->last_image) &&
            cf_image_is_ours(image, entry, list))
            return true;
    }
    return false;
}

static void
on_listed(void *user, int status, const struct cf_engine_reply *reply,
          const struct cf_error *err)
{
    struct cf_image_sweep *sweep = user;
    struct cf_error own = {0};

    sweep->image->call = NULL;
    if (status == 0 && !json_is_array(reply->json)) {
        status = cf_error_set(&own, CF_ERROR_ENGINE, reply->http_status,
                              "engine's list of images is not an array");
        err = &own;
    }
    if (status < 0) {
        report_unknown(sweep, err);
        return;
    }
    choose_victims(sweep, reply->json);
    if (!sweep->is_quiet && !has_open_steps_image(sweep->image, reply->json) &&
        cf_clock_ms() < sweep->quiet_until_ms) {
        uv_timer_start(&sweep->pause, on_pause, PAUSE_MS, 0);
        return;
    }
    sweep->is_quiet = true;
    sweep->passes++;
    if (json_array_size(sweep->victims) == 0)
        finish(sweep, true);
    else if (cf_clock_ms() >= sweep->until_ms)
        report_left(sweep);
    else
        remove_next(sweep);
}

static int
list(struct cf_image_sweep *sweep, struct cf_error *err)
{
    uint64_t left_ms = cf_image_left_ms(sweep->until_ms);
    struct cf_engine_request request = {.method = "GET", .path = "/images/json?all=1"};

    request.deadline_ms = left_ms < 3000 ? 3000 : left_ms; /* the last look has its own time */
    return cf_engine_call(sweep->image->engine, &request, on_listed, sweep,
                          &sweep->image->call, err);
}

/* ---- a canceled build's last step ------------------------------------------------------- */

static void
on_step_container(void *user, int status, const struct cf_engine_reply *reply,
                  const struct cf_error *err)
{
    struct cf_image_sweep *sweep = user;

    sweep->image->call = NULL;
    if (status < 0 ||
        cf_clock_ms() >= sweep->quiet_until_ms) /* gone, and with it the step is over */
        sweep->is_quiet = true;
    uv_timer_start(&sweep->pause, on_pause, status < 0 ? 0 : PAUSE_MS, 0);
}

static void
on_containers(void *user, int status, const struct cf_engine_reply *reply,
              const struct cf_error *err)
{
    struct cf_image_sweep *sweep = user;
    struct cf_error own = {0};
    uint64_t until_ms = cf_clock_ms() + QUIET_MS / 4;

    sweep->image->call = NULL;
    json_decref(sweep->containers);
    sweep->containers = status == 0 && json_is_array(reply->json) ? json_incref(reply->json) : NULL;
    /* One is there: its step goes on, and the next may follow. */
    if (json_array_size(sweep->containers) > 0 && sweep->quiet_until_ms < until_ms)
        sweep->quiet_until_ms = until_ms < sweep->most_quiet_ms ? until_ms : sweep->most_quiet_ms;
    if (list(sweep, &own) < 0)
        report_unknown(sweep, &own);
}

/* Waits for the step's container to go, then lists. */
static int
look(struct cf_image_sweep *sweep, struct cf_error *err)
{
    struct cf_image *image = sweep->image;

    if (sweep->is_quiet)
        return list(sweep, err);
    if (image->open_container[0] == '\0') {
        char label[96];
        snprintf(label, sizeof label, RUN_LABEL "=%s", image->run_id);
        return cf_engine_list(image->engine, "containers", label, on_containers, sweep,
                              &image->call, err);
    }
    return cf_engine_container_inspect(image->engine, image->open_container, on_step_container,
                                       sweep, &image->call, err);
}

/* True when the image the open step builds upon is one we made, so that its child can be told.
 */
static bool
builds_upon_ours(const struct cf_image *image)
{
    const char *id;
    json_t *unused;

    json_object_foreach(image->before, id, unused)
        if (cf_str_starts(id, "sha256:") && cf_str_starts(id + 7, image->last_image))
            return false;
    return image->last_image[0] != '\0';
}

/* How long a canceled build's last step is waited for. Between two steps the next one may have
 * begun without our having read of it; a FROM makes no image of ours. */
static uint64_t
quiet_ms(const struct cf_image *image)
{
    bool is_from = strncasecmp(image->open_step, "FROM ", 5) == 0;

    if (!image->was_cut_off || is_from)
        return 0;
    if (image->was_lost && image->last_image[0] == '\0' && image->open_step[0] == '\0')
        return QUIET_MS / 2; /* nothing was read of it */
    if (image->open_container[0] == '\0' && !builds_upon_ours(image))
        return 0;
    return image->open_step[0] != '\0' ? QUIET_MS : QUIET_MS / 4;
}

int
cf_image_sweep_start(struct cf_image *image, uint64_t until_ms,
                     void (*done)(struct cf_image *image), struct cf_error *err)
{
    struct cf_image_sweep *sweep = calloc(1, sizeof *sweep);

    if (sweep == NULL)
        return cf_error_memory(err);
    sweep->image = image;
    sweep->done = done;
    sweep->until_ms = until_ms;
    sweep->began_ms = cf_clock_ms();
    sweep->quiet_until_ms = sweep->began_ms + quiet_ms(image);
    if (sweep->quiet_until_ms > until_ms)
        sweep->quiet_until_ms = until_ms;
    sweep->most_quiet_ms = sweep->began_ms + QUIET_MS;
    if (sweep->most_quiet_ms > until_ms)
        sweep->most_quiet_ms = until_ms;
    sweep->is_quiet = quiet_ms(image) == 0;
    (void)uv_timer_init(image->loop,
                        &sweep->pause); /* only links it into the loop: cannot fail */
    sweep->pause.data = sweep;
    image->sweep = sweep;
    if (image->events.on_step != NULL)
        image->events.on_step(image->user, "remove image", UINT64_MAX);
    if (look(sweep, err) < 0)
        report_unknown(sweep, err != NULL ? err : &(struct cf_error){0});
    return 0;
}
