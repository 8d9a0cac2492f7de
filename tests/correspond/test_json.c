/* The strict parser and the canonical form, on our own cases and on public ones. */
#include "tests/correspond/support.h"

#define JCS "../shared/data/jcs"
#define PARSING "../shared/data/json-parsing"

START_TEST(reasons_are_the_protocols)
{
    static const struct {
        const char *text, *reason;
        int offset;
    } cases[] = {
        {"", "raw_post_empty", 0},
        {" \n\t\r", "raw_post_empty", 0},
        {"\xef\xbb\xbf{}", "byte_order_mark_not_admitted", 0},
        {"\"\xff\"", "invalid_utf8", 1},
        {"[1,\"\xed\xa0\x80\"]", "invalid_utf8", 4},
        {"{\"a\":1,\"a\":2}", "duplicate_object_name", 7},
        {"{\"a\":1,\"\\u0061\":1}", "duplicate_object_name", 7},
        {"[{\"x\":{\"a\":1,\"b\":2,\"a\":3}}]", "duplicate_object_name", 19},
        {"{\"n\":1.5}", "fractional_number", 5},
        {"[1.0e2]", "fractional_number", 1},
        {"[-0.0]", "fractional_number", 1},
        {"[1e2]", "exponent_not_admitted", 1},
        {"[-0e0]", "exponent_not_admitted", 1},
        {"[1e400]", "exponent_not_admitted", 1},
        {"[-0]", "negative_zero", 1},
        {"9007199254740992", "unsafe_integer", 0},
        {"-9007199254740992", "unsafe_integer", 0},
        {"123456789012345678901234567890", "unsafe_integer", 0},
        {"01", "invalid_json_number", 0},
        {"-01", "invalid_json_number", 0},
        {"+1", "invalid_json_number", 0},
        {".5", "invalid_json_number", 0},
        {"1.", "invalid_json_number", 0},
        {"-", "invalid_json_number", 0},
        {"1e", "invalid_json_number", 0},
        {"0x10", "invalid_json_number", 0},
        {"NaN", "invalid_json_number", 0},
        {"-Infinity", "invalid_json_number", 0},
        {"Infinity", "invalid_json_number", 0},
        {"1_000", "invalid_json", 1},
        {"nan", "invalid_json", 0},
        {"{\"s\":\"\\u0000\"}", "nul_not_admitted", 6},
        {"{\"\\u0000\":1}", "nul_not_admitted", 2},
        {"\"\\ud800\"", "non_scalar_unicode", 1},
        {"\"\\ud800x\"", "non_scalar_unicode", 1},
        {"\"\\ud800\\u0041\"", "non_scalar_unicode", 1},
        {"\"\\udc00\"", "non_scalar_unicode", 1},
        {"\"\\ud800\\ud800\"", "non_scalar_unicode", 1},
        {"[1,]", "invalid_json", 3},
        {"[1 2]", "invalid_json", 3},
        {"{\"a\" 1}", "invalid_json", 5},
        {"{a:1}", "invalid_json", 1},
        {"{\"a\":1,}", "invalid_json", 7},
        {"[1]x", "invalid_json", 3},
        {"[", "invalid_json", 1},
        {"\"abc", "invalid_json", 4},
        {"\"a\nb\"", "invalid_json", 2},
        {"\"\\x\"", "invalid_json", 1},
        {"\"\\U0041\"", "invalid_json", 1},
        {"\"\\u00g0\"", "invalid_json", 1},
        {"nul", "invalid_json", 0},
        {"'a'", "invalid_json", 0},
        {"[1]]", "invalid_json", 3},
        {"[}", "invalid_json", 1},
    };

    for (size_t i = 0; i < CF_COUNT(cases); i++) {
        struct cf_corr_refusal refusal = {0};
        struct cf_corr_value *value = NULL;
        int status =
            cf_corr_value_parse(cases[i].text, strlen(cases[i].text), 0, &value, &refusal);
        ck_assert_msg(status < 0, "%s was admitted", cases[i].text);
        ck_assert_msg(strcmp(refusal.reason, cases[i].reason) == 0, "%s: %s", cases[i].text,
                      refusal.reason);
        ck_assert_msg(refusal.offset == cases[i].offset, "%s: offset %d", cases[i].text,
                      (int)refusal.offset);
        ck_assert_str_eq(refusal.pointer, "");
    }
}
END_TEST

static void
expect_canonical(const char *text, const char *wanted)
{
    struct cf_corr_refusal refusal = {0};
    char *got = NULL;
    size_t len;

    ck_assert_msg(cf_corr_canonicalize(text, strlen(text), 0, &got, &len, &refusal) == 0,
                  "%s: %s", text, refusal.reason);
    ck_assert_str_eq(got, wanted);
    ck_assert_uint_eq(len, strlen(wanted));
    free(got);
}

START_TEST(canonical_form_sorts_escapes_and_strips)
{
    expect_canonical(" [ 1 , -7, 0, true,false ,null, \"\" ] ",
                     "[1,-7,0,true,false,null,\"\"]");
    expect_canonical("9007199254740991", "9007199254740991");
    expect_canonical("-9007199254740991", "-9007199254740991");
    expect_canonical("{}", "{}");
    expect_canonical("[]", "[]");
    expect_canonical("[[],{}]", "[[],{}]");
    expect_canonical("{\"b\":1,\"a\":{\"d\":1,\"c\":2},\"\":0}",
                     "{\"\":0,\"a\":{\"c\":2,\"d\":1},\"b\":1}");
    expect_canonical("\"\\u0008\\u0009\\u000A\\u000c\\u000d\\u0001\\u001F\\/\\\"\\\\\\u007f\"",
                     "\"\\b\\t\\n\\f\\r\\u0001\\u001f/\\\"\\\\\x7f\"");
    expect_canonical("\"\\ud83d\\ude00\\u2028\\ufeff\"",
                     "\"\xf0\x9f\x98\x80\xe2\x80\xa8\xef\xbb\xbf\"");
    /* UTF-16 order: the supplementary one before U+E000, shorter prefix first. */
    expect_canonical(
        "{\"\\ue000\":1,\"\\ud83d\\ude00\":2,\"a\":3,\"ab\":4,\"\\uffff\":5,\"\\ud7ff\":6}",
        "{\"a\":3,\"ab\":4,\"\xed\x9f\xbf\":6,\"\xf0\x9f\x98\x80\":2,\"\xee\x80\x80\":1,"
        "\"\xef\xbf\xbf\":5}");
    /* Precomposed and decomposed are two names. */
    expect_canonical("{\"\\u00e9\":1,\"e\\u0301\":2}", "{\"e\xcc\x81\":2,\"\xc3\xa9\":1}");
}
END_TEST

START_TEST(every_cut_of_a_text_is_refused_and_named)
{
    static const char text[] =
        "{\"k\\u00e9\":[1,-20,{\"a\":\"\\ud83d\\ude00x\",\"b\":null}],\"z\":true}";
    size_t whole = strlen(text);

    for (size_t cut = 0; cut < whole; cut++) {
        char *part = malloc(cut + 1); /* its own block: reading past it is seen */
        memcpy(part, text, cut);
        ck_assert_msg(reason_of(part, cut)[0] != '\0', "cut at %zu was admitted", cut);
        free(part);
    }
    ck_assert_str_eq(reason_of(text, whole), "");
}
END_TEST

START_TEST(sizes_and_depth_end_where_they_say)
{
    char *text = malloc(70000), deep[200];
    size_t len;

    memset(text, ' ', 70000);
    text[0] = '1';
    ck_assert_str_eq(reason_of(text, 65536), "");
    ck_assert_str_eq(reason_of(text, 65537), "raw_post_too_large");
    free(text);
    for (size_t depth = 63; depth <= 65; depth++) {
        len = 0;
        for (size_t i = 0; i < depth; i++)
            deep[len++] = '[';
        for (size_t i = 0; i < depth; i++)
            deep[len++] = ']';
        ck_assert_str_eq(reason_of(deep, len), depth <= 64 ? "" : "json_depth_exceeded");
    }
}
END_TEST

/* Enough members that names go through the table, in an order that needs sorting. */
START_TEST(large_objects_sort_and_find_their_twins)
{
    enum { MEMBERS = 5000 };
    struct cf_buf buf;
    size_t len, last;
    char *got = NULL;
    struct cf_corr_refusal refusal;

    cf_buf_init(&buf, 0);
    for (int i = 0; i < MEMBERS; i++)
        cf_buf_addf(&buf, "%s\"%04d\":1", i == 0 ? "{" : ",", i * 7919 % MEMBERS);
    last = buf.len;
    cf_buf_adds(&buf, "}");
    ck_assert_int_eq(cf_corr_canonicalize(buf.data, buf.len, 0, &got, &len, &refusal), 0);
    for (int i = 1; i < MEMBERS; i++)
        ck_assert(strncmp(got + 1 + (i - 1) * 9, got + 1 + i * 9, 6) < 0);
    free(got);
    buf.len = last;
    cf_buf_adds(&buf, ",\"\\u0034999\":1}");
    ck_assert_str_eq(reason_of(buf.data, buf.len), "duplicate_object_name");
    cf_buf_release(&buf);
}
END_TEST

/* canonical(parse(canonical(x))) is canonical(x) */
START_TEST(the_canonical_form_is_a_fixed_point)
{
    static const char text[] = "{\"\\u20ac\":\"\\u0001\\/"
                               "\",\"\\r\":[{\"b\":[],\"a\":{}},-3],\"1\":\"\\ud83d\\ude02\"}";
    struct cf_corr_refusal refusal;
    char *once, *twice;
    size_t once_len, twice_len;

    ck_assert_int_eq(cf_corr_canonicalize(text, strlen(text), 0, &once, &once_len, &refusal),
                     0);
    ck_assert_int_eq(cf_corr_canonicalize(once, once_len, 0, &twice, &twice_len, &refusal), 0);
    ck_assert_str_eq(once, twice);
    free(once);
    free(twice);
}
END_TEST

static void
check_jcs(const char *folder, const char *name, const char *reason)
{
    char path[300];
    struct cf_corr_refusal refusal = {0};
    size_t len, wanted_len, got_len;
    char *in, *wanted, *got = NULL;
    int status;

    snprintf(path, sizeof path, "%s/input/%s.json", folder, name);
    in = slurp(path, &len);
    ck_assert_ptr_nonnull(in);
    snprintf(path, sizeof path, "%s/output/%s.json", folder, name);
    wanted = slurp(path, &wanted_len);
    ck_assert_ptr_nonnull(wanted);
    status = cf_corr_canonicalize(in, len, 0, &got, &got_len, &refusal);
    if (reason != NULL) {
        ck_assert_int_eq(status, -1);
        ck_assert_str_eq(refusal.reason, reason);
    } else {
        ck_assert_msg(status == 0, "%s: %s", name, refusal.reason);
        ck_assert_msg(got_len == wanted_len && memcmp(got, wanted, got_len) == 0,
                      "%s differs:\n%s\n%s", name, got, wanted);
    }
    free(got);
    free(in);
    free(wanted);
}

START_TEST(public_jcs_pairs_agree)
{
    json_t *expect = json_load_file(JCS "/expectations.json", 0, NULL), *entry;
    const char *name;

    if (expect == NULL) {
        printf("SKIPPED public JCS pairs: " JCS " is not there\n");
        return;
    }
    json_object_foreach(json_object_get(expect, "files"), name, entry)
        check_jcs(JCS, name, json_string_value(json_object_get(entry, "reason")));
    json_object_foreach(json_object_get(expect, "derived"), name, entry)
        check_jcs(JCS "/derived", name, json_string_value(json_object_get(entry, "reason")));
    json_decref(expect);
}
END_TEST

static bool
is_acceptable(const json_t *entry, const char *reason)
{
    json_t *also = json_object_get(entry, "also_acceptable"), *item;
    const char *wanted = json_string_value(json_object_get(entry, "reason"));
    size_t i;

    if (wanted == NULL || strcmp(wanted, reason) == 0)
        return wanted != NULL || reason[0] == '\0';
    json_array_foreach(also, i, item)
        if (json_is_string(item) && strcmp(json_string_value(item), reason) == 0)
            return true;
    return false;
}

START_TEST(public_torture_files_get_this_profiles_verdicts)
{
    json_t *expect = json_load_file(PARSING "/expectations.json", 0, NULL), *entry;
    const char *name, *uncapped;
    unsigned n = 0;

    if (expect == NULL) {
        printf("SKIPPED public JSON torture files: " PARSING " is not there\n");
        return;
    }
    json_object_foreach(json_object_get(expect, "files"), name, entry) {
        char path[400];
        size_t len;
        char *text;
        snprintf(path, sizeof path, PARSING "/test_parsing/%s", name);
        text = slurp(path, &len);
        ck_assert_msg(text != NULL, "%s", path);
        ck_assert_msg(is_acceptable(entry, reason_of(text, len)), "%s: %s", name,
                      reason_of(text, len));
        uncapped = json_string_value(json_object_get(entry, "reason_without_size_cap"));
        if (uncapped != NULL) {
            struct cf_corr_refusal refusal = {0};
            struct cf_corr_value *value = NULL;
            ck_assert_int_eq(cf_corr_value_parse(text, len, 1u << 24, &value, &refusal), -1);
            ck_assert_str_eq(refusal.reason, uncapped);
        }
        free(text);
        n++;
    }
    ck_assert_uint_ge(n, 200);
    json_decref(expect);
}
END_TEST

UNIT_MAIN("correspond/json", if (cf_corr_init() < 0) return 1;
          tcase_add_test(tc, reasons_are_the_protocols);
          tcase_add_test(tc, canonical_form_sorts_escapes_and_strips);
          tcase_add_test(tc, every_cut_of_a_text_is_refused_and_named);
          tcase_add_test(tc, sizes_and_depth_end_where_they_say);
          tcase_add_test(tc, large_objects_sort_and_find_their_twins);
          tcase_add_test(tc, the_canonical_form_is_a_fixed_point);
          tcase_add_test(tc, public_jcs_pairs_agree);
          tcase_add_test(tc, public_torture_files_get_this_profiles_verdicts);)
