/*
 * acp-harness/mcp.h: MCP servers over HTTP that a session was given: connected in session/new,
 * their tools offered to the model as mcp__SERVER__TOOL.
 */
#ifndef HN_MCP_H
#define HN_MCP_H

#include "base/buf.h"
#include "base/error.h"

#include <jansson.h>
#include <stdbool.h>

struct hn_mcp;

/*
 * Connects to every server of session/new's `mcpServers`, in turn, waiting at most 10 s for each
 * answer. All or nothing: a session that starts without a tool it was given would look well and
 * not be. *ret_list is NULL for an empty array; hn_mcp_free takes it.
 */
int hn_mcp_connect(struct hn_mcp **ret_list, json_t *servers, struct cf_error *err);
void hn_mcp_free(struct hn_mcp *list);

/* Appends the tools, in the form of dialect.h. */
void hn_mcp_offer(const struct hn_mcp *list, json_t *tools);

/* True when `name` is a tool of one of them; then it was called (at most 60 s), its text is
 * appended, and *ret_failed says whether it failed. */
bool hn_mcp_call(struct hn_mcp *list, const char *name, json_t *input, struct cf_buf *text,
                 bool *ret_failed);

#endif
