/*
 * sandbox/plan.h: from options, the engine's facts and the image's inspection to one
 * container's create request, decided in one place and before anything is made. Pure.
 */
#ifndef CF_SANDBOX_PLAN_H
#define CF_SANDBOX_PLAN_H

#include "sandbox/sandbox.h"

#define CF_INIT_PATH "/.cf/cf-init"
#define CF_PLAN_VOLUMES_MOST 64

struct cf_plan_volume {
    char name[64];
    char *target; /* path inside */
};

struct cf_plan {
    char name[64]; /* the container's, and its label "sandbox": "cfrunner-<32 hex>" */
    char *image_id;
    char *user; /* the image's; "" is root */
    char *arch; /* the image's, as in "amd64" */
    char *search_path; /* PATH of the image's environment; NULL: it has none */
    char *working_directory;
    const char
        *working_directory_from; /* "--working-directory", "the image", "default"; static */
    struct cf_sandbox_limits limits; /* with the defaults filled in */
    uint64_t tmp_bytes;
    uint64_t layer_bytes; /* what the engine itself is asked to let the layer grow to; 0: nothing */
    struct cf_plan_volume volumes[CF_PLAN_VOLUMES_MOST];
    size_t volume_count;
    json_t *labels, *spec;
};

/*
 * `image` is the image's inspection, `name` the container's. `labels` is borrowed. Errors are
 * the author's (CF_ERROR_CONFIG) or the image's (CF_ERROR_IMAGE), each with a remedy. On
 * failure `ret` is left released.
 */
CF_CHECKED int cf_plan_make(const struct cf_sandbox_options *options,
                            const struct cf_engine_facts *facts, json_t *image,
                            const char *name, json_t *labels, struct cf_plan *ret,
                            struct cf_error *err);
void cf_plan_release(struct cf_plan *plan);

/* The engine refused that limit: the request is made anew without it. */
void cf_plan_drop_layer_limit(struct cf_plan *plan);

/* Fills the defaults and clamps to what the engine has. */
void cf_limits_fill(struct cf_sandbox_limits *limits, const struct cf_engine_facts *facts);

/*
 * May `path` be a working directory? Absolute, plain (no ".", "..", "//", no slash at the
 * end), shorter than 4096, and none of /, /tmp, /proc, /sys, /dev, /.cf or what lies below
 * them. `kind` is the error's, `whose` names its origin in the message.
 */
CF_CHECKED int cf_plan_check_workdir(const char *path, const char *whose,
                                     enum cf_error_kind kind, struct cf_error *err);

/* The same for a path in general: absolute and plain. */
CF_CHECKED int cf_plan_check_path(const char *path, const char *what, struct cf_error *err);

#endif
