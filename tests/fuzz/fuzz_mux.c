/*
 * The mux from both sides: the input's first byte chooses which side we are, the rest is the
 * peer's stream, fed in pieces of odd sizes while we open, write and close on our own account.
 * Whatever comes, nothing is queued past its bound, and credit is never overdrawn.
 */
#include "mux/mux.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define QUEUE 65536u

struct end {
    struct cf_mux mux;
    struct cf_mux_channel own[4], theirs[16];
    unsigned opened, actions;
};

static struct cf_mux_channel *
on_open(void *user, uint32_t tag)
{
    struct end *end = user;

    return end->opened == 16 ? NULL : &end->theirs[end->opened++];
}

static void
on_opened(void *user, struct cf_mux_channel *channel)
{
}

/* Now and then something is done from inside a callback, as owners do. */
static void
act(struct end *end, struct cf_mux_channel *channel)
{
    static const char bytes[40000];

    switch (end->actions++ % 7) {
    case 1:
        (void)cf_mux_write(&end->mux, channel, bytes, sizeof bytes);
        break;
    case 3:
        cf_mux_half_close(&end->mux, channel);
        break;
    case 6:
        cf_mux_close(&end->mux, channel);
        break;
    }
}

static void
on_data(void *user, struct cf_mux_channel *channel, const char *bytes, size_t len)
{
    struct end *end = user;

    if (end->actions % 3 != 0)
        cf_mux_consumed(&end->mux, channel, len);
    act(end, channel);
}

static void
on_other(void *user, struct cf_mux_channel *channel)
{
    act(user, channel);
}

static int
on_control(void *user, const char *bytes, size_t len, struct cf_error *err)
{
    return len > 3 && bytes[0] == '!' ? cf_error_set(err, CF_ERROR_WIRE, 0, "refused") : 0;
}

static const struct cf_mux_events events = {on_open,  on_opened, on_data,   on_other,
                                            on_other, on_other,  on_control};

/* Takes some of what is queued, checking that it is whole frames within bounds. */
static void
take(struct end *end, size_t most)
{
    const char *bytes;
    size_t len = cf_mux_peek(&end->mux, &bytes);

    if (end->mux.data.len > QUEUE + 64 * CF_MUX_HEADER || end->mux.urgent.len > (3u << 20))
        abort();
    len = len < most ? len : most;
    cf_mux_taken(&end->mux, len);
    cf_mux_serve(&end->mux);
}

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t size);

int
LLVMFuzzerTestOneInput(const uint8_t *input, size_t size)
{
    struct cf_mux_options options = {.data_queue_bytes = QUEUE,
                                     .control_queue_bytes = 3u << 20,
                                     .own_channels_max = 4,
                                     .peer_channels_max = 12,
                                     .growth_bytes = 1u << 20};
    struct end *end = calloc(1, sizeof *end);
    struct cf_error err;
    size_t part, at = 1;

    if (size < 2) {
        free(end);
        return 0;
    }
    options.side = input[0] & 1 ? CF_MUX_DRIVER : CF_MUX_INIT;
    cf_mux_init(&end->mux, &options, &events, end);
    for (int i = 0; i < 4; i++)
        (void)!cf_mux_open(&end->mux, &end->own[i], 65536, (uint32_t)i, &err);
    while (at < size) {
        part = 1 + (input[at] * 7u + input[0]) % 61;
        part = part < size - at ? part : size - at;
        if (cf_mux_feed(&end->mux, (const char *)input + at, part, &err) < 0)
            break;
        at += part;
        take(end, part * 3);
    }
    cf_mux_release(&end->mux);
    free(end);
    return 0;
}
