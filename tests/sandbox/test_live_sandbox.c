/* Whole sandboxes on a real engine: up, at work, down, and nothing left. */
#include "tests/sandbox/rig.h"

#include <signal.h>
#include <sys/wait.h>
#include <time.h>

START_TEST(a_sandbox_comes_up_works_and_leaves_nothing)
{
    static const char *const changes[] = {"ENV HTTP_PROXY=http://h", "ENV KEEP=1",
                                          "VOLUME /data", NULL};
    struct rig rig;
    struct box box;

    if (!rig_open(&rig, "live"))
        return;
    struct rig_image image = rig_image(&rig, "true", changes);
    struct cf_sandbox_options options = rig_options(&rig, &image, "/bin/busybox");
    box_open(&rig, &box, &options);
    RIG_EXPECT(&rig, box.is_ready || box.is_failed, 20000);
    ck_assert_msg(box.is_ready, "%s", box.err.text);
    ck_assert_str_eq(cf_sandbox_working_directory(box.sandbox), "/workspace");
    ck_assert_ptr_nonnull(cf_sandbox_container_id(box.sandbox));
    json_t *isolation = cf_sandbox_isolation(box.sandbox),
           *limits = cf_sandbox_limits_json(box.sandbox);
    ck_assert_str_eq(cf_json_str(isolation, "network"), "none");
    ck_assert_int_eq(cf_json_int(limits, "pids", 0), 512);
    json_decref(isolation);
    json_decref(limits);
    ck_assert_str_eq(box_run(&box, "pwd; echo $HTTP_PROXY,$NO_PROXY,$KEEP; touch a /data/b && "
                                   "echo ok; ls; ls -A /.cf; cat /proc/1/environ; id -u"),
                     "/workspace\n,127.0.0.1,localhost,1\nok\na\ncf-init\n0\n");
    ck_assert_int_eq(box.exit.code, 0);
    box_close(&box, 3000);
    RIG_EXPECT(&rig, box.is_closed, 20000);
    box_print(&box, "one sandbox, ms");
    ck_assert_uint_eq(json_array_size(box.removed), 2); /* the container and its volume */
    box_end(&box, 3000);
    rig_image_remove(&rig, &image);
    rig_close(&rig);
}
END_TEST

/* ---- what is wrong with the image: each has its own message, and nothing is left ----- */

struct mistake {
    const char *entrypoint, *says, *fix;
};

static void
expect_mistakes(const char *what, const char *script, const char *const *changes,
                const struct mistake *mistakes, size_t count)
{
    struct rig rig;

    if (!rig_open(&rig, what))
        return;
    struct rig_image image = rig_image(&rig, script, changes);
    for (size_t i = 0; i < count; i++) {
        struct box box;
        struct cf_sandbox_options options = rig_options(&rig, &image, mistakes[i].entrypoint);
        box_open(&rig, &box, &options);
        RIG_EXPECT(&rig, box.is_ready || box.is_failed, 20000);
        ck_assert_msg(box.is_failed, "%s came up", mistakes[i].entrypoint);
        ck_assert_msg(strstr(box.err.text, mistakes[i].says) != NULL, "%s: %s",
                      mistakes[i].entrypoint, box.err.text);
        ck_assert_msg(box.err.kind == CF_ERROR_IMAGE, "kind %d: %s", box.err.kind,
                      box.err.text);
        ck_assert_msg(box.err.fix[0] != '\0' && strstr(box.err.fix, mistakes[i].fix) != NULL,
                      "%s: fix: %s", box.err.text, box.err.fix);
        box_end(&box, 3000);
    }
    rig_image_remove(&rig, &image);
    rig_close(&rig);
}

START_TEST(each_mistake_of_the_entrypoint_has_its_message)
{
    static const struct mistake mistakes[] = {
        {"/nope", "entrypoint /nope is not in the image", "COPY"},
        {"/bin/busybox/x", "entrypoint /bin/busybox/x is not in the image", "--entrypoint"},
        {"/bin", "entrypoint /bin is a folder", "program itself"},
        {"/plain", "is not executable (mode 0644)", "chmod 755 /plain"},
        {"/dangling", "not in the image", "COPY"},
        {"/loop", "entrypoint /loop", ""},
        {"/empty", "is an empty file", "COPY"},
        {"/text", "neither an ELF program nor a script", "#!/bin/sh"},
        {"/crlf", "carriage return", "LF"},
        {"/nosh", "is a script for /bin/bash, which is not in the image",
         "install that interpreter"},
        {"/chain", "/nosh is a script for /bin/bash, which is not in the image",
         "install that interpreter"},
        {"/relative", "names no absolute path", "absolute path"},
        {"/arm", "is a program for arm64; this sandbox is", "--platform linux/amd64"},
        {"/dynamic",
         "needs the ELF loader /lib64/ld-linux-x86-64.so.2, which is not in the image",
         "statically"},
        {"/fifo", "neither a file nor a folder", "program itself"},
        {"/viaplain", "may not be executed by the image's user", "chmod 755"},
    };
    static const char script[] =
        "printf x > plain; ln -s /nowhere dangling; ln -s loop2 loop; ln -s loop loop2; : > "
        "empty; chmod 755 empty; "
        "echo hi > text; printf '#!/bin/sh\\r\\necho\\r\\n' > crlf; printf '#!/bin/bash\\n' > "
        "nosh; printf '#!/nosh\\n' > chain; "
        "printf '#!bin/sh\\n' > relative; cp /bin/ls dynamic; mkfifo fifo; printf "
        "'#!/plain\\n' > viaplain; "
        "{ head -c 18 /bin/ls; printf '\\267\\000'; tail -c +21 /bin/ls; } > arm; "
        "chmod 755 text crlf nosh chain relative dynamic arm fifo viaplain";

    expect_mistakes("entrypoint", script, NULL, mistakes, CF_COUNT(mistakes));
}
END_TEST

START_TEST(a_program_that_only_root_may_run_is_told_to_a_user)
{
    static const struct mistake mistakes[] = {
        {"/private",
         "may not be executed by the image's user (uid 1000, gid 1000): it is mode 0700, "
         "owner 0:0",
         "chmod 755 /private"},
        {"/closed/p", "cannot be reached by the image's user", "chmod"},
    };
    static const char *const changes[] = {"USER 1000:1000", NULL};

    expect_mistakes("user",
                    "cp bin/busybox private; chmod 700 private; mkdir -m 700 closed; cp "
                    "bin/busybox closed/p",
                    changes, mistakes, 2);
}
END_TEST

START_TEST(a_user_that_is_not_in_the_image_is_named)
{
    static const struct mistake mistakes[] = {
        {"/bin/busybox", "the image's USER nobody-here could not be used", "1000:1000"}};
    static const char *const changes[] = {"USER nobody-here", NULL};

    expect_mistakes("unknown user", "true", changes, mistakes, 1);
}
END_TEST

START_TEST(working_directories_that_cannot_be_are_told)
{
    static const struct mistake on_tmp[] = {
        {"/bin/busybox", "leads elsewhere", "--working-directory"}};
    static const struct mistake on_file[] = {
        {"/bin/busybox", "is a file in the image, not a folder", "--working-directory"}};
    static const struct mistake below_file[] = {{"/bin/busybox", "working directory", ""}};
    static const struct mistake plain_tmp[] = {
        {"/bin/busybox", "the image's WORKDIR", "--working-directory"}};
    static const char *const link[] = {"WORKDIR /link", NULL},
                             *const file[] = {"WORKDIR /file", NULL},
                             *const below[] = {"WORKDIR /file/sub", NULL},
                             *const tmp[] = {"WORKDIR /tmp/x", NULL};

    expect_mistakes("workdir on tmp", "ln -s /tmp link", link, on_tmp, 1);
    expect_mistakes("workdir a file", "printf x > file", file, on_file, 1);
    expect_mistakes("workdir below a file", "printf x > file", below, below_file, 1);
    expect_mistakes("workdir in tmp", "true", tmp, plain_tmp, 1);
}
END_TEST

/* ---- working directories that are put right ------------------------------------------ */

static void
expect_workdir(const char *script, const char *const *changes, const char *wanted,
               const char *real, const char *facts)
{
    struct rig rig;
    struct box box;
    char line[256];

    if (!rig_open(&rig, "workdir"))
        return;
    struct rig_image image = rig_image(&rig, script, changes);
    struct cf_sandbox_options options = rig_options(&rig, &image, "/bin/sh");
    options.working_directory = wanted;
    box_open(&rig, &box, &options);
    RIG_EXPECT(&rig, box.is_ready || box.is_failed, 20000);
    ck_assert_msg(box.is_ready, "%s", box.err.text);
    ck_assert_str_eq(cf_sandbox_working_directory(box.sandbox), real);
    snprintf(line, sizeof line, "touch new && /bin/busybox stat -c '%%a %%u:%%g' . && ls");
    ck_assert_str_eq(box_run(&box, line), facts);
    box_end(&box, 3000);
    rig_image_remove(&rig, &image);
    rig_close(&rig);
}

START_TEST(the_working_directory_is_made_or_given_to_the_user)
{
    static const char *const user[] = {"USER 1000:1000", NULL},
                             *const named[] = {"USER bob", NULL},
                             *const volume[] = {"USER 1000:1000", "VOLUME /vol", NULL},
                             *const of_image[] = {"USER 1000:1000", "WORKDIR /home/app", NULL};

    expect_workdir("true", NULL, NULL, "/workspace", "755 0:0\nnew\n");
    expect_workdir("true", user, NULL, "/workspace", "755 1000:1000\nnew\n");
    expect_workdir("true", user, "/a/b/c", "/a/b/c", "755 1000:1000\nnew\n");
    expect_workdir("mkdir -m 711 work; printf x > work/old", user, "/work", "/work",
                   "711 1000:1000\nnew\nold\n");
    expect_workdir("mkdir -m 1777 work", user, "/work", "/work", "1777 0:0\nnew\n");
    expect_workdir("mkdir deep; ln -s deep link", user, "/link/er", "/deep/er",
                   "755 1000:1000\nnew\n");
    expect_workdir("mkdir -m 750 deep; ln -s /deep link", user, "/link", "/deep",
                   "750 1000:1000\nnew\n");
    expect_workdir("echo bob:x:55:77::/:/bin/sh > etc/passwd", named, NULL, "/workspace",
                   "755 55:77\nnew\n");
    expect_workdir("mkdir vol", volume, "/vol", "/vol", "755 1000:1000\nnew\n");
    expect_workdir("mkdir vol", volume, "/vol/sub", "/vol/sub", "755 1000:1000\nnew\n");
    expect_workdir("true", of_image, NULL, "/home/app", "755 1000:1000\nnew\n");
}
END_TEST

/* ---- two at once, and closing at any moment ------------------------------------------ */

START_TEST(two_sandboxes_live_side_by_side)
{
    struct rig rig;
    struct box a, b;

    if (!rig_open(&rig, "two"))
        return;
    struct rig_image image = rig_image(&rig, "true", NULL);
    struct cf_sandbox_options options = rig_options(&rig, &image, "/bin/sh");
    box_open(&rig, &a, &options);
    box_open(&rig, &b, &options);
    RIG_EXPECT(&rig, a.is_ready && b.is_ready, 20000);
    box_spawn(&a, "read x; echo a-$x");
    box_spawn(&b, "read x; echo b-$x");
    RIG_EXPECT(&rig, a.has_started && b.has_started, 5000);
    ck_assert_uint_eq(cf_process_write(a.process, "1\n", 2), 2);
    ck_assert_uint_eq(cf_process_write(b.process, "2\n", 2), 2);
    RIG_EXPECT(&rig, a.has_exited && b.has_exited && a.out_ended && b.out_ended, 5000);
    ck_assert_str_eq(a.out.data, "a-1\n");
    ck_assert_str_eq(b.out.data, "b-2\n");
    box_end(&a, 3000);
    ck_assert_str_eq(box_run(&b, "echo still"),
                     "still\n"); /* the sibling's end is not its own */
    box_end(&b, 3000);
    rig_image_remove(&rig, &image);
    rig_close(&rig);
}
END_TEST

START_TEST(closing_in_any_phase_leaves_nothing)
{
    static const char *const phases[] = {"inspect image",
                                         "create volumes",
                                         "create container",
                                         "inspect container",
                                         "put cf-init",
                                         "attach",
                                         "wait",
                                         "start container",
                                         "hello",
                                         "check program",
                                         "working directory"};
    static const char *const changes[] = {"VOLUME /data", "USER 1000", NULL};
    struct rig rig;

    if (!rig_open(&rig, "phases"))
        return;
    struct rig_image image = rig_image(&rig, "true", changes);
    struct cf_sandbox_options options = rig_options(&rig, &image, "/bin/sh");
    for (size_t i = 0; i < CF_COUNT(phases); i++) {
        struct box box;
        box_open(&rig, &box, &options);
        box.stop_at = phases[i];
        RIG_EXPECT(&rig, box.is_closed, 20000);
        ck_assert_msg(!box.is_ready && !box.is_failed, "%s", phases[i]);
        box_end(&box, 2000);
    }
    struct box box; /* before the first turn of the loop, with no grace at all */
    box_open(&rig, &box, &options);
    box_end(&box, 0);
    box_open(&rig, &box, &options);
    RIG_EXPECT(&rig, box.is_ready, 20000);
    box_spawn(&box, "trap '' TERM; (setsid sh -c \"trap '' TERM; sleep 1000\" &) ; while :; "
                    "do sleep 1; done");
    RIG_EXPECT(&rig, box.has_started, 5000);
    box_close(&box, 60000);
    cf_sandbox_close(box.sandbox, 0, box_on_closed, &box); /* a second one is shorter */
    box_end(&box, 0);
    rig_image_remove(&rig, &image);
    rig_close(&rig);
}
END_TEST

/* ---- somebody else's hands ----------------------------------------------------------- */

static void
ask_engine(struct rig *rig, const char *method, const char *fmt, const char *id)
{
    char path[256];

    snprintf(path, sizeof path, fmt, id);
    struct cf_engine_request request = {.method = method, .path = path};
    ck_assert_int_eq(cf_engine_call(rig->live.engine, &request, live_on_done, &rig->live, NULL,
                                    &rig->live.err),
                     0);
    live_wait(&rig->live);
    ck_assert_msg(rig->live.status == 0, "%s", rig->live.err.text);
}

static void
expect_demise(const char *method, const char *path, enum cf_error_kind kind, const char *says)
{
    struct rig rig;
    struct box box;
    char id[80];

    if (!rig_open(&rig, "demise"))
        return;
    struct rig_image image = rig_image(&rig, "true", NULL);
    struct cf_sandbox_options options = rig_options(&rig, &image, "/bin/sh");
    box_open(&rig, &box, &options);
    RIG_EXPECT(&rig, box.is_ready, 20000);
    box_spawn(&box, "sleep 1000");
    RIG_EXPECT(&rig, box.has_started, 5000);
    snprintf(id, sizeof id, "%s", cf_sandbox_container_id(box.sandbox));
    ask_engine(&rig, method, path, id);
    RIG_EXPECT(&rig, box.is_failed, 20000);
    ck_assert_msg(strstr(box.err.text, says) != NULL, "%s", box.err.text);
    ck_assert_msg(box.err.kind == kind, "kind %d: %s", box.err.kind, box.err.text);
    RIG_EXPECT(&rig, box.has_exited, 1000);
    ck_assert(box.exit.lost);
    box_end(&box, 3000);
    rig_image_remove(&rig, &image);
    rig_close(&rig);
}

START_TEST(a_container_removed_by_somebody_is_told)
{
    expect_demise("DELETE", "/containers/%s?force=1", CF_ERROR_ENGINE,
                  "removed by somebody else");
}
END_TEST

START_TEST(a_container_killed_by_somebody_is_told)
{
    expect_demise("POST", "/containers/%s/kill", CF_ERROR_ENGINE,
                  "was killed through the engine by somebody else");
}
END_TEST

START_TEST(a_renamed_container_is_still_ours_to_remove)
{
    struct rig rig;
    struct box box;
    char path[256];

    if (!rig_open(&rig, "rename"))
        return;
    struct rig_image image = rig_image(&rig, "true", NULL);
    struct cf_sandbox_options options = rig_options(&rig, &image, "/bin/sh");
    box_open(&rig, &box, &options);
    RIG_EXPECT(&rig, box.is_ready, 20000);
    snprintf(path, sizeof path, "/containers/%%s/rename?name=renamed-%s", box.run);
    ask_engine(&rig, "POST", path, cf_sandbox_container_id(box.sandbox));
    ck_assert_str_eq(box_run(&box, "echo on"), "on\n");
    box_end(&box, 3000);
    rig_image_remove(&rig, &image);
    rig_close(&rig);
}
END_TEST

START_TEST(a_paused_container_can_be_closed)
{
    struct rig rig;
    struct box box;

    if (!rig_open(&rig, "pause"))
        return;
    struct rig_image image = rig_image(&rig, "true", NULL);
    struct cf_sandbox_options options = rig_options(&rig, &image, "/bin/sh");
    box_open(&rig, &box, &options);
    RIG_EXPECT(&rig, box.is_ready, 20000);
    ask_engine(&rig, "POST", "/containers/%s/pause", cf_sandbox_container_id(box.sandbox));
    box_end(&box, 500);
    rig_image_remove(&rig, &image);
    rig_close(&rig);
}
END_TEST

START_TEST(a_container_paused_for_long_is_told)
{
    struct rig rig;
    struct box box;

    if (getenv("CF_FAULTS") == NULL ||
        !rig_open(&rig, "silence")) /* half a minute of silence */
        return;
    struct rig_image image = rig_image(&rig, "true", NULL);
    struct cf_sandbox_options options = rig_options(&rig, &image, "/bin/sh");
    box_open(&rig, &box, &options);
    RIG_EXPECT(&rig, box.is_ready, 20000);
    ask_engine(&rig, "POST", "/containers/%s/pause", cf_sandbox_container_id(box.sandbox));
    RIG_EXPECT(&rig, box.is_failed, 45000);
    ck_assert_str_eq(box.err.text, "the container was paused by somebody else");
    box_end(&box, 500);
    rig_image_remove(&rig, &image);
    rig_close(&rig);
}
END_TEST

/* ---- a driver that dies -------------------------------------------------------------- */

static void
on_reaped(void *user, int status, json_t *report, const struct cf_error *err)
{
    struct live *live = user;

    live->answers++;
    live->status = status;
    if (status < 0)
        live->err = *err;
    json_decref(live->json);
    live->json = json_incref(report);
}

static json_t *
reap(struct rig *rig, bool dry_run)
{
    ck_assert_int_eq(cf_reap_open(&rig->live.loop, rig->live.engine, rig->owner, false,
                                  dry_run, 20000, on_reaped, &rig->live, &rig->live.err),
                     0);
    live_wait(&rig->live);
    ck_assert_msg(rig->live.status == 0, "%s", rig->live.err.text);
    return rig->live.json;
}

static const char *
state_of(struct rig *rig, const char *id)
{
    ck_assert_int_eq(cf_engine_container_inspect(rig->live.engine, id, live_on_done,
                                                 &rig->live, NULL, &rig->live.err),
                     0);
    live_wait(&rig->live);
    ck_assert_msg(rig->live.status == 0, "%s", rig->live.err.text);
    return cf_json_str(cf_json_obj(rig->live.json, "State"), "Status");
}

static double
wall_clock(void)
{
    struct timespec now;

    clock_gettime(CLOCK_REALTIME, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

/* State.FinishedAt of the container inspected last. */
static double
finished_at(struct rig *rig)
{
    const char *text = cf_json_str(cf_json_obj(rig->live.json, "State"), "FinishedAt");
    struct tm tm = {0};
    double fraction = 0;

    ck_assert_ptr_nonnull(text);
    const char *rest = strptime(text, "%Y-%m-%dT%H:%M:%S", &tm);
    ck_assert_ptr_nonnull(rest);
    if (*rest == '.')
        fraction = strtod(rest, NULL);
    return (double)timegm(&tm) + fraction;
}

/* A driver process of its own that brings a sandbox up, tells its container and run, and
 * stays. */
static pid_t
driver_process(const struct rig *parent, const struct rig_image *image, char id[80],
               char run[40])
{
    int pipes[2];

    ck_assert_int_eq(pipe(pipes), 0);
    fflush(stdout);
    pid_t pid = fork();
    if (pid == 0) {
        struct rig rig;
        struct box box;
        memset(&rig, 0, sizeof rig);
        strcpy(rig.state_dir, parent->state_dir);
        if (live_open_at(&rig.live, NULL) != 0 ||
            cf_owner_open(rig.state_dir, &rig.owner, &rig.live.err) < 0)
            _exit(1);
        struct cf_sandbox_options options = rig_options(&rig, image, "/bin/sh");
        box_open(&rig, &box, &options);
        RIG_UNTIL(&rig, box.is_ready || box.is_failed, 20000);
        if (!box.is_ready)
            _exit(1);
        box_spawn(&box, "trap '' TERM HUP; (setsid sh -c 'while :; do sleep 1; done' &); "
                        "while :; do sleep 1; done");
        RIG_UNTIL(&rig, box.has_started, 5000);
        char line[200];
        snprintf(line, sizeof line, "%s %s\n", cf_sandbox_container_id(box.sandbox), box.run);
        if (write(pipes[1], line, strlen(line)) < 0)
            _exit(1);
        for (;;)
            uv_run(&rig.live.loop, UV_RUN_DEFAULT);
    }
    close(pipes[1]);
    FILE *told = fdopen(pipes[0], "r");
    ck_assert_int_eq(fscanf(told, "%79s %39s", id, run), 2);
    fclose(told);
    return pid;
}

START_TEST(a_killed_driver_leaves_a_stopped_container_that_reap_removes)
{
    static const char *const changes[] = {"VOLUME /data", NULL};
    struct rig rig;
    char id[80], run[40], label[128];

    if (!rig_open(&rig, "kill"))
        return;
    struct rig_image image = rig_image(&rig, "true", changes);
    pid_t pid = driver_process(&rig, &image, id, run);
    ck_assert_uint_eq(json_array_size(json_object_get(reap(&rig, true), "dead")), 0);
    kill(pid, SIGSTOP); /* stopped for a while is not dead */
    usleep(300000);
    ck_assert_uint_eq(json_array_size(json_object_get(reap(&rig, false), "dead")), 0);
    ck_assert_str_eq(state_of(&rig, id), "running");
    kill(pid, SIGCONT);
    ck_assert_int_eq(cf_owner_list(&rig.live.loop, rig.live.engine, rig.owner, 10000,
                                   on_reaped, &rig.live, &rig.live.err),
                     0);
    live_wait(&rig.live);
    ck_assert_uint_eq(json_array_size(rig.live.json), 1);
    ck_assert(cf_json_bool(json_array_get(rig.live.json, 0), "live", false));
    double killed_at = wall_clock();
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
    while (strcmp(state_of(&rig, id), "running") == 0)
        ck_assert(wall_clock() - killed_at < 20);
    double stopped_after =
        finished_at(&rig) - killed_at; /* the engine's word; an inspection may be slow */
    ck_assert_msg(stopped_after < 1, "stopped after %.3f s", stopped_after);
    printf("driver killed -9: container stopped after %.0f ms\n", stopped_after * 1000);
    json_t *report = reap(&rig, true);
    json_t *dead = json_array_get(json_object_get(report, "dead"), 0);
    ck_assert_str_eq(cf_json_str(dead, "run"), run);
    ck_assert_str_eq(cf_json_str(dead, "why"), "nobody holds its lock file");
    ck_assert_uint_eq(json_array_size(json_object_get(dead, "resources")), 2);
    ck_assert_str_eq(state_of(&rig, id), "exited"); /* a dry run removes nothing */
    report = reap(&rig, false);
    ck_assert_uint_eq(json_array_size(json_object_get(report, "removed")), 2);
    ck_assert_uint_eq(json_array_size(json_object_get(report, "left")), 0);
    snprintf(label, sizeof label, CF_LABEL ".run=%s", run);
    rig_audit(&rig, label);
    ck_assert_uint_eq(json_array_size(json_object_get(reap(&rig, false), "dead")), 0);
    rig_image_remove(&rig, &image);
    rig_close(&rig);
}
END_TEST

/* A driver that is killed `delay_us` after the step `at` begins, with nothing of its own left.
 */
static void
driver_killed_at(const struct rig *parent, const struct rig_image *image, const char *at,
                 unsigned delay_us)
{
    fflush(stdout);
    pid_t pid = fork();
    if (pid == 0) {
        struct rig rig;
        struct box box;
        memset(&rig, 0, sizeof rig);
        strcpy(rig.state_dir, parent->state_dir);
        signal(SIGALRM, SIG_DFL); /* check's own handler would kill the whole group */
        if (live_open_at(&rig.live, NULL) != 0 ||
            cf_owner_open(rig.state_dir, &rig.owner, &rig.live.err) < 0)
            _exit(1);
        struct cf_sandbox_options options = rig_options(&rig, image, "/bin/sh");
        box_open(&rig, &box, &options);
        box.die_at = at;
        box.die_after_us = delay_us;
        RIG_UNTIL(&rig, box.is_ready || box.is_failed, 20000);
        box_close(&box, 1000);
        RIG_UNTIL(&rig, box.is_closed, 20000);
        _exit(1); /* never met the step */
    }
    int status;
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    ck_assert_msg(WIFSIGNALED(status), "%s: was not killed but exited %d", at,
                  WEXITSTATUS(status));
}

START_TEST(a_driver_killed_in_any_phase_leaves_nothing_that_reap_does_not_find)
{
    static const char *const phases[] = {"inspect image",
                                         "create volumes",
                                         "create container",
                                         "inspect container",
                                         "put cf-init",
                                         "attach",
                                         "wait",
                                         "start container",
                                         "hello",
                                         "check program",
                                         "working directory",
                                         "stop",
                                         "close stream",
                                         "remove container",
                                         "remove volumes",
                                         "list again"};
    static const unsigned delays_us[] = {1, 4000, 60000};
    static const char *const changes[] = {"VOLUME /data", "USER 1000", NULL};
    struct rig rig;
    char label[128];

    if (!rig_open(&rig, "killed in any phase"))
        return;
    struct rig_image image = rig_image(&rig, "true", changes);
    snprintf(label, sizeof label, CF_LABEL ".owner=%s", cf_owner_id(rig.owner));
    for (size_t i = 0; i < CF_COUNT(phases); i++) {
        for (size_t j = 0; j < (i == 2 || i == 4 || i == 7 ? CF_COUNT(delays_us) : 1); j++) {
            driver_killed_at(&rig, &image, phases[i], delays_us[j]);
            usleep(i == 7 ? 900000 : 300000); /* what was under way in the engine ends */
            json_t *report = reap(&rig, false);
            ck_assert_uint_eq(json_array_size(json_object_get(report, "left")), 0);
            rig_audit(&rig, label);
        }
    }
    rig_image_remove(&rig, &image);
    rig_close(&rig);
}
END_TEST

START_TEST(reap_leaves_alone_what_it_does_not_fully_understand)
{
    struct rig rig;
    char name[64], hex[33], path[128];

    if (!rig_open(&rig, "reap"))
        return;
    struct rig_image image = rig_image(&rig, "true", NULL);
    cf_id_hex(hex);
    snprintf(name, sizeof name, "cf-rig-%s", hex);
    json_t *labels =
        cf_owner_labels(rig.owner, "run_00000000000000000000000000000000", name, 1000);
    json_object_del(labels, CF_LABEL ".process"); /* dead by its deadline, but not whole */
    json_t *spec = json_pack("{s:s, s:[s], s:O}", "Image", image.id, "Entrypoint", "/bin/sh",
                             "Labels", labels);
    ck_assert_int_eq(cf_engine_container_create(rig.live.engine, name, NULL, spec,
                                                live_on_done, &rig.live, NULL, &rig.live.err),
                     0);
    live_wait(&rig.live);
    ck_assert_msg(rig.live.status == 0, "%s", rig.live.err.text);
    ck_assert_uint_eq(json_array_size(json_object_get(reap(&rig, false), "dead")), 0);
    ck_assert_str_eq(state_of(&rig, name), "created");
    snprintf(path, sizeof path, "/containers/%s?force=1", name);
    ask_engine(&rig, "DELETE", "/containers/%s?force=1", name);
    json_decref(labels);
    /* whole labels, but on a container that runs something else under another name: inherited
     */
    labels = cf_owner_labels(rig.owner, "run_00000000000000000000000000000000", "another-name",
                             1000);
    json_object_set(spec, "Labels", labels);
    ck_assert_int_eq(cf_engine_container_create(rig.live.engine, name, NULL, spec,
                                                live_on_done, &rig.live, NULL, &rig.live.err),
                     0);
    live_wait(&rig.live);
    ck_assert_uint_eq(json_array_size(json_object_get(reap(&rig, false), "dead")), 0);
    ck_assert_str_eq(state_of(&rig, name), "created");
    ask_engine(&rig, "DELETE", "/containers/%s?force=1", name);
    json_decref(labels);
    json_decref(spec);
    rig_image_remove(&rig, &image);
    rig_close(&rig);
}
END_TEST

UNIT_MAIN("sandbox/live", {
    tcase_set_timeout(tc, 240);
    tcase_add_test(tc, a_sandbox_comes_up_works_and_leaves_nothing);
    tcase_add_test(tc, each_mistake_of_the_entrypoint_has_its_message);
    tcase_add_test(tc, a_program_that_only_root_may_run_is_told_to_a_user);
    tcase_add_test(tc, a_user_that_is_not_in_the_image_is_named);
    tcase_add_test(tc, working_directories_that_cannot_be_are_told);
    tcase_add_test(tc, the_working_directory_is_made_or_given_to_the_user);
    tcase_add_test(tc, two_sandboxes_live_side_by_side);
    tcase_add_test(tc, closing_in_any_phase_leaves_nothing);
    tcase_add_test(tc, a_container_removed_by_somebody_is_told);
    tcase_add_test(tc, a_container_killed_by_somebody_is_told);
    tcase_add_test(tc, a_renamed_container_is_still_ours_to_remove);
    tcase_add_test(tc, a_paused_container_can_be_closed);
    tcase_add_test(tc, a_container_paused_for_long_is_told);
    tcase_add_test(tc, a_killed_driver_leaves_a_stopped_container_that_reap_removes);
    tcase_add_test(tc, a_driver_killed_in_any_phase_leaves_nothing_that_reap_does_not_find);
    tcase_add_test(tc, reap_leaves_alone_what_it_does_not_fully_understand);
})
