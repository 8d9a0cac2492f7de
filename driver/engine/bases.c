/*
 * Credentials for the base images of a build. The Engine pulls them itself, so it is given
 * what docker's config.json and its helpers know about the registries that the Dockerfile
 * names; and about no other.
 */
#include "base/str.h"
#include "engine/auth.h"
#include "engine/dockerfile.h"
#include "engine/file.h"
#include "engine/internal.h"

#include <stdio.h>
#include <string.h>

#define MAX_REGISTRIES 16u
#define DOCKERFILE_LIMIT_BYTES (1024u * 1024)

struct bases {
    struct cf_engine *engine;
    cf_auth_done_fn *done;
    void *user;
    json_t *registries; /* [host...] */
    json_t *config;     /* {server: {username, password}...} */
    size_t at;
};

static void
bases_free(struct bases *bases)
{
    json_decref(bases->registries);
    json_decref(bases->config);
    free(bases);
}

static void
finish(struct bases *bases, const struct cf_error *err)
{
    cf_auth_done_fn *done = bases->done;
    void *user = bases->user;
    bool has_some = json_object_size(bases->config) > 0;
    char *header = err == NULL && has_some ? cf_auth_encode(bases->config) : NULL;
    struct cf_error own = {0};

    if (err == NULL && has_some && header == NULL) {
        cf_error_memory(&own);
        err = &own;
    }
    bases_free(bases);
    done(user, err != NULL ? -1 : 0, header, err);
    cf_auth_wipe(header);
}

static void
on_base(void *user, const char *name)
{
    struct bases *bases = user;
    struct cf_image_ref ref;
    size_t i;
    json_t *entry;

    if (cf_image_ref_parse(name, &ref, NULL) < 0)
        return; /* the engine will say what is wrong with it */
    json_array_foreach(bases->registries, i, entry)
        if (strcmp(json_string_value(entry), ref.domain) == 0)
            return;
    if (json_array_size(bases->registries) < MAX_REGISTRIES)
        json_array_append_new(bases->registries, json_string(ref.domain));
}

static int look_up_next(struct bases *bases, struct cf_error *err);

static void
on_looked_up(void *user, int status, json_t *auth, const struct cf_error *err)
{
    struct bases *bases = user;
    const char *host = json_string_value(json_array_get(bases->registries, bases->at - 1));
    struct cf_error own = {0};

    if (status < 0 && err->kind == CF_ERROR_CANCELED) {
        finish(bases, err);
        return;
    }
    if (status < 0)
        cf_log(bases->engine->log, CF_LOG_WARN, "engine", "no credentials for %s: %s", host,
               err->text);
    else if (auth != NULL)
        json_object_set(bases->config, cf_auth_server(host), auth);
    if (bases->at == json_array_size(bases->registries))
        finish(bases, NULL);
    else if (look_up_next(bases, &own) < 0)
        finish(bases, &own);
}

static int
look_up_next(struct bases *bases, struct cf_error *err)
{
    const char *host = json_string_value(json_array_get(bases->registries, bases->at++));
    return cf_engine_auth_look_up(bases->engine, host, on_looked_up, bases, err);
}

/* A Dockerfile that cannot be read names no registry; opening the context will say why. */
static int
read_registries(struct bases *bases, const char *dir, const char *dockerfile)
{
    cf_auto_free char *path = NULL, *text = NULL;
    size_t len = 0;

    if (asprintf(&path, "%s/%s", dir, dockerfile) < 0) {
        path = NULL;
        return -1;
    }
    if (cf_file_read(path, DOCKERFILE_LIMIT_BYTES, &text, &len, NULL) == 0)
        cf_dockerfile_bases(text, len, on_base, bases);
    return 0;
}

int
cf_engine_auth_bases(struct cf_engine *engine, const char *context_dir, const char *dockerfile,
                     cf_auth_done_fn *done, void *user, struct cf_error *err)
{
    struct bases *bases = calloc(1, sizeof *bases);

    if (bases == NULL)
        return cf_error_memory(err);
    *bases = (struct bases){.engine = engine, .done = done, .user = user};
    bases->registries = json_array();
    bases->config = json_object();
    if (bases->registries == NULL || bases->config == NULL ||
        read_registries(bases, context_dir, dockerfile != NULL ? dockerfile : "Dockerfile") <
            0) {
        bases_free(bases);
        return cf_error_memory(err);
    }
    int rc = json_array_size(bases->registries) == 0 ? 1 : look_up_next(bases, err);
    if (rc != 0)
        bases_free(bases);
    return rc;
}
