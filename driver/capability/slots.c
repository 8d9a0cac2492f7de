/*
 * capability/slots.c: the twelve Checkfu slots, each with its decoder, and the two rules about
 * authority: what a harness declares, and what we ask of it in session/new.
 *
 * One table: a slot without a decoder cannot be written down, and another name for a slot is
 * one more word in its row.
 */
#include "capability/slots.h"

#include "base/str.h"
#include "json/json.h"

#include <stdio.h>
#include <string.h>

#define STATE_BYTES_MAX (1u << 20)

/* clang-format off: tables */
static const char *const word_observed[] = {"observed", NULL};
static const char *const word_native[] = {"native", NULL};
static const char *const word_cooperative[] = {"cooperative", NULL};
static const char *const word_enforced[] = {"enforced", NULL};
static const char *const word_structured[] = {"response_format", "submit_tool", NULL};
static const char *const word_links[] = {"resource_links", NULL};
static const char *const word_custody[] = {"external_custody", NULL};
static const char *const word_execution[] = {"shell", "model_only", NULL};
static const char *const word_steer[] = {"delivered", "queued", "refused", NULL};
static const char *const word_interrupt[] = {"draining", "refused", NULL};
static const char *const word_settled[] = {"completed", "failed", "canceled", NULL};
static const char *const word_started[] = {"started", NULL};
static const char *const word_activity[] = {"activity", NULL};
static const char *const word_completed[] = {"completed", NULL};
static const char *const word_continuity[] = {"fresh", "same_run_resume", "event_log_rebuild",
                                              NULL};
static const char *const word_builtin[] = {"bash",       "read",      "write", "edit",
                                           "web_search", "web_fetch", NULL};

#define OPTIONAL_WORD(name, words)                            \
    {                                                         \
        name, CF_CLOSED_WORD, false, false, 0, 0, words, NULL \
    }
#define REQUIRED_WORD(name, words)                           \
    {                                                        \
        name, CF_CLOSED_WORD, true, false, 0, 0, words, NULL \
    }
#define REQUIRED_COUNT(name, min, max)                           \
    {                                                            \
        name, CF_CLOSED_COUNT, true, false, min, max, NULL, NULL \
    }
#define REQUIRED_TEXT(name, min, max)                           \
    {                                                           \
        name, CF_CLOSED_TEXT, true, false, min, max, NULL, NULL \
    }
#define END          \
    {                \
        .name = NULL \
    }

static const struct cf_closed closed_capabilities[] = {
    OPTIONAL_WORD("subagents", word_observed),
    OPTIONAL_WORD("steer", word_native),
    OPTIONAL_WORD("interrupt", word_cooperative),
    OPTIONAL_WORD("builtin_tool_scoping", word_enforced),
    OPTIONAL_WORD("structured_output", word_structured),
    OPTIONAL_WORD("staged_files", word_links),
    OPTIONAL_WORD("native_checkpoint", word_custody),
    END,
};
static const struct cf_closed closed_started[] = {
    REQUIRED_WORD("phase", word_started),
    REQUIRED_TEXT("subagent", 1, 256),
    REQUIRED_TEXT("name", 1, 256),
    {"description", CF_CLOSED_TEXT, false, false, 0, INT64_MAX, NULL, NULL},
    END,
};
static const struct cf_closed closed_activity[] = {
    REQUIRED_WORD("phase", word_activity),
    REQUIRED_TEXT("subagent", 1, 256),
    END,
};
static const struct cf_closed closed_completed[] = {
    REQUIRED_WORD("phase", word_completed),
    REQUIRED_TEXT("subagent", 1, 256),
    REQUIRED_WORD("disposition", word_settled),
    END,
};
const struct cf_closed cf_closed_turn[] = {
    REQUIRED_WORD("execution", word_execution),
    REQUIRED_COUNT("shell_commands", 0, 1000000),
    REQUIRED_COUNT("filesystem_commands", 0, 1000000),
    REQUIRED_COUNT("mcp_calls", 0, 1000000),
    REQUIRED_COUNT("model_calls", 0, 1000000),
    REQUIRED_COUNT("wall_time_ms", 0, 604800000),
    {"model_transient_retries", CF_CLOSED_COUNT, false, true, 0, 1000000, NULL, NULL},
    {"model_overflow_recoveries", CF_CLOSED_COUNT, false, true, 0, 1000000, NULL, NULL},
    END,
};
const struct cf_closed cf_closed_compaction[] = {
    REQUIRED_WORD("strategy", word_native),
    REQUIRED_COUNT("tokens_before", 0, INT64_MAX),
    REQUIRED_COUNT("tokens_after", 0, INT64_MAX),
    {"compacted_messages", CF_CLOSED_COUNT, false, false, 0, INT64_MAX, NULL, NULL},
    END,
};
static const struct cf_closed closed_steer[] = {REQUIRED_WORD("disposition", word_steer), END};
static const struct cf_closed closed_interrupt[] = {
    REQUIRED_WORD("disposition", word_interrupt), END};
static const struct cf_closed closed_policy[] = {
    REQUIRED_WORD("strategy", word_native),
    REQUIRED_COUNT("trigger_tokens", 1, 100000000),
    END,
};
static const struct cf_closed closed_runtime_config[] = {
    REQUIRED_COUNT("context_window_tokens", 1, 100000000),
    {"compaction", CF_CLOSED_OBJECT, false, false, 0, 0, NULL, closed_policy},
    END,
};
static const struct cf_closed closed_state[] = {
    REQUIRED_COUNT("version", 1, 1),
    REQUIRED_TEXT("state", 0, STATE_BYTES_MAX),
    END,
};
static const struct cf_closed closed_too_large[] = {
    REQUIRED_COUNT("version", 1, 1),
    {"too_large", CF_CLOSED_BOOL, true, false, 0, 0, NULL, NULL},
    END,
};

/* clang-format on */

/* ---- decoders that are more than a table ---- */

static int
check_subagent(const struct cf_slot_row *row, json_t *value, struct cf_error *err)
{
    const char *phase = cf_json_str(value, "phase");
    const struct cf_closed *members = closed_started;

    if (cf_str_same(phase, "activity"))
        members = closed_activity;
    else if (cf_str_same(phase, "completed"))
        members = closed_completed;
    return cf_closed_check(value, row->names[0], members, CF_ERROR_WIRE, err);
}

static int
check_state_size(const struct cf_slot_row *row, json_t *value, enum cf_error_kind kind,
                 struct cf_error *err)
{
    size_t len = json_string_length(json_object_get(value, "state"));

    if (len > STATE_BYTES_MAX)
        return cf_error_set(err, kind, 0, "%s/state has %zu bytes, at most %u are allowed",
                            row->names[0], len, STATE_BYTES_MAX);
    return 0;
}

static int
check_resume(const struct cf_slot_row *row, json_t *value, struct cf_error *err)
{
    if (cf_closed_check(value, row->names[0], closed_state, CF_ERROR_INCOMPATIBLE, err) < 0)
        return -1;
    return check_state_size(row, value, CF_ERROR_INCOMPATIBLE, err);
}

static int
check_checkpoint(const struct cf_slot_row *row, json_t *value, struct cf_error *err)
{
    json_t *too_large = json_object_get(value, "too_large");

    if (too_large == NULL) {
        if (cf_closed_check(value, row->names[0], closed_state, CF_ERROR_WIRE, err) < 0)
            return -1;
        return check_state_size(row, value, CF_ERROR_WIRE, err);
    }
    if (json_is_false(too_large))
        return cf_error_set(err, CF_ERROR_WIRE, 0, "%s/too_large must be true", row->names[0]);
    return cf_closed_check(value, row->names[0], closed_too_large, CF_ERROR_WIRE, err);
}

static int
check_builtin_tools(const struct cf_slot_row *row, json_t *value, struct cf_error *err)
{
    unsigned seen = 0;
    json_t *tool;
    size_t i;

    if (!json_is_array(value))
        return cf_error_set(err, CF_ERROR_INCOMPATIBLE, 0, "%s must be an array",
                            row->names[0]);
    json_array_foreach(value, i, tool) {
        unsigned at = 0;
        while (word_builtin[at] != NULL &&
               !cf_str_same(word_builtin[at], json_string_value(tool)))
            at++;
        if (word_builtin[at] == NULL)
            return cf_error_set(
                err, CF_ERROR_INCOMPATIBLE, 0,
                "%s/%zu must be one of: bash, read, write, edit, web_search, web_fetch",
                row->names[0], i);
        if (seen & 1u << at)
            return cf_error_set(err, CF_ERROR_INCOMPATIBLE, 0, "%s names \"%s\" twice",
                                row->names[0], word_builtin[at]);
        seen |= 1u << at;
    }
    return 0;
}

static int
check_continuity(const struct cf_slot_row *row, json_t *value, struct cf_error *err)
{
    for (size_t i = 0; word_continuity[i] != NULL; i++)
        if (cf_str_same(word_continuity[i], json_string_value(value)))
            return 0;
    return cf_error_set(err, CF_ERROR_INCOMPATIBLE, 0,
                        "%s must be one of: fresh, same_run_resume, event_log_rebuild",
                        row->names[0]);
}

static int
check_output_schema(const struct cf_slot_row *row, json_t *value, struct cf_error *err)
{
    if (json_is_object(value) || json_is_boolean(value))
        return 0;
    return cf_error_set(err, CF_ERROR_INCOMPATIBLE, 0, "%s must be an object, true or false",
                        row->names[0]);
}

/* ---- the table ---- */

/* clang-format off: tables */
#define TO_AGENT "client_to_harness"
#define TO_RUNNER "harness_to_client"

const struct cf_slot_row cf_slot_rows[CF_SLOT_COUNT] = {
    [CF_SLOT_CAPABILITIES] = {{"checkfu.capabilities"},
                              "initialize response _meta",
                              TO_RUNNER,
                              true,
                              closed_capabilities,
                              NULL,
                              NULL},
    [CF_SLOT_SUBAGENT] = {{"checkfu.subagent"},
                          "session/update member _meta",
                          TO_RUNNER,
                          false,
                          NULL,
                          check_subagent,
                          NULL},
    [CF_SLOT_TURN] = {{"checkfu.turn"},
                      "session/prompt response _meta",
                      TO_RUNNER,
                      false,
                      cf_closed_turn,
                      NULL,
                      NULL},
    [CF_SLOT_STEER] = {{"_checkfu/session/steer"},
                       "ACP extension request",
                       TO_AGENT,
                       false,
                       closed_steer,
                       NULL,
                       NULL},
    [CF_SLOT_INTERRUPT] = {{"_checkfu/session/interrupt"},
                           "ACP extension request",
                           TO_AGENT,
                           false,
                           closed_interrupt,
                           NULL,
                           NULL},
    [CF_SLOT_BUILTIN_TOOLS] = {{"checkfu.builtin_tools"},
                               "session/new request _meta",
                               TO_AGENT,
                               true,
                               NULL,
                               check_builtin_tools,
                               "builtin_tool_scoping"},
    [CF_SLOT_CONTINUITY] = {{"checkfu.continuity"},
                            "session/new request _meta",
                            TO_AGENT,
                            true,
                            NULL,
                            check_continuity,
                            NULL},
    [CF_SLOT_RUNTIME_CONFIG] = {{"checkfu.runtime_config"},
                                "session/new request _meta",
                                TO_AGENT,
                                true,
                                closed_runtime_config,
                                NULL,
                                NULL},
    [CF_SLOT_OUTPUT_SCHEMA] = {{"checkfu.output_schema"},
                               "session/new request _meta",
                               TO_AGENT,
                               true,
                               NULL,
                               check_output_schema,
                               "structured_output"},
    [CF_SLOT_RESUME] = {{"checkfu.resume"},
                        "session/new request _meta",
                        TO_AGENT,
                        true,
                        NULL,
                        check_resume,
                        "native_checkpoint"},
    [CF_SLOT_JOURNAL_CHECKPOINT] = {{"checkfu.journal_checkpoint"},
                                    "session/update member _meta",
                                    TO_RUNNER,
                                    false,
                                    NULL,
                                    check_checkpoint,
                                    NULL},
    [CF_SLOT_COMPACTION] = {{"checkfu.compaction"},
                            "session/update member _meta",
                            TO_RUNNER,
                            false,
                            cf_closed_compaction,
                            NULL,
                            NULL},
};

/* clang-format on */

const char *
cf_slot_name(enum cf_slot slot)
{
    return cf_slot_rows[slot].names[0];
}

json_t *
cf_slot_find(enum cf_slot slot, json_t *meta)
{
    const char *const *names = cf_slot_rows[slot].names;
    json_t *value = NULL;

    for (size_t i = 0;
         i < CF_COUNT(cf_slot_rows[slot].names) && names[i] != NULL && value == NULL; i++)
        value = json_object_get(meta, names[i]);
    return value;
}

bool
cf_slot_is_known(const char *member)
{
    for (size_t slot = 0; slot < CF_SLOT_COUNT; slot++)
        for (size_t i = 0;
             i < CF_COUNT(cf_slot_rows[slot].names) && cf_slot_rows[slot].names[i] != NULL;
             i++)
            if (strcmp(cf_slot_rows[slot].names[i], member) == 0)
                return true;
    return false;
}

int
cf_slot_check(enum cf_slot slot, json_t *value, struct cf_error *err)
{
    const struct cf_slot_row *row = &cf_slot_rows[slot];
    enum cf_error_kind kind = row->is_authority ? CF_ERROR_INCOMPATIBLE : CF_ERROR_WIRE;

    if (row->check != NULL)
        return row->check(row, value, err);
    return cf_closed_check(value, row->names[0], row->members, kind, err);
}

const char *
cf_slot_disposition(enum cf_slot slot, json_t *result)
{
    const char *const *words = slot == CF_SLOT_STEER ? word_steer : word_interrupt;
    struct cf_error err;

    if ((slot != CF_SLOT_STEER && slot != CF_SLOT_INTERRUPT) ||
        cf_slot_check(slot, result, &err) < 0)
        return NULL;
    for (; *words != NULL; words++)
        if (strcmp(*words, cf_json_str(result, "disposition")) == 0)
            return *words;
    return NULL;
}

/* ---- declaration and session/new ---- */

int
cf_declaration_read(json_t *initialize_result, struct cf_declaration *ret,
                    struct cf_error *err)
{
    json_t *value =
        cf_slot_find(CF_SLOT_CAPABILITIES, cf_json_obj(initialize_result, "_meta"));
    struct cf_declaration declaration = {0};

    if (value != NULL) {
        if (cf_slot_check(CF_SLOT_CAPABILITIES, value, err) < 0) {
            (void)cf_error_wrap(err, "the harness's declaration is refused");
            return cf_error_fix(
                err, "declare only what the contract lists; leave out what is not served");
        }
        const char *structured = cf_json_str(value, "structured_output");
        declaration.subagents = json_object_get(value, "subagents") != NULL;
        declaration.steer = json_object_get(value, "steer") != NULL;
        declaration.interrupt = json_object_get(value, "interrupt") != NULL;
        declaration.builtin_tool_scoping =
            json_object_get(value, "builtin_tool_scoping") != NULL;
        declaration.staged_files = json_object_get(value, "staged_files") != NULL;
        declaration.native_checkpoint = json_object_get(value, "native_checkpoint") != NULL;
        if (structured != NULL)
            declaration.structured_output = strcmp(structured, "response_format") == 0 ? 1 : 2;
    }
    *ret = declaration;
    return 0;
}

static bool
is_declared(const struct cf_declaration *declaration, const char *needs)
{
    return (strcmp(needs, "builtin_tool_scoping") == 0 && declaration->builtin_tool_scoping) ||
           (strcmp(needs, "structured_output") == 0 && declaration->structured_output != 0) ||
           (strcmp(needs, "native_checkpoint") == 0 && declaration->native_checkpoint);
}

static int
check_request(json_t *meta, enum cf_slot slot, const struct cf_declaration *declaration,
              struct cf_error *err)
{
    const struct cf_slot_row *row = &cf_slot_rows[slot];
    json_t *value = json_object_get(meta, row->names[0]);

    if (value == NULL)
        return 0;
    if (cf_slot_check(slot, value, err) < 0)
        return -1;
    if (row->needs != NULL && !is_declared(declaration, row->needs)) {
        (void)cf_error_set(err, CF_ERROR_INCOMPATIBLE, 0,
                           "%s was asked for, but the harness does not declare %s",
                           row->names[0], row->needs);
        return cf_error_fix(
            err, "leave the request out, or declare %s in checkfu.capabilities and serve it",
            row->needs);
    }
    if (slot == CF_SLOT_RESUME &&
        !cf_str_same(cf_json_str(meta, "checkfu.continuity"), "same_run_resume"))
        return cf_error_set(
            err, CF_ERROR_INCOMPATIBLE, 0,
            "checkfu.resume is legal only with checkfu.continuity same_run_resume");
    return 0;
}

int
cf_session_meta_check(json_t *meta, const struct cf_declaration *declaration,
                      struct cf_error *err)
{
    const char *name;
    json_t *value;

    if (meta == NULL)
        return 0;
    if (!json_is_object(meta))
        return cf_error_set(err, CF_ERROR_INCOMPATIBLE, 0,
                            "_meta of session/new must be an object");
    for (int slot = CF_SLOT_BUILTIN_TOOLS; slot <= CF_SLOT_RESUME; slot++)
        if (check_request(meta, (enum cf_slot)slot, declaration, err) < 0)
            return -1;
    json_object_foreach(meta, name, value) {
        int slot = CF_SLOT_BUILTIN_TOOLS;
        while (slot <= CF_SLOT_RESUME && strcmp(cf_slot_rows[slot].names[0], name) != 0)
            slot++;
        if (cf_str_starts(name, "checkfu.") && slot > CF_SLOT_RESUME)
            return cf_error_set(err, CF_ERROR_INCOMPATIBLE, 0,
                                "%.100s does not belong into session/new", name);
    }
    return 0;
}

void
cf_session_meta_names(json_t *meta, char *out, size_t size)
{
    size_t len = 0;

    if (size > 0)
        out[0] = '\0';
    for (int slot = CF_SLOT_BUILTIN_TOOLS; slot <= CF_SLOT_RESUME && len < size; slot++)
        if (json_object_get(meta, cf_slot_rows[slot].names[0]) != NULL)
            len += (size_t)snprintf(out + len, size - len, "%s%s", len > 0 ? ", " : "",
                                    cf_slot_rows[slot].names[0]);
}
