/*
 * sandbox/sandbox.h: one container whose pid 1 is cf-init, and one stream to it. From an image
 * Id to a sandbox that answers, and from there to nothing at all, proven by listing again.
 */
#ifndef CF_SANDBOX_SANDBOX_H
#define CF_SANDBOX_SANDBOX_H

#include "base/error.h"
#include "base/log.h"
#include "engine/engine.h"
#include "sandbox/link.h"

struct cf_sandbox;

struct cf_sandbox_limits { /* 0 anywhere: the default of the design */
    uint64_t memory_bytes; /* 2 GiB, no extra swap */
    double cpus;           /* 2, clamped to the engine's */
    uint64_t pids;         /* 512 */
    uint64_t nofile;       /* 4096 */
    uint64_t disk_bytes;   /* 4 GiB: layer, volumes, /tmp */
};

/* Who we are, written on every label; see sandbox/owner.h. */
struct cf_owner;

struct cf_sandbox_options {
    struct cf_engine *engine;      /* connected; borrowed until closed */
    struct cf_owner *owner;        /* borrowed until closed */
    const char *run_id;            /* "run_<32 hex>"; copied */
    const char *image_id;          /* "sha256:..."; copied */
    const char *entrypoint;        /* checked in the image before anything runs; copied */
    const char *working_directory; /* NULL: the image's, else /workspace; copied */
    const char *platform_arch;     /* "amd64"/"arm64" wanted, or NULL: the engine's; copied */
    const char *const *env;        /* extra "K=V" for container create: none by default */
    struct cf_sandbox_limits limits;
    unsigned relay_port;  /* 0: 4180; cf-init listens on 127.0.0.1 before hello */
    unsigned egress_port; /* a second such port, for the forward proxy; 0: none */
    uint64_t whole_timeout_ms, grace_ms; /* for the deadline label and teardown's bound */
    uint64_t start_timeout_ms;           /* provision to hello */
    const void *init_program;            /* the cf-init binary; static storage */
    size_t init_program_len;
    /* A seed is never started: cf-init is put into its container, which becomes an image, and
     * on_ready says that it is there. seed_image: such an image of image_id's, or NULL; copied.
     * The sandbox is made from it, with the seed's working_directory: what the seed's way down
     * has looked at is not looked at again, and nothing needs to be put in. When somebody has
     * removed it, image_id serves. */
    bool is_seed;
    const char *seed_image;
    const struct cf_log *log;
};

/* All from the loop, none from inside cf_sandbox_open. Each may call anything here,
 * cf_sandbox_close included: what that frees is freed in a later turn of the loop. */
struct cf_sandbox_events {
    /* A provision or teardown step began (took_ms UINT64_MAX) or ended. `name` is static:
     * "inspect image", "create volumes", "create container", "inspect container",
     * "put cf-init", "attach", "wait", "start container", "hello", "check program", "working
     * directory"; on the way back "stop", "end wait", "close stream", "remove container",
     * "remove volumes", "list again". May be NULL. */
    void (*on_step)(void *user, const char *name, uint64_t took_ms);
    void (*on_ready)(void *user); /* hello came, working directory stands; spawn now */
    /* Provision failed (its teardown has begun by itself), or the sandbox ended under us
     * (engine gone, pid 1 ended, link broken, removed or killed by somebody): why, with its
     * remedy. At most once, and never after cf_sandbox_close; that still has to be called.
     * Processes and requests of the link hear of their loss right after it. The author's
     * mistakes are CF_ERROR_IMAGE (or CF_ERROR_CONFIG, for what the options say). */
    void (*on_failed)(void *user, const struct cf_error *err);
    /* Between on_ready and on_failed only. A door that is not opened is reset. May be NULL. */
    void (*on_door)(void *user, struct cf_door *door, unsigned port);
    /* From cf-init, see link.h: "disk" when the disk limit is passed, "pids" when that one was
     * reached, ... May be NULL. */
    void (*on_event)(void *user, const char *name, json_t *event);
};

/*
 * Begins a sandbox. Fails at once, with nothing begun, only for options that cannot be right
 * whatever the image is (CF_ERROR_CONFIG with a remedy) or without memory. `events` is copied.
 * Each sandbox has a label value of its own, its container's name ("cfrunner-<32 hex>"), and
 * takes away what bears that and nothing else: two sandboxes of one run do not know each
 * other.
 */
CF_CHECKED int cf_sandbox_open(uv_loop_t *loop, const struct cf_sandbox_options *options,
                               const struct cf_sandbox_events *events, void *user,
                               struct cf_sandbox **ret_sandbox, struct cf_error *err);
/* A sandbox that is ready and in which nothing was spawned yet goes to another owner: its events
 * and words go there from now on. on_ready does not come again. */
void cf_sandbox_hand_over(struct cf_sandbox *sandbox, const struct cf_sandbox_events *events, void *user,
                          const struct cf_log *log);
/*
 * Is it alive? Asked of a sandbox that is ready, before a deadline is called the harness's fault:
 * on_heard comes once, from the loop, with NULL (it answers, or nothing speaks against it), or with
 * the reason why the silence is not the harness's (borrowed until return); within 5 s. It never
 * comes after on_failed or cf_sandbox_close. A second question takes the first one's place.
 */
typedef void cf_sandbox_heard_fn(void *user, const struct cf_error *why);
void cf_sandbox_hark(struct cf_sandbox *sandbox, cf_sandbox_heard_fn *on_heard, void *user);
struct cf_link *cf_sandbox_link(struct cf_sandbox *sandbox);
const char *cf_sandbox_working_directory(const struct cf_sandbox *sandbox); /* the real path */
/* PATH of the image's environment; NULL: it has none, or the sandbox was not planned yet. */
const char *cf_sandbox_search_path(const struct cf_sandbox *sandbox);
const char *cf_sandbox_container_id(const struct cf_sandbox *sandbox); /* NULL before create */
/* Of a seed that is ready: its image, and the working directory that seeded sandboxes are to name.
 * Both borrowed until closed; the image goes with the seed, so what is made from it goes before. */
const char *cf_sandbox_seed_image(const struct cf_sandbox *sandbox);
const char *cf_sandbox_seed_workdir(const struct cf_sandbox *sandbox);
/* Is it made from options.seed_image? Not when that had been removed by somebody. */
bool cf_sandbox_is_seeded(const struct cf_sandbox *sandbox);
/* What is in force, from inspect, for the result: {"network":"none","cap_drop":[...],...}. New
 * reference; NULL before the container was inspected. The same for the limits. */
json_t *cf_sandbox_isolation(const struct cf_sandbox *sandbox);
json_t *cf_sandbox_limits_json(const struct cf_sandbox *sandbox);
/* The engine's State of a container that ended under us, as on_failed came of it; else NULL.
 * Borrowed until closed. */
json_t *cf_sandbox_end_state(const struct cf_sandbox *sandbox);

struct cf_teardown {
    bool proven;     /* listed again by the label: nothing is there */
    json_t *removed; /* [{"kind","id","name"}...]; borrowed until return */
    json_t *left;    /* the same form plus "why" and "remove" (one shell line); borrowed until
                        return */
    uint64_t took_ms;
    /* The sandbox's control group on this host, static: "gone" (it was seen while it ran, and
     * with it every process of it is gone), "left", or "unseen": nothing ran, or the engine is
     * elsewhere. NULL where no sandbox is spoken of. */
    const char *host;
};
typedef void cf_sandbox_closed_fn(void *user, const struct cf_teardown *teardown);
/*
 * Kill, end, remove, list again; bounded by `grace_ms` + 10 s of engine time. From anywhere,
 * in any phase. Processes that are still open hear of their loss on the way. A second call
 * with a shorter grace shortens it (its callback is ignored). on_closed comes once, in a later
 * turn; then the sandbox is freed and nothing fires. A create whose answer never came is
 * looked for 2 s longer, and is never called proven unless it was seen and removed.
 */
void cf_sandbox_close(struct cf_sandbox *sandbox, uint64_t grace_ms,
                      cf_sandbox_closed_fn *on_closed, void *user);

/* ---- ownership (sandbox/owner.c) ----------------------------------------------------- */

/* Installation id and lock files under `state_dir` (NULL: $CFRUNNER_STATE_DIR, else
 * $XDG_STATE_HOME/cfrunner, else ~/.local/state/cfrunner, else /var/tmp/cfrunner-<uid>). */
CF_CHECKED int cf_owner_open(const char *state_dir, struct cf_owner **ret_owner,
                             struct cf_error *err);
void cf_owner_close(struct cf_owner *owner);
const char *cf_owner_id(const struct cf_owner *owner);
const char *cf_owner_state_dir(const struct cf_owner *owner);
/* Takes and keeps the run's lock file; released (and removed) by end. */
CF_CHECKED int cf_owner_run_begin(struct cf_owner *owner, const char *run_id,
                                  struct cf_error *err);
void cf_owner_run_end(struct cf_owner *owner, const char *run_id);
/* The label object for one resource of a run; new reference. `deadline_unix` in seconds.
 * `sandbox_name`: the container's name for what belongs to one sandbox, NULL for what belongs
 * to the run. */
json_t *cf_owner_labels(const struct cf_owner *owner, const char *run_id,
                        const char *sandbox_name, int64_t deadline_unix);

/* Removes everything that carries `label` (e.g. "com.checkfu.runner.run=<id>") and whose
 * labels are wholly of our form: containers, volumes, networks, images; retries what is busy;
 * lists again, until `deadline_ms` from now. done comes once, in a later turn, whatever
 * happens. */
struct cf_sweep;
typedef void cf_sweep_done_fn(void *user, const struct cf_teardown *result);
int cf_sweep_open(uv_loop_t *loop, struct cf_engine *engine, const char *label,
                  uint64_t deadline_ms, cf_sweep_done_fn *done, void *user,
                  struct cf_sweep **ret_sweep, struct cf_error *err);
/* Moves the deadline nearer: at most `deadline_ms` from now. Only until done came. */
void cf_sweep_hurry(struct cf_sweep *sweep, uint64_t deadline_ms);

/*
 * Finds runs of this installation (or of any, with all_owners) that are dead by the rule of
 * sandbox/owner.h and removes what they left, at most `deadline_ms` long; dry_run only lists.
 * Only what carries all labels, each of its exact form, is touched. done comes once, with
 * status 0 when nothing (more) of a dead run is there or dry_run listed well, else -1 and
 * `err` (CF_ERROR_TEARDOWN; the report is there all the same). The report, borrowed until
 * return:
 * {"dead":[{"run","owner","why","created","deadline","resources":[{"kind","id","name"}...]}],
 *  "removed":[...],"left":[...]}, the last two as in cf_teardown. The engine must outlive it;
 * an engine that is closed ends it early.
 */
typedef void cf_reap_done_fn(void *user, int status, json_t *report,
                             const struct cf_error *err);
int cf_reap_open(uv_loop_t *loop, struct cf_engine *engine, struct cf_owner *owner,
                 bool all_owners, bool dry_run, uint64_t deadline_ms, cf_reap_done_fn *done,
                 void *user, struct cf_error *err);
/* Everything this owner holds, live and dead: [{"run","live":bool,"why","created","deadline",
 * "resources":[...]}]. Asks the engine only; removes nothing. */
int cf_owner_list(uv_loop_t *loop, struct cf_engine *engine, struct cf_owner *owner,
                  uint64_t deadline_ms, cf_reap_done_fn *done, void *user,
                  struct cf_error *err);

#endif
