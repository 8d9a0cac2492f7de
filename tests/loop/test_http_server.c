#include "base/buf.h"
#include "base/str.h"
#include "loop/http_server.h"
#include "tests/support/unit.h"

#include <stdio.h>
#include <string.h>

/* A server that notes what it hears and answers as its mode says. */
enum mode {
    ECHO,    /* at on_complete: method, path, query and body */
    EARLY,   /* at on_request: 401 */
    HOLD,    /* not by itself */
    PAUSING, /* ECHO, pausing behind every piece of body */
    FREEING, /* frees the connection in on_request */
    UNWANTED /* answers in the first on_body and wants no more */
};

struct peer {
    struct cf_http_conn *conn;
    enum mode mode;
    struct cf_buf out, body;
    size_t room; /* what io.write takes in all; SIZE_MAX: everything */
    size_t consumed;
    unsigned requests, completes, drains, dones, aborts, malformed, shutdowns, resets, pauses;
    int malformed_status;
};

static size_t
io_write(void *user, const char *bytes, size_t len)
{
    struct peer *peer = user;
    size_t n = len < peer->room ? len : peer->room;

    ck_assert_uint_eq(peer->shutdowns, 0);
    if (peer->room != SIZE_MAX)
        peer->room -= n;
    ck_assert_int_eq(cf_buf_add(&peer->out, bytes, n), 0);
    return n;
}

static void
io_shutdown(void *user)
{
    ((struct peer *)user)->shutdowns++;
}

static void
io_reset(void *user)
{
    ((struct peer *)user)->resets++;
}

static void
io_consumed(void *user, size_t len)
{
    ((struct peer *)user)->consumed += len;
}

static const struct cf_http_io io = {io_write, io_shutdown, io_reset, io_consumed, NULL};

static void
on_request(void *user, struct cf_http_conn *conn, const struct cf_http_request *request)
{
    struct peer *peer = user;

    peer->requests++;
    cf_buf_reset(&peer->body);
    ck_assert_ptr_null(cf_http_conn_get_user(conn));
    cf_http_conn_set_user(conn, (void *)request);
    if (peer->mode == EARLY)
        ck_assert_int_eq(cf_http_reply(conn, 401, "text/plain", NULL, "no", 2), 0);
    if (peer->mode == FREEING)
        cf_http_conn_free(conn);
}

static int
on_body(void *user, struct cf_http_conn *conn, const char *bytes, size_t len)
{
    struct peer *peer = user;

    ck_assert_uint_gt(len, 0);
    ck_assert_int_eq(cf_buf_add(&peer->body, bytes, len), 0);
    if (peer->mode == UNWANTED) {
        ck_assert_int_eq(cf_http_reply(conn, 400, "text/plain", NULL, "bad", 3), 0);
        return -1;
    }
    peer->pauses += peer->mode == PAUSING;
    return peer->mode == PAUSING ? CF_HTTP_PAUSE : 0;
}

static void
on_complete(void *user, struct cf_http_conn *conn)
{
    struct peer *peer = user;
    const struct cf_http_request *request = cf_http_conn_get_user(conn);
    struct cf_buf text = {0};

    peer->completes++;
    if (peer->mode == HOLD)
        return;
    cf_buf_addf(&text, "%s %s %s [", request->method, request->path,
                request->query ? request->query : "-");
    cf_buf_add(&text, peer->body.data, peer->body.len);
    cf_buf_adds(&text, "]");
    ck_assert_int_eq(cf_http_reply(conn, 200, "text/plain", NULL, text.data, text.len), 0);
    cf_buf_release(&text);
}

static void
on_drain(void *user, struct cf_http_conn *conn)
{
    ((struct peer *)user)->drains++;
}

static void
on_done(void *user, struct cf_http_conn *conn)
{
    ((struct peer *)user)->dones++;
}

static void
on_abort(void *user, struct cf_http_conn *conn)
{
    ((struct peer *)user)->aborts++;
}

static void
on_malformed(void *user, struct cf_http_conn *conn, int status, const char *why)
{
    struct peer *peer = user;

    peer->malformed++;
    peer->malformed_status = status;
    ck_assert_uint_gt(strlen(why), 0);
}

static const struct cf_http_handler handler = {on_request, on_body,  on_complete, on_drain,
                                               on_done,    on_abort, on_malformed};

static void
peer_open(struct peer *peer, enum mode mode, uint64_t max_body)
{
    memset(peer, 0, sizeof *peer);
    peer->mode = mode;
    peer->room = SIZE_MAX;
    peer->conn = cf_http_conn_new(&io, peer, &handler, peer, max_body);
    ck_assert_ptr_nonnull(peer->conn);
}

static void
peer_close(struct peer *peer)
{
    if (peer->mode != FREEING)
        cf_http_conn_free(peer->conn);
    cf_buf_release(&peer->out);
    cf_buf_release(&peer->body);
}

static void
feed(struct peer *peer, const char *text)
{
    cf_http_conn_feed(peer->conn, text, strlen(text));
}

static void
expect_out(struct peer *peer, const char *text)
{
    ck_assert_str_eq(peer->out.data ? peer->out.data : "", text);
}

static const char requests[] =
    "POST /v1/messages?beta=true HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello"
    "\r\nPOST /x HTTP/1.1\r\nhost:a\r\nTransfer-Encoding: "
    "chunked\r\n\r\n3;ext=1\r\nabc\r\n2\r\nde\r\n0\r\nT: x\r\n\r\n"
    "GET http://a:1/y HTTP/1.1\r\nHost: a\r\n\r\n";
static const char answers[] =
    "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 35\r\n\r\n"
    "POST /v1/messages beta=true [hello]"
    "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 17\r\n\r\nPOST /x - "
    "[abcde]"
    "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 11\r\n\r\nGET /y - []";

START_TEST(requests_survive_any_cut_and_are_answered_in_order)
{
    for (enum mode mode = ECHO; mode <= PAUSING; mode += PAUSING - ECHO) {
        for (size_t cut = 0; cut < sizeof requests; cut++) {
            struct peer peer;
            peer_open(&peer, mode, 0);
            cf_http_conn_feed(peer.conn, requests, cut);
            if (cut % 2 == 0)
                cf_http_conn_resume(peer.conn);
            cf_http_conn_feed(peer.conn, requests + cut, strlen(requests) - cut);
            for (int i = 0; i < 8; i++)
                cf_http_conn_resume(peer.conn);
            expect_out(&peer, answers);
            ck_assert_uint_eq(peer.consumed, strlen(requests));
            ck_assert_uint_eq(peer.dones, 3);
            ck_assert_uint_eq(peer.aborts + peer.malformed + peer.resets, 0);
            ck_assert(cf_http_conn_is_idle(peer.conn));
            peer_close(&peer);
        }
    }
}
END_TEST

START_TEST(single_bytes_in_and_single_bytes_out_make_the_same_answers)
{
    struct peer peer;

    peer_open(&peer, ECHO, 0);
    peer.room = 0;
    for (size_t i = 0; i < strlen(requests); i++)
        cf_http_conn_feed(peer.conn, requests + i, 1);
    ck_assert_uint_eq(peer.requests, 1); /* the second waits until the first answer is out */
    ck_assert_uint_lt(peer.consumed, strlen(requests));
    for (int i = 0; i < 1000; i++) {
        peer.room = 1;
        cf_http_conn_writable(peer.conn);
    }
    expect_out(&peer, answers);
    ck_assert_uint_eq(peer.dones, 3);
    ck_assert_uint_eq(peer.consumed, strlen(requests));
    peer_close(&peer);
}
END_TEST

START_TEST(broken_heads_are_refused_with_400_and_a_close)
{
    static const char *const bad[] = {
        "GET / HTTP/1.1\nHost: a\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: a\n\r\n",
        "\nGET / HTTP/1.1\r\nHost: a\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: a\rX: y\r\n\r\n",
        "GET / HTTP/1.1\r\nHost : a\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: a\r\n folded\r\n\r\n",
        "GET / HTTP/1.1\r\n: a\r\n\r\n",
        "GET / HTTP/1.1\r\nno colon here\r\n\r\n",
        "GET / HTTP/1.1\r\nA: \x01\r\n\r\n",
        "POST / HTTP/1.1\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n",
        "POST / HTTP/1.1\r\nContent-Length: 3\r\nContent-Length: 4\r\n\r\nabc",
        "POST / HTTP/1.1\r\nContent-Length: +3\r\n\r\nabc",
        "POST / HTTP/1.1\r\nContent-Length: 99999999999999999999999\r\n\r\nabc",
        "POST / HTTP/1.1\r\nTransfer-Encoding: gzip, chunked\r\n\r\n",
        "POST / HTTP/1.1\r\nTransfer-Encoding: gzip\r\n\r\n",
        "GET / HTTP/2.0\r\nHost: a\r\n\r\n",
        "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        "BREW /pot HTTP/1.1\r\n\r\n",
        "GET /\r\n\r\n",
        "hello\r\n\r\n",
        "\x16\x03\x01\x02",
        "GET /\x80 HTTP/1.1\r\nA\x80: b\r\n\r\n",
    };

    for (size_t i = 0; i < CF_COUNT(bad); i++) {
        for (size_t cut = 0; cut <= strlen(bad[i]); cut++) {
            struct peer peer;
            peer_open(&peer, ECHO, 0);
            cf_http_conn_feed(peer.conn, bad[i], cut);
            feed(&peer, bad[i] + cut);
            feed(&peer, "GET / HTTP/1.1\r\n\r\n"); /* nothing behind it is read as a request */
            ck_assert_msg(peer.malformed == 1 && peer.malformed_status == 400, "%zu: %u", i,
                          peer.malformed);
            ck_assert_msg(strncmp(peer.out.data, "HTTP/1.1 400 Bad Request\r\n", 26) == 0,
                          "%zu", i);
            ck_assert_ptr_nonnull(strstr(peer.out.data, "Connection: close\r\n"));
            ck_assert_uint_eq(peer.requests, 0);
            ck_assert_uint_eq(peer.shutdowns, 1);
            peer_close(&peer);
        }
    }
}
END_TEST

static void
feed_head_of(struct peer *peer, size_t size)
{
    struct cf_buf head = {0};

    cf_buf_adds(&head, "GET / HTTP/1.1\r\nA: ");
    while (head.len < size - 4)
        cf_buf_adds(&head, "x");
    cf_buf_adds(&head, "\r\n\r\n");
    cf_http_conn_feed(peer->conn, head.data, head.len);
    cf_buf_release(&head);
}

START_TEST(a_head_of_64_kib_is_read_and_one_byte_more_is_431)
{
    struct peer peer;

    peer_open(&peer, ECHO, 0);
    feed_head_of(&peer, CF_HTTP_HEAD_LIMIT);
    ck_assert_uint_eq(peer.requests, 1);
    feed_head_of(&peer, CF_HTTP_HEAD_LIMIT + 1);
    ck_assert_uint_eq(peer.requests, 1);
    ck_assert_int_eq(peer.malformed_status, 431);
    ck_assert_uint_eq(peer.shutdowns, 1);
    peer_close(&peer);
}
END_TEST

START_TEST(the_257th_header_line_is_refused)
{
    for (int lines = 256; lines <= 257; lines++) {
        struct peer peer;
        peer_open(&peer, ECHO, 0);
        feed(&peer, "GET / HTTP/1.1\r\n");
        for (int i = 0; i < lines; i++)
            feed(&peer, "A:b\r\n");
        feed(&peer, "\r\n");
        ck_assert_uint_eq(peer.requests, lines == 256);
        ck_assert_uint_eq(peer.malformed, lines == 257);
        peer_close(&peer);
    }
}
END_TEST

START_TEST(headers_are_found_whatever_their_case_and_spacing)
{
    struct peer peer;

    peer_open(&peer, HOLD, 0);
    feed(&peer, "GET /p HTTP/1.1\r\nX-Api-Key:  k 1 \t\r\nEmpty:\r\nTwice: a\r\ntwice: "
                "b\r\nLast:z\r\n\r\n");
    ck_assert_str_eq(cf_http_header(peer.conn, "x-api-KEY"), "k 1");
    ck_assert_str_eq(cf_http_header(peer.conn, "empty"), "");
    ck_assert_str_eq(cf_http_header(peer.conn, "twice"), "a");
    ck_assert_str_eq(cf_http_header(peer.conn, "last"), "z");
    ck_assert_ptr_null(cf_http_header(peer.conn, "host"));
    peer_close(&peer);
}
END_TEST

START_TEST(a_body_at_its_limit_passes_and_one_byte_more_is_413)
{
    static const char *const bodies[] = {
        "POST / HTTP/1.1\r\nContent-Length: 4\r\n\r\nabcd",
        "POST / HTTP/1.1\r\nContent-Length: 5\r\n\r\nabcde",
        "POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n2\r\ncd\r\n0\r\n\r\n",
        "POST / HTTP/1.1\r\nTransfer-Encoding: "
        "chunked\r\n\r\n2\r\nab\r\n3\r\ncde\r\n0\r\n\r\n",
    };

    for (size_t i = 0; i < CF_COUNT(bodies); i++) {
        struct peer peer;
        peer_open(&peer, ECHO, 4);
        feed(&peer, bodies[i]);
        ck_assert_ptr_nonnull(
            strstr(peer.out.data, i % 2 == 0 ? " 200 OK\r\n" : " 413 Content Too Large\r\n"));
        ck_assert_uint_eq(peer.completes, i % 2 == 0);
        ck_assert_uint_eq(peer.dones, 1);
        ck_assert_uint_eq(peer.shutdowns, i % 2);
        peer_close(&peer);
    }
}
END_TEST

START_TEST(an_early_answer_leaves_the_connection_good_for_the_next_request)
{
    struct peer peer;

    peer_open(&peer, EARLY, 0);
    feed(&peer, "POST / HTTP/1.1\r\nContent-Length: 6\r\n\r\nabc");
    ck_assert_ptr_nonnull(strstr(peer.out.data, "401 Unauthorized"));
    ck_assert_uint_eq(peer.dones, 0);
    feed(&peer, "defGET / HTTP/1.1\r\n\r\n");
    ck_assert_uint_eq(peer.requests, 2);
    ck_assert_uint_eq(peer.completes, 0);
    ck_assert_uint_eq(peer.dones, 2);
    ck_assert_uint_eq(peer.body.len, 0);
    peer_close(&peer);
}
END_TEST

START_TEST(an_unwanted_body_is_dropped_and_the_connection_closes_behind_the_answer)
{
    struct peer peer;

    peer_open(&peer, UNWANTED, 0);
    feed(&peer, "POST / HTTP/1.1\r\nContent-Length: 9\r\n\r\nabc");
    feed(&peer, "def");
    feed(&peer, "ghiGET / HTTP/1.1\r\n\r\n");
    ck_assert_uint_eq(peer.requests, 1);
    ck_assert_uint_eq(peer.body.len, 3);
    ck_assert_uint_eq(peer.dones, 1);
    ck_assert_uint_eq(peer.shutdowns, 1);
    peer_close(&peer);
}
END_TEST

START_TEST(expect_100_continue_gets_its_word_first)
{
    struct peer peer;

    peer_open(&peer, ECHO, 0);
    feed(&peer, "PUT / HTTP/1.1\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n");
    expect_out(&peer, "HTTP/1.1 100 Continue\r\n\r\n");
    feed(&peer, "ok");
    ck_assert_ptr_nonnull(strstr(peer.out.data, "PUT / - [ok]"));
    ck_assert_uint_eq(peer.shutdowns, 0);
    peer_close(&peer);

    peer_open(&peer, EARLY, 0); /* refused instead: nobody knows whether the body comes */
    feed(&peer, "PUT / HTTP/1.1\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n");
    ck_assert_ptr_null(strstr(peer.out.data, "100 Continue"));
    ck_assert_ptr_nonnull(strstr(peer.out.data, "Connection: close"));
    ck_assert_uint_eq(peer.shutdowns, 1);
    peer_close(&peer);
}
END_TEST

START_TEST(head_and_http_1_0_and_close_are_understood)
{
    struct peer peer;

    peer_open(&peer, ECHO, 0);
    feed(&peer, "HEAD / HTTP/1.1\r\n\r\n");
    expect_out(&peer,
               "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 11\r\n\r\n");
    ck_assert_uint_eq(peer.shutdowns, 0);
    feed(&peer, "GET / HTTP/1.1\r\nConnection: close\r\n\r\n");
    ck_assert_uint_eq(peer.shutdowns, 1);
    peer_close(&peer);

    peer_open(&peer, HOLD, 0);
    feed(&peer, "GET / HTTP/1.0\r\n\r\n");
    ck_assert_int_eq(cf_http_reply_head(peer.conn, 200, NULL, UINT64_MAX), 0);
    ck_assert_int_eq(cf_http_reply_body(peer.conn, "abc", 3), 0);
    ck_assert_int_eq(cf_http_reply_end(peer.conn), 0);
    expect_out(&peer, "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nabc");
    ck_assert_uint_eq(peer.shutdowns, 1);
    peer_close(&peer);
}
END_TEST

START_TEST(a_streamed_answer_is_chunked_and_drains_as_the_peer_reads)
{
    static const char *const headers[] = {"A", "b\r\nEvil: c", NULL};
    struct peer peer;

    peer_open(&peer, HOLD, 0);
    peer.room = 0;
    feed(&peer, "GET / HTTP/1.1\r\n\r\n");
    ck_assert_int_eq(cf_http_reply_body(peer.conn, "x", 1), -1); /* no head yet */
    ck_assert_int_eq(cf_http_reply_head(peer.conn, 200, headers, UINT64_MAX), 0);
    ck_assert_int_eq(cf_http_reply_head(peer.conn, 200, NULL, 0), -1);
    ck_assert_int_eq(cf_http_reply_body(peer.conn, "hello", 5), 0);
    ck_assert_uint_gt(cf_http_reply_queued(peer.conn), 0);
    peer.room = SIZE_MAX;
    cf_http_conn_writable(peer.conn);
    ck_assert_uint_eq(peer.drains, 1);
    ck_assert_int_eq(cf_http_reply_end(peer.conn), 0);
    ck_assert_int_eq(cf_http_reply_end(peer.conn), -1);
    expect_out(&peer, "HTTP/1.1 200 OK\r\nA: bEvil: c\r\nTransfer-Encoding: "
                      "chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n");
    ck_assert_uint_eq(peer.dones, 1);
    peer_close(&peer);
}
END_TEST

START_TEST(the_answer_queue_has_a_ceiling)
{
    static char block[64 * 1024];
    struct peer peer;
    unsigned taken = 0;

    peer_open(&peer, HOLD, 0);
    peer.room = 0;
    feed(&peer, "GET / HTTP/1.1\r\n\r\n");
    ck_assert_int_eq(cf_http_reply_head(peer.conn, 200, NULL, UINT64_MAX), 0);
    while (cf_http_reply_body(peer.conn, block, sizeof block) == 0)
        taken++;
    ck_assert_uint_eq(taken, 15);
    ck_assert_int_eq(cf_http_reply_end(peer.conn), 0);
    peer.room = SIZE_MAX;
    cf_http_conn_writable(peer.conn);
    ck_assert_str_eq(peer.out.data + peer.out.len - 7, "\r\n0\r\n\r\n");
    ck_assert_uint_eq(peer.dones, 1);
    peer_close(&peer);
}
END_TEST

START_TEST(a_sized_answer_keeps_its_word)
{
    struct peer peer;

    peer_open(&peer, HOLD, 0);
    feed(&peer, "GET / HTTP/1.1\r\n\r\n");
    ck_assert_int_eq(cf_http_reply_head(peer.conn, 200, NULL, 3), 0);
    ck_assert_int_eq(cf_http_reply_body(peer.conn, "abcd", 4), -1);
    ck_assert_int_eq(cf_http_reply_body(peer.conn, "ab", 2), 0);
    ck_assert_int_eq(cf_http_reply_end(peer.conn),
                     -1); /* cut: the peer must not wait for the third */
    ck_assert_uint_eq(peer.resets, 1);
    ck_assert_uint_eq(peer.dones, 0);
    ck_assert_uint_eq(peer.aborts, 1);
    peer_close(&peer);
}
END_TEST

START_TEST(a_peer_that_leaves_aborts_the_open_exchange_once)
{
    struct peer peer;

    peer_open(&peer, HOLD, 0); /* in the body */
    feed(&peer, "POST / HTTP/1.1\r\nContent-Length: 9\r\n\r\nabc");
    cf_http_conn_eof(peer.conn);
    cf_http_conn_gone(peer.conn);
    ck_assert_uint_eq(peer.aborts, 1);
    ck_assert_uint_eq(peer.resets, 1);
    peer_close(&peer);

    peer_open(&peer, HOLD, 0); /* waiting for its answer */
    feed(&peer, "GET / HTTP/1.1\r\n\r\n");
    cf_http_conn_gone(peer.conn);
    ck_assert_uint_eq(peer.aborts, 1);
    ck_assert_uint_eq(peer.resets, 0);
    ck_assert_int_eq(cf_http_reply(peer.conn, 200, NULL, NULL, "x", 1), -1);
    peer_close(&peer);

    peer_open(&peer, ECHO, 0); /* half-closed behind its request: the answer still goes out */
    peer.room = 10;
    feed(&peer, "GET / HTTP/1.1\r\n\r\n");
    cf_http_conn_eof(peer.conn);
    ck_assert_uint_eq(peer.shutdowns, 0);
    peer.room = SIZE_MAX;
    cf_http_conn_writable(peer.conn);
    ck_assert_ptr_nonnull(strstr(peer.out.data, "GET / - []"));
    ck_assert_uint_eq(peer.aborts + peer.resets, 0);
    ck_assert_uint_eq(peer.shutdowns, 1);
    peer_close(&peer);

    peer_open(&peer, ECHO, 0); /* between requests */
    cf_http_conn_eof(peer.conn);
    ck_assert_uint_eq(peer.shutdowns, 1);
    ck_assert_uint_eq(peer.aborts, 0);
    peer_close(&peer);
}
END_TEST

START_TEST(broken_chunks_abort_the_exchange_with_400)
{
    struct peer peer;

    peer_open(&peer, HOLD, 0);
    feed(&peer, "POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n");
    ck_assert_ptr_nonnull(strstr(peer.out.data, "400 Bad Request"));
    ck_assert_uint_eq(peer.aborts, 1);
    ck_assert_uint_eq(peer.malformed, 0);
    ck_assert_uint_eq(peer.shutdowns, 1);
    peer_close(&peer);
}
END_TEST

START_TEST(a_cut_answer_resets_the_connection)
{
    struct peer peer;

    peer_open(&peer, HOLD, 0);
    feed(&peer, "GET / HTTP/1.1\r\n\r\n");
    ck_assert_int_eq(cf_http_reply_head(peer.conn, 200, NULL, UINT64_MAX), 0);
    cf_http_reply_abort(peer.conn);
    cf_http_reply_abort(peer.conn);
    ck_assert_uint_eq(peer.resets, 1);
    ck_assert_uint_eq(peer.aborts, 1);
    ck_assert_uint_eq(peer.dones, 0);
    feed(&peer, "GET / HTTP/1.1\r\n\r\n");
    ck_assert_uint_eq(peer.requests, 1);
    peer_close(&peer);
}
END_TEST

START_TEST(a_connection_freed_inside_its_own_callback_is_not_touched_again)
{
    struct peer peer;

    peer_open(&peer, FREEING, 0);
    feed(&peer, "POST / HTTP/1.1\r\nContent-Length: 1\r\n\r\naGET / HTTP/1.1\r\n\r\n");
    ck_assert_uint_eq(peer.requests, 1);
    ck_assert_uint_eq(peer.completes + peer.aborts + peer.dones, 0);
    peer_close(&peer);
}
END_TEST

START_TEST(more_bytes_than_any_credit_allows_cut_the_connection)
{
    static char block[64 * 1024];
    struct peer peer;

    peer_open(&peer, PAUSING, 0);
    feed(&peer, "POST / HTTP/1.1\r\nContent-Length: 999999999\r\n\r\n");
    for (size_t fed = 0; fed <= CF_HTTP_STASH_LIMIT + sizeof block && peer.resets == 0;
         fed += sizeof block)
        cf_http_conn_feed(peer.conn, block, sizeof block);
    ck_assert_uint_eq(peer.pauses, 1);
    ck_assert_uint_eq(peer.resets, 1);
    ck_assert_uint_eq(peer.aborts, 1);
    peer_close(&peer);
}
END_TEST

START_TEST(a_body_of_64_mib_passes_without_being_held)
{
    static char block[1024 * 1024];
    struct peer peer;

    peer_open(&peer, EARLY, 64ull << 20);
    feed(&peer, "POST / HTTP/1.1\r\nContent-Length: 67108864\r\n\r\n");
    for (int i = 0; i < 64; i++)
        cf_http_conn_feed(peer.conn, block, sizeof block);
    ck_assert_uint_eq(peer.dones, 1);
    feed(&peer, "GET / HTTP/1.1\r\n\r\n");
    ck_assert_uint_eq(peer.dones, 2);
    peer_close(&peer);
}
END_TEST

/* ---- tunnels, and the owner's clock ---------------------------------------------------- */

static void
io_end_write(void *user)
{
    cf_buf_adds(&((struct peer *)user)->out, "<half>");
}

static const struct cf_http_io tunnel_io = {io_write, io_shutdown, io_reset, io_consumed, io_end_write};

#define READY "HTTP/1.1 200 Connection Established\r\n\r\n"

static void
tunnel_open(struct peer *peer, const struct cf_http_io *with, const char *behind)
{
    struct cf_buf text = {0};

    memset(peer, 0, sizeof *peer);
    peer->room = SIZE_MAX;
    peer->mode = HOLD;
    peer->conn = cf_http_conn_new(with, peer, &handler, peer, 0);
    cf_buf_addf(&text, "CONNECT example.com:443 HTTP/1.1\r\nHost: example.com\r\n\r\n%s", behind);
    cf_http_conn_feed(peer->conn, text.data, text.len);
    cf_buf_release(&text);
    ck_assert_uint_eq(peer->completes, 1);
    ck_assert_str_eq(((const struct cf_http_request *)cf_http_conn_get_user(peer->conn))->path,
                     "example.com:443");
    ck_assert_int_eq(cf_http_reply_tunnel(peer->conn), 0);
}

static void
tunnel_close(struct peer *peer)
{
    cf_http_conn_free(peer->conn);
    cf_buf_release(&peer->out);
    cf_buf_release(&peer->body);
}

START_TEST(a_tunnel_carries_bytes_both_ways_and_half_closes_either_way)
{
    struct peer peer;

    tunnel_open(&peer, &tunnel_io, "early");
    ck_assert_str_eq(peer.body.data, "early");
    ck_assert_int_eq(cf_http_reply_body(peer.conn, "pong", 4), 0);
    cf_http_conn_feed(peer.conn, "GET", 3);
    ck_assert_str_eq(peer.body.data, "earlyGET");
    cf_http_conn_eof(peer.conn);
    ck_assert_uint_eq(peer.completes, 2); /* the peer's end; ours goes on */
    ck_assert_uint_eq(peer.shutdowns, 0);
    ck_assert_int_eq(cf_http_reply_body(peer.conn, "late", 4), 0);
    ck_assert_int_eq(cf_http_reply_end(peer.conn), 0);
    ck_assert_str_eq(peer.out.data, READY "ponglate");
    ck_assert_uint_eq(peer.dones, 1);
    ck_assert_uint_eq(peer.shutdowns, 1);
    tunnel_close(&peer);

    tunnel_open(&peer, &tunnel_io, "");
    ck_assert_int_eq(cf_http_reply_end(peer.conn), 0);
    ck_assert_str_eq(peer.out.data, READY "<half>");
    ck_assert_uint_eq(peer.dones, 0);
    cf_http_conn_feed(peer.conn, "more", 4);
    ck_assert_str_eq(peer.body.data, "more");
    cf_http_conn_eof(peer.conn);
    ck_assert_uint_eq(peer.dones, 1);
    ck_assert_uint_eq(peer.shutdowns, 1);
    tunnel_close(&peer);
}
END_TEST

START_TEST(a_tunnel_without_half_close_ends_with_its_answer)
{
    struct peer peer;

    tunnel_open(&peer, &io, "");
    ck_assert_int_eq(cf_http_reply_end(peer.conn), 0);
    ck_assert_uint_eq(peer.dones, 1);
    ck_assert_uint_eq(peer.shutdowns, 1);
    tunnel_close(&peer);
}
END_TEST

START_TEST(a_paused_tunnel_keeps_the_rest_and_its_end_for_later)
{
    struct peer peer;

    tunnel_open(&peer, &tunnel_io, "");
    peer.mode = PAUSING;
    cf_http_conn_feed(peer.conn, "one", 3);
    cf_http_conn_feed(peer.conn, "two", 3);
    ck_assert_str_eq(peer.body.data, "one");
    peer.mode = HOLD;
    cf_http_conn_eof(peer.conn);
    ck_assert_uint_eq(peer.completes, 1);
    cf_http_conn_resume(peer.conn);
    ck_assert_str_eq(peer.body.data, "onetwo");
    ck_assert_uint_eq(peer.completes, 2);
    cf_http_conn_gone(peer.conn);
    ck_assert_uint_eq(peer.aborts, 1);
    tunnel_close(&peer);
}
END_TEST

START_TEST(waits_are_told_and_expire_each_in_its_way)
{
    struct peer peer = {.room = SIZE_MAX, .mode = HOLD};

    peer.conn = cf_http_conn_new(&io, &peer, &handler, &peer, 0);
    ck_assert_int_eq(cf_http_conn_waits(peer.conn), CF_HTTP_WAITS_FOR_REQUEST);
    cf_http_conn_feed(peer.conn, "POST / HT", 9);
    ck_assert_uint_eq(cf_http_conn_moved(peer.conn), 9);
    ck_assert_int_eq(cf_http_conn_waits(peer.conn), CF_HTTP_WAITS_FOR_HEAD);
    cf_http_conn_expire(peer.conn);
    ck_assert_int_eq(strncmp(peer.out.data, "HTTP/1.1 408 ", 13), 0);
    ck_assert_uint_eq(peer.malformed, 1);
    ck_assert_uint_eq(peer.shutdowns, 1);
    tunnel_close(&peer);

    peer = (struct peer){.room = SIZE_MAX, .mode = HOLD};
    peer.conn = cf_http_conn_new(&io, &peer, &handler, &peer, 0);
    cf_http_conn_feed(peer.conn, "POST / HTTP/1.1\r\nContent-Length: 4\r\n\r\nab", 40);
    ck_assert_int_eq(cf_http_conn_waits(peer.conn), CF_HTTP_WAITS_FOR_BODY);
    cf_http_conn_feed(peer.conn, "cd", 2);
    ck_assert_int_eq(cf_http_conn_waits(peer.conn), CF_HTTP_WAITS_FOR_US);
    peer.room = 3;
    ck_assert_int_eq(cf_http_reply(peer.conn, 200, NULL, NULL, "x", 1), 0);
    ck_assert_int_eq(cf_http_conn_waits(peer.conn), CF_HTTP_WAITS_FOR_READER);
    cf_http_conn_expire(peer.conn);
    ck_assert_uint_eq(peer.aborts, 1);
    ck_assert_uint_eq(peer.resets, 1);
    tunnel_close(&peer);

    peer = (struct peer){.room = SIZE_MAX};
    peer.conn = cf_http_conn_new(&io, &peer, &handler, &peer, 0);
    cf_http_conn_expire(peer.conn);
    ck_assert_uint_eq(peer.shutdowns, 1);
    ck_assert_ptr_null(peer.out.data);
    tunnel_close(&peer);
}
END_TEST

UNIT_MAIN(
    "loop/http_server", tcase_add_test(tc, requests_survive_any_cut_and_are_answered_in_order);
    tcase_add_test(tc, single_bytes_in_and_single_bytes_out_make_the_same_answers);
    tcase_add_test(tc, broken_heads_are_refused_with_400_and_a_close);
    tcase_add_test(tc, a_head_of_64_kib_is_read_and_one_byte_more_is_431);
    tcase_add_test(tc, the_257th_header_line_is_refused);
    tcase_add_test(tc, headers_are_found_whatever_their_case_and_spacing);
    tcase_add_test(tc, a_body_at_its_limit_passes_and_one_byte_more_is_413);
    tcase_add_test(tc, an_early_answer_leaves_the_connection_good_for_the_next_request);
    tcase_add_test(tc,
                   an_unwanted_body_is_dropped_and_the_connection_closes_behind_the_answer);
    tcase_add_test(tc, expect_100_continue_gets_its_word_first);
    tcase_add_test(tc, head_and_http_1_0_and_close_are_understood);
    tcase_add_test(tc, a_streamed_answer_is_chunked_and_drains_as_the_peer_reads);
    tcase_add_test(tc, the_answer_queue_has_a_ceiling);
    tcase_add_test(tc, a_sized_answer_keeps_its_word);
    tcase_add_test(tc, a_peer_that_leaves_aborts_the_open_exchange_once);
    tcase_add_test(tc, broken_chunks_abort_the_exchange_with_400);
    tcase_add_test(tc, a_cut_answer_resets_the_connection);
    tcase_add_test(tc, a_connection_freed_inside_its_own_callback_is_not_touched_again);
    tcase_add_test(tc, more_bytes_than_any_credit_allows_cut_the_connection);
    tcase_add_test(tc, a_body_of_64_mib_passes_without_being_held);
    tcase_add_test(tc, a_tunnel_carries_bytes_both_ways_and_half_closes_either_way);
    tcase_add_test(tc, a_tunnel_without_half_close_ends_with_its_answer);
    tcase_add_test(tc, a_paused_tunnel_keeps_the_rest_and_its_end_for_later);
    tcase_add_test(tc, waits_are_told_and_expire_each_in_its_way);)
