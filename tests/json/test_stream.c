#include "base/buf.h"
#include "base/str.h"
#include "json/json.h"
#include "json/stream.h"
#include "tests/support/unit.h"

#include <string.h>

/* Writes the events down as compact JSON again, which jansson then reads and compares. */
struct writer {
    struct cf_buf out, string;
    bool needs_comma;
};

static void
comma(struct writer *w)
{
    if (w->needs_comma)
        cf_buf_adds(&w->out, ",");
    w->needs_comma = true;
}

static void
on_event(void *user, enum cf_json_event event, const char *bytes, size_t len)
{
    struct writer *w = user;

    if (event == CF_JSON_STRING_PIECE) {
        ck_assert_uint_gt(len, 0);
        cf_buf_add(&w->string, bytes, len);
        return;
    }
    if (event == CF_JSON_STRING_CLOSE) {
        cf_json_append_string(&w->out, w->string.data ? w->string.data : "", w->string.len);
        return;
    }
    if (event == CF_JSON_OBJECT_CLOSE || event == CF_JSON_ARRAY_CLOSE) {
        cf_buf_adds(&w->out, event == CF_JSON_OBJECT_CLOSE ? "}" : "]");
        w->needs_comma = true;
        return;
    }
    comma(w);
    if (event == CF_JSON_OBJECT_OPEN || event == CF_JSON_ARRAY_OPEN || event == CF_JSON_NAME)
        w->needs_comma = false;
    if (event == CF_JSON_STRING_OPEN)
        cf_buf_reset(&w->string);
    else if (event == CF_JSON_NAME)
        cf_json_append_string(&w->out, bytes, len), cf_buf_adds(&w->out, ":");
    else if (event == CF_JSON_NUMBER)
        cf_buf_add(&w->out, bytes, len);
    else
        cf_buf_adds(&w->out, event == CF_JSON_OBJECT_OPEN  ? "{"
                             : event == CF_JSON_ARRAY_OPEN ? "["
                             : event == CF_JSON_TRUE       ? "true"
                             : event == CF_JSON_FALSE      ? "false"
                                                           : "null");
}

static int
read_text(struct writer *w, const char *text, size_t len, size_t cut, struct cf_error *err)
{
    struct cf_json_stream stream;
    struct cf_error again;
    int status;

    cf_buf_reset(&w->out);
    w->needs_comma = false;
    cf_json_stream_init(&stream, on_event, w);
    status = cf_json_stream_feed(&stream, text, cut, err);
    if (status == 0)
        status = cf_json_stream_feed(&stream, text + cut, len - cut, err);
    if (status == 0)
        status = cf_json_stream_end(&stream, err);
    else
        ck_assert_int_eq(cf_json_stream_end(&stream, &again), -1);
    return status;
}

static void
writer_release(struct writer *w)
{
    cf_buf_release(&w->out);
    cf_buf_release(&w->string);
}

START_TEST(events_say_what_the_text_says_whatever_the_cut)
{
    static const char *const texts[] = {
        "{}",
        " [ ] ",
        "null",
        "-0",
        "12.5e+3",
        "\"\"",
        "{\"a\":[1,-2.5,0,1e9,{\"b\":{}}],\"c\\u0041\\n\":\"x\\\"\\\\\\/"
        "\\b\\f\\n\\r\\t\\u00e9\\ud83d\\ude00\xc3\xa9\","
        "\"d\":[true,false,null,[],[[]],\"\\u0000z\"] }",
        "[0.5,10,1E-2,[0],{\"k\":0}]",
    };

    struct writer w = {0};
    for (size_t i = 0; i < CF_COUNT(texts); i++) {
        json_t *expected = cf_json_parse(texts[i], strlen(texts[i]), NULL, NULL);
        ck_assert_ptr_nonnull(expected);
        for (size_t cut = 0; cut <= strlen(texts[i]); cut++) {
            struct cf_error err = {0};
            ck_assert_msg(read_text(&w, texts[i], strlen(texts[i]), cut, &err) == 0, "%s: %s",
                          texts[i], err.text);
            json_t *got = cf_json_parse(w.out.data, w.out.len, NULL, &err);
            ck_assert_msg(got != NULL, "%s: %s", w.out.data, err.text);
            ck_assert(cf_json_same(got, expected));
            json_decref(got);
        }
        json_decref(expected);
    }
    writer_release(&w);
}
END_TEST

START_TEST(texts_that_are_not_json_are_told_with_their_offset)
{
    static const char *const bad[] = {
        "",          " ",           "nul",      "nulls",      "{",     "}",         "[1,]",
        "[,1]",      "{\"a\"}",     "{\"a\":}", "{\"a\":1,}", "{a:1}", "{\"a\" 1}", "[1}",
        "{\"a\":1]", "01",          "-",        "+1",         "1.",    ".5",        "1e",
        "1e+",       "[1.]",        "1 2",      "[] []",      "\"",    "\"\\",      "\"\\x\"",
        "\"\\u12\"", "\"\\u12g4\"", "\"\n\"",   "'a'",        "[-a]",
    };
    struct writer w = {0};

    for (size_t i = 0; i < CF_COUNT(bad); i++) {
        for (size_t cut = 0; cut <= strlen(bad[i]); cut++) {
            struct cf_error err = {0};
            ck_assert_msg(read_text(&w, bad[i], strlen(bad[i]), cut, &err) == -1, "%s",
                          bad[i]);
            ck_assert_int_eq(err.kind, CF_ERROR_WIRE);
        }
    }
    writer_release(&w);
}
END_TEST

START_TEST(a_lone_surrogate_becomes_the_replacement_character)
{
    static const char *const texts[] = {"\"\\ud83d\"",        "\"\\ud83dx\"",
                                        "\"\\ud83d\\n\"",     "\"\\ude00\"",
                                        "\"\\ud83d\\u0041\"", "\"\\ud83d\\ud83d\\ude00\""};
    struct writer w = {0};

    for (size_t i = 0; i < CF_COUNT(texts); i++) {
        struct cf_error err = {0};
        ck_assert_int_eq(read_text(&w, texts[i], strlen(texts[i]), 3, &err), 0);
        ck_assert_msg(memcmp(w.string.data, "\xef\xbf\xbd", 3) == 0, "%s", texts[i]);
    }
    ck_assert_str_eq(w.string.data, "\xef\xbf\xbd\xf0\x9f\x98\x80");
    writer_release(&w);
}
END_TEST

START_TEST(nesting_stops_at_its_limit)
{
    char text[2 * CF_JSON_STREAM_DEPTH + 2];
    struct cf_error err = {0};
    struct writer w = {0};

    memset(text, '[', CF_JSON_STREAM_DEPTH);
    memset(text + CF_JSON_STREAM_DEPTH, ']', CF_JSON_STREAM_DEPTH);
    ck_assert_int_eq(read_text(&w, text, 2 * CF_JSON_STREAM_DEPTH, 5, &err), 0);
    memset(text, '[', CF_JSON_STREAM_DEPTH + 1);
    ck_assert_int_eq(read_text(&w, text, CF_JSON_STREAM_DEPTH + 1, 5, &err), -1);
    ck_assert_int_eq(err.kind, CF_ERROR_TOO_LARGE);
    writer_release(&w);
}
END_TEST

START_TEST(a_long_name_is_cut_at_a_character_and_a_long_number_is_cut)
{
    struct cf_buf text = {0};
    struct cf_error err = {0};
    struct writer w = {0};

    cf_buf_adds(&text, "{\"a");
    for (int i = 0; i < 200; i++)
        cf_buf_adds(&text, "\xc3\xa9");
    cf_buf_adds(&text, "\":1");
    for (int i = 0; i < 200; i++)
        cf_buf_adds(&text, "0");
    cf_buf_adds(&text, "}");
    ck_assert_int_eq(read_text(&w, text.data, text.len, 7, &err), 0);
    ck_assert_uint_eq(w.out.len, 2 + 255 + 3 + 63 + 1 - 1);
    cf_buf_release(&text);
    writer_release(&w);
}
END_TEST

UNIT_MAIN("json/stream", tcase_add_test(tc, events_say_what_the_text_says_whatever_the_cut);
          tcase_add_test(tc, texts_that_are_not_json_are_told_with_their_offset);
          tcase_add_test(tc, a_lone_surrogate_becomes_the_replacement_character);
          tcase_add_test(tc, nesting_stops_at_its_limit);
          tcase_add_test(tc, a_long_name_is_cut_at_a_character_and_a_long_number_is_cut);)
