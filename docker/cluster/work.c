/*
 * The worker: asks the coordinator for items and runs each in a sandbox of its own engine, through
 * the library's public pool. It runs an item only as long as its lease is good: one that the
 * coordinator took back, or that could not be renewed in time, is ended and never reported, so that
 * what the list says of it stays true.
 */
#include "cluster.h"

#include <cfrunner/pool.h>

#include "base/buf.h"
#include "base/clock.h"
#include "json/json.h"
#include "loop/http_client.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <uv.h>

enum { AGAIN_MS = 500, CALL_MS = 10000, ALONE_MS = 60000, GRACE_MS = 5000, ANSWER_MOST = 1 << 20 };

/* A question to the coordinator, one at a time each. */
struct ask {
    struct worker *boss;
    struct slot *slot; /* NULL: the worker's own, for the next item */
    struct cf_http_call *call;
    struct cf_buf answer, body;
    void (*done)(struct ask *ask, int status); /* 0: no answer came */
};

struct slot {
    struct worker *boss;
    struct cf_run *run; /* NULL: free, or its result is still to be told */
    uv_timer_t timer;   /* renews the lease; tells the result again */
    struct ask renewal, report;
    char lease[64];
    char *prompt, *result;
    uint64_t lease_ms, good_until_ms;
    bool is_used, is_ok, is_stale;
};

struct worker {
    uv_loop_t loop;
    uv_timer_t timer;
    uv_signal_t signals[2];
    struct cf_pool *pool;
    struct cf_http_client *http;
    struct ask next;
    struct slot *slots;
    unsigned slot_count, at_once;
    const struct work_options *how;
    uint64_t heard_ms, memory, memory_each;
    char authorization[512];
    bool is_ready, is_told, is_alone, is_stopped, has_failed, is_proven, is_closing;
};

static void seek(struct worker *boss);

/* ---- questions ------------------------------------------------------------------------- */

static int
on_answer_body(void *user, const char *bytes, size_t len)
{
    struct ask *ask = user;

    return ask->answer.len + len <= ANSWER_MOST ? cf_buf_add(&ask->answer, bytes, len) : -1;
}

static void
on_answered(void *user, const struct cf_http_result *result)
{
    struct ask *ask = user;
    int status = result->fault == CF_HTTP_OK ? result->http_status : 0;

    ask->call = NULL;
    if (status > 0)
        ask->boss->heard_ms = cf_clock_ms();
    if (status == 401)
        fprintf(stderr, "cfrunner-pool: the coordinator does not take this secret\n");
    ask->done(ask, status);
}

static void
ask_for(struct ask *ask, const char *path)
{
    static const struct cf_http_events events = {.on_body = on_answer_body, .done = on_answered};
    struct worker *boss = ask->boss;
    const char *headers[] = {boss->authorization, "Content-Type: application/json", NULL};
    struct cf_buf url = {0};
    struct cf_error err = {0};
    struct cf_http_request_options options = {.method = "POST",
                                              .headers = headers,
                                              .body = ask->body.data,
                                              .body_len = ask->body.len,
                                              .deadline_ms = CALL_MS};

    if (ask->call != NULL)
        return;
    cf_buf_reset(&ask->answer);
    (void)cf_buf_adds(&url, boss->how->url);
    if (cf_buf_adds(&url, path) == 0) {
        options.url = url.data;
        if (cf_http_call_start(boss->http, &options, &events, ask, &ask->call, &err) < 0)
            fprintf(stderr, "cfrunner-pool: %s\n", err.text); /* the timers ask again */
    }
    cf_buf_release(&url);
}

/* ---- the end of a slot, and of all ------------------------------------------------------- */

static void
close_timer(uv_timer_t *timer)
{
    if (!uv_is_closing((uv_handle_t *)timer))
        uv_close((uv_handle_t *)timer, NULL);
}

static void
on_http_closed(void *user)
{
    /* it was the last that held the loop */
}

static bool
is_busy(const struct worker *boss)
{
    for (unsigned i = 0; i < boss->slot_count; i++)
        if (boss->slots[i].is_used)
            return true;
    return false;
}

static void
finish_when_idle(struct worker *boss)
{
    if (boss->is_closing || is_busy(boss) ||
        !(boss->is_told || boss->is_alone || boss->is_stopped || boss->has_failed))
        return;
    boss->is_closing = true;
    cf_pool_close(boss->pool, GRACE_MS);
}

static void
free_slot(struct slot *slot)
{
    uv_timer_stop(&slot->timer);
    free(slot->prompt);
    free(slot->result);
    slot->prompt = slot->result = NULL;
    slot->is_used = false;
    finish_when_idle(slot->boss);
    seek(slot->boss);
}

/* ---- a lease --------------------------------------------------------------------------- */

static void
end_stale(struct slot *slot)
{
    if (slot->is_stale)
        return;
    slot->is_stale = true;
    fprintf(stderr, "cfrunner-pool: a lease is over; its run is ended and not reported\n");
    if (slot->run != NULL)
        cf_run_close(slot->run, 0, NULL);
}

static void
on_reported(struct ask *ask, int status)
{
    struct slot *slot = ask->slot;

    if (status == 204 || status == 410 || status == 400 || slot->is_stale)
        free_slot(slot);
    /* else: again, as long as the lease is good */
}

static void
report(struct slot *slot)
{
    struct ask *ask = &slot->report;

    if (ask->call != NULL)
        return;
    cf_buf_reset(&ask->body);
    (void)cf_buf_addf(&ask->body, "{\"lease\":\"%s\",\"status\":\"%s\",\"result\":%s}", slot->lease,
                      slot->is_ok ? "done" : "failed",
                      slot->result != NULL ? slot->result : "null");
    ask_for(ask, "/result");
}

static void
on_renewed(struct ask *ask, int status)
{
    struct slot *slot = ask->slot;

    if (!slot->is_used || strstr(ask->body.data, slot->lease) == NULL)
        return; /* it was asked for an item that is over */
    if (status == 204)
        slot->good_until_ms = cf_clock_ms() + slot->lease_ms;
    else if (status == 410)
        end_stale(slot);
}

static void
on_lease_time(uv_timer_t *timer)
{
    struct slot *slot = timer->data;

    if (cf_clock_ms() >= slot->good_until_ms)
        end_stale(slot);
    if (slot->run != NULL && !slot->is_stale) {
        if (slot->renewal.call != NULL)
            return;
        cf_buf_reset(&slot->renewal.body);
        (void)cf_buf_addf(&slot->renewal.body, "{\"lease\":\"%s\"}", slot->lease);
        ask_for(&slot->renewal, "/renew");
    } else if (slot->run == NULL && slot->is_stale && slot->report.call == NULL) {
        free_slot(slot);
    } else if (slot->run == NULL) {
        report(slot);
    }
}

/* ---- a run ----------------------------------------------------------------------------- */

static void
on_ready(void *user)
{
    struct slot *slot = user;
    struct cf_error err = {0};

    if (cf_run_prompt(slot->run, slot->prompt, strlen(slot->prompt), &err) < 0)
        cf_run_close(slot->run, GRACE_MS, &err);
}

/* Documents of the library's own, with a harness's words in them: a text search would find those. */
static json_t *
read_document(const char *json, size_t len)
{
    static const struct cf_json_limits limits = {.depth = 1024};
    struct cf_error err = {0};
    json_t *document = cf_json_parse(json, len, &limits, &err);

    if (document == NULL)
        fprintf(stderr, "cfrunner-pool: what the library says cannot be read: %s\n", err.text);
    return document;
}

static bool
says(const json_t *document, const char *member, const char *wanted)
{
    const char *text = cf_json_str(document, member);

    return text != NULL && strcmp(text, wanted) == 0;
}

static bool
is_proven(const json_t *teardown)
{
    return cf_json_bool(teardown, "proven", false);
}

static void
on_turn(void *user, uint32_t turn, const char *json, size_t len)
{
    struct slot *slot = user;
    json_t *document = read_document(json, len);

    slot->is_ok = says(document, "outcome", "finished");
    json_decref(document);
    cf_run_close(slot->run, GRACE_MS, NULL);
}

static void
on_result(void *user, const char *json, size_t len)
{
    struct slot *slot = user;
    json_t *document = read_document(json, len);

    slot->is_ok = slot->is_ok && says(document, "status", "ok");
    if (!is_proven(cf_json_obj(document, "teardown")))
        slot->boss->is_proven = false;
    if (says(cf_json_obj(document, "error"), "type", "runtime.runner_unavailable")) {
        /* not the item's fault: its lease runs out, and this worker takes no more */
        fprintf(stderr, "cfrunner-pool: the engine is gone or of no use: %.300s\n", json);
        slot->is_stale = slot->boss->has_failed = true;
    }
    if (len < CLUSTER_BODY_MOST / 2)
        slot->result = strndup(json, len);
    json_decref(document);
    cf_run_close(slot->run, 0, NULL);
}

static void
on_run_closed(void *user)
{
    struct slot *slot = user;

    slot->run = NULL;
    if (slot->is_stale || slot->boss->is_stopped)
        free_slot(slot); /* stopped in the middle is no result: the lease runs out */
    else
        report(slot);
}

static void
begin_run(struct slot *slot)
{
    const struct cf_run_host host = {.size = sizeof host,
                                     .abi_major = CF_ABI_MAJOR,
                                     .abi_minor = CF_ABI_MINOR,
                                     .user = slot,
                                     .on_ready = on_ready,
                                     .on_turn = on_turn,
                                     .on_result = on_result,
                                     .on_closed = on_run_closed};
    struct cf_error err = {0};

    uv_timer_start(&slot->timer, on_lease_time, slot->lease_ms / 3, slot->lease_ms / 3);
    if (cf_pool_run_open(slot->boss->pool, NULL, 0, &host, &slot->run, &err) == 0)
        return;
    fprintf(stderr, "cfrunner-pool: %s\n", err.text);
    slot->run = NULL;
    report(slot);
}

/* ---- the next item --------------------------------------------------------------------- */

static struct slot *
free_place(struct worker *boss)
{
    struct slot *found = NULL;
    unsigned used = 0;

    for (unsigned i = 0; i < boss->slot_count; i++) {
        used += boss->slots[i].is_used;
        if (!boss->slots[i].is_used)
            found = &boss->slots[i];
    }
    /* what a sandbox may use at most is set aside for it */
    return (used + 1) * boss->memory_each <= boss->memory ? found : NULL;
}

static bool
take_lease(struct slot *slot, const struct cf_buf *answer)
{
    struct cf_error err = {0};
    json_t *body = cf_json_parse(answer->data != NULL ? answer->data : "", answer->len, NULL, &err);
    const char *lease = cf_json_str(body, "lease");
    const json_t *prompt = cf_json_obj(body, "prompt");
    int64_t lease_ms = cf_json_int(body, "lease_ms", 0);
    bool is_good = lease != NULL && strlen(lease) < sizeof slot->lease && prompt != NULL &&
                   lease_ms >= 1000;

    if (is_good) {
        slot->is_used = true;
        slot->is_ok = slot->is_stale = false;
        snprintf(slot->lease, sizeof slot->lease, "%s", lease);
        slot->prompt = cf_json_dump(prompt, NULL);
        slot->lease_ms = (uint64_t)lease_ms;
        slot->good_until_ms = cf_clock_ms() + slot->lease_ms;
    }
    json_decref(body);
    return is_good && slot->prompt != NULL;
}

static void
on_leased(struct ask *ask, int status)
{
    struct worker *boss = ask->boss;
    struct slot *slot = free_place(boss);

    if (status == 410)
        boss->is_told = true;
    if (status == 401)
        boss->has_failed = true;
    if (cf_clock_ms() - boss->heard_ms >= ALONE_MS) {
        fprintf(stderr, "cfrunner-pool: the coordinator has not answered for a minute\n");
        boss->is_alone = true;
    }
    finish_when_idle(boss);
    if (status == 200 && slot != NULL && !boss->is_stopped && take_lease(slot, &ask->answer)) {
        begin_run(slot);
        seek(boss);
    }
}

static void
seek(struct worker *boss)
{
    if (!boss->is_ready || boss->is_told || boss->is_alone || boss->is_stopped ||
        boss->has_failed || boss->next.call != NULL || free_place(boss) == NULL)
        return;
    ask_for(&boss->next, "/lease");
}

static void
on_time(uv_timer_t *timer)
{
    seek(timer->data);
}

/* ---- the pool -------------------------------------------------------------------------- */

static void
on_pool_ready(void *user)
{
    struct worker *boss = user;

    boss->is_ready = true;
    seek(boss);
}

static void
on_pool_failed(void *user, const struct cf_error *err)
{
    struct worker *boss = user;

    fprintf(stderr, "cfrunner-pool: %s\n  fix: %s\n", err->text, err->fix);
    boss->has_failed = true;
    finish_when_idle(boss);
}

static void
on_pool_log(void *user, int level, const char *room, const char *line)
{
    if (level <= 1)
        fprintf(stderr, "cfrunner-pool: %s: %s\n", room, line);
}

static void
on_pool_teardown(void *user, const char *json, size_t len)
{
    struct worker *boss = user;
    json_t *document = read_document(json, len);

    if (!is_proven(document))
        boss->is_proven = false;
    json_decref(document);
}

static void
on_pool_closed(void *user)
{
    struct worker *boss = user;

    for (unsigned i = 0; i < boss->slot_count; i++)
        close_timer(&boss->slots[i].timer);
    close_timer(&boss->timer);
    for (int i = 0; i < 2; i++)
        uv_close((uv_handle_t *)&boss->signals[i], NULL);
    cf_http_client_close(boss->http, on_http_closed, boss);
}

static void
on_stop(uv_signal_t *handle, int signum)
{
    struct worker *boss = handle->data;

    boss->is_stopped = true;
    for (unsigned i = 0; i < boss->slot_count; i++)
        if (boss->slots[i].run != NULL)
            cf_run_close(boss->slots[i].run, GRACE_MS / 2, NULL);
    finish_when_idle(boss);
}

/* ---- the whole ------------------------------------------------------------------------- */

static void
set_up(struct worker *boss, const struct work_options *options)
{
    boss->how = options;
    boss->is_proven = true;
    boss->heard_ms = cf_clock_ms();
    boss->slot_count = options->at_once;
    boss->memory = options->memory > 0 ? options->memory : uv_get_free_memory() / 5 * 4;
    snprintf(boss->authorization, sizeof boss->authorization, "Authorization: Bearer %.400s",
             options->token);
    boss->next = (struct ask){.boss = boss, .done = on_leased};
    (void)cf_buf_adds(&boss->next.body, "{\"worker\":");
    (void)cf_json_append_string(&boss->next.body, options->name, strlen(options->name));
    (void)cf_buf_adds(&boss->next.body, "}");
    for (unsigned i = 0; i < boss->slot_count; i++) {
        struct slot *slot = &boss->slots[i];
        slot->boss = boss;
        slot->renewal = (struct ask){.boss = boss, .slot = slot, .done = on_renewed};
        slot->report = (struct ask){.boss = boss, .slot = slot, .done = on_reported};
        (void)uv_timer_init(&boss->loop, &slot->timer);
        slot->timer.data = slot;
    }
    for (int i = 0; i < 2; i++) {
        (void)uv_signal_init(&boss->loop, &boss->signals[i]);
        boss->signals[i].data = boss;
        (void)uv_signal_start(&boss->signals[i], on_stop, i == 0 ? SIGINT : SIGTERM);
    }
    (void)uv_timer_init(&boss->loop, &boss->timer);
    boss->timer.data = boss;
    (void)uv_timer_start(&boss->timer, on_time, AGAIN_MS, AGAIN_MS);
}

static uint64_t
memory_limit_of(const char *options)
{
    struct cf_error err = {0};
    json_t *value = cf_json_parse(options, strlen(options), NULL, &err);
    int64_t bytes = cf_json_int(cf_json_obj(value, "limits"), "memory_bytes", 2ll << 30);

    json_decref(value);
    return (uint64_t)bytes;
}

static void
release(struct worker *boss)
{
    for (unsigned i = 0; i < boss->slot_count; i++) {
        struct ask *asks[] = {&boss->slots[i].renewal, &boss->slots[i].report};
        for (int k = 0; k < 2; k++) {
            cf_buf_release(&asks[k]->answer);
            cf_buf_release(&asks[k]->body);
        }
    }
    cf_buf_release(&boss->next.answer);
    cf_buf_release(&boss->next.body);
    free(boss->slots);
}

int
work(const struct work_options *how)
{
    static struct worker boss;
    const struct cf_pool_host host = {.size = sizeof host,
                                      .abi_major = CF_ABI_MAJOR,
                                      .abi_minor = CF_ABI_MINOR,
                                      .user = &boss,
                                      .on_log = on_pool_log,
                                      .on_ready = on_pool_ready,
                                      .on_failed = on_pool_failed,
                                      .on_teardown = on_pool_teardown,
                                      .on_closed = on_pool_closed};
    char *release_json = read_file(how->release), *options_json = read_file(how->options);
    struct cf_error err = {0};
    int code = 2;

    boss.slots = calloc(how->at_once, sizeof *boss.slots);
    if (release_json == NULL || options_json == NULL || boss.slots == NULL ||
        uv_loop_init(&boss.loop) < 0) {
        /* said already */
    } else if (boss.memory_each = memory_limit_of(options_json),
               cf_library_init(&err) < 0 || cf_http_client_open(&boss.loop, &boss.http, &err) < 0 ||
                   cf_pool_open(&boss.loop, release_json, strlen(release_json), options_json,
                                strlen(options_json), &host, &boss.pool, &err) < 0) {
        fprintf(stderr, "cfrunner-pool: %s\n  fix: %s\n", err.text, err.fix);
    } else {
        set_up(&boss, how);
        (void)uv_run(&boss.loop, UV_RUN_DEFAULT);
        code = boss.is_stopped                     ? 130
               : !boss.is_proven                    ? 4
               : boss.has_failed || boss.is_alone   ? 3
                                                    : 0;
    }
    release(&boss);
    free(release_json);
    free(options_json);
    return code;
}
