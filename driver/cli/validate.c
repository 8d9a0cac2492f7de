/* cfrunner validate KIND FILE: one JSON document that says valid or what is wrong, and where. */
#include "cli/commands.h"
#include "cli/launch.h"

#include <cfrunner/release.h>

#include "base/str.h"
#include "json/json.h"
#include "schema/schema.h"

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

int
cf_cli_validate(int argc, char **argv)
{
    struct cf_error err;
    cf_auto_free char *bytes = NULL;
    size_t len = 0, kind = 0;

    if (argc == 2 && (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0)) {
        puts("usage: cfrunner validate release|observation|acp-vectors|oneshot-vectors FILE\n"
             "FILE may be - for stdin. One JSON document on stdout:\n"
             "{\"valid\":BOOL,\"errors\":[{\"code\",\"pointer\",\"message\",...}]}. Exit 0 valid, 2 not.");
        return 0;
    }
    while (argc == 3 && kind < CF_COUNT(kinds) && strcmp(argv[1], kinds[kind].kind) != 0)
        kind++;
    if (argc != 3 || kind == CF_COUNT(kinds)) {
        (void)cf_error_set(&err, CF_ERROR_CONFIG, 0, "validate takes a kind and a file");
        (void)cf_error_fix(&err, "cfrunner validate release|observation|acp-vectors|oneshot-vectors FILE");
        return cf_cli_refuse(&err, 2, true);
    }
    bytes = cf_read_file(argv[2], 8u << 20, &len, &err);
    if (bytes == NULL)
        return cf_cli_refuse(&err, 2, true);
    return kinds[kind].builtin != NULL ? by_schema(kinds[kind].builtin, bytes, len) : by_decoder(bytes, len);
}
