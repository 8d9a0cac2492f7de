/* The checks by name. */
#include "diagnose/rules.h"

#include "base/str.h"

#define CAPABILITIES "/declared/capabilities"

const struct cf_rule cf_rules[] = {
    {"image_resolved", "SETUP", "the image is here, its digest is known, and it can run on this engine", NULL, NULL,
     "/image/digest"},
    {"sandbox_provisioned", "SETUP", "the sandbox stands, and what was asked of the engine is in force", NULL, NULL,
     "/isolation/network"},
    {"initialize_handshake", "HANDSHAKE", "the harness answers initialize with protocol version 1", NULL, "initialize",
     "/harness/agent_info"},
    {"session_start", "HANDSHAKE", "session/new is answered with a session id", NULL, "session/new", NULL},
    {"ready_handshake", "HANDSHAKE", "ready is observed once, before all other output", NULL, NULL, NULL},
    {"prompt_exchange", "TURN", "a prompt's nonce reaches the model, and the model's nonce the output", NULL,
     "session/prompt", NULL},
    {"process_exchange", "TURN", "a prompt's nonce reaches the model, and the model's nonce the output", NULL, NULL,
     NULL},
    {"prompt_transport", "TURN", "the prompt is read the way that the release declares", NULL, NULL,
     "/declared/release/prompt_transport"},
    {"output_mode", "TURN", "stdout is written in the mode that the release declares", NULL, NULL,
     "/declared/release/output_mode"},
    {"model_plane_reached", "TURN", "model traffic goes through the relay", NULL, NULL, "/model_totals/served"},
    {"observations_normalized", "TURN", "each observation is of its closed form", NULL, NULL, "/observations/by_type"},
    {"tool_correlation", "TURN", "each tool result names a call that was announced before it, once",
     "announce each tool call once, with an id of its own, before its result", NULL, "/observations/by_type"},
    {"terminal_observation", "TURN", "each turn ends with finished, once, and nothing comes after it", NULL,
     "session/prompt", NULL},
    {"resume", "CAPABILITY", "a resumed turn knows what the one before it said", NULL, NULL,
     "/declared/release/resume_flag"},
    {"output_schema", "CAPABILITY", "the last message is JSON that the schema accepts", NULL, NULL,
     "/declared/release/output_schema_flag"},
    {"steering_correlation", "CAPABILITY", "each steer is acknowledged exactly once",
     "answer each _checkfu/session/steer exactly once, and declare steer", "session/steer", CAPABILITIES},
    {"steering_delivered", "CAPABILITY", "a declared steer is taken into the turn that runs",
     "take the steer into the turn that runs, or do not declare steer", "session/steer", CAPABILITIES},
    {"cooperative_interrupt_drained", "CAPABILITY", "a declared interrupt drains, and the turn ends itself in time",
     "answer draining, start nothing new, and answer the prompt in time", "/drain", CAPABILITIES},
    {"subagent_correlation", "CAPABILITY", "subagents are declared, start once, and settle before the turn ends",
     "declare subagents; start each once, settle each once, before the turn ends", NULL, CAPABILITIES},
    {"execution_locus", "CAPABILITY", "a platform's tool runs where the platform says", NULL, NULL, "/label"},
    {"torture", "TORTURE", "trouble in the transport and at the model does not change the verdict", NULL, NULL,
     "/torture/status"},
    {"teardown_drained", "TEARDOWN", "all that the run made is gone, and was looked for again", NULL, NULL,
     "/teardown/proven"},
};
const size_t cf_rules_count = CF_COUNT(cf_rules);

const struct cf_rule *
cf_rule_of(const char *id)
{
    for (size_t i = 0; i < CF_COUNT(cf_rules); i++)
        if (cf_str_same(cf_rules[i].id, id))
            return &cf_rules[i];
    return NULL;
}
