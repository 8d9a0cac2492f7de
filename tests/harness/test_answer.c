#include "docker/harness-common/model.h"
#include "tests/support/unit.h"

#include <stdio.h>
#include <string.h>

/* One answer as each dialect streams it: "Hi there" in two pieces. */
static const struct {
    enum hn_dialect dialect;
    const char *stream;
} streams[] = {
    { HN_OPENAI_CHAT,
      "data: {\"choices\":[{\"index\":0,\"delta\":{\"role\":\"assistant\",\"content\":\"\"}}]}\n\n"
      ": keep-alive\n\n"
      "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"Hi \"},\"finish_reason\":null}]}\r\n\r\n"
      "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"the\xc3\xa9re\"}}]}\n\n"
      "data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\n"
      "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":10,\"completion_tokens\":3}}\n\n"
      "data: [DONE]\n\n" },
    { HN_ANTHROPIC_MESSAGES,
      "event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"usage\":"
      "{\"input_tokens\":10,\"output_tokens\":1}}}\n\n"
      "event: ping\ndata: {\"type\":\"ping\"}\n\n"
      "event: content_block_start\ndata: {\"type\":\"content_block_start\",\"index\":0,"
      "\"content_block\":{\"type\":\"text\",\"text\":\"\"}}\n\n"
      "event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":"
      "{\"type\":\"text_delta\",\"text\":\"Hi \"}}\n\n"
      "event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":"
      "{\"type\":\"text_delta\",\"text\":\"the\xc3\xa9re\"}}\n\n"
      "event: message_delta\ndata: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":"
      "\"end_turn\"},\"usage\":{\"output_tokens\":3}}\n\n"
      "event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n" },
    { HN_OPENAI_RESPONSES,
      "event: response.created\ndata: {\"type\":\"response.created\",\"response\":{\"id\":\"r\"}}\n\n"
      "event: x\ndata: {\"type\":\"response.output_text.delta\",\"delta\":\"Hi \"}\n\n"
      "event: x\ndata: {\"type\":\"response.output_text.delta\",\"delta\":\"the\xc3\xa9re\"}\n\n"
      "event: x\ndata: {\"type\":\"response.output_item.done\",\"item\":{\"type\":\"message\","
      "\"content\":[{\"type\":\"output_text\",\"text\":\"Hi the\xc3\xa9re\"}]}}\n\n"
      "event: x\ndata: {\"type\":\"response.completed\",\"response\":{\"id\":\"r\",\"status\":"
      "\"completed\",\"usage\":{\"input_tokens\":10,\"output_tokens\":3}}}\n\n" },
};

struct reading {
    struct hn_sse sse;
    struct hn_answer answer;
    enum hn_dialect dialect;
};

static int
on_event(void *user, const char *data, size_t len, struct cf_error *err)
{
    struct reading *reading = user;

    return hn_answer_event(&reading->answer, reading->dialect, data, len, err);
}

static int
on_body(void *user, const char *bytes, size_t len, struct cf_error *err)
{
    return hn_sse_feed(&((struct reading *)user)->sse, bytes, len, err);
}

/* The answer as HTTP in two feeds, the body in chunks of 7. */
static int
read_cut(struct reading *reading, const char *stream, size_t cut, struct cf_error *err)
{
    struct cf_buf wire = { 0 };
    struct hn_http http;
    size_t len = strlen(stream);
    int status;

    reading->sse.on_event = on_event;
    reading->sse.user = reading;
    cf_buf_adds(&wire, "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"
                       "Transfer-Encoding: chunked\r\n\r\n");
    for (size_t at = 0; at < len; at += 7)
        cf_buf_addf(&wire, "%zx\r\n%.7s\r\n", len - at < 7 ? len - at : 7, stream + at);
    cf_buf_adds(&wire, "0\r\n\r\n");
    cut = cut < wire.len ? cut : wire.len;
    hn_http_expect_answer(&http, on_body, reading);
    status = cut > 0 ? hn_http_feed(&http, wire.data, cut, err) : 0;
    if (status == 0)
        status = hn_http_feed(&http, wire.data + cut, wire.len - cut, err);
    hn_http_release(&http);
    cf_buf_release(&wire);
    return status;
}

static void
release(struct reading *reading)
{
    hn_sse_release(&reading->sse);
    hn_answer_release(&reading->answer);
}

START_TEST(a_streamed_answer_survives_any_cut)
{
    size_t len = strlen(streams[_i].stream) * 2 + 100;

    for (size_t cut = 0; cut < len; cut++) {
        struct reading reading = { .dialect = streams[_i].dialect };
        struct cf_error err;

        ck_assert_msg(read_cut(&reading, streams[_i].stream, cut, &err) == 1, "cut %zu", cut);
        ck_assert_int_eq(hn_answer_end(&reading.answer, &err), 0);
        ck_assert_str_eq(reading.answer.text.data, "Hi the\xc3\xa9re");
        ck_assert_int_eq(reading.answer.input_tokens, 10);
        ck_assert_int_eq(reading.answer.output_tokens, 3);
        release(&reading);
    }
}
END_TEST

START_TEST(a_stream_without_its_closing_event_is_no_answer)
{
    struct reading reading = { .dialect = HN_ANTHROPIC_MESSAGES };
    struct cf_error err;
    char *cut = strdup(streams[1].stream);

    strstr(cut, "event: message_stop")[0] = '\0';
    ck_assert_int_eq(read_cut(&reading, cut, 0, &err), 1);
    ck_assert_int_lt(hn_answer_end(&reading.answer, &err), 0);
    ck_assert_ptr_nonnull(strstr(err.text, "why it stopped"));
    free(cut);
    release(&reading);
}
END_TEST

START_TEST(an_error_event_is_the_answers_error)
{
    struct reading reading = { .dialect = HN_ANTHROPIC_MESSAGES };
    struct cf_error err;

    ck_assert_int_lt(read_cut(&reading,
                              "event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":"
                              "\"overloaded_error\",\"message\":\"too much\"}}\n\n",
                              0, &err),
                     0);
    ck_assert_ptr_nonnull(strstr(err.text, "too much"));
    release(&reading);
}
END_TEST

START_TEST(streamed_tool_calls_are_put_together)
{
    static const char *const events[] = {
        "{\"choices\":[{\"delta\":{\"tool_calls\":[{\"index\":0,\"id\":\"a\",\"function\":"
        "{\"name\":\"read\",\"arguments\":\"\"}}]}}]}",
        "{\"choices\":[{\"delta\":{\"tool_calls\":[{\"index\":1,\"id\":\"b\",\"function\":"
        "{\"name\":\"write\",\"arguments\":\"{}\"}},{\"index\":0,\"function\":"
        "{\"arguments\":\"{\\\"path\\\":\"}}]}}]}",
        "{\"choices\":[{\"delta\":{\"tool_calls\":[{\"index\":0,\"function\":"
        "{\"arguments\":\"\\\"x\\\"}\"}}]},\"finish_reason\":\"tool_calls\"}]}",
    };
    struct hn_answer answer = { 0 };
    struct cf_error err;
    json_t *first;

    for (size_t i = 0; i < 3; i++)
        ck_assert_int_eq(hn_answer_event(&answer, HN_OPENAI_CHAT, events[i], strlen(events[i]), &err), 0);
    ck_assert_int_eq(hn_answer_end(&answer, &err), 0);
    ck_assert_int_eq(json_array_size(answer.calls), 2);
    first = json_array_get(answer.calls, 0);
    ck_assert_str_eq(json_string_value(json_object_get(json_object_get(first, "input"), "path")), "x");
    hn_answer_release(&answer);
}
END_TEST

START_TEST(tool_arguments_that_are_no_json_fail)
{
    static const char text[] =
        "{\"choices\":[{\"message\":{\"tool_calls\":[{\"id\":\"a\",\"function\":{\"name\":\"read\","
        "\"arguments\":\"{oops\"}}]},\"finish_reason\":\"tool_calls\"}]}";
    struct hn_answer answer = { 0 };
    struct cf_error err;

    ck_assert_int_eq(hn_answer_whole(&answer, HN_OPENAI_CHAT, text, strlen(text), &err), 0);
    ck_assert_int_lt(hn_answer_end(&answer, &err), 0);
    ck_assert_ptr_nonnull(strstr(err.text, "read"));
    hn_answer_release(&answer);
}
END_TEST

START_TEST(a_call_index_beyond_all_bounds_is_left_out)
{
    static const char text[] =
        "{\"choices\":[{\"delta\":{\"tool_calls\":[{\"index\":4000000000,\"id\":\"a\",\"function\":"
        "{\"name\":\"read\"}},{\"index\":-1,\"id\":\"b\",\"function\":{\"name\":\"read\"}}]},"
        "\"finish_reason\":\"stop\"}]}";
    struct hn_answer answer = { 0 };
    struct cf_error err;

    ck_assert_int_eq(hn_answer_event(&answer, HN_OPENAI_CHAT, text, strlen(text), &err), 0);
    ck_assert_int_eq(hn_answer_end(&answer, &err), 0);
    ck_assert_int_eq(json_array_size(answer.calls), 0);
    hn_answer_release(&answer);
}
END_TEST

START_TEST(results_of_one_round_share_a_message_where_the_dialect_wants_it)
{
    json_t *messages = json_loads(
        "[{\"role\":\"user\",\"text\":\"go\"},"
        "{\"role\":\"assistant\",\"text\":\"\",\"calls\":[{\"id\":\"a\",\"name\":\"read\",\"input\":{}},"
        "{\"id\":\"b\",\"name\":\"read\",\"input\":{}}]},"
        "{\"role\":\"tool\",\"call\":\"a\",\"text\":\"1\",\"failed\":false},"
        "{\"role\":\"tool\",\"call\":\"b\",\"text\":\"2\",\"failed\":true}]",
        0, NULL);
    struct hn_ask ask = { .model = "m", .messages = messages };
    json_t *body = hn_request_build(HN_ANTHROPIC_MESSAGES, &ask);
    json_t *list = json_object_get(body, "messages");

    ck_assert_int_eq(json_array_size(list), 3);
    ck_assert_int_eq(json_array_size(json_object_get(json_array_get(list, 2), "content")), 2);
    json_decref(body);
    body = hn_request_build(HN_OPENAI_CHAT, &ask);
    ck_assert_int_eq(json_array_size(json_object_get(body, "messages")), 4);
    json_decref(body);
    body = hn_request_build(HN_OPENAI_RESPONSES, &ask);
    ck_assert_int_eq(json_array_size(json_object_get(body, "input")), 5);
    json_decref(body);
    json_decref(messages);
}
END_TEST

START_TEST(only_plain_http_to_a_number_is_a_base_url)
{
    static const char *const bad[] = { "https://127.0.0.1", "http://", "http://model.example",
                                       "http://127.0.0.1:0", "http://127.0.0.1:70000", "",
                                       "http://[::1]:80", "http://127.0.0.1:x/v1" };
    struct hn_url url;
    struct cf_error err;

    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        ck_assert_msg(hn_url_parse(&url, bad[i], &err) < 0, "%s", bad[i]);
    ck_assert_int_eq(hn_url_parse(&url, "http://localhost:4180/v1/", &err), 0);
    ck_assert_str_eq(url.path, "/v1");
    ck_assert_str_eq(url.host, "localhost:4180");
}
END_TEST

START_TEST(an_answer_that_is_no_http_is_said_to_be_none)
{
    struct reading reading = { 0 };
    struct hn_http http;
    struct cf_error err;

    hn_http_expect_answer(&http, on_body, &reading);
    ck_assert_int_lt(hn_http_feed(&http, "SSH-2.0-x\r\n", 11, &err), 0);
    ck_assert_ptr_nonnull(strstr(err.text, "not HTTP"));
    hn_http_release(&http);
    hn_http_expect_answer(&http, on_body, &reading);
    ck_assert_int_eq(hn_http_feed(&http, "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nab", 40, &err), 0);
    ck_assert_int_lt(hn_http_feed(&http, "", 0, &err), 0);
    ck_assert_ptr_nonnull(strstr(err.text, "before its answer was whole"));
    hn_http_release(&http);
    release(&reading);
}
END_TEST

UNIT_MAIN("harness/answer",
          tcase_add_loop_test(tc, a_streamed_answer_survives_any_cut, 0, 3);
          tcase_add_test(tc, a_stream_without_its_closing_event_is_no_answer);
          tcase_add_test(tc, an_error_event_is_the_answers_error);
          tcase_add_test(tc, streamed_tool_calls_are_put_together);
          tcase_add_test(tc, tool_arguments_that_are_no_json_fail);
          tcase_add_test(tc, a_call_index_beyond_all_bounds_is_left_out);
          tcase_add_test(tc, results_of_one_round_share_a_message_where_the_dialect_wants_it);
          tcase_add_test(tc, only_plain_http_to_a_number_is_a_base_url);
          tcase_add_test(tc, an_answer_that_is_no_http_is_said_to_be_none);)
