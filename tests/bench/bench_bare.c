/*
 * bench_bare SOCKET IMAGE CF_INIT: the Engine calls that one sandbox cannot do without, made by a
 * client that does nothing else: create, PUT of cf-init, attach, wait, start, one byte of the
 * hello, end of input, wait's answer, remove. Blocking, one connection a call, no checks beyond
 * the status. What a whole run costs above this is ours.
 */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

static const char *socket_path;

static void
die(const char *what)
{
    fprintf(stderr, "bench_bare: %s\n", what);
    exit(1);
}

static int
dial(void)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

    snprintf(address.sun_path, sizeof address.sun_path, "%s", socket_path);
    if (fd < 0 || connect(fd, (struct sockaddr *)&address, sizeof address) < 0)
        die("connect");
    return fd;
}

static void
put(int fd, const void *bytes, size_t len)
{
    const char *at = bytes;

    while (len > 0) {
        ssize_t n = write(fd, at, len);
        if (n <= 0)
            die("write");
        at += n;
        len -= (size_t)n;
    }
}

/* Reads the head; returns the status. */
static int
head(int fd)
{
    char text[8192];
    size_t len = 0;

    while (len < sizeof text - 1 && read(fd, text + len, 1) == 1) {
        text[++len] = '\0';
        if (len >= 4 && strcmp(text + len - 4, "\r\n\r\n") == 0)
            return atoi(text + 9);
    }
    die("no answer");
    return 0;
}

static int
ask(const char *method, const char *path, const char *type, const void *body, size_t len)
{
    char text[1024];
    int fd = dial();
    int n = snprintf(text, sizeof text,
                     "%s /v1.41%s HTTP/1.1\r\nHost: d\r\nConnection: close\r\nContent-Type: %s\r\nContent-Length: %zu\r\n\r\n",
                     method, path, type, len);

    put(fd, text, (size_t)n);
    put(fd, body, len);
    return fd;
}

static void
done(int fd, int wanted)
{
    char rest[4096];

    if (head(fd) != wanted)
        die("status");
    while (read(fd, rest, sizeof rest) > 0)
        ;
    close(fd);
}

static void
octal(char *to, size_t size, unsigned long value)
{
    snprintf(to, size, "%0*lo", (int)size - 1, value);
}

static size_t
tar_entry(char *to, const char *name, char type, unsigned mode, const void *bytes, size_t len)
{
    unsigned long sum = 0;

    memset(to, 0, 512);
    snprintf(to, 100, "%s", name);
    octal(to + 100, 8, mode);
    octal(to + 108, 8, 0);
    octal(to + 116, 8, 0);
    octal(to + 124, 12, len);
    octal(to + 136, 12, 0);
    to[156] = type;
    memcpy(to + 257, "ustar\00000", 8);
    memset(to + 148, ' ', 8);
    for (int i = 0; i < 512; i++)
        sum += (unsigned char)to[i];
    snprintf(to + 148, 8, "%06lo", sum);
    if (len > 0)
        memcpy(to + 512, bytes, len);
    return 512 + (len + 511) / 512 * 512;
}

static char *
make_tar(const char *path, size_t *ret_len)
{
    FILE *file = fopen(path, "rb");
    char *init = malloc(8 << 20), *tar = calloc(1, (8 << 20) + 4096);
    size_t len, at;

    if (file == NULL || init == NULL || tar == NULL)
        die(path);
    len = fread(init, 1, 8 << 20, file);
    fclose(file);
    at = tar_entry(tar, ".cf/", '5', 0755, NULL, 0);
    at += tar_entry(tar + at, ".cf/cf-init", '0', 0555, init, len);
    free(init);
    *ret_len = at + 1024;
    return tar;
}

int
main(int argc, char **argv)
{
    static const char spec[] =
        "{\"Image\":\"%s\",\"Entrypoint\":[\"/.cf/cf-init\"],\"Cmd\":[],\"OpenStdin\":true,\"StdinOnce\":true,\"AttachStdin\":true,"
        "\"AttachStdout\":true,\"AttachStderr\":true,\"Tty\":false,\"WorkingDir\":\"/\",\"HostConfig\":{\"NetworkMode\":\"none\","
        "\"CapDrop\":[\"ALL\"],\"SecurityOpt\":[\"no-new-privileges:true\"],\"Memory\":2147483648,\"MemorySwap\":2147483648,"
        "\"NanoCpus\":2000000000,\"PidsLimit\":512,\"LogConfig\":{\"Type\":\"none\"},"
        "\"Tmpfs\":{\"/tmp\":\"rw,exec,nosuid,nodev,mode=1777,size=1073741824\"}}}";
    char name[64], path[160], body[2048], byte;
    size_t tar_len;
    char *tar;
    int attach, wait;

    if (argc != 4)
        die("usage: bench_bare SOCKET IMAGE CF_INIT");
    socket_path = argv[1];
    snprintf(name, sizeof name, "bench-bare-%d", (int)getpid());
    tar = make_tar(argv[3], &tar_len);
    snprintf(body, sizeof body, spec, argv[2]);
    snprintf(path, sizeof path, "/containers/create?name=%s", name);
    done(ask("POST", path, "application/json", body, strlen(body)), 201);
    snprintf(path, sizeof path, "/containers/%s/archive?path=/", name);
    done(ask("PUT", path, "application/x-tar", tar, tar_len), 200);
    attach = dial();
    snprintf(body, sizeof body,
             "POST /v1.41/containers/%s/attach?stream=1&stdin=1&stdout=1&stderr=1 HTTP/1.1\r\nHost: d\r\n"
             "Connection: Upgrade\r\nUpgrade: tcp\r\nContent-Length: 0\r\n\r\n", name);
    put(attach, body, strlen(body));
    if (head(attach) != 101)
        die("attach");
    snprintf(path, sizeof path, "/containers/%s/wait?condition=next-exit", name);
    wait = ask("POST", path, "application/json", "", 0);
    if (head(wait) != 200)
        die("wait");
    snprintf(path, sizeof path, "/containers/%s/start", name);
    done(ask("POST", path, "application/json", "", 0), 204);
    if (read(attach, &byte, 1) != 1)
        die("no hello");
    shutdown(attach, SHUT_WR);
    while (read(attach, body, sizeof body) > 0)
        ;
    while (read(wait, body, sizeof body) > 0)
        ;
    snprintf(path, sizeof path, "/containers/%s?force=1&v=1", name);
    done(ask("DELETE", path, "application/json", "", 0), 204);
    free(tar);
    return 0;
}
