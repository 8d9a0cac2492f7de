/*
 * Control messages: the driver's requests `{"id":N,"op":"..."}`, answered each exactly once by
 * `{"re":N, ...}` or `{"re":N,"error":{"errno","text"}}`, and our events `{"ev":"..."}`.
 */
#include "init/init.h"

#include "base/clock.h"

#include <errno.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef void request_fn(struct cf_init *init, json_int_t id, json_t *request);

/* ---- out ---------------------------------------------------------------------------- */

static void
send_message(struct cf_init *init, json_t *message)
{
    char *text = message == NULL ? NULL : json_dumps(message, JSON_COMPACT);
    struct cf_error err;

    json_decref(message);
    /* an answer that cannot be given would leave the driver waiting: better to end */
    if (text == NULL)
        cf_init_end(init, CF_INIT_EXIT_OWN_FAULT, "out of memory");
    else if (cf_mux_control(&init->mux, text, strlen(text), &err) < 0)
        cf_init_end(init, CF_INIT_EXIT_OWN_FAULT, err.text);
    free(text);
}

static void
send_answer(struct cf_init *init, json_t *message)
{
    send_message(init, message);
    if (init->mark_count < CF_INIT_MARKS) {
        init->marks[(init->mark_first + init->mark_count) % CF_INIT_MARKS] =
            init->mux.urgent_queued;
        init->mark_count++;
    }
}

void
cf_control_answer(struct cf_init *init, json_int_t id, json_t *body)
{
    json_t *message = body != NULL ? body : json_object();

    if (message != NULL)
        json_object_set_new(message, "re", json_integer(id));
    send_answer(init, message);
}

void
cf_control_refuse(struct cf_init *init, json_int_t id, int error, const char *fmt, ...)
{
    char text[256];
    va_list args;

    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    if (json_string(text) == NULL) /* names may be any bytes */
        snprintf(text, sizeof text, "%s", strerror(error));
    send_answer(init, json_pack("{s:I, s:{s:i, s:s}}", "re", id, "error", "errno", error,
                                "text", text));
}

void
cf_control_event(struct cf_init *init, json_t *event)
{
    send_message(init, event);
}

void
cf_control_count_sent(struct cf_init *init)
{
    while (init->mark_count > 0 && init->marks[init->mark_first] <= init->mux.urgent_taken) {
        init->mark_first = (init->mark_first + 1) % CF_INIT_MARKS;
        init->mark_count--;
        init->unanswered--;
    }
    /* orphans are a counter too: told when the last word about them has gone out, and at the
     * end by bye, which nothing may follow */
    if (init->shutdown_deadline_ms == 0 && init->orphans > init->orphans_told &&
        init->mux.urgent.len == 0) {
        cf_control_event(init, json_pack("{s:s, s:I, s:I}", "ev", "orphan", "count",
                                         (json_int_t)(init->orphans - init->orphans_told),
                                         "total", (json_int_t)init->orphans));
        init->orphans_told = init->orphans;
    }
}

/* ---- requests that need no room of their own ---------------------------------------- */

static void
tell_refused(struct cf_init *init)
{
    uint64_t refused = cf_cgroup_pids_refused(&init->cgroup);

    if (refused == init->refused_told)
        return;
    init->refused_told = refused;
    cf_control_event(init, json_pack("{s:s, s:I, s:I}", "ev", "pids", "refused", (json_int_t)refused, "limit",
                                     (json_int_t)cf_cgroup_number(init->cgroup.pids_max)));
}

static void
answer_ping(struct cf_init *init, json_int_t id, json_t *request)
{
    init->last_ping_ms = cf_clock_ms();
    cf_harden_restore(init);
    if (init->shutdown_deadline_ms == 0) /* who asks whether we live hears what may be the matter */
        tell_refused(init);
    cf_control_answer(init, id, NULL);
}

static void
answer_signal_all(struct cf_init *init, json_int_t id, json_t *request)
{
    int number = (int)json_integer_value(json_object_get(request, "signal"));

    if (number < 1 || number >= NSIG)
        cf_control_refuse(init, id, EINVAL, "no such signal");
    else if (cf_process_kill_all(number) < 0 && errno != ESRCH)
        cf_control_refuse(init, id, errno, "kill: %s", strerror(errno));
    else
        cf_control_answer(init, id, NULL);
}

static void
answer_shutdown(struct cf_init *init, json_int_t id, json_t *request)
{
    if (init->shutdown_deadline_ms == 0) {
        init->shutdown_deadline_ms = cf_clock_ms() + 10000;
        (void)cf_process_kill_all(SIGKILL); /* fails where nobody is left */
    }
    cf_control_answer(init, id, NULL);
}

static void
answer_facts(struct cf_init *init, json_int_t id, json_t *request)
{
    const struct cf_cgroup *cgroup = &init->cgroup;

    cf_control_answer(
        init, id,
        json_pack("{s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I}", "processes",
                  (json_int_t)init->child_count, "pids",
                  (json_int_t)cf_cgroup_number(cgroup->pids), "oom_kills",
                  (json_int_t)cf_cgroup_oom_kills(cgroup), "memory_bytes",
                  (json_int_t)cf_cgroup_number(cgroup->memory), "memory_limit_bytes",
                  (json_int_t)cf_cgroup_number(cgroup->memory_max), "disk_bytes",
                  (json_int_t)cf_disk_used(init), "orphans", (json_int_t)init->orphans,
                  "channels", (json_int_t)(init->mux.own_channels + init->mux.peer_channels)));
}

/* ---- in ----------------------------------------------------------------------------- */

static const struct {
    const char *op;
    request_fn *fn;
} requests[] = {
    {"ping", answer_ping},
    {"spawn", cf_process_spawn_request},
    {"signal", cf_process_signal_request},
    {"signal_all", answer_signal_all},
    {"shutdown", answer_shutdown},
    {"facts", answer_facts},
    {"stat", cf_files_stat},
    {"mkdir", cf_files_mkdir},
    {"write", cf_files_write},
    {"read", cf_files_read},
    {"unlink", cf_files_unlink},
    {"symlink", cf_files_symlink},
    {"manifest", cf_files_manifest},
    {"disk_watch", cf_disk_watch},
};

static void
answer(struct cf_init *init, json_int_t id, json_t *request)
{
    const char *op = json_string_value(json_object_get(request, "op"));

    for (size_t i = 0; op != NULL && i < sizeof requests / sizeof requests[0]; i++) {
        if (strcmp(op, requests[i].op) == 0) {
            requests[i].fn(init, id, request);
            return;
        }
    }
    cf_control_refuse(init, id, ENOSYS,
                      "cf-init " CFRUNNER_VERSION " knows no such operation");
}

int
cf_control_take(struct cf_init *init, const char *bytes, size_t len, struct cf_error *err)
{
    json_error_t why;
    json_t *request = json_loadb(bytes, len, JSON_REJECT_DUPLICATES, &why);
    json_int_t id = json_integer_value(json_object_get(request, "id"));
    int status = 0;

    if (request == NULL)
        status =
            cf_error_set(err, CF_ERROR_WIRE, 0, "control message is not JSON: %s", why.text);
    else if (id <= 0)
        status = cf_error_set(err, CF_ERROR_WIRE, 0, "control message without an id");
    else if (++init->unanswered > CF_MUX_UNANSWERED_MAX)
        status = cf_error_set(err, CF_ERROR_WIRE, 0, "more than %d requests are unanswered",
                              CF_MUX_UNANSWERED_MAX);
    else
        answer(init, id, request);
    json_decref(request);
    return status;
}
