/*
 * wire/acp.c: one ACP connection from the client's side: lines in, events out.
 *
 * Everything happens in arrival order on the caller's stack. What is not a frame is noise and
 * is told and counted; what is a frame goes to acp_call.c (answers to us) or acp_serve.c
 * (requests and notifications of the agent's).
 */
#include "wire/acp_core.h"

#include "base/str.h"
#include "base/utf8.h"
#include "json/json.h"
#include "wire/repair.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LINE_LIMIT (64u << 20)
#define BAD_LINES 1000u

void
acp_finding(struct cf_acp *acp, enum cf_acp_finding_kind kind, uint64_t frame, const char *fmt,
            ...)
{
    char text[512];
    va_list args;

    if (acp->findings[kind]++ >= ACP_FINDINGS_MAX || acp->on.on_finding == NULL)
        return;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    cf_utf8_make_line(text);
    acp->on.on_finding(acp->user, kind, frame, text);
}

void
acp_break(struct cf_acp *acp, enum cf_error_kind kind, const char *fmt, ...)
{
    struct cf_error err = {0};
    char text[512];
    va_list args;

    if (acp->is_broken)
        return;
    acp->is_broken = true;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    (void)cf_error_set(&err, kind, 0, "%s", text);
    if (acp->on.on_broken != NULL)
        acp->on.on_broken(acp->user, &err);
    acp_fail_calls(acp);
    acp_drop_pending(acp);
    acp_drop_held(acp);
}

/* ---- one line ---- */

/* The beginning of a line, printable, for a finding. */
static void
quote(const char *line, size_t len, char *out, size_t size)
{
    size_t n = len < size - 1 ? len : size - 1;

    memcpy(out, line, n);
    out[n] = '\0';
    for (size_t i = 0; i < n; i++)
        if (out[i] == '\0')
            out[i] = ' ';
    cf_utf8_make_line(out);
}

static void
note_noise(struct cf_acp *acp, const char *line, size_t len, uint64_t number, const char *why)
{
    char head[ACP_FIRST_BYTES + 1];

    acp->bad_lines++;
    acp->bad_in_a_row++;
    quote(line, len, head, sizeof head);
    acp_finding(acp, CF_ACP_STDOUT_POLLUTION, number, "line %llu of stdout is %s: %s",
                (unsigned long long)number, why, head);
    if (acp->bad_in_a_row > acp->max_bad_lines)
        acp_break(acp, CF_ERROR_WIRE,
                  "%u lines of stdout in a row are not ACP frames; the last one: %.120s",
                  acp->bad_in_a_row, head);
}

/* A frame that cannot be read may be the answer somebody waits for. */
static void
note_lost_line(struct cf_acp *acp, const char *line, size_t len, uint64_t number,
               const char *why)
{
    if (acp->calls != NULL)
        acp_break(acp, CF_ERROR_WIRE,
                  "line %llu of stdout was dropped with a call in flight: %s",
                  (unsigned long long)number, why);
    else
        note_noise(acp, line, len, number, why);
}

static bool
is_blank(const char *line, size_t len)
{
    for (size_t i = 0; i < len; i++)
        if (line[i] != ' ' && line[i] != '\t' && line[i] != '\r')
            return false;
    return true;
}

/* What makes an object a frame at all: "jsonrpc":"2.0" and one of the three shapes. An answer
 * without result and error, or with both, is one too: it fails its call. */
static bool
is_frame(json_t *root)
{
    const char *version = cf_json_str(root, "jsonrpc");

    if (version == NULL || strcmp(version, "2.0") != 0)
        return false;
    return cf_json_str(root, "method") != NULL ||
           (json_object_get(root, "method") == NULL && json_object_get(root, "id") != NULL);
}

static void
dispatch(struct cf_acp *acp, json_t *root, uint64_t number)
{
    const char *method = cf_json_str(root, "method");
    json_t *id = json_object_get(root, "id");
    json_t *params = json_object_get(root, "params");

    if (method == NULL)
        acp_on_response(acp, root, number);
    else if (id != NULL)
        acp_on_request(acp, id, method, params, number);
    else
        acp_on_notification(acp, method, params, number);
}

static void
read_line(struct cf_acp *acp, const char *line, size_t len, uint64_t number)
{
    json_t *root = NULL;
    size_t repairs;
    char why[256] = "not a frame";

    switch (cf_frame_read(line, len, &root, &repairs, why, sizeof why)) {
    case CF_FRAME_MEMORY:
        acp->has_no_memory = true;
        return;
    case CF_FRAME_TOO_LARGE:
        note_lost_line(acp, line, len, number, why);
        return;
    case CF_FRAME_NOT_JSON:
        note_noise(acp, line, len, number, "not a frame");
        return;
    case CF_FRAME_OK:
        break;
    }
    if (!is_frame(root)) {
        json_decref(root);
        note_noise(acp, line, len, number, "JSON but not a JSON-RPC 2.0 message");
        return;
    }
    acp->bad_in_a_row = 0;
    acp->frames_seen++;
    uint64_t frame = ++acp->frames;
    acp->line_len = len;
    if (acp->on.on_frame != NULL)
        acp->on.on_frame(acp->user, true, frame, line, len);
    if (repairs > 0)
        acp_finding(acp, CF_ACP_REPAIRED, frame, "frame %llu needed %zu repairs to be JSON",
                    (unsigned long long)frame, repairs);
    dispatch(acp, root, frame);
    json_decref(root);
}

static void
on_line(void *user, const char *line, size_t len, uint64_t number, bool overflow)
{
    struct cf_acp *acp = user;
    char why[80];

    if (acp->is_broken || is_blank(line, len))
        return;
    if (overflow) {
        snprintf(why, sizeof why, "longer than %zu bytes", acp->lines.limit_bytes);
        note_lost_line(acp, line, len, number, why);
    } else {
        read_line(acp, line, len, number);
    }
}

int
cf_acp_feed(struct cf_acp *acp, const char *bytes, size_t len)
{
    acp->bytes_seen += len;
    if (acp->first_len < ACP_FIRST_BYTES) {
        size_t n = ACP_FIRST_BYTES - acp->first_len;
        n = n < len ? n : len;
        memcpy(acp->first + acp->first_len, bytes, n);
        acp->first_len += n;
    }
    if (acp->is_broken || acp->is_ended)
        return 0;
    if (cf_lines_feed(&acp->lines, bytes, len, on_line, acp) < 0)
        acp->has_no_memory = true;
    return acp->has_no_memory ? -1 : 0;
}

void
cf_acp_end(struct cf_acp *acp)
{
    if (acp->is_ended)
        return;
    if (!acp->is_broken)
        (void)cf_lines_end(&acp->lines, on_line, acp);
    acp->is_ended = true;
    acp_fail_calls(acp);
    acp_drop_pending(acp);
    acp_drop_held(acp);
}

/* ---- the object ---- */

struct cf_acp *
cf_acp_new(const struct cf_acp_options *options, const struct cf_acp_events *events,
           void *user)
{
    const char *name = options->client_name, *version = options->client_version;
    struct cf_acp *acp = calloc(1, sizeof *acp);

    if (acp == NULL)
        return NULL;
    acp->on = *events;
    acp->user = user;
    cf_lines_init(&acp->lines,
                  options->line_limit_bytes ? options->line_limit_bytes : LINE_LIMIT);
    acp->max_bad_lines = options->max_bad_lines ? options->max_bad_lines : BAD_LINES;
    acp->is_lenient = options->is_lenient;
    acp->is_replay = options->is_replay;
    acp->client_name = strdup(name ? name : "cfrunner");
    acp->client_version = strdup(version ? version : CFRUNNER_VERSION);
    acp->told_methods = json_object();
    if (acp->client_name == NULL || acp->client_version == NULL || acp->told_methods == NULL) {
        cf_acp_free(acp);
        return NULL;
    }
    return acp;
}

void
cf_acp_free(struct cf_acp *acp)
{
    if (acp == NULL)
        return;
    memset(&acp->on, 0, sizeof acp->on);
    while (acp->calls != NULL) {
        struct acp_call *call = acp->calls;
        acp->calls = call->next;
        acp_call_forget(call);
    }
    acp_drop_pending(acp);
    acp_drop_held(acp);
    free(acp->held);
    cf_lines_release(&acp->lines);
    json_decref(acp->client);
    json_decref(acp->agent);
    json_decref(acp->told_methods);
    free(acp->session_id);
    free(acp->client_name);
    free(acp->client_version);
    free(acp);
}

bool
cf_acp_is_canceled(const struct cf_acp *acp)
{
    return acp->is_canceled;
}

bool
cf_acp_can(const struct cf_acp *acp, const char *what)
{
    const char *needs = acp_method_needs(what);

    return needs != NULL && (*needs == '\0' || acp_is_advertised(acp->agent, needs));
}

const char *
cf_acp_session_id(const struct cf_acp *acp)
{
    return acp->session_id;
}

uint64_t
cf_acp_frames_seen(const struct cf_acp *acp)
{
    return acp->frames_seen;
}

uint64_t
cf_acp_bytes_seen(const struct cf_acp *acp)
{
    return acp->bytes_seen;
}

const char *
cf_acp_first_bytes(const struct cf_acp *acp)
{
    struct cf_acp *mine = (struct cf_acp *)acp; /* the printable form is made when asked for */

    quote(acp->first, acp->first_len, mine->first_line, sizeof mine->first_line);
    return acp->first_line;
}

uint64_t
cf_acp_bad_lines(const struct cf_acp *acp)
{
    return acp->bad_lines;
}

uint64_t
cf_acp_finding_count(const struct cf_acp *acp, enum cf_acp_finding_kind kind)
{
    return kind > 0 && (size_t)kind < CF_COUNT(acp->findings) ? acp->findings[kind] : 0;
}
