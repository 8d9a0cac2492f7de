/*
 * run/gateway.h: what a run lets out of its sandbox, and the book that is kept of it: the
 * model relay, the forward proxy where names were opened, the ledger file.
 */
#ifndef CF_RUN_GATEWAY_H
#define CF_RUN_GATEWAY_H

#include "base/error.h"
#include "relay/egress.h"

#include <cfrunner/observation.h>

#include <jansson.h>

struct cf_run;
struct cf_run_options;
struct cf_gateway;

/* What can be seen to be wrong before anything is opened, keys included: CF_ERROR_CONFIG. */
CF_CHECKED int cf_gateway_check(const struct cf_run_options *options, struct cf_error *err);
/* Opens all of it by the run's options: run->gateway, run->relay, run->egress (NULL: no name
 * is open). CF_ERROR_CONFIG says which option is wrong, or which key is not there. */
CF_CHECKED int cf_gateway_open(struct cf_run *run, struct cf_error *err);
/* The lease ends, connections are cut, rows are written out; run->ledger, run->relay_totals
 * and run->egress_json are set. `done` comes later, from the loop; without a gateway at once.
 */
void cf_gateway_close(struct cf_run *run, void (*done)(struct cf_run *run));
void cf_gateway_turn_begin(struct cf_run *run);
/* What the harness says its turn used, compared with the ledger: a difference is a finding. */
void cf_gateway_claimed_tokens(struct cf_run *run, const json_t *usage, uint64_t frame);
void cf_gateway_claimed_cost(struct cf_run *run, const struct cf_observation *finished);
/* The port of the forward proxy, 0: none. */
unsigned cf_gateway_egress_port(const struct cf_run_options *options);

/* ---- the ledger file (ledger_file.c): lines in their order, written by the loop's workers
 * ---- */

struct cf_ledger_file;
CF_CHECKED int cf_ledger_file_open(uv_loop_t *loop, const char *path,
                                   struct cf_ledger_file **ret_file, struct cf_error *err);
/* `kind` is put before the row's own members. */
void cf_ledger_file_add(struct cf_ledger_file *file, const char *kind, const json_t *row);
/* What waits is written first. *errno of the first failure goes to done (0: none). */
void cf_ledger_file_close(struct cf_ledger_file *file, void (*done)(void *user, int error),
                          void *user);

#endif
