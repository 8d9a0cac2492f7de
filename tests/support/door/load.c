/* Load: many connections, each with one request after the other; first bytes are timed. */
#include "door.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <unistd.h>

enum { CONNS = 512 };

struct line {
    int fd;
    struct timespec asked;
    int64_t left;     /* of a sized body; -1: not known yet; -2: chunked */
    char tail[8];     /* the last bytes, by which a chunked body ends */
    char head[2048];
    size_t head_len;
    int has_first;
};

struct load {
    const char *path, *body;
    int left, done, open;
    double *first_us;
    struct line lines[CONNS];
};

static void
next_request(struct load *load, struct line *line)
{
    if (load->left == 0) {
        close(line->fd);
        line->fd = -1;
        load->open--;
        return;
    }
    load->left--;
    line->left = -1;
    line->head_len = 0;
    line->has_first = 0;
    memset(line->tail, 0, sizeof line->tail);
    line->asked = door_now();
    if (door_send_request(line->fd, load->path, load->body, strlen(load->body)) < 0)
        exit(door_fail("send: %s", strerror(errno)));
}

static void
read_framing(struct line *line, char *end)
{
    char *length = strcasestr(line->head, "\r\nContent-Length:");

    *end = '\0';
    if (strncmp(line->head, "HTTP/1.1 200", 12) != 0)
        exit(door_fail("an answer that is not 200: %.60s", line->head));
    line->left = length != NULL ? atoll(length + 17) : -2;
}

static void
take(struct load *load, struct line *line, const char *bytes, size_t len)
{
    if (line->left == -1) {
        size_t room = sizeof line->head - 1 - line->head_len, had = line->head_len;
        size_t n = len < room ? len : room;
        memcpy(line->head + had, bytes, n);
        line->head_len += n;
        line->head[line->head_len] = '\0';
        char *end = strstr(line->head, "\r\n\r\n");
        if (end == NULL)
            return;
        size_t used = (size_t)(end - line->head) + 4 - had;
        read_framing(line, end);
        bytes += used;
        len -= used;
    }
    if (line->left >= 0) {
        line->left -= (int64_t)len;
    } else {
        size_t n = len < 5 ? len : 5;
        memmove(line->tail, line->tail + n, 5 - n);
        memcpy(line->tail + 5 - n, bytes + len - n, n);
    }
    if (line->left == 0 || (line->left == -2 && memcmp(line->tail, "0\r\n\r\n", 5) == 0)) {
        load->done++;
        next_request(load, line);
    }
}

static int
by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return x < y ? -1 : x > y;
}

static void
turn(struct load *load, int count)
{
    static char bytes[65536];
    struct pollfd at[CONNS];

    for (int i = 0; i < count; i++)
        at[i] = (struct pollfd){load->lines[i].fd, POLLIN, 0};
    if (poll(at, (nfds_t)count, 10000) <= 0)
        exit(door_fail("nothing came for 10 s"));
    for (int i = 0; i < count; i++) {
        struct line *line = &load->lines[i];
        if (at[i].fd < 0 || at[i].revents == 0)
            continue;
        ssize_t n = recv(line->fd, bytes, sizeof bytes, MSG_DONTWAIT);
        if (n <= 0)
            exit(door_fail("a connection ended"));
        if (!line->has_first)
            load->first_us[load->done] = door_since(line->asked) * 1e6;
        line->has_first = 1;
        take(load, line, bytes, (size_t)n);
    }
}

/* load PATH BODY CONNECTIONS COUNT: prints "RATE P50_US P99_US". */
int
door_load(int argc, char **argv)
{
    static struct load load;
    int count = argc > 4 ? atoi(argv[4]) : 1, total = argc > 5 ? atoi(argv[5]) : 1;
    struct timespec began;
    double took;

    if (argc < 4 || count > CONNS || total < count)
        return door_fail("load PATH BODY CONNECTIONS COUNT");
    load.path = argv[2];
    load.body = argv[3];
    load.left = total;
    load.open = count;
    load.first_us = calloc((size_t)total + 1, sizeof *load.first_us);
    for (int i = 0; i < count; i++)
        if ((load.lines[i].fd = door_connect(DOOR_RELAY)) < 0)
            return door_fail("connection %d: %s", i, strerror(errno));
    began = door_now();
    for (int i = 0; i < count; i++)
        next_request(&load, &load.lines[i]);
    while (load.open > 0)
        turn(&load, count);
    took = door_since(began);
    qsort(load.first_us, (size_t)total, sizeof *load.first_us, by_value);
    printf("%.0f %.0f %.0f\n", total / took, load.first_us[total / 2], load.first_us[(int)(total * 0.99)]);
    return 0;
}

/* hold PATH BODY COUNT SECONDS: that many requests whose answers are open, for so long. */
int
door_hold(int argc, char **argv)
{
    int count = argc > 4 ? atoi(argv[4]) : 1;
    char byte;

    for (int i = 0; argc > 5 && i < count; i++) {
        int fd = door_connect(DOOR_RELAY);
        if (fd < 0 || door_send_request(fd, argv[2], argv[3], strlen(argv[3])) < 0 || read(fd, &byte, 1) != 1)
            return door_fail("stream %d", i);
    }
    printf("held\n");
    fflush(stdout);
    sleep(argc > 5 ? (unsigned)atoi(argv[5]) : 0);
    return 0;
}
