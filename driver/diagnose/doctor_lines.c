/*
 * Facts judged. A line is fine, or worth a look with the next step beside it, or it blocks: then
 * no run can work here whatever the harness is. What was not asked has no line; what the engine
 * does not say is told as such, and never taken for good.
 */
#include "diagnose/doctor.h"

#include "base/str.h"
#include "base/utf8.h"
#include "json/json.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define GIB (1024.0 * 1024 * 1024)
#define DISK_WANTED (5.0 * GIB)  /* a run may write 4 GiB, and the image is there too */
#define DISK_LEAST (0.25 * GIB)
#define MEMORY_WANTED (2.0 * GIB)
#define CLOCK_MOST_MS 30000 /* what a run leaves is dead ten minutes after its deadline */
#define FILES_LEAST 256

enum status { OK, WARNING, BLOCKING };

struct lines {
    const json_t *facts, *engine, *info;
    json_t *list;
    const char *group;
};

/* ---- writing ----------------------------------------------------------------------------- */

static void
add(struct lines *l, const char *id, enum status status, const char *next, const char *fact)
{
    static const char *const words[] = {"ok", "warning", "blocking"};

    (void)json_array_append_new(l->list, json_pack("{s:s, s:s, s:s, s:s, s:s?}", "id", id, "group", l->group, "status",
                                                   words[status], "fact", fact, "next", status == OK ? NULL : next));
}

static void __attribute__((format(printf, 5, 6)))
say(struct lines *l, const char *id, enum status status, const char *next, const char *fmt, ...)
{
    char fact[1200];
    va_list args;

    va_start(args, fmt);
    (void)vsnprintf(fact, sizeof fact, fmt, args);
    va_end(args);
    cf_utf8_make_line(fact); /* parts of it are the engine's own words */
    add(l, id, status, next, fact);
}

/* Something could not be asked or done. */
static bool
failed(struct lines *l, const char *id, enum status status, const json_t *answer, const char *next)
{
    const json_t *error = json_object_get(answer, "error");
    const char *fix = cf_json_str(error, "fix"), *message = cf_json_str(error, "message");

    if (!json_is_object(error))
        return false;
    say(l, id, status, fix != NULL ? fix : next, "%s", message != NULL ? message : "no answer");
    return true;
}

static const char *
text_of(const json_t *object, const char *name)
{
    const char *text = cf_json_str(object, name);

    return text != NULL ? text : "";
}

static bool
flag_of(const json_t *object, const char *name)
{
    return cf_json_bool(object, name, false);
}

/* ---- the engine -------------------------------------------------------------------------- */

static bool
engine_line(struct lines *l)
{
    const char *id = "engine";

    if (cf_json_int(json_object_get(l->engine, "error"), "code", 0) == EACCES)
        id = "permission";
    if (failed(l, id, BLOCKING, l->engine, "name the engine with --engine or DOCKER_HOST"))
        return false;
    say(l, "engine", OK, NULL, "%s %s at %s (%s), answered in %lld ms", flag_of(l->engine, "podman") ? "Podman" : "Docker Engine",
        text_of(l->engine, "version"), text_of(l->engine, "endpoint"), text_of(l->engine, "endpoint_source"),
        (long long)cf_json_int(l->engine, "took_ms", 0));
    return true;
}

static void
api_line(struct lines *l)
{
    const char *oldest = text_of(l->engine, "api_oldest");

    say(l, "api", OK, NULL, "version %s in use; the engine speaks %s%s%s", text_of(l->engine, "api"), oldest,
        *oldest != '\0' ? " to " : "up to ", text_of(l->engine, "api_newest"));
}

static void
permission_line(struct lines *l)
{
    const char *endpoint = text_of(l->engine, "endpoint");

    if (cf_str_starts(endpoint, "unix://"))
        say(l, "permission", OK, NULL, "this user may use %s", endpoint + strlen("unix://"));
    else if (flag_of(l->engine, "tls"))
        say(l, "permission", OK, NULL, "TLS, both sides checked");
    else
        say(l, "permission", WARNING, "let the engine listen with TLS, and set DOCKER_TLS_VERIFY and DOCKER_CERT_PATH",
            "plain TCP: whoever reaches %s is root on its machine", endpoint);
}

static void
place_line(struct lines *l)
{
    bool is_rootless = flag_of(l->engine, "rootless");
    const char *how = is_rootless ? "rootless" : "as root";

    if (flag_of(l->engine, "local"))
        say(l, "place", OK, NULL, "local, %s; %s, kernel %s", how,
            cf_json_str(l->info, "OperatingSystem") != NULL ? cf_json_str(l->info, "OperatingSystem") : text_of(l->engine, "os"),
            text_of(l->engine, "kernel"));
    else
        say(l, "place", WARNING,
            "for --build-context give --allow-registry-all-interfaces, and list that address in the engine's "
            "insecure-registries; --image needs neither",
            "remote, %s: a registry on 127.0.0.1 of this machine is out of its reach", how);
}

static void
builder_line(struct lines *l)
{
    const json_t *builder = json_object_get(l->facts, "builder");
    const char *preferred = text_of(l->engine, "builder_version");

    if (failed(l, "builder", WARNING, builder, "give --image NAME@sha256:HEX instead of --build-context"))
        return;
    if (!json_is_object(builder))
        return;
    say(l, "builder", OK, NULL, "%s built an image in %lld ms%s",
        flag_of(l->engine, "podman") ? "Podman's builder" : "the classic builder", (long long)cf_json_int(builder, "took_ms", 0),
        strcmp(preferred, "2") == 0 ? "; a Dockerfile that needs BuildKit is not for --build-context" : "");
}

/* ---- isolation ----------------------------------------------------------------------------- */

static void
cgroup_line(struct lines *l)
{
    static const struct {
        const char *member, *name;
        bool is_needed;
    } controllers[] = {{"MemoryLimit", "memory", true}, {"PidsLimit", "pids", true}, {"CpuCfsQuota", "cpu", true},
                       {"SwapLimit", "swap", false}};
    char has[80] = "", lacks[80] = "";
    bool is_blocking = false;
    const char *version = text_of(l->info, "CgroupVersion");

    for (size_t i = 0; i < CF_COUNT(controllers); i++) {
        bool is_there = flag_of(l->info, controllers[i].member);
        char *to = is_there ? has : lacks;
        (void)snprintf(to + strlen(to), sizeof has - strlen(to), "%s%s", *to != '\0' ? ", " : "", controllers[i].name);
        is_blocking |= !is_there && controllers[i].is_needed;
    }
    if (*lacks == '\0')
        say(l, "cgroup", OK, NULL, "version %s, %s: limits of %s", version, text_of(l->info, "CgroupDriver"), has);
    else if (!is_blocking)
        say(l, "cgroup", WARNING, "boot with swapaccount=1 on the kernel's command line, or without swap",
            "version %s: swap cannot be limited; a run's memory limit holds for memory alone", version);
    else
        say(l, "cgroup", BLOCKING,
            flag_of(l->engine, "rootless")
                ? "delegate the controllers to this user (cgroup v2, Delegate=cpu cpuset io memory pids of user@.service)"
                : "enable the controllers: cgroup_enable=memory on the kernel's command line, or a newer kernel",
            "version %s: no limit of %s; a run's limits would not be in force", version, lacks);
}

static void
seccomp_line(struct lines *l)
{
    const json_t *options = json_object_get(l->info, "SecurityOptions");
    const char *seccomp = NULL, *module = "";

    for (size_t i = 0; i < json_array_size(options); i++) {
        const char *text = json_string_value(json_array_get(options, i));
        if (text != NULL && cf_str_starts(text, "name=seccomp"))
            seccomp = text + strlen("name=seccomp");
        else if (text != NULL && cf_str_starts(text, "name=apparmor"))
            module = "; AppArmor";
        else if (text != NULL && cf_str_starts(text, "name=selinux"))
            module = "; SELinux";
    }
    if (seccomp == NULL)
        say(l, "seccomp", WARNING, "use a kernel with CONFIG_SECCOMP_FILTER and an engine built with seccomp",
            "the engine filters no system calls; cf-init's own filter is all there is");
    else if (strstr(seccomp, "unconfined") != NULL)
        say(l, "seccomp", WARNING, "take the seccomp-profile setting out of the engine's configuration",
            "the engine's default profile is unconfined; cf-init's own filter is all there is");
    else
        say(l, "seccomp", OK, NULL, "%s%s", *seccomp == ',' ? seccomp + 1 : "on", module);
}

static void
sandbox_line(struct lines *l)
{
    const json_t *sandbox = json_object_get(l->facts, "sandbox"), *left = json_object_get(l->facts, "left");

    if (failed(l, "sandbox", BLOCKING, sandbox, "cfrunner run -vv shows each step"))
        return;
    if (json_array_size(left) > 0)
        say(l, "sandbox", BLOCKING, "cfrunner reap", "%zu things of the trial could not be taken away: %s %s",
            json_array_size(left), text_of(json_array_get(left, 0), "kind"), text_of(json_array_get(left, 0), "id"));
    else if (json_is_object(sandbox))
        say(l, "sandbox", OK, NULL, "one of ours stood in %lld ms, its isolation and limits in force, and is gone",
            (long long)cf_json_int(sandbox, "took_ms", 0));
}

/* ---- storage and machine ----------------------------------------------------------------------- */

static bool
is_containerd_store(const json_t *info)
{
    const json_t *status = json_object_get(info, "DriverStatus");

    for (size_t i = 0; i < json_array_size(status); i++) {
        const json_t *pair = json_array_get(status, i);
        const char *value = json_string_value(json_array_get(pair, 1));
        if (value != NULL && strstr(value, "io.containerd.snapshotter") != NULL)
            return true;
    }
    return false;
}

static void
storage_lines(struct lines *l)
{
    const char *driver = text_of(l->info, "Driver");

    if (strcmp(driver, "vfs") == 0)
        say(l, "storage", WARNING, "use overlay2 (a disk with d_type), or fuse-overlayfs where rootless",
            "vfs: each container is a whole copy of its image");
    else if (strcmp(driver, "devicemapper") == 0 || strcmp(driver, "aufs") == 0)
        say(l, "storage", WARNING, "move to overlay2", "%s: newer engines do not have it any more", driver);
    else
        say(l, "storage", OK, NULL, "%s", *driver != '\0' ? driver : "not told");
    say(l, "image_store", OK, NULL, "%s", is_containerd_store(l->info) ? "containerd" : "graph driver");
}

static void
disk_line(struct lines *l)
{
    const json_t *disk = json_object_get(l->facts, "disk");
    double free_bytes = (double)cf_json_int(disk, "free_bytes", 0);
    const char *root = text_of(l->info, "DockerRootDir");
    enum status status = free_bytes < DISK_LEAST ? BLOCKING : free_bytes < DISK_WANTED ? WARNING : OK;

    if (!json_is_object(disk))
        say(l, "disk", WARNING, "look there with df, and have 5 GiB free", "%s cannot be seen from here",
            *root != '\0' ? root : "the engine's folder");
    else
        say(l, "disk", status, "docker system df shows what fills it; a run may write 4 GiB (--disk)",
            "%.1f GiB free for the engine in %s", free_bytes / GIB, root);
}

static void
machine_line(struct lines *l)
{
    double memory = (double)cf_json_int(l->info, "MemTotal", 0);

    say(l, "capacity", memory < MEMORY_WANTED ? WARNING : OK, "give runs less with --memory",
        "%lld cpus, %.1f GiB of memory; a run has 2 and 2 GiB", (long long)cf_json_int(l->info, "NCPU", 0), memory / GIB);
}

static void
arch_line(struct lines *l)
{
    const char *theirs = text_of(l->engine, "arch"), *ours = text_of(json_object_get(l->facts, "self"), "arch");
    const json_t *emulated = json_object_get(l->facts, "emulated");
    char others[80] = "";

    if (strcmp(text_of(l->engine, "os"), "linux") != 0)
        say(l, "architecture", BLOCKING, "switch the engine to Linux containers", "the engine runs %s containers",
            text_of(l->engine, "os"));
    for (size_t i = 0; i < json_array_size(emulated); i++) {
        const char *name = json_string_value(json_array_get(emulated, i));
        if (name != NULL && strcmp(name, theirs) != 0 && strstr(others, name) == NULL)
            (void)snprintf(others + strlen(others), sizeof others - strlen(others), "%s%s", *others != '\0' ? ", " : "", name);
    }
    if (*ours != '\0' && strcmp(theirs, ours) != 0)
        say(l, "architecture", BLOCKING, "use a cfrunner built for the engine's machine",
            "the engine is %s, this cfrunner brings a cf-init for %s", theirs, ours);
    else if (*others != '\0')
        say(l, "architecture", OK, NULL, "%s; %s by emulation", theirs, others);
    else if (emulated != NULL)
        say(l, "architecture", OK, NULL, "%s only, nothing is emulated", theirs);
    else
        say(l, "architecture", OK, NULL, "%s; emulation cannot be seen from here", theirs);
}

static void
clock_line(struct lines *l)
{
    const json_t *clock = json_object_get(l->facts, "clock");
    long long ahead = (long long)json_integer_value(clock);

    if (!json_is_integer(clock))
        say(l, "clock", WARNING, "compare the two by hand: deadlines of what a run leaves are written in our time",
            "the engine does not say its time");
    else if (ahead > CLOCK_MOST_MS || ahead < -CLOCK_MOST_MS)
        say(l, "clock", WARNING, "set both by NTP: what a run leaves is called dead by its deadline",
            "the engine's is %.0f s %s ours", (double)(ahead < 0 ? -ahead : ahead) / 1000, ahead < 0 ? "behind" : "ahead of");
    else
        say(l, "clock", OK, NULL, "the engine's and ours agree to %.1f s", (double)(ahead < 0 ? -ahead : ahead) / 1000);
}

/* ---- ours ---------------------------------------------------------------------------------------- */

static void
leftovers_line(struct lines *l)
{
    const json_t *left = json_object_get(l->facts, "leftovers");
    long long runs = (long long)cf_json_int(left, "runs", 0), foreign = (long long)cf_json_int(left, "foreign_runs", 0);

    if (!json_is_object(left) || failed(l, "leftovers", WARNING, left, "cfrunner reap --dry-run"))
        return;
    if (runs > 0)
        say(l, "leftovers", WARNING, "cfrunner reap", "%lld dead run(s) of ours left %lld things in the engine", runs,
            (long long)cf_json_int(left, "things", 0));
    else if (foreign > 0)
        say(l, "leftovers", WARNING, "cfrunner reap --all-dead-owners",
            "%lld dead run(s) of other installations left %lld things in the engine", foreign,
            (long long)cf_json_int(left, "foreign_things", 0));
    else
        say(l, "leftovers", OK, NULL, "no dead run left anything in the engine");
}

static void
own_lines(struct lines *l)
{
    const json_t *state = json_object_get(l->facts, "state"), *self = json_object_get(l->facts, "self");
    long long files = (long long)cf_json_int(self, "open_files", 0);

    if (!failed(l, "state", BLOCKING, state, "set CFRUNNER_STATE_DIR to a folder of your own") && json_is_object(state))
        say(l, "state", OK, NULL, "%s, ours alone", text_of(state, "directory"));
    if (json_is_object(self))
        say(l, "open_files", files < FILES_LEAST ? WARNING : OK, "raise it: ulimit -n 4096",
            "%lld at once; many runs need one each, and some", files);
}

json_t *
cf_doctor_lines(const json_t *facts)
{
    struct lines l = {.facts = facts,
                      .engine = json_object_get(facts, "engine"),
                      .info = json_object_get(facts, "info"),
                      .list = json_array(),
                      .group = "engine"};
    bool is_there = json_is_object(l.engine) && engine_line(&l);
    bool is_known = is_there && json_is_object(l.info);

    if (is_there) {
        api_line(&l);
        permission_line(&l);
        place_line(&l);
        builder_line(&l);
    }
    l.group = "isolation";
    if (is_known) {
        cgroup_line(&l);
        seccomp_line(&l);
    }
    if (is_there)
        sandbox_line(&l);
    l.group = "machine";
    if (is_known) {
        storage_lines(&l);
        disk_line(&l);
        machine_line(&l);
    }
    if (is_there) {
        arch_line(&l);
        clock_line(&l);
    }
    l.group = "cfrunner";
    leftovers_line(&l);
    own_lines(&l);
    return l.list;
}
