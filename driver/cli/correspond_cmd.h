/* cli/correspond_cmd.h: what the files behind `cfrunner correspond` share. */
#ifndef CF_CLI_CORRESPOND_CMD_H
#define CF_CLI_CORRESPOND_CMD_H

#include <cfrunner/correspondence.h>

#include "base/buf.h"
#include "base/error.h"
#include "cli/flags.h"

/* One command each; argv[0] is its word. */
int cf_correspond_keygen(int argc, char **argv);
int cf_correspond_sign(int argc, char **argv);
int cf_correspond_claims(int argc, char **argv);
int cf_correspond_conformance(int argc, char **argv);
int cf_correspond_journal(int argc, char **argv);

/* Reads the flags; 1 when --help was asked for and shown, -1 after saying what is wrong.
 * `flags` holds the command's own; `usage` is its line. `rest` may be NULL. */
int cf_correspond_flags(const char *usage, const struct cf_flag *table, size_t count, int argc,
                        char **argv, void *target, struct cf_flag_list *rest);

/* A whole file, "-" or NULL for stdin, of at most `limit` bytes (one more is kept, so that a
 * reader can see that it was too much). -1 with `err` filled. */
int cf_correspond_read(const char *path, size_t limit, struct cf_buf *ret_bytes,
                       struct cf_error *err);
int cf_correspond_keyring(const char *path, struct cf_corr_keyring *keyring,
                          struct cf_error *err);

/* Each prints one document and returns the exit code: `code` or 4 when stdout cannot be
 * written. */
int cf_correspond_print(const char *text, size_t len, bool with_newline, int code);
int cf_correspond_refused(const struct cf_corr_refusal *refusal, long line); /* line 0: none */
int cf_correspond_failed(const struct cf_error *err);
int cf_correspond_usage(const char *usage, const char *message);

/* `text` as a time, or now when NULL. -1 after saying what is wrong. */
int cf_correspond_time(const char *text, int64_t *ret_ms);

/* {"valid":true,...} of an event. */
void cf_correspond_put_valid(struct cf_buf *to, const struct cf_corr_event *event);

/* "text" as JSON. */
void cf_correspond_put_string(struct cf_buf *to, const char *text);

#endif
