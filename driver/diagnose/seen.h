/* diagnose/seen.h: a run's result, asked in the words of the checks. The room's own. All that is
 * returned is borrowed from the result, NULL where there is none. */
#ifndef CF_DIAGNOSE_SEEN_H
#define CF_DIAGNOSE_SEEN_H

#include "diagnose/diagnose.h"

json_t *cf_seen_turn(const struct cf_diagnose_facts *facts, int number);
/* The first served call of a turn for which `flag` (NULL: any) is true. */
json_t *cf_seen_call(const struct cf_diagnose_facts *facts, int turn, const char *flag);
json_t *cf_seen_refused(const struct cf_diagnose_facts *facts);
/* The first of turn 1's calls with the nonce that ended in an error or broke off, by the provider's or the
 * model script's doing; NULL when the model that was asked did answer once. Calls of another model (a title,
 * a classifier) that carry the nonce beside it prove nothing. */
json_t *cf_seen_model_failure(const json_t *run);
/* Why the answer to `call` cannot have come back, in `text`; returns what to do about it, static. */
const char *cf_seen_unanswered(const json_t *call, char *text, size_t size);
/* What to do for a client that went past the relay, if its last words say so. Static. */
const char *cf_seen_outside_fix(const struct cf_diagnose_facts *facts);
/* Whether the joined contents of a turn's agent messages carry `nonce`. */
bool cf_seen_said(const struct cf_diagnose_facts *facts, int kind, const char *nonce);

#endif
