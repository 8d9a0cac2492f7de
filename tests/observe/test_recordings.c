/* What real agents said, through the client, the normalizer and the grammar: no complaint. */
#include "tests/observe/watch.h"

#include "wire/wire.h"

#include <glob.h>

#define FOLDER "../shared/data/acp-recordings"

struct replay {
    struct cf_acp *acp;
    struct watch watch;
    const char *file;
    json_t *capability_set;
    unsigned turns, failed_calls, permissions;
    bool is_strict;
};

static void
on_initialized(void *user, json_t *result, uint64_t frame)
{
    struct replay *r = user;
    struct cf_declaration declaration;
    struct cf_error err = {0};

    ck_assert_msg(cf_declaration_read(result, &declaration, &err) == 0, "%s: %s", r->file, err.text);
    cf_normalizer_declare(r->watch.n, &declaration);
    cf_grammar_declare(r->watch.g, &declaration);
    json_t *envelope = cf_envelope_acp(false);
    r->capability_set = cf_declaration_admit(envelope, &declaration);
    json_decref(envelope);
}

static void
on_session(void *user, const char *session_id, json_t *result, uint64_t frame)
{
    struct replay *r = user;

    cf_normalizer_ready(r->watch.n, r->capability_set, frame);
}

static void
on_frame(void *user, bool from_agent, uint64_t number, const char *line, size_t len)
{
    struct replay *r = user;
    json_t *frame = from_agent ? NULL : cf_json_parse(line, len, NULL, NULL);
    const char *method = cf_json_str(frame, "method");

    if (method != NULL && strcmp(method, "session/prompt") == 0) {
        watch_turn(&r->watch);
        r->turns++;
    }
    json_decref(frame);
}

static void
on_update(void *user, json_t *params, json_t *said, uint64_t frame)
{
    cf_normalizer_update(((struct replay *)user)->watch.n, params, said, frame);
}

static void
on_permission(void *user, const struct cf_acp_permission *permission)
{
    struct replay *r = user;

    r->permissions++;
    ck_assert(cf_acp_permission_pick(permission, true) != NULL && cf_acp_permission_pick(permission, false) != NULL);
    cf_normalizer_permission(r->watch.n, permission->tool_call, permission->frame);
}

static void
on_done(void *user, const char *stop_reason, json_t *result, uint64_t frame)
{
    struct replay *r = user;

    cf_normalizer_finished(r->watch.n, strcmp(stop_reason, "cancelled") == 0 ? "interrupted" : stop_reason,
                           cf_slot_find(CF_SLOT_TURN, cf_json_obj(result, "_meta")), frame);
    cf_grammar_turn_end(r->watch.g);
}

static void
on_call_failed(void *user, const char *method, json_t *error, uint64_t frame)
{
    struct replay *r = user;
    struct cf_error err = {0};

    r->failed_calls++;
    (void)cf_error_set(&err, CF_ERROR_CREDENTIAL, 0, "%s: %s", method, cf_json_str(error, "message"));
    cf_normalizer_failed(r->watch.n, &err, false, frame);
    cf_grammar_turn_end(r->watch.g);
}

static void
on_finding(void *user, enum cf_acp_finding_kind kind, uint64_t frame, const char *text)
{
    struct replay *r = user;

    /* codex 2.6 is the one that tells its session's end after the answer; nothing else may be found */
    ck_assert_msg(kind == CF_ACP_UPDATE_AFTER_TERMINAL, "%s: %s: %s", r->file, cf_acp_finding_name(kind), text);
}

static void
on_broken(void *user, const struct cf_error *err)
{
    ck_abort_msg("%s: %s", ((struct replay *)user)->file, err->text);
}

static void
play_line(struct replay *r, json_t *record)
{
    const char *dir = cf_json_str(record, "dir");
    json_t *line = json_object_get(record, "line");

    if (strcmp(dir, "c2a") == 0) {
        ck_assert_int_eq(cf_acp_replay_sent(r->acp, json_string_value(line), json_string_length(line)), 0);
    } else if (strcmp(dir, "a2c") == 0) {
        ck_assert_int_eq(cf_acp_feed(r->acp, json_string_value(line), json_string_length(line)), 0);
        ck_assert_int_eq(cf_acp_feed(r->acp, "\n", 1), 0);
    }
}

static void
play(const char *file)
{
    static const struct cf_acp_events events = {
        .on_frame = on_frame, .on_initialized = on_initialized, .on_session = on_session, .on_update = on_update,
        .on_permission = on_permission, .on_prompt_done = on_done, .on_call_failed = on_call_failed,
        .on_finding = on_finding, .on_broken = on_broken,
    };
    const struct cf_acp_options options = {.is_replay = true};
    struct replay r = {.file = file};
    FILE *stream = fopen(file, "r");
    char *text = NULL;
    size_t cap = 0;
    ssize_t len;

    watch_open(&r.watch, true);
    r.acp = cf_acp_new(&options, &events, &r);
    while ((len = getline(&text, &cap, stream)) > 0) {
        json_t *record = cf_json_parse(text, (size_t)len, NULL, NULL);
        ck_assert(record != NULL);
        play_line(&r, record);
        json_decref(record);
    }
    cf_acp_end(r.acp);
    fclose(stream);
    free(text);
    ck_assert_msg(r.turns == 1, "%s", file);
    bool is_bad_key = strstr(file, "codex-acp-badkey") != NULL;
    for (int check = 0; check < CF_GRAMMAR_CHECKS; check++) {
        struct cf_grammar_result result;
        cf_grammar_result(r.watch.g, (enum cf_grammar_check)check, &result);
        bool may_fail = is_bad_key && check == CF_GRAMMAR_TERMINAL_OBSERVATION; /* the model refused */
        ck_assert_msg(result.verdict != CF_VERDICT_FAILED || may_fail, "%s: %s: %s (frame %d)", file, result.id,
                      result.summary, (int)result.frame);
    }
    ck_assert_uint_eq(r.failed_calls, is_bad_key);
    if (getenv("CF_OBSERVATIONS_OUT") != NULL) { /* for a second opinion by another validator */
        FILE *out = fopen(getenv("CF_OBSERVATIONS_OUT"), "a");
        fputs(r.watch.raw.data, out);
        fclose(out);
    }
    cf_acp_free(r.acp);
    json_decref(r.capability_set);
    watch_close(&r.watch);
}

START_TEST(recorded_agents_pass_without_complaint)
{
    glob_t found;

    if (glob(FOLDER "/*.ndjson", 0, NULL, &found) != 0 || found.gl_pathc == 0) {
        printf("SKIPPED recorded agents: %s has no recordings\n", FOLDER);
        return;
    }
    for (size_t i = 0; i < found.gl_pathc; i++)
        play(found.gl_pathv[i]);
    globfree(&found);
}
END_TEST

UNIT_MAIN("observe/recordings", tcase_add_test(tc, recorded_agents_pass_without_complaint);)
