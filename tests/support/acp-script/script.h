/* acp-script/script.h: the text of a script, line by line, and its variables. */
#ifndef SCRIPT_H
#define SCRIPT_H

#include "base/buf.h"

#include <stddef.h>

struct script_line {
    unsigned number; /* in the file, from 1 */
    char *verb, *rest;
};

struct script {
    const char *name; /* for messages */
    char *text;       /* owned; the lines point into it */
    struct script_line *lines;
    size_t count;
};

/* Reads `path`; exits with 2 and a message when it cannot. */
void script_load(struct script *script, const char *path);
/* The same from a text at hand (copied). */
void script_take(struct script *script, const char *name, const char *text);
void script_release(struct script *script);

struct script_vars {
    struct script_var {
        char *name, *value;
    } *list;
    size_t count;
};

/* `value` is copied. */
void script_set(struct script_vars *vars, const char *name, const char *value);
const char *script_get(const struct script_vars *vars, const char *name); /* "" when unset */
void script_vars_release(struct script_vars *vars);

/* `text` with every ${name} replaced, appended to `to`. */
void script_expand(const struct script_vars *vars, const char *text, struct cf_buf *to);

/* \n \r \t \\ \0 and \xHH as the bytes they name, in place. Returns the length. */
size_t script_unescape(char *text, size_t len);

#endif
