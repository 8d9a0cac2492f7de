/*
 * observe/emit.c: one observation, written as text into one reused buffer and handed out.
 *
 * Nothing is built as a tree first: a chunk's text goes from the frame into the buffer and
 * out.
 */
#include "observe/normalizer.h"

#include "base/str.h"
#include "base/utf8.h"
#include "json/json.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ELLIPSIS "\xe2\x80\xa6" /* one UTF-16 unit */

void
obs_finding(struct cf_normalizer *n, const char *id, uint64_t frame, const char *fmt, ...)
{
    struct finding_count *count = n->findings;
    char text[400];
    va_list args;

    while (count < n->findings + CF_COUNT(n->findings) && count->id != NULL &&
           strcmp(count->id, id) != 0)
        count++;
    if (count == n->findings + CF_COUNT(n->findings) || n->options.on_finding == NULL)
        return;
    count->id = id;
    if (count->told++ >= FINDINGS_MAX)
        return;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    cf_utf8_make_line(text);
    n->options.on_finding(n->options.user, id, frame, text);
}

void
obs_begin(struct cf_normalizer *n, enum cf_observation_type type)
{
    cf_buf_reset(&n->out);
    (void)cf_buf_adds(&n->out, "{\"type\":\"");
    (void)cf_buf_adds(&n->out, cf_observation_type_name(type));
    (void)cf_buf_adds(&n->out, "\",\"payload\":{");
}

void
obs_member(struct cf_normalizer *n, const char *name)
{
    bool is_first = n->out.len == 0 || n->out.data[n->out.len - 1] == '{';

    (void)cf_buf_adds(&n->out, is_first ? "\"" : ",\"");
    (void)cf_buf_adds(&n->out, name);
    (void)cf_buf_adds(&n->out, "\":");
}

void
obs_string(struct cf_normalizer *n, const char *name, const char *text, size_t len)
{
    obs_member(n, name);
    (void)cf_json_append_string(&n->out, text, len);
}

char *
obs_shorten(struct cf_normalizer *n, const char *text, size_t len, size_t max, uint64_t frame,
            const char *what)
{
    size_t keep = cf_utf16_prefix(text, len, max);
    bool is_cut = keep < len;

    if (is_cut) {
        keep = cf_utf16_prefix(text, len, max - 1);
        n->shortened++;
        obs_finding(n, "shortened", frame, "%s was cut to %zu UTF-16 units", what, max);
    }
    char *copy = malloc(keep + sizeof ELLIPSIS);
    if (copy == NULL) {
        n->is_lost = true;
        return NULL;
    }
    memcpy(copy, text, keep);
    memcpy(copy + keep, ELLIPSIS, sizeof ELLIPSIS);
    if (!is_cut)
        copy[keep] = '\0';
    return copy;
}

void
obs_bounded(struct cf_normalizer *n, const char *name, const char *text, size_t len,
            size_t max, uint64_t frame)
{
    size_t keep = cf_utf16_prefix(text, len, max);

    if (keep == len) {
        obs_string(n, name, text, len);
        return;
    }
    cf_auto_free char *cut = obs_shorten(n, text, len, max, frame, name);
    if (cut != NULL)
        obs_string(n, name, cut, cf_utf16_prefix(text, len, max - 1) + strlen(ELLIPSIS));
}

void
obs_tree(struct cf_normalizer *n, const char *name, const json_t *value)
{
    obs_member(n, name);
    (void)cf_json_append(&n->out, value);
}

void
obs_error(struct cf_normalizer *n, const char *type, const char *message, size_t len,
          uint64_t frame)
{
    obs_member(n, "error");
    (void)cf_buf_adds(&n->out, "{");
    obs_string(n, "type", type, strlen(type));
    obs_bounded(n, "message", message, len, ERROR_UNITS_MAX, frame);
    (void)cf_buf_adds(&n->out, "}");
}

void
obs_end(struct cf_normalizer *n, struct cf_observation *view)
{
    (void)cf_buf_adds(&n->out, "}}");
    if (n->out.failed) {
        n->is_lost = true;
        return;
    }
    n->counts[view->type]++;
    view->size = sizeof *view;
    view->json = n->out.data;
    view->json_len = n->out.len;
    if (n->options.on_observation != NULL)
        n->options.on_observation(n->options.user, view);
}

/* Scrambles a counter under the run's seed (splitmix64's finisher): ids that nobody can tell
 * from random ones, and that a replay makes again. */
static uint64_t
scramble(uint64_t seed, uint64_t count)
{
    uint64_t z = seed + count * 0x9e3779b97f4a7c15u;

    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

void
obs_mint(struct cf_normalizer *n, const char *prefix, char out[MINTED_SIZE])
{
    bool is_question = strcmp(prefix, "qst_") == 0;
    uint64_t seed[2], number;

    /* a replay is given its questions with their ids: they have a count of their own */
    memcpy(seed, n->options.seed, sizeof seed);
    number = is_question ? UINT64_C(1) << 63 | ++n->question_count : ++n->mint_count;
    snprintf(out, MINTED_SIZE, "%.10s%016" PRIx64 "%016" PRIx64, prefix,
             scramble(seed[0], number), scramble(seed[1] ^ seed[0] << 1, number));
}
