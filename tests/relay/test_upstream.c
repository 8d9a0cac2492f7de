#include "tests/relay/rig.h"

#include "tests/support/provider.h"
#include "tests/support/tls_server.h"

#include <curl/curl.h>
#include <dirent.h>
#include <sys/stat.h>

/* A relay in front of a provider of ours, and one client. */
struct stage {
    struct world world;
    struct client client;
    struct provider provider;
    char dir[64];
};

#define REAL_KEY "sk-real-key-0123456789"

static void
stage_open(struct stage *stage, const struct cf_relay_options *more)
{
    struct cf_relay_options options = *more;
    struct cf_relay_upstream upstream = {.provider = "test-provider",
                                         .dialects = ANTHROPIC | CHAT | RESPONSES | FAL,
                                         .key = REAL_KEY};
    uv_loop_t probe_loop; /* the port must be known before the relay opens */
    struct provider probe;
    char url[64];

    curl_global_init(CURL_GLOBAL_DEFAULT);
    snprintf(stage->dir, sizeof stage->dir, "/tmp/cf-relay-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(stage->dir));
    /* any free port: found by binding it once */
    uv_loop_init(&probe_loop);
    ck_assert(provider_open(&probe, &probe_loop, "127.0.0.1", 0));
    unsigned port = probe.port;
    provider_close(&probe);
    uv_run(&probe_loop, UV_RUN_DEFAULT);
    uv_loop_close(&probe_loop);

    snprintf(url, sizeof url, "http://127.0.0.1:%u", port);
    upstream.url = url;
    if (options.upstreams == NULL) {
        options.upstreams = &upstream;
        options.upstream_count = 1;
    }
    options.private_dir = stage->dir;
    world_open(&stage->world, &options);
    world_keep(&stage->world);
    ck_assert(provider_open(&stage->provider, &stage->world.loop, "127.0.0.1", port));
    client_open(&stage->client, &stage->world);
}

static void
stage_close(struct stage *stage)
{
    client_close(&stage->client);
    provider_close(&stage->provider);
    world_close(&stage->world);
    ck_assert_int_eq(rmdir(stage->dir), 0); /* nothing of a body has a name there */
}

static void
run_until(struct stage *stage, unsigned rows)
{
    uint64_t until = uv_hrtime() + 20ull * 1000000000ull;

    while (stage->world.rows < rows && uv_hrtime() < until)
        uv_run(&stage->world.loop, UV_RUN_ONCE);
    client_read(&stage->client);
    ck_assert_uint_ge(stage->world.rows, rows);
}

static void
ask(struct stage *stage, const char *path, const char *headers, const char *body)
{
    unsigned rows = stage->world.rows;

    client_send(&stage->client, "POST", path, headers, body);
    if (stage->world.rows == rows) /* not answered at once */
        run_until(stage, rows + 1);
}

#define ASKS(model, more) \
    "{\"model\":\"" model \
    "\",\"max_tokens\":5,\"messages\":[{\"role\":\"user\",\"content\":\"x\"}]" more "}"

START_TEST(a_request_goes_on_with_the_real_key_and_without_the_clients_own_headers_of_the_hop)
{
    struct stage stage;
    const char *head;

    stage_open(&stage, &(struct cf_relay_options){0});
    ask(&stage, "/v1/messages?beta=true",
        KEY "Cookie: c=1\r\nConnection: x-mine\r\nX-Mine: 1\r\nAccept-Encoding: gzip, br\r\n"
            "anthropic-beta: a,b\r\nProxy-Authorization: p\r\nUser-Agent: agent/1\r\n",
        ASKS("m", ""));
    head = stage.provider.head.data;
    ck_assert_int_eq(stage.client.status, 200);
    ck_assert(strncmp(head, "POST /v1/messages?beta=true\n", 28) == 0);
    ck_assert_ptr_nonnull(strstr(head, "\nx-api-key: " REAL_KEY "\n"));
    ck_assert_ptr_nonnull(strstr(head, "\nanthropic-beta: a,b\n"));
    ck_assert_ptr_nonnull(strstr(head, "\nanthropic-version: 2023-06-01\n"));
    ck_assert_ptr_nonnull(strstr(head, "\nUser-Agent: agent/1\n"));
    ck_assert_ptr_null(strstr(head, "secret-token"));
    ck_assert_ptr_null(strcasestr(head, "cookie"));
    ck_assert_ptr_null(strcasestr(head, "x-mine"));
    ck_assert_ptr_null(strcasestr(head, "accept-encoding"));
    ck_assert_ptr_null(strcasestr(head, "proxy-"));
    ck_assert_str_eq(last_text(&stage.world, "provider"), "test-provider");
    ck_assert_str_eq(last_text(&stage.world, "usage"), "reported");
    ck_assert_int_eq(cf_json_int(stage.world.last, "in", 0), 11);
    ck_assert_int_eq(cf_json_int(stage.world.last, "out", 0), 42);
    ask(&stage, "/v1/chat/completions", KEY, ASKS("m", ""));
    ck_assert_ptr_nonnull(
        strstr(stage.provider.head.data, "\nAuthorization: Bearer " REAL_KEY "\n"));
    ask(&stage, "/v1/messages/count_tokens", KEY, ASKS("m", ""));
    ck_assert_str_eq(stage.client.body.data, "{\"input_tokens\":77}");
    ck_assert(cf_json_bool(stage.world.last, "probe", false));
    stage_close(&stage);
}
END_TEST

START_TEST(a_stream_comes_as_it_is_and_its_usage_is_read_in_passing)
{
    struct stage stage;

    stage_open(&stage, &(struct cf_relay_options){0});
    ask(&stage, "/v1/messages", KEY, ASKS("slow", ",\"stream\":true"));
    ck_assert_int_eq(stage.client.status, 200);
    ck_assert(stage.client.is_whole);
    ck_assert_ptr_nonnull(strstr(stage.client.head.data, "X-Request-Id: up-1"));
    ck_assert_ptr_null(strcasestr(stage.client.head.data, "set-cookie"));
    ck_assert_ptr_nonnull(strstr(stage.client.body.data, "piece 6 "));
    ck_assert_ptr_nonnull(strstr(stage.client.body.data, "event: message_stop\n"));
    ck_assert(cf_json_bool(stage.world.last, "streamed", false));
    ck_assert_int_eq(cf_json_int(stage.world.last, "in", 0), 11);
    ck_assert_int_eq(cf_json_int(stage.world.last, "out", 0), 42);
    ask(&stage, "/v1/chat/completions", KEY, ASKS("m", ",\"stream\":true"));
    ck_assert_int_eq(cf_json_int(stage.world.last, "out", 0), 42);
    ck_assert_str_eq(last_text(&stage.world, "usage"), "reported");
    stage_close(&stage);
}
END_TEST

static uint64_t
sum_of(const char *bytes, size_t len)
{
    uint64_t sum = 0;

    for (size_t i = 0; i < len; i++)
        sum = sum * 31 + (unsigned char)bytes[i];
    return sum;
}

START_TEST(a_body_of_any_size_arrives_whole_from_memory_or_file)
{
    static const size_t sizes[] = {100, 256 * 1024, 256 * 1024 + 1, 300000, 9 * 1024 * 1024};
    struct stage stage;
    char head[200], expected[100];

    stage_open(&stage, &(struct cf_relay_options){0});
    for (size_t i = 0; i < CF_COUNT(sizes); i++) {
        struct cf_buf body = {0};
        cf_buf_adds(&body, "{\"model\":\"sum\",\"messages\":[],\"pad\":\"");
        while (body.len < sizes[i] - 2) {
            char ch = (char)('a' + body.len % 23);
            cf_buf_add(&body, &ch, 1);
        }
        cf_buf_adds(&body, "\"}");
        snprintf(head, sizeof head,
                 "POST /v1/messages HTTP/1.1\r\nHost: h\r\n" KEY "Content-Length: %zu\r\n\r\n",
                 body.len);
        unsigned rows = stage.world.rows;
        cf_http_conn_feed(stage.client.conn, head, strlen(head));
        stage.client.consumed = 0;
        for (size_t at = 0; at < body.len; at += 60000) {
            while (at > 0 && at - stage.client.consumed > 500000 && at > stage.client.consumed)
                uv_run(&stage.world.loop, UV_RUN_ONCE); /* as a door's credit would have it */
            cf_http_conn_feed(stage.client.conn, body.data + at,
                              body.len - at < 60000 ? body.len - at : 60000);
        }
        run_until(&stage, rows + 1);
        snprintf(expected, sizeof expected, "{\"bytes\":%zu,\"sum\":%llu}", body.len,
                 (unsigned long long)sum_of(body.data, body.len));
        ck_assert_str_eq(stage.client.body.data, expected);
        cf_buf_release(&body);
    }
    stage_close(&stage);
}
END_TEST

START_TEST(a_body_that_cannot_be_kept_is_refused)
{
    struct stage stage;
    struct cf_buf body = {0};

    stage_open(&stage, &(struct cf_relay_options){0});
    ck_assert_int_eq(rmdir(stage.dir), 0);
    cf_buf_adds(&body, "{\"model\":\"sum\",\"messages\":[],\"pad\":\"");
    while (body.len < 700000)
        cf_buf_adds(&body, "0123456789");
    cf_buf_adds(&body, "\"}");
    ask(&stage, "/v1/messages", KEY, body.data);
    ck_assert_int_eq(stage.client.status, 507);
    ck_assert_str_eq(last_text(&stage.world, "fault"), "disk");
    ck_assert_uint_eq(stage.provider.requests, 0);
    cf_buf_release(&body);
    ck_assert_int_eq(mkdir(stage.dir, 0700), 0);
    stage_close(&stage);
}
END_TEST

START_TEST(a_client_that_leaves_takes_the_provider_call_with_it)
{
    struct stage stage;

    stage_open(&stage, &(struct cf_relay_options){0});
    client_send(&stage.client, "POST", "/v1/messages", KEY, ASKS("pause", ",\"stream\":true"));
    while (stage.client.raw.len < 500)
        uv_run(&stage.world.loop, UV_RUN_ONCE);
    cf_http_conn_gone(stage.client.conn);
    ck_assert_uint_eq(stage.world.rows, 1);
    ck_assert(cf_json_bool(stage.world.last, "aborted", false));
    ck_assert_str_eq(last_text(&stage.world, "usage"), "partial");
    ck_assert_int_eq(cf_json_int(stage.world.last, "in", 0), 11);
    while (stage.provider.aborts == 0)
        uv_run(&stage.world.loop, UV_RUN_ONCE);
    stage_close(&stage);
}
END_TEST

START_TEST(a_slow_reader_holds_the_provider_back)
{
    struct stage stage;
    uint64_t until;

    stage_open(&stage, &(struct cf_relay_options){0});
    stage.client.room = 0;
    client_send(&stage.client, "POST", "/v1/messages", KEY, ASKS("long", ",\"stream\":true"));
    until = uv_hrtime() + 400000000ull;
    while (uv_hrtime() < until)
        uv_run(&stage.world.loop, UV_RUN_ONCE);
    ck_assert_uint_lt(stage.provider.sent,
                      PROVIDER_LONG / 2); /* what sockets hold, not more */
    stage.client.room = SIZE_MAX;
    cf_http_conn_writable(stage.client.conn);
    run_until(&stage, 1);
    ck_assert(stage.client.is_whole);
    ck_assert_uint_ge(stage.client.body.len, PROVIDER_LONG);
    ck_assert_ptr_null(cf_json_str(stage.world.last, "fault"));
    stage_close(&stage);
}
END_TEST

static void
expect_fault(struct stage *stage, const char *body, const char *fault, int status,
             const char *said)
{
    ask(stage, "/v1/messages", KEY, body);
    ck_assert_str_eq(last_text(&stage->world, "fault"), fault);
    ck_assert_ptr_null(cf_json_str(stage->world.last, "refused"));
    ck_assert_int_eq(stage->client.status, status);
    ck_assert_msg(strstr(stage->client.body.data, said) != NULL, "%s",
                  stage->client.body.data);
}

START_TEST(what_goes_wrong_upstream_is_named_and_never_looks_like_an_end)
{
    struct stage stage;
    const struct cf_relay_options options = {.times = {.first_byte = 150, .stall = 150}};

    stage_open(&stage, &options);
    expect_fault(&stage, ASKS("mute", ""), "silent", 504, "did not begin to answer");
    expect_fault(&stage, ASKS("pause", ",\"stream\":true"), "stalled", 200, "event: error\n");
    ck_assert(stage.client.is_whole);
    expect_fault(&stage, ASKS("cut", ",\"stream\":true"), "lost", 200, "event: error\n");
    expect_fault(&stage, ASKS("deny", ""), "credential", 400, "refused the key of this run");
    ck_assert_ptr_null(strstr(stage.client.body.data, "sk-real"));
    ck_assert_ptr_nonnull(strstr(stage.client.head.data, "x-should-retry: false"));
    ask(&stage, "/v1/messages", KEY, ASKS("busy", ""));
    ck_assert_int_eq(stage.client.status, 429);
    ck_assert_ptr_nonnull(strstr(stage.client.head.data, "retry-after: 7"));
    ask(&stage, "/v1/messages", KEY, ASKS("short", ""));
    ck_assert_str_eq(last_text(&stage.world, "fault"), "lost");
    ck_assert(stage.client.is_reset);
    stage_close(&stage);
}
END_TEST

START_TEST(an_answer_that_shows_the_key_is_cut_before_it)
{
    struct stage stage;

    stage_open(&stage, &(struct cf_relay_options){0});
    ask(&stage, "/v1/messages", KEY, ASKS("almost", ""));
    ck_assert(stage.client.is_whole);
    ck_assert_int_eq(stage.client.status, 403);
    ck_assert_str_eq(stage.client.body.data, "sk-sk-sk-real-key-012345678");
    ck_assert_ptr_null(cf_json_str(stage.world.last, "fault"));
    ask(&stage, "/v1/messages", KEY, ASKS("echo", ""));
    ck_assert(stage.client.raw.data == NULL || strstr(stage.client.raw.data, "sk-real") == NULL);
    ck_assert_str_eq(last_text(&stage.world, "fault"), "protocol");
    ck_assert(stage.client.is_reset);
    stage_close(&stage);
}
END_TEST

START_TEST(a_compressed_answer_passes_as_it_is)
{
    struct stage stage;

    stage_open(&stage, &(struct cf_relay_options){0});
    ask(&stage, "/v1/messages", KEY, ASKS("coded", ""));
    ck_assert_ptr_nonnull(strstr(stage.client.head.data, "Content-Encoding: br"));
    ck_assert_str_eq(stage.client.body.data, "\x0b\x02not really brotli\x03");
    ck_assert_str_eq(last_text(&stage.world, "usage"), "estimated");
    stage_close(&stage);
}
END_TEST

START_TEST(a_provider_that_is_not_there_is_a_bad_gateway)
{
    static const struct cf_relay_upstream nobody = {
        .provider = "nobody", .dialects = ANTHROPIC, .url = "http://127.0.0.1:1"};
    struct stage stage;

    stage_open(&stage, &(struct cf_relay_options){.upstreams = &nobody, .upstream_count = 1});
    expect_fault(&stage, ASKS("m", ""), "connect", 502, "no connection could be made");
    client_send(&stage.client, "POST", "/v1/chat/completions", KEY, ASKS("m", ""));
    ck_assert_int_eq(stage.client.status, 404);
    ck_assert_str_eq(last_text(&stage.world, "refused"), "dialect");
    stage_close(&stage);
}
END_TEST

START_TEST(urls_in_fals_answers_lead_back_to_the_relay)
{
    static const char own[] = "http://127.0.0.1:4180/a/b/requests/r-1";
    struct stage stage;
    json_t *job;

    stage_open(&stage, &(struct cf_relay_options){0});
    ask(&stage, "/a/b/more", KEY, "{\"prompt\":\"x\"}");
    ck_assert_ptr_nonnull(
        strstr(stage.provider.head.data, "\nAuthorization: Key " REAL_KEY "\n"));
    job = client_json(&stage.client);
    ck_assert_str_eq(cf_json_str(job, "response_url"), own);
    ck_assert_str_eq(cf_json_str(job, "status"), "IN_QUEUE");
    json_decref(job);
    client_send(&stage.client, "GET", "/a/b/requests/r-1/status?logs=1", KEY, NULL);
    run_until(&stage, 2);
    ck_assert(strncmp(stage.provider.head.data, "GET /a/b/requests/r-1/status?logs=1\n", 36) ==
              0);
    ck_assert_ptr_nonnull(strstr(stage.client.body.data, own));
    ck_assert_ptr_null(strstr(stage.client.body.data, "provider.test"));
    client_send(&stage.client, "GET", "/a/b/requests/r-1/status/stream", KEY, NULL);
    run_until(&stage, 3);
    ck_assert_ptr_nonnull(strstr(stage.client.body.data, "data: {\"status\":\"COMPLETED\""));
    ck_assert_ptr_null(strstr(stage.client.body.data, "queue.provider.test"));
    client_send(&stage.client, "GET", "/a/b/requests/r-1", KEY, NULL);
    run_until(&stage, 4);
    ck_assert_ptr_nonnull(strstr(stage.client.body.data, "https://media.provider.test/1.png"));
    ask(&stage, "/a/b?fal_webhook=https://elsewhere", KEY, "{}");
    ck_assert_int_eq(stage.client.status, 400);
    ask(&stage, "/a/../b", KEY, "{}");
    ck_assert_int_eq(stage.client.status, 404);
    ck_assert_uint_eq(stage.provider.requests, 4);
    stage_close(&stage);
}
END_TEST

START_TEST(a_script_answers_before_the_provider_is_asked)
{
    struct stage stage;
    json_t *script = json_pack("{s:[{s:{s:s}, s:[{s:s}]}]}", "rules", "when", "model", "mine",
                               "say", "text", "from the script");

    stage_open(&stage, &(struct cf_relay_options){.script = script});
    ask(&stage, "/v1/messages", KEY, ASKS("mine", ""));
    ck_assert_ptr_nonnull(strstr(stage.client.body.data, "from the script"));
    ck_assert_ptr_null(cf_json_str(stage.world.last, "provider"));
    ck_assert_uint_eq(stage.provider.requests, 0);
    ask(&stage, "/v1/messages", KEY, ASKS("other", ""));
    ck_assert_uint_eq(stage.provider.requests, 1);
    stage_close(&stage);
    json_decref(script);
}
END_TEST

START_TEST(caps_are_kept_while_an_answer_comes)
{
    struct stage stage;

    stage_open(&stage, &(struct cf_relay_options){.caps = {.response_bytes = 100000}});
    ask(&stage, "/v1/messages", KEY, ASKS("long", ",\"stream\":true"));
    ck_assert_str_eq(last_text(&stage.world, "fault"), "cut");
    ck_assert_ptr_nonnull(strstr(stage.client.body.data, "100000 answer bytes is spent"));
    while (stage.provider.aborts == 0)
        uv_run(&stage.world.loop, UV_RUN_ONCE);
    ask(&stage, "/v1/messages", KEY, ASKS("m", ""));
    ck_assert_int_eq(stage.client.status, 400);
    ck_assert_str_eq(last_text(&stage.world, "refused"), "cap");
    ck_assert_uint_eq(stage.provider.requests, 1);
    stage_close(&stage);
}
END_TEST

START_TEST(closing_ends_calls_under_way)
{
    struct stage stage;

    stage_open(&stage, &(struct cf_relay_options){0});
    client_send(&stage.client, "POST", "/v1/messages", KEY, ASKS("pause", ",\"stream\":true"));
    while (stage.client.raw.len < 100)
        uv_run(&stage.world.loop, UV_RUN_ONCE);
    provider_close(&stage.provider);
    world_close(&stage.world);
    ck_assert(stage.client.is_reset);
    cf_buf_release(&stage.client.raw);
    cf_buf_release(&stage.client.body);
    cf_buf_release(&stage.client.head);
    rmdir(stage.dir);
}
END_TEST

START_TEST(a_certificate_that_nobody_vouches_for_gets_no_key)
{
    struct tls_server server;
    struct cf_relay_upstream upstream = {
        .provider = "tls", .dialects = ANTHROPIC, .key = REAL_KEY};
    struct stage stage;
    char url[64];

    tls_server_start(&server, NULL);
    if (server.pid == 0) {
        printf("SKIPPED upstream over TLS: %s\n", server.why_not);
        return;
    }
    snprintf(url, sizeof url, "https://127.0.0.1:%u", server.port);
    upstream.url = url;
    stage_open(&stage,
               &(struct cf_relay_options){.upstreams = &upstream, .upstream_count = 1});
    expect_fault(&stage, ASKS("m", ""), "tls", 502, "certificate");
    stage_close(&stage);
    tls_server_stop(&server);
}
END_TEST

START_TEST(urls_that_would_show_the_key_or_are_none_are_refused)
{
    static const struct {
        const char *url, *why;
    } wrong[] = {
        {"ftp://x", "neither"},
        {"https://", "names no host"},
        {"https://u:p@x", "user name"},
        {"https://x/?q", "has a query"},
        {"https://x y", "a space"},
        {"http://example.com", "unencrypted"},
        {"http://127.evil.com", "unencrypted"},
        {"http://localhost.evil", "unencrypted"},
    };

    for (size_t i = 0; i < CF_COUNT(wrong); i++) {
        struct cf_relay_upstream upstream = {.provider = "p", .url = wrong[i].url};
        struct cf_relay_options options = {.upstreams = &upstream, .upstream_count = 1};
        struct cf_relay *relay;
        struct cf_error err = {0};
        uv_loop_t loop;

        uv_loop_init(&loop);
        ck_assert_int_eq(cf_relay_open(&loop, &options, &relay, &err), -1);
        ck_assert_msg(strstr(err.text, wrong[i].why) != NULL, "%s: %s", wrong[i].url,
                      err.text);
        uv_loop_close(&loop);
    }
}
END_TEST

UNIT_MAIN(
    "relay/upstream",
    tcase_add_test(
        tc,
        a_request_goes_on_with_the_real_key_and_without_the_clients_own_headers_of_the_hop);
    tcase_add_test(tc, a_stream_comes_as_it_is_and_its_usage_is_read_in_passing);
    tcase_add_test(tc, a_body_of_any_size_arrives_whole_from_memory_or_file);
    tcase_add_test(tc, a_body_that_cannot_be_kept_is_refused);
    tcase_add_test(tc, a_client_that_leaves_takes_the_provider_call_with_it);
    tcase_add_test(tc, a_slow_reader_holds_the_provider_back);
    tcase_add_test(tc, what_goes_wrong_upstream_is_named_and_never_looks_like_an_end);
    tcase_add_test(tc, an_answer_that_shows_the_key_is_cut_before_it);
    tcase_add_test(tc, a_compressed_answer_passes_as_it_is);
    tcase_add_test(tc, a_provider_that_is_not_there_is_a_bad_gateway);
    tcase_add_test(tc, urls_in_fals_answers_lead_back_to_the_relay);
    tcase_add_test(tc, a_script_answers_before_the_provider_is_asked);
    tcase_add_test(tc, caps_are_kept_while_an_answer_comes);
    tcase_add_test(tc, closing_ends_calls_under_way);
    tcase_add_test(tc, a_certificate_that_nobody_vouches_for_gets_no_key);
    tcase_add_test(tc, urls_that_would_show_the_key_or_are_none_are_refused);)
