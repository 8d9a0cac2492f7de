/*
 * A real Engine over tcp with TLS: requests, an attach with half-close, and refusals. TLS ends
 * in a small program beside the Engine's unix socket, since a second dockerd would disturb the
 * first. With CF_TEST_TLS_HOST=tcp://... and DOCKER_CERT_PATH an Engine that speaks TLS itself
 * is used.
 */
#include "base/str.h"
#include "tests/engine/live_box.h"
#include "tests/support/tls_server.h"
#include "tests/support/unit.h"

struct tls_engine {
    struct tls_server server;
    char url[64];
};

/* The unix socket of the Engine the environment names, or NULL. */
static const char *
unix_path_of_engine(void)
{
    const char *host = getenv("DOCKER_HOST");

    if (host == NULL || host[0] == '\0')
        return "/var/run/docker.sock";
    return strncmp(host, "unix://", 7) == 0 ? host + 7 : NULL;
}

static bool
begin(struct tls_engine *tls, const char *test)
{
    struct live live;
    const char *path = unix_path_of_engine(), *own = getenv("CF_TEST_TLS_HOST");

    memset(tls, 0, sizeof *tls);
    if (own == NULL && !live_open(&live, test))
        return false;
    if (own == NULL)
        live_close(&live);
    if (own != NULL) {
        snprintf(tls->url, sizeof tls->url, "%s", own);
    } else if (path != NULL) {
        tls_server_start(&tls->server, path);
        snprintf(tls->url, sizeof tls->url, "tcp://127.0.0.1:%u", tls->server.port);
        setenv("DOCKER_CERT_PATH", tls->server.dir, 1);
    }
    if (own == NULL && (path == NULL || tls->server.why_not != NULL)) {
        printf("SKIPPED engine/%s: %s\n", test,
               path == NULL ? "the Engine is not on a unix socket" : tls->server.why_not);
        fflush(stdout);
        return false;
    }
    setenv("DOCKER_TLS_VERIFY", "1", 1);
    return true;
}

static void
end(struct tls_engine *tls)
{
    if (tls->server.dir[0] != '\0')
        tls_server_stop(&tls->server);
}

START_TEST(an_engine_behind_tls_is_connected_and_half_close_works)
{
    struct tls_engine tls;
    struct live live;
    struct box box;
    struct cf_error err;
    static char big[1 << 20];

    if (!begin(&tls, "an_engine_behind_tls_is_connected_and_half_close_works"))
        return;
    if (live_open_at(&live, tls.url) != 0)
        ck_abort_msg("%s", live.err.text);
    ck_assert_str_eq(cf_engine_facts(live.engine)->local_address, "127.0.0.1");
    for (size_t i = 0; i < sizeof big; i++)
        big[i] = (char)(i * 13 + i / 97);
    box_create(&box, &live, "cat; echo end; exit 5");
    box_start(&box);
    ck_assert_int_eq(cf_attach_write(box.attach, big, sizeof big, &err), 0);
    cf_attach_shutdown(box.attach);
    RUN_UNTIL(&box, box.ended && box.waits > 0);
    ck_assert_msg(box.end_err.kind == CF_ERROR_NONE, "%s", box.end_err.text);
    ck_assert_int_eq(box.exit_code, 5);
    ck_assert_uint_eq(box.out.len, sizeof big + 4);
    ck_assert_mem_eq(box.out.data, big, sizeof big);
    box_remove(&box);
    live_close(&live);
    end(&tls);
}
END_TEST

START_TEST(a_wrong_authority_is_tls_trouble_with_a_remedy)
{
    struct tls_engine tls;
    struct live live;
    char dir[64] = "/tmp/cf-tls-none-XXXXXX";

    if (!begin(&tls, "a_wrong_authority_is_tls_trouble_with_a_remedy"))
        return;
    ck_assert_ptr_nonnull(mkdtemp(dir));
    setenv("DOCKER_CERT_PATH", dir, 1); /* neither an authority nor a certificate of our own */
    ck_assert_int_lt(live_open_at(&live, tls.url), 0);
    ck_assert_ptr_nonnull(strstr(live.err.text, "TLS"));
    ck_assert_ptr_nonnull(strstr(live.err.fix, "DOCKER_CERT_PATH"));
    live_close(&live);
    rmdir(dir);
    end(&tls);
}
END_TEST

UNIT_MAIN("engine/live_tls",
          tcase_add_test(tc, an_engine_behind_tls_is_connected_and_half_close_works);
          tcase_add_test(tc, a_wrong_authority_is_tls_trouble_with_a_remedy);)
