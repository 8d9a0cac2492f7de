/* What a model may send to a reference harness: HTTP, an event stream or JSON, of any dialect.
 * The harnesses are no room, so their sources are taken in here. */
#include "docker/harness-common/answer.c"
#include "docker/harness-common/http.c"
#include "docker/harness-common/sse.c"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct reading {
    struct hn_http http;
    struct hn_sse sse;
    struct hn_answer answer;
    struct cf_buf whole;
    enum hn_dialect dialect;
};

static int
take_event(void *user, const char *data, size_t len, struct cf_error *err)
{
    struct reading *reading = user;

    return hn_answer_event(&reading->answer, reading->dialect, data, len, err);
}

static int
take_body(void *user, const char *bytes, size_t len, struct cf_error *err)
{
    struct reading *reading = user;

    if (reading->http.is_event_stream)
        return hn_sse_feed(&reading->sse, bytes, len, err);
    return cf_buf_add(&reading->whole, bytes, len);
}

/* First byte: the dialect. Second: where the bytes are cut in two. */
int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct reading reading = { 0 };
    struct cf_error err;
    char why[200];
    size_t cut;
    int status;

    if (size < 2)
        return 0;
    reading.dialect = (enum hn_dialect)(data[0] % 3);
    cut = data[1] < size - 2 ? data[1] : size - 2;
    data += 2;
    size -= 2;
    reading.sse.on_event = take_event;
    reading.sse.user = &reading;
    hn_http_expect_answer(&reading.http, take_body, &reading);
    status = cut > 0 ? hn_http_feed(&reading.http, (const char *)data, cut, &err) : 0;
    if (status == 0)
        status = hn_http_feed(&reading.http, (const char *)data + cut, size - cut, &err);
    if (reading.whole.len > 0)
        (void)hn_answer_whole(&reading.answer, reading.dialect, reading.whole.data,
                              reading.whole.len, &err);
    (void)hn_answer_end(&reading.answer, &err); /* any of these may fail, and none may crash */
    hn_refusal_text(&reading.http.refusal, why, sizeof why);
    hn_http_release(&reading.http);
    hn_sse_release(&reading.sse);
    hn_answer_release(&reading.answer);
    cf_buf_release(&reading.whole);
    return 0;
}
