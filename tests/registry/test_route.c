#include "base/str.h"
#include "registry/impl.h"
#include "tests/support/unit.h"

#include <string.h>

#define HEX "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
#define ID "0123456789abcdef0123456789abcdef"

static const struct {
    const char *path;
    enum cf_registry_route route;
    const char *name, *last;
} paths[] = {
    {"/v2/", CF_REGISTRY_BASE, "", ""},
    {"/v2", CF_REGISTRY_BASE, "", ""},
    {"/v2/a/blobs/uploads/", CF_REGISTRY_BEGIN, "a", ""},
    {"/v2/a/b-c/d_e/f.g/h__i/blobs/uploads", CF_REGISTRY_BEGIN, "a/b-c/d_e/f.g/h__i", ""},
    {"/v2/a/blobs/uploads/" ID, CF_REGISTRY_UPLOAD, "a", ID},
    {"/v2/a/blobs/sha256:" HEX, CF_REGISTRY_BLOB, "a", "sha256:" HEX},
    {"/v2/blobs/blobs/blobs/sha256:" HEX, CF_REGISTRY_BLOB, "blobs/blobs", "sha256:" HEX},
    {"/v2/a/manifests/latest", CF_REGISTRY_MANIFEST, "a", "latest"},
    {"/v2/a/manifests/_1.2-x", CF_REGISTRY_MANIFEST, "a", "_1.2-x"},
    {"/v2/a/manifests/sha256:" HEX, CF_REGISTRY_MANIFEST, "a", "sha256:" HEX},
    {"/v2/a/b/tags/list", CF_REGISTRY_TAG_LIST, "a/b", ""},
};

START_TEST(well_formed_paths_are_read)
{
    for (size_t i = 0; i < CF_COUNT(paths); i++) {
        struct cf_registry_path path;
        cf_registry_path_read(paths[i].path, &path);
        ck_assert_msg(path.route == paths[i].route, "%s", paths[i].path);
        ck_assert_str_eq(path.name, paths[i].name);
        ck_assert_str_eq(path.last, paths[i].last);
    }
}
END_TEST

START_TEST(everything_else_is_unknown)
{
    static const char *const bad[] = {
        "",
        "/",
        "/v1/",
        "/v2/a",
        "/v2/a/blobs/",
        "/v2/a/blobs/sha256:",
        "/v2/a/blobs/sha256:" HEX "0",
        "/v2/a/blobs/sha512:" HEX,
        "/v2/a/blobs/sha256:0123456789ABCDEF0123456789abcdef0123456789abcdef0123456789abcdef",
        "/v2/A/manifests/t",
        "/v2//manifests/t",
        "/v2/a//b/manifests/t",
        "/v2/-a/manifests/t",
        "/v2/a-/manifests/t",
        "/v2/../manifests/t",
        "/v2/a/../b/manifests/t",
        "/v2/a/.b/manifests/t",
        "/v2/a/manifests/",
        "/v2/a/manifests/.t",
        "/v2/a/manifests/a/b",
        "/v2/a/manifests/a%2fb",
        "/v2/a/blobs/uploads/..",
        "/v2/a/blobs/uploads/short",
        "/v2/a/blobs/uploads/" ID "/x",
        "/v2/tags/list",
        "/v2/manifests/t",
    };
    char text[600];

    for (size_t i = 0; i < CF_COUNT(bad); i++) {
        struct cf_registry_path path;
        cf_registry_path_read(bad[i], &path);
        ck_assert_msg(path.route == CF_REGISTRY_UNKNOWN, "%s", bad[i]);
    }
    for (unsigned len = CF_REGISTRY_NAME; len <= CF_REGISTRY_NAME + 1; len++) {
        struct cf_registry_path path;
        strcpy(text, "/v2/");
        memset(text + 4, 'n', len);
        strcpy(text + 4 + len, "/manifests/t");
        cf_registry_path_read(text, &path);
        ck_assert((path.route == CF_REGISTRY_MANIFEST) == (len == CF_REGISTRY_NAME));
    }
    for (unsigned len = CF_REGISTRY_TAG; len <= CF_REGISTRY_TAG + 1; len++) {
        struct cf_registry_path path;
        strcpy(text, "/v2/n/manifests/");
        memset(text + 16, 't', len);
        text[16 + len] = '\0';
        cf_registry_path_read(text, &path);
        ck_assert((path.route == CF_REGISTRY_MANIFEST) == (len == CF_REGISTRY_TAG));
    }
}
END_TEST

START_TEST(query_values_are_decoded_or_refused)
{
    char value[8];

    ck_assert(cf_registry_query("a=1&digest=x%3Ay&b", "digest", value, sizeof value));
    ck_assert_str_eq(value, "x:y");
    ck_assert(cf_registry_query("digest=%41", "digest", value, sizeof value));
    ck_assert_str_eq(value, "A");
    ck_assert(cf_registry_query("digest=1234567", "digest", value, sizeof value));
    ck_assert(!cf_registry_query("digest=12345678", "digest", value, sizeof value));
    ck_assert(!cf_registry_query("digest=%4", "digest", value, sizeof value));
    ck_assert(!cf_registry_query("digest=%", "digest", value, sizeof value));
    ck_assert(!cf_registry_query("digest=%zz", "digest", value, sizeof value));
    ck_assert(!cf_registry_query("digest=a%00b", "digest", value, sizeof value));
    ck_assert(!cf_registry_query("digestx=1&xdigest=2", "digest", value, sizeof value));
    ck_assert(!cf_registry_query("digest", "digest", value, sizeof value));
    ck_assert(!cf_registry_query(NULL, "digest", value, sizeof value));
}
END_TEST

UNIT_MAIN("registry/route", tcase_add_test(tc, well_formed_paths_are_read);
          tcase_add_test(tc, everything_else_is_unknown);
          tcase_add_test(tc, query_values_are_decoded_or_refused);)
