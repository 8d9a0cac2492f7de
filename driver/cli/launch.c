/*
 * Flags become the same two documents that an embedder writes: the release goes through the
 * authoring decoder like any file, so that the command line cannot know rules of its own.
 */
#include "cli/launch.h"

#include <cfrunner/release.h>

#include "base/str.h"
#include "engine/engine.h"
#include "json/json.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define F(member) offsetof(struct cf_launch_flags, member)

const struct cf_flag cf_launch_table[] = {
    {"what", CF_FLAG_TITLE, 0, NULL, NULL},
    {"--name", CF_FLAG_TEXT, F(name), "N", "the harness's name in results and next steps"},
    {"--image", CF_FLAG_TEXT, F(image), "NAME@sha256:HEX", "an immutable image reference"},
    {"--build-context", CF_FLAG_TEXT, F(build_context), "DIR", "build an ephemeral image from DIR instead"},
    {"--dockerfile", CF_FLAG_TEXT, F(dockerfile), "PATH", "in the context (default Dockerfile)"},
    {"--entrypoint", CF_FLAG_TEXT, F(entrypoint), "PATH", "the program, absolute in the image"},
    {"--protocol", CF_FLAG_TEXT, F(protocol), "P", "acp-v1 or oneshot-v1"},
    {"--release", CF_FLAG_TEXT, F(release_file), "FILE", "all of this as one JSON document"},
    {"--arg", CF_FLAG_LIST, F(args), "A", "acp: one argument (repeat)"},
    {"--argv", CF_FLAG_LIST, F(argv), "A", "oneshot: one argument or placeholder (repeat)"},
    {"--prompt-transport", CF_FLAG_TEXT, F(prompt_transport), "T", "oneshot: stdin or argv_path"},
    {"--output-mode", CF_FLAG_TEXT, F(output_mode), "M", "oneshot: text or stream_json"},
    {"--resume-flag", CF_FLAG_TEXT, F(resume_flag), "F", "oneshot: what {resume_flag} becomes"},
    {"--output-schema-flag", CF_FLAG_TEXT, F(output_schema_flag), "F", "oneshot: flag before the schema"},
    {"--output-schema-transport", CF_FLAG_TEXT, F(output_schema_transport), "T", "argv_json or argv_path"},
    {"--working-directory", CF_FLAG_TEXT, F(working_directory), "D", "default: the image's, else /workspace"},
    {"--platform", CF_FLAG_TEXT, F(platform), "OS/ARCH", "linux/amd64 or linux/arm64"},
    {"--model-wire-dialect", CF_FLAG_LIST, F(dialects), "D", "narrows the relay (repeat)"},
    {"--configuration-schema", CF_FLAG_TEXT, F(configuration_schema), "FILE", "JSON Schema, bounded profile"},
    {"--env", CF_FLAG_LIST, F(env), "K=V", "for the harness; {relay} {relay_v1} {token}"},
    {"--torture", CF_FLAG_TEXT, F(torture), "LEVEL", "test oci: quick; does trouble matter?"},
    {"where", CF_FLAG_TITLE, 0, NULL, NULL},
    {"--engine", CF_FLAG_TEXT, F(engine), "URL", "unix://PATH or tcp://HOST:PORT"},
    {"--pull", CF_FLAG_TEXT, F(pull), "WHEN", "missing, always or never"},
    {"--permission", CF_FLAG_TEXT, F(permission), "P", "acp requests: deny, allow or end"},
    {"--retention", CF_FLAG_TEXT, F(retention), "R", "durable or ephemeral_zdr"},
    {"--record", CF_FLAG_TEXT, F(record), "FILE", "write all that happens into FILE, for cfrunner replay"},
    {"--allow-registry-all-interfaces", CF_FLAG_SWITCH, F(registry_all_interfaces), NULL, "see README, limits"},
    {"--registry-host", CF_FLAG_TEXT, F(registry_host), "HOST", "our address as the engine sees it"},
    {"--state-dir", CF_FLAG_TEXT, F(state_dir), "DIR", "lock files of live runs"},
    {"--relay-port", CF_FLAG_NUMBER, F(relay_port), "N", "in the sandbox (4180)"},
    {"--sandbox", CF_FLAG_TEXT, F(sandbox), "S", "for the next steps"},
    {"--model", CF_FLAG_TEXT, F(model), "M", "CHECKFU_MODEL, and for the next steps"},
    {"--connection-file", CF_FLAG_TEXT, F(connection_file), "F", "its defaults give --sandbox, --model"},
    {"--api-url", CF_FLAG_TEXT, F(api_url), "U", "kept in the next steps"},
    {"files", CF_FLAG_TITLE, 0, NULL, NULL},
    {"--file", CF_FLAG_LIST, F(files), "SRC:DST", "stage a file or folder before the first turn (repeat)"},
    {"--collect", CF_FLAG_TEXT, F(collect), "DIR", "the working directory after the run, into a new DIR"},
    {"--state-in", CF_FLAG_TEXT, F(state_in), "DIR", "oneshot: the first turn continues this state"},
    {"--state-out", CF_FLAG_TEXT, F(state_out), "DIR", "save the state for --state-in, into a new DIR"},
    {"--hook-post-materialize", CF_FLAG_LIST, F(hooks_post), "CMD", "run before the first turn (repeat, at most 16)"},
    {"--hook-pre-writeback", CF_FLAG_LIST, F(hooks_pre), "CMD", "run before files are collected (repeat)"},
    {"--hook-on-failure", CF_FLAG_TEXT, F(hook_on_failure), "WHAT", "abort (default) or continue"},
    {"--hook-timeout", CF_FLAG_TIME, F(hook_ms), "T", "of each hook (60s, at most 3600s)"},
    {"acp", CF_FLAG_TITLE, 0, NULL, NULL},
    {"--fs", CF_FLAG_SWITCH, F(fs), NULL, "offer fs/read_text_file and fs/write_text_file"},
    {"--terminal", CF_FLAG_SWITCH, F(terminal), NULL, "offer terminals"},
    {"--elicitation", CF_FLAG_TEXT, F(elicitation), "P", "forms: off (default), decline or end"},
    {"--mcp", CF_FLAG_LIST, F(mcp), "NAME=URL", "an MCP server over HTTP, through the relay (repeat)"},
    {"--mode", CF_FLAG_TEXT, F(mode), "ID", "session mode to set"},
    {"--config", CF_FLAG_LIST, F(config), "ID=VALUE", "session config option to set (repeat)"},
    {"--session", CF_FLAG_TEXT, F(session), "ID", "continue this session of the agent's, or: latest"},
    {"--session-method", CF_FLAG_TEXT, F(session_method), "M", "auto (resume, else load), resume or load"},
    {"--session-end", CF_FLAG_TEXT, F(session_end), "E", "close (default), keep, delete or logout"},
    {"--builtin-tools", CF_FLAG_TEXT, F(builtin_tools), "A,B", "ceiling of bash read write edit web_search web_fetch"},
    {"--continuity", CF_FLAG_TEXT, F(continuity), "C", "fresh, same_run_resume or event_log_rebuild"},
    {"--context-window", CF_FLAG_NUMBER, F(context_window), "TOKENS", "the model's exact context window"},
    {"--compaction-trigger", CF_FLAG_NUMBER, F(compaction_trigger), "TOKENS", "native compaction from there on"},
    {"--resume-state", CF_FLAG_TEXT, F(resume_state), "FILE", "what --checkpoint-out wrote: same_run_resume"},
    {"--drain", CF_FLAG_SWITCH, F(drain), NULL, "test oci: ask a declared cooperative interrupt to drain"},
    {"relay", CF_FLAG_TITLE, 0, NULL, NULL},
    {"--model-script", CF_FLAG_TEXT, F(model_script), "FILE", "what the replay model says, rule by rule"},
    {"--upstream", CF_FLAG_LIST, F(upstreams), "PROVIDER=URL", "a real provider instead (repeat)"},
    {"--upstream-key-env", CF_FLAG_LIST, F(upstream_key_envs), "[PROVIDER=]NAME", "the variable that holds its key"},
    {"--upstream-key-file", CF_FLAG_LIST, F(upstream_key_files), "[PROVIDER=]FILE", "the file that does (mode 0600)"},
    {"--upstream-ca", CF_FLAG_LIST, F(upstream_cas), "[PROVIDER=]FILE", "its certificate authority"},
    {"--allow-model", CF_FLAG_LIST, F(allow_models), "NAME", "only these; NAME* for a family (repeat)"},
    {"--allow-host", CF_FLAG_LIST, F(allow_hosts), "NAME[:PORT]", "open this name through the proxy (repeat)"},
    {"--max-calls", CF_FLAG_NUMBER, F(max_calls), "N", "model calls of the run"},
    {"--max-calls-per-turn", CF_FLAG_NUMBER, F(max_turn_calls), "N", "64"},
    {"--max-concurrent-calls", CF_FLAG_NUMBER, F(max_concurrent), "N", "at once"},
    {"--max-request-bytes", CF_FLAG_BYTES, F(max_request_bytes), "SIZE", "to the model, of the run"},
    {"--max-response-bytes", CF_FLAG_BYTES, F(max_response_bytes), "SIZE", "from the model"},
    {"--max-input-tokens", CF_FLAG_NUMBER, F(max_input_tokens), "N", "of the run"},
    {"--max-output-tokens", CF_FLAG_NUMBER, F(max_output_tokens), "N", "of the run"},
    {"--max-cost", CF_FLAG_REAL, F(max_cost), "X", "by --price-file"},
    {"--price-file", CF_FLAG_TEXT, F(price_file), "FILE", "prices of a million tokens, by model"},
    {"--lease-time", CF_FLAG_TIME, F(lease_ms), "T", "model calls begin no later"},
    {"--ledger", CF_FLAG_TEXT, F(ledger), "FILE", "each call and attempt as a line of JSON"},
    {"limits", CF_FLAG_TITLE, 0, NULL, NULL},
    {"--memory", CF_FLAG_BYTES, F(memory), "SIZE", "2g; no swap on top"},
    {"--cpus", CF_FLAG_REAL, F(cpus), "N", "2"},
    {"--pids", CF_FLAG_NUMBER, F(pids), "N", "512"},
    {"--disk", CF_FLAG_BYTES, F(disk), "SIZE", "4g: layer, volumes and /tmp"},
    {"--output-limit", CF_FLAG_BYTES, F(output_limit), "SIZE", "256m on stdout"},
    {"--collect-limit", CF_FLAG_BYTES, F(collect_limit), "SIZE", "1g: what --collect and --state-out take"},
    {"--timeout", CF_FLAG_TIME, F(timeout_ms), "T", "whole command (600s)"},
    {"--start-timeout", CF_FLAG_TIME, F(start_ms), "T", "each step up to an open session (60s)"},
    {"--turn-timeout", CF_FLAG_TIME, F(turn_ms), "T", "300s"},
    {"--idle-timeout", CF_FLAG_TIME, F(idle_ms), "T", "off"},
    {"--grace", CF_FLAG_TIME, F(grace_ms), "T", "for an orderly end (10s)"},
    {"output", CF_FLAG_TITLE, 0, NULL, NULL},
    {"--json", CF_FLAG_SWITCH, F(json), NULL, "the result as one JSON document on stdout"},
    {"--report", CF_FLAG_TEXT, F(report), "FILE.html", "the whole run as one page to look at"},
    {"--junit", CF_FLAG_TEXT, F(junit), "FILE", "the checks as JUnit XML"},
    {"--tap", CF_FLAG_TEXT, F(tap), "FILE", "as TAP 13"},
    {"--sarif", CF_FLAG_TEXT, F(sarif), "FILE", "as SARIF 2.1.0"},
    {"--summary", CF_FLAG_TEXT, F(summary), "FILE.md", "as Markdown, added to FILE.md ($GITHUB_STEP_SUMMARY)"},
    {"--statement", CF_FLAG_TEXT, F(statement), "FILE", "as an in-toto test-result about the image; unsigned"},
    {"--print-plan", CF_FLAG_SWITCH, F(print_plan), NULL, "both documents, nothing is run"},
    {"--plain", CF_FLAG_SWITCH, F(plain), NULL, "ASCII, no colour, nothing painted over"},
    {"--quiet", CF_FLAG_SWITCH, F(quiet), NULL, "the verdict line only"},
    {"-v", CF_FLAG_COUNT, F(verbose), NULL, "frames, calls, findings; -vv: everything, bytes too"},
    {"--help", CF_FLAG_SWITCH, F(help), NULL, "one screen"},
    {"--help-all", CF_FLAG_SWITCH, F(help_all), NULL, "each flag with what it does"},
};
const size_t cf_launch_count = CF_COUNT(cf_launch_table);

char *
cf_read_file(const char *path, size_t limit, size_t *ret_len, struct cf_error *err)
{
    struct cf_buf buf;
    int fd = strcmp(path, "-") == 0 ? 0 : open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n;

    if (fd < 0) {
        (void)cf_error_set(err, CF_ERROR_CONFIG, errno, "%s: %s", path, strerror(errno));
        return NULL;
    }
    cf_buf_init(&buf, limit);
    for (;;) {
        char *to = cf_buf_reserve(&buf, 65536 < limit - buf.len ? 65536 : limit - buf.len + 0);
        if (to == NULL || buf.len == limit) {
            (void)cf_error_set(err, CF_ERROR_TOO_LARGE, 0, "%s is larger than %zu bytes", path, limit);
            n = -2;
            break;
        }
        n = read(fd, to, 65536 < limit - buf.len ? 65536 : limit - buf.len);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            (void)cf_error_set(err, CF_ERROR_CONFIG, errno, "%s: %s", path, strerror(errno));
        if (n <= 0)
            break;
        cf_buf_wrote(&buf, (size_t)n);
    }
    if (fd != 0)
        (void)close(fd);
    if (n < 0) {
        cf_buf_release(&buf);
        return NULL;
    }
    return cf_buf_take(&buf, ret_len);
}

json_t *
cf_read_json_file(const char *path, struct cf_error *err)
{
    size_t len = 0;
    cf_auto_free char *bytes = cf_read_file(path, 1u << 20, &len, err);
    json_t *value;

    if (bytes == NULL)
        return NULL;
    value = cf_json_parse(bytes, len, NULL, err);
    if (value == NULL)
        (void)cf_error_wrap(err, "%s", path);
    return value;
}

static void
set_text(json_t *object, const char *name, const char *value)
{
    if (value != NULL)
        (void)json_object_set_new(object, name, json_string(value));
}

static void
set_list(json_t *object, const char *name, const struct cf_flag_list *list)
{
    json_t *items = json_array();

    for (size_t i = 0; i < list->count; i++)
        (void)json_array_append_new(items, json_string(list->items[i]));
    (void)json_object_set_new(object, name, items);
}

static int
set_platform(json_t *release, const char *platform, struct cf_error *err)
{
    const char *slash = platform != NULL ? strchr(platform, '/') : NULL;

    if (platform == NULL)
        return 0;
    if (slash == NULL)
        return cf_error_set(err, CF_ERROR_CONFIG, 0, "--platform: %.60s is not OS/ARCH, e.g. linux/amd64", platform);
    (void)json_object_set_new(release, "platform", json_pack("{s:s%, s:s}", "os", platform, (size_t)(slash - platform),
                                                             "architecture", slash + 1));
    return 0;
}

static int
need(const char *value, const char *flag, const char *example, struct cf_error *err)
{
    if (value != NULL)
        return 0;
    (void)cf_error_set(err, CF_ERROR_CONFIG, 0, "%s is missing", flag);
    return cf_error_fix(err, "add it, e.g. %s", example);
}

/* Flags -> the release document. */
static int
release_of_flags(const struct cf_launch_flags *f, json_t *release, struct cf_error *err)
{
    bool is_acp = cf_str_same(f->protocol, "acp-v1");

    if (need(f->entrypoint, "--entrypoint", "--entrypoint /opt/checkfu/bin/checkfu-oneshot", err) < 0 ||
        need(f->protocol, "--protocol", "--protocol acp-v1", err) < 0)
        return -1;
    if (f->image == NULL && f->build_context == NULL) {
        (void)cf_error_set(err, CF_ERROR_CONFIG, 0, "neither --image nor --build-context is given");
        return cf_error_fix(err, "add --build-context DIR, or --image NAME@sha256:HEX");
    }
    set_text(release, "image", f->image != NULL ? f->image : "build-context.invalid/ephemeral");
    set_text(release, "entrypoint", f->entrypoint);
    set_text(release, "protocol", f->protocol);
    set_text(release, "working_directory", f->working_directory);
    if (is_acp || f->args.count > 0)
        set_list(release, "arguments", &f->args);
    if (!is_acp || f->argv.count > 0)
        set_list(release, "argv", &f->argv);
    set_text(release, "prompt_transport", f->prompt_transport);
    set_text(release, "output_mode", f->output_mode);
    set_text(release, "resume_flag", f->resume_flag);
    set_text(release, "output_schema_flag", f->output_schema_flag);
    set_text(release, "output_schema_transport", f->output_schema_transport);
    if (f->dialects.count > 0)
        set_list(release, "model_wire_dialects", &f->dialects);
    if (f->configuration_schema != NULL) {
        json_t *schema = cf_read_json_file(f->configuration_schema, err);
        if (schema == NULL)
            return -1;
        (void)json_object_set_new(release, "configuration_schema", schema);
    }
    return set_platform(release, f->platform, err);
}

static int
release_of_file(const struct cf_launch_flags *f, json_t **ret_release, struct cf_error *err)
{
    if (f->image != NULL || f->entrypoint != NULL || f->protocol != NULL || f->args.count > 0 || f->argv.count > 0 ||
        f->prompt_transport != NULL || f->output_mode != NULL || f->resume_flag != NULL ||
        f->output_schema_flag != NULL || f->output_schema_transport != NULL || f->working_directory != NULL ||
        f->platform != NULL || f->dialects.count > 0 || f->configuration_schema != NULL) {
        (void)cf_error_set(err, CF_ERROR_CONFIG, 0, "--release says what to run; flags of the release beside it would contradict it");
        return cf_error_fix(err, "change the file, or leave --release out");
    }
    json_decref(*ret_release);
    *ret_release = cf_read_json_file(f->release_file, err);
    return *ret_release == NULL ? -1 : 0;
}

static int
check_release(json_t *release, struct cf_error *err)
{
    size_t len = 0;
    cf_auto_free char *text = cf_json_dump(release, &len);
    char *report = NULL;
    int status = text == NULL ? cf_error_memory(err) : cf_release_check(text, len, &report, err);

    cf_release_report_free(report);
    return status;
}

/* ---- what can be seen of a build context without an engine -------------------------------- */

static int
check_context(const char *dir, const char *dockerfile, struct cf_error *err)
{
    struct stat st;
    struct dirent *entry;
    char path[4400];
    DIR *handle = opendir(dir);
    size_t entries = 0;

    if (handle == NULL) {
        (void)cf_error_set(err, CF_ERROR_CONFIG, errno, "build context %s: %s", dir, strerror(errno));
        return cf_error_fix(err, "give the folder that holds the Dockerfile");
    }
    while (entries == 0 && (entry = readdir(handle)) != NULL)
        entries += strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0;
    (void)closedir(handle);
    if (entries == 0) {
        (void)cf_error_set(err, CF_ERROR_CONFIG, 0, "build context %s is empty", dir);
        return cf_error_fix(err, "put a Dockerfile and the harness into it");
    }
    (void)snprintf(path, sizeof path, "%s/%s", dir, dockerfile != NULL ? dockerfile : "Dockerfile");
    if (stat(path, &st) != 0) {
        (void)cf_error_set(err, CF_ERROR_CONFIG, errno, "build context %s has no %s", dir,
                           dockerfile != NULL ? dockerfile : "Dockerfile");
        return cf_error_fix(err, "name it with --dockerfile, relative to the context");
    }
    return 0;
}

/* ---- flags -> the options document -------------------------------------------------------- */

static void
set_number(json_t *object, const char *name, uint64_t value)
{
    if (value != 0)
        (void)json_object_set_new(object, name, json_integer((json_int_t)value));
}

static int
set_env(json_t *options, const struct cf_flag_list *list, struct cf_error *err)
{
    json_t *env = json_object();

    (void)json_object_set_new(options, "env", env);
    for (size_t i = 0; i < list->count; i++) {
        const char *equals = strchr(list->items[i], '=');
        char name[256];
        if (equals == NULL || equals == list->items[i] || (size_t)(equals - list->items[i]) >= sizeof name)
            return cf_error_set(err, CF_ERROR_CONFIG, 0, "--env: %.60s is not NAME=VALUE", list->items[i]);
        (void)snprintf(name, sizeof name, "%.*s", (int)(equals - list->items[i]), list->items[i]);
        if (json_object_set_new(env, name, json_string(equals + 1)) < 0)
            return cf_error_set(err, CF_ERROR_CONFIG, 0, "--env: the value of %s is not UTF-8", name);
    }
    return 0;
}

static int
options_of_flags(const struct cf_launch_flags *f, const struct cf_launch *launch, json_t *options, struct cf_error *err)
{
    json_t *limits = json_object(), *deadlines = json_object();

    set_text(options, "name", f->name);
    set_text(options, "engine", f->engine);
    set_text(options, "state_dir", f->state_dir);
    set_text(options, "build_context", f->build_context);
    set_text(options, "dockerfile", f->dockerfile);
    set_text(options, "registry_host", f->registry_host);
    set_text(options, "pull", f->pull);
    set_text(options, "retention", f->retention);
    set_text(options, "record", f->record);
    set_text(options, "permission", f->permission);
    set_text(options, "model", launch->model);
    set_number(options, "relay_port", f->relay_port);
    if (f->registry_all_interfaces)
        (void)json_object_set_new(options, "registry_all_interfaces", json_true());
    set_number(limits, "memory_bytes", f->memory);
    set_number(limits, "pids", f->pids);
    set_number(limits, "disk_bytes", f->disk);
    set_number(limits, "output_bytes", f->output_limit);
    set_number(limits, "collect_bytes", f->collect_limit);
    if (f->cpus != 0)
        (void)json_object_set_new(limits, "cpus", json_real(f->cpus));
    set_number(deadlines, "whole", f->timeout_ms);
    set_number(deadlines, "turn", f->turn_ms);
    set_number(deadlines, "idle", f->idle_ms);
    set_number(deadlines, "grace", f->grace_ms);
    set_number(deadlines, "start", f->start_ms);
    set_number(deadlines, "initialize", f->start_ms);
    set_number(deadlines, "session", f->start_ms);
    (void)json_object_set_new(options, "limits", limits);
    (void)json_object_set_new(options, "deadlines_ms", deadlines);
    if (cf_launch_files(f, options, err) < 0 || cf_launch_acp(f, launch, options, err) < 0 ||
        cf_launch_relay(f, options, err) < 0)
        return -1;
    return set_env(options, &f->env, err);
}

/* Only defaults.sandbox and defaults.model are read; the rest may hold secrets and is never shown. */
static int
read_connection(const struct cf_launch_flags *f, struct cf_launch *launch, struct cf_error *err)
{
    json_t *defaults;

    launch->sandbox = f->sandbox;
    launch->model = f->model;
    if (f->connection_file == NULL)
        return 0;
    launch->connection = cf_read_json_file(f->connection_file, err);
    if (launch->connection == NULL)
        return -1;
    if (!json_is_object(launch->connection))
        return cf_error_set(err, CF_ERROR_CONFIG, 0, "%s: not a JSON object", f->connection_file);
    defaults = cf_json_obj(launch->connection, "defaults");
    if (launch->sandbox == NULL)
        launch->sandbox = cf_json_str(defaults, "sandbox");
    if (launch->model == NULL)
        launch->model = cf_json_str(defaults, "model");
    return 0;
}

int
cf_launch_make(const struct cf_launch_flags *f, struct cf_launch *launch, struct cf_error *err)
{
    memset(launch, 0, sizeof *launch);
    launch->release = json_object();
    launch->options = json_object();
    if (launch->release == NULL || launch->options == NULL)
        return cf_error_memory(err);
    if (f->image != NULL && f->build_context != NULL)
        return cf_error_set(err, CF_ERROR_CONFIG, 0, "--image and --build-context exclude each other");
    if (read_connection(f, launch, err) < 0)
        return -1;
    if (f->release_file != NULL ? release_of_file(f, &launch->release, err) < 0
                                : release_of_flags(f, launch->release, err) < 0)
        return -1;
    if (check_release(launch->release, err) < 0)
        return -1;
    if (f->build_context != NULL && check_context(f->build_context, f->dockerfile, err) < 0)
        return -1;
    return options_of_flags(f, launch, launch->options, err);
}

void
cf_launch_done(struct cf_launch *launch)
{
    json_decref(launch->release);
    json_decref(launch->options);
    json_decref(launch->connection);
    memset(launch, 0, sizeof *launch);
}
