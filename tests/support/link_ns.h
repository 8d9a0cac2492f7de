/*
 * link_ns.h: the driver's link with a real cf-init on its other end (init_ns.h), and a loop of
 * a few lines that moves the bytes until something wanted has come about.
 */
#ifndef CF_TESTS_LINK_NS_H
#define CF_TESTS_LINK_NS_H

#include "base/buf.h"
#include "sandbox/link.h"
#include "tests/support/init_ns.h"

#include <check.h>

struct box {
    struct ns_init ns;
    struct cf_link *link;
    bool has_hello, is_broken, has_ended, wants_output, is_not_reading;
    struct cf_error broken;
    void (*on_door)(struct box *box, struct cf_door *door, unsigned port);
    uint64_t orphans, disk_used;
    void *user;
};

static inline void
box_on_output(void *user)
{
    ((struct box *)user)->wants_output = true;
}

static inline void
box_on_hello(void *user, const struct cf_hello *hello)
{
    ((struct box *)user)->has_hello = true;
}

static inline void
box_on_door(void *user, struct cf_door *door, unsigned port)
{
    struct box *box = user;

    if (box->on_door != NULL)
        box->on_door(box, door, port);
}

static inline void
box_on_event(void *user, const char *name, json_t *event)
{
    struct box *box = user;

    if (strcmp(name, "orphan") == 0)
        box->orphans = (uint64_t)json_integer_value(json_object_get(event, "total"));
    if (strcmp(name, "disk") == 0)
        box->disk_used = (uint64_t)json_integer_value(json_object_get(event, "used"));
}

static inline void
box_on_broken(void *user, const struct cf_error *err)
{
    struct box *box = user;

    box->is_broken = true;
    box->broken = *err;
}

static const struct cf_link_events box_events = {box_on_output, box_on_hello, box_on_door,
                                                 box_on_event, box_on_broken};

static inline void
box_read(struct box *box)
{
    static char bytes[128 * 1024];
    ssize_t n = read(box->ns.out, bytes, sizeof bytes);

    if (n > 0) {
        cf_link_feed(box->link, bytes, (size_t)n);
    } else if (n == 0) {
        box->has_ended = true;
        cf_link_end(box->link, NULL);
    }
}

static inline void
box_write(struct box *box)
{
    const char *bytes;
    size_t len = cf_link_output(box->link, &bytes);
    ssize_t n;

    if (len == 0) {
        box->wants_output = false;
        return;
    }
    n = write(box->ns.in, bytes, len);
    if (n > 0)
        cf_link_output_taken(box->link, (size_t)n);
    else if (n < 0 && errno == EPIPE)
        box->wants_output = false;
}

static inline void
box_turn(struct box *box, int wait_ms)
{
    struct pollfd fds[2] = {{box->is_not_reading ? -1 : box->ns.out, POLLIN, 0},
                            {box->wants_output ? box->ns.in : -1, POLLOUT, 0}};

    poll(fds, 2, wait_ms);
    if (fds[0].revents != 0)
        box_read(box);
    if (fds[1].revents != 0)
        box_write(box);
}

/* Goes on until `wish` holds; the test fails when it does not within `limit_ms`. */
#define BOX_UNTIL(box, limit_ms, wish)                                               \
    do {                                                                             \
        uint64_t until_ = ns_now_ms() + (limit_ms);                                  \
        while (!(wish)) {                                                            \
            ck_assert_msg(ns_now_ms() < until_, "not within %d ms: %s (stderr: %s)", \
                          (int)(limit_ms), #wish, ns_words(&(box)->ns));             \
            ck_assert_msg(!(box)->is_broken, "broken: %s", (box)->broken.text);      \
            box_turn(box, 20);                                                       \
        }                                                                            \
    } while (0)

static inline void
box_turns(struct box *box, unsigned for_ms)
{
    uint64_t until = ns_now_ms() + for_ms;

    while (ns_now_ms() < until && !box->has_ended)
        box_turn(box, 10);
}

/* 0: not permitted here, the test is to return (skipped). */
static inline int
box_start_with(struct box *box, const char *const *args, unsigned uid)
{
    memset(box, 0, sizeof *box);
    signal(SIGPIPE, SIG_IGN);
    if (!ns_start_as(&box->ns, args, uid))
        return 0;
    box->link = cf_link_new(&box_events, box);
    ck_assert_ptr_nonnull(box->link);
    BOX_UNTIL(box, 5000, box->has_hello || box->has_ended);
    ck_assert_msg(box->has_hello, "no hello: %s", ns_words(&box->ns));
    return 1;
}

static inline int
box_start(struct box *box)
{
    static const char *const args[] = {"--port", "4180", "--port", "4181", NULL};

    return box_start_with(box, args, NS_UID);
}

static inline void
box_stop(struct box *box)
{
    cf_link_free(box->link);
    ns_stop(&box->ns);
}

/* ---- a process and all that was heard of it ----------------------------------------- */

struct proc {
    struct cf_process *process;
    struct cf_buf out, err;
    size_t out_bytes, pause_after;
    uint32_t out_sum;
    bool is_started, has_failed, has_exited, is_out_over, is_err_over, is_stdin_closed,
        is_quiet;
    const char *input;
    size_t input_len, input_at;
    struct cf_start_failure why;
    struct cf_exit exit;
};

static inline void
proc_on_started(void *user, struct cf_process *process, int pid)
{
    ((struct proc *)user)->is_started = true;
}

static inline void
proc_on_start_failed(void *user, struct cf_process *process,
                     const struct cf_start_failure *why)
{
    struct proc *proc = user;

    proc->has_failed = true;
    proc->why = *why;
}

static inline int
proc_on_stdout(void *user, struct cf_process *process, const char *bytes, size_t len)
{
    struct proc *proc = user;

    proc->out_bytes += len;
    for (size_t i = 0; i < len; i++)
        proc->out_sum = proc->out_sum * 31 + (unsigned char)bytes[i];
    if (!proc->is_quiet)
        cf_buf_add(&proc->out, bytes, len);
    return proc->pause_after > 0 && proc->out_bytes >= proc->pause_after ? CF_PAUSE : 0;
}

static inline int
proc_on_stderr(void *user, struct cf_process *process, const char *bytes, size_t len)
{
    cf_buf_add(&((struct proc *)user)->err, bytes, len);
    return 0;
}

static inline void
proc_on_stdout_end(void *user, struct cf_process *process)
{
    ((struct proc *)user)->is_out_over = true;
}

static inline void
proc_on_stderr_end(void *user, struct cf_process *process)
{
    ((struct proc *)user)->is_err_over = true;
}

static inline void
proc_write(struct proc *proc)
{
    size_t n;

    while (proc->input_at < proc->input_len) {
        n = cf_process_write(proc->process, proc->input + proc->input_at,
                             proc->input_len - proc->input_at);
        if (n == 0)
            return;
        proc->input_at += n;
    }
    cf_process_close_stdin(proc->process);
}

static inline void
proc_on_stdin_room(void *user, struct cf_process *process)
{
    proc_write(user);
}

static inline void
proc_on_stdin_closed(void *user, struct cf_process *process)
{
    ((struct proc *)user)->is_stdin_closed = true;
}

static inline void
proc_on_exit(void *user, struct cf_process *process, const struct cf_exit *exit)
{
    struct proc *proc = user;

    ck_assert(!proc->has_exited);
    proc->has_exited = true;
    proc->exit = *exit;
}

static const struct cf_process_events proc_events = {
    proc_on_started,    proc_on_start_failed, proc_on_stdout,
    proc_on_stderr,     proc_on_stdout_end,   proc_on_stderr_end,
    proc_on_stdin_room, proc_on_stdin_closed, proc_on_exit,
};

static inline void
proc_spawn(struct box *box, struct proc *proc, const struct cf_spawn *spawn)
{
    struct cf_error err;

    memset(proc, 0, sizeof *proc);
    ck_assert_msg(
        cf_process_spawn(box->link, spawn, &proc_events, proc, &proc->process, &err) == 0,
        "%s", err.text);
}

/* /bin/sh -c script, with stdin when `input` is given. */
static inline void
proc_shell(struct box *box, struct proc *proc, const char *script, const char *input)
{
    const char *const argv[] = {"/bin/sh", "-c", script, NULL};
    struct cf_spawn spawn = {.argv = argv, .cwd = box->ns.folder, .with_stdin = input != NULL};

    proc_spawn(box, proc, &spawn);
    proc->input = input;
    proc->input_len = input != NULL ? strlen(input) : 0;
    if (input != NULL)
        proc_write(proc);
}

static inline bool
proc_is_over(const struct proc *proc)
{
    return proc->has_exited && proc->is_out_over && proc->is_err_over;
}

static inline void
proc_release(struct proc *proc)
{
    cf_process_free(proc->process);
    cf_buf_release(&proc->out);
    cf_buf_release(&proc->err);
}

/* ---- a request and its answer ------------------------------------------------------- */

struct ask {
    bool is_answered;
    int status;
    json_t *answer;
    struct cf_error err;
    struct cf_buf bytes;
};

static inline void
ask_done(void *user, int status, json_t *answer, const struct cf_error *err)
{
    struct ask *ask = user;

    ck_assert(!ask->is_answered);
    ask->is_answered = true;
    ask->status = status;
    ask->answer = json_incref(answer);
    if (err != NULL)
        ask->err = *err;
}

static inline int
ask_bytes(void *user, const char *bytes, size_t len)
{
    cf_buf_add(&((struct ask *)user)->bytes, bytes, len);
    return 0;
}

static inline void
ask_release(struct ask *ask)
{
    json_decref(ask->answer);
    cf_buf_release(&ask->bytes);
    memset(ask, 0, sizeof *ask);
}

#define ASK(box, ask, call)                          \
    do {                                             \
        struct cf_error err_;                        \
        ask_release(ask);                            \
        ck_assert_msg((call) == 0, "%s", err_.text); \
        BOX_UNTIL(box, 10000, (ask)->is_answered);   \
    } while (0)

#endif
