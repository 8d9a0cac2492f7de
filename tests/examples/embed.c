/* embed.c: the smallest host. Runs one prompt and prints each observation as it happens. */
#include <cfrunner/run.h>

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <uv.h>

static struct cf_run *run;
static int status = 1;

static int
on_observation(void *user, const struct cf_observation *o)
{
    printf("%llu %.*s\n", (unsigned long long)o->seq, (int)o->json_len, o->json);
    return CF_RUN_CONTINUE;
}

static void
on_ready(void *user)
{
    static const char prompt[] = "{\"text\":\"Say hello.\"}";
    struct cf_error err;

    if (cf_run_prompt(run, prompt, strlen(prompt), &err) < 0)
        fprintf(stderr, "%s\n", err.text);
}

static void
on_turn(void *user, uint32_t turn, const char *json, size_t len)
{
    status = strstr(json, "\"outcome\":\"finished\"") == NULL;
    cf_run_close(run, 5000, NULL);
}

static void
on_result(void *user, const char *json, size_t len)
{
    printf("result %.*s\n", (int)len, json);
    cf_run_close(run, 0, NULL); /* also after a failure: only then is the run freed */
}

int
main(int argc, char **argv) /* embed RELEASE_JSON OPTIONS_JSON */
{
    struct cf_run_host host = {.size = sizeof host,
                               .on_observation = on_observation,
                               .on_ready = on_ready,
                               .on_turn = on_turn,
                               .on_result = on_result};
    struct cf_error err;

    signal(SIGPIPE, SIG_IGN); /* the library refuses to run in a process that a lost peer would kill */
    if (argc != 3 || cf_library_init(&err) < 0)
        return 2;
    if (cf_run_open(uv_default_loop(), argv[1], strlen(argv[1]), argv[2], strlen(argv[2]), &host, &run, &err) < 0) {
        fprintf(stderr, "%s\n%s\n", err.text, err.fix);
        return 2;
    }
    uv_run(uv_default_loop(), UV_RUN_DEFAULT);
    return status;
}
