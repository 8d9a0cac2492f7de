/* What several commands share: refusing, signals, and the two that only print. */
#include "cli/commands.h"
#include "cli/eyes.h"

#include <cfrunner/version.h>

#include "base/str.h"
#include "capability/capability.h"
#include "json/json.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>

int
cf_cli_refuse(const struct cf_error *err, int code, bool as_json)
{
    json_t *document;
    char *text;

    cf_eyes_error(err);
    if (!as_json)
        return code;
    document = json_pack("{s:i, s:s, s:i, s:{s:s, s:s, s:s}}", "schema_version", 1, "status", "error", "exit_code", code,
                         "error", "type", cf_error_type(err->kind), "message", err->text, "fix", err->fix);
    text = cf_json_dump(document, NULL);
    puts(text != NULL ? text : "{\"status\":\"error\"}");
    free(text);
    json_decref(document);
    return code;
}

int
cf_cli_printed(int code)
{
    if (fflush(stdout) == 0 && !ferror(stdout))
        return code;
    fputs("cfrunner: stdout did not take the whole result\n"
          "  fix: give it a place that is open and has room\n", stderr);
    return 4;
}

static void
on_signal(uv_signal_t *handle, int number)
{
    struct cf_signals *signals = handle->data;

    signals->on_stop(signals->user, ++signals->count);
}

void
cf_signals_open(struct cf_signals *signals, uv_loop_t *loop, void (*on_stop)(void *, int), void *user)
{
    static const int numbers[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT};

    signals->count = 0;
    signals->on_stop = on_stop;
    signals->user = user;
    for (size_t i = 0; i < CF_COUNT(numbers); i++) {
        (void)uv_signal_init(loop, &signals->handles[i]);
        signals->handles[i].data = signals;
        (void)uv_signal_start(&signals->handles[i], on_signal, numbers[i]);
    }
}

void
cf_signals_close(struct cf_signals *signals)
{
    for (size_t i = 0; i < CF_COUNT(signals->handles); i++)
        uv_close((uv_handle_t *)&signals->handles[i], NULL);
}

int
cf_cli_version(int argc, char **argv)
{
    printf("cfrunner %s\nlibrary  %s, ABI %d.%d\nengine   Docker Engine API 1.41 and up\n"
           "wires    acp-v1 (%s), oneshot-v1 (%s)\n",
           CFRUNNER_VERSION, cf_version(), CF_ABI_MAJOR, CF_ABI_MINOR, CF_DRIVER_ACP, CF_DRIVER_ONESHOT);
    return 0;
}
