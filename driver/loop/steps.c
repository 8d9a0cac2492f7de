/*
 * The step runner. One function, leave_row, moves the position; one loop, walk, enters rows
 * until one of them waits. A start may settle before it returns: the settle is then kept aside
 * and walk takes it up, so that a long table of quick rows does not nest.
 */
#include "loop/steps.h"

#include <string.h>

static void
trace(struct cf_steps *steps, const char *what)
{
    const char *name =
        steps->at >= 0 && steps->at < steps->count ? steps->table[steps->at].name : "end";

    cf_log(steps->log, CF_LOG_TRACE, "steps", "%s %s %s", what,
           steps->dir == CF_STEPS_DOWN ? "down" : "up", name);
}

/* Ends the operation in flight, if it knows how; its callback settles the row. */
static void
abort_row(struct cf_steps *steps)
{
    const struct cf_step *row = &steps->table[steps->at];

    if (row->abort != NULL)
        row->abort(steps);
}

static void
on_deadline(uv_timer_t *timer)
{
    struct cf_steps *steps = timer->data;
    const struct cf_step *row = &steps->table[steps->at];
    struct cf_error why = {0};

    cf_error_set(&why, CF_ERROR_ENGINE_TIMEOUT, 0, "%s did not end within %llu ms", row->name,
                 (unsigned long long)row->deadline_ms);
    cf_steps_cancel(steps, &why);
}

/* Starts what the row has for this direction. True: it has ended already (settled_status). */
static bool
enter_row(struct cf_steps *steps)
{
    const struct cf_step *row = &steps->table[steps->at];
    bool down = steps->dir == CF_STEPS_DOWN;
    int (*begin)(struct cf_steps *, struct cf_error *) = down ? row->start : row->undo;

    steps->settled_inside = false;
    steps->settled_status = 0;
    steps->entered_ms = uv_now(steps->loop);
    if (begin == NULL)
        return true;
    trace(steps, "enter");
    steps->entering = true;
    if (steps->on_row != NULL)
        steps->on_row(steps, row, true);
    int status = 0;
    if (!(down && steps->canceled))
        status = begin(steps, down ? &steps->err : &steps->undo_err);
    else
        status = -1;
    steps->entering = false;
    if (status < 0 && !steps->settled_inside) {
        steps->settled_inside = true;
        steps->settled_status = status;
    }
    if (steps->settled_inside)
        return true;
    if (down && row->deadline_ms > 0)
        uv_timer_start(&steps->timer, on_deadline, row->deadline_ms, 0);
    if (down && steps->canceled) { /* canceled from inside the start, which is under way */
        abort_row(steps);          /* may settle, and then walk goes on from there */
    }
    return false;
}

static void
fail_down(struct cf_steps *steps, int status)
{
    steps->outcome = status < 0 ? status : -1;
    if (steps->canceled)
        steps->err = steps->why;
    if (steps->err.kind == CF_ERROR_NONE)
        cf_error_set(&steps->err, CF_ERROR_INTERNAL, 0, "%s failed without a reason",
                     steps->table[steps->at].name);
    steps->dir = CF_STEPS_UP; /* stay on this row: it is undone first */
}

static void
leave_row(struct cf_steps *steps, int status)
{
    const struct cf_step *row = &steps->table[steps->at];
    bool down = steps->dir == CF_STEPS_DOWN;

    uv_timer_stop(&steps->timer);
    uv_update_time(steps->loop);
    if (down && steps->took_ms != NULL)
        steps->took_ms[steps->at] = uv_now(steps->loop) - steps->entered_ms;
    if ((down ? row->start : row->undo) != NULL) {
        trace(steps, status < 0 ? "failed" : "left");
        steps->entering = true; /* a cancel from in here must not abort what has ended */
        if (steps->on_row != NULL)
            steps->on_row(steps, row, false);
        steps->entering = false;
    }
    if (down && (status < 0 || steps->canceled))
        fail_down(steps, status);
    else
        steps->at += steps->dir;
}

static void
walk(struct cf_steps *steps)
{
    while (steps->at >= 0 && steps->at < steps->count) {
        if (!enter_row(steps))
            return;
        leave_row(steps, steps->settled_status);
    }
    steps->running = false;
    steps->on_done(steps); /* may free the owner */
}

int
cf_steps_init(struct cf_steps *steps, uv_loop_t *loop, const struct cf_step *table, int count,
              const struct cf_log *log, struct cf_error *err)
{
    memset(steps, 0, sizeof *steps);
    steps->table = table;
    steps->count = count;
    steps->dir = CF_STEPS_DOWN;
    steps->loop = loop;
    steps->log = log;
    int rc = uv_timer_init(loop, &steps->timer);
    if (rc < 0)
        return cf_error_set(err, CF_ERROR_INTERNAL, -rc, "timer: %s", uv_strerror(rc));
    steps->timer.data = steps;
    steps->timer_open = true;
    return 0;
}

void
cf_steps_run(struct cf_steps *steps)
{
    steps->running = true;
    steps->at = 0;
    steps->dir = CF_STEPS_DOWN;
    uv_update_time(steps->loop);
    if (steps->canceled) { /* before anything began: nothing to undo */
        steps->outcome = -1;
        steps->err = steps->why;
        steps->dir = CF_STEPS_UP;
        steps->at = -1;
    }
    walk(steps);
}

void
cf_steps_settle(struct cf_steps *steps, int status)
{
    if (steps->entering) {
        steps->settled_inside = true;
        steps->settled_status = status;
        return;
    }
    leave_row(steps, status);
    walk(steps);
}

void
cf_steps_cancel(struct cf_steps *steps, const struct cf_error *why)
{
    bool at_rest = !steps->running && (steps->at > 0 || steps->outcome < 0);

    if (steps->canceled || steps->dir == CF_STEPS_UP || at_rest)
        return;
    steps->canceled = true;
    if (why != NULL)
        steps->why = *why;
    else
        cf_error_set(&steps->why, CF_ERROR_CANCELED, 0, "canceled");
    uv_timer_stop(&steps->timer);
    if (steps->running && !steps->entering)
        abort_row(steps);
}

void
cf_steps_back(struct cf_steps *steps)
{
    if (steps->running) {
        cf_steps_cancel(steps, NULL);
        return;
    }
    steps->running = true;
    steps->dir = CF_STEPS_UP;
    steps->at = steps->outcome < 0 ? -1 : steps->count - 1;
    uv_update_time(steps->loop);
    walk(steps);
}

void
cf_steps_close(struct cf_steps *steps, void (*on_closed)(uv_handle_t *timer))
{
    if (!steps->timer_open)
        return;
    steps->timer_open = false;
    uv_close((uv_handle_t *)&steps->timer, on_closed);
}
