/* harness-common/sse.h: a server-sent event stream, bytes in, `data` texts out. */
#ifndef HN_SSE_H
#define HN_SSE_H

#include "base/buf.h"
#include "base/error.h"

/* The joined data lines of one event, NUL-terminated, borrowed until return. <0 stops. */
typedef int hn_sse_fn(void *user, const char *data, size_t len, struct cf_error *err);

struct hn_sse { /* zeroed, then the two set: ready; release with hn_sse_release */
    hn_sse_fn *on_event;
    void *user;
    struct cf_buf line, data;
    bool has_data;
};

/* LF and CRLF endings; comments, `event:`, `id:` and `retry:` lines are passed over (every
 * model dialect repeats its event name inside the data). A line or event past 16 MiB fails. */
int hn_sse_feed(struct hn_sse *sse, const char *bytes, size_t len, struct cf_error *err);
void hn_sse_release(struct hn_sse *sse);

#endif
