/* fuzz_lines.c: lines come out the same however the stream is cut, and none is over the limit. */
#include "base/buf.h"
#include "wire/wire.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define LIMIT 16u

static void
on_line(void *user, const char *line, size_t len, uint64_t number, bool overflow)
{
    if (len > LIMIT || (overflow && len != LIMIT))
        abort();
    (void)cf_buf_add(user, line, len);
    (void)cf_buf_addf(user, "|%llu%s\n", (unsigned long long)number, overflow ? "!" : "");
}

static void
read_cut(const char *data, size_t size, size_t step, struct cf_buf *out)
{
    struct cf_lines lines;

    cf_lines_init(&lines, LIMIT);
    for (size_t at = 0; at < size; at += step)
        (void)cf_lines_feed(&lines, data + at, size - at < step ? size - at : step, on_line, out);
    (void)cf_lines_end(&lines, on_line, out);
    cf_lines_release(&lines);
    (void)cf_buf_adds(out, "");
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct cf_buf whole = {0}, cut = {0};

    if (size < 1)
        return 0;
    read_cut((const char *)data + 1, size - 1, size, &whole);
    read_cut((const char *)data + 1, size - 1, 1 + data[0] % 8, &cut);
    if (whole.len != cut.len || memcmp(whole.data, cut.data, whole.len) != 0)
        abort();
    cf_buf_release(&whole);
    cf_buf_release(&cut);
    return 0;
}
