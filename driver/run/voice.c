/*
 * A run's voice on its loop. Words are signed when they are said and written by the journal's queue;
 * one timer renews the claim, lets out what the rate held back, and bounds the farewell.
 */
#include "run/voice.h"
#include "run/hall.h"
#include "run/voice_impl.h"

#include "base/str.h"
#include "base/utf8.h"
#include "json/json.h"

#include <stdio.h>
#include <string.h>

#define IN_FLIGHT_MOST 32u
#define OVERLAPS_TOLD 16u

static void on_timer(uv_timer_t *timer);
static void say_farewell(struct cf_voice *voice);
static void shut(struct cf_voice *voice);

/* ---- saying ---------------------------------------------------------------------------------- */

/* Told once as a finding; the result has the first and the number of them. */
static void
note_failure(struct cf_voice *voice, const char *what, const struct cf_corr_refusal *refusal,
             const struct cf_error *err)
{
    struct cf_error why = {0};
    char text[900];

    if (refusal != NULL)
        (void)cf_corr_refusal_error(refusal, &why);
    else
        why = *err;
    (void)cf_error_wrap(&why, "journal: %s was not written", what);
    if (voice->failed_count++ > 0)
        return;
    voice->first_failure = why;
    (void)snprintf(text, sizeof text, "%s", why.text);
    cf_emit_finding(voice->run, "journal", 0, text);
}

/* What each answer of the queue begins with. */
static void
count_answer(struct cf_voice *voice, const char *what, int status, const struct cf_corr_refusal *refusal,
             const struct cf_error *err)
{
    voice->in_flight--;
    if (status == 0)
        voice->written_count++;
    else
        note_failure(voice, what, refusal, err);
}

/* ... and ends with: the last one out of an ending voice moves it on. */
static void
go_on(struct cf_voice *voice)
{
    if (voice->in_flight > 0)
        return;
    if (voice->state == CF_VOICE_ENDING)
        say_farewell(voice);
    else if (voice->state == CF_VOICE_FAREWELL)
        shut(voice);
}

/* Takes the event of a signing that returned `status`. */
static int
say(struct cf_voice *voice, const char *what, int status, struct cf_corr_event *event,
    const struct cf_corr_refusal *refusal, cf_journal_done_fn *done)
{
    struct cf_error why;

    if (status < 0) {
        note_failure(voice, what, refusal, NULL);
        return -1;
    }
    if (cf_journal_queue_append(voice->queue, event, cf_voice_now_ms(), done, voice, &why) < 0) {
        note_failure(voice, what, NULL, &why);
        return -1;
    }
    voice->in_flight++;
    return 0;
}

/* ---- the claim: opening ------------------------------------------------------------------------- */

static void
tell_done(struct cf_voice *voice, int status, const struct cf_error *err)
{
    cf_voice_done_fn *done = voice->done;

    voice->done = NULL;
    if (done != NULL)
        done(voice->run, status, err);
}

static void
on_overlap(void *user, const struct cf_corr_overlap *overlap)
{
    struct cf_voice *voice = user;
    char until[CF_CORR_TIME_SIZE], text[700];

    cf_corr_time_format(overlap->expires_at_ms, until);
    (void)json_array_append_new(
        voice->overlaps, json_pack("{s:s, s:s, s:s, s:s, s:s, s:s}", "claim_id", overlap->claim_id, "event_id",
                                   overlap->event_id, "identity_id", overlap->identity_id, "thread_id",
                                   overlap->thread_id, "path", overlap->path, "expires_at", until));
    if (json_array_size(voice->overlaps) > OVERLAPS_TOLD)
        return; /* the result names them all */
    (void)snprintf(text, sizeof text, "live claim %s of identity %s in thread %.120s overlaps on %.256s until %s",
                   overlap->claim_id, overlap->identity_id, overlap->thread_id, overlap->path, until);
    cf_utf8_make_line(text);
    cf_emit_finding(voice->run, "claim_overlap", 0, text);
}

static void
warn_of_others(struct cf_voice *voice)
{
    if (voice->is_identity_exposed)
        cf_emit_finding(voice->run, "identity_exposed", 0, "the identity file can be read by others: chmod 600");
    (void)cf_corr_store_overlaps(cf_journal_store(voice->journal), voice->author.repository_id, voice->author.paths,
                                 voice->author.path_count, voice->claim.claim_id, cf_voice_now_ms(), on_overlap, voice);
}

static void
on_opened(void *user, int status, const struct cf_corr_receipt *receipt, const struct cf_corr_refusal *refusal,
          const struct cf_error *err)
{
    struct cf_voice *voice = user;
    struct cf_error why = {0};

    count_answer(voice, "claim.open", status, refusal, err);
    if (status == 0)
        voice->written = voice->claim;
    if (voice->state != CF_VOICE_OPENING) {
        go_on(voice);
    } else if (status == 0) {
        uv_timer_start(&voice->timer, on_timer, 0, 0); /* the journal is read when its queue rests */
    } else {
        voice->state = CF_VOICE_SILENT;
        why = voice->first_failure;
        if (why.fix[0] == '\0')
            (void)cf_error_fix(&why, "see that the journal's disk has room and nobody holds its lock, or run without it");
        tell_done(voice, -1, &why);
    }
}

int
cf_voice_open(struct cf_run *run, cf_voice_done_fn *done, struct cf_error *err)
{
    struct cf_voice *voice = run->voice;
    struct cf_corr_event *event = NULL;
    struct cf_corr_refusal refusal;
    int64_t now_ms = cf_voice_now_ms();
    int status;

    if (cf_journal_queue_open(voice->journal, run->loop, &voice->queue, err) < 0)
        return -1;
    (void)uv_timer_init(run->loop, &voice->timer); /* cannot fail */
    voice->timer.data = voice;
    voice->state = CF_VOICE_OPENING;
    status = cf_corr_claim_open(&voice->claim, now_ms, now_ms + (int64_t)run->options.claim_ms, &event, &refusal);
    if (say(voice, "claim.open", status, event, &refusal, on_opened) < 0) {
        voice->state = CF_VOICE_SILENT;
        *err = voice->first_failure;
        return -1;
    }
    voice->done = done;
    return 0;
}

void
cf_voice_give_up(struct cf_run *run)
{
    struct cf_voice *voice = run->voice;
    struct cf_error why;

    if (voice == NULL || voice->state != CF_VOICE_OPENING)
        return;
    voice->state = CF_VOICE_SILENT;
    (void)cf_error_set(&why, CF_ERROR_CANCELED, 0, "the claim's opening was not awaited");
    tell_done(voice, -1, &why);
}

/* ---- while the run lives ------------------------------------------------------------------------ */

static void
on_renewed(void *user, int status, const struct cf_corr_receipt *receipt, const struct cf_corr_refusal *refusal,
           const struct cf_error *err)
{
    struct cf_voice *voice = user;

    count_answer(voice, "claim.renew", status, refusal, err);
    voice->is_renewing = false;
    if (status == 0)
        voice->written = voice->claim;
    else
        voice->claim = voice->written; /* the next one continues what is in the journal */
    go_on(voice);
}

static void
renew(struct cf_voice *voice)
{
    struct cf_corr_event *event = NULL;
    struct cf_corr_refusal refusal;
    int64_t now_ms = cf_voice_now_ms();
    int status;

    if (voice->is_renewing)
        return;
    status = cf_corr_claim_renew(&voice->claim, now_ms, now_ms + (int64_t)voice->run->options.claim_ms, &event, &refusal);
    voice->is_renewing = say(voice, "claim.renew", status, event, &refusal, on_renewed) == 0;
    if (!voice->is_renewing)
        voice->claim = voice->written;
}

static void
on_said(void *user, int status, const struct cf_corr_receipt *receipt, const struct cf_corr_refusal *refusal,
        const struct cf_error *err)
{
    count_answer(user, "progress", status, refusal, err);
    go_on(user);
}

static void
say_progress(struct cf_voice *voice, const char *text)
{
    struct cf_corr_event *event = NULL;
    struct cf_corr_refusal refusal;
    int status = cf_corr_claim_progress(&voice->written, cf_voice_now_ms(), text, &event, &refusal);

    (void)say(voice, "progress", status, event, &refusal, on_said);
}

/* The timer goes off when the claim is to be renewed, or when held-back progress may go out. */
static void
arm(struct cf_voice *voice)
{
    uint64_t now = uv_now(voice->run->loop), at = voice->renew_at_ms;

    if (voice->pending[0] != '\0' && cf_rate_next_ms(&voice->rate, now) < at)
        at = cf_rate_next_ms(&voice->rate, now);
    uv_timer_start(&voice->timer, on_timer, at > now ? at - now : 1, 0);
}

static void __attribute__((format(printf, 2, 3)))
progress(struct cf_voice *voice, const char *fmt, ...)
{
    va_list args;

    va_start(args, fmt);
    (void)vsnprintf(voice->pending, sizeof voice->pending, fmt, args);
    va_end(args);
    if (voice->in_flight < IN_FLIGHT_MOST && cf_rate_take(&voice->rate, uv_now(voice->run->loop))) {
        say_progress(voice, voice->pending);
        voice->pending[0] = '\0';
    }
    arm(voice);
}

static void
tick(struct cf_voice *voice)
{
    uint64_t now = uv_now(voice->run->loop);

    if (now >= voice->renew_at_ms) {
        voice->renew_at_ms = now + voice->run->options.claim_ms / 3;
        renew(voice);
    }
    if (voice->pending[0] != '\0' && voice->in_flight < IN_FLIGHT_MOST && cf_rate_take(&voice->rate, now)) {
        say_progress(voice, voice->pending);
        voice->pending[0] = '\0';
    }
    arm(voice);
}

static void
begin_to_live(struct cf_voice *voice)
{
    struct cf_run *run = voice->run;

    voice->state = CF_VOICE_LIVE;
    voice->renew_at_ms = uv_now(run->loop) + run->options.claim_ms / 3;
    progress(voice, "%s: begins, %s", run->id, run->release.is_acp ? CF_DRIVER_ACP : CF_DRIVER_ONESHOT);
    warn_of_others(voice);
    tell_done(voice, 0, NULL);
}

void
cf_voice_phase(struct cf_run *run, const char *name, const char *step, uint64_t took_ms)
{
    struct cf_voice *voice = run->voice;

    if (voice == NULL || voice->state != CF_VOICE_LIVE || *step != '\0')
        return;
    if (took_ms == UINT64_MAX && strcmp(name, "turn") == 0)
        progress(voice, "%s: turn %u", run->id, run->turn);
    else if (took_ms == UINT64_MAX && strcmp(name, "engine") != 0 && strcmp(name, "relay") != 0) /* of no news */
        progress(voice, "%s: %s", run->id, name);
    else if (strcmp(name, "image") == 0 && run->image_facts != NULL)
        progress(voice, "%s: image %.80s%s", run->id,
                 run->image_facts->digest != NULL ? run->image_facts->digest : run->image_facts->id,
                 run->image_facts->was_built ? ", built for it" : "");
}

void
cf_voice_turn(struct cf_run *run, const char *outcome)
{
    struct cf_voice *voice = run->voice;

    if (voice != NULL && voice->state == CF_VOICE_LIVE)
        progress(voice, "%s: turn %u %s", run->id, run->turn, outcome);
}

/* ---- what was collected -------------------------------------------------------------------------- */

void
cf_voice_file_begin(struct cf_run *run, const char *purpose)
{
    if (run->voice != NULL && strcmp(purpose, "collect") == 0)
        cf_digest_begin(&run->voice->files);
}

void
cf_voice_file_bytes(struct cf_run *run, const char *bytes, size_t len)
{
    if (run->voice != NULL)
        cf_digest_bytes(&run->voice->files, bytes, len);
}

void
cf_voice_file_taken(struct cf_run *run, const char *path)
{
    if (run->voice != NULL)
        cf_digest_keep(&run->voice->files, path);
}

static void
on_offered(void *user, int status, const struct cf_corr_receipt *receipt, const struct cf_corr_refusal *refusal,
           const struct cf_error *err)
{
    struct cf_voice *voice = user;

    count_answer(voice, "artifact.offer", status, refusal, err);
    voice->offers_written += status == 0;
    go_on(voice);
}

static int
offer(struct cf_voice *voice, const unsigned char sha256[32], const char *summary)
{
    struct cf_corr_event *event = NULL;
    struct cf_corr_refusal refusal;
    int status = cf_corr_claim_offer(&voice->written, cf_voice_now_ms(), sha256, NULL, summary, &event, &refusal);

    return say(voice, "artifact.offer", status, event, &refusal, on_offered);
}

/* The first files each by itself, then all of them as one list. */
static void
offer_files(struct cf_voice *voice)
{
    struct cf_digest_list *files = &voice->files;
    unsigned char list_sha256[32];
    char text[200];

    if (files->count == 0)
        return;
    cf_digest_seal(files, list_sha256);
    for (size_t i = 0; i < files->count && i < CF_VOICE_OFFERS_MOST; i++) {
        (void)snprintf(text, sizeof text, "%s: collected file %zu of %zu in path order, %llu bytes", voice->run->id, i + 1,
                       files->count, (unsigned long long)files->files[i].bytes);
        (void)offer(voice, files->files[i].sha256, text);
    }
    if (files->has_no_memory)
        return; /* a list with holes is not the list */
    (void)snprintf(text, sizeof text, "%s: the list of all %zu collected files, as sha256sum -z prints them in path order",
                   voice->run->id, files->count);
    voice->is_list_offered = offer(voice, list_sha256, text) == 0;
}

static void
on_recording_offered(void *user, int status, const struct cf_corr_receipt *receipt, const struct cf_corr_refusal *refusal,
                     const struct cf_error *err)
{
    struct cf_voice *voice = user;

    count_answer(voice, "artifact.offer", status, refusal, err);
    voice->is_recording_offered = status == 0;
    go_on(voice);
}

/* It was sealed before these last words, so its digest is that of the whole file. */
static void
offer_recording(struct cf_voice *voice)
{
    struct cf_corr_event *event = NULL;
    struct cf_corr_refusal refusal;
    unsigned char sha256[32];
    uint64_t bytes;
    char text[200];
    int status;

    if (!cf_record_digest(voice->run, sha256, &bytes))
        return;
    (void)snprintf(text, sizeof text, "%s: the recording of the run, %llu bytes", voice->run->id,
                   (unsigned long long)bytes);
    status = cf_corr_claim_offer(&voice->written, cf_voice_now_ms(), sha256, NULL, text, &event, &refusal);
    (void)say(voice, "artifact.offer", status, event, &refusal, on_recording_offered);
}

/* ---- the end ------------------------------------------------------------------------------------- */

static void
on_released(void *user, int status, const struct cf_corr_receipt *receipt, const struct cf_corr_refusal *refusal,
            const struct cf_error *err)
{
    struct cf_voice *voice = user;

    count_answer(voice, "claim.release", status, refusal, err);
    voice->is_released = status == 0;
    go_on(voice);
}

static void
on_closed_word(void *user, int status, const struct cf_corr_receipt *receipt, const struct cf_corr_refusal *refusal,
               const struct cf_error *err)
{
    struct cf_voice *voice = user;

    count_answer(voice, "close", status, refusal, err);
    voice->is_closed = status == 0;
    go_on(voice);
}

/* Types and numbers; never what an error says, for it quotes the harness. */
static void
put_outcome(const struct cf_voice *voice, char *text, size_t room)
{
    const struct cf_run *run = voice->run;
    enum cf_error_kind kind = run->error.kind != CF_ERROR_NONE ? run->error.kind
                              : run->turn_failed              ? run->turn_error.kind
                                                              : CF_ERROR_NONE;
    bool is_ok = kind == CF_ERROR_NONE;

    (void)snprintf(text, room, "%s: %s%s, %u turn(s), %llu observation(s), %zu file(s) collected, teardown %s", run->id,
                   is_ok ? "ok" : "failed, ", is_ok ? "" : cf_error_type(kind), run->turn,
                   (unsigned long long)run->seq, voice->files.count,
                   run->teardown_proven && json_array_size(run->left) == 0 ? "proven" : "not proven");
}

static void
say_farewell(struct cf_voice *voice)
{
    struct cf_corr_event *event = NULL;
    struct cf_corr_refusal refusal;
    char text[300];
    int status;

    voice->state = CF_VOICE_FAREWELL;
    if (voice->written.generation > 0) {
        put_outcome(voice, text, sizeof text);
        offer_files(voice);
        offer_recording(voice);
        status = cf_corr_claim_release(&voice->claim, cf_voice_now_ms(), text, &event, &refusal);
        (void)say(voice, "claim.release", status, event, &refusal, on_released);
        event = NULL;
        status = cf_corr_claim_close(&voice->claim, cf_voice_now_ms(), text, &event, &refusal);
        (void)say(voice, "close", status, event, &refusal, on_closed_word);
    }
    go_on(voice); /* when nothing could be said */
}

static void
on_timer_closed(uv_handle_t *timer)
{
    struct cf_voice *voice = timer->data;

    voice->state = CF_VOICE_SHUT;
    tell_done(voice, 0, NULL);
}

static void
on_queue_closed(void *user)
{
    struct cf_voice *voice = user;

    voice->queue = NULL;
    cf_journal_close(voice->journal);
    voice->journal = NULL;
    uv_close((uv_handle_t *)&voice->timer, on_timer_closed);
}

static void
shut(struct cf_voice *voice)
{
    voice->state = CF_VOICE_CLOSING;
    uv_timer_stop(&voice->timer);
    cf_journal_queue_close(voice->queue, on_queue_closed, voice);
}

void
cf_voice_close(struct cf_run *run, cf_voice_done_fn *done)
{
    struct cf_voice *voice = run->voice;

    if (voice == NULL || voice->queue == NULL) {
        done(run, 0, NULL);
        return;
    }
    voice->done = done;
    voice->state = CF_VOICE_ENDING;
    uv_timer_start(&voice->timer, on_timer, CF_VOICE_END_MS, 0);
    go_on(voice);
}

void
cf_voice_hurry(struct cf_run *run)
{
    struct cf_voice *voice = run->voice;

    if (voice != NULL && (voice->state == CF_VOICE_ENDING || voice->state == CF_VOICE_FAREWELL))
        uv_timer_start(&voice->timer, on_timer, CF_VOICE_END_MS / 10, 0);
}

static void
on_timer(uv_timer_t *timer)
{
    struct cf_voice *voice = timer->data;

    switch (voice->state) {
    case CF_VOICE_OPENING:
        begin_to_live(voice);
        break;
    case CF_VOICE_LIVE:
        tick(voice);
        break;
    case CF_VOICE_ENDING:
    case CF_VOICE_FAREWELL:
        shut(voice); /* what is still unwritten is answered as canceled */
        break;
    default:
        break;
    }
}

/* ---- for the result ------------------------------------------------------------------------------- */

static json_t *
offered_json(const struct cf_voice *voice)
{
    json_t *list = json_array();
    char digest[CF_CORR_ID_SIZE] = "sha256:";

    for (size_t i = 0; voice->offers_written > 0 && i < voice->files.count && i < CF_VOICE_OFFERS_MOST; i++) {
        const struct cf_digest_file *file = &voice->files.files[i];
        cf_hex(file->sha256, sizeof file->sha256, digest + 7);
        (void)json_array_append_new(list, json_pack("{s:o, s:s, s:I}", "path", cf_path_json(file->path), "digest", digest,
                                                    "bytes", (json_int_t)file->bytes));
    }
    return list;
}

json_t *
cf_voice_json(const struct cf_run *run)
{
    const struct cf_voice *v = run->voice;

    if (v == NULL)
        return json_null();
    return json_pack("{s:s, s:s, s:s, s:s, s:s, s:O, s:s, s:b, s:I, s:I, s:s?, s:O, s:o, s:b, s:b}", "project_id",
                     v->author.project_id, "identity_id", v->author.identity_id, "session_id", v->author.session_id,
                     "repository_id", v->author.repository_id, "thread_id", v->author.thread_id, "paths",
                     run->options.claim_paths, "claim_id", v->claim.claim_id, "complete",
                     v->is_released && v->is_closed && v->failed_count == 0, "written", (json_int_t)v->written_count,
                     "failed", (json_int_t)v->failed_count, "error",
                     v->failed_count > 0 ? v->first_failure.text : NULL, "overlaps", v->overlaps, "offered",
                     offered_json(v), "list_offered", v->is_list_offered, "recording_offered",
                     v->is_recording_offered);
}
