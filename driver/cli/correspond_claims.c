/* `correspond claims`: who claims what, out of a stream of events and nothing else. */
#include "cli/correspond_cmd.h"

#include "base/str.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* --arrival prints every status after every event. */
#define ARRIVAL_EVENTS_MAX 1000u

struct options {
    const char *now, *repository, *thread, *path, *keyring;
    bool arrival;
};

struct reader {
    const struct options *options;
    int64_t now_ms;
    struct cf_corr_keyring *keyring;
    struct cf_corr_store *store; /* made with the first event's project */
    struct cf_buf steps;
    unsigned step_count;
};

static void
put_set(struct cf_buf *to, const struct reader *r, char which)
{
    bool is_first = true;

    for (uint64_t seq = 1; seq <= cf_corr_store_last_seq(r->store); seq++) {
        struct cf_corr_state state;
        if (!cf_corr_store_state(r->store, seq, r->now_ms, &state))
            continue;
        if (which == 's') {
            cf_buf_addf(to, "%s\"%s\":\"%s\"", is_first ? "" : ",", state.event_id,
                        cf_corr_lineage_name(state.lineage));
        } else {
            bool is_in = which == 't'   ? state.is_tip
                         : which == 'a' ? state.is_active
                                        : state.is_conflicted;
            if (!is_in)
                continue;
            cf_buf_addf(to, "%s\"%s\"", is_first ? "" : ",", state.event_id);
        }
        is_first = false;
    }
}

static void
put_step(struct reader *r, const struct cf_corr_event *event,
         const struct cf_corr_receipt *receipt)
{
    struct cf_corr_event_view view;
    struct cf_buf *to = &r->steps;

    cf_corr_event_view(event, &view);
    cf_buf_addf(to, "%s{\"event_id\":\"%s\",\"created\":%s,\"status\":{",
                r->step_count++ == 0 ? "" : ",", view.id, receipt->created ? "true" : "false");
    put_set(to, r, 's');
    cf_buf_adds(to, "},\"tips\":[");
    put_set(to, r, 't');
    cf_buf_adds(to, "],\"active\":[");
    put_set(to, r, 'a');
    cf_buf_adds(to, "],\"conflicted\":[");
    put_set(to, r, 'c');
    cf_buf_addf(to, "],\"incomplete\":%s}",
                cf_corr_store_is_incomplete(r->store) ? "true" : "false");
}

static int
take_event(struct reader *r, const char *line, size_t len, struct cf_corr_refusal *refusal)
{
    struct cf_corr_event *event = NULL;
    struct cf_corr_event_view view;
    struct cf_corr_receipt receipt;
    int status = cf_corr_event_parse(line, len, CF_CORR_FULL, &event, refusal);

    if (status == 0 && r->store == NULL) {
        cf_corr_event_view(event, &view);
        r->store = cf_corr_store_new(view.project_id, NULL, NULL);
    }
    if (status == 0 && r->store == NULL) {
        *refusal = (struct cf_corr_refusal){.reason = "out_of_memory", .offset = -1};
        status = -1;
    }
    if (status == 0 && r->keyring != NULL)
        status = cf_corr_event_verify(event, NULL, r->keyring, refusal);
    if (status == 0)
        status = cf_corr_store_append(r->store, event, r->now_ms, 0, &receipt, refusal);
    if (status == 0 && r->options->arrival)
        put_step(r, event, &receipt);
    cf_corr_event_free(event);
    return status;
}

static bool
is_blank(const char *line, size_t len)
{
    return strspn(line, " \t\r\n") >= len;
}

/* The exit code of having refused a line, or 0. */
static int
take_lines(struct reader *r)
{
    struct cf_corr_refusal refusal;
    char *line = NULL;
    size_t cap = 0;
    long number = 0;
    ssize_t got;
    int code = 0;

    while (code == 0 && (got = getline(&line, &cap, stdin)) >= 0) {
        number++;
        if (is_blank(line, (size_t)got))
            continue;
        if (line[got - 1] == '\n')
            got--;
        if (r->options->arrival && r->step_count == ARRIVAL_EVENTS_MAX)
            code = cf_correspond_usage(
                "cfrunner correspond claims --now TIME [--arrival] < events.ndjson",
                "--arrival shows at most 1000 events");
        else if (take_event(r, line, (size_t)got, &refusal) < 0)
            code = cf_correspond_refused(&refusal, number);
    }
    free(line);
    return code;
}

static int
print_projection(struct reader *r)
{
    const struct cf_corr_query query = {r->options->repository, r->options->thread,
                                        r->options->path};
    struct cf_error err = {0};
    struct cf_buf out;
    char *document;
    size_t len;
    int code;

    if (r->store == NULL)
        r->store = cf_corr_store_new("00000000-0000-0000-0000-000000000000", NULL,
                                     NULL); /* no event, no claim */
    if (r->store == NULL) {
        (void)cf_error_memory(&err);
        return cf_correspond_failed(&err);
    }
    (void)cf_corr_store_reconcile(r->store,
                                  r->now_ms); /* one batch before a read, while one is due */
    document = cf_corr_store_claims(r->store, &query, r->now_ms, &len, &err);
    if (document == NULL)
        return cf_correspond_failed(&err);
    if (!r->options->arrival) {
        code = cf_correspond_print(document, len, true, 0);
        free(document);
        return code;
    }
    cf_buf_init(&out, 0);
    cf_buf_adds(&out, "{\"arrival\":[");
    cf_buf_add(&out, r->steps.data, r->steps.len);
    cf_buf_addf(&out, "],\"projection\":%s}", document);
    code = out.failed || r->steps.failed ? 4 : cf_correspond_print(out.data, out.len, true, 0);
    cf_buf_release(&out);
    free(document);
    return code;
}

int
cf_correspond_claims(int argc, char **argv)
{
    static const char usage[] =
        "cfrunner correspond claims --now TIME [--arrival] < events.ndjson";
    static const struct cf_flag table[] = {
        {"--now", CF_FLAG_TEXT, offsetof(struct options, now), "TIME",
         "2026-07-19T10:00:00.000Z; when it is"},
        {"--arrival", CF_FLAG_SWITCH, offsetof(struct options, arrival), NULL,
         "the status after each event, too"},
        {"--repository", CF_FLAG_TEXT, offsetof(struct options, repository), "ID",
         "of one repository (every one)"},
        {"--thread", CF_FLAG_TEXT, offsetof(struct options, thread), "ID", "of one thread"},
        {"--path", CF_FLAG_TEXT, offsetof(struct options, path), "PATH",
         "that overlap this path"},
        {"--keyring", CF_FLAG_TEXT, offsetof(struct options, keyring), "FILE",
         "verify each event's signature with it"},
    };
    struct options options = {0};
    struct reader r = {.options = &options};
    struct cf_error err = {0};
    int status =
        cf_correspond_flags(usage, table, CF_COUNT(table), argc, argv, &options, NULL);

    if (status != 0)
        return status < 0 ? 2 : 0;
    if (options.now == NULL)
        return cf_correspond_usage(
            usage, "claims needs --now: whether a claim is live depends on it");
    if (options.path != NULL && cf_corr_check_path(options.path, strlen(options.path)) != NULL)
        return cf_correspond_usage(usage, "--path is not a normalized path");
    if (cf_correspond_time(options.now, &r.now_ms) < 0)
        return 2;
    if (options.keyring != NULL) {
        r.keyring = cf_corr_keyring_new();
        if (r.keyring == NULL)
            (void)cf_error_memory(&err);
        if (r.keyring == NULL || cf_correspond_keyring(options.keyring, r.keyring, &err) < 0) {
            cf_corr_keyring_free(r.keyring);
            return cf_correspond_failed(&err);
        }
    }
    cf_buf_init(&r.steps, 0);
    status = take_lines(&r);
    if (status == 0)
        status = print_projection(&r);
    cf_buf_release(&r.steps);
    cf_corr_store_free(r.store);
    cf_corr_keyring_free(r.keyring);
    return status;
}
