/* The turnstile: so many inside, first come first served, those who prepare behind. */
#include "run/pace.h"

#include "tests/support/unit.h"

#include <string.h>

#define GUESTS 12

static struct cf_pace pace;
static struct cf_pace_ticket guests[GUESTS];
static char order[64];
static bool leaves_at_once;

static void
on_turn(struct cf_pace_ticket *ticket)
{
    char name[2] = {(char)('a' + (ticket - guests)), '\0'};

    ck_assert(ticket->is_inside && !ticket->is_waiting);
    ck_assert_uint_le(pace.inside, pace.most);
    strcat(order, name);
    if (leaves_at_once)
        cf_pace_leave(&pace, ticket);
}

static void
begin(unsigned most)
{
    memset(guests, 0, sizeof guests);
    memset(order, 0, sizeof order);
    leaves_at_once = false;
    cf_pace_init(&pace, most);
    for (int i = 0; i < GUESTS; i++)
        guests[i].on_turn = on_turn;
}

START_TEST(no_more_than_so_many_are_inside_and_the_rest_come_in_order)
{
    begin(2);
    for (int i = 0; i < 5; i++)
        cf_pace_enter(&pace, &guests[i]);
    ck_assert_str_eq(order, "ab");
    ck_assert_uint_eq(pace.waiting, 3);
    cf_pace_leave(&pace, &guests[1]);
    ck_assert_str_eq(order, "abc");
    cf_pace_leave(&pace, &guests[0]);
    cf_pace_leave(&pace, &guests[2]);
    ck_assert_str_eq(order, "abcde");
    ck_assert_uint_eq(pace.waiting, 0);
}
END_TEST

START_TEST(who_can_wait_stands_behind_all_who_cannot)
{
    begin(1);
    cf_pace_enter(&pace, &guests[0]);
    guests[1].can_wait = guests[2].can_wait = true;
    for (int i = 1; i < 5; i++)
        cf_pace_enter(&pace, &guests[i]);
    for (const char *next = "adebc"; *next != '\0'; next++)
        cf_pace_leave(&pace, &guests[*next - 'a']);
    ck_assert_str_eq(order, "adebc");
    ck_assert_uint_eq(pace.inside, 0);
}
END_TEST

START_TEST(a_place_in_the_line_can_be_given_up)
{
    begin(1);
    for (int i = 0; i < 4; i++)
        cf_pace_enter(&pace, &guests[i]);
    cf_pace_leave(&pace, &guests[1]);
    cf_pace_leave(&pace, &guests[2]);
    cf_pace_leave(&pace, &guests[2]);
    cf_pace_leave(&pace, &guests[9]); /* never came */
    cf_pace_leave(&pace, &guests[0]);
    ck_assert_str_eq(order, "ad");
    ck_assert_uint_eq(pace.inside, 1);
}
END_TEST

START_TEST(entering_twice_is_entering_once)
{
    begin(1);
    cf_pace_enter(&pace, &guests[0]);
    cf_pace_enter(&pace, &guests[0]);
    cf_pace_enter(&pace, &guests[1]);
    cf_pace_enter(&pace, &guests[1]);
    ck_assert_uint_eq(pace.waiting, 1);
    cf_pace_leave(&pace, &guests[0]);
    cf_pace_leave(&pace, &guests[1]);
    ck_assert_str_eq(order, "ab");
    ck_assert_uint_eq(pace.inside, 0);
}
END_TEST

START_TEST(who_leaves_from_inside_its_turn_lets_the_next_one_in)
{
    begin(1);
    cf_pace_enter(&pace, &guests[0]);
    for (int i = 1; i < GUESTS; i++)
        cf_pace_enter(&pace, &guests[i]);
    leaves_at_once = true;
    cf_pace_leave(&pace, &guests[0]);
    ck_assert_str_eq(order, "abcdefghijkl");
    ck_assert_uint_eq(pace.inside, 0);
    ck_assert_uint_eq(pace.waiting, 0);
}
END_TEST

UNIT_MAIN("run/pace",
          tcase_add_test(tc, no_more_than_so_many_are_inside_and_the_rest_come_in_order);
          tcase_add_test(tc, who_can_wait_stands_behind_all_who_cannot);
          tcase_add_test(tc, a_place_in_the_line_can_be_given_up);
          tcase_add_test(tc, entering_twice_is_entering_once);
          tcase_add_test(tc, who_leaves_from_inside_its_turn_lets_the_next_one_in);)
