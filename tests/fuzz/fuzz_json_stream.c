/* fuzz_json_stream.c: the cut of the input changes no event, and what the strict scanner takes
 * is taken here too. */
#include "json/json.h"
#include "json/stream.h"

#include <stdlib.h>
#include <string.h>

struct digest {
    uint64_t hash;
    bool in_string;
};

static void
on_event(void *user, enum cf_json_event event, const char *bytes, size_t len)
{
    struct digest *digest = user;

    if (event != CF_JSON_STRING_PIECE)
        digest->hash = (digest->hash ^ (uint64_t)(event + 1)) * 1099511628211u;
    for (size_t i = 0; i < len; i++)
        digest->hash = (digest->hash ^ (unsigned char)bytes[i]) * 1099511628211u;
}

static int
run(struct digest *digest, const char *bytes, size_t len, size_t step)
{
    struct cf_json_stream stream;
    struct cf_error err;

    digest->hash = 14695981039346656037u;
    cf_json_stream_init(&stream, on_event, digest);
    for (size_t at = 0; at < len; at += step)
        if (cf_json_stream_feed(&stream, bytes + at, len - at < step ? len - at : step, &err) <
            0)
            return -1;
    return cf_json_stream_end(&stream, &err);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct cf_json_limits limits = {.depth = 100};
    struct digest whole, cut;
    struct cf_error err;
    const char *text = (const char *)data;
    int status = run(&whole, text, size, size + 1);
    json_t *value = NULL;

    if (run(&cut, text, size, 1) != status || (status == 0 && whole.hash != cut.hash))
        abort();
    if (cf_json_read(text, size, &limits, &value, &err) == CF_JSON_FAULT_NONE && status < 0)
        abort();
    json_decref(value);
    return 0;
}
