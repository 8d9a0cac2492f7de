/*
 * capability/catalog.c: the harness catalog of the contract page, and its matrices.
 *
 * Reachability is derived from declared dialects and provider dialects, never stored; ceilings
 * are checked against envelope plus admission before anything is published.
 */
#include "capability/slots.h"
#include "capability/tables.h"

#include "base/str.h"
#include "json/json.h"

#include <string.h>

/* clang-format off: tables */
#define REQUIRED "image_required", "bring_your_own_image"
#define BLOCKED "blocked", "blocked"
#define GATEWAY "platform_model_gateway"
#define UNPROVEN "none", "preflight_required"
#define PACKAGED "packaged", "image_required", "acp-v1", CF_DRIVER_ACP

#define CEILING(control, usage, shared, subagents)                              \
    {                                                                           \
        "structured", "rebuild_only", "disk_only", "end_reinject", "kill_only", \
            "unsupported", control, usage, shared, subagents                    \
    }
#define ENFORCED "platform_enforced", "platform_observed"

#define ANTHROPIC CF_DIALECT_ANTHROPIC_MESSAGES
#define CHAT CF_DIALECT_OPENAI_CHAT
#define RESPONSES CF_DIALECT_OPENAI_RESPONSES

const struct cf_harness_row cf_harness_rows[CF_HARNESS_COUNT] = {
    {"hermes",
     REQUIRED,
     GATEWAY,
     "session_http",
     UNPROVEN,
     PACKAGED,
     CEILING("platform_enforced", "platform_observed", "false", NULL),
     {CHAT}},
    {"pi",
     REQUIRED,
     GATEWAY,
     "session_http",
     UNPROVEN,
     PACKAGED,
     CEILING("platform_enforced", "platform_observed", "false", NULL),
     {RESPONSES, CHAT, ANTHROPIC}},
    {"openclaw",
     BLOCKED,
     GATEWAY,
     "none",
     UNPROVEN,
     "packaged",
     "blocked",
     "acp-v1",
     CF_DRIVER_ACP,
     CEILING("platform_enforced", "platform_observed", "false", NULL),
     {RESPONSES}},
    {"opencode",
     REQUIRED,
     GATEWAY,
     "session_http",
     UNPROVEN,
     PACKAGED,
     CEILING("platform_enforced", "platform_observed", "false", NULL),
     {RESPONSES}},
    {"cursor",
     REQUIRED,
     "harness_owned_model",
     "session_http",
     UNPROVEN,
     PACKAGED,
     CEILING("harness_owned", "unknown", "false", NULL),
     {0}},
    {"claude-code",
     REQUIRED,
     GATEWAY,
     "session_http",
     UNPROVEN,
     PACKAGED,
     CEILING("platform_enforced", "platform_observed", "false", "observed"),
     {ANTHROPIC}},
    {"codex",
     REQUIRED,
     GATEWAY,
     "session_http",
     UNPROVEN,
     PACKAGED,
     CEILING("platform_enforced", "platform_observed", "false", NULL),
     {RESPONSES}},
    {"checkfu",
     REQUIRED,
     GATEWAY,
     "session_http",
     UNPROVEN,
     PACKAGED,
     CEILING("platform_enforced", "platform_observed", "true", "observed"),
     {RESPONSES, CHAT, ANTHROPIC}},
    {"openclaw-connected",
     BLOCKED,
     "connected_runtime",
     "undeclared",
     UNPROVEN,
     "connected",
     "blocked",
     NULL,
     "connected runtime",
     {"structured", "rebuild_only", "none", "unsupported", "cooperative", "unsupported",
      "opaque", "unknown", "false", NULL},
     {0}},
};

/* clang-format on */

static unsigned
dialects_of(const struct cf_harness_row *row)
{
    return row->dialects[0] | row->dialects[1] | row->dialects[2];
}

static const char *
reach(const struct cf_harness_row *row, unsigned provider_dialects)
{
    if (dialects_of(row) == 0)
        return NULL; /* undeclared is unconstrained, not universal */
    return dialects_of(row) & provider_dialects ? "reachable" : "unreachable";
}

const char *
cf_catalog_reach(const char *harness, const char *provider)
{
    for (size_t i = 0; i < CF_COUNT(cf_harness_rows); i++)
        if (strcmp(cf_harness_rows[i].entry, harness) == 0)
            return reach(&cf_harness_rows[i], cf_provider_dialects(provider));
    return NULL;
}

/* ---- the check before publishing ---- */

/* The highest level of an axis that the driver's envelope plus admission can realize. */
static int
realizable(const char *driver, int axis)
{
    int best = -1;

    for (size_t i = 0; i < CF_COUNT(cf_envelope_rows); i++) {
        int level = cf_axis_level(axis, cf_envelope_rows[i].values[axis]);
        if (strcmp(cf_envelope_rows[i].driver, driver) == 0 && level > best)
            best = level;
    }
    for (int i = 0; i < CF_PROMOTION_COUNT; i++) {
        const struct cf_promotion_row *row = &cf_promotion_rows[i];
        if (row->axis == axis && cf_axis_level(axis, row->from) == best)
            best = cf_axis_level(axis, row->to);
    }
    return best;
}

static int
check_harness(const struct cf_harness_row *row, struct cf_error *err)
{
    unsigned served = 0;

    for (size_t i = 0; i < CF_COUNT(cf_provider_rows); i++)
        served |= cf_provider_rows[i].dialects;
    if (row->protocol == NULL)
        return 0; /* owned by its own lane */
    for (int axis = 0; axis < CF_AXIS_COUNT; axis++) {
        int level = cf_axis_level(axis, row->ceiling[axis]);
        if (level < 0 || level > realizable(row->lane, axis))
            return cf_error_set(err, CF_ERROR_INTERNAL, 0,
                                "%s: the ceiling of %s is above what %s can realize",
                                row->entry, cf_axis_rows[axis].name, row->lane);
    }
    if ((dialects_of(row) & ~served) != 0)
        return cf_error_set(err, CF_ERROR_INTERNAL, 0,
                            "%s declares a dialect that no provider serves", row->entry);
    return 0;
}

int
cf_catalog_check(struct cf_error *err)
{
    for (size_t i = 0; i < CF_COUNT(cf_harness_rows); i++)
        if (check_harness(&cf_harness_rows[i], err) < 0)
            return -1;
    for (size_t i = 0; i < CF_COUNT(cf_slot_rows); i++)
        if (cf_slot_rows[i].names[0] == NULL ||
            (cf_slot_rows[i].members == NULL && cf_slot_rows[i].check == NULL))
            return cf_error_set(err, CF_ERROR_INTERNAL, 0, "slot %zu has no decoder", i);
    return 0;
}

/* ---- as one document ---- */

static json_t *
identities_json(void)
{
    return json_pack(
        "{s:s,s:s,s:s,s:s,s:s,s:s,s:s,s:s,s:s,s:s,s:s,s:s}", "projection",
        "checkfu:harness-support@1", "catalog",
        "sha256:191a18d151b2a39df84239e5b9110df072a4d664504369f84fd726935b3485a8",
        "experience", "checkfu:harness-experience-profiles@2", "conformance",
        "checkfu:harness-conformance@9", "case_set", "checkfu:harness-conformance-case-set@6",
        "evidence_identity", "checkfu:harness-conformance-evidence-identity@2",
        "evidence_manifest", "checkfu:conformance-evidence-manifest@6", "readiness",
        "checkfu:harness-readiness@2", "acp_driver", CF_DRIVER_ACP, "oneshot_driver",
        CF_DRIVER_ONESHOT, "acp_vectors", "checkfu:acp-v1-extension-vectors@3",
        "oneshot_vectors", "checkfu:oneshot-v1-author-kit-vectors@1");
}

/* The axes on which a ceiling stands above every envelope of its driver: reachable by
 * declaration only. */
static json_t *
admitted_json(const struct cf_harness_row *row)
{
    json_t *axes = json_array();

    for (int i = 0; row->protocol != NULL && i < CF_PROMOTION_COUNT; i++) {
        const struct cf_promotion_row *up = &cf_promotion_rows[i];
        if (cf_axis_level(up->axis, row->ceiling[up->axis]) >
            cf_axis_level(up->axis, up->from))
            json_array_append_new(axes, json_string(cf_axis_rows[up->axis].name));
    }
    return axes;
}

static json_t *
names_json(const unsigned *dialects, size_t count)
{
    json_t *names = json_array();

    for (size_t i = 0; i < count; i++)
        if (dialects[i] != 0)
            json_array_append_new(names,
                                  json_string(cf_dialect_name((enum cf_dialect)dialects[i])));
    return names;
}

static json_t *
set_names_json(unsigned dialects)
{
    json_t *names = json_array();

    for (size_t i = 0; i < CF_COUNT(cf_dialect_rows); i++)
        if (dialects & cf_dialect_rows[i].dialect)
            json_array_append_new(names, json_string(cf_dialect_rows[i].name));
    return names;
}

static json_t *
reach_json(const struct cf_harness_row *row)
{
    json_t *cells = json_object();

    for (size_t i = 0; i < CF_COUNT(cf_provider_rows); i++) {
        const char *word = reach(row, cf_provider_rows[i].dialects);
        json_object_set_new(cells, cf_provider_rows[i].provider,
                            word ? json_string(word) : json_null());
    }
    return cells;
}

static json_t *
harness_json(const struct cf_harness_row *row)
{
    return json_pack(
        "{s:s,s:s,s:s,s:s,s:s,s:s,s:s,s:s,s:s,s:s?,s:s,s:o,s:o,s:o,s:o}", "entry", row->entry,
        "supply", row->supply, "adoption", row->adoption, "model_lane", row->model_lane,
        "mcp_delivery", row->mcp_delivery, "catalog_evidence", row->evidence, "tuple_support",
        row->support, "mode", row->mode, "availability", row->availability, "release_protocol",
        row->protocol, "execution_lane", row->lane, "ceiling",
        cf_capability_set_make(row->ceiling), "declaration_admitted", admitted_json(row),
        "model_wire_dialects",
        dialects_of(row) ? names_json(row->dialects, CF_COUNT(row->dialects)) : json_null(),
        "reachability", reach_json(row));
}

static json_t *
envelopes_json(void)
{
    json_t *list = json_array();

    for (size_t i = 0; i < CF_COUNT(cf_envelope_rows); i++)
        json_array_append_new(
            list, json_pack("{s:s,s:s,s:o}", "driver", cf_envelope_rows[i].driver, "retention",
                            cf_envelope_rows[i].retention, "capability_set",
                            cf_capability_set_make(cf_envelope_rows[i].values)));
    return list;
}

static json_t *
promotion_json(const struct cf_promotion_row *row)
{
    return json_pack("{s:s,s:s,s:s,s:s?,s:s}", "declaration", row->member, "value", row->value,
                     "axis", cf_axis_rows[row->axis].name, "from", row->from, "to", row->to);
}

static json_t *
gated_json(const struct cf_promotion_row *row)
{
    json_t *members = json_array();

    for (size_t i = 0; i < CF_COUNT(row->gated) && row->gated[i] != NULL; i++)
        json_array_append_new(members, json_string(row->gated[i]));
    return json_pack("{s:s,s:s,s:o}", "axis", cf_axis_rows[row->axis].name, "required_value",
                     row->to, "observations", members);
}

static json_t *
providers_json(void)
{
    json_t *list = json_array();

    for (size_t i = 0; i < CF_COUNT(cf_provider_rows); i++)
        json_array_append_new(list, json_pack("{s:s,s:o}", "provider",
                                              cf_provider_rows[i].provider, "dialects",
                                              set_names_json(cf_provider_rows[i].dialects)));
    return list;
}

static json_t *
dialects_json(void)
{
    json_t *list = json_array();

    for (size_t i = 0; i < CF_COUNT(cf_dialect_rows); i++)
        json_array_append_new(list, json_pack("{s:s,s:s}", "dialect", cf_dialect_rows[i].name,
                                              "path", cf_dialect_rows[i].path));
    return list;
}

static json_t *
slots_json(void)
{
    json_t *list = json_array();

    for (size_t i = 0; i < CF_COUNT(cf_slot_rows); i++)
        json_array_append_new(list,
                              json_pack("{s:s,s:s,s:s,s:s}", "slot", cf_slot_rows[i].names[0],
                                        "carrier", cf_slot_rows[i].carrier, "direction",
                                        cf_slot_rows[i].direction, "status", "realized"));
    return list;
}

json_t *
cf_catalog_json(void)
{
    json_t *harnesses = json_array(), *promotions = json_array(), *gated = json_array();

    for (size_t i = 0; i < CF_COUNT(cf_harness_rows); i++)
        json_array_append_new(harnesses, harness_json(&cf_harness_rows[i]));
    for (size_t i = 0; i < CF_COUNT(cf_promotion_rows); i++) {
        json_array_append_new(promotions, promotion_json(&cf_promotion_rows[i]));
        if (cf_promotion_rows[i].gated[0] != NULL)
            json_array_append_new(gated, gated_json(&cf_promotion_rows[i]));
    }
    return json_pack("{s:i,s:o,s:o,s:o,s:o,s:o,s:o,s:o,s:o,s:o}", "schema_version", 1,
                     "identities", identities_json(), "harnesses", harnesses, "envelopes",
                     envelopes_json(), "declarations", promotions, "gated_emissions", gated,
                     "dialects", dialects_json(), "default_provider_dialects",
                     set_names_json(cf_provider_dialects("")), "providers", providers_json(),
                     "slots", slots_json());
}
