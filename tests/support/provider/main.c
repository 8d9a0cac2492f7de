/*
 * provider: tests/support/provider.h as a program, and beside it an echo for tunnels.
 *
 * provider [--address A] [--port N] [--echo N] [--long BYTES]
 *
 * Prints "ADDRESS:PORT" when it listens, then "METHOD TARGET" and the request's headers of each
 * request, and serves until it is killed.
 */
#define PROVIDER_LONG provider_long
#include <stdint.h>
static uint64_t provider_long = 16u * 1024 * 1024;

#include "base/str.h"
#include "tests/support/provider.h"

#include <getopt.h>
#include <signal.h>

static unsigned told;

static void
tell(uv_check_t *check)
{
    struct provider *provider = check->data;

    if (provider->requests == told)
        return;
    told = provider->requests;
    printf("%s", provider->head.data);
    fflush(stdout);
}

/* ---- the echo ---------------------------------------------------------------------------------- */

struct echo {
    uv_tcp_t tcp;
    uv_write_t write;
    uv_shutdown_t end;
    char bytes[65536];
};

static void
echo_free(uv_handle_t *handle)
{
    free(handle->data);
}

static void
echo_ended(uv_shutdown_t *req, int status)
{
    (void)status;
    uv_close((uv_handle_t *)req->handle, echo_free);
}

static void echo_read(uv_stream_t *stream, ssize_t n, const uv_buf_t *buf);

static void
echo_alloc(uv_handle_t *handle, size_t suggested, uv_buf_t *buf)
{
    struct echo *echo = handle->data;

    (void)suggested;
    *buf = uv_buf_init(echo->bytes, sizeof echo->bytes);
}

static void
echo_written(uv_write_t *req, int status)
{
    if (status < 0)
        uv_close((uv_handle_t *)req->handle, echo_free);
    else
        uv_read_start(req->handle, echo_alloc, echo_read);
}

static void
echo_read(uv_stream_t *stream, ssize_t n, const uv_buf_t *buf)
{
    struct echo *echo = stream->data;
    uv_buf_t out;

    if (n == 0)
        return;
    uv_read_stop(stream);
    if (n > 0) {
        out = uv_buf_init(buf->base, (unsigned)n);
        uv_write(&echo->write, stream, &out, 1, echo_written);
    } else if (n == UV_EOF) {
        out = uv_buf_init("bye", 3); /* the way back is open still */
        uv_try_write(stream, &out, 1);
        uv_shutdown(&echo->end, stream, echo_ended);
    } else {
        uv_close((uv_handle_t *)stream, echo_free);
    }
}

static void
on_echo(uv_stream_t *listener, int status)
{
    struct echo *echo = calloc(1, sizeof *echo);

    if (echo == NULL || status < 0)
        abort();
    echo->tcp.data = echo;
    uv_tcp_init(listener->loop, &echo->tcp);
    if (uv_accept(listener, (uv_stream_t *)&echo->tcp) != 0)
        abort();
    uv_read_start((uv_stream_t *)&echo->tcp, echo_alloc, echo_read);
}

static bool
open_echo(uv_loop_t *loop, uv_tcp_t *listener, const char *address, unsigned port)
{
    struct sockaddr_in name;

    uv_ip4_addr(address, (int)port, &name);
    uv_tcp_init(loop, listener);
    return uv_tcp_bind(listener, (const struct sockaddr *)&name, 0) == 0 &&
           uv_listen((uv_stream_t *)listener, 64, on_echo) == 0;
}

int
main(int argc, char **argv)
{
    static const struct option names[] = {{"address", required_argument, NULL, 'a'},
                                          {"port", required_argument, NULL, 'p'},
                                          {"echo", required_argument, NULL, 'e'},
                                          {"long", required_argument, NULL, 'l'},
                                          {NULL, 0, NULL, 0}};
    const char *address = "127.0.0.1";
    struct provider provider;
    uv_tcp_t echo;
    uv_check_t check;
    uint64_t port = 0, echo_port = 0;
    uv_loop_t loop;
    int name;

    while ((name = getopt_long(argc, argv, "", names, NULL)) != -1)
        if (name == 'a')
            address = optarg;
        else if (!(name == 'p' && cf_parse_u64(optarg, 1, 65535, &port)) &&
                 !(name == 'e' && cf_parse_u64(optarg, 1, 65535, &echo_port)) &&
                 !(name == 'l' && cf_parse_u64(optarg, 1, INT64_MAX, &provider_long)))
            return 2;
    signal(SIGPIPE, SIG_IGN);
    uv_loop_init(&loop);
    if (!provider_open(&provider, &loop, address, (unsigned)port) ||
        (echo_port != 0 && !open_echo(&loop, &echo, address, (unsigned)echo_port))) {
        fprintf(stderr, "provider: cannot listen on %s\n", address);
        return 1;
    }
    uv_check_init(&loop, &check);
    check.data = &provider;
    uv_check_start(&check, tell);
    printf("%s:%u\n", address, provider.port);
    fflush(stdout);
    return uv_run(&loop, UV_RUN_DEFAULT);
}
