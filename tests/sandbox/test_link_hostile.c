/*
 * What a program in the sandbox can try against pid 1, as an ordinary user and as a root
 * without capabilities: each attempt has its denial, and pid 1 answers afterwards as before.
 */
#include "tests/support/unit.h"
#include "tests/support/inside.h"
#include "tests/support/link_ns.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sched.h>
#include <sys/ptrace.h>
#include <sys/uio.h>

/* ---- inside ------------------------------------------------------------------------- */

static void
say(const char *what, long result)
{
    printf("%s: %s\n", what,
           result >= 0      ? "done"
           : errno == EPERM ? "EPERM"
                            : strerror(errno));
}

static int
inside_native(int argc, char **argv)
{
    struct rlimit limit = {1, 1};
    struct sched_param param = {0};
    struct {
        uint32_t size, policy;
        uint64_t flags;
        int32_t nice;
        uint32_t priority;
        uint64_t runtime, deadline, period;
    } attr = {48, SCHED_IDLE, 0, 0, 0, 0, 0, 0};
    cpu_set_t cpus;

    CPU_ZERO(&cpus);
    CPU_SET(0, &cpus);
    say("prlimit cpu", syscall(SYS_prlimit64, 1, RLIMIT_CPU, &limit, NULL));
    say("prlimit as", syscall(SYS_prlimit64, 1, RLIMIT_AS, &limit, NULL));
    say("prlimit nproc", syscall(SYS_prlimit64, 1, RLIMIT_NPROC, &limit, NULL));
    say("prlimit nofile", syscall(SYS_prlimit64, 1, RLIMIT_NOFILE, &limit, NULL));
    say("prlimit with a high half",
        syscall(SYS_prlimit64, 0x7700000001, RLIMIT_CPU, &limit, NULL));
    say("setpriority process", setpriority(PRIO_PROCESS, 1, 19));
    say("setpriority group", setpriority(PRIO_PGRP, 1, 19));
    say("setpriority user", setpriority(PRIO_USER, 0, 19));
    say("sched_setscheduler", syscall(SYS_sched_setscheduler, 1, SCHED_IDLE, &param));
    say("sched_setparam", syscall(SYS_sched_setparam, 1, &param));
    say("sched_setattr", syscall(SYS_sched_setattr, 1, &attr, 0));
    say("sched_setaffinity", syscall(SYS_sched_setaffinity, 1, sizeof cpus, &cpus));
    say("ioprio process", syscall(SYS_ioprio_set, 1, 1, 3 << 13));
    say("ioprio group", syscall(SYS_ioprio_set, 2, 1, 3 << 13));
    say("ioprio user", syscall(SYS_ioprio_set, 3, getuid(), 3 << 13));
    return 0;
}

/* What the filter must leave alone. */
static int
inside_own(int argc, char **argv)
{
    struct rlimit limit = {100, 100};
    struct sched_param param = {0};
    cpu_set_t cpus;

    sched_getaffinity(0, sizeof cpus, &cpus);
    say("prlimit", prlimit(0, RLIMIT_NOFILE, &limit, NULL));
    say("prlimit by pid", prlimit(getpid(), RLIMIT_NOFILE, &limit, NULL));
    say("setrlimit", setrlimit(RLIMIT_NOFILE, &limit));
    say("nice", setpriority(PRIO_PROCESS, 0, 5));
    say("affinity", sched_setaffinity(0, sizeof cpus, &cpus));
    say("scheduler", sched_setscheduler(0, SCHED_BATCH, &param));
    say("ioprio", syscall(SYS_ioprio_set, 1, 0, 3 << 13));
    return 0;
}

#if defined(__x86_64__)
static long
call32(long number, long a, long b, long c, long d)
{
    long result;

    __asm__ volatile("int $0x80"
                     : "=a"(result)
                     : "a"(number), "b"(a), "c"(b), "d"(c), "S"(d)
                     : "memory");
    errno = result < 0 ? (int)-result : 0;
    return result < 0 ? -1 : result;
}
#else
static long
call32(long number, long a, long b, long c, long d)
{
    errno = EPERM; /* nothing of the kind on this processor */
    return -1;
}
#endif

static int
inside_32bit(int argc, char **argv)
{
    say("prlimit", call32(340, 1, RLIMIT_CPU, 0, 0));
    say("setpriority process", call32(97, PRIO_PROCESS, 1, 19, 0));
    say("setpriority user", call32(97, PRIO_USER, 0, 19, 0));
    say("sched_setaffinity", call32(241, 1, 0, 0, 0));
    say("sched_setscheduler", call32(156, 1, 0, 0, 0));
    say("ioprio user", call32(289, 3, 0, 3 << 13, 0));
    say("socketcall", call32(102, 1, 0, 0, 0));
    say("socket", call32(359, 40 /* VSOCK */, SOCK_STREAM, 0, 0));
    say("own priority", call32(97, PRIO_PROCESS, 0, 5, 0));
    return 0;
}

/* By number, since AF_VSOCK's own headers are not needed for more. */
static int
inside_families(int argc, char **argv)
{
    static const int unusual[] = {AF_PACKET,
                                  21 /* RDS */,
                                  30 /* TIPC */,
                                  31 /* BLUETOOTH */,
                                  38 /* ALG */,
                                  40 /* VSOCK */,
                                  44 /* XDP */};
    static const int usual[] = {AF_UNIX, AF_INET, AF_INET6, AF_NETLINK};
    int refused = 0, had = 0;

    for (size_t i = 0; i < sizeof unusual / sizeof unusual[0]; i++)
        refused += socket(unusual[i], SOCK_RAW, 0) < 0 && errno == EAFNOSUPPORT;
    for (size_t i = 0; i < sizeof usual / sizeof usual[0]; i++)
        had += socket(usual[i], SOCK_DGRAM, 0) >= 0;
    printf("%d unusual refused, %d usual had\n", refused, had);
    say("io_uring_setup", syscall(425, 0, NULL));
    return 0;
}

/* Beneath no filter but cf-init's own. */
static int
inside_spaces(int argc, char **argv)
{
    say("unshare", unshare(CLONE_NEWUSER));
    say("unshare, among others", unshare(CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWNET));
    say("clone", syscall(SYS_clone, CLONE_NEWUSER | SIGCHLD, 0, 0, 0, 0));
    say("keyctl", syscall(SYS_keyctl, 0, -3, 0));
    say("add_key", syscall(SYS_add_key, "user", "x", "x", 1, -3));
    say("request_key", syscall(SYS_request_key, "user", "x", NULL, 0));
    say("clone3", syscall(435, NULL, 0));
    say("its own files", unshare(CLONE_FILES));
    return 0;
}

static int
inside_peek(int argc, char **argv)
{
    static const char *const paths[] = {"/proc/1/mem",  "/proc/1/environ",
                                        "/proc/1/maps", "/proc/1/fd/0",
                                        "/proc/1/fd/1", "/proc/1/task/1/mem"};
    char bytes[16];
    struct iovec here = {bytes, sizeof bytes}, there = {(void *)0x400000, sizeof bytes};

    for (size_t i = 0; i < sizeof paths / sizeof paths[0]; i++) {
        int fd = open(paths[i], i == 4 ? O_WRONLY : O_RDONLY);

        printf("%s: %s\n", paths[i], fd >= 0 && read(fd, bytes, 1) != -1 ? "open" : "denied");
    }
    printf("ptrace: %s\n", ptrace(PTRACE_ATTACH, 1, 0, 0) == 0 ? "attached" : "denied");
    printf("seize: %s\n", ptrace(PTRACE_SEIZE, 1, 0, 0) == 0 ? "attached" : "denied");
    printf("vm: %s\n", process_vm_readv(1, &here, 1, &there, 1, 0) >= 0 ? "read" : "denied");
    printf("getfd: %s\n", syscall(SYS_pidfd_getfd, syscall(SYS_pidfd_open, 1, 0), 0, 0) >= 0
                              ? "got"
                              : "denied");
    return 0;
}

static int
inside_signals(int argc, char **argv)
{
    for (int i = 0; i < 20; i++)
        for (int number = 1; number < NSIG; number++)
            kill(1, number);
    for (int i = 0; i < 20000; i++)
        sigqueue(1, SIGRTMIN + i % 20, (union sigval){0});
    printf("sent\n");
    return 0;
}

static int
inside_oom_score(int argc, char **argv)
{
    int fd = open("/proc/1/oom_score_adj", O_RDWR);
    char text[16] = "";

    if (strcmp(argv[0], "write") == 0)
        printf("%s\n", fd >= 0 && write(fd, "1000", 4) == 4 ? "written" : "denied");
    else
        printf("%s", fd >= 0 && read(fd, text, sizeof text - 1) > 0 ? text : "denied\n");
    return 0;
}

/* As many connections and descriptors as it can get, never reading. */
static int
inside_hoard(int argc, char **argv)
{
    struct sockaddr_in address = {
        .sin_family = AF_INET, .sin_port = htons(4180), .sin_addr.s_addr = htonl(0x7f000001)};
    static char bytes[65536];
    int ends[2], count = 0;

    for (int i = 0; i < 600; i++) {
        int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);

        (void)!connect(fd, (struct sockaddr *)&address, sizeof address);
        usleep(100);
        (void)!send(fd, bytes, sizeof bytes, MSG_NOSIGNAL | MSG_DONTWAIT);
    }
    while (pipe(ends) == 0)
        count++;
    printf("%d pipes\n", count);
    fflush(stdout);
    sleep(100);
    return 0;
}

static const struct inside inside_table[] = {
    {"native", inside_native}, {"own", inside_own},           {"32bit", inside_32bit},
    {"peek", inside_peek},     {"signals", inside_signals},   {"oom-score", inside_oom_score},
    {"hoard", inside_hoard},   {"families", inside_families},
    {"spaces", inside_spaces}, {NULL, NULL},
};

/* ---- the tests ---------------------------------------------------------------------- */

static const char *const no_args[] = {"--port", "4180", NULL};

static void
run_inside(struct box *box, struct proc *proc, const char *name, const char *argument)
{
    const char *const argv[] = {inside_program(), "--inside", name, argument, NULL};
    struct cf_spawn spawn = {.argv = argv};

    proc_spawn(box, proc, &spawn);
    BOX_UNTIL(box, 10000, proc_is_over(proc));
}

static int
count_lines(const char *text, const char *end)
{
    int count = 0;

    for (const char *at = text; (at = strstr(at, end)) != NULL; at += strlen(end))
        count++;
    return count;
}

static void
expect_alive(struct box *box)
{
    uint64_t pongs = cf_link_pongs(box->link);
    struct proc proc;

    cf_link_ping(box->link);
    BOX_UNTIL(box, 2000, cf_link_pongs(box->link) == pongs + 1);
    proc_shell(box, &proc, "ulimit -t; echo alive", NULL);
    BOX_UNTIL(box, 5000, proc_is_over(&proc));
    ck_assert_str_eq(proc.out.data, "unlimited\nalive\n");
    proc_release(&proc);
}

static void
attack(unsigned uid, const char *name, int denials)
{
    struct proc proc;
    struct box box;

    if (!box_start_with(&box, no_args, uid))
        return;
    run_inside(&box, &proc, name, NULL);
    ck_assert_msg(proc.exit.code == 0, "%s: signal %d", name, proc.exit.signal);
    ck_assert_msg(count_lines(proc.out.data, "EPERM\n") == denials, "%s", proc.out.data);
    expect_alive(&box);
    proc_release(&proc);
    box_stop(&box);
}

START_TEST(calls_that_name_pid_1_or_everybody_are_refused)
{
    attack(NS_UID, "native", 15);
}
END_TEST

START_TEST(to_a_root_image_too)
{
    attack(0, "native", 15);
}
END_TEST

START_TEST(the_same_calls_about_oneself_go_through)
{
    struct proc proc;
    struct box box;

    if (!box_start(&box))
        return;
    run_inside(&box, &proc, "own", NULL);
    ck_assert_msg(count_lines(proc.out.data, "done\n") == 7, "%s", proc.out.data);
    proc_release(&proc);
    box_stop(&box);
}
END_TEST

START_TEST(the_32_bit_table_is_closed_the_same_way)
{
    struct proc proc;
    struct box box;

    if (!box_start(&box))
        return;
    run_inside(&box, &proc, "32bit", NULL);
    if (proc.exit.signal != 0) {
        printf("SKIPPED the 32-bit table: this kernel has none (signal %d)\n",
               proc.exit.signal);
    } else {
        ck_assert_msg(count_lines(proc.out.data, "EPERM\n") == 7, "%s", proc.out.data);
        ck_assert_msg(strstr(proc.out.data, "socket: Address family not") != NULL, "%s",
                      proc.out.data);
        ck_assert_msg(strstr(proc.out.data, "own priority: done") != NULL, "%s",
                      proc.out.data);
    }
    expect_alive(&box);
    proc_release(&proc);
    box_stop(&box);
}
END_TEST

START_TEST(no_sockets_but_those_a_namespace_holds)
{
    struct proc proc;
    struct box box;

    if (!box_start(&box))
        return;
    run_inside(&box, &proc, "families", NULL);
    ck_assert_str_eq(proc.out.data, "7 unusual refused, 4 usual had\nio_uring_setup: EPERM\n");
    expect_alive(&box);
    proc_release(&proc);
    box_stop(&box);
}
END_TEST

START_TEST(no_user_namespaces_and_no_keyrings)
{
    struct proc proc;
    struct box box;

    if (!box_start(&box))
        return;
    run_inside(&box, &proc, "spaces", NULL);
    ck_assert_str_eq(proc.out.data,
                     "unshare: EPERM\nunshare, among others: EPERM\nclone: EPERM\nkeyctl: EPERM\nadd_key: EPERM\n"
                     "request_key: EPERM\nclone3: Function not implemented\nits own files: done\n");
    expect_alive(&box);
    proc_release(&proc);
    box_stop(&box);
}
END_TEST

START_TEST(nothing_of_pid_1_can_be_looked_into)
{
    const unsigned uids[] = {NS_UID, 0};
    struct proc proc;
    struct box box;

    for (int i = 0; i < 2; i++) {
        if (!box_start_with(&box, no_args, uids[i]))
            return;
        run_inside(&box, &proc, "peek", NULL);
        ck_assert_msg(count_lines(proc.out.data, "denied\n") == 10, "uid %u: %s", uids[i],
                      proc.out.data);
        expect_alive(&box);
        proc_release(&proc);
        box_stop(&box);
    }
}
END_TEST

START_TEST(signals_from_inside_mean_nothing_to_pid_1)
{
    struct proc proc;
    struct box box;

    if (!box_start_with(&box, no_args, 0))
        return;
    run_inside(&box, &proc, "signals", NULL);
    ck_assert_str_eq(proc.out.data, "sent\n");
    expect_alive(&box);
    proc_release(&proc);
    box_stop(&box);
}
END_TEST

START_TEST(a_raised_oom_score_is_put_back_at_the_next_ping)
{
    struct proc proc, before, after;
    struct box box;

    if (!box_start_with(&box, no_args, 0))
        return;
    run_inside(&box, &before, "oom-score", "read");
    run_inside(&box, &proc, "oom-score", "write");
    ck_assert_str_eq(proc.out.data, "written\n");
    expect_alive(&box);
    run_inside(&box, &after, "oom-score", "read");
    ck_assert_str_eq(after.out.data, before.out.data);
    ck_assert_str_ne(after.out.data, "1000\n");
    proc_release(&proc);
    proc_release(&before);
    proc_release(&after);
    box_stop(&box);
}
END_TEST

static int
never_read(void *user, struct cf_door *door, const char *bytes, size_t len)
{
    return 0;
}

static void
on_door_event(void *user, struct cf_door *door)
{
}

static const struct cf_door_events never_events = {never_read, on_door_event, on_door_event,
                                                   on_door_event};

static void
accept_never(struct box *box, struct cf_door *door, unsigned port)
{
    cf_door_open(door, &never_events, NULL);
}

START_TEST(hoarding_connections_and_descriptors_hurts_only_the_hoarder)
{
    struct proc proc;
    struct ask ask = {0};
    struct box box;
    const char *const argv[] = {inside_program(), "--inside", "hoard", "x", NULL};
    struct cf_spawn spawn = {.argv = argv};

    if (!box_start(&box))
        return;
    box.on_door = accept_never;
    proc_spawn(&box, &proc, &spawn);
    BOX_UNTIL(&box, 20000, proc.out.len > 0);
    ASK(&box, &ask, cf_link_facts(box.link, ask_done, &ask, &err_));
    ck_assert_int_le(json_integer_value(json_object_get(ask.answer, "channels")), 512 + 2);
    expect_alive(&box);
    cf_process_signal(proc.process, SIGKILL);
    BOX_UNTIL(&box, 5000, proc_is_over(&proc));
    ask_release(&ask);
    proc_release(&proc);
    box_stop(&box);
}
END_TEST

UNIT_MAIN("sandbox/link: hostile programs",
          tcase_add_test(tc, calls_that_name_pid_1_or_everybody_are_refused);
          tcase_add_test(tc, to_a_root_image_too);
          tcase_add_test(tc, the_same_calls_about_oneself_go_through);
          tcase_add_test(tc, the_32_bit_table_is_closed_the_same_way);
          tcase_add_test(tc, no_sockets_but_those_a_namespace_holds);
          tcase_add_test(tc, no_user_namespaces_and_no_keyrings);
    tcase_add_test(tc, nothing_of_pid_1_can_be_looked_into);
          tcase_add_test(tc, signals_from_inside_mean_nothing_to_pid_1);
          tcase_add_test(tc, a_raised_oom_score_is_put_back_at_the_next_ping);
          tcase_add_test(tc, hoarding_connections_and_descriptors_hurts_only_the_hoarder);)
