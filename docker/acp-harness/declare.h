/* acp-harness/declare.h: the seven members of `checkfu.capabilities`, and what of them is on. */
#ifndef HN_DECLARE_H
#define HN_DECLARE_H

#include "base/error.h"

#include <jansson.h>
#include <stdbool.h>

enum hn_structured { HN_STRUCTURED_NONE, HN_RESPONSE_FORMAT, HN_SUBMIT_TOOL };

struct hn_declared {
    bool subagents, steer, interrupt, tool_scoping, staged_files, native_checkpoint;
    enum hn_structured structured;
};

/* "steer,interrupt", "structured_output:submit_tool", "all": added to what is declared. */
int hn_declare(struct hn_declared *declared, const char *list, struct cf_error *err);
bool hn_declares_any(const struct hn_declared *declared);

/* The declaration as it goes into the initialize response; yours, NULL when nothing is on: an
 * agent without extensions says nothing about them. */
json_t *hn_declaration(const struct hn_declared *declared);

#endif
