/*
 * stderr, one line a phase; with -v the wire's frames, shortened; with -vv everything. Bytes of
 * a harness are made one printable line before they come near a terminal.
 */
#include "cli/eyes.h"

#include "base/str.h"
#include "base/utf8.h"

#include <stdio.h>
#include <string.h>

static void
show(const char *head, const char *text, size_t len, size_t most)
{
    char line[2048];
    size_t n = cf_utf8_cut(text, len, most < sizeof line - 4 ? most : sizeof line - 4);

    memcpy(line, text, n);
    line[n] = '\0';
    for (size_t i = 0; i < n; i++)
        if (line[i] == '\0')
            line[i] = ' ';
    cf_utf8_make_line(line);
    fprintf(stderr, "%s%s%s\n", head, line, n < len ? "..." : "");
}

#define PATIENCE_MS 10000u

static void
on_patience(uv_timer_t *timer)
{
    const struct cf_eyes *eyes = timer->data;

    if (eyes->phase[0] != '\0')
        fprintf(stderr, "cfrunner: %s ... still, after %llu s\n", eyes->phase,
                (unsigned long long)(uv_now(timer->loop) - eyes->phase_ms) / 1000);
}

void
cf_eyes_open(struct cf_eyes *eyes, uv_loop_t *loop)
{
    (void)uv_timer_init(loop, &eyes->patience); /* cannot fail */
    eyes->patience.data = eyes;
    eyes->has_patience = true;
}

void
cf_eyes_close(struct cf_eyes *eyes)
{
    if (eyes->has_patience)
        uv_close((uv_handle_t *)&eyes->patience, NULL);
    eyes->has_patience = false;
}

static void
begin_phase(struct cf_eyes *eyes, const char *name)
{
    (void)snprintf(eyes->phase, sizeof eyes->phase, "%s", name);
    fprintf(stderr, "cfrunner: %s ...\n", name);
    if (!eyes->has_patience)
        return;
    eyes->phase_ms = uv_now(eyes->patience.loop);
    uv_timer_start(&eyes->patience, on_patience, PATIENCE_MS, PATIENCE_MS);
}

static void
end_phase(struct cf_eyes *eyes, const char *name)
{
    if (strcmp(eyes->phase, name) != 0)
        return;
    eyes->phase[0] = '\0';
    if (eyes->has_patience)
        uv_timer_stop(&eyes->patience);
}

static void
on_phase(void *user, const char *name, const char *step, uint64_t took_ms)
{
    struct cf_eyes *eyes = user;

    if (took_ms == UINT64_MAX) {
        if (*step == '\0')
            begin_phase(eyes, name);
        return;
    }
    if (*step == '\0')
        end_phase(eyes, name);
    if (eyes->verbose < 1)
        return;
    fprintf(stderr, "cfrunner: %s%s%s %llu ms\n", name, *step ? "." : "", step, (unsigned long long)took_ms);
}

static void
on_progress(void *user, const char *what, const char *json, size_t len)
{
    char head[40];

    (void)snprintf(head, sizeof head, "%s: ", what);
    show(head, json, len, 400);
}

static void
on_log(void *user, int level, const char *room, const char *line)
{
    const struct cf_eyes *eyes = user;

    if (level <= 1 || eyes->verbose >= 2)
        fprintf(stderr, "cfrunner: %s: %s\n", room, line);
}

static void
on_frame(void *user, int from_harness, uint64_t number, uint64_t at_ms, const char *line, size_t len)
{
    const struct cf_eyes *eyes = user;
    char head[64];

    (void)snprintf(head, sizeof head, "f%llu %s %6llu ms  ", (unsigned long long)number, from_harness ? "<-" : "->",
                   (unsigned long long)at_ms);
    show(head, line, len, eyes->verbose >= 2 ? 2000 : 110);
}

static void
on_stderr(void *user, const char *bytes, size_t len)
{
    show("harness: ", bytes, len, 1000);
}

static void
on_call(void *user, const char *json, size_t len)
{
    show("relay: ", json, len, 600);
}

static void
on_finding(void *user, const char *json, size_t len)
{
    show("finding: ", json, len, 400);
}

void
cf_eyes_watch(struct cf_run_host *host, const struct cf_eyes *eyes)
{
    if (eyes->verbose < 0)
        return;
    host->on_phase = on_phase;
    host->on_log = on_log;
    if (eyes->verbose >= 1) {
        host->on_frame = on_frame;
        host->on_call = on_call;
        host->on_finding = on_finding;
        host->on_stderr = on_stderr;
    }
    if (eyes->verbose >= 2)
        host->on_progress = on_progress;
}

void
cf_eyes_error(const struct cf_error *err)
{
    fprintf(stderr, "cfrunner: %s\n", err->text);
    if (err->fix[0] != '\0')
        fprintf(stderr, "  fix: %s\n", err->fix);
}
