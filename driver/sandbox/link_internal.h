/* What the files behind sandbox/link.h share. */
#ifndef CF_SANDBOX_LINK_INTERNAL_H
#define CF_SANDBOX_LINK_INTERNAL_H

#include "mux/mux.h"
#include "sandbox/link.h"

#include <sys/queue.h>

/* First member of everything the link frees: not at once, since a callback may be on its
 * stack, but when the outermost call into the link is about to return. */
struct cf_link_junk {
    SLIST_ENTRY(cf_link_junk) in_junk;
    bool is_junk; /* given up already, by a callback further up the stack */
};
SLIST_HEAD(cf_link_junk_list, cf_link_junk);

struct cf_link_channel;
struct cf_link_channel_ops {
    void (*on_data)(struct cf_link_channel *channel, const char *bytes, size_t len);
    void (*on_half_close)(struct cf_link_channel *channel);
    void (*on_reset)(struct cf_link_channel *channel);
    void (*on_writable)(struct cf_link_channel *channel);
};
struct cf_link_channel {
    struct cf_mux_channel mux; /* first: the mux hands this back */
    const struct cf_link_channel_ops *ops;
    void *object; /* the process, door or transfer it belongs to */
};

/* A request under way. `on_sent` (may be NULL) when it is queued for the stream, `on_answer`
 * once: with the answer, or with why there is none. */
struct cf_link_request {
    TAILQ_ENTRY(cf_link_request) in_list;
    json_int_t id;
    char *text; /* while it waits */
    size_t len;
    void (*on_sent)(void *object);
    void (*on_answer)(struct cf_link *link, void *object, json_t *answer,
                      const struct cf_error *err);
    void *object;
    bool is_owner; /* the object is freed with a request that is dropped */
};
TAILQ_HEAD(cf_link_request_list, cf_link_request);

LIST_HEAD(cf_process_list, cf_process);
LIST_HEAD(cf_door_list, cf_door);
LIST_HEAD(cf_transfer_list, cf_transfer);

struct cf_link {
    struct cf_mux mux;
    const struct cf_link_events *events;
    void *user;
    struct cf_hello hello;
    uint64_t oom_told;
    bool has_hello, saw_bye, is_broken, is_over, is_freed;
    bool is_output_told, is_taking;
    unsigned depth; /* calls into the link on the stack */
    struct cf_link_junk_list junk;

    struct cf_link_request_list sent, waiting;
    unsigned sent_count, waiting_count, pings;
    json_int_t next_id;
    uint64_t pongs;

    struct cf_process_list processes;
    struct cf_door_list doors;
    struct cf_transfer_list transfers;
    struct cf_mux_bytes stage; /* lent out by cf_link_output */
};

/* Around everything that may call back: the last leave frees, and tells of output. */
void cf_link_enter(struct cf_link *link);
void cf_link_leave(struct cf_link *link);
void cf_link_discard(struct cf_link *link, struct cf_link_junk *junk);
bool cf_link_is_quiet(const struct cf_link *link); /* no callback may run any more */

/* Sends `message` (taken; an object that gets "id") or lets it wait its turn. -1: nothing
 * happens. */
int cf_link_request(struct cf_link *link, json_t *message, const struct cf_link_request *how,
                    bool is_urgent, struct cf_error *err);
int cf_link_take_answer(struct cf_link *link, json_t *answer, struct cf_error *err);
void cf_link_fail_requests(struct cf_link *link, const struct cf_error *why);
void cf_link_drop_requests(struct cf_link *link);
/* Fills `err` from an answer's "error"; false when it has none. */
bool cf_link_answer_failed(json_t *answer, struct cf_error *err);
/* Puts "path" or, for bytes that are not UTF-8, "path_hex". */
int cf_link_put_path(json_t *message, const char *name, const char *path,
                     struct cf_error *err);

struct cf_mux_channel *cf_door_offer(struct cf_link *link, unsigned port);
void cf_door_announce(struct cf_link *link, struct cf_mux_channel *channel);
void cf_process_take_exit(struct cf_link *link, json_t *event);
void cf_process_lose_all(struct cf_link *link);
void cf_door_lose_all(struct cf_link *link);
void cf_process_drop_all(struct cf_link *link);
void cf_door_drop_all(struct cf_link *link);
void cf_transfer_lose_all(struct cf_link *link, const struct cf_error *why);
void cf_transfer_drop_all(struct cf_link *link);

#endif
