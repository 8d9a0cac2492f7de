/*
 * loop/steps.h: an asynchronous story as a table. Each row starts one operation and names its
 * undo: reading down is doing, reading up is undoing. Only cf_steps_settle moves the position.
 *
 * A row's start returns 0 and later its callback calls cf_steps_settle exactly once (also from
 * inside the start), or it returns <0 with `err` filled: that settles the row as failed. A row
 * that failed is undone too (a call that timed out may have happened). A cancel or a deadline
 * calls the row's `abort`; the operation's own callback then settles, as ever, and whatever it
 * reports, the row has failed with the cancel's or the deadline's reason.
 */
#ifndef CF_LOOP_STEPS_H
#define CF_LOOP_STEPS_H

#include "base/error.h"
#include "base/log.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <uv.h>

struct cf_steps;

struct cf_step {
    const char *name; /* static; the phase's name in logs and results */
    int (*start)(struct cf_steps *steps, struct cf_error *err); /* down; NULL: nothing to do */
    int (*undo)(struct cf_steps *steps, struct cf_error *err);  /* up; NULL: nothing to undo */
    void (*abort)(
        struct cf_steps *steps); /* ends the operation in flight early; may be NULL */
    uint64_t deadline_ms;        /* for start; 0: the owner's operations carry their own */
};

enum cf_steps_dir { CF_STEPS_DOWN = 1, CF_STEPS_UP = -1 };

struct cf_steps {
    const struct cf_step *table; /* static storage */
    int count, at;
    enum cf_steps_dir dir;
    bool running, canceled, entering, settled_inside;
    int settled_status;  /* what a settle from inside a start reported */
    int outcome;         /* 0, or the first failure's negative status */
    struct cf_error why; /* the reason of a cancel or deadline */
    struct cf_error
        err; /* the first failure going down; the callbacks fill it before settling */
    struct cf_error undo_err; /* the last failure going up */
    uint64_t entered_ms;
    uint64_t *took_ms; /* optional array[count]: how long each start took */
    uv_loop_t *loop;
    uv_timer_t timer;
    bool timer_open;
    const struct cf_log *log;
    /* Down ended well (outcome 0), or everything was undone (outcome <0 or after
     * cf_steps_back). May free the owner; nothing is touched afterwards. The timer is closed
     * by cf_steps_close. */
    void (*on_done)(struct cf_steps *steps);
    /* Optional: called when a row is entered and when it settles (for phase reports). */
    void (*on_row)(struct cf_steps *steps, const struct cf_step *row, bool entered);
};

/* Prepares; `steps` lives inside the owner's struct and is overwritten whole: set on_done,
 * on_row and took_ms afterwards. `table` and `log` are borrowed until closed. */
int cf_steps_init(struct cf_steps *steps, uv_loop_t *loop, const struct cf_step *table,
                  int count, const struct cf_log *log, struct cf_error *err);
/* Begins at the first row. on_done comes later or from inside this call. */
void cf_steps_run(struct cf_steps *steps);
/* The current row has ended: 0, or <0 with steps->err (down) or steps->undo_err (up) filled.
 */
void cf_steps_settle(struct cf_steps *steps, int status);
/* While going down: fail with CF_ERROR_CANCELED (or `why`, copied) and undo. Idempotent. Going
 * up or at rest: no effect; before the run: the run ends at once. May call on_done from
 * inside. */
void cf_steps_cancel(struct cf_steps *steps, const struct cf_error *why);
/* After a good on_done: undo everything, last row first; on_done comes again (also from
 * inside). Still going down: the same as a cancel. */
void cf_steps_back(struct cf_steps *steps);
/* Closes the timer handle; `on_closed` may be NULL. Needed once before the owner is freed. */
void cf_steps_close(struct cf_steps *steps, void (*on_closed)(uv_handle_t *timer));

#endif
