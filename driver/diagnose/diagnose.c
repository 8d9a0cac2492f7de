/*
 * The diagnostic's questions. Each turn carries a nonce that nobody could know, and the replay
 * model answers with a second one; what the harness says must contain it. Turn 1 is the exchange;
 * what is declared follows, each in a turn of its own: a resume flag, an output schema; over ACP a
 * steer and, with --drain, a cooperative interrupt, for which the model's answer waits.
 */
#include "diagnose/diagnose.h"

#include "base/ids.h"
#include "base/str.h"
#include "diagnose/kept.h"
#include "diagnose/seen.h"
#include "diagnose/trail.h"
#include "json/json.h"
#include "schema/schema.h"

#include <stdio.h>
#include <string.h>

#define TURNS CF_ASK_COUNT
#define HOLD_MS 10000

struct cf_diagnose {
    struct cf_diagnose_events events;
    struct cf_diagnose_kept kept;
    struct cf_diagnose_options options; /* kept's */
    json_t *release, *run_options;      /* kept's */
    json_t *result;
    struct cf_run *run;
    struct cf_schema *observation_schema;
    bool is_acp, has_resume, has_output_schema, has_steer, has_interrupt, interrupted;
    int exit_code;
    char prompt_nonce[TURNS][40], answer_nonce[TURNS][40];
    char answer_json[80];
    int asked;         /* turns asked so far */
    enum cf_ask_kind kind[TURNS]; /* what turn i+1 was for */
    json_t *messages[TURNS];
    json_t *bad_observation;
    struct cf_trail trail;
};

/* ---- asking ----------------------------------------------------------------------------- */

static json_t *
schema_document(void)
{
    return json_pack("{s:s, s:{s:{s:s}}, s:[s], s:b}", "type", "object", "properties", "answer", "type", "string",
                     "required", "answer", "additionalProperties", 0);
}

/* It repeats the question: an agent that starts anew with it still has what it needs. */
static void
steer(struct cf_diagnose *d)
{
    struct cf_error err;
    char text[300];
    size_t len = 0;
    json_t *document;
    cf_auto_free char *bytes = NULL;

    (void)snprintf(text, sizeof text, "A word in between: the question stays. What is the answer to %s?",
                   d->prompt_nonce[CF_ASK_STEER]);
    document = json_pack("{s:s}", "content", text);
    bytes = cf_json_dump(document, &len);
    json_decref(document);
    if (bytes == NULL || cf_run_steer(d->run, bytes, len, NULL, &err) < 0)
        cf_run_close(d->run, 0, NULL);
}

static void
ask(struct cf_diagnose *d, enum cf_ask_kind kind)
{
    struct cf_error err;
    char text[300];
    json_t *prompt, *replay;
    cf_auto_free char *bytes = NULL;
    size_t len = 0;

    d->kind[d->asked] = kind;
    cf_id_make("prompt-", d->prompt_nonce[kind], sizeof d->prompt_nonce[kind]);
    cf_id_make("answer-", d->answer_nonce[kind], sizeof d->answer_nonce[kind]);
    (void)snprintf(text, sizeof text,
                   "This is a diagnostic. Ask your model the following line and report its answer word for word: "
                   "What is the answer to %s?",
                   d->prompt_nonce[kind]);
    replay = json_pack("{s:s, s:s}", "prompt_nonce", d->prompt_nonce[kind], "answer_nonce", d->answer_nonce[kind]);
    if (kind == CF_ASK_RESUME)
        (void)json_object_set_new(replay, "prior_nonce", json_string(d->answer_nonce[CF_ASK_EXCHANGE]));
    prompt = json_pack("{s:s, s:o}", "text", text, "replay", replay);
    if (kind == CF_ASK_SCHEMA) {
        (void)snprintf(d->answer_json, sizeof d->answer_json, "{\"answer\":\"%s\"}", d->answer_nonce[kind]);
        (void)json_object_set_new(replay, "answer_json", json_string(d->answer_json));
        (void)json_object_set_new(prompt, "output_schema", schema_document());
    }
    if (kind == CF_ASK_STEER || kind == CF_ASK_DRAIN)
        (void)json_object_set_new(replay, "hold_ms", json_integer(HOLD_MS));
    bytes = cf_json_dump(prompt, &len);
    json_decref(prompt);
    d->asked++;
    if (bytes == NULL || cf_run_prompt(d->run, bytes, len, &err) < 0)
        cf_run_close(d->run, 0, NULL);
    else if (kind == CF_ASK_STEER)
        steer(d);
    else if (kind == CF_ASK_DRAIN)
        cf_run_interrupt(d->run);
}

static void
ask_next(struct cf_diagnose *d)
{
    bool has_asked[TURNS] = {false};

    for (int i = 0; i < d->asked; i++)
        has_asked[d->kind[i]] = true;
    if (!has_asked[CF_ASK_EXCHANGE])
        ask(d, CF_ASK_EXCHANGE);
    else if (d->options.only_exchange)
        cf_run_close(d->run, UINT64_MAX, NULL);
    else if (d->has_resume && !has_asked[CF_ASK_RESUME])
        ask(d, CF_ASK_RESUME);
    else if (d->has_output_schema && !has_asked[CF_ASK_SCHEMA])
        ask(d, CF_ASK_SCHEMA);
    else if (d->has_steer && !has_asked[CF_ASK_STEER])
        ask(d, CF_ASK_STEER);
    else if (d->has_interrupt && d->options.has_drain && !has_asked[CF_ASK_DRAIN])
        ask(d, CF_ASK_DRAIN);
    else
        cf_run_close(d->run, UINT64_MAX, NULL);
}

/* ---- watching --------------------------------------------------------------------------- */

#define WATCH(d, name, ...)                                   \
    do {                                                      \
        if ((d)->events.watch.name != NULL)                   \
            (d)->events.watch.name((d)->events.watch.user, __VA_ARGS__); \
    } while (0)

static void
on_phase(void *user, const char *name, const char *step, uint64_t took_ms)
{
    WATCH((struct cf_diagnose *)user, on_phase, name, step, took_ms);
}

static void
on_progress(void *user, const char *what, const char *json, size_t len)
{
    WATCH((struct cf_diagnose *)user, on_progress, what, json, len);
}

static void
on_log(void *user, int level, const char *room, const char *line)
{
    WATCH((struct cf_diagnose *)user, on_log, level, room, line);
}

static void
on_frame(void *user, int from_harness, uint64_t number, uint64_t at_ms, const char *line, size_t len)
{
    struct cf_diagnose *d = user;

    cf_trail_frame_passed(&d->trail, (uint32_t)d->asked, from_harness, number, at_ms, line, len);
    WATCH(d, on_frame, from_harness, number, at_ms, line, len);
}

static void
on_stderr(void *user, const char *bytes, size_t len)
{
    WATCH((struct cf_diagnose *)user, on_stderr, bytes, len);
}

static void
on_call(void *user, const char *json, size_t len)
{
    WATCH((struct cf_diagnose *)user, on_call, json, len);
}

static void
on_finding(void *user, const char *json, size_t len)
{
    WATCH((struct cf_diagnose *)user, on_finding, json, len);
}

/* The axes above the envelope that this harness was admitted to. */
static void
read_axes(struct cf_diagnose *d, const struct cf_observation *ready)
{
    json_t *root = cf_json_parse(ready->json, ready->json_len, NULL, NULL);
    json_t *set = cf_json_obj(cf_json_obj(root, "payload"), "capability_set");

    d->has_steer = cf_str_same(cf_json_str(set, "mid_run_input"), "native");
    d->has_interrupt = cf_str_same(cf_json_str(set, "interrupt"), "cooperative");
    json_decref(root);
}

static int
on_observation(void *user, const struct cf_observation *observation)
{
    struct cf_diagnose *d = user;
    struct cf_error why;
    uint32_t turn = observation->turn;

    cf_trail_observation_passed(&d->trail, observation);
    if (d->bad_observation == NULL &&
        cf_schema_validate_text(d->observation_schema, observation->json, observation->json_len, NULL, &why) < 0)
        d->bad_observation = json_pack("{s:I, s:s}", "seq", (json_int_t)observation->seq, "why", why.text);
    if (observation->type == CF_OBSERVATION_READY && d->is_acp)
        read_axes(d, observation);
    if (observation->type == CF_OBSERVATION_AGENT_MESSAGE && turn >= 1 && turn <= TURNS)
        (void)json_array_append_new(d->messages[d->kind[turn - 1]],
                                    json_stringn(observation->text, observation->text_len));
    if (d->events.watch.on_observation != NULL)
        return d->events.watch.on_observation(d->events.watch.user, observation);
    return CF_RUN_CONTINUE;
}

static void
on_ready(void *user)
{
    struct cf_diagnose *d = user;

    if (d->events.watch.on_ready != NULL)
        d->events.watch.on_ready(d->events.watch.user);
    ask_next(d);
}

static void
on_turn(void *user, uint32_t turn, const char *json, size_t len)
{
    struct cf_diagnose *d = user;
    json_t *outcome = cf_json_parse(json, len, NULL, NULL);
    bool finished = cf_str_same(cf_json_str(outcome, "outcome"), "finished");

    json_decref(outcome);
    WATCH(d, on_turn, turn, json, len);
    if (finished && !d->interrupted)
        ask_next(d);
    else
        cf_run_close(d->run, UINT64_MAX, NULL); /* one failed answer is enough to know */
}

/* ---- the verdict ------------------------------------------------------------------------ */

static json_t *
of(json_t *run, const char *name)
{
    json_t *value = json_object_get(run, name);

    return value != NULL ? json_incref(value) : json_null();
}

static int
verdict_code(const struct cf_diagnose *d, json_t *run, json_t *checks, const char **ret_status)
{
    json_t *error = cf_json_obj(run, "error"), *teardown = cf_json_obj(run, "teardown");
    int code = error != NULL ? cf_diagnose_exit_code((enum cf_error_kind)cf_json_int(error, "kind", 1)) : 0;

    if (!cf_diagnose_is_shown(checks))
        code = cf_diagnose_worse(code, error == NULL || code == 0 ? 1 : code);
    if (d->interrupted)
        code = cf_diagnose_worse(code, 130);
    if (!cf_json_bool(teardown, "proven", false))
        code = cf_diagnose_worse(code, 4);
    *ret_status = code == 0 ? "passed" : code == 1 ? "failed" : "error";
    return code;
}

static const char *
blame_of(json_t *run, int code)
{
    const char *blame = cf_json_str(cf_json_obj(run, "error"), "blame");

    if (code == 0)
        return "none";
    /* An engine that went away can prove nothing either: the cause keeps its name. */
    if (code == 4)
        return cf_str_same(blame, "engine") ? "engine" : "runner";
    if (code == 130)
        return "none";
    if (code == 3)
        return "engine";
    if (cf_str_same(blame, "author") || blame == NULL || cf_str_same(blame, "none"))
        return cf_seen_model_failure(run) != NULL ? "upstream" : "harness";
    return blame;
}

static json_t *
declared_of(const struct cf_diagnose *d, json_t *run, json_t *checks)
{
    json_t *declared = json_pack("{s:o, s:O}", "capabilities", of(run, "declared"), "release", d->release);

    if (declared != NULL && d->is_acp)
        (void)json_object_set_new(declared, "axes", cf_diagnose_axes(run, checks));
    return declared;
}

static void
conclude(struct cf_diagnose *d, json_t *run)
{
    struct cf_diagnose_facts facts = {.run = run,
                                      .release = d->release,
                                      .options = d->run_options,
                                      .is_acp = d->is_acp,
                                      .has_resume = d->has_resume,
                                      .has_output_schema = d->has_output_schema,
                                      .wants_drain = d->options.has_drain,
                                      .bad_observation = d->bad_observation,
                                      .trail = &d->trail,
                                      .interrupted = d->interrupted};
    bool is_context = cf_json_str(d->run_options, "build_context") != NULL;
    const char *status;
    json_t *checks, *result = json_object();

    for (int i = 0; i < d->asked; i++) {
        enum cf_ask_kind kind = d->kind[i];
        facts.prompt_nonce[kind] = d->prompt_nonce[kind];
        facts.answer_nonce[kind] = d->answer_nonce[kind];
        facts.messages[kind] = d->messages[kind];
    }
    checks = cf_diagnose_checks(&facts);
    d->exit_code = verdict_code(d, run, checks, &status);
    (void)json_object_set_new(result, "schema_version", json_integer(1));
    (void)json_object_set_new(result, "status", json_string(status));
    (void)json_object_set_new(result, "label", json_string("unsigned_local_only"));
    (void)json_object_set_new(result, "name", json_string(d->options.name != NULL ? d->options.name : ""));
    (void)json_object_set_new(result, "protocol", of(run, "protocol"));
    (void)json_object_set_new(result, "driver_version", of(run, "driver_version"));
    (void)json_object_set_new(result, "image", of(run, "image"));
    (void)json_object_set_new(result, "engine", of(run, "engine"));
    (void)json_object_set_new(result, "checks", checks);
    (void)json_object_set_new(result, "error", of(run, "error"));
    (void)json_object_set_new(result, "failure_tail", of(run, "failure_tail"));
    (void)json_object_set_new(result, "capability_set", of(run, "capability_set"));
    (void)json_object_set_new(result, "declared", declared_of(d, run, checks));
    (void)json_object_set_new(result, "model_calls", of(run, "model_calls"));
    (void)json_object_set_new(result, "model_totals", of(run, "model_totals"));
    (void)json_object_set_new(result, "egress", of(run, "egress"));
    (void)json_object_set_new(result, "observations", of(run, "observations"));
    (void)json_object_set_new(result, "findings", of(run, "findings"));
    (void)json_object_set_new(result, "harness", of(run, "harness"));
    (void)json_object_set_new(result, "timings_ms", of(run, "timings_ms"));
    (void)json_object_set_new(result, "limits", of(run, "limits"));
    (void)json_object_set_new(result, "isolation", of(run, "isolation"));
    (void)json_object_set_new(result, "teardown", of(run, "teardown"));
    (void)json_object_set_new(result, "blame", json_string(blame_of(run, d->exit_code)));
    (void)json_object_set_new(result, "exit_code", json_integer(d->exit_code));
    (void)json_object_set_new(result, "next_steps",
                              cf_diagnose_next_steps(&d->options, d->release, is_context, d->exit_code == 0));
    json_decref(d->result);
    d->result = result;
}

static void
on_result(void *user, const char *json, size_t len)
{
    struct cf_diagnose *d = user;
    json_t *run = cf_json_parse(json, len, NULL, NULL);

    conclude(d, run);
    json_decref(run);
    cf_run_close(d->run, 0, NULL);
}

static void
free_diagnose(struct cf_diagnose *d)
{
    cf_diagnose_kept_release(&d->kept);
    for (int i = 0; i < TURNS; i++)
        json_decref(d->messages[i]);
    json_decref(d->bad_observation);
    json_decref(d->trail.secrets);
    cf_trail_release(&d->trail);
    json_decref(d->result);
    cf_schema_free(d->observation_schema);
    free(d);
}

static void
on_closed(void *user)
{
    struct cf_diagnose *d = user;
    struct cf_diagnose_events events = d->events;
    json_t *result = json_incref(d->result);
    int exit_code = d->exit_code;

    free_diagnose(d);
    events.on_done(events.user, result, exit_code);
    json_decref(result);
}

/* ---- open ------------------------------------------------------------------------------- */

/* Values that the options give to the harness: what it says of them is not shown in evidence. */
static json_t *
secrets_of(json_t *options)
{
    json_t *secrets = json_array(), *value, *server, *item;
    const char *name;
    size_t i, k;

    json_object_foreach(cf_json_obj(options, "env"), name, value)
        (void)json_array_append(secrets, value);
    json_array_foreach(json_object_get(options, "mcp"), i, server)
    {
        json_array_foreach(json_object_get(server, "headers"), k, item)
            (void)json_array_append(secrets, json_object_get(item, "value"));
        json_array_foreach(json_object_get(server, "env"), k, item)
            (void)json_array_append(secrets, json_object_get(item, "value"));
    }
    return secrets;
}

static int
keep_options(struct cf_diagnose *d, const struct cf_diagnose_options *options, struct cf_error *err)
{
    if (cf_diagnose_keep(&d->kept, options, err) < 0)
        return -1;
    d->options = d->kept.options;
    d->release = d->options.release;
    d->run_options = d->options.options;
    d->is_acp = cf_str_same(cf_json_str(d->release, "protocol"), "acp-v1");
    d->has_resume = cf_json_str(d->release, "resume_flag") != NULL;
    d->has_output_schema = cf_json_str(d->release, "output_schema_flag") != NULL;
    for (int i = 0; i < TURNS; i++)
        d->messages[i] = json_array();
    d->trail.secrets = secrets_of(d->run_options);
    return cf_schema_builtin("observation", &d->observation_schema, err);
}

int
cf_diagnose_open(struct uv_loop_s *loop, const struct cf_diagnose_options *options,
                 const struct cf_diagnose_events *events, struct cf_diagnose **ret_diagnose, struct cf_error *err)
{
    struct cf_diagnose *d = calloc(1, sizeof *d);
    struct cf_run_host host = {.size = sizeof host,
                               .user = d,
                               .on_phase = on_phase,
                               .on_progress = on_progress,
                               .on_observation = on_observation,
                               .on_log = on_log,
                               .on_frame = on_frame,
                               .on_stderr = on_stderr,
                               .on_call = on_call,
                               .on_finding = on_finding,
                               .on_ready = on_ready,
                               .on_turn = on_turn,
                               .on_result = on_result,
                               .on_closed = on_closed};
    cf_auto_free char *release = NULL, *run_options = NULL;
    size_t release_len = 0, options_len = 0;
    int status = -1;

    if (d == NULL)
        return cf_error_memory(err);
    d->events = *events;
    release = cf_json_dump(options->release, &release_len);
    run_options = cf_json_dump(options->options, &options_len);
    if (release == NULL || run_options == NULL)
        (void)cf_error_memory(err);
    else if (keep_options(d, options, err) == 0)
        status = options->pool != NULL
                     ? cf_pool_run_open(options->pool, run_options, options_len, &host, &d->run, err)
                     : cf_run_open(loop, release, release_len, run_options, options_len, &host, &d->run, err);
    if (status < 0) {
        free_diagnose(d);
        return -1;
    }
    *ret_diagnose = d;
    return 0;
}

void
cf_diagnose_interrupt(struct cf_diagnose *d, uint64_t grace_ms)
{
    struct cf_error why;

    d->interrupted = true;
    (void)cf_error_set(&why, CF_ERROR_CANCELED, 0, "interrupted");
    cf_run_close(d->run, grace_ms, &why);
}
