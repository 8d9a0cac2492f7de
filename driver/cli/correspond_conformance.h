/* cli/correspond_conformance.h: running vector and case files, case by case. */
#ifndef CF_CLI_CORRESPOND_CONFORMANCE_H
#define CF_CLI_CORRESPOND_CONFORMANCE_H

#include <cfrunner/correspondence.h>

#include <jansson.h>

/* Where results go. */
struct cf_conformance {
    json_t *cases; /* array */
    unsigned passed, failed;
    struct cf_corr_author author; /* with the published test key */
};

/* One result; `wanted` and `got` are taken. Passes when they are equal, unless `pass` says (0,
 * 1; -1: compare). */
void cf_conformance_note(struct cf_conformance *c, const char *group, const char *name,
                         json_t *wanted, json_t *got, int pass);

/* {"refused":reason,"pointer":...} */
json_t *cf_conformance_refusal(const struct cf_corr_refusal *refusal);

/* lineage: the contract's form, and the case files'. */
void cf_conformance_lineage_vectors(struct cf_conformance *c, const json_t *vectors);
void cf_conformance_lineage_cases(struct cf_conformance *c, const json_t *cases);

#define CF_CONFORMANCE_PROJECT "11111111-1111-4111-8111-111111111111"
#define CF_CONFORMANCE_NOW 1784455200000 /* 2026-07-19T10:00:00.000Z */

#endif
