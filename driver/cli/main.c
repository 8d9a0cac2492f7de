/* cfrunner: argv -> one command -> exit code. Nothing but this room prints, reads argv or exits. */
#include "cli/commands.h"
#include "cli/correspond.h"
#include "cli/eyes.h"
#include "cli/flags.h"
#include "cli/schema.h"

#include <cfrunner/run.h>

#include "base/str.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

static const struct {
    const char *name;
    int (*run)(int argc, char **argv);
    const char *help;
} commands[] = {
    {"run", cf_cli_run, "one real run, observations as NDJSON on stdout"},
    {"replay", cf_cli_replay, "a recorded run again, without an engine: the same observations"},
    {"why", cf_cli_why, "the story of one check or frame, from a recording"},
    {"validate", cf_cli_validate, "a release, an observation or a vector file"},
    {"schema", cf_cli_schema, "admit a JSON Schema, or check an instance against one"},
    {"correspond", cf_cli_correspond, "agent-correspondence/v0.1: events, claims, journal"},
    {"init", cf_cli_init, "a small working wrapper to begin with: oneshot or acp"},
    {"catalog", cf_cli_catalog, "the support matrix, ceilings and reachability"},
    {"doctor", cf_cli_doctor, "is this machine fit, and what to do if not"},
    {"ps", cf_cli_ps, "what this installation holds in the engine"},
    {"reap", cf_cli_reap, "remove what dead runs left"},
    {"version", cf_cli_version, "program, protocol and driver versions"},
};

static void
usage(FILE *to)
{
    fputs("usage: cfrunner COMMAND [flags]   (cfrunner COMMAND --help)\n\n"
          "  test oci     does this harness image work? one report, one verdict\n"
          "  test matrix  many of them: images x protocols x options, one table\n",
          to);
    for (size_t i = 0; i < CF_COUNT(commands); i++)
        fprintf(to, "  %-12s %s\n", commands[i].name, commands[i].help);
}

static int
unknown_command(const char *word, int argc, char **argv)
{
    bool as_json = false;
    const char *nearest = cf_flags_distance(word, "test") < 3 ? "test oci" : NULL;
    struct cf_error err;

    for (int i = 1; i < argc; i++)
        as_json = as_json || strcmp(argv[i], "--json") == 0;
    for (size_t i = 0; i < CF_COUNT(commands) && nearest == NULL; i++)
        if (cf_flags_distance(word, commands[i].name) < 3)
            nearest = commands[i].name;
    (void)cf_error_set(&err, CF_ERROR_CONFIG, 0, "unknown command %.60s", word);
    (void)cf_error_fix(&err, "%s%s%scfrunner --help lists the commands", nearest != NULL ? "did you mean " : "",
                       nearest != NULL ? nearest : "", nearest != NULL ? "? " : "");
    return cf_cli_refuse(&err, 2, as_json);
}

/* A descriptor below 3 that is closed would be the next socket's or lock file's number: libuv ends the
 * program over that, and what is said to eyes would go there. stdout becomes one that takes nothing: what
 * cannot be said there is an error, as it is on a full disk. */
static void
occupy_standard_streams(void)
{
    for (int fd = 0; fd < 3; fd++)
        if (fcntl(fd, F_GETFD) < 0 && errno == EBADF)
            (void)open("/dev/null", fd == 2 ? O_WRONLY : O_RDONLY); /* the lowest that is free: this one */
}

int
main(int argc, char **argv)
{
    struct cf_error err;

    occupy_standard_streams();
    (void)signal(SIGPIPE, SIG_IGN);
    if (argc < 2) {
        usage(stderr);
        return 2;
    }
    if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0 || strcmp(argv[1], "help") == 0) {
        usage(stdout);
        return 0;
    }
    if (strcmp(argv[1], "--version") == 0)
        return cf_cli_version(argc - 1, argv + 1);
    if (cf_library_init(&err) < 0)
        return cf_cli_refuse(&err, 4, false);
    if (strcmp(argv[1], "test") == 0) {
        if (argc >= 3 && strcmp(argv[2], "oci") == 0)
            return cf_cli_test_oci(argc - 2, argv + 2);
        if (argc >= 3 && strcmp(argv[2], "matrix") == 0)
            return cf_cli_test_matrix(argc - 2, argv + 2);
        return unknown_command(argc >= 3 ? argv[2] : "test", argc, argv);
    }
    for (size_t i = 0; i < CF_COUNT(commands); i++)
        if (strcmp(argv[1], commands[i].name) == 0)
            return commands[i].run(argc - 1, argv + 1);
    return unknown_command(argv[1], argc, argv);
}
