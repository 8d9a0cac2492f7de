/*
 * spoiler ENDPOINT METHOD TEXT FAULT [STATUS [SKIP [TIMES]]]: an Engine that fails in the middle,
 * for whole programs. Prints the endpoint it listens at, passes everything on to the real Engine
 * at ENDPOINT (unix://PATH), and spoils TIMES requests (default 1) of METHOD whose path holds
 * TEXT, from the SKIPth on. FAULT is a name below; "die" closes every connection at that request
 * and takes none any more. At SIGTERM it prints "hits N" and ends; it ends with its parent, too.
 */
#include <stdlib.h>

#define ck_assert_int_eq(a, b) \
    do { \
        if ((a) != (b)) \
            abort(); \
    } while (0)
#include "tests/support/engine_proxy.h"

#include <signal.h>
#include <sys/prctl.h>

static const char *const names[PROXY_FAULTS] = {
    [PROXY_NONE] = "none",           [PROXY_STATUS] = "status",         [PROXY_HANG] = "hang",
    [PROXY_RESET] = "reset",         [PROXY_GARBAGE] = "garbage",       [PROXY_LOST_HANG] = "lost-hang",
    [PROXY_LOST_RESET] = "lost-reset", [PROXY_CUT] = "cut",             [PROXY_SLOW] = "slow",
};

static void
on_term(uv_signal_t *signal, int number)
{
    struct engine_proxy *proxy = signal->data;

    printf("hits %d\n", proxy->hits);
    fflush(stdout);
    unlink(proxy->path);
    _exit(0);
}

/* "die" is a reset of that request, and of everything else within the millisecond. */
static void
on_look(uv_timer_t *timer)
{
    struct engine_proxy *proxy = timer->data;

    if (proxy->hits > 0)
        proxy_die(proxy);
}

static int
usage(void)
{
    fputs("usage: spoiler unix://PATH METHOD TEXT FAULT [STATUS [SKIP [TIMES]]]\nfaults: die", stderr);
    for (size_t i = 0; i < PROXY_FAULTS; i++)
        fprintf(stderr, " %s", names[i]);
    fputs("\n", stderr);
    return 2;
}

int
main(int argc, char **argv)
{
    struct engine_proxy proxy;
    uv_signal_t term;
    uv_timer_t look;
    uv_loop_t loop;
    bool dies = argc > 4 && strcmp(argv[4], "die") == 0;
    int fault = dies ? PROXY_RESET : -1;

    for (int i = 0; argc > 4 && i < PROXY_FAULTS; i++)
        if (strcmp(argv[4], names[i]) == 0)
            fault = i;
    if (fault < 0 || strncmp(argv[1], "unix://", 7) != 0)
        return usage();
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    signal(SIGPIPE, SIG_IGN);
    uv_loop_init(&loop);
    proxy_open(&proxy, &loop, argv[1]);
    proxy.method = argv[2];
    proxy.text = argv[3];
    proxy.fault = (enum proxy_fault)fault;
    proxy.status = argc > 5 ? atoi(argv[5]) : 500;
    proxy.skip = argc > 6 ? atoi(argv[6]) : 0;
    proxy.times = argc > 7 ? atoi(argv[7]) : 1;
    uv_signal_init(&loop, &term);
    term.data = &proxy;
    uv_signal_start(&term, on_term, SIGTERM);
    uv_timer_init(&loop, &look);
    look.data = &proxy;
    if (dies)
        uv_timer_start(&look, on_look, 1, 1);
    printf("%s\n", proxy.url);
    fflush(stdout);
    return uv_run(&loop, UV_RUN_DEFAULT);
}
