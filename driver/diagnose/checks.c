/*
 * What was seen, judged. Each check is passed with a measured fact, failed with what was missing,
 * or skipped with the name of what it waited for; a skip is never a pass. A nonce that came back
 * is the only proof that counts: a stop reason or a plausible text proves nothing.
 */
#include "diagnose/diagnose.h"

#include "base/buf.h"
#include "base/str.h"
#include "json/json.h"
#include "schema/schema.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define BASE_URL_FIX "call the model at OPENAI_BASE_URL, ANTHROPIC_BASE_URL or CHECKFU_MODEL_BASE_URL, with the key beside it"

struct judge {
    const struct cf_diagnose_facts *facts;
    json_t *checks;
    const char *first_failed; /* later ones that were not reached name it */
    bool teardown_proven;
};

static json_t *
add(struct judge *j, const char *id, const char *status, json_t *evidence, const char *fmt, va_list args)
{
    char summary[512];
    json_t *check;

    (void)vsnprintf(summary, sizeof summary, fmt, args);
    check = json_pack("{s:s, s:s, s:s, s:o}", "id", id, "status", status, "summary", summary, "evidence",
                      evidence != NULL ? evidence : json_array());
    if (check == NULL)
        check = json_pack("{s:s, s:s, s:s, s:[]}", "id", id, "status", status, "summary", "(unprintable)", "evidence");
    (void)json_array_append_new(j->checks, check);
    return check;
}

static void __attribute__((format(printf, 4, 5)))
passed(struct judge *j, const char *id, json_t *evidence, const char *fmt, ...)
{
    va_list args;

    va_start(args, fmt);
    (void)add(j, id, "passed", evidence, fmt, args);
    va_end(args);
}

/* `fix` is used where the error itself has none. */
static void __attribute__((format(printf, 6, 7)))
failed(struct judge *j, const char *id, json_t *evidence, json_t *error, const char *fix, const char *fmt, ...)
{
    va_list args;
    json_t *check;

    va_start(args, fmt);
    check = add(j, id, "failed", evidence, fmt, args);
    va_end(args);
    if (json_is_object(error)) {
        (void)json_object_set(check, "error", error);
        if (cf_json_str(error, "fix") != NULL && *cf_json_str(error, "fix") != '\0')
            fix = cf_json_str(error, "fix");
    }
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
    (void)add(j, id, "skipped", NULL, fmt, args);
    va_end(args);
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

static json_t *
turn_of(const struct judge *j, int number)
{
    json_t *turn;
    size_t i;

    json_array_foreach(json_object_get(j->facts->run, "turns"), i, turn)
    {
        if (cf_json_int(turn, "turn", 0) == number)
            return turn;
    }
    return NULL;
}

/* The first served call of a turn for which `flag` is true; NULL: none. */
static json_t *
call_with(const struct judge *j, int turn, const char *flag)
{
    json_t *call;
    size_t i;

    json_array_foreach(json_object_get(j->facts->run, "model_calls"), i, call)
    {
        if (cf_json_int(call, "turn", 0) == turn && cf_json_str(call, "refused") == NULL &&
            !cf_json_bool(call, "probe", false) &&
            (flag == NULL || cf_json_bool(call, flag, false)))
            return call;
    }
    return NULL;
}

static json_t *
refused_call(const struct judge *j)
{
    json_t *call;
    size_t i;

    json_array_foreach(json_object_get(j->facts->run, "model_calls"), i, call)
    {
        if (cf_json_str(call, "refused") != NULL)
            return call;
    }
    return NULL;
}

/* What the harness's last words say of a client that went past the relay: nothing outside has a name or
 * a way in the sandbox. NULL: nothing of the kind. */
static const char *
outside_fix(const struct judge *j)
{
    static const char *const words[] = {"ENOTFOUND", "EAI_AGAIN", "getaddrinfo", "no such host", "resolve host",
                                        "name resolution", "Name or service not known", "ENETUNREACH",
                                        "Network is unreachable", "ECONNREFUSED", "Connection refused"};
    json_t *turn = turn_of(j, 1);
    const char *texts[] = {cf_json_str(cf_json_obj(j->facts->run, "harness"), "stderr_tail"),
                           cf_json_str(cf_json_obj(turn, "error"), "message")};

    for (size_t t = 0; t < CF_COUNT(texts); t++)
        for (size_t i = 0; texts[t] != NULL && i < CF_COUNT(words); i++)
            if (strcasestr(texts[t], words[i]) != NULL)
                return json_is_object(json_object_get(j->facts->run, "egress"))
                           ? "its client seems to ignore the base URL, or HTTPS_PROXY: it looked for a host outside by "
                             "itself; give it the variable it reads with --env NAME={relay} or {relay_v1}"
                           : "its client seems to ignore the base URL: it looked for a host outside; give it the variable "
                             "it reads with --env NAME={relay} or {relay_v1} (--allow-host opens another host)";
    return NULL;
}

static const char *
base_url_fix(const struct judge *j)
{
    const char *fix = outside_fix(j);

    return fix != NULL ? fix : BASE_URL_FIX;
}

static json_t *
evidence_call(json_t *call)
{
    return call != NULL ? json_pack("[{s:I}]", "call", cf_json_int(call, "id", 0)) : NULL;
}

/* Whether the joined contents of a turn's agent messages carry `nonce`. */
static bool
said(const struct judge *j, int kind, const char *nonce)
{
    struct cf_buf text;
    json_t *part;
    size_t i;
    bool found;

    if (nonce == NULL)
        return false;
    cf_buf_init(&text, 64u << 20);
    json_array_foreach(j->facts->messages[kind], i, part)
    {
        (void)cf_buf_add(&text, json_string_value(part), json_string_length(part));
    }
    found = text.len > 0 && memmem(text.data, text.len, nonce, strlen(nonce)) != NULL;
    cf_buf_release(&text);
    return found;
}

/* ---- the way to a session ---------------------------------------------------------------- */

static bool
check_image(struct judge *j)
{
    json_t *image = cf_json_obj(j->facts->run, "image");
    const char *digest = cf_json_str(image, "digest"), *arch = cf_json_str(image, "architecture");

    if (image == NULL) {
        failed(j, "image_resolved", NULL, run_error(j), NULL, "%s", error_text(j));
        return false;
    }
    passed(j, "image_resolved", json_pack("[{s:s}]", "engine", "image"), "%.19s%s %s%s",
           digest != NULL ? digest : "sha256:?", "\u2026", arch != NULL ? arch : "",
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
        failed(j, "sandbox_provisioned", NULL, run_error(j), NULL, "%s", error_text(j));
        return false;
    }
    (void)has_phase(j, "sandbox", &ms);
    passed(j, "sandbox_provisioned", json_pack("[{s:s}]", "engine", "isolation"), "network %s, in %lld ms",
           network != NULL ? network : "none", (long long)ms);
    return true;
}

static bool
check_handshake(struct judge *j)
{
    json_int_t ms;
    json_t *agent = cf_json_obj(cf_json_obj(j->facts->run, "harness"), "agent_info");
    const char *name = cf_json_str(agent, "name"), *version = cf_json_str(agent, "version");

    if (!json_is_object(json_object_get(j->facts->run, "capability_set"))) {
        failed(j, "initialize_handshake", NULL, run_error(j), NULL, "%s", error_text(j));
        return false;
    }
    if (!j->teardown_proven)
        failed(j, "initialize_handshake", NULL, NULL, NULL, "teardown_not_proven");
    else
        passed(j, "initialize_handshake", json_pack("[{s:i}]", "frame", 2), "v1, agent %s %s",
               name != NULL ? name : "(unnamed)", version != NULL ? version : "");
    if (!has_phase(j, "session", &ms)) {
        failed(j, "session_start", NULL, run_error(j), NULL, "%s", error_text(j));
        return false;
    }
    if (!j->teardown_proven)
        failed(j, "session_start", NULL, NULL, NULL, "teardown_not_proven");
    else
        passed(j, "session_start", json_pack("[{s:i}]", "frame", 4), "session open after %lld ms",
               (long long)ms);
    return true;
}

/* ---- the exchange ------------------------------------------------------------------------ */

static void
check_exchange(struct judge *j, const char *id)
{
    json_t *turn = turn_of(j, 1), *seen = call_with(j, 1, "nonce_seen"), *answered = call_with(j, 1, "answered_nonce"),
           *refused = refused_call(j), *error = cf_json_obj(turn, "error");
    bool is_finished = cf_str_same(cf_json_str(turn, "outcome"), "finished");
    const char *hint = cf_json_str(refused, "hint");

    if (turn == NULL)
        failed(j, id, NULL, run_error(j), NULL, "%s", error_text(j));
    else if (!is_finished)
        failed(j, id, evidence_call(seen), error != NULL ? error : run_error(j),
               call_with(j, 1, NULL) == NULL ? outside_fix(j) : NULL, "%s",
               cf_json_str(error, "message") != NULL ? cf_json_str(error, "message") : error_text(j));
    else if (seen == NULL && call_with(j, 1, NULL) == NULL && refused != NULL)
        failed(j, id, evidence_call(refused), NULL, hint != NULL && *hint ? hint : base_url_fix(j), "the relay refused %s %s (%s)", cf_json_str(refused, "method"),
               cf_json_str(refused, "path"), cf_json_str(refused, "refused"));
    else if (seen == NULL)
        failed(j, id, evidence_call(call_with(j, 1, NULL)), NULL, base_url_fix(j), "the prompt's nonce never reached the model relay: %s",
               call_with(j, 1, NULL) != NULL ? "calls came without it" : "no model call was made");
    else if (answered == NULL)
        failed(j, id, evidence_call(seen), NULL, "read the whole answer before closing the connection", "the relay could not answer the call that carried the nonce");
    else if (!said(j, CF_ASK_EXCHANGE, j->facts->answer_nonce[CF_ASK_EXCHANGE]))
        failed(j, id, evidence_call(answered), NULL, "put the model's answer into the output, word for word",
               "the model's answer nonce is not in the harness's messages: the answer was dropped");
    else if (!j->teardown_proven)
        failed(j, id, NULL, NULL, NULL, "teardown_not_proven");
    else
        passed(j, id, evidence_call(answered), "both nonces came through in %lld ms",
               (long long)cf_json_int(turn, "took_ms", 0));
}

static void
check_model_plane(struct judge *j)
{
    json_t *seen = call_with(j, 1, "nonce_seen"), *refused = refused_call(j);
    json_t *totals = cf_json_obj(j->facts->run, "model_totals");

    if (turn_of(j, 1) == NULL)
        skipped(j, "model_plane_reached", "not reached: %s", j->first_failed);
    else if (seen != NULL)
        passed(j, "model_plane_reached", evidence_call(seen), "%lld served, on %s",
               (long long)cf_json_int(totals, "served", 0), cf_json_str(seen, "path"));
    else if (refused != NULL)
        failed(j, "model_plane_reached", evidence_call(refused), NULL, base_url_fix(j), "only refused calls: %s %s (%s)",
               cf_json_str(refused, "method"), cf_json_str(refused, "path"), cf_json_str(refused, "refused"));
    else
        failed(j, "model_plane_reached", NULL, NULL, base_url_fix(j), "the relay served no call with the prompt's nonce");
}

static void
check_observations(struct judge *j)
{
    json_t *observations = cf_json_obj(j->facts->run, "observations"), *bad = j->facts->bad_observation;
    json_int_t count = cf_json_int(observations, "count", 0);

    if (bad != NULL)
        failed(j, "observations_normalized", json_pack("[{s:I}]", "seq", cf_json_int(bad, "seq", 0)), NULL, NULL,
               "observation %lld is outside the contract: %s", (long long)cf_json_int(bad, "seq", 0),
               cf_json_str(bad, "why"));
    else if (turn_of(j, 1) == NULL || count == 0)
        skipped(j, "observations_normalized", "not reached: %s", j->first_failed);
    else
        passed(j, "observations_normalized", json_pack("[{s:I}]", "seq", count), "%lld, each in its closed form",
               (long long)count);
}

/* ---- one-shot's own ---------------------------------------------------------------------- */

static void
check_transport(struct judge *j)
{
    const char *transport = cf_json_str(j->facts->release, "prompt_transport");
    json_t *seen = call_with(j, 1, "nonce_seen");

    if (turn_of(j, 1) == NULL)
        skipped(j, "prompt_transport", "not reached: %s", j->first_failed);
    else if (seen != NULL)
        passed(j, "prompt_transport", evidence_call(seen), "%s: the prompt's nonce arrived", transport);
    else
        failed(j, "prompt_transport", NULL, NULL, "read the prompt and send it to the model as the last user text", "%s: nothing shows that the harness read its prompt", transport);
}

static void
check_output(struct judge *j)
{
    const char *mode = cf_json_str(j->facts->release, "output_mode");
    json_t *turn = turn_of(j, 1), *error = cf_json_obj(turn, "error");
    size_t messages = json_array_size(j->facts->messages[0]);

    if (turn == NULL)
        skipped(j, "output_mode", "not reached: %s", j->first_failed);
    else if (!cf_str_same(cf_json_str(turn, "outcome"), "finished"))
        failed(j, "output_mode", NULL, error, NULL, "%s: %s", mode,
               cf_json_str(error, "message") != NULL ? cf_json_str(error, "message") : error_text(j));
    else if (messages == 0)
        failed(j, "output_mode", NULL, NULL, "print the answer on stdout in the declared mode", "%s: the output held no agent message", mode);
    else
        passed(j, "output_mode", NULL, "%s: %zu message(s) read", mode, messages);
}

static void
check_resume(struct judge *j, int number)
{
    json_t *turn = turn_of(j, number), *call = call_with(j, number, "prior_nonce_seen"),
           *error = cf_json_obj(turn, "error");

    if (turn == NULL)
        skipped(j, "resume", "not reached: %s", j->first_failed);
    else if (!cf_str_same(cf_json_str(turn, "outcome"), "finished"))
        failed(j, "resume", NULL, error, NULL, "the resumed turn failed: %s", cf_json_str(error, "message"));
    else if (call != NULL)
        passed(j, "resume", evidence_call(call), "turn 2's request held turn 1's answer");
    else if (said(j, CF_ASK_RESUME, j->facts->answer_nonce[CF_ASK_EXCHANGE]))
        passed(j, "resume", NULL, "turn 2's output held turn 1's answer");
    else
        failed(j, "resume", NULL, NULL, "keep state beneath the working directory and read it when the flag is there",
               "the second turn, run with %s, knew nothing of the first one's answer",
               cf_json_str(j->facts->release, "resume_flag"));
}

static void
check_schema(struct judge *j, int number)
{
    json_t *turn = turn_of(j, number), *error = cf_json_obj(turn, "error");

    if (turn == NULL)
        skipped(j, "output_schema", "not reached: %s", j->first_failed);
    else if (!cf_str_same(cf_json_str(turn, "outcome"), "finished"))
        failed(j, "output_schema", NULL, error, NULL, "%s", cf_json_str(error, "message"));
    else if (!said(j, CF_ASK_SCHEMA, j->facts->answer_nonce[CF_ASK_SCHEMA]))
        failed(j, "output_schema", NULL, NULL, "print the model's JSON answer as the last message", "the schema's turn did not report the model's answer");
    else
        passed(j, "output_schema", NULL, "last message valid, holds the answer");
}

/* ---- grammar and teardown ----------------------------------------------------------------- */

/* What the author can do about a broken rule. */
static const char *
grammar_fix(const char *id)
{
    static const struct {
        const char *id, *fix;
    } fixes[] = {
        {"tool_correlation", "announce each tool call once, with an id of its own, before its result"},
        {"steering_correlation", "answer each _checkfu/session/steer exactly once, and declare steer"},
        {"steering_delivered", "take the steer into the turn that runs, or do not declare steer"},
        {"cooperative_interrupt_drained", "answer draining, start nothing new, and answer the prompt in time"},
        {"subagent_correlation", "declare subagents; start each once, settle each once, before the turn ends"},
    };

    for (size_t i = 0; i < CF_COUNT(fixes); i++)
        if (cf_str_same(fixes[i].id, id))
            return fixes[i].fix;
    return "the frame is shown with -v; the rule is in README, the grammar";
}

static void
check_rule(struct judge *j, const json_t *row)
{
    const char *id = cf_json_str(row, "id"), *status = cf_json_str(row, "status"), *summary = cf_json_str(row, "summary");
    json_int_t frame = cf_json_int(row, "frame", 0), seq = cf_json_int(row, "seq", 0);
    json_t *evidence = seq != 0 ? json_pack("[{s:I, s:I}]", "seq", seq, "frame", frame) : NULL;
    bool is_drain = cf_str_same(id, "cooperative_interrupt_drained");

    if (turn_of(j, 1) == NULL) {
        skipped(j, id, "the turn was not reached");
        json_decref(evidence);
    } else if (cf_str_same(status, "skipped")) {
        bool is_opt_in = is_drain && !j->facts->wants_drain && strncmp(summary, "declared", 8) == 0;
        skipped(j, id, "%s", is_opt_in ? "declared, opt-in: --drain asks for it" : summary);
        json_decref(evidence);
    } else if (cf_str_same(status, "passed")) {
        passed(j, id, evidence, "%s", summary);
    } else {
        failed(j, id, evidence, NULL, grammar_fix(id), "%s", summary);
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
    if (json_array_size(json_object_get(j->facts->options, "mcp")) > 0)
        skipped(j, "execution_locus", "needs the platform's own tools: not applicable locally");
}

static void
check_teardown(struct judge *j)
{
    json_t *teardown = cf_json_obj(j->facts->run, "teardown");
    json_t *left = json_object_get(teardown, "left"), *first = json_array_get(left, 0);
    size_t removed = json_array_size(json_object_get(teardown, "removed"));

    if (j->teardown_proven)
        passed(j, "teardown_drained", NULL, "%zu removed, 0 left, in %lld ms", removed,
               (long long)cf_json_int(teardown, "took_ms", 0));
    else if (first != NULL)
        failed(j, "teardown_drained", NULL, NULL, "cfrunner reap", "%zu left, e.g. %s %s: %s; remove with: %s", json_array_size(left),
               cf_json_str(first, "kind"), cf_json_str(first, "id"),
               cf_json_str(first, "why") != NULL ? cf_json_str(first, "why") : "still there",
               cf_json_str(first, "remove") != NULL ? cf_json_str(first, "remove") : "cfrunner reap");
    else
        failed(j, "teardown_drained", NULL, NULL, "run cfrunner reap when the engine answers again", "nothing proves that all is gone");
}

json_t *
cf_diagnose_checks(const struct cf_diagnose_facts *facts)
{
    struct judge j = {.facts = facts, .checks = json_array()};
    bool stands;

    j.teardown_proven = cf_json_bool(cf_json_obj(facts->run, "teardown"), "proven", false);
    stands = check_image(&j);
    if (!stands)
        skipped(&j, "sandbox_provisioned", "not reached: %s", j.first_failed);
    else
        stands = check_sandbox(&j);
    if (facts->is_acp) {
        if (!stands) {
            skipped(&j, "initialize_handshake", "not reached: %s", j.first_failed);
            skipped(&j, "session_start", "not reached: %s", j.first_failed);
        } else {
            size_t before = json_array_size(j.checks);
            stands = check_handshake(&j);
            if (json_array_size(j.checks) == before + 1)
                skipped(&j, "session_start", "not reached: %s", j.first_failed);
        }
    }
    if (!stands)
        skipped(&j, facts->is_acp ? "prompt_exchange" : "process_exchange", "not reached: %s", j.first_failed);
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
    return j.checks;
}

/* ---- declared, exercised, proven ------------------------------------------------------------- */

json_t *
cf_diagnose_axes(json_t *run, json_t *checks)
{
    static const struct {
        const char *axis, *member, *check, *observation;
    } rows[] = {
        {"subagents", "subagents", "subagent_correlation", "subagent_started"},
        {"mid_run_input", "steer", "steering_delivered", "steering"},
        {"interrupt", "interrupt", "cooperative_interrupt_drained", NULL},
    };
    json_t *declared = cf_json_obj(run, "declared"), *seen = cf_json_obj(cf_json_obj(run, "observations"), "by_type");
    json_t *axes = json_array(), *check;
    size_t i;

    for (size_t k = 0; k < CF_COUNT(rows); k++) {
        const char *status = "skipped";
        bool is_declared = json_object_get(declared, rows[k].member) != NULL, is_exercised;
        json_array_foreach(checks, i, check)
            if (cf_str_same(cf_json_str(check, "id"), rows[k].check))
                status = cf_json_str(check, "status");
        is_exercised = rows[k].observation != NULL ? cf_json_int(seen, rows[k].observation, 0) > 0
                                                   : !cf_str_same(status, "skipped");
        (void)json_array_append_new(
            axes, json_pack("{s:s, s:b, s:b, s:b}", "axis", rows[k].axis, "declared", is_declared, "exercised",
                            is_declared && is_exercised, "proven",
                            is_declared && is_exercised && cf_str_same(status, "passed")));
    }
    return axes;
}
