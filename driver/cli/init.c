/*
 * cfrunner init oneshot|acp: a small working wrapper to begin with, in a folder of its own, ready
 * for `cfrunner test oci`. The files are carried inside the program; the one program that the image
 * needs, a static busybox, is this machine's.
 */
#include "cli/commands.h"
#include "cli/flags.h"

#include "base/carry.h"
#include "base/str.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

CARRY(cf_wrapper_json_awk, "docker/init-oneshot/json.awk");
CARRY(cf_wrapper_oneshot, "docker/init-oneshot/checkfu-oneshot");
CARRY(cf_wrapper_oneshot_dockerfile, "docker/init-oneshot/Dockerfile");
CARRY(cf_wrapper_acp, "docker/init-acp/acp-agent");
CARRY(cf_wrapper_acp_dockerfile, "docker/init-acp/Dockerfile");

struct part {
    const char *name, *bytes, *end;
    mode_t mode;
};

static const struct part oneshot_parts[] = {
    {"checkfu-oneshot", cf_wrapper_oneshot, cf_wrapper_oneshot_end, 0755},
    {"json.awk", cf_wrapper_json_awk, cf_wrapper_json_awk_end, 0644},
    {"Dockerfile", cf_wrapper_oneshot_dockerfile, cf_wrapper_oneshot_dockerfile_end, 0644},
};
static const struct part acp_parts[] = {
    {"acp-agent", cf_wrapper_acp, cf_wrapper_acp_end, 0755},
    {"json.awk", cf_wrapper_json_awk, cf_wrapper_json_awk_end, 0644},
    {"Dockerfile", cf_wrapper_acp_dockerfile, cf_wrapper_acp_dockerfile_end, 0644},
};

static const struct kind {
    const char *name;
    const struct part *parts;
    size_t count;
    const char *test; /* after `cfrunner test oci --name N --build-context D` */
} kinds[] = {
    {"oneshot", oneshot_parts, CF_COUNT(oneshot_parts),
     "    --entrypoint /opt/checkfu/bin/checkfu-oneshot --protocol oneshot-v1 \\\n"
     "    --argv=--output-mode --argv=stream_json --argv=--prompt-path --argv='{prompt_path}' \\\n"
     "    --argv='{resume_flag}' --prompt-transport argv_path --output-mode stream_json \\\n"
     "    --resume-flag=--resume --output-schema-flag=--output-schema \\\n"
     "    --output-schema-transport argv_path --working-directory /workspace\n"},
    {"acp", acp_parts, CF_COUNT(acp_parts),
     "    --entrypoint /opt/custom/bin/acp-agent --protocol acp-v1 --arg=--stdio \\\n"
     "    --working-directory /workspace\n"},
};

/* ---- writing -------------------------------------------------------------------------------- */

static int
write_all(int fd, const char *bytes, size_t len)
{
    while (len > 0) {
        ssize_t n = write(fd, bytes, len);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return -1;
        bytes += n;
        len -= (size_t)n;
    }
    return 0;
}

/* Never over a file that is there. */
static int
make_file(int folder, const char *name, mode_t mode, struct cf_error *err)
{
    int fd = openat(folder, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode);

    if (fd >= 0)
        return fd;
    (void)cf_error_set(err, CF_ERROR_CONFIG, errno, "%s: %s", name, strerror(errno));
    return cf_error_fix(err, "name a folder that does not exist yet; nothing is overwritten");
}

static int
close_file(int fd, bool was_written, const char *name, struct cf_error *err)
{
    if (close(fd) < 0 || !was_written)
        return cf_error_set(err, CF_ERROR_CONFIG, errno, "%s: %s", name, strerror(errno));
    return 0;
}

static int
write_part(int folder, const struct part *part, struct cf_error *err)
{
    int fd = make_file(folder, part->name, part->mode, err);

    if (fd < 0)
        return -1;
    return close_file(fd, write_all(fd, part->bytes, (size_t)(part->end - part->bytes)) == 0, part->name, err);
}

/* ---- busybox --------------------------------------------------------------------------------- */

/* A 64-bit ELF program that asks for no loader: it runs in an image that holds nothing else. */
static bool
is_static_program(int fd)
{
    Elf64_Ehdr head;
    Elf64_Phdr segment;

    if (pread(fd, &head, sizeof head, 0) != sizeof head || memcmp(head.e_ident, ELFMAG, SELFMAG) != 0 ||
        head.e_ident[EI_CLASS] != ELFCLASS64 || head.e_phentsize != sizeof segment)
        return false;
    for (unsigned i = 0; i < head.e_phnum; i++)
        if (pread(fd, &segment, sizeof segment, (off_t)(head.e_phoff + i * sizeof segment)) != sizeof segment ||
            segment.p_type == PT_INTERP)
            return false;
    return true;
}

static int
open_busybox(void)
{
    static const char *const places[] = {"/bin/busybox", "/usr/bin/busybox", "/sbin/busybox",
                                         "/usr/lib/initramfs-tools/bin/busybox"};

    for (size_t i = 0; i < CF_COUNT(places); i++) {
        int fd = open(places[i], O_RDONLY | O_CLOEXEC);
        if (fd >= 0 && is_static_program(fd))
            return fd;
        if (fd >= 0)
            (void)close(fd);
    }
    return -1;
}

/* 1: copied; 0: this machine has none. */
static int
copy_busybox(int folder, struct cf_error *err)
{
    char bytes[16384];
    int from = open_busybox(), to;
    ssize_t n = 0;

    if (from < 0)
        return 0;
    to = make_file(folder, "busybox", 0755, err);
    if (to < 0) {
        (void)close(from);
        return -1;
    }
    while ((n = read(from, bytes, sizeof bytes)) > 0 && write_all(to, bytes, (size_t)n) == 0)
        ;
    (void)close(from);
    return close_file(to, n == 0, "busybox", err) < 0 ? -1 : 1;
}

/* ---- the command ------------------------------------------------------------------------------- */

static int
make_wrapper(const struct kind *kind, const char *directory, bool *ret_has_busybox, struct cf_error *err)
{
    int folder, copied = 0, status = 0;

    if (mkdir(directory, 0755) < 0 && errno != EEXIST)
        return cf_error_set(err, CF_ERROR_CONFIG, errno, "%s: %s", directory, strerror(errno));
    folder = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (folder < 0)
        return cf_error_set(err, CF_ERROR_CONFIG, errno, "%s: %s", directory, strerror(errno));
    for (size_t i = 0; i < kind->count && status == 0; i++)
        status = write_part(folder, &kind->parts[i], err);
    if (status == 0)
        status = copied = copy_busybox(folder, err);
    (void)close(folder);
    *ret_has_busybox = copied == 1;
    return status < 0 ? cf_error_wrap(err, "%s", directory) : 0;
}

static void
say_what_next(const struct kind *kind, const char *directory, bool has_busybox)
{
    struct cf_buf quoted;

    cf_buf_init(&quoted, 0);
    cf_shell_quote(&quoted, directory);
    if (!has_busybox)
        fprintf(stderr,
                "cfrunner: this machine has no static busybox, and the image is built from it\n"
                "  fix: apt-get install busybox-static && cp /bin/busybox %s/\n"
                "       (or begin the Dockerfile with FROM alpine, without its first COPY)\n",
                quoted.data);
    printf("cfrunner test oci --name custom-%s --build-context %s \\\n%s", kind->name, quoted.data, kind->test);
    cf_buf_release(&quoted);
}

struct init_flags {
    const char *directory;
    bool help;
};

static const struct cf_flag table[] = {
    {"--directory", CF_FLAG_TEXT, offsetof(struct init_flags, directory), "DIR", "where the files go; nothing is overwritten"},
    {"--help", CF_FLAG_SWITCH, offsetof(struct init_flags, help), NULL, "this"},
};

int
cf_cli_init(int argc, char **argv)
{
    struct init_flags flags = {0};
    const struct kind *kind = NULL;
    bool has_busybox = false;
    struct cf_error err;
    int status;

    for (size_t i = 0; argc >= 2 && i < CF_COUNT(kinds); i++)
        if (strcmp(argv[1], kinds[i].name) == 0)
            kind = &kinds[i];
    status = cf_flags_read(table, CF_COUNT(table), kind != NULL ? argc - 1 : argc, kind != NULL ? argv + 1 : argv, &flags,
                           NULL, &err);
    if (flags.help) {
        puts("usage: cfrunner init oneshot|acp --directory DIR\n"
             "Writes a small working wrapper in shell, with its Dockerfile, and says how to\ntest it.");
        cf_flags_help(table, CF_COUNT(table), stdout);
        return 0;
    }
    if (kind == NULL || (status == 0 && flags.directory == NULL)) {
        status = cf_error_set(&err, CF_ERROR_CONFIG, 0, kind == NULL ? "init takes oneshot or acp" : "--directory is missing");
        (void)cf_error_fix(&err, "cfrunner init oneshot --directory ./custom-oneshot");
    }
    if (status < 0 || make_wrapper(kind, flags.directory, &has_busybox, &err) < 0)
        return cf_cli_refuse(&err, 2, false);
    say_what_next(kind, flags.directory, has_busybox);
    return 0;
}
