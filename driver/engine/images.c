/* The named requests about images. A pull or push is good when its stream was read to the end
 * without an error object inside; the caller still looks at what is there afterwards. */
#include "base/str.h"
#include "engine/internal.h"
#include "engine/path.h"

#include <string.h>

#define QUICK_MS 15000u
#define REMOVE_MS 60000u
#define COMMIT_MS 120000u
#define STREAM_IDLE_MS 60000u

/* A stream nobody watches is still read for its errors. */
static void
ignore_object(void *user, json_t *object)
{
}

static struct cf_buf
image_path(const char *ref, const char *suffix)
{
    struct cf_buf path = {0};

    (void)cf_buf_adds(&path, "/images/");
    cf_path_image(&path, ref);
    (void)cf_buf_adds(&path, suffix);
    return path;
}

int
cf_engine_image_inspect(struct cf_engine *engine, const char *ref, cf_engine_done_fn *done,
                        void *user, struct cf_engine_call **ret_call, struct cf_error *err)
{
    struct cf_buf path = image_path(ref, "/json");

    return cf_engine_send(engine, &path,
                          (struct cf_engine_request){.method = "GET", .deadline_ms = QUICK_MS},
                          done, user, ret_call, err);
}

int
cf_engine_image_list_all(struct cf_engine *engine, cf_engine_done_fn *done, void *user,
                         struct cf_engine_call **ret_call, struct cf_error *err)
{
    struct cf_engine_request request = {
        .method = "GET", .path = "/images/json?all=1", .deadline_ms = QUICK_MS};

    return cf_engine_call(engine, &request, done, user, ret_call, err);
}

int
cf_engine_image_remove(struct cf_engine *engine, const char *ref, bool force, bool noprune,
                       cf_engine_done_fn *done, void *user, struct cf_engine_call **ret_call,
                       struct cf_error *err)
{
    struct cf_buf path = image_path(ref, "");
    struct cf_engine_request request = {
        .method = "DELETE", .deadline_ms = REMOVE_MS, .also_ok = 404};

    if (force)
        (void)cf_engine_query(&path, "force", "1");
    if (noprune)
        (void)cf_engine_query(&path, "noprune", "1");
    return cf_engine_send(engine, &path, request, done, user, ret_call, err);
}

int
cf_engine_container_commit(struct cf_engine *engine, const char *id, cf_engine_done_fn *done,
                           void *user, struct cf_engine_call **ret_call, struct cf_error *err)
{
    struct cf_buf path = {0};

    (void)cf_buf_adds(&path, "/commit");
    (void)cf_engine_query(&path, "container", id);
    (void)cf_engine_query(&path, "pause", "0");
    return cf_engine_send(engine, &path,
                          (struct cf_engine_request){.method = "POST", .deadline_ms = COMMIT_MS},
                          done, user, ret_call, err);
}

int
cf_engine_image_tag(struct cf_engine *engine, const char *ref, const char *repo,
                    const char *tag, cf_engine_done_fn *done, void *user,
                    struct cf_engine_call **ret_call, struct cf_error *err)
{
    struct cf_buf path = image_path(ref, "/tag");

    (void)cf_engine_query(&path, "repo", repo);
    (void)cf_engine_query(&path, "tag", tag);
    return cf_engine_send(
        engine, &path, (struct cf_engine_request){.method = "POST", .deadline_ms = QUICK_MS},
        done, user, ret_call, err);
}

int
cf_engine_image_pull(struct cf_engine *engine, const char *repo, const char *digest,
                     const char *platform, const char *registry_auth, uint64_t deadline_ms,
                     cf_engine_progress_fn *on_object, cf_engine_done_fn *done, void *user,
                     struct cf_engine_call **ret_call, struct cf_error *err)
{
    struct cf_buf path = {0};
    struct cf_engine_request request = {.method = "POST",
                                        .registry_auth = registry_auth,
                                        .deadline_ms = deadline_ms,
                                        .idle_ms = STREAM_IDLE_MS,
                                        .on_object =
                                            on_object != NULL ? on_object : ignore_object};

    (void)cf_buf_adds(&path, "/images/create");
    (void)cf_engine_query(&path, "fromImage", repo);
    (void)cf_engine_query(&path, "tag",
                          digest); /* a digest goes here too; without it all tags are pulled */
    if (platform != NULL)
        (void)cf_engine_query(&path, "platform", platform);
    return cf_engine_send(engine, &path, request, done, user, ret_call, err);
}

int
cf_engine_image_push(struct cf_engine *engine, const char *repo, const char *tag,
                     const char *registry_auth, uint64_t deadline_ms,
                     cf_engine_progress_fn *on_object, cf_engine_done_fn *done, void *user,
                     struct cf_engine_call **ret_call, struct cf_error *err)
{
    struct cf_buf path = image_path(repo, "/push");
    struct cf_engine_request request = {.method = "POST",
                                        .deadline_ms = deadline_ms,
                                        .idle_ms = STREAM_IDLE_MS,
                                        .on_object =
                                            on_object != NULL ? on_object : ignore_object};

    request.registry_auth =
        registry_auth != NULL ? registry_auth : "e30="; /* {}: the header may not be absent */
    (void)cf_engine_query(&path, "tag", tag);
    return cf_engine_send(engine, &path, request, done, user, ret_call, err);
}
