/*
 * Flags of files and hooks -> the options document. What can be seen of this machine's folders
 * without an engine is seen here; the run looks again, for they may change meanwhile.
 */
#include "cli/launch.h"

#include "base/str.h"
#include "json/json.h"

#include <dirent.h>
#include <errno.h>
#include <fts.h>
#include <string.h>
#include <sys/stat.h>

#define ENTRIES_MOST 100000u

static void
set_text(json_t *object, const char *name, const char *value)
{
    if (value != NULL)
        (void)json_object_set_new(object, name, json_string(value));
}

/* ---- into the sandbox ------------------------------------------------------------------------ */

static int
check_entry(const FTSENT *entry, struct cf_error *err)
{
    switch (entry->fts_info) {
    case FTS_DNR:
    case FTS_ERR:
    case FTS_NS:
        return cf_error_set(err, CF_ERROR_CONFIG, entry->fts_errno, "%.300s: %s", entry->fts_path,
                            strerror(entry->fts_errno));
    case FTS_DEFAULT:
        (void)cf_error_set(err, CF_ERROR_CONFIG, 0, "%.300s is a fifo, a socket or a device", entry->fts_path);
        return cf_error_fix(err, "stage regular files, folders and symlinks");
    default:
        return 0;
    }
}

/* All beneath a source that shall be staged. */
static int
check_tree(const char *source, struct cf_error *err)
{
    char *paths[] = {(char *)source, NULL};
    FTS *tree = fts_open(paths, FTS_PHYSICAL | FTS_COMFOLLOW | FTS_NOCHDIR, NULL);
    FTSENT *entry;
    unsigned count = 0;
    int status = 0;

    if (tree == NULL)
        return cf_error_set(err, CF_ERROR_CONFIG, errno, "%.300s: %s", source, strerror(errno));
    while (status == 0 && (entry = fts_read(tree)) != NULL) {
        status = check_entry(entry, err);
        if (status == 0 && ++count > 2 * ENTRIES_MOST) { /* folders come twice */
            status = cf_error_set(err, CF_ERROR_CONFIG, 0, "%.300s holds more than %u entries", source, ENTRIES_MOST);
            (void)cf_error_fix(err, "stage an archive and unpack it in a hook");
        }
    }
    (void)fts_close(tree);
    return status;
}

/* SRC:DST at the last colon: names on this machine may hold one, in the sandbox seldom. */
static int
set_files(json_t *options, const struct cf_flag_list *list, struct cf_error *err)
{
    json_t *files = json_array();
    struct stat st;

    for (size_t i = 0; i < list->count; i++) {
        const char *item = list->items[i], *colon = strrchr(item, ':');
        cf_auto_free char *source = colon != NULL ? strndup(item, (size_t)(colon - item)) : NULL;
        json_t *file = NULL;
        if (source == NULL || *source == '\0' || colon[1] == '\0') {
            (void)cf_error_set(err, CF_ERROR_CONFIG, 0, "--file: %.200s is not SRC:DST", item);
            (void)cf_error_fix(err, "e.g. --file ./config.json:.agent/config.json");
        } else if (stat(source, &st) < 0) {
            (void)cf_error_set(err, CF_ERROR_CONFIG, errno, "--file: %.200s: %s", source, strerror(errno));
        } else if (check_tree(source, err) < 0) {
            (void)cf_error_wrap(err, "--file");
        } else if ((file = json_pack("{s:s, s:s}", "source", source, "target", colon + 1)) == NULL) {
            (void)cf_error_set(err, CF_ERROR_CONFIG, 0, "--file: a name that is not UTF-8; stage the folder it is in");
        }
        if (file == NULL) {
            json_decref(files);
            return -1;
        }
        (void)json_array_append_new(files, file);
    }
    if (list->count > 0)
        return json_object_set_new(options, "files", files);
    json_decref(files);
    return 0;
}

/* ---- hooks ---------------------------------------------------------------------------------- */

/* A JSON array is an exact argv; anything else is a command for the image's shell. */
static int
set_commands(json_t *hooks, const char *name, const struct cf_flag_list *list, struct cf_error *err)
{
    json_t *commands = json_array();

    for (size_t i = 0; i < list->count; i++) {
        const char *item = list->items[i];
        json_t *command = *item == '[' ? cf_json_parse(item, strlen(item), NULL, err) : json_string(item);
        if (command == NULL) {
            json_decref(commands);
            if (*item != '[')
                return cf_error_set(err, CF_ERROR_CONFIG, 0, "--hook: %.60s is not UTF-8", item);
            (void)cf_error_wrap(err, "--hook: %.60s", item);
            return cf_error_fix(err, "an argument that begins with [ is an argv in JSON: '[\"/bin/true\"]'; for the "
                                     "shell's own [ write: test ...");
        }
        (void)json_array_append_new(commands, command);
    }
    return json_object_set_new(hooks, name, commands);
}

static int
set_hooks(const struct cf_launch_flags *f, json_t *options, struct cf_error *err)
{
    json_t *hooks;

    if (f->hooks_post.count + f->hooks_pre.count == 0 && f->hook_on_failure == NULL && f->hook_ms == 0)
        return 0;
    hooks = json_object();
    (void)json_object_set_new(options, "hooks", hooks);
    set_text(hooks, "on_failure", f->hook_on_failure);
    if (f->hook_ms != 0)
        (void)json_object_set_new(hooks, "timeout_ms", json_integer((json_int_t)f->hook_ms));
    if (set_commands(hooks, "post_materialize", &f->hooks_post, err) < 0)
        return -1;
    return set_commands(hooks, "pre_writeback", &f->hooks_pre, err);
}

/* ---- out of the sandbox ------------------------------------------------------------------------ */

int
cf_launch_check_fresh(const char *flag, const char *dir, struct cf_error *err)
{
    struct dirent *entry;
    DIR *handle = dir != NULL ? opendir(dir) : NULL;
    size_t entries = 0;
    struct stat st;

    if (handle == NULL && (dir == NULL || errno == ENOENT))
        return 0;
    if (handle == NULL)
        return cf_error_set(err, CF_ERROR_CONFIG, errno, "%s: %.200s: %s", flag, dir, strerror(errno));
    while (entries == 0 && (entry = readdir(handle)) != NULL)
        entries += strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0;
    (void)closedir(handle);
    if (entries == 0 && stat(dir, &st) == 0 && (st.st_mode & 022) == 0)
        return 0;
    (void)cf_error_set(err, CF_ERROR_CONFIG, 0, "%s: %.200s %s", flag, dir,
                       entries > 0 ? "is not empty" : "is a folder that others may write into");
    return cf_error_fix(err, "name a folder that does not exist yet");
}

static int
set_places(const struct cf_launch_flags *f, json_t *options, struct cf_error *err)
{
    struct stat st;

    set_text(options, "collect", f->collect);
    set_text(options, "state_in", f->state_in);
    set_text(options, "state_out", f->state_out);
    if (f->state_in != NULL && stat(f->state_in, &st) < 0)
        return cf_error_set(err, CF_ERROR_CONFIG, errno, "--state-in: %.200s: %s", f->state_in, strerror(errno));
    if (f->state_in != NULL && !S_ISDIR(st.st_mode))
        return cf_error_set(err, CF_ERROR_CONFIG, 0, "--state-in: %.200s is not a folder", f->state_in);
    if (f->state_in != NULL && check_tree(f->state_in, err) < 0)
        return cf_error_wrap(err, "--state-in");
    if (cf_launch_check_fresh("--collect", f->collect, err) < 0 || cf_launch_check_fresh("--state-out", f->state_out, err) < 0)
        return -1;
    return set_files(options, &f->files, err);
}

int
cf_launch_files(const struct cf_launch_flags *flags, json_t *options, struct cf_error *err)
{
    return set_hooks(flags, options, err) < 0 ? -1 : set_places(flags, options, err);
}
