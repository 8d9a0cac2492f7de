/*
 * observe/replay.c: records -> observations. The wire reads the recorded bytes; what it says waits
 * until the recorded call comes that passed it on live, so that whatever lay between (a permission's
 * answer, a file that changed) keeps its place.
 */
#include "observe/replay_impl.h"

#include "base/str.h"
#include "json/json.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* As generous as the wire itself: what it read live is read again. */
static const struct cf_json_limits limits = {CF_RECORDING_JOINED_BYTES, 1024, 0, false, false};

/* ---- what the wire says ----------------------------------------------------------------------- */

static void
free_heard(struct cf_heard *heard)
{
    json_decref(heard->params);
    json_decref(heard->value);
    free(heard->text);
    free(heard);
}

static void
forget_heard(struct cf_replay *r)
{
    while (r->heard != NULL) {
        struct cf_heard *next = r->heard->next;
        free_heard(r->heard);
        r->heard = next;
    }
    r->heard_end = &r->heard;
}

static struct cf_heard *
hear(struct cf_replay *r, enum cf_recorded_call which, uint64_t frame, json_t *params, json_t *value)
{
    struct cf_heard *heard = calloc(1, sizeof *heard);

    if (heard == NULL) {
        r->has_no_memory = true;
        return NULL;
    }
    *heard = (struct cf_heard){.which = which, .frame = frame, .params = json_incref(params), .value = json_incref(value)};
    *r->heard_end = heard;
    r->heard_end = &heard->next;
    return heard;
}

static void
on_initialized(void *user, json_t *result, uint64_t frame)
{
    struct cf_replay *r = user;
    struct cf_error err;

    r->has_declaration = cf_declaration_read(result, &r->declaration, &err) == 0;
    if (r->is_plain && r->has_declaration)
        cf_plain_initialized(r);
    else if (r->is_plain)
        cf_plain_failed(r, &err, frame);
}

static void
on_session(void *user, const char *session_id, json_t *result, uint64_t frame)
{
    struct cf_replay *r = user;

    if (r->is_plain)
        cf_plain_session(r, frame);
}

static void
on_frame(void *user, bool from_agent, uint64_t number, const char *line, size_t len)
{
    struct cf_replay *r = user;

    if (r->on.on_frame != NULL)
        r->on.on_frame(r->on.user, from_agent, number, line, len);
    if (r->is_plain && !from_agent)
        cf_plain_sent(r, line, len);
}

static void
on_update(void *user, json_t *params, json_t *update, uint64_t frame)
{
    struct cf_replay *r = user;

    if (r->is_plain)
        cf_normalizer_update(r->normalizer, params, update, frame);
    else
        (void)hear(r, CF_CALL_UPDATE, frame, params, update);
}

static void
on_permission(void *user, const struct cf_acp_permission *permission)
{
    struct cf_replay *r = user;

    if (r->is_plain)
        cf_normalizer_permission(r->normalizer, permission->tool_call, permission->frame);
    else
        (void)hear(r, CF_CALL_PERMISSION, permission->frame, NULL, permission->tool_call);
}

static bool
on_request(void *user, const struct cf_acp_request *request)
{
    return true; /* answered by what is recorded, or not at all */
}

static void
on_prompt_done(void *user, const char *stop_reason, json_t *result, uint64_t frame)
{
    struct cf_replay *r = user;

    if (r->is_plain)
        cf_plain_done(r, stop_reason, result, frame);
}

static void
on_call_failed(void *user, const char *method, json_t *error, uint64_t frame)
{
    struct cf_replay *r = user;
    const char *message = cf_json_str(error, "message");
    struct cf_error err;

    (void)cf_error_set(&err, cf_json_int(error, "code", 0) == -32000 ? CF_ERROR_CREDENTIAL : CF_ERROR_HARNESS, 0,
                       "%s was answered with error %lld: %.400s", method, (long long)cf_json_int(error, "code", 0),
                       message != NULL ? message : "(no message)");
    if (r->is_plain)
        cf_plain_failed(r, &err, frame);
}

static void
on_broken(void *user, const struct cf_error *err)
{
    struct cf_replay *r = user;

    if (r->is_plain)
        cf_plain_failed(r, err, 0);
}

static void
on_text(void *user, const char *text, size_t len, uint64_t line)
{
    struct cf_replay *r = user;
    struct cf_heard *heard;

    if (r->is_plain) {
        cf_normalizer_text(r->normalizer, text, len, line);
        return;
    }
    heard = hear(r, CF_CALL_TEXT, line, NULL, NULL);
    if (heard == NULL)
        return;
    heard->text = malloc(len + 1);
    if (heard->text == NULL) {
        r->has_no_memory = true;
        return;
    }
    memcpy(heard->text, text, len);
    heard->len = len;
}

static void
on_object(void *user, json_t *object, uint64_t line)
{
    struct cf_replay *r = user;
    struct cf_error err;

    if (!r->is_plain)
        (void)hear(r, CF_CALL_OBJECT, line, NULL, object);
    else if (!r->has_failed && cf_normalizer_object(r->normalizer, object, line, &err) < 0)
        cf_plain_failed(r, &err, line);
}

/* ---- what the normalizer says ------------------------------------------------------------------ */

static void
on_observation(void *user, const struct cf_observation *said)
{
    struct cf_replay *r = user;
    struct cf_observation observation = *said;

    observation.size = sizeof observation;
    observation.seq = ++r->seq;
    observation.at_ms = r->at_ms;
    observation.turn = r->turn;
    (void)cf_grammar_feed(r->grammar, &observation); /* the verdict is asked for at the end */
    if (r->on.on_observation != NULL)
        r->on.on_observation(r->on.user, &observation);
}

int
cf_replay_spawn(struct cf_replay *r, struct cf_error *err)
{
    static const struct cf_oneshot_events events = {.on_text = on_text, .on_object = on_object, .on_broken = on_broken};

    cf_oneshot_free(r->oneshot);
    r->oneshot = cf_oneshot_new(r->is_stream_json ? CF_ONESHOT_STREAM_JSON : CF_ONESHOT_TEXT, &events, r);
    return r->oneshot != NULL ? 0 : cf_error_memory(err);
}

int
cf_replay_begin(struct cf_replay *r, const uint8_t *seed, struct cf_error *err)
{
    static const struct cf_acp_events events = {
        .on_frame = on_frame, .on_initialized = on_initialized, .on_session = on_session, .on_update = on_update,
        .on_permission = on_permission, .on_request = on_request, .on_prompt_done = on_prompt_done,
        .on_call_failed = on_call_failed, .on_broken = on_broken};
    const struct cf_acp_options acp = {.is_replay = true};
    struct cf_normalizer_options options = {.is_acp = r->is_acp, .on_observation = on_observation, .user = r};

    if (seed != NULL)
        memcpy(options.seed, seed, sizeof options.seed);
    r->normalizer = cf_normalizer_new(&options);
    r->grammar = cf_grammar_new(r->is_acp);
    if (r->is_acp)
        r->acp = cf_acp_new(&acp, &events, r);
    if (r->normalizer == NULL || r->grammar == NULL || (r->is_acp && r->acp == NULL))
        return cf_error_memory(err);
    return 0;
}

/* ---- records ----------------------------------------------------------------------------------- */

static int
malformed(const struct cf_replay *r, const char *what, struct cf_error *err)
{
    return cf_error_set(err, CF_ERROR_CONFIG, 0, "record %llu: %s", (unsigned long long)r->records, what);
}

static int
read_seed(const char *hex, uint8_t seed[16])
{
    static const char digits[] = "0123456789abcdef";

    if (hex == NULL || strlen(hex) != 32)
        return -1;
    for (size_t i = 0; i < 32; i++) {
        const char *digit = strchr(digits, hex[i]);
        if (digit == NULL)
            return -1;
        seed[i / 2] = (uint8_t)(seed[i / 2] << 4 | (digit - digits));
    }
    return 0;
}

static int
play_start(struct cf_replay *r, const struct cf_record *record, struct cf_error *err)
{
    json_t *start = cf_json_parse(record->bytes, record->len, &limits, NULL);
    const char *protocol = cf_json_str(start, "protocol");
    uint8_t seed[16] = {0};

    if (r->start != NULL || protocol == NULL || read_seed(cf_json_str(start, "seed"), seed) < 0) {
        json_decref(start);
        return malformed(r, "no beginning as it should be", err);
    }
    r->start = start;
    r->is_acp = strcmp(protocol, "acp-v1") == 0;
    r->is_stream_json = cf_str_same(cf_json_str(start, "output_mode"), "stream_json");
    return cf_replay_begin(r, seed, err);
}

static int
play_output(struct cf_replay *r, const struct cf_record *record, struct cf_error *err)
{
    int status = 0;

    forget_heard(r); /* what was not passed on at once never was */
    if (r->acp != NULL)
        status = cf_acp_feed(r->acp, record->bytes, record->len);
    else if (r->oneshot != NULL)
        status = cf_oneshot_feed(r->oneshot, record->bytes, record->len);
    else
        return malformed(r, "output before a process", err);
    return status < 0 || r->has_no_memory ? cf_error_memory(err) : 0;
}

static int
play_input(struct cf_replay *r, const struct cf_record *record, struct cf_error *err)
{
    size_t len = record->len;

    if (r->acp == NULL)
        return 0; /* a prompt: the harness's business */
    while (len > 0 && record->bytes[len - 1] == '\n')
        len--;
    return cf_acp_replay_sent(r->acp, record->bytes, len) < 0 ? malformed(r, "no frame of ours", err) : 0;
}

static void
play_end(struct cf_replay *r)
{
    forget_heard(r);
    if (r->acp != NULL)
        cf_acp_end(r->acp);
    else if (r->oneshot != NULL)
        cf_oneshot_end(r->oneshot);
}

/* What the wire said and this call passed on; yours. */
static struct cf_heard *
take_heard(struct cf_replay *r, const struct cf_record_call *call)
{
    while (r->heard != NULL) {
        struct cf_heard *heard = r->heard;
        r->heard = heard->next;
        if (r->heard == NULL)
            r->heard_end = &r->heard;
        if (heard->which == call->which && heard->frame == call->frame)
            return heard;
        free_heard(heard);
    }
    return NULL;
}

static int
pass_on(struct cf_replay *r, const struct cf_record_call *call, struct cf_error *err)
{
    struct cf_heard *heard = take_heard(r, call);
    struct cf_error ignored;

    if (heard == NULL)
        return cf_error_set(err, CF_ERROR_INTERNAL, 0, "record %llu: live, the wire said %s at frame %llu; now it does not",
                            (unsigned long long)r->records, cf_recorded_call_name(call->which),
                            (unsigned long long)call->frame);
    if (call->which == CF_CALL_UPDATE)
        cf_normalizer_update(r->normalizer, heard->params, heard->value, call->frame);
    else if (call->which == CF_CALL_PERMISSION)
        cf_normalizer_permission(r->normalizer, heard->value, call->frame);
    else if (call->which == CF_CALL_TEXT)
        cf_normalizer_text(r->normalizer, heard->text != NULL ? heard->text : "", heard->len, call->frame);
    else if (cf_normalizer_object(r->normalizer, heard->value, call->frame, &ignored) < 0)
        r->has_failed = true; /* refused live too: how that ended is a record of its own */
    free_heard(heard);
    return 0;
}

/* Two texts with a NUL between; the copy is yours, the second within it. NULL: not of that form. */
static char *
two_texts(const struct cf_record_call *call, const char **ret_second, size_t *ret_second_len)
{
    const char *nul = memchr(call->bytes, '\0', call->len);
    char *copy = nul != NULL ? malloc(call->len + 1) : NULL;

    if (copy == NULL)
        return NULL;
    memcpy(copy, call->bytes, call->len);
    copy[call->len] = '\0';
    *ret_second = copy + (nul - call->bytes) + 1;
    *ret_second_len = call->len - (size_t)(*ret_second - copy);
    return copy;
}

static int
play_two_texts(struct cf_replay *r, const struct cf_record_call *call, struct cf_error *err)
{
    const char *second;
    size_t len;
    cf_auto_free char *first = two_texts(call, &second, &len);
    json_t *meta;

    if (first == NULL)
        return malformed(r, "a call without its texts", err);
    if (call->which == CF_CALL_FILE_CHANGED) {
        cf_normalizer_file_changed(r->normalizer, first, second);
    } else if (call->which == CF_CALL_STEERING) {
        cf_normalizer_steering(r->normalizer, first, second, call->frame);
    } else {
        meta = len > 0 ? cf_json_parse(second, len, &limits, NULL) : NULL;
        cf_normalizer_finished(r->normalizer, first, meta, call->frame);
        json_decref(meta);
    }
    return 0;
}

static int
play_value(struct cf_replay *r, const struct cf_record_call *call, struct cf_error *err)
{
    json_t *value = cf_json_parse(call->bytes, call->len, &limits, NULL);

    if (!json_is_object(value)) {
        json_decref(value);
        return malformed(r, "a call without its object", err);
    }
    if (call->which == CF_CALL_READY)
        cf_normalizer_ready(r->normalizer, value, call->frame);
    else if (call->which == CF_CALL_HOOK)
        cf_normalizer_hook(r->normalizer, value);
    else
        cf_normalizer_requires_action(r->normalizer, value, call->frame);
    json_decref(value);
    return 0;
}

static int
play_failed(struct cf_replay *r, const struct cf_record_call *call, struct cf_error *err)
{
    struct cf_error why = {0};

    if (call->len < 2 || (uint8_t)call->bytes[0] == 0 || (uint8_t)call->bytes[0] >= CF_ERROR_KIND_COUNT)
        return malformed(r, "a failure without its kind", err);
    (void)cf_error_set(&why, (enum cf_error_kind)(uint8_t)call->bytes[0], 0, "x");
    (void)snprintf(why.text, sizeof why.text, "%.*s", (int)(call->len - 2 < sizeof why.text ? call->len - 2 : sizeof why.text),
                   call->bytes + 2);
    cf_normalizer_failed(r->normalizer, &why, call->bytes[1] != 0, call->frame);
    return 0;
}

static int
play_grammar_text(struct cf_replay *r, const struct cf_record_call *call, struct cf_error *err)
{
    cf_auto_free char *text = strndup(call->bytes, call->len);

    if (text == NULL)
        return cf_error_memory(err);
    if (call->which == CF_CALL_STEER_SENT)
        cf_grammar_steer_sent(r->grammar, text);
    else
        cf_grammar_drain_answered(r->grammar, *text != '\0' ? text : NULL); /* none: no disposition at all */
    return 0;
}

static int
play_call(struct cf_replay *r, const struct cf_record *record, struct cf_error *err)
{
    struct cf_record_call call;

    if (cf_record_call_read(record, &call) < 0)
        return malformed(r, "a call that is too short", err);
    switch (call.which) {
    case CF_CALL_READY:
    case CF_CALL_HOOK:
    case CF_CALL_REQUIRES_ACTION:
        return play_value(r, &call, err);
    case CF_CALL_DECLARE:
        if (!r->has_declaration)
            return malformed(r, "a declaration that the wire did not bring", err);
        cf_normalizer_declare(r->normalizer, &r->declaration);
        cf_grammar_declare(r->grammar, &r->declaration);
        return 0;
    case CF_CALL_TURN_BEGIN:
        r->turn++;
        cf_normalizer_turn_begin(r->normalizer);
        cf_grammar_turn_begin(r->grammar);
        return 0;
    case CF_CALL_UPDATE:
    case CF_CALL_PERMISSION:
    case CF_CALL_TEXT:
    case CF_CALL_OBJECT:
        return pass_on(r, &call, err);
    case CF_CALL_FILE_CHANGED:
    case CF_CALL_STEERING:
    case CF_CALL_FINISHED:
        return play_two_texts(r, &call, err);
    case CF_CALL_FLUSH:
        cf_normalizer_flush(r->normalizer, call.frame);
        return 0;
    case CF_CALL_FAILED:
        return play_failed(r, &call, err);
    case CF_CALL_STEER_SENT:
    case CF_CALL_DRAIN_ANSWERED:
        return play_grammar_text(r, &call, err);
    case CF_CALL_DRAIN_SENT:
        cf_grammar_drain_sent(r->grammar);
        return 0;
    case CF_CALL_TURN_END:
        cf_grammar_turn_end(r->grammar);
        return 0;
    default:
        return 0; /* of a later minor version */
    }
}

static void
keep(json_t **slot, const struct cf_record *record)
{
    json_decref(*slot);
    *slot = cf_json_parse(record->bytes, record->len, &limits, NULL);
}

int
cf_replay_record(void *user, const struct cf_record *record, struct cf_error *err)
{
    struct cf_replay *r = user;
    json_t *masked = NULL;

    r->records++;
    r->at_ms = record->at_ms;
    if (record->kind != CF_RECORD_START && r->normalizer == NULL)
        return malformed(r, "it comes before the beginning", err);
    switch (record->kind) {
    case CF_RECORD_START:
        return play_start(r, record, err);
    case CF_RECORD_OUTPUT:
        return play_output(r, record, err);
    case CF_RECORD_INPUT:
        return play_input(r, record, err);
    case CF_RECORD_CALL:
        return play_call(r, record, err);
    case CF_RECORD_SPAWN:
        return r->is_acp ? 0 : cf_replay_spawn(r, err);
    case CF_RECORD_END:
        play_end(r);
        return 0;
    case CF_RECORD_RESULT:
        keep(&r->result, record);
        return 0;
    case CF_RECORD_VERDICT:
        keep(&r->verdict, record);
        return 0;
    case CF_RECORD_MASKED:
        keep(&masked, record);
        r->masked = (uint64_t)cf_json_int(masked, "count", 0);
        json_decref(masked);
        return 0;
    default:
        return 0; /* for eyes, or of a later minor version */
    }
}

/* ---- the end ------------------------------------------------------------------------------------ */

json_t *
cf_replay_recorded_result(const struct cf_replay *r)
{
    return r->result;
}

json_t *
cf_replay_recorded_verdict(const struct cf_replay *r)
{
    return r->verdict;
}

json_t *
cf_replay_start(const struct cf_replay *r)
{
    return r->start;
}

uint64_t
cf_replay_masked(const struct cf_replay *r)
{
    return r->masked;
}

json_t *
cf_replay_verdict(const struct cf_replay *r)
{
    static const char *const verdicts[] = {"skipped", "passed", "failed"};
    json_t *list = json_array();

    for (int check = 0; r->grammar != NULL && check < CF_GRAMMAR_CHECKS; check++) {
        struct cf_grammar_result one = {0};
        cf_grammar_result(r->grammar, (enum cf_grammar_check)check, &one);
        (void)json_array_append_new(list, json_pack("{s:s, s:s, s:s, s:I, s:I}", "id", one.id, "status",
                                                    verdicts[one.verdict], "summary", one.summary, "seq",
                                                    (json_int_t)one.seq, "frame", (json_int_t)one.frame));
    }
    if (r->normalizer == NULL)
        return json_pack("{s:o, s:n}", "grammar", list, "observations");
    return json_pack("{s:o, s:{s:I, s:o, s:I}}", "grammar", list, "observations", "count", (json_int_t)r->seq, "by_type",
                     cf_normalizer_counts(r->normalizer), "shortened",
                     (json_int_t)cf_normalizer_shortened(r->normalizer));
}

bool
cf_replay_is_same(const struct cf_replay *r, json_t *verdict)
{
    return r->result != NULL &&
           json_equal(json_object_get(r->result, "grammar"), json_object_get(verdict, "grammar")) &&
           json_equal(json_object_get(r->result, "observations"), json_object_get(verdict, "observations"));
}

struct cf_replay *
cf_replay_new(const struct cf_replay_events *events)
{
    struct cf_replay *r = calloc(1, sizeof *r);

    if (r != NULL) {
        r->on = *events;
        r->heard_end = &r->heard;
    }
    return r;
}

void
cf_replay_free(struct cf_replay *r)
{
    if (r == NULL)
        return;
    forget_heard(r);
    cf_acp_free(r->acp);
    cf_oneshot_free(r->oneshot);
    cf_normalizer_free(r->normalizer);
    cf_grammar_free(r->grammar);
    json_decref(r->start);
    json_decref(r->result);
    json_decref(r->verdict);
    json_decref(r->capability_set);
    free(r);
}
