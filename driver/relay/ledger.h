/* relay/ledger.h: what came through the door, row by row, bounded, and its sums. */
#ifndef CF_RELAY_LEDGER_H
#define CF_RELAY_LEDGER_H

#include "relay/relay.h"

struct cf_ledger {
    json_t *rows; /* at most CF_LEDGER_ROWS; later rows are only counted */
    uint64_t served, refused, probes, aborted, faults, dropped;
    uint64_t input_tokens, output_tokens, cache_read_tokens, cache_write_tokens;
    uint64_t request_bytes, response_bytes;
    double cost;
};
#define CF_LEDGER_ROWS 1000u

int cf_ledger_init(struct cf_ledger *ledger); /* -1: out of memory */
void cf_ledger_release(struct cf_ledger *ledger);
/* Copies the row. `dialect` is its name, or NULL. */
void cf_ledger_add(struct cf_ledger *ledger, const struct cf_relay_call *row,
                   const char *dialect);
json_t *cf_ledger_row(const struct cf_relay_call *row, const char *dialect);
json_t *cf_ledger_totals(const struct cf_ledger *ledger);

#endif
