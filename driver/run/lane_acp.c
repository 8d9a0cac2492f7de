/*
 * The ACP lane: one process for the whole run, one connection, one session. The handshake is two
 * answers with a budget each; a turn is one session/prompt. What the agent says goes to the
 * normalizer frame by frame, on the stack that read it; what it asks goes to lane_acp_*.c.
 */
#include "run/lane_acp.h"

#include "base/clock.h"
#include "base/str.h"
#include "json/json.h"

#include <stdio.h>
#include <string.h>

#define QUIET_MS 50u        /* after the prompt's answer: late updates are still taken */
#define STDOUT_GONE_MS 1000u /* stdout ended, process lives: how long its exit may take */

/* ---- what the connection says ----------------------------------------------------------- */

static void
acp_send(void *user, const char *line, size_t len)
{
    struct cf_run *run = user;
    struct cf_error why;
    cf_auto_free char *shown = cf_emit_without_token(run, line, len);

    cf_record_put(run, CF_RECORD_INPUT, shown != NULL ? shown : line, len);
    if (cf_harness_say(run, line, len) < 0) {
        (void)cf_error_set(&why, CF_ERROR_HARNESS, 0, "the harness does not read its stdin: 96 MiB are waiting");
        cf_hall_fail(run, &why);
    }
}

static void
acp_frame(void *user, bool from_agent, uint64_t number, const char *line, size_t len)
{
    cf_emit_frame(user, from_agent, number, line, len);
}

static void
acp_update(void *user, json_t *params, json_t *update, uint64_t frame)
{
    struct cf_run *run = user;
    struct cf_error why;

    if (run->lane_closing)
        return; /* only answers to the farewell are heard now */
    if (run->turn_state == CF_TURN_DRAINING)
        uv_timer_again(&run->settle); /* quiet begins anew */
    cf_record_call(run, CF_CALL_UPDATE, frame, NULL, 0);
    cf_normalizer_update(run->normalizer, params, update, frame);
    if (cf_normalizer_is_lost(run->normalizer)) {
        (void)cf_error_memory(&why);
        cf_hall_fail(run, &why);
    }
}

static void
acp_permission(void *user, const struct cf_acp_permission *permission)
{
    struct cf_run *run = user;

    if (run->lane_closing)
        (void)cf_acp_permission_answer(run->acp, permission->handle, NULL);
    else
        cf_acp_on_permission(run, permission);
}

static bool
acp_request(void *user, const struct cf_acp_request *request)
{
    struct cf_run *run = user;

    if (run->lane_closing)
        return false;
    return cf_acp_on_fs(user, request) || cf_acp_on_terminal(user, request) || cf_acp_on_elicitation(user, request);
}

static void
acp_request_gone(void *user, const void *handle)
{
    if (!cf_acp_asks_gone(user, handle) && !cf_acp_fs_gone(user, handle))
        (void)cf_acp_terminal_gone(user, handle);
}

static void
acp_prompt_done(void *user, const char *stop_reason, json_t *result, uint64_t frame)
{
    struct cf_run *run = user;
    json_t *meta = json_object_get(json_object_get(result, "_meta"), "checkfu.turn");

    cf_gateway_claimed_tokens(run, json_object_get(result, "usage"), frame);
    cf_turn_finish(run, strcmp(stop_reason, "cancelled") == 0 ? "interrupted" : stop_reason, meta, frame, QUIET_MS);
}

/* An error to a session/new that asked for authority says that it cannot be given, whatever its code. */
static enum cf_error_kind
kind_of(const char *method, json_int_t code, const char *members)
{
    if (*members != '\0' && code != -32000)
        return CF_ERROR_INCOMPATIBLE;
    if (code == -32000)
        return CF_ERROR_CREDENTIAL;
    if (strcmp(method, "session/prompt") != 0 && (code == -32601 || code == -32602))
        return CF_ERROR_INCOMPATIBLE;
    return CF_ERROR_HARNESS;
}

static bool
is_entering(const char *method)
{
    return strcmp(method, "session/new") == 0 || strcmp(method, "session/load") == 0 ||
           strcmp(method, "session/resume") == 0;
}

static void
acp_call_failed(void *user, const char *method, json_t *error, uint64_t frame)
{
    struct cf_run *run = user;
    struct cf_error why;
    json_int_t code = cf_json_int(error, "code", 0);
    const char *message = cf_json_str(error, "message");
    char members[200] = "";

    if (is_entering(method))
        cf_session_meta_names(run->options.session_meta, members, sizeof members);
    if (code == -32000 && is_entering(method) && !run->login_tried &&
        cf_acp_auth_method(run->acp) != NULL) {
        run->login_tried = true; /* once: it may need a person, who is not here */
        if (cf_acp_authenticate(run->acp, cf_acp_auth_method(run->acp), &why) == 0)
            return;
    }
    if (code == -32601 && strcmp(method, "initialize") == 0 &&
        strstr(cf_acp_first_bytes(run->acp), "\"method\":\"initialize\"") != NULL) {
        (void)cf_error_set(&why, CF_ERROR_INCOMPATIBLE, 0, "the program sends our own request back: it is an echo, no agent");
        cf_hall_fail(run, &why);
        return;
    }
    (void)cf_error_set(&why, kind_of(method, code, members), 0, "%s%s%s was answered with error %lld: %.400s", method,
                       *members != '\0' ? ", which asked for " : "", members, (long long)code,
                       message != NULL ? message : "(no message)");
    if (*members != '\0' && why.kind == CF_ERROR_INCOMPATIBLE)
        (void)cf_error_fix(&why, "serve %s, or do not ask for it", members);
    if (why.kind == CF_ERROR_CREDENTIAL)
        (void)cf_error_fix(&why, "let the harness take its key from OPENAI_API_KEY or ANTHROPIC_API_KEY in its environment");
    if (strcmp(method, "session/prompt") != 0) {
        cf_hall_fail(run, &why);
        return;
    }
    run->terminal_frame = frame;
    if (run->is_canceled) /* a cancelled turn may end as it likes */
        cf_turn_finish(run, "interrupted", NULL, frame, QUIET_MS);
    else
        cf_turn_fail(run, &why);
}

static void
acp_finding(void *user, enum cf_acp_finding_kind kind, uint64_t frame, const char *text)
{
    struct cf_run *run = user;

    if (!run->lane_closing)
        cf_emit_finding(run, cf_acp_finding_name(kind), frame, text);
}

static void
acp_broken(void *user, const struct cf_error *err)
{
    cf_hall_fail(user, err);
}

/* ---- what the process does -------------------------------------------------------------- */

static void
proc_started(void *user, struct cf_process *process, int pid)
{
    struct cf_run *run = user;

    run->harness.has_started = true;
    cf_acp_handshake(run);
    cf_perturb_moment(run, CF_MOMENT_START);
}

static void
proc_start_failed(void *user, struct cf_process *process, const struct cf_start_failure *failure)
{
    struct cf_run *run = user;
    struct cf_error why;

    cf_harness_start_error(run, failure, &why);
    cf_hall_fail(run, &why);
}

static int
take_stdout(struct cf_run *run, const char *bytes, size_t len)
{
    struct cf_error why;

    if (cf_harness_count_output(run, len) < 0)
        return 0;
    if (run->lane_closing) {
        cf_acp_farewell_heard(run, bytes, len);
        return 0;
    }
    cf_turn_activity(run);
    if (cf_record_feed_acp(run, bytes, len) < 0) {
        (void)cf_error_memory(&why);
        cf_hall_fail(run, &why);
    }
    return run->is_paused || cf_record_is_full(run) ? CF_PAUSE : 0;
}

static int
proc_stdout(void *user, struct cf_process *process, const char *bytes, size_t len)
{
    return cf_perturb_stdout(user, bytes, len, take_stdout);
}

static int
proc_stderr(void *user, struct cf_process *process, const char *bytes, size_t len)
{
    cf_harness_stderr(user, bytes, len);
    cf_turn_activity(user);
    return 0;
}

/* The harness ended as its turn did. A good end leaves the turn as it is, and the next prompt finds
 * nobody; a bad one makes it a failed one. */
static void
gone_with_turn(struct cf_run *run)
{
    struct cf_error why;

    if (run->harness.has_exited && (run->harness.exit.code != 0 || run->harness.exit.signal != 0)) {
        cf_harness_exit_error(run, "as its turn ended", &why);
        cf_hall_fail(run, &why);
    } else {
        cf_turn_conclude(run);
    }
}

/* stdout is at its end and the process is gone, or stayed too long: the connection is over. */
static void
lane_over(struct cf_run *run)
{
    static const char *const when[] = {"before it answered initialize", "before it answered initialize",
                                       "before it answered session/new", "while its session was open"};
    struct cf_error why;

    if (run->turn_state != CF_TURN_DRAINING)
        uv_timer_stop(&run->settle);
    if (!run->lane_closing) {
        cf_record_put(run, CF_RECORD_END, NULL, 0);
        cf_acp_end(run->acp); /* a last frame without its line end is read by this */
    }
    if (run->lane_closing || run->state >= CF_HALL_DOWN)
        return;
    if (run->turn_state == CF_TURN_DRAINING && run->acks_owed == 0) {
        gone_with_turn(run);
        return;
    }
    if (run->harness.has_exited)
        cf_harness_exit_error(run, run->turn_state != CF_TURN_NONE ? "in the middle of a turn" : when[run->session_step],
                              &why);
    else
        (void)cf_error_set(&why, CF_ERROR_HARNESS, 0, "the harness closed its stdout and lives on");
    cf_hall_fail(run, &why);
}

static void
on_stdout_gone(uv_timer_t *timer)
{
    lane_over(timer->data);
}

static void
maybe_over(struct cf_run *run)
{
    struct cf_harness *h = &run->harness;

    if (h->has_exited && h->stdout_ended)
        lane_over(run);
    else if (run->turn_state == CF_TURN_DRAINING)
        return; /* quiet ends the turn, and then there is time for this */
    else
        uv_timer_start(&run->settle, on_stdout_gone, h->has_exited ? QUIET_MS * 5 : STDOUT_GONE_MS, 0);
}

static void
stdout_over(struct cf_run *run)
{
    run->harness.stdout_ended = true;
    if (run->lane_closing)
        cf_hall_kick(run);
    else
        maybe_over(run);
}

static void
proc_stdout_end(void *user, struct cf_process *process)
{
    if (!cf_perturb_holds_end(user, stdout_over))
        stdout_over(user);
}

static void
proc_stderr_end(void *user, struct cf_process *process)
{
    ((struct cf_run *)user)->harness.stderr_ended = true;
}

static void
proc_stdin_room(void *user, struct cf_process *process)
{
    cf_harness_pump(user);
    cf_acp_fs_continue(user);
}

static void
proc_stdin_closed(void *user, struct cf_process *process)
{
    struct cf_run *run = user;

    run->harness.input_ends = true; /* an ordinary event: a final answer may still be on stdout */
    cf_buf_reset(&run->harness.input);
    run->harness.input_at = 0;
}

static void
exit_over(struct cf_run *run, const struct cf_exit *exit)
{
    cf_harness_exited(run, exit);
    if (run->lane_closing)
        cf_hall_kick(run);
    else
        maybe_over(run);
}

static void
proc_exit(void *user, struct cf_process *process, const struct cf_exit *exit)
{
    if (!cf_perturb_holds_exit(user, exit, exit_over))
        exit_over(user, exit);
}

/* ---- the lane --------------------------------------------------------------------------- */

static struct cf_acp_side *
side_new(void)
{
    struct cf_acp_side *side = calloc(1, sizeof *side);

    if (side == NULL)
        return NULL;
    TAILQ_INIT(&side->asks);
    TAILQ_INIT(&side->steers);
    TAILQ_INIT(&side->jobs);
    TAILQ_INIT(&side->terminals);
    side->steered = json_object();
    side->held = json_array();
    side->given = json_array();
    side->settings = json_array();
    return side;
}

static void
side_free(struct cf_acp_side *side)
{
    if (side == NULL)
        return;
    cf_acp_asks_free(side);
    cf_acp_steers_free(side);
    cf_acp_fs_free(side);
    cf_acp_terminals_free(side);
    json_decref(side->steered);
    json_decref(side->held);
    json_decref(side->given);
    json_decref(side->settings);
    json_decref(side->latest);
    free(side);
}

static int
lane_open(struct cf_run *run, struct cf_error *err)
{
    static const struct cf_acp_events events = {
        .send = acp_send,
        .on_frame = acp_frame,
        .on_initialized = cf_acp_initialized,
        .on_authenticated = cf_acp_authenticated,
        .on_session = cf_acp_session_open,
        .on_update = acp_update,
        .on_permission = acp_permission,
        .on_request = acp_request,
        .on_request_gone = acp_request_gone,
        .on_prompt_done = acp_prompt_done,
        .on_call_failed = acp_call_failed,
        .on_finding = acp_finding,
        .on_broken = acp_broken,
    };
    static const struct cf_process_events process = {
        .on_started = proc_started,
        .on_start_failed = proc_start_failed,
        .on_stdout = proc_stdout,
        .on_stderr = proc_stderr,
        .on_stdout_end = proc_stdout_end,
        .on_stderr_end = proc_stderr_end,
        .on_stdin_room = proc_stdin_room,
        .on_stdin_closed = proc_stdin_closed,
        .on_exit = proc_exit,
    };
    const struct cf_acp_options options = {.client_name = "cfrunner", .client_version = CFRUNNER_VERSION};

    run->side = side_new();
    run->acp = cf_acp_new(&options, &events, run);
    if (run->side == NULL || run->acp == NULL)
        return cf_error_memory(err);
    cf_acp_clock(run, CF_ACP_SPAWN, run->options.start_ms);
    return cf_harness_spawn(run, (char **)run->release.argv, true, &process, err);
}

/* ---- its end, sooner or later ---------------------------------------------------------- */

static void
on_cancel_deadline(uv_timer_t *timer)
{
    struct cf_run *run = timer->data;
    struct cf_error why;

    (void)cf_error_set(&why, CF_ERROR_HARNESS, 0, "session/cancel was not obeyed within %llu ms",
                       (unsigned long long)run->options.drain_ms);
    (void)cf_error_fix(&why, "answer the pending session/prompt with stopReason cancelled");
    cf_hall_fail(run, &why);
}

static void
lane_cancel(struct cf_run *run)
{
    if (run->turn_state != CF_TURN_RUNNING || run->is_canceled)
        return;
    run->is_canceled = true;
    (void)cf_acp_cancel(run->acp);
    uv_timer_start(&run->phase, on_cancel_deadline, run->options.drain_ms, 0);
}

static void
lane_resume(struct cf_run *run)
{
    if (run->harness.process != NULL)
        cf_process_resume(run->harness.process);
}

static void
lane_interrupt(struct cf_run *run)
{
    cf_acp_interrupt(run);
}

static void
lane_wishes(struct cf_run *run)
{
    cf_acp_asks_wishes(run);
    cf_acp_steers_wishes(run);
}

static void
lane_turn_over(struct cf_run *run)
{
    if (run->side != NULL)
        cf_acp_steers_turn_over(run);
}

static void
lane_stop(struct cf_run *run)
{
    uv_timer_stop(&run->ack);
    uv_timer_stop(&run->linger);
    cf_acp_farewell(run);
}

static void
lane_release(struct cf_run *run)
{
    cf_acp_farewell_over(run);
    uv_timer_stop(&run->ack);
    uv_timer_stop(&run->linger);
    cf_acp_free(run->acp);
    run->acp = NULL;
    side_free(run->side);
    run->side = NULL;
}

const struct cf_lane cf_acp_lane = {.open = lane_open,
                                    .begin = cf_acp_begin,
                                    .cancel = lane_cancel,
                                    .resume = lane_resume,
                                    .interrupt = lane_interrupt,
                                    .wishes = lane_wishes,
                                    .turn_over = lane_turn_over,
                                    .stop = lane_stop,
                                    .release = lane_release};
