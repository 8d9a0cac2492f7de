/* HTTP by hand. */
#include "door.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <unistd.h>

int
door_fail(const char *fmt, ...)
{
    va_list args;

    va_start(args, fmt);
    vprintf(fmt, args);
    va_end(args);
    printf("\n");
    fflush(stdout);
    return 1;
}

struct timespec
door_now(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return now;
}

double
door_since(struct timespec began)
{
    struct timespec now = door_now();

    return (double)(now.tv_sec - began.tv_sec) + (double)(now.tv_nsec - began.tv_nsec) / 1e9;
}

const char *
door_token(void)
{
    const char *token = getenv("CHECKFU_MODEL_TOKEN");

    return token != NULL ? token : "";
}

int
door_connect(enum door_port port)
{
    const char *url = getenv(port == DOOR_RELAY ? "CHECKFU_MODEL_BASE_URL" : "HTTPS_PROXY");
    const char *colon = url != NULL ? strrchr(url, ':') : NULL;
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM, 0), on = 1;

    to.sin_port = htons((uint16_t)(colon != NULL ? atoi(colon + 1) : 0));
    if (fd >= 0)
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on); /* head and body are two writes */
    if (fd >= 0 && connect(fd, (struct sockaddr *)&to, sizeof to) == 0)
        return fd;
    if (fd >= 0)
        close(fd);
    return -1;
}

static int
send_all(int fd, const char *bytes, size_t len)
{
    while (len > 0) {
        ssize_t n = send(fd, bytes, len, MSG_NOSIGNAL);
        if (n <= 0)
            return -1;
        bytes += n;
        len -= (size_t)n;
    }
    return 0;
}

int
door_send_request(int fd, const char *path, const char *body, size_t len)
{
    char head[1024];

    if (len == 0)
        snprintf(head, sizeof head, "GET %s HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n", path);
    else
        snprintf(head, sizeof head,
                 "POST %s HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nx-api-key: %s\r\n"
                 "Content-Length: %zu\r\n\r\n",
                 path, door_token(), len);
    return send_all(fd, head, strlen(head)) < 0 || send_all(fd, body, len) < 0 ? -1 : 0;
}

/* ---- answers ------------------------------------------------------------------------------------- */

struct reader {
    int fd;
    char bytes[65536];
    size_t len, at;
};

static int
next(struct reader *r)
{
    if (r->at == r->len) {
        ssize_t n = read(r->fd, r->bytes, sizeof r->bytes);
        if (n <= 0)
            return -1;
        r->len = (size_t)n;
        r->at = 0;
    }
    return (unsigned char)r->bytes[r->at++];
}

static int
read_line(struct reader *r, char *line, size_t size)
{
    size_t len = 0;
    int ch;

    while ((ch = next(r)) >= 0 && ch != '\n')
        if (ch != '\r' && len < size - 1)
            line[len++] = (char)ch;
    line[len] = '\0';
    return ch < 0 && len == 0 ? -1 : (int)len;
}

struct framing {
    int status;
    int64_t length; /* -1: until the end; -2: chunked */
};

static int
read_head(struct reader *r, struct framing *framing)
{
    char line[2048];

    framing->length = -1;
    if (read_line(r, line, sizeof line) < 0 || sscanf(line, "HTTP/1.1 %d", &framing->status) != 1)
        return -1;
    for (;;) {
        int len = read_line(r, line, sizeof line);
        if (len <= 0)
            return len;
        if (strncasecmp(line, "Content-Length:", 15) == 0)
            framing->length = atoll(line + 15);
        if (strncasecmp(line, "Transfer-Encoding:", 18) == 0)
            framing->length = -2;
    }
}

/* Passes `len` bytes of body on (UINT64_MAX: until the end); how many there were. */
static uint64_t
take(struct reader *r, uint64_t len, char *to, size_t *at, size_t size)
{
    uint64_t taken = 0;

    while (taken < len) {
        size_t n;
        if (r->at == r->len) {
            if (next(r) < 0)
                break;
            r->at--;
        }
        n = r->len - r->at;
        if (n > len - taken)
            n = (size_t)(len - taken);
        for (size_t i = 0; to != NULL && i < n && *at < size - 1; i++)
            to[(*at)++] = r->bytes[r->at + i];
        r->at += n;
        taken += n;
    }
    return taken;
}

static uint64_t
read_body(struct reader *r, const struct framing *framing, char *to, size_t size)
{
    uint64_t total = 0, len;
    size_t at = 0;
    char line[256];

    if (framing->length >= 0)
        total = take(r, (uint64_t)framing->length, to, &at, size);
    else if (framing->length == -1)
        total = take(r, UINT64_MAX, to, &at, size);
    while (framing->length == -2 && read_line(r, line, sizeof line) >= 0) {
        len = strtoull(line, NULL, 16);
        total += take(r, len, to, &at, size);
        (void)read_line(r, line, sizeof line); /* behind a chunk, and the last empty line */
        if (len == 0)
            break;
    }
    if (to != NULL)
        to[at] = '\0';
    return total;
}

int
door_read_answer(int fd, struct answer *answer)
{
    static struct reader r;
    struct framing framing;

    r.fd = fd;
    r.len = r.at = 0;
    if (read_head(&r, &framing) < 0)
        return -1;
    answer->status = framing.status;
    (void)read_body(&r, &framing, answer->body, sizeof answer->body);
    return 0;
}

uint64_t
door_read_stream(int fd)
{
    static struct reader r;
    struct framing framing;

    r.fd = fd;
    r.len = r.at = 0;
    return read_head(&r, &framing) < 0 ? 0 : read_body(&r, &framing, NULL, 0);
}

int
door_ask(const char *path, const char *body, struct answer *answer)
{
    int fd = door_connect(DOOR_RELAY), status = -1;

    if (fd < 0)
        return -1;
    if (door_send_request(fd, path, body, strlen(body)) == 0)
        status = door_read_answer(fd, answer);
    close(fd);
    return status;
}
