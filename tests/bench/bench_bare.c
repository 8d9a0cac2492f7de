/*
 * bench_bare SOCKET IMAGE CF_INIT: the Engine calls that one sandbox cannot do without, made by a
 * client that does nothing else: create, PUT of cf-init, attach, wait, start, one byte of the
 * hello, end of input, wait's answer, remove. Blocking, one connection a call, no checks beyond
 * the status. What a whole run costs above this is ours.
 */
#include "tests/bench/bare.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

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
        bare_die(path);
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
        bare_die("usage: bench_bare SOCKET IMAGE CF_INIT");
    bare_socket = argv[1];
    snprintf(name, sizeof name, "bench-bare-%d", (int)getpid());
    tar = make_tar(argv[3], &tar_len);
    snprintf(body, sizeof body, spec, argv[2]);
    snprintf(path, sizeof path, "/containers/create?name=%s", name);
    bare_done(bare_ask("POST", path, "application/json", body, strlen(body)), 201);
    snprintf(path, sizeof path, "/containers/%s/archive?path=/", name);
    bare_done(bare_ask("PUT", path, "application/x-tar", tar, tar_len), 200);
    snprintf(path, sizeof path, "/containers/%s/attach?stream=1&stdin=1&stdout=1&stderr=1",
             name);
    attach = bare_hijack(path, "");
    snprintf(path, sizeof path, "/containers/%s/wait?condition=next-exit", name);
    wait = bare_ask("POST", path, "application/json", "", 0);
    if (bare_head(wait) != 200)
        bare_die("wait");
    snprintf(path, sizeof path, "/containers/%s/start", name);
    bare_done(bare_ask("POST", path, "application/json", "", 0), 204);
    if (read(attach, &byte, 1) != 1)
        bare_die("no hello");
    shutdown(attach, SHUT_WR);
    while (read(attach, body, sizeof body) > 0)
        ;
    while (read(wait, body, sizeof body) > 0)
        ;
    snprintf(path, sizeof path, "/containers/%s?force=1&v=1", name);
    bare_done(bare_ask("DELETE", path, "application/json", "", 0), 204);
    free(tar);
    return 0;
}
