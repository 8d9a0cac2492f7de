/*
 * cli/schema.c: the bounded JSON Schema profile from the command line, so that an author sees a
 * refusal before anybody else does.
 */
#include "cli/schema.h"

#include "base/buf.h"
#include "base/str.h"
#include "json/json.h"
#include "schema/schema.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* More than either kind of document may have; what is longer is refused by its size. */
#define READ_BYTES (1u << 20)

static const char usage[] = "usage: cfrunner schema admit SCHEMA\n"
                            "       cfrunner schema check --schema SCHEMA INSTANCE\n"
                            "A file named - is standard input.\n";

/* ---- the answer ----------------------------------------------------------------------- */

static json_t *
finding_list(const struct cf_schema_finding *findings, unsigned count)
{
    json_t *list = json_array();

    for (unsigned i = 0; i < count; i++) {
        const struct cf_schema_finding *f = &findings[i];
        const char *pointer = f->pointer == NULL ? "" : f->pointer;
        json_t *one = f->schema_pointer == NULL
                          ? json_pack("{s:s,s:s}", "code", f->code, "pointer", pointer)
                          : json_pack("{s:s,s:s,s:s}", "code", f->code, "instance_pointer",
                                      pointer, "schema_pointer", f->schema_pointer);
        (void)json_object_set_new(one, "message",
                                  json_string(f->text)); /* without it when full */
        (void)json_array_append_new(list, one);
    }
    return list;
}

/* Prints the answer (taken) as the one document. Returns `code`, or 4 when that failed. */
static int
answer(json_t *document, int code)
{
    size_t len = 0;
    cf_auto_free char *text = document == NULL ? NULL : cf_json_dump(document, &len);

    json_decref(document);
    if (text == NULL || fwrite(text, 1, len, stdout) != len || fputc('\n', stdout) == EOF ||
        fflush(stdout) != 0) {
        fprintf(stderr, "cfrunner: the answer could not be written\n");
        return 4;
    }
    return code;
}

/* An answer that is no verdict on a document: `key` false and one error. */
static int
answer_error(const char *key, const char *code, const char *message)
{
    fprintf(stderr, "cfrunner: %s\n", message);
    return answer(json_pack("{s:b,s:[{s:s,s:s,s:s}]}", key, 0, "errors", "code", code,
                            "pointer", "", "message", message),
                  2);
}

static int
answer_usage(const char *key, const char *message)
{
    fputs(usage, stderr);
    return answer_error(key, "usage", message);
}

static int
answer_admission(bool is_admitted, const struct cf_schema_report *report)
{
    json_t *document = json_pack("{s:b,s:o,s:o}", "admitted", is_admitted, "errors",
                                 finding_list(report->findings, report->count), "warnings",
                                 finding_list(report->warnings, report->warning_count));
    return answer(document, is_admitted ? 0 : 2);
}

/* ---- files ---------------------------------------------------------------------------- */

static int
read_all(int fd, struct cf_buf *text)
{
    while (text->len <= READ_BYTES) {
        char *room = cf_buf_reserve(text, 65536);
        if (room == NULL) {
            errno = ENOMEM;
            return -1;
        }
        ssize_t got = read(fd, room, 65536);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            return (int)got;
        cf_buf_wrote(text, (size_t)got);
    }
    return 0;
}

static int
read_file(const char *path, struct cf_buf *text, struct cf_error *err)
{
    bool is_stdin = strcmp(path, "-") == 0;
    int fd = is_stdin ? STDIN_FILENO : open(path, O_RDONLY | O_CLOEXEC);
    int status = fd < 0 ? -1 : read_all(fd, text);
    int code = errno;

    if (fd >= 0 && !is_stdin)
        close(fd);
    return status < 0
               ? cf_error_set(err, CF_ERROR_CONFIG, code, "%s: %s", path, strerror(code))
               : 0;
}

/* Reads and admits. 0 and the schema; or the exit code, the answer given. */
static int
admit_file(const char *path, const char *key, struct cf_schema **ret_schema,
           struct cf_schema_report *report)
{
    struct cf_buf text = {0};
    struct cf_error err = {0};
    int status;

    if (read_file(path, &text, &err) < 0) {
        cf_buf_release(&text);
        return answer_error(key, "file_unreadable", err.text);
    }
    status = cf_schema_admit(text.data, text.len, ret_schema, report, &err);
    cf_buf_release(&text);
    if (status == 0)
        return 0;
    if (report->count == 0)
        return answer_error(key, "internal", err.text);
    fprintf(stderr, "cfrunner: %s: %s\n", path, err.text);
    if (strcmp(key, "admitted") == 0)
        return answer_admission(false, report);
    return answer(json_pack("{s:b,s:b,s:o}", "valid", 0, "admitted", 0, "errors",
                            finding_list(report->findings, report->count)),
                  2);
}

/* ---- the two commands ----------------------------------------------------------------- */

static int
admit(int argc, char **argv)
{
    struct cf_schema_report report = {0};
    struct cf_schema *schema = NULL;
    int code;

    if (argc != 1)
        return answer_usage("admitted", "schema admit takes one file");
    code = admit_file(argv[0], "admitted", &schema, &report);
    if (code == 0)
        code = answer_admission(true, &report);
    cf_schema_free(schema);
    cf_schema_report_release(&report);
    return code;
}

static int
check_instance(const struct cf_schema *schema, const char *path)
{
    struct cf_schema_report report = {0};
    struct cf_buf text = {0};
    struct cf_error err = {0};
    int code;

    if (read_file(path, &text, &err) < 0) {
        code = answer_error("valid", "file_unreadable", err.text);
    } else if (cf_schema_validate_text(schema, text.data, text.len, &report, &err) == 0) {
        code = answer(json_pack("{s:b,s:[]}", "valid", 1, "errors"), 0);
    } else if (report.count == 0) {
        code = answer_error("valid", "internal", err.text);
    } else {
        fprintf(stderr, "cfrunner: %s: %s\n", path, err.text);
        code = answer(json_pack("{s:b,s:o}", "valid", 0, "errors",
                                finding_list(report.findings, report.count)),
                      2);
    }
    cf_buf_release(&text);
    cf_schema_report_release(&report);
    return code;
}

static int
check_files(const char *schema_path, const char *instance_path)
{
    struct cf_schema_report report = {0};
    struct cf_schema *schema = NULL;
    int code;

    if (strcmp(schema_path, "-") == 0 && strcmp(instance_path, "-") == 0)
        return answer_usage("valid", "only one of the two files can be standard input");
    code = admit_file(schema_path, "valid", &schema, &report);
    if (code == 0)
        code = check_instance(schema, instance_path);
    cf_schema_free(schema);
    cf_schema_report_release(&report);
    return code;
}

static int
check(int argc, char **argv)
{
    const char *schema = NULL, *instance = NULL;
    bool only_files = false;

    for (int i = 0; i < argc; i++) {
        if (!only_files && strcmp(argv[i], "--") == 0)
            only_files = true;
        else if (!only_files && strcmp(argv[i], "--schema") == 0 && i + 1 < argc)
            schema = argv[++i];
        else if (!only_files && cf_str_starts(argv[i], "--schema="))
            schema = argv[i] + strlen("--schema=");
        else if (!only_files && argv[i][0] == '-' && argv[i][1] != '\0')
            return answer_usage("valid", "schema check knows only --schema");
        else if (instance != NULL)
            return answer_usage("valid", "schema check takes one instance");
        else
            instance = argv[i];
    }
    if (schema == NULL || instance == NULL)
        return answer_usage("valid", "schema check takes --schema SCHEMA and an instance");
    return check_files(schema, instance);
}

/* --json is how this command always answers; it may be said all the same. */
static int
without_json_flag(int argc, char **argv)
{
    int kept = 0;

    for (int i = 0; i < argc; i++)
        if (strcmp(argv[i], "--json") != 0 || (i > 0 && strcmp(argv[i - 1], "--schema") == 0))
            argv[kept++] = argv[i];
    return kept;
}

int
cf_cli_schema(int argc, char **argv)
{
    argc = without_json_flag(argc, argv);
    if (argc >= 2 && strcmp(argv[1], "admit") == 0)
        return admit(argc - 2, argv + 2);
    if (argc >= 2 && strcmp(argv[1], "check") == 0)
        return check(argc - 2, argv + 2);
    if (argc >= 2 && (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0)) {
        fputs(usage, stdout);
        return 0;
    }
    return answer_usage("admitted", "say schema admit or schema check");
}
