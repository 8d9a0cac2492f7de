/* MCP servers of a run: a name, an address, and headers that the sandbox never sees. Its one
 * URL is served, and nothing beside or below it. */
#include "relay/call.h"

#include "base/str.h"

#include <sodium.h>
#include <string.h>

static const char root[] = "/mcp/";

static bool
is_name(const char *name)
{
    static const char plain[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_.";
    size_t len = strlen(name);

    return len >= 1 && len <= 64 && strspn(name, plain) == len && strspn(name, ".") != len;
}

static bool
is_header(const char *line)
{
    size_t name = strcspn(line, ":");

    if (name == 0 || line[name] == '\0')
        return false;
    for (const char *at = line; *at != '\0'; at++)
        if ((unsigned char)*at < ' ' || *at == 0x7f || (at < line + name && *at == ' '))
            return false;
    return true;
}

int
cf_mcp_init(struct cf_mcp *mcp, const struct cf_relay_mcp *from, struct cf_error *err)
{
    const struct cf_relay_upstream upstream = {
        .provider = from->name, .url = from->url, .may_be_plain = true};

    memset(mcp, 0, sizeof *mcp);
    if (!is_name(from->name)) {
        (void)cf_error_set(err, CF_ERROR_CONFIG, 0, "\"%.80s\" is no name for an MCP server",
                           from->name);
        return cf_error_fix(err, "use 1 to 64 letters, digits, - _ .");
    }
    if (cf_upstream_init(&mcp->upstream, &upstream, err) < 0)
        return cf_error_wrap(err, "MCP server");
    mcp->ends_in_slash = cf_str_ends(from->url, "/");
    if (cf_str_copy(&mcp->name, from->name, err) < 0)
        return -1;
    for (size_t i = 0; from->headers != NULL && from->headers[i] != NULL; i++) {
        if (i >= CF_RELAY_MCP_HEADERS || !is_header(from->headers[i]))
            return cf_error_set(
                err, CF_ERROR_CONFIG, 0, "MCP server %s: header %zu is %s", from->name, i + 1,
                i >= CF_RELAY_MCP_HEADERS ? "one too many" : "not NAME: VALUE");
        if (cf_str_copy(&mcp->headers[i], from->headers[i], err) < 0)
            return -1;
    }
    return 0;
}

void
cf_mcp_release(struct cf_mcp *mcp)
{
    for (size_t i = 0; mcp->headers[i] != NULL; i++) {
        sodium_memzero(mcp->headers[i], strlen(mcp->headers[i]));
        free(mcp->headers[i]);
    }
    free(mcp->name);
    cf_upstream_release(&mcp->upstream);
    memset(mcp, 0, sizeof *mcp);
}

const struct cf_mcp *
cf_mcp_find(const struct cf_relay *relay, const char *path, const char **ret_target)
{
    if (!cf_str_starts(path, root))
        return NULL;
    path += strlen(root);
    for (unsigned i = 0; i < relay->mcp_count; i++) {
        if (strcmp(path, relay->mcp[i].name) != 0)
            continue;
        *ret_target = relay->mcp[i].ends_in_slash ? "/" : "";
        return &relay->mcp[i];
    }
    return NULL;
}
