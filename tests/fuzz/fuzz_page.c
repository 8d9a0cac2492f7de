/* fuzz_page.c: whatever a harness writes as frames, stderr or names, the page's data is JSON and holds
 * nothing that could end its script element, hide or turn text around. */
#include "diagnose/page.h"

#include "base/utf8.h"
#include "diagnose/trace.h"
#include "json/json.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void
check(const struct cf_buf *text)
{
    struct cf_json_limits limits = {.depth = 1024};
    json_t *value = cf_json_parse(text->data, text->len, &limits, NULL);

    if (value == NULL || text->failed)
        abort();
    json_decref(value);
    for (size_t at = 0; at < text->len;) {
        uint32_t code = 0;
        int n = cf_utf8_next(text->data + at, text->len - at, &code);
        if (n <= 0 || code == '<' || code == '>' || code == '&' || (code < 0x20 && code != '\n') || code == 0x7f ||
            (code >= 0x202a && code <= 0x202e) || (code >= 0x2066 && code <= 0x2069))
            abort();
        at += (size_t)n;
    }
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct cf_trace *trace = cf_trace_new(NULL);
    struct cf_run_host host = {.size = sizeof host};
    struct cf_buf text;
    const char *bytes = (const char *)data;
    size_t half = size / 2;

    if (trace == NULL)
        return 0;
    cf_trace_listen(trace, &host);
    host.on_frame(host.user, 1, 1, 5, bytes, size);
    host.on_stderr(host.user, bytes, half);
    host.on_stderr(host.user, bytes + half, size - half);
    host.on_finding(host.user, bytes, size);
    host.on_call(host.user, bytes, size);
    host.on_turn(host.user, 1, bytes, size);
    for (unsigned kind = 1; kind <= CF_RECORD_MASKED; kind++) {
        struct cf_record record = {.kind = kind, .at_ms = 7, .bytes = bytes, .len = size};
        cf_trace_record(trace, &record);
    }
    cf_buf_init(&text, 0);
    cf_trace_append(trace, &text);
    check(&text);
    cf_buf_release(&text);
    cf_trace_free(trace);
    return 0;
}
