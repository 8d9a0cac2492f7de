/*
 * fs/read_text_file and fs/write_text_file, served from inside the sandbox by cf-init as the
 * harness's own user, beneath the working directory and nowhere else. One at a time, and the next
 * one only when stdin has taken the last answer: so much may wait, and no more.
 *
 * A refusal names the rule: not absolute, not beneath the working directory, leads out of it (the
 * kernel's openat2 says so, whatever the links look like), not a regular file, over 16 MiB, not UTF-8.
 */
#include "run/lane_acp.h"

#include "base/str.h"
#include "base/utf8.h"
#include "json/json.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FILE_BYTES (16u << 20)
#define JOBS_MOST 64u
#define BACKLOG_BYTES (1u << 20) /* answers that stdin has not taken */

#define RPC_INVALID_PARAMS (-32602)
#define RPC_NOT_FOUND (-32002)
#define RPC_INTERNAL (-32603)

struct cf_fs_job {
    TAILQ_ENTRY(cf_fs_job) in_list;
    struct cf_run *run;
    const void *handle; /* NULL: nobody waits for the answer any more */
    json_t *params;
    const char *path;   /* absolute, in params; */
    const char *beneath; /* its part beneath the root */
    bool is_write, is_begun, has_existed;
    unsigned mode;
    uint64_t line, limit; /* 0: absent */
    const char *bytes;  /* to write; in params */
    size_t len, at;
    struct cf_buf read;
    struct cf_transfer *transfer;
};

static void begin_next(struct cf_run *run);

/* ---- answers ------------------------------------------------------------------------------------ */

static const char *
root_of(const struct cf_run *run)
{
    return cf_sandbox_working_directory(run->sandbox);
}

static void
drop(struct cf_acp_side *side, struct cf_fs_job *job)
{
    TAILQ_REMOVE(&side->jobs, job, in_list);
    side->job_count--;
    cf_transfer_abandon(job->transfer);
    cf_buf_release(&job->read);
    json_decref(job->params);
    free(job);
}

static void
finish(struct cf_fs_job *job)
{
    struct cf_run *run = job->run;

    drop(run->side, job);
    begin_next(run);
}

static void __attribute__((format(printf, 4, 5)))
refuse(struct cf_run *run, const void *handle, int code, const char *fmt, ...)
{
    char text[700];
    va_list args;

    va_start(args, fmt);
    (void)vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    text[cf_utf8_cut(text, strlen(text), sizeof text - 4)] = '\0';
    if (handle != NULL)
        (void)cf_acp_refuse(run->acp, handle, code, text);
}

static void
refuse_missing(struct cf_fs_job *job)
{
    cf_auto_free char *uri = cf_acp_file_uri(job->path);
    json_t *data = uri != NULL ? json_pack("{s:s}", "uri", uri) : NULL;

    if (job->handle != NULL)
        (void)cf_acp_refuse_with(job->run->acp, job->handle, RPC_NOT_FOUND, "no such file", data);
    json_decref(data);
}

/* What cf-init refused, as the rule it broke. */
static void
refuse_for(struct cf_fs_job *job, const struct cf_error *err)
{
    const char *root = root_of(job->run);

    if (err->kind == CF_ERROR_TOO_LARGE || err->code == EFBIG)
        refuse(job->run, job->handle, RPC_INVALID_PARAMS, "%s is larger than 16 MiB", job->path);
    else if (err->code == ENOENT)
        refuse_missing(job);
    else if (err->code == EXDEV)
        refuse(job->run, job->handle, RPC_INVALID_PARAMS, "%s leads out of %s, by .. or a symlink", job->path, root);
    else if (err->code == ELOOP)
        refuse(job->run, job->handle, RPC_INVALID_PARAMS, "%s goes through a symlink that is not followed", job->path);
    else if (err->code == EINVAL || err->code == EISDIR || err->code == ENXIO)
        refuse(job->run, job->handle, RPC_INVALID_PARAMS, "%s is not a regular file", job->path);
    else if (err->code == ENOTDIR)
        refuse(job->run, job->handle, RPC_INVALID_PARAMS, "%s: a part of the path is no folder", job->path);
    else if (err->code == EACCES || err->code == EPERM || err->code == EROFS)
        refuse(job->run, job->handle, RPC_INTERNAL, "%s: the image's user may not %s it: %s", job->path,
               job->is_write ? "write" : "read", strerror(err->code));
    else
        refuse(job->run, job->handle, RPC_INTERNAL, "%s: %.400s", job->path, err->text);
}

/* ---- reading ----------------------------------------------------------------------------------------- */

/* The lines asked for, ends of lines kept. */
static void
cut_lines(const struct cf_fs_job *job, const char **at, size_t *len)
{
    const char *end = *at + *len, *from = *at, *to;

    for (uint64_t line = 1; line < job->line && from < end; line++) {
        const char *lf = memchr(from, '\n', (size_t)(end - from));
        from = lf != NULL ? lf + 1 : end;
    }
    to = from;
    for (uint64_t line = 0; line < job->limit && to < end; line++) {
        const char *lf = memchr(to, '\n', (size_t)(end - to));
        to = lf != NULL ? lf + 1 : end;
    }
    if (job->limit == 0)
        to = end;
    *at = from;
    *len = (size_t)(to - from);
}

static void
answer_read(struct cf_fs_job *job)
{
    const char *at = job->read.data != NULL ? job->read.data : "";
    size_t len = job->read.len;
    json_t *result;

    if (!cf_utf8_is_valid(at, len)) {
        refuse(job->run, job->handle, RPC_INVALID_PARAMS, "%s is not UTF-8 text", job->path);
        return;
    }
    cut_lines(job, &at, &len);
    result = json_pack("{s:o}", "content", json_stringn(at, len));
    if (result == NULL)
        refuse(job->run, job->handle, RPC_INTERNAL, "out of memory");
    else if (job->handle != NULL)
        (void)cf_acp_answer(job->run->acp, job->handle, result);
    json_decref(result);
}

static int
on_bytes(void *user, const char *bytes, size_t len)
{
    struct cf_fs_job *job = user;

    return cf_buf_add(&job->read, bytes, len) < 0 ? -1 : 0;
}

static void
on_read(void *user, int status, json_t *answer, const struct cf_error *err)
{
    struct cf_fs_job *job = user;

    job->transfer = NULL;
    if (status < 0)
        refuse_for(job, err);
    else
        answer_read(job);
    finish(job);
}

static void
begin_read(struct cf_fs_job *job)
{
    struct cf_error why;

    cf_buf_init(&job->read, FILE_BYTES + 1);
    if (cf_link_download(cf_sandbox_link(job->run->sandbox), root_of(job->run), job->beneath, FILE_BYTES, on_bytes,
                         on_read, job, &job->transfer, &why) == 0)
        return;
    job->transfer = NULL;
    refuse_for(job, &why);
    finish(job);
}

/* ---- writing ---------------------------------------------------------------------------------------------- */

/* The job whose answer this is: the first one, unless all of it is over. */
static struct cf_fs_job *
current(struct cf_run *run)
{
    struct cf_fs_job *job = run->side != NULL ? TAILQ_FIRST(&run->side->jobs) : NULL;

    return job != NULL && job->is_begun && job->is_write ? job : NULL;
}

static void
on_written(void *user, int status, json_t *answer, const struct cf_error *err)
{
    struct cf_fs_job *job = user;

    job->transfer = NULL;
    if (status < 0) {
        refuse_for(job, err);
    } else {
        if (job->run->turn_state != CF_TURN_NONE) {
            const char *event = job->has_existed ? "modify" : "create";
            cf_record_call_texts(job->run, CF_CALL_FILE_CHANGED, 0, event, job->path);
            cf_normalizer_file_changed(job->run->normalizer, event, job->path);
        }
        if (job->handle != NULL)
            (void)cf_acp_answer(job->run->acp, job->handle, NULL);
    }
    finish(job);
}

static void
on_room(void *user)
{
    struct cf_fs_job *job = user;

    if (job->transfer != NULL && job->at < job->len)
        job->at += cf_transfer_put(job->transfer, job->bytes + job->at, job->len - job->at);
}

static void
upload(struct cf_fs_job *job)
{
    struct cf_error why;

    if (cf_link_upload(cf_sandbox_link(job->run->sandbox), root_of(job->run), job->beneath, job->mode, job->len, on_room,
                       on_written, job, &job->transfer, &why) == 0)
        return;
    job->transfer = NULL;
    refuse_for(job, &why);
    finish(job);
}

static void
on_folder(void *user, int status, json_t *answer, const struct cf_error *err)
{
    struct cf_fs_job *job = current(user);

    if (job == NULL)
        return;
    if (status == 0) {
        upload(job);
        return;
    }
    refuse_for(job, err);
    finish(job);
}

/* What is there keeps its mode; for what is not, the folders above it are made. */
static void
on_looked(void *user, int status, json_t *answer, const struct cf_error *err)
{
    struct cf_fs_job *job = current(user);
    cf_auto_free char *folder = NULL;
    struct cf_error why;
    char *slash;

    if (job == NULL)
        return;
    job->has_existed = status == 0 && cf_json_bool(answer, "exists", false);
    job->mode = job->has_existed ? (unsigned)cf_json_int(answer, "mode", 0644) & 0777 : 0644;
    folder = job->has_existed ? NULL : strdup(job->beneath);
    slash = folder != NULL ? strrchr(folder, '/') : NULL;
    if (slash == NULL) {
        upload(job);
        return;
    }
    *slash = '\0';
    if (cf_link_mkdir(cf_sandbox_link(job->run->sandbox), root_of(job->run), folder, 0755, on_folder, job->run, &why) < 0) {
        refuse_for(job, &why);
        finish(job);
    }
}

static void
begin_write(struct cf_fs_job *job)
{
    struct cf_error why;

    if (cf_link_stat(cf_sandbox_link(job->run->sandbox), job->path, on_looked, job->run, &why) == 0)
        return;
    refuse_for(job, &why);
    finish(job);
}

/* ---- one after the other ---------------------------------------------------------------------------------------- */

static void
begin_next(struct cf_run *run)
{
    struct cf_fs_job *job = TAILQ_FIRST(&run->side->jobs);

    if (job == NULL || job->is_begun || run->state != CF_HALL_OPEN ||
        run->harness.input.len - run->harness.input_at > BACKLOG_BYTES)
        return;
    if (job->handle == NULL) {
        finish(job);
        return;
    }
    job->is_begun = true;
    if (job->is_write)
        begin_write(job);
    else
        begin_read(job);
}

void
cf_acp_fs_continue(struct cf_run *run)
{
    if (run->side != NULL)
        begin_next(run);
}

const char *
cf_acp_beneath(const char *root, const char *path)
{
    size_t len = strlen(root);

    if (strncmp(path, root, len) != 0 || path[len] != '/')
        return NULL;
    path += len;
    path += strspn(path, "/");
    return *path != '\0' ? path : NULL;
}

/* A wrong type is as absent. */
static uint64_t
count_of(const json_t *params, const char *name)
{
    json_int_t value = json_integer_value(json_object_get(params, name));

    return value > 0 ? (uint64_t)value : 0;
}

/* The rules that can be seen without looking; NULL: none is broken. */
static const char *
broken_rule(const struct cf_run *run, const json_t *params, bool is_write)
{
    json_t *path = json_object_get(params, "path"), *content = json_object_get(params, "content");

    if (!json_is_string(path) || strlen(json_string_value(path)) != json_string_length(path) ||
        json_string_length(path) >= PATH_MAX)
        return "path is not a path of at most 4,095 bytes";
    if (json_string_value(path)[0] != '/')
        return "path must be absolute";
    if (cf_acp_beneath(root_of(run), json_string_value(path)) == NULL)
        return "path is not beneath the working directory";
    if (is_write && !json_is_string(content))
        return "content is not a text";
    if (is_write && json_string_length(content) > FILE_BYTES)
        return "content is larger than 16 MiB";
    return NULL;
}

bool
cf_acp_on_fs(struct cf_run *run, const struct cf_acp_request *request)
{
    bool is_write = strcmp(request->method, "fs/write_text_file") == 0;
    const char *broken;
    struct cf_fs_job *job;

    if (!is_write && strcmp(request->method, "fs/read_text_file") != 0)
        return false;
    broken = broken_rule(run, request->params, is_write);
    if (broken != NULL) {
        refuse(run, request->handle, RPC_INVALID_PARAMS, "%s (%s)", broken, root_of(run));
        return true;
    }
    job = run->side->job_count < JOBS_MOST ? calloc(1, sizeof *job) : NULL;
    if (job == NULL) {
        refuse(run, request->handle, RPC_INTERNAL, "more than %u file requests are waiting", JOBS_MOST);
        return true;
    }
    job->run = run;
    job->handle = request->handle;
    job->params = json_incref(request->params);
    job->is_write = is_write;
    job->path = cf_json_str(job->params, "path");
    job->beneath = cf_acp_beneath(root_of(run), job->path);
    job->line = count_of(job->params, "line");
    job->limit = count_of(job->params, "limit");
    job->bytes = json_string_value(json_object_get(job->params, "content"));
    job->len = json_string_length(json_object_get(job->params, "content"));
    TAILQ_INSERT_TAIL(&run->side->jobs, job, in_list);
    run->side->job_count++;
    begin_next(run);
    return true;
}

bool
cf_acp_fs_gone(struct cf_run *run, const void *handle)
{
    struct cf_fs_job *job;

    TAILQ_FOREACH(job, &run->side->jobs, in_list)
        if (job->handle == handle) {
            job->handle = NULL; /* what has begun ends by itself */
            return true;
        }
    return false;
}

void
cf_acp_fs_free(struct cf_acp_side *side)
{
    while (!TAILQ_EMPTY(&side->jobs))
        drop(side, TAILQ_FIRST(&side->jobs));
}
