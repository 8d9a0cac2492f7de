/* The ledger of a job: each item is somewhere exactly once, whatever its workers do. */
#include "ledger.h"

#include "tests/support/unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct ledger
with_items(unsigned count, bool retries)
{
    struct ledger ledger = {.lease_ms = 1000, .retries_lost = retries};
    struct cf_error err = {0};

    for (unsigned i = 0; i < count; i++) {
        char line[100];
        int len = snprintf(line, sizeof line, "{\"id\":\"i-%u\",\"prompt\":{\"text\":\"t\"}}", i);
        ck_assert_msg(ledger_add(&ledger, line, (size_t)len, &err) == 0, "%s", err.text);
    }
    return ledger;
}

START_TEST(an_item_is_handed_out_once)
{
    struct ledger ledger = with_items(2, false);
    struct ledger_item *one = ledger_take(&ledger, "a", 0), *two = ledger_take(&ledger, "b", 0);

    ck_assert_str_eq(one->id, "i-0");
    ck_assert_str_eq(two->id, "i-1");
    ck_assert_str_ne(one->lease, two->lease);
    ck_assert_ptr_null(ledger_take(&ledger, "c", 0));
    ck_assert(!ledger_is_over(&ledger));
    ck_assert_int_eq(ledger_settle(&ledger, one->lease, true, "{}", 10), 0);
    ck_assert_int_eq(ledger_settle(&ledger, two->lease, false, "{}", 10), 0);
    ck_assert(ledger_is_over(&ledger));
    ck_assert_uint_eq(ledger_count(&ledger, LEDGER_DONE), 1);
    ck_assert_uint_eq(ledger_count(&ledger, LEDGER_FAILED), 1);
    ledger_release(&ledger);
}
END_TEST

START_TEST(a_workers_long_name_is_cut_between_two_letters)
{
    struct ledger ledger = with_items(1, false);
    char name[LEDGER_WORKER_MOST + 3];
    struct ledger_item *item;

    memset(name, 'w', LEDGER_WORKER_MOST - 1);
    strcpy(name + LEDGER_WORKER_MOST - 1, "\u00e9");
    item = ledger_take(&ledger, name, 0);
    ck_assert_uint_eq(strlen(item->worker), LEDGER_WORKER_MOST - 1);
    ledger_release(&ledger);
}
END_TEST

START_TEST(a_prompt_that_no_worker_would_take_is_refused)
{
    static const char head[] = "{\"id\":\"big\",\"prompt\":{\"text\":\"", tail[] = "\"}}";
    struct ledger ledger = {.lease_ms = 1000};
    struct cf_error err = {0};
    size_t most = LEDGER_PROMPT_MOST - strlen("{\"text\":\"\"}");
    char *line = malloc(most + sizeof head + sizeof tail + 1);

    for (size_t more = 0; more < 2; more++) {
        strcpy(line, head);
        memset(line + sizeof head - 1, 'x', most + more);
        strcpy(line + sizeof head - 1 + most + more, tail);
        ck_assert_int_eq(ledger_add(&ledger, line, strlen(line), &err), more == 0 ? 0 : -1);
        ledger_release(&ledger);
    }
    ck_assert_ptr_nonnull(strstr(err.text, "longer"));
    free(line);
}
END_TEST

START_TEST(a_result_is_kept_once_and_may_be_told_again)
{
    struct ledger ledger = with_items(1, false);
    struct ledger_item *item = ledger_take(&ledger, "a", 0);
    char lease[LEDGER_LEASE_SIZE];

    strcpy(lease, item->lease);
    ck_assert_int_eq(ledger_settle(&ledger, lease, true, "\"first\"", 10), 0);
    ck_assert_int_eq(ledger_settle(&ledger, lease, false, "\"second\"", 20), 0);
    ck_assert_int_eq(item->state, LEDGER_DONE);
    ck_assert_str_eq(item->result, "\"first\"");
    ck_assert_int_eq(ledger_renew(&ledger, lease, 20), -1);
    ledger_release(&ledger);
}
END_TEST

START_TEST(a_lease_lives_as_long_as_it_is_renewed)
{
    struct ledger ledger = with_items(1, false);
    struct ledger_item *item = ledger_take(&ledger, "a", 0);

    for (uint64_t now = 900; now < 9000; now += 900)
        ck_assert_int_eq(ledger_renew(&ledger, item->lease, now), 0);
    ck_assert_int_eq(item->state, LEDGER_LEASED);
    ck_assert_int_eq(ledger_renew(&ledger, "0123456789abcdef0123456789abcdef", 1), -1);
    ck_assert_int_eq(ledger_renew(&ledger, "", 1), -1);
    ledger_release(&ledger);
}
END_TEST

START_TEST(a_lease_that_ran_out_is_lost_and_its_result_nobodys)
{
    struct ledger ledger = with_items(1, false);
    struct ledger_item *item = ledger_take(&ledger, "a", 0);
    char lease[LEDGER_LEASE_SIZE];

    strcpy(lease, item->lease);
    ck_assert_int_eq(ledger_settle(&ledger, lease, true, "{}", 1000), -1);
    ck_assert_int_eq(item->state, LEDGER_LOST);
    ck_assert_ptr_null(item->result);
    ck_assert_int_eq(ledger_renew(&ledger, lease, 1000), -1);
    ck_assert(ledger_is_over(&ledger));
    ledger_release(&ledger);
}
END_TEST

START_TEST(a_lost_item_runs_again_when_that_was_asked_for_and_not_for_ever)
{
    struct ledger ledger = with_items(1, true);
    uint64_t now = 0;

    for (unsigned i = 0; i < LEDGER_TRIES_MOST; i++) {
        ck_assert_ptr_nonnull(ledger_take(&ledger, "a", now));
        now += 1000;
        ledger_tick(&ledger, now);
    }
    ck_assert_ptr_null(ledger_take(&ledger, "a", now));
    ck_assert_int_eq(ledger.items[0].state, LEDGER_LOST);
    ck_assert_uint_eq(ledger.items[0].tries, LEDGER_TRIES_MOST);
    ledger_release(&ledger);
}
END_TEST

START_TEST(an_old_lease_brings_nothing_once_the_item_runs_again)
{
    struct ledger ledger = with_items(1, true);
    struct ledger_item *item = ledger_take(&ledger, "a", 0);
    char old[LEDGER_LEASE_SIZE];

    strcpy(old, item->lease);
    ledger_tick(&ledger, 1000);
    item = ledger_take(&ledger, "b", 1000);
    ck_assert_str_ne(old, item->lease);
    ck_assert_int_eq(ledger_settle(&ledger, old, true, "\"old\"", 1100), -1);
    ck_assert_int_eq(ledger_settle(&ledger, item->lease, true, "\"new\"", 1100), 0);
    ck_assert_str_eq(item->result, "\"new\"");
    ck_assert_str_eq(item->worker, "b");
    ledger_release(&ledger);
}
END_TEST

START_TEST(lines_that_are_no_items_are_refused)
{
    static const char *const lines[] = {
        "", "[]", "{}", "{\"id\":\"a\"}", "{\"id\":\"a\",\"prompt\":\"t\"}", "{\"id\":\"a\",\"prompt\":{}}",
        "{\"id\":\"\",\"prompt\":{\"text\":\"t\"}}", "{\"id\":\"a b\",\"prompt\":{\"text\":\"t\"}}",
        "{\"id\":\"a\\\"b\",\"prompt\":{\"text\":\"t\"}}", "{\"id\":7,\"prompt\":{\"text\":\"t\"}}",
        "{\"id\":\"i-0\",\"prompt\":{\"text\":\"there already\"}}"};
    struct ledger ledger = with_items(1, false);

    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
        struct cf_error err = {0};
        ck_assert_msg(ledger_add(&ledger, lines[i], strlen(lines[i]), &err) == -1, "%s", lines[i]);
        ck_assert_str_ne(err.text, "");
    }
    ck_assert_uint_eq(ledger.count, 1);
    ledger_release(&ledger);
}
END_TEST

START_TEST(the_list_has_every_item_once_in_its_order)
{
    struct ledger ledger = with_items(3, false);
    struct ledger_item *item = ledger_take(&ledger, "a\"\n", 0);
    struct cf_buf out = {0};

    ck_assert_int_eq(ledger_settle(&ledger, item->lease, true, "{\"a\":1}", 10), 0);
    ck_assert_int_eq(ledger_tell(&ledger, &out), 0);
    ck_assert_str_eq(out.data,
                     "{\"item\":\"i-0\",\"state\":\"done\",\"tries\":1,\"worker\":\"a\\\"\\n\",\"result\":{\"a\":1}}\n"
                     "{\"item\":\"i-1\",\"state\":\"waits\",\"tries\":0,\"worker\":\"\",\"result\":null}\n"
                     "{\"item\":\"i-2\",\"state\":\"waits\",\"tries\":0,\"worker\":\"\",\"result\":null}\n"
                     "{\"items\":3,\"waits\":2,\"leased\":0,\"done\":1,\"failed\":0,\"lost\":0}\n");
    cf_buf_release(&out);
    ledger_release(&ledger);
}
END_TEST

UNIT_MAIN("cluster/ledger", tcase_add_test(tc, an_item_is_handed_out_once);
          tcase_add_test(tc, a_workers_long_name_is_cut_between_two_letters);
          tcase_add_test(tc, a_prompt_that_no_worker_would_take_is_refused);
          tcase_add_test(tc, a_result_is_kept_once_and_may_be_told_again);
          tcase_add_test(tc, a_lease_lives_as_long_as_it_is_renewed);
          tcase_add_test(tc, a_lease_that_ran_out_is_lost_and_its_result_nobodys);
          tcase_add_test(tc, a_lost_item_runs_again_when_that_was_asked_for_and_not_for_ever);
          tcase_add_test(tc, an_old_lease_brings_nothing_once_the_item_runs_again);
          tcase_add_test(tc, lines_that_are_no_items_are_refused);
          tcase_add_test(tc, the_list_has_every_item_once_in_its_order);)
