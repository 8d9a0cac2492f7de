/*
 * diagnose/rules.h: the checks by name: where each stands in a report, what it asks of a harness, and
 * what its author can do when it fails. One table, for the report, the formats and `cfrunner why`.
 */
#ifndef CF_DIAGNOSE_RULES_H
#define CF_DIAGNOSE_RULES_H

#include <stddef.h>

struct cf_rule {
    const char *id;
    const char *group;  /* "SETUP", "HANDSHAKE", "TURN", "CAPABILITY", "TORTURE", "TEARDOWN" */
    const char *says;   /* what must be so, one sentence without its full stop */
    const char *fix;    /* what to do when it is not so and the error itself does not say; or NULL */
    const char *method; /* of the exchange that it is about, its end; or NULL */
    const char *fact;   /* pointer into the result that it looks at; or NULL */
};

/* In the order of a report. All static. */
extern const struct cf_rule cf_rules[];
extern const size_t cf_rules_count;

/* NULL: no such check. */
const struct cf_rule *cf_rule_of(const char *id);

#endif
