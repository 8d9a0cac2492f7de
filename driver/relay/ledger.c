/* Rows as JSON from the start: that is how everybody wants them. */
#include "relay/ledger.h"

#include <string.h>

int
cf_ledger_init(struct cf_ledger *ledger)
{
    memset(ledger, 0, sizeof *ledger);
    ledger->rows = json_array();
    return ledger->rows == NULL ? -1 : 0;
}

void
cf_ledger_release(struct cf_ledger *ledger)
{
    json_decref(ledger->rows);
    ledger->rows = NULL;
}

json_t *
cf_ledger_row(const struct cf_relay_call *row, const char *dialect)
{
    return json_pack(
        "{s:I, s:I, s:i, s:s?, s:s?, s:b, s:s, s:s, s:s, s:s, s:i, s:b, s:b, s:b, s:b, s:b, "
        "s:I, "
        "s:I, s:I, s:I, s:I, s:I, s:s, s:f, s:I, s:I, s:s?, s:s, s:s?, s:s?}",
        "id", (json_int_t)row->id, "at_ms", (json_int_t)row->at_ms, "turn", (int)row->turn,
        "dialect", dialect, "provider", row->provider, "probe", row->is_probe, "method",
        row->method, "path", row->path, "model_asked", row->model_asked, "model_served",
        row->model_served, "status", row->status, "streamed", row->is_streamed, "nonce_seen",
        row->nonce_seen, "answered_nonce", row->answered_nonce, "prior_nonce_seen",
        row->prior_nonce_seen, "aborted", row->is_aborted, "request_bytes",
        (json_int_t)row->request_bytes, "response_bytes", (json_int_t)row->response_bytes,
        "input_tokens", (json_int_t)row->input_tokens, "output_tokens",
        (json_int_t)row->output_tokens, "cache_read_tokens",
        (json_int_t)row->cache_read_tokens, "cache_write_tokens",
        (json_int_t)row->cache_write_tokens, "usage", row->usage != NULL ? row->usage : "none",
        "cost", row->cost, "first_byte_ms", (json_int_t)row->first_byte_ms, "total_ms",
        (json_int_t)row->total_ms, "refused", row->refused, "hint", row->hint, "rule",
        row->rule, "fault", row->fault);
}

static void
sum(struct cf_ledger *ledger, const struct cf_relay_call *row)
{
    ledger->refused += row->refused != NULL;
    ledger->aborted += row->is_aborted;
    ledger->probes += row->refused == NULL && row->is_probe;
    ledger->faults += row->fault != NULL;
    ledger->served += row->refused == NULL && !row->is_probe && !row->is_aborted;
    ledger->input_tokens += row->input_tokens;
    ledger->output_tokens += row->output_tokens;
    ledger->cache_read_tokens += row->cache_read_tokens;
    ledger->cache_write_tokens += row->cache_write_tokens;
    ledger->cost += row->cost;
    ledger->request_bytes += row->request_bytes;
    ledger->response_bytes += row->response_bytes;
}

void
cf_ledger_add(struct cf_ledger *ledger, const struct cf_relay_call *row, const char *dialect)
{
    sum(ledger, row);
    if (json_array_size(ledger->rows) >= CF_LEDGER_ROWS ||
        json_array_append_new(ledger->rows, cf_ledger_row(row, dialect)) < 0)
        ledger->dropped++;
}

json_t *
cf_ledger_totals(const struct cf_ledger *ledger)
{
    return json_pack(
        "{s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:f, s:I}", "served",
        (json_int_t)ledger->served, "refused", (json_int_t)ledger->refused, "probes",
        (json_int_t)ledger->probes, "aborted", (json_int_t)ledger->aborted, "faults",
        (json_int_t)ledger->faults, "input_tokens", (json_int_t)ledger->input_tokens,
        "output_tokens", (json_int_t)ledger->output_tokens, "cache_read_tokens",
        (json_int_t)ledger->cache_read_tokens, "cache_write_tokens",
        (json_int_t)ledger->cache_write_tokens, "request_bytes",
        (json_int_t)ledger->request_bytes, "response_bytes",
        (json_int_t)ledger->response_bytes, "cost", ledger->cost, "rows_dropped",
        (json_int_t)ledger->dropped);
}
