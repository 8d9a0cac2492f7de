/* fuzz_answer.c: a provider's answer, as JSON or as an event stream. What is read of it does
 * not depend on its cut. */
#include "relay/usage.h"

#include <stdlib.h>
#include <string.h>

static struct cf_usage_reader
read_in_steps(const char *bytes, size_t len, size_t step, bool is_events)
{
    struct cf_usage_reader reader;

    cf_usage_init(&reader, is_events);
    for (size_t at = 0; at < len; at += step)
        cf_usage_feed(&reader, bytes + at, len - at < step ? len - at : step);
    return reader;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 2)
        return 0;
    const char *bytes = (const char *)data + 2;
    bool is_events = data[0] % 2;
    struct cf_usage_reader whole = read_in_steps(bytes, size - 2, size, is_events);
    struct cf_usage_reader parts = read_in_steps(bytes, size - 2, data[1] % 7 + 1, is_events);

    if (whole.usage.input != parts.usage.input || whole.usage.output != parts.usage.output ||
        whole.usage.cache_read != parts.usage.cache_read || whole.events != parts.events ||
        whole.usage.is_final != parts.usage.is_final ||
        strcmp(whole.usage.model, parts.usage.model) != 0)
        abort();
    return 0;
}
