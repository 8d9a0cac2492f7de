/*
 * Lineage cases: symbols become signed events, the events arrive, and after each arrival the
 * state of every symbol is put beside what the case wants.
 */
#include "cli/correspond_conformance.h"

#include "base/str.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NODES_MAX 4096u
#define PERMUTED_NODES_MAX 6u
#define HOUR_MS 3600000

struct scenario {
    size_t count;
    const char **symbols; /* borrowed from the file */
    struct cf_corr_event **events;
    struct cf_corr_store *store;
    const char *problem; /* why it cannot be run; NULL: it can */
};

static const char *
text_of(const json_t *object, const char *name)
{
    return json_string_value(json_object_get(object, name));
}

static size_t
find_symbol(const struct scenario *s, const char *symbol)
{
    size_t i = 0;

    while (i < s->count && (symbol == NULL || strcmp(s->symbols[i], symbol) != 0))
        i++;
    return i;
}

/* A name of the case becomes a UUID that depends on the name alone. */
static void
make_uuid(const char *name, unsigned salt, char out[CF_CORR_UUID_SIZE])
{
    uint64_t hash = 14695981039346656037u ^ salt;

    for (; *name != '\0'; name++)
        hash = (hash ^ (unsigned char)*name) * 1099511628211u;
    (void)snprintf(out, CF_CORR_UUID_SIZE, "%08x-0000-4000-8000-%012llx",
                   (unsigned)(hash >> 32), (unsigned long long)(hash & 0xffffffffu));
}

static json_t *
make_body(const json_t *node, const char *predecessor)
{
    const char *claim = text_of(node, "claim"), *expires = text_of(node, "expires"),
               *kind = text_of(node, "kind");
    char claim_id[CF_CORR_UUID_SIZE], at[CF_CORR_TIME_SIZE];
    json_t *body;

    if (strncmp(kind, "claim.", 6) != 0)
        return json_pack("{s:s}", "summary", "an ordinary event");
    make_uuid(claim == NULL ? "claim" : claim, 2, claim_id);
    body = json_pack("{s:s, s:O?}", "claim_id", claim_id, "generation",
                     json_object_get(node, "generation"));
    if (predecessor != NULL)
        (void)json_object_set_new(body, "predecessor_event_id", json_string(predecessor));
    if (expires != NULL) {
        bool is_future = strcmp(expires, "future") == 0;
        cf_corr_time_format(CF_CONFORMANCE_NOW + (is_future ? HOUR_MS : -HOUR_MS), at);
        (void)json_object_set_new(body, "expires_at", json_string(at));
    }
    return body;
}

/* Predecessors must be listed before those who follow them: their ids are hashes of their
 * content. */
static void
sign_node(struct cf_conformance *c, struct scenario *s, const json_t *node)
{
    const char *identity = text_of(node, "identity"),
               *repository = text_of(node, "repository");
    const char *before = text_of(node, "predecessor"), *paths[64];
    struct cf_corr_author author = c->author;
    struct cf_corr_event_view view = {0};
    struct cf_corr_refusal refusal;
    json_t *list = json_object_get(node, "paths"), *path, *body;
    cf_auto_free char *text = NULL;
    size_t i;

    s->symbols[s->count] = text_of(node, "symbol");
    if (s->symbols[s->count] == NULL || text_of(node, "kind") == NULL ||
        json_array_size(list) > CF_COUNT(paths) ||
        (before != NULL && find_symbol(s, before) == s->count)) {
        s->problem = "a node is incomplete, or listed before its predecessor";
        return;
    }
    json_array_foreach(list, i, path)
        paths[i] = json_is_string(path) ? json_string_value(path) : "";
    author.paths = paths;
    author.path_count = json_array_size(list);
    author.session_seq = s->count; /* so that no two are one event */
    if (repository != NULL)
        author.repository_id = repository;
    if (identity != NULL)
        make_uuid(identity, 1, author.identity_id);
    if (before != NULL)
        cf_corr_event_view(s->events[find_symbol(s, before)], &view);
    body = make_body(node, before == NULL ? NULL : view.id);
    text = json_dumps(body, JSON_COMPACT);
    json_decref(body);
    if (text == NULL ||
        cf_corr_author_sign(&author, text_of(node, "kind"), text, &view.id, before != NULL,
                            CF_CONFORMANCE_NOW, &s->events[s->count], &refusal) < 0)
        s->problem = text == NULL ? "out_of_memory" : refusal.reason;
    else
        s->count++;
}

static void
begin_scenario(struct cf_conformance *c, struct scenario *s, const json_t *nodes)
{
    size_t room = json_array_size(nodes) + 1, i;
    json_t *node;

    memset(s, 0, sizeof *s);
    s->symbols = calloc(room, sizeof *s->symbols);
    s->events = calloc(room, sizeof *s->events);
    s->store = cf_corr_store_new(CF_CONFORMANCE_PROJECT, NULL, NULL);
    if (s->symbols == NULL || s->events == NULL || s->store == NULL)
        s->problem = "out_of_memory";
    else if (room > NODES_MAX)
        s->problem = "too many nodes";
    json_array_foreach(nodes, i, node)
        if (s->problem == NULL)
            sign_node(c, s, node);
}

static void
end_scenario(struct scenario *s)
{
    for (size_t i = 0; i < s->count; i++)
        cf_corr_event_free(s->events[i]);
    free(s->events);
    free(s->symbols);
    cf_corr_store_free(s->store);
}

/* "@read" is a read of the active claims: one batch while one is due. */
static void
arrive(struct scenario *s, const char *symbol)
{
    struct cf_corr_receipt receipt;
    struct cf_corr_refusal refusal;
    size_t i = find_symbol(s, symbol);

    if (symbol != NULL && strcmp(symbol, "@read") == 0)
        (void)cf_corr_store_reconcile(s->store,
                                      CF_CONFORMANCE_NOW); /* false: nothing was due */
    else if (i == s->count)
        s->problem = "an unknown symbol arrives";
    else if (cf_corr_store_append(s->store, s->events[i], CF_CONFORMANCE_NOW, 0, &receipt,
                                  &refusal) < 0)
        s->problem = refusal.reason;
}

static bool
state_of(const struct scenario *s, size_t i, struct cf_corr_state *ret_state)
{
    struct cf_corr_receipt receipt;
    struct cf_corr_event_view view;

    cf_corr_event_view(s->events[i], &view);
    return cf_corr_store_find(s->store, view.id, &receipt) &&
           cf_corr_store_state(s->store, receipt.received_seq, CF_CONFORMANCE_NOW, ret_state);
}

static json_t *
describe(const struct scenario *s, size_t after)
{
    json_t *status = json_object(), *tips = json_array(), *active = json_array(),
           *conflicted = json_array();

    for (size_t i = 0; i < s->count; i++) {
        struct cf_corr_state state;
        if (!state_of(s, i, &state))
            continue;
        (void)json_object_set_new(status, s->symbols[i],
                                  json_string(cf_corr_lineage_name(state.lineage)));
        if (state.is_tip)
            (void)json_array_append_new(tips, json_string(s->symbols[i]));
        if (state.is_active)
            (void)json_array_append_new(active, json_string(s->symbols[i]));
        if (state.is_conflicted)
            (void)json_array_append_new(conflicted, json_string(s->symbols[i]));
    }
    return json_pack("{s:I, s:o, s:o, s:o, s:o, s:b}", "after", (json_int_t)after, "status",
                     status, "tips", tips, "active", active, "conflicted", conflicted,
                     "incomplete", (int)cf_corr_store_is_incomplete(s->store));
}

static bool
holds(const json_t *set, const json_t *item)
{
    json_t *other;
    size_t i;

    json_array_foreach(set, i, other)
        if (json_equal(other, (json_t *)item))
            return true;
    return false;
}

/* Lists are sets. */
static bool
is_same(const json_t *wanted, const json_t *got)
{
    json_t *item;
    size_t i;

    if (!json_is_array(wanted) || !json_is_array(got))
        return json_equal((json_t *)wanted, (json_t *)got);
    if (json_array_size(wanted) != json_array_size(got))
        return false;
    json_array_foreach(wanted, i, item)
        if (!holds(got, item))
            return false;
    return true;
}

/* Every member that is wanted, as wanted. */
static bool
fits(json_t *wanted, const json_t *got)
{
    const char *name;
    json_t *value;

    json_object_foreach(wanted, name, value) {
        if (!is_same(value, json_object_get(got, name)))
            return false;
    }
    return true;
}

/* Runs the arrivals; `wanted` has a list of steps with "after" numbers. */
static void
run_steps(struct cf_conformance *c, struct scenario *s, const char *name,
          const json_t *arrival, json_t *wanted)
{
    json_t *got = json_array(), *symbol, *step;
    bool is_pass = s->problem == NULL;
    size_t i, k;

    json_array_foreach(arrival, i, symbol) {
        json_t *now;
        if (s->problem == NULL)
            arrive(s, json_string_value(symbol));
        if (s->problem != NULL)
            break;
        now = describe(s, i + 1);
        json_array_foreach(wanted, k, step)
            if (json_integer_value(json_object_get(step, "after")) == (json_int_t)i + 1)
                is_pass = is_pass && fits(step, now);
        (void)json_array_append_new(got, now);
    }
    if (s->problem != NULL)
        (void)json_array_append_new(got, json_pack("{s:s}", "problem", s->problem));
    cf_conformance_note(c, "lineage", name, wanted, got, is_pass && s->problem == NULL);
}

void
cf_conformance_lineage_cases(struct cf_conformance *c, const json_t *cases)
{
    json_t *entry;
    size_t i;

    json_array_foreach(cases, i, entry) {
        const char *name = text_of(entry, "name");
        struct scenario s;
        begin_scenario(c, &s, json_object_get(entry, "nodes"));
        run_steps(c, &s, name == NULL ? "" : name, json_object_get(entry, "arrival"),
                  json_incref(json_object_get(entry, "expect")));
        end_scenario(&s);
    }
}

/* ---- the contract's form ---- */

/* What a vector says of the state after arrival `step` (from 0), in the terms of a step. */
static json_t *
wanted_after(const json_t *vector, const struct scenario *s, size_t step)
{
    json_t *wanted = json_pack("{s:I}", "after", (json_int_t)step + 1);
    json_t *active =
        json_array_get(json_object_get(vector, "active_after_each_arrival"), step);
    json_t *status =
        json_array_get(json_object_get(vector, "lineage_status_after_each_arrival"), step);
    bool is_last = step + 1 == json_array_size(json_object_get(vector, "arrival"));

    if (active != NULL)
        (void)json_object_set(wanted, "active", active);
    if (status != NULL && s->count > 0) /* of the node listed last */
        (void)json_object_set_new(wanted, "last_status", json_incref(status));
    if (is_last && json_object_get(vector, "active_tips") != NULL)
        (void)json_object_set(wanted, "active", json_object_get(vector, "active_tips"));
    if (is_last && json_object_get(vector, "all_tips") != NULL)
        (void)json_object_set(wanted, "tips", json_object_get(vector, "all_tips"));
    if (is_last && json_object_get(vector, "conflicted_tips") != NULL)
        (void)json_object_set(wanted, "conflicted",
                              json_object_get(vector, "conflicted_tips"));
    return wanted;
}

static void
add_last_status(const struct scenario *s, json_t *step)
{
    json_t *status =
        json_object_get(json_object_get(step, "status"), s->symbols[s->count - 1]);

    if (status != NULL)
        (void)json_object_set(step, "last_status", status);
}

static void
run_vector(struct cf_conformance *c, const json_t *vector)
{
    json_t *arrival = json_object_get(vector, "arrival"), *symbol, *wanted = json_array(),
           *got = json_array();
    const char *name = text_of(vector, "name");
    bool is_pass = true;
    struct scenario s;
    size_t i;

    begin_scenario(c, &s, json_object_get(vector, "nodes"));
    json_array_foreach(arrival, i, symbol) {
        json_t *want, *now;
        if (s.problem == NULL)
            arrive(&s, json_string_value(symbol));
        if (s.problem != NULL)
            break;
        want = wanted_after(vector, &s, i);
        now = describe(&s, i + 1);
        add_last_status(&s, now);
        is_pass = is_pass && fits(want, now);
        (void)json_array_append_new(wanted, want);
        (void)json_array_append_new(got, now);
    }
    if (s.problem != NULL)
        (void)json_array_append_new(got, json_pack("{s:s}", "problem", s.problem));
    cf_conformance_note(c, "lineage", name == NULL ? "" : name, wanted, got,
                        is_pass && s.problem == NULL);
    end_scenario(&s);
}

/* The end state of one order of arrival. */
static json_t *
end_of_order(struct scenario *s, const size_t *order)
{
    struct cf_corr_refusal refusal;
    struct cf_corr_receipt receipt;

    cf_corr_store_free(s->store);
    s->store = cf_corr_store_new(CF_CONFORMANCE_PROJECT, NULL, NULL);
    for (size_t i = 0; i < s->count && s->store != NULL; i++)
        if (cf_corr_store_append(s->store, s->events[order[i]], CF_CONFORMANCE_NOW, 0,
                                 &receipt, &refusal) < 0)
            return json_string(refusal.reason);
    return s->store == NULL ? json_string("out_of_memory") : describe(s, s->count);
}

static void
permute(struct scenario *s, size_t *order, size_t done, json_t *first, unsigned *runs,
        unsigned *same)
{
    if (done == s->count) {
        json_t *end = end_of_order(s, order);
        ++*runs;
        *same += json_equal(end, first);
        json_decref(end);
        return;
    }
    for (size_t i = done; i < s->count; i++) {
        size_t swap = order[done];
        order[done] = order[i];
        order[i] = swap;
        permute(s, order, done + 1, first, runs, same);
        order[i] = order[done];
        order[done] = swap;
    }
}

/* The end state must not depend on arrival: every permutation against the listed order. */
static void
run_permutations(struct cf_conformance *c, const json_t *vector)
{
    size_t order[PERMUTED_NODES_MAX];
    unsigned runs = 0, same = 0;
    struct scenario s;
    char name[160];

    begin_scenario(c, &s, json_object_get(vector, "nodes"));
    if (s.problem == NULL && s.count > 0 && s.count <= PERMUTED_NODES_MAX) {
        json_t *first;
        for (size_t i = 0; i < s.count; i++)
            order[i] = i;
        first = end_of_order(&s, order);
        permute(&s, order, 0, first, &runs, &same);
        json_decref(first);
        (void)snprintf(name, sizeof name, "%.100s (every order of arrival)",
                       text_of(vector, "name") == NULL ? "" : text_of(vector, "name"));
        cf_conformance_note(c, "lineage", name, json_pack("{s:i}", "same_end", (int)runs),
                            json_pack("{s:i}", "same_end", (int)same), -1);
    }
    end_scenario(&s);
}

void
cf_conformance_lineage_vectors(struct cf_conformance *c, const json_t *vectors)
{
    json_t *vector;
    size_t i;

    json_array_foreach(vectors, i, vector) {
        run_vector(c, vector);
        run_permutations(c, vector);
    }
}
