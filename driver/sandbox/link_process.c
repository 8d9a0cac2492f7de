/*
 * Processes in the sandbox: a request to spawn, three channels, and the event that tells how
 * it ended.
 */
#include "sandbox/link.h"
#include "sandbox/link_internal.h"

#include "base/str.h"
#include "base/utf8.h"
#include "json/json.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define STRING_MAX 131071u /* the kernel's, for one argument or variable without its NUL */
#define NOFILE_DEFAULT 4096

struct output {
    struct cf_link_channel channel;
    size_t withheld; /* taken by a consumer that asked to pause */
    bool is_paused;
    bool is_over_early; /* its end came before the word that the process has started */
};

struct cf_process {
    struct cf_link_junk junk;
    struct cf_link *link;
    LIST_ENTRY(cf_process) in_list;
    const struct cf_process_events *events;
    void *user;
    int pid;
    bool is_answered, is_sent, has_ended, is_free; /* is_free: forgotten by its owner */
    bool wants_stdin_room, wants_stdin_closed;
    bool is_stdin_over_early;
    struct cf_link_channel in;
    struct output out, err;
};

static bool
may_tell(const struct cf_process *process)
{
    return !process->is_free && !process->link->is_freed;
}

/* ---- output ------------------------------------------------------------------------- */

static void
take_output(struct cf_process *process, struct output *output,
            int (*fn)(void *, struct cf_process *, const char *, size_t), const char *bytes,
            size_t len)
{
    int answer = fn != NULL && may_tell(process) ? fn(process->user, process, bytes, len) : 0;

    if (answer == CF_PAUSE)
        output->is_paused = true;
    if (output->is_paused)
        output->withheld += len;
    else
        cf_mux_consumed(&process->link->mux, &output->channel.mux, len);
}

static void
on_stdout_data(struct cf_link_channel *channel, const char *bytes, size_t len)
{
    struct cf_process *process = channel->object;

    take_output(process, &process->out, process->events->on_stdout, bytes, len);
}

static void
on_stderr_data(struct cf_link_channel *channel, const char *bytes, size_t len)
{
    struct cf_process *process = channel->object;

    take_output(process, &process->err, process->events->on_stderr, bytes, len);
}

static void
end_output(struct cf_process *process, struct output *output,
           void (*fn)(void *, struct cf_process *))
{
    cf_mux_close(&process->link->mux, &output->channel.mux);
    output->is_over_early = process->pid == 0; /* told after its start, or never */
    if (fn != NULL && may_tell(process) && process->pid != 0)
        fn(process->user, process);
}

static void
on_stdout_over(struct cf_link_channel *channel)
{
    struct cf_process *process = channel->object;

    end_output(process, &process->out, process->events->on_stdout_end);
}

static void
on_stderr_over(struct cf_link_channel *channel)
{
    struct cf_process *process = channel->object;

    end_output(process, &process->err, process->events->on_stderr_end);
}

static void
resume(struct cf_process *process, struct output *output)
{
    size_t withheld = output->withheld;

    output->is_paused = false;
    output->withheld = 0;
    if (withheld > 0)
        cf_mux_consumed(&process->link->mux, &output->channel.mux, withheld);
}

void
cf_process_resume(struct cf_process *process)
{
    cf_link_enter(process->link);
    resume(process, &process->out);
    resume(process, &process->err);
    cf_link_leave(process->link);
}

/* ---- input -------------------------------------------------------------------------- */

static void
on_stdin_data(struct cf_link_channel *channel, const char *bytes, size_t len)
{
    /* the channel is one way: the mux lets nothing come here */
}

static void
on_stdin_over(struct cf_link_channel *channel)
{
    struct cf_process *process = channel->object;

    process->is_stdin_over_early = process->pid == 0;
    if (may_tell(process) && process->pid != 0 && process->events->on_stdin_closed != NULL)
        process->events->on_stdin_closed(process->user, process);
}

static void
on_stdin_writable(struct cf_link_channel *channel)
{
    struct cf_process *process = channel->object;

    if (!process->wants_stdin_room || !may_tell(process))
        return;
    process->wants_stdin_room = false;
    if (process->events->on_stdin_room != NULL)
        process->events->on_stdin_room(process->user, process);
}

static void
on_output_writable(struct cf_link_channel *channel)
{
    /* nothing is ever sent on it */
}

static const struct cf_link_channel_ops stdin_ops = {on_stdin_data, on_stdin_over,
                                                     on_stdin_over, on_stdin_writable};
static const struct cf_link_channel_ops stdout_ops = {on_stdout_data, on_stdout_over,
                                                      on_stdout_over, on_output_writable};
static const struct cf_link_channel_ops stderr_ops = {on_stderr_data, on_stderr_over,
                                                      on_stderr_over, on_output_writable};

size_t
cf_process_write(struct cf_process *process, const char *bytes, size_t len)
{
    size_t done = 0;

    cf_link_enter(process->link);
    /* before the request is on its way its channel means nothing to cf-init */
    if (process->is_sent && process->in.mux.is_attached)
        done = cf_mux_write(&process->link->mux, &process->in.mux, bytes, len);
    if (done < len)
        process->wants_stdin_room = true;
    cf_link_leave(process->link);
    return done;
}

void
cf_process_close_stdin(struct cf_process *process)
{
    cf_link_enter(process->link);
    process->wants_stdin_closed = true;
    if (process->is_sent && process->in.mux.is_attached)
        cf_mux_half_close(&process->link->mux, &process->in.mux);
    cf_link_leave(process->link);
}

/* ---- start -------------------------------------------------------------------------- */

static void
close_channels(struct cf_process *process)
{
    cf_mux_close(&process->link->mux, &process->in.mux);
    cf_mux_close(&process->link->mux, &process->out.channel.mux);
    cf_mux_close(&process->link->mux, &process->err.channel.mux);
}

/* Its owner has forgotten it and cf-init has nothing more to say about it. */
static void
discard_when_over(struct cf_process *process)
{
    if (process->junk.is_junk || !process->is_free || !process->is_answered ||
        (process->pid != 0 && !process->has_ended))
        return;
    LIST_REMOVE(process, in_list);
    cf_link_discard(process->link, &process->junk);
}

static void
on_sent(void *object)
{
    struct cf_process *process = object;

    process->is_sent = true;
    if (process->in.object != NULL) /* without stdin there is no such channel */
        on_stdin_writable(&process->in);
    if (process->wants_stdin_closed && process->in.mux.is_attached)
        cf_mux_half_close(&process->link->mux, &process->in.mux);
}

static void
fill_failure(json_t *answer, struct cf_start_failure *why)
{
    json_t *error = cf_json_obj(answer, "error");
    const char *phase = cf_json_str(error, "phase"), *detail = cf_json_str(error, "detail");
    int64_t number = cf_json_int(error, "errno", 0);

    memset(why, 0, sizeof *why);
    if (detail == NULL)
        detail = cf_json_str(error, "text");
    snprintf(why->phase, sizeof why->phase, "%s", phase != NULL ? phase : "request");
    snprintf(why->detail, sizeof why->detail, "%s", detail != NULL ? detail : "");
    cf_utf8_make_line(why->phase);
    cf_utf8_make_line(why->detail);
    why->error = number > 0 && number < 4096 ? (int)number : EPROTO;
}

static void
start_failed(struct cf_process *process, json_t *answer)
{
    struct cf_start_failure why;

    fill_failure(answer, &why);
    process->has_ended = true;
    close_channels(process);
    if (may_tell(process) && process->events->on_start_failed != NULL)
        process->events->on_start_failed(process->user, process, &why);
}

static void
started(struct cf_process *process, int pid)
{
    process->pid = pid;
    if (may_tell(process) && process->events->on_started != NULL)
        process->events->on_started(process->user, process, pid);
    if (process->is_stdin_over_early)
        on_stdin_over(&process->in);
    if (process->out.is_over_early)
        on_stdout_over(&process->out.channel);
    if (process->err.is_over_early)
        on_stderr_over(&process->err.channel);
}

static void
on_answer(struct cf_link *link, void *object, json_t *answer, const struct cf_error *err)
{
    struct cf_process *process = object;
    int64_t pid = cf_json_int(answer, "pid", 0);

    process->is_answered = true;
    if (answer == NULL) {
        /* the link ends: cf_process_lose_all tells */
    } else if (pid > 1 && pid <= INT32_MAX) {
        started(process, (int)pid);
    } else {
        start_failed(process, answer);
    }
    discard_when_over(process);
}

static int
check_strings(const char *what, const char *const *list, json_t *to, struct cf_error *err)
{
    size_t len;

    for (size_t i = 0; list != NULL && list[i] != NULL; i++) {
        len = strlen(list[i]);
        if (len > STRING_MAX)
            return cf_error_set(err, CF_ERROR_TOO_LARGE, E2BIG,
                                "%s %zu has %zu bytes; the kernel takes %u at most", what, i,
                                len, STRING_MAX);
        if (!cf_utf8_is_valid(list[i], len))
            return cf_error_set(err, CF_ERROR_CONFIG, EILSEQ, "%s %zu is not UTF-8", what, i);
        if (json_array_append_new(to, json_stringn_nocheck(list[i], len)) < 0)
            return cf_error_memory(err);
    }
    return 0;
}

static int
check_spawn(const struct cf_spawn *spawn, struct cf_error *err)
{
    if (spawn->argv == NULL || spawn->argv[0] == NULL || spawn->argv[0][0] != '/')
        return cf_error_set(err, CF_ERROR_CONFIG, EINVAL,
                            "the program to run must be an absolute path");
    if (spawn->cwd != NULL && spawn->cwd[0] != '/')
        return cf_error_set(err, CF_ERROR_CONFIG, EINVAL,
                            "the working directory must be an absolute path");
    for (size_t i = 0; spawn->env != NULL && spawn->env[i] != NULL; i++)
        if (strchr(spawn->env[i], '=') == NULL || spawn->env[i][0] == '=')
            return cf_error_set(err, CF_ERROR_CONFIG, EINVAL,
                                "environment entry %zu is not NAME=VALUE", i);
    return 0;
}

/* NULL with `err` filled. */
static json_t *
spawn_message(const struct cf_process *process, const struct cf_spawn *spawn,
              struct cf_error *err)
{
    json_t *argv = json_array(), *env = json_array(), *message;
    const char *const cwd[] = {spawn->cwd != NULL ? spawn->cwd : "/", NULL};
    json_t *folder = json_array();
    int status = -1;

    message = json_pack("{s:s, s:o, s:o, s:I, s:I, s:I}", "op", "spawn", "argv", argv, "env",
                        env, "out", (json_int_t)process->out.channel.mux.id, "err",
                        (json_int_t)process->err.channel.mux.id, "nofile",
                        (json_int_t)(spawn->nofile != 0 ? spawn->nofile : NOFILE_DEFAULT));
    if (message == NULL || folder == NULL)
        cf_error_memory(err);
    else if (check_strings("argument", spawn->argv, argv, err) == 0 &&
             check_strings("environment entry", spawn->env, env, err) == 0 &&
             check_strings("working directory", cwd, folder, err) == 0)
        status = json_object_set(message, "cwd", json_array_get(folder, 0));
    if (status == 0 && process->in.mux.is_attached)
        status = json_object_set_new(message, "in", json_integer(process->in.mux.id));
    json_decref(folder);
    if (status == 0)
        return message;
    json_decref(message);
    return NULL;
}

static int
open_channel(struct cf_process *process, struct cf_link_channel *channel,
             const struct cf_link_channel_ops *ops, bool is_sender, struct cf_error *err)
{
    channel->ops = ops;
    channel->object = process;
    if (cf_mux_open(&process->link->mux, &channel->mux, CF_MUX_WINDOW_PROCESS, 0, err) < 0)
        return -1;
    cf_mux_one_way(&channel->mux, is_sender);
    return 0;
}

static int
ask_to_spawn(struct cf_process *process, const struct cf_spawn *spawn, struct cf_error *err)
{
    const struct cf_link_request how = {
        .on_sent = on_sent, .on_answer = on_answer, .object = process};
    json_t *message;

    if (check_spawn(spawn, err) < 0 ||
        (spawn->with_stdin &&
         open_channel(process, &process->in, &stdin_ops, true, err) < 0) ||
        open_channel(process, &process->out.channel, &stdout_ops, false, err) < 0 ||
        open_channel(process, &process->err.channel, &stderr_ops, false, err) < 0)
        return -1;
    message = spawn_message(process, spawn, err);
    return message == NULL ? -1 : cf_link_request(process->link, message, &how, false, err);
}

int
cf_process_spawn(struct cf_link *link, const struct cf_spawn *spawn,
                 const struct cf_process_events *events, void *user,
                 struct cf_process **ret_process, struct cf_error *err)
{
    struct cf_process *process = calloc(1, sizeof *process);
    int status;

    if (process == NULL)
        return cf_error_memory(err);
    process->link = link;
    process->events = events;
    process->user = user;
    cf_link_enter(link);
    status = ask_to_spawn(process, spawn, err);
    if (status == 0) {
        LIST_INSERT_HEAD(&link->processes, process, in_list);
        *ret_process = process;
    } else {
        close_channels(process);
        cf_link_discard(link, &process->junk);
    }
    cf_link_leave(link);
    return status;
}

/* ---- signals and the end ------------------------------------------------------------ */

int
cf_process_pid(const struct cf_process *process)
{
    return process->pid;
}

static void
on_signal_answer(struct cf_link *link, void *object, json_t *answer,
                 const struct cf_error *err)
{
    /* nobody left to signal is what was wanted */
}

void
cf_process_signal(struct cf_process *process, int signal)
{
    static const struct cf_link_request how = {.on_answer = on_signal_answer};
    struct cf_error err;

    if (process->pid == 0)
        return;
    (void)cf_link_request(
        process->link,
        json_pack("{s:s, s:i, s:i}", "op", "signal", "pid", process->pid, "signal", signal),
        &how, true, &err); /* a link that is over has ended the process too */
}

static uint64_t
count_of(json_t *event, const char *name)
{
    int64_t value = cf_json_int(event, name, 0);

    return value > 0 ? (uint64_t)value : 0;
}

void
cf_process_take_exit(struct cf_link *link, json_t *event)
{
    int64_t pid = cf_json_int(event, "pid", 0);
    struct cf_process *process;
    struct cf_exit facts = {
        .code = (int)cf_json_int(event, "code", -1),
        .signal = (int)cf_json_int(event, "signal", 0),
        .core = cf_json_bool(event, "core", false),
        .oom_known = cf_json_bool(event, "oom_known", false),
        .oom_kills = count_of(event, "oom_kills"),
        .pids_refused = count_of(event, "pids_refused"),
        .user_us = count_of(event, "user_us"),
        .system_us = count_of(event, "system_us"),
        .max_rss_bytes = count_of(event, "max_rss_bytes"),
    };

    if (count_of(event, "oom_total") > link->oom_told)
        link->oom_told = count_of(event, "oom_total");
    LIST_FOREACH(process, &link->processes, in_list)
    if (process->pid == pid && pid != 0 && !process->has_ended)
        break;
    if (process == NULL)
        return; /* freed by its owner and forgotten */
    process->has_ended = true;
    if (may_tell(process) && process->events->on_exit != NULL)
        process->events->on_exit(process->user, process, &facts);
    discard_when_over(process);
}

void
cf_process_lose_all(struct cf_link *link)
{
    const struct cf_exit lost = {.lost = true, .code = -1};
    struct cf_process *process;

    for (;;) {
        LIST_FOREACH(process, &link->processes, in_list)
        if (!process->has_ended && !process->is_free)
            break;
        if (process == NULL || link->is_freed)
            return;
        process->has_ended = true;
        if (process->events->on_exit != NULL)
            process->events->on_exit(process->user, process, &lost);
    }
}

void
cf_process_drop_all(struct cf_link *link)
{
    struct cf_process *process;

    while ((process = LIST_FIRST(&link->processes)) != NULL) {
        LIST_REMOVE(process, in_list);
        close_channels(process);
        cf_link_discard(link, &process->junk);
    }
}

void
cf_process_free(struct cf_process *process)
{
    struct cf_link *link;

    if (process == NULL || process->is_free)
        return;
    link = process->link;
    cf_link_enter(link);
    process->is_free = true;
    close_channels(process);
    if (link->is_over || link->is_broken)
        process->is_answered = process->has_ended = true; /* nothing will be said about it */
    discard_when_over(process);
    cf_link_leave(link);
}
