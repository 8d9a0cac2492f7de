/* The seven members of `checkfu.capabilities`, and what of them is on. */
#include "declare.h"

#include "base/str.h"

#include <stddef.h>
#include <string.h>

static const struct {
    const char *name, *value;
    size_t at; /* of its bool in struct hn_declared; structured_output has two values */
} members[] = {
    { "subagents", "observed", offsetof(struct hn_declared, subagents) },
    { "steer", "native", offsetof(struct hn_declared, steer) },
    { "interrupt", "cooperative", offsetof(struct hn_declared, interrupt) },
    { "builtin_tool_scoping", "enforced", offsetof(struct hn_declared, tool_scoping) },
    { "staged_files", "resource_links", offsetof(struct hn_declared, staged_files) },
    { "native_checkpoint", "external_custody", offsetof(struct hn_declared, native_checkpoint) },
};

static bool *
flag(const struct hn_declared *declared, size_t i)
{
    return (bool *)((char *)declared + members[i].at);
}

static bool
declare_one(struct hn_declared *declared, const char *name)
{
    if (strcmp(name, "all") == 0) {
        for (size_t i = 0; i < CF_COUNT(members); i++)
            *flag(declared, i) = true;
        declared->structured = HN_RESPONSE_FORMAT;
        return true;
    }
    if (strcmp(name, "structured_output") == 0 ||
        strcmp(name, "structured_output:response_format") == 0) {
        declared->structured = HN_RESPONSE_FORMAT;
        return true;
    }
    if (strcmp(name, "structured_output:submit_tool") == 0) {
        declared->structured = HN_SUBMIT_TOOL;
        return true;
    }
    for (size_t i = 0; i < CF_COUNT(members); i++)
        if (strcmp(name, members[i].name) == 0)
            return *flag(declared, i) = true;
    return false;
}

int
hn_declare(struct hn_declared *declared, const char *list, struct cf_error *err)
{
    cf_auto_free char *copy = strdup(list);
    char *rest = copy, *name;

    if (copy == NULL)
        return cf_error_memory(err);
    while ((name = strsep(&rest, ",")) != NULL)
        if (!declare_one(declared, name))
            return cf_error_set(err, CF_ERROR_CONFIG, 0, "no capability \"%s\" to declare", name);
    return 0;
}

bool
hn_declares_any(const struct hn_declared *declared)
{
    bool any = declared->structured != HN_STRUCTURED_NONE;

    for (size_t i = 0; i < CF_COUNT(members); i++)
        any |= *flag(declared, i);
    return any;
}

json_t *
hn_declaration(const struct hn_declared *declared)
{
    json_t *object;

    if (!hn_declares_any(declared))
        return NULL;
    object = json_object();
    for (size_t i = 0; i < CF_COUNT(members); i++)
        if (*flag(declared, i))
            json_object_set_new(object, members[i].name, json_string(members[i].value));
    if (declared->structured != HN_STRUCTURED_NONE)
        json_object_set_new(object, "structured_output",
                            json_string(declared->structured == HN_SUBMIT_TOOL ? "submit_tool"
                                                                               : "response_format"));
    return object;
}
