/*
 * From a reference to an image Id: look, log in, pull, look again. Whatever a pull's stream
 * says, only what the engine then shows under the reference counts.
 */
#include "base/clock.h"
#include "base/str.h"
#include "json/json.h"
#include "run/image_impl.h"

#include <stdio.h>
#include <string.h>

static struct cf_image *
image_of(struct cf_steps *steps)
{
    return cf_container_of(steps, struct cf_image, steps);
}

/* "repo@sha256:..." of what is wanted. */
static void
full_reference(const struct cf_image *image, char *out, size_t size)
{
    snprintf(out, size, "%s@%s", image->ref.repo, image->ref.digest);
}

/* ---- inspect ---------------------------------------------------------------------------- */

static void
on_inspected(void *user, int status, const struct cf_engine_reply *reply,
             const struct cf_error *err)
{
    struct cf_image *image = user;
    struct cf_error own = {0};

    if (status == 0) {
        image->needs_pull = image->pull == CF_PULL_ALWAYS;
    } else if (err->kind == CF_ERROR_NOT_FOUND) {
        image->needs_pull = true;
        status = 0;
        if (image->pull == CF_PULL_NEVER) {
            status = cf_error_set(&own, CF_ERROR_NOT_FOUND, 404,
                                  "image %s is not in the engine, and --pull=never forbids "
                                  "pulling it",
                                  image->reference);
            cf_error_fix(&own, "docker pull %s", image->reference);
            err = &own;
        }
    }
    cf_image_settle(image, status, status < 0 ? err : NULL);
}

int
cf_image_inspect_start(struct cf_steps *steps, struct cf_error *err)
{
    struct cf_image *image = image_of(steps);
    char name[700];

    full_reference(image, name, sizeof name);
    return cf_engine_image_inspect(image->engine, name, on_inspected, image, &image->call,
                                   err);
}

/* ---- credentials ------------------------------------------------------------------------ */

struct image_lookup {
    struct cf_image *image; /* NULL once nobody waits */
};

struct image_lookup *
cf_image_lookup_begin(struct cf_image *image)
{
    struct image_lookup *lookup = calloc(1, sizeof *lookup);

    if (lookup != NULL)
        lookup->image = image;
    image->lookup = lookup;
    return lookup;
}

struct cf_image *
cf_image_lookup_end(struct image_lookup *lookup)
{
    struct cf_image *image = lookup->image;

    if (image != NULL)
        image->lookup = NULL;
    free(lookup);
    return image;
}

static void
on_credentials(void *user, int status, const char *registry_auth, const struct cf_error *err)
{
    struct cf_image *image = cf_image_lookup_end(user);
    struct cf_error own = {0};

    if (image == NULL)
        return;
    if (status == 0) {
        status = cf_str_copy(&image->auth, registry_auth, &own);
        err = &own;
    }
    cf_image_settle(image, status, status < 0 ? err : NULL);
}

int
cf_image_login_start(struct cf_steps *steps, struct cf_error *err)
{
    struct cf_image *image = image_of(steps);

    if (!image->needs_pull) {
        cf_steps_settle(steps, 0);
        return 0;
    }
    struct image_lookup *lookup = cf_image_lookup_begin(image);
    if (lookup == NULL)
        return cf_error_memory(err);
    if (cf_engine_auth_find(image->engine, image->ref.domain, on_credentials, lookup, err) <
        0) {
        (void)cf_image_lookup_end(lookup); /* nobody will call */
        return -1;
    }
    return 0;
}

void
cf_image_login_abort(struct cf_steps *steps)
{
    struct cf_image *image = image_of(steps);

    if (image->lookup == NULL)
        return;
    image->lookup->image = NULL;
    image->lookup = NULL;
    cf_steps_settle(steps, -1);
}

/* ---- pull ------------------------------------------------------------------------------- */

static bool
has_word(const char *text, const char *const *words)
{
    for (; *words != NULL; words++)
        if (strcasestr(text, *words) != NULL)
            return true;
    return false;
}

/* The registry's refusals come as text only, and in two places. */
static void
explain_pull(const struct cf_image *image, struct cf_error *err)
{
    static const char *const unknown[] = {"manifest unknown", "not found", "manifest for",
                                          NULL};
    static const char *const refused[] = {"unauthorized", "denied", "no basic auth",
                                          "authentication required", NULL};
    bool answered = err->kind == CF_ERROR_ENGINE || err->kind == CF_ERROR_NOT_FOUND;

    if (!answered)
        return;
    if (has_word(err->text, refused)) {
        cf_error_wrap(err, "pull of %s was refused", image->reference);
        cf_error_fix(err,
                     "log in to its registry with `docker login %s`, and check that the "
                     "repository exists",
                     image->ref.domain);
    } else if (err->kind == CF_ERROR_NOT_FOUND || has_word(err->text, unknown)) {
        err->kind = CF_ERROR_NOT_FOUND;
        cf_error_wrap(err, "no image %s", image->reference);
        cf_error_fix(
            err,
            "check name and digest: `docker buildx imagetools inspect %s` lists what is there",
            image->ref.repo);
    } else {
        cf_error_wrap(err, "pull of %s", image->reference);
    }
}

static void
on_pulled(void *user, int status, const struct cf_engine_reply *reply,
          const struct cf_error *err)
{
    struct cf_image *image = user;
    struct cf_error own = {0};

    if (status < 0) {
        own = *err;
        explain_pull(image, &own);
    } else {
        image->facts.was_pulled = image->build_context == NULL;
    }
    cf_image_settle(image, status, &own);
}

static void
on_pull_progress(void *user, json_t *object)
{
    struct cf_image *image = user;

    if (image->events.on_progress != NULL && !image->is_closing)
        image->events.on_progress(image->user, "pull", object);
}

int
cf_image_pull_start(struct cf_steps *steps, struct cf_error *err)
{
    struct cf_image *image = image_of(steps);
    char platform[48] = "";

    if (!image->needs_pull) {
        cf_steps_settle(steps, 0);
        return 0;
    }
    if (image->architecture != NULL)
        snprintf(platform, sizeof platform, "linux/%s", image->architecture);
    return cf_engine_image_pull(image->engine, image->ref.repo, image->ref.digest,
                                platform[0] != '\0' ? platform : NULL, image->auth,
                                cf_image_left_ms(image->until_ms), on_pull_progress, on_pulled,
                                image, &image->call, err);
}

/* ---- check ------------------------------------------------------------------------------ */

static int
check_platform(const struct cf_image *image, struct cf_error *err)
{
    const char *wanted = image->architecture != NULL ? image->architecture
                                                     : cf_engine_facts(image->engine)->arch;

    if (strcmp(image->os, "linux") != 0)
        return cf_error_set(
            err, CF_ERROR_IMAGE, 0, "image %s is for %s; it has to be for linux",
            image->image_reference, image->os[0] != '\0' ? image->os : "no named system");
    if (wanted[0] != '\0' && strcmp(image->arch, wanted) != 0) {
        cf_error_set(err, CF_ERROR_IMAGE, 0, "image %s is for %s; %s is wanted",
                     image->image_reference, image->arch, wanted);
        return cf_error_fix(err,
                            "build it with `docker build --platform linux/%s`, or name the "
                            "digest of that platform",
                            wanted);
    }
    return 0;
}

static bool
has_digest(const struct cf_image *image, const json_t *json)
{
    size_t i;
    json_t *entry;

    json_array_foreach(cf_json_arr(json, "RepoDigests"), i, entry)
        if (json_is_string(entry) && cf_str_ends(json_string_value(entry), image->ref.digest))
            return true;
    return false;
}

static int
take_image(struct cf_image *image, const json_t *json, struct cf_error *err)
{
    const char *id = cf_json_str(json, "Id"), *os = cf_json_str(json, "Os"),
               *arch = cf_json_str(json, "Architecture");

    if (id == NULL || strlen(id) != 71 || !cf_str_starts(id, "sha256:") ||
        !cf_is_hex(id + 7, 64))
        return cf_error_set(err, CF_ERROR_ENGINE, 0, "engine shows image %s without an Id",
                            image->image_reference);
    if (!has_digest(image, json) && strcmp(id, image->ref.digest) != 0)
        return cf_error_set(err, CF_ERROR_ENGINE, 0,
                            "engine shows another digest than %s for image %s",
                            image->ref.digest, image->image_reference);
    snprintf(image->id, sizeof image->id, "%s", id);
    snprintf(image->os, sizeof image->os, "%s", os != NULL ? os : "");
    snprintf(image->arch, sizeof image->arch, "%s", arch != NULL ? arch : "");
    image->facts.id = image->id;
    image->facts.reference = image->image_reference;
    image->facts.digest = image->ref.digest;
    image->facts.architecture = image->arch;
    image->facts.os = image->os;
    return check_platform(image, err);
}

static void
on_checked(void *user, int status, const struct cf_engine_reply *reply,
           const struct cf_error *err)
{
    struct cf_image *image = user;
    struct cf_error own = {0};

    if (status < 0) {
        own = *err;
        cf_error_wrap(&own, "image %s after it was pulled", image->image_reference);
    } else {
        status = take_image(image, reply->json, &own);
    }
    cf_image_settle(image, status, &own);
}

int
cf_image_check_start(struct cf_steps *steps, struct cf_error *err)
{
    struct cf_image *image = image_of(steps);

    full_reference(image, image->image_reference, sizeof image->image_reference);
    return cf_engine_image_inspect(image->engine, image->image_reference, on_checked, image,
                                   &image->call, err);
}
