/* supervisor.c: loads the driver, gives one harness its prompts, prints what it says. */
#include <cfrunner/driver.h>

#include <dlfcn.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <uv.h>

static const struct cf_driver *driver;
static struct cf_run *run;
static char **prompts; /* JSON documents, one a turn */
static int status = 1;

static int on_observation(void *user, const struct cf_observation *o)
{
    printf("%llu %.*s\n", (unsigned long long)o->seq, (int)o->json_len, o->json);
    return CF_RUN_CONTINUE;
}
static void on_ready(void *user)
{
    const char *prompt = *prompts != NULL ? *prompts++ : NULL;
    struct cf_error err;
    if (prompt == NULL)
        driver->run_close(run, 5000, NULL);
    else if (driver->run_prompt(run, prompt, strlen(prompt), &err) < 0)
        driver->run_close(run, 5000, &err);
}
static void on_turn(void *user, uint32_t turn, const char *json, size_t len)
{
    on_ready(user);
}
static void on_result(void *user, const char *json, size_t len)
{
    status = strstr(json, "\"status\":\"ok\"") == NULL;
    printf("result %.*s\n", (int)len, json);
    driver->run_close(run, 0, NULL); /* also after a failure: only then is the run freed */
}

int main(int argc, char **argv) /* supervisor DRIVER.so RELEASE_JSON OPTIONS_JSON PROMPT_JSON... */
{
    void *so = argc > 4 ? dlopen(argv[1], RTLD_NOW | RTLD_LOCAL) : NULL;
    const struct cf_driver_setup setup = {sizeof setup, CF_ABI_MAJOR, CF_ABI_MINOR, NULL};
    const struct cf_run_host host = {.size = sizeof host, .abi_major = CF_ABI_MAJOR,
                                     .on_observation = on_observation, .on_ready = on_ready,
                                     .on_turn = on_turn, .on_result = on_result};
    struct cf_error err = {.text = "no driver of this ABI"};

    signal(SIGPIPE, SIG_IGN);
    prompts = argv + 4;
    driver = so != NULL ? dlsym(so, CF_DRIVER_DOCKER_SYMBOL) : NULL;
    if (driver == NULL || driver->abi_major != CF_ABI_MAJOR || driver->setup(&setup, &err) < 0 ||
        driver->run_open(uv_default_loop(), argv[2], strlen(argv[2]), argv[3], strlen(argv[3]), &host, &run, &err) < 0) {
        fprintf(stderr, "%s\n%s\n", err.text, err.fix);
        return 2;
    }
    uv_run(uv_default_loop(), UV_RUN_DEFAULT);
    return status;
}
