/* run/collect_impl.h: a collection under way, shared by its two files. Private to them. */
#ifndef CF_RUN_COLLECT_IMPL_H
#define CF_RUN_COLLECT_IMPL_H

#include "run/files.h"
#include "run/hall.h"

#define PATH_BYTES 3900u /* beneath /proc/self/fd/N, within PATH_MAX */

struct cf_collect_entry {
    char *path;       /* exact bytes, beneath the working directory */
    const char *name; /* its end: the path beneath the folder that is filled */
    uint64_t size;
    unsigned mode, error;
};

struct cf_collect_target {
    const char *purpose, *directory; /* options' own */
    int fd;
    bool is_ours; /* made by us: removed again when nothing came into it */
};

struct cf_collect {
    struct cf_run *run;
    struct cf_collect_slot *slot; /* which of the run's: the sandbox's late words find us gone there */
    const char *part;             /* only this, beneath the working directory; NULL: all of it */
    bool has_part;                /* it was listed */
    json_t *reports;              /* one item a target */
    size_t refused_most;
    cf_files_done_fn *done;
    struct cf_collect_target targets[2];
    size_t target_count, at_target;

    struct cf_collect_entry *entries;
    size_t entry_count, entry_cap, at;
    struct cf_lines lines;
    bool is_over, has_no_memory;

    uv_fs_t fs;
    bool is_fs_busy, is_given_up;
    char path[PATH_BYTES + 64];
    int file;                 /* being written */
    struct cf_buf coming, going;
    uint64_t offset;
    bool is_paused, is_file_over;
    struct cf_error file_error; /* of the sandbox: the entry is refused */
    struct cf_transfer *transfer;

    uint64_t files, folders, bytes, refused_dropped;
    json_t *refused;
    int status;
    struct cf_error err;
    const char *skipped;
};

/* collect.c. An entry that is not taken, and why: told in the report, at most refused_most of them. */
void cf_collect_refuse(struct cf_collect *c, const struct cf_collect_entry *entry, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
/* What every callback of the host's files begins with: its result, whatever it is. */
ssize_t cf_collect_took(uv_fs_t *fs);
/* The host's disk failed us, or nobody wants it any more: this target is over. */
void cf_collect_stop(struct cf_collect *c);
void cf_collect_fail(struct cf_collect *c, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* `status` of a uv_fs_... call that was just begun. */
void cf_collect_begin_fs(struct cf_collect *c, int status);
void cf_collect_next(struct cf_collect *c); /* the entry at c->at, or the target's end */
/* What runs of their own words say of: the folder of the options, which their journal tells of. */
bool cf_collect_is_after(const struct cf_collect *c);

/* collect_file.c: c->path is where it goes. */
void cf_collect_take_file(struct cf_collect *c, const struct cf_collect_entry *entry);
void cf_collect_close_file(struct cf_collect *c); /* c->file, whole or not */

#endif
