/* Stage 3: the fourteen members of the envelope (a draft core: twelve), in their listed order.
 */
#include "correspond/fields.h"

#include "base/str.h"
#include "correspond/words.h"

#include <string.h>

static int
rule_constant(const struct cf_check *check, const struct cf_node *node, const char *at,
              const char *wanted, const char *reason)
{
    if (cf_check_type(check, node, at, CF_VALUE_STRING) < 0)
        return -1;
    return strcmp(node->text, wanted) == 0 ? 0 : cf_refuse_value(check, reason, at);
}

static int
rule_protocol(const struct cf_check *check, const struct cf_node *node, const char *at)
{
    return rule_constant(check, node, at, CF_CORR_PROTOCOL, "protocol_mismatch");
}

static int
rule_opaque_id(const struct cf_check *check, const struct cf_node *node, const char *at)
{
    return cf_check_word(check, node, at, cf_corr_check_opaque_id);
}

static int
rule_sender(const struct cf_check *check, const struct cf_node *node, const char *at)
{
    static const struct cf_field fields[] = {
        {"identity_id", cf_rule_uuid, "identity_id_required"},
        {"signing_key_id", cf_rule_uuid, "signing_key_id_required"},
        {"device_id", cf_rule_uuid, "device_id_required"},
        {"session_id", cf_rule_uuid, "session_id_required"},
    };

    return cf_event_check_object(check, node, at, fields, CF_COUNT(fields),
                                 "unknown_event_field");
}

static int
rule_kind(const struct cf_check *check, const struct cf_node *node, const char *at)
{
    if (cf_check_type(check, node, at, CF_VALUE_STRING) < 0)
        return -1;
    return cf_is_kind(node->text) ? 0 : cf_refuse_value(check, "kind_unknown", at);
}

static int
rule_parents(const struct cf_check *check, const struct cf_node *node, const char *at)
{
    static const struct cf_list_rule rule = {0, 16, "parents_count_out_of_bounds",
                                             "duplicate_parent", cf_corr_check_event_id};

    return cf_check_list(check, node, at, &rule);
}

static int
rule_session_seq(const struct cf_check *check, const struct cf_node *node, const char *at)
{
    if (cf_check_type(check, node, at, CF_VALUE_INTEGER) < 0)
        return -1;
    return node->integer >= 1 ? 0 : cf_refuse_value(check, "session_seq_out_of_range", at);
}

static int
rule_base_revision(const struct cf_check *check, const struct cf_node *node, const char *at)
{
    return node->type == CF_VALUE_NULL ? 0 : cf_rule_revision(check, node, at);
}

static int
rule_branch(const struct cf_check *check, const struct cf_node *node, const char *at)
{
    return node->type == CF_VALUE_NULL ? 0 : cf_check_word(check, node, at, cf_check_branch);
}

static int
rule_paths(const struct cf_check *check, const struct cf_node *node, const char *at)
{
    static const struct cf_list_rule rule = {1, 64, "paths_count_out_of_bounds",
                                             "duplicate_path", cf_corr_check_path};

    return cf_check_list(check, node, at, &rule);
}

static int
rule_scope(const struct cf_check *check, const struct cf_node *node, const char *at)
{
    static const struct cf_field fields[] = {
        {"base_revision", rule_base_revision, "base_revision_required"},
        {"branch", rule_branch, "branch_required"},
        {"paths", rule_paths, "paths_required"},
    };

    return cf_event_check_object(check, node, at, fields, CF_COUNT(fields),
                                 "unknown_event_field");
}

static int
rule_body(const struct cf_check *check, const struct cf_node *node, const char *at)
{
    return cf_check_type(check, node, at, CF_VALUE_OBJECT); /* its contents are stage 4 */
}

/* Any value but the one constant is refused as authority, whatever its type. */
static int
rule_never(const struct cf_check *check, const struct cf_node *node, const char *at)
{
    bool is_never = node->type == CF_VALUE_STRING && strcmp(node->text, "never") == 0;

    return is_never ? 0 : cf_refuse_value(check, "authority_not_admitted", at);
}

static int
rule_no_grants(const struct cf_check *check, const struct cf_node *node, const char *at)
{
    bool is_empty = node->type == CF_VALUE_ARRAY && node->len == 0;

    return is_empty ? 0 : cf_refuse_value(check, "authority_not_admitted", at);
}

static int
rule_authority(const struct cf_check *check, const struct cf_node *node, const char *at)
{
    static const struct cf_field fields[] = {
        {"automatic_action", rule_never, "automatic_action_required"},
        {"grants", rule_no_grants, "grants_required"},
    };

    return cf_event_check_object(check, node, at, fields, CF_COUNT(fields),
                                 "unknown_event_field");
}

static int
rule_algorithm(const struct cf_check *check, const struct cf_node *node, const char *at)
{
    return rule_constant(check, node, at, "Ed25519", "signature_algorithm_not_admitted");
}

static int
rule_signature_value(const struct cf_check *check, const struct cf_node *node, const char *at)
{
    return cf_check_word(check, node, at, cf_check_signature);
}

static int
rule_signature(const struct cf_check *check, const struct cf_node *node, const char *at)
{
    static const struct cf_field fields[] = {
        {"algorithm", rule_algorithm, "algorithm_required"},
        {"value_b64url", rule_signature_value, "value_b64url_required"},
    };

    return cf_event_check_object(check, node, at, fields, CF_COUNT(fields),
                                 "unknown_event_field");
}

int
cf_check_envelope(const struct cf_check *check, const struct cf_node *root,
                  enum cf_corr_form form)
{
#define TILL_BODY                                                                         \
    {"project_id", cf_rule_uuid, "project_id_required"},                                  \
        {"repository_id", rule_opaque_id, "repository_id_required"},                      \
        {"thread_id", rule_opaque_id, "thread_id_required"},                              \
        {"sender", rule_sender, "sender_required"}, {"kind", rule_kind, "kind_required"}, \
        {"parents", rule_parents, "parents_required"},                                    \
        {"session_seq", rule_session_seq, "session_seq_required"},                        \
        {"issued_at", cf_rule_timestamp, "issued_at_required"},                           \
        {"scope", rule_scope, "scope_required"}, {"body", rule_body, "body_required"},    \
    {                                                                                     \
        "authority", rule_authority, "authority_required"                                 \
    }
    static const struct cf_field full[] = {
        {"protocol", rule_protocol, "protocol_required"},
        {"event_id", cf_rule_event_id, "event_id_required"},
        TILL_BODY,
        {"signature", rule_signature, "signature_required"},
    };
    static const struct cf_field core[] = {
        {"protocol", rule_protocol, "protocol_required"},
        TILL_BODY,
    };
#undef TILL_BODY

    if (root->type != CF_VALUE_OBJECT)
        return cf_refuse_value(check, "event_not_object", "");
    if (form == CF_CORR_CORE)
        return cf_event_check_object(check, root, "", core, CF_COUNT(core),
                                     "unknown_event_field");
    return cf_event_check_object(check, root, "", full, CF_COUNT(full), "unknown_event_field");
}
