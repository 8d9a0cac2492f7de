/*
 * inside.h: lets a test program run itself inside the sandbox. `./test_x --inside NAME ARG...`
 * runs the function of that name and never reaches the tests.
 */
#ifndef CF_TESTS_INSIDE_H
#define CF_TESTS_INSIDE_H

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct inside {
    const char *name;
    int (*fn)(int argc, char **argv);
};

/* The test file defines it; its last entry has no name. */
static const struct inside inside_table[];

static __attribute__((constructor)) void
inside_maybe(int argc, char **argv, char **env)
{
    if (argc < 3 || strcmp(argv[1], "--inside") != 0)
        return;
    for (const struct inside *at = inside_table; at->name != NULL; at++) {
        if (strcmp(at->name, argv[2]) == 0) {
            int code = at->fn(argc - 3, argv + 3);

            fflush(stdout);
            _exit(code);
        }
    }
    _exit(99);
}

/* The path of this very program. */
static inline const char *
inside_program(void)
{
    static char path[PATH_MAX];
    ssize_t n = readlink("/proc/self/exe", path, sizeof path - 1);

    path[n > 0 ? n : 0] = '\0';
    return path;
}

#endif
