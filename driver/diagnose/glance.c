/*
 * A frame at a glance. It is found by looking for member names, not by parsing: what is left of a long
 * frame is no JSON, and a glance is for eyes only. Nothing is judged by it.
 */
#include "diagnose/trail.h"

#include "base/utf8.h"

#include <stdio.h>
#include <string.h>

/* Where the value of the first member `name` begins; NULL: there is none. */
static const char *
value_of(const char *line, size_t len, const char *name)
{
    char key[48];
    int n = snprintf(key, sizeof key, "\"%s\":", name);
    const char *at = memmem(line, len, key, (size_t)n), *end = line + len;

    if (at == NULL)
        return NULL;
    for (at += n; at < end && *at == ' '; at++) {}
    return at < end ? at : NULL;
}

/* A string value's bytes up to its quote; 0: it is no string. */
static size_t
string_at(const char *at, const char *end)
{
    const char *quote;

    if (at == NULL || *at != '"')
        return 0;
    quote = memchr(at + 1, '"', (size_t)(end - at - 1));
    return quote != NULL ? (size_t)(quote - at - 1) : 0;
}

/* One printable line with an ellipsis where something was left out. */
static void
put_line(const char *from, size_t len, bool is_cut, char *to, size_t size)
{
    size_t most = size - 4, n = len;

    if (n > most) {
        n = cf_utf8_cut(from, len, most);
        is_cut = true;
    }
    memcpy(to, from, n);
    for (size_t i = 0; i < n; i++)
        if (to[i] == '\0')
            to[i] = ' ';
    to[n] = '\0';
    cf_utf8_make_line(to);
    if (is_cut)
        (void)strcat(to, "\xe2\x80\xa6");
}

/* What of an update's inside `what` says already: its first member, when that is its kind. */
static size_t
kind_length(const char *update, size_t len)
{
    static const char key[] = "{\"sessionUpdate\":";
    size_t k;

    if (len < sizeof key || memcmp(update, key, sizeof key - 1) != 0)
        return 0;
    k = string_at(update + sizeof key - 1, update + len);
    k += sizeof key - 1 + 2;
    return k < len && update[k] == ',' ? k + 1 : 0;
}

/* "session/update tool_call", or what kind of answer it is; the part that is its own begins at the return. */
static const char *
name_frame(const char *line, size_t len, char *what, size_t size)
{
    const char *end = line + len, *method = value_of(line, len, "method"), *result = value_of(line, len, "result"),
               *error = value_of(line, len, "error"), *params = value_of(line, len, "params"),
               *kind = value_of(line, len, "sessionUpdate"), *update = value_of(line, len, "update");
    size_t n = string_at(method, end), k = string_at(kind, end);

    /* An answer's result may hold a member called method, and the other way round: the outer one is first. */
    if (n > 0 && (result == NULL || method < result) && (error == NULL || method < error)) {
        bool is_update = n == 14 && memcmp(method + 1, "session/update", n) == 0 && update != NULL;
        char words[96];
        if (is_update && k > 0)
            (void)snprintf(words, sizeof words, "session/update %.*s", (int)(k < 40 ? k : 40), kind + 1);
        else
            (void)snprintf(words, sizeof words, "%.*s", (int)(n < 60 ? n : 60), method + 1);
        put_line(words, strlen(words), false, what, size);
        return is_update ? update : params != NULL ? params : line;
    }
    if (value_of(line, len, "jsonrpc") == NULL || (result == NULL && error == NULL)) {
        what[0] = '\0';
        return line;
    }
    (void)snprintf(what, size, "%s", error != NULL && (result == NULL || error < result) ? "error answer" : "answer");
    return error != NULL && (result == NULL || error < result) ? error : result;
}

/* Of an object or array that begins at `at`, up to its closing brace; of anything else, all. */
static size_t
value_length(const char *at, size_t len)
{
    unsigned depth = 0;
    bool in_string = false;

    for (size_t i = 0; i < len; i++) {
        if (in_string && at[i] == '\\')
            i++;
        else if (at[i] == '"')
            in_string = !in_string;
        else if (!in_string && (at[i] == '{' || at[i] == '['))
            depth++;
        else if (!in_string && (at[i] == '}' || at[i] == ']') && --depth == 0)
            return i + 1;
        if (depth == 0)
            break;
    }
    return len;
}

void
cf_glance(const char *line, size_t len, size_t total, char *what, size_t what_size, char *text, size_t text_size)
{
    const char *own;
    size_t left, skip;

    if (len == 0) {
        what[0] = text[0] = '\0';
        return;
    }
    own = name_frame(line, len, what, what_size);
    left = value_length(own, len - (size_t)(own - line));
    skip = kind_length(own, left);
    if (skip > 0) { /* then its members alone are shown, without the braces around them */
        own += skip;
        left -= skip;
        left -= left > 0 && own + left < line + len && own[left - 1] == '}';
    }
    put_line(own, left, total > len && own + left == line + len, text, text_size);
}
