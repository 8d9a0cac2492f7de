/* The items of evidence: small, of closed form, and without what must not leave the run. */
#include "diagnose/trail.h"

#include "base/str.h"
#include "base/utf8.h"
#include "json/json.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SECRET_LEAST 8u /* shorter ones would strike words that are none; as in a recording */

static void
append(json_t *evidence, json_t *item, const char *note)
{
    if (item == NULL)
        return;
    if (note != NULL)
        (void)json_object_set_new(item, "note", json_string(note));
    (void)json_array_append_new(evidence, item);
}

/* Struck in what is shown of a frame; a secret that the cut divides goes as far as it is there. */
static void
strike(const struct cf_trail *trail, char *text, size_t len)
{
    json_t *secret;
    size_t i;

    json_array_foreach(trail->secrets, i, secret)
    {
        const char *word = json_string_value(secret);
        size_t n = json_string_length(secret);
        if (n < SECRET_LEAST)
            continue;
        for (char *at = text; (at = memmem(at, (size_t)(text + len - at), word, n)) != NULL; at += n)
            memset(at, '*', n);
        for (size_t tail = n - 1 < len ? n - 1 : len; tail >= 4; tail--)
            if (memcmp(text + len - tail, word, tail) == 0) {
                memset(text + len - tail, '*', tail);
                break;
            }
    }
}

void
cf_evidence_frame(json_t *evidence, const struct cf_trail *trail, uint32_t turn, uint64_t number, const char *note)
{
    const struct cf_trail_frame *frame = number != 0 ? cf_trail_frame(trail, turn, number) : NULL;
    char what[80], text[244];
    cf_auto_free char *copy = NULL;

    if (number == 0)
        return;
    if (frame == NULL || (copy = malloc(frame->len + 1)) == NULL) {
        append(evidence, json_pack("{s:I, s:i}", "frame", (json_int_t)number, "turn", (int)turn), note);
        return;
    }
    memcpy(copy, frame->text, frame->len + 1);
    strike(trail, copy, frame->len);
    cf_glance(copy, frame->len, (size_t)frame->bytes, what, sizeof what, text, sizeof text);
    append(evidence,
           json_pack("{s:I, s:i, s:I, s:s, s:s, s:s}", "frame", (json_int_t)number, "turn", (int)frame->turn, "at_ms",
                     (json_int_t)frame->at_ms, "from", frame->from_harness ? "harness" : "driver", "what", what,
                     "text", text),
           note);
}

void
cf_evidence_seen(json_t *evidence, const struct cf_trail *trail, uint64_t seq, const char *note)
{
    const struct cf_trail_seen *seen = seq != 0 ? cf_trail_seen(trail, seq) : NULL;
    const char *type = seen != NULL ? cf_observation_type_name(seen->type) : NULL;
    json_t *item;

    if (seq == 0)
        return;
    item = json_pack("{s:I}", "seq", (json_int_t)seq);
    if (seen != NULL && item != NULL) {
        (void)json_object_set_new(item, "turn", json_integer(seen->turn));
        (void)json_object_set_new(item, "at_ms", json_integer((json_int_t)seen->at_ms));
        (void)json_object_set_new(item, "type", json_string(type != NULL ? type : "unknown"));
        (void)json_object_set_new(item, "from_frame", json_integer((json_int_t)seen->frame));
    }
    append(evidence, item, note);
}

void
cf_evidence_call(json_t *evidence, json_t *call, const char *note)
{
    const char *refused = cf_json_str(call, "refused"), *path = cf_json_str(call, "path"),
               *method = cf_json_str(call, "method");
    char text[200];

    if (call == NULL)
        return;
    (void)snprintf(text, sizeof text, "%.16s %.120s, %s%.40s", method != NULL ? method : "?", path != NULL ? path : "?",
                   refused != NULL ? "refused: " : "served", refused != NULL ? refused : "");
    cf_utf8_make_line(text);
    append(evidence,
           json_pack("{s:I, s:I, s:I, s:s}", "call", (json_int_t)cf_json_int(call, "id", 0), "turn",
                     (json_int_t)cf_json_int(call, "turn", 0), "at_ms", (json_int_t)cf_json_int(call, "at_ms", 0), "text",
                     text),
           note);
}

/* The value at an RFC 6901 pointer; NULL: it leads nowhere. Our pointers need no escapes. */
static json_t *
at_pointer(json_t *document, const char *pointer)
{
    while (document != NULL && *pointer == '/') {
        char token[64];
        size_t n = strcspn(++pointer, "/");
        if (n >= sizeof token)
            return NULL;
        memcpy(token, pointer, n);
        token[n] = '\0';
        pointer += n;
        document = json_is_array(document) ? json_array_get(document, (size_t)strtoul(token, NULL, 10))
                                           : json_object_get(document, token);
    }
    return document;
}

void
cf_evidence_fact(json_t *evidence, json_t *document, const char *pointer, const char *note)
{
    json_t *value = at_pointer(document, pointer);
    cf_auto_free char *text = NULL;
    char shown[244];
    size_t len = 0;

    if (value == NULL || json_is_null(value))
        return;
    text = json_is_string(value) ? strndup(json_string_value(value), json_string_length(value)) : cf_json_dump(value, &len);
    if (text == NULL)
        return;
    len = strlen(text);
    (void)snprintf(shown, sizeof shown, "%.*s%s", (int)cf_utf8_cut(text, len, 240), text, len > 240 ? "\xe2\x80\xa6" : "");
    cf_utf8_make_line(shown);
    append(evidence, json_pack("{s:s, s:s}", "fact", pointer, "value", shown), note);
}

void
cf_evidence_check(json_t *evidence, const char *id)
{
    append(evidence, id != NULL ? json_pack("{s:s}", "check", id) : NULL, "waited for");
}
