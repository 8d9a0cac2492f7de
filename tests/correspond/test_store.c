/* The store: receipts, retries, records, forks, and what claims and voice say and leave out.
 */
#include "correspond/index.h"
#include "tests/correspond/support.h"

static const struct cf_corr_query everything = {NULL, NULL, NULL};
static const struct cf_corr_query in_repo = {"repo", NULL, NULL};

static struct cf_corr_receipt
append_at(struct cf_corr_store *store, const struct cf_corr_event *event, int64_t now_ms)
{
    struct cf_corr_receipt receipt = {0};
    struct cf_corr_refusal refusal = {0};
    int status = cf_corr_store_append(store, event, now_ms, 0, &receipt, &refusal);

    ck_assert_msg(status == 0, "%s", refusal.reason);
    return receipt;
}

/* Appends and frees; returns the id (good for a few calls). */
static const char *
say(struct cf_corr_store *store, struct cf_corr_author *author, const char *kind,
    const char *body, const char *parent)
{
    struct cf_corr_event *event = sign_ok(author, kind, body, parent);
    const char *id = id_of(event);

    append_at(store, event, NOW);
    cf_corr_event_free(event);
    return id;
}

static const char *
open_claim(struct cf_corr_store *store, struct cf_corr_author *author, unsigned claim,
           int64_t expires_ms)
{
    char body[200], at[CF_CORR_TIME_SIZE];

    cf_corr_time_format(expires_ms, at);
    snprintf(body, sizeof body,
             "{\"claim_id\":\"66666666-6666-4666-8666-%012x\",\"generation\":1,\"expires_at\":"
             "\"%s\"}",
             claim, at);
    return say(store, author, "claim.open", body, NULL);
}

static json_t *
read_json(char *text, size_t len)
{
    json_error_t why;
    json_t *value = json_loadb(text, len, JSON_REJECT_DUPLICATES, &why);

    ck_assert_msg(value != NULL, "%s in %s", why.text, text);
    free(text);
    return value;
}

static json_t *
claims_of(struct cf_corr_store *store, const struct cf_corr_query *query, int64_t now_ms)
{
    struct cf_error err = {0};
    size_t len;
    char *text = cf_corr_store_claims(store, query, now_ms, &len, &err);

    ck_assert_msg(text != NULL, "%s", err.text);
    return read_json(text, len);
}

static json_t *
voice_of(struct cf_corr_store *store, const struct cf_corr_query *query)
{
    struct cf_error err = {0};
    size_t len;
    char *text = cf_corr_store_voice(store, query, NOW, &len, &err);

    ck_assert_msg(text != NULL, "%s", err.text);
    return read_json(text, len);
}

static const char *
text_of(const json_t *object, const char *name)
{
    return json_string_value(json_object_get(object, name));
}

static size_t
size_of(const json_t *object, const char *name)
{
    return json_array_size(json_object_get(object, name));
}

START_TEST(an_empty_store_says_so)
{
    struct cf_corr_store *store = cf_corr_store_new(PROJECT, NULL, NULL);
    json_t *claims = claims_of(store, &in_repo, NOW), *voice = voice_of(store, &in_repo);

    ck_assert_str_eq(text_of(claims, "projection_status"), "complete");
    ck_assert_str_eq(text_of(claims, "evaluated_at"), "1970-01-01T00:00:00.000Z");
    ck_assert(json_is_null(json_object_get(claims, "cursor")));
    ck_assert_uint_eq(size_of(claims, "claims"), 0);
    ck_assert_uint_eq(size_of(voice, "recent_events"), 0);
    json_decref(claims);
    json_decref(voice);
    cf_corr_store_free(store);
    ck_assert_ptr_null(cf_corr_store_new("not a uuid", NULL, NULL));
}
END_TEST

START_TEST(receipts_count_and_retries_give_the_first_one)
{
    struct cf_corr_store *store = cf_corr_store_new(PROJECT, NULL, NULL);
    struct cf_corr_author author = make_author(1);
    struct cf_corr_event *a = sign_ok(&author, "intent", "{\"summary\":\"a\"}", NULL);
    struct cf_corr_event *b = sign_ok(&author, "intent", "{\"summary\":\"b\"}", NULL);
    struct cf_corr_receipt receipt = append_at(store, a, NOW);

    ck_assert(receipt.created && receipt.received_seq == 1 && receipt.received_at_ms == NOW);
    receipt = append_at(store, b, NOW + 1);
    ck_assert(receipt.created && receipt.received_seq == 2);
    receipt = append_at(store, a, NOW + 99);
    ck_assert(!receipt.created && receipt.received_seq == 1 && receipt.received_at_ms == NOW);
    ck_assert_uint_eq(cf_corr_store_last_seq(store), 2);
    cf_corr_event_free(a);
    cf_corr_event_free(b);
    cf_corr_store_free(store);
}
END_TEST

START_TEST(another_projects_event_is_refused)
{
    struct cf_corr_store *store =
        cf_corr_store_new("99999999-9999-4999-8999-999999999999", NULL, NULL);
    struct cf_corr_author author = make_author(1);
    struct cf_corr_event *event = sign_ok(&author, "close", "{}", NULL);
    struct cf_corr_receipt receipt;
    struct cf_corr_refusal refusal;

    ck_assert_int_eq(cf_corr_store_append(store, event, NOW, 0, &receipt, &refusal), -1);
    ck_assert_str_eq(refusal.reason, "project_mismatch");
    cf_corr_event_free(event);
    cf_corr_store_free(store);
}
END_TEST

START_TEST(an_answer_shows_missing_parents_forks_and_pending_lineage)
{
    static const char body[] =
        "{\"claim_id\":\"66666666-6666-4666-8666-666666666666\",\"generation\":2,"
        "\"predecessor_event_id\":\"%s\",\"expires_at\":\"2026-07-19T14:00:00.000Z\"}";
    struct cf_corr_store *store = cf_corr_store_new(PROJECT, NULL, NULL);
    struct cf_corr_author author = make_author(1);
    char absent[CF_CORR_ID_SIZE] = "sha256:", text[400], *answer;
    struct cf_corr_event *event;
    struct cf_corr_receipt receipt;
    struct cf_error err;
    json_t *json, *warnings;
    size_t len;

    memset(absent + 7, 'a', 64);
    say(store, &author, "intent", "{\"summary\":\"x\"}", NULL);
    author.session_seq = 0; /* the same number again */
    snprintf(text, sizeof text, body, absent);
    event = sign_ok(&author, "claim.renew", text, absent);
    receipt = append_at(store, event, NOW);
    answer = cf_corr_store_answer(store, &receipt, &len, &err);
    json = read_json(answer, len);
    ck_assert(json_is_true(json_object_get(json, "created")));
    ck_assert_str_eq(text_of(json, "lineage_status"), "pending");
    ck_assert_str_eq(text_of(json_object_get(json, "receipt"), "received_seq"), "2");
    ck_assert_str_eq(
        json_string_value(json_array_get(json_object_get(json, "missing_parents"), 0)),
        absent);
    warnings = json_object_get(json, "warnings");
    ck_assert_uint_eq(json_array_size(warnings), 2);
    ck_assert_str_eq(text_of(json_array_get(warnings, 0), "code"), "session_fork");
    ck_assert_uint_eq(size_of(json_array_get(warnings, 0), "event_ids"), 2);
    ck_assert_str_eq(text_of(json_array_get(warnings, 1), "code"), "claim_lineage_pending");
    ck_assert_str_eq(text_of(json_object_get(json, "event"), "event_id"), id_of(event));
    json_decref(json);
    cf_corr_event_free(event);
    cf_corr_store_free(store);
}
END_TEST

/* Forty events with one number: sixteen ids are shown, ascending, ours among them. */
START_TEST(a_wide_fork_shows_sixteen_and_itself)
{
    struct cf_corr_store *store = cf_corr_store_new(PROJECT, NULL, NULL);
    struct cf_corr_author author = make_author(1);

    for (int i = 0; i < 40; i++) {
        char body[60];
        struct cf_corr_event *event;
        struct cf_corr_receipt receipt;
        struct cf_error err;
        json_t *json, *ids;
        bool is_among = false;
        size_t len, k;
        json_t *id;
        snprintf(body, sizeof body, "{\"summary\":\"%d\"}", i);
        author.session_seq = 6;
        event = sign_ok(&author, "progress", body, NULL);
        receipt = append_at(store, event, NOW);
        char *answer = cf_corr_store_answer(store, &receipt, &len, &err);
        json = read_json(answer, len);
        ids =
            json_object_get(json_array_get(json_object_get(json, "warnings"), 0), "event_ids");
        ck_assert_uint_eq(json_array_size(ids), i == 0 ? 0 : i + 1 < 16 ? i + 1 : 16);
        json_array_foreach(ids, k, id) {
            is_among = is_among || strcmp(json_string_value(id), id_of(event)) == 0;
            ck_assert(k == 0 || strcmp(json_string_value(json_array_get(ids, k - 1)),
                                       json_string_value(id)) < 0);
        }
        ck_assert(i == 0 || is_among);
        json_decref(json);
        cf_corr_event_free(event);
    }
    json_t *voice = voice_of(store, &in_repo),
           *forks = json_object_get(json_object_get(voice, "conflicts"), "session_forks");
    ck_assert_uint_eq(json_array_size(forks), 1);
    ck_assert_uint_eq(size_of(json_array_get(forks, 0), "event_ids"), 16);
    ck_assert_str_eq(text_of(voice, "projection_status"), "truncated");
    json_decref(voice);
    cf_corr_store_free(store);
}
END_TEST

START_TEST(claims_are_ordered_filtered_and_expire)
{
    static const char *const sdk[] = {"packages/sdk"}, *const all[] = {"."};
    struct cf_corr_store *store = cf_corr_store_new(PROJECT, NULL, NULL);
    struct cf_corr_author a = make_author(1), b = make_author(2), c = make_author(3);
    struct cf_corr_query by_path = {"repo", NULL, "packages/sdk/src"},
                         by_thread = {"repo", "other", NULL};
    struct cf_corr_query elsewhere = {"nowhere", NULL, NULL};
    json_t *json;

    b.paths = sdk;
    c.paths = all;
    b.path_count = c.path_count = 1;
    c.thread_id = "other";
    open_claim(store, &a, 1, NOW + 3 * HOUR);
    open_claim(store, &b, 2, NOW + 2 * HOUR);
    open_claim(store, &c, 3, NOW + HOUR);
    json = claims_of(store, &in_repo, NOW);
    ck_assert_uint_eq(size_of(json, "claims"), 3);
    ck_assert_str_eq(text_of(json_array_get(json_object_get(json, "claims"), 0), "thread_id"),
                     "other"); /* first to expire */
    ck_assert_str_eq(text_of(json, "cursor"), "3");
    json_decref(json);
    json = claims_of(store, &by_path, NOW);
    ck_assert_uint_eq(size_of(json, "claims"), 2);
    json_decref(json);
    json = claims_of(store, &by_thread, NOW);
    ck_assert_uint_eq(size_of(json, "claims"), 1);
    json_decref(json);
    json = claims_of(store, &elsewhere, NOW);
    ck_assert_uint_eq(size_of(json, "claims"), 0);
    json_decref(json);
    json = claims_of(store, &everything, NOW + HOUR); /* equal means expired */
    ck_assert_uint_eq(size_of(json, "claims"), 2);
    ck_assert_str_eq(text_of(json, "evaluated_at"), "2026-07-19T11:00:00.000Z");
    json_decref(json);
    cf_corr_store_free(store);
}
END_TEST

START_TEST(two_reads_without_a_change_are_the_same_bytes)
{
    struct cf_corr_store *store = cf_corr_store_new(PROJECT, NULL, NULL);
    struct cf_corr_author a = make_author(1);
    struct cf_error err;
    size_t len;
    char *first, *second;

    open_claim(store, &a, 1, NOW + HOUR);
    open_claim(store, &a, 1, NOW + 2 * HOUR);
    first = cf_corr_store_claims(store, &in_repo, NOW + 1, &len, &err);
    second = cf_corr_store_claims(store, &in_repo, NOW + HOUR - 1, &len, &err);
    ck_assert_str_eq(first, second);
    free(first);
    free(second);
    first = cf_corr_store_voice(store, &in_repo, NOW + 1, &len, &err);
    second = cf_corr_store_voice(store, &in_repo, NOW + HOUR - 1, &len, &err);
    ck_assert_str_eq(first, second);
    free(first);
    free(second);
    cf_corr_store_free(store);
}
END_TEST

START_TEST(bounds_of_claims_say_truncated)
{
    struct cf_corr_store *store = cf_corr_store_new(PROJECT, NULL, NULL);
    struct cf_corr_author a = make_author(1);
    json_t *json, *row;

    for (unsigned i = 0; i < 17; i++)
        open_claim(store, &a, 7, NOW + HOUR + i);
    json = claims_of(store, &in_repo, NOW);
    row = json_array_get(json_object_get(json, "claims"), 0);
    ck_assert_str_eq(text_of(json, "projection_status"), "complete"); /* 16 rivals each */
    ck_assert_uint_eq(size_of(row, "competing_event_ids"), 16);
    ck_assert(json_is_true(json_object_get(row, "conflicted")));
    json_decref(json);
    open_claim(store, &a, 7, NOW + 2 * HOUR);
    json = claims_of(store, &in_repo, NOW);
    ck_assert_str_eq(text_of(json, "projection_status"), "truncated");
    ck_assert_uint_eq(
        size_of(json_array_get(json_object_get(json, "claims"), 0), "competing_event_ids"),
        16);
    json_decref(json);
    cf_corr_store_free(store);

    store = cf_corr_store_new(PROJECT, NULL, NULL);
    for (unsigned i = 0; i < 128; i++)
        open_claim(store, &a, i, NOW + HOUR);
    json = claims_of(store, &in_repo, NOW);
    ck_assert_uint_eq(size_of(json, "claims"), 128);
    ck_assert(json_is_false(json_object_get(json, "truncated")));
    json_decref(json);
    open_claim(store, &a, 128, NOW + HOUR);
    json = claims_of(store, &everything, NOW);
    ck_assert_uint_eq(size_of(json, "claims"), 128);
    ck_assert(json_is_true(json_object_get(json, "truncated")));
    json_decref(json);
    cf_corr_store_free(store);
}
END_TEST

START_TEST(voice_shows_the_newest_and_where_claims_meet)
{
    static const char *const left[] = {"b/x", "a", "same"}, *const right[] = {"b", "a/deep/er",
                                                                              "same", "z"};
    struct cf_corr_store *store = cf_corr_store_new(PROJECT, NULL, NULL);
    struct cf_corr_author a = make_author(1), b = make_author(2), other = make_author(3);
    struct cf_corr_query thread = {"repo", "aside", NULL};
    json_t *voice, *rows, *paths;

    a.paths = left;
    a.path_count = 3;
    b.paths = right;
    b.path_count = 4;
    other.thread_id = "aside";
    for (int i = 0; i < 51; i++)
        say(store, &a, "progress", "{\"summary\":\"p\"}", NULL);
    open_claim(store, &a, 1, NOW + HOUR);
    open_claim(store, &b, 2, NOW + 2 * HOUR);
    say(store, &other, "rest", "{\"until\":null}", NULL);
    voice = voice_of(store, &in_repo);
    ck_assert_uint_eq(size_of(voice, "recent_events"), 50);
    ck_assert(json_is_true(json_object_get(voice, "truncated")));
    ck_assert_str_eq(
        text_of(json_object_get(json_array_get(json_object_get(voice, "recent_events"), 0),
                                "receipt"),
                "received_seq"),
        "54");
    rows = json_object_get(json_object_get(voice, "conflicts"), "overlapping_claims");
    ck_assert_uint_eq(json_array_size(rows), 1);
    paths = json_object_get(json_array_get(rows, 0), "paths");
    ck_assert_uint_eq(json_array_size(paths), 3);
    ck_assert_str_eq(json_string_value(json_array_get(paths, 0)), "a");
    ck_assert_str_eq(json_string_value(json_array_get(paths, 1)), "b");
    ck_assert_str_eq(json_string_value(json_array_get(paths, 2)), "same");
    json_decref(voice);
    voice = voice_of(store, &thread);
    ck_assert_uint_eq(size_of(voice, "recent_events"), 1);
    ck_assert_str_eq(text_of(voice, "projection_status"), "complete");
    json_decref(voice);
    cf_corr_store_free(store);
}
END_TEST

START_TEST(pages_walk_the_whole_store_once)
{
    struct cf_corr_store *store = cf_corr_store_new(PROJECT, NULL, NULL);
    struct cf_corr_author a = make_author(1);
    struct cf_error err;
    uint64_t after = 0, seen = 0;
    bool has_more = true, is_first = true;

    for (int i = 0; i < 23; i++)
        say(store, &a, "progress", "{\"summary\":\"p\"}", NULL);
    while (has_more) {
        size_t len = 0, n;
        char *text = cf_corr_store_page(store, is_first ? NULL : &after, 10, &len, &err);
        json_t *page = read_json(text, len), *foot = json_object_get(page, "page");
        n = size_of(page, "events");
        ck_assert_uint_ge(n, 1);
        seen += n;
        ck_assert(json_is_null(json_object_get(foot, "after")) == is_first);
        after = strtoull(text_of(foot, "next_after"), NULL, 10);
        ck_assert_uint_eq(after, seen);
        has_more = json_is_true(json_object_get(foot, "has_more"));
        is_first = false;
        json_decref(page);
    }
    ck_assert_uint_eq(seen, 23);
    ck_assert_ptr_null(cf_corr_store_page(store, NULL, 201, &(size_t){0}, &err));
    cf_corr_store_free(store);
}
END_TEST

static void
note_overlap(void *user, const struct cf_corr_overlap *overlap)
{
    snprintf(user, 200, "%s %s %s", overlap->claim_id, overlap->path, overlap->thread_id);
}

START_TEST(overlaps_name_live_claims_of_others)
{
    static const char *const mine[] = {"docs/specs/new"}, *const apart[] = {"src"};
    struct cf_corr_store *store = cf_corr_store_new(PROJECT, NULL, NULL);
    struct cf_corr_author a = make_author(1);
    char told[200] = "";

    open_claim(store, &a, 5, NOW + HOUR);
    ck_assert_uint_eq(
        cf_corr_store_overlaps(store, "repo", mine, 1, NULL, NOW, note_overlap, told), 1);
    ck_assert_str_eq(told, "66666666-6666-4666-8666-000000000005 docs task");
    ck_assert_uint_eq(
        cf_corr_store_overlaps(store, "repo", apart, 1, NULL, NOW, note_overlap, told), 0);
    ck_assert_uint_eq(cf_corr_store_overlaps(store, "repo", mine, 1,
                                             "66666666-6666-4666-8666-000000000005", NOW,
                                             note_overlap, told),
                      0);
    ck_assert_uint_eq(
        cf_corr_store_overlaps(store, "repo", mine, 1, NULL, NOW + HOUR, note_overlap, told),
        0);
    ck_assert_uint_eq(
        cf_corr_store_overlaps(store, "none", mine, 1, NULL, NOW, note_overlap, told), 0);
    cf_corr_store_free(store);
}
END_TEST

/* One claim's life as a run writes it: every event verifies and the claim ends released. */
START_TEST(a_claims_life_is_valid_from_open_to_close)
{
    struct cf_corr_store *store = cf_corr_store_new(PROJECT, NULL, NULL);
    struct cf_corr_author author = make_author(1);
    struct cf_corr_claim claim;
    struct cf_corr_refusal refusal = {0};
    struct cf_corr_event *event[6] = {0};
    unsigned char digest[32] = {1}, public_key[32];
    char long_text[5000];

    memset(long_text, 'x', sizeof long_text - 1);
    long_text[sizeof long_text - 1] = '\0';
    cf_corr_public_key(author.seed, public_key);
    cf_corr_claim_init(&claim, &author);
    ck_assert_int_eq(cf_corr_claim_open(&claim, NOW, NOW + HOUR, &event[0], &refusal), 0);
    ck_assert_int_eq(cf_corr_claim_progress(&claim, NOW + 1, long_text, &event[1], &refusal),
                     0);
    ck_assert_int_eq(cf_corr_claim_renew(&claim, NOW + 2, NOW + 2 * HOUR, &event[2], &refusal),
                     0);
    ck_assert_int_eq(cf_corr_claim_offer(&claim, NOW + 3, digest, "file:run.cfr", NULL,
                                         &event[3], &refusal),
                     0);
    ck_assert_int_eq(cf_corr_claim_release(&claim, NOW + 4, "done", &event[4], &refusal), 0);
    ck_assert_int_eq(cf_corr_claim_close(&claim, NOW + 5, NULL, &event[5], &refusal), 0);
    for (int i = 0; i < 6; i++) {
        struct cf_corr_event_view view;
        cf_corr_event_view(event[i], &view);
        ck_assert_uint_eq(view.session_seq, (uint64_t)i + 1);
        ck_assert_int_eq(cf_corr_event_verify_key(event[i], public_key, &refusal), 0);
        append_at(store, event[i], NOW);
        cf_corr_event_free(event[i]);
        json_t *json = claims_of(store, &in_repo, NOW);
        ck_assert_uint_eq(size_of(json, "claims"), i < 4);
        json_decref(json);
    }
    cf_corr_store_free(store);
}
END_TEST

/* Texts by `where`, as a journal would keep them. */
struct shelf {
    char *text[400];
    size_t len[400];
};

static const char *
fetch_from_shelf(void *user, uint64_t where, size_t *ret_len)
{
    struct shelf *shelf = user;

    *ret_len = shelf->len[where];
    return shelf->text[where];
}

START_TEST(a_store_saved_and_loaded_goes_on_the_same)
{
    struct shelf shelf = {0};
    struct cf_corr_store *store = cf_corr_store_new(PROJECT, fetch_from_shelf, &shelf),
                         *loaded = NULL;
    struct cf_corr_author a = make_author(1);
    struct cf_corr_refusal refusal;
    struct cf_corr_receipt receipt;
    struct cf_error err;
    void *block = NULL;
    size_t size, len;

    for (unsigned i = 0; i < 400; i++) {
        char body[200];
        struct cf_corr_event *event;
        snprintf(body, sizeof body,
                 "{\"claim_id\":\"66666666-6666-4666-8666-%012u\",\"generation\":1,\"expires_"
                 "at\":\"2026-07-19T12:00:00.000Z\"}",
                 i % 90);
        event = sign_ok(&a, "claim.open", body, NULL);
        shelf.text[i] = cf_corr_event_text(event, &shelf.len[i]);
        if (i == 200) { /* half-way through, continue in a loaded copy */
            size = cf_corr_store_save_size(store);
            block = aligned_alloc(64, (size + 63) / 64 * 64);
            cf_corr_store_save(store, block);
            ck_assert_ptr_null(cf_corr_store_load(block, size - 64, fetch_from_shelf, &shelf));
            loaded = cf_corr_store_load(block, size, fetch_from_shelf, &shelf);
            ck_assert_ptr_nonnull(loaded);
            ck_assert_uint_eq(cf_corr_store_last_seq(loaded), 200);
        }
        ck_assert_int_eq(cf_corr_store_append(store, event, NOW + i, i, &receipt, &refusal),
                         0);
        if (i >= 200) {
            ck_assert_int_eq(
                cf_corr_store_append(loaded, event, NOW + i, i, &receipt, &refusal), 0);
            ck_assert_uint_eq(receipt.received_seq, i + 1);
        }
        cf_corr_event_free(event);
    }
    char *one = cf_corr_store_voice(store, &in_repo, NOW, &len, &err),
         *two = cf_corr_store_voice(loaded, &in_repo, NOW, &len, &err);
    ck_assert_str_eq(one, two);
    free(one);
    free(two);
    cf_corr_store_free(store);
    cf_corr_store_free(loaded);
    free(block);
    for (unsigned i = 0; i < 400; i++)
        free(shelf.text[i]);
}
END_TEST

START_TEST(an_unreadable_event_is_an_error_not_an_empty_answer)
{
    struct shelf shelf = {0};
    struct cf_corr_store *store = cf_corr_store_new(PROJECT, fetch_from_shelf, &shelf);
    struct cf_corr_author a = make_author(1);
    struct cf_error err = {0};
    size_t len;

    open_claim(store, &a, 1, NOW + HOUR);
    ck_assert_ptr_null(cf_corr_store_claims(store, &in_repo, NOW, &len, &err));
    ck_assert_int_ne(err.kind, CF_ERROR_NONE);
    ck_assert_ptr_null(cf_corr_store_voice(store, &in_repo, NOW, &len, &err));
    ck_assert_ptr_null(cf_corr_store_page(store, NULL, 10, &len, &err));
    cf_corr_store_free(store);
}
END_TEST

/* The table keeps every record findable while it splits and shrinks. */
START_TEST(a_table_finds_what_it_holds)
{
    struct cf_table table;

    cf_table_init(&table);
    for (uint32_t i = 0; i < 3000; i++) {
        ck_assert_int_eq(cf_table_room(&table, i), 0);
        cf_table_insert(&table, i, i % 700 * 2654435761u);
    }
    for (uint32_t i = 0; i < 3000; i += 3)
        cf_table_remove(&table, i);
    for (uint32_t h = 0; h < 700; h++) {
        unsigned found = 0, wanted = 0;
        for (uint32_t r = cf_table_first(&table, h * 2654435761u); r != CF_NONE;
             r = cf_table_next(&table, r)) {
            ck_assert_uint_eq(r % 700, h);
            found++;
        }
        for (uint32_t i = h; i < 3000; i += 700)
            wanted += i % 3 != 0;
        ck_assert_uint_eq(found, wanted);
    }
    cf_table_release(&table);
}
END_TEST

UNIT_MAIN("correspond/store", if (cf_corr_init() < 0) return 1;
          tcase_add_test(tc, an_empty_store_says_so);
          tcase_add_test(tc, receipts_count_and_retries_give_the_first_one);
          tcase_add_test(tc, another_projects_event_is_refused);
          tcase_add_test(tc, an_answer_shows_missing_parents_forks_and_pending_lineage);
          tcase_add_test(tc, a_wide_fork_shows_sixteen_and_itself);
          tcase_add_test(tc, claims_are_ordered_filtered_and_expire);
          tcase_add_test(tc, two_reads_without_a_change_are_the_same_bytes);
          tcase_add_test(tc, bounds_of_claims_say_truncated);
          tcase_add_test(tc, voice_shows_the_newest_and_where_claims_meet);
          tcase_add_test(tc, pages_walk_the_whole_store_once);
          tcase_add_test(tc, overlaps_name_live_claims_of_others);
          tcase_add_test(tc, a_claims_life_is_valid_from_open_to_close);
          tcase_add_test(tc, a_store_saved_and_loaded_goes_on_the_same);
          tcase_add_test(tc, an_unreadable_event_is_an_error_not_an_empty_answer);
          tcase_add_test(tc, a_table_finds_what_it_holds);)
