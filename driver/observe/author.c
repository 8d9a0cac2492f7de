/*
 * observe/author.c: observations that a one-shot harness authors itself, checked against their
 * closed forms, member by member, before they are told.
 */
#include "observe/normalizer.h"

#include "base/str.h"
#include "json/json.h"

#include <string.h>

/* clang-format off: tables */
static const char *const id_event[] = {"evt_", NULL};
static const char *const id_subagent[] = {"subg_", NULL};
static const char *const word_change[] = {"create", "delete", "modify", NULL};
static const char *const word_stop[] = {"end_turn",          "interrupted", "max_tokens",
                                        "max_turn_requests", "refusal",     NULL};
static const char *const word_error[] = {"validation.malformed",
                                         "validation.prompt_integrity_review_required",
                                         "validation.not_found",
                                         "validation.conflict",
                                         "validation.idempotency_conflict",
                                         "validation.idempotency_in_progress",
                                         "validation.payload_too_large",
                                         "validation.range_too_large",
                                         "auth.invalid_key",
                                         "auth.disabled_tenancy",
                                         "policy.denied",
                                         "budget.exceeded",
                                         "model.no_eligible_model",
                                         "model.credential_rejected",
                                         "model.platform_supply_unavailable",
                                         "model.platform_capacity_reached",
                                         "billing.entitlement_unavailable",
                                         "billing.usage_limit_reached",
                                         "billing.payment_required",
                                         "billing.seat_activation_unavailable",
                                         "memory.not_found",
                                         "memory.conflict",
                                         "memory.read_only",
                                         "memory.invalid_path",
                                         "memory.backend_unavailable",
                                         "memory.curation_failed",
                                         "runtime.invalid_transition",
                                         "runtime.primary_thread",
                                         "runtime.checkpoint_expired",
                                         "runtime.session_history_unavailable",
                                         "runtime.harness_unavailable",
                                         "runtime.harness_failed",
                                         "runtime.runner_unavailable",
                                         "runtime.lease_lost",
                                         "runtime.start_timeout",
                                         "runtime.provisioning_suspended",
                                         "runtime.turn_deadline_exceeded",
                                         "runtime.observation_gap",
                                         "runtime.observation_conflict",
                                         "runtime.attestation_invalid",
                                         "runtime.harness_incompatible",
                                         "runtime.internal",
                                         NULL};

#define TEXT(name, required, min, max)                              \
    {                                                               \
        name, CF_CLOSED_TEXT, required, false, min, max, NULL, NULL \
    }
#define SUBAGENT                                                       \
    {                                                                  \
        "subagent", CF_CLOSED_ID, false, true, 0, 0, id_subagent, NULL \
    }
#define END          \
    {                \
        .name = NULL \
    }

static const struct cf_closed closed_message[] = {
    TEXT("content", true, 0, INT64_MAX), /* what is too long is split, not refused */
    {"event_id", CF_CLOSED_ID, false, true, 0, 0, id_event, NULL},
    SUBAGENT,
    END,
};
static const struct cf_closed closed_tool_use[] = {
    TEXT("tool_use_id", true, 1, NAME_UNITS_MAX),
    TEXT("tool", true, 1, INT64_MAX),
    {"args", CF_CLOSED_ANY, true, false, 0, 0, NULL, NULL},
    TEXT("provider_tool_name", false, 1, NAME_UNITS_MAX),
    SUBAGENT,
    END,
};
static const struct cf_closed closed_error[] = {
    {"type", CF_CLOSED_WORD, true, false, 0, 0, word_error, NULL},
    TEXT("message", true, 0, ERROR_UNITS_MAX),
    END,
};
static const struct cf_closed closed_tool_result[] = {
    TEXT("tool_use_id", true, 1, NAME_UNITS_MAX),
    {"result", CF_CLOSED_ANY, false, false, 0, 0, NULL, NULL},
    {"error", CF_CLOSED_OBJECT, false, false, 0, 0, NULL, closed_error},
    SUBAGENT,
    END,
};
static const struct cf_closed closed_file_changed[] = {
    {"event", CF_CLOSED_WORD, true, false, 0, 0, word_change, NULL},
    TEXT("path", true, 1, PATH_UNITS_MAX),
    END,
};
static const struct cf_closed closed_finished[] = {
    {"stop_reason", CF_CLOSED_WORD, true, false, 0, 0, word_stop, NULL},
    {"vendor_reported_cost_microusd", CF_CLOSED_COUNT, false, true, 0, INT64_MAX, NULL, NULL},
    {"turn", CF_CLOSED_OBJECT, false, true, 0, 0, NULL, cf_closed_turn},
    END,
};
static const struct cf_closed closed_root[] = {
    TEXT("type", true, 1, INT64_MAX),
    {"payload", CF_CLOSED_ANY, true, false, 0, 0, NULL, NULL},
    END,
};

static const struct {
    enum cf_observation_type type;
    const struct cf_closed *members;
} forms[] = {
    {CF_OBSERVATION_AGENT_MESSAGE, closed_message},
    {CF_OBSERVATION_AGENT_THINKING, closed_message},
    {CF_OBSERVATION_TOOL_USE, closed_tool_use},
    {CF_OBSERVATION_TOOL_RESULT, closed_tool_result},
    {CF_OBSERVATION_FILE_CHANGED, closed_file_changed},
    {CF_OBSERVATION_CONTEXT_COMPACTED, cf_closed_compaction},
    {CF_OBSERVATION_FINISHED, closed_finished},
};

/* clang-format on */

/* The rule a table cannot say: the harness's own tools are harness:NAME. */
static int
check_tool(json_t *payload, struct cf_error *err)
{
    json_t *tool = json_object_get(payload, "tool");
    const char *name = json_string_value(tool);
    size_t len = json_string_length(tool);

    if (cf_str_starts(name, "harness:") && len > 8 && !tool_has_space(name, len))
        return 0;
    (void)cf_error_set(err, CF_ERROR_HARNESS, 0,
                       "/payload/tool must be harness:NAME without white space");
    return cf_error_fix(err, "tools of the harness's own are named harness:NAME");
}

static void
tell_as_it_is(struct cf_normalizer *n, json_t *object, struct cf_observation *view)
{
    const char *name;
    json_t *value;

    text_boundary(n);
    obs_begin(n, (enum cf_observation_type)view->type);
    json_object_foreach(json_object_get(object, "payload"), name, value)
        obs_tree(n, name, value);
    n->has_tool = n->has_tool || view->type == CF_OBSERVATION_TOOL_USE;
    obs_end(n, view);
}

static void
tell_authored(struct cf_normalizer *n, enum cf_observation_type type, json_t *object,
              uint64_t line)
{
    json_t *payload = json_object_get(object, "payload");
    struct cf_observation view = {.type = type,
                                  .frame = line,
                                  .tool_use_id = cf_json_str(payload, "tool_use_id"),
                                  .subagent = cf_json_str(payload, "subagent"),
                                  .detail =
                                      cf_json_str(cf_json_obj(payload, "error"), "type")};

    switch (type) {
    case CF_OBSERVATION_AGENT_MESSAGE:
        text_whole(n, TEXT_MESSAGE, payload, line);
        break;
    case CF_OBSERVATION_AGENT_THINKING:
        text_whole(n, TEXT_THINKING, payload, line);
        break;
    case CF_OBSERVATION_FILE_CHANGED:
        obs_file_changed(n, cf_json_str(payload, "event"), cf_json_str(payload, "path"), line);
        break;
    case CF_OBSERVATION_FINISHED:
        n->held_finished = json_incref(payload); /* told when the process has ended */
        break;
    default:
        tell_as_it_is(n, object, &view);
        break;
    }
}

int
cf_normalizer_object(struct cf_normalizer *n, json_t *object, uint64_t line,
                     struct cf_error *err)
{
    json_t *payload = json_object_get(object, "payload");
    const char *type = cf_json_str(object, "type");
    size_t form = 0;

    if (cf_closed_check(object, "", closed_root, CF_ERROR_HARNESS, err) < 0)
        return -1;
    while (form < CF_COUNT(forms) &&
           strcmp(cf_observation_type_name(forms[form].type), type) != 0)
        form++;
    if (form == CF_COUNT(forms))
        return cf_error_set(err, CF_ERROR_HARNESS, 0,
                            "/type \"%.80s\" is not one a harness may author", type);
    if (n->held_finished != NULL || n->is_closed)
        return cf_error_set(err, CF_ERROR_HARNESS, 0, "%s comes after observation.finished",
                            type);
    if (cf_closed_check(payload, "/payload", forms[form].members, CF_ERROR_HARNESS, err) < 0)
        return -1;
    if (forms[form].type == CF_OBSERVATION_TOOL_USE && check_tool(payload, err) < 0)
        return -1;
    tell_authored(n, forms[form].type, object, line);
    return 0;
}
