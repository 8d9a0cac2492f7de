/*
 * Counts stand in an object named usage at the top, or one level down in `message` (where an
 * anthropic stream begins) or `response` (openai_responses). Later counts replace earlier
 * ones.
 */
#include "relay/usage.h"

#include "base/str.h"

#include <stdlib.h>
#include <string.h>

enum where { ELSEWHERE, ROOT, MESSAGE, RESPONSE, USAGE, DETAILS };
enum key {
    OTHER,
    K_MODEL,
    K_USAGE,
    K_MESSAGE,
    K_RESPONSE,
    K_DETAILS,
    K_INPUT,
    K_OUTPUT,
    K_CACHE_READ,
    K_CACHE_WRITE
};

enum line { IN_FIELD, IN_DATA, IN_OTHER, BEHIND_CR };

static const struct {
    const char *name;
    enum key key;
} keys[] = {
    {"model", K_MODEL},
    {"usage", K_USAGE},
    {"message", K_MESSAGE},
    {"response", K_RESPONSE},
    {"prompt_tokens_details", K_DETAILS},
    {"input_tokens_details", K_DETAILS},
    {"input_tokens", K_INPUT},
    {"prompt_tokens", K_INPUT},
    {"output_tokens", K_OUTPUT},
    {"completion_tokens", K_OUTPUT},
    {"cache_read_input_tokens", K_CACHE_READ},
    {"cached_tokens", K_CACHE_READ},
    {"cache_creation_input_tokens", K_CACHE_WRITE},
};

static enum key
key_of(const char *name)
{
    for (size_t i = 0; i < CF_COUNT(keys); i++)
        if (strcmp(keys[i].name, name) == 0)
            return keys[i].key;
    return OTHER;
}

static enum where
where_now(const struct cf_usage_reader *r)
{
    return r->depth == 0 || r->depth > CF_COUNT(r->where) ? ELSEWHERE
                                                          : (enum where)r->where[r->depth - 1];
}

static enum key
key_now(const struct cf_usage_reader *r)
{
    return r->depth == 0 || r->depth > CF_COUNT(r->key) ? OTHER
                                                        : (enum key)r->key[r->depth - 1];
}

static enum where
place_of_object(const struct cf_usage_reader *r)
{
    enum where where = where_now(r);
    enum key key = key_now(r);

    if (r->depth == 0)
        return ROOT;
    if (where == ROOT && key == K_MESSAGE)
        return MESSAGE;
    if (where == ROOT && key == K_RESPONSE)
        return RESPONSE;
    if ((where == ROOT || where == MESSAGE || where == RESPONSE) && key == K_USAGE)
        return USAGE;
    return where == USAGE && key == K_DETAILS ? DETAILS : ELSEWHERE;
}

static void
open_level(struct cf_usage_reader *r, enum where where)
{
    if (where == USAGE)
        r->is_message = where_now(r) == MESSAGE;
    if (r->depth < CF_COUNT(r->where)) {
        r->where[r->depth] = (uint8_t)where;
        r->key[r->depth] = OTHER;
    }
    r->depth++;
}

static void
read_number(struct cf_usage_reader *r, const char *text)
{
    struct cf_usage *u = &r->usage;
    enum where where = where_now(r);
    enum key key = key_now(r);
    uint64_t value;

    if ((where != USAGE && where != DETAILS) || !cf_parse_u64(text, 0, INT64_MAX, &value))
        return;
    if (key == K_CACHE_READ)
        u->cache_read = value;
    if (where == DETAILS)
        return;
    if (key == K_INPUT) {
        u->input = value;
        u->has_input = true;
    } else if (key == K_OUTPUT) {
        u->output = value;
        u->has_output = true;
        u->is_final = !r->is_message;
    } else if (key == K_CACHE_WRITE) {
        u->cache_write = value;
    }
}

static void
read_string(struct cf_usage_reader *r, enum cf_json_event event, const char *bytes, size_t len)
{
    enum where where = where_now(r);

    if (event == CF_JSON_STRING_OPEN) {
        r->in_model =
            key_now(r) == K_MODEL && (where == ROOT || where == MESSAGE || where == RESPONSE);
        if (r->in_model)
            r->model_len = 0;
    } else if (event == CF_JSON_STRING_PIECE && r->in_model) {
        if (len > CF_USAGE_MODEL - r->model_len)
            len = CF_USAGE_MODEL - r->model_len;
        memcpy(r->usage.model + r->model_len, bytes, len);
        r->model_len += len;
        r->usage.model[r->model_len] = '\0';
    }
}

static void
on_event(void *user, enum cf_json_event event, const char *bytes, size_t len)
{
    struct cf_usage_reader *r = user;

    switch (event) {
    case CF_JSON_OBJECT_OPEN:
        open_level(r, place_of_object(r));
        break;
    case CF_JSON_ARRAY_OPEN:
        open_level(r, ELSEWHERE);
        break;
    case CF_JSON_OBJECT_CLOSE:
    case CF_JSON_ARRAY_CLOSE:
        r->depth--;
        break;
    case CF_JSON_NAME:
        if (r->depth <= CF_COUNT(r->key))
            r->key[r->depth - 1] = (uint8_t)key_of(bytes);
        break;
    case CF_JSON_NUMBER:
        read_number(r, bytes);
        break;
    case CF_JSON_STRING_OPEN:
    case CF_JSON_STRING_PIECE:
    case CF_JSON_STRING_CLOSE:
        read_string(r, event, bytes, len);
        break;
    default:
        break;
    }
}

static void
begin_json(struct cf_usage_reader *r)
{
    r->depth = 0;
    r->has_data = false;
    cf_json_stream_init(&r->stream, on_event, r);
}

/* A value that is broken, or something else altogether, says nothing more. */
static void
feed_json(struct cf_usage_reader *r, const char *bytes, size_t len)
{
    struct cf_error ignored;

    r->has_data = true;
    if (cf_json_stream_feed(&r->stream, bytes, len, &ignored) < 0)
        return; /* the next value begins anew */
}

void
cf_usage_init(struct cf_usage_reader *reader, bool is_events)
{
    memset(reader, 0, sizeof *reader);
    reader->is_events = is_events;
}

/* ---- event streams ------------------------------------------------------------------- */

/* A line is over; an empty one ends the frame, and with it the data's JSON value. */
static void
end_line(struct cf_usage_reader *r)
{
    if (r->line == IN_FIELD && r->line_at == 0 && r->has_data) {
        r->events++;
        begin_json(r);
    } else if (r->line == IN_DATA) {
        feed_json(r, "\n", 1);
    }
    r->line = IN_FIELD;
    r->line_at = 0;
}

/* One byte of a field's name: only "data:" is of interest. */
static void
read_field(struct cf_usage_reader *r, char ch)
{
    static const char data[] = "data:";

    if (data[r->line_at] != ch) {
        r->line = IN_OTHER;
        return;
    }
    if (++r->line_at == sizeof data - 1)
        r->line = IN_DATA;
}

/* Bytes before the next line end. */
static size_t
run_of(const char *bytes, size_t len)
{
    const char *lf = memchr(bytes, '\n', len);
    const char *cr = memchr(bytes, '\r', lf != NULL ? (size_t)(lf - bytes) : len);

    return cr != NULL ? (size_t)(cr - bytes) : lf != NULL ? (size_t)(lf - bytes) : len;
}

static void
feed_events(struct cf_usage_reader *r, const char *bytes, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        size_t run;

        if (r->line == BEHIND_CR) { /* CRLF and a bare CR both end a line */
            r->line = IN_FIELD;
            if (bytes[i] == '\n')
                continue;
        }
        run = run_of(bytes + i, len - i);
        if (run > 0 && r->line == IN_FIELD) {
            read_field(r, bytes[i]);
            continue;
        }
        if (run > 0 && r->line == IN_DATA)
            feed_json(r, bytes + i, run);
        i += run;
        if (i == len)
            return;
        end_line(r);
        if (bytes[i] == '\r')
            r->line = BEHIND_CR;
    }
}

void
cf_usage_feed(struct cf_usage_reader *reader, const char *bytes, size_t len)
{
    if (reader->stream.on_event == NULL) /* here, so that the struct may be moved before */
        begin_json(reader);
    if (reader->is_events)
        feed_events(reader, bytes, len);
    else
        feed_json(reader, bytes, len);
}
