/*
 * schema/builtin.c: the contract's own schemas, carried inside the program.
 *
 * They are reached by a fixed name; nothing a caller can put into a document leads here.
 */
#include "schema/compiled.h"

#include "base/carry.h"
#include "base/str.h"

#include <stdlib.h>
#include <string.h>

CARRY(cf_proto_acp, "proto/harness-acp-v1-extension.schema.json");
CARRY(cf_proto_oneshot, "proto/harness-oneshot-v1-author-kit.schema.json");

static const struct builtin {
    const char *name, *bytes, *end;
    const char *entry; /* pointer to the schema meant; "" is the root */
} builtins[] = {
    {"acp-vectors", cf_proto_acp, cf_proto_acp_end, ""},
    {"oneshot-vectors", cf_proto_oneshot, cf_proto_oneshot_end, ""},
    {"oneshot-authoring", cf_proto_oneshot, cf_proto_oneshot_end,
     "/$defs/CreateOneShotHarnessReleaseContract"},
    {"observation", cf_proto_oneshot, cf_proto_oneshot_end,
     "/$defs/OneShotAuthorKitVectorContract/properties/normalized_observations/items"},
};

static int
open_builtin(const struct builtin *builtin, struct cf_schema *schema, struct cf_error *err)
{
    schema->is_trusted = true;
    /* The contract lets one text have 262,144 characters and a document hold many of them. */
    schema->instance = (struct cf_instance_limits){
        .bytes = 8u << 20,
        .depth = 64,
        .nodes = 200000,
        .work = 64000000,
    };
    if (cf_admit_document(schema, builtin->bytes, (size_t)(builtin->end - builtin->bytes),
                          NULL, err) < 0)
        return cf_error_wrap(err, "built-in schema %s", builtin->name);
    if (builtin->entry[0] == '\0')
        return 0;
    schema->entry = cf_find_node(schema, builtin->entry);
    if (schema->entry == 0)
        return cf_error_set(err, CF_ERROR_INTERNAL, 0, "built-in schema %s has no %s",
                            builtin->name, builtin->entry);
    return 0;
}

int
cf_schema_builtin(const char *name, struct cf_schema **ret_schema, struct cf_error *err)
{
    for (size_t i = 0; i < CF_COUNT(builtins); i++) {
        if (strcmp(builtins[i].name, name) != 0)
            continue;
        struct cf_schema *schema = calloc(1, sizeof *schema);
        if (schema == NULL)
            return cf_error_memory(err);
        if (open_builtin(&builtins[i], schema, err) < 0) {
            cf_schema_free(schema);
            return -1;
        }
        *ret_schema = schema;
        return 0;
    }
    return cf_error_set(err, CF_ERROR_INTERNAL, 0, "no built-in schema is called \"%s\"",
                        name);
}
