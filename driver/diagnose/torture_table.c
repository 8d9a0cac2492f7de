/*
 * The troubles of `--torture quick`, in the order in which they are named: from what every harness
 * must bear to what it may fail at in good order. A verdict is compared check by check; a skip of
 * what was not asked again is no change.
 */
#include "diagnose/torture.h"

#include "base/str.h"
#include "json/json.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define ANSWER "\"say\":[{\"text\":\"The answer is {answer}.\"}]"
#define MAIN "\"name\":\"torture\",\"when\":{\"main\":true}"
#define ONCE MAIN ",\"times\":1"
/* An answer that is a stream is cut between its events, one that is whole within its bytes. */
#define CUT(how)                                                                                                  \
    "[{\"name\":\"torture\",\"when\":{\"main\":true,\"streamed\":true},\"times\":1," ANSWER                       \
    ",\"break\":{\"how\":\"" how "\",\"after_events\":2}},"                                                       \
    "{\"name\":\"torture\",\"when\":{\"main\":true,\"streamed\":false},\"times\":1," ANSWER                       \
    ",\"break\":{\"how\":\"" how "\",\"after_bytes\":60}}]"

/* clang-format off */
const struct cf_torture_trial cf_torture_quick[] = {
    {"stdin_bytes", "stdin comes one byte a write, 1 ms apart", CF_TORTURE_SAME, true, false, NULL,
     "{\"stdin_bytes\":1,\"stdin_gap_ms\":1}", NULL},
    {"stdin_slow", "stdin comes 64 bytes every 20 ms", CF_TORTURE_SAME, true, false, NULL,
     "{\"stdin_bytes\":64,\"stdin_gap_ms\":20}", NULL},
    {"stdin_held", "what is said is held for 250 ms, then written at once", CF_TORTURE_SAME, true, false, NULL,
     "{\"stdin_hold_ms\":250}", NULL},
    {"stdout_bytes", "stdout is read byte by byte", CF_TORTURE_SAME, false, false, NULL,
     "{\"stdout_bytes\":1}", NULL},
    {"stdout_stalled", "stdout is not read for 200 ms, then all at once", CF_TORTURE_SAME, false, false, NULL,
     "{\"stdout_hold_ms\":200}", NULL},
    {"stopped_at_start", "SIGSTOP for 300 ms as it starts", CF_TORTURE_SAME, false, false, NULL,
     "{\"stop_at\":\"start\",\"stop_ms\":300}", NULL},
    {"stopped_at_model", "SIGSTOP for 500 ms as it calls the model", CF_TORTURE_SAME, false, false, NULL,
     "{\"stop_at\":\"model\",\"stop_ms\":500}", NULL},
    {"model_bytes", "the model's answer comes one byte a write", CF_TORTURE_SAME, false, false, NULL,
     NULL, "[{" MAIN "," ANSWER ",\"chunk_bytes\":4,\"write_bytes\":1}]"},
    {"model_coalesced", "the model's answer comes in one write", CF_TORTURE_SAME, false, false, NULL,
     NULL, "[{" MAIN "," ANSWER ",\"write_bytes\":1000000}]"},
    {"model_stalled", "the model waits 800 ms, then 200 ms between its events", CF_TORTURE_SAME, false, false, NULL,
     NULL, "[{" MAIN "," ANSWER ",\"delay_ms\":800,\"gap_ms\":200}]"},
    {"model_429", "the model is busy once: 429, retry-after 1 s", CF_TORTURE_SAME, false, false, NULL,
     NULL, "[{" ONCE ",\"error\":{\"status\":429,\"retry_after\":1}}]"},
    {"model_500", "the model fails once: 500, retry-after 1 s", CF_TORTURE_SAME, false, false, NULL,
     NULL, "[{" ONCE ",\"error\":{\"status\":500,\"retry_after\":1}}]"},
    {"model_error", "the model's answer ends in its dialect's error, once", CF_TORTURE_TOLD, false, false, NULL,
     NULL, CUT("error")},
    {"model_cut", "the model's answer ends early, as if it were whole, once", CF_TORTURE_TOLD, false, false, NULL,
     NULL, CUT("end")},
    {"model_reset", "the connection is cut in the model's answer, once", CF_TORTURE_TOLD, false, false, NULL,
     NULL, CUT("reset")},
    {"canceled_at_prompt", "the turn is canceled as it begins", CF_TORTURE_ENDS, false, false, NULL,
     "{\"cancel_at\":\"prompt\"}", NULL},
    {"canceled_at_model", "the turn is canceled as it calls the model", CF_TORTURE_ENDS, false, false, NULL,
     "{\"cancel_at\":\"model\"}", "[{" MAIN "," ANSWER ",\"delay_ms\":3000}]"},
    {"canceled_at_output", "the turn is canceled at its first output", CF_TORTURE_ENDS, false, false, NULL,
     "{\"cancel_at\":\"output\"}", NULL},
    {"ended_in_sandbox", "the run is ended as its sandbox is made", CF_TORTURE_GONE, false, false, "sandbox", NULL, NULL},
    {"ended_in_session", "the run is ended as its session is opened", CF_TORTURE_GONE, false, true, "session", NULL, NULL},
    {"ended_in_turn", "the run is ended as its turn begins", CF_TORTURE_GONE, false, false, "turn", NULL, NULL},
};
/* clang-format on */
const size_t cf_torture_quick_count = CF_COUNT(cf_torture_quick);

const char *
cf_torture_skip(const struct cf_torture_trial *trial, const json_t *release)
{
    bool is_acp = cf_str_same(cf_json_str(release, "protocol"), "acp-v1");

    if (trial->needs_turns && !is_acp)
        return "a one-shot has no session";
    if (trial->needs_stdin && !is_acp && !cf_str_same(cf_json_str(release, "prompt_transport"), "stdin"))
        return "it reads no stdin";
    return NULL;
}

/* ---- options ------------------------------------------------------------------------------- */

static json_t *
parsed(const char *text)
{
    return cf_json_parse(text, strlen(text), NULL, NULL);
}

/* The trial's rules first: the first that fits answers. */
static int
add_rules(json_t *options, const char *text)
{
    json_t *relay = json_object_get(options, "relay"), *script, *rules = parsed(text);

    if (relay == NULL && json_object_set_new(options, "relay", relay = json_object()) < 0)
        return -1;
    script = json_object_get(relay, "model_script");
    if (script == NULL && json_object_set_new(relay, "model_script", script = json_object()) < 0)
        return -1;
    if (rules == NULL || (json_object_get(script, "rules") != NULL &&
                          json_array_extend(rules, json_object_get(script, "rules")) < 0)) {
        json_decref(rules);
        return -1;
    }
    return json_object_set_new(script, "rules", rules);
}

json_t *
cf_torture_options(const struct cf_torture_trial *trial, const json_t *options, uint64_t turn_ms)
{
    static const char *const written[] = {"record", "collect", "state_out", "journal", "pool"};
    json_t *copy = json_deep_copy(options), *deadlines;

    for (size_t i = 0; i < CF_COUNT(written); i++)
        (void)json_object_del(copy, written[i]);
    (void)json_object_del(json_object_get(copy, "relay"), "ledger");
    if (trial == NULL)
        return copy;
    deadlines = json_object_get(copy, "deadlines_ms");
    if (deadlines == NULL)
        (void)json_object_set_new(copy, "deadlines_ms", deadlines = json_object());
    if (cf_json_int(deadlines, "turn", INT64_MAX) > (int64_t)turn_ms)
        (void)json_object_set_new(deadlines, "turn", json_integer((json_int_t)turn_ms));
    if (trial->perturb != NULL && json_object_set_new(copy, "perturb", parsed(trial->perturb)) < 0)
        goto fail;
    if (trial->rules != NULL && add_rules(copy, trial->rules) < 0)
        goto fail;
    return copy;
fail:
    json_decref(copy);
    return NULL;
}

/* ---- judging ------------------------------------------------------------------------------- */

static const json_t *
check_of(const json_t *result, const char *id)
{
    const json_t *checks = json_object_get(result, "checks");

    for (size_t i = 0; i < json_array_size(checks); i++) {
        const json_t *check = json_array_get(checks, i);
        if (cf_str_same(cf_json_str(check, "id"), id))
            return check;
    }
    return NULL;
}

/* What a turn that fails, or ends early, cannot have proven: the answer, and that it ended well. A
 * second terminal, or none, is told in other words. */
static bool
is_of_the_answer(const json_t *check)
{
    static const char as_failed[] = "the turn ended as failed";
    const char *id = cf_json_str(check, "id"), *summary = cf_json_str(check, "summary");
    static const char *const ids[] = {"prompt_exchange", "process_exchange", "output_mode", "model_plane_reached",
                                      "prompt_transport"};

    for (size_t i = 0; i < CF_COUNT(ids); i++)
        if (cf_str_same(ids[i], id))
            return true;
    return cf_str_same(id, "terminal_observation") && summary != NULL && cf_str_starts(summary, as_failed);
}

/* Checks that had passed and now fail; without those of the answer when these may. */
static json_t *
changes_of(const struct cf_torture_seen *seen, bool without_answer)
{
    const json_t *checks = json_object_get(seen->result, "checks");
    json_t *changed = json_array();

    for (size_t i = 0; i < json_array_size(checks); i++) {
        const json_t *after = json_array_get(checks, i), *before;
        const char *id = cf_json_str(after, "id");
        if (id == NULL || !cf_str_same(cf_json_str(after, "status"), "failed") || (without_answer && is_of_the_answer(after)))
            continue;
        before = check_of(seen->base, id);
        if (before == NULL || cf_str_same(cf_json_str(before, "status"), "failed"))
            continue;
        (void)json_array_append_new(changed, json_pack("{s:s, s:s, s:s, s:s}", "check", id, "before",
                                                       cf_json_str(before, "status"), "after", "failed", "summary",
                                                       cf_json_str(after, "summary") != NULL ? cf_json_str(after, "summary") : ""));
    }
    return changed;
}

static json_t *__attribute__((format(printf, 3, 4)))
verdict(const char *status, json_t *changed, const char *fmt, ...)
{
    char summary[700];
    va_list args;

    va_start(args, fmt);
    (void)vsnprintf(summary, sizeof summary, fmt, args);
    va_end(args);
    return json_pack("{s:s, s:s, s:o}", "status", status, "summary", summary, "changed", changed);
}

static const char *
why_of(const json_t *changed, const struct cf_torture_seen *seen)
{
    const char *why = cf_json_str(json_array_get(changed, 0), "summary");

    if (why == NULL)
        why = cf_json_str(cf_json_obj(seen->result, "error"), "message");
    return why != NULL ? why : "it did not end as it must";
}

static bool
nothing_is_left(const struct cf_torture_seen *seen)
{
    return cf_json_bool(cf_json_obj(seen->result, "teardown"), "proven", false);
}

/* A turn that failed as a turn: told in one terminal, the run itself sound. Over ACP the process
 * lives on; a one-shot has exited by itself, and said why. */
static bool
failed_in_good_order(const struct cf_torture_seen *seen)
{
    const json_t *error = cf_json_obj(seen->result, "error"), *exit = cf_json_obj(cf_json_obj(seen->result, "harness"), "exit");
    const char *kind = cf_json_str(error, "type");

    if (!cf_str_same(seen->outcome, "failed") || cf_json_int(exit, "signal", 0) != 0)
        return false;
    return error == NULL || cf_str_same(kind, "runtime.harness_failed");
}

json_t *
cf_torture_judge(const struct cf_torture_trial *trial, const struct cf_torture_seen *seen)
{
    json_t *changed = changes_of(seen, trial->rule != CF_TORTURE_SAME);
    bool has_passed = cf_json_int(seen->result, "exit_code", 4) == 0, is_sound = json_array_size(changed) == 0;

    if (!nothing_is_left(seen))
        return verdict("changed", changed, "its teardown is not proven");
    if (trial->rule == CF_TORTURE_GONE && has_passed)
        return verdict("skipped", changed, "that phase was over before the run could be ended in it");
    if (trial->rule == CF_TORTURE_GONE)
        return verdict("ended", changed, "ended, nothing left");
    if (has_passed)
        return verdict("same", changed, "the same verdict");
    if (trial->rule == CF_TORTURE_TOLD && is_sound && failed_in_good_order(seen))
        return verdict("told", changed, "the turn failed, and said so");
    if (trial->rule == CF_TORTURE_ENDS && is_sound && cf_str_same(seen->outcome, "finished") &&
        json_object_get(seen->result, "error") != NULL && json_is_null(json_object_get(seen->result, "error")))
        return verdict("ended", changed, "the turn ended: %s", seen->stop_reason != NULL ? seen->stop_reason : "finished");
    if (is_sound) {
        json_decref(changed);
        changed = changes_of(seen, false);
    }
    return verdict("changed", changed, "%s", why_of(changed, seen));
}
