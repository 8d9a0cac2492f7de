/*
 * observe/text.c: chunks -> agent_message and agent_thinking.
 *
 * Chunks of one message are joined (by message id, else by an unbroken run of one author) and
 * told at its end or at the contract's bound, whichever comes first; the split falls at the
 * bound exactly, however the chunks were cut.
 */
#include "observe/normalizer.h"

#include "base/str.h"
#include "base/utf8.h"
#include "json/json.h"

#include <stdlib.h>
#include <string.h>

#define REPEAT_BYTES_MIN \
    8 /* of a repeated text without any id: shorter ones occur by chance */

static void
tell(struct cf_normalizer *n, enum text_kind kind, const char *text, size_t len,
     const char *event_id, const char *subagent, uint64_t frame)
{
    struct cf_observation view = {.frame = frame, .text = text, .text_len = len};

    view.type =
        kind == TEXT_MESSAGE ? CF_OBSERVATION_AGENT_MESSAGE : CF_OBSERVATION_AGENT_THINKING;
    obs_begin(n, (enum cf_observation_type)view.type);
    obs_string(n, "content", text, len);
    if (event_id != NULL)
        obs_string(n, "event_id", event_id, strlen(event_id));
    if (*subagent != '\0') {
        obs_string(n, "subagent", subagent, strlen(subagent));
        view.subagent = subagent;
    }
    n->has_text = n->has_text || kind == TEXT_MESSAGE;
    obs_end(n, &view);
}

void
text_flush(struct cf_normalizer *n)
{
    if (n->run.units > 0)
        tell(n, n->run.kind, n->run.text.data, n->run.text.len, NULL, n->run.subagent,
             n->run.frame);
    cf_buf_reset(&n->run.text);
    n->run.units = 0;
}

void
text_boundary(struct cf_normalizer *n)
{
    text_flush(n);
    n->run.kind = TEXT_NONE;
    n->last.is_open = false;
}

/* ---- the last message ---- */

static void
last_begin(struct cf_normalizer *n, const char *message_id)
{
    cf_buf_reset(&n->last.text);
    free(n->last.message_id);
    n->last.message_id = message_id == NULL ? NULL : strdup(message_id);
    n->last.chunks = 0;
    n->last.is_cut = n->last.was_repeated = false;
    n->last.is_open = true;
}

static void
last_add(struct cf_normalizer *n, const char *text, size_t len)
{
    size_t room = LAST_MESSAGE_MAX - n->last.text.len;

    n->last.chunks++;
    n->last.is_cut = n->last.is_cut || len > room;
    if (cf_buf_add(&n->last.text, text, cf_utf8_cut(text, len, room)) < 0)
        n->is_lost = true;
}

static bool
is_same_message(const struct cf_normalizer *n, const char *message_id)
{
    if (message_id == NULL || n->last.message_id == NULL)
        return message_id == NULL && n->last.message_id == NULL && n->last.is_open;
    return strcmp(message_id, n->last.message_id) == 0;
}

/* Some agents stream a message and then send it whole once more, under a new id or none. Only
 * that is suppressed: a chunk equal to all that two or more chunks just made up, once. */
static bool
is_repeated(const struct cf_normalizer *n, const char *message_id, const char *text,
            size_t len)
{
    const struct last_message *last = &n->last;
    bool has_ids = message_id != NULL || last->message_id != NULL;

    if (!n->options.is_acp)
        return false; /* a pipe's pieces are no messages: what comes twice was written twice */
    if (last->chunks < 2 || last->is_cut || last->was_repeated || last->text.len != len)
        return false;
    if (message_id != NULL && cf_str_same(message_id, last->message_id))
        return false;
    return (has_ids || len >= REPEAT_BYTES_MIN) && memcmp(last->text.data, text, len) == 0;
}

/* ---- joining ---- */

static bool
continues(const struct text_run *run, enum text_kind kind, const char *message_id,
          const char *subagent)
{
    return run->kind == kind && strcmp(run->subagent, subagent) == 0 &&
           (message_id == NULL ? run->message_id == NULL
                               : cf_str_same(message_id, run->message_id));
}

static void
start_run(struct cf_normalizer *n, enum text_kind kind, const char *message_id,
          const char *subagent)
{
    text_flush(n);
    free(n->run.message_id);
    n->run.message_id = message_id == NULL ? NULL : strdup(message_id);
    n->run.kind = kind;
    memcpy(n->run.subagent, subagent, strlen(subagent) + 1);
}

static void
join(struct cf_normalizer *n, const char *text, size_t len, uint64_t frame)
{
    while (len > 0) {
        size_t part = cf_utf16_prefix(text, len, TEXT_UNITS_MAX - n->run.units);
        if (n->run.units == 0)
            n->run.frame = frame;
        if (cf_buf_add(&n->run.text, text, part) < 0)
            n->is_lost = true;
        n->run.units += cf_utf16_units(text, part);
        text += part;
        len -= part;
        if (len > 0)
            text_flush(n); /* full, or one unit short where a pair did not fit */
    }
}

void
text_chunk(struct cf_normalizer *n, enum text_kind kind, const char *message_id,
           const char *subagent, const char *text, size_t len, uint64_t frame)
{
    bool is_main_message = kind == TEXT_MESSAGE && *subagent == '\0';

    if (len == 0)
        return;
    if (is_main_message && is_repeated(n, message_id, text, len)) {
        n->last.was_repeated = true;
        obs_finding(n, "repeated_text", frame,
                    "%zu bytes that were streamed already came whole again", len);
        return;
    }
    if (!continues(&n->run, kind, message_id, subagent))
        start_run(n, kind, message_id, subagent);
    if (is_main_message && !is_same_message(n, message_id))
        last_begin(n, message_id);
    if (is_main_message)
        last_add(n, text, len);
    else if (*subagent == '\0')
        n->last.is_open = false; /* a thought of the same author ends a message without id */
    join(n, text, len, frame);
}

/* A message or thought that its harness authored whole. */
void
text_whole(struct cf_normalizer *n, enum text_kind kind, json_t *payload, uint64_t frame)
{
    json_t *content = json_object_get(payload, "content");
    const char *text = json_string_value(content),
               *event_id = cf_json_str(payload, "event_id");
    const char *subagent = cf_json_str(payload, "subagent");
    size_t len = json_string_length(content);

    text_boundary(n);
    if (kind == TEXT_MESSAGE && subagent == NULL) {
        last_begin(n, NULL);
        last_add(n, text, len);
        n->last.is_open = false;
    }
    do {
        size_t part = cf_utf16_prefix(text, len, TEXT_UNITS_MAX);
        tell(n, kind, text, part, event_id, subagent ? subagent : "", frame);
        text += part;
        len -= part;
    } while (len > 0);
}

void
text_turn_begin(struct cf_normalizer *n)
{
    text_boundary(n);
    last_begin(n, NULL);
    n->last.is_open = false;
    n->has_text = false;
}

const char *
cf_normalizer_last_message(const struct cf_normalizer *n, size_t *ret_len)
{
    *ret_len = n->last.text.len;
    return n->last.text.len > 0 ? n->last.text.data : "";
}

void
cf_normalizer_text(struct cf_normalizer *n, const char *text, size_t len, uint64_t line)
{
    if (n->is_closed) {
        obs_finding(n, "late_update", line,
                    "%zu bytes of text after the end of the turn were dropped", len);
        return;
    }
    text_chunk(n, TEXT_MESSAGE, NULL, "", text, len, line);
}
