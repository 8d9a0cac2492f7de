/* Rules about single strings, instants, keys and base64url. */
#include "correspond/words.h"
#include "correspond/value.h"
#include "tests/correspond/support.h"

static const char *
opaque(const char *text)
{
    const char *reason = cf_corr_check_opaque_id(text, strlen(text));

    return reason == NULL ? "" : reason;
}

static const char *
path(const char *text)
{
    const char *reason = cf_corr_check_path(text, strlen(text));

    return reason == NULL ? "" : reason;
}

static const char *
locator(const char *text)
{
    const char *reason = cf_corr_check_locator(text, strlen(text));

    return reason == NULL ? "" : reason;
}

/* `unit` repeated; static until the next call. */
static const char *
repeated(const char *unit, size_t times)
{
    static char text[20000];
    size_t len = strlen(unit);

    for (size_t i = 0; i < times; i++)
        memcpy(text + i * len, unit, len);
    text[times * len] = '\0';
    return text;
}

START_TEST(opaque_ids_count_scalars_and_refuse_blanks)
{
    static const char *const blanks[] = {" ",
                                         "\t",
                                         "\x7f",
                                         "\xc2\x80",
                                         "\xc2\x85",
                                         "\xc2\xa0",
                                         "\xe1\x9a\x80",
                                         "\xe2\x80\x80",
                                         "\xe2\x80\x8a",
                                         "\xe2\x80\xa8",
                                         "\xe2\x80\xa9",
                                         "\xe2\x80\xaf",
                                         "\xe2\x81\x9f",
                                         "\xe3\x80\x80",
                                         "\xef\xbb\xbf",
                                         "\x01"};
    static const char *const fine[] = {"\xe2\x80\x8b", "\xe1\xa0\x8e", "\xe2\x80\xa6",
                                       "\xe8\x97\x9d", "a/b:c"};

    ck_assert_str_eq(opaque(""), "opaque_id_length_out_of_bounds");
    ck_assert_str_eq(opaque(repeated("\xf0\x9f\x98\x80", 256)), "");
    ck_assert_str_eq(opaque(repeated("\xf0\x9f\x98\x80", 257)),
                     "opaque_id_length_out_of_bounds");
    for (size_t i = 0; i < CF_COUNT(blanks); i++)
        ck_assert_msg(strcmp(opaque(blanks[i]), "opaque_id_character_not_admitted") == 0,
                      "blank %zu", i);
    for (size_t i = 0; i < CF_COUNT(fine); i++)
        ck_assert_msg(strcmp(opaque(fine[i]), "") == 0, "fine %zu", i);
}
END_TEST

START_TEST(paths_are_normalized_and_plain)
{
    static const char *const fine[] = {
        ".", ".github", "a..b", "...", "a b", "a\xef\xbb\xbf", "a/.b/c", "~", "\xc3\xa9"};
    static const char *const crooked[] = {"/a",  "a/", "a//b",   "./a",
                                          "a/.", "..", "a/../b", "/"};
    static const char *const forbidden[] = {
        "a\\b", "*", "a?", "[", "]", "{", "}", "!", "a\tb", "\xc2\x85", "\xe2\x80\xa6"};

    for (size_t i = 0; i < CF_COUNT(fine); i++)
        ck_assert_msg(strcmp(path(fine[i]), "") == 0, "fine %zu", i);
    for (size_t i = 0; i < CF_COUNT(crooked); i++)
        ck_assert_msg(strcmp(path(crooked[i]), "path_not_normalized") == 0, "crooked %zu", i);
    for (size_t i = 0; i < CF_COUNT(forbidden); i++)
        ck_assert_msg(strcmp(path(forbidden[i]), "path_character_not_admitted") == 0,
                      "forbidden %zu", i);
    ck_assert_str_eq(path(""), "path_length_out_of_bounds");
    ck_assert_str_eq(path(repeated("a", 256)), "");
    ck_assert_str_eq(path(repeated("*", 257)),
                     "path_length_out_of_bounds");               /* length comes first */
    ck_assert_str_eq(path("/*"), "path_character_not_admitted"); /* then characters */
}
END_TEST

START_TEST(locators_need_a_scheme_and_no_blank)
{
    ck_assert_str_eq(locator("urn:\xe8\x97\x9d\xe8\xa1\x93"), "");
    ck_assert_str_eq(locator("a+b-c.1:"), "");
    ck_assert_str_eq(locator(":x"), "locator_scheme_required");
    ck_assert_str_eq(locator("+a:x"), "locator_scheme_required");
    ck_assert_str_eq(locator("x y:z"), "locator_scheme_required");
    ck_assert_str_eq(locator("x: y"), "locator_character_not_admitted");
    ck_assert_str_eq(locator(""), "locator_length_out_of_bounds");
    ck_assert_str_eq(locator(repeated("a:", 1024)), "");
    ck_assert_str_eq(locator(repeated("a:", 1025)), "locator_length_out_of_bounds");
}
END_TEST

START_TEST(overlap_is_by_segments)
{
    ck_assert(cf_corr_paths_overlap("packages/sdk", "packages/sdk/src"));
    ck_assert(cf_corr_paths_overlap("packages/sdk/src", "packages/sdk"));
    ck_assert(cf_corr_paths_overlap("a", "a"));
    ck_assert(cf_corr_paths_overlap(".", "a"));
    ck_assert(cf_corr_paths_overlap("a", "."));
    ck_assert(!cf_corr_paths_overlap("packages/sdk", "packages/sdk-old"));
    ck_assert(!cf_corr_paths_overlap("a", "b"));
    ck_assert(!cf_corr_paths_overlap("a/b", "a/c"));
}
END_TEST

static const char *
instant(const char *text)
{
    int64_t ms;
    const char *reason = cf_corr_time_parse(text, strlen(text), &ms);

    return reason == NULL ? "" : reason;
}

START_TEST(instants_have_one_spelling)
{
    static const char *const malformed[] = {"",
                                            "2026-07-19",
                                            "2026-07-19T10:00:00.000+00:00",
                                            "2026-07-19t10:00:00.000Z",
                                            "2026-07-19 10:00:00.000Z",
                                            "2026-07-19T10:00:00.000z",
                                            "2026-07-19T10:00:00.000Zx",
                                            "2026-07-19T10:00:00.Z",
                                            "2026-07-19T10:00:00.000",
                                            " 2026-07-19T10:00:00.000Z"};
    static const char *const unreal[] = {
        "2026-02-30T00:00:00.000Z", "2025-02-29T00:00:00.000Z", "2026-13-01T00:00:00.000Z",
        "2026-00-01T00:00:00.000Z", "2026-01-00T00:00:00.000Z", "2026-01-01T24:00:00.000Z",
        "2026-01-01T00:60:00.000Z", "2026-01-01T00:00:60.000Z", "1900-02-29T00:00:00.000Z"};

    for (size_t i = 0; i < CF_COUNT(malformed); i++)
        ck_assert_msg(strcmp(instant(malformed[i]), "timestamp_malformed") == 0, "%s: %s",
                      malformed[i], instant(malformed[i]));
    for (size_t i = 0; i < CF_COUNT(unreal); i++)
        ck_assert_msg(strcmp(instant(unreal[i]), "timestamp_not_real_instant") == 0, "%s",
                      unreal[i]);
    ck_assert_str_eq(instant("2026-07-19T12:00:00Z"), "timestamp_requires_milliseconds");
    ck_assert_str_eq(instant("2026-07-19T12:00:00.00Z"), "timestamp_requires_milliseconds");
    ck_assert_str_eq(instant("2026-07-19T12:00:00.000000Z"),
                     "timestamp_requires_milliseconds");
    ck_assert_str_eq(instant("0000-01-01T00:00:00.000Z"), "timestamp_year_zero_not_admitted");
    ck_assert_str_eq(instant("2000-02-29T23:59:59.999Z"), "");
}
END_TEST

START_TEST(instants_come_back_as_they_went)
{
    static const struct {
        const char *text;
        int64_t ms;
    } known[] = {
        {"1970-01-01T00:00:00.000Z", 0},
        {"1969-12-31T23:59:59.999Z", -1},
        {"2026-07-19T10:00:00.000Z", NOW},
        {"0001-01-01T00:00:00.000Z", -62135596800000},
        {"9999-12-31T23:59:59.999Z", 253402300799999},
    };
    char out[CF_CORR_TIME_SIZE];
    int64_t ms;

    for (size_t i = 0; i < CF_COUNT(known); i++) {
        ck_assert(cf_corr_time_parse(known[i].text, 24, &ms) == NULL);
        ck_assert_int_eq(ms, known[i].ms);
        cf_corr_time_format(ms, out);
        ck_assert_str_eq(out, known[i].text);
    }
    for (int64_t day = -719162; day < 2932897; day += 13) {
        cf_corr_time_format(day * 86400000 + 1, out);
        ck_assert_msg(cf_corr_time_parse(out, 24, &ms) == NULL, "%s", out);
        ck_assert_int_eq(ms, day * 86400000 + 1);
    }
    cf_corr_time_format(INT64_MAX, out);
    ck_assert_str_eq(out, "9999-12-31T23:59:59.999Z");
    cf_corr_time_format(INT64_MIN, out);
    ck_assert_str_eq(out, "0001-01-01T00:00:00.000Z");
}
END_TEST

START_TEST(ids_are_canonical_or_refused)
{
    unsigned char id[32], uuid[16];
    char text[CF_CORR_ID_SIZE], made[CF_CORR_UUID_SIZE], back[CF_CORR_UUID_SIZE];

    ck_assert(cf_corr_check_uuid("00000000-0000-0000-0000-000000000000", 36) == NULL);
    ck_assert(cf_corr_check_uuid("0000000A-0000-0000-0000-000000000000", 36) != NULL);
    ck_assert(cf_corr_check_uuid("000000000000-0000-0000-0000-00000000", 36) != NULL);
    ck_assert(cf_corr_check_uuid("{0000000-0000-0000-0000-000000000000", 36) != NULL);
    cf_corr_uuid_make(made);
    ck_assert(cf_corr_check_uuid(made, 36) == NULL);
    ck_assert_int_eq(made[14], '4');
    cf_uuid_pack(made, uuid);
    cf_uuid_print(uuid, back);
    ck_assert_str_eq(made, back);
    memset(id, 0xab, sizeof id);
    cf_id_print(id, text);
    ck_assert(cf_corr_check_event_id(text, strlen(text)) == NULL);
    text[70] = 'B';
    ck_assert_str_eq(cf_corr_check_event_id(text, 71), "event_id_malformed");
    ck_assert(cf_corr_check_revision(text + 7, 40) == NULL);
    ck_assert_str_eq(cf_corr_check_revision(text + 7, 41), "revision_malformed");
}
END_TEST

START_TEST(signatures_have_one_spelling)
{
    char text[90];

    strcpy(text, repeated("A", 86));
    ck_assert(cf_check_signature(text, 86) == NULL);
    ck_assert(cf_check_signature(text, 85) != NULL);
    text[85] = 'B'; /* spare bits set */
    ck_assert(cf_check_signature(text, 86) != NULL);
    text[85] = 'Q';
    ck_assert(cf_check_signature(text, 86) == NULL);
    text[3] = '+';
    ck_assert(cf_check_signature(text, 86) != NULL);
    text[3] = ' ';
    ck_assert(cf_check_signature(text, 86) != NULL);
    strcpy(text, repeated("A", 86));
    strcat(text, "==");
    ck_assert(cf_check_signature(text, 88) != NULL);
}
END_TEST

START_TEST(utf16_order_differs_from_bytes_where_it_must)
{
    ck_assert_int_lt(cf_utf16_order("\xf0\x90\x80\x80", 4, "\xee\x80\x80", 3), 0);
    ck_assert_int_lt(cf_utf16_order("\xed\x9f\xbf", 3, "\xf0\x90\x80\x80", 4), 0);
    ck_assert_int_gt(cf_utf16_order("\xef\xbf\xbf", 3, "\xf4\x8f\xbf\xbf", 4), 0);
    ck_assert_int_lt(cf_utf16_order("a", 1, "ab", 2), 0);
    ck_assert_int_eq(cf_utf16_order("ab", 2, "ab", 2), 0);
}
END_TEST

START_TEST(a_keyring_is_closed_and_exact)
{
    static const char one[] =
        "{\"identity_id\":\"22222222-2222-4222-8222-222222222222\",\"signing_key_id\":"
        "\"33333333-3333-4333-8333-333333333333\",\"public_key_b64url\":"
        "\"A6EHv_POEL4dcN0Y50vAmWfk1jCbpQ1fHdyGZBJVMbg\",\"active\":%s%s}";
    struct cf_corr_keyring *keyring = cf_corr_keyring_new();
    struct cf_corr_refusal refusal;
    char entry[400], text[500];

    snprintf(entry, sizeof entry, one, "true", "");
    snprintf(text, sizeof text, "[%s]", entry);
    ck_assert_int_eq(cf_corr_keyring_read(keyring, text, strlen(text), &refusal), 0);
    ck_assert(
        cf_corr_keyring_find(keyring, "33333333-3333-4333-8333-333333333333")->is_active);
    snprintf(entry, sizeof entry, one, "false", "");
    snprintf(text, sizeof text, "[%s]", entry);
    ck_assert_int_eq(cf_corr_keyring_read(keyring, text, strlen(text), &refusal), 0);
    ck_assert_uint_eq(cf_corr_keyring_count(keyring), 1); /* replaced */
    ck_assert(
        !cf_corr_keyring_find(keyring, "33333333-3333-4333-8333-333333333333")->is_active);
    snprintf(entry, sizeof entry, one, "true", ",\"note\":1");
    snprintf(text, sizeof text, "[%s]", entry);
    ck_assert_int_eq(cf_corr_keyring_read(keyring, text, strlen(text), &refusal), -1);
    ck_assert_str_eq(refusal.pointer, "/0/note");
    ck_assert_int_eq(cf_corr_keyring_read(keyring, "{}", 2, &refusal), -1);
    cf_corr_keyring_free(keyring);
}
END_TEST

UNIT_MAIN("correspond/words", if (cf_corr_init() < 0) return 1;
          tcase_add_test(tc, opaque_ids_count_scalars_and_refuse_blanks);
          tcase_add_test(tc, paths_are_normalized_and_plain);
          tcase_add_test(tc, locators_need_a_scheme_and_no_blank);
          tcase_add_test(tc, overlap_is_by_segments);
          tcase_add_test(tc, instants_have_one_spelling);
          tcase_add_test(tc, instants_come_back_as_they_went);
          tcase_add_test(tc, ids_are_canonical_or_refused);
          tcase_add_test(tc, signatures_have_one_spelling);
          tcase_add_test(tc, utf16_order_differs_from_bytes_where_it_must);
          tcase_add_test(tc, a_keyring_is_closed_and_exact);)
