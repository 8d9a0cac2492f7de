/* rig.h: a real engine, a state folder of its own, small images, and sandboxes in them. */
#ifndef CF_TESTS_SANDBOX_RIG_H
#define CF_TESTS_SANDBOX_RIG_H

#include "base/clock.h"
#include "base/str.h"
#include "json/json.h"
#include "sandbox/owner.h"
#include "sandbox/sandbox.h"
#include "tests/engine/live.h"
#include "tests/support/unit.h"

#include <sys/time.h>

extern const char _binary_cf_init_start[], _binary_cf_init_end[];

#define RIG_LABEL "cfrunner.test.sandbox"
#define RIG_STEPS 64

struct rig {
    struct live live;
    struct cf_owner *owner;
    char state_dir[64];
};

struct rig_image {
    char tag[96], id[96];
};

struct box {
    struct rig *rig;
    struct cf_sandbox *sandbox;
    char run[40];
    struct cf_sandbox_options options;
    bool is_ready, is_failed, is_closed, is_proven;
    struct cf_error err;
    json_t *removed, *left;
    uint64_t took_ms;
    /* steps as they came */
    const char *stop_at; /* close when this step begins */
    const char *die_at;  /* be killed so long after this one begins */
    unsigned die_after_us;
    struct {
        const char *name;
        uint64_t ms;
    } steps[RIG_STEPS];
    size_t step_count;
    uint64_t opened_us, ready_us, closing_us;
    /* one process */
    struct cf_process *process;
    struct cf_buf out, err_out;
    bool has_started, has_exited, out_ended, err_ended, start_failed;
    struct cf_exit exit;
    struct cf_start_failure failure;
};

#define RIG_UNTIL(rig, condition, ms)                  \
    do {                                               \
        uint64_t until_ = cf_clock_ms() + (ms);        \
        rig_arm(rig);                                  \
        while (!(condition) && cf_clock_ms() < until_) \
            uv_run(&(rig)->live.loop, UV_RUN_ONCE);    \
        rig_disarm(rig);                               \
    } while (0)
#define RIG_EXPECT(rig, condition, ms)                                           \
    do {                                                                         \
        RIG_UNTIL(rig, condition, ms);                                           \
        ck_assert_msg(condition, "not within %d ms: %s", (int)(ms), #condition); \
    } while (0)

static uv_timer_t rig_tick;
static inline void
rig_on_tick(uv_timer_t *timer)
{
    (void)timer;
}
static inline void
rig_on_tick_closed(uv_handle_t *handle)
{
    handle->data = NULL;
}
static inline void
rig_arm(struct rig *rig)
{
    uv_timer_init(&rig->live.loop, &rig_tick);
    rig_tick.data = rig;
    uv_timer_start(&rig_tick, rig_on_tick, 10, 10);
}
static inline void
rig_disarm(struct rig *rig)
{
    uv_close((uv_handle_t *)&rig_tick, rig_on_tick_closed);
    while (rig_tick.data != NULL)
        uv_run(&rig->live.loop, UV_RUN_NOWAIT);
}

static inline bool
rig_open(struct rig *rig, const char *what)
{
    memset(rig, 0, sizeof *rig);
    if (!live_open(&rig->live, what))
        return false;
    strcpy(rig->state_dir, "/tmp/cf-rig-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(rig->state_dir));
    ck_assert_msg(cf_owner_open(rig->state_dir, &rig->owner, &rig->live.err) == 0, "%s",
                  rig->live.err.text);
    return true;
}

static inline void
rig_close(struct rig *rig)
{
    cf_owner_close(rig->owner);
    live_close(&rig->live);
    live_remove_dir(rig->state_dir);
}

/* ---- images: a root made by shell lines, imported with Dockerfile instructions ------- */

/* Podman does not apply the name: the id in the answer names the image. */
static char rig_imported[96];
static inline void
rig_on_import(void *user, json_t *object)
{
    const char *status = cf_json_str(object, "status");

    (void)user;
    if (status != NULL)
        snprintf(rig_imported, sizeof rig_imported, "%s", status);
}

static inline struct rig_image
rig_image(struct rig *rig, const char *script, const char *const *changes)
{
    struct rig_image image = {{0}, {0}};
    struct cf_buf path = {0}, tar = {0};
    char dir[] = "/tmp/cf-rig-root-XXXXXX", hex[33], command[4096], chunk[65536];
    size_t n;

    ck_assert_ptr_nonnull(mkdtemp(dir));
    snprintf(command, sizeof command,
             "set -e; cd %s; mkdir bin tmp etc; cp /bin/busybox bin/; ln -s busybox bin/sh; "
             "%s; tar -cf - .",
             dir, script);
    FILE *pipe = popen(command, "r");
    while ((n = fread(chunk, 1, sizeof chunk, pipe)) > 0)
        cf_buf_add(&tar, chunk, n);
    ck_assert_int_eq(pclose(pipe), 0);
    live_remove_dir(dir);
    cf_id_hex(hex);
    snprintf(image.tag, sizeof image.tag, "cf-rig-%s:t", hex);
    cf_buf_adds(&path, "/images/create?fromSrc=-");
    cf_engine_query(&path, "repo", "cf-rig-");
    cf_buf_adds(&path, hex);
    cf_engine_query(&path, "tag", "t");
    cf_engine_query(&path, "changes", "LABEL " RIG_LABEL "=1");
    for (; changes != NULL && *changes != NULL; changes++)
        cf_engine_query(&path, "changes", *changes);
    struct cf_engine_request request = {.method = "POST",
                                        .path = path.data,
                                        .body = tar.data,
                                        .body_len = tar.len,
                                        .on_object = rig_on_import};
    ck_assert_int_eq(cf_engine_call(rig->live.engine, &request, live_on_done, &rig->live, NULL,
                                    &rig->live.err),
                     0);
    live_wait(&rig->live);
    ck_assert_msg(rig->live.status == 0, "%s", rig->live.err.text);
    ck_assert_int_eq(cf_engine_image_inspect(rig->live.engine, rig_imported, live_on_done,
                                             &rig->live, NULL, &rig->live.err),
                     0);
    live_wait(&rig->live);
    ck_assert_msg(rig->live.status == 0, "%s", rig->live.err.text);
    snprintf(image.id, sizeof image.id, "%s", cf_json_str(rig->live.json, "Id"));
    if (json_array_size(json_object_get(rig->live.json, "RepoTags")) == 0)
        snprintf(image.tag, sizeof image.tag, "%s", image.id);
    cf_buf_release(&path);
    cf_buf_release(&tar);
    return image;
}

static inline void
rig_image_remove(struct rig *rig, const struct rig_image *image)
{
    ck_assert_int_eq(cf_engine_image_remove(rig->live.engine, image->tag, true, false,
                                            live_on_done, &rig->live, NULL, &rig->live.err),
                     0);
    live_wait(&rig->live);
    ck_assert_msg(rig->live.status == 0, "%s", rig->live.err.text);
}

/* ---- sandboxes ----------------------------------------------------------------------- */

static inline void box_close(struct box *box, uint64_t grace_ms);

static inline void
box_on_step(void *user, const char *name, uint64_t took_ms)
{
    struct box *box = user;

    if (took_ms == UINT64_MAX) {
        if (box->stop_at != NULL && strcmp(box->stop_at, name) == 0 && box->closing_us == 0)
            box_close(box, 2000);
        if (box->die_at != NULL && strcmp(box->die_at, name) == 0)
            setitimer(ITIMER_REAL, &(struct itimerval){.it_value.tv_usec = box->die_after_us},
                      NULL); /* SIGALRM is not handled: it kills */
        return;
    }
    if (getenv("RIG_TRACE") != NULL)
        fprintf(stderr, "  %s %llu ms\n", name, (unsigned long long)took_ms);
    if (box->step_count < RIG_STEPS) {
        box->steps[box->step_count].name = name;
        box->steps[box->step_count++].ms = took_ms;
    }
}
static inline void
box_on_ready(void *user)
{
    struct box *box = user;
    box->is_ready = true;
    box->ready_us = cf_clock_us();
}
static inline void
box_on_failed(void *user, const struct cf_error *err)
{
    struct box *box = user;
    ck_assert(!box->is_failed);
    box->is_failed = true;
    box->err = *err;
}
static inline void
box_on_closed(void *user, const struct cf_teardown *teardown)
{
    struct box *box = user;
    box->is_closed = true;
    box->sandbox = NULL;
    box->is_proven = teardown->proven;
    box->removed = json_deep_copy(teardown->removed);
    box->left = json_deep_copy(teardown->left);
    box->took_ms = teardown->took_ms;
}

static const struct cf_sandbox_events box_events = {
    .on_step = box_on_step, .on_ready = box_on_ready, .on_failed = box_on_failed};

static inline struct cf_sandbox_options
rig_options(struct rig *rig, const struct rig_image *image, const char *entrypoint)
{
    return (struct cf_sandbox_options){
        .engine = rig->live.engine,
        .owner = rig->owner,
        .image_id = image->id,
        .entrypoint = entrypoint,
        .whole_timeout_ms = 60000,
        .grace_ms = 3000,
        .start_timeout_ms = 30000,
        .init_program = _binary_cf_init_start,
        .init_program_len = (size_t)(_binary_cf_init_end - _binary_cf_init_start)};
}

static inline void
box_open(struct rig *rig, struct box *box, const struct cf_sandbox_options *options)
{
    memset(box, 0, sizeof *box);
    box->rig = rig;
    box->options = *options;
    cf_id_make("run_", box->run, sizeof box->run);
    box->options.run_id = box->run;
    box->opened_us = cf_clock_us();
    ck_assert_msg(cf_owner_run_begin(rig->owner, box->run, &box->err) == 0, "%s",
                  box->err.text);
    ck_assert_msg(cf_sandbox_open(&rig->live.loop, &box->options, &box_events, box,
                                  &box->sandbox, &box->err) == 0,
                  "%s", box->err.text);
}

static inline void
box_close(struct box *box, uint64_t grace_ms)
{
    box->closing_us = cf_clock_us();
    cf_process_free(box->process);
    box->process = NULL;
    cf_sandbox_close(box->sandbox, grace_ms, box_on_closed, box);
}

static inline void
box_release(struct box *box)
{
    cf_owner_run_end(box->rig->owner, box->run);
    json_decref(box->removed);
    json_decref(box->left);
    cf_buf_release(&box->out);
    cf_buf_release(&box->err_out);
}

/* Nothing that bears the label is in the engine. */
static inline void
rig_audit(struct rig *rig, const char *label)
{
    static const char *const kinds[] = {"containers", "volumes", "networks", "images"};

    for (int i = 0; i < 4; i++) {
        ck_assert_int_eq(cf_engine_list(rig->live.engine, kinds[i], label, live_on_done,
                                        &rig->live, NULL, &rig->live.err),
                         0);
        live_wait(&rig->live);
        ck_assert_msg(rig->live.status == 0, "%s", rig->live.err.text);
        json_t *list = i == 1 ? json_object_get(rig->live.json, "Volumes") : rig->live.json;
        ck_assert_msg(json_array_size(list) == 0, "%zu %s are left with %s",
                      json_array_size(list), kinds[i], label);
    }
}

static inline void
box_audit(struct box *box)
{
    char label[128];
    snprintf(label, sizeof label, CF_LABEL ".run=%s", box->run);
    rig_audit(box->rig, label);
}

/* Closes, waits, and wants it proven and true. */
static inline void
box_end(struct box *box, uint64_t grace_ms)
{
    if (box->sandbox != NULL && box->closing_us == 0)
        box_close(box, grace_ms);
    RIG_EXPECT(box->rig, box->is_closed, 20000);
    ck_assert_msg(box->is_proven, "teardown not proven, %zu left", json_array_size(box->left));
    ck_assert_uint_eq(json_array_size(box->left), 0);
    box_audit(box);
    box_release(box);
}

static inline void
box_print(const struct box *box, const char *what)
{
    printf("%s:", what);
    for (size_t i = 0; i < box->step_count; i++)
        printf(" %s %llu", box->steps[i].name, (unsigned long long)box->steps[i].ms);
    printf("; up %llu ms, down %llu ms\n",
           (unsigned long long)(box->ready_us - box->opened_us) / 1000,
           (unsigned long long)box->took_ms);
    fflush(stdout);
}

/* ---- one process in it --------------------------------------------------------------- */

static inline void
box_started(void *user, struct cf_process *process, int pid)
{
    (void)process, (void)pid;
    ((struct box *)user)->has_started = true;
}
static inline void
box_start_failed(void *user, struct cf_process *process, const struct cf_start_failure *why)
{
    (void)process;
    ((struct box *)user)->start_failed = true;
    ((struct box *)user)->failure = *why;
}
static inline int
box_stdout(void *user, struct cf_process *process, const char *bytes, size_t len)
{
    (void)process;
    return cf_buf_add(&((struct box *)user)->out, bytes, len);
}
static inline int
box_stderr(void *user, struct cf_process *process, const char *bytes, size_t len)
{
    (void)process;
    return cf_buf_add(&((struct box *)user)->err_out, bytes, len);
}
static inline void
box_out_end(void *user, struct cf_process *process)
{
    (void)process;
    ((struct box *)user)->out_ended = true;
}
static inline void
box_err_end(void *user, struct cf_process *process)
{
    (void)process;
    ((struct box *)user)->err_ended = true;
}
static inline void
box_exit(void *user, struct cf_process *process, const struct cf_exit *exit)
{
    (void)process;
    ((struct box *)user)->has_exited = true;
    ((struct box *)user)->exit = *exit;
}
static const struct cf_process_events box_process_events = {.on_started = box_started,
                                                            .on_start_failed =
                                                                box_start_failed,
                                                            .on_stdout = box_stdout,
                                                            .on_stderr = box_stderr,
                                                            .on_stdout_end = box_out_end,
                                                            .on_stderr_end = box_err_end,
                                                            .on_exit = box_exit};

static inline void
box_spawn(struct box *box, const char *line)
{
    const char *argv[] = {"/bin/busybox", "sh", "-c", line, NULL};
    struct cf_spawn spawn = {
        .argv = argv, .cwd = cf_sandbox_working_directory(box->sandbox), .with_stdin = true};

    cf_process_free(box->process);
    box->process = NULL;
    cf_buf_reset(&box->out);
    box->has_started = box->has_exited = box->out_ended = box->err_ended = box->start_failed =
        false;
    ck_assert_msg(cf_process_spawn(cf_sandbox_link(box->sandbox), &spawn, &box_process_events,
                                   box, &box->process, &box->err) == 0,
                  "%s", box->err.text);
}

/* Runs it to its end; what it wrote. */
static inline const char *
box_run(struct box *box, const char *line)
{
    box_spawn(box, line);
    cf_process_close_stdin(box->process);
    RIG_EXPECT(box->rig, box->has_exited && box->out_ended && box->err_ended, 10000);
    return box->out.len > 0 ? box->out.data : "";
}

#endif
