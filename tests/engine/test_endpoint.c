/* Where the Engine is looked for: flag, environment, docker contexts, default; and TLS
 * material. */
#include "base/str.h"
#include "engine/docker_config.h"
#include "engine/endpoint.h"
#include "tests/support/unit.h"

#include <sodium.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char dir[64];

static void
put(const char *path, const char *text)
{
    char full[512], command[600];

    snprintf(full, sizeof full, "%s/%s", dir, path);
    snprintf(command, sizeof command, "mkdir -p \"$(dirname %s)\"", full);
    ck_assert_int_eq(system(command), 0);
    FILE *file = fopen(full, "w");
    fputs(text, file);
    fclose(file);
}

static void
setup(void)
{
    snprintf(dir, sizeof dir, "/tmp/cf-endpoint-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(dir));
    unsetenv("DOCKER_HOST");
    unsetenv("DOCKER_CONTEXT");
    unsetenv("DOCKER_CONFIG");
    unsetenv("DOCKER_TLS");
    unsetenv("DOCKER_TLS_VERIFY");
    unsetenv("DOCKER_CERT_PATH");
}

static void
teardown(void)
{
    char command[100];
    snprintf(command, sizeof command, "rm -rf %s", dir);
    ck_assert_int_eq(system(command), 0);
}

static void
put_context(const char *name, const char *host, const char *more)
{
    unsigned char digest[32];
    char hex[65], path[200], text[600];

    crypto_hash_sha256(digest, (const unsigned char *)name, strlen(name));
    cf_hex(digest, 32, hex);
    snprintf(path, sizeof path, "contexts/meta/%s/meta.json", hex);
    snprintf(
        text, sizeof text,
        "{\"Name\":\"%s\",\"Metadata\":{},\"Endpoints\":{\"docker\":{\"Host\":\"%s\"%s}}}",
        name, host, more);
    put(path, text);
}

static void
expect(const char *given, const char *url, const char *source)
{
    struct cf_endpoint endpoint;
    struct cf_error err = {0};
    char *config = NULL;

    if (cf_endpoint_find(given, dir, &endpoint, &config, &err) < 0)
        ck_abort_msg("%s", err.text);
    ck_assert_str_eq(endpoint.url, url);
    ck_assert_str_eq(endpoint.source, source);
    cf_endpoint_release(&endpoint);
    free(config);
}

static void
expect_error(const char *given, const char *text)
{
    struct cf_endpoint endpoint;
    struct cf_error err = {0};
    char *config = NULL;

    ck_assert_int_lt(cf_endpoint_find(given, dir, &endpoint, &config, &err), 0);
    ck_assert_int_eq(err.kind, CF_ERROR_CONFIG);
    ck_assert_msg(strstr(err.text, text) != NULL, "\"%s\" is not in: %s", text, err.text);
}

START_TEST(flag_then_environment_then_context_then_default)
{
    setup();
    expect(NULL, "unix:///var/run/docker.sock", "default");
    put("config.json", "{\"currentContext\":\"far\"}");
    put_context("far", "tcp://far:2375", "");
    put_context("near", "unix:///near.sock", "");
    expect(NULL, "tcp://far:2375", "context far");
    setenv("DOCKER_CONTEXT", "near", 1);
    expect(NULL, "unix:///near.sock", "context near");
    setenv("DOCKER_CONTEXT", "default", 1);
    expect(NULL, "unix:///var/run/docker.sock", "default");
    setenv("DOCKER_HOST", "unix:///env.sock", 1);
    expect(NULL, "unix:///env.sock", "DOCKER_HOST");
    expect("tcp://flag:1", "tcp://flag:1", "--engine");
    teardown();
}
END_TEST

START_TEST(a_context_that_is_not_there_or_broken_is_named)
{
    setup();
    setenv("DOCKER_CONTEXT", "none", 1);
    expect_error(NULL, "docker context \"none\" does not exist");
    put_context("none", "ssh://x", "");
    expect_error(NULL, "ssh endpoints are not spoken");
    unsetenv("DOCKER_CONTEXT");
    put("config.json", "{\"currentContext\":");
    expect_error(NULL, "config.json");
    put("config.json", "[]");
    expect_error(NULL, "not a JSON object");
    teardown();
}
END_TEST

START_TEST(a_context_file_is_checked)
{
    static const char *const bad[] = {
        "",
        "{}",
        "[]",
        "{\"Name\":\"x\"}",
        "{\"Name\":\"y\",\"Endpoints\":{\"docker\":{\"Host\":\"tcp://a\"}}}",
        "{\"Name\":\"x\",\"Endpoints\":{\"docker\":{\"Host\":7}}}",
        "{\"Name\":\"x\",\"Endpoints\":{\"docker\":{\"Host\":\"\"}}}"};
    static const char good[] = "{\"Name\":\"x\",\"Endpoints\":{\"docker\":{\"Host\":\"tcp://"
                               "a\",\"SkipTLSVerify\":true}}}";
    struct cf_docker_context context = {0};

    for (size_t i = 0; i < CF_COUNT(bad); i++)
        ck_assert_int_lt(cf_docker_context_parse(bad[i], strlen(bad[i]), "x", &context, NULL),
                         0);
    ck_assert_int_eq(cf_docker_context_parse(good, sizeof good - 1, "x", &context, NULL), 0);
    ck_assert_str_eq(context.host, "tcp://a");
    ck_assert(context.skip_verify);
    cf_docker_context_release(&context);
}
END_TEST

START_TEST(tls_material_comes_from_the_environment_or_the_context)
{
    struct cf_endpoint endpoint;
    struct cf_error err = {0};
    char *config = NULL, path[200];

    setup();
    put("certs/ca.pem", "x");
    put("certs/cert.pem", "x");
    snprintf(path, sizeof path, "%s/certs", dir);
    setenv("DOCKER_CERT_PATH", path, 1);
    setenv("DOCKER_TLS_VERIFY", "1", 1);
    expect_error("tcp://h", "only one of cert.pem and key.pem");
    put("certs/key.pem", "x");
    ck_assert_int_eq(cf_endpoint_find("tcp://h", dir, &endpoint, &config, &err), 0);
    ck_assert(endpoint.is_tls && !endpoint.tls.skip_verify);
    ck_assert_str_eq(endpoint.base_url, "https://h:2376");
    ck_assert(cf_str_ends(endpoint.tls.ca_file, "/certs/ca.pem"));
    ck_assert(cf_str_ends(endpoint.tls.key_file, "/certs/key.pem"));
    cf_endpoint_release(&endpoint);
    free(config);
    unsetenv(
        "DOCKER_TLS_VERIFY"); /* a folder alone asks for nothing, as with the docker command */
    ck_assert_int_eq(cf_endpoint_find("tcp://h", dir, &endpoint, &config, &err), 0);
    ck_assert(!endpoint.is_tls);
    cf_endpoint_release(&endpoint);
    free(config);
    put_context("safe", "tcp://s:9", "");
    unsigned char digest[32];
    char hex[65];
    crypto_hash_sha256(digest, (const unsigned char *)"safe", 4);
    cf_hex(digest, 32, hex);
    snprintf(path, sizeof path, "contexts/tls/%s/docker/ca.pem", hex);
    put(path, "x");
    setenv("DOCKER_CONTEXT", "safe", 1);
    ck_assert_int_eq(cf_endpoint_find(NULL, dir, &endpoint, &config, &err), 0);
    ck_assert(endpoint.is_tls);
    ck_assert(cf_str_ends(endpoint.tls.ca_file, "docker/ca.pem"));
    cf_endpoint_release(&endpoint);
    free(config);
    teardown();
}
END_TEST

START_TEST(urls_are_read_or_refused)
{
    static const struct {
        const char *text, *base, *host;
        unsigned port;
        bool local;
    } good[] = {{"unix:///run/x.sock", "http://docker", NULL, 0, true},
                {"tcp://h", "http://h:2375", "h", 2375, false},
                {"tcp://127.0.0.1:80/", "http://127.0.0.1:80", "127.0.0.1", 80, true},
                {"tcp://[::1]:2375", "http://[::1]:2375", "::1", 2375, true},
                {"tcp://localhost:65535", "http://localhost:65535", "localhost", 65535, true}};
    static const char *const bad[] = {
        "",           "x",           "unix://",       "unix://rel", "tcp://",
        "tcp://:1",   "tcp://h:0",   "tcp://h:65536", "tcp://h:x",  "tcp://h:1/p",
        "tcp://[::1", "tcp://u@h:1", "tcp://h h",     "http://h",   "npipe:////./pipe/docker",
        "ssh://u@h",  "fd://",       "tcp://h?x"};
    struct cf_endpoint endpoint;
    struct cf_error err = {0};
    char longest[140];

    for (size_t i = 0; i < CF_COUNT(good); i++) {
        ck_assert_int_eq(cf_endpoint_parse(good[i].text, false, &endpoint, &err), 0);
        ck_assert_str_eq(endpoint.base_url, good[i].base);
        ck_assert(cf_str_same(endpoint.host, good[i].host));
        ck_assert_uint_eq(endpoint.port, good[i].port);
        ck_assert(endpoint.is_local == good[i].local);
        cf_endpoint_release(&endpoint);
    }
    for (size_t i = 0; i < CF_COUNT(bad); i++) {
        ck_assert_msg(cf_endpoint_parse(bad[i], false, &endpoint, &err) < 0, "%s", bad[i]);
        ck_assert_int_eq(err.kind, CF_ERROR_CONFIG);
    }
    for (size_t len = 107; len <= 108; len++) { /* sun_path holds 107 bytes and NUL */
        memcpy(longest, "unix:///", 8);
        memset(longest + 8, 'a', len - 1);
        longest[7 + len] = '\0';
        int rc = cf_endpoint_parse(longest, false, &endpoint, &err);
        ck_assert_int_eq(rc, len == 107 ? 0 : -1);
        if (rc == 0)
            cf_endpoint_release(&endpoint);
    }
}
END_TEST

UNIT_MAIN("engine/endpoint",
          tcase_add_test(tc, flag_then_environment_then_context_then_default);
          tcase_add_test(tc, a_context_that_is_not_there_or_broken_is_named);
          tcase_add_test(tc, a_context_file_is_checked);
          tcase_add_test(tc, tls_material_comes_from_the_environment_or_the_context);
          tcase_add_test(tc, urls_are_read_or_refused);)
