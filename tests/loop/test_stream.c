/* One interface for unix sockets, tcp and TLS: the same conversation over each of them. */
#include "base/buf.h"
#include "base/str.h"
#include "loop/stream.h"
#include "tests/support/tls_server.h"
#include "tests/support/unit.h"

#include <curl/curl.h>
#include <errno.h>

struct talk {
    uv_loop_t loop;
    uv_timer_t tick;
    struct cf_stream *stream;
    struct cf_buf in;
    bool opened, ended, closed;
    int written;
    struct cf_error err;
    bool close_on_data;
};

static void
on_tick(uv_timer_t *tick)
{
}
static void
on_open(void *user)
{
    ((struct talk *)user)->opened = true;
}
static void
on_written(void *user)
{
    ((struct talk *)user)->written++;
}
static void
on_closed(void *user)
{
    ((struct talk *)user)->closed = true;
}

static void
on_data(void *user, const char *bytes, size_t len)
{
    struct talk *talk = user;

    ck_assert(!talk->closed && !talk->ended);
    cf_buf_add(&talk->in, bytes, len);
    if (talk->close_on_data) {
        cf_stream_close(talk->stream, on_closed, talk);
        talk->stream = NULL;
        talk->close_on_data = false;
    }
}

static void
on_end(void *user, const struct cf_error *err)
{
    struct talk *talk = user;

    ck_assert(!talk->ended);
    talk->ended = true;
    if (err != NULL)
        talk->err = *err;
}

static const struct cf_stream_events events = {on_open, on_data, on_written, on_end};

static void
begin(struct talk *talk, const struct cf_stream_target *target, uint64_t connect_ms)
{
    memset(talk, 0, sizeof *talk);
    signal(SIGPIPE, SIG_IGN);
    curl_global_init(CURL_GLOBAL_DEFAULT);
    uv_loop_init(&talk->loop);
    uv_timer_init(&talk->loop, &talk->tick);
    uv_timer_start(&talk->tick, on_tick, 5, 5);
    uv_unref((uv_handle_t *)&talk->tick);
    struct cf_error err = {0};
    if (cf_stream_open(&talk->loop, target, connect_ms, &events, talk, &talk->stream, &err) <
        0)
        ck_abort_msg("%s", err.text);
    ck_assert(!talk->opened && !talk->ended);
}

#define RUN_UNTIL(talk, condition)                                  \
    while (!(condition) && uv_run(&(talk)->loop, UV_RUN_ONCE) != 0) \
        ;

static void
end(struct talk *talk)
{
    if (talk->stream != NULL)
        cf_stream_close(talk->stream, on_closed, talk);
    RUN_UNTIL(talk, talk->closed);
    ck_assert(talk->closed);
    uv_close((uv_handle_t *)&talk->tick, NULL);
    uv_run(&talk->loop, UV_RUN_DEFAULT);
    ck_assert_int_eq(uv_loop_close(&talk->loop), 0);
    cf_buf_release(&talk->in);
    curl_global_cleanup();
}

/* ---- an echo server, plain -------------------------------------------------------------- */

struct echo {
    pid_t pid;
    char path[64];
    unsigned port;
};

static void
echo_serve(int listener)
{
    signal(SIGCHLD, SIG_IGN);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    for (;;) {
        int client = accept(listener, NULL, NULL);
        if (client < 0 || fork() != 0) {
            close(client);
            continue;
        }
        char chunk[8192];
        ssize_t got;
        while ((got = read(client, chunk, sizeof chunk)) > 0)
            tls_send_all(client, chunk, got);
        tls_send_all(client, "bye", 3);
        _exit(0);
    }
}

static void
echo_start(struct echo *echo, bool is_unix)
{
    int listener = socket(is_unix ? AF_UNIX : AF_INET, SOCK_STREAM, 0);
    struct sockaddr_un path = {.sun_family = AF_UNIX};
    struct sockaddr_in name = {.sin_family = AF_INET,
                               .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof name;

    memset(echo, 0, sizeof *echo);
    snprintf(echo->path, sizeof echo->path, "/tmp/cf-echo-%d.sock", (int)getpid());
    unlink(echo->path);
    snprintf(path.sun_path, sizeof path.sun_path, "%s", echo->path);
    ck_assert_int_eq(is_unix ? bind(listener, (struct sockaddr *)&path, sizeof path)
                             : bind(listener, (struct sockaddr *)&name, sizeof name),
                     0);
    ck_assert_int_eq(listen(listener, 16), 0);
    if (!is_unix && getsockname(listener, (struct sockaddr *)&name, &len) == 0)
        echo->port = ntohs(name.sin_port);
    echo->pid = fork();
    if (echo->pid == 0)
        echo_serve(listener);
    close(listener);
}

static void
echo_stop(struct echo *echo)
{
    kill(echo->pid, SIGKILL);
    waitpid(echo->pid, NULL, 0);
    unlink(echo->path);
}

/* ---- the conversation ------------------------------------------------------------------- */

/* 3 MiB go out and come back, then the half-close, then the peer's last words and its end. */
static void
converse(struct talk *talk)
{
    static char big[3 << 20];
    struct cf_error err;

    for (size_t i = 0; i < sizeof big; i++)
        big[i] = (char)(i * 7 + i / 509);
    RUN_UNTIL(talk, talk->opened || talk->ended);
    if (!talk->opened)
        ck_abort_msg("%s", talk->err.text);
    ck_assert_int_eq(cf_stream_write(talk->stream, "one", 3, &err), 0);
    ck_assert_int_eq(talk->written, 0); /* never from inside */
    ck_assert_int_lt(cf_stream_write(talk->stream, "two", 3, &err), 0);
    RUN_UNTIL(talk, talk->written == 1 && talk->in.len == 3);
    ck_assert_int_eq(cf_stream_write(talk->stream, big, sizeof big, &err), 0);
    cf_stream_shutdown(talk->stream);
    cf_stream_shutdown(talk->stream);
    RUN_UNTIL(talk, talk->ended);
    ck_assert_msg(talk->err.kind == CF_ERROR_NONE, "%s", talk->err.text);
    ck_assert_int_eq(talk->written, 2);
    ck_assert_uint_eq(talk->in.len, 3 + sizeof big + 3);
    ck_assert_mem_eq(talk->in.data, "one", 3);
    ck_assert_mem_eq(talk->in.data + 3, big, sizeof big);
    ck_assert_str_eq(talk->in.data + 3 + sizeof big, "bye");
    ck_assert_int_lt(cf_stream_write(talk->stream, "x", 1, &err), 0);
}

START_TEST(a_unix_socket_carries_both_ways_and_half_closes)
{
    struct echo echo;
    struct talk talk;
    char address[64];

    echo_start(&echo, true);
    begin(&talk, &(struct cf_stream_target){.unix_path = echo.path}, 0);
    converse(&talk);
    cf_stream_local_address(talk.stream, address);
    ck_assert_str_eq(address, "");
    end(&talk);
    echo_stop(&echo);
}
END_TEST

START_TEST(tcp_carries_both_ways_and_half_closes)
{
    struct echo echo;
    struct talk talk;
    char address[64];

    echo_start(&echo, false);
    begin(&talk, &(struct cf_stream_target){.host = "localhost", .port = echo.port}, 0);
    converse(&talk);
    cf_stream_local_address(talk.stream, address);
    ck_assert_str_eq(address, "127.0.0.1");
    end(&talk);
    echo_stop(&echo);
}
END_TEST

static bool
tls_or_skip(struct tls_server *server, const char *test)
{
    tls_server_start(server, NULL);
    if (server->why_not == NULL)
        return true;
    printf("SKIPPED loop/%s: %s\n", test, server->why_not);
    fflush(stdout);
    tls_server_stop(server);
    return false;
}

struct pems {
    char ca[100], cert[100], key[100];
    struct cf_tls tls;
};

static void
take_pems(struct pems *pems, const struct tls_server *server)
{
    snprintf(pems->ca, sizeof pems->ca, "%s/ca.pem", server->dir);
    snprintf(pems->cert, sizeof pems->cert, "%s/cert.pem", server->dir);
    snprintf(pems->key, sizeof pems->key, "%s/key.pem", server->dir);
    pems->tls = (struct cf_tls){pems->ca, pems->cert, pems->key, false};
}

START_TEST(tls_carries_both_ways_and_half_closes)
{
    struct tls_server server;
    struct talk talk;
    struct pems pems;
    char address[64];

    if (!tls_or_skip(&server, "tls_carries_both_ways_and_half_closes"))
        return;
    take_pems(&pems, &server);
    begin(&talk,
          &(struct cf_stream_target){
              .host = "127.0.0.1", .port = server.port, .is_tls = true, .tls = &pems.tls},
          0);
    converse(&talk);
    cf_stream_local_address(talk.stream, address);
    ck_assert_str_eq(address, "127.0.0.1");
    end(&talk);
    tls_server_stop(&server);
}
END_TEST

START_TEST(tls_refuses_a_stranger)
{
    struct tls_server server;
    struct talk talk;
    struct pems pems;

    if (!tls_or_skip(&server, "tls_refuses_a_stranger"))
        return;
    take_pems(&pems, &server);
    pems.tls.ca_file = NULL; /* nobody we trust has signed it */
    begin(&talk,
          &(struct cf_stream_target){
              .host = "127.0.0.1", .port = server.port, .is_tls = true, .tls = &pems.tls},
          0);
    RUN_UNTIL(&talk, talk.opened || talk.ended);
    ck_assert(!talk.opened);
    ck_assert_int_eq(talk.err.kind, CF_ERROR_ENGINE);
    end(&talk);
    take_pems(&pems, &server);
    begin(&talk,
          &(struct cf_stream_target){
              .host = "localhost", .port = server.port, .is_tls = true, .tls = &pems.tls},
          0);
    RUN_UNTIL(&talk, talk.opened || talk.ended); /* the certificate names 127.0.0.1 only */
    ck_assert(!talk.opened);
    end(&talk);
    tls_server_stop(&server);
}
END_TEST

START_TEST(a_stream_may_be_closed_from_inside_its_own_data)
{
    struct echo echo;
    struct tls_server server;
    struct pems pems;
    struct talk talk;
    struct cf_error err;

    echo_start(&echo, true);
    begin(&talk, &(struct cf_stream_target){.unix_path = echo.path}, 0);
    talk.close_on_data = true;
    RUN_UNTIL(&talk, talk.opened);
    ck_assert_int_eq(cf_stream_write(talk.stream, "x", 1, &err), 0);
    end(&talk);
    echo_stop(&echo);
    if (!tls_or_skip(&server, "a_stream_may_be_closed_from_inside_its_own_data"))
        return;
    take_pems(&pems, &server);
    begin(&talk,
          &(struct cf_stream_target){
              .host = "127.0.0.1", .port = server.port, .is_tls = true, .tls = &pems.tls},
          0);
    talk.close_on_data = true;
    RUN_UNTIL(&talk, talk.opened);
    ck_assert_int_eq(cf_stream_write(talk.stream, "x", 1, &err), 0);
    end(&talk);
    tls_server_stop(&server);
}
END_TEST

START_TEST(closing_while_connecting_calls_nothing_else)
{
    struct talk talk;
    const struct cf_stream_target targets[] = {
        {.unix_path = "/tmp/none.sock"},
        {.host = "127.0.0.1", .port = 1},
        {.host = "127.0.0.1", .port = 1, .is_tls = true},
        {.host = "192.0.2.1", .port = 1},
        {.host = "no-such-name.invalid", .port = 1}};

    for (size_t i = 0; i < CF_COUNT(targets); i++) {
        begin(&talk, &targets[i], 0);
        end(&talk);
        ck_assert(!talk.opened && !talk.ended);
    }
}
END_TEST

START_TEST(failures_to_connect_say_where_and_why)
{
    static const struct {
        struct cf_stream_target target;
        const char *text;
        int code;
    } cases[] = {{{.unix_path = "/tmp/none.sock"}, "no such file", ENOENT},
                 {{.host = "127.0.0.1", .port = 1}, "refused", ECONNREFUSED},
                 {{.host = "127.0.0.1", .port = 1, .is_tls = true}, "127.0.0.1:1", 0}};
    struct talk talk;

    for (size_t i = 0; i < CF_COUNT(cases); i++) {
        begin(&talk, &cases[i].target, 0);
        RUN_UNTIL(&talk, talk.ended);
        ck_assert_msg(strstr(talk.err.text, cases[i].text) != NULL, "%s", talk.err.text);
        ck_assert_int_eq(talk.err.code, cases[i].code);
        end(&talk);
    }
}
END_TEST

START_TEST(a_socket_path_past_107_bytes_is_refused_not_cut)
{
    char path[120];
    struct cf_stream *stream;
    struct cf_error err;
    uv_loop_t loop;

    memset(path, 'a', sizeof path);
    path[0] = '/';
    path[108] = '\0';
    uv_loop_init(&loop);
    ck_assert_int_lt(cf_stream_open(&loop, &(struct cf_stream_target){.unix_path = path}, 0,
                                    &events, NULL, &stream, &err),
                     0);
    ck_assert_ptr_nonnull(strstr(err.text, "107"));
    uv_loop_close(&loop);
}
END_TEST

UNIT_MAIN("loop/stream", tcase_add_test(tc, a_unix_socket_carries_both_ways_and_half_closes);
          tcase_add_test(tc, tcp_carries_both_ways_and_half_closes);
          tcase_add_test(tc, tls_carries_both_ways_and_half_closes);
          tcase_add_test(tc, tls_refuses_a_stranger);
          tcase_add_test(tc, a_stream_may_be_closed_from_inside_its_own_data);
          tcase_add_test(tc, closing_while_connecting_calls_nothing_else);
          tcase_add_test(tc, failures_to_connect_say_where_and_why);
          tcase_add_test(tc, a_socket_path_past_107_bytes_is_refused_not_cut);)
