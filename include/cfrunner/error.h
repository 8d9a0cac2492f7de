/*
 * cfrunner/error.h: one error object, on the caller's stack, that allocates nothing.
 *
 * Every function that can fail takes `struct cf_error *err` last. It is written on failure
 * only. `text` says what happened and where, in one line of UTF-8 without control characters;
 * `fix` says what to do next and may be empty. The dotted contract type and who is to blame
 * follow from `kind` (cf_error_type, cf_error_blame).
 */
#ifndef CFRUNNER_ERROR_H
#define CFRUNNER_ERROR_H

#include <cfrunner/version.h>

#ifdef __cplusplus
extern "C" {
#endif

enum cf_error_kind {
    CF_ERROR_NONE = 0,
    CF_ERROR_INTERNAL = 1,       /* our own fault                      runtime.internal */
    CF_ERROR_MEMORY = 2,         /* allocation failed                  runtime.internal */
    CF_ERROR_CONFIG = 3,         /* the author's flags or files        validation.malformed */
    CF_ERROR_TOO_LARGE = 4,      /* the author's input is over a bound validation.payload_too_large */
    CF_ERROR_ENGINE = 5,         /* engine refused, gone or lying      runtime.runner_unavailable */
    CF_ERROR_ENGINE_TIMEOUT = 6, /* engine did not answer in time      runtime.runner_unavailable */
    CF_ERROR_NOT_FOUND = 7,      /* engine: no such object             runtime.runner_unavailable */
    CF_ERROR_START = 8,          /* program could not be exec'd        runtime.harness_unavailable */
    CF_ERROR_START_TIMEOUT = 9,  /* start or handshake deadline        runtime.start_timeout */
    CF_ERROR_HARNESS = 10,       /* exit, signal, OOM, broken wire     runtime.harness_failed */
    CF_ERROR_GRAMMAR = 11,       /* conformance grammar broken         runtime.harness_failed */
    CF_ERROR_INCOMPATIBLE = 12,  /* declaration, version, authority    runtime.harness_incompatible */
    CF_ERROR_TURN_DEADLINE = 13, /* turn or idle deadline              runtime.turn_deadline_exceeded */
    CF_ERROR_BUDGET = 14,        /* disk, output, pids, relay caps     budget.exceeded */
    CF_ERROR_POLICY = 15,        /* path, model or permission refused  policy.denied */
    CF_ERROR_CREDENTIAL = 16,    /* upstream refuses our key           model.credential_rejected */
    CF_ERROR_LEASE = 17,         /* lease over                         runtime.lease_lost */
    CF_ERROR_DEADLINE = 18,      /* the whole command's deadline       runtime.turn_deadline_exceeded */
    CF_ERROR_CANCELED = 19,      /* the caller asked us to stop        runtime.invalid_transition */
    CF_ERROR_WIRE = 20,          /* bytes that are not the protocol    runtime.harness_failed */
    CF_ERROR_IMAGE = 21,         /* image content does not fit the release
                                    (entrypoint, architecture, folder) runtime.harness_unavailable */
    CF_ERROR_TEARDOWN = 22,      /* something of ours is left          runtime.runner_unavailable */
    CF_ERROR_KIND_COUNT
};

enum cf_blame {
    CF_BLAME_NONE = 0,
    CF_BLAME_HARNESS,
    CF_BLAME_RUNNER,
    CF_BLAME_ENGINE,
    CF_BLAME_UPSTREAM,
    CF_BLAME_AUTHOR /* the flags and files of whoever called us */
};

struct cf_error {
    enum cf_error_kind kind;
    int code;       /* errno or HTTP status; 0 where neither applies */
    char text[768]; /* one line, cut to fit at a character, never empty on failure */
    char fix[320];  /* one line: what to do next; may be empty */
};

/* The contract's dotted type of a kind ("runtime.harness_failed"); static storage. */
CF_API const char *cf_error_type(enum cf_error_kind kind);

/* Who is to blame for a kind, and that as one word ("none", "harness", ...); static storage. */
CF_API enum cf_blame cf_error_blame(enum cf_error_kind kind);
CF_API const char *cf_blame_name(enum cf_blame blame);

#ifdef __cplusplus
}
#endif
#endif
