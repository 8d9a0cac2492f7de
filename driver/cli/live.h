/*
 * cli/live.h: one block on a terminal's stderr that is painted again and again while a run goes on: its
 * phases, the image's progress, the frame and the relay's call that came last. Gone without a trace
 * when closed; whatever is said in between stands above it.
 */
#ifndef CF_CLI_LIVE_H
#define CF_CLI_LIVE_H

#include "base/buf.h"
#include "cli/out.h"
#include "cli/progress.h"
#include "cli/screen.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <uv.h>

#define CF_LIVE_PHASES 12u
#define CF_LIVE_LINES 20u

struct cf_live {
    uv_loop_t *loop;
    uv_timer_t clock;
    uv_signal_t resized;
    struct cf_screen screen;
    struct cf_out out;
    bool is_open, has_erased;
    char title[160];
    uint64_t opened_ms;
    unsigned beat;

    struct {
        char name[24], step[24];
        uint64_t began_ms, took_ms;
        bool is_done;
    } phases[CF_LIVE_PHASES];
    size_t phase_count;
    struct cf_progress progress;

    unsigned turn;
    uint64_t frames, observations, calls, refused, input_tokens, output_tokens;
    char frame[640], call[300], words[300]; /* what came last: a frame, a call, a line of stderr; "": nothing */

    struct cf_buf above;         /* lines that are to stand above the block */
    uint64_t above_dropped;
    size_t widths[CF_LIVE_LINES]; /* columns of each line that is drawn now */
    size_t line_count;
};

/* Begins to paint on fd 2. `title` is copied. Zeroed before. */
void cf_live_open(struct cf_live *live, uv_loop_t *loop, const struct cf_screen *screen, const char *title);
/* Takes the block away. Before the loop's end; the bytes go while it still runs; then release. */
void cf_live_close(struct cf_live *live);
void cf_live_release(struct cf_live *live);

void cf_live_phase(struct cf_live *live, const char *name, const char *step, uint64_t took_ms);
void cf_live_progress(struct cf_live *live, const char *what, const char *json, size_t len);
void cf_live_frame(struct cf_live *live, bool from_harness, uint64_t number, const char *line, size_t len);
void cf_live_observation(struct cf_live *live, unsigned turn);
void cf_live_call(struct cf_live *live, const char *json, size_t len);
void cf_live_words(struct cf_live *live, const char *bytes, size_t len);
/* A line above the block; made printable. At most 1 MiB waits; lines past that are counted. */
void cf_live_line(struct cf_live *live, const char *line);
/* A frame above the block, as much of it as fits one line. */
void cf_live_glance(struct cf_live *live, const char *head, const char *line, size_t len);

#endif
