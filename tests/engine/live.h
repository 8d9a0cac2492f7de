/* live.h: a connected engine for tests that need a real one, and a small image to run in it.
 */
#ifndef CF_TESTS_ENGINE_LIVE_H
#define CF_TESTS_ENGINE_LIVE_H

#include "base/ids.h"
#include "engine/engine.h"

#include <curl/curl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define LIVE_LABEL "cfrunner.test.engine"

struct live {
    uv_loop_t loop;
    uv_timer_t
        tick; /* so that a turn of the loop is short, and its condition is looked at again */
    struct cf_engine *engine;
    /* the last answer of any call made through the helpers below */
    int answers, status, http_status, objects;
    struct cf_error err;
    json_t *json;
    char path_stat[1024];
};

static inline void
live_on_connect(void *user, int status, const struct cf_error *err)
{
    struct live *live = user;
    live->answers++;
    live->status = status;
    if (err != NULL)
        live->err = *err;
}

static inline void
live_on_done(void *user, int status, const struct cf_engine_reply *reply,
             const struct cf_error *err)
{
    struct live *live = user;

    live->answers++;
    live->status = status;
    live->err = err != NULL ? *err : (struct cf_error){0};
    live->http_status = reply != NULL ? reply->http_status : 0;
    json_decref(live->json);
    live->json = reply != NULL ? json_incref(reply->json) : NULL;
    snprintf(live->path_stat, sizeof live->path_stat, "%s",
             reply != NULL && reply->header_path_stat != NULL ? reply->header_path_stat : "");
}

static inline void
live_on_object(void *user, json_t *object)
{
    ((struct live *)user)->objects++;
}

/* Runs the loop until one more answer has come. */
static inline void
live_wait(struct live *live)
{
    int before = live->answers;
    while (live->answers == before && uv_run(&live->loop, UV_RUN_ONCE) != 0)
        ;
}

static inline void
live_on_tick(uv_timer_t *tick)
{
}

static inline void
live_init(struct live *live)
{
    memset(live, 0, sizeof *live);
    signal(SIGPIPE, SIG_IGN);
    curl_global_init(CURL_GLOBAL_DEFAULT);
    uv_loop_init(&live->loop);
    uv_timer_init(&live->loop, &live->tick);
    uv_timer_start(&live->tick, live_on_tick, 5, 5);
    uv_unref((uv_handle_t *)&live->tick);
}

static inline int
live_open_at(struct live *live, const char *endpoint)
{
    struct cf_engine_options options = {.endpoint = endpoint};

    live_init(live);
    if (cf_engine_open(&live->loop, &options, &live->engine, &live->err) < 0)
        return -1;
    if (cf_engine_connect(live->engine, 15000, live_on_connect, live, &live->err) < 0)
        return -1;
    live_wait(live);
    return live->status;
}

static inline void
live_on_closed(void *user)
{
    ((struct live *)user)->engine = NULL;
}

static inline void
live_close(struct live *live)
{
    if (live->engine != NULL)
        cf_engine_close(live->engine, live_on_closed, live);
    uv_close((uv_handle_t *)&live->tick, NULL);
    uv_run(&live->loop, UV_RUN_DEFAULT);
    json_decref(live->json);
    live->json = NULL;
    if (uv_loop_close(&live->loop) != 0)
        abort();
    curl_global_cleanup();
}

/* False, with a loud line, when no engine answers. */
static inline bool
live_open(struct live *live, const char *what)
{
    if (live_open_at(live, NULL) == 0)
        return true;
    printf("SKIPPED engine/%s: no Engine answers (%s)\n", what, live->err.text);
    fflush(stdout);
    live_close(live);
    return false;
}

/* A folder with a Dockerfile and a root of dash, cat, head, sleep and what they load; and
 * `more` appended to the Dockerfile. The name lies in `dir`, which holds 64 bytes. */
static inline int
live_context(char *dir, const char *more)
{
    char command[2048];

    snprintf(dir, 64, "/tmp/cf-engine-test-XXXXXX");
    if (mkdtemp(dir) == NULL)
        return -1;
    snprintf(command, sizeof command,
             "set -e; cd %s; mkdir -p root/bin; "
             "for p in dash cat head sleep; do cp \"$(command -v $p)\" root/bin/$p; done; ln "
             "-s dash root/bin/sh; "
             "for l in $(ldd /bin/dash /bin/cat /bin/head /bin/sleep | grep -o '/[^ :]*lib[^ "
             "]*' | grep -v '^/bin' | sort -u); do "
             "mkdir -p root$(dirname $l); cp -L $l root$l; done; "
             "printf 'FROM scratch\\nCOPY root /\\n%%s\\n' '%s' > Dockerfile",
             dir, more);
    return system(command);
}

static inline void
live_remove_dir(const char *dir)
{
    char command[128];
    snprintf(command, sizeof command, "rm -rf %s", dir);
    if (system(command) != 0)
        abort();
}

/* The value of our label: each test is a process of its own. */
static inline const char *
live_label_value(char out[16])
{
    snprintf(out, 16, "%d", (int)getpid());
    return out;
}

/* Removes every image this process has built, the nameless ones too. */
static inline void
live_remove_images(struct live *live)
{
    char label[64], value[16];

    snprintf(label, sizeof label, "%s=%s", LIVE_LABEL, live_label_value(value));
    for (int pass = 0; pass < 5; pass++) {
        if (cf_engine_list(live->engine, "images", label, live_on_done, live, NULL,
                           &live->err) < 0)
            abort();
        live_wait(live);
        json_t *list = json_incref(live->json), *entry;
        size_t i;
        json_array_foreach(list, i, entry) {
            const char *id = json_string_value(json_object_get(entry, "Id"));
            if (cf_engine_image_remove(live->engine, id, true, true, live_on_done, live, NULL,
                                       &live->err) == 0)
                live_wait(live);
        }
        size_t count = json_array_size(list);
        json_decref(list);
        if (count == 0)
            return;
    }
    abort();
}

struct live_build {
    struct live *live;
    char image_id[80], tail[4096];
    size_t steps;
};

static inline void
live_on_built(void *user, int status, const struct cf_build_result *result,
              const struct cf_error *err)
{
    struct live_build *build = user;

    build->live->answers++;
    build->live->status = status;
    build->live->err = err != NULL ? *err : (struct cf_error){0};
    snprintf(build->image_id, sizeof build->image_id, "%s",
             result->image_id != NULL ? result->image_id : "");
    snprintf(build->tail, sizeof build->tail, "%s", result->tail);
    build->steps = result->step_count;
}

static inline int
live_build(struct live *live, const char *dir, const char *tag, struct live_build *build)
{
    struct cf_build_options options = {.context_dir = dir, .tag = tag, .deadline_ms = 60000};

    memset(build, 0, sizeof *build);
    build->live = live;
    char value[16];
    options.labels = json_pack("{s:s}", LIVE_LABEL, live_label_value(value));
    int rc = cf_build_open(live->engine, &options, live_on_built, build, NULL, &live->err);
    json_decref(options.labels);
    if (rc < 0)
        return rc;
    live_wait(live);
    return live->status;
}

#endif
