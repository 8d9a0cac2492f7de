/*
 * From a checkpoint's document back into a run. Its folder is the operator's, but what lies in it
 * was a hostile program's: no symlink of it is followed, and the sandbox's own limits hold. The
 * state is given to an agent that declares it keeps such a thing outside, and to no other.
 */
#include "run/restore.h"
#include "run/hall.h"

#include "base/str.h"
#include "json/json.h"

#include <string.h>

/* ---- the document ----------------------------------------------------------------------------- */

static int
wrong(struct cf_error *err, const char *what)
{
    (void)cf_error_set(err, CF_ERROR_CONFIG, 0, "options: restore: %s", what);
    return cf_error_fix(err, "give a document of on_checkpoint_made as it came (proto/checkpoint.schema.json)");
}

static int
check_state(json_t *state, struct cf_error *err)
{
    json_t *text = json_object_get(state, "state");

    if (json_is_null(state))
        return 0;
    if (json_object_size(state) != 2 || cf_json_int(state, "version", 0) != 1 || !json_is_string(text))
        return wrong(err, "state is neither null nor {\"version\":1,\"state\":\"...\"}");
    if (json_string_length(text) > CF_RESTORE_STATE_BYTES)
        return wrong(err, "state is larger than 1 MiB");
    return 0;
}

static bool
is_count(const json_t *value)
{
    return json_is_integer(value) && json_integer_value(value) >= 0;
}

static int
check_members(const json_t *document, struct cf_error *err)
{
    static const char *const known[] = {"schema_version", "run", "made_at", "protocol", "turns",
                                        "state", "state_turns", "session", "working_directory",
                                        "directory", "collected", "error"};
    const char *name;
    json_t *value;

    for (size_t i = 0; i < CF_COUNT(known); i++)
        if (json_object_get(document, known[i]) == NULL) {
            (void)cf_error_set(err, CF_ERROR_CONFIG, 0, "options: restore: %s is missing", known[i]);
            return cf_error_fix(err, "give a document of on_checkpoint_made as it came (proto/checkpoint.schema.json)");
        }
    json_object_foreach((json_t *)document, name, value)
    {
        bool is_known = false;
        for (size_t i = 0; i < CF_COUNT(known); i++)
            is_known = is_known || strcmp(known[i], name) == 0;
        if (!is_known)
            return wrong(err, "it has a member that no checkpoint has");
    }
    return 0;
}

int
cf_restore_check(const json_t *document, struct cf_error *err)
{
    json_t *directory = json_object_get(document, "directory");
    const char *protocol = cf_json_str(document, "protocol");

    if (check_members(document, err) < 0)
        return -1;
    if (cf_json_int(document, "schema_version", 0) != 1)
        return wrong(err, "its schema_version is not 1");
    if (!json_is_null(json_object_get(document, "error")))
        return wrong(err, "this checkpoint was not made: its error says why");
    if (!cf_str_same(protocol, "acp-v1") && !cf_str_same(protocol, "oneshot-v1"))
        return wrong(err, "its protocol is none that is known");
    if (!json_is_string(directory) || json_string_length(directory) > 4095 ||
        strlen(json_string_value(directory)) != json_string_length(directory) || json_string_value(directory)[0] != '/')
        return wrong(err, "its directory is not an absolute path");
    if (!is_count(json_object_get(document, "turns")) ||
        (!is_count(json_object_get(document, "state_turns")) && !json_is_null(json_object_get(document, "state_turns"))))
        return wrong(err, "its turns are no count");
    return check_state(json_object_get(document, "state"), err);
}

/* ---- what it brings ------------------------------------------------------------------------------- */

const char *
cf_restore_directory(const struct cf_run *run)
{
    return cf_json_str(run->options.restore, "directory");
}

int
cf_restore_prepare(struct cf_run *run, struct cf_error *err)
{
    json_t *document = run->options.restore;
    bool is_of_acp = cf_str_same(cf_json_str(document, "protocol"), "acp-v1");

    if (document == NULL)
        return 0;
    if (is_of_acp != run->release.is_acp)
        return wrong(err, is_of_acp ? "the checkpoint is of acp-v1, the release is not"
                                    : "the checkpoint is of oneshot-v1, the release is not");
    if (run->options.state_in != NULL)
        return wrong(err, "state_in beside it would be a second state");
    if (json_object_get(run->options.session_meta, "checkfu.resume") != NULL)
        return wrong(err, "checkfu.resume in session_meta beside it would be a second state");
    run->turns_before = (uint64_t)cf_json_int(document, "turns", 0);
    if (is_of_acp || run->turns_before == 0)
        return 0;
    if (run->release.resume_flag == NULL)
        return wrong(err, "this release has no resume flag to continue it with");
    run->options.continues = true;
    return 0;
}

void
cf_restore_hold(struct cf_run *run)
{
    json_t *state = cf_json_obj(run->options.session_meta, "checkfu.resume");

    if (state == NULL || run->held_state != NULL)
        return;
    cf_keep_state(run, state);
    run->held_turns = (uint64_t)cf_json_int(run->options.restore, "state_turns", 0);
}

void
cf_restore_resume(struct cf_run *run)
{
    json_t *state = cf_json_obj(run->options.restore, "state"), *meta = run->options.session_meta;
    const char *continuity = cf_json_str(meta, "checkfu.continuity");

    if (state == NULL || run->options.session != NULL ||
        (continuity != NULL && strcmp(continuity, "same_run_resume") != 0))
        return; /* none is held, or the host has chosen another way */
    if (!run->declaration.native_checkpoint) {
        cf_emit_finding(run, "restore_state_unused", 0,
                        "the checkpoint holds a state, but this agent does not declare native_checkpoint: it has "
                        "the files alone");
        return;
    }
    if (meta == NULL) {
        meta = json_object();
        (void)json_object_set_new(run->options.json, "session_meta", meta);
        run->options.session_meta = json_object_get(run->options.json, "session_meta");
    }
    (void)json_object_set(meta, "checkfu.resume", state);
    (void)json_object_set_new(meta, "checkfu.continuity", json_string("same_run_resume"));
}
