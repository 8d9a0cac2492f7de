/*
 * The disk watch: how many blocks the run has taken. Nothing tells that from inside, so it is
 * counted, in slices of a few milliseconds: files of the watched folders that changed since
 * the sandbox started (the image's own are older; their status time cannot be set back), what
 * /tmp holds, and files that have no name any more but are still open. The space left on the
 * disk, although others share it, tells when to hurry, and whether what a process left behind when
 * it ended may be too much: then its end is told after one more pass.
 *
 * A program may close a folder to its own user, or go deeper than the walk does. Where one that
 * changed during the run could not be entered, what the disk lost since the start stands in for
 * what is in there.
 *
 * Not seen: files without a name that are only mapped, under way in a socket, or held by a process
 * that made itself undumpable.
 */
#include "init/init.h"

#include "base/clock.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/vfs.h>
#include <unistd.h>

#define FOLDERS_MAX 16
#define SEEN_MAX 4096 /* a power of two */
#define REST_MS 2000  /* between two passes */
#define GLANCE_MS 500
#define SLICE_US 3000
#define SLICE_GAP_MS 50
#define HURRY_SLICE_US 10000
#define HURRY_GAP_MS 15
#define LAST_LOOK_MS 1000

struct folder {
    char *path;
    dev_t device;
    ino_t inode;
    uint64_t free_first;             /* when the watch began */
    uint64_t free_before, free_then; /* when the pass going on began; when the last whole one did */
};

struct cf_disk {
    uint64_t limit, used, so_far; /* of the last whole pass, of the one going on */
    bool is_told, is_passing, is_hurried;
    bool is_blind; /* the pass going on met a folder of this run that it could not enter */
    struct folder folders[FOLDERS_MAX];
    unsigned folder_count, at;
    struct cf_walk *walk;
    DIR *proc, *fds; /* the search for open files without a name */
    struct {
        dev_t device;
        ino_t inode;
    } seen[SEEN_MAX];
    unsigned seen_count;
    dev_t tmp_device; /* 0: /tmp is no tmpfs */
    uint64_t tmp_before, tmp_then;
    uint64_t next_ms, pass_due_ms;
};

static uint64_t
blocks_of(const struct stat *info)
{
    return (uint64_t)info->st_blocks * 512;
}

/* ---- folders ------------------------------------------------------------------------ */

static bool
open_folder(struct cf_disk *disk)
{
    disk->walk = cf_walk_open(disk->folders[disk->at].path, true);
    if (disk->walk == NULL)
        return false;
    for (unsigned i = 0; i < disk->folder_count; i++)
        if (i != disk->at)
            cf_walk_skip(disk->walk, disk->folders[i].device, disk->folders[i].inode);
    return true;
}

static bool
is_of_this_run(const struct cf_init *init, const struct stat *info)
{
    return info->st_ctim.tv_sec > init->started_at.tv_sec ||
           (info->st_ctim.tv_sec == init->started_at.tv_sec &&
            info->st_ctim.tv_nsec >= init->started_at.tv_nsec);
}

static void
count_entry(struct cf_init *init, const struct cf_walk_entry *entry)
{
    const struct stat *info = &entry->info;
    nlink_t names = info->st_nlink > 0 && !S_ISDIR(info->st_mode) ? info->st_nlink : 1;

    if (!is_of_this_run(init, info))
        return;
    init->disk->so_far += blocks_of(info) / names; /* each of its names adds its share */
    if (entry->error != 0 && entry->error != ENOENT)
        init->disk->is_blind = true;
}

static void
note_closed_folder(struct cf_init *init)
{
    struct stat info;

    if (stat(init->disk->folders[init->disk->at].path, &info) == 0 && is_of_this_run(init, &info))
        init->disk->is_blind = true;
}

/* One entry of the folder being walked; false when all folders are done. */
static bool
step_folders(struct cf_init *init)
{
    struct cf_disk *disk = init->disk;
    struct cf_walk_entry entry;

    if (disk->at == disk->folder_count)
        return false;
    if (disk->walk == NULL && !open_folder(disk)) {
        note_closed_folder(init);
        disk->at++;
        return true;
    }
    if (cf_walk_next(disk->walk, &entry)) {
        count_entry(init, &entry);
        return true;
    }
    cf_walk_free(disk->walk);
    disk->walk = NULL;
    disk->at++;
    return true;
}

/* ---- /tmp --------------------------------------------------------------------------- */

static uint64_t
tmp_bytes(dev_t *ret_device)
{
    struct statfs fs;
    struct stat info;

    *ret_device = 0;
    if (statfs("/tmp", &fs) < 0 || fs.f_type != TMPFS_MAGIC || stat("/tmp", &info) < 0)
        return 0; /* then it is part of the layer */
    *ret_device = info.st_dev;
    return (uint64_t)(fs.f_blocks - fs.f_bfree) * (uint64_t)fs.f_bsize;
}

/* ---- open files without a name ------------------------------------------------------ */

static bool
is_new(struct cf_disk *disk, const struct stat *info)
{
    size_t at = (size_t)(info->st_ino * 0x9e3779b97f4a7c15u >> 32) % SEEN_MAX;

    if (disk->seen_count >= SEEN_MAX / 2)
        return false; /* enough of them to be found in the next pass */
    for (; disk->seen[at].inode != 0; at = (at + 1) % SEEN_MAX)
        if (disk->seen[at].inode == info->st_ino && disk->seen[at].device == info->st_dev)
            return false;
    disk->seen[at].device = info->st_dev;
    disk->seen[at].inode = info->st_ino;
    disk->seen_count++;
    return true;
}

/* Memory is limited elsewhere. */
static bool
is_memory(const struct cf_disk *disk, const struct stat *info, const char *name)
{
    char target[32];
    ssize_t n;

    if (disk->tmp_device != 0 && info->st_dev == disk->tmp_device)
        return true;
    n = readlinkat(dirfd(disk->fds), name, target, sizeof target - 1);
    target[n > 0 ? n : 0] = '\0';
    return cf_str_starts(target, "/memfd:") || cf_str_starts(target, "/dev/shm/") ||
           cf_str_starts(target, "/SYSV") || cf_str_starts(target, "/dev/zero");
}

static bool
open_next_process(struct cf_disk *disk)
{
    struct dirent *entry;
    char path[300];
    int fd;

    while ((entry = readdir(disk->proc)) != NULL) {
        if (atoi(entry->d_name) <= 1)
            continue;
        snprintf(path, sizeof path, "/proc/%s/fd", entry->d_name);
        fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        disk->fds = fd < 0 ? NULL : fdopendir(fd);
        if (disk->fds != NULL)
            return true;
        if (fd >= 0)
            close(fd);
    }
    closedir(disk->proc);
    disk->proc = NULL;
    return false;
}

/* One open descriptor; false when there are no more. */
static bool
step_nameless(struct cf_disk *disk)
{
    struct dirent *entry;
    struct stat info;

    if (disk->proc == NULL || (disk->fds == NULL && !open_next_process(disk)))
        return false;
    entry = readdir(disk->fds);
    if (entry == NULL) {
        closedir(disk->fds);
        disk->fds = NULL;
        return true;
    }
    if (fstatat(dirfd(disk->fds), entry->d_name, &info, 0) == 0 && S_ISREG(info.st_mode) &&
        info.st_nlink == 0 && !is_memory(disk, &info, entry->d_name) && is_new(disk, &info))
        disk->so_far += blocks_of(&info);
    return true;
}

/* ---- passes ------------------------------------------------------------------------- */

static uint64_t
free_space(const struct folder *folder)
{
    struct statfs fs;

    return statfs(folder->path, &fs) < 0 ? 0 : (uint64_t)fs.f_bavail * (uint64_t)fs.f_bsize;
}

/* What the disks lost since the last whole pass began, or the one going on. One that holds several
 * folders counts for each. */
static uint64_t
lost(const struct cf_disk *disk, bool since_whole)
{
    uint64_t sum = 0;

    for (unsigned i = 0; i < disk->folder_count; i++) {
        const struct folder *folder = &disk->folders[i];
        uint64_t then = since_whole ? folder->free_then : folder->free_before;
        uint64_t now = free_space(folder);
        sum += now < then ? then - now : 0;
    }
    return sum;
}

/* What the disk lost since the watch began; of several, the one that lost most: they may be one. */
static uint64_t
lost_since_first(const struct cf_disk *disk)
{
    uint64_t most = 0;

    for (unsigned i = 0; i < disk->folder_count; i++) {
        uint64_t now = free_space(&disk->folders[i]), first = disk->folders[i].free_first;
        if (now != 0 && now < first && first - now > most)
            most = first - now;
    }
    return most;
}

static void
end_pass(struct cf_disk *disk)
{
    cf_walk_free(disk->walk);
    if (disk->proc != NULL)
        closedir(disk->proc);
    if (disk->fds != NULL)
        closedir(disk->fds);
    disk->walk = NULL;
    disk->proc = disk->fds = NULL;
    disk->is_passing = false;
}

static void
begin_pass(struct cf_disk *disk)
{
    disk->is_passing = true;
    disk->is_blind = false;
    disk->at = 0;
    disk->seen_count = 0;
    memset(disk->seen, 0, sizeof disk->seen);
    for (unsigned i = 0; i < disk->folder_count; i++)
        disk->folders[i].free_before = free_space(&disk->folders[i]);
    disk->is_hurried = false;
    disk->so_far = disk->tmp_before = tmp_bytes(&disk->tmp_device);
    disk->proc = opendir("/proc");
}

static void
tell_when_over(struct cf_init *init)
{
    struct cf_disk *disk = init->disk;
    uint64_t used = cf_disk_used(init);

    if (used <= disk->limit) {
        disk->is_told = disk->is_told && disk->is_passing; /* below it for a whole pass */
        return;
    }
    if (!disk->is_told)
        cf_control_event(init, json_pack("{s:s, s:I, s:I}", "ev", "disk", "used",
                                         (json_int_t)used, "limit", (json_int_t)disk->limit));
    disk->is_told = true;
}

static void
keep_pass(struct cf_disk *disk)
{
    uint64_t lost_whole = disk->is_blind ? lost_since_first(disk) : 0;

    end_pass(disk);
    disk->used = disk->so_far > lost_whole ? disk->so_far : lost_whole;
    disk->tmp_then = disk->tmp_before;
    for (unsigned i = 0; i < disk->folder_count; i++)
        disk->folders[i].free_then = disk->folders[i].free_before;
}

static void
do_slice(struct cf_init *init)
{
    struct cf_disk *disk = init->disk;
    uint64_t until_us = cf_clock_us() + (disk->is_hurried ? HURRY_SLICE_US : SLICE_US);

    for (unsigned i = 1; i % 32 != 0 || cf_clock_us() < until_us; i++) {
        if (step_folders(init) || step_nameless(disk))
            continue;
        keep_pass(disk);
        disk->pass_due_ms = cf_clock_ms() + REST_MS;
        break;
    }
    tell_when_over(init);
}

/* Did the disk lose an eighth of the limit since the last pass began? Perhaps it was us. */
static bool
is_filling(const struct cf_disk *disk)
{
    return lost(disk, false) > disk->limit / 8;
}

int64_t
cf_disk_tick(struct cf_init *init, uint64_t now_ms)
{
    struct cf_disk *disk = init->disk;

    if (disk == NULL)
        return -1;
    if (now_ms < disk->next_ms)
        return (int64_t)(disk->next_ms - now_ms);
    if (!disk->is_passing && (now_ms >= disk->pass_due_ms || is_filling(disk)))
        begin_pass(disk);
    if (disk->is_passing) {
        disk->is_hurried = disk->is_hurried || is_filling(disk);
        do_slice(init);
    }
    now_ms = cf_clock_ms();
    disk->next_ms = now_ms + (!disk->is_passing  ? GLANCE_MS
                              : disk->is_hurried ? HURRY_GAP_MS
                                                 : SLICE_GAP_MS);
    return (int64_t)(disk->next_ms - now_ms);
}

/* What the last whole pass found, and all that was written or that the disks lost since it began:
 * mostly that is far below the limit, and costs a few system calls to know. Where it is not, others
 * may have written, or it was removed again: only a pass tells. */
void
cf_disk_last_look(struct cf_init *init, uint64_t written)
{
    uint64_t give_up_ms = cf_clock_ms() + LAST_LOOK_MS, tmp, most;
    struct cf_disk *disk = init->disk;
    dev_t device;

    if (disk == NULL || disk->is_told)
        return;
    tmp = tmp_bytes(&device);
    most = lost(disk, true);
    most = (most > written ? most : written) + disk->used +
           (tmp > disk->tmp_then ? tmp - disk->tmp_then : 0);
    if (most <= disk->limit)
        return;
    end_pass(disk);
    begin_pass(disk);
    disk->is_hurried = true;
    while (disk->is_passing && !disk->is_told && cf_clock_ms() < give_up_ms)
        do_slice(init);
}

uint64_t
cf_disk_used(const struct cf_init *init)
{
    const struct cf_disk *disk = init->disk;

    if (disk == NULL)
        return 0;
    return disk->is_passing && disk->so_far > disk->used ? disk->so_far : disk->used;
}

/* ---- the request -------------------------------------------------------------------- */

static void
free_disk(struct cf_disk *disk)
{
    if (disk == NULL)
        return;
    end_pass(disk);
    for (unsigned i = 0; i < disk->folder_count; i++)
        free(disk->folders[i].path);
    free(disk);
}

static int
add_folder(struct cf_disk *disk, const char *path)
{
    struct folder *folder = &disk->folders[disk->folder_count];
    struct stat info;

    if (path == NULL || path[0] != '/' || disk->folder_count == FOLDERS_MAX) {
        errno = EINVAL;
        return -1;
    }
    if (stat(path, &info) < 0)
        return -1;
    for (unsigned i = 0; i < disk->folder_count; i++)
        if (disk->folders[i].device == info.st_dev && disk->folders[i].inode == info.st_ino)
            return 0;
    *folder = (struct folder){strdup(path), info.st_dev, info.st_ino, 0, 0, 0};
    if (folder->path == NULL)
        return -1;
    folder->free_first = folder->free_then = free_space(folder);
    disk->folder_count++;
    return 0;
}

void
cf_disk_watch(struct cf_init *init, json_int_t id, json_t *request)
{
    json_t *folders = json_object_get(request, "folders"), *folder;
    struct cf_disk *disk = calloc(1, sizeof *disk);
    size_t i;

    if (disk == NULL) {
        cf_control_refuse(init, id, ENOMEM, "disk watch: %s", strerror(ENOMEM));
        return;
    }
    disk->limit = (uint64_t)json_integer_value(json_object_get(request, "limit"));
    json_array_foreach(folders, i, folder) {
        if (add_folder(disk, json_string_value(folder)) < 0) {
            cf_control_refuse(init, id, errno, "disk watch of %s: %s",
                              json_is_string(folder) ? json_string_value(folder) : "?",
                              strerror(errno));
            free_disk(disk);
            return;
        }
    }
    disk->tmp_then = tmp_bytes(&disk->tmp_device);
    free_disk(init->disk);
    init->disk = disk;
    cf_control_answer(init, id, NULL);
}
