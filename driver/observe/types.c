/* observe/types.c: the names of the closed vocabulary. */
#include <cfrunner/observation.h>

#include <stddef.h>

static const char *const names[] = {
    [CF_OBSERVATION_READY] = "observation.ready",
    [CF_OBSERVATION_LIFECYCLE_HOOK] = "observation.lifecycle_hook",
    [CF_OBSERVATION_AGENT_MESSAGE] = "observation.agent_message",
    [CF_OBSERVATION_AGENT_THINKING] = "observation.agent_thinking",
    [CF_OBSERVATION_TOOL_USE] = "observation.tool_use",
    [CF_OBSERVATION_TOOL_RESULT] = "observation.tool_result",
    [CF_OBSERVATION_FILE_CHANGED] = "observation.file_changed",
    [CF_OBSERVATION_CONTEXT_COMPACTED] = "observation.context_compacted",
    [CF_OBSERVATION_SUBAGENT_STARTED] = "observation.subagent_started",
    [CF_OBSERVATION_SUBAGENT_COMPLETED] = "observation.subagent_completed",
    [CF_OBSERVATION_STEERING] = "observation.steering",
    [CF_OBSERVATION_REQUIRES_ACTION] = "observation.requires_action",
    [CF_OBSERVATION_FINISHED] = "observation.finished",
    [CF_OBSERVATION_RETRYABLE_FAILURE] = "observation.retryable_failure",
    [CF_OBSERVATION_FAILED] = "observation.failed",
};

const char *
cf_observation_type_name(uint32_t type)
{
    return type < sizeof names / sizeof names[0] ? names[type] : NULL;
}
