/*
 * Claim lineage: which claim events are valid, which of them are tips, and the bounded batches
 * in which late arrivals are worked off.
 *
 * A pending claim waits under the id of its predecessor, stored or not. When that event is
 * stored and decided, its entry joins the frontier, and batches take the waiting claims from
 * there, 32 at a time, so that one append never pays for a long chain that arrived backwards.
 */
#include "correspond/store.h"

#include "base/str.h"
#include "correspond/words.h"

#include <stdlib.h>
#include <string.h>

/* ---- ordered tips ---- */

struct tip_key {
    uint32_t owner; /* group or repository */
    int64_t rank;   /* generation or expiry */
    const unsigned char *claim_id, *event_id;
};

static const unsigned char lowest_id[32];

/* The least key of what has not expired at `now_ms`: equal means expired. */
static struct tip_key
key_after(uint32_t repository, int64_t now_ms)
{
    return (struct tip_key){repository, now_ms == INT64_MAX ? now_ms : now_ms + 1, lowest_id,
                            lowest_id};
}

static int
order_by(uint32_t owner, int64_t rank, const struct tip_key *key)
{
    if (owner != key->owner)
        return owner < key->owner ? -1 : 1;
    if (rank != key->rank)
        return rank < key->rank ? -1 : 1;
    return 0;
}

static int
compare_in_group(const void *user, uint32_t record, const void *against)
{
    const struct cf_claim *claim = cf_claim_at(user, record);
    const struct tip_key *key = against;
    int order = order_by(claim->group, (int64_t)claim->generation, key);

    return order != 0 ? order : memcmp(cf_event_at(user, claim->event)->id, key->event_id, 32);
}

static int
compare_by_expiry(const void *user, uint32_t record, const void *against)
{
    const struct cf_claim *claim = cf_claim_at(user, record);
    const struct cf_group *group = cf_group_at(user, claim->group);
    const struct tip_key *key = against;
    int order = order_by(group->repository, claim->expires_at_ms, key);

    if (order == 0)
        order = memcmp(group->claim_id, key->claim_id, 16);
    return order != 0 ? order : memcmp(cf_event_at(user, claim->event)->id, key->event_id, 32);
}

static struct cf_treap_node *
node_in_group(const void *user, uint32_t record)
{
    return &cf_claim_at(user, record)->by_group;
}

static struct cf_treap_node *
node_by_expiry(const void *user, uint32_t record)
{
    return &cf_claim_at(user, record)->by_expiry;
}

static struct tip_key
key_in_group(const struct cf_corr_store *store, uint32_t record)
{
    const struct cf_claim *claim = cf_claim_at(store, record);

    return (struct tip_key){claim->group, (int64_t)claim->generation, NULL,
                            cf_event_at(store, claim->event)->id};
}

static struct tip_key
key_by_expiry(const struct cf_corr_store *store, uint32_t record)
{
    const struct cf_claim *claim = cf_claim_at(store, record);
    const struct cf_group *group = cf_group_at(store, claim->group);

    return (struct tip_key){group->repository, claim->expires_at_ms, group->claim_id,
                            cf_event_at(store, claim->event)->id};
}

static void
make_tip(struct cf_corr_store *store, uint32_t record)
{
    const struct cf_treap_order group = {node_in_group, compare_in_group, store};
    const struct cf_treap_order expiry = {node_by_expiry, compare_by_expiry, store};
    struct cf_claim *claim = cf_claim_at(store, record);
    struct tip_key key = key_in_group(store, record);

    cf_treap_insert(&store->head.tips_by_group, &group, record, &key);
    if (claim->kind != CF_CLAIM_RELEASE) {
        key = key_by_expiry(store, record);
        cf_treap_insert(&store->head.tips_by_expiry, &expiry, record, &key);
    }
    claim->is_tip = 1;
    cf_group_at(store, claim->group)->tips++;
}

static void
retire_tip(struct cf_corr_store *store, uint32_t record)
{
    const struct cf_treap_order group = {node_in_group, compare_in_group, store};
    const struct cf_treap_order expiry = {node_by_expiry, compare_by_expiry, store};
    struct cf_claim *claim = cf_claim_at(store, record);
    struct tip_key key = key_in_group(store, record);

    if (!claim->is_tip)
        return; /* a sibling came first */
    cf_treap_remove(&store->head.tips_by_group, &group, record, &key);
    if (claim->kind != CF_CLAIM_RELEASE) {
        key = key_by_expiry(store, record);
        cf_treap_remove(&store->head.tips_by_expiry, &expiry, record, &key);
    }
    claim->is_tip = 0;
    cf_group_at(store, claim->group)->tips--;
}

static uint32_t
if_in_group(const struct cf_corr_store *store, uint32_t record, uint32_t group)
{
    return record != CF_NONE && cf_claim_at(store, record)->group == group ? record : CF_NONE;
}

uint32_t
cf_tips_first(const struct cf_corr_store *store, uint32_t group)
{
    const struct cf_treap_order order = {node_in_group, compare_in_group, store};
    const struct tip_key key = {group, 0, NULL, lowest_id};

    return if_in_group(store, cf_treap_at_or_after(&store->head.tips_by_group, &order, &key),
                       group);
}

uint32_t
cf_tips_next(const struct cf_corr_store *store, uint32_t record)
{
    const struct cf_treap_order order = {node_in_group, compare_in_group, store};
    const struct tip_key key = key_in_group(store, record);

    return if_in_group(store, cf_treap_after(&store->head.tips_by_group, &order, &key),
                       key.owner);
}

static uint32_t
if_in_repository(const struct cf_corr_store *store, uint32_t record, uint32_t repository)
{
    return record != CF_NONE &&
                   cf_group_at(store, cf_claim_at(store, record)->group)->repository ==
                       repository
               ? record
               : CF_NONE;
}

uint32_t
cf_live_first(const struct cf_corr_store *store, uint32_t repository, int64_t now_ms)
{
    const struct cf_treap_order order = {node_by_expiry, compare_by_expiry, store};
    const struct tip_key key = key_after(repository, now_ms);

    return if_in_repository(
        store, cf_treap_at_or_after(&store->head.tips_by_expiry, &order, &key), repository);
}

uint32_t
cf_live_next(const struct cf_corr_store *store, uint32_t record)
{
    const struct cf_treap_order order = {node_by_expiry, compare_by_expiry, store};
    const struct tip_key key = key_by_expiry(store, record);

    return if_in_repository(store, cf_treap_after(&store->head.tips_by_expiry, &order, &key),
                            key.owner);
}

int64_t
cf_live_last_expired(const struct cf_corr_store *store, uint32_t repository, int64_t now_ms)
{
    const struct cf_treap_order order = {node_by_expiry, compare_by_expiry, store};
    const struct tip_key key = key_after(repository, now_ms);
    uint32_t last = if_in_repository(
        store, cf_treap_before(&store->head.tips_by_expiry, &order, &key), repository);

    return last == CF_NONE ? CF_NO_TIME : cf_claim_at(store, last)->expires_at_ms;
}

/* ---- validity ---- */

static int
compare_texts(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static size_t
sort_paths(const struct cf_corr_store *store, uint32_t text, const char *out[64])
{
    const char *at = cf_text_at(store, text),
               *end = at + CF_AT(struct cf_text, &store->texts, text)->len;
    size_t n = 0;

    for (; at <= end && n < 64; at += strlen(at) + 1)
        out[n++] = at;
    qsort(out, n, sizeof out[0], compare_texts);
    return n;
}

/* The same set of path prefixes, in whatever order. */
static bool
are_paths_same(const struct cf_corr_store *store, uint32_t a, uint32_t b)
{
    const char *in_a[64], *in_b[64];
    size_t n;

    if (a == b)
        return true;
    n = sort_paths(store, a, in_a);
    if (sort_paths(store, b, in_b) != n)
        return false;
    for (size_t i = 0; i < n; i++) {
        if (strcmp(in_a[i], in_b[i]) != 0)
            return false;
    }
    return true;
}

static const unsigned char *
identity_of(const struct cf_corr_store *store, const struct cf_claim *claim)
{
    return CF_AT(struct cf_session, &store->sessions,
                 cf_event_at(store, claim->event)->session)
        ->identity;
}

/* One repository and one claim id make one group. */
static bool
may_follow(const struct cf_corr_store *store, const struct cf_claim *claim,
           const struct cf_claim *before)
{
    return before->kind != CF_CLAIM_RELEASE && claim->group == before->group &&
           memcmp(identity_of(store, claim), identity_of(store, before), 16) == 0 &&
           claim->generation == before->generation + 1 &&
           are_paths_same(store, claim->paths, before->paths);
}

/* The claim record of the predecessor, or CF_NONE. */
static uint32_t
predecessor_of(const struct cf_corr_store *store, const struct cf_claim *claim)
{
    uint32_t event = cf_store_find_event(store, claim->predecessor);

    return event == CF_NONE ? CF_NONE : cf_event_at(store, event)->claim;
}

static enum cf_corr_lineage
judge(const struct cf_corr_store *store, const struct cf_claim *claim)
{
    uint32_t event;
    const struct cf_claim *before;

    if (claim->kind == CF_CLAIM_OPEN)
        return CF_CORR_VALID;
    event = cf_store_find_event(store, claim->predecessor);
    if (event == CF_NONE)
        return CF_CORR_PENDING;
    if (cf_event_at(store, event)->claim == CF_NONE)
        return CF_CORR_INVALID;
    before = cf_claim_at(store, cf_event_at(store, event)->claim);
    if (before->lineage != CF_CORR_VALID)
        return before->lineage;
    return may_follow(store, claim, before) ? CF_CORR_VALID : CF_CORR_INVALID;
}

static void
decide(struct cf_corr_store *store, uint32_t record, enum cf_corr_lineage lineage)
{
    struct cf_claim *claim = cf_claim_at(store, record);

    claim->lineage = (uint8_t)lineage;
    if (lineage != CF_CORR_VALID)
        return;
    if (claim->kind != CF_CLAIM_OPEN)
        retire_tip(store, predecessor_of(store, claim));
    make_tip(store, record);
}

/* ---- waiting ---- */

static struct cf_wait *
wait_at(const struct cf_corr_store *store, uint32_t i)
{
    return CF_AT(struct cf_wait, &store->waits, i);
}

static uint32_t
find_wait(const struct cf_corr_store *store, const unsigned char id[32])
{
    uint32_t i = cf_table_first(&store->by_wait, cf_store_hash(store, id, 32));

    while (i != CF_NONE && memcmp(wait_at(store, i)->id, id, 32) != 0)
        i = cf_table_next(&store->by_wait, i);
    return i;
}

static uint32_t
add_wait(struct cf_corr_store *store, const unsigned char id[32])
{
    struct cf_wait added = {.first = CF_NONE, .last = CF_NONE, .next = CF_NONE};
    uint32_t i = store->head.free_wait;

    memcpy(added.id, id, sizeof added.id);
    if (i == CF_NONE) {
        i = cf_vec_push(&store->waits, &added);
    } else {
        store->head.free_wait = wait_at(store, i)->next;
        *wait_at(store, i) = added;
    }
    cf_table_insert(&store->by_wait, i, cf_store_hash(store, id, 32));
    return i;
}

static void
drop_wait(struct cf_corr_store *store, uint32_t i)
{
    cf_table_remove(&store->by_wait, i);
    wait_at(store, i)->next = store->head.free_wait;
    store->head.free_wait = i;
}

static void
wait_for_predecessor(struct cf_corr_store *store, uint32_t record)
{
    const struct cf_claim *claim = cf_claim_at(store, record);
    uint32_t i = find_wait(store, claim->predecessor);
    struct cf_wait *wait;

    if (i == CF_NONE)
        i = add_wait(store, claim->predecessor);
    wait = wait_at(store, i);
    if (wait->first == CF_NONE)
        wait->first = record;
    else
        cf_claim_at(store, wait->last)->next_waiting = record;
    wait->last = record;
}

static void
push_frontier(struct cf_corr_store *store, uint32_t i)
{
    struct cf_wait *wait = wait_at(store, i);

    wait->is_in_frontier = 1;
    wait->next = CF_NONE;
    if (store->head.frontier_first == CF_NONE)
        store->head.frontier_first = i;
    else
        wait_at(store, store->head.frontier_last)->next = i;
    store->head.frontier_last = i;
}

static uint32_t
pop_frontier(struct cf_corr_store *store)
{
    uint32_t i = store->head.frontier_first;

    store->head.frontier_first = wait_at(store, i)->next;
    if (store->head.frontier_first == CF_NONE)
        store->head.frontier_last = CF_NONE;
    wait_at(store, i)->is_in_frontier = 0;
    return i;
}

/* A decided event whose children wait joins the frontier once. */
static void
release_children(struct cf_corr_store *store, uint32_t event)
{
    uint32_t i = find_wait(store, cf_event_at(store, event)->id);

    if (i != CF_NONE && !wait_at(store, i)->is_in_frontier)
        push_frontier(store, i);
}

/* Decides the first waiting claim of an entry. It cannot be pending again: what it waited for
 * is stored and decided, else the entry were not in the frontier. */
static void
resolve_first(struct cf_corr_store *store, uint32_t entry)
{
    struct cf_wait *wait = wait_at(store, entry);
    uint32_t record = wait->first;
    struct cf_claim *claim = cf_claim_at(store, record);

    wait->first = claim->next_waiting;
    claim->next_waiting = CF_NONE;
    decide(store, record, judge(store, claim));
    release_children(store, claim->event);
}

static bool
run_batch(struct cf_corr_store *store, int64_t now_ms)
{
    unsigned left = CF_CORR_BATCH_ITEMS;

    if (store->head.frontier_first == CF_NONE)
        return false;
    while (left > 0 && store->head.frontier_first != CF_NONE) {
        uint32_t entry = pop_frontier(store);
        for (; left > 0 && wait_at(store, entry)->first != CF_NONE; left--)
            resolve_first(store, entry);
        if (wait_at(store, entry)->first != CF_NONE)
            push_frontier(store, entry); /* behind the others: a wide family starves nobody */
        else
            drop_wait(store, entry);
    }
    store->head.last_change_ms = now_ms;
    return true;
}

int
cf_lineage_room(struct cf_corr_store *store)
{
    return cf_vec_room(&store->claims, 1) < 0 || cf_vec_room(&store->waits, 1) < 0 ||
                   cf_table_room(&store->by_wait, store->waits.count) < 0
               ? -1
               : 0;
}

void
cf_lineage_add(struct cf_corr_store *store, uint32_t event, uint32_t record, int64_t now_ms)
{
    bool is_decided = true;

    if (record != CF_NONE) {
        enum cf_corr_lineage lineage = judge(store, cf_claim_at(store, record));
        decide(store, record, lineage);
        is_decided = lineage != CF_CORR_PENDING;
        if (!is_decided)
            wait_for_predecessor(store, record);
    }
    if (is_decided)
        release_children(store, event);
    (void)run_batch(store, now_ms);
}

bool
cf_corr_store_is_incomplete(const struct cf_corr_store *store)
{
    return store->head.frontier_first != CF_NONE;
}

bool
cf_corr_store_reconcile(struct cf_corr_store *store, int64_t now_ms)
{
    return run_batch(store, now_ms);
}

const char *
cf_corr_lineage_name(enum cf_corr_lineage lineage)
{
    static const char *const names[] = {"not_applicable", "pending", "valid", "invalid"};

    return (unsigned)lineage < CF_COUNT(names) ? names[lineage] : "not_applicable";
}

bool
cf_corr_store_state(const struct cf_corr_store *store, uint64_t received_seq, int64_t now_ms,
                    struct cf_corr_state *ret_state)
{
    const struct cf_stored *stored;
    const struct cf_claim *claim;

    if (received_seq == 0 || received_seq > store->events.count)
        return false;
    stored = cf_event_at(store, (uint32_t)received_seq - 1);
    memset(ret_state, 0, sizeof *ret_state);
    cf_id_print(stored->id, ret_state->event_id);
    if (stored->claim == CF_NONE)
        return true;
    claim = cf_claim_at(store, stored->claim);
    ret_state->lineage = claim->lineage;
    ret_state->is_tip = claim->is_tip;
    ret_state->is_active =
        claim->is_tip && claim->kind != CF_CLAIM_RELEASE && claim->expires_at_ms > now_ms;
    ret_state->is_conflicted = claim->is_tip && cf_group_at(store, claim->group)->tips > 1;
    return true;
}
