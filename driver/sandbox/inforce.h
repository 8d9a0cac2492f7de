/*
 * sandbox/inforce.h: is what was asked for in force? Engines ignore fields they do not know
 * and discard limits they cannot set, both without an error; so the container is inspected
 * after create and compared by meaning. Pure.
 */
#ifndef CF_SANDBOX_INFORCE_H
#define CF_SANDBOX_INFORCE_H

#include "sandbox/plan.h"

/* CF_ERROR_ENGINE naming the first setting that did not take, with what was asked and what is.
 */
CF_CHECKED int cf_inforce_check(const struct cf_plan *plan,
                                const struct cf_engine_facts *facts, const json_t *inspect,
                                struct cf_error *err);

/* What is in force, from the inspection: for the result. New references, NULL out of memory.
 */
json_t *cf_inforce_isolation(const struct cf_plan *plan, const json_t *inspect);
json_t *cf_inforce_limits(const struct cf_plan *plan, const struct cf_engine_facts *facts,
                          const json_t *inspect);

#endif
