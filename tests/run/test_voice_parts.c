#include "run/voice_parts.h"

#include "base/buf.h"
#include "base/str.h"

#include "tests/support/unit.h"

#include <string.h>

START_TEST(a_burst_then_one_a_period)
{
    struct cf_rate rate = {0};
    uint64_t now = 1000000;

    for (unsigned i = 0; i < CF_RATE_BURST; i++)
        ck_assert(cf_rate_take(&rate, now + i));
    ck_assert(!cf_rate_take(&rate, now + CF_RATE_PERIOD_MS - 1));
    ck_assert_uint_eq(cf_rate_next_ms(&rate, now + 50), now + CF_RATE_PERIOD_MS);
    ck_assert(cf_rate_take(&rate, now + CF_RATE_PERIOD_MS));
    ck_assert(!cf_rate_take(&rate, now + CF_RATE_PERIOD_MS));
    ck_assert_uint_eq(cf_rate_next_ms(&rate, now + CF_RATE_PERIOD_MS), now + 2 * CF_RATE_PERIOD_MS);
}
END_TEST

START_TEST(a_long_rest_earns_one_burst_and_no_more)
{
    struct cf_rate rate = {0};
    unsigned taken = 0;

    while (cf_rate_take(&rate, 5))
        taken++;
    ck_assert_uint_eq(taken, CF_RATE_BURST);
    for (taken = 0; cf_rate_take(&rate, 1000 * CF_RATE_PERIOD_MS);)
        taken++;
    ck_assert_uint_eq(taken, CF_RATE_BURST);
}
END_TEST

START_TEST(over_a_day_of_hurry_the_rate_is_what_it_says)
{
    struct cf_rate rate = {0};
    uint64_t day = 86400000, taken = 0;

    for (uint64_t now = 1; now <= day; now += 700)
        taken += cf_rate_take(&rate, now);
    ck_assert_uint_le(taken, CF_RATE_BURST + day / CF_RATE_PERIOD_MS);
    ck_assert_uint_ge(taken, day / CF_RATE_PERIOD_MS - 1);
}
END_TEST

START_TEST(a_file_is_digested_whatever_its_pieces)
{
    static const char text[] = "abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq"; /* FIPS 180-2, B.2 */
    static const char want[] = "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1";
    size_t len = strlen(text);
    char hex[65];

    for (size_t cut = 0; cut <= len; cut++) {
        struct cf_digest_list list = {0};
        cf_digest_begin(&list);
        cf_digest_bytes(&list, text, cut);
        cf_digest_bytes(&list, text + cut, len - cut);
        cf_digest_keep(&list, "a");
        ck_assert_uint_eq(list.count, 1);
        ck_assert_uint_eq(list.files[0].bytes, len);
        cf_hex(list.files[0].sha256, 32, hex);
        ck_assert_str_eq(hex, want);
        cf_digest_release(&list);
    }
}
END_TEST

START_TEST(what_was_not_begun_or_not_kept_is_not_there)
{
    struct cf_digest_list list = {0};
    char hex[65];

    cf_digest_bytes(&list, "x", 1);
    cf_digest_keep(&list, "stray");
    ck_assert_uint_eq(list.count, 0);
    cf_digest_begin(&list); /* fails half-way, and is never kept */
    cf_digest_bytes(&list, "half", 4);
    cf_digest_begin(&list);
    cf_digest_keep(&list, "empty");
    cf_digest_keep(&list, "again");
    ck_assert_uint_eq(list.count, 1);
    ck_assert_uint_eq(list.files[0].bytes, 0);
    cf_hex(list.files[0].sha256, 32, hex);
    ck_assert_str_eq(hex, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
    cf_digest_release(&list);
}
END_TEST

START_TEST(the_list_is_what_sha256sum_prints_in_path_order)
{
    static const char *const paths[] = {"b", "a/\xff", "a", "a-"};
    static const char *const sorted[] = {"a", "a-", "a/\xff", "b"};
    struct cf_digest_list list = {0};
    struct cf_buf text = {0};
    unsigned char got[32], want[32];
    char hex[65];

    for (size_t i = 0; i < CF_COUNT(paths); i++) {
        cf_digest_begin(&list);
        cf_digest_bytes(&list, paths[i], strlen(paths[i]));
        cf_digest_keep(&list, paths[i]);
    }
    cf_digest_seal(&list, got);
    for (size_t i = 0; i < CF_COUNT(sorted); i++) {
        unsigned char one[32];
        ck_assert_str_eq(list.files[i].path, sorted[i]);
        (void)crypto_hash_sha256(one, (const unsigned char *)sorted[i], strlen(sorted[i]));
        cf_hex(one, 32, hex);
        (void)cf_buf_addf(&text, "%s  %s", hex, sorted[i]);
        (void)cf_buf_add(&text, "", 1);
    }
    (void)crypto_hash_sha256(want, (const unsigned char *)text.data, text.len);
    ck_assert_mem_eq(got, want, 32);
    cf_buf_release(&text);
    cf_digest_release(&list);
}
END_TEST

UNIT_MAIN("run/voice_parts", tcase_add_test(tc, a_burst_then_one_a_period);
          tcase_add_test(tc, a_long_rest_earns_one_burst_and_no_more);
          tcase_add_test(tc, over_a_day_of_hurry_the_rate_is_what_it_says);
          tcase_add_test(tc, a_file_is_digested_whatever_its_pieces);
          tcase_add_test(tc, what_was_not_begun_or_not_kept_is_not_there);
          tcase_add_test(tc, the_list_is_what_sha256sum_prints_in_path_order);)
