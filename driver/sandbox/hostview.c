/*
 * A container's control group has a name that holds its id, below one of a few parents: that of
 * the engine's cgroup driver, or of systemd. Reads of this file system touch no disk.
 */
#include "sandbox/hostview.h"

#include "base/str.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* One of the controllers of version 1 stands for all: limits on processes are always asked for. */
static const char *const trees[] = {"", "/pids", "/memory"};
static const struct {
    const char *before, *behind;
} places[] = {{"/docker/", ""},
              {"/system.slice/docker-", ".scope"},
              {"/libpod_parent/libpod-", ""},
              {"/machine.slice/libpod-", ".scope"}};

void
cf_hostview_find(const char *root, const char *id, char out[CF_HOSTVIEW_PATH])
{
    char path[CF_HOSTVIEW_PATH];

    out[0] = '\0';
    if (id == NULL || strlen(id) != 64 || !cf_is_hex(id, 64))
        return;
    for (size_t i = 0; i < CF_COUNT(trees); i++)
        for (size_t k = 0; k < CF_COUNT(places); k++) {
            (void)snprintf(path, sizeof path, "%s%s%s%s%s", root, trees[i], places[k].before, id,
                           places[k].behind);
            if (access(path, F_OK) == 0) {
                memcpy(out, path, sizeof path);
                return;
            }
        }
}

enum cf_hostview
cf_hostview_look(const char *path, unsigned *ret_alive)
{
    char procs[CF_HOSTVIEW_PATH + 16], line[64];
    unsigned alive = 0;
    FILE *file;

    (void)snprintf(procs, sizeof procs, "%s/cgroup.procs", path);
    file = fopen(procs, "re");
    *ret_alive = 0;
    while (file != NULL && alive < 100000 && fgets(line, sizeof line, file) != NULL)
        alive++;
    if (file != NULL)
        (void)fclose(file);
    *ret_alive = alive;
    if (alive > 0)
        return CF_HOSTVIEW_ALIVE;
    return access(path, F_OK) == 0 ? CF_HOSTVIEW_EMPTY : CF_HOSTVIEW_GONE;
}

/* Version 1 has a tree for memory alone, beside the one in which the group was found. */
unsigned long long
cf_hostview_oom_kills(const char *path)
{
    const char *pids = strstr(path, "/pids/");
    char name[CF_HOSTVIEW_PATH + 32], line[128];
    unsigned long long count = 0;
    FILE *file;

    if (path[0] == '\0')
        return 0;
    if (pids != NULL)
        (void)snprintf(name, sizeof name, "%.*s/memory/%s/memory.oom_control", (int)(pids - path), path,
                       pids + strlen("/pids/"));
    else
        (void)snprintf(name, sizeof name, "%s/%s", path,
                       strstr(path, "/memory/") != NULL ? "memory.oom_control" : "memory.events");
    file = fopen(name, "re");
    while (file != NULL && fgets(line, sizeof line, file) != NULL)
        if (cf_str_starts(line, "oom_kill "))
            count = strtoull(line + strlen("oom_kill "), NULL, 10);
    if (file != NULL)
        (void)fclose(file);
    return count;
}
