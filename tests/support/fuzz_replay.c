/* fuzz_replay.c: main for a fuzz target built without a fuzzer: runs it once over each file, or
 * over each file of each folder, that is named. Past findings and seeds stay tested that way. */
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static unsigned count;

static void
replay_file(const char *path)
{
    FILE *file = fopen(path, "rb");
    uint8_t *data;
    long size;

    if (file == NULL)
        return;
    (void)fseek(file, 0, SEEK_END);
    size = ftell(file);
    rewind(file);
    data = malloc((size_t)size + 1); /* exact size: a read past the end is seen by the sanitizer */
    if (data != NULL && fread(data, 1, (size_t)size, file) == (size_t)size) {
        uint8_t *exact = realloc(data, size > 0 ? (size_t)size : 1);
        (void)LLVMFuzzerTestOneInput(exact, (size_t)size);
        data = exact;
        count++;
    }
    free(data);
    (void)fclose(file);
}

static void
replay(const char *path)
{
    struct dirent *entry;
    DIR *dir = opendir(path);

    if (dir == NULL) {
        replay_file(path);
        return;
    }
    while ((entry = readdir(dir)) != NULL) {
        char below[4096];
        if (entry->d_name[0] == '.')
            continue;
        (void)snprintf(below, sizeof below, "%s/%s", path, entry->d_name);
        replay(below);
    }
    (void)closedir(dir);
}

int
main(int argc, char **argv)
{
    for (int i = 1; i < argc; i++)
        replay(argv[i]);
    printf("%u inputs\n", count);
    return count > 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
