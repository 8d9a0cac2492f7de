/*
 * What dead runs left, and what this owner holds: both are a sweep over everything that bears
 * our marker, with a rule that looks at each thing's run. The verdict on a run is made once
 * and kept: dead stays dead, and one run has many things.
 */
#include "sandbox/owner.h"
#include "sandbox/sweep.h"

#include "base/clock.h"
#include "base/str.h"
#include "json/json.h"

#include <stdio.h>
#include <string.h>

#define STALE_S 5 /* a lock file is locked right after it is made, never so much later */

struct gathering {
    struct cf_owner *owner;
    bool all_owners, dry_run, is_list;
    int64_t now_unix;
    json_t *runs; /* "owner/run" ->
                     {"run","owner","live","why","created","deadline","resources"} */
    cf_reap_done_fn *done;
    void *user;
};

static void
gathering_free(struct gathering *all)
{
    json_decref(all->runs);
    free(all);
}

/* ---- gathering ----------------------------------------------------------------------- */

static json_t *
judge_run(struct gathering *all, const struct cf_labels *labels)
{
    char key[140], created[21], deadline[21];
    const char *why = "";

    (void)snprintf(key, sizeof key, "%s/%s", labels->owner, labels->run);
    json_t *run = json_object_get(all->runs, key);
    if (run != NULL)
        return run;
    bool is_dead =
        cf_owner_run_is_dead(all->owner, labels, all->all_owners, all->now_unix, &why);
    cf_clock_rfc3339(labels->created, created);
    cf_clock_rfc3339(labels->deadline, deadline);
    run = json_pack("{s:s, s:s, s:b, s:s, s:s, s:s, s:[]}", "run", labels->run, "owner",
                    labels->owner, "live", !is_dead, "why", why, "created", created,
                    "deadline", deadline, "resources");
    (void)json_object_set_new(all->runs, key,
                              run); /* NULL: out of memory, then it stays untouched */
    return json_object_get(all->runs, key);
}

static bool
has_resource(const json_t *resources, const struct cf_resource *resource)
{
    json_t *item;
    size_t i;

    json_array_foreach(resources, i, item) {
        if (cf_str_same(cf_json_str(item, "id"), resource->id) &&
            cf_str_same(cf_json_str(item, "kind"), cf_resource_name(resource->kind)))
            return true;
    }
    return false;
}

static bool
on_resource(void *user, const struct cf_resource *resource)
{
    struct gathering *all = user;
    json_t *run = judge_run(all, &resource->labels);
    json_t *resources = json_object_get(run, "resources");

    if (run == NULL)
        return false;
    if (!has_resource(resources, resource))
        (void)json_array_append_new(
            resources,
            cf_resource_json(cf_resource_name(resource->kind), resource->id, resource->name));
    return !cf_json_bool(run, "live", true);
}

/* ---- reporting ----------------------------------------------------------------------- */

static bool
is_known_run(void *user, const char *run_id)
{
    struct gathering *all = user;
    const char *key;
    json_t *run;

    json_object_foreach(all->runs, key, run) {
        if (cf_str_same(cf_json_str(run, "run"), run_id))
            return true;
    }
    return false;
}

/* Lock files of runs that have nothing left any more; those beside them that nobody holds. The
 * age spares a run that has just been begun and is about to take its lock. */
static void
forget_locks(struct gathering *all)
{
    const char *key;
    json_t *run;

    json_object_foreach(all->runs, key, run) {
        if (!cf_json_bool(run, "live", true) &&
            cf_str_same(cf_json_str(run, "owner"), all->owner->id))
            cf_owner_forget(all->owner, cf_json_str(run, "run"));
    }
    cf_owner_forget_stale(all->owner, STALE_S, is_known_run, all);
}

static json_t *
dead_runs(const struct gathering *all)
{
    json_t *dead = json_array(), *run;
    const char *key;

    json_object_foreach(all->runs, key, run) {
        if (cf_json_bool(run, "live", true))
            continue;
        json_t *copy = json_copy(run);
        (void)json_object_del(copy, "live");
        (void)json_array_append_new(dead, copy);
    }
    return dead;
}

static json_t *
owned_runs(const struct gathering *all)
{
    json_t *owned = json_array(), *run;
    const char *key;

    json_object_foreach(all->runs, key, run) {
        if (!cf_str_same(cf_json_str(run, "owner"), all->owner->id))
            continue;
        json_t *copy = json_copy(run);
        (void)json_object_del(copy, "owner");
        (void)json_array_append_new(owned, copy);
    }
    return owned;
}

/* The reason why no listing was whole, or NULL. */
static const char *
unasked(const struct cf_teardown *result)
{
    json_t *item;
    size_t i;

    json_array_foreach(result->left, i, item) {
        if (cf_str_same(cf_json_str(item, "kind"), "unknown"))
            return cf_json_str(item, "why");
    }
    return NULL;
}

static void
on_swept(void *user, const struct cf_teardown *result)
{
    struct gathering *all = user;
    struct cf_error err = {0};
    const char *why = unasked(result);
    bool only_looks = all->is_list || all->dry_run;
    int status = 0;

    if (why != NULL)
        status = cf_error_set(&err, CF_ERROR_TEARDOWN, 0, "%s", why);
    else if (!only_looks && !result->proven)
        status = cf_error_set(&err, CF_ERROR_TEARDOWN, 0,
                              "%zu resources of dead runs could not be removed",
                              json_array_size(result->left));
    if (!only_looks && result->proven)
        forget_locks(all);
    json_t *report =
        all->is_list
            ? owned_runs(all)
            : json_pack("{s:o, s:O, s:o}", "dead", dead_runs(all), "removed", result->removed,
                        "left", all->dry_run ? json_array() : json_incref(result->left));
    all->done(all->user, status, report, &err);
    json_decref(report);
    gathering_free(all);
}

static int
gather(uv_loop_t *loop, struct cf_engine *engine, const struct gathering *wanted,
       uint64_t deadline_ms, struct cf_error *err)
{
    struct gathering *all = malloc(sizeof *all);
    struct cf_sweep_rule rule = {.label = CF_LABEL, .wants = on_resource, .user = all};

    if (all == NULL)
        return cf_error_memory(err);
    *all = *wanted;
    all->now_unix = cf_clock_unix();
    all->runs = json_object();
    rule.dry_run = all->dry_run || all->is_list;
    rule.clean_passes = 2; /* a create that was under way when its owner died may come late */
    if (all->runs == NULL) {
        gathering_free(all);
        return cf_error_memory(err);
    }
    if (cf_sweep_open_rule(loop, engine, &rule, deadline_ms, on_swept, all, NULL, err) < 0) {
        gathering_free(all);
        return -1;
    }
    return 0;
}

int
cf_reap_open(uv_loop_t *loop, struct cf_engine *engine, struct cf_owner *owner,
             bool all_owners, bool dry_run, uint64_t deadline_ms, cf_reap_done_fn *done,
             void *user, struct cf_error *err)
{
    struct gathering wanted = {.owner = owner,
                               .all_owners = all_owners,
                               .dry_run = dry_run,
                               .done = done,
                               .user = user};

    return gather(loop, engine, &wanted, deadline_ms, err);
}

int
cf_owner_list(uv_loop_t *loop, struct cf_engine *engine, struct cf_owner *owner,
              uint64_t deadline_ms, cf_reap_done_fn *done, void *user, struct cf_error *err)
{
    struct gathering wanted = {.owner = owner, .is_list = true, .done = done, .user = user};

    return gather(loop, engine, &wanted, deadline_ms, err);
}
