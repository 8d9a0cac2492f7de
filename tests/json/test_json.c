#include "base/buf.h"
#include "base/str.h"
#include "json/json.h"
#include "json/plain.h"
#include "tests/support/unit.h"

#include <dirent.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

static json_t *
parse_ok(const char *text)
{
    struct cf_error err = {0};
    json_t *value = cf_json_parse(text, strlen(text), NULL, &err);

    ck_assert_msg(value != NULL, "%s: %s", text, err.text);
    return value;
}

static enum cf_json_fault
fault_of(const char *text, size_t len, const struct cf_json_limits *limits, struct cf_error *err)
{
    json_t *value = NULL;
    enum cf_json_fault fault = cf_json_read(text, len, limits, &value, err);

    ck_assert((fault == CF_JSON_FAULT_NONE) == (value != NULL));
    json_decref(value);
    return fault;
}

/* Every byte at every place of a word, beside what is said of one byte. */
START_TEST(a_plain_prefix_ends_where_a_byte_by_byte_look_ends)
{
    char bytes[24];

    for (unsigned place = 0; place < sizeof bytes; place++)
        for (unsigned ch = 0; ch < 256; ch++)
            for (unsigned next = 0; next < 256; next += 17) {
                memset(bytes, 'a', sizeof bytes);
                bytes[place] = (char)ch;
                if (place + 1 < sizeof bytes)
                    bytes[place + 1] = (char)next;
                for (int ascii = 0; ascii < 2; ascii++) {
                    size_t want = 0;
                    while (want < sizeof bytes && cf_is_plain((unsigned char)bytes[want], ascii))
                        want++;
                    ck_assert_uint_eq(cf_plain_prefix(bytes, sizeof bytes, ascii), want);
                    ck_assert_uint_eq(cf_plain_prefix(bytes, place, ascii), place);
                }
            }
}
END_TEST

START_TEST(good_texts_are_read_and_written_back_compact)
{
    static const char *const pairs[][2] = {
        {"null", "null"},
        {" true\n", "true"},
        {"\"a\\u0000b\\/\\ud83d\\ude00\\u001f\"", "\"a\\u0000b/\xf0\x9f\x98\x80\\u001f\""},
        {"[ ]", "[]"},
        {"{ }", "{}"},
        {"{\"b\":1,\"a\":[1,2.50,-0.1,1e3,1.0,{\"c\":[[]]}]}",
         "{\"b\":1,\"a\":[1,2.5,-0.1,1000.0,1.0,{\"c\":[[]]}]}"},
        {"[-9223372036854775808,9223372036854775807]", "[-9223372036854775808,9223372036854775807]"},
        {"1e300", "1e+300"},
        {"{\"\":\"\\\"\\\\\\b\\f\\n\\r\\t\"}", "{\"\":\"\\\"\\\\\\b\\f\\n\\r\\t\"}"},
    };

    for (size_t i = 0; i < CF_COUNT(pairs); i++) {
        json_t *value = parse_ok(pairs[i][0]);
        size_t len;
        char *text = cf_json_dump(value, &len);
        ck_assert_str_eq(text, pairs[i][1]);
        ck_assert_uint_eq(len, strlen(text));
        json_t *again = parse_ok(text);
        ck_assert(cf_json_same(value, again));
        free(text);
        json_decref(again);
        json_decref(value);
    }
}
END_TEST

/* Of each text the tree is what jansson's own reader makes of it. */
static void
same_as_jansson(const char *text, size_t len)
{
    struct cf_json_limits limits = {0};
    json_error_t why;
    json_t *value = NULL, *theirs;

    for (int i = 0; i < 2; i++) {
        limits.reject_duplicates = i == 1;
        theirs = json_loadb(text, len, JSON_DECODE_ANY | JSON_ALLOW_NUL | (i == 1 ? JSON_REJECT_DUPLICATES : 0), &why);
        enum cf_json_fault fault = cf_json_read(text, len, &limits, &value, NULL);
        ck_assert_msg((fault == CF_JSON_FAULT_NONE) == (theirs != NULL), "%s", text);
        if (theirs != NULL) {
            char *ours = json_dumps(value, JSON_ENCODE_ANY), *wanted = json_dumps(theirs, JSON_ENCODE_ANY);
            ck_assert_str_eq(ours, wanted); /* members in the same order, numbers of the same kind */
            ck_assert(json_equal(value, theirs));
            free(ours);
            free(wanted);
            json_decref(value);
        }
        json_decref(theirs);
    }
}

START_TEST(the_tree_is_the_one_that_jansson_builds)
{
    static const char *const texts[] = {
        "0", "-0", "-1", "123456789012345678", "1234567890123456789", "9223372036854775807", "-9223372036854775808",
        "9223372036854775808", "0.0", "-0.0", "1e5", "1E-5", "12.5e3", "1e400", "[0,1.5,-2,3e2]", " [ 1 , 2 ] ",
        "\"\"", "\"a\"", "\"\\\"\"", "\"\\\\\"", "\"\\\\\\\"\"", "\"a\\\"b\\\"c\"", "\"\\u0000\"", "\"x\\u0041y\"",
        "\"\\uD83D\\uDE00\"", "\"\\ud83d\\ude00\\uFFFF\"", "\"\\/\\b\\f\\n\\r\\t\"", "\"\xc3\xa9\xf0\x9f\x98\x80\"",
        "{\"a\":1,\"a\":2}", "{\"a\":1,\"\\u0061\":2}", "{\"\\u0061\":\"\\u0062\",\"c\":{\"\\n\":[]}}", "{\"\":{}}",
        "{ \"k\" : [ { } , [ ] , true , false , null ] }", "{\"b\":1,\"a\":2,\"b\":3,\"c\":4}",
        "[[[[[[[[1]]]]]]]]", "[\"\\\\\",\"\\\"\",\"\"]",
    };
    char name[600];

    for (size_t i = 0; i < CF_COUNT(texts); i++)
        same_as_jansson(texts[i], strlen(texts[i]));
    for (size_t len = 100; len < 300; len += 7) { /* a name with escapes, kept while its value is read */
        (void)snprintf(name, sizeof name, "{\"%0*d\\u0061\":\"\\n\",\"b\":2}", (int)len, 1);
        same_as_jansson(name, strlen(name));
    }
}
END_TEST

START_TEST(texts_that_are_not_json_are_refused)
{
    static const char *const bad[] = {
        "", " ", "nul", "nulls", "tru", "{", "}", "[", "]", "[1", "[1,", "[1,]", "[,1]", "{\"a\"}",
        "{\"a\":}", "{\"a\":1,}", "{a:1}", "{\"a\" 1}", "{\"a\":1 \"b\":2}", "[1}", "{\"a\":1]",
        "01", "-", "+1", "1.", ".5", "1e", "1e+", "0x1", "NaN", "Infinity", "1 2", "[] []",
        "\"", "\"\\", "\"\\x\"", "\"\\u12\"", "\"\\u12g4\"", "\"\n\"", "\"\\ud800\"",
        "\"\\ud800x\"", "\"\\ud800\\n\"", "\"\\ud800\\u0041\"", "\"\\udc00\"", "\"\xff\"",
        "\"\xc3\"", "\"\xed\xa0\x80\"", "\xef\xbb\xbf{}", "{\"a\\u0000\":1}", "'a'", "// c\n1",
        "9223372036854775808", "-9223372036854775809", "1e400", "-1e999", "[1]\x0c",
    };
    struct cf_error err;

    for (size_t i = 0; i < CF_COUNT(bad); i++) {
        memset(&err, 0, sizeof err);
        ck_assert_msg(fault_of(bad[i], strlen(bad[i]), NULL, &err) == CF_JSON_FAULT_TEXT, "%zu: %s",
                      i, bad[i]);
        ck_assert_int_eq(err.kind, CF_ERROR_CONFIG);
        ck_assert_msg(strncmp(err.text, "line ", 5) == 0, "%s", err.text);
    }
    ck_assert_int_eq(fault_of("1\0", 2, NULL, &err), CF_JSON_FAULT_TEXT);
    ck_assert_int_eq(fault_of("\"\0\"", 3, NULL, &err), CF_JSON_FAULT_TEXT);
}
END_TEST

START_TEST(a_text_cut_at_any_byte_is_refused_and_whole_it_is_read)
{
    static const char text[] =
        "{\"a\\u00e9\\ud83d\\ude00\":[1,-2.5e-3,true,false,null,\"\xe2\x82\xac\"],\"b\":{\"c\":{}}}";
    struct cf_error err;

    for (size_t cut = 0; cut < sizeof text - 1; cut++) {
        char *exact = malloc(cut + 1); /* so that the sanitizer sees a read past the end */
        memcpy(exact, text, cut);
        exact = realloc(exact, cut > 0 ? cut : 1);
        ck_assert_int_eq(fault_of(exact, cut, NULL, &err), CF_JSON_FAULT_TEXT);
        free(exact);
    }
    ck_assert_int_eq(fault_of(text, sizeof text - 1, NULL, &err), CF_JSON_FAULT_NONE);
}
END_TEST

START_TEST(an_error_names_line_column_and_byte)
{
    static const char text[] = "{\n \"\xc3\xa9\": x}";
    struct cf_error err = {0};

    ck_assert_ptr_null(cf_json_parse(text, sizeof text - 1, NULL, &err));
    ck_assert_str_eq(err.text, "line 2, column 7 (byte 9): not a JSON value");
}
END_TEST

START_TEST(limits_hold_at_the_limit_and_one_past_it)
{
    struct cf_json_limits depth = {.depth = 3}, nodes = {.nodes = 4}, bytes = {.bytes = 5};
    struct cf_error err;

    ck_assert_int_eq(fault_of("[[[1]]]", 7, &depth, &err), CF_JSON_FAULT_NONE);
    ck_assert_int_eq(fault_of("[[[[]]]]", 8, &depth, &err), CF_JSON_FAULT_DEPTH);
    ck_assert_int_eq(err.kind, CF_ERROR_TOO_LARGE);
    ck_assert_int_eq(fault_of("[[[]],[[]],[{}]]", 16, &depth, &err), CF_JSON_FAULT_NONE);
    ck_assert_int_eq(fault_of("[1,2,3]", 7, &nodes, &err), CF_JSON_FAULT_NONE);
    ck_assert_int_eq(fault_of("[1,2,3,4]", 9, &nodes, &err), CF_JSON_FAULT_NODES);
    ck_assert_int_eq(fault_of("{\"a\":1,\"b\":[2]}", 15, &nodes, &err), CF_JSON_FAULT_NONE);
    ck_assert_int_eq(fault_of("[1,2]", 5, &bytes, &err), CF_JSON_FAULT_NONE);
    ck_assert_int_eq(fault_of("[1,2] ", 6, &bytes, &err), CF_JSON_FAULT_BYTES);
}
END_TEST

START_TEST(broken_text_is_told_before_a_limit)
{
    struct cf_json_limits limits = {.depth = 2, .nodes = 2};
    struct cf_error err;

    ck_assert_int_eq(fault_of("[[[[", 4, &limits, &err), CF_JSON_FAULT_TEXT);
    ck_assert_int_eq(fault_of("[1,2,3", 6, &limits, &err), CF_JSON_FAULT_TEXT);
}
END_TEST

START_TEST(a_million_brackets_build_nothing)
{
    size_t len = 1000000;
    char *text = malloc(len);
    struct cf_error err;

    memset(text, '[', len);
    ck_assert_int_eq(fault_of(text, len, NULL, &err), CF_JSON_FAULT_TEXT);
    free(text);
}
END_TEST

START_TEST(names_given_twice_are_refused_on_request)
{
    static const char text[] = "{\"a\":1,\"b\":{\"c\":1,\"\\u0063\":2}}";
    struct cf_json_limits strict = {.reject_duplicates = true};
    struct cf_error err;

    ck_assert_int_eq(fault_of(text, sizeof text - 1, NULL, &err), CF_JSON_FAULT_NONE);
    ck_assert_int_eq(fault_of(text, sizeof text - 1, &strict, &err), CF_JSON_FAULT_DUPLICATE);
}
END_TEST

START_TEST(scalars_are_refused_where_a_container_is_asked)
{
    struct cf_json_limits limits = {.containers_only = true};
    struct cf_error err;

    ck_assert_int_eq(fault_of("1", 1, &limits, &err), CF_JSON_FAULT_TEXT);
    ck_assert_int_eq(fault_of("[]", 2, &limits, &err), CF_JSON_FAULT_NONE);
}
END_TEST

START_TEST(members_are_read_by_type_and_null_is_no_trouble)
{
    json_t *o = parse_ok("{\"s\":\"x\",\"o\":{},\"a\":[],\"i\":7,\"t\":true,\"n\":null,\"r\":1.0}");

    ck_assert_str_eq(cf_json_str(o, "s"), "x");
    ck_assert_ptr_null(cf_json_str(o, "i"));
    ck_assert_ptr_null(cf_json_str(NULL, "s"));
    ck_assert_ptr_null(cf_json_str(json_object_get(o, "a"), "s"));
    ck_assert_ptr_nonnull(cf_json_obj(o, "o"));
    ck_assert_ptr_null(cf_json_obj(o, "a"));
    ck_assert_ptr_nonnull(cf_json_arr(o, "a"));
    ck_assert_ptr_null(cf_json_arr(NULL, "a"));
    ck_assert_int_eq(cf_json_int(o, "i", -1), 7);
    ck_assert_int_eq(cf_json_int(o, "r", -1), -1);
    ck_assert(cf_json_bool(o, "t", false));
    ck_assert(cf_json_bool(o, "n", true));
    json_decref(o);
}
END_TEST

START_TEST(pointers_escape_tilde_and_slash)
{
    struct cf_buf pointer = {0};

    ck_assert_int_eq(cf_json_pointer_push(&pointer, "a/b~c"), 0);
    ck_assert_int_eq(cf_json_pointer_push(&pointer, ""), 0);
    ck_assert_int_eq(cf_json_pointer_push(&pointer, "~~"), 0);
    ck_assert_str_eq(pointer.data, "/a~1b~0c//~0~0");
    cf_buf_release(&pointer);
}
END_TEST

START_TEST(equality_is_that_of_json_schema)
{
    static const struct {
        const char *a, *b;
        bool same;
    } cases[] = {
        {"1", "1.0", true},
        {"[1,2]", "[1.0,2]", true},
        {"{\"a\":1,\"b\":2}", "{\"b\":2,\"a\":1}", true},
        {"0", "false", false},
        {"1", "true", false},
        {"null", "false", false},
        {"\"1\"", "1", false},
        {"[1,2]", "[2,1]", false},
        {"[1]", "[1,1]", false},
        {"{\"a\":1}", "{\"a\":1,\"b\":1}", false},
        {"{\"a\":1}", "{\"b\":1}", false},
        {"\"a\\u0000b\"", "\"a\\u0000c\"", false},
        {"9007199254740993", "9007199254740992.0", false},
        {"9223372036854775807", "9223372036854775808.0", false},
        {"0", "-0.0", true},
        {"1.5", "1", false},
        {"[[[]]]", "[[[]]]", true},
    };

    for (size_t i = 0; i < CF_COUNT(cases); i++) {
        json_t *a = parse_ok(cases[i].a), *b = parse_ok(cases[i].b);
        ck_assert_msg(cf_json_same(a, b) == cases[i].same, "%s / %s", cases[i].a, cases[i].b);
        ck_assert(cf_json_same(b, a) == cases[i].same);
        json_decref(a);
        json_decref(b);
    }
}
END_TEST

START_TEST(appending_stops_at_the_ceiling_of_the_buffer)
{
    json_t *value = parse_ok("{\"name\":[1,2,3]}");
    struct cf_buf text;

    cf_buf_init(&text, 16);
    ck_assert_int_eq(cf_json_append(&text, value), 0);
    cf_buf_release(&text);
    cf_buf_init(&text, 15);
    ck_assert_int_eq(cf_json_append(&text, value), -1);
    ck_assert(text.failed);
    cf_buf_release(&text);
    json_decref(value);
}
END_TEST

#define SUITE "../shared/data/json-parsing/test_parsing"

/* The verdict by the file's first letter: y valid, n invalid, i either. */
static void
judge_file(const char *name)
{
    char path[400], text[300000];
    struct cf_error err = {0};

    snprintf(path, sizeof path, SUITE "/%s", name);
    FILE *file = fopen(path, "rb");
    ck_assert_ptr_nonnull(file);
    size_t len = fread(text, 1, sizeof text, file);
    fclose(file);
    enum cf_json_fault fault = fault_of(text, len, NULL, &err);
    if (strcmp(name, "y_object_escaped_null_in_key.json") == 0)
        ck_assert_int_eq(fault, CF_JSON_FAULT_TEXT); /* valid JSON, but not for us */
    else if (name[0] == 'y')
        ck_assert_msg(fault == CF_JSON_FAULT_NONE, "%s: %s", name, err.text);
    else if (name[0] == 'n')
        ck_assert_msg(fault == CF_JSON_FAULT_TEXT, "%s: was taken", name);
}

START_TEST(the_public_parsing_suite_is_judged_right)
{
    DIR *dir = opendir(SUITE);
    struct dirent *entry;
    unsigned files = 0;

    if (dir == NULL) {
        printf("SKIPPED the public parsing suite: %s is not here\n", SUITE);
        return;
    }
    while ((entry = readdir(dir)) != NULL) {
        if (strstr(entry->d_name, ".json") == NULL)
            continue;
        judge_file(entry->d_name);
        files++;
    }
    closedir(dir);
    printf("public parsing suite: %u files\n", files);
    ck_assert_uint_gt(files, 100);
}
END_TEST

UNIT_MAIN("json/json", tcase_add_test(tc, good_texts_are_read_and_written_back_compact);
          tcase_add_test(tc, the_tree_is_the_one_that_jansson_builds);
          tcase_add_test(tc, texts_that_are_not_json_are_refused);
          tcase_add_test(tc, a_text_cut_at_any_byte_is_refused_and_whole_it_is_read);
          tcase_add_test(tc, an_error_names_line_column_and_byte);
          tcase_add_test(tc, limits_hold_at_the_limit_and_one_past_it);
          tcase_add_test(tc, broken_text_is_told_before_a_limit);
          tcase_add_test(tc, a_million_brackets_build_nothing);
          tcase_add_test(tc, names_given_twice_are_refused_on_request);
          tcase_add_test(tc, scalars_are_refused_where_a_container_is_asked);
          tcase_add_test(tc, members_are_read_by_type_and_null_is_no_trouble);
          tcase_add_test(tc, pointers_escape_tilde_and_slash);
          tcase_add_test(tc, equality_is_that_of_json_schema);
          tcase_add_test(tc, appending_stops_at_the_ceiling_of_the_buffer);
          tcase_add_test(tc, a_plain_prefix_ends_where_a_byte_by_byte_look_ends);
          tcase_add_test(tc, the_public_parsing_suite_is_judged_right);)
