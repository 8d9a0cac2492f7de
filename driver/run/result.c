/*
 * What a run came to, as one document (proto/run-result.schema.json). Made after teardown, so
 * that it can say what was removed and what is left.
 */
#include "run/hall.h"

#include "base/clock.h"
#include "json/json.h"

#include <string.h>

static json_t *
error_json(const struct cf_run *run, const struct cf_error *err)
{
    enum cf_blame blame = cf_error_blame(err->kind);

    if (err->kind == CF_ERROR_DEADLINE && run->engine_was_slow)
        blame = CF_BLAME_ENGINE;
    if (err->kind == CF_ERROR_TURN_DEADLINE && run->model_was_silent)
        blame = CF_BLAME_UPSTREAM;
    if (err->kind == CF_ERROR_NONE)
        return json_null();
    return json_pack("{s:s, s:s, s:s, s:s, s:i, s:i}", "type", cf_error_type(err->kind), "message", err->text, "fix",
                     err->fix, "blame", cf_blame_name(blame), "kind", (int)err->kind, "code",
                     err->code);
}

void
cf_result_turn(struct cf_run *run, const char *outcome)
{
    const struct cf_error none = {0};
    json_t *turn = json_pack("{s:i, s:s, s:s?, s:o, s:I, s:b}", "turn", (int)run->turn, "outcome", outcome,
                             "stop_reason", strcmp(outcome, "finished") == 0 ? run->stop_reason : NULL, "error",
                             error_json(run, run->turn_failed ? &run->turn_error : &none), "took_ms",
                             (json_int_t)(cf_clock_ms() - run->turn_began_ms), "run_over",
                             run->state >= CF_HALL_DOWN);
    char *text;
    size_t len = 0;

    if (turn == NULL)
        return;
    (void)json_array_append(run->turns, turn);
    cf_voice_turn(run, outcome);
    cf_record_json(run, CF_RECORD_TURN, turn);
    text = cf_json_dump(turn, &len);
    json_decref(turn);
    if (text != NULL && run->host.on_turn != NULL)
        run->host.on_turn(run->host.user, run->turn, text, len);
    free(text);
}

static json_t *
grammar_json(const struct cf_run *run)
{
    static const char *const verdicts[] = {"skipped", "passed", "failed"};
    json_t *list = json_array();

    for (int check = 0; check < CF_GRAMMAR_CHECKS; check++) {
        struct cf_grammar_result r = {0};
        cf_grammar_result(run->grammar, check, &r);
        (void)json_array_append_new(list, json_pack("{s:s, s:s, s:s, s:I, s:I}", "id", r.id, "status",
                                                    verdicts[r.verdict], "summary", r.summary, "seq",
                                                    (json_int_t)r.seq, "frame", (json_int_t)r.frame));
    }
    return list;
}

static json_t *
harness_json(const struct cf_run *run)
{
    char *tail = run->harness.stderr_tail.data != NULL ? cf_tail_text(&run->harness.stderr_tail, 20, 4096) : NULL;
    json_t *harness = json_pack("{s:O?, s:s, s:I, s:I, s:O?}", "exit", run->exit_facts, "stderr_tail",
                                tail != NULL ? tail : "", "stdout_bytes", (json_int_t)run->harness.stdout_bytes,
                                "stderr_bytes", (json_int_t)run->harness.stderr_bytes, "agent_info", run->agent_info);

    free(tail);
    return harness;
}

static json_t *
or_null(json_t *value)
{
    return value != NULL ? json_incref(value) : json_null();
}

static json_t *
observations_json(const struct cf_run *run)
{
    return json_pack("{s:I, s:o, s:I}", "count", (json_int_t)run->seq, "by_type",
                     cf_normalizer_counts(run->normalizer), "shortened",
                     (json_int_t)cf_normalizer_shortened(run->normalizer));
}

/* The run's error; where there is none and something is left, that. */
static struct cf_error
error_of(const struct cf_run *run)
{
    struct cf_error err = run->error;
    const char *line = cf_json_str(json_array_get(run->left, 0), "remove");

    if (err.kind != CF_ERROR_NONE || (run->teardown_proven && json_array_size(run->left) == 0))
        return err;
    (void)cf_error_set(&err, CF_ERROR_TEARDOWN, 0, "it is not proven that nothing of this run is left: teardown.left names %zu",
                       json_array_size(run->left));
    (void)cf_error_fix(&err, "%s", line != NULL ? line : "cfrunner reap");
    return err;
}

/* "ok" is a run in which nothing failed. A turn that did, in a run that then came to its orderly
 * end, has a word of its own; its error stands in `turns`. */
static const char *
status_of(const struct cf_run *run, const struct cf_error *err)
{
    json_t *turn;
    size_t i;

    if (err->kind != CF_ERROR_NONE)
        return "failed";
    json_array_foreach(run->turns, i, turn)
    {
        if (cf_json_obj(turn, "error") != NULL)
            return "turn_failed";
    }
    return "ok";
}

json_t *
cf_result_make(struct cf_run *run)
{
    json_t *result = json_object();
    struct cf_error err = error_of(run);
    bool clean = run->teardown_proven && json_array_size(run->left) == 0;

    if (result == NULL)
        return NULL;
    (void)json_object_set_new(run->timings, "total", json_integer((json_int_t)(cf_clock_ms() - run->opened_ms)));
    (void)json_object_set_new(result, "schema_version", json_integer(1));
    (void)json_object_set_new(result, "run", json_string(run->id));
    (void)json_object_set_new(result, "status", json_string(status_of(run, &err)));
    (void)json_object_set_new(result, "error", error_json(run, &err));
    (void)json_object_set_new(result, "failure_tail",
                              run->failure_tail != NULL ? json_string(run->failure_tail) : json_null());
    (void)json_object_set_new(result, "protocol", json_string(run->release.is_acp ? "acp-v1" : "oneshot-v1"));
    (void)json_object_set_new(result, "driver_version",
                              json_string(run->release.is_acp ? CF_DRIVER_ACP : CF_DRIVER_ONESHOT));
    (void)json_object_set_new(result, "engine", or_null(run->engine_json));
    (void)json_object_set_new(result, "session", or_null(run->session));
    (void)json_object_set_new(result, "image", or_null(run->image_json));
    (void)json_object_set_new(result, "capability_set", or_null(run->capability_set));
    (void)json_object_set_new(result, "declared", or_null(run->declared));
    (void)json_object_set_new(result, "grammar", grammar_json(run));
    (void)json_object_set_new(result, "turns", or_null(run->turns));
    (void)json_object_set_new(result, "observations", observations_json(run));
    (void)json_object_set_new(result, "findings", or_null(run->findings));
    (void)json_object_set_new(result, "findings_dropped", json_integer(run->findings_dropped));
    (void)json_object_set_new(result, "model_calls", run->ledger != NULL ? json_incref(run->ledger) : json_array());
    (void)json_object_set_new(result, "model_totals", or_null(run->relay_totals));
    (void)json_object_set_new(result, "egress", or_null(run->egress_json));
    (void)json_object_set_new(result, "harness", harness_json(run));
    (void)json_object_set_new(result, "staged", or_null(run->staged));
    (void)json_object_set_new(result, "collected", run->collected != NULL ? json_incref(run->collected) : json_array());
    (void)json_object_set_new(result, "correspondence", cf_voice_json(run));
    (void)json_object_set_new(result, "recording", cf_record_result(run));
    (void)json_object_set_new(result, "timings_ms", or_null(run->timings));
    (void)json_object_set_new(result, "limits", or_null(run->limits));
    (void)json_object_set_new(result, "isolation", or_null(run->isolation));
    (void)json_object_set_new(result, "teardown",
                              json_pack("{s:b, s:O, s:O, s:s, s:I}", "proven", clean, "removed", run->removed,
                                        "left", run->left, "host",
                                        run->teardown_host != NULL ? run->teardown_host : "unseen", "took_ms",
                                        (json_int_t)(run->teardown_began_ms != 0
                                                         ? cf_clock_ms() - run->teardown_began_ms
                                                         : 0)));
    return result;
}
