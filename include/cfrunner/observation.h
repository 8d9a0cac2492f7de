/*
 * cfrunner/observation.h: the closed vocabulary in which a run speaks.
 *
 * Source: proto/harness-oneshot-v1-author-kit.schema.json (normalized_observations).
 */
#ifndef CFRUNNER_OBSERVATION_H
#define CFRUNNER_OBSERVATION_H

#include <cfrunner/version.h>

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum cf_observation_type {
    CF_OBSERVATION_READY = 1,
    CF_OBSERVATION_LIFECYCLE_HOOK = 2,
    CF_OBSERVATION_AGENT_MESSAGE = 3,
    CF_OBSERVATION_AGENT_THINKING = 4,
    CF_OBSERVATION_TOOL_USE = 5,
    CF_OBSERVATION_TOOL_RESULT = 6,
    CF_OBSERVATION_FILE_CHANGED = 7,
    CF_OBSERVATION_CONTEXT_COMPACTED = 8,
    CF_OBSERVATION_SUBAGENT_STARTED = 9,
    CF_OBSERVATION_SUBAGENT_COMPLETED = 10,
    CF_OBSERVATION_STEERING = 11,
    CF_OBSERVATION_REQUIRES_ACTION = 12,
    CF_OBSERVATION_FINISHED = 13,
    CF_OBSERVATION_RETRYABLE_FAILURE = 14,
    CF_OBSERVATION_FAILED = 15
};

/*
 * One observation. Every pointer is borrowed until the callback that brought it returns. `json`
 * is the closed object {"type":...,"payload":{...}} as compact UTF-8; the members beside it are
 * views for a reader who does not want to parse it, NULL or 0 where they do not apply.
 */
struct cf_observation {
    uint32_t size;            /* sizeof(struct cf_observation) where the library was built */
    uint32_t type;            /* enum cf_observation_type */
    uint64_t seq;             /* 1, 2, 3, ... within the run; 0 before the run stamped it */
    uint64_t at_ms;           /* milliseconds since the run was opened, monotonic */
    uint32_t turn;            /* 0 before the first turn, then 1, 2, ... */
    uint64_t frame;           /* number of the wire frame or line that caused it; 0: the runner */
    const char *json;
    size_t json_len;
    const char *text;         /* content of a message or thought; error message of a failure;
                                 disposition of steering */
    size_t text_len;
    const char *tool_use_id;  /* tool_use, tool_result; NUL-terminated */
    const char *subagent;     /* attribution or lifecycle subject; NUL-terminated */
    const char *detail;       /* stop reason, error type, event id, disposition; NUL-terminated */
};

/* "observation.ready", ...; NULL for a number that is none. Static storage. */
CF_API const char *cf_observation_type_name(uint32_t type);

#ifdef __cplusplus
}
#endif
#endif
