/*
 * Opening files beneath a folder and nowhere else, however its names and links are arranged:
 * the kernel resolves (openat2), or, where it or the engine's seccomp profile is too old for
 * that, one name after the other without any symlink.
 */
#include "init/init.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/openat2.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#define RESOLVE_TRIES 64

int
cf_beneath_root(const char *root)
{
    return open(root, O_PATH | O_DIRECTORY | O_CLOEXEC);
}

/* Name by name. Stricter than openat2: a symlink anywhere on the way is ELOOP. */
static int
open_by_steps(int root_fd, const char *path, int flags, mode_t mode)
{
    int at = fcntl(root_fd, F_DUPFD_CLOEXEC, 3), next;
    char name[NAME_MAX + 1];
    size_t len;

    while (at >= 0) {
        path += strspn(path, "/");
        len = strcspn(path, "/");
        if (len > NAME_MAX || len == 0 || (len == 2 && strncmp(path, "..", 2) == 0)) {
            close(at);
            errno = len > NAME_MAX ? ENAMETOOLONG : len == 0 ? EISDIR : EXDEV;
            return -1;
        }
        memcpy(name, path, len);
        name[len] = '\0';
        path += len;
        if (path[strspn(path, "/")] == '\0')
            next = openat(at, name, flags | O_NOFOLLOW | O_CLOEXEC, mode);
        else
            next = openat(at, name, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        close(at);
        at = next;
        if (path[strspn(path, "/")] == '\0')
            break;
    }
    return at;
}

int
cf_beneath_open(int root_fd, const char *path, int flags, mode_t mode)
{
    struct open_how how = {
        .flags = (unsigned)(flags | O_CLOEXEC),
        .mode = flags & O_CREAT ? mode : 0,
        .resolve = RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS,
    };
    unsigned tries = 0;
    long fd;

    if (path[0] == '/') {
        errno = EXDEV;
        return -1;
    }
    /* EAGAIN is a name that was moved while it was resolved, but also a file that a program of the
     * sandbox holds a lease on: for that one, waiting would be for the time it likes. */
    do
        fd = syscall(SYS_openat2, root_fd, path, &how, sizeof how);
    while (fd < 0 && (errno == EINTR || (errno == EAGAIN && ++tries < RESOLVE_TRIES)));
    /* EPERM here is an engine's old profile: the kernel's own openat2 says EACCES */
    if (fd < 0 && (errno == ENOSYS || errno == EPERM))
        return open_by_steps(root_fd, path, flags, mode);
    return (int)fd;
}

int
cf_beneath_parent(int root_fd, const char *path, const char **ret_name)
{
    const char *slash = strrchr(path, '/');
    char folder[PATH_MAX];

    *ret_name = slash == NULL ? path : slash + 1;
    if ((*ret_name)[0] == '\0' || strcmp(*ret_name, ".") == 0 ||
        strcmp(*ret_name, "..") == 0) {
        errno = EINVAL;
        return -1;
    }
    if (slash == NULL)
        return fcntl(root_fd, F_DUPFD_CLOEXEC, 3);
    if (slash == path || (size_t)(slash - path) >= sizeof folder) {
        errno = slash == path ? EXDEV : ENAMETOOLONG;
        return -1;
    }
    memcpy(folder, path, (size_t)(slash - path));
    folder[slash - path] = '\0';
    return cf_beneath_open(root_fd, folder, O_PATH | O_DIRECTORY, 0);
}
