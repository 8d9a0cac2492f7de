/*
 * stderr: a block on a terminal, else one line a phase; with -v the wire's frames, shortened; with -vv
 * everything, the frames' bytes too. Bytes of a harness are made one printable line before they come
 * near a terminal.
 */
#include "cli/eyes.h"

#include "base/str.h"
#include "base/utf8.h"
#include "json/json.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void
cf_eyes_say(struct cf_eyes *eyes, const char *fmt, ...)
{
    char line[2200];
    va_list args;

    if (eyes->verbose < 0)
        return;
    va_start(args, fmt);
    (void)vsnprintf(line, sizeof line, fmt, args);
    va_end(args);
    cf_utf8_make_line(line);
    if (eyes->live != NULL)
        cf_live_line(eyes->live, line);
    else
        fprintf(stderr, "%s\n", line);
}

static void
show(struct cf_eyes *eyes, const char *head, const char *text, size_t len, size_t most)
{
    char line[2048];
    size_t n = cf_utf8_cut(text, len, most < sizeof line - 4 ? most : sizeof line - 4);

    memcpy(line, text, n);
    line[n] = '\0';
    for (size_t i = 0; i < n; i++)
        if (line[i] == '\0')
            line[i] = ' ';
    cf_utf8_make_line(line);
    cf_eyes_say(eyes, "%s%s%s", head, line, n < len ? "..." : "");
}

#define PATIENCE_MS 10000u

static void
on_patience(uv_timer_t *timer)
{
    struct cf_eyes *eyes = timer->data;

    if (eyes->phase[0] != '\0')
        cf_eyes_say(eyes, "cfrunner: %s ... still, after %llu s", eyes->phase,
                    (unsigned long long)(uv_now(timer->loop) - eyes->phase_ms) / 1000);
}

void
cf_eyes_open(struct cf_eyes *eyes, uv_loop_t *loop)
{
    struct cf_screen screen;

    cf_screen_read(&screen, 2, eyes->plain);
    if (eyes->title != NULL && eyes->verbose >= 0 && screen.is_terminal && screen.columns >= 40)
        eyes->live = calloc(1, sizeof *eyes->live); /* else lines */
    if (eyes->live != NULL) {
        cf_live_open(eyes->live, loop, &screen, eyes->title);
        return;
    }
    (void)uv_timer_init(loop, &eyes->patience); /* cannot fail */
    eyes->patience.data = eyes;
    eyes->has_patience = true;
}

void
cf_eyes_close(struct cf_eyes *eyes)
{
    if (eyes->live != NULL)
        cf_live_close(eyes->live);
    if (eyes->has_patience)
        uv_close((uv_handle_t *)&eyes->patience, NULL);
    eyes->has_patience = false;
}

void
cf_eyes_release(struct cf_eyes *eyes)
{
    if (eyes->live != NULL)
        cf_live_release(eyes->live);
    free(eyes->live);
    eyes->live = NULL;
}

static void
begin_phase(struct cf_eyes *eyes, const char *name)
{
    (void)snprintf(eyes->phase, sizeof eyes->phase, "%s", name);
    if (eyes->live == NULL)
        cf_eyes_say(eyes, "cfrunner: %s ...", name);
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

    if (eyes->live != NULL)
        cf_live_phase(eyes->live, name, step, took_ms);
    if (took_ms == UINT64_MAX) {
        if (*step == '\0')
            begin_phase(eyes, name);
        return;
    }
    if (*step == '\0')
        end_phase(eyes, name);
    if (eyes->verbose < 1)
        return;
    cf_eyes_say(eyes, "cfrunner: %s%s%s %llu ms", name, *step ? "." : "", step, (unsigned long long)took_ms);
}

static void
on_progress(void *user, const char *what, const char *json, size_t len)
{
    struct cf_eyes *eyes = user;
    char head[40];

    if (eyes->live != NULL)
        cf_live_progress(eyes->live, what, json, len);
    if (eyes->verbose < 2)
        return;
    (void)snprintf(head, sizeof head, "%s: ", what);
    show(eyes, head, json, len, 400);
}

static void
on_log(void *user, int level, const char *room, const char *line)
{
    struct cf_eyes *eyes = user;

    if (level <= 1 || eyes->verbose >= 2)
        cf_eyes_say(eyes, "cfrunner: %s: %s", room, line);
}

/* 16 bytes a line, as hexdump -C has them; the first 256 of a frame. */
static void
show_bytes(struct cf_eyes *eyes, const char *bytes, size_t len)
{
    size_t most = len < 256 ? len : 256;

    for (size_t at = 0; at < most; at += 16) {
        char line[96];
        int n = snprintf(line, sizeof line, "      %04zx ", at);
        for (size_t i = at; i < at + 16; i++)
            n += i < most ? snprintf(line + n, sizeof line - (size_t)n, "%02x ", (unsigned char)bytes[i])
                          : snprintf(line + n, sizeof line - (size_t)n, "   ");
        for (size_t i = at; i < at + 16 && i < most; i++)
            line[n++] = bytes[i] >= 0x20 && bytes[i] < 0x7f ? bytes[i] : '.';
        line[n] = '\0';
        cf_eyes_say(eyes, "%s", line);
    }
    if (len > most)
        cf_eyes_say(eyes, "      ... and %zu bytes more", len - most);
}

static void
on_frame(void *user, int from_harness, uint64_t number, uint64_t at_ms, const char *line, size_t len)
{
    struct cf_eyes *eyes = user;
    char head[64];

    if (eyes->live != NULL)
        cf_live_frame(eyes->live, from_harness, number, line, len);
    if (eyes->verbose < 1)
        return;
    (void)snprintf(head, sizeof head, "f%llu %s %6llu ms  ", (unsigned long long)number, from_harness ? "<-" : "->",
                   (unsigned long long)at_ms);
    if (eyes->live != NULL && eyes->verbose == 1) {
        cf_live_glance(eyes->live, head, line, len);
        return;
    }
    show(eyes, head, line, len, eyes->verbose >= 2 ? 2000 : 110);
    if (eyes->verbose >= 2)
        show_bytes(eyes, line, len);
}

static int
on_observation(void *user, const struct cf_observation *observation)
{
    struct cf_eyes *eyes = user;

    if (eyes->live != NULL)
        cf_live_observation(eyes->live, observation->turn);
    return CF_RUN_CONTINUE;
}

static void
on_stderr(void *user, const char *bytes, size_t len)
{
    struct cf_eyes *eyes = user;

    if (eyes->live != NULL)
        cf_live_words(eyes->live, bytes, len);
    if (eyes->verbose >= 1)
        show(eyes, "harness: ", bytes, len, 1000);
}

static void
show_call(struct cf_eyes *eyes, const char *json, size_t len)
{
    json_t *call = cf_json_parse(json, len, NULL, &(struct cf_error){0});
    const char *refused = cf_json_str(call, "refused");

    cf_eyes_say(eyes, "r%lld == %6lld ms  %s %s  %s%s, %lld->%lld tok, %lld ms", (long long)cf_json_int(call, "id", 0),
                (long long)cf_json_int(call, "at_ms", 0), cf_json_str(call, "method"), cf_json_str(call, "path"),
                refused != NULL ? "refused: " : "served", refused != NULL ? refused : "",
                (long long)cf_json_int(call, "input_tokens", 0), (long long)cf_json_int(call, "output_tokens", 0),
                (long long)cf_json_int(call, "total_ms", 0));
    json_decref(call);
}

static void
on_call(void *user, const char *json, size_t len)
{
    struct cf_eyes *eyes = user;

    if (eyes->live != NULL)
        cf_live_call(eyes->live, json, len);
    if (eyes->verbose >= 2)
        show(eyes, "relay: ", json, len, 600);
    else if (eyes->verbose == 1)
        show_call(eyes, json, len);
}

static void
on_finding(void *user, const char *json, size_t len)
{
    show(user, "finding: ", json, len, 400);
}

/* Whether there will be a block is known when the eyes are opened, after this. */
void
cf_eyes_watch(struct cf_run_host *host, struct cf_eyes *eyes)
{
    struct cf_screen screen;
    bool may_be_live;

    if (eyes->verbose < 0)
        return;
    cf_screen_read(&screen, 2, eyes->plain);
    may_be_live = eyes->title != NULL && screen.is_terminal;
    host->on_phase = on_phase;
    host->on_log = on_log;
    if (eyes->verbose >= 1)
        host->on_finding = on_finding;
    if (eyes->verbose >= 2 || may_be_live)
        host->on_progress = on_progress;
    if (eyes->verbose < 1 && !may_be_live)
        return;
    host->on_frame = on_frame;
    host->on_call = on_call;
    host->on_stderr = on_stderr;
    host->on_observation = on_observation;
}

void
cf_eyes_error(const struct cf_error *err)
{
    fprintf(stderr, "cfrunner: %s\n", err->text);
    if (err->fix[0] != '\0')
        fprintf(stderr, "  fix: %s\n", err->fix);
}
