/*
 * Frames and observations as they pass: the first ones and the last ones of each, for a run may have
 * millions. What a check points at is either near the beginning or near the end.
 */
#include "diagnose/trail.h"

#include "base/str.h"
#include "json/json.h"

#include <stdlib.h>
#include <string.h>

#define KEPT (CF_TRAIL_HEAD + CF_TRAIL_RING)
#define PARSED_BYTES (1u << 20) /* a longer answer is not looked into */

void
cf_trail_release(struct cf_trail *trail)
{
    for (size_t i = 0; trail->frames != NULL && i < KEPT; i++)
        free(trail->frames[i].text);
    free(trail->frames);
    free(trail->seen);
    for (size_t i = 0; i < trail->exchange_count; i++)
        json_decref(trail->exchanges[i].id);
    memset(trail, 0, sizeof *trail);
}

static size_t
slot_of(size_t nth)
{
    return nth < CF_TRAIL_HEAD ? nth : CF_TRAIL_HEAD + (nth - CF_TRAIL_HEAD) % CF_TRAIL_RING;
}

static size_t
kept(size_t count)
{
    return count < KEPT ? count : KEPT;
}

/* ---- exchanges ---------------------------------------------------------------------------- */

static void
note_request(struct cf_trail *trail, uint32_t turn, uint64_t number, json_t *message)
{
    const char *method = cf_json_str(message, "method");
    json_t *id = json_object_get(message, "id");
    struct cf_trail_exchange *exchange;

    if (method == NULL || id == NULL || trail->exchange_count == CF_TRAIL_EXCHANGES)
        return;
    exchange = &trail->exchanges[trail->exchange_count++];
    memset(exchange, 0, sizeof *exchange);
    (void)strncpy(exchange->method, method, sizeof exchange->method - 1);
    exchange->id = json_incref(id);
    exchange->turn = turn;
    exchange->request = number;
    trail->open_count++;
}

static void
note_answer(struct cf_trail *trail, uint64_t number, json_t *message)
{
    json_t *id = json_object_get(message, "id");

    if (id == NULL || json_object_get(message, "method") != NULL)
        return;
    for (size_t i = 0; i < trail->exchange_count; i++) {
        struct cf_trail_exchange *exchange = &trail->exchanges[i];
        if (exchange->answer != 0 || !json_equal(exchange->id, id))
            continue;
        exchange->answer = number;
        trail->open_count--;
        return;
    }
}

static void
note_exchange(struct cf_trail *trail, uint32_t turn, bool from_harness, uint64_t number, const char *line, size_t len)
{
    json_t *message;

    if (from_harness && (trail->open_count == 0 || memmem(line, len, "\"id\"", 4) == NULL))
        return;
    message = len <= PARSED_BYTES ? cf_json_parse(line, len, NULL, &(struct cf_error){0}) : NULL;
    if (from_harness)
        note_answer(trail, number, message);
    else
        note_request(trail, turn, number, message);
    json_decref(message);
}

/* ---- as they pass ------------------------------------------------------------------------- */

void
cf_trail_frame_passed(struct cf_trail *trail, uint32_t turn, bool from_harness, uint64_t number, uint64_t at_ms,
                      const char *line, size_t len)
{
    size_t most = len < CF_TRAIL_TEXT_BYTES ? len : CF_TRAIL_TEXT_BYTES;
    struct cf_trail_frame *frame;
    char *text = malloc(most + 1);

    note_exchange(trail, turn, from_harness, number, line, len);
    if (trail->frames == NULL)
        trail->frames = calloc(KEPT, sizeof *trail->frames);
    if (trail->frames == NULL || text == NULL) {
        free(text);
        return;
    }
    memcpy(text, line, most);
    text[most] = '\0';
    frame = &trail->frames[slot_of(trail->frame_count++)];
    free(frame->text);
    *frame = (struct cf_trail_frame){number, at_ms, len, turn, from_harness, text, most};
}

void
cf_trail_observation_passed(struct cf_trail *trail, const struct cf_observation *o)
{
    if (trail->seen == NULL)
        trail->seen = calloc(KEPT, sizeof *trail->seen);
    if (trail->seen == NULL)
        return;
    trail->seen[slot_of(trail->seen_count++)] = (struct cf_trail_seen){o->seq, o->frame, o->at_ms, o->turn, o->type};
}

/* ---- found again -------------------------------------------------------------------------- */

const struct cf_trail_frame *
cf_trail_frame(const struct cf_trail *trail, uint32_t turn, uint64_t number)
{
    const struct cf_trail_frame *found = NULL;

    /* A one-shot process numbers its lines anew each turn; over ACP a number is one frame's only. */
    for (size_t i = 0; i < kept(trail->frame_count); i++)
        if (trail->frames[i].number == number && (found == NULL || trail->frames[i].turn == turn))
            found = &trail->frames[i];
    return found;
}

const struct cf_trail_frame *
cf_trail_last_frame(const struct cf_trail *trail, bool from_harness)
{
    for (size_t nth = trail->frame_count; nth > 0 && nth + CF_TRAIL_RING > trail->frame_count; nth--) {
        const struct cf_trail_frame *frame = &trail->frames[slot_of(nth - 1)];
        if (frame->from_harness == from_harness)
            return frame;
    }
    return NULL;
}

const struct cf_trail_seen *
cf_trail_seen(const struct cf_trail *trail, uint64_t seq)
{
    for (size_t i = 0; i < kept(trail->seen_count); i++)
        if (trail->seen[i].seq == seq)
            return &trail->seen[i];
    return NULL;
}

const struct cf_trail_seen *
cf_trail_seen_type(const struct cf_trail *trail, uint32_t turn, uint32_t type, bool is_last)
{
    const struct cf_trail_seen *found = NULL;

    for (size_t i = 0; i < kept(trail->seen_count); i++) {
        const struct cf_trail_seen *seen = &trail->seen[i];
        if (seen->turn != turn || seen->type != type)
            continue;
        if (found == NULL || (seen->seq > found->seq) == is_last)
            found = seen;
    }
    return found;
}

const struct cf_trail_exchange *
cf_trail_exchange(const struct cf_trail *trail, uint32_t turn, const char *method)
{
    for (size_t i = trail->exchange_count; i > 0; i--)
        if (trail->exchanges[i - 1].turn == turn && cf_str_ends(trail->exchanges[i - 1].method, method))
            return &trail->exchanges[i - 1];
    return NULL;
}
