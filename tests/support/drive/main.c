/*
 * drive PLAN.json PROMPT... : one run through the public door, by a host that listens: what it is
 * asked it answers from its environment, and every callback is a line on stdout.
 *
 *   PLAN.json         what `cfrunner test oci --print-plan` printed
 *   DRIVE_PERMISSION  option id for each permission ("" denies)
 *   DRIVE_QUESTION    answer for each question, JSON
 *   DRIVE_STEER       steer document, said DRIVE_STEER_TIMES times (default 1) once a turn runs
 *   DRIVE_INTERRUPT   interrupts the first turn, so many milliseconds after it began
 *   DRIVE_CANCEL      cancels it
 *   DRIVE_BLOCKS      further content blocks of the first prompt
 *   DRIVE_ANSWERS     in the second prompt: "answers" for the question the first one ended with
 *   DRIVE_COLLECT     collect document, asked DRIVE_WHEN: "ready" (the first prompt waits for it),
 *                     "message" (at the first one; the turn is canceled when it has come), "end"
 *                     (after the last turn; the default)
 *   DRIVE_CHECKPOINT  checkpoint document, asked after the last turn
 *   DRIVE_CLOSE       closes the run right after either was asked
 *   DRIVE_BUSY        before that, keeps one thread of libuv's pool busy for so many milliseconds: with
 *                     UV_THREADPOOL_SIZE=1 a disk that is slow
 */
#include <cfrunner/run.h>

#include <jansson.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <uv.h>

struct drive {
    struct cf_run *run;
    uv_timer_t timer, cancel;
    uv_work_t busy;
    char **prompts;
    unsigned turn;
    char question[64];
    bool has_asked;
};

static void
line(const char *what, const char *json, size_t len)
{
    printf("{\"%s\":%.*s}\n", what, json != NULL ? (int)len : 4, json != NULL ? json : "null");
    fflush(stdout);
}

static void
say_error(const char *what, const struct cf_error *err)
{
    json_t *object = json_pack("{s:s, s:s}", "type", cf_error_type(err->kind), "text", err->text);
    char *text = json_dumps(object, JSON_COMPACT);

    line(what, text, strlen(text));
    free(text);
    json_decref(object);
}

/* ---- collect and checkpoint ------------------------------------------------------------ */

static bool
is_when(const char *when)
{
    const char *wanted = getenv("DRIVE_WHEN");

    return getenv("DRIVE_COLLECT") != NULL && strcmp(wanted != NULL ? wanted : "end", when) == 0;
}

static void
try_both(struct drive *d, const char *document)
{
    static const char other[] = "{\"directory\":\"/nonexistent/x\"}";
    struct cf_error err;

    if (cf_run_collect(d->run, document, strlen(document), &err) < 0)
        say_error("second", &err);
    if (cf_run_checkpoint(d->run, other, sizeof other - 1, &err) < 0)
        say_error("second", &err);
}

static void
sleep_in_pool(uv_work_t *work)
{
    uv_sleep((unsigned)atoi(getenv("DRIVE_BUSY")));
}

static void
on_slept(uv_work_t *work, int status)
{
}

/* True: it was asked for, and its callback goes on from there. */
static bool
ask(struct drive *d, const char *name, int (*verb)(struct cf_run *, const char *, size_t, struct cf_error *))
{
    const char *document = getenv(name);
    struct cf_error err;

    if (document == NULL)
        return false;
    if (verb(d->run, document, strlen(document), &err) < 0) {
        say_error("refused", &err);
        return false;
    }
    try_both(d, document);
    if (getenv("DRIVE_BUSY") != NULL)
        uv_queue_work(uv_default_loop(), &d->busy, sleep_in_pool, on_slept);
    if (getenv("DRIVE_CLOSE") != NULL)
        cf_run_close(d->run, 0, NULL);
    return true;
}

/* What stands between the last turn and the end. */
static void
leave(struct drive *d)
{
    if (is_when("end") && !d->has_asked) {
        d->has_asked = true;
        if (ask(d, "DRIVE_COLLECT", cf_run_collect))
            return;
    }
    if (!ask(d, "DRIVE_CHECKPOINT", cf_run_checkpoint))
        cf_run_close(d->run, UINT64_MAX, NULL);
}

static void prompt(struct drive *d);

static void
on_collected(void *user, const char *json, size_t len)
{
    struct drive *d = user;

    line("collected", json, len);
    if (is_when("message"))
        cf_run_cancel(d->run);
    else if (is_when("ready"))
        prompt(d);
    else
        leave(d);
}

static void
on_checkpoint_made(void *user, const char *json, size_t len)
{
    struct drive *d = user;

    line("checkpoint_made", json, len);
    cf_run_close(d->run, UINT64_MAX, NULL);
}

static int
on_observation(void *user, const struct cf_observation *o)
{
    struct drive *d = user;

    line("observation", o->json, o->json_len);
    if (o->type == CF_OBSERVATION_AGENT_MESSAGE && is_when("message") && !d->has_asked) {
        d->has_asked = true;
        (void)ask(d, "DRIVE_COLLECT", cf_run_collect);
    }
    if (o->type == CF_OBSERVATION_REQUIRES_ACTION) {
        json_t *root = json_loadb(o->json, o->json_len, 0, NULL);
        const char *id = json_string_value(
            json_object_get(json_object_get(json_object_get(root, "payload"), "action"), "question"));
        snprintf(d->question, sizeof d->question, "%s", id != NULL ? id : "");
        json_decref(root);
    }
    return CF_RUN_CONTINUE;
}

static void
on_permission(void *user, uint64_t request, const char *json, size_t len)
{
    struct drive *d = user;
    const char *option = getenv("DRIVE_PERMISSION");
    struct cf_error err;

    line("permission", json, len);
    if (cf_run_permission_answer(d->run, request, "never offered", &err) == 0)
        abort();
    say_error("refused", &err);
    if (option != NULL && cf_run_permission_answer(d->run, request, *option != '\0' ? option : NULL, &err) < 0)
        say_error("error", &err);
    if (option != NULL && cf_run_permission_answer(d->run, request, NULL, &err) < 0)
        say_error("second", &err);
}

static void
on_question(void *user, uint64_t request, const char *json, size_t len)
{
    struct drive *d = user;
    const char *answer = getenv("DRIVE_QUESTION");
    struct cf_error err;

    line("question", json, len);
    if (answer != NULL && cf_run_question_answer(d->run, request, answer, strlen(answer), &err) < 0)
        say_error("error", &err);
}

static void
on_request_gone(void *user, uint64_t request)
{
    printf("{\"gone\":%llu}\n", (unsigned long long)request);
}

static void
on_steering(void *user, const char *event_id, const char *disposition)
{
    printf("{\"steering\":[\"%s\",\"%s\"]}\n", event_id, disposition);
}

static void
on_checkpoint(void *user, const char *json, size_t len)
{
    line("checkpoint", json, len);
}

static void
on_time(uv_timer_t *timer)
{
    cf_run_interrupt(((struct drive *)timer->data)->run);
}

static void
on_cancel_time(uv_timer_t *timer)
{
    cf_run_cancel(((struct drive *)timer->data)->run);
}

static void
steer(struct drive *d)
{
    const char *document = getenv("DRIVE_STEER"), *times = getenv("DRIVE_STEER_TIMES");
    char id[40] = "";
    struct cf_error err;

    for (int i = 0; document != NULL && i < (times != NULL ? atoi(times) : 1); i++) {
        if (cf_run_steer(d->run, document, strlen(document), id, &err) < 0)
            say_error("error", &err);
        else
            printf("{\"steered\":\"%s\"}\n", id);
    }
}

static void
prompt(struct drive *d)
{
    const char *answers = getenv("DRIVE_ANSWERS");
    json_t *object = d->prompts[d->turn] != NULL ? json_pack("{s:s}", "text", d->prompts[d->turn]) : NULL;
    struct cf_error err;
    char *text;

    if (object == NULL) {
        leave(d);
        return;
    }
    if (d->turn == 0 && getenv("DRIVE_BLOCKS") != NULL)
        json_object_set_new(object, "blocks", json_loads(getenv("DRIVE_BLOCKS"), 0, NULL));
    if (d->turn++ == 1 && answers != NULL)
        json_object_set_new(object, "answers", json_pack("[{s:s, s:o}]", "question", d->question, "items",
                                                         json_loads(answers, 0, NULL)));
    text = json_dumps(object, JSON_COMPACT);
    json_decref(object);
    if (cf_run_prompt(d->run, text, strlen(text), &err) < 0) {
        say_error("error", &err);
        cf_run_close(d->run, 0, NULL);
    } else if (d->turn == 1) {
        steer(d);
        if (getenv("DRIVE_INTERRUPT") != NULL)
            uv_timer_start(&d->timer, on_time, (uint64_t)atoi(getenv("DRIVE_INTERRUPT")), 0);
        if (getenv("DRIVE_CANCEL") != NULL)
            uv_timer_start(&d->cancel, on_cancel_time, (uint64_t)atoi(getenv("DRIVE_CANCEL")), 0);
    }
    free(text);
}

static void
on_ready(void *user)
{
    struct drive *d = user;
    struct cf_error err;

    if (cf_run_steer(d->run, "{\"content\":\"too early\"}", 23, NULL, &err) < 0)
        say_error("early", &err);
    if (!is_when("ready") || !ask(d, "DRIVE_COLLECT", cf_run_collect))
        prompt(d);
}

static void
on_turn(void *user, uint32_t turn, const char *json, size_t len)
{
    line("turn", json, len);
    prompt(user);
}

static void
on_result(void *user, const char *json, size_t len)
{
    struct drive *d = user;

    line("result", json, len);
    uv_close((uv_handle_t *)&d->timer, NULL);
    uv_close((uv_handle_t *)&d->cancel, NULL);
    cf_run_close(d->run, 0, NULL);
}

int
main(int argc, char **argv)
{
    struct drive d = {.prompts = argv + 2};
    struct cf_run_host host = {.size = sizeof host,
                               .user = &d,
                               .on_observation = on_observation,
                               .on_ready = on_ready,
                               .on_turn = on_turn,
                               .on_result = on_result,
                               .on_permission = on_permission,
                               .on_question = on_question,
                               .on_request_gone = on_request_gone,
                               .on_steering = on_steering,
                               .on_checkpoint = on_checkpoint,
                               .on_collected = on_collected,
                               .on_checkpoint_made = on_checkpoint_made};
    json_t *plan = argc > 2 ? json_load_file(argv[1], 0, NULL) : NULL;
    char *release = json_dumps(json_object_get(plan, "release"), JSON_COMPACT);
    char *options = json_dumps(json_object_get(plan, "options"), JSON_COMPACT);
    struct cf_error err;
    uv_loop_t *loop = uv_default_loop();

    signal(SIGPIPE, SIG_IGN);
    if (release == NULL || options == NULL || cf_library_init(&err) < 0)
        return 2;
    uv_timer_init(loop, &d.timer);
    uv_timer_init(loop, &d.cancel);
    d.timer.data = d.cancel.data = &d;
    if (cf_run_open(loop, release, strlen(release), options, strlen(options), &host, &d.run, &err) < 0) {
        say_error("error", &err);
        return 2;
    }
    uv_run(loop, UV_RUN_DEFAULT);
    free(release);
    free(options);
    json_decref(plan);
    uv_loop_close(loop);
    return 0;
}
