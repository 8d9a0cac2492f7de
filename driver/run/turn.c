/*
 * One turn, whatever the wire: begun by a prompt, bounded by its deadlines, closed by exactly one
 * terminal observation. The lanes say what happened; here it is decided when that is the end.
 */
#include "run/hall.h"

#include "base/clock.h"
#include "base/str.h"
#include "json/json.h"

#include <stdio.h>
#include <string.h>

int
cf_prompt_decode(const char *json, size_t len, struct cf_prompt *prompt, struct cf_error *err)
{
    static const struct cf_json_limits limits = {64u << 20, 40, 100000, true, true};
    json_t *text, *replay;

    memset(prompt, 0, sizeof *prompt);
    prompt->json = cf_json_parse(json, len, &limits, err);
    if (prompt->json == NULL)
        return cf_error_wrap(err, "prompt");
    text = json_object_get(prompt->json, "text");
    prompt->text = json_string_value(text);
    prompt->text_len = json_string_length(text);
    if (prompt->text == NULL) {
        cf_prompt_done(prompt);
        return cf_error_set(err, CF_ERROR_CONFIG, 0, "prompt: no text member");
    }
    prompt->output_schema = json_object_get(prompt->json, "output_schema");
    if (json_is_null(prompt->output_schema))
        prompt->output_schema = NULL;
    replay = cf_json_obj(prompt->json, "replay");
    prompt->prompt_nonce = cf_json_str(replay, "prompt_nonce");
    prompt->answer_nonce = cf_json_str(replay, "answer_nonce");
    prompt->prior_nonce = cf_json_str(replay, "prior_nonce");
    prompt->answer_json = cf_json_str(replay, "answer_json");
    prompt->hold_ms = (uint64_t)cf_json_int(replay, "hold_ms", 0);
    prompt->blocks = cf_json_arr(prompt->json, "blocks");
    prompt->approvals = cf_json_arr(prompt->json, "approvals");
    prompt->answers = cf_json_arr(prompt->json, "answers");
    return 0;
}

void
cf_prompt_done(struct cf_prompt *prompt)
{
    json_decref(prompt->json);
    memset(prompt, 0, sizeof *prompt);
}

/* Who may start no more processes often stands still: the deadline keeps its name, and says so. */
static void
add_refused(struct cf_run *run)
{
    struct cf_error *why = &run->suspicion;
    struct cf_error plain = *why;

    (void)cf_error_set(why, plain.kind, plain.code, "%s; its limit of %llu processes was reached", plain.text,
                       (unsigned long long)run->pids_limit);
    (void)cf_error_fix(why, "start fewer processes and threads, or raise the limit with --pids");
}

/* Silence is the harness's fault only in a sandbox that lives. */
static void
on_heard(void *user, const struct cf_error *why)
{
    struct cf_run *run = user;

    if (run->turn_state == CF_TURN_NONE || run->heard_turn != run->turn || run->terminal_sent)
        return;
    if (why != NULL)
        run->model_was_silent = false;
    else if (run->pids_refused > 0 && !run->model_was_silent)
        add_refused(run);
    if (why != NULL || run->turn_state != CF_TURN_DRAINING) /* it may just have answered */
        cf_hall_fail(run, why != NULL ? why : &run->suspicion);
}

static void
suspect(struct cf_run *run, const struct cf_error *why)
{
    run->suspicion = *why;
    run->heard_turn = run->turn;
    cf_sandbox_hark(run->sandbox, on_heard, run);
}

static void
on_turn_deadline(uv_timer_t *timer)
{
    struct cf_run *run = timer->data;
    unsigned long long limit_s = (run->options.turn_ms + 999) / 1000;
    uint64_t call = 0, silent_ms = cf_relay_silence(run->relay, &call);
    struct cf_error why;

    /* Whoever waits for an answer through half of its turn is not the one who is late. */
    run->model_was_silent = silent_ms >= run->options.turn_ms / 2;
    if (run->model_was_silent) {
        (void)cf_error_set(&why, CF_ERROR_TURN_DEADLINE, 0,
                           "the turn did not end within %llu s: the model was silent for %llu s (call %llu)",
                           limit_s, (unsigned long long)silent_ms / 1000, (unsigned long long)call);
        (void)cf_error_fix(&why, "look at the provider or the model script, or raise --turn-timeout");
    } else {
        (void)cf_error_set(&why, CF_ERROR_TURN_DEADLINE, 0, "the turn did not end within %llu s", limit_s);
        (void)cf_error_fix(&why, "raise --turn-timeout, or look where the harness waits (-v shows its last frames)");
    }
    suspect(run, &why);
}

static void
on_idle(uv_timer_t *timer)
{
    struct cf_run *run = timer->data;
    struct cf_error why;

    if (cf_relay_calls_in_flight(run->relay) > 0 || (run->egress != NULL && cf_egress_open_count(run->egress) > 0)) {
        cf_turn_activity(run);
        return;
    }
    (void)cf_error_set(&why, CF_ERROR_TURN_DEADLINE, 0,
                       "idle for %llu ms: no stdout, no stderr, no model call in flight",
                       (unsigned long long)run->options.idle_ms);
    (void)cf_error_fix(&why, "raise --idle-timeout, or let the harness show life on stderr");
    suspect(run, &why);
}

/* The folder as it was before the turn is known: the lane's part begins. */
static void
begin_lane(struct cf_run *run)
{
    struct cf_error why;

    if (run->turn_state != CF_TURN_LISTING)
        return;
    run->turn_state = CF_TURN_STAGING;
    if (run->is_canceled)
        cf_turn_finish(run, "interrupted", NULL, 0, 0);
    else if (run->lane->begin(run, &why) < 0)
        cf_turn_fail(run, &why);
    else
        cf_perturb_moment(run, CF_MOMENT_PROMPT);
}

void
cf_turn_begin(struct cf_run *run)
{
    struct cf_relay_turn relay_turn;

    cf_prompt_done(&run->prompt);
    run->prompt = run->next_prompt;
    memset(&run->next_prompt, 0, sizeof run->next_prompt);
    run->turn++;
    run->turn_state = CF_TURN_LISTING;
    run->is_canceled = run->terminal_sent = run->turn_failed = run->conclude_wanted = false;
    run->stop_reason[0] = '\0';
    run->turn_error.kind = CF_ERROR_NONE;
    run->turn_began_ms = cf_clock_ms();
    cf_gateway_turn_begin(run);
    relay_turn = (struct cf_relay_turn){run->turn, run->prompt.prompt_nonce, run->prompt.answer_nonce,
                                        run->prompt.prior_nonce, run->prompt.answer_json};
    cf_relay_turn_begin(run->relay, &relay_turn);
    if (run->prompt.hold_ms > 0)
        cf_relay_hold(run->relay, run->prompt.hold_ms);
    cf_record_call(run, CF_CALL_TURN_BEGIN, 0, NULL, 0);
    cf_normalizer_turn_begin(run->normalizer);
    cf_grammar_turn_begin(run->grammar);
    uv_timer_start(&run->phase, on_turn_deadline, run->options.turn_ms, 0);
    if (run->options.idle_ms > 0)
        uv_timer_start(&run->idle, on_idle, run->options.idle_ms, 0);
    cf_hall_phase(run, "turn", "", UINT64_MAX);
    cf_changes_turn_begin(run, begin_lane);
}

void
cf_turn_conclude(struct cf_run *run)
{
    if (run->turn_state == CF_TURN_NONE)
        return;
    uv_timer_stop(&run->settle);
    run->conclude_wanted = run->acks_owed > 0;
    if (!run->conclude_wanted)
        cf_changes_turn_end(run, cf_turn_settle);
}

void
cf_turn_acknowledged(struct cf_run *run)
{
    if (--run->acks_owed == 0 && run->conclude_wanted)
        cf_turn_conclude(run);
}

static void
on_quiet(uv_timer_t *timer)
{
    cf_turn_conclude(timer->data);
}

void
cf_turn_activity(struct cf_run *run)
{
    if (run->turn_state == CF_TURN_NONE)
        return;
    if (uv_is_active((uv_handle_t *)&run->idle))
        uv_timer_start(&run->idle, on_idle, run->options.idle_ms, 0);
}

void
cf_turn_finish(struct cf_run *run, const char *stop_reason, json_t *turn_meta, uint64_t frame, uint64_t drain_ms)
{
    if (run->turn_state == CF_TURN_NONE || run->turn_state == CF_TURN_DRAINING)
        return;
    (void)snprintf(run->stop_reason, sizeof run->stop_reason, "%s", run->is_canceled ? "interrupted" : stop_reason);
    json_decref(run->turn_meta);
    run->turn_meta = json_incref(turn_meta);
    run->terminal_frame = frame;
    run->turn_state = CF_TURN_DRAINING;
    uv_timer_stop(&run->phase);
    uv_timer_stop(&run->idle);
    uv_timer_start(&run->settle, on_quiet, drain_ms, drain_ms); /* repeat: for uv_timer_again */
}

void
cf_turn_fail(struct cf_run *run, const struct cf_error *err)
{
    if (run->turn_state == CF_TURN_NONE)
        return;
    if (!run->turn_failed)
        run->turn_error = *err;
    run->turn_failed = true;
    cf_turn_settle(run);
}

static const char *
emit_terminal(struct cf_run *run)
{
    if (run->turn_failed) {
        cf_emit_failure(run, &run->turn_error, run->terminal_frame);
        run->failure_told = true;
        return "failed";
    }
    if (run->held_action != NULL) {
        cf_record_call(run, CF_CALL_FLUSH, run->terminal_frame, NULL, 0);
        cf_normalizer_flush(run->normalizer, run->terminal_frame);
        cf_record_call_json(run, CF_CALL_REQUIRES_ACTION, run->terminal_frame, run->held_action);
        cf_normalizer_requires_action(run->normalizer, run->held_action, run->terminal_frame);
        json_decref(run->held_action);
        run->held_action = NULL;
        return "requires_action";
    }
    cf_record_finished(run, run->stop_reason, run->turn_meta, run->terminal_frame);
    cf_normalizer_finished(run->normalizer, run->stop_reason, run->turn_meta, run->terminal_frame);
    return "finished";
}

void
cf_turn_settle(struct cf_run *run)
{
    const char *outcome;

    if (run->turn_state == CF_TURN_NONE || run->terminal_sent)
        return;
    run->terminal_sent = true;
    cf_changes_turn_over(run);
    uv_timer_stop(&run->phase);
    uv_timer_stop(&run->idle);
    uv_timer_stop(&run->settle);
    if (run->prompt.hold_ms > 0)
        cf_relay_release(run->relay);
    outcome = emit_terminal(run);
    cf_record_call(run, CF_CALL_TURN_END, 0, NULL, 0);
    cf_grammar_turn_end(run->grammar);
    run->cancel_wanted = run->interrupt_wanted = false; /* they were this turn's */
    if (run->lane->turn_over != NULL)
        run->lane->turn_over(run);
    run->turn_state = CF_TURN_NONE;
    cf_hall_phase(run, "turn", "", cf_clock_ms() - run->turn_began_ms);
    cf_result_turn(run, outcome);
    json_decref(run->turn_meta);
    run->turn_meta = NULL;
    run->terminal_frame = 0;
}
