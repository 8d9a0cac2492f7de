#include "diagnose/outcome.h"

#include "base/clock.h"
#include "base/str.h"
#include "base/utf8.h"
#include "json/json.h"

#include <stdio.h>
#include <string.h>

/* ---- names of checks ---------------------------------------------------------------------------- */

/* Timings are the run's, by phase; a check of no phase has no time of its own. */
static const struct {
    const char *id, *group, *phase;
} known[] = {
    {"image_resolved", "SETUP", "image"},
    {"sandbox_provisioned", "SETUP", "sandbox"},
    {"initialize_handshake", "HANDSHAKE", NULL},
    {"session_start", "HANDSHAKE", "session"},
    {"ready_handshake", "HANDSHAKE", NULL},
    {"resume", "CAPABILITY", NULL},
    {"output_schema", "CAPABILITY", NULL},
    {"steering_correlation", "CAPABILITY", NULL},
    {"steering_delivered", "CAPABILITY", NULL},
    {"cooperative_interrupt_drained", "CAPABILITY", NULL},
    {"subagent_correlation", "CAPABILITY", NULL},
    {"execution_locus", "CAPABILITY", NULL},
    {"torture", "TORTURE", NULL},
    {"prompt_exchange", "TURN", "turn"},
    {"process_exchange", "TURN", "turn"},
    {"teardown_drained", "TEARDOWN", "teardown"},
    {"verdict", "VERDICT", NULL},
};

const char *
cf_outcome_group(const json_t *check)
{
    const char *own = cf_json_str(check, "group");

    for (size_t i = 0; own == NULL && i < CF_COUNT(known); i++)
        if (cf_str_same(known[i].id, cf_json_str(check, "id")))
            return known[i].group;
    return own != NULL ? own : "TURN";
}

long long
cf_outcome_check_ms(const struct cf_outcome *outcome, const char *check_id)
{
    for (size_t i = 0; i < CF_COUNT(known); i++)
        if (cf_str_same(known[i].id, check_id) && known[i].phase != NULL)
            return (long long)cf_json_int(cf_json_obj(outcome->result, "timings_ms"), known[i].phase, -1);
    return -1;
}

/* ---- checks of a run that was no diagnostic ------------------------------------------------------ */

static void
add(json_t *checks, const char *id, const char *status, const char *summary, json_t *evidence, json_t *error)
{
    const char *fix = cf_json_str(error, "fix");
    json_t *check = json_pack("{s:s, s:s, s:s, s:o}", "id", id, "status", status, "summary", summary, "evidence",
                              evidence != NULL ? evidence : json_array());

    if (check != NULL && json_is_object(error))
        (void)json_object_set(check, "error", error);
    if (check != NULL && fix != NULL && *fix != '\0')
        (void)json_object_set_new(check, "fix", json_string(fix));
    (void)json_array_append_new(checks, check);
}

static void
add_turns(json_t *checks, json_t *result)
{
    json_t *turn;
    size_t i;

    json_array_foreach(json_object_get(result, "turns"), i, turn)
    {
        const char *outcome = cf_json_str(turn, "outcome"), *stop = cf_json_str(turn, "stop_reason");
        json_t *error = cf_json_obj(turn, "error");
        const char *text = cf_json_str(error, "message");
        bool is_good = cf_str_same(outcome, "finished") || cf_str_same(outcome, "requires_action");
        char id[40], summary[160];
        (void)snprintf(id, sizeof id, "turn_%lld", (long long)cf_json_int(turn, "turn", 0));
        (void)snprintf(summary, sizeof summary, "%s%s%s in %lld ms", outcome != NULL ? outcome : "unknown",
                       stop != NULL ? ", " : "", stop != NULL ? stop : "", (long long)cf_json_int(turn, "took_ms", 0));
        add(checks, id, is_good ? "passed" : "failed", !is_good && text != NULL ? text : summary, NULL, error);
    }
}

static void
add_grammar(json_t *checks, json_t *result)
{
    json_t *row;
    size_t i;

    json_array_foreach(json_object_get(result, "grammar"), i, row)
    {
        json_int_t seq = cf_json_int(row, "seq", 0);
        const char *id = cf_json_str(row, "id"), *status = cf_json_str(row, "status"),
                   *summary = cf_json_str(row, "summary");
        if (id != NULL && status != NULL && summary != NULL)
            add(checks, id, status, summary,
                seq != 0 ? json_pack("[{s:I, s:I}]", "seq", seq, "frame", cf_json_int(row, "frame", 0)) : NULL, NULL);
    }
}

static void
add_teardown(json_t *checks, json_t *result)
{
    json_t *teardown = cf_json_obj(result, "teardown");
    bool is_proven = cf_json_bool(teardown, "proven", false);
    char summary[100];

    (void)snprintf(summary, sizeof summary, "%zu removed, %zu left, in %lld ms",
                   json_array_size(json_object_get(teardown, "removed")),
                   json_array_size(json_object_get(teardown, "left")), (long long)cf_json_int(teardown, "took_ms", 0));
    add(checks, "teardown_drained", is_proven ? "passed" : "failed", is_proven ? summary : "nothing proves that all is gone",
        NULL, NULL);
}

static json_t *
checks_of_run(json_t *result)
{
    json_t *checks = json_array();

    add_turns(checks, result);
    add_grammar(checks, result);
    add_teardown(checks, result);
    return checks;
}

/* ---- the whole ------------------------------------------------------------------------------------ */

static void
count(struct cf_outcome *o)
{
    json_t *check;
    size_t i;

    o->passed = o->failed = o->skipped = 0;
    json_array_foreach(o->checks, i, check)
    {
        const char *status = cf_json_str(check, "status");
        size_t *of = cf_str_same(status, "passed") ? &o->passed : cf_str_same(status, "skipped") ? &o->skipped : &o->failed;
        ++*of;
    }
}

/* Nothing failed by name, and yet it did not end well. */
static void
add_verdict(struct cf_outcome *o)
{
    json_t *error = cf_json_obj(o->result, "error");
    const char *text = cf_json_str(error, "message");
    char summary[80];

    count(o);
    if (o->exit_code == 0 || o->failed > 0)
        return;
    (void)snprintf(summary, sizeof summary, "%s with exit code %d", o->exit_code == 130 ? "interrupted" : "ended",
                   o->exit_code);
    add(o->checks, "verdict", "failed", text != NULL ? text : summary, NULL, error);
    o->failed++;
}

static void
one_line(char *to, size_t size, const char *text)
{
    (void)snprintf(to, size, "%s", text != NULL ? text : "");
    cf_utf8_make_line(to);
}

static void
read_image(struct cf_outcome *o)
{
    json_t *image = cf_json_obj(o->result, "image");
    const char *digest = cf_json_str(image, "digest");

    one_line(o->digest, sizeof o->digest, digest);
    if (!cf_str_starts(o->digest, "sha256:") || strlen(o->digest) != 71 || !cf_is_hex(o->digest + 7, 64))
        o->digest[0] = '\0';
    one_line(o->reference, sizeof o->reference, cf_json_str(image, "reference"));
}

int
cf_outcome_init(struct cf_outcome *o, const char *command, const json_t *result, int exit_code, const char *name,
                const struct cf_mask *mask)
{
    json_t *checks;

    memset(o, 0, sizeof *o);
    o->command = command;
    o->exit_code = exit_code;
    o->result = cf_mask_value(mask, result);
    if (o->result == NULL)
        return -1;
    checks = json_object_get(o->result, "checks");
    o->checks = json_is_array(checks) ? json_copy(checks) : checks_of_run(o->result);
    if (o->checks == NULL)
        return -1;
    add_verdict(o);
    o->status = exit_code == 0 ? "passed" : exit_code == 1 ? "failed" : "error";
    o->blame = cf_json_str(o->result, "blame");
    if (o->blame == NULL)
        o->blame = exit_code == 0 ? "none" : cf_json_str(cf_json_obj(o->result, "error"), "blame");
    if (o->blame == NULL)
        o->blame = exit_code == 1 ? "harness" : "runner";
    if (cf_json_str(o->result, "name") != NULL && *cf_json_str(o->result, "name") != '\0')
        name = cf_json_str(o->result, "name");
    one_line(o->name, sizeof o->name, name != NULL ? name : "harness");
    read_image(o);
    cf_clock_rfc3339(cf_clock_unix(), o->made_at);
    return 0;
}

void
cf_outcome_release(struct cf_outcome *o)
{
    json_decref(o->result);
    json_decref(o->checks);
    memset(o, 0, sizeof *o);
}
