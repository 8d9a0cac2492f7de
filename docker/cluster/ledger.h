/*
 * ledger.h: which item of a job is where. Each is handed out under a lease that its worker renews;
 * each is told exactly once in the end: done, failed, or lost (its lease ran out). A lost one runs
 * again only when that was asked for. Knows no network and no clock: `now_ms` is any clock that does
 * not go back.
 */
#ifndef CF_CLUSTER_LEDGER_H
#define CF_CLUSTER_LEDGER_H

#include "base/buf.h"
#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define LEDGER_ITEMS_MOST 100000u
#define LEDGER_ID_MOST 128u     /* bytes of an item's id: letters, digits and -_.:/ */
#define LEDGER_WORKER_MOST 128u /* bytes of a worker's name that are kept */
#define LEDGER_PROMPT_MOST (1u << 19) /* bytes of an item's prompt: an answer to a worker is 1 MiB at most */
#define LEDGER_TRIES_MOST 5u    /* of one item, with retries */
#define LEDGER_LEASE_SIZE 33    /* 32 hex digits and a NUL */

enum ledger_state { LEDGER_WAITS, LEDGER_LEASED, LEDGER_DONE, LEDGER_FAILED, LEDGER_LOST };

struct ledger_item {
    char id[LEDGER_ID_MOST + 1];
    char *prompt;          /* compact JSON, for cf_run_prompt */
    enum ledger_state state;
    char lease[LEDGER_LEASE_SIZE];
    char worker[LEDGER_WORKER_MOST + 1];
    uint64_t until_ms;
    unsigned tries;
    char *result; /* compact JSON; NULL: none */
};

struct ledger {
    struct ledger_item *items;
    size_t count, cap;
    uint64_t lease_ms;
    bool retries_lost;
};

/* `ledger` is zeroed, with lease_ms and retries_lost set. */
void ledger_release(struct ledger *ledger);
/* One line of the items file: {"id":"...","prompt":{...}}. -1 with `err`: not that, the id was
 * there before, or there are too many. */
int ledger_add(struct ledger *ledger, const char *line, size_t len, struct cf_error *err);
/* The next that waits, now leased to `worker`; NULL: none waits. Borrowed until the next add. */
struct ledger_item *ledger_take(struct ledger *ledger, const char *worker, uint64_t now_ms);
/* -1: no such lease runs (any more). */
int ledger_renew(struct ledger *ledger, const char *lease, uint64_t now_ms);
/* Keeps the result (copied), once. 0 as well when this lease has brought its result before: an
 * answer may have been lost on its way. -1: no such lease runs, and nothing is kept. */
int ledger_settle(struct ledger *ledger, const char *lease, bool is_done, const char *result,
                  uint64_t now_ms);
/* Lets leases run out. */
void ledger_tick(struct ledger *ledger, uint64_t now_ms);
/* Nothing waits and nothing is leased. */
bool ledger_is_over(const struct ledger *ledger);
size_t ledger_count(const struct ledger *ledger, enum ledger_state state);
/* A line of JSON an item, in the file's order, and one of sums. */
int ledger_tell(const struct ledger *ledger, struct cf_buf *out);

#endif
