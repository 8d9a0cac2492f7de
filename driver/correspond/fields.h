/* correspond/fields.h: closed objects, checked in one fixed order whatever the wire's order
 * was. */
#ifndef CF_CORRESPOND_FIELDS_H
#define CF_CORRESPOND_FIELDS_H

#include "correspond/value.h"

struct cf_check {
    const struct cf_corr_value *value;
    struct cf_corr_refusal *refusal;
};

/* Judges one member; `at` is its JSON Pointer. Returns 0, or -1 with the refusal filled. */
typedef int cf_rule_fn(const struct cf_check *check, const struct cf_node *node,
                       const char *at);

struct cf_field {
    const char *name;
    cf_rule_fn *rule;
    const char *missing; /* the reason when it is absent; NULL: optional */
};

/* Object, unknown names (first in UTF-16 order), missing names in table order, then each
 * present member in table order. `unknown` is the reason for the second. */
int cf_event_check_object(const struct cf_check *check, const struct cf_node *node,
                          const char *at, const struct cf_field *fields, size_t count,
                          const char *unknown);

/* The two halves of it, for an object whose fields depend on one of them. */
int cf_check_unknown(const struct cf_check *check, const struct cf_node *node, const char *at,
                     const struct cf_field *fields, size_t count, const char *unknown);
int cf_check_known(const struct cf_check *check, const struct cf_node *node, const char *at,
                   const struct cf_field *fields, size_t count);

int cf_refuse_value(const struct cf_check *check, const char *reason, const char *at);
int cf_check_type(const struct cf_check *check, const struct cf_node *node, const char *at,
                  enum cf_value_type type);

/* A string that `word` admits. */
int cf_check_word(const struct cf_check *check, const struct cf_node *node, const char *at,
                  const char *(*word)(const char *text, size_t len));

/* An array of `least` to `most` different strings that `word` admits. */
struct cf_list_rule {
    size_t least, most;
    const char *count_reason, *duplicate_reason;
    const char *(*word)(const char *text, size_t len);
};
int cf_check_list(const struct cf_check *check, const struct cf_node *node, const char *at,
                  const struct cf_list_rule *rule);

/* Rules of fields that envelope and body share. */
cf_rule_fn cf_rule_uuid, cf_rule_event_id, cf_rule_timestamp, cf_rule_revision;

/* Stage 3 and stage 4. `body` is an object; `kind` a known kind. */
int cf_check_envelope(const struct cf_check *check, const struct cf_node *root,
                      enum cf_corr_form form);
int cf_check_body(const struct cf_check *check, const struct cf_node *body, const char *kind);
bool cf_is_kind(const char *kind);

/* Stage 5: every event id the body cites is in `parents`. */
int cf_check_references(const struct cf_check *check, const struct cf_node *body,
                        const struct cf_node *parents);

#endif
