/* correspond/store.h: the records of a store, each an item of an array, each naming others by
 * position. Texts (repository, thread, path lists) are kept once. */
#ifndef CF_CORRESPOND_STORE_H
#define CF_CORRESPOND_STORE_H

#include "correspond/correspond.h"
#include "correspond/event.h"
#include "correspond/index.h"

#define CF_NO_TIME INT64_MIN

/* Position + 1 is the received_seq. */
struct cf_stored {
    unsigned char id[32];
    uint64_t where, session_seq;
    int64_t received_at_ms;
    uint32_t session, repository, thread;
    uint32_t previous_in_repository, previous_in_thread; /* events, newest first */
    uint32_t claim;                                      /* CF_NONE: not a claim event */
    uint32_t fork; /* on the first event of its session and number: the others, or CF_NONE */
};

struct cf_session {
    unsigned char identity[16], device[16], session[16];
};

/* Several events of one session with one number. */
struct cf_fork {
    uint32_t count, shown;
    uint32_t lowest[17]; /* events with the lowest ids, ascending */
};

/* The newest event of a repository (thread CF_NONE) or of a thread in it. */
struct cf_focus {
    uint32_t repository, thread, newest;
};

struct cf_text {
    uint32_t at, len; /* in `bytes`, NUL-terminated */
};

/* One claim id in one repository: its tips compete. */
struct cf_group {
    uint32_t repository, tips;
    unsigned char claim_id[16];
};

enum cf_claim_kind { CF_CLAIM_OPEN, CF_CLAIM_RENEW, CF_CLAIM_RELEASE };

struct cf_claim {
    unsigned char predecessor[32];
    uint64_t generation;
    int64_t expires_at_ms; /* CF_NO_TIME: a release */
    uint32_t event, group;
    uint32_t paths; /* text: the prefixes in signed order, each ended by a NUL */
    uint32_t next_waiting;
    struct cf_treap_node by_group, by_expiry;
    uint8_t kind, lineage, is_tip;
};

/* Pending claims that wait for one event, in arrival order. */
struct cf_wait {
    unsigned char id[32];
    uint32_t first, last;
    uint32_t next; /* in the frontier, or among the free ones */
    uint32_t is_in_frontier;
};

/* What is saved besides the arrays. */
struct cf_store_head {
    char project_id[CF_CORR_UUID_SIZE];
    unsigned char key[16];  /* of every hash and priority */
    int64_t last_change_ms; /* of the last batch that changed a status or a tip */
    uint32_t frontier_first, frontier_last, free_wait;
    struct cf_treap tips_by_group, tips_by_expiry;
};

struct cf_corr_store {
    struct cf_store_head head;
    struct cf_vec events, sessions, forks, foci, texts, bytes, groups, claims, waits;
    struct cf_table by_id, by_slot, by_session, by_focus, by_text, by_group, by_wait;
    struct cf_vec kept; /* event texts, when nobody else keeps them */
    cf_corr_fetch_fn *fetch;
    void *user;
};

static inline struct cf_stored *
cf_event_at(const struct cf_corr_store *store, uint32_t i)
{
    return CF_AT(struct cf_stored, &store->events, i);
}

static inline struct cf_claim *
cf_claim_at(const struct cf_corr_store *store, uint32_t i)
{
    return CF_AT(struct cf_claim, &store->claims, i);
}

static inline struct cf_group *
cf_group_at(const struct cf_corr_store *store, uint32_t i)
{
    return CF_AT(struct cf_group, &store->groups, i);
}

static inline const char *
cf_text_at(const struct cf_corr_store *store, uint32_t i)
{
    return CF_AT(char, &store->bytes, CF_AT(struct cf_text, &store->texts, i)->at);
}

#define CF_STORE_ARRAYS 23

/* Every array of a store in a fixed order (returns how many), and all of them empty. */
size_t cf_store_list_arrays(struct cf_corr_store *store, struct cf_vec *list[CF_STORE_ARRAYS]);
void cf_store_init_arrays(struct cf_corr_store *store);

uint32_t cf_store_hash(const struct cf_corr_store *store, const void *bytes, size_t len);
uint32_t cf_store_find_event(const struct cf_corr_store *store, const unsigned char id[32]);
uint32_t cf_store_find_text(const struct cf_corr_store *store, const char *bytes, size_t len);
uint32_t cf_store_find_focus(const struct cf_corr_store *store, uint32_t repository,
                             uint32_t thread);

/* The first event of a session and number; CF_NONE when there is none. */
uint32_t cf_store_find_slot(const struct cf_corr_store *store, uint32_t session,
                            uint64_t session_seq);

/* The stored event, read back and parsed: returned, yours. NULL with `err` filled. */
struct cf_corr_event *cf_store_read(const struct cf_corr_store *store, uint32_t event,
                                    struct cf_error *err);

/* ---- lineage.c ---- */

/* Room for one more claim event; then an addition cannot fail. */
int cf_lineage_room(struct cf_corr_store *store);

/* Judges a claim event that was just stored (claims[claim]), then lets one batch run. `claim`
 * may be CF_NONE: an ordinary event may be what others wait for. */
void cf_lineage_add(struct cf_corr_store *store, uint32_t event, uint32_t claim,
                    int64_t now_ms);

/* Tips of a claim in order of generation, then id; and open or renew tips of a repository in
 * order of expiry, claim id, id. Each returns a claim or CF_NONE. */
uint32_t cf_tips_first(const struct cf_corr_store *store, uint32_t group);
uint32_t cf_tips_next(const struct cf_corr_store *store, uint32_t claim);
uint32_t cf_live_first(const struct cf_corr_store *store, uint32_t repository, int64_t now_ms);
uint32_t cf_live_next(const struct cf_corr_store *store, uint32_t claim);

/* The newest expiry that has passed among the tips of a repository, or CF_NO_TIME. */
int64_t cf_live_last_expired(const struct cf_corr_store *store, uint32_t repository,
                             int64_t now_ms);

/* ---- projections ---- */

struct cf_picked {
    uint32_t claims[513];
    uint32_t count;
    bool is_truncated;
};

/* Active claims of the query in order, at most 128, and whether something was left out. */
void cf_pick_claims(const struct cf_corr_store *store, const struct cf_corr_query *query,
                    int64_t now_ms, struct cf_picked *ret_picked);
/* Their rows as a JSON array's inside; sets picked->is_truncated when a row had too many
 * rivals. */
int cf_put_claim_rows(struct cf_buf *to, const struct cf_corr_store *store,
                      struct cf_picked *picked, struct cf_error *err);
/* "protocol" to "truncated", without the braces. */
void cf_put_projection_head(struct cf_buf *to, const struct cf_corr_store *store,
                            const struct cf_corr_query *query, int64_t now_ms,
                            bool is_truncated);
/* {event, receipt, missing_parents, lineage_status} without its braces. */
int cf_put_record(struct cf_buf *to, const struct cf_corr_store *store, uint32_t event,
                  struct cf_error *err);
/* The inside of an array: ids of the event's parents that are not stored. Returns how many. */
size_t cf_put_missing_parents(struct cf_buf *to, const struct cf_corr_store *store,
                              const struct cf_corr_event *event);
/* "id","id" of at most 16 events of a fork; `must` (or CF_NONE) is always among them. */
void cf_put_fork_ids(struct cf_buf *to, const struct cf_corr_store *store,
                     const struct cf_fork *fork, uint32_t must);

#endif
