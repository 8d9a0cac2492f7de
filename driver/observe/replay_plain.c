/*
 * observe/replay_plain.c: a wire recording without a run around it. What a run would decide (where a
 * turn begins, how it ends) is read off the wire itself.
 */
#include "observe/replay_impl.h"

#include "json/json.h"

#include <string.h>

static void
begin_turn(struct cf_replay *r)
{
    r->turn++;
    r->is_in_turn = true;
    r->has_failed = false;
    cf_normalizer_turn_begin(r->normalizer);
    cf_grammar_turn_begin(r->grammar);
}

static void
end_turn(struct cf_replay *r, const char *stop_reason, json_t *meta, uint64_t frame)
{
    if (!r->is_in_turn)
        return;
    r->is_in_turn = false;
    cf_normalizer_finished(r->normalizer, stop_reason, meta, frame);
    cf_grammar_turn_end(r->grammar);
}

void
cf_plain_initialized(struct cf_replay *r)
{
    json_t *envelope = cf_envelope_acp(false);

    json_decref(r->capability_set);
    r->capability_set = cf_declaration_admit(envelope, &r->declaration);
    json_decref(envelope);
    cf_normalizer_declare(r->normalizer, &r->declaration);
    cf_grammar_declare(r->grammar, &r->declaration);
}

void
cf_plain_session(struct cf_replay *r, uint64_t frame)
{
    if (r->capability_set != NULL)
        cf_normalizer_ready(r->normalizer, r->capability_set, frame);
}

void
cf_plain_sent(struct cf_replay *r, const char *line, size_t len)
{
    json_t *frame = cf_json_parse(line, len, NULL, NULL);
    const char *method = cf_json_str(frame, "method");

    if (method != NULL && strcmp(method, "session/prompt") == 0)
        begin_turn(r);
    json_decref(frame);
}

void
cf_plain_done(struct cf_replay *r, const char *stop_reason, json_t *result, uint64_t frame)
{
    json_t *meta = json_object_get(json_object_get(result, "_meta"), "checkfu.turn");

    end_turn(r, strcmp(stop_reason, "cancelled") == 0 ? "interrupted" : stop_reason, meta, frame);
}

void
cf_plain_failed(struct cf_replay *r, const struct cf_error *err, uint64_t frame)
{
    r->has_failed = true;
    cf_normalizer_failed(r->normalizer, err, false, frame);
    if (r->is_in_turn)
        cf_grammar_turn_end(r->grammar);
    r->is_in_turn = false;
}

int
cf_replay_plain_open(struct cf_replay *r, bool is_acp, bool is_stream_json, struct cf_error *err)
{
    r->is_plain = true;
    r->is_acp = is_acp;
    r->is_stream_json = is_stream_json;
    if (cf_replay_begin(r, NULL, err) < 0)
        return -1;
    if (is_acp)
        return 0;
    r->capability_set = cf_envelope_oneshot(false, is_stream_json, false);
    if (r->capability_set == NULL)
        return cf_error_memory(err);
    cf_normalizer_ready(r->normalizer, r->capability_set, 0);
    return 0;
}

static void
end_process(struct cf_replay *r)
{
    if (r->oneshot == NULL)
        return;
    cf_oneshot_end(r->oneshot);
    if (r->is_in_turn)
        cf_normalizer_flush(r->normalizer, 0);
    end_turn(r, "end_turn", NULL, 0);
}

static int
begin_process(struct cf_replay *r, struct cf_error *err)
{
    end_process(r);
    if (cf_replay_spawn(r, err) < 0)
        return -1;
    begin_turn(r);
    return 0;
}

static int
from_harness(struct cf_replay *r, const char *text, size_t len, struct cf_error *err)
{
    int status;

    if (r->acp == NULL && r->oneshot == NULL && begin_process(r, err) < 0)
        return -1;
    status = r->acp != NULL ? cf_acp_feed(r->acp, text, len) : cf_oneshot_feed(r->oneshot, text, len);
    if (status == 0)
        status = r->acp != NULL ? cf_acp_feed(r->acp, "\n", 1) : cf_oneshot_feed(r->oneshot, "\n", 1);
    return status < 0 ? cf_error_memory(err) : 0;
}

int
cf_replay_plain_line(struct cf_replay *r, const char *line, size_t len, struct cf_error *err)
{
    json_t *record = cf_json_parse(line, len, NULL, err), *said = json_object_get(record, "line");
    const char *dir = cf_json_str(record, "dir"), *text = json_string_value(said);
    size_t text_len = json_string_length(said);
    int status = 0;

    r->records++;
    if (record == NULL)
        return cf_error_wrap(err, "line %llu", (unsigned long long)r->records);
    if (dir == NULL || text == NULL) {
        json_decref(record);
        return cf_error_set(err, CF_ERROR_CONFIG, 0, "line %llu: not {\"t\",\"dir\",\"line\"}",
                            (unsigned long long)r->records);
    }
    r->at_ms = (uint64_t)cf_json_int(record, "t", 0);
    if (strcmp(dir, "a2c") == 0)
        status = from_harness(r, text, text_len, err);
    else if (strcmp(dir, "c2a") == 0 && r->acp == NULL)
        status = begin_process(r, err);
    else if (strcmp(dir, "c2a") == 0 && cf_acp_replay_sent(r->acp, text, text_len) < 0)
        status = cf_error_set(err, CF_ERROR_CONFIG, 0, "line %llu: what was sent is no frame",
                              (unsigned long long)r->records);
    json_decref(record);
    return status;
}

void
cf_replay_plain_end(struct cf_replay *r)
{
    if (r->acp != NULL)
        cf_acp_end(r->acp);
    end_process(r);
}
