/*
 * base/carry.h: a file of the repository inside the program: CARRY(symbol, "path") puts its bytes at
 * symbol[] up to symbol_end, with a NUL behind them. The build runs in the repository's root; the
 * Makefile names such files as what the object depends on, since -MMD does not see them.
 */
#ifndef CF_BASE_CARRY_H
#define CF_BASE_CARRY_H

#define CARRY(symbol, path)                                                                 \
    __asm__(".pushsection .rodata\n"                                                        \
            ".hidden " #symbol "\n.globl " #symbol "\n" #symbol ":\n.incbin \"" path "\"\n" \
            ".hidden " #symbol "_end\n.globl " #symbol "_end\n" #symbol "_end:\n.byte 0\n"  \
            ".popsection\n");                                                               \
    extern const char symbol[] __attribute__((visibility("hidden")));                       \
    extern const char symbol##_end[] __attribute__((visibility("hidden")))

#endif
