/*
 * door: a one-shot harness that does nothing but use its connections to the outside, in every
 * way the relay and the proxy have to bear. The prompt is read and not looked at; each line that
 * is printed is a finding for the test to read. Exit code 0 unless a connection did not do what
 * its mode is about.
 *
 *   hello                    one request, the first thing this process does; prints the answer
 *   ask PATH BODY            one request; prints "STATUS BODY"
 *   crowd N                  N connections at once, each with one request
 *   open N SECONDS           N connections that send nothing, half a head or half a body; meanwhile
 *                            fifty requests on others
 *   slow                     one answer that is not read; meanwhile a hundred requests; then it is
 *   download BYTES           one streamed answer from an upstream, of at least so many bytes
 *   upload MIB COUNT         COUNT requests of MIB mebibytes each, their sums compared
 *   listen                   the sockets that listen here
 *   connect HOST:PORT TEXT   a tunnel through the proxy: TEXT, half-close, what comes back
 *   tunnel HOST:PORT MIB     a tunnel that carries MIB mebibytes each way at once, by an echo
 *   fetch URL                a plain request through the proxy; prints "STATUS BODY"
 *   show NAME...             variables of the environment
 *   load, hold               load.c, for benchmarks
 *   leave                    a streamed answer whose connection is closed in the middle
 */
#include "door.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

extern char **environ;

static int
hello(int argc, char **argv)
{
    struct answer answer;

    if (door_ask("/v1/chat/completions",
                 "{\"model\":\"m\",\"messages\":[{\"role\":\"user\",\"content\":\"hello\"}]}", &answer) < 0)
        return door_fail("no answer");
    printf("%d\n", answer.status);
    return answer.status == 200 ? 0 : 1;
}

static int
ask(int argc, char **argv)
{
    struct answer answer;

    if (argc < 4 || door_ask(argv[2], argv[3], &answer) < 0)
        return door_fail("no answer");
    printf("%d %s\n", answer.status, answer.body);
    return 0;
}

/* ---- many connections -------------------------------------------------------------------------- */

static const char small[] = "{\"model\":\"m\",\"messages\":[{\"role\":\"user\",\"content\":\"x\"}]}";

static int
crowd(int argc, char **argv)
{
    int count = argc > 2 ? atoi(argv[2]) : 1, good = 0, fds[1000];

    for (int i = 0; i < count && i < 1000; i++)
        if ((fds[i] = door_connect(DOOR_RELAY)) < 0)
            return door_fail("connection %d: %s", i, strerror(errno));
    for (int i = 0; i < count; i++)
        if (door_send_request(fds[i], "/v1/chat/completions", small, strlen(small)) < 0)
            return door_fail("request %d", i);
    for (int i = count - 1; i >= 0; i--) { /* not in the order in which they were sent */
        struct answer answer;
        good += door_read_answer(fds[i], &answer) == 0 && answer.status == 200;
        close(fds[i]);
    }
    printf("%d of %d\n", good, count);
    return good == count ? 0 : 1;
}

static int
some_requests(int count)
{
    int good = 0;

    for (int i = 0; i < count; i++) {
        struct answer answer;
        good += door_ask("/v1/chat/completions", small, &answer) == 0 && answer.status == 200;
    }
    return good;
}

static int
open_many(int argc, char **argv)
{
    static const char head[] = "POST /v1/chat/comp";
    static const char body[] = "POST /v1/chat/completions HTTP/1.1\r\nContent-Length: 1000\r\nx-api-key: %s\r\n\r\n{";
    int count = argc > 2 ? atoi(argv[2]) : 1, seconds = argc > 3 ? atoi(argv[3]) : 0, good;
    char text[400];

    snprintf(text, sizeof text, body, door_token());
    for (int i = 0; i < count; i++) {
        int fd = door_connect(DOOR_RELAY);
        if (fd < 0)
            return door_fail("connection %d: %s", i, strerror(errno));
        if (i % 3 == 1 && write(fd, head, sizeof head - 1) < 0)
            return door_fail("write");
        if (i % 3 == 2 && write(fd, text, strlen(text)) < 0)
            return door_fail("write");
    }
    good = some_requests(50);
    printf("%d open, %d of 50\n", count, good);
    sleep((unsigned)seconds);
    return good == 50 ? 0 : 1;
}

static int
slow(int argc, char **argv)
{
    static const char big[] = "{\"model\":\"long\",\"stream\":true,\"messages\":[{\"role\":\"user\",\"content\":\"x\"}]}";
    int fd = door_connect(DOOR_RELAY), good;
    struct timespec began = door_now();
    uint64_t bytes;

    if (fd < 0 || door_send_request(fd, "/v1/chat/completions", big, strlen(big)) < 0)
        return door_fail("the slow one");
    usleep(300000);
    good = some_requests(100);
    printf("%d of 100 beside it, in %.1f s\n", good, door_since(began));
    bytes = door_read_stream(fd);
    printf("then %llu bytes\n", (unsigned long long)bytes);
    return good == 100 && bytes > 1000000 ? 0 : 1;
}

/* ---- much data ---------------------------------------------------------------------------------- */

static int
download(int argc, char **argv)
{
    static const char big[] = "{\"model\":\"long\",\"stream\":true,\"messages\":[{\"role\":\"user\",\"content\":\"x\"}]}";
    uint64_t wanted = argc > 2 ? strtoull(argv[2], NULL, 10) : 1;
    int fd = door_connect(DOOR_RELAY);
    struct timespec began = door_now();
    uint64_t bytes;

    if (fd < 0 || door_send_request(fd, "/v1/chat/completions", big, strlen(big)) < 0)
        return door_fail("no connection");
    bytes = door_read_stream(fd);
    printf("%llu bytes in %.1f s\n", (unsigned long long)bytes, door_since(began));
    return bytes >= wanted ? 0 : 1;
}

static int
upload(int argc, char **argv)
{
    size_t len = (size_t)(argc > 2 ? atoi(argv[2]) : 1) << 20;
    int count = argc > 3 ? atoi(argv[3]) : 1, fd = door_connect(DOOR_RELAY);
    char *body = malloc(len + 1), expected[100];
    uint64_t sum = 0;
    struct timespec began;

    if (body == NULL || fd < 0)
        return door_fail("no connection");
    memset(body, 'u', len);
    memcpy(body, "{\"model\":\"sum\",\"messages\":[],\"pad\":\"", 36);
    memcpy(body + len - 2, "\"}", 3);
    for (size_t i = 0; i < len; i++)
        sum = sum * 31 + (unsigned char)body[i];
    snprintf(expected, sizeof expected, "{\"bytes\":%zu,\"sum\":%llu}", len, (unsigned long long)sum);
    began = door_now();
    for (int i = 0; i < count; i++) {
        struct answer answer;
        if (door_send_request(fd, "/v1/messages", body, len) < 0 || door_read_answer(fd, &answer) < 0)
            return door_fail("upload %d: %s", i, strerror(errno));
        if (answer.status != 200 || strcmp(answer.body, expected) != 0)
            return door_fail("upload %d: %d %s, not %s", i, answer.status, answer.body, expected);
    }
    printf("%d times %zu bytes in %.1f s\n", count, len, door_since(began));
    return 0;
}

/* ---- the proxy ----------------------------------------------------------------------------------- */

static int
open_tunnel(const char *target)
{
    int fd = door_connect(DOOR_PROXY);
    char head[1024], got[1024];
    size_t len = 0;

    snprintf(head, sizeof head, "CONNECT %s HTTP/1.1\r\nHost: %s\r\n\r\n", target, target);
    if (fd < 0 || write(fd, head, strlen(head)) < 0)
        return -1;
    while (len < sizeof got - 1 && (len < 4 || memcmp(got + len - 4, "\r\n\r\n", 4) != 0)) {
        if (read(fd, got + len, 1) != 1)
            break;
        len++;
    }
    got[len] = '\0';
    if (strncmp(got, "HTTP/1.1 200", 12) == 0)
        return fd;
    len += (size_t)(read(fd, got + len, sizeof got - 1 - len) > 0 ? strlen(got + len) : 0);
    printf("%.3s %s", got + 9, strstr(got, "\r\n\r\n") != NULL ? strstr(got, "\r\n\r\n") + 4 : "\n");
    close(fd);
    return -1;
}

static int
connect_to(int argc, char **argv)
{
    int fd = argc > 3 ? open_tunnel(argv[2]) : -1;
    char got[4096];
    size_t len = 0;
    ssize_t n;

    if (fd < 0)
        return 0;
    if (write(fd, argv[3], strlen(argv[3])) < 0 || shutdown(fd, SHUT_WR) < 0)
        return door_fail("write");
    while (len < sizeof got - 1 && (n = read(fd, got + len, sizeof got - 1 - len)) > 0)
        len += (size_t)n;
    got[len] = '\0';
    printf("200 %s\n", got);
    return 0;
}

static int
tunnel(int argc, char **argv)
{
    uint64_t most = (uint64_t)(argc > 3 ? atoi(argv[3]) : 1) << 20, sent = 0, got = 0, wrong = 0;
    int fd = argc > 2 ? open_tunnel(argv[2]) : -1;
    static unsigned char out[65536], in[65536];
    struct timespec began = door_now();

    if (fd < 0)
        return 1;
    for (size_t i = 0; i < sizeof out; i++)
        out[i] = (unsigned char)(i * 7);
    fcntl(fd, F_SETFL, O_NONBLOCK);
    while (got < most) {
        struct pollfd at = {fd, (short)(POLLIN | (sent < most ? POLLOUT : 0)), 0};
        ssize_t n;
        if (poll(&at, 1, 30000) <= 0)
            return door_fail("nothing moves at %llu of %llu", (unsigned long long)got, (unsigned long long)most);
        if ((at.revents & POLLOUT) != 0 && sent < most) {
            size_t from = (size_t)(sent % sizeof out), left = sizeof out - from;
            n = write(fd, out + from, most - sent < left ? (size_t)(most - sent) : left);
            sent += n > 0 ? (uint64_t)n : 0;
            if (sent == most)
                shutdown(fd, SHUT_WR);
        }
        if ((at.revents & (POLLIN | POLLHUP)) != 0) {
            n = read(fd, in, sizeof in);
            if (n == 0)
                break;
            for (ssize_t i = 0; i < n && got + (uint64_t)i < most; i++)
                wrong += in[i] != (unsigned char)((got + (uint64_t)i) % sizeof out * 7);
            got += n > 0 ? (uint64_t)n : 0;
        }
    }
    printf("%llu out, %llu back, %llu wrong, in %.1f s\n", (unsigned long long)sent,
           (unsigned long long)(got < most ? got : most), (unsigned long long)wrong, door_since(began));
    return got >= most && wrong == 0 ? 0 : 1;
}

static int
fetch(int argc, char **argv)
{
    int fd = door_connect(DOOR_PROXY);
    struct answer answer;
    char head[1024];

    snprintf(head, sizeof head, "GET %s HTTP/1.1\r\nHost: x\r\n\r\n", argc > 2 ? argv[2] : "");
    if (fd < 0 || write(fd, head, strlen(head)) < 0 || door_read_answer(fd, &answer) < 0)
        return door_fail("no answer");
    printf("%d %s\n", answer.status, answer.body);
    return 0;
}

/* ---- the rest ------------------------------------------------------------------------------------ */

/* State 0A of /proc/net/tcp and tcp6 is LISTEN. */
static int
listen_list(int argc, char **argv)
{
    static const char *const files[] = {"/proc/net/tcp", "/proc/net/tcp6"};
    char line[512], local[128], state[8];

    for (int i = 0; i < 2; i++) {
        FILE *file = fopen(files[i], "r");
        while (file != NULL && fgets(line, sizeof line, file) != NULL)
            if (sscanf(line, " %*d: %127s %*s %7s", local, state) == 2 && strcmp(state, "0A") == 0)
                printf("listens %s\n", local);
        if (file != NULL)
            fclose(file);
    }
    return 0;
}

static int
show(int argc, char **argv)
{
    for (int i = 2; i < argc; i++)
        printf("%s=%s\n", argv[i], getenv(argv[i]) != NULL ? getenv(argv[i]) : "(not set)");
    return 0;
}

static int
leave(int argc, char **argv)
{
    static const char big[] = "{\"model\":\"pause\",\"stream\":true,\"messages\":[{\"role\":\"user\",\"content\":\"x\"}]}";
    int fd = door_connect(DOOR_RELAY);
    char some[256];

    if (fd < 0 || door_send_request(fd, "/v1/chat/completions", big, strlen(big)) < 0 ||
        read(fd, some, sizeof some) <= 0)
        return door_fail("no answer");
    close(fd);
    printf("left\n");
    usleep(300000); /* the row is written while we still live */
    return 0;
}

int
main(int argc, char **argv)
{
    static const struct {
        const char *name;
        int (*run)(int argc, char **argv);
    } modes[] = {{"hello", hello},       {"ask", ask},     {"crowd", crowd},       {"open", open_many},
                 {"slow", slow},         {"download", download}, {"upload", upload}, {"listen", listen_list},
                 {"connect", connect_to}, {"tunnel", tunnel}, {"fetch", fetch},     {"show", show},
                 {"leave", leave},       {"load", door_load}, {"hold", door_hold}};
    char prompt[4096];

    for (size_t i = 0; argc > 1 && i < sizeof modes / sizeof modes[0]; i++) {
        if (strcmp(modes[i].name, argv[1]) != 0)
            continue;
        int code = modes[i].run(argc, argv);
        while (read(STDIN_FILENO, prompt, sizeof prompt) > 0)
            ;
        return code;
    }
    return door_fail("no such mode");
}
