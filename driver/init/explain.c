/*
 * Why a program could not be run. exec's errno is the fact; but ENOENT is also said of a
 * missing interpreter, and ENOEXEC of another processor's program, and a look at the file
 * tells which.
 */
#include "init/init.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/utsname.h>
#include <unistd.h>

#define HEAD_SIZE 4096

static const char *
machine_name(unsigned machine)
{
    static const struct {
        unsigned machine;
        const char *name;
    } names[] = {
        {EM_X86_64, "x86_64"}, {EM_AARCH64, "aarch64"}, {EM_386, "i386"},   {EM_ARM, "arm"},
        {EM_RISCV, "riscv"},   {EM_PPC64, "ppc64"},     {EM_S390, "s390x"}, {EM_MIPS, "mips"},
    };

    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (names[i].machine == machine)
            return names[i].name;
    return "another processor";
}

/* "#!" line: its interpreter's path, cut at white space. */
static void
script_interpreter(const char *head, size_t len, char *out, size_t size)
{
    size_t at = 2, used = 0;

    while (at < len && (head[at] == ' ' || head[at] == '\t'))
        at++;
    while (at < len && used + 1 < size && head[at] != ' ' && head[at] != '\t' &&
           head[at] != '\n' && head[at] != '\0')
        out[used++] = head[at++];
    out[used] = '\0';
}

/* The program interpreter an ELF file names, or "". */
static void
elf_interpreter(int fd, const char *head, size_t len, char *out, size_t size)
{
    Elf64_Ehdr file;
    Elf64_Phdr part;
    ssize_t n;

    out[0] = '\0';
    if (len < sizeof file || head[EI_CLASS] != ELFCLASS64)
        return;
    memcpy(&file, head, sizeof file);
    for (unsigned i = 0; i < file.e_phnum && i < 64; i++) {
        if (pread(fd, &part, sizeof part, (off_t)(file.e_phoff + i * sizeof part)) !=
            sizeof part)
            return;
        if (part.p_type != PT_INTERP)
            continue;
        n = pread(fd, out, part.p_filesz < size - 1 ? part.p_filesz : size - 1,
                  (off_t)part.p_offset);
        out[n > 0 ? n : 0] = '\0';
        return;
    }
}

static bool
is_elf(const char *head, size_t len)
{
    return len >= 20 && memcmp(head, ELFMAG, SELFMAG) == 0;
}

static void
explain_missing(int fd, const char *head, size_t len, char *out, size_t size)
{
    char interpreter[128] = "";
    size_t end;

    if (len >= 2 && memcmp(head, "#!", 2) == 0)
        script_interpreter(head, len, interpreter, sizeof interpreter);
    else if (is_elf(head, len))
        elf_interpreter(fd, head, len, interpreter, sizeof interpreter);
    end = strlen(interpreter);
    if (end > 0 && interpreter[end - 1] == '\r')
        snprintf(
            out, size,
            "its first line ends in a carriage return: the interpreter would be '%.*s\\r'",
            (int)(end - 1), interpreter);
    else if (end > 0)
        snprintf(out, size, "interpreter %s is not in the image", interpreter);
}

static void
explain_format(const char *head, size_t len, char *out, size_t size)
{
    struct utsname here;

    if (len == 0)
        snprintf(out, size, "the file is empty");
    else if (is_elf(head, len)) {
        if (uname(&here) < 0)
            here.machine[0] = '\0';
        snprintf(
            out, size, "ELF for %s, this machine is %s",
            machine_name((unsigned char)head[18] | (unsigned)(unsigned char)head[19] << 8),
            here.machine);
    } else if (len >= 2 && memcmp(head, "#!", 2) == 0)
        snprintf(out, size, "a script whose interpreter cannot be run");
    else
        snprintf(out, size, "neither ELF nor a script with #! in its first line");
}

static void
explain_denied(const char *path, char *out, size_t size)
{
    struct statvfs filesystem;
    struct stat info;

    if (stat(path, &info) < 0)
        snprintf(out, size, "a folder on its way may not be entered by this user");
    else if (S_ISDIR(info.st_mode))
        snprintf(out, size, "it is a folder");
    else if (!S_ISREG(info.st_mode))
        snprintf(out, size, "it is not a regular file");
    else if (access(path, X_OK) < 0)
        snprintf(out, size, "not executable for uid %u (mode %04o, owner %u:%u)",
                 (unsigned)geteuid(), (unsigned)(info.st_mode & 07777), (unsigned)info.st_uid,
                 (unsigned)info.st_gid);
    else if (statvfs(path, &filesystem) == 0 && (filesystem.f_flag & ST_NOEXEC))
        snprintf(out, size, "it lies on a mount without exec");
    else
        snprintf(out, size, "its interpreter may not be executed");
}

static void
explain_exec(const char *program, int error, char *out, size_t size)
{
    char head[HEAD_SIZE];
    int fd = open(program, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    ssize_t n = fd < 0 ? -1 : pread(fd, head, sizeof head, 0);

    if (error == EACCES)
        explain_denied(program, out, size);
    else if (error == ENOENT && fd < 0)
        snprintf(out, size, "no such file in the image");
    else if (error == ENOENT && n >= 0)
        explain_missing(fd, head, (size_t)n, out, size);
    else if (error == ENOEXEC && n >= 0)
        explain_format(head, (size_t)n, out, size);
    else if (error == ENOTDIR)
        snprintf(out, size, "something on its way is not a folder");
    else if (error == E2BIG)
        snprintf(out, size, "arguments and environment are larger than the kernel takes");
    if (fd >= 0)
        close(fd);
}

void
cf_spawn_explain(const char *program, const char *cwd, const struct cf_spawn_failure *why,
                 char *out, size_t size)
{
    out[0] = '\0';
    if (why->phase == CF_SPAWN_EXEC)
        explain_exec(program, why->error, out, size);
    else if (why->phase == CF_SPAWN_CHDIR)
        snprintf(out, size, "working directory %s", cwd);
    else if (why->phase == CF_SPAWN_FORK && why->error == EAGAIN)
        snprintf(out, size, "the limit of processes is reached");
}
