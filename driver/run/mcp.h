/*
 * run/mcp.h: the MCP servers of a session. One over HTTP is reached through the relay, which knows its
 * address and its headers; the agent is told the relay's own. Private to this room.
 */
#ifndef CF_RUN_MCP_H
#define CF_RUN_MCP_H

#include "relay/relay.h"

struct cf_run;

struct cf_run_mcp { /* what the relay is opened with; zeroed is safe to release */
    struct cf_relay_mcp servers[CF_RELAY_MCP];
    char *headers[CF_RELAY_MCP][CF_RELAY_MCP_HEADERS + 1];
    unsigned count;
};

/* The form of options.mcp. */
CF_CHECKED int cf_run_mcp_check(json_t *servers, struct cf_error *err);
/* Those over HTTP, for the relay; borrowed from the options. */
CF_CHECKED int cf_run_mcp_fill(const struct cf_run *run, struct cf_run_mcp *mcp, struct cf_error *err);
void cf_run_mcp_release(struct cf_run_mcp *mcp);
/* mcpServers of session/new; new reference. */
json_t *cf_run_mcp_descriptors(const struct cf_run *run);

#endif
