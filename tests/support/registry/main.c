/*
 * registry: the registry room as a program of its own, for demos and tests.
 *
 * registry [--port N] [--user U --password P] [--directory D]
 *
 * Prints "127.0.0.1:PORT" as its first line and serves until SIGTERM or SIGINT. Without
 * --directory the blobs live in a fresh folder under TMPDIR that is removed at the end.
 */
#include "base/str.h"
#include "registry/registry.h"

#include <errno.h>
#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

struct program {
    uv_loop_t loop;
    uv_signal_t term, interrupt;
    struct cf_registry *registry;
};

static void
on_signal(uv_signal_t *handle, int number)
{
    struct program *program = handle->data;

    uv_close((uv_handle_t *)&program->term, NULL);
    uv_close((uv_handle_t *)&program->interrupt, NULL);
    cf_registry_close(program->registry, NULL, NULL);
}

static int
read_arguments(int argc, char **argv, struct cf_registry_options *options)
{
    static const struct option names[] = {
        {"port", required_argument, NULL, 'p'},
        {"user", required_argument, NULL, 'u'},
        {"password", required_argument, NULL, 'w'},
        {"directory", required_argument, NULL, 'd'},
        {NULL, 0, NULL, 0},
    };
    uint64_t port;
    int name;

    while ((name = getopt_long(argc, argv, "", names, NULL)) != -1) {
        if (name == 'p' && cf_parse_u64(optarg, 0, 65535, &port))
            options->port = (uint16_t)port;
        else if (name == 'u')
            options->user = optarg;
        else if (name == 'w')
            options->password = optarg;
        else if (name == 'd')
            options->directory = optarg;
        else
            return -1;
    }
    return optind == argc && (options->user == NULL) == (options->password == NULL) ? 0 : -1;
}

static int
serve(struct program *program, const struct cf_registry_options *options)
{
    struct cf_error err = {0};

    if (uv_loop_init(&program->loop) != 0 ||
        cf_registry_open(&program->loop, options, &program->registry, &err) < 0) {
        fprintf(stderr, "registry: %s\n", err.text);
        return 1;
    }
    program->term.data = program->interrupt.data = program;
    uv_signal_init(&program->loop, &program->term);
    uv_signal_init(&program->loop, &program->interrupt);
    uv_signal_start(&program->term, on_signal, SIGTERM);
    uv_signal_start(&program->interrupt, on_signal, SIGINT);
    printf("127.0.0.1:%u\n", cf_registry_port(program->registry));
    fflush(stdout);
    uv_run(&program->loop, UV_RUN_DEFAULT);
    return uv_loop_close(&program->loop) == 0 ? 0 : 1;
}

int
main(int argc, char **argv)
{
    struct cf_registry_options options = {0};
    static struct program program;
    const char *parent = getenv("TMPDIR");
    char folder[256];
    int status;

    signal(SIGPIPE, SIG_IGN);
    if (read_arguments(argc, argv, &options) < 0) {
        fprintf(stderr,
                "usage: registry [--port N] [--user U --password P] [--directory D]\n");
        return 2;
    }
    if (options.directory != NULL)
        return serve(&program, &options);
    snprintf(folder, sizeof folder, "%s/cfrunner-registry-XXXXXX",
             parent != NULL ? parent : "/tmp");
    if (mkdtemp(folder) == NULL) {
        fprintf(stderr, "registry: %s: %s\n", folder, strerror(errno));
        return 1;
    }
    options.directory = folder;
    status = serve(&program, &options);
    if (rmdir(folder) != 0) {
        fprintf(stderr, "registry: %s is not empty at the end: %s\n", folder, strerror(errno));
        status = 1;
    }
    return status;
}
