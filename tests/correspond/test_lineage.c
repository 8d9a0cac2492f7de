/*
 * Claim lineage: the contract's vectors in their order and in every permutation, the shared
 * cases with their bounded batches, and random scenarios against a slow model that knows
 * nothing of arrival order.
 */
#include "tests/correspond/support.h"

#define VECTORS "fixtures/agent-correspondence-0.1-vectors.json"
#define CASES "../shared/data/correspondence/lineage-cases.json"
#define NODES_MAX 64

struct scenario {
    unsigned count;
    char symbol[NODES_MAX][32];
    struct cf_corr_event *event[NODES_MAX];
};

static const char *
text_of(const json_t *object, const char *name)
{
    return json_string_value(json_object_get(object, name));
}

static int
find_symbol(const struct scenario *s, const char *symbol)
{
    for (unsigned i = 0; i < s->count; i++)
        if (strcmp(s->symbol[i], symbol) == 0)
            return (int)i;
    return -1;
}

/* A symbol becomes a UUID that depends on its text alone. */
static void
make_uuid(const char *symbol, unsigned salt, char out[CF_CORR_UUID_SIZE])
{
    unsigned hash = 2166136261u ^ salt;

    for (; *symbol != '\0'; symbol++)
        hash = (hash ^ (unsigned char)*symbol) * 16777619u;
    snprintf(out, CF_CORR_UUID_SIZE, "%08x-0000-4000-8000-000000000000", hash);
}

static void
sign_node(struct scenario *s, const json_t *node)
{
    const char *identity = text_of(node, "identity"), *claim = text_of(node, "claim"),
               *repository = text_of(node, "repository");
    const char *before = text_of(node, "predecessor"), *expires = text_of(node, "expires");
    const char *paths[64], *predecessor = NULL;
    struct cf_corr_author author = make_author(1);
    json_t *list = json_object_get(node, "paths"), *path;
    char body[600], claim_id[CF_CORR_UUID_SIZE], at[CF_CORR_TIME_SIZE];
    size_t i;

    json_array_foreach(list, i, path)
        paths[i] = json_string_value(path);
    author.paths = paths;
    author.path_count = json_array_size(list);
    author.repository_id = repository == NULL ? "r" : repository;
    author.session_seq = s->count; /* no two are the same event */
    make_uuid(identity == NULL ? "i" : identity, 1, author.identity_id);
    make_uuid(claim == NULL ? "c" : claim, 2, claim_id);
    if (before != NULL)
        predecessor = id_of(s->event[find_symbol(s, before)]);
    cf_corr_time_format(
        expires != NULL && strcmp(expires, "future") == 0 ? NOW + HOUR : NOW - HOUR, at);
    if (strcmp(text_of(node, "kind"), "intent") == 0)
        snprintf(body, sizeof body, "{\"summary\":\"x\"}");
    else
        snprintf(body, sizeof body, "{\"claim_id\":\"%s\",\"generation\":%d%s%s%s%s%s%s}",
                 claim_id, (int)json_integer_value(json_object_get(node, "generation")),
                 predecessor != NULL ? ",\"predecessor_event_id\":\"" : "",
                 predecessor != NULL ? predecessor : "", predecessor != NULL ? "\"" : "",
                 expires != NULL ? ",\"expires_at\":\"" : "", expires != NULL ? at : "",
                 expires != NULL ? "\"" : "");
    snprintf(s->symbol[s->count], sizeof s->symbol[0], "%s", text_of(node, "symbol"));
    s->event[s->count] = sign_ok(&author, text_of(node, "kind"), body, predecessor);
    s->count++;
}

static void
sign_scenario(struct scenario *s, const json_t *nodes)
{
    json_t *node;
    size_t i;

    s->count = 0;
    json_array_foreach(nodes, i, node) /* predecessors are listed first */
        sign_node(s, node);
}

static void
free_scenario(struct scenario *s)
{
    for (unsigned i = 0; i < s->count; i++)
        cf_corr_event_free(s->event[i]);
}

static void
arrive(struct cf_corr_store *store, const struct cf_corr_event *event)
{
    struct cf_corr_receipt receipt;
    struct cf_corr_refusal refusal = {0};
    int status = cf_corr_store_append(store, event, NOW, 0, &receipt, &refusal);

    ck_assert_msg(status == 0, "%s", refusal.reason);
}

static bool
state_of(const struct cf_corr_store *store, const struct scenario *s, unsigned i,
         struct cf_corr_state *state)
{
    struct cf_corr_receipt receipt;

    if (!cf_corr_store_find(store, id_of(s->event[i]), &receipt))
        return false;
    return cf_corr_store_state(store, receipt.received_seq, NOW, state);
}

static bool
is_listed(const json_t *list, const char *symbol)
{
    json_t *item;
    size_t i;

    json_array_foreach(list, i, item)
        if (strcmp(json_string_value(item), symbol) == 0)
            return true;
    return false;
}

/* `list` as a set against one flag of each stored event; no list, no check. */
static void
expect_set(const struct cf_corr_store *store, const struct scenario *s, const json_t *list,
           char which, const char *where)
{
    for (unsigned i = 0; list != NULL && i < s->count; i++) {
        struct cf_corr_state state = {0};
        bool has = state_of(store, s, i, &state) && (which == 't'   ? state.is_tip
                                                     : which == 'a' ? state.is_active
                                                                    : state.is_conflicted);
        ck_assert_msg(has == is_listed(list, s->symbol[i]), "%s: %c of %s is %d", where, which,
                      s->symbol[i], has);
    }
}

static void
expect_end(const struct cf_corr_store *store, const struct scenario *s, const json_t *vector)
{
    const char *name = text_of(vector, "name");
    json_t *each = json_object_get(vector, "active_after_each_arrival");

    expect_set(store, s, json_object_get(vector, "all_tips"), 't', name);
    expect_set(store, s, json_object_get(vector, "active_tips"), 'a', name);
    expect_set(store, s, json_object_get(vector, "conflicted_tips"), 'c', name);
    if (each != NULL)
        expect_set(store, s, json_array_get(each, json_array_size(each) - 1), 'a', name);
}

static void
run_in_given_order(const json_t *vector)
{
    struct cf_corr_store *store = cf_corr_store_new(PROJECT, NULL, NULL);
    json_t *arrival = json_object_get(vector, "arrival"), *symbol;
    json_t *active = json_object_get(vector, "active_after_each_arrival");
    json_t *status = json_object_get(vector, "lineage_status_after_each_arrival");
    struct scenario s;
    size_t i;

    sign_scenario(&s, json_object_get(vector, "nodes"));
    json_array_foreach(arrival, i, symbol) {
        arrive(store, s.event[find_symbol(&s, json_string_value(symbol))]);
        if (active != NULL)
            expect_set(store, &s, json_array_get(active, i), 'a', text_of(vector, "name"));
        if (status != NULL) {
            struct cf_corr_state state;
            ck_assert(state_of(store, &s, s.count - 1, &state));
            ck_assert_str_eq(cf_corr_lineage_name(state.lineage),
                             json_string_value(json_array_get(status, i)));
        }
    }
    expect_end(store, &s, vector);
    free_scenario(&s);
    cf_corr_store_free(store);
}

static void
run_permutations(const json_t *vector, const struct scenario *s, unsigned *order,
                 unsigned done)
{
    if (done == s->count) {
        struct cf_corr_store *store = cf_corr_store_new(PROJECT, NULL, NULL);
        for (unsigned i = 0; i < s->count; i++)
            arrive(store, s->event[order[i]]);
        expect_end(store, s, vector);
        cf_corr_store_free(store);
        return;
    }
    for (unsigned i = done; i < s->count; i++) {
        unsigned swap = order[done];
        order[done] = order[i];
        order[i] = swap;
        run_permutations(vector, s, order, done + 1);
        order[i] = order[done];
        order[done] = swap;
    }
}

START_TEST(contract_vectors_in_every_order)
{
    json_t *all = json_load_file(VECTORS, JSON_ALLOW_NUL, NULL), *vector;
    size_t i;

    ck_assert_ptr_nonnull(all);
    json_array_foreach(json_object_get(all, "lineage_vectors"), i, vector) {
        struct scenario s;
        unsigned order[NODES_MAX];
        run_in_given_order(vector);
        sign_scenario(&s, json_object_get(vector, "nodes"));
        for (unsigned k = 0; k < s.count; k++)
            order[k] = k;
        run_permutations(vector, &s, order, 0);
        free_scenario(&s);
    }
    ck_assert_uint_ge(i, 5);
    json_decref(all);
}
END_TEST

static void
expect_step(const struct cf_corr_store *store, const struct scenario *s, const json_t *expect,
            const char *name)
{
    json_t *statuses = json_object_get(expect, "status"), *wanted;
    const char *symbol;

    json_object_foreach(statuses, symbol, wanted) {
        struct cf_corr_state state;
        ck_assert_msg(state_of(store, s, (unsigned)find_symbol(s, symbol), &state), "%s: %s",
                      name, symbol);
        ck_assert_msg(strcmp(cf_corr_lineage_name(state.lineage), json_string_value(wanted)) ==
                          0,
                      "%s: %s is %s", name, symbol, cf_corr_lineage_name(state.lineage));
    }
    expect_set(store, s, json_object_get(expect, "tips"), 't', name);
    expect_set(store, s, json_object_get(expect, "active"), 'a', name);
    expect_set(store, s, json_object_get(expect, "conflicted"), 'c', name);
    ck_assert_msg(cf_corr_store_is_incomplete(store) ==
                      json_is_true(json_object_get(expect, "incomplete")),
                  "%s", name);
}

START_TEST(shared_lineage_cases)
{
    json_t *all = json_load_file(CASES, 0, NULL), *entry;
    size_t i;

    if (all == NULL) {
        printf("SKIPPED shared lineage cases: " CASES " is not there\n");
        return;
    }
    json_array_foreach(json_object_get(all, "cases"), i, entry) {
        struct cf_corr_store *store = cf_corr_store_new(PROJECT, NULL, NULL);
        json_t *arrival = json_object_get(entry, "arrival"), *symbol, *expect;
        struct scenario s;
        size_t step, k;
        sign_scenario(&s, json_object_get(entry, "nodes"));
        json_array_foreach(arrival, step, symbol) {
            if (strcmp(json_string_value(symbol), "@read") == 0) {
                if (cf_corr_store_is_incomplete(store))
                    ck_assert(cf_corr_store_reconcile(store, NOW));
            } else {
                arrive(store, s.event[find_symbol(&s, json_string_value(symbol))]);
            }
            json_array_foreach(json_object_get(entry, "expect"), k, expect)
                if (json_integer_value(json_object_get(expect, "after")) ==
                    (json_int_t)step + 1)
                    expect_step(store, &s, expect, text_of(entry, "name"));
        }
        free_scenario(&s);
        cf_corr_store_free(store);
    }
    ck_assert_uint_ge(i, 13);
    json_decref(all);
}
END_TEST

/* ---- random scenarios ---- */

struct model_node {
    unsigned kind, generation, identity, claim, repository, paths;
    int before; /* -1: none */
    bool is_future;
    enum cf_corr_lineage lineage;
    bool is_tip;
};

static unsigned
draw(unsigned *state, unsigned below)
{
    *state = *state * 1103515245u + 12345u;
    return (*state >> 16) % below;
}

/* Mostly fitting renewals, sometimes one that differs in one respect. */
static void
draw_node(struct model_node *nodes, unsigned at, unsigned *random)
{
    struct model_node *node = &nodes[at];

    *node = (struct model_node){
        .kind = at == 0 ? 0 : draw(random, 8), .before = -1, .is_future = draw(random, 4) > 0};
    if (node->kind == 0 || node->kind == 7) { /* an open, or an ordinary event */
        node->generation = 1;
        node->claim = draw(random, 2);
        node->identity = draw(random, 2);
        node->repository = draw(random, 8) == 0;
        return;
    }
    node->before = (int)draw(random, at);
    node->kind = node->kind < 6 ? 1 : 2; /* renew, release */
    const struct model_node *before = &nodes[node->before];
    node->generation = before->generation + 1 + (draw(random, 12) == 0);
    node->claim = before->claim ^ (draw(random, 16) == 0);
    node->identity = before->identity ^ (draw(random, 16) == 0);
    node->repository = before->repository ^ (draw(random, 20) == 0);
    node->paths = before->paths ^
                  (draw(random, 16) == 0 ? 2u : draw(random, 2)); /* bit 0: only the order */
}

/* The rules read off the page, parents first; nothing about arrival. */
static void
judge_model(struct model_node *nodes, unsigned count)
{
    for (unsigned i = 0; i < count; i++) {
        struct model_node *node = &nodes[i];
        if (node->kind == 7) {
            node->lineage = CF_CORR_NOT_APPLICABLE;
            continue;
        }
        node->lineage = CF_CORR_VALID;
        if (node->kind != 0) {
            const struct model_node *before = &nodes[node->before];
            bool fits = before->lineage == CF_CORR_VALID && before->kind < 2 &&
                        before->claim == node->claim && before->identity == node->identity &&
                        before->repository == node->repository &&
                        node->generation == before->generation + 1 &&
                        (before->paths & 2) == (node->paths & 2);
            node->lineage = fits ? CF_CORR_VALID : CF_CORR_INVALID;
        }
        node->is_tip = node->lineage == CF_CORR_VALID;
        if (node->is_tip && node->kind != 0)
            nodes[node->before].is_tip = false;
    }
}

static struct cf_corr_event *
sign_model(const struct model_node *node, const struct cf_corr_event *before, unsigned at)
{
    static const char *const paths[][2] = {{"a", "b"}, {"b", "a"}, {"a", "c"}, {"c", "a"}};
    static const char *const kinds[] = {"claim.open", "claim.renew", "claim.release"};
    struct cf_corr_author author = make_author(node->identity);
    char body[400], expires[64] = "", time[CF_CORR_TIME_SIZE], predecessor[120] = "";

    author.session_seq = at;
    author.repository_id = node->repository ? "q" : "r";
    author.paths = paths[node->paths];
    if (node->kind == 7)
        return sign_ok(&author, "intent", "{\"summary\":\"x\"}", NULL);
    cf_corr_time_format(node->is_future ? NOW + HOUR : NOW - HOUR, time);
    if (node->kind < 2)
        snprintf(expires, sizeof expires, ",\"expires_at\":\"%s\"", time);
    if (before != NULL)
        snprintf(predecessor, sizeof predecessor, ",\"predecessor_event_id\":\"%s\"",
                 id_of(before));
    snprintf(body, sizeof body,
             "{\"claim_id\":\"66666666-6666-4666-8666-%012u\",\"generation\":%u%s%s}",
             node->claim, node->generation, expires, predecessor);
    return sign_ok(&author, kinds[node->kind], body, before == NULL ? NULL : id_of(before));
}

static void
expect_model(const struct cf_corr_store *store, const struct scenario *s,
             const struct model_node *nodes, unsigned round)
{
    for (unsigned i = 0; i < s->count; i++) {
        struct cf_corr_state state;
        unsigned rivals = 0;
        ck_assert(state_of(store, s, i, &state));
        for (unsigned k = 0; k < s->count; k++)
            rivals += nodes[k].is_tip && nodes[k].claim == nodes[i].claim &&
                      nodes[k].repository == nodes[i].repository;
        ck_assert_msg(state.lineage == nodes[i].lineage, "round %u, node %u: %s", round, i,
                      cf_corr_lineage_name(state.lineage));
        ck_assert_msg(state.is_tip == nodes[i].is_tip, "round %u, node %u: tip", round, i);
        ck_assert(state.is_active ==
                  (nodes[i].is_tip && nodes[i].kind < 2 && nodes[i].is_future));
        ck_assert(state.is_conflicted == (nodes[i].is_tip && rivals > 1));
    }
}

START_TEST(random_arrivals_end_as_the_rules_say)
{
    for (unsigned round = 0; round < 120; round++) {
        struct cf_corr_store *store = cf_corr_store_new(PROJECT, NULL, NULL);
        struct model_node nodes[NODES_MAX];
        struct scenario s = {.count = 0};
        unsigned random = round + 1, order[NODES_MAX],
                 count = 2 + draw(&random, NODES_MAX - 2);

        for (unsigned i = 0; i < count; i++) {
            draw_node(nodes, i, &random);
            s.event[i] = sign_model(&nodes[i],
                                    nodes[i].before < 0 ? NULL : s.event[nodes[i].before], i);
            order[i] = i;
            s.count++;
        }
        judge_model(nodes, count);
        for (unsigned i = count - 1; i > 0; i--) {
            unsigned k = draw(&random, i + 1), swap = order[i];
            order[i] = order[k];
            order[k] = swap;
        }
        for (unsigned i = 0; i < count; i++)
            arrive(store, s.event[order[i]]);
        for (unsigned i = 0; cf_corr_store_is_incomplete(store); i++) {
            ck_assert_uint_lt(i, 4);
            ck_assert(cf_corr_store_reconcile(store, NOW));
        }
        expect_model(store, &s, nodes, round);
        free_scenario(&s);
        cf_corr_store_free(store);
    }
}
END_TEST

/* One root under which 100 renewals wait: three batches and a bit, the wide family behind
 * nobody. */
START_TEST(a_wide_family_takes_several_batches)
{
    struct cf_corr_store *store = cf_corr_store_new(PROJECT, NULL, NULL);
    struct model_node root = {.generation = 1, .is_future = true, .before = -1};
    struct model_node child = {.kind = 1, .generation = 2, .is_future = true, .before = 0};
    struct cf_corr_event *first = sign_model(&root, NULL, 0);
    unsigned reads = 0;

    for (unsigned i = 1; i <= 100; i++) {
        struct cf_corr_event *event = sign_model(&child, first, i);
        arrive(store, event);
        cf_corr_event_free(event);
    }
    ck_assert(!cf_corr_store_is_incomplete(store));
    arrive(store, first);
    while (cf_corr_store_is_incomplete(store)) {
        ck_assert(cf_corr_store_reconcile(store, NOW));
        reads++;
    }
    ck_assert_uint_eq(reads, 3);
    ck_assert(!cf_corr_store_reconcile(store, NOW));
    cf_corr_event_free(first);
    cf_corr_store_free(store);
}
END_TEST

UNIT_MAIN("correspond/lineage", if (cf_corr_init() < 0) return 1;
          tcase_add_test(tc, contract_vectors_in_every_order);
          tcase_add_test(tc, shared_lineage_cases);
          tcase_add_test(tc, random_arrivals_end_as_the_rules_say);
          tcase_add_test(tc, a_wide_family_takes_several_batches);)
