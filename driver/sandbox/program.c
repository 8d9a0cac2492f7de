/*
 * The head of a program. The kernel's own rules are followed (a #! line is looked at for 256
 * bytes, blanks are space and tab), so that what passes here is not refused there for a reason
 * that we could have told.
 */
#include "sandbox/program.h"

#include "base/str.h"

#include <elf.h>
#include <stdio.h>
#include <string.h>

enum { SCRIPT_LINE_MOST = 256, PROGRAM_HEADERS_MOST = 64 };

/* ---- numbers of either order, at any alignment --------------------------------------- */

struct view {
    const unsigned char *bytes;
    size_t len;
    bool is_big;
};

static uint64_t
number(const struct view *view, uint64_t at, unsigned size)
{
    uint64_t value = 0;

    if (at > view->len || size > view->len - at)
        return 0; /* callers looked at the length of the table before */
    for (unsigned i = 0; i < size; i++)
        value |= (uint64_t)view->bytes[at + i] << 8 * (view->is_big ? size - 1 - i : i);
    return value;
}

/* ---- ELF -------------------------------------------------------------------------------- */

static const struct machine {
    unsigned number;
    bool is_64, is_big;
    const char *arch;
} machines[] = {
    {EM_X86_64, true, false, "amd64"},  {EM_386, false, false, "386"},
    {EM_AARCH64, true, false, "arm64"}, {EM_ARM, false, false, "arm"},
    {EM_PPC64, true, false, "ppc64le"}, {EM_PPC64, true, true, "ppc64"},
    {EM_S390, true, true, "s390x"},     {EM_RISCV, true, false, "riscv64"},
    {EM_MIPS, true, false, "mips64le"}, {EM_MIPS, true, true, "mips64"},
    {EM_MIPS, false, false, "mipsle"},  {EM_MIPS, false, true, "mips"},
};

static const char *
arch_of(const struct cf_program *program)
{
    for (size_t i = 0; i < CF_COUNT(machines); i++) {
        const struct machine *m = &machines[i];
        /* x32 is EM_X86_64 in 32-bit form, which common kernels do not run: no row, so no name
         */
        if (m->number == program->machine && m->is_64 == program->is_64 &&
            m->is_big == program->is_big_endian)
            return m->arch;
    }
    return NULL;
}

void
cf_elf_machine_name(const struct cf_program *program, char out[32])
{
    const char *arch = arch_of(program);

    if (arch != NULL)
        (void)snprintf(out, 32, "%s", arch);
    else
        (void)snprintf(out, 32, "%d-bit machine %u", program->is_64 ? 64 : 32,
                       program->machine);
}

static int
elf_damaged(const char *path, const char *what, struct cf_error *err)
{
    cf_error_set(err, CF_ERROR_IMAGE, 0, "%s begins like an ELF program, but %s", path, what);
    return cf_error_fix(err, "build the image again; the file in it was cut or overwritten");
}

/* PT_INTERP's text, when it lies within the head. */
static int
read_loader(const char *path, const struct view *view, const struct cf_program *elf, char *out,
            size_t size, struct cf_error *err)
{
    uint64_t table = elf->is_64 ? number(view, 32, 8) : number(view, 28, 4);
    uint64_t entry = number(view, elf->is_64 ? 54 : 42, 2),
             count = number(view, elf->is_64 ? 56 : 44, 2);

    if (entry < (elf->is_64 ? sizeof(Elf64_Phdr) : sizeof(Elf32_Phdr)))
        return elf_damaged(path, "its program headers are too small", err);
    for (uint64_t i = 0; i < count && i < PROGRAM_HEADERS_MOST; i++) {
        uint64_t at = table + i * entry;
        if (at < table || at > view->len || entry > view->len - at)
            return 0; /* laid out unusually; the kernel will tell */
        if (number(view, at, 4) != PT_INTERP)
            continue;
        uint64_t offset = elf->is_64 ? number(view, at + 8, 8) : number(view, at + 4, 4);
        uint64_t len = elf->is_64 ? number(view, at + 32, 8) : number(view, at + 16, 4);
        if (offset > view->len || len > view->len - offset)
            return 0;
        if (len < 2 || len > size || view->bytes[offset + len - 1] != '\0' ||
            view->bytes[offset] != '/')
            return elf_damaged(path, "the loader that it names is not a path", err);
        (void)snprintf(out, size, "%s", (const char *)view->bytes + offset);
        return 0;
    }
    return 0;
}

static int
read_elf(const char *path, const char *head, size_t len, struct cf_program *ret,
         struct cf_error *err)
{
    struct view view = {(const unsigned char *)head, len, false};
    unsigned type;

    ret->kind = CF_PROGRAM_ELF;
    if (len < sizeof(Elf32_Ehdr))
        return elf_damaged(path, "it ends within its header", err);
    if ((head[EI_CLASS] != ELFCLASS32 && head[EI_CLASS] != ELFCLASS64) ||
        (head[EI_DATA] != ELFDATA2LSB && head[EI_DATA] != ELFDATA2MSB))
        return elf_damaged(path, "its class or byte order is none that exists", err);
    ret->is_64 = head[EI_CLASS] == ELFCLASS64;
    ret->is_big_endian = view.is_big = head[EI_DATA] == ELFDATA2MSB;
    if (ret->is_64 && len < sizeof(Elf64_Ehdr))
        return elf_damaged(path, "it ends within its header", err);
    ret->machine = (unsigned)number(&view, 18, 2);
    type = (unsigned)number(&view, 16, 2);
    if (type != ET_EXEC && type != ET_DYN) {
        cf_error_set(err, CF_ERROR_IMAGE, 0, "%s is an ELF file, but no program (type %u: %s)",
                     path, type, type == ET_REL ? "an object file" : "not executable");
        return cf_error_fix(err, "link it into a program before it is copied into the image");
    }
    return read_loader(path, &view, ret, ret->interpreter, sizeof ret->interpreter, err);
}

int
cf_program_check_arch(const char *path, const struct cf_program *program, const char *arch,
                      struct cf_error *err)
{
    const char *have = program->kind == CF_PROGRAM_ELF ? arch_of(program) : NULL;
    bool is_known = false;
    char name[32];

    for (size_t i = 0; i < CF_COUNT(machines); i++)
        is_known = is_known || strcmp(machines[i].arch, arch) == 0;
    if (program->kind != CF_PROGRAM_ELF || !is_known || cf_str_same(have, arch))
        return 0;
    /* 64-bit kernels of these two run the 32-bit programs of their family. */
    if ((strcmp(arch, "amd64") == 0 && cf_str_same(have, "386")) ||
        (strcmp(arch, "arm64") == 0 && cf_str_same(have, "arm")))
        return 0;
    cf_elf_machine_name(program, name);
    cf_error_set(err, CF_ERROR_IMAGE, 0, "%s is a program for %s; this sandbox is %s", path,
                 name, arch);
    return cf_error_fix(err, "build the image for it: docker build --platform linux/%s", arch);
}

const char *
cf_arch_name(const char *machine)
{
    static const char *const names[][2] = {
        {"x86_64", "amd64"}, {"aarch64", "arm64"}, {"armv7l", "arm"},  {"armv6l", "arm"},
        {"i386", "386"},     {"i686", "386"},      {"x86-64", "amd64"}};

    for (size_t i = 0; i < CF_COUNT(names); i++) {
        if (strcmp(machine, names[i][0]) == 0)
            return names[i][1];
    }
    return machine;
}

/* ---- scripts ------------------------------------------------------------------------- */

static int
read_script(const char *path, const char *head, size_t len, struct cf_program *ret,
            struct cf_error *err)
{
    size_t most = len < SCRIPT_LINE_MOST ? len : SCRIPT_LINE_MOST;
    const char *newline = memchr(head, '\n', most);
    const char *end = newline != NULL ? newline : head + most, *at = head + 2, *stop;

    ret->kind = CF_PROGRAM_SCRIPT;
    while (at < end && (*at == ' ' || *at == '\t'))
        at++;
    for (stop = at; stop < end && *stop != ' ' && *stop != '\t' && *stop != '\0';)
        stop++;
    if (newline == NULL && stop == end && len > most) {
        cf_error_set(
            err, CF_ERROR_IMAGE, 0,
            "the first line of %s, a #! line, is longer than the kernel reads (%d bytes)",
            path, SCRIPT_LINE_MOST);
        return cf_error_fix(err, "name a shorter path to the interpreter");
    }
    if (stop > at && stop[-1] == '\r') {
        cf_error_set(
            err, CF_ERROR_IMAGE, 0,
            "the #! line of %s ends in a carriage return (the file has CRLF line ends)", path);
        return cf_error_fix(err,
                            "convert it to LF line ends before it is copied into the image");
    }
    if (stop == at || *at != '/') {
        cf_error_set(err, CF_ERROR_IMAGE, 0, "the #! line of %s names no absolute path", path);
        return cf_error_fix(err, "begin it with #! and the interpreter's absolute path");
    }
    (void)snprintf(ret->interpreter, sizeof ret->interpreter, "%.*s", (int)(stop - at), at);
    return 0;
}

int
cf_program_read(const char *path, const char *head, size_t len, struct cf_program *ret,
                struct cf_error *err)
{
    memset(ret, 0, sizeof *ret);
    ret->kind = CF_PROGRAM_OTHER;
    if (len >= SELFMAG && memcmp(head, ELFMAG, SELFMAG) == 0)
        return read_elf(path, head, len, ret, err);
    if (len >= 2 && head[0] == '#' && head[1] == '!')
        return read_script(path, head, len, ret, err);
    if (len == 0)
        cf_error_set(err, CF_ERROR_IMAGE, 0, "%s is an empty file", path);
    else
        cf_error_set(err, CF_ERROR_IMAGE, 0,
                     "%s is neither an ELF program nor a script with a #! line", path);
    return cf_error_fix(
        err, "a script begins with a line such as #!/bin/sh that names its interpreter");
}
