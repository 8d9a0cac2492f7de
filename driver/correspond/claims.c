/* The active-claims projection: what is live now, who competes, and whether that is all of it.
 */
#include "correspond/store.h"

#include "base/error.h"
#include "correspond/words.h"

#include <stdlib.h>
#include <string.h>

#define CANDIDATES_MAX 512u
#define ROWS_MAX 128u
#define RIVALS_MAX 16u

/* Whether the claim's scope meets `path`. */
static bool
is_scope_near(const struct cf_corr_store *store, const struct cf_claim *claim,
              const char *path)
{
    const char *at = cf_text_at(store, claim->paths);
    const char *end = at + CF_AT(struct cf_text, &store->texts, claim->paths)->len;

    for (; at <= end; at += strlen(at) + 1) {
        if (cf_corr_paths_overlap(at, path))
            return true;
    }
    return false;
}

/* Filters come before bounds: what does not match does not count. */
static void
pick_in_repository(const struct cf_corr_store *store, uint32_t repository,
                   const struct cf_corr_query *query, int64_t now_ms, struct cf_picked *picked)
{
    uint32_t thread = CF_NONE;

    if (query->thread_id != NULL) {
        thread = cf_store_find_text(store, query->thread_id, strlen(query->thread_id));
        if (thread == CF_NONE)
            return;
    }
    for (uint32_t c = cf_live_first(store, repository, now_ms);
         c != CF_NONE && picked->count <= CANDIDATES_MAX; c = cf_live_next(store, c)) {
        const struct cf_claim *claim = cf_claim_at(store, c);
        if (thread != CF_NONE && cf_event_at(store, claim->event)->thread != thread)
            continue;
        if (query->path != NULL && !is_scope_near(store, claim, query->path))
            continue;
        picked->claims[picked->count++] = c;
    }
}

static int
compare_rows(const struct cf_corr_store *store, uint32_t left, uint32_t right)
{
    const struct cf_claim *a = cf_claim_at(store, left), *b = cf_claim_at(store, right);
    int order;

    if (a->expires_at_ms != b->expires_at_ms)
        return a->expires_at_ms < b->expires_at_ms ? -1 : 1;
    order = memcmp(cf_group_at(store, a->group)->claim_id,
                   cf_group_at(store, b->group)->claim_id, 16);
    return order != 0 ? order
                      : memcmp(cf_event_at(store, a->event)->id,
                               cf_event_at(store, b->event)->id, 32);
}

/* Puts another repository's candidates among those already picked; both are in order. */
static void
merge_picked(const struct cf_corr_store *store, struct cf_picked *into,
             const struct cf_picked *more)
{
    struct cf_picked merged = {.count = 0};
    uint32_t a = 0, b = 0;

    while (merged.count <= CANDIDATES_MAX && (a < into->count || b < more->count)) {
        bool take_a =
            b == more->count ||
            (a < into->count && compare_rows(store, into->claims[a], more->claims[b]) < 0);
        merged.claims[merged.count++] = take_a ? into->claims[a++] : more->claims[b++];
    }
    *into = merged;
}

void
cf_pick_claims(const struct cf_corr_store *store, const struct cf_corr_query *query,
               int64_t now_ms, struct cf_picked *ret_picked)
{
    uint32_t repository;

    memset(ret_picked, 0, sizeof *ret_picked);
    if (query->repository_id != NULL) {
        repository =
            cf_store_find_text(store, query->repository_id, strlen(query->repository_id));
        if (repository != CF_NONE)
            pick_in_repository(store, repository, query, now_ms, ret_picked);
    }
    for (uint32_t i = 0; query->repository_id == NULL && i < store->foci.count; i++) {
        const struct cf_focus *focus = CF_AT(struct cf_focus, &store->foci, i);
        struct cf_picked more = {.count = 0};
        if (focus->thread != CF_NONE)
            continue;
        pick_in_repository(store, focus->repository, query, now_ms, &more);
        merge_picked(store, ret_picked, &more);
    }
    ret_picked->is_truncated =
        ret_picked->count > ROWS_MAX || cf_corr_store_is_incomplete(store);
    if (ret_picked->count > ROWS_MAX)
        ret_picked->count = ROWS_MAX;
}

static int
compare_ids(const void *a, const void *b)
{
    return memcmp(*(const unsigned char *const *)a, *(const unsigned char *const *)b, 32);
}

/* Other tips of the same claim, expired and released ones too: at most 16 of the 18 that come
 * first. *ret_all is false when there are more. */
static void
put_rivals(struct cf_buf *to, const struct cf_corr_store *store, uint32_t claim, bool *ret_all)
{
    const unsigned char *ids[RIVALS_MAX + 1];
    char id[CF_CORR_ID_SIZE];
    unsigned n = 0, looked = 0;

    for (uint32_t c = cf_tips_first(store, cf_claim_at(store, claim)->group);
         c != CF_NONE && looked < RIVALS_MAX + 2; c = cf_tips_next(store, c), looked++) {
        if (c != claim && n < RIVALS_MAX + 1)
            ids[n++] = cf_event_at(store, cf_claim_at(store, c)->event)->id;
    }
    *ret_all = n <= RIVALS_MAX;
    qsort(ids, n, sizeof ids[0], compare_ids);
    if (n > RIVALS_MAX)
        n = RIVALS_MAX;
    for (unsigned i = 0; i < n; i++) {
        cf_id_print(ids[i], id);
        cf_buf_addf(to, "%s\"%s\"", i == 0 ? "" : ",", id);
    }
}

static void
put_scope(struct cf_buf *to, const struct cf_corr_event *event)
{
    const struct cf_node *scope =
        cf_value_member(event->value, &event->value->nodes[0], "scope");
    char *room = cf_buf_reserve(to, event->canonical_len);

    if (room != NULL)
        cf_buf_wrote(to, (size_t)(cf_value_write(event->value, scope, room) - room));
}

static int
put_row(struct cf_buf *to, const struct cf_corr_store *store, uint32_t record, bool *ret_all,
        struct cf_error *err)
{
    const struct cf_claim *claim = cf_claim_at(store, record);
    struct cf_corr_event *event = cf_store_read(store, claim->event, err);
    const struct cf_corr_event_view *view;
    char expires[CF_CORR_TIME_SIZE];
    bool is_conflicted = cf_group_at(store, claim->group)->tips > 1;

    if (event == NULL)
        return -1;
    view = &event->view;
    cf_corr_time_format(claim->expires_at_ms, expires);
    cf_buf_addf(to,
                "{\"claim_id\":\"%s\",\"generation\":%llu,\"event_id\":\"%s\",\"owner_"
                "identity_id\":\"%s\","
                "\"device_id\":\"%s\",\"session_id\":\"%s\",\"thread_id\":",
                view->claim_id, (unsigned long long)view->generation, view->id,
                view->identity_id, view->device_id, view->session_id);
    cf_corr_put_string(to, view->thread_id);
    cf_buf_adds(to, ",\"scope\":");
    put_scope(to, event);
    cf_buf_addf(to, ",\"expires_at\":\"%s\",\"conflicted\":%s,\"competing_event_ids\":[",
                expires, is_conflicted ? "true" : "false");
    put_rivals(to, store, record, ret_all);
    cf_buf_adds(to, "]}");
    cf_corr_event_free(event);
    return 0;
}

int
cf_put_claim_rows(struct cf_buf *to, const struct cf_corr_store *store,
                  struct cf_picked *picked, struct cf_error *err)
{
    for (uint32_t i = 0; i < picked->count; i++) {
        bool is_all;
        if (i > 0)
            cf_buf_adds(to, ",");
        if (put_row(to, store, picked->claims[i], &is_all, err) < 0)
            return -1;
        if (!is_all)
            picked->is_truncated = true;
    }
    return 0;
}

/* A version stamp, not the time of asking: two reads with no change in between are the same
 * bytes. */
static int64_t
evaluated_at(const struct cf_corr_store *store, const struct cf_corr_query *query,
             int64_t now_ms)
{
    int64_t latest, passed;
    uint32_t repository;

    if (store->events.count == 0)
        return 0;
    latest = cf_event_at(store, store->events.count - 1)->received_at_ms;
    if (store->head.last_change_ms > latest)
        latest = store->head.last_change_ms;
    if (query->repository_id != NULL) {
        repository =
            cf_store_find_text(store, query->repository_id, strlen(query->repository_id));
        passed = repository == CF_NONE ? CF_NO_TIME
                                       : cf_live_last_expired(store, repository, now_ms);
        return passed > latest ? passed : latest;
    }
    for (uint32_t i = 0; i < store->foci.count; i++) {
        const struct cf_focus *focus = CF_AT(struct cf_focus, &store->foci, i);
        passed = focus->thread != CF_NONE
                     ? CF_NO_TIME
                     : cf_live_last_expired(store, focus->repository, now_ms);
        if (passed > latest)
            latest = passed;
    }
    return latest;
}

void
cf_put_projection_head(struct cf_buf *to, const struct cf_corr_store *store,
                       const struct cf_corr_query *query, int64_t now_ms, bool is_truncated)
{
    char at[CF_CORR_TIME_SIZE];

    cf_corr_time_format(evaluated_at(store, query, now_ms), at);
    cf_buf_addf(to,
                "\"protocol\":\"" CF_CORR_PROTOCOL
                "\",\"scope\":\"project_private\",\"evaluated_at\":\"%s\",",
                at);
    if (store->events.count == 0)
        cf_buf_adds(to, "\"cursor\":null");
    else
        cf_buf_addf(to, "\"cursor\":\"%u\"", store->events.count);
    cf_buf_addf(to, ",\"projection_status\":\"%s\",\"truncated\":%s",
                is_truncated ? "truncated" : "complete", is_truncated ? "true" : "false");
}

char *
cf_corr_store_claims(const struct cf_corr_store *store, const struct cf_corr_query *query,
                     int64_t now_ms, size_t *ret_len, struct cf_error *err)
{
    struct cf_picked picked;
    struct cf_buf rows, out;
    int status;

    cf_buf_init(&rows, 0);
    cf_buf_init(&out, 0);
    cf_pick_claims(store, query, now_ms, &picked);
    status = cf_put_claim_rows(&rows, store, &picked, err);
    cf_buf_adds(&out, "{");
    cf_put_projection_head(&out, store, query, now_ms, picked.is_truncated);
    cf_buf_adds(&out, ",\"claims\":[");
    cf_buf_add(&out, rows.data, rows.len);
    cf_buf_adds(&out, "]}");
    if (status == 0 && (rows.failed || out.failed))
        status = cf_error_memory(err);
    cf_buf_release(&rows);
    if (status == 0)
        return cf_buf_take(&out, ret_len);
    cf_buf_release(&out);
    (void)cf_error_wrap(err,
                        "correspondence_projection_unavailable"); /* never an empty success */
    return NULL;
}

/* The broader of two prefixes that meet, or NULL. */
static const char *
meeting_path(const struct cf_corr_store *store, const struct cf_claim *claim,
             const char *const *paths, size_t count)
{
    const char *at = cf_text_at(store, claim->paths);
    const char *end = at + CF_AT(struct cf_text, &store->texts, claim->paths)->len;

    for (; at <= end; at += strlen(at) + 1) {
        for (size_t i = 0; i < count; i++) {
            if (!cf_corr_paths_overlap(at, paths[i]))
                continue;
            if (strcmp(at, ".") == 0 || strcmp(paths[i], ".") == 0)
                return ".";
            return strlen(at) <= strlen(paths[i]) ? at : paths[i];
        }
    }
    return NULL;
}

static void
tell_overlap(const struct cf_corr_store *store, const struct cf_claim *claim, const char *path,
             void (*fn)(void *user, const struct cf_corr_overlap *overlap), void *user)
{
    const struct cf_stored *stored = cf_event_at(store, claim->event);
    char event_id[CF_CORR_ID_SIZE], claim_id[CF_CORR_UUID_SIZE],
        identity_id[CF_CORR_UUID_SIZE];
    struct cf_corr_overlap overlap = {event_id,    claim_id,
                                      identity_id, cf_text_at(store, stored->thread),
                                      path,        claim->expires_at_ms};

    cf_id_print(stored->id, event_id);
    cf_uuid_print(cf_group_at(store, claim->group)->claim_id, claim_id);
    cf_uuid_print(CF_AT(struct cf_session, &store->sessions, stored->session)->identity,
                  identity_id);
    fn(user, &overlap);
}

size_t
cf_corr_store_overlaps(const struct cf_corr_store *store, const char *repository_id,
                       const char *const *paths, size_t path_count,
                       const char *except_claim_id, int64_t now_ms,
                       void (*fn)(void *user, const struct cf_corr_overlap *overlap),
                       void *user)
{
    uint32_t repository = cf_store_find_text(store, repository_id, strlen(repository_id));
    unsigned char except[16] = {0};
    size_t n = 0;

    if (repository == CF_NONE)
        return 0;
    if (except_claim_id != NULL)
        cf_uuid_pack(except_claim_id, except);
    for (uint32_t c = cf_live_first(store, repository, now_ms); c != CF_NONE && n < ROWS_MAX;
         c = cf_live_next(store, c)) {
        const struct cf_claim *claim = cf_claim_at(store, c);
        const char *path = meeting_path(store, claim, paths, path_count);
        if (path == NULL ||
            (except_claim_id != NULL &&
             memcmp(cf_group_at(store, claim->group)->claim_id, except, sizeof except) == 0))
            continue;
        tell_overlap(store, claim, path, fn, user);
        n++;
    }
    return n;
}
