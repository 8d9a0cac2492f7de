/*
 * sandbox/link.h: the driver's end of the conversation with cf-init, over the mux. Pure: bytes
 * from the attach stream's stdout are fed in, bytes for its stdin are taken out; the owner
 * moves them and keeps the clock. Everything that goes on inside a sandbox goes through here:
 * processes, signals, the relay's doors, files, facts.
 */
#ifndef CF_SANDBOX_LINK_H
#define CF_SANDBOX_LINK_H

#include "base/error.h"

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define CF_PAUSE 1 /* a data callback's answer: keep the bytes' credit until resume */

/* Callbacks may call anything here, cf_link_free included. A callback that hands over an
 * object may free that object. Bytes and JSON handed to a callback are borrowed until it
 * returns. */

struct cf_link;
struct cf_process;
struct cf_door;

struct cf_hello { /* what cf-init said first; borrowed while the link lives */
    char version[32];
    int protocol;
    unsigned uid, gid;
    uint64_t pids_limit; /* 0: none */
    char cgroup[16];     /* "v1", "v2", "none" */
    char arch[16];       /* uname machine */
    unsigned ports[8];   /* the doors it listens on, 127.0.0.1; 0 behind the last */
};

struct cf_link_events {
    /* There are bytes to take (cf_link_output). Comes when there were none before, and never
     * from inside cf_link_output and cf_link_output_taken: after these, look again. */
    void (*on_output)(void *user);
    void (*on_hello)(void *user, const struct cf_hello *hello);
    /* A connection to one of the relay's ports; accept it (cf_door_open) or it is reset. */
    void (*on_door)(void *user, struct cf_door *door, unsigned port);
    /* A named event from cf-init: "orphan" {"count","total"} were reaped, "disk"
     * {"used","limit"} is over its limit, "pids" {"refused","limit"}: so many processes were not
     * started, for the limit was reached (beside the answer to a ping), "bye". */
    void (*on_event)(void *user, const char *name, json_t *event);
    /* The peer broke the protocol (or flooded): nothing is read any more; tear the sandbox
     * down and call cf_link_end or cf_link_free. Once. */
    void (*on_broken)(void *user, const struct cf_error *err);
};

struct cf_link *cf_link_new(const struct cf_link_events *events, void *user);
/* Processes, doors and requests still open go with it, without a callback. */
void cf_link_free(struct cf_link *link);

/* Bytes from the attach stream's stdout. */
void cf_link_feed(struct cf_link *link, const char *bytes, size_t len);
/* The stream is over: processes get on_exit with `lost`, doors on_reset, requests `why`
 * (copied; NULL: the stream just ended). Nothing comes afterwards, and new requests fail at
 * once. Whether cf-init ended as it was asked to, cf_link_saw_bye tells. */
void cf_link_end(struct cf_link *link, const struct cf_error *why);
bool cf_link_saw_bye(const struct cf_link *link);
/* Bytes for the attach stream's stdin, at most 64 KiB at a time: borrowed, and unmoved
 * whatever is called meanwhile, until cf_link_output_taken says how many went out. 0: none
 * now. Gives room to writers: on_stdin_room, on_room and file transfers may run inside, unless
 * it is called from on_output or another callback: so no write of theirs is ever answered by
 * such a call inside it. */
size_t cf_link_output(struct cf_link *link, const char **ret_bytes);
void cf_link_output_taken(struct cf_link *link, size_t len);
/* Every 5 s; cf-init ends everything after 30 s without. */
void cf_link_ping(struct cf_link *link);
uint64_t cf_link_pongs(const struct cf_link *link);
/* So often memory had run out in the sandbox when a process's end was last told. */
uint64_t cf_link_oom_told(const struct cf_link *link);
const struct cf_hello *cf_link_hello(const struct cf_link *link); /* NULL before it came */

/* ---- processes ---------------------------------------------------------------------- */

struct cf_exit {
    bool lost;  /* the sandbox ended first; the rest is unknown */
    int code;   /* exit code, or -1 when a signal ended it */
    int signal; /* 0 when it exited by itself */
    bool core, oom_known; /* can that counter be read there? */
    uint64_t oom_kills; /* the cgroup's oom_kill counter, after minus before this process */
    uint64_t pids_refused; /* meanwhile not started in the sandbox, for its limit was reached */
    uint64_t user_us, system_us, max_rss_bytes;
};

struct cf_start_failure {
    char phase[16];   /* "fork", "streams", "limits", "chdir", "exec", or "request": cf-init
                         refused */
    int error;        /* errno */
    char detail[200]; /* what cf-init found: "interpreter /bin/bash is not in the image",
                         "ELF for aarch64", ...; may be empty */
};

/* Order: on_started or on_start_failed first. on_exit may come before the last output: a
 * process is over when on_exit, on_stdout_end and on_stderr_end have come (a child that left
 * its session may hold its output open for long). After on_start_failed, or a lost exit,
 * nothing comes. Any member may be NULL. */
struct cf_process_events {
    void (*on_started)(void *user, struct cf_process *process, int pid);
    void (*on_start_failed)(void *user, struct cf_process *process,
                            const struct cf_start_failure *why);
    /* Return 0, or CF_PAUSE: the bytes were taken, but no more credit is granted for that
     * stream until cf_process_resume. */
    int (*on_stdout)(void *user, struct cf_process *process, const char *bytes, size_t len);
    int (*on_stderr)(void *user, struct cf_process *process, const char *bytes, size_t len);
    void (*on_stdout_end)(void *user, struct cf_process *process);
    void (*on_stderr_end)(void *user, struct cf_process *process);
    void (*on_stdin_room)(void *user,
                          struct cf_process *process); /* write may take bytes again */
    void (*on_stdin_closed)(void *user,
                            struct cf_process *process); /* nobody reads it any more */
    void (*on_exit)(void *user, struct cf_process *process, const struct cf_exit *exit);
};

struct cf_spawn {
    const char *const *argv; /* NULL-terminated, argv[0] is the absolute program; copied */
    const char *const
        *env;        /* "K=V", NULL-terminated, over the image's own; may be NULL; copied */
    const char *cwd; /* absolute; NULL: "/"; copied */
    bool with_stdin; /* else stdin is at its end at once */
    uint64_t nofile; /* 0: 4096 */
};

/* A string over 131,071 bytes, or all of them over what one message carries, is refused here
 * with its own message (CF_ERROR_TOO_LARGE), one that is not UTF-8 too (CF_ERROR_CONFIG). The
 * process is yours to free, in any state; `events` is static storage. */
CF_CHECKED int cf_process_spawn(struct cf_link *link, const struct cf_spawn *spawn,
                                const struct cf_process_events *events, void *user,
                                struct cf_process **ret_process, struct cf_error *err);
/* Takes what credit and queue allow; returns how many bytes were taken (copied). Fewer than
 * len: wait for on_stdin_room. 0 for ever once on_stdin_closed came. */
size_t cf_process_write(struct cf_process *process, const char *bytes, size_t len);
void
cf_process_close_stdin(struct cf_process *process);   /* after what was written; half-close */
int cf_process_pid(const struct cf_process *process); /* 0 before on_started */
void cf_process_resume(struct cf_process *process);
void cf_process_signal(struct cf_process *process, int signal); /* its session */
/* Forget it: no callback any more. Does not end the process: its stdin ends, its output is
 * thrown away from now on. NULL is fine. */
void cf_process_free(struct cf_process *process);

/*
 * Requests. Each returns 0 and then calls `done` exactly once (which may be NULL), later, from
 * inside another link call; or it returns <0 with `err` filled and never calls it. status 0
 * comes with the answer, <0 with `err` (its code the errno inside the sandbox, where there was
 * one). cf-init takes 64 at a time; what is asked beyond waits here, in order, up to 4,096.
 */
typedef void cf_link_done_fn(void *user, int status, json_t *answer,
                             const struct cf_error *err);
/* Signals every process but pid 1 (what called setsid is reached by this only). */
CF_CHECKED int cf_link_signal_all(struct cf_link *link, int signal, cf_link_done_fn *done,
                                  void *user, struct cf_error *err);
/* Kill all, reap until none is left, say bye, exit. The stream ends afterwards. Does not wait
 * behind other requests. */
CF_CHECKED int cf_link_shutdown(struct cf_link *link, struct cf_error *err);
/* {"processes" of ours alive, "pids" in the cgroup, "oom_kills", "memory_bytes",
 * "memory_limit_bytes", "disk_bytes", "orphans", "channels"} */
CF_CHECKED int cf_link_facts(struct cf_link *link, cf_link_done_fn *done, void *user,
                             struct cf_error *err);

/* ---- files, as the harness's own user, beneath a root, regular files only ----------- */

/* {"real" path (of one that is not there: where it would be), "exists", "type" ("file",
 * "folder", "symlink", "fifo", "socket", "device", "none"), "mode", "uid", "gid", "size",
 * "writable"} */
CF_CHECKED int cf_link_stat(struct cf_link *link, const char *path, cf_link_done_fn *done,
                            void *user, struct cf_error *err);
/* root/path and what is missing above it, beneath root; there already is fine. */
CF_CHECKED int cf_link_mkdir(struct cf_link *link, const char *root, const char *path,
                             unsigned mode, cf_link_done_fn *done, void *user,
                             struct cf_error *err);
/* Creates or replaces the content of root/path; bytes go out as credit allows: borrowed until
 * done. */
CF_CHECKED int cf_link_write_file(struct cf_link *link, const char *root, const char *path,
                                  unsigned mode, const char *bytes, size_t len,
                                  cf_link_done_fn *done, void *user, struct cf_error *err);
/* Unlinks one name, not a folder; a symlink itself and not its target; absent is fine. */
CF_CHECKED int cf_link_unlink(struct cf_link *link, const char *root, const char *path,
                              cf_link_done_fn *done, void *user, struct cf_error *err);
/* A symlink at root/path whose text is `target`, whatever that leads to; replaces nothing. */
CF_CHECKED int cf_link_symlink(struct cf_link *link, const char *root, const char *path,
                               const char *target, cf_link_done_fn *done, void *user,
                               struct cf_error *err);
/* Return 0; or -1 to give up: done comes with CF_ERROR_CANCELED then. For cf_link_download
 * also CF_PAUSE: the bytes were taken, their credit stays until cf_transfer_resume. */
typedef int cf_link_bytes_fn(void *user, const char *bytes, size_t len);
/* A regular file of up to `limit_bytes`; CF_ERROR_TOO_LARGE beyond. done, with {"size"}, after
 * the last byte. `path` may be any bytes. */
CF_CHECKED int cf_link_read_file(struct cf_link *link, const char *root, const char *path,
                                 uint64_t limit_bytes, cf_link_bytes_fn *on_bytes,
                                 cf_link_done_fn *done, void *user, struct cf_error *err);
/* The first `head_bytes` of a regular file of any size, or all of a smaller one. */
CF_CHECKED int cf_link_read_head(struct cf_link *link, const char *root, const char *path,
                                 uint64_t head_bytes, cf_link_bytes_fn *on_bytes,
                                 cf_link_done_fn *done, void *user, struct cf_error *err);
/*
 * The same two, for who does not hold the file's bytes whole. The transfer is gone once done
 * was called, or by cf_transfer_abandon: then done never comes. *ret_transfer is set before
 * anything is called back.
 */
struct cf_transfer;
typedef void cf_link_room_fn(void *user); /* cf_transfer_put may take bytes again */
/* Exactly `size` bytes follow by cf_transfer_put; done when the file holds them. */
CF_CHECKED int cf_link_upload(struct cf_link *link, const char *root, const char *path,
                              unsigned mode, uint64_t size, cf_link_room_fn *on_room,
                              cf_link_done_fn *done, void *user,
                              struct cf_transfer **ret_transfer, struct cf_error *err);
CF_CHECKED int cf_link_download(struct cf_link *link, const char *root, const char *path,
                                uint64_t limit_bytes, cf_link_bytes_fn *on_bytes,
                                cf_link_done_fn *done, void *user,
                                struct cf_transfer **ret_transfer, struct cf_error *err);
/* Taken now (copied); fewer than len: wait for on_room, which comes a first time by itself. */
size_t cf_transfer_put(struct cf_transfer *transfer, const char *bytes, size_t len);
void cf_transfer_resume(struct cf_transfer *transfer);
void cf_transfer_abandon(struct cf_transfer *transfer); /* NULL is fine */
/* Everything beneath root, streamed as NDJSON {"p","i","s","m","c","t","o"}: path, inode,
 * size, mtime and ctime in ns, type f, d, l or o, st_mode; a path that is not UTF-8 is
 * repaired in "p" and exact, as hex, in "x"; a folder that was not entered says why in "e", an
 * errno (ELOOP: too deep). done with {"entries","truncated","over"}: over max_entries;
 * truncated is that, or a folder that was not entered. */
CF_CHECKED int cf_link_manifest(struct cf_link *link, const char *root, uint64_t max_entries,
                                cf_link_bytes_fn *on_bytes, cf_link_done_fn *done, void *user,
                                struct cf_error *err);
/* Watch disk use: what changed beneath these folders (NULL-terminated; each without other
 * mounts, so "/" is the layer and volumes are named beside it), /tmp where it is a tmpfs, and
 * open files without a name. Event "disk" {"used","limit"} when past the limit. Replaces an
 * earlier watch. */
CF_CHECKED int cf_link_disk_watch(struct cf_link *link, uint64_t limit_bytes,
                                  const char *const *folders, cf_link_done_fn *done,
                                  void *user, struct cf_error *err);

/* ---- doors: connections to the relay from inside ------------------------------------ */

struct cf_door_events {
    /* Its credit comes back by cf_door_consumed, now or later; the return value says nothing.
     */
    int (*on_data)(void *user, struct cf_door *door, const char *bytes, size_t len);
    void (*on_end)(void *user, struct cf_door *door);   /* the peer will write no more */
    void (*on_reset)(void *user, struct cf_door *door); /* gone; close it */
    void (*on_room)(void *user, struct cf_door *door);  /* write may take bytes again */
};
/* Accepts it, inside on_door. The door is yours until cf_door_close; `events` is static
 * storage. */
void cf_door_open(struct cf_door *door, const struct cf_door_events *events, void *user);
size_t cf_door_write(struct cf_door *door, const char *bytes,
                     size_t len); /* taken now; 0: wait */
void cf_door_consumed(struct cf_door *door, size_t len);
void cf_door_shutdown(struct cf_door *door); /* half-close after what was written */
/* No callback any more. After cf_door_shutdown what was written still arrives, whatever the
 * peer sends is thrown away; without it, a connection still open is reset. NULL is fine. */
void cf_door_close(struct cf_door *door);

#endif
