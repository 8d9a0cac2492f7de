/*
 * The loop: what epoll says becomes flags, and then each turn reads a bounded amount, moves a
 * bounded amount, and looks at the clock. epoll and not poll: a lowered RLIMIT_NOFILE makes
 * poll fail, and edges and not levels: a stream that may not be read now costs nothing.
 */
#include "init/init.h"

#include "base/clock.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/signalfd.h>
#include <unistd.h>

#define IN_BUFFER (128u * 1024u)
#define READS_A_TURN 8
#define WRITES_A_TURN 16
#define EVENTS_A_TURN 128
#define SHUTDOWN_LIMIT_MS 10000
#define SHUTDOWN_STEP_MS 2

int
cf_watch_add(struct cf_init *init, struct cf_watch *watch, uint32_t events)
{
    struct epoll_event event = {.events = events | EPOLLET, .data.ptr = watch};

    return epoll_ctl(init->epoll_fd, EPOLL_CTL_ADD, watch->fd, &event);
}

void
cf_watch_close(struct cf_init *init, struct cf_watch *watch)
{
    if (watch->fd < 0)
        return;
    /* closing alone is not enough: a child just forked holds the same file until it execs */
    (void)epoll_ctl(init->epoll_fd, EPOLL_CTL_DEL, watch->fd,
                    NULL); /* fails for one never added */
    close(watch->fd);
    watch->fd = -1;
}

void
cf_init_end(struct cf_init *init, int code, const char *why)
{
    if (init->exit_code >= 0)
        return;
    init->exit_code = code;
    if (why != NULL) {
        (void)!write(STDERR_FILENO, "cf-init: ", 9); /* if nobody reads it, nobody wants it */
        (void)!write(STDERR_FILENO, why, strlen(why));
        (void)!write(STDERR_FILENO, "\n", 1);
    }
}

/* ---- the stream to the driver ------------------------------------------------------- */

static void
read_stream(struct cf_init *init)
{
    struct cf_error err;
    ssize_t n;

    for (int i = 0; i < READS_A_TURN && init->is_in_readable && init->exit_code < 0; i++) {
        n = read(init->in.fd, init->in_buffer, IN_BUFFER);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && errno == EAGAIN) {
            init->is_in_readable = false;
        } else if (n <= 0) {
            cf_init_end(init, CF_INIT_EXIT_DEAD_MAN, "the stream from the driver ended");
        } else if (cf_mux_feed(&init->mux, init->in_buffer, (size_t)n, &err) < 0) {
            cf_init_end(init, CF_INIT_EXIT_PROTOCOL, err.text);
        }
    }
}

/* One write; false when there is nothing to write or no room for it. */
static bool
write_stream(struct cf_init *init)
{
    const char *bytes;
    size_t len = cf_mux_peek(&init->mux, &bytes);
    ssize_t n;

    if (len == 0 || !init->is_out_writable)
        return false;
    n = write(init->out.fd, bytes, len);
    if (n < 0 && errno == EINTR)
        return true;
    if (n < 0 && errno == EAGAIN) {
        init->is_out_writable = false;
        return false;
    }
    if (n < 0) {
        cf_init_end(init, CF_INIT_EXIT_DEAD_MAN, "the stream to the driver broke");
        return false;
    }
    cf_mux_taken(&init->mux, (size_t)n);
    cf_control_count_sent(init);
    return true;
}

static void
move_bytes(struct cf_init *init)
{
    int pumps = 4 * WRITES_A_TURN;

    for (int i = 0; i < WRITES_A_TURN && init->is_out_writable; i++) {
        while (pumps > 0 && cf_stream_pump(init))
            pumps--;
        if (!write_stream(init))
            return;
    }
}

/* ---- shutdown and the dead man ------------------------------------------------------ */

/* Asked to end: everything was killed; once the last child is reaped, bye is the last word. */
static void
step_shutdown(struct cf_init *init, uint64_t now_ms)
{
    bool is_late = now_ms >= init->shutdown_deadline_ms;

    if (!init->has_said_bye) {
        if (!cf_process_reap(init) && !is_late)
            return;
        cf_control_event(init, json_pack("{s:s, s:I, s:b}", "ev", "bye", "orphans",
                                         (json_int_t)init->orphans, "reaped_all", !is_late));
        init->has_said_bye = true;
    }
    if (init->mux.urgent.len == 0 || is_late)
        cf_init_end(init, 0, NULL);
}

static void
judge_silence(struct cf_init *init, uint64_t now_ms)
{
    if (now_ms - init->last_ping_ms < init->ping_timeout_ms)
        return;
    /* after a pause the pings are all there, unread: only an empty stream is silence */
    init->is_in_readable = true;
    read_stream(init);
    if (!init->is_in_readable && cf_clock_ms() - init->last_ping_ms >= init->ping_timeout_ms)
        cf_init_end(init, CF_INIT_EXIT_DEAD_MAN, "no ping from the driver for too long");
}

/* What the clock asks for; returns how long epoll may sleep, -1 for ever. */
static int
tick(struct cf_init *init)
{
    uint64_t now_ms = cf_clock_ms();
    int64_t until = (int64_t)(init->last_ping_ms + init->ping_timeout_ms - now_ms), disk_ms;

    if (init->shutdown_deadline_ms > 0) {
        step_shutdown(init, now_ms);
        return init->is_out_writable && cf_mux_has_output(&init->mux) ? 0 : SHUTDOWN_STEP_MS;
    }
    judge_silence(init, now_ms);
    disk_ms = cf_disk_tick(init, now_ms);
    if (disk_ms >= 0 && disk_ms < until)
        until = disk_ms;
    if (init->is_in_readable || init->is_accept_due ||
        (init->is_out_writable &&
         (!TAILQ_EMPTY(&init->ready) || cf_mux_has_output(&init->mux))))
        return 0;
    return until < 0 ? 0 : (int)(until < 60000 ? until : 60000);
}

/* ---- events ------------------------------------------------------------------------- */

static void
on_in(struct cf_init *init, struct cf_watch *watch, uint32_t events)
{
    init->is_in_readable = true;
}

static void
on_out(struct cf_init *init, struct cf_watch *watch, uint32_t events)
{
    init->is_out_writable = true;
}

static void
on_signal(struct cf_init *init, struct cf_watch *watch, uint32_t events)
{
    struct signalfd_siginfo infos[16];

    while (read(watch->fd, infos, sizeof infos) > 0)
        ; /* who sent it and how often says nothing: only wait4 tells */
    init->is_child_waiting = true;
}

static void
dispatch(struct cf_init *init, int timeout_ms)
{
    struct epoll_event events[EVENTS_A_TURN];
    struct cf_watch *watch;
    int n = epoll_wait(init->epoll_fd, events, EVENTS_A_TURN, timeout_ms);

    for (int i = 0; i < n; i++) {
        watch = events[i].data.ptr;
        if (watch->fd >= 0)
            watch->on_event(init, watch, events[i].events);
    }
}

static int
watch_own(struct cf_init *init)
{
    sigset_t child;

    init->in = (struct cf_watch){STDIN_FILENO, on_in};
    init->out = (struct cf_watch){STDOUT_FILENO, on_out};
    sigemptyset(&child);
    sigaddset(&child, SIGCHLD);
    init->signals =
        (struct cf_watch){signalfd(-1, &child, SFD_NONBLOCK | SFD_CLOEXEC), on_signal};
    init->is_in_readable = init->is_out_writable = true;
    if (init->signals.fd < 0 || cf_watch_add(init, &init->signals, EPOLLIN) < 0 ||
        cf_watch_add(init, &init->in, EPOLLIN | EPOLLRDHUP) < 0 ||
        cf_watch_add(init, &init->out, EPOLLOUT) < 0)
        return -1;
    init->in_buffer = cf_private_resize(NULL, 0, IN_BUFFER);
    return init->in_buffer == NULL ? -1 : 0;
}

/* Nothing may outlive pid 1, and the driver should hear the last it can hear. */
static void
kill_and_reap(struct cf_init *init)
{
    uint64_t give_up_ms = cf_clock_ms() + SHUTDOWN_LIMIT_MS;

    (void)cf_process_kill_all(SIGKILL); /* fails where nobody is left */
    while (!cf_process_reap(init) && cf_clock_ms() < give_up_ms)
        usleep(1000);
}

int
cf_init_run(struct cf_init *init)
{
    int timeout_ms = 0;

    if (watch_own(init) < 0) {
        cf_init_end(init, CF_INIT_EXIT_OWN_FAULT, "stdin and stdout must be pipes or sockets");
        return init->exit_code;
    }
    while (init->exit_code < 0) {
        dispatch(init, timeout_ms);
        if (init->is_child_waiting)
            (void)cf_process_reap(init); /* only shutdown waits for the last one */
        read_stream(init);
        cf_door_accept(init);
        move_bytes(init);
        cf_stream_bury(init);
        timeout_ms = tick(init);
    }
    if (!init->has_said_bye)
        kill_and_reap(init);
    return init->exit_code;
}
