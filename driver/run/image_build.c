/*
 * From a build context to an image with a digest: a registry of our own on loopback, a build
 * with the legacy builder, a push, and then the local name is removed, so that what runs was
 * really pulled by its digest like any other image.
 *
 * The build uses no cache: each image it makes is then new and nobody else's, and can be
 * removed by id without taking anything from a build that somebody else runs at the same time.
 */
#include "base/clock.h"
#include "base/ids.h"
#include "base/str.h"
#include "json/json.h"
#include "run/image_impl.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static struct cf_image *
image_of(struct cf_steps *steps)
{
    return cf_container_of(steps, struct cf_image, steps);
}

static void
tell_progress(struct cf_image *image, const char *what, json_t *object)
{
    if (image->events.on_progress != NULL && !image->is_closing)
        image->events.on_progress(image->user, what, object);
}

/* ---- the registry ----------------------------------------------------------------------- */

static int
make_secrets(struct cf_image *image, struct cf_error *err)
{
    char hex[33];

    if (cf_str_copy(&image->registry_user, "cfrunner", err) < 0)
        return -1;
    cf_id_hex(hex);
    return cf_str_copy(&image->registry_password, hex, err);
}

static int
make_directory(struct cf_image *image, struct cf_error *err)
{
    if (asprintf(&image->registry_dir, "%s/registry-%s", cf_owner_state_dir(image->owner),
                 image->run_id) < 0) {
        image->registry_dir = NULL;
        return cf_error_memory(err);
    }
    if (mkdir(image->registry_dir, 0700) == 0)
        return 0;
    int code = errno;
    cf_error_set(err, CF_ERROR_CONFIG, code, "folder %s: %s", image->registry_dir,
                 strerror(code));
    free(image->registry_dir); /* not made by us, so not removed by us */
    image->registry_dir = NULL;
    return -1;
}

/* The host by which the engine shall reach the registry. */
static int
choose_host(const struct cf_image *image, const char **ret_host, struct cf_error *err)
{
    const char *local = cf_engine_facts(image->engine)->local_address;

    *ret_host = "127.0.0.1";
    if (!image->all_interfaces)
        return 0;
    if (image->registry_host != NULL)
        *ret_host = image->registry_host;
    else if (local[0] != '\0')
        *ret_host = local;
    if (strchr(*ret_host, ':') != NULL || strchr(*ret_host, '/') != NULL ||
        (*ret_host)[0] == '\0') {
        cf_error_set(err, CF_ERROR_CONFIG, 0,
                     "\"%s\" cannot be the registry's host in an image name", *ret_host);
        return cf_error_fix(err, "name this machine for the engine with --registry-host: a "
                                 "host name or an IPv4 address");
    }
    return 0;
}

static void
warn_exposure(const struct cf_image *image, const char *host)
{
    char text[400];

    if (!image->all_interfaces || image->events.on_warning == NULL)
        return;
    snprintf(text, sizeof text,
             "the registry for the built image listens on all interfaces, port %u, until the "
             "image is "
             "pulled: whoever reaches this machine can try it (it asks for one-time "
             "credentials); the engine is told %s:%u",
             cf_registry_port(image->registry), host, cf_registry_port(image->registry));
    image->events.on_warning(image->user, text);
}

int
cf_image_registry_start(struct cf_steps *steps, struct cf_error *err)
{
    struct cf_image *image = image_of(steps);
    struct cf_registry_options options = {.all_interfaces = image->all_interfaces,
                                          .log = image->log};
    const char *host;

    if (choose_host(image, &host, err) < 0 || make_secrets(image, err) < 0 ||
        make_directory(image, err) < 0)
        return -1;
    options.directory = image->registry_dir;
    options.user = image->registry_user;
    options.password = image->registry_password;
    if (cf_registry_open(image->loop, &options, &image->registry, err) < 0)
        return -1;
    snprintf(image->name, sizeof image->name, "cfrunner-%.32s",
             cf_str_starts(image->run_id, "run_") ? image->run_id + 4 : image->run_id);
    if (snprintf(image->repo, sizeof image->repo, "%s:%u/%s", host,
                 cf_registry_port(image->registry), image->name) >= (int)sizeof image->repo)
        return cf_error_set(err, CF_ERROR_CONFIG, 0,
                            "the registry's host name \"%.40s...\" is too long", host);
    warn_exposure(image, host);
    cf_steps_settle(steps, 0);
    return 0;
}

static void
remove_directory(struct cf_image *image)
{
    if (image->registry_dir == NULL)
        return;
    if (rmdir(image->registry_dir) < 0)
        cf_log(image->log, CF_LOG_WARN, "image", "folder %s: %s", image->registry_dir,
               strerror(errno));
    free(image->registry_dir);
    image->registry_dir = NULL;
}

static void
on_registry_closed(void *user)
{
    struct cf_image *image = user;
    char where[160];

    image->registry = NULL;
    remove_directory(image);
    snprintf(where, sizeof where, "%.*s", (int)strcspn(image->repo, "/"), image->repo);
    json_array_append_new(image->removed, json_pack("{s:s, s:s, s:s}", "kind", "registry",
                                                    "id", where, "name", where));
    cf_image_settle(image, 0, NULL);
}

int
cf_image_registry_end(struct cf_steps *steps, struct cf_error *err)
{
    struct cf_image *image = image_of(steps);

    if (image->registry == NULL) {
        remove_directory(image);
        cf_steps_settle(steps, 0);
        return 0;
    }
    struct cf_registry *registry = image->registry;
    cf_registry_close(registry, on_registry_closed, image);
    return 0;
}

/* ---- what is there before --------------------------------------------------------------- */

static void
on_listed(void *user, int status, const struct cf_engine_reply *reply,
          const struct cf_error *err)
{
    struct cf_image *image = user;
    struct cf_error own = {0};
    size_t i;
    json_t *entry;

    if (status == 0 && !json_is_array(reply->json)) {
        status = cf_error_set(&own, CF_ERROR_ENGINE, reply->http_status,
                              "engine's list of images is not an array");
        err = &own;
    }
    if (status == 0) {
        image->before = json_object();
        json_array_foreach(reply->json, i, entry)
            if (cf_json_str(entry, "Id") != NULL)
                json_object_set_new(image->before, cf_json_str(entry, "Id"), json_true());
    }
    cf_image_settle(image, status, status < 0 ? err : NULL);
}

int
cf_image_list_start(struct cf_steps *steps, struct cf_error *err)
{
    struct cf_image *image = image_of(steps);
    return cf_engine_image_list_all(image->engine, on_listed, image, &image->call, err);
}

/* ---- credentials for base images -------------------------------------------------------- */

static void
on_bases_credentials(void *user, int status, const char *registry_config,
                     const struct cf_error *err)
{
    struct cf_image *image = cf_image_lookup_end(user);
    struct cf_error own = {0};

    if (image == NULL)
        return;
    if (status == 0) {
        status = cf_str_copy(&image->bases_auth, registry_config, &own);
        err = &own;
    }
    cf_image_settle(image, status, status < 0 ? err : NULL);
}

int
cf_image_bases_login_start(struct cf_steps *steps, struct cf_error *err)
{
    struct cf_image *image = image_of(steps);
    struct image_lookup *lookup = cf_image_lookup_begin(image);

    if (lookup == NULL)
        return cf_error_memory(err);
    int rc = cf_engine_auth_bases(image->engine, image->build_context, image->dockerfile,
                                  on_bases_credentials, lookup, err);
    if (rc == 0)
        return 0;
    (void)cf_image_lookup_end(lookup); /* nobody will call */
    if (rc < 0)
        return -1;
    cf_steps_settle(steps, 0);
    return 0;
}

/* ---- build ------------------------------------------------------------------------------ */

static void
on_built(void *user, int status, const struct cf_build_result *result,
         const struct cf_error *err)
{
    struct cf_image *image = user;

    image->build = NULL;
    for (size_t i = 0; i < result->step_count; i++)
        json_object_set_new(image->made, result->steps[i], json_true());
    snprintf(image->open_step, sizeof image->open_step, "%.15s", result->open_step);
    snprintf(image->open_container, sizeof image->open_container, "%s",
             result->open_container);
    snprintf(image->last_image, sizeof image->last_image, "%s", result->last_image);
    image->was_cut_off =
        status < 0 && err->kind != CF_ERROR_CONFIG; /* canceled, or the stream was lost */
    image->was_lost = image->was_cut_off && err->code == 0; /* the engine refused nothing */
    if (result->image_id != NULL)
        snprintf(image->built_id, sizeof image->built_id, "%s", result->image_id);
    if (cf_str_copy(&image->tail, result->tail, NULL) < 0)
        image->tail = NULL; /* without its last lines the error still stands */
    cf_image_settle(image, status, err);
}

static void
on_build_progress(void *user, json_t *object)
{
    tell_progress(user, "build", object);
}

int
cf_image_build_start(struct cf_steps *steps, struct cf_error *err)
{
    struct cf_image *image = image_of(steps);
    char tag[160], platform[48];
    struct cf_build_options options = {.context_dir = image->build_context,
                                       .dockerfile = image->dockerfile,
                                       .tag = tag,
                                       .no_cache = true,
                                       .deadline_ms = cf_image_left_ms(image->until_ms),
                                       .on_object = on_build_progress};

    snprintf(tag, sizeof tag, "%s:run", image->repo);
    if (image->architecture != NULL &&
        strcmp(image->architecture, cf_engine_facts(image->engine)->arch) != 0) {
        snprintf(platform, sizeof platform, "linux/%s", image->architecture);
        options.platform = platform;
    }
    options.labels =
        cf_owner_labels(image->owner, image->run_id, "image", image->label_deadline_unix);
    if (options.labels == NULL)
        return cf_error_memory(err);
    options.registry_config = image->bases_auth;
    image->build_begun = true;
    image->proven = false; /* until the sweep has looked */
    int rc = cf_build_open(image->engine, &options, on_built, image, &image->build, err);
    json_decref(options.labels);
    return rc;
}

void
cf_image_build_abort(struct cf_steps *steps)
{
    cf_build_cancel(image_of(steps)->build);
}

static void
on_swept(struct cf_image *image)
{
    cf_image_settle(image, 0, NULL);
}

int
cf_image_build_undo(struct cf_steps *steps, struct cf_error *err)
{
    struct cf_image *image = image_of(steps);

    if (!image->build_begun) {
        cf_steps_settle(steps, 0);
        return 0;
    }
    return cf_image_sweep_start(image, image->close_until_ms, on_swept, err);
}

/* ---- base images ------------------------------------------------------------------------ */

static void
name_base(struct cf_image *image, const json_t *entry)
{
    const char *name = json_string_value(json_array_get(cf_json_arr(entry, "RepoTags"), 0));
    char text[400];

    if (name == NULL)
        name = json_string_value(json_array_get(cf_json_arr(entry, "RepoDigests"), 0));
    if (name == NULL || image->events.on_warning == NULL)
        return;
    snprintf(text, sizeof text, "the build pulled the base image %s; it stays in the engine",
             name);
    image->events.on_warning(image->user, text);
}

static void
on_bases_listed(void *user, int status, const struct cf_engine_reply *reply,
                const struct cf_error *err)
{
    struct cf_image *image = user;
    size_t i;
    json_t *entry;

    if (status == 0)
        json_array_foreach(reply->json, i, entry) {
            const char *id = cf_json_str(entry, "Id");
            if (id != NULL && json_object_get(image->before, id) == NULL &&
                cf_image_was_named(image, id) && !cf_image_is_ours(image, entry, reply->json))
                name_base(image, entry);
        }
    cf_image_settle(image, status, err);
}

int
cf_image_bases_start(struct cf_steps *steps, struct cf_error *err)
{
    struct cf_image *image = image_of(steps);
    return cf_engine_image_list_all(image->engine, on_bases_listed, image, &image->call, err);
}

/* ---- push ------------------------------------------------------------------------------- */

int
cf_image_own_auth_start(struct cf_steps *steps, struct cf_error *err)
{
    struct cf_image *image = image_of(steps);
    char host[128];

    snprintf(host, sizeof host, "%.*s", (int)strcspn(image->repo, "/"), image->repo);
    image->auth = cf_engine_auth_basic(image->registry_user, image->registry_password, host);
    if (image->auth == NULL)
        return cf_error_memory(err);
    cf_steps_settle(steps, 0);
    return 0;
}

static void
on_push_progress(void *user, json_t *object)
{
    struct cf_image *image = user;
    const char *digest = cf_json_str(cf_json_obj(object, "aux"), "Digest");

    if (digest != NULL && strlen(digest) == 71 && cf_str_starts(digest, "sha256:") &&
        cf_is_hex(digest + 7, 64))
        snprintf(image->pushed_digest, sizeof image->pushed_digest, "%s", digest);
    tell_progress(image, "push", object);
}

static void
explain_push(const struct cf_image *image, struct cf_error *err)
{
    bool unreached =
        err->kind == CF_ERROR_ENGINE && cf_registry_requests(image->registry) == 0;

    cf_error_wrap(err, "push of the built image to cfrunner's own registry %.*s",
                  (int)strcspn(image->repo, "/"), image->repo);
    if (strstr(err->text, "507 Insufficient Storage") != NULL) { /* our registry's own word */
        err->kind = CF_ERROR_INTERNAL;
        cf_error_fix(err, "make room on the disk of the state folder (--state-dir): a built image passes through it");
        return;
    }
    if (unreached && !image->all_interfaces)
        cf_error_fix(
            err,
            "the engine does not reach this machine's loopback: use "
            "--allow-registry-all-interfaces (and "
            "--registry-host), and put the address into the engine's insecure-registries");
    else if (unreached)
        cf_error_fix(err,
                     "the engine has to reach %.*s, and needs it in its insecure-registries "
                     "(daemon.json); "
                     "--registry-host names another address",
                     (int)strcspn(image->repo, "/"), image->repo);
}

/* Two witnesses: what the engine says it pushed, and what arrived here. */
static int
check_digest(struct cf_image *image, struct cf_error *err)
{
    const char *arrived = cf_registry_digest(image->registry, image->name, "run");

    if (image->pushed_digest[0] == '\0' &&
        arrived != NULL) /* an engine that sends no aux object */
        snprintf(image->pushed_digest, sizeof image->pushed_digest, "%s", arrived);
    if (arrived == NULL)
        return cf_error_set(err, CF_ERROR_ENGINE, 0,
                            "engine says it pushed the built image, but none arrived");
    if (strcmp(arrived, image->pushed_digest) != 0)
        return cf_error_set(err, CF_ERROR_ENGINE, 0,
                            "engine says it pushed %s, but %s arrived", image->pushed_digest,
                            arrived);
    snprintf(image->ref.domain, sizeof image->ref.domain, "%.*s",
             (int)strcspn(image->repo, "/"), image->repo);
    snprintf(image->ref.repo, sizeof image->ref.repo, "%s", image->repo);
    snprintf(image->ref.digest, sizeof image->ref.digest, "%s", arrived);
    image->needs_pull = true;
    image->facts.was_built = true;
    if (asprintf(&image->reference, "%s@%s", image->repo, arrived) < 0) {
        image->reference = NULL;
        return cf_error_memory(err);
    }
    return 0;
}

static void
on_pushed(void *user, int status, const struct cf_engine_reply *reply,
          const struct cf_error *err)
{
    struct cf_image *image = user;
    struct cf_error own = {0};

    if (status < 0) {
        own = *err;
        explain_push(image, &own);
    } else {
        status = check_digest(image, &own);
    }
    cf_image_settle(image, status, &own);
}

int
cf_image_push_start(struct cf_steps *steps, struct cf_error *err)
{
    struct cf_image *image = image_of(steps);
    return cf_engine_image_push(image->engine, image->repo, "run", image->auth,
                                cf_image_left_ms(image->until_ms), on_push_progress, on_pushed,
                                image, &image->call, err);
}

/* ---- the local name goes ---------------------------------------------------------------- */

static void
on_untagged(void *user, int status, const struct cf_engine_reply *reply,
            const struct cf_error *err)
{
    cf_image_settle(user, status, err);
}

int
cf_image_untag_start(struct cf_steps *steps, struct cf_error *err)
{
    struct cf_image *image = image_of(steps);
    char tag[160];

    snprintf(tag, sizeof tag, "%s:run", image->repo);
    return cf_engine_image_remove(image->engine, tag, false, true, on_untagged, image,
                                  &image->call, err);
}
