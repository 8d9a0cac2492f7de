/*
 * Walking a tree entry by entry, so that it can be done in slices: a stack of open folders,
 * each opened through its parent and never through a symlink, so nothing that is moved
 * meanwhile leads outside.
 */
#include "init/init.h"

#include "base/buf.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/vfs.h>
#include <unistd.h>

#define DEPTH_MAX 128 /* each level holds a descriptor and its buffer */

struct level {
    DIR *folder;
    dev_t device;
    size_t path_len; /* of the folder itself */
};

struct cf_walk {
    struct level levels[DEPTH_MAX];
    unsigned depth;
    bool is_one_filesystem, was_cut;
    struct {
        dev_t device;
        ino_t inode;
    } skips[CF_WALK_SKIPS];
    unsigned skip_count;
    struct cf_buf path;
    int pending_fd; /* the folder just returned: entered at the next call */
    dev_t pending_device;
};

static int
push(struct cf_walk *walk, int fd, dev_t device)
{
    struct level *level = &walk->levels[walk->depth];
    DIR *folder = walk->depth < DEPTH_MAX ? fdopendir(fd) : NULL;

    if (folder == NULL) {
        close(fd);
        walk->was_cut = true;
        return -1;
    }
    *level = (struct level){folder, device, walk->path.len};
    walk->depth++;
    return 0;
}

struct cf_walk *
cf_walk_open(const char *root, bool is_one_filesystem)
{
    int fd = open(root, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    struct cf_walk *walk;
    struct stat info;

    if (fd < 0)
        return NULL;
    walk = calloc(1, sizeof *walk);
    if (walk == NULL || fstat(fd, &info) < 0) {
        close(fd);
        free(walk);
        return NULL;
    }
    walk->is_one_filesystem = is_one_filesystem;
    walk->pending_fd = -1;
    if (push(walk, fd, info.st_dev) < 0) {
        free(walk);
        return NULL;
    }
    return walk;
}

void
cf_walk_skip(struct cf_walk *walk, dev_t device, ino_t inode)
{
    if (walk->skip_count == CF_WALK_SKIPS)
        return;
    walk->skips[walk->skip_count].device = device;
    walk->skips[walk->skip_count++].inode = inode;
}

static bool
is_skipped(const struct cf_walk *walk, const struct stat *info)
{
    for (unsigned i = 0; i < walk->skip_count; i++)
        if (walk->skips[i].device == info->st_dev && walk->skips[i].inode == info->st_ino)
            return true;
    return false;
}

/* What the kernel makes up is nobody's file. */
static bool
is_made_up(int fd)
{
    static const long kinds[] = {PROC_SUPER_MAGIC,    SYSFS_MAGIC,        CGROUP_SUPER_MAGIC,
                                 CGROUP2_SUPER_MAGIC, DEVPTS_SUPER_MAGIC, DEBUGFS_MAGIC,
                                 TRACEFS_MAGIC,       SECURITYFS_MAGIC,   BPF_FS_MAGIC,
                                 0x19800202 /* mqueue */};
    struct statfs fs;

    if (fstatfs(fd, &fs) < 0)
        return true;
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++)
        if (fs.f_type == kinds[i])
            return true;
    return false;
}

/* Keeps the folder `name` open for the next call, where it is to be entered at all. Returns 0,
 * or why it could not be: an errno, ELOOP for too deep. */
static int
prepare_to_enter(struct cf_walk *walk, const struct level *level, const char *name,
                 const struct stat *info)
{
    bool is_other = info->st_dev != level->device;
    int fd;

    if (is_skipped(walk, info) || (is_other && walk->is_one_filesystem))
        return 0;
    if (walk->depth == DEPTH_MAX) {
        walk->was_cut = true;
        return ELOOP;
    }
    fd = openat(dirfd(level->folder), name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0) {
        walk->was_cut = walk->was_cut || errno != ENOENT;
        return errno;
    }
    if (is_other && is_made_up(fd)) {
        close(fd);
    } else {
        walk->pending_fd = fd;
        walk->pending_device = info->st_dev;
    }
    return 0;
}

static void
pop(struct cf_walk *walk)
{
    closedir(walk->levels[--walk->depth].folder);
}

static void
enter_pending(struct cf_walk *walk)
{
    int fd = walk->pending_fd;

    if (fd < 0)
        return;
    walk->pending_fd = -1;
    (void)push(walk, fd,
               walk->pending_device); /* no memory: noted, and the walk goes on beside it */
}

bool
cf_walk_next(struct cf_walk *walk, struct cf_walk_entry *ret_entry)
{
    struct dirent *entry;
    struct level *level;

    enter_pending(walk);
    while (walk->depth > 0) {
        level = &walk->levels[walk->depth - 1];
        entry = readdir(level->folder);
        if (entry == NULL) {
            pop(walk);
            continue;
        }
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
            continue;
        if (fstatat(dirfd(level->folder), entry->d_name, &ret_entry->info,
                    AT_SYMLINK_NOFOLLOW) < 0)
            continue; /* gone meanwhile */
        walk->path.len = level->path_len;
        if (level->path_len > 0)
            cf_buf_adds(&walk->path, "/");
        if (cf_buf_adds(&walk->path, entry->d_name) < 0) {
            walk->was_cut = true;
            return false;
        }
        ret_entry->error = S_ISDIR(ret_entry->info.st_mode)
                               ? prepare_to_enter(walk, level, entry->d_name, &ret_entry->info)
                               : 0;
        ret_entry->path = walk->path.data;
        return true;
    }
    return false;
}

bool
cf_walk_was_cut(const struct cf_walk *walk)
{
    return walk->was_cut;
}

void
cf_walk_free(struct cf_walk *walk)
{
    if (walk == NULL)
        return;
    while (walk->depth > 0)
        pop(walk);
    if (walk->pending_fd >= 0)
        close(walk->pending_fd);
    cf_buf_release(&walk->path);
    free(walk);
}
