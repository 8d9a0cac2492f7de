/*
 * wire/oneshot.c: the stdout of a one-shot process.
 *
 * text: all of it is one message; it is handed on in valid UTF-8 as it comes. stream_json: one
 * observation a line; what a harness may author is a closed list, and the first line that
 * breaks the rules ends the reading, named by its number.
 */
#include "wire/wire.h"

#include "base/str.h"
#include "base/utf8.h"
#include "json/json.h"
#include "wire/repair.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LINE_LIMIT (64u << 20)
#define QUOTED_CHARACTERS 200u
#define REPAIRS_TOLD 100u

struct cf_oneshot {
    enum cf_oneshot_mode mode;
    struct cf_oneshot_events on;
    void *user;
    struct cf_lines lines;
    char cut[4]; /* text: the beginning of a character whose rest has not come */
    size_t cut_len;
    unsigned swallow; /* text: continuation bytes that belong to a broken sequence */
    uint64_t line;    /* text: number of the line that is being read */
    uint64_t repairs;
    bool has_finished, is_broken, is_ended, has_no_memory;
};

static const char *const authorable[] = {
    "observation.agent_message", "observation.agent_thinking", "observation.tool_use",
    "observation.tool_result",   "observation.file_changed",   "observation.context_compacted",
    "observation.finished",
};

static void
break_off(struct cf_oneshot *oneshot, const struct cf_error *err)
{
    oneshot->is_broken = true;
    if (oneshot->on.on_broken != NULL)
        oneshot->on.on_broken(oneshot->user, err);
}

/* ---- stream_json ---- */

static void
quote(const char *line, size_t len, char *out, size_t size)
{
    size_t n = cf_utf16_prefix(line, len, QUOTED_CHARACTERS);

    n = n < size - 1 ? n : size - 1;
    memcpy(out, line, n);
    out[n] = '\0';
    for (size_t i = 0; i < n; i++)
        if (out[i] == '\0')
            out[i] = ' ';
    cf_utf8_make_line(out);
}

static bool
is_authorable(const char *type)
{
    for (size_t i = 0; i < CF_COUNT(authorable); i++)
        if (strcmp(authorable[i], type) == 0)
            return true;
    return false;
}

static int
check_object(const struct cf_oneshot *oneshot, json_t *object, uint64_t number,
             struct cf_error *err)
{
    const char *type = cf_json_str(object, "type");

    if (!json_is_object(object) || type == NULL)
        return cf_error_set(err, CF_ERROR_HARNESS, 0,
                            "line %llu of stdout is not an object with a \"type\"",
                            (unsigned long long)number);
    if (oneshot->has_finished)
        return cf_error_set(err, CF_ERROR_HARNESS, 0,
                            "line %llu of stdout (%.80s) comes after observation.finished",
                            (unsigned long long)number, type);
    if (!is_authorable(type)) {
        (void)cf_error_set(
            err, CF_ERROR_HARNESS, 0,
            "line %llu of stdout has the type \"%.80s\", which a harness may not author",
            (unsigned long long)number, type);
        return cf_error_fix(
            err, "a harness authors agent_message, agent_thinking, tool_use, tool_result, "
                 "file_changed, context_compacted and finished");
    }
    return 0;
}

static void
read_object(struct cf_oneshot *oneshot, const char *line, size_t len, uint64_t number)
{
    struct cf_error err = {0};
    json_t *object = NULL;
    size_t repairs;
    char why[256] = "", head[4 * QUOTED_CHARACTERS + 1], told[80];

    switch (cf_frame_read(line, len, &object, &repairs, why, sizeof why)) {
    case CF_FRAME_MEMORY:
        oneshot->has_no_memory = true;
        return;
    case CF_FRAME_OK:
        break;
    default:
        quote(line, len, head, sizeof head);
        (void)cf_error_set(&err, CF_ERROR_HARNESS, 0,
                           "line %llu of stdout is not JSON: %.600s",
                           (unsigned long long)number, head);
        (void)cf_error_fix(
            &err, "with --output-mode stream_json every line of stdout is one observation; "
                  "write anything else to stderr");
        break_off(oneshot, &err);
        return;
    }
    if (repairs > 0 && oneshot->repairs++ < REPAIRS_TOLD && oneshot->on.on_finding != NULL) {
        snprintf(told, sizeof told, "line %llu needed %zu repairs to be JSON",
                 (unsigned long long)number, repairs);
        oneshot->on.on_finding(oneshot->user, number, told);
    }
    if (check_object(oneshot, object, number, &err) < 0) {
        break_off(oneshot, &err);
    } else {
        oneshot->has_finished =
            strcmp(cf_json_str(object, "type"), "observation.finished") == 0;
        if (oneshot->on.on_object != NULL)
            oneshot->on.on_object(oneshot->user, object, number);
    }
    json_decref(object);
}

static void
on_line(void *user, const char *line, size_t len, uint64_t number, bool overflow)
{
    struct cf_oneshot *oneshot = user;
    struct cf_error err = {0};
    size_t blank = 0;

    while (blank < len && (line[blank] == ' ' || line[blank] == '\t' || line[blank] == '\r'))
        blank++;
    if (oneshot->is_broken || blank == len)
        return;
    if (overflow) {
        (void)cf_error_set(&err, CF_ERROR_HARNESS, 0,
                           "line %llu of stdout is longer than %zu bytes",
                           (unsigned long long)number, oneshot->lines.limit_bytes);
        break_off(oneshot, &err);
    } else {
        read_object(oneshot, line, len, number);
    }
}

/* ---- text ---- */

static void
hand_text(struct cf_oneshot *oneshot, const char *text, size_t len)
{
    if (len == 0)
        return;
    if (oneshot->on.on_text != NULL)
        oneshot->on.on_text(oneshot->user, text, len, oneshot->line);
    for (const char *at = text; (at = memchr(at, '\n', len - (size_t)(at - text))) != NULL;
         at++)
        oneshot->line++;
}

/* One replacement stands for a broken sequence of up to three bytes, wherever the stream is
 * cut: `seen` of them are behind us, continuation bytes that follow are swallowed. */
static void
hand_replacement(struct cf_oneshot *oneshot, size_t seen)
{
    oneshot->repairs++;
    oneshot->swallow = 3 - (unsigned)seen;
    hand_text(oneshot, "\xef\xbf\xbd", 3);
}

/* Hands on what is valid, replaces what is not, and returns how many bytes at the end are the
 * beginning of a character. */
static size_t
read_text(struct cf_oneshot *oneshot, const char *bytes, size_t len)
{
    size_t from = 0, at = 0;
    uint32_t code;

    while (at < len) {
        if (oneshot->swallow > 0) {
            bool is_rest = ((unsigned char)bytes[at] & 0xc0) == 0x80;
            oneshot->swallow = is_rest ? oneshot->swallow - 1 : 0;
            at += is_rest;
            from = at;
            continue;
        }
        int n = cf_utf8_next(bytes + at, len - at, &code);
        if (n > 0) {
            at += (size_t)n;
            continue;
        }
        hand_text(oneshot, bytes + from, at - from);
        if (n == -2)
            return len - at;
        hand_replacement(oneshot, 1);
        from = ++at;
    }
    hand_text(oneshot, bytes + from, at - from);
    return 0;
}

static void
feed_text(struct cf_oneshot *oneshot, const char *bytes, size_t len)
{
    /* The character that the last bytes began is completed a byte at a time: at most three. */
    while (oneshot->cut_len > 0 && len > 0) {
        char one[4];
        size_t n = oneshot->cut_len;
        memcpy(one, oneshot->cut, n);
        one[n] = bytes[0];
        uint32_t code;
        int got = cf_utf8_next(one, n + 1, &code);
        if (got == -1) { /* the new byte does not belong to it */
            oneshot->cut_len = 0;
            hand_replacement(oneshot, n);
            break;
        }
        bytes++;
        len--;
        if (got == -2) {
            oneshot->cut[oneshot->cut_len++] = one[n];
        } else {
            oneshot->cut_len = 0;
            hand_text(oneshot, one, n + 1);
        }
    }
    if (len == 0)
        return;
    oneshot->cut_len = read_text(oneshot, bytes, len);
    memcpy(oneshot->cut, bytes + len - oneshot->cut_len, oneshot->cut_len);
}

static void
end_text(struct cf_oneshot *oneshot)
{
    char told[80];

    if (oneshot->cut_len > 0)
        hand_replacement(oneshot, oneshot->cut_len);
    oneshot->cut_len = 0;
    if (oneshot->repairs > 0 && oneshot->on.on_finding != NULL) {
        snprintf(told, sizeof told, "%llu invalid UTF-8 sequences were replaced by U+FFFD",
                 (unsigned long long)oneshot->repairs);
        oneshot->on.on_finding(oneshot->user, oneshot->line, told);
    }
}

/* ---- the object ---- */

struct cf_oneshot *
cf_oneshot_new(enum cf_oneshot_mode mode, const struct cf_oneshot_events *events, void *user)
{
    struct cf_oneshot *oneshot = calloc(1, sizeof *oneshot);

    if (oneshot == NULL)
        return NULL;
    oneshot->mode = mode;
    oneshot->on = *events;
    oneshot->user = user;
    oneshot->line = 1;
    cf_lines_init(&oneshot->lines, LINE_LIMIT);
    return oneshot;
}

void
cf_oneshot_free(struct cf_oneshot *oneshot)
{
    if (oneshot == NULL)
        return;
    cf_lines_release(&oneshot->lines);
    free(oneshot);
}

int
cf_oneshot_feed(struct cf_oneshot *oneshot, const char *bytes, size_t len)
{
    if (oneshot->is_broken || oneshot->is_ended || len == 0)
        return 0;
    if (oneshot->mode == CF_ONESHOT_TEXT)
        feed_text(oneshot, bytes, len);
    else if (cf_lines_feed(&oneshot->lines, bytes, len, on_line, oneshot) < 0)
        oneshot->has_no_memory = true;
    return oneshot->has_no_memory ? -1 : 0;
}

void
cf_oneshot_end(struct cf_oneshot *oneshot)
{
    if (oneshot->is_broken || oneshot->is_ended)
        return;
    if (oneshot->mode == CF_ONESHOT_TEXT)
        end_text(oneshot);
    else
        (void)cf_lines_end(&oneshot->lines, on_line, oneshot);
    oneshot->is_ended = true;
}
