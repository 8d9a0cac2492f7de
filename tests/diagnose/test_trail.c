#include "diagnose/trail.h"

#include "base/utf8.h"
#include "json/json.h"
#include "tests/support/unit.h"

#include <stdio.h>
#include <string.h>

static void
passed(struct cf_trail *trail, uint32_t turn, bool from_harness, uint64_t number, const char *line)
{
    cf_trail_frame_passed(trail, turn, from_harness, number, number * 10, line, strlen(line));
}

static void
expect_glance(const char *line, const char *what, const char *text)
{
    char w[80], t[120];

    cf_glance(line, strlen(line), strlen(line), w, sizeof w, t, sizeof t);
    ck_assert_str_eq(w, what);
    ck_assert_str_eq(t, text);
}

START_TEST(a_glance_shows_what_is_the_frames_own)
{
    expect_glance("{\"jsonrpc\":\"2.0\",\"method\":\"session/update\",\"params\":{\"sessionId\":\"s\",\"update\":"
                  "{\"sessionUpdate\":\"tool_call\",\"title\":\"a } b\"}}}",
                  "session/update tool_call", "\"title\":\"a } b\"");
    expect_glance("{\"method\":\"session/update\",\"params\":{\"update\":{\"a\":1,\"sessionUpdate\":\"x\"}}}", "session/update x",
                  "{\"a\":1,\"sessionUpdate\":\"x\"}");
    expect_glance("{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{\"protocolVersion\":1}}", "answer", "{\"protocolVersion\":1}");
    expect_glance("{\"jsonrpc\":\"2.0\",\"id\":1,\"error\":{\"code\":-1}}", "error answer", "{\"code\":-1}");
    expect_glance("{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"initialize\",\"params\":{\"a\":[1]}}", "initialize", "{\"a\":[1]}");
    expect_glance("Welcome to \033[31mme\xe2\x80\xae!", "", "Welcome to  [31mme !");
    expect_glance("", "", "");
}
END_TEST

START_TEST(a_glance_at_any_cut_is_one_bounded_line)
{
    static const char line[] = "{\"jsonrpc\":\"2.0\",\"method\":\"session/update\",\"params\":{\"update\":{\"sessionUpdate\":"
                               "\"\xe2\x82\xac\xf0\x9f\x98\x80\\\"}\"}}}";
    char what[12], text[12];

    for (size_t cut = 0; cut < sizeof line; cut++) {
        cf_glance(line, cut, sizeof line, what, sizeof what, text, sizeof text);
        ck_assert_uint_lt(strlen(what), sizeof what);
        ck_assert_uint_lt(strlen(text), sizeof text);
        ck_assert(cf_utf8_is_valid(text, strlen(text)));
    }
}
END_TEST

START_TEST(an_answer_is_found_by_its_id_whatever_comes_between)
{
    struct cf_trail trail = {0};
    const struct cf_trail_exchange *found;

    passed(&trail, 0, false, 1, "{\"id\":1,\"method\":\"initialize\"}");
    passed(&trail, 0, true, 2, "{\"id\":1,\"method\":\"fs/read\"}"); /* a request of theirs may have the same id */
    passed(&trail, 0, true, 3, "{\"id\":2,\"result\":{}}");
    passed(&trail, 0, true, 4, "not json \"id\"");
    passed(&trail, 0, true, 5, "{\"id\":1,\"result\":{}}");
    passed(&trail, 1, false, 6, "{\"id\":2,\"method\":\"session/prompt\"}");
    found = cf_trail_exchange(&trail, 0, "initialize");
    ck_assert(found != NULL && found->request == 1 && found->answer == 5);
    ck_assert(cf_trail_exchange(&trail, 1, "initialize") == NULL);
    found = cf_trail_exchange(&trail, 1, "/prompt");
    ck_assert(found != NULL && found->request == 6 && found->answer == 0);
    cf_trail_release(&trail);
}
END_TEST

START_TEST(of_many_frames_the_first_and_the_last_are_kept)
{
    struct cf_trail trail = {0};
    const uint64_t many = 3 * (CF_TRAIL_HEAD + CF_TRAIL_RING);

    for (uint64_t n = 1; n <= many; n++)
        passed(&trail, 1, n % 2 == 0, n, "{}");
    ck_assert(cf_trail_frame(&trail, 1, 1) != NULL && cf_trail_frame(&trail, 1, many) != NULL);
    ck_assert(cf_trail_frame(&trail, 1, CF_TRAIL_HEAD + CF_TRAIL_RING / 2) == NULL);
    ck_assert_uint_eq(cf_trail_last_frame(&trail, false)->number, many - 1);
    cf_trail_release(&trail);
}
END_TEST

/* A one-shot process numbers its lines anew each turn. */
START_TEST(a_line_is_found_by_its_turn)
{
    struct cf_trail trail = {0};

    passed(&trail, 1, true, 1, "one");
    passed(&trail, 2, true, 1, "two");
    ck_assert_str_eq(cf_trail_frame(&trail, 2, 1)->text, "two");
    ck_assert_str_eq(cf_trail_frame(&trail, 1, 1)->text, "one");
    cf_trail_release(&trail);
}
END_TEST

START_TEST(a_secret_is_struck_even_where_the_cut_divides_it)
{
    static const char secret[] = "s3cr3t-value-0123456789";
    struct cf_trail trail = {.secrets = json_pack("[s, s]", secret, "short")};
    json_t *evidence = json_array();
    char line[2000];
    const char *text;

    passed(&trail, 1, true, 1, "the key is s3cr3t-value-0123456789, keep it short");
    cf_evidence_frame(evidence, &trail, 1, 1, NULL);
    text = cf_json_str(json_array_get(evidence, 0), "text");
    ck_assert_str_eq(text, "the key is ***********************, keep it short");
    memset(line, ' ', sizeof line);
    memcpy(line + CF_TRAIL_TEXT_BYTES - 60, "\"jsonrpc\":1,\"result\":", 21);
    memcpy(line + CF_TRAIL_TEXT_BYTES - 10, secret, sizeof secret);
    passed(&trail, 1, true, 2, line);
    cf_evidence_frame(evidence, &trail, 1, 2, NULL);
    text = cf_json_str(json_array_get(evidence, 1), "text");
    ck_assert_msg(strstr(text, "**********\xe2\x80\xa6") != NULL && strstr(text, "s3cr") == NULL, "%s", text);
    json_decref(trail.secrets);
    cf_trail_release(&trail);
    json_decref(evidence);
}
END_TEST

START_TEST(evidence_points_only_at_what_is_there)
{
    struct cf_trail trail = {0};
    json_t *evidence = json_array(), *document = json_pack("{s:{s:[i, s]}, s:n}", "a", "b", 7, "x\033y", "nothing");

    cf_evidence_fact(evidence, document, "/a/b/0", NULL);
    cf_evidence_fact(evidence, document, "/a/b/1", NULL);
    cf_evidence_fact(evidence, document, "/a/b/2", NULL);
    cf_evidence_fact(evidence, document, "/a/none/0", NULL);
    cf_evidence_fact(evidence, document, "/nothing", NULL);
    cf_evidence_call(evidence, NULL, NULL);
    cf_evidence_frame(evidence, &trail, 0, 0, NULL);
    cf_evidence_seen(evidence, &trail, 0, NULL);
    cf_evidence_check(evidence, NULL);
    ck_assert_uint_eq(json_array_size(evidence), 2);
    ck_assert_str_eq(cf_json_str(json_array_get(evidence, 0), "value"), "7");
    ck_assert_str_eq(cf_json_str(json_array_get(evidence, 1), "value"), "x y");
    cf_evidence_frame(evidence, &trail, 2, 9, "not kept");
    ck_assert_int_eq(cf_json_int(json_array_get(evidence, 2), "frame", 0), 9);
    json_decref(document);
    json_decref(evidence);
}
END_TEST

UNIT_MAIN("diagnose/trail", tcase_add_test(tc, a_glance_shows_what_is_the_frames_own);
          tcase_add_test(tc, a_glance_at_any_cut_is_one_bounded_line);
          tcase_add_test(tc, an_answer_is_found_by_its_id_whatever_comes_between);
          tcase_add_test(tc, of_many_frames_the_first_and_the_last_are_kept);
          tcase_add_test(tc, a_line_is_found_by_its_turn);
          tcase_add_test(tc, a_secret_is_struck_even_where_the_cut_divides_it);
          tcase_add_test(tc, evidence_points_only_at_what_is_there);)
