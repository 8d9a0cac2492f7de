/*
 * Collecting: the working directory as it stands at the end, into a fresh folder of the host. The
 * tree is whatever a hostile program made of it, so only folders and regular files are made, each
 * new, beneath a descriptor of a folder that nobody else may write into; everything else is
 * refused and named in the result.
 */
#include "run/files.h"
#include "run/hall.h"

#include "base/clock.h"
#include "base/str.h"
#include "base/utf8.h"
#include "json/json.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#define BUFFER_BYTES (512u * 1024u) /* waiting for the host's disk; beyond it the sandbox waits */
#define REFUSED_TOLD 1000u
#define PATH_BYTES 3900u /* beneath /proc/self/fd/N, within PATH_MAX */
#define LINE_BYTES (512u * 1024u) /* of the manifest: the longest path, each byte escaped, and as hex */

struct entry {
    char *path; /* exact bytes, beneath the working directory */
    uint64_t size;
    unsigned mode, error;
};

struct target {
    const char *purpose, *directory; /* options' own */
    int fd;
    bool is_ours; /* made by us: removed again when nothing came into it */
};

struct cf_collect {
    struct cf_run *run;
    cf_files_done_fn *done;
    struct target targets[2];
    size_t target_count, at_target;

    struct entry *entries;
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

static void next_target(struct cf_collect *c);
static void next_entry(struct cf_collect *c);

bool
cf_collect_path_is_sound(const char *path)
{
    if (*path == '\0' || *path == '/' || strlen(path) > PATH_BYTES)
        return false;
    for (const char *at = path;;) {
        size_t len = strcspn(at, "/");
        if (len == 0 || len > 255 || (len == 1 && at[0] == '.') || (len == 2 && at[0] == '.' && at[1] == '.'))
            return false;
        if (at[len] == '\0')
            return true;
        at += len + 1;
    }
}

/* ---- the report ------------------------------------------------------------------------------ */

json_t *
cf_path_json(const char *path)
{
    size_t len = strlen(path), repairs, n;
    cf_auto_free char *repaired = NULL;
    json_t *text = json_string(path);

    if (text != NULL)
        return text;
    repaired = malloc(3 * len + 1);
    if (repaired == NULL)
        return json_string("?");
    n = cf_utf8_repair(path, len, repaired, &repairs);
    return json_stringn(repaired, n);
}

static void __attribute__((format(printf, 3, 4)))
refuse(struct cf_collect *c, const struct entry *entry, const char *fmt, ...)
{
    char why[400];
    va_list args;

    if (json_array_size(c->refused) >= REFUSED_TOLD) {
        c->refused_dropped++;
        return;
    }
    va_start(args, fmt);
    (void)vsnprintf(why, sizeof why, fmt, args);
    va_end(args);
    cf_utf8_make_line(why);
    (void)json_array_append_new(c->refused, json_pack("{s:o, s:s}", "path", cf_path_json(entry->path), "why", why));
}

static void
report(struct cf_collect *c, const struct target *target)
{
    size_t refused = json_array_size(c->refused) + c->refused_dropped;
    const char *error = c->status < 0 ? c->err.text : NULL;
    char text[300];

    if (refused > 0) {
        (void)snprintf(text, sizeof text, "%zu entries were not taken into %.150s; the result names them", refused,
                       target->directory);
        cf_emit_finding(c->run, "collect_refused", 0, text);
    }
    (void)json_array_append_new(
        c->run->collected,
        json_pack("{s:s, s:s, s:b, s:I, s:I, s:I, s:o, s:I, s:s?, s:s?}", "purpose", target->purpose, "directory",
                  target->directory, "complete", refused == 0 && error == NULL && c->skipped == NULL, "files",
                  (json_int_t)c->files, "folders", (json_int_t)c->folders, "bytes", (json_int_t)c->bytes, "refused",
                  c->refused != NULL ? json_incref(c->refused) : json_array(), "refused_dropped",
                  (json_int_t)c->refused_dropped, "skipped", c->skipped, "error", error));
}

/* ---- the end ---------------------------------------------------------------------------------- */

static void
forget_entries(struct cf_collect *c)
{
    for (size_t i = 0; i < c->entry_count; i++)
        free(c->entries[i].path);
    free(c->entries);
    c->entries = NULL;
    c->entry_count = c->entry_cap = c->at = 0;
}

static void
tell_done(struct cf_collect *c)
{
    cf_files_done_fn *done = c->done;
    struct cf_run *run = c->run;

    c->done = NULL;
    if (done != NULL)
        done(run, c->status, &c->err);
}

/* What every callback of the host's files begins with: its result, whatever it is. */
static ssize_t
took(uv_fs_t *fs)
{
    struct cf_collect *c = fs->data;
    ssize_t result = fs->result;

    uv_fs_req_cleanup(fs);
    c->is_fs_busy = false;
    return result;
}

/* The host's disk failed us, or nobody wants it any more: this target is over. */
static void
stop(struct cf_collect *c)
{
    cf_transfer_abandon(c->transfer);
    c->transfer = NULL;
    if (c->is_fs_busy)
        return; /* its callback comes to see that we were given up */
    c->at = c->entry_count;
    next_entry(c);
}

static void __attribute__((format(printf, 2, 3)))
fail(struct cf_collect *c, const char *fmt, ...)
{
    const struct target *target = &c->targets[c->at_target];
    char text[400];
    va_list args;

    va_start(args, fmt);
    (void)vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    if (c->status == 0) {
        (void)cf_error_set(&c->err, CF_ERROR_CONFIG, 0, "%s into %.300s: %s",
                           strcmp(target->purpose, "state") == 0 ? "saving state" : "collecting", target->directory,
                           text);
        (void)cf_error_fix(&c->err, "give a folder that does not exist yet, on a disk with room");
    }
    c->status = -1;
    c->is_given_up = true;
    stop(c);
}

static void
begin_fs(struct cf_collect *c, int status)
{
    if (status == 0)
        c->is_fs_busy = true;
    else
        fail(c, "%s", uv_strerror(status));
}

static void
host_path(struct cf_collect *c, const char *path)
{
    (void)snprintf(c->path, sizeof c->path, "/proc/self/fd/%d/%s", c->targets[c->at_target].fd, path);
}

/* ---- one file: from the sandbox into a buffer, from the buffer onto the disk --------------------- */

static void settle_file(struct cf_collect *c);

static void
on_written(uv_fs_t *fs)
{
    struct cf_collect *c = fs->data;
    ssize_t n = took(fs);

    if (n < 0) {
        fail(c, "%s", uv_strerror((int)n));
        return;
    }
    c->offset += (uint64_t)n;
    cf_buf_drop(&c->going, (size_t)n);
    settle_file(c);
}

static void
on_file_unlinked(uv_fs_t *fs)
{
    struct cf_collect *c = fs->data;

    (void)took(fs);
    if (c->is_given_up)
        stop(c);
    else
        next_entry(c);
}

static void
on_file_closed(uv_fs_t *fs)
{
    struct cf_collect *c = fs->data;
    const struct entry *entry = c->at < c->entry_count ? &c->entries[c->at++] : NULL;
    ssize_t result = took(fs);

    if (c->file_error.kind != CF_ERROR_NONE && entry != NULL)
        refuse(c, entry, "%s", c->file_error.text);
    if (c->is_given_up || c->file_error.kind != CF_ERROR_NONE) { /* a part of a file is no file */
        c->is_fs_busy = uv_fs_unlink(c->run->loop, &c->fs, c->path, on_file_unlinked) == 0;
        if (!c->is_fs_busy)
            stop(c);
    } else if (result < 0) {
        fail(c, "%s", uv_strerror((int)result));
    } else {
        c->files++;
        if (entry != NULL)
            cf_voice_file_taken(c->run, entry->path);
        c->bytes += c->offset;
        next_entry(c);
    }
}

static void
close_file(struct cf_collect *c)
{
    int fd = c->file;

    c->file = -1;
    c->is_fs_busy = uv_fs_close(c->run->loop, &c->fs, fd, on_file_closed) == 0;
}

/* Whatever can be done now for the file under way. */
static void
settle_file(struct cf_collect *c)
{
    uv_buf_t bytes;

    if (c->is_fs_busy)
        return;
    if (c->is_given_up) {
        stop(c);
        return;
    }
    if (c->going.len == 0 && c->coming.len > 0) {
        struct cf_buf empty = c->going;
        c->going = c->coming;
        c->coming = empty;
    }
    if (c->is_paused && c->transfer != NULL && c->coming.len < BUFFER_BYTES) {
        c->is_paused = false;
        cf_transfer_resume(c->transfer); /* may bring more at once */
    }
    if (c->going.len > 0 && !c->is_fs_busy && c->file_error.kind == CF_ERROR_NONE) {
        bytes = uv_buf_init(c->going.data, (unsigned)c->going.len);
        begin_fs(c, uv_fs_write(c->run->loop, &c->fs, c->file, &bytes, 1, (int64_t)c->offset, on_written));
    } else if (c->is_file_over && !c->is_fs_busy) {
        close_file(c);
    }
}

static int
on_bytes(void *user, const char *bytes, size_t len)
{
    struct cf_collect *c = ((struct cf_run *)user)->collect;

    if (c == NULL || c->is_given_up)
        return 0;
    if (cf_buf_add(&c->coming, bytes, len) < 0) {
        c->file_error.kind = CF_ERROR_MEMORY;
        return -1;
    }
    cf_voice_file_bytes(c->run, bytes, len);
    c->is_paused = c->coming.len >= BUFFER_BYTES;
    if (!c->is_fs_busy)
        settle_file(c);
    return c->is_paused ? CF_PAUSE : 0;
}

static void
on_downloaded(void *user, int status, json_t *answer, const struct cf_error *err)
{
    struct cf_collect *c = ((struct cf_run *)user)->collect;

    if (c == NULL || c->is_given_up)
        return;
    c->transfer = NULL;
    c->is_file_over = true;
    if (status < 0)
        c->file_error = *err;
    settle_file(c);
}

static void
on_file_made(uv_fs_t *fs)
{
    struct cf_collect *c = fs->data;
    const struct entry *entry = &c->entries[c->at];
    struct cf_run *run = c->run;
    ssize_t fd = took(fs);

    if (fd >= 0)
        c->file = (int)fd;
    if (c->is_given_up) {
        stop(c);
        return;
    }
    if (fd == UV_ENOSPC || fd == -EDQUOT || fd == UV_EROFS || fd == UV_EIO) {
        fail(c, "%s", uv_strerror((int)fd));
        return;
    }
    if (fd < 0) {
        refuse(c, entry, "this machine: %s", uv_strerror((int)fd));
        c->at++;
        next_entry(c);
        return;
    }
    c->offset = 0;
    c->is_paused = c->is_file_over = false;
    c->file_error.kind = CF_ERROR_NONE;
    cf_buf_reset(&c->coming);
    cf_buf_reset(&c->going);
    cf_voice_file_begin(run, c->targets[c->at_target].purpose);
    if (cf_link_download(cf_sandbox_link(run->sandbox), cf_sandbox_working_directory(run->sandbox), entry->path,
                         run->options.collect_bytes - c->bytes, on_bytes, on_downloaded, run, &c->transfer,
                         &c->file_error) == 0)
        return;
    c->transfer = NULL;
    c->is_file_over = true;
    settle_file(c);
}

static void
take_file(struct cf_collect *c, const struct entry *entry)
{
    uint64_t left = c->run->options.collect_bytes - c->bytes;
    int mode = (int)(entry->mode & 0777 & ~022u);

    if (entry->size > left) {
        refuse(c, entry, "its %llu bytes are over what is left of the limit of %llu", (unsigned long long)entry->size,
               (unsigned long long)c->run->options.collect_bytes);
        c->at++;
        next_entry(c);
        return;
    }
    begin_fs(c, uv_fs_open(c->run->loop, &c->fs, c->path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, mode,
                           on_file_made));
}

/* ---- entries --------------------------------------------------------------------------------------- */

static void
on_folder_made(uv_fs_t *fs)
{
    struct cf_collect *c = fs->data;
    const struct entry *entry = &c->entries[c->at];
    ssize_t result = took(fs);

    if (c->is_given_up) {
        stop(c);
        return;
    }
    if (result < 0)
        refuse(c, entry, "this machine: %s", uv_strerror((int)result));
    else
        c->folders++;
    c->at++;
    next_entry(c);
}

/* NULL, or why nothing is made of this entry. */
static const char *
kind_refused(const struct entry *entry)
{
    if (entry->error == ELOOP)
        return "a folder nested too deep to be entered";
    if (entry->error != 0)
        return strerror((int)entry->error);
    if (!cf_collect_path_is_sound(entry->path))
        return "its path is too long for this machine, or no path";
    switch (entry->mode & S_IFMT) {
    case S_IFREG:
    case S_IFDIR:
        return NULL;
    case S_IFLNK:
        return "a symlink: not followed, not made";
    case S_IFIFO:
        return "a fifo";
    case S_IFSOCK:
        return "a socket";
    default:
        return "a device";
    }
}

static void on_target_closed(uv_fs_t *fs);

static void
end_target(struct cf_collect *c)
{
    struct target *target = &c->targets[c->at_target];
    int fd = target->fd;

    report(c, target);
    forget_entries(c);
    target->fd = -1;
    if (fd >= 0 && uv_fs_close(c->run->loop, &c->fs, fd, on_target_closed) == 0)
        c->is_fs_busy = true;
    else
        next_target(c);
}

static void
next_entry(struct cf_collect *c)
{
    const struct entry *entry;
    const char *why;

    for (; c->at < c->entry_count && !c->is_given_up; c->at++) {
        entry = &c->entries[c->at];
        why = kind_refused(entry);
        if (why == NULL)
            break;
        refuse(c, entry, "%s", why);
    }
    if (c->file >= 0) { /* given up in the middle of it */
        close_file(c);
        return;
    }
    if (c->at >= c->entry_count || c->is_given_up) {
        end_target(c);
        return;
    }
    entry = &c->entries[c->at];
    host_path(c, entry->path);
    if (S_ISDIR(entry->mode))
        begin_fs(c, uv_fs_mkdir(c->run->loop, &c->fs, c->path, (int)((entry->mode & 0755) | 0700), on_folder_made));
    else
        take_file(c, entry);
}

/* ---- the manifest ------------------------------------------------------------------------------------ */

static char *
exact_path(const json_t *line)
{
    const char *hex = cf_json_str(line, "x"), *path = cf_json_str(line, "p");
    size_t len = hex != NULL ? strlen(hex) / 2 : 0;
    char *exact;

    if (hex == NULL)
        return path != NULL ? strdup(path) : NULL;
    if (!cf_is_hex(hex, 2 * len))
        return NULL;
    exact = malloc(len + 1);
    for (size_t i = 0; exact != NULL && i < len; i++)
        if (sscanf(hex + 2 * i, "%2hhx", (unsigned char *)exact + i) != 1)
            exact[i] = '\0';
    if (exact != NULL)
        exact[len] = '\0';
    return exact;
}

static void
on_line(void *user, const char *bytes, size_t len, uint64_t number, bool overflow)
{
    struct cf_collect *c = user;
    static const struct cf_json_limits limits = {LINE_BYTES, 2, 20, true, true};
    json_t *line = overflow ? NULL : cf_json_parse(bytes, len, &limits, NULL);
    char *path = line != NULL ? exact_path(line) : NULL;

    if (path != NULL && c->entry_count == c->entry_cap) {
        size_t cap = c->entry_cap == 0 ? 64 : 2 * c->entry_cap;
        struct entry *grown = realloc(c->entries, cap * sizeof *grown);
        if (grown != NULL) {
            c->entries = grown;
            c->entry_cap = cap;
        }
    }
    if (path == NULL || c->entry_count == c->entry_cap) {
        c->has_no_memory = true; /* or cf-init is not what it was: either way not all is known */
        free(path);
    } else {
        c->entries[c->entry_count++] = (struct entry){.path = path,
                                                      .size = (uint64_t)cf_json_int(line, "s", 0),
                                                      .mode = (unsigned)cf_json_int(line, "o", 0),
                                                      .error = (unsigned)cf_json_int(line, "e", 0)};
    }
    json_decref(line);
}

static int
on_manifest(void *user, const char *bytes, size_t len)
{
    struct cf_collect *c = ((struct cf_run *)user)->collect;

    if (c == NULL || c->is_given_up)
        return 0;
    if (cf_lines_feed(&c->lines, bytes, len, on_line, c) < 0)
        c->has_no_memory = true;
    return 0;
}

static void
on_manifest_done(void *user, int status, json_t *answer, const struct cf_error *err)
{
    struct cf_collect *c = ((struct cf_run *)user)->collect;

    if (c == NULL || c->is_given_up)
        return;
    cf_lines_release(&c->lines);
    if (status < 0) {
        fail(c, "%s", err->text);
        return;
    }
    if (c->has_no_memory)
        refuse(c, &(struct entry){.path = (char *)"."}, "the list of entries could not be read whole");
    if (cf_json_bool(answer, "over", false))
        refuse(c, &(struct entry){.path = (char *)"."}, "there are more than %llu entries; the others were not looked at",
               (unsigned long long)c->run->options.collect_entries);
    next_entry(c);
}

static void
begin_target(struct cf_collect *c)
{
    struct cf_run *run = c->run;
    struct cf_error why;

    c->files = c->folders = c->bytes = c->refused_dropped = 0;
    c->has_no_memory = false;
    json_decref(c->refused);
    c->refused = json_array();
    if (c->skipped != NULL || c->is_given_up) {
        end_target(c);
        return;
    }
    cf_lines_init(&c->lines, LINE_BYTES);
    if (cf_link_manifest(cf_sandbox_link(run->sandbox), cf_sandbox_working_directory(run->sandbox),
                         run->options.collect_entries, on_manifest, on_manifest_done, run, &why) < 0)
        fail(c, "%s", why.text);
}

static void
on_target_removed(uv_fs_t *fs)
{
    struct cf_collect *c = fs->data;

    (void)took(fs); /* not empty, or gone: as good */
    c->at_target++;
    next_target(c);
}

static void
on_target_closed(uv_fs_t *fs)
{
    struct cf_collect *c = fs->data;
    const struct target *target = &c->targets[c->at_target];

    (void)took(fs);
    if (target->is_ours && c->files + c->folders == 0 && (c->skipped != NULL || c->is_given_up)) {
        begin_fs(c, uv_fs_rmdir(c->run->loop, &c->fs, target->directory, on_target_removed));
        return;
    }
    c->at_target++;
    next_target(c);
}

static void
next_target(struct cf_collect *c)
{
    while (c->at_target < c->target_count && c->targets[c->at_target].fd < 0)
        c->at_target++;
    if (c->at_target < c->target_count) {
        begin_target(c);
        return;
    }
    c->run->collect = NULL;
    json_decref(c->refused);
    cf_buf_release(&c->coming);
    cf_buf_release(&c->going);
    cf_lines_release(&c->lines);
    tell_done(c);
    free(c);
}

void
cf_collect_begin(struct cf_run *run, cf_files_done_fn *done)
{
    struct cf_collect *c = run->collect;

    c->done = done;
    c->at_target = 0;
    next_target(c);
}

void
cf_collect_skip(struct cf_run *run, const char *why, cf_files_done_fn *done)
{
    run->collect->skipped = why;
    cf_collect_begin(run, done);
}

void
cf_collect_give_up(struct cf_run *run)
{
    struct cf_collect *c = run->collect;

    if (c == NULL || c->is_given_up)
        return;
    if (c->status == 0)
        (void)cf_error_set(&c->err, CF_ERROR_CANCELED, 0, "collecting was given up");
    c->status = -1;
    c->is_given_up = true;
    if (c->done != NULL && !c->is_fs_busy)
        stop(c);
}

/* ---- before anything runs: the folders -------------------------------------------------------------- */

static void prepare_next(struct cf_collect *c);

static void
prepare_failed(struct cf_collect *c, const char *why)
{
    const struct target *target = &c->targets[c->at_target];

    c->status = -1;
    (void)cf_error_set(&c->err, CF_ERROR_CONFIG, 0, "%s %.300s: %s",
                       strcmp(target->purpose, "state") == 0 ? "--state-out" : "--collect", target->directory, why);
    (void)cf_error_fix(&c->err, "give a folder that does not exist yet");
    tell_done(c);
}

static void
on_listed(uv_fs_t *fs)
{
    struct cf_collect *c = fs->data;
    ssize_t entries = took(fs);

    if (entries != 0) {
        prepare_failed(c, entries < 0 ? uv_strerror((int)entries) : "the folder is not empty");
        return;
    }
    c->at_target++;
    prepare_next(c);
}

static void
on_known(uv_fs_t *fs)
{
    struct cf_collect *c = fs->data;
    unsigned mode = (unsigned)fs->statbuf.st_mode;
    ssize_t result = took(fs);

    if (result < 0) {
        prepare_failed(c, uv_strerror((int)result));
    } else if (!c->targets[c->at_target].is_ours && (mode & 022) != 0) {
        prepare_failed(c, "others may write into this folder");
    } else {
        host_path(c, ".");
        begin_fs(c, uv_fs_scandir(c->run->loop, &c->fs, c->path, 0, on_listed));
    }
}

static void
on_opened(uv_fs_t *fs)
{
    struct cf_collect *c = fs->data;
    ssize_t fd = took(fs);

    if (fd < 0) {
        prepare_failed(c, uv_strerror((int)fd));
        return;
    }
    c->targets[c->at_target].fd = (int)fd;
    begin_fs(c, uv_fs_fstat(c->run->loop, &c->fs, (int)fd, on_known));
}

static void
on_made(uv_fs_t *fs)
{
    struct cf_collect *c = fs->data;
    struct target *target = &c->targets[c->at_target];
    ssize_t result = took(fs);

    if (result < 0 && result != UV_EEXIST) {
        prepare_failed(c, uv_strerror((int)result));
        return;
    }
    target->is_ours = result == 0;
    begin_fs(c, uv_fs_open(c->run->loop, &c->fs, target->directory, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC, 0,
                           on_opened));
}

static void
prepare_next(struct cf_collect *c)
{
    if (c->is_given_up || c->at_target == c->target_count)
        tell_done(c);
    else
        begin_fs(c, uv_fs_mkdir(c->run->loop, &c->fs, c->targets[c->at_target].directory, 0755, on_made));
}

int
cf_collect_prepare(struct cf_run *run, cf_files_done_fn *done, struct cf_error *err)
{
    struct cf_collect *c = calloc(1, sizeof *c);

    if (c == NULL)
        return cf_error_memory(err);
    c->run = run;
    c->done = done;
    c->fs.data = c;
    c->file = -1;
    if (run->options.collect != NULL)
        c->targets[c->target_count++] = (struct target){"collect", run->options.collect, -1, false};
    if (run->options.state_out != NULL)
        c->targets[c->target_count++] = (struct target){"state", run->options.state_out, -1, false};
    run->collect = c;
    run->collected = json_array();
    prepare_next(c);
    return 0;
}
