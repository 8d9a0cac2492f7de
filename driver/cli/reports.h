/*
 * cli/reports.h: the files that tell what came out: --report, --junit, --tap, --sarif, --summary,
 * --statement. They are opened before the run, so that one that cannot be written is refused then and
 * no file of an earlier run stands for this one, and written after it.
 */
#ifndef CF_CLI_REPORTS_H
#define CF_CLI_REPORTS_H

#include "base/error.h"

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

struct cf_launch;
struct cf_launch_flags;
struct cf_mask;
struct cf_run_host;
struct cf_trace;

enum { CF_REPORT_HTML, CF_REPORT_JUNIT, CF_REPORT_TAP, CF_REPORT_SARIF, CF_REPORT_SUMMARY, CF_REPORT_STATEMENT, CF_REPORT_COUNT };

struct cf_reports {
    const char *paths[CF_REPORT_COUNT]; /* NULL: not asked for; borrowed */
    int fds[CF_REPORT_COUNT];
    bool is_new[CF_REPORT_COUNT], is_file[CF_REPORT_COUNT]; /* it was not there before; no pipe, no device */
    bool is_open, has_failed;
    char place[512];                    /* a path for tools that want one; "": none */
    const json_t *release;              /* what is launched; NULL; borrowed */
    struct cf_mask *mask;               /* ours, while open */
    struct cf_trace *trace;             /* for --report; ours, while open; else NULL */
};

/* From the flags of a launch: opens and empties all (--summary is added to). `launch` (NULL: there is
 * none) is borrowed until they are written or abandoned: its options say what must be masked. -1 (CF_ERROR_CONFIG): one cannot be
 * written, two are the same, or nothing may outlive the run; then nothing is left open or newly made.
 * Without such a flag it does nothing. */
CF_CHECKED int cf_reports_open(struct cf_reports *reports, const struct cf_launch_flags *flags, const struct cf_launch *launch,
                               struct cf_error *err);

/* Lets the page hear what `host` hears (diagnose/trace.h); without --report it does nothing. */
void cf_reports_listen(struct cf_reports *reports, struct cf_run_host *host);

/* Writes and closes them. -1: at least one is not whole and was taken away; each is named on stderr,
 * with its reason. */
CF_CHECKED int cf_reports_write(struct cf_reports *reports, const char *command, const json_t *result, int exit_code,
                                const char *name);

/* Without a result: closes them, and removes those that were not there before. */
void cf_reports_abandon(struct cf_reports *reports);

#endif
