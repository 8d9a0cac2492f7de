/*
 * A sweep is a loop of passes. One pass lists the four kinds at once; what the rule wants is
 * removed, kind after kind in the order of dependency, each thing tried once; then comes the
 * next pass, at once when all went well, after a pause when something was busy or the engine
 * did not answer. Nothing counts as gone because a delete said so: only an empty listing ends
 * it.
 */
#include "sandbox/sweep.h"

#include "base/clock.h"
#include "base/str.h"
#include "json/json.h"

#include <stdio.h>
#include <string.h>

enum { SLOTS = 4, PAUSE_FIRST_MS = 20, PAUSE_MOST_MS = 1000, PATIENCE_MS = 3000 };

struct slot {
    struct cf_sweep *sweep;
    struct cf_engine_call *call; /* NULL: free */
    enum cf_resource_kind kind;  /* while listing */
    json_t *item;                /* while removing: borrowed from todo */
};

struct cf_sweep {
    struct cf_engine *engine;
    char *label;
    struct cf_sweep_rule rule;
    cf_sweep_done_fn *done;
    void *user;
    uv_timer_t deadline;
    uv_timer_t pause; /* between two passes; within one, the patience with its calls */
    int handles_open;
    uint64_t began_ms, pause_ms;
    struct slot slots[SLOTS];
    int in_flight, clean_passes;
    size_t next; /* index into todo while removing */
    bool has_failed, is_over_time, is_finished, is_impatient;
    json_t *todo; /* [{"kind","id","name"}], sorted by kind */
    json_t
        *stuck; /* id -> {"kind","id","name","why"}: what a delete could not remove so far */
    char unasked[200]; /* why the last listing failed; "" when it did not */
    struct cf_teardown result;
};

static void begin_pass(struct cf_sweep *sweep);
static void remove_more(struct cf_sweep *sweep);

/* ---- the end ------------------------------------------------------------------------- */

static void
sweep_free(struct cf_sweep *sweep)
{
    json_decref(sweep->todo);
    json_decref(sweep->stuck);
    json_decref(sweep->result.removed);
    json_decref(sweep->result.left);
    free(sweep->label);
    free(sweep);
}

static void
on_handle_closed(uv_handle_t *handle)
{
    struct cf_sweep *sweep = handle->data;

    if (--sweep->handles_open > 0)
        return;
    if (sweep->done != NULL)
        sweep->done(sweep->user, &sweep->result);
    sweep_free(sweep);
}

static void
tell_one_left(struct cf_sweep *sweep, const json_t *item, const char *why)
{
    (void)json_array_append_new(sweep->result.left,
                                cf_resource_left_json(sweep->engine, cf_json_str(item, "kind"),
                                                      cf_json_str(item, "id"),
                                                      cf_json_str(item, "name"), why));
}

/* No listing was whole: by label, what there may be is found by hand. */
static void
tell_unasked(struct cf_sweep *sweep)
{
    struct cf_buf line;

    cf_buf_init(&line, 4096);
    cf_resource_client(sweep->engine, &line);
    cf_buf_addf(&line, " ps -aq --filter label=%s | xargs -r ", sweep->label);
    cf_resource_client(sweep->engine, &line);
    cf_buf_adds(&line, " rm -f -v");
    cf_auto_free char *remove = cf_buf_take(&line, NULL);
    (void)json_array_append_new(sweep->result.left,
                                json_pack("{s:s, s:s, s:s, s:s, s:s}", "kind", "unknown", "id",
                                          "", "name", "", "why", sweep->unasked, "remove",
                                          remove != NULL ? remove : ""));
}

static void
tell_left(struct cf_sweep *sweep)
{
    json_t *item, *stuck;
    const char *id, *why;
    size_t i;

    json_array_foreach(sweep->todo, i, item) {
        id = cf_json_str(item, "id");
        why = cf_json_str(json_object_get(sweep->stuck, id), "why");
        tell_one_left(sweep, item,
                      why != NULL ? why : "time was up before it could be removed");
        (void)json_object_del(sweep->stuck, id);
    }
    if (sweep->unasked[0] == '\0')
        return;
    json_object_foreach(sweep->stuck, id, stuck) /* known from a listing before */
        tell_one_left(sweep, stuck, cf_json_str(stuck, "why"));
    tell_unasked(sweep);
}

static void
finish(struct cf_sweep *sweep, bool is_proven)
{
    if (sweep->is_finished)
        return;
    sweep->is_finished = true;
    sweep->result.proven = is_proven;
    sweep->result.took_ms = cf_clock_ms() - sweep->began_ms;
    if (!is_proven)
        tell_left(sweep);
    uv_close((uv_handle_t *)&sweep->deadline, on_handle_closed);
    uv_close((uv_handle_t *)&sweep->pause, on_handle_closed);
}

/* ---- between passes ------------------------------------------------------------------ */

static void
on_pause_over(uv_timer_t *timer)
{
    begin_pass(timer->data);
}

static void
pass_again(struct cf_sweep *sweep, uint64_t after_ms)
{
    if (sweep->is_over_time)
        finish(sweep, false);
    else
        uv_timer_start(&sweep->pause, on_pause_over, after_ms, 0);
}

/* Something was busy or silent: wait twice as long as last time. */
static void
pass_later(struct cf_sweep *sweep)
{
    sweep->pause_ms = sweep->pause_ms == 0 ? PAUSE_FIRST_MS : sweep->pause_ms * 2;
    if (sweep->pause_ms > PAUSE_MOST_MS)
        sweep->pause_ms = PAUSE_MOST_MS;
    pass_again(sweep, sweep->pause_ms);
}

/* Each one's own callback still comes. */
static void
cancel_calls(struct cf_sweep *sweep)
{
    for (int i = 0; i < SLOTS; i++)
        cf_engine_call_cancel(sweep->slots[i].call);
}

/* A call that hangs must not take the time in which another try would have done it. */
static void
on_patience_over(uv_timer_t *timer)
{
    struct cf_sweep *sweep = timer->data;

    sweep->is_impatient = true;
    cancel_calls(sweep);
}

static void
be_patient(struct cf_sweep *sweep)
{
    uv_timer_start(&sweep->pause, on_patience_over, PATIENCE_MS, 0);
}

static void
on_deadline(uv_timer_t *timer)
{
    struct cf_sweep *sweep = timer->data;

    sweep->is_over_time = true;
    uv_timer_stop(&sweep->pause);
    if (sweep->in_flight == 0)
        finish(sweep, false);
    else
        cancel_calls(sweep);
}

static struct slot *
take_slot(struct cf_sweep *sweep)
{
    for (int i = 0; i < SLOTS; i++) {
        if (sweep->slots[i].call == NULL)
            return &sweep->slots[i];
    }
    return NULL;
}

/* Canceled, and not by us: the engine is being closed and must not be asked again. */
static void
note_closing(struct cf_sweep *sweep, int status, const struct cf_error *err)
{
    if (status < 0 && err->kind == CF_ERROR_CANCELED && !sweep->is_impatient)
        sweep->is_over_time = true;
}

static void
free_slot(struct slot *slot)
{
    slot->call = NULL;
    slot->item = NULL;
    slot->sweep->in_flight--;
}

/* ---- removing ------------------------------------------------------------------------ */

static void
keep_why(struct cf_sweep *sweep, json_t *item, const char *why)
{
    json_t *stuck = json_copy(item);

    sweep->has_failed = true;
    (void)json_object_set_new(stuck, "why", json_string(why));
    (void)json_object_set_new(sweep->stuck, cf_json_str(item, "id"), stuck);
}

static void
removing_over(struct cf_sweep *sweep)
{
    uv_timer_stop(&sweep->pause);
    if (sweep->has_failed) {
        pass_later(sweep);
    } else {
        sweep->pause_ms = 0;
        pass_again(sweep, 0);
    }
}

static void
on_removed(void *user, int status, const struct cf_engine_reply *reply,
           const struct cf_error *err)
{
    struct slot *slot = user;
    struct cf_sweep *sweep = slot->sweep;
    json_t *item = slot->item;

    note_closing(sweep, status, err);
    if (status < 0 && err->kind != CF_ERROR_NOT_FOUND) {
        keep_why(sweep, item,
                 err->kind == CF_ERROR_CANCELED ? "the engine did not answer in time"
                                                : err->text);
    } else {
        if (status == 0 && reply->http_status != 404) /* else somebody else was faster */
            (void)json_array_append(sweep->result.removed, item);
        (void)json_object_del(sweep->stuck, cf_json_str(item, "id"));
    }
    free_slot(slot);
    if (!sweep->is_impatient && !sweep->is_over_time)
        be_patient(sweep);
    remove_more(sweep);
}

static int
remove_one(struct slot *slot, struct cf_error *err)
{
    struct cf_engine *engine = slot->sweep->engine;
    const char *kind = cf_json_str(slot->item, "kind"), *id = cf_json_str(slot->item, "id");

    if (strcmp(kind, "container") == 0)
        return cf_engine_container_remove(engine, id, on_removed, slot, &slot->call, err);
    if (strcmp(kind, "network") == 0)
        return cf_engine_network_remove(engine, id, on_removed, slot, &slot->call, err);
    if (strcmp(kind, "volume") == 0)
        return cf_engine_volume_remove(engine, id, on_removed, slot, &slot->call, err);
    /* By force, for its tags; with its untagged parents, for those were the steps of our
     * build. */
    return cf_engine_image_remove(engine, id, /* force= */ true, /* noprune= */ false,
                                  on_removed, slot, &slot->call, err);
}

/* May `item` go while what is in flight goes? Only beside its own kind. */
static bool
is_turn_of(const struct cf_sweep *sweep, const json_t *item)
{
    for (int i = 0; i < SLOTS; i++) {
        if (sweep->slots[i].item != NULL &&
            !cf_str_same(cf_json_str(sweep->slots[i].item, "kind"), cf_json_str(item, "kind")))
            return false;
    }
    return true;
}

static void
remove_more(struct cf_sweep *sweep)
{
    struct cf_error err = {0};
    struct slot *slot;

    while (!sweep->is_over_time && !sweep->is_impatient &&
           sweep->next < json_array_size(sweep->todo) && (slot = take_slot(sweep)) != NULL) {
        json_t *item = json_array_get(sweep->todo, sweep->next);
        if (!is_turn_of(sweep, item))
            break;
        sweep->next++;
        slot->item = item;
        if (remove_one(slot, &err) < 0) {
            slot->call = NULL;
            slot->item = NULL;
            keep_why(sweep, item, err.text);
            continue;
        }
        sweep->in_flight++;
    }
    if (sweep->in_flight == 0)
        removing_over(sweep);
}

/* ---- listing ------------------------------------------------------------------------- */

/* All four have answered. */
static void
judge_listing(struct cf_sweep *sweep)
{
    bool is_quiet = cf_clock_ms() - sweep->began_ms >= sweep->rule.quiet_ms;
    int needed = sweep->rule.clean_passes > 0 ? sweep->rule.clean_passes : 1;

    if (sweep->has_failed) {
        pass_later(sweep);
        return;
    }
    if (sweep->rule.dry_run) {
        finish(sweep, json_array_size(sweep->todo) == 0);
        return;
    }
    if (json_array_size(sweep->todo) == 0) {
        if (++sweep->clean_passes >= needed && is_quiet)
            finish(sweep, true);
        else
            pass_again(sweep, is_quiet ? 0 : 100);
        return;
    }
    sweep->clean_passes = 0;
    sweep->next = 0;
    be_patient(sweep);
    remove_more(sweep);
}

static void
take_entry(struct cf_sweep *sweep, enum cf_resource_kind kind, const json_t *entry)
{
    struct cf_resource resource;

    if (!cf_resource_read(kind, entry, &resource))
        return;
    if (sweep->rule.wants != NULL && !sweep->rule.wants(sweep->rule.user, &resource))
        return;
    (void)json_array_append_new(
        sweep->todo, cf_resource_json(cf_resource_name(kind), resource.id, resource.name));
}

/* Listings come back in any order, removal goes by kind: a stable sort by picking. */
static void
sort_todo(struct cf_sweep *sweep)
{
    json_t *sorted = json_array(), *item;
    size_t i;

    for (int kind = 0; kind < CF_RESOURCE_KINDS; kind++) {
        json_array_foreach(sweep->todo, i, item) {
            if (cf_str_same(cf_json_str(item, "kind"), cf_resource_name(kind)))
                (void)json_array_append(sorted, item);
        }
    }
    if (json_array_size(sorted) == json_array_size(sweep->todo)) {
        json_decref(sweep->todo);
        sweep->todo = sorted;
    } else {
        json_decref(
            sorted); /* out of memory: in the order it came, the next pass tries again */
    }
}

static void
listing_failed(struct cf_sweep *sweep, enum cf_resource_kind kind, const char *why)
{
    sweep->has_failed = true;
    (void)snprintf(sweep->unasked, sizeof sweep->unasked,
                   "the engine could not list %ss: %.150s", cf_resource_name(kind), why);
}

static void
on_listed(void *user, int status, const struct cf_engine_reply *reply,
          const struct cf_error *err)
{
    struct slot *slot = user;
    struct cf_sweep *sweep = slot->sweep;
    json_t *entries = NULL, *entry;
    size_t i;

    note_closing(sweep, status, err);
    if (status == 0 && slot->kind == CF_VOLUME) {
        entries = json_object_get(reply->json, "Volumes"); /* null when there are none */
        if (json_is_null(entries))
            entries = NULL;
        else if (!json_is_array(entries))
            listing_failed(sweep, slot->kind, "its answer is not a list");
    } else if (status == 0) {
        entries = reply->json;
        if (!json_is_array(entries))
            listing_failed(sweep, slot->kind, "its answer is not a list");
    } else {
        listing_failed(sweep, slot->kind,
                       err->kind == CF_ERROR_CANCELED ? "it did not answer in time"
                                                      : err->text);
    }
    json_array_foreach(entries, i, entry)
        take_entry(sweep, slot->kind, entry);
    free_slot(slot);
    if (sweep->in_flight == 0) {
        uv_timer_stop(&sweep->pause);
        sort_todo(sweep);
        judge_listing(sweep);
    }
}

static void
begin_pass(struct cf_sweep *sweep)
{
    static const char *const lists[CF_RESOURCE_KINDS] = {[CF_CONTAINER] = "containers",
                                                         [CF_NETWORK] = "networks",
                                                         [CF_VOLUME] = "volumes",
                                                         [CF_IMAGE] = "images"};
    struct cf_error err = {0};

    sweep->has_failed = sweep->is_impatient = false;
    be_patient(sweep);
    sweep->unasked[0] = '\0';
    (void)json_array_clear(sweep->todo);
    for (int kind = 0; kind < CF_RESOURCE_KINDS; kind++) {
        struct slot *slot = &sweep->slots[kind];
        slot->kind = (enum cf_resource_kind)kind;
        if (cf_engine_list(sweep->engine, lists[kind], sweep->label, on_listed, slot,
                           &slot->call, &err) < 0) {
            slot->call = NULL;
            listing_failed(sweep, slot->kind, err.text);
            continue;
        }
        sweep->in_flight++;
    }
    if (sweep->in_flight == 0) {
        uv_timer_stop(&sweep->pause);
        judge_listing(sweep);
    }
}

/* ---- the door ------------------------------------------------------------------------ */

int
cf_sweep_open_rule(uv_loop_t *loop, struct cf_engine *engine, const struct cf_sweep_rule *rule,
                   uint64_t deadline_ms, cf_sweep_done_fn *done, void *user,
                   struct cf_sweep **ret_sweep, struct cf_error *err)
{
    struct cf_sweep *sweep = calloc(1, sizeof *sweep);

    if (sweep == NULL)
        return cf_error_memory(err);
    sweep->engine = engine;
    sweep->rule = *rule;
    sweep->done = done;
    sweep->user = user;
    sweep->began_ms = cf_clock_ms();
    sweep->todo = json_array();
    sweep->stuck = json_object();
    sweep->result.removed = json_array();
    sweep->result.left = json_array();
    if (cf_str_copy(&sweep->label, rule->label, err) < 0 || sweep->todo == NULL ||
        sweep->stuck == NULL || sweep->result.removed == NULL || sweep->result.left == NULL) {
        sweep_free(sweep);
        return cf_error_memory(err);
    }
    for (int i = 0; i < SLOTS; i++)
        sweep->slots[i].sweep = sweep;
    (void)uv_timer_init(loop, &sweep->deadline); /* these two cannot fail */
    (void)uv_timer_init(loop, &sweep->pause);
    sweep->deadline.data = sweep->pause.data = sweep;
    sweep->handles_open = 2;
    uv_update_time(loop);
    uv_timer_start(&sweep->deadline, on_deadline, deadline_ms, 0);
    begin_pass(sweep);
    if (ret_sweep != NULL)
        *ret_sweep = sweep;
    return 0;
}

int
cf_sweep_open(uv_loop_t *loop, struct cf_engine *engine, const char *label,
              uint64_t deadline_ms, cf_sweep_done_fn *done, void *user,
              struct cf_sweep **ret_sweep, struct cf_error *err)
{
    struct cf_sweep_rule rule = {.label = label};

    return cf_sweep_open_rule(loop, engine, &rule, deadline_ms, done, user, ret_sweep, err);
}

void
cf_sweep_hurry(struct cf_sweep *sweep, uint64_t deadline_ms)
{
    if (!sweep->is_finished && deadline_ms < uv_timer_get_due_in(&sweep->deadline))
        uv_timer_start(&sweep->deadline, on_deadline, deadline_ms, 0);
}
