/*
 * diagnose/formats.h: an outcome as files that other programs read. Each appends a whole document;
 * to->failed says when memory ran out. Text that came from outside is escaped for its place.
 */
#ifndef CF_DIAGNOSE_FORMATS_H
#define CF_DIAGNOSE_FORMATS_H

#include "base/buf.h"
#include "base/error.h"
#include "diagnose/outcome.h"

/* JUnit XML: one suite, a case a check, classname "<name>.<group>"; what is not the harness's fault
 * is an error, not a failure. */
void cf_format_junit(struct cf_buf *to, const struct cf_outcome *outcome);

/* TAP 13, a YAML block under each "not ok". */
void cf_format_tap(struct cf_buf *to, const struct cf_outcome *outcome);

/* SARIF 2.1.0: a rule a check, a result for each that failed and each finding; skips are
 * notifications of the tool. */
void cf_format_sarif(struct cf_buf *to, const struct cf_outcome *outcome);

/* GitHub-flavoured Markdown for a step's summary. */
void cf_format_summary(struct cf_buf *to, const struct cf_outcome *outcome);

/* An in-toto Statement v1 with a test-result predicate, in canonical form (RFC 8785), about the
 * image's digest. It is not signed, and says so. -1: there is no digest to speak of
 * (CF_ERROR_CONFIG), or memory. */
CF_CHECKED int cf_format_statement(struct cf_buf *to, const struct cf_outcome *outcome, struct cf_error *err);

#endif
