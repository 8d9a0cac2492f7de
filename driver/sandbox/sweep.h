/*
 * sandbox/sweep.h: the inside of a sweep: list by label, remove what a rule says is ours, list
 * again, until a listing comes back empty or time is up. Teardown's proof and reap are both
 * this.
 */
#ifndef CF_SANDBOX_SWEEP_H
#define CF_SANDBOX_SWEEP_H

#include "base/buf.h"
#include "sandbox/labels.h"
#include "sandbox/sandbox.h"

enum cf_resource_kind { CF_CONTAINER, CF_NETWORK, CF_VOLUME, CF_IMAGE, CF_RESOURCE_KINDS };

/* "container", ...; static. The order of the enum is the order of removal. */
const char *cf_resource_name(enum cf_resource_kind kind);

/* One thing that a listing named; all borrowed until the callback returns. */
struct cf_resource {
    enum cf_resource_kind kind;
    const char *id;          /* what the engine calls it: an id, for volumes the name */
    const char *name;        /* for eyes */
    struct cf_labels labels; /* read in full, or it would not be here */
};

struct cf_sweep_rule {
    const char *label; /* "key" or "key=value", the engine's filter; copied */
    /* True: remove it. Called again for the same thing at each listing. NULL: everything whose
     * labels were read in full. */
    bool (*wants)(void *user, const struct cf_resource *resource);
    void *user;
    bool dry_run;      /* one good listing, nothing removed */
    int clean_passes;  /* so many empty listings in a row are the proof; 0: 1 */
    uint64_t quiet_ms; /* and the last of them at least this long after the first listing: for
                          a create whose answer never came */
};

CF_CHECKED int cf_sweep_open_rule(uv_loop_t *loop, struct cf_engine *engine,
                                  const struct cf_sweep_rule *rule, uint64_t deadline_ms,
                                  cf_sweep_done_fn *done, void *user,
                                  struct cf_sweep **ret_sweep, struct cf_error *err);

/* Adds the client's name, with -H when it would not find the engine by itself. */
void cf_resource_client(const struct cf_engine *engine, struct cf_buf *line);
/* {"kind","id","name"}; new reference. */
json_t *cf_resource_json(const char *kind, const char *id, const char *name);
/* The same with "why" and "remove", a line for a shell that removes it by hand; new reference.
 */
json_t *cf_resource_left_json(const struct cf_engine *engine, const char *kind, const char *id,
                              const char *name, const char *why);

/*
 * Reads one entry of an engine's list. False when its labels are not wholly ours, or when it
 * is a container that only inherited them from an image of ours: a container of ours bears the
 * name in its label, or runs cf-init. `entry` is borrowed as long as `ret` is used.
 */
bool cf_resource_read(enum cf_resource_kind kind, const json_t *entry,
                      struct cf_resource *ret);

#endif
