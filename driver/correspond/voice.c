/* The voice snapshot: what was said lately, what is claimed, and where accounts disagree. */
#include "correspond/store.h"

#include "base/error.h"
#include "base/str.h"
#include "correspond/words.h"

#include <stdlib.h>
#include <string.h>

#define RECENT_MAX 50u
#define OVERLAPS_MAX 128u
#define OVERLAP_PATHS_MAX 16u
#define FORK_IDS_MAX 16u

struct voice {
    const struct cf_corr_store *store;
    uint32_t recent[RECENT_MAX + 1]; /* newest first */
    uint32_t recent_count;
    struct cf_picked picked;
    bool is_truncated;
    struct cf_buf out;
};

/* The newest event of the focus, and the one before another in it. */
static uint32_t
newest_in(const struct cf_corr_store *store, uint32_t repository, uint32_t thread)
{
    uint32_t focus = cf_store_find_focus(store, repository, thread);

    return focus == CF_NONE ? CF_NONE : CF_AT(struct cf_focus, &store->foci, focus)->newest;
}

static void
pick_recent(struct voice *v, const struct cf_corr_query *query)
{
    const struct cf_corr_store *store = v->store;
    uint32_t repository = CF_NONE, thread = CF_NONE, event;

    if (query->repository_id != NULL) {
        repository =
            cf_store_find_text(store, query->repository_id, strlen(query->repository_id));
        if (repository == CF_NONE)
            return;
    }
    if (query->thread_id != NULL) {
        thread = cf_store_find_text(store, query->thread_id, strlen(query->thread_id));
        if (thread == CF_NONE)
            return;
    }
    event =
        repository != CF_NONE ? newest_in(store, repository, thread) : store->events.count - 1;
    while (event != CF_NONE && v->recent_count <= RECENT_MAX) {
        const struct cf_stored *stored = cf_event_at(store, event);
        if (repository != CF_NONE || thread == CF_NONE || stored->thread == thread)
            v->recent[v->recent_count++] = event;
        if (repository == CF_NONE)
            event--; /* 0 becomes CF_NONE */
        else
            event = thread == CF_NONE ? stored->previous_in_repository
                                      : stored->previous_in_thread;
    }
    if (v->recent_count > RECENT_MAX) {
        v->recent_count = RECENT_MAX;
        v->is_truncated = true;
    }
}

static int
put_recent(struct voice *v, struct cf_error *err)
{
    for (uint32_t i = 0; i < v->recent_count; i++) {
        cf_buf_adds(&v->out, i == 0 ? "{" : ",{");
        if (cf_put_record(&v->out, v->store, v->recent[i], err) < 0)
            return -1;
        cf_buf_adds(&v->out, "}");
    }
    return 0;
}

static int
put_missing(struct voice *v, struct cf_error *err)
{
    unsigned rows = 0;
    struct cf_buf ids;

    cf_buf_init(&ids, 0);
    for (uint32_t i = 0; i < v->recent_count; i++) {
        struct cf_corr_event *event = cf_store_read(v->store, v->recent[i], err);
        if (event == NULL) {
            cf_buf_release(&ids);
            return -1;
        }
        cf_buf_reset(&ids);
        if (cf_put_missing_parents(&ids, v->store, event) > 0)
            cf_buf_addf(&v->out, "%s{\"event_id\":\"%s\",\"missing_parent_ids\":[%s]}",
                        rows++ == 0 ? "" : ",", event->view.id, ids.data);
        v->out.failed = v->out.failed || ids.failed;
        cf_corr_event_free(event);
    }
    cf_buf_release(&ids);
    return 0;
}

static void
put_fork(struct voice *v, uint32_t head, bool is_first)
{
    const struct cf_stored *stored = cf_event_at(v->store, head);
    const struct cf_session *session =
        CF_AT(struct cf_session, &v->store->sessions, stored->session);
    const struct cf_fork *fork = CF_AT(struct cf_fork, &v->store->forks, stored->fork);
    char identity[CF_CORR_UUID_SIZE], device[CF_CORR_UUID_SIZE], id[CF_CORR_UUID_SIZE];

    cf_uuid_print(session->identity, identity);
    cf_uuid_print(session->device, device);
    cf_uuid_print(session->session, id);
    cf_buf_addf(&v->out,
                "%s{\"identity_id\":\"%s\",\"device_id\":\"%s\",\"session_id\":\"%s\","
                "\"session_seq\":%llu,"
                "\"event_ids\":[",
                is_first ? "" : ",", identity, device, id,
                (unsigned long long)stored->session_seq);
    cf_put_fork_ids(&v->out, v->store, fork, CF_NONE);
    cf_buf_adds(&v->out, "]}");
    if (fork->count > FORK_IDS_MAX)
        v->is_truncated = true;
}

/* One row for each session and number among the recent events that several events share. */
static void
put_forks(struct voice *v)
{
    uint32_t shown[RECENT_MAX], rows = 0;

    for (uint32_t i = 0; i < v->recent_count; i++) {
        const struct cf_stored *stored = cf_event_at(v->store, v->recent[i]);
        uint32_t head = cf_store_find_slot(v->store, stored->session, stored->session_seq),
                 at = 0;
        if (cf_event_at(v->store, head)->fork == CF_NONE)
            continue;
        while (at < rows && shown[at] != head)
            at++;
        if (at < rows)
            continue;
        put_fork(v, head, rows == 0);
        shown[rows++] = head;
    }
}

/* ---- where claims meet ---- */

/* The prefixes of one claim, in an order in which everything below a prefix follows it at
 * once. */
struct scope {
    const char *text[64];
    unsigned count;
};

/* '/' comes before every other character. */
static int
rank(char c)
{
    return c == '\0' ? 0 : c == '/' ? 1 : (unsigned char)c + 2;
}

static int
order_by_tree(const char *a, const char *b)
{
    while (*a == *b && *a != '\0') {
        a++;
        b++;
    }
    return rank(*a) - rank(*b);
}

static int
compare_by_tree(const void *a, const void *b)
{
    return order_by_tree(*(const char *const *)a, *(const char *const *)b);
}

static void
list_scope(const struct cf_corr_store *store, uint32_t record, struct scope *ret_scope)
{
    uint32_t text = cf_claim_at(store, record)->paths;
    const char *at = cf_text_at(store, text),
               *end = at + CF_AT(struct cf_text, &store->texts, text)->len;

    ret_scope->count = 0;
    for (; at <= end && ret_scope->count < CF_COUNT(ret_scope->text); at += strlen(at) + 1)
        ret_scope->text[ret_scope->count++] = at;
    qsort(ret_scope->text, ret_scope->count, sizeof ret_scope->text[0], compare_by_tree);
}

/* Whether `path` or something below it is in the scope: then it is the first not before it. */
static bool
has_at_or_below(const struct scope *scope, const char *path)
{
    unsigned low = 0, high = scope->count;
    size_t len = strlen(path);

    if (strcmp(path, ".") == 0)
        return scope->count > 0;
    while (low < high) {
        unsigned mid = (low + high) / 2;
        if (order_by_tree(scope->text[mid], path) < 0)
            low = mid + 1;
        else
            high = mid;
    }
    return low < scope->count && strncmp(scope->text[low], path, len) == 0 &&
           (scope->text[low][len] == '\0' || scope->text[low][len] == '/');
}

struct meeting {
    const char *text[128];
    unsigned count;
};

/* Adds what in `from` is broader than (or the same as) something in `other`, once each. */
static void
add_broader(struct meeting *to, const struct scope *from, const struct scope *other)
{
    for (unsigned i = 0; i < from->count; i++) {
        bool is_new = has_at_or_below(other, from->text[i]);
        for (unsigned k = 0; k < to->count && is_new; k++)
            is_new = strcmp(to->text[k], from->text[i]) != 0;
        if (is_new)
            to->text[to->count++] = from->text[i];
    }
}

static int
compare_paths(const void *a, const void *b)
{
    const char *left = *(const char *const *)a, *right = *(const char *const *)b;

    return cf_utf16_order(left, strlen(left), right, strlen(right));
}

static void
put_overlap(struct voice *v, uint32_t left, uint32_t right, struct meeting *meeting,
            bool is_first)
{
    char left_id[CF_CORR_ID_SIZE], right_id[CF_CORR_ID_SIZE];

    cf_id_print(cf_event_at(v->store, cf_claim_at(v->store, left)->event)->id, left_id);
    cf_id_print(cf_event_at(v->store, cf_claim_at(v->store, right)->event)->id, right_id);
    cf_buf_addf(&v->out, "%s{\"left_event_id\":\"%s\",\"right_event_id\":\"%s\",\"paths\":[",
                is_first ? "" : ",", left_id, right_id);
    qsort(meeting->text, meeting->count, sizeof meeting->text[0], compare_paths);
    if (meeting->count > OVERLAP_PATHS_MAX) {
        meeting->count = OVERLAP_PATHS_MAX;
        v->is_truncated = true;
    }
    for (unsigned i = 0; i < meeting->count; i++) {
        if (i > 0)
            cf_buf_adds(&v->out, ",");
        cf_corr_put_string(&v->out, meeting->text[i]);
    }
    cf_buf_adds(&v->out, "]}");
}

/* The same path in another repository is another path. */
static bool
is_same_repository(const struct voice *v, uint32_t left, uint32_t right)
{
    const struct cf_claim *a = cf_claim_at(v->store, left), *b = cf_claim_at(v->store, right);

    return cf_group_at(v->store, a->group)->repository ==
           cf_group_at(v->store, b->group)->repository;
}

/* A diagnostic of pairs, at most 128 x 127 / 2 of them; never a lock. */
static int
put_overlaps(struct voice *v, struct cf_error *err)
{
    struct scope *scopes = malloc((v->picked.count + 1) * sizeof *scopes);
    const uint32_t *claims = v->picked.claims;
    unsigned rows = 0;

    if (scopes == NULL)
        return cf_error_memory(err);
    for (uint32_t i = 0; i < v->picked.count; i++)
        list_scope(v->store, claims[i], &scopes[i]);
    for (uint32_t i = 0; i < v->picked.count && rows <= OVERLAPS_MAX; i++) {
        for (uint32_t j = i + 1; j < v->picked.count && rows <= OVERLAPS_MAX; j++) {
            struct meeting meeting = {.count = 0};
            if (!is_same_repository(v, claims[i], claims[j]))
                continue;
            add_broader(&meeting, &scopes[i], &scopes[j]);
            add_broader(&meeting, &scopes[j], &scopes[i]);
            if (meeting.count == 0)
                continue;
            if (rows < OVERLAPS_MAX)
                put_overlap(v, claims[i], claims[j], &meeting, rows == 0);
            else
                v->is_truncated = true;
            rows++;
        }
    }
    free(scopes);
    return 0;
}

static int
put_body(struct voice *v, struct cf_error *err)
{
    cf_buf_adds(&v->out, ",\"recent_events\":[");
    if (put_recent(v, err) < 0)
        return -1;
    cf_buf_adds(&v->out, "],\"active_claims\":[");
    if (cf_put_claim_rows(&v->out, v->store, &v->picked, err) < 0)
        return -1;
    cf_buf_adds(&v->out, "],\"conflicts\":{\"missing_parents\":[");
    if (put_missing(v, err) < 0)
        return -1;
    cf_buf_adds(&v->out, "],\"session_forks\":[");
    put_forks(v);
    cf_buf_adds(&v->out, "],\"overlapping_claims\":[");
    if (put_overlaps(v, err) < 0)
        return -1;
    cf_buf_adds(&v->out, "]}}");
    return 0;
}

char *
cf_corr_store_voice(const struct cf_corr_store *store, const struct cf_corr_query *query,
                    int64_t now_ms, size_t *ret_len, struct cf_error *err)
{
    struct cf_corr_query focus = *query;
    struct voice v = {.store = store};
    struct cf_buf head;
    char *document = NULL;
    int status;

    focus.path = NULL;
    cf_buf_init(&v.out, 0);
    cf_buf_init(&head, 0);
    pick_recent(&v, &focus);
    cf_pick_claims(store, &focus, now_ms, &v.picked);
    status = put_body(&v, err);
    cf_buf_adds(&head, "{");
    cf_put_projection_head(&head, store, &focus, now_ms,
                           v.is_truncated || v.picked.is_truncated);
    cf_buf_add(&head, v.out.data, v.out.len);
    if (status == 0 && (v.out.failed || head.failed))
        status = cf_error_memory(err);
    if (status == 0)
        document = cf_buf_take(&head, ret_len);
    else
        (void)cf_error_wrap(err, "correspondence_projection_unavailable");
    cf_buf_release(&head);
    cf_buf_release(&v.out);
    return document;
}
