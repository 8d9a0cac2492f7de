/*
 * relay/egress.h: the forward proxy of one run: what it opens by name, and nothing else. HTTP
 * CONNECT and plain HTTP; names are resolved out here, and an address that is not of the
 * public net is never connected to, whatever name led to it. Every attempt makes a row.
 */
#ifndef CF_RELAY_EGRESS_H
#define CF_RELAY_EGRESS_H

#include "base/error.h"
#include "base/log.h"
#include "loop/http_server.h"
#include "loop/outward.h"

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

struct cf_egress;

#define CF_EGRESS_HOSTS 256u

struct cf_egress_row { /* borrowed until return */
    uint64_t id, at_ms;
    unsigned turn;
    const char *method,
        *host; /* printable; host at most 253 bytes, "" when the target was none */
    unsigned port;
    bool is_allowed;
    const char *why; /* NULL: connected. Denied: "name" (not on the list), "port" (the name is,
                        with another), "address" (not of the public net), "relay" (ourselves),
                        "form" (no proxy request). Else: "resolve", "connect", "deadline",
                        "lost", "stalled", "busy" */
    const char *address; /* that was connected to or refused; "" none */
    const char *detail;  /* what the address was, or the system's word; "" none */
    int status;          /* what the client was answered; of plain HTTP the server's own */
    bool is_aborted;     /* the client left */
    uint64_t up_bytes, down_bytes, open_ms, total_ms; /* open_ms: until it was connected */
};

struct cf_egress_options {
    json_t *hosts; /* array of "NAME" or "NAME:PORT" (443 without); kept by reference */
    unsigned relay_port;
    uint64_t epoch_ms; /* what at_ms counts from, by cf_clock_ms; 0: the opening */
    uint64_t connect_ms, idle_ms; /* 0: 10 s, 600 s without a byte either way */
    void (*on_row)(void *user, const struct cf_egress_row *row); /* anything but close */
    void *user;
    const struct cf_log *log;
    /* Seams for tests; NULL: the system's resolver, the rules of relay/address.h. */
    cf_outward_resolve_fn *resolve;
    void *resolve_user;
    const char *(*refused)(const struct sockaddr *address);
};

/* CF_ERROR_CONFIG names the host that is none; _check opens nothing. */
CF_CHECKED int cf_egress_check(json_t *hosts, struct cf_error *err);
CF_CHECKED int cf_egress_open(uv_loop_t *loop, const struct cf_egress_options *options,
                              struct cf_egress **ret_egress, struct cf_error *err);
void cf_egress_turn_begin(struct cf_egress *egress, unsigned turn);
/* As cf_relay_accept and cf_relay_forget; at most 256 connections. `io` should have end_write.
 */
struct cf_http_conn *cf_egress_accept(struct cf_egress *egress, const struct cf_http_io *io,
                                      void *io_user);
void cf_egress_forget(struct cf_egress *egress, struct cf_http_conn *conn);
unsigned cf_egress_open_count(const struct cf_egress *egress); /* attempts under way */
json_t *cf_egress_row_json(const struct cf_egress_row *row); /* new reference, NULL: memory */
/* {"allowed":N,"denied":N,"failed":N,"up_bytes":N,"down_bytes":N,"rows_dropped":N,"rows":[...]}
 * with the first 1,000 rows; new reference. */
json_t *cf_egress_ledger(const struct cf_egress *egress);
/* Connections are reset; on_closed comes later, from the loop. */
void cf_egress_close(struct cf_egress *egress, void (*on_closed)(void *user), void *user);

#endif
