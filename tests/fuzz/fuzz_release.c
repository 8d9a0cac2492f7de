/* fuzz_release.c: the authoring decoder and the options document. Whatever is wrong is said with a place and
 * a remedy, and what is right expands into an argv within its bounds. */
#include "json/json.h"
#include "run/options.h"
#include "run/release.h"
#include "wire/wire.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void
require(bool holds)
{
    if (!holds)
        abort();
}

static void
check_report(const char *text, bool is_valid)
{
    json_t *report = cf_json_parse(text, strlen(text), NULL, NULL), *errors = cf_json_arr(report, "errors"), *error;
    size_t i;

    require(report != NULL && cf_json_bool(report, "valid", !is_valid) == is_valid);
    require((json_array_size(errors) == 0) == is_valid);
    json_array_foreach(errors, i, error)
        require(cf_json_str(error, "pointer") != NULL && *cf_json_str(error, "message") != '\0' &&
                *cf_json_str(error, "remedy") != '\0');
    json_decref(report);
}

static void
expand(const struct cf_release *release)
{
    const struct cf_oneshot_turn turn = {.argv = (const char *const *)release->argv,
                                         .prompt_path = release->prompt_is_path ? "/w/.checkfu/prompt.txt" : NULL,
                                         .resume_flag = release->resume_flag,
                                         .continues = true,
                                         .output_schema_flag = release->output_schema_flag,
                                         .output_schema_value = release->output_schema_flag != NULL ? "{}" : NULL};
    struct cf_error err;
    char **argv = cf_oneshot_argv(&turn, &err);
    size_t count = 0;

    while (argv != NULL && argv[count] != NULL)
        require(strlen(argv[count++]) <= 65536);
    require(count <= 256);
    require(argv != NULL || err.kind == CF_ERROR_TOO_LARGE);
    cf_argv_free(argv);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct cf_run_options options;
    struct cf_release release = {0};
    struct cf_error err = {0};
    char *report = NULL;
    int status = cf_release_check((const char *)data, size, &report, &err);

    require(report != NULL);
    check_report(report, status == 0);
    require(status == 0 || err.text[0] != '\0');
    cf_release_report_free(report);
    require(cf_release_decode((const char *)data, size, &release, NULL, NULL, &err) == status);
    if (status == 0 && !release.is_acp)
        expand(&release);
    cf_release_done(&release);
    if (cf_run_options_decode((const char *)data, size, &options, &err) < 0)
        require(err.text[0] != '\0');
    cf_run_options_done(&options);
    return 0;
}
