/*
 * The working directory: there, a folder, the harness's own to write in. cf-init says what is
 * there and where it really is; if something is amiss, one tar entry puts it right: the leaf
 * alone, put into what exists above it, with the user's ids and the mode it has already.
 *
 * An entry over a symlink would replace the symlink, one for "./" is ignored, and after the
 * first spawn it would race with the harness; so it is the real path, the leaf, and now.
 */
#include "sandbox/inside.h"

#include "base/str.h"
#include "json/json.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

/* Where a question to cf-init finds its way back; NULL inside once the row was given up. */
struct question {
    struct cf_sandbox *sandbox;
};

static void
settle(struct cf_sandbox *sb, int status, const struct cf_error *err)
{
    sb->question = NULL;
    if (status < 0 && err != NULL)
        sb->steps.err = *err;
    cf_steps_settle(&sb->steps, status);
}

static int
ask(struct cf_sandbox *sb, const char *path, cf_link_done_fn *done, struct cf_error *err)
{
    struct question *question = malloc(sizeof *question);

    if (question == NULL)
        return cf_error_memory(err);
    question->sandbox = sb;
    if (cf_link_stat(sb->link, path, done, question, err) < 0) {
        free(question);
        return -1;
    }
    sb->question = question;
    return 0;
}

/* NULL: nobody waits for this answer any more. */
static struct cf_sandbox *
answered(void *user)
{
    struct question *question = user;
    struct cf_sandbox *sb = question->sandbox;

    free(question);
    if (sb != NULL)
        sb->question = NULL;
    return sb;
}

/* ---- judging ------------------------------------------------------------------------- */

static bool
is_ready(const json_t *folder)
{
    return cf_json_bool(folder, "exists", false) &&
           cf_str_same(cf_json_str(folder, "type"), "folder") &&
           cf_json_bool(folder, "writable", false);
}

static int
judge(const struct cf_sandbox *sb, const json_t *folder, struct cf_error *err)
{
    const char *real = cf_json_str(folder, "real"), *wanted = sb->plan.working_directory;
    char whose[64];

    if (real == NULL)
        return cf_error_set(err, CF_ERROR_IMAGE, 0,
                            "the working directory %s leads to a name that is not UTF-8",
                            wanted);
    (void)snprintf(whose, sizeof whose, "%s", sb->plan.working_directory_from);
    if (strcmp(real, wanted) != 0 &&
        cf_plan_check_workdir(real, whose, CF_ERROR_IMAGE, err) < 0)
        return cf_error_wrap(err, "%s leads elsewhere", wanted);
    if (cf_json_bool(folder, "exists", false) &&
        !cf_str_same(cf_json_str(folder, "type"), "folder")) {
        cf_error_set(err, CF_ERROR_IMAGE, ENOTDIR,
                     "the working directory %s is a %s in the image, not a folder", wanted,
                     cf_json_str(folder, "type") != NULL ? cf_json_str(folder, "type")
                                                         : "thing");
        return cf_error_fix(
            err, "choose another with --working-directory, or remove it from the image");
    }
    return 0;
}

static void
finish(struct cf_sandbox *sb, const json_t *folder)
{
    struct cf_error err = {0};
    int status = cf_str_copy(&sb->working_directory, cf_json_str(folder, "real"), &err);

    settle(sb, status, &err);
}

/* ---- putting it right ---------------------------------------------------------------- */

static void
on_second_look(void *user, int status, json_t *answer, const struct cf_error *err)
{
    struct cf_sandbox *sb = answered(user);
    struct cf_error own = {0};

    if (sb == NULL)
        return;
    if (status == 0 && is_ready(answer)) {
        finish(sb, answer);
        return;
    }
    if (status == 0) {
        const struct cf_hello *hello = cf_link_hello(sb->link);
        cf_error_set(&own, CF_ERROR_IMAGE, EACCES,
                     "the working directory %s could not be made writable for the image's "
                     "user (uid %u)",
                     sb->plan.working_directory, hello->uid);
        cf_error_fix(&own, "give it to that user in the Dockerfile: RUN chown %u %.160s",
                     hello->uid, sb->plan.working_directory);
        err = &own;
    }
    settle(sb, -1, err);
}

static void
on_put(void *user, int status, const struct cf_engine_reply *reply, const struct cf_error *err)
{
    struct cf_sandbox *sb = user;
    struct cf_error own = {0};

    sb->call = NULL;
    cf_tar_free(sb->tar);
    sb->tar = NULL;
    if (status == 0 && sb->is_failed)
        status = cf_error_set(&own, CF_ERROR_CANCELED, 0, "given up"), err = &own;
    if (status == 0) {
        status = ask(sb, sb->plan.working_directory, on_second_look, &own);
        if (status == 0)
            return;
        err = &own;
    }
    settle(sb, status, err);
}

/* One entry for the leaf, into the nearest folder that exists: `parent` has that length in
 * `real`. */
static int
put_leaf(struct cf_sandbox *sb, const char *real, size_t parent, unsigned mode,
         struct cf_error *err)
{
    const struct cf_hello *hello = cf_link_hello(sb->link);
    cf_auto_free char *dir = parent > 0 ? strndup(real, parent) : strdup("/");
    const char *bytes;
    size_t len;

    sb->tar = cf_tar_new();
    if (dir == NULL || sb->tar == NULL)
        return cf_error_memory(err);
    if (cf_tar_dir(sb->tar, real + parent + 1, mode, hello->uid, hello->gid, err) < 0 ||
        cf_tar_finish(sb->tar, &bytes, &len, err) < 0)
        return -1;
    return cf_engine_archive_put(sb->engine, sb->container_id, dir,
                                 /* no_overwrite_dir= */ true, bytes, len, on_put, sb,
                                 &sb->call, err);
}

/* Looks for the nearest folder that exists above a path that does not. */
static void on_ancestor(void *user, int status, json_t *answer, const struct cf_error *err);

static int
go_up(struct cf_sandbox *sb, struct cf_error *err)
{
    char *slash = strrchr(sb->ancestor, '/');

    *slash = '\0';
    if (slash == sb->ancestor)
        return put_leaf(sb, sb->workdir_real, 0, 0755, err);
    return ask(sb, sb->ancestor, on_ancestor, err);
}

static void
on_ancestor(void *user, int status, json_t *answer, const struct cf_error *err)
{
    struct cf_sandbox *sb = answered(user);
    struct cf_error own = {0};

    if (sb == NULL)
        return;
    if (status == 0 && !cf_json_bool(answer, "exists", false)) {
        status = go_up(sb, &own);
    } else if (status == 0 && !cf_str_same(cf_json_str(answer, "type"), "folder")) {
        status = cf_error_set(&own, CF_ERROR_IMAGE, ENOTDIR,
                              "the working directory %s cannot be made: %s is not a folder",
                              sb->plan.working_directory, sb->ancestor);
    } else if (status == 0) {
        status = put_leaf(sb, sb->workdir_real, strlen(sb->ancestor), 0755, &own);
    } else {
        own = *err;
    }
    if (status < 0)
        settle(sb, status, &own);
}

static void
on_first_look(void *user, int status, json_t *answer, const struct cf_error *err)
{
    struct cf_sandbox *sb = answered(user);
    struct cf_error own = {0};
    const char *real = cf_json_str(answer, "real");

    if (sb == NULL)
        return;
    if (status < 0) {
        own = *err;
        cf_error_wrap(&own, "the working directory %s", sb->plan.working_directory);
        if (own.kind == CF_ERROR_IMAGE)
            cf_error_fix(&own,
                         "choose another with --working-directory, for instance /workspace");
    } else if ((status = judge(sb, answer, &own)) == 0) {
        if (is_ready(answer)) {
            finish(sb, answer);
            return;
        }
        if (cf_str_copy(&sb->workdir_real, real, &own) < 0 ||
            cf_str_copy(&sb->ancestor, real, &own) < 0)
            status = -1;
        else if (cf_json_bool(answer, "exists", false))
            status = put_leaf(sb, real, (size_t)(strrchr(real, '/') - real),
                              (unsigned)cf_json_int(answer, "mode", 0755) & 07777, &own);
        else
            status = go_up(sb, &own);
    }
    if (status < 0)
        settle(sb, status, &own);
}

/* ---- the row ------------------------------------------------------------------------- */

int
cf_workdir_start(struct cf_steps *steps, struct cf_error *err)
{
    struct cf_sandbox *sb = cf_sandbox_of(steps);

    return ask(sb, sb->plan.working_directory, on_first_look, err);
}

void
cf_workdir_abort(struct cf_steps *steps)
{
    struct cf_sandbox *sb = cf_sandbox_of(steps);

    if (sb->question != NULL) {
        ((struct question *)sb->question)->sandbox = NULL;
        sb->question = NULL;
        cf_steps_settle(steps, -1);
    } else {
        cf_engine_call_cancel(sb->call);
    }
}
