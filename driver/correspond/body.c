/* Stages 4 and 5: the closed body of each of the 21 kinds, and the events it cites. */
#include "correspond/fields.h"

#include "base/str.h"
#include "correspond/words.h"

#include <stdio.h>
#include <string.h>

static int
check_text(const struct cf_check *check, const struct cf_node *node, const char *at,
           size_t most)
{
    const char *reason;

    if (cf_check_type(check, node, at, CF_VALUE_STRING) < 0)
        return -1;
    reason = cf_check_text(node->text, node->len, most);
    return reason == NULL ? 0 : cf_refuse_value(check, reason, at);
}

static int
rule_text(const struct cf_check *check, const struct cf_node *node, const char *at)
{
    return check_text(check, node, at, 1000);
}

static int
rule_handoff_summary(const struct cf_check *check, const struct cf_node *node, const char *at)
{
    return check_text(check, node, at, 2000);
}

static int
rule_generation_one(const struct cf_check *check, const struct cf_node *node, const char *at)
{
    if (cf_check_type(check, node, at, CF_VALUE_INTEGER) < 0)
        return -1;
    return node->integer == 1 ? 0 : cf_refuse_value(check, "open_generation_must_be_one", at);
}

static int
rule_generation_next(const struct cf_check *check, const struct cf_node *node, const char *at)
{
    if (cf_check_type(check, node, at, CF_VALUE_INTEGER) < 0)
        return -1;
    return node->integer >= 2 ? 0
                              : cf_refuse_value(check, "generation_must_be_at_least_two", at);
}

/* null says the same as an absent `until`, but signs differently; both are admitted. */
static int
rule_until(const struct cf_check *check, const struct cf_node *node, const char *at)
{
    return node->type == CF_VALUE_NULL ? 0 : cf_rule_timestamp(check, node, at);
}

static int
rule_targets(const struct cf_check *check, const struct cf_node *node, const char *at)
{
    static const struct cf_list_rule rule = {1, 16, "target_event_ids_count_out_of_bounds",
                                             "duplicate_target_event_id",
                                             cf_corr_check_event_id};

    return cf_check_list(check, node, at, &rule);
}

static int
rule_two_targets(const struct cf_check *check, const struct cf_node *node, const char *at)
{
    static const struct cf_list_rule rule = {2, 16, "target_event_ids_count_out_of_bounds",
                                             "duplicate_target_event_id",
                                             cf_corr_check_event_id};

    return cf_check_list(check, node, at, &rule);
}

static int
rule_digest(const struct cf_check *check, const struct cf_node *node, const char *at)
{
    return cf_check_word(check, node, at, cf_check_digest);
}

static int
rule_locator(const struct cf_check *check, const struct cf_node *node, const char *at)
{
    return cf_check_word(check, node, at, cf_corr_check_locator);
}

static int
rule_artifact_kind(const struct cf_check *check, const struct cf_node *node, const char *at)
{
    if (cf_check_type(check, node, at, CF_VALUE_STRING) < 0)
        return -1;
    if (strcmp(node->text, "git_commit") != 0 && strcmp(node->text, "git_patch") != 0 &&
        strcmp(node->text, "content_digest") != 0)
        return cf_refuse_value(check, "artifact_kind_unknown", at);
    return 0;
}

/* Which members are known depends on `kind`; without a usable kind, all of them are. */
static int
rule_artifact(const struct cf_check *check, const struct cf_node *node, const char *at)
{
    static const struct cf_field any[] = {
        {"kind", rule_artifact_kind, "kind_required"},
        {"revision", cf_rule_revision, NULL},
        {"digest", rule_digest, NULL},
        {"locator", rule_locator, NULL},
    };
    static const struct cf_field commit[] = {
        {"kind", rule_artifact_kind, "kind_required"},
        {"revision", cf_rule_revision, "revision_required"},
    };
    static const struct cf_field by_digest[] = {
        {"kind", rule_artifact_kind, "kind_required"},
        {"digest", rule_digest, "digest_required"},
        {"locator", rule_locator, NULL},
    };
    const struct cf_node *kind;

    if (cf_check_type(check, node, at, CF_VALUE_OBJECT) < 0 ||
        cf_check_unknown(check, node, at, any, CF_COUNT(any), "unknown_body_field") < 0 ||
        cf_check_known(check, node, at, any, 1) < 0)
        return -1;
    kind = cf_value_member(check->value, node, "kind");
    if (strcmp(kind->text, "git_commit") == 0)
        return cf_event_check_object(check, node, at, commit, CF_COUNT(commit),
                                     "unknown_body_field");
    return cf_event_check_object(check, node, at, by_digest, CF_COUNT(by_digest),
                                 "unknown_body_field");
}

#define CLAIM_ID                                      \
    {                                                 \
        "claim_id", cf_rule_uuid, "claim_id_required" \
    }
#define NEXT_GENERATION                                           \
    {                                                             \
        "generation", rule_generation_next, "generation_required" \
    }
#define PREDECESSOR                                                               \
    {                                                                             \
        "predecessor_event_id", cf_rule_event_id, "predecessor_event_id_required" \
    }
#define EXPIRES                                                \
    {                                                          \
        "expires_at", cf_rule_timestamp, "expires_at_required" \
    }
#define TARGET                                                          \
    {                                                                   \
        "target_event_id", cf_rule_event_id, "target_event_id_required" \
    }
#define SUMMARY                                  \
    {                                            \
        "summary", rule_text, "summary_required" \
    }
#define MAYBE_SUMMARY              \
    {                              \
        "summary", rule_text, NULL \
    }
#define MAYBE_DETAIL              \
    {                             \
        "detail", rule_text, NULL \
    }
#define MAYBE_RESULT                              \
    {                                             \
        "result_revision", cf_rule_revision, NULL \
    }
#define TARGETS                                                       \
    {                                                                 \
        "target_event_ids", rule_targets, "target_event_ids_required" \
    }

static const struct kind {
    const char *name;
    struct cf_field fields[4]; /* ends at the first without a name */
} kinds[] = {
    {"intent", {SUMMARY}},
    {"claim.open",
     {CLAIM_ID, {"generation", rule_generation_one, "generation_required"}, EXPIRES}},
    {"claim.renew", {CLAIM_ID, NEXT_GENERATION, PREDECESSOR, EXPIRES}},
    {"claim.release", {CLAIM_ID, NEXT_GENERATION, PREDECESSOR, MAYBE_DETAIL}},
    {"progress", {SUMMARY}},
    {"observation", {SUMMARY}},
    {"artifact.offer", {{"artifact", rule_artifact, "artifact_required"}, MAYBE_SUMMARY}},
    {"ack.seen", {TARGET, MAYBE_DETAIL}},
    {"ack.understood", {TARGET, MAYBE_DETAIL}},
    {"ack.accepted", {TARGET, MAYBE_DETAIL}},
    {"ack.rejected", {TARGET, MAYBE_DETAIL}},
    {"ack.applied",
     {TARGET,
      {"result_revision", cf_rule_revision, "result_revision_required"},
      MAYBE_DETAIL}},
    {"conflict.raise",
     {{"target_event_ids", rule_two_targets, "target_event_ids_required"}, MAYBE_SUMMARY}},
    {"conflict.resolve", {TARGETS, SUMMARY, MAYBE_RESULT}},
    {"pause", {{"until", rule_until, NULL}, MAYBE_DETAIL}},
    {"rest", {{"until", rule_until, NULL}, MAYBE_DETAIL}},
    {"resume", {TARGET, MAYBE_DETAIL}},
    {"refusal", {{"target_event_id", cf_rule_event_id, NULL}, MAYBE_DETAIL}},
    {"handoff",
     {{"summary", rule_handoff_summary, "summary_required"},
      {"next_safe_action", rule_text, "next_safe_action_required"},
      {"handoff_id", cf_rule_uuid, NULL}}},
    {"close", {MAYBE_SUMMARY}},
    {"repair", {TARGETS, SUMMARY, MAYBE_RESULT}},
};

static const struct kind *
find_kind(const char *name)
{
    for (size_t i = 0; i < CF_COUNT(kinds); i++) {
        if (strcmp(kinds[i].name, name) == 0)
            return &kinds[i];
    }
    return NULL;
}

bool
cf_is_kind(const char *kind)
{
    return find_kind(kind) != NULL;
}

int
cf_check_body(const struct cf_check *check, const struct cf_node *body, const char *kind)
{
    const struct kind *known = find_kind(kind);
    size_t count = 0;

    while (count < CF_COUNT(known->fields) && known->fields[count].name != NULL)
        count++;
    return cf_event_check_object(check, body, "/body", known->fields, count,
                                 "unknown_body_field");
}

static bool
is_parent(const struct cf_check *check, const struct cf_node *parents,
          const struct cf_node *id)
{
    for (const struct cf_node *p = cf_value_child(check->value, parents); p != NULL;
         p = cf_value_next(check->value, p)) {
        if (strcmp(p->text, id->text) == 0)
            return true;
    }
    return false;
}

static int
check_targets(const struct cf_check *check, const struct cf_node *targets,
              const struct cf_node *parents)
{
    char pointer[64];
    unsigned index = 0;

    for (const struct cf_node *id = cf_value_child(check->value, targets); id != NULL;
         id = cf_value_next(check->value, id), index++) {
        if (is_parent(check, parents, id))
            continue;
        (void)snprintf(pointer, sizeof pointer, "/body/target_event_ids/%u", index);
        return cf_refuse_value(check, "reference_not_in_parents", pointer);
    }
    return 0;
}

int
cf_check_references(const struct cf_check *check, const struct cf_node *body,
                    const struct cf_node *parents)
{
    const struct cf_node *id;

    if ((id = cf_value_member(check->value, body, "predecessor_event_id")) != NULL &&
        !is_parent(check, parents, id))
        return cf_refuse_value(check, "reference_not_in_parents",
                               "/body/predecessor_event_id");
    if ((id = cf_value_member(check->value, body, "target_event_id")) != NULL &&
        !is_parent(check, parents, id))
        return cf_refuse_value(check, "reference_not_in_parents", "/body/target_event_id");
    if ((id = cf_value_member(check->value, body, "target_event_ids")) != NULL)
        return check_targets(check, id, parents);
    return 0;
}
