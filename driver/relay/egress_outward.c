/*
 * The outward half of an attempt: only addresses of the public net are connected to, whatever name
 * was asked for; what comes is handed inside as it is.
 */
#include "relay/egress_impl.h"

#include "base/clock.h"
#include "base/str.h"
#include "relay/address.h"

#include <stdio.h>
#include <string.h>

#define EGRESS_OUTWARDS 128u /* connections outside at once */

/* The status line of a plain answer, as far as it came in one piece. */
static void
read_status(struct cf_attempt *a, const char *bytes, size_t len)
{
    uint64_t status;
    char digits[4];

    if (a->has_status || a->is_connect)
        return;
    a->has_status = true;
    if (len < 12 || memcmp(bytes, "HTTP/1.", 7) != 0)
        return;
    (void)snprintf(digits, sizeof digits, "%.3s", bytes + 9);
    if (cf_parse_u64(digits, 100, 599, &status))
        a->row.status = (int)status;
}

static bool
is_own_address(const struct sockaddr *address)
{
    uv_interface_address_t *all;
    bool is_own = false;
    int count;

    if (uv_interface_addresses(&all, &count) != 0)
        return false;
    for (int i = 0; i < count && !is_own; i++) {
        const struct sockaddr *own = (const struct sockaddr *)&all[i].address;
        char ours[64], theirs[64];

        cf_address_text(own, ours, sizeof ours);
        cf_address_text(address, theirs, sizeof theirs);
        is_own = own->sa_family == address->sa_family && strcmp(ours, theirs) == 0;
    }
    uv_free_interface_addresses(all, count);
    return is_own;
}

static bool
on_address(void *user, const struct sockaddr *address)
{
    struct cf_attempt *a = user;
    const char *what;

    if (a->egress->options.refused != NULL)
        what = a->egress->options.refused(address);
    else if ((what = cf_address_refused(address)) == NULL && is_own_address(address))
        what = "this machine's own";
    if (what == NULL)
        return true;
    cf_address_text(address, a->address, sizeof a->address);
    (void)snprintf(a->detail, sizeof a->detail, "%s", what);
    return false;
}

static void
on_open(void *user, const struct sockaddr *address)
{
    struct cf_attempt *a = user;

    cf_address_text(address, a->address, sizeof a->address);
    a->row.open_ms = cf_clock_ms() - a->begun_ms;
    a->is_open = true;
    if (a->is_connect) {
        a->row.status = 200;
        if (cf_http_reply_tunnel(a->http) < 0)
            cf_http_reply_abort(a->http);
    } else if (cf_http_reply_raw(a->http) < 0) {
        cf_http_reply_abort(a->http);
    }
}

static int
on_data(void *user, const char *bytes, size_t len)
{
    struct cf_attempt *a = user;
    struct cf_http_conn *http = a->http;

    read_status(a, bytes, len);
    a->row.down_bytes += len;
    if (cf_http_reply_body(http, bytes, len) < 0) {
        cf_http_reply_abort(http); /* the attempt is gone then */
        return 0;
    }
    a->is_paused = cf_http_reply_queued(http) > EGRESS_QUEUE_HIGH;
    return a->is_paused ? CF_OUTWARD_PAUSE : 0;
}

static void
on_room(void *user)
{
    struct cf_attempt *a = user;

    if (!a->waits_for_room)
        return;
    a->waits_for_room = false;
    cf_http_conn_resume(a->http);
}

static void
tell_fault(struct cf_attempt *a, enum cf_outward_fault fault, int error)
{
    const char *word = error != 0 ? uv_strerror(error) : "";

    if (fault != CF_OUTWARD_REFUSED)
        (void)snprintf(a->detail, sizeof a->detail, "%s", word);
    switch (fault) {
    case CF_OUTWARD_REFUSED:
        a->row.is_allowed = false;
        cf_egress_say_no(a, 403, "address",
               "cfrunner: %s leads to %s, a %s address; none but addresses of the public net "
               "are connected to, whatever name is opened",
               a->host, a->address, a->detail);
        break;
    case CF_OUTWARD_RESOLVE:
        cf_egress_say_no(a, 502, "resolve", "cfrunner: %s has no address: %s", a->host, word);
        break;
    case CF_OUTWARD_DEADLINE:
        cf_egress_say_no(a, 504, "deadline", "cfrunner: no connection to %s:%u came about in time",
               a->host, a->row.port);
        break;
    default:
        cf_egress_say_no(a, 502, "connect", "cfrunner: no connection to %s:%u: %s", a->host, a->row.port,
               word);
        break;
    }
}

static void
on_end(void *user, enum cf_outward_fault fault, int error)
{
    struct cf_attempt *a = user;

    if (!a->is_open) {
        tell_fault(a, fault, error);
    } else if (fault == CF_OUTWARD_EOF) {
        (void)cf_http_reply_end(a->http);
    } else {
        a->row.why = "lost";
        (void)snprintf(a->detail, sizeof a->detail, "%s", uv_strerror(error));
        cf_http_reply_abort(a->http);
    }
}

void
cf_egress_go_outward(struct cf_attempt *a)
{
    static const struct cf_outward_events events = {.on_address = on_address,
                                                    .on_open = on_open,
                                                    .on_data = on_data,
                                                    .on_room = on_room,
                                                    .on_end = on_end};
    const struct cf_egress_options *o = &a->egress->options;
    const struct cf_outward_target target = {.host = a->host,
                                             .port = a->row.port,
                                             .connect_ms = o->connect_ms,
                                             .resolve = o->resolve,
                                             .resolve_user = o->resolve_user};
    struct cf_error err = {0};

    if (a->egress->outwards >= EGRESS_OUTWARDS)
        cf_egress_say_no(a, 503, "busy", "cfrunner: %u connections at once are the limit",
               EGRESS_OUTWARDS);
    else if (cf_outward_open(a->egress->loop, &target, &events, a, &a->outward, &err) < 0)
        cf_egress_say_no(a, 502, "resolve", "cfrunner: %s", err.text);
    else
        a->egress->outwards++;
}
