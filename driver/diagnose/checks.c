/*
 * What was seen, judged. Each check is passed with a measured fact, failed with what was missing,
 * or skipped with the name of what it waited for; a skip is never a pass. A nonce that came back
 * is the only proof that counts: a stop reason or a plausible text proves nothing.
 */
#include "diagnose/diagnose.h"

#include "base/str.h"
#include "diagnose/rules.h"
#include "diagnose/seen.h"
#include "diagnose/trail.h"
#include "json/json.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define BASE_URL_FIX                                                                                     \
    "call the model at OPENAI_BASE_URL, ANTHROPIC_BASE_URL or CHECKFU_MODEL_BASE_URL, with the key "      \
    "beside it"

struct judge {
    const struct cf_diagnose_facts *facts;
    const struct cf_trail *trail;
    json_t *checks;
    json_t *evidence;         /* pointed at so far for the check that comes next */
    json_t *document;         /* what facts point into: the members that the result will have */
    const char *first_failed; /* later ones that were not reached name it */
    bool teardown_proven;
};

/* ---- what the next check points at --------------------------------------------------------- */

static void
point_fact(struct judge *j, const char *pointer, const char *note)
{
    cf_evidence_fact(j->evidence, j->document, pointer, note);
}

static void
point_frame(struct judge *j, uint32_t turn, uint64_t number, const char *note)
{
    cf_evidence_frame(j->evidence, j->trail, turn, number, note);
}

static void
point_call(struct judge *j, json_t *call, const char *note)
{
    cf_evidence_call(j->evidence, call, note);
}

/* A request of ours and what came back. */
static void
point_exchange(struct judge *j, uint32_t turn, const char *method)
{
    const struct cf_trail_exchange *exchange = cf_trail_exchange(j->trail, turn, method);

    if (exchange == NULL)
        return;
    point_frame(j, turn, exchange->request, "asked");
    point_frame(j, turn, exchange->answer, "answered");
}

/* An observation and the frame that it was made of. */
static void
point_seen(struct judge *j, const struct cf_trail_seen *seen, const char *note)
{
    if (seen == NULL)
        return;
    cf_evidence_seen(j->evidence, j->trail, seen->seq, note);
    point_frame(j, seen->turn, seen->frame, note);
}

/* What there always is about a failure: the error, how the process ended, its last frame. */
static void
point_failure(struct judge *j)
{
    const struct cf_trail_frame *last = cf_trail_last_frame(j->trail, true);

    if (last != NULL)
        point_frame(j, last->turn, last->number, "the last one that came");
    point_fact(j, "/error/message", "what ended the run");
    point_fact(j, "/harness/exit", "how the process ended");
}

static json_t *
add(struct judge *j, const char *id, const char *status, const char *fmt, va_list args)
{
    char summary[512];
    const struct cf_rule *rule = cf_rule_of(id);
    json_t *check;

    (void)vsnprintf(summary, sizeof summary, fmt, args);
    check = json_pack("{s:s, s:s, s:s, s:O}", "id", id, "status", status, "summary", summary, "evidence", j->evidence);
    if (check == NULL)
        check = json_pack("{s:s, s:s, s:s, s:O}", "id", id, "status", status, "summary", "(unprintable)", "evidence",
                          j->evidence);
    if (rule != NULL) {
        (void)json_object_set_new(check, "group", json_string(rule->group));
        (void)json_object_set_new(check, "rule", json_string(rule->says));
    }
    (void)json_array_append_new(j->checks, check);
    json_decref(j->evidence);
    j->evidence = json_array();
    return check;
}

static void __attribute__((format(printf, 3, 4)))
passed(struct judge *j, const char *id, const char *fmt, ...)
{
    va_list args;

    va_start(args, fmt);
    (void)add(j, id, "passed", fmt, args);
    va_end(args);
}

/* `fix` is used where the error itself has none, and the rule's where there is none at all. */
static void __attribute__((format(printf, 5, 6)))
failed(struct judge *j, const char *id, json_t *error, const char *fix, const char *fmt, ...)
{
    va_list args;
    json_t *check;

    if (json_array_size(j->evidence) == 0)
        point_failure(j);
    va_start(args, fmt);
    check = add(j, id, "failed", fmt, args);
    va_end(args);
    if (json_is_object(error)) {
        (void)json_object_set(check, "error", error);
        if (cf_json_str(error, "fix") != NULL && *cf_json_str(error, "fix") != '\0')
            fix = cf_json_str(error, "fix");
    }
    if (fix == NULL && !json_is_object(error) && cf_rule_of(id) != NULL)
        fix = cf_rule_of(id)->fix;
    if (fix != NULL)
        (void)json_object_set_new(check, "fix", json_string(fix));
    if (j->first_failed == NULL)
        j->first_failed = id;
}

static void __attribute__((format(printf, 3, 4)))
skipped(struct judge *j, const char *id, const char *fmt, ...)
{
    va_list args;

    va_start(args, fmt);
    (void)add(j, id, "skipped", fmt, args);
    va_end(args);
}

static void
not_reached(struct judge *j, const char *id)
{
    const char *first = j->first_failed != NULL ? j->first_failed : "image_resolved";

    cf_evidence_check(j->evidence, first);
    skipped(j, id, "not reached: %s", first);
}

/* It was seen, but nothing is proven of a run that is not known to have ended. */
static void
not_proven(struct judge *j, const char *id)
{
    point_fact(j, "/teardown", "not proven");
    failed(j, id, NULL, NULL, "teardown_not_proven");
}

/* ---- what was seen ---------------------------------------------------------------------- */

static json_t *
run_error(const struct judge *j)
{
    return cf_json_obj(j->facts->run, "error");
}

static const char *
error_text(const struct judge *j)
{
    const char *text = cf_json_str(run_error(j), "message");

    return text != NULL ? text : "it did not come so far";
}

/* A phase that ended well left its time; one that was never entered or failed did not say so. */
static bool
has_phase(const struct judge *j, const char *name, json_int_t *ret_ms)
{
    json_t *ms = json_object_get(json_object_get(j->facts->run, "timings_ms"), name);

    *ret_ms = json_integer_value(ms);
    return ms != NULL;
}

static const char *
base_url_fix(const struct judge *j)
{
    const char *fix = cf_seen_outside_fix(j->facts);

    return fix != NULL ? fix : BASE_URL_FIX;
}

static const char *
refusal_fix(const struct judge *j, json_t *refused)
{
    const char *hint = cf_json_str(refused, "hint");

    return hint != NULL && *hint != '\0' ? hint : base_url_fix(j);
}

static void
fail_refused(struct judge *j, const char *id, json_t *refused)
{
    failed(j, id, NULL, refusal_fix(j, refused), "the relay refused %s %s (%s)", cf_json_str(refused, "method"),
           cf_json_str(refused, "path"), cf_json_str(refused, "refused"));
}

/* The answer of a call with the nonce cannot have come back. */
static void
fail_unanswered(struct judge *j, const char *id, json_t *call)
{
    char text[300];
    const char *fix = cf_seen_unanswered(call, text, sizeof text);

    failed(j, id, NULL, fix, "%s", text);
}

/* ---- the way to a session ---------------------------------------------------------------- */

static bool
check_image(struct judge *j)
{
    json_t *image = cf_json_obj(j->facts->run, "image");
    const char *digest = cf_json_str(image, "digest"), *arch = cf_json_str(image, "architecture");

    if (image == NULL) {
        point_fact(j, "/error/message", "what the engine or its image said");
        point_fact(j, "/engine/endpoint", "where it was asked");
        failed(j, "image_resolved", run_error(j), NULL, "%s", error_text(j));
        return false;
    }
    point_fact(j, "/image/digest", "what was run");
    point_fact(j, "/image/architecture", NULL);
    point_fact(j, "/engine/version", "who had it");
    passed(j, "image_resolved", "%.19s%s %s%s", digest != NULL ? digest : "sha256:?", "\u2026", arch != NULL ? arch : "",
           cf_str_same(cf_json_str(image, "source"), "build_context") ? ", built here"
           : cf_json_bool(image, "pulled", false)                     ? ", pulled"
                                                                      : ", was here");
    return true;
}

static bool
check_sandbox(struct judge *j)
{
    json_int_t ms;
    json_t *isolation = cf_json_obj(j->facts->run, "isolation");
    const char *network = cf_json_str(isolation, "network");

    if (isolation == NULL) {
        point_fact(j, "/error/message", "what did not work");
        failed(j, "sandbox_provisioned", run_error(j), NULL, "%s", error_text(j));
        return false;
    }
    (void)has_phase(j, "sandbox", &ms);
    point_fact(j, "/isolation/network", "in force, read back from the engine");
    point_fact(j, "/limits", "in force");
    point_fact(j, "/timings_ms/sandbox", NULL);
    passed(j, "sandbox_provisioned", "network %s, in %lld ms", network != NULL ? network : "none", (long long)ms);
    return true;
}

/* An exchange that failed: what was asked, what came back, or that nothing did. */
static void
fail_exchange(struct judge *j, const char *id, const char *method)
{
    point_exchange(j, 0, method);
    point_failure(j);
    point_fact(j, "/harness/stdout_bytes", "all that came from its stdout");
    failed(j, id, run_error(j), NULL, "%s", error_text(j));
}

static bool
check_handshake(struct judge *j)
{
    json_int_t ms;
    json_t *agent = cf_json_obj(cf_json_obj(j->facts->run, "harness"), "agent_info");
    const char *name = cf_json_str(agent, "name"), *version = cf_json_str(agent, "version");

    if (!json_is_object(json_object_get(j->facts->run, "capability_set"))) {
        fail_exchange(j, "initialize_handshake", "initialize");
        return false;
    }
    point_exchange(j, 0, "initialize");
    if (!j->teardown_proven)
        not_proven(j, "initialize_handshake");
    else
        passed(j, "initialize_handshake", "v1, agent %s%s%s", name != NULL ? name : "unnamed",
               version != NULL ? " " : "", version != NULL ? version : "");
    if (!has_phase(j, "session", &ms)) {
        fail_exchange(j, "session_start", "session/new");
        return false;
    }
    point_exchange(j, 0, "session/new");
    point_fact(j, "/timings_ms/session", NULL);
    if (!j->teardown_proven)
        not_proven(j, "session_start");
    else
        passed(j, "session_start", "session open after %lld ms", (long long)ms);
    return true;
}

/* ---- the exchange ------------------------------------------------------------------------ */

/* The prompt, the model calls of it, the last thing said, and the answer to the prompt. */
static void
point_turn(struct judge *j, int turn, json_t *call, const char *note)
{
    point_exchange(j, (uint32_t)turn, "session/prompt");
    point_call(j, call, note);
    point_seen(j, cf_trail_seen_type(j->trail, (uint32_t)turn, CF_OBSERVATION_AGENT_MESSAGE, true),
               "the last message");
}

/* The turn failed. `refused`: the only kind of call there was, which says more than what came of it. */
static void
fail_turn(struct judge *j, const char *id, const char *message, json_t *refused)
{
    json_t *error = cf_json_obj(cf_seen_turn(j->facts, 1), "error");
    bool has_call = cf_seen_call(j->facts, 1, NULL) != NULL;

    failed(j, id, error != NULL ? error : run_error(j), has_call ? NULL : cf_seen_outside_fix(j->facts), "%s", message);
    if (refused != NULL)
        (void)json_object_set_new(json_array_get(j->checks, json_array_size(j->checks) - 1), "fix",
                                  json_string(refusal_fix(j, refused)));
}

static void
check_exchange(struct judge *j, const char *id)
{
    json_t *turn = cf_seen_turn(j->facts, 1), *error = cf_json_obj(turn, "error"), *refused = cf_seen_refused(j->facts);
    json_t *seen = cf_seen_call(j->facts, 1, "nonce_seen"), *answered = cf_seen_call(j->facts, 1, "answered_nonce"),
           *any = cf_seen_call(j->facts, 1, NULL);
    bool is_finished = cf_str_same(cf_json_str(turn, "outcome"), "finished");
    bool is_said = cf_seen_said(j->facts, CF_ASK_EXCHANGE, j->facts->answer_nonce[CF_ASK_EXCHANGE]);
    json_t *failure = cf_seen_model_failure(j->facts->run);
    const char *message = cf_json_str(error, "message");

    point_turn(j, 1, answered != NULL ? answered : seen != NULL ? seen : any != NULL ? any : refused,
               answered != NULL  ? "its answer held the answer nonce"
               : seen != NULL    ? "it held the prompt's nonce"
               : any != NULL     ? "it did not hold the prompt's nonce"
                                 : "refused");
    if (turn == NULL || !is_finished)
        point_failure(j);
    if (turn == NULL)
        failed(j, id, run_error(j), NULL, "%s", error_text(j));
    else if (!is_finished)
        fail_turn(j, id, message != NULL ? message : error_text(j), any == NULL ? refused : NULL);
    else if (seen == NULL && any == NULL && refused != NULL)
        fail_refused(j, id, refused);
    else if (seen == NULL)
        failed(j, id, NULL, base_url_fix(j), "the prompt's nonce never reached the model relay: %s",
               any != NULL ? "calls came without it" : "no model call was made");
    else if (answered == NULL && cf_json_int(refused, "id", 0) > cf_json_int(seen, "id", 0) &&
             !cf_str_same(cf_json_str(refused, "refused"), "lease")) /* that one came when all was over */
        fail_refused(j, id, refused); /* the answer would have been to a call that came later */
    else if (answered == NULL || (!is_said && failure != NULL))
        fail_unanswered(j, id, failure != NULL ? failure : seen);
    else if (!is_said)
        failed(j, id, NULL, "put the model's answer into the output, word for word",
               "the model's answer nonce is not in the harness's messages: the answer was dropped");
    else if (!j->teardown_proven)
        not_proven(j, id);
    else
        passed(j, id, "both nonces through, in %lld ms", (long long)cf_json_int(turn, "took_ms", 0));
}

static void
check_model_plane(struct judge *j)
{
    json_t *seen = cf_seen_call(j->facts, 1, "nonce_seen"), *refused = cf_seen_refused(j->facts);
    json_t *totals = cf_json_obj(j->facts->run, "model_totals");

    /* Over ACP prompt_exchange has said that no call was made: one cause is one failure. */
    if (cf_seen_turn(j->facts, 1) == NULL ||
        (j->facts->is_acp && refused == NULL && cf_seen_call(j->facts, 1, NULL) == NULL)) {
        not_reached(j, "model_plane_reached");
        return;
    }
    point_call(j, seen != NULL ? seen : refused, seen != NULL ? "it held the prompt's nonce" : "refused");
    point_fact(j, "/model_totals/served", NULL);
    if (seen != NULL)
        passed(j, "model_plane_reached", "%lld served, on %s%s", (long long)cf_json_int(totals, "served", 0),
               cf_json_str(seen, "path"), cf_seen_model_failure(j->facts->run) != NULL ? ", none answered whole" : "");
    else if (refused != NULL)
        failed(j, "model_plane_reached", NULL, refusal_fix(j, refused), "only refused calls: %s %s (%s)",
               cf_json_str(refused, "method"), cf_json_str(refused, "path"), cf_json_str(refused, "refused"));
    else
        failed(j, "model_plane_reached", NULL, base_url_fix(j), "the relay served no call with the prompt's nonce");
}

static void
check_observations(struct judge *j)
{
    json_t *observations = cf_json_obj(j->facts->run, "observations"), *bad = j->facts->bad_observation;
    json_int_t count = cf_json_int(observations, "count", 0), seq = cf_json_int(bad, "seq", 0);
    const struct cf_trail_seen *seen = cf_trail_seen(j->trail, (uint64_t)seq);

    if (bad != NULL) {
        if (seen != NULL)
            point_seen(j, seen, "outside the contract");
        else
            cf_evidence_seen(j->evidence, j->trail, (uint64_t)seq, "outside the contract");
        failed(j, "observations_normalized", NULL, NULL, "observation %lld is outside the contract: %s", (long long)seq,
               cf_json_str(bad, "why"));
    } else if (cf_seen_turn(j->facts, 1) == NULL || count == 0) {
        not_reached(j, "observations_normalized");
    } else {
        cf_evidence_seen(j->evidence, j->trail, 1, "the first");
        cf_evidence_seen(j->evidence, j->trail, (uint64_t)count, "the last");
        point_fact(j, "/observations/by_type", NULL);
        passed(j, "observations_normalized", "%lld, each in its closed form", (long long)count);
    }
}

/* ---- one-shot's own ---------------------------------------------------------------------- */

static void
check_transport(struct judge *j)
{
    const char *transport = cf_json_str(j->facts->release, "prompt_transport");
    json_t *seen = cf_seen_call(j->facts, 1, "nonce_seen");

    if (cf_seen_turn(j->facts, 1) == NULL) {
        not_reached(j, "prompt_transport");
        return;
    }
    point_fact(j, "/declared/release/prompt_transport", "how it was given");
    point_call(j, seen, "it held the prompt's nonce");
    if (seen != NULL)
        passed(j, "prompt_transport", "%s: the prompt's nonce arrived", transport);
    else
        failed(j, "prompt_transport", NULL, "read the prompt and send it to the model as the last user text",
               "%s: nothing shows that the harness read its prompt", transport);
}

static void
check_output(struct judge *j)
{
    const char *mode = cf_json_str(j->facts->release, "output_mode");
    json_t *turn = cf_seen_turn(j->facts, 1), *error = cf_json_obj(turn, "error");
    size_t messages = json_array_size(j->facts->messages[0]);

    if (turn == NULL) {
        not_reached(j, "output_mode");
        return;
    }
    point_fact(j, "/declared/release/output_mode", "how it was to be read");
    point_seen(j, cf_trail_seen_type(j->trail, 1, CF_OBSERVATION_AGENT_MESSAGE, false), "the first message");
    if (!cf_str_same(cf_json_str(turn, "outcome"), "finished") || messages == 0)
        point_failure(j);
    if (!cf_str_same(cf_json_str(turn, "outcome"), "finished"))
        failed(j, "output_mode", error, NULL, "%s: %s", mode,
               cf_json_str(error, "message") != NULL ? cf_json_str(error, "message") : error_text(j));
    else if (messages == 0)
        failed(j, "output_mode", NULL, "print the answer on stdout in the declared mode",
               "%s: the output held no agent message", mode);
    else
        passed(j, "output_mode", "%s: %zu message(s) read", mode, messages);
}

static void
check_resume(struct judge *j, int number)
{
    json_t *turn = cf_seen_turn(j->facts, number), *call = cf_seen_call(j->facts, number, "prior_nonce_seen"),
           *error = cf_json_obj(turn, "error");

    if (turn == NULL) {
        not_reached(j, "resume");
        return;
    }
    point_fact(j, "/declared/release/resume_flag", "how it was asked to go on");
    point_turn(j, number, call != NULL ? call : cf_seen_call(j->facts, number, NULL),
               call != NULL ? "it held the first turn's answer" : "it did not hold the first turn's answer");
    if (!cf_str_same(cf_json_str(turn, "outcome"), "finished"))
        failed(j, "resume", error, NULL, "the resumed turn failed: %s", cf_json_str(error, "message"));
    else if (call != NULL)
        passed(j, "resume", "turn 2's request held turn 1's answer");
    else if (cf_seen_said(j->facts, CF_ASK_RESUME, j->facts->answer_nonce[CF_ASK_EXCHANGE]))
        passed(j, "resume", "turn 2's output held turn 1's answer");
    else
        failed(j, "resume", NULL, "keep state beneath the working directory and read it when the flag is there",
               "the second turn, run with %s, knew nothing of the first one's answer",
               cf_json_str(j->facts->release, "resume_flag"));
}

static void
check_schema(struct judge *j, int number)
{
    json_t *turn = cf_seen_turn(j->facts, number), *error = cf_json_obj(turn, "error");

    if (turn == NULL) {
        not_reached(j, "output_schema");
        return;
    }
    point_fact(j, "/declared/release/output_schema_flag", "how the schema was given");
    point_turn(j, number, cf_seen_call(j->facts, number, "answered_nonce"), "its answer was the JSON");
    if (!cf_str_same(cf_json_str(turn, "outcome"), "finished"))
        failed(j, "output_schema", error, NULL, "%s", cf_json_str(error, "message"));
    else if (!cf_seen_said(j->facts, CF_ASK_SCHEMA, j->facts->answer_nonce[CF_ASK_SCHEMA]))
        failed(j, "output_schema", NULL, "print the model's JSON answer as the last message",
               "the schema's turn did not report the model's answer");
    else
        passed(j, "output_schema", "last message valid, holds the answer");
}

/* ---- grammar and teardown ----------------------------------------------------------------- */

/* The frames that a rule is about, beside the observation that it was judged by. */
static void
point_rule(struct judge *j, const struct cf_rule *rule, const struct cf_trail_seen *seen)
{
    bool is_capability = rule != NULL && cf_str_same(rule->group, "CAPABILITY");

    for (uint32_t turn = 1; is_capability && rule->method != NULL && turn <= CF_ASK_COUNT; turn++)
        point_exchange(j, turn, rule->method);
    if (rule != NULL && rule->fact != NULL)
        point_fact(j, rule->fact, NULL);
    point_seen(j, seen, NULL);
}

static void
check_rule(struct judge *j, const json_t *row)
{
    const char *id = cf_json_str(row, "id"), *status = cf_json_str(row, "status"), *summary = cf_json_str(row, "summary");
    json_int_t frame = cf_json_int(row, "frame", 0), seq = cf_json_int(row, "seq", 0);
    const struct cf_trail_seen *seen = cf_trail_seen(j->trail, (uint64_t)seq);
    const struct cf_rule *rule = cf_rule_of(id);
    bool is_drain = cf_str_same(id, "cooperative_interrupt_drained");

    if (cf_seen_turn(j->facts, 1) == NULL) {
        cf_evidence_check(j->evidence, j->first_failed);
        skipped(j, id, "the turn was not reached");
        return;
    }
    point_rule(j, rule, seen);
    if (seen == NULL) {
        cf_evidence_seen(j->evidence, j->trail, (uint64_t)seq, NULL);
        point_frame(j, 1, (uint64_t)frame, NULL);
    }
    if (cf_str_same(status, "skipped")) {
        bool is_opt_in = is_drain && !j->facts->wants_drain && strncmp(summary, "declared", 8) == 0;
        skipped(j, id, "%s", is_opt_in ? "declared, opt-in: --drain asks for it" : summary);
    } else if (cf_str_same(status, "passed")) {
        passed(j, id, "%s", summary);
    } else { /* the turn's own error knows better than the rule what to do about its end */
        bool is_end = cf_str_same(id, "terminal_observation");
        failed(j, id, is_end ? cf_json_obj(cf_seen_turn(j->facts, 1), "error") : NULL, NULL, "%s", summary);
    }
}

static void
check_grammar(struct judge *j)
{
    static const char *const oneshot[] = {"ready_handshake", "terminal_observation", "tool_correlation"};
    json_t *row;
    size_t i;

    json_array_foreach(json_object_get(j->facts->run, "grammar"), i, row)
    {
        bool applies = j->facts->is_acp;
        for (size_t k = 0; k < CF_COUNT(oneshot); k++)
            applies |= cf_str_same(cf_json_str(row, "id"), oneshot[k]);
        if (applies)
            check_rule(j, row);
    }
    if (json_array_size(json_object_get(j->facts->options, "mcp")) > 0) {
        point_fact(j, "/label", "this lane has no tools of the platform");
        skipped(j, "execution_locus", "needs the platform's own tools: not applicable locally");
    }
}

/* The first of what went, or stayed; the list itself is the result's. */
static void
point_resources(struct judge *j, const char *list, const char *note)
{
    for (size_t i = 0; i < 8; i++) {
        char pointer[40];
        (void)snprintf(pointer, sizeof pointer, "/teardown/%s/%zu", list, i);
        point_fact(j, pointer, note);
    }
}

static void
check_teardown(struct judge *j)
{
    json_t *teardown = cf_json_obj(j->facts->run, "teardown");
    json_t *left = json_object_get(teardown, "left"), *first = json_array_get(left, 0);
    size_t removed = json_array_size(json_object_get(teardown, "removed"));

    point_fact(j, "/teardown/proven", NULL);
    point_resources(j, "left", "still there");
    if (json_array_size(left) == 0)
        point_resources(j, "removed", "gone, and looked for again");
    if (j->teardown_proven)
        passed(j, "teardown_drained", "%zu removed, 0 left, in %lld ms", removed,
               (long long)cf_json_int(teardown, "took_ms", 0));
    else if (first != NULL)
        failed(j, "teardown_drained", NULL, "cfrunner reap", "%zu left, e.g. %s %s: %s; remove with: %s",
               json_array_size(left), cf_json_str(first, "kind"), cf_json_str(first, "id"),
               cf_json_str(first, "why") != NULL ? cf_json_str(first, "why") : "still there",
               cf_json_str(first, "remove") != NULL ? cf_json_str(first, "remove") : "cfrunner reap");
    else
        failed(j, "teardown_drained", NULL, "run cfrunner reap when the engine answers again",
               "nothing proves that all is gone");
}

/* The members of the result that facts point into, as the result will have them. */
static json_t *
document_of(const struct cf_diagnose_facts *facts)
{
    json_t *document = facts->run != NULL ? json_copy(facts->run) : json_object(), *declared = json_object();
    json_t *capabilities = json_object_get(facts->run, "declared");

    (void)json_object_set_new(document, "label", json_string("unsigned_local_only"));
    (void)json_object_set(declared, "capabilities", capabilities != NULL ? capabilities : json_null());
    (void)json_object_set(declared, "release", facts->release != NULL ? facts->release : json_null());
    (void)json_object_set_new(document, "declared", declared);
    return document;
}

json_t *
cf_diagnose_checks(const struct cf_diagnose_facts *facts)
{
    static const struct cf_trail nothing;
    struct judge j = {.facts = facts,
                      .trail = facts->trail != NULL ? facts->trail : &nothing,
                      .checks = json_array(),
                      .evidence = json_array(),
                      .document = document_of(facts)};
    bool stands;

    j.teardown_proven = cf_json_bool(cf_json_obj(facts->run, "teardown"), "proven", false);
    stands = check_image(&j);
    if (!stands)
        not_reached(&j, "sandbox_provisioned");
    else
        stands = check_sandbox(&j);
    if (facts->is_acp) {
        if (!stands) {
            not_reached(&j, "initialize_handshake");
            not_reached(&j, "session_start");
        } else {
            size_t before = json_array_size(j.checks);
            stands = check_handshake(&j);
            if (json_array_size(j.checks) == before + 1)
                not_reached(&j, "session_start");
        }
    }
    if (!stands)
        not_reached(&j, facts->is_acp ? "prompt_exchange" : "process_exchange");
    else
        check_exchange(&j, facts->is_acp ? "prompt_exchange" : "process_exchange");
    if (!facts->is_acp) {
        check_transport(&j);
        check_output(&j);
    }
    check_model_plane(&j);
    check_observations(&j);
    if (!facts->is_acp && facts->has_resume)
        check_resume(&j, 2);
    if (!facts->is_acp && facts->has_output_schema)
        check_schema(&j, facts->has_resume ? 3 : 2);
    check_grammar(&j);
    check_teardown(&j);
    json_decref(j.evidence);
    json_decref(j.document);
    return j.checks;
}
