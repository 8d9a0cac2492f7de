/*
 * pool.c: a supervisor of many runs. So many at once, no more than memory allows, a clean
 * stop.
 *
 *     pool RELEASE_JSON OPTIONS_JSON PROMPT_JSON [runs=N] [at_once=N] [memory=BYTES]
 * [settle=1|2]
 *
 * One line of JSON a run, as they end: {"item","status","first_ms","said_ms","took_ms"} (from
 * opening it to its first observation, to its harness's last word, to nothing left of it), and last
 * {"runs","ok","failed","most_open","took_ms","first_ms":
 * {"p50","p99"},"teardown_proven"}. settle: begin when all warm sandboxes stand ready; 2: so for
 * each run. SIGINT or SIGTERM: no new runs, the open ones end in order; again: at once. Warm sandboxes and the
 * pace are options of the pool: {"pool":{"warm":8,"creates":4}}.
 */
#include <cfrunner/pool.h>

#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <uv.h>

#define RUNS_MOST 100000u

struct item { /* one run, from its opening to its end */
    struct supervisor *boss;
    struct cf_run *run; /* NULL: its place is free */
    unsigned number;
    uint64_t opened_ns, first_ns, said_ns;
    bool is_ok, is_proven, is_over;
};

struct supervisor {
    uv_loop_t loop;
    uv_signal_t signals[2];
    struct cf_pool *pool;
    const char *prompt;
    struct item *items; /* places */
    unsigned at_once, open, most_open, started, runs, ok, failed;
    uint64_t began_ns, memory, memory_each;
    double *firsts; /* milliseconds, one a run that had an observation */
    unsigned first_count, stops;
    bool is_ready, is_proven, is_settled;
    unsigned settle;
};

static void admit(struct supervisor *boss);

static double
ms_since(uint64_t then_ns)
{
    return (double)(uv_hrtime() - then_ns) / 1e6;
}

/* ---- one run
 * --------------------------------------------------------------------------------- */

static int
on_observation(void *user, const struct cf_observation *o)
{
    struct item *item = user;

    if (item->first_ns == 0) {
        item->first_ns = uv_hrtime();
        item->boss->firsts[item->boss->first_count++] = ms_since(item->opened_ns);
    }
    return CF_RUN_CONTINUE;
}

static void
on_frame(void *user, int from_harness, uint64_t number, uint64_t at_ms, const char *line,
         size_t len)
{
    struct item *item = user;

    if (from_harness && !item->is_over)
        item->said_ns = uv_hrtime();
}

static void
on_ready(void *user)
{
    struct item *item = user;
    struct cf_error err;

    if (cf_run_prompt(item->run, item->boss->prompt, strlen(item->boss->prompt), &err) < 0)
        cf_run_close(item->run, 5000, &err);
}

static void
on_turn(void *user, uint32_t turn, const char *json, size_t len)
{
    struct item *item = user;

    item->is_over = true;
    item->is_ok = strstr(json, "\"outcome\":\"finished\"") != NULL;
    cf_run_close(item->run, 5000, NULL);
}

static void
on_result(void *user, const char *json, size_t len)
{
    struct item *item = user;
    const char *message = strstr(json, "\"message\":\"");

    item->is_ok = item->is_ok && strstr(json, "\"status\":\"ok\"") != NULL;
    item->is_proven = strstr(json, "\"proven\":true") != NULL;
    if (!item->is_ok && message != NULL)
        fprintf(stderr, "pool: run %u: %.200s\n", item->number, message + 11);
    cf_run_close(item->run, 0, NULL);
}

static void
on_run_closed(void *user)
{
    struct item *item = user;
    struct supervisor *boss = item->boss;

    printf("{\"item\":%u,\"status\":\"%s\",\"first_ms\":%.1f,\"said_ms\":%.1f,\"took_ms\":%.1f}\n",
           item->number, item->is_ok ? "ok" : "failed",
           item->first_ns != 0 ? (double)(item->first_ns - item->opened_ns) / 1e6 : -1.0,
           item->said_ns != 0 ? (double)(item->said_ns - item->opened_ns) / 1e6 : -1.0,
           ms_since(item->opened_ns));
    boss->ok += item->is_ok;
    boss->failed += !item->is_ok;
    boss->is_proven = boss->is_proven && item->is_proven;
    boss->open--;
    item->run = NULL;
    admit(boss);
}

static bool
open_run(struct supervisor *boss)
{
    struct item *item = boss->items;
    struct cf_run_host host = {.size = sizeof host,
                               .abi_major = CF_ABI_MAJOR,
                               .abi_minor = CF_ABI_MINOR,
                               .on_observation = on_observation,
                               .on_frame = on_frame,
                               .on_ready = on_ready,
                               .on_turn = on_turn,
                               .on_result = on_result,
                               .on_closed = on_run_closed};
    struct cf_error err;

    while (item->run != NULL) /* there is a free place: fewer are open than places */
        item++;
    *item = (struct item){.boss = boss, .number = boss->started + 1, .opened_ns = uv_hrtime()};
    host.user = item;
    boss->started++;
    if (cf_pool_run_open(boss->pool, NULL, 0, &host, &item->run, &err) == 0) {
        boss->open++;
        if (boss->open > boss->most_open)
            boss->most_open = boss->open;
        return true;
    }
    fprintf(stderr, "pool: %s\n", err.text);
    item->run = NULL;
    boss->failed++;
    return false;
}

/* ---- all of them
 * ------------------------------------------------------------------------------ */

/* What a sandbox may use at most is set aside for it: what is promised is there. */
static void
admit(struct supervisor *boss)
{
    while (boss->is_ready && (boss->settle < 2 || boss->is_settled) && boss->stops == 0 && boss->started < boss->runs &&
           boss->open < boss->at_once && (boss->open + 1) * boss->memory_each <= boss->memory)
        if (!open_run(boss))
            break;
    if (boss->open == 0 && (boss->stops > 0 || boss->started >= boss->runs ||
                            boss->failed > boss->started / 2 + 8))
        cf_pool_close(boss->pool, 5000);
}

static void
begin(struct supervisor *boss)
{
    boss->is_ready = true;
    boss->began_ns = uv_hrtime();
    admit(boss);
}

static void
on_pool_ready(void *user)
{
    struct supervisor *boss = user;

    if (boss->settle == 0)
        begin(boss);
}

static void
on_pool_state(void *user, const struct cf_pool_state *state)
{
    struct supervisor *boss = user;

    boss->is_settled = state->warm > 0 && state->making == 0;
    if (boss->settle > 0 && !boss->is_ready && boss->is_settled)
        begin(boss);
    else if (boss->settle > 1 && boss->is_ready && boss->is_settled)
        admit(boss);
}

static void
on_pool_failed(void *user, const struct cf_error *err)
{
    struct supervisor *boss = user;

    fprintf(stderr, "pool: %s\n  fix: %s\n", err->text, err->fix);
    boss->failed++;
    cf_pool_close(boss->pool, 0);
}

static void
on_pool_log(void *user, int level, const char *room, const char *line)
{
    if (level <= 1)
        fprintf(stderr, "pool: %s: %s\n", room, line);
}

static int
by_size(const void *a, const void *b)
{
    double left = *(const double *)a, right = *(const double *)b;

    return left < right ? -1 : left > right;
}

static void
on_pool_teardown(void *user, const char *json, size_t len)
{
    struct supervisor *boss = user;
    unsigned n = boss->first_count;

    boss->is_proven = boss->is_proven && strstr(json, "\"proven\":true") != NULL;
    qsort(boss->firsts, n, sizeof *boss->firsts, by_size);
    printf("{\"runs\":%u,\"ok\":%u,\"failed\":%u,\"most_open\":%u,\"took_ms\":%.1f,\"first_"
           "ms\":{\"p50\":%.1f,\"p99\":%.1f},"
           "\"teardown_proven\":%s}\n",
           boss->started, boss->ok, boss->failed, boss->most_open,
           boss->began_ns != 0 ? ms_since(boss->began_ns) : 0.0,
           n > 0 ? boss->firsts[n / 2] : -1.0, n > 0 ? boss->firsts[n * 99 / 100] : -1.0,
           boss->is_proven ? "true" : "false");
}

static void
on_pool_closed(void *user)
{
    struct supervisor *boss = user;

    for (int i = 0; i < 2; i++)
        uv_close((uv_handle_t *)&boss->signals[i], NULL);
}

static void
on_stop(uv_signal_t *handle, int signum)
{
    struct supervisor *boss = handle->data;

    boss->stops++;
    for (unsigned i = 0; i < boss->at_once; i++)
        if (boss->items[i].run != NULL)
            cf_run_close(boss->items[i].run, boss->stops > 1 ? 0 : 5000, NULL);
    cf_pool_close(boss->pool, boss->stops > 1 ? 0 : 5000);
}

/* ---- the command line
 * --------------------------------------------------------------------------- */

static uint64_t
number_after(int argc, char **argv, const char *name, uint64_t otherwise)
{
    for (int i = 4; i < argc; i++)
        if (strncmp(argv[i], name, strlen(name)) == 0 && argv[i][strlen(name)] == '=')
            return strtoull(argv[i] + strlen(name) + 1, NULL, 10);
    return otherwise;
}

static uint64_t
limit_of(const char *options)
{
    const char *at = strstr(options, "\"memory_bytes\":");

    return at != NULL ? strtoull(at + 15, NULL, 10) : 2ull << 30;
}

int
main(int argc, char **argv)
{
    struct supervisor boss = {.is_proven = true};
    struct cf_pool_host host = {.size = sizeof host,
                                .abi_major = CF_ABI_MAJOR,
                                .abi_minor = CF_ABI_MINOR,
                                .user = &boss,
                                .on_log = on_pool_log,
                                .on_ready = on_pool_ready,
                                .on_failed = on_pool_failed,
                                .on_state = on_pool_state,
                                .on_teardown = on_pool_teardown,
                                .on_closed = on_pool_closed};
    struct cf_error err;

    if (argc < 4)
        return fprintf(stderr, "usage: pool RELEASE_JSON OPTIONS_JSON PROMPT_JSON [runs=N] "
                               "[at_once=N] [memory=BYTES] [settle=1|2]\n"),
               2;
    (void)signal(SIGPIPE, SIG_IGN);
    boss.prompt = argv[3];
    boss.runs = (unsigned)number_after(argc, argv, "runs", 1) % RUNS_MOST;
    boss.at_once = (unsigned)number_after(argc, argv, "at_once", 8) % RUNS_MOST;
    boss.memory = number_after(argc, argv, "memory", uv_get_free_memory() / 10 * 8);
    boss.settle = (unsigned)number_after(argc, argv, "settle", 0) % 3;
    boss.memory_each = limit_of(argv[2]);
    boss.items = calloc(boss.at_once, sizeof *boss.items);
    boss.firsts = calloc(boss.runs, sizeof *boss.firsts);
    if (boss.items == NULL || boss.firsts == NULL || uv_loop_init(&boss.loop) < 0)
        return 2;
    if (boss.memory_each > boss.memory)
        return fprintf(stderr, "pool: not even one sandbox of %llu bytes fits in %llu\n",
                       (unsigned long long)boss.memory_each, (unsigned long long)boss.memory),
               2;
    if (cf_library_init(&err) < 0 ||
        cf_pool_open(&boss.loop, argv[1], strlen(argv[1]), argv[2], strlen(argv[2]), &host,
                     &boss.pool, &err) < 0)
        return fprintf(stderr, "pool: %s\n  fix: %s\n", err.text, err.fix), 2;
    for (int i = 0; i < 2; i++) {
        (void)uv_signal_init(&boss.loop, &boss.signals[i]);
        boss.signals[i].data = &boss;
        (void)uv_signal_start(&boss.signals[i], on_stop, i == 0 ? SIGINT : SIGTERM);
    }
    (void)uv_run(&boss.loop, UV_RUN_DEFAULT);
    if (uv_loop_close(&boss.loop) < 0)
        boss.is_proven = false; /* on_pool_closed came, and still something is open */
    free(boss.items);
    free(boss.firsts);
    return boss.stops > 0                           ? 130
           : boss.failed > 0 || boss.ok < boss.runs ? 1
           : boss.is_proven                         ? 0
                                                    : 4;
}
