/* The doctor's judgement: what two real engines say of themselves, and each thing that may be wrong. */
#include "diagnose/doctor.h"

#include "base/str.h"
#include "engine/engine.h"
#include "json/json.h"
#include "tests/support/unit.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static const char docker_engine[] =
    "{\"endpoint\":\"unix:///var/run/docker.sock\",\"endpoint_source\":\"default\",\"version\":\"20.10.24\",\"api\":\"1.41\","
    "\"api_oldest\":\"1.12\",\"api_newest\":\"1.41\",\"os\":\"linux\",\"arch\":\"amd64\",\"kernel\":\"6.1.0\","
    "\"builder_version\":\"\",\"podman\":false,\"rootless\":false,\"local\":true,\"tls\":false,\"took_ms\":4}";

static json_t *
parse(const char *text)
{
    json_t *value = cf_json_parse(text, strlen(text), NULL, NULL);

    ck_assert_ptr_nonnull(value);
    return value;
}

static json_t *
healthy(const char *info_file)
{
    json_t *info = json_load_file(info_file, 0, NULL), *facts;

    ck_assert_msg(info != NULL, "%s", info_file);
    facts = json_pack("{s:o, s:o, s:i, s:{s:s, s:I}, s:[], s:{s:i, s:i, s:i, s:i}, s:{s:s, s:i}, s:{s:s}, s:{s:i}, s:{s:i}}",
                      "engine", parse(docker_engine), "info", info, "clock", 0, "disk", "path", "/var", "free_bytes",
                      (json_int_t)50 << 30, "emulated", "leftovers", "runs", 0, "things", 0, "foreign_runs", 0,
                      "foreign_things", 0, "self", "arch", "amd64", "open_files", 4096, "state", "directory", "/s", "builder",
                      "took_ms", 7, "sandbox", "took_ms", 9);
    ck_assert_ptr_nonnull(facts);
    return facts;
}

static json_t *
docker(void)
{
    return healthy("fixtures/engine/info-docker-20.10.json");
}

static void
put(json_t *object, const char *name, json_t *value)
{
    ck_assert_int_eq(json_object_set_new(object, name, value), 0);
}

/* "ok", "warning", "blocking", or "" when there is no such line. What is not ok has a next step,
 * what is ok has none. */
static const char *
status(json_t *lines, const char *id, const char *part_of_fact)
{
    json_t *line;
    size_t i;

    json_array_foreach(lines, i, line)
    {
        if (!cf_str_same(cf_json_str(line, "id"), id))
            continue;
        ck_assert_int_eq(cf_json_str(line, "next") == NULL, cf_str_same(cf_json_str(line, "status"), "ok"));
        ck_assert_msg(part_of_fact == NULL || strstr(cf_json_str(line, "fact"), part_of_fact) != NULL, "%s",
                      cf_json_str(line, "fact"));
        return cf_json_str(line, "status");
    }
    return "";
}

/* Judges, looks at one line, counts those that are not ok; takes `facts`. */
static void
expect(json_t *facts, const char *id, const char *wanted, const char *part_of_fact, int wanted_others)
{
    json_t *lines = cf_doctor_lines(facts), *line;
    int others = 0;
    size_t i;

    ck_assert_str_eq(status(lines, id, part_of_fact), wanted);
    json_array_foreach(lines, i, line)
        others += !cf_str_same(cf_json_str(line, "status"), "ok") && !cf_str_same(cf_json_str(line, "id"), id);
    ck_assert_int_eq(others, wanted_others);
    json_decref(lines);
    json_decref(facts);
}

START_TEST(a_healthy_docker_has_nothing_to_look_at)
{
    expect(docker(), "cgroup", "ok", "memory, pids, cpu, swap", 0);
    expect(docker(), "image_store", "ok", "graph driver", 0);
    expect(docker(), "sandbox", "ok", "9 ms", 0);
}
END_TEST

START_TEST(podman_is_told_by_name_and_its_vfs_is_worth_a_look)
{
    json_t *facts = healthy("fixtures/engine/info-podman-4.3.json");

    put(json_object_get(facts, "engine"), "podman", json_true());
    expect(json_incref(facts), "engine", "ok", "Podman", 1);
    expect(json_incref(facts), "storage", "warning", "vfs", 0);
    expect(facts, "builder", "ok", "Podman's builder", 1);
}
END_TEST

START_TEST(an_engine_that_is_not_there_blocks_and_the_rest_is_not_told)
{
    struct cf_error err = {.kind = CF_ERROR_ENGINE, .code = ENOENT, .text = "no Docker Engine", .fix = "start it"};
    json_t *facts = json_pack("{s:o, s:{s:s}}", "engine", cf_doctor_error(&err), "state", "directory", "/s"), *lines;

    lines = cf_doctor_lines(facts);
    ck_assert_uint_eq(json_array_size(lines), 2);
    json_decref(lines);
    expect(facts, "engine", "blocking", "no Docker Engine", 0);
}
END_TEST

START_TEST(a_closed_socket_is_a_matter_of_permission)
{
    struct cf_error err = {.kind = CF_ERROR_ENGINE, .code = EACCES, .text = "the socket belongs to group docker", .fix = "join"};

    expect(json_pack("{s:o}", "engine", cf_doctor_error(&err)), "permission", "blocking", "group docker", 0);
}
END_TEST

START_TEST(limits_that_would_not_hold_block)
{
    static const char *const needed[] = {"MemoryLimit", "PidsLimit", "CpuCfsQuota"};

    for (size_t i = 0; i < CF_COUNT(needed); i++) {
        json_t *facts = docker();
        put(json_object_get(facts, "info"), needed[i], json_false());
        expect(facts, "cgroup", "blocking", "no limit of", 0);
    }
    json_t *facts = docker();
    put(json_object_get(facts, "info"), "SwapLimit", json_false());
    expect(facts, "cgroup", "warning", "swap", 0);
    facts = docker(); /* cgroup v1 and rootless: the engine says so by leaving all out */
    put(json_object_get(facts, "engine"), "rootless", json_true());
    put(json_object_get(facts, "info"), "MemoryLimit", json_null());
    put(json_object_get(facts, "info"), "PidsLimit", json_null());
    expect(facts, "cgroup", "blocking", "memory, pids", 0);
}
END_TEST

START_TEST(system_calls_that_nobody_filters_are_told)
{
    json_t *facts = docker();

    put(json_object_get(facts, "info"), "SecurityOptions", json_array());
    expect(facts, "seccomp", "warning", "filters no system calls", 0);
    facts = docker();
    put(json_object_get(facts, "info"), "SecurityOptions", json_pack("[s, s]", "name=apparmor", "name=seccomp,profile=unconfined"));
    expect(facts, "seccomp", "warning", "unconfined", 0);
}
END_TEST

START_TEST(a_remote_engine_has_its_own_lines)
{
    json_t *facts = docker(), *engine = json_object_get(facts, "engine");

    put(engine, "endpoint", json_string("tcp://10.0.0.5:2375"));
    put(engine, "local", json_false());
    (void)json_object_del(facts, "disk");
    (void)json_object_del(facts, "emulated");
    expect(json_incref(facts), "permission", "warning", "plain TCP", 2);
    expect(json_incref(facts), "disk", "warning", "cannot be seen", 2);
    expect(json_incref(facts), "architecture", "ok", "cannot be seen", 3);
    put(engine, "tls", json_true());
    expect(facts, "place", "warning", "remote", 1);
}
END_TEST

START_TEST(another_machine_s_engine_blocks)
{
    json_t *facts = docker();

    put(json_object_get(facts, "engine"), "arch", json_string("arm64"));
    expect(facts, "architecture", "blocking", "for amd64", 0);
    facts = docker();
    put(facts, "emulated", json_pack("[s, s, s]", "arm64", "amd64", "arm64"));
    expect(facts, "architecture", "ok", "amd64; arm64 by emulation", 0);
}
END_TEST

START_TEST(the_containerd_image_store_is_told_from_the_graph_driver)
{
    json_t *facts = docker();

    put(json_object_get(facts, "info"), "DriverStatus", json_pack("[[s, s]]", "driver-type", "io.containerd.snapshotter.v1"));
    put(json_object_get(facts, "info"), "Driver", json_string("overlayfs"));
    expect(facts, "image_store", "ok", "containerd", 0);
}
END_TEST

START_TEST(a_disk_that_is_nearly_full_is_a_warning_and_a_full_one_blocks)
{
    json_t *facts = docker();

    put(json_object_get(facts, "disk"), "free_bytes", json_integer((json_int_t)3 << 30));
    expect(facts, "disk", "warning", "3.0 GiB", 0);
    facts = docker();
    put(json_object_get(facts, "disk"), "free_bytes", json_integer(100 << 20));
    expect(facts, "disk", "blocking", "0.1 GiB", 0);
}
END_TEST

START_TEST(clocks_that_differ_are_told_with_their_sign)
{
    json_t *facts = docker();

    put(facts, "clock", json_integer(-90000));
    expect(facts, "clock", "warning", "90 s behind", 0);
    facts = docker();
    put(facts, "clock", json_integer(90000));
    expect(facts, "clock", "warning", "90 s ahead", 0);
    facts = docker();
    put(facts, "clock", json_null());
    expect(facts, "clock", "warning", "does not say", 0);
}
END_TEST

START_TEST(leftovers_name_whose_they_are)
{
    json_t *facts = docker();

    put(json_object_get(facts, "leftovers"), "runs", json_integer(2));
    expect(facts, "leftovers", "warning", "2 dead run(s) of ours", 0);
    facts = docker();
    put(json_object_get(facts, "leftovers"), "foreign_runs", json_integer(1));
    expect(facts, "leftovers", "warning", "other installations", 0);
}
END_TEST

START_TEST(a_trial_that_fails_or_leaves_something_blocks)
{
    struct cf_error err = {.kind = CF_ERROR_ENGINE, .text = "the engine did not put PidsLimit in force"};
    json_t *facts = docker();

    put(facts, "sandbox", cf_doctor_error(&err));
    expect(facts, "sandbox", "blocking", "PidsLimit", 0);
    facts = docker();
    put(facts, "left", json_pack("[{s:s, s:s}]", "kind", "container", "id", "abc"));
    expect(facts, "sandbox", "blocking", "container abc", 0);
    facts = docker();
    put(facts, "builder", cf_doctor_error(&err));
    expect(facts, "builder", "warning", NULL, 0);
    facts = docker(); /* --no-trial */
    (void)json_object_del(facts, "builder");
    (void)json_object_del(facts, "sandbox");
    expect(json_incref(facts), "builder", "", NULL, 0);
    expect(facts, "sandbox", "", NULL, 0);
}
END_TEST

START_TEST(the_state_folder_and_open_files_are_looked_at)
{
    struct cf_error err = {.kind = CF_ERROR_CONFIG, .text = "state folder /s: Permission denied"};
    json_t *facts = docker();

    put(facts, "state", cf_doctor_error(&err));
    expect(facts, "state", "blocking", "Permission denied", 0);
    facts = docker();
    put(json_object_get(facts, "self"), "open_files", json_integer(64));
    expect(facts, "open_files", "warning", "64", 0);
}
END_TEST

START_TEST(an_engine_s_words_cannot_draw_on_the_terminal)
{
    json_t *facts = docker(), *lines, *line;
    size_t i;

    put(json_object_get(facts, "info"), "OperatingSystem", json_string("evil\n \033[2J FIT"));
    put(json_object_get(facts, "info"), "Driver", json_string("a\tb\xe2\x80\xae"));
    lines = cf_doctor_lines(facts);
    json_array_foreach(lines, i, line)
        ck_assert_ptr_null(strpbrk(cf_json_str(line, "fact"), "\n\033\t"));
    json_decref(lines);
    json_decref(facts);
}
END_TEST

START_TEST(no_member_of_any_type_is_fatal)
{
    static const char *const values[] = {"null", "1", "\"x\"", "[]", "{}", "[null,[],[1,2]]", "{\"error\":1}", "{\"error\":{}}"};
    static const char *const names[] = {"engine", "info", "clock", "disk", "emulated", "leftovers", "self", "state", "builder",
                                        "sandbox", "left"};

    for (size_t n = 0; n < CF_COUNT(names); n++)
        for (size_t v = 0; v < CF_COUNT(values); v++) {
            json_t *facts = docker();
            put(facts, names[n], parse(values[v]));
            json_t *lines = cf_doctor_lines(facts);
            ck_assert(json_is_array(lines));
            json_decref(lines);
            json_decref(facts);
        }
}
END_TEST

/* ---- facts ----------------------------------------------------------------------------------- */

static json_int_t
ahead(const char *text, int64_t began, int64_t ended)
{
    json_t *value = cf_doctor_clock(text, began, ended);
    json_int_t ms = json_is_integer(value) ? json_integer_value(value) : -1;

    json_decref(value);
    return ms;
}

START_TEST(the_time_of_the_question_is_no_difference)
{
    const int64_t at = 1796077213195; /* 2026-11-30T22:20:13.195Z */

    ck_assert_int_eq(ahead("2026-11-30T22:20:13.195992753Z", at - 5, at + 5), 0);
    ck_assert_int_eq(ahead("2026-11-30T22:20:13.195Z", at + 1000, at + 1010), -1000);
    ck_assert_int_eq(ahead("2026-11-30T22:20:13.195Z", at - 3010, at - 3000), 3000);
    ck_assert_int_eq(ahead("2026-12-01T00:20:13.195+02:00", at, at), 0);
    ck_assert_int_eq(ahead("2026-11-30T17:50:13.195-04:30", at, at), 0);
    ck_assert_ptr_null(cf_doctor_clock("yesterday", at, at));
    ck_assert_ptr_null(cf_doctor_clock("2026-11-30T22:20:13", at, at));
    ck_assert_ptr_null(cf_doctor_clock(NULL, at, at));
}
END_TEST

START_TEST(a_folder_that_is_not_here_has_no_disk)
{
    json_t *disk = cf_doctor_disk("/proc/self");

    ck_assert(json_is_object(disk));
    json_decref(disk);
    ck_assert_ptr_null(cf_doctor_disk("/no/such/folder/of/a/virtual/machine"));
    ck_assert_ptr_null(cf_doctor_disk("relative"));
    ck_assert_ptr_null(cf_doctor_disk(NULL));
}
END_TEST

START_TEST(dead_runs_are_counted_by_their_owner)
{
    json_t *report = parse("{\"dead\":[{\"owner\":\"me\",\"resources\":[1,2]},{\"owner\":\"you\",\"resources\":[1]},{\"owner\":\"me\"}]}");
    json_t *count = cf_doctor_leftovers(report, "me");

    ck_assert_int_eq(cf_json_int(count, "runs", 0), 2);
    ck_assert_int_eq(cf_json_int(count, "things", 0), 2);
    ck_assert_int_eq(cf_json_int(count, "foreign_runs", 0), 1);
    ck_assert_int_eq(cf_json_int(count, "foreign_things", 0), 1);
    json_decref(count);
    json_decref(report);
}
END_TEST

UNIT_MAIN("diagnose/doctor", tcase_add_test(tc, a_healthy_docker_has_nothing_to_look_at);
          tcase_add_test(tc, podman_is_told_by_name_and_its_vfs_is_worth_a_look);
          tcase_add_test(tc, an_engine_that_is_not_there_blocks_and_the_rest_is_not_told);
          tcase_add_test(tc, a_closed_socket_is_a_matter_of_permission); tcase_add_test(tc, limits_that_would_not_hold_block);
          tcase_add_test(tc, system_calls_that_nobody_filters_are_told); tcase_add_test(tc, a_remote_engine_has_its_own_lines);
          tcase_add_test(tc, another_machine_s_engine_blocks);
          tcase_add_test(tc, the_containerd_image_store_is_told_from_the_graph_driver);
          tcase_add_test(tc, a_disk_that_is_nearly_full_is_a_warning_and_a_full_one_blocks);
          tcase_add_test(tc, clocks_that_differ_are_told_with_their_sign); tcase_add_test(tc, leftovers_name_whose_they_are);
          tcase_add_test(tc, a_trial_that_fails_or_leaves_something_blocks);
          tcase_add_test(tc, the_state_folder_and_open_files_are_looked_at);
          tcase_add_test(tc, an_engine_s_words_cannot_draw_on_the_terminal); tcase_add_test(tc, no_member_of_any_type_is_fatal);
          tcase_add_test(tc, the_time_of_the_question_is_no_difference);
          tcase_add_test(tc, a_folder_that_is_not_here_has_no_disk); tcase_add_test(tc, dead_runs_are_counted_by_their_owner);)
