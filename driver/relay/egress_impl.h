/* relay/egress_impl.h: what the halves of the egress proxy share. Private to the room. */
#ifndef CF_RELAY_EGRESS_IMPL_H
#define CF_RELAY_EGRESS_IMPL_H

#include "relay/egress.h"

#include "loop/outward.h"

#include <sys/queue.h>

#define EGRESS_QUEUE_HIGH (64u * 1024)

struct cf_egress_host {
    char name[256];
    unsigned port;
};

struct cf_attempt;

struct egress_conn {
    TAILQ_ENTRY(egress_conn) link;
    struct cf_egress *egress;
    struct cf_http_conn *http;
    uint64_t moved, moved_ms;
};

struct cf_attempt {
    struct cf_egress *egress;
    struct cf_http_conn *http;
    struct cf_outward *outward; /* NULL: refused, or over */
    struct cf_egress_row row;
    uint64_t begun_ms;
    char method[16], host[256], address[64], detail[160];
    bool is_connect, is_chunked, is_open, is_paused, waits_for_room, has_status;
};

struct cf_egress {
    uv_loop_t *loop;
    struct cf_egress_host *hosts;
    size_t host_count;
    struct cf_egress_options options;              /* `hosts` is ours */
    unsigned turn, conn_count, attempts, outwards; /* outwards: connections not yet closed */
    uint64_t epoch_ms, last_id;
    uint64_t allowed, denied, failed, up_bytes, down_bytes, dropped;
    json_t *rows;
    TAILQ_HEAD(, egress_conn) conns;
    uv_timer_t clock;
    bool is_closing, is_clock_closed;
    void (*on_closed)(void *user);
    void *closed_user;
};

/* egress_names.c. "name", "name:port", "[address]:port" into lower case without a final dot; false:
 * none of these. */
bool cf_egress_read_authority(const char *text, unsigned usual_port, struct cf_egress_host *to);
/* options.hosts into egress->hosts. */
CF_CHECKED int cf_egress_read_hosts(struct cf_egress *egress, struct cf_error *err);
/* NULL: open. Else why not, as in the row; static. */
const char *cf_egress_closed_why(const struct cf_egress *egress, const struct cf_egress_host *host);

/* egress_outward.c: begins the outward half; a->outward, or an answer that says why not, after
 * which the attempt may be gone. */
void cf_egress_go_outward(struct cf_attempt *a);

/* egress.c: answers in words; the attempt may be gone afterwards. `why` static, as in the row. */
void cf_egress_say_no(struct cf_attempt *a, int status, const char *why, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));

#endif
