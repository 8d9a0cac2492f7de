/*
 * The harness as a process: its environment, its standard input queue, what it printed on stderr
 * and how it ended. Both lanes stand on this.
 */
#include "run/hall.h"

#include "base/clock.h"
#include "base/str.h"
#include "base/utf8.h"

#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define INPUT_BYTES (96u << 20)

struct env_list {
    char *items[600];
    size_t count;
    bool failed;
};

static void __attribute__((format(printf, 2, 3)))
env_add(struct env_list *env, const char *fmt, ...)
{
    va_list args;
    char *item = NULL;

    va_start(args, fmt);
    if (env->count + 1 >= CF_COUNT(env->items) || vasprintf(&item, fmt, args) < 0)
        env->failed = true;
    else
        env->items[env->count++] = item;
    va_end(args);
}

static void
env_free(struct env_list *env)
{
    for (size_t i = 0; i < env->count; i++)
        free(env->items[i]);
}

static uint64_t
budget_ms(const struct cf_run *run)
{
    uint64_t left = cf_hall_left_ms(run);

    if (!run->release.is_acp && run->options.turn_ms < left)
        left = run->options.turn_ms;
    return left;
}

/* {relay}, {relay_v1} and {token} in a value of ours become what they name. */
static char *
expand_value(const struct cf_run *run, const char *value)
{
    static const char *const words[] = {"{relay}", "{relay_v1}", "{token}"};
    struct cf_buf out;

    cf_buf_init(&out, 131072);
    while (*value != '\0') {
        bool found = false;
        for (size_t i = 0; i < CF_COUNT(words) && !found; i++) {
            if (!cf_str_starts(value, words[i]))
                continue;
            if (i == 2)
                (void)cf_buf_adds(&out, cf_relay_token(run->relay));
            else
                (void)cf_buf_addf(&out, "http://127.0.0.1:%u%s", run->options.relay_port, i == 1 ? "/v1" : "");
            value += strlen(words[i]);
            found = true;
        }
        if (!found)
            (void)cf_buf_add(&out, value++, 1);
    }
    if (out.failed) {
        cf_buf_release(&out);
        return NULL;
    }
    return cf_buf_take(&out, NULL);
}

/* The way to the model: what the harness has, and a hook has not. */
static void
env_add_model(const struct cf_run *run, struct env_list *env)
{
    const char *token = cf_relay_token(run->relay);
    unsigned port = run->options.relay_port;

    env_add(env, "ANTHROPIC_BASE_URL=http://127.0.0.1:%u", port);
    env_add(env, "ANTHROPIC_API_KEY=%s", token);
    env_add(env, "OPENAI_BASE_URL=http://127.0.0.1:%u/v1", port);
    env_add(env, "OPENAI_API_BASE=http://127.0.0.1:%u/v1", port); /* the name before that one */
    env_add(env, "OPENAI_API_KEY=%s", token);
    env_add(env, "CHECKFU_MODEL=%s", run->options.model);
    env_add(env, "CHECKFU_MODEL_BASE_URL=http://127.0.0.1:%u", port);
    env_add(env, "CHECKFU_MODEL_TOKEN=%s", token);
    env_add(env, "FAL_KEY=%s", token);
    env_add(env, "CHECKFU_DEADLINE_MS=%llu", (unsigned long long)budget_ms(run));
}

/* The forward proxy, where names were opened: in both spellings, for both schemes. */
static void
env_add_proxy(const struct cf_run *run, struct env_list *env)
{
    static const char *const names[] = {"HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy"};
    unsigned port = cf_gateway_egress_port(&run->options);

    for (size_t i = 0; port != 0 && i < CF_COUNT(names); i++)
        env_add(env, "%s=http://127.0.0.1:%u", names[i], port);
    if (port != 0)
        env_add(env, "NODE_USE_ENV_PROXY=1"); /* without it node's own fetch reads none of these */
}

static void
env_make(const struct cf_run *run, bool is_hook, struct env_list *env)
{
    const char *name;
    json_t *value;

    if (!is_hook)
        env_add_model(run, env);
    env_add_proxy(run, env);
    json_object_foreach(run->options.env, name, value)
    {
        cf_auto_free char *text = expand_value(run, json_string_value(value));
        if (text == NULL)
            env->failed = true;
        else
            env_add(env, "%s=%s", name, text);
    }
}

char **
cf_harness_env_for_hook(const struct cf_run *run)
{
    struct env_list env = {.count = 0};
    char **items;

    env_make(run, true, &env);
    items = env.failed ? NULL : calloc(env.count + 1, sizeof *items);
    if (items == NULL)
        env_free(&env);
    else
        memcpy(items, env.items, env.count * sizeof *items);
    return items;
}

int
cf_harness_spawn(struct cf_run *run, char **argv, bool with_stdin, const struct cf_process_events *events,
                 struct cf_error *err)
{
    struct cf_harness *h = &run->harness;
    struct env_list env = {.count = 0};
    size_t argc = 0;
    const char **full;
    int status = -1;

    while (argv[argc] != NULL)
        argc++;
    full = calloc(argc + 2, sizeof *full);
    env_make(run, false, &env);
    if (full == NULL || env.failed) {
        (void)cf_error_set(err, CF_ERROR_CONFIG, 0, "the environment does not fit (at most 590 variables)");
    } else {
        struct cf_spawn spawn = {.argv = full,
                                 .env = (const char *const *)env.items,
                                 .cwd = cf_sandbox_working_directory(run->sandbox),
                                 .with_stdin = with_stdin,
                                 .nofile = run->options.nofile};
        full[0] = run->release.entrypoint;
        memcpy(full + 1, argv, argc * sizeof *full);
        cf_harness_reset(run);
        cf_tail_release(&h->stderr_tail);
        if (cf_tail_init(&h->stderr_tail, CF_HALL_STDERR_BYTES) < 0)
            (void)cf_error_memory(err);
        else
            status = cf_process_spawn(cf_sandbox_link(run->sandbox), &spawn, events, run, &h->process, err);
        h->started_ms = cf_clock_ms();
    }
    env_free(&env);
    free(full);
    return status;
}

int
cf_harness_say(struct cf_run *run, const char *bytes, size_t len)
{
    struct cf_harness *h = &run->harness;

    if (h->process == NULL || h->input_ends)
        return 0; /* nobody listens any more; the wire's own end tells the story */
    if (cf_buf_add(&h->input, bytes, len) < 0)
        return -1;
    cf_harness_pump(run);
    return 0;
}

void
cf_harness_pump(struct cf_run *run)
{
    struct cf_harness *h = &run->harness;

    if (h->process == NULL)
        return;
    while (h->input_at < h->input.len) {
        size_t may = cf_perturb_stdin(run, h->input.len - h->input_at);
        size_t n = may > 0 ? cf_process_write(h->process, h->input.data + h->input_at, may) : 0;
        if (n == 0)
            break;
        h->input_at += n;
    }
    if (h->input_at == h->input.len) {
        cf_buf_reset(&h->input);
        h->input_at = 0;
        if (h->input_ends)
            cf_process_close_stdin(h->process);
    } else if (h->input_at > (1u << 20)) {
        cf_buf_drop(&h->input, h->input_at);
        h->input_at = 0;
    }
}

void
cf_harness_end_input(struct cf_run *run)
{
    run->harness.input_ends = true;
    cf_harness_pump(run);
}

int
cf_harness_count_output(struct cf_run *run, size_t len)
{
    struct cf_error why;

    run->harness.stdout_bytes += len;
    if (run->harness.stdout_bytes <= run->options.output_bytes)
        return 0;
    (void)cf_error_set(&why, CF_ERROR_BUDGET, 0, "the harness printed more than %llu bytes on stdout",
                       (unsigned long long)run->options.output_bytes);
    (void)cf_error_fix(&why, "print less, or raise the limit with --output-limit");
    cf_hall_fail(run, &why);
    return -1;
}

void
cf_harness_stderr(struct cf_run *run, const char *bytes, size_t len)
{
    run->harness.stderr_bytes += len;
    cf_tail_add(&run->harness.stderr_tail, bytes, len);
    if (run->host.on_stderr != NULL)
        run->host.on_stderr(run->host.user, bytes, len);
}

static void
keep_exit_facts(struct cf_run *run)
{
    const struct cf_exit *e = &run->harness.exit;

    json_decref(run->exit_facts);
    run->exit_facts =
        json_pack("{s:b, s:I, s:I, s:I, s:s, s:I, s:I, s:I}", "lost", e->lost, "code", (json_int_t)e->code, "signal",
                  (json_int_t)e->signal, "oom_kills", (json_int_t)e->oom_kills, "oom",
                  e->oom_kills > 0 ? "yes" : e->signal == SIGKILL && !e->oom_known ? "suspected" : "no", "user_us",
                  (json_int_t)e->user_us, "system_us", (json_int_t)e->system_us, "max_rss_bytes",
                  (json_int_t)e->max_rss_bytes);
}

/* A refused process is the program's to bear: many go on with fewer. It is told once, and again in
 * the words of what fails. */
void
cf_harness_refused(struct cf_run *run, uint64_t refused, uint64_t limit)
{
    char text[160];

    if (run->pids_refused == 0 && refused > 0) {
        (void)snprintf(text, sizeof text,
                       "the limit of %llu processes and threads was reached, and no more were started (--pids raises it)",
                       (unsigned long long)limit);
        cf_emit_finding(run, "pids_limit", 0, text);
    }
    run->pids_refused = refused;
    run->pids_limit = limit;
}

void
cf_harness_exited(struct cf_run *run, const struct cf_exit *exit)
{
    if (exit->pids_refused > 0)
        cf_harness_refused(run, run->pids_refused + exit->pids_refused, run->options.pids > 0 ? run->options.pids : 512);
    run->harness.has_exited = true;
    run->harness.exit = *exit;
    keep_exit_facts(run);
    cf_record_json(run, CF_RECORD_EXIT, run->exit_facts);
}

void
cf_harness_reset(struct cf_run *run)
{
    struct cf_harness *h = &run->harness;

    cf_process_free(h->process);
    h->process = NULL;
    cf_perturb_reset(run);
    cf_buf_release(&h->input);
    cf_buf_init(&h->input, INPUT_BYTES);
    h->input_at = 0;
    h->input_ends = h->has_started = h->has_exited = h->stdout_ended = h->stderr_ended = false;
}

void
cf_harness_start_error(const struct cf_run *run, const struct cf_start_failure *why, struct cf_error *err)
{
    (void)cf_error_set(err, CF_ERROR_START, why->error, "%s could not be started: %s: %s%s%s", run->release.entrypoint,
                       why->phase, strerror(why->error), why->detail[0] != '\0' ? "; " : "", why->detail);
    (void)cf_error_fix(err, "run the program by hand inside the image; a missing interpreter or library shows as ENOENT");
}

void
cf_harness_exit_error(const struct cf_run *run, const char *when, struct cf_error *err)
{
    const struct cf_exit *e = &run->harness.exit;
    cf_auto_free char *last = cf_tail_text(&run->harness.stderr_tail, 1, 300);
    bool failed = e->signal != 0 || e->code != 0, was_refused = failed && e->oom_kills == 0 && e->pids_refused > 0;
    char how[260];

    if (e->lost)
        (void)snprintf(how, sizeof how, "was lost with its sandbox");
    else if (e->signal != 0)
        (void)snprintf(how, sizeof how, "was ended by signal %d (%s)", e->signal, strsignal(e->signal));
    else
        (void)snprintf(how, sizeof how, "exited with code %d", e->code);
    if (e->oom_kills > 0 && failed)
        (void)snprintf(how + strlen(how), sizeof how - strlen(how), "%s, out of memory (limit %llu MiB)",
                       e->signal == SIGKILL ? "" : ", after a process that it started was ended",
                       (unsigned long long)((run->options.memory_bytes ? run->options.memory_bytes : 2ull << 30) >> 20));
    else if (e->signal == SIGKILL && e->oom_known && !e->lost)
        (void)snprintf(how + strlen(how), sizeof how - strlen(how), ", and not for want of memory");
    if (was_refused)
        (void)snprintf(how + strlen(how), sizeof how - strlen(how), ", after its limit of %llu processes was reached",
                       (unsigned long long)run->pids_limit);
    (void)cf_error_set(err, was_refused ? CF_ERROR_BUDGET : CF_ERROR_HARNESS, e->signal != 0 ? e->signal : e->code, "the harness %s %s%s%s", how, when,
                       last != NULL && *last ? "; its last words: " : "", last != NULL ? last : "");
    if (e->oom_kills > 0 && failed)
        (void)cf_error_fix(err, "give it more with --memory, or make it use less");
    else if (was_refused)
        (void)cf_error_fix(err, "start fewer processes and threads, or raise the limit with --pids");
    else
        (void)cf_error_fix(err, "its last lines of stderr are in the report; run it by hand in the image");
}
