/* What an Engine should not do, and what we say then. */
#include "base/str.h"
#include "tests/engine/live.h"
#include "tests/support/fake_engine.h"
#include "tests/support/unit.h"

#include <sys/stat.h>

#define OK "HTTP/1.1 200 OK\r\n"
#define PING OK "Api-Version: 1.41\r\nContent-Length: 0\r\n\r\n"
#define BODY(text) "Content-Type: application/json\r\nConnection: close\r\n\r\n" text
#define VERSION                                                                            \
    OK BODY("{\"Version\":\"20.10.0\",\"ApiVersion\":\"1.41\",\"MinAPIVersion\":\"1.12\"," \
            "\"Os\":\"linux\",\"Arch\":\"amd64\"}")
#define INFO OK BODY("{\"ID\":\"x\",\"NCPU\":2,\"MemTotal\":1000}")

struct fault {
    struct live live;
    struct fake_engine fake;
};

static int
connect_to(struct fault *fault, const struct fake_answer *answers, size_t count)
{
    struct live *live = &fault->live;
    struct cf_engine_options options = {.docker_config_dir = "/nonexistent"};

    memset(fault, 0, sizeof *fault);
    live_init(live);
    fake_open(&fault->fake, &live->loop, answers, count);
    options.endpoint = fault->fake.url;
    ck_assert_int_eq(cf_engine_open(&live->loop, &options, &live->engine, &live->err), 0);
    ck_assert_int_eq(cf_engine_connect(live->engine, 3000, live_on_connect, live, &live->err),
                     0);
    live_wait(live);
    return live->status;
}

static void
end(struct fault *fault)
{
    fake_close(&fault->fake);
    live_close(&fault->live);
}

#define GOOD_START                                                             \
    {"HEAD /_ping", PING, 0, false, 0}, {"GET /version", VERSION, 0, true, 0}, \
    {                                                                          \
        "GET /v1.41/info", INFO, 0, true, 0                                    \
    }

static void
call(struct fault *fault, const char *path, uint64_t deadline_ms, uint64_t idle_ms,
     bool objects)
{
    struct cf_engine_request request = {.method = "GET",
                                        .path = path,
                                        .deadline_ms = deadline_ms,
                                        .idle_ms = idle_ms,
                                        .on_object = objects ? live_on_object : NULL};
    struct cf_error err;

    ck_assert_int_eq(
        cf_engine_call(fault->live.engine, &request, live_on_done, &fault->live, NULL, &err),
        0);
    live_wait(&fault->live);
}

static void
expect_text(const struct fault *fault, const char *text)
{
    if (strstr(fault->live.err.text, text) == NULL)
        ck_abort_msg("\"%s\" is not in: %s", text, fault->live.err.text);
}

START_TEST(an_engine_below_the_floor_is_refused_with_both_versions)
{
    static const struct fake_answer answers[] = {
        {"HEAD /_ping", OK "Api-Version: 1.40\r\nContent-Length: 0\r\n\r\n", 0, false, 0},
        {"GET /version", OK BODY("{\"ApiVersion\":\"1.40\",\"MinAPIVersion\":\"1.12\"}"), 0,
         true, 0}};
    struct fault fault;

    ck_assert_int_lt(connect_to(&fault, answers, CF_COUNT(answers)), 0);
    expect_text(&fault, "1.40");
    expect_text(&fault, "1.41");
    end(&fault);
}
END_TEST

START_TEST(an_engine_above_what_we_know_is_refused)
{
    static const struct fake_answer answers[] = {
        {"HEAD /_ping", OK "Api-Version: 1.99\r\nContent-Length: 0\r\n\r\n", 0, false, 0},
        {"GET /v1.47/info",
         "HTTP/1.1 400 Bad Request\r\n" BODY("{\"message\":\"too old\"}"), 0, true, 0},
        {"GET /version", OK BODY("{\"ApiVersion\":\"1.99\",\"MinAPIVersion\":\"1.90\"}"), 0,
         true, 0}};
    struct fault fault;

    ck_assert_int_lt(connect_to(&fault, answers, CF_COUNT(answers)), 0);
    expect_text(&fault, "1.90");
    end(&fault);
}
END_TEST

START_TEST(a_newer_engine_is_spoken_to_in_the_newest_version_known)
{
    static const struct fake_answer answers[] = {
        {"HEAD /_ping", OK "Api-Version: 1.52\r\nContent-Length: 0\r\n\r\n", 0, false, 0},
        {"GET /version", OK BODY("{\"ApiVersion\":\"1.52\",\"MinAPIVersion\":\"1.44\"}"), 0,
         true, 0},
        {"GET /v1.47/info", INFO, 0, true, 0}};
    struct fault fault;

    ck_assert_int_eq(connect_to(&fault, answers, CF_COUNT(answers)), 0);
    ck_assert_str_eq(cf_engine_facts(fault.live.engine)->api_version, "1.47");
    ck_assert_str_eq(cf_engine_facts(fault.live.engine)->api_version_max, "1.52");
    end(&fault);
}
END_TEST

START_TEST(a_ping_without_a_version_is_made_up_for_by_version)
{
    static const struct fake_answer answers[] = {
        {"HEAD /_ping", "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n", 0, false, 0},
        {"GET /_ping", OK "Content-Length: 2\r\n\r\nOK", 0, false, 0},
        {"GET /version", VERSION, 0, true, 0},
        {"GET /v1.41/info", INFO, 0, true, 0}};
    struct fault fault;

    ck_assert_int_eq(connect_to(&fault, answers, CF_COUNT(answers)), 0);
    end(&fault);
}
END_TEST

START_TEST(what_is_no_engine_is_said_to_be_none)
{
    static const struct fake_answer answers[] = {
        {"HEAD /_ping", "SSH-2.0-OpenSSH_9.2\r\n", 0, true, 0},
        {"GET /_ping", "SSH-2.0-OpenSSH_9.2\r\n", 0, true, 0}};
    struct fault fault;

    ck_assert_int_lt(connect_to(&fault, answers, CF_COUNT(answers)), 0);
    expect_text(&fault, "HTTP/1.1");
    end(&fault);
}
END_TEST

START_TEST(a_web_server_is_no_engine)
{
    static const struct fake_answer answers[] = {
        {"HEAD /_ping", OK "Content-Length: 0\r\n\r\n", 0, false, 0},
        {"GET /_ping", OK "Content-Length: 2\r\n\r\nhi", 0, false, 0},
        {"GET /version", OK BODY("<html>"), 0, true, 0}};
    struct fault fault;

    ck_assert_int_lt(connect_to(&fault, answers, CF_COUNT(answers)), 0);
    expect_text(&fault, "does not answer like a Docker Engine");
    end(&fault);
}
END_TEST

START_TEST(an_engine_behind_tls_is_recognized)
{
    static const char said[] = "HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\nClient "
                               "sent an HTTP request to an HTTPS server.\n";
    static const struct fake_answer answers[] = {
        {"HEAD /_ping", "HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n", 0, true, 0},
        {"GET /_ping", said, 0, true, 0}};
    struct fault fault;

    ck_assert_int_lt(connect_to(&fault, answers, CF_COUNT(answers)), 0);
    expect_text(&fault, "wants TLS");
    ck_assert_ptr_nonnull(strstr(fault.live.err.fix, "DOCKER_TLS_VERIFY"));
    end(&fault);
}
END_TEST

START_TEST(silence_ends_at_the_deadline_and_names_the_request)
{
    static const struct fake_answer answers[] = {GOOD_START,
                                                 {"GET /v1.41/x", NULL, 0, false, 0}};
    struct fault fault;

    ck_assert_int_eq(connect_to(&fault, answers, CF_COUNT(answers)), 0);
    call(&fault, "/x?secret=1", 80, 0, false);
    ck_assert_int_eq(fault.live.err.kind, CF_ERROR_ENGINE_TIMEOUT);
    expect_text(&fault, "GET /x within 80 ms");
    call(&fault, "/x", 5000, 60, false);
    ck_assert_int_eq(fault.live.err.kind, CF_ERROR_ENGINE_TIMEOUT);
    expect_text(&fault, "silent for 60 ms");
    end(&fault);
}
END_TEST

START_TEST(an_answer_cut_short_is_lost)
{
    static const struct fake_answer answers[] = {
        GOOD_START,
        {"GET /v1.41/x", OK "Content-Length: 100\r\n\r\n{\"a\":", 0, true, 0},
        {"GET /v1.41/none", NULL, 0, true, 0},
        {"GET /v1.41/head", OK "Api-Version: 1.41\r\nContent-Ty", 0, true, 0}};
    struct fault fault;

    ck_assert_int_eq(connect_to(&fault, answers, CF_COUNT(answers)), 0);
    call(&fault, "/x", 3000, 0, false);
    ck_assert_int_eq(fault.live.err.kind, CF_ERROR_ENGINE);
    expect_text(&fault, "closed the connection");
    call(&fault, "/none", 3000, 0, false);
    expect_text(&fault, "closed the connection");
    call(&fault, "/head", 3000, 0, false);
    ck_assert_int_eq(fault.live.err.kind, CF_ERROR_ENGINE);
    expect_text(&fault, "in the head of its answer to GET /head");
    end(&fault);
}
END_TEST

START_TEST(an_answer_may_come_a_byte_at_a_time)
{
    static const struct fake_answer answers[] = {
        GOOD_START, {"GET /v1.41/x", OK "Content-Length: 7\r\n\r\n{\"a\":1}", 0, false, 1}};
    struct fault fault;

    ck_assert_int_eq(connect_to(&fault, answers, CF_COUNT(answers)), 0);
    call(&fault, "/x", 3000, 0, false);
    ck_assert_int_eq(fault.live.status, 0);
    ck_assert_int_eq(json_integer_value(json_object_get(fault.live.json, "a")), 1);
    end(&fault);
}
END_TEST

START_TEST(refusals_keep_status_message_and_request)
{
    static const struct fake_answer answers[] = {
        GOOD_START,
        {"GET /v1.41/json",
         "HTTP/1.1 409 Conflict\r\n" BODY("{\"message\":\"in use by \\u001b[31m x\"}\n"), 0,
         true, 0},
        {"GET /v1.41/text",
         "HTTP/1.1 500 Oops\r\nConnection: close\r\n\r\nplain words\nsecond line", 0, true, 0},
        {"GET /v1.41/none", "HTTP/1.1 503 Oops\r\nContent-Length: 0\r\n\r\n", 0, false, 0},
    };
    struct fault fault;

    ck_assert_int_eq(connect_to(&fault, answers, CF_COUNT(answers)), 0);
    call(&fault, "/json", 3000, 0, false);
    ck_assert_str_eq(fault.live.err.text,
                     "engine answered 409 to GET /json: in use by  [31m x");
    ck_assert_int_eq(fault.live.err.code, 409);
    call(&fault, "/text", 3000, 0, true);
    ck_assert_str_eq(fault.live.err.text, "engine answered 500 to GET /text: plain words");
    call(&fault, "/none", 3000, 0, false);
    ck_assert_str_eq(fault.live.err.text, "engine answered 503 to GET /none");
    end(&fault);
}
END_TEST

START_TEST(an_error_object_fails_a_stream_that_was_good_so_far)
{
    static const struct fake_answer answers[] = {
        GOOD_START,
        {"GET /v1.41/detail",
         OK BODY("{\"status\":\"a\"}\r\n{\"errorDetail\":{\"code\":3,\"message\":\"new "
                 "style\"}}\r\n"),
         0, true, 0},
        {"GET /v1.41/old", OK BODY("{\"error\":\"old style\"}\n{\"status\":\"b\"}"), 0, true,
         0},
        {"GET /v1.41/half", OK BODY("{\"status\":\"a\"}\r\n{\"stat"), 0, true, 0},
        {"GET /v1.41/html", OK BODY("<html>"), 0, true, 0},
        {"GET /v1.41/good", OK BODY("{\"a\":1}{\"b\":\"}\\\"{\"}\x1e\n{\"c\":[{}]}"), 0, true,
         1},
    };
    struct fault fault;

    ck_assert_int_eq(connect_to(&fault, answers, CF_COUNT(answers)), 0);
    call(&fault, "/detail", 3000, 0, true);
    expect_text(&fault, "new style");
    ck_assert_int_eq(fault.live.objects, 2);
    call(&fault, "/old", 3000, 0, true);
    expect_text(&fault, "old style");
    call(&fault, "/half", 3000, 0, true);
    expect_text(&fault, "middle of an object");
    call(&fault, "/html", 3000, 0, true);
    expect_text(&fault, "unexpected \"<html>\"");
    fault.live.objects = 0;
    call(&fault, "/good", 3000, 0, true);
    ck_assert_int_eq(fault.live.status, 0);
    ck_assert_int_eq(fault.live.objects, 3);
    end(&fault);
}
END_TEST

#define STEP(error)                                                                                    \
    OK BODY("{\"stream\":\"Step 1/2 : COPY root /\\n\"}{\"stream\":\" ---\\u003e 0123456789ab\\n\"}" \
            "{\"stream\":\"Step 2/2 : RUN x\\n\"}{\"error\":\"" error "\"}")

START_TEST(a_build_that_the_engine_itself_fails_is_not_the_authors)
{
    static const struct {
        const char *answer, *fix;
        enum cf_error_kind kind;
    } cases[] = {
        {STEP("unknown parent image ID sha256:01"), "prunes", CF_ERROR_ENGINE},
        {STEP("No such image: sha256:01"), "prunes", CF_ERROR_ENGINE},
        {STEP("No such container: 01"), "prunes", CF_ERROR_ENGINE},
        {STEP("Error processing tar file(exit status 1): write /x: no space left on device"), "make room", CF_ERROR_ENGINE},
        {STEP("The command 'echo No such image' returned a non-zero code: 1"), "last lines", CF_ERROR_CONFIG},
        {STEP("invalid from flag value base: no such image"), "last lines", CF_ERROR_CONFIG},
        {STEP("COPY failed: stat x: file does not exist"), "last lines", CF_ERROR_CONFIG},
    };
    struct live_build build;
    struct fault fault;
    char dir[64];

    ck_assert_int_eq(live_context(dir, ""), 0);
    for (size_t i = 0; i < CF_COUNT(cases); i++) {
        const struct fake_answer answers[] = {GOOD_START, {"POST /v1.41/build", cases[i].answer, 0, true, 0}};
        ck_assert_int_eq(connect_to(&fault, answers, CF_COUNT(answers)), 0);
        ck_assert_int_lt(live_build(&fault.live, dir, NULL, &build), 0);
        ck_assert_msg(fault.live.err.kind == cases[i].kind, "%d: %s", (int)fault.live.err.kind, fault.live.err.text);
        ck_assert_msg(strstr(fault.live.err.fix, cases[i].fix) != NULL, "%s: %s", fault.live.err.text, fault.live.err.fix);
        end(&fault);
    }
    live_remove_dir(dir);
}
END_TEST

START_TEST(a_connection_that_died_while_idle_costs_nothing)
{
    static const struct fake_answer answers[] = {
        GOOD_START, {"GET /v1.41/x", OK "Content-Length: 2\r\n\r\n{}", 0, true, 0}};
    struct fault fault;

    ck_assert_int_eq(connect_to(&fault, answers, CF_COUNT(answers)), 0);
    for (int i = 0; i < 5; i++) { /* each answer promises keep-alive and hangs up */
        call(&fault, "/x", 3000, 0, false);
        ck_assert_int_eq(fault.live.status, 0);
    }
    end(&fault);
}
END_TEST

START_TEST(connections_are_reused)
{
    static const struct fake_answer answers[] = {
        GOOD_START, {"GET /v1.41/x", OK "Content-Length: 2\r\n\r\n{}", 0, false, 0}};
    struct fault fault;

    ck_assert_int_eq(connect_to(&fault, answers, CF_COUNT(answers)), 0);
    int before = fault.fake.connections;
    for (int i = 0; i < 20; i++)
        call(&fault, "/x", 3000, 0, false);
    ck_assert_int_le(fault.fake.connections, before + 1);
    end(&fault);
}
END_TEST

START_TEST(an_endless_head_and_an_endless_body_are_bounded)
{
    static char head[400000], body[17 * 1024 * 1024 + 100];
    static struct fake_answer answers[] = {GOOD_START,
                                           {"GET /v1.41/head", head, 0, true, 0},
                                           {"GET /v1.41/body", body, sizeof body, true, 0}};
    struct fault fault;
    size_t at = (size_t)sprintf(head, OK);

    while (at < sizeof head - 40)
        at += (size_t)sprintf(head + at, "X-More: 0123456789\r\n");
    memset(body, 'x', sizeof body);
    memcpy(body, OK "\r\n", strlen(OK) + 2);
    ck_assert_int_eq(connect_to(&fault, answers, CF_COUNT(answers)), 0);
    call(&fault, "/head", 3000, 0, false);
    ck_assert_int_eq(fault.live.err.kind, CF_ERROR_ENGINE);
    call(&fault, "/body", 5000, 0, false);
    ck_assert_int_eq(fault.live.err.kind, CF_ERROR_ENGINE);
    expect_text(&fault, "larger than 16 MiB");
    end(&fault);
}
END_TEST

/* ---- no connection at all --------------------------------------------------------------- */

static int
connect_url(struct live *live, const char *url)
{
    unsetenv("DOCKER_TLS_VERIFY");
    return live_open_at(live, url);
}

START_TEST(no_socket_says_so)
{
    struct live live;

    ck_assert_int_lt(connect_url(&live, "unix:///tmp/cf-there-is-none.sock"), 0);
    ck_assert_ptr_nonnull(strstr(live.err.text, "no such socket"));
    ck_assert_ptr_nonnull(strstr(live.err.text, "--engine"));
    live_close(&live);
}
END_TEST

START_TEST(a_plain_file_is_not_a_socket)
{
    struct live live;

    ck_assert_int_lt(connect_url(&live, "unix:///etc/hostname"), 0);
    ck_assert_ptr_nonnull(strstr(live.err.text, "not a socket"));
    live_close(&live);
}
END_TEST

START_TEST(a_dead_socket_has_no_listener)
{
    struct live live;
    struct fake_engine fake;
    uv_loop_t loop;

    uv_loop_init(&loop);
    fake_open(&fake, &loop, NULL, 0);
    uv_os_fd_t fd;
    uv_fileno((uv_handle_t *)&fake.server, &fd);
    char keep[112];
    snprintf(keep, sizeof keep, "%s.keep", fake.path);
    ck_assert_int_eq(rename(fake.path, keep), 0); /* uv would unlink it */
    fake_close(&fake);
    uv_run(&loop, UV_RUN_DEFAULT);
    uv_loop_close(&loop);
    char url[120];
    snprintf(url, sizeof url, "unix://%s", keep);
    ck_assert_int_lt(connect_url(&live, url), 0);
    ck_assert_ptr_nonnull(strstr(live.err.text, "nobody listens"));
    live_close(&live);
    unlink(keep);
}
END_TEST

START_TEST(no_permission_names_the_group_of_the_socket)
{
    struct live live;
    struct fake_engine fake;
    uv_loop_t loop;

    if (geteuid() != 0) {
        printf("SKIPPED engine/no_permission_names_the_group_of_the_socket: needs root to "
               "become somebody else\n");
        return;
    }
    uv_loop_init(&loop);
    fake_open(&fake, &loop, NULL, 0);
    ck_assert_int_eq(chown(fake.path, 0, 4), 0); /* adm */
    ck_assert_int_eq(chmod(fake.path, 0660), 0);
    ck_assert_int_eq(setegid(65534), 0);
    ck_assert_int_eq(seteuid(65534), 0);
    ck_assert_int_lt(connect_url(&live, fake.url), 0);
    ck_assert_int_eq(seteuid(0), 0);
    ck_assert_ptr_nonnull(strstr(live.err.text, "group adm"));
    ck_assert_ptr_nonnull(strstr(live.err.fix, "usermod -aG adm"));
    ck_assert_int_eq(live.err.code, EACCES);
    live_close(&live);
    fake_close(&fake);
    uv_run(&loop, UV_RUN_DEFAULT);
    uv_loop_close(&loop);
}
END_TEST

START_TEST(a_closed_port_is_refused)
{
    struct live live;

    ck_assert_int_lt(connect_url(&live, "tcp://127.0.0.1:1"), 0);
    ck_assert_ptr_nonnull(strstr(live.err.text, "Connection refused"));
    live_close(&live);
}
END_TEST

START_TEST(a_name_without_an_address_says_so)
{
    struct live live;

    ck_assert_int_lt(connect_url(&live, "tcp://no-such-host.invalid:2375"), 0);
    ck_assert_int_eq(live.err.kind, CF_ERROR_ENGINE);
    live_close(&live);
}
END_TEST

/* ---- attach ----------------------------------------------------------------------------- */

struct attached {
    int heads, ends, closes;
    struct cf_buf out, err_out;
    struct cf_error err;
};

static void
at_head(void *user)
{
    ((struct attached *)user)->heads++;
}
static void
at_written(void *user)
{
}
static void
at_closed(void *user)
{
    ((struct attached *)user)->closes++;
}

static void
at_data(void *user, enum cf_attach_stream stream, const char *bytes, size_t len)
{
    struct attached *a = user;
    cf_buf_add(stream == CF_ATTACH_STDOUT ? &a->out : &a->err_out, bytes, len);
}

static void
at_end(void *user, const struct cf_error *err)
{
    struct attached *a = user;
    a->ends++;
    if (err != NULL)
        a->err = *err;
}

static void
attach_to(struct fault *fault, const struct fake_answer *answers, size_t count,
          struct attached *a, uint64_t deadline_ms)
{
    static const struct cf_attach_events events = {at_head, at_data, at_written, at_end};
    struct cf_attach *attach;

    memset(a, 0, sizeof *a);
    ck_assert_int_eq(connect_to(fault, answers, count), 0);
    ck_assert_int_eq(cf_attach_open(fault->live.engine, "abc", deadline_ms, &events, a,
                                    &attach, &fault->live.err),
                     0);
    while (a->ends == 0 && uv_run(&fault->live.loop, UV_RUN_ONCE) != 0)
        ;
    ck_assert_int_eq(a->ends, 1);
    cf_attach_close(attach, at_closed, a);
    while (a->closes == 0 && uv_run(&fault->live.loop, UV_RUN_ONCE) != 0)
        ;
    end(fault);
}

static void
attached_release(struct attached *a)
{
    cf_buf_release(&a->out);
    cf_buf_release(&a->err_out);
}

#define SWITCHED                              \
    "HTTP/1.1 101 UPGRADED\r\nContent-Type: " \
    "application/vnd.docker.raw-stream\r\nConnection: Upgrade\r\nUpgrade: tcp\r\n\r\n"

START_TEST(bytes_behind_the_head_belong_to_the_stream_however_it_is_cut)
{
    static const char bytes[] =
        SWITCHED "\1\0\0\0\0\0\0\3abc\2\0\0\0\0\0\0\2no\1\0\0\0\0\0\0\0\1\0\0\0\0\0\0\1d";

    for (size_t slice = 0; slice < 40; slice += 13) {
        struct fake_answer answers[] = {
            GOOD_START,
            {"POST /v1.41/containers/abc/attach?", bytes, sizeof bytes - 1, true, slice}};
        struct fault fault;
        struct attached a;
        attach_to(&fault, answers, CF_COUNT(answers), &a, 3000);
        ck_assert_int_eq(a.heads, 1);
        ck_assert_int_eq(a.err.kind, CF_ERROR_NONE);
        ck_assert_str_eq(a.out.data, "abcd");
        ck_assert_str_eq(a.err_out.data, "no");
        attached_release(&a);
    }
}
END_TEST

START_TEST(an_attach_answered_with_200_is_as_good)
{
    static const char bytes[] =
        OK "Content-Type: application/vnd.docker.raw-stream\r\n\r\n\1\0\0\0\0\0\0\1x";
    struct fake_answer answers[] = {
        GOOD_START, {"POST /v1.41/containers/abc/attach?", bytes, sizeof bytes - 1, true, 1}};
    struct fault fault;
    struct attached a;

    attach_to(&fault, answers, CF_COUNT(answers), &a, 3000);
    ck_assert_str_eq(a.out.data, "x");
    attached_release(&a);
}
END_TEST

START_TEST(a_refused_attach_keeps_the_reason_in_each_form)
{
    static const char *const refusals[] = {
        "HTTP/1.1 404 Not Found\r\nContent-Type: application/vnd.docker.raw-stream\r\n\r\nNo "
        "such container: abc\n",
        "HTTP/1.1 404 Not Found\r\nContent-Type: application/json\r\nContent-Length: "
        "39\r\n\r\n{\"message\":\"No such container: abc\"}   ",
        "HTTP/1.1 404 Not Found\r\nTransfer-Encoding: chunked\r\n\r\n24\r\n{\"message\":\"No "
        "such container: abc\"}\r\n0\r\n\r\n",
    };

    for (size_t i = 0; i < CF_COUNT(refusals); i++) {
        struct fake_answer answers[] = {
            GOOD_START, {"POST /v1.41/containers/abc/attach?", refusals[i], 0, i == 0, 0}};
        struct fault fault;
        struct attached a;
        attach_to(&fault, answers, CF_COUNT(answers), &a, 3000);
        ck_assert_int_eq(a.heads, 0);
        ck_assert_int_eq(a.err.kind, CF_ERROR_NOT_FOUND);
        ck_assert_str_eq(
            a.err.text,
            "engine answered 404 to POST /containers/abc/attach: No such container: abc");
    }
}
END_TEST

START_TEST(an_attach_that_is_never_answered_ends_at_its_deadline)
{
    struct fake_answer answers[] = {GOOD_START,
                                    {"POST /v1.41/containers/abc/attach?", NULL, 0, false, 0}};
    struct fault fault;
    struct attached a;

    attach_to(&fault, answers, CF_COUNT(answers), &a, 60);
    ck_assert_int_eq(a.err.kind, CF_ERROR_ENGINE_TIMEOUT);
}
END_TEST

START_TEST(frames_that_are_none_end_the_attach)
{
    static const char bad[] = SWITCHED "\7\0\0\0\0\0\0\1x",
                      half[] = SWITCHED "\1\0\0\0\0\0\0\5x";
    const struct {
        const char *bytes;
        size_t len;
        const char *text;
    } cases[] = {{bad, sizeof bad - 1, "not a frame header"},
                 {half, sizeof half - 1, "middle of a frame"}};

    for (size_t i = 0; i < CF_COUNT(cases); i++) {
        struct fake_answer answers[] = {
            GOOD_START,
            {"POST /v1.41/containers/abc/attach?", cases[i].bytes, cases[i].len, true, 0}};
        struct fault fault;
        struct attached a;
        attach_to(&fault, answers, CF_COUNT(answers), &a, 3000);
        ck_assert_ptr_nonnull(strstr(a.err.text, cases[i].text));
        attached_release(&a);
    }
}
END_TEST

UNIT_MAIN("engine/faults",
          tcase_add_test(tc, an_engine_below_the_floor_is_refused_with_both_versions);
          tcase_add_test(tc, an_engine_above_what_we_know_is_refused);
          tcase_add_test(tc, a_newer_engine_is_spoken_to_in_the_newest_version_known);
          tcase_add_test(tc, a_ping_without_a_version_is_made_up_for_by_version);
          tcase_add_test(tc, what_is_no_engine_is_said_to_be_none);
          tcase_add_test(tc, a_web_server_is_no_engine);
          tcase_add_test(tc, an_engine_behind_tls_is_recognized);
          tcase_add_test(tc, silence_ends_at_the_deadline_and_names_the_request);
          tcase_add_test(tc, an_answer_cut_short_is_lost);
          tcase_add_test(tc, an_answer_may_come_a_byte_at_a_time);
          tcase_add_test(tc, refusals_keep_status_message_and_request);
          tcase_add_test(tc, an_error_object_fails_a_stream_that_was_good_so_far);
          tcase_add_test(tc, a_build_that_the_engine_itself_fails_is_not_the_authors);
          tcase_add_test(tc, a_connection_that_died_while_idle_costs_nothing);
          tcase_add_test(tc, connections_are_reused);
          tcase_add_test(tc, an_endless_head_and_an_endless_body_are_bounded);
          tcase_add_test(tc, no_socket_says_so);
          tcase_add_test(tc, a_plain_file_is_not_a_socket);
          tcase_add_test(tc, a_dead_socket_has_no_listener);
          tcase_add_test(tc, no_permission_names_the_group_of_the_socket);
          tcase_add_test(tc, a_closed_port_is_refused);
          tcase_add_test(tc, a_name_without_an_address_says_so);
          tcase_add_test(tc, bytes_behind_the_head_belong_to_the_stream_however_it_is_cut);
          tcase_add_test(tc, an_attach_answered_with_200_is_as_good);
          tcase_add_test(tc, a_refused_attach_keeps_the_reason_in_each_form);
          tcase_add_test(tc, an_attach_that_is_never_answered_ends_at_its_deadline);
          tcase_add_test(tc, frames_that_are_none_end_the_attach);)
