/*
 * bench_stream: bytes out of a sandbox, and how soon the first of them comes.
 *
 *   ours SOCKET IMAGE BYTES SPAWNS   a sandbox: "<bytes per second> <microseconds>": stdout of
 *                                    a process to the sink, and spawn to first byte (median)
 *   bare SOCKET IMAGE BYTES          the Engine's attach stream of a container of its own, read
 *                                    by a loop that does nothing else: "<bytes per second>"
 *   exec SOCKET IMAGE COUNT          exec create and start to first byte: "<microseconds>"
 *
 * IMAGE (its Id) has /bin/busybox; BYTES is a multiple of 64 KiB, written in pieces of that size.
 */
#include "tests/bench/bare.h"

#include "base/clock.h"
#include "base/ids.h"
#include "engine/engine.h"
#include "sandbox/sandbox.h"

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>

extern const char _binary_cf_init_start[], _binary_cf_init_end[];

static int
by_size(const void *a, const void *b)
{
    uint64_t left = *(const uint64_t *)a, right = *(const uint64_t *)b;

    return left < right ? -1 : left > right;
}

static uint64_t
median(uint64_t *values, size_t count)
{
    qsort(values, count, sizeof *values, by_size);
    return count > 0 ? values[count / 2] : 0;
}

static double
rate(uint64_t bytes, uint64_t us)
{
    return us > 0 ? (double)bytes * 1e6 / (double)us : 0;
}

/* ---- ours ------------------------------------------------------------------------------ */

struct bench {
    uv_loop_t loop;
    struct cf_engine *engine;
    struct cf_owner *owner;
    struct cf_sandbox *sandbox;
    struct cf_process *process;
    const char *image;
    char run[40], blocks[40];
    uint64_t wanted, got, began_us, took_us;
    uint64_t *spawns;
    size_t spawn_count, spawned;
    int halves;
    bool is_proven;
};

static void next_spawn(struct bench *b);

static void
fail(const char *where, const struct cf_error *err)
{
    fprintf(stderr, "bench_stream: %s: %s\n", where, err != NULL ? err->text : "");
    exit(1);
}

static void
on_engine_closed(void *user)
{
    ((struct bench *)user)->engine = NULL;
}

static void
on_sandbox_closed(void *user, const struct cf_teardown *teardown)
{
    struct bench *b = user;

    b->is_proven = teardown->proven;
    cf_engine_close(b->engine, on_engine_closed, b);
}

static int
on_stdout(void *user, struct cf_process *process, const char *bytes, size_t len)
{
    struct bench *b = user;

    if (b->got == 0 && b->spawned < b->spawn_count)
        b->spawns[b->spawned] = cf_clock_us() - b->began_us;
    b->got += len;
    return 0;
}

/* Its end and the end of its output: either may come first. */
static void
is_half_over(struct bench *b)
{
    if (++b->halves < 2)
        return;
    cf_process_free(b->process);
    if (b->spawned++ < b->spawn_count) {
        next_spawn(b);
        return;
    }
    b->took_us = cf_clock_us() - b->began_us;
    cf_sandbox_close(b->sandbox, 2000, on_sandbox_closed, b);
}

static void
on_stdout_end(void *user, struct cf_process *process)
{
    is_half_over(user);
}

static void
on_exit_told(void *user, struct cf_process *process, const struct cf_exit *how)
{
    is_half_over(user);
}

static void
on_start_failed(void *user, struct cf_process *process, const struct cf_start_failure *why)
{
    fail(why->phase, NULL);
}

static void
spawn(struct bench *b, const char *const *argv)
{
    static const struct cf_process_events events = {.on_start_failed = on_start_failed,
                                                    .on_stdout = on_stdout,
                                                    .on_stdout_end = on_stdout_end,
                                                    .on_exit = on_exit_told};
    const struct cf_spawn how = {.argv = argv};
    struct cf_error err = {0};

    b->got = 0;
    b->halves = 0;
    b->began_us = cf_clock_us();
    if (cf_process_spawn(cf_sandbox_link(b->sandbox), &how, &events, b, &b->process, &err) < 0)
        fail("spawn", &err);
}

/* First so many that say one word, then the one that says all of it. */
static void
next_spawn(struct bench *b)
{
    const char *const word[] = {"/bin/busybox", "echo", "x", NULL};
    const char *const flood[] = {"/bin/busybox", "dd", "if=/dev/zero", "bs=64k", b->blocks, NULL};

    spawn(b, b->spawned < b->spawn_count ? word : flood);
}

static void
on_ready(void *user)
{
    next_spawn(user);
}

static void
on_failed(void *user, const struct cf_error *err)
{
    fail("sandbox", err);
}

static void
on_connected(void *user, int status, const struct cf_error *err)
{
    static const struct cf_sandbox_events events = {.on_ready = on_ready,
                                                    .on_failed = on_failed};
    struct bench *b = user;
    struct cf_error own = {0};
    const struct cf_sandbox_options options = {
        .engine = b->engine,
        .owner = b->owner,
        .run_id = b->run,
        .image_id = b->image,
        .entrypoint = "/bin/busybox",
        .whole_timeout_ms = 600000,
        .grace_ms = 5000,
        .start_timeout_ms = 60000,
        .init_program = _binary_cf_init_start,
        .init_program_len = (size_t)(_binary_cf_init_end - _binary_cf_init_start)};

    if (status < 0)
        fail("engine", err);
    if (cf_sandbox_open(&b->loop, &options, &events, b, &b->sandbox, &own) < 0)
        fail("sandbox", &own);
}

static int
ours(const char *socket_path, const char *image, const char *bytes, size_t spawns)
{
    static struct bench b;
    char url[200], hex[33];
    struct cf_engine_options options = {.endpoint = url};
    struct cf_error err = {0};

    (void)signal(SIGPIPE, SIG_IGN);
    snprintf(url, sizeof url, "unix://%s", socket_path);
    snprintf(b.blocks, sizeof b.blocks, "count=%llu", strtoull(bytes, NULL, 10) / 65536);
    cf_id_hex(hex);
    snprintf(b.run, sizeof b.run, "run_%s", hex);
    b.image = image;
    b.wanted = strtoull(bytes, NULL, 10);
    b.spawn_count = spawns;
    b.spawns = calloc(spawns + 1, sizeof *b.spawns);
    if (uv_loop_init(&b.loop) < 0 || cf_owner_open(NULL, &b.owner, &err) < 0 ||
        cf_owner_run_begin(b.owner, b.run, &err) < 0 ||
        cf_engine_open(&b.loop, &options, &b.engine, &err) < 0 ||
        cf_engine_connect(b.engine, 15000, on_connected, &b, &err) < 0)
        fail("open", &err);
    (void)uv_run(&b.loop, UV_RUN_DEFAULT);
    cf_owner_run_end(b.owner, b.run);
    cf_owner_close(b.owner);
    printf("%.0f %llu\n", rate(b.got, b.took_us),
           (unsigned long long)median(b.spawns, b.spawn_count));
    free(b.spawns);
    return b.got == b.wanted && b.is_proven ? 0 : 1;
}

/* ---- bare ------------------------------------------------------------------------------ */

static void
create(const char *name, const char *image, const char *command)
{
    char body[1024], path[160];

    snprintf(body, sizeof body,
             "{\"Image\":\"%s\",\"Entrypoint\":[\"/bin/busybox\"],\"Cmd\":[%s],\"AttachStdout\":true,"
             "\"HostConfig\":{\"NetworkMode\":\"none\",\"LogConfig\":{\"Type\":\"none\"}}}",
             image, command);
    snprintf(path, sizeof path, "/containers/create?name=%s", name);
    bare_done(bare_ask("POST", path, "application/json", body, strlen(body)), 201);
}

static void
post(const char *name, const char *what)
{
    char path[160];

    snprintf(path, sizeof path, "/containers/%s/%s", name, what);
    bare_done(bare_ask("POST", path, "application/json", "", 0), 204);
}

static void
discard(const char *name)
{
    char path[160];

    snprintf(path, sizeof path, "/containers/%s?force=1&v=1", name);
    bare_done(bare_ask("DELETE", path, "application/json", "", 0), 204);
}

/* The payload of the Engine's frames: 8 bytes of head, then as many as it says. */
static uint64_t
count_frames(int fd, uint64_t *ret_first_us)
{
    static unsigned char buffer[65536];
    uint64_t total = 0, left = 0;
    unsigned char head[8];
    size_t have = 0;
    ssize_t n;

    *ret_first_us = 0;
    while ((n = read(fd, buffer, sizeof buffer)) > 0) {
        if (*ret_first_us == 0)
            *ret_first_us = cf_clock_us();
        for (size_t at = 0; at < (size_t)n;) {
            if (left > 0) {
                size_t part = left < (size_t)n - at ? (size_t)left : (size_t)n - at;
                total += part;
                left -= part;
                at += part;
            } else {
                head[have++] = buffer[at++];
                if (have == 8) {
                    left = (uint64_t)head[4] << 24 | (uint64_t)head[5] << 16 |
                           (uint64_t)head[6] << 8 | head[7];
                    have = 0;
                }
            }
        }
    }
    return total;
}

static int
bare(const char *image, const char *bytes)
{
    char name[64], command[128], path[200];
    uint64_t first = 0, total;
    int attach;

    snprintf(name, sizeof name, "bench-stream-%d", (int)getpid());
    snprintf(command, sizeof command, "\"dd\",\"if=/dev/zero\",\"bs=64k\",\"count=%llu\"",
             strtoull(bytes, NULL, 10) / 65536);
    create(name, image, command);
    snprintf(path, sizeof path, "/containers/%s/attach?stream=1&stdout=1", name); /* not what dd says in the end */
    attach = bare_hijack(path, "");
    post(name, "start");
    total = count_frames(attach, &first);
    printf("%.0f\n", rate(total, cf_clock_us() - first));
    close(attach);
    discard(name);
    return total == strtoull(bytes, NULL, 10) ? 0 : 1;
}

static int
execs(const char *image, size_t count)
{
    static const char what[] = "{\"AttachStdout\":true,\"Cmd\":[\"/bin/busybox\",\"echo\",\"x\"]}";
    uint64_t *took = calloc(count + 1, sizeof *took);
    char name[64], path[200], answer[1024], first;

    snprintf(name, sizeof name, "bench-exec-%d", (int)getpid());
    create(name, image, "\"sleep\",\"1000\"");
    post(name, "start");
    for (size_t i = 0; i < count; i++) {
        uint64_t began = cf_clock_us();
        const char *id;
        int fd;

        snprintf(path, sizeof path, "/containers/%s/exec", name);
        bare_answer(bare_ask("POST", path, "application/json", what, sizeof what - 1), 201, answer,
                    sizeof answer);
        id = strstr(answer, "\"Id\":\"");
        if (id == NULL)
            bare_die("exec");
        snprintf(path, sizeof path, "/exec/%.64s/start", id + 6);
        fd = bare_hijack(path, "{\"Detach\":false,\"Tty\":false}");
        if (read(fd, &first, 1) != 1)
            bare_die("no byte of an exec");
        took[i] = cf_clock_us() - began;
        while (read(fd, answer, sizeof answer) > 0)
            ;
        close(fd);
    }
    discard(name);
    printf("%llu\n", (unsigned long long)median(took, count));
    free(took);
    return 0;
}

int
main(int argc, char **argv)
{
    bare_socket = argc > 2 ? argv[2] : NULL;
    if (argc == 6 && strcmp(argv[1], "ours") == 0)
        return ours(argv[2], argv[3], argv[4], strtoull(argv[5], NULL, 10));
    if (argc == 5 && strcmp(argv[1], "bare") == 0)
        return bare(argv[3], argv[4]);
    if (argc == 5 && strcmp(argv[1], "exec") == 0)
        return execs(argv[3], strtoull(argv[4], NULL, 10));
    fprintf(stderr, "usage: bench_stream ours SOCKET IMAGE BYTES SPAWNS | bare SOCKET IMAGE BYTES "
                    "| exec SOCKET IMAGE COUNT\n");
    return 2;
}
