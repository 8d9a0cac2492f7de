/*
 * Who we are, and which of our runs still live. The id is made once per installation and kept
 * in the state folder. The proof of life is a lock: it cannot be forgotten, because the kernel
 * lets go of it when the process ends, and it cannot go stale.
 */
#include "sandbox/owner.h"

#include "base/clock.h"
#include "base/ids.h"
#include "base/str.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- the state folder ---------------------------------------------------------------- */

static int
make_folder(const char *path, struct cf_error *err)
{
    char copy[4096];
    size_t len = strlen(path);

    if (len == 0 || len >= sizeof copy)
        return cf_error_set(err, CF_ERROR_CONFIG, 0,
                            "state folder path is empty or longer than %zu bytes",
                            sizeof copy - 1);
    memcpy(copy, path, len + 1);
    for (char *at = strchr(copy + 1, '/'); at != NULL; at = strchr(at + 1, '/')) {
        *at = '\0';
        (void)mkdir(copy, 0755); /* the last mkdir tells whether it worked */
        *at = '/';
    }
    if (mkdir(copy, 0700) < 0 && errno != EEXIST)
        return cf_error_set(err, CF_ERROR_CONFIG, errno, "state folder %s: %s", path,
                            strerror(errno));
    return 0;
}

/* Ours alone, or whoever shares it could make our runs look dead. */
static int
check_folder(const char *path, struct cf_error *err)
{
    struct stat st;

    if (lstat(path, &st) < 0)
        return cf_error_set(err, CF_ERROR_CONFIG, errno, "state folder %s: %s", path,
                            strerror(errno));
    if (S_ISLNK(st.st_mode) && stat(path, &st) < 0)
        return cf_error_set(err, CF_ERROR_CONFIG, errno, "state folder %s: %s", path,
                            strerror(errno));
    if (!S_ISDIR(st.st_mode))
        return cf_error_set(err, CF_ERROR_CONFIG, ENOTDIR, "state folder %s is not a folder",
                            path);
    if (st.st_uid != geteuid())
        return cf_error_set(err, CF_ERROR_CONFIG, EPERM,
                            "state folder %s belongs to uid %u, not to us", path, st.st_uid);
    if ((st.st_mode & 0022) != 0)
        return cf_error_set(err, CF_ERROR_CONFIG, EPERM,
                            "state folder %s can be written by others (mode %04o)", path,
                            st.st_mode & 07777);
    return 0;
}

static int
open_state_dir(struct cf_owner *owner, const char *path, struct cf_error *err)
{
    char runs[4200];

    if (path[0] != '/')
        return cf_error_set(err, CF_ERROR_CONFIG, 0, "state folder %s is not an absolute path",
                            path);
    (void)snprintf(runs, sizeof runs, "%s/runs", path);
    if (make_folder(path, err) < 0 || check_folder(path, err) < 0 ||
        make_folder(runs, err) < 0 || check_folder(runs, err) < 0)
        return -1;
    if (access(runs, W_OK | X_OK) < 0)
        return cf_error_set(err, CF_ERROR_CONFIG, errno, "state folder %s: %s", runs,
                            strerror(errno));
    return cf_str_copy(&owner->state_dir, path, err);
}

/* The first of the usual places. A home that cannot be written to (a read-only container, a
 * service account) falls through to /var/tmp; a place that was asked for by name does not. */
static int
find_state_dir(struct cf_owner *owner, const char *wanted, struct cf_error *err)
{
    char path[4096];
    const char *env;

    if (wanted == NULL)
        wanted = getenv("CFRUNNER_STATE_DIR");
    if (wanted != NULL && *wanted != '\0')
        return open_state_dir(owner, wanted, err);
    if ((env = getenv("XDG_STATE_HOME")) != NULL && env[0] == '/') {
        (void)snprintf(path, sizeof path, "%s/cfrunner", env);
        if (open_state_dir(owner, path, err) == 0)
            return 0;
    } else if ((env = getenv("HOME")) != NULL && env[0] == '/') {
        (void)snprintf(path, sizeof path, "%s/.local/state/cfrunner", env);
        if (open_state_dir(owner, path, err) == 0)
            return 0;
    }
    (void)snprintf(path, sizeof path, "/var/tmp/cfrunner-%u", (unsigned)geteuid());
    return open_state_dir(owner, path, err);
}

/* ---- the id -------------------------------------------------------------------------- */

static int
read_id(const char *path, char out[64])
{
    char text[64];
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    ssize_t n;

    if (fd < 0)
        return -1;
    n = read(fd, text, sizeof text - 1);
    close(fd);
    if (n < 0)
        return -1;
    text[n] = '\0';
    text[strcspn(text, "\n")] = '\0';
    if (!cf_labels_is_id(text, "own_")) {
        errno = EBADMSG;
        return -1;
    }
    memcpy(out, text, strlen(text) + 1);
    return 0;
}

/* Written whole under another name and then linked into place: of two processes that begin at
 * once one wins, and both read the winner's. */
static int
make_id(const char *path, struct cf_error *err)
{
    char id[64], temporary[4300], unique[33];
    int fd;

    cf_id_make("own_", id, sizeof id);
    cf_id_hex(unique);
    (void)snprintf(temporary, sizeof temporary, "%s.%s", path, unique);
    fd = open(temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0)
        return cf_error_set(err, CF_ERROR_CONFIG, errno, "%s: %s", temporary, strerror(errno));
    bool ok = dprintf(fd, "%s\n", id) > 0 && fsync(fd) == 0;
    close(fd);
    if (!ok || (link(temporary, path) < 0 && errno != EEXIST)) {
        int why = errno;
        (void)unlink(temporary);
        return cf_error_set(err, CF_ERROR_CONFIG, why, "%s: %s", path, strerror(why));
    }
    (void)unlink(temporary);
    return 0;
}

static int
find_id(struct cf_owner *owner, struct cf_error *err)
{
    char path[4200];

    (void)snprintf(path, sizeof path, "%s/owner-id", owner->state_dir);
    if (read_id(path, owner->id) == 0)
        return 0;
    if (errno == ENOENT && make_id(path, err) < 0)
        return -1;
    if (read_id(path, owner->id) == 0)
        return 0;
    cf_error_set(err, CF_ERROR_CONFIG, errno,
                 "%s does not hold an installation id (own_ and 32 hex digits): %s", path,
                 strerror(errno));
    return cf_error_fix(
        err, "remove the file; a new id is made, and what the old one left is found by "
             "cfrunner reap --all-dead-owners once its deadline has passed");
}

int
cf_owner_open(const char *state_dir, struct cf_owner **ret_owner, struct cf_error *err)
{
    struct cf_owner *owner = calloc(1, sizeof *owner);

    if (owner == NULL)
        return cf_error_memory(err);
    if (cf_process_identity_self(&owner->self, err) < 0)
        goto fail;
    if (find_state_dir(owner, state_dir, err) < 0) {
        cf_error_fix(
            err, "set CFRUNNER_STATE_DIR to a folder of your own that only you can write to");
        goto fail;
    }
    if (find_id(owner, err) < 0)
        goto fail;
    *ret_owner = owner;
    return 0;
fail:
    cf_owner_close(owner);
    return -1;
}

void
cf_owner_close(struct cf_owner *owner)
{
    if (owner == NULL)
        return;
    while (owner->locks != NULL) { /* not ended in order: the file stays, for reap to find */
        struct cf_run_lock *lock = owner->locks;
        owner->locks = lock->next;
        close(lock->fd);
        free(lock);
    }
    free(owner->state_dir);
    free(owner);
}

const char *
cf_owner_id(const struct cf_owner *owner)
{
    return owner->id;
}

const char *
cf_owner_state_dir(const struct cf_owner *owner)
{
    return owner->state_dir;
}

/* ---- the runs ------------------------------------------------------------------------ */

static void
run_path(const struct cf_owner *owner, const char *run, char *out, size_t size)
{
    (void)snprintf(out, size, "%s/runs/%s", owner->state_dir, run);
}

int
cf_owner_run_begin(struct cf_owner *owner, const char *run_id, struct cf_error *err)
{
    char path[4300], process[120];

    if (!cf_labels_is_id(run_id, "run_"))
        return cf_error_set(err, CF_ERROR_INTERNAL, 0, "run id is not run_ and 32 hex digits");
    run_path(owner, run_id, path, sizeof path);
    struct cf_run_lock *lock = calloc(1, sizeof *lock);
    if (lock == NULL)
        return cf_error_memory(err);
    lock->fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (lock->fd < 0) {
        int why = errno;
        free(lock);
        (void)cf_error_set(err, CF_ERROR_INTERNAL, why, "lock file %s: %s", path, strerror(why));
        return cf_error_fix(err, "see that there is room, and leave to write, in the state folder");
    }
    cf_process_identity_write(&owner->self, process);
    if (flock(lock->fd, LOCK_EX | LOCK_NB) < 0 || dprintf(lock->fd, "%s\n", process) < 0) {
        int why = errno;
        (void)unlink(path);
        close(lock->fd);
        free(lock);
        (void)cf_error_set(err, CF_ERROR_INTERNAL, why, "lock file %s: %s", path, strerror(why));
        return cf_error_fix(err, "see that there is room, and leave to write, in the state folder");
    }
    memcpy(lock->run, run_id, strlen(run_id) + 1);
    lock->next = owner->locks;
    owner->locks = lock;
    return 0;
}

void
cf_owner_run_end(struct cf_owner *owner, const char *run_id)
{
    char path[4300];

    for (struct cf_run_lock **at = &owner->locks; *at != NULL; at = &(*at)->next) {
        struct cf_run_lock *lock = *at;
        if (strcmp(lock->run, run_id) != 0)
            continue;
        *at = lock->next;
        run_path(owner, run_id, path, sizeof path);
        (void)unlink(path); /* gone already: as wanted */
        close(lock->fd);
        free(lock);
        return;
    }
}

json_t *
cf_owner_labels(const struct cf_owner *owner, const char *run_id, const char *sandbox_name,
                int64_t deadline_unix)
{
    struct cf_labels labels = {
        .process = owner->self, .created = cf_clock_unix(), .deadline = deadline_unix};

    (void)snprintf(labels.owner, sizeof labels.owner, "%s", owner->id);
    (void)snprintf(labels.run, sizeof labels.run, "%s", run_id);
    (void)snprintf(labels.sandbox, sizeof labels.sandbox, "%s",
                   sandbox_name != NULL ? sandbox_name : "");
    return cf_labels_write(&labels);
}

/* ---- the rule ------------------------------------------------------------------------ */

enum lock_state { LOCK_HELD, LOCK_FREE, LOCK_GONE, LOCK_UNKNOWN };

static enum lock_state
look_at_lock(const struct cf_owner *owner, const char *run)
{
    char path[4300];
    int fd;
    enum lock_state state;

    run_path(owner, run, path, sizeof path);
    fd = open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0)
        return errno == ENOENT ? LOCK_GONE : LOCK_UNKNOWN;
    if (flock(fd, LOCK_EX | LOCK_NB) == 0)
        state = LOCK_FREE;
    else
        state = errno == EWOULDBLOCK ? LOCK_HELD : LOCK_UNKNOWN;
    close(fd);
    return state;
}

bool
cf_owner_run_is_dead(const struct cf_owner *owner, const struct cf_labels *labels,
                     bool any_owner, int64_t now_unix, const char **ret_why)
{
    const struct cf_process_identity *process = &labels->process;
    bool is_ours = strcmp(labels->owner, owner->id) == 0;

    if (labels->deadline <= now_unix && (is_ours || any_owner)) {
        *ret_why = "its deadline has passed";
        return true;
    }
    if (!is_ours) {
        *ret_why = "another installation's, and its deadline has not passed";
        return false;
    }
    switch (look_at_lock(owner, labels->run)) {
    case LOCK_FREE:
        *ret_why = "nobody holds its lock file";
        return true;
    case LOCK_HELD:
        *ret_why = "its lock file is held";
        return false;
    case LOCK_UNKNOWN:
        *ret_why = "its lock file cannot be read";
        return false;
    case LOCK_GONE:
        break;
    }
    if (strcmp(process->boot, owner->self.boot) != 0 || process->pidns != owner->self.pidns) {
        *ret_why = "it has no lock file here, but it was started in another place";
        return false;
    }
    if (cf_process_is_alive(process->pid, process->start_ticks)) {
        *ret_why = "its process is alive";
        return false;
    }
    *ret_why = "its lock file and its process are gone";
    return true;
}

/* The blobs of the temporary registry: a flat folder of plain files, named by the run. */
static void
forget_registry(const struct cf_owner *owner, const char *run)
{
    char path[4300];
    struct dirent *entry;
    DIR *folder;
    int fd;

    (void)snprintf(path, sizeof path, "%s/registry-%s", owner->state_dir, run);
    fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
    folder = fd < 0 ? NULL : fdopendir(fd);
    if (folder == NULL) {
        if (fd >= 0)
            close(fd);
        return;
    }
    for (int seen = 0; seen < 65536 && (entry = readdir(folder)) != NULL; seen++)
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
            (void)unlinkat(fd, entry->d_name, 0); /* what is no file of ours keeps the folder */
    closedir(folder);
    (void)rmdir(path);
}

void
cf_owner_forget(const struct cf_owner *owner, const char *run)
{
    char path[4300];

    if (!cf_labels_is_id(run, "run_") || look_at_lock(owner, run) != LOCK_FREE)
        return;
    forget_registry(owner, run);
    run_path(owner, run, path, sizeof path);
    (void)unlink(path); /* another reaper may have been faster */
}

void
cf_owner_forget_stale(const struct cf_owner *owner, int64_t min_age_s,
                      bool (*keep)(void *user, const char *run), void *user)
{
    char path[4300];
    struct dirent *entry;
    struct stat st;
    DIR *runs;

    (void)snprintf(path, sizeof path, "%s/runs", owner->state_dir);
    if ((runs = opendir(path)) == NULL)
        return;
    for (int seen = 0; seen < 4096 && (entry = readdir(runs)) != NULL; seen++) {
        if (!cf_labels_is_id(entry->d_name, "run_"))
            continue;
        if (fstatat(dirfd(runs), entry->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0 ||
            st.st_mtime > cf_clock_unix() - min_age_s)
            continue;
        if (keep == NULL || !keep(user, entry->d_name))
            cf_owner_forget(owner, entry->d_name);
    }
    closedir(runs);
}
