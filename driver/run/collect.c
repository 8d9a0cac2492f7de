/*
 * Collecting: the working directory as it stands at the end, into a fresh folder of the host. The
 * tree is whatever a hostile program made of it, so only folders and regular files are made, each
 * new, beneath a descriptor of a folder that nobody else may write into; everything else is
 * refused and named in the result.
 */
#include "run/collect_impl.h"

#include "base/clock.h"
#include "base/str.h"
#include "base/utf8.h"
#include "json/json.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#define LINE_BYTES (512u * 1024u) /* of the manifest: the longest path, each byte escaped, and as hex */

static void next_target(struct cf_collect *c);

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

void
cf_collect_refuse(struct cf_collect *c, const struct cf_collect_entry *entry, const char *fmt, ...)
{
    char why[400];
    va_list args;

    if (json_array_size(c->refused) >= c->refused_most) {
        c->refused_dropped++;
        return;
    }
    va_start(args, fmt);
    (void)vsnprintf(why, sizeof why, fmt, args);
    va_end(args);
    cf_utf8_make_line(why);
    (void)json_array_append_new(c->refused, json_pack("{s:o, s:s}", "path", cf_path_json(entry->path), "why", why));
}

bool
cf_collect_is_after(const struct cf_collect *c)
{
    return c->slot == &c->run->collects[CF_COLLECT_AFTER];
}

static void
report(struct cf_collect *c, const struct cf_collect_target *target)
{
    size_t refused = json_array_size(c->refused) + c->refused_dropped;
    const char *error = c->status < 0 ? c->err.text : NULL;
    char text[300];

    if (refused > 0 && cf_collect_is_after(c)) {
        (void)snprintf(text, sizeof text, "%zu entries were not taken into %.150s; the result names them", refused,
                       target->directory);
        cf_emit_finding(c->run, "collect_refused", 0, text);
    }
    (void)json_array_append_new(
        c->reports,
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
ssize_t
cf_collect_took(uv_fs_t *fs)
{
    struct cf_collect *c = fs->data;
    ssize_t result = fs->result;

    uv_fs_req_cleanup(fs);
    c->is_fs_busy = false;
    return result;
}

/* The host's disk failed us, or nobody wants it any more: this target is over. */
void
cf_collect_stop(struct cf_collect *c)
{
    cf_transfer_abandon(c->transfer);
    c->transfer = NULL;
    if (c->is_fs_busy)
        return; /* its callback comes to see that we were given up */
    c->at = c->entry_count;
    cf_collect_next(c);
}

void
cf_collect_fail(struct cf_collect *c, const char *fmt, ...)
{
    const struct cf_collect_target *target = &c->targets[c->at_target];
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
    cf_collect_stop(c);
}

void
cf_collect_begin_fs(struct cf_collect *c, int status)
{
    if (status == 0)
        c->is_fs_busy = true;
    else
        cf_collect_fail(c, "%s", uv_strerror(status));
}

static void
host_path(struct cf_collect *c, const char *path)
{
    (void)snprintf(c->path, sizeof c->path, "/proc/self/fd/%d/%s", c->targets[c->at_target].fd, path);
}

/* ---- entries --------------------------------------------------------------------------------------- */

static void
on_folder_made(uv_fs_t *fs)
{
    struct cf_collect *c = fs->data;
    const struct cf_collect_entry *entry = &c->entries[c->at];
    ssize_t result = cf_collect_took(fs);

    if (c->is_given_up) {
        cf_collect_stop(c);
        return;
    }
    if (result < 0)
        cf_collect_refuse(c, entry, "this machine: %s", uv_strerror((int)result));
    else
        c->folders++;
    c->at++;
    cf_collect_next(c);
}

/* NULL, or why nothing is made of this entry. */
static const char *
kind_refused(const struct cf_collect_entry *entry)
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
    struct cf_collect_target *target = &c->targets[c->at_target];
    int fd = target->fd;

    report(c, target);
    forget_entries(c);
    target->fd = -1;
    if (fd >= 0 && uv_fs_close(c->run->loop, &c->fs, fd, on_target_closed) == 0)
        c->is_fs_busy = true;
    else
        next_target(c);
}

void
cf_collect_next(struct cf_collect *c)
{
    const struct cf_collect_entry *entry;
    const char *why;

    for (; c->at < c->entry_count && !c->is_given_up; c->at++) {
        entry = &c->entries[c->at];
        why = kind_refused(entry);
        if (why == NULL)
            break;
        cf_collect_refuse(c, entry, "%s", why);
    }
    if (c->file >= 0) { /* given up in the middle of it */
        cf_collect_close_file(c);
        return;
    }
    if (c->at >= c->entry_count || c->is_given_up) {
        end_target(c);
        return;
    }
    entry = &c->entries[c->at];
    host_path(c, entry->name);
    if (S_ISDIR(entry->mode))
        cf_collect_begin_fs(
            c, uv_fs_mkdir(c->run->loop, &c->fs, c->path, (int)((entry->mode & 0755) | 0700), on_folder_made));
    else
        cf_collect_take_file(c, entry);
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

/* Where it goes beneath the folder that is filled; NULL: it is not of the part that is wanted. */
static const char *
name_of(struct cf_collect *c, const char *path, const json_t *line)
{
    size_t len = c->part != NULL ? strlen(c->part) : 0;
    const char *slash;

    if (len == 0)
        return path;
    if (strncmp(path, c->part, len) != 0 || (path[len] != '/' && path[len] != '\0'))
        return NULL;
    c->has_part = true;
    if (path[len] == '/')
        return path + len + 1;
    if (S_ISDIR((mode_t)cf_json_int(line, "o", 0)) && cf_json_int(line, "e", 0) == 0)
        return NULL; /* the part itself: it becomes the folder */
    slash = strrchr(path, '/');
    return slash != NULL ? slash + 1 : path;
}

static void
add_entry(struct cf_collect *c, char *path, const char *name, const json_t *line)
{
    if (c->entry_count == c->entry_cap) {
        size_t cap = c->entry_cap == 0 ? 64 : 2 * c->entry_cap;
        struct cf_collect_entry *grown = realloc(c->entries, cap * sizeof *grown);
        if (grown == NULL) {
            c->has_no_memory = true;
            free(path);
            return;
        }
        c->entries = grown;
        c->entry_cap = cap;
    }
    c->entries[c->entry_count++] = (struct cf_collect_entry){.path = path,
                                                             .name = name,
                                                             .size = (uint64_t)cf_json_int(line, "s", 0),
                                                             .mode = (unsigned)cf_json_int(line, "o", 0),
                                                             .error = (unsigned)cf_json_int(line, "e", 0)};
}

static void
on_line(void *user, const char *bytes, size_t len, uint64_t number, bool overflow)
{
    struct cf_collect *c = user;
    static const struct cf_json_limits limits = {LINE_BYTES, 2, 20, true, true};
    json_t *line = overflow ? NULL : cf_json_parse(bytes, len, &limits, NULL);
    char *path = line != NULL ? exact_path(line) : NULL;
    const char *name = path != NULL ? name_of(c, path, line) : NULL;

    if (path == NULL)
        c->has_no_memory = true; /* or cf-init is not what it was: either way not all is known */
    else if (name != NULL)
        add_entry(c, path, name, line);
    else
        free(path);
    json_decref(line);
}

static int
on_manifest(void *user, const char *bytes, size_t len)
{
    struct cf_collect *c = ((struct cf_collect_slot *)user)->at;

    if (c == NULL || c->is_given_up)
        return 0;
    if (cf_lines_feed(&c->lines, bytes, len, on_line, c) < 0)
        c->has_no_memory = true;
    return 0;
}

static void
fail_without_part(struct cf_collect *c)
{
    (void)cf_error_set(&c->err, CF_ERROR_CONFIG, 0, "collecting: there is no %.300s in the working directory", c->part);
    (void)cf_error_fix(&c->err, "name a file or a folder that is there, or leave path out");
    c->status = -1;
    c->is_given_up = true;
    cf_collect_stop(c);
}

static void
on_manifest_done(void *user, int status, json_t *answer, const struct cf_error *err)
{
    struct cf_collect *c = ((struct cf_collect_slot *)user)->at;

    if (c == NULL || c->is_given_up)
        return;
    cf_lines_release(&c->lines);
    if (status < 0) {
        cf_collect_fail(c, "%s", err->text);
        return;
    }
    if (c->has_no_memory)
        cf_collect_refuse(c, &(struct cf_collect_entry){.path = (char *)"."},
                          "the list of entries could not be read whole");
    if (cf_json_bool(answer, "over", false))
        cf_collect_refuse(c, &(struct cf_collect_entry){.path = (char *)"."},
                          "there are more than %llu entries; the others were not looked at",
               (unsigned long long)c->run->options.collect_entries);
    if (c->part != NULL && !c->has_part)
        fail_without_part(c);
    else
        cf_collect_next(c);
}

static void
begin_target(struct cf_collect *c)
{
    struct cf_run *run = c->run;
    struct cf_error why;

    c->files = c->folders = c->bytes = c->refused_dropped = 0;
    c->has_no_memory = c->has_part = false;
    json_decref(c->refused);
    c->refused = json_array();
    if (c->skipped != NULL || c->is_given_up) {
        end_target(c);
        return;
    }
    cf_lines_init(&c->lines, LINE_BYTES);
    if (cf_link_manifest(cf_sandbox_link(run->sandbox), cf_sandbox_working_directory(run->sandbox),
                         run->options.collect_entries, on_manifest, on_manifest_done, c->slot, &why) < 0)
        cf_collect_fail(c, "%s", why.text);
}

static void
on_target_removed(uv_fs_t *fs)
{
    struct cf_collect *c = fs->data;

    (void)cf_collect_took(fs); /* not empty, or gone: as good */
    c->at_target++;
    next_target(c);
}

static void
on_target_closed(uv_fs_t *fs)
{
    struct cf_collect *c = fs->data;
    const struct cf_collect_target *target = &c->targets[c->at_target];

    (void)cf_collect_took(fs);
    if (target->is_ours && c->files + c->folders == 0 && (c->skipped != NULL || c->is_given_up)) {
        cf_collect_begin_fs(c, uv_fs_rmdir(c->run->loop, &c->fs, target->directory, on_target_removed));
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
    if (json_array_size(c->reports) == 0 && !cf_collect_is_after(c)) /* there was not even a folder */
        report(c, &c->targets[0]);
    c->slot->at = NULL;
    json_decref(c->refused);
    json_decref(c->reports);
    cf_buf_release(&c->coming);
    cf_buf_release(&c->going);
    cf_lines_release(&c->lines);
    tell_done(c);
    free(c);
}

void
cf_collect_begin(struct cf_run *run, enum cf_collect_kind kind, cf_files_done_fn *done)
{
    struct cf_collect *c = run->collects[kind].at;

    c->done = done;
    c->is_given_up = c->is_given_up || c->status < 0; /* its folder failed: it is only told, and closed */
    c->at_target = 0;
    next_target(c);
}

void
cf_collect_skip(struct cf_run *run, const char *why, cf_files_done_fn *done)
{
    run->collects[CF_COLLECT_AFTER].at->skipped = why;
    cf_collect_begin(run, CF_COLLECT_AFTER, done);
}

void
cf_collect_give_up(struct cf_run *run, enum cf_collect_kind kind)
{
    struct cf_collect *c = run->collects[kind].at;

    if (c == NULL || c->is_given_up)
        return;
    if (c->status == 0)
        (void)cf_error_set(&c->err, CF_ERROR_CANCELED, 0, "collecting was given up");
    c->status = -1;
    c->is_given_up = true;
    if (c->done != NULL && !c->is_fs_busy)
        cf_collect_stop(c);
}

/* ---- before anything runs: the folders -------------------------------------------------------------- */

static void prepare_next(struct cf_collect *c);

static void
prepare_failed(struct cf_collect *c, const char *why)
{
    const struct cf_collect_target *target = &c->targets[c->at_target];

    c->status = -1;
    (void)cf_error_set(&c->err, CF_ERROR_CONFIG, 0, "%s %.300s: %s",
                       !cf_collect_is_after(c)                 ? "collecting into"
                       : strcmp(target->purpose, "state") == 0 ? "--state-out"
                                                               : "--collect",
                       target->directory, why);
    (void)cf_error_fix(&c->err, "give a folder that does not exist yet");
    tell_done(c);
}

static void
on_listed(uv_fs_t *fs)
{
    struct cf_collect *c = fs->data;
    ssize_t entries = cf_collect_took(fs);

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
    ssize_t result = cf_collect_took(fs);

    if (result < 0) {
        prepare_failed(c, uv_strerror((int)result));
    } else if (!c->targets[c->at_target].is_ours && (mode & 022) != 0) {
        prepare_failed(c, "others may write into this folder");
    } else {
        host_path(c, ".");
        cf_collect_begin_fs(c, uv_fs_scandir(c->run->loop, &c->fs, c->path, 0, on_listed));
    }
}

static void
on_opened(uv_fs_t *fs)
{
    struct cf_collect *c = fs->data;
    ssize_t fd = cf_collect_took(fs);

    if (fd < 0) {
        prepare_failed(c, uv_strerror((int)fd));
        return;
    }
    c->targets[c->at_target].fd = (int)fd;
    cf_collect_begin_fs(c, uv_fs_fstat(c->run->loop, &c->fs, (int)fd, on_known));
}

static void
on_made(uv_fs_t *fs)
{
    struct cf_collect *c = fs->data;
    struct cf_collect_target *target = &c->targets[c->at_target];
    ssize_t result = cf_collect_took(fs);

    if (result < 0 && result != UV_EEXIST) {
        prepare_failed(c, uv_strerror((int)result));
        return;
    }
    target->is_ours = result == 0;
    cf_collect_begin_fs(c, uv_fs_open(c->run->loop, &c->fs, target->directory, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC, 0,
                           on_opened));
}

static void
prepare_next(struct cf_collect *c)
{
    if (c->is_given_up || c->at_target == c->target_count)
        tell_done(c);
    else
        cf_collect_begin_fs(c, uv_fs_mkdir(c->run->loop, &c->fs, c->targets[c->at_target].directory, 0755, on_made));
}

static struct cf_collect *
collect_new(struct cf_run *run, enum cf_collect_kind kind, cf_files_done_fn *done, struct cf_error *err)
{
    struct cf_collect *c = calloc(1, sizeof *c);
    json_t *reports = c != NULL ? json_array() : NULL;

    if (reports == NULL) {
        free(c);
        (void)cf_error_memory(err);
        return NULL;
    }
    c->run = run;
    c->reports = reports;
    c->refused_most = 1000;
    c->done = done;
    c->fs.data = c;
    c->file = -1;
    c->slot = &run->collects[kind];
    *c->slot = (struct cf_collect_slot){run, c};
    return c;
}

int
cf_collect_prepare(struct cf_run *run, cf_files_done_fn *done, struct cf_error *err)
{
    struct cf_collect *c = collect_new(run, CF_COLLECT_AFTER, done, err);

    if (c == NULL)
        return -1;
    if (run->options.collect != NULL)
        c->targets[c->target_count++] = (struct cf_collect_target){"collect", run->options.collect, -1, false};
    if (run->options.state_out != NULL)
        c->targets[c->target_count++] = (struct cf_collect_target){"state", run->options.state_out, -1, false};
    run->collected = json_incref(c->reports);
    prepare_next(c);
    return 0;
}

int
cf_collect_ask(struct cf_run *run, const char *directory, const char *part, size_t refused_most, cf_files_done_fn *done,
               json_t **ret_reports, struct cf_error *err)
{
    struct cf_collect *c = collect_new(run, CF_COLLECT_ASKED, done, err);

    if (c == NULL)
        return -1;
    c->part = part;
    c->refused_most = refused_most;
    c->targets[c->target_count++] = (struct cf_collect_target){"collect", directory, -1, false};
    *ret_reports = json_incref(c->reports);
    prepare_next(c);
    return 0;
}
