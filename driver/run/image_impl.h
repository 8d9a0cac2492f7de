/* run/image_impl.h: what the files of the image resolver share; theirs alone. */
#ifndef CF_RUN_IMAGE_IMPL_H
#define CF_RUN_IMAGE_IMPL_H

#include "loop/steps.h"
#include "registry/registry.h"
#include "run/image.h"

struct cf_image_sweep; /* removal under way; image_sweep.c */

struct cf_image {
    uv_loop_t *loop;
    struct cf_engine *engine;
    struct cf_owner *owner;
    const struct cf_log *log;
    struct cf_image_events events;
    void *user;
    struct cf_steps steps;
    uv_timer_t deadline;
    int handles_open;

    /* what was asked */
    char *run_id, *reference, *build_context, *dockerfile, *architecture, *registry_host;
    enum cf_pull_policy pull;
    bool all_interfaces;
    int64_t label_deadline_unix;
    uint64_t deadline_ms, until_ms;
    struct cf_image_ref ref; /* of what is inspected and pulled */

    /* under way */
    struct cf_engine_call *call;
    struct cf_build *build;
    struct image_lookup *lookup; /* credentials being looked up */
    char *auth;                  /* X-Registry-Auth, or NULL */
    bool needs_pull;

    /* of a build */
    struct cf_registry *registry;
    char *registry_dir, *registry_user, *registry_password;
    char repo[128]; /* "127.0.0.1:5000/cfrunner-<hex>" */
    char name[64];  /* "cfrunner-<hex>", as the registry knows it */
    char built_id[80];
    char pushed_digest[80];
    json_t
        *before;  /* {image id: true} of everything there before the build; NULL: not listed */
    json_t *made; /* {id or its beginning: true} of what the build stream named */
    char *bases_auth;              /* X-Registry-Config, or NULL */
    char *tail;                    /* last lines of the build */
    bool was_lost; /* no answer to the build was ever read */
    bool build_begun, was_cut_off; /* a canceled build's last step may still come to its end */
    char open_step[16], open_container[80], last_image[80]; /* of a build that was cut off */
    struct cf_image_sweep *sweep;

    /* what is known at the end */
    char id[80], image_reference[700], arch[32], os[32];
    struct cf_image_facts facts;
    bool told; /* on_done has come */

    /* going away */
    bool is_closing;
    uint64_t close_until_ms, closing_since_ms;
    json_t *removed, *left;
    bool proven;
    void (*on_closed)(void *user, const struct cf_teardown *teardown);
    void *closed_user;
};

/* Milliseconds until `until_ms`, at least 1. */
uint64_t cf_image_left_ms(uint64_t until_ms);
/* Every call's `done` begins with it: the call is over. */
void cf_image_settle(struct cf_image *image, int status, const struct cf_error *err);
void cf_image_abort_call(struct cf_steps *steps);

/* A look-up of credentials outlives a canceled image: a helper's answer may come after nobody
 * waits for it. begin: NULL when out of memory. end: frees it; the image, or NULL when it does
 * not wait any more. */
struct image_lookup *cf_image_lookup_begin(struct cf_image *image);
struct cf_image *cf_image_lookup_end(struct image_lookup *lookup);

/* Rows of both tables (image_resolve.c). */
int cf_image_inspect_start(struct cf_steps *steps, struct cf_error *err);
int cf_image_login_start(struct cf_steps *steps, struct cf_error *err);
void cf_image_login_abort(struct cf_steps *steps);
int cf_image_pull_start(struct cf_steps *steps, struct cf_error *err);
int cf_image_check_start(struct cf_steps *steps, struct cf_error *err);

/* Rows of a build (image_build.c). */
int cf_image_registry_start(struct cf_steps *steps, struct cf_error *err);
int cf_image_registry_end(struct cf_steps *steps,
                          struct cf_error *err); /* as a row, and as its undo */
int cf_image_list_start(struct cf_steps *steps, struct cf_error *err);
int cf_image_bases_login_start(struct cf_steps *steps, struct cf_error *err);
int cf_image_build_start(struct cf_steps *steps, struct cf_error *err);
int cf_image_build_undo(struct cf_steps *steps, struct cf_error *err);
void cf_image_build_abort(struct cf_steps *steps);
int cf_image_bases_start(struct cf_steps *steps, struct cf_error *err);
int cf_image_push_start(struct cf_steps *steps, struct cf_error *err);
int cf_image_untag_start(struct cf_steps *steps, struct cf_error *err);
int cf_image_own_auth_start(struct cf_steps *steps, struct cf_error *err);

/* Removes every image the build made, and looks again until none is left or time is over; then
 * `done`. Fills image->removed, left and proven. (image_sweep.c) */
int cf_image_sweep_start(struct cf_image *image, uint64_t until_ms,
                         void (*done)(struct cf_image *image), struct cf_error *err);
/* Whether the image of a list entry was made by our build. */
bool cf_image_is_ours(const struct cf_image *image, const json_t *entry, const json_t *list);
/* Whether the build stream named this id. */
bool cf_image_was_named(const struct cf_image *image, const char *id);

#endif
