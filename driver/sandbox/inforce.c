/*
 * Asked against in force. By meaning: Podman gives "CapDrop": ["ALL"] back as the list of
 * names, writes no-new-privileges without ":true", and adds to tmpfs options of its own; null,
 * absent and empty are the same; a list may hold more where more is stricter.
 */
#include "sandbox/inforce.h"

#include "base/str.h"
#include "json/json.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

struct look {
    const struct cf_plan *plan;
    const struct cf_engine_facts *facts;
    const json_t *config, *host;
    struct cf_error *err;
};

static int
differs(const struct look *look, const char *what, const char *asked, const json_t *value)
{
    cf_auto_free char *is = value != NULL ? cf_json_dump(value, NULL) : NULL;

    cf_error_set(look->err, CF_ERROR_ENGINE, 0,
                 "the engine did not put %s in force: asked for %s, inspect says %.200s", what,
                 asked, is != NULL ? is : "nothing");
    return cf_error_fix(look->err,
                        "this engine (%s) cannot isolate a harness as it must be; use Docker "
                        "Engine 20.10 or newer on a kernel with that feature",
                        look->facts->version);
}

/* ---- the small comparisons ----------------------------------------------------------- */

static int
expect_text(const struct look *look, const json_t *object, const char *name, const char *asked)
{
    const char *is = cf_json_str(object, name);

    if (cf_str_same(is != NULL ? is : "", asked))
        return 0;
    return differs(look, name, asked[0] != '\0' ? asked : "none",
                   json_object_get(object, name));
}

static int
expect_number(const struct look *look, const json_t *object, const char *name, uint64_t asked)
{
    char text[32];

    if (cf_json_int(object, name, -1) == (int64_t)asked)
        return 0;
    (void)snprintf(text, sizeof text, "%llu", (unsigned long long)asked);
    return differs(look, name, text, json_object_get(object, name));
}

static int
expect_bool(const struct look *look, const json_t *object, const char *name, bool asked)
{
    if (cf_json_bool(object, name, false) == asked)
        return 0;
    return differs(look, name, asked ? "true" : "false", json_object_get(object, name));
}

/* null, absent, false and empty are the same. */
static int
expect_nothing(const struct look *look, const json_t *object, const char *name)
{
    const json_t *value = json_object_get(object, name);
    bool is_empty = value == NULL || json_is_null(value) || json_is_false(value) ||
                    (json_is_array(value) && json_array_size(value) == 0) ||
                    (json_is_object(value) && json_object_size(value) == 0);

    return is_empty ? 0 : differs(look, name, "none", value);
}

static bool
has_text(const json_t *list, const char *text)
{
    const json_t *item;
    size_t i;

    for (i = 0; i < json_array_size(list); i++) {
        item = json_array_get(list, i);
        if (json_is_string(item) && strcasecmp(json_string_value(item), text) == 0)
            return true;
    }
    return false;
}

/* ---- what is compared ---------------------------------------------------------------- */

/* ALL, or by name at least those that lead out of a container. */
static bool
drops_all(const json_t *list)
{
    static const char *const names[] = {
        "CHOWN",  "DAC_OVERRIDE", "FOWNER",           "FSETID",     "KILL",   "SETGID",
        "SETUID", "SETPCAP",      "NET_BIND_SERVICE", "SYS_CHROOT", "SETFCAP"};
    char full[64];

    if (has_text(list, "ALL") || has_text(list, "CAP_ALL"))
        return true;
    for (size_t i = 0; i < CF_COUNT(names); i++) {
        (void)snprintf(full, sizeof full, "CAP_%s", names[i]);
        if (!has_text(list, names[i]) && !has_text(list, full))
            return false;
    }
    return true;
}

static int
check_privileges(const struct look *look)
{
    const json_t *options = json_object_get(look->host, "SecurityOpt"),
                 *drop = json_object_get(look->host, "CapDrop");
    bool is_closed = false;

    if (!drops_all(drop))
        return differs(look, "CapDrop", "ALL", drop);
    for (size_t i = 0; i < json_array_size(options); i++) {
        const char *text = json_string_value(json_array_get(options, i));
        if (text == NULL)
            continue;
        if (strcmp(text, "no-new-privileges") == 0 ||
            strcmp(text, "no-new-privileges:true") == 0 ||
            strcmp(text, "no-new-privileges=true") == 0)
            is_closed = true;
        if (strstr(text, "unconfined") != NULL || strstr(text, "label=disable") != NULL)
            return differs(look, "SecurityOpt", "the engine's own profiles", options);
    }
    if (!is_closed)
        return differs(look, "SecurityOpt", "no-new-privileges", options);
    return expect_nothing(look, look->host, "CapAdd") < 0 ||
                   expect_bool(look, look->host, "Privileged", false) < 0 ||
                   expect_nothing(look, look->host, "Devices") < 0 ||
                   expect_nothing(look, look->host, "DeviceRequests") < 0 ||
                   expect_nothing(look, look->host, "DeviceCgroupRules") < 0
               ? -1
               : 0;
}

/* "" and "private" are a container's own; "host", "container:.." and "ns:.." are not. Podman
 * calls its own "shareable": somebody could be let in by the engine, and nobody is. */
static int
expect_own_namespace(const struct look *look, const char *name)
{
    const char *is = cf_json_str(look->host, name);

    if (is == NULL || *is == '\0' || strcmp(is, "private") == 0 ||
        (look->facts->is_podman && strcmp(is, "shareable") == 0))
        return 0;
    return differs(look, name, "a namespace of its own", json_object_get(look->host, name));
}

static int
check_namespaces(const struct look *look)
{
    if (expect_text(look, look->host, "NetworkMode", "none") < 0 ||
        expect_nothing(look, look->host, "PortBindings") < 0 ||
        expect_bool(look, look->host, "PublishAllPorts", false) < 0)
        return -1;
    return expect_own_namespace(look, "PidMode") < 0 ||
                   expect_own_namespace(look, "IpcMode") < 0 ||
                   expect_own_namespace(look, "UTSMode") < 0 ||
                   expect_own_namespace(look, "UsernsMode") < 0 ||
                   expect_own_namespace(look, "CgroupnsMode") < 0
               ? -1
               : 0;
}

/* Where the kernel cannot limit swap the engine says so in /info; then no limit of swap is no
 * lie. */
static int
check_memory(const struct look *look)
{
    int64_t swap = cf_json_int(look->host, "MemorySwap", 0);

    if (expect_number(look, look->host, "Memory", look->plan->limits.memory_bytes) < 0)
        return -1;
    if (swap == (int64_t)look->plan->limits.memory_bytes ||
        (!look->facts->has_swap_limit && swap <= 0))
        return 0;
    return expect_number(look, look->host, "MemorySwap", look->plan->limits.memory_bytes);
}

/* NanoCpus, or the same said as quota over period. */
static int
check_cpus(const struct look *look)
{
    uint64_t nano = (uint64_t)(look->plan->limits.cpus * 1e9);
    int64_t quota = cf_json_int(look->host, "CpuQuota", 0),
            period = cf_json_int(look->host, "CpuPeriod", 0);

    if (quota > 0 && period > 0) {
        double cpus = (double)quota / (double)period, off = cpus - look->plan->limits.cpus;
        if (off < 0.01 && off > -0.01)
            return 0;
    }
    return expect_number(look, look->host, "NanoCpus", nano);
}

static int
check_ulimits(const struct look *look)
{
    const json_t *list = json_object_get(look->host, "Ulimits");

    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *limit = json_array_get(list, i);
        const char *name = cf_json_str(limit, "Name");
        if (name != NULL &&
            (strcasecmp(name, "nofile") == 0 || strcasecmp(name, "RLIMIT_NOFILE") == 0) &&
            cf_json_int(limit, "Hard", -1) == (int64_t)look->plan->limits.nofile)
            return 0;
    }
    return differs(look, "Ulimits", "the limit of open files", list);
}

/* The options are an unordered list; "exec" is said by the absence of "noexec" on some
 * engines. */
static int
check_tmpfs(const struct look *look)
{
    const char *options = cf_json_str(cf_json_obj(look->host, "Tmpfs"), "/tmp");
    char size[48];
    const char *at;

    (void)snprintf(size, sizeof size, "size=%llu", (unsigned long long)look->plan->tmp_bytes);
    at = options != NULL ? strstr(options, size) : NULL;
    if (at != NULL && (at[strlen(size)] == '\0' || at[strlen(size)] == ',') &&
        strstr(options, "nosuid") != NULL && strstr(options, "nodev") != NULL &&
        strstr(options, "noexec") == NULL)
        return 0;
    return differs(look, "Tmpfs", size, json_object_get(look->host, "Tmpfs"));
}

static bool
is_our_volume(const struct cf_plan *plan, const char *name, size_t len)
{
    for (size_t v = 0; v < plan->volume_count; v++) {
        if (strlen(plan->volumes[v].name) == len &&
            strncmp(plan->volumes[v].name, name, len) == 0)
            return true;
    }
    return false;
}

/* Podman tells its mounts as binds, too: "volume:/target:options". */
static int
check_binds(const struct look *look)
{
    const json_t *binds = json_object_get(look->host, "Binds");

    for (size_t i = 0; i < json_array_size(binds); i++) {
        const char *text = json_string_value(json_array_get(binds, i));
        if (text == NULL || !is_our_volume(look->plan, text, strcspn(text, ":")))
            return differs(look, "Binds", "none", binds);
    }
    return 0;
}

/* Nothing of the host is mounted, and each volume is one of ours. */
static int
check_mounts(const struct look *look, const json_t *mounts)
{
    size_t found = 0;

    if (check_binds(look) < 0 || expect_nothing(look, look->host, "VolumesFrom") < 0)
        return -1;
    for (size_t i = 0; i < json_array_size(mounts); i++) {
        const json_t *mount = json_array_get(mounts, i);
        const char *type = cf_json_str(mount, "Type"), *name = cf_json_str(mount, "Name");
        if (type != NULL && strcmp(type, "tmpfs") == 0)
            continue;
        if (!cf_str_same(type, "volume") || name == NULL ||
            !is_our_volume(look->plan, name, strlen(name)))
            return differs(look, "Mounts", "volumes of ours only", mounts);
        found++;
    }
    if (found != look->plan->volume_count)
        return differs(look, "Mounts", "a volume of ours for each VOLUME of the image",
                       mounts);
    return 0;
}

static int
check_limits(const struct look *look)
{
    if (check_memory(look) < 0 || check_cpus(look) < 0 || check_ulimits(look) < 0 ||
        check_tmpfs(look) < 0)
        return -1;
    if (cf_json_bool(look->host, "OomKillDisable", false))
        return differs(look, "OomKillDisable", "false",
                       json_object_get(look->host, "OomKillDisable"));
    return expect_number(look, look->host, "PidsLimit", look->plan->limits.pids);
}

static bool
is_proxy_value(const char *entry)
{
    static const char *const names[] = {
        "http_proxy=", "https_proxy=", "ftp_proxy=", "all_proxy="};

    for (size_t i = 0; i < CF_COUNT(names); i++) {
        size_t len = strlen(names[i]);
        if (strncasecmp(entry, names[i], len) == 0 && entry[len] != '\0')
            return true;
    }
    return false;
}

/* The environment is the image's and ours. A proxy in it came from the host or the image, and
 * its URL may hold a password: it is not quoted. */
static int
check_env(const struct look *look)
{
    const json_t *env = json_object_get(look->config, "Env"),
                 *asked = json_object_get(look->plan->spec, "Env");

    for (size_t i = 0; i < json_array_size(env); i++) {
        const char *text = json_string_value(json_array_get(env, i));
        if (text == NULL || !is_proxy_value(text) || has_text(asked, text))
            continue;
        cf_error_set(look->err, CF_ERROR_ENGINE, 0,
                     "the engine put a proxy variable (%.*s) into the sandbox",
                     (int)strcspn(text, "="), text);
        return cf_error_fix(
            look->err,
            "on Podman set http_proxy = false under [containers] in containers.conf");
    }
    for (size_t i = 0; i < json_array_size(asked); i++) {
        const char *text = json_string_value(json_array_get(asked, i));
        if (strchr(text, '=') != NULL && !has_text(env, text)) {
            cf_error_set(look->err, CF_ERROR_ENGINE, 0,
                         "the engine did not set the variable %.*s", (int)strcspn(text, "="),
                         text);
            return -1;
        }
    }
    return 0;
}

static int
check_process(const struct look *look)
{
    const json_t *entrypoint = json_object_get(look->config, "Entrypoint");
    const json_t *labels = json_object_get(look->config, "Labels");
    const char *name, *is;
    json_t *value;

    /* Podman says a one-word entrypoint as a string. */
    is = json_is_string(entrypoint) ? json_string_value(entrypoint)
                                    : json_string_value(json_array_get(entrypoint, 0));
    if (!cf_str_same(is, CF_INIT_PATH) || json_array_size(entrypoint) > 1)
        return differs(look, "Entrypoint", CF_INIT_PATH, entrypoint);
    if (expect_bool(look, look->config, "OpenStdin", true) < 0 ||
        (!look->facts->is_podman && /* which acts as if, and does not say so */
         expect_bool(look, look->config, "StdinOnce", true) < 0) ||
        expect_bool(look, look->config, "Tty", false) < 0 ||
        expect_text(look, look->config, "User", look->plan->user) < 0 || check_env(look) < 0)
        return -1;
    json_object_foreach(look->plan->labels, name, value) {
        if (!cf_str_same(cf_json_str(labels, name), json_string_value(value)))
            return differs(look, name, json_string_value(value),
                           json_object_get(labels, name));
    }
    return 0;
}

/* Podman takes "none" and may call it otherwise; output is not logged either way. */
static int
check_log(const struct look *look)
{
    const char *type = cf_json_str(cf_json_obj(look->host, "LogConfig"), "Type");

    if (cf_str_same(type, "none") ||
        (look->facts->is_podman && cf_str_same(type, "passthrough")))
        return 0;
    return differs(look, "LogConfig", "none", json_object_get(look->host, "LogConfig"));
}

int
cf_inforce_check(const struct cf_plan *plan, const struct cf_engine_facts *facts,
                 const json_t *inspect, struct cf_error *err)
{
    struct look look = {.plan = plan,
                        .facts = facts,
                        .config = cf_json_obj(inspect, "Config"),
                        .host = cf_json_obj(inspect, "HostConfig"),
                        .err = err};

    if (look.config == NULL || look.host == NULL)
        return cf_error_set(
            err, CF_ERROR_ENGINE, 0,
            "the engine's inspection of the container has no Config or no HostConfig");
    return check_privileges(&look) < 0 || check_namespaces(&look) < 0 ||
                   check_limits(&look) < 0 ||
                   check_mounts(&look, json_object_get(inspect, "Mounts")) < 0 ||
                   check_log(&look) < 0 || check_process(&look) < 0 ||
                   expect_bool(&look, look.host, "AutoRemove", false) < 0
               ? -1
               : 0;
}

/* ---- for the result ------------------------------------------------------------------ */

static json_t *
volume_targets(const struct cf_plan *plan)
{
    json_t *targets = json_array();

    for (size_t i = 0; i < plan->volume_count; i++)
        (void)json_array_append_new(targets, json_string(plan->volumes[i].target));
    return targets;
}

json_t *
cf_inforce_isolation(const struct cf_plan *plan, const json_t *inspect)
{
    const json_t *host = cf_json_obj(inspect, "HostConfig");
    const char *tmpfs = cf_json_str(cf_json_obj(host, "Tmpfs"), "/tmp"),
               *cgroupns = cf_json_str(host, "CgroupnsMode");

    /* clang-format off */
    return json_pack("{s:s, s:[s], s:[], s:b, s:s, s:b, s:s, s:b, s:[], s:[], s:o, s:s, s:s, s:s, s:s, s:b}",
                     "network", "none",
                     "cap_drop", "ALL",
                     "cap_add",
                     "no_new_privileges", 1,
                     "seccomp", "engine default, and cf-init's own",
                     "privileged", 0,
                     "user", plan->user[0] != '\0' ? plan->user : "root",
                     "read_only_root", 0,
                     "devices",
                     "host_mounts",
                     "volumes", volume_targets(plan),
                     "tmpfs_tmp", tmpfs != NULL ? tmpfs : "",
                     "log_driver", "none",
                     "ipc", "private",
                     "cgroup_namespace", cgroupns != NULL && *cgroupns != '\0' ? cgroupns : "engine default",
                     "health_check", 0);
    /* clang-format on */
}

json_t *
cf_inforce_limits(const struct cf_plan *plan, const struct cf_engine_facts *facts,
                  const json_t *inspect)
{
    const json_t *host = cf_json_obj(inspect, "HostConfig");
    int64_t swap = cf_json_int(host, "MemorySwap", 0);
    json_t *extra =
        swap > 0 ? json_integer(swap - (int64_t)plan->limits.memory_bytes) : json_null();

    const char *layer = cf_json_str(cf_json_obj(host, "StorageOpt"), "size");
    json_int_t layer_bytes = layer != NULL ? (json_int_t)strtoull(layer, NULL, 10) : 0;

    /* null: this kernel cannot limit swap; this engine cannot limit a layer, only the watch does */
    /* clang-format off */
    return json_pack("{s:I, s:o, s:f, s:I, s:I, s:I, s:I, s:o}",
                     "memory_bytes", (json_int_t)plan->limits.memory_bytes,
                     "swap_bytes", extra,
                     "cpus", plan->limits.cpus,
                     "pids", (json_int_t)plan->limits.pids,
                     "nofile", (json_int_t)plan->limits.nofile,
                     "disk_bytes", (json_int_t)plan->limits.disk_bytes,
                     "tmp_bytes", (json_int_t)plan->tmp_bytes,
                     "layer_bytes", layer_bytes > 0 ? json_integer(layer_bytes) : json_null());
    /* clang-format on */
}
