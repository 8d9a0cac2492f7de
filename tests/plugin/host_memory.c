/*
 * host_memory DRIVER.so RELEASE_JSON OPTIONS_JSON PROMPT_JSON [FAIL_FROM FAIL_COUNT]: a whole
 * run whose memory is counted block by block. Prints
 * {"closed","status","made","alive","most_bytes", "failed"}; exit 0 when the run was closed
 * and every block came back, whatever the run came to.
 */
#include <cfrunner/driver.h>

#include "tests/support/tagged.h"

#include <dlfcn.h>
#include <signal.h>
#include <stdbool.h>
#include <uv.h>

struct host {
    const struct cf_driver *driver;
    struct cf_run *run;
    const char *prompt;
    int closed;
    char status[16];
};

static void
on_ready(void *user)
{
    struct host *host = user;
    struct cf_error err = {0};

    if (host->driver->run_prompt(host->run, host->prompt, strlen(host->prompt), &err) < 0)
        host->driver->run_close(host->run, 1000, &err);
}

static void
on_turn(void *user, uint32_t turn, const char *json, size_t len)
{
    struct host *host = user;

    host->driver->run_close(host->run, 5000, NULL);
}

static void
on_result(void *user, const char *json, size_t len)
{
    struct host *host = user;
    const char *status = memmem(json, len, "\"status\":\"", 10);

    if (status != NULL)
        (void)sscanf(status + 10, "%15[a-z]", host->status);
    host->driver->run_close(host->run, 0, NULL);
}

static void
on_closed(void *user)
{
    ((struct host *)user)->closed++;
}

int
main(int argc, char **argv)
{
    struct tagged tagged = {0};
    const struct cf_memory memory = {
        .size = sizeof memory, .user = &tagged, .resize = tagged_resize};
    const struct cf_driver_setup setup = {sizeof setup, CF_ABI_MAJOR, CF_ABI_MINOR, &memory};
    struct host h = {.prompt = argc > 4 ? argv[4] : NULL, .status = "none"};
    const struct cf_run_host table = {.size = sizeof table,
                                      .abi_major = CF_ABI_MAJOR,
                                      .abi_minor = CF_ABI_MINOR,
                                      .user = &h,
                                      .on_ready = on_ready,
                                      .on_turn = on_turn,
                                      .on_result = on_result,
                                      .on_closed = on_closed};
    struct cf_error err = {0};
    void *so = h.prompt != NULL ? dlopen(argv[1], RTLD_NOW | RTLD_LOCAL) : NULL;
    uv_loop_t loop;
    bool is_open;

    h.driver = so != NULL ? dlsym(so, CF_DRIVER_DOCKER_SYMBOL) : NULL;
    if (h.driver == NULL || uv_loop_init(&loop) < 0 || h.driver->setup(&setup, &err) < 0)
        return fprintf(stderr, "host_memory: %s\n", h.driver != NULL ? err.text : "no driver"),
               2;
    (void)signal(SIGPIPE, SIG_IGN);
    if (argc > 6) {
        tagged.fail_from = strtoull(argv[5], NULL, 10);
        tagged.fail_count = strtoull(argv[6], NULL, 10);
    }
    is_open = h.driver->run_open(&loop, argv[2], strlen(argv[2]), argv[3], strlen(argv[3]),
                                 &table, &h.run, &err) == 0;
    (void)uv_run(&loop, UV_RUN_DEFAULT);
    printf("{\"closed\":%s,\"status\":\"%s\",\"made\":%llu,\"alive\":%llu,\"most_bytes\":%llu,"
           "\"failed\":%llu}\n",
           h.closed == 1 ? "true" : "false", is_open ? h.status : "refused", tagged.made,
           tagged.alive, tagged.most_bytes, tagged.failed);
    return uv_loop_close(&loop) == 0 && h.closed == is_open && tagged.alive == 0 ? 0 : 1;
}
