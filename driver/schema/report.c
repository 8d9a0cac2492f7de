/* schema/report.c: findings with their places, kept for the first few. */
#include "schema/compiled.h"

#include "base/str.h"
#include "base/utf8.h"
#include "json/json.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void
cf_schema_report_release(struct cf_schema_report *report)
{
    if (report == NULL)
        return;
    for (unsigned i = 0; i < CF_SCHEMA_FINDINGS; i++) {
        free(report->findings[i].pointer);
        free(report->findings[i].schema_pointer);
        free(report->warnings[i].pointer);
    }
    *report = (struct cf_schema_report){0};
}

bool
cf_report_is_full(const struct cf_schema_report *report)
{
    return report->count >= CF_SCHEMA_FINDINGS;
}

struct cf_schema_finding *
cf_report_next(struct cf_schema_report *report)
{
    return cf_report_is_full(report) ? NULL : &report->findings[report->count++];
}

/* Takes what the buffers hold. A pointer lost to lack of memory becomes NULL. */
void
cf_finding_set(struct cf_schema_finding *finding, const char *code, struct cf_buf *pointer,
               struct cf_buf *schema_pointer, const char *text)
{
    finding->code = code;
    finding->pointer = cf_buf_take(pointer, NULL);
    finding->schema_pointer =
        schema_pointer == NULL ? NULL : cf_buf_take(schema_pointer, NULL);
    snprintf(finding->text, sizeof finding->text, "%s", text);
    cf_utf8_make_line(finding->text);
}

static int
push_index(struct cf_buf *to, uint32_t index)
{
    return cf_buf_addf(to, "/%u", index);
}

/* Parents are collected first and written from the root down; the document's depth bounds how
 * many there are. */
int
cf_node_pointer(const struct cf_schema *schema, cf_node_id node, struct cf_buf *to)
{
    cf_node_id chain[CF_SCHEMA_MAX_DEPTH + 1];
    unsigned depth = 0;

    for (cf_node_id id = node; id != 0 && depth <= CF_SCHEMA_MAX_DEPTH;
         id = schema->nodes[id].parent)
        chain[depth++] = id;
    while (depth-- > 0) {
        const struct cf_node *at = &schema->nodes[chain[depth]];
        if (cf_json_pointer_push(to, at->keyword) < 0 ||
            (at->name != NULL && cf_json_pointer_push(to, at->name) < 0) ||
            (at->has_index && push_index(to, at->index) < 0))
            return -1;
    }
    return 0;
}

static void
point(const struct cf_admission *a, cf_node_id at, const char *keyword, const char *token,
      struct cf_buf *to)
{
    /* A failed add leaves the flag in the buffer; the pointer is then lost, not the finding. */
    (void)cf_node_pointer(a->schema, at, to);
    if (keyword != NULL)
        (void)cf_json_pointer_push(to, keyword);
    if (token != NULL)
        (void)cf_json_pointer_push(to, token);
}

void
cf_admission_fault(struct cf_admission *a, cf_node_id at, const char *keyword,
                   const char *token, const char *code, const char *fmt, ...)
{
    struct cf_schema_finding *finding = cf_report_next(a->report);
    struct cf_buf pointer = {0};
    char text[256];
    va_list args;

    if (finding == NULL)
        return;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    point(a, at, keyword, token, &pointer);
    cf_finding_set(finding, code, &pointer, NULL, text);
}

void
cf_admission_warn(struct cf_admission *a, cf_node_id at, const char *keyword)
{
    struct cf_schema_report *report = a->report;
    struct cf_buf pointer = {0};
    char text[256];

    if (report->warning_count >= CF_SCHEMA_FINDINGS) {
        report->warnings_more++;
        return;
    }
    snprintf(text, sizeof text, "keyword \"%s\" is unknown here and has no effect", keyword);
    point(a, at, keyword, NULL, &pointer);
    cf_finding_set(&report->warnings[report->warning_count++], "schema_keyword_unknown",
                   &pointer, NULL, text);
}

/* The first finding as one line. */
int
cf_report_tell(const struct cf_schema_report *report, enum cf_error_kind kind,
               struct cf_error *err)
{
    const struct cf_schema_finding *first = &report->findings[0];

    if (report->count == 0)
        return cf_error_set(err, CF_ERROR_INTERNAL, 0, "a refusal without a finding");
    return cf_error_set(err, kind, 0, "%s at \"%s\": %s", first->code,
                        first->pointer == NULL ? "?" : first->pointer, first->text);
}
