/*
 * sandbox/hostview.h: what this host itself shows of a container, beside the engine's word: its
 * control group. While it runs the group is there; once the group is gone, no process of it can
 * live, since nothing inside may leave its group. An engine elsewhere shows nothing here.
 */
#ifndef CF_SANDBOX_HOSTVIEW_H
#define CF_SANDBOX_HOSTVIEW_H

#define CF_HOSTVIEW_PATH 256

/* The control group of container `id` under `root` ("/sys/fs/cgroup"; tests have their own), or
 * "" when there is none to be seen. */
void cf_hostview_find(const char *root, const char *id, char out[CF_HOSTVIEW_PATH]);

enum cf_hostview { CF_HOSTVIEW_GONE, CF_HOSTVIEW_EMPTY, CF_HOSTVIEW_ALIVE };

/* Is the group that was found still there, and does anything live in it? `ret_alive`: how many. */
enum cf_hostview cf_hostview_look(const char *path, unsigned *ret_alive);

/* How many in it were ended because memory ran out; 0 where this host does not say. */
unsigned long long cf_hostview_oom_kills(const char *path);

#endif
