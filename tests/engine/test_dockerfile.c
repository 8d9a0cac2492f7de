#include "engine/dockerfile.h"

#include "tests/support/unit.h"

#include <string.h>

static bool
label(const char *text, struct cf_buf *out)
{
    json_t *labels = json_pack("{s:s, s:s}", "a.b", "1:2", "c", "");
    bool put;

    cf_buf_init(out, 1 << 20);
    put = cf_dockerfile_label(text, strlen(text), labels, out);
    json_decref(labels);
    return put;
}

#define L "LABEL \"a.b\"=\"1:2\" \"c\"=\"\"\n"

START_TEST(a_label_stands_behind_each_from)
{
    static const char *const cases[][2] = {
        {"FROM scratch\nCOPY x /x\n", "FROM scratch\n" L "COPY x /x\n"},
        {"FROM a AS b\nRUN y\nfrom scratch", "FROM a AS b\n" L "RUN y\nfrom scratch\n" L},
        {"# FROM no\nARG V=1\n  FROM x:$V\n", "# FROM no\nARG V=1\n  FROM x:$V\n" L},
        {"FROM \\\n# between\n\n  x \nRUN z\n", "FROM \\\n# between\n\n  x \n" L "RUN z\n"},
        {"RUN echo \\\nFROM here\nFROM y\n", "RUN echo \\\nFROM here\nFROM y\n" L},
        {"# escape=`\nFROM `\n x\nRUN c:\\\nFROM y\n",
         "# escape=`\nFROM `\n x\n" L "RUN c:\\\nFROM y\n" L},
        {"FROM x\r\nRUN y\r\n", "FROM x\r\n" L "RUN y\r\n"},
    };

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct cf_buf out;
        ck_assert(label(cases[i][0], &out));
        ck_assert_str_eq(out.data, cases[i][1]);
        cf_buf_release(&out);
    }
}
END_TEST

START_TEST(what_has_no_from_is_left_alone)
{
    static const char *const cases[] = {"",     "RUN x\n",    "FROMAGE x\n",
                                        "FROM", "# FROM x\n", "FROM \\\n"};

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct cf_buf out;
        ck_assert_msg(!label(cases[i], &out), "%s", cases[i]);
        cf_buf_release(&out);
    }
}
END_TEST

START_TEST(a_label_that_needs_quoting_is_not_put_in)
{
    json_t *labels = json_pack("{s:s}", "a", "b\"c");
    struct cf_buf out;

    cf_buf_init(&out, 0);
    ck_assert(!cf_dockerfile_label("FROM x\n", 7, labels, &out));
    cf_buf_release(&out);
    json_decref(labels);
}
END_TEST

START_TEST(line_numbers_are_counted_as_the_author_counts)
{
    static const char text[] = "FROM a\nRUN b\nFROM \\\n c\nRUN d\n";
    static const unsigned authors[] = {1, 2, 2, 3, 4, 5, 5}; /* lines 2 and 6 were put in */
    json_t *labels = json_pack("{s:s}", "k", "v");
    struct cf_buf out;

    cf_buf_init(&out, 0);
    ck_assert(cf_dockerfile_label(text, sizeof text - 1, labels, &out));
    for (unsigned line = 1; line <= 7; line++)
        ck_assert_uint_eq(cf_dockerfile_author_line(out.data, out.len, labels, line),
                          authors[line - 1]);
    cf_buf_release(&out);
    json_decref(labels);
}
END_TEST

static void
add_base(void *user, const char *name)
{
    strcat(user, name);
    strcat(user, " ");
}

START_TEST(base_images_are_found_in_each_from)
{
    static const char text[] =
        "# escape=\\\nARG v=1\nFROM scratch AS s\nfrom --platform=$X ghcr.io/a/b:1 AS b\n"
        "FROM \\\n  # remark\n  c\nFROM x:$v\nRUN FROM d\nFROM e";
    char found[200] = "";

    cf_dockerfile_bases(text, sizeof text - 1, add_base, found);
    ck_assert_str_eq(found, "ghcr.io/a/b:1 c e ");
}
END_TEST

UNIT_MAIN("engine/dockerfile",
          tcase_add_test(tc, line_numbers_are_counted_as_the_author_counts);
          tcase_add_test(tc, base_images_are_found_in_each_from);
          tcase_add_test(tc, a_label_stands_behind_each_from);
          tcase_add_test(tc, what_has_no_from_is_left_alone);
          tcase_add_test(tc, a_label_that_needs_quoting_is_not_put_in);)
