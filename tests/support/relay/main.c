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
#include "loop/http_listener.h"
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
    struct cf_http_listener *listener;
    uv_signal_t term, interrupt;
    struct cf_relay *relay;
    struct cf_relay_options options;
    struct cf_relay_upstream upstream;
    struct cf_relay_turn turn;
    uint64_t port;
};

static struct cf_http_conn *
accept_conn(void *user, const struct cf_http_io *io, void *io_user)
{
    return cf_relay_accept(((struct program *)user)->relay, io, io_user);
}

static void
forget_conn(void *user, struct cf_http_conn *http)
{
    cf_relay_forget(((struct program *)user)->relay, http);
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
on_listener_closed(void *user)
{
    cf_relay_close(((struct program *)user)->relay, on_relay_closed, NULL);
}

static void
on_signal(uv_signal_t *handle, int number)
{
    struct program *program = handle->data;

    uv_close((uv_handle_t *)&program->term, NULL);
    uv_close((uv_handle_t *)&program->interrupt, NULL);
    cf_http_listener_close(program->listener, on_listener_closed, program);
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

static int
listen_and_tell(struct program *program, struct cf_error *err)
{
    struct cf_http_listener_options port = {.address = "127.0.0.1",
                                            .port = (uint16_t)program->port,
                                            .most_conns = 1024,
                                            .accept = accept_conn,
                                            .forget = forget_conn,
                                            .user = program};

    if (cf_http_listener_open(&program->loop, &port, &program->listener, err) < 0)
        return -1;
    printf("127.0.0.1:%u %s\n", cf_http_listener_port(program->listener),
           cf_relay_token(program->relay));
    fflush(stdout);
    return 0;
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
        cf_relay_open(&program.loop, &program.options, &program.relay, &err) < 0 ||
        listen_and_tell(&program, &err) < 0) {
        fprintf(stderr, "relay: %s\n", err.text);
        return 1;
    }
    cf_relay_turn_begin(program.relay, &program.turn);
    program.term.data = program.interrupt.data = &program;
    (void)uv_signal_init(&program.loop, &program.term);
    (void)uv_signal_init(&program.loop, &program.interrupt);
    (void)uv_signal_start(&program.term, on_signal, SIGTERM);
    (void)uv_signal_start(&program.interrupt, on_signal, SIGINT);
    uv_run(&program.loop, UV_RUN_DEFAULT);
    return uv_loop_close(&program.loop) == 0 ? 0 : 1;
}
