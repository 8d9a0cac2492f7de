/*
 * Labels: the paper trail of ownership. Other programs and other people can write labels too
 * (an image's own labels are inherited by every container made from it), so reading is strict.
 */
#include "sandbox/labels.h"

#include "base/clock.h"
#include "base/str.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

/* ---- the process --------------------------------------------------------------------- */

/* First line of a small file in /proc, without its newline. */
static int
read_line(const char *path, char *out, size_t size)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n;

    if (fd < 0)
        return -1;
    n = read(fd, out, size - 1);
    close(fd);
    if (n <= 0)
        return -1;
    out[n] = '\0';
    out[strcspn(out, "\n")] = '\0';
    return 0;
}

/* Field 22. The second field, a name in parentheses, may hold anything, so count from its end.
 */
static bool
read_start_ticks(uint64_t pid, uint64_t *ret_ticks)
{
    char path[64], line[1024];
    char *at;

    (void)snprintf(path, sizeof path, "/proc/%llu/stat", (unsigned long long)pid);
    if (read_line(path, line, sizeof line) < 0 || (at = strrchr(line, ')')) == NULL)
        return false;
    for (int field = 2; field < 22; field++) {
        at = strchr(at + 1, ' ');
        if (at == NULL)
            return false;
    }
    at++;
    at[strcspn(at, " ")] = '\0';
    return cf_parse_u64(at, 0, UINT64_MAX, ret_ticks);
}

bool
cf_process_is_alive(uint64_t pid, uint64_t start_ticks)
{
    uint64_t now;

    return read_start_ticks(pid, &now) && now == start_ticks;
}

int
cf_process_identity_self(struct cf_process_identity *ret, struct cf_error *err)
{
    struct cf_process_identity self = {0};
    struct stat st;

    if (read_line("/proc/sys/kernel/random/boot_id", self.boot, sizeof self.boot) < 0)
        return cf_error_set(err, CF_ERROR_INTERNAL, errno,
                            "cannot read the kernel's boot id: %s", strerror(errno));
    if (stat("/proc/self/ns/pid", &st) < 0)
        return cf_error_set(err, CF_ERROR_INTERNAL, errno, "cannot read our pid namespace: %s",
                            strerror(errno));
    self.pidns = st.st_ino;
    self.pid = (uint64_t)getpid();
    if (!read_start_ticks(self.pid, &self.start_ticks))
        return cf_error_set(err, CF_ERROR_INTERNAL, 0,
                            "cannot read our own start time from /proc");
    *ret = self;
    return 0;
}

void
cf_process_identity_write(const struct cf_process_identity *identity, char out[120])
{
    (void)snprintf(out, 120, "%s:%llu:%llu:%llu", identity->boot,
                   (unsigned long long)identity->pidns, (unsigned long long)identity->pid,
                   (unsigned long long)identity->start_ticks);
}

static bool
is_boot_id(const char *text)
{
    size_t len = strlen(text);

    return len > 0 && len < sizeof((struct cf_process_identity *)NULL)->boot &&
           strspn(text, "0123456789abcdef-") == len;
}

bool
cf_process_identity_read(const char *text, struct cf_process_identity *ret)
{
    struct cf_process_identity read = {0};
    char copy[120];
    char *field[4], *at = copy;
    size_t len = strlen(text);

    if (len >= sizeof copy)
        return false;
    memcpy(copy, text, len + 1);
    for (int i = 0; i < 4; i++) {
        field[i] = at;
        at = strchr(at, ':');
        if ((at == NULL) != (i == 3))
            return false;
        if (at != NULL)
            *at++ = '\0';
    }
    if (!is_boot_id(field[0]) || !cf_parse_u64(field[1], 1, UINT64_MAX, &read.pidns) ||
        !cf_parse_u64(field[2], 1, INT32_MAX, &read.pid) ||
        !cf_parse_u64(field[3], 0, UINT64_MAX, &read.start_ticks))
        return false;
    memcpy(read.boot, field[0], strlen(field[0]) + 1);
    *ret = read;
    return true;
}

/* ---- the labels ---------------------------------------------------------------------- */

json_t *
cf_labels_write(const struct cf_labels *labels)
{
    char process[120], created[21], deadline[21];

    cf_process_identity_write(&labels->process, process);
    cf_clock_rfc3339(labels->created, created);
    cf_clock_rfc3339(labels->deadline, deadline);
    /* clang-format off */
    return json_pack("{s:s, s:s, s:s, s:s, s:s, s:s, s:s, s:s}",
                     CF_LABEL, "",
                     CF_LABEL ".schema", CF_LABEL_SCHEMA,
                     CF_LABEL ".owner", labels->owner,
                     CF_LABEL ".run", labels->run,
                     CF_LABEL ".sandbox", labels->sandbox,
                     CF_LABEL ".process", process,
                     CF_LABEL ".created", created,
                     CF_LABEL ".deadline", deadline);
    /* clang-format on */
}

bool
cf_labels_is_id(const char *text, const char *prefix)
{
    size_t skip = strlen(prefix);

    return cf_str_starts(text, prefix) && strlen(text) == skip + 32 &&
           cf_is_hex(text + skip, 32);
}

/* Exactly the form that cf_clock_rfc3339 writes. Written again, it must come out the same,
 * which refuses 31 February without a calendar of our own. */
bool
cf_labels_read_time(const char *text, int64_t *ret_unix)
{
    struct tm tm = {0};
    char again[21];
    int used = 0;

    if (strlen(text) != 20 ||
        sscanf(text, "%4d-%2d-%2dT%2d:%2d:%2dZ%n", &tm.tm_year, &tm.tm_mon, &tm.tm_mday,
               &tm.tm_hour, &tm.tm_min, &tm.tm_sec, &used) != 6 ||
        used != 20)
        return false;
    tm.tm_year -= 1900;
    tm.tm_mon -= 1;
    int64_t unix_s = timegm(&tm);
    cf_clock_rfc3339(unix_s, again);
    if (unix_s < 0 || strcmp(again, text) != 0)
        return false;
    *ret_unix = unix_s;
    return true;
}

/* A name as the engine allows it, or empty. */
static bool
is_name(const char *text)
{
    static const char ok[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-";
    size_t len = strlen(text);

    return len < sizeof((struct cf_labels *)NULL)->sandbox && strspn(text, ok) == len;
}

/* A label's text; NULL also when a U+0000 inside would hide its rest from us. */
static const char *
label(const json_t *object, const char *name)
{
    const json_t *value = json_object_get(object, name);

    if (!json_is_string(value) ||
        strlen(json_string_value(value)) != json_string_length(value))
        return NULL;
    return json_string_value(value);
}

bool
cf_labels_read(const json_t *object, struct cf_labels *ret)
{
    struct cf_labels read = {0};
    const char *marker = label(object, CF_LABEL), *schema = label(object, CF_LABEL ".schema");
    const char *owner = label(object, CF_LABEL ".owner"),
               *run = label(object, CF_LABEL ".run");
    const char *sandbox = label(object, CF_LABEL ".sandbox");
    const char *process = label(object, CF_LABEL ".process");
    const char *created = label(object, CF_LABEL ".created");
    const char *deadline = label(object, CF_LABEL ".deadline");

    if (marker == NULL || *marker != '\0' || schema == NULL ||
        strcmp(schema, CF_LABEL_SCHEMA) != 0)
        return false;
    if (owner == NULL || !cf_labels_is_id(owner, "own_") || run == NULL ||
        !cf_labels_is_id(run, "run_"))
        return false;
    if (sandbox == NULL || !is_name(sandbox) || process == NULL ||
        !cf_process_identity_read(process, &read.process))
        return false;
    if (created == NULL || !cf_labels_read_time(created, &read.created) || deadline == NULL ||
        !cf_labels_read_time(deadline, &read.deadline))
        return false;
    memcpy(read.owner, owner, strlen(owner) + 1);
    memcpy(read.run, run, strlen(run) + 1);
    memcpy(read.sandbox, sandbox, strlen(sandbox) + 1);
    *ret = read;
    return true;
}
