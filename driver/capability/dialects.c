/*
 * capability/dialects.c: the model wire dialects, their gateway paths, and which provider
 * accepts which. The relay's path allow-list and the reachability matrix both come from here.
 */
#include "capability/tables.h"

#include "base/str.h"

#include <string.h>

#define DEFAULT_DIALECTS \
    (CF_DIALECT_ANTHROPIC_MESSAGES | CF_DIALECT_OPENAI_CHAT | CF_DIALECT_OPENAI_RESPONSES)

const struct cf_dialect_row cf_dialect_rows[CF_DIALECT_COUNT] = {
    {CF_DIALECT_ANTHROPIC_MESSAGES, "anthropic_messages", "/v1/messages"},
    {CF_DIALECT_OPENAI_CHAT, "openai_chat", "/v1/chat/completions"},
    {CF_DIALECT_OPENAI_RESPONSES, "openai_responses", "/v1/responses"},
    {CF_DIALECT_FAL_QUEUE, "fal_queue", "/{model_id}"},
};

const struct cf_provider_row cf_provider_rows[CF_PROVIDER_COUNT] = {
    {"anthropic", CF_DIALECT_ANTHROPIC_MESSAGES},
    {"checkfu-replay", CF_DIALECT_OPENAI_CHAT | CF_DIALECT_OPENAI_RESPONSES},
    {"fal-ai", CF_DIALECT_FAL_QUEUE},
    {"google-ai-studio", CF_DIALECT_OPENAI_CHAT},
    {"openai", CF_DIALECT_OPENAI_CHAT | CF_DIALECT_OPENAI_RESPONSES},
    {"openrouter", CF_DIALECT_OPENAI_CHAT | CF_DIALECT_OPENAI_RESPONSES},
};

static const struct cf_dialect_row *
row_of(enum cf_dialect dialect)
{
    for (size_t i = 0; i < CF_COUNT(cf_dialect_rows); i++)
        if (cf_dialect_rows[i].dialect == dialect)
            return &cf_dialect_rows[i];
    return NULL;
}

const char *
cf_dialect_name(enum cf_dialect dialect)
{
    const struct cf_dialect_row *row = row_of(dialect);

    return row != NULL ? row->name : NULL;
}

const char *
cf_dialect_path(enum cf_dialect dialect)
{
    const struct cf_dialect_row *row = row_of(dialect);

    return row != NULL ? row->path : NULL;
}

unsigned
cf_dialect_parse(const char *name)
{
    for (size_t i = 0; i < CF_COUNT(cf_dialect_rows); i++)
        if (strcmp(cf_dialect_rows[i].name, name) == 0)
            return cf_dialect_rows[i].dialect;
    return 0;
}

unsigned
cf_provider_dialects(const char *provider)
{
    for (size_t i = 0; provider != NULL && i < CF_COUNT(cf_provider_rows); i++)
        if (strcmp(cf_provider_rows[i].provider, provider) == 0)
            return cf_provider_rows[i].dialects;
    return DEFAULT_DIALECTS;
}
