/*
 * The torture's story: an ordinary diagnostic first; when it passed, a pool with the same image, and
 * in it one run a trial, a few at a time, told in the order of the table; then the pool goes, and
 * what it proves of its own teardown goes into the one result.
 */
#include "diagnose/torture.h"

#include "base/clock.h"
#include "base/str.h"
#include "diagnose/kept.h"
#include "diagnose/rules.h"
#include "diagnose/trail.h"
#include "json/json.h"

#include <stdio.h>
#include <string.h>

#define AT_ONCE 3
#define TRIALS_MOST 64
#define TURN_LEAST_MS 20000u

struct trial {
    struct cf_torture *torture;
    const struct cf_torture_trial *what;
    struct cf_diagnose *diagnose; /* while it runs */
    json_t *row;                  /* NULL until it is over */
    char outcome[24], stop_reason[32];
    uint64_t began_ms;
    bool was_ended;
};

struct cf_torture {
    struct uv_loop_s *loop;
    struct cf_torture_events events;
    struct cf_diagnose_kept kept;
    json_t *release, *run_options; /* kept's */
    json_t *result;
    int exit_code;
    struct cf_diagnose *base;
    struct cf_pool *pool;
    struct cf_error pool_error;
    bool is_interrupted;
    uint64_t began_ms, turn_ms, grace_ms;
    struct trial trials[TRIALS_MOST];
    size_t count, next, running, told;
};

/* ---- the result ------------------------------------------------------------------------------ */

static const json_t *
first_changed(json_t *rows)
{
    json_t *row;
    size_t i;

    json_array_foreach(rows, i, row)
        if (cf_str_same(cf_json_str(row, "status"), "changed"))
            return row;
    return NULL;
}

static size_t
count_of(json_t *rows, const char *status)
{
    size_t count = 0, i;
    json_t *row;

    json_array_foreach(rows, i, row)
        count += cf_str_same(cf_json_str(row, "status"), status);
    return count;
}

static json_t *
rows_of(const struct cf_torture *t)
{
    json_t *rows = json_array();

    for (size_t i = 0; i < t->count; i++)
        if (t->trials[i].row != NULL)
            (void)json_array_append(rows, t->trials[i].row);
    return rows;
}

/* Where the result has the first trial that changed the verdict, or what became of the whole. */
static json_t *
evidence_of(const struct cf_torture *t, json_t *rows, const json_t *first)
{
    json_t *evidence = json_array();
    char pointer[60] = "/torture/status";

    for (size_t i = 0; first != NULL && i < json_array_size(rows); i++)
        if (json_array_get(rows, i) == first)
            (void)snprintf(pointer, sizeof pointer, "/torture/trials/%zu/status", i);
    cf_evidence_fact(evidence, t->result, pointer, first != NULL ? cf_json_str(first, "what") : NULL);
    return evidence;
}

/* Its line among the checks; it comes before the teardown's, which is the last. */
static void
add_check(struct cf_torture *t, json_t *rows, const char *status, const char *reason)
{
    json_t *checks = json_object_get(t->result, "checks"), *check;
    const struct cf_rule *rule = cf_rule_of("torture");
    const json_t *first = first_changed(rows);
    size_t tried = json_array_size(rows) - count_of(rows, "skipped"), last = json_array_size(checks);
    char summary[500], fix[300];

    if (reason != NULL)
        (void)snprintf(summary, sizeof summary, "%.400s", reason);
    else if (first == NULL)
        (void)snprintf(summary, sizeof summary, "%zu troubles, the verdict stands", tried);
    else
        (void)snprintf(summary, sizeof summary, "%s: %.380s", cf_json_str(first, "id"), cf_json_str(first, "summary"));
    check = json_pack("{s:s, s:s, s:s, s:s, s:s, s:o}", "id", rule->id, "group", rule->group, "rule", rule->says, "status", status,
                      "summary", summary, "evidence", evidence_of(t, rows, first));
    if (first != NULL) {
        (void)snprintf(fix, sizeof fix, "the verdict changed when %.120s; %zu of %zu troubles changed it", cf_json_str(first, "what"),
                       count_of(rows, "changed"), tried);
        (void)json_object_set_new(check, "fix", json_string(fix));
    }
    (void)json_array_insert_new(checks, last > 0 ? last - 1 : 0, check);
}

static void
take_exit_code(struct cf_torture *t, int code)
{
    const char *status;

    t->exit_code = cf_diagnose_worse(t->exit_code, code);
    status = t->exit_code == 0 ? "passed" : t->exit_code == 1 ? "failed" : "error";
    (void)json_object_set_new(t->result, "status", json_string(status));
    (void)json_object_set_new(t->result, "exit_code", json_integer(t->exit_code));
    if (t->exit_code == 1)
        (void)json_object_set_new(t->result, "blame", json_string("harness"));
    else if (t->exit_code == 3 || t->exit_code == 4)
        (void)json_object_set_new(t->result, "blame", json_string(t->exit_code == 3 ? "engine" : "runner"));
    if (t->exit_code != 0) /* nothing is to be published now */
        (void)json_object_set_new(
            t->result, "next_steps",
            cf_diagnose_next_steps(&t->kept.options, t->release, cf_json_str(t->run_options, "build_context") != NULL, false));
}

static void
conclude(struct cf_torture *t, const char *skipped)
{
    json_t *rows = rows_of(t);
    const json_t *first = first_changed(rows);
    const char *reason = skipped, *status = "passed", *check = "passed";

    if (reason == NULL && t->pool_error.kind != CF_ERROR_NONE)
        reason = t->pool_error.text;
    if (reason == NULL && t->is_interrupted)
        reason = "interrupted";
    if (first != NULL)
        status = check = "failed";
    else if (reason != NULL)
        status = check = "skipped";
    (void)json_object_set_new(
        t->result, "torture",
        json_pack("{s:s, s:s, s:s?, s:O?, s:O, s:I}", "level", "quick", "status", status, "reason", first == NULL ? reason : NULL,
                  "first", first != NULL ? json_object_get(first, "id") : NULL, "trials", rows, "took_ms",
                  (json_int_t)(cf_clock_ms() - t->began_ms)));
    add_check(t, rows, check, first == NULL ? reason : NULL);
    if (first != NULL)
        take_exit_code(t, 1);
    if (t->pool_error.kind != CF_ERROR_NONE)
        take_exit_code(t, cf_diagnose_exit_code(t->pool_error.kind));
    if (t->is_interrupted)
        take_exit_code(t, 130);
    json_decref(rows);
}

static void
torture_free(struct cf_torture *t)
{
    cf_diagnose_kept_release(&t->kept);
    for (size_t i = 0; i < t->count; i++)
        json_decref(t->trials[i].row);
    json_decref(t->result);
    free(t);
}

static void
finish(struct cf_torture *t, const char *skipped)
{
    struct cf_diagnose_events events = t->events.diagnose;
    json_t *result;
    int exit_code;

    conclude(t, skipped);
    result = json_incref(t->result);
    exit_code = t->exit_code;
    torture_free(t);
    events.on_done(events.user, result, exit_code);
    json_decref(result);
}

/* ---- trials ------------------------------------------------------------------------------------ */

static void go_on(struct cf_torture *t);

/* In the table's order, whichever was over first. */
static void
tell_rows(struct cf_torture *t)
{
    while (t->told < t->count && t->trials[t->told].row != NULL) {
        const json_t *row = t->trials[t->told++].row;
        if (t->events.on_trial != NULL)
            t->events.on_trial(t->events.diagnose.user, cf_json_str(row, "id"), cf_json_str(row, "status"),
                               cf_json_str(row, "summary"), (uint64_t)cf_json_int(row, "took_ms", 0));
    }
}

/* Takes `verdict`. */
static void
trial_over(struct trial *trial, json_t *verdict)
{
    trial->row = json_pack("{s:s, s:s}", "id", trial->what->id, "what", trial->what->what);
    (void)json_object_update(trial->row, verdict);
    (void)json_object_set_new(trial->row, "took_ms",
                              json_integer(trial->began_ms > 0 ? (json_int_t)(cf_clock_ms() - trial->began_ms) : 0));
    json_decref(verdict);
    tell_rows(trial->torture);
}

static json_t *
untried(const char *why)
{
    return json_pack("{s:s, s:s, s:[]}", "status", "skipped", "summary", why, "changed");
}

static void
on_trial_turn(void *user, uint32_t turn, const char *json, size_t len)
{
    struct trial *trial = user;
    json_t *settled = cf_json_parse(json, len, NULL, NULL);
    const char *outcome = cf_json_str(settled, "outcome"), *stop = cf_json_str(settled, "stop_reason");

    (void)snprintf(trial->outcome, sizeof trial->outcome, "%s", outcome != NULL ? outcome : "");
    (void)snprintf(trial->stop_reason, sizeof trial->stop_reason, "%s", stop != NULL ? stop : "");
    json_decref(settled);
}

static void
on_trial_phase(void *user, const char *name, const char *step, uint64_t took_ms)
{
    struct trial *trial = user;

    if (trial->what->end_in == NULL || trial->was_ended || took_ms != UINT64_MAX || strcmp(name, trial->what->end_in) != 0)
        return;
    trial->was_ended = true;
    cf_diagnose_interrupt(trial->diagnose, 3000);
}

static void
on_trial_done(void *user, json_t *result, int exit_code)
{
    struct trial *trial = user;
    struct cf_torture *t = trial->torture;
    const struct cf_torture_seen seen = {.base = t->result,
                                         .result = result,
                                         .outcome = trial->outcome[0] != '\0' ? trial->outcome : NULL,
                                         .stop_reason = trial->stop_reason[0] != '\0' ? trial->stop_reason : NULL};

    trial->diagnose = NULL;
    t->running--;
    if (exit_code == 4)
        t->exit_code = 4; /* whatever the trial was about: something is left */
    trial_over(trial, t->is_interrupted ? untried("interrupted") : cf_torture_judge(trial->what, &seen));
    go_on(t);
}

static int
open_trial(struct trial *trial, struct cf_error *err)
{
    struct cf_torture *t = trial->torture;
    struct cf_diagnose_events events = {
        .watch = {.size = sizeof events.watch, .user = trial, .on_turn = on_trial_turn, .on_phase = on_trial_phase},
        .on_done = on_trial_done,
        .user = trial};
    struct cf_diagnose_options options = {
        .release = t->release, .name = t->kept.options.name, .pool = t->pool, .only_exchange = true};
    int status;

    options.options = cf_torture_options(trial->what, t->run_options, t->turn_ms);
    if (options.options == NULL)
        return cf_error_memory(err);
    status = cf_diagnose_open(t->loop, &options, &events, &trial->diagnose, err);
    json_decref(options.options);
    return status;
}

static void
begin_trial(struct trial *trial)
{
    struct cf_torture *t = trial->torture;
    const char *skip = cf_torture_skip(trial->what, t->release);
    struct cf_error err = {0};

    if (skip == NULL && t->is_interrupted)
        skip = "interrupted";
    if (skip != NULL) {
        trial_over(trial, untried(skip));
        return;
    }
    trial->began_ms = cf_clock_ms();
    if (open_trial(trial, &err) < 0) {
        trial_over(trial, untried(err.text));
        if (t->pool_error.kind == CF_ERROR_NONE)
            t->pool_error = err;
        return;
    }
    t->running++;
}

static void
go_on(struct cf_torture *t)
{
    while (t->running < AT_ONCE && t->next < t->count)
        begin_trial(&t->trials[t->next++]);
    if (t->running == 0 && t->next == t->count)
        cf_pool_close(t->pool, t->grace_ms);
}

/* ---- the pool ------------------------------------------------------------------------------------ */

static void
on_pool_ready(void *user)
{
    go_on(user);
}

static void
on_pool_failed(void *user, const struct cf_error *err)
{
    struct cf_torture *t = user;

    if (!t->is_interrupted)
        t->pool_error = *err;
    if (t->running == 0) {
        t->next = t->count;
        cf_pool_close(t->pool, t->grace_ms);
    }
}

/* What the pool had made and took away is the result's, too. */
static void
on_pool_teardown(void *user, const char *json, size_t len)
{
    struct cf_torture *t = user;
    json_t *pool = cf_json_parse(json, len, NULL, NULL), *teardown = json_object_get(t->result, "teardown");
    bool is_proven = cf_json_bool(pool, "proven", false);

    (void)json_array_extend(json_object_get(teardown, "removed"), json_object_get(pool, "removed"));
    (void)json_array_extend(json_object_get(teardown, "left"), json_object_get(pool, "left"));
    if (!is_proven) {
        (void)json_object_set_new(teardown, "proven", json_false());
        t->exit_code = 4;
    }
    json_decref(pool);
}

static void
on_pool_closed(void *user)
{
    struct cf_torture *t = user;

    if (t->exit_code != 0)
        take_exit_code(t, t->exit_code);
    finish(t, NULL);
}

static int
open_pool(struct cf_torture *t, struct cf_error *err)
{
    const struct cf_pool_host host = {.size = sizeof host,
                                      .user = t,
                                      .on_ready = on_pool_ready,
                                      .on_failed = on_pool_failed,
                                      .on_teardown = on_pool_teardown,
                                      .on_closed = on_pool_closed};
    json_t *options = cf_torture_options(NULL, t->run_options, t->turn_ms);
    cf_auto_free char *release = NULL, *text = NULL;
    size_t release_len = 0, len = 0;

    (void)json_object_set_new(options, "pool", json_pack("{s:i}", "warm", 2));
    release = cf_json_dump(t->release, &release_len);
    text = cf_json_dump(options, &len);
    json_decref(options);
    if (release == NULL || text == NULL)
        return cf_error_memory(err);
    return cf_pool_open(t->loop, release, release_len, text, len, &host, &t->pool, err);
}

/* ---- the diagnostic before it ------------------------------------------------------------------- */

static void
on_base_done(void *user, json_t *result, int exit_code)
{
    struct cf_torture *t = user;
    uint64_t turn_ms = (uint64_t)cf_json_int(json_object_get(result, "timings_ms"), "turn", 0);
    struct cf_error err = {0};

    t->base = NULL;
    t->result = json_incref(result);
    t->exit_code = exit_code;
    t->turn_ms = turn_ms * 3 > TURN_LEAST_MS ? turn_ms * 3 : TURN_LEAST_MS;
    t->began_ms = cf_clock_ms();
    if (exit_code != 0) {
        finish(t, "without any trouble it does not pass");
        return;
    }
    if (open_pool(t, &err) < 0) {
        t->pool_error = err;
        finish(t, NULL);
    }
}

int
cf_torture_open(struct uv_loop_s *loop, const struct cf_diagnose_options *options,
                const struct cf_torture_events *events, struct cf_torture **ret_torture, struct cf_error *err)
{
    struct cf_torture *t = calloc(1, sizeof *t);
    struct cf_diagnose_events base = {.watch = events->diagnose.watch, .on_done = on_base_done, .user = t};

    if (t == NULL)
        return cf_error_memory(err);
    t->loop = loop;
    t->events = *events;
    t->grace_ms = UINT64_MAX;
    t->count = cf_torture_quick_count;
    for (size_t i = 0; i < t->count; i++)
        t->trials[i] = (struct trial){.torture = t, .what = &cf_torture_quick[i]};
    if (cf_diagnose_keep(&t->kept, options, err) < 0 || cf_diagnose_open(loop, options, &base, &t->base, err) < 0) {
        torture_free(t);
        return -1;
    }
    t->release = t->kept.options.release;
    t->run_options = t->kept.options.options;
    *ret_torture = t;
    return 0;
}

void
cf_torture_interrupt(struct cf_torture *t, uint64_t grace_ms)
{
    t->is_interrupted = true;
    t->grace_ms = grace_ms;
    if (t->base != NULL)
        cf_diagnose_interrupt(t->base, grace_ms);
    for (size_t i = 0; i < t->count; i++)
        if (t->trials[i].diagnose != NULL)
            cf_diagnose_interrupt(t->trials[i].diagnose, grace_ms);
    if (t->pool != NULL && t->running == 0) {
        t->next = t->count;
        cf_pool_close(t->pool, grace_ms);
    }
}
