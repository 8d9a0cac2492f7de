/* The MCP servers of a session, on the relay's side and on the agent's. */
#include "run/mcp.h"
#include "run/hall.h"

#include "base/str.h"
#include "json/json.h"

#include <sodium.h>
#include <stdio.h>
#include <string.h>

static bool
is_over_http(const json_t *server)
{
    return cf_str_same(cf_json_str(server, "type"), "http");
}

static int
check_pairs(const json_t *server, const char *list, struct cf_error *err)
{
    json_t *pairs = json_object_get(server, list), *pair;
    size_t i;

    if (pairs != NULL && !json_is_array(pairs))
        return cf_error_set(err, CF_ERROR_CONFIG, 0, "options: %s of an MCP server is not an array", list);
    json_array_foreach(pairs, i, pair)
        if (cf_json_str(pair, "name") == NULL || cf_json_str(pair, "value") == NULL)
            return cf_error_set(err, CF_ERROR_CONFIG, 0, "options: %s[%zu] of an MCP server is not {name, value}", list, i);
    if (json_array_size(pairs) > CF_RELAY_MCP_HEADERS && is_over_http(server))
        return cf_error_set(err, CF_ERROR_CONFIG, 0, "options: an MCP server has more than %u headers", CF_RELAY_MCP_HEADERS);
    return 0;
}

/* http and sse have a url, stdio a command. */
int
cf_run_mcp_check(json_t *servers, struct cf_error *err)
{
    json_t *server;
    size_t i, over_http = 0;

    json_array_foreach(servers, i, server) {
        const char *type = cf_json_str(server, "type");
        bool is_remote = type != NULL && (is_over_http(server) || strcmp(type, "sse") == 0);
        if (cf_json_str(server, "name") == NULL || (type != NULL && !is_remote && strcmp(type, "stdio") != 0) ||
            cf_json_str(server, is_remote ? "url" : "command") == NULL) {
            (void)cf_error_set(err, CF_ERROR_CONFIG, 0, "options: mcp[%zu] is no MCP server", i);
            return cf_error_fix(err, "give {type: http, name, url, headers?}, or {name, command, args, env} for a program "
                                     "of the image");
        }
        if (check_pairs(server, "headers", err) < 0)
            return -1;
        over_http += is_over_http(server);
    }
    if (over_http > CF_RELAY_MCP)
        return cf_error_set(err, CF_ERROR_CONFIG, 0, "options: more than %u MCP servers over HTTP", CF_RELAY_MCP);
    return 0;
}

int
cf_run_mcp_fill(const struct cf_run *run, struct cf_run_mcp *mcp, struct cf_error *err)
{
    json_t *server, *header;
    size_t i, k;

    json_array_foreach(run->options.mcp, i, server) {
        char **lines = mcp->headers[mcp->count];
        if (!is_over_http(server))
            continue;
        json_array_foreach(json_object_get(server, "headers"), k, header)
            if (asprintf(&lines[k], "%s: %s", cf_json_str(header, "name"), cf_json_str(header, "value")) < 0) {
                lines[k] = NULL;
                return cf_error_memory(err);
            }
        mcp->servers[mcp->count++] = (struct cf_relay_mcp){.name = cf_json_str(server, "name"),
                                                           .url = cf_json_str(server, "url"),
                                                           .headers = (const char *const *)lines};
    }
    return 0;
}

void
cf_run_mcp_release(struct cf_run_mcp *mcp)
{
    for (unsigned i = 0; i < CF_RELAY_MCP; i++)
        for (char **line = mcp->headers[i]; *line != NULL; line++) {
            sodium_memzero(*line, strlen(*line));
            free(*line);
        }
    memset(mcp, 0, sizeof *mcp);
}

/* The author's headers may be secrets: they stay outside. The relay wants its own token. */
static json_t *
through_relay(const struct cf_run *run, json_t *server)
{
    json_t *made = json_copy(server);
    char url[160], bearer[100];

    (void)snprintf(url, sizeof url, "http://127.0.0.1:%u/mcp/%s", run->options.relay_port, cf_json_str(server, "name"));
    (void)snprintf(bearer, sizeof bearer, "Bearer %s", cf_relay_token(run->relay));
    (void)json_object_set_new(made, "url", json_string(url));
    (void)json_object_set_new(made, "headers", json_pack("[{s:s, s:s}]", "name", "Authorization", "value", bearer));
    return made;
}

json_t *
cf_run_mcp_descriptors(const struct cf_run *run)
{
    json_t *list = json_array(), *server;
    size_t i;

    json_array_foreach(run->options.mcp, i, server)
        (void)json_array_append_new(list, is_over_http(server) ? through_relay(run, server) : json_incref(server));
    return list;
}
