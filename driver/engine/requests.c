/* The named requests about containers, volumes, networks, archives and events. Each is a path,
 * a deadline and which status counts as done. */
#include "base/str.h"
#include "engine/internal.h"
#include "engine/path.h"
#include "json/json.h"

#include <string.h>

#define QUICK_MS 15000u /* inspect, list: no work behind them */
#define CREATE_MS 60000u
#define START_MS 120000u /* starts queue up behind each other on a busy engine */
#define REMOVE_MS 60000u
#define ARCHIVE_MS 120000u
#define WAIT_BUFFER_BYTES 2048u /* a wait lasts as long as its container, and says one line */

static struct cf_buf
path_of(const char *prefix, const char *id, const char *suffix)
{
    struct cf_buf path = {0};

    (void)cf_buf_adds(&path, prefix);
    cf_path_segment(&path, id);
    (void)cf_buf_adds(&path, suffix);
    return path;
}

int
cf_engine_container_create(struct cf_engine *engine, const char *name, const char *platform,
                           json_t *spec, cf_engine_done_fn *done, void *user,
                           struct cf_engine_call **ret_call, struct cf_error *err)
{
    struct cf_buf path = path_of("/containers/create", "", "");

    (void)cf_engine_query(&path, "name", name);
    if (platform != NULL)
        (void)cf_engine_query(&path, "platform", platform);
    return cf_engine_send(
        engine, &path,
        (struct cf_engine_request){.method = "POST", .json = spec, .deadline_ms = CREATE_MS},
        done, user, ret_call, err);
}

int
cf_engine_container_inspect(struct cf_engine *engine, const char *id, cf_engine_done_fn *done,
                            void *user, struct cf_engine_call **ret_call, struct cf_error *err)
{
    struct cf_buf path = path_of("/containers/", id, "/json");

    return cf_engine_send(engine, &path,
                          (struct cf_engine_request){.method = "GET", .deadline_ms = QUICK_MS},
                          done, user, ret_call, err);
}

int
cf_engine_container_start(struct cf_engine *engine, const char *id, cf_engine_done_fn *done,
                          void *user, struct cf_engine_call **ret_call, struct cf_error *err)
{
    struct cf_buf path = path_of("/containers/", id, "/start");

    return cf_engine_send(
        engine, &path, (struct cf_engine_request){.method = "POST", .deadline_ms = START_MS},
        done, user, ret_call, err);
}

int
cf_engine_container_wait(struct cf_engine *engine, const char *id, uint64_t deadline_ms,
                         void (*on_head)(void *user, int http_status), cf_engine_done_fn *done,
                         void *user, struct cf_engine_call **ret_call, struct cf_error *err)
{
    struct cf_buf path = path_of("/containers/", id, "/wait?condition=next-exit");
    struct cf_engine_request request = {.method = "POST",
                                        .deadline_ms = deadline_ms,
                                        .on_head = on_head,
                                        .buffer_bytes = WAIT_BUFFER_BYTES};

    return cf_engine_send(engine, &path, request, done, user, ret_call, err);
}

int
cf_engine_container_kill(struct cf_engine *engine, const char *id, cf_engine_done_fn *done,
                         void *user, struct cf_engine_call **ret_call, struct cf_error *err)
{
    struct cf_buf path = path_of("/containers/", id, "/kill?signal=KILL");

    return cf_engine_send(
        engine, &path, (struct cf_engine_request){.method = "POST", .deadline_ms = QUICK_MS},
        done, user, ret_call, err);
}

int
cf_engine_container_remove(struct cf_engine *engine, const char *id, cf_engine_done_fn *done,
                           void *user, struct cf_engine_call **ret_call, struct cf_error *err)
{
    struct cf_buf path = path_of("/containers/", id, "?force=1&v=1");
    struct cf_engine_request request = {
        .method = "DELETE", .deadline_ms = REMOVE_MS, .also_ok = 404};

    return cf_engine_send(engine, &path, request, done, user, ret_call, err);
}

/* {"label":["..."]} as query parameter `filters`, with "type":["container"] before it if
 * wanted. */
static int
add_filters(struct cf_buf *path, const char *label, const char *type)
{
    json_t *filters = json_pack("{s:[s]}", "label", label);
    cf_auto_free char *text = NULL;

    if (filters != NULL && type != NULL)
        json_object_set_new(filters, "type", json_pack("[s]", type));
    if (filters != NULL)
        text = cf_json_dump(filters, NULL);
    json_decref(filters);
    return text == NULL ? -1 : cf_engine_query(path, "filters", text);
}

int
cf_engine_list(struct cf_engine *engine, const char *kind, const char *label,
               cf_engine_done_fn *done, void *user, struct cf_engine_call **ret_call,
               struct cf_error *err)
{
    bool has_all = strcmp(kind, "containers") == 0 || strcmp(kind, "images") == 0;
    struct cf_buf path = path_of("/", kind, has_all ? "/json?all=1" : "");

    if (add_filters(&path, label, NULL) < 0) {
        cf_buf_release(&path);
        return cf_error_memory(err);
    }
    return cf_engine_send(engine, &path,
                          (struct cf_engine_request){.method = "GET", .deadline_ms = QUICK_MS},
                          done, user, ret_call, err);
}

int
cf_engine_events(struct cf_engine *engine, const char *label, uint64_t deadline_ms,
                 void (*on_head)(void *user, int http_status), cf_engine_progress_fn *on_event,
                 cf_engine_done_fn *done, void *user, struct cf_engine_call **ret_call,
                 struct cf_error *err)
{
    struct cf_buf path = path_of("/events", "", "");
    struct cf_engine_request request = {.method = "GET",
                                        .deadline_ms = deadline_ms,
                                        .on_head = on_head,
                                        .on_object = on_event};

    if (add_filters(&path, label, "container") < 0) {
        cf_buf_release(&path);
        return cf_error_memory(err);
    }
    return cf_engine_send(engine, &path, request, done, user, ret_call, err);
}

/* ---- archives --------------------------------------------------------------------------- */

static struct cf_buf
archive_path(const char *id, const char *inside)
{
    struct cf_buf path = path_of("/containers/", id, "/archive");

    (void)cf_engine_query(&path, "path", inside);
    return path;
}

int
cf_engine_archive_put(struct cf_engine *engine, const char *id, const char *dir,
                      bool no_overwrite_dir, const char *tar, size_t tar_len,
                      cf_engine_done_fn *done, void *user, struct cf_engine_call **ret_call,
                      struct cf_error *err)
{
    struct cf_buf path = archive_path(id, dir);

    if (no_overwrite_dir)
        (void)cf_engine_query(&path, "noOverwriteDirNonDir", "1");
    return cf_engine_send(
        engine, &path,
        (struct cf_engine_request){
            .method = "PUT", .body = tar, .body_len = tar_len, .deadline_ms = ARCHIVE_MS},
        done, user, ret_call, err);
}

int
cf_engine_archive_stat(struct cf_engine *engine, const char *id, const char *path_inside,
                       cf_engine_done_fn *done, void *user, struct cf_engine_call **ret_call,
                       struct cf_error *err)
{
    struct cf_buf path = archive_path(id, path_inside);

    return cf_engine_send(
        engine, &path, (struct cf_engine_request){.method = "HEAD", .deadline_ms = QUICK_MS},
        done, user, ret_call, err);
}

int
cf_engine_archive_get(struct cf_engine *engine, const char *id, const char *path_inside,
                      cf_engine_bytes_fn *on_bytes, cf_engine_done_fn *done, void *user,
                      struct cf_engine_call **ret_call, struct cf_error *err)
{
    struct cf_buf path = archive_path(id, path_inside);

    return cf_engine_send(engine, &path,
                          (struct cf_engine_request){.method = "GET",
                                                     .on_bytes = on_bytes,
                                                     .deadline_ms = ARCHIVE_MS},
                          done, user, ret_call, err);
}

/* ---- volumes and networks --------------------------------------------------------------- */

int
cf_engine_volume_create(struct cf_engine *engine, const char *name, json_t *labels,
                        cf_engine_done_fn *done, void *user, struct cf_engine_call **ret_call,
                        struct cf_error *err)
{
    json_t *spec = json_pack("{s:s, s:O*}", "Name", name, "Labels", labels);
    struct cf_engine_request request = {
        .method = "POST", .path = "/volumes/create", .json = spec, .deadline_ms = CREATE_MS};

    if (spec == NULL)
        return cf_error_set(err, CF_ERROR_INTERNAL, 0, "volume name \"%s\" is not UTF-8",
                            name);
    int rc = cf_engine_call(engine, &request, done, user, ret_call, err);
    json_decref(spec);
    return rc;
}

int
cf_engine_volume_remove(struct cf_engine *engine, const char *name, cf_engine_done_fn *done,
                        void *user, struct cf_engine_call **ret_call, struct cf_error *err)
{
    struct cf_buf path = path_of("/volumes/", name, "");
    struct cf_engine_request request = {
        .method = "DELETE", .deadline_ms = REMOVE_MS, .also_ok = 404};

    return cf_engine_send(engine, &path, request, done, user, ret_call, err);
}

int
cf_engine_network_remove(struct cf_engine *engine, const char *id, cf_engine_done_fn *done,
                         void *user, struct cf_engine_call **ret_call, struct cf_error *err)
{
    struct cf_buf path = path_of("/networks/", id, "");
    struct cf_engine_request request = {
        .method = "DELETE", .deadline_ms = REMOVE_MS, .also_ok = 404};

    return cf_engine_send(engine, &path, request, done, user, ret_call, err);
}
