/*
 * What the archive API says about the image, before anything runs: the entrypoint, through its
 * symlinks, and the folders on the way to the working directory. All questions are asked at
 * once, beside the inspection. Symlinks are followed by hand and with a bound: engines differ
 * in how far they resolve one.
 */
#include "sandbox/inside.h"

#include "base/str.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

enum { SYMLINKS_MOST = 40 }; /* as many as the kernel follows */

struct cf_probe {
    struct cf_sandbox *sandbox;
    struct cf_engine_call *call;
    char *path; /* looked at now */
    int hops;
    struct cf_error refusal; /* what the engine said of the whole path */
};

/* ---- the entrypoint ------------------------------------------------------------------ */

static int
entry_missing(const struct cf_probe *probe, struct cf_error *err)
{
    const char *entry = probe->sandbox->options.entrypoint;

    if (probe->hops > 0)
        cf_error_set(err, CF_ERROR_IMAGE, 0,
                     "entrypoint %s is a symlink to %s, which is not in the image", entry,
                     probe->path);
    else
        cf_error_set(err, CF_ERROR_IMAGE, 0, "entrypoint %s is not in the image", entry);
    return cf_error_fix(err, "check the COPY lines of the Dockerfile, or give --entrypoint "
                             "the program's path inside the image");
}

/* A relative target counts from its link's folder. */
static int
next_path(struct cf_probe *probe, const char *target, struct cf_error *err)
{
    const char *slash = strrchr(probe->path, '/');
    size_t size = strlen(probe->path) + strlen(target) + 2;
    char *next = malloc(size);

    if (next == NULL)
        return cf_error_memory(err);
    if (target[0] == '/')
        (void)snprintf(next, size, "%s", target);
    else
        (void)snprintf(next, size, "%.*s/%s", (int)(slash - probe->path), probe->path, target);
    free(probe->path);
    probe->path = next;
    if (strlen(next) >= 4096 || ++probe->hops > SYMLINKS_MOST) {
        cf_error_set(err, CF_ERROR_IMAGE, 0,
                     "entrypoint %s leads through more than %d symlinks",
                     probe->sandbox->options.entrypoint, SYMLINKS_MOST);
        return cf_error_fix(
            err, "two symlinks in the image point at each other; name the program itself");
    }
    return 0;
}

static int
judge_entry(const struct cf_probe *probe, const struct cf_path_stat *st, struct cf_error *err)
{
    const char *entry = probe->sandbox->options.entrypoint;

    if (st->type != CF_PATH_FILE) {
        cf_error_set(err, CF_ERROR_IMAGE, 0, "entrypoint %s is %s, not a program", entry,
                     cf_path_type_name(st->type));
        return cf_error_fix(err, "give --entrypoint the path of the program itself");
    }
    if ((st->mode & 0111) == 0) {
        cf_error_set(err, CF_ERROR_IMAGE, 0, "entrypoint %s is not executable (mode %04o)",
                     entry, st->mode);
        return cf_error_fix(
            err, "set its mode in the Dockerfile: RUN chmod 755 %.160s, or COPY --chmod=755",
            probe->path);
    }
    if (st->size == 0) {
        cf_error_set(err, CF_ERROR_IMAGE, 0, "entrypoint %s is an empty file", entry);
        return cf_error_fix(err, "check the COPY lines of the Dockerfile");
    }
    return 0;
}

/* ---- a path that cannot be followed -------------------------------------------------- */

/*
 * An engine answers 500 for a path that leads through a file or in a circle of symlinks, and a
 * HEAD has no body to say so; and it answers 500 for troubles of its own. So what lies above
 * is asked, from below: where that is well, the path was at fault.
 */
static void on_above(void *user, int status, const struct cf_engine_reply *reply,
                     const struct cf_error *err);

static int
ask_above(struct cf_probe *probe)
{
    struct cf_sandbox *sb = probe->sandbox;
    struct cf_error unused = {0};
    char *slash = strrchr(probe->path, '/');

    if (slash == NULL || slash[1] == '\0') /* the root was asked already */
        return -1;
    slash[slash == probe->path] = '\0';
    return cf_engine_archive_stat(sb->engine, sb->container_id, probe->path, on_above, probe,
                                  &probe->call, &unused);
}

static void
on_above(void *user, int status, const struct cf_engine_reply *reply,
         const struct cf_error *err)
{
    struct cf_probe *probe = user;
    const char *entry = probe->sandbox->options.entrypoint;
    struct cf_path_stat st;
    struct cf_error own = probe->refusal;

    probe->call = NULL;
    if (status < 0 && err->kind == CF_ERROR_ENGINE && err->code >= 500 &&
        ask_above(probe) == 0)
        return;
    if (status == 0 && cf_path_stat_read(reply->header_path_stat, &st, &own) == 0) {
        if (st.type == CF_PATH_FILE)
            cf_error_set(&own, CF_ERROR_IMAGE, 0,
                         "entrypoint %s is not in the image: %s is a file, not a folder",
                         entry, probe->path);
        else
            cf_error_set(
                &own, CF_ERROR_IMAGE, 0,
                "entrypoint %s cannot be followed below %s: symlinks that point at each other",
                entry, probe->path);
        cf_error_fix(&own,
                     "give --entrypoint the path of the program itself inside the image");
    }
    cf_row_part(probe->sandbox, -1, &own);
}

static int ask_entry(struct cf_probe *probe, struct cf_error *err);

static void
on_entry(void *user, int status, const struct cf_engine_reply *reply,
         const struct cf_error *err)
{
    struct cf_probe *probe = user;
    struct cf_sandbox *sb = probe->sandbox;
    struct cf_path_stat st;
    struct cf_error own = {0};

    probe->call = NULL;
    if (status < 0) {
        own = *err;
        if (err->kind == CF_ERROR_NOT_FOUND)
            (void)entry_missing(probe, &own);
        else if (err->kind == CF_ERROR_ENGINE && err->code >= 500) {
            probe->refusal = *err;
            if (ask_above(probe) == 0)
                return;
        }
    } else if ((status = cf_path_stat_read(reply->header_path_stat, &st, &own)) == 0) {
        if (st.type == CF_PATH_SYMLINK) {
            status = next_path(probe, st.target, &own);
            if (status == 0 && (status = ask_entry(probe, &own)) == 0)
                return;
        } else {
            status = judge_entry(probe, &st, &own);
        }
    }
    if (status == 0)
        sb->entry_resolved = cf_steal(probe->path);
    cf_row_part(sb, status, &own);
}

static int
ask_entry(struct cf_probe *probe, struct cf_error *err)
{
    struct cf_sandbox *sb = probe->sandbox;

    return cf_engine_archive_stat(sb->engine, sb->container_id, probe->path, on_entry, probe,
                                  &probe->call, err);
}

/* ---- the way to the working directory ------------------------------------------------ */

/* What cannot be told here is found out after the hello: no answer is an error. */
static void
on_prefix(void *user, int status, const struct cf_engine_reply *reply,
          const struct cf_error *err)
{
    struct cf_prefix_slot *slot = user;
    struct cf_path_stat st;
    struct cf_error unused = {0};

    slot->call = NULL;
    slot->is_absent = status < 0 && err->kind == CF_ERROR_NOT_FOUND;
    slot->is_folder = status == 0 &&
                      cf_path_stat_read(reply->header_path_stat, &st, &unused) == 0 &&
                      st.type == CF_PATH_FOLDER;
    cf_row_part(slot->sandbox, 0, NULL);
}

static void
ask_prefixes(struct cf_sandbox *sb)
{
    const char *whole = sb->plan.working_directory;
    struct cf_error unused = {0};
    size_t count = 0;

    assert(whole != NULL); /* the plan was checked before anything was asked */
    for (const char *at = whole; at != NULL; at = strchr(at + 1, '/'))
        count++;
    if (count > CF_PREFIX_MOST)
        return;
    for (const char *at = strchr(whole + 1, '/');; at = strchr(at + 1, '/')) {
        size_t len = at != NULL ? (size_t)(at - whole) : strlen(whole);
        struct cf_prefix_slot *slot = &sb->prefixes[sb->prefix_count++];
        slot->sandbox = sb;
        slot->path = strndup(whole, len);
        cf_row_add(sb);
        if (slot->path == NULL ||
            cf_engine_archive_stat(sb->engine, sb->container_id, slot->path, on_prefix, slot,
                                   &slot->call, &unused) < 0)
            cf_row_part(sb, 0, NULL);
        if (at == NULL)
            return;
    }
}

bool
cf_probe_workdir_is_free(const struct cf_sandbox *sb)
{
    if (sb->prefix_count == 0 || !sb->prefixes[sb->prefix_count - 1].is_absent)
        return false;
    for (size_t i = 0; i + 1 < sb->prefix_count; i++) {
        if (!sb->prefixes[i].is_absent && !sb->prefixes[i].is_folder)
            return false;
    }
    /* A volume of ours there is mounted at start, over what a tar put before. */
    for (size_t i = 0; i < sb->plan.volume_count; i++) {
        size_t len = strlen(sb->plan.volumes[i].target);
        if (strncmp(sb->plan.working_directory, sb->plan.volumes[i].target, len) == 0)
            return false;
    }
    return true;
}

/* ---- together ------------------------------------------------------------------------ */

int
cf_probe_begin(struct cf_sandbox *sb, struct cf_error *err)
{
    struct cf_probe *probe = calloc(1, sizeof *probe);

    if (probe == NULL)
        return cf_error_memory(err);
    sb->probe = probe;
    probe->sandbox = sb;
    if (cf_str_copy(&probe->path, sb->options.entrypoint, err) < 0)
        return -1;
    ask_prefixes(sb);
    if (ask_entry(probe, err) < 0)
        return -1;
    cf_row_add(sb);
    return 0;
}

void
cf_probe_abort(struct cf_sandbox *sb)
{
    if (sb->probe != NULL)
        cf_engine_call_cancel(sb->probe->call);
    for (size_t i = 0; i < sb->prefix_count; i++)
        cf_engine_call_cancel(sb->prefixes[i].call);
}

void
cf_probe_release(struct cf_sandbox *sb)
{
    for (size_t i = 0; i < sb->prefix_count; i++) {
        free(sb->prefixes[i].path);
        sb->prefixes[i].path = NULL;
    }
    if (sb->probe != NULL)
        free(sb->probe->path);
    free(sb->probe);
    sb->probe = NULL;
}
