/*
 * The hall: one run from open to closed. What is provisioned and torn down is a table (rows.c);
 * what happens between is a turn's business (turn.c) and the lanes'. Verbs leave their wish and kick
 * the loop; on_kick, with nothing of ours on the stack, carries them out.
 */
#include "run/hall.h"
#include "run/mcp.h"
#include "run/restore.h"

#include "base/clock.h"
#include "base/ids.h"
#include "base/str.h"
#include "json/json.h"

#include <curl/curl.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <sodium.h>
#include <stdio.h>
#include <string.h>

int
cf_library_init(struct cf_error *err)
{
    CURLcode code = curl_global_init(CURL_GLOBAL_DEFAULT);

    if (code != CURLE_OK)
        return cf_error_set(err, CF_ERROR_INTERNAL, 0, "curl: %s", curl_easy_strerror(code));
    if (sodium_init() < 0)
        return cf_error_set(err, CF_ERROR_INTERNAL, 0, "libsodium cannot be initialized");
    return 0;
}

uint64_t
cf_hall_left_ms(const struct cf_run *run)
{
    uint64_t used = cf_clock_ms() - run->opened_ms;

    return used >= run->options.whole_ms ? 0 : run->options.whole_ms - used;
}

static void
record_phase(struct cf_run *run, const char *name, const char *step, uint64_t took_ms)
{
    json_t *took = took_ms == UINT64_MAX ? json_null() : json_integer((json_int_t)took_ms);
    json_t *phase = json_pack("{s:s, s:s, s:o}", "name", name, "step", step, "took_ms", took);

    cf_record_json(run, CF_RECORD_PHASE, phase);
    json_decref(phase);
}

void
cf_hall_phase(struct cf_run *run, const char *name, const char *step, uint64_t took_ms)
{
    char key[80];

    if (took_ms != UINT64_MAX) {
        (void)snprintf(key, sizeof key, "%s%s%s", name, *step ? "." : "", step);
        if (strcmp(name, "turn") == 0) /* all turns together */
            took_ms += (uint64_t)cf_json_int(run->timings, key, 0);
        (void)json_object_set_new(run->timings, key, json_integer((json_int_t)took_ms));
    } else {
        (void)snprintf(run->at, sizeof run->at, "%s%s%s", name, *step ? ": " : "", step);
    }
    cf_voice_phase(run, name, step, took_ms);
    record_phase(run, name, step, took_ms);
    if (run->host.on_phase != NULL)
        run->host.on_phase(run->host.user, name, step, took_ms);
}

/* ---- failing ---------------------------------------------------------------- */

static void
tell_failure(struct cf_run *run)
{
    if (run->turn_state != CF_TURN_NONE && run->error.kind == CF_ERROR_CANCELED) {
        run->is_canceled = true;
        (void)snprintf(run->stop_reason, sizeof run->stop_reason, "interrupted");
        cf_turn_settle(run);
    } else if (run->turn_state != CF_TURN_NONE) {
        cf_turn_fail(run, &run->error);
    } else if (!run->failure_told && run->error.kind != CF_ERROR_CANCELED) {
        run->failure_told = true;
        cf_emit_failure(run, &run->error, 0);
    }
}

void
cf_hall_fail(struct cf_run *run, const struct cf_error *err)
{
    if (run->state >= CF_HALL_DOWN)
        return;
    if (run->error.kind == CF_ERROR_NONE)
        run->error = *err;
    run->state = CF_HALL_DOWN;
    tell_failure(run);
    run->back_wanted = true;
    cf_hall_kick(run);
}

/* A row failed by itself (no cf_hall_fail): the failure is still to be told. */
static void
notice_failed_row(struct cf_run *run)
{
    if (run->state != CF_HALL_OPENING || run->steps.dir != CF_STEPS_UP)
        return;
    run->error = run->steps.err;
    run->state = CF_HALL_DOWN;
    tell_failure(run);
}

/* ---- the run's own end ------------------------------------------------------------------ */

static void
free_run(struct cf_run *run)
{
    void (*on_closed)(void *) = run->host.on_closed;
    void *user = run->host.user;
    json_t **values[] = {&run->findings, &run->turns,       &run->timings, &run->removed,  &run->left,
                         &run->isolation, &run->limits,     &run->exit_facts, &run->image_json, &run->ledger,
                         &run->relay_totals, &run->egress_json, &run->capability_set, &run->declared, &run->agent_info, &run->turn_meta,
                         &run->held_action, &run->engine_json, &run->staged, &run->collected, &run->staged_files, &run->session, &run->held_state};

    for (size_t i = 0; i < CF_COUNT(values); i++)
        json_decref(*values[i]);
    cf_prompt_done(&run->prompt);
    cf_prompt_done(&run->next_prompt);
    cf_normalizer_free(run->normalizer);
    cf_grammar_free(run->grammar);
    cf_buf_release(&run->harness.input);
    cf_tail_release(&run->harness.stderr_tail);
    cf_changes_free(run->changes);
    cf_voice_free(run->voice);
    cf_record_free(run->record);
    cf_perturb_free(run);
    cf_release_done(&run->release);
    cf_run_options_done(&run->options);
    free(run->failure_tail);
    if (run->warm != NULL)
        cf_warm_return(run->warm);
    if (run->pool != NULL)
        cf_pool_leave(run->pool);
    free(run);
    if (on_closed != NULL)
        on_closed(user);
}

static void
on_handle_closed(uv_handle_t *handle)
{
    struct cf_run *run = handle->data;

    if (--run->handles_open == 0)
        free_run(run);
}

static void
on_steps_timer_closed(uv_handle_t *handle)
{
    struct cf_steps *steps = handle->data;
    struct cf_run *run = cf_run_of(steps);

    if (--run->handles_open == 0)
        free_run(run);
}

static void
close_handles(struct cf_run *run)
{
    uv_timer_t *timers[] = {&run->kick, &run->whole, &run->phase, &run->settle, &run->idle, &run->ack, &run->linger};

    run->handles_open = CF_COUNT(timers) + 1;
    for (size_t i = 0; i < CF_COUNT(timers); i++)
        uv_close((uv_handle_t *)timers[i], on_handle_closed);
    run->handles_open += cf_perturb_close(run, on_handle_closed);
    cf_steps_close(&run->steps, on_steps_timer_closed);
}

static void
tell_result(struct cf_run *run)
{
    json_t *result = cf_result_make(run);
    cf_auto_free char *text = NULL;
    size_t len = 0;

    text = result != NULL ? cf_json_dump(result, &len) : NULL;
    json_decref(result);
    if (run->host.on_result != NULL)
        run->host.on_result(run->host.user, text != NULL ? text : "{}", text != NULL ? len : 2);
}

static void
run_over(struct cf_run *run)
{
    cf_hall_phase(run, "teardown", "", cf_clock_ms() - run->teardown_began_ms);
    run->state = CF_HALL_OVER;
    uv_timer_stop(&run->whole);
    tell_result(run);
    if (run->close_wanted)
        close_handles(run);
}

static void
on_steps_done(struct cf_steps *steps)
{
    struct cf_run *run = cf_run_of(steps);

    if (steps->dir == CF_STEPS_UP) {
        run_over(run);
        return;
    }
    if (run->state != CF_HALL_OPENING)
        return; /* a failure is on its way back already */
    run->state = CF_HALL_OPEN;
    if (run->host.on_ready != NULL)
        run->host.on_ready(run->host.user);
}

static void
keep_engine_facts(struct cf_run *run)
{
    const struct cf_engine_facts *f = run->engine != NULL ? cf_engine_facts(run->engine) : NULL;

    if (f == NULL || run->engine_json != NULL || f->api_version[0] == '\0')
        return;
    run->engine_json = json_pack("{s:s, s:s, s:s, s:s, s:s, s:s, s:s, s:b}", "endpoint", f->endpoint, "endpoint_source",
                                 f->endpoint_source, "api_version", f->api_version, "version", f->version, "os", f->os,
                                 "arch", f->arch, "storage_driver", f->storage_driver, "podman", f->is_podman);
}

static void
on_row(struct cf_steps *steps, const struct cf_step *row, bool entered)
{
    struct cf_run *run = cf_run_of(steps);

    if (steps->dir == CF_STEPS_UP) {
        notice_failed_row(run);
        if (run->teardown_began_ms == 0 && !cf_rows_are_after(run)) {
            run->teardown_began_ms = cf_clock_ms();
            cf_hall_phase(run, "teardown", "", UINT64_MAX);
        }
        return;
    }
    if (!entered)
        keep_engine_facts(run);
    if (!cf_rows_is_silent(run, row))
        cf_hall_phase(run, row->name, "",
                      entered ? UINT64_MAX : steps->took_ms[steps->at]);
}

/* ---- wishes ------------------------------------------------------------------------------ */

static void
go_back(struct cf_run *run)
{
    run->back_wanted = false;
    cf_keep_give_up(run);
    if (!run->begun)
        run_over(run); /* nothing was begun: nothing to undo */
    else if (run->steps.running && run->steps.dir == CF_STEPS_DOWN)
        cf_steps_cancel(&run->steps, run->error.kind != CF_ERROR_NONE ? &run->error : NULL);
    else if (!run->steps.running && run->state != CF_HALL_OVER)
        cf_steps_back(&run->steps);
}

/* The caller wants the end, in whatever phase that finds us. */
static void
close_now(struct cf_run *run)
{
    if (run->state == CF_HALL_OVER) {
        if (run->handles_open == 0)
            close_handles(run);
    } else if (run->state == CF_HALL_DOWN) {
        cf_rows_hurry(run);
    } else {
        run->state = CF_HALL_DOWN;
        if (run->turn_state != CF_TURN_NONE && run->error.kind == CF_ERROR_NONE)
            (void)cf_error_set(&run->error, CF_ERROR_CANCELED, 0, "closed in the middle of a turn");
        if (run->error.kind != CF_ERROR_NONE)
            tell_failure(run);
        go_back(run);
    }
}

static void
on_kick(uv_timer_t *timer)
{
    struct cf_run *run = timer->data;

    if (run->resume_wanted) {
        run->resume_wanted = false;
        if (run->state == CF_HALL_OPEN)
            run->lane->resume(run);
    }
    if (run->prompt_wanted && run->state == CF_HALL_OPEN && run->turn_state == CF_TURN_NONE) {
        run->prompt_wanted = false;
        cf_turn_begin(run);
    }
    if (run->state == CF_HALL_OPEN)
        cf_keep_begin(run);
    if (run->cancel_wanted) {
        run->cancel_wanted = false;
        if (run->state == CF_HALL_OPEN && run->turn_state == CF_TURN_LISTING)
            run->is_canceled = true; /* nothing has begun yet: turn.c sees it */
        else if (run->state == CF_HALL_OPEN && run->turn_state != CF_TURN_NONE)
            run->lane->cancel(run);
    }
    if (run->interrupt_wanted) {
        run->interrupt_wanted = false;
        if (run->state == CF_HALL_OPEN && run->turn_state != CF_TURN_NONE)
            (run->lane->interrupt != NULL ? run->lane->interrupt : run->lane->cancel)(run);
    }
    if (run->lane->wishes != NULL && run->state == CF_HALL_OPEN)
        run->lane->wishes(run);
    if (run->lane_closing && (run->harness.has_exited || run->harness.process == NULL)) {
        cf_rows_lane_gone(run);
        return;
    }
    if (run->back_wanted) {
        go_back(run);
        return;
    }
    if (run->close_wanted)
        close_now(run);
}

void
cf_hall_kick(struct cf_run *run)
{
    if (run->handles_open == 0)
        uv_timer_start(&run->kick, on_kick, 0, 0);
}

static void
on_whole_deadline(uv_timer_t *timer)
{
    struct cf_run *run = timer->data;
    struct cf_error why;

    /* Before there was a harness, the time went to the engine; only a build is the author's own. */
    run->engine_was_slow = run->harness.started_ms == 0 && strcmp(run->at, "image: build image") != 0;
    (void)cf_error_set(&why, CF_ERROR_DEADLINE, 0, "the whole run did not end within %llu s; it was at %s",
                       (unsigned long long)(run->options.whole_ms + 999) / 1000, run->at);
    (void)cf_error_fix(&why, "raise --timeout, or see in the timings which phase took it");
    cf_hall_fail(run, &why);
}

/* ---- the public door -------------------------------------------------------------------- */

int
cf_hall_check_sigpipe(struct cf_error *err)
{
    struct sigaction action;
    sigset_t mask;

    if (sigaction(SIGPIPE, NULL, &action) == 0 && action.sa_handler != SIG_DFL)
        return 0;
    if (pthread_sigmask(SIG_SETMASK, NULL, &mask) == 0 && sigismember(&mask, SIGPIPE))
        return 0;
    (void)cf_error_set(err, CF_ERROR_CONFIG, 0, "SIGPIPE is at its default in this process: a lost peer would kill it");
    return cf_error_fix(err, "call signal(SIGPIPE, SIG_IGN), or block it, before cf_run_open");
}

static void
host_log(void *user, enum cf_log_level level, const char *room, const char *line)
{
    struct cf_run *run = user;

    if (run->host.on_log != NULL)
        run->host.on_log(run->host.user, (int)level, room, line);
}

static int
open_handles(struct cf_run *run, struct cf_error *err)
{
    uv_timer_t *timers[] = {&run->kick, &run->whole, &run->phase, &run->settle, &run->idle, &run->ack, &run->linger};

    if (cf_perturb_open(run, err) < 0 || cf_steps_init(&run->steps, run->loop, cf_rows, CF_ROW_COUNT, &run->log, err) < 0)
        return -1;
    cf_perturb_begin(run);
    run->steps.on_done = on_steps_done;
    run->steps.on_row = on_row;
    run->steps.took_ms = run->took_ms;
    for (size_t i = 0; i < CF_COUNT(timers); i++) {
        (void)uv_timer_init(run->loop, timers[i]); /* cannot fail */
        timers[i]->data = run;
    }
    return 0;
}

/* A tag can mean another image tomorrow: what was tested must be what is run. */
static int
refuse_tag(const char *image, const struct cf_image_ref *ref, struct cf_error *err)
{
    (void)cf_error_set(err, CF_ERROR_CONFIG, 0, "image %s is not immutable: it has %s, but no @sha256: digest", image,
                       ref->tag[0] != '\0' ? "a tag" : "neither tag");
    return cf_error_fix(err, "resolve it with: docker pull %s && docker inspect --format '{{index .RepoDigests 0}}' %s", image,
                        image);
}

int
cf_hall_check_image(const struct cf_release *release, const struct cf_run_options *options, struct cf_error *err)
{
    struct cf_image_ref ref;

    if (options->build_context != NULL)
        return 0;
    if (cf_image_ref_parse(release->image, &ref, err) < 0)
        return cf_error_wrap(err, "image");
    return ref.digest[0] == '\0' ? refuse_tag(release->image, &ref, err) : 0;
}

/* What only one of the wires can do, or only a host that listens, must not be silently without effect. */
static int
check_lane_options(const struct cf_run *run, struct cf_error *err)
{
    const struct cf_run_options *o = &run->options;
    const char *only_acp = o->session_meta != NULL  ? "session_meta"
                           : o->mcp != NULL         ? "mcp"
                           : o->config != NULL      ? "config"
                           : o->mode != NULL        ? "mode"
                           : o->fs                  ? "fs"
                           : o->terminal            ? "terminal"
                           : o->elicitation != 0    ? "elicitation"
                                                    : NULL;

    if (!run->release.is_acp && only_acp != NULL) {
        (void)cf_error_set(err, CF_ERROR_CONFIG, 0, "options: %s is of acp-v1; this release speaks oneshot-v1", only_acp);
        return cf_error_fix(err, "leave it out");
    }
    if ((o->permission == CF_PERMISSION_ASK && run->host.on_permission == NULL) ||
        (o->elicitation == CF_ELICITATION_ASK && run->host.on_question == NULL))
        return cf_error_set(err, CF_ERROR_CONFIG, 0, "options: %s is \"ask\", but nobody listens for what is asked",
                            o->permission == CF_PERMISSION_ASK ? "permission" : "elicitation");
    if (run->release.is_acp && o->state_in != NULL)
        return cf_error_set(err, CF_ERROR_CONFIG, 0, "options: state_in is of oneshot-v1; an acp-v1 agent's state is "
                                                     "session_meta's checkfu.resume");
    return 0;
}

/* It is opened when the run begins; what is wrong with it is the caller's to know at once, and no run's failure. */
static int
check_state_folder(const struct cf_run *run, struct cf_error *err)
{
    struct cf_owner *owner = NULL;

    if (run->pool == NULL && cf_owner_open(run->options.state_dir, &owner, err) < 0)
        return -1;
    cf_owner_close(owner);
    return 0;
}

static int
prepare(struct cf_run *run, const char *release_json, size_t release_len, const char *options_json,
        size_t options_len, struct cf_error *err)
{
    if (cf_run_options_decode(options_json, options_len, &run->options, err) < 0 ||
        cf_release_decode(release_json, release_len, &run->release, NULL, NULL, err) < 0)
        return -1;
    if (check_lane_options(run, err) < 0 || cf_run_mcp_check(run->options.mcp, err) < 0 ||
        cf_gateway_check(&run->options, err) < 0)
        return -1;
    if (run->options.state_in != NULL && run->release.resume_flag == NULL) {
        (void)cf_error_set(err, CF_ERROR_CONFIG, 0, "a state is given, but this release has no resume flag to continue it");
        return cf_error_fix(err, "state resume_flag in a oneshot-v1 release, or stage the folder as files");
    }
    if (cf_restore_prepare(run, err) < 0)
        return -1;
    if (run->options.has_pool && run->pool == NULL)
        return cf_error_set(err, CF_ERROR_CONFIG, 0, "options: pool is of cf_pool_open; this is a run of its own");
    if (cf_hall_check_image(&run->release, &run->options, err) < 0 || check_state_folder(run, err) < 0)
        return -1;
    run->lane = run->release.is_acp ? &cf_acp_lane : &cf_oneshot_lane;
    run->turns = json_array();
    run->timings = json_object();
    run->removed = json_array();
    run->left = json_array();
    run->teardown_proven = true;
    run->close_grace_ms = run->options.grace_ms;
    if (run->turns == NULL || run->timings == NULL || run->removed == NULL || run->left == NULL)
        return cf_error_memory(err);
    if (cf_emit_open(run, err) < 0 || cf_voice_prepare(run, err) < 0)
        return -1;
    return cf_record_prepare(run, err);
}

static void
on_begin(uv_timer_t *timer)
{
    struct cf_run *run = timer->data;

    if (run->state != CF_HALL_OPENING)
        return; /* closed before it began */
    run->begun = true;
    cf_steps_run(&run->steps);
}

int
cf_hall_open(uv_loop_t *loop, struct cf_pool *pool, const char *release_json, size_t release_len,
             const char *options_json, size_t options_len, const struct cf_run_host *host, struct cf_run **ret_run,
             struct cf_error *err)
{
    struct cf_run *run;

    if (cf_hall_check_sigpipe(err) < 0)
        return -1;
    run = calloc(1, sizeof *run);
    if (run == NULL)
        return cf_error_memory(err);
    run->loop = loop;
    memcpy(&run->host, host, host->size < sizeof run->host ? host->size : sizeof run->host);
    run->log = (struct cf_log){host_log, run, CF_LOG_TRACE};
    run->opened_ms = cf_clock_ms();
    cf_id_make("run_", run->id, sizeof run->id);
    if (pool != NULL) {
        run->pool = pool;
        pool->runs++;
        run->warm = pool->is_ready ? cf_warm_keep(pool, run) : NULL;
        if (run->warm != NULL)
            memcpy(run->id, run->warm->run_id, sizeof run->id);
    }
    if (prepare(run, release_json, release_len, options_json, options_len, err) < 0 || open_handles(run, err) < 0) {
        run->host.on_closed = NULL;
        free_run(run);
        return -1;
    }
    uv_timer_start(&run->whole, on_whole_deadline, run->options.whole_ms, 0);
    uv_timer_start(&run->phase, on_begin, 0, 0); /* nothing is called from inside this call */
    *ret_run = run;
    return 0;
}

int
cf_run_open(struct uv_loop_s *loop, const char *release_json, size_t release_len, const char *options_json,
            size_t options_len, const struct cf_run_host *host, struct cf_run **ret_run, struct cf_error *err)
{
    return cf_hall_open(loop, NULL, release_json, release_len, options_json, options_len, host, ret_run, err);
}

/* A wish that the other wire alone can carry. */
static int
check_prompt(const struct cf_run *run, const struct cf_prompt *prompt, struct cf_error *err)
{
    if (run->release.is_acp && prompt->output_schema != NULL)
        return cf_error_set(err, CF_ERROR_CONFIG, 0, "prompt: output_schema is of oneshot-v1; over acp-v1 it is the "
                                                     "session's, checkfu.output_schema in options.session_meta");
    if (!run->release.is_acp && (prompt->blocks != NULL || prompt->approvals != NULL || prompt->answers != NULL))
        return cf_error_set(err, CF_ERROR_CONFIG, 0, "prompt: blocks, approvals and answers are of acp-v1");
    return 0;
}

int
cf_run_prompt(struct cf_run *run, const char *prompt_json, size_t len, struct cf_error *err)
{
    if (run->state != CF_HALL_OPEN || run->turn_state != CF_TURN_NONE || run->prompt_wanted)
        return cf_error_set(err, CF_ERROR_CONFIG, 0, "no prompt can be taken now: %s",
                            run->state == CF_HALL_OPENING ? "the session is not open yet"
                            : run->state == CF_HALL_OPEN  ? "a turn is in flight"
                                                          : "the run is over");
    if (cf_keep_is_checkpoint(run))
        return cf_error_set(err, CF_ERROR_CONFIG, 0, "no prompt can be taken now: a checkpoint is being made");
    if (cf_prompt_decode(prompt_json, len, &run->next_prompt, err) < 0)
        return -1;
    if (check_prompt(run, &run->next_prompt, err) < 0) {
        cf_prompt_done(&run->next_prompt);
        return -1;
    }
    run->prompt_wanted = true;
    cf_hall_kick(run);
    return 0;
}

void
cf_run_cancel(struct cf_run *run)
{
    if (run->turn_state == CF_TURN_NONE && !run->prompt_wanted)
        return; /* it must not fall upon a later turn */
    run->cancel_wanted = true;
    cf_hall_kick(run);
}

void
cf_run_interrupt(struct cf_run *run)
{
    if (run->turn_state == CF_TURN_NONE && !run->prompt_wanted)
        return;
    run->interrupt_wanted = true;
    cf_hall_kick(run);
}

void
cf_run_resume(struct cf_run *run)
{
    run->is_paused = false;
    run->resume_wanted = true;
    cf_hall_kick(run);
}

void
cf_run_close(struct cf_run *run, uint64_t grace_ms, const struct cf_error *why)
{
    run->close_wanted = true;
    if (why != NULL)
        run->end_wanted = true;
    if (grace_ms < run->close_grace_ms)
        run->close_grace_ms = grace_ms;
    if (run->state < CF_HALL_DOWN && why != NULL && run->error.kind == CF_ERROR_NONE)
        run->error = *why;
    cf_hall_kick(run);
}
