/*
 * observe/meta.c: the Checkfu members of an update's _meta: subagents, compaction,
 * checkpoints.
 *
 * Fidelity is fail-open: what does not decode, and what nobody knows, is ignored and counted.
 * The agent's own subagent ids never leave: each gets a minted one, for the whole run.
 */
#include "observe/normalizer.h"

#include "base/str.h"
#include "json/json.h"

#include <string.h>

/* The minted id of an agent's id; NULL when the table is full or memory ran out. */
static const char *
minted(struct cf_normalizer *n, const char *id, uint64_t frame)
{
    const char *known = cf_json_str(n->subagents, id);
    char made[MINTED_SIZE];

    if (known != NULL)
        return known;
    if (json_object_size(n->subagents) >= SUBAGENTS_MAX) {
        obs_finding(n, "table_full", frame, "more than %u subagents: no more are reported",
                    SUBAGENTS_MAX);
        return NULL;
    }
    obs_mint(n, "subg_", made);
    if (json_object_set_new(n->subagents, id, json_string(made)) < 0)
        n->is_lost = true;
    return cf_json_str(n->subagents, id);
}

void
meta_started(struct cf_normalizer *n, json_t *value, uint64_t frame)
{
    struct cf_observation view = {.type = CF_OBSERVATION_SUBAGENT_STARTED, .frame = frame};
    json_t *description = json_object_get(value, "description");
    json_t *name = json_object_get(value, "name");

    view.subagent = minted(n, cf_json_str(value, "subagent"), frame);
    if (view.subagent == NULL)
        return;
    text_boundary(n);
    obs_begin(n, CF_OBSERVATION_SUBAGENT_STARTED);
    obs_string(n, "subagent", view.subagent, strlen(view.subagent));
    obs_string(n, "name", json_string_value(name), json_string_length(name));
    if (description != NULL)
        obs_bounded(n, "description", json_string_value(description),
                    json_string_length(description), DESCRIPTION_UNITS_MAX, frame);
    (void)json_object_set_new(n->open_subagents, view.subagent, json_true());
    obs_end(n, &view);
}

static void
tell_completed(struct cf_normalizer *n, const char *subagent, const char *disposition,
               uint64_t frame)
{
    struct cf_observation view = {.type = CF_OBSERVATION_SUBAGENT_COMPLETED,
                                  .frame = frame,
                                  .subagent = subagent,
                                  .detail = disposition};

    obs_begin(n, CF_OBSERVATION_SUBAGENT_COMPLETED);
    obs_string(n, "subagent", subagent, strlen(subagent));
    obs_string(n, "disposition", disposition, strlen(disposition));
    obs_end(n, &view);
}

void
meta_completed(struct cf_normalizer *n, json_t *value, uint64_t frame)
{
    const char *subagent = minted(n, cf_json_str(value, "subagent"), frame);

    if (subagent == NULL)
        return;
    text_boundary(n);
    (void)json_object_del(n->open_subagents, subagent);
    tell_completed(n, subagent, cf_json_str(value, "disposition"), frame);
}

void
meta_settle_subagents(struct cf_normalizer *n, const char *disposition, uint64_t frame)
{
    const char *subagent;
    json_t *value;

    json_object_foreach(n->open_subagents, subagent, value) {
        obs_finding(n, "subagent_settled", frame,
                    "a subagent was still open when the turn ended and counts as %s",
                    disposition);
        tell_completed(n, subagent, disposition, frame);
    }
    (void)json_object_clear(n->open_subagents);
}

static void
read_subagent(struct cf_normalizer *n, json_t *value, struct update_meta *ret, uint64_t frame)
{
    struct cf_error why;
    const char *phase = cf_json_str(value, "phase");

    if (cf_slot_check(CF_SLOT_SUBAGENT, value, &why) < 0) {
        obs_finding(n, "undecodable_meta", frame, "%s", why.text);
    } else if (strcmp(phase, "started") == 0) {
        ret->started = value;
    } else if (strcmp(phase, "completed") == 0) {
        ret->completed = value;
    } else {
        const char *id = minted(n, cf_json_str(value, "subagent"), frame);
        if (id != NULL)
            memcpy(ret->subagent, id, strlen(id) + 1);
    }
}

static void
read_compaction(struct cf_normalizer *n, json_t *value, uint64_t frame)
{
    struct cf_observation view = {.type = CF_OBSERVATION_CONTEXT_COMPACTED, .frame = frame};
    const char *name;
    json_t *member;
    struct cf_error why;

    if (cf_slot_check(CF_SLOT_COMPACTION, value, &why) < 0) {
        obs_finding(n, "undecodable_meta", frame, "%s", why.text);
        return;
    }
    if (n->is_closed)
        return;
    text_boundary(n);
    obs_begin(n, CF_OBSERVATION_CONTEXT_COMPACTED);
    json_object_foreach(value, name, member)
        obs_tree(n, name, member);
    obs_end(n, &view);
}

static void
read_checkpoint(struct cf_normalizer *n, json_t *value, uint64_t frame)
{
    struct cf_error why;

    if (cf_slot_check(CF_SLOT_JOURNAL_CHECKPOINT, value, &why) < 0)
        obs_finding(n, "undecodable_meta", frame, "%s", why.text);
    else if (n->options.on_checkpoint != NULL)
        n->options.on_checkpoint(n->options.user,
                                 json_object_get(value, "too_large") ? NULL : value, frame);
}

static void
note_unknown(struct cf_normalizer *n, json_t *meta, uint64_t frame)
{
    const char *name;
    json_t *value;

    json_object_foreach(meta, name, value)
        if (cf_str_starts(name, "checkfu.") && !cf_slot_is_known(name))
            obs_finding(n, "unknown_meta", frame,
                        "%.120s is not a slot of this contract and was ignored", name);
}

static void
note_misplaced(struct cf_normalizer *n, json_t *meta, uint64_t frame)
{
    const char *name;
    json_t *value;

    json_object_foreach(meta, name, value)
        if (cf_str_starts(name, "checkfu."))
            obs_finding(n, "misplaced_meta", frame,
                        "%.120s was ignored: it belongs into update._meta", name);
}

void
meta_read(struct cf_normalizer *n, json_t *params, json_t *update, struct update_meta *ret,
          uint64_t frame)
{
    json_t *meta = cf_json_obj(update, "_meta");
    json_t *subagent = cf_slot_find(CF_SLOT_SUBAGENT, meta);
    json_t *compaction = cf_slot_find(CF_SLOT_COMPACTION, meta);
    json_t *checkpoint = cf_slot_find(CF_SLOT_JOURNAL_CHECKPOINT, meta);

    memset(ret, 0, sizeof *ret);
    note_misplaced(n, cf_json_obj(params, "_meta"), frame);
    if (meta == NULL)
        return;
    note_unknown(n, meta, frame);
    if (subagent != NULL)
        read_subagent(n, subagent, ret, frame);
    if (compaction != NULL)
        read_compaction(n, compaction, frame);
    if (checkpoint != NULL)
        read_checkpoint(n, checkpoint, frame);
}
