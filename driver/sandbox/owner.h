/*
 * sandbox/owner.h: the inside of `struct cf_owner`: an installation (one state folder, one id)
 * and the lock files of the runs that this process has open. The rule for "dead" lives here.
 */
#ifndef CF_SANDBOX_OWNER_H
#define CF_SANDBOX_OWNER_H

#include "sandbox/labels.h"
#include "sandbox/sandbox.h"

struct cf_run_lock {
    struct cf_run_lock *next;
    char run[64];
    int fd; /* held with flock: the kernel lets go of it however this process ends */
};

struct cf_owner {
    char id[64];
    char *state_dir;
    struct cf_process_identity self;
    struct cf_run_lock *locks;
};

/*
 * Is the run that wrote these labels dead? Yes when its owner is this installation and (its
 * lock file can be locked, or the file is gone and boot id and pid namespace are ours and no
 * process with that pid and start time is alive). Yes when its deadline has passed, and its
 * owner is ours or `any_owner` says that foreign ones count too. A different boot id or
 * namespace alone proves nothing: engines are shared. *ret_why gets one static line either
 * way.
 */
bool cf_owner_run_is_dead(const struct cf_owner *owner, const struct cf_labels *labels,
                          bool any_owner, int64_t now_unix, const char **ret_why);

/* Unlinks the lock file of a run that is dead and has left nothing any more. */
void cf_owner_forget(const struct cf_owner *owner, const char *run);

/* Unlinks lock files that nobody holds and that are older than `min_age_s` seconds, for which
 * `keep` (may be NULL) does not say true. Looks at 4,096 files at most. */
void cf_owner_forget_stale(const struct cf_owner *owner, int64_t min_age_s,
                           bool (*keep)(void *user, const char *run), void *user);

#endif
