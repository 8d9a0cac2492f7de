/* unit.h: one check program per file. `UNIT_MAIN("room/file", tcase_add_test(tc, name); ...)`. */
#ifndef CF_TESTS_UNIT_H
#define CF_TESTS_UNIT_H

#include <check.h>
#include <stdlib.h>

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
