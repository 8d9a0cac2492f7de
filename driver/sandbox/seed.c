/*
 * A seed: a container into which cf-init was put and which was never started, committed to an
 * image of ours. To put cf-init into a container the engine starts itself anew, a good part of
 * what a sandbox costs; from a seed's image sandboxes are made without that. The image bears the
 * seed's labels, so the seed's own last listing, and reap, see it too.
 */
#include "sandbox/inside.h"

#include "base/str.h"
#include "json/json.h"

#include <string.h>

enum { REMOVE_PATIENCE_MS = 4000, ID_HEX = 64 };

static int
take_image(struct cf_sandbox *sb, const json_t *reply, struct cf_error *err)
{
    static const char prefix[] = "sha256:";
    const char *id = cf_json_str(reply, "Id");
    size_t skip = sizeof prefix - 1;

    if (id == NULL || strncmp(id, prefix, skip) != 0 || strlen(id) != skip + ID_HEX ||
        !cf_is_hex(id + skip, ID_HEX))
        return cf_error_set(err, CF_ERROR_ENGINE, 0,
                            "the engine committed an image, but its answer has no id");
    return cf_str_copy(&sb->seed_image, id, err);
}

static void
on_committed(void *user, int status, const struct cf_engine_reply *reply,
             const struct cf_error *err)
{
    struct cf_sandbox *sb = user;
    struct cf_error own = {0};

    sb->commit_uncertain = status < 0 && reply == NULL;
    if (status == 0) {
        status = take_image(sb, reply->json, &own);
        err = &own;
    }
    cf_row_settle_call(sb, status, err);
}

/* A commit leaves volumes out, and so what was put into one. */
static bool
is_put_into_volume(const struct cf_sandbox *sb)
{
    for (size_t i = 0; i < sb->plan.volume_count; i++) {
        const char *target = sb->plan.volumes[i].target;
        target += strspn(target, "/");
        if (strncmp(target, ".cf", 3) == 0 && (target[3] == '\0' || target[3] == '/'))
            return true;
    }
    return false;
}

int
cf_seed_commit(struct cf_steps *steps, struct cf_error *err)
{
    struct cf_sandbox *sb = cf_sandbox_of(steps);

    if (is_put_into_volume(sb))
        return cf_error_set(err, CF_ERROR_IMAGE, 0, "the image's VOLUME is where cf-init is put");
    return cf_engine_container_commit(sb->engine, sb->container_id, on_committed, sb, &sb->call,
                                      err);
}

/* A failure is left to the sweep: it finds the image by its label. */
static void
on_image_removed(void *user, int status, const struct cf_engine_reply *reply,
                 const struct cf_error *err)
{
    struct cf_sandbox *sb = user;

    if (status == 0 && reply->http_status != 404)
        cf_teardown_tell_removed(sb, "image", sb->seed_image, sb->seed_image);
    if (status < 0)
        cf_log(sb->log, CF_LOG_DEBUG, "sandbox", "remove image: %s", err->text);
    cf_row_settle_call(sb, 0, NULL);
}

int
cf_undo_commit(struct cf_steps *steps, struct cf_error *err)
{
    struct cf_sandbox *sb = cf_sandbox_of(steps);

    if (sb->seed_image == NULL) {
        cf_steps_settle(steps, 0);
        return 0;
    }
    cf_teardown_bound_calls(sb, REMOVE_PATIENCE_MS);
    return cf_engine_image_remove(sb->engine, sb->seed_image, false, true, on_image_removed, sb,
                                  &sb->call, err);
}
