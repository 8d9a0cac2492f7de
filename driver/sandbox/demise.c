/*
 * It ended under us, and nobody here asked for that. The stream's end alone does not say who
 * did it: the container may have been removed, killed or paused by somebody else, its pid 1
 * ended from inside or out of memory, the engine restarted or gone. So the engine is asked,
 * within a short bound, and the answer becomes the one error that the run fails with.
 */
#include "sandbox/hostview.h"
#include "sandbox/inside.h"

#include "base/buf.h"
#include "base/str.h"
#include "json/json.h"

#include <stdio.h>
#include <string.h>

enum { ASK_MS = 3000, SETTLE_MS = 150 };
#define DEAD_MAN_EXIT 70
#define OWN_FAULT_EXIT 71
#define PROTOCOL_EXIT 72
#define KILLED_EXIT 137

/* ---- failing ------------------------------------------------------------------------- */

void
cf_sandbox_fail(struct cf_sandbox *sb, const struct cf_error *err)
{
    struct cf_error why = *err;

    if (sb->is_failed || sb->is_closing || sb->steps.dir == CF_STEPS_UP)
        return;
    sb->is_failed = sb->link_over = true;
    uv_timer_stop(&sb->ping_timer);
    if (!sb->is_ready) {
        cf_steps_cancel(&sb->steps,
                        &why); /* the row under way settles, and the way up begins */
        cf_link_end(sb->link, &why);
        return;
    }
    sb->is_told = true;
    sb->events.on_failed(sb->user,
                         &why); /* may close us: that ends in a later turn of the loop */
    cf_link_end(sb->link, &why);
}

/* ---- finding out --------------------------------------------------------------------- */

/* cf-init's own last words, when it had any. */
static void
add_last_words(const struct cf_sandbox *sb, struct cf_error *err)
{
    cf_auto_free char *words = cf_tail_text(&sb->stderr_tail, 3, 300);
    size_t len = strlen(err->text);

    if (words != NULL && words[0] != '\0')
        cf_error_set(err, err->kind, err->code, "%.*s; cf-init said: %s",
                     (int)(len < 400 ? len : 400), err->text, words);
}

/* The container is over: by its own hand, from inside, or from outside. */
static void
judge_exit(struct cf_sandbox *sb, const json_t *state, struct cf_error *err)
{
    int code = (int)cf_json_int(state, "ExitCode", -1);

    if (sb->was_killed_by_engine) {
        cf_error_set(
            err, CF_ERROR_ENGINE, code,
            "the container was killed through the engine by somebody else (signal %d)",
            sb->killed_by_signal);
        cf_error_fix(err, "leave it alone while the run lasts");
    } else if ((sb->was_oom || cf_json_bool(state, "OOMKilled", false)) &&
               code == KILLED_EXIT && !cf_link_saw_bye(sb->link)) {
        cf_error_set(err, CF_ERROR_HARNESS, code,
                     "the sandbox ran out of memory and its pid 1 was ended (limit %llu MiB)",
                     (unsigned long long)(sb->plan.limits.memory_bytes >> 20));
        cf_error_fix(err, "give it more with --memory, or make the harness use less");
    } else if (code == DEAD_MAN_EXIT) {
        cf_error_set(err, CF_ERROR_ENGINE, code,
                     "the stream to the sandbox was cut, and cf-init ended it (exit 70)");
        cf_error_fix(err,
                     "look whether the engine was restarted, or the connection to it lost");
    } else if (code == OWN_FAULT_EXIT) {
        cf_error_set(err, CF_ERROR_INTERNAL, code, "cf-init could not go on (exit 71)");
    } else if (code == PROTOCOL_EXIT) {
        cf_error_set(
            err, CF_ERROR_INTERNAL, code,
            "cf-init ended the sandbox: what it was sent broke the protocol (exit 72)");
    } else if (cf_link_saw_bye(sb->link)) {
        cf_error_set(err, CF_ERROR_INTERNAL, code,
                     "cf-init ended by itself, unasked (exit %d)", code);
    } else if (code == KILLED_EXIT) {
        /* The kernel lets nobody inside do this, and what would make it do so itself is filtered. */
        cf_error_set(err, CF_ERROR_ENGINE, code,
                     "pid 1 was killed from outside the sandbox, and not through the engine");
        cf_error_fix(err, "look on the engine's machine: its container shim was ended, or somebody used kill");
    } else {
        cf_error_set(err, CF_ERROR_HARNESS, code, "pid 1 was ended from inside (exit %d)", code);
        cf_error_fix(
            err, "a harness must leave pid 1 alone; nobody else ended it through the engine");
    }
}

static void
judge_state(struct cf_sandbox *sb, const json_t *state, struct cf_error *err)
{
    const char *status = cf_json_str(state, "Status");

    if (status == NULL)
        cf_error_set(err, CF_ERROR_ENGINE, 0,
                     "the stream to the sandbox ended, and the engine does not say in which "
                     "state it is");
    else if (strcmp(status, "paused") == 0) {
        cf_error_set(err, CF_ERROR_ENGINE, 0, "the container was paused by somebody else");
        cf_error_fix(err, "leave it alone while the run lasts");
    } else if (strcmp(status, "running") == 0) {
        cf_error_set(err, CF_ERROR_ENGINE, sb->stream_error.code,
                     "the sandbox runs, but the stream to it %s%s%s",
                     sb->stream_over ? "was closed by the engine"
                                     : "is silent: cf-init has not answered for 30 s",
                     sb->stream_error.kind != CF_ERROR_NONE ? ": " : "",
                     sb->stream_error.kind != CF_ERROR_NONE ? sb->stream_error.text : "");
        cf_error_fix(err,
                     "look whether the engine was restarted or is overloaded; then run again");
    } else if (strcmp(status, "removing") == 0) {
        cf_error_set(err, CF_ERROR_ENGINE, 0,
                     "the container is being removed by somebody else");
        cf_error_fix(err, "leave it alone while the run lasts");
    } else {
        judge_exit(sb, state, err);
    }
}

static void
tell(struct cf_sandbox *sb, struct cf_error *why)
{
    sb->loose_calls--;
    uv_timer_stop(&sb->work_timer);
    add_last_words(sb, why);
    if (sb->steps.dir == CF_STEPS_UP) /* the way up began meanwhile */
        cf_teardown_on_exit(sb);
    else
        cf_sandbox_fail(sb, why);
}

/* ---- a killer's traces --------------------------------------------------------------- */

static void
on_past_event(void *user, json_t *event)
{
    struct cf_sandbox *sb = user;
    const char *action = cf_json_str(event, "Action");
    const char *signal =
        cf_json_str(cf_json_obj(cf_json_obj(event, "Actor"), "Attributes"), "signal");
    uint64_t number = 0;

    if (cf_str_same(action, "oom"))
        sb->was_oom = true;
    if (!cf_str_same(action, "kill"))
        return;
    sb->was_killed_by_engine = true;
    if (signal != NULL && cf_parse_u64(signal, 1, 64, &number))
        sb->killed_by_signal = (int)number;
}

/* Without an answer the exit code has to do. */
static void
on_past_events(void *user, int status, const struct cf_engine_reply *reply,
               const struct cf_error *err)
{
    struct cf_sandbox *sb = user;
    struct cf_error why = {0};

    sb->demise_call = NULL;
    judge_exit(sb, sb->end_state, &why);
    tell(sb, &why);
}

/*
 * Whoever kills through the engine leaves an event; a process inside does not. The engine
 * keeps the last 256, and replays those of a span that has passed. The span is told in its own
 * time.
 */
static int
ask_past(struct cf_sandbox *sb, const json_t *state, struct cf_error *err)
{
    const char *finished = cf_json_str(state, "FinishedAt");
    char text[32], filters[256];
    struct cf_buf path = {0};
    int64_t at;

    if (finished == NULL || strlen(finished) < 20 || finished[strlen(finished) - 1] != 'Z')
        return -1;
    (void)snprintf(text, sizeof text, "%.19sZ", finished);
    if (!cf_labels_read_time(text, &at))
        return -1;
    (void)snprintf(filters, sizeof filters, "{\"container\":[\"%.128s\"]}", sb->container_id);
    (void)cf_buf_adds(&path, "/events");
    (void)snprintf(text, sizeof text, "%lld", (long long)at - 30);
    (void)cf_engine_query(&path, "since", text);
    (void)snprintf(text, sizeof text, "%lld", (long long)at + 1);
    (void)cf_engine_query(&path, "until", text);
    (void)cf_engine_query(&path, "filters", filters);
    struct cf_engine_request request = {
        .method = "GET", .path = path.data, .deadline_ms = ASK_MS, .on_object = on_past_event};
    int rc = path.failed ? -1
                         : cf_engine_call(sb->engine, &request, on_past_events, sb,
                                          &sb->demise_call, err);
    cf_buf_release(&path);
    return rc;
}

/* ---- its state ----------------------------------------------------------------------- */

static bool
is_unexplained(const struct cf_sandbox *sb, const json_t *state)
{
    const char *status = cf_json_str(state, "Status");
    int64_t code = cf_json_int(state, "ExitCode", -1);

    return cf_str_same(status, "exited") && !cf_link_saw_bye(sb->link) &&
           (code < DEAD_MAN_EXIT || code > PROTOCOL_EXIT);
}

static void
say_removed(struct cf_error *why)
{
    cf_error_set(why, CF_ERROR_ENGINE, 404, "the container was removed by somebody else");
    cf_error_fix(why, "leave it alone while the run lasts");
}

static void
say_engine_gone(const struct cf_error *err, struct cf_error *why)
{
    cf_error_set(why, CF_ERROR_ENGINE, err != NULL ? err->code : 0, "the engine is gone: %s",
                 err != NULL ? err->text : "its inspection has no state");
    cf_error_fix(why, "start the engine again; what is left of this run is removed by "
                      "cfrunner reap");
}

static void
on_listed(void *user, int status, const struct cf_engine_reply *reply,
          const struct cf_error *err)
{
    struct cf_sandbox *sb = user;
    struct cf_error why = {0};

    sb->demise_call = NULL;
    if (status == 0 && json_is_array(reply->json) && json_array_size(reply->json) == 0)
        say_removed(&why);
    else
        say_engine_gone(err, &why);
    tell(sb, &why);
}

/* Podman may say 500 of a container that is no more, where others say 404: a list cannot err
 * like that. */
static int
ask_list(struct cf_sandbox *sb, struct cf_error *err)
{
    char label[256];

    (void)snprintf(label, sizeof label, CF_LABEL ".sandbox=%s", sb->name);
    return cf_engine_list(sb->engine, "containers", label, on_listed, sb, &sb->demise_call,
                          err);
}

static void
on_state(void *user, int status, const struct cf_engine_reply *reply,
         const struct cf_error *err)
{
    struct cf_sandbox *sb = user;
    struct cf_error why = {0};

    sb->demise_call = NULL;
    if (status == 0 && cf_json_obj(reply->json, "State") != NULL) {
        json_decref(sb->end_state);
        sb->end_state = json_incref(cf_json_obj(reply->json, "State"));
        if (sb->steps.dir == CF_STEPS_DOWN && is_unexplained(sb, sb->end_state) &&
            ask_past(sb, sb->end_state, &why) == 0)
            return;
        judge_state(sb, sb->end_state, &why);
    } else if (status < 0 && err->kind == CF_ERROR_NOT_FOUND) {
        say_removed(&why);
    } else {
        if (status < 0 && err->code >= 500 && ask_list(sb, &why) == 0)
            return;
        say_engine_gone(err, &why);
    }
    tell(sb, &why);
}

static void
on_asked_long_enough(uv_timer_t *timer)
{
    struct cf_sandbox *sb = timer->data;

    cf_engine_call_cancel(sb->demise_call); /* its own callback goes on */
}

static void
ask_state(struct cf_sandbox *sb)
{
    struct cf_error err = {0};

    if (cf_engine_container_inspect(sb->engine, sb->container_id, on_state, sb,
                                    &sb->demise_call, &err) < 0) {
        sb->demise_call = NULL;
        cf_sandbox_fail(sb, &err);
        return;
    }
    sb->loose_calls++;
    uv_timer_start(&sb->work_timer, on_asked_long_enough, ASK_MS, 0);
}

/* The stream ends a moment before the engine knows that the container has; Podman says
 * "running" that long. The wait's answer cuts this short. */
static void
on_settled_down(uv_timer_t *timer)
{
    ask_state(timer->data);
}

void
cf_demise_begin(struct cf_sandbox *sb)
{
    bool starting = sb->steps.running && sb->steps.at <= CF_ROW_START;

    if (sb->is_failed || sb->is_closing || sb->steps.dir == CF_STEPS_UP || starting)
        return;
    if (!sb->demise_begun) {
        sb->demise_begun = true;
        /* Podman never says that it was memory; the group is still there for a moment. */
        sb->was_oom |= cf_hostview_oom_kills(sb->cgroup) > cf_link_oom_told(sb->link);
        if (sb->exit_seen || !sb->stream_over)
            ask_state(sb);
        else
            uv_timer_start(&sb->work_timer, on_settled_down, SETTLE_MS, 0);
    } else if (sb->exit_seen && sb->demise_call == NULL) {
        uv_timer_stop(&sb->work_timer);
        ask_state(sb);
    }
}
