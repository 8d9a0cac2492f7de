/* Credentials: config.json, helpers run for real, and what goes into X-Registry-Auth. */
#include "base/str.h"
#include "engine/auth.h"
#include "tests/engine/live.h"
#include "tests/support/unit.h"

#include <sodium.h>
#include <sys/stat.h>

struct asked {
    struct live live;
    char dir[64], header[1024];
    int dones, status;
    struct cf_error err;
};

static void
put(struct asked *asked, const char *name, const char *text, int mode)
{
    char full[200];

    snprintf(full, sizeof full, "%s/%s", asked->dir, name);
    FILE *file = fopen(full, "w");
    fputs(text, file);
    fclose(file);
    ck_assert_int_eq(chmod(full, (mode_t)mode), 0);
}

static void
begin(struct asked *asked, const char *config)
{
    char path[512];

    memset(asked, 0, sizeof *asked);
    snprintf(asked->dir, sizeof asked->dir, "/tmp/cf-auth-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(asked->dir));
    if (config != NULL)
        put(asked, "config.json", config, 0600);
    snprintf(path, sizeof path, "%s:%s", asked->dir, getenv("PATH"));
    setenv("PATH", path, 1);
    live_init(&asked->live);
    struct cf_engine_options options = {.endpoint = "unix:///nowhere",
                                        .docker_config_dir = asked->dir};
    ck_assert_int_eq(cf_engine_open(&asked->live.loop, &options, &asked->live.engine, NULL),
                     0);
}

static void
end(struct asked *asked)
{
    live_close(&asked->live);
    live_remove_dir(asked->dir);
}

static void
on_found(void *user, int status, const char *registry_auth, const struct cf_error *err)
{
    struct asked *asked = user;

    asked->dones++;
    asked->status = status;
    if (err != NULL)
        asked->err = *err;
    asked->header[0] = '\0';
    if (registry_auth != NULL) {
        size_t len = 0;
        ck_assert_int_eq(sodium_base642bin((unsigned char *)asked->header,
                                           sizeof asked->header - 1, registry_auth,
                                           strlen(registry_auth), NULL, &len, NULL,
                                           sodium_base64_VARIANT_URLSAFE),
                         0);
        asked->header[len] = '\0';
    }
}

static int
find(struct asked *asked, const char *registry)
{
    int before = asked->dones;

    if (cf_engine_auth_find(asked->live.engine, registry, on_found, asked, &asked->err) < 0)
        return -1;
    ck_assert_int_eq(asked->dones, before); /* never from inside */
    while (asked->dones == before && uv_run(&asked->live.loop, UV_RUN_ONCE) != 0)
        ;
    ck_assert_int_eq(asked->dones, before + 1);
    return asked->status;
}

START_TEST(without_a_config_there_are_no_credentials)
{
    struct asked asked;

    begin(&asked, NULL);
    ck_assert_int_eq(find(&asked, "ghcr.io"), 0);
    ck_assert_str_eq(asked.header, "");
    end(&asked);
}
END_TEST

START_TEST(auths_are_found_in_each_of_their_forms)
{
    struct asked asked;

    begin(&asked, "{\"auths\":{\"https://index.docker.io/v1/"
                  "\":{\"auth\":\"dTpwOnE=\"},\"https://ghcr.io/v2/\":{\"auth\":\"YTpi\"},"
                  "\"r:5000\":{\"auth\":\"YTpi\",\"identitytoken\":\"tok\"},\"plain\":{"
                  "\"username\":\"x\",\"password\":\"y\"},"
                  "\"bad\":{\"auth\":\"!!\"},\"nocolon\":{\"auth\":\"YWI=\"},\"empty\":{}}}");
    ck_assert_int_eq(find(&asked, "docker.io"), 0);
    ck_assert_str_eq(asked.header, "{\"username\":\"u\",\"password\":\"p:q\","
                                   "\"serveraddress\":\"https://index.docker.io/v1/\"}");
    ck_assert_int_eq(find(&asked, "ghcr.io"), 0);
    ck_assert_str_eq(asked.header,
                     "{\"username\":\"a\",\"password\":\"b\",\"serveraddress\":\"ghcr.io\"}");
    ck_assert_int_eq(find(&asked, "r:5000"), 0);
    ck_assert_str_eq(asked.header, "{\"identitytoken\":\"tok\",\"serveraddress\":\"r:5000\"}");
    ck_assert_int_eq(find(&asked, "plain"), 0);
    ck_assert_str_eq(asked.header,
                     "{\"username\":\"x\",\"password\":\"y\",\"serveraddress\":\"plain\"}");
    ck_assert_int_eq(find(&asked, "empty"), 0);
    ck_assert_str_eq(asked.header, "");
    ck_assert_int_eq(find(&asked, "other"), 0);
    ck_assert_str_eq(asked.header, "");
    ck_assert_int_lt(find(&asked, "bad"), 0);
    ck_assert_int_lt(find(&asked, "nocolon"), 0);
    end(&asked);
}
END_TEST

START_TEST(a_helper_is_asked_and_its_token_is_mapped)
{
    struct asked asked;

    begin(&asked, "{\"credHelpers\":{\"ghcr.io\":\"one\",\"tok.io\":\"token\"},\"credsStore\":"
                  "\"store\"}");
    put(&asked, "docker-credential-one",
        "#!/bin/sh\nread s; printf "
        "'{\"ServerURL\":\"%s\",\"Username\":\"u-%s\",\"Secret\":\"s\"}' \"$s\" \"$1\"\n",
        0755);
    put(&asked, "docker-credential-token",
        "#!/bin/sh\necho '{\"Username\":\"<token>\",\"Secret\":\"idt\"}'\n", 0755);
    put(&asked, "docker-credential-store",
        "#!/bin/sh\necho 'credentials not found in native keychain'; exit 1\n", 0755);
    ck_assert_int_eq(find(&asked, "ghcr.io"), 0);
    ck_assert_str_eq(
        asked.header,
        "{\"username\":\"u-get\",\"password\":\"s\",\"serveraddress\":\"ghcr.io\"}");
    ck_assert_int_eq(find(&asked, "tok.io"), 0);
    ck_assert_str_eq(asked.header, "{\"identitytoken\":\"idt\",\"serveraddress\":\"tok.io\"}");
    ck_assert_int_eq(find(&asked, "docker.io"), 0);
    ck_assert_str_eq(asked.header, "");
    end(&asked);
}
END_TEST

START_TEST(a_helper_that_fails_is_named)
{
    struct asked asked;

    begin(&asked, "{\"credHelpers\":{\"a\":\"none\",\"b\":\"fails\",\"c\":\"garbage\",\"d\":"
                  "\"../sh\",\"e\":\"flood\"}}");
    put(&asked, "docker-credential-fails", "#!/bin/sh\necho 'the vault is sealed'; exit 3\n",
        0755);
    put(&asked, "docker-credential-garbage", "#!/bin/sh\necho '{'\n", 0755);
    put(&asked, "docker-credential-flood",
        "#!/bin/sh\nwhile :; do echo 0123456789012345678901234567890123456789; done\n", 0755);
    ck_assert_int_lt(find(&asked, "a"), 0);
    ck_assert_ptr_nonnull(strstr(asked.err.text, "docker-credential-none cannot be run"));
    ck_assert_int_lt(find(&asked, "b"), 0);
    ck_assert_ptr_nonnull(strstr(asked.err.text, "the vault is sealed"));
    ck_assert_int_lt(find(&asked, "c"), 0);
    ck_assert_int_lt(find(&asked, "d"), 0);
    ck_assert_ptr_nonnull(strstr(asked.err.text, "not a credential helper's name"));
    ck_assert_int_lt(find(&asked, "e"), 0);
    ck_assert_ptr_nonnull(strstr(asked.err.text, "printed more than"));
    end(&asked);
}
END_TEST

START_TEST(closing_ends_a_helper_that_hangs)
{
    struct asked asked;

    begin(&asked, "{\"credsStore\":\"hangs\"}");
    put(&asked, "docker-credential-hangs", "#!/bin/sh\nexec sleep 600\n", 0755);
    ck_assert_int_eq(cf_engine_auth_find(asked.live.engine, "x", on_found, &asked, &asked.err),
                     0);
    end(&asked); /* live_close aborts when a handle is left */
    ck_assert_int_eq(asked.dones, 1);
    ck_assert_int_eq(asked.err.kind, CF_ERROR_CANCELED);
}
END_TEST

START_TEST(the_header_uses_the_url_safe_alphabet_with_padding)
{
    char *header = cf_engine_auth_basic("a", "\xc3\xbf\xc3\xbf\xc3\xbe>>>???", "h");

    ck_assert_ptr_null(strpbrk(header, "+/\r\n"));
    ck_assert_uint_eq(strlen(header) % 4, 0);
    free(header);
    ck_assert_ptr_null(cf_engine_auth_basic("a", "\xff", "h")); /* not UTF-8 */
}
END_TEST

UNIT_MAIN("engine/auth", tcase_add_test(tc, without_a_config_there_are_no_credentials);
          tcase_add_test(tc, auths_are_found_in_each_of_their_forms);
          tcase_add_test(tc, a_helper_is_asked_and_its_token_is_mapped);
          tcase_add_test(tc, a_helper_that_fails_is_named);
          tcase_add_test(tc, closing_ends_a_helper_that_hangs);
          tcase_add_test(tc, the_header_uses_the_url_safe_alphabet_with_padding);)
