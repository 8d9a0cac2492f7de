/* diagnose/report_parts.h: what a report shows beside its lines. The room's own. */
#ifndef CF_DIAGNOSE_REPORT_PARTS_H
#define CF_DIAGNOSE_REPORT_PARTS_H

#include "diagnose/diagnose.h"
#include "diagnose/draw.h"

/* What was drawn already, so that it is not drawn twice. */
struct cf_report_shown {
    uint64_t frames[32];
    unsigned turns[32];
    size_t count;
    const char *fixes[16]; /* borrowed from the result */
    size_t fix_count;
    bool by_turn; /* lines are numbered anew each turn: t2f1 is the first of the second */
};

/* "f1-2 r1": the frames and calls of a check's evidence, as many as fit into `room` columns; or "". */
void cf_report_refs(json_t *check, bool by_turn, char *out, size_t size, int room);

/* The frames, calls and facts that a failed check is about, the rule and the fix, at column `indent`. */
void cf_report_failure(const struct cf_page *page, json_t *check, int indent, struct cf_report_shown *shown);

struct cf_report_capability {
    const char *name, *declared, *text;
    bool is_exercised;
    bool is_folded; /* it passed, and another row says all that there is to say */
};
/* Borrowed from the result and static storage. */
void cf_report_capability(json_t *result, json_t *check, struct cf_report_capability *ret);

/* At most `most`; is_short: each on one line, cut. */
void cf_report_findings(const struct cf_page *page, json_t *result, size_t most, bool is_short);
void cf_report_last_words(const struct cf_page *page, json_t *result);
void cf_report_steps(const struct cf_page *page, json_t *result, const struct cf_report_style *style);

#endif
