#include "base/mime.h"
#include "run/lane_acp.h"
#include "run/mcp.h"

#include "tests/support/unit.h"

#include <stdlib.h>
#include <string.h>

START_TEST(a_path_is_beneath_its_root_or_it_is_not)
{
    static const struct {
        const char *root, *path, *part;
    } rows[] = {
        {"/workspace", "/workspace/a", "a"},
        {"/workspace", "/workspace//a/b", "a/b"},
        {"/workspace", "/workspace/../etc", "../etc"}, /* the kernel's to refuse */
        {"/workspace", "/workspace", NULL},
        {"/workspace", "/workspace/", NULL},
        {"/workspace", "/workspaces/a", NULL},
        {"/workspace", "/work", NULL},
        {"/workspace", "workspace/a", NULL},
        {"/workspace", "", NULL},
    };

    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const char *part = cf_acp_beneath(rows[i].root, rows[i].path);
        if (rows[i].part == NULL)
            ck_assert_msg(part == NULL, "%s: %s", rows[i].path, part);
        else
            ck_assert_str_eq(part, rows[i].part);
    }
}
END_TEST

START_TEST(a_file_uri_escapes_what_a_uri_cannot_hold)
{
    char *uri = cf_acp_file_uri("/a b/\xc3\xbc/%#?.md");

    ck_assert_str_eq(uri, "file:///a%20b/%C3%BC/%25%23%3F.md");
    free(uri);
}
END_TEST

START_TEST(a_media_type_is_known_by_the_last_ending)
{
    ck_assert_str_eq(cf_mime_type("a.tar.GZ"), "application/gzip");
    ck_assert_str_eq(cf_mime_type("/x.json/readme.md"), "text/markdown");
    ck_assert_ptr_null(cf_mime_type("/x.json/readme"));
    ck_assert_ptr_null(cf_mime_type("Makefile"));
    ck_assert_ptr_null(cf_mime_type("a."));
}
END_TEST

static int
check_mcp(const char *json)
{
    struct cf_error err;
    json_t *servers = json_loads(json, 0, NULL);
    int status = cf_run_mcp_check(servers, &err);

    ck_assert_ptr_nonnull(servers);
    json_decref(servers);
    return status;
}

START_TEST(mcp_servers_have_a_closed_form)
{
    ck_assert_int_eq(check_mcp("[]"), 0);
    ck_assert_int_eq(check_mcp("[{\"type\":\"http\",\"name\":\"a\",\"url\":\"https://x/\"}]"), 0);
    ck_assert_int_eq(check_mcp("[{\"type\":\"sse\",\"name\":\"a\",\"url\":\"https://x/\"}]"), 0);
    ck_assert_int_eq(check_mcp("[{\"name\":\"a\",\"command\":\"/bin/x\",\"args\":[],\"env\":[]}]"), 0);
    ck_assert_int_eq(check_mcp("[7]"), -1);
    ck_assert_int_eq(check_mcp("[{\"type\":\"http\",\"name\":\"a\"}]"), -1);
    ck_assert_int_eq(check_mcp("[{\"type\":\"carrier pigeon\",\"name\":\"a\",\"url\":\"x\"}]"), -1);
    ck_assert_int_eq(check_mcp("[{\"name\":\"a\"}]"), -1);
    ck_assert_int_eq(check_mcp("[{\"type\":\"http\",\"name\":\"a\",\"url\":\"x\",\"headers\":[{\"name\":\"K\"}]}]"), -1);
}
END_TEST

UNIT_MAIN("run/acp", tcase_add_test(tc, a_path_is_beneath_its_root_or_it_is_not);
          tcase_add_test(tc, a_file_uri_escapes_what_a_uri_cannot_hold);
          tcase_add_test(tc, a_media_type_is_known_by_the_last_ending);
          tcase_add_test(tc, mcp_servers_have_a_closed_form);)
