/* cfrunner test matrix FILE.json: images × protocols × options, a diagnostic a cell, one table. */
#include "cli/commands.h"
#include "cli/eyes.h"
#include "cli/launch.h"

#include "base/clock.h"
#include "base/str.h"
#include "diagnose/matrix.h"
#include "json/json.h"

#include <errno.h>
#include <langinfo.h>
#include <locale.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define RESULT_LIMIT (64u << 20)

struct matrix_flags {
    const char *baseline, *last, *results, *engine, *state_dir;
    uint64_t concurrency;
    bool json, plain, quiet, help;
};

#define F(member) offsetof(struct matrix_flags, member)
static const struct cf_flag table[] = {
    {"--baseline", CF_FLAG_TEXT, F(baseline), "FILE", "excuses of single checks; stale ones fail"},
    {"--last", CF_FLAG_TEXT, F(last), "FILE", "compare with it, then put this result there"},
    {"--results", CF_FLAG_TEXT, F(results), "DIR", "each cell's diagnostic, as files in DIR"},
    {"--concurrency", CF_FLAG_NUMBER, F(concurrency), "N", "cells at a time, at most 16 (2)"},
    {"--engine", CF_FLAG_TEXT, F(engine), "URL", "unix://PATH or tcp://HOST:PORT"},
    {"--state-dir", CF_FLAG_TEXT, F(state_dir), "DIR", "lock files of live runs"},
    {"--json", CF_FLAG_SWITCH, F(json), NULL, "the result as one JSON document on stdout"},
    {"--plain", CF_FLAG_SWITCH, F(plain), NULL, "ASCII, no colour"},
    {"--quiet", CF_FLAG_SWITCH, F(quiet), NULL, "the verdict line only"},
    {"--help", CF_FLAG_SWITCH, F(help), NULL, "this"},
};

struct night {
    struct matrix_flags flags;
    struct cf_matrix_plan plan;
    json_t *baseline, *before;
    struct cf_matrix *matrix;
    struct cf_signals signals;
    uint64_t began_ms;
    bool is_interrupted, has_lost_file;
    int exit_code;
};

/* ---- files ---------------------------------------------------------------------------------- */

static json_t *
read_document(const char *path, struct cf_error *err)
{
    const struct cf_json_limits limits = {RESULT_LIMIT, 40, 4000000, true, true};
    size_t len = 0;
    cf_auto_free char *bytes = cf_read_file(path, RESULT_LIMIT, &len, err);
    json_t *value = bytes != NULL ? cf_json_parse(bytes, len, &limits, err) : NULL;

    if (bytes != NULL && value == NULL)
        (void)cf_error_wrap(err, "%s", path);
    return value;
}

/* Whole or not at all: what stood there stays until the new one is complete. */
static int
write_document(const char *path, const json_t *value, struct cf_error *err)
{
    cf_auto_free char *text = cf_json_dump(value, NULL), *temporary = NULL;
    FILE *file;
    bool is_good;

    if (text == NULL || asprintf(&temporary, "%s.%ld", path, (long)getpid()) < 0) {
        temporary = NULL;
        return cf_error_memory(err);
    }
    file = fopen(temporary, "wxe");
    is_good = file != NULL && fputs(text, file) >= 0 && fputc('\n', file) != EOF;
    if (file != NULL)
        is_good &= fclose(file) == 0;
    if (is_good && rename(temporary, path) == 0)
        return 0;
    (void)cf_error_set(err, CF_ERROR_CONFIG, errno, "%s: %s", path, strerror(errno));
    if (file != NULL)
        (void)unlink(temporary);
    return cf_error_fix(err, "name a file in a folder that you may write to");
}

static int
read_files(struct night *n, const char *path, struct cf_error *err)
{
    cf_auto_free char *folder = NULL;
    const char *slash = strrchr(path, '/');
    json_t *document = read_document(path, err);
    int status;

    if (document == NULL)
        return -1;
    if (asprintf(&folder, "%.*s", slash == NULL ? 1 : slash == path ? 1 : (int)(slash - path), slash == NULL ? "." : path) < 0)
        folder = NULL;
    status = folder == NULL ? cf_error_memory(err) : cf_matrix_read(document, folder, &n->plan, err);
    json_decref(document);
    if (status < 0)
        return cf_error_wrap(err, "%s", path);
    if (n->flags.baseline != NULL) {
        n->baseline = read_document(n->flags.baseline, err);
        if (n->baseline == NULL || cf_matrix_check_baseline(n->baseline, err) < 0)
            return cf_error_wrap(err, "%s", n->flags.baseline);
    }
    if (n->flags.last == NULL || (access(n->flags.last, F_OK) < 0 && errno == ENOENT))
        return 0; /* the first time there is nothing to compare with */
    n->before = read_document(n->flags.last, err);
    if (n->before == NULL)
        return -1;
    if (cf_json_int(n->before, "schema_version", 0) != 1 || !json_is_array(json_object_get(n->before, "cells")))
        return cf_error_set(err, CF_ERROR_CONFIG, 0, "%s is no result of a matrix", n->flags.last);
    return 0;
}

/* ---- while it runs ---------------------------------------------------------------------------- */

static void
file_lost(struct night *n, const struct cf_error *err)
{
    cf_eyes_error(err);
    n->has_lost_file = true;
}

static void
on_result(void *user, const struct cf_matrix_cell *cell, json_t *result)
{
    struct night *n = user;
    struct cf_error err;
    cf_auto_free char *path = NULL;

    if (n->flags.results == NULL)
        return;
    if (asprintf(&path, "%s/%s--%s--%s.json", n->flags.results, cell->image, cell->protocol, cell->options) < 0) {
        path = NULL;
        (void)cf_error_memory(&err);
        file_lost(n, &err);
    } else if (write_document(path, result, &err) < 0) {
        file_lost(n, &err);
    }
}

static void
on_cell(void *user, json_t *row)
{
    const struct night *n = user;

    if (!n->flags.quiet)
        fprintf(stderr, "cfrunner: %s %s (%.1f s)\n", cf_json_str(row, "cell"), cf_json_str(row, "status"),
                (double)cf_json_int(row, "took_ms", 0) / 1000);
}

static void
on_stop(void *user, int count)
{
    struct night *n = user;

    n->is_interrupted = true;
    if (!n->flags.quiet)
        fprintf(stderr, "cfrunner: interrupted, taking everything down%s\n", count > 1 ? " faster" : "");
    if (n->matrix != NULL)
        cf_matrix_interrupt(n->matrix, count > 1 ? 500 : 5000);
}

static void
show(const struct night *n, const json_t *result)
{
    struct cf_report_style style = {.columns = 80, .verbose = n->flags.quiet ? -1 : 0};
    struct cf_buf page;

    if (n->flags.json) {
        char *text = cf_json_dump(result, NULL);
        (void)puts(text != NULL ? text : "{}");
        free(text);
        return;
    }
    if (!n->flags.plain) {
        (void)setlocale(LC_CTYPE, "");
        style.unicode = strcmp(nl_langinfo(CODESET), "UTF-8") == 0;
        style.color = isatty(1) && getenv("NO_COLOR") == NULL && !cf_str_same(getenv("TERM"), "dumb");
    }
    cf_buf_init(&page, 0);
    cf_matrix_table(&page, result, &style);
    if (page.data != NULL)
        (void)fwrite(page.data, 1, page.len, stdout);
    cf_buf_release(&page);
}

static void
on_done(void *user, json_t *rows)
{
    struct night *n = user;
    json_t *result = cf_matrix_result(n->plan.name, rows, n->baseline, n->before, cf_clock_ms() - n->began_ms);
    struct cf_error err;

    n->matrix = NULL;
    cf_signals_close(&n->signals);
    n->exit_code = (int)cf_json_int(result, "exit_code", 4);
    /* One that was interrupted is not what the next one shall be compared with. */
    if (n->flags.last != NULL && !n->is_interrupted && write_document(n->flags.last, result, &err) < 0)
        file_lost(n, &err);
    show(n, result);
    json_decref(result);
    n->exit_code = cf_cli_printed(n->exit_code);
    if (n->has_lost_file)
        n->exit_code = cf_diagnose_worse(n->exit_code, 4);
}

/* ---- the command -------------------------------------------------------------------------------- */

static void
say_engine(struct night *n)
{
    for (size_t i = 0; i < n->plan.count; i++) {
        if (n->flags.engine != NULL)
            (void)json_object_set_new(n->plan.cells[i].run_options, "engine", json_string(n->flags.engine));
        if (n->flags.state_dir != NULL)
            (void)json_object_set_new(n->plan.cells[i].run_options, "state_dir", json_string(n->flags.state_dir));
    }
}

static int
run_matrix(struct night *n, struct cf_error *err)
{
    const struct cf_matrix_events events = {.on_cell = on_cell, .on_result = on_result, .on_done = on_done, .user = n};
    uv_loop_t loop;
    int status;

    if (n->flags.results != NULL && mkdir(n->flags.results, 0755) < 0 && errno != EEXIST)
        return cf_error_set(err, CF_ERROR_CONFIG, errno, "%s: %s", n->flags.results, strerror(errno));
    if (uv_loop_init(&loop) < 0)
        return cf_error_memory(err);
    n->began_ms = cf_clock_ms();
    cf_signals_open(&n->signals, &loop, on_stop, n);
    status = cf_matrix_open(&loop, &n->plan, &events, &n->matrix, err);
    if (status < 0)
        cf_signals_close(&n->signals);
    (void)uv_run(&loop, UV_RUN_DEFAULT);
    (void)uv_loop_close(&loop);
    return status;
}

static int
check_flags(struct night *n, const struct cf_flag_list *rest, struct cf_error *err)
{
    if (rest->count != 1) {
        (void)cf_error_set(err, CF_ERROR_CONFIG, 0, "test matrix takes one file, not %zu", rest->count);
        return cf_error_fix(err, "cfrunner test matrix FILE.json");
    }
    if (n->flags.concurrency > CF_MATRIX_AT_ONCE)
        return cf_error_set(err, CF_ERROR_CONFIG, 0, "--concurrency: at most %u", CF_MATRIX_AT_ONCE);
    return 0;
}

int
cf_cli_test_matrix(int argc, char **argv)
{
    struct night night = {.exit_code = 4};
    struct cf_flag_list *rest = calloc(1, sizeof *rest);
    struct cf_error err = {0};
    int status = rest == NULL ? cf_error_memory(&err)
                              : cf_flags_read(table, CF_COUNT(table), argc, argv, &night.flags, rest, &err);

    if (night.flags.help) {
        puts("usage: cfrunner test matrix FILE.json [flags]\n"
             "Images x protocols x options, a diagnostic a cell, one table. Its form:\n"
             "proto/matrix.schema.json; a baseline's: proto/matrix-baseline.schema.json.\n"
             "Exit: the worst of its cells as in test oci; 1 for a stale excuse.");
        cf_flags_help(table, CF_COUNT(table), stdout);
        free(rest);
        return 0;
    }
    if (status == 0)
        status = check_flags(&night, rest, &err);
    if (status == 0)
        status = read_files(&night, rest->items[0], &err);
    if (status == 0) {
        if (night.flags.concurrency > 0)
            night.plan.at_once = (unsigned)night.flags.concurrency;
        say_engine(&night);
        status = run_matrix(&night, &err);
    }
    if (status < 0)
        night.exit_code = cf_cli_refuse(&err, 2, night.flags.json);
    cf_matrix_plan_release(&night.plan);
    json_decref(night.baseline);
    json_decref(night.before);
    free(rest);
    return night.exit_code;
}
