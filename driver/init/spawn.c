/*
 * The child's side of a spawn, between fork and exec. It holds a copy of pid 1's memory
 * (without the queues, which fork leaves out) and, for a moment, its descriptors: these go
 * first, and only then does it become dumpable, which is what /proc/self and so its OOM score
 * need.
 */
#include "init/init.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define STATUS_FD 3
#define NOFILE_DEFAULT 4096

static void __attribute__((noreturn)) fail(int status, enum cf_spawn_phase phase)
{
    struct cf_spawn_failure why = {phase, errno};

    (void)!write(status, &why, sizeof why); /* pid 1 reads, or nobody does */
    _exit(127);
}

static void
close_from(int first)
{
    struct rlimit limit;

    if (syscall(SYS_close_range, first, ~0u, 0) == 0)
        return;
    if (getrlimit(RLIMIT_NOFILE, &limit) < 0 || limit.rlim_cur > 65536)
        limit.rlim_cur = 65536;
    for (int fd = first; fd < (int)limit.rlim_cur; fd++)
        close(fd);
}

/* The pipes' numbers are all above 3, or one of pid 1's own would be among them: but for 3
 * itself, which is overwritten last. */
static void
place_streams(const struct cf_spawn_plan *plan)
{
    int status = plan->status;

    if (dup2(plan->in, 0) < 0 || dup2(plan->out, 1) < 0 || dup2(plan->err, 2) < 0)
        fail(status, CF_SPAWN_STREAMS);
    if (status != STATUS_FD && dup3(status, STATUS_FD, O_CLOEXEC) < 0)
        fail(status, CF_SPAWN_STREAMS);
    close_from(STATUS_FD + 1);
}

static void
reset_signals(void)
{
    const struct {
        void (*handler)(int);
        unsigned long flags;
        void (*restorer)(void);
        unsigned long mask;
    } at_default = {SIG_DFL, 0, NULL, 0};
    sigset_t none;

    /* By the call itself: the C library keeps two signals to itself, and who started us
     * through its posix_spawn left exactly these two ignored. SIGKILL and SIGSTOP refuse,
     * which is fine. */
    for (int number = 1; number < NSIG; number++)
        (void)syscall(SYS_rt_sigaction, number, &at_default, NULL, sizeof at_default.mask);
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
}

/* The first to go when memory runs out; raising it needs no capability. */
static void
offer_to_oom(void)
{
    int fd = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);

    if (fd < 0)
        return;
    (void)!write(fd, "1000", 4); /* a belt: pid 1 is the smallest of all anyway */
    close(fd);
}

static void
set_limits(uint64_t nofile)
{
    struct rlimit limit, no_core = {0, 0};
    rlim_t wanted = nofile != 0 ? nofile : NOFILE_DEFAULT;

    if (getrlimit(RLIMIT_NOFILE, &limit) < 0)
        fail(STATUS_FD, CF_SPAWN_LIMITS);
    limit.rlim_max = wanted < limit.rlim_max ? wanted : limit.rlim_max;
    limit.rlim_cur = limit.rlim_max;
    /* a core would hold the run's token, and nobody would read it */
    if (setrlimit(RLIMIT_NOFILE, &limit) < 0 || setrlimit(RLIMIT_CORE, &no_core) < 0)
        fail(STATUS_FD, CF_SPAWN_LIMITS);
}

void
cf_spawn_exec(const struct cf_spawn_plan *plan)
{
    (void)setsid(); /* fails only for a leader, which a child just forked is not */
    place_streams(plan);
    reset_signals();
    if (prctl(PR_SET_DUMPABLE, 1, 0, 0, 0) < 0)
        fail(STATUS_FD, CF_SPAWN_LIMITS);
    offer_to_oom();
    set_limits(plan->nofile);
    umask(022);
    if (chdir(plan->cwd) < 0)
        fail(STATUS_FD, CF_SPAWN_CHDIR);
    execve(plan->argv[0], plan->argv, plan->env);
    fail(STATUS_FD, CF_SPAWN_EXEC);
}
