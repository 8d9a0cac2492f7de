/* A program's head out of an author's image, and the path stat header of an engine. */
#include "sandbox/pathstat.h"
#include "sandbox/program.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct cf_program program;
    struct cf_path_stat st;
    struct cf_error err = {0};

    if (cf_program_read("/h", (const char *)data, size, &program, &err) == 0)
        (void)!cf_program_check_arch("/h", &program, "amd64", &err);
    char *header = malloc(size + 1);
    if (header != NULL) {
        memcpy(header, data, size);
        header[size] = '\0';
        (void)!cf_path_stat_read(header, &st, &err);
    }
    free(header);
    return 0;
}
