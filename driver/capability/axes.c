/*
 * capability/axes.c: the axes of a capability set, the server's envelopes, and the three
 * promotions a declaration can earn.
 */
#include "capability/tables.h"

#include "base/str.h"
#include "json/json.h"

#include <string.h>

/* clang-format off: tables */
const struct cf_axis_row cf_axis_rows[CF_AXIS_COUNT] = {
    {"event_fidelity", {"minimal", "text_only", "structured", "native"}},
    {"continuation", {"rebuild_only", "next_turn", "in_flight"}},
    {"checkpoint", {"none", "conversation_only", "disk_only", "process_and_disk"}},
    {"approval_delivery", {"unsupported", "end_reinject", "snapshot_release", "park"}},
    {"interrupt", {"kill_only", "cooperative"}},
    {"mid_run_input", {"unsupported", "turn_boundary_only", "native"}},
    {"model_control", {"harness_owned", "opaque", "compatible", "platform_enforced"}},
    {"usage_authority", {"unknown", "harness_reported", "platform_observed"}},
    {"multiagent_shared_environment", {"false", "true"}},
    {"subagents", {"observed"}}, /* above being absent */
};

/* clang-format on */

static bool
declares_subagents(const struct cf_declaration *declaration)
{
    return declaration->subagents;
}

static bool
declares_steer(const struct cf_declaration *declaration)
{
    return declaration->steer;
}

static bool
declares_interrupt(const struct cf_declaration *declaration)
{
    return declaration->interrupt;
}

/* clang-format off: tables */
const struct cf_promotion_row cf_promotion_rows[CF_PROMOTION_COUNT] = {
    {"subagents",
     "observed",
     CF_AXIS_SUBAGENTS,
     NULL,
     "observed",
     {"observation.subagent_started", "observation.subagent_completed"},
     declares_subagents},
    {"steer",
     "native",
     CF_AXIS_MID_RUN_INPUT,
     "unsupported",
     "native",
     {"observation.steering"},
     declares_steer},
    {"interrupt",
     "cooperative",
     CF_AXIS_INTERRUPT,
     "kill_only",
     "cooperative",
     {NULL},
     declares_interrupt},
};

#define ACP_VALUES(checkpoint)                                                                \
    {                                                                                         \
        "structured", "rebuild_only", checkpoint, "end_reinject", "kill_only", "unsupported", \
            "platform_enforced", "platform_observed", "true", NULL                            \
    }

const struct cf_envelope_row cf_envelope_rows[2] = {
    {CF_DRIVER_ACP, "durable", ACP_VALUES("disk_only")},
    {CF_DRIVER_ACP, "ephemeral_zdr", ACP_VALUES("none")},
};

/* clang-format on */

int
cf_axis_level(int axis, const char *value)
{
    if (axis == CF_AXIS_SUBAGENTS && value == NULL)
        return 0;
    for (int i = 0; value != NULL && cf_axis_rows[axis].values[i] != NULL; i++)
        if (strcmp(cf_axis_rows[axis].values[i], value) == 0)
            return i + (axis == CF_AXIS_SUBAGENTS);
    return -1;
}

json_t *
cf_capability_set_make(const char *const values[CF_AXIS_COUNT])
{
    json_t *set = json_object();

    for (int i = 0; i < CF_AXIS_COUNT; i++) {
        if (values[i] == NULL)
            continue;
        json_t *value = i == CF_AXIS_SHARED ? json_boolean(strcmp(values[i], "true") == 0)
                                            : json_string(values[i]);
        if (json_object_set_new(set, cf_axis_rows[i].name, value) < 0) {
            json_decref(set);
            return NULL;
        }
    }
    return set;
}

json_t *
cf_envelope_acp(bool is_ephemeral)
{
    return cf_capability_set_make(cf_envelope_rows[is_ephemeral ? 1 : 0].values);
}

json_t *
cf_envelope_oneshot(bool is_ephemeral, bool is_stream_json, bool has_resume_flag)
{
    const char *const values[CF_AXIS_COUNT] = {
        is_stream_json ? "structured" : "text_only",
        has_resume_flag ? "next_turn" : "rebuild_only",
        has_resume_flag && !is_ephemeral ? "disk_only" : "none",
        "unsupported",
        "kill_only",
        has_resume_flag ? "turn_boundary_only" : "unsupported",
        "platform_enforced",
        "platform_observed",
        "false",
        NULL,
    };

    return cf_capability_set_make(values);
}

/* Whether the set stands at the level the promotion starts from; absent is such a level. */
static bool
stands_at(json_t *set, const struct cf_promotion_row *row)
{
    const char *value = cf_json_str(set, cf_axis_rows[row->axis].name);

    return row->from == NULL ? value == NULL : cf_str_same(value, row->from);
}

json_t *
cf_declaration_admit(json_t *envelope, const struct cf_declaration *declaration)
{
    json_t *set = json_copy(envelope); /* values are shared; members are only replaced */

    for (int i = 0; set != NULL && i < CF_PROMOTION_COUNT; i++) {
        const struct cf_promotion_row *row = &cf_promotion_rows[i];
        if (!row->is_declared(declaration) || !stands_at(set, row))
            continue;
        if (json_object_set_new(set, cf_axis_rows[row->axis].name, json_string(row->to)) < 0) {
            json_decref(set);
            return NULL;
        }
    }
    return set;
}
