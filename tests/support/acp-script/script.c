/* The text of a script, line by line, and its variables. */
#include "script.h"

#include "file.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void *
need(void *memory)
{
    if (memory == NULL)
        abort();
    return memory;
}

static void
add_line(struct script *script, unsigned number, char *line)
{
    struct script_line *slot;

    line += strspn(line, " \t");
    if (line[0] == '\0' || line[0] == '#')
        return;
    script->lines = need(realloc(script->lines, (script->count + 1) * sizeof *script->lines));
    slot = &script->lines[script->count++];
    slot->number = number;
    slot->verb = line;
    slot->rest = line + strcspn(line, " \t");
    if (slot->rest[0] != '\0')
        *slot->rest++ = '\0';
}

void
script_take(struct script *script, const char *name, const char *text)
{
    char *rest, *line;
    unsigned number = 0;

    memset(script, 0, sizeof *script);
    script->name = name;
    script->text = rest = need(strdup(text));
    while ((line = strsep(&rest, "\n")) != NULL)
        add_line(script, ++number, line);
}

void
script_load(struct script *script, const char *path)
{
    struct cf_buf text = { 0 };
    struct cf_error err;

    if (hn_file_read(path, &text, &err) < 0) {
        fprintf(stderr, "acp-script: %s\n", err.text);
        exit(2);
    }
    script_take(script, path, text.data);
    cf_buf_release(&text);
}

void
script_release(struct script *script)
{
    free(script->text);
    free(script->lines);
}

static struct script_var *
find(const struct script_vars *vars, const char *name, size_t len)
{
    for (size_t i = 0; i < vars->count; i++)
        if (strncmp(vars->list[i].name, name, len) == 0 && vars->list[i].name[len] == '\0')
            return &vars->list[i];
    return NULL;
}

void
script_set(struct script_vars *vars, const char *name, const char *value)
{
    struct script_var *var = find(vars, name, strlen(name));
    char *copy = need(strdup(value));

    if (var == NULL) {
        vars->list = need(realloc(vars->list, (vars->count + 1) * sizeof *vars->list));
        var = &vars->list[vars->count++];
        var->name = need(strdup(name));
        var->value = NULL;
    }
    free(var->value);
    var->value = copy;
}

const char *
script_get(const struct script_vars *vars, const char *name)
{
    struct script_var *var = find(vars, name, strlen(name));

    return var != NULL ? var->value : "";
}

void
script_vars_release(struct script_vars *vars)
{
    for (size_t i = 0; i < vars->count; i++) {
        free(vars->list[i].name);
        free(vars->list[i].value);
    }
    free(vars->list);
}

void
script_expand(const struct script_vars *vars, const char *text, struct cf_buf *to)
{
    const char *open, *close;

    while ((open = strstr(text, "${")) != NULL && (close = strchr(open, '}')) != NULL) {
        struct script_var *var = find(vars, open + 2, (size_t)(close - open - 2));

        cf_buf_add(to, text, (size_t)(open - text));
        cf_buf_adds(to, var != NULL ? var->value : "");
        text = close + 1;
    }
    cf_buf_adds(to, text);
}

static int
hex_digit(char c)
{
    const char *digits = "0123456789abcdef", *at = strchr(digits, c | 32);

    return c != '\0' && at != NULL ? (int)(at - digits) : -1;
}

size_t
script_unescape(char *text, size_t len)
{
    static const char names[] = "nrt\\0", bytes[] = "\n\r\t\\\0";
    size_t to = 0;

    for (size_t from = 0; from < len; from++) {
        const char *at = from + 1 < len ? strchr(names, text[from + 1]) : NULL;

        if (text[from] != '\\' || from + 1 >= len) {
            text[to++] = text[from];
        } else if (at != NULL && *at != '\0') {
            text[to++] = bytes[at - names];
            from++;
        } else if (text[from + 1] == 'x' && from + 3 < len && hex_digit(text[from + 2]) >= 0 &&
                   hex_digit(text[from + 3]) >= 0) {
            text[to++] = (char)(hex_digit(text[from + 2]) * 16 + hex_digit(text[from + 3]));
            from += 3;
        } else {
            text[to++] = text[from];
        }
    }
    return to;
}
