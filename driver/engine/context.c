/*
 * Walks the folder depth first, names in order, one file request at a time. `pump` decides
 * what comes next; each request's callback records its answer and pumps again. When enough
 * bytes wait to be taken, pumping stops until cf_context_read has taken some.
 */
#include "engine/context.h"
#include "base/buf.h"
#include "base/str.h"
#include "engine/dockerfile.h"
#include "engine/engine.h"
#include "engine/file.h"
#include "engine/ignore.h"
#include "engine/tarsink.h"

#include <archive.h>
#include <archive_entry.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define ENOUGH_BYTES 65536u /* waiting to be taken: read no further */
#define CHUNK_BYTES 65536u
#define MAX_ENTRIES 1000000u
#define MAX_DEPTH 200
#define DOCKERFILE_LIMIT_BYTES (1024u * 1024)
#define IGNORE_LIMIT_BYTES (1024u * 1024)

struct level {  /* one open folder */
    char *path; /* relative, "" for the root */
    char **names;
    size_t count, at;
};

struct cf_context {
    uv_loop_t *loop;
    char *dir;
    struct cf_ignore *ignore;
    char *dockerfile;          /* relative; its text is replaced when there is a replacement */
    json_t *labels;            /* that were put into it */
    struct cf_buf replacement; /* the Dockerfile with our labels in it; empty: sent as it is */
    struct archive *archive;
    struct cf_buf out;
    struct level levels[MAX_DEPTH];
    int depth;
    char *path;      /* the entry under way, relative */
    bool is_ignored; /* it is: a folder looked into only for what comes back */
    uv_file fd;      /* -1: no file is open */
    uint64_t left;   /* of the open file */
    uint64_t entries;
    char chunk[CHUNK_BYTES];
    uv_fs_t request;
    bool is_busy, has_ended, is_closing, reader_waits;
    struct cf_error err;
    void (*on_ready)(void *user);
    void *user;
    void (*on_closed)(void *user);
    void *closed_user;
};

static void pump(struct cf_context *context);
static void close_file(struct cf_context *context);

/* ---- ends ------------------------------------------------------------------------------- */

static void
level_release(struct level *level)
{
    for (size_t i = 0; i < level->count; i++)
        free(level->names[i]);
    free(level->names);
    free(level->path);
    *level = (struct level){0};
}

static void
context_free(struct cf_context *context)
{
    while (context->depth > 0)
        level_release(&context->levels[--context->depth]);
    if (context->archive != NULL)
        archive_write_free(context->archive);
    cf_ignore_free(context->ignore);
    cf_buf_release(&context->replacement);
    free(context->dockerfile);
    json_decref(context->labels);
    cf_buf_release(&context->out);
    free(context->path);
    free(context->dir);
    free(context);
}

static void
free_closed(struct cf_context *context)
{
    void (*on_closed)(void *) = context->on_closed;
    void *user = context->closed_user;

    if (context->fd >= 0)
        close(context->fd); /* an open regular file or none: does not block */
    context_free(context);
    if (on_closed != NULL)
        on_closed(user);
}

/* After every callback: go on, tell the reader, or go away. */
static void
continue_walk(struct cf_context *context)
{
    context->is_busy = false;
    uv_fs_req_cleanup(&context->request);
    if (context->is_closing) {
        free_closed(context);
        return;
    }
    pump(context);
    bool has_news =
        context->out.len > 0 || context->has_ended || context->err.kind != CF_ERROR_NONE;
    if (context->reader_waits && has_news) {
        context->reader_waits = false;
        context->on_ready(context->user); /* may close us */
    }
}

static void
fail_at(struct cf_context *context, int uv_code, const char *what)
{
    if (context->err.kind == CF_ERROR_NONE)
        cf_error_set(&context->err, CF_ERROR_CONFIG, -uv_code, "build context: %s %s/%s: %s",
                     what, context->dir, context->path != NULL ? context->path : "",
                     uv_strerror(uv_code));
}

/* Absolute path of the entry under way; yours, or NULL with the error noted. */
static char *
full_path(struct cf_context *context)
{
    char *full = NULL;

    if (asprintf(&full, "%s/%s", context->dir, context->path) < 0) {
        cf_error_memory(&context->err);
        return NULL;
    }
    return full;
}

/* ---- entries ---------------------------------------------------------------------------- */

static void
put_entry(struct cf_context *context, const uv_stat_t *st, const char *link)
{
    struct archive_entry *entry = archive_entry_new();

    if (entry == NULL) {
        cf_error_memory(&context->err);
        return;
    }
    if (++context->entries > MAX_ENTRIES)
        cf_error_set(&context->err, CF_ERROR_TOO_LARGE, 0,
                     "build context %s has more than %u entries", context->dir, MAX_ENTRIES);
    archive_entry_set_pathname(entry, context->path);
    archive_entry_set_mode(entry, (mode_t)st->st_mode);
    archive_entry_set_mtime(entry, st->st_mtim.tv_sec, 0);
    archive_entry_set_size(entry, S_ISREG(st->st_mode) ? (la_int64_t)st->st_size : 0);
    if (link != NULL)
        archive_entry_set_symlink(entry, link);
    if (archive_write_header(context->archive, entry) < ARCHIVE_WARN)
        cf_tarsink_error(context->archive, context->path, &context->err);
    archive_entry_free(entry);
}

static void
on_closed_file(uv_fs_t *request)
{
    continue_walk(request->data); /* closing a file that was only read says nothing new */
}

static void
on_read(uv_fs_t *request)
{
    struct cf_context *context = request->data;
    ssize_t got = request->result;

    if (got < 0) {
        fail_at(context, (int)got, "read");
    } else if (got == 0) {
        cf_error_set(&context->err, CF_ERROR_CONFIG, 0,
                     "build context: %s/%s became shorter while it was read", context->dir,
                     context->path);
    } else if (archive_write_data(context->archive, context->chunk, (size_t)got) != got) {
        cf_tarsink_error(context->archive, context->path, &context->err);
    } else {
        context->left -= (uint64_t)got;
    }
    continue_walk(context);
}

static void
on_fstat(uv_fs_t *request)
{
    struct cf_context *context = request->data;

    if (request->result < 0) {
        fail_at(context, (int)request->result, "stat");
    } else if (!S_ISREG(request->statbuf.st_mode)) {
        cf_error_set(&context->err, CF_ERROR_CONFIG, 0,
                     "build context: %s/%s changed while it was read", context->dir,
                     context->path);
    } else {
        put_entry(context, &request->statbuf, NULL);
        context->left = request->statbuf.st_size;
    }
    continue_walk(context);
}

static void
on_open(uv_fs_t *request)
{
    struct cf_context *context = request->data;

    if (request->result < 0 || context->is_closing) {
        if (request->result >= 0)
            context->fd = (uv_file)request->result;
        else
            fail_at(context, (int)request->result, "open");
        continue_walk(context);
        return;
    }
    context->fd = (uv_file)request->result;
    uv_fs_req_cleanup(request);
    uv_fs_fstat(context->loop, request, context->fd, on_fstat);
}

static void
on_readlink(uv_fs_t *request)
{
    struct cf_context *context = request->data;
    uv_stat_t st = {.st_mode = S_IFLNK | 0777};

    if (request->result < 0)
        fail_at(context, (int)request->result, "read link");
    else
        put_entry(context, &st, request->ptr);
    continue_walk(context);
}

static int
take_names(struct level *level, uv_fs_t *request)
{
    uv_dirent_t entry;

    level->names = calloc((size_t)request->result + 1, sizeof *level->names);
    if (level->names == NULL)
        return -1;
    while (uv_fs_scandir_next(request, &entry) ==
           0) { /* to its very end, else libuv keeps the last name */
        level->names[level->count] = strdup(entry.name);
        if (level->names[level->count] == NULL)
            return -1;
        level->count++;
    }
    return 0;
}

static void
on_scandir(uv_fs_t *request)
{
    struct cf_context *context = request->data;

    if (request->result < 0) {
        fail_at(context, (int)request->result, "list");
    } else if (context->depth == MAX_DEPTH) {
        cf_error_set(&context->err, CF_ERROR_TOO_LARGE, 0,
                     "build context: %s/%s is more than %d folders deep", context->dir,
                     context->path, MAX_DEPTH);
    } else {
        struct level *level = &context->levels[context->depth++];
        *level = (struct level){.path = cf_steal(context->path)};
        if (take_names(level, request) < 0)
            cf_error_memory(&context->err);
    }
    continue_walk(context);
}

/* Runs one request on the entry under way. */
static void
ask(struct cf_context *context, int (*start)(struct cf_context *context, const char *full))
{
    cf_auto_free char *full = full_path(context);

    if (full == NULL)
        return;
    context->is_busy = true;
    int rc = start(context, full);
    if (rc < 0) {
        context->is_busy = false;
        fail_at(context, rc, "read");
    }
}

static int
start_scandir(struct cf_context *context, const char *full)
{
    return uv_fs_scandir(context->loop, &context->request, full, 0, on_scandir);
}

static int
start_open(struct cf_context *context, const char *full)
{
    return uv_fs_open(context->loop, &context->request, full,
                      O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0, on_open);
}

static int
start_readlink(struct cf_context *context, const char *full)
{
    return uv_fs_readlink(context->loop, &context->request, full, on_readlink);
}

/* The Dockerfile goes out with our labels in it. */
static void
put_replacement(struct cf_context *context, uv_stat_t st)
{
    st.st_size = context->replacement.len;
    put_entry(context, &st, NULL);
    if (context->err.kind == CF_ERROR_NONE &&
        archive_write_data(context->archive, context->replacement.data,
                           context->replacement.len) != (la_ssize_t)context->replacement.len)
        cf_tarsink_error(context->archive, context->path, &context->err);
}

/* What the entry is decides what is asked next; sockets, pipes and devices are left out. */
static void
on_lstat(uv_fs_t *request)
{
    struct cf_context *context = request->data;
    uint64_t mode = request->statbuf.st_mode;

    if (request->result < 0) {
        fail_at(context, (int)request->result, "stat");
        continue_walk(context);
        return;
    }
    if (S_ISDIR(mode) && !context->is_ignored)
        put_entry(context, &request->statbuf, NULL);
    if (S_ISREG(mode) && context->replacement.len > 0 &&
        strcmp(context->path, context->dockerfile) == 0) {
        put_replacement(context, request->statbuf);
        continue_walk(context);
        return;
    }
    bool goes_on = context->err.kind == CF_ERROR_NONE && !context->is_closing;
    if (goes_on &&
        (S_ISDIR(mode) || (!context->is_ignored && (S_ISREG(mode) || S_ISLNK(mode))))) {
        uv_fs_req_cleanup(request);
        ask(context, S_ISDIR(mode)   ? start_scandir
                     : S_ISREG(mode) ? start_open
                                     : start_readlink);
        if (context->is_busy)
            return;
    }
    continue_walk(context);
}

static int
start_lstat(struct cf_context *context, const char *full)
{
    return uv_fs_lstat(context->loop, &context->request, full, on_lstat);
}

/* ---- what comes next -------------------------------------------------------------------- */

static void
next_chunk(struct cf_context *context)
{
    uint64_t want = context->left < CHUNK_BYTES ? context->left : CHUNK_BYTES;
    uv_buf_t buf = uv_buf_init(context->chunk, (unsigned)want);

    context->is_busy = true;
    uv_fs_read(context->loop, &context->request, context->fd, &buf, 1, -1,
               on_read); /* errors come there */
}

static void
close_file(struct cf_context *context)
{
    uv_file fd = context->fd;

    context->fd = -1;
    context->is_busy = true;
    uv_fs_close(context->loop, &context->request, fd, on_closed_file);
}

static void
next_entry(struct cf_context *context, struct level *level)
{
    const char *name = level->names[level->at++];

    free(context->path);
    context->path = NULL;
    if (asprintf(&context->path, "%s%s%s", level->path, level->path[0] != '\0' ? "/" : "",
                 name) < 0) {
        context->path = NULL;
        cf_error_memory(&context->err);
        return;
    }
    context->is_ignored = cf_ignore_matches(context->ignore, context->path);
    if (!context->is_ignored || cf_ignore_may_return_beneath(context->ignore, context->path))
        ask(context, start_lstat);
}

static void
finish_tar(struct cf_context *context)
{
    if (archive_write_close(context->archive) != ARCHIVE_OK)
        cf_tarsink_error(context->archive, "end", &context->err);
    context->has_ended = true;
}

static void
pump(struct cf_context *context)
{
    while (!context->is_busy && !context->has_ended && context->err.kind == CF_ERROR_NONE &&
           context->out.len < ENOUGH_BYTES) {
        if (context->fd >= 0 && context->left > 0)
            next_chunk(context);
        else if (context->fd >= 0)
            close_file(context);
        else if (context->depth == 0)
            finish_tar(context);
        else if (context->levels[context->depth - 1].at ==
                 context->levels[context->depth - 1].count)
            level_release(&context->levels[--context->depth]);
        else
            next_entry(context, &context->levels[context->depth - 1]);
    }
}

long
cf_context_read(struct cf_context *context, char *to, size_t size)
{
    if (context->err.kind != CF_ERROR_NONE)
        return -1;
    if (context->out.len == 0 && !context->has_ended) {
        pump(context); /* may end the tar at once */
        if (context->err.kind != CF_ERROR_NONE)
            return -1;
    }
    if (context->out.len == 0 && !context->has_ended) {
        context->reader_waits = true;
        return CF_ENGINE_SOURCE_WAIT;
    }
    size_t take = context->out.len < size ? context->out.len : size;
    if (take > 0) {
        memcpy(to, context->out.data, take);
        cf_buf_drop(&context->out, take);
    }
    pump(context);
    return (long)take;
}

bool
cf_context_is_labelled(const struct cf_context *context)
{
    return context->replacement.len > 0;
}

unsigned
cf_context_author_line(const struct cf_context *context, unsigned number)
{
    if (context->replacement.len == 0)
        return number;
    return cf_dockerfile_author_line(context->replacement.data, context->replacement.len,
                                     context->labels, number);
}

const struct cf_error *
cf_context_error(const struct cf_context *context)
{
    return &context->err;
}

uint64_t
cf_context_entries(const struct cf_context *context)
{
    return context->entries;
}

void
cf_context_close(struct cf_context *context, void (*on_closed)(void *user), void *user)
{
    context->is_closing = true;
    context->on_closed = on_closed;
    context->closed_user = user;
    if (!context->is_busy)
        free_closed(context);
    else
        (void)uv_cancel((uv_req_t *)&context->request); /* its callback comes either way */
}

/* ---- opening: what can be said before anything is sent ---------------------------------- */

static bool
is_empty_dir(const char *dir)
{
    DIR *stream = opendir(dir);
    struct dirent *entry;
    bool empty = stream != NULL;

    while (empty && (entry = readdir(stream)) != NULL)
        empty = strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0;
    if (stream != NULL)
        closedir(stream);
    return empty;
}

static int
check_dir(const char *dir, struct cf_error *err)
{
    struct stat st;

    if (stat(dir, &st) < 0)
        return cf_error_set(err, CF_ERROR_CONFIG, errno, "build context %s: %s", dir,
                            strerror(errno));
    if (!S_ISDIR(st.st_mode))
        return cf_error_set(err, CF_ERROR_CONFIG, ENOTDIR, "build context %s is not a folder",
                            dir);
    if (access(dir, R_OK | X_OK) < 0)
        return cf_error_set(err, CF_ERROR_CONFIG, errno, "build context %s: %s", dir,
                            strerror(errno));
    if (is_empty_dir(dir)) {
        cf_error_set(err, CF_ERROR_CONFIG, 0, "build context %s is empty", dir);
        return cf_error_fix(err,
                            "name the folder that holds the Dockerfile and what it copies");
    }
    return 0;
}

static int
check_dockerfile(const char *dir, const char *dockerfile, struct cf_error *err)
{
    cf_auto_free char *full = NULL;
    struct stat st;

    if (dockerfile[0] == '/' || dockerfile[0] == '\0' || strcmp(dockerfile, "..") == 0 ||
        cf_str_starts(dockerfile, "../") || strstr(dockerfile, "/../") != NULL ||
        cf_str_ends(dockerfile, "/.."))
        return cf_error_set(err, CF_ERROR_CONFIG, 0,
                            "Dockerfile \"%s\" has to be a path inside the build context",
                            dockerfile);
    if (asprintf(&full, "%s/%s", dir, dockerfile) < 0)
        return cf_error_memory(err);
    if (stat(full, &st) < 0) {
        cf_error_set(err, CF_ERROR_CONFIG, errno, "build context %s has no %s (%s)", dir,
                     dockerfile, strerror(errno));
        return cf_error_fix(err, "name the folder that holds the Dockerfile");
    }
    if (!S_ISREG(st.st_mode))
        return cf_error_set(err, CF_ERROR_CONFIG, 0, "%s is not a regular file", full);
    return 0;
}

static int
read_ignore(struct cf_context *context, const char *dockerfile, struct cf_error *err)
{
    cf_auto_free char *path = NULL, *bytes = NULL;
    struct cf_error why = {0};
    size_t len = 0;

    if (asprintf(&path, "%s/.dockerignore", context->dir) < 0)
        return cf_error_memory(err);
    if (cf_file_read(path, IGNORE_LIMIT_BYTES, &bytes, &len, &why) < 0 && why.code != ENOENT) {
        if (err != NULL)
            *err = why;
        return -1;
    }
    if (cf_ignore_parse(bytes, bytes != NULL ? len : 0, &context->ignore, err) < 0)
        return cf_error_wrap(err, "%s", path);
    /* the engine needs these two whatever the file says */
    if (cf_ignore_matches(context->ignore, ".dockerignore") &&
        cf_ignore_keep(context->ignore, ".dockerignore", err) < 0)
        return -1;
    if (cf_ignore_matches(context->ignore, dockerfile) &&
        cf_ignore_keep(context->ignore, dockerfile, err) < 0)
        return -1;
    return 0;
}

/* A Dockerfile that cannot be changed (a link, too large, without FROM) goes out as it is. */
static void
label_dockerfile(struct cf_context *context, const json_t *labels)
{
    cf_auto_free char *path = NULL, *bytes = NULL;
    struct cf_error why;
    size_t len = 0;
    struct stat st;

    if (labels == NULL || asprintf(&path, "%s/%s", context->dir, context->dockerfile) < 0)
        return;
    cf_buf_init(&context->replacement, 2 * DOCKERFILE_LIMIT_BYTES);
    if (lstat(path, &st) < 0 || !S_ISREG(st.st_mode) ||
        cf_file_read(path, DOCKERFILE_LIMIT_BYTES, &bytes, &len, &why) < 0 ||
        !cf_dockerfile_label(bytes, len, labels, &context->replacement))
        cf_buf_release(&context->replacement);
    else
        context->labels = json_deep_copy(labels);
}

static int
prepare(struct cf_context *context, const char *dir, const char *dockerfile,
        const json_t *labels, struct cf_error *err)
{
    if (cf_str_copy(&context->dir, dir, err) < 0)
        return -1;
    for (size_t len = strlen(context->dir); len > 1 && context->dir[len - 1] == '/'; len--)
        context->dir[len - 1] = '\0';
    while (cf_str_starts(dockerfile, "./"))
        dockerfile += 2;
    if (check_dir(context->dir, err) < 0 ||
        check_dockerfile(context->dir, dockerfile, err) < 0 ||
        read_ignore(context, dockerfile, err) < 0 ||
        cf_str_copy(&context->dockerfile, dockerfile, err) < 0)
        return -1;
    label_dockerfile(context, labels);
    context->archive = cf_tarsink_new(&context->out);
    context->path = strdup("");
    if (context->archive == NULL || context->path == NULL)
        return cf_error_memory(err);
    return 0;
}

int
cf_context_open(uv_loop_t *loop, const char *dir, const char *dockerfile, const json_t *labels,
                void (*on_ready)(void *user), void *user, struct cf_context **ret_context,
                struct cf_error *err)
{
    struct cf_context *context = calloc(1, sizeof *context);

    if (context == NULL)
        return cf_error_memory(err);
    context->loop = loop;
    context->fd = -1;
    context->on_ready = on_ready;
    context->user = user;
    context->request.data = context;
    if (prepare(context, dir, dockerfile, labels, err) < 0) {
        context_free(context);
        return -1;
    }
    ask(context, start_scandir); /* the root itself is no entry */
    if (!context->is_busy) {
        if (err != NULL)
            *err = context->err;
        context_free(context);
        return -1;
    }
    *ret_context = context;
    return 0;
}
