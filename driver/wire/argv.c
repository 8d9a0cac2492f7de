/*
 * wire/argv.c: the argv of one one-shot turn.
 *
 * A placeholder is a whole argument; everything else, whatever braces it holds, is passed as
 * it is. There is never a shell. The bounds hold for what the process will get, not only for
 * what the author wrote.
 */
#include "wire/wire.h"

#include "base/str.h"

#include <stdlib.h>
#include <string.h>

#define ARGS_MAX 256u
#define ARG_BYTES_MAX 65536u
#define ARGV_BYTES_MAX 131072u /* one terminator each */

struct argv {
    char **items;
    size_t count, bytes;
};

static int
add(struct argv *argv, const char *text, struct cf_error *err)
{
    size_t len = strlen(text);

    if (argv->count == ARGS_MAX)
        return cf_error_set(err, CF_ERROR_TOO_LARGE, 0,
                            "the expanded argv has more than %u arguments", ARGS_MAX);
    if (len > ARG_BYTES_MAX)
        return cf_error_set(
            err, CF_ERROR_TOO_LARGE, 0,
            "argument %zu of the expanded argv has %zu bytes, at most %u are allowed",
            argv->count + 1, len, ARG_BYTES_MAX);
    if (argv->bytes + len + 1 > ARGV_BYTES_MAX)
        return cf_error_set(err, CF_ERROR_TOO_LARGE, 0,
                            "the expanded argv needs more than %u bytes at argument %zu",
                            ARGV_BYTES_MAX, argv->count + 1);
    argv->items[argv->count] = strdup(text);
    if (argv->items[argv->count] == NULL)
        return cf_error_memory(err);
    argv->count++;
    argv->bytes += len + 1;
    return 0;
}

static int
add_schema(struct argv *argv, const struct cf_oneshot_turn *turn, struct cf_error *err)
{
    if (turn->output_schema_flag == NULL)
        return 0;
    if (add(argv, turn->output_schema_flag, err) < 0)
        return -1;
    if (add(argv, turn->output_schema_value, err) < 0)
        return cf_error_fix(err,
                            "pass the schema as a file: output_schema_transport argv_path");
    return 0;
}

static int
expand(struct argv *argv, const struct cf_oneshot_turn *turn, struct cf_error *err)
{
    bool has_placed_schema = false;
    int status = 0;

    for (const char *const *arg = turn->argv; *arg != NULL && status == 0; arg++) {
        if (strcmp(*arg, "{prompt_path}") == 0) {
            if (turn->prompt_path == NULL)
                return cf_error_set(err, CF_ERROR_CONFIG, 0,
                                    "argv holds {prompt_path}, but the prompt goes to stdin");
            status = add(argv, turn->prompt_path, err);
        } else if (strcmp(*arg, "{resume_flag}") == 0) {
            if (turn->resume_flag == NULL)
                return cf_error_set(
                    err, CF_ERROR_CONFIG, 0,
                    "argv holds {resume_flag}, but the release states no resume_flag");
            if (turn->continues)
                status = add(argv, turn->resume_flag, err);
        } else if (strcmp(*arg, "{output_schema}") == 0) {
            has_placed_schema = true;
            status = add_schema(argv, turn, err);
        } else {
            status = add(argv, *arg, err);
        }
    }
    if (status == 0 && !has_placed_schema)
        status = add_schema(argv, turn, err);
    return status;
}

char **
cf_oneshot_argv(const struct cf_oneshot_turn *turn, struct cf_error *err)
{
    struct argv argv = {.items = calloc(ARGS_MAX + 1, sizeof(char *))};

    if (argv.items == NULL) {
        (void)cf_error_memory(err);
        return NULL;
    }
    if (expand(&argv, turn, err) < 0) {
        cf_argv_free(argv.items);
        return NULL;
    }
    return argv.items;
}

void
cf_argv_free(char **argv)
{
    if (argv == NULL)
        return;
    for (char **item = argv; *item != NULL; item++)
        free(*item);
    free(argv);
}
