/* What a program's head says, and what the archive API says about a path. */
#include "sandbox/pathstat.h"
#include "sandbox/program.h"

#include "base/str.h"
#include "tests/support/unit.h"

#include <elf.h>
#include <sodium.h>
#include <stdio.h>
#include <string.h>

static int
read_text(const char *head, struct cf_program *program, struct cf_error *err)
{
    memset(err, 0, sizeof *err);
    return cf_program_read("/h", head, strlen(head), program, err);
}

/* A small 64-bit little-endian ELF program with one PT_INTERP, laid out as linkers do. */
static size_t
make_elf(unsigned char *to, unsigned machine, const char *loader)
{
    Elf64_Ehdr ehdr = {.e_type = ET_DYN,
                       .e_machine = (Elf64_Half)machine,
                       .e_phoff = sizeof ehdr,
                       .e_phentsize = sizeof(Elf64_Phdr),
                       .e_phnum = 2};
    Elf64_Phdr phdr[2] = {{.p_type = PT_LOAD},
                          {.p_type = PT_INTERP,
                           .p_offset = sizeof ehdr + sizeof phdr,
                           .p_filesz = strlen(loader) + 1}};

    memcpy(ehdr.e_ident, ELFMAG, SELFMAG);
    ehdr.e_ident[EI_CLASS] = ELFCLASS64;
    ehdr.e_ident[EI_DATA] = ELFDATA2LSB;
    memcpy(to, &ehdr, sizeof ehdr);
    memcpy(to + sizeof ehdr, phdr, sizeof phdr);
    memcpy(to + sizeof ehdr + sizeof phdr, loader, strlen(loader) + 1);
    return sizeof ehdr + sizeof phdr + strlen(loader) + 1;
}

START_TEST(scripts_name_their_interpreter)
{
    static const struct {
        const char *head, *interpreter;
    } good[] = {
        {"#!/bin/sh\n", "/bin/sh"},
        {"#! \t/bin/sh -e\nx", "/bin/sh"},
        {"#!/usr/bin/env node\n", "/usr/bin/env"},
        {"#!/bin/sh", "/bin/sh"},
        {"#!/bin/sh -x\r\n",
         "/bin/sh"}, /* the carriage return goes to the argument: the shell's affair */
    };
    struct cf_program program;
    struct cf_error err;

    for (size_t i = 0; i < CF_COUNT(good); i++) {
        ck_assert_msg(read_text(good[i].head, &program, &err) == 0, "%s: %s", good[i].head,
                      err.text);
        ck_assert_int_eq(program.kind, CF_PROGRAM_SCRIPT);
        ck_assert_str_eq(program.interpreter, good[i].interpreter);
    }
}
END_TEST

START_TEST(broken_first_lines_have_each_its_message)
{
    static const struct {
        const char *head, *says;
    } bad[] = {
        {"", "empty file"},
        {"echo hi\n", "neither an ELF program nor a script"},
        {"#!/bin/sh\r\necho", "carriage return"},
        {"#!\n", "no absolute path"},
        {"#!bin/sh\n", "no absolute path"},
        {"\177ELF", "ends within its header"},
    };
    struct cf_program program;
    struct cf_error err;
    char line[400];

    for (size_t i = 0; i < CF_COUNT(bad); i++) {
        ck_assert_int_lt(read_text(bad[i].head, &program, &err), 0);
        ck_assert_int_eq(err.kind, CF_ERROR_IMAGE);
        ck_assert_msg(strstr(err.text, bad[i].says) != NULL, "%s", err.text);
        ck_assert_msg(err.fix[0] != '\0', "no remedy for: %s", err.text);
    }
    memset(line, 'a', sizeof line - 1);
    memcpy(line, "#!/", 3);
    line[sizeof line - 1] = '\0';
    ck_assert_int_lt(read_text(line, &program, &err), 0);
    ck_assert_ptr_nonnull(strstr(err.text, "longer than the kernel reads"));
}
END_TEST

START_TEST(elf_programs_name_machine_and_loader)
{
    unsigned char bytes[512];
    struct cf_program program;
    struct cf_error err = {0};
    size_t len = make_elf(bytes, EM_X86_64, "/lib64/ld-linux-x86-64.so.2");

    ck_assert_int_eq(cf_program_read("/h", (char *)bytes, len, &program, &err), 0);
    ck_assert_int_eq(program.kind, CF_PROGRAM_ELF);
    ck_assert_str_eq(program.interpreter, "/lib64/ld-linux-x86-64.so.2");
    ck_assert_int_eq(cf_program_check_arch("/h", &program, "amd64", &err), 0);
    ck_assert_int_eq(cf_program_check_arch("/h", &program, "vax", &err),
                     0); /* not known here */
    ck_assert_int_lt(cf_program_check_arch("/h", &program, "arm64", &err), 0);
    ck_assert_str_eq(err.text, "/h is a program for amd64; this sandbox is arm64");
    ck_assert_ptr_nonnull(strstr(err.fix, "--platform linux/arm64"));
    len = make_elf(bytes, EM_AARCH64, "/x");
    ck_assert_int_eq(cf_program_read("/h", (char *)bytes, len, &program, &err), 0);
    ck_assert_int_lt(cf_program_check_arch("/h", &program, "amd64", &err), 0);
    len = make_elf(bytes, 4242, "/x");
    ck_assert_int_eq(cf_program_read("/h", (char *)bytes, len, &program, &err), 0);
    ck_assert_int_lt(cf_program_check_arch("/h", &program, "amd64", &err), 0);
    ck_assert_ptr_nonnull(strstr(err.text, "64-bit machine 4242"));
}
END_TEST

START_TEST(an_elf_head_survives_any_cut)
{
    unsigned char bytes[512];
    size_t len = make_elf(bytes, EM_X86_64, "/lib64/ld-linux-x86-64.so.2");

    for (size_t cut = 0; cut <= len; cut++) {
        struct cf_program program;
        struct cf_error err = {0};
        unsigned char *exact = malloc(cut + 1); /* so that a read past the end is seen */
        memcpy(exact, bytes, cut);
        unsigned char *tight = realloc(exact, cut > 0 ? cut : 1);
        int rc = cf_program_read("/h", (char *)tight, cut, &program, &err);
        ck_assert(rc == 0 || err.kind == CF_ERROR_IMAGE);
        ck_assert_msg((rc == 0 && program.interpreter[0] != '\0') == (cut == len),
                      "cut at %zu", cut);
        free(tight);
    }
}
END_TEST

START_TEST(object_files_and_odd_loaders_are_refused)
{
    unsigned char bytes[2048];
    struct cf_program program;
    struct cf_error err = {0};
    size_t len = make_elf(bytes, EM_X86_64, "relative");

    ck_assert_int_lt(cf_program_read("/h", (char *)bytes, len, &program, &err), 0);
    ck_assert_ptr_nonnull(strstr(err.text, "not a path"));
    len = make_elf(bytes, EM_X86_64, "/x");
    ((Elf64_Ehdr *)bytes)->e_type = ET_REL;
    ck_assert_int_lt(cf_program_read("/h", (char *)bytes, len, &program, &err), 0);
    ck_assert_ptr_nonnull(strstr(err.text, "an object file"));
    ((Elf64_Ehdr *)bytes)->e_type = ET_EXEC;
    ((Elf64_Ehdr *)bytes)->e_phoff = UINT64_MAX - 10; /* wraps */
    ck_assert_int_eq(cf_program_read("/h", (char *)bytes, len, &program, &err), 0);
    ((Elf64_Ehdr *)bytes)->e_phentsize = 1;
    ck_assert_int_lt(cf_program_read("/h", (char *)bytes, len, &program, &err), 0);
    bytes[EI_DATA] = 7;
    ck_assert_int_lt(cf_program_read("/h", (char *)bytes, len, &program, &err), 0);
}
END_TEST

static int
stat_of(const char *json, struct cf_path_stat *ret, struct cf_error *err)
{
    char header[16384];

    sodium_bin2base64(header, sizeof header, (const unsigned char *)json, strlen(json),
                      sodium_base64_VARIANT_ORIGINAL);
    return cf_path_stat_read(header, ret, err);
}

START_TEST(path_stats_tell_files_folders_and_links)
{
    struct cf_path_stat st;
    struct cf_error err = {0};

    ck_assert_int_eq(stat_of("{\"name\":\"b\",\"size\":1982256,\"mode\":493,\"mtime\":\"x\","
                             "\"linkTarget\":\"\"}",
                             &st, &err),
                     0);
    ck_assert_int_eq(st.type, CF_PATH_FILE);
    ck_assert_uint_eq(st.mode, 0755);
    ck_assert_uint_eq(st.size, 1982256);
    ck_assert_int_eq(
        stat_of(
            "{\"name\":\"sh\",\"size\":12,\"mode\":134218239,\"linkTarget\":\"/bin/busybox\"}",
            &st, &err),
        0);
    ck_assert_int_eq(st.type, CF_PATH_SYMLINK);
    ck_assert_str_eq(st.target, "/bin/busybox");
    ck_assert_int_eq(stat_of("{\"name\":\"d\",\"size\":4096,\"mode\":2147484141}", &st, &err),
                     0);
    ck_assert_int_eq(st.type, CF_PATH_FOLDER);
    ck_assert_int_eq(stat_of("{\"name\":\"p\",\"size\":0,\"mode\":33554852}", &st, &err), 0);
    ck_assert_int_eq(st.type, CF_PATH_OTHER);
}
END_TEST

START_TEST(path_stats_that_lie_are_refused)
{
    static const char *const bad[] = {"",
                                      "[]",
                                      "{}",
                                      "{\"mode\":1}",
                                      "{\"mode\":-1,\"size\":1}",
                                      "{\"mode\":\"x\",\"size\":1}",
                                      "{\"mode\":134218239,\"size\":1}",
                                      "{\"mode\":134218239,\"size\":1,\"linkTarget\":\"\"}"};
    struct cf_path_stat st;
    struct cf_error err = {0};
    char *longest = malloc(70000), json[6000];

    for (size_t i = 0; i < CF_COUNT(bad); i++)
        ck_assert_msg(stat_of(bad[i], &st, &err) < 0, "%s", bad[i]);
    ck_assert_int_lt(cf_path_stat_read(NULL, &st, &err), 0);
    ck_assert_int_lt(cf_path_stat_read("!!!", &st, &err), 0);
    memset(longest, 'A', 69999);
    longest[69999] = '\0';
    ck_assert_int_lt(cf_path_stat_read(longest, &st, &err), 0);
    free(longest);
    for (int len = 4095; len <= 4096; len++) { /* a path's limit, and one past it */
        snprintf(json, sizeof json, "{\"mode\":134218239,\"size\":1,\"linkTarget\":\"/%0*d\"}",
                 len - 1, 0);
        ck_assert_int_eq(stat_of(json, &st, &err), len == 4095 ? 0 : -1);
    }
}
END_TEST

UNIT_MAIN("sandbox/program", {
    tcase_add_test(tc, scripts_name_their_interpreter);
    tcase_add_test(tc, broken_first_lines_have_each_its_message);
    tcase_add_test(tc, elf_programs_name_machine_and_loader);
    tcase_add_test(tc, an_elf_head_survives_any_cut);
    tcase_add_test(tc, object_files_and_odd_loaders_are_refused);
    tcase_add_test(tc, path_stats_tell_files_folders_and_links);
    tcase_add_test(tc, path_stats_that_lie_are_refused);
})
