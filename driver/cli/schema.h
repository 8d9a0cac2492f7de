/* cli/schema.h: `cfrunner schema admit SCHEMA` and `cfrunner schema check --schema SCHEMA INSTANCE`. */
#ifndef CF_CLI_SCHEMA_H
#define CF_CLI_SCHEMA_H

/*
 * argv[0] is the word "schema", argv[1] what to do. Prints exactly one JSON document on stdout
 * and words for eyes on stderr. Returns the exit code: 0 admitted or valid; 2 refused, invalid,
 * unreadable, or not understood; 4 when stdout could not be written. "-" reads stdin.
 */
int cf_cli_schema(int argc, char **argv);

#endif
