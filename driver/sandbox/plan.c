/*
 * The plan of one sandbox. What is sent here is exactly what sandbox/inforce.c looks for in
 * the engine's answer: an unknown or misspelt field is ignored silently by engines, so nothing
 * counts because it was asked for.
 */
#include "sandbox/plan.h"
#include "sandbox/program.h"

#include "base/str.h"
#include "base/utf8.h"
#include "json/json.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

#define MIB (1024ull * 1024ull)
#define LAYER_SPARE (64 * MIB)

/* ---- paths --------------------------------------------------------------------------- */

static bool
is_plain(const char *path)
{
    size_t len = strlen(path);

    if (path[0] != '/' || (len > 1 && path[len - 1] == '/'))
        return false;
    for (const char *at = path; at != NULL && *at != '\0'; at = strchr(at + 1, '/')) {
        size_t name = strcspn(at + 1, "/");
        if ((name == 0 && len > 1) || (name == 1 && at[1] == '.') ||
            (name == 2 && at[1] == '.' && at[2] == '.'))
            return false;
    }
    return true;
}

int
cf_plan_check_path(const char *path, const char *what, struct cf_error *err)
{
    if (path[0] != '/') {
        cf_error_set(err, CF_ERROR_CONFIG, 0, "%s %s is not an absolute path", what, path);
        return cf_error_fix(err, "give its absolute path inside the image, beginning with /");
    }
    if (strlen(path) >= 4096)
        return cf_error_set(err, CF_ERROR_CONFIG, 0, "%s is longer than 4,095 bytes", what);
    if (!cf_utf8_is_valid(path, strlen(path)))
        return cf_error_set(err, CF_ERROR_CONFIG, 0, "%s %s is not UTF-8", what, path);
    if (!is_plain(path)) {
        cf_error_set(err, CF_ERROR_CONFIG, 0,
                     "%s %s is not plain: no . or .. or // and no / at its end", what, path);
        return cf_error_fix(err, "write the path as it is inside the image");
    }
    return 0;
}

static bool
is_at_or_below(const char *path, const char *folder)
{
    size_t len = strlen(folder);

    return strncmp(path, folder, len) == 0 && (path[len] == '\0' || path[len] == '/');
}

int
cf_plan_check_workdir(const char *path, const char *whose, enum cf_error_kind kind,
                      struct cf_error *err)
{
    static const char *const refused[] = {"/tmp", "/proc", "/sys", "/dev", "/.cf"};
    char what[128];

    (void)snprintf(what, sizeof what, "the working directory (%s)", whose);
    if (cf_plan_check_path(path, what, err) < 0) {
        if (err != NULL)
            err->kind = kind;
        return -1;
    }
    bool is_refused = strcmp(path, "/") == 0;
    for (size_t i = 0; i < CF_COUNT(refused); i++)
        is_refused = is_refused || is_at_or_below(path, refused[i]);
    if (!is_refused)
        return 0;
    cf_error_set(err, kind, 0,
                 "%s %s cannot be one: /, /tmp, /proc, /sys, /dev, /.cf and what is below "
                 "these are not the image's own ground",
                 what, path);
    return cf_error_fix(err,
                        "choose another with --working-directory, for instance /workspace");
}

/* ---- limits -------------------------------------------------------------------------- */

void
cf_limits_fill(struct cf_sandbox_limits *limits, const struct cf_engine_facts *facts)
{
    if (limits->memory_bytes == 0)
        limits->memory_bytes = 2048 * MIB;
    if (limits->cpus <= 0)
        limits->cpus = 2;
    if (facts->ncpu > 0 && limits->cpus > facts->ncpu)
        limits->cpus = facts->ncpu;
    if (limits->pids == 0)
        limits->pids = 512;
    if (limits->nofile == 0)
        limits->nofile = 4096;
    if (limits->disk_bytes == 0)
        limits->disk_bytes = 4096 * MIB;
}

static int
check_limits(const struct cf_sandbox_limits *limits, struct cf_error *err)
{
    if (limits->memory_bytes < 16 * MIB)
        return cf_error_set(err, CF_ERROR_CONFIG, 0,
                            "a memory limit below 16 MiB leaves no room for a harness");
    if (limits->pids < 8)
        return cf_error_set(err, CF_ERROR_CONFIG, 0,
                            "a limit below 8 processes leaves no room for a harness");
    if (limits->nofile < 64)
        return cf_error_set(err, CF_ERROR_CONFIG, 0,
                            "a limit below 64 open files leaves no room for a harness");
    if (limits->cpus < 0.01)
        return cf_error_set(err, CF_ERROR_CONFIG, 0,
                            "a limit below 0.01 cpus is less than engines take");
    return 0;
}

/* ---- the image ----------------------------------------------------------------------- */

static int
check_platform(const struct cf_sandbox_options *options, const struct cf_engine_facts *facts,
               json_t *image, struct cf_plan *plan, struct cf_error *err)
{
    const char *os = cf_json_str(image, "Os"), *arch = cf_json_str(image, "Architecture");
    const char *wanted =
        options->platform_arch != NULL ? options->platform_arch : cf_arch_name(facts->arch);

    if (os != NULL && *os != '\0' && strcmp(os, "linux") != 0) {
        cf_error_set(err, CF_ERROR_IMAGE, 0, "the image is for %s; a harness runs on linux",
                     os);
        return cf_error_fix(err, "build the image for linux/%s", wanted);
    }
    if (arch != NULL && *arch != '\0' && *wanted != '\0' &&
        strcmp(cf_arch_name(arch), wanted) != 0) {
        cf_error_set(err, CF_ERROR_IMAGE, 0,
                     "the image is for linux/%s, but linux/%s is wanted%s", arch, wanted,
                     options->platform_arch != NULL ? "" : " (the engine's own)");
        return cf_error_fix(err, "build or pull it for that: docker build --platform linux/%s",
                            wanted);
    }
    return cf_str_copy(&plan->arch,
                       arch != NULL && *arch != '\0' ? cf_arch_name(arch) : wanted, err);
}

static int
choose_workdir(const struct cf_sandbox_options *options, json_t *config, struct cf_plan *plan,
               struct cf_error *err)
{
    const char *of_image = cf_json_str(config, "WorkingDir");
    char path[4096];

    if (options->working_directory != NULL) {
        plan->working_directory_from = "--working-directory";
        if (cf_plan_check_workdir(options->working_directory, plan->working_directory_from,
                                  CF_ERROR_CONFIG, err) < 0)
            return -1;
        return cf_str_copy(&plan->working_directory, options->working_directory, err);
    }
    /* "/" is what an image has that never thought about it. */
    if (of_image == NULL || *of_image == '\0' || strspn(of_image, "/") == strlen(of_image)) {
        plan->working_directory_from = "default";
        return cf_str_copy(&plan->working_directory, "/workspace", err);
    }
    plan->working_directory_from = "the image";
    size_t len = strlen(of_image);
    while (len > 1 && of_image[len - 1] == '/')
        len--;
    if (len >= sizeof path)
        return cf_error_set(err, CF_ERROR_IMAGE, 0,
                            "the image's WORKDIR is longer than 4,095 bytes");
    memcpy(path, of_image, len);
    path[len] = '\0';
    if (cf_plan_check_workdir(path, "the image's WORKDIR", CF_ERROR_IMAGE, err) < 0)
        return -1;
    return cf_str_copy(&plan->working_directory, path, err);
}

/* The image's VOLUMEs become named volumes of ours, with our labels, so that none is left
 * behind unlabelled. /tmp is a tmpfs of ours already and wins. */
static int
plan_volumes(json_t *config, const char *name, struct cf_plan *plan, struct cf_error *err)
{
    json_t *volumes = cf_json_obj(config, "Volumes"), *unused;
    const char *target;

    json_object_foreach(volumes, target, unused) {
        if (strcmp(target, "/tmp") == 0 || strcmp(target, "/tmp/") == 0)
            continue;
        if (target[0] != '/' || strlen(target) >= 4096 || strcmp(target, "/") == 0 ||
            is_at_or_below(target + strspn(target, "/") - 1, "/.cf/cf-init")) {
            cf_error_set(err, CF_ERROR_IMAGE, 0,
                         "the image declares VOLUME %s, which cannot be mounted", target);
            return cf_error_fix(err, "remove that VOLUME line from the Dockerfile");
        }
        if (plan->volume_count == CF_PLAN_VOLUMES_MOST) {
            cf_error_set(err, CF_ERROR_IMAGE, 0, "the image declares more than %d VOLUMEs",
                         CF_PLAN_VOLUMES_MOST);
            return cf_error_fix(err, "remove VOLUME lines from the Dockerfile");
        }
        struct cf_plan_volume *volume = &plan->volumes[plan->volume_count];
        if (cf_str_copy(&volume->target, target, err) < 0)
            return -1;
        (void)snprintf(volume->name, sizeof volume->name, "%.48s-v%zu", name,
                       plan->volume_count);
        plan->volume_count++;
    }
    return 0;
}

/* ---- the request --------------------------------------------------------------------- */

static bool
is_proxy_variable(const char *text)
{
    static const char *const names[] = {"http_proxy", "https_proxy", "ftp_proxy", "all_proxy",
                                        "no_proxy"};
    size_t len = strcspn(text, "=");

    for (size_t i = 0; i < CF_COUNT(names); i++) {
        if (strlen(names[i]) == len && strncasecmp(text, names[i], len) == 0)
            return true;
    }
    return false;
}

/* A name alone removes what the image has, on Docker; Podman would look the name up in its own
 * environment, so there the value is made empty. */
static int
append_proxy_removal(json_t *env, const char *entry, bool is_podman)
{
    char name[32];

    (void)snprintf(name, sizeof name, "%.*s%s", (int)strcspn(entry, "="), entry,
                   is_podman ? "=" : "");
    return json_array_append_new(env, json_string(name));
}

static json_t *
make_env(const struct cf_sandbox_options *options, json_t *config, bool is_podman)
{
    json_t *env = json_array(), *entry;
    size_t i;
    bool ok = env != NULL;

    json_array_foreach(cf_json_arr(config, "Env"), i, entry) {
        const char *text = json_string_value(entry);
        if (text != NULL && is_proxy_variable(text) && strncasecmp(text, "no_proxy", 8) != 0)
            ok = ok && append_proxy_removal(env, text, is_podman) == 0;
    }
    ok = ok && json_array_append_new(env, json_string("NO_PROXY=127.0.0.1,localhost")) == 0 &&
         json_array_append_new(env, json_string("no_proxy=127.0.0.1,localhost")) == 0;
    for (const char *const *at = options->env; ok && at != NULL && *at != NULL; at++)
        ok = json_array_append_new(env, json_string(*at)) == 0;
    if (ok)
        return env;
    json_decref(env);
    return NULL;
}

static int
keep_search_path(json_t *config, struct cf_plan *plan, struct cf_error *err)
{
    json_t *entry;
    size_t i;

    json_array_foreach(cf_json_arr(config, "Env"), i, entry) {
        const char *text = json_string_value(entry);
        if (text != NULL && cf_str_starts(text, "PATH="))
            return cf_str_copy(&plan->search_path, text + strlen("PATH="), err);
    }
    return 0;
}

static json_t *
make_mounts(const struct cf_plan *plan)
{
    json_t *mounts = json_array();

    for (size_t i = 0; i < plan->volume_count; i++)
        (void)json_array_append_new(mounts,
                                    json_pack("{s:s, s:s, s:s, s:b}", "Type", "volume",
                                              "Source", plan->volumes[i].name, "Target",
                                              plan->volumes[i].target, "ReadOnly", 0));
    if (json_array_size(mounts) == plan->volume_count)
        return mounts;
    json_decref(mounts);
    return NULL;
}

/* nofile alone makes Podman's own nproc default stand beside it, which may be above what its
 * service may set; so both there. On Docker nproc counts per host uid over all sandboxes. */
static json_t *
make_ulimits(const struct cf_plan *plan, bool is_podman)
{
    json_int_t nofile = (json_int_t)plan->limits.nofile;
    json_t *limits =
        json_pack("[{s:s, s:I, s:I}]", "Name", "nofile", "Soft", nofile, "Hard", nofile);

    if (is_podman && limits != NULL)
        (void)json_array_append_new(
            limits, json_pack("{s:s, s:i, s:i}", "Name", "nproc", "Soft", 8192, "Hard", 8192));
    return limits;
}

static json_t *
make_host_config(const struct cf_plan *plan, const struct cf_engine_facts *facts)
{
    char tmpfs[128];
    json_int_t memory = (json_int_t)plan->limits.memory_bytes;

    (void)snprintf(tmpfs, sizeof tmpfs, "rw,exec,nosuid,nodev,mode=1777,size=%llu",
                   (unsigned long long)plan->tmp_bytes);
    /* clang-format off */
    return json_pack("{s:s, s:[s], s:[], s:[s], s:b, s:b, s:s, s:s, s:I, s:I, s:I, s:I, s:o,"
                     " s:{s:s}, s:{s:s}, s:o, s:{s:s}, s:b, s:b, s:b, s:[], s:[]}",
                     "NetworkMode", "none",
                     "CapDrop", "ALL",
                     "CapAdd",
                     "SecurityOpt", "no-new-privileges:true",
                     "Privileged", 0,
                     "ReadonlyRootfs", 0,
                     "IpcMode", "private",
                     "CgroupnsMode", "private",
                     "Memory", memory,
                     "MemorySwap", memory,
                     "NanoCpus", (json_int_t)(plan->limits.cpus * 1e9),
                     "PidsLimit", (json_int_t)plan->limits.pids,
                     "Ulimits", make_ulimits(plan, facts->is_podman),
                     "Tmpfs", "/tmp", tmpfs,
                     "LogConfig", "Type", "none",
                     "Mounts", make_mounts(plan),
                     "RestartPolicy", "Name", "no",
                     "AutoRemove", 0,
                     "PublishAllPorts", 0,
                     "Init", 0,
                     "Devices",
                     "Binds");
    /* clang-format on */
}

/* cf-init listens there before it says hello. */
static json_t *
make_init_arguments(const struct cf_sandbox_options *options)
{
    char port[8];
    json_t *arguments = json_array();

    (void)snprintf(port, sizeof port, "%u",
                   options->relay_port != 0 ? options->relay_port & 0xffffu : 4180u);
    (void)json_array_append_new(arguments, json_string("--port"));
    (void)json_array_append_new(arguments, json_string(port));
    if (options->egress_port != 0) {
        (void)snprintf(port, sizeof port, "%u", options->egress_port & 0xffffu);
        (void)json_array_append_new(arguments, json_string("--port"));
        (void)json_array_append_new(arguments, json_string(port));
    }
    return arguments;
}

/*
 * A wall behind the disk watch, which looks every so often: what writes faster than it looks
 * meets it there. Not at the limit itself, or the watch would have nothing to tell. Where the
 * engine counts the image too, that is room on top.
 */
static void
limit_layer(const struct cf_engine_facts *facts, const json_t *image, struct cf_plan *plan)
{
    char size[24];
    int64_t own = facts->counts_image ? cf_json_int(image, "Size", -1) : 0;

    if (!facts->may_limit_layers || facts->is_podman || own < 0 || own > INT64_MAX / 4)
        return;
    plan->layer_bytes = plan->limits.disk_bytes + (uint64_t)own + LAYER_SPARE;
    (void)snprintf(size, sizeof size, "%llu", (unsigned long long)plan->layer_bytes);
    (void)json_object_set_new(cf_json_obj(plan->spec, "HostConfig"), "StorageOpt", json_pack("{s:s}", "size", size));
}

void
cf_plan_drop_layer_limit(struct cf_plan *plan)
{
    (void)json_object_del(cf_json_obj(plan->spec, "HostConfig"), "StorageOpt");
    plan->layer_bytes = 0;
}

static json_t *
make_spec(const struct cf_sandbox_options *options, const struct cf_engine_facts *facts,
          json_t *config, const struct cf_plan *plan)
{
    /* clang-format off */
    return json_pack("{s:s, s:[s], s:o, s:s, s:b, s:b, s:b, s:b, s:b, s:b, s:{s:[s]}, s:o, s:O, s:o}",
                     "Image", plan->image_id,
                     "Entrypoint", CF_INIT_PATH,
                     "Cmd", make_init_arguments(options),
                     "WorkingDir", "/",
                     "OpenStdin", 1,
                     "StdinOnce", 1,
                     "AttachStdin", 1,
                     "AttachStdout", 1,
                     "AttachStderr", 1,
                     "Tty", 0,
                     "Healthcheck", "Test", "NONE",
                     "Env", make_env(options, config, facts->is_podman),
                     "Labels", plan->labels,
                     "HostConfig", make_host_config(plan, facts));
    /* clang-format on */
}

/* ---- the door ------------------------------------------------------------------------ */

static int
fill(const struct cf_sandbox_options *options, const struct cf_engine_facts *facts,
     json_t *image, const char *name, json_t *labels, struct cf_plan *plan,
     struct cf_error *err)
{
    json_t *config = cf_json_obj(image, "Config");
    const char *id = cf_json_str(image, "Id"), *user = cf_json_str(config, "User");

    (void)snprintf(plan->name, sizeof plan->name, "%s", name);
    plan->labels = json_incref(labels);
    plan->limits = options->limits;
    cf_limits_fill(&plan->limits, facts);
    plan->tmp_bytes = plan->limits.memory_bytes / 2;
    if (check_limits(&plan->limits, err) < 0 ||
        check_platform(options, facts, image, plan, err) < 0 ||
        choose_workdir(options, config, plan, err) < 0 ||
        plan_volumes(config, name, plan, err) < 0)
        return -1;
    if (cf_str_copy(&plan->image_id, id != NULL ? id : options->image_id, err) < 0 ||
        cf_str_copy(&plan->user, user != NULL ? user : "", err) < 0 ||
        keep_search_path(config, plan, err) < 0)
        return -1;
    plan->spec = make_spec(options, facts, config, plan);
    if (plan->spec == NULL)
        return cf_error_memory(err);
    limit_layer(facts, image, plan);
    return 0;
}

int
cf_plan_make(const struct cf_sandbox_options *options, const struct cf_engine_facts *facts,
             json_t *image, const char *name, json_t *labels, struct cf_plan *ret,
             struct cf_error *err)
{
    memset(ret, 0, sizeof *ret);
    if (fill(options, facts, image, name, labels, ret, err) == 0)
        return 0;
    cf_plan_release(ret);
    return -1;
}

void
cf_plan_release(struct cf_plan *plan)
{
    for (size_t i = 0; i < plan->volume_count; i++)
        free(plan->volumes[i].target);
    free(plan->image_id);
    free(plan->user);
    free(plan->arch);
    free(plan->search_path);
    free(plan->working_directory);
    json_decref(plan->labels);
    json_decref(plan->spec);
    memset(plan, 0, sizeof *plan);
}
