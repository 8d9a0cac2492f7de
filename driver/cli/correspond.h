/* cli/correspond.h: `cfrunner correspond ...`: agent-correspondence/v0.1 from the command
 * line. */
#ifndef CF_CLI_CORRESPOND_H
#define CF_CLI_CORRESPOND_H

/*
 * argv[0] is the word "correspond", argv[1] what to do. Prints exactly one JSON document on
 * stdout
 * (`canonicalize`: the canonical bytes; `journal append --ndjson`: one a line) and words for
 * eyes on stderr. Returns the exit code: 0 valid; 2 invalid, or wrong flags or files; 4 when a
 * file could not be written or a journal did not become free.
 */
int cf_cli_correspond(int argc, char **argv);

#endif
