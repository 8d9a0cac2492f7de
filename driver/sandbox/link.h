/*
 * sandbox/link.h: the driver's end of the conversation with cf-init, over the mux. Pure: bytes
 * from the attach stream's stdout are fed in, bytes for its stdin are taken out; the owner moves
 * them and keeps the clock. Everything that goes on inside a sandbox goes through here:
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
};

struct cf_link_events {
    void (*on_output)(void *user);   /* there are bytes to take (cf_link_output) */
    void (*on_hello)(void *user, const struct cf_hello *hello);
    /* A connection to one of the relay's ports; accept it (cf_door_open) or it is reset. */
    void (*on_door)(void *user, struct cf_door *door, unsigned port);
    /* One named event from cf-init that is not an answer: "orphan" reaped, "disk" over the limit,
     * ... `event` is borrowed until return. */
    void (*on_event)(void *user, const char *name, json_t *event);
    /* The peer broke the protocol (or flooded): the link is dead; tear the sandbox down. Once. */
    void (*on_broken)(void *user, const struct cf_error *err);
};

struct cf_link *cf_link_new(const struct cf_link_events *events, void *user);
/* Processes, doors and requests still open go with it, without a callback. */
void cf_link_free(struct cf_link *link);

/* Bytes from the attach stream's stdout. */
void cf_link_feed(struct cf_link *link, const char *bytes, size_t len);
/* The stream is over: processes get on_exit with `lost`, doors on_reset, requests their error.
 * `saw_bye` tells whether cf-init ended of its own will. */
void cf_link_end(struct cf_link *link, const struct cf_error *why);
bool cf_link_saw_bye(const struct cf_link *link);
/* Bytes for the attach stream's stdin: peek (borrowed until the next link call), then say how
 * many were taken. */
size_t cf_link_output(struct cf_link *link, const char **ret_bytes);
void cf_link_output_taken(struct cf_link *link, size_t len);
/* Every 5 s; cf-init ends everything after 30 s without. */
void cf_link_ping(struct cf_link *link);
uint64_t cf_link_pongs(const struct cf_link *link);
const struct cf_hello *cf_link_hello(const struct cf_link *link); /* NULL before it came */

/* ---- processes ------------------------------------------------------------------------- */

struct cf_exit {
    bool lost;            /* the sandbox ended first; the rest is unknown */
    int code;             /* exit code, or -1 when a signal ended it */
    int signal;           /* 0 when it exited by itself */
    bool core;
    uint64_t oom_kills;   /* the cgroup's oom_kill counter, after minus before this process */
    uint64_t user_us, system_us, max_rss_bytes;
};

struct cf_start_failure {
    char phase[16]; /* "fork", "chdir", "limits", "exec" */
    int error;      /* errno */
    char detail[200]; /* what cf-init found: "interpreter /bin/bash is not in the image",
                         "ELF for aarch64", ...; may be empty */
};

struct cf_process_events {
    void (*on_started)(void *user, struct cf_process *process, int pid);
    void (*on_start_failed)(void *user, struct cf_process *process, const struct cf_start_failure *why);
    /* Return 0, or CF_PAUSE: the bytes were taken, but no more credit is granted for that stream
     * until cf_process_resume. */
    int (*on_stdout)(void *user, struct cf_process *process, const char *bytes, size_t len);
    int (*on_stderr)(void *user, struct cf_process *process, const char *bytes, size_t len);
    void (*on_stdout_end)(void *user, struct cf_process *process);
    void (*on_stderr_end)(void *user, struct cf_process *process);
    void (*on_stdin_room)(void *user, struct cf_process *process); /* write may take bytes again */
    void (*on_stdin_closed)(void *user, struct cf_process *process); /* nobody reads it any more */
    void (*on_exit)(void *user, struct cf_process *process, const struct cf_exit *exit);
};

struct cf_spawn {
    const char *const *argv; /* NULL-terminated, argv[0] is the absolute program; copied */
    const char *const *env;  /* "K=V", NULL-terminated, added to / over the image's own; copied */
    const char *cwd;         /* absolute; copied */
    bool with_stdin;         /* else stdin is at its end at once */
    uint64_t nofile;         /* 0: 4096 */
};

/* Each string over 131,071 bytes is refused here with its own message (CF_ERROR_TOO_LARGE). The
 * process object is the link's until cf_process_free. */
CF_CHECKED int cf_process_spawn(struct cf_link *link, const struct cf_spawn *spawn,
                                const struct cf_process_events *events, void *user,
                                struct cf_process **ret_process, struct cf_error *err);
/* Takes what credit and queue allow; returns how many bytes were taken (0: wait for room). */
size_t cf_process_write(struct cf_process *process, const char *bytes, size_t len);
void cf_process_close_stdin(struct cf_process *process); /* after what was written; half-close */
void cf_process_resume(struct cf_process *process);
void cf_process_signal(struct cf_process *process, int signal); /* its session */
/* Forget it: no callback any more. Does not end the process. NULL is fine. */
void cf_process_free(struct cf_process *process);

/* Signals every process but pid 1 (what called setsid is reached by this only). done may be NULL. */
typedef void cf_link_done_fn(void *user, int status, json_t *answer, const struct cf_error *err);
int cf_link_signal_all(struct cf_link *link, int signal, cf_link_done_fn *done, void *user, struct cf_error *err);
/* Kill all, reap until none is left, say bye, exit. The stream ends afterwards. */
int cf_link_shutdown(struct cf_link *link, struct cf_error *err);
/* Processes alive, oom counter, memory and disk use, ...: `answer` borrowed until return. */
int cf_link_facts(struct cf_link *link, cf_link_done_fn *done, void *user, struct cf_error *err);

/* ---- files, as the harness's own user, beneath a root, regular files only ---------------- */

/* Real path, type, mode, owner, writable: {"real","type","mode","uid","gid","writable","exists"} */
int cf_link_stat(struct cf_link *link, const char *path, cf_link_done_fn *done, void *user, struct cf_error *err);
int cf_link_mkdir(struct cf_link *link, const char *root, const char *path, unsigned mode,
                  cf_link_done_fn *done, void *user, struct cf_error *err);
/* Creates or replaces root/path; bytes are copied into the queue as credit allows: borrowed until done. */
int cf_link_write_file(struct cf_link *link, const char *root, const char *path, unsigned mode,
                       const char *bytes, size_t len, cf_link_done_fn *done, void *user, struct cf_error *err);
/* Unlinks one name; no symlink is followed; absent is fine. */
int cf_link_unlink(struct cf_link *link, const char *root, const char *path, cf_link_done_fn *done,
                   void *user, struct cf_error *err);
typedef int cf_link_bytes_fn(void *user, const char *bytes, size_t len);
/* Up to `limit_bytes` of a regular file; CF_ERROR_TOO_LARGE beyond. done after the last byte. */
int cf_link_read_file(struct cf_link *link, const char *root, const char *path, uint64_t limit_bytes,
                      cf_link_bytes_fn *on_bytes, cf_link_done_fn *done, void *user, struct cf_error *err);
/* Manifest lines of everything beneath root, streamed as NDJSON {"p","i","s","m","c","t"} (path,
 * inode, size, mtime ns, ctime ns, type); at most max_entries, then the answer says "truncated". */
int cf_link_manifest(struct cf_link *link, const char *root, uint64_t max_entries,
                     cf_link_bytes_fn *on_bytes, cf_link_done_fn *done, void *user, struct cf_error *err);
/* Watch disk use of these folders (and /tmp): an event "disk" {"used","limit"} when past limit. */
int cf_link_disk_watch(struct cf_link *link, uint64_t limit_bytes, const char *const *folders,
                       cf_link_done_fn *done, void *user, struct cf_error *err);

/* ---- doors: connections to the relay from inside ---------------------------------------- */

struct cf_door_events {
    int (*on_data)(void *user, struct cf_door *door, const char *bytes, size_t len); /* credit: cf_door_consumed */
    void (*on_end)(void *user, struct cf_door *door);   /* the peer will write no more */
    void (*on_reset)(void *user, struct cf_door *door); /* gone; close it */
    void (*on_room)(void *user, struct cf_door *door);
};
void cf_door_open(struct cf_door *door, const struct cf_door_events *events, void *user);
size_t cf_door_write(struct cf_door *door, const char *bytes, size_t len); /* taken now; 0: wait */
void cf_door_consumed(struct cf_door *door, size_t len);
void cf_door_shutdown(struct cf_door *door); /* half-close after what was written */
void cf_door_close(struct cf_door *door);    /* reset if still open; no callback any more */

#endif
