/* cfrunner ps and cfrunner reap: what this installation holds in an engine, and its dead runs' remains. */
#include "cli/commands.h"
#include "cli/eyes.h"
#include "cli/flags.h"

#include "base/str.h"
#include "base/utf8.h"
#include "engine/engine.h"
#include "json/json.h"
#include "sandbox/sandbox.h"

#include <stdio.h>
#include <string.h>

#define WHOLE_MS 60000u

struct holding_flags {
    const char *engine, *state_dir;
    bool json, dry_run, all_dead_owners, help;
};

#define F(member) offsetof(struct holding_flags, member)
static const struct cf_flag table[] = {
    {"--engine", CF_FLAG_TEXT, F(engine), "URL", "unix://PATH or tcp://HOST:PORT"},
    {"--state-dir", CF_FLAG_TEXT, F(state_dir), "DIR", "lock files of live runs"},
    {"--json", CF_FLAG_SWITCH, F(json), NULL, "one JSON document on stdout"},
    {"--help", CF_FLAG_SWITCH, F(help), NULL, "this"},
    {"--dry-run", CF_FLAG_SWITCH, F(dry_run), NULL, "reap: only say what would go"},
    {"--all-dead-owners", CF_FLAG_SWITCH, F(all_dead_owners), NULL, "reap: other installations' too"},
};

struct holding {
    struct holding_flags flags;
    bool is_reap, is_told, is_leaving, is_interrupted;
    struct cf_signals signals;
    uv_loop_t loop;
    struct cf_engine *engine;
    struct cf_owner *owner;
    struct cf_error err;
    int exit_code;
};

static void
cell(const char *text, int width)
{
    char line[200];

    (void)snprintf(line, sizeof line, "%s", text != NULL ? text : "");
    cf_utf8_make_line(line);
    printf("%-*.*s ", width, width, line);
}

static void
print_runs(json_t *runs)
{
    json_t *run, *resource;
    size_t i, k;

    json_array_foreach(runs, i, run)
    {
        json_array_foreach(json_object_get(run, "resources"), k, resource)
        {
            const char *name = cf_json_str(resource, "name");
            json_t *live = json_object_get(run, "live");
            cell(cf_json_str(run, "run"), 36);
            cell(live == NULL || json_is_false(live) ? "dead" : "live", 5);
            cell(cf_json_str(resource, "kind"), 10);
            cell(name != NULL && *name ? name : cf_json_str(resource, "id"), 40);
            printf("\n");
        }
    }
}

static void
print_left(json_t *left)
{
    json_t *item;
    size_t i;

    json_array_foreach(left, i, item)
    {
        printf("left: %s %s: %s\n", cf_json_str(item, "kind"), cf_json_str(item, "id"),
               cf_json_str(item, "why") != NULL ? cf_json_str(item, "why") : "");
        if (cf_json_str(item, "remove") != NULL)
            printf("  %s\n", cf_json_str(item, "remove"));
    }
}

static void
on_engine_closed(void *user)
{
    struct holding *h = user;

    h->engine = NULL;
    cf_signals_close(&h->signals);
}

/* Also ends what is under way: a sweep then reports what it has. Once. */
static void
leave(struct holding *h)
{
    if (!h->is_leaving)
        cf_engine_close(h->engine, on_engine_closed, h);
    h->is_leaving = true;
}

static void
on_stop(void *user, int count)
{
    struct holding *h = user;

    h->is_interrupted = true;
    leave(h);
}

static void
on_report(void *user, int status, json_t *report, const struct cf_error *err)
{
    struct holding *h = user;
    json_t *runs = h->is_reap ? json_object_get(report, "dead") : report;
    char *text;

    if (status < 0) {
        h->err = *err;
        h->exit_code = err->kind == CF_ERROR_TEARDOWN ? 4 : 3;
    }
    h->is_told = true;
    if (h->flags.json) {
        text = cf_json_dump(report, NULL);
        puts(text != NULL ? text : "{}");
        free(text);
    } else {
        print_runs(runs);
        if (h->is_reap) {
            printf("%zu dead run(s), %zu removed, %zu left%s\n", json_array_size(runs),
                   json_array_size(json_object_get(report, "removed")), json_array_size(json_object_get(report, "left")),
                   h->flags.dry_run ? " (dry run)" : "");
            print_left(json_object_get(report, "left"));
        } else if (json_array_size(runs) == 0) {
            puts("nothing held");
        }
    }
    leave(h);
}

static void
on_connected(void *user, int status, const struct cf_error *err)
{
    struct holding *h = user;

    if (status == 0) {
        status = h->is_reap ? cf_reap_open(&h->loop, h->engine, h->owner, h->flags.all_dead_owners, h->flags.dry_run,
                                           WHOLE_MS, on_report, h, &h->err)
                            : cf_owner_list(&h->loop, h->engine, h->owner, WHOLE_MS, on_report, h, &h->err);
    } else {
        h->err = *err;
    }
    if (status < 0) {
        h->exit_code = 3;
        leave(h);
    }
}

static int
hold(struct holding *h)
{
    const struct cf_engine_options options = {.endpoint = h->flags.engine};

    if (cf_owner_open(h->flags.state_dir, &h->owner, &h->err) < 0 ||
        cf_engine_open(&h->loop, &options, &h->engine, &h->err) < 0)
        return -1;
    cf_signals_open(&h->signals, &h->loop, on_stop, h);
    if (cf_engine_connect(h->engine, 15000, on_connected, h, &h->err) < 0) {
        leave(h);
        h->exit_code = 3;
    }
    (void)uv_run(&h->loop, UV_RUN_DEFAULT);
    return 0;
}

static int
command(bool is_reap, int argc, char **argv)
{
    struct holding h = {.is_reap = is_reap};
    size_t count = CF_COUNT(table) - (is_reap ? 0 : 2);
    int status = cf_flags_read(table, count, argc, argv, &h.flags, NULL, &h.err);

    if (h.flags.help) {
        puts(is_reap ? "usage: cfrunner reap [flags]\nRemoves what dead runs of this installation left in the engine."
                     : "usage: cfrunner ps [flags]\nLists what this installation holds in the engine.");
        cf_flags_help(table, count, stdout);
        return 0;
    }
    if (status < 0)
        return cf_cli_refuse(&h.err, 2, h.flags.json);
    (void)uv_loop_init(&h.loop);
    if (hold(&h) < 0)
        h.exit_code = 2;
    cf_owner_close(h.owner);
    (void)uv_loop_close(&h.loop);
    if (h.is_interrupted) {
        h.exit_code = 130;
        (void)cf_error_set(&h.err, CF_ERROR_CANCELED, 0, "interrupted");
    }
    if (h.err.kind != CF_ERROR_NONE)
        (void)cf_cli_refuse(&h.err, h.exit_code, h.flags.json && !h.is_told);
    return cf_cli_printed(h.exit_code);
}

int
cf_cli_ps(int argc, char **argv)
{
    return command(false, argc, argv);
}

int
cf_cli_reap(int argc, char **argv)
{
    return command(true, argc, argv);
}
