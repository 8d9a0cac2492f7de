/*
 * observe/turn.c: the frame around a turn: ready, what the runner itself says, and the
 * terminal.
 *
 * Order at the end: text, calls that were held back, subagents, exactly one terminal, nothing
 * after it.
 */
#include "observe/normalizer.h"

#include "base/ids.h"
#include "base/str.h"
#include "base/utf8.h"
#include "json/json.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define COST_MICROUSD_MAX 9.0e15

struct cf_normalizer *
cf_normalizer_new(const struct cf_normalizer_options *options)
{
    static const uint8_t no_seed[sizeof options->seed];
    struct cf_normalizer *n = calloc(1, sizeof *n);

    if (n == NULL)
        return NULL;
    n->options = *options;
    if (memcmp(options->seed, no_seed, sizeof no_seed) == 0)
        cf_random(n->options.seed, sizeof n->options.seed);
    n->tool_index = json_object();
    n->use_ids = json_object();
    n->subagents = json_object();
    n->open_subagents = json_object();
    n->files = json_object();
    if (n->tool_index == NULL || n->use_ids == NULL || n->subagents == NULL ||
        n->open_subagents == NULL || n->files == NULL) {
        cf_normalizer_free(n);
        return NULL;
    }
    return n;
}

void
cf_normalizer_free(struct cf_normalizer *n)
{
    if (n == NULL)
        return;
    tools_release(n);
    json_decref(n->tool_index);
    json_decref(n->use_ids);
    json_decref(n->subagents);
    json_decref(n->open_subagents);
    json_decref(n->files);
    json_decref(n->held_finished);
    cf_buf_release(&n->out);
    cf_buf_release(&n->run.text);
    cf_buf_release(&n->last.text);
    free(n->run.message_id);
    free(n->last.message_id);
    free(n);
}

const uint8_t *
cf_normalizer_seed(const struct cf_normalizer *n)
{
    return n->options.seed;
}

bool
cf_normalizer_is_lost(const struct cf_normalizer *n)
{
    return n->is_lost;
}

void
cf_normalizer_declare(struct cf_normalizer *n, const struct cf_declaration *declaration)
{
    n->declaration = *declaration;
}

/* ---- what the runner says ---- */

static void
tell_tree(struct cf_normalizer *n, enum cf_observation_type type, const char *member,
          json_t *value, struct cf_observation *view)
{
    view->type = type;
    obs_begin(n, type);
    obs_tree(n, member, value);
    obs_end(n, view);
}

void
cf_normalizer_ready(struct cf_normalizer *n, json_t *capability_set, uint64_t frame)
{
    struct cf_observation view = {.frame = frame};

    tell_tree(n, CF_OBSERVATION_READY, "capability_set", capability_set, &view);
}

/* The output is cut to its bound, which its own mark says; every other member is the caller's.
 */
void
cf_normalizer_hook(struct cf_normalizer *n, json_t *payload)
{
    struct cf_observation view = {.type = CF_OBSERVATION_LIFECYCLE_HOOK};
    json_t *output = json_object_get(payload, "output"), *value;
    const char *text = json_string_value(output), *name;
    size_t len = json_string_length(output);
    size_t keep = text == NULL ? 0 : cf_utf16_prefix(text, len, HOOK_UNITS_MAX);

    view.detail = cf_json_str(payload, "outcome");
    obs_begin(n, CF_OBSERVATION_LIFECYCLE_HOOK);
    json_object_foreach(payload, name, value) {
        if (value == output && keep < len)
            obs_string(n, name, text, keep);
        else if (strcmp(name, "output_truncated") == 0 && keep < len)
            obs_tree(n, name, json_true());
        else
            obs_tree(n, name, value);
    }
    n->shortened += keep < len;
    obs_end(n, &view);
}

void
cf_normalizer_steering(struct cf_normalizer *n, const char *event_id, const char *disposition,
                       uint64_t frame)
{
    struct cf_observation view = {.type = CF_OBSERVATION_STEERING,
                                  .frame = frame,
                                  .detail = event_id,
                                  .text = disposition,
                                  .text_len = strlen(disposition)};

    text_flush(n);
    obs_begin(n, CF_OBSERVATION_STEERING);
    obs_string(n, "event_id", event_id, strlen(event_id));
    obs_string(n, "disposition", disposition, strlen(disposition));
    obs_end(n, &view);
}

/* Once per path and event in a turn, whoever noticed it first. */
void
obs_file_changed(struct cf_normalizer *n, const char *event, const char *path, uint64_t frame)
{
    struct cf_observation view = {
        .type = CF_OBSERVATION_FILE_CHANGED, .frame = frame, .detail = event};
    cf_auto_free char *key = NULL;

    if (*path == '\0' || n->is_closed)
        return;
    if (asprintf(&key, "%s %s", event, path) < 0) {
        key = NULL;
        n->is_lost = true;
        return;
    }
    if (json_object_get(n->files, key) != NULL)
        return;
    if (json_object_size(n->files) >= FILES_MAX) {
        obs_finding(n, "table_full", frame,
                    "more than %u changed files in one turn: the rest is not reported",
                    FILES_MAX);
        return;
    }
    (void)json_object_set_new(n->files, key, json_true());
    text_flush(n);
    obs_begin(n, CF_OBSERVATION_FILE_CHANGED);
    obs_string(n, "event", event, strlen(event));
    obs_bounded(n, "path", path, strlen(path), PATH_UNITS_MAX, frame);
    obs_end(n, &view);
}

bool
cf_normalizer_has_file(const struct cf_normalizer *n, const char *event, const char *path)
{
    cf_auto_free char *key = NULL;

    return asprintf(&key, "%s %s", event, path) >= 0 && json_object_get(n->files, key) != NULL;
}

void
cf_normalizer_file_changed(struct cf_normalizer *n, const char *event, const char *path)
{
    obs_file_changed(n, event, path, 0);
}

/* ---- the turn ---- */

void
cf_normalizer_turn_begin(struct cf_normalizer *n)
{
    if (!n->is_closed)
        cf_normalizer_flush(n, 0);
    n->turn++;
    n->first_of_turn = n->tool_count;
    n->is_closed = n->has_terminal = n->has_tool = false;
    n->cost_base = n->cost_now;
    (void)json_object_clear(n->files);
    (void)json_object_clear(n->open_subagents);
    json_decref(n->held_finished);
    n->held_finished = NULL;
    text_turn_begin(n);
}

void
cf_normalizer_flush(struct cf_normalizer *n, uint64_t frame)
{
    text_boundary(n);
    if (!n->is_closed)
        tools_tell_held(n, frame);
}

/* Everything that belongs before the turn's last word. */
static void
close_turn(struct cf_normalizer *n, const char *subagents_end_as, uint64_t frame)
{
    if (n->is_closed)
        return;
    cf_normalizer_flush(n, frame);
    tools_end_turn(n, frame);
    if (subagents_end_as != NULL)
        meta_settle_subagents(n, subagents_end_as, frame);
    n->is_closed = true;
}

void
cf_normalizer_requires_action(struct cf_normalizer *n, json_t *action, uint64_t frame)
{
    struct cf_observation view = {.frame = frame,
                                  .detail = cf_json_str(action, "kind"),
                                  .tool_use_id = cf_json_str(action, "tool_use_id")};

    if (n->is_closed)
        return;
    close_turn(n, "canceled", frame);
    tell_tree(n, CF_OBSERVATION_REQUIRES_ACTION, "action", action, &view);
}

/* False when this turn has had its terminal. */
static bool
open_terminal(struct cf_normalizer *n, uint64_t frame)
{
    if (n->has_terminal) {
        obs_finding(n, "second_terminal", frame,
                    "the turn had ended already; its second end was dropped");
        return false;
    }
    n->has_terminal = true;
    return true;
}

static void
add_cost(struct cf_normalizer *n, uint64_t frame)
{
    double micro = round((n->cost_now - n->cost_base) * 1e6);

    if (!n->has_cost)
        return;
    if (micro < 0 || micro > COST_MICROUSD_MAX) {
        obs_finding(n, "cost_ignored", frame,
                    "the cumulative cost fell during the turn; none is reported");
        return;
    }
    obs_member(n, "vendor_reported_cost_microusd");
    (void)cf_buf_addf(&n->out, "%lld", (long long)micro);
}

static void
add_turn(struct cf_normalizer *n, json_t *turn_meta, uint64_t frame)
{
    struct cf_error why;

    if (turn_meta == NULL)
        return;
    if (cf_slot_check(CF_SLOT_TURN, turn_meta, &why) < 0)
        obs_finding(n, "undecodable_meta", frame, "%s", why.text);
    else
        obs_tree(n, "turn", turn_meta);
}

/* What the harness itself said at its end, with our word instead of its reason where we
 * interrupted it. */
static void
tell_held(struct cf_normalizer *n, const char *reason, struct cf_observation *view)
{
    const char *name;
    json_t *value;

    obs_begin(n, CF_OBSERVATION_FINISHED);
    json_object_foreach(n->held_finished, name, value) {
        if (strcmp(name, "stop_reason") == 0)
            obs_string(n, name, reason, strlen(reason));
        else
            obs_tree(n, name, value);
    }
    obs_end(n, view);
}

void
cf_normalizer_finished(struct cf_normalizer *n, const char *stop_reason, json_t *turn_meta,
                       uint64_t frame)
{
    const char *held = cf_json_str(n->held_finished, "stop_reason");
    const char *reason = stop_reason != NULL ? stop_reason : "end_turn";
    struct cf_observation view = {.type = CF_OBSERVATION_FINISHED, .frame = frame};

    if (held != NULL && strcmp(reason, "interrupted") != 0)
        reason = held;
    if (!open_terminal(n, frame))
        return;
    close_turn(n, strcmp(reason, "interrupted") == 0 ? "canceled" : NULL, frame);
    if (!n->has_text && !n->has_tool && strcmp(reason, "end_turn") == 0)
        obs_finding(n, "empty_turn", frame,
                    "the turn ended without a message and without a tool call");
    view.detail = reason;
    if (held != NULL) {
        tell_held(n, reason, &view);
        return;
    }
    obs_begin(n, CF_OBSERVATION_FINISHED);
    obs_string(n, "stop_reason", reason, strlen(reason));
    add_cost(n, frame);
    add_turn(n, turn_meta, frame);
    obs_end(n, &view);
}

void
cf_normalizer_failed(struct cf_normalizer *n, const struct cf_error *error, bool is_retryable,
                     uint64_t frame)
{
    struct cf_observation view = {
        .frame = frame, .text = error->text, .text_len = strlen(error->text)};

    if (!open_terminal(n, frame))
        return;
    close_turn(n, "failed", frame);
    view.type = is_retryable ? CF_OBSERVATION_RETRYABLE_FAILURE : CF_OBSERVATION_FAILED;
    view.detail = cf_error_type(error->kind);
    obs_begin(n, (enum cf_observation_type)view.type);
    obs_error(n, view.detail, error->text, strlen(error->text), frame);
    obs_end(n, &view);
}

bool
cf_normalizer_has_finished(const struct cf_normalizer *n)
{
    return n->held_finished != NULL;
}

json_t *
cf_normalizer_counts(const struct cf_normalizer *n)
{
    json_t *counts = json_object();

    for (uint32_t type = 1; counts != NULL && type < CF_COUNT(n->counts); type++)
        if (n->counts[type] > 0)
            (void)json_object_set_new(counts,
                                      cf_observation_type_name(type) + strlen("observation."),
                                      json_integer((json_int_t)n->counts[type]));
    return counts;
}

uint64_t
cf_normalizer_shortened(const struct cf_normalizer *n)
{
    return n->shortened;
}
