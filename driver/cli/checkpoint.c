/*
 * Checkpoints on the command line: a folder that one run fills after its last turn, and another
 * begins with. The public verb does the work; what is added is where the document lies.
 */
#include "cli/checkpoint.h"

#include "base/str.h"
#include "json/json.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define DOCUMENT_BYTES (16u << 20)

/* ---- before the run ----------------------------------------------------------------------------- */

static int
check_wanted(const struct cf_launch_flags *f, const struct cf_launch *launch, struct cf_error *err)
{
    if (f->checkpoint == NULL && f->checkpoint_out == NULL)
        return 0;
    if (cf_str_same(f->retention, "ephemeral_zdr")) {
        (void)cf_error_set(err, CF_ERROR_CONFIG, 0,
                           "a checkpoint outlives the run, and retention ephemeral_zdr keeps nothing");
        return cf_error_fix(err, "leave out %s, or run with --retention durable",
                            f->checkpoint != NULL ? "--checkpoint" : "--checkpoint-out");
    }
    if (f->checkpoint == NULL)
        return 0;
    if (cf_str_same(cf_json_str(launch->release, "protocol"), "oneshot-v1") &&
        cf_json_str(launch->release, "resume_flag") == NULL) {
        (void)cf_error_set(err, CF_ERROR_CONFIG, 0,
                           "--checkpoint: a oneshot-v1 harness without a resume flag cannot be continued");
        return cf_error_fix(err, "state --resume-flag, or take the files out with --collect");
    }
    return cf_launch_check_fresh("--checkpoint", f->checkpoint, err);
}

static int
read_document(const char *dir, json_t **ret_document, struct cf_error *err)
{
    cf_auto_free char *path = NULL, *bytes = NULL;
    size_t len = 0;

    if (asprintf(&path, "%s/checkpoint.json", dir) < 0) {
        path = NULL;
        return cf_error_memory(err);
    }
    bytes = cf_read_file(path, DOCUMENT_BYTES, &len, err);
    if (bytes == NULL) {
        (void)cf_error_wrap(err, "--restore");
        return cf_error_fix(err, "name a folder that run --checkpoint filled");
    }
    *ret_document = cf_json_parse(bytes, len, NULL, err);
    if (*ret_document != NULL)
        return 0;
    (void)cf_error_wrap(err, "--restore: %.200s", path);
    return cf_error_fix(err, "the file was cut or changed; name a folder that run --checkpoint filled");
}

/* The folder may have been moved since: its files are where it is now. */
static int
set_restore(const char *dir, json_t *options, struct cf_error *err)
{
    cf_auto_free char *whole = realpath(dir, NULL), *files = NULL;
    json_t *document = NULL;
    struct stat st;

    if (whole == NULL) {
        (void)cf_error_set(err, CF_ERROR_CONFIG, errno, "--restore: %.300s: %s", dir, strerror(errno));
        return cf_error_fix(err, "name a folder that run --checkpoint filled");
    }
    if (read_document(whole, &document, err) < 0)
        return -1;
    (void)json_object_set_new(options, "restore", document);
    if (asprintf(&files, "%s/files", whole) < 0) {
        files = NULL;
        return cf_error_memory(err);
    }
    if (!json_is_object(document) || json_object_set_new(document, "directory", json_string(files)) < 0)
        return cf_error_set(err, CF_ERROR_CONFIG, 0, "--restore: %.300s is not UTF-8, or its checkpoint.json is none",
                            whole);
    if (lstat(files, &st) == 0 && S_ISDIR(st.st_mode))
        return 0;
    return cf_error_set(err, CF_ERROR_CONFIG, 0, "--restore: %.300s is no folder, or a symlink to one", files);
}

int
cf_checkpoint_prepare(const struct cf_launch_flags *flags, struct cf_launch *launch, struct cf_error *err)
{
    if (check_wanted(flags, launch, err) < 0)
        return -1;
    return flags->restore != NULL ? set_restore(flags->restore, launch->options, err) : 0;
}

/* ---- after the last turn ------------------------------------------------------------------------------ */

int
cf_checkpoint_ask(const char *dir, struct cf_run *run, struct cf_error *err)
{
    cf_auto_free char *whole = NULL, *files = NULL, *bytes = NULL;
    json_t *request;
    size_t len = 0;

    if (mkdir(dir, 0700) < 0 && errno != EEXIST)
        return cf_error_set(err, CF_ERROR_CONFIG, errno, "--checkpoint: %.300s: %s", dir, strerror(errno));
    whole = realpath(dir, NULL);
    if (whole == NULL)
        return cf_error_set(err, CF_ERROR_CONFIG, errno, "--checkpoint: %.300s: %s", dir, strerror(errno));
    if (asprintf(&files, "%s/files", whole) < 0) {
        files = NULL;
        return cf_error_memory(err);
    }
    request = json_pack("{s:s}", "directory", files);
    if (request == NULL)
        return cf_error_set(err, CF_ERROR_CONFIG, 0, "--checkpoint: %.300s is not UTF-8", whole);
    bytes = cf_json_dump(request, &len);
    json_decref(request);
    return bytes != NULL ? cf_run_checkpoint(run, bytes, len, err) : cf_error_memory(err);
}

static int
write_document(const char *dir, const char *json, size_t len, struct cf_error *err)
{
    cf_auto_free char *fresh = NULL, *path = NULL;
    FILE *file;
    bool is_good;
    int fd;

    if (asprintf(&fresh, "%s/checkpoint.json.new", dir) < 0 || asprintf(&path, "%s/checkpoint.json", dir) < 0)
        return cf_error_memory(err);
    fd = open(fresh, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600); /* a state may be a secret */
    file = fd >= 0 ? fdopen(fd, "w") : NULL;
    if (file == NULL)
        return cf_error_set(err, CF_ERROR_CONFIG, errno, "--checkpoint: %.300s: %s", fresh, strerror(errno));
    is_good = fwrite(json, 1, len, file) == len && fputc('\n', file) != EOF;
    is_good = fclose(file) == 0 && is_good && rename(fresh, path) == 0;
    if (is_good)
        return 0;
    (void)cf_error_set(err, CF_ERROR_CONFIG, errno, "--checkpoint: %.300s: %s", path, strerror(errno));
    (void)unlink(fresh);
    return -1;
}

int64_t
cf_checkpoint_write(const char *dir, const char *json, size_t len, struct cf_error *err)
{
    json_t *document = cf_json_parse(json, len, NULL, err), *collected = cf_json_obj(document, "collected");
    const char *error = cf_json_str(document, "error");
    int64_t missing = (int64_t)json_array_size(cf_json_arr(collected, "refused")) +
                      cf_json_int(collected, "refused_dropped", 0);
    int64_t status = document != NULL ? 0 : -1;

    if (error != NULL)
        status = cf_error_set(err, CF_ERROR_CONFIG, 0, "--checkpoint: %s", error);
    json_decref(document);
    if (status == 0)
        status = write_document(dir, json, len, err);
    return status < 0 ? status : missing;
}
