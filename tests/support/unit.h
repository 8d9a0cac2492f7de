/* unit.h: one check program per file. `UNIT_MAIN("room/file", tcase_add_test(tc, name); ...)`. */
#ifndef CF_TESTS_UNIT_H
#define CF_TESTS_UNIT_H

#include <check.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* What a test makes under /tmp goes with the test's process, however that ends by itself. */
#define UNIT_MADE_MOST 64
static char unit_made[UNIT_MADE_MOST][128];
static unsigned unit_made_count;
static pid_t unit_maker;

static inline int
unit_remove_one(const char *path, const struct stat *info, int kind, struct FTW *at)
{
    (void)info, (void)at;
    return kind == FTW_DP ? (rmdir(path), 0) : (unlink(path), 0);
}

static inline void
unit_remove_made(void)
{
    for (unsigned i = 0; getpid() == unit_maker && i < unit_made_count; i++)
        (void)nftw(unit_made[i], unit_remove_one, 8, FTW_DEPTH | FTW_PHYS | FTW_MOUNT);
}

static inline void
unit_note_made(const char *path)
{
    if (unit_maker != getpid()) {
        unit_maker = getpid();
        unit_made_count = 0;
        (void)atexit(unit_remove_made);
    }
    if (unit_made_count < UNIT_MADE_MOST && strlen(path) < sizeof unit_made[0])
        strcpy(unit_made[unit_made_count++], path);
}

static inline char *
unit_mkdtemp(char *path)
{
    char *made = mkdtemp(path);

    if (made != NULL)
        unit_note_made(made);
    return made;
}

static inline int
unit_mkstemp(char *path)
{
    int fd = mkstemp(path);

    if (fd >= 0)
        unit_note_made(path);
    return fd;
}
#define mkdtemp unit_mkdtemp
#define mkstemp unit_mkstemp

#define UNIT_MAIN(name, ...)                                        \
    int main(void)                                                  \
    {                                                               \
        Suite *suite = suite_create(name);                          \
        TCase *tc = tcase_create("all");                            \
        tcase_set_timeout(tc, 60);                                  \
        __VA_ARGS__                                                 \
        suite_add_tcase(suite, tc);                                 \
        SRunner *runner = srunner_create(suite);                    \
        srunner_run_all(runner, CK_ENV);                            \
        int failed = srunner_ntests_failed(runner);                 \
        srunner_free(runner);                                       \
        return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;           \
    }
#endif
