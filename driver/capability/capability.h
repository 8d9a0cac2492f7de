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
 * their closed forms (rule 2); NULL meta is fine. CF_ERROR_INCOMPATIBLE naming the member. */
CF_CHECKED int cf_session_meta_check(json_t *meta, const struct cf_declaration *declaration, struct cf_error *err);
/* The names of those of the five that `meta` carries, "a, b"; "" when none: for an agent that
 * answered such a session/new with an error. */
void cf_session_meta_names(json_t *meta, char *out, size_t size);

/* ---- the twelve slots -------------------------------------------------------------------- */

enum cf_slot {
    CF_SLOT_CAPABILITIES, CF_SLOT_SUBAGENT, CF_SLOT_TURN, CF_SLOT_STEER, CF_SLOT_INTERRUPT,
    CF_SLOT_BUILTIN_TOOLS, CF_SLOT_CONTINUITY, CF_SLOT_RUNTIME_CONFIG, CF_SLOT_OUTPUT_SCHEMA,
    CF_SLOT_RESUME, CF_SLOT_JOURNAL_CHECKPOINT, CF_SLOT_COMPACTION, CF_SLOT_COUNT
};
/* "checkfu.turn", "_checkfu/session/steer"; static. */
const char *cf_slot_name(enum cf_slot slot);
/* The slot's member in a _meta object, also under another name the table gives it; NULL: absent.
 * Borrowed from `meta`, which may be anything. */
json_t *cf_slot_find(enum cf_slot slot, json_t *meta);
/* Whether the value has the slot's closed form. The error names member and bound; its kind is
 * CF_ERROR_INCOMPATIBLE for authority, CF_ERROR_WIRE for fidelity. Of the two extension methods
 * the value is the result: {"disposition":...}. */
CF_CHECKED int cf_slot_check(enum cf_slot slot, json_t *value, struct cf_error *err);
/* "delivered", "queued", "refused" (steer), "draining", "refused" (interrupt); NULL when the result
 * is not the closed form. Static storage. */
const char *cf_slot_disposition(enum cf_slot slot, json_t *result);
/* Whether a member name of a _meta belongs to a slot of the table. */
bool cf_slot_is_known(const char *member);

/* ---- closed objects ----------------------------------------------------------------------- */

enum cf_closed_kind {
    CF_CLOSED_ANY, CF_CLOSED_TEXT /* min..max UTF-16 units */, CF_CLOSED_WORD /* of words */,
    CF_CLOSED_COUNT /* whole number min..max */, CF_CLOSED_BOOL,
    CF_CLOSED_ID /* words[0] + 32 lower-case hex digits */, CF_CLOSED_OBJECT /* of members */
};
struct cf_closed {
    const char *name;
    enum cf_closed_kind kind;
    bool is_required, is_nullable;
    int64_t min, max;
    const char *const *words;        /* NULL-terminated */
    const struct cf_closed *members; /* ended by a row without name */
};
/* Checks `object` against rows ended by one without name. `where` begins the pointer that the
 * error names ("/payload"). Kind of the error: as given. */
CF_CHECKED int cf_closed_check(json_t *object, const char *where, const struct cf_closed *members,
                               enum cf_error_kind kind, struct cf_error *err);
/* The rows of checkfu.turn and of checkfu.compaction: observations carry the same objects. */
extern const struct cf_closed cf_closed_turn[], cf_closed_compaction[];

/* ---- catalog ------------------------------------------------------------------------------ */

/* The whole catalog as one JSON document (identities, support snapshot, ceilings, envelopes,
 * declarations, gated emissions, dialects, reachability, slots); new reference. */
json_t *cf_catalog_json(void);
/* Fails when a ceiling is above what envelope plus admission can realize, when a declared dialect
 * is served by no provider, or a slot has no decoder: the catalog is not to be published then. */
CF_CHECKED int cf_catalog_check(struct cf_error *err);
/* "reachable", "unreachable", or NULL when the harness declares no dialects or is not listed. */
const char *cf_catalog_reach(const char *harness, const char *provider);

#endif
