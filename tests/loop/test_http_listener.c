/* A port with real sockets at both ends: the client's are plain, and moved by the test. */
#include "base/buf.h"
#include "loop/http_listener.h"
#include "tests/support/unit.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define LONG (32u * 1024 * 1024) /* more than the buffers of two sockets hold */

/* What the server does is said by the path: / answers, /mute never does, /long streams LONG bytes,
 * /wait takes its body only when the test says so, /bye answers and closes, /end closes the port. */
struct stage {
    uv_loop_t loop;
    struct cf_http_listener *listener;
    struct cf_http_conn *waiting; /* of the exchange that is paused, or mute */
    uint64_t got, sent;
    unsigned requests, done, aborts, accepted, forgotten;
    bool is_closed, is_eager;
};

static void
on_closed(void *user)
{
    struct stage *stage = user;

    ck_assert(!stage->is_closed);
    ck_assert_uint_eq(stage->forgotten, stage->accepted);
    stage->is_closed = true;
}

static void
pump(struct stage *stage, struct cf_http_conn *http)
{
    static char piece[16 * 1024];

    while (stage->sent < LONG && cf_http_reply_queued(http) < sizeof piece) {
        for (size_t i = 0; i < sizeof piece; i++)
            piece[i] = (char)((stage->sent + i) % 251);
        ck_assert_int_eq(cf_http_reply_body(http, piece, sizeof piece), 0);
        stage->sent += sizeof piece;
    }
    if (stage->sent >= LONG)
        ck_assert_int_eq(cf_http_reply_end(http), 0);
}

static void
on_request(void *user, struct cf_http_conn *http, const struct cf_http_request *request)
{
    static const char *const bye[] = {"Connection", "close", NULL};
    struct stage *stage = user;

    ck_assert(!stage->is_closed);
    stage->requests++;
    stage->waiting = http;
    if (strcmp(request->path, "/long") == 0) {
        ck_assert_int_eq(cf_http_reply_head(http, 200, NULL, LONG), 0);
        pump(stage, http);
    } else if (strcmp(request->path, "/bye") == 0) {
        (void)cf_http_reply(http, 200, "text/plain", bye, "bye\n", 4);
    } else if (strcmp(request->path, "/end") == 0) {
        cf_http_listener_close(stage->listener, on_closed, stage);
    } else if (strcmp(request->path, "/") == 0) {
        (void)cf_http_reply(http, 200, "text/plain", NULL, "hello\n", 6);
    }
}

static int
on_body(void *user, struct cf_http_conn *http, const char *bytes, size_t len)
{
    struct stage *stage = user;

    stage->got += len;
    return stage->is_eager ? 0 : CF_HTTP_PAUSE;
}

static void
on_complete(void *user, struct cf_http_conn *http)
{
    struct stage *stage = user;

    if (stage->is_eager)
        (void)cf_http_reply(http, 200, "text/plain", NULL, "all\n", 4);
}

static void
on_drain(void *user, struct cf_http_conn *http)
{
    pump(user, http);
}

static void
on_done(void *user, struct cf_http_conn *http)
{
    ((struct stage *)user)->done++;
}

static void
on_abort(void *user, struct cf_http_conn *http)
{
    ck_assert(!((struct stage *)user)->is_closed);
    ((struct stage *)user)->aborts++;
}

static const struct cf_http_handler handler = {.on_request = on_request,
                                               .on_body = on_body,
                                               .on_complete = on_complete,
                                               .on_drain = on_drain,
                                               .on_done = on_done,
                                               .on_abort = on_abort};

static struct cf_http_conn *
accept_conn(void *user, const struct cf_http_io *io, void *io_user)
{
    ((struct stage *)user)->accepted++;
    return cf_http_conn_new(io, io_user, &handler, user, 0);
}

static void
forget_conn(void *user, struct cf_http_conn *http)
{
    ((struct stage *)user)->forgotten++;
    cf_http_conn_gone(http);
    cf_http_conn_free(http);
}

static void
stage_open(struct stage *stage, unsigned most_conns, unsigned idle_ms)
{
    struct cf_http_listener_options options = {.address = "127.0.0.1",
                                               .most_conns = most_conns,
                                               .idle_ms = idle_ms,
                                               .accept = accept_conn,
                                               .forget = forget_conn,
                                               .user = stage};
    struct cf_error err = {0};

    signal(SIGPIPE, SIG_IGN);
    memset(stage, 0, sizeof *stage);
    ck_assert_int_eq(uv_loop_init(&stage->loop), 0);
    ck_assert_msg(cf_http_listener_open(&stage->loop, &options, &stage->listener, &err) == 0,
                  "%s", err.text);
    ck_assert_uint_ne(cf_http_listener_port(stage->listener), 0);
}

/* Nothing is called afterwards, and nothing is left on the loop. */
static void
stage_close(struct stage *stage)
{
    cf_http_listener_close(stage->listener, on_closed, stage);
    ck_assert(!stage->is_closed);
    uv_run(&stage->loop, UV_RUN_DEFAULT);
    ck_assert(stage->is_closed);
    ck_assert_int_eq(uv_loop_close(&stage->loop), 0);
}

/* ---- the other end ------------------------------------------------------------------- */

static int
client_to(int family, const struct sockaddr *at, socklen_t size)
{
    int fd = socket(family, SOCK_STREAM, 0);

    ck_assert_int_ge(fd, 0);
    if (connect(fd, at, size) != 0) {
        close(fd);
        return -1;
    }
    ck_assert_int_eq(fcntl(fd, F_SETFL, O_NONBLOCK), 0);
    return fd;
}

static int
client(struct stage *stage)
{
    struct sockaddr_in at = {.sin_family = AF_INET,
                             .sin_port = htons(cf_http_listener_port(stage->listener)),
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = client_to(AF_INET, (struct sockaddr *)&at, sizeof at);

    ck_assert_int_ge(fd, 0);
    return fd;
}

static void
say(int fd, const char *text)
{
    ck_assert_int_eq(write(fd, text, strlen(text)), (ssize_t)strlen(text));
}

static void
turn(struct stage *stage)
{
    (void)uv_run(&stage->loop, UV_RUN_NOWAIT);
    usleep(500);
}

/* What comes until `end` stands in it, or (NULL) until the other side's end; false: a reset. */
static bool
hear(struct stage *stage, int fd, const char *end, struct cf_buf *to)
{
    static char bytes[256 * 1024];

    cf_buf_reset(to);
    for (unsigned silent = 0; silent < 20000; silent++) {
        ssize_t n = read(fd, bytes, sizeof bytes);
        if (n == 0)
            return end == NULL;
        if (n < 0 && errno != EAGAIN)
            return false;
        if (n < 0) {
            turn(stage);
            continue;
        }
        ck_assert_int_eq(cf_buf_add(to, bytes, (size_t)n), 0);
        if (end != NULL && strstr(to->data, end) != NULL)
            return true;
        silent = 0;
    }
    ck_abort_msg("nothing comes any more");
    return false;
}

START_TEST(requests_of_one_connection_are_answered_in_order)
{
    struct cf_buf heard = {0};
    struct stage stage;

    stage_open(&stage, 4, 0);
    int fd = client(&stage);
    say(fd, "GET / HTTP/1.1\r\nHost: a\r\n\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\nGET /bye HTTP/1.1\r\n"
            "Host: a\r\n\r\n");
    ck_assert(hear(&stage, fd, "bye\n", &heard));
    ck_assert_uint_eq(stage.requests, 3);
    ck_assert_uint_eq(stage.done, 3);
    ck_assert_uint_eq(stage.aborts, 0);
    close(fd);
    stage_close(&stage);
    cf_buf_release(&heard);
}
END_TEST

START_TEST(a_body_that_is_not_taken_holds_its_writer)
{
    static const char piece[64 * 1024];
    struct cf_buf heard = {0};
    struct stage stage;
    uint64_t written = 0, stuck = 0;
    char head[100];

    stage_open(&stage, 4, 0);
    int fd = client(&stage);
    snprintf(head, sizeof head, "POST /wait HTTP/1.1\r\nHost: a\r\nContent-Length: %u\r\n\r\n", LONG);
    say(fd, head);
    for (unsigned silent = 0; written < LONG && silent < 400; silent++) {
        ssize_t n = write(fd, piece, sizeof piece);
        written += n > 0 ? (uint64_t)n : 0;
        silent = n > 0 ? 0 : silent;
        turn(&stage);
    }
    ck_assert_uint_lt(written, LONG);
    ck_assert_uint_le(stage.got, 64 * 1024); /* one read's worth, and no more */
    ck_assert_uint_eq(stage.aborts, 0);
    stuck = stage.got;
    stage.is_eager = true;
    cf_http_conn_resume(stage.waiting);
    while (written < LONG) {
        size_t left = LONG - written;
        ssize_t n = write(fd, piece, left < sizeof piece ? left : sizeof piece);
        written += n > 0 ? (uint64_t)n : 0;
        (void)uv_run(&stage.loop, UV_RUN_NOWAIT);
    }
    ck_assert(hear(&stage, fd, "all\n", &heard));
    ck_assert_uint_gt(stage.got, stuck);
    ck_assert_uint_eq(stage.got, LONG);
    close(fd);
    stage_close(&stage);
    cf_buf_release(&heard);
}
END_TEST

START_TEST(an_answer_that_is_not_read_holds_its_handler_and_comes_whole)
{
    struct cf_buf heard = {0};
    struct stage stage;
    uint64_t stuck = 1;

    stage_open(&stage, 4, 0);
    int fd = client(&stage);
    say(fd, "GET /long HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
    while (stage.sent != stuck) {
        stuck = stage.sent;
        for (int i = 0; i < 100; i++)
            turn(&stage);
    }
    ck_assert_uint_lt(stage.sent, LONG);
    ck_assert(hear(&stage, fd, NULL, &heard));
    const char *body = strstr(heard.data, "\r\n\r\n") + 4;
    ck_assert_uint_eq(heard.len - (size_t)(body - heard.data), LONG);
    for (size_t i = 0; i < LONG; i++)
        if (body[i] != (char)(i % 251))
            ck_abort_msg("byte %zu is wrong", i);
    ck_assert_uint_eq(stage.done, 1);
    close(fd);
    stage_close(&stage);
    cf_buf_release(&heard);
}
END_TEST

START_TEST(one_connection_too_many_is_closed_and_there_is_room_again_afterwards)
{
    struct cf_buf heard = {0};
    struct stage stage;
    int fds[3];

    stage_open(&stage, 2, 0);
    for (int i = 0; i < 3; i++)
        fds[i] = client(&stage);
    ck_assert(hear(&stage, fds[2], NULL, &heard));
    ck_assert_uint_eq(heard.len, 0);
    ck_assert_uint_eq(stage.accepted, 2);
    close(fds[2]);
    close(fds[0]);
    while (stage.forgotten == 0)
        turn(&stage);
    fds[0] = client(&stage);
    for (int i = 0; i < 2; i++) {
        say(fds[i], "GET / HTTP/1.1\r\nHost: a\r\n\r\n");
        ck_assert(hear(&stage, fds[i], "hello\n", &heard));
        close(fds[i]);
    }
    stage_close(&stage);
    cf_buf_release(&heard);
}
END_TEST

START_TEST(who_brings_nothing_for_a_second_keeps_nobody_out)
{
    struct cf_buf heard = {0};
    struct stage stage;
    int fds[2], late;

    stage_open(&stage, 2, 0);
    for (int i = 0; i < 2; i++) {
        fds[i] = client(&stage);
        say(fds[i], "P");
    }
    for (uint64_t until = uv_hrtime() + 1800000000u; uv_hrtime() < until;)
        turn(&stage);
    late = client(&stage);
    say(late, "GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    ck_assert(hear(&stage, late, "hello\n", &heard));
    ck_assert_uint_eq(stage.forgotten, 1); /* one lost its place, and only one */
    ck_assert_uint_eq(stage.accepted, 3);
    close(late);
    close(fds[0]);
    close(fds[1]);
    stage_close(&stage);
    cf_buf_release(&heard);
}
END_TEST

START_TEST(silence_ends_a_connection_in_the_way_that_fits_it)
{
    struct cf_buf heard = {0};
    struct stage stage;

    stage_open(&stage, 4, 300);
    int idle = client(&stage), half = client(&stage), mute = client(&stage), rude = client(&stage);
    say(half, "GET / HTTP/1.1\r\nHo");
    say(mute, "GET /mute HTTP/1.1\r\nHost: a\r\n\r\n");
    say(rude, "GET /bye HTTP/1.1\r\nHost: a\r\n\r\n");
    ck_assert(hear(&stage, rude, "bye\n", &heard)); /* and never closes */
    ck_assert(hear(&stage, idle, NULL, &heard));
    ck_assert_uint_eq(heard.len, 0);
    ck_assert(hear(&stage, half, NULL, &heard));
    ck_assert(strncmp(heard.data, "HTTP/1.1 408 ", 13) == 0);
    ck_assert(hear(&stage, mute, NULL, &heard));
    ck_assert_uint_eq(heard.len, 0);
    ck_assert_uint_eq(stage.aborts, 1);
    while (stage.forgotten < 4)
        turn(&stage);
    for (int *fd = (int[]){idle, half, mute, rude, -1}; *fd >= 0; fd++)
        close(*fd);
    stage_close(&stage);
    cf_buf_release(&heard);
}
END_TEST

START_TEST(a_peer_that_goes_aborts_what_was_open)
{
    struct linger at_once = {.l_onoff = 1};
    struct stage stage;

    stage_open(&stage, 4, 0);
    int polite = client(&stage), rude = client(&stage);
    say(polite, "GET /mute HTTP/1.1\r\nHost: a\r\n\r\n");
    say(rude, "GET /mute HTTP/1.1\r\nHost: a\r\n\r\n");
    while (stage.requests < 2)
        turn(&stage);
    setsockopt(rude, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once); /* a reset */
    close(polite);
    close(rude);
    while (stage.forgotten < 2)
        turn(&stage);
    ck_assert_uint_eq(stage.aborts, 2);
    stage_close(&stage);
}
END_TEST

START_TEST(what_comes_behind_the_last_answer_is_no_reset)
{
    static const char more[64 * 1024];
    struct cf_buf heard = {0};
    struct stage stage;
    size_t left = 16 * sizeof more;

    stage_open(&stage, 4, 0);
    int fd = client(&stage);
    say(fd, "POST /bye HTTP/1.1\r\nHost: a\r\nContent-Length: 1048576\r\n\r\n");
    while (stage.done == 0)
        turn(&stage);
    while (left > 0) {
        ssize_t n = write(fd, more, left < sizeof more ? left : sizeof more);
        ck_assert(n > 0 || errno == EAGAIN);
        left -= n > 0 ? (size_t)n : 0;
        turn(&stage);
    }
    ck_assert(hear(&stage, fd, NULL, &heard));
    ck_assert_ptr_nonnull(strstr(heard.data, "bye\n"));
    close(fd);
    while (stage.forgotten == 0)
        turn(&stage);
    stage_close(&stage);
    cf_buf_release(&heard);
}
END_TEST

START_TEST(close_ends_what_is_open_and_nothing_is_called_behind_on_closed)
{
    struct stage stage;

    stage_open(&stage, 4, 0);
    int open = client(&stage), idle = client(&stage), late;
    say(open, "GET /mute HTTP/1.1\r\nHost: a\r\n\r\n");
    while (stage.requests == 0 || stage.accepted < 2)
        turn(&stage);
    late = client(&stage); /* the kernel has it, we do not */
    say(late, "GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    stage_close(&stage);
    ck_assert_uint_eq(stage.aborts, 1);
    ck_assert_uint_eq(stage.requests, 1);
    close(open);
    close(idle);
    close(late);
}
END_TEST

START_TEST(the_port_may_be_closed_from_inside_a_request)
{
    struct stage stage;

    stage_open(&stage, 4, 0);
    int fd = client(&stage);
    say(fd, "GET /end HTTP/1.1\r\nHost: a\r\n\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n");
    uv_run(&stage.loop, UV_RUN_DEFAULT);
    ck_assert(stage.is_closed);
    ck_assert_uint_eq(stage.aborts, 1);
    ck_assert_uint_eq(stage.requests, 1);
    ck_assert_int_eq(uv_loop_close(&stage.loop), 0);
    close(fd);
}
END_TEST

START_TEST(a_port_that_is_taken_and_an_address_that_is_none_are_told)
{
    struct cf_http_listener_options options = {.most_conns = 1, .accept = accept_conn};
    struct cf_http_listener *other = NULL;
    struct cf_error err = {0};
    struct stage stage;

    stage_open(&stage, 4, 0);
    options.address = "127.0.0.1";
    options.port = cf_http_listener_port(stage.listener);
    ck_assert_int_eq(cf_http_listener_open(&stage.loop, &options, &other, &err), -1);
    ck_assert_int_eq(err.code, EADDRINUSE);
    ck_assert_ptr_nonnull(strstr(err.text, "cannot listen on 127.0.0.1 port "));
    options.address = "localhost";
    ck_assert_int_eq(cf_http_listener_open(&stage.loop, &options, &other, &err), -1);
    ck_assert_int_eq(err.code, EINVAL);
    ck_assert_ptr_null(other);
    stage_close(&stage);
}
END_TEST

START_TEST(the_address_of_all_takes_both_families)
{
    struct cf_http_listener_options options = {.address = "::", .most_conns = 4, .accept = accept_conn};
    struct sockaddr_in6 v6 = {.sin6_family = AF_INET6, .sin6_addr = IN6ADDR_LOOPBACK_INIT};
    struct cf_http_listener *both = NULL;
    struct cf_error err = {0};
    struct stage stage;
    int fd;

    stage_open(&stage, 4, 0);
    options.user = &stage;
    if (cf_http_listener_open(&stage.loop, &options, &both, &err) == 0) {
        cf_http_listener_close(stage.listener, NULL, NULL);
        stage.listener = both;
        v6.sin6_port = htons(cf_http_listener_port(both));
        fd = client_to(AF_INET6, (struct sockaddr *)&v6, sizeof v6);
        ck_assert_int_ge(fd, 0);
        close(fd);
        close(client(&stage));
        while (stage.accepted < 2)
            turn(&stage);
        stage.forgotten = 2; /* by the listener's own hand here: it was given none */
    } else {
        printf("SKIPPED the address of all: this machine has no IPv6 (%s)\n", err.text);
    }
    stage_close(&stage);
}
END_TEST

UNIT_MAIN("loop/http_listener",
          tcase_add_test(tc, requests_of_one_connection_are_answered_in_order);
          tcase_add_test(tc, a_body_that_is_not_taken_holds_its_writer);
          tcase_add_test(tc, an_answer_that_is_not_read_holds_its_handler_and_comes_whole);
          tcase_add_test(tc, one_connection_too_many_is_closed_and_there_is_room_again_afterwards);
          tcase_add_test(tc, who_brings_nothing_for_a_second_keeps_nobody_out);
          tcase_add_test(tc, silence_ends_a_connection_in_the_way_that_fits_it);
          tcase_add_test(tc, a_peer_that_goes_aborts_what_was_open);
          tcase_add_test(tc, what_comes_behind_the_last_answer_is_no_reset);
          tcase_add_test(tc, close_ends_what_is_open_and_nothing_is_called_behind_on_closed);
          tcase_add_test(tc, the_port_may_be_closed_from_inside_a_request);
          tcase_add_test(tc, a_port_that_is_taken_and_an_address_that_is_none_are_told);
          tcase_add_test(tc, the_address_of_all_takes_both_families);)
