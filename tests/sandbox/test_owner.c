/* Labels, the state folder, lock files, and the rule for "dead". */
#include "sandbox/owner.h"

#include "base/clock.h"
#include "base/ids.h"
#include "json/json.h"
#include "tests/support/unit.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static char dir[64];

static struct cf_owner *
open_owner(void)
{
    struct cf_owner *owner = NULL;
    struct cf_error err = {0};

    if (dir[0] == '\0') {
        strcpy(dir, "/tmp/cf-owner-XXXXXX");
        ck_assert_ptr_nonnull(mkdtemp(dir));
    }
    ck_assert_msg(cf_owner_open(dir, &owner, &err) == 0, "%s", err.text);
    return owner;
}

static void
remove_dir(void)
{
    char line[128];

    snprintf(line, sizeof line, "rm -rf %s", dir);
    ck_assert_int_eq(system(line), 0);
    dir[0] = '\0';
}

static struct cf_labels
labels_of(const struct cf_owner *owner, const char *run, int64_t deadline)
{
    struct cf_labels labels;
    json_t *object = cf_owner_labels(owner, run, "cfrunner-1", deadline);

    ck_assert(cf_labels_read(object, &labels));
    json_decref(object);
    return labels;
}

static void
write_lock(const char *run)
{
    char path[256];

    snprintf(path, sizeof path, "%s/runs/%s", dir, run);
    int fd = open(path, O_WRONLY | O_CREAT, 0600);
    ck_assert_int_ge(fd, 0);
    close(fd);
}

START_TEST(labels_come_back_as_written)
{
    struct cf_owner *owner = open_owner();
    char run[40];

    cf_id_make("run_", run, sizeof run);
    struct cf_labels labels = labels_of(owner, run, 2000000000);
    ck_assert_str_eq(labels.owner, cf_owner_id(owner));
    ck_assert_str_eq(labels.run, run);
    ck_assert_str_eq(labels.sandbox, "cfrunner-1");
    ck_assert_int_eq(labels.deadline, 2000000000);
    ck_assert_uint_eq(labels.process.pid, (uint64_t)getpid());
    ck_assert(cf_process_is_alive(labels.process.pid, labels.process.start_ticks));
    ck_assert(!cf_process_is_alive(labels.process.pid, labels.process.start_ticks + 1));
    cf_owner_close(owner);
    remove_dir();
}
END_TEST

START_TEST(labels_that_are_not_exactly_ours_are_not_read)
{
    static const struct {
        const char *key, *value;
    } bad[] = {
        {CF_LABEL, "x"},
        {CF_LABEL ".schema", "2"},
        {CF_LABEL ".schema", ""},
        {CF_LABEL ".owner", "own_0123"},
        {CF_LABEL ".owner", "own_0123456789ABCDEF0123456789abcdef"},
        {CF_LABEL ".run", "run_0123456789abcdef0123456789abcdef0"},
        {CF_LABEL ".run", "own_0123456789abcdef0123456789abcdef"},
        {CF_LABEL ".sandbox", "a b"},
        {CF_LABEL ".sandbox", "a\n"},
        {CF_LABEL ".process", "boot:1:2"},
        {CF_LABEL ".process", "abc:1:2:3:4"},
        {CF_LABEL ".process", ":1:2:3"},
        {CF_LABEL ".process", "abc:1:0:3"},
        {CF_LABEL ".process", "abc:1:-2:3"},
        {CF_LABEL ".process", "abc:1:2:3 "},
        {CF_LABEL ".created", "2026-02-31T00:00:00Z"},
        {CF_LABEL ".created", "2026-01-01T00:00:00"},
        {CF_LABEL ".deadline", "2026-01-01 00:00:00Z"},
        {CF_LABEL ".deadline", "2026-01-01T00:00:00Zx"},
        {CF_LABEL ".deadline", "+026-01-01T00:00:00Z"},
        {CF_LABEL ".deadline", "tomorrow"},
    };
    struct cf_owner *owner = open_owner();
    struct cf_labels labels;

    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        json_t *object =
            cf_owner_labels(owner, "run_0123456789abcdef0123456789abcdef", "s", 2000000000);
        ck_assert(cf_labels_read(object, &labels));
        json_object_set_new(object, bad[i].key, json_string(bad[i].value));
        ck_assert_msg(!cf_labels_read(object, &labels), "%s = %s was read", bad[i].key,
                      bad[i].value);
        json_object_del(object, bad[i].key);
        ck_assert_msg(!cf_labels_read(object, &labels), "read without %s", bad[i].key);
        json_object_set_new(object, bad[i].key, json_integer(1));
        ck_assert(!cf_labels_read(object, &labels));
        json_object_set_new(object, bad[i].key, json_stringn("1\0x", 3));
        ck_assert(!cf_labels_read(object, &labels));
        json_decref(object);
    }
    ck_assert(!cf_labels_read(NULL, &labels));
    cf_owner_close(owner);
    remove_dir();
}
END_TEST

START_TEST(an_installation_keeps_its_id)
{
    struct cf_owner *first = open_owner();
    char id[64];

    snprintf(id, sizeof id, "%s", cf_owner_id(first));
    ck_assert(cf_labels_is_id(id, "own_"));
    cf_owner_close(first);
    struct cf_owner *second = open_owner();
    ck_assert_str_eq(cf_owner_id(second), id);
    cf_owner_close(second);
    remove_dir();
}
END_TEST

START_TEST(a_broken_id_file_is_an_error_with_a_remedy)
{
    struct cf_owner *owner = open_owner();
    struct cf_error err = {0};
    char path[128];

    cf_owner_close(owner);
    snprintf(path, sizeof path, "%s/owner-id", dir);
    FILE *file = fopen(path, "w");
    fputs("own_zz\n", file);
    fclose(file);
    ck_assert_int_lt(cf_owner_open(dir, &owner, &err), 0);
    ck_assert_ptr_nonnull(strstr(err.text, "owner-id"));
    ck_assert_ptr_nonnull(strstr(err.fix, "remove the file"));
    remove_dir();
}
END_TEST

START_TEST(a_state_folder_that_others_can_write_is_refused)
{
    struct cf_owner *owner = open_owner();
    struct cf_error err = {0};

    cf_owner_close(owner);
    chmod(dir, 0777);
    ck_assert_int_lt(cf_owner_open(dir, &owner, &err), 0);
    ck_assert_ptr_nonnull(strstr(err.text, "written by others"));
    chmod(dir, 0700);
    ck_assert_int_lt(cf_owner_open("relative", &owner, &err), 0);
    ck_assert_int_lt(cf_owner_open("/proc/nowhere", &owner, &err), 0);
    ck_assert_str_ne(err.fix, "");
    remove_dir();
}
END_TEST

/* Another process's run: it begins the run, says so, and waits to be killed. */
static pid_t
begin_in_child(const char *run, int64_t deadline, struct cf_labels *ret_labels)
{
    int ready[2];

    ck_assert_int_eq(pipe(ready), 0);
    pid_t pid = fork();
    if (pid == 0) {
        struct cf_owner *owner = NULL;
        struct cf_error err = {0};
        if (cf_owner_open(dir, &owner, &err) < 0 || cf_owner_run_begin(owner, run, &err) < 0)
            _exit(1);
        struct cf_labels labels;
        json_t *object = cf_owner_labels(owner, run, "s", deadline);
        if (!cf_labels_read(object, &labels) ||
            write(ready[1], &labels, sizeof labels) != sizeof labels)
            _exit(1);
        pause();
        _exit(0);
    }
    close(ready[1]);
    ck_assert_int_eq(read(ready[0], ret_labels, sizeof *ret_labels), sizeof *ret_labels);
    close(ready[0]);
    return pid;
}

START_TEST(a_run_lives_as_long_as_its_lock_is_held)
{
    struct cf_owner *owner = open_owner();
    struct cf_labels labels;
    const char *why, *run = "run_0123456789abcdef0123456789abcdef";
    int64_t now = cf_clock_unix();
    pid_t pid = begin_in_child(run, now + 600, &labels);

    ck_assert(!cf_owner_run_is_dead(owner, &labels, false, now, &why));
    ck_assert_str_eq(why, "its lock file is held");
    cf_owner_forget(owner, run); /* must not touch a held one */
    ck_assert(!cf_owner_run_is_dead(owner, &labels, true, now, &why));
    ck_assert_str_eq(why, "its lock file is held");
    kill(pid, SIGSTOP); /* a stopped owner is alive */
    ck_assert(!cf_owner_run_is_dead(owner, &labels, false, now, &why));
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
    ck_assert(cf_owner_run_is_dead(owner, &labels, false, now, &why));
    ck_assert_str_eq(why, "nobody holds its lock file");
    cf_owner_forget(owner, run);
    ck_assert(cf_owner_run_is_dead(owner, &labels, false, now, &why));
    ck_assert_str_eq(why, "its lock file and its process are gone");
    cf_owner_close(owner);
    remove_dir();
}
END_TEST

START_TEST(our_own_open_run_is_alive_for_ourselves)
{
    struct cf_owner *owner = open_owner();
    struct cf_error err = {0};
    const char *why, *run = "run_0123456789abcdef0123456789abcdef";
    int64_t now = cf_clock_unix();

    ck_assert_int_eq(cf_owner_run_begin(owner, run, &err), 0);
    ck_assert_int_lt(cf_owner_run_begin(owner, run, &err), 0); /* one run, one lock */
    ck_assert_int_lt(cf_owner_run_begin(owner, "run_../../etc/passwd", &err), 0);
    struct cf_labels labels = labels_of(owner, run, now + 600);
    ck_assert(!cf_owner_run_is_dead(owner, &labels, false, now, &why));
    cf_owner_run_end(owner, run);
    cf_owner_run_end(owner, run); /* twice is fine */
    ck_assert(!cf_owner_run_is_dead(owner, &labels, false, now, &why));
    ck_assert_str_eq(why, "its process is alive");
    cf_owner_close(owner);
    remove_dir();
}
END_TEST

START_TEST(a_passed_deadline_is_death_even_under_a_held_lock)
{
    struct cf_owner *owner = open_owner();
    struct cf_error err = {0};
    const char *why, *run = "run_0123456789abcdef0123456789abcdef";
    int64_t now = cf_clock_unix();

    ck_assert_int_eq(cf_owner_run_begin(owner, run, &err), 0);
    struct cf_labels labels = labels_of(owner, run, now + 10);
    ck_assert(!cf_owner_run_is_dead(owner, &labels, false, now + 9, &why));
    ck_assert(cf_owner_run_is_dead(owner, &labels, false, now + 10, &why));
    ck_assert_str_eq(why, "its deadline has passed");
    cf_owner_close(owner);
    remove_dir();
}
END_TEST

START_TEST(a_foreign_run_dies_by_deadline_only_and_only_when_asked)
{
    struct cf_owner *owner = open_owner();
    const char *why;
    int64_t now = cf_clock_unix();
    struct cf_labels labels =
        labels_of(owner, "run_0123456789abcdef0123456789abcdef", now + 10);

    strcpy(labels.owner, "own_00000000000000000000000000000000");
    write_lock(labels.run); /* a free lock of that name proves nothing about a foreign run */
    ck_assert(!cf_owner_run_is_dead(owner, &labels, true, now, &why));
    ck_assert(!cf_owner_run_is_dead(owner, &labels, false, now + 20, &why));
    ck_assert(cf_owner_run_is_dead(owner, &labels, true, now + 20, &why));
    cf_owner_close(owner);
    remove_dir();
}
END_TEST

START_TEST(another_boot_or_namespace_alone_proves_nothing)
{
    struct cf_owner *owner = open_owner();
    const char *why;
    int64_t now = cf_clock_unix();
    struct cf_labels labels =
                         labels_of(owner, "run_0123456789abcdef0123456789abcdef", now + 600),
                     other;

    labels.process.start_ticks++; /* no such process here */
    ck_assert(cf_owner_run_is_dead(owner, &labels, false, now, &why));
    other = labels;
    strcpy(other.process.boot, "00000000-0000-0000-0000-000000000000");
    ck_assert(!cf_owner_run_is_dead(owner, &other, false, now, &why));
    other = labels;
    other.process.pidns++;
    ck_assert(!cf_owner_run_is_dead(owner, &other, false, now, &why));
    write_lock(labels.run); /* but a lock that nobody holds does */
    ck_assert(cf_owner_run_is_dead(owner, &other, false, now, &why));
    cf_owner_close(owner);
    remove_dir();
}
END_TEST

static bool
keeps_f(void *user, const char *run)
{
    (void)user;
    return run[4] == 'f';
}

START_TEST(stale_lock_files_go_young_held_and_known_ones_stay)
{
    struct cf_owner *owner = open_owner();
    struct cf_error err = {0};
    char path[256];
    const char *held = "run_00000000000000000000000000000001",
               *known = "run_f0000000000000000000000000000000",
               *stale = "run_00000000000000000000000000000002";

    ck_assert_int_eq(cf_owner_run_begin(owner, held, &err), 0);
    write_lock(known);
    write_lock(stale);
    cf_owner_forget_stale(owner, 60, keeps_f, NULL);
    snprintf(path, sizeof path, "%s/runs/%s", dir, stale);
    ck_assert_int_eq(access(path, F_OK), 0);
    cf_owner_forget_stale(owner, -1, keeps_f, NULL);
    ck_assert_int_ne(access(path, F_OK), 0);
    snprintf(path, sizeof path, "%s/runs/%s", dir, held);
    ck_assert_int_eq(access(path, F_OK), 0);
    snprintf(path, sizeof path, "%s/runs/%s", dir, known);
    ck_assert_int_eq(access(path, F_OK), 0);
    cf_owner_close(owner);
    remove_dir();
}
END_TEST

UNIT_MAIN("sandbox/owner", {
    tcase_add_test(tc, labels_come_back_as_written);
    tcase_add_test(tc, labels_that_are_not_exactly_ours_are_not_read);
    tcase_add_test(tc, an_installation_keeps_its_id);
    tcase_add_test(tc, a_broken_id_file_is_an_error_with_a_remedy);
    tcase_add_test(tc, a_state_folder_that_others_can_write_is_refused);
    tcase_add_test(tc, a_run_lives_as_long_as_its_lock_is_held);
    tcase_add_test(tc, our_own_open_run_is_alive_for_ourselves);
    tcase_add_test(tc, a_passed_deadline_is_death_even_under_a_held_lock);
    tcase_add_test(tc, a_foreign_run_dies_by_deadline_only_and_only_when_asked);
    tcase_add_test(tc, another_boot_or_namespace_alone_proves_nothing);
    tcase_add_test(tc, stale_lock_files_go_young_held_and_known_ones_stay);
})
