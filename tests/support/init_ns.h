/*
 * init_ns.h: cf-init as pid 1 of namespaces of its own (pid, mount, network, ipc), as a user
 * without rights, on two pipes: what a container would give it, without an engine. Needs root;
 * where that is not given, tests skip with a loud line.
 */
#ifndef CF_TESTS_INIT_NS_H
#define CF_TESTS_INIT_NS_H

#include <errno.h>
#include <fcntl.h>
#include <net/if.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define NS_UID \
    (61000u + (unsigned)getpid() % 4000u) /* no other test's: its processes are counted */
#define NS_PROCESSES 200

struct ns_init {
    pid_t pid;        /* as we see it */
    int in, out, err; /* our ends */
    char folder[64];  /* writable for the user, removed at the end */
};

/* Where the build has one with the sanitizers in it, that one: there it is the tests' business
 * to find what is wrong with its memory. */
static inline const char *
ns_program(void)
{
    static char path[512];
    const char *build = getenv("CF_BUILD");

    snprintf(path, sizeof path, "%s/cf-init-sanitized", build != NULL ? build : "build");
    if (access(path, X_OK) < 0)
        snprintf(path, sizeof path, "%s/cf-init", build != NULL ? build : "build");
    return path;
}

static inline bool
ns_is_sanitized(void)
{
    return strstr(ns_program(), "-sanitized") != NULL;
}

static inline uint64_t
ns_now_ms(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

static inline void
ns_loopback_up(void)
{
    struct ifreq request = {.ifr_name = "lo", .ifr_flags = IFF_UP | IFF_RUNNING};
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

    if (fd < 0 || ioctl(fd, SIOCSIFFLAGS, &request) < 0)
        _exit(101);
    close(fd);
}

/* Root in a container without capabilities. */
static inline void
ns_drop_capabilities(void)
{
    struct {
        uint32_t version;
        int pid;
    } header = {0x20080522, 0};
    uint32_t none[6] = {0};

    for (int capability = 0; capability < 64; capability++)
        prctl(PR_CAPBSET_DROP, capability, 0, 0, 0);
    if (syscall(SYS_capset, &header, none) < 0)
        _exit(108);
}

/* In the child, which is pid 1: become what the engine makes of a container's first process.
 */
static inline void
ns_enter(int in, int out, int err, char **argv, unsigned uid)
{
    struct rlimit processes = {NS_PROCESSES, NS_PROCESSES}, files = {4096, 4096};
    char *env[] = {"PATH=/usr/bin:/bin",   "HOME=/tmp",      "HTTP_PROXY=http://10.0.0.1:3128",
                   "no_proxy=example.org", "FROM_IMAGE=yes", NULL};
    int program = open(ns_program(), O_PATH);

    if (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 ||
        mount("proc", "/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, NULL) < 0)
        _exit(102);
    ns_loopback_up();
    if (dup2(in, 0) < 0 || dup2(out, 1) < 0 || dup2(err, 2) < 0)
        _exit(103);
    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    if (setrlimit(RLIMIT_NPROC, &processes) < 0 || setrlimit(RLIMIT_NOFILE, &files) < 0)
        _exit(104);
    if (uid != 0 && (setgid(uid) < 0 || setuid(uid) < 0))
        _exit(105);
    if (uid == 0)
        ns_drop_capabilities();
    if (program < 0)
        _exit(106);
    fcntl(program, F_SETFD, FD_CLOEXEC);
    syscall(SYS_execveat, program, "", argv, env, AT_EMPTY_PATH);
    _exit(107);
}

/* Starts it with `args` behind its name (NULL-terminated). false: not permitted here. */
static inline int
ns_start_as(struct ns_init *ns, const char *const *args, unsigned uid)
{
    char *argv[16] = {"/.cf/cf-init"};
    int in[2], out[2], err[2];

    for (int i = 0; args[i] != NULL && i < 14; i++)
        argv[i + 1] = (char *)args[i];
    snprintf(ns->folder, sizeof ns->folder, "/tmp/cf-ns-XXXXXX");
    if (mkdtemp(ns->folder) == NULL || chown(ns->folder, NS_UID, NS_UID) < 0 ||
        chmod(ns->folder, 0755) < 0)
        return 0;
    if (pipe2(in, O_CLOEXEC) < 0 || pipe2(out, O_CLOEXEC) < 0 || pipe2(err, O_CLOEXEC) < 0)
        return 0;
    ns->pid = (pid_t)syscall(
        SYS_clone, CLONE_NEWPID | CLONE_NEWNS | CLONE_NEWNET | CLONE_NEWIPC | SIGCHLD, 0, 0, 0,
        0);
    if (ns->pid < 0) {
        printf("SKIPPED cf-init in namespaces: clone: %s\n", strerror(errno));
        rmdir(ns->folder);
        return 0;
    }
    if (ns->pid == 0)
        ns_enter(in[0], out[1], err[1], argv, uid);
    close(in[0]);
    close(out[1]);
    close(err[1]);
    ns->in = in[1];
    ns->out = out[0];
    ns->err = err[0];
    fcntl(ns->in, F_SETFL, O_NONBLOCK);
    fcntl(ns->out, F_SETFL, O_NONBLOCK);
    fcntl(ns->err, F_SETFL, O_NONBLOCK);
    return 1;
}

static inline int
ns_start(struct ns_init *ns, const char *const *args)
{
    return ns_start_as(ns, args, NS_UID);
}

/* Waits up to `limit_ms` for its end: exit code, 128 + signal, or -1 when it lives on. */
static inline int
ns_wait(struct ns_init *ns, unsigned limit_ms)
{
    uint64_t until = ns_now_ms() + limit_ms;
    int status;

    while (waitpid(ns->pid, &status, WNOHANG) == 0) {
        if (ns_now_ms() > until)
            return -1;
        usleep(1000);
    }
    ns->pid = -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

/* What it said on stderr so far. */
static inline const char *
ns_words(struct ns_init *ns)
{
    static char words[4096];
    ssize_t n = read(ns->err, words, sizeof words - 1);

    words[n > 0 ? n : 0] = '\0';
    return words;
}

static inline void
ns_stop(struct ns_init *ns)
{
    char command[128];

    if (ns->pid > 0) {
        kill(ns->pid, SIGKILL); /* and the kernel ends all others of the namespace */
        waitpid(ns->pid, NULL, 0);
    }
    close(ns->in);
    close(ns->out);
    close(ns->err);
    snprintf(command, sizeof command, "rm -rf %s", ns->folder);
    (void)!system(command);
}

#endif
