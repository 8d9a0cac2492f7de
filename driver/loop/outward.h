/*
 * loop/outward.h: a TCP connection to a name outside, with back-pressure both ways. The name
 * is resolved once; each address is shown to the caller, and only addresses that it saw in
 * this very answer are connected to: a name that means something else a moment later changes
 * nothing.
 */
#ifndef CF_LOOP_OUTWARD_H
#define CF_LOOP_OUTWARD_H

#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>
#include <uv.h>

#define CF_OUTWARD_PAUSE 1             /* on_data's answer: taken, no more until resume */
#define CF_OUTWARD_ADDRESSES 16u       /* of one name that are looked at */
#define CF_OUTWARD_QUEUE (256u * 1024) /* written bytes above which on_room is waited for */

struct cf_outward;

enum cf_outward_fault {
    CF_OUTWARD_EOF,      /* no fault: the peer will write no more; we may go on writing */
    CF_OUTWARD_RESOLVE,  /* the name has no address */
    CF_OUTWARD_REFUSED,  /* the caller refused an address */
    CF_OUTWARD_CONNECT,  /* none of its addresses took a connection */
    CF_OUTWARD_DEADLINE, /* all that took too long */
    CF_OUTWARD_LOST      /* reset, or a write failed */
};

struct cf_outward_events {
    /* An address of the name; false refuses the whole connection. Before any connection. */
    bool (*on_address)(void *user, const struct sockaddr *address);
    void (*on_open)(void *user, const struct sockaddr *address);
    int (*on_data)(void *user, const char *bytes, size_t len);
    void (*on_room)(void *user); /* the queue is below half of its limit again */
    /* The read side is over, or nothing came about; at most once. `error` is a libuv error or
     * 0. The connection still has to be closed. */
    void (*on_end)(void *user, enum cf_outward_fault fault, int error);
};

/* A seam for tests: fills up to `most` addresses and returns how many. */
typedef size_t cf_outward_resolve_fn(void *user, const char *name, struct sockaddr_storage *to,
                                     size_t most);

struct cf_outward_target {
    const char *host; /* a name, or an address without brackets; copied */
    unsigned port;
    uint64_t connect_ms;            /* resolving and connecting together; 0: 10 s */
    cf_outward_resolve_fn *resolve; /* NULL: the system's */
    void *resolve_user;
};

/* Returns 0 and later calls on_open or on_end, never from inside; or <0 with `err`. */
CF_CHECKED int cf_outward_open(uv_loop_t *loop, const struct cf_outward_target *target,
                               const struct cf_outward_events *events, void *user,
                               struct cf_outward **ret_outward, struct cf_error *err);
/* Copies all of it, also before on_open. False: more than the limit waits; on_room comes. */
bool cf_outward_write(struct cf_outward *outward, const char *bytes, size_t len);
void cf_outward_shutdown(struct cf_outward *outward); /* after what was written */
void cf_outward_resume(struct cf_outward *outward);   /* after CF_OUTWARD_PAUSE */
/* From anywhere; no event afterwards. `on_closed` (may be NULL) once its memory is gone. */
void cf_outward_close(struct cf_outward *outward, void (*on_closed)(void *user), void *user);

#endif
