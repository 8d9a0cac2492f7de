/* fuzz_oneshot.c: stdout of a one-shot process, both modes: the same at any cut, the text valid
 * UTF-8, and what the normalizer tells is JSON. */
#include "base/buf.h"
#include "base/utf8.h"
#include "json/json.h"
#include "observe/observe.h"
#include "wire/wire.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct reader {
    struct cf_normalizer *normalizer;
    struct cf_grammar *grammar;
    struct cf_buf said;
    bool is_over;
};

static void
on_observation(void *user, const struct cf_observation *o)
{
    struct reader *reader = user;
    struct cf_json_limits limits = {.depth = 1024};
    struct cf_error err;
    json_t *tree = cf_json_parse(o->json, o->json_len, &limits, &err);

    if (tree == NULL)
        abort();
    json_decref(tree);
    (void)cf_grammar_feed(reader->grammar, o);
    if (o->type == CF_OBSERVATION_AGENT_MESSAGE && cf_utf16_units(o->text, o->text_len) > 262144)
        abort();
    (void)cf_buf_add(&reader->said, o->json, o->json_len);
    (void)cf_buf_adds(&reader->said, "\n");
}

static void
on_text(void *user, const char *text, size_t len, uint64_t line)
{
    struct reader *reader = user;

    if (!cf_utf8_is_valid(text, len))
        abort();
    cf_normalizer_text(reader->normalizer, text, len, line);
}

static void
on_object(void *user, json_t *object, uint64_t line)
{
    struct reader *reader = user;
    struct cf_error err;

    if (!reader->is_over && cf_normalizer_object(reader->normalizer, object, line, &err) < 0)
        reader->is_over = true;
}

static void
on_broken(void *user, const struct cf_error *err)
{
    struct reader *reader = user;

    (void)cf_buf_adds(&reader->said, err->text);
}

static void
read_cut(enum cf_oneshot_mode mode, const char *data, size_t size, size_t step, struct reader *reader)
{
    static const struct cf_oneshot_events events = {.on_text = on_text, .on_object = on_object, .on_broken = on_broken};
    const struct cf_normalizer_options options = {.on_observation = on_observation, .user = reader, .seed = {1}};
    struct cf_oneshot *oneshot = cf_oneshot_new(mode, &events, reader);

    reader->normalizer = cf_normalizer_new(&options);
    reader->grammar = cf_grammar_new(false);
    cf_normalizer_turn_begin(reader->normalizer);
    cf_grammar_turn_begin(reader->grammar);
    for (size_t at = 0; at < size; at += step)
        (void)cf_oneshot_feed(oneshot, data + at, size - at < step ? size - at : step);
    cf_oneshot_end(oneshot);
    cf_normalizer_finished(reader->normalizer, NULL, NULL, 0);
    cf_grammar_free(reader->grammar);
    cf_normalizer_free(reader->normalizer);
    cf_oneshot_free(oneshot);
    (void)cf_buf_adds(&reader->said, "");
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct reader whole = {0}, cut = {0};
    enum cf_oneshot_mode mode;

    if (size < 2)
        return 0;
    mode = data[0] % 2 ? CF_ONESHOT_TEXT : CF_ONESHOT_STREAM_JSON;
    read_cut(mode, (const char *)data + 2, size - 2, size, &whole);
    read_cut(mode, (const char *)data + 2, size - 2, 1 + data[1] % 8, &cut);
    if (whole.said.len != cut.said.len || memcmp(whole.said.data, cut.said.data, whole.said.len) != 0)
        abort();
    cf_buf_release(&whole.said);
    cf_buf_release(&cut.said);
    return 0;
}
