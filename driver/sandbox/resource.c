/*
 * One entry of an engine's list, told apart from what is not ours, and the shell line that
 * removes it by hand when we could not.
 */
#include "sandbox/sweep.h"

#include "base/buf.h"
#include "base/str.h"
#include "json/json.h"

#include <string.h>

static const char *const names[CF_RESOURCE_KINDS] = {[CF_CONTAINER] = "container",
                                                     [CF_NETWORK] = "network",
                                                     [CF_VOLUME] = "volume",
                                                     [CF_IMAGE] = "image"};

const char *
cf_resource_name(enum cf_resource_kind kind)
{
    return names[kind];
}

/* Containers come with "Names": ["/a"], images with "RepoTags": ["a:b"] or null. */
static const char *
first_of(const json_t *entry, const char *member)
{
    const char *text = json_string_value(json_array_get(cf_json_arr(entry, member), 0));

    return text != NULL ? text : "";
}

/* A container made by somebody else from an image of ours inherits its labels. */
static bool
is_our_container(const json_t *entry, const struct cf_labels *labels)
{
    const char *command = cf_json_str(entry, "Command");
    json_t *all = cf_json_arr(entry, "Names");
    const json_t *name;
    size_t i;

    if (command != NULL && cf_str_starts(command, "/.cf/cf-init"))
        return true;
    json_array_foreach(all, i, name) {
        const char *text = json_string_value(name);
        if (text != NULL && labels->sandbox[0] != '\0' &&
            strcmp(text + (*text == '/'), labels->sandbox) == 0)
            return true;
    }
    return false;
}

bool
cf_resource_read(enum cf_resource_kind kind, const json_t *entry, struct cf_resource *ret)
{
    struct cf_resource read = {.kind = kind};

    if (!cf_labels_read(cf_json_obj(entry, "Labels"), &read.labels))
        return false;
    read.id = cf_json_str(entry, kind == CF_VOLUME ? "Name" : "Id");
    if (read.id == NULL || read.id[0] == '\0')
        return false;
    switch (kind) {
    case CF_CONTAINER:
        if (!is_our_container(entry, &read.labels))
            return false;
        read.name = first_of(entry, "Names");
        read.name += *read.name == '/';
        break;
    case CF_IMAGE:
        read.name = first_of(entry, "RepoTags");
        break;
    default:
        read.name = cf_json_str(entry, "Name");
        break;
    }
    if (read.name == NULL)
        read.name = "";
    *ret = read;
    return true;
}

json_t *
cf_resource_json(const char *kind, const char *id, const char *name)
{
    return json_pack("{s:s, s:s, s:s}", "kind", kind, "id", id, "name", name);
}

void
cf_resource_client(const struct cf_engine *engine, struct cf_buf *line)
{
    const struct cf_engine_facts *facts = cf_engine_facts(engine);

    cf_buf_adds(line, facts->is_podman ? "podman" : "docker");
    if (facts->endpoint == NULL || cf_str_same(facts->endpoint_source, "default"))
        return;
    cf_buf_adds(line, facts->is_podman ? " --url " : " -H ");
    cf_shell_quote(line, facts->endpoint);
}

/* "docker rm -f -v <id>" and the like. */
static char *
removal_line(const struct cf_engine *engine, const char *kind, const char *id)
{
    struct cf_buf line;

    cf_buf_init(&line, 8192);
    cf_resource_client(engine, &line);
    if (strcmp(kind, "container") == 0)
        cf_buf_adds(&line, " rm -f -v ");
    else if (strcmp(kind, "image") == 0)
        cf_buf_adds(&line, " rmi -f ");
    else
        cf_buf_addf(&line, " %s rm ", kind);
    cf_shell_quote(&line, id);
    return cf_buf_take(&line, NULL);
}

json_t *
cf_resource_left_json(const struct cf_engine *engine, const char *kind, const char *id,
                      const char *name, const char *why)
{
    cf_auto_free char *line = removal_line(engine, kind, id);
    json_t *left = cf_resource_json(kind, id, name);

    if (left == NULL || line == NULL ||
        json_object_set_new(left, "why", json_string(why)) < 0 ||
        json_object_set_new(left, "remove", json_string(line)) < 0) {
        json_decref(left);
        return NULL;
    }
    return left;
}
