/* The step runner: down, up, cancels and deadlines, each row settling once. */
#include "base/str.h"
#include "loop/steps.h"
#include "tests/support/unit.h"

#include <string.h>

struct story {
    struct cf_steps steps;
    uv_timer_t slow;
    char said[256];
    int fail_at, dones, aborts;
    bool cancel_inside;
};

static struct story *
of(struct cf_steps *steps)
{
    return cf_container_of(steps, struct story, steps);
}

static void
say(struct story *story, const char *word)
{
    strncat(story->said, word, sizeof story->said - strlen(story->said) - 1);
    strncat(story->said, " ", sizeof story->said - strlen(story->said) - 1);
}

static void
on_slow(uv_timer_t *timer)
{
    struct story *story = timer->data;
    cf_steps_settle(&story->steps, 0);
}

static int
later(struct cf_steps *steps, const char *word)
{
    say(of(steps), word);
    uv_timer_start(&of(steps)->slow, on_slow, 1, 0);
    return 0;
}

static int
a_start(struct cf_steps *s, struct cf_error *e)
{
    return later(s, "a");
}
static int
a_undo(struct cf_steps *s, struct cf_error *e)
{
    return later(s, "-a");
}

static int
b_start(struct cf_steps *steps, struct cf_error *err)
{
    say(of(steps), "b");
    if (of(steps)->cancel_inside)
        cf_steps_cancel(steps, NULL);
    if (of(steps)->fail_at == 'b')
        return cf_error_set(err, CF_ERROR_ENGINE, 500, "b broke");
    cf_steps_settle(steps, 0);
    return 0;
}

static int
b_undo(struct cf_steps *steps, struct cf_error *err)
{
    say(of(steps), "-b");
    return cf_error_set(err, CF_ERROR_ENGINE, 1, "undo of b broke");
}

static int
c_start(struct cf_steps *steps, struct cf_error *err)
{
    say(of(steps), "c");
    uv_timer_start(&of(steps)->slow, on_slow, of(steps)->fail_at == 'c' ? 60000 : 1, 0);
    return 0;
}

static void
c_abort(struct cf_steps *steps)
{
    of(steps)->aborts++;
    uv_timer_start(&of(steps)->slow, on_slow, 1, 0);
}

static int
c_undo(struct cf_steps *s, struct cf_error *e)
{
    return later(s, "-c");
}

static const struct cf_step table[] = {
    {"first", a_start, a_undo, NULL, 0},
    {"second", b_start, b_undo, NULL, 0},
    {"nothing", NULL, NULL, NULL, 0},
    {"third", c_start, c_undo, c_abort, 30},
};

static void
on_done(struct cf_steps *steps)
{
    of(steps)->dones++;
    say(of(steps), "done");
}

static void
begin(struct story *story)
{
    memset(story, 0, sizeof *story);
    uv_timer_init(uv_default_loop(), &story->slow);
    story->slow.data = story;
    ck_assert_int_eq(
        cf_steps_init(&story->steps, uv_default_loop(), table, CF_COUNT(table), NULL, NULL),
        0);
    story->steps.on_done = on_done;
}

static void
end(struct story *story)
{
    cf_steps_close(&story->steps, NULL);
    uv_close((uv_handle_t *)&story->slow, NULL);
    uv_run(uv_default_loop(), UV_RUN_DEFAULT);
    ck_assert_int_eq(uv_loop_close(uv_default_loop()), 0);
}

START_TEST(a_good_story_goes_down_and_back_up_in_reverse)
{
    struct story s;
    begin(&s);
    cf_steps_run(&s.steps);
    uv_run(uv_default_loop(), UV_RUN_DEFAULT);
    ck_assert_str_eq(s.said, "a b c done ");
    ck_assert_int_eq(s.steps.outcome, 0);
    cf_steps_cancel(&s.steps, NULL); /* at rest: no effect */
    cf_steps_back(&s.steps);
    uv_run(uv_default_loop(), UV_RUN_DEFAULT);
    ck_assert_str_eq(s.said, "a b c done -c -b -a done ");
    ck_assert_str_eq(s.steps.undo_err.text, "undo of b broke");
    end(&s);
}
END_TEST

START_TEST(the_row_that_failed_is_undone_first)
{
    struct story s;
    begin(&s);
    s.fail_at = 'b';
    cf_steps_run(&s.steps);
    uv_run(uv_default_loop(), UV_RUN_DEFAULT);
    ck_assert_str_eq(s.said, "a b -b -a done ");
    ck_assert_str_eq(s.steps.err.text, "b broke");
    ck_assert_int_lt(s.steps.outcome, 0);
    end(&s);
}
END_TEST

START_TEST(a_deadline_aborts_the_row_and_names_it)
{
    struct story s;
    begin(&s);
    s.fail_at = 'c';
    cf_steps_run(&s.steps);
    uv_run(uv_default_loop(), UV_RUN_DEFAULT);
    ck_assert_str_eq(s.said, "a b c -c -b -a done ");
    ck_assert_int_eq(s.aborts, 1);
    ck_assert_int_eq(s.steps.err.kind, CF_ERROR_ENGINE_TIMEOUT);
    ck_assert_ptr_nonnull(strstr(s.steps.err.text, "third"));
    end(&s);
}
END_TEST

START_TEST(a_cancel_in_flight_undoes_even_when_the_operation_then_succeeds)
{
    struct story s;
    begin(&s);
    cf_steps_run(&s.steps);
    cf_steps_cancel(&s.steps, NULL);
    cf_steps_cancel(&s.steps, NULL);
    uv_run(uv_default_loop(), UV_RUN_DEFAULT);
    ck_assert_str_eq(s.said, "a -a done ");
    ck_assert_int_eq(s.steps.err.kind, CF_ERROR_CANCELED);
    end(&s);
}
END_TEST

START_TEST(a_cancel_from_inside_a_start_is_honoured)
{
    struct story s;
    begin(&s);
    s.cancel_inside = true;
    cf_steps_run(&s.steps);
    uv_run(uv_default_loop(), UV_RUN_DEFAULT);
    ck_assert_str_eq(s.said, "a b -b -a done ");
    ck_assert_int_eq(s.dones, 1);
    end(&s);
}
END_TEST

START_TEST(a_cancel_before_the_run_ends_it_at_once)
{
    struct story s;
    begin(&s);
    cf_steps_cancel(&s.steps, NULL);
    cf_steps_run(&s.steps);
    ck_assert_str_eq(s.said, "done ");
    ck_assert_int_lt(s.steps.outcome, 0);
    end(&s);
}
END_TEST

UNIT_MAIN("loop/steps", tcase_add_test(tc, a_good_story_goes_down_and_back_up_in_reverse);
          tcase_add_test(tc, the_row_that_failed_is_undone_first);
          tcase_add_test(tc, a_deadline_aborts_the_row_and_names_it);
          tcase_add_test(tc, a_cancel_in_flight_undoes_even_when_the_operation_then_succeeds);
          tcase_add_test(tc, a_cancel_from_inside_a_start_is_honoured);
          tcase_add_test(tc, a_cancel_before_the_run_ends_it_at_once);)
