/* Every golden vector of the contract, and every shared event case, through the public API.
 * The lineage vectors have a program of their own. */
#include "tests/correspond/support.h"

#define VECTORS "fixtures/agent-correspondence-0.1-vectors.json"
#define CASES "../shared/data/correspondence/event-cases.json"

static json_t *
vectors(const char *member)
{
    static json_t *all;

    if (all == NULL)
        all = json_load_file(VECTORS, JSON_ALLOW_NUL, NULL);
    ck_assert_msg(all != NULL, "run from the repository's root: " VECTORS);
    ck_assert_ptr_nonnull(json_object_get(all, member));
    return json_object_get(all, member);
}

static const char *
text_of(json_t *object, const char *name)
{
    return json_string_value(json_object_get(object, name));
}

START_TEST(canonicalization_vectors)
{
    json_t *entry;
    size_t i;

    json_array_foreach(vectors("canonicalization_vectors"), i, entry) {
        char *in = json_dumps(json_object_get(entry, "value"), JSON_ENCODE_ANY), *got = NULL;
        struct cf_corr_refusal refusal;
        size_t len;
        ck_assert_int_eq(cf_corr_canonicalize(in, strlen(in), 0, &got, &len, &refusal), 0);
        ck_assert_str_eq(got, text_of(entry, "jcs"));
        free(got);
        free(in);
    }
    ck_assert_uint_ge(i, 3);
}
END_TEST

START_TEST(rejection_vectors)
{
    json_t *entry;
    size_t i;

    json_array_foreach(vectors("rejection_vectors"), i, entry) {
        json_t *text = json_object_get(entry, "json");
        ck_assert_str_eq(reason_of(json_string_value(text), json_string_length(text)),
                         text_of(entry, "reason"));
    }
    ck_assert_uint_ge(i, 8);
}
END_TEST

/* Signs an event of the kind and body, citing every id that the body cites. */
static int
sign_body(const char *kind, json_t *body, struct cf_corr_event **ret_event,
          struct cf_corr_refusal *refusal)
{
    struct cf_corr_author author = make_author(1);
    const char *parents[17];
    size_t n = 0, i;
    json_t *id;
    char *text = json_dumps(body, 0);
    int status;

    if (text_of(body, "predecessor_event_id") != NULL)
        parents[n++] = text_of(body, "predecessor_event_id");
    if (text_of(body, "target_event_id") != NULL)
        parents[n++] = text_of(body, "target_event_id");
    json_array_foreach(json_object_get(body, "target_event_ids"), i, id)
        parents[n++] = json_string_value(id);
    status = cf_corr_author_sign(&author, kind, text, parents, n, NOW, ret_event, refusal);
    free(text);
    return status;
}

START_TEST(body_matrix)
{
    unsigned char seed[32], public_key[32];
    json_t *entry;
    size_t i;

    test_seed(seed);
    cf_corr_public_key(seed, public_key);
    json_array_foreach(vectors("body_matrix"), i, entry) {
        struct cf_corr_event *event = NULL;
        struct cf_corr_refusal refusal = {0};
        ck_assert_msg(sign_body(text_of(entry, "kind"), json_object_get(entry, "body"), &event,
                                &refusal) == 0,
                      "%s: %s %s", text_of(entry, "kind"), refusal.reason, refusal.pointer);
        ck_assert_int_eq(cf_corr_event_verify_key(event, public_key, &refusal), 0);
        cf_corr_event_free(event);
    }
    ck_assert_uint_eq(i, 21);
}
END_TEST

START_TEST(invalid_bodies)
{
    json_t *entry;
    size_t i;

    json_array_foreach(vectors("invalid_body_vectors"), i, entry) {
        struct cf_corr_event *event = NULL;
        struct cf_corr_refusal refusal = {0};
        ck_assert_int_eq(sign_body(text_of(entry, "kind"), json_object_get(entry, "body"),
                                   &event, &refusal),
                         -1);
        ck_assert_str_eq(refusal.reason, text_of(entry, "reason"));
    }
    ck_assert_uint_ge(i, 5);
}
END_TEST

static void
check_words(const char *vector, const char *member, const char *(*check)(const char *, size_t))
{
    json_t *entry;
    size_t i;

    json_array_foreach(vectors(vector), i, entry) {
        json_t *value = json_object_get(entry, member);
        const char *reason = check(json_string_value(value), json_string_length(value));
        ck_assert_msg((reason == NULL) == json_is_true(json_object_get(entry, "valid")),
                      "%s: %s", json_string_value(value),
                      reason == NULL ? "admitted" : reason);
    }
    ck_assert_uint_gt(i, 0);
}

START_TEST(opaque_ids_locators_and_paths)
{
    check_words("opaque_id_vectors", "value", cf_corr_check_opaque_id);
    check_words("locator_vectors", "value", cf_corr_check_locator);
    check_words("path_vectors", "path", cf_corr_check_path);
}
END_TEST

START_TEST(signing_vector_byte_for_byte)
{
    json_t *vector = vectors("signing_vector");
    char *core_text = json_dumps(json_object_get(vector, "core"), 0), hex[65],
         key[CF_CORR_B64_KEY_SIZE], *text;
    unsigned char seed[32], public_key[32], digest[32];
    struct cf_corr_event *core = NULL, *event = NULL;
    struct cf_corr_refusal refusal = {0};
    const char *canonical;
    size_t len;

    test_seed(seed);
    cf_hex(seed, 32, hex);
    ck_assert_str_eq(hex, text_of(vector, "private_seed_hex"));
    ck_assert(cf_corr_is_test_seed(seed));
    cf_corr_public_key(seed, public_key);
    cf_corr_key_encode(public_key, key);
    ck_assert_str_eq(key, text_of(vector, "public_key_b64url"));
    ck_assert_msg(
        cf_corr_event_parse(core_text, strlen(core_text), CF_CORR_CORE, &core, &refusal) == 0,
        "%s", refusal.reason);
    canonical = cf_corr_event_canonical(core, &len);
    ck_assert_str_eq(canonical, text_of(vector, "core_jcs"));
    cf_corr_event_digest(core, digest);
    cf_hex(digest, 32, hex);
    ck_assert_str_eq(hex, text_of(vector, "signing_digest_hex"));
    ck_assert_int_eq(cf_corr_event_sign(core, seed, &event, &refusal), 0);
    ck_assert_str_eq(id_of(event), text_of(vector, "event_id"));
    text = cf_corr_event_text(event, &len);
    ck_assert_ptr_nonnull(strstr(text, text_of(vector, "signature_b64url")));
    cf_corr_event_digest(event, digest); /* the full event's digest skips its signature */
    cf_hex(digest, 32, hex);
    ck_assert_str_eq(hex, text_of(vector, "signing_digest_hex"));
    ck_assert_int_eq(cf_corr_event_verify_key(event, public_key, &refusal), 0);
    free(text);
    free(core_text);
    cf_corr_event_free(core);
    cf_corr_event_free(event);
}
END_TEST

static void
check_event_case(json_t *entry, const char *project, const struct cf_corr_keyring *keyring)
{
    const char *name = text_of(entry, "name"), *pointer = text_of(entry, "pointer");
    json_t *raw = json_object_get(entry, "raw");
    unsigned char *decoded = NULL;
    const char *text = json_string_value(raw);
    size_t len = json_string_length(raw);
    struct cf_corr_event *event = NULL;
    struct cf_corr_refusal refusal = {0};
    int status;

    if (raw == NULL) { /* not UTF-8 */
        const char *b64 = text_of(entry, "raw_b64");
        FILE *pipe;
        char command[4096];
        snprintf(command, sizeof command, "printf %%s '%s' | base64 -d", b64);
        pipe = popen(command, "r");
        decoded = malloc(4096);
        len = fread(decoded, 1, 4096, pipe);
        pclose(pipe);
        text = (const char *)decoded;
    }
    status = cf_corr_event_parse(text, len, CF_CORR_FULL, &event, &refusal);
    if (status == 0)
        status = cf_corr_event_verify(event, project, keyring, &refusal);
    if (json_is_true(json_object_get(entry, "accept"))) {
        ck_assert_msg(status == 0, "%s: %s %s", name, refusal.reason, refusal.pointer);
        ck_assert_str_eq(id_of(event), text_of(entry, "event_id"));
    } else {
        ck_assert_msg(status < 0, "%s was admitted", name);
        ck_assert_msg(strcmp(refusal.reason, text_of(entry, "reason")) == 0, "%s: %s", name,
                      refusal.reason);
        ck_assert_msg(pointer == NULL || strcmp(refusal.pointer, pointer) == 0, "%s: %s", name,
                      refusal.pointer);
        ck_assert((pointer == NULL) == (refusal.offset >= 0));
    }
    cf_corr_event_free(event);
    free(decoded);
}

START_TEST(shared_event_cases)
{
    json_t *all = json_load_file(CASES, JSON_ALLOW_NUL, NULL), *entry;
    struct cf_corr_keyring *keyring;
    struct cf_corr_refusal refusal;
    char *keys;
    size_t i;

    if (all == NULL) {
        printf("SKIPPED shared event cases: " CASES " is not there\n");
        return;
    }
    keyring = cf_corr_keyring_new();
    keys = json_dumps(json_object_get(all, "keys"), 0);
    ck_assert_int_eq(cf_corr_keyring_read(keyring, keys, strlen(keys), &refusal), 0);
    ck_assert_uint_eq(cf_corr_keyring_count(keyring), 3);
    json_array_foreach(json_object_get(all, "cases"), i, entry)
        check_event_case(entry, text_of(all, "project_id"), keyring);
    ck_assert_uint_ge(i, 80);
    free(keys);
    cf_corr_keyring_free(keyring);
    json_decref(all);
}
END_TEST

UNIT_MAIN("correspond/vectors", if (cf_corr_init() < 0) return 1;
          tcase_add_test(tc, canonicalization_vectors); tcase_add_test(tc, rejection_vectors);
          tcase_add_test(tc, body_matrix); tcase_add_test(tc, invalid_bodies);
          tcase_add_test(tc, opaque_ids_locators_and_paths);
          tcase_add_test(tc, signing_vector_byte_for_byte);
          tcase_add_test(tc, shared_event_cases);)
