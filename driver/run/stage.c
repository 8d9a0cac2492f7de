/*
 * Staging: what the author wants to lie in the sandbox before the first turn. One entry after the
 * other: looked at on the host, then made through cf-init as the harness's own user. Folders put
 * their entries into the same queue, so that nothing here recurses.
 */
#include "run/files.h"

#include "run/hall.h"
#include "run/restore.h"

#include "base/mime.h"
#include "base/str.h"
#include "json/json.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/queue.h>
#include <sys/stat.h>

#define CHUNK_BYTES (256u * 1024u)
#define ENTRIES_MOST 100000u

struct item {
    TAILQ_ENTRY(item) in_queue;
    char *source, *target; /* on the host; beneath `root`, "" is root itself */
    const char *root;
    bool is_named; /* by the author: a symlink is followed, folders above are made */
    bool is_file;  /* of options.files: the agent may be told of it */
};
TAILQ_HEAD(queue, item);

struct cf_stage {
    struct cf_run *run;
    cf_files_done_fn *done;
    struct queue queue; /* the first one is being worked on */
    uv_fs_t fs;
    bool is_fs_busy, is_given_up;
    int fd;
    uint64_t size, offset;
    unsigned mode;
    char *chunk;
    size_t chunk_len, chunk_at;
    struct cf_transfer *transfer;
    uint64_t files, folders, links, bytes;
    int status;
    struct cf_error err;
};

static void next(struct cf_stage *stage);

/* ---- items ------------------------------------------------------------------------------- */

static void
drop_first(struct cf_stage *stage)
{
    struct item *item = TAILQ_FIRST(&stage->queue);

    TAILQ_REMOVE(&stage->queue, item, in_queue);
    free(item->source);
    free(item->target);
    free(item);
}

/* "dir" + "name"; "" + "name" is "name". NULL: memory. */
static char *
join(const char *folder, const char *name)
{
    char *path = NULL;

    if (asprintf(&path, "%s%s%s", folder, *folder != '\0' ? "/" : "", name) < 0)
        return NULL;
    return path;
}

/* Both strings are taken; NULL among them: memory. */
static int
add_item(struct cf_stage *stage, char *source, const char *root, char *target, bool is_named, struct item *after)
{
    struct item *item = calloc(1, sizeof *item);

    if (item == NULL || source == NULL || target == NULL) {
        free(item);
        free(source);
        free(target);
        return -1;
    }
    *item = (struct item){.source = source, .target = target, .root = root, .is_named = is_named};
    if (after != NULL)
        TAILQ_INSERT_AFTER(&stage->queue, after, item, in_queue);
    else
        TAILQ_INSERT_TAIL(&stage->queue, item, in_queue);
    return 0;
}

/* "a/./b//c/" -> "a/b/c". */
static void
tidy(char *path)
{
    char *to = path;

    for (const char *at = path; *at != '\0';) {
        size_t len = strcspn(at, "/");
        if (len > 0 && !(len == 1 && *at == '.')) {
            if (to != path)
                *to++ = '/';
            memmove(to, at, len);
            to += len;
        }
        at += len;
        at += *at == '/';
    }
    *to = '\0';
}

/* A target that ends in a slash is the folder that the source goes into. */
static char *
target_path(const char *source, const char *target)
{
    const char *name = strrchr(source, '/');
    char *path;

    name = name != NULL ? name + 1 : source;
    if (cf_str_ends(target, "/") && *name != '\0' && strcmp(name, ".") != 0 && strcmp(name, "..") != 0)
        path = join(target, name);
    else
        path = strdup(target);
    if (path != NULL)
        tidy(path);
    return path;
}

static int
fill_queue(struct cf_stage *stage, struct cf_error *err)
{
    const struct cf_run_options *options = &stage->run->options;
    const char *cwd = cf_sandbox_working_directory(stage->run->sandbox);
    const char *restored = cf_restore_directory(stage->run);
    json_t *file;
    size_t i;

    if (options->state_in != NULL &&
        add_item(stage, strdup(options->state_in), cwd, strdup(""), true, NULL) < 0)
        return cf_error_memory(err);
    if (restored != NULL && add_item(stage, strdup(restored), cwd, strdup(""), false, NULL) < 0)
        return cf_error_memory(err);
    json_array_foreach(options->files, i, file)
    {
        const char *source = cf_json_str(file, "source"), *target = cf_json_str(file, "target");
        if (add_item(stage, strdup(source), *target == '/' ? "/" : cwd, target_path(source, target), true, NULL) < 0)
            return cf_error_memory(err);
        TAILQ_LAST(&stage->queue, queue)->is_file = true;
    }
    return 0;
}

/* ---- the end ------------------------------------------------------------------------------ */

static void
tell_done(struct cf_stage *stage)
{
    struct cf_run *run = stage->run;
    cf_files_done_fn *done = stage->done;
    struct cf_error err = stage->err;
    int status = stage->status;

    json_decref(run->staged);
    run->staged = json_pack("{s:I, s:I, s:I, s:I}", "files", (json_int_t)stage->files, "folders",
                            (json_int_t)stage->folders, "symlinks", (json_int_t)stage->links, "bytes",
                            (json_int_t)stage->bytes);
    while (!TAILQ_EMPTY(&stage->queue))
        drop_first(stage);
    free(stage->chunk);
    free(stage);
    run->stage = NULL;
    done(run, status, &err);
}

static void
on_closed(uv_fs_t *fs)
{
    struct cf_stage *stage = fs->data;

    uv_fs_req_cleanup(fs);
    stage->is_fs_busy = false;
    tell_done(stage);
}

static void
finish(struct cf_stage *stage)
{
    cf_transfer_abandon(stage->transfer);
    stage->transfer = NULL;
    if (stage->is_fs_busy) {
        stage->is_given_up = true; /* its callback comes back here */
        return;
    }
    if (stage->fd >= 0) {
        int fd = stage->fd;
        stage->fd = -1;
        stage->is_fs_busy = true;
        if (uv_fs_close(stage->run->loop, &stage->fs, fd, on_closed) == 0)
            return;
        stage->is_fs_busy = false;
    }
    tell_done(stage);
}

static void
fail(struct cf_stage *stage, const struct cf_error *err)
{
    if (stage->status == 0)
        stage->err = *err;
    stage->status = -1;
    finish(stage);
}

static void __attribute__((format(printf, 3, 4)))
fail_item(struct cf_stage *stage, const char *fix, const char *fmt, ...)
{
    const struct item *item = TAILQ_FIRST(&stage->queue);
    char text[400];
    struct cf_error why;
    va_list args;

    va_start(args, fmt);
    (void)vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    (void)cf_error_set(&why, CF_ERROR_CONFIG, 0, "staging %.300s: %s", item != NULL ? item->source : "files", text);
    (void)cf_error_fix(&why, "%s", fix);
    fail(stage, &why);
}

/* What every callback of the host's files begins with. False: it is over. */
static bool
took(struct cf_stage *stage, uv_fs_t *fs, const char *what)
{
    ssize_t result = fs->result;

    stage->is_fs_busy = false;
    if (stage->is_given_up) {
        uv_fs_req_cleanup(fs);
        finish(stage);
        return false;
    }
    if (result >= 0)
        return true;
    uv_fs_req_cleanup(fs);
    fail_item(stage, "give a readable file or folder of this machine", "%s: %s", what, uv_strerror((int)result));
    return false;
}

static void
begin_fs(struct cf_stage *stage, int status)
{
    if (status == 0)
        stage->is_fs_busy = true;
    else
        fail_item(stage, "see the message", "%s", uv_strerror(status));
}

/* What every answer of the sandbox begins with. NULL: it is over, or it came too late. */
static struct cf_stage *
heard(struct cf_run *run, int status, const struct cf_error *err)
{
    struct cf_stage *stage = run->stage;
    const struct item *item;

    if (stage == NULL || stage->is_given_up)
        return NULL;
    stage->transfer = NULL;
    if (status == 0)
        return stage;
    item = TAILQ_FIRST(&stage->queue);
    fail_item(stage, "the image's user must be able to write there", "writing %s%s%s in the sandbox: %s", item->root,
              cf_str_ends(item->root, "/") ? "" : "/", item->target, err->text);
    return NULL;
}

/* What a resource link says of it: where it is, how large, of what type where that is known. */
static void
remember_file(struct cf_stage *stage, bool is_folder)
{
    const struct item *item = TAILQ_FIRST(&stage->queue);
    struct cf_run *run = stage->run;
    const char *slash = strrchr(item->target, '/'), *type = is_folder ? "inode/directory" : cf_mime_type(item->target);
    cf_auto_free char *path = NULL;
    json_t *file;

    if (!item->is_file || asprintf(&path, "%s%s%s", item->root, cf_str_ends(item->root, "/") ? "" : "/", item->target) < 0)
        return;
    file = json_pack("{s:s, s:s}", "path", path, "name", slash != NULL ? slash + 1 : item->target);
    if (file != NULL && !is_folder)
        (void)json_object_set_new(file, "size", json_integer((json_int_t)stage->size));
    if (file != NULL && type != NULL)
        (void)json_object_set_new(file, "mimeType", json_string(type));
    if (run->staged_files == NULL)
        run->staged_files = json_array();
    (void)json_array_append_new(run->staged_files, file);
}

static void
item_done(struct cf_stage *stage)
{
    drop_first(stage);
    next(stage);
}

/* ---- one file --------------------------------------------------------------------------------- */

static void
on_file_closed(uv_fs_t *fs)
{
    struct cf_stage *stage = fs->data;

    if (!took(stage, fs, "close"))
        return;
    uv_fs_req_cleanup(fs);
    stage->files++;
    stage->bytes += stage->size;
    remember_file(stage, false);
    item_done(stage);
}

static void
on_uploaded(void *user, int status, json_t *answer, const struct cf_error *err)
{
    struct cf_stage *stage = heard(user, status, err);
    int fd;

    if (stage == NULL)
        return;
    fd = stage->fd;
    stage->fd = -1;
    begin_fs(stage, uv_fs_close(stage->run->loop, &stage->fs, fd, on_file_closed));
}

static void pour(struct cf_stage *stage);

static void
on_read(uv_fs_t *fs)
{
    struct cf_stage *stage = fs->data;

    if (!took(stage, fs, "read"))
        return;
    if (fs->result == 0) {
        uv_fs_req_cleanup(fs);
        fail_item(stage, "stage files that nobody writes meanwhile", "it became shorter while it was read");
        return;
    }
    stage->chunk_len = (size_t)fs->result;
    stage->chunk_at = 0;
    stage->offset += stage->chunk_len;
    uv_fs_req_cleanup(fs);
    pour(stage);
}

/* Puts what was read, and reads on when all of it is out. */
static void
pour(struct cf_stage *stage)
{
    size_t len = stage->chunk_len - stage->chunk_at;
    uv_buf_t to;

    if (stage->is_fs_busy || stage->transfer == NULL)
        return;
    if (len > 0) {
        stage->chunk_at += cf_transfer_put(stage->transfer, stage->chunk + stage->chunk_at, len);
        if (stage->chunk_at < stage->chunk_len)
            return; /* on_room comes */
    }
    if (stage->offset == stage->size)
        return; /* done comes */
    len = stage->size - stage->offset < CHUNK_BYTES ? (size_t)(stage->size - stage->offset) : CHUNK_BYTES;
    to = uv_buf_init(stage->chunk, (unsigned)len);
    begin_fs(stage, uv_fs_read(stage->run->loop, &stage->fs, stage->fd, &to, 1, (int64_t)stage->offset, on_read));
}

static void
on_room(void *user)
{
    struct cf_run *run = user;

    if (run->stage != NULL)
        pour(run->stage);
}

static void
upload(struct cf_stage *stage)
{
    const struct item *item = TAILQ_FIRST(&stage->queue);
    /* an agent that is told of a file may hold it for unchanging */
    unsigned mode = item->is_file && stage->run->release.is_acp ? 0444 : stage->mode & 0777;
    struct cf_error why;

    stage->offset = stage->chunk_len = stage->chunk_at = 0;
    if (cf_link_upload(cf_sandbox_link(stage->run->sandbox), item->root, item->target, mode, stage->size,
                       on_room, on_uploaded, stage->run, &stage->transfer, &why) < 0) {
        stage->transfer = NULL;
        fail(stage, &why);
    }
}

static void
on_parent_made(void *user, int status, json_t *answer, const struct cf_error *err)
{
    struct cf_stage *stage = heard(user, status, err);

    if (stage != NULL)
        upload(stage);
}

static void
on_file_known(uv_fs_t *fs)
{
    struct cf_stage *stage = fs->data;
    const struct item *item = TAILQ_FIRST(&stage->queue);
    cf_auto_free char *parent = NULL;
    struct cf_error why;
    char *slash;

    if (!took(stage, fs, "fstat"))
        return;
    stage->size = fs->statbuf.st_size;
    stage->mode = (unsigned)fs->statbuf.st_mode;
    uv_fs_req_cleanup(fs);
    if (!S_ISREG(stage->mode)) {
        fail_item(stage, "stage regular files", "it became something else than a regular file");
        return;
    }
    parent = item->is_named ? strdup(item->target) : NULL;
    slash = parent != NULL ? strrchr(parent, '/') : NULL;
    if (slash == NULL) {
        upload(stage);
        return;
    }
    *slash = '\0';
    if (cf_link_mkdir(cf_sandbox_link(stage->run->sandbox), item->root, parent, 0755, on_parent_made, stage->run,
                      &why) < 0)
        fail(stage, &why);
}

static void
on_file_open(uv_fs_t *fs)
{
    struct cf_stage *stage = fs->data;

    if (!took(stage, fs, "open"))
        return;
    stage->fd = (int)fs->result;
    uv_fs_req_cleanup(fs);
    begin_fs(stage, uv_fs_fstat(stage->run->loop, &stage->fs, stage->fd, on_file_known));
}

static void
open_file(struct cf_stage *stage)
{
    const struct item *item = TAILQ_FIRST(&stage->queue);
    int flags = O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY | (item->is_named ? 0 : O_NOFOLLOW);

    if (item->target[0] == '\0')
        fail_item(stage, "name the file it shall become: SRC:NAME", "it is a file, and its target is a folder");
    else
        begin_fs(stage, uv_fs_open(stage->run->loop, &stage->fs, item->source, flags, 0, on_file_open));
}

/* ---- folders, symlinks --------------------------------------------------------------------------- */

static void
on_listed(uv_fs_t *fs)
{
    struct cf_stage *stage = fs->data;
    struct item *folder = TAILQ_FIRST(&stage->queue);
    uv_dirent_t entry;
    bool has_memory = true;

    if (!took(stage, fs, "scandir"))
        return;
    while (has_memory && uv_fs_scandir_next(fs, &entry) == 0)
        has_memory = add_item(stage, join(folder->source, entry.name), folder->root,
                              join(folder->target, entry.name), false, folder) == 0;
    uv_fs_req_cleanup(fs);
    if (!has_memory) {
        (void)cf_error_memory(&stage->err);
        stage->status = -1;
        finish(stage);
        return;
    }
    stage->folders++;
    remember_file(stage, true);
    item_done(stage);
}

static void
list_folder(struct cf_stage *stage)
{
    begin_fs(stage, uv_fs_scandir(stage->run->loop, &stage->fs, TAILQ_FIRST(&stage->queue)->source, 0, on_listed));
}

static void
on_folder_made(void *user, int status, json_t *answer, const struct cf_error *err)
{
    struct cf_stage *stage = heard(user, status, err);

    if (stage != NULL)
        list_folder(stage);
}

static void
make_folder(struct cf_stage *stage, unsigned mode)
{
    const struct item *item = TAILQ_FIRST(&stage->queue);
    struct cf_error why;

    if (item->target[0] == '\0') {
        list_folder(stage);
        return;
    }
    if (cf_link_mkdir(cf_sandbox_link(stage->run->sandbox), item->root, item->target, (mode | 0700) & 0777,
                      on_folder_made, stage->run, &why) < 0)
        fail(stage, &why);
}

static void
on_linked(void *user, int status, json_t *answer, const struct cf_error *err)
{
    struct cf_stage *stage = heard(user, status, err);

    if (stage == NULL)
        return;
    stage->links++;
    item_done(stage);
}

static void
on_link_read(uv_fs_t *fs)
{
    struct cf_stage *stage = fs->data;
    const struct item *item = TAILQ_FIRST(&stage->queue);
    cf_auto_free char *text = NULL;
    struct cf_error why;

    if (!took(stage, fs, "readlink"))
        return;
    text = strdup(fs->ptr);
    uv_fs_req_cleanup(fs);
    if (text == NULL)
        (void)cf_error_memory(&why);
    if (text == NULL || cf_link_symlink(cf_sandbox_link(stage->run->sandbox), item->root, item->target, text, on_linked,
                                        stage->run, &why) < 0)
        fail(stage, &why);
}

/* ---- the queue ------------------------------------------------------------------------------------- */

static void
on_looked(uv_fs_t *fs)
{
    struct cf_stage *stage = fs->data;
    unsigned mode;

    if (!took(stage, fs, "stat"))
        return;
    mode = (unsigned)fs->statbuf.st_mode;
    uv_fs_req_cleanup(fs);
    if (stage->files + stage->folders + stage->links >= ENTRIES_MOST)
        fail_item(stage, "stage an archive and unpack it in a hook", "there are more than %u entries", ENTRIES_MOST);
    else if (S_ISREG(mode))
        open_file(stage);
    else if (S_ISDIR(mode))
        make_folder(stage, mode);
    else if (S_ISLNK(mode) && TAILQ_FIRST(&stage->queue)->target[0] == '\0')
        fail_item(stage, "name the folder itself", "it is a symlink, and what is restored follows none");
    else if (S_ISLNK(mode))
        begin_fs(stage, uv_fs_readlink(stage->run->loop, &stage->fs, TAILQ_FIRST(&stage->queue)->source, on_link_read));
    else
        fail_item(stage, "stage regular files, folders and symlinks", "it is a fifo, a socket or a device");
}

static void
next(struct cf_stage *stage)
{
    const struct item *item = TAILQ_FIRST(&stage->queue);

    if (item == NULL)
        finish(stage);
    else if (item->is_named)
        begin_fs(stage, uv_fs_stat(stage->run->loop, &stage->fs, item->source, on_looked));
    else
        begin_fs(stage, uv_fs_lstat(stage->run->loop, &stage->fs, item->source, on_looked));
}

int
cf_stage_open(struct cf_run *run, cf_files_done_fn *done, struct cf_error *err)
{
    struct cf_stage *stage = calloc(1, sizeof *stage);

    if (stage == NULL)
        return cf_error_memory(err);
    stage->run = run;
    stage->done = done;
    stage->fd = -1;
    stage->fs.data = stage;
    TAILQ_INIT(&stage->queue);
    stage->chunk = malloc(CHUNK_BYTES);
    if (stage->chunk == NULL || fill_queue(stage, err) < 0) {
        if (stage->chunk == NULL)
            (void)cf_error_memory(err);
        while (!TAILQ_EMPTY(&stage->queue))
            drop_first(stage);
        free(stage->chunk);
        free(stage);
        return -1;
    }
    run->stage = stage;
    next(stage);
    return 0;
}

void
cf_stage_give_up(struct cf_run *run)
{
    struct cf_stage *stage = run->stage;

    if (stage == NULL || stage->is_given_up)
        return;
    stage->is_given_up = true;
    if (stage->status == 0) {
        (void)cf_error_set(&stage->err, CF_ERROR_CANCELED, 0, "staging was given up");
        stage->status = -1;
    }
    if (!stage->is_fs_busy)
        finish(stage);
}
