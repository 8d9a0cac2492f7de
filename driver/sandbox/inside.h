/*
 * sandbox/inside.h: the inside of `struct cf_sandbox`, for the files that together tell its
 * story:
 *
 *     provision.c  the table: down is making it, up is taking it away
 *     probe.c      what the archive API says about paths in the image, before anything runs
 *     seed.c       a container that becomes an image, for many sandboxes to be made from
 *     content.c    what the program needs in order to run, asked of cf-init after its hello
 *     workdir.c    the working directory: made, or given to the harness's user
 *     stream.c     the attach stream and the link: bytes both ways, pings
 *     hark.c       it is silent: does it live?
 *     demise.c     it ended under us: by whom
 *     teardown.c   the way up: stop, remove, list again
 *     sandbox.c    the door
 */
#ifndef CF_SANDBOX_INSIDE_H
#define CF_SANDBOX_INSIDE_H

#include "base/tail.h"
#include "loop/steps.h"
#include "sandbox/hostview.h"
#include "sandbox/inforce.h"
#include "sandbox/labels.h"
#include "sandbox/pathstat.h"
#include "sandbox/plan.h"
#include "sandbox/sandbox.h"

enum {
    CF_ROW_VERIFY,
    CF_ROW_IMAGE,
    CF_ROW_VOLUMES,
    CF_ROW_CREATE,
    CF_ROW_INSPECT,
    CF_ROW_PUT,
    CF_ROW_ATTACH,
    CF_ROW_WAIT,
    CF_ROW_START,
    CF_ROW_HELLO,
    CF_ROW_PROGRAM,
    CF_ROW_WORKDIR,
    CF_ROWS
};
enum { CF_SEED_ROWS = CF_ROW_PUT + 2 }; /* the same rows up to there, then the commit */

#define CF_PREFIX_MOST \
    16 /* components of a working directory that are looked at before start */
#define CF_OUT_BYTES (64u * 1024u)
#define CF_PING_EVERY_MS 5000u
#define CF_SILENCE_PINGS 6u /* so many unanswered in a row: nobody is there */

struct cf_probe;   /* probe.c */
struct cf_content; /* content.c */

struct cf_volume_slot { /* one VOLUME, while it is created or removed */
    struct cf_sandbox *sandbox;
    struct cf_engine_call *call;
    bool is_sent, is_uncertain, is_removed;
};

struct cf_prefix_slot { /* one folder on the way to the working directory */
    struct cf_sandbox *sandbox;
    struct cf_engine_call *call;
    char *path;
    bool is_absent, is_folder;
};

struct cf_sandbox {
    uv_loop_t *loop;
    struct cf_engine *engine;
    struct cf_sandbox_options options; /* strings and env are copies of ours */
    struct cf_sandbox_events events;
    void *user;
    const struct cf_log *log;

    struct cf_steps steps;
    uv_timer_t start_timer; /* the whole way down */
    uv_timer_t work_timer;  /* one wait at a time of the way up, or of a demise */
    uv_timer_t ping_timer;
    uv_timer_t hark_timer;
    int handles_open;

    /* one row's operations: it settles when all have ended, with the first error */
    int row_pending, row_status;
    struct cf_engine_call *call; /* the row's only call, where it has one */

    char name[64];
    struct cf_plan plan;
    bool is_planned;
    json_t *inspect; /* of the created container: what is in force */
    char *container_id;
    bool create_sent, create_uncertain, container_removed;
    struct cf_error create_error; /* while a create without an answer is looked up */
    struct cf_volume_slot volumes[CF_PLAN_VOLUMES_MOST];
    struct cf_prefix_slot prefixes[CF_PREFIX_MOST];
    size_t prefix_count;
    struct cf_probe *probe;
    char *entry_resolved; /* the entrypoint, its last symlinks followed */
    struct cf_tar *tar;
    bool workdir_in_tar;
    char *seed_image;
    bool commit_uncertain;

    struct cf_attach *attach;
    struct cf_link *link;
    char *out; /* bytes of a write under way: the attach borrows them */
    bool is_writing, stream_over;
    struct cf_tail stderr_tail; /* what cf-init itself said: a courtesy, for diagnosis */
    unsigned unanswered_pings;
    uint64_t pongs;

    struct cf_engine_call *wait_call;
    bool wait_pending, wait_head, wait_undone_awaited, exit_seen, link_over;
    bool start_sent, start_refused, hello_seen, hello_awaited;
    struct cf_content *content;
    void *question; /* workdir.c: the one under way to cf-init */
    char *workdir_real, *ancestor;
    char *working_directory; /* the real one, once it stands */

    bool is_ready, is_failed, is_told, is_closing, stop_awaited, is_over, is_ending;
    bool demise_begun, was_killed_by_engine, was_oom;
    int killed_by_signal;
    struct cf_error stream_error; /* why the stream ended; kind NONE: end of file */
    int loose_calls;              /* kill and inspect calls that belong to no row */
    struct cf_engine_call *kill_call, *demise_call, *hark_call;
    cf_sandbox_heard_fn *on_heard; /* hark.c */
    void *heard_user;
    uint64_t hark_pongs, hark_until_ms;
    json_t *end_state;

    uint64_t grace_ms, up_deadline_ms; /* absolute (cf_clock_ms), once the way up began */
    uint64_t up_began_ms, row_began_us;
    struct cf_sweep *sweep;
    json_t *removed, *left;
    bool is_proven;
    char cgroup[CF_HOSTVIEW_PATH]; /* as this host shows it; "": it does not */
    uint64_t host_until_ms;
    const char *host; /* what the teardown's last look came to */
    cf_sandbox_closed_fn *on_closed;
    void *closed_user;
};

/* ---- rows (provision.c) -------------------------------------------------------------- */
extern const struct cf_step cf_provision[CF_ROWS];
extern const struct cf_step cf_provision_seed[CF_SEED_ROWS];
static inline struct cf_sandbox *
cf_sandbox_of(struct cf_steps *steps)
{
    return (struct cf_sandbox *)((char *)steps - offsetof(struct cf_sandbox, steps));
}
/* A row of several operations: begin, then add for each that was started, then part for each
 * that ended and once for the beginning. The last part settles the row. */
void cf_row_begin(struct cf_sandbox *sb);
void cf_row_add(struct cf_sandbox *sb);
void cf_row_part(struct cf_sandbox *sb, int status, const struct cf_error *err);
/* A row with one call, sb->call: it has ended. */
void cf_row_settle_call(struct cf_sandbox *sb, int status, const struct cf_error *err);
void cf_row_abort_patiently(struct cf_steps *steps); /* for a call that changes something */

/* Makes an engine's refusal to run as the image's user the image's own mistake. */
void cf_explain_user(const struct cf_sandbox *sb, struct cf_error *err);

/* ---- probe.c: row "inspect container" beside the inspection -------------------------- */
int cf_probe_begin(struct cf_sandbox *sb,
                   struct cf_error *err); /* adds its parts to the row */
void cf_probe_abort(struct cf_sandbox *sb);
void cf_probe_release(struct cf_sandbox *sb);
/* True when the working directory is not there and every folder above it is plain or absent
 * too. */
bool cf_probe_workdir_is_free(const struct cf_sandbox *sb);

/* ---- seed.c: the last row of a seed, and its undo -------------------------------------- */
int cf_seed_commit(struct cf_steps *steps, struct cf_error *err);
int cf_undo_commit(struct cf_steps *steps, struct cf_error *err);

/* ---- content.c and workdir.c: rows --------------------------------------------------- */
int cf_content_start(struct cf_steps *steps, struct cf_error *err);
void cf_content_abort(struct cf_steps *steps);
int cf_workdir_start(struct cf_steps *steps, struct cf_error *err);
void cf_workdir_abort(struct cf_steps *steps);

/* ---- stream.c ------------------------------------------------------------------------ */
int cf_stream_attach(struct cf_sandbox *sb,
                     struct cf_error *err); /* settles the row at its head */
void cf_stream_pump(struct cf_sandbox *sb);
void cf_stream_ping_begin(struct cf_sandbox *sb);

/* ---- demise.c ------------------------------------------------------------------------ */
/* The stream, the wait or the pings say that it is over. Finds out why, then fails the
 * sandbox. */
void cf_demise_begin(struct cf_sandbox *sb);
/* Fails it: the row under way, or on_failed. Idempotent. */
void cf_sandbox_fail(struct cf_sandbox *sb, const struct cf_error *err);

/* ---- teardown.c: undos --------------------------------------------------------------- */
int cf_undo_start(struct cf_steps *steps, struct cf_error *err);
int cf_undo_wait(struct cf_steps *steps, struct cf_error *err);
int cf_undo_attach(struct cf_steps *steps, struct cf_error *err);
int cf_undo_create(struct cf_steps *steps, struct cf_error *err);
int cf_undo_volumes(struct cf_steps *steps, struct cf_error *err);
int cf_undo_verify(struct cf_steps *steps, struct cf_error *err);
void cf_teardown_tell_removed(struct cf_sandbox *sb, const char *kind, const char *id, const char *name);
/* The row's calls are given up after `ms`, or when the grace is over. */
void cf_teardown_bound_calls(struct cf_sandbox *sb, uint64_t ms);
void cf_teardown_on_exit(struct cf_sandbox *sb); /* the container ended, or the stream did */
void cf_teardown_hurry(struct cf_sandbox *sb);
uint64_t cf_teardown_remaining_ms(const struct cf_sandbox *sb);

#endif
