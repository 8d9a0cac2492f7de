/* sandbox/link with a real cf-init: processes, from the ways they fail to start to their end.
 */
#include "tests/support/unit.h"
#include "tests/support/link_ns.h"

START_TEST(hello_tells_who_it_is)
{
    const struct cf_hello *hello;
    struct box box;

    if (!box_start(&box))
        return;
    hello = cf_link_hello(box.link);
    ck_assert_uint_eq(hello->uid, NS_UID);
    ck_assert_uint_eq(hello->gid, NS_UID);
    ck_assert_int_eq(hello->protocol, 1);
    ck_assert_uint_eq(hello->ports[0], 4180);
    ck_assert_uint_eq(hello->ports[1], 4181);
    ck_assert_uint_eq(hello->ports[2], 0);
    ck_assert(strcmp(hello->cgroup, "v1") == 0 || strcmp(hello->cgroup, "v2") == 0);
    ck_assert_str_ne(hello->arch, "");
    box_stop(&box);
}
END_TEST

START_TEST(a_process_echoes_and_its_exit_is_told)
{
    struct proc proc;
    struct box box;

    if (!box_start(&box))
        return;
    proc_shell(&box, &proc, "cat; echo oops >&2; exit 3", "hello\n");
    BOX_UNTIL(&box, 5000, proc_is_over(&proc));
    ck_assert(proc.is_started);
    ck_assert_str_eq(proc.out.data, "hello\n");
    ck_assert_str_eq(proc.err.data, "oops\n");
    ck_assert_int_eq(proc.exit.code, 3);
    ck_assert_int_eq(proc.exit.signal, 0);
    ck_assert_uint_gt(proc.exit.max_rss_bytes, 0);
    ck_assert(!proc.exit.lost);
    proc_release(&proc);
    box_stop(&box);
}
END_TEST

START_TEST(without_stdin_a_process_reads_its_end_at_once)
{
    struct proc proc;
    struct box box;

    if (!box_start(&box))
        return;
    proc_shell(&box, &proc, "cat && echo over", NULL);
    BOX_UNTIL(&box, 5000, proc_is_over(&proc));
    ck_assert_str_eq(proc.out.data, "over\n");
    proc_release(&proc);
    box_stop(&box);
}
END_TEST

START_TEST(a_signal_that_ends_a_process_is_told_with_its_number)
{
    struct proc proc;
    struct box box;

    if (!box_start(&box))
        return;
    proc_shell(&box, &proc, "kill -SEGV $$", NULL);
    BOX_UNTIL(&box, 5000, proc_is_over(&proc));
    ck_assert_int_eq(proc.exit.code, -1);
    ck_assert_int_eq(proc.exit.signal, SIGSEGV);
    proc_release(&proc);
    box_stop(&box);
}
END_TEST

START_TEST(a_process_finds_the_environment_limits_and_session_it_should)
{
    const char *const env[] = {"FROM_DRIVER=one", "FROM_IMAGE=changed", NULL};
    const char *const argv[] = {
        "/bin/sh", "-c",
        "echo $FROM_DRIVER $FROM_IMAGE $HOME; env | grep -i proxy | sort; "
        "cat /proc/self/oom_score_adj; ulimit -n; ulimit -c; pwd; umask; "
        "ls /proc/self/fd | wc -l; awk '{print ($1 == $6) ? \"leader\" : \"member\"}' "
        "/proc/$$/stat; cat /proc/self/status | grep -E '^(SigIgn|SigBlk)'",
        NULL};
    struct cf_spawn spawn = {.argv = argv, .env = env, .nofile = 321};
    char want[512];
    struct proc proc;
    struct box box;

    if (!box_start(&box))
        return;
    spawn.cwd = box.ns.folder;
    proc_spawn(&box, &proc, &spawn);
    BOX_UNTIL(&box, 5000, proc_is_over(&proc));
    snprintf(want, sizeof want,
             "one changed "
             "/tmp\nNO_PROXY=127.0.0.1,localhost\nno_proxy=127.0.0.1,"
             "localhost\n1000\n321\n0\n%s\n0022\n"
             "4\nleader\nSigBlk:\t0000000000000000\nSigIgn:\t0000000000000000\n",
             box.ns.folder);
    ck_assert_str_eq(proc.out.data, want);
    proc_release(&proc);
    box_stop(&box);
}
END_TEST

/* ---- the ways a start fails --------------------------------------------------------- */

static void
make_file(const struct box *box, const char *name, const void *bytes, size_t len, mode_t mode)
{
    char path[128];
    int fd;

    snprintf(path, sizeof path, "%s/%s", box->ns.folder, name);
    fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0755);
    ck_assert_int_eq(write(fd, bytes, len), (ssize_t)len);
    fchmod(fd, mode);
    close(fd);
}

static void
expect_failure(struct box *box, const char *program, const char *cwd, const char *phase,
               int error, const char *word)
{
    char path[128];
    const char *argv[] = {path, NULL};
    struct cf_spawn spawn = {.argv = argv, .cwd = cwd};
    struct proc proc;

    snprintf(path, sizeof path, "%s%s", program[0] == '/' ? "" : "./", program);
    if (program[0] != '/')
        snprintf(path, sizeof path, "%s/%s", box->ns.folder, program);
    proc_spawn(box, &proc, &spawn);
    BOX_UNTIL(box, 5000, proc.has_failed || proc.is_started);
    ck_assert_msg(proc.has_failed, "%s started", program);
    ck_assert_str_eq(proc.why.phase, phase);
    ck_assert_msg(proc.why.error == error, "%s: %s", program, strerror(proc.why.error));
    ck_assert_msg(strstr(proc.why.detail, word) != NULL, "%s: '%s' does not say '%s'", program,
                  proc.why.detail, word);
    box_turns(box, 30);
    ck_assert(!proc.has_exited && !proc.is_out_over && !proc.is_err_over);
    proc_release(&proc);
}

START_TEST(each_way_a_start_fails_has_its_errno_its_phase_and_its_reason)
{
    unsigned char elf[64] = {0x7f, 'E', 'L', 'F', 2, 1, 1};
    struct box box;

    if (!box_start(&box))
        return;
    elf[16] = 2;
    elf[18] = 183; /* aarch64 */
    make_file(&box, "text", "echo hi\n", 8, 0755);
    make_file(&box, "empty", "", 0, 0755);
    make_file(&box, "arm", elf, sizeof elf, 0755);
    make_file(&box, "script", "#!/no/such/interpreter -x\n", 26, 0755);
    make_file(&box, "dos", "#!/bin/sh\r\n", 11, 0755);
    make_file(&box, "plain", "#!/bin/sh\n", 10, 0644);
    expect_failure(&box, "absent", "/", "exec", ENOENT, "no such file");
    expect_failure(&box, "text", "/", "exec", ENOEXEC, "neither ELF nor a script");
    expect_failure(&box, "empty", "/", "exec", ENOEXEC, "empty");
    expect_failure(&box, "arm", "/", "exec", ENOEXEC, "ELF for aarch64");
    expect_failure(&box, "script", "/", "exec", ENOENT, "interpreter /no/such/interpreter");
    expect_failure(&box, "dos", "/", "exec", ENOENT, "carriage return");
    expect_failure(&box, "plain", "/", "exec", EACCES, "not executable");
    expect_failure(&box, "/usr", "/", "exec", EACCES, "folder");
    expect_failure(&box, "plain/x", "/", "exec", ENOTDIR, "not a folder");
    expect_failure(&box, "/bin/true", "/no/such/folder", "chdir", ENOENT, "/no/such/folder");
    expect_failure(&box, "/bin/true", "/bin/true", "chdir", ENOTDIR, "/bin/true");
    expect_failure(&box, "/bin/true", "/root", "chdir", EACCES, "/root");
    box_stop(&box);
}
END_TEST

START_TEST(what_the_kernel_would_not_take_is_refused_here_or_told)
{
    static char longest[131072 + 1], big[2200001];
    const char *argv[32] = {"/bin/true", longest, NULL};
    struct cf_spawn spawn = {.argv = argv};
    struct cf_process *process;
    struct proc proc;
    struct cf_error err;
    struct box box;

    if (!box_start(&box))
        return;
    memset(longest, 'x', 131072);
    ck_assert_int_eq(cf_process_spawn(box.link, &spawn, &proc_events, &proc, &process, &err),
                     -1);
    ck_assert_int_eq(err.kind, CF_ERROR_TOO_LARGE);
    ck_assert_ptr_nonnull(strstr(err.text, "131071"));
    longest[131071] = '\0';
    proc_spawn(&box, &proc, &spawn);
    BOX_UNTIL(&box, 5000, proc_is_over(&proc));
    ck_assert_int_eq(proc.exit.code, 0);
    proc_release(&proc);

    memset(big, 'y', sizeof big - 1);
    for (int i = 1; i < 18; i++)
        argv[i] = longest; /* 2.2 MB, more than a quarter of the stack */
    proc_spawn(&box, &proc, &spawn);
    BOX_UNTIL(&box, 5000, proc.has_failed);
    ck_assert_int_eq(proc.why.error, E2BIG);
    proc_release(&proc);
    for (int i = 1; i < 25; i++)
        argv[i] = longest;
    ck_assert_int_eq(cf_process_spawn(box.link, &spawn, &proc_events, &proc, &process, &err),
                     -1);
    ck_assert_int_eq(err.kind, CF_ERROR_TOO_LARGE);
    argv[1] = "\xff\xfe";
    argv[2] = NULL;
    ck_assert_int_eq(cf_process_spawn(box.link, &spawn, &proc_events, &proc, &process, &err),
                     -1);
    ck_assert_int_eq(err.kind, CF_ERROR_CONFIG);
    argv[0] = "relative";
    ck_assert_int_eq(cf_process_spawn(box.link, &spawn, &proc_events, &proc, &process, &err),
                     -1);
    box_stop(&box);
}
END_TEST

/* ---- streams ------------------------------------------------------------------------ */

START_TEST(eight_mebibytes_go_round_and_the_half_close_comes_back)
{
    const char *const argv[] = {"/bin/cat", NULL};
    struct cf_spawn spawn = {.argv = argv, .with_stdin = true};
    size_t len = 8u << 20;
    char *bytes = malloc(len);
    uint32_t sum = 0;
    struct proc proc;
    struct box box;

    if (!box_start(&box))
        return;
    for (size_t i = 0; i < len; i++) {
        bytes[i] = (char)(i * 2654435761u >> 24);
        sum = sum * 31 + (unsigned char)bytes[i];
    }
    proc_spawn(&box, &proc, &spawn);
    proc.is_quiet = true;
    proc.input = bytes;
    proc.input_len = len;
    proc_write(&proc);
    BOX_UNTIL(&box, 20000, proc_is_over(&proc));
    ck_assert_uint_eq(proc.out_bytes, len);
    ck_assert_uint_eq(proc.out_sum, sum);
    ck_assert_int_eq(proc.exit.code, 0);
    proc_release(&proc);
    free(bytes);
    box_stop(&box);
}
END_TEST

START_TEST(a_stalled_consumer_stops_its_own_stream_and_nothing_else)
{
    struct proc stalled, flood, echo;
    struct box box;
    size_t before;

    if (!box_start(&box))
        return;
    proc_shell(&box, &stalled, "head -c 20000000 /dev/zero", NULL);
    stalled.is_quiet = true;
    stalled.pause_after = 1;
    BOX_UNTIL(&box, 10000, stalled.out_bytes >= 512 * 1024);
    box_turns(&box, 200);
    before = stalled.out_bytes;
    ck_assert_uint_eq(before, 512 * 1024); /* its credit, and not a byte more */
    proc_shell(&box, &flood, "head -c 20000000 /dev/zero", NULL);
    flood.is_quiet = true;
    proc_shell(&box, &echo, "cat", "still here");
    BOX_UNTIL(&box, 10000, proc_is_over(&flood) && proc_is_over(&echo));
    ck_assert_uint_eq(flood.out_bytes, 20000000);
    ck_assert_str_eq(echo.out.data, "still here");
    ck_assert_uint_eq(stalled.out_bytes, before);
    ck_assert(!stalled.has_exited);
    stalled.pause_after = 0;
    cf_process_resume(stalled.process);
    BOX_UNTIL(&box, 10000, proc_is_over(&stalled));
    ck_assert_uint_eq(stalled.out_bytes, 20000000);
    proc_release(&stalled);
    proc_release(&flood);
    proc_release(&echo);
    box_stop(&box);
}
END_TEST

START_TEST(input_nobody_reads_waits_within_its_credit_and_control_still_answers)
{
    const char *const argv[] = {"/bin/sleep", "100", NULL};
    struct cf_spawn spawn = {.argv = argv, .with_stdin = true};
    static char zeros[4u << 20];
    struct ask ask = {0};
    struct proc proc;
    struct box box;

    if (!box_start(&box))
        return;
    proc_spawn(&box, &proc, &spawn);
    proc.input = zeros;
    proc.input_len = sizeof zeros;
    proc_write(&proc);
    BOX_UNTIL(&box, 10000, proc.input_at >= 512 * 1024);
    box_turns(&box, 200);
    ck_assert_uint_le(proc.input_at, 1024 * 1024 + 65536); /* credit and the pipe */
    ASK(&box, &ask, cf_link_facts(box.link, ask_done, &ask, &err_));
    ck_assert_int_eq(ask.status, 0);
    ck_assert_int_eq(json_integer_value(json_object_get(ask.answer, "processes")), 1);
    cf_process_signal(proc.process, SIGTERM);
    BOX_UNTIL(&box, 5000, proc_is_over(&proc) && proc.is_stdin_closed);
    ck_assert_int_eq(proc.exit.signal, SIGTERM);
    ask_release(&ask);
    proc_release(&proc);
    box_stop(&box);
}
END_TEST

START_TEST(closing_stdin_by_the_reader_is_told)
{
    struct proc proc;
    struct box box;

    if (!box_start(&box))
        return;
    proc_shell(&box, &proc, "exec 0<&-; echo closed; sleep 100", "");
    proc.input_len = 1; /* nothing was half-closed yet */
    BOX_UNTIL(&box, 5000, proc.is_started);
    box_stop(&box);
    proc.process = NULL; /* went with the link */
    proc_release(&proc);

    ck_assert(box_start(&box));
    {
        const char *const argv[] = {"/bin/sh", "-c", "exec 0<&-; echo closed; sleep 100",
                                    NULL};
        struct cf_spawn spawn = {.argv = argv, .with_stdin = true};

        proc_spawn(&box, &proc, &spawn);
        BOX_UNTIL(&box, 5000, proc.is_stdin_closed);
        ck_assert_uint_eq(cf_process_write(proc.process, "x", 1), 0);
    }
    proc_release(&proc);
    box_stop(&box);
}
END_TEST

START_TEST(a_forgotten_process_lives_on_and_its_output_is_thrown_away)
{
    struct ask ask = {0};
    struct proc proc, other;
    char path[128];
    struct box box;

    if (!box_start(&box))
        return;
    proc_shell(&box, &proc, "head -c 3000000 /dev/zero; echo done > finished", NULL);
    proc.pause_after = 1;
    proc.is_quiet = true;
    BOX_UNTIL(&box, 5000, proc.out_bytes > 0);
    proc_release(&proc);
    snprintf(path, sizeof path, "%s/finished", box.ns.folder);
    BOX_UNTIL(&box, 5000, access(path, F_OK) == 0);
    ASK(&box, &ask, cf_link_facts(box.link, ask_done, &ask, &err_));
    proc_shell(&box, &other, "echo next", NULL);
    BOX_UNTIL(&box, 5000, proc_is_over(&other));
    ck_assert_str_eq(other.out.data, "next\n");
    ask_release(&ask);
    proc_release(&other);
    box_stop(&box);
}
END_TEST

/* ---- trees, signals, the end -------------------------------------------------------- */

START_TEST(orphans_are_reaped_and_counted)
{
    struct proc proc;
    struct box box;

    if (!box_start(&box))
        return;
    proc_shell(&box, &proc, "i=0; while [ $i -lt 20 ]; do (true & ) ; i=$((i+1)); done", NULL);
    BOX_UNTIL(&box, 5000, proc_is_over(&proc) && box.orphans == 20);
    proc_release(&proc);
    box_stop(&box);
}
END_TEST

START_TEST(a_session_signal_spares_what_left_the_session_and_all_reaches_it)
{
    struct proc proc;
    struct ask ask = {0};
    struct box box;

    if (!box_start(&box))
        return;
    proc_shell(&box, &proc, "setsid sleep 100 & sleep 100 & echo ready; wait", NULL);
    BOX_UNTIL(&box, 5000, proc.out.len == 6);
    box_turns(&box, 100); /* setsid has happened */
    cf_process_signal(proc.process, SIGKILL);
    BOX_UNTIL(&box, 5000, proc.has_exited);
    ck_assert_int_eq(proc.exit.signal, SIGKILL);
    box_turns(&box, 100);
    ck_assert(!proc.is_out_over); /* the one that left holds it open */
    ck_assert_uint_eq(box.orphans, 1);
    ASK(&box, &ask, cf_link_signal_all(box.link, SIGKILL, ask_done, &ask, &err_));
    BOX_UNTIL(&box, 5000, proc.is_out_over && box.orphans == 2);
    ask_release(&ask);
    proc_release(&proc);
    box_stop(&box);
}
END_TEST

START_TEST(shutdown_ends_everything_says_bye_and_exits_with_zero)
{
    struct proc proc;
    struct cf_error err;
    struct box box;

    if (!box_start(&box))
        return;
    proc_shell(&box, &proc,
               "trap '' TERM HUP INT; for i in 1 2 3 4 5; do (setsid sh -c \"trap '' TERM; "
               "sleep 100\" &); done; "
               "sleep 100 & kill -STOP $!; echo ready; while :; do sleep 1; done",
               NULL);
    BOX_UNTIL(&box, 5000, proc.out.len == 6);
    ck_assert_int_eq(cf_link_shutdown(box.link, &err), 0);
    BOX_UNTIL(&box, 3000, box.has_ended);
    ck_assert(cf_link_saw_bye(box.link));
    ck_assert(proc.has_exited && !proc.exit.lost);
    ck_assert_int_eq(proc.exit.signal, SIGKILL);
    ck_assert_int_eq(ns_wait(&box.ns, 2000), 0);
    ck_assert_int_eq(cf_link_shutdown(box.link, &err), -1);
    proc_release(&proc);
    box_stop(&box);
}
END_TEST

START_TEST(shutdown_ends_a_fork_bomb_at_its_limit)
{
    struct proc bomb, late;
    struct cf_error err;
    struct ask ask = {0};
    struct box box;

    if (!box_start(&box))
        return;
    proc_shell(&box, &bomb,
               "f() { setsid sh -c 'sleep 100' & f & f & }; f 2>/dev/null; echo lit; wait",
               NULL);
    box_turns(&box, 1500);
    ASK(&box, &ask, cf_link_facts(box.link, ask_done, &ask, &err_));
    proc_shell(&box, &late, "true", NULL);
    BOX_UNTIL(&box, 10000, late.has_failed || late.has_exited);
    if (late.has_failed) {
        ck_assert_str_eq(late.why.phase, "fork");
        ck_assert_int_eq(late.why.error, EAGAIN);
    }
    ck_assert_int_eq(cf_link_shutdown(box.link, &err), 0);
    BOX_UNTIL(&box, 5000, box.has_ended);
    ck_assert(cf_link_saw_bye(box.link));
    ck_assert_int_eq(ns_wait(&box.ns, 2000), 0);
    ask_release(&ask);
    proc_release(&bomb);
    proc_release(&late);
    box_stop(&box);
}
END_TEST

START_TEST(when_pid_1_is_gone_everything_open_is_lost_once)
{
    struct proc proc;
    struct ask ask = {0};
    struct cf_error err;
    struct box box;

    if (!box_start(&box))
        return;
    proc_shell(&box, &proc, "sleep 100", NULL);
    BOX_UNTIL(&box, 5000, proc.is_started);
    kill(box.ns.pid, SIGSTOP);
    ck_assert_int_eq(cf_link_facts(box.link, ask_done, &ask, &err), 0);
    box_turns(&box, 50);
    kill(box.ns.pid, SIGKILL);
    BOX_UNTIL(&box, 5000, box.has_ended);
    ck_assert(proc.has_exited && proc.exit.lost);
    ck_assert(ask.is_answered);
    ck_assert_int_eq(ask.status, -1);
    ck_assert(!cf_link_saw_bye(box.link));
    ask_release(&ask);
    proc_release(&proc);
    box_stop(&box);
}
END_TEST

static long
resident_kib(pid_t pid)
{
    char path[64], line[128];
    long kib = 0;
    FILE *file;

    snprintf(path, sizeof path, "/proc/%d/status", pid);
    file = fopen(path, "r");
    while (file != NULL && fgets(line, sizeof line, file) != NULL)
        sscanf(line, "VmRSS: %ld", &kib);
    if (file != NULL)
        fclose(file);
    return kib;
}

START_TEST(three_hundred_processes_leave_nothing_in_pid_1)
{
    const char *const argv[] = {"/bin/echo", "x", NULL};
    struct cf_spawn spawn = {.argv = argv, .with_stdin = true};
    struct proc procs[10];
    struct ask ask = {0};
    long before = 0;
    struct box box;

    if (!box_start(&box))
        return;
    for (int round = 0; round < 30; round++) {
        for (int i = 0; i < 10; i++)
            proc_spawn(&box, &procs[i], &spawn);
        for (int i = 0; i < 10; i++) {
            cf_process_close_stdin(procs[i].process);
            BOX_UNTIL(&box, 60000, proc_is_over(&procs[i]));
            proc_release(&procs[i]);
        }
        before = round == 10 ? resident_kib(box.ns.pid) : before;
    }
    ASK(&box, &ask, cf_link_facts(box.link, ask_done, &ask, &err_));
    ck_assert_int_eq(json_integer_value(json_object_get(ask.answer, "channels")), 0);
    ck_assert_int_eq(json_integer_value(json_object_get(ask.answer, "processes")), 0);
    if (!ns_is_sanitized()) /* which keeps what was freed */
        ck_assert_int_le(resident_kib(box.ns.pid), before + 64);
    ask_release(&ask);
    box_stop(&box);
}
END_TEST

START_TEST(two_hundred_requests_at_once_wait_their_turn)
{
    static struct ask asks[200];
    struct cf_error err;
    struct box box;
    int answered = 0;

    if (!box_start(&box))
        return;
    for (int i = 0; i < 200; i++)
        ck_assert_int_eq(cf_link_facts(box.link, ask_done, &asks[i], &err), 0);
    cf_link_ping(box.link);
    BOX_UNTIL(&box, 5000, cf_link_pongs(box.link) == 1);
    BOX_UNTIL(&box, 5000, asks[199].is_answered);
    for (int i = 0; i < 200; i++) {
        answered += asks[i].is_answered && asks[i].status == 0;
        ask_release(&asks[i]);
    }
    ck_assert_int_eq(answered, 200);
    box_stop(&box);
}
END_TEST

UNIT_MAIN("sandbox/link: processes", tcase_add_test(tc, hello_tells_who_it_is);
          tcase_add_test(tc, a_process_echoes_and_its_exit_is_told);
          tcase_add_test(tc, without_stdin_a_process_reads_its_end_at_once);
          tcase_add_test(tc, a_signal_that_ends_a_process_is_told_with_its_number);
          tcase_add_test(tc, a_process_finds_the_environment_limits_and_session_it_should);
          tcase_add_test(tc, each_way_a_start_fails_has_its_errno_its_phase_and_its_reason);
          tcase_add_test(tc, what_the_kernel_would_not_take_is_refused_here_or_told);
          tcase_add_test(tc, eight_mebibytes_go_round_and_the_half_close_comes_back);
          tcase_add_test(tc, a_stalled_consumer_stops_its_own_stream_and_nothing_else);
          tcase_add_test(tc,
                         input_nobody_reads_waits_within_its_credit_and_control_still_answers);
          tcase_add_test(tc, closing_stdin_by_the_reader_is_told);
          tcase_add_test(tc, a_forgotten_process_lives_on_and_its_output_is_thrown_away);
          tcase_add_test(tc, orphans_are_reaped_and_counted);
          tcase_add_test(tc, a_session_signal_spares_what_left_the_session_and_all_reaches_it);
          tcase_add_test(tc, shutdown_ends_everything_says_bye_and_exits_with_zero);
          tcase_add_test(tc, shutdown_ends_a_fork_bomb_at_its_limit);
          tcase_add_test(tc, when_pid_1_is_gone_everything_open_is_lost_once);
          tcase_add_test(tc, three_hundred_processes_leave_nothing_in_pid_1);
          tcase_add_test(tc, two_hundred_requests_at_once_wait_their_turn);)
