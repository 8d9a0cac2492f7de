/*
 * fuzz_event.c: any bytes as an event and as a draft. What is admitted survives its own text:
 * the same id, the same canonical envelope; and a store takes it once, if its id is right.
 */
#include "correspond/correspond.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void
must(bool is_so)
{
    if (!is_so)
        abort();
}

static void
check_refusal(const struct cf_corr_refusal *refusal)
{
    must(refusal->reason != NULL && refusal->reason[0] != '\0');
    must(refusal->pointer[0] == '\0' || refusal->pointer[0] == '/');
    must(memchr(refusal->pointer, '\0', sizeof refusal->pointer) != NULL);
}

static void
check_round(const struct cf_corr_event *event, enum cf_corr_form form)
{
    struct cf_corr_event *again = NULL;
    struct cf_corr_event_view one, two;
    struct cf_corr_refusal refusal;
    const char *canonical, *canonical_again;
    size_t len, canonical_len, again_len;
    char *text = cf_corr_event_text(event, &len);

    must(text != NULL && cf_corr_event_parse(text, len, form, &again, &refusal) == 0);
    cf_corr_event_view(event, &one);
    cf_corr_event_view(again, &two);
    must(strcmp(one.id, two.id) == 0 && strcmp(one.kind, two.kind) == 0 &&
         one.session_seq == two.session_seq);
    canonical = cf_corr_event_canonical(event, &canonical_len);
    canonical_again = cf_corr_event_canonical(again, &again_len);
    must(canonical_len == again_len && memcmp(canonical, canonical_again, again_len) == 0);
    cf_corr_event_free(again);
    free(text);
}

static void
check_store(const struct cf_corr_event *event)
{
    const struct cf_corr_query query = {0};
    struct cf_corr_event_view view;
    struct cf_corr_receipt receipt;
    struct cf_corr_refusal refusal;
    struct cf_corr_store *store;
    struct cf_error err;
    size_t len;

    cf_corr_event_view(event, &view);
    store = cf_corr_store_new(view.project_id, NULL, NULL);
    if (cf_corr_store_append(store, event, view.issued_at_ms, 0, &receipt, &refusal) == 0) {
        char *voice = cf_corr_store_voice(store, &query, view.issued_at_ms, &len, &err);
        must(voice != NULL && receipt.created && receipt.received_seq == 1);
        must(cf_corr_store_append(store, event, 0, 0, &receipt, &refusal) == 0 &&
             !receipt.created);
        free(voice);
    } else {
        must(strcmp(refusal.reason, "event_id_mismatch") == 0);
    }
    cf_corr_store_free(store);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct cf_corr_event *event = NULL, *core = NULL;
    struct cf_corr_refusal refusal = {0};

    must(cf_corr_init() == 0);
    if (cf_corr_event_parse((const char *)data, size, CF_CORR_FULL, &event, &refusal) == 0) {
        check_round(event, CF_CORR_FULL);
        check_store(event);
    } else {
        check_refusal(&refusal);
    }
    if (cf_corr_event_parse((const char *)data, size, CF_CORR_CORE, &core, &refusal) == 0)
        check_round(core, CF_CORR_CORE);
    else
        check_refusal(&refusal);
    cf_corr_event_free(event);
    cf_corr_event_free(core);
    return 0;
}
