/* A build context as a stream: what is in it, in what order, and what is said before it is
 * sent. */
#include "base/buf.h"
#include "base/str.h"
#include "engine/context.h"
#include "engine/engine.h"
#include "tests/support/unit.h"

#include <archive.h>
#include <archive_entry.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <uv.h>

struct reader {
    uv_loop_t loop;
    struct cf_context *context;
    struct cf_buf bytes;
    char dir[64];
    bool closed;
    int readies;
};

static void
sh(struct reader *reader, const char *script)
{
    char command[2000];
    snprintf(command, sizeof command, "set -e; cd %s; %s", reader->dir, script);
    ck_assert_int_eq(system(command), 0);
}

static void
begin(struct reader *reader, const char *script)
{
    memset(reader, 0, sizeof *reader);
    uv_loop_init(&reader->loop);
    snprintf(reader->dir, sizeof reader->dir, "/tmp/cf-context-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(reader->dir));
    sh(reader, script);
}

static void
on_ready(void *user)
{
    ((struct reader *)user)->readies++;
}
static void
on_closed(void *user)
{
    ((struct reader *)user)->closed = true;
}

static void
end(struct reader *reader)
{
    if (reader->context != NULL) {
        cf_context_close(reader->context, on_closed, reader);
        uv_run(&reader->loop, UV_RUN_DEFAULT);
        ck_assert(reader->closed);
    }
    ck_assert_int_eq(uv_loop_close(&reader->loop), 0);
    cf_buf_release(&reader->bytes);
    sh(reader, "rm -rf \"$PWD\"");
}

/* Reads in pieces of `piece` bytes. Returns 0 at the end, -1 on failure. */
static int
read_all(struct reader *reader, size_t piece)
{
    char *to = malloc(piece);
    long got = 0;

    for (;;) {
        got = cf_context_read(reader->context, to, piece);
        if (got == CF_ENGINE_SOURCE_WAIT) {
            int before = reader->readies;
            while (reader->readies == before && uv_run(&reader->loop, UV_RUN_ONCE) != 0)
                ;
            ck_assert_int_eq(reader->readies, before + 1);
            continue;
        }
        if (got <= 0)
            break;
        ck_assert_int_eq(cf_buf_add(&reader->bytes, to, (size_t)got), 0);
    }
    free(to);
    return (int)got;
}

/* "path type size uid|..." in the order of the tar. */
static void
list(struct reader *reader, char *out, size_t size)
{
    struct archive *archive = archive_read_new();
    struct archive_entry *entry;
    size_t at = 0;

    out[0] = '\0';
    archive_read_support_format_tar(archive);
    ck_assert_int_eq(archive_read_open_memory(archive, reader->bytes.data, reader->bytes.len),
                     ARCHIVE_OK);
    while (archive_read_next_header(archive, &entry) <= ARCHIVE_OK - 0 &&
           archive_entry_pathname(entry) != NULL) {
        at += (size_t)snprintf(
            out + at, size - at, "%s%s%s ", archive_entry_pathname(entry),
            archive_entry_symlink(entry) != NULL ? ">" : "",
            archive_entry_symlink(entry) != NULL ? archive_entry_symlink(entry) : "");
        ck_assert_int_eq(archive_entry_uid(entry), 0);
        if (at >= size - 1)
            break;
        archive_entry_clear(entry);
    }
    archive_read_free(archive);
}

START_TEST(a_folder_comes_out_depth_first_with_links_and_modes)
{
    struct reader r;
    char names[2000];
    struct cf_error err;

    begin(&r, "touch Dockerfile; mkdir -p b/c a; echo hi >b/c/x; ln -s ../nowhere a/link; "
              "mkfifo a/pipe; chmod 750 a; "
              "echo x > \"$(printf 'n\\303\\251')\"; echo y > \"$(printf 'bad\\377')\"; "
              "long=$(printf '%0150d' 7); mkdir $long; echo z >$long/$long");
    ck_assert_int_eq(
        cf_context_open(&r.loop, r.dir, "Dockerfile", NULL, on_ready, &r, &r.context, &err),
        0);
    ck_assert_int_eq(read_all(&r, 1000), 0);
    list(&r, names, sizeof names);
    ck_assert_ptr_nonnull(strstr(names, "Dockerfile a/ a/link>../nowhere b/ b/c/ b/c/x "));
    ck_assert_ptr_nonnull(strstr(names, "n\xc3\xa9 "));
    ck_assert_ptr_nonnull(strstr(names, "bad\xff "));
    ck_assert_ptr_null(strstr(names, "pipe"));
    ck_assert_uint_eq(cf_context_entries(r.context), 10);
    ck_assert_uint_eq(r.bytes.len % 512, 0);
    end(&r);
}
END_TEST

START_TEST(ignored_files_stay_here_but_the_two_that_matter_go)
{
    struct reader r;
    char names[2000];
    struct cf_error err;

    begin(&r, "mkdir -p sub docs secret; touch sub/Dockerfile.x secret/key docs/a.md "
              "docs/keep.md main.c; "
              "printf '*\\n!docs/keep.md\\n!main.c\\n' >.dockerignore");
    ck_assert_int_eq(cf_context_open(&r.loop, r.dir, "./sub/Dockerfile.x", NULL, on_ready, &r,
                                     &r.context, &err),
                     0);
    ck_assert_int_eq(read_all(&r, 65536), 0);
    list(&r, names, sizeof names);
    ck_assert_str_eq(names, ".dockerignore docs/keep.md main.c sub/Dockerfile.x ");
    end(&r);
}
END_TEST

START_TEST(a_large_file_is_never_held_whole)
{
    struct reader r;
    struct cf_error err;

    begin(&r, "touch Dockerfile; head -c 30000000 /dev/zero >big");
    ck_assert_int_eq(
        cf_context_open(&r.loop, r.dir, "Dockerfile", NULL, on_ready, &r, &r.context, &err),
        0);
    char byte;
    while (cf_context_read(r.context, &byte, 1) == CF_ENGINE_SOURCE_WAIT)
        uv_run(&r.loop, UV_RUN_ONCE);
    uv_run(&r.loop, UV_RUN_DEFAULT); /* nobody reads: it stops by itself */
    ck_assert_int_eq(cf_buf_add(&r.bytes, &byte, 1), 0);
    ck_assert_int_eq(read_all(&r, 16384), 0);
    ck_assert_uint_gt(r.bytes.len, 30000000);
    ck_assert_uint_lt(r.bytes.len, 30010000);
    end(&r);
}
END_TEST

START_TEST(a_file_that_cannot_be_read_fails_with_its_name)
{
    struct reader r;
    struct cf_error err;

    begin(&r, "touch Dockerfile; echo x >aa");
    ck_assert_int_eq(
        cf_context_open(&r.loop, r.dir, "Dockerfile", NULL, on_ready, &r, &r.context, &err),
        0);
    sh(&r, "rm aa; mkdir gone; rmdir gone; ln -s loop loop; rm Dockerfile");
    /* the list of names was asked for before, so one of them is missing now; or all came too
     * late */
    int rc = read_all(&r, 65536);
    if (rc < 0) {
        ck_assert_int_eq(cf_context_error(r.context)->kind, CF_ERROR_CONFIG);
        ck_assert_ptr_nonnull(strstr(cf_context_error(r.context)->text, r.dir));
    }
    end(&r);
}
END_TEST

START_TEST(closing_in_the_middle_leaves_nothing)
{
    for (int turns = 0; turns < 40; turns++) {
        struct reader r;
        struct cf_error err;
        char to[4096];
        begin(&r, "touch Dockerfile; mkdir d; head -c 300000 /dev/zero >d/big; ln -s x d/l");
        ck_assert_int_eq(cf_context_open(&r.loop, r.dir, "Dockerfile", NULL, on_ready, &r,
                                         &r.context, &err),
                         0);
        for (int i = 0; i < turns; i++) {
            cf_context_read(r.context, to, sizeof to);
            uv_run(&r.loop, UV_RUN_NOWAIT);
        }
        end(&r);
    }
}
END_TEST

START_TEST(what_is_no_context_is_refused_before_anything_is_sent)
{
    static const struct {
        const char *script, *dir, *dockerfile, *text;
    } cases[] = {
        {"true", "", "Dockerfile", "is empty"},
        {"touch x", "", "Dockerfile", "has no Dockerfile"},
        {"touch x", "/none", "Dockerfile", "No such file"},
        {"touch x", "/x", "Dockerfile", "not a folder"},
        {"touch x", "", "../Dockerfile", "inside the build context"},
        {"touch x", "", "/etc/passwd", "inside the build context"},
        {"touch x", "", "a/../../b", "inside the build context"},
        {"mkdir Dockerfile", "", "Dockerfile", "not a regular file"},
        {"touch Dockerfile; echo '[' >.dockerignore", "", "Dockerfile",
         ".dockerignore: line 1"},
        {"touch Dockerfile; mkdir .dockerignore", "", "Dockerfile", "not a regular file"},
    };

    for (size_t i = 0; i < CF_COUNT(cases); i++) {
        struct reader r;
        struct cf_error err = {0};
        char dir[100];
        begin(&r, cases[i].script);
        snprintf(dir, sizeof dir, "%s%s", r.dir, cases[i].dir);
        ck_assert_int_eq(cf_context_open(&r.loop, dir, cases[i].dockerfile, NULL, on_ready, &r,
                                         &r.context, &err),
                         -1);
        ck_assert_msg(strstr(err.text, cases[i].text) != NULL, "\"%s\" is not in: %s",
                      cases[i].text, err.text);
        ck_assert_int_eq(err.kind, CF_ERROR_CONFIG);
        r.context = NULL;
        end(&r);
    }
}
END_TEST

START_TEST(a_small_tar_ends_right_after_its_two_zero_blocks)
{
    struct cf_tar *tar = cf_tar_new();
    const char *bytes;
    size_t len;

    ck_assert_int_eq(cf_tar_dir(tar, ".cf", 0755, 0, 0, NULL), 0);
    ck_assert_int_eq(cf_tar_file(tar, ".cf/cf-init", 0555, 0, 0, "0123456789", 10, NULL), 0);
    ck_assert_int_eq(cf_tar_finish(tar, &bytes, &len, NULL), 0);
    ck_assert_uint_eq(len, 512 + 512 + 512 + 1024);
    ck_assert_str_eq(bytes, ".cf/");
    ck_assert_str_eq(bytes + 512, ".cf/cf-init");
    ck_assert_mem_eq(bytes + 1024, "0123456789", 10);
    for (size_t i = len - 1024; i < len; i++)
        ck_assert_int_eq(bytes[i], 0);
    cf_tar_free(tar);
    cf_tar_free(NULL);
}
END_TEST

UNIT_MAIN("engine/context",
          tcase_add_test(tc, a_folder_comes_out_depth_first_with_links_and_modes);
          tcase_add_test(tc, ignored_files_stay_here_but_the_two_that_matter_go);
          tcase_add_test(tc, a_large_file_is_never_held_whole);
          tcase_add_test(tc, a_file_that_cannot_be_read_fails_with_its_name);
          tcase_add_test(tc, closing_in_the_middle_leaves_nothing);
          tcase_add_test(tc, what_is_no_context_is_refused_before_anything_is_sent);
          tcase_add_test(tc, a_small_tar_ends_right_after_its_two_zero_blocks);)
