#include "cli/progress.h"

#include "tests/support/unit.h"

#include <stdio.h>
#include <string.h>

static struct cf_progress progress;
static char text[200];

static void
feed(const char *what, const char *json)
{
    cf_progress_feed(&progress, what, json, strlen(json));
}

static void
start(void)
{
    memset(&progress, 0, sizeof progress);
}

START_TEST(layers_and_their_bytes_are_counted)
{
    start();
    feed("pull", "{\"status\":\"Pulling from library/x\",\"id\":\"latest\"}");
    feed("pull", "{\"status\":\"Pulling fs layer\",\"id\":\"a\"}");
    feed("pull", "{\"status\":\"Already exists\",\"id\":\"b\"}");
    ck_assert_int_eq(cf_progress_text(&progress, text, sizeof text), -1);
    ck_assert_str_eq(text, "pull 1 of 2 layers");
    feed("pull", "{\"status\":\"Downloading\",\"id\":\"a\",\"progressDetail\":{\"current\":12100000,\"total\":40200000}}");
    ck_assert_int_eq(cf_progress_text(&progress, text, sizeof text), 300);
    ck_assert_str_eq(text, "pull 1 of 2 layers, 12.1 of 40.2 MB");
    feed("pull", "{\"status\":\"Extracting\",\"id\":\"a\",\"progressDetail\":{\"current\":5,\"total\":40200000}}");
    ck_assert_int_eq(cf_progress_text(&progress, text, sizeof text), 300); /* not back to the beginning */
    feed("pull", "{\"status\":\"Pull complete\",\"id\":\"a\",\"progressDetail\":{}}");
    ck_assert_int_eq(cf_progress_text(&progress, text, sizeof text), 1000);
    ck_assert_str_eq(text, "pull 2 of 2 layers, 40.2 of 40.2 MB");
}
END_TEST

START_TEST(a_build_tells_its_step_and_a_push_begins_anew)
{
    start();
    feed("build", "{\"stream\":\"Step 2/6 : COPY a\\u001b[31m b\\n\"}");
    feed("build", "{\"stream\":\" ---> 0123\\n\"}");
    (void)cf_progress_text(&progress, text, sizeof text);
    ck_assert_str_eq(text, "build 2/6: COPY a [31m b ");
    feed("push", "{\"status\":\"Pushing\",\"id\":\"l\",\"progressDetail\":{\"current\":1,\"total\":2}}");
    ck_assert_int_eq(cf_progress_text(&progress, text, sizeof text), 500);
    ck_assert_str_eq(text, "push 0 of 1 layers, 0.0 of 0.0 MB");
}
END_TEST

START_TEST(an_engine_that_lies_breaks_nothing)
{
    char line[160];

    start();
    for (int i = 0; i < 1000; i++) {
        (void)snprintf(line, sizeof line, "{\"status\":\"Pushing\",\"id\":\"layer-%d\",\"progressDetail\":{\"current\":%d,\"total\":-1}}", i, i);
        feed("push", line);
    }
    ck_assert_uint_eq(progress.count, CF_PROGRESS_LAYERS);
    feed("push", "{\"status\":\"Pushing\",\"id\":\"layer-1\",\"progressDetail\":{\"current\":9,\"total\":3}}");
    ck_assert_int_le(cf_progress_text(&progress, text, sizeof text), 1000);
    feed("push", "not json");
    feed("push", "[1]");
    feed("push", "{\"status\":7,\"id\":{}}");
    ck_assert_int_le(cf_progress_text(&progress, text, 12), 1000);
    ck_assert_uint_lt(strlen(text), 12);
}
END_TEST

UNIT_MAIN("cli/progress", tcase_add_test(tc, layers_and_their_bytes_are_counted);
          tcase_add_test(tc, a_build_tells_its_step_and_a_push_begins_anew);
          tcase_add_test(tc, an_engine_that_lies_breaks_nothing);)
