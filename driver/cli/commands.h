/* cli/commands.h: one function a command; argv[0] is the command's last word. Returns the exit code. */
#ifndef CF_CLI_COMMANDS_H
#define CF_CLI_COMMANDS_H

#include <cfrunner/error.h>

#include <stdbool.h>
#include <uv.h>

int cf_cli_test_oci(int argc, char **argv);
int cf_cli_test_matrix(int argc, char **argv);
int cf_cli_run(int argc, char **argv);
int cf_cli_validate(int argc, char **argv);
int cf_cli_replay(int argc, char **argv);
int cf_cli_why(int argc, char **argv);
int cf_cli_init(int argc, char **argv);
int cf_cli_catalog(int argc, char **argv);
int cf_cli_doctor(int argc, char **argv);
int cf_cli_ps(int argc, char **argv);
int cf_cli_reap(int argc, char **argv);
int cf_cli_version(int argc, char **argv);

/* Says what was wrong on stderr, and as one JSON document on stdout when `as_json`. Returns `code`. */
int cf_cli_refuse(const struct cf_error *err, int code, bool as_json);
/* The last word of a command on stdout: `code` when all of it was taken, else 4 and a line on
 * stderr. A result that nobody could read is none. */
int cf_cli_printed(int code);

/* SIGINT, SIGTERM, SIGHUP and SIGQUIT on a loop: the first calls on_stop(user, 1), each further one with its
 * number. Close before the loop ends. */
struct cf_signals {
    uv_signal_t handles[4];
    int count;
    void (*on_stop)(void *user, int count);
    void *user;
};
void cf_signals_open(struct cf_signals *signals, uv_loop_t *loop, void (*on_stop)(void *, int), void *user);
void cf_signals_close(struct cf_signals *signals);

#endif
