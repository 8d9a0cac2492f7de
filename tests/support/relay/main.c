/*
 * relay: the relay room, replay backend, as a program on a TCP port, for tests with real
 * clients.
 *
 * relay --prompt NONCE --answer NONCE [--token T] [--model M] [--port N] [--max-calls N]
 *       [--script FILE] [--upstream URL] [--quiet]
 *
 * Prints "127.0.0.1:PORT TOKEN" as its first line, then one line per ledger row (JSON;
 * --quiet: none), and serves until SIGTERM or SIGINT.
 */
#include "base/str.h"
#include "relay/relay.h"

#include <curl/curl.h>
#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

static const struct cf_relay_dialect table[] = {
    {1, "anthropic_messages", "/v1/messages", "ANTHROPIC_BASE_URL"},
    {2, "openai_chat", "/v1/chat/completions", "OPENAI_BASE_URL"},
    {4, "openai_responses", "/v1/responses", "OPENAI_BASE_URL"},
    {8, "fal_queue", "/{model_id}", NULL},
};

struct program {
    uv_loop_t loop;
    uv_tcp_t listener;
    uv_signal_t term, interrupt;
    struct cf_relay *relay;
    struct cf_relay_options options;
    struct cf_relay_upstream upstream;
    struct cf_relay_turn turn;
    uint64_t port;
};

struct conn {
    struct program *program;
    uv_tcp_t tcp;
    uv_write_t write;
    struct cf_http_conn *http;
    bool is_writing, is_closing, is_ending; /* is_ending: close when the write is out */
    char in[64 * 1024], out[64 * 1024];
};

static void
on_conn_closed(uv_handle_t *handle)
{
    free(handle->data);
}

static void
conn_close(struct conn *conn)
{
    if (conn->is_closing)
        return;
    conn->is_closing = true;
    cf_relay_forget(conn->program->relay, conn->http);
    uv_close((uv_handle_t *)&conn->tcp, on_conn_closed);
}

static void
on_write(uv_write_t *req, int status)
{
    struct conn *conn = req->data;

    conn->is_writing = false;
    if (conn->is_closing)
        return;
    if (status < 0 || conn->is_ending)
        conn_close(conn);
    else
        cf_http_conn_writable(conn->http);
}

static size_t
io_write(void *user, const char *bytes, size_t len)
{
    struct conn *conn = user;
    uv_buf_t buf;
    int now;

    if (conn->is_writing || conn->is_closing)
        return 0;
    len = len < sizeof conn->out ? len : sizeof conn->out;
    buf = uv_buf_init((char *)bytes, (unsigned)len);
    now = uv_try_write((uv_stream_t *)&conn->tcp, &buf, 1);
    if (now > 0)
        return (size_t)now; /* mostly the socket has room */
    memcpy(conn->out, bytes, len);
    buf = uv_buf_init(conn->out, (unsigned)len);
    conn->write.data = conn;
    if (uv_write(&conn->write, (uv_stream_t *)&conn->tcp, &buf, 1, on_write) != 0)
        return 0; /* the read side says why */
    conn->is_writing = true;
    return len;
}

static void
io_shutdown(void *user)
{
    struct conn *conn = user;

    if (conn->is_writing)
        conn->is_ending = true;
    else
        conn_close(conn);
}

static void
io_reset(void *user)
{
    conn_close(user);
}

static void
io_consumed(void *user, size_t len)
{
}

static const struct cf_http_io io = {io_write, io_shutdown, io_reset, io_consumed, NULL};

static void
on_alloc(uv_handle_t *handle, size_t suggested, uv_buf_t *buf)
{
    struct conn *conn = handle->data;

    *buf = uv_buf_init(conn->in, sizeof conn->in);
}

static void
on_read(uv_stream_t *stream, ssize_t n, const uv_buf_t *buf)
{
    struct conn *conn = stream->data;

    if (n > 0) {
        cf_http_conn_feed(conn->http, buf->base, (size_t)n);
    } else if (n == UV_EOF) {
        (void)uv_read_stop(stream);
        cf_http_conn_eof(conn->http);
    } else if (n < 0) {
        conn_close(conn);
    }
}

static void
on_connection(uv_stream_t *listener, int status)
{
    struct program *program = listener->data;
    struct conn *conn = calloc(1, sizeof *conn);

    if (conn == NULL)
        abort();
    conn->program = program;
    conn->tcp.data = conn;
    (void)uv_tcp_init(&program->loop, &conn->tcp);
    conn->http = cf_relay_accept(program->relay, &io, conn);
    if (uv_accept(listener, (uv_stream_t *)&conn->tcp) != 0 || conn->http == NULL)
        conn_close(conn);
    (void)uv_tcp_nodelay(&conn->tcp, 1); /* as the door has it */
    if (!conn->is_closing)
        (void)uv_read_start((uv_stream_t *)&conn->tcp, on_alloc, on_read);
}

static void
on_call(void *user, const struct cf_relay_call *call)
{
    struct program *program = user;
    json_t *row = cf_relay_call_json(program->relay, call);

    (void)json_dumpf(row, stdout, JSON_COMPACT);
    (void)putchar('\n');
    fflush(stdout);
    json_decref(row);
}

static void
on_relay_closed(void *user)
{
}

static void
on_signal(uv_signal_t *handle, int number)
{
    struct program *program = handle->data;

    uv_close((uv_handle_t *)&program->term, NULL);
    uv_close((uv_handle_t *)&program->interrupt, NULL);
    uv_close((uv_handle_t *)&program->listener, NULL);
    cf_relay_close(program->relay, on_relay_closed, NULL);
}

static int
read_arguments(int argc, char **argv, struct program *program)
{
    static const struct option names[] = {
        {"prompt", required_argument, NULL, 'p'}, {"answer", required_argument, NULL, 'a'},
        {"token", required_argument, NULL, 't'},  {"model", required_argument, NULL, 'm'},
        {"port", required_argument, NULL, 'n'},   {"max-calls", required_argument, NULL, 'c'},
        {"script", required_argument, NULL, 's'}, {"upstream", required_argument, NULL, 'u'},
        {"quiet", no_argument, NULL, 'q'},        {NULL, 0, NULL, 0},
    };
    uint64_t number;
    int name;

    while ((name = getopt_long(argc, argv, "", names, NULL)) != -1) {
        if (name == 'p')
            program->turn.prompt_nonce = optarg;
        else if (name == 'a')
            program->turn.answer_nonce = optarg;
        else if (name == 't')
            program->options.token = optarg;
        else if (name == 'm')
            program->options.model = optarg;
        else if (name == 'n' && cf_parse_u64(optarg, 0, 65535, &number))
            program->port = number;
        else if (name == 'c' && cf_parse_u64(optarg, 1, 1000000, &number))
            program->options.caps.calls_per_turn = (unsigned)number;
        else if (name == 's')
            program->options.script = json_load_file(optarg, 0, NULL);
        else if (name == 'q')
            program->options.on_call = NULL;
        else if (name == 'u')
            program->upstream.url = optarg;
        else
            return -1;
    }
    return optind == argc && program->turn.prompt_nonce && program->turn.answer_nonce ? 0 : -1;
}

static void
listen_and_tell(struct program *program)
{
    struct sockaddr_storage address;
    int size = sizeof address;
    struct sockaddr_in local;

    (void)uv_tcp_init(&program->loop, &program->listener);
    program->listener.data = program->term.data = program->interrupt.data = program;
    (void)uv_ip4_addr("127.0.0.1", (int)program->port, &local);
    if (uv_tcp_bind(&program->listener, (const struct sockaddr *)&local, 0) != 0 ||
        uv_listen((uv_stream_t *)&program->listener, 128, on_connection) != 0 ||
        uv_tcp_getsockname(&program->listener, (struct sockaddr *)&address, &size) != 0) {
        fprintf(stderr, "relay: cannot listen\n");
        exit(1);
    }
    printf("127.0.0.1:%u %s\n", ntohs(((struct sockaddr_in *)&address)->sin_port),
           cf_relay_token(program->relay));
    fflush(stdout);
}

int
main(int argc, char **argv)
{
    static struct program program;
    struct cf_error err = {0};

    signal(SIGPIPE, SIG_IGN);
    program.turn.turn = 1;
    program.options.on_call = on_call;
    program.options.user = &program;
    program.options.caps.calls_per_turn = 1000000;
    if (read_arguments(argc, argv, &program) < 0) {
        fprintf(stderr,
                "usage: relay --prompt NONCE --answer NONCE [--token T] [--model M] "
                "[--port N] [--max-calls N] [--script FILE] [--upstream URL] [--quiet]\n");
        return 2;
    }
    program.options.dialect_table = table;
    program.options.dialect_count = CF_COUNT(table);
    program.options.dialects = 15;
    program.upstream.provider = "upstream";
    program.upstream.dialects = 15;
    program.options.upstreams = &program.upstream;
    program.options.upstream_count = program.upstream.url != NULL;
    curl_global_init(CURL_GLOBAL_DEFAULT);
    if (uv_loop_init(&program.loop) != 0 ||
        cf_relay_open(&program.loop, &program.options, &program.relay, &err) < 0) {
        fprintf(stderr, "relay: %s\n", err.text);
        return 1;
    }
    cf_relay_turn_begin(program.relay, &program.turn);
    listen_and_tell(&program);
    (void)uv_signal_init(&program.loop, &program.term);
    (void)uv_signal_init(&program.loop, &program.interrupt);
    (void)uv_signal_start(&program.term, on_signal, SIGTERM);
    (void)uv_signal_start(&program.interrupt, on_signal, SIGINT);
    uv_run(&program.loop, UV_RUN_DEFAULT);
    return uv_loop_close(&program.loop) == 0 ? 0 : 1;
}
