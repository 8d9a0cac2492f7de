/* A server-sent event stream, bytes in, `data` texts out. */
#include "sse.h"

#include <string.h>

enum { EVENT_LIMIT = 16 * 1024 * 1024 };

static int
take_line(struct hn_sse *sse, struct cf_error *err)
{
    struct cf_buf *line = &sse->line;
    const char *text;
    int status = 0;

    if (line->len > 0 && line->data[line->len - 1] == '\r')
        line->data[--line->len] = '\0';
    if (line->len == 0) {
        if (sse->has_data)
            status = sse->on_event(sse->user, sse->data.data, sse->data.len, err);
        cf_buf_reset(&sse->data);
        sse->has_data = false;
        return status;
    }
    if (strncmp(line->data, "data:", 5) != 0)
        return 0;
    text = line->data + 5 + (line->data[5] == ' ');
    if (sse->has_data)
        cf_buf_adds(&sse->data, "\n");
    cf_buf_add(&sse->data, text, line->len - (size_t)(text - line->data));
    sse->has_data = true;
    return sse->data.failed ? cf_error_set(err, CF_ERROR_WIRE, 0,
                                           "an event of the model's stream is larger than 16 MiB")
                            : 0;
}

int
hn_sse_feed(struct hn_sse *sse, const char *bytes, size_t len, struct cf_error *err)
{
    sse->line.limit_bytes = sse->data.limit_bytes = EVENT_LIMIT;
    while (len > 0) {
        const char *end = memchr(bytes, '\n', len);
        size_t n = end != NULL ? (size_t)(end - bytes) : len;

        if (cf_buf_add(&sse->line, bytes, n) < 0)
            return cf_error_set(err, CF_ERROR_WIRE, 0,
                                "a line of the model's stream is larger than 16 MiB");
        if (end == NULL)
            return 0;
        if (take_line(sse, err) < 0)
            return -1;
        cf_buf_reset(&sse->line);
        bytes += n + 1;
        len -= n + 1;
    }
    return 0;
}

void
hn_sse_release(struct hn_sse *sse)
{
    cf_buf_release(&sse->line);
    cf_buf_release(&sse->data);
}
