/*
 * sandbox/program.h: what a program's first bytes say it needs in order to run: a machine, an
 * ELF loader, an interpreter. Pure; the bytes come out of an author's image.
 */
#ifndef CF_SANDBOX_PROGRAM_H
#define CF_SANDBOX_PROGRAM_H

#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define CF_PROGRAM_HEAD_BYTES 8192 /* enough of a file for all of it, as linkers lay it out \
                                    */

enum cf_program_kind { CF_PROGRAM_ELF, CF_PROGRAM_SCRIPT, CF_PROGRAM_OTHER };

struct cf_program {
    enum cf_program_kind kind;
    unsigned machine; /* ELF e_machine */
    bool is_64, is_big_endian;
    char interpreter[1024]; /* the ELF loader or what #! names; "" for a static program */
};

/*
 * Reads the first bytes of a file. CF_ERROR_IMAGE with a remedy when the kernel would not run
 * it whatever the machine: empty, no program, a damaged ELF header, a #! line that is too
 * long, ends in CR or names no absolute path. `path` is for the message.
 */
CF_CHECKED int cf_program_read(const char *path, const char *head, size_t len,
                               struct cf_program *ret, struct cf_error *err);

/* Does the program run on `arch` ("amd64", "arm64", ...; as cf_arch_name gives it)? An arch
 * that is not known here passes: the kernel has the last word. CF_ERROR_IMAGE with a remedy.
 */
CF_CHECKED int cf_program_check_arch(const char *path, const struct cf_program *program,
                                     const char *arch, struct cf_error *err);

/* The image format's name of a machine: "x86_64" -> "amd64", "aarch64" -> "arm64"; else as
 * given. */
const char *cf_arch_name(const char *machine);

/* What an ELF machine number is called, "machine 123" when unknown; written to out. */
void cf_elf_machine_name(const struct cf_program *program, char out[32]);

#endif
