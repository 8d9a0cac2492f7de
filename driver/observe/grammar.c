/*
 * observe/grammar.c: the conformance grammar, judged while the observations stream.
 *
 * It sees observations only, as any supervisor does: what it proves of a live run it proves of
 * a replay. Ready is once a run; the terminal is once a turn; tool-use ids and subagents are
 * the run's. Hooks are the runner's own and stand outside.
 */
#include "observe/observe.h"

#include "base/str.h"
#include "base/utf8.h"

#include <jansson.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TABLE_MAX 100000u /* ids remembered of each sort; later ones are taken on trust */

struct violation {
    bool is_set;
    uint64_t seq, frame;
    char summary[200];
};

struct cf_grammar {
    bool is_acp;
    struct cf_declaration declared;
    struct violation broken[CF_GRAMMAR_CHECKS];

    bool has_ready;
    uint64_t ready_seq, ready_frame;

    bool is_in_turn, has_terminal;
    unsigned turns, finished;
    uint64_t last_seq, last_frame;
    char last_type[40], stop_reason[32];

    json_t *uses; /* tool_use_id -> true */
    uint64_t use_count, result_count;

    json_t *subagents; /* id -> true while open, false when settled */
    uint64_t started_count;
    unsigned open_count;

    json_t *steers; /* event id -> true once acknowledged */
    uint64_t acknowledged, accepted, refused;

    bool drain_sent, drain_refused, drain_accepted, drain_settled;
};

static const char *const check_ids[CF_GRAMMAR_CHECKS] = {
    "ready_handshake",      "terminal_observation", "tool_correlation",
    "steering_correlation", "steering_delivered",   "cooperative_interrupt_drained",
    "subagent_correlation",
};

struct cf_grammar *
cf_grammar_new(bool is_acp)
{
    struct cf_grammar *g = calloc(1, sizeof *g);

    if (g == NULL)
        return NULL;
    g->is_acp = is_acp;
    g->uses = json_object();
    g->subagents = json_object();
    g->steers = json_object();
    if (g->uses == NULL || g->subagents == NULL || g->steers == NULL) {
        cf_grammar_free(g);
        return NULL;
    }
    return g;
}

void
cf_grammar_free(struct cf_grammar *g)
{
    if (g == NULL)
        return;
    json_decref(g->uses);
    json_decref(g->subagents);
    json_decref(g->steers);
    free(g);
}

void
cf_grammar_declare(struct cf_grammar *g, const struct cf_declaration *declaration)
{
    g->declared = *declaration;
}

void
cf_grammar_turn_begin(struct cf_grammar *g)
{
    g->is_in_turn = true;
    g->has_terminal = false;
    g->turns++;
    g->last_type[0] = '\0';
}

/* ---- violations ---- */

/* Keeps the first of each check. Returns -1 when it was the first. */
static int
broke(struct cf_grammar *g, enum cf_grammar_check check, uint64_t seq, uint64_t frame,
      const char *fmt, ...)
{
    struct violation *violation = &g->broken[check];
    va_list args;

    if (violation->is_set)
        return 0;
    violation->is_set = true;
    violation->seq = seq;
    violation->frame = frame;
    va_start(args, fmt);
    vsnprintf(violation->summary, sizeof violation->summary, fmt, args);
    va_end(args);
    cf_utf8_make_line(violation->summary); /* an agent's id may have been cut in a character */
    return -1;
}

/* "observation.tool_use" without its first word. */
static const char *
short_name(const struct cf_observation *o)
{
    const char *name = cf_observation_type_name(o->type);

    return name == NULL ? "unknown" : name + strlen("observation.");
}

static bool
is_terminal(uint32_t type)
{
    return type == CF_OBSERVATION_FINISHED || type == CF_OBSERVATION_FAILED ||
           type == CF_OBSERVATION_RETRYABLE_FAILURE;
}

static void
remember(json_t *table, const char *id, json_t *value)
{
    if (json_object_size(table) < TABLE_MAX || json_object_get(table, id) != NULL)
        (void)json_object_set_new(table, id, value);
    else
        json_decref(value);
}

/* ---- the checks, each on one observation ---- */

static int
check_ready(struct cf_grammar *g, const struct cf_observation *o)
{
    bool is_runners =
        o->type == CF_OBSERVATION_FAILED || o->type == CF_OBSERVATION_RETRYABLE_FAILURE;

    if (o->type == CF_OBSERVATION_READY) {
        if (g->has_ready)
            return broke(g, CF_GRAMMAR_READY_HANDSHAKE, o->seq, o->frame,
                         "a second ready observation");
        g->has_ready = true;
        g->ready_seq = o->seq;
        g->ready_frame = o->frame;
    } else if (!g->has_ready && !is_runners) {
        return broke(g, CF_GRAMMAR_READY_HANDSHAKE, o->seq, o->frame, "%s came before ready",
                     short_name(o));
    }
    return 0;
}

static int
check_terminal(struct cf_grammar *g, const struct cf_observation *o)
{
    bool was_over = g->has_terminal && g->is_in_turn;

    if (was_over)
        return broke(g, CF_GRAMMAR_TERMINAL_OBSERVATION, o->seq, o->frame,
                     "%s came after the turn's terminal", short_name(o));
    if (!is_terminal(o->type))
        return 0;
    g->has_terminal = true;
    if (o->type == CF_OBSERVATION_FINISHED) {
        g->finished++;
        snprintf(g->stop_reason, sizeof g->stop_reason, "%s", o->detail ? o->detail : "");
        if (g->drain_accepted)
            g->drain_settled = true;
    } else {
        (void)broke(g, CF_GRAMMAR_TERMINAL_OBSERVATION, o->seq, o->frame,
                    "the turn ended as %s: %.150s", short_name(o), o->text ? o->text : "");
    }
    return 0;
}

static int
check_tools(struct cf_grammar *g, const struct cf_observation *o)
{
    const char *id = o->tool_use_id ? o->tool_use_id : "";
    bool is_known = json_object_get(g->uses, id) != NULL;

    if (o->type == CF_OBSERVATION_TOOL_USE) {
        g->use_count++;
        if (is_known)
            return broke(g, CF_GRAMMAR_TOOL_CORRELATION, o->seq, o->frame,
                         "tool_use_id \"%.100s\" was used before", id);
        remember(g->uses, id, json_true());
    } else if (o->type == CF_OBSERVATION_TOOL_RESULT) {
        g->result_count++;
        if (!is_known && json_object_size(g->uses) < TABLE_MAX)
            return broke(g, CF_GRAMMAR_TOOL_CORRELATION, o->seq, o->frame,
                         "a result names \"%.100s\", a use never seen", id);
    }
    return 0;
}

static int
check_steering(struct cf_grammar *g, const struct cf_observation *o)
{
    const char *id = o->detail ? o->detail : "";
    const json_t *steer = json_object_get(g->steers, id);

    if (o->type != CF_OBSERVATION_STEERING)
        return 0;
    g->acknowledged++;
    if (o->text != NULL && o->text_len == 7 && memcmp(o->text, "refused", 7) == 0)
        g->refused++;
    else
        g->accepted++;
    if (!g->declared.steer) {
        (void)broke(g, CF_GRAMMAR_STEERING_DELIVERED, o->seq, o->frame,
                    "steering was not declared, yet it appears");
        return broke(g, CF_GRAMMAR_STEERING_CORRELATION, o->seq, o->frame,
                     "an acknowledgement without declared native mid-run input");
    }
    if (steer == NULL)
        return broke(g, CF_GRAMMAR_STEERING_CORRELATION, o->seq, o->frame,
                     "%.60s was never steered", id);
    if (json_is_true(steer))
        return broke(g, CF_GRAMMAR_STEERING_CORRELATION, o->seq, o->frame,
                     "%.60s was acknowledged twice", id);
    remember(g->steers, id, json_true());
    return 0;
}

static int
check_subagent_start(struct cf_grammar *g, const struct cf_observation *o, const json_t *state)
{
    g->started_count++;
    if (!g->declared.subagents)
        return broke(g, CF_GRAMMAR_SUBAGENT_CORRELATION, o->seq, o->frame,
                     "a subagent started, but subagents are not declared");
    if (state != NULL)
        return broke(g, CF_GRAMMAR_SUBAGENT_CORRELATION, o->seq, o->frame,
                     "subagent %.50s started twice", o->subagent);
    remember(g->subagents, o->subagent, json_true());
    g->open_count++;
    return 0;
}

static int
check_subagent_end(struct cf_grammar *g, const struct cf_observation *o, const json_t *state)
{
    if (!g->declared.subagents)
        return broke(g, CF_GRAMMAR_SUBAGENT_CORRELATION, o->seq, o->frame,
                     "a subagent settled, but subagents are not declared");
    if (state == NULL)
        return broke(g, CF_GRAMMAR_SUBAGENT_CORRELATION, o->seq, o->frame,
                     "subagent %.50s settled without a start", o->subagent);
    if (!json_is_true(state))
        return broke(g, CF_GRAMMAR_SUBAGENT_CORRELATION, o->seq, o->frame,
                     "subagent %.50s settled twice", o->subagent);
    remember(g->subagents, o->subagent, json_false());
    g->open_count--;
    return 0;
}

static int
check_subagents(struct cf_grammar *g, const struct cf_observation *o)
{
    const json_t *state =
        o->subagent == NULL ? NULL : json_object_get(g->subagents, o->subagent);

    if (is_terminal(o->type) && g->open_count > 0)
        return broke(g, CF_GRAMMAR_SUBAGENT_CORRELATION, o->seq, o->frame,
                     "%u subagents had not settled before the terminal", g->open_count);
    if (o->subagent == NULL)
        return 0;
    if (o->type == CF_OBSERVATION_SUBAGENT_STARTED)
        return check_subagent_start(g, o, state);
    if (o->type == CF_OBSERVATION_SUBAGENT_COMPLETED)
        return check_subagent_end(g, o, state);
    if (state == NULL)
        return broke(g, CF_GRAMMAR_SUBAGENT_CORRELATION, o->seq, o->frame,
                     "%s names subagent %.50s, which never started", short_name(o),
                     o->subagent);
    if (json_is_false(state) && o->type != CF_OBSERVATION_TOOL_RESULT)
        return broke(g, CF_GRAMMAR_SUBAGENT_CORRELATION, o->seq, o->frame,
                     "%s names subagent %.50s, which had settled", short_name(o), o->subagent);
    return 0;
}

int
cf_grammar_feed(struct cf_grammar *g, const struct cf_observation *o)
{
    int status = 0;

    if (o->type == CF_OBSERVATION_LIFECYCLE_HOOK)
        return 0;
    g->last_seq = o->seq;
    g->last_frame = o->frame;
    status |= check_ready(g, o);
    status |= check_terminal(g, o);
    status |= check_tools(g, o);
    status |= check_steering(g, o);
    status |= check_subagents(g, o);
    snprintf(g->last_type, sizeof g->last_type, "%s", short_name(o));
    return status < 0 ? -1 : 0;
}

void
cf_grammar_steer_sent(struct cf_grammar *g, const char *event_id)
{
    if (json_object_get(g->steers, event_id) == NULL)
        remember(g->steers, event_id,
                 json_false()); /* the same id again is not a second delivery */
}

void
cf_grammar_drain_sent(struct cf_grammar *g)
{
    g->drain_sent = true;
}

void
cf_grammar_drain_answered(struct cf_grammar *g, const char *disposition)
{
    if (disposition != NULL && strcmp(disposition, "draining") == 0) {
        g->drain_accepted = true;
        /* the turn's end may have overtaken the answer */
        g->drain_settled = g->drain_settled || (g->has_terminal && g->finished > 0);
    } else {
        g->drain_refused = true;
    }
}

void
cf_grammar_turn_end(struct cf_grammar *g)
{
    if (g->is_in_turn && !g->has_terminal)
        (void)broke(g, CF_GRAMMAR_TERMINAL_OBSERVATION, g->last_seq, g->last_frame,
                    "the turn ended %s%s, without finished",
                    g->last_type[0] ? "with " : "silently", g->last_type);
    if (g->is_in_turn && g->open_count > 0)
        (void)broke(g, CF_GRAMMAR_SUBAGENT_CORRELATION, g->last_seq, g->last_frame,
                    "%u subagents had not settled when the turn ended", g->open_count);
}

/* ---- verdicts ---- */

static void
verdict(struct cf_grammar_result *ret, enum cf_verdict value, const char *fmt, ...)
{
    va_list args;

    ret->verdict = value;
    va_start(args, fmt);
    vsnprintf(ret->summary, sizeof ret->summary, fmt, args);
    va_end(args);
    cf_utf8_make_line(ret->summary);
}

static void
judge_terminal(const struct cf_grammar *g, struct cf_grammar_result *ret)
{
    ret->seq = g->last_seq;
    ret->frame = g->last_frame;
    if (g->turns == 0)
        verdict(ret, CF_VERDICT_SKIPPED, "no turn was begun");
    else if (g->finished < g->turns)
        verdict(ret, CF_VERDICT_FAILED, "a turn had no finished observation");
    else
        verdict(ret, CF_VERDICT_PASSED, g->turns == 1 ? "%s" : "%s, %u turns", g->stop_reason,
                g->turns);
}

static void
judge_steering_correlation(const struct cf_grammar *g, struct cf_grammar_result *ret)
{
    const char *id;
    json_t *value;

    json_object_foreach(g->steers, id, value)
        if (!json_is_true(value)) {
            verdict(ret, CF_VERDICT_FAILED, "%.60s was never acknowledged", id);
            return;
        }
    if (json_object_size(g->steers) > 0)
        verdict(ret, CF_VERDICT_PASSED, "%llu acknowledged once each",
                (unsigned long long)g->acknowledged);
    else
        verdict(ret, CF_VERDICT_PASSED, "no acknowledgement, none owed");
}

static void
judge_steering_delivered(const struct cf_grammar *g, struct cf_grammar_result *ret)
{
    if (!g->declared.steer)
        verdict(ret, CF_VERDICT_PASSED, "not declared, members absent");
    else if (json_object_size(g->steers) == 0)
        verdict(ret, CF_VERDICT_SKIPPED, "declared, but no steer was sent in this run");
    else if (g->accepted > 0)
        verdict(ret, CF_VERDICT_PASSED, "%llu delivered or queued",
                (unsigned long long)g->accepted);
    else if (g->refused > 0)
        verdict(ret, CF_VERDICT_FAILED, "the declared steer was refused");
    else
        verdict(ret, CF_VERDICT_FAILED, "the steer was never acknowledged");
}

static void
judge_drain(const struct cf_grammar *g, struct cf_grammar_result *ret)
{
    if (!g->declared.interrupt)
        verdict(ret, CF_VERDICT_SKIPPED, "not declared");
    else if (!g->drain_sent)
        verdict(ret, CF_VERDICT_SKIPPED, "declared, but no drain was asked for in this run");
    else if (g->drain_refused)
        verdict(ret, CF_VERDICT_FAILED, "the declared drain was refused");
    else if (!g->drain_accepted)
        verdict(ret, CF_VERDICT_FAILED, "the drain was never answered");
    else if (!g->drain_settled)
        verdict(ret, CF_VERDICT_FAILED,
                "the turn did not settle its own terminal inside the drain window");
    else
        verdict(ret, CF_VERDICT_PASSED, "drained, the turn finished as %s", g->stop_reason);
}

static void
judge_subagents(const struct cf_grammar *g, struct cf_grammar_result *ret)
{
    if (!g->declared.subagents)
        verdict(ret, CF_VERDICT_PASSED, "not declared, members absent");
    else if (g->started_count == 0)
        verdict(ret, CF_VERDICT_SKIPPED, "declared, but no subagent was seen in this run");
    else if (g->open_count > 0)
        verdict(ret, CF_VERDICT_FAILED, "%u subagents never settled", g->open_count);
    else
        verdict(ret, CF_VERDICT_PASSED, "%llu started, all settled",
                (unsigned long long)g->started_count);
}

static void
judge(const struct cf_grammar *g, enum cf_grammar_check check, struct cf_grammar_result *ret)
{
    switch (check) {
    case CF_GRAMMAR_READY_HANDSHAKE:
        ret->seq = g->ready_seq;
        ret->frame = g->ready_frame;
        if (g->has_ready)
            verdict(ret, CF_VERDICT_PASSED, "ready once, before all output");
        else
            verdict(ret, CF_VERDICT_FAILED, "there was no ready observation");
        break;
    case CF_GRAMMAR_TERMINAL_OBSERVATION:
        judge_terminal(g, ret);
        break;
    case CF_GRAMMAR_TOOL_CORRELATION:
        verdict(ret, CF_VERDICT_PASSED, "%llu uses, %llu results",
                (unsigned long long)g->use_count, (unsigned long long)g->result_count);
        break;
    case CF_GRAMMAR_STEERING_CORRELATION:
        judge_steering_correlation(g, ret);
        break;
    case CF_GRAMMAR_STEERING_DELIVERED:
        judge_steering_delivered(g, ret);
        break;
    case CF_GRAMMAR_COOPERATIVE_INTERRUPT_DRAINED:
        judge_drain(g, ret);
        break;
    default:
        judge_subagents(g, ret);
        break;
    }
}

void
cf_grammar_result(const struct cf_grammar *g, enum cf_grammar_check check,
                  struct cf_grammar_result *ret)
{
    const struct violation *violation = &g->broken[check];

    memset(ret, 0, sizeof *ret);
    ret->id = check_ids[check];
    if (violation->is_set) {
        ret->verdict = CF_VERDICT_FAILED;
        ret->seq = violation->seq;
        ret->frame = violation->frame;
        memcpy(ret->summary, violation->summary, sizeof ret->summary);
    } else if (!g->is_acp && check > CF_GRAMMAR_TOOL_CORRELATION) {
        verdict(ret, CF_VERDICT_SKIPPED, "a one-shot process has no such channel");
    } else {
        judge(g, check, ret);
    }
}
