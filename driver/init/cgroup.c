/*
 * The sandbox's own cgroup, seen from inside: the count of OOM kills is the one authority on
 * whether memory ran out. Both versions; and where the mount shows the whole tree instead of
 * the own part of it, the path in /proc/self/cgroup leads there.
 */
#include "init/init.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define ROOT "/sys/fs/cgroup"

/* The path behind "<anything>:<controller>:" (v1) or "0::" (v2), "" when there is none. */
static void
own_path(const char *controller, char *out, size_t size)
{
    FILE *file = fopen("/proc/self/cgroup", "re");
    char line[1024], *names, *path;

    out[0] = '\0';
    while (file != NULL && fgets(line, sizeof line, file) != NULL) {
        line[strcspn(line, "\n")] = '\0';
        names = strchr(line, ':');
        path = names == NULL ? NULL : strchr(names + 1, ':');
        if (path == NULL)
            continue;
        *path++ = '\0';
        if (strcmp(names + 1, controller) == 0) {
            snprintf(out, size, "%s", path);
            break;
        }
    }
    if (file != NULL)
        fclose(file);
}

static int
open_file(const char *mount, const char *path, const char *name)
{
    char whole[2048];
    int fd = -1;

    if (path[0] != '\0') {
        snprintf(whole, sizeof whole, "%s%s/%s", mount, path, name);
        fd = open(whole, O_RDONLY | O_CLOEXEC);
    }
    if (fd < 0) {
        snprintf(whole, sizeof whole, "%s/%s", mount, name);
        fd = open(whole, O_RDONLY | O_CLOEXEC);
    }
    return fd;
}

static bool
read_text(int fd, char *text, size_t size)
{
    ssize_t n = fd < 0 ? -1 : pread(fd, text, size - 1, 0);

    text[n > 0 ? n : 0] = '\0';
    return n > 0;
}

/* A kernel before 4.13 has the file, and no such line in it. */
static void
check_oom_counter(struct cf_cgroup *cgroup)
{
    char text[512];

    if (cgroup->oom < 0 || (read_text(cgroup->oom, text, sizeof text) && strstr(text, "oom_kill ") != NULL))
        return;
    close(cgroup->oom);
    cgroup->oom = -1;
}

void
cf_cgroup_open(struct cf_cgroup *cgroup)
{
    char path[1024];

    *cgroup = (struct cf_cgroup){"none", -1, -1, -1, -1, -1, -1};
    if (access(ROOT "/cgroup.controllers", F_OK) == 0) {
        cgroup->kind = "v2";
        own_path("", path, sizeof path);
        cgroup->oom = open_file(ROOT, path, "memory.events");
        cgroup->memory = open_file(ROOT, path, "memory.current");
        cgroup->memory_max = open_file(ROOT, path, "memory.max");
        cgroup->pids = open_file(ROOT, path, "pids.current");
        cgroup->pids_max = open_file(ROOT, path, "pids.max");
        cgroup->pids_events = open_file(ROOT, path, "pids.events");
    } else if (access(ROOT "/memory", F_OK) == 0) {
        cgroup->kind = "v1";
        own_path("memory", path, sizeof path);
        cgroup->oom = open_file(ROOT "/memory", path, "memory.oom_control");
        cgroup->memory = open_file(ROOT "/memory", path, "memory.usage_in_bytes");
        cgroup->memory_max = open_file(ROOT "/memory", path, "memory.limit_in_bytes");
        own_path("pids", path, sizeof path);
        cgroup->pids = open_file(ROOT "/pids", path, "pids.current");
        cgroup->pids_max = open_file(ROOT "/pids", path, "pids.max");
        cgroup->pids_events = open_file(ROOT "/pids", path, "pids.events");
    }
    check_oom_counter(cgroup);
}

/* The number behind a name that begins a line; 0 where there is none. */
static uint64_t
counter(int fd, const char *name)
{
    char text[512], *line, *rest = text;
    size_t len = strlen(name);

    if (!read_text(fd, text, sizeof text))
        return 0;
    while ((line = strsep(&rest, "\n")) != NULL)
        if (strncmp(line, name, len) == 0 && line[len] == ' ')
            return strtoull(line + len + 1, NULL, 10);
    return 0;
}

uint64_t
cf_cgroup_oom_kills(const struct cf_cgroup *cgroup)
{
    return counter(cgroup->oom, "oom_kill");
}

uint64_t
cf_cgroup_pids_refused(const struct cf_cgroup *cgroup)
{
    return counter(cgroup->pids_events, "max");
}

uint64_t
cf_cgroup_number(int fd)
{
    char text[64];
    uint64_t number;

    if (!read_text(fd, text, sizeof text))
        return 0;
    number = strtoull(text, NULL, 10);          /* "max" reads as 0 */
    return number > INT64_MAX / 2 ? 0 : number; /* v1 says "none" with a huge number */
}
