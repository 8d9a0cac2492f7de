/*
 * fuzz_lineage.c: a family of claim events in one arrival order against the same in another,
 * with reads, retries and a save and load in between: whatever comes, the end state is one.
 */
#include "correspond/correspond.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define EVENTS_MAX 48
#define NOW 1784455200000
#define PROJECT "11111111-1111-4111-8111-111111111111"
#define SIGNATURE \
    "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"

static void
must(bool is_so)
{
    if (!is_so)
        abort();
}

static struct cf_corr_event *
parse(const char *format, const char *id, const char *rest)
{
    struct cf_corr_event *event = NULL;
    struct cf_corr_refusal refusal;
    char text[2000];

    (void)snprintf(text, sizeof text, format, id, rest);
    must(cf_corr_event_parse(text, strlen(text), CF_CORR_FULL, &event, &refusal) == 0);
    return event;
}

/* An event with a signature nobody checks here; its id comes from a first parse. */
static struct cf_corr_event *
make_event(const char *rest)
{
    static const char format[] = "{\"event_id\":\"%s\",%s}";
    struct cf_corr_event *draft =
        parse(format,
              "sha256:0000000000000000000000000000000000000000000000000000000000000000", rest);
    struct cf_corr_event *event;
    struct cf_corr_event_view view;

    cf_corr_event_view(draft, &view);
    event = parse(format, view.id, rest);
    cf_corr_event_free(draft);
    return event;
}

/* Three bytes make one event; the predecessor is one made before, or one that nobody has. */
static struct cf_corr_event *
draw_event(const uint8_t *at, struct cf_corr_event **made, unsigned count)
{
    static const char *const paths[] = {"[\"a\",\"b\"]", "[\"b\",\"a\"]", "[\"a\"]",
                                        "[\"a\",\"b\"]"};
    struct cf_corr_event_view before = {
        .id = "sha256:ffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff"};
    unsigned kind = at[0] & 3, generation = 1;
    char rest[1700], body[500], parents[100] = "";

    if (count == 0 && kind != 3)
        kind = 0;
    if (count > 0 && at[1] != 255)
        cf_corr_event_view(made[at[1] % count], &before);
    generation = kind == 0 ? 1 : (unsigned)before.generation + 1 + (at[2] > 250);
    if (kind != 0 && generation < 2)
        generation = 2;
    if (kind == 1 || kind == 2)
        (void)snprintf(parents, sizeof parents, "\"%s\"", before.id);
    if (kind == 3)
        (void)snprintf(body, sizeof body, "{\"summary\":\"x\"}");
    else
        (void)snprintf(body, sizeof body,
                       "{\"claim_id\":\"66666666-6666-4666-8666-66666666666%u\","
                       "\"generation\":%u%s%s%s%s}",
                       at[2] >> 7, generation,
                       kind == 0 ? "" : ",\"predecessor_event_id\":", parents,
                       kind == 2 ? "" : ",\"expires_at\":",
                       kind == 2   ? ""
                       : at[0] & 4 ? "\"2026-07-19T12:00:00.000Z\""
                                   : "\"2026-07-19T08:00:00.000Z\"");
    (void)snprintf(rest, sizeof rest,
                   "\"protocol\":\"agent-correspondence/v0.1\",\"project_id\":\"" PROJECT
                   "\",\"repository_id\":\"r%u\","
                   "\"thread_id\":\"t\",\"sender\":{\"identity_id\":\"22222222-2222-4222-8222-"
                   "22222222222%u\","
                   "\"signing_key_id\":\"33333333-3333-4333-8333-333333333333\",\"device_id\":"
                   "\"44444444-4444-4444-8444-444444444444\","
                   "\"session_id\":\"55555555-5555-4555-8555-555555555555\"},\"kind\":\"%s\","
                   "\"parents\":[%s],\"session_seq\":%u,"
                   "\"issued_at\":\"2026-07-19T10:00:00.000Z\",\"scope\":{\"base_revision\":"
                   "null,\"branch\":null,\"paths\":%s},"
                   "\"body\":%s,\"authority\":{\"automatic_action\":\"never\",\"grants\":[]},"
                   "\"signature\":{\"algorithm\":\"Ed25519\",\"value_b64url\":\"" SIGNATURE
                   "\"}",
                   at[0] >> 7, (at[0] >> 6) & 1,
                   kind == 0   ? "claim.open"
                   : kind == 1 ? "claim.renew"
                   : kind == 2 ? "claim.release"
                               : "intent",
                   parents, count + 1, paths[(at[0] >> 3) & 3], body);
    return make_event(rest);
}

static void
arrive(struct cf_corr_store *store, const struct cf_corr_event *event)
{
    struct cf_corr_receipt receipt;
    struct cf_corr_refusal refusal;

    must(cf_corr_store_append(store, event, NOW, 0, &receipt, &refusal) == 0);
}

static void
settle(struct cf_corr_store *store)
{
    for (unsigned i = 0; cf_corr_store_is_incomplete(store); i++)
        must(i < EVENTS_MAX && cf_corr_store_reconcile(store, NOW));
}

static void
compare(const struct cf_corr_store *a, const struct cf_corr_store *b,
        struct cf_corr_event **made, unsigned count)
{
    for (unsigned i = 0; i < count; i++) {
        struct cf_corr_event_view view;
        struct cf_corr_receipt in_a, in_b;
        struct cf_corr_state one, two;
        cf_corr_event_view(made[i], &view);
        must(cf_corr_store_find(a, view.id, &in_a) && cf_corr_store_find(b, view.id, &in_b));
        must(cf_corr_store_state(a, in_a.received_seq, NOW, &one) &&
             cf_corr_store_state(b, in_b.received_seq, NOW, &two));
        must(one.lineage == two.lineage && one.is_tip == two.is_tip &&
             one.is_active == two.is_active && one.is_conflicted == two.is_conflicted);
    }
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct cf_corr_event *made[EVENTS_MAX];
    struct cf_corr_store *listed, *shuffled;
    const struct cf_corr_query query = {0};
    unsigned count = 0, order[EVENTS_MAX];
    struct cf_error err;
    char *voice;
    size_t len;

    must(cf_corr_init() == 0);
    for (; count < EVENTS_MAX && size >= 4; data += 4, size -= 4) {
        made[count] = draw_event(data, made, count);
        order[count] = data[3]; /* where it arrives */
        count++;
    }
    listed = cf_corr_store_new(PROJECT, NULL, NULL);
    shuffled = cf_corr_store_new(PROJECT, NULL, NULL);
    for (unsigned i = 0; i < count; i++)
        arrive(listed, made[i]);
    for (unsigned turn = 0; turn < 256; turn++) {
        for (unsigned i = 0; i < count; i++) {
            if (order[i] != turn)
                continue;
            arrive(shuffled, made[i]);
            if ((turn & 31) == 7)
                arrive(shuffled, made[i]); /* a retry */
            if ((turn & 31) == 9)
                (void)cf_corr_store_reconcile(shuffled, NOW);
        }
    }
    settle(listed);
    settle(shuffled);
    compare(listed, shuffled, made, count);
    voice = cf_corr_store_voice(shuffled, &query, NOW, &len, &err);
    must(voice != NULL);
    free(voice);
    cf_corr_store_free(listed);
    cf_corr_store_free(shuffled);
    while (count > 0)
        cf_corr_event_free(made[--count]);
    return 0;
}
