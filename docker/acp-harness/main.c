/*
 * acp-agent: the reference ACP v1 harness. `acp-agent --stdio` speaks the protocol on stdin and
 * stdout and asks its model over HTTP at the base URL in its environment.
 *
 * Without flags it is a plain ACP agent. --declare=LIST adds Checkfu extensions, each declared
 * and then really served.
 */
#include "agent.h"

#include "base/str.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char usage[] =
    "usage: acp-agent --stdio [--stream] [--dialect=openai_chat|anthropic_messages|openai_responses]\n"
    "                 [--declare=all|subagents,steer,interrupt,builtin_tool_scoping,staged_files,\n"
    "                  native_checkpoint,structured_output:response_format|submit_tool]\n"
    "                 [--ask-permission] [--ask-question] [--use-fs] [--use-terminal]\n"
    "                 [--require-auth] [--accept-media] [--price=DOLLARS_PER_MILLION_TOKENS]\n"
    "       acp-agent --say TEXT\n";

static bool *
switch_named(struct hn_agent_options *options, const char *name)
{
    const struct {
        const char *name;
        bool *on;
    } switches[] = {
        { "--stream", &options->stream },
        { "--ask-permission", &options->ask_permission },
        { "--ask-question", &options->ask_question },
        { "--use-fs", &options->use_fs },
        { "--use-terminal", &options->use_terminal },
        { "--require-auth", &options->require_auth },
        { "--accept-media", &options->accept_media },
    };

    for (size_t i = 0; i < CF_COUNT(switches); i++)
        if (strcmp(switches[i].name, name) == 0)
            return switches[i].on;
    return NULL;
}

static int
take_argument(struct hn_agent_options *options, const char *arg, struct cf_error *err)
{
    bool *on = switch_named(options, arg);
    int dialect;

    if (on != NULL) {
        *on = true;
        return 0;
    }
    if (strcmp(arg, "--stdio") == 0)
        return 0;
    if (cf_str_starts(arg, "--declare="))
        return hn_declare(&options->declared, strchr(arg, '=') + 1, err);
    if (cf_str_starts(arg, "--price=")) {
        options->price = atof(strchr(arg, '=') + 1);
        return 0;
    }
    if (cf_str_starts(arg, "--dialect=")) {
        dialect = hn_dialect_named(strchr(arg, '=') + 1);
        if (dialect < 0)
            return cf_error_set(err, CF_ERROR_CONFIG, 0, "unknown dialect in \"%s\"", arg);
        options->dialect = (enum hn_dialect)dialect;
        return 0;
    }
    return cf_error_set(err, CF_ERROR_CONFIG, 0, "unknown argument \"%s\"", arg);
}

int
main(int argc, char **argv)
{
    struct hn_agent_options options = { .dialect = HN_OPENAI_CHAT, .program = argv[0] };
    struct cf_error err;

    if (argc == 3 && strcmp(argv[1], "--say") == 0) /* the command of --use-terminal */
        return puts(argv[2]) < 0;
    for (int i = 1; i < argc; i++)
        if (take_argument(&options, argv[i], &err) < 0) {
            fprintf(stderr, "acp-agent: %s\n%s", err.text, usage);
            return 2;
        }
    signal(SIGPIPE, SIG_IGN);
    return hn_agent_run(&options);
}
