/* What the doctor's questions came to, as JSON: of this process, of its kernel, of the engine. */
#include "diagnose/doctor.h"

#include "base/str.h"
#include "engine/engine.h"
#include "json/json.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/statvfs.h>
#include <sys/utsname.h>
#include <time.h>

json_t *
cf_doctor_error(const struct cf_error *err)
{
    json_t *error = json_pack("{s:s, s:i, s:s}", "message", err->text, "code", err->code, "type", cf_error_type(err->kind));

    if (err->fix[0] != '\0')
        (void)json_object_set_new(error, "fix", json_string(err->fix));
    return json_pack("{s:o}", "error", error);
}

json_t *
cf_doctor_engine_facts(const struct cf_engine_facts *f, uint64_t took_ms)
{
    /* clang-format off */
    return json_pack("{s:s, s:s, s:s, s:s, s:s, s:s, s:s, s:s, s:s, s:s, s:b, s:b, s:b, s:b, s:I}",
                     "endpoint", f->endpoint,
                     "endpoint_source", f->endpoint_source,
                     "version", f->version,
                     "api", f->api_version,
                     "api_oldest", f->api_version_min,
                     "api_newest", f->api_version_max,
                     "os", f->os,
                     "arch", f->arch,
                     "kernel", f->kernel,
                     "builder_version", f->builder_version,
                     "podman", (int)f->is_podman,
                     "rootless", (int)f->is_rootless,
                     "local", (int)f->is_local,
                     "tls", (int)f->is_tls,
                     "took_ms", (json_int_t)took_ms);
    /* clang-format on */
}

/* "2026-11-30T22:20:13.195992753Z" or with an offset, as ms since 1970; -1: not one. */
static int64_t
time_of(const char *text)
{
    struct tm tm = {0};
    int at = 0, hours = 0, minutes = 0;
    double fraction = 0;
    char sign;

    if (sscanf(text, "%4d-%2d-%2dT%2d:%2d:%2d%n", &tm.tm_year, &tm.tm_mon, &tm.tm_mday, &tm.tm_hour, &tm.tm_min,
               &tm.tm_sec, &at) != 6)
        return -1;
    text += at;
    if (*text == '.') {
        fraction = strtod(text, NULL);
        text += 1 + strspn(text + 1, "0123456789");
    }
    if (*text != 'Z' && sscanf(text, "%c%2d:%2d", &sign, &hours, &minutes) != 3)
        return -1;
    if (*text == '-')
        hours = -hours, minutes = -minutes;
    tm.tm_year -= 1900;
    tm.tm_mon -= 1;
    return (int64_t)timegm(&tm) * 1000 + (int64_t)(fraction * 1000) - (hours * 60 + minutes) * 60000;
}

/* The engine looked at its clock at some time between: whatever could be the question's own
 * time is no difference. */
json_t *
cf_doctor_clock(const char *engine_time, int64_t began_ms, int64_t ended_ms)
{
    int64_t theirs = engine_time != NULL ? time_of(engine_time) : -1, ahead = 0;

    if (theirs < 0)
        return NULL;
    if (theirs < began_ms)
        ahead = theirs - began_ms;
    else if (theirs > ended_ms)
        ahead = theirs - ended_ms;
    return json_integer(ahead);
}

json_t *
cf_doctor_disk(const char *path)
{
    char copy[4096];
    struct statvfs fs;

    if (path == NULL || path[0] != '/' || strlen(path) >= sizeof copy)
        return NULL;
    memcpy(copy, path, strlen(path) + 1);
    /* A folder that is closed to us is on the disk of the one above it, as a rule; one that is not
     * there is not this machine's (an engine in a virtual machine has a local socket, too). */
    while (statvfs(copy, &fs) < 0) {
        char *slash = strrchr(copy, '/');
        if (errno != EACCES || slash == copy)
            return NULL;
        *slash = '\0';
    }
    return json_pack("{s:s, s:I}", "path", copy, "free_bytes", (json_int_t)((uint64_t)fs.f_bavail * fs.f_frsize));
}

/* binfmt_misc: one file an interpreter, "enabled" on its first line. */
json_t *
cf_doctor_emulated(void)
{
    static const struct {
        const char *file, *arch;
    } known[] = {{"qemu-x86_64", "amd64"}, {"qemu-aarch64", "arm64"}, {"qemu-arm", "arm"}, {"rosetta", "amd64"}};
    json_t *names = json_array();
    char path[80], line[16];

    for (size_t i = 0; i < CF_COUNT(known); i++) {
        (void)snprintf(path, sizeof path, "/proc/sys/fs/binfmt_misc/%s", known[i].file);
        FILE *file = fopen(path, "re");
        if (file == NULL)
            continue;
        if (fgets(line, sizeof line, file) != NULL && cf_str_starts(line, "enabled"))
            (void)json_array_append_new(names, json_string(known[i].arch));
        (void)fclose(file);
    }
    return names;
}

json_t *
cf_doctor_self(void)
{
    struct rlimit files = {0};
    struct utsname name = {0};

    (void)getrlimit(RLIMIT_NOFILE, &files);
    (void)uname(&name);
    return json_pack("{s:s, s:s, s:I}", "arch",
#if defined __aarch64__
                     "arm64",
#else
                     "amd64",
#endif
                     "kernel", name.release, "open_files",
                     (json_int_t)(files.rlim_cur == RLIM_INFINITY ? INT32_MAX : files.rlim_cur));
}

json_t *
cf_doctor_leftovers(const json_t *report, const char *owner_id)
{
    json_int_t runs[2] = {0}, things[2] = {0};
    json_t *dead = json_object_get(report, "dead"), *run;
    size_t i;

    json_array_foreach(dead, i, run)
    {
        bool is_foreign = !cf_str_same(cf_json_str(run, "owner"), owner_id);
        runs[is_foreign]++;
        things[is_foreign] += (json_int_t)json_array_size(json_object_get(run, "resources"));
    }
    return json_pack("{s:I, s:I, s:I, s:I}", "runs", runs[0], "things", things[0], "foreign_runs", runs[1],
                     "foreign_things", things[1]);
}
