/*
 * The block. It is painted over in one write, ten times a second, and only when the write before
 * it has gone: a terminal that is held (Ctrl-S) holds nothing else. How many rows it takes is
 * counted anew at each paint, for a terminal that became narrower has wrapped its lines.
 */
#include "cli/live.h"

#include "base/str.h"
#include "base/utf8.h"
#include "diagnose/draw.h"
#include "diagnose/trail.h"
#include "json/json.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>

#define BEAT_MS 100u
#define ABOVE_MOST (1u << 20)

/* ---- painting --------------------------------------------------------------------------------- */

/* How many rows the block takes as the terminal is now. */
static size_t
rows_of(const struct cf_live *live)
{
    size_t rows = 0, columns = live->screen.columns > 0 ? (size_t)live->screen.columns : 80;

    for (size_t i = 0; i < live->line_count; i++)
        rows += live->widths[i] <= columns ? 1 : (live->widths[i] + columns - 1) / columns;
    return rows;
}

/* To the block's first line. It is painted over line by line: a terminal that is told to clear itself
 * from its first line on may keep what was there as history, each time. */
static void
go_up(const struct cf_live *live, struct cf_buf *to)
{
    size_t rows = rows_of(live);

    (void)cf_buf_adds(to, "\r");
    if (rows > 0)
        (void)cf_buf_addf(to, "\033[%zuA", rows);
}

#define LINE_END "\033[K\n"

struct painter {
    struct cf_live *live;
    struct cf_page page;
    size_t used; /* columns of the line that is being drawn */
};

static size_t
room(const struct painter *p)
{
    size_t most = (size_t)p->page.columns - 1; /* the last column makes some terminals wrap */

    return p->used < most ? most - p->used : 0;
}

static void
text(struct painter *p, enum cf_tone tone, const char *words)
{
    if (room(p) > 0)
        p->used += cf_draw_cut(&p->page, tone, words, room(p));
}

static void
pad_to(struct painter *p, size_t column)
{
    if (p->used < column && column - p->used <= room(p))
        p->used += cf_draw_pad(&p->page, (int)(column - p->used));
}

static void
end_line(struct painter *p)
{
    (void)cf_buf_adds(p->page.to, LINE_END);
    p->live->widths[p->live->line_count++] = p->used;
    p->used = 0;
}

/* One line less than the terminal has: the cursor stands below the block. */
static bool
has_line(const struct painter *p)
{
    return p->live->line_count < CF_LIVE_LINES && (int)p->live->line_count + 2 < p->live->screen.rows;
}

static void
paint_head(struct painter *p)
{
    uint64_t ms = uv_now(p->live->loop) - p->live->opened_ms;
    char elapsed[32];
    size_t width = (size_t)snprintf(elapsed, sizeof elapsed, "%.1f s", (double)ms / 1000.0);

    text(p, CF_BOLD, p->live->title);
    if (room(p) > width) {
        pad_to(p, p->used + room(p) - width);
        text(p, CF_FAINT, elapsed);
    }
    end_line(p);
}

static void
paint_progress(struct painter *p)
{
    char words[200];
    int part;

    if (p->live->progress.what[0] == '\0')
        return;
    part = cf_progress_text(&p->live->progress, words, sizeof words);
    text(p, CF_PLAIN, words);
    if (part >= 0 && room(p) > 24) {
        text(p, CF_PLAIN, " ");
        p->used += cf_draw_bar(&p->page, CF_FAINT, (size_t)part * 8 * 16 / 1000);
    }
}

/* What a phase that runs is about. */
static void
paint_detail(struct painter *p, size_t i)
{
    struct cf_live *live = p->live;
    char words[160];

    if (strcmp(live->phases[i].name, "image") == 0 && live->progress.what[0] != '\0') {
        paint_progress(p);
    } else if (strcmp(live->phases[i].name, "turn") == 0 && live->turn > 0) {
        (void)snprintf(words, sizeof words, "turn %u, %llu observations", live->turn,
                       (unsigned long long)live->observations);
        text(p, CF_PLAIN, words);
    } else {
        text(p, CF_FAINT, live->phases[i].step);
    }
}

static void
paint_phase(struct painter *p, size_t i)
{
    static const char *const fine[] = {"\xe2\xa0\x8b", "\xe2\xa0\x99", "\xe2\xa0\xb9", "\xe2\xa0\xb8", "\xe2\xa0\xbc",
                                       "\xe2\xa0\xb4", "\xe2\xa0\xa6", "\xe2\xa0\xa7", "\xe2\xa0\x87", "\xe2\xa0\x8f"};
    static const char *const plain[] = {"|", "/", "-", "\\"};
    struct cf_live *live = p->live;
    bool is_done = live->phases[i].is_done;
    uint64_t ms = is_done ? live->phases[i].took_ms : uv_now(live->loop) - live->phases[i].began_ms;
    char words[64];

    text(p, CF_PLAIN, " ");
    if (is_done)
        p->used += cf_draw_mark(&p->page, CF_MARK_GOOD);
    else
        text(p, CF_BOLD, p->page.unicode ? fine[live->beat % CF_COUNT(fine)] : plain[live->beat % CF_COUNT(plain)]);
    (void)snprintf(words, sizeof words, " %-10s %6.1f s  ", live->phases[i].name, (double)ms / 1000.0);
    text(p, is_done ? CF_FAINT : CF_PLAIN, words);
    if (!is_done)
        paint_detail(p, i);
    end_line(p);
}

static void
paint_last(struct painter *p, const char *label, const char *words)
{
    if (words[0] == '\0' || !has_line(p))
        return;
    text(p, CF_PLAIN, "   ");
    text(p, CF_FAINT, label);
    pad_to(p, 12);
    text(p, CF_PLAIN, words);
    end_line(p);
}

static void
paint_calls(struct painter *p)
{
    const struct cf_live *live = p->live;
    char words[480], more[40] = "";

    if (live->calls + live->refused == 0)
        return;
    if (live->refused > 0)
        (void)snprintf(more, sizeof more, ", %llu refused", (unsigned long long)live->refused);
    (void)snprintf(words, sizeof words, "%llu call%s%s \xc2\xb7 %llu\xe2\x86\x92%llu tok \xc2\xb7 %s",
                   (unsigned long long)live->calls, live->calls == 1 ? "" : "s", more,
                   (unsigned long long)live->input_tokens, (unsigned long long)live->output_tokens, live->call);
    paint_last(p, "relay", words);
}

/* Where to begin with the phases: a terminal with few rows has the last ones, the one that runs among them. */
static size_t
first_phase(const struct cf_live *live)
{
    size_t rows = live->screen.rows > 4 ? (size_t)live->screen.rows - 3 : 1; /* the head, and the cursor's own */
    size_t others = (live->frame[0] != '\0') + (live->calls + live->refused > 0) + (live->words[0] != '\0');
    size_t room = rows > others + 1 ? rows - others : 1;

    return live->phase_count > room ? live->phase_count - room : 0;
}

static void
paint(struct cf_live *live)
{
    struct cf_buf bytes = {0};
    struct painter p = {live, {&bytes, live->screen.color, live->screen.unicode, live->screen.columns}, 0};

    go_up(live, &bytes);
    (void)cf_buf_add(&bytes, live->above.data, live->above.len);
    if (live->above_dropped > 0)
        (void)cf_buf_addf(&bytes, "(%llu lines left out)" LINE_END, (unsigned long long)live->above_dropped);
    cf_buf_reset(&live->above);
    live->above_dropped = 0;
    live->line_count = 0;
    paint_head(&p);
    for (size_t i = first_phase(live); i < live->phase_count && has_line(&p); i++)
        paint_phase(&p, i);
    paint_last(&p, "frame", live->frame);
    paint_calls(&p);
    paint_last(&p, "stderr", live->words);
    (void)cf_buf_adds(&bytes, "\033[J");
    if (!bytes.failed)
        (void)cf_out_bytes(&live->out, bytes.data, bytes.len);
    cf_buf_release(&bytes);
}

static void
on_beat(uv_timer_t *clock)
{
    struct cf_live *live = clock->data;

    live->beat++;
    if (!live->out.busy)
        paint(live);
}

/* At once, while the terminal is still as the resize left it. */
static void
on_resized(uv_signal_t *handle, int number)
{
    struct cf_live *live = handle->data;

    cf_screen_read(&live->screen, live->out.fd, false);
    if (!live->out.busy)
        paint(live);
}

/* ---- what is told ------------------------------------------------------------------------------- */

static size_t
phase_of(struct cf_live *live, const char *name)
{
    for (size_t i = 0; i < live->phase_count; i++)
        if (strcmp(live->phases[i].name, name) == 0)
            return i;
    if (live->phase_count == CF_LIVE_PHASES)
        return CF_LIVE_PHASES;
    (void)snprintf(live->phases[live->phase_count].name, sizeof live->phases[0].name, "%s", name);
    live->phases[live->phase_count].began_ms = uv_now(live->loop);
    return live->phase_count++;
}

void
cf_live_phase(struct cf_live *live, const char *name, const char *step, uint64_t took_ms)
{
    size_t i = phase_of(live, name);

    if (i == CF_LIVE_PHASES)
        return;
    if (*step != '\0') {
        (void)snprintf(live->phases[i].step, sizeof live->phases[i].step, "%s", took_ms == UINT64_MAX ? step : "");
        return;
    }
    live->phases[i].is_done = took_ms != UINT64_MAX;
    if (took_ms != UINT64_MAX)
        live->phases[i].took_ms += took_ms; /* turns add up */
    else
        live->phases[i].began_ms = uv_now(live->loop) - live->phases[i].took_ms;
}

void
cf_live_progress(struct cf_live *live, const char *what, const char *json, size_t len)
{
    cf_progress_feed(&live->progress, what, json, len);
}

void
cf_live_frame(struct cf_live *live, bool from_harness, uint64_t number, const char *line, size_t len)
{
    char what[80], words[400];

    live->frames++;
    cf_glance(line, len < 4096 ? len : 4096, len, what, sizeof what, words, sizeof words);
    (void)snprintf(live->frame, sizeof live->frame, "f%llu %s %s  %s", (unsigned long long)number,
                   from_harness ? "\xe2\x86\x90" : "\xe2\x86\x92", what, words);
}

void
cf_live_observation(struct cf_live *live, unsigned turn)
{
    live->observations++;
    live->turn = turn;
}

void
cf_live_call(struct cf_live *live, const char *json, size_t len)
{
    json_t *call = cf_json_parse(json, len, NULL, &(struct cf_error){0});
    const char *refused = cf_json_str(call, "refused"), *path = cf_json_str(call, "path");

    live->calls += refused == NULL;
    live->refused += refused != NULL;
    live->input_tokens += (uint64_t)cf_json_int(call, "input_tokens", 0);
    live->output_tokens += (uint64_t)cf_json_int(call, "output_tokens", 0);
    (void)snprintf(live->call, sizeof live->call, "%.12s %.160s %s%.40s", cf_json_str(call, "method"),
                   path != NULL ? path : "", refused != NULL ? "refused: " : "", refused != NULL ? refused : "served");
    json_decref(call);
}

/* Its last line that is not empty. */
void
cf_live_words(struct cf_live *live, const char *bytes, size_t len)
{
    const char *from;

    while (len > 0 && (bytes[len - 1] == '\n' || bytes[len - 1] == '\r' || bytes[len - 1] == ' '))
        len--;
    if (len == 0)
        return;
    from = memrchr(bytes, '\n', len);
    from = from != NULL ? from + 1 : bytes;
    len = cf_utf8_cut(from, (size_t)(bytes + len - from), sizeof live->words - 1);
    memcpy(live->words, from, len);
    live->words[len] = '\0';
    for (size_t i = 0; i < len; i++)
        if (live->words[i] == '\0')
            live->words[i] = ' ';
}

void
cf_live_line(struct cf_live *live, const char *line)
{
    struct cf_page page = {&live->above, live->screen.color, live->screen.unicode, live->screen.columns};
    size_t size = strlen(line) + 8;
    cf_auto_free char *clean = live->above.len < ABOVE_MOST ? malloc(size) : NULL;

    if (clean == NULL) {
        live->above_dropped++;
        return;
    }
    cf_draw_clean(&page, line, clean, size);
    (void)cf_buf_adds(&live->above, clean);
    (void)cf_buf_adds(&live->above, LINE_END);
}

void
cf_live_glance(struct cf_live *live, const char *head, const char *line, size_t len)
{
    struct cf_page page = {&live->above, live->screen.color, live->screen.unicode, live->screen.columns};
    char what[80], words[500], text[700];

    if (live->above.len >= ABOVE_MOST) {
        live->above_dropped++;
        return;
    }
    cf_glance(line, len < 4096 ? len : 4096, len, what, sizeof what, words, sizeof words);
    (void)snprintf(text, sizeof text, "%s%s%s%s", head, what, what[0] != '\0' ? "  " : "", words);
    (void)cf_draw_cut(&page, CF_PLAIN, text, (size_t)live->screen.columns - 1);
    (void)cf_buf_adds(&live->above, LINE_END);
}

/* ---- open, close ---------------------------------------------------------------------------------- */

void
cf_live_open(struct cf_live *live, uv_loop_t *loop, const struct cf_screen *screen, const char *title)
{
    live->loop = loop;
    live->screen = *screen;
    (void)snprintf(live->title, sizeof live->title, "%s", title);
    live->opened_ms = uv_now(loop);
    cf_out_init(&live->out, loop, NULL, NULL);
    live->out.fd = 2;
    (void)uv_timer_init(loop, &live->clock); /* cannot fail */
    live->clock.data = live;
    (void)uv_timer_start(&live->clock, on_beat, BEAT_MS, BEAT_MS);
    if (uv_signal_init(loop, &live->resized) == 0) {
        live->resized.data = live;
        (void)uv_signal_start(&live->resized, on_resized, SIGWINCH);
    }
    live->is_open = true;
}

void
cf_live_close(struct cf_live *live)
{
    struct cf_buf bytes = {0};
    size_t rows;

    if (!live->is_open)
        return;
    live->is_open = false;
    uv_close((uv_handle_t *)&live->clock, NULL);
    if (live->resized.data != NULL)
        uv_close((uv_handle_t *)&live->resized, NULL);
    go_up(live, &bytes);
    (void)cf_buf_add(&bytes, live->above.data, live->above.len);
    rows = rows_of(live);
    for (size_t i = 0; i < rows; i++)
        (void)cf_buf_adds(&bytes, LINE_END);
    if (rows > 0)
        (void)cf_buf_addf(&bytes, "\033[%zuA", rows);
    if (!bytes.failed)
        (void)cf_out_bytes(&live->out, bytes.data, bytes.len);
    cf_buf_release(&bytes);
}

void
cf_live_release(struct cf_live *live)
{
    cf_buf_release(&live->above);
    cf_out_release(&live->out);
}
