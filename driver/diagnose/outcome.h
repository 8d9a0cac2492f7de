/*
 * diagnose/outcome.h: what a command came to, in one form for every file that tells of it: a result
 * of `test oci` as it is, a result of `run` (or of a recording) with its grammar, turns and teardown
 * as checks. What went wrong without a check of its own is the check "verdict": no file is green
 * when the exit code is not.
 */
#ifndef CF_DIAGNOSE_OUTCOME_H
#define CF_DIAGNOSE_OUTCOME_H

#include "diagnose/mask.h"

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

struct cf_outcome {
    const char *command;  /* "test oci", "run", "replay"; static */
    json_t *result;       /* masked; ours */
    json_t *checks;       /* [{"id","status","summary","evidence","error"?,"fix"?}]; ours */
    int exit_code;
    const char *status;   /* passed, failed or error; static */
    const char *blame;    /* borrowed from result, or static */
    char name[128];       /* one line */
    char digest[72];      /* sha256:..., or "" */
    char reference[300];  /* of the image as it was asked for, one line; "" */
    char made_at[21];     /* when, RFC 3339 */
    const json_t *release; /* what was launched, where the result does not say; NULL; borrowed */
    const char *place;    /* a path for tools that want one (a Dockerfile); NULL; borrowed */
    size_t passed, failed, skipped;
};

/* `result` is borrowed and copied; `name` (may be NULL) is for results that have none. -1: out of
 * memory. Zeroed is safe to release. */
int cf_outcome_init(struct cf_outcome *outcome, const char *command, const json_t *result, int exit_code,
                    const char *name, const struct cf_mask *mask);
void cf_outcome_release(struct cf_outcome *outcome);

/* The group that a check is shown in (SETUP, HANDSHAKE, TURN, ...): its own, or by its id. Borrowed. */
const char *cf_outcome_group(const json_t *check);
/* The time of the phase that a check is about, or -1. */
long long cf_outcome_check_ms(const struct cf_outcome *outcome, const char *check_id);

#endif
