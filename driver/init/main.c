/*
 * cf-init's beginning: arguments, the promise to be pid 1 and nothing else, what closes it off
 * from the programs to come, the relay's ports, hello.
 *
 *     cf-init [--port N]... [--ping-timeout-ms N]
 */
#include "init/init.h"

#include "base/clock.h"

#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

#define DATA_QUEUE (64u * 1024u)
#define CONTROL_QUEUE (8u * 1024u * 1024u)
#define GROWTH (16u * 1024u * 1024u)
#define PING_TIMEOUT_MS 30000u

static int
complain(const char *what, int error)
{
    char line[256];
    int len = snprintf(line, sizeof line, error != 0 ? "cf-init: %s: %s\n" : "cf-init: %s\n",
                       what, strerror(error));

    (void)!write(STDERR_FILENO, line,
                 (size_t)(len < (int)sizeof line ? len : (int)sizeof line - 1));
    return CF_INIT_EXIT_OWN_FAULT;
}

/* What was freed may hold another process's secrets when a child inherits the heap. */
static void
free_wiped(void *memory)
{
    if (memory != NULL)
        explicit_bzero(memory, malloc_usable_size(memory));
    free(memory);
}

struct arguments {
    unsigned ports[CF_INIT_PORTS_MAX], port_count;
    uint64_t ping_timeout_ms;
};

static int
read_arguments(int argc, char **argv, struct arguments *to)
{
    uint64_t value;

    for (int i = 1; i < argc; i += 2) {
        if (i + 1 < argc && strcmp(argv[i], "--port") == 0 &&
            to->port_count < CF_INIT_PORTS_MAX && cf_parse_u64(argv[i + 1], 1, 65535, &value))
            to->ports[to->port_count++] = (unsigned)value;
        else if (i + 1 < argc && strcmp(argv[i], "--ping-timeout-ms") == 0 &&
                 cf_parse_u64(argv[i + 1], 1, 86400000, &value))
            to->ping_timeout_ms = value;
        else
            return -1;
    }
    return 0;
}

/* As pid 1 the dispositions came from the engine; SIGCHLD is read from a descriptor, and a
 * signal without a handler does nothing to pid 1. */
static void
set_signals(void)
{
    sigset_t child;

    for (int number = 1; number < NSIG; number++)
        signal(number, SIG_DFL); /* SIGKILL and SIGSTOP refuse, which is fine */
    signal(SIGPIPE, SIG_IGN);
    sigemptyset(&child);
    sigaddset(&child, SIGCHLD);
    sigprocmask(SIG_SETMASK, &child, NULL);
}

static int
set_nonblocking(int fd)
{
    int flags = fcntl(fd, F_GETFL);

    return flags < 0 ? -1 : fcntl(fd, F_SETFL, flags | O_NONBLOCK);
}

static void
say_hello(struct cf_init *init)
{
    json_t *ports = json_array();
    struct utsname names;

    for (unsigned i = 0; i < init->listener_count; i++)
        json_array_append_new(ports, json_integer(init->listeners[i].port));
    if (uname(&names) < 0)
        strcpy(names.machine, "unknown");
    cf_control_event(
        init, json_pack("{s:s, s:i, s:s, s:I, s:I, s:I, s:s, s:s, s:o}", "ev", "hello",
                        "protocol", CF_MUX_PROTOCOL, "version", CFRUNNER_VERSION, "uid",
                        (json_int_t)geteuid(), "gid", (json_int_t)getegid(), "pids_limit",
                        (json_int_t)cf_cgroup_number(init->cgroup.pids_max), "cgroup",
                        init->cgroup.kind, "arch", names.machine, "ports", ports));
}

static int
set_up(struct cf_init *init, const struct arguments *arguments)
{
    static const struct cf_mux_options options = {
        .side = CF_MUX_INIT,
        .data_queue_bytes = DATA_QUEUE,
        .control_queue_bytes = CONTROL_QUEUE,
        .own_channels_max = CF_INIT_DOORS_MAX,
        .peer_channels_max = 4096,
        .growth_bytes = GROWTH,
        .resize = cf_private_resize,
    };
    const char *what = "set-up";

    TAILQ_INIT(&init->ready);
    SLIST_INIT(&init->dead);
    LIST_INIT(&init->children);
    init->exit_code = -1;
    init->ping_timeout_ms = arguments->ping_timeout_ms;
    init->last_ping_ms = cf_clock_ms();
    (void)clock_gettime(CLOCK_REALTIME_COARSE, &init->started_at); /* always there */
    cf_mux_init(&init->mux, &options, &cf_stream_mux_events, init);
    init->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    if (init->epoll_fd < 0)
        return complain("epoll", errno);
    cf_cgroup_open(&init->cgroup);
    if (cf_harden(init, &what) < 0)
        return complain(what, errno);
    for (unsigned i = 0; i < arguments->port_count; i++) {
        if (cf_door_listen(init, arguments->ports[i]) < 0)
            return complain("the relay's port on 127.0.0.1", errno);
    }
    say_hello(init);
    return 0;
}

int
main(int argc, char **argv)
{
    static struct cf_init init;
    struct arguments arguments = {.ping_timeout_ms = PING_TIMEOUT_MS};
    int code;

    /* anywhere else its kill(-1) would reach what is not the sandbox's */
    if (getpid() != 1)
        return complain("this is the first process of a sandbox; it does nothing elsewhere",
                        0);
    if (read_arguments(argc, argv, &arguments) < 0)
        return complain("usage: cf-init [--port N]... [--ping-timeout-ms N]", 0);
    json_set_alloc_funcs(malloc, free_wiped);
    set_signals();
    if (set_nonblocking(STDIN_FILENO) < 0 || set_nonblocking(STDOUT_FILENO) < 0)
        return complain("stdin and stdout", errno);
    (void)set_nonblocking(STDERR_FILENO); /* words there are a courtesy */
    code = set_up(&init, &arguments);
    return code != 0 ? code : cf_init_run(&init);
}
