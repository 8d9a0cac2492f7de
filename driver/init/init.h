/*
 * init/init.h: cf-init, the static program that is pid 1 in a sandbox. One loop, one thread,
 * one stream: its stdin and stdout carry the mux to the driver, and everything that goes on
 * inside the sandbox is asked for over it. It runs as the image's user without any capability,
 * next to programs of the same user that may be hostile; what they could do to it is closed
 * off before the first of them starts (harden.c).
 *
 * It never waits for anybody: every descriptor is non-blocking, watched edge-triggered, and
 * each knows by a flag whether it is worth trying.
 */
#ifndef CF_INIT_INIT_H
#define CF_INIT_INIT_H

#include "base/str.h"
#include "mux/mux.h"

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <time.h>

#define CF_INIT_EXIT_DEAD_MAN 70 /* stdin ended, or the pings did */
#define CF_INIT_EXIT_OWN_FAULT 71
#define CF_INIT_EXIT_PROTOCOL 72 /* the driver broke the protocol */
#define CF_INIT_PORTS_MAX 8
#define CF_INIT_DOORS_MAX 512
#define CF_INIT_PROCESSES_MAX 128

struct cf_init;

/* ---- loop.c ------------------------------------------------------------------------- */

/* A descriptor the loop watches. on_event gets what epoll said, once an edge. */
struct cf_watch {
    int fd; /* -1: none; events still under way are dropped */
    void (*on_event)(struct cf_init *init, struct cf_watch *watch, uint32_t events);
};

int cf_watch_add(struct cf_init *init, struct cf_watch *watch,
                 uint32_t events);                                 /* -1: errno */
void cf_watch_close(struct cf_init *init, struct cf_watch *watch); /* and its descriptor */

/* ---- stream.c: a channel and the descriptor (or maker of bytes) at its inner end ---- */

struct cf_stream;

struct cf_stream_ops {
    /* A source: bytes for the driver, 0 at the end, -1 with errno (EAGAIN: not now). */
    ssize_t (*fill)(struct cf_stream *stream, char *to, size_t len);
    /* A sink: takes bytes from the driver, -1 with errno (EAGAIN: not now). */
    ssize_t (*drain)(struct cf_stream *stream, const char *bytes, size_t len);
    /* The driver sends no more and all of it was drained. */
    void (*on_sink_end)(struct cf_stream *stream);
    /* Over before its end: `error` is the errno of fill or drain, or 0 for the driver's reset.
     * The stream goes right after. */
    void (*on_broken)(struct cf_stream *stream, int error);
    void (*on_free)(struct cf_stream *stream); /* frees what `user` holds */
    bool is_reset_discarding; /* after a reset go on reading, and throw it away */
    bool is_pipe; /* a fill that brings less than it may has emptied it */
};

struct cf_stream {
    struct cf_mux_channel channel;
    struct cf_watch watch;
    struct cf_init *init;
    const struct cf_stream_ops
        *ops; /* NULL: opened by the driver, not yet bound to anything */
    void *user;
    struct cf_mux_bytes held; /* within credit, waits for the sink */
    bool is_readable, is_writable, is_ready, is_discarding, is_source_over, is_sink_over,
        is_dead, is_hung_up;
    TAILQ_ENTRY(cf_stream) in_ready; /* sources that may have bytes, in turn */
    SLIST_ENTRY(cf_stream) in_dead;
};
TAILQ_HEAD(cf_stream_list, cf_stream);
SLIST_HEAD(cf_stream_dead, cf_stream);

extern const struct cf_mux_events cf_stream_mux_events;

struct cf_stream *cf_stream_new(struct cf_init *init); /* NULL: memory */
/* Gives an open channel its inner end. `fd` is taken (-1: none, always ready). */
int cf_stream_bind(struct cf_stream *stream, const struct cf_stream_ops *ops, void *user,
                   int fd);
/* The unbound stream that the driver opened as channel `id`, or NULL. */
struct cf_stream *cf_stream_unbound(struct cf_init *init, json_int_t id);
void cf_stream_mark_readable(struct cf_stream *stream);
/* Ends it now; the driver hears a reset where a direction was open. Freed at the turn's end.
 */
void cf_stream_end(struct cf_stream *stream);
/* Moves bytes of the next source in turn towards the driver; false: nothing to do or no room.
 */
bool cf_stream_pump(struct cf_init *init);
void cf_stream_bury(struct cf_init *init); /* frees those that ended in this turn */

/* ---- control.c: requests and answers ------------------------------------------------ */

int cf_control_take(struct cf_init *init, const char *bytes, size_t len, struct cf_error *err);
/* Both answer request `id`. `body` is taken and may be NULL for an empty answer. */
void cf_control_answer(struct cf_init *init, json_int_t id, json_t *body);
void cf_control_refuse(struct cf_init *init, json_int_t id, int error, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));
void cf_control_event(struct cf_init *init, json_t *event); /* taken */
/* Answers that have left make room for further requests. */
void cf_control_count_sent(struct cf_init *init);

/* ---- process.c, spawn.c, explain.c -------------------------------------------------- */

struct cf_child { /* one that the driver asked for */
    LIST_ENTRY(cf_child) in_list;
    struct cf_init *init;
    pid_t pid;
    json_int_t request; /* to answer once exec has happened or failed */
    bool has_started;
    struct cf_watch status;           /* the close-on-exec pipe that tells */
    struct cf_stream *in, *out, *err; /* until it has started */
    char *program, *cwd;
    uint64_t oom_before, refused_before;
};
LIST_HEAD(cf_child_list, cf_child);

enum cf_spawn_phase {
    CF_SPAWN_FORK = 1,
    CF_SPAWN_STREAMS,
    CF_SPAWN_LIMITS,
    CF_SPAWN_CHDIR,
    CF_SPAWN_EXEC
};
struct cf_spawn_failure {
    int phase, error;
};
struct cf_spawn_plan {
    char **argv, **env;
    const char *cwd;
    int in, out, err, status;
    uint64_t nofile;
};

/* In the child: never returns. */
void cf_spawn_exec(const struct cf_spawn_plan *plan) __attribute__((noreturn));
/* Why the program could not be run, from looking at the file; `out` may become empty. */
void cf_spawn_explain(const char *program, const char *cwd, const struct cf_spawn_failure *why,
                      char *out, size_t size);

void cf_process_spawn_request(struct cf_init *init, json_int_t id, json_t *request);
void cf_process_signal_request(struct cf_init *init, json_int_t id, json_t *request);
/* Reports what ended; true when no child, own or adopted, is left at all. */
bool cf_process_reap(struct cf_init *init);
/* kill(-1): only ever as pid 1, where "all" is this sandbox. */
int cf_process_kill_all(int signal);

/* ---- env.c -------------------------------------------------------------------------- */

/* The image's environment without proxies, NO_PROXY for loopback, `extra` over it. Returned:
 * yours (one block: free). NULL: memory or not strings. */
char **cf_env_make(char *const *own, json_t *extra);
char **cf_strings_from(json_t *array, size_t most); /* the same for argv */

/* ---- door.c ------------------------------------------------------------------------- */

struct cf_listener {
    struct cf_watch watch;
    unsigned port;
    bool is_readable;
};
int cf_door_listen(struct cf_init *init, unsigned port); /* -1: errno */
void cf_door_accept(struct cf_init *init);

/* ---- cgroup.c ----------------------------------------------------------------------- */

struct cf_cgroup {    /* descriptors opened before any foreign process ran; -1: not there */
    const char *kind; /* "v1", "v2", "none" */
    int oom, memory, memory_max, pids, pids_max, pids_events;
};
void cf_cgroup_open(struct cf_cgroup *cgroup);
uint64_t cf_cgroup_oom_kills(const struct cf_cgroup *cgroup);
/* Processes and threads that were not started, for the limit was reached. */
uint64_t cf_cgroup_pids_refused(const struct cf_cgroup *cgroup);
uint64_t cf_cgroup_number(int fd); /* 0 for "max" and for none */

/* ---- files.c, beneath.c, manifest.c ------------------------------------------------- */

int cf_beneath_root(const char *root);
/* Opens `path` beneath the folder `root_fd`; symlinks only where they stay beneath. -1: errno.
 */
int cf_beneath_open(int root_fd, const char *path, int flags, mode_t mode);
/* The folder of path's last name, and that name (points into path). */
int cf_beneath_parent(int root_fd, const char *path, const char **ret_name);

void cf_files_stat(struct cf_init *init, json_int_t id, json_t *request);
void cf_files_mkdir(struct cf_init *init, json_int_t id, json_t *request);
void cf_files_unlink(struct cf_init *init, json_int_t id, json_t *request);
void cf_files_symlink(struct cf_init *init, json_int_t id, json_t *request);
void cf_files_write(struct cf_init *init, json_int_t id, json_t *request);
void cf_files_read(struct cf_init *init, json_int_t id, json_t *request);
void cf_files_manifest(struct cf_init *init, json_int_t id, json_t *request);
/* Member "path", or "path_hex" for names that are not UTF-8; yours, NULL when neither is
 * there. */
char *cf_files_path(json_t *request, const char *name);

/* ---- walk.c: a folder and all beneath it, entry by entry, never through a symlink --- */

struct cf_walk_entry {
    const char
        *path; /* from the root, without a leading slash; borrowed until the next call */
    struct stat info;
    int error; /* a folder that will not be entered: why; else 0 */
};
struct cf_walk;
/* NULL with errno. `is_one_filesystem`: other mounts are named, not entered; without it all
 * are but the kernel's own (proc, sysfs, ...). */
struct cf_walk *cf_walk_open(const char *root, bool is_one_filesystem);
/* Leaves out these folders, by device and inode. At most CF_WALK_SKIPS. */
void cf_walk_skip(struct cf_walk *walk, dev_t device, ino_t inode);
bool cf_walk_next(struct cf_walk *walk, struct cf_walk_entry *ret_entry); /* false: the end */
bool cf_walk_was_cut(const struct cf_walk *walk); /* too deep, or a folder could not be read */
void cf_walk_free(struct cf_walk *walk);
#define CF_WALK_SKIPS 20

/* ---- disk.c ------------------------------------------------------------------------- */

struct cf_disk;
void cf_disk_watch(struct cf_init *init, json_int_t id, json_t *request);
uint64_t cf_disk_used(const struct cf_init *init);
/* Does a slice of the work when it is due; returns milliseconds until the next one. */
int64_t cf_disk_tick(struct cf_init *init, uint64_t now_ms);
/* A process has ended, which wrote so many bytes: what it left behind is told before its end is, at
 * the cost of a pass (a second at most) where it may be past the limit. */
void cf_disk_last_look(struct cf_init *init, uint64_t written);

/* ---- harden.c, seccomp.c ------------------------------------------------------------ */

int cf_harden(struct cf_init *init, const char **ret_what); /* -1: errno, and what failed */
void cf_harden_restore(struct cf_init *init);
int cf_seccomp_install(void);
/* Memory that fork leaves out of the child. */
void *cf_private_resize(void *old, size_t old_size, size_t new_size);

/* ---- the program -------------------------------------------------------------------- */

#define CF_INIT_MARKS 128
struct cf_init {
    int epoll_fd;
    struct cf_mux mux;
    struct cf_watch in, out, signals;
    bool is_in_readable, is_out_writable, is_child_waiting;
    char *in_buffer; /* private memory */

    struct cf_stream_list ready;
    struct cf_stream_dead dead;
    struct cf_child_list children;
    unsigned child_count, door_count;
    struct cf_listener listeners[CF_INIT_PORTS_MAX];
    unsigned listener_count;
    bool is_accept_due; /* more connections wait than one turn takes */

    uint64_t marks[CF_INIT_MARKS]; /* where in the urgent queue each unsent answer ends */
    unsigned mark_first, mark_count, unanswered;
    uint64_t orphans, orphans_told, refused_told;

    struct cf_cgroup cgroup;
    struct cf_disk *disk;
    int oom_score_fd;
    char oom_score[16];
    struct timespec
        started_at; /* by the clock of file times: what changed since is the run's */

    uint64_t ping_timeout_ms, last_ping_ms;
    uint64_t shutdown_deadline_ms; /* 0: not asked */
    bool is_killed, has_said_bye;
    int exit_code; /* -1: go on */
};

/* Kill all, reap, exit with `code`; `why` goes to stderr. The loop ends at this turn's end. */
void cf_init_end(struct cf_init *init, int code, const char *why);
int cf_init_run(struct cf_init *init);

#endif
