/*
 * cli/reports.h: the files that tell what came out: --junit, --tap, --sarif, --summary,
 * --statement. They are opened before the run, so that one that cannot be written is refused then and
 * no file of an earlier run stands for this one, and written after it.
 */
#ifndef CF_CLI_REPORTS_H
#define CF_CLI_REPORTS_H

#include "base/error.h"

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

struct cf_launch_flags;

enum { CF_REPORT_JUNIT, CF_REPORT_TAP, CF_REPORT_SARIF, CF_REPORT_SUMMARY, CF_REPORT_STATEMENT, CF_REPORT_COUNT };

struct cf_reports {
    const char *paths[CF_REPORT_COUNT]; /* NULL: not asked for; borrowed */
    int fds[CF_REPORT_COUNT];
    bool is_new[CF_REPORT_COUNT], is_file[CF_REPORT_COUNT]; /* it was not there before; no pipe, no device */
    bool is_open;
    char place[512];                    /* a path for tools that want one; "": none */
};

/* From the flags of a launch: opens and empties all (--summary is added to). -1 (CF_ERROR_CONFIG): one
 * cannot be written, two are the same, or nothing may outlive the run; then nothing is left open or
 * newly made. Without such a flag it does nothing. */
CF_CHECKED int cf_reports_open(struct cf_reports *reports, const struct cf_launch_flags *flags, struct cf_error *err);

/* Writes and closes them. `options` is the options document, for what must be masked; may be NULL.
 * -1: at least one is not whole and was taken away; each is named on stderr, with its reason. */
CF_CHECKED int cf_reports_write(struct cf_reports *reports, const char *command, const json_t *result, int exit_code,
                                const char *name, const json_t *options);

/* Without a result: closes them, and removes those that were not there before. */
void cf_reports_abandon(struct cf_reports *reports);

#endif
