/*
 * bare.h: the least that can be said to an Engine: one blocking connection a call on its unix
 * socket, no check beyond the status. What a benchmark puts our own numbers beside.
 */
#ifndef CF_TESTS_BENCH_BARE_H
#define CF_TESTS_BENCH_BARE_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

static const char *bare_socket;

static inline void
bare_die(const char *what)
{
    fprintf(stderr, "bench: %s\n", what);
    exit(1);
}

static inline int
bare_dial(void)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

    snprintf(address.sun_path, sizeof address.sun_path, "%s", bare_socket);
    if (fd < 0 || connect(fd, (struct sockaddr *)&address, sizeof address) < 0)
        bare_die("connect");
    return fd;
}

static inline void
bare_put(int fd, const void *bytes, size_t len)
{
    const char *at = bytes;

    while (len > 0) {
        ssize_t n = write(fd, at, len);
        if (n <= 0)
            bare_die("write");
        at += n;
        len -= (size_t)n;
    }
}

/* Reads the head; returns the status. */
static inline int
bare_head(int fd)
{
    char text[8192];
    size_t len = 0;

    while (len < sizeof text - 1 && read(fd, text + len, 1) == 1) {
        text[++len] = '\0';
        if (len >= 4 && strcmp(text + len - 4, "\r\n\r\n") == 0)
            return atoi(text + 9);
    }
    bare_die("no answer");
    return 0;
}

static inline int
bare_ask(const char *method, const char *path, const char *type, const void *body, size_t len)
{
    char text[1024];
    int fd = bare_dial();
    int n = snprintf(text, sizeof text,
                     "%s /v1.41%s HTTP/1.1\r\nHost: d\r\nConnection: close\r\nContent-Type: %s\r\n"
                     "Content-Length: %zu\r\n\r\n",
                     method, path, type, len);

    bare_put(fd, text, (size_t)n);
    bare_put(fd, body, len);
    return fd;
}

/* Reads the answer whole into `rest` (what fits of it), NUL-terminated. */
static inline void
bare_answer(int fd, int wanted, char *rest, size_t size)
{
    char dropped[4096];
    size_t len = 0;
    ssize_t n;

    if (bare_head(fd) != wanted)
        bare_die("status");
    while ((n = len < size - 1 ? read(fd, rest + len, size - 1 - len)
                               : read(fd, dropped, sizeof dropped)) > 0)
        len += len < size - 1 ? (size_t)n : 0;
    rest[len] = '\0';
    close(fd);
}

static inline void
bare_done(int fd, int wanted)
{
    char rest[4096];

    bare_answer(fd, wanted, rest, sizeof rest);
}

/* A connection that the Engine gave up for a stream of its own. */
static inline int
bare_hijack(const char *path, const char *body)
{
    char text[2048];
    int fd = bare_dial(), status;
    int n = snprintf(text, sizeof text,
                     "POST /v1.41%s HTTP/1.1\r\nHost: d\r\nConnection: Upgrade\r\nUpgrade: tcp\r\n"
                     "Content-Type: application/json\r\nContent-Length: %zu\r\n\r\n%s",
                     path, strlen(body), body);

    bare_put(fd, text, (size_t)n);
    status = bare_head(fd);
    if (status != 101 && status != 200)
        bare_die("attach");
    return fd;
}

#endif
