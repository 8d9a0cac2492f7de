/* Caps, one after the other; the first that is spent gives the reason. */
#include "relay/govern.h"

#include "base/str.h"
#include "json/json.h"
#include "relay/script.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { DEFAULT_CALLS_PER_TURN = 64 };

/* ---- setting up ---------------------------------------------------------------------- */

static int
bad_price(const char *model, const char *what, struct cf_error *err)
{
    (void)cf_error_set(err, CF_ERROR_CONFIG, 0, "price table: %.100s%s%s", model,
                       *model != '\0' ? ": " : "", what);
    return cf_error_fix(err, "proto/price-table.schema.json has its form");
}

static int
read_price(struct cf_price *price, const char *model, json_t *from, struct cf_error *err)
{
    static const char *const names[] = {"input", "output", "cache_read", "cache_write",
                                        "call"};
    double *const places[] = {&price->input, &price->output, &price->cache_read,
                              &price->cache_write, &price->call};
    const char *name;
    json_t *value;

    price->model = model;
    price->cache_read = price->cache_write = -1;
    if (!json_is_object(from))
        return bad_price(model, "not an object", err);
    json_object_foreach(from, name, value) {
        size_t i = 0;

        while (i < CF_COUNT(names) && strcmp(names[i], name) != 0)
            i++;
        if (i == CF_COUNT(names))
            return bad_price(model, "an unknown member", err);
        if (!json_is_number(value) || json_number_value(value) < 0)
            return bad_price(model, "a price is not a number from 0", err);
        *places[i] = json_number_value(value);
    }
    if (price->cache_read < 0)
        price->cache_read = price->input;
    if (price->cache_write < 0)
        price->cache_write = price->input;
    return 0;
}

static int
read_prices(struct cf_govern *govern, struct cf_error *err)
{
    json_t *models = cf_json_obj(govern->table, "models"), *value;
    json_t *currency = json_object_get(govern->table, "currency");
    size_t count = json_object_size(models);
    const char *name;

    if (models == NULL || count > CF_GOVERN_PRICES ||
        json_object_size(govern->table) != 1 + (currency != NULL) ||
        (currency != NULL && !json_is_string(currency)))
        return bad_price("", "not {\"currency\", \"models\": {}}", err);
    govern->prices = calloc(count + 1, sizeof *govern->prices);
    if (govern->prices == NULL)
        return cf_error_memory(err);
    json_object_foreach(models, name, value)
        if (read_price(&govern->prices[govern->price_count++], name, value, err) < 0)
            return -1;
    return 0;
}

static int
check_models(const json_t *models, struct cf_error *err)
{
    const json_t *name;
    size_t i;

    if (models != NULL && !json_is_array(models))
        return cf_error_set(err, CF_ERROR_CONFIG, 0, "allowed models: not an array");
    json_array_foreach((json_t *)models, i, name)
        if (!json_is_string(name))
            return cf_error_set(err, CF_ERROR_CONFIG, 0,
                                "allowed models: not a list of names");
    return 0;
}

int
cf_govern_init(struct cf_govern *govern, const struct cf_relay_options *options,
               struct cf_error *err)
{
    memset(govern, 0, sizeof *govern);
    govern->caps = options->caps;
    govern->models = json_incref(options->models);
    govern->table = json_incref(options->prices);
    if (govern->caps.calls_per_turn == 0)
        govern->caps.calls_per_turn = DEFAULT_CALLS_PER_TURN;
    if (check_models(govern->models, err) < 0 ||
        (govern->table != NULL && read_prices(govern, err) < 0)) {
        cf_govern_release(govern);
        return -1;
    }
    if (govern->caps.cost > 0 && govern->table == NULL) {
        cf_govern_release(govern);
        (void)cf_error_set(err, CF_ERROR_CONFIG, 0, "a cap on cost, but no price table");
        return cf_error_fix(err, "add --price-file FILE");
    }
    return 0;
}

void
cf_govern_release(struct cf_govern *govern)
{
    json_decref(govern->models);
    json_decref(govern->table);
    free(govern->prices);
    memset(govern, 0, sizeof *govern);
}

/* ---- caps ---------------------------------------------------------------------------- */

static bool
is_spent(uint64_t used, uint64_t cap, const char *what, char hint[CF_GOVERN_HINT])
{
    if (cap == 0 || used < cap)
        return false;
    (void)snprintf(hint, CF_GOVERN_HINT, "this run's budget of %" PRIu64 " %s is spent", cap,
                   what);
    return true;
}

int
cf_govern_begin(struct cf_govern *g, uint64_t age_ms, char hint[CF_GOVERN_HINT])
{
    const struct cf_relay_caps *caps = &g->caps;

    if (g->turn_calls >= caps->calls_per_turn) {
        (void)snprintf(hint, CF_GOVERN_HINT,
                       "more than %" PRIu64 " model calls in one turn; this turn gets no more",
                       caps->calls_per_turn);
        return 400;
    }
    if (is_spent(g->calls, caps->calls, "model calls", hint) ||
        is_spent(age_ms, caps->wall_ms, "milliseconds", hint) ||
        is_spent(g->request_bytes, caps->request_bytes, "request bytes", hint) ||
        is_spent(g->response_bytes, caps->response_bytes, "answer bytes", hint) ||
        is_spent(g->input_tokens, caps->input_tokens, "input tokens", hint) ||
        is_spent(g->output_tokens, caps->output_tokens, "output tokens", hint))
        return 400;
    if (caps->cost > 0 && g->cost >= caps->cost) {
        (void)snprintf(
            hint, CF_GOVERN_HINT, "this run's budget of %g (%s) is spent", caps->cost,
            cf_json_str(g->table, "currency") != NULL ? cf_json_str(g->table, "currency")
                                                      : "cost");
        return 400;
    }
    if (caps->calls_at_once != 0 && g->open >= caps->calls_at_once) {
        (void)snprintf(hint, CF_GOVERN_HINT, "%" PRIu64 " model calls at once are the limit",
                       caps->calls_at_once);
        return 429;
    }
    g->calls++;
    g->turn_calls++;
    g->open++;
    return 0;
}

/* ---- what passes --------------------------------------------------------------------- */

static bool
take(uint64_t *used, uint64_t bytes, uint64_t cap, const char *what, char hint[CF_GOVERN_HINT])
{
    *used += bytes;
    if (cap == 0 || *used <= cap)
        return true;
    (void)snprintf(hint, CF_GOVERN_HINT, "this run's budget of %" PRIu64 " %s is spent", cap,
                   what);
    return false;
}

bool
cf_govern_take_request(struct cf_govern *g, uint64_t bytes, char hint[CF_GOVERN_HINT])
{
    return take(&g->request_bytes, bytes, g->caps.request_bytes, "request bytes", hint);
}

bool
cf_govern_take_response(struct cf_govern *g, uint64_t bytes, char hint[CF_GOVERN_HINT])
{
    return take(&g->response_bytes, bytes, g->caps.response_bytes, "answer bytes", hint);
}

static const struct cf_price *
price_of(const struct cf_govern *g, const char *model)
{
    for (size_t i = 0; i < g->price_count; i++)
        if (cf_model_matches(g->prices[i].model, model))
            return &g->prices[i];
    return NULL;
}

bool
cf_govern_allows(const struct cf_govern *g, const char *model, char hint[CF_GOVERN_HINT])
{
    bool is_listed = g->models == NULL;
    json_t *name;
    size_t i;

    json_array_foreach(g->models, i, name)
        is_listed = is_listed || cf_model_matches(json_string_value(name), model);
    if (!is_listed)
        (void)snprintf(hint, CF_GOVERN_HINT,
                       "the model %.100s is not among those this run allows: --allow-model adds it",
                       model);
    else if (g->caps.cost > 0 && price_of(g, model) == NULL)
        (void)snprintf(hint, CF_GOVERN_HINT,
                       "the cost of this run is capped, and the price table lacks %.100s",
                       model);
    else
        return true;
    return false;
}

void
cf_govern_end(struct cf_govern *g, struct cf_relay_call *row, bool cached_beside)
{
    const char *model = *row->model_asked != '\0' ? row->model_asked : row->model_served;
    const struct cf_price *price = price_of(g, model);
    uint64_t cached = row->cache_read_tokens + row->cache_write_tokens;
    uint64_t plain = cached_beside                ? row->input_tokens
                     : row->input_tokens > cached ? row->input_tokens - cached
                                                  : 0;

    g->open--;
    g->input_tokens += row->input_tokens + (cached_beside ? cached : 0);
    g->output_tokens += row->output_tokens;
    if (price == NULL)
        return;
    row->cost = price->call +
                ((double)plain * price->input + (double)row->output_tokens * price->output +
                 (double)row->cache_read_tokens * price->cache_read +
                 (double)row->cache_write_tokens * price->cache_write) /
                    1e6;
    g->cost += row->cost;
}
