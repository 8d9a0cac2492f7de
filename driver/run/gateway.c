/*
 * The run's options become a relay, a proxy and a book; what these report becomes rows,
 * findings and, where nothing can go on, the run's own failure.
 */
#include "run/gateway.h"
#include "run/hall.h"
#include "run/mcp.h"

#include "base/str.h"
#include "base/utf8.h"
#include "json/json.h"

#include <errno.h>
#include <fcntl.h>
#include <sodium.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define EGRESS_PORT 4181u
#define KEY_BYTES 8192u

struct spent {
    uint64_t input, output; /* tokens */
    double cost;
};

struct cf_gateway {
    struct cf_ledger_file *file;
    /* of the turn */
    struct spent least, most; /* by the calls that told their usage to the end; by all */
    uint64_t calls;
    bool is_counted; /* nothing of it had to be guessed */
    unsigned told;   /* kinds of findings that were told once; bits of enum told */
    unsigned denied; /* attempts told as findings; the rest is in the egress ledger */
    unsigned parts_open;
    void (*done)(struct cf_run *run);
};

enum told { TOLD_REFUSED = 1, TOLD_FAULT = 2, TOLD_PROXY = 4 };
enum { DENIED_TOLD = 8 };

/* ---- keys --------------------------------------------------------------------------------
 */

static int
no_key(const char *provider, const char *what, const char *where, const char *why,
       struct cf_error *err)
{
    (void)cf_error_set(err, CF_ERROR_CONFIG, 0, "the key of upstream %.60s: %s %.200s %s",
                       provider, what, where, why);
    return cf_error_fix(
        err,
        "name a variable that is set (--upstream-key-env), or a file that only you can read "
        "(--upstream-key-file)");
}

static void
wipe(char *text)
{
    if (text != NULL)
        sodium_memzero(text, strlen(text));
    free(text);
}

/* A regular file that only its owner can read. Returned: yours, to be wiped. */
static int
read_key_file(const char *provider, const char *path, char **ret_key, struct cf_error *err)
{
    char bytes[KEY_BYTES + 1];
    struct stat st;
    ssize_t n = -1;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);

    if (fd < 0)
        return no_key(provider, "file", path, strerror(errno), err);
    if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))
        (void)no_key(provider, "file", path, "is not a regular file", err);
    else if ((st.st_mode & 077) != 0)
        (void)no_key(provider, "file", path, "can be read by others: chmod 600 it", err);
    else if ((n = read(fd, bytes, sizeof bytes)) < 0)
        (void)no_key(provider, "file", path, strerror(errno), err);
    (void)close(fd);
    if (n < 0)
        return -1;
    while (n > 0 && (bytes[n - 1] == '\n' || bytes[n - 1] == '\r' || bytes[n - 1] == ' '))
        n--;
    *ret_key = n > 0 && n <= (ssize_t)KEY_BYTES ? strndup(bytes, (size_t)n) : NULL;
    sodium_memzero(bytes, sizeof bytes);
    return *ret_key != NULL ? 0 : no_key(provider, "file", path, "is empty or too large", err);
}

static int
read_key(const json_t *upstream, char **ret_key, struct cf_error *err)
{
    const char *provider = cf_json_str(upstream, "provider"),
               *name = cf_json_str(upstream, "key_env"),
               *file = cf_json_str(upstream, "key_file"), *value;

    if (file != NULL)
        return read_key_file(provider, file, ret_key, err);
    if (name == NULL)
        return 0; /* a provider that asks for none */
    value = getenv(name);
    if (value == NULL || *value == '\0')
        return no_key(provider, "variable", name, "is not set", err);
    *ret_key = strdup(value);
    return *ret_key != NULL ? 0 : cf_error_memory(err);
}

/* ---- what is reported --------------------------------------------------------------------
 */

static void __attribute__((format(printf, 3, 4)))
find(struct cf_run *run, const char *id, const char *fmt, ...)
{
    char text[600];
    va_list args;

    va_start(args, fmt);
    (void)vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    cf_utf8_make_line(text);
    cf_emit_finding(run, id, 0, text);
}

/* True the first time it is asked for a kind. */
static bool
is_first(struct cf_run *run, enum told kind)
{
    bool is_new = (run->gateway->told & kind) == 0;

    run->gateway->told |= kind;
    return is_new;
}

/* The run's own budget is spent, or its key is worth nothing: no call to come can go better.
 */
static void
fail_for_good(struct cf_run *run, const struct cf_relay_call *call)
{
    struct cf_error why;

    if (call->fault != NULL && strcmp(call->fault, "credential") == 0) {
        (void)cf_error_set(&why, CF_ERROR_CREDENTIAL, 401,
                           "the upstream %.60s refused the key of this run", call->provider);
        (void)cf_error_fix(&why, "look at --upstream-key-env or --upstream-key-file");
        cf_hall_fail(run, &why);
    } else if (strstr(call->hint, "this run's budget") != NULL) {
        (void)cf_error_set(&why, CF_ERROR_BUDGET, 0, "%.300s", call->hint);
        (void)cf_error_fix(&why, "raise the cap, or let the harness do with less");
        cf_hall_fail(run, &why);
    }
}

/* Of a call that was cut the harness may have heard all, some or nothing, and cached tokens are
 * claimed by some and not by others: a claim between the two sums is right. */
static void
count_call(struct cf_gateway *g, const struct cf_relay_call *call)
{
    bool is_whole = strcmp(call->usage, "reported") == 0;

    g->calls++;
    g->most.input += call->input_tokens;
    if (call->dialect == CF_DIALECT_ANTHROPIC_MESSAGES) /* beside, not inside */
        g->most.input += call->cache_read_tokens + call->cache_write_tokens;
    g->most.output += call->output_tokens;
    g->most.cost += call->cost;
    if (is_whole) {
        g->least.input += call->input_tokens;
        g->least.output += call->output_tokens;
        g->least.cost += call->cost;
    } else if (strcmp(call->usage, "partial") != 0 && call->status < 400) {
        g->is_counted = false;
    }
}

/* Agents ask for a title and the like when their turn is over: once the run is being ended, the
 * lease is gone and the call a row of the ledger, and nothing is held against them. */
static bool
is_afterthought(const struct cf_run *run, const struct cf_relay_call *call)
{
    return run->state >= CF_HALL_DOWN && strcmp(call->refused, "lease") == 0;
}

static void
judge_call(struct cf_run *run, const struct cf_relay_call *call)
{
    struct cf_gateway *g = run->gateway;

    if (call->refused == NULL && !call->is_probe)
        count_call(g, call);
    if (call->refused != NULL && strcmp(call->refused, "proxy") == 0) {
        if (is_first(run, TOLD_PROXY))
            find(run, "relay_as_proxy", "%s %.200s came to the relay's port: %.300s",
                 call->method, call->path, call->hint);
    } else if (call->refused != NULL && !is_afterthought(run, call) && is_first(run, TOLD_REFUSED)) {
        find(run, "relay_refused", "the relay refused %s %.200s (%s)%s%.250s", call->method,
             call->path, call->refused, call->hint[0] != '\0' ? ": " : "", call->hint);
    }
    if (call->fault != NULL && call->provider != NULL && is_first(run, TOLD_FAULT))
        find(run, "upstream_fault", "the upstream %.60s: %s%s%.300s", call->provider,
             call->fault, call->hint[0] != '\0' ? ": " : "", call->hint);
    fail_for_good(run, call);
}

static void
on_call(void *user, const struct cf_relay_call *call)
{
    struct cf_run *run = user;
    bool is_heard = run->host.on_call != NULL;
    bool is_kept = run->record != NULL || run->gateway->file != NULL;
    json_t *row = is_heard || is_kept ? cf_relay_call_json(run->relay, call) : NULL;
    size_t len = 0;
    cf_auto_free char *text = row != NULL ? cf_json_dump(row, &len) : NULL;

    if (row != NULL && run->gateway->file != NULL)
        cf_ledger_file_add(run->gateway->file, "model", row);
    json_decref(row);
    if (text != NULL)
        cf_record_put(run, CF_RECORD_MODEL, text, len);
    if (text != NULL && is_heard)
        run->host.on_call(run->host.user, text, len);
    cf_turn_activity(run);
    judge_call(run, call);
}

static void
on_egress(void *user, const struct cf_egress_row *row)
{
    struct cf_run *run = user;
    json_t *json = run->gateway->file != NULL ? cf_egress_row_json(row) : NULL;

    if (json != NULL)
        cf_ledger_file_add(run->gateway->file, "egress", json);
    json_decref(json);
    cf_turn_activity(run);
    if (!row->is_allowed && run->gateway->denied++ < DENIED_TOLD)
        find(run, "egress_denied", "%s %.200s:%u was denied (%s)%s%.100s", row->method,
             row->host, row->port, row->why != NULL ? row->why : "",
             row->detail[0] != '\0' ? ": " : "", row->detail);
}

/* ---- claims ------------------------------------------------------------------------------
 */

static bool
is_between(double claim, double least, double most)
{
    return claim >= 0.99 * least && claim <= 1.01 * most;
}

static uint64_t
nearest(uint64_t claim, uint64_t least, uint64_t most)
{
    return claim < least ? least : most;
}

void
cf_gateway_claimed_tokens(struct cf_run *run, const json_t *usage, uint64_t frame)
{
    const struct cf_gateway *g = run->gateway;
    int64_t in = cf_json_int(usage, "inputTokens", -1),
            out = cf_json_int(usage, "outputTokens", -1);
    char text[300];

    if (g == NULL || (in < 0 && out < 0) || !g->is_counted)
        return; /* nothing is claimed, or the ledger itself had to guess */
    if ((in < 0 || is_between((double)in, (double)g->least.input, (double)g->most.input)) &&
        (out < 0 || is_between((double)out, (double)g->least.output, (double)g->most.output)))
        return;
    (void)snprintf(text, sizeof text,
                   "the harness claims %lld input and %lld output tokens for turn %u; the "
                   "relay counted %llu and %llu",
                   (long long)in, (long long)out, run->turn,
                   (unsigned long long)nearest((uint64_t)in, g->least.input, g->most.input),
                   (unsigned long long)nearest((uint64_t)out, g->least.output, g->most.output));
    cf_emit_finding(run, "usage_differs", frame, text);
}

void
cf_gateway_claimed_cost(struct cf_run *run, const struct cf_observation *finished)
{
    const struct cf_gateway *g = run->gateway;
    json_t *json = cf_json_parse(finished->json, finished->json_len, NULL, NULL);
    int64_t micro =
        cf_json_int(cf_json_obj(json, "payload"), "vendor_reported_cost_microusd", -1);
    const char *currency = cf_json_str(run->options.prices, "currency");
    char text[300];

    json_decref(json);
    if (g == NULL || micro <= 0 || (run->options.prices == NULL && g->calls > 0) ||
        (currency != NULL && strcmp(currency, "USD") != 0))
        return; /* nothing is claimed, or there is nothing to compare it with */
    if (is_between((double)micro, g->least.cost * 1e6, g->most.cost * 1e6))
        return;
    (void)snprintf(text, sizeof text,
                   "the harness claims a cost of %.6f USD for turn %u; the relay counted %.6f",
                   (double)micro / 1e6, run->turn, g->most.cost);
    cf_emit_finding(run, "usage_differs", 0, text);
}

void
cf_gateway_turn_begin(struct cf_run *run)
{
    struct cf_gateway *g = run->gateway;

    g->least = g->most = (struct spent){0};
    g->calls = 0;
    g->is_counted = true;
    if (run->egress != NULL)
        cf_egress_turn_begin(run->egress, run->turn);
}

/* ---- opening -----------------------------------------------------------------------------
 */

static void
fill_dialects(struct cf_run *run)
{
    static const struct {
        unsigned id;
        const char *variable;
    } known[] = {{CF_DIALECT_ANTHROPIC_MESSAGES, "ANTHROPIC_BASE_URL"},
                 {CF_DIALECT_OPENAI_CHAT, "OPENAI_BASE_URL"},
                 {CF_DIALECT_OPENAI_RESPONSES, "OPENAI_BASE_URL"},
                 {CF_DIALECT_FAL_QUEUE, NULL}};

    for (size_t i = 0; i < CF_COUNT(known); i++)
        run->dialects[i] = (struct cf_relay_dialect){.id = known[i].id,
                                                     .name = cf_dialect_name(known[i].id),
                                                     .path = cf_dialect_path(known[i].id),
                                                     .variable = known[i].variable};
}

/* The relay's upstreams with their keys; `keys` are yours to wipe, also after a failure. */
static int
fill_upstreams(const struct cf_run_options *options, struct cf_relay_upstream *to, char **keys,
               struct cf_error *err)
{
    json_t *from;
    size_t i;

    json_array_foreach(options->upstreams, i, from) {
        to[i].provider = cf_json_str(from, "provider");
        to[i].url = cf_json_str(from, "url");
        to[i].ca_file = cf_json_str(from, "ca_file");
        to[i].dialects = cf_provider_dialects(to[i].provider);
        if (read_key(from, &keys[i], err) < 0)
            return -1;
        to[i].key = keys[i];
    }
    return 0;
}

static void
wipe_keys(char **keys)
{
    for (size_t i = 0; i < CF_RELAY_UPSTREAMS; i++)
        wipe(keys[i]);
}

/* All of it but what belongs to one run. */
static void
fill_options(const struct cf_run_options *o, const struct cf_relay_upstream *upstreams,
             struct cf_relay_options *to)
{
    *to = (struct cf_relay_options){
        .model = o->model,
        .caps = {.calls = o->calls,
                 .calls_per_turn = o->max_calls_per_turn,
                 .calls_at_once = o->calls_at_once,
                 .request_bytes = o->request_bytes,
                 .response_bytes = o->response_bytes,
                 .input_tokens = o->input_tokens,
                 .output_tokens = o->output_tokens,
                 .cost = o->cost,
                 .wall_ms = o->lease_ms},
        .times = {.connect = o->connect_ms,
                  .first_byte = o->first_byte_ms,
                  .stall = o->stall_ms},
        .models = o->models,
        .prices = o->prices,
        .script = o->model_script,
        .upstreams = upstreams,
        .upstream_count = (unsigned)json_array_size(o->upstreams),
    };
}

int
cf_gateway_check(const struct cf_run_options *options, struct cf_error *err)
{
    struct cf_relay_upstream upstreams[CF_RELAY_UPSTREAMS] = {{0}};
    char *keys[CF_RELAY_UPSTREAMS] = {NULL};
    struct cf_relay_options relay;
    int status = fill_upstreams(options, upstreams, keys, err);

    fill_options(options, upstreams, &relay);
    if (status == 0)
        status = cf_relay_check(&relay, err);
    wipe_keys(keys);
    return status == 0 ? cf_egress_check(options->allow_hosts, err) : status;
}

/* What the harness declared; else what the providers take, each its own. */
static unsigned
dialects_of(const struct cf_run *run, const struct cf_relay_upstream *upstreams, size_t count)
{
    unsigned all = 0;

    if (run->release.dialects != 0)
        return run->release.dialects;
    for (size_t i = 0; i < count; i++)
        all |= upstreams[i].dialects;
    return count > 0 ? all : cf_provider_dialects("local-replay");
}

static int
open_relay(struct cf_run *run, struct cf_error *err)
{
    struct cf_relay_upstream upstreams[CF_RELAY_UPSTREAMS] = {{0}};
    char *keys[CF_RELAY_UPSTREAMS] = {NULL};
    struct cf_run_mcp mcp = {.count = 0};
    struct cf_relay_options options;
    int status = fill_upstreams(&run->options, upstreams, keys, err);

    if (status == 0)
        status = cf_run_mcp_fill(run, &mcp, err);
    fill_dialects(run);
    fill_options(&run->options, upstreams, &options);
    options.dialect_table = run->dialects;
    options.dialect_count = CF_COUNT(run->dialects);
    options.dialects = dialects_of(run, upstreams, options.upstream_count);
    options.mcp = mcp.servers;
    options.mcp_count = mcp.count;
    options.private_dir = cf_owner_state_dir(run->owner);
    options.on_call = on_call;
    options.user = run;
    options.epoch_ms = run->opened_ms; /* one clock for frames, observations and calls */
    options.log = &run->log;
    if (status == 0)
        status = cf_relay_open(run->loop, &options, &run->relay, err);
    cf_run_mcp_release(&mcp);
    wipe_keys(keys); /* the relay has its copies */
    return status;
}

static int
open_egress(struct cf_run *run, struct cf_error *err)
{
    const struct cf_egress_options options = {.hosts = run->options.allow_hosts,
                                              .relay_port = run->options.relay_port,
                                              .epoch_ms = run->opened_ms,
                                              .on_row = on_egress,
                                              .user = run,
                                              .log = &run->log};

    if (json_array_size(run->options.allow_hosts) == 0)
        return 0;
    return cf_egress_open(run->loop, &options, &run->egress, err);
}

int
cf_gateway_open(struct cf_run *run, struct cf_error *err)
{
    run->gateway = calloc(1, sizeof *run->gateway);
    if (run->gateway == NULL)
        return cf_error_memory(err);
    run->gateway->is_counted = true;
    if (run->options.ledger != NULL &&
        cf_ledger_file_open(run->loop, run->options.ledger, &run->gateway->file, err) < 0)
        return -1;
    if (open_relay(run, err) < 0)
        return -1;
    return open_egress(run, err);
}

unsigned
cf_gateway_egress_port(const struct cf_run_options *options)
{
    if (json_array_size(options->allow_hosts) == 0)
        return 0;
    return options->relay_port == EGRESS_PORT ? EGRESS_PORT - 1 : EGRESS_PORT;
}

/* ---- closing -----------------------------------------------------------------------------
 */

static void
on_file_closed(void *user, int error)
{
    struct cf_run *run = user;
    void (*done)(struct cf_run * run) = run->gateway->done;
    char text[200];

    if (error != 0) {
        (void)snprintf(text, sizeof text, "the ledger file is not whole: %s", strerror(error));
        cf_emit_finding(run, "ledger_file", 0, text);
    }
    free(run->gateway);
    run->gateway = NULL;
    done(run);
}

static void
part_closed(struct cf_run *run)
{
    if (--run->gateway->parts_open > 0)
        return;
    if (run->gateway->file != NULL)
        cf_ledger_file_close(run->gateway->file, on_file_closed, run);
    else
        on_file_closed(run, 0);
}

static void
on_relay_closed(void *user)
{
    struct cf_run *run = user;

    run->relay = NULL;
    part_closed(run);
}

static void
on_egress_closed(void *user)
{
    struct cf_run *run = user;

    run->egress = NULL;
    part_closed(run);
}

void
cf_gateway_close(struct cf_run *run, void (*done)(struct cf_run *run))
{
    if (run->gateway == NULL) {
        done(run);
        return;
    }
    run->gateway->done = done;
    run->gateway->parts_open = 1u + (run->relay != NULL) + (run->egress != NULL);
    if (run->relay != NULL)
        cf_relay_revoke(run->relay);
    cf_doors_close_all(run);
    if (run->relay != NULL) {
        run->ledger = cf_relay_ledger(run->relay);
        run->relay_totals = cf_relay_totals(run->relay);
        cf_relay_close(run->relay, on_relay_closed, run);
    }
    if (run->egress != NULL) {
        run->egress_json = cf_egress_ledger(run->egress);
        cf_egress_close(run->egress, on_egress_closed, run);
    }
    part_closed(run);
}
