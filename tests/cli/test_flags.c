#include "cli/flags.h"

#include "base/str.h"
#include "tests/support/unit.h"

#include <string.h>

struct target {
    const char *text;
    struct cf_flag_list list;
    bool on;
    int verbose;
    uint64_t bytes, ms;
};
#define F(m) offsetof(struct target, m)
static const struct cf_flag table[] = {
    {"--text", CF_FLAG_TEXT, F(text), "T", ""},    {"--list", CF_FLAG_LIST, F(list), "L", ""},
    {"--on", CF_FLAG_SWITCH, F(on), NULL, ""},     {"-v", CF_FLAG_COUNT, F(verbose), NULL, ""},
    {"--bytes", CF_FLAG_BYTES, F(bytes), "B", ""}, {"--time", CF_FLAG_TIME, F(ms), "T", ""},
};

static int
read_flags(struct target *t, struct cf_error *err, int argc, char **argv)
{
    memset(t, 0, sizeof *t);
    return cf_flags_read(table, CF_COUNT(table), argc, argv, t, NULL, err);
}
#define READ(t, err, ...)                                                     \
    read_flags(t, err, (int)(sizeof((char *[]){"x", __VA_ARGS__}) / sizeof(char *)), \
         (char *[]){"x", __VA_ARGS__})

START_TEST(both_forms_take_values)
{
    struct target t;
    struct cf_error err;

    ck_assert_int_eq(READ(&t, &err, "--text", "a", "--list=--b", "--list", "-c", "--on", "-vv", "--bytes=2k", "--time", "5"), 0);
    ck_assert_str_eq(t.text, "a");
    ck_assert_uint_eq(t.list.count, 2);
    ck_assert_str_eq(t.list.items[0], "--b");
    ck_assert_str_eq(t.list.items[1], "-c");
    ck_assert(t.on);
    ck_assert_int_eq(t.verbose, 2);
    ck_assert_uint_eq(t.bytes, 2048);
    ck_assert_uint_eq(t.ms, 5000);
    ck_assert_int_eq(READ(&t, &err, "--text="), 0);
    ck_assert_str_eq(t.text, "");
}
END_TEST

START_TEST(mistakes_name_the_flag_and_a_remedy)
{
    struct target t;
    struct cf_error err;

    ck_assert_int_lt(READ(&t, &err, "--texd", "a"), 0);
    ck_assert(strstr(err.text, "--texd") && strstr(err.fix, "--text"));
    ck_assert_int_lt(READ(&t, &err, "--text"), 0);
    ck_assert(strstr(err.text, "needs a value"));
    ck_assert_int_lt(READ(&t, &err, "--text", "--on"), 0);
    ck_assert(strstr(err.fix, "--text=T"));
    ck_assert_int_lt(READ(&t, &err, "--on=1"), 0);
    ck_assert_int_lt(READ(&t, &err, "--bytes=2x"), 0);
    ck_assert_int_lt(READ(&t, &err, "--text=a", "--text=b"), 0);
    ck_assert_int_lt(READ(&t, &err, "word"), 0);
    ck_assert_int_lt(READ(&t, &err, "-x"), 0);
    ck_assert_int_lt(READ(&t, &err, "-vx"), 0);
    ck_assert_int_lt(READ(&t, &err, "--"), 0);
}
END_TEST

UNIT_MAIN("cli/flags", tcase_add_test(tc, both_forms_take_values);
          tcase_add_test(tc, mistakes_name_the_flag_and_a_remedy);)
