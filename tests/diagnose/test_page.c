#include "diagnose/page.h"

#include "base/str.h"
#include "base/utf8.h"
#include "diagnose/trace.h"
#include "json/json.h"
#include "tests/support/unit.h"

#include <stdio.h>
#include <string.h>

#define SECRET "planted-value-9"

static json_t *
events_of(struct cf_trace *trace, size_t *ret_bytes)
{
    struct cf_buf text;
    json_t *events;

    cf_buf_init(&text, 0);
    cf_trace_append(trace, &text);
    ck_assert(!text.failed);
    events = cf_json_parse(text.data, text.len, NULL, NULL);
    ck_assert(json_is_array(events));
    if (ret_bytes != NULL)
        *ret_bytes = text.len;
    cf_buf_release(&text);
    return events;
}

static const char *
kind_of(json_t *events, size_t i)
{
    return cf_json_str(json_array_get(events, i), "k");
}

START_TEST(json_for_a_page_cannot_leave_its_element_and_means_the_same)
{
    static const char json[] = "{\"x\":\"</script><!-- & \xe2\x80\xae\xe2\x80\xa8\xf3\xa0\x80\x81 \xc2\x9b \xf0\x9f\x98\x80\"}";
    struct cf_buf text;
    json_t *before = cf_json_parse(json, strlen(json), NULL, NULL), *after;

    cf_buf_init(&text, 0);
    cf_page_put_json(&text, json, strlen(json));
    ck_assert_str_eq(text.data, "{\"x\":\"\\u003c/script\\u003e\\u003c!-- \\u0026 \\u202e\\u2028\\udb40\\udc01 \\u009b \xf0\x9f\x98\x80\"}");
    after = cf_json_parse(text.data, text.len, NULL, NULL);
    ck_assert(json_equal(before, after));
    json_decref(before);
    json_decref(after);
    cf_buf_release(&text);
}
END_TEST

START_TEST(of_a_long_run_the_first_and_the_last_are_kept_and_the_rest_is_counted)
{
    struct cf_trace *trace = cf_trace_new(NULL);
    json_t *events;
    size_t bytes, i, gaps = 0, left_out = 0;
    json_t *event;

    for (unsigned n = 1; n <= 9000; n++)
        cf_trace_frame(trace, true, n, n, "{\"jsonrpc\":\"2.0\",\"method\":\"session/update\"}", 43);
    events = events_of(trace, &bytes);
    ck_assert_uint_le(bytes, 2 * CF_TRACE_PART_BYTES + 4096);
    json_array_foreach(events, i, event)
    {
        bool is_gap = cf_str_same(cf_json_str(event, "k"), "x");
        gaps += is_gap;
        left_out += is_gap ? (size_t)cf_json_int(event, "n", 0) : 0;
    }
    ck_assert_uint_eq(gaps, 1);
    ck_assert_uint_eq(left_out + json_array_size(events) - 1, 9000);
    ck_assert_int_eq(cf_json_int(json_array_get(events, 0), "n", 0), 1);
    ck_assert_int_eq(cf_json_int(json_array_get(events, json_array_size(events) - 1), "n", 0), 9000);
    json_decref(events);
    cf_trace_free(trace);
}
END_TEST

START_TEST(a_long_frame_is_cut_and_says_how_long_it_was)
{
    struct cf_trace *trace = cf_trace_new(NULL);
    size_t len = 1u << 20;
    char *line = malloc(len);
    json_t *events;

    memset(line, 'x', len);
    cf_trace_frame(trace, true, 1, 1, line, len);
    events = events_of(trace, NULL);
    ck_assert_int_eq(cf_json_int(json_array_get(events, 0), "b", 0), (int)len);
    ck_assert_int_eq(cf_json_int(json_array_get(events, 0), "c", 0), CF_TRACE_FRAME_BYTES);
    ck_assert_uint_eq(strlen(cf_json_str(json_array_get(events, 0), "x")), CF_TRACE_FRAME_BYTES);
    json_decref(events);
    free(line);
    cf_trace_free(trace);
}
END_TEST

START_TEST(no_cut_leaves_half_a_secret)
{
    json_t *options = json_pack("{s:{s:s}}", "env", "A", SECRET);
    struct cf_mask *mask = cf_mask_new(options);
    struct cf_trace *trace = cf_trace_new(mask);
    char line[CF_TRACE_FRAME_BYTES + 64];
    json_t *events;

    memset(line, 'x', sizeof line);
    memcpy(line + CF_TRACE_FRAME_BYTES - 8, SECRET, strlen(SECRET));
    cf_trace_frame(trace, true, 1, 1, line, sizeof line);
    events = events_of(trace, NULL);
    ck_assert_ptr_null(strstr(cf_json_str(json_array_get(events, 0), "x"), "planted"));
    ck_assert_ptr_nonnull(strstr(cf_json_str(json_array_get(events, 0), "x"), "********"));
    json_decref(events);
    cf_trace_free(trace);
    cf_mask_free(mask);
    json_decref(options);
}
END_TEST

struct heard {
    int frames, phases, observations;
};

static void
hear_frame(void *user, int from_harness, uint64_t number, uint64_t at_ms, const char *line, size_t len)
{
    ((struct heard *)user)->frames++;
}

static void
hear_phase(void *user, const char *name, const char *step, uint64_t took_ms)
{
    ((struct heard *)user)->phases++;
}

static int
hear_observation(void *user, const struct cf_observation *observation)
{
    ((struct heard *)user)->observations++;
    return CF_RUN_PAUSE;
}

START_TEST(what_the_trace_hears_others_hear_too)
{
    struct cf_trace *trace = cf_trace_new(NULL);
    struct heard heard = {0};
    struct cf_run_host host = {.size = sizeof host, .user = &heard, .on_frame = hear_frame, .on_phase = hear_phase,
                               .on_observation = hear_observation};
    struct cf_observation ready = {.type = CF_OBSERVATION_READY, .seq = 1, .json = "{}", .json_len = 2};
    json_t *events;

    cf_trace_listen(trace, &host);
    host.on_phase(host.user, "engine", "", UINT64_MAX);
    host.on_phase(host.user, "engine", "", 3);
    host.on_phase(host.user, "turn", "", UINT64_MAX);
    host.on_frame(host.user, 1, 1, 5, "{}", 2);
    ck_assert_int_eq(host.on_observation(host.user, &ready), CF_RUN_PAUSE);
    host.on_stderr(host.user, "half a line", 11); /* nobody else wants it */
    ck_assert(heard.frames == 1 && heard.phases == 3 && heard.observations == 1);
    ck_assert_ptr_null(host.on_log);
    events = events_of(trace, NULL);
    ck_assert_uint_eq(json_array_size(events), 5);
    ck_assert_str_eq(kind_of(events, 0), "p");
    ck_assert_str_eq(kind_of(events, 1), "f");
    ck_assert_int_eq(cf_json_int(json_array_get(events, 1), "u", 0), 1);
    ck_assert_str_eq(kind_of(events, 2), "o");
    ck_assert_str_eq(kind_of(events, 3), "e");
    ck_assert_str_eq(kind_of(events, 4), "p"); /* the turn did not end */
    ck_assert(json_is_null(json_object_get(json_array_get(events, 4), "m")));
    json_decref(events);
    cf_trace_free(trace);
}
END_TEST

START_TEST(a_page_is_whole_and_needs_nothing_from_outside)
{
    json_t *result = json_pack("{s:s, s:[{s:s, s:s, s:s, s:[], s:s}]}", "name", "<b>@DATA@", "checks", "id", "prompt_exchange", "status",
                               "failed", "summary", "</pre><script>", "evidence", "fix", "</noscript>");
    struct cf_outcome outcome;
    struct cf_buf page;
    json_t *many = json_array();

    for (int i = 0; i < 500; i++)
        (void)json_array_append_new(many, json_pack("{s:i}", "id", i));
    (void)json_object_set_new(result, "model_calls", many);
    ck_assert_int_eq(cf_outcome_init(&outcome, "test oci", result, 1, NULL, NULL), 0);
    cf_buf_init(&page, 0);
    cf_page_write(&page, &outcome, NULL);
    ck_assert(!page.failed && cf_utf8_is_valid(page.data, page.len));
    ck_assert_ptr_nonnull(strstr(page.data, "<title>FAIL &#60;b&#62;@DATA@</title>")); /* no place of the template's */
    ck_assert_ptr_nonnull(strstr(page.data, "default-src 'none'; style-src 'sha256-"));
    ck_assert_ptr_nonnull(strstr(page.data, "failed  prompt_exchange: &#60;/pre&#62;&#60;script&#62;"));
    ck_assert_ptr_nonnull(strstr(page.data, "\"left_out\":{\"model_calls\":400}"));
    ck_assert_ptr_nonnull(strstr(page.data, "</html>"));
    ck_assert_ptr_null(strstr(page.data, " src="));
    ck_assert_ptr_null(strstr(page.data, "url("));
    ck_assert_ptr_null(strstr(page.data, "://"));
    ck_assert_ptr_null(strstr(page.data, "@SCRIPT@"));
    cf_buf_release(&page);
    cf_outcome_release(&outcome);
    json_decref(result);
}
END_TEST

UNIT_MAIN("diagnose/page", tcase_add_test(tc, json_for_a_page_cannot_leave_its_element_and_means_the_same);
          tcase_add_test(tc, of_a_long_run_the_first_and_the_last_are_kept_and_the_rest_is_counted);
          tcase_add_test(tc, a_long_frame_is_cut_and_says_how_long_it_was);
          tcase_add_test(tc, no_cut_leaves_half_a_secret); tcase_add_test(tc, what_the_trace_hears_others_hear_too);
          tcase_add_test(tc, a_page_is_whole_and_needs_nothing_from_outside);)
