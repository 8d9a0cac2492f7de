/* sandbox/link with a real cf-init: files beneath a root, manifests, the disk watch. */
#include "tests/support/unit.h"
#include "tests/support/link_ns.h"

static char *
path_in(const struct box *box, const char *name)
{
    static char path[256];

    snprintf(path, sizeof path, "%s/%s", box->ns.folder, name);
    return path;
}

static void
make_file(const struct box *box, const char *name, const char *text, mode_t mode)
{
    int fd = open(path_in(box, name), O_WRONLY | O_CREAT | O_TRUNC, 0644);

    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(write(fd, text, strlen(text)), (ssize_t)strlen(text));
    fchmod(fd, mode);
    ck_assert_int_eq(fchown(fd, NS_UID, NS_UID), 0);
    close(fd);
}

static const char *
text_of(const struct ask *ask, const char *name)
{
    return json_string_value(json_object_get(ask->answer, name));
}

START_TEST(stat_tells_the_real_path_and_whether_it_may_be_written)
{
    struct ask ask = {0};
    struct box box;

    if (!box_start(&box))
        return;
    ck_assert_int_eq(mkdir(path_in(&box, "real"), 0700), 0);
    ck_assert_int_eq(symlink("real", path_in(&box, "link")), 0);
    ASK(&box, &ask, cf_link_stat(box.link, path_in(&box, "link"), ask_done, &ask, &err_));
    ck_assert_int_eq(ask.status, 0);
    ck_assert_str_eq(text_of(&ask, "real"), path_in(&box, "real"));
    ck_assert_str_eq(text_of(&ask, "type"), "folder");
    ck_assert(json_is_true(json_object_get(ask.answer, "exists")));
    ck_assert(json_is_false(json_object_get(ask.answer, "writable"))); /* root's, 0700 */
    ck_assert_int_eq(json_integer_value(json_object_get(ask.answer, "mode")), 0700);
    ASK(&box, &ask,
        cf_link_stat(box.link, path_in(&box, "link/new/deep"), ask_done, &ask, &err_));
    ck_assert(ask.status == -1 && ask.err.code == EACCES); /* not even to be looked into */
    ck_assert_int_eq(chmod(path_in(&box, "real"), 0755), 0);
    ASK(&box, &ask,
        cf_link_stat(box.link, path_in(&box, "link/new/deep"), ask_done, &ask, &err_));
    ck_assert_str_eq(text_of(&ask, "real"), path_in(&box, "real/new/deep"));
    ck_assert_str_eq(text_of(&ask, "type"), "none");
    ck_assert(json_is_false(json_object_get(ask.answer, "exists")));
    ASK(&box, &ask, cf_link_stat(box.link, box.ns.folder, ask_done, &ask, &err_));
    ck_assert(json_is_true(json_object_get(ask.answer, "writable")));
    ck_assert_int_eq(json_integer_value(json_object_get(ask.answer, "uid")), NS_UID);
    ask_release(&ask);
    box_stop(&box);
}
END_TEST

START_TEST(a_file_goes_in_and_comes_out_the_same)
{
    size_t len = 3u << 20;
    struct ask ask = {0};
    char *bytes = malloc(len);
    struct stat info;
    struct box box;

    if (!box_start(&box))
        return;
    for (size_t i = 0; i < len; i++)
        bytes[i] = (char)(i * 40503u >> 8);
    ASK(&box, &ask,
        cf_link_mkdir(box.link, box.ns.folder, "a/b/c", 0750, ask_done, &ask, &err_));
    ck_assert_msg(ask.status == 0, "%s", ask.err.text);
    ASK(&box, &ask,
        cf_link_mkdir(box.link, box.ns.folder, "a/b/c", 0750, ask_done, &ask, &err_));
    ck_assert_int_eq(ask.status, 0);
    ASK(&box, &ask,
        cf_link_write_file(box.link, box.ns.folder, "a/b/c/file", 0640, bytes, len, ask_done,
                           &ask, &err_));
    ck_assert_msg(ask.status == 0, "%s", ask.err.text);
    ck_assert_int_eq(json_integer_value(json_object_get(ask.answer, "size")), (int)len);
    ck_assert_int_eq(stat(path_in(&box, "a/b/c/file"), &info), 0);
    ck_assert_int_eq(info.st_mode & 07777, 0640);
    ck_assert_int_eq(stat(path_in(&box, "a/b"), &info), 0);
    ck_assert_int_eq(info.st_mode & 07777, 0750);
    ASK(&box, &ask,
        cf_link_read_file(box.link, box.ns.folder, "a/b/c/file", len, ask_bytes, ask_done,
                          &ask, &err_));
    ck_assert_msg(ask.status == 0, "%s", ask.err.text);
    ck_assert_uint_eq(ask.bytes.len, len);
    ck_assert_int_eq(memcmp(ask.bytes.data, bytes, len), 0);
    ASK(&box, &ask,
        cf_link_read_head(box.link, box.ns.folder, "a/b/c/file", 8192, ask_bytes, ask_done, &ask,
                          &err_));
    ck_assert_msg(ask.status == 0, "%s", ask.err.text);
    ck_assert_uint_eq(ask.bytes.len, 8192); /* of a file that is larger, and no byte more */
    ck_assert_int_eq(memcmp(ask.bytes.data, bytes, 8192), 0);
    ASK(&box, &ask,
        cf_link_write_file(box.link, box.ns.folder, "a/b/c/file", 0600, "short", 5, ask_done,
                           &ask, &err_));
    ASK(&box, &ask,
        cf_link_read_file(box.link, box.ns.folder, "a/b/c/file", 5, ask_bytes, ask_done, &ask,
                          &err_));
    ck_assert_uint_eq(ask.bytes.len, 5);
    ASK(&box, &ask,
        cf_link_read_head(box.link, box.ns.folder, "a/b/c/file", 8192, ask_bytes, ask_done, &ask,
                          &err_));
    ck_assert_uint_eq(ask.bytes.len, 5);
    ASK(&box, &ask,
        cf_link_write_file(box.link, box.ns.folder, "empty", 0600, "", 0, ask_done, &ask,
                           &err_));
    ck_assert_int_eq(ask.status, 0);
    ASK(&box, &ask,
        cf_link_read_file(box.link, box.ns.folder, "empty", 0, ask_bytes, ask_done, &ask,
                          &err_));
    ck_assert_int_eq(ask.status, 0);
    ck_assert_uint_eq(ask.bytes.len, 0);
    ask_release(&ask);
    free(bytes);
    box_stop(&box);
}
END_TEST

START_TEST(a_file_over_its_limit_is_too_large_by_one_byte)
{
    struct ask ask = {0};
    struct box box;

    if (!box_start(&box))
        return;
    make_file(&box, "six", "sixsix", 0644);
    ASK(&box, &ask,
        cf_link_read_file(box.link, box.ns.folder, "six", 6, ask_bytes, ask_done, &ask,
                          &err_));
    ck_assert_int_eq(ask.status, 0);
    ASK(&box, &ask,
        cf_link_read_file(box.link, box.ns.folder, "six", 5, ask_bytes, ask_done, &ask,
                          &err_));
    ck_assert_int_eq(ask.status, -1);
    ck_assert_int_eq(ask.err.kind, CF_ERROR_TOO_LARGE);
    ck_assert_uint_eq(ask.bytes.len, 0);
    ask_release(&ask);
    box_stop(&box);
}
END_TEST

static void
expect_read_refused(struct box *box, const char *path, int error)
{
    struct ask ask = {0};

    ASK(box, &ask,
        cf_link_read_file(box->link, box->ns.folder, path, 1000000, ask_bytes, ask_done, &ask,
                          &err_));
    ck_assert_msg(ask.status == -1, "%s was read", path);
    ck_assert_msg(ask.err.code == error, "%s: %d, %s", path, ask.err.code, ask.err.text);
    ask_release(&ask);
}

START_TEST(only_regular_files_beneath_the_root_are_touched)
{
    struct ask ask = {0};
    struct box box;

    if (!box_start(&box))
        return;
    make_file(&box, "target", "inside", 0644);
    ck_assert_int_eq(mkdir(path_in(&box, "folder"), 0755), 0);
    ck_assert_int_eq(mkfifo(path_in(&box, "fifo"), 0666), 0);
    ck_assert_int_eq(symlink("/etc/passwd", path_in(&box, "out")), 0);
    ck_assert_int_eq(symlink("../../../etc", path_in(&box, "up")), 0);
    ck_assert_int_eq(symlink("target", path_in(&box, "in")), 0);
    ck_assert_int_eq(symlink("/proc/1/root/etc/passwd", path_in(&box, "magic")), 0);
    expect_read_refused(&box, "out", EXDEV);
    expect_read_refused(&box, "up/passwd", EXDEV);
    expect_read_refused(&box, "../../etc/passwd", EXDEV);
    expect_read_refused(&box, "/etc/passwd", EXDEV);
    expect_read_refused(&box, "folder/../../x", EXDEV);
    expect_read_refused(&box, "magic", EXDEV);
    expect_read_refused(&box, "fifo", EINVAL);
    expect_read_refused(&box, "folder", EINVAL);
    expect_read_refused(&box, "absent", ENOENT);
    expect_read_refused(&box, "target/x", ENOTDIR);
    ASK(&box, &ask,
        cf_link_read_file(box.link, box.ns.folder, "in", 100, ask_bytes, ask_done, &ask,
                          &err_));
    ck_assert_str_eq(ask.bytes.data, "inside");
    ASK(&box, &ask,
        cf_link_write_file(box.link, box.ns.folder, "out", 0644, "x", 1, ask_done, &ask,
                           &err_));
    ck_assert_int_eq(ask.err.code, EXDEV);
    ASK(&box, &ask,
        cf_link_write_file(box.link, box.ns.folder, "fifo", 0644, "x", 1, ask_done, &ask,
                           &err_));
    ck_assert_int_eq(ask.status, -1);
    ASK(&box, &ask,
        cf_link_write_file(box.link, box.ns.folder, "folder", 0644, "x", 1, ask_done, &ask,
                           &err_));
    ck_assert_int_eq(ask.err.code, EISDIR);
    ASK(&box, &ask,
        cf_link_write_file(box.link, "/root", "x", 0644, "x", 1, ask_done, &ask, &err_));
    ck_assert_int_eq(ask.err.code, EACCES);
    ASK(&box, &ask,
        cf_link_mkdir(box.link, box.ns.folder, "up/new", 0755, ask_done, &ask, &err_));
    ck_assert_int_eq(ask.err.code, EXDEV);
    ASK(&box, &ask,
        cf_link_mkdir(box.link, box.ns.folder, "../new", 0755, ask_done, &ask, &err_));
    ck_assert_int_eq(ask.status, -1);
    ask_release(&ask);
    box_stop(&box);
}
END_TEST

START_TEST(unlink_takes_the_name_and_not_what_it_points_to)
{
    struct ask ask = {0};
    struct box box;

    if (!box_start(&box))
        return;
    make_file(&box, "target", "inside", 0644);
    ck_assert_int_eq(symlink("target", path_in(&box, "link")), 0);
    ck_assert_int_eq(mkdir(path_in(&box, "folder"), 0755), 0);
    ASK(&box, &ask, cf_link_unlink(box.link, box.ns.folder, "link", ask_done, &ask, &err_));
    ck_assert_int_eq(ask.status, 0);
    ck_assert_int_eq(access(path_in(&box, "target"), F_OK), 0);
    ASK(&box, &ask, cf_link_unlink(box.link, box.ns.folder, "link", ask_done, &ask, &err_));
    ck_assert_int_eq(ask.status, 0); /* absent is fine */
    ASK(&box, &ask, cf_link_unlink(box.link, box.ns.folder, "folder", ask_done, &ask, &err_));
    ck_assert_int_eq(ask.err.code, EISDIR);
    ASK(&box, &ask,
        cf_link_unlink(box.link, box.ns.folder, "folder/..", ask_done, &ask, &err_));
    ck_assert_int_eq(ask.status, -1);
    ask_release(&ask);
    box_stop(&box);
}
END_TEST

static int
give_up_after_the_first(void *user, const char *bytes, size_t len)
{
    return -1;
}

START_TEST(a_reader_may_give_up_and_the_link_goes_on)
{
    struct ask ask = {0};
    struct box box;
    int fd;

    if (!box_start(&box))
        return;
    fd = open(path_in(&box, "big"), O_WRONLY | O_CREAT, 0644);
    ck_assert_int_eq(ftruncate(fd, 10 << 20), 0);
    close(fd);
    ASK(&box, &ask,
        cf_link_read_file(box.link, box.ns.folder, "big", 1u << 30, give_up_after_the_first,
                          ask_done, &ask, &err_));
    ck_assert_int_eq(ask.err.kind, CF_ERROR_CANCELED);
    ASK(&box, &ask, cf_link_facts(box.link, ask_done, &ask, &err_));
    ck_assert_int_eq(json_integer_value(json_object_get(ask.answer, "channels")), 0);
    ask_release(&ask);
    box_stop(&box);
}
END_TEST

START_TEST(a_full_disk_is_told_as_such)
{
    struct ask ask = {0};
    static char bytes[3u << 20];
    char options[64];
    struct box box;

    if (!box_start(&box))
        return;
    snprintf(options, sizeof options, "size=1m,uid=%u", NS_UID);
    /* mounted here it is seen inside only where mounts are shared; so go in and mount it there
     */
    {
        char command[400];

        snprintf(command, sizeof command, "nsenter -t %d -m mount -t tmpfs -o %s none %s",
                 box.ns.pid, options, box.ns.folder);
        if (system(command) != 0) {
            printf("SKIPPED a full disk: nsenter failed\n");
            box_stop(&box);
            return;
        }
    }
    ASK(&box, &ask,
        cf_link_write_file(box.link, box.ns.folder, "big", 0644, bytes, sizeof bytes, ask_done,
                           &ask, &err_));
    ck_assert_int_eq(ask.err.code, ENOSPC);
    ck_assert_int_eq(ask.err.kind, CF_ERROR_BUDGET);
    ask_release(&ask);
    box_stop(&box);
}
END_TEST

START_TEST(a_manifest_names_everything_once)
{
    struct ask ask = {0};
    char name[64], *line, *rest;
    int lines = 0, files = 0, folders = 0, links = 0, odd = 0;
    json_t *entry;
    struct box box;

    if (!box_start(&box))
        return;
    for (int i = 0; i < 20; i++) {
        snprintf(name, sizeof name, "d%d", i);
        ck_assert_int_eq(mkdir(path_in(&box, name), 0755), 0);
        for (int k = 0; k < 50; k++) {
            snprintf(name, sizeof name, "d%d/f%d", i, k);
            make_file(&box, name, "content", 0644);
        }
    }
    ck_assert_int_eq(symlink("d1", path_in(&box, "link")), 0);
    make_file(&box, "with \"quotes\"\nand a line", "x", 0644);
    make_file(&box, "bad\xff\xfename", "x", 0644);
    ASK(&box, &ask,
        cf_link_manifest(box.link, box.ns.folder, 100000, ask_bytes, ask_done, &ask, &err_));
    ck_assert_msg(ask.status == 0, "%s", ask.err.text);
    ck_assert_int_eq(json_integer_value(json_object_get(ask.answer, "entries")), 1023);
    ck_assert(json_is_false(json_object_get(ask.answer, "truncated")));
    rest = ask.bytes.data;
    while ((line = strsep(&rest, "\n")) != NULL && line[0] != '\0') {
        entry = json_loads(line, 0, NULL);
        ck_assert_msg(entry != NULL, "not JSON: %s", line);
        lines++;
        switch (json_string_value(json_object_get(entry, "t"))[0]) {
        case 'f':
            files++;
            break;
        case 'd':
            folders++;
            break;
        case 'l':
            links++;
            break;
        }
        odd +=
            json_object_get(entry, "x") != NULL &&
            strcmp(json_string_value(json_object_get(entry, "x")), "626164fffe6e616d65") == 0;
        json_decref(entry);
    }
    ck_assert_int_eq(lines, 1023);
    ck_assert_int_eq(files, 1002);
    ck_assert_int_eq(folders, 20);
    ck_assert_int_eq(links, 1);
    ck_assert_int_eq(odd, 1);
    ASK(&box, &ask,
        cf_link_read_file(box.link, box.ns.folder, "bad\xff\xfename", 10, ask_bytes, ask_done,
                          &ask, &err_));
    ck_assert_str_eq(ask.bytes.data, "x");
    ASK(&box, &ask,
        cf_link_manifest(box.link, box.ns.folder, 1022, ask_bytes, ask_done, &ask, &err_));
    ck_assert_int_eq(json_integer_value(json_object_get(ask.answer, "entries")), 1022);
    ck_assert(json_is_true(json_object_get(ask.answer, "truncated")));
    ASK(&box, &ask,
        cf_link_manifest(box.link, "/no/such/root", 10, ask_bytes, ask_done, &ask, &err_));
    ck_assert_int_eq(ask.err.code, ENOENT);
    ask_release(&ask);
    box_stop(&box);
}
END_TEST

START_TEST(a_tree_too_deep_is_cut_and_says_so)
{
    struct ask ask = {0};
    struct proc proc;
    struct box box;

    if (!box_start(&box))
        return;
    proc_shell(&box, &proc, "i=0; while [ $i -lt 300 ]; do mkdir d && cd d; i=$((i+1)); done",
               NULL);
    BOX_UNTIL(&box, 10000, proc_is_over(&proc));
    ASK(&box, &ask,
        cf_link_manifest(box.link, box.ns.folder, 100000, ask_bytes, ask_done, &ask, &err_));
    ck_assert_int_eq(ask.status, 0);
    ck_assert(json_is_true(json_object_get(ask.answer, "truncated")));
    ck_assert_int_ge(json_integer_value(json_object_get(ask.answer, "entries")), 128);
    ask_release(&ask);
    proc_release(&proc);
    box_stop(&box);
}
END_TEST

START_TEST(files_past_the_limit_raise_the_disk_event_once)
{
    const char *folders[] = {NULL, NULL};
    struct ask ask = {0};
    struct proc proc;
    struct box box;

    if (!box_start(&box))
        return;
    folders[0] = box.ns.folder;
    ASK(&box, &ask, cf_link_disk_watch(box.link, 4u << 20, folders, ask_done, &ask, &err_));
    ck_assert_msg(ask.status == 0, "%s", ask.err.text);
    proc_shell(
        &box, &proc,
        "head -c 3000000 /dev/urandom > a; sleep 4; head -c 3000000 /dev/urandom > b; sleep 9",
        NULL);
    box_turns(&box, 3500);
    ck_assert_uint_eq(box.disk_used, 0);
    ASK(&box, &ask, cf_link_facts(box.link, ask_done, &ask, &err_));
    ck_assert_int_ge(json_integer_value(json_object_get(ask.answer, "disk_bytes")), 3000000);
    BOX_UNTIL(&box, 6000, box.disk_used > 4u << 20);
    ask_release(&ask);
    proc_release(&proc);
    box_stop(&box);
}
END_TEST

START_TEST(who_fills_the_disk_and_ends_at_once_is_told_all_the_same)
{
    const char *folders[] = {NULL, NULL};
    struct ask ask = {0};
    struct proc proc;
    struct box box;

    if (!box_start(&box))
        return;
    folders[0] = box.ns.folder;
    ASK(&box, &ask, cf_link_disk_watch(box.link, 4u << 20, folders, ask_done, &ask, &err_));
    ck_assert_msg(ask.status == 0, "%s", ask.err.text);
    proc_shell(&box, &proc, "head -c 6000000 /dev/urandom > a", NULL);
    BOX_UNTIL(&box, 8000, proc_is_over(&proc));
    ck_assert_uint_gt(box.disk_used, 4u << 20); /* before its end, not after it */
    ask_release(&ask);
    proc_release(&proc);
    box_stop(&box);
}
END_TEST

START_TEST(what_was_there_before_the_run_is_not_the_runs)
{
    static const char *const folders[] = {"/usr/bin", "/usr/sbin", NULL};
    struct ask ask = {0};
    struct box box;

    if (!box_start(&box))
        return;
    ASK(&box, &ask, cf_link_disk_watch(box.link, 1u << 20, folders, ask_done, &ask, &err_));
    box_turns(&box, 1500);
    ck_assert_uint_eq(box.disk_used, 0);
    ASK(&box, &ask,
        cf_link_disk_watch(box.link, 1, (const char *const[]){"/no/such", NULL}, ask_done,
                           &ask, &err_));
    ck_assert_int_eq(ask.err.code, ENOENT);
    ask_release(&ask);
    box_stop(&box);
}
END_TEST

START_TEST(an_open_file_without_a_name_counts_too)
{
    const char *folders[] = {NULL, NULL};
    struct ask ask = {0};
    struct proc proc;
    struct box box;

    if (!box_start(&box))
        return;
    folders[0] = box.ns.folder;
    ASK(&box, &ask, cf_link_disk_watch(box.link, 4u << 20, folders, ask_done, &ask, &err_));
    proc_shell(&box, &proc,
               "exec 5>hidden; rm hidden; head -c 6000000 /dev/urandom >&5; sleep 9", NULL);
    BOX_UNTIL(&box, 8000, box.disk_used > 4u << 20);
    ck_assert_uint_lt(box.disk_used, 8u << 20); /* once, although several processes hold it */
    ask_release(&ask);
    proc_release(&proc);
    box_stop(&box);
}
END_TEST

UNIT_MAIN("sandbox/link: files",
          tcase_add_test(tc, stat_tells_the_real_path_and_whether_it_may_be_written);
          tcase_add_test(tc, a_file_goes_in_and_comes_out_the_same);
          tcase_add_test(tc, a_file_over_its_limit_is_too_large_by_one_byte);
          tcase_add_test(tc, only_regular_files_beneath_the_root_are_touched);
          tcase_add_test(tc, unlink_takes_the_name_and_not_what_it_points_to);
          tcase_add_test(tc, a_reader_may_give_up_and_the_link_goes_on);
          tcase_add_test(tc, a_full_disk_is_told_as_such);
          tcase_add_test(tc, a_manifest_names_everything_once);
          tcase_add_test(tc, a_tree_too_deep_is_cut_and_says_so);
          tcase_add_test(tc, files_past_the_limit_raise_the_disk_event_once);
          tcase_add_test(tc, who_fills_the_disk_and_ends_at_once_is_told_all_the_same);
          tcase_add_test(tc, what_was_there_before_the_run_is_not_the_runs);
          tcase_add_test(tc, an_open_file_without_a_name_counts_too);)
