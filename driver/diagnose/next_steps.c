/*
 * What the author types next, exact to the argument: each command as an argv array and as one
 * POSIX-quoted string. A template is never dressed up as a command.
 */
#include "diagnose/diagnose.h"

#include "base/buf.h"
#include "base/str.h"
#include "json/json.h"

#include <string.h>

static void
put(json_t *argv, const char *arg)
{
    (void)json_array_append_new(argv, json_string(arg));
}

static void
put_pair(json_t *argv, const char *flag, const char *value)
{
    if (value == NULL)
        return;
    put(argv, flag);
    put(argv, value);
}

/* A value that may begin with dashes stays one argument: --flag=VALUE. */
static void
put_joined(json_t *argv, const char *flag, const char *value)
{
    struct cf_buf joined;

    if (value == NULL)
        return;
    cf_buf_init(&joined, 0);
    (void)cf_buf_addf(&joined, "%s=%s", flag, value);
    if (!joined.failed)
        put(argv, joined.data);
    cf_buf_release(&joined);
}

static json_t *
command(json_t *argv)
{
    struct cf_buf line;
    json_t *arg, *made;
    size_t i;

    cf_buf_init(&line, 0);
    json_array_foreach(argv, i, arg)
    {
        if (i > 0)
            (void)cf_buf_adds(&line, " ");
        cf_shell_quote(&line, json_string_value(arg));
    }
    made = json_pack("{s:o, s:s}", "argv", argv, "shell", line.data != NULL ? line.data : "");
    cf_buf_release(&line);
    return made;
}

static void
put_each(json_t *argv, const char *flag, json_t *list)
{
    json_t *value;
    size_t i;

    json_array_foreach(list, i, value)
    {
        put_joined(argv, flag, json_string_value(value));
    }
}

static void
put_context(json_t *argv, const struct cf_diagnose_options *o)
{
    put_pair(argv, "--api-url", o->api_url);
    put_pair(argv, "--connection-file", o->connection_file);
}

static void
put_platform(json_t *argv, json_t *release)
{
    json_t *platform = cf_json_obj(release, "platform");
    struct cf_buf text;

    if (platform == NULL)
        return;
    cf_buf_init(&text, 0);
    (void)cf_buf_addf(&text, "%s/%s", cf_json_str(platform, "os"), cf_json_str(platform, "architecture"));
    if (!text.failed)
        put_pair(argv, "--platform", text.data);
    cf_buf_release(&text);
}

static json_t *
add_command(const struct cf_diagnose_options *o, json_t *release)
{
    static const char *const head[] = {"checkfu", "harness", "add", "oci"};
    json_t *argv = json_array();

    for (size_t i = 0; i < CF_COUNT(head); i++)
        put(argv, head[i]);
    put_pair(argv, "--name", o->name);
    put_pair(argv, "--image", cf_json_str(release, "image"));
    put_pair(argv, "--entrypoint", cf_json_str(release, "entrypoint"));
    put_pair(argv, "--protocol", cf_json_str(release, "protocol"));
    put_each(argv, "--arg", json_object_get(release, "arguments"));
    put_each(argv, "--argv", json_object_get(release, "argv"));
    put_pair(argv, "--prompt-transport", cf_json_str(release, "prompt_transport"));
    put_pair(argv, "--output-mode", cf_json_str(release, "output_mode"));
    put_joined(argv, "--resume-flag", cf_json_str(release, "resume_flag"));
    put_joined(argv, "--output-schema-flag", cf_json_str(release, "output_schema_flag"));
    put_pair(argv, "--output-schema-transport", cf_json_str(release, "output_schema_transport"));
    put_pair(argv, "--working-directory", cf_json_str(release, "working_directory"));
    put_platform(argv, release);
    put_each(argv, "--model-wire-dialect", json_object_get(release, "model_wire_dialects"));
    put_pair(argv, "--configuration-schema", o->configuration_file);
    put_context(argv, o);
    return command(argv);
}

static json_t *
verify_command(const struct cf_diagnose_options *o)
{
    static const char *const head[] = {"checkfu", "harness", "verify"};
    json_t *argv = json_array();

    for (size_t i = 0; i < CF_COUNT(head); i++)
        put(argv, head[i]);
    put(argv, o->name != NULL ? o->name : "<name>");
    put_pair(argv, "--sandbox", o->sandbox != NULL ? o->sandbox : "<sandbox>");
    put_pair(argv, "--model", o->model != NULL ? o->model : "<model>");
    put(argv, "--wait");
    put_context(argv, o);
    return command(argv);
}

/* The same command line with the published image in place of the build context. */
static json_t *
retest_command(const struct cf_diagnose_options *o)
{
    json_t *argv = json_array();
    struct cf_buf image;

    cf_buf_init(&image, 0);
    (void)cf_buf_addf(&image, "%s@sha256:<64-hex-digest>", o->name != NULL ? o->name : "NAME");
    put(argv, "cfrunner");
    for (const char *const *arg = o->retest_argv; arg != NULL && *arg != NULL; arg++) {
        if (strcmp(*arg, "--build-context") == 0 && arg[1] != NULL) {
            put_pair(argv, "--image", image.data);
            arg++;
        } else if (cf_str_starts(*arg, "--build-context=")) {
            put_joined(argv, "--image", image.data);
        } else if (strcmp(*arg, "--allow-registry-all-interfaces") != 0) {
            put(argv, *arg);
        }
    }
    cf_buf_release(&image);
    return command(argv);
}

json_t *
cf_diagnose_next_steps(const struct cf_diagnose_options *o, json_t *release, bool is_build_context, bool passed)
{
    json_t *steps = json_object(), *missing = json_array();
    bool is_known = o->sandbox != NULL && o->model != NULL;

    if (!passed) {
        json_decref(missing);
        return steps; /* first mend what failed: nothing is registered on a red result */
    }
    if (is_build_context) {
        json_decref(missing);
        (void)json_object_set_new(steps, "retest", retest_command(o));
        return steps;
    }
    if (o->sandbox == NULL)
        put(missing, "--sandbox");
    if (o->model == NULL)
        put(missing, "--model");
    (void)json_object_set_new(steps, "add", add_command(o, release));
    if (is_known) {
        json_decref(missing);
        (void)json_object_set_new(steps, "verify", verify_command(o));
    } else {
        json_t *verify = verify_command(o);
        (void)json_object_set_new(verify, "template", json_true());
        (void)json_object_set_new(steps, "required_flags", missing);
        (void)json_object_set_new(steps, "verify_template", verify);
    }
    return steps;
}
