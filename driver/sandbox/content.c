/*
 * What the program needs in order to run, asked of cf-init, which answers in a fifth of a
 * millisecond: is it executable for the harness's user, is its machine ours, are its
 * interpreter and its ELF loader in the image? The archive API could tell too, before start,
 * but it unpacks with a process of its own and holds the container meanwhile, which costs as
 * much as a whole create. Nothing foreign has run yet.
 *
 * A program that the user may run but not read is let through: cf-init explains a failed exec.
 */
#include "sandbox/inside.h"
#include "sandbox/program.h"

#include "base/str.h"
#include "base/utf8.h"
#include "json/json.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

enum { LEVELS_MOST = 5 }; /* interpreters of interpreters, as many as the kernel follows */

struct cf_content {
    struct cf_sandbox *sandbox; /* NULL: the row was given up, answers are nobody's any more */
    char *path;                 /* looked at now: the entrypoint, or an interpreter of it */
    char *of;                   /* the program that needs it; NULL for the entrypoint itself */
    bool is_loader;             /* an ELF loader, not a script's interpreter */
    int level;
    char head[CF_PROGRAM_HEAD_BYTES];
    size_t len;
};

static int look_at(struct cf_content *content, struct cf_error *err);

static void
content_free(struct cf_content *content)
{
    if (content == NULL)
        return;
    free(content->path);
    free(content->of);
    free(content);
}

/* The last answer came, or none is wanted any more. */
static void
content_over(struct cf_content *content, int status, const struct cf_error *err)
{
    struct cf_sandbox *sb = content->sandbox;

    content_free(content);
    if (sb == NULL)
        return;
    sb->content = NULL;
    if (status < 0)
        sb->steps.err = *err;
    cf_steps_settle(&sb->steps, status);
}

/* ---- one file's facts ---------------------------------------------------------------- */

static int
is_missing(const struct cf_content *content, struct cf_error *err)
{
    if (content->of == NULL)
        return cf_error_set(err, CF_ERROR_IMAGE, ENOENT, "entrypoint %s is not in the sandbox",
                            content->path);
    if (content->is_loader) {
        cf_error_set(err, CF_ERROR_IMAGE, ENOENT,
                     "%s needs the ELF loader %s, which is not in the image", content->of,
                     content->path);
        return cf_error_fix(err, "link the program statically, or use a base image with the C "
                                 "library it was built for");
    }
    cf_error_set(err, CF_ERROR_IMAGE, ENOENT,
                 "%s is a script for %s, which is not in the image", content->of,
                 content->path);
    return cf_error_fix(
        err,
        "install that interpreter in the image, or name one that is there in the #! line");
}

/* The kernel's own rule without capabilities, as far as it can be told from here: a group
 * beside the main one may still allow it, and then exec has the last word. */
static bool
may_execute(const struct cf_hello *hello, const json_t *file)
{
    unsigned mode = (unsigned)cf_json_int(file, "mode", 0);

    if (cf_json_int(file, "uid", -1) == hello->uid)
        return (mode & 0100) != 0;
    if (cf_json_int(file, "gid", -1) == hello->gid)
        return (mode & 0010) != 0;
    return (mode & 0011) != 0;
}

static int
judge_facts(const struct cf_content *content, const json_t *file, struct cf_error *err)
{
    const struct cf_hello *hello = cf_link_hello(content->sandbox->link);
    const char *type = cf_json_str(file, "type");

    if (!cf_json_bool(file, "exists", false))
        return is_missing(content, err);
    if (!cf_str_same(type, "file")) {
        cf_error_set(err, CF_ERROR_IMAGE, EACCES, "%s is a %s, not a program", content->path,
                     type != NULL ? type : "thing");
        return cf_error_fix(err, "name the program itself");
    }
    if (may_execute(hello, file))
        return 0;
    cf_error_set(
        err, CF_ERROR_IMAGE, EACCES,
        "%s may not be executed by the image's user (uid %u, gid %u): it is mode %04o, owner "
        "%lld:%lld",
        content->path, hello->uid, hello->gid, (unsigned)cf_json_int(file, "mode", 0) & 07777,
        (long long)cf_json_int(file, "uid", -1), (long long)cf_json_int(file, "gid", -1));
    return cf_error_fix(err, "set its mode in the Dockerfile: RUN chmod 755 %.160s",
                        content->path);
}

/* ---- one file's head ----------------------------------------------------------------- */

/* Goes on with what the file needs itself: 1 when there is something. */
static int
follow(struct cf_content *content, const struct cf_program *program, struct cf_error *err)
{
    char *next;

    if (program->interpreter[0] == '\0' || content->is_loader ||
        !cf_utf8_is_valid(program->interpreter, strlen(program->interpreter)))
        return 0;
    if (++content->level > LEVELS_MOST) {
        cf_error_set(err, CF_ERROR_IMAGE, ELOOP,
                     "%s: more than %d scripts that interpret each other", content->path,
                     LEVELS_MOST);
        return cf_error_fix(err, "name a program, not a script, in the #! line");
    }
    next = strdup(program->interpreter);
    if (next == NULL)
        return cf_error_memory(err);
    free(content->of);
    content->of = content->path;
    content->path = next;
    content->is_loader = program->kind == CF_PROGRAM_ELF;
    return 1;
}

static void
on_head_read(void *user, int status, json_t *answer, const struct cf_error *err)
{
    struct cf_content *content = user;
    struct cf_program program;
    struct cf_error own = {0};

    if (content->sandbox == NULL || (status < 0 && content->len == 0)) {
        content_over(content, 0, NULL); /* not readable for the user: exec will tell */
        return;
    }
    status = cf_program_read(content->path, content->head, content->len, &program, &own);
    if (status == 0)
        status =
            cf_program_check_arch(content->path, &program, content->sandbox->plan.arch, &own);
    if (status == 0 && (status = follow(content, &program, &own)) == 1) {
        content->len = 0;
        status = look_at(content, &own);
        if (status == 0)
            return;
    }
    content_over(content, status, &own);
}

static int
on_head_bytes(void *user, const char *bytes, size_t len)
{
    struct cf_content *content = user;
    size_t room = sizeof content->head - content->len;

    if (len > room)
        len = room;
    memcpy(content->head + content->len, bytes, len);
    content->len += len;
    return 0;
}

static void
on_facts(void *user, int status, json_t *answer, const struct cf_error *err)
{
    struct cf_content *content = user;
    const char *real = cf_json_str(answer, "real");
    struct cf_error own = {0};

    if (content->sandbox == NULL) {
        content_over(content, 0, NULL);
        return;
    }
    if (status < 0 && err->code == ENOENT) {
        status = is_missing(content, &own);
    } else if (status < 0) {
        own = *err;
        if (err->kind == CF_ERROR_IMAGE) {
            cf_error_wrap(&own, "%s cannot be reached by the image's user", content->path);
            cf_error_fix(&own,
                         "let that user pass the folders above it: RUN chmod a+x FOLDER");
        }
    } else {
        status = judge_facts(content, answer, &own);
    }
    if (status == 0 && cf_json_int(answer, "size", 0) == 0) {
        status = cf_program_read(content->path, "", 0, &(struct cf_program){0}, &own);
    } else if (status == 0 && real != NULL) {
        status = cf_link_read_head(content->sandbox->link, "/", real + 1,
                                   sizeof content->head, on_head_bytes, on_head_read, content, &own);
        if (status == 0)
            return;
    }
    content_over(content, status, &own);
}

static int
look_at(struct cf_content *content, struct cf_error *err)
{
    return cf_link_stat(content->sandbox->link, content->path, on_facts, content, err);
}

/* ---- the row ------------------------------------------------------------------------- */

int
cf_content_start(struct cf_steps *steps, struct cf_error *err)
{
    struct cf_sandbox *sb = cf_sandbox_of(steps);
    struct cf_content *content = calloc(1, sizeof *content);

    if (content == NULL)
        return cf_error_memory(err);
    content->sandbox = sb;
    content->path = strdup(sb->options.entrypoint);
    if (content->path == NULL || look_at(content, err) < 0) {
        content_free(content);
        return -1;
    }
    sb->content = content;
    return 0;
}

void
cf_content_abort(struct cf_steps *steps)
{
    struct cf_sandbox *sb = cf_sandbox_of(steps);

    if (sb->content == NULL)
        return;
    sb->content->sandbox = NULL;
    sb->content = NULL;
    cf_steps_settle(steps, -1);
}
