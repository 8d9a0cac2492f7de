/*
 * Steers and drains: text into a turn that runs, and its end by agreement. Each is one extension
 * request; the harness owes one answer to each, and the turn's terminal waits for it, so that no
 * input is left maybe delivered.
 */
#include "run/lane_acp.h"

#include "base/clock.h"
#include "base/ids.h"
#include "base/str.h"
#include "json/json.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define STEERS_MOST 10000u /* of one run */
#define CONTENT_BYTES (1u << 20)
#define CALL_WAIT_MS 2000u /* a held answer: how long the harness may take to ask for it */
#define CALL_LOOK_MS 50u
#define REFUSED_MS 500u    /* a turn whose drain was refused is ended after this */

/* ---- what is owed ---------------------------------------------------------------------------- */

static void on_ack_timer(uv_timer_t *timer);

static void
watch_acks(struct cf_run *run)
{
    if (!uv_is_active((uv_handle_t *)&run->ack))
        uv_timer_start(&run->ack, on_ack_timer, CF_ACP_ACK_MS, 0);
}

static void
owe(struct cf_run *run)
{
    run->acks_owed++;
    watch_acks(run);
}

static void
broken_promise(struct cf_run *run, const char *what, const char *how, const char *fix)
{
    struct cf_error why;

    (void)cf_error_set(&why, CF_ERROR_HARNESS, 0, "%s %s", what, how);
    (void)cf_error_fix(&why, "%s", fix);
    cf_hall_fail(run, &why);
}

/* Something waits for its moment. */
static void
look_again(struct cf_run *run)
{
    uv_timer_start(&run->ack, on_ack_timer, CALL_LOOK_MS, 0);
}

/* ---- steers ------------------------------------------------------------------------------------ */

static void
steer_free(struct cf_acp_side *side, struct cf_steer *steer)
{
    TAILQ_REMOVE(&side->steers, steer, in_list);
    json_decref(steer->content);
    free(steer);
}

/* The steer is gone; the host hears what became of it. */
static void
tell(struct cf_run *run, struct cf_steer *steer, const char *disposition)
{
    char id[sizeof steer->id];

    memcpy(id, steer->id, sizeof id);
    steer_free(run->side, steer);
    if (run->host.on_steering != NULL)
        run->host.on_steering(run->host.user, id, disposition);
}

static void
on_steer_answered(void *user, json_t *result, json_t *error, uint64_t frame)
{
    struct cf_steer *steer = user;
    struct cf_run *run = steer->run;
    const char *disposition = cf_slot_disposition(CF_SLOT_STEER, result);
    char how[300];

    steer->is_sent = false;
    if (result == NULL && error == NULL)
        return; /* the connection ended: that has its own story */
    if (run->prompt.hold_ms > 0 && run->turn_state != CF_TURN_NONE)
        cf_relay_release(run->relay);
    if (disposition == NULL) {
        (void)snprintf(how, sizeof how, "was answered with %s%.200s",
                       error != NULL ? "an error: " : "what is no disposition",
                       error != NULL && cf_json_str(error, "message") != NULL ? cf_json_str(error, "message") : "");
        broken_promise(run, "a steer", how, "answer each _checkfu/session/steer once with {\"disposition\":"
                                            "\"delivered\"|\"queued\"|\"refused\"}");
        return;
    }
    if (run->turn_state != CF_TURN_NONE) {
        cf_record_call_texts(run, CF_CALL_STEERING, frame, steer->id, disposition);
        cf_normalizer_steering(run->normalizer, steer->id, disposition, frame);
    }
    tell(run, steer, disposition);
    cf_turn_acknowledged(run);
}

static void
send_steer(struct cf_run *run, struct cf_steer *steer)
{
    json_t *params = json_pack("{s:s, s:O}", "id", steer->id, "content", steer->content);
    struct cf_error why;

    steer->is_sent = steer->was_sent = true;
    steer->sent_ms = cf_clock_ms();
    cf_record_call(run, CF_CALL_STEER_SENT, 0, steer->id, strlen(steer->id));
    cf_grammar_steer_sent(run->grammar, steer->id);
    owe(run);
    if (params == NULL || cf_acp_request(run->acp, cf_slot_name(CF_SLOT_STEER), params, on_steer_answered, steer, &why) < 0) {
        if (params == NULL)
            (void)cf_error_memory(&why);
        cf_hall_fail(run, &why);
    }
    json_decref(params);
}

/* Where the model's answer is held for it, a steer goes out when that answer was asked for: then the
 * turn is live beyond doubt. */
static bool
is_time(struct cf_run *run)
{
    if (run->prompt.hold_ms == 0 || cf_relay_calls_in_flight(run->relay) > 0)
        return true;
    return cf_clock_ms() - run->turn_began_ms >= CALL_WAIT_MS;
}

/* ---- drains ------------------------------------------------------------------------------------------ */

static void on_drain_deadline(uv_timer_t *timer);

static void
on_drain_answered(void *user, json_t *result, json_t *error, uint64_t frame)
{
    struct cf_run *run = user;
    const char *disposition = cf_slot_disposition(CF_SLOT_INTERRUPT, result);

    if (run->side == NULL || !run->side->drain_is_pending)
        return;
    run->side->drain_is_pending = false;
    if (result == NULL && error == NULL)
        return;
    cf_record_call(run, CF_CALL_DRAIN_ANSWERED, 0, disposition, disposition != NULL ? strlen(disposition) : 0);
    cf_grammar_drain_answered(run->grammar, disposition);
    if (run->prompt.hold_ms > 0 && run->turn_state != CF_TURN_NONE)
        cf_relay_release(run->relay);
    if (cf_str_same(disposition, "draining")) {
        run->side->drain_is_accepted = true;
    } else {
        run->side->drain_is_refused = true;
        if (run->turn_state == CF_TURN_RUNNING) /* it may have been about to end by itself */
            uv_timer_start(&run->phase, on_drain_deadline, REFUSED_MS, 0);
    }
    cf_turn_acknowledged(run);
}

static void
on_drain_deadline(uv_timer_t *timer)
{
    struct cf_run *run = timer->data;
    char how[200];

    if (run->side->drain_is_refused) {
        broken_promise(run, "a cooperative interrupt", "was not accepted, though it is declared",
                       "answer {\"disposition\":\"draining\"} and let the turn end by itself, or do not declare interrupt");
        return;
    }
    (void)snprintf(how, sizeof how, "was %s, and the turn did not settle within %llu ms",
                   run->side->drain_is_accepted ? "accepted" : "not answered", (unsigned long long)run->options.drain_ms);
    broken_promise(run, "a cooperative interrupt", how, "stop starting new work when asked to drain, and answer the prompt");
}

static void
end_process(struct cf_run *run)
{
    struct cf_error why;

    (void)cf_error_set(&why, CF_ERROR_CANCELED, 0, "interrupted: the harness declares no cooperative interrupt and was ended");
    run->close_grace_ms = 0;
    cf_hall_fail(run, &why);
}

static void
send_drain(struct cf_run *run)
{
    struct cf_error why;

    run->side->drain_was_asked = false;
    run->side->drain_is_pending = true;
    run->side->drain_ms = cf_clock_ms();
    cf_record_call(run, CF_CALL_DRAIN_SENT, 0, NULL, 0);
    cf_grammar_drain_sent(run->grammar);
    owe(run);
    uv_timer_start(&run->phase, on_drain_deadline, run->options.drain_ms, 0);
    if (cf_acp_request(run->acp, cf_slot_name(CF_SLOT_INTERRUPT), NULL, on_drain_answered, run, &why) < 0)
        cf_hall_fail(run, &why);
}

void
cf_acp_interrupt(struct cf_run *run)
{
    bool is_running = run->turn_state == CF_TURN_RUNNING;

    if (run->is_canceled || run->side->drain_is_pending || run->side->drain_is_accepted || run->side->drain_is_refused)
        return;
    if (run->declaration.interrupt)
        run->side->drain_was_asked = true; /* wishes follow at once, and when the turn runs */
    else if (is_running)
        end_process(run);
    else
        run->is_canceled = true; /* nothing has been sent yet: turn.c sees it */
}

/* ---- the clock of both ----------------------------------------------------------------------------------- */

static void
on_ack_timer(uv_timer_t *timer)
{
    struct cf_run *run = timer->data;
    uint64_t now = cf_clock_ms(), oldest = UINT64_MAX;
    struct cf_steer *steer, *late = NULL;

    if (run->side == NULL)
        return;
    TAILQ_FOREACH(steer, &run->side->steers, in_list)
        if (steer->is_sent && steer->sent_ms < oldest) {
            oldest = steer->sent_ms;
            late = steer;
        }
    if (late != NULL && now - oldest >= CF_ACP_ACK_MS) {
        (void)cf_acp_withdraw(run->acp, on_steer_answered, late);
        broken_promise(run, "a steer", "was never acknowledged: it may have been delivered, or not",
                       "answer each _checkfu/session/steer at once, also while the turn runs");
        return;
    }
    if (run->side->drain_is_pending && now - run->side->drain_ms >= CF_ACP_ACK_MS) {
        on_drain_deadline(&run->phase);
        return;
    }
    if (run->side->drain_is_pending && run->side->drain_ms < oldest)
        oldest = run->side->drain_ms;
    if (oldest != UINT64_MAX)
        uv_timer_start(&run->ack, on_ack_timer, oldest + CF_ACP_ACK_MS - now, 0);
    else
        cf_hall_kick(run); /* a steer waits for its moment */
}

/* What was left by the verbs goes out when it is time, in order, a drain last. */
void
cf_acp_steers_wishes(struct cf_run *run)
{
    struct cf_steer *steer;

    if (run->turn_state != CF_TURN_RUNNING)
        return;
    TAILQ_FOREACH(steer, &run->side->steers, in_list) {
        if (steer->was_sent)
            continue;
        if (!is_time(run)) {
            look_again(run);
            return;
        }
        send_steer(run, steer);
        if (run->state != CF_HALL_OPEN)
            return;
    }
    if (!run->side->drain_was_asked)
        return;
    if (is_time(run))
        send_drain(run);
    else
        look_again(run);
}

/* What was not sent in this turn is the caller's again. */
void
cf_acp_steers_turn_over(struct cf_run *run)
{
    struct cf_steer *steer;

    do {
        TAILQ_FOREACH(steer, &run->side->steers, in_list)
            if (!steer->was_sent)
                break;
        if (steer != NULL)
            tell(run, steer, "unsent");
    } while (steer != NULL);
    run->side->drain_was_asked = run->side->drain_is_accepted = run->side->drain_is_refused = false;
}

void
cf_acp_steers_free(struct cf_acp_side *side)
{
    while (!TAILQ_EMPTY(&side->steers))
        steer_free(side, TAILQ_FIRST(&side->steers));
}

/* ---- the public verb ------------------------------------------------------------------------------------------ */

static int
check_can_steer(const struct cf_run *run, struct cf_error *err)
{
    bool is_in_turn = run->turn_state != CF_TURN_NONE && run->turn_state != CF_TURN_DRAINING && !run->is_canceled &&
                      !run->terminal_sent;

    if (!run->declaration.steer) {
        (void)cf_error_set(err, CF_ERROR_INCOMPATIBLE, 0, "the harness does not declare steer: nothing was sent");
        return cf_error_fix(err, "declare steer:\"native\" in checkfu.capabilities and serve it, or send it as a prompt");
    }
    if (run->state != CF_HALL_OPEN || run->side == NULL ||
        !(is_in_turn || (run->turn_state == CF_TURN_NONE && run->prompt_wanted)))
        return cf_error_set(err, CF_ERROR_CONFIG, 0, "no turn is in flight that a steer could reach");
    if (json_object_size(run->side->steered) >= STEERS_MOST)
        return cf_error_set(err, CF_ERROR_BUDGET, 0, "more than %u steers in one run", STEERS_MOST);
    return 0;
}

static int
read_steer(json_t *document, struct cf_steer *steer, struct cf_error *err)
{
    const char *id = cf_json_str(document, "id");
    json_t *content = json_object_get(document, "content");

    if (!json_is_string(content) || json_string_length(content) == 0 || json_string_length(content) > CONTENT_BYTES)
        return cf_error_set(err, CF_ERROR_CONFIG, 0, "steer: content is not a text of 1 to %u bytes", CONTENT_BYTES);
    if (id == NULL && json_object_get(document, "id") == NULL)
        cf_id_make("evt_", steer->id, sizeof steer->id);
    else if (id == NULL || strlen(id) != 36 || !cf_str_starts(id, "evt_") || !cf_is_hex(id + 4, 32))
        return cf_error_set(err, CF_ERROR_CONFIG, 0, "steer: id is not evt_ and 32 lower-case hex digits");
    else
        memcpy(steer->id, id, 37);
    steer->content = json_incref(content);
    return 0;
}

int
cf_run_steer(struct cf_run *run, const char *steer_json, size_t len, char ret_event_id[40], struct cf_error *err)
{
    static const struct cf_json_limits limits = {2u << 20, 4, 100, true, true};
    struct cf_steer *steer;
    json_t *document;
    int status;

    if (check_can_steer(run, err) < 0)
        return -1;
    document = cf_json_parse(steer_json, len, &limits, err);
    if (document == NULL)
        return cf_error_wrap(err, "steer");
    steer = calloc(1, sizeof *steer);
    status = steer != NULL ? read_steer(document, steer, err) : cf_error_memory(err);
    json_decref(document);
    if (status < 0) {
        free(steer);
        return -1;
    }
    if (ret_event_id != NULL)
        memcpy(ret_event_id, steer->id, 37);
    if (json_object_get(run->side->steered, steer->id) != NULL) { /* once is enough */
        json_decref(steer->content);
        free(steer);
        return 0;
    }
    (void)json_object_set_new(run->side->steered, steer->id, json_true());
    steer->run = run;
    TAILQ_INSERT_TAIL(&run->side->steers, steer, in_list);
    cf_hall_kick(run);
    return 0;
}
