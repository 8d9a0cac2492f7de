/* What this host shows of a container's control group; the tree is the test's own. */
#include "base/ids.h"
#include "base/str.h"
#include "sandbox/hostview.h"
#include "tests/support/unit.h"

#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#define ID "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

static char root[64];

static const char *
at(const char *below)
{
    static char path[400];

    snprintf(path, sizeof path, "%s%s", root, below);
    return path;
}

static void
put(const char *below, const char *text)
{
    FILE *file = fopen(at(below), "w");

    ck_assert_ptr_nonnull(file);
    fputs(text, file);
    fclose(file);
}

static void
make_root(void)
{
    char random[33];

    cf_id_hex(random);
    snprintf(root, sizeof root, "/tmp/cf-hostview-%s", random);
    ck_assert_int_eq(mkdir(root, 0700), 0);
}

START_TEST(a_group_is_found_in_each_layout_and_its_end_is_seen)
{
    static const char *const layouts[][3] = {{"/docker", "/docker/" ID, ""},
                                             {"/pids", "/pids/docker", "/pids/docker/" ID},
                                             {"/system.slice", "/system.slice/docker-" ID ".scope", ""},
                                             {"/libpod_parent", "/libpod_parent/libpod-" ID, ""},
                                             {"/machine.slice", "/machine.slice/libpod-" ID ".scope", ""}};
    char found[CF_HOSTVIEW_PATH], procs[200];
    unsigned alive = 9;

    for (size_t i = 0; i < CF_COUNT(layouts); i++) {
        const char *last = layouts[i][0];
        make_root();
        cf_hostview_find(root, ID, found);
        ck_assert_str_eq(found, "");
        for (int k = 0; k < 3 && layouts[i][k][0] != '\0'; k++)
            ck_assert_int_eq(mkdir(at(last = layouts[i][k]), 0700), 0);
        cf_hostview_find(root, ID, found);
        ck_assert_str_eq(found, at(last));
        snprintf(procs, sizeof procs, "%s/cgroup.procs", last);
        put(procs, "17\n4711\n");
        ck_assert_int_eq(cf_hostview_look(found, &alive), CF_HOSTVIEW_ALIVE);
        ck_assert_uint_eq(alive, 2);
        put(procs, "");
        ck_assert_int_eq(cf_hostview_look(found, &alive), CF_HOSTVIEW_EMPTY);
        ck_assert_uint_eq(alive, 0);
        unlink(at(procs));
        rmdir(found);
        ck_assert_int_eq(cf_hostview_look(found, &alive), CF_HOSTVIEW_GONE);
        for (int k = 2; k >= 0; k--)
            rmdir(at(layouts[i][k]));
        ck_assert_int_eq(rmdir(root), 0);
    }
}
END_TEST

START_TEST(who_was_ended_for_memory_is_counted_in_each_layout)
{
    make_root();
    ck_assert_int_eq(mkdir(at("/pids"), 0700), 0);
    ck_assert_int_eq(mkdir(at("/memory"), 0700), 0);
    ck_assert_int_eq(mkdir(at("/memory/docker"), 0700), 0);
    put("/memory/docker/memory.oom_control", "oom_kill_disable 0\nunder_oom 0\noom_kill 3\n");
    ck_assert_uint_eq(cf_hostview_oom_kills(at("/pids/docker")), 3);
    ck_assert_uint_eq(cf_hostview_oom_kills(at("/memory/docker")), 3);
    put("/memory.events", "oom 7\noom_kill 2\n");
    ck_assert_uint_eq(cf_hostview_oom_kills(root), 2);
    ck_assert_uint_eq(cf_hostview_oom_kills(at("/pids")), 0);
    ck_assert_uint_eq(cf_hostview_oom_kills(""), 0);
    unlink(at("/memory/docker/memory.oom_control"));
    unlink(at("/memory.events"));
    rmdir(at("/memory/docker"));
    rmdir(at("/memory"));
    rmdir(at("/pids"));
    rmdir(root);
}
END_TEST

START_TEST(what_is_no_id_is_not_looked_for)
{
    char found[CF_HOSTVIEW_PATH] = "x";

    cf_hostview_find("/", NULL, found);
    ck_assert_str_eq(found, "");
    cf_hostview_find("/", "../../etc", found);
    ck_assert_str_eq(found, "");
    cf_hostview_find("/", ID "0", found);
    ck_assert_str_eq(found, "");
}
END_TEST

UNIT_MAIN("sandbox/hostview", {
    tcase_add_test(tc, a_group_is_found_in_each_layout_and_its_end_is_seen);
    tcase_add_test(tc, who_was_ended_for_memory_is_counted_in_each_layout);
    tcase_add_test(tc, what_is_no_id_is_not_looked_for);
})
