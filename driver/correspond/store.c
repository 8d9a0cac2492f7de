/*
 * The store: which events arrived, in which order, and what can be looked up about them. Room
 * is made before anything changes, so an event is stored whole or not at all.
 */
#include "correspond/store.h"

#include "base/error.h"
#include "base/ids.h"
#include "correspond/words.h"

#include <sodium.h>
#include <stdlib.h>
#include <string.h>

static const char *
fetch_kept(void *user, uint64_t where, size_t *ret_len)
{
    const struct cf_corr_store *store = user;
    const char *text = CF_AT(char, &store->kept, where);

    *ret_len = strlen(text);
    return text;
}

struct cf_corr_store *
cf_corr_store_new(const char *project_id, cf_corr_fetch_fn *fetch, void *user)
{
    struct cf_corr_store *store;

    if (cf_corr_check_uuid(project_id, strlen(project_id)) != NULL)
        return NULL;
    store = calloc(1, sizeof *store);
    if (store == NULL)
        return NULL;
    cf_store_init_arrays(store);
    memcpy(store->head.project_id, project_id, sizeof store->head.project_id);
    cf_random(store->head.key, sizeof store->head.key);
    store->head.last_change_ms = CF_NO_TIME;
    store->head.frontier_first = store->head.frontier_last = store->head.free_wait = CF_NONE;
    store->head.tips_by_group.root = store->head.tips_by_expiry.root = CF_NONE;
    store->fetch = fetch != NULL ? fetch : fetch_kept;
    store->user = fetch != NULL ? user : store;
    return store;
}

void
cf_corr_store_free(struct cf_corr_store *store)
{
    struct cf_vec *list[CF_STORE_ARRAYS];
    size_t n;

    if (store == NULL)
        return;
    n = cf_store_list_arrays(store, list);
    for (size_t i = 0; i < n; i++)
        cf_vec_release(list[i]);
    cf_vec_release(&store->kept);
    free(store);
}

uint32_t
cf_store_hash(const struct cf_corr_store *store, const void *bytes, size_t len)
{
    unsigned char hash[crypto_shorthash_BYTES];
    uint32_t word;

    crypto_shorthash(hash, bytes, len, store->head.key);
    memcpy(&word, hash, sizeof word);
    return word;
}

uint32_t
cf_store_find_event(const struct cf_corr_store *store, const unsigned char id[32])
{
    uint32_t i = cf_table_first(&store->by_id, cf_store_hash(store, id, 32));

    while (i != CF_NONE && memcmp(cf_event_at(store, i)->id, id, 32) != 0)
        i = cf_table_next(&store->by_id, i);
    return i;
}

uint32_t
cf_store_find_text(const struct cf_corr_store *store, const char *bytes, size_t len)
{
    uint32_t i = cf_table_first(&store->by_text, cf_store_hash(store, bytes, len));

    while (i != CF_NONE && (CF_AT(struct cf_text, &store->texts, i)->len != len ||
                            memcmp(cf_text_at(store, i), bytes, len) != 0))
        i = cf_table_next(&store->by_text, i);
    return i;
}

static uint32_t
hash_focus(const struct cf_corr_store *store, uint32_t repository, uint32_t thread)
{
    const uint32_t key[2] = {repository, thread};

    return cf_store_hash(store, key, sizeof key);
}

uint32_t
cf_store_find_focus(const struct cf_corr_store *store, uint32_t repository, uint32_t thread)
{
    uint32_t i = cf_table_first(&store->by_focus, hash_focus(store, repository, thread));

    while (i != CF_NONE &&
           (CF_AT(struct cf_focus, &store->foci, i)->repository != repository ||
            CF_AT(struct cf_focus, &store->foci, i)->thread != thread))
        i = cf_table_next(&store->by_focus, i);
    return i;
}

static uint32_t
hash_slot(const struct cf_corr_store *store, uint32_t session, uint64_t session_seq)
{
    const uint64_t key[2] = {session, session_seq};

    return cf_store_hash(store, key, sizeof key);
}

uint32_t
cf_store_find_slot(const struct cf_corr_store *store, uint32_t session, uint64_t session_seq)
{
    uint32_t i = cf_table_first(&store->by_slot, hash_slot(store, session, session_seq));

    while (i != CF_NONE && (cf_event_at(store, i)->session != session ||
                            cf_event_at(store, i)->session_seq != session_seq))
        i = cf_table_next(&store->by_slot, i);
    return i;
}

/* The interned text, added when new; room was made. */
static uint32_t
keep_text(struct cf_corr_store *store, const char *bytes, size_t len)
{
    uint32_t i = cf_store_find_text(store, bytes, len);
    struct cf_text text = {store->bytes.count, (uint32_t)len};

    if (i != CF_NONE)
        return i;
    memcpy(CF_AT(char, &store->bytes, text.at), bytes, len);
    *CF_AT(char, &store->bytes, text.at + len) = '\0';
    store->bytes.count += (uint32_t)len + 1;
    i = cf_vec_push(&store->texts, &text);
    cf_table_insert(&store->by_text, i, cf_store_hash(store, bytes, len));
    return i;
}

static uint32_t
keep_session(struct cf_corr_store *store, const struct cf_corr_event_view *view)
{
    struct cf_session key;
    uint32_t hash, i;

    cf_uuid_pack(view->identity_id, key.identity);
    cf_uuid_pack(view->device_id, key.device);
    cf_uuid_pack(view->session_id, key.session);
    hash = cf_store_hash(store, &key, sizeof key);
    for (i = cf_table_first(&store->by_session, hash); i != CF_NONE;
         i = cf_table_next(&store->by_session, i)) {
        if (memcmp(CF_AT(struct cf_session, &store->sessions, i), &key, sizeof key) == 0)
            return i;
    }
    i = cf_vec_push(&store->sessions, &key);
    cf_table_insert(&store->by_session, i, hash);
    return i;
}

/* Makes `event` the newest of its focus; returns the one that was. */
static uint32_t
enter_focus(struct cf_corr_store *store, uint32_t repository, uint32_t thread, uint32_t event)
{
    uint32_t i = cf_store_find_focus(store, repository, thread), before;
    struct cf_focus added = {repository, thread, event};

    if (i == CF_NONE) {
        i = cf_vec_push(&store->foci, &added);
        cf_table_insert(&store->by_focus, i, hash_focus(store, repository, thread));
        return CF_NONE;
    }
    before = CF_AT(struct cf_focus, &store->foci, i)->newest;
    CF_AT(struct cf_focus, &store->foci, i)->newest = event;
    return before;
}

static void
join_fork(struct cf_corr_store *store, struct cf_fork *fork, uint32_t event)
{
    const unsigned char *id = cf_event_at(store, event)->id;
    uint32_t at = fork->shown;

    fork->count++;
    while (at > 0 && memcmp(cf_event_at(store, fork->lowest[at - 1])->id, id, 32) > 0)
        at--;
    if (at == 17)
        return;
    if (fork->shown < 17)
        fork->shown++;
    memmove(&fork->lowest[at + 1], &fork->lowest[at],
            (fork->shown - 1 - at) * sizeof fork->lowest[0]);
    fork->lowest[at] = event;
}

static void
enter_slot(struct cf_corr_store *store, uint32_t event)
{
    struct cf_stored *stored = cf_event_at(store, event), *first;
    uint32_t head = cf_store_find_slot(store, stored->session, stored->session_seq);
    static const struct cf_fork empty;

    if (head == CF_NONE) {
        cf_table_insert(&store->by_slot, event,
                        hash_slot(store, stored->session, stored->session_seq));
        return;
    }
    first = cf_event_at(store, head);
    if (first->fork == CF_NONE) {
        first->fork = cf_vec_push(&store->forks, &empty);
        join_fork(store, CF_AT(struct cf_fork, &store->forks, first->fork), head);
    }
    join_fork(store, CF_AT(struct cf_fork, &store->forks, first->fork), event);
}

static uint32_t
keep_group(struct cf_corr_store *store, uint32_t repository, const char *claim_id)
{
    struct cf_group key = {.repository = repository};
    unsigned char bytes[20];
    uint32_t hash, i;

    cf_uuid_pack(claim_id, key.claim_id);
    memcpy(bytes, key.claim_id, 16);
    memcpy(bytes + 16, &repository, 4);
    hash = cf_store_hash(store, bytes, sizeof bytes);
    for (i = cf_table_first(&store->by_group, hash); i != CF_NONE;
         i = cf_table_next(&store->by_group, i)) {
        const struct cf_group *group = cf_group_at(store, i);
        if (group->repository == repository && memcmp(group->claim_id, key.claim_id, 16) == 0)
            return i;
    }
    i = cf_vec_push(&store->groups, &key);
    cf_table_insert(&store->by_group, i, hash);
    return i;
}

/* The path prefixes in signed order, a NUL between two; `out` NULL: only how long that is. */
static size_t
list_paths(const struct cf_corr_event *event, char *out)
{
    size_t len = 0;

    for (const struct cf_node *n = cf_value_child(event->value, event->paths); n != NULL;
         n = cf_value_next(event->value, n)) {
        if (len > 0 && out != NULL)
            out[len] = '\0';
        len += len > 0;
        if (out != NULL)
            memcpy(out + len, n->text, n->len);
        len += n->len;
    }
    return len;
}

static uint32_t
keep_claim(struct cf_corr_store *store, const struct cf_corr_event *event, uint32_t stored,
           uint32_t repository, const char *paths, size_t paths_len)
{
    const struct cf_corr_event_view *view = &event->view;
    struct cf_claim claim = {
        .generation = view->generation,
        .expires_at_ms = view->expires_at_ms,
        .event = stored,
        .group = keep_group(store, repository, view->claim_id),
        .paths = keep_text(store, paths, paths_len),
        .next_waiting = CF_NONE,
        .by_group = {CF_NONE, CF_NONE, cf_store_hash(store, event->id_bytes, 32)},
        .by_expiry = {CF_NONE, CF_NONE, cf_store_hash(store, event->id_bytes, 31)},
        .kind = strcmp(view->kind, "claim.open") == 0    ? CF_CLAIM_OPEN
                : strcmp(view->kind, "claim.renew") == 0 ? CF_CLAIM_RENEW
                                                         : CF_CLAIM_RELEASE,
    };

    if (view->predecessor_event_id != NULL)
        cf_id_pack(view->predecessor_event_id, claim.predecessor);
    return cf_vec_push(&store->claims, &claim);
}

/* Room for all that one event can add. */
static int
make_room(struct cf_corr_store *s, const struct cf_corr_event *event, size_t paths_len,
          size_t kept_len)
{
    size_t bytes =
        strlen(event->view.repository_id) + strlen(event->view.thread_id) + paths_len + 3;

    if (cf_vec_room(&s->events, 1) < 0 || cf_table_room(&s->by_id, s->events.count) < 0 ||
        cf_table_room(&s->by_slot, s->events.count) < 0 || cf_vec_room(&s->sessions, 1) < 0 ||
        cf_table_room(&s->by_session, s->sessions.count) < 0 ||
        cf_vec_room(&s->forks, 1) < 0 || cf_vec_room(&s->foci, 2) < 0 ||
        cf_table_room(&s->by_focus, s->foci.count + 1) < 0 ||
        cf_vec_room(&s->by_focus.buckets, 2) < 0 || cf_vec_room(&s->texts, 3) < 0 ||
        cf_table_room(&s->by_text, s->texts.count + 2) < 0 ||
        cf_vec_room(&s->by_text.buckets, 3) < 0 ||
        cf_vec_room(&s->bytes, (uint32_t)bytes) < 0 || cf_vec_room(&s->groups, 1) < 0 ||
        cf_table_room(&s->by_group, s->groups.count) < 0 ||
        cf_vec_room(&s->kept, (uint32_t)kept_len) < 0)
        return -1;
    return cf_lineage_room(s);
}

static void
store_event(struct cf_corr_store *store, const struct cf_corr_event *event, const char *paths,
            size_t paths_len, int64_t now_ms, uint64_t where)
{
    const struct cf_corr_event_view *view = &event->view;
    struct cf_stored added = {
        .where = where,
        .session_seq = view->session_seq,
        .received_at_ms = now_ms,
        .session = keep_session(store, view),
        .repository = keep_text(store, view->repository_id, strlen(view->repository_id)),
        .thread = keep_text(store, view->thread_id, strlen(view->thread_id)),
        .claim = CF_NONE,
        .fork = CF_NONE,
    };
    uint32_t i = store->events.count;

    memcpy(added.id, event->id_bytes, sizeof added.id);
    added.previous_in_repository = enter_focus(store, added.repository, CF_NONE, i);
    added.previous_in_thread = enter_focus(store, added.repository, added.thread, i);
    if (view->claim_id != NULL)
        added.claim = keep_claim(store, event, i, added.repository, paths, paths_len);
    cf_vec_push(&store->events, &added);
    cf_table_insert(&store->by_id, i, cf_store_hash(store, added.id, sizeof added.id));
    enter_slot(store, i);
    cf_lineage_add(store, i, added.claim, now_ms);
}

static int
append_new(struct cf_corr_store *store, const struct cf_corr_event *event, int64_t now_ms,
           uint64_t where, struct cf_corr_refusal *refusal)
{
    size_t paths_len = event->view.claim_id == NULL ? 0 : list_paths(event, NULL),
           kept_len = 0;
    char *paths = malloc(paths_len + 1), *kept = NULL;
    int status = paths == NULL ? -1 : 0;

    if (store->fetch == fetch_kept && (kept = cf_corr_event_text(event, &kept_len)) == NULL)
        status = -1;
    if (status == 0)
        status = make_room(store, event, paths_len, kept_len + 1);
    if (status == 0) {
        if (paths_len > 0)
            list_paths(event, paths);
        if (kept != NULL) {
            where = store->kept.count;
            memcpy(CF_AT(char, &store->kept, where), kept, kept_len + 1);
            store->kept.count += (uint32_t)kept_len + 1;
        }
        store_event(store, event, paths, paths_len, now_ms, where);
    }
    free(kept);
    free(paths);
    return status == 0 ? 0 : cf_corr_refuse(refusal, "out_of_memory", "", -1);
}

/* An exact retry; the guard of stage 9 can only fire over a damaged store. */
static int
check_same(const struct cf_corr_store *store, uint32_t stored,
           const struct cf_corr_event *event, struct cf_corr_refusal *refusal)
{
    size_t kept_len, len;
    const char *kept = store->fetch(store->user, cf_event_at(store, stored)->where, &kept_len);
    char *text = cf_corr_event_text(event, &len);
    bool is_same =
        kept == NULL || (text != NULL && len == kept_len && memcmp(kept, text, len) == 0);

    free(text);
    if (text == NULL)
        return cf_corr_refuse(refusal, "out_of_memory", "", -1);
    return is_same ? 0 : cf_corr_refuse(refusal, "event_id_collision", "/event_id", -1);
}

int
cf_corr_store_append(struct cf_corr_store *store, const struct cf_corr_event *event,
                     int64_t now_ms, uint64_t where, struct cf_corr_receipt *ret_receipt,
                     struct cf_corr_refusal *refusal)
{
    uint32_t i;
    bool is_new;

    if (event->form != CF_CORR_FULL)
        return cf_corr_refuse(refusal, "event_id_required", "/event_id", -1);
    if (strcmp(event->view.project_id, store->head.project_id) != 0)
        return cf_corr_refuse(refusal, "project_mismatch", "/project_id", -1);
    if (cf_corr_event_check_id(event, refusal) < 0)
        return -1;
    i = cf_store_find_event(store, event->id_bytes);
    is_new = i == CF_NONE;
    if (is_new) {
        i = store->events.count;
        if (append_new(store, event, now_ms, where, refusal) < 0)
            return -1;
    } else {
        if (check_same(store, i, event, refusal) < 0)
            return -1;
        (void)cf_corr_store_reconcile(store, now_ms);
    }
    *ret_receipt = (struct cf_corr_receipt){(uint64_t)i + 1,
                                            cf_event_at(store, i)->received_at_ms, is_new};
    return 0;
}

bool
cf_corr_store_find(const struct cf_corr_store *store, const char *event_id,
                   struct cf_corr_receipt *ret_receipt)
{
    unsigned char id[32];
    uint32_t i;

    if (cf_corr_check_event_id(event_id, strlen(event_id)) != NULL)
        return false;
    cf_id_pack(event_id, id);
    i = cf_store_find_event(store, id);
    if (i == CF_NONE)
        return false;
    *ret_receipt = (struct cf_corr_receipt){(uint64_t)i + 1,
                                            cf_event_at(store, i)->received_at_ms, false};
    return true;
}

uint64_t
cf_corr_store_last_seq(const struct cf_corr_store *store)
{
    return store->events.count;
}

uint64_t
cf_corr_store_where(const struct cf_corr_store *store, uint64_t received_seq)
{
    return cf_event_at(store, (uint32_t)received_seq - 1)->where;
}

const char *
cf_corr_store_project(const struct cf_corr_store *store)
{
    return store->head.project_id;
}

struct cf_corr_event *
cf_store_read(const struct cf_corr_store *store, uint32_t event, struct cf_error *err)
{
    struct cf_corr_event *read = NULL;
    struct cf_corr_refusal refusal;
    size_t len;
    const char *text = store->fetch(store->user, cf_event_at(store, event)->where, &len);

    if (text == NULL) {
        (void)cf_error_set(err, CF_ERROR_INTERNAL, 0, "event %u cannot be read back",
                           event + 1);
        return NULL;
    }
    if (cf_corr_event_parse(text, len, CF_CORR_FULL, &read, &refusal) < 0) {
        (void)cf_corr_refusal_error(&refusal, err);
        (void)cf_error_wrap(err, "event %u read back", event + 1);
        return NULL;
    }
    return read;
}
