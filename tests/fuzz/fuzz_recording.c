/* fuzz_recording.c: a recording as a file (checksums as they are) and, past them, records of any
 * content through the replay: what it says is JSON, and the same at any cut. */
#include "json/json.h"
#include "observe/replay.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void
on_observation(void *user, const struct cf_observation *o)
{
    struct cf_json_limits limits = {.depth = 1024};
    struct cf_error err;
    json_t *tree = cf_json_parse(o->json, o->json_len, &limits, &err);

    if (tree == NULL)
        abort();
    json_decref(tree);
    (void)cf_buf_add(user, o->json, o->json_len);
    (void)cf_buf_adds(user, "\n");
}

/* Everything the file says, as text; yours. */
static struct cf_buf
play(const uint8_t *data, size_t size, size_t cut)
{
    struct cf_buf said = {0};
    const struct cf_replay_events events = {.on_observation = on_observation, .user = &said};
    struct cf_replay *replay = cf_replay_new(&events);
    struct cf_recording_reader reader = {0};
    struct cf_error err = {0};
    json_t *verdict;

    if (cf_recording_feed(&reader, (const char *)data, cut, cf_replay_record, replay, &err) == 0)
        (void)(cf_recording_feed(&reader, (const char *)data + cut, size - cut, cf_replay_record, replay, &err) == 0);
    verdict = cf_replay_verdict(replay);
    if (verdict == NULL)
        abort();
    (void)cf_replay_is_same(replay, verdict);
    json_decref(verdict);
    cf_recording_reader_release(&reader);
    cf_replay_free(replay);
    return said;
}

/* Kind, length (u16), bytes, again and again: records whose checksums hold. */
static struct cf_buf
records_of(const uint8_t *data, size_t size)
{
    struct cf_buf file = {0};
    static const char start[] = "{\"protocol\":\"acp-v1\",\"seed\":\"000102030405060708090a0b0c0d0e0f\"}";
    static const char oneshot[] = "{\"protocol\":\"oneshot-v1\",\"output_mode\":\"stream_json\",\"seed\":"
                                  "\"000102030405060708090a0b0c0d0e0f\"}";

    cf_recording_head(&file);
    if (size > 0 && data[0] % 2 == 0)
        cf_recording_put(&file, CF_RECORD_START, 0, start, sizeof start - 1);
    else
        cf_recording_put(&file, CF_RECORD_START, 0, oneshot, sizeof oneshot - 1);
    for (size_t at = 1; at + 3 <= size;) {
        size_t len = (size_t)data[at + 1] | (size_t)data[at + 2] << 8;
        if (len > size - at - 3)
            len = size - at - 3;
        cf_recording_put(&file, data[at] % 16, at, data + at + 3, len);
        at += 3 + len;
    }
    return file;
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct cf_buf file = records_of(data, size);
    struct cf_buf whole = play(data, size, size), cut = play(data, size, size / 2);
    struct cf_buf made = play((const uint8_t *)file.data, file.len, file.len);

    if (whole.len != cut.len || (whole.len > 0 && memcmp(whole.data, cut.data, whole.len) != 0))
        abort();
    cf_buf_release(&whole);
    cf_buf_release(&cut);
    cf_buf_release(&made);
    cf_buf_release(&file);
    return 0;
}
