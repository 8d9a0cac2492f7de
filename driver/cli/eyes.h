/* cli/eyes.h: what is shown on stderr while a run goes on: a block on a terminal, else lines. */
#ifndef CF_CLI_EYES_H
#define CF_CLI_EYES_H

#include <cfrunner/run.h>

#include "cli/live.h"

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

struct cf_eyes {
    int verbose; /* -1 nothing, 0 a line a phase, 1 frames, 2 everything */
    bool color;
    uv_timer_t patience; /* a phase that takes long is named again */
    bool has_patience;
    char phase[24];
    uint64_t phase_ms;
    const char *title;    /* a terminal gets a block with this above it; NULL: lines only */
    bool plain;           /* --plain: lines only */
    struct cf_live *live; /* NULL: lines */
};

/* Between these a terminal has the block, and else a phase of more than 10 s says so on a line, every
 * 10 s. Before the loop's end: close. Without them lines are said, but those. */
void cf_eyes_open(struct cf_eyes *eyes, uv_loop_t *loop);
void cf_eyes_close(struct cf_eyes *eyes);
/* After the loop's end. */
void cf_eyes_release(struct cf_eyes *eyes);

/* One line, above the block where there is one. Nothing with --quiet. */
void cf_eyes_say(struct cf_eyes *eyes, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* Fills the callbacks of `host` that eyes want; host->user must be a struct cf_eyes. Before open. */
void cf_eyes_watch(struct cf_run_host *host, struct cf_eyes *eyes);
/* "cfrunner: <text>" and the fix on a line of its own. */
void cf_eyes_error(const struct cf_error *err);

#endif
