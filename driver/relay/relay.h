/*
 * relay/relay.h: the governed model relay of one run: the sandbox's only door. It knows
 * nothing of sandboxes: connections come in through cf_http_io. Its ledger is the authority
 * for "the model plane was reached".
 */
#ifndef CF_RELAY_RELAY_H
#define CF_RELAY_RELAY_H

#include "base/error.h"
#include "base/log.h"
#include "loop/http_server.h"

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

struct cf_relay;

struct cf_relay_call { /* one ledger row; borrowed until return */
    uint64_t id;       /* 1, 2, ... */
    uint64_t at_ms;    /* since epoch_ms of the options */
    unsigned turn;
    unsigned dialect; /* its id in the dialect table, 0: none matched */
    bool is_probe;    /* served, but no model call: HEAD /, the model list, token counts */
    const char *method, *path;              /* path without query, printable, at most 200 */
    const char *model_asked, *model_served; /* "" when unknown */
    int status;
    bool is_streamed, nonce_seen, answered_nonce, prior_nonce_seen, is_aborted;
    uint64_t request_bytes, response_bytes;
    /* Tokens as the provider reported them; cached ones are inside input_tokens in the openai
     * dialects and beside it in anthropic_messages. */
    uint64_t input_tokens, output_tokens, cache_read_tokens, cache_write_tokens;
    const char *usage; /* where the numbers are from, static: "reported", "partial" (the answer
                          was cut before its last count), "estimated", "none" */
    double cost;       /* in the price table's currency; 0 without a table */
    uint64_t first_byte_ms, total_ms;
    const char
        *refused;         /* NULL: served; else why, static: "token", "lease", "path",
                             "dialect", "method", "body", "too large", "encoding", "upgrade",
                             "model" (not on the list), "cap", "proxy" (taken for one), "timeout"
                             (the request's rest never came), "malformed" (not HTTP), "internal" */
    const char *hint;     /* "" or the one-line remedy (a base URL one level off, ...) */
    const char *provider; /* of the upstream that was asked; NULL: the replay model */
    const char *rule;     /* of the model script, that answered; NULL: none */
    const char *fault;    /* what went wrong upstream, static: "resolve", "connect", "tls",
                             "silent", "stalled", "lost", "protocol", "deadline", "credential",
                             "disk" (ours: the body could not be kept), "cut" (a cap was
                             reached), "script" (a rule broke the answer off); NULL: nothing */
};

/* A dialect as the catalog has it. The relay finds its codec by name ("anthropic_messages",
 * "openai_chat", "openai_responses", "fal_queue") and knows no ids of its own. */
struct cf_relay_dialect {
    unsigned id;             /* one bit */
    const char *name, *path; /* "/v1/messages"; a path with '{' stands for fal's model ids */
    const char *variable;    /* environment variable of its base URL, for hints; may be NULL */
};

struct cf_relay_upstream { /* a real provider; all copied, the key is wiped when the relay
                              closes */
    const char *provider;  /* its name in the ledger */
    unsigned dialects;     /* mask of ids it takes */
    const char *url;     /* https://HOST[:PORT][/PATH]; http:// to this machine itself only */
    const char *key;     /* NULL: no credential is sent */
    const char *ca_file; /* its certificate authority; NULL: the system's */
    bool may_be_plain;   /* http:// to any machine; never with a key */
};
#define CF_RELAY_UPSTREAMS 8u

/* An MCP server over HTTP, served at /mcp/NAME; all copied, the headers wiped when the
 * relay closes. Its calls are rows of the ledger and no model calls. */
struct cf_relay_mcp {
    const char *name;           /* 1 to 64 letters, digits, - _ . */
    const char *url;            /* http:// or https:// */
    const char *const *headers; /* "Name: value" each, NULL-terminated, added on the way out */
};
#define CF_RELAY_MCP 16u
#define CF_RELAY_MCP_HEADERS 16u

/* What this lease allows in all; 0: no such cap. A call that comes when one is spent is
 * refused for good. Tokens and cost are known when a call has ended: the call that crosses a
 * cap is still served, the next is not. */
struct cf_relay_caps {
    uint64_t calls, calls_per_turn; /* the latter 64 by default */
    uint64_t calls_at_once;         /* more get 429 with retry-after */
    uint64_t request_bytes, response_bytes;
    uint64_t input_tokens, output_tokens;
    double cost;
    uint64_t wall_ms; /* since the relay was opened */
};

struct cf_relay_times {                  /* milliseconds; 0: the default */
    uint64_t connect, first_byte, stall; /* upstream: 10 s, 180 s, 120 s */
    uint64_t head, body, reader, idle;   /* door: half a head 30 s, half a body 60 s, an answer
                                            nobody reads 600 s, between requests 600 s */
};

struct cf_relay_options {
    /* every dialect known; borrowed while the relay is open */
    const struct cf_relay_dialect *dialect_table;
    unsigned dialect_count;
    unsigned dialects;       /* mask of ids that are served */
    const char *token;       /* lease bearer; NULL: a fresh random one is made. copied */
    const char *model;       /* NULL "local-replay-model". copied. What the model list shows;
                                an answer of the replay model carries the name that was asked */
    uint64_t max_body_bytes; /* 0: 64 MiB */
    uint64_t epoch_ms;       /* what at_ms of a call counts from, by cf_clock_ms; 0: the relay's opening */
    struct cf_relay_caps caps;
    struct cf_relay_times times;
    /* Kept by reference while the relay is open, NULL: none. `models`: names, each with one *
     * at its end allowed; the other two as in proto/price-table and proto/model-script. */
    json_t *models, *prices, *script;
    const struct cf_relay_upstream *upstreams; /* none: the replay model answers */
    unsigned upstream_count;
    const struct cf_relay_mcp *mcp;
    unsigned mcp_count;
    const char *private_dir; /* where a long request body waits in an unlinked file; NULL:
                                bodies over 256 KiB cannot go upstream. copied */
    /* when a call has ended; may do anything but close the relay */
    void (*on_call)(void *user, const struct cf_relay_call *call);
    void *user;
    const struct cf_log *log;
};

/* Looks at what of the options can be wrong in itself, and opens nothing: CF_ERROR_CONFIG
 * names what is wrong in script, prices, models or an upstream's URL. */
CF_CHECKED int cf_relay_check(const struct cf_relay_options *options, struct cf_error *err);
CF_CHECKED int cf_relay_open(uv_loop_t *loop, const struct cf_relay_options *options,
                             struct cf_relay **ret_relay, struct cf_error *err);
const char *cf_relay_token(const struct cf_relay *relay); /* never log it */

/* What the replay model shall look for and say in this turn; all copied, NULL clears. */
struct cf_relay_turn {
    unsigned turn;
    const char *prompt_nonce; /* the main call is the one whose last user text carries it */
    const char *answer_nonce; /* said in the answer to the main call */
    const char *prior_nonce;  /* an earlier answer nonce: its presence is recorded */
    const char *answer_json;  /* the whole answer text (output schema); holds the nonce */
};
/* Begins turn counting for the cap, too. Nonces are compared, never logged, and at most 256
 * bytes; answer_json at most 256 KiB. */
void cf_relay_turn_begin(struct cf_relay *relay, const struct cf_relay_turn *turn);
/* While held, main answers wait (at most `at_most_ms`); release lets them go. */
void cf_relay_hold(struct cf_relay *relay, uint64_t at_most_ms);
void cf_relay_release(struct cf_relay *relay);

/* A new connection; drive it with cf_http_conn_feed/eof/gone/writable and end it with
 * cf_relay_forget (also after io.reset, and allowed from inside io.shutdown and io.reset).
 * Forgetting one in the middle of a call makes an aborted row. `io` is borrowed until then.
 * NULL when 1,024 are open (then reset it). */
struct cf_http_conn *cf_relay_accept(struct cf_relay *relay, const struct cf_http_io *io,
                                     void *io_user);
void cf_relay_forget(struct cf_relay *relay, struct cf_http_conn *conn);

/* The lease ends: every later request gets 401 and a ledger row. */
void cf_relay_revoke(struct cf_relay *relay);
/* Without the event streams of MCP servers, which stay open while nothing happens. */
unsigned cf_relay_calls_in_flight(const struct cf_relay *relay);
/* How long the model has told nothing to a call that waits for it with a client that reads: the
 * longest such silence, in milliseconds, and that call's id. 0: no call waits so. */
uint64_t cf_relay_silence(const struct cf_relay *relay, uint64_t *ret_call);
/* One row as the ledger writes it; new reference, NULL out of memory. */
json_t *cf_relay_call_json(const struct cf_relay *relay, const struct cf_relay_call *call);
json_t *cf_relay_ledger(const struct cf_relay *relay); /* array of rows (at most 1,000 kept,
                                                          then counted); new reference */
/* {"served":N,"refused":N,"probes":N,"aborted":N,"faults":N,"input_tokens":N,"output_tokens":N,
 *  "cache_read_tokens":N,"cache_write_tokens":N,"request_bytes":N,"response_bytes":N,"cost":X,
 *  "rows_dropped":N}; served counts model calls only. New reference. */
json_t *cf_relay_totals(const struct cf_relay *relay);
/* Calls still open become aborted rows and their connections are reset; on_closed comes later,
 * from the loop. Connections must not be fed any more; they are forgotten by this call. */
void cf_relay_close(struct cf_relay *relay, void (*on_closed)(void *user), void *user);

#endif
