/*
 * acp-harness/authority.h: the five members of session/new's `_meta` that ask for authority.
 * What is malformed, undeclared or contradictory is refused before any model work; a member
 * this agent does not know is passed over.
 */
#ifndef HN_AUTHORITY_H
#define HN_AUTHORITY_H

#include "declare.h"

enum { HN_TOOL_BASH = 1, HN_TOOL_READ = 2, HN_TOOL_WRITE = 4, HN_TOOL_EDIT = 8,
       HN_TOOL_WEB_SEARCH = 16, HN_TOOL_WEB_FETCH = 32, HN_TOOL_ALL = 63 };

/* Zeroed is a session without any; release with hn_authority_release. */
struct hn_authority {
    bool has_ceiling;
    unsigned tools;            /* HN_TOOL_*; what the ceiling admits when there is one */
    json_int_t context_window; /* 0: not said */
    json_int_t compaction_trigger;
    json_t *output_schema;     /* owned; NULL: none */
    json_t *resumed;           /* owned: the messages of an imported conversation; NULL: none */
};

/* "bash" and so on; 0 for another word. */
unsigned hn_tool_named(const char *name);

/* `meta` may be NULL or JSON null. -1: refused, err->text names the member. */
int hn_authority_read(struct hn_authority *authority, json_t *meta,
                      const struct hn_declared *declared, struct cf_error *err);
void hn_authority_release(struct hn_authority *authority);

/* A conversation as the opaque text that hn_authority_read takes back; yours (free). */
char *hn_checkpoint_text(json_t *messages);

#endif
