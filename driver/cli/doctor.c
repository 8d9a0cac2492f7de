/* cfrunner doctor: is this machine fit for a run, and what to do if not. */
#include "cli/commands.h"
#include "cli/eyes.h"
#include "cli/flags.h"

#include "base/buf.h"
#include "base/str.h"
#include "base/utf8.h"
#include "diagnose/doctor.h"
#include "json/json.h"

#include <ctype.h>
#include <langinfo.h>
#include <locale.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define COLUMNS 80
#define FACT_COLUMN 27 /* group, mark and name stand before it */

struct doctor_flags {
    const char *engine, *state_dir;
    bool json, plain, no_trial, help;
};

#define F(member) offsetof(struct doctor_flags, member)
static const struct cf_flag table[] = {
    {"--engine", CF_FLAG_TEXT, F(engine), "URL", "unix://PATH or tcp://HOST:PORT"},
    {"--state-dir", CF_FLAG_TEXT, F(state_dir), "DIR", "lock files of live runs"},
    {"--no-trial", CF_FLAG_SWITCH, F(no_trial), NULL, "only look: build nothing, start nothing"},
    {"--json", CF_FLAG_SWITCH, F(json), NULL, "one JSON document on stdout"},
    {"--plain", CF_FLAG_SWITCH, F(plain), NULL, "ASCII, no colour"},
    {"--help", CF_FLAG_SWITCH, F(help), NULL, "this"},
};

struct look {
    struct doctor_flags flags;
    bool unicode, color;
    struct cf_doctor *doctor;
    struct cf_signals signals;
    int exit_code;
};

/* ---- for eyes ------------------------------------------------------------------------------ */

/* Words of `text` in lines that fit behind `column`; the first goes on where the cursor is. */
static void
wrap(const char *text, int column)
{
    int at = column;

    while (*text != '\0') {
        int len = (int)strcspn(text, " ");
        if (at > column && at + 1 + len > COLUMNS) {
            printf("\n%*s", column, "");
            at = column;
        }
        at += printf("%s%.*s", at > column ? " " : "", len, text);
        text += len + strspn(text + len, " ");
    }
    printf("\n");
}

static void
print_line(const struct look *look, const json_t *line, const char *group_before)
{
    const char *status = cf_json_str(line, "status"), *next = cf_json_str(line, "next"),
               *group = cf_json_str(line, "group"), *color;
    bool is_ok = cf_str_same(status, "ok"), is_blocking = cf_str_same(status, "blocking");
    char title[16] = "";

    if (!cf_str_same(group, group_before))
        for (size_t i = 0; group[i] != '\0' && i + 1 < sizeof title; i++)
            title[i] = (char)toupper((unsigned char)group[i]);
    color = !look->color ? "" : is_ok ? "\033[32m" : is_blocking ? "\033[31m" : "\033[33m";
    printf(" %-10s%s%s%s %-14s", title, color, !is_ok ? "!" : look->unicode ? "\u2713" : "+", look->color ? "\033[0m" : "",
           cf_json_str(line, "id"));
    wrap(cf_json_str(line, "fact"), FACT_COLUMN);
    if (is_blocking)
        printf("%*sno run can work here until this is mended\n", FACT_COLUMN, "");
    if (next != NULL) {
        printf("%*s%s ", FACT_COLUMN, "", look->unicode ? "\u2192" : "->");
        wrap(next, FACT_COLUMN + (look->unicode ? 2 : 3));
    }
}

static void
print_report(const struct look *look, json_t *report)
{
    json_t *line;
    const char *group = NULL;
    size_t i;

    puts("cfrunner doctor");
    json_array_foreach(json_object_get(report, "lines"), i, line)
    {
        print_line(look, line, group);
        group = cf_json_str(line, "group");
    }
    printf("\n %s  %lld ok, %lld to look at, %lld in the way%s   exit %lld\n",
           cf_json_bool(report, "fit", false) ? "FIT" : "NOT FIT", (long long)cf_json_int(report, "ok", 0),
           (long long)cf_json_int(report, "warnings", 0), (long long)cf_json_int(report, "blocking", 0),
           cf_json_bool(report, "tried", false) ? "" : ", nothing was tried", (long long)cf_json_int(report, "exit_code", 0));
}

/* ---- the command ----------------------------------------------------------------------------- */

static void
on_done(void *user, json_t *report, int exit_code)
{
    struct look *look = user;

    look->doctor = NULL;
    look->exit_code = exit_code;
    cf_signals_close(&look->signals);
    if (look->flags.json) {
        char *text = cf_json_dump(report, NULL);
        (void)puts(text != NULL ? text : "{}");
        free(text);
    } else {
        print_report(look, report);
    }
    look->exit_code = cf_cli_printed(look->exit_code);
}

static void
on_stop(void *user, int count)
{
    struct look *look = user;

    if (look->doctor != NULL)
        cf_doctor_interrupt(look->doctor);
}

static int
examine(struct look *look, struct cf_error *err)
{
    const struct cf_doctor_options options = {
        .engine = look->flags.engine, .state_dir = look->flags.state_dir, .only_looks = look->flags.no_trial};
    uv_loop_t loop;

    if (uv_loop_init(&loop) < 0)
        return cf_error_memory(err);
    cf_signals_open(&look->signals, &loop, on_stop, look);
    if (cf_doctor_open(&loop, &options, on_done, look, &look->doctor, err) < 0) {
        cf_signals_close(&look->signals);
        (void)uv_run(&loop, UV_RUN_DEFAULT);
        (void)uv_loop_close(&loop);
        return -1;
    }
    (void)uv_run(&loop, UV_RUN_DEFAULT);
    (void)uv_loop_close(&loop);
    return 0;
}

int
cf_cli_doctor(int argc, char **argv)
{
    struct look look = {.exit_code = 4};
    struct cf_error err = {0};
    int status = cf_flags_read(table, CF_COUNT(table), argc, argv, &look.flags, NULL, &err);

    if (look.flags.help) {
        puts("usage: cfrunner doctor [flags]\n"
             "Is this machine fit for a run? Each line has a fact and, behind a !, what to do.\n"
             "Builds one image of nothing, starts one sandbox, and takes both away again.\n"
             "Exit: 0 fit, 2 usage, 3 no run can work here, 4 something left, 130 stopped.");
        cf_flags_help(table, CF_COUNT(table), stdout);
        return 0;
    }
    if (status < 0)
        return cf_cli_refuse(&err, 2, look.flags.json);
    if (!look.flags.plain) {
        (void)setlocale(LC_CTYPE, "");
        look.unicode = strcmp(nl_langinfo(CODESET), "UTF-8") == 0;
        look.color = isatty(1) && getenv("NO_COLOR") == NULL && !cf_str_same(getenv("TERM"), "dumb");
    }
    if (examine(&look, &err) < 0)
        return cf_cli_refuse(&err, 4, look.flags.json);
    return look.exit_code;
}
