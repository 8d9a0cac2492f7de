/* cfrunner validate KIND FILE: one JSON document that says valid or what is wrong, and where. */
#include "cli/commands.h"
#include "cli/launch.h"

#include <cfrunner/release.h>

#include "base/str.h"
#include "json/json.h"
#include "schema/schema.h"

#include "observe/recording.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

static const struct {
    const char *kind, *builtin;
} kinds[] = {
    {"release", NULL},
    {"observation", "observation"},
    {"acp-vectors", "acp-vectors"},
    {"oneshot-vectors", "oneshot-vectors"},
};

static int
by_schema(const char *builtin, const char *bytes, size_t len)
{
    struct cf_schema *schema = NULL;
    struct cf_schema_report report = {0};
    struct cf_error err;
    json_t *errors = json_array(), *made;
    int status;
    char *text;

    if (cf_schema_builtin(builtin, &schema, &err) < 0)
        return cf_cli_refuse(&err, 4, true);
    status = cf_schema_validate_text(schema, bytes, len, &report, &err);
    for (unsigned i = 0; i < report.count; i++)
        (void)json_array_append_new(
            errors, json_pack("{s:s, s:s?, s:s?, s:s}", "code", report.findings[i].code, "pointer",
                              report.findings[i].pointer, "schema_pointer", report.findings[i].schema_pointer,
                              "message", report.findings[i].text));
    made = json_pack("{s:b, s:o}", "valid", status == 0, "errors", errors);
    text = cf_json_dump(made, NULL);
    puts(text != NULL ? text : "{\"valid\":false}");
    free(text);
    json_decref(made);
    cf_schema_report_release(&report);
    cf_schema_free(schema);
    return status == 0 ? 0 : 2;
}

static int
by_decoder(const char *bytes, size_t len)
{
    struct cf_error err;
    char *report = NULL;
    int status = cf_release_check(bytes, len, &report, &err);

    puts(report != NULL ? report : "{\"valid\":false}");
    cf_release_report_free(report);
    return status == 0 ? 0 : 2;
}

struct recording_facts {
    json_t *by_kind;
    uint64_t last_ms;
    bool has_result;
};

static int
count_record(void *user, const struct cf_record *record, struct cf_error *err)
{
    struct recording_facts *facts = user;
    const char *name = cf_record_kind_name(record->kind);

    name = name != NULL ? name : "unknown";
    facts->last_ms = record->at_ms;
    facts->has_result |= record->kind == CF_RECORD_RESULT;
    (void)json_object_set_new(facts->by_kind, name, json_integer((json_int_t)cf_json_int(facts->by_kind, name, 0) + 1));
    return 0;
}

/* Of a run cut short: valid up to its last whole record, and says so. */
static int
check_recording(const char *path)
{
    struct recording_facts facts = {.by_kind = json_object()};
    struct cf_recording_reader reader = {0};
    struct cf_error err = {0};
    FILE *file = fopen(path, "rb");
    char bytes[65536];
    size_t len;
    int status = 0;

    if (file == NULL) {
        json_decref(facts.by_kind);
        (void)cf_error_set(&err, CF_ERROR_CONFIG, errno, "%.300s: %s", path, strerror(errno));
        return cf_cli_refuse(&err, 2, true);
    }
    while (status == 0 && (len = fread(bytes, 1, sizeof bytes, file)) > 0)
        status = cf_recording_feed(&reader, bytes, len, count_record, &facts, &err);
    (void)fclose(file);
    if (status == 0 && !reader.has_header)
        status = cf_error_set(&err, CF_ERROR_CONFIG, 0, "no recording: it ends before its header does");
    json_t *made = json_pack("{s:b, s:o, s:s, s:b, s:I, s:I, s:I, s:I, s:o}", "valid", status == 0, "errors",
                             status == 0 ? json_array() : json_pack("[{s:s, s:s, s:s}]", "code", "recording", "pointer", "",
                                                                    "message", err.text),
                             "version", "", "complete", status == 0 && facts.has_result,
                             "records", (json_int_t)reader.records, "whole_bytes", (json_int_t)reader.whole_bytes,
                             "torn_bytes", (json_int_t)cf_recording_torn_bytes(&reader), "last_ms",
                             (json_int_t)facts.last_ms, "by_kind", facts.by_kind);
    char version[24];
    (void)snprintf(version, sizeof version, "%u.%u", reader.major, reader.minor);
    (void)json_object_set_new(made, "version", json_string(version));
    cf_auto_free char *text = cf_json_dump(made, NULL);
    puts(text != NULL ? text : "{\"valid\":false}");
    json_decref(made);
    cf_recording_reader_release(&reader);
    return status == 0 ? 0 : 2;
}

int
cf_cli_validate(int argc, char **argv)
{
    struct cf_error err;
    cf_auto_free char *bytes = NULL;
    size_t len = 0, kind = 0;

    if (argc == 2 && (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0)) {
        puts("usage: cfrunner validate KIND FILE   KIND: release, observation, acp-vectors,\n"
         "oneshot-vectors or recording\n"
             "FILE may be - for stdin. One JSON document on stdout:\n"
             "{\"valid\":BOOL,\"errors\":[{\"code\",\"pointer\",\"message\",...}]}. Exit 0 valid, 2 not.");
        return 0;
    }
    if (argc == 3 && strcmp(argv[1], "recording") == 0)
        return check_recording(argv[2]);
    while (argc == 3 && kind < CF_COUNT(kinds) && strcmp(argv[1], kinds[kind].kind) != 0)
        kind++;
    if (argc != 3 || kind == CF_COUNT(kinds)) {
        (void)cf_error_set(&err, CF_ERROR_CONFIG, 0, "validate takes a kind and a file");
        (void)cf_error_fix(&err, "cfrunner validate release|observation|acp-vectors|oneshot-vectors|recording FILE");
        return cf_cli_refuse(&err, 2, true);
    }
    bytes = cf_read_file(argv[2], 8u << 20, &len, &err);
    if (bytes == NULL)
        return cf_cli_refuse(&err, 2, true);
    return kinds[kind].builtin != NULL ? by_schema(kinds[kind].builtin, bytes, len) : by_decoder(bytes, len);
}
