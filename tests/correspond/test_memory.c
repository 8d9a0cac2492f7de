/*
 * Out of memory at the n-th allocation, for every n: each call refuses or fails, nothing leaks its
 * half-done work into the store, and nothing crashes.
 */
#include "tests/correspond/support.h"

#ifndef __SANITIZE_ADDRESS__ /* it has an allocator of its own */

void *__libc_malloc(size_t size);
void *__libc_calloc(size_t count, size_t size);
void *__libc_realloc(void *old, size_t size);

static long countdown = -1; /* allocations that still succeed; -1: all */

static int
is_refused(void)
{
    if (countdown < 0)
        return 0;
    return countdown == 0 ? 1 : (countdown--, 0);
}

void *
malloc(size_t size)
{
    return is_refused() ? NULL : __libc_malloc(size);
}

void *
calloc(size_t count, size_t size)
{
    return is_refused() ? NULL : __libc_calloc(count, size);
}

void *
realloc(void *old, size_t size)
{
    return is_refused() ? NULL : __libc_realloc(old, size);
}

/* A little of everything; true when all of it succeeded. */
static bool
try_everything(long allowed, struct cf_corr_store **ret_store)
{
    const struct cf_corr_query query = {"repo", NULL, NULL};
    struct cf_corr_author author = make_author(1);
    struct cf_corr_claim claim;
    struct cf_corr_event *event[3] = {0};
    struct cf_corr_refusal refusal = {0};
    struct cf_corr_receipt receipt;
    struct cf_error err = {0};
    struct cf_corr_store *store;
    uint64_t stored = 0;
    char *text = NULL;
    size_t len;
    bool is_done = false;

    countdown = allowed;
    store = cf_corr_store_new(PROJECT, NULL, NULL);
    cf_corr_claim_init(&claim, &author);
    if (store != NULL && cf_corr_claim_open(&claim, NOW, NOW + HOUR, &event[0], &refusal) == 0 &&
        cf_corr_claim_progress(&claim, NOW, "x", &event[1], &refusal) == 0 &&
        cf_corr_claim_renew(&claim, NOW, NOW + HOUR, &event[2], &refusal) == 0) {
        int i = 2;
        for (; i >= 0; i--) {
            if (cf_corr_store_append(store, event[i], NOW, 0, &receipt, &refusal) < 0)
                break;
            stored++;
        }
        if (i < 0 && (text = cf_corr_store_voice(store, &query, NOW, &len, &err)) != NULL)
            is_done = true;
    }
    countdown = -1;
    ck_assert(is_done || store == NULL || stored == 3 || strcmp(refusal.reason, "out_of_memory") == 0);
    ck_assert(store == NULL || cf_corr_store_last_seq(store) == stored);
    if (stored == 3 && !is_done)
        ck_assert_int_ne(err.kind, CF_ERROR_NONE);
    /* Whatever failed: the store goes on as if it had never been asked. */
    for (int i = 2; store != NULL && event[2] != NULL && i >= 0; i--)
        ck_assert_int_eq(cf_corr_store_append(store, event[i], NOW, 0, &receipt, &refusal), 0);
    for (int i = 0; i < 3; i++)
        cf_corr_event_free(event[i]);
    free(text);
    if (event[2] != NULL)
        *ret_store = store;
    else
        cf_corr_store_free(store);
    return is_done;
}

START_TEST(every_allocation_may_fail)
{
    long n = 0;
    bool is_done = false;

    for (; !is_done && n < 5000; n++) {
        struct cf_corr_store *store = NULL;
        is_done = try_everything(n, &store);
        for (uint64_t seq = 1; store != NULL && seq <= 3; seq++) {
            struct cf_corr_state state;
            ck_assert(cf_corr_store_state(store, seq, NOW, &state));
            ck_assert_int_eq(state.lineage, seq == 2 ? CF_CORR_NOT_APPLICABLE : CF_CORR_VALID);
        }
        cf_corr_store_free(store);
    }
    ck_assert(is_done);
    ck_assert_int_gt(n, 50); /* it really walked */
}
END_TEST

#else

START_TEST(every_allocation_may_fail)
{
    printf("SKIPPED failing allocations: the sanitizer's allocator cannot be made to fail\n");
}
END_TEST

#endif

UNIT_MAIN("correspond/memory", if (cf_corr_init() < 0) return 1; tcase_add_test(tc, every_allocation_may_fail);)
