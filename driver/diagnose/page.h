/*
 * diagnose/page.h: an outcome and its trace as one HTML file (page.html, page.css, page.js) that needs
 * no network and runs no script but its own: the policy in its head names both by their hashes.
 */
#ifndef CF_DIAGNOSE_PAGE_H
#define CF_DIAGNOSE_PAGE_H

#include "base/buf.h"
#include "diagnose/outcome.h"

#include <stddef.h>

struct cf_trace;

/* `trace` may be NULL. to->failed says when memory ran out. */
void cf_page_write(struct cf_buf *to, const struct cf_outcome *outcome, struct cf_trace *trace);

/* Appends JSON text (valid, UTF-8) so that nothing in it can end a script element, turn text around or
 * hide: '<', '>', '&', controls, bidi and invisible characters become \u escapes. */
void cf_page_put_json(struct cf_buf *to, const char *json, size_t len);

#endif
