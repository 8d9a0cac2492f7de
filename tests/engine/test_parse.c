/* The pure parsers of this room: frames, progress objects, the attach head, references. */
#include "base/buf.h"
#include "base/str.h"
#include "engine/engine.h"
#include "engine/frames.h"
#include "engine/head.h"
#include "engine/objects.h"
#include "tests/support/unit.h"

#include <stdio.h>
#include <string.h>

/* ---- frames ----------------------------------------------------------------------------- */

static int
collect(void *user, unsigned type, const char *bytes, size_t len)
{
    ck_assert_uint_gt(len, 0);
    return cf_buf_add(&((struct cf_buf *)user)[type], bytes, len);
}

START_TEST(frames_survive_any_cut)
{
    static const char text[] = "\1\0\0\0\0\0\0\3abc\2\0\0\0\0\0\0\2de\1\0\0\0\0\0\0\0\0\0\0\0"
                               "\0\0\0\1f\1\0\0\0\0\0\0\1g";

    for (size_t cut = 0; cut < sizeof text - 1; cut++) {
        struct cf_frames frames = {0};
        struct cf_buf out[4] = {0};
        ck_assert_int_eq(cf_frames_feed(&frames, text, cut, collect, out, NULL), 0);
        ck_assert_int_eq(
            cf_frames_feed(&frames, text + cut, sizeof text - 1 - cut, collect, out, NULL), 0);
        ck_assert_str_eq(out[1].data, "abcg");
        ck_assert_str_eq(out[2].data, "de");
        ck_assert_uint_eq(frames.left + frames.head_len, 0);
        for (int i = 0; i < 4; i++)
            cf_buf_release(&out[i]);
    }
}
END_TEST

START_TEST(a_frame_may_be_as_large_as_32_bits_say)
{
    struct cf_frames frames = {0};
    struct cf_buf out[4] = {0};

    ck_assert_int_eq(
        cf_frames_feed(&frames, "\1\0\0\0\xff\xff\xff\xffxy", 10, collect, out, NULL), 0);
    ck_assert_uint_eq(frames.left, 0xffffffffu - 2);
    cf_buf_release(&out[1]);
}
END_TEST

START_TEST(what_is_no_frame_header_is_refused)
{
    static const char *const bad[] = {"\4\0\0\0\0\0\0\1", "\1\1\0\0\0\0\0\1",
                                      "\1\0\1\0\0\0\0\1", "\1\0\0\1\0\0\0\1", "HTTP/1.1"};

    for (size_t i = 0; i < CF_COUNT(bad); i++) {
        struct cf_frames frames = {0};
        struct cf_error err = {0};
        ck_assert_int_eq(cf_frames_feed(&frames, bad[i], 8, collect, NULL, &err), -1);
        ck_assert_int_eq(err.kind, CF_ERROR_ENGINE);
    }
}
END_TEST

/* ---- objects ---------------------------------------------------------------------------- */

static int
count(void *user, json_t *object)
{
    ck_assert(json_is_object(object));
    return ++*(int *)user == 100 ? -7 : 0;
}

START_TEST(objects_survive_any_cut)
{
    static const char text[] = "{\"a\":\"}{\"}\r\n{\"b\":\"\\\"}\\\\\"}\x1e{\"c\":[{},[]]} {}";

    for (size_t cut = 0; cut < sizeof text - 1; cut++) {
        struct cf_objects objects;
        int n = 0;
        cf_objects_init(&objects);
        ck_assert_int_eq(cf_objects_feed(&objects, text, cut, count, &n, NULL), 0);
        ck_assert_int_eq(
            cf_objects_feed(&objects, text + cut, sizeof text - 1 - cut, count, &n, NULL), 0);
        if (cut < sizeof text)
            ck_assert_int_eq(n, 4);
        ck_assert(cf_objects_is_between(&objects));
        cf_objects_release(&objects);
    }
}
END_TEST

START_TEST(an_object_of_one_mebibyte_passes_and_one_byte_more_does_not)
{
    for (size_t more = 0; more < 2; more++) {
        struct cf_objects objects;
        struct cf_error err = {0};
        int n = 0;
        size_t len = CF_OBJECT_LIMIT_BYTES + more;
        char *text = malloc(len);
        memset(text, 'x', len);
        memcpy(text, "{\"a\":\"", 6);
        memcpy(text + len - 2, "\"}", 2);
        cf_objects_init(&objects);
        ck_assert_int_eq(cf_objects_feed(&objects, text, len, count, &n, &err), more ? -1 : 0);
        ck_assert_int_eq(n, more ? 0 : 1);
        cf_objects_release(&objects);
        free(text);
    }
}
END_TEST

START_TEST(what_is_no_object_is_an_error_of_the_engine)
{
    static const char *const bad[] = {"[1]",           "1",           "x", "{]", "{\"a\":}",
                                      "{\"a\"\x01:1}", "{\"\xff\":1}"};

    for (size_t i = 0; i < CF_COUNT(bad); i++) {
        struct cf_objects objects;
        struct cf_error err = {0};
        int n = 0;
        cf_objects_init(&objects);
        ck_assert_int_eq(cf_objects_feed(&objects, bad[i], strlen(bad[i]), count, &n, &err),
                         -1);
        ck_assert_int_eq(err.kind, CF_ERROR_ENGINE);
        cf_objects_release(&objects);
    }
}
END_TEST

START_TEST(the_error_of_an_object_is_errordetail_before_error)
{
    static const struct {
        const char *json, *error;
    } cases[] = {{"{\"errorDetail\":{\"message\":\"new\"},\"error\":\"old\"}", "new"},
                 {"{\"error\":\"old\"}", "old"},
                 {"{\"errorDetail\":{}}", "an error without a message"},
                 {"{\"status\":\"fine\"}", NULL}};

    for (size_t i = 0; i < CF_COUNT(cases); i++) {
        json_t *object = json_loads(cases[i].json, 0, NULL);
        ck_assert(cf_str_same(cf_objects_error(object), cases[i].error));
        json_decref(object);
    }
}
END_TEST

/* ---- head ------------------------------------------------------------------------------- */

START_TEST(a_head_survives_any_cut_and_leaves_the_rest)
{
    static const char text[] =
        "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 404 Not Found\r\ncontent-LENGTH: "
        "12\r\nTransfer-Encoding:  Chunked\r\n\r\nrest";

    for (size_t cut = 0; cut < sizeof text - 1; cut++) {
        struct cf_head *head = calloc(1, sizeof *head);
        struct cf_error err = {0};
        long first = cf_head_feed(head, text, cut, &err);
        ck_assert_int_ge(first, 0);
        long second = head->is_whole ? 0
                                     : cf_head_feed(head, text + first,
                                                    sizeof text - 1 - (size_t)first, &err);
        ck_assert_int_ge(second, 0);
        ck_assert_uint_eq((size_t)(first + second), sizeof text - 5);
        ck_assert(head->is_whole);
        ck_assert_int_eq(head->status, 404);
        ck_assert_uint_eq(head->content_length, 12);
        ck_assert(head->is_chunked);
        free(head);
    }
}
END_TEST

START_TEST(a_head_that_is_none_or_too_long_is_refused)
{
    static const char *const bad[] = {"SSH-2.0-x\r\n\r\n", "HTTP/2 200 OK\r\n\r\n",
                                      "HTTP/1.1 2x0 OK\r\n\r\n", "HTTP/1.1  200\r\n\r\n",
                                      "\n\n"};
    struct cf_head *head = calloc(1, sizeof *head);
    struct cf_error err = {0};

    for (size_t i = 0; i < CF_COUNT(bad); i++) {
        memset(head, 0, sizeof *head);
        ck_assert_int_eq(cf_head_feed(head, bad[i], strlen(bad[i]), &err), -1);
    }
    memset(head, 0, sizeof *head);
    cf_head_feed(head, "HTTP/1.1 200 OK\r\n", 17, &err);
    for (size_t i = 17; i < CF_HEAD_LIMIT_BYTES; i++)
        ck_assert_int_eq(cf_head_feed(head, "x", 1, &err), 1);
    ck_assert_int_eq(cf_head_feed(head, "x", 1, &err), -1);
    free(head);
}
END_TEST

/* ---- references ------------------------------------------------------------------------- */

#define HEX64 "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

START_TEST(references_are_taken_apart)
{
    static const struct {
        const char *text, *domain, *repo, *tag, *digest;
    } cases[] = {
        {"alpine", "docker.io", "alpine", "", ""},
        {"alpine:3.19", "docker.io", "alpine", "3.19", ""},
        {"library/alpine@sha256:" HEX64, "docker.io", "library/alpine", "", "sha256:" HEX64},
        {"ghcr.io/a/b:t@sha256:" HEX64, "ghcr.io", "ghcr.io/a/b", "t", "sha256:" HEX64},
        {"127.0.0.1:5000/acp-harness@sha256:" HEX64, "127.0.0.1:5000",
         "127.0.0.1:5000/acp-harness", "", "sha256:" HEX64},
        {"localhost/x:y", "localhost", "localhost/x", "y", ""},
        {"localhost:5000", "docker.io", "localhost", "5000", ""},
        {"[::1]:5000/x", "[::1]:5000", "[::1]:5000/x", "", ""},
        {"a.b_c__d-e--f/g:_T.a-g", "docker.io", NULL, NULL, NULL},
        {"team/a.b_c__d-e--f:_T.a-g", "docker.io", "team/a.b_c__d-e--f", "_T.a-g", ""},
        {"My-Host.com/x", "My-Host.com", "My-Host.com/x", "", ""},
    };

    for (size_t i = 0; i < CF_COUNT(cases); i++) {
        struct cf_image_ref ref;
        struct cf_error err = {0};
        int rc = cf_image_ref_parse(cases[i].text, &ref, &err);
        if (cases[i].repo == NULL) {
            ck_assert_int_eq(rc, -1);
            continue;
        }
        ck_assert_msg(rc == 0, "%s: %s", cases[i].text, err.text);
        ck_assert_str_eq(ref.domain, cases[i].domain);
        ck_assert_str_eq(ref.repo, cases[i].repo);
        ck_assert_str_eq(ref.tag, cases[i].tag);
        ck_assert_str_eq(ref.digest, cases[i].digest);
    }
}
END_TEST

START_TEST(what_is_no_reference_is_refused)
{
    static const char *const bad[] = {
        "",
        "A",
        "a//b",
        "/a",
        "a/",
        "a:",
        "a:b:c",
        "a@",
        "a@sha256:",
        "a@sha256:" HEX64 "0",
        "a@md5:" HEX64,
        "a@sha256:ABCDEF6789abcdef0123456789abcdef0123456789abcdef0123456789abcdef",
        "-a",
        "a-",
        "a..b",
        "a___b",
        "a b",
        "a\nb",
        "h.com:x/a",
        "h.com:/a",
        "-h.com/a",
        "a/../b",
        "a?x",
        "a#x",
        "a%2fb",
        "\xc3\xa9",
        "a@sha256:" HEX64 "@sha256:" HEX64};
    char longest[600];

    for (size_t i = 0; i < CF_COUNT(bad); i++) {
        struct cf_image_ref ref;
        struct cf_error err = {0};
        ck_assert_msg(cf_image_ref_parse(bad[i], &ref, &err) == -1, "%s", bad[i]);
        ck_assert_int_eq(err.kind, CF_ERROR_CONFIG);
    }
    for (size_t len = 255; len <= 256; len++) {
        struct cf_image_ref ref;
        memset(longest, 'a', len);
        longest[len] = '\0';
        ck_assert_int_eq(cf_image_ref_parse(longest, &ref, NULL), len == 255 ? 0 : -1);
    }
    for (size_t len = 128; len <= 129; len++) {
        struct cf_image_ref ref;
        memcpy(longest, "a:", 2);
        memset(longest + 2, 't', len);
        longest[len + 2] = '\0';
        ck_assert_int_eq(cf_image_ref_parse(longest, &ref, NULL), len == 128 ? 0 : -1);
    }
}
END_TEST

UNIT_MAIN("engine/parse", tcase_add_test(tc, frames_survive_any_cut);
          tcase_add_test(tc, a_frame_may_be_as_large_as_32_bits_say);
          tcase_add_test(tc, what_is_no_frame_header_is_refused);
          tcase_add_test(tc, objects_survive_any_cut);
          tcase_add_test(tc, an_object_of_one_mebibyte_passes_and_one_byte_more_does_not);
          tcase_add_test(tc, what_is_no_object_is_an_error_of_the_engine);
          tcase_add_test(tc, the_error_of_an_object_is_errordetail_before_error);
          tcase_add_test(tc, a_head_survives_any_cut_and_leaves_the_rest);
          tcase_add_test(tc, a_head_that_is_none_or_too_long_is_refused);
          tcase_add_test(tc, references_are_taken_apart);
          tcase_add_test(tc, what_is_no_reference_is_refused);)
