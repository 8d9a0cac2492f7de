/*
 * Terminals (terminal/...): each one is a process of cf-init, run as the harness's own user with the
 * author's environment and without the way to the model. Its output, both streams as they come,
 * is kept from its end up to a limit and cut at a character.
 */
#include "run/lane_acp.h"

#include "base/str.h"
#include "base/utf8.h"
#include "json/json.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TERMINALS_MOST 32u
#define OUTPUT_DEFAULT (1u << 20)
#define OUTPUT_MOST (2u << 20)
#define WORDS_MOST 4096u
#define WAITS_MOST 32u /* terminal/wait_for_exit of one terminal */
#define LINGER_MS 250u /* after the exit: output that a child still holds open */

#define RPC_INVALID_PARAMS (-32602)
#define RPC_NOT_FOUND (-32002)
#define RPC_INTERNAL (-32603)

static const char default_path[] = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

struct cf_terminal {
    TAILQ_ENTRY(cf_terminal) in_list;
    struct cf_run *run;
    char id[24];
    const void *creator;        /* terminal/create, not answered yet */
    json_t *params;             /* of it */
    struct cf_process *process;
    char **argv, **env;
    char *program;              /* the candidate that is being tried */
    const char *path_at;        /* where the next candidate begins; NULL: none is left */
    bool is_shell;              /* the whole line went to /bin/sh */
    bool has_exited, is_over;   /* is over: its output, too */
    bool is_unwanted;           /* its creation was withdrawn */
    bool stdout_ended, stderr_ended;
    struct cf_exit exit;
    struct cf_buf output;
    size_t limit;
    uint64_t total;
    const void *waits[WAITS_MOST];
    unsigned wait_count;
};

static void try_next(struct cf_terminal *t);

/* ---- the end ------------------------------------------------------------------------------------- */

static void
drop(struct cf_acp_side *side, struct cf_terminal *t)
{
    TAILQ_REMOVE(&side->terminals, t, in_list);
    side->terminal_count--;
    cf_process_free(t->process);
    cf_argv_free(t->argv);
    cf_argv_free(t->env);
    cf_buf_release(&t->output);
    free(t->program);
    json_decref(t->params);
    free(t);
}

static void __attribute__((format(printf, 4, 5)))
refuse(struct cf_run *run, const void *handle, int code, const char *fmt, ...)
{
    char text[600];
    va_list args;

    va_start(args, fmt);
    (void)vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    text[cf_utf8_cut(text, strlen(text), sizeof text - 4)] = '\0';
    if (handle != NULL)
        (void)cf_acp_refuse(run->acp, handle, code, text);
}

/* {"exitCode":N,"signal":null} or {"exitCode":null,"signal":"SIGKILL"}; new reference. */
static json_t *
exit_status(const struct cf_terminal *t)
{
    const char *name = t->exit.signal != 0 ? sigabbrev_np(t->exit.signal) : NULL;
    char signal_name[32];

    (void)snprintf(signal_name, sizeof signal_name, "SIG%s", name != NULL ? name : "?");
    if (t->exit.lost || t->exit.signal != 0)
        return json_pack("{s:n, s:s}", "exitCode", "signal", t->exit.lost ? "SIGKILL" : signal_name);
    return json_pack("{s:i, s:n}", "exitCode", t->exit.code, "signal");
}

static void
set_over(struct cf_terminal *t)
{
    json_t *status;

    if (t->is_over)
        return;
    t->is_over = true;
    status = exit_status(t);
    for (unsigned i = 0; i < t->wait_count; i++)
        (void)cf_acp_answer(t->run->acp, t->waits[i], status);
    t->wait_count = 0;
    json_decref(status);
}

static void
on_linger(uv_timer_t *timer)
{
    struct cf_run *run = timer->data;
    struct cf_terminal *t;

    if (run->side == NULL)
        return;
    TAILQ_FOREACH(t, &run->side->terminals, in_list)
        if (t->has_exited)
            set_over(t);
}

static void
maybe_over(struct cf_terminal *t)
{
    if (!t->has_exited)
        return;
    if ((t->stdout_ended && t->stderr_ended) || t->exit.lost)
        set_over(t);
    else
        uv_timer_start(&t->run->linger, on_linger, LINGER_MS, 0);
}

/* ---- the process -------------------------------------------------------------------------------------- */

static void
kill_it(struct cf_terminal *t)
{
    if (t->process != NULL && !t->has_exited)
        cf_process_signal(t->process, SIGKILL);
}

static void
on_started(void *user, struct cf_process *process, int pid)
{
    struct cf_terminal *t = user;
    json_t *result = json_pack("{s:s}", "terminalId", t->id);

    if (t->creator != NULL)
        (void)cf_acp_answer(t->run->acp, t->creator, result);
    t->creator = NULL;
    json_decref(result);
    if (t->is_unwanted) {
        kill_it(t);
        drop(t->run->side, t);
    }
}

static void
on_start_failed(void *user, struct cf_process *process, const struct cf_start_failure *why)
{
    struct cf_terminal *t = user;
    bool is_exec = strcmp(why->phase, "exec") == 0;

    cf_process_free(t->process);
    t->process = NULL;
    if (is_exec && (why->error == ENOENT || why->error == EACCES || why->error == ENOTDIR) && t->path_at != NULL) {
        try_next(t);
        return;
    }
    refuse(t->run, t->creator, RPC_INVALID_PARAMS, "%.200s: %s: %s%s%s", cf_json_str(t->params, "command"), why->phase,
           strerror(why->error), why->detail[0] != '\0' ? "; " : "", why->detail);
    drop(t->run->side, t);
}

static int
on_output(void *user, struct cf_process *process, const char *bytes, size_t len)
{
    struct cf_terminal *t = user;

    t->total += len;
    if (len > t->limit) {
        bytes += len - t->limit;
        len = t->limit;
    }
    (void)cf_buf_add(&t->output, bytes, len); /* it has room for twice the limit and a frame */
    if (t->output.len > 2 * t->limit)
        cf_buf_drop(&t->output, t->output.len - t->limit);
    return 0;
}

static void
on_stdout_end(void *user, struct cf_process *process)
{
    struct cf_terminal *t = user;

    t->stdout_ended = true;
    maybe_over(t);
}

static void
on_stderr_end(void *user, struct cf_process *process)
{
    struct cf_terminal *t = user;

    t->stderr_ended = true;
    maybe_over(t);
}

static void
on_exit_of(void *user, struct cf_process *process, const struct cf_exit *exit)
{
    struct cf_terminal *t = user;

    t->has_exited = true;
    t->exit = *exit;
    maybe_over(t);
}

static const struct cf_process_events events = {
    .on_started = on_started,
    .on_start_failed = on_start_failed,
    .on_stdout = on_output,
    .on_stderr = on_output,
    .on_stdout_end = on_stdout_end,
    .on_stderr_end = on_stderr_end,
    .on_exit = on_exit_of,
};

/* ---- which program ---------------------------------------------------------------------------------------- */

/* The PATH it will have: that of `env`, else of the author's variables, else the image's. */
static const char *
path_of(const struct cf_terminal *t)
{
    const char *found = cf_sandbox_search_path(t->run->sandbox);

    if (found == NULL)
        found = default_path;

    for (char **item = t->env; item != NULL && *item != NULL; item++)
        if (cf_str_starts(*item, "PATH="))
            found = *item + strlen("PATH=");
    return found;
}

/* The next folder of PATH with the command behind it; a line for the shell at last, where the
 * agent put one into `command`. False: nothing is left. */
static bool
next_candidate(struct cf_terminal *t)
{
    const char *command = cf_json_str(t->params, "command");
    size_t len;

    free(t->program);
    t->program = NULL;
    if (t->path_at == NULL)
        return false;
    if (strchr(command, '/') != NULL && !t->is_shell && *t->path_at != '\0') {
        t->path_at = ""; /* itself, and no other */
        t->program = strdup(command);
    } else if (*t->path_at != '\0') {
        len = strcspn(t->path_at, ":");
        if (asprintf(&t->program, "%.*s/%s", (int)len, t->path_at, command) < 0)
            t->program = NULL;
        t->path_at += len + (t->path_at[len] == ':');
    } else {
        t->path_at = NULL;
        t->is_shell = strpbrk(command, " \t|&;<>$`\"'") != NULL && json_array_size(json_object_get(t->params, "args")) == 0;
        t->program = t->is_shell ? strdup("/bin/sh") : NULL;
    }
    return t->program != NULL;
}

static int
spawn(struct cf_terminal *t, struct cf_error *err)
{
    const char *shell[] = {"/bin/sh", "-c", cf_json_str(t->params, "command"), NULL};
    struct cf_spawn how = {.argv = t->is_shell ? shell : (const char *const *)t->argv,
                           .env = (const char *const *)t->env,
                           .cwd = cf_json_str(t->params, "cwd"),
                           .nofile = t->run->options.nofile};

    if (how.cwd == NULL)
        how.cwd = cf_sandbox_working_directory(t->run->sandbox);
    if (!t->is_shell) {
        free(t->argv[0]);
        t->argv[0] = strdup(t->program);
        if (t->argv[0] == NULL)
            return cf_error_memory(err);
    }
    return cf_process_spawn(cf_sandbox_link(t->run->sandbox), &how, &events, t, &t->process, err);
}

static void
try_next(struct cf_terminal *t)
{
    struct cf_error why;

    if (!next_candidate(t))
        refuse(t->run, t->creator, RPC_INVALID_PARAMS, "%.200s: no such program in the sandbox",
               cf_json_str(t->params, "command"));
    else if (spawn(t, &why) == 0)
        return;
    else
        refuse(t->run, t->creator, RPC_INVALID_PARAMS, "%.400s", why.text);
    drop(t->run->side, t);
}

/* ---- terminal/create ------------------------------------------------------------------------------------------ */

static bool
is_text(const json_t *value)
{
    return json_is_string(value) && strlen(json_string_value(value)) == json_string_length(value);
}

static int
copy_words(struct cf_terminal *t)
{
    json_t *args = json_object_get(t->params, "args"), *word;
    size_t i;

    t->argv = calloc(json_array_size(args) + 2, sizeof *t->argv);
    if (t->argv == NULL || (t->argv[0] = strdup("")) == NULL)
        return -1;
    json_array_foreach(args, i, word)
        if ((t->argv[i + 1] = strdup(json_string_value(word))) == NULL)
            return -1;
    return 0;
}

static int
copy_env(struct cf_terminal *t)
{
    json_t *wanted = json_object_get(t->params, "env"), *item;
    char **env = cf_harness_env_for_hook(t->run), **grown;
    size_t count = 0, i;

    while (env != NULL && env[count] != NULL)
        count++;
    grown = env == NULL ? NULL : realloc(env, (count + json_array_size(wanted) + 1) * sizeof *env);
    if (grown == NULL) {
        cf_argv_free(env);
        return -1;
    }
    t->env = grown;
    json_array_foreach(wanted, i, item) {
        if (asprintf(&t->env[count], "%s=%s", cf_json_str(item, "name"), cf_json_str(item, "value")) < 0)
            t->env[count] = NULL;
        if (t->env[count] == NULL)
            return -1;
        t->env[++count] = NULL;
    }
    return 0;
}

/* What is wrong with the request; NULL: nothing. */
static const char *
fault_of(const json_t *params)
{
    json_t *args = json_object_get(params, "args"), *env = json_object_get(params, "env"),
           *cwd = json_object_get(params, "cwd"), *item;
    size_t i;

    if (!is_text(json_object_get(params, "command")) || *cf_json_str(params, "command") == '\0')
        return "command is not a text";
    if (args != NULL && !json_is_null(args) && (!json_is_array(args) || json_array_size(args) > WORDS_MOST))
        return "args is not an array of at most 4,096 texts";
    json_array_foreach(args, i, item)
        if (!is_text(item))
            return "args is not an array of at most 4,096 texts";
    if (env != NULL && !json_is_null(env) && (!json_is_array(env) || json_array_size(env) > WORDS_MOST))
        return "env is not an array of {name, value}";
    json_array_foreach(env, i, item)
        if (!is_text(json_object_get(item, "name")) || !is_text(json_object_get(item, "value")) ||
            *cf_json_str(item, "name") == '\0' || strchr(cf_json_str(item, "name"), '=') != NULL)
            return "env is not an array of {name, value}";
    if (cwd != NULL && !json_is_null(cwd) && (!is_text(cwd) || json_string_value(cwd)[0] != '/'))
        return "cwd is not an absolute path";
    return NULL;
}

static void
create(struct cf_run *run, const struct cf_acp_request *request)
{
    const char *fault = fault_of(request->params);
    json_int_t limit = json_integer_value(json_object_get(request->params, "outputByteLimit"));
    struct cf_terminal *t;

    if (fault != NULL || run->side->terminal_count >= TERMINALS_MOST) {
        refuse(run, request->handle, fault != NULL ? RPC_INVALID_PARAMS : RPC_INTERNAL, "%s",
               fault != NULL ? fault : "32 terminals are there already: release one");
        return;
    }
    t = calloc(1, sizeof *t);
    if (t == NULL) {
        refuse(run, request->handle, RPC_INTERNAL, "out of memory");
        return;
    }
    TAILQ_INSERT_TAIL(&run->side->terminals, t, in_list);
    run->side->terminal_count++;
    t->run = run;
    t->creator = request->handle;
    t->params = json_incref(request->params);
    t->limit = json_is_integer(json_object_get(request->params, "outputByteLimit")) && limit >= 0 &&
                       limit < (json_int_t)OUTPUT_MOST
                   ? (size_t)limit
                   : json_object_get(request->params, "outputByteLimit") != NULL ? OUTPUT_MOST : OUTPUT_DEFAULT;
    cf_buf_init(&t->output, 0);
    (void)snprintf(t->id, sizeof t->id, "term-%llu", (unsigned long long)++run->side->last_terminal);
    if (copy_words(t) < 0 || copy_env(t) < 0) {
        refuse(run, request->handle, RPC_INTERNAL, "out of memory");
        drop(run->side, t);
        return;
    }
    t->path_at = path_of(t);
    try_next(t);
}

/* ---- the others ---------------------------------------------------------------------------------------------------- */

static void
tell_output(struct cf_terminal *t, const void *handle)
{
    const char *from = t->output.data != NULL ? t->output.data : "";
    size_t len = t->output.len, cut = len > t->limit ? len - t->limit : 0, made, repairs;
    bool is_truncated = t->total > len - cut;
    cf_auto_free char *text = NULL;
    json_t *result;

    while (is_truncated && cut < len && ((unsigned char)from[cut] & 0xC0) == 0x80)
        cut++; /* not in the middle of a character */
    from += cut;
    len -= cut;
    text = malloc(3 * len + 1);
    made = text != NULL ? cf_utf8_repair(from, len, text, &repairs) : 0;
    result = json_pack("{s:o, s:b}", "output", json_stringn(text != NULL ? text : "", made), "truncated", is_truncated);
    if (result != NULL && t->has_exited)
        (void)json_object_set_new(result, "exitStatus", exit_status(t));
    if (result == NULL)
        refuse(t->run, handle, RPC_INTERNAL, "out of memory");
    else
        (void)cf_acp_answer(t->run->acp, handle, result);
    json_decref(result);
}

static void
wait_for(struct cf_terminal *t, const void *handle)
{
    json_t *status;

    if (t->is_over) {
        status = exit_status(t);
        (void)cf_acp_answer(t->run->acp, handle, status);
        json_decref(status);
    } else if (t->wait_count == WAITS_MOST) {
        refuse(t->run, handle, RPC_INTERNAL, "too many wait for this terminal already");
    } else {
        t->waits[t->wait_count++] = handle;
    }
}

static void
release(struct cf_terminal *t, const void *handle)
{
    struct cf_run *run = t->run;

    kill_it(t);
    for (unsigned i = 0; i < t->wait_count; i++)
        refuse(run, t->waits[i], RPC_NOT_FOUND, "the terminal was released");
    drop(run->side, t);
    (void)cf_acp_answer(run->acp, handle, NULL);
}

static struct cf_terminal *
find(struct cf_run *run, const char *id)
{
    struct cf_terminal *t;

    TAILQ_FOREACH(t, &run->side->terminals, in_list)
        if (cf_str_same(t->id, id) && t->creator == NULL && !t->is_unwanted)
            return t;
    return NULL;
}

bool
cf_acp_on_terminal(struct cf_run *run, const struct cf_acp_request *request)
{
    const char *verb = request->method + strlen("terminal/");
    struct cf_terminal *t;

    if (!cf_str_starts(request->method, "terminal/"))
        return false;
    if (strcmp(verb, "create") == 0) {
        create(run, request);
        return true;
    }
    t = find(run, cf_json_str(request->params, "terminalId"));
    if (t == NULL) {
        refuse(run, request->handle, RPC_NOT_FOUND, "no such terminal");
    } else if (strcmp(verb, "output") == 0) {
        tell_output(t, request->handle);
    } else if (strcmp(verb, "wait_for_exit") == 0) {
        wait_for(t, request->handle);
    } else if (strcmp(verb, "release") == 0) {
        release(t, request->handle);
    } else {
        kill_it(t);
        (void)cf_acp_answer(run->acp, request->handle, NULL);
    }
    return true;
}

bool
cf_acp_terminal_gone(struct cf_run *run, const void *handle)
{
    struct cf_terminal *t;

    TAILQ_FOREACH(t, &run->side->terminals, in_list) {
        if (t->creator == handle) {
            t->creator = NULL; /* it may still start: then it is ended at once */
            t->is_unwanted = true;
            return true;
        }
        for (unsigned i = 0; i < t->wait_count; i++)
            if (t->waits[i] == handle) {
                t->waits[i] = t->waits[--t->wait_count];
                return true;
            }
    }
    return false;
}

void
cf_acp_terminals_free(struct cf_acp_side *side)
{
    while (!TAILQ_EMPTY(&side->terminals))
        drop(side, TAILQ_FIRST(&side->terminals));
}
