/*
 * The verbs collect and checkpoint. Both fill a fresh folder by the walker that the end of a run
 * uses (collect.c), and are settled by one callback with a document. A checkpoint is that folder
 * and what else a later run needs: the state that the agent last gave, and how far it had come.
 */
#include "run/keep.h"
#include "run/hall.h"

#include "base/clock.h"
#include "base/str.h"
#include "json/json.h"

#include <string.h>

#define REQUEST_BYTES (64u * 1024u)
#define COLLECT_REFUSED 1000u
#define CHECKPOINT_REFUSED 100u /* named in a document that goes into another run's options */

struct cf_keep {
    json_t *request; /* owns both texts */
    const char *directory, *part;
    bool is_checkpoint, is_begun;
    json_t *reports;
};

/* ---- what was asked for ---------------------------------------------------------------------- */

static void
keep_free(struct cf_keep *keep)
{
    if (keep == NULL)
        return;
    json_decref(keep->request);
    json_decref(keep->reports);
    free(keep);
}

static const char *
verb(bool is_checkpoint)
{
    return is_checkpoint ? "checkpoint" : "collect";
}

static bool
is_text(const json_t *value, size_t most)
{
    return json_is_string(value) && json_string_length(value) > 0 && json_string_length(value) <= most &&
           strlen(json_string_value(value)) == json_string_length(value);
}

static int
read_member(struct cf_keep *keep, const char *name, json_t *value, struct cf_error *err)
{
    if (strcmp(name, "directory") == 0) {
        if (!is_text(value, 4095) || json_string_value(value)[0] != '/')
            return cf_error_set(err, CF_ERROR_CONFIG, 0, "%s: directory is not an absolute path of this machine",
                                verb(keep->is_checkpoint));
        keep->directory = json_string_value(value);
        return 0;
    }
    if (strcmp(name, "path") == 0 && !keep->is_checkpoint) {
        if (!is_text(value, 4095) || !cf_collect_path_is_sound(json_string_value(value)))
            return cf_error_set(err, CF_ERROR_CONFIG, 0, "collect: path is not a path beneath the working directory");
        keep->part = json_string_value(value);
        return 0;
    }
    return cf_error_set(err, CF_ERROR_CONFIG, 0, "%s: %.100s is not a member of the document",
                        verb(keep->is_checkpoint), name);
}

static int
read_request(struct cf_keep *keep, const char *json, size_t len, struct cf_error *err)
{
    static const struct cf_json_limits limits = {REQUEST_BYTES, 2, 20, true, true};
    const char *name;
    json_t *value;

    keep->request = cf_json_parse(json, len, &limits, err);
    if (keep->request == NULL)
        return cf_error_wrap(err, "%s", verb(keep->is_checkpoint));
    json_object_foreach(keep->request, name, value)
        if (read_member(keep, name, value, err) < 0)
            return -1;
    if (keep->directory == NULL)
        return cf_error_set(err, CF_ERROR_CONFIG, 0, "%s: directory is missing", verb(keep->is_checkpoint));
    return 0;
}

/* ---- the documents -------------------------------------------------------------------------------- */

static json_t *
document_of(const struct cf_run *run, const struct cf_keep *keep, json_t *report)
{
    json_t *state_turns = run->held_state != NULL ? json_integer((json_int_t)run->held_turns) : json_null();
    char made_at[21];

    cf_clock_rfc3339(cf_clock_unix(), made_at);
    return json_pack("{s:i, s:s, s:s, s:s, s:I, s:O?, s:o, s:s?, s:s, s:s, s:O?, s:s?}", "schema_version", 1, "run",
                     run->id, "made_at", made_at, "protocol",
                     run->release.is_acp ? "acp-v1" : "oneshot-v1", "turns",
                     (json_int_t)(run->turns_before + run->turn), "state", run->held_state, "state_turns", state_turns,
                     "session", cf_json_str(run->session, "id"), "working_directory",
                     cf_sandbox_working_directory(run->sandbox), "directory", keep->directory, "collected", report,
                     "error", cf_json_str(report, "error"));
}

/* Done, one way or the other: the host hears of it, and may ask anew from in there. */
static void
settle(struct cf_run *run)
{
    static const char no_memory[] = "{\"error\":\"out of memory\"}";
    struct cf_keep *keep = run->keep;
    void (*then)(struct cf_run *) = run->keep_then;
    bool is_checkpoint = keep->is_checkpoint;
    json_t *report = json_array_get(keep->reports, 0);
    json_t *document = report == NULL   ? NULL
                       : is_checkpoint ? document_of(run, keep, report)
                                       : json_incref(report);
    size_t len = 0;
    cf_auto_free char *made = document != NULL ? cf_json_dump(document, &len) : NULL;
    const char *text = made != NULL ? made : no_memory;

    if (made == NULL)
        len = sizeof no_memory - 1;
    json_decref(document);
    keep_free(keep);
    run->keep = NULL;
    run->keep_then = NULL;
    if (is_checkpoint && run->host.on_checkpoint_made != NULL)
        run->host.on_checkpoint_made(run->host.user, text, len);
    else if (!is_checkpoint && run->host.on_collected != NULL)
        run->host.on_collected(run->host.user, text, len);
    if (then != NULL)
        then(run);
}

static void
on_filled(struct cf_run *run, int status, const struct cf_error *err)
{
    settle(run); /* how it went, the report says */
}

static void
on_prepared(struct cf_run *run, int status, const struct cf_error *err)
{
    if (run->collects[CF_COLLECT_ASKED].at == NULL)
        settle(run); /* it ended there already */
    else
        cf_collect_begin(run, CF_COLLECT_ASKED, on_filled);
}

/* ---- the hall's side ------------------------------------------------------------------------------ */

void
cf_keep_begin(struct cf_run *run)
{
    struct cf_keep *keep = run->keep;
    struct cf_error why;
    size_t most;

    if (keep == NULL || keep->is_begun)
        return;
    keep->is_begun = true;
    most = keep->is_checkpoint ? CHECKPOINT_REFUSED : COLLECT_REFUSED;
    if (cf_collect_ask(run, keep->directory, keep->part, most, on_prepared, &keep->reports, &why) < 0)
        settle(run);
}

void
cf_keep_give_up(struct cf_run *run)
{
    cf_keep_begin(run); /* so that it ends like any other */
    cf_collect_give_up(run, CF_COLLECT_ASKED);
}

void
cf_keep_await(struct cf_run *run, void (*then)(struct cf_run *run))
{
    if (run->keep != NULL)
        run->keep_then = then;
    else
        then(run);
}

bool
cf_keep_is_checkpoint(const struct cf_run *run)
{
    return run->keep != NULL && run->keep->is_checkpoint;
}

void
cf_keep_state(struct cf_run *run, json_t *state)
{
    json_decref(run->held_state);
    run->held_state = json_incref(state);
    run->held_turns = run->turns_before + run->turn;
}

/* ---- the public door --------------------------------------------------------------------------------- */

static int
check_moment(const struct cf_run *run, bool is_checkpoint, struct cf_error *err)
{
    if (run->state != CF_HALL_OPEN || run->close_wanted)
        return cf_error_set(err, CF_ERROR_CONFIG, 0, "%s: not now: %s", verb(is_checkpoint),
                            run->state == CF_HALL_OPENING && !run->close_wanted ? "the session is not open yet"
                                                                                : "the run is over");
    if (run->keep != NULL)
        return cf_error_set(err, CF_ERROR_CONFIG, 0, "%s: not now: a %s is under way, and they come one at a time",
                            verb(is_checkpoint), run->keep->is_checkpoint ? "checkpoint" : "collection");
    return 0;
}

/* What a run promises to forget, or cannot go on from, is not kept. */
static int
check_may_keep(const struct cf_run *run, struct cf_error *err)
{
    const char *axis = cf_json_str(run->capability_set, "checkpoint");

    if (run->turn_state != CF_TURN_NONE || run->prompt_wanted)
        return cf_error_set(err, CF_ERROR_CONFIG, 0, "checkpoint: not now: a turn is in flight");
    if (run->options.is_ephemeral) {
        (void)cf_error_set(err, CF_ERROR_CONFIG, 0, "checkpoint: it outlives the run, and retention ephemeral_zdr keeps nothing");
        return cf_error_fix(err, "open the run with retention durable");
    }
    if (axis != NULL && strcmp(axis, "none") != 0)
        return 0;
    (void)cf_error_set(err, CF_ERROR_INCOMPATIBLE, 0, "checkpoint: the capability set of this harness says none");
    return cf_error_fix(err, "a oneshot-v1 release needs a resume flag to be continued; collect takes its files out");
}

static int
ask(struct cf_run *run, bool is_checkpoint, const char *json, size_t len, struct cf_error *err)
{
    struct cf_keep *keep;

    if (check_moment(run, is_checkpoint, err) < 0 || (is_checkpoint && check_may_keep(run, err) < 0))
        return -1;
    keep = calloc(1, sizeof *keep);
    if (keep == NULL)
        return cf_error_memory(err);
    keep->is_checkpoint = is_checkpoint;
    if (read_request(keep, json, len, err) < 0) {
        keep_free(keep);
        return -1;
    }
    run->keep = keep;
    cf_hall_kick(run);
    return 0;
}

int
cf_run_collect(struct cf_run *run, const char *collect_json, size_t len, struct cf_error *err)
{
    return ask(run, false, collect_json, len, err);
}

int
cf_run_checkpoint(struct cf_run *run, const char *checkpoint_json, size_t len, struct cf_error *err)
{
    return ask(run, true, checkpoint_json, len, err);
}
