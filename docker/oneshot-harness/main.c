/*
 * checkfu-oneshot: the reference one-shot wrapper. One prompt in, one model call, one answer
 * out, state kept for the next turn, exit.
 *
 *   checkfu-oneshot                                   prompt on stdin, plain text on stdout
 *   checkfu-oneshot --output-mode stream_json --prompt-path FILE [--resume] [--output-schema S]
 *
 * It shows what the contract asks of a wrapper and nothing else. It never invents an answer:
 * what it prints is what the model said, and when the model cannot be reached it says so on
 * stderr and exits with 1. (2: the command line.)
 */
#include "oneshot.h"

#include <stdio.h>
#include <string.h>

static const char usage[] =
    "usage: checkfu-oneshot [--prompt-path FILE] [--output-mode text|stream_json] [--resume]\n"
    "                       [--output-schema FILE|JSON] [--stream]\n"
    "                       [--dialect openai_chat|anthropic_messages|openai_responses]\n";

static int
take_option(struct hn_oneshot *turn, const char *name, const char *value, struct cf_error *err)
{
    int dialect;

    if (value == NULL)
        return cf_error_set(err, CF_ERROR_CONFIG, 0, "%s needs a value", name);
    if (strcmp(name, "--prompt-path") == 0) {
        turn->prompt_path = value;
    } else if (strcmp(name, "--output-schema") == 0) {
        turn->schema = value;
    } else if (strcmp(name, "--output-mode") == 0) {
        turn->stream_json = strcmp(value, "stream_json") == 0;
        if (!turn->stream_json && strcmp(value, "text") != 0)
            return cf_error_set(err, CF_ERROR_CONFIG, 0, "unknown output mode \"%s\"", value);
    } else if (strcmp(name, "--dialect") == 0) {
        dialect = hn_dialect_named(value);
        if (dialect < 0)
            return cf_error_set(err, CF_ERROR_CONFIG, 0, "unknown dialect \"%s\"", value);
        turn->dialect = (enum hn_dialect)dialect;
    } else {
        return cf_error_set(err, CF_ERROR_CONFIG, 0, "unknown argument \"%s\"", name);
    }
    return 0;
}

static int
take_arguments(struct hn_oneshot *turn, int argc, char **argv, struct cf_error *err)
{
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--resume") == 0)
            turn->resume = true;
        else if (strcmp(argv[i], "--stream") == 0)
            turn->stream = true;
        else if (take_option(turn, argv[i], argv[i + 1], err) < 0)
            return -1;
        else
            i++;
    }
    return 0;
}

int
main(int argc, char **argv)
{
    struct hn_oneshot turn = { .dialect = HN_OPENAI_CHAT };
    struct cf_error err;

    if (take_arguments(&turn, argc, argv, &err) < 0) {
        fprintf(stderr, "checkfu-oneshot: %s\n%s", err.text, usage);
        return 2;
    }
    if (hn_oneshot_run(&turn, &err) < 0) {
        fprintf(stderr, "checkfu-oneshot: %s\n", err.text);
        return 1;
    }
    return 0;
}
