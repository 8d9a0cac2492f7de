/*
 * run/image.h: from what the author names (an immutable reference, or a build context) to an
 * image Id in the engine, and back to an engine that holds nothing of ours. Ties engine/ and
 * registry/ together; knows nothing of sandboxes but how resources are labelled.
 */
#ifndef CF_RUN_IMAGE_H
#define CF_RUN_IMAGE_H

#include "base/error.h"
#include "base/log.h"
#include "engine/engine.h"
#include "sandbox/sandbox.h"

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

struct cf_image;

enum cf_pull_policy { CF_PULL_MISSING, CF_PULL_ALWAYS, CF_PULL_NEVER };

struct cf_image_options {
    struct cf_engine *engine;  /* connected; borrowed until closed */
    struct cf_owner *owner;    /* borrowed until closed */
    const char *run_id;        /* copied */
    const char *reference;     /* NAME@sha256:...; or NULL with build_context. copied */
    const char *build_context; /* a folder; copied */
    const char *dockerfile;    /* NULL: Dockerfile; copied */
    const char *architecture;  /* "amd64"/"arm64" wanted, or NULL: the engine's; copied */
    enum cf_pull_policy pull;
    bool registry_all_interfaces;
    const char
        *registry_host; /* with registry_all_interfaces: host the engine shall use; copied */
    int64_t deadline_unix; /* for the labels */
    uint64_t deadline_ms;  /* bounds build, push and pull together */
    const struct cf_log *log;
};

struct cf_image_facts {    /* borrowed while the image is open */
    const char *id;        /* "sha256:..." to create containers from */
    const char *reference; /* what was run: NAME@sha256:... */
    const char *digest;    /* "sha256:..." of the manifest */
    const char *architecture, *os;
    bool was_pulled, was_built;
};

struct cf_image_events {
    void (*on_step)(void *user, const char *name,
                    uint64_t took_ms); /* as cf_sandbox_events.on_step */
    void (*on_progress)(void *user, const char *what,
                        json_t *object);              /* "build" "push" "pull" */
    void (*on_warning)(void *user, const char *text); /* the exposure warning */
    /* Resolved, or failed with `err` (a failed build: its last lines in `tail`). Once. */
    void (*on_done)(void *user, int status, const struct cf_image_facts *facts,
                    const char *tail, const struct cf_error *err);
};

CF_CHECKED int cf_image_open(uv_loop_t *loop, const struct cf_image_options *options,
                             const struct cf_image_events *events, void *user,
                             struct cf_image **ret_image, struct cf_error *err);
/* Removes what was built (image, tags, intermediate images that did not exist before), closes
 * the registry and its port, lists again. An image pulled for --image stays. From anywhere, in
 * any phase; on_closed once (teardown borrowed until return), then the image is gone. */
void cf_image_close(struct cf_image *image, uint64_t deadline_ms,
                    void (*on_closed)(void *user, const struct cf_teardown *teardown),
                    void *user);

#endif
