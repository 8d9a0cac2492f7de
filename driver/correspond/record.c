/* Stored events as records: one answer to an append, pages of a replay. */
#include "correspond/store.h"

#include "base/error.h"
#include "correspond/words.h"

#include <stdlib.h>
#include <string.h>

#define WARNING_IDS_MAX 16u

size_t
cf_put_missing_parents(struct cf_buf *to, const struct cf_corr_store *store,
                       const struct cf_corr_event *event)
{
    unsigned char id[32];
    size_t n = 0;

    for (const struct cf_node *p = cf_value_child(event->value, event->parents); p != NULL;
         p = cf_value_next(event->value, p)) {
        cf_id_pack(p->text, id);
        if (cf_store_find_event(store, id) != CF_NONE)
            continue;
        cf_buf_addf(to, "%s\"%s\"", n++ == 0 ? "" : ",", p->text);
    }
    return n;
}

static enum cf_corr_lineage
lineage_of(const struct cf_corr_store *store, uint32_t event)
{
    uint32_t claim = cf_event_at(store, event)->claim;

    return claim == CF_NONE ? CF_CORR_NOT_APPLICABLE : cf_claim_at(store, claim)->lineage;
}

int
cf_put_record(struct cf_buf *to, const struct cf_corr_store *store, uint32_t event,
              struct cf_error *err)
{
    struct cf_corr_event *read = cf_store_read(store, event, err);
    char at[CF_CORR_TIME_SIZE];
    size_t len;
    char *text;

    if (read == NULL)
        return -1;
    text = cf_corr_event_text(read, &len);
    if (text == NULL) {
        cf_corr_event_free(read);
        return cf_error_memory(err);
    }
    cf_corr_time_format(cf_event_at(store, event)->received_at_ms, at);
    cf_buf_adds(to, "\"event\":");
    cf_buf_add(to, text, len);
    cf_buf_addf(
        to,
        ",\"receipt\":{\"received_seq\":\"%u\",\"received_at\":\"%s\"},\"missing_parents\":[",
        event + 1, at);
    (void)cf_put_missing_parents(to, store, read); /* none is an empty list */
    cf_buf_addf(to, "],\"lineage_status\":\"%s\"",
                cf_corr_lineage_name(lineage_of(store, event)));
    free(text);
    cf_corr_event_free(read);
    return 0;
}

void
cf_put_fork_ids(struct cf_buf *to, const struct cf_corr_store *store,
                const struct cf_fork *fork, uint32_t must)
{
    unsigned shown = fork->shown < WARNING_IDS_MAX ? fork->shown : WARNING_IDS_MAX;
    bool is_among = must == CF_NONE;
    char id[CF_CORR_ID_SIZE];

    for (unsigned i = 0; i < shown; i++)
        is_among = is_among || fork->lowest[i] == must;
    for (unsigned i = 0; i < shown; i++) {
        /* An id above the sixteen lowest takes the last place: the order stays ascending. */
        uint32_t event = i == WARNING_IDS_MAX - 1 && !is_among ? must : fork->lowest[i];
        cf_id_print(cf_event_at(store, event)->id, id);
        cf_buf_addf(to, "%s\"%s\"", i == 0 ? "" : ",", id);
    }
}

/* Warnings never block: the event is stored. */
static void
put_warnings(struct cf_buf *to, const struct cf_corr_store *store, uint32_t event)
{
    const struct cf_stored *stored = cf_event_at(store, event);
    uint32_t head = cf_store_find_slot(store, stored->session, stored->session_seq);
    uint32_t fork = head == CF_NONE ? CF_NONE : cf_event_at(store, head)->fork;
    char id[CF_CORR_ID_SIZE];

    if (fork != CF_NONE) {
        cf_buf_addf(to,
                    "{\"code\":\"session_fork\",\"detail\":\"%u different events carry this "
                    "session's number "
                    "%llu; all are kept.\",\"event_ids\":[",
                    CF_AT(struct cf_fork, &store->forks, fork)->count,
                    (unsigned long long)stored->session_seq);
        cf_put_fork_ids(to, store, CF_AT(struct cf_fork, &store->forks, fork), event);
        cf_buf_adds(to, "]}");
    }
    if (lineage_of(store, event) == CF_CORR_PENDING) {
        cf_id_print(stored->id, id);
        cf_buf_addf(to,
                    "%s{\"code\":\"claim_lineage_pending\",\"detail\":\"Stored but inactive: "
                    "its predecessor is "
                    "not stored or not decided yet.\",\"event_ids\":[\"%s\"]}",
                    fork != CF_NONE ? "," : "", id);
    }
}

static char *
take_document(struct cf_buf *out, int status, size_t *ret_len, struct cf_error *err)
{
    if (status == 0 && out->failed)
        status = cf_error_memory(err);
    if (status == 0)
        return cf_buf_take(out, ret_len);
    cf_buf_release(out);
    return NULL;
}

char *
cf_corr_store_answer(const struct cf_corr_store *store, const struct cf_corr_receipt *receipt,
                     size_t *ret_len, struct cf_error *err)
{
    struct cf_buf out;
    int status;

    if (receipt->received_seq == 0 || receipt->received_seq > store->events.count) {
        (void)cf_error_set(err, CF_ERROR_INTERNAL, 0, "no stored event has this receipt");
        return NULL;
    }
    cf_buf_init(&out, 0);
    cf_buf_addf(&out, "{\"created\":%s,", receipt->created ? "true" : "false");
    status = cf_put_record(&out, store, (uint32_t)receipt->received_seq - 1, err);
    cf_buf_adds(&out, ",\"warnings\":[");
    put_warnings(&out, store, (uint32_t)receipt->received_seq - 1);
    cf_buf_adds(&out, "]}");
    return take_document(&out, status, ret_len, err);
}

static void
put_page_foot(struct cf_buf *to, const struct cf_corr_store *store, const uint64_t *after,
              uint64_t last)
{
    cf_buf_adds(to, "],\"page\":{\"after\":");
    if (after == NULL)
        cf_buf_adds(to, "null");
    else
        cf_buf_addf(to, "\"%llu\"", (unsigned long long)*after);
    cf_buf_adds(to, ",\"next_after\":");
    if (last == 0 && after == NULL)
        cf_buf_adds(to, "null");
    else
        cf_buf_addf(to, "\"%llu\"", (unsigned long long)last);
    cf_buf_addf(to, ",\"has_more\":%s}}", last < store->events.count ? "true" : "false");
}

char *
cf_corr_store_page(const struct cf_corr_store *store, const uint64_t *after, unsigned limit,
                   size_t *ret_len, struct cf_error *err)
{
    uint64_t last = after == NULL ? 0 : *after;
    struct cf_buf out;
    int status = 0;

    if (limit < 1 || limit > 200) {
        (void)cf_error_set(err, CF_ERROR_CONFIG, 0, "a page holds 1 to 200 records, not %u",
                           limit);
        return NULL;
    }
    cf_buf_init(&out, 0);
    cf_buf_adds(&out, "{\"protocol\":\"" CF_CORR_PROTOCOL
                      "\",\"scope\":\"project_private\",\"events\":[");
    for (unsigned n = 0; n < limit && last < store->events.count && status == 0; n++) {
        cf_buf_adds(&out, n == 0 ? "{" : ",{");
        status = cf_put_record(&out, store, (uint32_t)last++, err);
        cf_buf_adds(&out, "}");
    }
    put_page_foot(&out, store, after, last);
    return take_document(&out, status, ret_len, err);
}
