/*
 * cfrunner/release.h: the authoring contract of a harness release: what image, which program, which
 * wire. Closed, bounded, with cross-field rules; every mistake is reported at once.
 *
 * Source: proto/harness-oneshot-v1-author-kit.schema.json (CreateOneShotHarnessReleaseContract); the
 * acp-v1 form carries `arguments` and `mcp_delivery` in place of the process members.
 */
#ifndef CFRUNNER_RELEASE_H
#define CFRUNNER_RELEASE_H

#include <cfrunner/error.h>
#include <cfrunner/version.h>

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * Decodes a release. Returns 0 when it is valid, -1 with `err` (first mistake) when not. In both
 * cases *ret_report is {"valid":bool,"errors":[{"pointer","code","message","remedy"}],"warnings":
 * [...]} as NUL-terminated JSON, yours: free with cf_release_report_free; NULL only out of memory.
 * Limit of the document: 512 KiB.
 */
CF_API CF_CHECKED int cf_release_check(const char *json, size_t len, char **ret_report, struct cf_error *err);
CF_API void cf_release_report_free(char *report);

#ifdef __cplusplus
}
#endif
#endif
