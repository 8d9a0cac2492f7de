/*
 * Trouble on purpose. Stdin: few bytes a write with a gap between, or held for a while and then
 * written at once. Stdout: handled a few bytes at a time, or not read for a while and then handled
 * in one piece, its end and the exit behind it. The process is stopped and continued, the turn
 * canceled, each once, at a moment that is told from outside and not by a clock.
 */
#include "run/perturb.h"

#include "base/buf.h"
#include "base/str.h"
#include "run/hall.h"

#include <signal.h>

#define HELD_BYTES (64u << 20)

struct cf_perturb {
    uv_timer_t in, out, stop;
    bool in_may_go;       /* the hold is over: all that waits goes */
    bool has_stopped, has_canceled;
    struct cf_buf held;   /* output not handled yet */
    cf_perturb_take_fn *take;
    void (*then_end)(struct cf_run *run);
    void (*then_exit)(struct cf_run *run, const struct cf_exit *exit);
    struct cf_exit exit;
};

bool
cf_perturb_is_wanted(const struct cf_run_options *o)
{
    return o->stdin_bytes > 0 || o->stdin_hold_ms > 0 || o->stdout_bytes > 0 || o->stdout_hold_ms > 0 ||
           o->stop_at != CF_MOMENT_NEVER || o->cancel_at != CF_MOMENT_NEVER;
}

int
cf_perturb_open(struct cf_run *run, struct cf_error *err)
{
    struct cf_perturb *p;

    if (!cf_perturb_is_wanted(&run->options))
        return 0;
    p = calloc(1, sizeof *p);
    if (p == NULL)
        return cf_error_memory(err);
    cf_buf_init(&p->held, HELD_BYTES);
    run->perturb = p;
    return 0;
}

void
cf_perturb_begin(struct cf_run *run)
{
    struct cf_perturb *p = run->perturb;

    if (p == NULL)
        return;
    uv_timer_t *timers[] = {&p->in, &p->out, &p->stop};
    for (size_t i = 0; i < CF_COUNT(timers); i++) {
        (void)uv_timer_init(run->loop, timers[i]); /* cannot fail */
        timers[i]->data = run;
    }
}

int
cf_perturb_close(struct cf_run *run, uv_close_cb on_closed)
{
    struct cf_perturb *p = run->perturb;

    if (p == NULL)
        return 0;
    uv_close((uv_handle_t *)&p->in, on_closed);
    uv_close((uv_handle_t *)&p->out, on_closed);
    uv_close((uv_handle_t *)&p->stop, on_closed);
    return 3;
}

void
cf_perturb_free(struct cf_run *run)
{
    if (run->perturb == NULL)
        return;
    cf_buf_release(&run->perturb->held);
    free(run->perturb);
    run->perturb = NULL;
}

void
cf_perturb_reset(struct cf_run *run)
{
    struct cf_perturb *p = run->perturb;

    if (p == NULL)
        return;
    uv_timer_stop(&p->in);
    uv_timer_stop(&p->out);
    uv_timer_stop(&p->stop);
    p->in_may_go = false;
    cf_buf_reset(&p->held);
    p->then_end = NULL;
    p->then_exit = NULL;
}

/* ---- stdin --------------------------------------------------------------------------------- */

static void
on_may_go(uv_timer_t *timer)
{
    struct cf_run *run = timer->data;

    run->perturb->in_may_go = true;
    cf_harness_pump(run);
    run->perturb->in_may_go = false;
}

size_t
cf_perturb_stdin(struct cf_run *run, size_t len)
{
    struct cf_perturb *p = run->perturb;
    const struct cf_run_options *o = &run->options;
    bool is_bytewise = o->stdin_bytes > 0;

    if (p == NULL || (!is_bytewise && o->stdin_hold_ms == 0))
        return len;
    if (p->in_may_go) {
        p->in_may_go = !is_bytewise; /* one piece for each tick, or all of it */
        if (is_bytewise)
            uv_timer_start(&p->in, on_may_go, o->stdin_gap_ms, 0);
        return is_bytewise && len > o->stdin_bytes ? (size_t)o->stdin_bytes : len;
    }
    if (!uv_is_active((uv_handle_t *)&p->in))
        uv_timer_start(&p->in, on_may_go, is_bytewise ? o->stdin_gap_ms : o->stdin_hold_ms, 0);
    return 0;
}

/* ---- stdout -------------------------------------------------------------------------------- */

static void
on_let_go(uv_timer_t *timer)
{
    struct cf_run *run = timer->data;
    struct cf_perturb *p = run->perturb;
    struct cf_process *process = run->harness.process;
    void (*then_end)(struct cf_run *) = cf_steal(p->then_end);
    void (*then_exit)(struct cf_run *, const struct cf_exit *) = cf_steal(p->then_exit);
    struct cf_exit exit = p->exit;
    struct cf_buf held = p->held;

    cf_buf_init(&p->held, HELD_BYTES);
    if (held.len > 0 && p->take(run, held.data, held.len) == 0 && process == run->harness.process && process != NULL)
        cf_process_resume(process);
    cf_buf_release(&held);
    /* In the order in which a process that is not held tells them. */
    if (then_exit != NULL)
        then_exit(run, &exit);
    if (then_end != NULL)
        then_end(run);
}

int
cf_perturb_stdout(struct cf_run *run, const char *bytes, size_t len, cf_perturb_take_fn *take)
{
    struct cf_perturb *p = run->perturb;
    size_t piece = p != NULL && run->options.stdout_bytes > 0 ? (size_t)run->options.stdout_bytes : len;
    int answer = 0;

    if (p != NULL && run->options.stdout_hold_ms > 0) {
        if (cf_buf_add(&p->held, bytes, len) < 0)
            return take(run, bytes, len); /* it prints more than anybody holds: the budget's business */
        p->take = take;
        if (!uv_is_active((uv_handle_t *)&p->out))
            uv_timer_start(&p->out, on_let_go, run->options.stdout_hold_ms, 0);
        return CF_PAUSE;
    }
    for (size_t at = 0; at < len; at += piece)
        answer = take(run, bytes + at, piece < len - at ? piece : len - at);
    if (len > 0)
        cf_perturb_moment(run, CF_MOMENT_OUTPUT);
    return answer;
}

bool
cf_perturb_holds_end(struct cf_run *run, void (*then)(struct cf_run *run))
{
    struct cf_perturb *p = run->perturb;

    if (p == NULL || p->held.len == 0)
        return false;
    p->then_end = then;
    return true;
}

bool
cf_perturb_holds_exit(struct cf_run *run, const struct cf_exit *exit,
                      void (*then)(struct cf_run *run, const struct cf_exit *exit))
{
    struct cf_perturb *p = run->perturb;

    if (p == NULL || p->held.len == 0)
        return false;
    p->then_exit = then;
    p->exit = *exit;
    return true;
}

/* ---- moments ------------------------------------------------------------------------------- */

static void
on_continue(uv_timer_t *timer)
{
    struct cf_run *run = timer->data;

    if (run->harness.process != NULL && !run->harness.has_exited)
        cf_process_signal(run->harness.process, SIGCONT);
}

void
cf_perturb_moment(struct cf_run *run, enum cf_moment moment)
{
    struct cf_perturb *p = run->perturb;
    bool is_in_turn = run->turn_state == CF_TURN_STAGING || run->turn_state == CF_TURN_RUNNING;

    if (p == NULL || (moment != CF_MOMENT_START && !is_in_turn))
        return;
    if ((int)moment == run->options.stop_at && !p->has_stopped && run->harness.process != NULL) {
        p->has_stopped = true;
        cf_process_signal(run->harness.process, SIGSTOP);
        uv_timer_start(&p->stop, on_continue, run->options.stop_ms, 0);
    }
    if ((int)moment == run->options.cancel_at && !p->has_canceled) {
        p->has_canceled = true;
        cf_run_cancel(run);
    }
}
