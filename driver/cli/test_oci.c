/* cfrunner test oci: the local diagnostic. One report for eyes, or one JSON document. */
#include "cli/commands.h"
#include "cli/eyes.h"
#include "cli/launch.h"
#include "cli/reports.h"
#include "cli/screen.h"

#include "base/str.h"
#include "diagnose/diagnose.h"
#include "diagnose/torture.h"
#include "json/json.h"

#include "observe/recording.h"

#include <stdio.h>
#include <string.h>

struct test {
    const struct cf_launch_flags *flags;
    struct cf_eyes eyes;
    struct cf_diagnose *diagnose;
    struct cf_torture *torture; /* with --torture: in its place */
    struct cf_signals signals;
    struct cf_reports reports;
    json_t *result;
    int exit_code;
};

static void
write_report(const struct cf_launch_flags *flags, json_t *result)
{
    struct cf_screen screen;
    struct cf_buf page;
    struct cf_report_style style = {.verbose = flags->quiet ? -1 : flags->verbose, .record = flags->record};

    cf_screen_read(&screen, 1, flags->plain);
    style.unicode = screen.unicode;
    style.color = screen.color;
    style.columns = cf_screen_page(&screen);
    cf_buf_init(&page, 0);
    cf_report_write(&page, result, &style);
    if (page.data != NULL)
        (void)fwrite(page.data, 1, page.len, stdout);
    cf_buf_release(&page);
}

/* The run in it is sealed; what the diagnostic made of the run comes behind it. */
static void
add_verdict(const char *path, const json_t *result, int exit_code)
{
    json_t *verdict = json_pack("{s:O?, s:i, s:O?}", "status", json_object_get(result, "status"), "exit_code", exit_code,
                                "checks", json_object_get(result, "checks"));
    size_t len = 0;
    cf_auto_free char *text = cf_json_dump(verdict, &len);
    struct cf_buf record = {0};
    FILE *file = text != NULL ? fopen(path, "r+b") : NULL;
    bool is_good = file != NULL;

    if (is_good) {
        cf_recording_put(&record, CF_RECORD_VERDICT, (uint64_t)cf_json_int(cf_json_obj(result, "timings_ms"), "total", 0),
                         text, len);
        is_good = fseek(file, 0, SEEK_END) == 0 && ftell(file) > 0 && !record.failed &&
                  fwrite(record.data, 1, record.len, file) == record.len;
        is_good &= fclose(file) == 0;
    }
    if (!is_good)
        fprintf(stderr, "cfrunner: the verdict could not be added to %s\n", path);
    cf_buf_release(&record);
    json_decref(verdict);
}

/* What was asked for and is not there is a failure of ours, whatever the harness did. */
static void
write_files(struct test *test, json_t *result)
{
    static const char text[] = "a report file could not be written";
    json_t *error;

    if (cf_reports_write(&test->reports, "test oci", result, test->exit_code, test->flags->name) == 0)
        return;
    test->exit_code = cf_diagnose_worse(test->exit_code, 4);
    error = json_pack("{s:s, s:s, s:s, s:s, s:i, s:i}", "type", cf_error_type(CF_ERROR_INTERNAL), "message", text, "fix",
                      "see its line on stderr", "blame", "runner", "kind", CF_ERROR_INTERNAL, "code", 0);
    if (json_is_null(json_object_get(result, "error")))
        (void)json_object_set(result, "error", error);
    json_decref(error);
    (void)json_object_set_new(result, "status", json_string("error"));
    (void)json_object_set_new(result, "blame", json_string("runner"));
    (void)json_object_set_new(result, "exit_code", json_integer(test->exit_code));
}

static void
on_done(void *user, json_t *result, int exit_code)
{
    struct test *test = user;

    test->diagnose = NULL;
    test->torture = NULL;
    test->exit_code = exit_code;
    test->result = json_incref(result);
    cf_signals_close(&test->signals);
    cf_eyes_close(&test->eyes);
}

/* After the loop: what the eyes had on the terminal is gone, and this takes its place. */
static void
conclude(struct test *test)
{
    json_t *result = test->result;

    write_files(test, result);
    if (test->flags->record != NULL)
        add_verdict(test->flags->record, result, test->exit_code);
    if (test->flags->json) {
        char *text = cf_json_dump(result, NULL);
        (void)puts(text != NULL ? text : "{}");
        free(text);
    } else {
        write_report(test->flags, result);
    }
    test->exit_code = cf_cli_printed(test->exit_code);
    json_decref(result);
}

static void
on_stop(void *user, int count)
{
    struct test *test = user;

    cf_eyes_say(&test->eyes, "cfrunner: interrupted, taking everything down%s", count > 1 ? " faster" : "");
    if (test->diagnose != NULL)
        cf_diagnose_interrupt(test->diagnose, count > 1 ? 500 : 5000);
    if (test->torture != NULL)
        cf_torture_interrupt(test->torture, count > 1 ? 500 : 5000);
}

static void
on_trial(void *user, const char *id, const char *status, const char *summary, uint64_t took_ms)
{
    struct test *test = user;

    cf_eyes_say(&test->eyes, "cfrunner: torture %-18s %-8s %s (%llu ms)", id, status, summary,
                (unsigned long long)took_ms);
}

static int
open_test(struct test *test, uv_loop_t *loop, const struct cf_diagnose_options *options,
          const struct cf_diagnose_events *events, struct cf_error *err)
{
    const struct cf_torture_events torture = {.diagnose = *events, .on_trial = on_trial};

    if (test->flags->torture == NULL)
        return cf_diagnose_open(loop, options, events, &test->diagnose, err);
    return cf_torture_open(loop, options, &torture, &test->torture, err);
}

static int
print_plan(const struct cf_launch *launch)
{
    json_t *plan = json_pack("{s:O, s:O}", "release", launch->release, "options", launch->options);
    char *text = cf_json_dump(plan, NULL);

    (void)puts(text != NULL ? text : "{}");
    free(text);
    json_decref(plan);
    return 0;
}

static int
run_test(struct test *test, const struct cf_launch *launch, char **retest, struct cf_error *err)
{
    const struct cf_launch_flags *f = test->flags;
    struct cf_diagnose_options options = {.release = launch->release,
                                          .options = launch->options,
                                          .name = f->name,
                                          .sandbox = launch->sandbox,
                                          .model = launch->model,
                                          .api_url = f->api_url,
                                          .connection_file = f->connection_file,
                                          .configuration_file = f->configuration_schema,
                                          .has_drain = f->drain,
                                          .retest_argv = (const char *const *)retest};
    struct cf_diagnose_events events = {.watch = {.size = sizeof events.watch, .user = &test->eyes},
                                        .on_done = on_done,
                                        .user = test};
    uv_loop_t loop;

    cf_eyes_watch(&events.watch, &test->eyes);
    if (cf_reports_open(&test->reports, f, launch, err) < 0)
        return -1;
    cf_reports_listen(&test->reports, &events.watch);
    if (uv_loop_init(&loop) < 0)
        return cf_error_memory(err);
    if (open_test(test, &loop, &options, &events, err) < 0) {
        cf_reports_abandon(&test->reports);
        (void)uv_loop_close(&loop);
        return -1;
    }
    cf_eyes_open(&test->eyes, &loop);
    cf_signals_open(&test->signals, &loop, on_stop, test);
    (void)uv_run(&loop, UV_RUN_DEFAULT);
    (void)uv_loop_close(&loop);
    cf_eyes_release(&test->eyes);
    conclude(test);
    return 0;
}

static void
usage(bool all)
{
    puts("usage: cfrunner test oci --name N (--image REF | --build-context DIR)\n"
         "         --entrypoint PATH --protocol acp-v1|oneshot-v1 [flags] | --release FILE\n"
         "Exit: 0 proven, 1 harness, 2 usage, 3 engine, 4 runner, 5 deadline, 130 stopped.");
    (all ? cf_flags_help : cf_flags_brief)(cf_launch_table, cf_launch_count, stdout);
}

int
cf_cli_test_oci(int argc, char **argv)
{
    struct cf_launch_flags flags = {0};
    struct cf_launch launch = {0};
    struct cf_error err = {0};
    struct test test = {.flags = &flags, .exit_code = 4};
    char title[140] = "cfrunner";
    int status;

    status = cf_flags_read(cf_launch_table, cf_launch_count, argc, argv, &flags, NULL, &err);
    if (flags.help || flags.help_all) {
        usage(flags.help_all);
        return 0;
    }
    if (status == 0 && flags.name == NULL) {
        status = cf_error_set(&err, CF_ERROR_CONFIG, 0, "--name is missing");
        (void)cf_error_fix(&err, "give the harness a name, e.g. --name custom-oneshot");
    }
    if (status == 0 && flags.torture != NULL && strcmp(flags.torture, "quick") != 0)
        status = cf_error_set(&err, CF_ERROR_CONFIG, 0, "--torture: %.40s is no level; there is quick", flags.torture);
    if (status == 0)
        status = cf_launch_make(&flags, &launch, &err);
    if (status == 0 && flags.print_plan) {
        status = print_plan(&launch);
        cf_launch_done(&launch);
        return status;
    }
    if (status == 0)
        (void)snprintf(title, sizeof title, "cfrunner test oci  %.80s  %.20s", flags.name,
                       cf_json_str(launch.release, "protocol"));
    test.eyes = (struct cf_eyes){.verbose = flags.quiet ? -1 : flags.verbose, .plain = flags.plain, .title = title};
    if (status == 0)
        status = run_test(&test, &launch, argv - 1, &err);
    for (int i = 1; i < argc; i++) /* reading may have stopped before it */
        flags.json |= strcmp(argv[i], "--json") == 0;
    if (status < 0)
        test.exit_code = cf_cli_refuse(&err, 2, flags.json);
    cf_launch_done(&launch);
    return test.exit_code;
}
