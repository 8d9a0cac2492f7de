/*
 * host_many CONTEXT [sandboxes=N] [seconds=S] [every=MS] [creates=N]: many sandboxes alive at
 * once on one loop and one thread, and what they cost. CONTEXT is the build context of
 * acp-script. Each harness says one word every so many milliseconds; the gaps between a
 * sandbox's observations are taken twice: in peace, and while beside them one harness floods,
 * one floods a host that does not read, one does not answer, and one run waits for an engine
 * that accepts and says nothing. Prints one JSON document.
 */
#include <cfrunner/pool.h>

#include <dirent.h>
#include <ftw.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>
#include <uv.h>

#define MOST 2000
#define GAPS_MOST 4000000u

enum phase { OPENING, IDLE, PEACE, TROUBLE, CLOSING };

struct box {
    struct many *many;
    struct cf_run *run;
    uint64_t last_ns;
    bool is_ready;
};

struct gaps {
    float *ms;
    size_t count;
};

struct cost {
    double cpu_ms, wall_ms;
    long rss_kib;
    int files;
};

struct many {
    uv_loop_t loop;
    uv_timer_t clock;
    uv_pipe_t deaf;
    struct cf_pool *pool;
    struct box *boxes, flood, unread, mute, lost;
    unsigned count, ready, closed, failed, extra, extra_closed;
    uint64_t seconds, every, creates, began_ns, opened_ns;
    enum phase phase;
    struct gaps peace, trouble;
    struct cost before, open, idle_from, idle_to, peace_from, peace_to;
    uint64_t flood_bytes;
    bool is_proven, clock_closed;
    char *context, state[64], socket[96], error[400];
    double closing_ms;
    uint64_t closing_ns;
};

/* ---- costs
 * ------------------------------------------------------------------------------------ */

static int
count_files(void)
{
    DIR *folder = opendir("/proc/self/fd");
    int count = 0;

    while (folder != NULL && readdir(folder) != NULL)
        count++;
    if (folder != NULL)
        closedir(folder);
    return count - 3; /* ".", "..", the folder itself */
}

static long
resident_kib(void)
{
    FILE *file = fopen("/proc/self/statm", "r");
    long pages = 0, resident = 0;

    if (file != NULL && fscanf(file, "%ld %ld", &pages, &resident) != 2)
        resident = 0;
    if (file != NULL)
        fclose(file);
    return resident * (sysconf(_SC_PAGESIZE) / 1024);
}

static struct cost
cost_now(void)
{
    struct rusage use;
    struct cost cost = {.wall_ms = (double)uv_hrtime() / 1e6,
                        .rss_kib = resident_kib(),
                        .files = count_files()};

    getrusage(RUSAGE_SELF, &use);
    cost.cpu_ms = (double)(use.ru_utime.tv_sec + use.ru_stime.tv_sec) * 1e3 +
                  (double)(use.ru_utime.tv_usec + use.ru_stime.tv_usec) / 1e3;
    return cost;
}

static int
by_size(const void *a, const void *b)
{
    float left = *(const float *)a, right = *(const float *)b;

    return left < right ? -1 : left > right;
}

static void
print_gaps(const char *name, struct gaps *gaps, uint64_t every)
{
    size_t n = gaps->count;

    qsort(gaps->ms, n, sizeof *gaps->ms, by_size);
    printf(",\"%s\":{\"gaps\":%zu,\"every_ms\":%llu,\"p50_ms\":%.1f,\"p99_ms\":%.1f,\"most_"
           "ms\":%.1f}",
           name, n, (unsigned long long)every, n > 0 ? gaps->ms[n / 2] : 0.0,
           n > 0 ? gaps->ms[n * 99 / 100] : 0.0, n > 0 ? gaps->ms[n - 1] : 0.0);
}

/* ---- a sandbox that speaks in beats
 * ---------------------------------------------------------------- */

static void
prompt(struct box *box)
{
    static const char text[] = "{\"text\":\"speak\"}";
    struct cf_error err;

    if (cf_run_prompt(box->run, text, sizeof text - 1, &err) < 0)
        cf_run_close(box->run, 1000, &err);
}

static int
on_beat(void *user, const struct cf_observation *o)
{
    struct box *box = user;
    struct many *many = box->many;
    uint64_t now = uv_hrtime();
    struct gaps *gaps = many->phase == PEACE     ? &many->peace
                        : many->phase == TROUBLE ? &many->trouble
                                                 : NULL;

    if (o->type != CF_OBSERVATION_AGENT_MESSAGE)
        return CF_RUN_CONTINUE;
    if (gaps != NULL && box->last_ns != 0 && gaps->count < GAPS_MOST)
        gaps->ms[gaps->count++] = (float)((double)(now - box->last_ns) / 1e6);
    box->last_ns = now;
    return CF_RUN_CONTINUE;
}

static void
on_box_ready(void *user)
{
    struct box *box = user;

    box->is_ready = true;
    box->many->ready++;
}

static void
on_result(void *user, const char *json, size_t len)
{
    struct box *box = user;
    const char *message = strstr(json, "\"message\":\"");

    if (strstr(json, "\"proven\":true") == NULL)
        box->many->is_proven = false;
    if (box->many->phase != CLOSING && box >= box->many->boxes &&
        box < box->many->boxes + box->many->count) {
        box->many->failed++;
        if (message != NULL)
            (void)snprintf(box->many->error, sizeof box->many->error, "%.300s", message + 11);
    }
    if (box->run != NULL)
        cf_run_close(box->run, 0, NULL);
}

static void
all_closed(struct many *many)
{
    if (many->phase != CLOSING || many->closed < many->count ||
        many->extra_closed < many->extra)
        return;
    many->closing_ms = (double)(uv_hrtime() - many->closing_ns) / 1e6;
    cf_pool_close(many->pool, 5000);
}

static void
on_box_closed(void *user)
{
    struct box *box = user;

    box->run = NULL;
    box->many->closed++;
    all_closed(box->many);
}

/* ---- the troublemakers
 * ------------------------------------------------------------------------------ */

static int
on_flood(void *user, const struct cf_observation *o)
{
    struct box *box = user;

    box->many->flood_bytes += o->json_len;
    return box == &box->many->unread ? CF_RUN_PAUSE : CF_RUN_CONTINUE;
}

static void
on_extra_ready(void *user)
{
    prompt(user);
}

static void
on_extra_closed(void *user)
{
    struct box *box = user;

    box->run = NULL;
    box->many->extra_closed++;
    all_closed(box->many);
}

/* printf into a document of its own; yours (free). */
static char *
format(const char *fmt, ...)
{
    va_list args;
    char *text;

    va_start(args, fmt);
    if (vasprintf(&text, fmt, args) < 0)
        abort();
    va_end(args);
    return text;
}

static char *
release_of(const char *script)
{
    return format(
        "{\"image\":\"build-context.invalid/ephemeral@sha256:"
        "0000000000000000000000000000000000000000000000000000000000000000\",\"protocol\":"
        "\"acp-v1\","
        "\"entrypoint\":\"/opt/script/bin/acp-script\",\"arguments\":[\"-e\",\"%s\"]}",
        script);
}

static void
open_extra(struct many *many, struct box *box, const char *script, const char *engine)
{
    const struct cf_run_host host = {.size = sizeof host,
                                     .abi_major = CF_ABI_MAJOR,
                                     .user = box,
                                     .on_observation = on_flood,
                                     .on_ready = on_extra_ready,
                                     .on_result = on_result,
                                     .on_closed = on_extra_closed};
    char *release = release_of(script);
    char *options =
        format("{\"build_context\":\"%s\",\"state_dir\":\"%s\"%s%s%s,\"limits\":{\"output_"
               "bytes\":100000000000}}",
               many->context, many->state, engine != NULL ? ",\"engine\":\"unix://" : "",
               engine != NULL ? engine : "", engine != NULL ? "\"" : "");
    struct cf_error err;

    box->many = many;
    if (cf_run_open(&many->loop, release, strlen(release), options, strlen(options), &host,
                    &box->run, &err) == 0)
        many->extra++;
    else
        fprintf(stderr, "host_many: %s\n", err.text);
    free(release);
    free(options);
}

static void
on_deaf_client(uv_stream_t *server, int status)
{
    uv_pipe_t *client = calloc(1, sizeof *client);

    (void)uv_pipe_init(server->loop, client, 0);
    if (uv_accept(server, (uv_stream_t *)client) < 0)
        uv_close((uv_handle_t *)client, (uv_close_cb)free);
    uv_unref((uv_handle_t *)client); /* accepted, and never read */
}

static void
make_trouble(struct many *many)
{
    static const char flood[] = "handshake\\nexpect session/prompt\\nfill t 800 "
                                "0123456789\\nrepeat 100000000\\nchunk ${t}\\nend";

    (void)uv_pipe_init(&many->loop, &many->deaf, 0);
    if (uv_pipe_bind(&many->deaf, many->socket) == 0)
        (void)uv_listen((uv_stream_t *)&many->deaf, 8, on_deaf_client);
    uv_unref((uv_handle_t *)&many->deaf);
    open_extra(many, &many->flood, flood, NULL);
    open_extra(many, &many->unread, flood, NULL);
    open_extra(many, &many->mute, "hang", NULL);
    open_extra(many, &many->lost, "handshake", many->socket);
}

/* ---- the course of it
 * ----------------------------------------------------------------------------- */

static void
close_all(struct many *many)
{
    struct box *extras[] = {&many->flood, &many->unread, &many->mute, &many->lost};

    many->phase = CLOSING;
    many->closing_ns = uv_hrtime();
    for (unsigned i = 0; i < many->count; i++)
        if (many->boxes[i].run != NULL)
            cf_run_close(many->boxes[i].run, 2000, NULL);
    for (unsigned i = 0; i < 4; i++)
        if (extras[i]->run != NULL)
            cf_run_close(extras[i]->run, 500, NULL);
    all_closed(many);
}

static void
next_phase(struct many *many)
{
    uint64_t ms = many->seconds * 1000;

    many->phase++;
    switch (many->phase) {
    case IDLE:
        many->open = many->idle_from = cost_now();
        break;
    case PEACE:
        many->idle_to = cost_now();
        for (unsigned i = 0; i < many->count; i++)
            if (many->boxes[i].run != NULL)
                prompt(&many->boxes[i]);
        many->peace_from = cost_now();
        break;
    case TROUBLE:
        many->peace_to = cost_now();
        make_trouble(many);
        ms *= 2; /* it has to come up first */
        break;
    default:
        close_all(many);
        return;
    }
    uv_timer_start(&many->clock, many->clock.timer_cb, ms, 0);
}

static void
on_clock(uv_timer_t *timer)
{
    struct many *many = timer->data;

    if (many->phase != OPENING) {
        next_phase(many);
    } else if (many->failed > 0) {
        many->phase = TROUBLE;
        next_phase(many);
    } else if (many->ready == many->count) {
        many->opened_ns = uv_hrtime();
        next_phase(many);
    } else {
        uv_timer_start(timer, on_clock, 50, 0);
    }
}

static void
on_pool_ready(void *user)
{
    struct many *many = user;
    const struct cf_run_host host = {.size = sizeof host, .abi_major = CF_ABI_MAJOR};
    struct cf_run_host own = host;
    struct cf_error err;

    many->before = cost_now();
    many->began_ns = uv_hrtime();
    own.on_observation = on_beat;
    own.on_ready = on_box_ready;
    own.on_result = on_result;
    own.on_closed = on_box_closed;
    for (unsigned i = 0; i < many->count; i++) {
        own.user = &many->boxes[i];
        many->boxes[i].many = many;
        if (cf_pool_run_open(many->pool, NULL, 0, &own, &many->boxes[i].run, &err) < 0)
            abort();
    }
    uv_timer_start(&many->clock, on_clock, 50, 0);
}

static void
on_pool_failed(void *user, const struct cf_error *err)
{
    fprintf(stderr, "host_many: %s\n", err->text);
    exit(2);
}

static void
on_pool_teardown(void *user, const char *json, size_t len)
{
    struct many *many = user;

    if (strstr(json, "\"proven\":true") == NULL)
        many->is_proven = false;
}

static void
on_pool_closed(void *user)
{
    struct many *many = user;

    uv_close((uv_handle_t *)&many->clock, NULL);
    uv_stop(&many->loop);
}

static int
remove_one(const char *path, const struct stat *st, int flag, struct FTW *where)
{
    return remove(path);
}

static double
share(const struct cost *from, const struct cost *to)
{
    return to->wall_ms > from->wall_ms
               ? 100.0 * (to->cpu_ms - from->cpu_ms) / (to->wall_ms - from->wall_ms)
               : 0.0;
}

static void
print(struct many *many)
{
    double n = many->count;

    printf("{\"sandboxes\":%u,\"failed\":%u,\"error\":\"%s\",\"creates\":%llu,\"open_ms\":%."
           "0f,\"files_each\":%.2f,"
           "\"memory_each_kib\":%.1f,\"memory_kib\":%ld,\"idle_cpu_percent\":%.2f,\"speaking_"
           "cpu_percent\":%.2f",
           many->count, many->failed, many->error, (unsigned long long)many->creates,
           many->opened_ns != 0 ? (double)(many->opened_ns - many->began_ns) / 1e6 : -1.0,
           (many->open.files - many->before.files) / n,
           (double)(many->open.rss_kib - many->before.rss_kib) / n, many->open.rss_kib,
           share(&many->idle_from, &many->idle_to), share(&many->peace_from, &many->peace_to));
    print_gaps("peace", &many->peace, many->every);
    print_gaps("trouble", &many->trouble, many->every);
    printf(",\"flood_mib\":%.1f,\"close_ms\":%.0f,\"teardown_proven\":%s}\n",
           (double)many->flood_bytes / 1048576.0, many->closing_ms,
           many->is_proven ? "true" : "false");
}

static uint64_t
number_after(int argc, char **argv, const char *name, uint64_t otherwise)
{
    for (int i = 2; i < argc; i++)
        if (strncmp(argv[i], name, strlen(name)) == 0 && argv[i][strlen(name)] == '=')
            return strtoull(argv[i] + strlen(name) + 1, NULL, 10);
    return otherwise;
}

static char *
options_of(struct many *many)
{
    char *creates = many->creates > 0
                        ? format("\"creates\":%llu", (unsigned long long)many->creates)
                        : format("%s", "");
    char *options = format("{\"build_context\":\"%s\",\"state_dir\":\"%s\",\"limits\":{"
                           "\"memory_bytes\":33554432,\"pids\":16},"
                           "\"deadlines_ms\":{\"start\":600000,\"whole\":3600000,\"turn\":"
                           "3600000},\"pool\":{%s}}",
                           many->context, many->state, creates);

    free(creates);
    return options;
}

int
main(int argc, char **argv)
{
    struct many many = {.is_proven = true};
    struct cf_pool_host host = {.size = sizeof host,
                                .abi_major = CF_ABI_MAJOR,
                                .user = &many,
                                .on_ready = on_pool_ready,
                                .on_failed = on_pool_failed,
                                .on_teardown = on_pool_teardown,
                                .on_closed = on_pool_closed};
    struct cf_error err;
    char script[500], *release, *options;

    if (argc < 2)
        return fprintf(stderr, "usage: host_many CONTEXT [sandboxes=N] [seconds=S] [every=MS] "
                               "[creates=N]\n"),
               2;
    (void)signal(SIGPIPE, SIG_IGN);
    many.context = argv[1];
    many.count = (unsigned)number_after(argc, argv, "sandboxes", 200) % MOST;
    many.seconds = number_after(argc, argv, "seconds", 15);
    many.every = number_after(argc, argv, "every", 250);
    many.creates = number_after(argc, argv, "creates", 0);
    many.boxes = calloc(many.count, sizeof *many.boxes);
    many.peace.ms = malloc(GAPS_MOST * sizeof(float));
    many.trouble.ms = malloc(GAPS_MOST * sizeof(float));
    (void)snprintf(many.state, sizeof many.state, "/tmp/host-many-XXXXXX");
    if (many.boxes == NULL || many.peace.ms == NULL || many.trouble.ms == NULL ||
        mkdtemp(many.state) == NULL || uv_loop_init(&many.loop) < 0)
        return 2;
    (void)snprintf(many.socket, sizeof many.socket, "%s/deaf.sock", many.state);
    (void)snprintf(script, sizeof script,
                   "handshake\\nexpect session/prompt\\nrepeat 100000000\\nchunk "
                   "beat\\nupdate {\\\"sessionUpdate\\\":"
                   "\\\"agent_thought_chunk\\\",\\\"content\\\":{\\\"type\\\":\\\"text\\\","
                   "\\\"text\\\":\\\"t\\\"}}"
                   "\\nsleep %llu\\nend", /* a thought ends a message: that is told at once */
                   (unsigned long long)many.every);
    release = release_of(script);
    options = options_of(&many);
    (void)uv_timer_init(&many.loop, &many.clock);
    many.clock.data = &many;
    if (cf_library_init(&err) < 0 ||
        cf_pool_open(&many.loop, release, strlen(release), options, strlen(options), &host,
                     &many.pool, &err) < 0)
        return fprintf(stderr, "host_many: %s\n", err.text), 2;
    (void)uv_run(&many.loop, UV_RUN_DEFAULT);
    print(&many);
    (void)nftw(many.state, remove_one, 16, FTW_DEPTH | FTW_PHYS);
    return many.failed == 0 && many.is_proven ? 0 : 1;
}
