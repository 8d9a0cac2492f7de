/*
 * The authoring decoder. The schema in proto/ is the portable preview; here are the rules that a
 * schema cannot say (bytes, placeholders, which members go together), and a remedy for each.
 * Nothing stops at the first mistake: an author wants the whole list.
 */
#include "run/release.h"

#include "base/str.h"
#include "capability/capability.h"
#include "json/json.h"
#include "schema/schema.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define RELEASE_BYTES (512u * 1024u)
#define ARGS_MOST 256u
#define ARG_BYTES 65536u
#define ARGS_BYTES 131072u

struct decode {
    struct cf_release *release;
    json_t *root, *errors, *warnings;
    struct cf_error *err;
    unsigned mistakes;
};

static void
note(json_t *list, const char *pointer, const char *code, const char *text, const char *remedy)
{
    if (list != NULL)
        (void)json_array_append_new(list, json_pack("{s:s, s:s, s:s, s:s}", "pointer", pointer, "code", code,
                                                    "message", text, "remedy", remedy));
}

static void __attribute__((format(printf, 5, 6)))
mistake(struct decode *d, const char *pointer, const char *code, const char *remedy, const char *fmt, ...)
{
    struct cf_error made;
    char text[512];
    va_list args;

    va_start(args, fmt);
    (void)vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    (void)cf_error_set(&made, CF_ERROR_CONFIG, 0, "%s: %s", *pointer ? pointer : "release", text);
    (void)cf_error_fix(&made, "%s", remedy);
    note(d->errors, pointer, code, strchr(made.text, ' ') + 1, remedy);
    if (d->mistakes++ == 0 && d->err != NULL)
        *d->err = made;
}

/* A member that is absent or null is absent. */
static json_t *
member(const struct decode *d, const char *name)
{
    json_t *value = json_object_get(d->root, name);

    return json_is_null(value) ? NULL : value;
}

bool
cf_path_is_plain_absolute(const char *path)
{
    const char *segment = path + 1;

    if (path[0] != '/' || path[1] == '\0' || strlen(path) > 4096)
        return false;
    for (;;) {
        size_t n = strcspn(segment, "/");
        if (n == 0 || (n == 1 && segment[0] == '.') || (n == 2 && segment[0] == '.' && segment[1] == '.'))
            return false;
        for (size_t i = 0; i < n; i++)
            if (strchr("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-", segment[i]) == NULL)
                return false;
        if (segment[n] == '\0')
            return true;
        segment += n + 1;
    }
}

static const char *
read_path(struct decode *d, const char *name, bool is_required)
{
    char pointer[64];
    json_t *value = member(d, name);
    const char *path = json_string_value(value);

    (void)snprintf(pointer, sizeof pointer, "/%s", name);
    if (value == NULL) {
        if (is_required)
            mistake(d, pointer, "required", "name the program's absolute path in the image",
                    "%s is missing", name);
        return NULL;
    }
    if (path == NULL || strlen(path) != json_string_length(value) || !cf_path_is_plain_absolute(path)) {
        mistake(d, pointer, "path", "give an absolute path whose segments use A-Z a-z 0-9 . _ - only, without . or ..",
                "%s %s is not a plain absolute path", name, path != NULL ? path : "(not a string)");
        return NULL;
    }
    return path;
}

static const char *
read_choice(struct decode *d, const char *name, bool is_required, const char *const *choices)
{
    char pointer[64], known[160] = "";
    json_t *value = member(d, name);
    const char *text = json_string_value(value);

    (void)snprintf(pointer, sizeof pointer, "/%s", name);
    for (const char *const *c = choices; *c != NULL; c++) {
        if (cf_str_same(text, *c))
            return text;
        (void)snprintf(known + strlen(known), sizeof known - strlen(known), "%s%s", *known ? ", " : "", *c);
    }
    if (value != NULL)
        mistake(d, pointer, "enum", known, "%s is %s, not one of: %s", name, text != NULL ? text : "not a string", known);
    else if (is_required)
        mistake(d, pointer, "required", known, "%s is missing (one of: %s)", name, known);
    return NULL;
}

/* Text of one process argument: exact, no NUL, bounded in bytes. */
static const char *
read_argument(struct decode *d, json_t *value, const char *pointer, bool may_be_empty)
{
    const char *text = json_string_value(value);
    size_t len = json_string_length(value);

    if (text == NULL) {
        mistake(d, pointer, "type", "make it a string", "a process argument must be a string");
        return NULL;
    }
    if (strlen(text) != len) {
        mistake(d, pointer, "pattern", "take the U+0000 out", "a process argument cannot carry U+0000");
        return NULL;
    }
    if (len > ARG_BYTES || (len == 0 && !may_be_empty)) {
        mistake(d, pointer, "max_length", "1 to 65,536 bytes of UTF-8", "the argument has %zu bytes", len);
        return NULL;
    }
    return text;
}

static const char *
read_flag(struct decode *d, const char *name)
{
    char pointer[64];
    json_t *value = member(d, name);

    (void)snprintf(pointer, sizeof pointer, "/%s", name);
    return value == NULL ? NULL : read_argument(d, value, pointer, false);
}

static void
read_vector(struct decode *d, const char *name, bool is_required)
{
    struct cf_release *release = d->release;
    char pointer[96];
    json_t *list = member(d, name), *value;
    size_t i, total = 0, count = json_array_size(list);

    (void)snprintf(pointer, sizeof pointer, "/%s", name);
    if (list == NULL && is_required)
        mistake(d, pointer, "required", "give an array, [] for no arguments", "%s is missing", name);
    if (list != NULL && !json_is_array(list))
        mistake(d, pointer, "type", "make it an array of strings", "%s is not an array", name);
    if (count > ARGS_MOST) {
        mistake(d, pointer, "max_items", "at most 256 arguments", "%s has %zu arguments", name, count);
        count = ARGS_MOST;
    }
    release->argv = calloc(count + 1, sizeof *release->argv);
    if (release->argv == NULL) {
        d->mistakes++;
        (void)cf_error_memory(d->err);
        return;
    }
    for (i = 0; i < count; i++) {
        char at[120];
        value = json_array_get(list, i);
        (void)snprintf(at, sizeof at, "/%s/%zu", name, i);
        release->argv[i] = read_argument(d, value, at, true);
        if (release->argv[i] == NULL)
            release->argv[i] = "";
        total += json_string_length(value) + 1;
    }
    release->argc = count;
    if (total > ARGS_BYTES)
        mistake(d, pointer, "max_bytes", "at most 131,072 bytes, one terminator each counted",
                "%s has %zu bytes in all", name, total);
}

static size_t
count_of(const struct cf_release *release, const char *placeholder)
{
    size_t n = 0;

    for (size_t i = 0; i < release->argc; i++)
        n += strcmp(release->argv[i], placeholder) == 0;
    return n;
}

static void
check_placeholders(struct decode *d)
{
    struct cf_release *r = d->release;
    size_t paths = count_of(r, "{prompt_path}"), resumes = count_of(r, "{resume_flag}"),
           schemas = count_of(r, "{output_schema}");

    if (r->prompt_is_path && paths != 1)
        mistake(d, "/argv", "prompt_path_placeholder", "put {prompt_path} into argv exactly once, as an argument of its own",
                "prompt_transport argv_path needs {prompt_path} once in argv; it is there %zu times", paths);
    if (!r->prompt_is_path && paths != 0)
        mistake(d, "/argv", "prompt_path_placeholder", "take {prompt_path} out, or set prompt_transport to argv_path",
                "prompt_transport stdin forbids {prompt_path} in argv");
    if (resumes > 0 && r->resume_flag == NULL)
        mistake(d, "/resume_flag", "resume_flag_missing", "give resume_flag, or take {resume_flag} out of argv",
                "argv has {resume_flag}, but resume_flag is not given");
    if (r->resume_flag != NULL && resumes != 1)
        mistake(d, "/argv", "resume_flag_placeholder", "put {resume_flag} into argv exactly once",
                "resume_flag needs {resume_flag} once in argv; it is there %zu times", resumes);
    if (schemas > 1 || (schemas == 1 && r->output_schema_flag == NULL))
        mistake(d, "/argv", "output_schema_placeholder", "at most one {output_schema}, and only with output_schema_flag",
                "argv has {output_schema} %zu times%s", schemas, r->output_schema_flag == NULL ? " without output_schema_flag" : "");
}

/* A whole argument in braces that is ours but for case or spelling is most likely a slip. */
static void
warn_near_misses(struct decode *d)
{
    static const char *const ours[] = {"promptpath", "resumeflag", "outputschema"};

    for (size_t i = 0; i < d->release->argc; i++) {
        const char *arg = d->release->argv[i];
        char folded[32], pointer[64];
        size_t len = strlen(arg), n = 0;

        if (len < 3 || len > 30 || arg[0] != '{' || arg[len - 1] != '}' || strcmp(arg, "{prompt_path}") == 0 ||
            strcmp(arg, "{resume_flag}") == 0 || strcmp(arg, "{output_schema}") == 0)
            continue;
        for (size_t j = 1; j + 1 < len; j++)
            if (arg[j] != '_' && arg[j] != '-' && arg[j] != ' ')
                folded[n++] = (char)(arg[j] >= 'A' && arg[j] <= 'Z' ? arg[j] + 32 : arg[j]);
        folded[n] = '\0';
        (void)snprintf(pointer, sizeof pointer, "/argv/%zu", i);
        for (size_t k = 0; k < CF_COUNT(ours); k++)
            if (strcmp(folded, ours[k]) == 0)
                note(d->warnings, pointer, "placeholder_spelling", "looks like a placeholder, but is passed as it is",
                     "the placeholders are {prompt_path}, {resume_flag} and {output_schema}");
    }
}

static void
read_dialects(struct decode *d)
{
    json_t *list = member(d, "model_wire_dialects"), *value;
    size_t i;

    if (list == NULL)
        return;
    if (!json_is_array(list) || json_array_size(list) < 1 || json_array_size(list) > 4) {
        mistake(d, "/model_wire_dialects", "items", "1 to 4 dialects", "model_wire_dialects must list 1 to 4 dialects");
        return;
    }
    json_array_foreach(list, i, value)
    {
        unsigned bit = json_is_string(value) ? cf_dialect_parse(json_string_value(value)) : 0;
        char pointer[64];
        (void)snprintf(pointer, sizeof pointer, "/model_wire_dialects/%zu", i);
        if (bit == 0)
            mistake(d, pointer, "enum", "anthropic_messages, openai_chat, openai_responses or fal_queue",
                    "%s is not a model wire dialect", json_is_string(value) ? json_string_value(value) : "a non-string");
        else if (d->release->dialects & bit)
            mistake(d, pointer, "unique_items", "name each dialect once", "%s stands twice", json_string_value(value));
        d->release->dialects |= bit;
    }
}

static void
read_platform(struct decode *d)
{
    json_t *platform = member(d, "platform");
    const char *os = cf_json_str(platform, "os"), *arch = cf_json_str(platform, "architecture");

    if (platform == NULL)
        return;
    if (!cf_str_same(os, "linux") || !(cf_str_same(arch, "amd64") || cf_str_same(arch, "arm64")) ||
        json_object_size(platform) != 2)
        mistake(d, "/platform", "platform", "linux/amd64 or linux/arm64",
                "platform must be {os: linux, architecture: amd64 or arm64} and nothing else");
    else
        d->release->architecture = arch;
}

static void
check_configuration(struct decode *d)
{
    json_t *document = member(d, "configuration_schema");
    struct cf_schema_report report = {0};
    struct cf_schema *schema = NULL;
    struct cf_error why;

    if (document == NULL)
        return;
    if (cf_schema_admit_value(document, &schema, &report, &why) < 0) {
        if (report.count == 0)
            mistake(d, "/configuration_schema", "schema", "give a JSON Schema of the bounded profile", "%s", why.text);
        for (unsigned i = 0; i < report.count; i++) {
            char pointer[300];
            (void)snprintf(pointer, sizeof pointer, "/configuration_schema%s",
                           report.findings[i].pointer != NULL ? report.findings[i].pointer : "");
            mistake(d, pointer, report.findings[i].code, "see the schema profile in README", "%s",
                    report.findings[i].text);
        }
    }
    cf_schema_free(schema);
    cf_schema_report_release(&report);
}

static void
refuse_unknown(struct decode *d)
{
    static const char *const known[] = {
        "image", "entrypoint", "working_directory", "platform", "configuration_schema", "model_wire_dialects",
        "protocol", "arguments", "mcp_delivery", "argv", "prompt_transport", "output_mode", "resume_flag",
        "output_schema_flag", "output_schema_transport"};
    const char *name;
    json_t *value;

    json_object_foreach(d->root, name, value)
    {
        struct cf_buf pointer;
        bool is_known = false;
        for (size_t i = 0; i < CF_COUNT(known); i++)
            is_known |= strcmp(name, known[i]) == 0;
        if (is_known)
            continue;
        cf_buf_init(&pointer, 512);
        if (cf_json_pointer_push(&pointer, name) == 0)
            mistake(d, pointer.data, "additional_properties", "take it out, or see the list of members in README",
                    "the release contract has no such member");
        else
            mistake(d, "", "additional_properties", "take it out", "a member name is too long");
        cf_buf_release(&pointer);
    }
}

static void
refuse_other_protocol(struct decode *d, const char *const *names, const char *protocol)
{
    for (; *names != NULL; names++) {
        char pointer[64];
        (void)snprintf(pointer, sizeof pointer, "/%s", *names);
        if (member(d, *names) != NULL)
            mistake(d, pointer, "other_protocol", "take it out, or change protocol",
                    "%s does not belong to a release of protocol %s", *names, protocol);
    }
}

static void
read_acp(struct decode *d)
{
    static const char *const others[] = {"argv", "prompt_transport", "output_mode", "resume_flag",
                                         "output_schema_flag", "output_schema_transport", NULL};
    static const char *const deliveries[] = {"session_http", "none", NULL};

    refuse_other_protocol(d, others, "acp-v1");
    read_vector(d, "arguments", false);
    (void)read_choice(d, "mcp_delivery", false, deliveries);
}

static void
read_oneshot(struct decode *d)
{
    static const char *const others[] = {"arguments", "mcp_delivery", NULL};
    static const char *const transports[] = {"stdin", "argv_path", NULL};
    static const char *const modes[] = {"text", "stream_json", NULL};
    static const char *const schemas[] = {"argv_json", "argv_path", NULL};
    struct cf_release *r = d->release;
    const char *transport;

    refuse_other_protocol(d, others, "oneshot-v1");
    read_vector(d, "argv", true);
    r->prompt_is_path = cf_str_same(read_choice(d, "prompt_transport", true, transports), "argv_path");
    r->is_stream_json = cf_str_same(read_choice(d, "output_mode", true, modes), "stream_json");
    r->resume_flag = read_flag(d, "resume_flag");
    r->output_schema_flag = read_flag(d, "output_schema_flag");
    transport = read_choice(d, "output_schema_transport", false, schemas);
    r->output_schema_is_path = cf_str_same(transport, "argv_path");
    if ((r->output_schema_flag != NULL) != (transport != NULL))
        mistake(d, r->output_schema_flag != NULL ? "/output_schema_transport" : "/output_schema_flag", "together",
                "give output_schema_flag and output_schema_transport together, or neither",
                "output_schema_flag and output_schema_transport come together or not at all");
    if (r->argv != NULL) {
        check_placeholders(d);
        warn_near_misses(d);
    }
}

int
cf_release_decode(const char *json, size_t len, struct cf_release *release, json_t *errors, json_t *warnings,
                  struct cf_error *err)
{
    static const char *const protocols[] = {"acp-v1", "oneshot-v1", NULL};
    static const struct cf_json_limits limits = {RELEASE_BYTES, 40, 20000, true, true};
    struct decode d = {.release = release, .errors = errors, .warnings = warnings, .err = err};
    struct cf_error why;
    const char *protocol;

    memset(release, 0, sizeof *release);
    release->json = d.root = cf_json_parse(json, len, &limits, &why);
    if (d.root == NULL || !json_is_object(d.root)) {
        mistake(&d, "", d.root == NULL ? "json" : "type", "give one JSON object", "%s",
                d.root == NULL ? why.text : "the release is not a JSON object");
        if (d.root == NULL && err != NULL && why.kind == CF_ERROR_TOO_LARGE)
            err->kind = CF_ERROR_TOO_LARGE;
        return -1;
    }
    refuse_unknown(&d);
    release->image = cf_json_str(d.root, "image");
    if (release->image == NULL || *release->image == '\0')
        mistake(&d, "/image", "required", "NAME@sha256:<64 hex digits>", "image is missing or not a string");
    release->entrypoint = read_path(&d, "entrypoint", true);
    release->working_directory = read_path(&d, "working_directory", false);
    read_platform(&d);
    check_configuration(&d);
    read_dialects(&d);
    protocol = read_choice(&d, "protocol", true, protocols);
    release->is_acp = cf_str_same(protocol, "acp-v1");
    if (protocol != NULL)
        (release->is_acp ? read_acp : read_oneshot)(&d);
    return d.mistakes == 0 ? 0 : -1;
}

void
cf_release_done(struct cf_release *release)
{
    free(release->argv);
    json_decref(release->json);
    memset(release, 0, sizeof *release);
}

int
cf_release_check(const char *json, size_t len, char **ret_report, struct cf_error *err)
{
    struct cf_release release;
    json_t *errors = json_array(), *warnings = json_array(), *report;
    int status = cf_release_decode(json, len, &release, errors, warnings, err);

    cf_release_done(&release);
    report = json_pack("{s:b, s:o, s:o}", "valid", status == 0, "errors", errors, "warnings", warnings);
    *ret_report = report != NULL ? cf_json_dump(report, NULL) : NULL;
    json_decref(report);
    return status;
}

void
cf_release_report_free(char *report)
{
    free(report);
}
