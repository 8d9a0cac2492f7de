/*
 * What the run says, on its way to the host: observations get their sequence, time and turn here
 * and are judged by the grammar on the same stack; findings are bounded; frames are shown.
 */
#include "run/hall.h"

#include "base/clock.h"
#include "base/str.h"
#include "json/json.h"

#include <stdlib.h>
#include <string.h>

static void
on_observation(void *user, const struct cf_observation *said)
{
    struct cf_run *run = user;
    struct cf_observation observation = *said;

    observation.size = sizeof observation;
    observation.seq = ++run->seq;
    observation.at_ms = cf_clock_ms() - run->opened_ms;
    observation.turn = run->turn;
    if (said->type == CF_OBSERVATION_FINISHED)
        cf_gateway_claimed_cost(run, said);
    if (cf_grammar_feed(run->grammar, &observation) < 0)
        cf_log(&run->log, CF_LOG_INFO, "grammar", "observation %llu breaks a rule",
               (unsigned long long)observation.seq);
    if (run->host.on_observation != NULL &&
        run->host.on_observation(run->host.user, &observation) == CF_RUN_PAUSE)
        run->is_paused = true;
}

static void
on_finding(void *user, const char *id, uint64_t frame, const char *text)
{
    cf_emit_finding(user, id, frame, text);
}

static void
on_checkpoint(void *user, json_t *checkpoint, uint64_t frame)
{
    struct cf_run *run = user;
    size_t len = 0;
    cf_auto_free char *text = checkpoint != NULL ? cf_json_dump(checkpoint, &len) : NULL;

    cf_keep_state(run, checkpoint);
    if (run->host.on_checkpoint != NULL && (text != NULL || checkpoint == NULL))
        run->host.on_checkpoint(run->host.user, text, len);
}

int
cf_emit_open(struct cf_run *run, struct cf_error *err)
{
    const struct cf_normalizer_options options = {
        .is_acp = run->release.is_acp,
        .on_observation = on_observation,
        .on_finding = on_finding,
        .on_checkpoint = on_checkpoint,
        .user = run,
    };

    run->normalizer = cf_normalizer_new(&options);
    run->grammar = cf_grammar_new(run->release.is_acp);
    run->findings = json_array();
    if (run->normalizer == NULL || run->grammar == NULL || run->findings == NULL)
        return cf_error_memory(err);
    return 0;
}

void
cf_emit_finding(struct cf_run *run, const char *id, uint64_t frame, const char *text)
{
    json_t *finding = json_pack("{s:s, s:I, s:s}", "id", id, "frame", (json_int_t)frame, "text", text);
    cf_auto_free char *bytes = NULL;
    size_t len = 0;

    if (finding == NULL) /* text that is not UTF-8: say so rather than lose it */
        finding = json_pack("{s:s, s:I, s:s}", "id", id, "frame", (json_int_t)frame, "text", "(unprintable)");
    if (json_array_size(run->findings) >= CF_HALL_FINDINGS_MOST) {
        run->findings_dropped++;
        json_decref(finding);
        return;
    }
    bytes = cf_json_dump(finding, &len);
    if (bytes != NULL)
        cf_record_put(run, CF_RECORD_FINDING, bytes, len);
    (void)json_array_append_new(run->findings, finding);
    if (bytes != NULL && run->host.on_finding != NULL)
        run->host.on_finding(run->host.user, bytes, len);
}

char *
cf_emit_without_token(const struct cf_run *run, const char *line, size_t len)
{
    const char *token = run->relay != NULL ? cf_relay_token(run->relay) : "";
    size_t size = strlen(token);
    const char *at = size > 0 ? memmem(line, len, token, size) : NULL;
    char *copy = at != NULL ? malloc(len) : NULL;

    if (copy == NULL)
        return NULL;
    memcpy(copy, line, len);
    for (char *here = copy + (at - line); here != NULL;
         here = memmem(here, len - (size_t)(here - copy), token, size))
        memset(here, '*', size);
    return copy;
}

void
cf_emit_frame(struct cf_run *run, bool from_harness, uint64_t number, const char *line, size_t len)
{
    cf_auto_free char *copy = NULL;

    if (run->host.on_frame == NULL)
        return;
    while (len > 0 && (line[len - 1] == '\n' || line[len - 1] == '\r'))
        len--;
    copy = cf_emit_without_token(run, line, len);
    run->host.on_frame(run->host.user, from_harness, number, cf_clock_ms() - run->opened_ms,
                       copy != NULL ? copy : line, len);
}

/* Start-up and engine trouble may go away by itself; what the harness did wrong does not. */
static bool
is_retryable(enum cf_error_kind kind)
{
    switch (kind) {
    case CF_ERROR_START:
    case CF_ERROR_START_TIMEOUT:
    case CF_ERROR_IMAGE:
    case CF_ERROR_ENGINE:
    case CF_ERROR_ENGINE_TIMEOUT:
    case CF_ERROR_NOT_FOUND:
        return true;
    default:
        return false;
    }
}

void
cf_emit_failure(struct cf_run *run, const struct cf_error *err, uint64_t frame)
{
    if (run->normalizer == NULL)
        return;
    cf_record_failed(run, err, is_retryable(err->kind), frame);
    cf_normalizer_failed(run->normalizer, err, is_retryable(err->kind), frame);
}
