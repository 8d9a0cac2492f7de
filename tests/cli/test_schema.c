/* `cfrunner schema`: one JSON document on stdout, the exit code, and every group through it. */
#include "cli/schema.h"

#include "base/str.h"
#include "json/json.h"
#include "tests/support/unit.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static char dir[] = "/tmp/cf-cli-schema-XXXXXX";

static const char *
path_of(const char *name)
{
    static char paths[4][120];
    static unsigned turn;
    char *path = paths[turn++ % 4];

    snprintf(path, sizeof paths[0], "%s/%s", dir, name);
    return path;
}

static void
write_text(const char *name, const char *text, size_t len)
{
    FILE *file = fopen(path_of(name), "wb");

    ck_assert_ptr_nonnull(file);
    ck_assert_uint_eq(fwrite(text, 1, len, file), len);
    fclose(file);
}

static void
write_json(const char *name, const json_t *value)
{
    size_t len;
    cf_auto_free char *text = cf_json_dump(value, &len);

    write_text(name, text, len);
}

/* Runs the command with stdout caught; what was printed must be one JSON object on one line. */
static json_t *
run(int *ret_code, int argc, const char **words)
{
    char *argv[8] = {0}, text[65536];
    struct cf_error err = {0};
    int saved = dup(STDOUT_FILENO), fd = open(path_of("out"), O_RDWR | O_CREAT | O_TRUNC, 0600);
    int saved_err = dup(STDERR_FILENO), null = open("/dev/null", O_WRONLY);

    for (int i = 0; i < argc; i++)
        argv[i] = (char *)words[i];
    fflush(stdout);
    dup2(fd, STDOUT_FILENO);
    dup2(null, STDERR_FILENO);
    *ret_code = cf_cli_schema(argc, argv);
    fflush(stdout);
    dup2(saved, STDOUT_FILENO);
    dup2(saved_err, STDERR_FILENO);
    ssize_t len = pread(fd, text, sizeof text, 0);
    close(saved);
    close(saved_err);
    close(null);
    close(fd);
    ck_assert_int_gt(len, 0);
    ck_assert_int_eq(text[len - 1], '\n');
    json_t *answer = cf_json_parse(text, (size_t)len, NULL, &err);
    ck_assert_msg(json_is_object(answer), "%.*s", (int)len, text);
    return answer;
}

static json_t *
run_admit(int *ret_code, const char *path)
{
    const char *words[] = {"schema", "admit", path};
    return run(ret_code, 3, words);
}

static json_t *
run_check(int *ret_code, const char *schema, const char *instance)
{
    const char *words[] = {"schema", "check", "--schema", schema, instance};
    return run(ret_code, 5, words);
}

static const char *
first(const json_t *answer, const char *member)
{
    return cf_json_str(json_array_get(cf_json_arr(answer, "errors"), 0), member);
}

static void
enter_dir(void)
{
    ck_assert_ptr_nonnull(mkdtemp(dir));
}

static void
leave_dir(void)
{
    static const char *const names[] = {"out", "s.json", "i.json"};

    for (size_t i = 0; i < CF_COUNT(names); i++)
        unlink(path_of(names[i]));
    rmdir(dir);
}

START_TEST(an_admitted_schema_exits_0_with_its_warnings)
{
    static const char text[] = " {\"type\":\"object\",\"x-a\":1}\n";
    int code;

    write_text("s.json", text, sizeof text - 1);
    json_t *answer = run_admit(&code, path_of("s.json"));
    ck_assert_int_eq(code, 0);
    ck_assert(cf_json_bool(answer, "admitted", false));
    ck_assert_uint_eq(json_array_size(cf_json_arr(answer, "errors")), 0);
    ck_assert_str_eq(cf_json_str(json_array_get(cf_json_arr(answer, "warnings"), 0), "pointer"), "/x-a");
    json_decref(answer);
}
END_TEST

START_TEST(what_cannot_be_read_or_understood_exits_2)
{
    static const char *const cases[][6] = {
        {"schema", NULL},
        {"schema", "admit", NULL},
        {"schema", "admit", "/nonexistent/s.json", NULL},
        {"schema", "admit", "/tmp", NULL},
        {"schema", "admit", "a", "b", NULL},
        {"schema", "check", "a", NULL},
        {"schema", "check", "--schema", NULL},
        {"schema", "check", "--schema", "/nonexistent", "/nonexistent", NULL},
        {"schema", "check", "--schema=-", "-", NULL},
        {"schema", "check", "--trusted", "--schema=a", "b", NULL},
        {"schema", "ponder", NULL},
    };

    for (size_t i = 0; i < CF_COUNT(cases); i++) {
        const char *words[6];
        int code, argc = 0;
        for (; cases[i][argc] != NULL; argc++)
            words[argc] = cases[i][argc];
        json_t *answer = run(&code, argc, words);
        ck_assert_int_eq(code, 2);
        ck_assert_ptr_nonnull(first(answer, "code"));
        json_decref(answer);
    }
}
END_TEST

START_TEST(a_flag_value_may_begin_with_dashes)
{
    static const char schema[] = "{\"type\":\"integer\"}";
    int code;
    char flag[200];

    write_text("s.json", schema, sizeof schema - 1);
    write_text("i.json", "1", 1);
    snprintf(flag, sizeof flag, "--schema=%s", path_of("s.json"));
    const char *words[] = {"schema", "check", "--json", "--", path_of("i.json")};
    const char *with_flag[] = {"schema", "check", flag, "--json", "--", path_of("i.json")};
    json_t *answer = run(&code, 6, with_flag);
    ck_assert_int_eq(code, 0);
    json_decref(answer);
    answer = run(&code, 5, words);
    ck_assert_int_eq(code, 2);
    json_decref(answer);
}
END_TEST

START_TEST(an_invalid_instance_names_both_places)
{
    static const char schema[] = "{\"properties\":{\"a\":{\"type\":\"integer\"}}}";
    int code;

    write_text("s.json", schema, sizeof schema - 1);
    write_text("i.json", "{\"a\":true}", 10);
    json_t *answer = run_check(&code, path_of("s.json"), path_of("i.json"));
    ck_assert_int_eq(code, 2);
    ck_assert_str_eq(first(answer, "code"), "type");
    ck_assert_str_eq(first(answer, "instance_pointer"), "/a");
    ck_assert_str_eq(first(answer, "schema_pointer"), "/properties/a/type");
    json_decref(answer);
}
END_TEST

START_TEST(a_refused_schema_validates_nothing)
{
    int code;

    write_text("s.json", "{\"$ref\":\"#\"}", 12);
    write_text("i.json", "1", 1);
    json_t *answer = run_check(&code, path_of("s.json"), path_of("i.json"));
    ck_assert_int_eq(code, 2);
    ck_assert(!cf_json_bool(answer, "valid", true));
    ck_assert_str_eq(first(answer, "code"), "schema_ref_cycle");
    json_decref(answer);
}
END_TEST

/* ---- the shared cases ----------------------------------------------------------------- */

#define DATA "../shared/data/json-schema/"

static bool
admits(const json_t *schema, const json_t *expected, const char *pointer)
{
    int code;

    write_json("s.json", schema);
    json_t *answer = run_admit(&code, path_of("s.json"));
    bool is_admitted = cf_json_bool(answer, "admitted", false);
    ck_assert_int_eq(code, is_admitted ? 0 : 2);
    ck_assert(is_admitted == cf_json_bool(expected, "admitted", false));
    if (!is_admitted) {
        ck_assert_str_eq(first(answer, "code"), cf_json_str(expected, "code"));
        if (pointer != NULL)
            ck_assert_str_eq(first(answer, "pointer"), pointer);
    }
    json_decref(answer);
    return is_admitted;
}

static void
checks(const json_t *instance, bool is_valid)
{
    int code;

    write_json("i.json", instance);
    json_t *answer = run_check(&code, path_of("s.json"), path_of("i.json"));
    ck_assert_int_eq(code, is_valid ? 0 : 2);
    ck_assert(cf_json_bool(answer, "valid", !is_valid) == is_valid);
    json_decref(answer);
}

static void
check_tests(const json_t *tests)
{
    size_t i;
    json_t *test;

    json_array_foreach(tests, i, test)
        checks(json_object_get(test, "data"), cf_json_bool(test, "valid", false));
}

static json_t *
load(const char *path)
{
    json_t *value = json_load_file(path, JSON_ALLOW_NUL, NULL);

    if (value == NULL)
        printf("SKIPPED %s: not here\n", path);
    return value;
}

START_TEST(every_group_of_the_public_suite_passes_through_the_command)
{
    json_t *expectations = load(DATA "expectations.json"), *list, *group;
    const char *name;
    char path[200];
    size_t i;

    if (expectations == NULL)
        return;
    json_object_foreach(cf_json_obj(expectations, "files"), name, list) {
        snprintf(path, sizeof path, DATA "draft2020-12/%s", name);
        json_t *suite = load(path);
        ck_assert_ptr_nonnull(suite);
        json_array_foreach(suite, i, group) {
            const json_t *expected = json_array_get(list, i);
            if (admits(json_object_get(group, "schema"), expected, cf_json_str(expected, "pointer")))
                check_tests(json_object_get(group, "tests"));
        }
        json_decref(suite);
    }
    json_decref(expectations);
}
END_TEST

START_TEST(every_case_of_the_profile_passes_through_the_command)
{
    json_t *cases = load(DATA "profile-cases.json"), *one, *text;
    size_t i, j;

    if (cases == NULL)
        return;
    json_array_foreach(cf_json_arr(cases, "schemas"), i, one)
        if (admits(json_object_get(one, "schema"), one, cf_json_str(one, "pointer")))
            check_tests(json_object_get(one, "tests"));
    json_array_foreach(cf_json_arr(cases, "patterns"), i, one) {
        json_t *schema = json_pack("{s:O}", "pattern", json_object_get(one, "pattern"));
        if (admits(schema, one, "/pattern")) {
            json_array_foreach(cf_json_arr(one, "matches"), j, text)
                checks(text, true);
            json_array_foreach(cf_json_arr(one, "not_matches"), j, text)
                checks(text, false);
        }
        json_decref(schema);
    }
    json_decref(cases);
}
END_TEST

UNIT_MAIN("cli/schema", tcase_add_unchecked_fixture(tc, enter_dir, leave_dir);
          tcase_add_test(tc, an_admitted_schema_exits_0_with_its_warnings);
          tcase_add_test(tc, what_cannot_be_read_or_understood_exits_2);
          tcase_add_test(tc, a_flag_value_may_begin_with_dashes);
          tcase_add_test(tc, an_invalid_instance_names_both_places);
          tcase_add_test(tc, a_refused_schema_validates_nothing);
          tcase_add_test(tc, every_group_of_the_public_suite_passes_through_the_command);
          tcase_add_test(tc, every_case_of_the_profile_passes_through_the_command);)
