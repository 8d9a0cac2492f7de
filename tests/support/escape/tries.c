/* The kernel's doors, one after another. A line each, so that a new one is one line more. */
#include "escape.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/ptrace.h>
#include <sys/reboot.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/timex.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

long
escape_now(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000000L + now.tv_nsec / 1000;
}

void
escape_tell(const char *name, long result, long began_us)
{
    int why = errno;
    long took_ms = (escape_now() - began_us) / 1000;

    if (result >= 0)
        printf("%s: ALLOWED\n", name);
    else
        printf("%s: denied in %ld ms, %s\n", name, took_ms, strerror(why));
}

#define TRY(name, call) \
    do { \
        long began = escape_now(); \
        escape_tell(name, (call), began); \
    } while (0)

static void
try_open(const char *path, int flags)
{
    char name[160];
    char byte;
    long began = escape_now(), result;
    int fd = open(path, flags | O_NONBLOCK | O_NOCTTY);

    result = fd < 0 || (flags & O_ACCMODE) != O_RDONLY ? fd : read(fd, &byte, 1);
    if (result == 0) { /* masked: there, and empty */
        result = -1;
        errno = ENODATA;
    }
    snprintf(name, sizeof name, "%s %s", (flags & O_ACCMODE) == O_RDONLY ? "read" : "open for writing", path);
    escape_tell(name, result, began);
    if (fd >= 0)
        close(fd);
}

/* In a child, since what works would change us. */
static long
in_child(long (*attempt)(void))
{
    int status = 0;
    pid_t child = fork();

    if (child == 0) {
        long result = attempt();

        _exit(result >= 0 ? 255 : errno);
    }
    if (child < 0 || waitpid(child, &status, 0) < 0)
        return -1;
    errno = WIFEXITED(status) ? WEXITSTATUS(status) : EINTR;
    return WIFEXITED(status) && WEXITSTATUS(status) == 255 ? 0 : -1;
}

static long unshare_user(void) { return unshare(CLONE_NEWUSER); }
static long unshare_mounts(void) { return unshare(CLONE_NEWNS); }
static long unshare_net(void) { return unshare(CLONE_NEWNET); }
static long unshare_pids(void) { return unshare(CLONE_NEWPID); }
static long unshare_both(void) { return unshare(CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWNET); }
static long chroot_tmp(void) { return chroot("/tmp"); }
static long trace_parent(void) { return ptrace(PTRACE_ATTACH, 1, 0, 0); }

static long
clone_user(void)
{
    return syscall(SYS_clone, CLONE_NEWUSER | SIGCHLD, 0, 0, 0, 0);
}

static long
clone3_user(void)
{
    struct {
        unsigned long long flags, pidfd, child, parent, signal, stack, size, tls;
    } args = { .flags = CLONE_NEWUSER, .signal = SIGCHLD };

    return syscall(SYS_clone3, &args, sizeof args);
}

static long
enter_of_pid_1(void)
{
    int fd = open("/proc/1/ns/net", O_RDONLY);

    return fd < 0 ? -1 : setns(fd, 0);
}

static long
become_root(void)
{
    return getuid() == 0 ? (errno = EPERM, -1) : setuid(0);
}

static long
take_capabilities(void)
{
    struct { unsigned version; int pid; } head = { 0x20080522, 0 };
    struct { unsigned effective, permitted, inheritable; } data[2] = { { ~0u, ~0u, ~0u }, { ~0u, ~0u, ~0u } };

    return syscall(SYS_capset, &head, data);
}

static void
namespaces(void)
{
    TRY("new user namespace", in_child(unshare_user));
    TRY("new user, mount and net namespace", in_child(unshare_both));
    TRY("new mount namespace", in_child(unshare_mounts));
    TRY("new net namespace", in_child(unshare_net));
    TRY("new pid namespace", in_child(unshare_pids));
    TRY("clone into a user namespace", in_child(clone_user));
    TRY("clone3 into a user namespace", in_child(clone3_user));
    TRY("setns", in_child(enter_of_pid_1));
    TRY("setuid 0", in_child(become_root));
    TRY("capset", in_child(take_capabilities));
    TRY("chroot", in_child(chroot_tmp));
}

static void
mounts(void)
{
    TRY("mount tmpfs", mount("x", "/tmp", "tmpfs", 0, NULL));
    TRY("mount proc", mount("x", "/tmp", "proc", 0, NULL));
    TRY("bind mount", mount("/", "/tmp", NULL, MS_BIND, NULL));
    TRY("remount the root", mount(NULL, "/", NULL, MS_REMOUNT, NULL));
    TRY("umount /proc", umount2("/proc", MNT_DETACH));
    TRY("umount /tmp", umount2("/tmp", MNT_DETACH));
    TRY("pivot_root", syscall(SYS_pivot_root, "/tmp", "/tmp"));
    TRY("fsopen", syscall(SYS_fsopen, "tmpfs", 0));
    TRY("open_tree", syscall(SYS_open_tree, -100, "/", 1));
    TRY("open_by_handle_at", syscall(SYS_open_by_handle_at, -100, &(unsigned[8]){ 8, 1, 2 }, O_RDONLY));
}

static void
kernel(void)
{
    struct timespec then = { 1, 0 };
    struct timex when = { .modes = ADJ_OFFSET };

    TRY("keyctl", syscall(SYS_keyctl, 0, -3, 1, 0, 0));
    TRY("add_key", syscall(SYS_add_key, "user", "x", "x", 1, -3));
    TRY("request_key", syscall(SYS_request_key, "user", "x", NULL, 0));
    TRY("bpf", syscall(SYS_bpf, 0, &(long[16]){ 2 }, 64));
    TRY("perf_event_open", syscall(SYS_perf_event_open, &(long[16]){ 0 }, 0, -1, -1, 0));
    TRY("userfaultfd", syscall(SYS_userfaultfd, 0));
    TRY("init_module", syscall(SYS_init_module, "", 0, ""));
    TRY("kexec_load", syscall(SYS_kexec_load, 0, 0, NULL, 0));
    TRY("reboot", reboot(RB_DISABLE_CAD));
    TRY("swapoff", syscall(SYS_swapoff, "/tmp/x"));
    TRY("acct", syscall(SYS_acct, "/tmp/x"));
    TRY("syslog", syscall(SYS_syslog, 3, &(char[64]){ 0 }, 64));
    TRY("set the clock", clock_settime(CLOCK_REALTIME, &then));
    TRY("adjust the clock", adjtimex(&when));
    TRY("sethostname", sethostname("x", 1));
#ifdef SYS_iopl
    TRY("iopl", syscall(SYS_iopl, 3));
#endif
}

/* By the 32-bit table, whose numbers are others. In a child: a kernel without that table kills. */
#if defined(__x86_64__)
static long
call_32(long number, long a, long b, void *c)
{
    long result;

    __asm__ volatile("int $0x80" : "=a"(result) : "a"(number), "b"(a), "c"(b), "d"(c), "S"(0L) : "memory");
    errno = result < 0 ? (int)-result : 0;
    return result < 0 ? -1 : result;
}
#else
static long
call_32(long number, long a, long b, void *c)
{
    errno = ENOSYS;
    return -1;
}
#endif

/* Below 4 GiB, where a 32-bit pointer reaches: the program is linked to a fixed place. */
static struct { unsigned long long soft, hard; } one_32 = { 1, 1 };
static struct sched_param idle_32;

static long prlimit_32(void) { return call_32(340, 1, RLIMIT_CPU, &one_32); }
static long everybody_32(void) { return call_32(97, PRIO_USER, 0, (void *)19L); }
static long pid_1_32(void) { return call_32(97, PRIO_PROCESS, 1, (void *)19L); }
static long idle_pid_1_32(void) { return call_32(156, 1, SCHED_IDLE, &idle_32); }

/* cf-init's own side: tests/sandbox/test_link_hostile.c goes through these one by one; here they
 * are tried in a real container, below its seccomp profile. */
static void
pid_1(void)
{
    static const char *const files[] = { "/proc/1/mem", "/proc/1/environ", "/proc/1/maps", "/proc/1/fd/0",
                                         "/proc/1/root/etc/hostname", "/proc/1/cwd/etc/hostname" };
    struct { unsigned long soft, hard; } one = { 1, 1 };
    struct sched_param param = { 0 };

    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++)
        try_open(files[i], O_RDONLY);
    try_open("/proc/1/fd/1", O_WRONLY);
    try_open("/proc/1/mem", O_RDWR);
    TRY("ptrace pid 1", in_child(trace_parent));
    TRY("prlimit pid 1, cpu", syscall(SYS_prlimit64, 1, RLIMIT_CPU, &one, NULL));
    TRY("prlimit pid 1, address space", syscall(SYS_prlimit64, 1, RLIMIT_AS, &one, NULL));
    TRY("prlimit pid 1, open files", syscall(SYS_prlimit64, 1, RLIMIT_NOFILE, &one, NULL));
    TRY("prlimit pid 1, processes", syscall(SYS_prlimit64, 1, RLIMIT_NPROC, &one, NULL));
    TRY("prlimit pid 1, int 0x80", in_child(prlimit_32));
    TRY("setpriority pid 1, int 0x80", in_child(pid_1_32));
    TRY("setpriority everybody, int 0x80", in_child(everybody_32));
    TRY("idle scheduling for pid 1, int 0x80", in_child(idle_pid_1_32));
    TRY("setpriority pid 1", syscall(SYS_setpriority, 0, 1, 19));
    TRY("setpriority everybody", syscall(SYS_setpriority, 2, 0, 19));
    TRY("idle scheduling for pid 1", syscall(SYS_sched_setscheduler, 1, SCHED_IDLE, &param));
    TRY("pidfd_getfd of pid 1", syscall(SYS_pidfd_getfd, syscall(SYS_pidfd_open, 1, 0), 0, 0));
    for (int number = 1; number < 65; number++)
        kill(1, number); /* allowed, and means nothing: that it still answers is the test */
}

static void
files(void)
{
    static const char *const written[] = {
        "/proc/sys/kernel/core_pattern", "/proc/sysrq-trigger", "/proc/sys/vm/drop_caches",
        "/sys/kernel/uevent_helper", "/sys/fs/cgroup/memory/release_agent", "/sys/fs/cgroup/cgroup.procs",
        "/dev/mem", "/dev/kmsg", "/dev/sda", "/dev/fuse", "/dev/net/tun", "/dev/kvm", "/dev/loop-control",
    };
    static const char *const read[] = { "/proc/kcore", "/proc/keys", "/proc/timer_list", "/proc/sched_debug",
                                        "/proc/kmsg", "/dev/mem", "/dev/kmsg", "/sys/firmware/dmi/tables/DMI",
                                        "/var/lib/docker", "/proc/self/fd/3" };

    for (size_t i = 0; i < sizeof written / sizeof written[0]; i++)
        try_open(written[i], O_WRONLY);
    for (size_t i = 0; i < sizeof read / sizeof read[0]; i++)
        try_open(read[i], O_RDONLY);
    TRY("make a character device", mknod("/tmp/mem", S_IFCHR | 0600, makedev(1, 1)));
    TRY("make a block device", mknod("/tmp/disk", S_IFBLK | 0600, makedev(8, 0)));
    if (getuid() != 0) {
        TRY("make a folder in the root", mkdir("/outside", 0700));
        TRY("write in /etc", open("/etc/escape", O_WRONLY | O_CREAT, 0600));
        TRY("unlink cf-init", unlink("/.cf/cf-init"));
        TRY("replace cf-init", rename("/tmp/x", "/.cf/cf-init"));
        TRY("write beside cf-init", open("/.cf/x", O_WRONLY | O_CREAT, 0600));
        try_open("/.cf/cf-init", O_WRONLY);
        try_open("/proc/1/oom_score_adj", O_WRONLY);
    }
}

/* Every process that can be seen must be one of ours: few, and none with an engine's name. */
static void
processes(void)
{
    DIR *proc = opendir("/proc");
    long began = escape_now();
    struct dirent *entry;
    char path[300], name[64];
    int foreign = 0;

    while (proc != NULL && (entry = readdir(proc)) != NULL) {
        snprintf(path, sizeof path, "/proc/%s/comm", entry->d_name);
        FILE *comm = atoi(entry->d_name) > 0 ? fopen(path, "r") : NULL;
        if (comm == NULL)
            continue;
        if (fgets(name, sizeof name, comm) != NULL)
            foreign += strncmp(name, "escape", 6) != 0 && strncmp(name, "cf-init", 7) != 0;
        fclose(comm);
    }
    if (proc != NULL)
        closedir(proc);
    errno = ESRCH;
    escape_tell("processes of the host", foreign > 0 ? foreign : -1, began);
}

/* What a setuid program of the image makes of us: no-new-privileges means nothing. */
static void
setuid_program(void)
{
    struct stat st;
    int status = 0;

    if (stat("/opt/escape/bin/suid", &st) < 0 || (st.st_mode & S_ISUID) == 0 || st.st_uid != 0) {
        puts("setuid program: SKIPPED, the image has none");
        return;
    }
    long began = escape_now();
    pid_t child = fork();
    if (child == 0) {
        execl("/opt/escape/bin/suid", "suid", "euid", NULL);
        _exit(1);
    }
    waitpid(child, &status, 0);
    errno = EPERM;
    escape_tell("setuid program", WIFEXITED(status) && WEXITSTATUS(status) == 77 ? 0 : -1, began);
}

int
escape_probe(char **targets)
{
    escape_reach(targets);
    namespaces();
    mounts();
    kernel();
    pid_1();
    files();
    processes();
    if (getuid() != 0)
        setuid_program();
    puts("probe: over");
    return 0;
}
