/*
 * Processes the driver asked for: from its request to the answer that it runs or why not, and
 * from its end to the event that tells how. Everything else that ends here was orphaned by one
 * of them: it is reaped and counted.
 */
#include "init/init.h"

#include "base/utf8.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

/* ---- its three pipes ---------------------------------------------------------------- */

static ssize_t
fill_from_pipe(struct cf_stream *stream, char *to, size_t len)
{
    return read(stream->watch.fd, to, len);
}

static ssize_t
drain_to_pipe(struct cf_stream *stream, const char *bytes, size_t len)
{
    return write(stream->watch.fd, bytes, len);
}

static void
on_stdin_end(struct cf_stream *stream)
{
    cf_watch_close(stream->init, &stream->watch); /* its reader sees the end of file */
}

static const struct cf_stream_ops output_ops = {.fill = fill_from_pipe,
                                                .is_pipe = true,
                                                .is_reset_discarding = true};
static const struct cf_stream_ops input_ops = {.drain = drain_to_pipe,
                                               .on_sink_end = on_stdin_end};

/* What a spawn holds while it is made; whatever is left here at the end is closed. */
struct spawning {
    struct cf_spawn_plan plan; /* the child's ends */
    int in, out, err, status;  /* ours */
    struct cf_stream *in_stream, *out_stream, *err_stream;
};

static void
close_kept(int *fd)
{
    if (*fd >= 0)
        close(*fd);
    *fd = -1;
}

static void
release_spawning(struct spawning *s)
{
    int *ends[] = {&s->plan.in, &s->plan.out, &s->plan.err, &s->plan.status,
                   &s->in,      &s->out,      &s->err,      &s->status};

    for (size_t i = 0; i < CF_COUNT(ends); i++)
        close_kept(ends[i]);
    free(s->plan.argv);
    free(s->plan.env);
}

/* A pipe of which only our end is non-blocking: the harness gets what a shell would give it.
 */
static int
make_pipe(int *ret_ours, int *ret_theirs, bool is_ours_reading)
{
    int ends[2];

    if (pipe2(ends, O_CLOEXEC) < 0)
        return -1;
    *ret_ours = ends[is_ours_reading ? 0 : 1];
    *ret_theirs = ends[is_ours_reading ? 1 : 0];
    return fcntl(*ret_ours, F_SETFL, O_NONBLOCK);
}

static int
make_pipes(struct spawning *s)
{
    if (make_pipe(&s->in, &s->plan.in, false) < 0 ||
        make_pipe(&s->out, &s->plan.out, true) < 0 ||
        make_pipe(&s->err, &s->plan.err, true) < 0 ||
        make_pipe(&s->status, &s->plan.status, true) < 0)
        return -1;
    if (s->in_stream == NULL)
        close_kept(&s->in); /* nobody will write: the end of file is there at once */
    return 0;
}

static int
bind_pipe(struct cf_stream *stream, const struct cf_stream_ops *ops, int *fd)
{
    int taken = *fd;

    if (stream == NULL)
        return 0;
    *fd = -1;
    return cf_stream_bind(stream, ops, NULL, taken);
}

/* ---- start -------------------------------------------------------------------------- */

static const char *
phase_name(int phase)
{
    static const char *const names[] = {"", "fork", "streams", "limits", "chdir", "exec"};

    return phase > 0 && phase < (int)CF_COUNT(names) ? names[phase] : "exec";
}

static void
answer_failed(struct cf_init *init, json_int_t id, const char *program, const char *cwd,
              const struct cf_spawn_failure *why)
{
    char detail[200] = "";
    json_t *text;

    cf_spawn_explain(program, cwd, why, detail, sizeof detail);
    cf_utf8_make_line(detail);
    text = json_string(detail);
    cf_control_answer(init, id,
                      json_pack("{s:{s:s, s:i, s:o}}", "error", "phase",
                                phase_name(why->phase), "errno", why->error, "detail",
                                text != NULL ? text : json_string("")));
}

static void
free_child(struct cf_child *child)
{
    LIST_REMOVE(child, in_list);
    child->init->child_count--;
    cf_watch_close(child->init, &child->status);
    free(child->program);
    free(child->cwd);
    free(child);
}

/* The status pipe has spoken: exec happened (end of file), or it tells what failed. */
static void
finish_start(struct cf_child *child)
{
    struct cf_spawn_failure why;
    ssize_t n;

    if (child->has_started || child->request == 0)
        return;
    n = read(child->status.fd, &why, sizeof why);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (n == sizeof why) {
        if (child->in != NULL)
            cf_stream_end(child->in);
        cf_stream_end(child->out);
        cf_stream_end(child->err);
        answer_failed(child->init, child->request, child->program, child->cwd, &why);
    } else {
        child->has_started = true;
        cf_control_answer(child->init, child->request,
                          json_pack("{s:i}", "pid", (int)child->pid));
    }
    child->request = 0;
    child->in = child->out = child->err = NULL;
    cf_watch_close(child->init, &child->status);
}

static void
on_status(struct cf_init *init, struct cf_watch *watch, uint32_t events)
{
    finish_start(cf_container_of(watch, struct cf_child, status));
}

static void
fork_child(struct cf_init *init, json_int_t id, struct spawning *s)
{
    struct cf_child *child = calloc(1, sizeof *child);
    struct cf_spawn_failure why = {CF_SPAWN_FORK, 0};
    struct cf_error err;

    if (child == NULL || cf_str_copy(&child->program, s->plan.argv[0], &err) < 0 ||
        cf_str_copy(&child->cwd, s->plan.cwd, &err) < 0)
        goto fail;
    child->init = init;
    child->request = id;
    child->status = (struct cf_watch){-1, on_status};
    child->oom_before = cf_cgroup_oom_kills(&init->cgroup);
    child->refused_before = cf_cgroup_pids_refused(&init->cgroup);
    child->pid = fork(); /* and not vfork: what is kept out of the child must stay out of it */
    if (child->pid == 0)
        cf_spawn_exec(&s->plan);
    if (child->pid < 0)
        goto fail;
    child->status.fd = s->status;
    s->status = -1;
    child->in = s->in_stream;
    child->out = s->out_stream;
    child->err = s->err_stream;
    LIST_INSERT_HEAD(&init->children, child, in_list);
    init->child_count++;
    (void)bind_pipe(s->in_stream, &input_ops, &s->in);
    (void)bind_pipe(s->out_stream, &output_ops,
                    &s->out); /* epoll's memory: the stream stays */
    (void)bind_pipe(s->err_stream, &output_ops,
                    &s->err); /* silent, and the driver's deadline ends it */
    (void)cf_watch_add(init, &child->status, EPOLLIN);
    return;
fail:
    why.error = child == NULL || child->cwd == NULL ? ENOMEM : errno;
    answer_failed(init, id, s->plan.argv[0], s->plan.cwd, &why);
    if (child != NULL) {
        free(child->program);
        free(child->cwd);
    }
    free(child);
}

void
cf_process_spawn_request(struct cf_init *init, json_int_t id, json_t *request)
{
    struct spawning s = {.plan = {.in = -1, .out = -1, .err = -1, .status = -1},
                         .in = -1,
                         .out = -1,
                         .err = -1,
                         .status = -1};
    json_t *in = json_object_get(request, "in");

    s.plan.argv = cf_strings_from(json_object_get(request, "argv"), 0);
    s.plan.env = cf_env_make(environ, json_object_get(request, "env"));
    s.plan.cwd = json_string_value(json_object_get(request, "cwd"));
    s.plan.nofile = (uint64_t)json_integer_value(json_object_get(request, "nofile"));
    s.in_stream = cf_stream_unbound(init, json_integer_value(in));
    s.out_stream =
        cf_stream_unbound(init, json_integer_value(json_object_get(request, "out")));
    s.err_stream =
        cf_stream_unbound(init, json_integer_value(json_object_get(request, "err")));
    if (s.plan.argv == NULL || s.plan.argv[0] == NULL || s.plan.env == NULL ||
        s.plan.cwd == NULL)
        cf_control_refuse(init, id, EINVAL, "spawn wants argv, env and cwd");
    else if (s.out_stream == NULL || s.err_stream == NULL || s.out_stream == s.err_stream ||
             (in != NULL && s.in_stream == NULL))
        cf_control_refuse(init, id, EBADF,
                          "spawn wants channels that are open and not yet used");
    else if (init->child_count >= CF_INIT_PROCESSES_MAX)
        cf_control_refuse(init, id, EAGAIN, "%d processes run already", CF_INIT_PROCESSES_MAX);
    else if (make_pipes(&s) < 0)
        cf_control_refuse(init, id, errno, "pipe: %s", strerror(errno));
    else
        fork_child(init, id, &s);
    release_spawning(&s);
}

/* ---- end ---------------------------------------------------------------------------- */

static struct cf_child *
find_child(struct cf_init *init, pid_t pid)
{
    struct cf_child *child;

    LIST_FOREACH(child, &init->children, in_list)
    if (child->pid == pid)
        return child;
    return NULL;
}

static json_int_t
microseconds(const struct timeval *time)
{
    return (json_int_t)time->tv_sec * 1000000 + time->tv_usec;
}

static void
report_exit(struct cf_child *child, int status, const struct rusage *used)
{
    uint64_t oom = cf_cgroup_oom_kills(&child->init->cgroup);
    uint64_t refused = cf_cgroup_pids_refused(&child->init->cgroup);

    finish_start(child); /* the dead cannot keep us waiting: the pipe has its answer */
    if (child->has_started && child->init->shutdown_deadline_ms == 0) /* else nobody asks any more */
        cf_disk_last_look(child->init, (uint64_t)used->ru_oublock * 512);
    if (child->has_started)
        cf_control_event(
            child->init,
            json_pack("{s:s, s:i, s:i, s:i, s:b, s:b, s:I, s:I, s:I, s:I, s:I, s:I}", "ev", "exit", "pid",
                      (int)child->pid, "code", WIFEXITED(status) ? WEXITSTATUS(status) : -1,
                      "signal", WIFSIGNALED(status) ? WTERMSIG(status) : 0, "core",
                      WIFSIGNALED(status) && WCOREDUMP(status), "oom_known",
                      child->init->cgroup.oom >= 0, "oom_total", (json_int_t)oom, "oom_kills",
                      (json_int_t)(oom > child->oom_before ? oom - child->oom_before : 0),
                      "pids_refused", (json_int_t)(refused - child->refused_before),
                      "user_us", microseconds(&used->ru_utime), "system_us",
                      microseconds(&used->ru_stime), "max_rss_bytes",
                      (json_int_t)used->ru_maxrss * 1024));
    free_child(child);
}

bool
cf_process_reap(struct cf_init *init)
{
    struct cf_child *child;
    struct rusage used;
    int status;
    pid_t pid;

    init->is_child_waiting = false;
    while ((pid = wait4(-1, &status, WNOHANG, &used)) > 0) {
        child = find_child(init, pid);
        if (child != NULL)
            report_exit(child, status, &used);
        else
            init->orphans++;
    }
    if (init->orphans > init->orphans_told)
        cf_control_count_sent(init);
    return pid < 0 && errno == ECHILD;
}

/* ---- signals ------------------------------------------------------------------------ */

int
cf_process_kill_all(int signal)
{
    if (getpid() != 1) {
        errno = EPERM;
        return -1;
    }
    return kill(-1, signal);
}

/* The session of a process, from /proc/<pid>/stat; 0: gone. */
static pid_t
session_of(const char *pid)
{
    char path[64], text[512], *after;
    int fd, session = 0;
    ssize_t n;

    snprintf(path, sizeof path, "/proc/%s/stat", pid);
    fd = open(path, O_RDONLY | O_CLOEXEC);
    n = fd < 0 ? -1 : read(fd, text, sizeof text - 1);
    if (fd >= 0)
        close(fd);
    if (n <= 0)
        return 0;
    text[n] = '\0';
    after = strrchr(text, ')'); /* the name before it may hold anything */
    if (after == NULL || sscanf(after + 1, " %*c %*d %*d %d", &session) != 1)
        return 0;
    return session;
}

/* Every process of the session: its leader's group in one stroke, then whoever made groups of
 * their own. */
static unsigned
signal_session(pid_t leader, int number)
{
    unsigned hit = kill(-leader, number) == 0 ? 1 : 0;
    DIR *proc = opendir("/proc");
    struct dirent *entry;
    pid_t pid;

    while (proc != NULL && (entry = readdir(proc)) != NULL) {
        pid = (pid_t)atoi(entry->d_name);
        if (pid > 1 && session_of(entry->d_name) == leader && getpgid(pid) != leader &&
            kill(pid, number) == 0)
            hit++;
    }
    if (proc != NULL)
        closedir(proc);
    return hit;
}

void
cf_process_signal_request(struct cf_init *init, json_int_t id, json_t *request)
{
    json_int_t pid = json_integer_value(json_object_get(request, "pid"));
    json_int_t number = json_integer_value(json_object_get(request, "signal"));

    if (pid <= 1 || pid > INT32_MAX || number < 1 || number >= NSIG)
        cf_control_refuse(init, id, EINVAL, "signal wants a pid above 1 and a signal");
    else
        cf_control_answer(
            init, id, json_pack("{s:i}", "hit", (int)signal_session((pid_t)pid, (int)number)));
}
