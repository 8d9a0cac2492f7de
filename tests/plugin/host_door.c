/*
 * host_door DRIVER.so RELEASE OPTIONS PROMPT [pressure RELEASE BYTES]: a loaded driver's door, from
 * the host's side. Prints one JSON document; exit 0 when all of it held.
 *
 * One run of RELEASE must bring every callback there is (fixtures/wire/all-callbacks.acps does
 * that). Then, for each callback, a run that is closed inside it, all of them at once on one loop;
 * and a pool that is closed inside each of its own. Whatever comes after on_closed, or is missing,
 * is counted. DOOR_DIR names a folder of this machine for what the runs collect.
 *
 * All of it as a guest: each callback on the thread that turns the loop, no thread but what libuv and
 * libcurl make for themselves, and signals, environment, folder and umask as they were.
 *
 * pressure: a harness that floods (a sandbox of its own), and a host that says CF_RUN_PAUSE. While
 * it does, no more may arrive than credits allow (BYTES); after run_resume the rest comes, with no
 * observation lost.
 */
#include <cfrunner/driver.h>

#include <dirent.h>
#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <uv.h>

enum call {
    PHASE, PROGRESS, OBSERVATION, LOG, FRAME, STDERR, CALL, FINDING, READY, TURN, RESULT,
    PERMISSION, QUESTION, GONE, STEERING, CHECKPOINT, CHECKPOINT_MADE, COLLECTED, CALLS
};
static const char *const names[CALLS] = {
    "phase", "progress", "observation", "log", "frame", "stderr", "call", "finding", "ready",
    "turn", "result", "permission", "question", "gone", "steering", "checkpoint",
    "checkpoint_made", "collected"};
enum { POOL_LOG, POOL_READY, POOL_STATE, POOL_TEARDOWN, POOL_CALLS };

struct box {
    struct world *world;
    struct cf_run *run;
    int where; /* the callback to close in; CALLS: none, the run ends by itself */
    unsigned heard[CALLS], late, closed;
    bool is_closing;
};

struct host_pool {
    struct world *world;
    struct cf_pool *pool;
    int where;
    unsigned late, closed, ready;
    bool is_closing;
};

struct world {
    uv_loop_t loop;
    uv_timer_t timer;
    const struct cf_driver *driver;
    const char *release, *options, *prompt;
    struct box all[CALLS + 1];
    struct host_pool pools[POOL_CALLS];
    struct box flood;
    uint64_t seen, seen_at_pause, seen_while_paused, bytes_while_paused, seq, gaps;
    bool is_paused, was_resumed;
};

/* ---- the guest -------------------------------------------------------------------------- */

struct house {
    void (*handlers[NSIG])(int);
    char folder[4096];
    mode_t mask;
    uint64_t environment;
};

static unsigned strange_threads, own_threads, strange_callbacks; /* made by whom; called from where */

/* All threads of the process are made here: libuv's and libcurl's own, or somebody else's. */
CF_API int
pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*fn)(void *), void *arg)
{
    int (*make)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);
    Dl_info who = {0};
    bool is_known = dladdr(__builtin_return_address(0), &who) != 0 && who.dli_fname != NULL &&
                    (strstr(who.dli_fname, "/libuv.") != NULL || strstr(who.dli_fname, "/libcurl") != NULL);

    strange_threads += !is_known;
    own_threads += is_known;
    if (!is_known)
        fprintf(stderr, "host_door: a thread of %s\n", who.dli_fname != NULL ? who.dli_fname : "nobody's");
    *(void **)&make = dlsym(RTLD_NEXT, "pthread_create");
    return make(thread, attr, fn, arg);
}

static unsigned
count_tasks(void)
{
    DIR *folder = opendir("/proc/self/task");
    unsigned count = 0;

    while (folder != NULL && readdir(folder) != NULL)
        count++;
    if (folder != NULL)
        closedir(folder);
    return count - 2; /* "." and ".." */
}

static void
look_around(struct house *house)
{
    extern char **environ;
    struct sigaction now;

    memset(house, 0, sizeof *house);
    for (int s = 1; s < NSIG; s++)
        if (sigaction(s, NULL, &now) == 0) /* two are libc's own */
            house->handlers[s] = now.sa_handler;
    if (getcwd(house->folder, sizeof house->folder) == NULL)
        house->folder[0] = '?';
    house->mask = umask(0);
    (void)umask(house->mask);
    for (char **at = environ; *at != NULL; at++)
        for (const char *c = *at;; c++) {
            house->environment = house->environment * 1099511628211u + (unsigned char)*c;
            if (*c == '\0')
                break;
        }
}

/* What a guest may not have done; prints it, too. */
static unsigned
judge_guest(const struct house *before, unsigned tasks_before)
{
    struct house now;
    unsigned wrong, tasks = count_tasks();

    look_around(&now);
    wrong = strange_callbacks + strange_threads + (tasks > tasks_before + own_threads) +
            (memcmp(before, &now, sizeof now) != 0);
    printf("\"guest\":{\"threads\":%u,\"of_libraries\":%u,\"wrong\":%u}}\n", tasks, own_threads, wrong);
    return wrong;
}

/* ---- one run --------------------------------------------------------------------------- */

static void
reached(void *user, enum call call)
{
    struct box *box = user;

    strange_callbacks += gettid() != getpid();
    box->late += box->closed;
    box->heard[call]++;
    if ((int)call != box->where || box->is_closing)
        return;
    box->is_closing = true;
    box->world->driver->run_close(box->run, 0, NULL);
}

static void
on_phase(void *user, const char *name, const char *step, uint64_t took_ms)
{
    reached(user, PHASE);
}

static void
on_progress(void *user, const char *what, const char *json, size_t len)
{
    reached(user, PROGRESS);
}

static int
on_observation(void *user, const struct cf_observation *o)
{
    reached(user, OBSERVATION);
    return CF_RUN_CONTINUE;
}

static void
on_log(void *user, int level, const char *room, const char *line)
{
    reached(user, LOG);
}

static void
on_frame(void *user, int from_harness, uint64_t number, uint64_t at_ms, const char *line,
         size_t len)
{
    reached(user, FRAME);
}

static void
on_stderr(void *user, const char *bytes, size_t len)
{
    reached(user, STDERR);
}

static void
on_call(void *user, const char *json, size_t len)
{
    reached(user, CALL);
}

static void
on_finding(void *user, const char *json, size_t len)
{
    reached(user, FINDING);
}

static void
on_ready(void *user)
{
    struct box *box = user;
    const char *text = box->world->prompt;
    struct cf_error err;

    reached(user, READY);
    if (!box->is_closing &&
        box->world->driver->run_prompt(box->run, text, strlen(text), &err) < 0)
        fprintf(stderr, "host_door: %s\n", err.text);
}

/* A folder of its own for each box and verb. */
static void
keep(struct box *box, const char *what,
     int (*verb)(struct cf_run *, const char *, size_t, struct cf_error *))
{
    const char *folder = getenv("DOOR_DIR");
    char document[4096];
    struct cf_error err = {0};
    int len = snprintf(document, sizeof document, "{\"directory\":\"%s/%s-%d\"}",
                       folder != NULL ? folder : "/nonexistent", what, box->where);

    if (verb(box->run, document, (size_t)len, &err) == 0)
        return;
    fprintf(stderr, "host_door: %s: %s\n", what, err.text);
    box->world->driver->run_close(box->run, 5000, NULL);
}

static void
on_turn(void *user, uint32_t turn, const char *json, size_t len)
{
    struct box *box = user;

    reached(user, TURN);
    if (!box->is_closing && memmem(json, len, "\"run_over\":false", 16) != NULL)
        keep(box, "checkpoint", box->world->driver->run_checkpoint);
    else if (!box->is_closing)
        box->world->driver->run_close(box->run, 5000, NULL);
}

static void
on_checkpoint_made(void *user, const char *json, size_t len)
{
    struct box *box = user;

    reached(user, CHECKPOINT_MADE);
    if (!box->is_closing)
        keep(box, "collect", box->world->driver->run_collect);
}

static void
on_collected(void *user, const char *json, size_t len)
{
    struct box *box = user;

    reached(user, COLLECTED);
    if (!box->is_closing)
        box->world->driver->run_close(box->run, 5000, NULL);
}

static void
on_result(void *user, const char *json, size_t len)
{
    struct box *box = user;

    reached(user, RESULT);
    if (memmem(json, len, "\"proven\":true", 13) == NULL)
        fprintf(stderr, "host_door: %s: not proven: %.*s\n",
                box->where < CALLS ? names[box->where] : "all", (int)len, json);
    if (!box->is_closing)
        box->world->driver->run_close(box->run, 0, NULL);
}

static void
on_closed(void *user)
{
    ((struct box *)user)->closed++;
}

static void
on_permission(void *user, uint64_t request, const char *json, size_t len)
{
    struct box *box = user;
    struct cf_error err;

    reached(user, PERMISSION);
    if (!box->is_closing && memmem(json, len, "\"t1\"", 4) != NULL &&
        box->world->driver->run_permission_answer(box->run, request, "go", &err) < 0)
        fprintf(stderr, "host_door: %s\n", err.text);
}

static void
on_question(void *user, uint64_t request, const char *json, size_t len)
{
    static const char answer[] = "{\"action\":\"accept\",\"content\":{\"branch\":\"main\"}}";
    struct box *box = user;
    struct cf_error err;

    reached(user, QUESTION);
    if (!box->is_closing && box->world->driver->run_question_answer(
                                box->run, request, answer, sizeof answer - 1, &err) < 0)
        fprintf(stderr, "host_door: %s\n", err.text);
}

static void
on_request_gone(void *user, uint64_t request)
{
    static const char steer[] = "{\"content\":\"to the left\"}";
    struct box *box = user;
    struct cf_error err;

    reached(user, GONE);
    if (!box->is_closing &&
        box->world->driver->run_steer(box->run, steer, sizeof steer - 1, NULL, &err) < 0)
        fprintf(stderr, "host_door: %s\n", err.text);
}

static void
on_steering(void *user, const char *event_id, const char *disposition)
{
    reached(user, STEERING);
}

static void
on_checkpoint(void *user, const char *json, size_t len)
{
    reached(user, CHECKPOINT);
}

static const struct cf_run_host listener = {.size = sizeof listener,
                                            .abi_major = CF_ABI_MAJOR,
                                            .abi_minor = CF_ABI_MINOR,
                                            .on_phase = on_phase,
                                            .on_progress = on_progress,
                                            .on_observation = on_observation,
                                            .on_log = on_log,
                                            .on_frame = on_frame,
                                            .on_stderr = on_stderr,
                                            .on_call = on_call,
                                            .on_finding = on_finding,
                                            .on_ready = on_ready,
                                            .on_turn = on_turn,
                                            .on_result = on_result,
                                            .on_closed = on_closed,
                                            .on_permission = on_permission,
                                            .on_question = on_question,
                                            .on_request_gone = on_request_gone,
                                            .on_steering = on_steering,
                                            .on_checkpoint = on_checkpoint,
                                            .on_collected = on_collected,
                                            .on_checkpoint_made = on_checkpoint_made};

/* In a pool, which has its image already, but for the callback that only an image brings. */
static void
open_box(struct world *world, struct cf_pool *pool, struct box *box, int where)
{
    struct cf_run_host host = listener;
    struct cf_error err = {0};
    int status;

    *box = (struct box){.world = world, .where = where};
    host.user = box;
    if (pool != NULL)
        status = world->driver->pool_run_open(pool, NULL, 0, &host, &box->run, &err);
    else
        status = world->driver->run_open(&world->loop, world->release, strlen(world->release),
                                         world->options, strlen(world->options), &host,
                                         &box->run, &err);
    if (status < 0)
        fprintf(stderr, "host_door: %s\n", err.text);
}

/* ---- a pool ---------------------------------------------------------------------------- */

static void
pool_reached(void *user, int call)
{
    struct host_pool *pool = user;

    strange_callbacks += gettid() != getpid();
    pool->late += pool->closed;
    if (call != pool->where || pool->is_closing)
        return;
    pool->is_closing = true;
    pool->world->driver->pool_close(pool->pool, 0);
}

static void
on_pool_log(void *user, int level, const char *room, const char *line)
{
    pool_reached(user, POOL_LOG);
}

/* The pool that is closed in its last callback runs the boxes, and is let go of right then. */
static void
on_pool_ready(void *user)
{
    struct host_pool *pool = user;

    pool->ready++;
    pool_reached(user, POOL_READY);
    if (pool->where != POOL_TEARDOWN)
        return;
    for (int i = 0; i < CALLS; i++)
        if (i != PROGRESS)
            open_box(pool->world, pool->pool, &pool->world->all[i], i);
    pool->world->driver->pool_close(pool->pool, 60000);
}

static void
on_pool_failed(void *user, const struct cf_error *err)
{
    fprintf(stderr, "host_door: %s\n", err->text);
    ((struct host_pool *)user)->late += 1000;
}

static void
on_pool_state(void *user, const struct cf_pool_state *state)
{
    pool_reached(user, POOL_STATE);
}

static void
on_pool_teardown(void *user, const char *json, size_t len)
{
    if (memmem(json, len, "\"proven\":true", 13) == NULL)
        fprintf(stderr, "host_door: a pool: not proven: %.*s\n", (int)len, json);
    pool_reached(user, POOL_TEARDOWN);
}

static void
on_pool_closed(void *user)
{
    ((struct host_pool *)user)->closed++;
}

static void
open_pool(struct world *world, int where)
{
    struct host_pool *pool = &world->pools[where];
    const struct cf_pool_host host = {.size = sizeof host,
                                      .abi_major = CF_ABI_MAJOR,
                                      .abi_minor = CF_ABI_MINOR,
                                      .user = pool,
                                      .on_log = on_pool_log,
                                      .on_ready = on_pool_ready,
                                      .on_failed = on_pool_failed,
                                      .on_state = on_pool_state,
                                      .on_teardown = on_pool_teardown,
                                      .on_closed = on_pool_closed};
    char options[4096];
    struct cf_error err = {0};
    int len = snprintf(options, sizeof options, "%.*s,\"pool\":{\"warm\":%d}}",
                       (int)strlen(world->options) - 1, world->options, where == POOL_STATE);

    *pool = (struct host_pool){.world = world, .where = where};
    if (world->driver->pool_open(&world->loop, world->release, strlen(world->release), options,
                                 (size_t)len, &host, &pool->pool, &err) < 0)
        fprintf(stderr, "host_door: %s\n", err.text);
}

/* ---- pressure -------------------------------------------------------------------------- */

static void
on_resume_time(uv_timer_t *timer)
{
    struct world *world = timer->data;

    world->is_paused = false;
    world->was_resumed = true;
    world->seen_while_paused = world->seen - world->seen_at_pause;
    world->driver->run_resume(world->flood.run);
}

static int
on_flood(void *user, const struct cf_observation *o)
{
    struct world *world = ((struct box *)user)->world;

    reached(user, OBSERVATION);
    world->gaps += o->seq != ++world->seq;
    world->seen += o->type == CF_OBSERVATION_AGENT_MESSAGE;
    if (world->is_paused)
        world->bytes_while_paused += o->json_len;
    if (world->seen != 100 || world->was_resumed || world->is_paused)
        return CF_RUN_CONTINUE;
    world->is_paused = true;
    world->seen_at_pause = world->seen;
    (void)uv_timer_start(&world->timer, on_resume_time, 1500, 0);
    return CF_RUN_PAUSE;
}

static int
press(struct world *world, const char *release, uint64_t most_bytes)
{
    struct cf_run_host host = listener;
    struct cf_error err = {0};
    bool holds;

    world->flood = (struct box){.world = world, .where = CALLS};
    host.user = &world->flood;
    host.on_observation = on_flood;
    host.on_frame = NULL;
    if (world->driver->run_open(&world->loop, release, strlen(release), world->options,
                                strlen(world->options), &host, &world->flood.run, &err) < 0)
        return fprintf(stderr, "host_door: %s\n", err.text), 2;
    (void)uv_run(&world->loop, UV_RUN_DEFAULT);
    printf("{\"observations\":%llu,\"while_paused\":%llu,\"bytes_while_paused\":%llu,\"gaps\":"
           "%llu,\"closed\":%u}\n",
           (unsigned long long)world->seen, (unsigned long long)world->seen_while_paused,
           (unsigned long long)world->bytes_while_paused, (unsigned long long)world->gaps,
           world->flood.closed);
    holds = world->was_resumed && world->bytes_while_paused <= most_bytes &&
            world->gaps == 0 && world->flood.closed == 1 && world->flood.late == 0;
    return holds ? 0 : 1;
}

/* ---- all of it ------------------------------------------------------------------------- */

static int
judge(const struct world *world, const struct house *before, unsigned tasks)
{
    const struct box *whole = &world->all[CALLS];
    unsigned wrong = 0;

    printf("{\"heard\":{");
    for (int i = 0; i < CALLS; i++) {
        printf("%s\"%s\":%u", i > 0 ? "," : "", names[i], whole->heard[i]);
        wrong += whole->heard[i] == 0;
    }
    printf("},\"closed_in\":[");
    for (int i = 0; i <= CALLS; i++) {
        const struct box *box = &world->all[i];
        bool holds = box->closed == 1 && box->late == 0 && (i == CALLS || box->is_closing) &&
                     box->heard[RESULT] == 1;
        printf("%s\"%s%s\"", i > 0 ? "," : "", i < CALLS ? names[i] : "none",
               holds ? "" : ": WRONG");
        wrong += !holds;
    }
    for (int i = 0; i < POOL_CALLS; i++)
        wrong += world->pools[i].closed != 1 || world->pools[i].late != 0 ||
                 !world->pools[i].is_closing;
    printf("],\"wrong\":%u,", wrong);
    wrong += judge_guest(before, tasks);
    return wrong == 0 ? 0 : 1;
}

int
main(int argc, char **argv)
{
    static struct world world;
    const struct cf_driver_setup setup = {sizeof setup, CF_ABI_MAJOR, CF_ABI_MINOR, NULL};
    void *so = argc > 4 ? dlopen(argv[1], RTLD_NOW | RTLD_LOCAL) : NULL;
    struct cf_error err = {0};
    static struct house house;
    unsigned tasks;
    int status;

    (void)signal(SIGPIPE, SIG_IGN);
    look_around(&house);
    tasks = count_tasks();
    world.driver = so != NULL ? dlsym(so, CF_DRIVER_DOCKER_SYMBOL) : NULL;
    if (world.driver == NULL || uv_loop_init(&world.loop) < 0 ||
        world.driver->setup(&setup, &err) < 0)
        return fprintf(stderr, "host_door: %s\n", so != NULL ? err.text : "no driver"), 2;
    world.release = argv[2];
    world.options = argv[3];
    world.prompt = argv[4];
    (void)uv_timer_init(&world.loop, &world.timer);
    world.timer.data = &world;
    uv_unref((uv_handle_t *)&world.timer);
    if (argc > 7) {
        status = press(&world, argv[6], strtoull(argv[7], NULL, 10));
    } else {
        open_box(&world, NULL, &world.all[CALLS], CALLS);
        open_box(&world, NULL, &world.all[PROGRESS], PROGRESS);
        for (int i = 0; i < POOL_CALLS; i++)
            open_pool(&world, i);
        (void)uv_run(&world.loop, UV_RUN_DEFAULT);
        status = judge(&world, &house, tasks);
    }
    uv_close((uv_handle_t *)&world.timer, NULL);
    (void)uv_run(&world.loop, UV_RUN_DEFAULT);
    if (uv_loop_close(&world.loop) < 0) {
        fprintf(stderr, "host_door: a handle was left open\n");
        return 1;
    }
    return status;
}
