/*
 * json/stream.c: a push tokenizer. The state between two bytes is one number and one bit per
 * open level, so the text may be cut anywhere and be of any length.
 */
#include "json/stream.h"

#include "base/utf8.h"

#include <string.h>

enum state {
    VALUE,          /* a value belongs here */
    VALUE_OR_CLOSE, /* behind [ */
    NAME_OR_CLOSE,  /* behind { */
    NAME,           /* behind a comma in an object */
    COLON,
    AFTER, /* behind a value */
    STRING,
    ESCAPE,
    UNICODE,
    WORD,
    NUM_MINUS,
    NUM_ZERO,
    NUM_INT,
    NUM_DOT,
    NUM_FRACTION,
    NUM_E,
    NUM_E_SIGN,
    NUM_EXPONENT
};

void
cf_json_stream_init(struct cf_json_stream *stream, cf_json_event_fn *on_event, void *user)
{
    memset(stream, 0, sizeof *stream);
    stream->on_event = on_event;
    stream->user = user;
    stream->state = VALUE;
}

static int
broken(struct cf_json_stream *s, const char *what, struct cf_error *err)
{
    s->is_broken = true;
    return cf_error_set(err, CF_ERROR_WIRE, 0, "not JSON at byte %llu: %s",
                        (unsigned long long)s->at, what);
}

static void
tell(struct cf_json_stream *s, enum cf_json_event event)
{
    s->on_event(s->user, event, "", 0);
}

/* Decoded text of a name or of a string value. */
static void
add_text(struct cf_json_stream *s, const char *bytes, size_t len)
{
    if (len == 0)
        return;
    if (!s->is_name) {
        s->on_event(s->user, CF_JSON_STRING_PIECE, bytes, len);
        return;
    }
    if (len > CF_JSON_STREAM_NAME - s->len)
        len = CF_JSON_STREAM_NAME - s->len;
    memcpy(s->text + s->len, bytes, len);
    s->len += len;
}

static void
add_code(struct cf_json_stream *s, uint32_t code)
{
    char text[4];

    add_text(s, text, (size_t)cf_utf8_put(code, text));
}

/* A high half whose low half did not follow. */
static void
drop_high(struct cf_json_stream *s)
{
    if (s->high != 0)
        add_code(s, 0xfffd);
    s->high = 0;
}

/* ---- levels -------------------------------------------------------------------------- */

static bool
in_object(const struct cf_json_stream *s)
{
    unsigned top = s->depth - 1;

    return s->depth > 0 && (s->is_object[top / 8] >> (top % 8) & 1);
}

static int
open_level(struct cf_json_stream *s, bool is_object, struct cf_error *err)
{
    uint8_t bit = (uint8_t)(1u << (s->depth % 8));

    if (s->depth == CF_JSON_STREAM_DEPTH) {
        s->is_broken = true;
        return cf_error_set(err, CF_ERROR_TOO_LARGE, 0,
                            "JSON nested deeper than %u at byte %llu", CF_JSON_STREAM_DEPTH,
                            (unsigned long long)s->at);
    }
    if (is_object)
        s->is_object[s->depth / 8] |= bit;
    else
        s->is_object[s->depth / 8] &= (uint8_t)~bit;
    s->depth++;
    s->state = is_object ? NAME_OR_CLOSE : VALUE_OR_CLOSE;
    tell(s, is_object ? CF_JSON_OBJECT_OPEN : CF_JSON_ARRAY_OPEN);
    return 0;
}

static void
close_level(struct cf_json_stream *s)
{
    bool was_object = in_object(s);

    s->depth--;
    s->state = AFTER;
    tell(s, was_object ? CF_JSON_OBJECT_CLOSE : CF_JSON_ARRAY_CLOSE);
}

/* ---- one byte between tokens --------------------------------------------------------- */

static int
begin_word(struct cf_json_stream *s, const char *rest, enum cf_json_event event)
{
    s->word = rest;
    s->word_event = event;
    s->state = WORD;
    return 0;
}

static void
begin_string(struct cf_json_stream *s, bool is_name)
{
    s->is_name = is_name;
    s->state = STRING;
    s->len = 0;
    s->high = 0;
    if (!is_name)
        tell(s, CF_JSON_STRING_OPEN);
}

static int
begin_value(struct cf_json_stream *s, char ch, struct cf_error *err)
{
    switch (ch) {
    case '{':
        return open_level(s, true, err);
    case '[':
        return open_level(s, false, err);
    case '"':
        begin_string(s, false);
        return 0;
    case 't':
        return begin_word(s, "rue", CF_JSON_TRUE);
    case 'f':
        return begin_word(s, "alse", CF_JSON_FALSE);
    case 'n':
        return begin_word(s, "ull", CF_JSON_NULL);
    default:
        break;
    }
    if (ch != '-' && (ch < '0' || ch > '9'))
        return broken(s, "a value belongs here", err);
    s->state = ch == '-' ? NUM_MINUS : ch == '0' ? NUM_ZERO : NUM_INT;
    s->text[0] = ch;
    s->len = 1;
    return 0;
}

static int
between(struct cf_json_stream *s, char ch, struct cf_error *err)
{
    if (ch == ' ' || ch == '\t' || ch == '\n' || ch == '\r')
        return 0;
    switch (s->state) {
    case VALUE_OR_CLOSE:
        if (ch == ']') {
            close_level(s);
            return 0;
        }
        return begin_value(s, ch, err);
    case VALUE:
        return begin_value(s, ch, err);
    case NAME_OR_CLOSE:
        if (ch == '}') {
            close_level(s);
            return 0;
        } /* fall through */
    case NAME:
        if (ch != '"')
            return broken(s, "a member name in double quotes belongs here", err);
        begin_string(s, true);
        return 0;
    case COLON:
        if (ch != ':')
            return broken(s, "a colon belongs here", err);
        s->state = VALUE;
        return 0;
    default: /* AFTER */
        break;
    }
    if (s->depth == 0)
        return broken(s, "more text behind the value", err);
    if (ch == ',') {
        s->state = in_object(s) ? NAME : VALUE;
        return 0;
    }
    if (ch != (in_object(s) ? '}' : ']'))
        return broken(s, "a comma or a closing bracket belongs here", err);
    close_level(s);
    return 0;
}

/* ---- strings ------------------------------------------------------------------------- */

/* A name over the limit may end inside a character: that character goes. */
static size_t
whole_characters(const char *text, size_t len)
{
    size_t lead = len;
    uint32_t code;

    while (lead > 0 && len - lead < 4 && ((unsigned char)text[lead - 1] & 0xc0) == 0x80)
        lead--;
    if (lead > 0 && cf_utf8_next(text + lead - 1, len - lead + 1, &code) == -2)
        return lead - 1;
    return len;
}

static void
close_string(struct cf_json_stream *s)
{
    drop_high(s);
    if (!s->is_name) {
        s->state = AFTER;
        tell(s, CF_JSON_STRING_CLOSE);
        return;
    }
    s->state = COLON;
    s->len = whole_characters(s->text, s->len);
    s->text[s->len] = '\0';
    s->on_event(s->user, CF_JSON_NAME, s->text, s->len);
}

/* Takes plain text up to what is special; returns how many bytes. */
static size_t
take_string(struct cf_json_stream *s, const char *bytes, size_t len, struct cf_error *err)
{
    size_t n = 0;

    while (n < len && bytes[n] != '"' && bytes[n] != '\\' && (unsigned char)bytes[n] >= 0x20)
        n++;
    if (n > 0) {
        drop_high(s);
        add_text(s, bytes, n);
        return n;
    }
    if (bytes[0] == '"')
        close_string(s);
    else if (bytes[0] == '\\')
        s->state = ESCAPE;
    else
        (void)broken(s, "a control character inside a string", err); /* told by is_broken */
    return 1;
}

static int
take_escape(struct cf_json_stream *s, char ch, struct cf_error *err)
{
    static const char names[] = "\"\\/bfnrt", values[] = "\"\\/\b\f\n\r\t";
    const char *at;

    if (ch == 'u') {
        s->state = UNICODE;
        s->unit = s->digits = 0;
        return 0;
    }
    at = ch == '\0' ? NULL : strchr(names, ch);
    if (at == NULL)
        return broken(s, "an unknown escape in a string", err);
    drop_high(s);
    add_text(s, &values[at - names], 1);
    s->state = STRING;
    return 0;
}

static int
take_unicode(struct cf_json_stream *s, char ch, struct cf_error *err)
{
    static const char hex[] = "0123456789abcdef";
    const char *at = ch == '\0' ? NULL : strchr(hex, ch | 0x20);

    if (at == NULL || (ch < '0' || (ch > '9' && ch < 'A')))
        return broken(s, "a \\u escape needs four hexadecimal digits", err);
    s->unit = s->unit * 16 + (uint32_t)(at - hex);
    if (++s->digits < 4)
        return 0;
    s->state = STRING;
    if (s->high != 0 && s->unit >= 0xdc00 && s->unit <= 0xdfff) {
        uint32_t code = 0x10000 + ((s->high - 0xd800) << 10) + (s->unit - 0xdc00);
        s->high = 0;
        add_code(s, code);
        return 0;
    }
    drop_high(s);
    if (s->unit >= 0xd800 && s->unit <= 0xdbff)
        s->high = s->unit;
    else
        add_code(s, s->unit >= 0xdc00 && s->unit <= 0xdfff ? 0xfffd : s->unit);
    return 0;
}

/* ---- numbers and words --------------------------------------------------------------- */

static int
take_word(struct cf_json_stream *s, char ch, struct cf_error *err)
{
    if (ch != *s->word)
        return broken(s, "a value belongs here", err);
    if (*++s->word == '\0') {
        s->state = AFTER;
        tell(s, s->word_event);
    }
    return 0;
}

/* The state behind `ch` inside a number, or AFTER when ch does not belong to it any more. */
static enum state
number_step(enum state state, char ch)
{
    bool is_digit = ch >= '0' && ch <= '9', is_e = ch == 'e' || ch == 'E';

    switch (state) {
    case NUM_MINUS:
        return !is_digit ? AFTER : ch == '0' ? NUM_ZERO : NUM_INT;
    case NUM_ZERO:
        return ch == '.' ? NUM_DOT : is_e ? NUM_E : AFTER;
    case NUM_INT:
        return is_digit ? NUM_INT : ch == '.' ? NUM_DOT : is_e ? NUM_E : AFTER;
    case NUM_DOT:
        return is_digit ? NUM_FRACTION : AFTER;
    case NUM_FRACTION:
        return is_digit ? NUM_FRACTION : is_e ? NUM_E : AFTER;
    case NUM_E:
        return is_digit ? NUM_EXPONENT : ch == '+' || ch == '-' ? NUM_E_SIGN : AFTER;
    default: /* NUM_E_SIGN, NUM_EXPONENT */
        return is_digit ? NUM_EXPONENT : AFTER;
    }
}

static bool
is_number_whole(enum state state)
{
    return state == NUM_ZERO || state == NUM_INT || state == NUM_FRACTION ||
           state == NUM_EXPONENT;
}

static void
close_number(struct cf_json_stream *s)
{
    s->text[s->len] = '\0';
    s->state = AFTER;
    s->on_event(s->user, CF_JSON_NUMBER, s->text, s->len);
}

/* Returns the bytes taken: 0 when ch ends the number and is looked at again. */
static size_t
take_number(struct cf_json_stream *s, char ch, struct cf_error *err)
{
    enum state next = number_step(s->state, ch);

    if (next != AFTER) {
        s->state = next;
        if (s->len < 63)
            s->text[s->len++] = ch;
        return 1;
    }
    if (is_number_whole(s->state))
        close_number(s);
    else
        (void)broken(s, "a number lacks a digit here", err); /* told by is_broken */
    return 0;
}

static size_t
take_one(struct cf_json_stream *s, const char *bytes, size_t len, struct cf_error *err)
{
    switch (s->state) {
    case STRING:
        return take_string(s, bytes, len, err);
    case ESCAPE:
        (void)take_escape(s, bytes[0], err);
        return 1;
    case UNICODE:
        (void)take_unicode(s, bytes[0], err);
        return 1;
    case WORD:
        (void)take_word(s, bytes[0], err);
        return 1;
    case VALUE:
    case VALUE_OR_CLOSE:
    case NAME_OR_CLOSE:
    case NAME:
    case COLON:
    case AFTER:
        (void)between(s, bytes[0], err);
        return 1;
    default:
        return take_number(s, bytes[0], err);
    }
}

int
cf_json_stream_feed(struct cf_json_stream *stream, const char *bytes, size_t len,
                    struct cf_error *err)
{
    size_t at = 0;

    if (stream->is_broken)
        return broken(stream, "what came before is not JSON", err);
    while (at < len) {
        size_t took = take_one(stream, bytes + at, len - at, err);
        if (stream->is_broken)
            return -1;
        at += took;
        stream->at += took;
    }
    return 0;
}

int
cf_json_stream_end(struct cf_json_stream *stream, struct cf_error *err)
{
    if (stream->is_broken)
        return broken(stream, "what came before is not JSON", err);
    if (stream->depth == 0 && is_number_whole(stream->state))
        close_number(stream);
    if (stream->state != AFTER || stream->depth > 0)
        return broken(stream, "the text ends too early", err);
    return 0;
}
