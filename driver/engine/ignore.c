/*
 * A pattern becomes a short program of tokens, and a path is matched by walking all states the
 * program can be in at once: no pattern, however many stars it has, makes that slow.
 */
#include "engine/ignore.h"
#include "base/buf.h"
#include "base/str.h"

#include <string.h>

#define MAX_PATTERNS 10000u
#define MAX_PATTERN_BYTES 4096u

enum token_kind {
    LITERAL,    /* this byte */
    ANY,        /* ? one byte but '/' */
    STAR,       /* * any bytes but '/' */
    PARTS,      /* "**" and a slash: nothing, or anything that ends in '/' */
    EVERYTHING, /* ** at the end: anything */
    CLASS       /* [..]: one byte of a set; from, to: the text between the brackets */
};

struct token {
    enum token_kind kind;
    char byte;
    unsigned from, to;
};

struct pattern {
    char *text; /* cleaned, without ! */
    bool brings_back;
    struct token *tokens;
    size_t count;
};

struct cf_ignore {
    struct pattern *patterns;
    size_t count, size;
    bool has_brings_back;
};

/* ---- reading ---------------------------------------------------------------------------- */

/* Removes ".", doubled slashes and what ".." takes back, and slashes at both ends. */
static void
clean_path(char *text)
{
    char *parts[MAX_PATTERN_BYTES / 2 + 1], *save = NULL;
    size_t n = 0, at = 0;

    for (char *part = strtok_r(text, "/", &save); part != NULL;
         part = strtok_r(NULL, "/", &save)) {
        if (strcmp(part, ".") == 0)
            continue;
        if (strcmp(part, "..") == 0 && n > 0 && strcmp(parts[n - 1], "..") != 0)
            n--;
        else
            parts[n++] = part;
    }
    for (size_t i = 0; i < n; i++) {
        size_t len = strlen(parts[i]);
        if (i > 0)
            text[at++] = '/';
        memmove(text + at, parts[i], len); /* parts only ever move towards the front */
        at += len;
    }
    text[at] = '\0';
}

/* The index of the bracket that ends the class opened at `at`, or 0. */
static size_t
class_end(const char *text, size_t at)
{
    size_t i = at + 1;

    if (text[i] == '^')
        i++;
    if (text[i] == ']')
        return 0;
    for (; text[i] != '\0' && text[i] != ']'; i++)
        if (text[i] == '\\' && text[++i] == '\0')
            return 0;
    return text[i] == ']' ? i : 0;
}

static size_t
read_stars(const char *text, size_t at, struct token *token)
{
    if (text[at + 1] != '*') {
        token->kind = STAR;
        return at + 1;
    }
    at += 2;
    if (text[at] == '/')
        at++; /* "**" with its slash is one thing, so that it also stands for nothing */
    token->kind = text[at] == '\0' ? EVERYTHING : PARTS;
    return at;
}

/* Returns where the next token begins, or 0 for a syntax error. */
static size_t
read_token(const char *text, size_t at, struct token *token)
{
    switch (text[at]) {
    case '*':
        return read_stars(text, at, token);
    case '?':
        token->kind = ANY;
        return at + 1;
    case '[':
        token->kind = CLASS;
        token->from = (unsigned)at + 1;
        token->to = (unsigned)class_end(text, at);
        return token->to == 0 ? 0 : token->to + 1;
    case '\\':
        if (text[at + 1] == '\0')
            return 0;
        at++;
        /* fall through */
    default:
        token->kind = LITERAL;
        token->byte = text[at];
        return at + 1;
    }
}

static int
compile(struct pattern *pattern, struct cf_error *err)
{
    size_t len = strlen(pattern->text), at = 0;

    pattern->tokens = calloc(len + 1, sizeof *pattern->tokens);
    if (pattern->tokens == NULL)
        return cf_error_memory(err);
    while (at < len) {
        at = read_token(pattern->text, at, &pattern->tokens[pattern->count++]);
        if (at == 0)
            return cf_error_set(err, CF_ERROR_CONFIG, 0,
                                "\"%s\" is not a pattern (an open [ or a \\ at its end)",
                                pattern->text);
    }
    return 0;
}

static void
pattern_release(struct pattern *pattern)
{
    free(pattern->text);
    free(pattern->tokens);
    *pattern = (struct pattern){0};
}

static int
push_pattern(struct cf_ignore *ignore, const char *text, bool brings_back,
             struct cf_error *err)
{
    struct pattern pattern = {.brings_back = brings_back};

    if (strlen(text) > MAX_PATTERN_BYTES)
        return cf_error_set(err, CF_ERROR_TOO_LARGE, 0, "a pattern is longer than %u bytes",
                            MAX_PATTERN_BYTES);
    if (ignore->count == MAX_PATTERNS)
        return cf_error_set(err, CF_ERROR_TOO_LARGE, 0, "more than %u patterns", MAX_PATTERNS);
    if (ignore->count == ignore->size) {
        size_t size = ignore->size > 0 ? 2 * ignore->size : 16;
        struct pattern *more = realloc(ignore->patterns, size * sizeof *more);
        if (more == NULL)
            return cf_error_memory(err);
        ignore->patterns = more;
        ignore->size = size;
    }
    if (cf_str_copy(&pattern.text, text, err) < 0)
        return -1;
    clean_path(pattern.text);
    if (pattern.text[0] == '\0' &&
        cf_str_copy(&pattern.text, ".", err) < 0) /* "/" names the root, which stays */
        return -1;
    if (compile(&pattern, err) < 0) {
        pattern_release(&pattern);
        return -1;
    }
    ignore->patterns[ignore->count++] = pattern;
    ignore->has_brings_back |= brings_back;
    return 0;
}

static char *
trim(char *text)
{
    size_t len = strlen(text);

    while (len > 0 && strchr(" \t\r\v\f", text[len - 1]) != NULL)
        text[--len] = '\0';
    while (*text != '\0' && strchr(" \t\r\v\f", *text) != NULL)
        text++;
    return text;
}

static int
read_line(struct cf_ignore *ignore, char *line, struct cf_error *err)
{
    bool brings_back = false;

    if (line[0] == '#')
        return 0;
    line = trim(line);
    if (line[0] == '!') {
        brings_back = true;
        line = trim(line + 1);
        if (line[0] == '\0')
            return cf_error_set(err, CF_ERROR_CONFIG, 0, "a ! without a pattern");
    }
    return line[0] == '\0' ? 0 : push_pattern(ignore, line, brings_back, err);
}

static int
read_lines(struct cf_ignore *ignore, const char *bytes, size_t len, struct cf_error *err)
{
    const char *end = bytes + len;
    char line[MAX_PATTERN_BYTES + 1];

    if (len >= 3 && memcmp(bytes, "\xef\xbb\xbf", 3) == 0)
        bytes += 3;
    for (unsigned number = 1; bytes < end; number++) {
        const char *stop = memchr(bytes, '\n', (size_t)(end - bytes));
        size_t n = (size_t)((stop != NULL ? stop : end) - bytes);
        if (n > MAX_PATTERN_BYTES)
            return cf_error_set(err, CF_ERROR_TOO_LARGE, 0, "line %u is longer than %u bytes",
                                number, MAX_PATTERN_BYTES);
        if (memchr(bytes, '\0', n) != NULL)
            return cf_error_set(err, CF_ERROR_CONFIG, 0, "line %u holds a NUL byte", number);
        memcpy(line, bytes, n);
        line[n] = '\0';
        if (read_line(ignore, line, err) < 0)
            return cf_error_wrap(err, "line %u", number);
        bytes = stop != NULL ? stop + 1 : end;
    }
    return 0;
}

int
cf_ignore_parse(const char *bytes, size_t len, struct cf_ignore **ret_ignore,
                struct cf_error *err)
{
    struct cf_ignore *ignore = calloc(1, sizeof *ignore);

    if (ignore == NULL)
        return cf_error_memory(err);
    if (len > 0 && read_lines(ignore, bytes, len, err) < 0) {
        cf_ignore_free(ignore);
        return -1;
    }
    *ret_ignore = ignore;
    return 0;
}

void
cf_ignore_free(struct cf_ignore *ignore)
{
    if (ignore == NULL)
        return;
    for (size_t i = 0; i < ignore->count; i++)
        pattern_release(&ignore->patterns[i]);
    free(ignore->patterns);
    free(ignore);
}

int
cf_ignore_keep(struct cf_ignore *ignore, const char *path, struct cf_error *err)
{
    struct cf_buf quoted = {0};

    for (const char *c = path; *c != '\0'; c++) {
        if (strchr("*?[\\", *c) != NULL)
            (void)cf_buf_adds(&quoted, "\\");
        (void)cf_buf_add(&quoted, c, 1);
    }
    int rc = quoted.failed || quoted.data == NULL
                 ? cf_error_memory(err)
                 : push_pattern(ignore, quoted.data, true, err);
    cf_buf_release(&quoted);
    return rc;
}

/* ---- matching --------------------------------------------------------------------------- */

static bool
class_has(const char *text, const struct token *token, char byte)
{
    unsigned i = token->from;
    bool negated = text[i] == '^', found = false;

    if (negated)
        i++;
    while (i < token->to) {
        unsigned char low, high;
        if (text[i] == '\\')
            i++;
        low = high = (unsigned char)text[i++];
        if (i + 1 < token->to && text[i] == '-') {
            i++;
            if (text[i] == '\\')
                i++;
            high = (unsigned char)text[i++];
        }
        if (low <= (unsigned char)byte && (unsigned char)byte <= high)
            found = true;
    }
    return found != negated;
}

/*
 * State 2i: before token i. State 2i+1: inside token i, which is PARTS and has taken bytes.
 * What takes no byte (STAR, PARTS, EVERYTHING standing for nothing) is followed when a state
 * is added.
 */
static void
add_state(const struct pattern *pattern, bool *states, size_t state)
{
    while (!states[state]) {
        states[state] = true;
        if (state % 2 != 0 || state / 2 >= pattern->count)
            return;
        enum token_kind kind = pattern->tokens[state / 2].kind;
        if (kind != STAR && kind != PARTS && kind != EVERYTHING)
            return;
        state += 2;
    }
}

static void
take_byte(const struct pattern *pattern, size_t state, char byte, bool *next)
{
    size_t i = state / 2;
    const struct token *token = &pattern->tokens[i];

    if (i >= pattern->count)
        return;
    switch (token->kind) {
    case LITERAL:
        if (token->byte == byte)
            add_state(pattern, next, 2 * i + 2);
        return;
    case ANY:
        if (byte != '/')
            add_state(pattern, next, 2 * i + 2);
        return;
    case CLASS:
        if (class_has(pattern->text, token, byte))
            add_state(pattern, next, 2 * i + 2);
        return;
    case STAR:
        if (byte != '/')
            add_state(pattern, next, 2 * i);
        return;
    case EVERYTHING:
        add_state(pattern, next, 2 * i);
        return;
    case PARTS:
        next[2 * i + 1] = true;
        if (byte == '/')
            add_state(pattern, next, 2 * i + 2);
        return;
    }
}

static bool
pattern_matches(const struct pattern *pattern, const char *path, size_t len)
{
    size_t count = 2 * pattern->count + 1;
    bool *now = calloc(2 * count + 2, sizeof *now),
         *next = now != NULL ? now + count + 1 : NULL;
    bool matched = false, *memory = now;

    if (now == NULL)
        return false;
    add_state(pattern, now, 0);
    for (size_t at = 0; at < len; at++) {
        memset(next, 0, count * sizeof *next);
        for (size_t state = 0; state < count; state++)
            if (now[state])
                take_byte(pattern, state, path[at], next);
        bool *old = now;
        now = next;
        next = old;
    }
    matched = now[count - 1];
    free(memory);
    return matched;
}

/* The path itself, or one of the folders it lies in. */
static bool
matches_or_parent(const struct pattern *pattern, const char *path)
{
    for (const char *slash = strchr(path, '/'); slash != NULL; slash = strchr(slash + 1, '/'))
        if (pattern_matches(pattern, path, (size_t)(slash - path)))
            return true;
    return pattern_matches(pattern, path, strlen(path));
}

bool
cf_ignore_matches(const struct cf_ignore *ignore, const char *path)
{
    bool ignored = false;

    for (size_t i = 0; i < ignore->count; i++) {
        const struct pattern *pattern = &ignore->patterns[i];
        if (pattern->brings_back == ignored && matches_or_parent(pattern, path))
            ignored = !pattern->brings_back;
    }
    return ignored;
}

bool
cf_ignore_may_return_beneath(const struct cf_ignore *ignore, const char *dir)
{
    size_t len = strlen(dir);

    if (!ignore->has_brings_back)
        return false;
    for (size_t i = 0; i < ignore->count; i++) {
        const struct pattern *pattern = &ignore->patterns[i];
        if (!pattern->brings_back)
            continue;
        size_t plain = strcspn(pattern->text, "*?[\\"), n = plain < len ? plain : len;
        if (strncmp(pattern->text, dir, n) != 0)
            continue;
        /* a pattern with signs in it may mean anything from there on: look, rather than lose
         * it */
        if (pattern->text[plain] != '\0' ||
            (plain >= len && (pattern->text[len] == '\0' || pattern->text[len] == '/')))
            return true;
    }
    return false;
}
