/*
 * capability/capability.h: what a driver's envelope allows, what a harness may declare above it,
 * which harness can reach which model provider. One table each; everything else is derived.
 */
#ifndef CF_CAPABILITY_CAPABILITY_H
#define CF_CAPABILITY_CAPABILITY_H

#include "base/error.h"

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#define CF_DRIVER_ACP "checkfu:acp-v1@1"
#define CF_DRIVER_ONESHOT "checkfu:oneshot-v1@1"

enum cf_dialect {
    CF_DIALECT_ANTHROPIC_MESSAGES = 1 << 0,
    CF_DIALECT_OPENAI_CHAT = 1 << 1,
    CF_DIALECT_OPENAI_RESPONSES = 1 << 2,
    CF_DIALECT_FAL_QUEUE = 1 << 3,
};
const char *cf_dialect_name(enum cf_dialect dialect); /* "anthropic_messages" */
const char *cf_dialect_path(enum cf_dialect dialect); /* "/v1/messages"; fal_queue: "/{model_id}" */
unsigned cf_dialect_parse(const char *name);          /* 0: none */
/* Dialects a provider accepts; an unlisted one: the three default dialects. */
unsigned cf_provider_dialects(const char *provider);

/* The server's envelope; new reference. */
json_t *cf_envelope_acp(bool is_ephemeral);
json_t *cf_envelope_oneshot(bool is_ephemeral, bool is_stream_json, bool has_resume_flag);

struct cf_declaration { /* checkfu.capabilities of an initialize answer, decoded */
    bool subagents, steer, interrupt;          /* the three axes */
    bool builtin_tool_scoping, staged_files, native_checkpoint;
    int structured_output;                     /* 0 none, 1 response_format, 2 submit_tool */
};
/* Reads result._meta["checkfu.capabilities"] strictly: absent is an empty declaration; anything
 * the closed form does not allow is CF_ERROR_INCOMPATIBLE naming member and value. */
CF_CHECKED int cf_declaration_read(json_t *initialize_result, struct cf_declaration *ret, struct cf_error *err);
/* Envelope plus the admitted axes; new reference. Without declaration: equal bytes. */
json_t *cf_declaration_admit(json_t *envelope, const struct cf_declaration *declaration);

/* Checks the five authority-bearing session/new members in `meta` against the declaration and
 * their closed forms (rule 2); NULL meta is fine. */
CF_CHECKED int cf_session_meta_check(json_t *meta, const struct cf_declaration *declaration, struct cf_error *err);

/* The whole catalog as one JSON document (support snapshot, ceilings, envelopes, gated
 * emissions, dialects, reachability); new reference. */
json_t *cf_catalog_json(void);

#endif
