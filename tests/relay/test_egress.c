#include "relay/address.h"
#include "relay/egress.h"
#include "tests/relay/rig.h"
#include "tests/support/provider.h"

#include <arpa/inet.h>

/* An egress whose names lead where the test says, and a server at the far end. 127.0.0.1
 * stands for the public net here, 127.0.0.2 for what is not. */
struct stage {
    uv_loop_t loop;
    struct cf_egress *egress;
    struct provider provider;
    struct client client;
    json_t *hosts, *last;
    unsigned rows, lookups;
    const char *first_answer, *later_answer; /* of the resolver */
    bool is_closed;
};

static size_t
resolve(void *user, const char *name, struct sockaddr_storage *to, size_t most)
{
    struct stage *stage = user;
    const char *answer = stage->lookups++ == 0 ? stage->first_answer : stage->later_answer;
    struct sockaddr_in *v4 = (struct sockaddr_in *)to;
    size_t n = 0;

    ck_assert_uint_ge(most, 2);
    for (; answer != NULL && *answer != '\0'; n++) {
        char one[40];
        snprintf(one, sizeof one, "%.*s", (int)strcspn(answer, " "), answer);
        memset(&v4[0], 0, sizeof *v4);
        v4->sin_family = AF_INET;
        ck_assert_int_eq(inet_pton(AF_INET, one, &v4->sin_addr), 1);
        answer += strcspn(answer, " ");
        answer += strspn(answer, " ");
        v4 = (struct sockaddr_in *)++to;
    }
    return n;
}

static const char *
refused(const struct sockaddr *address)
{
    char text[64];

    cf_address_text(address, text, sizeof text);
    return strcmp(text, "127.0.0.2") == 0 ? "private" : NULL;
}

static void
on_row(void *user, const struct cf_egress_row *row)
{
    struct stage *stage = user;

    stage->rows++;
    json_decref(stage->last);
    stage->last = cf_egress_row_json(row);
    ck_assert_ptr_nonnull(stage->last);
}

static void
e_end_write(void *user)
{
    ((struct client *)user)->is_shut = true;
}

static size_t
e_write(void *user, const char *bytes, size_t len)
{
    struct client *client = user;
    size_t n = len < client->room ? len : client->room;

    if (client->room != SIZE_MAX)
        client->room -= n;
    cf_buf_add(&client->raw, bytes, n);
    return n;
}

static void
e_shutdown(void *user)
{
    ((struct client *)user)->is_shut = true;
}

static void
e_reset(void *user)
{
    ((struct client *)user)->is_reset = true;
}

static void
e_consumed(void *user, size_t len)
{
    ((struct client *)user)->consumed += len;
}

static const struct cf_http_io e_io = {e_write, e_shutdown, e_reset, e_consumed, e_end_write};

static void
client_new(struct stage *stage)
{
    struct client *client = &stage->client;

    if (client->conn != NULL)
        cf_egress_forget(stage->egress, client->conn);
    cf_buf_release(&client->raw);
    cf_buf_release(&client->body);
    cf_buf_release(&client->head);
    memset(client, 0, sizeof *client);
    client->room = SIZE_MAX;
    client->conn = cf_egress_accept(stage->egress, &e_io, client);
    ck_assert_ptr_nonnull(client->conn);
}

static void
stage_open(struct stage *stage, const struct cf_egress_options *more, const char *extra)
{
    struct cf_egress_options options = *more;
    struct cf_error err = {0};
    char host[100];

    memset(stage, 0, sizeof *stage);
    uv_loop_init(&stage->loop);
    ck_assert(provider_open(&stage->provider, &stage->loop, "127.0.0.1", 0));
    snprintf(host, sizeof host, "Good.Example:%u", stage->provider.port);
    stage->hosts = json_pack("[s, s, s]", host, "shut.example:1", extra);
    stage->first_answer = stage->later_answer = "127.0.0.1";
    options.hosts = stage->hosts;
    options.relay_port = 4180;
    options.on_row = on_row;
    options.user = stage;
    options.resolve = resolve;
    options.resolve_user = stage;
    options.refused = refused;
    ck_assert_msg(cf_egress_open(&stage->loop, &options, &stage->egress, &err) == 0, "%s",
                  err.text);
    client_new(stage);
}

static void
egress_closed(void *user)
{
    ((struct stage *)user)->is_closed = true;
}

static void
stage_close(struct stage *stage)
{
    cf_egress_forget(stage->egress, stage->client.conn);
    cf_buf_release(&stage->client.raw);
    cf_buf_release(&stage->client.body);
    cf_buf_release(&stage->client.head);
    cf_egress_close(stage->egress, egress_closed, stage);
    provider_close(&stage->provider);
    uv_run(&stage->loop, UV_RUN_DEFAULT);
    ck_assert(stage->is_closed);
    ck_assert_int_eq(uv_loop_close(&stage->loop), 0);
    json_decref(stage->hosts);
    json_decref(stage->last);
}

static void
turn_until_rows(struct stage *stage, unsigned rows)
{
    uint64_t until = uv_hrtime() + 10ull * 1000000000ull;

    while (stage->rows < rows && uv_hrtime() < until)
        uv_run(&stage->loop, UV_RUN_ONCE);
    ck_assert_uint_ge(stage->rows, rows);
}

static void
turn_until_bytes(struct stage *stage, size_t len)
{
    uint64_t until = uv_hrtime() + 10ull * 1000000000ull;

    while (stage->client.raw.len < len && uv_hrtime() < until)
        uv_run(&stage->loop, UV_RUN_ONCE);
    ck_assert_uint_ge(stage->client.raw.len, len);
}

static void __attribute__((format(printf, 2, 3)))
send_text(struct stage *stage, const char *fmt, ...)
{
    char text[1024];
    va_list args;

    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    cf_http_conn_feed(stage->client.conn, text, strlen(text));
}

static void
expect_row(struct stage *stage, const char *verdict, const char *why, int status)
{
    ck_assert_str_eq(cf_json_str(stage->last, "verdict"), verdict);
    if (why == NULL)
        ck_assert_ptr_null(cf_json_str(stage->last, "why"));
    else
        ck_assert_str_eq(cf_json_str(stage->last, "why"), why);
    ck_assert_int_eq(cf_json_int(stage->last, "status", 0), status);
}

#define READY "HTTP/1.1 200 Connection Established\r\n\r\n"

START_TEST(an_allowed_name_is_tunnelled_to_and_both_halves_close_by_themselves)
{
    struct stage stage;

    stage_open(&stage, &(struct cf_egress_options){0}, "more.example");
    send_text(&stage, "CONNECT good.example.:%u HTTP/1.1\r\nHost: x\r\n\r\n",
              stage.provider.port);
    turn_until_bytes(&stage, strlen(READY));
    ck_assert_str_eq(stage.client.raw.data, READY);
    send_text(&stage, "GET /hello HTTP/1.1\r\nHost: inside\r\nConnection: close\r\n\r\n");
    turn_until_bytes(&stage, strlen(READY) + 100);
    ck_assert_ptr_nonnull(strstr(stage.provider.head.data, "Host: inside\n"));
    while (!stage.client.is_shut) /* the server's end of file came through */
        uv_run(&stage.loop, UV_RUN_ONCE);
    ck_assert_uint_eq(stage.rows, 0); /* our half is still open */
    cf_http_conn_eof(stage.client.conn);
    turn_until_rows(&stage, 1);
    expect_row(&stage, "allowed", NULL, 200);
    ck_assert_str_eq(cf_json_str(stage.last, "address"), "127.0.0.1");
    ck_assert_int_eq(cf_json_int(stage.last, "up_bytes", 0), 56);
    ck_assert_int_gt(cf_json_int(stage.last, "down_bytes", 0), 100);
    ck_assert(!cf_json_bool(stage.last, "aborted", true));
    stage_close(&stage);
}
END_TEST

START_TEST(plain_http_is_fetched_as_its_server_wants_it)
{
    struct stage stage;

    stage_open(&stage, &(struct cf_egress_options){0}, "more.example");
    send_text(&stage,
              "POST http://good.example:%u/v1/messages?a=b HTTP/1.1\r\nHost: other.example\r\n"
              "Proxy-Authorization: p\r\nX-Own: 1\r\nProxy-Connection: keep-alive\r\n"
              "Transfer-Encoding: chunked\r\n\r\n4\r\n{\"a\"\r\n3\r\n:1}\r\n0\r\n\r\n",
              stage.provider.port);
    turn_until_rows(&stage, 1);
    ck_assert(strncmp(stage.provider.head.data, "POST /v1/messages?a=b\n", 22) == 0);
    ck_assert_ptr_nonnull(strstr(stage.provider.head.data, "Host: good.example:"));
    ck_assert_ptr_nonnull(strstr(stage.provider.head.data, "X-Own: 1"));
    ck_assert_ptr_null(strcasestr(stage.provider.head.data, "proxy-"));
    client_read(&stage.client);
    ck_assert_int_eq(stage.client.status, 200);
    ck_assert(stage.client.is_shut);
    expect_row(&stage, "allowed", NULL, 200);
    stage_close(&stage);
}
END_TEST

static void
expect_denied(struct stage *stage, const char *request, const char *why, int status,
              const char *said)
{
    unsigned rows = stage->rows;

    client_new(stage);
    send_text(stage, "%s", request);
    turn_until_rows(stage, rows + 1);
    expect_row(stage, "denied", why, status);
    ck_assert_msg(strstr(stage->client.raw.data, said) != NULL, "%s", stage->client.raw.data);
}

START_TEST(what_is_not_open_is_denied_and_told_which_flag_would_open_it)
{
    struct stage stage;

    stage_open(&stage, &(struct cf_egress_options){0}, "more.example");
    expect_denied(&stage, "CONNECT evil.example:443 HTTP/1.1\r\n\r\n", "name", 403,
                  "--allow-host evil.example opens it");
    expect_denied(&stage, "CONNECT good.example.evil:443 HTTP/1.1\r\n\r\n", "name", 403,
                  "not open");
    expect_denied(&stage, "CONNECT more.example:22 HTTP/1.1\r\n\r\n", "port", 403,
                  "--allow-host more.example:22 opens it");
    expect_denied(&stage, "GET http://more.example/ HTTP/1.1\r\n\r\n", "port", 403,
                  ":80 opens it");
    expect_denied(&stage, "CONNECT 127.0.0.1:4180 HTTP/1.1\r\n\r\n", "relay", 403, "NO_PROXY");
    expect_denied(
        &stage,
        "POST http://localhost:4180/v1/messages HTTP/1.1\r\nContent-Length: 2\r\n\r\n{}",
        "relay", 403, "NO_PROXY");
    expect_denied(&stage, "GET /v1/models HTTP/1.1\r\n\r\n", "form", 400, "not as a base URL");
    expect_denied(&stage, "GET https://more.example/ HTTP/1.1\r\n\r\n", "form", 400,
                  "CONNECT");
    expect_denied(&stage, "CONNECT more.example HTTP/1.1\r\n\r\n", "form", 400, "");
    expect_denied(&stage, "GET http://u:p@more.example:443/ HTTP/1.1\r\n\r\n", "form", 400,
                  "no host");
    expect_denied(&stage, "\x16\x03\x01", "form", 400, "TLS hello");
    ck_assert_uint_eq(stage.lookups, 0); /* not even asked after */
    stage_close(&stage);
}
END_TEST

START_TEST(an_allowed_name_that_leads_inside_is_refused_whatever_else_it_leads_to)
{
    struct stage stage;
    char request[100];

    stage_open(&stage, &(struct cf_egress_options){0}, "more.example");
    snprintf(request, sizeof request, "CONNECT good.example:%u HTTP/1.1\r\n\r\n",
             stage.provider.port);
    stage.first_answer = "127.0.0.2";
    stage.later_answer = "127.0.0.1 127.0.0.2";
    expect_denied(&stage, request, "address", 403, "leads to 127.0.0.2, a private address");
    expect_denied(&stage, request, "address", 403, "none but addresses of the public net");
    ck_assert_uint_eq(stage.provider.conns, 0);
    stage_close(&stage);
}
END_TEST

START_TEST(a_name_that_changes_its_mind_is_connected_to_where_it_was_looked_at)
{
    struct stage stage;

    stage_open(&stage, &(struct cf_egress_options){0}, "more.example");
    stage.later_answer = "127.0.0.2"; /* for a second look-up, which must not happen */
    send_text(&stage, "CONNECT good.example:%u HTTP/1.1\r\n\r\n", stage.provider.port);
    turn_until_bytes(&stage, strlen(READY));
    ck_assert_uint_eq(stage.lookups, 1);
    client_new(&stage);
    turn_until_rows(&stage, 1);
    ck_assert_str_eq(cf_json_str(stage.last, "address"), "127.0.0.1");
    stage_close(&stage);
}
END_TEST

START_TEST(the_next_address_is_tried_and_none_is_a_bad_gateway)
{
    struct stage stage;

    stage_open(&stage, &(struct cf_egress_options){0}, "more.example");
    stage.first_answer = "127.0.0.3 127.0.0.1"; /* nobody listens at the first */
    send_text(&stage, "CONNECT good.example:%u HTTP/1.1\r\n\r\n", stage.provider.port);
    turn_until_bytes(&stage, strlen(READY));
    client_new(&stage);
    turn_until_rows(&stage, 1);
    send_text(&stage, "CONNECT shut.example:1 HTTP/1.1\r\n\r\n");
    turn_until_rows(&stage, 2);
    expect_row(&stage, "allowed", "connect", 502);
    stage.later_answer = "";
    client_new(&stage);
    send_text(&stage, "CONNECT shut.example:1 HTTP/1.1\r\n\r\n");
    turn_until_rows(&stage, 3);
    expect_row(&stage, "allowed", "resolve", 502);
    json_t *ledger = cf_egress_ledger(stage.egress);
    ck_assert_int_eq(cf_json_int(ledger, "failed", 0), 2);
    ck_assert_int_eq(cf_json_int(ledger, "allowed", 0), 1);
    ck_assert_uint_eq(json_array_size(json_object_get(ledger, "rows")), 3);
    json_decref(ledger);
    stage_close(&stage);
}
END_TEST

START_TEST(a_slow_reader_holds_its_server_back_and_a_client_that_leaves_ends_it)
{
    static const char ask[] = "{\"model\":\"long\",\"stream\":true}";
    struct stage stage;
    uint64_t until;

    stage_open(&stage, &(struct cf_egress_options){0}, "more.example");
    stage.client.room = 0;
    send_text(
        &stage,
        "POST http://good.example:%u/v1/messages HTTP/1.1\r\nContent-Length: %zu\r\n\r\n%s",
        stage.provider.port, strlen(ask), ask);
    until = uv_hrtime() + 400000000ull;
    while (uv_hrtime() < until)
        uv_run(&stage.loop, UV_RUN_NOWAIT);
    ck_assert_uint_gt(stage.provider.sent, 0);
    ck_assert_uint_lt(stage.provider.sent, PROVIDER_LONG);
    client_new(&stage);
    turn_until_rows(&stage, 1);
    ck_assert(cf_json_bool(stage.last, "aborted", false));
    while (stage.provider.aborts == 0)
        uv_run(&stage.loop, UV_RUN_ONCE);
    stage_close(&stage);
}
END_TEST

START_TEST(a_long_answer_arrives_whole)
{
    static const char ask[] = "{\"model\":\"long\",\"stream\":true}";
    struct stage stage;

    stage_open(&stage, &(struct cf_egress_options){0}, "more.example");
    send_text(
        &stage,
        "POST http://good.example:%u/v1/messages HTTP/1.1\r\nContent-Length: %zu\r\n\r\n%s",
        stage.provider.port, strlen(ask), ask);
    turn_until_rows(&stage, 1);
    client_read(&stage.client);
    ck_assert(stage.client.is_whole);
    ck_assert_uint_ge(stage.client.body.len, PROVIDER_LONG);
    stage_close(&stage);
}
END_TEST

START_TEST(a_tunnel_in_which_nothing_moves_is_ended)
{
    struct stage stage;

    stage_open(&stage, &(struct cf_egress_options){.idle_ms = 1000}, "more.example");
    send_text(&stage, "CONNECT good.example:%u HTTP/1.1\r\n\r\n", stage.provider.port);
    turn_until_rows(&stage, 1);
    expect_row(&stage, "allowed", "stalled", 200);
    ck_assert(stage.client.is_reset);
    stage_close(&stage);
}
END_TEST

START_TEST(closing_ends_attempts_under_way)
{
    struct stage stage;

    stage_open(&stage, &(struct cf_egress_options){0}, "more.example");
    send_text(&stage, "CONNECT good.example:%u HTTP/1.1\r\n\r\n", stage.provider.port);
    turn_until_bytes(&stage, strlen(READY));
    cf_egress_close(stage.egress, egress_closed, &stage);
    ck_assert_uint_eq(stage.rows, 1);
    ck_assert(stage.client.is_reset);
    provider_close(&stage.provider);
    uv_run(&stage.loop, UV_RUN_DEFAULT);
    ck_assert(stage.is_closed);
    ck_assert_int_eq(uv_loop_close(&stage.loop), 0);
    json_decref(stage.hosts);
    json_decref(stage.last);
    cf_buf_release(&stage.client.raw);
}
END_TEST

START_TEST(hosts_of_the_wrong_form_are_refused)
{
    static const char *const wrong[] = {"",        "*.example", "https://x", "x/y", "x:0",
                                        "x:65536", "x y",       "[::1",      ":443"};

    for (size_t i = 0; i < CF_COUNT(wrong); i++) {
        json_t *hosts = json_pack("[s]", wrong[i]);
        struct cf_egress_options options = {.hosts = hosts};
        struct cf_egress *egress;
        struct cf_error err = {0};
        uv_loop_t loop;

        uv_loop_init(&loop);
        ck_assert_msg(cf_egress_open(&loop, &options, &egress, &err) == -1, "%s", wrong[i]);
        ck_assert_int_eq(err.kind, CF_ERROR_CONFIG);
        uv_loop_close(&loop);
        json_decref(hosts);
    }
}
END_TEST

START_TEST(addresses_are_told_apart_in_every_form_they_come)
{
    static const struct {
        const char *address, *what;
    } all[] = {
        {"8.8.8.8", NULL},
        {"1.1.1.1", NULL},
        {"172.15.255.255", NULL},
        {"172.32.0.0", NULL},
        {"100.63.0.1", NULL},
        {"100.128.0.0", NULL},
        {"203.0.113.9", NULL},
        {"2606:4700::1", NULL},
        {"64:ff9b::808:808", NULL},
        {"::ffff:8.8.8.8", NULL},
        {"2002:808:808::", NULL},
        {"0.0.0.0", "unspecified"},
        {"0.1.2.3", "unspecified"},
        {"10.0.0.1", "private"},
        {"100.64.0.1", "private"},
        {"127.0.0.1", "loopback"},
        {"127.255.255.255", "loopback"},
        {"169.254.1.1", "link-local"},
        {"169.254.169.254", "metadata service"},
        {"100.100.100.200", "metadata service"},
        {"168.63.129.16", "metadata service"},
        {"192.0.0.192", "metadata service"},
        {"fd00:ec2::254", "metadata service"},
        {"172.16.0.1", "private"},
        {"172.31.255.255", "private"},
        {"192.0.0.1", "reserved"},
        {"192.168.1.1", "private"},
        {"198.18.0.1", "private"},
        {"224.0.0.1", "multicast"},
        {"255.255.255.255", "reserved"},
        {"::", "unspecified"},
        {"::1", "loopback"},
        {"fc00::1", "private"},
        {"fdff::1", "private"},
        {"fe80::1", "link-local"},
        {"febf::1", "link-local"},
        {"fec0::1", "private"},
        {"ff02::1", "multicast"},
        {"100::1", "reserved"},
        {"::ffff:10.0.0.1", "private"},
        {"::ffff:169.254.169.254", "metadata service"},
        {"::127.0.0.1", "loopback"},
        {"64:ff9b::7f00:1", "loopback"},
        {"64:ff9b:1::a9fe:a9fe", "metadata service"},
        {"2002:7f00:1::", "loopback"},
        {"2001:0:1::80ff:fffe", "loopback"},
    };

    for (size_t i = 0; i < CF_COUNT(all); i++) {
        struct sockaddr_in v4 = {.sin_family = AF_INET};
        struct sockaddr_in6 v6 = {.sin6_family = AF_INET6};
        bool is_v4 = strchr(all[i].address, ':') == NULL;
        ck_assert_int_eq(is_v4 ? inet_pton(AF_INET, all[i].address, &v4.sin_addr)
                               : inet_pton(AF_INET6, all[i].address, &v6.sin6_addr),
                         1);
        const char *what =
            cf_address_refused(is_v4 ? (struct sockaddr *)&v4 : (struct sockaddr *)&v6);
        ck_assert_msg((what == NULL) == (all[i].what == NULL) &&
                          (what == NULL || strcmp(what, all[i].what) == 0),
                      "%s: %s", all[i].address, what != NULL ? what : "public");
    }
    ck_assert_str_eq(cf_address_refused(&(struct sockaddr){.sa_family = AF_UNIX}),
                     "not an internet address");
}
END_TEST

UNIT_MAIN(
    "relay/egress",
    tcase_add_test(tc, an_allowed_name_is_tunnelled_to_and_both_halves_close_by_themselves);
    tcase_add_test(tc, plain_http_is_fetched_as_its_server_wants_it);
    tcase_add_test(tc, what_is_not_open_is_denied_and_told_which_flag_would_open_it);
    tcase_add_test(tc, an_allowed_name_that_leads_inside_is_refused_whatever_else_it_leads_to);
    tcase_add_test(tc, a_name_that_changes_its_mind_is_connected_to_where_it_was_looked_at);
    tcase_add_test(tc, the_next_address_is_tried_and_none_is_a_bad_gateway);
    tcase_add_test(tc, a_slow_reader_holds_its_server_back_and_a_client_that_leaves_ends_it);
    tcase_add_test(tc, a_long_answer_arrives_whole);
    tcase_add_test(tc, a_tunnel_in_which_nothing_moves_is_ended);
    tcase_add_test(tc, closing_ends_attempts_under_way);
    tcase_add_test(tc, hosts_of_the_wrong_form_are_refused);
    tcase_add_test(tc, addresses_are_told_apart_in_every_form_they_come);)
