#include "cli/reports.h"

#include "base/buf.h"
#include "base/str.h"
#include "cli/launch.h"
#include "diagnose/formats.h"
#include "diagnose/mask.h"
#include "diagnose/outcome.h"
#include "diagnose/page.h"
#include "diagnose/trace.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define READER_MS 10000 /* how long the reader of a pipe may take before it counts as gone */

/* The page holds what was said: its owner's alone, like a recording. */
static const struct {
    const char *flag;
    mode_t mode;
} kinds[CF_REPORT_COUNT] = {
    [CF_REPORT_HTML] = {"--report", 0600},     [CF_REPORT_JUNIT] = {"--junit", 0666},
    [CF_REPORT_TAP] = {"--tap", 0666},         [CF_REPORT_SARIF] = {"--sarif", 0666},
    [CF_REPORT_SUMMARY] = {"--summary", 0666}, [CF_REPORT_STATEMENT] = {"--statement", 0666},
};

/* ---- before ------------------------------------------------------------------------------------- */

static bool
is_same_file(int fd, const char *path)
{
    struct stat a, b;

    return fstat(fd, &a) == 0 && stat(path, &b) == 0 && S_ISREG(a.st_mode) && a.st_dev == b.st_dev && a.st_ino == b.st_ino;
}

static int
check_alone(const struct cf_reports *r, size_t at, const char *const *others, size_t other_count, struct cf_error *err)
{
    for (size_t i = 0; i < at; i++)
        if (r->paths[i] != NULL && is_same_file(r->fds[at], r->paths[i]))
            return cf_error_set(err, CF_ERROR_CONFIG, 0, "%s and %s name the same file, %.200s", kinds[i].flag,
                                kinds[at].flag, r->paths[at]);
    for (size_t i = 0; i < other_count; i++)
        if (others[i] != NULL && (strcmp(others[i], r->paths[at]) == 0 || is_same_file(r->fds[at], others[i])))
            return cf_error_set(err, CF_ERROR_CONFIG, 0, "%s names the same file as another flag, %.200s", kinds[at].flag,
                                r->paths[at]);
    return 0;
}

static int
open_one(struct cf_reports *r, size_t i, const char *const *others, size_t other_count, struct cf_error *err)
{
    const char *path = r->paths[i];
    int append = i == CF_REPORT_SUMMARY ? O_APPEND : 0;
    struct stat facts;

    r->is_new[i] = stat(path, &facts) < 0;
    /* without O_NONBLOCK a pipe that nobody reads would hold us here */
    r->fds[i] = open(path, O_WRONLY | O_CREAT | O_CLOEXEC | O_NOCTTY | O_NONBLOCK | append, kinds[i].mode);
    if (r->fds[i] < 0) {
        (void)cf_error_set(err, CF_ERROR_CONFIG, errno, "%s %.300s: %s", kinds[i].flag, path, strerror(errno));
        return cf_error_fix(err, "name a file that can be written");
    }
    if (check_alone(r, i, others, other_count, err) < 0)
        return -1;
    r->is_file[i] = fstat(r->fds[i], &facts) == 0 && S_ISREG(facts.st_mode);
    if (append == 0 && r->is_file[i] && ftruncate(r->fds[i], 0) < 0)
        return cf_error_set(err, CF_ERROR_CONFIG, errno, "%s %.300s: %s", kinds[i].flag, path, strerror(errno));
    return 0;
}

int
cf_reports_open(struct cf_reports *r, const struct cf_launch_flags *f, const struct cf_launch *launch,
                struct cf_error *err)
{
    const char *const paths[CF_REPORT_COUNT] = {f->report, f->junit, f->tap, f->sarif, f->summary, f->statement};
    const char *const others[] = {f->record, f->ledger, f->checkpoint_out};

    memset(r, 0, sizeof *r);
    for (size_t i = 0; i < CF_REPORT_COUNT; i++) {
        r->paths[i] = paths[i];
        r->fds[i] = -1;
        r->is_open |= paths[i] != NULL;
    }
    if (r->is_open && cf_str_same(f->retention, "ephemeral_zdr")) {
        (void)cf_error_set(err, CF_ERROR_CONFIG, 0, "a report outlives the run, and retention ephemeral_zdr keeps nothing");
        return cf_error_fix(err, "leave out its flag, or run with --retention durable");
    }
    if (f->build_context != NULL)
        (void)snprintf(r->place, sizeof r->place, "%s/%s", f->build_context,
                       f->dockerfile != NULL ? f->dockerfile : "Dockerfile");
    for (size_t i = 0; i < CF_REPORT_COUNT; i++) {
        if (r->paths[i] == NULL || open_one(r, i, others, CF_COUNT(others), err) == 0)
            continue;
        cf_reports_abandon(r);
        return -1;
    }
    if (!r->is_open)
        return 0;
    r->release = launch != NULL ? launch->release : NULL;
    r->mask = cf_mask_new(launch != NULL ? launch->options : NULL);
    r->trace = r->mask != NULL && f->report != NULL ? cf_trace_new(r->mask) : NULL;
    if (r->mask == NULL || (f->report != NULL && r->trace == NULL)) {
        cf_reports_abandon(r);
        return cf_error_memory(err);
    }
    return 0;
}

void
cf_reports_listen(struct cf_reports *r, struct cf_run_host *host)
{
    if (r->trace != NULL)
        cf_trace_listen(r->trace, host);
}

/* ---- after -------------------------------------------------------------------------------------- */

static int
write_all(int fd, const char *bytes, size_t len)
{
    while (len > 0) {
        struct pollfd room = {.fd = fd, .events = POLLOUT};
        ssize_t n = write(fd, bytes, len);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && errno == EAGAIN) {
            if (poll(&room, 1, READER_MS) == 0)
                return ETIMEDOUT;
            continue;
        }
        if (n < 0)
            return errno;
        bytes += n;
        len -= (size_t)n;
    }
    return 0;
}

static int
make(const struct cf_reports *r, size_t kind, const struct cf_outcome *outcome, struct cf_buf *to, struct cf_error *err)
{
    switch (kind) {
    case CF_REPORT_HTML:
        cf_page_write(to, outcome, r->trace);
        break;
    case CF_REPORT_JUNIT:
        cf_format_junit(to, outcome);
        break;
    case CF_REPORT_TAP:
        cf_format_tap(to, outcome);
        break;
    case CF_REPORT_SARIF:
        cf_format_sarif(to, outcome);
        break;
    case CF_REPORT_SUMMARY:
        cf_format_summary(to, outcome);
        break;
    default:
        if (cf_format_statement(to, outcome, err) < 0)
            return -1;
    }
    return to->failed ? cf_error_memory(err) : 0;
}

/* A file that is not whole is no file: what was made of it goes. What a summary had before stays. */
static void
spoil(const struct cf_reports *r, size_t kind, const char *why)
{
    fprintf(stderr, "cfrunner: %s %s: %s\n", kinds[kind].flag, r->paths[kind], why);
    if (r->is_file[kind] && (kind != CF_REPORT_SUMMARY || r->is_new[kind]))
        (void)unlink(r->paths[kind]);
}

static bool
write_one(struct cf_reports *r, size_t kind, const struct cf_outcome *outcome)
{
    struct cf_buf bytes;
    struct cf_error err = {0};
    int error = 0;
    bool is_made;

    cf_buf_init(&bytes, 64u << 20);
    is_made = make(r, kind, outcome, &bytes, &err) == 0;
    if (is_made)
        error = write_all(r->fds[kind], bytes.data, bytes.len);
    if (close(r->fds[kind]) < 0 && error == 0)
        error = errno;
    r->fds[kind] = -1;
    cf_buf_release(&bytes);
    if (!is_made || error != 0)
        spoil(r, kind, is_made ? strerror(error) : err.text);
    /* Without an image there is nothing to state: what kept it away has a code of its own. */
    return error == 0 && (is_made || (err.kind == CF_ERROR_CONFIG && outcome->exit_code != 0));
}

int
cf_reports_write(struct cf_reports *r, const char *command, const json_t *result, int exit_code, const char *name)
{
    struct cf_outcome outcome = {0};
    bool is_good = true;

    if (!r->is_open)
        return 0;
    if (cf_outcome_init(&outcome, command, result, exit_code, name, r->mask) < 0) {
        fputs("cfrunner: no report could be made: out of memory\n", stderr);
        is_good = false;
    }
    outcome.release = r->release;
    outcome.place = *r->place != '\0' ? r->place : NULL;
    for (size_t i = 0; is_good && i < CF_REPORT_COUNT; i++)
        if (r->paths[i] != NULL)
            r->has_failed |= !write_one(r, i, &outcome);
    is_good &= !r->has_failed;
    cf_outcome_release(&outcome);
    cf_reports_abandon(r); /* what could not even be begun, and what served it */
    return is_good ? 0 : -1;
}

void
cf_reports_abandon(struct cf_reports *r)
{
    for (size_t i = 0; r->is_open && i < CF_REPORT_COUNT; i++) {
        if (r->fds[i] < 0)
            continue;
        (void)close(r->fds[i]);
        r->fds[i] = -1;
        if (r->is_new[i])
            (void)unlink(r->paths[i]);
    }
    cf_trace_free(r->trace);
    cf_mask_free(r->mask);
    r->trace = NULL;
    r->mask = NULL;
    r->is_open = false;
}
