/*
 * escape MODE [ARGUMENT...]: a one-shot harness (text) that tries to get out of its sandbox.
 *
 *   probe [unix:PATH | tcp:ADDRESS:PORT]...
 *                 every attempt of tries.c, one line each: "NAME: denied ..." or "NAME: ALLOWED ..."
 *   tree N        N children in sessions of their own that ignore SIGTERM and hold stdout open,
 *                 then hangs, deaf as well;  tree-exit N: then ends with 0;  tree-crash N: by SIGSEGV
 *   stop-all      SIGSTOPs everything it can reach, itself last
 *   fill-tmp      fills /tmp, says what stopped it, leaves it full and ends with 0
 *   drown         makes pid 1 the first to go when memory is short, then fills every file system
 *                 that is memory
 *   raise-score   the former alone, then waits until it is taken back
 *   replace       puts something else in the place of pid 1's program
 *   pipes N       opens N pipes and fills each, says how many, and ends with 0
 *   flood N       N connections to the relay that send garbage and never read
 *   grow PATH N   writes N MiB into PATH, an existing file, says how many it could, and hangs
 *   forge         writes what looks like control frames to every stream it has
 *   euid          ends with 77 when it became root
 *   flee N        N times: makes a copy of itself in a new session and ends, the copies go on
 */
#include "escape.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

enum { MIB = 1024 * 1024, RELAY_PORT = 4180 };

static char block[MIB];

static int
hang(void)
{
    signal(SIGTERM, SIG_IGN);
    signal(SIGHUP, SIG_IGN);
    for (;;)
        pause();
    return 0;
}

static void
plant_trees(int count)
{
    for (int i = 0; i < count; i++) {
        if (fork() != 0)
            continue;
        setsid();
        if (fork() != 0)
            _exit(0);
        hang();
    }
    usleep(100 * 1000);
}

static int
stop_all(void)
{
    plant_trees(3);
    kill(-1, SIGSTOP); /* everything but pid 1 and the caller */
    raise(SIGSTOP);
    return 0;
}

/* How many MiB went into `path` before something stopped it. */
static int
grow(const char *path, int flags, long mib)
{
    int fd = open(path, O_WRONLY | flags, 0600);
    long done = 0;

    memset(block, 'x', sizeof block);
    while (fd >= 0 && done < mib && write(fd, block, sizeof block) == (ssize_t)sizeof block)
        done++;
    printf("%s: %ld MiB, then %s\n", path, done, done == mib ? "enough" : strerror(errno));
    return 0;
}

/* 1000 is the most that there is. */
static int
raise_score(void)
{
    int fd = open("/proc/1/oom_score_adj", O_RDWR), done;

    done = fd < 0 || write(fd, "1000", 4) != 4;
    printf("pid 1's score: %s\n", done == 0 ? "raised" : strerror(errno));
    if (fd >= 0)
        close(fd);
    return done;
}

/* Until it is what it was, or long past the next ping. */
static int
await_score(void)
{
    char text[16];

    for (int i = 0; i < 150; i++) {
        FILE *file = fopen("/proc/1/oom_score_adj", "r");
        int is_raised = file != NULL && fgets(text, sizeof text, file) != NULL && atoi(text) == 1000;

        if (file != NULL)
            fclose(file);
        if (!is_raised) {
            puts("pid 1's score: taken back");
            return 0;
        }
        usleep(100 * 1000);
    }
    return 1;
}

/* Small itself, so that pid 1 is the larger of the two. */
static int
drown(void)
{
    (void)raise_score();
    for (int i = 0; i < 2; i++) {
        int fd = open(i == 0 ? "/tmp/full" : "/dev/shm/full", O_WRONLY | O_CREAT, 0600);

        while (fd >= 0 && write(fd, block, 4096) == 4096)
            ;
    }
    return hang();
}

static int
replace(void)
{
    static const char script[] = "#!/bin/false\n";
    int gone = unlink("/.cf/cf-init");
    int fd = gone < 0 ? -1 : open("/.cf/cf-init", O_WRONLY | O_CREAT | O_EXCL, 0755);

    printf("cf-init: %s\n", fd >= 0 && write(fd, script, sizeof script - 1) > 0 ? "replaced" : strerror(errno));
    return 0;
}

static int
pipes(int count)
{
    struct rlimit limit;
    int ends[2], made = 0;

    getrlimit(RLIMIT_NOFILE, &limit);
    limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_NOFILE, &limit);
    while (made < count && pipe2(ends, O_NONBLOCK) == 0) {
        while (write(ends[1], block, 65536) > 0)
            ;
        made++;
    }
    printf("%d pipes\n", made);
    return 0;
}

static int
flood(int count)
{
    struct sockaddr_in relay = { .sin_family = AF_INET, .sin_port = htons(RELAY_PORT) };
    int made = 0;

    relay.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    signal(SIGPIPE, SIG_IGN);
    memset(block, '\xff', sizeof block);
    for (int i = 0; i < count; i++) {
        int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);

        if (fd < 0)
            break;
        (void)!connect(fd, (struct sockaddr *)&relay, sizeof relay);
        usleep(200);
        made += send(fd, block, 65536, MSG_NOSIGNAL | MSG_DONTWAIT) > 0;
    }
    printf("%d connections took bytes\n", made);
    return 0;
}

/* A frame's head, in every plausible form, and JSON that would be a control message. */
static int
forge(void)
{
    static const char bye[] = "{\"event\":\"bye\",\"type\":\"bye\",\"v\":1}";
    static const char *const places[] = { "/proc/1/fd/1", "/proc/1/fd/0", "/proc/self/fd/1",
                                          "/dev/stdout",  "/dev/console", "/dev/tty" };
    unsigned char frame[8 + sizeof bye] = { 0, 0, 0, 0, 5, 0, 0, sizeof bye - 1 };

    memcpy(frame + 8, bye, sizeof bye - 1);
    for (size_t i = 0; i < sizeof places / sizeof places[0]; i++) {
        int fd = open(places[i], O_WRONLY | O_NOCTTY);

        if (fd < 0)
            continue;
        for (int kind = 0; kind < 256; kind++) {
            frame[4] = (unsigned char)kind;
            (void)!write(fd, frame, sizeof frame - 1);
        }
        close(fd);
    }
    puts("\nforged");
    return 0;
}

static int
flee(int count)
{
    plant_trees(1);
    for (int i = 0; i < count; i++) {
        if (fork() != 0)
            _exit(0);
        setsid();
    }
    return hang();
}

int
main(int argc, char **argv)
{
    const char *mode = argc > 1 ? argv[1] : "";
    int count = argc > 2 ? atoi(argv[2]) : 10;

    setvbuf(stdout, NULL, _IOLBF, 0);
    if (strcmp(mode, "probe") == 0)
        return escape_probe(argv + 2);
    if (strcmp(mode, "euid") == 0) /* as a setuid program of the image */
        return geteuid() == 0 ? 77 : 0;
    if (strcmp(mode, "tree") == 0 || strcmp(mode, "tree-exit") == 0 || strcmp(mode, "tree-crash") == 0) {
        plant_trees(count);
        if (strcmp(mode, "tree-crash") == 0)
            raise(SIGSEGV);
        return mode[4] == '\0' ? hang() : 0;
    }
    if (strcmp(mode, "stop-all") == 0)
        return stop_all();
    if (strcmp(mode, "fill-tmp") == 0)
        return grow("/tmp/full", O_CREAT, 1L << 20);
    if (strcmp(mode, "drown") == 0)
        return drown();
    if (strcmp(mode, "raise-score") == 0)
        return raise_score() || await_score();
    if (strcmp(mode, "replace") == 0)
        return replace();
    if (strcmp(mode, "pipes") == 0)
        return pipes(count);
    if (strcmp(mode, "flood") == 0)
        return flood(count);
    if (strcmp(mode, "grow") == 0 && argc > 3)
        return grow(argv[2], O_APPEND, atol(argv[3])) || hang();
    if (strcmp(mode, "forge") == 0)
        return forge();
    if (strcmp(mode, "flee") == 0)
        return flee(count);
    fprintf(stderr, "escape: no mode \"%s\"\n", mode);
    return 2;
}
