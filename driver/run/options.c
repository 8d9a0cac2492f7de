/*
 * The options document, one row a member: where it goes, of what form, within which bounds. An
 * unknown member is refused: a misspelt limit that is silently not in force would be a lie.
 */
#include "run/options.h"
#include "run/restore.h"

#include "base/str.h"
#include "json/json.h"

#include <stddef.h>
#include <string.h>

enum form { TEXT, FLAG, COUNT, REAL, ENUM, OBJECT, LIST };

struct row {
    const char *group; /* NULL: top level */
    const char *name;
    enum form form;
    size_t offset;
    double least, most;
    const char *choices[5];
};

#define AT(member) offsetof(struct cf_run_options, member)
#define DAY_MS 86400000.0

static const struct row rows[] = {
    {NULL, "name", TEXT, AT(name), 0, 200, {0}},
    {NULL, "engine", TEXT, AT(engine), 0, 1024, {0}},
    {NULL, "docker_config_dir", TEXT, AT(docker_config_dir), 0, 4096, {0}},
    {NULL, "state_dir", TEXT, AT(state_dir), 0, 4096, {0}},
    {NULL, "record", TEXT, AT(record), 0, 4096, {0}},
    {NULL, "build_context", TEXT, AT(build_context), 0, 4096, {0}},
    {NULL, "dockerfile", TEXT, AT(dockerfile), 0, 4096, {0}},
    {NULL, "registry_all_interfaces", FLAG, AT(registry_all_interfaces), 0, 0, {0}},
    {NULL, "registry_host", TEXT, AT(registry_host), 0, 255, {0}},
    {NULL, "pull", ENUM, AT(pull), 0, 0, {"missing", "always", "never"}},
    {NULL, "retention", ENUM, AT(is_ephemeral), 0, 0, {"durable", "ephemeral_zdr"}},
    {NULL, "model", TEXT, AT(model), 0, 200, {0}},
    {NULL, "relay_port", COUNT, AT(relay_port), 1024, 65535, {0}},
    {NULL, "max_calls_per_turn", COUNT, AT(max_calls_per_turn), 1, 100000, {0}},
    {NULL, "env", OBJECT, AT(env), 0, 0, {0}},
    {NULL, "session_meta", OBJECT, AT(session_meta), 0, 0, {0}},
    {NULL, "mcp", LIST, AT(mcp), 0, 0, {0}},
    {NULL, "config", OBJECT, AT(config), 0, 0, {0}},
    {NULL, "mode", TEXT, AT(mode), 0, 256, {0}},
    {NULL, "session", TEXT, AT(session), 1, 1024, {0}},
    {NULL, "session_method", ENUM, AT(session_method), 0, 0, {"auto", "resume", "load"}},
    {NULL, "session_end", ENUM, AT(session_end), 0, 0, {"close", "keep", "delete", "logout"}},
    {NULL, "fs", FLAG, AT(fs), 0, 0, {0}},
    {NULL, "terminal", FLAG, AT(terminal), 0, 0, {0}},
    {NULL, "permission", ENUM, AT(permission), 0, 0, {"deny", "allow", "end", "ask"}},
    {NULL, "elicitation", ENUM, AT(elicitation), 0, 0, {"off", "decline", "end", "ask"}},
    {NULL, "continues", FLAG, AT(continues), 0, 0, {0}},
    {NULL, "skip_reap", FLAG, AT(skip_reap), 0, 0, {0}},
    {NULL, "files", LIST, AT(files), 0, 0, {0}},
    {NULL, "state_in", TEXT, AT(state_in), 0, 4096, {0}},
    {NULL, "state_out", TEXT, AT(state_out), 0, 4096, {0}},
    {NULL, "restore", OBJECT, AT(restore), 0, 0, {0}},
    {NULL, "collect", TEXT, AT(collect), 0, 4096, {0}},
    {"hooks", "post_materialize", LIST, AT(hooks[CF_HOOK_POST_MATERIALIZE]), 0, 0, {0}},
    {"hooks", "pre_writeback", LIST, AT(hooks[CF_HOOK_PRE_WRITEBACK]), 0, 0, {0}},
    {"hooks", "on_failure", ENUM, AT(hooks_go_on), 0, 0, {"abort", "continue"}},
    {"hooks", "timeout_ms", COUNT, AT(hook_ms), 1, 3600000, {0}},
    {"journal", "directory", TEXT, AT(journal), 0, 4096, {0}},
    {"journal", "identity", TEXT, AT(identity), 0, 4096, {0}},
    {"journal", "repository_id", TEXT, AT(repository_id), 0, 1024, {0}},
    {"journal", "thread_id", TEXT, AT(thread_id), 0, 1024, {0}},
    {"journal", "claim_paths", LIST, AT(claim_paths), 0, 0, {0}},
    {"journal", "claim_ms", COUNT, AT(claim_ms), 3000, DAY_MS, {0}},
    {"pool", "creates", COUNT, AT(pool_creates), 1, 1000, {0}},
    {"pool", "warm", COUNT, AT(pool_warm), 0, 10000, {0}},
    {"pool", "ttl_ms", COUNT, AT(pool_ttl_ms), 1000, DAY_MS, {0}},
    {"pool", "seed_after", COUNT, AT(pool_seed_after), 0, 1000000, {0}},
    {NULL, "allow_hosts", LIST, AT(allow_hosts), 0, 0, {0}},
    {"relay", "upstreams", LIST, AT(upstreams), 0, 0, {0}},
    {"relay", "model_script", OBJECT, AT(model_script), 0, 0, {0}},
    {"relay", "prices", OBJECT, AT(prices), 0, 0, {0}},
    {"relay", "models", LIST, AT(models), 0, 0, {0}},
    {"relay", "ledger", TEXT, AT(ledger), 0, 4096, {0}},
    {"relay", "calls", COUNT, AT(calls), 1, 1e12, {0}},
    {"relay", "calls_at_once", COUNT, AT(calls_at_once), 1, 1024, {0}},
    {"relay", "request_bytes", COUNT, AT(request_bytes), 1, 1e15, {0}},
    {"relay", "response_bytes", COUNT, AT(response_bytes), 1, 1e15, {0}},
    {"relay", "input_tokens", COUNT, AT(input_tokens), 1, 1e15, {0}},
    {"relay", "output_tokens", COUNT, AT(output_tokens), 1, 1e15, {0}},
    {"relay", "cost", REAL, AT(cost), 1e-9, 1e9, {0}},
    {"relay", "wall_ms", COUNT, AT(lease_ms), 1, DAY_MS * 7, {0}},
    {"relay", "connect_ms", COUNT, AT(connect_ms), 1, DAY_MS, {0}},
    {"relay", "first_byte_ms", COUNT, AT(first_byte_ms), 1, DAY_MS, {0}},
    {"relay", "stall_ms", COUNT, AT(stall_ms), 1, DAY_MS, {0}},
    {"perturb", "stdin_bytes", COUNT, AT(stdin_bytes), 1, 1048576, {0}},
    {"perturb", "stdin_gap_ms", COUNT, AT(stdin_gap_ms), 0, 60000, {0}},
    {"perturb", "stdin_hold_ms", COUNT, AT(stdin_hold_ms), 1, 60000, {0}},
    {"perturb", "stdout_bytes", COUNT, AT(stdout_bytes), 1, 1048576, {0}},
    {"perturb", "stdout_hold_ms", COUNT, AT(stdout_hold_ms), 1, 60000, {0}},
    {"perturb", "stop_at", ENUM, AT(stop_at), 0, 0, {"never", "start", "prompt", "model", "output"}},
    {"perturb", "stop_ms", COUNT, AT(stop_ms), 1, 60000, {0}},
    {"perturb", "cancel_at", ENUM, AT(cancel_at), 0, 0, {"never", "start", "prompt", "model", "output"}},
    {"limits", "collect_bytes", COUNT, AT(collect_bytes), 0, 1e15, {0}},
    {"limits", "collect_entries", COUNT, AT(collect_entries), 1, 1000000, {0}},
    {"limits", "memory_bytes", COUNT, AT(memory_bytes), 6291456, 1e15, {0}},
    {"limits", "cpus", REAL, AT(cpus), 0.01, 4096, {0}},
    {"limits", "pids", COUNT, AT(pids), 8, 4194304, {0}},
    {"limits", "nofile", COUNT, AT(nofile), 64, 1048576, {0}},
    {"limits", "disk_bytes", COUNT, AT(disk_bytes), 1048576, 1e15, {0}},
    {"limits", "output_bytes", COUNT, AT(output_bytes), 1024, 1e15, {0}},
    {"deadlines_ms", "start", COUNT, AT(start_ms), 1, DAY_MS, {0}},
    {"deadlines_ms", "initialize", COUNT, AT(initialize_ms), 1, DAY_MS, {0}},
    {"deadlines_ms", "session", COUNT, AT(session_ms), 1, DAY_MS, {0}},
    {"deadlines_ms", "turn", COUNT, AT(turn_ms), 1, DAY_MS * 7, {0}},
    {"deadlines_ms", "idle", COUNT, AT(idle_ms), 0, DAY_MS, {0}},
    {"deadlines_ms", "whole", COUNT, AT(whole_ms), 1, DAY_MS * 7, {0}},
    {"deadlines_ms", "grace", COUNT, AT(grace_ms), 0, 600000, {0}},
    {"deadlines_ms", "drain", COUNT, AT(drain_ms), 1, 600000, {0}},
};

static int
bad(const struct row *row, const char *what, struct cf_error *err)
{
    (void)cf_error_set(err, CF_ERROR_CONFIG, 0, "options: %s%s%s %s", row->group != NULL ? row->group : "",
                       row->group != NULL ? "." : "", row->name, what);
    return cf_error_fix(err, "see proto/run-options.schema.json for its form and bounds");
}

static int
read_number(const struct row *row, const json_t *value, void *to, struct cf_error *err)
{
    double number = json_number_value(value);

    if (!json_is_number(value) || (row->form == COUNT && !json_is_integer(value)))
        return bad(row, "is not a number of the right kind", err);
    if (number < row->least || number > row->most)
        return bad(row, "is out of its bounds", err);
    if (row->form == REAL)
        *(double *)to = number;
    else if (row->offset == AT(relay_port) || row->offset == AT(max_calls_per_turn))
        *(unsigned *)to = (unsigned)json_integer_value(value);
    else
        *(uint64_t *)to = (uint64_t)json_integer_value(value);
    return 0;
}

static int
read_choice(const struct row *row, const json_t *value, void *to, struct cf_error *err)
{
    for (size_t i = 0; i < CF_COUNT(row->choices) && row->choices[i] != NULL; i++) {
        if (!cf_str_same(json_string_value(value), row->choices[i]))
            continue;
        if (row->offset == AT(is_ephemeral) || row->offset == AT(hooks_go_on))
            *(bool *)to = i == 1;
        else
            *(int *)to = (int)i;
        return 0;
    }
    return bad(row, "is not one of its words", err);
}

static int
read_row(const struct row *row, json_t *value, struct cf_run_options *options, struct cf_error *err)
{
    void *to = (char *)options + row->offset;

    switch (row->form) {
    case TEXT:
        if (!json_is_string(value) || json_string_length(value) > row->most || json_string_length(value) == 0 ||
            strlen(json_string_value(value)) != json_string_length(value))
            return bad(row, "is not a text of its bounds", err);
        *(const char **)to = json_string_value(value);
        return 0;
    case FLAG:
        if (!json_is_boolean(value))
            return bad(row, "is not true or false", err);
        *(bool *)to = json_is_true(value);
        return 0;
    case COUNT:
    case REAL:
        return read_number(row, value, to, err);
    case ENUM:
        return read_choice(row, value, to, err);
    case OBJECT:
    case LIST:
        if (row->form == OBJECT ? !json_is_object(value) : !json_is_array(value))
            return bad(row, "has the wrong type", err);
        *(json_t **)to = value;
        return 0;
    }
    return 0;
}

static int
read_group(json_t *object, const char *group, struct cf_run_options *options, struct cf_error *err)
{
    const char *name;
    json_t *value;

    json_object_foreach(object, name, value)
    {
        const struct row *row = NULL;
        bool is_group = group == NULL && (strcmp(name, "limits") == 0 || strcmp(name, "deadlines_ms") == 0 ||
                                          strcmp(name, "hooks") == 0 || strcmp(name, "journal") == 0 ||
                                          strcmp(name, "pool") == 0 || strcmp(name, "relay") == 0 ||
                                          strcmp(name, "perturb") == 0);
        if (json_is_null(value))
            continue;
        if (is_group && json_is_object(value)) {
            if (read_group(value, name, options, err) < 0)
                return -1;
            continue;
        }
        for (size_t i = 0; i < CF_COUNT(rows); i++)
            if (cf_str_same(rows[i].group, group) && strcmp(rows[i].name, name) == 0)
                row = &rows[i];
        if (row == NULL)
            return cf_error_set(err, CF_ERROR_CONFIG, 0, "options: %.100s is not a member of %s", name,
                                group != NULL ? group : "the options document");
        if (read_row(row, value, options, err) < 0)
            return -1;
    }
    return 0;
}

static int
check_env(const json_t *env, struct cf_error *err)
{
    const char *name;
    json_t *value;

    json_object_foreach((json_t *)env, name, value)
    {
        if (*name == '\0' || strchr(name, '=') != NULL || !json_is_string(value) ||
            strlen(json_string_value(value)) != json_string_length(value))
            return cf_error_set(err, CF_ERROR_CONFIG, 0, "options: env %.100s is not a NAME with a text value", name);
        if (strlen(name) + json_string_length(value) + 1 > 131071) {
            (void)cf_error_set(err, CF_ERROR_TOO_LARGE, 0, "options: env %.100s: NAME=VALUE is over 131,071 bytes", name);
            return cf_error_fix(err, "the kernel takes no longer string; pass a file instead");
        }
    }
    return 0;
}

/* A text without NUL that one argument may hold. */
static bool
is_argument(const json_t *value)
{
    return json_is_string(value) && strlen(json_string_value(value)) == json_string_length(value) &&
           json_string_length(value) <= 131071;
}

/* Texts and booleans: what ACP's config options can be. */
static int
check_config(const json_t *config, struct cf_error *err)
{
    const char *name;
    json_t *value;

    json_object_foreach((json_t *)config, name, value)
        if (!json_is_string(value) && !json_is_boolean(value))
            return cf_error_set(err, CF_ERROR_CONFIG, 0, "options: config %.100s is neither a text nor a boolean", name);
    return 0;
}

static bool
is_command(const json_t *command)
{
    size_t i;
    json_t *word;

    if (!json_is_array(command))
        return is_argument(command) && json_string_length(command) > 0;
    json_array_foreach((json_t *)command, i, word)
        if (!is_argument(word))
            return false;
    return json_array_size(command) >= 1 && json_array_size(command) <= 256 &&
           json_string_value(json_array_get(command, 0))[0] == '/';
}

static int
check_hooks(const struct cf_run_options *options, struct cf_error *err)
{
    static const char *const names[CF_HOOK_PHASES] = {"post_materialize", "pre_writeback"};

    for (int phase = 0; phase < CF_HOOK_PHASES; phase++) {
        size_t count = json_array_size(options->hooks[phase]);
        if (count > CF_HOOKS_MOST)
            return cf_error_set(err, CF_ERROR_CONFIG, 0, "options: hooks.%s has %zu commands, at most %u are allowed",
                                names[phase], count, CF_HOOKS_MOST);
        for (size_t i = 0; i < count; i++) {
            if (is_command(json_array_get(options->hooks[phase], i)))
                continue;
            (void)cf_error_set(err, CF_ERROR_CONFIG, 0, "options: hooks.%s[%zu] is not a command", names[phase], i);
            return cf_error_fix(err, "give a text for /bin/sh -c, or an array of texts that begins with an absolute "
                                     "program; each at most 131,071 bytes");
        }
    }
    return 0;
}

/* Beneath the working directory, or absolute and not in what belongs to the kernel or to us. */
static const char *
wrong_with_target(const char *target)
{
    static const char *const reserved[] = {"/proc", "/sys", "/dev", "/.cf"};
    const char *segment = target;

    for (size_t i = 0; i < CF_COUNT(reserved); i++) {
        size_t len = strlen(reserved[i]);
        if (strncmp(target, reserved[i], len) == 0 && (target[len] == '/' || target[len] == '\0'))
            return "is not a place for files";
    }
    if (*target == '\0' || strlen(target) > 4096)
        return "has no length of a path";
    for (; segment != NULL; segment = strchr(segment, '/')) {
        segment += *segment == '/';
        if (strncmp(segment, "..", 2) == 0 && (segment[2] == '/' || segment[2] == '\0'))
            return "has a .. in it";
    }
    return NULL;
}

static int
check_files(const json_t *files, struct cf_error *err)
{
    json_t *file;
    size_t i;

    if (json_array_size(files) > 1000)
        return cf_error_set(err, CF_ERROR_CONFIG, 0, "options: more than 1,000 files; stage a folder instead");
    json_array_foreach((json_t *)files, i, file)
    {
        json_t *source = json_object_get(file, "source"), *target = json_object_get(file, "target");
        const char *wrong;
        if (json_object_size(file) != 2 || !is_argument(source) || !is_argument(target) ||
            json_string_length(source) == 0 || json_string_length(source) > 4096)
            return cf_error_set(err, CF_ERROR_CONFIG, 0, "options: files[%zu] is not {\"source\",\"target\"}", i);
        wrong = wrong_with_target(json_string_value(target));
        if (wrong == NULL)
            continue;
        (void)cf_error_set(err, CF_ERROR_CONFIG, 0, "options: the target of %.200s %s: %.200s", json_string_value(source),
                           wrong, json_string_value(target));
        return cf_error_fix(err, "give a path in the working directory, or an absolute one that the image's user may write");
    }
    return 0;
}

/* A journal needs all of it; what its ids and paths may be is said when the claim is tried. */
static int
check_journal(const struct cf_run_options *options, struct cf_error *err)
{
    const struct {
        const char *name;
        bool is_there;
    } parts[] = {{"directory", options->journal != NULL},
                 {"identity", options->identity != NULL},
                 {"repository_id", options->repository_id != NULL},
                 {"thread_id", options->thread_id != NULL},
                 {"claim_paths", json_array_size(options->claim_paths) > 0}};
    const char *missing = NULL;
    size_t there = 0, i;
    json_t *path;

    for (i = 0; i < CF_COUNT(parts); i++) {
        there += parts[i].is_there;
        if (!parts[i].is_there && missing == NULL)
            missing = parts[i].name;
    }
    if (there > 0 && missing != NULL)
        return cf_error_set(err, CF_ERROR_CONFIG, 0, "options: journal.%s is missing", missing);
    if (json_array_size(options->claim_paths) > 64)
        return cf_error_set(err, CF_ERROR_CONFIG, 0, "options: journal.claim_paths has over 64 paths");
    json_array_foreach((json_t *)options->claim_paths, i, path)
        if (!is_argument(path))
            return cf_error_set(err, CF_ERROR_CONFIG, 0, "options: journal.claim_paths[%zu] is not a text", i);
    return 0;
}

static int
bad_upstream(size_t i, const char *what, struct cf_error *err)
{
    (void)cf_error_set(err, CF_ERROR_CONFIG, 0, "options: relay.upstreams[%zu] %s", i, what);
    return cf_error_fix(err, "see proto/run-options.schema.json: {\"provider\", \"url\", \"key_env\" or "
                             "\"key_file\", \"ca_file\"}");
}

static int
check_upstreams(const json_t *upstreams, struct cf_error *err)
{
    static const char *const known[] = {"provider", "url", "key_env", "key_file", "ca_file"};
    json_t *upstream, *value;
    const char *name;
    size_t i;

    if (json_array_size(upstreams) > 8)
        return cf_error_set(err, CF_ERROR_CONFIG, 0, "options: more than 8 upstreams");
    json_array_foreach((json_t *)upstreams, i, upstream)
    {
        if (cf_json_str(upstream, "provider") == NULL || cf_json_str(upstream, "url") == NULL)
            return bad_upstream(i, "has no provider or no url", err);
        if (cf_json_str(upstream, "key_env") != NULL && cf_json_str(upstream, "key_file") != NULL)
            return bad_upstream(i, "has two keys", err);
        json_object_foreach(upstream, name, value)
        {
            bool is_known = false;
            for (size_t k = 0; k < CF_COUNT(known); k++)
                is_known = is_known || strcmp(known[k], name) == 0;
            if (!is_known || !json_is_string(value) || json_string_length(value) == 0 ||
                json_string_length(value) > 4096 || strlen(json_string_value(value)) != json_string_length(value))
                return bad_upstream(i, "has a member that it cannot have, or one that is no text", err);
        }
    }
    return 0;
}

/* ephemeral_zdr: what a run writes beside what is asked to be taken out (collect) would outlive it. */
static int
check_keeps_nothing(const struct cf_run_options *options, struct cf_error *err)
{
    const struct {
        const char *path, *what, *flag;
    } files[] = {
        {options->record, "a recording", "--record"},
        {options->ledger, "the ledger's file", "--ledger"},
        {options->state_out, "a saved state", "--state-out"},
    };

    for (size_t i = 0; i < CF_COUNT(files); i++) {
        if (files[i].path == NULL)
            continue;
        (void)cf_error_set(err, CF_ERROR_CONFIG, 0, "%s outlives the run, and retention ephemeral_zdr keeps nothing",
                           files[i].what);
        return cf_error_fix(err, "leave out %s, or run with --retention durable", files[i].flag);
    }
    return 0;
}

int
cf_run_options_decode(const char *json, size_t len, struct cf_run_options *options, struct cf_error *err)
{
    static const struct cf_json_limits limits = {16u << 20, 40, 100000, true, true};

    memset(options, 0, sizeof *options);
    options->relay_port = 4180;
    options->max_calls_per_turn = 64;
    options->output_bytes = 256ull << 20;
    options->start_ms = 60000;
    options->initialize_ms = 30000;
    options->session_ms = 120000;
    options->turn_ms = 300000;
    options->whole_ms = 600000;
    options->grace_ms = 10000;
    options->drain_ms = 10000;
    options->hook_ms = 60000;
    options->pool_ttl_ms = 3600000;
    options->pool_seed_after = 4;
    options->collect_bytes = 1ull << 30;
    options->collect_entries = 100000;
    options->claim_ms = 120000;
    options->stop_ms = 300;
    options->model = "local-replay-model";
    options->json = cf_json_parse(json, len, &limits, err);
    if (options->json == NULL)
        return cf_error_wrap(err, "options");
    if (!json_is_object(options->json))
        return cf_error_set(err, CF_ERROR_CONFIG, 0, "options: not a JSON object");
    if (read_group(options->json, NULL, options, err) < 0)
        return -1;
    options->has_pool = json_object_get(options->json, "pool") != NULL;
    if (options->state_in != NULL)
        options->continues = true;
    if (options->is_ephemeral && check_keeps_nothing(options, err) < 0)
        return -1;
    if (check_env(options->env, err) < 0 || check_files(options->files, err) < 0 ||
        check_config(options->config, err) < 0 || check_journal(options, err) < 0 ||
        check_upstreams(options->upstreams, err) < 0)
        return -1;
    if (options->restore != NULL && cf_restore_check(options->restore, err) < 0)
        return -1;
    return check_hooks(options, err);
}

void
cf_run_options_done(struct cf_run_options *options)
{
    json_decref(options->json);
    memset(options, 0, sizeof *options);
}
