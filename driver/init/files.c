/*
 * Files, as the harness's own user: facts about a path, folders, and whole regular files
 * streamed in either direction over a channel. Nothing of a file is held but what one frame
 * carries.
 */
#include "init/init.h"

#include "base/utf8.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int
hex_value(char digit)
{
    return digit >= '0' && digit <= '9'   ? digit - '0'
           : digit >= 'a' && digit <= 'f' ? digit - 'a' + 10
                                          : -1;
}

/* A name that is not UTF-8 travels as hex. */
static char *
path_from_hex(const char *hex)
{
    size_t len = strlen(hex) / 2;
    char *path = malloc(len + 1);

    for (size_t i = 0; path != NULL && i < len; i++) {
        int high = hex_value(hex[2 * i]), low = hex_value(hex[2 * i + 1]);
        if (high < 0 || low < 0 || (high == 0 && low == 0)) {
            free(path);
            return NULL;
        }
        path[i] = (char)(high << 4 | low);
    }
    if (path != NULL)
        path[len] = '\0';
    return path;
}

char *
cf_files_path(json_t *request, const char *name)
{
    const char *path = json_string_value(json_object_get(request, name)), *hex;
    char hex_name[32];

    if (path != NULL)
        return strdup(path);
    snprintf(hex_name, sizeof hex_name, "%s_hex", name);
    hex = json_string_value(json_object_get(request, hex_name));
    return hex == NULL ? NULL : path_from_hex(hex);
}

/* ---- stat --------------------------------------------------------------------------- */

/* The real path; of one that is not there, the real path of what is, and the rest behind it.
 */
static char *
resolve(const char *path)
{
    char *real = realpath(path, NULL), *whole, *slash;
    cf_auto_free char *above = NULL;
    size_t size;

    if (real != NULL || errno != ENOENT)
        return real;
    above = strdup(path);
    while (above != NULL && (slash = strrchr(above, '/')) != NULL) {
        *slash = '\0';
        real = realpath(above[0] == '\0' ? "/" : above, NULL);
        if (real == NULL)
            continue;
        size = strlen(real) + strlen(path) + 2;
        whole = malloc(size);
        if (whole != NULL)
            snprintf(whole, size, "%s%s", strcmp(real, "/") == 0 ? "" : real,
                     path + strlen(above));
        free(real);
        return whole;
    }
    return NULL;
}

static const char *
type_name(mode_t mode)
{
    return S_ISREG(mode)    ? "file"
           : S_ISDIR(mode)  ? "folder"
           : S_ISLNK(mode)  ? "symlink"
           : S_ISFIFO(mode) ? "fifo"
           : S_ISSOCK(mode) ? "socket"
                            : "device";
}

void
cf_files_stat(struct cf_init *init, json_int_t id, json_t *request)
{
    cf_auto_free char *path = cf_files_path(request, "path"), *real = NULL;
    struct stat info = {0};
    bool exists;
    json_t *name;

    if (path == NULL || path[0] != '/') {
        cf_control_refuse(init, id, EINVAL, "stat wants an absolute path");
        return;
    }
    real = resolve(path);
    if (real == NULL) {
        cf_control_refuse(init, id, errno, "%s: %s", path, strerror(errno));
        return;
    }
    exists = stat(real, &info) == 0;
    name = json_string(real); /* NULL for a name that is not UTF-8: then told as such */
    cf_control_answer(
        init, id,
        json_pack("{s:o, s:b, s:s, s:i, s:I, s:I, s:I, s:b}", "real",
                  name != NULL ? name : json_null(), "exists", exists, "type",
                  exists ? type_name(info.st_mode) : "none", "mode",
                  (int)(info.st_mode & 07777), "uid", (json_int_t)info.st_uid, "gid",
                  (json_int_t)info.st_gid, "size", (json_int_t)info.st_size, "writable",
                  exists && access(real, W_OK | (S_ISDIR(info.st_mode) ? X_OK : 0)) == 0));
}

/* ---- folders and names -------------------------------------------------------------- */

/* Root and path of a request, or a refusal sent. */
struct place {
    char *root, *path;
    int fd; /* of root */
};

static int
find_place(struct cf_init *init, json_int_t id, json_t *request, struct place *ret_place)
{
    struct place place = {cf_files_path(request, "root"), cf_files_path(request, "path"), -1};

    if (place.root != NULL && place.path != NULL && place.root[0] == '/' &&
        place.path[0] != '\0') {
        place.fd = cf_beneath_root(place.root);
        if (place.fd < 0)
            cf_control_refuse(init, id, errno, "%s: %s", place.root, strerror(errno));
    } else {
        cf_control_refuse(init, id, EINVAL, "wanted: an absolute root and a path beneath it");
    }
    *ret_place = place;
    return place.fd < 0 ? -1 : 0;
}

static void
release_place(struct place *place)
{
    if (place->fd >= 0)
        close(place->fd);
    free(place->root);
    free(place->path);
}

/* Path and all above it that is missing. */
static int
make_folders(const struct place *place, mode_t mode)
{
    char part[PATH_MAX];
    const char *name;
    int parent, status = 0;

    for (size_t end = 0; status == 0 && place->path[end] != '\0';) {
        end += strspn(place->path + end, "/");
        end += strcspn(place->path + end, "/");
        if (end >= sizeof part) {
            errno = ENAMETOOLONG;
            return -1;
        }
        memcpy(part, place->path, end);
        part[end] = '\0';
        if (part[end - 1] == '/')
            break; /* slashes at the end */
        parent = cf_beneath_parent(place->fd, part, &name);
        if (parent < 0)
            return -1;
        status = mkdirat(parent, name, mode);
        if (status == 0)
            status =
                fchmodat(parent, name, mode, 0); /* the mode asked for, whatever the umask */
        else if (errno == EEXIST)
            status = 0;
        close(parent);
    }
    return status;
}

void
cf_files_mkdir(struct cf_init *init, json_int_t id, json_t *request)
{
    mode_t mode = (mode_t)json_integer_value(json_object_get(request, "mode")) & 0777;
    struct place place;
    int fd = -1;

    if (find_place(init, id, request, &place) == 0) {
        if (make_folders(&place, mode) == 0)
            fd = cf_beneath_open(place.fd, place.path, O_PATH | O_DIRECTORY, 0);
        if (fd < 0)
            cf_control_refuse(init, id, errno, "%s beneath %s: %s", place.path, place.root,
                              strerror(errno));
        else
            cf_control_answer(init, id, NULL);
    }
    if (fd >= 0)
        close(fd);
    release_place(&place);
}

void
cf_files_unlink(struct cf_init *init, json_int_t id, json_t *request)
{
    struct place place;
    const char *name;
    int parent = -1;

    if (find_place(init, id, request, &place) == 0) {
        parent = cf_beneath_parent(place.fd, place.path, &name);
        if ((parent < 0 || unlinkat(parent, name, 0) < 0) && errno != ENOENT)
            cf_control_refuse(init, id, errno, "%s beneath %s: %s", place.path, place.root,
                              strerror(errno));
        else
            cf_control_answer(init, id, NULL);
    }
    if (parent >= 0)
        close(parent);
    release_place(&place);
}

void
cf_files_symlink(struct cf_init *init, json_int_t id, json_t *request)
{
    cf_auto_free char *target = cf_files_path(request, "target");
    struct place place;
    const char *name;
    int parent = -1;

    if (find_place(init, id, request, &place) == 0) {
        parent = cf_beneath_parent(place.fd, place.path, &name);
        if (parent < 0 || symlinkat(target != NULL ? target : "", parent, name) < 0)
            cf_control_refuse(init, id, errno, "%s beneath %s: %s", place.path, place.root,
                              strerror(errno));
        else
            cf_control_answer(init, id, NULL);
    }
    if (parent >= 0)
        close(parent);
    release_place(&place);
}

/* ---- whole files -------------------------------------------------------------------- */

struct transfer {
    json_int_t id;
    int fd;
    uint64_t done, limit;
    bool is_head; /* the limit is where reading ends, not what may not be passed */
    bool is_answered;
};

static void
free_transfer(struct cf_stream *stream)
{
    struct transfer *transfer = stream->user;

    close(transfer->fd);
    free(transfer);
}

static void
refuse_transfer(struct cf_stream *stream, int error)
{
    struct transfer *transfer = stream->user;

    if (!transfer->is_answered)
        cf_control_refuse(stream->init, transfer->id, error != 0 ? error : ECANCELED,
                          "after %llu bytes: %s", (unsigned long long)transfer->done,
                          strerror(error != 0 ? error : ECANCELED));
    transfer->is_answered = true;
}

static void
answer_transfer(struct cf_stream *stream)
{
    struct transfer *transfer = stream->user;

    transfer->is_answered = true;
    cf_control_answer(stream->init, transfer->id,
                      json_pack("{s:I}", "size", (json_int_t)transfer->done));
}

static ssize_t
drain_to_file(struct cf_stream *stream, const char *bytes, size_t len)
{
    struct transfer *transfer = stream->user;
    ssize_t n = write(transfer->fd, bytes, len);

    transfer->done += n > 0 ? (uint64_t)n : 0;
    return n;
}

static void
on_file_end(struct cf_stream *stream)
{
    struct transfer *transfer = stream->user;

    if (transfer->done != transfer->limit)
        refuse_transfer(stream, EPROTO);
    else
        answer_transfer(stream);
}

static ssize_t
fill_from_file(struct cf_stream *stream, char *to, size_t len)
{
    struct transfer *transfer = stream->user;
    ssize_t n;

    if (transfer->is_head && len > transfer->limit - transfer->done)
        len = transfer->limit - transfer->done;
    n = len > 0 ? read(transfer->fd, to, len) : 0;
    transfer->done += n > 0 ? (uint64_t)n : 0;
    if (n > 0 && transfer->done > transfer->limit) { /* it grew while being read */
        errno = EFBIG;
        return -1;
    }
    if (n == 0)
        answer_transfer(stream);
    return n;
}

static const struct cf_stream_ops write_ops = {
    .drain = drain_to_file,
    .on_sink_end = on_file_end,
    .on_broken = refuse_transfer,
    .on_free = free_transfer,
};
static const struct cf_stream_ops read_ops = {
    .fill = fill_from_file,
    .on_broken = refuse_transfer,
    .on_free = free_transfer,
};

static const char *
why_not_opened(int error)
{
    return error == EINVAL   ? "not a regular file"
           : error == EAGAIN ? "held by a program of the sandbox (a lease), or moved again and again"
                             : strerror(error);
}

/* Opens a regular file beneath the request's root. Neither a fifo nor a device nor a lease can
 * hold us up. */
static int
open_regular(struct cf_init *init, json_int_t id, json_t *request, int flags, mode_t mode,
             struct stat *ret_info)
{
    struct place place;
    int fd = -1;

    if (find_place(init, id, request, &place) == 0) {
        fd = cf_beneath_open(place.fd, place.path, flags | O_NONBLOCK | O_NOCTTY, mode);
        if (fd >= 0 && (fstat(fd, ret_info) < 0 || !S_ISREG(ret_info->st_mode))) {
            close(fd);
            fd = -1;
            errno = EINVAL;
        }
        if (fd < 0)
            cf_control_refuse(init, id, errno, "%s beneath %s: %s", place.path, place.root,
                              why_not_opened(errno));
    }
    release_place(&place);
    return fd;
}

/* Binds the request's channel to the file; `fd` is taken. */
static struct cf_stream *
begin_transfer(struct cf_init *init, json_int_t id, json_t *request,
               const struct cf_stream_ops *ops, int fd, uint64_t limit)
{
    struct cf_stream *stream =
        cf_stream_unbound(init, json_integer_value(json_object_get(request, "ch")));
    struct transfer *transfer = calloc(1, sizeof *transfer);

    if (stream == NULL || transfer == NULL) {
        close(fd);
        free(transfer);
        cf_control_refuse(init, id, stream == NULL ? EBADF : ENOMEM,
                          "no channel for the file's bytes");
        return NULL;
    }
    *transfer = (struct transfer){.id = id, .fd = fd, .limit = limit};
    (void)cf_stream_bind(stream, ops, transfer, -1); /* nothing to watch, nothing to fail */
    return stream;
}

void
cf_files_write(struct cf_init *init, json_int_t id, json_t *request)
{
    mode_t mode = (mode_t)json_integer_value(json_object_get(request, "mode")) & 0777;
    uint64_t size = (uint64_t)json_integer_value(json_object_get(request, "size"));
    struct stat info;
    int fd = open_regular(init, id, request, O_WRONLY | O_CREAT, mode, &info);

    if (fd < 0)
        return;
    if (ftruncate(fd, 0) < 0 || fchmod(fd, mode) < 0) {
        cf_control_refuse(init, id, errno, "%s", strerror(errno));
        close(fd);
        return;
    }
    (void)begin_transfer(init, id, request, &write_ops, fd, size); /* refused there */
}

void
cf_files_read(struct cf_init *init, json_int_t id, json_t *request)
{
    uint64_t limit = (uint64_t)json_integer_value(json_object_get(request, "limit"));
    bool is_head = json_is_true(json_object_get(request, "head"));
    struct cf_stream *stream;
    struct stat info;
    int fd = open_regular(init, id, request, O_RDONLY, 0, &info);

    if (fd < 0)
        return;
    if (!is_head && (uint64_t)info.st_size > limit) {
        cf_control_refuse(init, id, EFBIG, "the file has %llu bytes, %llu are allowed",
                          (unsigned long long)info.st_size, (unsigned long long)limit);
        close(fd);
        return;
    }
    stream = begin_transfer(init, id, request, &read_ops, fd, limit);
    if (stream == NULL)
        return;
    ((struct transfer *)stream->user)->is_head = is_head;
    cf_stream_mark_readable(stream);
}
